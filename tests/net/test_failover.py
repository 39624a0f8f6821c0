# SPDX-License-Identifier: GPL-2.0-or-later
"""--failover=handshake: a TCP handshake that its endpoint does not answer gets another endpoint
(CT-18 to CT-25). Every endpoint stays in its slice: no object says that it is dead."""
import collections
import contextlib
import errno
import json
import os
import re
import select
import socket
import struct
import subprocess
import threading
import time
import urllib.request

import pytest

import ctnetlink
import lab as L
import rawpackets
from objects import entry, port, service, slice_, slice_port

FLAGS = {"--failover": "handshake", "-v": "2"}

FAMS = (4, 6)
FAM = pytest.mark.parametrize("fam", FAMS, ids=("v4", "v6"))
N = 30  # all of them miss one of three endpoints with probability 1:190,000
NUMBER = 1
VISIBLE = (10, 11, 12)
NODE_PORT = 30001
SO_TIMESTAMPNS = 35
TCP_INFO_TOTAL_RETRANS = 100  # offset in struct tcp_info of linux/tcp.h


@pytest.fixture(autouse=True)
def begin_empty(vipd):
    yield
    vipd.apply([])


def svc(**kw):
    return service("s", [L.cluster_ip(NUMBER, f) for f in FAMS],
                   [port(80, "TCP", "tcp", NODE_PORT)], kind="LoadBalancer",
                   lb=[L.lb_ip(NUMBER, f) for f in FAMS], **kw)


def eps(*numbers, local=()):
    """Pods of the other node, or with `local` of this one."""
    return [slice_("s", [entry(L.remote(i, f), "n2") for i in numbers] +
                   [entry(L.POD[p][f], L.NODE_NAME) for p in local],
                   [slice_port(8080, "TCP", "tcp")], fam=f) for f in FAMS]


@contextlib.contextmanager
def silent(ns, *addrs):
    """Drop all packets to and from these addresses of `ns`, also resets."""
    rules = "".join("%s daddr %s drop; " % ("ip6" if ":" in a else "ip", a) for a in addrs)
    ns.run("nft", "table inet vipdt_silent { chain c { "
           "type filter hook prerouting priority -400; %s}; }" % rules)
    try:
        yield
    finally:
        ns.run("nft", "delete", "table", "inet", "vipdt_silent")


def remote_silent(lab, *numbers):
    return silent(lab.node2, *(L.remote(i, f) for i in numbers for f in FAMS))


class Connects:
    """Connection attempts at once. `retries` of each that succeeded: SYNs that were repeated."""

    def __init__(self, lab, to, number=80, n=N, role="client", source=None):
        self.socks = {}
        for _ in range(n):
            s = lab.ns[role].socket(L.af(to), socket.SOCK_STREAM)
            s.setblocking(False)
            if source:
                L.bind_any(s, source)
            err = s.connect_ex((to, number))
            assert err in (0, errno.EINPROGRESS), err
            self.socks[s.fileno()] = s
        self.pending = dict(self.socks)
        self.errors = []

    def wait(self, seconds):
        """Until all have ended, or for so long. The number of those that are still pending."""
        poll = select.poll()
        for fd in self.pending:
            poll.register(fd, select.POLLOUT)
        end = time.monotonic() + seconds
        while self.pending and time.monotonic() < end:
            for fd, _ in poll.poll(50):
                poll.unregister(fd)
                s = self.pending.pop(fd)
                err = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if err:
                    self.errors.append(errno.errorcode[err])
        return len(self.pending)

    def retries(self):
        out = collections.Counter()
        for fd, s in self.socks.items():
            if fd not in self.pending:
                info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                out[struct.unpack_from("=I", info, TCP_INFO_TOTAL_RETRANS)[0]] += 1
        return out

    def backends(self):
        """The endpoint that each connection asks: it has to work, too."""
        out = collections.Counter()
        for fd, s in self.socks.items():
            if fd not in self.pending:
                s.setblocking(True)
                r = L.Conn(s, "tcp").ask(L.PATIENCE)
                assert r.ok, r
                out[r.backend] += 1
        return out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in self.socks.values():
            s.close()


def metrics(lab):
    with lab.node.entered():
        with urllib.request.urlopen("http://127.0.0.1:10249/metrics", timeout=L.PATIENCE) as r:
            return r.read().decode()


