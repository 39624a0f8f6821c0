# SPDX-License-Identifier: GPL-2.0-or-later
"""The restrictions of the systemd unit: vipd works under them, and needs each remaining
permission. sandbox.py reads them from the unit file."""
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

import ctnetlink
import lab as L
import sandbox
from apiserver.client import Server
from objects import entry, port, service, slice_, slice_port

UNIT = os.path.join(L.build_dir(), "deploy", "vipd.service")
EXPOSURE_MAX = 2.4
NODE = "n1"
IP = "10.96.0.40"
PYTHON = "/usr/bin/python3"
TROUBLE = re.compile("not permitted|denied|[Rr]ead-only|cannot")

needs_seccomp = pytest.mark.skipif(
    subprocess.run([PYTHON, "-c", "import seccomp"], capture_output=True, check=False).returncode,
    reason="the Python module `seccomp` (Debian package python3-seccomp) is missing")
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"),
                                   reason="systemd is not installed")
pytestmark = [needs_systemd, needs_seccomp,
              pytest.mark.skipif(os.geteuid() != 0, reason="private namespaces need root")]


@pytest.fixture
def folder():
    """Folder for files of a service: not in /tmp, which is private."""
    path = tempfile.mkdtemp(prefix="sandbox-", dir=L.build_dir())
    yield path
    shutil.rmtree(path)


def directives(**changed):
    """Directives of the unit; changed: None removes one."""
    out = [d for d in sandbox.read_unit(UNIT) if d[0] not in changed]
    return out + [[k, v] for k, v in changed.items() if v is not None]


def popen(netns, what, *argv, deny="kill", **kw):
    return netns.popen(PYTHON, os.path.join(HERE, "sandbox.py"), sandbox.request(what, deny), *argv,
                       **kw)


class Service:
    """vipd, started as the unit starts it; its notifications to the service manager."""

    def __init__(self, netns, folder, *flags, what=None, deny="kill"):
        self.log_path = os.path.join(folder, "log")
        self.report = ""
        self.notify = netns.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind("\0vipd-test-notify")
        self.notify.settimeout(0.05)
        command = sandbox.Unit(directives()).get("ExecStart").replace(" $VIPD_FLAGS", "").split()
        assert os.path.basename(command[0]) == "vipd" and len(command) == 1
        with open(self.log_path, "wb") as log:
            self.proc = popen(netns, directives() if what is None else what, L.program("vipd"),
                              "--hostname-override", NODE, *flags, deny=deny,
                              stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                              env={"PATH": os.environ["PATH"], "WATCHDOG_USEC": "400000",
                                   "NOTIFY_SOCKET": "@vipd-test-notify"})

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def received(self, what):
        with contextlib.suppress(socket.timeout):
            while True:
                self.report += self.notify.recv(4096).decode() + "\n"
        return what in self.report

    def status(self):
        r = subprocess.run([L.program("vipctl"), "--socket", "/proc/%d/root/run/vipd/control.sock" %
                            self.proc.pid, "-o", "json", "status"], capture_output=True, text=True,
                           check=False)
        return json.loads(r.stdout) if r.stdout else {}

    def is_settled(self):
        assert self.proc.poll() is None, "ended with %d: %s" % (self.proc.returncode, self.log())
        s = self.status()
        return s.get("state") == "running" and s["pending"]["services"] == 0

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait(60)
        self.notify.close()


def objects(*endpoints):
    return [service("dns", [IP], [port(53, "UDP", "dns"), port(80, "TCP", "web")]),
            slice_("dns", [entry(e, "n2") for e in endpoints],
                   [slice_port(5353, "UDP", "dns"), slice_port(8080, "TCP", "web")], fam=4)]


def put(path, objs):
    for i, obj in enumerate(objs):
        with open("%s/.%d" % (path, i), "w", encoding="utf-8") as f:
            json.dump(obj, f)
        os.rename("%s/.%d" % (path, i), "%s/%d.json" % (path, i))


def get(netns, at):
    """The status of an HTTP answer."""
    with netns.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.settimeout(60)
        s.connect(at)
        s.sendall(b"GET /livez HTTP/1.0\r\n\r\n")
        return int(s.recv(100).split()[1])


def test_exposure():
    """The rating of the unit by systemd."""
    r = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                        "--threshold=%d" % (EXPOSURE_MAX * 10), UNIT], capture_output=True,
                       text=True, check=False)
    assert r.returncode == 0, r.stdout
    assert "Overall exposure level for vipd.service" in r.stdout


