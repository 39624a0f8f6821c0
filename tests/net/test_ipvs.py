# SPDX-License-Identifier: GPL-2.0-or-later
"""Features of the ipvs plane: draining backends, schedulers, owners of virtual services, and a
change of planes on a serving node."""
import itertools
import os
import re
import time

import pytest

import ctnetlink
import ipvs
import lab as L
import planes
import rawpackets
from objects import entry, port, service, slice_, slice_port

pytestmark = pytest.mark.skipif(planes.PLANE != "ipvs", reason="about the ipvs plane alone")

DRAIN_S = 600  # no drain ends by it: drained() ends them
FLAGS = {"--ipvs-drain-timeout": "%ds" % DRAIN_S, "--v": "2"}
PORTS = [port(80, "TCP", "t")]
EPORTS = [slice_port(8080, "TCP", "t")]
VIP = L.cluster_ip(1, 4)
SYN, RST, PSH, ACK = 2, 4, 8, 16


def web(*eps, **kw):
    return [service("web", [VIP], PORTS, **kw),
            slice_("web", [e if isinstance(e, dict) else entry(L.remote(e, 4), "n2") for e in eps],
                   EPORTS)]


def terminating(i):
    return entry(L.remote(i, 4), "n2", ready=False, serving=True, terminating=True)


def servers(lab):
    """{service: (scheduler, {backend: weight})}, as ipvsadm says."""
    out = {}
    for line in lab.node.run("ipvsadm", "-Ln").splitlines():
        words = line.split()
        if words and words[0] in ("TCP", "UDP", "SCTP", "FWM"):
            held = out[words[0] + " " + words[1]] = (words[2], {})
        elif words and words[0] == "->" and words[1][0] in "0123456789[":
            held[1][words[1]] = int(words[3])
    return out


def weights(lab):
    """Of the service `web`, by the last number of the backend's address."""
    for _, backends in servers(lab).values():
        mine = {int(re.search(r"\.(\d+):8080", b).group(1)): w for b, w in backends.items()
                if b.startswith("10.244.2.") and ".250:" not in b}
        if mine:
            return mine
    return {}


def leaving(vipd):
    return vipd.get("/v1/services/default/web").get("draining", [])


def none_failed(flows):
    for flow in flows:
        flow.more_ok(20)
        result = flow.stop()
        assert result["failed"] == 0, result


def drained(lab, vipd, *eps, seconds=1):
    """The drains of `web` end: a change of the drain timeout takes effect during a drain."""
    vipd.apply(web(*eps, annotations={"vipd.io/drain-timeout": "%ds" % seconds}))
    L.eventually(lambda: all(weights(lab).values()), what="a drain does not end")


def boottime():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def kept(lab, backend):
    """An established connection, to this backend."""
    for _ in range(40):
        conn, r = L.connect(lab.client, VIP, 80, timeout=L.LIMIT)
        assert r.ok, r
        if conn.ask(L.LIMIT).backend == backend:
            return conn
        conn.close()
    raise AssertionError("no connection to %s" % backend)


