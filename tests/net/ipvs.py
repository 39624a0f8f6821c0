# SPDX-License-Identifier: GPL-2.0-or-later
"""IPVS state, read over generic netlink without ipvsadm and vipd's code; and messages to the
kernel, captured with nlmon, because IPVS has no generation id that counts changes."""
import collections
import ctypes
import errno
import json
import os
import socket
import struct
import subprocess

import lab
from nftables import (NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, attr, attrs)

NETLINK_GENERIC, GENL_ID_CTRL = 16, 16
CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 3, 1, 2
CMD = {"new_service": 1, "set_service": 2, "del_service": 3, "get_service": 4, "new_dest": 5,
       "set_dest": 6, "del_dest": 7, "get_dest": 8, "set_config": 12, "get_config": 13,
       "zero": 16, "flush": 17}
NLM_F_MULTI = 2
READS = ("get_service", "get_dest", "get_config", "get_daemon", "get_info")
NAMES = {v: k for k, v in CMD.items()}
NAMES.update({9: "new_daemon", 10: "del_daemon", 11: "get_daemon", 15: "get_info"})
ATTR_SERVICE, ATTR_DEST = 1, 2
SVC_AF, SVC_PROTOCOL, SVC_ADDR, SVC_PORT, SVC_FWMARK, SVC_SCHED, SVC_FLAGS, SVC_TIMEOUT = range(1, 9)
DEST_ADDR, DEST_PORT, DEST_FWD, DEST_WEIGHT, DEST_UTHRESH, DEST_LTHRESH = range(1, 7)
DEST_ACTIVE, DEST_INACTIVE = 7, 8
DEST_TUN_TYPE, DEST_TUN_PORT, DEST_TUN_FLAGS = 13, 14, 15
NESTED = 0x8000
PROTO = {6: "tcp", 17: "udp", 132: "sctp", 0: ""}
OURS = 0x20
TAG = 0x5a
TABLE = "vipd-ipvs"
# Sets of the nft plane that have another name here.
SETS = {"frontends": "fe", "masq_frontends": "masq", "endpoint_addrs": "hairpins"}

Service = collections.namedtuple("Service", "fam mark proto addr port sched flags timeout")
Dest = collections.namedtuple("Dest", "addr port weight threshold active inactive fwd")


