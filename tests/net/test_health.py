# SPDX-License-Identifier: GPL-2.0-or-later
"""What watches vipd from outside: /healthz and /livez, health check node ports, metrics, the
lock, and the service manager (sections 12, 13 and 16 of doc/behaviour.md)."""
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

import daemon
import lab as L
import planes
from objects import entry, service, slice_

HEALTHZ = 10256
METRICS = 10249
PORT = 30900
HEAD_S = 1.9  # a request's head has two seconds (HC-15)

MODE = {"nft": "nftables", "ipvs": "ipvs"}[planes.PLANE]


def get(lab, path="/", port=HEALTHZ, host="127.0.0.1", method="GET", body=None):
    """(status, headers, body) of one request made on the node."""
    with lab.node.entered():
        conn = http.client.HTTPConnection(host, port, timeout=L.PATIENCE)
        try:
            conn.request(method, path, body)
            r = conn.getresponse()
            return r.status, dict(r.getheaders()), r.read().decode()
        finally:
            conn.close()


def status(lab, host, port):
    """Of a health check port; 0 while no process listens there."""
    try:
        return get(lab, "/", port, host)[0]
    except ConnectionRefusedError:
        return 0


def with_health(name, number, port, fams=(4, 6)):
    return service(name, [L.cluster_ip(number, f) for f in fams], 80, kind="LoadBalancer",
                   etp="Local", health_port=port)


def slices(name, fam, *endpoints):
    return slice_(name, list(endpoints), 8080, fam=fam)


def here(i, fam, **conditions):
    """An endpoint that counts as one of this node's."""
    return entry(L.remote(i, fam), L.NODE_NAME, **conditions)


@pytest.fixture
def alone():
    """A node of its own, for daemons that are started in ways of their own."""
    with L.Lab(servers=False) as other:
        yield other


@pytest.fixture
def second(alone):
    made = daemon.Vipd(alone)
    made.write([])
    yield made
    made.close()


# ---- the proxy ----

@pytest.mark.parametrize("path", ("/healthz", "/livez"))
@pytest.mark.parametrize("method", ("GET", "POST", "HEAD", "PURGE"))
def test_healthy(lab, vipd, path, method):
    """HC-01, HC-09 to HC-11: any method; the body that load balancers know."""
    code, headers, body = get(lab, path, method=method,
                              body="hello" if method == "POST" else None)
    assert code == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"
    if method == "HEAD":
        assert body == ""
        return
    report = json.loads(body)
    assert report["healthy"] is True and report["lastUpdated"] == report["currentTime"]
    assert ("nodeEligible" in report) == (path == "/healthz")
    assert set(report["status"]) == {"IPv4", "IPv6"}
    for family in report["status"].values():
        assert family["healthy"] is True and family["lastUpdated"] <= report["currentTime"]
    assert get(lab, path, host="::1")[0] == 200  # 0.0.0.0 means both families, as in kube-proxy


@pytest.mark.parametrize("host,code", [(L.NODE_NAME, 200), ("localhost:10249", 200),
                                       ("evil.example", 403), ("", 403)])
def test_metrics_port_checks_host(lab, vipd, host, code):
    """A page whose name was made to resolve to this node reads nothing on the port."""
    with lab.node.entered():
        for path in ("/metrics", "/healthz", "/proxyMode", "/configz", "/flagz", "/statusz", "/",
                     "/metrics/slis", "/v1/status"):
            conn = http.client.HTTPConnection("127.0.0.1", METRICS, timeout=L.PATIENCE)
            conn.request("GET", path, headers={"Host": host})
            assert conn.getresponse().status == code, path
            conn.close()


def test_other_paths(lab, vipd):
    for path in ("/", "/healthz/", "/metrics"):
        assert get(lab, path)[0] == 404


