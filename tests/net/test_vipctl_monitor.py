# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl monitor: events, kernel operations, and readers that do not read."""
import json
import os
import select
import socket
import subprocess

import pytest

import lab as L
from shop import Svc


class Monitor:
    """A running vipctl monitor -o json."""

    def __init__(self, vipd, *args):
        self.proc = subprocess.Popen(
            [L.program("vipctl"), "--socket", vipd.socket, "monitor", "-o", "json"] + list(args),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.text = b""
        assert self.next()["event"] == "hello"

    def next(self, timeout=L.LIMIT):
        while b"\n" not in self.text:
            r, _, _ = select.select([self.proc.stdout], [], [], timeout)
            assert r, "no event within %d s" % timeout
            data = os.read(self.proc.stdout.fileno(), 65536)
            assert data, self.proc.stderr.read()
            self.text += data
        line, self.text = self.text.split(b"\n", 1)
        return json.loads(line)

    def until(self, wanted):
        """Events up to the expected one."""
        seen = []
        while not seen or not wanted(seen[-1]):
            seen.append(self.next())
        return seen

    def close(self):
        self.proc.kill()
        self.proc.wait(60)
        self.proc.stdout.close()
        self.proc.stderr.close()


@pytest.fixture
def monitor(vipd):
    made = []

    def make(*args):
        made.append(Monitor(vipd, *args))
        return made[-1]
    yield make
    for m in made:
        m.close()


def is_slice(before, after):
    return lambda e: (e["event"] == "endpointslice" and e["endpoints_before"] == before and
                      e["endpoints_after"] == after)


def is_sync(e):
    return e["event"] == "sync"


def test_story(vipd, monitor):
    """A service is created, its endpoints change, it is deleted: objects, operations, times."""
    m = monitor("--service", "default/report")
    vipd.apply(Svc("report", 61).objects())
    first = m.until(is_slice(0, 2)) + m.until(is_slice(0, 2)) + m.until(is_sync)
    assert any(e["event"] == "service" and e["change"] == "put" for e in first)
    assert first[-1]["operations"] > 0 and first[-1]["took_us"] > 0
    assert {(e["namespace"], e.get("service", e["name"])) for e in first} == {("default", "report")}
    vipd.apply(Svc("report", 61, "local").objects())
    assert m.until(is_slice(2, 1))[-1]["relevant"]
    vipd.apply([])
    m.until(lambda e: e["event"] == "service" and e["change"] == "delete")


def test_foreign_change(vipd, monitor):
    m = monitor("--kind", "kernel")
    vipd.lab.node.run("nft", "delete", "element", "ip", vipd.table(4), "frontends",
                      "{ %s . tcp . 80 }" % "10.96.255.1")
    texts = [e["text"] for e in (m.next(), m.next())]
    assert "another process changed the ruleset" in texts
    assert "kernel state was repaired" in texts


def test_for_people(vipd):
    """The same as text; it ends without a message when its reader has ended."""
    p = subprocess.Popen([L.program("vipctl"), "--socket", vipd.socket, "monitor", "--service",
                          "default/people"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)

    def is_subscribed():
        vipd.apply(Svc("people", 62).objects())
        if select.select([p.stdout], [], [], 0.5)[0]:
            return True
        vipd.apply([])
        return False
    L.eventually(is_subscribed)
    vipd.apply([])  # the Service's first event may be older than the subscription
    assert any(" default/people " in line for line in iter(p.stdout.readline, ""))
    p.stdout.close()
    vipd.apply(Svc("people", 62).objects())
    vipd.apply([])
    assert p.wait(L.LIMIT) == 0 and p.stderr.read() == ""
    p.stderr.close()


def test_reader_that_does_not_read(vipd):
    """A slow subscriber takes bounded memory, does not slow others, and frees its place when it
    ends."""
    socks = []
    for _ in range(8):
        s = socket.socket(socket.AF_UNIX)
        s.connect(vipd.socket)
        s.sendall(b"GET /v1/monitor HTTP/1.1\r\nHost: x\r\n\r\n")
        socks.append(s)
    L.eventually(lambda: vipd.get("/v1/monitor?kind=sync").get("error", {}).get("status") == 503)
    before = int(open("/proc/%d/statm" % vipd.proc.pid, encoding="ascii").read().split()[1])
    for i in range(30):
        vipd.apply([o for n in range(10) for o in
                    Svc("busy%d" % n, 70 + n, "both" if i % 2 else "local").objects()])
    after = int(open("/proc/%d/statm" % vipd.proc.pid, encoding="ascii").read().split()[1])
    assert (after - before) * 4096 < 16 << 20
    for s in socks:
        s.close()
    m = Monitor(vipd)
    m.close()
    vipd.apply([])
