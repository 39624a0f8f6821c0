# SPDX-License-Identifier: GPL-2.0-or-later
"""SCTP on all frontends (SVC-38), without a kernel that has SCTP sockets: INIT in, INIT-ACK back,
with the right addresses, ports, verification tag and CRC32c after two translations."""
import pytest

import lab as L
import rawpackets
import shop
from objects import port, service, slice_, slice_port
from shop import E1, E2, Svc

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
ORIGINS = pytest.mark.parametrize("origin", "XPH")
BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
ITP_REMOTE = Svc("itp-remote", 3, "remote", itp="Local")
NONE = Svc("none", 4, "none")


@pytest.fixture(scope="module", autouse=True)
def served(lab, vipd):
    servers = rawpackets.SctpServers(lab, ("pod1", "pod2", "node2"), (8080, 8081))
    dns = [service("dns", [L.cluster_ip(5, 4), L.cluster_ip(5, 6)],
                   [port(53, p, p.lower()) for p in ("TCP", "UDP", "SCTP")])]
    dns += [slice_("dns", [E1[f]], [slice_port(5353, "TCP", "tcp"), slice_port(8080, "UDP", "udp"),
                                    slice_port(8081, "SCTP", "sctp")]) for f in (4, 6)]
    vipd.apply([o for s in (BOTH, ETP_LOCAL, ITP_REMOTE, NONE) for o in s.objects()] + dns)
    yield
    servers.close()


@FAM
@ORIGINS
@pytest.mark.parametrize("kind", shop.KINDS)
def test_reaches(lab, vipd, fam, origin, kind):
    to, number = BOTH.target(kind, fam)
    masq = not (origin == "P" and kind == "clusterip")
    met = set()
    for _ in range(40):
        r = rawpackets.sctp_probe(lab.ns[shop.ORIGIN[origin]], to, number)
        assert r.ok, r
        assert r.backend_port == 8080
        assert r.peer == shop.expected_peer(origin, fam, r.backend, masq, to), r
        met.add(r.backend)
        if met == {E1[fam], E2[fam]}:
            return
    raise AssertionError("only %s" % met)


@FAM
def test_local_policy_keeps_the_source(lab, vipd, fam):
    to, number = ETP_LOCAL.target("lb", fam)
    for _ in range(6):
        r = rawpackets.sctp_probe(lab.client, to, number)
        assert r.ok and r.backend == E1[fam] and r.peer == L.CLIENT[fam], r


@FAM
@pytest.mark.parametrize("kind", shop.KINDS)
def test_refused(lab, vipd, fam, kind):
    """REJ-01"""
    r = rawpackets.sctp_probe(lab.client, *NONE.target(kind, fam))
    assert r.what == "refused", r


@FAM
def test_dropped(lab, vipd, fam):
    r = rawpackets.sctp_probe(lab.client, *ITP_REMOTE.target("clusterip", fam), timeout=0.3)
    assert r.what == "timeout", r


@FAM
def test_unknown_port(lab, vipd, fam):
    """REJ-05."""
    r = rawpackets.sctp_probe(lab.client, BOTH.addr("clusterip", fam), 81)
    assert r.what == "refused", r


@FAM
def test_three_protocols_one_number(lab, vipd, fam):
    """SVC-05, T-023."""
    ip = L.cluster_ip(5, fam)
    assert L.probe(lab.client, ip, 53).backend_port == 5353
    assert L.probe(lab.client, ip, 53, "udp").backend_port == 8080
    r = rawpackets.sctp_probe(lab.client, ip, 53)
    assert r.ok and r.backend_port == 8081, r
