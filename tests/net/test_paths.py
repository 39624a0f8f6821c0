# SPDX-License-Identifier: GPL-2.0-or-later
"""Packet paths: which client reaches which endpoint through which frontend, and with which source
(T-073..T-097)."""
import re

import pytest

import daemon
import lab as L
import shop
from shop import E1, E2, KINDS, Svc

BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
ITP_LOCAL = Svc("itp-local", 3, itp="Local")
ITP_REMOTE = Svc("itp-remote", 4, "remote", itp="Local")
ETP_REMOTE = Svc("etp-remote", 5, "remote", etp="Local")
NONE = Svc("none", 6, "none")
NONE_LOCAL = Svc("none-local", 7, "none", etp="Local", itp="Local")
PROXY_MODE = Svc("proxy-mode", 8, mode="Proxy")
LOCAL_ONLY = Svc("local-only", 9, "local", etp="Local")
SERVICES = [BOTH, ETP_LOCAL, ITP_LOCAL, ITP_REMOTE, ETP_REMOTE, NONE, NONE_LOCAL, PROXY_MODE,
            LOCAL_ONLY]

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
ORIGINS = pytest.mark.parametrize("origin", "XPH")
KIND = pytest.mark.parametrize("kind", KINDS)
EXTERNAL = pytest.mark.parametrize("kind", KINDS[1:])


@pytest.fixture(scope="module", autouse=True)
def served(vipd):
    vipd.apply([o for s in SERVICES for o in s.objects()])
    vipd.check_tables()


def both(fam):
    return {E1[fam], E2[fam]}


@FAM
@PROTO
@ORIGINS
@KIND
def test_cluster_policy(lab, vipd, fam, proto, origin, kind):
    """T-073 to T-077: e1 and e2; masqueraded but for a pod's connection to the cluster IP."""
    to, number = BOTH.target(kind, fam)
    masq = not (origin == "P" and kind == "clusterip")
    shop.reach(lab, origin, to, number, proto, fam, both(fam), masq)


@FAM
@PROTO
@ORIGINS
@KIND
def test_external_policy_local(lab, vipd, fam, proto, origin, kind):
    """T-078 to T-081."""
    to, number = ETP_LOCAL.target(kind, fam)
    if kind == "clusterip":  # T-081
        shop.reach(lab, origin, to, number, proto, fam, both(fam), origin != "P")
    elif origin == "X":  # T-080
        shop.reach(lab, origin, to, number, proto, fam, {E1[fam]}, False)
    elif origin == "P":  # T-078
        shop.reach(lab, origin, to, number, proto, fam, both(fam), False)
    else:  # T-079
        shop.reach(lab, origin, to, number, proto, fam, both(fam), True)


@FAM
@PROTO
@ORIGINS
@KIND
def test_internal_policy_local(lab, vipd, fam, proto, origin, kind):
    """T-082 to T-084."""
    to, number = ITP_LOCAL.target(kind, fam)
    if kind == "clusterip":
        shop.reach(lab, origin, to, number, proto, fam, {E1[fam]}, origin != "P")
    else:
        shop.reach(lab, origin, to, number, proto, fam, both(fam), True)


@FAM
@PROTO
@ORIGINS
def test_internal_policy_local_remote_only(lab, vipd, fam, proto, origin):
    """REJ-02: dropped, not refused."""
    to, number = ITP_REMOTE.target("clusterip", fam)
    shop.fails(lab, origin, to, number, proto, "drop")


@FAM
@PROTO
@ORIGINS
@EXTERNAL
def test_external_policy_local_remote_only(lab, vipd, fam, proto, origin, kind):
    """REJ-03, POL-25: outside clients are dropped, pods and the node take the short circuit."""
    to, number = ETP_REMOTE.target(kind, fam)
    if origin == "X":
        shop.fails(lab, origin, to, number, proto, "drop")
    else:
        shop.reach(lab, origin, to, number, proto, fam, {E2[fam]}, origin == "H")


@FAM
@PROTO
@ORIGINS
@KIND
@pytest.mark.parametrize("svc", (NONE, NONE_LOCAL), ids=lambda s: s.name)
def test_no_endpoints(lab, vipd, fam, proto, origin, kind, svc):
    """T-093, REJ-01: refused at once, whatever the policy."""
    to, number = svc.target(kind, fam)
    shop.fails(lab, origin, to, number, proto, "reject")


@FAM
@PROTO
@ORIGINS
def test_wrong_port(lab, vipd, fam, proto, origin):
    """T-090: a port of no service on a cluster IP that exists."""
    shop.fails(lab, origin, BOTH.addr("clusterip", fam), 81, proto, "reject")


@FAM
@ORIGINS
def test_wrong_protocol(lab, vipd, fam, origin):
    """T-091: the marker service has one TCP port and no endpoint."""
    addr = daemon.MARKER_IP[fam]
    shop.fails(lab, origin, addr, vipd.serial, "tcp", "reject")  # no endpoints
    shop.fails(lab, origin, addr, vipd.serial, "udp", "reject")  # no such protocol