def moves(lab):
    """vipd_failovers_total."""
    return int(re.search(r'^vipd_failovers_total\{reason="handshake"\} (\d+)$', metrics(lab),
                         re.M).group(1))


def flows(ct, to, connects):
    """Entries of these connections, by the client's port. Other clients use the same ports."""
    names = {s.getsockname()[:2] for s in connects.socks.values()}
    return {e.sport: e for e in ct.to(to, 80, "tcp") if (e.src, e.sport) in names}


def unanswered(ct, to, connects):
    return [e for e in flows(ct, to, connects).values() if not e.status & ctnetlink.IPS_SEEN_REPLY]


@FAM
@pytest.mark.parametrize("kind", ("clusterip", "lb", "nodeport"))
def test_silent_endpoint(lab, vipd, fam, kind):
    """CT-18: one of three endpoints drops every packet. Every connection succeeds, none at the silent
    endpoint, and only SYNs of flows that were moved are repeated."""
    vipd.apply([svc()] + eps(1, 2, 3))
    before = moves(lab)
    to, number = {"clusterip": (L.cluster_ip(NUMBER, fam), 80), "lb": (L.lb_ip(NUMBER, fam), 80),
                  "nodeport": (L.NODE[fam], NODE_PORT)}[kind]
    with remote_silent(lab, 2), Connects(lab, to, number) as c:
        assert c.wait(L.PATIENCE) == 0 and not c.errors
        assert N > c.retries()[0] and moves(lab) > before
        assert set(c.backends()) == {L.remote(1, fam), L.remote(3, fam)}
    assert "endpoint %s" % L.endpoint(L.remote(2, fam), 8080) in vipd.log(400)


def test_visible(lab, vipd):
    """CT-25: status, svc, trace, monitor and metrics name the silent endpoint. No other test uses
    these endpoints: an endpoint stays silent for 10 s."""
    vipd.apply([svc()] + eps(*VISIBLE))
    dead = L.endpoint(L.remote(VISIBLE[0], 4), 8080)
    p = subprocess.Popen([L.program("vipctl"), "--socket", vipd.socket, "monitor", "-o", "json",
                          "--kind", "silent", "--service", "default/s"], stdout=subprocess.PIPE,
                         bufsize=0)

    def event_read():
        assert select.select([p.stdout], [], [], L.LIMIT)[0], "no event"
        return json.loads(p.stdout.readline())

    try:
        assert event_read()["event"] == "hello"
        with remote_silent(lab, VISIBLE[0]), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            n = N - c.retries()[0]
        event = event_read()
    finally:
        p.kill()
        p.wait()
        p.stdout.close()
    assert (event["event"], event["over"], L.endpoint(event["address"], event["port"])) == \
        ("silent", False, dead)
    (row,) = [i for i in vipd.ctl("svc", "default/s").splitlines() if "unanswered, the last" in i]
    assert row.split()[0] == dead and int(re.search(r"(\d+) handshakes? un", row).group(1)) >= n
    (row,) = [i for i in vipd.ctl("trace", L.CLIENT[4],
                                  L.cluster_ip(NUMBER, 4) + ":80").splitlines() if "silent: " in i]
    assert row.split()[0] == dead
    assert re.search(r"^failover +\d+ endpoints? silent, \d+ unanswered", vipd.ctl("status", check=False), re.M)
    assert int(re.search(r"^vipd_silent_endpoints (\d+)$", metrics(lab), re.M).group(1)) > 0


def test_foreign_table(lab, vipd):
    """CT-24, CT-25: a table of another process with the name of vipd's: status names it, and
    handshakes of the other family move."""
    vipd.apply([svc()] + eps(1, 2, 3))
    lab.node.run("nft", "delete table ip6 vipd-failover; add table ip6 vipd-failover")
    try:
        with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
        L.eventually(lambda: "table ip6 vipd-failover exists" in vipd.ctl("status", check=False))
        (row,) = [i for i in vipd.ctl("doctor", check=False).splitlines() if " failover " in i]
        assert row.split()[0] == "warning" and "table ip6 vipd-failover exists" in row
    finally:
        lab.node.run("nft", "delete", "table", "ip6", "vipd-failover")
    L.eventually(lambda: all(tables(vipd)) and "vipd-failover" not in vipd.ctl("status", check=False))


