#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What --failover costs, and what it changes: bench/failover.py BUILD [FLOWS [ROUNDS]] [--part PART ...]

cost: of --failover=handshake, and of alternatives for finding handshakes without an answer. Three labs side by side: `off`, `handshake`, and `events`, where a process listens for new and
changed flows (ctnetlink) and a socket filter drops every notification. TCP connections, and
requests of an established one, in turns: system CPU time of the client, which is where a veth pair
runs the router's part. Then FLOWS tracked flows (default 1000000): CPU time of vipd without load, and
at 500 new connections per second while one of ten endpoints is silent; and of one dump of the flows
without a reply, filtered by the kernel.

The other parts run with `off`, `handshake` and `eject` in turn:

vanish: one of ten endpoints drops every packet, or the node behind its route does not answer ARP. No
object changes for 40 s of 500 new connections per second; clients wait for 5 s. Connections of the
first 3 s, and later ones.
return: half of ten endpoints drop every packet for 15 s, then all of them for 30 s, then none does.
Connections that begin after the return, and those that waited.
changes: 200,000 tracked flows, 500 new connections per second: CPU time of vipd, and the time from
the change of a slice to the kernel's notification, without and with a silent endpoint.
"""
import argparse
import contextlib
import ctypes
import errno
import os
import re
import resource
import signal
import socket
import statistics
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import ctnetlink as C  # noqa: E402
import daemon as D  # noqa: E402
import lab as L  # noqa: E402
from objects import service, slice_  # noqa: E402

MODES = ("off", "handshake", "events")
FAILOVERS = ("off", "handshake", "eject")
PARTS = ("cost", "vanish", "return", "changes")
LOADS = {"a TCP connection": ("--count", "2000"),
         "a request": ("--count", "32", "--requests", "200", "--interval-ms", "1")}
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, SO_ATTACH_FILTER, SO_RCVBUFFORCE = 270, 1, 26, 33
NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_UPDATE, NFNLGRP_NFTABLES = 1, 2, 7
CTA_STATUS_MASK = 26
MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
SECONDS = 1 if "BENCH_QUICK" in os.environ else 10      # tools/bench
SILENT = 2  # the endpoint of this number
NO_NODE = "192.168.0.77"


def objects(n=10):
    return [service("s", L.cluster_ip(1, 4), 80),
            slice_("s", [L.remote(i, 4) for i in range(1, n + 1)], 8080)]


def subscribe(ns, *groups):
    s = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    s.bind((0, 0))
    for group in groups:
        s.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    return s


def listen(ns):
    """A listener whose filter drops all notifications."""
    s = subscribe(ns)
    drop_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # return 0
    s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                 struct.pack("@HP", 1, ctypes.addressof(drop_all)))
    for group in (NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_UPDATE):
        s.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    return s


class Bed:
    def __init__(self, mode):
        self.lab = L.Lab()
        self.daemon = D.Vipd(self.lab, {"--failover": mode if mode in FAILOVERS else "off",
                                        "--audit-period": "0"})
        self.daemon.write([])
        self.daemon.start()
        self.daemon.apply(objects())
        self.listener = listen(self.lab.node) if mode == "events" else None
        self.used = {load: [] for load in LOADS}

    def round(self, load):
        """System CPU time of an operation, ns."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        flow = self.lab.client.popen(L.program("flow"), "new", "--to",
                                     "tcp:%s:80" % L.cluster_ip(1, 4), "--concurrency", "32",
                                     *LOADS[load], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     text=True)
        out = flow.stdout.read()
        flow.stdin.close()
        flow.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        n = int(re.search(r'"%s":\s*(\d+)' % ("answered" if "--requests" in LOADS[load] else "ok"),
                          out).group(1))
        self.used[load].append((after.ru_stime - before.ru_stime) / n * 1e9)

    def close(self):
        if self.listener:
            self.listener.close()
        self.daemon.close()
        self.lab.close()


def vipd_cpu(bed):
    """CPU time of vipd during SECONDS, in percent of one CPU."""
    before = L.cpu_ms(bed.daemon.proc.pid)
    time.sleep(SECONDS)
    return (L.cpu_ms(bed.daemon.proc.pid) - before) / SECONDS / 10


