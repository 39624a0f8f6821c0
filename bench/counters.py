#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of counting per service and per endpoint: bench/counters.py BUILD [SERVICES [ROUNDS]]

Three labs side by side, one for each --metrics-per-service, each with SERVICES services of 5
endpoints. New UDP flows and TCP connections to them in turn, so that other load of the machine
affects them equally: system CPU time of the client per connection, which on a veth pair includes
the router's part and some of the server's.

Then other costs: kernel memory, a response of /metrics, operations and bytes of changes, a restart.

VIPD_PLANE=ipvs measures the ipvs plane. Where the kernel has no IPVS it runs itself in a virtual
machine whose clock counts instructions (2 ns each): there the time of a connection includes client
and server, and only differences are significant.
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
import ipvs  # noqa: E402
import lab as L  # noqa: E402
import planes  # noqa: E402

MODES = ("none", "service", "endpoint")
ENDPOINTS = 5
IN_A_MACHINE = os.path.exists("/job/run")
CONNECTIONS = {"udp": 800, "tcp": 400} if IN_A_MACHINE else {"udp": 4000, "tcp": 2000}
SETTLE_S = 300


def in_a_machine(args):
    return subprocess.run(
        [os.path.join(ROOT, "tools", "vm-run"), "--icount", "--memory", "2048", "--timeout", "1800",
         "--build", os.path.abspath(args[0]), "--env", "VIPD_SLOW=5", "--", "/usr/bin/python3",
         "bench/counters.py", args[0]] + (args[1:] + ["300", "6"][len(args) - 1:]),
        cwd=ROOT, check=False).returncode


class Wire(ipvs.Wire):
    """Also counts bytes."""

    def _name(self, proto, kind, body):
        name = super()._name(proto, kind, body)
        self.bytes = getattr(self, "bytes", 0) + (16 + len(body) if name else 0)
        return name

    def sent_bytes(self):
        self.bytes = 0
        self.counts()
        return self.bytes


def objects(n, first=1):
    """Services with five pods on node2; `first`: the first pod of s0."""
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
                             for k in range(0 if i else first - 1, ENDPOINTS)]}


def kernel_mb():
    with open("/proc/meminfo", encoding="ascii") as f:
        text = f.read()
    # Hash elements are unreclaimable slabs; a counter has a part for each CPU.
    return sum(int(re.search(r"^%s: +(\d+)" % key, text, re.M).group(1))
               for key in ("SUnreclaim", "Percpu")) / 1024


def has_nlmon():
    return subprocess.run(["modprobe", "-q", "nlmon"], capture_output=True,
                          check=False).returncode == 0


class Bed:
    """A lab with a daemon at this level of counting."""

    def __init__(self, mode, n):
        self.lab = L.Lab()
        self.daemon = D.Vipd(self.lab, flags={"--metrics-per-service": mode,
                                              "--metrics-bind-address": "127.0.0.1:10249"})
        self.daemon.start()
        family = ipvs.Ipvs(self.lab.node).family if planes.PLANE == "ipvs" else None
        self.wire = Wire(self.lab.node, family) if has_nlmon() else None
        before = kernel_mb()
        self.first = self.change("first sync", list(objects(n)))
        self.kernel = kernel_mb() - before
        self.used = {"udp": [], "tcp": []}

    def change(self, what, objs):
        """Make a change: (its name, operations, bytes)."""
        def settled():
            s = self.daemon.status()
            return s["counts"]["services"] == len(objs) // 2 and self.daemon.is_settled()
        before = self.daemon.status()["sync"]["writes"]
        if self.wire:
            self.wire.sent_bytes()
        self.daemon.manifests.put("all.json", ipvs.as_list(objs))
        time.sleep(0.2)
        L.eventually(settled, SETTLE_S, "not settled")
        return (what, self.daemon.status()["sync"]["writes"] - before,
                self.wire.sent_bytes() if self.wire else 0)

    def changes(self, n):
        yield self.first
        yield self.change("remove an endpoint of two ports", list(objects(n, 2)))
        yield self.change("add an endpoint of two ports", list(objects(n)))
        yield self.change("add a service of two ports", list(objects(n + 1)))

    def restart(self):
        """Seconds, operations."""
        self.daemon.stop()
        self.daemon.start(wait=False)
        began = time.monotonic()
        self.daemon.wait_ready(SETTLE_S)
        return time.monotonic() - began, self.daemon.status()["sync"]["writes"]

    def round(self, proto):
        """System CPU time of a connection, ns."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
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
        took = time.monotonic() - began if IN_A_MACHINE else after.ru_stime - before.ru_stime
        self.used[proto].append(took / ok * 1e9)

    def scrape(self):
        """Seconds, bytes and series of a response of /metrics."""
        began = time.monotonic()
        with self.lab.node.entered():
            text = urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=30).read()
        return (time.monotonic() - began, len(text),
                len(re.findall(rb"^vipd_(?:service|endpoint)_\w+{", text, re.M)))

    def close(self):
        if self.wire:
            self.wire.close()
        self.daemon.close()
        self.lab.close()


def main(argv):
    if len(argv) < 1:
        sys.exit(__doc__)
    os.environ["VIPD_BUILD"] = os.path.abspath(argv[0])
    if planes.PLANE == "ipvs" and ipvs.why_not() is not None:
        return in_a_machine(argv) if not IN_A_MACHINE else sys.exit(ipvs.why_not())
    why = L.missing() or planes.missing(L.run)
    if why is not None:
        print(why)
        return 77
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
            if not IN_A_MACHINE:  # the kernel still processes three new labs
                print("%-9s kernel memory %.1f MB" % (mode, bed.kernel), flush=True)
            print("%-9s /metrics %.3f s, %d bytes, %d series" % ((mode,) + bed.scrape()))
            for what, operations, bytes_ in bed.changes(n):
                print("%-9s %s: %d operations, %d bytes" % (mode, what, operations, bytes_))
            print("%-9s restart %.3f s, %d operations" % ((mode,) + bed.restart()), flush=True)
        base = beds["none"].used
        for mode in MODES[1:]:
            for proto in CONNECTIONS:
                # Pairs neighbours in time, with equal load of the machine.
                pairs = [b / a - 1 for a, b in zip(base[proto][1:], beds[mode].used[proto][1:])]
                print("%-9s %s %+.2f %%" % (mode, proto, 100 * statistics.median(pairs)))
    finally:
        for bed in beds.values():
            bed.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main(sys.argv[1:]))
