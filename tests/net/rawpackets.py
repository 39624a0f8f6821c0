# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw packets: an SCTP handshake without SCTP in the kernel, and TCP segments that are INVALID for
conntrack."""
import os
import select
import socket
import struct
import threading
import time

import lab as L

IPPROTO_SCTP = 132
INIT, INIT_ACK, ABORT = 1, 2, 6
PARAM_STATE_COOKIE = 7


# ---- checksums ----

def _crc32c_table():
    out = []
    for i in range(256):
        c = i
        for _ in range(8):
            c = (c >> 1) ^ (0x82f63b78 if c & 1 else 0)
        out.append(c)
    return out


_CRC = _crc32c_table()


def crc32c(data):
    c = 0xffffffff
    for b in data:
        c = (c >> 8) ^ _CRC[(c ^ b) & 0xff]
    return c ^ 0xffffffff


def inet_sum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def pseudo(src, dst, proto, length):
    fam = L.af(src)
    head = socket.inet_pton(fam, src) + socket.inet_pton(fam, dst)
    if fam == socket.AF_INET:
        return head + struct.pack("!BBH", 0, proto, length)
    return head + struct.pack("!IHBB", length, 0, 0, proto)


# ---- SCTP (RFC 9260 sections 3.2, 3.3.2, 3.3.3) ----

def sctp_packet(sport, dport, vtag, chunk):
    head = struct.pack("!HHI", sport, dport, vtag)
    crc = crc32c(head + b"\0\0\0\0" + chunk)
    return head + struct.pack("<I", crc) + chunk


def sctp_parse(data):
    """(source port, destination port, vtag, chunk type, chunk body), or None if it is damaged."""
    if len(data) < 16:
        return None
    sport, dport, vtag, crc = struct.unpack("!HHII", data[:12])
    if struct.pack("!I", crc) != struct.pack("<I", crc32c(data[:8] + b"\0\0\0\0" + data[12:])):
        return None
    kind, _, length = struct.unpack("!BBH", data[12:16])
    return sport, dport, vtag, kind, data[16:12 + length]


def init_chunk(kind, tag, params=b""):
    body = struct.pack("!IIHHI", tag, 65535, 1, 1, tag) + params
    raw = struct.pack("!BBH", kind, 0, 4 + len(body)) + body
    return raw + b"\0" * (-len(raw) % 4)


def _payload(fam, data):
    """Raw IPv4 sockets hand out the IP header too."""
    return data[(data[0] & 15) * 4:] if fam == 4 else data


class SctpServers:
    """Answers INIT in several namespaces; the state cookie contains the addresses of both ends."""

    def __init__(self, lab, roles, ports):
        self.ports = set(ports)
        self.socks = {}
        for role in roles:
            for fam in (4, 6):
                s = lab.ns[role].socket(socket.AF_INET if fam == 4 else socket.AF_INET6,
                                        socket.SOCK_RAW, IPPROTO_SCTP)
                if fam == 6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
                    s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
                else:
                    s.setsockopt(socket.IPPROTO_IP, 8, 1)  # IP_PKTINFO
                self.socks[s] = fam
        self.wake, self.end = os.pipe()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while True:
            ready, _, _ = select.select(list(self.socks) + [self.wake], [], [])
            if self.wake in ready:
                return
            for s in ready:
                self._answer(s, self.socks[s])

    def _answer(self, s, fam):
        data, anc, _, peer = s.recvmsg(2048, 256)
        p = sctp_parse(_payload(fam, data))
        if p is None or p[3] != INIT or p[1] not in self.ports or p[2] != 0:
            return
        sport, dport, _, _, body = p
        tag = struct.unpack("!I", body[:4])[0]
        info = anc[0][2]
        local = socket.inet_ntop(socket.AF_INET, info[4:8]) if fam == 4 else \
            socket.inet_ntop(socket.AF_INET6, info[:16])
        cookie = ("%s %d %s %d" % (local, dport, peer[0], sport)).encode()
        param = struct.pack("!HH", PARAM_STATE_COOKIE, 4 + len(cookie)) + cookie
        out = sctp_packet(dport, sport, tag, init_chunk(INIT_ACK, 0x5eed, param))
        if fam == 4:
            src = struct.pack("=i", 0) + info[4:8] + b"\0\0\0\0"
            s.sendmsg([out], [(socket.IPPROTO_IP, 8, src)], 0, (peer[0], 0))
        else:
            src = info[:16] + struct.pack("=i", 0)
            s.sendmsg([out], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, src)], 0, (peer[0], 0))

    def close(self):
        os.close(self.end)
        self.thread.join(5)
        os.close(self.wake)
        for s in self.socks:
            s.close()


_next_port = [20000]


def sctp_probe(ns, addr, port, timeout=L.LIMIT, source=None):
    """Send an INIT; returns the answer as lab.probe() does."""
    fam = L.family(addr)
    _next_port[0] = 20000 + (_next_port[0] - 19999) % 12000
    sport = _next_port[0]
    s = ns.socket(L.af(addr), socket.SOCK_RAW, IPPROTO_SCTP)
    start = time.monotonic()

    def result(what, *rest):
        return L.Result(what, (time.monotonic() - start) * 1e3, *rest)
    try:
        if source:
            L.bind_any(s, source)
        s.connect((addr, 0))
        s.settimeout(timeout)
        s.send(sctp_packet(sport, port, 0, init_chunk(INIT, 0x1234abcd)))
        while True:
            left = timeout - (time.monotonic() - start)
            if left <= 0:
                return result("timeout")
            s.settimeout(left)
            data = _payload(fam, s.recv(2048))
            if data[12:13] == bytes([ABORT]):
                continue  # of a kernel that knows SCTP and no such socket; its CRC is left to a device
            p = sctp_parse(data)
            if p is None:
                return result("damaged")
            if p[1] != sport or p[3] != INIT_ACK:
                continue
            if p[2] != 0x1234abcd or p[0] != port:
                return result("damaged")
            cookie = p[4][16 + 4:]
            length = struct.unpack("!H", p[4][18:20])[0]
            local, lport, peer, pport = cookie[:length - 4].decode().split()
            return result("ok", local, int(lport), peer, int(pport))
    except OSError as e:
        return result(L._outcome(e))
    finally:
        s.close()


# ---- TCP ----

class TcpTap:
    """Capture the TCP segments of one family that arrive in a namespace."""

    def __init__(self, ns, fam):
        self.fam = fam
        self.sock = ns.socket(socket.AF_INET if fam == 4 else socket.AF_INET6, socket.SOCK_RAW,
                              socket.IPPROTO_TCP)
        self.sock.setblocking(False)

    def segments(self, source=None):
        """[(source address, sport, dport, seq, ack, flags, data)] that have arrived."""
        out = []
        while True:
            try:
                data, peer = self.sock.recvfrom(65536)
            except BlockingIOError:
                return out
            t = _payload(self.fam, data)
            sport, dport, seq, ack, off, flags = struct.unpack("!HHIIBB", t[:14])
            if source is None or peer[0] == source:
                out.append((peer[0], sport, dport, seq, ack, flags, t[(off >> 4) * 4:]))

    def close(self):
        self.sock.close()


def segment(src, dst, sport, dport, seq, ack, flags, data=b""):
    head = struct.pack("!HHIIBBHHH", sport, dport, seq & 0xffffffff, ack & 0xffffffff, 5 << 4,
                       flags, 64240, 0, 0)
    total = inet_sum(pseudo(src, dst, 6, len(head) + len(data)) + head + data)
    return head[:16] + struct.pack("!H", total) + head[18:] + data


def send_segments(ns, src, dst, segments):
    """TCP segments by hand, from an address of the namespace."""
    s = ns.socket(L.af(src), socket.SOCK_RAW, socket.IPPROTO_TCP)
    try:
        L.bind_any(s, src)
        for data in segments:
            s.sendto(data, (dst, 0))
    finally:
        s.close()


def send_segment(ns, src, dst, sport, dport, seq, ack, flags=0x18, data=b"stray"):
    send_segments(ns, src, dst, [segment(src, dst, sport, dport, seq, ack, flags, data)])


def send_syns(ns, src, dst, sports, dport):
    send_segments(ns, src, dst, [segment(src, dst, i, dport, i, 0, 2) for i in sports])