def dump_ms(ct):
    """CPU time of a dump of translated flows without a reply."""
    p = C.attr(C.CTA_STATUS, struct.pack(">I", C.IPS_DST_NAT))
    p += C.attr(CTA_STATUS_MASK, struct.pack(">I", C.IPS_DST_NAT | C.IPS_SEEN_REPLY))
    message = ct.message(C.CT_GET, 4, C.NLM_F_DUMP, p)
    out = []
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_stime
        ct.sock.send(message)
        n = 0
        while True:
            data = ct.sock.recv(1 << 18)
            n += 1
            if struct.unpack_from("=H", data, 4)[0] == C.NLMSG_DONE:
                break
        out.append((resource.getrusage(resource.RUSAGE_SELF).ru_stime - before) * 1e3)
    return statistics.median(out)


@contextlib.contextmanager
def flow_limit(n):
    """Raise the limit, which is the machine's, for `n` flows."""
    with open(MAX, encoding="ascii") as f:
        before = f.read()
    with open(MAX, "w", encoding="ascii") as f:
        f.write(str(max(2 * n + 100000, int(before))))
    try:
        yield
    finally:
        with open(MAX, "w", encoding="ascii") as f:
            f.write(before)


@contextlib.contextmanager
def silent(bed, *numbers):
    name = "silent%d" % len(numbers)
    bed.lab.node2.run("nft", "table ip %s { chain c { type filter hook prerouting priority -400; "
                      "ip daddr { %s } drop; }; }" % (name, ", ".join(L.remote(i, 4) for i in numbers)))
    try:
        yield
    finally:
        bed.lab.node2.run("nft", "delete", "table", "ip", name)


@contextlib.contextmanager
def no_node(bed, number):
    """Route an endpoint to an address of the node's link that no host has."""
    route = (L.remote(number, 4) + "/32", "via", NO_NODE)
    bed.lab.node.run("ip", "route", "add", *route)
    try:
        yield
    finally:
        bed.lab.node.run("ip", "route", "del", *route)


@contextlib.contextmanager
def syns(bed, number):
    """Yields a function: SYNs of the clients to this endpoint so far."""
    bed.lab.node.run("nft", "table ip syns { chain c { type filter hook postrouting priority 0; ip saddr %s "
                     "ip daddr %s tcp flags & (syn | ack) == syn counter; }; }" % (
                         L.CLIENT[4], L.remote(number, 4)))
    try:
        yield lambda: int(re.search(r"packets (\d+)", bed.lab.node.run("nft", "list", "table", "ip",
                                                                       "syns"))[1])
    finally:
        bed.lab.node.run("nft", "delete", "table", "ip", "syns")


def load(bed, seconds, rate=500):
    return bed.lab.flow("client", "new", "--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--rate", str(rate),
                        "--concurrency", "4000", "--seconds", str(seconds), "--timeout-ms", "5000")


def report(what, flow):
    r = flow.wait(60)
    print("%-34s %5d connections, %4d failed, p50 %.1f ms, p99 %.0f ms, slowest %.0f ms%s" % (
        what, r["started"], r["failed"], r["p50_us"] / 1e3, r["p99_us"] / 1e3, r["max_us"] / 1e3,
        ", " + r["first_failure"] if r["failed"] else ""), flush=True)


def many_flows(bed, n):
    ct = C.Conntrack(bed.lab.node)
    with flow_limit(n), contextlib.closing(ct):
        print("no flows: vipd %.2f %% of a CPU, a filtered dump %.1f ms" % (
            vipd_cpu(bed), dump_ms(ct)), flush=True)
        ct.fill(4, n, L.cluster_ip(9, 4), 80, L.remote(99, 4), 80, proto="tcp")
        print("%d flows: vipd %.2f %% of a CPU, a filtered dump %.1f ms" % (
            n, vipd_cpu(bed), dump_ms(ct)), flush=True)
        with silent(bed, SILENT):
            flow = load(bed, SECONDS + 4)
            time.sleep(2)
            print("%d flows, 500 connections/s, one of ten endpoints silent: vipd %.2f %% of a CPU" % (
                n, vipd_cpu(bed)))
            report("handshake", flow)


