# SPDX-License-Identifier: GPL-2.0-or-later
"""--preserve-local-source (MASQ-07): the source address that a backend sees, on this node and on
another, together with the options and fields that decide about masquerading."""
import pytest

import daemon
import lab as L
import planes
import shop
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2, Svc
from test_vipctl_trace import ADDRESS, trace

FLAGS = {"--preserve-local-source": True}
BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
STICKY = Svc("sticky", 3, affinity=300)
HASHED = Svc("hashed", 4, annotations={"vipd.io/scheduler": "mh"})
SERVICES = (BOTH, ETP_LOCAL, STICKY, HASHED)
SERVER = 8080  # what this host serves itself
MODES = {
    "cluster-cidr": {},
    "bridge": {"--detect-local-mode": "BridgeInterface", "--pod-bridge-interface": "br0",
               "--cluster-cidr": None},
    "no-detector": {"--cluster-cidr": None},
    "masquerade-all": {"--masquerade-all": True},
    "all-node-addresses": {"--nodeport-addresses": "0.0.0.0/0,::/0"},
}
FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
ORIGINS = pytest.mark.parametrize("origin", "XPH")
EXTERNAL = pytest.mark.parametrize("kind", shop.KINDS[1:])


def on_host(number=9):
    """A service whose only endpoint is this host."""
    out = [service("hosted", [L.cluster_ip(number, 4), L.cluster_ip(number, 6)],
                   [port(80, "TCP", "tcp")], lb=[L.lb_ip(number, 4), L.lb_ip(number, 6)])]
    return out + [slice_("hosted", [entry(L.NODE[fam], L.NODE_NAME)],
                         [slice_port(SERVER, "TCP", "tcp")], fam=fam) for fam in (4, 6)]


def objects():
    return [o for s in SERVICES for o in s.objects()] + on_host()


def restart(lab, vipd, flags):
    vipd.stop()
    shop.forget_udp(lab, [s.addr(kind, fam) for s in SERVICES
                          for kind in ("clusterip", "externalip", "lb") for fam in (4, 6)] +
                    list(L.NODE.values()))
    vipd.flags = dict(daemon.FLAGS, **flags)
    vipd.start()
    vipd.apply(objects())
    vipd.check_tables()


@pytest.fixture(scope="module", params=MODES, ids=str)
def mode(request, vipd, lab, steady):
    """The daemon with the option and others."""
    restart(lab, vipd, dict(FLAGS, **MODES[request.param]))
    return request.param


def sees(lab, origin, to, number, proto, fam, want, source=None):
    """Connect until each backend of `want` {address: masqueraded?} has answered."""
    ns = lab.ns[shop.ORIGIN[origin]]
    met = set()
    for _ in range(60):
        r = L.probe(ns, to, number, proto, source=source)
        assert r.ok and r.backend in want, r
        peer = shop.expected_peer(origin, fam, r.backend, want[r.backend], to)
        assert r.peer == (source if source and not want[r.backend] else peer), r
        met.add(r.backend)
        if met == set(want):
            return
    raise AssertionError("only %s" % met)


def traced(vipd, address, to, number, proto):
    """What vipctl trace says of the source for each endpoint, and for all."""
    answer = trace(vipd, address, to, number, proto)
    each = {e["address"]: e["masqueraded"] for e in answer["endpoints"] if e["used"]}
    assert answer["service"]["masqueraded"] == any(each.values())
    return each


@FAM
@PROTO
@ORIGINS
@EXTERNAL
def test_cluster_policy(lab, vipd, mode, fam, proto, origin, kind):
    """The source is preserved to the endpoint on this node only, except this host's own."""
    to, number = BOTH.target(kind, fam)
    want = {E1[fam]: origin == "H", E2[fam]: True}
    assert traced(vipd, ADDRESS[origin][fam], to, number, proto) == want
    sees(lab, origin, to, number, proto, fam, want)


@FAM
@ORIGINS
def test_cluster_ip(lab, vipd, mode, fam, origin):
    """Without an effect on cluster IPs."""
    to, number = BOTH.target("clusterip", fam)
    masq = mode == "masquerade-all" or (mode != "no-detector" and origin != "P")
    shop.reach(lab, origin, to, number, "tcp", fam, {E1[fam], E2[fam]}, masq)


@FAM
@ORIGINS
@EXTERNAL
def test_external_policy_local(lab, vipd, mode, fam, origin, kind):
    to, number = ETP_LOCAL.target(kind, fam)
    if origin == "X" or (origin == "P" and mode == "no-detector"):
        shop.reach(lab, origin, to, number, "tcp", fam, {E1[fam]}, False)
    else:
        shop.reach(lab, origin, to, number, "tcp", fam, {E1[fam], E2[fam]}, origin == "H")


