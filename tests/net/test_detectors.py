# SPDX-License-Identifier: GPL-2.0-or-later
"""Masquerading with every mode of pod detection, and with --masquerade-all (section 6, T-085 to
T-087). The daemon is restarted with other flags each time; the steady flows must not fail."""
import pytest

import daemon
import lab as L
import shop
from shop import E1, E2, Svc

BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
ITP_LOCAL = Svc("itp-local", 3, itp="Local")

# name, flags, is there a detector, is a pod of another node a pod, masquerade all
MODES = [
    ("cluster-cidr", {}, True, True, False),
    ("node-cidr", {"--detect-local-mode": "NodeCIDR", "--cluster-cidr": None}, True, False, False),
    ("bridge", {"--detect-local-mode": "BridgeInterface", "--pod-bridge-interface": "br0",
                "--cluster-cidr": None}, True, False, False),
    ("prefix", {"--detect-local-mode": "InterfaceNamePrefix", "--pod-interface-name-prefix": "br",
                "--cluster-cidr": None}, True, False, False),
    ("none", {"--cluster-cidr": None}, False, False, False),
    ("masquerade-all", {"--masquerade-all": True}, True, True, True),
    ("masquerade-all-no-detector", {"--masquerade-all": True, "--cluster-cidr": None}, False,
     False, True),
]
FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
ORIGINS = pytest.mark.parametrize("origin", "XPH")


class Mode:
    def __init__(self, name, flags, detector, remote_is_pod, masq_all):
        self.name = name
        self.flags = flags
        self.detector = detector
        self.remote_is_pod = remote_is_pod
        self.masq_all = masq_all


@pytest.fixture(scope="module", params=[Mode(*m) for m in MODES], ids=lambda m: m.name)
def mode(request, vipd, lab, steady):
    """The daemon with this mode's flags, services in place."""
    vipd.stop()
    shop.forget_udp(lab, [svc.addr(kind, fam) for svc in (BOTH, ETP_LOCAL, ITP_LOCAL)
                          for kind in ("clusterip", "externalip", "lb") for fam in (4, 6)] +
                    list(L.NODE.values()))
    vipd.flags = dict(daemon.FLAGS)
    vipd.flags.update(request.param.flags)
    vipd.start()
    vipd.apply([o for s in (BOTH, ETP_LOCAL, ITP_LOCAL) for o in s.objects()])
    vipd.check_tables()
    return request.param


def both(fam):
    return {E1[fam], E2[fam]}


@FAM
@PROTO
@ORIGINS
def test_cluster_ip(lab, vipd, mode, fam, proto, origin):
    """Pods keep their source; other clients are masqueraded if the mode detects pods."""
    to, number = BOTH.target("clusterip", fam)
    masq = mode.masq_all or (mode.detector and origin != "P")
    shop.reach(lab, origin, to, number, proto, fam, both(fam), masq)


@FAM
@ORIGINS
def test_cluster_ip_internal_local(lab, vipd, mode, fam, origin):
    """MASQ-06: ITP=Local has no effect on masquerading."""
    to, number = ITP_LOCAL.target("clusterip", fam)
    masq = mode.masq_all or (mode.detector and origin != "P")
    shop.reach(lab, origin, to, number, "tcp", fam, {E1[fam]}, masq)


@FAM
@ORIGINS
@pytest.mark.parametrize("kind", shop.KINDS[1:])
def test_external_cluster(lab, vipd, mode, fam, origin, kind):
    """ETP=Cluster: always masqueraded, also without a detector (MASQ-05)."""
    to, number = BOTH.target(kind, fam)
    shop.reach(lab, origin, to, number, "tcp", fam, both(fam), True)


@FAM
@ORIGINS
@pytest.mark.parametrize("kind", shop.KINDS[1:])
def test_external_local(lab, vipd, mode, fam, origin, kind):
    """ETP=Local: T-086 without a detector a pod counts as outside."""
    to, number = ETP_LOCAL.target(kind, fam)
    if origin == "X" or (origin == "P" and not mode.detector):
        shop.reach(lab, origin, to, number, "tcp", fam, {E1[fam]}, False)
    else:
        shop.reach(lab, origin, to, number, "tcp", fam, both(fam), origin == "H")


@FAM
def test_pod_of_another_node(lab, vipd, mode, fam):
    """POL-24: a pod by ClusterCIDR only."""
    to, number = ETP_LOCAL.target("lb", fam)
    source = L.far(40, fam)
    want = both(fam) if mode.remote_is_pod else {E1[fam]}
    met = set()
    for i in range(60):
        r = L.probe(lab.client, to, number, source=source)
        assert r.ok and r.backend in want, r
        if r.backend == E1[fam]:
            assert r.peer == source
        met.add(r.backend)
        if met == want and i >= 9:
            return
    raise AssertionError("only %s of %s" % (met, want))


@FAM
def test_hairpin(lab, vipd, mode, fam):
    """MASQ-09: with every mode of detection."""
    to, number = BOTH.target("clusterip", fam)
    for _ in range(60):
        r = L.probe(lab.pod1, to, number)
        assert r.ok, r
        if r.backend == E1[fam]:
            assert r.peer == L.BRIDGE[fam]
            return
    raise AssertionError("never met itself")


def test_cluster_cidr_of_one_family(vipd, lab):
    """MASQ-03: services of a family without a prefix in --cluster-cidr; logged once by name."""
    vipd.stop()
    v = daemon.Vipd(lab, {"--cluster-cidr": L.CLUSTER_CIDR[4]})
    try:
        v.write([])
        v.start()
        found = [li for li in v.log(1000).splitlines() if "--cluster-cidr: no " in li]
        assert len(found) == 1 and "no IPv6 prefix" in found[0], found
        assert [e["text"] for e in v.status()["source"]["notes"]["items"]
                if e["where"] == "--cluster-cidr"] == ["no IPv6 prefix, but there are IPv6 services"]
    finally:
        v.close()
        vipd.start()


def test_missing_bridge(vipd, lab):
    """CFG-25: a bridge that no interface is yet is a note, and a warning of the doctor."""
    vipd.stop()
    v = daemon.Vipd(lab, {"--detect-local-mode": "BridgeInterface", "--cluster-cidr": None,
                          "--pod-bridge-interface": "br9"})
    text = "no interface has the name br9: pods count as clients outside of the cluster"

    def found():
        notes = v.status()["source"]["notes"]["items"]
        doctor = [line for line in v.ctl("doctor", check=False).splitlines() if text in line]
        return [n["where"] for n in notes if text in n["text"]], [line.split()[:2] for line in doctor]
    try:
        v.write([])
        v.start()
        assert found() == (["--pod-bridge-interface"], [["warning", "detect-local"]])
        lab.node.run("ip", "link", "add", "br9", "type", "bridge")
        assert found() == ([], [])
    finally:
        lab.node.popen("ip", "link", "del", "br9").wait(L.LIMIT)
        v.close()
        vipd.start()
