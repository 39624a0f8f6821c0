# SPDX-License-Identifier: GPL-2.0-or-later
"""Own and foreign state: a restart sends nothing, foreign virtual services are never touched,
sysctls are restored; and settings of services: schedulers, flags, weights.
VIPD_IPVS_SERVICES=10000: services during the restart."""
import json
import os
import time

import pytest

import hashing
import ipvs
import lab as L
from objects import entry, port, service, slice_, slice_port

pytestmark = pytest.mark.skipif(ipvs.why_not() is not None, reason=str(ipvs.why_not()))

SERVICES = int(os.environ.get("VIPD_IPVS_SERVICES", "200"))
EXCLUDED = "198.51.100.128/25"
FLAGS = {"--ipvs-exclude-cidrs": EXCLUDED, "--v": "2"}
# Bits of IP_VS_SVC_F_*: persistent, sh-fallback or mh-fallback, sh-port or mh-port.
PERSISTENT, FALLBACK, PORT = 1, 8, 16


@pytest.fixture(scope="module")
def kernel(lab, vipd):
    made = ipvs.Ipvs(lab.node)
    yield made
    made.close()


@pytest.fixture
def wire(lab, kernel):
    made = ipvs.Wire(lab.node, kernel.family)
    yield made
    made.close()


def svc(name, number, backends=(1, 2), notes=None, ports=None, **kw):
    ports = ports or [port(80, "TCP", "t")]
    return [service(name, L.cluster_ip(number, 4), ports, annotations=notes, **kw),
            slice_(name, [entry(L.remote(i, 4), "n2") for i in backends],
                   [slice_port(8080, p["protocol"], p["name"]) for p in ports])]


def held(kernel, *backends):
    """The services of ours that have exactly these backends."""
    want = {(L.remote(i, 4), 8080) for i in backends}
    return {s: d for s, d in kernel.state().items() if set(d) == want}


def many():
    """Kinds of everything: policies, affinity, node ports, UDP, both families, no endpoints."""
    out = []
    for n in range(SERVICES):
        fam = 6 if n % 5 == 4 else 4
        kw = [{}, {"affinity": 300}, {"etp": "Local", "lb": (L.lb_ip(1 + n % 200, fam),)},
              {"notes": {"vipd.io/scheduler": "wlc"}}, {"itp": "Local"}][n % 5]
        notes = kw.pop("notes", None)
        ports = [port(80, "TCP", "t"), port(80 + n, "UDP", "u")]
        out.append(service("m%d" % n, L.cluster_ip(1000 + n, fam), ports, annotations=notes, **kw))
        out.append(slice_("m%d" % n, [] if n % 11 == 7 else [
            entry(L.remote(i % 250 + 1, fam), "n2", terminating=i % 7 == 0, ready=i % 7 != 0,
                  serving=True) for i in range(n, n + 5)],
            [slice_port(8080, "TCP", "t"), slice_port(8080, "UDP", "u")], fam=fam))
    return out


def state_unwritten(vipd, kernel, wire):
    """The content of IPVS, or None when vipd has written while it was read or shortly after: a
    dump is no snapshot; or while backends drain, which are deleted later."""
    wire.clear()
    state = kernel.state()
    time.sleep(1.5)
    return None if wire.counts() or vipd.status()["draining"]["backends"] else state


