# SPDX-License-Identifier: GPL-2.0-or-later
"""--nft-table-owner: no other process changes vipd's tables, and a flush of the ruleset skips
them."""
import subprocess
import time

import pytest

import foreigner as F
import lab as L
import nftables as N
from objects import service, slice_

FLAGS = {"--nft-table-owner": True}
OWNED = 6  # NFT_TABLE_F_OWNER | NFT_TABLE_F_PERSIST


def objects():
    return [service("s", [L.cluster_ip(1, 4), L.cluster_ip(1, 6)], 80)] + [
        slice_("s", [L.remote(i, fam) for i in (1, 2, 3)], 8080) for fam in (4, 6)]


def new_connections(lab):
    return lab.flow("client", "new", "--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--to",
                    "tcp:" + L.endpoint(L.cluster_ip(1, 6), 80), "--rate", "300",
                    "--concurrency", "16")


@pytest.fixture(autouse=True)
def able(lab, vipd):
    """Kernels before 6.9 cannot: there the flag is a warning."""
    if "has no effect" in vipd.log(1000):
        pytest.skip("no tables with an owner that outlive it")
    vipd.apply(objects())


def refused(lab, *command):
    with lab.node.entered():
        r = subprocess.run(("nft",) + command, capture_output=True, text=True, check=False)
    return r.returncode != 0 and "Operation not permitted" in r.stderr


def test_others_can_do_nothing(lab, vipd):
    """A foreign flush succeeds and skips vipd's tables; any other change fails. No connection is
    interrupted."""
    genid = vipd.nft.genid()
    load = new_connections(lab)
    for _ in range(5):
        lab.node.run("nft", "flush", "ruleset")
    table = vipd.table(4)
    assert refused(lab, "delete", "table", "ip", table)
    assert refused(lab, "flush", "chain", "ip", table, "services")
    assert refused(lab, "delete", "element", "ip", table, "vips", "{ %s }" % L.cluster_ip(1, 4))
    load.more_ok()
    result = load.stop()
    assert result["failed"] == 0, result["first_failure"]
    vipd.check_tables()
    assert "table ip %s" % table in lab.node.run("nft", "list", "ruleset")
    assert vipd.nft.genid() <= genid + 5  # the flushes, and nothing of ours
    assert "is gone" not in vipd.log()


def test_restart_claims(lab, vipd):
    """One write per family, and unchanged tables; without an owner they stay."""
    handles = vipd.nft.tables(4), vipd.nft.tables(6)
    load = new_connections(lab)
    for how in ("kill", "stop"):
        genid = vipd.nft.genid()
        getattr(vipd, how)()
        vipd.check_tables()
        vipd.start()
        time.sleep(0.2)
        assert vipd.nft.genid() == genid + 2
        assert (vipd.nft.tables(4), vipd.nft.tables(6)) == handles
    assert refused(lab, "delete", "table", "ip", vipd.table(4))
    result = load.stop()
    assert result["failed"] == 0, result["first_failure"]


def test_switched_off_and_on(lab, vipd):
    """A table is replaced by one of the other kind: no connection fails."""
    load = new_connections(lab)
    try:
        for flag, left in ((None, 0), (True, 6), (None, 0), (True, 6)):
            before = vipd.main_tables(4)
            vipd.kill()
            vipd.flags["--nft-table-owner"] = flag
            vipd.start()
            vipd.check_tables()
            assert len(vipd.main_tables(4)) == 1 and vipd.main_tables(4) != before
            # Tables that cannot be flushed need no guard.
            assert ("vipd-guard" in vipd.nft.tables(4)) == (flag is None)
            assert refused(lab, "delete", "table", "ip", vipd.table(4)) if left else True
    finally:
        vipd.flags["--nft-table-owner"] = True
    result = load.stop()
    assert result["failed"] == 0, result["first_failure"]


def test_table_of_another_owner(lab, vipd):
    """Logged once, programmed when the name is free; the other family continues."""
    table = vipd.table(4)
    vipd.kill()
    at = F.log_size(vipd)
    other = F.Foreigner(lab.node)
    other.batch((0, 0, 4, N.attr(1, table) + N.attr(2, OWNED.to_bytes(4, "big"))))
    try:
        vipd.start(wait=False)
        L.eventually(lambda: vipd.status().get("problems"), 5, "no problem")
        time.sleep(1)
        said = [x for x in F.log_from(vipd, at) if "is owned by another running process" in x]
        assert len(said) == 1 and "table ip %s" % table in said[0], F.log_from(vipd, at)
        assert vipd.status()["state"] == "running"
        assert L.probe(lab.client, L.cluster_ip(1, 4), 80).ok
    finally:
        other.close()
    L.eventually(lambda: not vipd.status()["problems"], 15, lambda: vipd.status()["problems"])
    vipd.check_tables()


@pytest.mark.no_steady
def test_cleanup(lab, vipd):
    """Rejected while a vipd runs; tables without an owner are removed completely."""
    def cleanup():
        with lab.node.entered():
            return subprocess.run([L.program("vipd"), "--cleanup"], capture_output=True, text=True,
                                  check=False)
    r = cleanup()
    assert r.returncode != 0 and "vipd" in r.stderr, r.stderr
    vipd.check_tables()
    vipd.kill()
    r = cleanup()
    assert r.returncode == 0, r.stderr
    assert not vipd.nft.tables(4) and not vipd.nft.tables(6)
    vipd.start()
    vipd.check_tables()
