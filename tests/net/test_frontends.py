# SPDX-License-Identifier: GPL-2.0-or-later
"""Source ranges (T-096 to T-101), node port addresses (T-102 to T-105), external IPs, changes of
ports and types, added and removed endpoints (T-094, T-095)."""
import pytest

import lab as L
import shop
from objects import entry, port, service, slice_, slice_port
from shop import E1, E2, Svc

FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))
PROTO = pytest.mark.parametrize("proto", ("tcp", "udp"))
# Our client is inside, its second address is not.
ALLOWED = ["203.0.113.0/25", "2001:db8:1::/120"]
NODE_NETS = ["192.168.0.0/24", "100.64.0.0/30", "fd00:192::/64", "fd00:64::/64"]


def ok(lab, role, svc, kind, fam, proto="tcp", source=None):
    to, number = svc.target(kind, fam)
    r = L.probe(lab.ns[role], to, number, proto, source=source)
    assert r.ok, r
    return r


def two_vips(svc):
    """A second LB address a family, and the ranges."""
    out = svc.objects()
    out[0]["status"]["loadBalancer"]["ingress"] += [{"ip": L.lb_ip(100 + svc.number, 4)},
                                                    {"ip": L.lb_ip(100 + svc.number, 6)}]
    return out


@FAM
@PROTO
def test_ranges(lab, vipd, fam, proto):
    """T-096, T-097, T-099, SVC-24."""
    svc = Svc("ranges", 21, ranges=ALLOWED)
    vipd.apply(two_vips(svc))
    vipd.check_tables()
    for vip in (svc.addr("lb", fam), L.lb_ip(121, fam)):
        shop.reach(lab, "X", vip, 80, proto, fam, {E1[fam], E2[fam]}, True)
        shop.fails(lab, "X", vip, 80, proto, "drop", source=L.CLIENT2[fam])
        shop.fails(lab, "P", vip, 80, proto, "drop")  # T-097, REJ-11
        shop.fails(lab, "H", vip, 80, proto, "drop")
    for kind in ("clusterip", "nodeport", "externalip"):  # T-099
        ok(lab, "client", svc, kind, fam, proto, source=L.CLIENT2[fam])


@FAM
@PROTO
def test_ranges_with_policy_local(lab, vipd, fam, proto):
    """POL-22: the ranges first, then the policy."""
    svc = Svc("ranges", 22, ranges=ALLOWED + ["10.244.1.13/32", "fd00:10:244:1::13/128"],
              etp="Local")
    vipd.apply(svc.objects())
    to, number = svc.target("lb", fam)
    shop.reach(lab, "X", to, number, proto, fam, {E1[fam]}, False)
    shop.fails(lab, "X", to, number, proto, "drop", source=L.CLIENT2[fam])
    shop.reach(lab, "P", to, number, proto, fam, {E1[fam], E2[fam]}, False)
    shop.fails(lab, "pod2", to, number, proto, "drop")


@FAM
def test_ranges_of_the_node(lab, vipd, fam):
    """T-098: the node is in a range: it is admitted, also with the VIP as its source (SVC-25)."""
    svc = Svc("ranges", 23, ranges=NODE_NETS)
    vipd.apply(svc.objects())
    to, number = svc.target("lb", fam)
    ok(lab, "node", svc, "lb", fam)
    shop.fails(lab, "X", to, number, "tcp", "drop")
    prefix = 32 if fam == 4 else 128
    lab.node.run("ip", "addr", "add", "%s/%d" % (to, prefix), "dev", "lo",
                 *(["nodad"] if fam == 6 else []))
    try:
        # The kernel adds the local route of an IPv6 address later, in a work queue.
        L.eventually(lambda: lab.node.run("ip", "route", "get", to).startswith("local"))
        ok(lab, "node", svc, "lb", fam, source=to)
    finally:
        lab.node.run("ip", "addr", "del", "%s/%d" % (to, prefix), "dev", "lo")


@FAM
def test_ranges_zero(lab, vipd, fam):
    """T-100: a zero prefix among them means no restriction."""
    svc = Svc("ranges", 24, ranges=["203.0.113.0/25", "0.0.0.0/0", "2001:db8:1::/120", "::/0"])
    vipd.apply(svc.objects())
    ok(lab, "client", svc, "lb", fam, source=L.CLIENT2[fam])
    ok(lab, "pod3", svc, "lb", fam)