@FAM
@PROTO
@ORIGINS
def test_unallocated_cluster_ip(lab, vipd, fam, proto, origin):
    """T-092, REJ-06: an unallocated address of the service range is dropped. The rest of the world
    would have answered."""
    shop.fails(lab, origin, L.cluster_ip(99, fam), 80, proto, "drop")


@FAM
@ORIGINS
@pytest.mark.parametrize("what", ("external", "lb"))
def test_unknown_port_of_external_address_is_untouched(lab, vipd, fam, origin, what):
    """Section 7, last row of the table: goes where routing sends it."""
    addr = BOTH.addr("externalip" if what == "external" else "lb", fam)
    r = L.probe(lab.ns[shop.ORIGIN[origin]], addr, 81)
    assert r.what == "untouched", r


@FAM
@ORIGINS
def test_proxy_mode_is_untouched(lab, vipd, fam, origin):
    """T-021, SVC-16: not captured, so the rest of the world answers."""
    addr = PROXY_MODE.addr("lb", fam)
    r = L.probe(lab.ns[shop.ORIGIN[origin]], addr, 80)
    assert r.what == "untouched", r


@FAM
@ORIGINS
def test_unserved_node_port_is_untouched(lab, vipd, fam, origin):
    """REJ-14: the host itself refuses."""
    shop.fails(lab, origin, L.NODE[fam], 31999, "tcp", "reject")


@FAM
@PROTO
@pytest.mark.parametrize("kind,masq", (("clusterip", True), ("lb", True), ("nodeport", True)))
def test_hairpin(lab, vipd, fam, proto, kind, masq):
    """T-088: a pod reaches itself through its service, and does not see its own address."""
    to, number = BOTH.target(kind, fam)
    met = set()
    for _ in range(60):
        r = L.probe(lab.pod1, to, number, proto)
        assert r.ok, r
        if r.backend == E1[fam]:
            assert r.peer == L.BRIDGE[fam]
        elif kind == "clusterip":
            assert r.peer == E1[fam]
        else:
            assert r.peer == L.NODE[fam]
        met.add(r.backend)
        if met == both(fam):
            return
    raise AssertionError("only %s" % met)


@FAM
@PROTO
def test_hairpin_local_policy(lab, vipd, fam, proto):
    """T-089: through a VIP with ETP=Local."""
    to, number = LOCAL_ONLY.target("lb", fam)
    for _ in range(5):
        r = L.probe(lab.pod1, to, number, proto)
        assert r.ok and r.backend == E1[fam] and r.peer == L.BRIDGE[fam], r


@FAM
def test_other_nodes_pod_counts_as_pod(lab, vipd, fam):
    """POL-24: with ClusterCIDR a pod of another node is P: the short circuit, source kept."""
    to, number = ETP_LOCAL.target("lb", fam)
    source = L.far(33, fam)
    met = set()
    for _ in range(60):
        r = L.probe(lab.client, to, number, source=source)
        assert r.ok, r
        met.add(r.backend)
        if r.backend == E1[fam]:
            assert r.peer == source
        if met == both(fam):
            return
    raise AssertionError("only %s" % met)


@FAM
def test_other_node_is_outside(lab, vipd, fam):
    """The other node's own address is X."""
    to, number = ETP_LOCAL.target("lb", fam)
    for _ in range(10):
        r = L.probe(lab.node2, to, number, source=L.NODE2[fam])
        assert r.ok and r.backend == E1[fam] and r.peer == L.NODE2[fam], r


@FAM
@PROTO
def test_spread(lab, vipd, fam, proto):
    """POL-27: uniformly at random. 400 connections over two: 6 sigma is 60."""
    to, number = BOTH.target("clusterip", fam)
    target = "%s:%s" % (proto, L.endpoint(to, number))
    r = lab.flow("client", "new", "--to", target, "--count", "400", "--concurrency", "8").wait()
    assert r["failed"] == 0, r
    counts = [b["n"] for b in r["backends"].values()]
    assert len(counts) == 2 and min(counts) > 140, counts


@FAM
def test_marks_are_not_touched(lab, vipd, fam):
    """MASQ-11: vipd uses no mark, so foreign bits stay. A foreign rule counts packets with any
    mark after translation."""
    table = "ip%s vipdt_mark" % ("" if fam == 4 else "6")
    lab.node.run("nft", """table %s {
        chain pre { type filter hook prerouting priority -110; meta mark set 0x12345678; }
        chain post { type filter hook postrouting priority 110;
            meta mark != 0x12345678 iifname cl0 counter; meta mark 0x12345678 counter; }
    }""" % table)
    try:
        to, number = BOTH.target("lb", fam)
        for _ in range(5):
            assert L.probe(lab.client, to, number).ok
        text = lab.node.run("nft", "list", "table", *table.split())
        changed, kept = [int(w) for w in re.findall(r"packets (\d+)", text)]
        assert changed == 0 and kept > 0, text
    finally:
        lab.node.run("nft", "delete", "table", *table.split())
