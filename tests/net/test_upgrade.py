# SPDX-License-Identifier: GPL-2.0-or-later
"""A newer vipd replaces an older layout under load, also if it is killed in between; and a flag that
replaces the table, while the sweep is pending."""
import os
import re
import subprocess
import time

import pytest

import daemon
import foreigner as F
import lab as L
from objects import entry, service, slice_

KILLS_MS = (0, 5, 20)


def age(lab, vipd):
    """Make the tables in force those of an older layout: the same services under its version, and
    chains that this version does not have in this form. nft puts them in one transaction."""
    text = ""
    for fam, family in ((4, "ip"), (6, "ip6")):
        table = vipd.table(fam)
        listing = lab.node.run("nft", "list", "table", family, table)
        assert 'comment "vipd layout 6"' in listing
        listing = listing.replace('comment "vipd layout 6"', 'comment "vipd layout 5"')
        listing = re.sub(r"\tchain input \{.*?\n\t\}\n", "", listing, flags=re.S)
        text += "delete table %s %s\n%s" % (family, table, listing)
    lab.node.run("nft", "-f", "-", input=text)
    for fam, family in ((4, "ip"), (6, "ip6")):
        held = lab.node.run("nft", "-t", "list", "table", family, vipd.table(fam))
        assert "layout 5" in held and "chain input" not in held


def comments(lab):
    return re.findall(r'comment "(vipd layout \d+)"', lab.node.run("nft", "-t", "list", "ruleset"))


def app(name, number, backend):
    """A service of both families with one endpoint."""
    return [service(name, [L.cluster_ip(number, fam) for fam in (4, 6)], 80)] + [
        slice_(name, [L.remote(backend, fam)], 8080) for fam in (4, 6)]


def backends(lab, number):
    return [L.probe(lab.client, L.cluster_ip(number, fam), 80).backend for fam in (4, 6)]


def endpoint(n):
    return [L.remote(n, fam) for fam in (4, 6)]


@pytest.fixture
def replaced(lab, vipd):
    """Services a and lost in a table that is replaced because of a flag, while the manifests of lost
    and other have no valid version: the sweep is pending."""
    vipd.apply(app("a", 720, 1) + app("lost", 721, 2))
    vipd.stop()
    vipd.flags["--metrics-per-service"] = "endpoint"
    bad = [service(name, "10.96.5.256", 80) for name in ("lost", "other")]
    vipd.write(app("a", 720, 1) + bad)
    vipd.start()
    assert re.search("to replace vipd: .* level of counting; session affinity of clients starts again",
                     vipd.log())
    assert backends(lab, 720) + backends(lab, 721) == endpoint(1) + endpoint(2)
    yield bad
    vipd.flags.pop("--metrics-per-service", None)
    vipd.stop()
    vipd.start()
    vipd.apply([])


def sweep_ends(lab, vipd):
    """The manifests are corrected, or deleted."""
    vipd.apply(app("lost", 721, 3))
    L.eventually(lambda: len(vipd.main_tables(4)) == len(vipd.main_tables(6)) == 1, 5, vipd.log)
    assert backends(lab, 721) == endpoint(3)
    vipd.check_tables()


def test_reverted_while_sweep_pending(lab, vipd, replaced):
    """The flag is reverted: the table of before is not in force again, behind the younger one."""
    vipd.stop()
    vipd.flags.pop("--metrics-per-service")
    vipd.start()
    assert backends(lab, 720) + backends(lab, 721) == endpoint(1) + endpoint(2)
    vipd.apply(app("a", 720, 3) + replaced)
    for _ in range(3):
        assert backends(lab, 720) == endpoint(3)
    sweep_ends(lab, vipd)


def test_deleted_while_sweep_pending(lab, vipd, replaced):
    """The old table has only what no object explains: a deleted service is served no longer, also
    one whose manifest was invalid at the start."""
    vipd.apply(replaced)
    assert backends(lab, 720) == [None, None]
    assert backends(lab, 721) == endpoint(2)
    for fam in (4, 6):
        assert [vipd.ctl("trace", "host", L.endpoint(L.cluster_ip(number, fam), 80),
                         check=False).count("orphaned frontend of an earlier process")
                for number in (720, 721)] == [0, 1]
    vipd.apply(app("lost", 721, 2) + replaced[1:])
    vipd.apply(replaced[1:])
    assert backends(lab, 721) == [None, None]
    sweep_ends(lab, vipd)


def balancer(policy):
    s = service("lbs", L.cluster_ip(730, 4), 80, kind="LoadBalancer")
    s["spec"]["externalTrafficPolicy"] = policy
    s["status"] = {"loadBalancer": {"ingress": [{"ip": L.lb_ip(71, 4)}]}}
    return [s, slice_("lbs", [entry(L.POD["pod1"][4], "n1")], 8080)]


def test_known_while_sweep_pending(lab, vipd, replaced):
    """A service whose manifest was invalid at the start becomes known with another policy, then it is
    deleted: neither masquerading nor addresses remain in the old table."""
    vipd.stop()
    vipd.flags.pop("--metrics-per-service")
    vipd.write(balancer("Cluster") + app("lost", 721, 2))
    vipd.start()
    L.eventually(lambda: len(vipd.main_tables(4)) == 1, 5, vipd.log)
    vipd.stop()
    vipd.flags["--metrics-per-service"] = "endpoint"
    vipd.write([service("lbs", "10.96.5.256", 80)] + replaced)
    vipd.start()

    def peer():
        return L.probe(lab.client, L.lb_ip(71, 4), 80).peer
    preserved = L.CLIENT[4]
    assert peer() != preserved
    vipd.write(balancer("Local") + replaced)  # no frontend is removed
    L.eventually(lambda: peer() == preserved, 5, vipd.log)
    vipd.apply(replaced)
    assert len(vipd.main_tables(4)) == 2 and backends(lab, 721) == endpoint(2)
    for table in vipd.main_tables(4):
        for name in ("vips", "cluster_ips"):
            held = lab.node.run("nft", "list", "set", "ip", table, name)
            assert L.cluster_ip(730, 4) not in held and L.lb_ip(71, 4) not in held