def idle_connections(lab, role, host, port, n):
    """Open connections as fast as possible, without a request."""
    code = ("import socket, sys, time\n"
            "held = []\n"
            "while True:\n"
            "    s = socket.socket()\n"
            "    s.setblocking(False)\n"
            "    s.connect_ex((%r, %d))\n"
            "    held.append(s)\n"
            "    if len(held) == %d:\n"
            "        print('full', flush=True)\n"
            "    if len(held) > %d:\n"
            "        held.pop(0).close()\n"
            "    time.sleep(0.002)\n" % (host, port, n, n))
    p = getattr(lab, role).popen(sys.executable, "-c", code, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"full\n"
    return p


def closed(lab, server):
    """Of a server's connections, those that were closed for a limit."""
    text = get(lab, "/metrics", METRICS)[2]
    found = re.findall(r'vipd_http_connections_closed_total\{server="%s",limit="(?:all|client)"\} (\d+)'
                       % server, text)
    assert len(found) == 2, text
    return sum(map(int, found))


def test_idle_connections_starve_no_probe(lab, vipd):
    """HC-01, HC-15: 500 idle connections of a pod to each kind of health port, renewed all the
    time. Every probe of the node is answered."""
    vipd.apply([with_health("idle", 91, PORT, fams=(4,)), slices("idle", 4, here(1, 4))])
    L.eventually(lambda: status(lab, L.NODE[4], PORT) == 200)
    crowds = []
    try:
        for port in (HEALTHZ, PORT):
            crowds.append(idle_connections(lab, "pod1", L.NODE[4], port, 500))
        for _ in range(20):
            assert get(lab, "/healthz", HEALTHZ, L.NODE[4])[0] == 200
            assert get(lab, "/", PORT, L.NODE[4])[0] == 200
        assert closed(lab, "healthz") > 200 and closed(lab, "service_health") > 200
        assert "health server: client %s has " % L.POD["pod1"][4] in vipd.log()
    finally:
        for p in crowds:
            p.kill()
            p.wait()
        vipd.apply([])


def is_at_its_end(sock):
    """Has the server closed the connection?"""
    sock.setblocking(False)
    try:
        while sock.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False


def test_head_limit(lab, vipd):
    """HC-15: connections without a request end sooner on health ports than on others: those that
    were opened later end before one to the metrics port."""
    vipd.apply([with_health("head", 92, PORT, fams=(4,)), slices("head", 4, here(1, 4))])
    L.eventually(lambda: status(lab, L.NODE[4], PORT) == 200)
    for _ in range(5):  # vipd may be delayed until it is time for all of them
        with lab.node.entered():
            first = socket.create_connection(("127.0.0.1", METRICS), L.PATIENCE)
            time.sleep(1)
            later = [socket.create_connection((L.NODE[4], port), L.PATIENCE)
                     for port in (HEALTHZ, PORT)]
        while first.recv(4096):
            pass
        are_closed = [is_at_its_end(s) for s in later]
        for s in (first, *later):
            s.close()
        if all(are_closed):
            break
    vipd.apply([])
    assert all(are_closed)


def put_node(vipd, change):
    obj = daemon.node_object(vipd.zone)
    change(obj)
    vipd.manifests.put(vipd.manifests.file(obj), json.dumps(obj))


@pytest.mark.parametrize("change", (
    lambda o: o["spec"].update(taints=[{"key": "ToBeDeletedByClusterAutoscaler",
                                        "value": "1", "effect": "NoSchedule"}]),
    lambda o: o["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z")),
    ids=("taint", "deletion"))
def test_not_eligible(lab, vipd, change):
    """HC-06 to HC-08, HC-11: 503 for /healthz at once, and again 200 when it is over."""
    put_node(vipd, change)
    try:
        L.eventually(lambda: get(lab, "/healthz")[0] == 503)
        report = json.loads(get(lab, "/healthz")[2])
        assert report["healthy"] is True and report["nodeEligible"] is False
        assert report["lastUpdated"] < report["currentTime"]
        assert get(lab, "/livez")[0] == 200
    finally:
        put_node(vipd, lambda o: None)
    L.eventually(lambda: get(lab, "/healthz")[0] == 200)


def test_not_ready_before_the_first_sync(alone):
    """IN-18: lists that never come. Alive, but load balancers should send no traffic here."""
    log = os.path.join("/tmp", "vipdt-%d.log" % os.getpid())
    with open(log, "wb") as f:
        p = alone.node.popen(L.program("vipd"), "--master", "http://127.0.0.1:1",
                             "--hostname-override", "n1", "--control-socket=", stdout=f, stderr=f)
    try:
        L.eventually(lambda: status(alone, "127.0.0.1", HEALTHZ) == 404)
        code, _, body = get(alone, "/healthz")
        assert code == 503 and json.loads(body)["healthy"] is False
        assert "status" not in json.loads(body)
        assert get(alone, "/livez")[0] == 200
        assert "vipd_in_service 0\n" in get(alone, "/metrics", METRICS)[2]
    finally:
        p.terminate()
        p.wait(60)
        os.unlink(log)


def test_port_taken(alone, second):
    """HC-02: logged once, retried every 5 s; with --bind-address-hard-fail vipd exits."""
    taken = alone.node.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("0.0.0.0", HEALTHZ))
    taken.listen(1)
    second.flags["--bind-address-hard-fail"] = True
    second.start(wait=False)
    assert second.proc.wait(60) == 1
    assert "health server: listen on 0.0.0.0:10256 and [::]: Address already in use" in second.log()
    second.flags["--bind-address-hard-fail"] = None
    second.start()
    assert "next attempt in 5 s" in second.log()
    why = ("health server: listen on 0.0.0.0:10256 and [::]: Address already in use: "
           "another process has the port")
    assert second.status()["problems"] == [{"kind": "server", "text": why}]
    assert why in second.ctl("status", check=False)
    assert "\nvipd_unbound_servers 1\n" in get(alone, "/metrics", METRICS)[2]
    taken.close()
    L.eventually(lambda: status(alone, "127.0.0.1", HEALTHZ) == 404, 7)
    assert second.status()["problems"] == []
    assert "\nvipd_unbound_servers 0\n" in get(alone, "/metrics", METRICS)[2]
    assert "recovered; listening on 0.0.0.0:10256" in second.log()


