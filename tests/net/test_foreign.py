# SPDX-License-Identifier: GPL-2.0-or-later
"""Foreign changes: inserted elements, edited rules, a flush; and the output of nft. Foreign
changes of IPVS: test_ipvs_repair.py."""
import re
import socket
import time

import pytest

import daemon
import foreigner as F
import ipvs
import lab as L
import planes
from objects import service, slice_
from shop import Svc


# Foreign changes are repaired without the audit.
FLAGS = {"--audit-period": "0"}
# A value of a frontend's element that leads nowhere.
NOWHERE = {"nft": "0:7ffe", "ipvs": "0x5a0ffffe"}[planes.PLANE]
# A chain that everything passes, behind the base chain; a base chain.
CHAIN = {"nft": "services", "ipvs": "assign4"}[planes.PLANE]
BASE = {"nft": "prerouting", "ipvs": "pre"}[planes.PLANE]


def nft(lab, *args):
    return lab.node.run("nft", *args)


def svc(i, n=1):
    return [service("s%d" % i, [L.cluster_ip(i, 4), L.cluster_ip(i, 6)], 80),
            slice_("s%d" % i, [L.remote(1 + (i + k) % 200, 4) for k in range(n)], 8080),
            slice_("s%d" % i, [L.remote(1 + (i + k) % 200, 6) for k in range(n)], 8080)]


def served(lab, i, fam=4):
    return L.probe(lab.client, L.cluster_ip(i, fam), 80).ok


def test_foreign_element_in_the_way(lab, vipd):
    """A foreign element has the key of a new service: that service is programmed too (or isolated
    and named), and so are all other services of its transaction."""
    vipd.apply(svc(1))
    nft(lab, "add", "element", *vipd.nft_set(4, "frontends"),
        "{ %s . tcp . 80 : %s }" % (L.cluster_ip(2, 4), NOWHERE))
    vipd.apply(svc(1) + svc(2) + svc(3) + svc(4))
    for i in (1, 3, 4):
        assert served(lab, i), i
    L.eventually(lambda: served(lab, 2) or "s2" in vipd.ctl("status"), 5,
                 "the service is neither served nor named")
    L.eventually(lambda: served(lab, 2), 5, "the foreign element was not replaced")
    vipd.check_tables()


def test_foreign_elements_are_swept_by_a_restart(lab, vipd):
    """Unneeded foreign elements do not affect services; the next start removes them."""
    vipd.apply(svc(1))
    for name, element in (("vips", "{ 10.99.99.99 }"), ("cluster_ips", "{ 10.99.99.98 }"),
                          ("frontends", "{ 10.99.99.97 . tcp . 80 : %s }" % NOWHERE),
                          ("masq_frontends", "{ 10.99.99.96 . tcp . 80 }")):
        nft(lab, "add", "element", *vipd.nft_set(4, name), element)
    vipd.apply(svc(1) + svc(2))
    assert served(lab, 1) and served(lab, 2)
    vipd.kill()
    vipd.start()
    vipd.check_tables(timeout=5)


def test_deleted_elements_are_restored(lab, vipd):
    """The generation id shows a foreign change; every service is compared and repaired. It takes
    up to ten seconds when the last such comparison was less than that ago."""
    vipd.apply([o for i in range(1, 8) for o in svc(i)])

    def delete(name, element):
        nft(lab, "delete", "element", *vipd.nft_set(4, name), "{ %s }" % element)
    delete("vips", L.cluster_ip(1, 4))
    delete("cluster_ips", L.cluster_ip(2, 4))
    delete("frontends", L.cluster_ip(3, 4) + " . tcp . 80")
    if planes.PLANE == "nft":
        nft(lab, "flush", "map", *vipd.nft_set(6, "endpoints"))
    nft(lab, "flush", "map", *vipd.nft_set(6, "frontends"))
    nft(lab, "flush", "set", *vipd.nft_set(6, "vips"))
    L.eventually(lambda: all(served(lab, i, fam) for i in range(1, 8) for fam in (4, 6)), 13,
                 "not restored")
    vipd.check_tables(timeout=13)
    assert vipd.status()["sync"]["repairs"] > 0


@pytest.mark.no_steady
@pytest.mark.parametrize("how", ("flush ruleset", "delete table", "flush table"))
def test_table_gone(lab, vipd, how):
    """T-126: repaired without a request."""
    vipd.apply(svc(1) + svc(2))
    at = F.log_size(vipd)
    nft(lab, *how.split(), *(vipd.nft_table(4) if "table" in how else ()))
    start = time.monotonic()
    L.eventually(lambda: served(lab, 1) and served(lab, 2, 6), 5, "not rebuilt")
    print("%s: served again after %.0f ms" % (how, (time.monotonic() - start) * 1e3))
    vipd.check_tables(timeout=5)
    # The log names the process and the repair. Others: one check may find the test before, too.
    said = "\n".join(F.log_from(vipd, at))
    assert re.search(r"ruleset changed by nft \(pid \d+\)( and others)?: \S", said), said


