# SPDX-License-Identifier: GPL-2.0-or-later
"""What a design that binds service addresses to the node gets wrong: a load balancer that probes
the node from its own address is not answered, and a daemon of the node answers on every service
address. The last test binds them, and there the same checks fail."""
import socket
import struct
import subprocess

import pytest

import ipvs
import lab as L
import rawpackets
from objects import entry, port, service, slice_, slice_port

pytestmark = pytest.mark.skipif(ipvs.why_not() is not None, reason=str(ipvs.why_not()))

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
NODE_PORT = 30301
UNUSED = 91  # of no service, and no process in the lab listens there
KINDS = {"clusterip": lambda f: L.cluster_ip(301, f), "external": lambda f: L.external_ip(31, f),
         "lb": lambda f: L.lb_ip(31, f), "lb2": lambda f: L.lb_ip(32, f)}


def objects(local=True):
    ips = {k: [at(f) for f in (4, 6)] for k, at in KINDS.items()}
    out = [service("probed", ips["clusterip"], [port(80, "TCP", "t", NODE_PORT)],
                   kind="LoadBalancer", external_ips=ips["external"], lb=ips["lb"] + ips["lb2"],
                   etp="Local")]
    for f in (4, 6):
        there = [entry(L.POD["pod1"][f], L.NODE_NAME)] if local else []
        out.append(slice_("probed", there + [entry(L.remote(1, f), "n2")],
                          [slice_port(8080, "TCP", "t")], fam=f))
    return out


def probe_of_the_balancer(lab, fam, timeout=L.LIMIT):
    """Of the node port, from the address that it balances: the pod of this node answers, and sees
    the balancer."""
    lb = L.lb_ip(31, fam)
    r = L.probe(lab.world, L.NODE[fam], NODE_PORT, timeout=timeout, source=lb)
    assert r.ok and (r.backend, r.peer) == (L.POD["pod1"][fam], lb), \
        "the probe of the node port from %s: %s" % (lb, r)


def probe_of_its_own_address(lab, tries=int(L.LIMIT)):
    """To the balanced address, from that same address, as it arrives without any rewriting.
    The answer has to leave the node."""
    lb = L.lb_ip(31, 4)
    with lab.world.entered():
        out = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x800))
    try:
        out.bind(("eth0", 0x800))
        out.settimeout(0.3)
        tcp = struct.pack("!HHIIBBHHH", 32001, 80, 1000, 0, 5 << 4, 2, 65535, 0, 0)
        check = rawpackets.inet_sum(rawpackets.pseudo(lb, lb, 6, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", check) + tcp[18:]
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0,
                         socket.inet_aton(lb), socket.inet_aton(lb))
        ip = ip[:10] + struct.pack("!H", rawpackets.inet_sum(ip)) + ip[12:]
        with lab.world.entered():
            ll = subprocess.run(["ip", "-o", "neigh", "get", L.NODE_TO_WORLD[4], "dev", "eth0"],
                                capture_output=True, text=True, check=True).stdout
        mac = bytes.fromhex(ll.split("lladdr ")[1].split()[0].replace(":", ""))
        for _ in range(tries):
            out.sendto(ip + tcp, ("eth0", 0x800, 0, 0, mac))
            try:
                while True:
                    data, where = out.recvfrom(2000)
                    at = (data[0] & 15) * 4
                    if where[2] == socket.PACKET_HOST and data[9] == 6 and \
                            data[12:20] == socket.inet_aton(lb) * 2 and \
                            data[at:at + 4] == struct.pack("!HH", 80, 32001) and data[at + 13] == 18:
                        return
            except socket.timeout:
                continue
        raise AssertionError("the probe of %s from itself is not answered" % lb)
    finally:
        out.close()


def daemon_is_out_of_reach(lab, fam):
    """What listens on the wildcard of the node has nothing to do with service addresses."""
    assert L.probe(lab.client, L.NODE[fam], UNUSED, timeout=L.LIMIT).ok, "there is no daemon"
    for kind, at in KINDS.items():
        for role in ("client", "pod3", "node"):
            for proto in ("tcp", "udp"):
                r = L.probe(lab.ns[role], at(fam), UNUSED, proto, timeout=L.LIMIT)
                good = ("refused", "unreachable") if proto == "udp" else ("refused",)
                assert r.what in good, "%s %s from %s: %s" % (kind, proto, role, r)


@pytest.fixture(scope="module")
def node_daemon(lab):
    return lab.serve("node", str(UNUSED))


@FAM
def test_probes(lab, vipd, fam):
    vipd.apply(objects())
    probe_of_the_balancer(lab, fam)
    for at in (KINDS["external"], KINDS["lb2"]):
        r = L.probe(lab.client, at(fam), 80, timeout=L.LIMIT)
        assert r.ok and (r.backend, r.peer) == (L.POD["pod1"][fam], L.CLIENT[fam]), r
    if fam == 4:
        probe_of_its_own_address(lab)


@FAM
def test_probes_without_endpoints(lab, vipd, fam):
    """Without an endpoint of this node the probe goes unanswered (REJ-03)."""
    vipd.apply(objects(local=False))
    lb = L.lb_ip(31, fam)
    r = L.probe(lab.world, L.NODE[fam], NODE_PORT, timeout=0.3 * L.SLOW, source=lb)
    assert r.what == "timeout", r


@FAM
def test_daemons_of_the_node(lab, vipd, node_daemon, fam):
    vipd.apply(objects())
    daemon_is_out_of_reach(lab, fam)


def fails(check, *args):
    try:
        check(*args)
    except AssertionError as e:
        print("as it should: %s" % str(e).splitlines()[0])
        return True
    return False


@pytest.mark.no_steady
def test_these_checks_can_fail(lab, vipd, node_daemon):
    """The same node with addresses bound to a dummy device, and plain ipvsadm."""
    vipd.stop()
    lab.node.run(*vipd.argv(), "--cleanup")
    try:
        lab.node.run("ip", "link", "add", "bound0", "type", "dummy")
        lab.node.run("sysctl", "-q", "-w", "net.ipv4.vs.conntrack=1")
        for f in (4, 6):
            for at in KINDS.values():
                lab.node.run("ip", "addr", "add", "%s/%d" % (at(f), 32 if f == 4 else 128), "dev",
                             "bound0", *(["nodad"] if f == 6 else []))
                bind(lab, at(f), 80, f)
            bind(lab, L.NODE[f], NODE_PORT, f)
            bind(lab, L.NODE_TO_WORLD[f], NODE_PORT, f)
        for f in (4, 6):
            r = L.probe(lab.client, L.lb_ip(31, f), 80, timeout=L.LIMIT)
            assert r.ok and r.backend == L.POD["pod1"][f], "it does not even work: %s" % r
            assert fails(daemon_is_out_of_reach, lab, f)
        assert fails(probe_of_the_balancer, lab, 4, L.SLOW)
        assert fails(probe_of_its_own_address, lab, 5)
    finally:
        lab.node.run("ipvsadm", "-C")
        lab.node.run("ip", "link", "del", "bound0")
        vipd.start()


def bind(lab, addr, number, fam):
    at = L.endpoint(addr, number)
    lab.node.run("ipvsadm", "-A", "-t", at, "-s", "rr")
    lab.node.run("ipvsadm", "-a", "-t", at, "-r", L.endpoint(L.POD["pod1"][fam], 8080), "-m")
