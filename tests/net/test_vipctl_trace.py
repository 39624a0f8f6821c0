# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl trace agrees with the kernel: for every origin, kind of address and policy, a real
connection has the verdict, the endpoints and the source address of the trace."""
import itertools
import json
import signal
import subprocess
import urllib.parse

import pytest

import lab as L
import planes
import shop
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2, Svc

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
ADDRESS = {"X": L.CLIENT, "P": L.POD["pod3"], "H": L.NODE}
ALLOWED = ["203.0.113.0/25", "2001:db8:1::/120"]

SHOP = [
    Svc("cluster", 41),
    Svc("local", 42, etp="Local"),
    Svc("local-elsewhere", 43, "remote", etp="Local"),
    Svc("inside-elsewhere", 44, "remote", itp="Local"),
    Svc("nobody", 45, "none", etp="Local"),
    Svc("ranges", 46, ranges=ALLOWED),
    Svc("proxied", 47, mode="Proxy"),
]
HOW = {"reject": "reject", "drop": "drop"}


@pytest.fixture(scope="module")
def shelf(vipd):
    vipd.apply([o for s in SHOP for o in s.objects()])


def trace(vipd, origin, to, number, proto):
    q = urllib.parse.urlencode({"from": origin, "to": "%s/%s" % (L.endpoint(to, number), proto)})
    answer = vipd.get("/v1/trace?" + q)
    assert answer.get("problem", "no answer") is None, answer
    return answer


def used(answer):
    return {e["address"] for e in answer["endpoints"] if e["used"]}


def agree(lab, vipd, origin, to, number, proto, fam):
    """One question, twice. Returns the verdict."""
    report = trace(vipd, ADDRESS[origin][fam], to, number, proto)
    verdict = report["verdict"]
    where = "%s to %s/%s: %s" % (origin, L.endpoint(to, number), proto,
                                 json.dumps(report["steps"], indent=1))
    try:
        if verdict == "balance":
            assert report["service"]["kernel"] == "same"
            shop.reach(lab, origin, to, number, proto, fam, used(report),
                       report["service"]["masqueraded"])
        elif verdict == "untouched":
            r = L.probe(lab.ns[shop.ORIGIN[origin]], to, number, proto)
            # No process listens on this host; the rest of the world answers for addresses that
            # no proxy captures.
            assert r.what == ("untouched" if L.is_worlds(to) else "refused"), r
        else:
            shop.fails(lab, origin, to, number, proto, HOW[verdict])
    except AssertionError as e:
        raise AssertionError("%s\nbut vipctl trace reported: %s" % (e, where)) from e
    return verdict


@FAM
@pytest.mark.parametrize("svc", SHOP, ids=lambda s: s.name)
def test_shop(lab, vipd, shelf, svc, fam):
    for i, (origin, kind) in enumerate(itertools.product("XPH", shop.KINDS)):
        to, number = svc.target(kind, fam)
        agree(lab, vipd, origin, to, number, ("tcp", "udp")[(i + fam // 2) % 2], fam)


@FAM
def test_unassigned(lab, vipd, shelf, fam):
    """No frontend: an unknown port, an unallocated cluster IP, addresses that serve no node port."""
    cases = [
        (L.cluster_ip(41, fam), 81, "reject", "unknown-port"),
        (L.cluster_ip(99, fam), 80, "drop", "unallocated-cluster-ip"),
        (L.external_ip(41, fam), 81, "untouched", "unknown-port-of-external-address"),
        (L.external_ip(99, fam), 80, "untouched", "unknown-address"),
        (L.lb_ip(47, fam), 80, "untouched", "ipmode-proxy"),
        (L.NODE[fam], 30999, "untouched", "no-node-port"),
        (L.NODE_TO_CLIENT[fam], 30041, "untouched", "node-port-on-other-addresses"),
    ]
    for to, number, verdict, why in cases:
        for origin in "XPH":
            assert trace(vipd, ADDRESS[origin][fam], to, number, "tcp")["reason"] == why
            assert agree(lab, vipd, origin, to, number, "tcp", fam) == verdict


@FAM
def test_hairpin(lab, vipd, shelf, fam):
    """MASQ-09: shown for the one endpoint that is the client, and only there."""
    report = trace(vipd, E1[fam], L.cluster_ip(41, fam), 80, "tcp")
    masqueraded = {e["address"]: e["masqueraded"] for e in report["endpoints"] if e["used"]}
    assert masqueraded == {E1[fam]: True, E2[fam]: False}
    seen = {}
    for _ in range(60):
        r = L.probe(lab.ns["pod1"], L.cluster_ip(41, fam), 80)
        assert r.ok, r
        seen[r.backend] = r.peer != E1[fam]
        if len(seen) == 2:
            break
    assert seen == masqueraded


def test_why_not(lab, vipd, shelf):
    """SEL-14 and REJ-03 in the words an operator gets; one endpoint asked for by its address."""
    young = service("younger", [L.cluster_ip(60, 4), L.cluster_ip(60, 6)],
                    [port(80, "TCP", "tcp")], external_ips=[L.external_ip(41, 4)])
    vipd.apply([o for s in SHOP for o in s.objects()] + [young])
    text = vipd.ctl("trace", L.CLIENT[4], L.endpoint(L.external_ip(41, 4), 80))
    assert "precedence by kind of address, then by age of the service" in text
    assert len(text.splitlines()) <= 24
    vipctl = L.run(L.program("vipctl"), "--socket", vipd.socket, "trace", L.CLIENT[4],
                   "default/cluster:tcp", E2[4])
    assert E2[4] + ":8080" in vipctl and E1[4] + ":8080" not in vipctl
    with pytest.raises(RuntimeError):  # it ends with 1: no endpoint would answer
        L.run(L.program("vipctl"), "--socket", vipd.socket, "trace", L.CLIENT[4],
              L.endpoint(L.lb_ip(43, 4), 80))


def live(vipd, *args):
    """vipctl trace --live in the node; returns when it follows packets."""
    p = vipd.lab.node.popen(L.program("vipctl"), "--socket", vipd.socket, "trace", *args,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while True:
        line = p.stdout.readline()
        assert line, p.stderr.read()
        if line.startswith("new connections"):
            return p


def followed(p, n, end):
    """The output of live() until `n` lines end like this; then it is interrupted."""
    lines = []
    while sum(x.endswith(end) for x in lines) < n:
        lines.append(p.stdout.readline().rstrip())
        assert p.poll() is None or lines[-1], (lines, p.stderr.read())
    p.send_signal(signal.SIGINT)
    lines += p.stdout.read().splitlines()
    assert p.wait(L.LIMIT) == 0, p.stderr.read()
    return lines


def trace_tables(vipd):
    return [t for t in vipd.lab.node.run("nft", "list", "tables").splitlines() if "trace" in t]


@FAM
def test_live(lab, vipd, shelf, fam):
    """Real packets of that flow only, with the chosen endpoint."""
    to = L.lb_ip(42, fam)  # policy Local: from outside there is one endpoint
    p = live(vipd, L.CLIENT[fam], L.endpoint(to, 80), "--live=600")
    assert L.probe(lab.client, to, 80, source=L.CLIENT2[fam]).ok  # another source
    assert L.probe(lab.ns["pod3"], L.cluster_ip(41, fam), 80).ok  # another flow
    for _ in range(2):
        assert L.probe(lab.client, to, 80, source=L.CLIENT[fam]).ok
    lines = followed(p, 2, "-> " + L.endpoint(E1[fam], 8080))
    packets = [line for line in lines if line.startswith("packet ")]
    flows = {line.split()[2] for line in packets}
    assert len(flows) == 2 and all(f.startswith(L.endpoint(L.CLIENT[fam], 0)[:-1]) for f in flows)
    assert any(line.endswith("-> " + L.endpoint(to, 80)) for line in packets)
    rule = {"nft": ["vipd", "prerouting", "jump", "services"],
            "ipvs": ["vipd-ipvs", "pre", "jump", "assign%d" % fam]}[planes.PLANE]
    assert any(line.split() == rule for line in lines)
    assert trace_tables(vipd) == []


def test_live_leaves_nothing(vipd, shelf):
    """Its table is deleted after any end: by a signal, or by kill -9."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        p = live(vipd, "host", L.endpoint(L.cluster_ip(41, 4), 80), "--live=30")
        assert len(trace_tables(vipd)) == 1
        p.send_signal(number)
        p.communicate(timeout=L.LIMIT)
        L.eventually(lambda: trace_tables(vipd) == [], 3, "the table stays after %s" % number)
    p = live(vipd, "host", L.endpoint(L.cluster_ip(41, 4), 80), "--live=1")
    _, err = p.communicate(timeout=L.LIMIT)
    assert p.returncode == 1 and "no new connection" in err
    assert vipd.is_settled()