# A denied operation: a statement, and the directives that deny it.
REFUSED = {
    "write to /etc": ("open('/etc/vipd-test-sandbox', 'w'); os.unlink('/etc/vipd-test-sandbox')",
                      ["ProtectSystem"]),
    "packet socket": ("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
                      ["RestrictAddressFamilies", "CapabilityBoundingSet"]),
    "user namespace": ("call(libc.unshare(0x10000000))", ["RestrictNamespaces"]),
    "other execution domain": ("call(libc.personality(0x40000))", ["LockPersonality"]),
    "writable code": ("mmap.mmap(-1, 4096, prot=7)", ["MemoryDenyWriteExecute"]),
    "code that was written": ("m = mmap.mmap(-1, 4096); call(libc.mprotect(ctypes.c_void_p("
                              "ctypes.addressof(ctypes.c_char.from_buffer(m))), 4096, 5))",
                              ["MemoryDenyWriteExecute"]),
    "suid file": ("os.chmod('/run/vipd', 0o4755)", ["RestrictSUIDSGID", "ProtectSystem"]),
    "better nice": ("os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)",
                    ["CapabilityBoundingSet"]),
    "other CPUs": ("os.sched_setaffinity(0, os.sched_getaffinity(0))", ["SystemCallFilter"]),
    "chown": ("os.chown('/run/vipd', 0, 0)", ["SystemCallFilter", "CapabilityBoundingSet"]),
    "host name": ("socket.sethostname('x')", ["SystemCallFilter", "CapabilityBoundingSet"]),
    "kernel log": ("open('/dev/kmsg')", ["PrivateDevices", "ProtectKernelLogs"]),
    "ptrace": ("call(libc.ptrace(0, 0, 0, 0))", ["SystemCallFilter"]),
}
PROBE = """
import ctypes, mmap, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(r):
    if r == -1:
        raise OSError(ctypes.get_errno(), 'refused')
try:
    exec(sys.argv[1])
except OSError as e:
    print(os.strerror(e.errno)); sys.exit(1)
"""


@pytest.mark.parametrize("what", sorted(REFUSED))
def test_refused(netns, what):
    statement, without = REFUSED[what]

    def probe(dirs):
        p = popen(netns, dirs, PYTHON, "-c", PROBE, statement, deny="errno",
                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return p.communicate(timeout=60)[0], p.returncode
    everything = directives(CapabilityBoundingSet=" ".join("CAP_" + c.upper()
                                                           for c in sandbox.CAPS))
    everything = [d for d in everything if d[0] not in without or d[0].startswith("Cap")]
    said, code = probe(directives())
    assert code == 1 and re.match("Operation not permitted|Read-only|No such file|Permission", said)
    assert probe(everything) == ("", 0)


def test_serves(netns, folder):
    """Under a filter that ends the program at its first call outside of it."""
    manifests = os.path.join(folder, "services")
    os.mkdir(manifests)
    put(manifests, objects("10.244.2.1", "10.244.2.2"))
    v = Service(netns, folder, "--manifests", manifests)
    ct = ctnetlink.Conntrack(netns)
    try:
        L.eventually(v.is_settled, 10, v.log)
        L.eventually(lambda: v.received("READY=1"), 5, lambda: v.report)
        L.eventually(lambda: v.received("WATCHDOG=1"), 5, lambda: v.report)
        assert get(netns, ("127.0.0.1", 10256)) == 200
        held = netns.run("nft", "list", "table", "ip", "vipd")
        assert IP in held and "10.244.2.2" in held
        with netns.entered(), open("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established",
                                   encoding="ascii") as f:
            assert f.read() == "86400\n"
        with open("/proc/%d/status" % v.proc.pid, encoding="ascii") as f:
            status = f.read()
        assert int(re.search(r"^CapEff:\s*(\w+)", status, re.M)[1], 16) == 1 << 12 | 1 << 28
        assert re.search(r"^Seccomp:\s*2$", status, re.M)
        # The helper: it deletes a flow to a removed endpoint.
        ct.insert("udp", "198.51.100.9", 1024, IP, 53, "10.244.2.2", 5353)
        assert len(ct.to(IP, 53)) == 1
        put(manifests, objects("10.244.2.1"))
        L.eventually(lambda: not ct.to(IP, 53), 5, "the flow stays")
        assert v.is_settled()
        assert "10.244.2.2" not in netns.run("nft", "list", "map", "ip", "vipd", "endpoints")
        assert not [x for x in v.log().splitlines()
                    if TROUBLE.search(x) and "hashsize" not in x], v.log()
        v.proc.send_signal(signal.SIGTERM)
        assert v.proc.wait(60) == 0
    finally:
        ct.close()
        v.close()


@pytest.mark.parametrize("caps", ["CAP_NET_ADMIN CAP_LEASE", "CAP_NET_ADMIN"])
def test_writer_of_another_user(netns, folder, caps):
    """A manifest of another user that a process has open for writing is not read. Without
    CAP_LEASE it is."""
    manifests = os.path.join(folder, "services")
    os.mkdir(manifests)
    put(manifests, objects("10.244.2.1"))
    os.chown(manifests + "/1.json", 65534, 65534)
    has_lease = "CAP_LEASE" in caps
    with open(manifests + "/1.json", "a", encoding="utf-8"):
        v = Service(netns, folder, "--manifests", manifests,
                    what=directives(CapabilityBoundingSet=caps))
        try:
            L.eventually(v.is_settled, 10, v.log)
            assert ("1.json: is not completely written" in v.log()) == has_lease, v.log()
            assert ("10.244.2.1" in netns.run("nft", "list", "table", "ip", "vipd")) != has_lease
        finally:
            v.close()


def test_doctor(netns, folder):
    """A node check makes a call that the filter denies, and continues without it:
    ProtectClock."""
    manifests = os.path.join(folder, "services")
    os.mkdir(manifests)
    v = Service(netns, folder, "--manifests", manifests, deny="errno")
    try:
        L.eventually(v.is_settled, 10, v.log)
        control = "/proc/%d/root/run/vipd/control.sock" % v.proc.pid
        r = subprocess.run([L.program("vipctl"), "--socket", control, "doctor", "-o", "json"],
                           capture_output=True, text=True, timeout=60, check=False)
        found = {c["check"]: c["found"] for c in json.loads(r.stdout)["results"]}
        assert "doctor" not in found and "unknown" in found["clock"], found
    finally:
        v.close()


@pytest.mark.parametrize("user", ["token", "exec"])
def test_api(netns, folder, user):
    """An API server, with a credential plugin as well. The test's files are in /tmp."""
    with Server(netns=netns.name) as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
                 "status": {"addresses": [{"type": "InternalIP", "address": "10.244.0.1"}]}})
        api.load(services=3, endpoints=2)
        v = Service(netns, folder, "--kubeconfig", api.kubeconfig(user),
                    what=directives(PrivateTmp=None, ProtectSystem=None))
        try:
            L.eventually(v.is_settled, 15, v.log)
            assert not TROUBLE.search(v.log().replace("hashsize: cannot", "")), v.log()
        finally:
            v.close()


