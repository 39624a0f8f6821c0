#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An experiment: established connections to services in a flowtable of nftables (software offload):
bench/offload.py BUILD [KERNEL]

vipd does not use flowtables (doc/design/0018-flow-offload.md). Two labs side by side; in the forward chain of
one a rule adds connections that vipd translates to a flowtable of the node's devices. Prints the
cost of requests and bytes (bench/path.c) and what happens to connections when their endpoint is
removed, when another process rejects their packets, and during a drain.

Runs in a machine of tools/vm-run whose clock counts instructions.
"""
import os
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in ("bench", "tests", "tests/net"):
    sys.path.insert(0, os.path.join(ROOT, _folder))

import path as P  # noqa: E402
import lab as L  # noqa: E402
from objects import entry  # noqa: E402

DEVICES = "cl0, nd0"
FLOWTABLE = """table inet bench {
	flowtable f { hook ingress priority 0; devices = { %s }; }
	chain forward {
		type filter hook forward priority filter - 10
		counter
		ct status dnat meta l4proto { tcp, udp } flow add @f
	}
}""" % DEVICES
COUNTED = """table inet bench {
	chain forward { type filter hook forward priority filter - 10; counter; }
}"""
ROUNDS = 5
WARM = 50
ONE, TWO = L.remote(101, 4), L.remote(102, 4)   # endpoints of no other service
FIRST_S = 20


class Bed(P.Bed):
    def __init__(self, name, rules, flags):
        super().__init__(name, 1, flags=flags)
        self.lab.serve("node2", "8081")
        self.lab.node.run("nft", rules)

    def forwarded(self):
        """Packets that the forward hook has seen."""
        text = self.lab.node.run("nft", "list", "chain", "inet", "bench", "forward")
        return int(text.split("counter packets ")[1].split()[0])

    def apply(self, backends, port=8081, **conditions):
        self.daemon.manifests.put("two.json", P.ipvs.as_list([
            P.service("two", P.address(9, 4), [P.port(80, p, p.lower()) for p in ("TCP", "UDP")]),
            P.slice_("two", [entry(b, "n2", ready, True, not ready) for b, ready in backends.items()],
                     [P.slice_port(port, p, p.lower()) for p in ("TCP", "UDP")])]))
        L.eventually(lambda: self.daemon.is_settled() and self.daemon.get("/v1/services/default/two"),
                     what="the service is not programmed")

    def connection(self, proto):
        """A connection to one of two endpoints, offloaded if that is possible: (it, the endpoint)."""
        self.apply({ONE: True, TWO: True})
        conn, r = L.connect(self.lab.client, P.address(9, 4), 80, proto, timeout=2,
                            source=L.far(1, 4))
        for _ in range(WARM):
            r = conn.ask(2)
        return conn, r.backend

    def until(self, conn, is_over):
        """Seconds until an answer satisfies the condition."""
        begin = time.monotonic()
        while time.monotonic() < begin + FIRST_S:
            if is_over(conn.ask(0.2)):
                return "%.2f s" % (time.monotonic() - begin)
            time.sleep(0.005)
        return "not within %d s" % FIRST_S


def other(backend):
    return TWO if backend == ONE else ONE


def removed(bed, proto):
    """The endpoint is removed; its process goes on."""
    conn, backend = bed.connection(proto)
    bed.apply({other(backend): True})
    result = bed.until(conn, lambda r: not r.ok or r.backend != backend)
    conn.close()
    return result


def drained(bed):
    """The endpoint is no longer ready: the connection continues for two seconds."""
    conn, backend = bed.connection("tcp")
    bed.apply({backend: False, other(backend): True})
    end = time.monotonic() + 2
    while time.monotonic() < end:
        r = conn.ask(2)
        if not r.ok or r.backend != backend:
            return "interrupted"
        time.sleep(0.01)
    conn.close()
    return "continues"


def policy(bed):
    """Another process drops packets of an established connection in the forward hook."""
    conn, _ = bed.connection("tcp")
    bed.lab.node.run("nft", "table inet others { chain c { type filter hook forward priority filter; "
                     "ip saddr %s drop; }; }" % L.far(1, 4))
    result = bed.until(conn, lambda r: not r.ok)
    bed.lab.node.run("nft", "delete table inet others")
    conn.close()
    return result


def costs(beds):
    for proto in ("tcp", "udp"):
        for kind in ("request", "bulk", "new"):
            P.in_turns(beds, [(kind, proto, 4, P.PATHS[0])], ROUNDS)
            without, with_ = (statistics.median(b.each((kind, proto, 4, P.PATHS[0]), "wall_ns")) /
                              P.NS_PER_INSTRUCTION for b in beds)
            print("%s, %s: %.2f, offloaded %.2f instructions (%+.1f %%)" % (
                proto.upper(), {"request": "a request", "bulk": "a byte",
                                "new": "a new connection"}[kind], without, with_,
                100 * (with_ / without - 1)), flush=True)


def main(argv):
    if not argv:
        sys.exit(__doc__)
    os.environ["VIPD_BUILD"] = os.path.abspath(argv[0])
    if L.missing():
        print("bench/offload: " + L.missing())
        return 77
    if not P.IN_A_MACHINE:
        return subprocess.run(
            [os.path.join(ROOT, "tools", "vm-run"), "--icount", "--memory", "2048", "--timeout",
             "1800", "--kernel", *(argv[1:] or ["6.1"]), "--build", os.path.abspath(argv[0]),
             "--env", "VIPD_SLOW=5", "--", "/usr/bin/python3", "bench/offload.py", argv[0]],
            cwd=ROOT, check=False).returncode
    beds = []
    try:
        beds.append(Bed("vipd", COUNTED, {"--dead-flows": "reset"}))
        beds.append(Bed("offloaded", FLOWTABLE, {"--dead-flows": "reset"}))
        for what, check in (
                ("endpoint removed, UDP: other endpoint after", lambda b: removed(b, "udp")),
                ("endpoint removed, TCP, --dead-flows=reset: reset after",
                 lambda b: removed(b, "tcp")),
                ("endpoint drains, TCP", drained),
                ("packets dropped in the forward hook, TCP: effective after", policy)):
            print("%s: %s, offloaded %s" % (what, *(check(b) for b in beds)), flush=True)
        before = [b.forwarded() for b in beds]
        costs(beds)
        print("packets in the forward hook meanwhile: %d, offloaded %d" % tuple(
            b.forwarded() - n for b, n in zip(beds, before)))
    finally:
        for bed in beds:
            bed.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main(sys.argv[1:]))