# ---- single services ----

def test_counts(lab, vipd):
    """HC-14 to HC-19, HC-24, EPS-24: by family, ready only, distinct addresses."""
    vipd.apply([with_health("hc", 600, PORT),
                slices("hc", 4, here(1, 4), here(2, 4), here(3, 4, ready=False, serving=True,
                                                              terminating=True),
                       entry(L.remote(9, 4), "n2")),
                slices("hc", 6, here(1, 6))])
    for path, method in (("/", "GET"), ("/any/thing?x=%00", "POST"), ("/healthz", "BREW")):
        code, headers, body = get(lab, path, PORT, L.NODE[4], method)
        if "%00" not in path:
            assert code == 200
            assert headers["X-Load-Balancing-Endpoint-Weight"] == "2"
            assert headers["Content-Type"] == "application/json"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert body == ('{\n\t"service": {\n\t\t"namespace": "default",\n\t\t"name": "hc"\n'
                            '\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}')
    assert json.loads(get(lab, "/", PORT, L.NODE[6])[2])["localEndpoints"] == 1
    # The primary addresses only: not loopback, nor the node's others.
    assert status(lab, "127.0.0.1", PORT) == 0
    assert status(lab, L.NODE_TO_WORLD[4], PORT) == 0
    # The node drains: the last ready one of a family goes.
    vipd.apply([with_health("hc", 600, PORT),
                slices("hc", 4, here(1, 4, ready=False, serving=True, terminating=True)),
                slices("hc", 6, here(1, 6))])
    code, headers, _ = get(lab, "/", PORT, L.NODE[4])
    assert code == 503 and headers["X-Load-Balancing-Endpoint-Weight"] == "0"
    assert status(lab, L.NODE[6], PORT) == 200


def test_ports_follow(lab, vipd):
    """HC-20: another port, another policy, no service: the sockets follow. SVC-26."""
    one = slices("hc", 4, here(1, 4))
    vipd.apply([with_health("hc", 600, PORT, [4]), one])
    assert status(lab, L.NODE[4], PORT) == 200
    assert status(lab, L.NODE[6], PORT) == 0  # the service has no such family
    vipd.apply([with_health("hc", 600, PORT + 1, [4]), one])
    assert status(lab, L.NODE[4], PORT) == 0 and status(lab, L.NODE[4], PORT + 1) == 200
    vipd.apply([service("hc", L.cluster_ip(600, 4), 80, kind="LoadBalancer",
                        health_port=PORT + 1), one])
    assert status(lab, L.NODE[4], PORT + 1) == 0
    vipd.apply([with_health("hc", 600, PORT, [4]), one])
    vipd.apply([one])
    assert status(lab, L.NODE[4], PORT) == 0


