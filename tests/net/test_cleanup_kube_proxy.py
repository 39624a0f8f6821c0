# SPDX-License-Identifier: GPL-2.0-or-later
"""--cleanup=kube-proxy: vipd starts beside kube-proxy's state, which is then removed. Connections
that kube-proxy translated continue, vipd serves new ones, and foreign state is not touched."""
import contextlib
import json
import os
import re
import shutil
import socketserver
import subprocess
import threading

import pytest

import daemon
import kubeproxy
import lab as L
import planes
import recorded
import test_families
from objects import entry, port, service, slice_, slice_port

NUMBER = 900
NODE_PORT = 30900
ENDPOINTS = {fam: [L.POD["pod1"][fam], L.remote(1, fam)] for fam in (4, 6)}
OTHER = 901  # a service that vipd alone knows
# What breaks a connection breaks it for good; a server without a CPU is no gap.
STEADY = ("steady", "--concurrency", "2", "--gap-ms", int(1000 * max(4, L.LATE)))
TOOL = {4: "iptables", 6: "ip6tables"}


def target(fam, number=NUMBER):
    return L.cluster_ip(number, fam), 80, NODE_PORT


def objects(**kw):
    """`kw`: of the first service."""
    out = []
    for name, number, node_port in (("web", NUMBER, NODE_PORT), ("other", OTHER, NODE_PORT + 1)):
        out.append(service(name, [L.cluster_ip(number, 4), L.cluster_ip(number, 6)],
                           [port(80, "TCP", "tcp", node_port), port(80, "UDP", "udp", node_port)],
                           kind="NodePort", **(kw if name == "web" else {})))
        for fam in (4, 6):
            out.append(slice_(name, [entry(ENDPOINTS[fam][0], L.NODE_NAME),
                                     entry(ENDPOINTS[fam][1], "n2")],
                              [slice_port(8080, "TCP", "tcp"), slice_port(8080, "UDP", "udp")],
                              fam=fam))
    return out


class Node:
    """A node with state of kube-proxy; vipd is not started."""

    def __init__(self, lab, xtables="nft"):
        self.lab = lab
        self.xtables = xtables
        self.vipd = daemon.Vipd(lab)
        self.vipd.write(objects())
        self.flows = []

    def save(self):
        """Output of iptables and nft, without counters and without vipd's tables."""
        out = ""
        for fam in (4, 6):
            text = self.lab.node.run("%s-%s-save" % (TOOL[fam], self.xtables))
            out += re.sub(r"^#.*\n|\[\d+:\d+\]", "", text, flags=re.M)
        text = self.lab.node.run("nft", "list", "tables")
        return out + "".join(x + "\n" for x in text.splitlines()
                             if not x.endswith((" vipd", " vipd-2", " vipd-guard", " vipd-ipvs")))

    def restore(self, fam, text, flush=False):
        args = () if flush else ("--noflush",)
        self.lab.node.run("%s-%s-restore" % (TOOL[fam], self.xtables), *args, input=text,
                          timeout=300)

    def put_others(self):
        for fam in (4, 6):
            self.restore(fam, kubeproxy.OTHERS)

    def put_kube_proxy(self, extra=0):
        for fam in (4, 6):
            self.restore(fam, kubeproxy.iptables_rules(target(fam), ENDPOINTS[fam], fam,
                                                       L.CLUSTER_CIDR[fam], extra))

    def steady(self, targets=None):
        """Flows through the service, or these targets, from everywhere, before vipd is there."""
        targets = targets or ["%s:%s" % (proto, L.endpoint(L.cluster_ip(NUMBER, fam), 80))
                              for fam in (4, 6) for proto in ("tcp", "udp")]
        to = [x for target in targets for x in ("--to", target)]
        for role in ("client", "pod3", "node"):
            self.flows.append(self.lab.flow(role, *STEADY, *to))
        L.eventually(lambda: all(f["answers"] for flow in self.flows
                                 for f in flow.stat()["flows"]), 5,
                     lambda: [flow.stat() for flow in self.flows])

    def start(self):
        self.vipd.start(wait=False)
        self.vipd.wait_ready(60)  # a virtual machine looks for modules

    def check_steady(self):
        def good(stat):
            assert not [f for f in stat["flows"] if f["broken"] or f["moved"] or f["gaps"]], stat
        before = [flow.stat() for flow in self.flows]
        for was in before:
            good(was)
        L.eventually(lambda: all(
            now["answers"] > then["answers"] + 2 for flow, was in zip(self.flows, before)
            for now, then in zip(flow.stat()["flows"], was["flows"])), 5, "flows do not go on")
        for flow in self.flows:
            good(flow.stat())

    def cleanup(self, *more, how="kube-proxy"):
        with self.lab.node.entered():
            return subprocess.run([L.program("vipd"), "--cleanup=" + how, "--control-socket",
                                   self.vipd.socket, *more], capture_output=True, text=True,
                                  timeout=300, check=False)

    def serves(self, number=NUMBER, roles=("client", "pod3", "node")):
        for fam in (4, 6):
            for role in roles:
                for proto in ("tcp", "udp"):
                    r = L.probe(self.lab.ns[role], L.cluster_ip(number, fam), 80, proto)
                    assert r.ok and r.backend in ENDPOINTS[fam], (role, fam, proto, r)

    def close(self):
        for flow in self.flows:
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                flow.stop()
        self.vipd.close()


