# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs tests/tools/kubefeed and compares its model with the server's objects."""
import json
import os
import queue
import subprocess
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))
KUBEFEED = os.path.join(BUILD, "tests", "tools", "kubefeed")

PATIENCE = 60  # seconds after which a wait ends, so that no test hangs
# Short pauses between attempts, but time limits that suffice on a busy machine: a test of a
# limit sets it.
FAST = {"backoff_min_ms": 30, "backoff_max_ms": 400,
        **dict.fromkeys(("connect_ms", "head_ms", "idle_ms", "others_ms", "plugin_ms"),
                        PATIENCE * 1000)}
# Words that must not appear in anything it writes.
SECRETS = ("kube-proxy-token", "Bearer", "BEGIN", "SECRET")


class Feed:
    """A running kubefeed.

    fast     False: the pauses of a real daemon
    timing   values on top of FAST, e.g. idle_ms=100
    changed  names of services as they changed, in order; reset by take_changed()
    """

    def __init__(self, config=None, master=None, account_dir=None, node="n1", content_type=None,
                 fast=True, quiet=False, env=None, args=(), prefix=(), **timing):
        command = list(prefix) + [KUBEFEED, "--verbose"] + list(args)
        for flag, value in (("kubeconfig", config), ("master", master), ("node", node),
                            ("account-dir", account_dir), ("content-type", content_type)):
            if value is not None:
                command += ["--" + flag, value]
        if quiet:
            command.append("--quiet")
        for name, value in dict(FAST if fast else {}, **timing).items():
            command += ["--set", "%s=%d" % (name, value)]
        self.answers = queue.Queue()
        self.changed = []
        self.events = []
        self.synced_ms = None
        self.log = []
        self.errors_expected = False
        self.lock = threading.Condition()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **(env or {})))
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self._out, self._err)]
        for t in self.threads:
            t.start()

    def _out(self):
        for line in self.process.stdout:
            obj = json.loads(line)
            with self.lock:
                if "answer" in obj:
                    self.answers.put(obj)
                elif obj["event"] == "synced":
                    assert self.synced_ms is None, "synced twice"
                    self.synced_ms = obj["ms"]
                else:
                    self.changed += obj["services"]
                    self.events.append((time.monotonic(), obj["services"]))
                self.lock.notify_all()

    def _err(self):
        for line in self.process.stderr:
            with self.lock:
                self.log.append(line.rstrip("\n"))
                self.lock.notify_all()

    # ---- waiting

    def wait_for(self, test, what, timeout=10):
        """Wait until test() is true. The limit only ends a test that would hang."""
        timeout = max(timeout, PATIENCE)
        deadline = time.monotonic() + timeout
        while True:
            value = test()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError("%s: not in %g s\n%s\n%s" % (
                    what, timeout, "\n".join(self.log[-30:]),
                    json.dumps(self.status(), indent=1) if self.alive() else "ended"))
            with self.lock:
                self.lock.wait(0.01)

    def wait_synced(self, timeout=10):
        self.wait_for(lambda: self.synced_ms is not None, "synced", timeout)
        return self

    def wait_log(self, *words, timeout=10):
        """Wait for a log line with all the words."""
        return self.wait_for(lambda: next((li for li in list(self.log)
                                           if all(w in li for w in words)), None),
                             "log with %r" % (words,), timeout)

    def logged(self, words):
        """All lines of the log so far that contain the words."""
        with self.lock:
            marks = self.log.count("mark")
        self._send("mark")
        self.wait_for(lambda: self.log.count("mark") > marks, "mark")
        return [li for li in self.log if words in li]

    def wait_error(self, resource, *words, timeout=10):
        """The failure of a resource in the status."""
        def test():
            error = self.reflector(resource)["error"]
            return error if error and all(w in error for w in words) else None
        return self.wait_for(test, "%s: error with %r" % (resource, words), timeout)

    def wait_healthy(self, timeout=10):
        """All watches are open, and no failure is reported."""
        self.wait_for(lambda: all(r["state"] == "watching" and not r["error"]
                                  for r in self.status()["reflectors"].values()),
                      "healthy", timeout)

    def alive(self):
        return self.process.poll() is None

    # ---- requests

    def _send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command):
        self._send(command)
        return self.answers.get(timeout=PATIENCE)

    def dump(self):
        return self.ask("dump")

    def status(self):
        return self.ask("status")

    def usage(self):
        return self.ask("usage")

    def reflector(self, resource):
        return self.status()["reflectors"][resource]

    def read_again(self):
        """As vipd does on SIGHUP."""
        self._send("again")

    def take_changed(self):
        self.ask("status")      # output before the answer is complete
        with self.lock:
            changed, self.changed = self.changed, []
        return changed

    # ---- comparing

    def same_as(self, api, timeout=10, headless=False):
        """Wait until the model equals the server, object by object; see expected()."""
        last = [None]

        def test():
            want, have = expected(api, headless), self.dump()
            last[0] = [(k, n, want[k].get(n), have[k].get(n))
                       for k in ("services", "slices")
                       for n in sorted(set(want[k]) | set(have[k]))
                       if want[k].get(n) != have[k].get(n)]
            return not last[0]
        try:
            self.wait_for(test, "the same objects", timeout)
        except AssertionError as e:
            raise AssertionError("%s\n%s" % (e, "\n".join(map(str, last[0][:5])))) from None
        return self

    def close(self):
        """Stop it; it must exit with 0 and must not have printed secrets."""
        if self.alive():
            self._send("quit")
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for t in self.threads:
            t.join(5)
        text = "\n".join(self.log)
        for secret in SECRETS:
            assert secret not in text, text
        assert self.process.returncode == (1 if self.errors_expected else 0), \
            "exit code %s\n%s" % (self.process.returncode, text)


