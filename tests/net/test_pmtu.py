# SPDX-License-Identifier: GPL-2.0-or-later
"""Path MTU discovery of answers: a router behind `client` has a link with a smaller MTU. Its
errors go to the address that the client connects to."""
import socket
import threading

import pytest

import lab as L
from objects import entry, port, service, slice_, slice_port

SIZE = 20000  # more than the first window of a connection
MTU = 1300
NUMBER = 9100
FAR = {4: ("172.30.0.2", "172.30.0.1", 30), 6: ("fd00:77::2", "fd00:77::1", 126)}


def answer(s):
    while True:
        try:
            conn, _ = s.accept()
            conn.sendall(b"x" * SIZE)
            conn.shutdown(socket.SHUT_WR)
            conn.recv(1)
            conn.close()
        except OSError:
            return


@pytest.fixture(scope="module")
def far(lab):
    """A network namespace behind `client`."""
    ns = lab.ns["far"] = L.Ns(lab.id + "-far")
    lab.client.run("ip", "link", "add", "far0", "mtu", str(MTU), "type", "veth", "peer", "name", "eth0",
                   "netns", ns.name)
    lab.client.run("ip", "link", "set", "far0", "up")
    ns.run("ip", "link", "set", "eth0", "up", "mtu", "1500")
    lab.client.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
    servers = []
    for fam, (addr, router, bits) in FAR.items():
        for at, a, dev in ((lab.client, router, "far0"), (ns, addr, "eth0")):
            at.run("ip", "addr", "add", "%s/%d" % (a, bits), "dev", dev,
                   *(["nodad"] if fam == 6 else []))
        ns.run("ip", "-%d" % fam, "route", "add", "default", "via", router)
        lab.node.run("ip", "-%d" % fam, "route", "add", addr, "via", L.CLIENT[fam])
        for role in ("node", "pod1", "world"):
            s = lab.ns[role].socket(L.af(addr))
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if fam == 6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            s.bind(("", NUMBER))
            s.listen()
            threading.Thread(target=answer, args=(s,), daemon=True).start()
            servers.append(s)
    yield ns
    for s in servers:
        s.shutdown(socket.SHUT_RDWR)
        s.close()


def fetch(ns, addr, number):
    """Number of bytes received."""
    n = 0
    with ns.socket(L.af(addr)) as s:
        s.settimeout(10 * L.SLOW)
        s.connect((addr, number))
        while data := s.recv(SIZE):
            n += len(data)
    return n


@pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
@pytest.mark.parametrize("kind, is_hole", (("host", False), ("pod", True)), ids=("host", "pod"))
def test_errors_reach_the_endpoint(lab, vipd, far, fam, kind, is_hole):
    """`is_hole`: the node drops what it would forward to the range of load balancer addresses."""
    role, ep = ("node", L.NODE) if kind == "host" else ("pod1", L.POD["pod1"])
    vip = L.lb_ip(80, fam)
    vipd.apply([service("mtu", L.cluster_ip(80, fam), [port(80, "TCP", "t")], lb=[vip],
                        etp="Cluster" if kind == "host" else "Local"),
                slice_("mtu", [entry(ep[fam], L.NODE_NAME)], [slice_port(NUMBER, "TCP", "t")],
                       fam=fam)])
    hole = ["ip", "-%d" % fam, "route", "add", "blackhole", L.LB_CIDR[fam]]
    if is_hole:
        lab.node.run(*hole)
    lab.node.run("ip", "-%d" % fam, "route", "flush", "cache")  # else its errors come first
    try:
        assert fetch(far, vip, 80) == SIZE
    finally:
        if is_hole:
            lab.node.run(*["del" if w == "add" else w for w in hole])
    route = lab.ns[role].run("ip", "route", "get", FAR[fam][0])
    assert "mtu %d" % MTU in route


def test_errors_about_another_port(lab, vipd, far):
    """Another host has the address and a port that no Service has: the error is about its answer."""
    vip = L.lb_ip(81, 4)
    vipd.apply([service("mtu", L.cluster_ip(81, 4), [port(80, "TCP", "t")], lb=[vip]),
                slice_("mtu", [entry(L.POD["pod1"][4], L.NODE_NAME)],
                       [slice_port(NUMBER, "TCP", "t")])])
    assert fetch(far, vip, NUMBER) == SIZE
