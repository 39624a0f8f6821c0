# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd in a lab's node with a folder of manifests, and its kernel state."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import ipvs
import lab as lab_
import nftables
import planes

sys.path.insert(0, os.path.join(lab_.ROOT, "tests", "resolver"))

import objects as k8s  # noqa: E402
import resolver  # noqa: E402
import servers  # noqa: E402
import tables  # noqa: E402

MARKER = ("default", "marker")
MARKER_IP = {4: "10.96.255.254", 6: "fd00:10:96::fffe"}
STEADY_IP = {4: "10.96.255.1", 6: "fd00:10:96::ff01"}
STEADY_ENDPOINTS = (lab_.POD["pod2"], {fam: lab_.remote(250, fam) for fam in (4, 6)})
STEADY_LB = {4: "192.0.2.250", 6: "2001:db8:200::fa"}

# What `ip rule` prints of the ipvs plane's policy routing.
ROUTING = ("100: from all fwmark 0x5b000000/0xff000f00 lookup 23130",
           "101: from all fwmark 0x5a000000/0xff000f00 iif lo goto 103",
           "102: from all fwmark 0x5a000000/0xff000f00 lookup 23130", "103: from all nop")

FLAGS = {
    "--cluster-cidr": ",".join(lab_.CLUSTER_CIDR.values()),
    "--nodeport-addresses": None,
    "--service-cluster-ip-range": ",".join(lab_.SERVICE_CIDR.values()),
    **planes.FLAGS.get(planes.PLANE, {}),
}


