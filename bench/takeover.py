#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Takeovers from a real kube-proxy, and back, under load: not one connection fails.

    BENCH_KUBE_PROXY=PATH bench/takeover.py BUILD [MODE ...] [--rounds 20] [--services 200]

MODE is iptables, nftables or, in a kernel with IPVS, ipvs; default: all that this kernel has. In each round:
kube-proxy ends, vipd starts, --cleanup=kube-proxy; kube-proxy starts, vipd ends, --cleanup. Between two steps
200 connections are made. tests/net/test_takeover.py does the same without kube-proxy: it writes rules with the
layout of kube-proxy's (tests/net/kubeproxy.py). Needs root.
"""
import argparse
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time

import e2e  # adds the paths of the others
import lab as L
import proxies

BETWEEN = 200
RATE = 100
# A command, and a text in its output after kube-proxy's first sync. kube-proxy's metrics count syncs of both families.
RULES = {"iptables": (("iptables-save", "-t", "nat"), ":KUBE-SVC-"),
         "nftables": (("nft", "list", "map", "ip", "kube-proxy", "service-ips"), "goto"),
         "ipvs": (("ipvsadm", "-Ln"), "TCP")}


def cleanup(bed, *args):
    with bed.lab.node.entered():
        r = subprocess.run([bed.vipd, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if r.returncode:
        sys.exit("bench/takeover: %s: %s" % (args[0], r.stdout))
    return r.stdout


def check(bed, when):
    """Some connections later, none failed."""
    first = bed.load.stat()["started"]
    while bed.load.stat()["started"] < first + BETWEEN:
        time.sleep(0.05)
    s = bed.load.stat()
    if s["failed"]:
        sys.exit("bench/takeover: %s: %d of %d failed: %s" % (when, s["failed"], s["started"], s["first_failure"]))


def wait_rules(bed, mode):
    command, text = RULES[mode]
    with bed.lab.node.entered():
        while text not in subprocess.run(command, capture_output=True, text=True, check=False).stdout:
            bed.check()
            time.sleep(0.1)


def takeover(bed, mode, turn):
    bed.proxy.stop()
    check(bed, "%d: kube-proxy ended" % turn)
    vipd = proxies.Vipd(bed.vipd, bed.lab, bed.api.config, bed.folder)
    while not vipd.is_settled():
        time.sleep(0.02)
    check(bed, "%d: vipd started" % turn)
    removed = cleanup(bed, "--cleanup=kube-proxy", "--control-socket", vipd.socket)
    check(bed, "%d: kube-proxy removed" % turn)
    bed.exec()
    wait_rules(bed, mode)
    check(bed, "%d: kube-proxy started" % turn)
    vipd.stop()
    cleanup(bed, "--cleanup")
    check(bed, "%d: vipd removed" % turn)
    return removed


def measure(args, mode):
    with tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder:
        bed = e2e.Bed("%dx5" % args.services, os.environ["BENCH_KUBE_PROXY"],
                      functools.partial(proxies.KubeProxy, mode), folder)
        try:
            bed.vipd = os.path.join(os.path.abspath(args.build), "vipd")
            bed.start()
            bed.load = bed.lab.flow("pod1", "new", "--rate", RATE, "--concurrency", 20, *(
                x for ip in bed.api.ips for x in ("--to", "tcp:%s:80" % ip)))
            for turn in range(args.rounds):
                removed = takeover(bed, mode, turn)
            print("%s: %sin each of %d takeovers and back; %d connections, 0 failed" % (
                mode, removed, args.rounds, bed.load.stat()["started"]), flush=True)
        finally:
            bed.close()


def main(argv):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("build")
    p.add_argument("modes", nargs="*", metavar="mode", choices=(*proxies.MODES, []))
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--services", type=int, default=200)
    args = p.parse_args(argv)
    if L.missing() or "BENCH_KUBE_PROXY" not in os.environ:
        print("bench/takeover: %s" % (L.missing() or "BENCH_KUBE_PROXY is not set: the path of a kube-proxy"))
        return 77
    for mode in args.modes or proxies.modes():
        measure(args, mode)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the namespaces
    sys.exit(main(sys.argv[1:]))
