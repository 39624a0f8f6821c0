# SPDX-License-Identifier: GPL-2.0-or-later
"""Scenes of the documents: one function for each name after `<!-- lab: -->`. The function causes
the failure; then the commands of the document run in the node's namespace, with small programs
in the path: `vipctl`, with the socket of this vipd, and `journalctl`, which prints its log.
"""
import json
import os
import re
import subprocess
import tempfile
import threading

import daemon
import lab as L
from objects import entry, port, service, slice_, slice_port

OLD = "2024-01-01T00:00:00Z"
DNS_IP = "10.96.0.53"
WEB_IP = "10.96.0.10"
WEB_LB = L.lb_ip(10, 4)


def svc(name, ip, ns="shop", number=80, proto="TCP", port_name="http", **kw):
    return service(name, [ip], [port(number, proto, port_name, kw.pop("node_port", 0))], ns=ns,
                   created=kw.pop("created", OLD), **kw)


def pods(name, *entries, ns="shop", number=8080, proto="TCP", port_name="http"):
    return slice_(name, list(entries), [slice_port(number, proto, port_name)], ns=ns, fam=4)


def pod(name, addr, where=L.NODE_NAME, **kw):
    e = entry(addr, where, **kw)
    e["targetRef"] = {"kind": "Pod", "name": name}
    return e


POD1, POD2 = L.POD["pod1"][4], L.POD["pod2"][4]
FAR1, FAR2 = L.remote(1, 4), L.remote(2, 4)


def shop():
    """A cluster without failures. `n1` is the node of vipd."""
    return [
        daemon.node_object(),
        svc("web", WEB_IP, lb=[WEB_LB], node_port=30080),
        pods("web", pod("web-7d4b9-2xkqp", POD1), pod("web-7d4b9-8vlzr", FAR1, "n2"),
             pod("web-7d4b9-m5c7t", FAR2, "n2")),
        svc("cart", "10.96.0.11", affinity=600),
        pods("cart", pod("cart-0", POD2), pod("cart-1", L.remote(3, 4), "n2")),
        svc("dns", DNS_IP, ns="kube-system", number=53, proto="UDP", port_name="dns"),
        pods("dns", pod("dns-5c9f-hq2lw", POD1), pod("dns-5c9f-x8v4k", POD2), ns="kube-system",
             number=5353, proto="UDP", port_name="dns"),
    ]


class Stage:
    """The lab with a running vipd."""

    def __init__(self):
        self.lab = L.Lab()
        self.bin = tempfile.mkdtemp(prefix="vipdt-bin-")
        self.vipd = None
        self.thread = None
        self.load = None
        self.over = threading.Event()
        try:
            self.vipd = daemon.Vipd(self.lab, {"-v": "2"}, base=False)
            self.tool("vipctl", 'exec "%s" --socket "%s" "$@"' % (L.program("vipctl"),
                                                                 self.vipd.socket))
            # As journald shows it: without vipd's time and level.
            self.tool("journalctl", "sed -E 's/^[0-9:.]+ +[a-z]+ +//' '%s'" % self.vipd.log_path)
            self.vipd.write(shop())
            self.vipd.start()
        except BaseException:
            self.close()
            raise

    def tool(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n%s\n" % text)
        os.chmod(path, 0o755)

    def cut(self):
        """Stop background load and threads."""
        self.over.set()
        if self.thread is not None:
            self.thread.join()
        self.thread = None
        self.over.clear()
        if self.load is not None:
            self.load.stop()
        self.load = None

    def close(self):
        self.cut()
        if self.vipd is not None:
            self.vipd.close()
        self.lab.close()
        subprocess.run(["rm", "-rf", self.bin], check=True)

    def play(self, name):
        """Play the scene, with a fresh vipd and a cluster without failures."""
        self.cut()
        self.vipd.stop()
        self.vipd.flags.pop("--metrics-per-service", None)
        self.lab.node.sysctl(net__ipv4__ip_forward=1)
        self.vipd.write(shop())
        open(self.vipd.log_path, "w", encoding="utf-8").close()
        self.vipd.start()
        SCENES[name](self)

    def set(self, objs, settle=True):
        self.vipd.write(objs)
        want = len([o for o in objs if o["kind"] == "Service"])
        if settle:
            L.eventually(lambda: self.vipd.is_settled() and
                         self.vipd.status()["counts"]["services"] == want, 5,
                         lambda: "not settled: " + self.vipd.log())

    def counter_above(self, name, least):
        """Wait until the counter, without labels or of any family, exceeds `least`."""
        counter = re.compile(r"^%s(?:{[^}]*})? ([0-9]+)$" % name, re.M)
        L.eventually(lambda: any(int(n) > least for n in counter.findall(
            self.run("curl -s http://127.0.0.1:10249/metrics"))))

    def run(self, command):
        """Output of the command on the node."""
        env = dict(os.environ, PATH=self.bin + ":" + os.environ["PATH"], LC_ALL="C.UTF-8",
                   COLUMNS="100", NO_COLOR="1")
        with self.lab.node.entered():
            r = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=env, timeout=120, check=False)
        out = r.stdout.replace(self.vipd.socket, "/run/vipd/control.sock")
        out = out.replace(self.vipd.manifests.path, "/etc/vipd/services")
        return re.sub(r"[ \t]+$", "", out, flags=re.M)


def with_changes(*changed):
    """The cluster with some objects replaced or added."""
    def key(o):
        return o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]
    new = {key(o): o for o in changed}
    return [new.pop(key(o), o) for o in shop()] + list(new.values())


# ---- the scenes ----

def healthy(stage):
    pass