@pytest.mark.parametrize("origin", ("pod3", "node"))
def test_clients_of_the_node(lab, vipd, origin):
    """CT-18: pods of this node, and the node."""
    vipd.apply([svc()] + eps(1, 2, 3))
    for fam in FAMS:
        with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, fam), role=origin) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors and N > c.retries()[0]
            assert set(c.backends()) == {L.remote(1, fam), L.remote(3, fam)}


def test_many_at_once(lab, vipd):
    """CT-18: the set grows while it is read: no step fails."""
    vipd.apply([svc()] + eps(1, 2, 3))
    before = vipd.log(10000).count(" failover: ")
    with remote_silent(lab, 2), contextlib.ExitStack() as stack:
        connects = []
        for _ in range(12):
            connects.append(stack.enter_context(Connects(lab, L.cluster_ip(NUMBER, 4), n=40)))
            time.sleep(0.05)
        for c in connects:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
    assert vipd.log(10000).count(" failover: ") == before


def test_half_silent(lab, vipd):
    """CT-19: a handshake is not moved to an endpoint that was silent a moment ago, while others
    answer: after the first moves no connection needs more than one."""
    vipd.apply([svc()] + eps(*range(1, 9)))
    to = L.cluster_ip(NUMBER, 4)
    with remote_silent(lab, 1, 2, 3, 4):
        with Connects(lab, to) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
        before = moves(lab)
        with Connects(lab, to) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            assert 0 < moves(lab) - before <= N - c.retries()[0]
            assert set(c.backends()) <= {L.remote(i, 4) for i in (5, 6, 7, 8)}


def test_all_vanish_and_return(lab, vipd):
    """CT-19: while every endpoint is silent, handshakes move on before their third SYN; once the endpoints
    answer again, all connect, old ones and new ones, and none of the new ones repeats its SYN."""
    vipd.apply([svc()] + eps(1, 2, 3))
    to = L.cluster_ip(NUMBER, 4)
    before = moves(lab)
    with contextlib.ExitStack() as stack:
        with remote_silent(lab, 1, 2, 3):
            old = stack.enter_context(Connects(lab, to))
            assert old.wait(1.5) == N
            L.eventually(lambda: moves(lab) >= before + N)
        new = stack.enter_context(Connects(lab, to))
        assert new.wait(L.PATIENCE) == 0 and not new.errors and new.retries() == {0: N}
        assert old.wait(L.PATIENCE) == 0 and not old.errors and sum(old.backends().values()) == N


@FAM
def test_service_without_answers(lab, vipd, fam):
    """CT-34: a service of which no endpoint answers does not use up the set of handshakes: while more
    than half of it is used, older ones go, and those of another service are listed and move."""
    dead = service("dead", [L.cluster_ip(NUMBER + 1, f) for f in FAMS], [port(80, "TCP", "tcp")])
    vipd.apply([svc(), dead] + eps(1, 2, 3) +
               [slice_("dead", [entry(L.remote(70, f), "n2")], [slice_port(8080, "TCP", "tcp")], fam=f)
                for f in FAMS])
    line = "table %s vipd-failover: more than half of set handshakes" % ("ip" if fam == 4 else "ip6")
    sources = (L.outer(i, fam) for i in range(1, 200))

    def is_relieved():
        rawpackets.send_syns(lab.client, next(sources), L.cluster_ip(NUMBER + 1, fam),
                             range(20000, 25000), 80)
        return line in vipd.log(1000)

    with remote_silent(lab, 2, 70):
        L.eventually(is_relieved)
        with Connects(lab, L.cluster_ip(NUMBER, fam)) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors


def test_packet_loss(lab, vipd, ct):
    """CT-18: 5 % of all packets of the endpoints get lost: every handshake succeeds, and each endpoint
    keeps a share. Not whether the connections work: where the last packet of the handshake got lost
    twice, the endpoint resets the connection, without the flag, too."""
    vipd.apply([svc()] + eps(1, 2, 3))
    lose = "ip %%s { %s } numgen random mod 100 < 5 drop; " % ", ".join(L.remote(i, 4) for i in (1, 2, 3))
    lab.node2.run("nft", "table ip vipdt_loss { "
                  "chain i { type filter hook prerouting priority -400; %s}; "
                  "chain o { type filter hook output priority -400; %s}; }" %
                  (lose % "daddr", lose % "saddr"))
    try:
        with Connects(lab, L.cluster_ip(NUMBER, 4), n=60) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            entries = flows(ct, L.cluster_ip(NUMBER, 4), c).values()
            shares = collections.Counter(e.reply_src for e in entries)
            assert sorted(shares) == [L.remote(i, 4) for i in (1, 2, 3)] and shares.total() == 60
    finally:
        lab.node2.run("nft", "delete", "table", "ip", "vipdt_loss")


