# SPDX-License-Identifier: GPL-2.0-or-later
"""Foreign changes of virtual services, destinations and policy routing, which cause no
notification, except for rules: an audit finds them; rules and routes are checked every ten seconds
and after a change of a rule. check_tables() detects each. A table of another layout is replaced
without a gap. Foreign changes of tables: test_foreign.py."""
import glob
import os
import re
import signal
import subprocess
import time

import pytest

import foreigner as F
import ipvs
import lab as L
from objects import entry, port, service, slice_, slice_port

pytestmark = pytest.mark.skipif(ipvs.why_not() is not None, reason=str(ipvs.why_not()))

AUDIT_S = 2
FLAGS = {"--audit-period": "%ds" % AUDIT_S}
VIP = L.cluster_ip(1, 4)
STICKY = L.cluster_ip(2, 4)
VERSION, OLDER = 'comment "vipd ipvs layout 3"', 'comment "vipd ipvs layout 2"'


def objs():
    """A plain service, one with affinity, one with a Local policy."""
    out = []
    for name, number, kw in (("plain", 1, {}), ("sticky", 2, {"affinity": 600}),
                             ("local", 3, {"etp": "Local", "kind": "LoadBalancer",
                                           "lb": (L.lb_ip(3, 4),),
                                           "ranges": ["203.0.113.0/24"]})):
        out.append(service(name, L.cluster_ip(number, 4), [port(80, "TCP", "t")], **kw))
        out.append(slice_(name, [entry(L.POD["pod1"][4], L.NODE_NAME)] +
                          [entry(L.remote(i, 4), "n2") for i in (number * 10, number * 10 + 1)],
                          [slice_port(8080, "TCP", "t")]))
    return out


# Name: how it is broken, how it is mended, what check_tables() says of it. {mark} leads to the plain
# service with destinations {a}, {b}, {pod}; {sticky} has {s}; {lb} is the local one's.
SERVICES = {
    "destination deleted":
        ("ipvsadm -d -f {mark} -r {a}:8080", "ipvsadm -a -f {mark} -r {a}:8080 -m -w 1",
         "instead of"),
    "weight changed":
        ("ipvsadm -e -f {mark} -r {b}:8080 -m -w 7", "ipvsadm -e -f {mark} -r {b}:8080 -m -w 1",
         "8080): 7"),
    "weight 0":
        ("ipvsadm -e -f {mark} -r {pod}:8080 -m -w 0",
         "ipvsadm -e -f {mark} -r {pod}:8080 -m -w 1", "instead of"),
    "destination added":
        ("ipvsadm -a -f {mark} -r 10.244.2.99:8080 -m", "ipvsadm -d -f {mark} -r 10.244.2.99:8080",
         "instead of"),
    "scheduler changed":
        ("ipvsadm -E -f {mark} -s wlc", "ipvsadm -E -f {mark} -s rr", "scheduler wlc"),
    "destination of a persistent service deleted":
        ("ipvsadm -d -t {sticky}:80 -r {s}:8080", "ipvsadm -a -t {sticky}:80 -r {s}:8080 -m -w 1",
         "instead of"),
    "affinity's time changed":
        ("ipvsadm -E -t {sticky}:80 -s rr -b flag-3 -p 77",
         "ipvsadm -E -t {sticky}:80 -s rr -b flag-3 -p 600", "affinity 77"),
    "service deleted":
        ("ipvsadm -D -f {outside}",
         "ipvsadm -A -f {outside} -s rr ; ipvsadm -a -f {outside} -r {pod}:8080 -m -w 1",
         "leads to no virtual service"),
}
ROUTING = {
    "rule deleted":
        ("ip rule del pref 102",
         "ip rule add pref 102 fwmark 0x5a000000/0xff000f00 lookup 23130 protocol 118", "the rule"),
    "route deleted":
        ("ip -6 route flush table 23130", "ip -6 route add local default dev lo table 23130 proto 118",
         "table 23130"),
}
# Of nf_tables, which notifies vipd at once (test_foreign.py).
ELEMENTS = {
    "frontend deleted":
        ("nft delete element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 }}",
         "nft add element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 : {mark} }}", "is missing"),
    "frontend led elsewhere":
        ("nft delete element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 }} ; "
         "nft add element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 : 0x5a7ff0fe }}",
         "nft delete element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 }} ; "
         "nft add element inet vipd-ipvs fe4 {{ {vip} . tcp . 80 : {mark} }}",
         "reject instead of"),
    "address deleted":
        ("nft delete element inet vipd-ipvs vips4 {{ {vip} }}",
         "nft add element inet vipd-ipvs vips4 {{ {vip} }}", "is missing"),
    "hairpin deleted":
        ("nft delete element inet vipd-ipvs hairpins4 {{ {a} . {a} }}",
         "nft add element inet vipd-ipvs hairpins4 {{ {a} . {a} }}", "endpoint_addrs"),
    "masquerading deleted":
        ("nft delete element inet vipd-ipvs masq_hosts4 {{ {lb} . tcp . 80 }}",
         "nft add element inet vipd-ipvs masq_hosts4 {{ {lb} . tcp . 80 }}", "masq_hosts"),
    "guard deleted":
        ("nft delete element inet vipd-ipvs guarded4 {{ {lb} . tcp . 80 }}",
         "nft add element inet vipd-ipvs guarded4 {{ {lb} . tcp . 80 : {guard} }}", "ranges"),
}