def test_a_backend_leaves(lab, vipd):
    """Weight 0 at once: no new connection, the old one continues, none fails. The backend returns
    meanwhile: the connection continues. At the drain timeout the client gets a reset."""
    vipd.apply(web(1, 2, 3))
    conn = kept(lab, L.remote(2, 4))
    load = lab.flow("client", "new", "--to", "tcp:%s:80" % VIP, "--rate", "100", "--concurrency",
                    "8")
    vipd.apply(web(1, terminating(2), 3))
    assert weights(lab) == {1: 1, 2: 0, 3: 1}
    assert conn.ask(L.LIMIT).backend == L.remote(2, 4)
    lab_leaving = L.eventually(lambda: [l for l in leaving(vipd) if l["active"]])
    assert lab_leaving[0]["address"] == L.remote(2, 4)
    assert 0 < lab_leaving[0]["timeout_ms"] <= DRAIN_S * 1000
    assert L.remote(2, 4) in vipd.ctl("svc", "default/web")
    vipd.apply(web(1, 2, 3))
    assert weights(lab) == {1: 1, 2: 1, 3: 1} and leaving(vipd) == []
    assert conn.ask(L.LIMIT).backend == L.remote(2, 4)
    began = boottime()
    vipd.apply(web(1, 3))
    assert weights(lab) == {1: 1, 2: 0, 3: 1}
    deadline = max(d.threshold for d in vipd.ipvs().find(L.remote(2, 4), 8080))
    assert began + DRAIN_S <= deadline <= boottime() + DRAIN_S + 1
    assert conn.ask(L.LIMIT).backend == L.remote(2, 4)
    load.more_ok(20)  # those that began before have ended
    L.eventually(lambda: leaving(vipd)[0]["active"] == 1)
    since = deadline - DRAIN_S
    seconds = int(boottime() - since) + 4
    drained(lab, vipd, 1, 3, seconds=seconds)
    assert weights(lab) == {1: 1, 3: 1} and boottime() >= since + seconds
    assert conn.ask(L.LIMIT).what == "reset"
    none_failed([load])


def test_an_ejected_backend_has_no_timeout(lab, vipd):
    """The drain timeout is for backends that end: one that serves, and is ejected, keeps its
    connections until it is removed."""
    notes = {"vipd.io/drain-timeout": "2s"}
    vipd.apply(web(1, 8, annotations=notes))
    conn = kept(lab, L.remote(8, 4))
    vipd.ctl("eject", "default/web", L.remote(8, 4))
    late = L.eventually(lambda: [l for l in leaving(vipd) if l["since_ms"] > 5000], 9)
    assert weights(lab) == {1: 1, 8: 0} and "timeout_ms" not in late[0]
    assert conn.ask(L.LIMIT).backend == L.remote(8, 4)
    vipd.apply(web(1, annotations=notes))
    L.eventually(lambda: weights(lab) == {1: 1}, 9)
    assert conn.ask(L.LIMIT).what == "reset"
    conn.close()


@pytest.mark.no_steady  # the timeout applies to each connection, and a busy machine pauses for longer
def test_idle_connections(lab, vipd):
    """IPVS forgets an idle connection and deletes its entry of conntrack (IPVS-07): its client gets a
    reset at the next packet instead of silence. With a --ipvs-tcp-timeout of 24 h it stays."""
    def left(number):
        """Seconds that IPVS keeps the connection."""
        return max((s for client, _, state, s in ipvs.connections(lab.node, "TCP")
                    if client == number and state == "ESTABLISHED"), default=0)

    def restart(timeout):
        vipd.stop()
        vipd.flags["--ipvs-tcp-timeout"] = timeout
        vipd.start()
    tracked = ctnetlink.Conntrack(lab.node)
    vipd.apply(web(1))
    restart("24h")
    conn = kept(lab, L.remote(1, 4))
    number = conn.sock.getsockname()[1]
    assert left(number) > 86000
    restart("4s")
    assert left(number) > 86000 - L.LONG
    assert conn.ask(L.LIMIT).what in ("ok", "reset")  # 4 s from each packet on: little in a busy machine
    assert left(number) <= 4
    L.eventually(lambda: not left(number))
    # IPVS removes the entry of conntrack after its own.
    L.eventually(lambda: number not in [e.sport for e in tracked.to(VIP, 80, "tcp")])
    assert conn.ask(L.LIMIT).what == "reset"
    conn.close()
    tracked.close()
    vipd.stop()
    del vipd.flags["--ipvs-tcp-timeout"]
    lab.node.run("ipvsadm", "--set", "900", "120", "300")
    vipd.start()
    drained(lab, vipd, 4)


