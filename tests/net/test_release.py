# SPDX-License-Identifier: GPL-2.0-or-later
"""Upgrade from a released version: its kernel state, recorded, is replaced under load without a failed connection.

    tests/net/test_release.py PROGRAM VERSION     record the state that another version's program makes
"""
import os
import re
import subprocess
import sys

import pytest

import daemon  # first: it adds the path of objects
import lab as L
from objects import entry, port, service, slice_, slice_port



def path(version):
    return os.path.join(L.ROOT, "tests", "data", "release-%s" % version, "ruleset.nft")


LAYOUTS = {"0.1.0": "vipd layout 1", "0.2.0-rc1": "vipd layout 2"}
STICKY = {4: "10.96.0.50", 6: "fd00:10:96::50"}
NODE_PORT = 30050
pytestmark = pytest.mark.no_steady


def recorded():
    """The usual service, and one with client affinity and a node port."""
    out = [service("sticky", list(STICKY.values()), [port(80, "TCP", "tcp", NODE_PORT)], affinity=600)]
    for fam in (4, 6):
        out.append(slice_("sticky", [entry(L.POD["pod2"][fam], L.NODE_NAME), entry(L.remote(7, fam), "n2")],
                          [slice_port(8080, "TCP", "tcp")], fam=fam))
    return out


def tables(lab):
    """{(family, name, comment)}."""
    return set(re.findall(r'^table (\w+) (vipd\S*) \{(?:\n\tflags[^\n]*)?\n\tcomment "([^"]*)"',
                          lab.node.run("nft", "-t", "list", "ruleset"), re.M))


@pytest.fixture(params=sorted(LAYOUTS))
def older(lab, vipd, request):
    """Tables of that version, without a running vipd; conntrack's state is none of vipd's. Returns their comment."""
    vipd.apply(recorded())
    vipd.kill()
    lab.node.run("nft", "flush", "ruleset")
    lab.node.run("nft", "-f", path(request.param))
    layout = LAYOUTS[request.param]
    assert tables(lab) == {(f, n, c) for f in ("ip", "ip6") for n, c in (
        ("vipd", layout), ("vipd-guard", "vipd guard 1"))}
    return layout


def targets():
    return ["tcp:%s" % L.endpoint(ip, p) for fam in (4, 6) for ip, p in (
        (daemon.STEADY_IP[fam], 80), (STICKY[fam], 80), (daemon.STEADY_LB[fam], 80), (L.NODE[fam], NODE_PORT))]


@pytest.mark.parametrize("is_killed", (False, True), ids=("whole", "killed"))
def test_upgrade(lab, vipd, older, is_killed):
    """New connections succeed, established ones go on, also if the first vipd is killed after its first write. Afterwards
    no table of that version is left, and a restart writes nothing."""
    to = [x for t in targets() for x in ("--to", t)]
    load = lab.flow("client", "new", *to, "--rate", "200", "--concurrency", "16")
    steady = lab.flow("client", "steady", *to, "--concurrency", "2")
    L.eventually(lambda: all(f["answers"] for f in steady.stat()["flows"]) and load.stat()["ok"] > 50, L.PATIENCE,
                 "the recorded rules do not serve")
    if is_killed:
        genid = vipd.nft.genid()
        vipd.start(wait=False)
        L.eventually(lambda: vipd.nft.genid() != genid, L.PATIENCE, "nothing is written")
        vipd.kill()
    vipd.start()
    before = load.stat()["ok"]
    L.eventually(lambda: load.stat()["ok"] > before + 50, L.PATIENCE, "the load stands still")
    result = load.stop()
    assert result["failed"] == 0, result["first_failure"]
    for f in steady.stop()["flows"]:
        assert not f["broken"] and not f["moved"], f
    assert not {t for t in tables(lab) if t[2] == older}
    assert len(vipd.main_tables(4)) == len(vipd.main_tables(6)) == 1
    assert is_killed or vipd.status()["sync"]["writes"] > 0
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0


def record(program, version):
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)
        vipd.write(recorded())
        proc = lab.node.popen(program, *vipd.argv()[1:], stderr=subprocess.DEVNULL)
        L.eventually(lambda: L.probe(lab.client, daemon.STEADY_IP[6], 80, timeout=1).ok, L.PATIENCE, "does not serve")
        proc.kill()
        proc.wait()
        text = lab.node.run("nft", "-s", "list", "ruleset")
        vipd.close()
    os.makedirs(os.path.dirname(path(version)), exist_ok=True)
    with open(path(version), "w", encoding="utf-8") as f:
        f.write("# SPDX-License-Identifier: GPL-2.0-or-later\n# Kernel state of vipd %s: tests/net/test_release.py\n" % version)
        # The owner of the guard is gone, and nft 1.0.6 does not read the flag that remains.
        f.write(re.sub(r"^\tflags \n", "", text, flags=re.M))


if __name__ == "__main__":
    record(*sys.argv[1:])