def test_single_endpoint(lab, vipd, ct):
    """CT-20: without another endpoint a handshake keeps its flow; it moves when the pool gets one,
    instead of the silent endpoint or beside it."""
    for fam, later in zip(FAMS, ((3,), (2, 3))):
        to = L.cluster_ip(NUMBER, fam)
        before = moves(lab)
        vipd.apply([svc()] + eps(2))
        with remote_silent(lab, 2), Connects(lab, to, n=5) as c:
            assert c.wait(1.2) == 5
            assert len(unanswered(ct, to, c)) == 5 and moves(lab) == before
            vipd.apply([svc()] + eps(*later))
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            assert moves(lab) >= before + 5
            assert set(c.backends()) == {L.remote(3, fam)}


def test_established(lab, vipd, ct):
    """CT-21: flows with any reply are never touched, also while their endpoint is silent."""
    vipd.apply([svc()] + eps(1, 2, 3))
    to = {fam: L.cluster_ip(NUMBER, fam) for fam in FAMS}
    with Connects(lab, to[4]) as c4, Connects(lab, to[6]) as c6:
        assert c4.wait(L.PATIENCE) == 0 and c6.wait(L.PATIENCE) == 0
        first = {fam: {k: e.id for k, e in flows(ct, to[fam], c).items()}
                 for fam, c in ((4, c4), (6, c6))}
        assert [len(first[fam]) for fam in FAMS] == [N, N]
        with remote_silent(lab, 2), Connects(lab, to[4]) as new:
            assert new.wait(L.PATIENCE) == 0
        for fam, c in ((4, c4), (6, c6)):
            assert {k: e.id for k, e in flows(ct, to[fam], c).items()} == first[fam]
            assert L.remote(2, fam) in c.backends()


def test_refused(lab, vipd):
    """CT-21: a reset is an answer: the connection is refused, and not moved."""
    closed = [slice_("s", [entry(L.remote(i, f), "n2") for i in (1, 2, 3)],
                     [slice_port(9, "TCP", "tcp")], fam=f) for f in FAMS]
    vipd.apply([svc()] + closed)
    before = moves(lab)
    with Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
        assert c.wait(L.PATIENCE) == 0 and c.errors == ["ECONNREFUSED"] * N
    assert moves(lab) == before


def test_port_scan(lab, vipd):
    """CT-21: a scan of a cluster IP: every port but one is refused, none is moved."""
    vipd.apply([svc()] + eps(1, 2, 3))
    before = moves(lab)
    to = L.cluster_ip(NUMBER, 4)
    with contextlib.ExitStack() as stack:
        scans = [stack.enter_context(Connects(lab, to, number, n=1)) for number in range(1, 400)]
        for number, c in enumerate(scans, 1):
            assert c.wait(L.PATIENCE) == 0
            assert c.errors == ([] if number == 80 else ["ECONNREFUSED"])
    assert moves(lab) == before and not elements(vipd, "handshakes")


def elements(vipd, name):
    """Elements of a set of the tables for failover, of both families."""
    out = vipd.lab.node.run("nft", "-j", "list", "ruleset")
    return [e for x in json.loads(out)["nftables"] for kind in ("set", "map")
            if x.get(kind, {}).get("table") == "vipd-failover" and x[kind]["name"] == name
            for e in x[kind].get("elem", ())]


def test_another_program(lab, vipd, ct):
    """CT-21: a flow that another program translates to a silent address keeps its entry."""
    vipd.apply([svc()] + eps(1, 2, 3))
    lab.node.run("nft", "table ip vipdt_other { chain c { type nat hook prerouting priority -120; "
                 "ip daddr 198.51.100.77 tcp dport 80 dnat to %s:8080; }; }" % L.remote(2, 4))
    try:
        before = moves(lab)
        with remote_silent(lab, 2), Connects(lab, "198.51.100.77", n=5) as c:
            L.eventually(lambda: len(flows(ct, "198.51.100.77", c)) == 5)
            ids = {k: e.id for k, e in flows(ct, "198.51.100.77", c).items()}
            assert c.wait(2) == 5
            assert {k: e.id for k, e in flows(ct, "198.51.100.77", c).items()} == ids
        assert moves(lab) == before
    finally:
        lab.node.run("nft", "delete", "table", "ip", "vipdt_other")


