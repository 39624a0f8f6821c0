# SPDX-License-Identifier: GPL-2.0-or-later
"""The resolver compared with the examples of doc/behaviour.md, sections 5.4 and 17."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from objects import entry, node, port, service, service_cidr, slice_, slice_port  # noqa: E402
from resolver import DROP, REJECT, Config, Pool, resolve  # noqa: E402

CONFIG = Config("n1", cluster_cidrs=["10.0.0.0/8"])
E = {i: "10.0.1.%d" % i for i in (1, 2, 3)}
CIP = (4, "10.96.0.1", "TCP", 80)
VIP = (4, "192.0.2.1", "TCP", 80)


def pool(*numbers, affinity=0):
    return Pool(frozenset((E[n], 8080) for n in numbers), affinity)


def one(endpoints, config=CONFIG, zone="a", **kw):
    svc = service("s", "10.96.0.1", 80, **kw)
    return resolve([node("n1", ["192.168.0.2"], zone=zone), svc,
                    slice_("s", endpoints, 8080, fam=4)], config).frontends


def term(addr, local=False, serving=True):
    return entry(addr, node="n1" if local else "n2", ready=False, serving=serving,
                 terminating=True)


# name, endpoints, ITP, ETP (external when set), cluster IP verdict, outside verdict, pod verdict
WORKED = [
    ("zones", [entry(E[1], zones="a"), entry(E[2], zones="b"), entry(E[3], zones="a")],
     None, None, pool(1, 3), None, None),
    ("a hint is missing", [entry(E[1], zones="a"), entry(E[2], zones="b"), entry(E[3])],
     None, None, pool(1, 2, 3), None, None),
    ("no hint for this zone", [entry(E[1], zones="b"), entry(E[2], zones="c")],
     None, None, pool(1, 2), None, None),
    ("unready in this zone", [entry(E[1], ready=False, zones="a"), entry(E[2], zones="b")],
     None, None, pool(2), None, None),
    ("node hints", [entry(E[1], nodes=["n1"]), entry(E[2], nodes=["n2"])],
     None, None, pool(1), None, None),
    ("hints and local", [entry(E[1], "n1", zones="a"), entry(E[2], "n1", zones="b"),
                         entry(E[3], "n2", zones="a")],
     None, "Local", pool(1, 3), pool(1, 2), pool(1, 3)),
    ("ITP local, remote only", [entry(E[1], "n2"), entry(E[2], "n2")],
     "Local", None, DROP, None, None),
    ("remote terminating", [term(E[1]), term(E[2])], "Local", "Local", DROP, DROP, pool(1, 2)),
    ("local terminating", [entry(E[1], "n2"), term(E[2], True), term(E[3], True, False)],
     None, "Local", pool(1), pool(2), pool(1)),
    ("ready hides terminating", [entry(E[1], "n1"), term(E[2], True)],
     "Local", None, pool(1), None, None),
    ("nothing", [entry(E[1], "n1", ready=False, serving=False)],
     "Local", "Local", REJECT, REJECT, REJECT),
    ("node hints win over zones", [entry(E[1], zones="a", nodes=["n2"]),
                                   entry(E[2], zones="b", nodes=["n1"])],
     None, None, pool(2), None, None),
    ("node hints without this node", [entry(E[1], zones="a", nodes=["n2"]),
                                 entry(E[2], zones="b", nodes=["n2"])],
     None, None, pool(1), None, None),
    ("published though unready", [entry(E[1], ready=True, serving=False, terminating=True)],
     None, None, pool(1), None, None),
]


@pytest.mark.parametrize("name,endpoints,itp,etp,inner,outside,pod", WORKED,
                         ids=[w[0] for w in WORKED])
def test_worked(name, endpoints, itp, etp, inner, outside, pod):
    f = one(endpoints, itp=itp, etp=etp, lb=["192.0.2.1"] if etp else ())
    assert f[CIP].outside == f[CIP].pod == f[CIP].host == inner
    if etp:
        assert f[VIP].outside == outside
        assert f[VIP].pod == f[VIP].host == pod
        assert f[VIP].masq == "host"
    else:
        assert VIP not in f


def test_no_detector_pod_counts_as_outside():
    """POL-23"""
    f = one([entry(E[1], "n1"), entry(E[2], "n2")], config=Config("n1"), etp="Local",
            lb=["192.0.2.1"])
    assert f[VIP].pod == f[VIP].outside == pool(1)
    assert f[VIP].host == pool(1, 2)


def test_no_zone():
    f = one([entry(E[1], zones="a"), entry(E[2], zones="b")], zone="")
    assert f[CIP].outside == pool(1, 2)


RANGES = [
    ("none", [], None),
    ("one", ["203.0.113.0/25"], {"203.0.113.0/25"}),
    ("blanks", [" 203.0.113.0/25 "], {"203.0.113.0/25"}),
    ("sloppy", ["203.0.113.000/025"], {"203.0.113.0/25"}),
    ("zero", ["203.0.113.0/25", "0.0.0.0/0"], None),
    ("other family only", ["2001:db8::/32"], None),
    ("all bad", ["nonsense", "10.0.0.0"], set()),
    ("bad and good", ["nonsense", "10.0.0.0/8"], {"10.0.0.0/8"}),
    ("bad and other family", ["nonsense", "2001:db8::/32"], set()),
    ("too many", ["10.0.0.0/8"] * 1024 + ["203.0.113.0/25"], {"10.0.0.0/8"}),
    ("too many of the other family", ["2001:db8::/32"] * 1024 + ["203.0.113.0/25"], set()),
    ("node inside", ["192.168.0.0/24"], {"192.168.0.0/24", "192.0.2.1/32"}),
    ("neighbours", ["10.0.0.0/9", "10.128.0.0/9", "10.1.0.0/16"], {"10.0.0.0/8"}),
]


@pytest.mark.parametrize("name,ranges,want", RANGES, ids=[r[0] for r in RANGES])
def test_ranges(name, ranges, want):
    f = one([entry(E[1])], lb=["192.0.2.1"], ranges=ranges, external_ips=["198.51.100.1"])
    got = f[VIP].ranges
    assert (None if got is None else {str(n) for n in got}) == want
    assert f[CIP].ranges is None
    assert f[4, "198.51.100.1", "TCP", 80].ranges is None


@pytest.mark.parametrize("n_ports,n_lb,n_external,want", [
    (1000, 2, 29, (2, 29)), (1000, 2, 30, (2, 29)), (1000, 40, 5, (31, 0)), (9000, 1, 3, (1, 2))])
def test_many_addresses(n_ports, n_lb, n_external, want):
    """SVC-15, SVC-19: the cluster IP, then load balancer addresses, then external IPs; of each list
    the first ones."""
    lb = ["192.0.2.%d" % (200 - i) for i in range(n_lb)]
    external = ["198.51.100.%d" % (200 - i) for i in range(n_external)]
    svc = service("s", "10.96.0.1", [port(i + 1) for i in range(n_ports)], lb=lb,
                  external_ips=external)
    f = resolve([node("n1", ["192.168.0.2"]), svc], CONFIG).frontends
    assert {k[1] for k in f} == {"10.96.0.1", *lb[:want[0]], *external[:want[1]]}
    assert len(f) == n_ports * (1 + sum(want))


def test_ranges_of_a_shared_frontend():
    """SVC-24: the VIP is the cluster IP, or the node's address and the node port is the port."""
    svc = service("s", "10.96.0.1", port(80, node_port=80), lb=["10.96.0.1", "192.168.0.2"],
                  external_ips=["198.51.100.1"], ranges=["203.0.113.0/25"])
    f = resolve([node("n1", ["192.168.0.2"]), svc], CONFIG).frontends
    assert {k[1]: (v.kind, v.ranges and {str(n) for n in v.ranges}) for k, v in f.items()} == {
        "10.96.0.1": ("clusterip", {"203.0.113.0/25"}),
        "192.168.0.2": ("nodeport", {"203.0.113.0/25"}), "198.51.100.1": ("externalip", None)}