class Manifests:
    """A folder with one JSON file per object; only changed files are written. Files of removed
    objects become empty: objects of a deleted file are removed a moment later."""

    def __init__(self, path):
        self.path = path
        self.held = {}
        os.makedirs(path, exist_ok=True)

    @staticmethod
    def file(obj):
        meta = obj["metadata"]
        return "%s-%s-%s.json" % (obj["kind"].lower(), meta.get("namespace", ""), meta["name"])

    def write(self, objs):
        """Write exactly these objects. Each file appears completely, by rename."""
        want = {self.file(o): json.dumps(o) for o in objs}
        for name in set(self.held) - set(want):
            self.empty(name)
        for name, text in want.items():
            if self.held.get(name) != text:
                self.put(name, text)

    def put(self, name, text):
        """Write one file atomically, with any content."""
        hidden = os.path.join(self.path, ".%s.tmp" % name)
        with open(hidden, "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(hidden, os.path.join(self.path, name))
        self.held[name] = text

    def empty(self, name):
        if self.held.get(name) != "":
            self.put(name, "")


def node_object(zone="a"):
    return k8s.node(lab_.NODE_NAME, [lab_.NODE[4], lab_.NODE[6]], zone=zone,
                    pod_cidrs=[lab_.POD_CIDR[4], lab_.POD_CIDR[6]])


def steady_objects():
    """The service that the steady flows of every test use: one local and one remote endpoint."""
    out = [k8s.service("steady", [STEADY_IP[4], STEADY_IP[6]],
                       [k8s.port(80, "TCP", "tcp"), k8s.port(80, "UDP", "udp")],
                       lb=[STEADY_LB[4], STEADY_LB[6]], created="2020-01-01T00:00:00Z")]
    for fam in (4, 6):
        local, remote = (ip[fam] for ip in STEADY_ENDPOINTS)
        out.append(k8s.slice_("steady", [k8s.entry(local, lab_.NODE_NAME), k8s.entry(remote, "n2")],
                              [k8s.slice_port(8080, "TCP", "tcp"),
                               k8s.slice_port(8080, "UDP", "udp")]))
    return out


class Vipd:
    """The daemon: start(), then apply() objects; stop(), kill(), start() again."""

    def __init__(self, lab, flags=None, base=True):
        self.lab = lab
        self.dir = tempfile.mkdtemp(prefix="vipdt-")
        self.manifests = Manifests(os.path.join(self.dir, "manifests"))
        self.socket = os.path.join(self.dir, "control.sock")
        self.log_path = os.path.join(self.dir, "vipd.log")
        self.flags = dict(FLAGS)
        self.flags.update(flags or {})
        self.proc = None
        self.objects = []
        self.base = base
        self.zone = "a"
        self.serial = 1
        self.nft = nftables.Nft(lab.node)
        self.ipvs_ = None

    # ---- process ----

    def argv(self):
        out = [lab_.program("vipd"), "--manifests", self.manifests.path,
               "--hostname-override", lab_.NODE_NAME, "--control-socket", self.socket]
        for flag, value in self.flags.items():
            if value is True:
                out.append(flag)
            elif value is not None:
                out += [flag, value]
        return out

    def start(self, wait=True):
        with open(self.log_path, "ab") as log:
            self.proc = self.lab.node.popen(*self.argv(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout=10):
        """Wait until the kernel was compared with the objects and nothing is pending."""
        def ready():
            if self.proc.poll() is not None:
                raise AssertionError("vipd ended with %s:\n%s" % (self.proc.returncode,
                                                                  self.log()))
            return self.is_settled()
        lab_.eventually(ready, timeout, lambda: "vipd is not ready: %s\n%s" % (self.status(),
                                                                              self.log()))

    def stop(self):
        """SIGTERM; the kernel keeps everything (LIFE-21)."""
        if self.proc is not None and self.proc.poll() is None:
            self.proc.terminate()
            self.proc.wait(lab_.LIMIT)

    def kill(self):
        if self.proc is not None and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGKILL)
            self.proc.wait()

    def is_running(self):
        return self.proc is not None and self.proc.poll() is None

    def close(self):
        self.kill()
        self.nft.close()
        if self.ipvs_ is not None:
            self.ipvs_.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def log(self, lines=40):
        try:
            with open(self.log_path, encoding="utf-8", errors="replace") as f:
                return "".join(f.readlines()[-lines:])
        except FileNotFoundError:
            return ""

    # ---- control socket ----

    def ctl(self, *args, check=True):
        """Run vipctl with this daemon; returns its standard output."""
        r = subprocess.run([lab_.program("vipctl"), "--socket", self.socket,
                            "--timeout", str(int(lab_.LIMIT))] + list(args),
                           capture_output=True, text=True, timeout=lab_.LIMIT, check=False)
        if check and r.returncode != 0:
            raise AssertionError("vipctl %s: %d: %s" % (" ".join(args), r.returncode, r.stderr))
        return r.stdout

    def get(self, path):
        """An answer of the control socket; {} while vipd does not answer."""
        conn = http.client.HTTPConnection("localhost", timeout=lab_.LIMIT)
        conn.sock = socket.socket(socket.AF_UNIX)
        conn.sock.settimeout(lab_.LIMIT)
        try:
            conn.sock.connect(self.socket)
            conn.request("GET", path)
            return json.loads(conn.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return {}
        finally:
            conn.close()

    def status(self):
        """The answer of /v1/status."""
        return self.get("/v1/status")

    def is_settled(self):
        s = self.status()
        return s.get("state") == "running" and s["pending"]["services"] == 0

    # ---- objects ----

    def all_objects(self):
        """All desired objects: the test's, the node, the steady service, the marker."""
        if not self.base:
            return self.objects
        marker = k8s.service(MARKER[1], [MARKER_IP[4], MARKER_IP[6]], self.serial, ns=MARKER[0])
        return [node_object(self.zone)] + steady_objects() + self.objects + [marker]

    def write(self, objs=None):
        """Write the manifests and do not wait."""
        if objs is not None:
            self.objects = list(objs)
        self.manifests.write(self.all_objects())

    def apply(self, objs=None, timeout=5.0):
        """Write the manifests and wait until they are programmed: the marker service, written
        last, gets a new port number each time."""
        self.serial = self.serial % 60000 + 1
        self.write(objs)
        lab_.eventually(lambda: self.marker_seen() and self.is_settled(), timeout,
                        lambda: "the manifests did not take effect\n" + self.log())

    def marker_seen(self):
        if planes.PLANE != "nft":
            frontends = self.get("/v1/services/%s/%s" % MARKER).get("frontends", [])
            held = {(f["address"], f["port"]) for f in frontends}
            return all((ip, self.serial) in held for ip in MARKER_IP.values())
        for fam in (4, 6):
            port = struct.pack(">H", self.serial) + b"\0\0"
            held = [key for key, _, _ in self.elements(fam, "frontends")
                    if key[-4:] == port and key.startswith(
                        socket.inet_pton(lab_.af(MARKER_IP[fam]), MARKER_IP[fam]))]
            if not held:
                return False
        return True

    # ---- kernel ----

    def writes(self):
        """A value that differs after any write, for == and !=."""
        if planes.PLANE != "ipvs":
            return self.nft.genid()
        # No counter of writes to IPVS exists: its content is compared instead. A backend that
        # leaves ends when its connections have, and a service with its last backend. A listing in
        # several messages lacks an entry if another one ends meanwhile: two equal ones are whole.
        last = None
        while (text := self.lab.node.run("ipvsadm", "-Sn")) != last:
            last = text
        held = [line.partition(" -r " if line.startswith("-a") else " -s ")
                for line in text.splitlines()]
        lives = [x for x in held if x[1] == " -r " and " -w 0 " not in x[2] + " "]
        used = {x[0][3:] for x in lives}
        return self.nft.genid(), lives, [x for x in held if x[1] == " -s " and x[0][3:] in used]

    def main_tables(self, fam):
        """{name: handle} of tables with services, without the guard."""
        return {n: h for n, h in self.nft.tables(fam).items() if re.fullmatch(r"vipd(-\d)?", n)}

    def ipvs(self):
        """The kernel's IPVS; None before its first use, which loads the module."""
        if self.ipvs_ is None and os.path.exists("/proc/net/ip_vs"):
            self.ipvs_ = ipvs.Ipvs(self.lab.node)
        return self.ipvs_

    def table(self, fam):
        """Name of the table in force: vipd, vipd-2 ...; the newest one while several exist."""
        if planes.PLANE == "ipvs":
            return ipvs.TABLE
        names = self.main_tables(fam)
        return max(names, key=names.get) if names else "vipd"

    def nft_table(self, fam):
        """The table in force as arguments of nft: family and name."""
        family = "inet" if planes.PLANE == "ipvs" else "ip" if fam == 4 else "ip6"
        return family, self.table(fam)

    def nft_set(self, fam, name):
        """Arguments of nft for a set of the nft plane, or for its counterpart of the ipvs
        plane."""
        if planes.PLANE == "ipvs":
            name = "%s%d" % (ipvs.SETS.get(name, name), fam)
        return self.nft_table(fam) + (name,)

    def elements(self, fam, name):
        if planes.PLANE == "ipvs":  # one table, whose sets are named with their family
            return self.nft.dump_or_empty("inet", ipvs.TABLE, name)
        return self.nft.dump_or_empty(fam, self.table(fam), name)

    def tables(self, fam):
        """Kernel state of this family: a Tables, or a Servers."""
        if planes.PLANE == "ipvs":
            kernel = self.ipvs()
            return servers.Servers(fam, lambda name: self.elements(fam, name),
                                   kernel.state(fam=fam) if kernel else {})
        return tables.Tables(fam, lambda name: self.elements(fam, name))

    def config(self):
        """Our flags in the format of the resolver."""
        def split(flag):
            value = self.flags.get(flag)
            return [v for v in value.split(",") if v] if value else []
        nodeports = split("--nodeport-addresses")
        return resolver.Config(
            lab_.NODE_NAME, detect=self.flags.get("--detect-local-mode") or "ClusterCIDR",
            cluster_cidrs=split("--cluster-cidr"),
            nodeport_addresses=None if nodeports in ([], ["primary"]) else nodeports,
            mode=self.flags.get("--proxy-mode"),
            localhost_nodeports=next((f.partition("=")[2] or "true" for f in self.flags
                                      if f.startswith("--iptables-localhost-nodeports")), None),
            host_addresses=[lab_.NODE[4], lab_.NODE[6], lab_.NODE_TO_CLIENT[4],
                            lab_.NODE_TO_CLIENT[6], lab_.BRIDGE[4], lab_.BRIDGE[6],
                            lab_.NODE_TO_WORLD[4], lab_.NODE_TO_WORLD[6], "127.0.0.1", "::1"],
            service_cidrs=split("--service-cluster-ip-range"),
            preserve_local_source=bool(self.flags.get("--preserve-local-source")))

    def wanted(self):
        """The resolver's result for our objects, with settings of annotations."""
        objs = self.all_objects()
        return resolver.resolve(objs, self.config()), \
            servers.Wishes(objs, self.flags.get("--ipvs-scheduler") or "rr")

    def differences(self, strict=True, wanted=None):
        """Differences between kernel state and that result."""
        result, wishes = wanted or self.wanted()
        out = []
        for fam in (4, 6):
            held = self.tables(fam)
            found = servers.compare(result, held, wishes, strict) \
                if planes.PLANE == "ipvs" else tables.compare(result, held, strict)
            out += ["IPv%d %s" % (fam, d) for d in found]
        if planes.PLANE == "ipvs" and not out and self.is_running():
            out += self.routing_differences()
        return out

    def routing_differences(self):
        """Policy routing of marked packets."""
        out = []
        for fam in (4, 6):
            said = self.lab.node.run("ip", "-%d" % fam, "-batch", "-",
                                     input="rule\nroute show table 23130\n")
            lines = [" ".join(line.split()) for line in said.splitlines()]
            out += ["IPv%d: the rule '%s' is missing" % (fam, r) for r in ROUTING
                    if r + " proto 118" not in lines]
            if not any(line.startswith("local default dev lo ") for line in lines):
                out.append("IPv%d: table 23130 has no route" % fam)
        return out

    def check_tables(self, timeout=3.0, strict=True):
        """Wait until the kernel has the desired state; returns wanted()."""
        end = time.monotonic() + max(timeout, lab_.PATIENCE) * lab_.SLOW
        wanted = self.wanted()
        while True:
            begin = time.monotonic()
            found = self.differences(strict, wanted)
            if not found:
                return wanted
            now = time.monotonic()
            if now > end:
                raise AssertionError("the kernel differs:\n  %s\n%s" % ("\n  ".join(found[:20]),
                                                                       self.log(10)))
            time.sleep(max(0.02, now - begin))


class Steady:
    """Long-lived connections through the steady service that must never fail.

    A gap is a late answer with lost packets (tests/tools/flow_steady.c). On an emulated machine,
    everything or one server pauses now and then, and TCP sends again: there, a gap counts if
    connections that pass no proxy, also to the same endpoints, have none, and waited less than
    half as long."""

    def __init__(self, lab):
        self.lab = lab
        self.flows = []
        self.plain = []

    def start(self):
        everywhere = ["--to", "tcp:%s:80" % STEADY_IP[4], "--to", "tcp:[%s]:80" % STEADY_IP[6]]
        outside = everywhere + ["--to", "tcp:%s:80" % STEADY_LB[4],
                                "--to", "tcp:[%s]:80" % STEADY_LB[6],
                                "--to", "udp:%s:80" % STEADY_IP[4],
                                "--to", "udp:[%s]:80" % STEADY_LB[6]]
        if lab_.SLOW != 1:
            for role, servers in (("client", [lab_.WORLD]), ("node", STEADY_ENDPOINTS)):
                to = [x for ip in servers for f in (4, 6) for x in ("--to", "tcp:" + lab_.endpoint(ip[f], 8080))]
                self.plain.append(self.lab.flow(role, "steady", "--concurrency", "2", *to))
        for role, targets in (("client", outside), ("pod3", everywhere), ("node", everywhere)):
            self.flows.append((role, self.lab.flow(role, "steady", "--concurrency", "2", *targets)))
        lab_.eventually(lambda: all(f["answers"] for _, flow in self.flows
                                    for f in flow.stat()["flows"]), 3,
                        lambda: "steady flows do not start: %s" % [
                            f for _, flow in self.flows for f in flow.stat()["flows"]
                            if not f["answers"]])
        return self

    def _wait_answers(self, end):
        """Two more answers of each flow: the second request is later than this call."""
        def answers():
            return [f["answers"] for _, flow in self.flows for f in flow.stat()["flows"] if not f["broken"]]
        before = answers()
        while time.monotonic() < end:
            now = answers()
            if len(now) < len(before) or all(n >= b + 2 for n, b in zip(now, before)):
                break
            time.sleep(0.01)

    def bad(self):
        """Flows with a failure: (role, flow)."""
        out = []
        for role, flow in self.flows:
            s = flow.stat()
            if s["bad"]:
                out += [(role, f) for f in s["flows"]
                        if f["broken"] or f["moved"] or self.is_silent(f)]
        return out

    def is_silent(self, f):
        if not f["gaps"] and f["longest_ms"] < 30000:
            return False
        plain = [x for flow in self.plain for x in flow.stat()["flows"]]
        return not any(x["gaps"] or f["longest_ms"] < 2 * x["longest_ms"] for x in plain)

    def stop(self):
        for flow in [flow for _, flow in self.flows] + self.plain:
            try:
                flow.stop()
            except (OSError, RuntimeError, ValueError):
                flow.kill()
        self.flows = []
        self.plain = []

    def check(self, late=lab_.PATIENCE):
        """Fail if any flow had a failure; then start new flows for the next test. The answer to a
        datagram may be `late` seconds late: it cancels the gap."""
        end = time.monotonic() + late * lab_.SLOW
        self._wait_answers(end)
        bad = self.bad()
        while bad and time.monotonic() < end and all(
                f["to"].startswith("udp:") and not f["broken"] and not f["moved"]
                for _, f in bad):
            time.sleep(0.1)
            bad = self.bad()
        if bad:
            self.stop()
            self.start()
            raise AssertionError("steady flows noticed something:\n  " +
                                 "\n  ".join("%s: %s" % b for b in bad))
