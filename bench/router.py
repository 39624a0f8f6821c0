#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Start and single changes of kube-router's service proxy, compared with vipd's mode ipvs.

    BENCH_KUBE_ROUTER=PATH bench/router.py BUILD [SERVICES ...]     (default 100 1000; 5 endpoints each)

BENCH_CHANGES=N instead of 10 changes. Both read a server that is part of this program: JSON over plain HTTP, with Endpoints for
kube-router 1.x. Needs root, IPVS and `iptables`; in a virtual machine:
    tools/vm-run --timeout 7200 --file PATH --env BENCH_KUBE_ROUTER=PATH -- python3 bench/router.py BUILD

  start    from exec until IPVS has all virtual services and destinations
  change   from the event until IPVS has a new endpoint; each change is of another service
"""
import contextlib
import http.server
import json
import os
import queue
import re
import statistics
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "net"), os.path.join(ROOT, "tests", "resolver")]
import ipvs  # noqa: E402
import lab as L  # noqa: E402
from objects import entry, port, service, slice_, slice_port  # noqa: E402

ENDPOINTS, CHANGES, LIMIT_S, ADDRESS = 5, int(os.environ.get("BENCH_CHANGES", "10")), 1800, "10.%d.%d.%d"
KINDS = {"services": "Service", "endpoints": "Endpoints", "endpointslices": "EndpointSlice", "nodes": "Node", "pods": "Pod",
         "namespaces": "Namespace", "networkpolicies": "NetworkPolicy", "servicecidrs": "ServiceCIDR"}
PATH = re.compile("^/apis?/((?:[^/]+/)?v1)/(%s)(?:/([^/]+))?/?$" % "|".join(KINDS))


class Store:
    def __init__(self):
        self.lock, self.version = threading.Lock(), 0
        self.objects, self.watches = {r: {} for r in KINDS}, {r: [] for r in KINDS}

    def put(self, resource, obj):
        with self.lock:
            self.version += 1
            meta = obj["metadata"]
            meta.update(resourceVersion=str(self.version), uid=meta["name"], creationTimestamp="2026-01-01T00:00:00Z")
            what = "MODIFIED" if meta["name"] in self.objects[resource] else "ADDED"
            self.objects[resource][meta["name"]] = obj
            for events in self.watches[resource]:
                events.put({"type": what, "object": obj})


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_message = lambda *_: None  # noqa: E731

    def begin(self, status, name, value):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header(name, value)
        self.end_headers()

    def answer(self, obj, status=200):
        body = json.dumps(obj).encode()
        self.begin(status, "Content-Length", str(len(body)))
        self.wfile.write(body)

    def do_GET(self):
        url, m = urlsplit(self.path), PATH.match(urlsplit(self.path).path)
        if m is None or m[3] and m[3] not in self.store.objects[m[2]] or "sendInitialEvents" in url.query:
            code = 404 if m is None or m[3] else 422    # no watch-list
            return self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}, code)
        kind, objects, events = {"kind": KINDS[m[2]], "apiVersion": m[1]}, self.store.objects[m[2]], queue.Queue()
        if m[3]:
            return self.answer(dict(objects[m[3]], **kind))
        if parse_qs(url.query).get("watch", ["0"])[0] not in ("1", "true"):
            with self.store.lock:
                return self.answer({"kind": KINDS[m[2]] + "List", "apiVersion": m[1], "items": list(objects.values()),
                                    "metadata": {"resourceVersion": str(self.store.version)}})
        self.store.watches[m[2]].append(events)
        self.begin(200, "Transfer-Encoding", "chunked")
        with contextlib.suppress(OSError):
            while True:
                event = events.get()
                line = json.dumps(dict(event, object=dict(event["object"], **kind))).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))


def put_endpoints(store, i, numbers):
    addresses = [ADDRESS % (128 + k, i >> 8, i & 255) for k in numbers]
    store.put("endpointslices", slice_("s%d" % i, [entry(a, "n2") for a in addresses], [slice_port(8080, "TCP", "t")]))
    store.put("endpoints", {"metadata": {"name": "s%d" % i, "namespace": "default"}, "subsets": [
        {"addresses": [{"ip": a} for a in addresses], "ports": [{"name": "t", "port": 8080, "protocol": "TCP"}]}]})


def wait(process, test):
    end = time.monotonic() + LIMIT_S
    while not test():
        if process.poll() is not None or time.monotonic() > end:
            sys.exit("bench/router: the proxy ended (%s), or needs more than %d s" % (process.poll(), LIMIT_S))
        time.sleep(0.001)
    return time.monotonic()


def measure(command, n, is_vipd):
    """(seconds of the start, seconds of each change)"""
    with L.Lab(servers=False) as lab, open("/tmp/bench-router.log", "wb") as log:
        store = Handler.store = Store()
        store.put("nodes", {"metadata": {"name": L.NODE_NAME}, "spec": {"podCIDR": L.POD_CIDR[4]}, "status": {
            "addresses": [{"type": "InternalIP", "address": L.NODE[4]}]}})
        for i in range(n):
            store.put("services", service("s%d" % i, L.cluster_ip(1000 + i, 4), [port(80, "TCP", "t")]))
            put_endpoints(store, i, range(ENDPOINTS))
        with lab.node.entered():
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        kernel, begin, changes = ipvs.Ipvs(lab.node), time.monotonic(), []
        process = lab.node.popen(*command, stdout=log, stderr=log)
        start = wait(process, lambda: time.sleep(0.05) or lab.node.run("cat", "/proc/net/ip_vs").count(
            ":1F90 ") >= n * ENDPOINTS) - begin
        where = {d: s for s, dests in kernel.state(ours=is_vipd).items() for d in dests}
        for i in range(min(n, CHANGES)):
            time.sleep(3)
            changed, begin = where[ADDRESS % (128, i >> 8, i & 255), 8080], time.monotonic()
            put_endpoints(store, i, range(1, ENDPOINTS + 1))
            new = ADDRESS % (128 + ENDPOINTS, i >> 8, i & 255), 8080
            changes.append(wait(process, lambda: new in kernel.dests(changed)) - begin)  # noqa: B023
        return start, changes


def main():
    why = "BENCH_KUBE_ROUTER is not set" if "BENCH_KUBE_ROUTER" not in os.environ else L.missing() or ipvs.why_not()
    if why:
        print("bench/router: " + why)
        return 77
    for n in [int(x) for x in sys.argv[2:]] or [100, 1000]:
        for name, command in (
                ("vipd", [os.path.join(sys.argv[1], "vipd"), "--proxy-mode=ipvs", "--cluster-cidr=" + L.CLUSTER_CIDR[4]]),
                ("kube-router", [os.environ["BENCH_KUBE_ROUTER"], "--run-router=false", "--run-firewall=false"])):
            command += ["--master=http://127.0.0.1:8080", "--hostname-override=" + L.NODE_NAME]
            start, changes = measure(command, n, name == "vipd")
            print("%5d x %d  %-11s  start %.2f s; change: median of %d %.1f ms (%.1f to %.1f)" % (
                n, ENDPOINTS, name, start, len(changes), *(1e3 * f(changes) for f in (statistics.median, min, max))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