def test_edited_rule_is_restored(lab, vipd):
    """Another process empties a chain of vipd."""
    vipd.apply(svc(1))
    nft(lab, "flush", "chain", *vipd.nft_table(4), CHAIN)
    L.eventually(lambda: served(lab, 1), 5, "the chain was not restored")
    vipd.check_tables(timeout=5)


@pytest.mark.parametrize("is_down", (False, True), ids=("running", "down"))
def test_renamed_chains_are_restored(lab, vipd, is_down):
    """Another process empties and renames a chain: rules lead to a chain, not to its name. A base
    chain keeps its hook under the other name."""
    vipd.apply(svc(1))
    table = " ".join(vipd.nft_table(4))
    if is_down:
        vipd.kill()
    lab.node.run("nft", "-f", "-", input="flush chain {0} {1}\nrename chain {0} {1} renamed\n"
                 "rename chain {0} {2} renamed_base\n".format(table, CHAIN, BASE))
    if is_down:
        vipd.start()
    L.eventually(lambda: served(lab, 1), 5, "the chains were not restored")
    L.eventually(lambda: "renamed_base" not in nft(lab, "list", "table", *table.split()), 5,
                 "the renamed base chain was not deleted")
    nft(lab, "delete", "chain", *table.split(), "renamed")  # no rule leads to it
    assert served(lab, 1)
    vipd.check_tables(timeout=5)


def test_other_tables_are_not_touched(lab, vipd):
    """NFT-03: through a sync, a repair and a restart."""
    text = "table ip foreign { chain c { type filter hook forward priority 10; " \
           "counter accept; }; set s { type ipv4_addr; elements = { 10.1.2.3 }; }; }"
    nft(lab, text)
    try:
        before = nft(lab, "-s", "list", "table", "ip", "foreign")
        vipd.apply(svc(1) + svc(2))
        nft(lab, "flush", "chain", *vipd.nft_table(4), CHAIN)
        L.eventually(lambda: served(lab, 1), 5, "not restored")
        vipd.kill()
        vipd.start()
        assert nft(lab, "-s", "list", "table", "ip", "foreign") == before
    finally:
        nft(lab, "delete", "table", "ip", "foreign")


def test_noise_of_others_does_not_disturb(lab, vipd):
    """Permanent foreign commits: changes are programmed, no connection fails."""
    nft(lab, "table ip noise { set s { type ipv4_addr; }; }")
    noise = lab.node.popen("sh", "-c", "i=0; while [ $i -lt 400 ]; do i=$((i+1)); "
                           "nft add element ip noise s '{ 10.9.0.1 }'; "
                           "nft delete element ip noise s '{ 10.9.0.1 }'; done")
    try:
        for n in range(1, 12):
            vipd.apply(svc(1, n) + svc(2, 1 + n % 3))
            assert served(lab, 1)
        vipd.kill()
        vipd.start()
        vipd.check_tables()
    finally:
        noise.kill()
        noise.wait()
        nft(lab, "delete", "table", "ip", "noise")


def feature_rich():
    out = []
    for i, kw in enumerate(({}, {"etp": "Local"}, {"itp": "Local"}, {"affinity": 300},
                            {"ranges": ["203.0.113.0/25", "2001:db8:1::/120"]},
                            {"ranges": ["203.0.113.0/25", "2001:db8:1::/120"], "etp": "Local",
                             "affinity": 60})):
        out += Svc("f%d" % i, 10 + i, **kw).objects()
    out += Svc("f9", 19, "none").objects()
    for fam in (4, 6):
        out.append(service("big%d" % fam, L.cluster_ip(30 + fam, fam), 80))
        out.append(slice_("big%d" % fam, [L.remote(i, fam) for i in range(1, 70)], 8080))
    return out


def test_listing_is_readable(lab, vipd):
    """`nft list ruleset` prints all elements with keys in the usual notation."""
    vipd.apply(feature_rich())
    vipd.check_tables()
    text = nft(lab, "list", "ruleset")
    assert "%s . tcp . 80" % L.cluster_ip(10, 4) in text
    assert "%s . udp . 80" % L.cluster_ip(10, 6) in text
    for fam in (4, 6):
        assert "table %s %s" % vipd.nft_table(fam) in text
    nft(lab, "-j", "list", "ruleset")


