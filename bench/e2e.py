#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Delay from the API server to the first connection: vipd compared with kube-proxy.

    bench/e2e.py BUILD [SERVICESxENDPOINTS ...] [--json] [--plot FILE.svg] [--changes N] [--storm]
                 (default 1000x5 10000x5 44000x5 100000x2; 500 changes)

A node in network namespaces of its own (tests/net/lab.py), all of whose endpoints answer, and an
API server (tests/apiserver) in the node's namespace: HTTP/2, TLS, protobuf. For each size and each
proxy:

  start    from exec, and from the server's last byte, until a connection through the last service in
           order succeeds and nothing is pending. Three starts on an empty kernel
  change   the endpoint of a service is replaced: from the last byte of the event, written by the
           server, until a connection reaches the new endpoint. "path alone" is one connection
  burst    1,000 slices change at once: from the last byte of the last event until a connection
           reaches its new endpoint. Five bursts
  restart  without changes; with a change made while the proxy is stopped: from exec until a
           connection reaches the new endpoint; with a change during adoption. Commits: the
           ruleset's generation, nf_tables only
  failed   failed connections, of 200 a second through two services

--storm measures another thing: 1,000 new connections a second through one service, alone and beside 2,000
slice updates a second of the others, in turns of 20 s. Test server only.