@contextlib.contextmanager
def node(xtables="nft"):
    with L.Lab() as lab:
        made = Node(lab, xtables)
        try:
            yield made
        finally:
            made.close()


def wanted(*programs):
    for p in programs:
        if shutil.which(p) is None:
            pytest.skip("the program `%s` is missing" % p)


def usable(xtables):
    wanted("iptables-%s-restore" % xtables)
    if xtables == "legacy":
        with L.Lab(servers=False) as lab:
            for fam in (4, 6):
                try:
                    lab.node.run("%s-legacy" % TOOL[fam], "-t", "nat", "-L")
                except RuntimeError as e:
                    pytest.skip("the kernel lacks the tables of iptables-legacy: %s" % e)


@pytest.mark.parametrize("xtables", ["nft", "legacy"])
def test_iptables(xtables):
    """Mode iptables, from the first flow to nothing left."""
    usable(xtables)
    with node(xtables) as n:
        n.put_others()
        before = n.save()
        n.put_kube_proxy(extra=50)
        n.steady()
        n.start()
        assert "KUBE-SVC" in n.save()
        r = n.cleanup()
        assert r.returncode == 0, r.stdout + r.stderr
        backend = {"nft": "nf_tables", "legacy": "legacy"}[xtables]
        # Two families of (12 + 50 in nat, 6 in filter, 1 in mangle); 3 and 6 jumps.
        assert re.fullmatch(r"iptables \(%s\): removed 138 chains, \d+ rules in them, 18 jumps to "
                            r"them\n" % backend, r.stdout), r.stdout
        assert n.save() == before
        n.check_steady()
        n.serves()
        n.serves(OTHER)
        for fam in (4, 6):
            assert L.probe(n.lab.client, L.NODE[fam], NODE_PORT).ok
        again = n.cleanup()
        assert (again.returncode, again.stdout) == (0, "no state of kube-proxy found\n")
        n.check_steady()


def test_nftables():
    """Mode nftables: its two tables are removed, all others stay; also if vipd's have another name."""
    with node() as n:
        n.lab.node.run("nft", "table inet kube-proxy { chain c { }; }; table ip kube-proxy2 { }")
        before = n.save()
        for fam in (4, 6):
            n.lab.node.run("nft", "-f", "-",
                           input=kubeproxy.nftables_rules([target(fam)], ENDPOINTS[fam], fam))
        n.steady()
        n.lab.node.run("nft", "table ip vipd { }; table ip6 vipd { }")
        n.start()  # with vipd-2
        n.lab.node.run("nft", "delete table ip vipd; delete table ip6 vipd")
        r = n.cleanup()
        assert (r.returncode, r.stdout) == (0, "nftables: removed 2 tables\n"), r.stdout + r.stderr
        assert n.save() == before
        n.check_steady()
        n.serves()
        n.serves(OTHER)


