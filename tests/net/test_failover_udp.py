# SPDX-License-Identifier: GPL-2.0-or-later
"""--failover-udp-timeout: a flow of UDP without a reply moves to an endpoint that replies to others
(CT-33), with ejections beside it. Every endpoint stays in its slice."""
import collections
import contextlib
import itertools
import re
import socket
import time

import pytest

import lab as L
import test_failover as F
from objects import entry, port, service, slice_, slice_port
from test_failover import FAM, FAMS, N, NUMBER, begin_empty, remote_silent, silent  # noqa: F401

FLAGS = {"--failover": "eject", "--failover-udp-timeout": "300ms", "-v": "2"}
PAUSE = 0.3  # between datagrams of a client


def svc(**kw):
    return service("s", [L.cluster_ip(NUMBER, f) for f in FAMS],
                   [port(80, "UDP", "udp", F.NODE_PORT), port(80, "TCP", "tcp", F.NODE_PORT + 1)],
                   kind="LoadBalancer", lb=[L.lb_ip(NUMBER, f) for f in FAMS], **kw)


def eps(*numbers, local=()):
    return [slice_("s", [entry(L.remote(i, f), "n2") for i in numbers] +
                   [entry(L.POD[p][f], L.NODE_NAME) for p in local],
                   [slice_port(8080, "UDP", "udp"), slice_port(8080, "TCP", "tcp")], fam=f)
            for f in FAMS]


def moves(lab):
    return int(re.search(r'^vipd_failovers_total\{reason="udp"\} (\d+)$', F.metrics(lab), re.M).group(1))