def test_a_drain_survives_a_restart(lab, vipd):
    vipd.apply(web(4, 5))
    conn = kept(lab, L.remote(5, 4))
    vipd.apply(web(4))
    held = vipd.ipvs().find(L.remote(5, 4), 8080)
    assert weights(lab) == {4: 1, 5: 0} and held[0].threshold
    vipd.stop()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0 and weights(lab) == {4: 1, 5: 0}
    assert vipd.ipvs().find(L.remote(5, 4), 8080)[0].threshold == held[0].threshold
    assert conn.ask(L.LIMIT).backend == L.remote(5, 4)
    drained(lab, vipd, 4)
    assert weights(lab) == {4: 1} and conn.ask(L.LIMIT).what == "reset"
    conn.close()


def test_schedulers(lab, vipd):
    """Set by annotation; an unavailable scheduler is logged, and the service is served with the
    default."""
    def with_annotations(**notes):
        objs = web(6, 7)
        objs[0]["metadata"]["annotations"] = notes
        return objs
    vipd.apply(with_annotations(**{"vipd.io/scheduler": "wrr",
                                   "vipd.io/weights": "%s=7" % L.remote(6, 4)}))
    held = [s for s, b in servers(lab).values() if "%s:8080" % L.remote(6, 4) in b]
    assert held == ["wrr"] and (weights(lab)[6], weights(lab)[7]) == (7, 1)
    vipd.apply(with_annotations(**{"kube-router.io/service.scheduler": "fastest"}))
    held = [s for s, b in servers(lab).values() if "%s:8080" % L.remote(6, 4) in b]
    assert held == ["rr"] and (weights(lab)[6], weights(lab)[7]) == (1, 1)
    assert "unknown scheduler 'fastest': served with rr" in vipd.ctl("svc", "default/web")
    assert L.probe(lab.client, VIP, 80, timeout=L.LIMIT).ok


@pytest.mark.no_steady
def test_others_services_stay(lab, vipd):
    """--cleanup removes vipd's state and restores sysctls; foreign state stays."""
    lab.node.run("ipvsadm", "-A", "-t", "192.0.2.77:99", "-s", "wlc")
    lab.node.run("ipvsadm", "-a", "-t", "192.0.2.77:99", "-r", "10.244.2.9:1", "-m")
    theirs = {"TCP 192.0.2.77:99": ("wlc", {"10.244.2.9:1": 1})}
    try:
        vipd.apply(web(1, 2))
        vipd.stop()
        vipd.start()
        assert servers(lab)["TCP 192.0.2.77:99"] == theirs["TCP 192.0.2.77:99"]
        vipd.stop()
        lab.node.run(*vipd.argv(), "--cleanup")
        assert servers(lab) == theirs
        assert "vipd" not in lab.node.run("nft", "list", "ruleset")
        assert "5a000000" not in lab.node.run("ip", "rule")
        assert "5a000000" not in lab.node.run("ip", "-6", "rule")
        assert lab.node.run("cat", "/proc/sys/net/ipv4/vs/conntrack").strip() == "0"
    finally:
        lab.node.run("ipvsadm", "-D", "-t", "192.0.2.77:99")
        if not vipd.is_running():
            vipd.start()


def tables(lab):
    text = lab.node.run("nft", "list", "tables")
    return {"ipvs": "inet vipd-ipvs" in text, "nft": "ip vipd\n" in text + "\n"}


def change(vipd, mode):
    vipd.stop()
    vipd.flags["--proxy-mode"] = mode
    vipd.start()
    assert vipd.status()["plane"] == mode


def short_ones(lab, first_port):
    # Ports of their own: IPVS deletes conntrack entries with the port of a connection that ended
    # before the change (0007, Limits).
    return [lab.flow(role, "new", "--to", "tcp:%s:80" % VIP, "--rate", "60", "--concurrency", "8",
                     "--first-port", first_port) for role in ("client", "pod3")]


def goes_on(conn):
    for _ in range(3):
        assert conn.ask(L.LIMIT).backend == L.remote(1, 4)
        time.sleep(0.2)


