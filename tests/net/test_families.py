# SPDX-License-Identifier: GPL-2.0-or-later
"""One address family fails: the other one is served and gets every change; the failed one is named
and recovers."""
import contextlib
import json
import re
import struct
import urllib.error
import urllib.request

import pytest

import daemon
import foreigner as F
import lab as L
import nftables as N
from objects import service, slice_

NFT_MSG_NEWTABLE, NLM_F_CREATE = 0, 0x400
NFTA_TABLE_FLAGS, NFT_TABLE_F_OWNER = 2, 2
COMMENT = b"vipd layout 6\0"


def objects(backends):
    return [service("s", [L.cluster_ip(1, 4), L.cluster_ip(1, 6)], 80)] + [
        slice_("s", [L.remote(i, fam) for i in backends], 8080) for fam in (4, 6)]


@contextlib.contextmanager
def held(lab, fam):
    """Another process owns the family's table: every write of vipd is rejected."""
    other = F.Foreigner(lab.node)
    try:
        other.batch((NFT_MSG_NEWTABLE, NLM_F_CREATE, fam,
                     N.attr(N.NFTA_TABLE_NAME, "vipd") +
                     N.attr(NFTA_TABLE_FLAGS, struct.pack(">I", NFT_TABLE_F_OWNER)) +
                     N.attr(N.NFTA_TABLE_USERDATA, bytes([0, len(COMMENT)]) + COMMENT)))
        yield
    finally:
        other.close()  # and with it goes the table


def problems(vipd):
    return [p["text"] for p in vipd.status().get("problems", [])]


def backends(lab, fam, n=12):
    """Which backends answer; empty if the service is not served."""
    answers = [L.probe(lab.client, L.cluster_ip(1, fam), 80) for _ in range(n)]
    return {r.backend for r in answers if r.ok and r.backend != L.cluster_ip(1, fam)}


def get(lab, url):
    with lab.node.entered():
        try:
            with urllib.request.urlopen("http://127.0.0.1" + url, timeout=L.LIMIT) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()


def up(lab):
    """vipd_family_up of IPv4 and IPv6."""
    text = get(lab, ":10249/metrics")[1]
    return tuple(int(re.search(r'^vipd_family_up\{ip_family="IPv%d"\} (\d)$' % fam, text,
                               re.M).group(1)) for fam in (4, 6))


def is_unready(lab, fam):
    """After 10 s in failure /healthz names the family."""
    code, body = get(lab, ":10256/healthz")
    answer = json.loads(body)
    return code == 503 and answer["reason"].startswith("IPv%d failed: " % fam) and \
        not answer["status"]["IPv%d" % fam]["healthy"]


def expect_recovered(lab, vipd, fam, both):
    L.eventually(lambda: problems(vipd) == [], 60, lambda: (problems(vipd), vipd.log()))
    assert backends(lab, fam) == both
    assert "IPv%d recovered after " % fam in vipd.log()
    assert up(lab) == (1, 1)
    assert get(lab, ":10256/healthz")[0] == 200
    vipd.check_tables()


@pytest.mark.parametrize("fam", [6, 4])
def test_table_of_another_process(fam):
    well = 10 - fam
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)
        try:
            vipd.write(objects([1]))
            with held(lab, fam):
                vipd.start()
                load = lab.flow("client", "new", "--to",
                                "tcp:" + L.endpoint(L.cluster_ip(1, well), 80), "--rate", "300",
                                "--concurrency", "4")
                assert backends(lab, well) == {L.remote(1, well)}
                assert backends(lab, fam, 1) == set()
                assert any("IPv%d failed: table ip%s vipd is owned by another running process"
                           % (fam, "6" if fam == 6 else "") in p for p in problems(vipd))
                vipd.write(objects([1, 2]))
                L.eventually(lambda: backends(lab, well) == {L.remote(1, well),
                                                             L.remote(2, well)}, 10)
                assert backends(lab, fam, 1) == set()
                assert up(lab) == (int(fam == 6), int(fam == 4))
                L.eventually(lambda: is_unready(lab, fam), L.PATIENCE)
            expect_recovered(lab, vipd, fam, {L.remote(1, fam), L.remote(2, fam)})
            load.more_ok()
            result = load.stop()
            assert result["failed"] == 0, result["first_failure"]
        finally:
            vipd.close()