def words(vipd):
    held = vipd.tables(4)
    lb = L.lb_ip(3, 4)
    return {"vip": VIP, "sticky": STICKY, "lb": lb, "mark": held.fe[4, VIP, "TCP", 80],
            "outside": held.fe_out[4, lb, "TCP", 80], "guard": held.guarded[4, lb, "TCP", 80],
            "a": L.remote(10, 4), "b": L.remote(11, 4), "pod": L.POD["pod1"][4],
            "s": L.remote(20, 4)}


def does(lab, commands, held):
    for command in commands.format(**held).split(" ; "):
        lab.node.run(*command.split())


def differences(vipd):
    return vipd.differences() + vipd.routing_differences()


@pytest.mark.no_steady
def test_differences_are_seen(lab, vipd):
    """check_tables() of the ipvs plane can fail: without vipd, every damage is named, and nothing
    after its repair."""
    vipd.apply(objs())
    vipd.check_tables()
    vipd.kill()
    try:
        held = words(vipd)
        for name, (breaks, mends, said) in {**SERVICES, **ROUTING, **ELEMENTS}.items():
            does(lab, breaks, held)
            found = differences(vipd)
            assert any(said in f for f in found), "%s: %s" % (name, found)
            does(lab, mends, held)
        assert not differences(vipd)
    finally:
        vipd.start()
    assert vipd.status()["sync"]["writes"] == 0, "mended, and yet something was put right"


def put_right(vipd, timeout):
    start = time.monotonic()
    vipd.check_tables(timeout=timeout)
    return time.monotonic() - start


def test_audit_repairs_services(lab, vipd):
    """Several changes with ipvsadm at once: repaired by the next audit within its period, with one
    log line. Connections of other services continue."""
    vipd.apply(objs())
    vipd.check_tables()
    held = words(vipd)
    repairs = vipd.status()["sync"]["repairs"]
    for breaks, _, _ in SERVICES.values():
        does(lab, breaks, held)  # a slow machine's audit may come before the last of them
    took = put_right(vipd, AUDIT_S + 2)
    print("virtual services were as they should be after %.1f s" % took)
    assert vipd.status()["sync"]["repairs"] >= repairs + len(SERVICES) - 1
    assert "foreign changes repaired" in vipd.log()
    for addr in (VIP, STICKY, L.lb_ip(3, 4)):
        assert L.probe(lab.client, addr, 80).ok


@pytest.mark.no_steady
def test_all_services_deleted(lab, vipd):
    """ipvsadm -C, and the policy routing: the one by the audit, the other within ten seconds, or as
    soon as the ruleset changes."""
    vipd.apply(objs())
    vipd.check_tables()
    n, repairs = len(vipd.ipvs().services()), vipd.status()["sync"]["repairs"]
    assert n > 0
    lab.node.run("ip", "rule", "del", "pref", "101")
    lab.node.run("ip", "-6", "rule", "del", "pref", "103")
    lab.node.run("ip", "route", "flush", "table", "23130")
    lab.node.run("ipvsadm", "-C")  # a slow machine's audit may come before anybody can look
    took = put_right(vipd, 12)
    L.eventually(lambda: vipd.status()["sync"]["repairs"] >= repairs + n)
    print("virtual services and policy routing were back after %.1f s" % took)
    assert "policy routing: modified by another process; repaired" in vipd.log()
    for _ in range(3):
        for breaks, _, _ in ROUTING.values():
            does(lab, breaks, {})
        lab.node.run("nft", "add", "table", "ip", "innocent")
        try:
            took = put_right(vipd, 3)
            print("policy routing was back %.1f s after a change of the ruleset" % took)
        finally:
            lab.node.run("nft", "delete", "table", "ip", "innocent")
    assert L.probe(lab.client, VIP, 80).ok and L.probe(lab.client, STICKY, 80).ok


@pytest.mark.no_steady
def test_rules_deleted(lab, vipd):
    """Without the policy routing rules new connections get no answer instead of a reset."""
    vipd.apply(objs())
    vipd.check_tables()
    vipd.proc.send_signal(signal.SIGSTOP)
    try:
        does(lab, ROUTING["rule deleted"][0], {})
        assert L.probe(lab.client, VIP, 80, timeout=0.3 * L.SLOW).what == "timeout"
    finally:
        vipd.proc.send_signal(signal.SIGCONT)
    put_right(vipd, 3)
    assert L.probe(lab.client, VIP, 80).ok


