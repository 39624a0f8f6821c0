# SPDX-License-Identifier: GPL-2.0-or-later
"""SCTP with the kernel's own sockets (SVC-38): whole associations, data, and that established ones
are not interrupted (POL-28). Skipped where the kernel has no SCTP; tests/vm runs it where it has.

Clients bind to one address: an association lists all addresses it may use, and no proxy translates
those inside of the packet."""
import select
import socket
import threading

import pytest

import lab as L
import shop
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2, Svc


def has_sctp():
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
        return True
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not has_sctp(), reason="the kernel has no SCTP sockets")

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
ORIGINS = pytest.mark.parametrize("origin", "XPH")
SOURCE = {"X": L.CLIENT, "P": L.POD["pod3"], "H": L.NODE}
BOTH = Svc("both", 1)
ETP_LOCAL = Svc("etp-local", 2, etp="Local")
PORT = 8080


class Servers:
    """Answers every message on PORT in these namespaces with the addresses of both ends."""

    def __init__(self, lab, addresses):
        self.socks = {}
        for role, addr in addresses:
            s = lab.ns[role].socket(L.af(addr), socket.SOCK_STREAM, socket.IPPROTO_SCTP)
            if s.family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
            s.bind((addr, PORT))
            s.listen(64)
            self.socks[s] = True
        self.is_over = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.is_over:
            ready, _, _ = select.select(list(self.socks), [], [], 0.1)
            for s in ready:
                if self.socks[s]:
                    self.socks[s.accept()[0]] = False
                else:
                    self._answer(s)

    def _answer(self, s):
        try:
            if s.recv(200):
                local, peer = s.getsockname(), s.getpeername()
                s.sendall(("%s %d %s %d" % (local[0], local[1], peer[0], peer[1])).encode())
                return
        except OSError:
            pass
        del self.socks[s]
        s.close()

    def close(self):
        self.is_over = True
        self.thread.join(5)
        for s in self.socks:
            s.close()


@pytest.fixture(scope="module", autouse=True)
def served(lab, vipd):
    servers = Servers(lab, [("pod1", E1[f]) for f in (4, 6)] +
                      [("node2", L.remote(i, f)) for f in (4, 6) for i in (1, 2)])
    vipd.apply(BOTH.objects() + ETP_LOCAL.objects())
    yield
    servers.close()


def probe(lab, origin, fam, to, number):
    return L.probe(lab.ns[shop.ORIGIN[origin]], to, number, "sctp", source=SOURCE[origin][fam])


@FAM
@ORIGINS
@pytest.mark.parametrize("kind", shop.KINDS)
def test_reaches(lab, vipd, fam, origin, kind):
    to, number = BOTH.target(kind, fam)
    met = set()
    for _ in range(40):
        r = probe(lab, origin, fam, to, number)
        assert r.ok and r.backend_port == PORT, r
        met.add(r.backend)
        if met == {E1[fam], E2[fam]}:
            return
    raise AssertionError("only %s" % met)


@FAM
def test_local_policy_keeps_the_source(lab, vipd, fam):
    to, number = ETP_LOCAL.target("lb", fam)
    for _ in range(6):
        r = probe(lab, "X", fam, to, number)
        assert r.ok and r.backend == E1[fam] and r.peer == L.CLIENT[fam], r


@FAM
def test_associations_survive(lab, vipd, fam):
    """Endpoints come and go, theirs too; the service changes; vipd is killed and comes back."""
    addrs = [E1[fam], L.remote(1, fam), L.remote(2, fam)]
    ip = L.cluster_ip(9, fam)

    def objs(addresses, **kw):
        eps = [entry(a, L.NODE_NAME if a == E1[fam] else "n2") for a in addresses]
        return BOTH.objects() + [service("assoc", ip, [port(80, "SCTP", "s")], **kw),
                                 slice_("assoc", eps, [slice_port(PORT, "SCTP", "s")], fam=fam)]
    vipd.apply(objs(addrs))
    conns = []
    for _ in range(12):
        c, r = L.connect(lab.client, ip, 80, "sctp", source=L.CLIENT[fam])
        assert r.ok, r
        conns.append((c, c.ask().backend))
    assert len({b for _, b in conns}) > 1, conns

    def check():
        for c, backend in conns:
            r = c.ask()
            assert r.ok and r.backend == backend, r
    try:
        for change in (objs(addrs[:1]), objs(addrs[1:]), objs(addrs, etp="Local"), objs([])):
            vipd.apply(change)
            check()
        vipd.kill()
        check()
        vipd.start()
        check()
        vipd.apply(objs(addrs[2:]))
        check()
        r = probe(lab, "X", fam, ip, 80)
        assert r.ok and r.backend == addrs[2], r
    finally:
        for c, _ in conns:
            c.close()
