# SPDX-License-Identifier: GPL-2.0-or-later
"""Direct server return (vipd.io/forwarding, BAL-20 to BAL-23): node2 is a server that has the load
balancer's address, and a way to the client that bypasses the node."""
import subprocess

import pytest

import lab as L
import planes
from objects import entry, port, service, slice_, slice_port

VIP = {fam: L.lb_ip(70, fam) for fam in (4, 6)}
IPVS = pytest.mark.skipif(planes.PLANE != "ipvs", reason="about the ipvs plane alone")
DIRECT = {4: ("10.99.0.1", "10.99.0.2", 30), 6: ("2001:db8:99::1", "2001:db8:99::2", 64)}


def objects(how, fam, eps=(1, 2), target=8080, **kw):
    return [service("direct", L.cluster_ip(70, fam), [port(8080, "TCP", "t"), port(5353, "UDP", "u")],
                    lb=[VIP[fam]], annotations={"vipd.io/forwarding": how}, **kw),
            slice_("direct", [entry(L.remote(i, fam), "n2") for i in eps],
                   [slice_port(target, "TCP", "t"), slice_port(5353, "UDP", "u")])]


class Server:
    """node2 as a server for direct return, and counters of packets from the address on the node."""

    def __init__(self, lab, fam, how):
        self.lab, self.fam, self.how = lab, fam, how
        client, server, length = DIRECT[fam]
        flag = "-%d" % fam
        lab.client.run("ip", "link", "add", "direct0", "type", "veth", "peer", "name", "direct0",
                       "netns", lab.node2.name)
        for ns, addr in ((lab.client, client), (lab.node2, server)):
            ns.run("ip", "link", "set", "direct0", "up")
            ns.run("ip", "addr", "add", "%s/%d" % (addr, length), "dev", "direct0",
                   *(["nodad"] if fam == 6 else []))
        lab.node2.run("ip", flag, "route", "add", L.CLIENT[fam], "via", client)
        lab.node2.run("ip", flag, "addr", "add", "%s/%d" % (VIP[fam], 32 if fam == 4 else 128),
                      "dev", "lo", *(["nodad"] if fam == 6 else []))
        lab.node2.sysctl(net__ipv4__conf__all__arp_ignore=1, net__ipv4__conf__all__arp_announce=2)
        if how.startswith("tunnel") and fam == 6:  # it accepts packets for addresses of a device only
            for i in (1, 2):
                lab.node2.run("ip", "-6", "addr", "replace", "%s/128" % L.remote(i, 6), "dev", "lo",
                              "nodad")
        if how.startswith("tunnel"):
            subprocess.run(["modprobe", "-a", "ipip", "ip6_tunnel", "fou", "fou6"], check=True)
            device = "tunl0" if fam == 4 else "ip6tnl0"
            if fam == 4:
                lab.node2.sysctl(net__ipv4__conf__tunl0__rp_filter=0)
            lab.node2.run("ip", "link", "set", device, "up")
        if "gue" in how:
            lab.node2.run("ip", flag, "fou", "add", "port", how.partition(":")[2] or "6080", "gue")
        word = "ip" if fam == 4 else "ip6"
        lab.node.run("nft", "add table inet seen; add counter inet seen back; add chain inet seen pre "
                     "{ type filter hook prerouting priority -400; }; "
                     "add rule inet seen pre %s saddr %s counter name back" % (word, VIP[fam]))

    def returned(self):
        """Packets from the service's address that the node saw."""
        text = self.lab.node.run("nft", "list", "counter", "inet", "seen", "back")
        return int(text.split("packets ")[1].split()[0])

    def close(self):
        self.lab.node.run("nft", "delete table inet seen")
        self.lab.client.run("ip", "link", "del", "direct0")
        if "gue" in self.how:
            self.lab.node2.run("ip", "-%d" % self.fam, "fou", "del", "port",
                               self.how.partition(":")[2] or "6080")
        self.lab.node2.run("ip", "-%d" % self.fam, "addr", "del", "%s/%d" % (
            VIP[self.fam], 32 if self.fam == 4 else 128), "dev", "lo")
        self.lab.node2.sysctl(net__ipv4__conf__all__arp_ignore=0,
                              net__ipv4__conf__all__arp_announce=0)


def is_direct(result, fam):
    """By a server that has the address, and sees the client's. (The world has both, too, but its
    answers pass the node.)"""
    return (result.what, result.backend, result.peer) == ("untouched", VIP[fam], L.CLIENT[fam])


@pytest.fixture
def server(lab, request):
    s = Server(lab, request.getfixturevalue("fam"), request.getfixturevalue("how"))
    yield s
    s.close()


