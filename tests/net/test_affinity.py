# SPDX-License-Identifier: GPL-2.0-or-later
"""ClientIP affinity (T-108 to T-112)."""
import ipaddress
import struct
import time

import pytest

import lab as L
import planes
from objects import entry, port, service, slice_, slice_port
from test_health import scrape
from shop import E1, E2, KINDS, Svc, forget_udp

IS_IPVS = planes.PLANE == "ipvs"
FLAGS = {"--ipvs-udp-timeout": "1s"} if IS_IPVS else {}
FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
# 20 independent picks of two are all alike with probability 2^-19; 3 endpoints: smaller.
MANY = 20


def backends(lab, to, number, proto="tcp", n=MANY, role="client", source=None):
    out = []
    for _ in range(n):
        r = L.probe(lab.ns[role], to, number, proto, source=source)
        assert r.ok, r
        out.append(r.backend)
    return out


@FAM
@PROTO
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("etp", ("Cluster", "Local"))
def test_sticks(lab, vipd, fam, proto, kind, etp):
    """T-108, T-112: every frontend, both policies; frontends share the entries (SVC-32)."""
    svc = Svc("sticky1", 1, affinity=10800, etp=etp)
    vipd.apply(svc.objects())
    forget_udp(lab, [svc.target(k, fam)[0] for k in KINDS])
    first = backends(lab, *svc.target(kind, fam), proto)
    assert len(set(first)) == 1, first
    if etp == "Cluster":
        for other in KINDS:
            assert set(backends(lab, *svc.target(other, fam), proto, 5)) == set(first)
    vipd.check_tables()


@FAM
def test_clients_spread(lab, vipd, fam):
    """Different clients are distributed: 40 sources do not all use one of two endpoints."""
    svc = Svc("sticky2", 2, affinity=600)
    vipd.apply(svc.objects())
    to, number = svc.target("clusterip", fam)
    met = {}
    for i in range(60, 100):
        source = L.far(i, fam)
        met[source] = set(backends(lab, to, number, n=3, source=source))
        assert len(met[source]) == 1, met[source]
    assert set.union(*met.values()) == {E1[fam], E2[fam]}


TICK = 0.01  # the kernel counts timeouts in ticks of 1 to 10 ms, and the first one is not whole


@FAM
def test_expires(lab, vipd, fam):
    """T-109: the entry is gone after the timeout; until then each connection renews it. IPVS keeps
    it as long as it keeps a connection that was made by it, of TCP for two minutes after its
    end: so it is asked with datagrams, whose flows are set to end after a second."""
    proto = "udp" if IS_IPVS else "tcp"
    svc = Svc("sticky3", 3, affinity=5)
    vipd.apply(svc.objects())
    to, number = svc.target("clusterip", fam)
    def is_renewed():
        """For longer than the timeout, by connections that follow each other sooner than that."""
        nonlocal last
        last = start = time.monotonic()
        first = backends(lab, to, number, proto, n=1)[0]
        while time.monotonic() < start + 6:
            time.sleep(0.4)
            begin = time.monotonic()
            backend = backends(lab, to, number, proto, n=1)[0]
            if time.monotonic() > last + 5:
                return False
            assert backend == first
            last = begin
        seen = clients(vipd, fam, to)
        if time.monotonic() > last + 5:
            return False
        assert seen == {L.CLIENT[fam]}
        return True
    last = 0
    L.eventually(is_renewed, what="the machine is too slow for a connection every 5 s")
    L.eventually(lambda: not clients(vipd, fam, to), what="the entry lasts")
    assert time.monotonic() > last + 5 - TICK
    # Whatever is picked now sticks again.
    assert len(set(backends(lab, to, number, proto, n=8))) == 1


def templates(vipd, fam, to):
    """The same of IPVS: its entries of persistence have a client without a port."""
    out = set()
    for line in vipd.lab.node.run("cat", "/proc/net/ip_vs_conn").splitlines()[1:]:
        _, client, port_, virtual = line.split()[:4]
        if port_ != "0000" or (":" in client) != (fam == 6):
            continue
        client, virtual = (str(ipaddress.ip_address(a if fam == 6 else int(a, 16)))
                           for a in (client, virtual))
        if virtual == to:
            out.add(client)
    return out