def test_frontend_of_another_program(lab, vipd, ct):
    """CT-21: another program translates packets to vipd's frontend before vipd does, to an address that
    was never an endpoint: its flows keep their entries. From an address of their own: other tests may use
    the ports again."""
    vipd.apply([svc()] + eps(1, 2, 3))
    to = L.cluster_ip(NUMBER, 4)
    lab.node.run("nft", "table ip vipdt_other { chain c { type nat hook prerouting priority -120; "
                 "ip daddr %s tcp dport 80 dnat to %s:8081; }; }" % (to, L.remote(2, 4)))
    try:
        before = moves(lab)
        with remote_silent(lab, 2), Connects(lab, to, n=5, source=L.CLIENT2[4]) as c:
            L.eventually(lambda: len(unanswered(ct, to, c)) == 5)
            ids = {k: e.id for k, e in flows(ct, to, c).items()}
            assert c.wait(2) == 5
            assert {k: e.id for k, e in flows(ct, to, c).items()} == ids
        assert moves(lab) == before
    finally:
        lab.node.run("nft", "delete", "table", "ip", "vipdt_other")


@FAM
def test_affinity(lab, vipd, fam):
    """CT-22: a client keeps its endpoint while that answers. The entry of a client whose endpoint is
    silent leads to the endpoint that its connection moved to, with the timeout of others."""
    vipd.apply([svc(affinity=7200)] + eps(1, 2, 3))
    to = L.cluster_ip(NUMBER, fam)
    sources = [L.outer(i, fam) for i in range(1, 31)]
    first = {}
    for source in sources:
        r = L.probe(lab.client, to, 80, source=source)
        assert r.ok, r
        first[source] = r.backend
    dead = L.remote(2, fam)
    assert dead in first.values()
    with remote_silent(lab, 2), contextlib.ExitStack() as stack:
        cs = {s: stack.enter_context(Connects(lab, to, n=1, source=s)) for s in sources}
        for source, c in cs.items():
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            (backend,) = c.backends()
            assert backend != dead if first[source] == dead else backend == first[source]
            first[source] = backend
        entries = lab.node.run("nft", "list", "map", "ip" if fam == 4 else "ip6", "vipd", "affinity")
        for source in sources:
            assert re.search(r"\. %s timeout 2h expires " % re.escape(source), entries), entries
    assert {s: L.probe(lab.client, to, 80, source=s).backend for s in sources} == first


def test_local_policy(lab, vipd):
    """CT-23: a client outside of the cluster stays on this node, with externalTrafficPolicy Local."""
    vipd.apply([svc(etp="Local")] + eps(1, 3, local=("pod1", "pod3")))
    for fam in FAMS:
        with silent(lab.pod1, L.POD["pod1"][fam]), Connects(lab, L.lb_ip(NUMBER, fam)) as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors and N > c.retries()[0]
            assert set(c.backends()) == {L.POD["pod3"][fam]}


class Late:
    """An endpoint of node2 that answers a SYN `delay` seconds late, and nothing else."""

    def __init__(self, lab, addr, delay):
        self.addr, self.delay = addr, delay
        self.took = {}  # by the client's port
        self.sniff = lab.node2.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.sniff.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.send = lab.node2.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.is_over = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def answer(self, packet, at):
        src, dst = packet[12:16], packet[16:20]
        sport, dport, seq = struct.unpack_from("!HHI", packet, 20)
        tcp = struct.pack("!HHIIBBHHH", dport, sport, 7, (seq + 1) & 0xffffffff, 0x50, 0x12, 65535,
                          0, 0)
        pseudo = dst + src + struct.pack("!BBH", 0, 6, len(tcp))
        tcp = tcp[:16] + struct.pack("!H", rawpackets.inet_sum(pseudo + tcp)) + tcp[18:]
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, dst, src)
        time.sleep(max(0, at + self.delay - time.time()))
        self.send.sendto(head + tcp, (socket.inet_ntoa(src), 0))
        self.took.setdefault(sport, time.time() - at)

    def run(self):
        while not self.is_over:
            if not select.select([self.sniff], [], [], 0.05)[0]:
                continue
            packet, cmsg, _, _ = self.sniff.recvmsg(2000, 100)
            is_syn = len(packet) >= 40 and packet[9] == 6 and packet[33] & 0x12 == 0x02
            if is_syn and packet[16:20] == socket.inet_aton(self.addr):
                s, ns = struct.unpack("=qq", cmsg[0][2])
                self.answer(packet, s + ns / 1e9)

    def close(self):
        self.is_over = True
        self.thread.join()
        self.sniff.close()
        self.send.close()


