# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets that conntrack calls INVALID must not pass untranslated (T-147, NFT-46): a segment out
of the window, sent by a pod, would reach the client from an address it never connected to; the
client would answer with a reset, and the pod would close the connection. On the ipvs plane IPVS
translates it, unless the connection is masqueraded: then this host would answer with a reset, and
drops it."""
import pytest

import lab as L
import planes
import rawpackets
from objects import entry, service, slice_
from shop import E1, E2
from test_health import scrape

RESET = 0x04
FAM = pytest.mark.parametrize("fam", (4, 6), ids=("v4", "v6"))


@FAM
@pytest.mark.parametrize("where", ("local", "remote"))
@pytest.mark.parametrize("source", ("masqueraded", "kept"))
def test_out_of_window(lab, vipd, fam, where, source):
    pod = E1[fam] if where == "local" else E2[fam]
    ns = lab.pod1 if where == "local" else lab.node2
    # The cluster IP keeps a pod's source; an outside client's is masqueraded.
    client = lab.client if source == "masqueraded" else lab.pod3
    address = L.CLIENT[fam] if source == "masqueraded" else L.POD["pod3"][fam]
    ip = L.cluster_ip(1, fam)
    vipd.apply([service("s", ip, 80), slice_("s", [entry(pod, L.NODE_NAME)], 8080)])

    at_pod = rawpackets.TcpTap(ns, fam)
    at_client = rawpackets.TcpTap(client, fam)
    try:
        conn, r = L.connect(client, ip, 80)
        assert r.ok
        first = conn.ask()
        assert first.ok and first.backend == pod
        assert (first.peer == address) == (source == "kept")
        mine = [s for s in at_pod.segments() if s[1] == first.peer_port and s[2] == 8080]
        _, sport, _, seq, ack, _, data = mine[-1]
        assert at_client.segments(ip), "the tap at the client sees the connection"
        at_client.segments()
        drops = invalid_drops(lab, vipd, fam)
        for ahead in (1 << 30, -(1 << 29), 1 << 28):
            rawpackets.send_segment(ns, pod, first.peer, 8080, sport, ack + ahead,
                                    seq + len(data))
        came = []
        if planes.PLANE == "ipvs" and source == "kept":
            def is_translated():
                came.extend(at_client.segments())
                return len([s for s in came if s[0] == ip and s[6] == b"stray"]) == 3
            L.eventually(is_translated, what=lambda: came)
        else:
            L.eventually(lambda: invalid_drops(lab, vipd, fam) > drops,
                         what="nothing was counted as invalid")
        again = conn.ask()
        assert again.ok and again.backend == pod, "the connection did not survive: %s" % again
        strays = [s for s in came + at_client.segments() if s[0] == pod]
        assert not strays, "the client saw the pod's own address: %s" % strays
        resets = [s for s in at_pod.segments() if s[5] & RESET]
        assert not resets, "the pod received a reset of its connection: %s" % resets
        conn.close()
    finally:
        at_pod.close()
        at_client.close()


@FAM
@pytest.mark.parametrize("number", (8080, 5353), ids=("backend", "other-port"))
def test_host_network(lab, vipd, fam, number):
    """NFT-46: of a host that has a hostNetwork endpoint, only the endpoint's port counts: an INVALID
    packet of the node's own connection to another port reaches the node, which answers it."""
    host = L.NODE2[fam]
    vipd.apply([service("hn", L.cluster_ip(2, fam), 80), slice_("hn", [entry(host, "n2")], 8080)])
    at_host = rawpackets.TcpTap(lab.node2, fam)
    try:
        conn, r = L.connect(lab.node, host, number)
        assert r.ok
        first = conn.ask()
        assert first.ok and first.backend == host
        mine = [s for s in at_host.segments() if s[1] == first.peer_port and s[2] == number]
        _, sport, _, seq, ack, _, data = mine[-1]
        drops = invalid_drops(lab, vipd, fam)
        for ahead in (1 << 30, -(1 << 29)):
            rawpackets.send_segment(lab.node2, host, first.peer, number, sport, ack + ahead,
                                    seq + len(data))
        if number == 8080 and planes.PLANE == "nft":
            L.eventually(lambda: invalid_drops(lab, vipd, fam) > drops)
        else:
            L.eventually(lambda: [s for s in at_host.segments() if s[1] == sport])
            assert invalid_drops(lab, vipd, fam) == drops
        assert conn.ask().ok
        conn.close()
    finally:
        at_host.close()


def test_metric(lab, vipd):
    """/metrics has the packets that the rules have counted."""
    fams = (4,) if planes.PLANE == "ipvs" else (4, 6)  # one chain for both
    want = sum(invalid_drops(lab, vipd, fam) for fam in fams)
    L.eventually(lambda: scrape(lab)[0]["vipd_invalid_dropped_packets_total"] == want > 0)


@pytest.mark.skipif(planes.PLANE == "ipvs", reason="only drops what no process of the node could receive")
def test_liberal(lab, vipd):
    """NFT-46: with liberal tracking, by flag or by the kernel's value, no rule drops INVALID packets, as in kube-proxy's
    mode iptables. The rules are exchanged, and no connection is interrupted."""
    def rules():
        return lab.node.run("nft", "-t", "list", "table", *vipd.nft_table(4)).count("ct state invalid ip saddr")

    vipd.apply([service("s", L.cluster_ip(1, 4), 80), slice_("s", [entry(E1[4], L.NODE_NAME)], 8080)])
    conn, r = L.connect(lab.client, L.cluster_ip(1, 4), 80)
    assert r.ok and rules() == 2
    try:
        for flag, expected in ((True, 0), (None, 0), (None, 2)):  # the kernel's value stays until it is reset
            vipd.stop()
            if expected:
                lab.node.sysctl(net__netfilter__nf_conntrack_tcp_be_liberal=0)
            vipd.flags["--conntrack-tcp-be-liberal"] = flag
            vipd.start()
            assert rules() == expected
            assert scrape(lab)[0]["vipd_invalid_dropped_packets_total"] == 0
            assert conn.ask().ok
        conn.close()
    finally:
        lab.node.sysctl(net__netfilter__nf_conntrack_tcp_be_liberal=0)


def invalid_drops(lab, vipd, fam):
    """Packets of the rules that drop invalid packets, from the listing."""
    if planes.PLANE == "ipvs":
        lines = lab.node.run("nft", "list", "chain", *vipd.nft_table(fam), "no_socket")
    else:
        lines = lab.node.run("nft", "-t", "list", "table", *vipd.nft_table(fam))
    total = 0
    for line in lines.splitlines():
        if ("invalid" in line or planes.PLANE == "ipvs") and "packets" in line:
            total += int(line.split("packets")[1].split()[0])
    return total
