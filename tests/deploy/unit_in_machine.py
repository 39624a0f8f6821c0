# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd.service under a real systemd: the first process of a machine of tests/vm, in which the build
is installed as `make install` does. Run by tests/vm/suite.py; not collected elsewhere,
because it enables a service of its machine."""
import contextlib
import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

SERVICES = "/etc/vipd/services"
DROP_IN = "/etc/systemd/system/vipd.service.d/test.conf"
IP, POD, NODE_SIDE = "10.96.0.10", "10.244.1.2", "10.244.1.1"
FAST_EXITS = 7  # more than systemd's default start limit, 5 in 10 s
PATIENCE = 600  # seconds; a start takes 30 s in a machine beside 20 busy processes
CLONE_NEWNET = 0x40000000
MANIFEST = {"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
     "spec": {"clusterIP": IP, "clusterIPs": [IP], "ports": [{"port": 80, "targetPort": 8080}]}},
    {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
     "metadata": {"name": "web-1", "namespace": "shop",
                  "labels": {"kubernetes.io/service-name": "web"}},
     "endpoints": [{"addresses": [POD], "conditions": {"ready": True}}],
     "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]}]}


def run(*argv, check=True):
    r = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert r.returncode == 0 or not check, (argv, r.stdout, r.stderr)
    return r.stdout.strip()


def systemctl(*argv, **kw):
    return run("systemctl", *argv, **kw)


def show(name):
    return systemctl("show", "--value", "-p", name, "vipd")


def journal():
    return run("journalctl", "-u", "vipd", "--no-pager", "-o", "short-monotonic")


def eventually(what):
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, journal()[-4000:]
        time.sleep(0.1)


def is_active():
    return systemctl("is-active", "vipd", check=False) == "active"


def status(**kw):
    return json.loads(run("/usr/local/bin/vipctl", "-o", "json", "status", **kw))


def connect():
    with socket.create_connection((IP, 80), timeout=PATIENCE) as s:
        return s.recv(16)


def put_manifest():
    with open(SERVICES + "/.web.json", "w", encoding="ascii") as f:
        json.dump(MANIFEST, f)
    os.rename(SERVICES + "/.web.json", SERVICES + "/web.json")


@contextlib.contextmanager
def pod():
    """A namespace with a server that sends a greeting. A thread makes the listening socket in
    it."""
    made = threading.Event()

    def serve():
        with open("/run/netns/pod", "rb") as ns:
            assert ctypes.CDLL(None).setns(ns.fileno(), CLONE_NEWNET) == 0
        with socket.create_server((POD, 8080)) as listening:
            made.set()
            while True:
                conn, _ = listening.accept()
                conn.sendall(b"hello")
                conn.close()
    run("ip", "netns", "add", "pod")
    try:
        run("ip", "link", "add", "pod0", "type", "veth", "peer", "name", "eth0", "netns", "pod")
        for where, dev, addr in ((), "pod0", NODE_SIDE), (("-n", "pod"), "eth0", POD):
            run("ip", *where, "addr", "add", addr + "/24", "dev", dev)
            run("ip", *where, "link", "set", dev, "up")
        run("ip", "route", "add", "10.96.0.0/12", "via", POD)
        run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        threading.Thread(target=serve, daemon=True).start()
        assert made.wait(PATIENCE)
        yield
    finally:
        run("ip", "netns", "del", "pod")


@pytest.fixture(scope="module", autouse=True)
def installed():
    """Installed and enabled, without other steps, as by a first user."""
    with open("/proc/cmdline", encoding="ascii") as f:
        assert "vipd.systemd" in f.read(), "for a machine of tests/vm only"
    with pod():
        systemctl("enable", "--now", "vipd")
        yield
        systemctl("disable", "--now", "vipd")


@contextlib.contextmanager
def drop_in(text):
    os.makedirs(os.path.dirname(DROP_IN), exist_ok=True)
    with open(DROP_IN, "w", encoding="ascii") as f:
        f.write(text)
    systemctl("daemon-reload")
    try:
        yield
    finally:
        os.unlink(DROP_IN)
        systemctl("daemon-reload")


def test_start():
    """Install and enable is enough: the folder of manifests exists, and is watched."""
    assert is_active() and show("NRestarts") == "0"
    assert os.listdir(SERVICES) == []
    put_manifest()
    eventually(lambda: IP in run("nft", "list", "table", "ip", "vipd"))
    assert connect() == b"hello"
    assert show("StatusText")


def test_restart():
    """Ready means in service: the restart adopted the state and did not write it again."""
    before = show("MainPID")
    systemctl("restart", "vipd")
    assert is_active() and show("MainPID") != before
    assert connect() == b"hello"
    assert status()["sync"]["writes"] == 0, status()["sync"]


def test_killed():
    """systemd restarts it; meanwhile the kernel serves."""
    restarts, before = int(show("NRestarts")), show("MainPID")
    hold = "/etc/vipd/hold"  # while it exists, no process starts
    with drop_in("[Service]\nTimeoutStartSec=%d\nExecStartPre=sh -c 'while [ -e %s ]; do sleep 0.1; done'\n" % (
            PATIENCE, hold)):
        with open(hold, "wb"):
            systemctl("kill", "-s", "KILL", "vipd")
        eventually(lambda: show("ActiveState") == "activating")
        assert connect() == b"hello"
        os.unlink(hold)
        eventually(lambda: int(show("NRestarts")) == restarts + 1 and is_active())
    assert show("MainPID") != before and connect() == b"hello"


def notified():
    """Time of the last watchdog notification, or of the start before the first."""
    return int(show("WatchdogTimestampMonotonic"))


def test_watchdog():
    """A process that hangs is replaced. A healthy one is not: it sends watchdog notifications."""
    with drop_in("[Service]\nWatchdogSec=20\n"):
        systemctl("restart", "vipd")
        restarts, before, first = int(show("NRestarts")), show("MainPID"), notified()
        assert show("WatchdogUSec") == "20s"
        eventually(lambda: notified() > first)
        assert (int(show("NRestarts")), show("MainPID")) == (restarts, before), journal()[-4000:]
        systemctl("kill", "-s", "STOP", "--kill-whom=main", "vipd")
        eventually(lambda: int(show("NRestarts")) > restarts and is_active())
        assert "Watchdog timeout" in journal()
    assert show("MainPID") != before and connect() == b"hello"
    systemctl("restart", "vipd")


def test_stop():
    """The rules stay in the kernel and serve; no process is left."""
    systemctl("stop", "vipd")
    assert (show("Result"), show("ExecMainStatus"), show("ActiveState")) == (
        "success", "0", "inactive")
    assert not re.search(r"^\S*vipd$", run("ps", "-eo", "comm"), re.M)
    assert connect() == b"hello"
    systemctl("start", "vipd")
    assert status()["sync"]["writes"] == 0


def test_start_failure_and_recovery():
    """A source that does not exist yet: systemd restarts vipd without limit."""
    config = "/etc/vipd/kubeconfig"
    systemctl("stop", "vipd")
    systemctl("reset-failed", "vipd", check=False)  # systemd may have unloaded the stopped unit
    with drop_in("[Service]\nEnvironment=VIPD_FLAGS=--kubeconfig=%s\nRestartSec=100ms\n" % config):
        systemctl("start", "--no-block", "vipd")
        eventually(lambda: int(show("NRestarts")) >= FAST_EXITS)
        assert show("ActiveState") == "activating" and show("Result") != "start-limit-hit"
        assert config in journal() and connect() == b"hello"
        systemctl("stop", "vipd")
    shutil.move(SERVICES, SERVICES + ".away")
    with drop_in("[Service]\nRestartSec=100ms\n"):
        systemctl("start", "--no-block", "vipd")
        time.sleep(5)
        assert connect() == b"hello"
        shutil.move(SERVICES + ".away", SERVICES)
        eventually(lambda: is_active() and status()["state"] == "running")
    assert connect() == b"hello" and status()["sync"]["writes"] == 0


def test_start_without_a_source():
    """`systemctl start`, and so dpkg, returns while the API server is unreachable: the source is pending, the rules serve."""
    config = "/etc/vipd/unreachable"
    with open(config, "w", encoding="ascii") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                   "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
                   "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u"}]}, f)
    with drop_in("[Service]\nEnvironment=VIPD_FLAGS=--kubeconfig=%s\n" % config):
        systemctl("restart", "vipd")
        # The exit status names the problem: the API server does not answer.
        assert is_active() and status(check=False)["state"] == "waiting" and connect() == b"hello"
        assert show("StatusText") == "waiting for the first complete lists"
        assert "reported as started before the first sync" in journal()
    os.unlink(config)
    systemctl("restart", "vipd")
    assert status()["sync"]["writes"] == 0