@pytest.mark.no_steady
def test_change_of_planes(lab, vipd):
    """nftables after ipvs and vice versa: the new plane serves before the old one's state is
    removed, so no new connection fails; established ones continue."""
    vipd.apply(web(1, 2))
    flows = short_ones(lab, 10000)
    conn = kept(lab, L.remote(1, 4))
    change(vipd, "nftables")
    goes_on(conn)
    assert all(d.threshold for d in vipd.ipvs().find(L.remote(1, 4), 8080)), "no deadline"
    vipd.kill()  # on the way; the next one goes on with it
    vipd.start()
    goes_on(conn)
    vipd.apply(web(1, 2, 3))  # what is new is the serving plane's
    assert L.probe(lab.node, VIP, 80, timeout=L.LIMIT).ok
    change(vipd, "ipvs")  # back before the end of the drains
    goes_on(conn)
    conn.close()
    none_failed(flows)
    assert tables(lab) == {"ipvs": True, "nft": False}
    vipd.flags["--ipvs-drain-timeout"] = "1s"
    change(vipd, "nftables")
    # The table goes when no flow of datagrams can need it any more, in minutes.
    L.eventually(lambda: servers(lab) == {})
    vipd.flags["--ipvs-drain-timeout"] = FLAGS["--ipvs-drain-timeout"]
    flows = short_ones(lab, 20000)
    conn = kept(lab, L.remote(1, 4))
    change(vipd, "ipvs")
    goes_on(conn)
    conn.close()
    assert tables(lab) == {"ipvs": True, "nft": False}
    assert L.probe(lab.node, VIP, 80, timeout=L.LIMIT).ok
    none_failed(flows)


@pytest.mark.no_steady
def test_change_of_planes_with_an_empty_folder(lab, vipd):
    """IN-19: the other plane's state is kept too. It has no frontends of this plane."""
    vipd.apply(web(1, 2))
    before = servers(lab)
    vipd.stop()
    real = vipd.manifests.path
    os.rename(real, real + ".away")
    os.mkdir(real)
    try:
        change(vipd, "nftables")
        assert "sweep pending: the folder has no manifests; orphaned frontends: 0" in vipd.log(1000)
        assert tables(lab)["ipvs"] and servers(lab) == before
    finally:
        os.rmdir(real)
        os.rename(real + ".away", real)
        change(vipd, "ipvs")
    assert L.probe(lab.node, VIP, 80, timeout=L.LIMIT).ok


class Handshake:
    """A TCP connection by hand. The namespace sends no reset from its port."""

    def __init__(self, ns, source, port):
        self.ns, self.source, self.port = ns, source, port
        self.tap = rawpackets.TcpTap(ns, 4)
        ns.run("nft", "add table ip mute; add chain ip mute out { type filter hook output priority 0; }; "
               "add rule ip mute out tcp sport %d tcp flags rst drop" % port)

    def send(self, seq, ack, flags, data=b""):
        rawpackets.send_segment(self.ns, self.source, VIP, self.port, 80, seq, ack, flags, data)

    def answer(self, what):
        """(seq, flags, data) of the first segment for which what(flags, data), or of a reset."""
        return L.eventually(lambda: [s[3:4] + s[5:] for s in self.tap.segments(VIP)
                                     if s[2] == self.port and (s[5] & RST or what(s[5], s[6]))])[0]

    def close(self):
        self.ns.run("nft", "delete table ip mute")
        self.tap.close()


