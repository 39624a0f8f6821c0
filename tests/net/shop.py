# SPDX-License-Identifier: GPL-2.0-or-later
"""Services of the packet path tests and expected results of connections. Endpoints: e1 = pod1,
local; e2 = a pod of the other node (doc/behaviour.md section 17.4)."""
import lab as L
from objects import entry, port, service, slice_, slice_port

E1 = L.POD["pod1"]
E2 = {4: L.remote(1, 4), 6: L.remote(1, 6)}
LOCAL = entry(E1[4], L.NODE_NAME), entry(E1[6], L.NODE_NAME)
REMOTE = entry(E2[4], "n2"), entry(E2[6], "n2")

TCP_UDP = [("TCP", "tcp"), ("UDP", "udp"), ("SCTP", "sctp")]


class Svc:
    """One dual-stack service; its addresses and node ports depend on `number`."""

    def __init__(self, name, number, endpoints="both", **kw):
        self.name = name
        self.number = number
        self.endpoints = endpoints  # both, remote, local, none
        self.kw = kw

    def addr(self, kind, fam):
        return {"clusterip": L.cluster_ip, "externalip": L.external_ip,
                "lb": L.lb_ip}[kind](self.number, fam)

    @property
    def node_port(self):
        return 30000 + self.number

    def target(self, kind, fam):
        """(address, port) of a frontend."""
        if kind == "nodeport":
            return L.NODE[fam], self.node_port
        return self.addr(kind, fam), 80

    def objects(self):
        kw = dict(self.kw)
        mode = kw.pop("mode", None)
        lb = [self.addr("lb", 4), self.addr("lb", 6)]
        svc = service(self.name, [self.addr("clusterip", 4), self.addr("clusterip", 6)],
                      [port(80, proto, name, self.node_port) for proto, name in TCP_UDP],
                      kind="LoadBalancer",
                      external_ips=[self.addr("externalip", 4), self.addr("externalip", 6)],
                      lb=[(a, mode) for a in lb] if mode else lb, **kw)
        out = [svc]
        for i, fam in enumerate((4, 6)):
            eps = {"both": [LOCAL[i], REMOTE[i]], "remote": [REMOTE[i]], "local": [LOCAL[i]],
                   "none": []}[self.endpoints]
            out.append(slice_(self.name, eps, [slice_port(8080, proto, name)
                                               for proto, name in TCP_UDP], fam=fam))
        return out


# The client.
ORIGIN = {"X": "client", "P": "pod3", "H": "node"}
KINDS = ("clusterip", "nodeport", "externalip", "lb")


def expected_peer(origin, fam, backend, masqueraded, to=None):
    """The source address that the backend must see."""
    if masqueraded:
        return L.BRIDGE[fam] if backend == E1[fam] else L.NODE[fam]
    if origin == "X":
        return L.CLIENT[fam]
    if origin == "P":
        return L.POD["pod3"][fam]
    return to if to == L.NODE[fam] else L.NODE_TO_WORLD[fam]


def reach(lab, origin, to, number, proto, fam, want, masqueraded, source=None, rounds=60):
    """Connect until every backend in `want` has answered; no other may, and each must see the
    expected source. At least 4 connections, 10 for a single backend."""
    ns = lab.ns[ORIGIN.get(origin, origin)]
    seen = set()
    least = 10 if len(want) == 1 else 4
    for i in range(rounds):
        r = L.probe(ns, to, number, proto, source=source)
        assert r.ok, "%s to %s %s: %s" % (origin, L.endpoint(to, number), proto, r)
        assert r.backend in want, "%s reached, not one of %s" % (r.backend, sorted(want))
        if origin in ORIGIN:
            peer = expected_peer(origin, fam, r.backend, masqueraded, to)
            assert r.peer == (source if source and not masqueraded else peer), \
                "%s saw %s instead of %s" % (r.backend, r.peer, peer)
        seen.add(r.backend)
        if i + 1 >= least and seen == set(want):
            return
    raise AssertionError("only %s was reached of %s" % (sorted(seen), sorted(want)))


def forget_udp(lab, addrs):
    """A socket that takes the port of an earlier flow would continue that flow."""
    for addr in addrs:
        lab.node.run("sh", "-c", "conntrack -D -p udp -d %s 2>/dev/null; true" % addr)


def fails(lab, origin, to, number, proto, how, source=None):
    """The connection is refused at once (reject) or gets no answer (drop)."""
    ns = lab.ns[ORIGIN.get(origin, origin)]
    r = L.probe(ns, to, number, proto, timeout=0.25 if how == "drop" else None, source=source)
    # A local datagram that netfilter refuses or drops fails with EPERM at the sender.
    is_local_udp = (origin, proto) == ("H", "udp")
    if how == "drop":
        assert r.what == "timeout" or (is_local_udp and r.what == "unreachable"), \
            "%s instead of silence" % r
        return
    good = ("refused", "unreachable") if is_local_udp else ("refused",)
    assert r.what in good, "%s instead of a refusal" % r
