# SPDX-License-Identifier: GPL-2.0-or-later
"""The guard: `nft flush ruleset` by somebody else, 5,000 services, and no established connection
notices, nor does a new one fail that asks for a cluster IP."""
import subprocess
import time

import pytest

import foreigner as F
import lab as L
from objects import service, slice_

GUARD = "vipd-guard"
ROUNDS = 5


def objects():
    return [service("s", [L.cluster_ip(1, 4), L.cluster_ip(1, 6)], 80)] + [
        slice_("s", [L.remote(i, fam) for i in (1, 2, 3)], 8080) for fam in (4, 6)]


def has_guard(vipd):
    return all(GUARD in vipd.nft.tables(fam) for fam in (4, 6))


def held(lab, vipd):
    """Is it there, and does nobody else get to it?"""
    with lab.node.entered():
        r = subprocess.run(("nft", "flush", "chain", "ip6", GUARD, "output"), capture_output=True,
                           text=True, check=False)
    return has_guard(vipd) and "Operation not permitted" in r.stderr


@pytest.fixture(autouse=True)
def able(vipd):
    """Kernels before 6.9 cannot: a line in the log, and nothing else."""
    vipd.apply(objects())
    L.eventually(lambda: has_guard(vipd) or "no table vipd-guard" in vipd.log(1000), 5,
                 "neither a guard nor a word about it")
    if not has_guard(vipd):
        pytest.skip("no tables with an owner that outlive it")


def flows(lab):
    to = ["--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--to",
          "tcp:" + L.endpoint(L.cluster_ip(1, 6), 80), "--rate", "100", "--concurrency", "250",
          "--seconds", "60", "--timeout-ms", int(4500 * L.SLOW)]
    return [lab.flow(role, "new", *to) for role in ("client", "pod3", "node")]


def gone(vipd, fam):
    return vipd.table(fam) not in vipd.nft.tables(fam)


def flush(lab, vipd, other):
    """Our tables go, the guard stays, and they come back."""
    before = vipd.nft.tables(4)
    other.flush_ruleset()
    assert has_guard(vipd)
    L.eventually(lambda: not gone(vipd, 4) and not gone(vipd, 6) and vipd.is_settled(), 5,
                 "the tables do not come back")
    assert vipd.nft.tables(4)[vipd.table(4)] != before[vipd.table(4)]
    assert vipd.nft.tables(4)[GUARD] == before[GUARD]


def test_flush(lab, vipd):
    """The steady flows of this test are the established connections."""
    F.many(vipd)
    other = F.Foreigner(lab.node)
    load = flows(lab)
    for _ in range(ROUNDS):
        flush(lab, vipd, other)
        time.sleep(0.3)
    other.close()
    results = [f.stop() for f in load]
    print([(r["ok"], r["failed"], r.get("longest_ms")) for r in results])
    for r in results:
        assert r["ok"] > 0 and r["failed"] == 0, r["first_failure"]