def migrated(n, mode):
    """What `vipctl migrate` finds of kube-proxy on this node."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.conf": (
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: %s\n" % mode)}}
    with n.lab.node.entered():
        r = subprocess.run([L.program("vipctl"), "-o", "json", "migrate", "-"], input=json.dumps(config),
                           capture_output=True, text=True, timeout=60 * L.SLOW, check=False)
    assert r.stderr == "" and json.loads(r.stdout)["mode"] == mode, r.stderr
    return {c["found"].partition(": ")[0] for c in json.loads(r.stdout)["results"] if c["check"] == "kube-proxy"}


@pytest.mark.parametrize("mode", ["nftables", "iptables"])
def test_recorded(mode):
    """The state of kube-proxy 1.36.2 itself: migrate names it, cleanup removes all but the kubelet's chain."""
    if mode == "iptables":
        usable("nft")
    with node() as n:
        n.vipd.write(recorded.objects())
        recorded.put(n.lab, mode)
        n.steady(recorded.TARGETS)
        leftovers = {"nftables": ["table %s kube-proxy exists"],
                     "iptables": ["chain KUBE-SERVICES in table %s nat", "chain KUBE-SERVICES in table %s filter"]}[mode]
        assert migrated(n, mode) == {text % fam for text in leftovers for fam in ("ip", "ip6")}
        n.start()
        r = n.cleanup()
        texts = [recorded.text(tool + ".save") for tool in ("iptables", "ip6tables")]
        chains, jumps = (sum(len(re.findall(pattern, t, re.M)) for t in texts) for pattern in (
            "^:KUBE-(?!FIREWALL)", "^-A [A-Z]+ .*-j KUBE-(?!FIREWALL)"))
        said = r"nftables: removed 2 tables\n" if mode == "nftables" else (
            r"iptables \(nf_tables\): removed %d chains, \d+ rules in them, %d jumps to them\n" % (chains, jumps))
        assert r.returncode == 0 and re.fullmatch(said, r.stdout), r.stdout + r.stderr
        assert set(re.findall(r"KUBE-[A-Z-]+", n.save())) == ({"KUBE-FIREWALL"} if mode == "iptables" else set())
        assert migrated(n, mode) == {"no other service proxy found"}
        n.check_steady()
        for target in recorded.TARGETS:
            proto, ip, number = target.split(":")
            for role in ("client", "pod3", "node"):
                assert L.probe(n.lab.ns[role], ip, int(number), proto).backend.startswith("10.244."), (role, target)


def test_refusals(tmp_path):
    """Nothing is removed if no proxy would serve, or if kube-proxy would restore its state."""
    with node() as n:
        n.put_kube_proxy()
        before = n.save()

        def refused(why):
            r = n.cleanup()
            assert r.returncode == 1 and r.stdout == "", r.stdout
            assert "no state of kube-proxy is removed (--cleanup=kube-proxy,force" in r.stderr
            assert why in r.stderr, r.stderr
            assert n.save() == before

        refused("vipd does not serve instead: no vipd runs in this network namespace")
        config = tmp_path / "kubeconfig"
        config.write_text("apiVersion: v1\nkind: Config\ncurrent-context: a\n"
                          "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n"
                          "contexts: [{name: a, context: {cluster: a, user: ''}}]\n")
        waiting = n.lab.node.popen(L.program("vipd"), "--kubeconfig", str(config),
                                   "--hostname-override", L.NODE_NAME, "--control-socket",
                                   n.vipd.socket, stderr=subprocess.DEVNULL)
        L.eventually(lambda: os.path.exists(n.vipd.socket))
        refused("vipd does not serve instead: ")
        waiting.kill()
        waiting.wait()
        if planes.PLANE == "nft":
            with test_families.held(n.lab, 6):
                n.start()
                refused("vipd does not serve instead: IPv6 failed (vipctl status)")
            L.eventually(lambda: not n.vipd.status()["health"]["failed_families"], 60, n.vipd.log)
            n.vipd.wait_ready()
        else:
            n.start()
        shutil.copy(shutil.which("sleep"), tmp_path / "kube-proxy")
        theirs = n.lab.node.popen(str(tmp_path / "kube-proxy"), "600")
        refused("kube-proxy runs (process %d, kube-proxy) and would restore its state" % theirs.pid)
        with n.lab.client.entered():
            elsewhere = subprocess.Popen([str(tmp_path / "kube-proxy"), "600"])
        theirs.kill()
        theirs.wait()
        try:
            r = n.cleanup("--control-socket", "/does/not/exist")
            assert r.returncode == 1 and "/does/not/exist" in r.stderr
            assert n.save() == before
            assert n.cleanup().returncode == 0  # that of another namespace is no matter
        finally:
            elsewhere.kill()
            elsewhere.wait()
        n.put_kube_proxy()
        n.vipd.stop()
        assert n.cleanup(how="kube-proxy,force").returncode == 0
        assert "KUBE-" not in n.save()


