# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of a pool with hashing, and a client's slot, written from doc/design/0015: every
backend ranks every slot, and the best rank has it. Slow and without the rounds of vipd's code."""
import array
import functools
import ipaddress
import itertools
import math
import struct

BITS = 14
SLOTS = 1 << BITS
MASK64 = (1 << 64) - 1
KEYS = 0x5f8e3a1b7c2d4960, 0xc3a5917e04b86d2f
SEED = 0x76697064
IPVS_SLOTS = 4093
IPVS_KEYS = 2654435761, 2654446892


def _rotl(x, by, bits):
    return (x << by | x >> (bits - by)) & ((1 << bits) - 1)


def siphash13(data, k0, k1):
    v = [k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d,
         k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573]

    def round_():
        v[0] = (v[0] + v[1]) & MASK64
        v[1] = _rotl(v[1], 13, 64) ^ v[0]
        v[0] = _rotl(v[0], 32, 64)
        v[2] = (v[2] + v[3]) & MASK64
        v[3] = _rotl(v[3], 16, 64) ^ v[2]
        v[0] = (v[0] + v[3]) & MASK64
        v[3] = _rotl(v[3], 21, 64) ^ v[0]
        v[2] = (v[2] + v[1]) & MASK64
        v[1] = _rotl(v[1], 17, 64) ^ v[2]
        v[2] = _rotl(v[2], 32, 64)

    whole = len(data) // 8 * 8
    last = int.from_bytes(data[whole:], "little") | (len(data) & 0xff) << 56
    for m in [int.from_bytes(data[i:i + 8], "little") for i in range(0, whole, 8)] + [last]:
        v[3] ^= m
        round_()
        v[0] ^= m
    v[2] ^= 0xff
    for _ in range(3):
        round_()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def mix64(x):
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK64
    return x ^ x >> 31


def order(salt):
    """The slots, best first."""
    keys = mix64(salt)
    steps = [(key & 0xffffffff | 1, key >> 10 & 0xffffffff)
             for key in (keys, keys >> 20, keys >> 40, salt)]
    out = []
    for x in range(SLOTS):
        for factor, addend in steps:
            x = (x * factor + addend) & (SLOTS - 1)
            x ^= x >> BITS // 2
        out.append(x)
    return out


@functools.lru_cache(maxsize=512)
def ranks(endpoint, contender):
    """(salt, the rank of each slot) of a contender of an (address, port)."""
    addr, port = endpoint
    key = siphash13(ipaddress.ip_address(addr).packed + struct.pack(">H", port), *KEYS)
    salt = mix64((key + contender * 0x9e3779b97f4a7c15) & MASK64)
    out = array.array("H", bytes(2 * SLOTS))
    for rank, slot_ in enumerate(order(salt)):
        out[slot_] = rank
    return salt, out


@functools.lru_cache(maxsize=64)
def table(weights):
    """The endpoint in each slot, of a frozenset of ((address, port), weight): that of the contender
    with the lowest rank."""
    names = [e for e, weight in weights for _ in range(weight)]
    salts, columns = zip(*(ranks(e, i) for e, weight in weights for i in range(weight)))
    out = []
    for at, row in enumerate(zip(*columns)):
        best = min(row)
        i = row.index(best)
        if row.count(best) > 1:
            i = min((mix64((salts[k] + at) & MASK64), salts[k], k)
                    for k, rank in enumerate(row) if rank == best)[2]
        out.append(names[i])
    return out


def ipvs_table(dests):
    """The (address, port) in each slot of IPVS's mh, IPv4 and 4,093 slots, of [((address, port),
    weight)] in the order of the kernel's list: in turns, each takes its next free slots, as many as
    its weight by the common divisor."""
    unit = math.gcd(*(weight for _, weight in dests))
    at, skip, out, left = {}, {}, [None] * IPVS_SLOTS, IPVS_SLOTS
    for (addr, port), _ in dests:
        at[addr, port] = _ipvs_hash(addr, port, IPVS_KEYS[0]) % IPVS_SLOTS
        skip[addr, port] = _ipvs_hash(addr, port, IPVS_KEYS[1]) % (IPVS_SLOTS - 1) + 1
    for to, weight in itertools.cycle(dests):
        for _ in range(min(left, weight // unit)):
            while out[at[to]] is not None:
                at[to] = (at[to] + skip[to]) % IPVS_SLOTS
            out[at[to]] = to
            left -= 1
        if not left:
            return out


def ipvs_slot(client):
    """Of a client by its address alone."""
    return _ipvs_hash(client, 0, IPVS_KEYS[0]) % IPVS_SLOTS


def _ipvs_hash(addr, port, key):
    word = (int(ipaddress.ip_address(addr)) + port) & 0xffffffff
    return siphash13(struct.pack("=I", word), key, key) & 0xffffffff


class _State(dict):
    """Three words of 32 bits."""

    def __setitem__(self, name, value):
        super().__setitem__(name, value & 0xffffffff)

    def add(self, chunk):
        for name, word in zip("abc", struct.unpack("<III", chunk.ljust(12, b"\0"))):
            self[name] += word

    def rot(self, name, by):
        return _rotl(self[name], by, 32)


def jhash(data, seed):
    """Bob Jenkins' lookup3, as in linux/jhash.h on a little-endian machine."""
    h = _State()
    for name in "abc":
        h[name] = 0xdeadbeef + len(data) + seed
    while len(data) > 12:
        h.add(data[:12])
        for (x, y, z), by in (("acb", 4), ("bac", 6), ("cba", 8),
                              ("acb", 16), ("bac", 19), ("cba", 4)):
            h[x] -= h[y]
            h[x] ^= h.rot(y, by)
            h[y] += h[z]
        data = data[12:]
    h.add(data)
    for x, y, by in (("c", "b", 14), ("a", "c", 11), ("b", "a", 25), ("c", "b", 16),
                     ("a", "c", 4), ("b", "a", 14), ("c", "b", 24)):
        h[x] ^= h[y]
        h[x] -= h.rot(y, by)
    return h["c"]


def slot(client, port=None):
    """The slot of a client, by its address or by address and port."""
    data = ipaddress.ip_address(client).packed
    if port is not None:
        data += struct.pack(">HH", port, 0)
    return jhash(data, SEED) * SLOTS >> 32


def pick(endpoints, client, port=None):
    """The endpoint of a client, of a frozenset of (address, port)."""
    return table(frozenset((e, 1) for e in endpoints))[slot(client, port)]
