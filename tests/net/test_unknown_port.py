# SPDX-License-Identifier: GPL-2.0-or-later
"""Ports that no service has, on addresses that a service has: of a router in front of the node
(REJ-17), and of the node itself (REJ-05)."""
import contextlib
import json
import re
import socket

import pytest

import lab as L
import planes
import rawpackets
from objects import service, slice_
from shop import E1, E2
from test_health import scrape

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
METRIC = 'vipd_rejected_packets_total{reason="unknown_port"}'
# TCP flags: FIN and ACK, RST, SYN and ACK.
STRAYS = (0x11, 0x04, 0x12)
CAPTURE = """table inet looped {
 chain c {
  type filter hook prerouting priority raw
  iifname "eth0" ip daddr { 192.0.2.40, 198.51.100.40 } counter
  iifname "eth0" ip6 daddr { 2001:db8:200::28, 2001:db8:100::28 } counter
 }
}
"""


@contextlib.contextmanager
def router(lab, addr):
    """`client` becomes the router of the address: it routes it to the node, and the node routes it
    back."""
    fam = L.family(addr)
    route = (addr, "via", L.CLIENT[fam])
    lab.client.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
    try:
        lab.client.run("nft", "-f", "-", input=CAPTURE)
        lab.node.run("ip", "-%d" % fam, "route", "replace", *route)
        yield
    finally:
        lab.client.sysctl(net__ipv4__ip_forward=0, net__ipv6__conf__all__forwarding=0)
        lab.client.run("nft", "add table inet looped; delete table inet looped")
        lab.node.run("ip", "-%d" % fam, "route", "del", *route)


@contextlib.contextmanager
def own_server(lab):
    """A server of the node itself on port 90."""
    server = lab.serve("node", "90")
    try:
        yield
    finally:
        server.kill()


def returned(lab):
    """Packets that the node sent back to the router."""
    text = lab.client.run("nft", "list", "table", "inet", "looped")
    return sum(int(n) for n in re.findall(r"packets (\d+)", text))


def ping(ns, addr):
    """One echo request; is there a reply?"""
    fam = L.family(addr)
    proto = socket.IPPROTO_ICMPV6 if fam == 6 else socket.IPPROTO_ICMP
    s = ns.socket(L.af(addr), socket.SOCK_RAW, proto)
    s.settimeout(0.3 * L.SLOW)
    # Type, code, checksum (ICMPv6: by the kernel), identifier, sequence.
    packet = bytes((128, 0, 0, 0, 0, 1, 0, 1) if fam == 6 else (8, 0, 0xf7, 0xfd, 0, 1, 0, 1))
    try:
        s.sendto(packet, (addr, 0))
        while True:
            data = s.recv(200)
            if data[0 if fam == 6 else 20] == (129 if fam == 6 else 0):
                return True
    except socket.timeout:
        return False
    finally:
        s.close()


@FAM
@pytest.mark.parametrize("kind", ("lb", "external"))
def test_loop(lab, vipd, fam, kind):
    """REJ-17: a packet that the router sends to a port that no service has does not go back to the
    router. The served port, and another way out, are not touched."""
    addr = (L.lb_ip if kind == "lb" else L.external_ip)(40, fam)
    where = {"lb": [addr]} if kind == "lb" else {"external_ips": [addr]}
    vipd.apply([service("loop", L.cluster_ip(40, fam), 80, **where),
                slice_("loop", [E2[fam]], 8080)])
    assert L.probe(lab.pod3, addr, 81).what == "untouched"
    with router(lab, addr):
        before = scrape(lab)[0][METRIC]
        assert L.probe(lab.client, addr, 80).backend == E2[fam]
        for proto in ("tcp", "udp"):
            assert L.probe(lab.client, addr, 81, proto, timeout=0.3 * L.SLOW).what == "timeout"
        assert not ping(lab.client, addr)
        assert returned(lab) == 0, "the node sent packets back to the router"
        L.eventually(lambda: scrape(lab)[0][METRIC] >= before + 3)
        assert L.probe(lab.client, addr, 80).backend == E2[fam]


@contextlib.contextmanager
def neighbour(lab, addr, gateway=None):
    """`client` is another node with the address: the node reaches it through the device on which it
    receives the packets of `client`, directly or through a gateway (`client` again)."""
    fam = L.family(addr)
    bits = "/32" if fam == 4 else "/128"
    ip = ("ip", "-%d" % fam)
    route = (addr,) + (("via", gateway) if gateway else ()) + ("dev", "cl0")
    lab.client.run(*ip, "addr", "add", addr + bits, "dev", "eth0",
                   *(("nodad",) if fam == 6 else ()))
    try:
        lab.node.run(*ip, "route", "replace", *route)
        yield
    finally:
        lab.node.run(*ip, "route", "del", *route)
        lab.client.run(*ip, "addr", "del", addr + bits, "dev", "eth0")