# A removed permission, and the function that fails without it.
NEEDED = {
    "CAP_NET_ADMIN": ({"CapabilityBoundingSet": ""}, "Operation not permitted"),
    "netlink": ({"RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6"}, "netlink"),
    "unix": ({"RestrictAddressFamilies": "AF_INET AF_INET6 AF_NETLINK"}, "Operation not permitted"),
    "inet": ({"RestrictAddressFamilies": "AF_UNIX AF_INET6 AF_NETLINK"}, "metrics.*not permitted"),
    "inet6": ({"RestrictAddressFamilies": "AF_UNIX AF_INET AF_NETLINK"}, "health.*not permitted"),
    "/proc/sys": ({"ProtectKernelTunables": "yes"},
                  "tcp_timeout_established: cannot be set to 86400: Read-only"),
    "a place for its socket": ({"RuntimeDirectory": ""}, "/run/vipd.*Read-only"),
}


@pytest.mark.parametrize("what", sorted(NEEDED))
def test_needed(netns, folder, what):
    """The test of serving can fail."""
    changed, says = NEEDED[what]
    manifests = os.path.join(folder, "services")
    os.mkdir(manifests)
    put(manifests, objects("10.244.2.1"))
    v = Service(netns, folder, "--manifests", manifests, what=directives(**changed), deny="errno")
    try:
        L.eventually(lambda: re.search(says, v.log()), 5, v.log)
    finally:
        v.close()


def wrapped_build(folder):
    """A build with vipd under the filter and the capabilities of the unit, without other
    restrictions: tests have their files and control sockets in /tmp."""
    top = os.path.join(folder, "build")
    os.makedirs(top + "/tests")
    for name in ("vipctl", "deploy"):
        os.symlink(os.path.join(L.build_dir(), name), os.path.join(top, name))
    os.symlink(os.path.join(L.build_dir(), "tests/tools"), top + "/tests/tools")
    what = directives(PrivateTmp=None, ProtectSystem=None)
    with open(top + "/vipd", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexec %s \"$@\"\n" % shlex.join((
            PYTHON, os.path.join(HERE, "sandbox.py"), sandbox.request(what, "kill"), L.program("vipd"))))
    os.chmod(top + "/vipd", 0o755)
    return top


# A few tests with most functions: changes, stale flows, a helper that dies, sockets that are
# opened and closed.
# VIPD_SANDBOX_TESTS chooses others.
MAIN_TESTS = ["tests/net/test_changes.py", "tests/net/test_conntrack.py", "tests/net/test_health.py"]
MAIN_CHOICE = os.environ.get("VIPD_SANDBOX_TESTS", "no_change_no_write or helper_dies or sysctls or "
                             "ports_follow or notify")


def test_main_tests(folder):
    """Tests of traffic, with a vipd that is killed at its first call outside of the unit's
    filter."""
    env = dict(os.environ, VIPD_BUILD=wrapped_build(folder))
    r = subprocess.run([PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k",
                        MAIN_CHOICE] + MAIN_TESTS, cwd=ROOT, env=env, capture_output=True,
                       text=True, timeout=600, check=False)
    assert r.returncode == 0, r.stdout[-4000:]
    assert re.search(r"\b[1-9]\d* passed", r.stdout), r.stdout