def test_frontends_of_all_kinds():
    svc = service("s", ["10.96.0.1", "fd00::1"], [port(80, node_port=30080), port(80, "SCTP")],
                  external_ips=["198.51.100.1", "", "abc", "2001:db8::1"],
                  lb=[("192.0.2.1", "VIP"), ("192.0.2.2", "Proxy"), "2001:db8:2::1"])
    f = resolve([node("n1", ["192.168.0.2", "fd00:192::2"]), svc], CONFIG).frontends
    assert {k: v.kind for k, v in f.items()} == {
        (4, "10.96.0.1", "TCP", 80): "clusterip", (4, "10.96.0.1", "SCTP", 80): "clusterip",
        (4, "198.51.100.1", "TCP", 80): "externalip", (4, "198.51.100.1", "SCTP", 80): "externalip",
        (4, "192.0.2.1", "TCP", 80): "lb", (4, "192.0.2.1", "SCTP", 80): "lb",
        (4, "192.168.0.2", "TCP", 30080): "nodeport",
        (6, "fd00::1", "TCP", 80): "clusterip", (6, "fd00::1", "SCTP", 80): "clusterip",
        (6, "2001:db8::1", "TCP", 80): "externalip", (6, "2001:db8::1", "SCTP", 80): "externalip",
        (6, "2001:db8:2::1", "TCP", 80): "lb", (6, "2001:db8:2::1", "SCTP", 80): "lb",
        (6, "fd00:192::2", "TCP", 30080): "nodeport"}
    assert all(v.outside == REJECT for v in f.values())


