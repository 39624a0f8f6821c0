# SPDX-License-Identifier: GPL-2.0-or-later
"""The operator's view of the ipvs plane: diff and svc --kernel read maps, virtual services and
policy routing without vipd, trace shows weights and schedulers as packets meet them, the page
shows draining backends, the doctor missing functions of the node."""
import collections
import json
import subprocess

import pytest

import ipvs as I
import lab as L
from objects import entry, port, service, slice_, slice_port
from shop import Svc
from test_vipctl_trace import followed, live

FLAGS = {"--ipvs-drain-timeout": "10m", "--v": "2"}
KINDS = [
    Svc("plain", 51),
    Svc("local", 52, etp="Local"),
    Svc("none", 54, "none"),
    Svc("ranges", 55, ranges=["203.0.113.0/25", "2001:db8:1::/120"]),
    Svc("sticky", 57, affinity=600, etp="Local"),
]
VIP = L.cluster_ip(60, 4)
KEY = L.endpoint(VIP, 80) + "/TCP"


def web(*eps, **notes):
    """A service of its own with weights 3, 1, 0 by wrr, unless said otherwise."""
    notes = notes or {"vipd.io/scheduler": "wrr", "vipd.io/weights": "%s=3,%s=0" % (
        L.remote(1, 4), L.remote(3, 4))}
    obj = service("web", [VIP], [port(80, "TCP", "t")])
    obj["metadata"]["annotations"] = notes
    return [obj, slice_("web", [entry(L.remote(e, 4), "n2") for e in eps],
                        [slice_port(8080, "TCP", "t")])]


def shelf():
    return [o for s in KINDS for o in s.objects()]


def vipctl(vipd, *args):
    with vipd.lab.node.entered():
        return subprocess.run([L.program("vipctl"), "--socket", vipd.socket,
                               "--timeout", str(int(L.LIMIT))] + list(args),
                              capture_output=True, text=True, timeout=L.LIMIT, check=False)


def line_of(text, key=KEY):
    lines = [l for l in text.splitlines() if l.startswith(key + " ")]
    assert len(lines) == 1, text
    return lines[0]


def test_every_field_is_shown(lab, vipd):
    """A line for each frontend, with backends, weights, affinity, scheduler, draining backends,
    and equal words from vipd, from the manifests, and from the kernel when there is no vipd."""
    vipd.apply(shelf() + web(1, 2, 3))
    r = vipctl(vipd, "diff")
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    args = ["diff", "--manifests", vipd.manifests.path, "--node", L.NODE_NAME]
    r = vipctl(vipd, *args)
    assert (r.returncode, r.stdout) == (0, ""), r.stdout + r.stderr
    r = vipctl(vipd, *args, "--ipvs-scheduler", "lc")
    assert r.returncode == 1 and "scheduler=lc" in r.stdout and "default/web" not in r.stdout
    text = vipctl(vipd, "svc", "--kernel").stdout
    assert line_of(text) == "%s cluster-ip -> %s:8080=3 %s:8080 scheduler=wrr" % (
        KEY, L.remote(1, 4), L.remote(2, 4))
    assert line_of(text, L.endpoint(L.lb_ip(57, 4), 80) + "/TCP") == (
        "%s/TCP masq=host -> %s:8080 affinity=600s scheduler=rr; inside -> %s:8080 %s:8080 "
        "scheduler=mh,mh-fallback" % (L.endpoint(L.lb_ip(57, 4), 80), L.POD["pod1"][4],
                                      L.POD["pod1"][4], L.remote(1, 4)))
    assert "IPv4/rule/102 fwmark 0x5a000000/0xff000f00 lookup 23130" in text.splitlines()
    report = json.loads(vipctl(vipd, "svc", "--kernel", "-o", "json").stdout)
    assert report["plane"] == "ipvs" and len(report["routing"]) == 10
    assert not [f for f in report["frontends"] if any(w.isupper() and "-" in w for w in f.split())]
    bundle = json.loads(vipctl(vipd, "dump", "--bundle").stdout)
    assert bundle["kernel_frontends"] == report["frontends"] and bundle["kernel_plane"] == "ipvs"
    r = vipctl(vipd, "svc", "--kernel", "--plane", "nftables")
    assert (r.returncode, r.stdout) == (0, "") and "no table" in r.stderr


