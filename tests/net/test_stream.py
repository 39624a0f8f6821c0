# SPDX-License-Identifier: GPL-2.0-or-later
"""A random stream of changes; after each step the kernel is compared with the second resolver.

VIPD_STREAM_SEED and VIPD_STREAM_SECONDS choose another stream, and how long.
"""
import os
import random
import time

import pytest

import daemon
import lab as L
import planes
from resolver import Pool
from stream import Stream

SECONDS = float(os.environ.get("VIPD_STREAM_SECONDS") or {"nft": 20, "ipvs": 8}[planes.PLANE])
SEED = int(os.environ.get("VIPD_STREAM_SEED", "1"))


def run_stream(vipd, seed, seconds, restarts):
    s = Stream(seed, [L.NODE[4], L.NODE[6]])
    vipd.base = False
    vipd.write([])
    for _ in range(12):
        s.change_add_service()
    first = None
    while not first:
        s.change_add_service()
        first = s.change_direct()
    steps = []
    forwarded = set()
    end = time.monotonic() + seconds
    rng = random.Random(seed)
    while time.monotonic() < end or len(steps) < seconds:
        steps.append(s.step() if steps else first)
        if restarts and rng.random() < 0.05:
            steps[-1] += " (down)"
            vipd.kill()
            vipd.write(s.list())
            vipd.start()
        else:
            vipd.write(s.list())
        try:
            result, wishes = vipd.check_tables(timeout=2)
            forwarded |= {how for key, f in result.frontends.items()
                          if isinstance(f.outside, Pool) and (how := wishes.forwarding(key, f))}
        except AssertionError as e:
            raise AssertionError("seed %d, step %d: %s\nbefore: %s\n%s" % (
                seed, len(steps), steps[-1], "; ".join(steps[-4:-1]), e)) from None
    print("seed %d: %d steps, forwarding methods %s" % (seed, len(steps), sorted(forwarded)))
    assert forwarded, "none was in force"


@pytest.mark.no_steady
@pytest.mark.parametrize("seed,flags,restarts", (
    (SEED, {}, False),
    (SEED + 1, {"--nodeport-addresses": "0.0.0.0/0,fd00:192::/64",
                "--preserve-local-source": True}, True),
    (SEED + 2, {"--cluster-cidr": None, "--masquerade-all": True,
                "--service-cluster-ip-range": None}, False)),
    ids=("default", "restarts", "no-detector"))
def test_stream(lab, seed, flags, restarts):
    vipd = daemon.Vipd(lab, flags)
    try:
        vipd.base = False
        vipd.write([])
        vipd.start()
        run_stream(vipd, seed, SECONDS, restarts)
    finally:
        vipd.close()
        lab.node.run("nft", "flush", "ruleset")
