# SPDX-License-Identifier: GPL-2.0-or-later
"""--dead-flows=reset: a TCP client whose endpoint is gone for good is told so at its next packet,
instead of waiting for its own timeouts; nobody else is."""
import contextlib
import time

import pytest

import ctnetlink
import lab as L
import test_conntrack as t
from objects import entry, port, service, slice_, slice_port

FLAGS = {"-v": "2", "--dead-flows": "reset"}

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
GRACE = 5  # how long an address must be an endpoint of nothing
PORTS = [port(80, "TCP", "tcp", 30001)]


@pytest.fixture(scope="module")
def ct(lab):
    made = ctnetlink.Conntrack(lab.node)
    yield made
    made.close()


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
    """The pod is gone: nobody answers for its address, not even with a reset."""
    lab.node2.run("nft", """table inet vipdt_dead { chain c {
        type filter hook prerouting priority -400;
        ip daddr %s drop; ip6 daddr %s drop; }; }""" % (L.remote(number, 4), L.remote(number, 6)))
    try:
        yield
    finally:
        lab.node2.run("nft", "delete", "table", "inet", "vipdt_dead")


def clients(lab, fam, want):
    out = t.Clients()
    for origin in "XPH":
        for kind in ("clusterip", "lb", "nodeport"):
            c = t.Client(lab, origin, *t.target(kind, fam), "tcp")
            assert c.backend() == want
            out.append(c)
    return out


def outcome(client, seconds):
    """What the client's question comes to, asked until then."""
    client.conn.sock.settimeout(seconds)
    try:
        client.conn.sock.sendall(b"?\n")
        return client.conn.sock.recv(200).decode() or "end"
    except ConnectionResetError:
        return "reset"
    except (TimeoutError, OSError) as e:
        return str(e)


@FAM
@pytest.mark.parametrize("left", ((2,), ()), ids=("another-left", "none-left"))
def test_reset(lab, vipd, ct, fam, left):
    """By whichever frontend and from wherever it came."""
    vipd.apply([svc()] + eps(7))
    with clients(lab, fam, L.remote(7, fam)) as dead, silent(lab, 7):
        vipd.apply([svc()] + eps(*left))
        with t.Clients() as alive:
            if left:
                alive.extend(clients(lab, fam, L.remote(2, fam)))
            ids = [c.entry(ct).id for c in alive]
            for c in dead:
                c.conn.sock.sendall(b"?\n")  # all of them at once: the kernel repeats it
            for c in dead:
                assert outcome(c, 20) == "reset"
            for c, id_ in zip(alive, ids):
                assert c.ask().ok and c.entry(ct).id == id_


@FAM
def test_back_in_time(lab, vipd, ct, fam):
    """Out of its slice and into another, with a gap: the connection does not notice."""
    vipd.apply([svc()] + eps(7))
    c = t.Client(lab, "X", *t.target("lb", fam), "tcp")
    assert c.ask().ok
    id_ = c.entry(ct).id
    vipd.apply([svc()] + eps(2))
    time.sleep(GRACE / 2)
    vipd.apply([svc()] + eps(2, 7))
    time.sleep(GRACE)
    assert c.ask().ok and c.entry(ct).id == id_
    c.close()


@FAM
def test_alive_elsewhere(lab, vipd, ct, fam):
    """Out of this service, but an endpoint of a headless one still: the pod lives, and so do its
    connections."""
    headless = service("h", "None", port(9, "TCP"))
    headless["spec"]["clusterIPs"] = ["None"]
    other = [headless] + eps(7, name="h")
    vipd.apply([svc()] + eps(2, 7) + other)
    conns = [t.Client(lab, "X", *t.target("clusterip", fam), "tcp") for _ in range(12)]
    ids = [c.entry(ct).id for c in conns]
    assert L.remote(7, fam) in [c.backend() for c in conns]
    vipd.apply([svc()] + eps(2) + other)
    time.sleep(GRACE + 2)
    for c, id_ in zip(conns, ids):
        assert c.ask().ok and c.entry(ct).id == id_
        c.close()


@FAM
def test_terminating_is_not_dead(lab, vipd, ct, fam):
    """In a slice in whatever condition: its connections may end by themselves."""
    vipd.apply([svc()] + eps(7))
    c = t.Client(lab, "X", *t.target("nodeport", fam), "tcp")
    assert c.ask().ok
    id_ = c.entry(ct).id
    gone = {"ready": False, "serving": False, "terminating": True}
    vipd.apply([svc()] + [slice_("s", [entry(L.remote(7, f), "n2", **gone)],
                                 [slice_port(8080, "TCP", "tcp")], fam=f) for f in (4, 6)])
    time.sleep(GRACE + 2)
    assert c.ask().ok and c.entry(ct).id == id_
    c.close()


@FAM
def test_service_deleted(lab, vipd, fam):
    """Service and pods at once, as when a namespace goes."""
    vipd.apply([svc()] + eps(7))
    with clients(lab, fam, L.remote(7, fam)) as dead, silent(lab, 7):
        vipd.apply([])
        before = time.monotonic()
        # The cluster IP and the others lead nowhere of ours any more: the lab's world resets.
        for c in dead:
            c.conn.sock.sendall(b"?\n")
        for c in dead:
            if c.to != L.cluster_ip(t.NUMBER, fam):  # dropped: nobody's address (REJ-06)
                assert outcome(c, 20) == "reset"
        assert time.monotonic() - before > GRACE - 1
