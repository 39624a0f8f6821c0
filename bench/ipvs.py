#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of the ipvs plane, compared with ipvsadm and a layout of one virtual service per address
and port, in one run: bench/ipvs.py BUILD [SERVICES [DRAINING [KERNEL]]]

Without IPVS in the kernel it runs in a virtual machine whose clock counts instructions (2 ns each):
times repeat, and their ratios are valid. Fails if a restart without changes sends a message, or if
reading draining backends reads other services.
"""
import collections
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ["VIPD_PLANE"] = "ipvs"
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))
import daemon as D  # noqa: E402
import ipvs  # noqa: E402
import lab as L  # noqa: E402
import planes  # noqa: E402
from objects import entry, port, service, slice_, slice_port  # noqa: E402

ENDPOINTS = 5
ROUNDS = 20
NODE_NETS = "192.168.0.0/24,203.0.113.0/24,10.244.1.0/24"
SETTLE_S = 600
NFT_GETSETELEM = "nft message 13"
IDLE_S = 20
NEIGHBOUR = 1000  # commits a second


def in_a_machine(args):
    build = os.path.abspath(args[0])
    return subprocess.run(
        [os.path.join(ROOT, "tools", "vm-run"), "--icount", "--memory", "2048", "--timeout", "3600",
         "--kernel", args[3] if len(args) > 3 else "6.1", "--build", build, "--env", "VIPD_SLOW=5",
         "--", "/usr/bin/python3", "bench/ipvs.py"] + args,
        cwd=ROOT, check=False).returncode


def many(n, endpoints=ENDPOINTS):
    for i in range(n):
        yield service("s%d" % i, L.cluster_ip(1000 + i, 4), [port(80, "TCP", "t")], ns="bench")
        yield slice_("s%d" % i, [entry(L.remote((i + k) % 240 + 1, 4), "n2")
                                 for k in range(endpoints)], [slice_port(8080, "TCP", "t")],
                     ns="bench")


class Bed:
    def __init__(self):
        self.lab = L.Lab()
        self.vipd = D.Vipd(self.lab, {"--nodeport-addresses": NODE_NETS}, base=True)
        self.vipd.write([])
        self.vipd.start()
        self.kernel = ipvs.Ipvs(self.lab.node)
        self.wire = ipvs.Wire(self.lab.node, self.kernel.family)
        self.classic = L.Ns(self.lab.id + "-classic")
        self.classic.run("ip", "link", "set", "lo", "up")
        # Excludes the estimator (bench/estimator.py).
        self.classic.run("sysctl", "-q", "-w", "net.ipv4.vs.run_estimation=0")

    def close(self):
        self.wire.close()
        self.kernel.close()
        self.vipd.close()
        self.classic.close()
        self.lab.close()

    def file(self, name, items):
        self.vipd.manifests.put(name, ipvs.as_list(items))
        self.vipd.manifests.held.pop(name, None)

    def ipvsadm(self, lines):
        """Duration of ipvsadm -R in seconds."""
        begin = time.monotonic()
        with self.classic.entered():
            subprocess.run(["ipvsadm", "-R"], input="\n".join(lines) + "\n", text=True, check=True)
        return time.monotonic() - begin

    def settled(self, n):
        L.eventually(lambda: self.vipd.status().get("counts", {}).get("services", 0) >= n and
                     self.vipd.is_settled(), SETTLE_S, "not settled")

    def writes(self):
        return self.vipd.status()["sync"]["writes"]

    def messages(self):
        """(number of messages to IPVS, to nf_tables, time of the last one), since the last call."""
        sent = list(self.wire.messages())
        nft = sum(name.startswith("nft") for name, _ in sent)
        return len(sent) - nft, nft, max((at for _, at in sent), default=0)


def row(what, vipd, ipvsadm):
    print("| %s | %s | %s |" % (what, vipd, ipvsadm), flush=True)


def ms(seconds):
    return "%.1f ms" % (seconds * 1e3) if seconds < 10 else "%.1f s" % seconds


def one_change(bed):
    """A backend is removed from a service with a cluster IP, two load balancer addresses, and a
    node port on three addresses of the node; then another one is added."""
    def objs(states):
        return [service("one", L.cluster_ip(900, 4), [port(80, "TCP", "t", 30900)],
                        kind="LoadBalancer", lb=[L.lb_ip(90, 4), L.lb_ip(91, 4)]),
                slice_("one", [entry(L.remote(i, 4), "n2", ready, True, not ready)
                               for i, ready in states.items()], [slice_port(8080, "TCP", "t")])]
    at = ["-t " + L.endpoint(a, n) for a, n in (
        (L.cluster_ip(900, 4), 80), (L.lb_ip(90, 4), 80), (L.lb_ip(91, 4), 80), (L.NODE[4], 30900),
        (L.NODE_TO_CLIENT[4], 30900), (L.BRIDGE[4], 30900))]
    bed.ipvsadm(["-A %s -s rr" % a for a in at] + ["-a %s -r %s:8080 -m" % (a, L.remote(i, 4))
                                                   for a in at for i in range(1, 6)])
    all_five = {i: True for i in range(1, 6)}
    took, messages, alone, batch = [], [], [], []
    for i in range(ROUNDS):
        bed.vipd.apply(objs(all_five))
        bed.messages()
        begin = time.time()
        bed.vipd.write(objs({**all_five, 2: False}))
        time.sleep(0.3)
        n, m, last = bed.messages()
        took.append(last - begin)
        messages.append((n, m))
        begin = time.monotonic()
        for a in at:
            bed.classic.run("ipvsadm", "-e", *a.split(), "-r", L.remote(2, 4) + ":8080", "-m",
                            "-w", str(i % 2))
        alone.append(time.monotonic() - begin)
        batch.append(bed.ipvsadm(["-e %s -r %s:8080 -m -w %d" % (a, L.remote(2, 4), i % 2)
                                  for a in at]))
    row("one endpoint leaves a service with 6 frontends: messages to IPVS (to nf_tables)",
        "%d (%d)" % max(messages, key=messages.count), len(at))
    row("from the slice's change to the last message, median of %d" % ROUNDS,
        ms(statistics.median(took)), "%s; ipvsadm -R: %s (both without computing the changes)" % (
            ms(statistics.median(alone)), ms(statistics.median(batch))))


def programmed(bed, n):
    writes = bed.writes()
    bed.file("many.json", list(many(n)))
    begin = time.monotonic()
    bed.settled(n)
    took = time.monotonic() - begin
    lines = []
    for i in range(n):
        a = L.endpoint(L.cluster_ip(1000 + i, 4), 80)
        lines.append("-A -t %s -s rr" % a)
        lines += ["-a -t %s -r %s:8080 -m" % (a, L.remote((i + j) % 240 + 1, 4))
                  for j in range(ENDPOINTS)]
    ipvsadm = bed.ipvsadm(lines)
    row("%d services x %d programmed (manifest read, planned, %d operations)" % (
        n, ENDPOINTS, bed.writes() - writes), ms(took), "%s (ipvsadm -R, IPVS alone)" % ms(ipvsadm))


def restarted(bed):
    """Restart without changes: (seconds in total, seconds from the first request to the kernel
    until vipd serves)."""
    bed.vipd.stop()
    time.sleep(1)
    bed.messages()
    begin = time.monotonic()
    bed.vipd.start(wait=False)
    bed.vipd.wait_ready(SETTLE_S)
    took = time.monotonic() - begin
    status = bed.vipd.status()["sync"]
    if status["writes"]:
        raise SystemExit("a restart without changes: %d writes" % status["writes"])
    return took, status["first_sync_us"] / 1e6


def adopted(bed):
    took, served = restarted(bed)
    time.sleep(1)
    requests = list(bed.wire.requests())
    changes = [name for name, _, is_read in requests if not is_read]
    if changes:
        raise SystemExit("a restart without changes: %s" % collections.Counter(changes))
    # IPVS is read first, then the maps, then sysctls and timeouts.
    first = min(at for name, at, _ in requests if name == "get_service")
    end = min(at for name, at, _ in requests if name == "get_config")
    maps = min(at for name, at, _ in requests if name == NFT_GETSETELEM and at > first)
    begin = time.monotonic()
    bed.classic.run("ipvsadm", "-Sn", timeout=SETTLE_S)
    saved = time.monotonic() - begin
    row("a restart without changes, manifests read (messages that change state)",
        "%s (%d)" % (ms(took), len(changes)), "")
    row("of it from the first request to the kernel until vipd serves", ms(served), "")
    row("of that the dump for adoption: services and destinations, maps", "%s: %s, %s" % (
        ms(end - first), ms(maps - first), ms(end - maps)),
        "%s (ipvsadm -Sn, IPVS alone)" % ms(saved))
    return served


def adopted_beside(bed, alone):
    """restarted() while another process commits to a separate nf_tables table continuously."""
    other = bed.lab.node.popen(L.program("bench/change"), "-n", "-f", str(NEIGHBOUR))
    try:
        generation, begin = bed.vipd.nft.genid(), time.monotonic()
        _, served = restarted(bed)
        rate = (bed.vipd.nft.genid() - generation) / (time.monotonic() - begin)
    finally:
        other.kill()
        other.wait()
    row("restart beside %.0f commits a second of another process" % rate, ms(served),
        "")
    if served > 2 * alone:
        raise SystemExit("adoption beside a busy neighbour takes %.1f times as long" % (
            served / alone))


def cpu(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(bed, seconds=IDLE_S):
    """(CPU per second, requests to the kernel) without changes."""
    bed.messages()
    begin = cpu(bed.vipd.proc.pid)
    time.sleep(seconds)
    used = (cpu(bed.vipd.proc.pid) - begin) / seconds
    return used, collections.Counter(name for name, _, _ in bed.wire.requests())


def connection(bed, addr, source_port):
    """A connection from a separate port: IPVS cannot distinguish replies of a backend to a client
    port that uses two addresses."""
    s = bed.lab.client.socket()
    s.settimeout(5)
    s.bind((L.CLIENT[4], source_port))
    s.connect((addr, 80))
    return L.Conn(s, "tcp")


def draining(bed, n):
    """Each of n services has a draining backend with one connection."""
    def objs(backend):
        out = []
        for i in range(n):
            out.append(service("d%d" % i, L.cluster_ip(20000 + i, 4), [port(80, "TCP", "t")],
                               ns="drain"))
            out.append(slice_("d%d" % i, [entry(L.remote(backend, 4), "n2")],
                              [slice_port(8080, "TCP", "t")], ns="drain"))
        return out
    bed.file("drain.json", objs(241))
    L.eventually(lambda: L.probe(bed.lab.client, L.cluster_ip(20000 + n - 1, 4), 80).ok, 60)
    bed.settled(n)
    conns = [connection(bed, L.cluster_ip(20000 + i, 4), 20000 + i) for i in range(n)]
    answers = [c.ask(5) for c in conns]
    assert all(a.backend == L.remote(241, 4) for a in answers), [
        (i, a) for i, a in enumerate(answers) if a.backend != L.remote(241, 4)][:5]
    quiet, _ = idle(bed)
    bed.file("drain.json", objs(242))
    L.eventually(lambda: sum(d.weight == 0 for d in bed.kernel.find(L.remote(241, 4))) >= n, 60)
    time.sleep(2)
    busy, asked = idle(bed)
    answers = [c.ask(5) for c in conns]
    assert all(a.backend == L.remote(241, 4) for a in answers), "a drain ended a connection: %s" % [
        a for a in answers if not a.ok][:5]
    begin = time.monotonic()
    bed.lab.node.run("ipvsadm", "-Ln", timeout=SETTLE_S)
    whole = time.monotonic() - begin
    row("%d backends draining: CPU a second, read once a second" % n,
        "%s (%s with none)" % (ms(busy), ms(quiet)), "%s (ipvsadm -Ln once)" % ms(whole))
    row("services whose destinations are read a second (of all: %d)" % len(bed.kernel.services()),
        "%.0f" % (asked["get_dest"] / IDLE_S), "")
    if asked["get_service"] or asked["get_dest"] > n * (IDLE_S + 1):
        raise SystemExit("%d drains are read with %s" % (n, dict(asked)))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    n_draining = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    why = ipvs.why_not()
    if why is not None:
        if os.path.exists("/job/run"):
            sys.exit(why)
        return in_a_machine(sys.argv[1:])
    os.environ["VIPD_BUILD"] = os.path.abspath(sys.argv[1])
    why = L.missing() or planes.missing(L.run)
    if why is not None:
        print(why)
        return 77
    with contextlib.closing(Bed()) as bed:
        row("what", "vipd", "a virtual service for each address and port")
        row("---", "---", "---")
        one_change(bed)
        programmed(bed, n)
        adopted_beside(bed, adopted(bed))
        draining(bed, n_draining)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main())
