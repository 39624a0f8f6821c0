# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl trace with every mode of pod detection, and with --masquerade-all: inside clients and
preserved sources are those of real packets."""
import itertools

import pytest

import daemon
import lab as L
import test_detectors
from objects import entry, port, service, slice_, slice_port
from shop import E1, Svc
from test_vipctl_trace import agree

SHOP = [Svc("both", 66), Svc("local", 67, etp="Local")]
MODES = [m for m in test_detectors.MODES if m[0] != "cluster-cidr"]  # test_vipctl_trace has that


@pytest.fixture(scope="module", params=MODES, ids=[m[0] for m in MODES])
def mode(request, vipd, steady):
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS)
    vipd.flags.update(request.param[1])
    vipd.start()
    vipd.apply([o for s in SHOP for o in s.objects()])
    return request.param[0]


def test_agrees(lab, vipd, mode):
    cases = itertools.product((4, 6), SHOP, "XPH", ("clusterip", "lb"))
    for i, (fam, svc, origin, kind) in enumerate(cases):
        to, number = svc.target(kind, fam)
        assert agree(lab, vipd, origin, to, number, ("tcp", "udp")[i % 2], fam) == "balance"


def at_cluster_ip(name, number, node, to):
    """A service whose external IP is the cluster IP of service `to`; its endpoint is E1."""
    out = [service(name, [L.cluster_ip(number, fam) for fam in (4, 6)],
                   [port(number, "TCP", "tcp", 30000 + number)], kind="NodePort",
                   external_ips=[L.cluster_ip(to, fam) for fam in (4, 6)])]
    return out + [slice_(name, [entry(E1[fam], node)], [slice_port(8080, "TCP", "tcp")], fam=fam)
                  for fam in (4, 6)]


@pytest.mark.no_steady
def test_local_source(lab, vipd):
    """MASQ-07: the slice of another service names this node for the endpoint; the rule for cluster
    IPs applies to an external IP that is one, also where an endpoint is on this node."""
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS, **{"--preserve-local-source": True})
    vipd.start()
    vipd.apply(Svc("here", 68, "local").objects() + at_cluster_ip("unnamed", 90, None, 68) +
               at_cluster_ip("named", 91, L.NODE_NAME, 68))
    for fam, origin, number in itertools.product((4, 6), "XPH", (90, 91)):
        assert agree(lab, vipd, origin, L.NODE[fam], 30000 + number, "tcp", fam) == "balance"
        assert agree(lab, vipd, origin, L.cluster_ip(68, fam), number, "tcp", fam) == "balance"