def as_list(items):
    """Many objects as one manifest."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def is_ours(s):
    return s.mark >> 24 == TAG if s.mark else bool(s.flags & OURS)


def why_not():
    """Why IPVS is not available; None if it is."""
    subprocess.run(["modprobe", "-aq", "ip_vs", "ip_vs_rr", "nlmon"], capture_output=True,
                   check=False)
    if not os.path.exists("/proc/net/ip_vs"):
        return "the kernel lacks IPVS (CONFIG_IP_VS): run it in a machine of tools/vm-run"
    return None


def has_scheduler(name):
    """Does the kernel have its module?"""
    return subprocess.run(["modprobe", "-q", "ip_vs_" + name], capture_output=True,
                          check=False).returncode == 0


def connections(ns, proto):
    """[(port of the client, port of the backend, state, seconds left)] of connections that IPVS has."""
    lines = ns.run("cat", "/proc/net/ip_vs_conn").splitlines()[1:]
    return [(int(w[2], 16), int(w[6], 16), w[7], int(w[8])) for w in map(str.split, lines) if w[0] == proto]


def method(fwd, a):
    """IP_VS_CONN_F_*, with the UDP port of GUE above 16 bits; a tuple for other tunnels."""
    kind = a[DEST_TUN_TYPE][0]
    port, flags = struct.unpack(">H", a[DEST_TUN_PORT])[0], struct.unpack("=H", a[DEST_TUN_FLAGS])[0]
    if fwd != 2 or (kind, port, flags) == (0, 0, 0):
        return fwd
    return fwd | port << 16 if (kind, flags) == (1, 0) else (kind, port, flags)


class Ipvs:
    """A netlink socket in one namespace."""

    def __init__(self, ns):
        self.ns = ns
        self.sock = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.sock.bind((0, 0))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.settimeout(lab.LIMIT)
        self.seq = 0
        self.family = GENL_ID_CTRL
        body = self._ask(CTRL_CMD_GETFAMILY, attr(CTRL_ATTR_FAMILY_NAME, "IPVS"), 0)[0]
        self.family = struct.unpack_from("=H", attrs(body)[CTRL_ATTR_FAMILY_ID])[0]

    def close(self):
        self.sock.close()

    def _ask(self, cmd, payload, flags):
        self.seq += 1
        self.sock.send(struct.pack("=IHHIIBBH", 20 + len(payload), self.family,
                                   NLM_F_REQUEST | flags, self.seq, 0, cmd, 1, 0) + payload)
        out = []
        while True:
            data, at = self.sock.recv(1 << 17), 0
            while at < len(data):
                length, kind, _, seq, _ = struct.unpack_from("=IHHII", data, at)
                body = data[at + 16:at + length]
                at += (length + 3) & ~3
                if seq != self.seq:
                    continue
                if kind == NLMSG_ERROR and struct.unpack_from("=i", body)[0]:
                    code = -struct.unpack_from("=i", body)[0]
                    raise OSError(code, os.strerror(code))
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    return out
                out.append(body[4:])
            if not flags:
                return out

    def services(self, ours=True):
        """All virtual services: ours only, or foreign ones. IPVS counts those of all network
        namespaces to find the place where a dump continues: when another namespace ends, as that of
        vipd's doctor does, a dump lacks some. Two equal ones are complete."""
        last, now = None, self._services()
        while last != now:
            last, now = now, self._services()
        return [s for s in now if is_ours(s) == ours]

    def _services(self):
        out = []
        for body in self._ask(CMD["get_service"], b"", NLM_F_DUMP):
            a = attrs(attrs(body)[ATTR_SERVICE])
            af = struct.unpack("=H", a[SVC_AF])[0]
            six = af == socket.AF_INET6
            mark = struct.unpack("=I", a[SVC_FWMARK])[0] if SVC_FWMARK in a else 0
            s = Service(6 if six else 4, mark,
                        "" if mark else PROTO[struct.unpack("=H", a[SVC_PROTOCOL])[0]],
                        "" if mark else socket.inet_ntop(af, a[SVC_ADDR][:16 if six else 4]),
                        0 if mark else struct.unpack(">H", a[SVC_PORT])[0],
                        a[SVC_SCHED].rstrip(b"\0").decode(),
                        struct.unpack_from("=I", a[SVC_FLAGS])[0] & ~2,
                        struct.unpack("=I", a[SVC_TIMEOUT])[0])
            out.append(s)
        return out

    def dests(self, s):
        """Destinations of a service, {(address, port): Dest}."""
        af = socket.AF_INET6 if s.fam == 6 else socket.AF_INET
        key = attr(SVC_AF, struct.pack("=H", af))
        if s.mark:
            key += attr(SVC_FWMARK, struct.pack("=I", s.mark))
        else:
            proto = {v: k for k, v in PROTO.items()}[s.proto]
            key += attr(SVC_PROTOCOL, struct.pack("=H", proto))
            key += attr(SVC_ADDR, socket.inet_pton(af, s.addr).ljust(16, b"\0"))
            key += attr(SVC_PORT, struct.pack(">H", s.port))
        out = {}
        for body in self._ask(CMD["get_dest"], attr(ATTR_SERVICE | NESTED, key), NLM_F_DUMP):
            a = attrs(attrs(body)[ATTR_DEST])
            addr = socket.inet_ntop(af, a[DEST_ADDR][:16 if s.fam == 6 else 4])
            port = struct.unpack(">H", a[DEST_PORT])[0]
            w, u, active, inactive, fwd = (struct.unpack("=I", a[k])[0] for k in (
                DEST_WEIGHT, DEST_UTHRESH, DEST_ACTIVE, DEST_INACTIVE, DEST_FWD))
            out[addr, port] = Dest(addr, port, w, u, active, inactive, method(fwd & 7, a))
        return out

    def state(self, ours=True, fam=None):
        """{service: {(address, port): Dest}} of everything, or of one family."""
        return {s: self.dests(s) for s in self.services(ours) if fam in (None, s.fam)}

    def find(self, addr, port=None):
        """Every Dest of this address, in all services of ours."""
        return [d for dests in self.state().values() for d in dests.values()
                if d.addr == addr and port in (None, d.port)]

    def weights(self, addr):
        return sorted(d.weight for d in self.find(addr))


