# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl doctor: every check of the node fails and passes in a namespace with wrong settings,
tables, links and sockets, with and without vipd. And changes of vipd's log levels at run time."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

import pytest

import foreigner as F
import lab as L
import objects as k8s
import planes

# test_ipvs_view.py makes them fail.
OF_THE_PLANE = {"nft": set(), "ipvs": {"ipvs-kernel", "policy-routing", "ipvs-sysctls",
                                       "ipvs-connections"}}
LEVELS = ["ok", "note", "warning", "error"]
VIP = L.cluster_ip(60, 4)
NODE_PORT = 30960
# Of "proxies" without another proxy: in a container, others can be invisible.
NO_PROXY = "ok" if os.readlink("/proc/self/ns/pid") == "pid:[4026531836]" else "note"
SERVICE = k8s.service("doc", [VIP, L.cluster_ip(60, 6)], [k8s.port(80, node_port=NODE_PORT)],
                      kind="NodePort")
SLICES = [k8s.slice_("doc", [L.POD["pod1"][fam]], [k8s.slice_port(8080)]) for fam in (4, 6)]


def doctor(vipd, *socket):
    """(exit code, {check: [result]}, the answer)"""
    r = vipd.lab.node.popen(L.program("vipctl"), *(socket or ("--socket", vipd.socket)), "doctor",
                            "--timeout", str(int(L.LIMIT)), "-o", "json", stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    out, err = r.communicate(timeout=L.LIMIT)
    assert not err, err
    answer = json.loads(out)
    checks = {}
    for result in answer["results"]:
        checks.setdefault(result["check"], []).append(result)
    return r.returncode, checks, answer


def worst(results):
    return max((r["level"] for r in results), key=LEVELS.index)


def expect(vipd, check, level, *words):
    """Assert that the check's worst result has this level and contains all words, advice
    included."""
    _, checks, _ = doctor(vipd)
    assert worst(checks[check]) == level, checks[check]
    report = [r for r in checks[check] if r["level"] == level]
    text = " ".join("%s %s" % (r["found"], r["advice"]) for r in report)
    for word in words:
        assert word in text, (word, report)
    if level in ("warning", "error"):
        assert all(r["advice"] for r in report), report


def nft(vipd, text):
    p = vipd.lab.node.popen("nft", "-f", "-", stdin=subprocess.PIPE)
    p.communicate(text.encode(), timeout=L.LIMIT)
    assert p.returncode == 0


def ip(vipd, *args):
    vipd.lab.node.run("ip", *args)


def test_all_is_shown(lab, vipd):
    vipd.apply([SERVICE] + SLICES)
    code, checks, answer = doctor(vipd)
    assert answer["by"] == "vipd" and answer["pid"] == vipd.proc.pid
    assert set(checks) == {"kernel", "nftables", "capabilities", "forwarding", "input-policy",
                           "forward-policy",
                           "rp-filter", "localnet", "bridge", "conntrack", "invalid", "proxies", "tables",
                           "ipvs", "addresses", "listeners", "clock", "files", "netlink",
                           "memory", "node"} | OF_THE_PLANE[planes.PLANE]
    for check in ("kernel", "nftables", "capabilities", "forwarding", "localnet", "conntrack",
                  "tables", "ipvs", "addresses", "listeners", "netlink"):
        assert worst(checks[check]) == "ok", checks[check]
    assert "accepts the whole ruleset" in checks["nftables"][0]["found"]
    assert code == {"ok": 0, "note": 0, "warning": 1, "error": 2}[answer["worst"]]
    text = vipd.ctl("doctor", check=False).splitlines()
    assert text[0].split() == ["LEVEL", "CHECK", "FOUND"]
    assert [line.split()[:2] for line in text[1:1 + len(answer["results"])]] == \
        [[r["level"], r["check"]] for r in answer["results"]]


def test_alone_it_sees_the_same(lab, vipd):
    _, checks, answer = doctor(vipd, "--socket", "/nowhere/control.sock")
    assert answer["by"] == "vipctl" and "/nowhere/control.sock" in answer["vipd"]
    _, theirs, _ = doctor(vipd)
    mine = {c: [(r["level"], r["found"]) for r in rs] for c, rs in checks.items()}
    theirs = {c: [(r["level"], r["found"]) for r in rs] for c, rs in theirs.items()}
    for check in ("conntrack", "files", "memory"):  # figures that move, or are of the process
        assert mine.pop(check) and theirs.pop(check)
    assert theirs.pop("node") == [("ok", 'there is a Node object named "%s"' % L.NODE_NAME)]
    assert mine == theirs


def test_trying_leaves_nothing(lab, vipd):
    """The generation of the ruleset stays, and so do the tables."""
    before = vipd.lab.node.run("nft", "list", "ruleset")
    genid = vipd.nft.genid()
    doctor(vipd)
    assert vipd.lab.node.run("nft", "list", "ruleset") == before
    assert vipd.nft.genid() == genid


def test_busy_neighbour(lab, vipd):
    """Beside another process that commits permanently each list of tables and chains is
    interrupted; the tables are read nevertheless."""
    nft(vipd, "table ip busy { %s }" % " ".join("chain c%d { };" % i for i in range(20000)))
    other = F.Foreigner(lab.node)
    stop, genid = threading.Event(), vipd.nft.genid()

    def commit():
        while not stop.is_set():
            other.add_table(4, "neighbour")
            other.delete_table(4, "neighbour")
    thread = threading.Thread(target=commit)
    thread.start()
    try:
        for _ in range(5):
            _, checks, _ = doctor(vipd, "--socket", "/nowhere/control.sock")
            assert worst(checks["tables"]) == "ok", checks["tables"]
        assert vipd.nft.genid() > genid + 10
    finally:
        stop.set()
        thread.join()
        other.close()
        nft(vipd, "delete table ip busy")


def test_sysctls(lab, vipd):
    lab.node.sysctl(net__ipv4__conf__all__rp_filter=1)
    expect(vipd, "rp-filter", "note", "strict on", "br0")
    lab.node.sysctl(net__ipv4__conf__all__rp_filter=2)
    expect(vipd, "rp-filter", "ok", "off or loose")
    lab.node.sysctl(net__ipv4__conf__all__route_localnet=1)
    expect(vipd, "localnet", "warning", "routed on all", "route_localnet=0")
    lab.node.sysctl(net__ipv4__conf__all__route_localnet=0)
    expect(vipd, "localnet", "ok")
    lab.node.sysctl(net__netfilter__nf_conntrack_tcp_be_liberal=1)
    expect(vipd, "invalid", "ok", "outside of the TCP window are valid")
    lab.node.sysctl(net__netfilter__nf_conntrack_tcp_be_liberal=0)
    expect(vipd, "invalid", "ok", "outside of the TCP window are INVALID")


def test_input_policy(lab, vipd):
    """Probes of health check node ports pass the input hook."""
    expect(vipd, "input-policy", "ok")
    nft(vipd, "table inet host { chain input { type filter hook input priority 0; policy drop; "
              "ct state established,related accept; iifname lo accept; }; }")
    expect(vipd, "input-policy", "note", "chain input of table host", "healthCheckNodePort")
    nft(vipd, "delete table inet host")
    expect(vipd, "input-policy", "ok")


# Mode ipvs: only replies pass the forward hook, and their conntrack entries have no status DNAT.
FORWARDED = {"nft": {"ct status dnat accept"},
             "ipvs": {"ct state { established, related } accept",
                      "ct state vmap { established : accept, invalid : drop }"}}
FOR_BOTH = {"ct state new,established,related counter accept",
            "ct state new accept; ct state established accept", "ip daddr 10.244.0.0/16 accept",
            "ip saddr 10.244.0.0/17 accept", "ip daddr { 10.244.0.0/16 } accept"}
FOR_NONE = {"ct state invalid drop", "ct state established log", "ip daddr 10.244.1.11 accept",
            "iifname cl0 ct status dnat accept", "ip daddr != 10.244.0.0/16 accept",
            "meta mark & 0x4000 == 0x4000 accept", "ct state established ip saddr 10.244.0.0/16 accept"}


@pytest.mark.parametrize("close", ["policy drop; %s", "%s; counter reject", "%s; jump first", "%s; goto first"])
def test_forward_policy(lab, vipd, close):
    """The chain accepts all packets by a rule that is not recognised, for the steady flows."""
    expect(vipd, "forward-policy", "ok")
    good = FORWARDED[planes.PLANE] | FOR_BOTH
    for rule in sorted(good | FOR_NONE | FORWARDED["nft"] | FORWARDED["ipvs"]):
        nft(vipd, "table ip host { chain second { counter drop; }; chain first { jump called; goto second; }; "
                  "chain called { %s; }; chain forward { type filter hook forward "
                  "priority 0; meta mark != 0xdead accept; jump called; %s; }; }" %
            (rule, close % "counter"))
        if rule in good:
            expect(vipd, "forward-policy", "ok")
        else:
            expect(vipd, "forward-policy", "warning", "chain forward of table host", "-I FORWARD")
        nft(vipd, "delete table ip host")
    nft(vipd, "table ip host { chain first { drop; }; chain called { ip saddr 10.0.0.0/8 accept; }; chain in { type filter hook input priority "
              "0; jump called; }; chain forward { type filter hook forward priority 0; meta mark != 0xdead accept; %s; "
              "}; }" % close % "counter")
    expect(vipd, "forward-policy", "warning", "chain forward of table host")
    nft(vipd, "delete table ip host")


@pytest.mark.parametrize("rest", ["meta mark 0xdead jump first", "jump empty", "return; jump first", "goto back",
                                  "meta mark set meta mark; jump back"])
def test_forward_policy_open(lab, vipd, rest):
    """No rule drops all packets: a condition, a return, or no drop at all is on the way."""
    nft(vipd, "table ip host { chain empty { }; chain first { drop; }; chain back { ip saddr 10.0.0.0/8 counter; "
              "counter return; drop; }; chain forward { type filter hook forward priority 0; %s; }; }" % rest)
    expect(vipd, "forward-policy", "ok")
    nft(vipd, "delete table ip host")


def documented(chain, word=""):
    """The command of doc/troubleshooting.md that accepts packets in this chain."""
    with open(os.path.join(L.ROOT, "doc/troubleshooting.md"), encoding="utf-8") as f:
        lines = re.findall(r"^ {4}(iptables -I %s .*?)(?: +# (.*))?$" % chain, f.read(), re.M)
    return next(command for command, comment in lines if word in comment)


@contextlib.contextmanager
def closed(vipd, tool, close):
    vipd.lab.node.run(tool + "-nft", *close.split())
    try:
        yield
    finally:
        nft(vipd, "delete table %s filter" % {"iptables": "ip", "ip6tables": "ip6"}[tool])


@pytest.mark.no_steady
@pytest.mark.parametrize("close", ["-P FORWARD DROP", "-A FORWARD -j REJECT"])
@pytest.mark.parametrize("fam", [4, 6])
def test_documented_forward_rule(lab, vipd, fam, close):
    tool = {4: "iptables", 6: "ip6tables"}[fam]
    command = documented("FORWARD", {"nft": "nftables", "ipvs": "ipvs"}[planes.PLANE])
    vip = {4: VIP, 6: L.cluster_ip(60, 6)}[fam]
    vipd.apply([SERVICE] + SLICES)
    with closed(vipd, tool, close):
        assert not L.probe(lab.client, vip, 80, timeout=1.5).ok
        expect(vipd, "forward-policy", "warning", "chain FORWARD of table filter",
               command.replace("iptables", tool))
        lab.node.run(tool + "-nft", *command.split()[1:])
        assert all(L.probe(lab.client, vip, 80).ok for _ in range(4))
        expect(vipd, "forward-policy", "ok")


@pytest.mark.no_steady
def test_documented_input_rule(lab, vipd):
    health = 30961
    vipd.apply([k8s.service("health", L.cluster_ip(61, 4), 80, kind="LoadBalancer", etp="Local",
                            health_port=health),
                k8s.slice_("health", [L.POD["pod1"][4]], 8080)])

    def is_open():
        with lab.client.socket() as s:
            s.settimeout(1.5)
            return s.connect_ex((L.NODE[4], health)) == 0
    L.eventually(is_open, L.PATIENCE, "no health check node port")
    with closed(vipd, "iptables", "-P INPUT DROP"):
        lab.node.run("iptables-nft", "-A", "INPUT", "-j", "DROP")
        assert not is_open()
        lab.node.run("iptables-nft", *documented("INPUT").split()[1:])
        assert is_open()
    vipd.apply([SERVICE] + SLICES)


def test_bridge(lab, vipd):
    """The pods pod1 to pod3 are connected to br0."""
    path = "net__bridge__bridge-nf-call-iptables"
    if not os.path.exists("/proc/sys/net/bridge"):
        expect(vipd, "bridge", "warning", "br_netfilter is not loaded", "modprobe")
        return
    lab.node.sysctl(**{path: 0})
    expect(vipd, "bridge", "warning", "bridge br0", "bridge-nf-call-iptables is 0")
    lab.node.sysctl(**{path: 1, path.replace("iptables", "ip6tables"): 1})
    expect(vipd, "bridge", "ok", "bridge br0", "netfilter sees its packets")


def test_owners_of_addresses(lab, vipd):
    expect(vipd, "addresses", "ok")
    ip(vipd, "addr", "add", VIP + "/32", "dev", "lo")
    expect(vipd, "addresses", "warning", "cluster IP %s" % VIP, "on lo", "ip addr del")
    ip(vipd, "addr", "del", VIP + "/32", "dev", "lo")
    with lab.node.socket() as s:
        s.bind((L.NODE[4], NODE_PORT))
        s.listen()
        expect(vipd, "listeners", "warning", "%s:%d/TCP" % (L.NODE[4], NODE_PORT), "ss -lntup")
    with lab.node.socket() as s:
        s.bind(("127.0.0.1", NODE_PORT))
        s.listen()
        expect(vipd, "listeners", "ok")


def test_addresses_of_the_other_plane(lab, vipd):
    """Addresses of the ipvs plane's table are vipd's, too."""
    nft(vipd, 'table inet vipd-ipvs { comment "vipd ipvs layout 3"; '
              "set cluster_ips4 { type ipv4_addr; elements = { 198.51.100.77 }; }; }")
    ip(vipd, "addr", "add", "198.51.100.77/32", "dev", "lo")
    expect(vipd, "addresses", "warning", "cluster IP 198.51.100.77", "on lo")
    expect(vipd, "tables", "note", "2 tables of vipd for")
    ip(vipd, "addr", "del", "198.51.100.77/32", "dev", "lo")
    nft(vipd, "delete table inet vipd-ipvs")
    expect(vipd, "tables", "ok")


def test_tables_without_services(lab, vipd):
    """Tables of failover and of `vipctl trace --live` are neither foreign nor of a second vipd."""
    tables = {"vipd-failover": "vipd failover 5", "vipd-trace": "vipctl trace 1"}
    for name, comment in tables.items():
        nft(vipd, 'table ip %s { comment "%s"; chain c { type nat hook prerouting priority -150; '
                  "ip daddr 203.0.113.77 tcp dport 1 dnat to 203.0.113.78; }; }" % (name, comment))
    try:
        expect(vipd, "tables", "ok")
        _, checks, _ = doctor(vipd, "--socket", "/nowhere/control.sock")
        assert OF_THE_PLANE[planes.PLANE] <= set(checks)
    finally:
        for name in tables:
            nft(vipd, "delete table ip " + name)


def test_other_proxies(lab, vipd):
    expect(vipd, "proxies", NO_PROXY)
    ip(vipd, "link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "kube-peer")
    expect(vipd, "proxies", "warning", "kube-ipvs0", "ip link del")
    ip(vipd, "link", "del", "kube-ipvs0")
    nft(vipd, "table ip nat { chain KUBE-SERVICES { ip daddr %s counter; }; "
              "chain PREROUTING { type nat hook prerouting priority -100; "
              "jump KUBE-SERVICES; }; }" % VIP)
    expect(vipd, "proxies", "warning", "KUBE-SERVICES in table ip nat", "vipd --cleanup=kube-proxy")
    expect(vipd, "tables", "warning", "such as %s in chain KUBE-SERVICES" % VIP)
    nft(vipd, "delete table ip nat")
    nft(vipd, "table ip6 kube-proxy { }")
    expect(vipd, "proxies", "warning", "table ip6 kube-proxy")
    nft(vipd, "delete table ip6 kube-proxy")
    expect(vipd, "proxies", NO_PROXY)


def test_a_process_of_another_proxy(lab, vipd):
    with tempfile.TemporaryDirectory() as where:
        shutil.copy("/bin/sleep", where + "/kube-proxy")
        elsewhere = lab.client.popen(where + "/kube-proxy", "60")
        expect(vipd, "proxies", NO_PROXY)  # of another network
        elsewhere.kill()
        proxy = lab.node.popen(where + "/kube-proxy", "60")
        expect(vipd, "proxies", "error", "kube-proxy runs (process %d)" % proxy.pid)
        code, _, _ = doctor(vipd)
        assert code == 2
        proxy.kill()
        proxy.wait()
    # Inside k3s it is seen by the port it listens on; one process more of that name has none.
    script = ("import socket, time; open('/proc/self/comm', 'w').write('k3s-server'); "
              "s = socket.create_server(('127.0.0.9', %d)); print('ready', flush=True); "
              "time.sleep(600)")
    procs = [lab.node.popen("/usr/bin/python3", "-c", script % port, stdout=subprocess.PIPE)
             for port in (10248, 10249)]
    try:
        for p in procs:
            p.stdout.readline()
        expect(vipd, "proxies", "error",
               "kube-proxy runs inside k3s-server (process %d)" % procs[1].pid)
    finally:
        for p in procs:
            p.kill()
            p.wait()
            p.stdout.close()
    expect(vipd, "proxies", NO_PROXY)


def test_foreign_tables(lab, vipd):
    nft(vipd, "table ip early { chain c { type nat hook prerouting priority -150; "
              "ip daddr 203.0.113.77 tcp dport 1 dnat to 203.0.113.78; }; }")
    expect(vipd, "tables", "warning", "table ip early translates destinations before vipd")
    nft(vipd, "delete table ip early")
    nft(vipd, "table ip late { chain c { type nat hook prerouting priority -90; "
              "ip daddr 203.0.113.77 tcp dport 1 dnat to 203.0.113.78; }; }")
    expect(vipd, "tables", "note", "after vipd's" if planes.PLANE == "nft" else "has NAT chains")
    nft(vipd, "delete table ip late")
    nft(vipd, "table inet vipd { }")
    expect(vipd, "tables", "note", "table inet vipd is not vipd's")
    nft(vipd, "delete table inet vipd")
    expect(vipd, "tables", "ok", "no other table")


def run_without_rights(lab, *args):
    p = lab.node.popen("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                       "--bounding-set=-all", "--inh-caps=-all", L.program("vipctl"), "--socket",
                       "/nowhere", *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=L.LIMIT)
    return p.returncode, out, err


def test_reading_the_kernel_without_rights(lab, vipd):
    code, _, err = run_without_rights(lab, "svc", "--kernel")
    assert code == 1 and "run as root or with CAP_NET_ADMIN" in err


def test_without_rights(lab, vipd):
    """vipctl without any capability reports that."""
    code, out, _ = run_without_rights(lab, "doctor", "-o", "json")
    levels = {r["check"]: r["level"] for r in json.loads(out)["results"]}
    assert code == 2
    assert levels["capabilities"] == "error" and levels["nftables"] == "error"
    assert levels["tables"] == "error" and levels["netlink"] == "warning"


def test_tried_where_traffic_flows(lab, vipd):
    """Without the right to create a namespace, features are tried in the current one, in a
    transaction that is rejected."""
    before = vipd.lab.node.run("nft", "list", "ruleset")
    genid = vipd.nft.genid()
    for _ in range(3):
        p = lab.node.popen("setpriv", "--bounding-set=-sys_admin", L.program("vipctl"), "--socket",
                           "/nowhere", "doctor", "-o", "json", stdout=subprocess.PIPE, text=True)
        out, _ = p.communicate(timeout=L.LIMIT)
        found = {r["check"]: r for r in json.loads(out)["results"]}
        assert found["nftables"]["level"] == "note", found["nftables"]
        assert "was not tested" in found["nftables"]["found"]
    assert vipd.lab.node.run("nft", "list", "ruleset") == before
    assert vipd.nft.genid() == genid


def test_warnings_are_logged_once(lab, vipd):
    """Counted by the metric, which has lines that the log's limit suppresses after other tests."""
    def warnings():
        with lab.node.entered():
            text = urllib.request.urlopen("http://127.0.0.1:10249/metrics",
                                          timeout=L.PATIENCE).read().decode()
        return int(re.search(r'^vipd_log_lines_total\{level="warning"\} (\d+)$', text, re.M).group(1))
    doctor(vipd)
    before = warnings()
    lab.node.sysctl(net__ipv4__conf__all__route_localnet=1)
    try:
        assert worst(doctor(vipd)[1]["localnet"]) == "warning"
        doctor(vipd)
    finally:
        lab.node.sysctl(net__ipv4__conf__all__route_localnet=0)
    assert warnings() == before + 1


def run_of(vipd):
    """Pid of the process that checks for vipd; None: no run."""
    with open("/proc/%d/task/%d/children" % (vipd.proc.pid, vipd.proc.pid), encoding="ascii") as f:
        for child in f.read().split():
            with contextlib.suppress(OSError), open("/proc/%s/comm" % child, "rb") as comm:
                if comm.read() == b"vipd-check\n":
                    return int(child)
    return None


def look(vipd):
    return vipd.lab.node.popen(L.program("vipctl"), "--socket", vipd.socket, "doctor",
                               stdout=subprocess.PIPE, text=True)


def test_run_dies(vipd):
    """A run that is killed is a result; the next run is not affected."""
    doctor(vipd)  # the run at the start is over

    def killed():
        pid = run_of(vipd)
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid

    def shown():
        p = look(vipd)
        L.eventually(killed, L.PATIENCE, "no run of checks")
        return "check process: killed by signal 9" in p.communicate(timeout=L.LIMIT)[0]
    # A run may end before it is killed.
    L.eventually(shown, L.PATIENCE, "no run was killed before its end")
    _, checks, _ = doctor(vipd)
    assert "kernel" in checks and "doctor" not in checks
    assert run_of(vipd) is None  # no process stays


@contextlib.contextmanager
def stopped_run(vipd):
    """Pid of a run that is stopped, and the vipctl that waits for it."""
    def stopped():
        p = look(vipd)
        pid = L.eventually(lambda: run_of(vipd), L.PATIENCE, "no run of checks")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(0.05)
        if run_of(vipd) == pid and p.poll() is None:
            return pid, p
        p.communicate(timeout=L.LIMIT)
        return None
    doctor(vipd)  # the run at the start is over
    pid, p = L.eventually(stopped, L.PATIENCE, "no run was stopped before its end")
    try:
        yield pid, p
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        p.communicate(timeout=L.LIMIT)


def test_looking_does_not_stop_the_loop(vipd):
    """While a run is stopped, others wait for it, and the control socket answers."""
    with stopped_run(vipd) as (_, first):
        looks = [first, look(vipd), look(vipd)]
        for _ in range(20):
            assert vipd.get("/v1/log")["api"] == 1
        assert all(p.poll() is None for p in looks), "the looks did not wait for the run"
    for p in looks[1:]:
        assert "check process" not in p.communicate(timeout=L.LIMIT)[0]


def test_run_ends_with_vipd(vipd):
    for end in (vipd.stop, vipd.kill):
        with stopped_run(vipd) as (pid, _):
            run = os.pidfd_open(pid)
            try:
                end()
                assert select.select([run], [], [], L.LIMIT)[0], "the run does not end"
            finally:
                os.close(run)
        vipd.start()


def test_program_was_deleted(vipd, tmp_path, monkeypatch):
    """As by an upgrade, until vipd restarts."""
    argv = [shutil.copy(L.program("vipd"), tmp_path)] + vipd.argv()[1:]
    vipd.stop()
    monkeypatch.setattr(vipd, "argv", lambda: argv)
    vipd.start()
    os.unlink(argv[0])
    _, checks, answer = doctor(vipd)
    assert answer["by"] == "vipd" and "kernel" in checks and "doctor" not in checks
    vipd.stop()
    monkeypatch.undo()
    vipd.start()


def test_ignored_sigchld(lab):
    """vipctl of a program that ignores SIGCHLD."""
    script = ("import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
              "os.execv(sys.argv[1], sys.argv[1:])")
    p = lab.node.popen("/usr/bin/python3", "-c", script, L.program("vipctl"), "--socket", "/nowhere",
                       "doctor", stdout=subprocess.PIPE, text=True)
    out = p.communicate(timeout=L.LIMIT)[0]
    assert " kernel " in out and "check process" not in out


def test_log_levels(lab, vipd):
    def levels():
        return {line.split()[0]: line.split()[1]
                for line in vipd.ctl("log").splitlines()[1:]}
    assert set(levels().values()) == {"notice"}
    vipd.ctl("log", "sync", "debug")
    assert levels()["sync"] == "debug" and levels()["plane"] == "notice"
    assert "log level of sync: debug" in vipd.log()
    vipd.ctl("log", "all", "notice")
    assert set(levels().values()) == {"notice"}
    for args, word in ((("moon", "debug"), "area: 'moon'"), (("sync", "loud"), "level: 'loud'"),
                       (("sync",), "AREA and LEVEL")):
        r = subprocess.run([L.program("vipctl"), "--socket", vipd.socket, "log", *args],
                           capture_output=True, text=True, timeout=L.LIMIT, check=False)
        assert r.returncode == 2 and word in r.stderr, r.stderr


def test_many_bad_documents(lab, vipd):
    """The log has the first lines, then the number of suppressed ones and the command that lists
    them."""
    docs = [json.dumps(dict(k8s.service("bad%d" % i, [L.cluster_ip(100, 4)], [k8s.port(80)]),
                            spec={"clusterIP": L.cluster_ip(100, 4),
                                  "ports": [{"port": 0}]})) for i in range(60)]
    vipd.manifests.put("many.yaml", "\n---\n".join(docs))
    L.eventually(lambda: "50 more lines like" in vipd.log(200), 10, lambda: vipd.log(30))
    line = [line for line in vipd.log(200).splitlines() if "50 more lines like" in line]
    assert len(line) == 1 and "see vipctl status -o json" in line[0]
    assert vipd.status()["source"]["errors"]["count"] == 60
    vipd.manifests.empty("many.yaml")
    vipd.apply()


def test_notes_are_no_problem(lab, vipd):
    """An object of a kind that is not read, and an entry that was left out: reported, without a
    problem."""
    vipd.manifests.put("deployment.yaml", json.dumps(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}))
    L.eventually(lambda: vipd.status()["source"]["notes"]["count"] == 1, 5, vipd.log)
    text = vipd.ctl("status")  # which fails unless it ends with 0
    assert "NOTES" in text and "Deployment" in text
    vipd.manifests.empty("deployment.yaml")
    vipd.apply()
