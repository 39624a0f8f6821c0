#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of vipd with an API server as source: start, memory, and single changes.

    bench/api.py BUILD [SERVICESxENDPOINTS ...] [--json] [--storm]      (default 10000x5 50000x5)

For each size: a server with a synthetic cluster (tests/apiserver) and vipd in a separate network
namespace, over HTTP/2 and TLS; --json requests JSON instead of protobuf. Measured:

  served       from vipd's exec until the server has written the last list
  programmed   from exec until all services are programmed; vipd's CPU time until then
  adopted      as "programmed", of a second vipd, which adopts the state and must write nothing
  resident     memory after the start (VmRSS), and its peak (VmHWM); without pages of libraries,
               which processes share, and per service with its slice and endpoints
  per 1,000    CPU time of vipd per 1,000 EndpointSlice updates, at 1,000 a second or the maximum
               of the server, for 10 s; with --storm 2,000 a second for 60 s. "Coalesced": updates
               that were programmed together with a later one of their service
  event to ack from the arrival of an event's last byte to the kernel's acknowledgement, for 50
               single changes a second; quantiles are upper bounds of buckets of powers of two

Needs root. The server takes CPU time as well: it shares the machine with vipd.
"""
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import string
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from apiserver.client import Server  # noqa: E402

PROTOBUF = "application/vnd.kubernetes.protobuf"
SIZES = ("10000x5", "50000x5")
START_SECONDS = 120
LISTS = {"services": 1, "endpointslices": 1}
QUICK = "BENCH_QUICK" in os.environ     # tools/bench
CHURN = (1000, 1 if QUICK else 10)      # a second, seconds
STORM = (2000, 60)
SINGLE_RATE = 50
SINGLE_SECONDS = 1 if QUICK else 20


class Vipd:
    """A running vipd and its status."""

    def __init__(self, program, config, netns, folder, encoding=PROTOBUF, flags=()):
        self.socket = os.path.join(folder, "control.sock")
        self.log_path = os.path.join(folder, "proxy.log")
        command = ["ip", "netns", "exec", netns, program, "--kubeconfig", config,
                   "--hostname-override", "node-0000", "--cluster-cidr", "10.128.0.0/9",
                   "--kube-api-content-type", encoding, *flags, *self.own_flags()]
        with open(self.log_path, "ab") as log:
            self.log_begin = log.tell()
            self.begin = time.monotonic()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)

    def own_flags(self):
        return ["--control-socket", self.socket]

    def status(self):
        conn = http.client.HTTPConnection("localhost", timeout=30)
        conn.sock = socket.socket(socket.AF_UNIX)
        try:
            conn.sock.connect(self.socket)
            conn.request("GET", "/v1/status")
            return json.loads(conn.getresponse().read())
        except OSError:
            return None
        finally:
            conn.close()

    def wait(self, test, what):
        """(seconds from the start until `test` of the status is true, the status)"""
        while True:
            if self.process.poll() is not None:
                sys.exit("bench: the proxy ended: see %s" % self.log_path)
            status = self.status()
            if status and test(status):
                return time.monotonic() - self.begin, status
            if time.monotonic() - self.begin > START_SECONDS:
                sys.exit("bench: %s: not within %d s" % (what, START_SECONDS))
            time.sleep(0.02)

    def is_in_service(self):
        """From the log: a status request walks all services, and polling it would take a large part
        of vipd's time."""
        with open(self.log_path, "rb") as log:
            log.seek(self.log_begin)
            return b"in service: " in log.read()

    def wait_programmed(self):
        """wait() for the first complete sync."""
        while True:
            if self.is_in_service() or self.process.poll() is not None:
                break
            if time.monotonic() - self.begin > START_SECONDS:
                break
            time.sleep(0.005)
        return self.wait(lambda s: s["state"] == "running" and s["pending"]["services"] == 0,
                         "programmed")

    def memory(self, field):
        """Memory in MB, from /proc."""
        with open("/proc/%d/status" % self.process.pid, encoding="ascii") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) / 1024
        raise KeyError(field)

    def cpu(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


@contextlib.contextmanager
def namespace():
    name = "vipdt-%d-%s-bench" % (os.getpid(), "".join(random.choices(string.ascii_lowercase, k=5)))
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def settle(vipd):
    """Wait until all sent events have arrived and nothing is pending."""
    time.sleep(0.5)
    return vipd.wait_programmed()[1]


def changes(api, vipd, rate, seconds):
    """Replace endpoints at a rate: (number, CPU seconds, transactions, services programmed)."""
    before, cpu = vipd.status()["sync"], vipd.cpu()
    done = api.churn(rate=rate, seconds=seconds)["result"]["changes"]
    after = settle(vipd)["sync"]
    return (done, vipd.cpu() - cpu, after["transactions"] - before["transactions"],
            after["services"] - before["services"])


def empty(build, encoding):
    """Memory of a vipd without services, in MB; libraries are not part of it."""
    with namespace() as netns, tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder, \
            Server(netns=netns) as api:
        api.load(services=0)
        vipd = Vipd(os.path.join(build, "vipd"), api.kubeconfig("token"), netns, folder, encoding)
        try:
            vipd.wait_programmed()
            return vipd.memory("RssAnon")
        finally:
            vipd.stop()


def measure(build, size, encoding, churn):
    services, endpoints = (int(x) for x in size.split("x"))
    out = {"size": size, "empty": empty(build, encoding)}
    with namespace() as netns, tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder, \
            Server(netns=netns) as api:
        api.load(services=services, endpoints=endpoints)
        config = api.kubeconfig("token")
        vipd = Vipd(os.path.join(build, "vipd"), config, netns, folder, encoding)
        try:
            served = api.call("wait", timeout=START_SECONDS, synced=LISTS)["monotonic"]
            out["served"] = served - vipd.begin
            out["programmed"], status = vipd.wait_programmed()
            out["cpu_start"] = vipd.cpu()
            out["resident"], out["peak"] = vipd.memory("VmRSS"), vipd.memory("VmHWM")
            out["own"] = vipd.memory("RssAnon")
            out["services"] = status["counts"]["services"]
            vipd.stop()
            vipd = Vipd(os.path.join(build, "vipd"), config, netns, folder, encoding)
            out["adopted"], status = vipd.wait_programmed()
            out["adopted_writes"] = status["sync"]["writes"]
            out["again"], out["again_peak"] = vipd.memory("VmRSS"), vipd.memory("VmHWM")
            # Quantiles include all values since the start, so the start must not add any.
            assert settle(vipd)["sync"]["event_to_ack"]["count"] == 0
            changes(api, vipd, SINGLE_RATE, SINGLE_SECONDS)
            out["ack"] = vipd.status()["sync"]["event_to_ack"]
            done, cpu, out["transactions"], programmed = changes(api, vipd, *churn)
            out["updates"], out["cpu"] = done, cpu / done * 1e3 * 1e3
            out["coalesced"], out["storm"] = done - programmed, vipd.status()["sync"]["event_to_ack"]
            out["after"] = vipd.memory("VmRSS")
        finally:
            vipd.stop()
    return out


ROWS = (
    ("served", lambda m: "%.2f s" % m["served"]),
    ("programmed, CPU time", lambda m: "%.2f s, %.2f s" % (m["programmed"], m["cpu_start"])),
    ("resident / peak", lambda m: "%.1f / %.1f MB (x %.2f)" % (
        m["resident"], m["peak"], m["peak"] / m["resident"])),
    ("of it not libraries", lambda m: "%.1f MB, %d bytes a service" % (
        m["own"], (m["own"] - m["empty"]) * (1 << 20) / m["services"])),
    ("adopted, kernel operations", lambda m: "%.2f s, %d" % (m["adopted"], m["adopted_writes"])),
    ("resident / peak, adopted", lambda m: "%.1f / %.1f MB (x %.2f)" % (
        m["again"], m["again_peak"], m["again_peak"] / m["again"])),
    ("event to ack, mean", lambda m: "%d us" % m["ack"]["mean_us"]),
    ("event to ack, 50 % / 99 % below", lambda m: "%d / %d us" % (
        m["ack"]["p50_us"], m["ack"]["p99_us"])),
    ("event to ack, longest of", lambda m: "%d us of %d" % (
        m["ack"]["max_us"], m["ack"]["count"])),
    ("CPU per 1,000 updates", lambda m: "%.0f ms (%d updates)" % (m["cpu"], m["updates"])),
    ("of them coalesced, transactions", lambda m: "%d, %d" % (m["coalesced"], m["transactions"])),
    ("99 % below / longest, with them", lambda m: "%d / %d us" % (
        m["storm"]["p99_us"], m["storm"]["max_us"])),
    ("resident after them", lambda m: "%.1f MB" % m["after"]),
)


def main(argv):
    encoding = "application/json" if "--json" in argv else PROTOBUF
    words = [a for a in argv if not a.startswith("--")]
    if not words:
        sys.exit(__doc__)
    if os.geteuid() != 0:
        print("bench/api: needs root")
        return 77
    churn = STORM if "--storm" in argv else CHURN
    results = [measure(os.path.abspath(words[0]), size, encoding, churn)
               for size in words[1:] or SIZES]
    print("%-34s" % encoding.rsplit(".", 1)[-1].rsplit("/", 1)[-1] +
          "".join("%-28s" % m["size"] for m in results))
    for name, text in ROWS:
        print("%-34s" % name + "".join("%-28s" % text(m) for m in results))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the namespace
    sys.exit(main(sys.argv[1:]))
