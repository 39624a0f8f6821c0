# SPDX-License-Identifier: GPL-2.0-or-later
"""One vipd a network namespace: the second names the first and ends; one that is killed, with its
helper at work, keeps nobody out."""
import contextlib
import os
import re
import statistics
import subprocess
import time

import ctnetlink
import daemon
import lab as L
from objects import entry, port, service, slice_, slice_port

FLOWS = 120000
ROUNDS = 5


def second(vipd, *more):
    """What a vipd beside the first one says."""
    with vipd.lab.node.entered():
        r = subprocess.run(vipd.argv() + list(more), capture_output=True, text=True, timeout=20,
                           check=False)
    assert r.returncode == 1, r.stderr
    return r.stderr


def test_second_names_the_first(lab, vipd):
    """LIFE-09; as often as it is tried, and with --cleanup as well."""
    want = "another vipd serves this network namespace: process %d" % vipd.proc.pid
    for _ in range(4):
        assert want in second(vipd, "--control-socket", vipd.socket + "2")
    assert want in second(vipd, "--cleanup")
    assert vipd.status()["state"] == "running" and vipd.status()["pid"] == vipd.proc.pid


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


def held_sockets(pid):
    """Inodes of the sockets that a process has."""
    out = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(FileNotFoundError):  # closed just now
            m = re.match(r"socket:\[(\d+)\]", os.readlink("/proc/%d/fd/%s" % (pid, fd)))
            if m:
                out.add(int(m.group(1)))
    return out


def lock_inode(lab):
    """Of the socket that listens at the lock's name."""
    with lab.node.entered(), open("/proc/thread-self/net/unix", encoding="ascii") as f:
        for line in f:
            if line.rstrip().endswith("@vipd/lock") and line.split()[3] == "00010000":
                return int(line.split()[6])
    return None


def udp(n):
    """A UDP service that had `n` endpoints: fewer of them, and flows are looked for."""
    return [service("u", [L.cluster_ip(910, 4)], [port(53, "UDP", "dns")]),
            slice_("u", [entry(L.remote(1 + i, 4), "n2") for i in range(n)],
                   [slice_port(5353, "UDP", "dns")], fam=4)]


def kill_at_work(lab, vipd, n):
    """Make the helper walk, kill vipd meanwhile, start another; how long until that has the lock."""
    pid = L.eventually(lambda: helper(vipd.proc.pid), 5, "there is no helper")
    assert lock_inode(lab) in held_sockets(vipd.proc.pid)
    assert lock_inode(lab) not in held_sockets(pid)
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        before = int(f.read().split()[0])
    vipd.write(udp(n))

    def at_work():
        with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
            return int(f.read().split()[0]) - before > 2e6
    L.eventually(at_work, 5, "the helper does nothing")
    vipd.proc.kill()
    begin = time.monotonic()
    log = open(vipd.log_path, "ab")  # pylint: disable=consider-using-with
    new = lab.node.popen(*vipd.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    log.close()
    while lock_inode(lab) not in held_sockets(new.pid):
        assert new.poll() is None, vipd.log()
        assert time.monotonic() - begin < 5, "no lock after 5 s"
        time.sleep(0.0005)
    took = time.monotonic() - begin
    vipd.proc.wait()
    vipd.proc = new
    vipd.wait_ready()
    return took


def test_killed_with_its_helper_at_work():
    with L.Lab(servers=False) as other:
        vipd = daemon.Vipd(other)
        ct = ctnetlink.Conntrack(other.node)
        try:
            for fam, dst, to in ((4, "198.18.0.1", "198.18.0.2"), (6, "fd98::1", "fd98::2")):
                ct.fill(fam, FLOWS // 2, dst, 80, to, 80, "udp")
            vipd.write(udp(2 * ROUNDS + 2))
            vipd.start()
            took = []
            for i in range(ROUNDS):
                took.append(kill_at_work(other, vipd, 2 * ROUNDS - i))
            # Of the walks of dead helpers nobody waits for; what remains is other load.
            assert min(took) < 0.1 * L.SLOW and statistics.median(took) < 0.5 * L.SLOW, took
        finally:
            ct.close()
            vipd.close()