@FAM
def test_ranges_change(lab, vipd, fam):
    """T-101: cleared, changed, set again."""
    svc = Svc("ranges", 25, ranges=ALLOWED)
    to, number = svc.target("lb", fam)
    vipd.apply(svc.objects())
    shop.fails(lab, "X", to, number, "tcp", "drop", source=L.CLIENT2[fam])
    vipd.apply(Svc("ranges", 25).objects())
    ok(lab, "client", svc, "lb", fam, source=L.CLIENT2[fam])
    vipd.apply(Svc("ranges", 25, ranges=["203.0.113.128/25", "2001:db8:1::100/120"]).objects())
    ok(lab, "client", svc, "lb", fam, source=L.CLIENT2[fam])
    shop.fails(lab, "X", to, number, "tcp", "drop")
    vipd.check_tables()


@FAM
def test_ranges_unparsable_fail_closed(lab, vipd, fam):
    """SVC-23: no client is admitted at the VIP; the other frontends of the service are served."""
    svc = Svc("ranges", 26, ranges=["everybody", "10.0.0.1"])
    vipd.apply(svc.objects())
    to, number = svc.target("lb", fam)
    shop.fails(lab, "X", to, number, "tcp", "drop")
    shop.fails(lab, "P", to, number, "tcp", "drop")
    ok(lab, "client", svc, "nodeport", fam)
    ok(lab, "client", svc, "clusterip", fam)


@FAM
@PROTO
def test_ranges_without_endpoints(lab, vipd, fam, proto):
    """REJ-12: disallowed sources are dropped, allowed ones refused."""
    svc = Svc("ranges", 27, "none", ranges=ALLOWED)
    vipd.apply(svc.objects())
    to, number = svc.target("lb", fam)
    shop.fails(lab, "X", to, number, proto, "reject")
    shop.fails(lab, "X", to, number, proto, "drop", source=L.CLIENT2[fam])


@FAM
def test_established_survives_ranges(lab, vipd, fam):
    """REJ-08: an established connection is not checked again."""
    svc = Svc("ranges", 28)
    vipd.apply(svc.objects())
    to, number = svc.target("lb", fam)
    conn, r = L.connect(lab.client, to, number, source=L.CLIENT2[fam])
    assert r.ok and conn.ask().ok
    vipd.apply(Svc("ranges", 28, ranges=ALLOWED).objects())
    shop.fails(lab, "X", to, number, "tcp", "drop", source=L.CLIENT2[fam])
    assert conn.ask().ok
    conn.close()


# ---- node port addresses: the daemon is restarted with other flags ----

NODEPORT_FLAGS = [
    ("default", None, {4: {L.NODE[4]}, 6: {L.NODE[6]}}),
    ("primary", "primary", {4: {L.NODE[4]}, 6: {L.NODE[6]}}),
    ("one-net", "203.0.113.0/24", {4: {L.NODE_TO_CLIENT[4]}, 6: set()}),
    ("two-families", "203.0.113.0/24,100.64.0.0/30,fd00:192::/64",
     {4: {L.NODE_TO_CLIENT[4], L.NODE_TO_WORLD[4]}, 6: {L.NODE[6]}}),
    ("zero", "203.0.113.0/24,0.0.0.0/0,::/0",
     {4: {L.NODE_TO_CLIENT[4], L.NODE[4], L.NODE_TO_WORLD[4], L.BRIDGE[4]},
      6: {L.NODE_TO_CLIENT[6], L.NODE[6], L.NODE_TO_WORLD[6], L.BRIDGE[6]}}),
]
@pytest.fixture
def node_ports(vipd, steady):
    """Restart the daemon with other --nodeport-addresses; afterwards as it was."""
    def restart(value):
        vipd.stop()
        vipd.flags["--nodeport-addresses"] = value
        vipd.start()
    yield restart
    restart(None)


