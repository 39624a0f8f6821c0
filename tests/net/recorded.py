# SPDX-License-Identifier: GPL-2.0-or-later
"""The state that kube-proxy 1.36.2 left on a node, as recorded (tests/data/kube-proxy-1.36), and its services. Its pods have
addresses of the lab; the node's address and the port of the UDP service are replaced by the lab's."""
import errno
import os
import re
import socket
import struct

import pytest

import lab as L
from objects import entry, port, service, slice_, slice_port

DATA = os.path.join(L.ROOT, "tests", "data", "kube-proxy-1.36")
# Counters that rules of mode iptables name; kube-proxy makes them.
ACCOUNTS = "ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts"
POD1, POD2, REMOTE1, REMOTE2 = "10.244.1.11", "10.244.1.12", "10.244.2.11", "10.244.2.12"
NODE_PORT, LOCAL_NODE_PORT = 30101, 30102
EXTERNAL = L.external_ip(9, 4)
# From each place in the cluster; `outside` also from clients outside.
TARGETS = ["tcp:10.96.0.%d:80" % i for i in (10, 11, 12, 13, 14, 16)] + ["udp:10.96.0.15:53", "tcp:%s:80" % EXTERNAL]
OUTSIDE = ["tcp:%s:%d" % (L.NODE[4], p) for p in (NODE_PORT, LOCAL_NODE_PORT)] + TARGETS


def text(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return re.sub(r"\b9090\b", "5353", f.read().replace("192.168.77.11", L.NODE[4]).replace("fd77::11", L.NODE[6]))


def objects():
    out = []
    for i, name, at, more in (
            (10, "web", (POD1, POD2, REMOTE1, REMOTE2), {}),
            (11, "dual", (POD1, REMOTE1), {}),
            (12, "np", (POD1, REMOTE1), {"node_port": NODE_PORT}),
            (13, "local", (POD1, REMOTE1), {"node_port": LOCAL_NODE_PORT, "etp": "Local"}),
            (14, "sticky", (POD1, REMOTE1), {"affinity": 10800}),
            (15, "dns", (POD1, POD2), {}),
            (16, "ext", (POD2, REMOTE2), {"external_ips": (EXTERNAL,)}),
            (17, "empty", (), {})):
        ips = [L.cluster_ip(i, 4)] + (["fd00:10:96::11"] if name == "dual" else [])
        proto, number, to = ("UDP", 53, 5353) if name == "dns" else ("TCP", 80, 8080)
        node_port = more.pop("node_port", 0)
        out.append(service(name, ips, [port(number, proto, "p", node_port)], **more))
        out.append(slice_(name, [entry(a, L.NODE_NAME if a in (POD1, POD2) else "n2") for a in at],
                          [slice_port(to, proto, "p")], fam=4))
    return out


def account_add(name):
    """`nfacct add NAME`, in this network namespace. EBUSY: it exists."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as s:
        value = name.encode() + b"\0"
        attr = struct.pack("HH", 4 + len(value), 1) + value + b"\0" * (-len(value) % 4)
        body = struct.pack("BBH", 0, 0, 0) + attr
        s.send(struct.pack("IHHII", 16 + len(body), 7 << 8, 0x405, 1, 0) + body)    # NFNL_MSG_ACCT_NEW; CREATE, ACK
        error = -struct.unpack_from("i", s.recv(4096), 16)[0]
    if error not in (0, errno.EBUSY):
        pytest.skip("the kernel lacks nfacct: %s: %s" % (name, os.strerror(error)))


def put(lab, mode):
    """Of mode nftables or iptables; replaces what iptables has."""
    if mode == "nftables":
        lab.node.run("nft", "-f", "-", input=text("nftables.nft"))
        return
    with lab.node.entered():
        for name in ACCOUNTS:
            account_add(name)
    for tool in "iptables", "ip6tables":
        lab.node.run(tool + "-nft-restore", input=text(tool + ".save"))
