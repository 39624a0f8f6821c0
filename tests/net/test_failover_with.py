# SPDX-License-Identifier: GPL-2.0-or-later
"""--failover together with options and fields that decide about the backend, the source address and the
counters of a connection: a connection that moved is treated as one that did not, and so is one that begins
after an ejection."""
import collections
import contextlib
import itertools
import json

import pytest

import daemon
import lab as L
import test_failover as F
from objects import entry, port, service, slice_, slice_port
from test_counters import series

FLAGS = {"--failover": "handshake", "-v": "2"}
FAMS = (4, 6)
HANDSHAKE, EJECT = {"--failover": "handshake"}, {"--failover": "eject"}
OPTIONS = {
    "kept-bridge-counted": dict(
        HANDSHAKE, **{"--preserve-local-source": True, "--metrics-per-service": "endpoint",
                      "--detect-local-mode": "BridgeInterface", "--pod-bridge-interface": "br0",
                      "--cluster-cidr": None}),
    "masquerade-all-eject-counted": dict(
        EJECT, **{"--masquerade-all": True, "--metrics-per-service": "service"}),
    "no-detector-eject-kept-no-guard": dict(
        EJECT, **{"--preserve-local-source": True, "--cluster-cidr": None, "--nft-guard": "off"}),
}
SERVICES = {
    "plain": {}, "sticky": {"affinity": 300}, "etp": {"etp": "Local"}, "itp": {"itp": "Local"},
    "hashed": {"annotations": {"vipd.io/scheduler": "mh"}},
    "weighted": {"annotations": {"vipd.io/scheduler": "wrr", "vipd.io/weights": "web-a-*=3,*=1"}},
}
NODE_PORT = 30100
LOCAL, REMOTE = ("pod1", "pod3"), (81, 82)  # the first of both is silent


def objects():
    out = []
    for i, (name, fields) in enumerate(SERVICES.items(), 1):
        out.append(service(name, [L.cluster_ip(i, f) for f in FAMS], [port(80, "TCP", "t", NODE_PORT + i)],
                           kind="LoadBalancer", lb=[L.lb_ip(i, f) for f in FAMS], **fields))
        for f in FAMS:
            eps = [entry(L.POD[p][f], L.NODE_NAME) for p in LOCAL] + \
                [entry(L.remote(n, f), "n2") for n in REMOTE]
            for n, e in enumerate(eps):
                e["targetRef"] = {"kind": "Pod", "name": "web-%s-%d" % ("ab"[n % 2], n)}
            out.append(slice_(name, eps, [slice_port(8080, "TCP", "t")], fam=f))
    return out


def targets(i, name, fam):
    """(role, address, port, sources) of connections to a service."""
    sources = [L.outer(n, fam) for n in range(1, 9)]
    external = [(L.lb_ip(i, fam), 80), (L.NODE[fam], NODE_PORT + i)][i % 2]
    out = [("client",) + external + (sources,), ("pod3", L.cluster_ip(i, fam), 80, [None] * 4),
           ("node", L.cluster_ip(i, fam), 80, [None] * 4)]
    return out + [("client", L.cluster_ip(i, fam), 80, sources)] if name != "itp" else out


def allowed(name, role, to, fam):
    """Endpoints that answer, and that the policy allows for this client."""
    is_local = role != "client" if name == "itp" else \
        name == "etp" and role == "client" and to != L.cluster_ip(3, fam)
    return {L.POD["pod3"][fam]} | (set() if is_local else {L.remote(REMOTE[1], fam)})


def ejected(vipd, name):
    """(set, address) of the endpoints that a set of the service lacks because of an ejection."""
    page = json.loads(vipd.ctl("svc", "default/" + name, "-o", "json"))
    return set() if page["pending"] else {
        (which, ep["address"]) for p in page["ports"] for family in p["families"]
        for ep in family["endpoints"] for which in ("cluster_set", "local_set")
        if (ep[which]["reason"] or "").startswith("ejected: ")}


def silent_in(name):
    """What has to be ejected: both silent endpoints, half of the cluster set; half of the local set."""
    sets = {"cluster_set": lambda f: [L.POD[LOCAL[0]][f], L.remote(REMOTE[0], f)]}
    if name in ("etp", "itp"):
        sets["local_set"] = lambda f: [L.POD[LOCAL[0]][f]]
    return {(which, addr) for which, addrs in sets.items() for f in FAMS for addr in addrs(f)}


def eject(lab, vipd):
    """Connect, always from other addresses, until the silent endpoints of each service are ejected."""
    sources = itertools.cycle(range(20, 250))

    def is_done():
        left = [(i, name) for i, name in enumerate(SERVICES, 1) if ejected(vipd, name) != silent_in(name)]
        with contextlib.ExitStack() as stack:
            cs = [stack.enter_context(F.Connects(
                lab, to, number, n=1, role=role,
                source=L.outer(next(sources), fam) if role == "client" else None))
                for i, name in left for fam in FAMS
                for role, to, number, many in targets(i, name, fam) for _ in many]
            for c in cs:
                assert c.wait(L.PATIENCE) == 0 and not c.errors
        return not left

    L.eventually(is_done, what=lambda: {name: ejected(vipd, name) ^ silent_in(name) for name in SERVICES})


class Round:
    """Connections to every address of each service."""

    def __init__(self):
        self.peers = collections.defaultdict(set)
        self.count = collections.Counter()

    def connect(self, lab):
        """The number of those that repeated their SYN."""
        repeated = 0
        with contextlib.ExitStack() as stack:
            all_ = [(name, fam, role, source,
                     stack.enter_context(F.Connects(lab, to, number, n=1, role=role, source=source)))
                    for i, name in enumerate(SERVICES, 1) for fam in FAMS
                    for role, to, number, sources in targets(i, name, fam) for source in sources]
            for name, fam, role, source, c in all_:
                assert c.wait(L.PATIENCE) == 0 and not c.errors, (name, fam, role, c.errors)
                repeated += c.retries()[0] == 0
                (s,) = c.socks.values()
                s.setblocking(True)
                r = L.Conn(s, "tcp").ask(L.PATIENCE)
                to = s.getpeername()[0]
                assert r.ok and r.backend in allowed(name, role, to, fam), (name, fam, role, r)
                self.peers[(name, fam, role, to, r.backend)].add("kept" if r.peer == source else r.peer)
                self.count[name] += 1
        assert not {k: v for k, v in self.peers.items() if len(v) != 1}
        return repeated


@pytest.mark.no_steady
@pytest.mark.parametrize("options", OPTIONS)
def test_moved_as_others(lab, vipd, options):
    """CT-18, CT-23, CT-26: no connection fails or ends at a silent endpoint; each backend sees the same
    source address of a client's connections, moved ones and those after the ejection included; each
    connection counts once, until others eject."""
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS, **FLAGS)
    vipd.flags.update(OPTIONS[options])
    vipd.start()
    vipd.apply(objects())
    r = Round()
    with contextlib.ExitStack() as stack:
        stack.enter_context(F.silent(lab.pod1, *(L.POD["pod1"][f] for f in FAMS)))
        stack.enter_context(F.silent(lab.node2, *(L.remote(REMOTE[0], f) for f in FAMS)))
        assert r.connect(lab) > 10
        if "--metrics-per-service" in vipd.flags:
            for name in SERVICES:  # a SYN that is repeated while its entry is being deleted counts again
                n = series(lab, "vipd_service_connections_total", service=name)
                assert r.count[name] <= n <= r.count[name] + 2, (name, n, r.count)
        if vipd.flags["--failover"] == "eject":
            eject(lab, vipd)
            assert r.connect(lab) == 0