# ---- what the model should hold

def services(n, prefix="s", **kw):
    return [service("%s%d" % (prefix, i), ip="10.96.%d.%d" % (1 + i // 250, i % 250), **kw)
            for i in range(n)]


def service(name, ip="10.96.9.9", port=80, labels=None, ns="shop", **spec):
    return {"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": ns, "labels": labels or {}},
            "spec": dict({"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
                          "ports": [{"name": "http", "protocol": "TCP", "port": port,
                                     "targetPort": 8080}]}, **spec)}


def slice_(name, of, ips=("10.244.1.1",), port=8080, labels=None, ns="shop", node="n1", **kw):
    return dict({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                 "metadata": {"name": name, "namespace": ns,
                              "labels": dict({"kubernetes.io/service-name": of}, **(labels or {}))},
                 "addressType": "IPv4",
                 "ports": [{"name": "http", "protocol": "TCP", "port": port}],
                 "endpoints": [{"addresses": [ip], "nodeName": node,
                                "conditions": {"ready": True, "serving": True,
                                               "terminating": False}} for ip in ips]}, **kw)


def node(name="n1", zone="a", **kw):
    return dict({"apiVersion": "v1", "kind": "Node",
                 "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
                 "spec": {"podCIDRs": ["10.244.1.0/24"]},
                 "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.2"}]}}, **kw)


def service_cidr(name, *cidrs):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


def _flag(conditions, name, default):
    value = conditions.get(name)
    return default if value is None else value


def _service(obj):
    spec = obj["spec"]
    ips = [i for i in spec.get("clusterIPs") or [spec.get("clusterIP")] if i and i != "None"]
    affinity = 0
    if spec.get("sessionAffinity") == "ClientIP":
        affinity = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    return {"type": spec.get("type", "ClusterIP"), "ips": sorted(ips, key=lambda i: ":" in i),
            "ports": [[p.get("name", ""), p.get("protocol", "TCP"), p["port"],
                       p.get("nodePort", 0)] for p in spec.get("ports") or []],
            "external": sorted(spec.get("externalIPs") or []),
            "itp_local": spec.get("internalTrafficPolicy") == "Local",
            "etp_local": spec.get("externalTrafficPolicy") == "Local", "affinity": affinity}


def _endpoint(e):
    c = e.get("conditions") or {}
    flags = _flag(c, "ready", True) * 1 + _flag(c, "serving", True) * 2 + \
        _flag(c, "terminating", False) * 4
    target = e.get("targetRef") or {}
    hints = e.get("hints") or {}
    return [e["addresses"][0], flags, e.get("nodeName", ""),
            target.get("name", "") if target.get("kind") == "Pod" else "",
            sorted(z["name"] for z in hints.get("forZones") or []),
            sorted(n["name"] for n in hints.get("forNodes") or [])]


def _slice(obj):
    return {"service": obj["metadata"]["labels"]["kubernetes.io/service-name"],
            "family": 6 if obj["addressType"] == "IPv6" else 4,
            "ports": sorted([p["name"], p.get("protocol", "TCP"), p["port"]]
                            for p in obj.get("ports") or []),
            "endpoints": sorted((_endpoint(e) for e in obj.get("endpoints") or []),
                                key=lambda e: tuple(map(int, e[0].split("."))))}


def expected(api, headless=False):
    """The expected dump of the model, computed from the server's objects (section 1.1:
    selectors). `headless`: with headless Services."""
    out = {"services": {}, "slices": {}}
    for key in api.list(resource="services")["keys"]:
        obj = api.get("services", key)
        if "service.kubernetes.io/service-proxy-name" in (obj["metadata"].get("labels") or {}) or \
                (obj["spec"].get("clusterIP") == "None" and not headless):
            continue
        out["services"][key] = _service(obj)
    for key in api.list(resource="endpointslices")["keys"]:
        obj = api.get("endpointslices", key)
        if "service.kubernetes.io/headless" not in (obj["metadata"].get("labels") or {}):
            out["slices"][key] = _slice(obj)
    return out
