# SPDX-License-Identifier: GPL-2.0-or-later
"""--failover=eject: an endpoint that leaves handshakes unanswered, or refuses them, while others
answer gets no new connections from this node for a time (CT-26 to CT-31)."""
import contextlib
import re
import signal
import time

import pytest

import lab as L
import planes
import rawpackets
import test_failover as F
from test_failover import FAM, FAMS, N, NUMBER, Connects, begin_empty, eps, remote_silent, svc  # noqa: F401
from test_vipctl_monitor import monitor  # noqa: F401

FLAGS = {"--failover": "eject", "-v": "2"}


def count(lab):
    """Ejections since the start of vipd."""
    return int(re.search(r'^vipd_failovers_total\{reason="ejection"\} (\d+)$', F.metrics(lab),
                         re.M).group(1))


def page(vipd):
    return vipd.get("/v1/services/default/s")


def ejected(vipd):
    """Ejected endpoints of the service: address and reason."""
    return {ep["address"]: ep["cluster_set"]["reason"] for port in page(vipd)["ports"]
            for family in port["families"] for ep in family["endpoints"]
            if (ep["cluster_set"]["reason"] or "").startswith("ejected")}


@contextlib.contextmanager
def no_ejection(lab):
    before = count(lab)
    yield
    assert count(lab) == before


@contextlib.contextmanager
def rules(ns, body):
    ns.run("nft", "table inet vipdt_eject { chain c { "
           "type filter hook prerouting priority -400; %s }; }" % body)
    try:
        yield
    finally:
        ns.run("nft", "delete", "table", "inet", "vipdt_eject")


def refusing(lab, *numbers):
    """The endpoints answer as hosts on which no process listens."""
    return rules(lab.node2, "".join("ip daddr %s tcp dport 8080 reject with tcp reset; " %
                                    L.remote(i, 4) for i in numbers))


def connect(lab, to, n=N, **kw):
    """`n` connections: all succeed. SYNs that were repeated, and endpoints."""
    with Connects(lab, to, n=n, **kw) as c:
        assert c.wait(L.PATIENCE) == 0 and not c.errors
        return n - c.retries()[0], set(c.backends())


def is_out(vipd, dead):
    """Is this endpoint ejected, no other one, and the kernel programmed?"""
    return list(ejected(vipd)) == [dead] and not page(vipd)["pending"]


def is_soon_out(vipd, dead):
    """Is it ejected within 10 s?"""
    end = time.monotonic() + 10
    while not is_out(vipd, dead):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def connect_beside(lab, vipd, to, dead):
    """Connections beside a silent endpoint: all succeed. On the ipvs plane those to it wait until it is
    ejected, and get another one with the client's next two SYNs. If vipd's own handshakes are late on a
    busy machine, it needs the evidence of another round."""
    if planes.PLANE != "ipvs":
        connect(lab, to)
        return
    with Connects(lab, to) as c:
        is_out_now = is_soon_out(vipd, dead)
        left = c.wait(L.PATIENCE if is_out_now else 1)
        assert not c.errors and left < N and (left == 0 or not is_out_now)


def eject(lab, vipd, to, dead):
    """Connect until the silent endpoint is ejected: a round may have too few handshakes to it."""
    L.eventually(lambda: connect_beside(lab, vipd, to, dead) or is_out(vipd, dead),
                 what="not ejected")


@contextlib.contextmanager
def syns(ns, hook, match):
    """Yields a function: SYNs at this hook so far."""
    ns.run("nft", "table inet vipdt_syns { chain c { type filter hook %s priority 0; "
           "%s tcp flags & (syn | ack) == syn counter; }; }" % (hook, match))
    try:
        yield lambda: int(re.search(r"counter packets (\d+)",
                                    ns.run("nft", "list", "table", "inet", "vipdt_syns")).group(1))
    finally:
        ns.run("nft", "delete", "table", "inet", "vipdt_syns")