@pytest.mark.parametrize("how", ("kill", "stop"))
def test_restart_sends_nothing(lab, vipd, kernel, wire, how):
    """All messages to the kernel are captured: IPVS, routes and rules, nf_tables. None may change
    anything, also later. Then the next change is programmed."""
    vipd.apply([])
    vipd.manifests.put("many.json", ipvs.as_list(many()))
    del vipd.manifests.held["many.json"]  # or write() takes it away
    try:
        vipd.apply(svc("one", 310), timeout=15 + SERVICES / 50)
        L.eventually(lambda: len(kernel.services()) > SERVICES and vipd.is_settled(),
                     15 + SERVICES / 50)
        before = L.eventually(lambda: state_unwritten(vipd, kernel, wire), 15 + SERVICES / 50)
        getattr(vipd, how)()
        begin = time.monotonic()
        vipd.start(wait=False)
        vipd.wait_ready(10 + SERVICES / 100)
        took = time.monotonic() - begin
        time.sleep(1.5)
        assert not wire.counts()
        state = kernel.state()
        assert {s: {k: d[:4] for k, d in v.items()} for s, v in state.items()} == \
            {s: {k: d[:4] for k, d in v.items()} for s, v in before.items()}
        print("%d virtual services, %d destinations adopted in %.2f s" % (
            len(state), sum(len(d) for d in state.values()), took))
        vipd.apply(svc("one", 310, (1, 3)))
        L.eventually(lambda: held(kernel, 1, 3), 4, "it does nothing any more")
    finally:
        vipd.manifests.empty("many.json")
        vipd.apply([], timeout=15 + SERVICES / 50)


THEIRS = (("-f", "5"), ("-f", "0x5c000001"), ("-f", "0x59ffffff"), ("-t", "192.0.2.77:99"),
          ("-u", "198.51.100.200:53"), ("-t", "[2001:db8:100::99]:80"), ("-t", "203.0.113.1:8443"))


def add_theirs(lab):
    for kind, at in THEIRS:
        six = ["-6"] if kind == "-f" and at == "5" else []
        lab.node.run("ipvsadm", "-A", kind, str(int(at, 0)) if kind == "-f" else at, *six,
                     "-s", "wlc", "-p", "77")
        where = "[fd00:10:244:2::9]:80" if six or at[0] == "[" else "10.244.2.9:80"
        lab.node.run("ipvsadm", "-a", kind, str(int(at, 0)) if kind == "-f" else at, *six,
                     "-r", where, "-m", "-w", "3")


def del_theirs(lab):
    for kind, at in THEIRS:
        six = ["-6"] if kind == "-f" and at == "5" else []
        lab.node.run("ipvsadm", "-D", kind, str(int(at, 0)) if kind == "-f" else at, *six)


@pytest.mark.no_steady
def test_foreign_services(lab, vipd, kernel):
    """As keepalived makes them: by address, on an address of the node, by marks beside ours. Not
    at a change, a restart, an audit or --cleanup; and the sysctls are as they were."""
    names = ("conntrack", "expire_nodest_conn", "expire_quiescent_template", "conn_reuse_mode",
             "sloppy_tcp", "run_estimation", "pmtu_disc")

    def sysctls():
        return [lab.node.run("cat", "/proc/sys/net/ipv4/vs/" + n).strip() for n in names]
    vipd.stop()
    lab.node.run(*vipd.argv(), "--cleanup")
    was = ["0", "0", "1", "1", "1", "1", "1"]
    for name, value in zip(names, was):
        lab.node.sysctl(**{"net__ipv4__vs__" + name: value})
    lab.node.run("ipvsadm", "--set", "1234", "60", "70")
    add_theirs(lab)
    try:
        theirs = kernel.state(ours=False)
        assert len(theirs) == len(THEIRS) and not kernel.state()
        vipd.flags.update({"--ipvs-tcp-timeout": "2h", "--ipvs-udp-timeout": "200s"})
        vipd.start()
        assert sysctls() == ["1", "1", "1", "1", "0", "0", "0"]
        assert lab.node.run("ipvsadm", "-Ln", "--timeout").split()[-3:] == ["7200", "60", "200"]
        vipd.apply(svc("one", 311))
        vipd.kill()
        vipd.start()
        vipd.apply(svc("one", 311, (2, 3)))
        L.eventually(lambda: held(kernel, 2, 3), 4)
        assert kernel.state(ours=False) == theirs
        vipd.stop()
        assert sysctls() == ["1", "1", "1", "1", "0", "0", "0"]
        lab.node.run(*vipd.argv(), "--cleanup")
        assert sysctls() == was
        assert lab.node.run("ipvsadm", "-Ln", "--timeout").split()[-3:] == ["1234", "60", "70"]
        assert kernel.state(ours=False) == theirs and not kernel.state()
    finally:
        vipd.stop()
        del_theirs(lab)
        for flag in ("--ipvs-tcp-timeout", "--ipvs-udp-timeout"):
            vipd.flags.pop(flag, None)
        lab.node.run("ipvsadm", "--set", "900", "120", "300")
        vipd.start()


