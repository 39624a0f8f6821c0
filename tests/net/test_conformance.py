# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of Kubernetes' e2e network tests that no other file has (doc/conformance.md)."""
import shutil
import socket
import subprocess

import pytest

import lab as L
import shop
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2, Svc

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
ENDING = {"ready": False, "serving": True, "terminating": True}
UNREADY = {"ready": False, "serving": False}
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET,
                  socket.SOCK_STREAM if sys.argv[2] == "tcp" else socket.SOCK_DGRAM)
s.bind((sys.argv[1], 8099))
if sys.argv[2] == "tcp":
    s.listen()
print("ready", flush=True)
while True:
    if sys.argv[2] == "udp":
        s.sendto(*s.recvfrom(65536))
        continue
    c, _ = s.accept()
    while data := c.recv(65536):
        c.sendall(data)
    c.close()
"""


def endpoints(svc, at1, at2):
    """The Service with an endpoint on this node and one on another."""
    out = svc.objects()[:1]
    for fam in (4, 6):
        out.append(slice_(svc.name, [entry(E1[fam], L.NODE_NAME, **at1),
                                     entry(E2[fam], "n2", **at2)],
                          [slice_port(8080, proto, name)
                           for proto, name in (("TCP", "tcp"), ("UDP", "udp"))], fam=fam))
    return out


@FAM
@pytest.mark.parametrize("policy", ("Cluster", "Local"))
def test_terminating_endpoints_are_the_last_resort(lab, vipd, fam, policy):
    """POL-05, POL-08: a terminating endpoint serves when no endpoint of its set is ready."""
    svc = Svc("ending", 51, etp=policy, itp=policy)
    kinds = (("X", "nodeport"), ("X", "lb"), ("P", "clusterip"))
    last = {E1[fam]} if policy == "Local" else {E1[fam], E2[fam]}
    vipd.apply(endpoints(svc, ENDING, ENDING))
    for origin, kind in kinds:
        shop.reach(lab, origin, *svc.target(kind, fam), "tcp", fam, last,
                   origin == "X" and policy == "Cluster")
    vipd.apply(endpoints(svc, ENDING, {}))
    for origin, kind in kinds if policy == "Cluster" else ():
        shop.reach(lab, origin, *svc.target(kind, fam), "tcp", fam, {E2[fam]}, origin == "X")
    vipd.apply(endpoints(svc, UNREADY, UNREADY))
    for origin, kind in kinds:
        shop.fails(lab, origin, *svc.target(kind, fam), "tcp", "reject")


@FAM
@pytest.mark.parametrize("policy", ("Cluster", "Local"))
def test_endpoints_of_the_host_network(lab, vipd, fam, policy):
    """Endpoints with the addresses of this node and of another one, as hostNetwork pods have them."""
    svc = Svc("hostnet", 53, etp=policy, itp=policy)
    objs = svc.objects()[:1]
    for f in (4, 6):
        objs.append(slice_("hostnet", [entry(L.NODE[f], L.NODE_NAME), entry(L.NODE2[f], "n2")],
                           [slice_port(8080, proto, name)
                            for proto, name in (("TCP", "tcp"), ("UDP", "udp"))], fam=f))
    vipd.apply(objs)
    want = {L.NODE[fam]} if policy == "Local" else {L.NODE[fam], L.NODE2[fam]}
    server = lab.serve("node", "8080")
    try:
        for role, kind in (("client", "nodeport"), ("pod3", "clusterip"), ("node", "clusterip")):
            seen = {L.probe(lab.ns[role], *svc.target(kind, fam)).backend for _ in range(20)}
            assert seen == want, (role, kind)  # 20 picks of two are alike with probability 2^-19
    finally:
        server.stop()


@FAM
def test_named_target_ports(lab, vipd, fam):
    """A named targetPort that is another number in each pod: the controller writes one slice for each number."""
    ip = L.cluster_ip(55, fam)
    svc = service("named", ip, [port(80, "TCP", "web", 30550), port(81, "TCP", "admin")])
    vipd.apply([svc] + [
        slice_("named", [addr], [slice_port(web, "TCP", "web"), slice_port(admin, "TCP", "admin")],
               name="named-%d" % web, fam=fam)
        for addr, web, admin in ((entry(E1[fam], L.NODE_NAME), 8080, 8081), (entry(E2[fam], "n2"), 8081, 8080))])
    for role, to, want in (("pod3", (ip, 80), (8080, 8081)), ("pod3", (ip, 81), (8081, 8080)),
                           ("client", (L.NODE[fam], 30550), (8080, 8081))):
        seen = {(r.backend, r.backend_port) for r in (L.probe(lab.ns[role], *to) for _ in range(30))}
        assert seen == set(zip((E1[fam], E2[fam]), want)), (role, to)  # 30 alike: 2^-29


def check_served(lab, fam, role, to, proto, is_served):
    """Does an endpoint answer? Not: a reset, silence, or the host that has the address without a proxy."""
    r = L.probe(lab.ns[role], *to, proto, timeout=L.PATIENCE if is_served else L.LATE)
    assert (r.ok and r.backend in (E1[fam], E2[fam])) == is_served, (role, to, proto, r.what)


@FAM
@pytest.mark.parametrize("proto", ("tcp", "udp"))
def test_type_and_ports_change(lab, vipd, fam, proto):
    """All types in turn, also from and to ExternalName; node port and port change; no endpoints. Each earlier frontend
    ends."""
    at = {"ip": L.cluster_ip(57, fam), "lb": L.lb_ip(57, fam), "node": L.NODE[fam]}
    every = [("ip", 80), ("ip", 81), ("node", 30057), ("node", 30058), ("lb", 80), ("lb", 81)]

    def check(kind, frontends, number=80, node_port=0, addresses=(E1[fam], E2[fam])):
        vipd.apply([service("types", at["ip"], [port(number, proto.upper(), "p", node_port)], kind=kind,
                            lb=[at["lb"]] if kind == "LoadBalancer" else ()),
                    slice_("types", list(addresses), [slice_port(8080, proto.upper(), "p")], fam=fam)])
        for place, to in every:
            for role in ("client", "pod3") if place == "ip" else ("client",):
                check_served(lab, fam, role, (at[place], to), proto, (place, to) in frontends)

    check("ExternalName", [])
    check("ClusterIP", [("ip", 80)])
    check("ExternalName", [])
    check("NodePort", [("ip", 80), ("node", 30057)], node_port=30057)
    check("ExternalName", [])
    check("LoadBalancer", [("ip", 80), ("lb", 80)])     # allocateLoadBalancerNodePorts: false
    check("LoadBalancer", [("ip", 80), ("node", 30057), ("lb", 80)], node_port=30057)
    check("LoadBalancer", [("ip", 80), ("node", 30058), ("lb", 80)], node_port=30058)
    check("LoadBalancer", [("ip", 81), ("node", 30058), ("lb", 81)], 81, 30058)
    check("LoadBalancer", [], 81, 30058, addresses=())
    for place, to in ("node", 30058), ("lb", 81):
        shop.fails(lab, "X", at[place], to, proto, "reject")
    check("LoadBalancer", [("ip", 81), ("node", 30058), ("lb", 81)], 81, 30058)
    check("ClusterIP", [("ip", 81)], 81)


@FAM
def test_up_and_down(lab, vipd, fam):
    """Two Services with the same endpoints: each is deleted and made again, the other one serves."""
    one, two = Svc("one", 58), Svc("two", 59)
    for up in [one], [one, two], [two], [one, two], [one], []:
        vipd.apply([obj for svc in up for obj in svc.objects()])
        for svc in one, two:
            for role, kind in ("pod3", "clusterip"), ("client", "clusterip"), ("client", "nodeport"):
                for proto in "tcp", "udp":
                    check_served(lab, fam, role, svc.target(kind, fam), proto, svc in up)


PORTMAP = """*nat
:CNI-HOSTPORT-DNAT - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A CNI-HOSTPORT-DNAT -p tcp -m tcp --dport 8090 -j DNAT --to-destination %s
COMMIT
"""


@FAM
def test_host_port(lab, vipd, fam):
    """A host port of the CNI plugin portmap, beside vipd: its port of the node is not vipd's."""
    tool = "iptables-nft" if fam == 4 else "ip6tables-nft"
    if shutil.which(tool) is None:
        pytest.skip("the program `%s` is missing" % tool)
    svc = Svc("beside", 54, "remote")
    vipd.apply(svc.objects())
    lab.node.run(tool + "-restore", "--noflush", input=PORTMAP % L.endpoint(E1[fam], 8080))
    try:
        for role in ("client", "pod3"):
            assert L.probe(lab.ns[role], L.NODE[fam], 8090).backend == E1[fam]
            assert L.probe(lab.ns[role], *svc.target("nodeport", fam)).backend == E2[fam]
    finally:
        lab.node.run("nft", "delete", "table", "ip" if fam == 4 else "ip6", "nat")
    shop.fails(lab, "X", L.NODE[fam], 8090, "tcp", "reject")


@FAM
@pytest.mark.parametrize("proto", ("tcp", "udp"))
def test_large_requests(lab, vipd, fam, proto):
    """Requests and answers of several packets; datagrams are fragmented and reassembled."""
    ip = L.cluster_ip(52, fam)
    vipd.apply([service("large", ip, [port(80, proto.upper(), "p")]),
                slice_("large", [entry(E1[fam], L.NODE_NAME)],
                       [slice_port(8099, proto.upper(), "p")], fam=fam)])
    server = lab.pod1.popen("/usr/bin/python3", "-c", ECHO, E1[fam], proto,
                            stdout=subprocess.PIPE)
    try:
        server.stdout.readline()
        kind = socket.SOCK_STREAM if proto == "tcp" else socket.SOCK_DGRAM
        with lab.pod3.socket(L.af(ip), kind) as s:
            s.settimeout(L.PATIENCE)
            s.connect((ip, 80))
            for size in (100, 2000, 20000):
                request = bytes(i % 251 for i in range(size))
                s.sendall(request)
                answer = b""
                while len(answer) < size:
                    part = s.recv(65536)
                    assert part, "closed after %d bytes" % len(answer)
                    answer += part
                assert answer == request
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