def test_request_outlives_its_service(lab, vipd):
    """HC-22: a request during the removal is answered with 503."""
    answer, took = b"", HEAD_S
    while took >= HEAD_S:  # the change came too late
        vipd.apply([with_health("hc", 600, PORT), slices("hc", 4, here(1, 4))])
        with lab.node.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            start = time.monotonic()
            s.connect((L.NODE[4], PORT))
            s.sendall(b"GET / HTTP/1.1\r\n")
            vipd.apply([])
            s.sendall(b"\r\n")
            took = time.monotonic() - start
            s.settimeout(L.PATIENCE)
            answer = s.recv(4096)
    assert answer.startswith(b"HTTP/1.1 503 ") and b'"localEndpoints": 0' in answer


def test_taken_port_and_swap(lab, vipd):
    """HC-21: a port in use by another process is bound when it becomes free; two services may swap
    ports."""
    taken = lab.node.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind((L.NODE[4], PORT))
    taken.listen(1)
    a = [with_health("a", 601, PORT), slices("a", 4, here(1, 4)), slices("a", 6, here(1, 6))]
    vipd.apply(a)
    # The other address works meanwhile.
    assert status(lab, L.NODE[6], PORT) == 200
    L.eventually(lambda: "service default/a: health check node port %d: listen on" % PORT
                 in vipd.log())
    problem, = vipd.status()["problems"]
    assert problem["kind"] == "health-check"
    assert re.match(r"service default/a: health check node port %d: .* already in use; services with "
                    "this problem: 1$" % PORT, problem["text"])
    taken.close()
    L.eventually(lambda: status(lab, L.NODE[4], PORT) == 200, 7)
    assert vipd.status()["problems"] == []

    def named(port, name):
        return '"name": "%s"' % name in get(lab, "/", port, L.NODE[4])[2]
    b = [with_health("b", 602, PORT + 1), slices("b", 4, here(2, 4))]
    vipd.apply(a + b)
    assert named(PORT, "a") and named(PORT + 1, "b")
    a[0]["spec"]["healthCheckNodePort"], b[0]["spec"]["healthCheckNodePort"] = PORT + 1, PORT
    vipd.manifests.held = {}  # the objects were changed in place
    vipd.apply(a + b)
    L.eventually(lambda: status(lab, L.NODE[4], PORT) and status(lab, L.NODE[4], PORT + 1), 1)
    assert named(PORT, "b") and named(PORT + 1, "a")
    vipd.apply([])


def test_addresses_follow(lab, vipd):
    """HC-25: the node gets another primary address; the listeners go there."""
    vipd.apply([with_health("hc", 600, PORT), slices("hc", 4, here(1, 4))])
    put_node(vipd, lambda o: o["status"].update(addresses=[
        {"type": "InternalIP", "address": L.NODE_TO_WORLD[4]},
        {"type": "InternalIP", "address": L.NODE[6]}]))
    try:
        L.eventually(lambda: status(lab, L.NODE_TO_WORLD[4], PORT) == 200)
        assert status(lab, L.NODE[4], PORT) == 0
    finally:
        put_node(vipd, lambda o: None)
    L.eventually(lambda: status(lab, L.NODE[4], PORT) == 200)


def process(pid, what):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        return int(re.search(r"^%s:\s+(\d+)" % what, f.read(), re.M)[1])


def test_two_thousand(second, alone):
    """One listener each, in one process, without threads, a descriptor and little memory for each;
    all answer, for their own service."""
    n = 2000
    second.start()
    pid = second.proc.pid
    before = process(pid, "VmRSS")
    objs = [with_health("s%04d" % i, 1000 + i, 20000 + i, [4]) for i in range(n)]
    objs += [slices("s%04d" % i, 4, *[here(1 + k, 4) for k in range(1 + i % 3)])
             for i in range(0, n, 2)]
    second.apply(objs, timeout=30)
    assert process(pid, "Threads") == 1
    assert metric(alone, "vipd_health_check_listeners") == n
    fds = len(os.listdir("/proc/%d/fd" % pid))
    used = process(pid, "VmRSS") - before
    print("%d ports: %d descriptors, %d kB more" % (n, fds, used))
    assert n <= fds < n + 100
    assert used < 16 * 1024  # services and endpoints included
    for i in range(0, n, 97):
        code, headers, body = get(alone, "/", 20000 + i, L.NODE[4])
        ready = 1 + i % 3 if i % 2 == 0 else 0
        assert code == (200 if ready else 503)
        assert headers["X-Load-Balancing-Endpoint-Weight"] == str(ready)
        report = json.loads(body)
        assert (report["service"]["name"], report["localEndpoints"]) == ("s%04d" % i, ready)
    second.apply([], timeout=30)
    assert metric(alone, "vipd_health_check_listeners") == 0
    assert len(os.listdir("/proc/%d/fd" % pid)) < 100


