# SPDX-License-Identifier: GPL-2.0-or-later
"""Node ports as kube-proxy's iptables mode serves them: on every address of the node and on localhost,
for processes of the node only (IPT-12, SVC-10, CVE-2020-8558). The ipvs plane does so when the flags
ask for it."""
import contextlib
import re
import socket
import subprocess

import pytest

import daemon
import lab as L
import planes
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
NODE_PORT = 30090
EVERYWHERE = {"nodeport_addresses": "0.0.0.0/0,::/0"}
SERVED = {"nft": {"proxy_mode": "iptables"},
          "ipvs": dict(EVERYWHERE, iptables_localhost_nodeports=True)}[planes.PLANE]
# Each without node ports on localhost.
NOT_SERVED = {
    "nft": ({"proxy_mode": "iptables", "iptables_localhost_nodeports=false": True},
            {"proxy_mode": "iptables", "nodeport_addresses": "192.168.0.0/24,fd00:192::/64"},
            {"proxy_mode": "nftables"}),
    "ipvs": (dict(EVERYWHERE), dict(EVERYWHERE, **{"iptables_localhost_nodeports=false": True}),
             {"iptables_localhost_nodeports": True}),
}[planes.PLANE]


def objects(endpoints, **kw):
    ports = [port(80, p, p.lower(), NODE_PORT) for p in ("TCP", "UDP")]
    out = [service("np", [L.cluster_ip(90, 4), L.cluster_ip(90, 6)], ports, **kw)]
    for fam in (4, 6):
        eps = [entry(e[fam], L.NODE_NAME if e in (E1, L.NODE) else "n2") for e in endpoints]
        out.append(slice_("np", eps, [slice_port(8080, p, p.lower()) for p in ("TCP", "UDP")],
                          fam=fam))
    return out


def restart(vipd, **flags):
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS)
    vipd.flags.update({"--" + k.replace("_", "-"): v for k, v in flags.items()})
    vipd.start()


@pytest.fixture(scope="module")
def served(vipd, steady):
    restart(vipd, **SERVED)
    return vipd


@FAM
@PROTO
def test_localhost(lab, served, fam, proto):
    """A process of the node reaches a local and a remote endpoint, a backend that is the node itself
    too; the endpoint sees the node, and many packets of one connection are translated."""
    host = lab.serve("node", "8080")
    try:
        for e in (E1, E2, L.NODE):
            served.apply(objects([e]))
            conn, r = L.connect(lab.node, LOOPBACK[fam], NODE_PORT, proto)
            assert r.ok, r
            for _ in range(20):
                answer = conn.ask()
                assert answer.ok and answer.backend == e[fam], answer
            assert answer.peer not in LOOPBACK.values()
            conn.close()
    finally:
        host.kill()


@FAM
@pytest.mark.parametrize("etp", ("Cluster", "Local"))
def test_policies(lab, served, fam, etp):
    """Localhost is a client of the node: with externalTrafficPolicy Local it reaches remote endpoints
    (POL-25); without any endpoint it is refused (REJ-01)."""
    served.apply(objects([E2], etp=etp))
    assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).backend == E2[fam]
    served.apply(objects([], etp=etp))
    assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).what == "refused"


@FAM
def test_affinity(lab, served, fam):
    """A client on localhost is the node: affinity applies."""
    served.apply(objects([E1, E2], affinity=600))
    first = L.probe(lab.node, LOOPBACK[fam], NODE_PORT)
    assert first.ok, first
    for _ in range(6):
        assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).backend == first.backend


@FAM
def test_own_loopback_traffic(lab, served, fam):
    """Other loopback traffic is not translated."""
    served.apply(objects([E2]))
    server = lab.serve("node", "90")
    try:
        r = L.probe(lab.node, LOOPBACK[fam], 90)
        assert r.ok and r.backend == r.peer == LOOPBACK[fam]
        r = L.probe(lab.node, L.NODE[fam], 90, source=L.NODE[fam])
        assert r.ok and r.peer == L.NODE[fam]
    finally:
        server.kill()


@FAM
def test_client_has_the_port(lab, served, fam):
    """A client of the host that got a node port as its own port: answers reach it. A reserved port is
    served on localhost."""
    server = lab.serve("node", "90")
    sysctls = {"net__ipv4__ip_local_port_range": "1024 65535",
               "net__ipv4__ip_local_reserved_ports": "8080,%d" % (NODE_PORT + 1)}
    lab.node.sysctl(**sysctls)
    try:
        restart(served, **SERVED)
        served.apply(objects([E2]))
        assert "node port %d: not served on localhost" % NODE_PORT in served.log()
        assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).what == "refused"
        assert L.probe(lab.client, L.NODE_TO_CLIENT[fam], NODE_PORT).backend == E2[fam]
        s = lab.node.socket(L.af(LOOPBACK[fam]), socket.SOCK_STREAM)
        s.settimeout(L.LATE)
        s.bind((LOOPBACK[fam], NODE_PORT))
        s.connect((LOOPBACK[fam], 90))
        conn = L.Conn(s, "tcp")
        assert conn.ask().ok
        conn.close()
        lab.node.sysctl(net__ipv4__ip_local_reserved_ports="8080,30000-32767")
        restart(served, **SERVED)
        assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).backend == E2[fam]
    finally:
        lab.node.sysctl(net__ipv4__ip_local_reserved_ports="\n",
                        net__ipv4__ip_local_port_range="32768 60999")
        server.kill()
        restart(served, **SERVED)


