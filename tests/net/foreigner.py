# SPDX-License-Identifier: GPL-2.0-or-later
"""Another process with a netlink socket that modifies the tables of 5,000 services."""
import json
import socket
import struct
import time

import lab as L
import nftables as N
from objects import service, slice_

SERVICES = 5000


def addr(i):
    return "10.%d.%d.%d" % (97 + i // 62500, i % 62500 // 250, 1 + i % 250)


class Foreigner:
    """Change the ruleset over netlink, so that the time of the change is known."""

    def __init__(self, ns):
        self.sock = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, N.NETLINK_NETFILTER)
        self.sock.bind((0, 0))
        self.seq = 0

    def close(self):
        self.sock.close()

    def _msg(self, kind, flags, fam, payload, res=0):
        self.seq += 1
        body = struct.pack("=BBH", fam, 0, socket.htons(res)) + payload
        return struct.pack("=IHHII", 16 + len(body), kind, 1 | flags, self.seq, 0) + body

    def batch(self, *msgs):
        """(message, flags, family, payload)...; returns when it is committed."""
        data = self._msg(0x10, 0, 0, b"", N.SUBSYS_NFTABLES)
        for msg, flags, fam, payload in msgs:
            data += self._msg(N.SUBSYS_NFTABLES << 8 | msg, flags, N.NFPROTO.get(fam, 0), payload)
        data += self._msg(0x11, 0, 0, b"", N.SUBSYS_NFTABLES)
        start = time.monotonic()
        self.sock.send(data)
        self.sock.setblocking(False)
        try:
            while True:  # only errors are answered
                answer = self.sock.recv(65536)
                raise OSError(-struct.unpack_from("=i", answer, 16)[0], "refused")
        except BlockingIOError:
            return start

    def flush_ruleset(self):
        return self.batch((2, 0, 0, b""))

    def delete_table(self, fam, name):
        return self.batch((2, 0, fam, N.attr(1, name)))

    def flush_chain(self, fam, table, chain):
        return self.batch((8, 0, fam, N.attr(1, table) + N.attr(2, chain)))

    def delete_element(self, fam, table, name, key):
        key = N.attr(0x8001, N.attr(1, key))
        elems = N.attr(0x8003, N.attr(0x8001, key))
        return self.batch((14, 0, fam, N.attr(1, table) + N.attr(2, name) + elems))

    def add_table(self, fam, name):
        return self.batch((0, 0x400, fam, N.attr(1, name)))


def many(vipd, timeout=20):
    """5,000 services of two endpoints besides the usual ones, from one file; how many frontends
    that makes."""
    items = []
    for i in range(SERVICES):
        items.append(service("m%d" % i, addr(i), 80))
        items.append(slice_("m%d" % i, [L.remote(1 + i % 200, 4), L.remote(1 + (i + 7) % 200, 4)],
                            8080))
    vipd.manifests.put("many.json", json.dumps({"kind": "List", "apiVersion": "v1",
                                                "items": items}))
    vipd.manifests.held.pop("many.json")  # stays during other writes
    L.eventually(lambda: vipd.status()["sync"]["services"] >= SERVICES and vipd.is_settled(),
                 timeout, "5,000 services are not served")
    n = len(vipd.elements(4, "frontends"))
    assert n > SERVICES
    return n


def log_from(vipd, at):
    """Lines written since log_size() was `at`."""
    with open(vipd.log_path, encoding="utf-8") as f:
        return f.read()[at:].splitlines()


def log_size(vipd):
    with open(vipd.log_path, encoding="utf-8") as f:
        return len(f.read())