class Status(socketserver.ThreadingUnixStreamServer):
    """A control socket: the first requests get these answers, in order, all others the last."""

    def __init__(self, path, answers):
        self.answers, self.n = answers, 0
        super().__init__(path, StatusRequest)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class StatusRequest(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        which = min(self.server.n, len(self.server.answers) - 1)
        self.server.n += 1
        body = json.dumps(self.server.answers[which]).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))


def answer(status, state, pending=0, rejected=0, occupied=0, health=None, problems=()):
    return dict(status, state=state, pending={"services": pending}, problems=problems,
                rejected={"count": rejected, "occupied": occupied}, health=health)


def test_waits_for_vipd(tmp_path):
    """While vipd reads kernel state, or programs services, cleanup waits for it."""
    with node() as n:
        n.put_kube_proxy()
        n.start()
        status = n.vipd.status()
        taken = [{"kind": "server", "text": "health server: another process has the port"}]
        old = {"live": False, "ready": False, "reason": "changes have been pending for 61 s"}
        for number, (answers, requests, why) in enumerate([
                ([answer(status, "waiting")], 1, "it is still waiting"),
                ([answer(status, "running", 2, 2)], 1, "2 services are pending"),
                ([answer(status, "running", health={"ready": False, "reason": "no Node object"})], 1,
                 "it is not ready: no Node object"),
                ([answer(status, "loading"), answer(status, "adopting", 3),
                  answer(status, "running", 2, 1), answer(status, "running")], 4, ""),
                ([answer(status, "running", problems=taken), answer(status, "running")], 2, ""),
                ([answer(status, "running", problems=taken)], 201, taken[0]["text"]),
                ([answer(status, "running", 2, 2, 2, health=old)], 1, "")]):
            path = str(tmp_path / str(number))
            with Status(path, answers) as server:
                r = n.cleanup("--control-socket", path)
                server.shutdown()
            assert (r.returncode == 0, server.n) == (why == "", requests), r.stderr
            assert why in r.stderr


@pytest.mark.parametrize("xtables", ["nft", "legacy"])
def test_foreign_use_stays(xtables):
    """A CNI plugin uses KUBE-MARK-MASQ: that chain and KUBE-POSTROUTING stay and are named."""
    usable(xtables)
    with node(xtables) as n:
        n.put_kube_proxy()
        for fam in (4, 6):
            n.restore(fam, "*nat\n:CNI-HOSTPORT-SETMARK - [0:0]\n"
                      "-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ\nCOMMIT\n")
        n.start()
        r = n.cleanup()
        assert r.returncode == 1 and "4 objects of kube-proxy could not be removed" in r.stderr
        for fam in ("ip", "ip6"):
            assert ("left: %s nat KUBE-MARK-MASQ: chain CNI-HOSTPORT-SETMARK, which is not "
                    "kube-proxy's, uses it" % fam) in r.stdout
        left = n.save()
        kept = "KUBE-(MARK-MASQ|POSTROUTING)"
        assert set(re.findall(r"^:(KUBE-\S+)", left, re.M)) == {"KUBE-MARK-MASQ",
                                                                "KUBE-POSTROUTING"}
        assert len(re.findall("^-A POSTROUTING .*-j KUBE-POSTROUTING", left, re.M)) == 2
        assert len(re.findall("^-A %s " % kept, left, re.M)) == 8
        n.serves()
        for fam in (4, 6):
            n.restore(fam, "*nat\n-F CNI-HOSTPORT-SETMARK\nCOMMIT\n")
        assert n.cleanup().returncode == 0
        assert "KUBE-" not in n.save()


@pytest.mark.parametrize("close", ["-P FORWARD DROP", "-A FORWARD -j REJECT",
                                   "-A FORWARD -m comment --comment others -j DROP"])