class Wire:
    """Count requests of all processes of the namespace that change IPVS, routes, rules or
    nf_tables. Captures with nlmon."""

    def __init__(self, ns, family):
        self.ns, self.family = ns, family
        ns.run("ip", "link", "add", "nlmon0", "type", "nlmon")
        ns.run("ip", "link", "set", "nlmon0", "up")
        self.sock = ns.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.sock.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)  # SO_RCVBUFFORCE
        self.sock.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        # Without what the kernel says, which is a lot: ldb [6], NLM_F_MULTI: 0; ldh [4],
        # NLMSG_ERROR: 0, else all.
        code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *i) for i in (
            (0x30, 0, 0, 6), (0x45, 3, 0, NLM_F_MULTI), (0x28, 0, 0, 4),
            (0x15, 1, 0, NLMSG_ERROR << 8), (6, 0, 0, 1 << 18), (6, 0, 0, 0))))
        self.sock.setsockopt(socket.SOL_SOCKET, 26,  # SO_ATTACH_FILTER
                             struct.pack("HL", 6, ctypes.addressof(code)))
        self.sock.bind(("nlmon0", 0))
        self.sock.setblocking(False)

    def close(self):
        self.sock.close()
        self.ns.run("ip", "link", "del", "nlmon0")

    def _name(self, proto, kind, body):
        """(name of a message, whether it only reads)"""
        if proto == NETLINK_GENERIC and kind == self.family:
            name = NAMES.get(body[0], str(body[0]))
            return name, name in READS
        if proto == 0:  # NETLINK_ROUTE: of each four, the third reads
            return "route message %d" % kind, (kind - 16) % 4 == 2
        if proto == 12 and kind >> 8 == 10:
            return "nft message %d" % (kind & 255), kind & 255 in (1, 4, 7, 10, 13, 16, 19, 23)
        return None, True

    def requests(self):
        """(name, when it was sent by the wall clock, whether it only reads) of each since the last
        call. Answers of the kernel do not count."""
        while True:
            try:
                data, notes, _, where = self.sock.recvmsg(1 << 18, 64)
            except BlockingIOError:
                break
            sec, nsec = struct.unpack("=qq", notes[0][2])
            # sll_protocol is the protocol of netlink. What the kernel sends has no NLM_F_REQUEST.
            proto, at = where[1], 0
            while at + 16 <= len(data):
                length, kind, flags, _, _ = struct.unpack_from("=IHHII", data, at)
                if length < 16:
                    break
                if flags & NLM_F_REQUEST and kind >= 16:
                    name, is_read = self._name(proto, kind, data[at + 16:at + length])
                    if name:
                        yield name, sec + nsec / 1e9, is_read
                at += (length + 3) & ~3
        dropped = struct.unpack("=II", self.sock.getsockopt(263, 6, 8))[1]  # PACKET_STATISTICS
        if dropped:
            raise OSError(errno.ENOBUFS, "%d messages were missed" % dropped)

    def messages(self):
        """(name, when) of each since the last call that changes anything."""
        return ((name, at) for name, at, is_read in self.requests() if not is_read)

    def clear(self):
        """Forget what was captured until now, complete or not."""
        try:
            self.counts()
        except OSError as e:
            if e.errno != errno.ENOBUFS:
                raise

    def counts(self):
        """{name: count} since the last call."""
        return collections.Counter(name for name, _ in self.messages())
