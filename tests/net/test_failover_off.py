# SPDX-License-Identifier: GPL-2.0-or-later
"""The same failures with each --failover: what it saves, compared with `off`. bench/failover.py has the
figures of longer runs."""
import contextlib
import time

import pytest

import lab as L
import planes
from objects import entry, slice_, slice_port
from test_eject import timeslices
from test_failover import FAMS, NUMBER, Connects, begin_empty, eps, remote_silent, svc  # noqa: F401

MODES = ("off", "handshake", "eject") if planes.PLANE == "nft" else ("off", "eject")
RATE, SECONDS = 200, 6
PORT = 8090


@contextlib.contextmanager
def modes(vipd):
    """Yields a function that starts vipd with this --failover."""
    before = dict(vipd.flags)

    def start(mode):
        vipd.stop()
        vipd.flags["--failover"] = mode
        vipd.start()

    try:
        yield start
    finally:
        vipd.stop()
        vipd.flags = before
        vipd.start()


@pytest.mark.no_steady
def test_a_tenth_vanishes(lab, vipd):
    """CT-18, CT-26: one of ten endpoints of each family drops every packet, and no slice says so: no
    connection of a client that waits for 5 s fails; without failover a tenth does."""
    vipd.apply([svc()] + eps(*range(1, 11)))
    failed = {}
    with modes(vipd) as start:
        for mode in MODES:
            start(mode)
            with remote_silent(lab, 4):
                r = lab.flow("client", "new", "--to", "tcp:%s:80" % L.cluster_ip(NUMBER, 4), "--to",
                             "tcp:[%s]:80" % L.cluster_ip(NUMBER, 6), "--rate", RATE, "--concurrency", 4000,
                             "--count", RATE * SECONDS, "--timeout-ms", 5000).wait()
            assert r["started"] == RATE * SECONDS
            failed[mode] = r["failed"]
    assert failed.pop("off") > RATE * SECONDS / 20
    assert not any(failed.values()), failed


@pytest.mark.no_steady
def test_a_process_dies(lab, vipd):
    """CT-26: the process of one of ten endpoints is killed, and its slice says so 2 s later: fewer than 10
    connections are refused, at up to 1,000 a second; without ejection a tenth of them. A machine that
    delays vipd delays the connections as well: after ten of them vipd runs at least twice."""
    to = L.cluster_ip(NUMBER, 4)
    own = [slice_("s", [entry(L.POD["pod1"][f], L.NODE_NAME)], [slice_port(PORT, "TCP", "tcp")], fam=f,
                  name="s-own-%d" % f) for f in FAMS]
    others = eps(*range(1, 10))

    def connect():
        """Ten connections; those that are refused."""
        before = timeslices(vipd.proc.pid)
        with Connects(lab, to, n=10) as c:
            assert c.wait(L.PATIENCE) == 0 and set(c.errors) <= {"ECONNREFUSED"}
        time.sleep(0.01)
        L.eventually(lambda: mode == "off" or timeslices(vipd.proc.pid) >= before + 2)
        return len(c.errors)

    refused = {}
    with modes(vipd) as start:
        for mode in ("off", "eject"):
            start(mode)
            server = lab.flow("pod1", "serve", "--netns", lab.pod1.path, "--tcp", PORT)
            vipd.apply([svc()] + others + own)
            assert sum(connect() for _ in range(10)) == 0
            server.kill()
            end, rounds, refused[mode] = time.monotonic() + 2, 0, 0
            while rounds < 50 or time.monotonic() < end:
                refused[mode] += connect()
                rounds += 1
            vipd.apply([svc()] + others)
            assert sum(connect() for _ in range(10)) == 0
    assert refused["eject"] < 10 < refused["off"], refused