# What a copy must have like its original.
SAME = ["frontends", "vips", "cluster_ips", "ranges", "masq_frontends", "masq_hosts"] + {
    "nft": ["endpoints", "kinds", "xl_local", "aff_endpoints"],
    "ipvs": ["fe_in", "fe_out", "guarded", "idle", "endpoint_addrs"]}[planes.PLANE]


def copy_to(lab, other):
    """The ruleset printed by nft, and the virtual services printed by ipvsadm."""
    other.node.run("nft", "-f", "-", input=nft(lab, "-s", "list", "ruleset"))
    if planes.PLANE == "ipvs":
        other.node.run("ipvsadm", "-R", input=lab.node.run("ipvsadm", "-Sn"))


def test_listing_loads_back(lab, vipd):
    """nft loads its own listing: the copy serves equal traffic in a separate node without vipd.
    (On the ipvs plane together with policy routing, which has no such text.)"""
    vipd.apply(feature_rich())
    vipd.check_tables()
    held = {fam: vipd.tables(fam) for fam in (4, 6)}

    def serves(node):
        return all(L.probe(node.client, L.cluster_ip(i, fam), 80).ok for i in (10, 11, 13, 14)
                   for fam in (4, 6))
    with L.Lab() as other:
        copy_to(lab, other)
        copy = daemon.Vipd(other)
        try:
            for fam in (4, 6):
                table = copy.tables(fam)
                for name in SAME:
                    assert getattr(table, name) == getattr(held[fam], name), name
            load = None
            if planes.PLANE == "nft":
                assert serves(other)
                # And a vipd that starts on it makes it its own without a gap.
                load = other.flow("client", "new", "--to",
                                  "tcp:" + L.endpoint(L.cluster_ip(10, 4), 80), "--rate", "300",
                                  "--concurrency", "16")
            copy.write(feature_rich())
            copy.start()
            copy.check_tables()
            assert serves(other)
            r = load.stop() if load else {"failed": 0}
            assert r["failed"] == 0, r["first_failure"]
        finally:
            copy.close()


def layout(vipd):
    """Chains and sets."""
    fams = ("inet",) if planes.PLANE == "ipvs" else (4, 6)
    return {fam: (sorted(vipd.nft.chains(fam, vipd.table(fam))),
                  sorted(vipd.nft.sets(fam, vipd.table(fam)))) for fam in fams}


def test_layout_is_fixed(lab, vipd):
    """A service changes no chain, rule or set, only elements; except for pick chains of new sizes
    and timeouts."""
    vipd.apply([])
    before = layout(vipd)
    vipd.apply([o for i in range(40) for o in svc(i + 1, 1 + i % 5)] + Svc("x", 90).objects())
    assert layout(vipd) == before and all(chains and sets for chains, sets in before.values())


def test_small_batches(lab, vipd):
    """One endpoint change is one transaction; with IPVS two messages: the new destination, and
    weight 0 for the old one."""
    vipd.apply([o for i in range(40) for o in svc(i + 1, 3)])
    wire = ipvs.Wire(lab.node, vipd.ipvs().family) if planes.PLANE == "ipvs" else None
    genid = vipd.nft.genid()
    objs = [o for i in range(40) for o in svc(i + 1, 3)]
    objs[1] = slice_("s1", [L.remote(201, 4), L.remote(3, 4), L.remote(4, 4)], 8080)
    vipd.write(objs)
    L.eventually(lambda: vipd.nft.genid() != genid, 3, "no write")
    time.sleep(0.1)
    assert vipd.nft.genid() == genid + 1
    if wire:
        counts = wire.counts()
        wire.close()
        assert (counts["new_dest"], counts["set_dest"]) == (1, 1) and counts["new_service"] == 0, counts


def test_noticed_at_once(lab, vipd):
    """Foreign changes are detected by the kernel's notification and repaired: another process
    flushes a chain, deletes an element."""
    vipd.apply(svc(1))
    other = F.Foreigner(lab.node)
    fam = "inet" if planes.PLANE == "ipvs" else 4
    table, name = vipd.nft_set(4, "vips")[1:]
    key = socket.inet_aton(L.cluster_ip(1, 4))
    try:
        for what in (lambda: other.delete_element(fam, table, name, key),
                     lambda: other.flush_chain(fam, table, CHAIN)):
            noticed, repaired = [], []
            for _ in range(3):
                before = vipd.status()["sync"]["foreign_changes"]
                start = what()
                L.eventually(lambda n=before: vipd.status()["sync"]["foreign_changes"] > n, 2,
                             "not noticed")
                noticed.append((time.monotonic() - start) * 1e3)
                vipd.check_tables(timeout=13)
                repaired.append((time.monotonic() - start) * 1e3)
            print("noticed after %s ms, as it should be after %s ms" % tuple(
                " ".join("%.0f" % t for t in times) for times in (noticed, repaired)))
    finally:
        other.close()
