# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd.io/weights by name, on both planes (BAL-01 to BAL-04). vipd.check_tables() compares slots
and destinations with a second implementation of the annotation; here: views, packets, restarts."""
import collections

import lab as L
import planes
from objects import entry, port, service, slice_, slice_port

VIP = L.cluster_ip(62, 4)
WEIGHTS = "web-canary-*=5,*=95"


def objects(weights, canaries=(1,), others=(2, 3), **notes):
    if weights is not None:
        notes["vipd.io/weights"] = weights
    svc = service("web", VIP, [port(80, "TCP", "t")], annotations=notes)
    entries = []
    for kind, numbers in (("canary", canaries), ("main", others)):
        for i in numbers:
            entries.append(entry(L.remote(i, 4), "n2"))
            entries[-1]["targetRef"] = {"kind": "Pod", "name": "web-%s-%d" % (kind, i)}
    return [svc, slice_("web", entries, [slice_port(8080, "TCP", "t")])]


def pool(vipd):
    pools = vipd.get("/v1/services/default/web")["pools"]
    assert len(pools) == 1
    return {b["address"]: (b["weight"], round(b["share"], 4)) for b in pools[0]["backends"]}


def shares(vipd):
    answer = vipd.get("/v1/trace?from=%s&to=%s/TCP" % (L.CLIENT[4], L.endpoint(VIP, 80)))
    return {e["address"]: round(e["probability"], 4) for e in answer["endpoints"]}


def reached(lab, n):
    return collections.Counter(L.probe(lab.client, VIP, 80).backend for _ in range(n))


def test_by_name(lab, vipd):
    """A weight is that of each pod; svc and trace show weight and share; 0 drains; packets follow;
    a restart writes nothing."""
    one, two, three = (L.remote(i, 4) for i in (1, 2, 3))
    vipd.apply(objects(WEIGHTS))
    assert pool(vipd) == {one: (5, 0.0256), two: (95, 0.4872), three: (95, 0.4872)}
    assert shares(vipd) == {one: 0.0256, two: 0.4872, three: 0.4872}
    page = vipd.ctl("svc", "default/web")
    assert "WEIGHT" in page and "SHARE" in page and "48.7%" in page
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0
    vipd.apply(objects("web-canary-*=100,*=0"))
    assert shares(vipd) == {one: 1.0, two: 0, three: 0}
    assert vipd.get("/v1/trace?from=%s&to=%s/TCP" % (L.CLIENT[4], L.endpoint(VIP, 80)))[
        "endpoints"][1]["reason"] == "weight 0"
    assert set(reached(lab, 12)) == {one}
    vipd.apply(objects("web-main-2=50,*=0"))
    assert set(reached(lab, 12)) == {two}


def test_shares(lab, vipd):
    """BAL-04, IPVS-17: without another annotation, 5:95. IPVS takes turns."""
    one, two = (L.remote(i, 4) for i in (1, 2))
    vipd.apply(objects(WEIGHTS, others=(2,)))
    assert vipd.get("/v1/services/default/web").get("remark") is None
    assert pool(vipd) == {one: (5, 0.05), two: (95, 0.95)}
    n = {"nft": 2000, "ipvs": 200}[planes.PLANE]
    met = reached(lab, n)
    spread = {"nft": 5 * (n * 0.05 * 0.95) ** 0.5, "ipvs": 2}[planes.PLANE]
    assert set(met) == {one, two} and abs(met[one] - n * 0.05) <= spread, met


def test_scheduler_without_weights(lab, vipd):
    """IPVS-17: a scheduler that ignores weights is named on the ipvs plane; nftables has neither lc nor
    turns, and weights are in force."""
    vipd.apply(objects(WEIGHTS, **{"vipd.io/scheduler": "rr"}))
    remark = vipd.get("/v1/services/default/web").get("remark")
    ignored = "vipd.io/weights: 'rr' ignores weights: only weight 0 has an effect"
    assert remark == (ignored if planes.PLANE == "ipvs" else None)
    assert (ignored in vipd.ctl("svc", "default/web")) == (planes.PLANE == "ipvs")
    assert len(set(shares(vipd).values())) == (1 if planes.PLANE == "ipvs" else 2)
    vipd.apply(objects(WEIGHTS, **{"vipd.io/scheduler": "wrr"}))
    assert vipd.get("/v1/services/default/web").get("remark") is None


def test_errors_are_named(lab, vipd):
    """The annotation and its Service in the log, in svc and in status; the default is in force."""
    vipd.apply(objects("web-canary-*=5,*=950"))
    text = "vipd.io/weights: '*=950': allowed are an address"
    assert text in vipd.ctl("svc", "default/web")
    assert any("service default/web: " in x and text in x for x in vipd.log(200).splitlines())
    assert {p["kind"] for p in vipd.status()["problems"]} & {"annotations"}
    assert set(shares(vipd).values()) == {0.3333}
    vipd.apply(objects(WEIGHTS, **{"vipd.io/scheduler": "fastest"}))
    assert "vipd.io/scheduler: unknown scheduler 'fastest'" in vipd.ctl("svc", "default/web")