def no_endpoints(stage):
    """All pods of shop/web fail their readiness probe; two other services have a conflict and a
    Local policy."""
    stage.set(with_changes(
        pods("web", pod("web-7d4b9-2xkqp", POD1, ready=False),
             pod("web-7d4b9-8vlzr", FAR1, "n2", ready=False)),
        svc("cart-new", "10.96.0.12", external_ips=[L.external_ip(5, 4)],
            created="2024-06-01T00:00:00Z"),
        pods("cart-new", pod("cart-new-0", POD2)),
        svc("cart", "10.96.0.11", affinity=600, external_ips=[L.external_ip(5, 4)]),
        svc("pay", "10.96.0.13", lb=[L.lb_ip(13, 4)], etp="Local"),
        pods("pay", pod("pay-0", L.remote(9, 4), "n2"))))
    for _ in range(3):
        L.probe(stage.lab.ns["pod3"], WEB_IP, 80)


def bad_object(stage):
    obj = svc("web", WEB_IP, lb=[WEB_LB], node_port=30080)
    obj["spec"]["ports"][0]["port"] = 70000
    stage.vipd.manifests.put(stage.vipd.manifests.file(obj), json.dumps(obj))
    L.eventually(lambda: stage.vipd.status()["source"]["errors"]["count"] == 1)


def one_pod(stage):
    """Four endpoints; two get no traffic, for different reasons."""
    stage.set(with_changes(
        svc("web", WEB_IP, lb=[WEB_LB], node_port=30080, etp="Local"),
        pods("web", pod("web-7d4b9-2xkqp", POD1), pod("web-7d4b9-8vlzr", FAR1, "n2"),
             pod("web-7d4b9-m5c7t", FAR2, "n2", ready=False),
             pod("web-66f8d-zz9qk", L.remote(4, 4), "n2", ready=False, serving=True,
                 terminating=True))))


def rollout(stage):
    """Pods of shop/web are replaced, one after the other."""
    for i in range(12):
        stage.set(with_changes(pods("web", *[
            pod("web-%d" % k, L.remote(20 + k, 4), "n2") for k in range(i, i + 3)])))


def rolling(stage):
    """Pods of shop/web are replaced while a subscriber reads."""
    def replace():
        for i in range(40):
            if stage.over.wait(0.3):
                return
            stage.vipd.write(with_changes(pods("web", *[
                pod("web-%d" % k, L.remote(20 + k, 4), "n2") for k in (0, 1, 2 + i % 2)])))
    stage.thread = threading.Thread(target=replace)
    stage.thread.start()


def busy(stage):
    """Clients of shop/web, with metrics per endpoint."""
    stage.vipd.stop()
    stage.vipd.flags["--metrics-per-service"] = "endpoint"
    stage.vipd.start()
    stage.load = stage.lab.flow("client", "new", "--to", "tcp:%s:80" % WEB_LB, "--rate", "300",
                                "--concurrency", "8", "--seconds", "60")
    L.eventually(lambda: stage.load.stat()["ok"] > 100, 10)


def leaving(stage):
    """The autoscaler is about to remove the node."""
    node = daemon.node_object()
    node["spec"]["taints"] = [{"key": "ToBeDeletedByClusterAutoscaler", "value": "1",
                               "effect": "NoSchedule"}]
    stage.set(with_changes(node))


def udp(stage):
    """A resolver that keeps its source port uses a DNS pod, and the pod is removed."""
    scans = "kubeproxy_conntrack_reconciler_sync_duration_seconds_count"
    stage.counter_above(scans, 1)   # after the start vipd dumps all flows twice
    conn = None
    try:
        for _ in range(64):     # until the flow leads to the removed pod
            conn, _ = L.connect(stage.lab.ns["pod3"], DNS_IP, 53, "udp")
            if conn.ask().backend == POD1:
                break
            conn.close()
        stage.set(with_changes(pods("dns", pod("dns-5c9f-hq2lw", POD1, ready=False, serving=False,
                                               terminating=True),
                                    pod("dns-5c9f-x8v4k", POD2), ns="kube-system", number=5353,
                                    proto="UDP", port_name="dns")))
        L.eventually(lambda: conn.ask(0.3).backend == POD2, 5)
        stage.counter_above("vipd_conntrack_filters_total", 0)
        # Only the flow that the document shows.
        stage.lab.node.run("sh", "-c", "conntrack -D -p udp --orig-dst %s || true" % DNS_IP)
        L.eventually(lambda: conn.ask(0.3).ok)
    finally:
        conn.close()


def flushed(stage):
    """Another process flushes the whole ruleset of a vipd that serves and owns its guard."""
    guard = "nft list table ip6 vipd-guard 2>&1 | grep -q owner"
    L.eventually(lambda: stage.vipd.is_settled() and
                 stage.lab.node.run("sh", "-c", guard + "; echo $?").strip() == "0", 30)
    loads = stage.vipd.status()["sync"]["loads"]
    stage.lab.node.run("nft", "flush", "ruleset")
    L.eventually(lambda: stage.vipd.status()["sync"]["loads"] > loads and stage.vipd.is_settled(), 10)


def no_forwarding(stage):
    """A hardening script switched routing off."""
    stage.lab.node.sysctl(net__ipv4__ip_forward=0)


def stopped(stage):
    stage.vipd.stop()


SCENES = {
    "healthy": healthy, "no-endpoints": no_endpoints, "bad-object": bad_object,
    "one-pod": one_pod, "rollout": rollout, "rolling": rolling, "busy": busy, "leaving": leaving, "udp": udp, "flushed": flushed,
    "no-forwarding": no_forwarding, "stopped": stopped,
}