# ---- metrics ----

LINE = re.compile(r'^([a-z_]+)(\{[^}]*\})? ([0-9.e+-]+)$')


def scrape(lab):
    """{line without its number: number}, {metric: type}"""
    code, headers, body = get(lab, "/metrics", METRICS)
    assert code == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    numbers, types = {}, {}
    for line in body.splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            m = LINE.match(line)
            assert m, line
            numbers[m[1] + (m[2] or "")] = float(m[3])
    return numbers, types


def metric(lab, name):
    return scrape(lab)[0][name]


def is_counted(name, types):
    base = re.sub(r"\{.*", "", name)
    return types.get(base) == "counter" or \
        types.get(re.sub(r"_(bucket|sum|count)$", "", base)) == "histogram"


def test_metrics_never_go_back(lab, vipd):
    """During syncs and after a deleted table."""
    last, types = scrape(lab)
    for i in range(25):
        vipd.apply([service("m%d" % (i % 5), L.cluster_ip(650 + i, 4), 80),
                    slice_("m%d" % (i % 5), [L.remote(i + 1, 4)], 8080)])
        now, _ = scrape(lab)
        assert set(now) == set(last)
        for name, value in now.items():
            if is_counted(name, types):
                assert value >= last[name], name
        last = now
    assert metric(lab, "vipd_backends") >= 1
    assert last['kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}'] > 20
    assert abs(last['kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}'] -
               time.time()) < 60


def test_metrics_agree_with_the_status(lab, vipd):
    vipd.apply([with_health("hc", 600, PORT), slices("hc", 4, here(1, 4)),
                service("itp", L.cluster_ip(601, 4), 80, itp="Local"),
                slice_("itp", [entry(L.remote(3, 4), "n2")], 8080)])
    counts = vipd.status()["counts"]
    now, _ = scrape(lab)
    for name in ("services", "frontends", "pools", "backends", "conflicts", "endpoints"):
        assert now["vipd_" + name] == counts[name], name
    assert now['kubeproxy_sync_proxy_rules_no_local_endpoints_total'
               '{ip_family="IPv4",traffic_policy="internal"}'] == 1
    vipd.apply([])


def test_programming_latency(lab, vipd):
    """MET-06: from the trigger time of the slice."""
    name = 'kubeproxy_network_programming_duration_seconds_%s{ip_family="IPv4"}'
    svc = service("np", L.cluster_ip(602, 4), 80)
    vipd.apply([svc, slice_("np", [L.remote(1, 4)], 8080)])
    before = scrape(lab)[0]
    late = slice_("np", [L.remote(1, 4), L.remote(2, 4)], 8080)
    late["metadata"]["annotations"] = {
        "endpoints.kubernetes.io/last-change-trigger-time":
            datetime.datetime.utcnow().isoformat() + "Z"}
    vipd.apply([svc, late])
    after = scrape(lab)[0]
    assert after[name % "count"] - before[name % "count"] == 1
    assert 0 < after[name % "sum"] - before[name % "sum"] < 3


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (package prometheus)")
def test_promtool(lab, vipd):
    """Clean, but for one name that kube-proxy gave a gauge."""
    body = get(lab, "/metrics", METRICS)[2]
    r = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True,
                       text=True, check=False)
    said = [line for line in (r.stdout + r.stderr).splitlines() if line]
    assert said == ["kubeproxy_sync_proxy_rules_no_local_endpoints_total non-counter metrics "
                    "should not have \"_total\" suffix"]


def test_metrics_server(lab, vipd):
    """CFG-47"""
    code, headers, body = get(lab, "/proxyMode", METRICS)
    assert (code, body) == (200, MODE)
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert get(lab, "/healthz", METRICS)[::2] == (200, "ok")
    assert get(lab, "/nothing", METRICS)[0] == 404
    with pytest.raises(ConnectionRefusedError):  # for this host only by default
        get(lab, "/metrics", METRICS, L.NODE[4])