@pytest.mark.parametrize("fam", [6, 4])
def test_foreign_route(fam):
    """Another process uses vipd's routing table for one family before the first start: the other
    family is served from the start on."""
    well = 10 - fam
    route = ("blackhole", "2001:db8:ffff::/48" if fam == 6 else "203.0.113.192/26", "table", "23130")
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)
        try:
            lab.node.run("ip", "-%d" % fam, "route", "add", *route)
            vipd.write(objects([1]))
            vipd.start()
            load = lab.flow("client", "new", "--to",
                            "tcp:" + L.endpoint(L.cluster_ip(1, well), 80), "--rate", "300",
                            "--concurrency", "4")
            assert backends(lab, well) == {L.remote(1, well)}
            assert backends(lab, fam, 1) == set()
            assert any("IPv%d failed: routing table 23130 of IPv%d has foreign routes" % (fam, fam)
                       in p for p in problems(vipd)), problems(vipd)
            assert up(lab) == (int(fam == 6), int(fam == 4))
            vipd.write(objects([1, 2]))
            L.eventually(lambda: backends(lab, well) == {L.remote(1, well), L.remote(2, well)}, 10)
            assert backends(lab, fam, 1) == set()
            L.eventually(lambda: is_unready(lab, fam), L.PATIENCE)
            lab.node.run("ip", "-%d" % fam, "route", "del", *route)
            expect_recovered(lab, vipd, fam, {L.remote(1, fam), L.remote(2, fam)})
            load.more_ok()
            result = load.stop()
            assert result["failed"] == 0, result["first_failure"]
        finally:
            vipd.close()


def test_node_without_ipv6():
    """LIFE-17: a node on which IPv6 is switched off is ready; it gets IPv6 when it is switched on."""
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)

        def switch(off):
            lab.node.run("sysctl", "-qw", *("net.ipv6.conf.%s.disable_ipv6=%d" % (name, off)
                                            for name in ("all", "default", "lo")))
        try:
            switch(1)
            vipd.write([service("s", [L.cluster_ip(1, 4)], 80), slice_("s", [L.remote(1, 4)], 8080)])
            vipd.start()
            assert backends(lab, 4) == {L.remote(1, 4)}
            assert problems(vipd) == []
            assert up(lab) == (1, 1)
            assert get(lab, ":10256/healthz")[0] == 200
            switch(0)
            vipd.check_tables(11)  # the ipvs plane looks for its routes every 10 s
        finally:
            vipd.close()


def test_deleted_again_and_again():
    """The table of the other family is never replaced."""
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)
        other = F.Foreigner(lab.node)
        try:
            vipd.write(objects([1]))
            vipd.start()
            handles = vipd.nft.tables(4)

            def is_left_out():
                with contextlib.suppress(OSError):
                    other.delete_table(6, "vipd")
                return any("IPv6 failed: another process repeatedly deletes vipd's table" in p
                           for p in problems(vipd))
            L.eventually(is_left_out, 30, lambda: vipd.log())
            vipd.write(objects([2]))
            L.eventually(lambda: backends(lab, 4) == {L.remote(2, 4)}, 10)
            assert vipd.nft.tables(4)["vipd"] == handles["vipd"]
            L.eventually(lambda: problems(vipd) == [], 60, lambda: vipd.log())
            assert backends(lab, 6) == {L.remote(2, 6)}
            vipd.check_tables()
        finally:
            other.close()
            vipd.close()
