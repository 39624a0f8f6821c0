# SPDX-License-Identifier: GPL-2.0-or-later
"""--dead-flows=reset: a TCP client of a removed endpoint gets a reset at its next packet, instead
of waiting for its timeouts; no other client does."""
import contextlib
import time

import pytest

import lab as L
import test_conntrack as t
from objects import entry, port, service, slice_, slice_port

FLAGS = {"-v": "2", "--dead-flows": "reset"}

FAMS = (4, 6)  # together: each test waits for seconds
GRACE = 5  # how long an address must be an endpoint of nothing
PORTS = [port(80, "TCP", "tcp", 30001)]


@pytest.fixture(autouse=True)
def begin_empty(vipd):
    yield
    vipd.apply([])


def svc():
    return t.svc(ports=PORTS)


def eps(*numbers, name="s"):
    return [slice_(name, [entry(L.remote(i, f), "n2") for i in numbers],
                   [slice_port(8080, "TCP", "tcp")], fam=f) for f in (4, 6)]


@contextlib.contextmanager
def silent(lab, number):
    """The pod is removed: its addresses get no answer, not even a reset."""
    lab.node2.run("nft", """table inet vipdt_dead { chain c {
        type filter hook prerouting priority -400;
        ip daddr %s drop; ip6 daddr %s drop; }; }""" % (L.remote(number, 4), L.remote(number, 6)))
    try:
        yield
    finally:
        lab.node2.run("nft", "delete", "table", "inet", "vipdt_dead")


def clients(lab, number):
    """Of every frontend, from everywhere, in both families; all of them reach that endpoint."""
    out = t.Clients()
    for origin in "XPH":
        for kind in ("clusterip", "lb", "nodeport"):
            for fam in FAMS:
                c = t.Client(lab, origin, *t.target(kind, fam), "tcp")
                assert c.backend() == L.remote(number, fam)
                out.append(c)
    return out


class Kept:
    """Clients of one frontend of each family, whose connections must stay."""

    def __init__(self, lab, ct, origin, kind):
        self.ct = ct
        self.clients = t.Clients(t.Client(lab, origin, *t.target(kind, fam), "tcp")
                                 for fam in FAMS)
        assert all(c.ask().ok for c in self.clients)
        self.ids = [c.entry(ct).id for c in self.clients]

    def check(self):
        for c, id_ in zip(self.clients, self.ids):
            assert c.ask().ok and c.entry(self.ct).id == id_

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for c in self.clients:
            c.close()


def outcome(client, seconds):
    """Repeat the client's request until it has this result."""
    client.conn.sock.settimeout(seconds)
    try:
        client.conn.sock.sendall(b"?\n")
        return client.conn.sock.recv(200).decode() or "end"
    except ConnectionResetError:
        return "reset"
    except (TimeoutError, OSError) as e:
        return str(e)


@pytest.mark.parametrize("left", ((2,), ()), ids=("another-left", "none-left"))
def test_reset(lab, vipd, ct, left):
    """Through every frontend, from every client."""
    vipd.apply([svc()] + eps(7))
    with clients(lab, 7) as dead, silent(lab, 7):
        vipd.apply([svc()] + eps(*left))
        with clients(lab, 2) if left else t.Clients() as alive:
            ids = [c.entry(ct).id for c in alive]
            for c in dead:
                c.conn.sock.sendall(b"?\n")  # all of them at once: the kernel repeats it
            for c in dead:
                assert outcome(c, L.PATIENCE) == "reset"
            for c, id_ in zip(alive, ids):
                assert c.ask().ok and c.entry(ct).id == id_


def test_back_in_time(lab, vipd, ct):
    """Removed from its slice and added to another one later: the connection continues."""
    vipd.apply([svc()] + eps(7))
    with Kept(lab, ct, "X", "lb") as kept:
        vipd.apply([svc()] + eps(2))
        time.sleep(0.3)
        vipd.apply([svc()] + eps(2, 7))
        time.sleep(GRACE)
        kept.check()


def test_alive_elsewhere(lab, vipd, ct):
    """Removed from this service but still in a headless one: the pod runs, and its connections
    continue."""
    headless = service("h", "None", port(9, "TCP"))
    headless["spec"]["clusterIPs"] = ["None"]
    other = [headless] + eps(7, name="h")
    vipd.apply([svc()] + eps(7) + other)
    with Kept(lab, ct, "X", "clusterip") as kept:
        vipd.apply([svc()] + eps(2) + other)
        time.sleep(GRACE + 2)
        kept.check()


def test_terminating_is_not_dead(lab, vipd, ct):
    """In a slice with any condition: its connections stay."""
    vipd.apply([svc()] + eps(7))
    with Kept(lab, ct, "X", "nodeport") as kept:
        gone = {"ready": False, "serving": False, "terminating": True}
        vipd.apply([svc()] + [slice_("s", [entry(L.remote(7, f), "n2", **gone)],
                                     [slice_port(8080, "TCP", "tcp")], fam=f) for f in FAMS])
        time.sleep(GRACE + 2)
        kept.check()


def test_service_deleted(lab, vipd):
    """Service and pods at once, as when a namespace is deleted."""
    vipd.apply([svc()] + eps(7))
    with clients(lab, 7) as dead, silent(lab, 7):
        before = time.monotonic()
        vipd.apply([])
        # The cluster IP and the others lead nowhere of ours any more: the lab's world resets.
        for c in dead:
            c.conn.sock.sendall(b"?\n")
        for c in dead:
            if c.to not in [L.cluster_ip(t.NUMBER, f) for f in FAMS]:  # unallocated (REJ-06)
                assert outcome(c, L.PATIENCE) == "reset"
        assert time.monotonic() - before > GRACE - 1