def clients(vipd, fam, to):
    """Clients with affinity of the service at this address, without expired entries."""
    if IS_IPVS:
        return templates(vipd, fam, to)
    return remembered(vipd, fam, vipd.tables(fam).frontends[fam, to, "TCP", 80] >> 12)


def remembered(vipd, fam, pool=None):
    """The clients that have an entry of this pool, or of any."""
    return {str(ipaddress.ip_address(key[4:4 + (4 if fam == 4 else 16)]))
            for key, _, _ in vipd.elements(fam, "affinity")
            if pool is None or struct.unpack_from("=I", key)[0] >> 12 == pool}


@FAM
@pytest.mark.skipif(IS_IPVS, reason="IPVS keeps the timeout that a client's entry was made with")
def test_shortened_timeout(lab, vipd, fam):
    """A shorter timeout applies to existing entries, counted from the last connection. A client
    that connects again in time keeps its endpoint."""
    to, number = Svc("sticky8", 8).target("clusterip", fam)
    vipd.apply(Svc("sticky8", 8, affinity=10800).objects())
    first = backends(lab, to, number, n=1)
    assert clients(vipd, fam, to) == {L.CLIENT[fam]}
    vipd.apply(Svc("sticky8", 8, affinity=7200).objects())
    time.sleep(2)
    assert backends(lab, to, number, n=8) == first * 8
    vipd.apply(Svc("sticky8", 8, affinity=2).objects())
    L.eventually(lambda: not clients(vipd, fam, to), 20, "the entry lasts")
    # The same while no vipd was there to see it.
    vipd.apply(Svc("sticky8", 8, affinity=10800).objects())
    backends(lab, to, number, n=1)
    vipd.kill()
    vipd.write(Svc("sticky8", 8, affinity=2).objects())
    vipd.start()
    L.eventually(lambda: not clients(vipd, fam, to), 20, "the entry lasts")
    # The same when vipd ends between the change and the end of the walk over the entries.
    vipd.apply(Svc("sticky8", 8, affinity=10800).objects())
    backends(lab, to, number, n=1)
    vipd.apply(Svc("sticky8", 8, affinity=2).objects())
    vipd.kill()
    vipd.start()
    L.eventually(lambda: not clients(vipd, fam, to), 20, "the entry lasts")


@FAM
def test_moves_when_endpoint_is_removed(lab, vipd, fam):
    """T-111, SVC-33: a removed endpoint: the client gets an existing one at once."""
    svc = Svc("sticky4", 4, affinity=10800)
    objs = svc.objects()
    vipd.apply(objs)
    to, number = svc.target("clusterip", fam)
    first = backends(lab, to, number, n=4)[0]
    other = E2[fam] if first == E1[fam] else E1[fam]
    less = svc.objects()
    for s in less[1:]:
        s["endpoints"] = [e for e in s["endpoints"] if e["addresses"][0] != first]
    vipd.apply(less)
    assert set(backends(lab, to, number, n=8)) == {other}
    vipd.apply(objs)  # the first one is back: the client stays where it is now
    assert set(backends(lab, to, number, n=8)) == {other}


@FAM
def test_survives_other_changes(lab, vipd, fam):
    """Other endpoints change and slots move; the client keeps its endpoint."""
    ip = L.cluster_ip(5, fam)
    svc = service("sticky", ip, 80, affinity=10800)

    def objs(numbers):
        return [svc, slice_("sticky", [entry(L.remote(i, fam), "n2") for i in numbers], 8080)]
    vipd.apply(objs(range(1, 11)))
    first = backends(lab, ip, 80, n=3)[0]
    mine = next(i for i in range(1, 11) if L.remote(i, fam) == first)
    others = [i for i in range(1, 11) if i != mine]
    for numbers in ([mine], [mine] + others[:3], others[5:] + [mine], list(range(1, 80)),
                    [mine, 90, 91], list(range(1, 11))):
        vipd.apply(objs(numbers))
        assert set(backends(lab, ip, 80, n=6)) == {first}, numbers
    vipd.check_tables()