def age(lab):
    """Make the table in force that of an older layout: another version, a chain less, and source
    ranges as intervals. nft puts it in one transaction; the same elements."""
    listing = lab.node.run("nft", "list", "table", "inet", ipvs.TABLE)
    assert VERSION in listing
    listing = re.sub(r"\tchain late \{.*?\n\t\}\n", "", listing.replace(VERSION, OLDER), flags=re.S)
    listing, n = re.subn(r"(\tset ranges[46] \{\n\t\ttype [^\n]*\n)", r"\1\t\tflags interval\n", listing)
    assert n == 2
    lab.node.run("nft", "-f", "-", input="delete table inet %s\n%s" % (ipvs.TABLE, listing))
    assert OLDER in lab.node.run("nft", "-t", "list", "table", "inet", ipvs.TABLE)


def remembered(lab):
    return sorted(lab.node.run("nft", "list", "map", "inet", ipvs.TABLE, "remembered4").split())


def test_older_layout(lab, vipd):
    """Another layout takes the place of the one in force, with its elements: no new connection
    fails, no established one is interrupted, and previous values of sysctls are kept."""
    more = [o for i in range(40) for o in (
        service("m%d" % i, L.cluster_ip(100 + i, 4), [port(80, "TCP", "t")]),
        slice_("m%d" % i, [L.remote(1 + i, 4), L.remote(2 + i, 4)],
               [slice_port(8080, "TCP", "t")]))]
    vipd.apply(objs() + more, timeout=10)
    vipd.check_tables()
    was = remembered(lab)
    vipd.kill()
    age(lab)
    load = lab.flow("client", "new", "--to", "tcp:%s:80" % VIP, "--to", "tcp:%s:80" % STICKY,
                    "--to", "tcp:%s:80" % L.cluster_ip(139, 4), "--rate", "200", "--concurrency",
                    "16")
    time.sleep(0.3)
    at = F.log_size(vipd)
    vipd.start()
    vipd.check_tables()
    load.more_ok(20)
    result = load.stop()
    assert result["failed"] == 0, result
    text = lab.node.run("nft", "-t", "list", "table", "inet", ipvs.TABLE)
    assert VERSION in text and "chain late" in text
    assert [x for x in F.log_from(vipd, at) if "will be replaced: it is of another layout" in x]
    assert remembered(lab) == was


@pytest.mark.no_steady
def test_sysctls_are_remembered(lab, vipd):
    """Previous values of sysctls outlive a replaced table: --cleanup restores them."""
    path = "/proc/sys/net/ipv4/vs/expire_nodest_conn"
    vipd.stop()
    lab.node.run(*vipd.argv(), "--cleanup")
    assert lab.node.run("cat", path).strip() == "0"
    vipd.start()
    vipd.apply(objs())
    was = remembered(lab)
    lab.node.run("nft", "flush", "ruleset")
    vipd.check_tables(timeout=5)
    assert remembered(lab) == was and lab.node.run("cat", path).strip() == "1"
    vipd.stop()
    lab.node.run(*vipd.argv(), "--cleanup")
    assert lab.node.run("cat", path).strip() == "0"
    vipd.start()


@pytest.mark.no_steady
def test_sysctls_repaired(lab, vipd):
    """Without net.ipv4.vs.conntrack nothing is masqueraded: a client outside gets no answer."""
    vipd.apply(objs())
    before = vipd.status()["sync"]["loads"]
    lab.node.sysctl(net__ipv4__vs__conntrack=0)
    path = "/proc/sys/net/ipv4/vs/conntrack"
    L.eventually(lambda: lab.node.run("cat", path).strip() == "1")
    L.eventually(lambda: "net.ipv4.vs.conntrack: changed to 0 by another process; repaired"
                 in vipd.log(), 3)
    assert L.probe(lab.client, VIP, 80).ok
    assert vipd.status()["sync"]["loads"] == before


@pytest.mark.no_steady
def test_scheduler_missing(lab, vipd):
    """The module of the default scheduler is not there: vipd says so and is not ready, what it
    served is served, and it goes on by itself when the module comes."""
    found = glob.glob("/lib/modules/%s/**/ip_vs_lblc.ko*" % os.uname().release, recursive=True)
    if not found or not os.path.exists("/job/run"):
        pytest.skip("a module is taken away: only in a machine of tests/vm")
    vipd.apply(objs())
    subprocess.run(["rmmod", "ip_vs_lblc"], capture_output=True, check=False)
    vipd.stop()
    vipd.flags["--ipvs-scheduler"] = "lblc"
    os.rename(found[0], found[0] + ".away")
    try:
        vipd.start(wait=False)
        said = "IPVS scheduler lblc is not loaded: modprobe ip_vs_lblc"
        L.eventually(lambda: any(said in p["text"] for p in vipd.status().get("problems", [])), 10)
        assert not vipd.status()["health"]["ready"]
        time.sleep(3)
        assert len([x for x in vipd.log(400).splitlines() if said in x]) == 1
        assert L.probe(lab.client, VIP, 80).ok
        os.rename(found[0] + ".away", found[0])
        subprocess.run(["modprobe", "ip_vs_lblc"], check=True)  # vipd does not let the kernel do it
        vipd.wait_ready(15)
        assert vipd.status()["health"]["ready"] and not vipd.status()["problems"]
    finally:
        if os.path.exists(found[0] + ".away"):
            os.rename(found[0] + ".away", found[0])
        del vipd.flags["--ipvs-scheduler"]
        vipd.stop()
        vipd.start()
