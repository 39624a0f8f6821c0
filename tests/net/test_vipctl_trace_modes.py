# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl trace with every mode of pod detection, and with --masquerade-all: inside clients and
preserved sources are those of real packets."""
import itertools

import pytest

import daemon
import test_detectors
from shop import Svc
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
