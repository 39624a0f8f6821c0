# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters of the kernel and /metrics: connections of services and endpoints, refusals, and that
the times of syncs are those of the log (section 13 of doc/behaviour.md)."""
import collections
import re
import shutil
import subprocess

import pytest

import lab as L
import planes
from objects import entry, port, service, slice_, slice_port
from test_health import METRICS, get, is_counted, scrape

FLAGS = {"--metrics-per-service": "endpoint", "-v": "2"}
N = 30


def series(lab, metric, **labels):
    """The sum of the metric's lines that have these labels; None without any."""
    found = [value for name, value in scrape(lab)[0].items() if name.startswith(metric + "{") and
             all('%s="%s"' % (k, v) in name for k, v in labels.items())]
    return sum(found) if found else None


def asked(lab, name, **labels):
    return series(lab, "vipd_service_connections_total", service=name, **labels)


def refused(lab, name):
    return series(lab, "vipd_service_rejected_connections_total", service=name)


def reached(lab, name, **labels):
    return series(lab, "vipd_endpoint_connections_total", service=name, **labels)


def connect(lab, addr, n=N, proto="tcp"):
    for _ in range(n):
        assert L.probe(lab.client, addr, 80, proto).ok


@pytest.mark.parametrize("fam", (4, 6))
def test_connections(lab, vipd, fam):
    """Each connection is counted once, for its service and for one endpoint."""
    ip, other = L.cluster_ip(700, fam), L.cluster_ip(701, fam)
    ends = [L.remote(i, fam) for i in (1, 2, 3)]
    objs = [service("cn", [ip], 80), slice_("cn", ends, 8080, fam=fam),
            service("quiet", [other], 80), slice_("quiet", ends, 8080, fam=fam)]
    vipd.apply(objs)
    connect(lab, ip)
    assert asked(lab, "cn", frontend="ClusterIP", protocol="TCP") == N
    by_end = [reached(lab, "cn", endpoint=L.endpoint(e, 8080)) for e in ends]
    assert sum(by_end) == N and min(by_end) > 0
    assert refused(lab, "cn") == 0
    assert asked(lab, "quiet") == 0 and reached(lab, "quiet") == 0
    # Another endpoint: the service's count goes on, and so do those of endpoints that stay.
    objs[1] = slice_("cn", ends + [L.remote(4, fam)], 8080, fam=fam)
    vipd.apply(objs)
    assert asked(lab, "cn") == N
    assert [reached(lab, "cn", endpoint=L.endpoint(e, 8080)) for e in ends] == by_end
    # A reply over the same connection is none.
    c, _ = L.connect(lab.client, ip, 80)
    for _ in range(5):
        assert c.ask().ok
    c.close()
    assert asked(lab, "cn") == N + 1
    # Another vipd reads on, for the kernel counts.
    vipd.kill()
    vipd.start()
    assert asked(lab, "cn") == N + 1
    assert reached(lab, "cn") == N + 1


def test_affinity(lab, vipd):
    """Connections with affinity are counted for their endpoint."""
    ip = L.cluster_ip(702, 4)
    vipd.apply([service("st", [ip], 80, affinity=600),
                slice_("st", [L.remote(i, 4) for i in (1, 2, 3)], 8080)])
    connect(lab, ip)
    counts = [reached(lab, "st", endpoint=L.endpoint(L.remote(i, 4), 8080)) for i in (1, 2, 3)]
    assert sorted(counts) == [0, 0, N]


@pytest.fixture(scope="module")
def on_node(lab):
    """A backend that is the node itself."""
    server = lab.serve("node", "8080")
    yield
    server.stop()


