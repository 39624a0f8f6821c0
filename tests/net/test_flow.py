# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/tools/flow: a server without CPU time is not a loss, dropped packets are. Otherwise tests
would fail on a busy machine, or pass when vipd loses packets."""
import os
import signal
import threading
import time

import pytest

import lab as L

AWAY_S = 1.5
TO = [x for proto in ("tcp", "udp") for fam in (4, 6)
      for x in ("--to", "%s:%s" % (proto, L.endpoint(L.WORLD[fam], 8080)))]


def stopped(lab):
    """The server does not run."""
    pid = lab.world.procs[-1].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(AWAY_S)
    finally:
        os.kill(pid, signal.SIGCONT)


def dropped(lab):
    """Packets to the server are dropped."""
    lab.world.run("nft", "add table inet away; add chain inet away in "
                  "{ type filter hook input priority 0; policy drop; }")
    try:
        time.sleep(AWAY_S)
    finally:
        lab.world.run("nft", "delete table inet away")


@pytest.mark.parametrize("away", (stopped, dropped))
def test_steady(lab, away):
    flow = lab.flow("client", "steady", "--concurrency", "1", *TO)
    L.eventually(lambda: all(f["answers"] for f in flow.stat()["flows"]))
    away(lab)
    answers = [f["answers"] for f in flow.stat()["flows"]]
    L.eventually(lambda: all(f["answers"] > n + 5
                             for f, n in zip(flow.stat()["flows"], answers)))
    flows = flow.stop()["flows"]
    assert not [f for f in flows if f["broken"] or f["moved"]], flows
    assert all(f["longest_ms"] > 400 for f in flows), flows
    assert {bool(f["gaps"]) for f in flows} == {away == dropped}, flows


@pytest.mark.parametrize("away", (stopped, dropped))
def test_new(lab, away):
    """Counted as `untouched` when they are answered: no service is between."""
    flow = lab.flow("client", "new", "--concurrency", "64", "--rate", "20", *TO)
    L.eventually(lambda: flow.stat()["untouched"] > 10)
    away(lab)
    started = flow.stat()["started"]
    L.eventually(lambda: flow.stat()["untouched"] + flow.stat()["timeout"] >= started)
    result = flow.stop()
    assert result["untouched"] + result["timeout"] == result["started"], result
    assert bool(result["timeout"]) == (away == dropped), result


def test_late_datagrams_are_no_gap(vipd, lab, steady):
    """They come after the check has begun."""
    servers = [lab.ns[role].procs[0] for role in ("pod2", "node2", "world")]

    def signal_all(n):
        for p in servers:
            p.send_signal(n)
    timer = threading.Timer(AWAY_S, signal_all, (signal.SIGCONT,))
    signal_all(signal.SIGSTOP)
    try:
        L.eventually(steady.bad)
        timer.start()
        steady.check()
    finally:
        timer.cancel()
        signal_all(signal.SIGCONT)


@pytest.mark.no_steady
def test_lost_datagrams_are_a_gap(vipd, lab, steady):
    steady.start()
    lab.node.run("nft", "add table inet away; add chain inet away in "
                 "{ type filter hook prerouting priority -400; meta l4proto udp drop; }")
    try:
        L.eventually(steady.bad)
    finally:
        lab.node.run("nft", "delete table inet away")
    with pytest.raises(AssertionError, match="udp:"):
        steady.check(late=2)
    steady.stop()