@FAM
def test_switched_on_and_off(lab, vipd, fam):
    """T-110."""
    plain, sticky = Svc("sticky6", 6), Svc("sticky6", 6, affinity=100)
    to, number = plain.target("clusterip", fam)
    for _ in range(2):
        vipd.apply(plain.objects())
        assert len(set(backends(lab, to, number))) == 2
        vipd.apply(sticky.objects())
        assert len(set(backends(lab, to, number))) == 1
    vipd.apply(Svc("sticky6", 6, affinity=50).objects())
    assert len(set(backends(lab, to, number))) == 1
    vipd.check_tables()


@FAM
def test_survives_restart(lab, vipd, fam):
    """NFT-21: affinity entries are kernel state."""
    svc = Svc("sticky7", 7, affinity=10800)
    vipd.apply(svc.objects())
    to, number = svc.target("clusterip", fam)
    sources = [L.far(i, fam) for i in range(60, 72)]
    before = [backends(lab, to, number, n=1, source=s) for s in sources]
    vipd.kill()
    vipd.start()
    after = [backends(lab, to, number, n=1, source=s) for s in sources]
    assert before == after


LOCAL2 = L.POD["pod2"]
NFT_ONLY = pytest.mark.skipif(IS_IPVS, reason="persistence belongs to one virtual service (SVC-32)")


def shared(name, number, local, remote=(), etp="Local"):
    """A service with all kinds of frontends and with endpoints on this node and the other."""
    svc = Svc(name, number, affinity=10800, etp=etp)
    objs = svc.objects()[:1]
    for fam in (4, 6):
        eps = [entry(pod[fam], L.NODE_NAME) for pod in local] + \
              [entry(L.remote(i, fam), "n2") for i in remote]
        objs.append(slice_(name, eps, [slice_port(8080, "TCP", "tcp"),
                                       slice_port(8080, "UDP", "udp")], fam=fam))
    return svc, objs


def one(lab, svc, kind, fam, source, proto="tcp"):
    """The backend of three connections of `source` through the frontend."""
    met = set(backends(lab, *svc.target(kind, fam), proto, 3, source=source))
    assert len(met) == 1, (kind, source, met)
    return met.pop()


@NFT_ONLY
@FAM
@PROTO
def test_shared_by_the_pools(lab, vipd, fam, proto):
    """SVC-32: with externalTrafficPolicy Local, the cluster IP and the other frontends have pools
    of their own. Whichever a client asks first, it meets the same endpoint through all of them:
    24 sources, each with an even chance of another endpoint at three other kinds of frontend."""
    svc, objs = shared("sticky9", 9, (E1, LOCAL2))
    vipd.apply(objs)
    firsts = set()
    for i in range(24):
        kinds = KINDS[i % 4:] + KINDS[:i % 4]
        source = L.outer(100 + i, fam)
        met = [one(lab, svc, kind, fam, source, proto) for kind in kinds]
        assert len(set(met)) == 1, (source, kinds, met)
        firsts.add(met[0])
    assert firsts == {E1[fam], LOCAL2[fam]}
    vipd.check_tables()


@NFT_ONLY
@FAM
def test_not_in_the_local_pool(lab, vipd, fam):
    """A client whose endpoint is on another node meets a local one through a frontend with policy
    Local, always the same; and keeps the other through the cluster IP."""
    svc, objs = shared("sticky10", 10, (E1, LOCAL2), (1, 2))
    vipd.apply(objs)
    local = {E1[fam], LOCAL2[fam]}
    n_remote = n_local = 0
    for i in range(24):
        source = L.outer(130 + i, fam)
        inside = one(lab, svc, "clusterip", fam, source)
        outside = one(lab, svc, "nodeport", fam, source)
        assert outside in local
        if inside in local:
            assert outside == inside
            n_local += 1
        else:
            n_remote += 1
        assert one(lab, svc, "clusterip", fam, source) == inside
        assert one(lab, svc, "lb", fam, source) == outside
    assert n_remote and n_local
    vipd.check_tables()