@pytest.mark.parametrize("affinity", (None, 600), ids=("plain", "affinity"))
@pytest.mark.parametrize("fam", (4, 6))
def test_every_way(lab, vipd, on_node, fam, affinity):
    """From outside, pods and the node, through each kind of frontend and both pools of a Local
    policy, to a local pod, a remote one and the node: counters equal the connections made."""
    number = 711 + 2 * (fam == 6) + bool(affinity)
    name, lb = "way%d" % number, L.lb_ip(number - 640, fam)
    backends = ((L.POD["pod1"][fam], L.NODE_NAME), (L.NODE[fam], L.NODE_NAME),
                (L.remote(1, fam), "n2"))
    vipd.apply([
        service(name, [L.cluster_ip(number, fam)], [
            port(80, "TCP", "t", 30000 + number), port(80, "UDP", "u", 30000 + number)],
            kind="LoadBalancer", lb=[lb], etp="Local", affinity=affinity),
        slice_(name, [entry(*b) for b in backends], [slice_port(8080, "TCP", "t"),
                                                     slice_port(8080, "UDP", "u")], fam=fam)])
    frontends = {"ClusterIP": (L.cluster_ip(number, fam), 80),
                 "NodePort": (L.NODE[fam], 30000 + number), "LoadBalancer": (lb, 80)}
    asked_for, met = collections.Counter(), collections.Counter()
    for origin in ("client", "pod3", "node"):
        for kind, (addr, at) in frontends.items():
            for proto in ("tcp", "udp") * 3:
                r = L.probe(lab.ns[origin], addr, at, proto, L.LIMIT)
                assert r.ok, (origin, kind, proto, r)
                asked_for[kind, proto] += 1
                met[r.backend, proto] += 1
    for (kind, proto), n in asked_for.items():
        assert asked(lab, name, frontend=kind, protocol=proto.upper()) == n, (kind, proto)
    for proto in ("tcp", "udp"):
        for addr, _ in backends:
            assert reached(lab, name, endpoint=L.endpoint(addr, 8080),
                           protocol=proto.upper()) == met[addr, proto], (addr, proto, met)
    assert refused(lab, name) == 0
    assert affinity or len(met) == 6, met


def test_a_flow_that_moves(lab, vipd):
    """The client's backend is removed: its next connection is counted for the new one."""
    ip, ends = L.cluster_ip(722, 4), [L.remote(i, 4) for i in (1, 2)]
    udp = [slice_port(8080, "UDP")]
    vipd.apply([service("mv", [ip], port(80, "UDP")), slice_("mv", ends, udp)])
    c, _ = L.connect(lab.client, ip, 80, "udp")
    first = c.ask(L.LIMIT).backend
    assert first in ends and asked(lab, "mv") == reached(lab, "mv") == 1
    other = ends[1 - ends.index(first)]
    vipd.apply([service("mv", [ip], port(80, "UDP")), slice_("mv", [other], udp)])
    L.eventually(lambda: c.ask(L.SLOW).backend == other)
    c.close()
    assert asked(lab, "mv") == 2
    assert reached(lab, "mv", endpoint=L.endpoint(other, 8080)) == 1


def test_another_owner(lab, vipd):
    """External address and node ports pass to another Service in one update: each counts from 0
    there. What stays counts on, and a restart writes nothing."""
    ips, ext = [L.cluster_ip(i, 4) for i in (730, 731)], L.external_ip(73, 4)

    def apply(a, b):
        vipd.apply([service(name, [ip], port(80, node_port=node_port), kind="NodePort",
                            external_ips=external) for name, ip, (node_port, external) in
                    zip(("oa", "ob"), ips, (a, b))] +
                   [slice_(name, [L.remote(1, 4)], 8080) for name in ("oa", "ob")])

    def counts(name):
        return [asked(lab, name, frontend=kind) for kind in ("ClusterIP", "NodePort", "ExternalIP")]
    apply((30730, [ext]), (30731, []))
    for addr, at, n in ((ext, 80, 50), (ips[0], 80, 2), (L.NODE[4], 30730, 4), (ips[1], 80, 3),
                        (L.NODE[4], 30731, 5)):
        for _ in range(n):
            assert L.probe(lab.client, addr, at).ok
    assert counts("oa") == [2, 4, 50] and counts("ob") == [3, 5, None]
    apply((30731, []), (30730, [ext]))
    assert counts("oa") == [2, 0, None] and counts("ob") == [3, 0, 0]
    connect(lab, ext, 6)
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0
    assert counts("ob") == [3, 0, 6]


