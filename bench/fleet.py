#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of many nodes for the API server:
bench/fleet.py BUILD [--services N] [--clients N] [--vipds N]      (1000, 5000, 20)

The server of tests/apiserver with N services x 5, vipds in network namespaces of their own, and
simulated clients of one process, which watch Services and EndpointSlices in protobuf with the
selectors of kube-proxy and read everything. Printed:

  requests   bytes of one node's answers: vipd's requests and kube-proxy's, list and watch-list,
             protobuf, JSON, compressed (level 4, as the server does)
  start      bytes per vipd; simulated clients that list at once
  change     bytes and CPU time of the server per change and client, until the last client has it
  reset      all connections of the vipds are reset; the server has the history: watches continue
  restart    the history is lost as well, as after a restart of a server: lists follow

CPU times are those of a Python program: only their growth is significant. Bytes and numbers of
requests are those of a real server for these objects. Needs root.
"""
import argparse
import contextlib
import os
import resource
import selectors
import signal
import sys
import tempfile
import time
import urllib.parse
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in ("tests", "tests/net", "bench"):
    sys.path.insert(0, os.path.join(ROOT, _folder))

import api as A  # noqa: E402
import lab as L  # noqa: E402
from apiserver.client import Server  # noqa: E402

# Paths and selectors of kube-proxy 1.36 (IN-02 to IN-05 of doc/behaviour.md).
PATHS = {"services": "/api/v1/services",
         "endpointslices": "/apis/discovery.k8s.io/v1/endpointslices"}
KUBE_PROXY = {"services": {"labelSelector": "!service.kubernetes.io/service-proxy-name",
                           "fieldSelector": "spec.clusterIP!=None"},
              "endpointslices": {"labelSelector": "!service.kubernetes.io/headless"}}
INITIAL = {"watch": "1", "sendInitialEvents": "true", "allowWatchBookmarks": "true",
           "resourceVersionMatch": "NotOlderThan"}
LISTING = 50            # clients that list at once
CHANGES = 20
SETTLE_S = 60
HERD_S = 1 if A.QUICK else 15
PORT = 6443
GZIP_LEVEL = 4


class Fleet:
    """The server, in a namespace with a bridge, and namespaces of vipds."""

    def __init__(self, services, build, folder):
        self.build, self.folder, self.vipds, self.spaces = build, folder, [], []
        self.ns = L.Ns("%s%d-fleet" % (L.PREFIX, os.getpid()))
        self.server = None
        try:
            self.ns.run("ip", "link", "set", "lo", "up")
            self.ns.run("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
            self.ns.run("ip", "addr", "add", "10.77.0.1/16", "dev", "br0")
            self.ns.run("ip", "link", "set", "br0", "up")
            self.server = Server(bind="0.0.0.0", port=PORT, plain=True, netns=self.ns.name,
                                 bookmark_seconds=60.0)
            self.server.load(services=services, endpoints=5)
            self.plain = int(self.server.http.rsplit(":", 1)[1])
        except BaseException:
            self.close()
            raise

    def add_vipd(self):
        i = len(self.spaces)
        ns = L.Ns("%s%d-fleet%d" % (L.PREFIX, os.getpid(), i))
        self.spaces.append(ns)
        self.ns.run("ip", "link", "add", "v%d" % i, "type", "veth", "peer", "name", "eth0", "netns",
                    ns.name)
        self.ns.run("ip", "link", "set", "v%d" % i, "master", "br0", "up")
        for args in (("link", "set", "lo", "up"), ("link", "set", "eth0", "up"),
                     ("addr", "add", "10.77.%d.%d/16" % (1 + i // 250, 1 + i % 250), "dev", "eth0")):
            ns.run("ip", *args)
        folder = os.path.join(self.folder, str(i))
        os.mkdir(folder)
        config = self.server.kubeconfig("token", ca="skip", url="https://10.77.0.1:%d" % PORT)
        vipd = A.Vipd(os.path.join(self.build, "vipd"), config, ns.name, folder)
        self.vipds.append(vipd)
        return vipd

    def cpu(self):
        with open("/proc/%d/schedstat" % self.server.process.pid, encoding="ascii") as f:
            return int(f.read().split()[0]) / 1e9

    def get(self, path, query, accept=A.PROTOBUF):
        """Open a request: a socket that has sent it."""
        s = self.ns.socket()
        s.settimeout(60)
        s.connect(("127.0.0.1", self.plain))
        s.sendall(("GET %s?%s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n" % (
            path, urllib.parse.urlencode(query), accept)).encode())
        return s

    def body(self, path, query, accept=A.PROTOBUF):
        """The answer of a list."""
        query, s = dict(query), self.get(path, query, accept)
        with contextlib.closing(s), s.makefile("rb") as f:
            headers = {}
            while line := f.readline().strip():
                headers.update([line.lower().split(b": ", 1)] if b": " in line else [])
            if b"content-length" in headers:
                return f.read(int(headers[b"content-length"]))
            out = []
            while size := int(f.readline(), 16):
                out.append(f.read(size))
                f.readline()
            return b"".join(out)

    def close(self):
        for vipd in self.vipds:
            vipd.stop()
        if self.server:
            self.server.close()
        for ns in [*self.spaces, self.ns]:
            ns.close()


class Clients:
    """Open requests whose answers are read and counted."""

    def __init__(self):
        self.selector, self.n, self.bytes = selectors.DefaultSelector(), 0, 0

    def add(self, sock):
        sock.setblocking(False)
        self.selector.register(sock, selectors.EVENT_READ)
        self.n += 1

    def read(self, quiet_s=1.0, least=0):
        """Read until nothing has arrived for a time, and `least` bytes: (bytes, time of the last)."""
        before, last = self.bytes, time.monotonic()
        while time.monotonic() < last + quiet_s or (
                self.bytes - before < least and time.monotonic() < last + SETTLE_S):
            for key, _ in self.selector.select(0.05):
                self.bytes += len(key.fileobj.recv(1 << 18))
                last = time.monotonic()
        return self.bytes - before, last

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


def requests(fleet, services):
    vipd = fleet.add_vipd()
    vipd.wait_programmed()
    for w in fleet.server.watches():
        print("  vipd, %s %s: %d bytes, %d events; %s" % (
            w["verb"], w["resource"], w["bytes"], w["events"], ", ".join(
                "%s=%s" % (k, v) for k, v in w["query"].items() if "elector" in k)))
    for what, path in PATHS.items():
        pb = fleet.body(path, dict(KUBE_PROXY[what], resourceVersion="0"))
        js = fleet.body(path, dict(KUBE_PROXY[what], resourceVersion="0"), "application/json")
        begin = time.process_time()
        packed = len(zlib.compress(pb, GZIP_LEVEL))
        took = time.process_time() - begin
        print("  list %s, kube-proxy's selectors: protobuf %d bytes (%d a service), compressed %d "
              "(%.0f %%, %.1f ms per MB), JSON %d" % (what, len(pb), len(pb) / services, packed,
                                                    100 * packed / len(pb),
                                                    took * 1e9 / len(pb), len(js)))


def listing(fleet):
    clients, cpu = Clients(), fleet.cpu()
    begin = time.monotonic()
    for _ in range(LISTING):
        for what, path in PATHS.items():
            clients.add(fleet.get(path, dict(KUBE_PROXY[what], **INITIAL)))
    total, last = clients.read(3)
    print("  %d clients list at once: %.1f MB each, %.2f s, server CPU %.0f ms each" % (
        LISTING, total / LISTING / 1e6, last - begin, (fleet.cpu() - cpu) / LISTING * 1e3))
    clients.close()


def watching(fleet, count):
    version = fleet.server.stats()["rv"]
    clients, cpu = Clients(), fleet.cpu()
    for _ in range(count):
        for what, path in PATHS.items():
            clients.add(fleet.get(path, dict(KUBE_PROXY[what], watch="1", allowWatchBookmarks="true",
                                             resourceVersion=str(version))))
    clients.read(3)
    print("  %d clients: server CPU for the requests %.2f ms each" % (
        count, (fleet.cpu() - cpu) / count * 1e3), flush=True)
    cpu, begin = fleet.cpu(), time.monotonic()
    fleet.server.churn(rate=5, seconds=CHANGES / 5, wait=False)
    total, last = clients.read(3, least=1)
    print("  %d changes: %.0f bytes per change and client, server CPU %.1f us per change and client"
          ", %.2f s" % (CHANGES, total / CHANGES / count,
                        (fleet.cpu() - cpu) / CHANGES / count * 1e6, last - begin), flush=True)
    clients.close()


def reconnections(fleet, begin):
    return [r for r in fleet.server.requests(last=20000)
            if r["time"] >= begin and r["verb"] in ("list", "watch", "watchlist")]


def herd(fleet, what, has_history):
    """The connections of the vipds are reset."""
    fleet.server.forget()
    if not has_history:
        fleet.server.call("churn", rate=5, seconds=1)     # versions of clients are old now
        fleet.server.compact()
    begin = time.monotonic()
    fleet.server.end_watches(how="reset")
    time.sleep(HERD_S)
    L.eventually(lambda: len(reconnections(fleet, begin)) >= len(fleet.vipds), SETTLE_S, "no reconnection")
    times, kinds = [], {}
    got = sum(w["bytes"] for w in fleet.server.watches())
    for r in reconnections(fleet, begin):
        times.append(r["time"] - begin)
        got += r["bytes"]   # if it has ended
        kinds[r["verb"]] = kinds.get(r["verb"], 0) + 1
    times.sort()
    n = len(fleet.vipds)
    print("  %s, %d vipds: requests %s; first after %.2f s, half after %.2f s, last after %.2f s" % (
        what, n, ", ".join("%s %d" % item for item in sorted(kinds.items())),
        times[0], times[len(times) // 2], times[-1]))
    print("    %.1f kB per vipd" % (got / n / 1e3), flush=True)


def main(argv):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build")
    p.add_argument("--services", type=int, default=1000)
    p.add_argument("--clients", type=int, default=5000)
    p.add_argument("--vipds", type=int, default=20)
    args = p.parse_args(argv)
    if L.missing():
        print("bench/fleet: " + L.missing())
        return 77
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))    # the server's, too
    args.clients = min(args.clients, (hard - 1000) // len(PATHS))
    with tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder, \
            contextlib.closing(Fleet(args.services, os.path.abspath(args.build), folder)) as fleet:
        print("requests of a node, %d services x 5" % args.services)
        requests(fleet, args.services)
        print("simulated clients")
        listing(fleet)
        watching(fleet, args.clients)
        print("a server's restart")
        while len(fleet.vipds) < args.vipds:
            fleet.add_vipd()
        for vipd in fleet.vipds:
            vipd.wait_programmed()
        herd(fleet, "connections reset", True)
        herd(fleet, "history lost", False)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the namespaces
    sys.exit(main(sys.argv[1:]))