@NFT_ONLY
@FAM
def test_shortened_timeout_of_a_pool_that_went(lab, vipd, fam):
    """A client was remembered by the Cluster pool, which is gone; the Local pool uses the entry. A
    shorter timeout counts for it too."""
    svc, objs = shared("sticky13", 13, (E1, LOCAL2))
    vipd.apply(objs)
    source = L.outer(60, fam)
    first = one(lab, svc, "clusterip", fam, source)
    assert one(lab, svc, "nodeport", fam, source) == first
    assert source in clients(vipd, fam, svc.addr("clusterip", fam))
    for timeout in (10800, 2):
        ports = [port(80, "TCP", "tcp"), port(80, "UDP", "udp")]
        objs[0] = service("sticky13", [svc.addr("clusterip", f) for f in (4, 6)], ports,
                          itp="Local", affinity=timeout)
        vipd.apply(objs)
        assert timeout == 2 or one(lab, svc, "clusterip", fam, source) == first
    L.eventually(lambda: source not in remembered(vipd, fam), 20, "the entry lasts")


@NFT_ONLY
@FAM
@pytest.mark.parametrize("name", ("aff_slots", "frontends"))
def test_flushed_while_down(lab, vipd, fam, name):
    """Another process flushes a map while vipd is down: local ids are found without the slots and
    the frontends that led to them. Clients keep their endpoint; none meets a removed one. Slots
    that no frontend leads to are not found."""
    is_strict = name == "aff_slots"
    svc, objs = shared("sticky14", 14, (E1, LOCAL2))
    vipd.apply(shared("sticky14", 14, (LOCAL2, L.POD["pod3"]))[1])
    vipd.apply(objs)  # E1 has the third local id
    sources = [L.outer(20 + i, fam) for i in range(16)]
    before = {s: one(lab, svc, "clusterip", fam, s) for s in sources}
    vipd.kill()
    lab.node.run("nft", "flush", "map", *vipd.nft_set(fam, name))
    vipd.start()
    vipd.check_tables(timeout=5, strict=is_strict)
    for s in sources if name == "aff_slots" else ():
        assert one(lab, svc, "clusterip", fam, s) == before[s]
    vipd.apply(shared("sticky14", 14, (LOCAL2,))[1])
    assert {one(lab, svc, "clusterip", fam, s) for s in sources} == {LOCAL2[fam]}
    vipd.check_tables(strict=is_strict)
    removed = ipaddress.ip_address(E1[fam]).packed
    L.eventually(lambda: not any(data.startswith(removed)
                                 for _, data, _ in vipd.elements(fam, "aff_endpoints")),
                 5, "the removed endpoint has a local id")
    if not is_strict:
        lab.node.run("nft", "delete", "table", *vipd.nft_table(fam))  # with these slots
        vipd.check_tables(timeout=5)


@NFT_ONLY
@FAM
def test_map_full(lab, vipd, fam):
    """SVC-31: clients for which the affinity map has no room are served, and counted. The map is
    made as small as one entry, which kernels before 6.6 ignore."""
    svc = Svc("sticky15", 15, affinity=600)
    vipd.apply(svc.objects())
    to, number = svc.target("clusterip", fam)
    first = backends(lab, to, number, n=1)[0]
    path = vipd.nft_set(fam, "affinity")

    def resize(n):
        lab.node.run("nft", "add map %s %s %s" % path + " { typeof meta priority . %s saddr : meta "
                     "priority; size %d; flags dynamic,timeout; timeout 3h; }" % (path[0], n))
        return "size %d\n" % n in lab.node.run("nft", "-t", "list", "map", *path)
    metric = "vipd_affinity_full_connections_total"
    before = scrape(lab)[0][metric]
    try:
        if not resize(1):
            pytest.skip("the kernel does not change the size of a map")
        assert set(backends(lab, to, number)) == {first}  # has an entry
        assert set(backends(lab, to, number, source=L.far(60, fam))) == {E1[fam], E2[fam]}
        L.eventually(lambda: scrape(lab)[0][metric] == before + MANY)
    finally:
        resize(1048576)
    vipd.check_tables()