def test_refused(lab, vipd):
    """Rejected without endpoints, dropped without local ones, dropped by source ranges; also where
    the guard would drop packets to unknown addresses."""
    none, local, ranges = L.cluster_ip(703, 4), L.cluster_ip(704, 4), L.lb_ip(70, 4)
    guarded = service("rn", [L.cluster_ip(705, 4)], 80, kind="LoadBalancer")
    guarded["spec"]["loadBalancerSourceRanges"] = ["10.9.9.0/24"]
    guarded["status"] = {"loadBalancer": {"ingress": [{"ip": ranges}]}}
    vipd.apply([service("no", [none], 80),
                service("lo", [local], 80, itp="Local"),
                slice_("lo", [entry(L.remote(1, 4), "n2")], 8080),
                guarded, slice_("rn", [L.remote(1, 4)], 8080)])
    before = scrape(lab)[0]
    for addr, number in ((none, 80), (local, 80), (ranges, 80), (none, 81),
                         (L.cluster_ip(799, 4), 80)):
        for _ in range(3):
            assert not L.probe(lab.client, addr, number, timeout=0.2).ok
    after = L.eventually(lambda: scrape(lab)[0], 1)
    # /metrics asks for rules' counters once a second.
    L.eventually(lambda: more("source_ranges", before, scrape(lab)[0]) >= 3)
    after = scrape(lab)[0]
    for reason in ("no_endpoints", "no_local_endpoints", "source_ranges", "unknown_port",
                   "unknown_address"):
        assert more(reason, before, after) >= 3, reason
    assert refused(lab, "no") == asked(lab, "no") >= 3
    assert refused(lab, "lo") == asked(lab, "lo") >= 3
    assert refused(lab, "rn") == series(lab, "vipd_service_connections_total", service="rn",
                                        frontend="LoadBalancer") >= 3
    assert after["vipd_omitted_series"] == 0


def more(reason, before, after):
    name = 'vipd_rejected_packets_total{reason="%s"}' % reason
    return after[name] - before[name]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (package prometheus)")
def test_promtool(lab, vipd):
    """Lines of services and endpoints are valid too."""
    vipd.apply([service("pt", [L.cluster_ip(706, 4), L.cluster_ip(706, 6)], 80),
                slice_("pt", [L.remote(1, 4)], 8080), slice_("pt", [L.remote(1, 6)], 8080, fam=6)])
    body = get(lab, "/metrics", METRICS)[2]
    assert 'endpoint="[%s]:8080"' % L.remote(1, 6) in body
    r = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True,
                       text=True, check=False)
    # The name is kube-proxy's.
    assert r.stdout + r.stderr == ("kubeproxy_sync_proxy_rules_no_local_endpoints_total "
                                   "non-counter metrics should not have \"_total\" suffix\n")


SYNC = re.compile(r"sync done: services (\d+), kernel operations (\d+), (\d+) us$", re.M)


