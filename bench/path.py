#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cost of the data path: bench/path.py BUILD [WHAT ...] [--rounds N] [--icount]

Connections through a node in network namespaces, by one process that has both ends (bench/path.c):
CPU time and wall time contain the client, the router and the server, and no wait for a processor
that the router does not cause. Labs side by side, in turns:

  direct      no rules, no connection tracking: pod to pod
  tracked     connection tracking, and empty chains at the hooks of vipd: pod to pod
  dnat        one rule that translates to one address (node port, external: and masquerades)
  vipd
  as kube-proxy   rules with the layout of kube-proxy 1.36's nftables mode, made by this program
  kube-proxy ...  BENCH_KUBE_PROXY=PATH: kube-proxy itself, and vipd with its objects, fed by the
              test server; cluster IP, TCP

paths    cluster IP, node port and external address, TCP and UDP, IPv4 and IPv6: connections,
         requests, bulk
sizes    10 to 100,000 services, connections to all of them in an order without locality
options  counters, affinity, guard, failover
ranges   source ranges of the external address: none; the client in prefixes of several lengths; removal of 20,000
rules    the cost of each rule on the path: rules of vipd's tables are deleted one after the other
sync     requests and new connections while vipd programs 50,000 services x 5, on the other processor

--beside BUILD2 adds the vipd of another build to `sizes` and `ranges`. --icount runs it in a machine of tools/vm-run whose
clock counts instructions: `rules` and `options` then repeat within 1 %, and figures are instructions.
"""
import argparse
import ipaddress
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _folder in ("bench", "bench/e2e", "tests", "tests/net"):
    sys.path.insert(0, os.path.join(ROOT, _folder))

import apis  # noqa: E402
import ctnetlink  # noqa: E402
import daemon as D  # noqa: E402
import ipvs  # noqa: E402
import lab as L  # noqa: E402
import proxies  # noqa: E402
import report  # noqa: E402
from objects import port, service, slice_, slice_port  # noqa: E402

IN_A_MACHINE = os.path.exists("/job/run")
NS_PER_INSTRUCTION = 2      # of tests/vm
RANGE = {4: "10.96.0.0/14", 6: "fd00:10:96::/108"}
FIRST = {4: "10.96.16.0", 6: "fd00:10:96::1000"}    # cluster IP of the first service
NODE_PORT = 30080
ENDPOINTS = 5
SERVICES = 1000
SIZES = (10, 1000, 10000) if IN_A_MACHINE else (10, 1000, 10000, 100000)
COUNT = {"new": 500, "request": 1000, "bulk": 20 << 20} if IN_A_MACHINE else \
    {"new": 2000, "request": 20000, "bulk": 200 << 20}
if "BENCH_QUICK" in os.environ:     # tools/bench
    SERVICES, COUNT = 20, {kind: n // 100 for kind, n in COUNT.items()}
SETTLE_S = 600
BESIDE = []     # another build
PATHS = ("cluster IP", "node port", "external")
WHAT = ("paths", "sizes", "options", "ranges", "rules", "sync")


def address(i, fam):
    return str(ipaddress.ip_address(FIRST[fam]) + i)


def backend(i, fam):
    return L.remote(i % 240 + 1, fam)


def objects(n, families, affinity=None, ranges=()):
    """The first service also has a node port and an external address."""
    for i in range(n):
        kinds = {} if i else {"kind": "LoadBalancer", "lb": [L.lb_ip(9, fam) for fam in families],
                              "ranges": ranges}
        yield service("s%d" % i, [address(i, fam) for fam in families], [
            port(80, proto, proto.lower(), 0 if i else NODE_PORT) for proto in ("TCP", "UDP")],
            affinity=affinity, **kinds)
        for fam in families:
            yield slice_("s%d" % i, [backend(i + k, fam) for k in range(ENDPOINTS)],
                         [slice_port(8080, proto, proto.lower()) for proto in ("TCP", "UDP")])


# ---- rules of others

TRACKED = """table inet bench {
	chain a { type nat hook prerouting priority dstnat; }
	chain b { type nat hook prerouting priority dstnat + 10; }
	chain c { type nat hook output priority -100; }
	chain d { type nat hook output priority -90; }
	chain e { type nat hook postrouting priority srcnat; }
	chain f { type filter hook input priority filter; ct state invalid drop; }
	chain g { type filter hook forward priority filter; ct state invalid drop; }
}"""


def dnat():
    """One rule for each path: it translates every packet of its address."""
    lines = []
    for fam, ip in ((4, "ip"), (6, "ip6")):
        to = L.endpoint(backend(0, fam), 8080)
        proto = "meta l4proto { tcp, udp }"
        lines.append("table %s bench { chain a { type nat hook prerouting priority dstnat; "
                     "%s daddr %s %s dnat to %s; %s daddr %s %s dnat to %s; "
                     "%s th dport %d dnat to %s; }" % (
                         ip, ip, RANGE[fam], proto, to, ip, L.lb_ip(9, fam), proto, to, proto,
                         NODE_PORT, to))
        lines.append("chain e { type nat hook postrouting priority srcnat; "
                     "ct status dnat %s saddr %s masquerade fully-random; }; }" % (
                         ip, L.CLIENT[fam]))
    return "\n".join(lines)


def as_kube_proxy(n, fam):
    """What kube-proxy 1.36 writes in its nftables mode, for objects(): one chain for a service."""
    ip, kind = ("ip", "ipv4_addr") if fam == 4 else ("ip6", "ipv6_addr")
    chains, ips, ports, hairpins = [], [], [], set()
    for i in range(n):
        for proto in ("tcp", "udp"):
            name = "s%d/%s" % (i, proto)
            chains.append("chain service-%s { meta l4proto %s dnat %s to numgen random mod %d map { "
                          "%s }; }" % (name, proto, ip, ENDPOINTS, ", ".join(
                              "%d : %s . 8080" % (k, backend(i + k, fam))
                              for k in range(ENDPOINTS))))
            ips.append("%s . %s . 80 : goto service-%s" % (address(i, fam), proto, name))
            hairpins.update("%s . %s . %s . 8080" % (a, a, proto) for a in (
                backend(i + k, fam) for k in range(ENDPOINTS)))
            if i == 0:
                chains.append("chain external-%s { meta mark set meta mark | 0x4000; "
                              "goto service-%s; }" % (name, name))
                ips.append("%s . %s . 80 : goto external-%s" % (L.lb_ip(9, fam), proto, name))
                ports.append("%s . %d : goto external-%s" % (proto, NODE_PORT, name))
    tuple_ = "%s daddr . meta l4proto . th dport" % ip
    return """table %(ip)s kube-proxy {
%(chains)s
	set hairpin-connections { type %(kind)s . %(kind)s . inet_proto . inet_service; elements = { %(hairpins)s } }
	set cluster-ips { type %(kind)s; elements = { %(cluster)s } }
	set nodeport-ips { type %(kind)s; elements = { %(node)s } }
	map no-endpoint-services { type %(kind)s . inet_proto . inet_service : verdict; }
	map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
	map firewall-ips { type %(kind)s . inet_proto . inet_service : verdict; }
	map service-ips { type %(kind)s . inet_proto . inet_service : verdict; elements = { %(ips)s } }
	map service-nodeports { type inet_proto . inet_service : verdict; elements = { %(ports)s } }
	chain firewall-check { %(tuple)s vmap @firewall-ips; }
	chain nodeport-endpoints-check { %(ip)s daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports; }
	chain service-endpoints-check { %(tuple)s vmap @no-endpoint-services; }
	chain cluster-ips-check { %(ip)s daddr @cluster-ips reject; %(ip)s daddr %(range)s drop; }
	chain services {
		%(ip)s daddr @cluster-ips %(ip)s saddr != %(pods)s meta mark set meta mark | 0x4000
		%(tuple)s vmap @service-ips
		%(ip)s daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports
	}
	chain masquerading {
		meta mark & 0x4000 != 0 meta mark set meta mark ^ 0x4000 masquerade fully-random
		ct status dnat %(ip)s saddr . %(ip)s daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
	}
	chain a { type filter hook prerouting priority dstnat - 10; ct state new jump firewall-check; }
	chain b { type filter hook output priority -110; ct state new jump firewall-check; }
	chain c { type filter hook input priority filter; ct state new jump nodeport-endpoints-check; ct state new jump service-endpoints-check; }
	chain d { type filter hook forward priority filter; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
	chain e { type filter hook output priority filter; ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
	chain f { type nat hook prerouting priority dstnat; jump services; }
	chain g { type nat hook output priority -100; jump services; }
	chain h { type nat hook postrouting priority srcnat; jump masquerading; }
}""" % {"ip": ip, "kind": kind, "chains": "\n".join(chains), "ips": ", ".join(ips),
        "ports": ", ".join(ports), "hairpins": ", ".join(sorted(hairpins)), "tuple": tuple_,
        "cluster": ", ".join(address(i, fam) for i in range(n)), "node": L.NODE_TO_CLIENT[fam],
        "range": RANGE[fam], "pods": L.CLUSTER_CIDR[fam]}


# ---- labs

class Bed:
    """A lab, what translates in it, and the results of its rounds."""

    def __init__(self, name, n=SERVICES, families=(4, 6), rules="", flags=None, affinity=None,
                 ranges=()):
        self.name, self.n, self.daemon = name, n, None
        self.used = {}
        self.turn = 0
        self.lab = L.Lab(servers=False)
        self.ct = ctnetlink.Conntrack(self.lab.node)
        try:
            if flags is not None:
                self.daemon = D.Vipd(self.lab, dict({
                    "--service-cluster-ip-range": ",".join(RANGE.values()),
                    "--nodeport-addresses": "203.0.113.0/24,2001:db8:1::/64"}, **flags), base=False)
                self.daemon.manifests.put("all.json", ipvs.as_list(
                    list(objects(n, families, affinity, ranges))))
                self.daemon.start(wait=False)
                self.daemon.wait_ready(SETTLE_S)
            elif rules:
                self.lab.node.run("nft", "-f", "-", input=rules, timeout=SETTLE_S)
        except BaseException:
            self.close()
            raise

    def is_translated(self):
        return self.name not in ("direct", "tracked")

    def target(self, path, fam):
        """From, to, number of addresses, port."""
        if not self.is_translated():
            return L.far(1, fam) if path == PATHS[0] else L.CLIENT[fam], backend(0, fam), 1, 8080
        if path == PATHS[0]:
            return L.far(1, fam), address(0, fam), self.n, 80
        if path == PATHS[1]:
            return L.CLIENT[fam], L.NODE_TO_CLIENT[fam], 1, NODE_PORT
        return L.CLIENT[fam], L.lb_ip(9, fam), 1, 80

    def round(self, kind, proto="tcp", fam=4, path=PATHS[0]):
        count = COUNT[kind]
        if not self.turn or self.turn + count > 60000:
            self.ct.clear()     # from here on, ports are used again
            self.turn = 10000
        out = subprocess.run(
            [os.path.join(L.build_dir(), "bench", "path"), self.lab.client.path,
             self.lab.node2.path, proto, *(str(x) for x in self.target(path, fam)),
             str(self.turn), kind, str(count)], capture_output=True, text=True, check=False)
        if out.returncode:
            raise RuntimeError("%s, %s %s IPv%d %s: %s" % (self.name, path, proto, fam, kind,
                                                           out.stderr))
        self.turn += count if kind == "new" else 1
        self.used.setdefault((kind, proto, fam, path), []).append(json.loads(out.stdout))

    def each(self, key, what):
        """CPU or wall time of an operation (bulk: of a byte), ns, in each round after the first."""
        return [r[what] / r["n"] for r in self.used[key][1:]]

    def close(self):
        self.ct.close()
        if self.daemon:
            self.daemon.close()
        self.lab.close()


class ApiBed(Bed):
    """A proxy that the test server feeds; connections to all of the server's services."""

    def __init__(self, name, program, make, n, folder):
        self.api = self.proxy = None
        super().__init__(name, n)
        try:
            self.lab.node2.run("ip", "route", "add", "local", "10.128.0.0/10", "dev", "lo")
            self.lab.node.run("ip", "route", "add", "10.128.0.0/10", "via", L.NODE2[4])
            self.api = apis.TestApi(self.lab, n, ENDPOINTS)
            self.proxy = make(program, self.lab, self.api.config, folder)
            L.eventually(lambda: self.proxy.is_settled() and L.probe(
                self.lab.client, self.api.ips[0], 80, timeout=0.05).what in ("ok", "refused"),
                SETTLE_S, "not settled")
        except BaseException:
            self.close()
            raise

    def target(self, path, fam):
        return L.far(1, fam), self.api.ips[1], self.n, 80

    def close(self):
        if self.proxy:
            self.proxy.stop()
        if self.api:
            self.api.close()
        super().close()


# ---- measurements

def quantiles(found):
    """Medians of the rounds' 50, 99 and 99.9 %."""
    return "%.1f / %.1f / %.1f" % tuple(statistics.median(r[q] for r in found) / 1e3
                                        for q in ("p50", "p99", "p999"))


def show(beds, key, base):
    """A line for each lab. Neighbours in time have equal load of the machine: medians of pairs."""
    kind, proto, fam, path = key
    print("\n%s, %s, IPv%d: %s" % (path, proto.upper(), fam, {
        "new": "new connections with one request", "request": "requests of one connection",
        "bulk": "bytes"}[kind]))
    unit = NS_PER_INSTRUCTION if IN_A_MACHINE else 1
    for bed in beds:
        if key not in bed.used:
            continue
        cpu, wall = bed.each(key, "cpu_ns"), bed.each(key, "wall_ns")
        line = "  %-28s" % bed.name
        if IN_A_MACHINE:
            line += " %.*f instructions" % (2 if kind == "bulk" else 0,
                                            statistics.median(wall) / unit)
        else:
            low, middle, high = statistics.quantiles(cpu, n=4) if len(cpu) > 1 else cpu * 3
            line += " %.*f ns of CPU (%.*f to %.*f)" % (
                (x := 3 if kind == "bulk" else 0), middle, x, low, x, high)
            line += ", %.*f/s" % (0, 1e9 / statistics.median(wall)) if kind != "bulk" else \
                ", %.2f GB/s" % (1 / statistics.median(wall))
            if kind != "bulk":
                line += ", %s us" % quantiles(bed.used[key][1:])
        pairs = [b / a for a, b in zip(bed.each(key, "wall_ns" if IN_A_MACHINE else "cpu_ns"),
                                       base.each(key, "wall_ns" if IN_A_MACHINE else "cpu_ns"))]
        print("%s, %.3f of the rate of %s" % (line, statistics.median(pairs), base.name),
              flush=True)


def in_turns(beds, keys, rounds):
    for _ in range(rounds + 1):
        for key in keys:
            for bed in beds:
                if not (isinstance(bed, ApiBed) and key[1:] != ("tcp", 4, PATHS[0])):
                    bed.round(*key)


def compare(beds, keys, rounds, base):
    for key in keys:
        in_turns(beds, [key], rounds)
        show(beds, key, next(b for b in beds if b.name == base))


def others(n, families, folder, made):
    """Append the labs that vipd is compared with to `made`."""
    made.append(Bed("direct", n))
    made.append(Bed("tracked", n, rules=TRACKED))
    made.append(Bed("dnat", n, rules=dnat()))
    made.append(Bed("as kube-proxy", n, rules="\n".join(as_kube_proxy(n, f) for f in families)))
    if len(found := proxies.all_proxies(L.build_dir())) > 1:
        for name, program, make in found:
            made.append(ApiBed(name + ", API", program, make, n, folder))


def measure_paths(rounds, folder, made):
    others(SERVICES, (4, 6), folder, made)
    made.append(Bed("vipd", flags={}))
    compare(made, [(kind, proto, fam, path) for path in PATHS for fam in (4, 6)
                   for proto in ("tcp", "udp") for kind in COUNT], rounds, "tracked")


def vipds(name, *args, **kwargs):
    """Labs with vipd, and with that of another build."""
    found = [Bed("vipd, " + name, *args, flags={}, **kwargs)]
    if BESIDE:
        build, os.environ["VIPD_BUILD"] = os.environ["VIPD_BUILD"], BESIDE[0]
        found.append(Bed("vipd of BUILD2, " + name, *args, flags={}, **kwargs))
        os.environ["VIPD_BUILD"] = build
    return found


def measure_ranges(rounds, folder, made):
    clients = [ipaddress.ip_address(L.CLIENT[fam]) for fam in (4, 6)]
    made.append(Bed("tracked", rules=TRACKED))
    for name, lengths in (("no ranges", ()), ("single addresses", (32, 128)), ("short prefixes", (8, 32)),
                          ("rare lengths", (12, 36))):
        made += vipds(name, ranges=[str(ipaddress.ip_network((a, n), strict=False))
                                    for a, n in zip(clients, lengths)])
    compare(made, [("new", proto, fam, PATHS[2]) for fam in (4, 6) for proto in ("udp", "tcp")],
            rounds, "vipd, no ranges")
    for bed in made[-2:] if BESIDE else made[-1:]:
        for older in (0, 1):
            many_ranges(bed, older)


def many_ranges(bed, older):
    """A Service of 20 ports with 1,000 ranges is made and removed, beside `older` such Services."""
    def put(name, number, ports):
        bed.daemon.manifests.put(name + ".json", json.dumps(service(
            name, address(bed.n + number, 4), [port(1000 + i, "TCP", "p%d" % i) for i in range(ports)],
            kind="LoadBalancer", lb=[L.lb_ip(50 + number, 4)],
            ranges=["11.%d.%d.0/24" % (i // 100, i % 100 * 2) for i in range(1000)])))

    def reported(n):
        """The slowest change so far, once the table has `n` prefixes; the first look is late, it costs."""
        time.sleep(1)
        L.eventually(lambda: bed.lab.node.run("nft", "list", "set", "ip", "vipd", "fw_ranges").count(" . 11.") == n,
                     SETTLE_S, "%d ranges" % n)
        return bed.daemon.status()["sync"]["event_to_ack"]["max_us"] / 1000

    for i in range(older):
        put("older%d" % i, 1 + i, 1)
    reported(1000 * older)
    put("many", 0, 20)
    made = reported(1000 * older + 20000)
    bed.daemon.manifests.empty("many.json")
    print("  %-28s 20 ports with 1,000 ranges, beside %d: the slowest change until made %.0f ms, until removed "
          "%.0f ms" % (bed.name, 1000 * older, made, reported(1000 * older)), flush=True)


def measure_sizes(rounds, folder, made):
    made.append(Bed("tracked", rules=TRACKED))
    for n in SIZES:
        if n <= 10000:
            made.append(Bed("as kube-proxy, %d" % n, n, rules=as_kube_proxy(n, 4)))
        made += vipds("%d" % n, n, families=(4,))
    compare(made, [(kind, "tcp", 4, PATHS[0]) for kind in ("new", "request")] +
            [("new", "udp", 4, PATHS[0])], rounds, "tracked")


def measure_options(rounds, folder, made):
    made.append(Bed("tracked", rules=TRACKED))
    made.append(Bed("vipd", families=(4,), flags={}))
    for name, flags in (("counters for services", {"--metrics-per-service": "service"}),
                        ("counters for endpoints", {"--metrics-per-service": "endpoint"}),
                        ("no guard", {"--nft-guard": "off"}),
                        ("failover=handshake", {"--failover": "handshake"}),
                        ("preserve-local-source", {"--preserve-local-source": True})):
        made.append(Bed(name, families=(4,), flags=flags))
    made.append(Bed("affinity", families=(4,), flags={}, affinity=10800))
    compare(made, [(kind, proto, 4, PATHS[0]) for proto in ("tcp", "udp")
                   for kind in ("new", "request")], rounds, "vipd")


def rules_of(bed, chain):
    """[(handle, text)] of a chain of table ip vipd."""
    text = bed.lab.node.run("nft", "-a", "list", "chain", "ip", "vipd", chain)
    return [tuple(reversed(line.strip().split(" # handle "))) for line in text.splitlines()
            if " # handle " in line and not line.strip().startswith(("chain", "table"))]


def measure_rules(rounds, folder, made):
    """Delete rules one after the other; differences in pairs with an untouched lab."""
    for name in ("vipd", "fewer rules"):
        made.append(Bed(name, families=(4,), flags={"--nft-guard": "off"}))
        made[-1].daemon.stop()
    whole, fewer = made
    keys = [(kind, "udp", 4, path) for path in (PATHS[0], PATHS[2]) for kind in ("new", "request")]
    steps = [(None, None, "all rules")]
    for chain in ("forward", "input", "prerouting_last", "localhost_in",
                  "localhost_out", "output_last", "postrouting"):
        steps += [(chain, handle, text) for handle, text in reversed(rules_of(fewer, chain))]
    for chain, handle, text in steps:
        if chain:
            fewer.lab.node.run("nft", "delete", "rule", "ip", "vipd", chain, "handle", handle)
        for bed in made:
            bed.used.clear()
        in_turns(made, keys, rounds)
        what, unit = ("wall_ns", NS_PER_INSTRUCTION) if IN_A_MACHINE else ("cpu_ns", 1)
        print("%s: %s" % (", ".join("%+.0f" % (statistics.median(
            b - a for a, b in zip(whole.each(key, what), fewer.each(key, what))) / unit)
            for key in keys), (chain + ": " if chain else "") + text), flush=True)


def rounds_beside(bed, vipd, keys):
    """Rounds in turn while vipd writes: its first sync."""
    def writes():
        return vipd.status().get("sync", {}).get("writes", 0)
    while not writes():
        pass
    while not vipd.is_settled():
        for key in keys:
            bed.round(*key)


def measure_sync(rounds, folder, made):
    """Durations of operations, alone and during a first sync. Each has a processor."""
    free = sorted(os.sched_getaffinity(0))
    COUNT.update(request=20000, new=5000)   # 0.1 s each
    keys = [("request", "tcp"), ("new", "udp"), ("new", "tcp")]
    bed = Bed("dnat", 1, rules=dnat())
    made.append(bed)
    vipd = D.Vipd(bed.lab, {"--service-cluster-ip-range": ",".join(RANGE.values()),
                            "--nodeport-addresses": None}, base=False)
    try:
        vipd.manifests.put("all.json", ipvs.as_list(list(objects(50000, (4,)))))
        for turn in range(2 * rounds):
            if turn % 2:
                os.sched_setaffinity(0, {free[-1]})
                vipd.start(wait=False)
            os.sched_setaffinity(0, {free[0]})
            bed.used.clear()
            if turn % 2:
                rounds_beside(bed, vipd, keys)
                vipd.stop()
                bed.lab.node.run("nft", "delete table ip vipd; delete table ip6 vipd")
            else:
                in_turns([bed], keys, 5)
            for key in keys:
                found = bed.used[(*key, 4, PATHS[0])]
                print("  %-20s %-12s %2d rounds, %s us, 99.9 %% of the worst round %.1f us" % (
                    "during a first sync" if turn % 2 else "alone", " ".join(key), len(found),
                    quantiles(found), max(r["p999"] for r in found) / 1e3), flush=True)
    finally:
        os.sched_setaffinity(0, free)
        vipd.close()


def in_a_machine(args, argv):
    return subprocess.run(
        [os.path.join(ROOT, "tools", "vm-run"), "--icount", "--memory", "2048", "--timeout", "3600",
         "--build", os.path.abspath(args.build), "--env", "VIPD_SLOW=5", "--", "/usr/bin/python3",
         "bench/path.py"] + [a for a in argv if a != "--icount"], cwd=ROOT, check=False).returncode


def main(argv):
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("build")
    p.add_argument("what", nargs="*", choices=(*WHAT, []))
    p.add_argument("--rounds", type=int, default=3 if IN_A_MACHINE else 10)
    p.add_argument("--beside")
    p.add_argument("--icount", action="store_true")
    args = p.parse_args(argv)
    if args.icount:
        return in_a_machine(args, argv)
    os.environ["VIPD_BUILD"] = os.path.abspath(args.build)
    BESIDE.extend([os.path.abspath(args.beside)] if args.beside else [])
    if L.missing():
        print("bench/path: " + L.missing())
        return 77
    print(", ".join("%s: %s" % item for item in report.machine().items()))
    for what in args.what or WHAT:
        print("\n== " + what, flush=True)
        made = []
        with tempfile.TemporaryDirectory(prefix="vipd-bench-") as folder:
            try:
                globals()["measure_" + what](args.rounds, folder, made)
            finally:
                for bed in made:
                    bed.close()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the labs
    sys.exit(main(sys.argv[1:]))