SKIPPED = [
    ("headless", {"clusterIP": "None"}, {}),
    ("empty", {"clusterIP": ""}, {}),
    ("external name", {"type": "ExternalName"}, {}),
    ("proxy name", {}, {"service.kubernetes.io/service-proxy-name": ""}),
    ("no ports", {"ports": []}, {}),
]


@pytest.mark.parametrize("name,spec,labels", SKIPPED, ids=[s[0] for s in SKIPPED])
def test_not_proxied(name, spec, labels):
    svc = service("s", "10.96.0.1", 80, labels=labels)
    svc["spec"].update(spec)
    result = resolve([svc], CONFIG)
    assert not result.frontends and not result.cluster_ips


def test_families():
    """T-015, T-016"""
    svc = service("s", ["fd00::1", "10.96.0.1"], 80)
    assert set(resolve([svc], CONFIG).frontends) == {CIP, (6, "fd00::1", "TCP", 80)}
    del svc["spec"]["ipFamilies"]
    assert set(resolve([svc], CONFIG).frontends) == {(6, "fd00::1", "TCP", 80)}


def test_slices_merge():
    """T-031 to T-036, T-038"""
    svc = service("s", "10.96.0.1", [port(80, name="a"), port(81, name="b")])
    null_name = slice_port(9, name="a")
    null_name["name"] = None
    objs = [svc,
            slice_("s", [E[1], E[2]], [slice_port(8080, name="a"), null_name], name="x"),
            slice_("s", [E[2], E[3]], [slice_port(8080, name="a"),
                                       slice_port(0, name="b")], name="y"),
            slice_("s", [E[1]], slice_port(9090, name="b"), name="z"),
            slice_("s", [E[1]], slice_port(1, name="a"), name="h",
                   labels={"service.kubernetes.io/headless": ""}),
            slice_("s", ["10.0.9.9"], slice_port(1, name="a"), ns="other")]
    f = resolve(objs, CONFIG).frontends
    assert f[CIP].outside == pool(1, 2, 3)
    assert f[4, "10.96.0.1", "TCP", 81].outside == Pool(frozenset({(E[1], 9090)}), 0)


def test_running_beats_terminating():
    for order in ([0, 1], [1, 0]):
        pair = [entry(E[1]), term(E[1])]
        assert one([pair[i] for i in order])[CIP].outside == pool(1)