@FAM
@pytest.mark.parametrize("is_routed, port", ((False, 80), (True, 80), (True, 8081)),
                         ids=("neighbour", "routed", "frontend"))
def test_endpoint_at_vip(lab, vipd, fam, is_routed, port):
    """REJ-17: the address of another node is an external IP of one service, and an endpoint of
    another (a pod in the network of its host). Connections through the other are not dropped,
    although client and endpoint are behind one device, and the endpoint's port may be served."""
    addr = L.external_ip(41, fam)
    vip = L.lb_ip(42, fam)
    vipd.apply([service("nodes", L.cluster_ip(41, fam), port, external_ips=[addr]),
                slice_("nodes", [E2[fam]], 8080),
                service("host", L.cluster_ip(42, fam), 80, lb=[vip]),
                slice_("host", [addr], 8081)])
    with neighbour(lab, addr, L.CLIENT[fam] if is_routed else None):
        server = lab.serve("client", "8081")
        try:
            before = scrape(lab)[0][METRIC]
            for _ in range(3):
                assert L.probe(lab.client, vip, 80, timeout=2 * L.SLOW).backend == addr
            assert L.probe(lab.client, vip, 80, "udp", timeout=2 * L.SLOW).what != "timeout"
            assert scrape(lab)[0][METRIC] == before
        finally:
            server.kill()


@FAM
def test_endpoints_at_each_other(lab, vipd, fam):
    """REJ-17: two services have each other's addresses, behind one router, as endpoints. A packet
    goes to the router once. (Mode ipvs, IPv6: until its hop limit is reached.)"""
    a, b = L.lb_ip(40, fam), L.external_ip(40, fam)
    vipd.apply([service("a", L.cluster_ip(40, fam), 80, lb=[a]), slice_("a", [b], 80),
                service("b", L.cluster_ip(41, fam), 80, external_ips=[b]), slice_("b", [a], 80)])
    with router(lab, a):
        route = (b, "via", L.CLIENT[fam])
        lab.node.run("ip", "-%d" % fam, "route", "replace", *route)
        before = scrape(lab)[0][METRIC]
        try:
            assert L.probe(lab.client, a, 80, timeout=0.3 * L.SLOW).what == "timeout"
            loops = planes.PLANE == "ipvs" and fam == 6
            assert 8 <= returned(lab) if loops else 0 < returned(lab) < 8  # the client may have sent again
            if fam == 6 and not loops:  # IPv4 drops it as a martian
                L.eventually(lambda: scrape(lab)[0][METRIC] > before)
        finally:
            lab.node.run("ip", "-%d" % fam, "route", "del", *route)


@FAM
def test_to_neighbour(lab, vipd, fam):
    """REJ-17: the node relays packets to another node whose address is an external IP: without a
    router in between they cannot loop, so they pass."""
    addr = L.external_ip(41, fam)
    mac = json.loads(lab.client.run("ip", "-json", "link", "show", "eth0"))[0]["address"]
    vipd.apply([service("nodes", L.cluster_ip(41, fam), 80, external_ips=[addr]),
                slice_("nodes", [E2[fam]], 8080)])
    route = ("ip", "-%d" % fam, "route")
    lab.client.run("nft", "-f", "-", input=CAPTURE.replace("40 }", "41 }").replace("::28", "::29"))
    try:
        lab.node.run(*route, "replace", addr, "dev", "cl0")
        lab.node.run("ip", "-%d" % fam, "neigh", "replace", addr, "lladdr", mac, "dev", "cl0",
                     "nud", "permanent")
        before = scrape(lab)[0][METRIC]
        for port in (22, 10250):
            L.probe(lab.client, addr, port, "udp", timeout=0.3 * L.SLOW)
        rawpackets.send_segments(lab.client, L.CLIENT[fam], addr, [
            rawpackets.segment(L.CLIENT[fam], addr, 32200, 22, 1, 1, 0x11)])
        L.eventually(lambda: returned(lab) >= 3)
        assert scrape(lab)[0][METRIC] == before
    finally:
        lab.node.run("ip", "-%d" % fam, "neigh", "del", addr, "dev", "cl0")
        lab.node.run(*route, "del", addr, "dev", "cl0")
        lab.client.run("nft", "add table inet looped; delete table inet looped")