def syns_to(lab, dead, source):
    ip = "ip6" if ":" in dead else "ip"
    return syns(lab.node, "postrouting", "%s daddr %s %s saddr %s" % (ip, dead, ip, source))


def connect_unmet(lab, to, dead):
    """Connections of which none meets the endpoint. Their endpoints."""
    with syns_to(lab, dead, L.CLIENT[L.family(dead)]) as met:
        backends = connect(lab, to)[1]
        assert met() == 0
    return backends


@FAM
def test_silent(lab, vipd, fam):
    """CT-26, CT-27: a silent endpoint is ejected: new connections do not meet it. It is admitted when
    it answers."""
    vipd.apply([svc()] + eps(1, 2, 3))
    dead, to, before = L.remote(2, fam), L.cluster_ip(NUMBER, fam), count(lab)
    with remote_silent(lab, 2):
        eject(lab, vipd, to, dead)
        assert connect_unmet(lab, to, dead) == {L.remote(i, fam) for i in (1, 3)}
        assert list(ejected(vipd)) == [dead]
    L.eventually(lambda: not ejected(vipd), what="stays ejected")
    L.eventually(lambda: dead in connect(lab, to)[1], what="not programmed")
    assert count(lab) == before + 1


@pytest.mark.parametrize("scheduler", ("mh", "sh"))
def test_hashed_clients(lab, vipd, scheduler):
    """BAL-12: the clients of an ejected endpoint get others."""
    vipd.apply([svc(annotations={"vipd.io/scheduler": scheduler})] + eps(1, 2, 3))
    dead, to = L.remote(2, 4), L.cluster_ip(NUMBER, 4)
    first = {s: L.probe(lab.client, to, 80, source=s).backend
             for s in (L.far(i, 4) for i in range(100, 150))}
    assert set(first.values()) == {L.remote(i, 4) for i in (1, 2, 3)}
    mine, other = (next(s for s, b in first.items() if (b == dead) is is_dead)
                   for is_dead in (True, False))

    def silence():
        with Connects(lab, to, n=10, source=mine) as c:
            connect(lab, to, 10, source=other)
            if not is_soon_out(vipd, dead):
                return False
            assert c.wait(L.PATIENCE) == 0 and not c.errors
        return True

    with remote_silent(lab, 2):
        L.eventually(silence, what="not ejected")
        for source in first:
            r = L.probe(lab.client, to, 80, timeout=L.PATIENCE, source=source)
            assert r.ok and r.backend != dead, r
    L.eventually(lambda: not ejected(vipd) and not page(vipd)["pending"], what="stays ejected")


def test_no_latency(lab, vipd):
    """CT-26, CT-27: one of ten endpoints is silent, 500 new connections a second: none fails; after the
    ejection none meets it, through the next two probes."""
    vipd.apply([svc()] + eps(*range(51, 61)))
    to, dead = L.cluster_ip(NUMBER, 4), L.remote(53, 4)
    first, second = L.outer(1, 4), L.outer(2, 4)

    def load(seconds, source):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            yield stack.enter_context(Connects(lab, to, n=10, source=source))
            time.sleep(0.02)

    with remote_silent(lab, 53), contextlib.ExitStack() as stack:
        with syns_to(lab, dead, first) as met:
            before = list(load(1, first))
            L.eventually(lambda: is_out(vipd, dead))
            assert met() > 0
        with syns_to(lab, dead, second) as met:
            after = list(load(3.5, second))
            assert [c.wait(L.PATIENCE) for c in before + after] == [0] * len(before + after)
            assert not any(c.errors for c in before + after)
            assert met() == 0
        assert list(ejected(vipd)) == [dead]