def test_times_are_those_of_the_log(lab, vipd):
    """Scrapes during changes: no bucket decreases; finally the histogram has the syncs of the log
    and their sum."""
    kind = "kubeproxy_sync_partial_proxy_rules_duration_seconds"
    name = kind + '_%s{ip_family="IPv4"}'
    vipd.stop()
    vipd.start()
    with open(vipd.log_path, encoding="utf-8") as f:
        offset = len(f.read())
    began, types = scrape(lab)
    last = began
    # Two files, so at most two syncs each: as many as a site of the log says at once.
    for i in range(4):
        vipd.write([service("hl", [L.cluster_ip(710, 4)], 80),
                    slice_("hl", [L.remote(i + 1, 4)], 8080)])
        for _ in range(3):
            now, _ = scrape(lab)
            for line, value in now.items():
                if line in last and is_counted(line, types) and not line.startswith(
                        ("vipd_service_", "vipd_endpoint_")):
                    assert value >= last[line], line
            last = now
    L.eventually(vipd.is_settled)
    done, _ = scrape(lab)
    with open(vipd.log_path, encoding="utf-8") as f:
        text = f.read()[offset:]
    took = [int(m[3]) for m in SYNC.finditer(text)]
    held = sum(int(n) for n in re.findall(r"(\d+) more lines? like", text))
    assert took
    assert done[name % "count"] - began[name % "count"] == len(took) + held
    if held == 0:  # the log's are whole microseconds
        diff = done[name % "sum"] - began[name % "sum"] - sum(took) / 1e6
        assert 0 <= diff < len(took) * 1.1e-6
    bounds = sorted(float(m[1]) for m in (re.match(
        re.escape(kind) + r'_bucket\{ip_family="IPv4",le="([0-9.]+)"\}', n) for n in done) if m)
    cumulated = [done[kind + '_bucket{ip_family="IPv4",le="%s"}' % ("%g" % b)] for b in bounds]
    assert len(bounds) == 15 and cumulated == sorted(cumulated)
    assert cumulated[-1] <= done[name % "count"]
    assert done[kind + '_bucket{ip_family="IPv4",le="+Inf"}'] == done[name % "count"]


@pytest.mark.skipif(planes.PLANE != "ipvs", reason="tests/kernel has it for the nft plane")
def test_nft_listing_loads_again(lab, vipd):
    """All counters exist, and nft prints them."""
    vipd.apply([service("pr", [L.cluster_ip(721, 4), L.cluster_ip(721, 6)], 80, affinity=60),
                slice_("pr", [L.remote(1, 4)], 8080), slice_("pr", [L.remote(1, 6)], 8080, fam=6)])
    text = lab.node.run("nft", "-s", "list", "table", "inet", "vipd-ipvs")
    assert "@reached6" in text and "%s . 8080" % L.remote(1, 6) in text
    other = L.Ns(lab.id + "-print")
    try:
        other.run("nft", "-f", "-", input=text)
        assert other.run("nft", "-s", "list", "table", "inet", "vipd-ipvs") == text
    finally:
        other.close()


@pytest.mark.skipif(planes.PLANE != "ipvs", reason="about IPVS's own counters")
def test_estimation(lab, vipd):
    """ipvsadm's counters do not change by default; with --ipvs-estimation they agree with
    vipd's."""
    ip, backend = L.cluster_ip(720, 4), L.remote(40, 4)
    end = L.endpoint(backend, 8080)

    def theirs():
        """Connections of the backend, as IPVS counted them."""
        lines = lab.node.run("ipvsadm", "-Ln", "--stats", "--exact").splitlines()
        return [int(words[2]) for words in map(str.split, lines) if words[:2] == ["->", end]]
    vipd.apply([service("es", [ip], 80), slice_("es", [backend], 8080)])
    connect(lab, ip, 3)
    assert theirs() == [0]
    vipd.stop()
    vipd.flags["--ipvs-estimation"] = True
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 1
    connect(lab, ip, 4)
    # What came before counts too: only the sum was not made.
    L.eventually(lambda: theirs() == [7], 5)
    assert reached(lab, "es", endpoint=end) == 7
    vipd.stop()
    del vipd.flags["--ipvs-estimation"]
    vipd.start()
    assert lab.node.run("cat", "/proc/sys/net/ipv4/vs/run_estimation").strip() == "0"


def test_switched_off(lab, vipd):
    """Counting disabled: no such lines, and connections continue."""
    ip = L.cluster_ip(700, 4)
    vipd.apply([service("cn", [ip], 80), slice_("cn", [L.remote(1, 4)], 8080)])
    vipd.stop()
    vipd.flags["--metrics-per-service"] = "none"
    vipd.start()
    connect(lab, ip, 3)
    assert asked(lab, "cn") is None
    assert "counted" not in lab.node.run("nft", "list", "ruleset")
    assert get(lab, "/metrics", METRICS)[0] == 200