@NFT_ONLY
@FAM
def test_shared_endpoint_removed(lab, vipd, fam):
    """SVC-33 with two pools: the client gets another endpoint through either pool, and the same
    one through the other. Other clients keep theirs."""
    svc, objs = shared("sticky11", 11, (E1, LOCAL2, L.POD["pod3"]))
    vipd.apply(objs)
    sources = [L.outer(160 + i, fam) for i in range(24)]
    before = {s: one(lab, svc, KINDS[i % 2], fam, s) for i, s in enumerate(sources)}
    for i, s in enumerate(sources):
        assert one(lab, svc, KINDS[1 - i % 2], fam, s) == before[s]
    vipd.apply(shared("sticky11", 11, (LOCAL2, L.POD["pod3"]))[1])
    for i, s in enumerate(sources):
        met = {one(lab, svc, kind, fam, s) for kind in (KINDS[i // 2 % 2], KINDS[1 - i // 2 % 2])}
        assert len(met) == 1 and met <= {LOCAL2[fam], L.POD["pod3"][fam]}, met
        assert before[s] == E1[fam] or met == {before[s]}
    vipd.check_tables()


@NFT_ONLY
@FAM
def test_pools_share_after_changes(lab, vipd, fam):
    """The same after a restart, and when a pool is removed and created again. A second restart
    writes nothing."""
    svc, objs = shared("sticky12", 12, (E1, LOCAL2), etp="Cluster")
    local = shared("sticky12", 12, (E1, LOCAL2))[1]
    vipd.apply(objs)
    sources = [L.outer(190 + i, fam) for i in range(20)]
    before = {s: one(lab, svc, "clusterip", fam, s) for s in sources}
    assert len(set(before.values())) == 2

    def kept(kinds):
        for s in sources:
            for kind in kinds:
                assert one(lab, svc, kind, fam, s) == before[s], (s, kind)
    vipd.apply(local)  # another pool, which no client was ever in
    kept(["nodeport"])
    for _ in range(2):
        vipd.kill()
        vipd.start()
        assert vipd.status()["sync"]["writes"] == 0
        kept(["nodeport", "clusterip"])
    vipd.apply(objs)
    kept(["nodeport"])
    vipd.apply(local)
    kept(["lb", "clusterip"])
    vipd.check_tables()


@NFT_ONLY
@FAM
def test_pool_in_place_of_the_other(lab, vipd, fam):
    """internalTrafficPolicy of a ClusterIP Service changes: clients whose endpoint stays keep it,
    also when other endpoints come. A shorter timeout counts for their entries."""
    svc, few = shared("sticky14", 14, (E1, LOCAL2))
    more = shared("sticky14", 14, (E1, LOCAL2), (1,))[1]
    ports = [port(80, "TCP", "tcp"), port(80, "UDP", "udp")]
    ips = [svc.addr("clusterip", f) for f in (4, 6)]
    sources = [L.outer(220 + i, fam) for i in range(20)]
    before = None

    def apply(itp, objs, timeout=10800):
        vipd.apply([service("sticky14", ips, ports, itp=itp, affinity=timeout)] + objs[1:])
    apply("Cluster", few)
    vipd.kill()
    vipd.start()  # the walk that follows has the previous timeout
    for itp, objs in (("Cluster", few), ("Local", more), ("Cluster", more)):
        apply(itp, objs)
        met = [one(lab, svc, "clusterip", fam, s) for s in sources]
        before = before or met
        assert met == before
        vipd.check_tables()
    apply("Local", more, 2)
    L.eventually(lambda: not set(sources) & set(remembered(vipd, fam)), 20, "entries last")


@FAM
def test_per_port(lab, vipd, fam):
    """SVC-32: separate for each port of a service."""
    ip = L.cluster_ip(8, fam)
    svc = service("sticky", ip, [port(80, "TCP", "a"), port(81, "TCP", "b")], affinity=600)
    eps = slice_("sticky", [L.remote(i, fam) for i in (1, 2, 3, 4)],
                 [slice_port(8080, "TCP", "a"), slice_port(8081, "TCP", "b")])
    vipd.apply([svc, eps])
    differ = 0
    for i in range(60, 90):
        a = backends(lab, ip, 80, n=2, source=L.far(i, fam))
        b = backends(lab, ip, 81, n=2, source=L.far(i, fam))
        assert a[0] == a[1] and b[0] == b[1]
        differ += a[0] != b[0]
    assert differ > 0