@FAM
@pytest.mark.parametrize("hints,node,zone", (
    (None, 33, 67), ("zones", 50, 100), ("nodes", 100, 100)), ids=str)
def test_locality(lab, vipd, fam, hints, node, zone):
    """The shares that vipctl svc shows are those of real connections (POL-14, POL-15)."""
    where = {E1[fam]: (L.NODE_NAME, "a"), L.remote(2, fam): ("n2", "a"), L.remote(3, fam): ("n3", "b")}

    def at(addr):
        its_node, its_zone = where[addr]
        hint = {"zones": {"zones": [its_zone]}, "nodes": {"nodes": [its_node]}}.get(hints, {})
        return entry(addr, its_node, zone=its_zone, **hint)
    vipd.apply([service("near", L.cluster_ip(61, fam), port(80, "TCP", "tcp")),
                slice_("near", [at(a) for a in where], [slice_port(8080, "TCP", "tcp")], fam=fam)])
    assert "%d%% of connections stay on this node, %d%% in this zone" % (node, zone) in vipd.ctl("svc", "default/near")
    r = lab.flow("client", "new", "--to", "tcp:" + L.endpoint(L.cluster_ip(61, fam), 80),
                 "--count", "300", "--concurrency", "8").wait()
    assert r["failed"] == 0, r
    met = {b["addr"] if "addr" in b else a: b["n"] for a, b in r["backends"].items()}
    here = sum(n for a, n in met.items() if a.startswith(E1[fam]) or E1[fam] in a)
    near = here + sum(n for a, n in met.items() if L.remote(2, fam) in a)
    # 300 connections: 6 sigma of a share of a third is 49.
    assert abs(here - 300 * node / 100) < 52 and abs(near - 300 * zone / 100) < 52, met
    assert zone < 100 or near == 300
    assert node < 100 or here == 300
