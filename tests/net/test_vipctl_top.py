# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl top in a terminal of 80x24: the connections made, keys, a clean end."""
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pyte

import lab as L
from objects import service, slice_
from shop import E1, Svc

FLAGS = {"--metrics-per-service": "endpoint"}


class Terminal:
    """vipctl in a pseudo terminal, and the screen that it draws."""

    def __init__(self, *argv, cols=80, lines=24, term="linux"):
        self.screen = pyte.Screen(cols, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, cols, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.proc = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave,
                                     env=dict(os.environ, TERM=term), start_new_session=True)

    def read(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            r, _, _ = select.select([self.fd], [], [], 0.05)
            if r:
                self.stream.feed(os.read(self.fd, 65536))

    def until(self, wanted, timeout=L.PATIENCE):
        end = time.monotonic() + timeout
        while not wanted(self.screen.display):
            assert time.monotonic() < end, "\n".join(self.screen.display)
            self.read(0.1)
        return self.screen.display

    def key(self, text):
        os.write(self.fd, text.encode())

    def ended(self):
        self.read(0.2)
        return self.proc.wait(L.PATIENCE)

    def is_clean(self):
        """The terminal is as it was."""
        return termios.tcgetattr(self.slave)[:4] == self.before[:4]

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        os.close(self.fd)
        os.close(self.slave)


def row_of(display, text):
    rows = [line for line in display if text in line]
    return rows[0].split() if rows else []


def test_top(lab, vipd):
    svc = Svc("topped", 64, "local")
    vipd.apply(svc.objects())
    t = Terminal(L.program("vipctl"), "--socket", vipd.socket, "top", "--watch=1")
    try:
        t.until(lambda d: "vipd on n1" in d[0] and "CONN/S" in d[3])
        for _ in range(20):
            assert L.probe(lab.ns["pod3"], svc.addr("clusterip", 4), 80).ok
        display = t.until(lambda d: row_of(d, "default/topped")[2:3] == ["20"])
        assert "by rate" in display[23]
        t.key("x\033[Bn")
        t.until(lambda d: "by name" in d[23])
        t.key("e")
        display = t.until(lambda d: "ENDPOINT" in d[3] and row_of(d, "%s:8080" % E1[4]))
        assert row_of(display, "%s:8080" % E1[4])[1] == "20"
        t.key("q")
        assert t.ended() == 0 and t.is_clean()
    finally:
        t.close()


def stopped(proc):
    with open("/proc/%d/stat" % proc.pid, encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def test_top_is_suspended(vipd):
    """Ctrl-Z and fg: the terminal is as before in between, then the screen is drawn again."""
    t = Terminal(L.program("vipctl"), "--socket", vipd.socket, "top")
    try:
        t.until(lambda d: "vipd on n1" in d[0])
        t.proc.send_signal(signal.SIGTSTP)
        L.eventually(lambda: stopped(t.proc), L.PATIENCE, "vipctl stopped")
        t.read(0.1)
        assert t.is_clean()
        t.screen.reset()
        t.proc.send_signal(signal.SIGCONT)
        t.until(lambda d: "vipd on n1" in d[0] and "by rate" in d[23])
        t.key("q")
        assert t.ended() == 0 and t.is_clean()
    finally:
        t.close()


def test_page_has_counts(lab, vipd):
    """vipctl svc shows connections if they are counted."""
    svc = Svc("counted", 65, "local")
    vipd.apply(svc.objects())
    for _ in range(7):
        assert L.probe(lab.ns["pod3"], svc.addr("clusterip", 4), 80).ok
    page = vipd.ctl("svc", "default/counted")
    assert "7, of these 0 rejected" in page
    backend = [line.split() for line in page.splitlines()
               if "%s:8080" % E1[4] in line and line.split()[0] == "0"]
    assert "7" in [b[-1] for b in backend]
    only = vipd.get("/v1/counts?service=default/counted")
    assert [i["name"] for i in only["items"]] == ["counted"]


def test_top_is_interrupted(vipd):
    """Ctrl-C, a vipd that ends, and an unknown terminal: all leave the terminal unchanged."""
    t = Terminal(L.program("vipctl"), "--socket", vipd.socket, "top")
    try:
        t.until(lambda d: "vipd on n1" in d[0])
        t.proc.send_signal(signal.SIGINT)
        assert t.ended() == 0 and t.is_clean()
    finally:
        t.close()
    t = Terminal(L.program("vipctl"), "--socket", vipd.socket, "top", term="dumb")
    try:
        t.until(lambda d: "TERM is 'dumb'" in d[0])
        assert t.ended() == 2 and t.is_clean()
    finally:
        t.close()
    r = subprocess.run([L.program("vipctl"), "--socket", vipd.socket + ".none", "top"],
                       capture_output=True, text=True, timeout=L.LIMIT, check=False)
    assert r.returncode == 3 and "no socket" in r.stderr


def test_svc_name_of_one(lab, vipd):
    """-o name prints names, also when one service is meant."""
    ip = L.cluster_ip(720, 4)
    vipd.apply([service("named", ip, 80), slice_("named", [L.remote(1, 4)], 8080)])
    for what in ("default/named", "named", ip):
        assert vipd.ctl("svc", what, "-o", "name") == "default/named\n"
