# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd.io/scheduler: mh on the nftables plane: a client's backend follows from its address."""
import urllib.parse

import pytest

import hashing
import lab as L
from objects import entry, port, service, slice_, slice_port

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTOS = ("tcp", "udp")
CLIENTS = range(100, 150)


def objects(scheduler, fam, numbers, **kw):
    svc = service("hashed", L.cluster_ip(61, fam),
                  [port(80, p.upper(), p, 0 if scheduler is None else 30061) for p in PROTOS],
                  kind="NodePort" if scheduler else None,
                  annotations={"vipd.io/scheduler": scheduler} if scheduler else None, **kw)
    return [svc, slice_("hashed", [entry(L.remote(i, fam), "n2") for i in numbers],
                        [slice_port(8080, p.upper(), p) for p in PROTOS], fam=fam)]


def endpoints(fam, numbers):
    return frozenset((L.remote(i, fam), 8080) for i in numbers)


def predicted(vipd, source, to, number, proto):
    """The endpoint that vipctl trace is certain of; None: none."""
    q = urllib.parse.urlencode({"from": source, "to": "%s/%s" % (L.endpoint(to, number), proto)})
    answer = vipd.get("/v1/trace?" + q)
    sure = [e["address"] for e in answer["endpoints"] if e["probability"] == 1.0]
    return sure[0] if sure else None


def met(lab, to, number, proto, fam, client=L.far):
    """{client: its backend}"""
    out = {}
    for i in CLIENTS:
        source = client(i, fam)
        r = L.probe(lab.ns["client"], to, number, proto, source=source)
        assert r.ok, r
        out[source] = r.backend
    return out


@FAM
def test_clients_keep_their_backend(lab, vipd, fam):
    """BAL-10, BAL-11: trace and the reference predict each client's backend exactly, for cluster
    IP and node port; when a backend leaves, its clients alone move, and they return with it."""
    to = L.cluster_ip(61, fam)
    all_ = range(1, 6)
    vipd.apply(objects("mh", fam, all_))
    first = met(lab, to, 80, "tcp", fam)
    assert set(first.values()) == {L.remote(i, fam) for i in all_}
    for source, backend in first.items():
        assert predicted(vipd, source, to, 80, "tcp") == backend
        assert hashing.pick(endpoints(fam, all_), source)[0] == backend
    # Not the slots: while the kernel resizes the hash table of their map, a dump lacks some.
    held = vipd.tables(fam)
    assert held.chain(held.frontends[fam, to, "TCP", 80], "kinds") == "h%d" % hashing.SLOTS
    vipd.check_tables()  # each slot as in the reference
    with lab.node.entered():
        for more in ([], ["--manifests", vipd.manifests.path, "--node", L.NODE_NAME]):
            assert vipd.ctl("diff", *more, check=False) == ""
    vipd.apply(objects("mh", fam, all_[1:]))
    second = met(lab, to, 80, "udp", fam)
    for source, backend in first.items():
        assert backend == L.remote(1, fam) or second[source] == backend
        assert predicted(vipd, source, to, 80, "udp") == second[source] != L.remote(1, fam)
    vipd.apply(objects("mh", fam, reversed(all_)))
    assert met(lab, L.NODE[fam], 30061, "tcp", fam) == first


@FAM
def test_port(lab, vipd, fam):
    """BAL-12: with mh-port the source port counts: a client's connections reach all backends,
    and each one the backend that follows from address and port."""
    to = L.cluster_ip(61, fam)
    vipd.apply(objects("mh,mh-port", fam, (1, 2, 3)))
    seen = set()
    for _ in range(30):
        c, _ = L.connect(lab.ns["client"], to, 80, "tcp", None, L.far(100, fam))
        client = c.sock.getsockname()[:2]
        backend = c.ask(None).backend
        c.close()
        assert hashing.pick(endpoints(fam, (1, 2, 3)), *client)[0] == backend
        assert predicted(vipd, L.endpoint(*client), to, 80, "tcp") == backend
        seen.add(backend)
    assert seen == {L.remote(i, fam) for i in (1, 2, 3)}
    assert predicted(vipd, L.far(100, fam), to, 80, "tcp") is None


@FAM
def test_local_policies(lab, vipd, fam):
    """BAL-10 with POL-03: both policies Local: clients outside keep one of the endpoints on this
    node at the node port, and all clients at the cluster IP; pods keep one of all at the node port.
    A client keeps its endpoint over a restart, and when another one leaves."""
    local = {L.POD[name][fam] for name in ("pod1", "pod2")}
    remote = {L.remote(i, fam) for i in (1, 2)}

    def apply(addrs):
        """Each with the endpoints of its set: clients outside, and pods, at the node port."""
        objs = objects("mh", fam, (), etp="Local", itp="Local")
        objs[1] = slice_("hashed", [entry(a, L.NODE_NAME if a in local else "n2") for a in addrs],
                         [slice_port(8080, p.upper(), p) for p in PROTOS], fam=fam)
        vipd.apply(objs)
        near, all_ = (frozenset((a, 8080) for a in addrs if a in some)
                      for some in (local, local | remote))
        out = []
        for among, client in ((near, L.outer), (all_, L.far)):
            out.append(met(lab, L.NODE[fam], 30061, "tcp", fam, client))
            assert set(out[-1].values()) == {a for a, _ in among}
            assert out[-1] == {s: hashing.pick(among, s)[0] for s in out[-1]}
        return out

    first = apply(sorted(local | remote))
    assert met(lab, L.cluster_ip(61, fam), 80, "tcp", fam, L.outer) == first[0]
    assert set(met(lab, L.cluster_ip(61, fam), 80, "tcp", fam, L.far).values()) == local
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0
    assert apply(sorted(local | remote)) == first
    second = apply(sorted((local | remote) - {min(remote)}))
    assert second[0] == first[0]
    apply([max(local)])


def test_restart(lab, vipd):
    """BAL-13: adoption writes nothing, also after kill -9; the annotation's end brings back the
    random choice, and no slot stays."""
    vipd.apply(objects("sh", 4, (1, 2)))
    first = met(lab, L.cluster_ip(61, 4), 80, "tcp", 4)
    assert "mh is in force" in vipd.get("/v1/services/default/hashed")["remark"]
    genid = vipd.writes()
    for stop in (vipd.kill, vipd.stop):
        stop()
        vipd.start()
        assert vipd.writes() == genid
    assert met(lab, L.cluster_ip(61, 4), 80, "tcp", 4) == first
    vipd.apply(objects(None, 4, (1, 2)))
    vipd.check_tables()
    assert len(list(vipd.elements(4, "endpoints"))) < hashing.SLOTS