class Clients:
    """Each socket sends a datagram every PAUSE until a reply arrives: number of datagrams, and the
    endpoint that replied, by socket. No port is used twice: its earlier flow may still be moved, or
    deleted with its endpoint."""

    ports = itertools.count(10000)

    def __init__(self, lab, to, number=80, n=N, role="client", sources=None):
        self.socks = []
        for i in range(n):
            s = lab.ns[role].socket(L.af(to), socket.SOCK_DGRAM)
            if sources:
                L.bind_any(s, sources[i])
            else:
                s.bind(("", next(self.ports)))
            s.connect((to, number))
            s.setblocking(False)
            self.socks.append(s)
        self.sent = collections.Counter()
        self.backends = {}

    def poll(self, rounds=1):
        """So many datagrams of each client without a reply. The number of those still without one."""
        for _ in range(rounds):
            waiting = [s for s in self.socks if s not in self.backends]
            for s in waiting:
                self.sent[s] += 1
                s.send(b"?\n")
            time.sleep(PAUSE)
            for s in waiting:
                with contextlib.suppress(BlockingIOError):
                    self.backends[s] = s.recv(200).decode().split()[0]
        return len(self.socks) - len(self.backends)

    def has_flows(self, ct, to):
        """Each client has a reply and a flow. A client whose flow was deleted sends again."""
        present = flows(ct, to, self)
        self.backends = {s: b for s, b in self.backends.items() if s.getsockname()[1] in present}
        return self.poll() == 0 and len(flows(ct, to, self)) == len(self.socks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.socks:
            s.close()


def flows(ct, to, clients):
    """A dump may lack entries, as when another vipd sets the size of the host's hash table."""
    names = {s.getsockname()[:2] for s in clients.socks}
    return {e.sport: e for e in ct.to(to, 80) if (e.src, e.sport) in names}


@FAM
@pytest.mark.parametrize("kind", ("clusterip", "lb", "nodeport"))
def test_moves(lab, vipd, fam, kind):
    """CT-33: one of three endpoints drops every packet: each client gets a reply, with the socket that
    it began with, and no endpoint is ejected for it."""
    vipd.apply([svc()] + eps(1, 2, 3))
    before = moves(lab)
    to, number = {"clusterip": (L.cluster_ip(NUMBER, fam), 80), "lb": (L.lb_ip(NUMBER, fam), 80),
                  "nodeport": (L.NODE[fam], F.NODE_PORT)}[kind]
    with remote_silent(lab, 2), Clients(lab, to, number) as c:
        L.eventually(lambda: c.poll() == 0)
        assert set(c.backends.values()) == {L.remote(1, fam), L.remote(3, fam)}
        assert moves(lab) > before and max(c.sent.values()) > 1
    assert "\nvipd_ejected_endpoints 0\n" in F.metrics(lab)


@pytest.mark.parametrize("origin", ("pod3", "node"))
def test_clients_of_the_node(lab, vipd, origin):
    vipd.apply([svc()] + eps(1, 2, 3))
    for fam in FAMS:
        with remote_silent(lab, 2), Clients(lab, L.cluster_ip(NUMBER, fam), role=origin) as c:
            L.eventually(lambda: c.poll() == 0)  # pylint: disable=W0640
            assert set(c.backends.values()) == {L.remote(1, fam), L.remote(3, fam)}


@FAM
def test_one_way(lab, vipd, ct, fam):
    """CT-33: where no endpoint replies, every flow keeps its entry. When one begins to reply, flows
    that still send move to it."""
    vipd.apply([svc()] + eps(61, 62, 63))  # no other test makes these reply
    before = moves(lab)
    to = L.cluster_ip(NUMBER, fam)
    with contextlib.ExitStack() as stack:
        mute = stack.enter_context(contextlib.ExitStack())
        mute.enter_context(remote_silent(lab, 61, 62, 63))
        c = stack.enter_context(Clients(lab, to, n=10))
        L.eventually(lambda: c.poll() == 10 and len(flows(ct, to, c)) == 10)
        first = {k: e.id for k, e in flows(ct, to, c).items()}
        assert c.poll(4) == 10
        L.eventually(lambda: {k: e.id for k, e in flows(ct, to, c).items()} == first)
        assert moves(lab) == before
        mute.close()
        stack.enter_context(remote_silent(lab, 61, 62))
        L.eventually(lambda: L.probe(lab.client, to, 80, "udp", timeout=0.1).ok)
        L.eventually(lambda: c.poll() == 0)
        assert set(c.backends.values()) == {L.remote(63, fam)}


def test_replied(lab, vipd, ct):
    """CT-33: a flow with a reply stays, also while its endpoint is silent."""
    vipd.apply([svc()] + eps(1, 2, 3))
    to = L.cluster_ip(NUMBER, 4)
    with Clients(lab, to) as c, Clients(lab, to) as other:
        L.eventually(lambda: c.has_flows(ct, to))
        first = {k: e.id for k, e in flows(ct, to, c).items()}
        with remote_silent(lab, 2):
            L.eventually(lambda: other.poll() == 0)
            for s in c.socks:
                s.send(b"?\n")
            time.sleep(1)
        L.eventually(lambda: {k: e.id for k, e in flows(ct, to, c).items()} == first)


@FAM
def test_affinity(lab, vipd, fam):
    """CT-22, CT-33: the affinity entry of a client whose endpoint is silent changes, others stay."""
    vipd.apply([svc(affinity=10800)] + eps(1, 2, 3))
    to, dead = L.cluster_ip(NUMBER, fam), L.remote(2, fam)
    sources = [L.outer(i, fam) for i in range(1, N + 1)]
    with Clients(lab, to, sources=sources) as c:
        L.eventually(lambda: c.poll() == 0)
        first = [c.backends[s] for s in c.socks]
    assert dead in first
    with remote_silent(lab, 2), Clients(lab, to, sources=sources) as c:
        L.eventually(lambda: c.poll() == 0)
        kept = [(backend, c.backends[s]) for backend, s in zip(first, c.socks)
                if backend != dead and c.sent[s] == 1]  # a busy machine may reply late
        assert kept and all(old == new for old, new in kept)
        assert dead not in c.backends.values()


def test_local_policy(lab, vipd):
    """CT-23, CT-33: a client outside of the cluster stays on this node."""
    vipd.apply([svc(etp="Local")] + eps(1, 3, local=("pod1", "pod3")))
    for fam in FAMS:
        with silent(lab.pod1, L.POD["pod1"][fam]), Clients(lab, L.lb_ip(NUMBER, fam)) as c:
            L.eventually(lambda: c.poll() == 0)  # pylint: disable=W0640
            assert set(c.backends.values()) == {L.POD["pod3"][fam]} and max(c.sent.values()) > 1


def test_tcp_beside(lab, vipd):
    """CT-18, CT-33: TCP handshakes through the service move as before."""
    vipd.apply([svc()] + eps(1, 2, 3))
    with remote_silent(lab, 2), F.Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
        assert c.wait(L.PATIENCE) == 0 and not c.errors
        assert set(c.backends()) == {L.remote(1, 4), L.remote(3, 4)}


@pytest.mark.no_steady
def test_without(lab, vipd):
    """Without the flag, tables have no rules or sets for UDP, and flows stay with their endpoints."""
    vipd.apply([svc()] + eps(1, 2, 3))
    vipd.stop()
    del vipd.flags["--failover-udp-timeout"]
    try:
        vipd.start()
        L.eventually(lambda: "udp" not in lab.node.run("nft", "list", "table", "ip", "vipd-failover"))
        with remote_silent(lab, 2), Clients(lab, L.cluster_ip(NUMBER, 4)) as c:
            assert c.poll(6) > 0
    finally:
        vipd.stop()
        vipd.flags.update(FLAGS)
        vipd.start()