def test_replaced_with_empty_folder(lab, vipd):
    """IN-19 while the table is replaced: nothing is removed. A table without orphans is."""
    vipd.apply(app("a", 720, 1))
    vipd.stop()
    vipd.flags["--metrics-per-service"] = "endpoint"
    real = vipd.manifests.path
    os.rename(real, real + ".away")
    os.mkdir(real)
    try:
        vipd.start()
        assert backends(lab, 720) == endpoint(1)
    finally:
        os.rmdir(real)
        os.rename(real + ".away", real)
    L.eventually(lambda: len(vipd.main_tables(4)) == len(vipd.main_tables(6)) == 1, 5, vipd.log)
    vipd.stop()
    vipd.flags.pop("--metrics-per-service")
    vipd.write(app("a", 720, 1) + [service("bad", "10.96.5.256", 80)])
    vipd.start()
    assert "sweep pending: service-default-bad.json" in vipd.ctl("status", check=False)
    assert len(vipd.main_tables(4)) == len(vipd.main_tables(6)) == 1
    vipd.apply([])


def test_vipctl_reads_older_layout(lab, vipd):
    """A newer vipctl beside an older vipd names both versions; it does not report an empty table."""
    vipd.apply([])
    vipd.kill()
    age(lab, vipd)
    r = lab.node.popen(L.program("vipctl"), "svc", "--kernel", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True)
    out, err = r.communicate(timeout=L.LIMIT)
    vipd.start()
    assert (out, r.returncode) == ("", 1)
    assert re.search(r"^vipctl: table ip vipd\S*: it is of another layout version: \d+, not \d+; "
                     "use the vipctl of the vipd that made it$", err, re.M), err


@pytest.fixture
def older(lab, vipd):
    """5,000 services in a table of an older layout, without a running vipd."""
    if not vipd.is_running():
        vipd.start()
    vipd.apply([])
    frontends = F.many(vipd) if len(vipd.elements(4, "frontends")) < F.SERVICES else \
        len(vipd.elements(4, "frontends"))
    vipd.kill()
    age(lab, vipd)
    assert L.probe(lab.client, F.addr(4000), 80).ok
    return frontends


def load(lab):
    return lab.flow("client", "new", "--to", "tcp:%s:80" % F.addr(4000), "--to",
                    "tcp:%s:80" % F.addr(17), "--to",
                    "tcp:%s:80" % daemon.STEADY_IP[4], "--rate", "400", "--concurrency", "16")


def taken_over(lab, vipd, frontends):
    assert comments(lab) == ["vipd layout 6"] * 2
    assert len(vipd.main_tables(4)) == len(vipd.main_tables(6)) == 1
    assert len(vipd.elements(4, "frontends")) == frontends


@pytest.mark.no_steady
def test_older_layout(lab, vipd, older):
    """The new layout is created beside the old one, then the old one is deleted: no connection
    fails."""
    flow = load(lab)
    flow.more_ok(50)
    start = time.monotonic()
    vipd.start()
    print("taken over after %.0f ms" % ((time.monotonic() - start) * 1e3))
    taken_over(lab, vipd, older)
    flow.more_ok(50)
    result = flow.stop()
    assert result["failed"] == 0, result["first_failure"]
    assert "created to replace vipd" in vipd.log()
    genid = vipd.nft.genid()
    vipd.kill()
    vipd.start()
    assert vipd.nft.genid() == genid


@pytest.mark.no_steady
def test_killed_in_between(lab, vipd, older):
    """At some moments of the replacement: the next start goes on from there. Again if none of them was in
    between, because the machine is busy."""
    def is_between(tables, n):
        return tables == 2 and n < older
    seen = []
    while len(seen) < len(KILLS_MS) or not any(is_between(*s) for s in seen):
        ms = KILLS_MS[len(seen) % len(KILLS_MS)]
        if seen:
            vipd.kill()
            age(lab, vipd)
        flow = load(lab)
        steady = lab.flow("client", "steady", "--concurrency", "4",
                          "--to", "tcp:%s:80" % F.addr(100), "--to", "tcp:%s:80" % F.addr(101))
        L.eventually(lambda f=steady: all(x["answers"] for x in f.stat()["flows"]), 3,
                     "no steady flows")
        genid = vipd.nft.genid()
        vipd.start(wait=False)
        while vipd.nft.genid() == genid and vipd.is_running():
            pass  # reading, and nothing is written yet
        time.sleep(ms / 1e3)
        vipd.kill()
        seen.append((len(vipd.main_tables(4)), len(vipd.elements(4, "frontends"))))
        assert len(seen) < 20, "never killed in between: %s" % seen
        vipd.start()
        taken_over(lab, vipd, older)
        flow.more_ok(50)
        result = flow.stop()
        assert result["failed"] == 0, result["first_failure"]
        for f in steady.stop()["flows"]:
            assert not f["broken"] and not f["moved"], f
    print("tables, and frontends of the newer one, when it was killed: %s" % seen)
