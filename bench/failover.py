#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of --failover=handshake, and of alternatives for finding handshakes without an answer:
bench/failover.py BUILD [FLOWS [ROUNDS]]

Three labs side by side: `off`, `handshake`, and `events`, where a process listens for new and
changed flows (ctnetlink) and a socket filter drops every notification. TCP connections, and
requests of an established one, in turns: system CPU time of the client, which is where a veth pair
runs the router's part.

Then FLOWS tracked flows (default 1000000): CPU time of vipd without load, and at 500 new
connections per second while one of ten endpoints is silent; and of one dump of the flows without
a reply, filtered by the kernel.
"""
import ctypes
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
LOADS = {"a TCP connection": ("--count", "2000"),
         "a request": ("--count", "32", "--requests", "200", "--interval-ms", "1")}
SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, SO_ATTACH_FILTER = 270, 1, 26
NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_UPDATE = 1, 2
CTA_STATUS_MASK = 26
MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
SECONDS = 10


def objects():
    return [service("s", L.cluster_ip(1, 4), 80),
            slice_("s", [L.remote(i, 4) for i in range(1, 11)], 8080)]


def listen(ns):
    """A listener whose filter drops all notifications."""
    s = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    drop_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # return 0
    s.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                 struct.pack("@HP", 1, ctypes.addressof(drop_all)))
    s.bind((0, 0))
    for group in (NFNLGRP_CONNTRACK_NEW, NFNLGRP_CONNTRACK_UPDATE):
        s.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
    return s


class Bed:
    def __init__(self, mode):
        self.lab = L.Lab()
        self.daemon = D.Vipd(self.lab, {"--failover": "handshake" if mode == "handshake" else "off",
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


def many_flows(bed, n):
    with open(MAX, encoding="ascii") as f:
        limit = f.read()
    with open(MAX, "w", encoding="ascii") as f:
        f.write(str(2 * n + 100000))
    ct = C.Conntrack(bed.lab.node)
    try:
        print("no flows: vipd %.2f %% of a CPU, a filtered dump %.1f ms" % (
            vipd_cpu(bed), dump_ms(ct)), flush=True)
        ct.fill(4, n, L.cluster_ip(9, 4), 80, L.remote(99, 4), 80, proto="tcp")
        print("%d flows: vipd %.2f %% of a CPU, a filtered dump %.1f ms" % (
            n, vipd_cpu(bed), dump_ms(ct)), flush=True)
        bed.lab.node2.run("nft", "table ip silent { chain c { type filter hook prerouting priority "
                          "-400; ip daddr %s drop; }; }" % L.remote(2, 4))
        flow = bed.lab.flow("client", "new", "--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--rate",
                            "500", "--concurrency", "2000", "--seconds", str(SECONDS + 4),
                            "--timeout-ms", "5000")
        time.sleep(2)
        print("%d flows, 500 connections/s, one of ten endpoints silent: vipd %.2f %% of a CPU" % (
            n, vipd_cpu(bed)))
        print(flow.wait(), flush=True)
    finally:
        ct.close()
        with open(MAX, "w", encoding="ascii") as f:
            f.write(limit)


def main(argv):
    if len(argv) < 1:
        sys.exit(__doc__)
    os.environ["VIPD_BUILD"] = os.path.abspath(argv[0])
    why = L.missing()
    if why is not None:
        print(why)
        return 77
    flows, rounds = (int(a) for a in (argv[1:] + ["1000000", "40"][len(argv) - 1:])[:2])
    beds = {}
    try:
        for mode in MODES:
            beds[mode] = Bed(mode)
        for _ in range(rounds + 1):
            for bed in beds.values():
                for load in LOADS:
                    bed.round(load)
        base = beds["off"].used
        for mode, bed in beds.items():
            for load, used in bed.used.items():
                low = sorted(used[1:])[:max(1, rounds // 4)]  # the first warms up
                pairs = [b - a for a, b in zip(base[load][1:], used[1:])]
                print("%-9s %s: median %.0f ns, the quietest quarter %.0f; %+.0f ns" % (
                    mode, load, statistics.median(used[1:]), statistics.mean(low),
                    statistics.median(pairs)), flush=True)
        many_flows(beds["handshake"], flows)
    finally:
        for bed in beds.values():
            bed.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main(sys.argv[1:]))