def test_late_endpoint(lab, vipd):
    """CT-21: an endpoint that answers after 0.4 s keeps its handshakes: no SYN is repeated. Answers
    that a busy machine delays beyond that do not count; five in a row are evidence for an ejection."""
    vipd.apply([svc()] + eps(1, 2, 3))
    to = L.cluster_ip(NUMBER, 4)
    in_time = 0
    late = Late(lab, L.remote(2, 4), 0.4)
    try:
        with remote_silent(lab, 2):
            for _ in range(300):
                with Connects(lab, to, n=1, role="pod3") as c:  # keeps its port
                    (s,) = c.socks.values()
                    sport = s.getsockname()[1]
                    assert c.wait(L.PATIENCE) == 0 and not c.errors
                    if late.took.get(sport, 1) < 0.45:
                        in_time += 1
                        assert c.retries() == {0: 1}
                if in_time == 8:
                    break
        assert in_time == 8
    finally:
        late.close()


def test_all_late(lab, vipd):
    """CT-19: every endpoint answers after 0.8 s: no handshake moves, and no SYN is repeated. A busy machine
    gets other attempts: it may answer later, or vipd may read some handshakes before the others."""
    vipd.apply([svc()] + eps(1, 2, 3))

    def all_stay():
        before = moves(lab)
        with Connects(lab, L.cluster_ip(NUMBER, 4), n=12, role="pod3") as c:
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            return c.retries()[0] == 12 and moves(lab) == before
    with contextlib.ExitStack() as stack:
        stack.enter_context(remote_silent(lab, 1, 2, 3))
        for i in (1, 2, 3):
            stack.enter_context(contextlib.closing(Late(lab, L.remote(i, 4), 0.8)))
        L.eventually(all_stay, what="handshakes stay with endpoints that answer late")


def test_late_and_silent(lab, vipd):
    """CT-19: two endpoints answer after 0.8 s, the third never does: each handshake ends at one that
    answers, and not at the silent one because that came last."""
    vipd.apply([svc()] + eps(1, 2, 3))
    with contextlib.ExitStack() as stack:
        stack.enter_context(remote_silent(lab, 1, 2, 3))
        for i in (1, 3):
            stack.enter_context(contextlib.closing(Late(lab, L.remote(i, 4), 0.8)))
        c = stack.enter_context(Connects(lab, L.cluster_ip(NUMBER, 4), n=12, role="pod3"))
        assert c.wait(L.PATIENCE) == 0 and not c.errors


@pytest.mark.no_steady
def test_removed_endpoint(lab, vipd):
    """CT-20: handshakes to an endpoint that an update removes move, with a limit of 10 s, too: SYNs
    succeed that clients repeat before that time (after 1, 3 and 7 s; newer kernels after 1, 2, 3, 4,
    5 and 7). A machine on which the update takes as long gets another attempt."""
    vipd.stop()
    vipd.flags["--failover-timeout"] = "10s"
    linear = os.path.exists("/proc/sys/net/ipv4/tcp_syn_linear_timeouts")

    def is_moved_before():
        vipd.apply([svc()] + eps(1, 2, 3))
        with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
            assert c.wait(0.5) > 0
            vipd.apply([svc()] + eps(1, 3))
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            return max(c.retries()) <= (6 if linear else 3)
    try:
        vipd.start()
        L.eventually(is_moved_before, what="handshakes moved after 10 s only")
    finally:
        vipd.stop()
        del vipd.flags["--failover-timeout"]
        vipd.start()