def test_visible(lab, vipd, monitor):  # noqa: F811
    """CT-30: svc, trace, status, monitor, metrics and the log name an ejection."""
    vipd.apply([svc()] + eps(11, 12, 13))
    # An ejection of a test before this one ends at its next probe.
    L.eventually(lambda: "\nvipd_ejected_endpoints 0\n" in F.metrics(lab))
    to, dead = L.cluster_ip(NUMBER, 4), L.endpoint(L.remote(12, 4), 8080)
    text = re.compile(r"ejected: \d+ handshakes in a row unanswered, (next probe in \d+ s|probed now)")
    events = monitor("--kind", "ejected")
    with remote_silent(lab, 12):
        eject(lab, vipd, to, L.remote(12, 4))
        event = events.next()
        assert (L.endpoint(event["address"], event["port"]), event["over"]) == (dead, False)
        assert text.fullmatch(event["text"])
        (row,) = [i for i in vipd.ctl("svc", "default/s").splitlines() if text.search(i)]
        assert row.split()[0] == dead
        (row,) = [i for i in vipd.ctl("trace", L.CLIENT[4], to + ":80").splitlines() if text.search(i)]
        assert row.split()[0] == dead
        assert re.search(r"^ejected +1 endpoint, no new", vipd.ctl("status", check=False), re.M)
        assert "\nvipd_ejected_endpoints 1\n" in F.metrics(lab)
    assert events.next()["over"]
    assert "endpoint %s: ejected: " % dead in vipd.log(400)
    assert "endpoint %s: admitted after " % dead in vipd.log(400)


def timeslices(pid):
    """How often did the process run?"""
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[2])


def test_refused(lab, vipd):
    """CT-26: the process of one of ten endpoints dies, at about 1,000 new connections a second: fewer
    than 10 of 1,000 are refused (100 without an ejection), and none after the ejection. A machine that
    delays vipd delays the connections as well: after ten of them vipd runs at least twice. A slow one
    has fewer in a second, because vipd reads refusals less often there (failover_rest_ns()): it
    waits after a refusal, which can be read for a second (FAILSET_REFUSED_S)."""
    numbers = range(21, 31)
    to = L.cluster_ip(NUMBER, 4)
    vipd.apply([svc()] + eps(*numbers))

    def refusals(rounds):
        n = 0
        for _ in range(rounds):
            before = timeslices(vipd.proc.pid)
            with Connects(lab, to, n=10) as c:
                assert c.wait(L.PATIENCE) == 0
                n += len(c.errors)
            time.sleep(0.01 * L.SLOW)
            L.eventually(lambda: timeslices(vipd.proc.pid) >= before + 2)
            if c.errors and L.SLOW > 1:
                time.sleep(0.8)
        return n

    dead = numbers[0]
    with refusing(lab, dead):
        n = refusals(100)
        L.eventually(lambda: is_out(vipd, L.remote(dead, 4)))
        assert refusals(20) == 0
    assert 5 <= n < 10


def test_affinity(lab, vipd):
    """CT-26: clients whose affinity leads to the ejected endpoint get another one."""
    vipd.apply([svc(affinity=10800)] + eps(4, 5, 6))
    to, dead = L.cluster_ip(NUMBER, 4), L.remote(5, 4)
    sources = [L.outer(i, 4) for i in range(1, 31)]
    first = {s: L.probe(lab.client, to, 80, source=s).backend for s in sources}
    one = next(s for s in sources if first[s] == dead)
    other = next(s for s in sources if first[s] != dead)
    with refusing(lab, 5):
        with Connects(lab, to, n=5, source=one) as c:
            assert c.wait(L.PATIENCE) == 0 and c.errors == ["ECONNREFUSED"] * 5

        def is_ejected():
            """Evidence needs a later answer of another endpoint, and expires on a busy machine."""
            if L.probe(lab.client, to, 80, source=other).ok and is_out(vipd, dead):
                return True
            for _ in range(5):
                L.probe(lab.client, to, 80, source=one)
            return False
        L.eventually(is_ejected, L.PATIENCE, "not ejected")
        for source in sources:
            r = L.probe(lab.client, to, 80, source=source)
            assert r.ok and (r.backend != dead if first[source] == dead else r.backend == first[source])


