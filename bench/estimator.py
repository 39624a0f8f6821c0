#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of the IPVS estimator, which vipd disables:

    bench/estimator.py BUILD [SERVICES [KERNEL]]

In a network namespace with SERVICES virtual services of five backends, a loop reads the clock and
records each pause above 0.2 ms, with net.ipv4.vs.run_estimation=1 and 0. Without IPVS in the kernel
it runs in a virtual machine of one processor whose clock counts instructions (2 ns each).
"""
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import ipvs  # noqa: E402
import lab as L  # noqa: E402

SECONDS = 12
BACKENDS = 5
LONG_NS = 200000


def in_a_machine(args):
    n, kernel = (args[1:] + ["10000", "6.1"][len(args) - 1:])[:2]
    return subprocess.run(
        [os.path.join(ROOT, "tools", "vm-run"), "--icount", "--kernel", kernel, "--memory", "1024",
         "--timeout", "1200", "--build", os.path.abspath(args[0]), "--", "/usr/bin/python3",
         "bench/estimator.py", args[0], n], cwd=ROOT, check=False).returncode


def lines(n):
    for i in range(n):
        at = "10.%d.%d.%d:80" % (96 + (i >> 16), i >> 8 & 255, i & 255)
        yield "-A -t %s -s rr" % at
        for k in range(BACKENDS):
            yield "-a -t %s -r 10.244.%d.%d:8080 -m" % (at, k + 1, i % 250 + 1)


def pauses(seconds):
    out, last = [], time.monotonic_ns()
    end = last + seconds * 1000000000
    while last < end:
        now = time.monotonic_ns()
        if now - last > LONG_NS:
            out.append(now - last)
        last = now
    return out


def main(args):
    if not args:
        sys.exit(__doc__)
    if ipvs.why_not() is not None:
        return in_a_machine(args) if not os.path.exists("/job/run") else sys.exit(ipvs.why_not())
    n = int(args[1]) if len(args) > 1 else 10000
    ns = L.Ns("%s%d-estimator" % (L.PREFIX, os.getpid()))
    try:
        ns.run("ip", "link", "set", "lo", "up")  # without a route IPVS accepts no address
        with ns.entered():
            subprocess.run(["ipvsadm", "-R"], input="\n".join(lines(n)) + "\n", text=True,
                           check=True)
            for value in (1, 0, 1, 0):
                ns.sysctl(net__ipv4__vs__run_estimation=value)
                time.sleep(10)  # until the changed estimator is steady
                found = pauses(SECONDS)
                print("%d services x %d, run_estimation %d: %d pauses in %d s, the longest %.1f ms,"
                      " all %.1f ms" % (n, BACKENDS, value, len(found), SECONDS,
                                        max(found, default=0) / 1e6, sum(found) / 1e6),
                      flush=True)
    finally:
        ns.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