ALL = {4: [L.NODE_TO_CLIENT[4], L.NODE[4], L.NODE_TO_WORLD[4], L.BRIDGE[4]],
       6: [L.NODE_TO_CLIENT[6], L.NODE[6], L.NODE_TO_WORLD[6], L.BRIDGE[6]]}


@pytest.mark.parametrize("name,value,want", NODEPORT_FLAGS, ids=[f[0] for f in NODEPORT_FLAGS])
def test_node_port_addresses(lab, vipd, node_ports, name, value, want):
    """T-102 to T-105, SVC-07 (fail closed), SVC-08, SVC-11."""
    svc = Svc("np", 31)
    node_ports(value)
    vipd.apply(svc.objects())
    for fam in (4, 6):
        for addr in ALL[fam]:
            for proto in ("tcp", "udp"):
                if addr in want[fam]:
                    r = L.probe(lab.client, addr, svc.node_port, proto)
                    assert r.ok, "%s: %s" % (addr, r)
                else:
                    shop.fails(lab, "X", addr, svc.node_port, proto, "reject")
            if addr in want[fam]:
                assert L.probe(lab.node, addr, svc.node_port).ok
        # T-105: never on the loopback addresses.
        loop = "127.0.0.1" if fam == 4 else "::1"
        shop.fails(lab, "H", loop, svc.node_port, "tcp", "reject")
    vipd.check_tables()


