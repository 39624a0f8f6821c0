# SPDX-License-Identifier: GPL-2.0-or-later
"""--failover together with options and fields that decide about the backend, the source address and the
counters of a connection: a connection that moved is treated as one that did not."""
import collections
import contextlib

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


@pytest.mark.no_steady
@pytest.mark.parametrize("options", OPTIONS)
def test_moved_as_others(lab, vipd, options):
    """CT-18, CT-23: no connection fails or ends at a silent endpoint; each backend sees the same source
    address of a client's connections, moved ones included; each connection counts once."""
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS, **FLAGS)
    vipd.flags.update(OPTIONS[options])
    vipd.start()
    vipd.apply(objects())
    peers = collections.defaultdict(set)
    count = collections.Counter()
    with contextlib.ExitStack() as stack:
        stack.enter_context(F.silent(lab.pod1, *(L.POD["pod1"][f] for f in FAMS)))
        stack.enter_context(F.silent(lab.node2, *(L.remote(REMOTE[0], f) for f in FAMS)))
        all_ = [(name, fam, role, source,
                 stack.enter_context(F.Connects(lab, to, number, n=1, role=role, source=source)))
                for i, name in enumerate(SERVICES, 1) for fam in FAMS
                for role, to, number, sources in targets(i, name, fam) for source in sources]
        moved = 0
        for name, fam, role, source, c in all_:
            assert c.wait(L.PATIENCE) == 0 and not c.errors, (name, fam, role, c.errors)
            moved += c.retries()[0] == 0
            (s,) = c.socks.values()
            s.setblocking(True)
            r = L.Conn(s, "tcp").ask(L.PATIENCE)
            good = {L.POD["pod3"][fam], L.remote(REMOTE[1], fam)}
            assert r.ok and r.backend in good, (name, fam, role, r)
            if name == "etp" and role == "client" and s.getpeername()[0] != L.cluster_ip(3, fam):
                assert r.backend == L.POD["pod3"][fam], (role, r)
            peers[(name, fam, role, s.getpeername()[0], r.backend)].add(
                "kept" if r.peer == source else r.peer)
            count[name] += 1
        assert moved > 10
    assert not {k: v for k, v in peers.items() if len(v) != 1}
    if "--metrics-per-service" in vipd.flags:
        for name in SERVICES:  # a SYN that is repeated while its entry is being deleted counts again
            n = series(lab, "vipd_service_connections_total", service=name)
            assert count[name] <= n <= count[name] + 2, (name, n, count)