@IPVS
@pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
@pytest.mark.parametrize("how", ("route", "tunnel", "tunnel,gue:5555"))
def test_replies_bypass_the_node(lab, vipd, server, how, fam):
    """BAL-20, BAL-21: the server sees the client's address, and no reply passes the node. The
    cluster IP is masqueraded as before. A restart writes nothing."""
    vipd.apply(objects(how, fam))
    for proto, number in (("tcp", 8080), ("udp", 5353)):
        for _ in range(4):
            assert is_direct(L.probe(lab.client, VIP[fam], number, proto), fam), proto
    assert server.returned() == 0
    r = L.probe(lab.client, L.cluster_ip(70, fam), 8080)
    assert r.ok and r.backend in (L.remote(1, fam), L.remote(2, fam)) and r.peer != L.CLIENT[fam]
    frontend = [f for f in vipd.get("/v1/services/default/direct")["frontends"]
                if f["address"] == VIP[fam] and f["port"] == 8080]
    assert [(f["forwarding"], f["masquerade"]) for f in frontend] == [(how, "none")]
    assert "none; " + how in vipd.ctl("svc", "default/direct")
    assert "answers the client directly" in vipd.ctl(
        "trace", L.CLIENT[fam], L.endpoint(VIP[fam], 8080))
    with lab.node.entered():
        assert vipd.ctl("diff", check=False) == ""
    conn, r = L.connect(lab.client, VIP[fam], 8080)
    assert r.ok
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0
    conn.sock.sendall(20000 * b"x")  # segments that fit no tunnel: ICMP of the node shortens them
    assert conn.ask().ok
    conn.close()
    assert server.returned() == 0


@IPVS
@pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
@pytest.mark.parametrize("how", ("route",))
def test_node_has_the_address(lab, vipd, server, how, fam):
    """BAL-20: the address is one of the node, too, as keepalived sets it: what follows a client's
    first packet is forwarded, although conntrack calls it INVALID and no socket is there."""
    def address(verb, *more):
        lab.node.run("ip", "-%d" % fam, "addr", verb, "%s/%d" % (VIP[fam], 32 if fam == 4 else 128),
                     "dev", "lo", *more)

    address("add", *(["nodad"] if fam == 6 else []))
    try:
        vipd.apply(objects(how, fam))
        conn, r = L.connect(lab.client, VIP[fam], 8080)
        assert r.ok
        r = conn.ask()
        assert (r.backend, r.peer) == (VIP[fam], L.CLIENT[fam])
        conn.close()
        assert server.returned() == 0
    finally:
        address("del")


@IPVS
@pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
@pytest.mark.parametrize("how", ("route", "tunnel"))
def test_drain(lab, vipd, server, how, fam):
    """BAL-22: a server leaves: its connections continue, new ones go to the other; also with source
    ranges, and after the Service's method changes."""
    ranges = ["%s/%d" % (L.CLIENT[fam], 32 if fam == 4 else 128)]
    vipd.apply(objects(how, fam, ranges=ranges))
    conns = [L.connect(lab.client, VIP[fam], 8080)[0] for _ in range(4)]
    vipd.apply(objects(how, fam, eps=(2,), ranges=ranges))
    assert {d.weight for d in vipd.ipvs().find(L.remote(1, fam), 8080)} <= {0}
    assert all(c.ask().backend == VIP[fam] for c in conns)
    assert is_direct(L.probe(lab.client, VIP[fam], 8080), fam)
    assert L.probe(lab.client, VIP[fam], 8080, timeout=1, source=L.CLIENT2[fam]).what == "timeout"
    assert server.returned() == 0
    vipd.apply(objects("masquerade", fam, eps=(2,)))
    r = L.probe(lab.client, VIP[fam], 8080)
    assert r.ok and r.backend == L.remote(2, fam) and r.peer != L.CLIENT[fam]
    assert all(c.ask().backend == VIP[fam] for c in conns)
    for c in conns:
        c.close()


@IPVS
@pytest.mark.no_steady
@pytest.mark.parametrize("fam", (4,), ids=("v4",))
@pytest.mark.parametrize("how", ("route",))
def test_change_of_planes(lab, vipd, server, how, fam):
    """BAL-23: on the nftables plane the Service is masqueraded, with a remark; back on the ipvs
    plane it is direct again. Each is adopted without a write."""
    vipd.apply(objects(how, fam))
    for mode in ("nftables", "ipvs"):
        vipd.stop()
        vipd.flags["--proxy-mode"] = mode
        vipd.start()
        r = L.probe(lab.client, VIP[fam], 8080)
        remark = vipd.get("/v1/services/default/direct").get("remark") or ""
        if mode == "ipvs":
            assert is_direct(r, fam) and not remark
        else:
            assert r.ok and r.backend in (L.remote(1, fam), L.remote(2, fam)), r
            assert "vipd.io/forwarding: 'route' is for the ipvs plane" in remark
        vipd.kill()
        vipd.start()
        assert vipd.status()["sync"]["writes"] == 0
        assert L.probe(lab.client, VIP[fam], 8080).what == r.what


@pytest.mark.parametrize("how, why", [
    ("direct", "'direct' is not one of masquerade, route, tunnel, tunnel,gue, tunnel,gue:PORT"),
    ("route", "'route' is for the ipvs plane" if planes.PLANE == "nft" else
     "'route' needs endpoints with the Service's port 8080: %s" % L.endpoint(L.remote(1, 4), 8081)),
])
def test_not_in_force(lab, vipd, how, why):
    """BAL-23: what is not in force is reported by its annotation, and masquerading serves."""
    vipd.apply(objects(how, 4, target=8081))
    expected = "vipd.io/forwarding: %s: connections are masqueraded" % why
    assert vipd.get("/v1/services/default/direct")["remark"] == expected
    assert expected in vipd.ctl("svc", "default/direct")
    r = L.probe(lab.client, VIP[4], 8080)
    assert r.ok and r.backend in (L.remote(1, 4), L.remote(2, 4)) and r.peer != L.CLIENT[4]