def test_pages(alone, second):
    """CFG-47, CFG-48: values in force, without passwords."""
    second.flags.update({"--min-sync-period": "1s", "--oom-score-adj": "-500"})
    second.start()
    config = json.loads(get(alone, "/configz", METRICS)[2])["kubeproxy.config.k8s.io"]
    assert config["kind"] == "KubeProxyConfiguration"
    assert config["apiVersion"] == "kubeproxy.config.k8s.io/v1alpha1"
    assert config["clusterCIDR"] == ",".join(L.CLUSTER_CIDR.values())
    assert config["oomScoreAdj"] == -500 and config["mode"] == MODE
    code, headers, flags = get(alone, "/flagz", METRICS)
    assert code == 200 and headers["Content-Type"] == "text/plain; charset=utf-8"
    assert flags.startswith("\nvipd flagz\nWarning: ")
    for line in ("min-sync-period=1s", "oom-score-adj=-500", "manifests=" + second.manifests.path,
                 "metrics-per-service=none"):
        assert "\n%s\n" % line in flags, line
    text = get(alone, "/statusz", METRICS)[2]
    assert text.startswith("\nvipd statusz\nWarning: ")
    assert re.search(r"^Up: 0 hr 00 min \d\d sec$", text, re.M)
    assert "/metrics/slis" in text
    slis = get(alone, "/metrics/slis", METRICS)[2]
    assert 'kubernetes_healthcheck{name="proxy",type="livez"} 1\n' in slis
    for path in ("/configz/", "/flagz2", "/debug/pprof/"):
        assert get(alone, path, METRICS)[0] == 404


# ---- the lock ----

def test_lock(lab, vipd, second, alone):
    """A second one names the first and ends; one of another namespace has no effect."""
    before = vipd.writes()
    with lab.node.entered():
        r = subprocess.run([L.program("vipd"), "--manifests", vipd.manifests.path,
                            "--control-socket="], capture_output=True, text=True, timeout=L.LIMIT,
                           check=False)
        c = subprocess.run([L.program("vipd"), "--cleanup"], capture_output=True, text=True,
                           timeout=L.LIMIT, check=False)
    for p in (r, c):
        assert p.returncode == 1
        assert "another vipd serves this network namespace: process %d" % vipd.proc.pid in p.stderr
    assert vipd.is_settled() and vipd.writes() == before
    second.start()
    second.kill()
    second.start()  # a killed one leaves no lock behind


# ---- the service manager ----

def test_notify_unread(alone, second, monkeypatch):
    """READY=1 and STATUS= are repeated if the supervisor has too many unread messages."""
    name = "\0vipdt-unread-%d" % os.getpid()
    s = alone.node.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(name)
    s.settimeout(L.PATIENCE)
    with alone.node.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"-", name)
    monkeypatch.setenv("NOTIFY_SOCKET", name.replace("\0", "@"))
    second.start()
    said = []
    L.eventually(lambda: said.append(s.recv(4096).decode()) or
                 ("READY=1" in said and any(re.match("STATUS=services received: [0-9]+", t) for t in said)), 30)
    second.stop()
    s.close()


@pytest.mark.parametrize("kind", ("path", "abstract"))
def test_notify(alone, second, monkeypatch, tmp_path, kind):
    """READY=1 once, after the first sync, WATCHDOG=1 from the loop, STATUS=, STOPPING=1."""
    name = str(tmp_path / "notify") if kind == "path" else "@vipdt-%d" % os.getpid()
    s = alone.node.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(name.replace("@", "\0", 1))
    s.settimeout(L.PATIENCE)
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    second.start(wait=False)  # the socket holds ten messages
    said = []
    L.eventually(lambda: said.append(s.recv(4096).decode()) or
                 ("READY=1" in said and said.count("WATCHDOG=1") > 3))
    assert said[0] == "STATUS=waiting for the first complete lists"
    assert said.count("READY=1") == 1
    L.eventually(lambda: said.append(s.recv(4096).decode()) or
                 any(re.match("STATUS=services received: [0-9]+", t) for t in said))
    # It hangs: nothing comes any more.
    os.kill(second.proc.pid, signal.SIGSTOP)
    time.sleep(0.3)
    s.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            s.recv(4096)
    os.kill(second.proc.pid, signal.SIGCONT)
    s.settimeout(L.PATIENCE)
    second.stop()
    L.eventually(lambda: s.recv(4096) == b"STOPPING=1")
    s.close()