BREAKAGES = [
    # One after the other: what is broken stays so.
    ("weight", lambda mark: ["ipvsadm", "-e", "-f", mark, "-r", L.remote(2, 4) + ":8080", "-m",
                             "-w", "9"], KEY, " %s:8080=9 " % L.remote(2, 4)),
    ("missing", lambda mark: ["ipvsadm", "-d", "-f", mark, "-r", L.remote(1, 4) + ":8080"],
     KEY, "+ -> %s:8080=9 " % L.remote(2, 4)),
    ("too many", lambda mark: ["ipvsadm", "-a", "-f", mark, "-r", "10.244.2.99:1", "-m"],
     KEY, " 10.244.2.99:1(NOT-IN-HAIRPINS) "),
    ("scheduler", lambda mark: ["ipvsadm", "-E", "-f", mark, "-s", "lc"], KEY, "scheduler=lc"),
    ("rule", lambda mark: ["ip", "rule", "del", "priority", "101"], "IPv4/rule/101", "iif lo goto"),
    ("route", lambda mark: ["ip", "-6", "route", "flush", "table", "23130"], "IPv6/table/23130", "local"),
    ("frontend", lambda mark: ["nft", "delete", "element", "inet", "vipd-ipvs", "fe4",
                               "{ %s . tcp . 80 }" % VIP], KEY, "- ->"),
    ("wrong pool", None, KEY, "+ -> %s:8080 " % L.POD["pod1"][4]),
]


@pytest.mark.no_steady
def test_problems_are_shown(lab, vipd):
    """Each kind of damage is named at its place, and nothing else; a start repairs it."""
    vipd.apply(shelf() + web(1, 2, 3))
    svc = I.Ipvs(lab.node)
    try:
        marks = {s.mark for s in svc.services()
                 if {at for at, d in svc.dests(s).items() if d.weight} ==
                 {(L.remote(i, 4), 8080) for i in (1, 2)}}
    finally:
        svc.close()
    mark = str(marks.pop())
    other = line = None
    for line in lab.node.run("nft", "list", "map", "inet", "vipd-ipvs", "fe4").split(","):
        if L.cluster_ip(51, 4) + " . tcp . 80 " in line:
            other = line.split(":")[1].split()[0]
    vipd.kill()     # it would repair
    try:
        whole = vipctl(vipd, "svc", "--kernel").stdout.splitlines()
        for name, command, key, said in BREAKAGES:
            before = vipctl(vipd, "svc", "--kernel").stdout.splitlines()
            if command is not None:
                lab.node.run(*command(mark))
            else:
                lab.node.run("nft", "add", "element", "inet", "vipd-ipvs", "fe4",
                             "{ %s . tcp . 80 : %s }" % (VIP, other))
            r = vipctl(vipd, "diff", "--manifests", vipd.manifests.path, "--node", L.NODE_NAME)
            assert r.returncode == 1, (name, r.stdout, r.stderr)
            report = r.stdout.split("\n" + key + "  ")[1]
            assert said in report, (name, r.stdout)
            after = vipctl(vipd, "svc", "--kernel").stdout.splitlines()
            changed = {l.split()[0] for l in set(before) ^ set(after)}
            assert key in changed, (name, changed)
            assert changed <= {key, "mark/0x%x/IPv4" % int(mark)}, (name, changed)
    finally:
        vipd.start()
    assert vipctl(vipd, "diff").returncode == 0
    # Connections of the pool without a frontend may still end.
    assert [l for l in vipctl(vipd, "svc", "--kernel").stdout.splitlines()
            if not l.startswith("mark/")] == whole


def trace(vipd, *more):
    return json.loads(vipctl(vipd, "trace", L.CLIENT[4], L.endpoint(VIP, 80), "-o", "json",
                             *more).stdout)


def test_trace_and_packets(lab, vipd):
    """Shares are the weights for wrr; a backend with weight 0 or a draining one is reached by no
    connection, and shown so."""
    vipd.apply(shelf() + web(1, 2, 3, 4))
    vipd.apply(shelf() + web(1, 2, 3))      # 4 leaves, or has left
    report = trace(vipd)
    assert report["service"]["scheduler"] == "wrr"
    chances = {e["address"]: e["probability"] for e in report["endpoints"]}
    assert chances == {L.remote(1, 4): 0.75, L.remote(2, 4): 0.25, L.remote(3, 4): 0}
    assert [e["reason"] for e in report["endpoints"] if not e["used"]] == ["weight 0"]
    met = collections.Counter(L.probe(lab.client, VIP, 80).backend for _ in range(24))
    assert set(met) == {L.remote(1, 4), L.remote(2, 4)}
    assert 16 <= met[L.remote(1, 4)] <= 20, met     # 18, if a round had begun at the first
    page = vipctl(vipd, "svc", "default/web").stdout
    assert "scheduler wrr" in page and "WEIGHT" in page
    vipd.apply(shelf() + web(1, 2, 3, **{"vipd.io/scheduler": "wlc"}))
    assert {e["probability"] for e in trace(vipd)["endpoints"]} == {None}
    assert "scheduler wlc" in vipctl(vipd, "trace", L.CLIENT[4], L.endpoint(VIP, 80)).stdout