def test_excluded_addresses(lab, vipd, kernel):
    """One that even looks like ours stays, where the flag says so; elsewhere it is swept, as what
    an earlier life left."""
    out = "198.51.100.130:80"
    swept = "198.51.100.5:80"
    vipd.stop()
    for at in (out, swept):
        lab.node.run("ipvsadm", "-A", "-t", at, "-s", "rr", "-b", "flag-3", "-p", "60")
        lab.node.run("ipvsadm", "-a", "-t", at, "-r", "10.244.2.9:80", "-m")
    try:
        vipd.start()
        vipd.apply(svc("one", 312))
        L.eventually(lambda: "198.51.100.5" not in [s.addr for s in kernel.services()], 3)
        mine = [(s, d) for s, d in kernel.state().items() if s.addr == "198.51.100.130"]
        assert len(mine) == 1 and [d.weight for d in mine[0][1].values()] == [1]
    finally:
        lab.node.run("ipvsadm", "-D", "-t", out)


def schedulers():
    lacking = []
    for name in ("rr", "wrr", "lc", "wlc", "fo", "ovf", "lblc", "lblcr", "dh", "sh", "mh", "sed",
                 "nq", "twos"):
        if ipvs.has_scheduler(name):
            yield name
        else:
            lacking.append(name)
    print("not in this kernel: %s" % (", ".join(lacking) or "none"))


def test_every_scheduler_by_annotation(lab, vipd, kernel):
    """All schedulers at once, one service each; each one serves."""
    names = list(schedulers())
    assert len(names) >= 10
    objs = []
    for i, name in enumerate(names):
        objs += svc("by-" + name, 320 + i, (10 + i, 40 + i), {"vipd.io/scheduler": name})
    vipd.apply(objs)
    for i, name in enumerate(names):
        assert [s.sched for s in held(kernel, 10 + i, 40 + i)] == [name]
        r = L.probe(lab.client, L.cluster_ip(320 + i, 4), 80, timeout=L.LIMIT)
        assert r.ok and r.backend in (L.remote(10 + i, 4), L.remote(40 + i, 4)), (name, r)


@pytest.mark.parametrize("text,bits", (
    ("sh", FALLBACK), ("sh,sh-fallback", FALLBACK), ("sh,sh-port", FALLBACK | PORT),
    ("mh,mh-fallback,mh-port", FALLBACK | PORT)))
def test_flags_of_schedulers(lab, vipd, kernel, text, bits):
    vipd.apply(svc("flags", 340, (60, 61), {"vipd.io/scheduler": text}))
    found = list(held(kernel, 60, 61))
    assert [(s.sched, s.flags) for s in found] == [(text.split(",")[0], bits)]
    if "port" not in text:  # by the client's address alone
        met = {L.probe(lab.client, L.cluster_ip(340, 4), 80, timeout=L.LIMIT).backend
               for _ in range(8)}
        assert len(met) == 1


@pytest.mark.parametrize("number, weights", ((348, ""), (349, "%s=3,%s=6" % (L.remote(81, 4),
                                                                          L.remote(83, 4)))))
