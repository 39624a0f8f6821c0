# SPDX-License-Identifier: GPL-2.0-or-later
"""Tracked flows, read over netlink without conntrack(8) and vipd's code. insert() creates one
entry with all details, fill() half a million quickly."""
import collections
import errno
import os
import socket
import struct

import lab
from nftables import (NETLINK_NETFILTER, NFPROTO, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE,
                      NLMSG_ERROR, attr, attrs)

SUBSYS_CTNETLINK = 1
CT_NEW, CT_GET, CT_DELETE = 0, 1, 2
NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 0x4, 0x200, 0x400
NESTED = 0x8000
CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_STATUS, CTA_PROTOINFO, CTA_TIMEOUT, CTA_MARK = 1, 2, 3, 4, 7, 8
CTA_ID, CTA_NAT_DST, CTA_ZONE, CTA_FILTER = 12, 13, 18, 25
CTA_TUPLE_IP, CTA_TUPLE_PROTO = 1, 2
CTA_PROTO_NUM, CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT = 1, 2, 3
CTA_NAT_V4_MINIP, CTA_NAT_PROTO, CTA_NAT_V6_MINIP = 1, 3, 4
CTA_PROTONAT_PORT_MIN, CTA_PROTONAT_PORT_MAX = 1, 2
IPS_SEEN_REPLY, IPS_ASSURED, IPS_CONFIRMED, IPS_DST_NAT = 2, 4, 8, 32
PROTO = {"tcp": 6, "udp": 17, "sctp": 132}

Entry = collections.namedtuple("Entry", "proto src sport dst dport reply_src reply_sport reply_dst "
                               "reply_dport status zone id")


def nest(kind, payload):
    return attr(kind | NESTED, payload)


def tuple_(kind, proto, src, sport, dst, dport):
    family = socket.AF_INET6 if ":" in src else socket.AF_INET
    ips = (3, 4) if family == socket.AF_INET6 else (1, 2)
    ip = attr(ips[0], socket.inet_pton(family, src)) + attr(ips[1], socket.inet_pton(family, dst))
    ports = attr(CTA_PROTO_NUM, bytes([proto])) + attr(CTA_PROTO_SRC_PORT, struct.pack(">H", sport))
    ports += attr(CTA_PROTO_DST_PORT, struct.pack(">H", dport))
    return nest(kind, nest(CTA_TUPLE_IP, ip) + nest(CTA_TUPLE_PROTO, ports))


def read_tuple(raw):
    t = attrs(raw)
    ip, proto = attrs(t[CTA_TUPLE_IP]), attrs(t[CTA_TUPLE_PROTO])
    family, a, b = (socket.AF_INET, 1, 2) if 1 in ip else (socket.AF_INET6, 3, 4)

    def port(kind):
        return struct.unpack(">H", proto[kind])[0] if kind in proto else 0
    return (proto[CTA_PROTO_NUM][0], socket.inet_ntop(family, ip[a]), port(CTA_PROTO_SRC_PORT),
            socket.inet_ntop(family, ip[b]), port(CTA_PROTO_DST_PORT))


def read_entry(body):
    a = attrs(body)
    proto, src, sport, dst, dport = read_tuple(a[CTA_TUPLE_ORIG])
    _, rsrc, rsport, rdst, rdport = read_tuple(a[CTA_TUPLE_REPLY])
    return Entry(proto, src, sport, dst, dport, rsrc, rsport, rdst, rdport,
                 struct.unpack(">I", a[CTA_STATUS])[0],
                 struct.unpack(">H", a[CTA_ZONE])[0] if CTA_ZONE in a else 0,
                 struct.unpack(">I", a[CTA_ID])[0])