def test_live(lab, vipd):
    """The rules of this plane's table, by the packet, and the endpoint that IPVS chose."""
    vipd.apply(shelf() + web(2))
    p = live(vipd, L.CLIENT[4], L.endpoint(VIP, 80), "--live=600")
    assert L.probe(lab.client, VIP, 80, source=L.CLIENT[4]).ok
    lines = followed(p, 1, "-> %s:8080" % L.remote(2, 4))
    assert ["vipd-ipvs", "pre", "jump", "assign4"] in [l.split() for l in lines], lines
    assert any(l.startswith("packet ") and l.endswith("-> %s:8080" % L.remote(2, 4)) for l in lines), lines


def active_of(vipd, i):
    """Connections of the draining backend `i` of the service `web`, if it drains."""
    return [d["active"] for d in vipd.get("/v1/services/default/web")["draining"]
            if d["address"] == L.remote(i, 4)]


def test_first_second(lab, vipd):
    """The number of connections of a draining backend is shown after the first check."""
    vipd.apply(shelf() + web(1, 2))
    conns, backends = [], []
    while L.remote(2, 4) not in backends:
        conn, r = L.connect(lab.client, VIP, 80, timeout=L.LIMIT)
        assert r.ok and len(conns) < 20, (r, backends)
        conns.append(conn)
        backends.append(conn.ask(L.LIMIT).backend)
    vipd.apply(shelf() + web(1))
    assert active_of(vipd, 2) in ([None], [1])
    L.eventually(lambda: active_of(vipd, 2) == [1], what=lambda: active_of(vipd, 2))
    assert vipd.status()["draining"]["backends"] >= 1
    assert "draining" in vipctl(vipd, "status").stdout
    text = vipctl(vipd, "svc", "--kernel", VIP).stdout
    assert " draining=%s:8080/" % L.remote(2, 4) in line_of(text)
    assert vipctl(vipd, "diff").returncode == 0
    for conn in conns:
        conn.close()


# --- doctor ---------------------------------------------------------------------------------------

IPVS_CHECKS = {"ipvs-kernel", "policy-routing", "ipvs-sysctls", "ipvs-connections"}
LEVELS = ["ok", "note", "warning", "error"]


def doctor(vipd, *args):
    """{check: [(level, what was found)]}, and the answer."""
    answer = json.loads(vipctl(vipd, "doctor", "-o", "json", *args).stdout)
    checks = {}
    for r in answer["results"]:
        checks.setdefault(r["check"], []).append((r["level"], r["found"]))
    return checks, answer


def worst(results):
    return max(results, key=lambda r: LEVELS.index(r[0]))


def test_doctor(lab, vipd):
    """Checks of this plane exist and are ok; vipctl without vipd has equal results; they are not
    run for the other plane."""
    sticky = Svc("sticky", 57, affinity=600)
    vipd.apply(sticky.objects() + web(1, 2))
    checks, answer = doctor(vipd)
    assert answer["by"] == "vipd" and IPVS_CHECKS <= set(checks)
    for check in sorted(IPVS_CHECKS) + ["nftables", "ipvs", "tables", "addresses"]:
        assert worst(checks[check])[0] == "ok", (check, checks[check])
    assert "accepts the whole ruleset" in checks["nftables"][0][1]
    assert "only vipd's services" in checks["ipvs"][0][1]    # vipd's objects are not foreign
    other, answer = doctor(vipd, "--plane", "nftables")
    assert answer["by"] == "vipctl" and not IPVS_CHECKS & set(other)
    assert "vipd runs the ipvs plane" in answer["vipd"]