def cost(flows, rounds):
    beds = {}
    try:
        for mode in MODES:
            beds[mode] = Bed(mode)
        for _ in range(rounds + 1):
            for bed in beds.values():
                for what in LOADS:
                    bed.round(what)
        base = beds["off"].used
        for mode, bed in beds.items():
            for what, used in bed.used.items():
                low = sorted(used[1:])[:max(1, rounds // 4)]  # the first warms up
                pairs = [b - a for a, b in zip(base[what][1:], used[1:])]
                print("%-9s %s: median %.0f ns, the quietest quarter %.0f; %+.0f ns" % (
                    mode, what, statistics.median(used[1:]), statistics.mean(low),
                    statistics.median(pairs)), flush=True)
        many_flows(beds["handshake"], flows)
    finally:
        for bed in beds.values():
            bed.close()


def vanish(bed, mode):
    for what, gone in (("silent", silent), ("no node", no_node)):
        with gone(bed, SILENT):
            first = load(bed, 3)
            time.sleep(3)
            with syns(bed, SILENT) as met:
                late = load(bed, 37)
                report("%s, %s, first 3 s" % (mode, what), first)
                before = met()
                report("%s, %s, next 37 s" % (mode, what), late)
                print("    SYNs to the endpoint: %d, after the first 5 s %d" % (met(), met() - before))
        L.eventually(lambda: bed.daemon.status()["counts"]["ejected"] == 0, 90)


def all_return(bed, mode):
    with contextlib.ExitStack() as stack:
        half = stack.enter_context(contextlib.ExitStack())
        half.enter_context(silent(bed, *range(1, 6)))
        load(bed, 15, 100).wait(60)
        with silent(bed, *range(1, 11)):
            half.close()
            load(bed, 26, 100).wait(60)
            waiting = load(bed, 4, 100)
            time.sleep(4)
    after = load(bed, 5, 100)
    report("%s, after the return" % mode, after)
    report("%s, 4 s before the return" % mode, waiting)


def change_ms(bed, nl):
    """From the change of a slice until the kernel's notification about table vipd."""
    out = []
    for i in range(40):
        while True:
            try:
                nl.recv(1 << 16, socket.MSG_DONTWAIT)
            except OSError as e:  # ENOBUFS: notifications of the load
                if e.errno == errno.EAGAIN:
                    break
        bed.daemon.objects = objects(10 + (i + 1) % 2)
        start = time.monotonic()
        bed.daemon.write()
        while b"\0vipd\0" not in nl.recv(1 << 16):
            pass
        out.append((time.monotonic() - start) * 1e3)
        time.sleep(0.2)
    return statistics.median(out), max(out)


def changes(bed, mode):
    n = 200000
    ct = C.Conntrack(bed.lab.node)
    with flow_limit(n), contextlib.closing(ct), contextlib.closing(
            subscribe(bed.lab.node, NFNLGRP_NFTABLES)) as nl:
        ct.fill(4, n, L.cluster_ip(9, 4), 80, L.remote(99, 4), 80, proto="tcp")
        print("%-34s vipd %.2f %% of a CPU" % (mode + ", idle", vipd_cpu(bed)), flush=True)
        for what, numbers in (("", ()), (", one silent", (SILENT,))):
            with silent(bed, *numbers) if numbers else contextlib.nullcontext():
                flow = load(bed, SECONDS + 18)
                time.sleep(3)
                percent = vipd_cpu(bed)
                print("%-34s vipd %.2f %% of a CPU; a change %.1f ms, at most %.1f ms" % (
                    mode + ", 500 connections/s" + what, percent, *change_ms(bed, nl)), flush=True)
                flow.wait(60)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("flows", nargs="?", type=int, default=1000000)
    parser.add_argument("rounds", nargs="?", type=int, default=40)
    parser.add_argument("--part", action="append", choices=PARTS)
    a = parser.parse_args(argv)
    os.environ["VIPD_BUILD"] = os.path.abspath(a.build)
    why = L.missing()
    if why is not None:
        print(why)
        return 77
    parts = a.part or PARTS
    if "cost" in parts:
        cost(a.flows, a.rounds)
    for name, part in (("vanish", vanish), ("return", all_return), ("changes", changes)):
        for mode in FAILOVERS if name in parts else ():
            with contextlib.closing(Bed(mode)) as bed:
                part(bed, mode)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main(sys.argv[1:]))