def test_blocked_client(lab, vipd):
    """CT-28: a policy against one client, which drops or resets: the endpoint stays for others."""
    vipd.apply([svc()] + eps(7, 8, 9))
    to = L.cluster_ip(NUMBER, 4)
    # On the ipvs plane handshakes that are dropped do not move: this client's would not end.
    for verdict in ("drop", "reject with tcp reset")[planes.PLANE == "ipvs":]:
        body = "ip saddr %s ip daddr %s tcp dport 8080 %s;" % (L.POD["pod3"][4], L.remote(8, 4), verdict)
        with no_ejection(lab), rules(lab.node2, body):
            failed = 0
            for _ in range(3):
                with Connects(lab, to, role="pod3") as c:
                    assert c.wait(L.PATIENCE) == 0
                    failed += len(c.errors) if "reset" in verdict else N - c.retries()[0]
                retries, backends = connect(lab, to)
                assert L.remote(8, 4) in backends and (retries == 0 or L.SLOW > 1)
            assert failed >= 5


def test_blocked_node(lab, vipd):
    """CT-28: a policy that denies by default drops the handshakes of a client and of this node at all
    endpoints of the pool; another pod is allowed: no ejection."""
    vipd.apply([svc()] + eps(41, 42, 43))
    to = L.cluster_ip(NUMBER, 4)
    nodes = ", ".join((L.POD["pod3"][4], L.NODE[4]))
    pool = ", ".join(L.remote(i, 4) for i in (41, 42, 43))
    body = "ip saddr { %s } ip daddr { %s } tcp dport 8080 drop;" % (nodes, pool)
    with no_ejection(lab), rules(lab.node2, body):
        for _ in range(3):
            with Connects(lab, to, role="pod3") as c:
                assert c.wait(0.8) == N  # longer than --failover-timeout
                # One endpoint accepts a handshake, and voids its failures only.
                assert L.probe(lab.ns["pod1"], to, 80).ok
                assert c.wait(1.5) == N
    assert connect(lab, to)[1] == {L.remote(i, 4) for i in (41, 42, 43)}


def test_half(lab, vipd):
    """CT-29: more than half of the endpoints are silent: half of them are ejected. The others become
    silent, too, and all return: new connections do not wait for the end of an ejection, nor do those that
    began before; later all serve."""
    vipd.apply([svc()] + eps(*range(31, 37)))
    to = L.cluster_ip(NUMBER, 4)
    dead = {L.remote(i, 4) for i in range(31, 35)}
    with remote_silent(lab, *range(31, 35)):
        L.eventually(lambda: connect(lab, to) and len(ejected(vipd)) == 3)
        connect(lab, to)
        assert set(ejected(vipd)) < dead and len(ejected(vipd)) == 3
        others = "".join("ip daddr %s drop; " % L.remote(i, 4) for i in (35, 36))
        with contextlib.ExitStack() as stack:
            with rules(lab.node2, others):
                old = stack.enter_context(Connects(lab, to, n=6))
                assert old.wait(1.5) == 6
            lab.node2.run("nft", "flush", "table", "inet", "vipdt_silent")
            new = stack.enter_context(Connects(lab, to))
            assert new.wait(L.PATIENCE) == 0 and not new.errors
            assert new.retries()[0] == N
            assert old.wait(L.PATIENCE) == 0 and not old.errors
    L.eventually(lambda: not ejected(vipd))


def test_restart(lab, vipd):
    """CT-31: an ejection ends with vipd; the next one finds it again, from the handshakes of a second.
    Rounds are counted, as a busy machine needs more time: one has enough handshakes in 99 of 100 cases,
    and vipd's own may be late once."""
    vipd.apply([svc()] + eps(37, 38, 39))
    to, dead = L.cluster_ip(NUMBER, 4), L.remote(38, 4)
    with remote_silent(lab, 38):
        for end in (vipd.kill, vipd.stop, None):
            assert not ejected(vipd)
            rounds = 0
            while not is_out(vipd, dead):
                connect_beside(lab, vipd, to, dead)
                rounds += 1
            assert rounds <= 3
            connect_unmet(lab, to, dead)
            if end is not None:
                end()
                vipd.start()