BENCH_KUBE_PROXY=PATH also measures that kube-proxy in modes iptables, nftables and, if the kernel
has IPVS, ipvs.
BENCH_API=KUBECONFIG uses a real server (e2e/apis.py) and namespaces vipd-bench-*, which are deleted
afterwards. Needs root. On a machine with other work, `chrt -r 1 bench/e2e.py ...` gives the
processes of the benchmark precedence.
"""
import argparse
import glob
import json
import os
import signal
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in ("tests", "tests/net", "bench", "bench/e2e"):
    sys.path.insert(0, os.path.join(ROOT, _folder))

import api  # noqa: E402
import apis  # noqa: E402
import lab as L  # noqa: E402
import nftables  # noqa: E402
import proxies  # noqa: E402
import report  # noqa: E402

SIZES = ("1000x5", "10000x5", "44000x5", "100000x2")
POD_CIDR = "10.128.0.0/10"      # of tests/apiserver/cluster.py, without those of the lab
STARTS = 3
BURSTS = 5
BURST = 1000
LOAD_RATE = 200
START_PAUSE_S = 0.001           # between two connections: leaves the processor to the proxy
PAUSE_S = 0.02                  # between two changes: long enough that each is programmed before the next
FIRST_S = 600
STORM_RATE, STORM_LOAD, STORM_TURNS = 2000, 1000, 3
STORM_S = 1 if api.QUICK else 20


class Bed:
    """A lab with an API server, and the measurements of a proxy, which `make` starts."""

    def __init__(self, size, program, make, folder):
        services, endpoints = (int(x) for x in size.split("x"))
        self.program, self.make, self.folder = program, make, folder
        self.proxy = self.api = self.load = None
        self.turn = 0
        self.lab = L.Lab()
        try:
            self.lab.node2.run("ip", "route", "add", "local", POD_CIDR, "dev", "lo")
            self.lab.node.run("ip", "route", "add", POD_CIDR, "via", L.NODE2[4])
            real = os.environ.get("BENCH_API")
            self.api = apis.RealApi(self.lab, services, endpoints, real) if real else \
                apis.TestApi(self.lab, services, endpoints)
            self.nft = nftables.Nft(self.lab.node)
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.load:
            self.load.kill()
        if self.proxy:
            self.proxy.stop()
        if self.api:
            self.api.close()
        self.lab.close()

    # ---- parts

    def backend(self):
        return "10.190.0.%d" % (self.turn % 2 + 1)

    def changed_slice(self):
        """The slice of the last service with the other endpoint."""
        self.turn += 1
        return apis.slice_(self.api.ns, "last" if self.api.ns == "zzz" else "zzz-last",
                           [self.backend()])

    def reached(self, pause=0.0):
        """Time of the first answer of the endpoint through the last service. `pause`: between two
        connections that reach another endpoint."""
        end = time.monotonic() + FIRST_S
        while time.monotonic() < end:
            r = L.probe(self.lab.pod1, self.api.ips[0], 80, timeout=0.05)
            if r.ok and r.backend == self.backend():
                return time.monotonic()
            if not r.ok:
                self.check()
            if pause or not r.ok:
                time.sleep(pause or START_PAUSE_S)
        sys.exit("bench/e2e: no connection reaches %s: see %s" % (self.backend(), self.folder))

    def exec(self):
        self.proxy = self.make(self.program, self.lab, self.api.config, self.folder)

    def check(self):
        if self.proxy.process.poll() is not None:
            with open(self.proxy.log_path, encoding="utf-8", errors="replace") as f:
                sys.exit("bench/e2e: the proxy ended: %s" % f.read()[-500:])

    def settle(self):
        while not self.proxy.is_settled():
            self.check()
            time.sleep(0.005)

    def stop(self):
        self.proxy.stop()
        self.proxy = None
        self.api.wait_closed()

    def failures(self):
        s = self.load.stat()
        return s["failed"], s["started"]

    def failed_since(self, before):
        time.sleep(1)   # the time limit of a connection
        return [now - then for now, then in zip(self.failures(), before)]

    # ---- measurements

    def start(self):
        self.exec()
        served = self.api.served()
        reached = self.reached(START_PAUSE_S)
        self.settle()
        end = max(reached, time.monotonic())
        return {"ready": end - self.proxy.begin, "after": served and end - served,
                "cpu": self.proxy.cpu(), "queued": self.queued()}

    def queued(self):
        """Seconds for which threads of the proxy waited for a processor."""
        total = 0
        for path in glob.glob("/proc/%d/task/*/schedstat" % self.proxy.process.pid):
            with open(path, encoding="ascii") as f:
                total += int(f.read().split()[1])
        return total / 1e9

    def starts(self, out):
        out["start"] = []
        for i in range(STARTS):
            if i:
                stopped = self.proxy
                self.stop()
                stopped.cleanup()
            out["start"].append(self.start())
        out["resident"], out["peak"] = self.proxy.memory("VmRSS"), self.proxy.memory("VmHWM")

    def changes(self, out, count):
        out["path"], out["change"] = [], []
        before = self.failures()
        for _ in range(count):
            time.sleep(PAUSE_S)
            begin = time.monotonic()
            out["path"].append(self.reached() - begin)
            written = self.api.change_one(self.changed_slice())
            out["change"].append(self.reached() - written)
        out["ack"] = self.proxy.event_to_ack()
        out["change_failed"] = self.failed_since(before)

    def bursts(self, out):
        slices = list(self.api.slices(BURST - 1))
        out["burst"] = []
        before, cpu = self.failures(), self.proxy.cpu()
        for turn in range(BURSTS):
            for i, obj in enumerate(slices):
                obj["endpoints"][0]["addresses"] = ["10.191.%d.%d" % (turn, i % 250 + 1)]
            written = self.api.change(slices + [self.changed_slice()])
            out["burst"].append(self.reached() - written)
            self.settle()
        out["burst_cpu"] = (self.proxy.cpu() - cpu) / BURSTS
        out["burst_failed"] = self.failed_since(before)

    def restarts(self, out):
        before, commits = self.failures(), self.nft.genid()
        self.stop()
        self.exec()
        self.reached(START_PAUSE_S)     # works all the time
        self.api.served()
        self.settle()
        out["restart"] = time.monotonic() - self.proxy.begin
        out["writes"], out["commits"] = self.proxy.writes(), self.nft.genid() - commits
        out["restart_failed"] = self.failed_since(before)
        before = self.failures()
        self.stop()
        self.api.change_one(self.changed_slice())
        self.exec()
        served = self.api.served()
        reached = self.reached(START_PAUSE_S)
        out["changed"] = reached - self.proxy.begin
        out["changed_after"] = served and reached - served
        self.settle()
        out["changed_failed"] = self.failed_since(before)

    def change_in_adoption(self):
        """Delay of a change whose event arrives during adoption; or None."""
        self.stop()
        self.exec()
        if not self.proxy.wait_adopting():
            return None
        written = self.api.change_one(self.changed_slice())
        return self.reached(START_PAUSE_S) - written

    def storm(self):
        self.start()
        for rate in (0, STORM_RATE) * STORM_TURNS:
            cpu, begin = self.proxy.cpu(), time.monotonic()
            self.load = self.lab.flow("pod1", "new", "--rate", STORM_LOAD, "--concurrency", 64,
                                      "--to", "tcp:%s:80" % self.api.ips[0])
            if rate:
                updates = self.api.server.churn(rate=rate, seconds=STORM_S,
                                                without=self.api.ns)["result"]["changes"]
            else:
                time.sleep(STORM_S)
                updates = 0
            took, r = time.monotonic() - begin, self.load.stop()
            self.load = None
            self.settle()
            cpu = (self.proxy.cpu() - cpu) * 1e6
            print("%5.0f updates a second: %.1f connections a second, p50 %d us, p99 %d us, longest %d us, %d failed; "
                  "CPU of the proxy %.1f ms a second%s" % (
                      updates / took, r["ok"] / took, r["p50_us"], r["p99_us"], r["max_us"], r["failed"],
                      cpu / took / 1e3, ", %.0f us an update" % (cpu / updates) if rate else ""), flush=True)
        print("event to ack: %s" % self.proxy.event_to_ack())

    def measure(self, out, count):
        self.starts(out)
        self.load = self.lab.flow("pod1", "new", "--rate", LOAD_RATE, "--concurrency", 20, *(
            x for ip in self.api.ips for x in ("--to", "tcp:%s:80" % ip)))
        self.changes(out, count)
        self.bursts(out)
        self.restarts(out)
        out["adoption"] = self.change_in_adoption()


def main(argv):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build")
    p.add_argument("sizes", nargs="*", default=SIZES)
    p.add_argument("--json", action="store_true")
    p.add_argument("--plot")
    p.add_argument("--changes", type=int, default=500)
    p.add_argument("--storm", action="store_true")
    args = p.parse_args(argv)
    if L.missing():
        print("bench/e2e: " + L.missing())
        return 77
    about, results = report.machine(), []
    for size in args.sizes:
        for name, program, make in proxies.all_proxies(os.path.abspath(args.build)):
            out = {"size": size, "proxy": name}
            with tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder:
                bed = Bed(size, program, make, folder)
                try:
                    if args.storm:
                        print("%s, %s" % (size, name), flush=True)
                        bed.storm()
                        continue
                    bed.measure(out, args.changes)
                finally:
                    bed.close()
            results.append(out)
    if args.storm:
        return 0
    print(json.dumps({"machine": about, "results": results}) if args.json else "\n".join(
        ["%s: %s" % (k, v) for k, v in about.items()] + report.table(results)))
    if args.plot:
        with open(args.plot, "w", encoding="utf-8") as f:
            f.write(report.plot(results, about))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the namespaces
    sys.exit(main(sys.argv[1:]))
