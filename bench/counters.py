#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What counting per service and per endpoint costs: bench/counters.py BUILD [SERVICES [ROUNDS]]

Three labs side by side, one for each --metrics-per-service, each with SERVICES services of 5
endpoints. New UDP flows and TCP connections to one of them, in turns, so that what else the
machine does hits all alike: system CPU time of the client a connection, which is where a veth
pair runs the router's part, and some of the server's, as well.

Then the price of having it: the kernel's memory, and an answer of /metrics.
"""
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import daemon as D  # noqa: E402
import lab as L  # noqa: E402

MODES = ("none", "service", "endpoint")
ENDPOINTS = 5
CONNECTIONS = {"udp": 4000, "tcp": 2000}


def objects(n):
    """Services of the same five pods, which node2 serves."""
    for i in range(n):
        name = "s%d" % i
        yield {"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": name, "namespace": "bench"},
               "spec": {"clusterIP": L.cluster_ip(i + 10, 4), "ports": [
                   {"name": "t", "port": 80, "protocol": "TCP"},
                   {"name": "u", "port": 80, "protocol": "UDP"}]}}
        yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
               "metadata": {"name": name + "-4", "namespace": "bench",
                            "labels": {"kubernetes.io/service-name": name}},
               "addressType": "IPv4",
               "ports": [{"name": "t", "port": 8080, "protocol": "TCP"},
                         {"name": "u", "port": 8080, "protocol": "UDP"}],
               "endpoints": [{"addresses": [L.remote(1 + k, 4)], "conditions": {"ready": True}}
                             for k in range(ENDPOINTS)]}


def kernel_mb():
    with open("/proc/meminfo", encoding="ascii") as f:
        text = f.read()
    # Hash elements are unreclaimable slabs, and a counter has a part for each CPU.
    return sum(int(re.search(r"^%s: +(\d+)" % key, text, re.M).group(1))
               for key in ("SUnreclaim", "Percpu")) / 1024


class Bed:
    """A lab with a daemon that counts so much."""

    def __init__(self, mode, n):
        self.lab = L.Lab()
        self.daemon = D.Vipd(self.lab, flags={"--metrics-per-service": mode,
                                              "--metrics-bind-address": "127.0.0.1:10249"})
        self.daemon.start()
        before = kernel_mb()
        self.daemon.write(list(objects(n)))
        while self.daemon.status()["counts"]["services"] < n or not self.daemon.is_settled():
            time.sleep(0.05)
        self.kernel = kernel_mb() - before
        self.used = {"udp": [], "tcp": []}

    def round(self, proto):
        """System CPU time of one connection, ns."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        flow = self.lab.client.popen(L.program("flow"), "new", "--to",
                                     "%s:%s:80" % (proto, L.cluster_ip(10, 4)), "--count",
                                     str(CONNECTIONS[proto]), "--concurrency", "16",
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        out = flow.stdout.read()
        flow.stdin.close()
        flow.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        ok = int(re.search(r'"ok":\s*(\d+)', out).group(1))
        assert ok > 0.99 * CONNECTIONS[proto], out
        self.used[proto].append((after.ru_stime - before.ru_stime) / ok * 1e9)

    def scrape(self):
        """Seconds, bytes and series of an answer of /metrics."""
        began = time.monotonic()
        with self.lab.node.entered():
            text = urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=30).read()
        return (time.monotonic() - began, len(text),
                len(re.findall(rb"^vipd_(?:service|endpoint)_\w+{", text, re.M)))

    def close(self):
        self.daemon.close()
        self.lab.close()


def main(argv):
    if len(argv) < 1:
        sys.exit(__doc__)
    os.environ["VIPD_BUILD"] = os.path.abspath(argv[0])
    n, rounds = (int(a) for a in (argv[1:] + ["1000", "60"][len(argv) - 1:])[:2])
    if os.geteuid() != 0:
        print("bench/counters: needs root")
        return 77
    beds = {}
    try:
        for mode in MODES:
            beds[mode] = Bed(mode, n)
        for i in range(rounds + 1):
            for bed in beds.values():
                for proto in CONNECTIONS:
                    bed.round(proto)
        for mode, bed in beds.items():
            for proto in CONNECTIONS:
                used = bed.used[proto][1:]  # the first warms up
                low = sorted(used)[:max(1, len(used) // 4)]
                print("%-9s %s %6.0f ns a connection, the quietest quarter %.0f" % (
                    mode, proto, statistics.median(used), statistics.mean(low)))
            print("%-9s kernel memory %.1f MB" % (mode, bed.kernel), flush=True)
            print("%-9s /metrics %.3f s, %d bytes, %d series" % ((mode,) + bed.scrape()))
        base = beds["none"].used
        for mode in MODES[1:]:
            for proto in CONNECTIONS:
                # Neighbours in time are compared: what else the machine did hit both.
                pairs = [b / a - 1 for a, b in zip(base[proto][1:], beds[mode].used[proto][1:])]
                print("%-9s %s %+.2f %%" % (mode, proto, 100 * statistics.median(pairs)))
    finally:
        for bed in beds.values():
            bed.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was made is removed
    sys.exit(main(sys.argv[1:]))
