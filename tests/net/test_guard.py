# SPDX-License-Identifier: GPL-2.0-or-later
"""The guard: `nft flush ruleset` by another process, 5,000 services: no established connection is
interrupted, and no new one to a cluster IP fails."""
import contextlib
import signal
import time

import pytest

import foreigner as F
import lab as L
import nftables as N
from objects import service, slice_

GUARD = "vipd-guard"
ROUNDS = 5


def objects():
    return [service("s", [L.cluster_ip(1, 4), L.cluster_ip(1, 6)], 80)] + [
        slice_("s", [L.remote(i, fam) for i in (1, 2, 3)], 8080) for fam in (4, 6)]


def has_guard(vipd):
    return all(GUARD in vipd.nft.tables(fam) for fam in (4, 6))


def is_held(lab):
    """Of both families, by a running process."""
    return all("flags owner" in lab.node.run("nft", "list", "table", family, GUARD)
               for family in ("ip", "ip6"))


def can_kernel(lab):
    """Tables with an owner: Linux 5.12."""
    other = F.Foreigner(lab.node)
    try:
        other.batch((0, 0x400, 4, N.attr(1, "probe") + N.attr(2, (2).to_bytes(4, "big"))))
        other.delete_table(4, "probe")
        return True
    except OSError:
        return False
    finally:
        other.close()


@pytest.fixture(autouse=True)
def able(lab, vipd):
    """Older kernels: one log line, no guard."""
    vipd.apply(objects())
    if not has_guard(vipd) and not can_kernel(lab):
        pytest.skip("no tables with an owner")
    assert has_guard(vipd)


def flows(lab):
    to = ["--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--to",
          "tcp:" + L.endpoint(L.cluster_ip(1, 6), 80), "--rate", "100", "--concurrency", "250",
          "--timeout-ms", 60000]
    return [lab.flow(role, "new", *to) for role in ("client", "pod3", "node")]


def gone(vipd, fam):
    return vipd.table(fam) not in vipd.nft.tables(fam)


def flush(lab, vipd, other):
    """A flush deletes vipd's tables but not the guard; vipd restores them."""
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
        for f in load:
            f.more_ok()
    other.close()
    results = [f.stop() for f in load]
    print([(r["ok"], r["failed"], r["max_us"]) for r in results])
    for r in results:
        assert r["failed"] == 0, r["first_failure"]


@contextlib.contextmanager
def in_the_gap(lab, vipd):
    """vipd does not get to its repair until the block ends."""
    vipd.proc.send_signal(signal.SIGSTOP)
    try:
        lab.node.run("nft", "flush", "ruleset")
        yield
    finally:
        vipd.proc.send_signal(signal.SIGCONT)
        L.eventually(vipd.is_settled, 10, "it does not go on")


def test_a_long_gap(lab, vipd):
    """A second without vipd's tables: established connections continue, no client is rejected, and
    other traffic works."""
    inside = "10.96.200.1"  # of a service CIDR, and this host's own
    lab.node.run("ip", "addr", "add", inside + "/32", "dev", "lo")
    try:
        with in_the_gap(lab, vipd):
            assert set(vipd.nft.tables(4)) == set(vipd.nft.tables(6)) == {GUARD}
            for fam in (4, 6):
                for ns in (lab.client, lab.pod3, lab.node):
                    r = L.probe(ns, L.cluster_ip(1, fam), 80, timeout=0.1 * L.SLOW)
                    assert r.what == "timeout", (r, ns.name, fam)
                assert L.probe(lab.client, L.POD["pod2"][fam], 8080).ok
            assert L.probe(lab.client, inside, 81).what == "refused"
            assert L.probe(lab.node, inside, 81).what == "refused"
            time.sleep(0.5)
    finally:
        lab.node.run("ip", "addr", "del", inside + "/32", "dev", "lo")
    assert L.probe(lab.client, L.cluster_ip(1, 4), 80).ok


def commits_of_creation(vipd):
    """Transactions until the guard is created, with those of one change of a service."""
    vipd.start()
    genid = vipd.nft.genid()
    vipd.apply(objects())
    return vipd.nft.genid() - genid


def test_older_version(lab, vipd):
    """A guard that an older version left, with the same rules at another priority, is replaced in the
    transaction that creates one: at no time is there none."""
    vipd.kill()
    commits = commits_of_creation(vipd)
    text = "".join(lab.node.run("nft", "list", "table", family, GUARD) for family in ("ip", "ip6"))
    assert text.count("guard 2") == 2 and text.count("priority -89;") == 4
    vipd.kill()
    lab.node.run("nft", "-f", "-", input=text.replace("guard 2", "guard 1").replace(
        "priority -89;", "priority -90;").replace("\tflags owner\n", ""))
    handles = vipd.nft.tables(4), vipd.nft.tables(6)
    assert commits_of_creation(vipd) == commits
    assert is_held(lab)
    for fam, family in ((4, "ip"), (6, "ip6")):
        listing = lab.node.run("nft", "list", "table", family, GUARD)
        assert "guard 2" in listing and listing.count("priority -89;") == 2
        assert vipd.nft.tables(fam)[GUARD] != handles[fam == 6][GUARD]
        with in_the_gap(lab, vipd):
            assert L.probe(lab.client, L.cluster_ip(1, fam), 80, timeout=0.1 * L.SLOW).what == "timeout"


def test_restarts(lab, vipd):
    """The guard ends with its process. Without changes a restart writes nothing; the first write creates
    the guard, unless it is disabled."""
    assert is_held(lab) and vipd.status()["flush_safe"]
    for how in ("kill", "stop"):
        genid = vipd.nft.genid()
        getattr(vipd, how)()
        assert not any(GUARD in vipd.nft.tables(fam) for fam in (4, 6))
        vipd.start()
        assert vipd.nft.genid() == genid
        vipd.apply(objects())
        assert is_held(lab) and vipd.status()["flush_safe"]
    try:
        vipd.kill()
        vipd.flags["--nft-guard"] = "off"
        vipd.start()
        vipd.apply(objects())
        assert not any(GUARD in vipd.nft.tables(fam) for fam in (4, 6))
        assert not vipd.status()["flush_safe"]
    finally:
        vipd.flags["--nft-guard"] = None
    vipd.kill()
    vipd.start()
    vipd.apply(objects())
    assert is_held(lab)


def test_saved_ruleset(lab, vipd):
    """A ruleset that is saved, while vipd runs or afterwards, can be loaded at the next boot."""
    texts = [lab.node.run("nft", "list", "ruleset")]
    vipd.kill()
    texts.append(lab.node.run("nft", "list", "ruleset"))
    vipd.start()
    for text in texts:
        assert "table ip6 %s " % vipd.table(6) in text
        lab.node.run("unshare", "-n", "nft", "-f", "-", input=text)
