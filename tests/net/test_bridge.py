# SPDX-License-Identifier: GPL-2.0-or-later
"""The packet paths on a node whose bridge passes packets to netfilter (bridge-nf-call-iptables =
1, hairpin mode on the ports), as on most Kubernetes nodes with a bridge: translated packets
between pods of one node stay on the bridge."""
import os

import pytest

import lab as L
import shop
from shop import E1, E2, KINDS, Svc

BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
LOCAL_ONLY = Svc("local-only", 3, "local")
NONE = Svc("none", 4, "none")
FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))


@pytest.fixture(scope="module")
def lab():
    if not os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"):
        pytest.skip("the kernel has no br_netfilter")
    with L.Lab(bridge_nf=True) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def served(vipd):
    vipd.apply([o for s in (BOTH, ETP_LOCAL, LOCAL_ONLY, NONE) for o in s.objects()])
    vipd.check_tables()


@FAM
@PROTO
@pytest.mark.parametrize("origin", "XPH")
@pytest.mark.parametrize("kind", KINDS)
def test_paths(lab, vipd, fam, proto, origin, kind):
    to, number = BOTH.target(kind, fam)
    masq = not (origin == "P" and kind == "clusterip")
    shop.reach(lab, origin, to, number, proto, fam, {E1[fam], E2[fam]}, masq)


@FAM
@PROTO
@pytest.mark.parametrize("kind", KINDS)
def test_hairpin(lab, vipd, fam, proto, kind):
    to, number = LOCAL_ONLY.target(kind, fam)
    for _ in range(5):
        r = L.probe(lab.pod1, to, number, proto)
        assert r.ok and r.backend == E1[fam] and r.peer == L.BRIDGE[fam], r


@FAM
@PROTO
def test_local_policy(lab, vipd, fam, proto):
    to, number = ETP_LOCAL.target("lb", fam)
    shop.reach(lab, "X", to, number, proto, fam, {E1[fam]}, False)
    shop.reach(lab, "P", to, number, proto, fam, {E1[fam], E2[fam]}, False)
    shop.reach(lab, "H", to, number, proto, fam, {E1[fam], E2[fam]}, True)


@FAM
@PROTO
@pytest.mark.parametrize("origin", "XPH")
def test_refused(lab, vipd, fam, proto, origin):
    shop.fails(lab, origin, *NONE.target("clusterip", fam), proto, "reject")
