# SPDX-License-Identifier: GPL-2.0-or-later
"""nf_tables state, read over netlink without nft and vipd's code. Every commit in the namespace
raises the generation id by one, so an unchanged id proves that nothing was written (genid())."""
import errno
import os
import socket
import struct

import lab

NETLINK_NETFILTER = 12
SUBSYS_NFTABLES = 10
NLM_F_REQUEST, NLM_F_DUMP = 0x1, 0x300
NLM_F_DUMP_INTR = 0x10
NLMSG_ERROR, NLMSG_DONE = 2, 3
NFPROTO = {4: 2, 6: 10, "inet": 1}
NFT_MSG_GETTABLE, NFT_MSG_GETCHAIN, NFT_MSG_GETRULE = 1, 4, 7
NFT_MSG_GETSET, NFT_MSG_GETSETELEM, NFT_MSG_GETGEN = 10, 13, 16
NFTA_TABLE_NAME, NFTA_TABLE_HANDLE, NFTA_TABLE_USERDATA = 1, 4, 6
NFTA_CHAIN_NAME = 3
NFTA_SET_NAME = 2
NFTA_LIST_TABLE, NFTA_LIST_SET, NFTA_LIST_ELEMENTS = 1, 2, 3
NFTA_ELEM_KEY, NFTA_ELEM_DATA, NFTA_ELEM_FLAGS = 1, 2, 3
NFTA_DATA_VALUE, NFTA_DATA_VERDICT = 1, 2
NFTA_VERDICT_CODE, NFTA_VERDICT_CHAIN = 1, 2
NFTA_GEN_ID = 1
ELEM_INTERVAL_END = 1


def attrs(data):
    """{type: payload} of a run of attributes; the nested bit is dropped."""
    out = {}
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        out[kind & 0x3fff] = data[at + 4:at + length]
        at += (length + 3) & ~3
    return out


def attr_list(data):
    out = []
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        out.append((kind & 0x3fff, data[at + 4:at + length]))
        at += (length + 3) & ~3
    return out


def attr(kind, payload):
    if isinstance(payload, str):
        payload = payload.encode() + b"\0"
    raw = struct.pack("=HH", len(payload) + 4, kind) + payload
    return raw + b"\0" * (-len(raw) % 4)


def text(payload):
    return payload.rstrip(b"\0").decode()


class Nft:
    """A netlink socket in one namespace."""

    def __init__(self, ns):
        self.sock = ns.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.sock.bind((0, 0))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.sock.settimeout(lab.LIMIT)
        self.seq = 0

    def close(self):
        self.sock.close()

    def _request(self, msg, fam, flags, payload):
        self.seq += 1
        body = struct.pack("=BBH", fam, 0, 0) + payload
        self.sock.send(struct.pack("=IHHII", 16 + len(body), SUBSYS_NFTABLES << 8 | msg,
                                   NLM_F_REQUEST | flags, self.seq, 0) + body)

    def _answers(self, is_dump):
        out = []
        while True:
            data = self.sock.recv(1 << 17)
            at = 0
            while at < len(data):
                length, kind, flags, seq, _ = struct.unpack_from("=IHHII", data, at)
                body = data[at + 16:at + length]
                at += (length + 3) & ~3
                if seq != self.seq:
                    continue
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return out
                if flags & NLM_F_DUMP_INTR:
                    raise InterruptedError()
                if kind == NLMSG_DONE:
                    return out
                out.append(body[4:])
            if not is_dump:
                return out

    def dump(self, msg, fam, payload=b""):
        """Message bodies of a dump; repeated when a change interrupts it."""
        for _ in range(50):
            self._request(msg, fam, NLM_F_DUMP, payload)
            try:
                return self._answers(True)
            except InterruptedError:
                while True:  # drain to the end of the interrupted one
                    try:
                        self.sock.settimeout(0.05)
                        self.sock.recv(1 << 17)
                    except (TimeoutError, socket.timeout):
                        break
                    finally:
                        self.sock.settimeout(lab.LIMIT)
        raise RuntimeError("the ruleset does not stand still")

    def genid(self):
        self._request(NFT_MSG_GETGEN, 0, 0, b"")
        return struct.unpack(">I", attrs(self._answers(False)[0])[NFTA_GEN_ID])[0]

    def tables(self, fam):
        """{name: handle}"""
        out = {}
        for body in self.dump(NFT_MSG_GETTABLE, NFPROTO[fam]):
            a = attrs(body)
            out[text(a[NFTA_TABLE_NAME])] = struct.unpack(">Q", a[NFTA_TABLE_HANDLE])[0]
        return out

    def chains(self, fam, table):
        """[name], also of other tables' if they exist: filtered here."""
        return [text(attrs(b)[NFTA_CHAIN_NAME]) for b in self.dump(NFT_MSG_GETCHAIN, NFPROTO[fam])
                if text(attrs(b)[1]) == table]

    def sets(self, fam, table):
        return [text(attrs(b)[NFTA_SET_NAME])
                for b in self.dump(NFT_MSG_GETSET, NFPROTO[fam], attr(1, table))]

    def elements(self, fam, table, name):
        """[(key, data or chain name or None, flags)] as raw bytes."""
        out = []
        payload = attr(NFTA_LIST_TABLE, table) + attr(NFTA_LIST_SET, name)
        for body in self.dump(NFT_MSG_GETSETELEM, NFPROTO[fam], payload):
            for _, raw in attr_list(attrs(body).get(NFTA_LIST_ELEMENTS, b"")):
                e = attrs(raw)
                key = attrs(e[NFTA_ELEM_KEY])[NFTA_DATA_VALUE]
                data = attrs(e[NFTA_ELEM_DATA]) if NFTA_ELEM_DATA in e else {}
                if NFTA_DATA_VERDICT in data:
                    value = text(attrs(data[NFTA_DATA_VERDICT]).get(NFTA_VERDICT_CHAIN, b""))
                else:
                    value = data.get(NFTA_DATA_VALUE)
                flags = struct.unpack(">I", e[NFTA_ELEM_FLAGS])[0] if NFTA_ELEM_FLAGS in e else 0
                out.append((key, value, flags))
        return out

    def dump_or_empty(self, fam, table, name):
        try:
            return self.elements(fam, table, name)
        except OSError as e:
            if e.errno == errno.ENOENT:
                return []
            raise