@FAM
@PROTO
@EXTERNAL
def test_hairpin(lab, vipd, mode, fam, proto, kind):
    """MASQ-09: a pod never meets its own address."""
    to, number = BOTH.target(kind, fam)
    assert traced(vipd, E1[fam], to, number, proto) == {E1[fam]: True, E2[fam]: True}
    met = set()
    for _ in range(60):
        r = L.probe(lab.pod1, to, number, proto)
        assert r.ok and r.peer == (L.BRIDGE if r.backend == E1[fam] else L.NODE)[fam], r
        met.add(r.backend)
        if met == {E1[fam], E2[fam]}:
            return
    raise AssertionError("only %s" % met)


@FAM
def test_from_another_node(lab, vipd, mode, fam):
    """From another node's own address, and from a pod of a third node."""
    to, number = BOTH.target("lb", fam)
    for ns, source in ((lab.node2, L.NODE2[fam]), (lab.client, L.far(51, fam))):
        met = set()
        for _ in range(60):
            r = L.probe(ns, to, number, source=source)
            assert r.ok, r
            assert r.peer == (source if r.backend == E1[fam] else L.NODE[fam]), r
            met.add(r.backend)
            if met == {E1[fam], E2[fam]}:
                break
        assert met == {E1[fam], E2[fam]}


@FAM
@pytest.mark.parametrize("svc", (STICKY, HASHED), ids=lambda s: s.name)
def test_clients_that_stay(lab, vipd, mode, fam, svc):
    """With affinity and with mh a client keeps its backend, which sees what it sees without."""
    to, number = svc.target("lb", fam)
    met = set()
    for i in range(1, 60):
        source = L.outer(i, fam)
        seen = {(r.backend, r.peer) for r in
                (L.probe(lab.client, to, number, source=source) for _ in range(3))}
        assert len(seen) == 1, seen
        backend, peer = seen.pop()
        assert peer == (source if backend == E1[fam] else L.NODE[fam])
        met.add(backend)
        if met == {E1[fam], E2[fam]}:
            return
    raise AssertionError("only %s" % met)


@FAM
def test_host_network(lab, vipd, mode, fam):
    """An endpoint that is this host sees the client with any flags: nothing could masquerade it."""
    server = lab.serve("node", str(SERVER))
    try:
        to = L.lb_ip(9, fam)
        assert traced(vipd, L.CLIENT[fam], to, 80, "tcp") == {L.NODE[fam]: False}
        r = L.probe(lab.client, to, 80)
        assert r.ok and r.backend == L.NODE[fam] and r.peer == L.CLIENT[fam], r
    finally:
        server.kill()


def test_option_changes(lab, vipd):
    """A restart with another value changes rules and elements, and no connection; one with the
    same value writes nothing. A deleted element is restored."""
    for flags, is_kept in (({}, False), (FLAGS, True)):
        restart(lab, vipd, flags)
        for fam in (4, 6):
            to, number = BOTH.target("nodeport", fam)
            assert vipd.status()["node"]["preserve_local_source"] is is_kept
            want = {E1[fam]: not is_kept, E2[fam]: True}
            assert traced(vipd, L.CLIENT[fam], to, number, "tcp") == want
            sees(lab, "X", to, number, "tcp", fam, want)
        page = vipd.get("/v1/services/default/both")
        assert {f["kind"]: f["masquerade"] for f in page["frontends"]} == dict(
            dict.fromkeys(("NodePort", "ExternalIP", "LoadBalancer"),
                          "to-other-nodes" if is_kept else "all"), ClusterIP="not-pods")
    vipd.stop()
    vipd.start()
    vipd.check_tables()
    # The ruleset's generation also counts addresses whose grace period has ended.
    assert vipd.status()["sync"]["writes"] == 0
    lab.node.run("nft", "delete", "element", *{
        "nft": ("ip", "vipd", "local_backends"),
        "ipvs": ("inet", "vipd-ipvs", "local_backends4")}[planes.PLANE], "{", E1[4], "}")
    vipd.check_tables()


@pytest.mark.no_steady
@pytest.mark.skipif(planes.PLANE != "ipvs", reason="needs a kernel with both planes")
def test_change_of_planes(lab, vipd):
    """MASQ-07: in force on the new plane, and adopted without a write."""
    restart(lab, vipd, FLAGS)
    for mode in ("nftables", "ipvs"):
        vipd.stop()
        vipd.flags["--proxy-mode"] = mode
        vipd.start()
        for fam in (4, 6):
            to, number = BOTH.target("lb", fam)
            want = {E1[fam]: False, E2[fam]: True}
            assert traced(vipd, L.CLIENT[fam], to, number, "tcp") == want
            sees(lab, "X", to, number, "tcp", fam, want)
        vipd.kill()
        vipd.start()
        assert vipd.status()["sync"]["writes"] == 0