def test_newer_slice_wins():
    """EPS-15"""
    svc = service("s", "10.96.0.1", 80)
    old = slice_("s", [entry(E[1])], 8080, name="a", version=9)
    new = slice_("s", [entry(E[1], ready=False)], 8080, name="b", version=10)
    for objs in ([svc, old, new], [svc, new, old]):
        assert resolve(objs, CONFIG).frontends[CIP].outside == REJECT


def test_conflict_older_wins():
    """SEL-14, T-127"""
    a = service("a", "10.96.0.1", 80, external_ips=["198.51.100.1"],
                created="2026-02-01T00:00:00Z")
    b = service("b", "10.96.0.2", 80, external_ips=["198.51.100.1"],
                created="2026-01-01T00:00:00Z")
    c = service("c", "10.96.0.3", 80, external_ips=["198.51.100.1"])
    r = resolve([c, a, b], CONFIG)
    key = (4, "198.51.100.1", "TCP", 80)
    assert r.frontends[key].owner == "default/b"
    assert sorted(x[1] for x in r.conflicts) == ["default/a", "default/c"]


def test_conflict_precedence():
    """SEL-14: a younger service keeps its cluster IP, node port and load balancer address if the
    older service claims them with a kind of lower precedence."""
    old = {"created": "2026-01-01T00:00:00Z"}
    new = {"created": "2026-02-01T00:00:00Z"}
    kinds = [
        lambda n, when: service(n, "192.168.0.2", 80, **when),
        lambda n, when: service(n, "10.96.0.8" + n, [port(9000, node_port=80)], kind="NodePort",
                                **when),
        lambda n, when: service(n, "10.96.0.8" + n, 80, lb=["192.168.0.2"],
                                kind="LoadBalancer", **when),
        lambda n, when: service(n, "10.96.0.8" + n, 80, external_ips=["192.168.0.2"], **when)]
    key = (4, "192.168.0.2", "TCP", 80)
    for i, winner in enumerate(kinds):
        for loser in kinds[i + 1:]:
            r = resolve([node("n1", ["192.168.0.2"]), loser("1", old), winner("2", new)], CONFIG)
            assert r.frontends[key].owner == "default/2"
            assert r.conflicts == [(key, "default/1", "default/2")]


NODEPORTS = [
    ("primary", None, {"192.168.0.2", "fd00:192::2"}),
    ("one net", ["192.168.0.0/16"], {"192.168.0.2"}),
    ("two families", ["203.0.113.0/24", "fd00::/16"], {"203.0.113.1", "fd00:192::2"}),
    ("zero", ["0.0.0.0/0"], {"192.168.0.2", "203.0.113.1"}),
    ("loopback only", ["127.0.0.0/8"], set()),
]


@pytest.mark.parametrize("name,addresses,want", NODEPORTS, ids=[n[0] for n in NODEPORTS])
def test_nodeport_addresses(name, addresses, want):
    config = Config("n1", nodeport_addresses=addresses,
                    host_addresses=["127.0.0.1", "192.168.0.2", "203.0.113.1", "::1",
                                    "fd00:192::2"])
    svc = service("s", ["10.96.0.1", "fd00::1"], port(80, node_port=30080))
    f = resolve([node("n1", ["192.168.0.2", "fd00:192::2"]), svc], config).frontends
    assert {k[1] for k in f if k[3] == 30080} == want


def test_etp_local_only_on_external_kinds():
    """SVC-28, T-064"""
    f = one([entry(E[1], "n2")], etp="Local", kind="ClusterIP", lb=["192.0.2.1"])
    assert f[VIP].outside == pool(1) and f[VIP].masq == "always"


def test_service_cidrs():
    r = resolve([service_cidr("a", ["10.96.0.0/16", "fd00::/112"]),
                 service_cidr("b", ["10.96.0.0/20"])],
                Config("n1", service_cidrs=["10.97.0.0/16"]))
    assert [str(n) for n in r.service_cidrs[4]] == ["10.96.0.0/15"]
    assert [str(n) for n in r.service_cidrs[6]] == ["fd00::/112"]
