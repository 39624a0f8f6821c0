#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of observers of vipd: status page, vipctl, /metrics.

    bench/observe.py BUILD [--services N] [--rounds N] [--seconds S]      (default 10000 9 2)

A node in network namespaces of its own (tests/net/lab.py) serves N services; a client opens
connections through one of them as fast as it gets answers. Rounds without an observer alternate
with rounds of each kind of observer, so that the load of the machine is equal for both:

  none         no request
  1 page       the status page as a browser requests it: every 2 s, with If-None-Match
  20 pages     20 status pages
  list         `vipctl svc` once a second: the whole list over the control socket
  scrape       /metrics once a second

once without changes, and once with 20 changed endpoints a second. Prints, compared with the
round without observer before it (medians of the pairs), the connections per second and the CPU
time of client and kernel per connection: the first varies with the load of the machine, the second
hardly. Then CPU of vipd, the time from the event of a change to the kernel's acknowledgement, and
the time of single requests.
Needs root.
"""
import argparse
import http.client
import json
import os
import resource
import signal
import statistics
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in ("net", "resolver"):
    sys.path.insert(0, os.path.join(ROOT, "tests", _folder))

import daemon  # noqa: E402
import lab as L  # noqa: E402
from objects import entry, port, service, slice_, slice_port  # noqa: E402

METRICS = 10249
PAGE_PERIOD = 2.0
CHANGES = 20            # a second
CHANGED = ("bench", "changed")


class Asker(threading.Thread):
    """Requests `what` repeatedly until stopped. A page stores tags like a browser."""

    def __init__(self, vipd, what, period, delay=0.0):
        super().__init__(daemon=True)
        self.vipd, self.what, self.period, self.delay = vipd, what, period, delay
        self.over = threading.Event()
        self.tags = {}
        self.n = 0

    def get(self, path, headers=None):
        with self.vipd.lab.node.entered():
            conn = http.client.HTTPConnection("127.0.0.1", METRICS, timeout=10)
            conn.connect()
        try:
            conn.request("GET", path, headers=headers or {})
            r = conn.getresponse()
            return r.status, r.headers.get("ETag"), r.read()
        finally:
            conn.close()

    def conditional(self, path):
        code, tag, _ = self.get(path, {"If-None-Match": self.tags.get(path, "x")})
        self.tags[path] = tag
        return code

    def once(self):
        if self.what == "page":
            if self.conditional("/v1/status") == 200:
                self.conditional("/v1/history")
                self.conditional("/v1/services?limit=100")
        elif self.what == "scrape":
            self.get("/metrics")
        else:
            self.vipd.get("/v1/services?limit=5000")
            self.vipd.get("/v1/services?limit=5000&after=ns20/svc-05000")

    def run(self):
        self.over.wait(self.delay)
        while not self.over.is_set():
            self.once()
            self.n += 1
            self.over.wait(self.period)


class Changer(threading.Thread):
    """Replaces an endpoint CHANGES times a second."""

    def __init__(self, vipd):
        super().__init__(daemon=True)
        self.vipd = vipd
        self.over = threading.Event()

    def run(self):
        i = 0
        while not self.over.wait(1 / CHANGES):
            i += 1
            self.vipd.manifests.put("changed-slice.json", json.dumps(slice_(
                CHANGED[1], [entry(L.remote(i % 200 + 1, 4), "n2")],
                [slice_port(8080, "TCP", "http")], ns=CHANGED[0], fam=4)))


def many(n):
    items = []
    for i in range(n):
        ns, name = "ns%02d" % (i % 40), "svc-%05d" % i
        items.append(service(name, ["10.%d.%d.%d" % (100 + i // 62500, i // 250 % 250, i % 250 + 1)],
                             [port(80, "TCP", "http")], ns=ns))
        items.append(slice_(name, [entry("10.%d.%d.%d" % (200 + k, i // 250 % 250, i % 250 + 1), "n2")
                                   for k in range(3)], [slice_port(8080, "TCP", "http")], ns=ns))
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latencies(vipd):
    """({upper bound in s: cumulative count}, sum, count)"""
    text = Asker(vipd, "scrape", 1).get("/metrics")[2].decode()
    buckets, total, n = {}, 0.0, 0
    for line in text.splitlines():
        if line.startswith("vipd_event_to_ack_duration_seconds"):
            name, value = line.rsplit(" ", 1)
            if "_bucket" in name:
                buckets[float(name.split('le="')[1].split('"')[0].replace("+Inf", "inf"))] = int(value)
            elif name.endswith("_sum"):
                total = float(value)
            else:
                n = int(value)
    return buckets, total, n


def a_round(vipd, lab, target, seconds, observers):
    """(connections per second, CPU us per connection, CPU of vipd per second)"""
    for a in observers:
        a.once()        # loading the page is not measured
    for a in observers:
        a.start()
    try:
        flow = lab.flow("client", "new", "--to", target, "--concurrency", "8",
                        "--seconds", str(seconds))
        cpu, begin = cpu_seconds(vipd.proc.pid), time.monotonic()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = flow.wait()
        took = time.monotonic() - begin
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        cpu = cpu_seconds(vipd.proc.pid) - cpu
    finally:
        for a in observers:
            a.over.set()
        for a in observers:
            a.join()
    return result["ok"] / took, used / max(result["ok"], 1) * 1e6, cpu / took


def looks(vipd):
    return {
        "1 page": lambda: [Asker(vipd, "page", PAGE_PERIOD)],
        "20 pages": lambda: [Asker(vipd, "page", PAGE_PERIOD, i * PAGE_PERIOD / 20)
                             for i in range(20)],
        "list": lambda: [Asker(vipd, "list", 1.0)],
        "scrape": lambda: [Asker(vipd, "scrape", 1.0)],
    }


def quantile_us(before, after, q):
    buckets = {b: n - before[0].get(b, 0) for b, n in after[0].items()}
    n = buckets.get(float("inf"), 0)
    for bound in sorted(buckets):
        if n and buckets[bound] >= n * q:
            return bound * 1e6
    return float("nan")


def pairs(vipd, lab, args, target, is_changing):
    print("%s\n\n| observer | connections per second | vs. none | CPU per connection | vs. none | "
          "CPU of vipd |%s" % (
              "with %d changes a second" % CHANGES if is_changing else "without changes",
              " event to ack, mean / 99 % |" if is_changing else ""))
    print("|---|---|---|---|---|---|%s" % ("---|" if is_changing else ""))
    changer = Changer(vipd)
    if is_changing:
        changer.start()
    alone, seen = [], {}
    for _ in range(args.rounds):
        for name, make in looks(vipd).items():
            for kind, observers in (("none", []), (name, make())):
                before = latencies(vipd)
                rate, each, cpu = a_round(vipd, lab, target, args.seconds, observers)
                after = latencies(vipd)
                n = after[2] - before[2]
                record = (rate, each, cpu, (after[1] - before[1]) / n * 1e6 if n else 0,
                          quantile_us(before, after, 0.99) if n else 0)
                if kind == "none":
                    alone.append(record)
                    last = record
                else:
                    seen.setdefault(name, []).append(record + (rate / last[0], each / last[1]))
    changer.over.set()
    for name, records in [("none", alone)] + list(seen.items()):
        median = [statistics.median(r[i] for r in records) for i in range(len(records[0]))]
        against = ["%+.1f %%" % (100 * m - 100) for m in median[5:]] or ["", ""]
        print("| %s | %d | %s | %.1f us | %s | %.2f %% |%s" % (
            name, median[0], against[0], median[1], against[1], 100 * median[2],
            " %.0f / %.0f us |" % (median[3], median[4]) if is_changing else ""))
    print(flush=True)


def single(vipd):
    """Requests in sequence, without other load."""
    print("single requests\n\n| request | median | slowest of 30 |\n|---|---|---|")
    a = Asker(vipd, "page", 1)
    tag = {"If-None-Match": a.get("/v1/status")[1]}
    for path, headers in (("/v1/status", tag), ("/v1/status", None), ("/v1/history", None),
                          ("/v1/services?limit=100", None), ("/v1/services?limit=100&q=svc-09999", None),
                          ("/v1/services?limit=100&q=10.201.7.9", None),
                          ("/v1/services?limit=100&state=no-endpoints,dropping", None),
                          ("/v1/services?limit=5000", None), ("/v1/services/ns00/svc-00000", None),
                          ("/metrics", None), ("/", None)):
        took = []
        for _ in range(30):
            begin = time.monotonic()
            a.get(path, headers)
            took.append((time.monotonic() - begin) * 1e3)
        print("| %s%s | %.2f ms | %.1f ms |" % (path, ", 304" if headers else "",
                                              statistics.median(took), max(took)))
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--services", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    if L.missing():
        print("bench/observe: " + L.missing())
        return 77
    os.environ["VIPD_BUILD"] = os.path.abspath(args.build)
    with L.Lab() as lab:
        vipd = daemon.Vipd(lab)
        try:
            vipd.write([service(CHANGED[1], ["10.96.7.7"], [port(80, "TCP", "http")],
                                ns=CHANGED[0])])
            vipd.manifests.put("many.json", json.dumps(many(args.services)))
            vipd.start(wait=False)
            vipd.wait_ready(60)
            target = "tcp:%s:80" % daemon.STEADY_IP[4]
            print("%d services, load %.1f\n" % (vipd.status()["counts"]["services"],
                                                os.getloadavg()[0]))
            pairs(vipd, lab, args, target, False)
            pairs(vipd, lab, args, target, True)
            single(vipd)
            print("load at the end %.1f" % os.getloadavg()[0])
        finally:
            vipd.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the lab
    sys.exit(main())