@FAM
def test_loop_invalid(lab, vipd, fam):
    """REJ-17: segments without a connection are INVALID, and nat chains do not see them. From the
    router they do not go back, from a pod they go to the router once, also to a served port."""
    addr = L.lb_ip(40, fam)
    vipd.apply([service("loop", L.cluster_ip(40, fam), 80, lb=[addr]),
                slice_("loop", [E2[fam]], 8080)])
    for ns, source, passes in ((lab.client, L.CLIENT[fam], 0), (lab.pod3, L.POD["pod3"][fam], 1)):
        with router(lab, addr):
            before = scrape(lab)[0][METRIC]
            for port in (80, 81):
                rawpackets.send_segments(ns, source, addr, [
                    rawpackets.segment(source, addr, 32100 + flags, port, 1, 1, flags)
                    for flags in STRAYS])
            # On the ipvs plane IPVS takes those to the served port.
            strays = len(STRAYS) * (1 if planes.PLANE == "ipvs" else 2)
            L.eventually(lambda n=before + strays: scrape(lab)[0][METRIC] >= n,
                         what=lambda: "%d packets came back" % returned(lab))
            assert returned(lab) == strays * passes
            assert scrape(lab)[0][METRIC] == before + strays


@FAM
def test_loop_pod(lab, vipd, fam):
    """REJ-17: a packet of a pod goes to the router once. It returns with the conntrack entry of its
    first pass, so that nat chains do not see it."""
    addr = L.lb_ip(40, fam)
    vipd.apply([service("loop", L.cluster_ip(40, fam), 80, lb=[addr]),
                slice_("loop", [E2[fam]], 8080)])
    with router(lab, addr):
        before = scrape(lab)[0][METRIC]
        for proto in ("tcp", "udp"):
            assert L.probe(lab.pod3, addr, 81, proto, timeout=0.3 * L.SLOW).what == "timeout"
        L.eventually(lambda: scrape(lab)[0][METRIC] >= before + 2,
                     what=lambda: "%d packets came back" % returned(lab))
        assert returned(lab) == scrape(lab)[0][METRIC] - before
        assert L.probe(lab.pod3, addr, 80).backend == E2[fam]


@FAM
def test_loop_local_address(lab, vipd, fam):
    """An external IP that is an address of the node: its other ports are the node's, also when a
    route of the node leads elsewhere."""
    vipd.apply([service("local", L.cluster_ip(41, fam), 80, external_ips=[L.NODE[fam]]),
                slice_("local", [E2[fam]], 8080)])
    assert L.probe(lab.client, L.NODE[fam], 80).backend == E2[fam]
    with own_server(lab):
        for role in ("client", "node2", "pod3", "node"):
            assert L.probe(lab.ns[role], L.NODE[fam], 90).backend == L.NODE[fam]
    assert ping(lab.client, L.NODE[fam])


@FAM
def test_cluster_ip_of_node(lab, vipd, fam):
    """REJ-05: a cluster IP that is an address of this node takes its own ports only, and is named
    in log, status and the service's page; while it is not the node's, other ports are rejected."""
    addr = L.cluster_ip(42, fam)
    svc = [service("mine", addr, 80), slice_("mine", [E2[fam]], 8080)]
    vipd.apply(svc)
    assert L.probe(lab.client, addr, 90).what == "refused"
    assert "address of this node" not in vipd.ctl("svc")
    lab.node.run("ip", "addr", "add", "%s/%d" % (addr, 128 if fam == 6 else 32), "dev", "lo")
    try:
        L.eventually(lambda: "cluster IP %s is an address of this node" % addr in vipd.ctl("svc"))
        assert "cluster IP %s is an address of this node" % addr in vipd.log()
        status = vipd.ctl("status", check=False)
        assert "1 service has a cluster IP that is an address of this node" in status
        with own_server(lab):
            for role in ("client", "node2", "pod3", "node"):
                r = L.probe(lab.ns[role], addr, 90)
                assert r.what == "untouched" and r.backend == addr, (role, r)
                assert L.probe(lab.ns[role], addr, 80).backend == E2[fam]
    finally:
        lab.node.run("ip", "addr", "del", "%s/%d" % (addr, 128 if fam == 6 else 32), "dev", "lo")
    L.eventually(lambda: "address of this node" not in vipd.ctl("svc"))
    assert L.probe(lab.client, addr, 90).what == "refused"
    vipd.check_tables()


def test_pools_of_e1(lab, vipd):
    """A local endpoint behind an address that loops: pods and the node reach it."""
    addr = L.lb_ip(40, 4)
    vipd.apply([service("loop", L.cluster_ip(40, 4), 80, lb=[addr]),
                slice_("loop", [E1[4]], 8080)])
    with router(lab, addr):
        for role in ("client", "pod3", "node", "node2"):
            assert L.probe(lab.ns[role], addr, 80).backend == E1[4]
