# SPDX-License-Identifier: GPL-2.0-or-later
"""One vipd per network namespace: the second names the first and ends. A killed one whose helper
still works does not block a start; nor does a process of another user."""
import fcntl
import os
import struct
import subprocess
import sys

import ctnetlink
import daemon
import lab as L
from objects import entry, port, service, slice_, slice_port

FLOWS = 120000
ROUNDS = 3
LOCK = "/run/vipd/lock"


def second(vipd, *more):
    """The error of a second vipd."""
    with vipd.lab.node.entered():
        r = subprocess.run(vipd.argv() + list(more), capture_output=True, text=True, timeout=L.LIMIT,
                           check=False)
    assert r.returncode == 1, r.stderr
    return r.stderr


def test_second_names_the_first(lab, vipd):
    """LIFE-09: at every attempt, also with --cleanup."""
    want = "another vipd serves this network namespace: process %d" % vipd.proc.pid
    for _ in range(4):
        assert want in second(vipd, "--control-socket", vipd.socket + "2")
    assert want in second(vipd, "--cleanup")
    assert vipd.status()["state"] == "running" and vipd.status()["pid"] == vipd.proc.pid


WITHOUT_RUN = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o ro none /run && exec \"$@\"", "sh"]


def test_cleanup_beside_a_vipd_without_lock():
    """A vipd that cannot write the lock file serves: --cleanup recognises the process, and removes nothing."""
    with L.Lab(servers=False) as other:
        vipd = daemon.Vipd(other, {"--nft-guard": "off"})
        vipd.write(udp(1))
        try:
            with_lock = vipd.argv
            vipd.argv = lambda: WITHOUT_RUN + with_lock()
            vipd.start()
            vipd.argv = with_lock
            assert "continuing without the lock" in vipd.log() and lock_holder(other) == 0
            assert "vipd runs (process %d, vipd)" % vipd.proc.pid in second(vipd, "--cleanup")
            assert L.cluster_ip(910, 4) in other.node.run("nft", "list", "ruleset")
            vipd.stop()
            other.node.run(*vipd.argv(), "--cleanup")
            assert other.node.run("nft", "list", "ruleset") == ""
        finally:
            vipd.close()


BIND = """
import os, socket, time
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.bind("\\0vipd/lock")
%s
try:
    open("/run/vipd/lock").close()
    print("open", flush=True)
except PermissionError:
    print("denied", flush=True)
time.sleep(600)
"""


def test_no_other_user_keeps_vipd_out():
    """A process of another user has the name that the lock once was, and listens or does not; the
    file it cannot open."""
    with L.Lab(servers=False) as other:
        vipd = daemon.Vipd(other)
        vipd.write([])
        try:
            for listen in ("", "s.listen()"):
                p = other.node.popen(sys.executable, "-c", BIND % listen, stdout=subprocess.PIPE)
                try:
                    assert p.stdout.readline() == b"denied\n"
                    vipd.start()
                    assert lock_holder(other) == vipd.proc.pid
                    vipd.stop()
                finally:
                    p.kill()
                    p.wait()
        finally:
            vipd.close()


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(x) for x in f.read().split()]


def helper(pid):
    """The process that walks over the table of flows."""
    for child in children(pid):
        with open("/proc/%d/comm" % child, encoding="ascii") as f:
            if f.read() == "vipd-conntrack\n":
                return child
    return None


def lock_holder(lab):
    """Pid of the process that has the lock of the lab's node; 0: none."""
    with lab.node.entered():
        byte = os.stat("/proc/thread-self/ns/net").st_ino * 2 + 1
    with open(LOCK, "rb") as f:
        flock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        try:
            flock = fcntl.fcntl(f, fcntl.F_GETLK, flock)
        except OSError:
            return 0
        kind, _, _, _, pid = struct.unpack("hhqqi4x", flock)
        return 0 if kind == fcntl.F_UNLCK else pid


def udp(n):
    """A UDP service that had `n` endpoints: fewer of them, and flows are looked for."""
    return [service("u", [L.cluster_ip(910, 4)], [port(53, "UDP", "dns")]),
            slice_("u", [entry(L.remote(1 + i, 4), "n2") for i in range(n)],
                   [slice_port(5353, "UDP", "dns")], fam=4)]


def kill_at_work(lab, vipd, n):
    """Make the helper walk, kill vipd meanwhile, start another: it has the lock."""
    pid = L.eventually(lambda: helper(vipd.proc.pid), 5, "there is no helper")
    assert lock_holder(lab) == vipd.proc.pid
    before = L.cpu_ms(pid)
    vipd.write(udp(n))
    L.eventually(lambda: L.cpu_ms(pid) > before + 2, 5, "the helper does nothing")
    vipd.proc.kill()
    log = open(vipd.log_path, "ab")  # pylint: disable=consider-using-with
    new = lab.node.popen(*vipd.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    log.close()
    L.eventually(lambda: lock_holder(lab) == new.pid or new.poll() is not None, 10)
    assert new.poll() is None, vipd.log()
    vipd.proc.wait()
    vipd.proc = new
    vipd.wait_ready()


def test_killed_with_its_helper_at_work():
    with L.Lab(servers=False) as other:
        vipd = daemon.Vipd(other)
        ct = ctnetlink.Conntrack(other.node)
        try:
            for fam, dst, to in ((4, "198.18.0.1", "198.18.0.2"), (6, "fd98::1", "fd98::2")):
                ct.fill(fam, FLOWS // 2, dst, 80, to, 80, "udp")
            vipd.write(udp(2 * ROUNDS + 2))
            vipd.start()
            for i in range(ROUNDS):
                kill_at_work(other, vipd, 2 * ROUNDS - i)
        finally:
            ct.close()
            vipd.close()