def test_node_port_addresses_follow_the_host(lab, vipd, node_ports):
    """SVC-12: an added address serves node ports, a removed one does not. IPVS-13: service addresses
    on the device of another proxy do not."""
    svc = Svc("np", 32)
    node_ports("192.168.77.0/24,0.0.0.0/0,fd00:77::/64")
    vipd.apply(svc.objects())
    lab.node.run("ip", "link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "kube-peer")
    lab.node.run("ip", "addr", "add", "192.168.77.9/32", "dev", "kube-ipvs0")
    lab.node.run("ip", "addr", "add", "192.168.77.2/32", "dev", "lo", "scope", "host")
    lab.node.run("ip", "addr", "add", "192.168.77.1/32", "dev", "lo")
    try:
        L.eventually(lambda: L.probe(lab.client, "192.168.77.1", svc.node_port).ok, 3,
                     "the new address does not serve node ports")
        assert L.probe(lab.client, "192.168.77.2", svc.node_port).ok, "an address of scope host"
        assert not any(k[1] == "192.168.77.9" for k in vipd.tables(4).frontends)
    finally:
        lab.node.run("ip", "addr", "del", "192.168.77.2/32", "dev", "lo")
        lab.node.run("ip", "addr", "del", "192.168.77.1/32", "dev", "lo")
        lab.node.run("ip", "link", "del", "kube-ipvs0")
    L.eventually(lambda: not any(k[1] == "192.168.77.1" for k in vipd.tables(4).frontends), 3,
                 "the address is gone, its node ports are not")


# ---- life of services and endpoints ----

@FAM
def test_endpoints_appear_and_vanish(lab, vipd, fam):
    """T-094, T-095."""
    svc = Svc("life", 41, "none")
    full = Svc("life", 41)
    vipd.apply(svc.objects())
    for kind in shop.KINDS:
        shop.fails(lab, "X", *svc.target(kind, fam), "tcp", "reject")
    vipd.apply(full.objects())
    for kind in shop.KINDS:
        ok(lab, "client", svc, kind, fam)
        ok(lab, "pod3", svc, kind, fam)
    conn, r = L.connect(lab.client, *svc.target("lb", fam))
    assert r.ok and conn.ask().ok
    vipd.apply(svc.objects())
    for kind in shop.KINDS:
        shop.fails(lab, "X", *svc.target(kind, fam), "tcp", "reject")
    assert conn.ask().ok, "an established connection was cut by the reject"  # REJ-08
    conn.close()


@FAM
def test_slice_before_service(lab, vipd, fam):
    """T-045: and a deleted service is gone at once, node port included."""
    svc = Svc("late", 42)
    objs = svc.objects()
    vipd.apply(objs[1:])
    vipd.apply(objs)
    ok(lab, "client", svc, "clusterip", fam)
    vipd.apply(objs[1:])
    shop.fails(lab, "X", *svc.target("nodeport", fam), "tcp", "reject")
    shop.fails(lab, "X", *svc.target("clusterip", fam), "tcp", "drop")  # unallocated now


@FAM
def test_three_protocols_one_number(lab, vipd, fam):
    """T-023 for TCP and UDP (SCTP in test_sctp.py): each to its own endpoint port."""
    ip = L.cluster_ip(43, fam)
    svc = service("dns", ip, [port(53, "TCP", "t"), port(53, "UDP", "u")])
    eps = slice_("dns", [E1[fam]], [slice_port(5353, "TCP", "t"), slice_port(8081, "UDP", "u")])
    vipd.apply([svc, eps])
    assert L.probe(lab.client, ip, 53).backend_port == 5353
    assert L.probe(lab.client, ip, 53, "udp").backend_port == 8081


@FAM
def test_ports_change(lab, vipd, fam):
    """T-022: add a port, swap the node port, remove a port."""
    ip = L.cluster_ip(44, fam)

    def objs(*ports):
        return [service("ports", ip, [port(n, "TCP", name, np) for n, name, np in ports]),
                slice_("ports", [E1[fam]], [slice_port(8080, "TCP", "a"),
                                            slice_port(8081, "TCP", "b")])]
    vipd.apply(objs((80, "a", 30440)))
    assert L.probe(lab.client, ip, 80).backend_port == 8080
    vipd.apply(objs((80, "a", 30440), (81, "b", 0)))
    assert L.probe(lab.client, ip, 81).backend_port == 8081
    vipd.apply(objs((80, "a", 30441), (81, "b", 30440)))
    assert L.probe(lab.client, L.NODE[fam], 30440).backend_port == 8081
    assert L.probe(lab.client, L.NODE[fam], 30441).backend_port == 8080
    vipd.apply(objs((81, "b", 30440)))
    shop.fails(lab, "X", ip, 80, "tcp", "reject")
    shop.fails(lab, "X", L.NODE[fam], 30441, "tcp", "reject")


@FAM
def test_type_flips(lab, vipd, fam):
    """T-005, T-007: each change takes effect as a delete or create."""
    svc = Svc("flip", 45)
    objs = svc.objects()
    vipd.apply(objs)
    ok(lab, "client", svc, "nodeport", fam)
    external = svc.objects()
    external[0]["spec"]["type"] = "ExternalName"
    vipd.apply(external)
    shop.fails(lab, "X", *svc.target("nodeport", fam), "tcp", "reject")
    vipd.apply(objs)
    ok(lab, "client", svc, "nodeport", fam)
    labelled = svc.objects()
    labelled[0]["metadata"]["labels"] = {"service.kubernetes.io/service-proxy-name": ""}
    vipd.apply(labelled)
    shop.fails(lab, "X", *svc.target("nodeport", fam), "tcp", "reject")
    vipd.apply(objs)
    ok(lab, "client", svc, "nodeport", fam)


@FAM
def test_zone_changes(lab, vipd, fam):
    """T-072, T-051: all services are selected again."""
    svc = Svc("zoned", 46)
    objs = [svc.objects()[0]]
    for f in (4, 6):
        objs.append(slice_("zoned", [entry(E1[f], L.NODE_NAME, zones=["a"]),
                                     entry(E2[f], "n2", zones=["b"])],
                           [slice_port(8080, "TCP", "tcp")]))
    to, number = svc.target("clusterip", fam)
    try:
        vipd.apply(objs)
        shop.reach(lab, "P", to, number, "tcp", fam, {E1[fam]}, False)
        vipd.zone = "b"
        vipd.apply(objs)
        shop.reach(lab, "P", to, number, "tcp", fam, {E2[fam]}, False)
        vipd.zone = ""
        vipd.apply(objs)
        shop.reach(lab, "P", to, number, "tcp", fam, {E1[fam], E2[fam]}, False)
    finally:
        vipd.zone = "a"


@FAM
@pytest.mark.parametrize("n", (3, 16, 17, 64, 65, 72, 73, 130))
def test_many_endpoints(lab, vipd, fam, n):
    """Every size of pool, exact and by class: all endpoints are met, none else."""
    ip = L.cluster_ip(50, fam)
    addrs = {L.remote(i + 1, fam) for i in range(n)}
    vipd.apply([service("many", ip, 80), slice_("many", sorted(addrs), 8080)])
    r = lab.flow("client", "new", "--to", "tcp:" + L.endpoint(ip, 80), "--count", str(n * 14),
                 "--concurrency", "8").wait()
    assert r["failed"] == 0, r["first_failure"]
    met = {b.rsplit(":", 1)[0].strip("[]") for b in r["backends"]}
    # A given endpoint is missed by all 14 n connections with probability e^-14.
    assert met == addrs


@FAM
def test_unassigned_external_ip(lab, vipd, fam):
    """T-107: assigned to no node; traffic that passes is captured."""
    svc = Svc("ext", 47)
    vipd.apply(svc.objects())
    for role in ("client", "pod3", "node2", "node"):
        assert ok(lab, role, svc, "externalip", fam).backend in (E1[fam], E2[fam])


def test_conflict_older_wins(lab, vipd):
    """SEL-14, T-127: the older service has the address; the newer one is named and gets it when
    the older one is deleted; no flapping."""
    old = service("old", L.cluster_ip(48, 4), 80, external_ips=["198.51.100.48"],
                  created="2025-01-01T00:00:00Z")
    new = service("new", L.cluster_ip(49, 4), 80, external_ips=["198.51.100.48"],
                  created="2026-01-01T00:00:00Z")
    eps = [slice_("old", [E1[4]], 8080), slice_("new", [E2[4]], 8080)]
    vipd.apply([new] + eps)
    assert L.probe(lab.client, "198.51.100.48", 80).backend == E2[4]
    vipd.apply([new, old] + eps)
    for _ in range(8):
        assert L.probe(lab.client, "198.51.100.48", 80).backend == E1[4]
    assert L.probe(lab.client, L.cluster_ip(49, 4), 80).backend == E2[4]
    vipd.check_tables()
    genid = vipd.nft.genid()
    shown = vipd.ctl("svc")
    assert "new" in shown and "conflict" in shown.lower()
    vipd.write()  # nothing changed
    assert vipd.nft.genid() == genid
    vipd.apply([new] + eps)
    for _ in range(8):
        assert L.probe(lab.client, "198.51.100.48", 80).backend == E2[4]
    vipd.check_tables()


@pytest.mark.parametrize("fam", [4, 6])
def test_cluster_ip_before_external_ip(lab, vipd, fam):
    """SEL-14: an older service cannot take over another service's cluster IP by its externalIPs; it
    serves the address only until that service comes. Clients of every role reach the owner."""
    cip = L.cluster_ip(147, fam)
    thief = service("thief", L.cluster_ip(148, fam), 80, external_ips=[cip],
                    created="2020-01-01T00:00:00Z")
    owner = service("owner", cip, 80, created="2026-01-01T00:00:00Z")
    eps = [slice_("thief", [E1[fam]], 8080), slice_("owner", [E2[fam]], 8080)]
    vipd.apply([thief] + eps)
    assert L.probe(lab.pod3, cip, 80).backend == E1[fam]
    vipd.apply([thief, owner] + eps)
    for role in ("pod3", "client", "node"):
        assert L.probe(getattr(lab, role), cip, 80).backend == E2[fam]
    assert "cluster IP before external IP" in vipd.ctl("svc", "default/thief")
    assert "cluster IP before external IP" in vipd.log()
    assert "also claimed by default/thief" in vipd.ctl("trace", L.POD["pod3"][fam], "%s:80/TCP" % (
        "[%s]" % cip if fam == 6 else cip))
    vipd.check_tables()


def test_long_names(lab, vipd):
    """T-125: names of 63 characters, no endpoints."""
    long = service("s" * 63, L.cluster_ip(60, 4), [port(80, "TCP", "p" * 63)], ns="n" * 63)
    other = service("other", L.cluster_ip(61, 4), 80)
    vipd.apply([long, other, slice_("other", [E1[4]], 8080)])
    shop.fails(lab, "X", L.cluster_ip(60, 4), 80, "tcp", "reject")
    assert L.probe(lab.client, L.cluster_ip(61, 4), 80).ok