def test_late(lab, vipd):
    """CT-27: an endpoint that answers a probe in time is admitted, although vipd itself continues after
    the time limit."""
    limit = 2
    vipd.stop()
    vipd.flags["--failover-timeout"] = "%ds" % limit
    vipd.start()
    vipd.apply([svc()] + eps(1, 2, 3))
    to, dead = L.cluster_ip(NUMBER, 4), L.remote(2, 4)

    def answers_late():
        """False: vipd may have been stopped too late."""
        with remote_silent(lab, 2):
            eject(lab, vipd, to, dead)
            with syns_to(lab, dead, L.NODE[4]) as met:
                begin = time.monotonic()
                while not met():
                    begin = time.monotonic()
            vipd.proc.send_signal(signal.SIGSTOP)
            is_in_time = time.monotonic() < begin + limit
        try:
            with syns_to(lab, dead, L.NODE[4]) as met:
                L.eventually(met)  # repeated, and answered
                time.sleep(limit)
                vipd.proc.send_signal(signal.SIGCONT)
                L.eventually(lambda: not ejected(vipd))
                assert met() == 1 or not is_in_time
        finally:
            vipd.proc.send_signal(signal.SIGCONT)
        return is_in_time

    L.eventually(answers_late)
    vipd.stop()
    del vipd.flags["--failover-timeout"]
    vipd.start()


def test_packet_loss(lab, vipd, ct):
    with no_ejection(lab):
        F.test_packet_loss(lab, vipd, ct)


def test_syn_scan(lab, vipd):
    """CT-28: SYNs of a client that does not complete handshakes, also from sources that do not exist:
    the endpoints answer, and none is ejected."""
    vipd.apply([svc()] + eps(61, 62, 63))
    to, source = L.cluster_ip(NUMBER, 4), L.outer(9, 4)
    with no_ejection(lab), rules(lab.client, "ip daddr %s tcp sport 80 drop;" % source), \
            syns_to(lab, L.remote(62, 4), source) as met:
        for _ in range(3):
            rawpackets.send_syns(lab.client, source, to, range(20000, 20100), 80)
            assert connect(lab, to)[1] == {L.remote(i, 4) for i in (61, 62, 63)}
        assert met() > 5


def test_port_scan(lab, vipd):
    with no_ejection(lab):
        F.test_port_scan(lab, vipd)


def test_late_endpoint(lab, vipd):
    with no_ejection(lab):
        F.test_late_endpoint(lab, vipd)


def test_all_vanish_and_return(lab, vipd):
    """No endpoint answers: none is ejected."""
    with no_ejection(lab):
        F.test_all_vanish_and_return(lab, vipd)


@pytest.mark.no_steady
def test_tables(lab, vipd):
    """CT-24: the tables of both families are made again when another process deleted them, and removed
    without the flag, and by --cleanup."""
    name = {"nft": "vipd-failover", "ipvs": "vipd-ipvs-failover"}[planes.PLANE]

    def tables():
        return [name in vipd.nft.tables(fam) for fam in FAMS]

    L.eventually(lambda: all(tables()))
    lab.node.run("nft", "delete table ip %s; delete table ip6 %s" % (name, name))
    L.eventually(lambda: all(tables()))
    vipd.stop()
    vipd.flags["--failover"] = "off"
    vipd.start()
    L.eventually(lambda: not any(tables()))
    vipd.stop()
    vipd.flags.update(FLAGS)
    vipd.start()
    L.eventually(lambda: all(tables()))
    vipd.stop()
    lab.node.run(L.program("vipd"), "--cleanup")
    assert not any(tables())
    vipd.start()