def test_off(lab, vipd, ct):
    """Without the flag there is no table, and a flow to a silent endpoint stays there."""
    vipd.apply([svc()] + eps(1, 2, 3))
    vipd.stop()
    vipd.flags["--failover"] = "off"
    try:
        vipd.start()
        L.eventually(lambda: not any(tables(vipd)), what="the tables stay")
        to = L.cluster_ip(NUMBER, 4)
        with remote_silent(lab, 2), Connects(lab, to) as c:
            pending = c.wait(4)
            assert pending > 0 and moves(lab) == 0
            assert [e.reply_src for e in unanswered(ct, to, c)] == [L.remote(2, 4)] * pending
    finally:
        vipd.stop()
        vipd.flags["--failover"] = "handshake"
        vipd.start()
    L.eventually(lambda: all(tables(vipd)), what="no tables")


def tables(vipd):
    return ["vipd-failover" in vipd.nft.tables(fam) for fam in FAMS]


def test_tables_deleted(lab, vipd):
    """CT-24: another process deletes the tables while handshakes are in flight: the tables are made
    again, and the handshakes move after the client's next SYN."""
    vipd.apply([svc()] + eps(1, 2, 3))
    with remote_silent(lab, 2), contextlib.ExitStack() as stack:
        cs = [stack.enter_context(Connects(lab, L.cluster_ip(NUMBER, fam))) for fam in FAMS]
        for family in ("ip", "ip6"):
            lab.node.run("nft", "delete", "table", family, "vipd-failover")
        for fam, c in zip(FAMS, cs):
            assert c.wait(L.PATIENCE) == 0 and not c.errors
            assert L.remote(2, fam) not in c.backends()
    assert all(tables(vipd))


def test_restart(lab, vipd):
    """CT-24: a restart keeps the tables; handshakes that were in flight are moved afterwards."""
    vipd.apply([svc()] + eps(1, 2, 3))
    before = [vipd.nft.tables(fam)["vipd-failover"] for fam in FAMS]
    with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
        vipd.kill()
        vipd.start()
        assert c.wait(L.PATIENCE) == 0 and not c.errors
        assert L.remote(2, 4) not in c.backends()
    assert [vipd.nft.tables(fam)["vipd-failover"] for fam in FAMS] == before


def moved(lab):
    """Elements of the moves: flow -> endpoint, and the times that they last."""
    text = lab.node.run("nft", "list", "map", "ip", "vipd-failover", "moves")
    found = re.findall(r"(\S+ \. \d+ \. \S+ \. \d+)(?: timeout (\d+)s)? expires \S+ : (\S+) \.", text)
    return {f: to for f, _, to in found}, [int(s or 0) for _, s, _ in found]


def test_life_of_a_move(lab, vipd):
    """CT-18: a move lasts longer than the 32 s before a client's last SYN. CT-20: one to an endpoint
    that left while vipd did not run ends at the start."""
    vipd.apply([svc()] + eps(1, 2, 3))
    with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
        assert c.wait(L.PATIENCE) == 0 and not c.errors
    before, lives = moved(lab)
    assert lives and all(s > 32 for s in lives), lives
    gone = next(iter(before.values()))
    vipd.kill()
    vipd.write([svc()] + eps(2, *(i for i in (1, 3) if L.remote(i, 4) != gone)))
    vipd.start()
    L.eventually(lambda: gone not in moved(lab)[0].values(), what="the move stays")
    assert moved(lab)[0] == {f: to for f, to in before.items() if to != gone}


def test_rules_flushed(lab, vipd):
    """CT-24: another process removes the rules, and leaves the sets: the tables are made again."""
    vipd.apply([svc()] + eps(1, 2, 3))
    for family in ("ip", "ip6"):
        lab.node.run("nft", "flush", "table", family, "vipd-failover")
    L.eventually(lambda: all("@claimed" in lab.node.run("nft", "list", "table", f, "vipd-failover")
                             for f in ("ip", "ip6")), what="no rules")
    with remote_silent(lab, 2), Connects(lab, L.cluster_ip(NUMBER, 4)) as c:
        assert c.wait(L.PATIENCE) == 0 and not c.errors
        assert L.remote(2, 4) not in c.backends()


@pytest.mark.no_steady
def test_cleanup(lab, vipd):
    """CT-24: --cleanup removes the tables."""
    assert all(tables(vipd))
    vipd.stop()
    lab.node.run(L.program("vipd"), "--cleanup")
    assert not any(tables(vipd))
    vipd.start()
    L.eventually(lambda: all(tables(vipd)), what="no tables")