def test_closed_forward_chain(close):
    """Established connections pass a FORWARD that drops because KUBE-FORWARD accepts them."""
    wanted("iptables-nft-restore")
    with node() as n:
        n.put_kube_proxy()
        for fam in (4, 6):  # the operator lets new ones through, the rest is kube-proxy's
            n.lab.node.run(TOOL[fam] + "-nft", "-A", "FORWARD", "-m", "conntrack", "--ctstate",
                           "NEW", "-j", "ACCEPT")
            n.lab.node.run(TOOL[fam] + "-nft", *close.split())
        n.steady()
        n.start()
        r = n.cleanup()
        assert r.returncode == 1
        assert "left: ip filter KUBE-FORWARD: FORWARD drops what it does not accept" in r.stdout
        assert set(re.findall(r"^:(KUBE-\S+)", n.save(), re.M)) == {"KUBE-FORWARD"}
        n.check_steady()
        n.serves()
        assert n.cleanup(how="kube-proxy,force").returncode == 0
        assert "KUBE-" not in n.save()


def test_ipsets():
    """Sets of the ipvs mode, once no rule uses them; a set in use by others is named."""
    wanted("ipset", "iptables-nft-restore")
    names = ["KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "KUBE-6-LOAD-BALANCER-SOURCE-CID",
             "KUBE-LOOP-BACK", "KUBE-NODE-PORT-TCP"]
    with node() as n:
        try:
            for name in names + ["KUBE-MINE"]:
                n.lab.node.run("ipset", "create", name, "hash:ip,port", "family",
                               "inet6" if "-6-" in name else "inet")
        except RuntimeError as e:
            pytest.skip("the kernel lacks ipset: %s" % e)
        n.put_kube_proxy()
        n.restore(4, "*nat\n:MINE - [0:0]\n"
                  "-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT\n"
                  "-A KUBE-SERVICES -m set --match-set KUBE-NODE-PORT-TCP dst,dst -j ACCEPT\n"
                  "-A MINE -m set --match-set KUBE-LOOP-BACK dst,dst -j ACCEPT\nCOMMIT\n")
        n.start()
        r = n.cleanup()
        assert "ipset: removed 4 sets\n" in r.stdout and r.returncode == 1, r.stdout + r.stderr
        assert "ipset: left: KUBE-LOOP-BACK: in use\n" in r.stdout
        held = set(n.lab.node.run("ipset", "list", "-n").split())
        assert held == {"KUBE-LOOP-BACK", "KUBE-MINE"}
        n.restore(4, "*nat\n-F MINE\nCOMMIT\n")
        r = n.cleanup()
        assert (r.returncode, r.stdout) == (0, "ipset: removed 1 set\n"), r.stdout + r.stderr