@pytest.mark.no_steady
def test_handshake_across_a_change(lab, vipd):
    """A client that has no answer yet sends its SYN again, and the second SYN arrives after the
    change of planes: IPVS keeps the connection. Without its entry the next packet would begin a
    connection to another backend, which resets it."""
    vipd.apply(web(*range(1, 10)))
    ports = itertools.count(20001)

    def in_time():
        """IPVS keeps a handshake for a minute. Again if the change takes longer."""
        h = Handshake(lab.client, L.CLIENT[4], next(ports))
        try:
            began = time.monotonic()
            h.send(1000, 0, SYN)
            seq, flags, _ = h.answer(lambda flags, _: flags & (SYN | ACK) == SYN | ACK)
            assert not flags & RST
            change(vipd, "nftables")
            L.eventually(lambda: all(d.threshold for d in vipd.ipvs().find(L.remote(1, 4), 8080)))
            h.send(1000, 0, SYN)
            h.send(1001, seq + 1, ACK)
            h.send(1001, seq + 1, ACK | PSH, b"?\n")
            if time.monotonic() > began + 55:
                return False
            _, flags, data = h.answer(lambda _, data: data)
            assert not flags & RST and data, "the connection was reset"
            return True
        finally:
            h.close()
            change(vipd, "ipvs")
    L.eventually(in_time)
    drained(lab, vipd, 1)


def balanced(name, i, affinity=None, **notes):
    """A service with three endpoints, the first of them in a pod web-1."""
    eps = [entry(L.remote(n, 4), "n2") for n in (1, 2, 3)]
    for n, e in enumerate(eps):
        e["targetRef"] = {"kind": "Pod", "name": "web-%d" % (n + 1)}
    return [service(name, [L.cluster_ip(i, 4)], PORTS, affinity=affinity,
                    annotations={"vipd.io/" + k: v for k, v in notes.items()}),
            slice_(name, eps, EPORTS)]


@pytest.mark.no_steady
def test_balancing_across_a_change(lab, vipd):
    """Hashing, weights, and affinity are in force on either plane, and adopted without a write."""
    vipd.apply(balanced("hash", 2, scheduler="mh") +
               balanced("weigh", 3, scheduler="wrr", weights="web-1=1,*=0") +
               balanced("stick", 4, affinity=600))
    for mode in ("nftables", "ipvs"):
        change(vipd, mode)
        met = {i: {L.probe(lab.client, L.cluster_ip(i, 4), 80).backend for _ in range(6)}
               for i in (2, 3, 4)}
        assert met[3] == {L.remote(1, 4)} and len(met[2]) == len(met[4]) == 1, (mode, met)
        vipd.kill()
        vipd.start()
        assert vipd.status()["sync"]["writes"] == 0
        for i, backends in met.items():
            assert L.probe(lab.client, L.cluster_ip(i, 4), 80).backend in backends


@pytest.mark.no_steady
def test_datagrams_change_planes(lab, vipd):
    """A flow of datagrams has no end: it moves to the serving plane at its next packet, of which
    one may be lost; in both directions."""
    ports, eports = [port(80, "UDP", "u")], [slice_port(8080, "UDP", "u")]
    objs = [service("dgram", [VIP], ports),
            slice_("dgram", [entry(L.remote(i, 4), "n2") for i in (6, 7)], eports)]
    vipd.apply(objs)
    flows = [L.connect(ns, VIP, 80, "udp")[0] for ns in (lab.client, lab.ns["pod3"], lab.node)]
    for c in flows:
        assert c.ask(L.LIMIT).ok
    for mode in ("nftables", "ipvs"):
        change(vipd, mode)
        time.sleep(1)
        for c in flows:
            assert c.ask(0.5 * L.SLOW).ok or c.ask(L.LIMIT).ok, mode
        if mode == "nftables":
            L.eventually(lambda: not [d for i in (6, 7)
                                      for d in vipd.ipvs().find(L.remote(i, 4), 8080)],
                         what="flows stay with a plane that does not serve")
        assert all(c.ask(L.LIMIT).ok for c in flows)
    # No connection bypasses the serving plane: the backends are others now.
    vipd.apply([objs[0], slice_("dgram", [entry(L.remote(5, 4), "n2")], eports)])
    for c in flows:
        L.eventually(lambda c=c: c.ask(0.5 * L.SLOW).backend == L.remote(5, 4), 4)
        c.close()