TROUBLES = [
    # check, level, what is said; done; undone
    ("policy-routing", "warning", "rule 7 of IPv4 has precedence over",
     "ip rule add priority 7 fwmark 0x20/0xf0 lookup main", "ip rule del priority 7"),
    ("policy-routing", "error", "0x5a000001",
     "ip rule add priority 30000 fwmark 0x5a000001/0xff000001 lookup main",
     "ip rule del priority 30000"),
    ("ipvs-sysctls", "warning", "net.ipv4.vs.sloppy_tcp=0",
     "sysctl -qw net.ipv4.vs.sloppy_tcp=1", "sysctl -qw net.ipv4.vs.sloppy_tcp=0"),
    ("ipvs", "note", "1 addresses and ports, none of vipd's services",
     "ipvsadm -A -t 192.0.2.77:99", "ipvsadm -D -t 192.0.2.77:99"),
    ("proxies", "warning", "kube-ipvs0", "ip link add kube-ipvs0 type dummy",
     "ip link del kube-ipvs0"),
    ("addresses", "warning", VIP, "ip addr add %s/32 dev kube-ipvs0" % VIP, "true"),
]
HOST = "table inet host { chain input { type filter hook input priority 0; policy drop; iif lo " \
       "accept; ct state established accept; meta l4proto icmp accept; }; }"


@pytest.mark.no_steady
def test_doctor_finds(lab, vipd):
    """A problem is named and affects packets; after its repair it is not named any more."""
    vipd.apply(web(1, 2))
    assert L.probe(lab.node, VIP, 80).ok
    try:
        for _, _, _, do, _ in TROUBLES:
            lab.node.run(*do.split())
        def found():  # vipd puts sysctls back, maybe before doctor looks
            for check, _, _, do, _ in TROUBLES:
                if check == "ipvs-sysctls":
                    lab.node.run(*do.split())
            checks, _ = doctor(vipd)
            return checks if worst(checks["ipvs-sysctls"])[0] != "ok" else None
        checks = L.eventually(found)
        for check, level, said, _, _ in TROUBLES:
            assert any(l == level and said in f for l, f in checks[check]), (check, checks[check])
        # This host sends from the address it holds: masqueraded, the answers come back (REJ-05).
        assert L.probe(lab.node, VIP, 80, source=VIP).ok
    finally:
        for _, _, _, _, undo in TROUBLES:
            lab.node.run(*undo.split())
    checks, _ = doctor(vipd)
    assert {worst(checks[t[0]])[0] for t in TROUBLES} == {"ok"}, checks
    assert L.probe(lab.node, VIP, 80).ok


@pytest.mark.no_steady
@pytest.mark.parametrize("host", [HOST, HOST.replace("drop", "accept").replace(
    "; }; }", '; counter reject comment "all others"; }; }')])
def test_doctor_checks_input(lab, vipd, host):
    """Captured packets pass the input hook: a chain that drops or rejects all others must accept their mark."""
    vipd.apply(web(1, 2))
    lab.node.run("nft", "-f", "-", input=host)
    try:
        # Also with reject: no ICMP message leaves an address that is on no interface.
        assert L.probe(lab.client, VIP, 80, timeout=1.5).what == "timeout"
        found = worst(doctor(vipd)[0]["input-policy"])
        assert found[0] == "warning" and "chain input of table host" in found[1]
        lab.node.run("nft", "insert rule inet host input meta mark & 0xff000f00 == 0x5a000000 "
                            "accept")
        assert L.probe(lab.client, VIP, 80).ok
        found = worst(doctor(vipd)[0]["input-policy"])
        assert found[0] == "note" and "health check node ports" in found[1]
    finally:
        lab.node.run("nft", "delete", "table", "inet", "host")


@pytest.mark.no_steady
def test_while_planes_change(lab, vipd):
    """Connections keep the table of the plane that was: what serves is shown, and that there is
    another; vipd's own view is the one it is compared with."""
    vipd.apply(web(1, 2))
    conns = [L.connect(lab.client, VIP, 80)[0] for _ in range(2)]
    try:
        for mode in ("nftables", "ipvs"):
            vipd.stop()
            vipd.flags["--proxy-mode"] = mode
            vipd.start()
            r = vipctl(vipd, "diff")
            assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
            if mode == "ipvs":
                break
            r = vipctl(vipd, "svc", "--kernel", VIP)
            assert "scheduler=" not in r.stdout and "tables of both planes" in r.stderr
            r = vipctl(vipd, "svc", "--kernel", "--plane", "ipvs", VIP)
            assert r.stdout.count(" draining=") == 2 and r.stderr == ""
            checks, answer = doctor(vipd, "--socket", "/nowhere")
            assert answer["by"] == "vipctl" and not IPVS_CHECKS & set(checks)
            assert worst(checks["ipvs"])[0] == "ok"
            assert all(c.ask(L.LIMIT).ok for c in conns)
    finally:
        for c in conns:
            c.close()