def test_ipvs():
    """Mode ipvs: virtual services that carry connections stay until these end, or go by force: then
    clients that keep their UDP port reach vipd. A load balancer's own services stay."""
    wanted("ipvsadm", "ipset", "iptables-nft-restore")
    with node() as n:
        run = n.lab.node.run
        try:
            run("ipvsadm", "-Sn")
        except RuntimeError as e:
            pytest.skip("the kernel lacks IPVS: %s" % e)
        try:
            run("ip", "link", "add", "other0", "type", "dummy")
        except RuntimeError as e:
            pytest.skip("the kernel lacks dummy devices: %s" % e)
        kubeproxy.virtual_services(n.lab, [(at, ENDPOINTS[4], "tcp") for at in (
            "192.0.2.77:443", L.endpoint(L.NODE[4], 8443))])
        run("ipvsadm", "-A", "-f", "77", "-s", "rr")
        foreign = run("ipvsadm", "-Sn")
        kubeproxy.ipvs(n.lab, (NUMBER, OTHER), NODE_PORT, ENDPOINTS, ("tcp", "udp"))

        def flow(role, proto, number):
            to = [x for fam in (4, 6) for x in ("--to", "%s:%s" % (proto, L.endpoint(
                L.cluster_ip(number, fam), 80)))]
            n.flows.append(n.lab.flow(role, *STEADY, *to))
            return n.flows[-1]

        def removed(gone, left, conns):
            r = n.cleanup()
            assert r.returncode == 1, r.stdout + r.stderr
            assert "ipvs: removed %d virtual services\n" % gone in r.stdout, r.stdout
            assert "ipvs: left: %d virtual services that carry %d connections: " % (
                left, conns) in r.stdout, r.stdout
            assert "link, iptables, ipset: left: all, until the virtual services are removed" in r.stdout
            n.check_steady()

        tcp = [flow(role, "tcp", NUMBER) for role in ("client", "pod3")]
        stays, ends = (flow("client", "udp", number) for number in (NUMBER, OTHER))
        n.start()
        removed(6, 6, 8 + 8)  # those of the flows stay, and all that they need
        run("ipvsadm", "--set", "0", "0", "5")  # timeout of UDP in seconds, from the next packet on
        n.check_steady()
        n.flows.remove(ends)
        ends.stop()
        run("ipvsadm", "--set", "0", "0", "300")
        L.eventually(lambda: L.cluster_ip(OTHER, 4) not in run("ipvsadm", "-Lcn") and
                     L.cluster_ip(OTHER, 6) not in run("ipvsadm", "-Lcn"), 20)
        removed(2, 4, 8 + 4)
        # As long as kube-ipvs0 has the addresses this host's own connections come from them: the nft
        # plane alone can lead those.
        roles = ("client", "pod3", "node") if planes.PLANE == "nft" else ("client", "pod3")
        n.serves(roles=roles)
        n.serves(OTHER, roles)
        n.check_steady()
        for f in tcp:
            n.flows.remove(f)
            f.stop()
        r = n.cleanup(how="kube-proxy,force")
        assert r.returncode == 0, r.stdout + r.stderr
        for line in ("ipvs: removed 4 virtual services",
                     "link: removed kube-ipvs0 and its 4 addresses", "ipset: removed 6 sets"):
            assert line + "\n" in r.stdout, r.stdout
        ours = re.compile(r"^-. -f 15099\d{5} .*\n", re.M)  # marks 0x5a......, of the ipvs plane
        assert ours.sub("", run("ipvsadm", "-Sn")) == foreign
        assert "kube-ipvs0" not in run("ip", "link") and "other0" in run("ip", "link")
        assert "KUBE-" not in n.save() and run("ipset", "list", "-n") == ""
        if planes.PLANE == "nft":
            # Else IPVS keeps the flows for 300 s, and drops every packet from their ports.
            L.eventually(lambda: "UDP" not in run("ipvsadm", "-Lcn"), 5)
        before = [f["answers"] for f in stays.stat()["flows"]]
        L.eventually(lambda: all(f["answers"] > b + 2 for f, b in zip(stays.stat()["flows"],
                                                                      before)), 5, stays.stat)
        n.serves()
        n.serves(OTHER)
        assert n.cleanup().stdout == "no state of kube-proxy found\n"


def test_ipvs_affinity():
    """A service with ClientIP affinity is pending because of kube-proxy's virtual services at its
    addresses. Cleanup is not blocked: vipd takes these over with their connections."""
    wanted("ipvsadm", "ipset", "iptables-nft-restore")
    if planes.PLANE != "ipvs":
        pytest.skip("only the ipvs plane has virtual services of its own")
    with node() as n:
        run = n.lab.node.run
        kubeproxy.ipvs(n.lab, (NUMBER,), NODE_PORT, ENDPOINTS)
        for fam in (4, 6):
            for at in (L.endpoint(L.cluster_ip(NUMBER, fam), 80), L.endpoint(L.NODE[fam], NODE_PORT)):
                run("ipvsadm", "-E", "-t", at, "-s", "rr", "-p", "600")
            n.flows.append(n.lab.flow("client", *STEADY, "--to", "tcp:" + L.endpoint(
                L.cluster_ip(NUMBER, fam), 80)))
        n.vipd.write(objects(affinity=300))
        n.vipd.start(wait=False)
        L.eventually(lambda: n.vipd.status().get("state") == "running", 30, n.vipd.log)
        refused = n.vipd.status()["rejected"]
        assert (refused["count"], refused["occupied"]) == (1, 1), refused
        assert "kube-proxy's ipvs mode left a virtual service" in refused["items"][0]["text"]
        r = n.cleanup()
        assert r.returncode == 0, r.stdout + r.stderr
        assert "ipvs: handed over to vipd: 4 virtual services with ClientIP affinity\n" in r.stdout
        assert "kube-ipvs0" not in run("ip", "link")
        assert n.vipd.status()["rejected"]["count"] == 0
        n.check_steady()
        n.serves(roles=("client", "pod3"))
        assert "-p 300" in run("ipvsadm", "-Sn") and "-p 600" not in run("ipvsadm", "-Sn")