def test_table_of_mh(lab, vipd, kernel, number, weights):
    """The endpoint of each of 50 clients, computed as bench/hashing computes it (0015)."""
    notes = {"vipd.io/scheduler": "mh", **({"vipd.io/weights": weights} if weights else {})}
    vipd.apply(svc("table", number, (80, 81, 82, 83, 84), notes))
    (dests,) = held(kernel, 80, 81, 82, 83, 84).values()
    table = hashing.ipvs_table([(at, d.weight) for at, d in dests.items()])
    for client in (L.far(i, 4) for i in range(100, 150)):
        r = L.probe(lab.client, L.cluster_ip(number, 4), 80, timeout=L.LIMIT, source=client)
        assert r.ok and (r.backend, 8080) == table[hashing.ipvs_slot(client)], (client, r)


def test_limit_of_mh(lab, vipd, kernel):
    """BAL-13: the kernel has no table of mh for more than 4,093 destinations. They are added and deleted
    without mh, which would make a table for each of them."""
    def large(n, notes):
        objs = [service("large", L.cluster_ip(350, 4), [port(80, "TCP", "t")], annotations=notes)]
        for begin in range(0, n, 1000):
            objs.append(slice_("large", [entry("10.244.%d.%d" % (200 + i // 250, i % 250 + 1), "n2")
                                         for i in range(begin, min(n, begin + 1000))],
                               [slice_port(8080, "TCP", "t")], name="large-%d" % begin))
        vipd.apply(objs)

    def sched():
        return [s.sched for s in kernel.services() if (s.fam, s.mark) == (4, mark)]

    mh = {"vipd.io/scheduler": "mh"}
    large(4094, None)
    mark = next(s.mark for s, d in kernel.state(fam=4).items() if len(d) == 4094)
    large(4094, mh)
    assert sched() == ["wrr"]
    with pytest.raises(RuntimeError):
        lab.node.run("ipvsadm", "-E", "-f", str(mark), "-s", "mh")
    assert "'mh' of more than 4093 endpoints" in vipd.ctl("svc", "default/large")
    large(4093, mh)
    L.eventually(lambda: sched() == ["mh"], what="the last one stays")
    assert vipd.get("/v1/services/default/large").get("remark") is None
    large(4093, None)


def test_the_default_scheduler(lab, vipd, kernel):
    """--ipvs-scheduler: for services without annotation, including affinity's services by address;
    existing ones are changed, not made anew."""
    vipd.apply(svc("plain", 341, (62, 63)) + svc("sticky", 342, (64, 65), affinity=90))
    conn = L.connect(lab.client, L.cluster_ip(341, 4), 80)[0]
    backend = conn.ask(L.LIMIT).backend
    vipd.stop()
    vipd.flags["--ipvs-scheduler"] = "wlc"
    try:
        vipd.start()
        assert [s.sched for s in held(kernel, 62, 63)] == ["wlc"]
        assert [(s.sched, s.addr, s.flags & PERSISTENT, s.timeout) for s in held(kernel, 64, 65)] \
            == [("wlc", L.cluster_ip(342, 4), PERSISTENT, 90)]
        assert conn.ask(L.LIMIT).backend == backend
    finally:
        conn.close()
        del vipd.flags["--ipvs-scheduler"]
        vipd.stop()
        vipd.start()
    assert [s.sched for s in held(kernel, 62, 63)] == ["rr"]


def test_unknown_scheduler(lab, vipd, kernel):
    """The default, and one warning that names the service; the next change says it no more."""
    vipd.apply(svc("odd", 343, (66, 67), {"vipd.io/scheduler": "fastest"}))
    assert [s.sched for s in held(kernel, 66, 67)] == ["rr"]
    assert L.probe(lab.client, L.cluster_ip(343, 4), 80, timeout=L.LIMIT).ok
    vipd.apply(svc("odd", 343, (66, 67, 68), {"vipd.io/scheduler": "fastest"}))
    said = [x for x in vipd.log(400).splitlines() if "unknown scheduler 'fastest'" in x]
    assert len(said) == 1 and "default/odd" in said[0] and " warn " in said[0], said
    assert "unknown scheduler 'fastest'" in vipd.ctl("svc", "default/odd")


def test_weights(lab, vipd, kernel):
    """By address; an unnamed backend has 1; changed in place; a backend with 0 drains."""
    def weights(*backends):
        return {d.addr: d.weight for d in list(held(kernel, *backends).values())[0].values()}
    a, b, c = (L.remote(i, 4) for i in (69, 70, 71))
    notes = {"vipd.io/scheduler": "wrr", "vipd.io/weights": "%s=3,%s=0" % (a, b)}
    vipd.apply(svc("heavy", 344, (69, 70, 71), notes))
    assert weights(69, 71) == {a: 3, c: 1}
    met = [L.probe(lab.client, L.cluster_ip(344, 4), 80, timeout=L.LIMIT).backend
           for _ in range(8)]
    assert (met.count(a), met.count(b), met.count(c)) == (6, 0, 2)
    notes["vipd.io/weights"] = "%s=1" % a
    vipd.apply(svc("heavy", 344, (69, 70, 71), notes))
    assert weights(69, 70, 71) == {a: 1, b: 1, c: 1}


def test_bits_of_others(lab, vipd):
    """kube-proxy's rules that are still there set a bit of the mark of each first packet in nat
    chains, Calico's in INPUT. IPVS knows the mark without them."""
    vipd.apply(svc("bits", 345, (72, 73)))
    lab.node.run("nft", """table inet vipdt_bits {
        chain pre { type nat hook prerouting priority -100; meta mark set meta mark or 0x4000; }
        chain out { type nat hook output priority -100; meta mark set meta mark or 0x4000; }
        chain first { type filter hook input priority -150; meta mark set meta mark or 0x10000; }
        chain in { type filter hook input priority 0; meta mark set meta mark or 0x10000; }; }""")
    try:
        for ns in (lab.client, lab.ns["pod3"], lab.node):
            for _ in range(3):
                r = L.probe(ns, L.cluster_ip(345, 4), 80, timeout=L.LIMIT)
                assert r.ok and r.backend in (L.remote(72, 4), L.remote(73, 4)), r
    finally:
        lab.node.run("nft", "delete", "table", "inet", "vipdt_bits")


def test_nat_of_others(lab, vipd):
    """kube-proxy's rules that are still there have precedence, and masquerade by a bit of the mark."""
    vip, there = L.cluster_ip(353, 4), L.remote(92, 4)
    vipd.apply(svc("nat", 353, (93,)))
    translate = "ip daddr %s tcp dport 80 meta mark set meta mark or 0x4000 dnat ip to %s:8080" % (vip, there)
    lab.node.run("nft", """table inet vipdt_nat {
        chain pre { type nat hook prerouting priority -100; %s; }
        chain out { type nat hook output priority -100; %s; }
        chain post { type nat hook postrouting priority 99; meta mark & 0x4000 != 0 masquerade; }; }""" %
                 (translate, translate))
    try:
        for role in ("client", "pod3", "node"):
            r = L.probe(lab.ns[role], vip, 80, timeout=L.LIMIT)
            assert (r.backend, r.peer) == (there, L.NODE[4]), (role, r)
    finally:
        lab.node.run("nft", "delete", "table", "inet", "vipdt_nat")


# Bits of a mark that rules of other software match: AWS's VPC CNI (routing), portmap (masquerading),
# kube-proxy (masquerading), kubelet (dropping).
BITS = 0x80, 0x2000, 0x4000, 0x8000
HIGH_ID = 0xe80  # of the first pool whose mark has them all


def next_pool(lab, vipd, number):
    """The next pool gets this id: a restart continues behind the highest id in use."""
    vipd.stop()
    last = number - 1
    lab.node.run("ipvsadm", "-A", "-f", str(ipvs.TAG << 24 | last >> 8 << 12 | last & 0xff), "-s", "rr")
    vipd.start()


def packets(lab, table):
    """{comment: packets} of the counters of a table."""
    text = json.loads(lab.node.run("nft", "-j", "list", "table", "inet", table))["nftables"]
    return {o["rule"]["comment"]: e["counter"]["packets"] for o in text if "rule" in o
            for e in o["rule"]["expr"] if "counter" in e}


@pytest.mark.parametrize("affinity", (None, 60), ids=("plain", "affinity"))
@pytest.mark.parametrize("counting", ("none", "endpoint"))
def test_pool_in_the_mark(lab, vipd, kernel, counting, affinity):
    """Only IPVS sees a pool's id in the mark. Rules that match single bits of a mark match no
    connection to a Service, whatever the id; sources are preserved, routes are right."""
    vipd.flags["--metrics-per-service"] = counting
    next_pool(lab, vipd, HIGH_ID)
    number = 360 + 2 * (counting == "none") + (affinity is None)
    there, here, own = L.remote(90, 4), L.POD["pod1"][4], L.NODE[4]
    server = lab.serve("node", "8080")
    hooks = [("prerouting", n) for n in (-140, -90, 10)] + [("input", n) for n in (-150, 0, 96)] + [
        ("output", n) for n in (-299, -140, -90, 0)] + [("postrouting", n) for n in (-150, 80, 110, 140)]
    try:
        vipd.apply([service("high", L.cluster_ip(number, 4), [port(80, "TCP", "t"), port(80, "UDP", "u")],
                            affinity=affinity, kind="LoadBalancer", lb=[L.lb_ip(90, 4)], etp="Local"),
                    slice_("high", [entry(there, "n2"), entry(here, L.NODE_NAME), entry(own, L.NODE_NAME)],
                           [slice_port(8080, "TCP", "t"), slice_port(8080, "UDP", "u")])])
        marks = [s.mark for s, dests in kernel.state().items()
                 if s.mark and [d.weight for d in dests.values()] == [1, 1, 1]]
        assert len(marks) == 2 and all(m & b for m in marks for b in BITS), [hex(m) for m in marks]
        lab.node.run("nft", """table inet vipdt_single { %s chain masq { type nat hook postrouting priority 99;
            meta mark & 0x2000 == 0x2000 counter masquerade comment "masq"; }; }""" % " ".join(
                """chain c%d { type filter hook %s priority %d;
                meta mark & 0x%x != 0 counter comment "%s %d"; };""" % (i, hook, at, sum(BITS), hook, at)
                for i, (hook, at) in enumerate(hooks)))
        lab.node.run("ip", "rule", "add", "fwmark", "0x80/0x80", "unreachable", "pref", "1024")
        for role, proto in ((r, p) for r in ("client", "pod3", "node") for p in ("tcp", "udp")):
            for addr in (L.cluster_ip(number, 4), L.lb_ip(90, 4)):
                for _ in range(1 if affinity else 3):
                    r = L.probe(lab.ns[role], addr, 80, proto, timeout=L.LIMIT)
                    assert r.ok and r.backend in (there, here, own), (role, proto, addr, r)
                    if role == "pod3" or (role, addr) == ("client", L.lb_ip(90, 4)):
                        assert r.peer == {"pod3": L.POD["pod3"], "client": L.CLIENT}[role][4], (proto, addr, r)
        seen = packets(lab, "vipdt_single")
        assert len(seen) == len(hooks) + 1 and not any(seen.values()), seen
    finally:
        server.stop()
        lab.node.run("sh", "-c", "nft delete table inet vipdt_single; ip rule del pref 1024; true")
        vipd.stop()
        del vipd.flags["--metrics-per-service"]
        vipd.start()


@pytest.mark.parametrize("proto", ("tcp", "udp"))
def test_dns_cache_of_the_node(lab, vipd, proto):
    """NodeLocal DNSCache has the cluster IP of the DNS service on a dummy device and excludes its
    packets from connection tracking: it answers. Without its rules the Service does."""
    vip = L.cluster_ip(352, 4)
    vipd.apply(svc("dns", 352, (91,), ports=[port(99, "TCP", "t"), port(99, "UDP", "u")]))
    server = lab.serve("node", "99")
    rules = "; ".join("ip %saddr %s meta l4proto { tcp, udp } th %sport 99 notrack" % (d, vip, d)
                      for d in ("s", "d"))
    try:
        lab.node.run("ip", "link", "add", "nodelocaldns", "type", "dummy")
        lab.node.run("ip", "addr", "add", vip + "/32", "dev", "nodelocaldns")
        for ns in (lab.client, lab.ns["pod3"]):
            assert L.probe(ns, vip, 99, proto, timeout=L.LIMIT).backend == L.remote(91, 4)
        lab.node.run("nft", """table inet vipdt_cache {
            chain pre { type filter hook prerouting priority raw; %s; }
            chain out { type filter hook output priority raw; %s; }; }""" % (rules, rules))
        for ns in (lab.client, lab.ns["pod3"], lab.node):
            assert L.probe(ns, vip, 99, proto, timeout=L.LIMIT).backend == vip
    finally:
        server.stop()
        lab.node.run("sh", "-c", "nft delete table inet vipdt_cache; ip link del nodelocaldns; true")


def test_marks_of_others(lab, vipd):
    """Cilium's marks have a pod's identity in the upper half: one that begins with a tag of vipd's
    is led nowhere else, and services are served."""
    vipd.apply(svc("marks", 346, (74, 75)))
    lab.node.run("nft", """table inet vipdt_marks {
        chain pre { type filter hook prerouting priority -300; meta mark set 0x5a070f00; }
        chain out { type route hook output priority -300; meta mark set 0x5b070f00; }; }""")
    try:
        for ns in (lab.client, lab.ns["pod3"], lab.node):
            r = L.probe(ns, L.cluster_ip(346, 4), 80, timeout=L.LIMIT)
            assert r.ok and r.backend in (L.remote(74, 4), L.remote(75, 4)), r
        for ns in (lab.ns["pod3"], lab.node):
            r = L.probe(ns, L.remote(74, 4), 8080, timeout=L.LIMIT)
            assert r.ok and r.backend == L.remote(74, 4), r
    finally:
        lab.node.run("nft", "delete", "table", "inet", "vipdt_marks")


def plane_problems(vipd):
    return [p["text"] for p in vipd.status()["problems"] if p["kind"] == "plane"]


@pytest.mark.no_steady
def test_foreign_rules(lab, vipd):
    """kube-router's rule for pods leads into table 77, another has a priority of vipd's: both and
    vipd's stay. One that leads into vipd's table is logged, and vipd continues."""
    def rule(verb, *what):
        lab.node.run("ip", "rule", verb, *what)

    vipd.apply(svc("rules", 347, (76, 77)))
    theirs = (("from", L.CLUSTER_CIDR[4], "lookup", "77", "pref", "32000"),
              ("from", "192.0.2.0/24", "lookup", "main", "pref", "101"))
    into = ("from", "192.0.2.0/24", "lookup", "23130", "pref", "32001")
    try:
        for each in theirs:
            rule("add", *each)
        rule("del", "pref", "103")
        vipd.check_tables(timeout=12)
        vipd.stop()
        vipd.start()
        vipd.check_tables()
        assert not plane_problems(vipd)
        rule("add", *into)
        L.eventually(lambda: any("'32001: from 192.0.2.0/24 lookup 23130'" in p
                                 for p in plane_problems(vipd)))
        assert vipd.status()["health"]["ready"]
        for addr, number in ((L.cluster_ip(347, 4), 80), (L.remote(76, 4), 8080)):
            assert L.probe(lab.ns["pod3"], addr, number, timeout=L.LIMIT).ok, addr
    finally:
        for each in theirs + (into,):
            lab.node.run("sh", "-c", "ip rule del " + " ".join(each) + " || true")
    L.eventually(lambda: not plane_problems(vipd))