class Conntrack:
    """A netlink socket in one namespace."""

    def __init__(self, ns):
        self.ns = ns
        self.sock = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.sock.bind((0, 0))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self.sock.settimeout(lab.LIMIT)
        self.seq = 0

    def close(self):
        self.sock.close()

    def message(self, kind, fam, flags, payload):
        self.seq += 1
        body = struct.pack("=BBH", NFPROTO[fam], 0, 0) + payload
        return struct.pack("=IHHII", 16 + len(body), SUBSYS_CTNETLINK << 8 | kind,
                           NLM_F_REQUEST | flags, self.seq, 0) + body

    def answers(self):
        """Message bodies up to the end of a dump, an acknowledgement or an error."""
        while True:
            data = self.sock.recv(1 << 17)
            at = 0
            while at < len(data):
                length, kind, _, seq, _ = struct.unpack_from("=IHHII", data, at)
                body = data[at + 16:at + length]
                at += (length + 3) & ~3
                if seq != self.seq:
                    continue
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return
                yield body[4:]

    def list_unread(self, fam):
        """Receive all entries of the family, and parse none."""
        self.sock.send(self.message(CT_GET, fam, NLM_F_DUMP, b""))
        while struct.unpack_from("=H", self.sock.recv(1 << 17), 4)[0] != NLMSG_DONE:
            pass

    def entries(self, fam, proto=None):
        """All entries of the family, or of one protocol."""
        self.sock.send(self.message(CT_GET, fam, NLM_F_DUMP, b""))
        out = [read_entry(body) for body in self.answers()]
        return [e for e in out if proto is None or e.proto == PROTO[proto]]

    def to(self, dst, dport, proto="udp"):
        """Entries whose original destination this is."""
        return [e for e in self.entries(6 if ":" in dst else 4, proto)
                if e.dst == dst and e.dport == dport]

    def count(self):
        with self.ns.entered():
            with open("/proc/sys/net/netfilter/nf_conntrack_count", encoding="ascii") as f:
                return int(f.read())

    def insert(self, proto, src, sport, dst, dport, backend=None, backend_port=0, zone=0,
               timeout=600, status=IPS_SEEN_REPLY | IPS_ASSURED | IPS_CONFIRMED):
        """One entry, translated to `backend` if there is one."""
        fam = 6 if ":" in src else 4
        p = tuple_(CTA_TUPLE_ORIG, PROTO[proto], src, sport, dst, dport)
        p += tuple_(CTA_TUPLE_REPLY, PROTO[proto], dst, dport, src, sport)
        if backend:
            raw = socket.inet_pton(socket.AF_INET6 if fam == 6 else socket.AF_INET, backend)
            port = struct.pack(">H", backend_port)
            p += nest(CTA_NAT_DST, attr(CTA_NAT_V6_MINIP if fam == 6 else CTA_NAT_V4_MINIP, raw) +
                      nest(CTA_NAT_PROTO, attr(CTA_PROTONAT_PORT_MIN, port) +
                           attr(CTA_PROTONAT_PORT_MAX, port)))
        p += attr(CTA_STATUS, struct.pack(">I", status)) + attr(CTA_TIMEOUT,
                                                              struct.pack(">I", timeout))
        if proto == "tcp":  # CTA_PROTOINFO_TCP, its state: ESTABLISHED
            p += nest(CTA_PROTOINFO, nest(1, attr(1, bytes([3]))))
        if zone:
            p += attr(CTA_ZONE, struct.pack(">H", zone))
        self.sock.send(self.message(CT_NEW, fam, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, p))
        list(self.answers())

    def fill(self, fam, n, dst, dport, backend, backend_port, proto="udp", net=0):
        """Create `n` entries from `dst` to `backend`, with invented clients in a /8 (IPv6: /64)
        numbered `net`. Raises errors (a full table)."""
        head = "fd99:0:0:%x::" % net if fam == 6 else "%d.0.0.0" % (20 + net)
        base = bytearray(socket.inet_pton(socket.AF_INET6 if fam == 6 else socket.AF_INET, head))
        src = socket.inet_ntop(socket.AF_INET6 if fam == 6 else socket.AF_INET, bytes(base))
        mark = 0xBEEF
        p = tuple_(CTA_TUPLE_ORIG, PROTO[proto], src, mark, dst, dport)
        p += tuple_(CTA_TUPLE_REPLY, PROTO[proto], backend, backend_port, src, mark)
        p += attr(CTA_STATUS, struct.pack(">I", IPS_SEEN_REPLY | IPS_ASSURED | IPS_CONFIRMED))
        p += attr(CTA_TIMEOUT, struct.pack(">I", 3600))
        if proto == "tcp":
            p += nest(CTA_PROTOINFO, nest(1, attr(1, bytes([3]))))
        # Which of the two addresses of each tuple is the client's, and its port.
        one = bytearray(self.message(CT_NEW, fam, NLM_F_CREATE | NLM_F_EXCL, p))
        ips, ports, at = [], [], -1
        while (at := one.find(bytes(base), at + 1)) >= 0:
            ips.append(at)
        at = -1
        while (at := one.find(struct.pack(">H", mark), at + 1)) >= 0:
            ports.append(at)
        assert len(ips) == 2 and len(ports) == 2, (ips, ports)
        low = len(base) - 3
        for start in range(0, n, 1000):
            out = bytearray()
            for i in range(start, min(start + 1000, n)):
                port = struct.pack(">H", 1024 + i % 60000)
                host = (1 + i // 60000).to_bytes(3, "big")
                for a in ips:
                    one[a + low:a + low + 3] = host
                for a in ports:
                    one[a:a + 2] = port
                out += one
            self.sock.send(out)
        self.errors()

    def errors(self):
        """Raise the first error that waits on the socket."""
        self.sock.setblocking(False)
        try:
            while True:
                data = self.sock.recv(1 << 17)
                _, kind, _, _, _ = struct.unpack_from("=IHHII", data)
                code = -struct.unpack_from("=i", data, 16)[0] if kind == NLMSG_ERROR else 0
                if code:
                    raise OSError(code, os.strerror(code))
        except BlockingIOError:
            pass
        except OSError as e:
            if e.errno == errno.ENOBUFS:
                raise OSError(errno.EIO, "more errors than fit the socket") from e
            raise
        finally:
            self.sock.settimeout(lab.LIMIT)

    def clear(self):
        """Delete every entry of the namespace."""
        for fam in (4, 6):
            self.sock.send(self.message(CT_DELETE, fam, NLM_F_ACK, b""))
            list(self.answers())