@FAM
def test_all_addresses(lab, served, fam):
    """SVC-10: every address of the node, not only the primary one."""
    served.apply(objects([E2]))
    for addr in (L.NODE, L.NODE_TO_CLIENT, L.NODE_TO_WORLD, L.BRIDGE):
        assert L.probe(lab.client, addr[fam], NODE_PORT).backend == E2[fam]
    served.check_tables()


@contextlib.contextmanager
def neighbour(lab):
    """A host beside the node that sends packets for loopback addresses to the node."""
    addrs = {4: ("172.31.9.1", "172.31.9.2"), 6: ("fd00:31:9::1", "fd00:31:9::2")}
    ns = L.Ns(lab.id + "-evil")
    try:
        lab.node.run("ip", "link", "add", "ev0", "type", "veth", "peer", "name", "eth0", "netns",
                     ns.name)
        ns.run("ip", "link", "set", "lo", "up")
        ns.sysctl(net__ipv4__conf__all__route_localnet=1, net__ipv4__conf__all__rp_filter=0)
        for own, other, dev in ((0, 1, "ev0"), (1, 0, "eth0")):
            where = lab.node if dev == "ev0" else ns
            where.run("ip", "link", "set", dev, "up")
            for fam in (4, 6):
                where.run("ip", "addr", "add", addrs[fam][own] + ("/24" if fam == 4 else "/64"),
                          "dev", dev, *(["nodad"] if fam == 6 else []))
        ns.run("ip", "addr", "del", "127.0.0.1/8", "dev", "lo")
        ns.run("ip", "addr", "del", "::1/128", "dev", "lo")
        for fam in (4, 6):
            ns.run("ip", "-%d" % fam, "route", "add", LOOPBACK[fam], "via", addrs[fam][0])
        yield ns, {fam: a[1] for fam, a in addrs.items()}
    finally:
        ns.close()
        subprocess.run(["ip", "-n", lab.node.name, "link", "del", "ev0"], capture_output=True,
                       check=False)


def arrived(lab, fam):
    """Packets for the loopback address that came to the node from the neighbour."""
    text = lab.node.run("nft", "list", "table", "inet", "seen")
    return int(re.search(r"ip%s daddr \S+ counter packets (\d+)" % ("6" if fam == 6 else ""),
                         text).group(1))


SEEN = """table inet seen { chain c { type filter hook prerouting priority raw
  iifname "ev0" ip daddr 127.0.0.1 counter
  iifname "ev0" ip6 daddr ::1 counter
}
}"""


@PROTO
def test_neighbour(lab, served, proto):
    """CVE-2020-8558: a neighbour that sends packets for a loopback address reaches neither the node
    port nor a server of the node that listens on loopback, and no sysctl opens the way. (The kernel
    drops ::1 before any rule sees it.)"""
    served.apply(objects([E2]))
    server = lab.serve("node", "90")
    try:
        lab.node.run("nft", "-f", "-", input=SEEN)
        with neighbour(lab) as (ns, own):
            for fam in (4, 6):
                assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT, proto).ok
                for number in (NODE_PORT, 90):
                    r = L.probe(ns, LOOPBACK[fam], number, proto, timeout=0.3 * L.SLOW,
                                source=own[fam])
                    assert not r.ok, r
            assert arrived(lab, 4) >= 2, "the packets did not reach the node"
            for name in ("all", "default", "ev0", "nd0", "br0"):
                path = "/proc/sys/net/ipv4/conf/%s/route_localnet" % name
                assert lab.node.run("cat", path).strip() == "0"
    finally:
        server.kill()
        lab.node.run("nft", "add table inet seen; delete table inet seen")


def test_switched_off(lab, served):
    """--iptables-localhost-nodeports=false, another list of addresses, and modes whose default it is
    not: not served on loopback; what served it is taken back from the running table."""
    for flags in NOT_SERVED:
        restart(served, **flags)
        served.apply(objects([E2]))
        for fam in (4, 6):
            assert L.probe(lab.node, LOOPBACK[fam], NODE_PORT).what == "refused"
            assert L.probe(lab.client, L.NODE[fam], NODE_PORT).backend == E2[fam]
    restart(served, iptables_localhost_nodeports=True,
            nodeport_addresses="127.0.0.0/8,192.168.0.0/24")
    served.apply(objects([E2]))
    assert L.probe(lab.node, "127.0.0.1", NODE_PORT).backend == E2[4]
    assert L.probe(lab.client, L.NODE[4], NODE_PORT).backend == E2[4]


def test_prefixes_of_one_family(lab, served):
    """SVC-07: a family without a prefix, or whose prefixes match no address, has no node ports: log,
    status and the service name it."""
    for prefixes, text in (
            ("192.168.0.0/24", "IPv6 node ports are not served: --nodeport-addresses has no IPv6"),
            ("192.168.0.0/24,fd99::/64",
             "IPv6 node ports are not served: no IPv6 address of this node is in")):
        restart(served, nodeport_addresses=prefixes)
        served.apply(objects([E2]))
        assert L.probe(lab.client, L.NODE[4], NODE_PORT).backend == E2[4]
        assert L.probe(lab.client, L.NODE[6], NODE_PORT).what == "refused"
        assert text in served.log() and text in served.ctl("svc")
        assert text in served.ctl("status", check=False)
    restart(served)
    assert "node ports are not served" not in served.ctl("status", check=False)
