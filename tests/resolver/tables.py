# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison of the kernel's tables with the resolver's result.

Tables decodes the elements of one family's table into the types of the resolver, from the
description of the layout alone: a frontend's value is pool << 12 | kind, the verdict map `kinds`
leads from a kind to a chain, and the chain's name is its function:

    p<n>       exactly n slots          a<n>-<t>    n slots with affinity of t seconds
    c<n>       up to n slots            fw, xl      source ranges; policy Local
    h<n>       n slots, by a hash of the client's address; hp<n>: and port
    reject_conn, drop_conn

"""
import collections
import functools
import ipaddress
import re
import struct

import hashing
from resolver import DROP, REJECT, Pool

PROTO = {6: "TCP", 17: "UDP", 132: "SCTP"}
ADDR_LEN = {4: 4, 6: 16}
INTERVAL_END = 1
# Bit in a word: the Local pool of a port with affinity. The Cluster pool has the id without it.
LOCAL = 0x80000000
# Affinity of a Pool: by client address, without a timeout.
HASHED = -1

Programmed = collections.namedtuple(
    "Programmed", "kind_chain outside host ranges masq_always masq_host")


class Wrong(Exception):
    """The tables contradict themselves."""


@functools.lru_cache(maxsize=None)
def _address(raw):
    return str(ipaddress.ip_address(raw))


def class_bounds():
    """{bound: least number of endpoints} of the size classes above 64."""
    out = {}
    bound = 64
    while bound < 65536:
        nxt = min((bound * 9 + 7) // 8, 65536)
        out[nxt] = bound + 1
        bound = nxt
    return out


BOUNDS = class_bounds()


def sizes_of(n):
    """The pool sizes that a chain for n endpoints serves: (least, most)."""
    if n <= 64:
        return n, n
    if n not in BOUNDS:
        raise Wrong("%d is no size class" % n)
    return BOUNDS[n], n


class Elements:
    """Decoders of keys and values of one family, for Tables and Servers."""

    def __init__(self, fam):
        self.fam = fam
        self.alen = ADDR_LEN[fam]

    @staticmethod
    def _u32(raw):
        return struct.unpack_from("=I", raw)[0]

    def _addr(self, raw):
        return _address(raw[:self.alen])

    def endpoint_keys(self, backends):
        """Keys in `endpoint_addrs` for these (address, port)."""
        return set(backends)

    def _target(self, raw):
        return self._addr(raw), struct.unpack_from(">H", raw, self.alen)[0]

    def _tuple_map(self, elements):
        out = {}
        for key, data, _ in elements:
            proto = PROTO[key[self.alen]]
            port = struct.unpack_from(">H", key, self.alen + 4)[0]
            out[self.fam, self._addr(key), proto, port] = self._u32(data) if data else None
        return out

    def _ranges(self, elements, split):
        """{pool: networks}; `split(word)` is the pool and the length."""
        out = collections.defaultdict(set)
        for key, _, _ in elements:
            pool, length = split(self._u32(key))
            out[pool].add(ipaddress.ip_network((key[4:4 + self.alen], length)))
        return out

    def _interval_set(self, elements):
        points = sorted((int.from_bytes(key, "big"), flags & INTERVAL_END)
                        for key, _, flags in elements)
        nets = []
        start = None
        make = ipaddress.IPv4Address if self.fam == 4 else ipaddress.IPv6Address
        for value, is_end in points:
            if is_end and start is not None:
                nets += ipaddress.summarize_address_range(make(start), make(value - 1))
                start = None
            if not is_end:
                start = value
        if start is not None:  # up to the last address
            nets += ipaddress.summarize_address_range(make(start), make(2 ** (8 * self.alen) - 1))
        return frozenset(ipaddress.collapse_addresses(nets))


class Tables(Elements):
    """All decoded elements of one family's table."""

    def __init__(self, fam, elements):
        """`elements(name)` yields (key, data, flags), like nftables.Nft.elements."""
        super().__init__(fam)
        self.frontends = self._tuple_map(elements("frontends"))
        self.xl_cluster = self._tuple_map(elements("xl_cluster"))
        self.xl_local = self._tuple_map(elements("xl_local"))
        self.fw_frontends = self._tuple_map(elements("fw_frontends"))
        self.masq_frontends = set(self._tuple_map(elements("masq_frontends")))
        self.masq_hosts = set(self._tuple_map(elements("masq_hosts")))
        self.vips = {self._addr(e[0]) for e in elements("vips")}
        self.cluster_ips = {self._addr(e[0]) for e in elements("cluster_ips")}
        self.local_backends = {self._addr(e[0]) for e in elements("local_backends")}
        self.endpoint_addrs = {self._target(e[0]) for e in elements("endpoint_addrs")
                               if e[0][:self.alen] == e[0][self.alen + 4:]}
        self.kinds = {m: {self._u32(e[0]): e[1] for e in elements(m)}
                      for m in ("kinds", "kinds_x", "leaves")}
        self.endpoints = collections.defaultdict(dict)
        for key, data, _ in elements("endpoints"):
            self.endpoints[self._u32(key) >> 12][self._u32(key[4:])] = self._target(data)
        self.aff_slots = collections.defaultdict(dict)
        for key, data, _ in elements("aff_slots"):
            self.aff_slots[self._u32(key) >> 12][self._u32(key[4:])] = self._u32(data)
        self.aff_endpoints = {self._u32(key): self._target(data)
                              for key, data, _ in elements("aff_endpoints")}
        self.ranges = self._ranges(elements("fw_ranges"), lambda word: (word >> 12, word & 0xfff))
        self.pod_cidrs = self._interval_set(elements("pod_cidrs"))
        self.service_cidrs = self._interval_set(elements("service_cidrs"))

    # ---- verdicts ----

    def chain(self, word, where):
        kind = word & 0xfff
        if kind not in self.kinds[where]:
            raise Wrong("kind %#x is not in the map %s" % (kind, where))
        return self.kinds[where][kind]

    def verdict(self, word, where):
        chain = self.chain(word, where)
        if chain == "reject_conn":
            return REJECT
        if chain == "drop_conn":
            return DROP
        pool = word >> 12
        m = re.fullmatch(r"[pc](\d+)", chain)
        if m:
            slots = self.endpoints.get(pool, {})
            self._check_slots(pool, slots, int(m[1]))
            return self._pool(slots.values(), 0)
        m = re.fullmatch(r"hp?(\d+)", chain)
        if m:
            slots = self.endpoints.get(pool, {})
            if int(m[1]) != hashing.SLOTS or sorted(slots) != list(range(hashing.SLOTS)):
                raise Wrong("pool %d: %d slots where the chain serves %s" %
                            (pool, len(slots), m[1]))
            out = Pool(frozenset(slots.values()), 0)
            out.hashing = "mh,mh-port" if chain.startswith("hp") else "mh"
            out.slots = slots
            return out
        m = re.fullmatch(r"a(\d+)-(\d+)", chain)
        if m:
            slots = self.aff_slots.get(pool, {})
            self._check_slots(pool, slots, int(m[1]))
            missing = [w for w in slots.values() if w not in self.aff_endpoints]
            if missing:
                raise Wrong("pool %d: no aff_endpoints for %s" % (pool, missing))
            return self._pool([self.aff_endpoints[w] for w in slots.values()], int(m[2]))
        raise Wrong("word %#x leads to the chain %s in %s" % (word, chain, where))

    @staticmethod
    def _pool(slots, affinity_s):
        """Of endpoints, with the number of slots of each as its weight."""
        out = Pool(frozenset(slots), affinity_s)
        out.weights = collections.Counter(slots)
        return out

    def weights_of(self, pool):
        """The resolver's weights as this plane has them: numbers of slots (BAL-04)."""
        return {e: w // pool.unit for e, w in pool.weights.items()}

    @staticmethod
    def hashing_wrong(want, held):
        """How the picks of two pools with equal endpoints differ (BAL-10); None: they are equal."""
        if want.hashing != held.hashing:
            return "scheduler '%s' instead of '%s'" % (held.hashing, want.hashing)
        if not held.hashing:
            return None
        wanted = hashing.table(frozenset(want.weights.items()))
        wrong = [i for i, endpoint in enumerate(wanted) if held.slots[i] != endpoint]
        return wrong and "%d slots are another endpoint's, the first is %d" % (len(wrong), wrong[0])

    @staticmethod
    def _check_slots(pool, slots, n):
        least, most = sizes_of(n)
        if sorted(slots) != list(range(len(slots))):
            raise Wrong("pool %d: slots are not dense: %s" % (pool, sorted(slots)))
        if not least <= len(slots) <= most:
            raise Wrong("pool %d: %d slots, but the chain serves %d..%d" %
                        (pool, len(slots), least, most))

    def frontend(self, key):
        """The programmed state of a frontend."""
        word = self.frontends[key]
        where = "kinds"
        ranges = None
        if self.chain(word, where) == "fw":
            ranges = frozenset(ipaddress.collapse_addresses(self.ranges.get(word >> 12, [])))
            if key not in self.fw_frontends:
                raise Wrong("%s has source ranges and is not in fw_frontends" % (key,))
            word = self.fw_frontends[key]
            where = "kinds_x"
        chain = self.chain(word, where)
        if chain == "xl":
            for name, held in (("xl_cluster", self.xl_cluster), ("xl_local", self.xl_local)):
                if key not in held:
                    raise Wrong("%s is not in %s" % (key, name))
            outside = self.verdict(self.xl_local[key], "leaves")
            host = self.verdict(self.xl_cluster[key], "leaves")
        else:
            outside = host = self.verdict(word, where)
        return Programmed(chain, outside, host, ranges, key in self.masq_frontends,
                    key in self.masq_hosts)

    def pools_used(self):
        """Pools of frontends and of source ranges."""
        words = list(self.frontends.values()) + list(self.fw_frontends.values()) + \
            list(self.xl_cluster.values()) + list(self.xl_local.values())
        return {w >> 12 for w in words}

    def unshared(self):
        """Ports whose two pools have different endpoints for a local id (SVC-32), in sentences.
        The ids of the two pools differ in their highest bit."""
        out = []
        for word, endpoint in self.aff_endpoints.items():
            other = self.aff_endpoints.get(word ^ LOCAL, endpoint)
            if word & LOCAL and other != endpoint:
                out.append("aff_endpoints: id %d of pool %d is %s, and of its peer %s" %
                           (word & 0xfff, word >> 12, endpoint, other))
        for key in self.xl_local.keys() & self.xl_cluster.keys():
            words = self.xl_local[key], self.xl_cluster[key]
            if all(isinstance(v, Pool) and v.affinity_s
                   for v in (self.verdict(w, "leaves") for w in words)) and \
                    (words[0] ^ words[1]) >> 12 != LOCAL >> 12:
                out.append("%s: its pools %d and %d are no peers" %
                           (key, words[0] >> 12, words[1] >> 12))
        return out

    def leftovers(self):
        """Unneeded state, in sentences."""
        out = []
        used = self.pools_used()
        for name in ("endpoints", "aff_slots", "ranges"):
            extra = {p for p, v in getattr(self, name).items() if v} - used
            if extra:
                out.append("%s: pools %s belong to no frontend" % (name, sorted(extra)))
        extra = {w >> 12 for w in self.aff_endpoints} - used
        if extra:
            out.append("aff_endpoints: pools %s belong to no frontend" % sorted(extra))
        for name in ("xl_cluster", "xl_local", "fw_frontends"):
            extra = set(getattr(self, name)) - set(self.frontends)
            if extra:
                out.append("%s: %s are no frontends" % (name, sorted(extra)))
        return out


def _text(verdict):
    if isinstance(verdict, Pool):
        return "%s%s" % (sorted("%s:%d" % e for e in verdict.endpoints),
                         " affinity %d" % verdict.affinity_s if verdict.affinity_s else "")
    return verdict


def compare(result, tables, strict=True):
    """Differences between a family's tables and the resolver's result, in sentences; empty: equal.

    strict: also unneeded state. endpoint_addrs may contain more: an address stays after its last
    backend, for INVALID packets of established connections.
    """
    fam = tables.fam
    out = []
    want = {k: f for k, f in result.frontends.items() if k[0] == fam}

    def keys(name, wanted, held):
        for k in sorted(wanted - held, key=str):
            out.append("%s: %s is missing" % (name, k))
        for k in sorted(held - wanted, key=str):
            out.append("%s: %s should not be there" % (name, k))

    keys("frontends", set(want), set(tables.frontends))
    keys("vips", {k[1] for k in want}, tables.vips)
    keys("cluster_ips", {a for f, a in result.cluster_ips if f == fam}, tables.cluster_ips)
    backends = set()
    here = set()
    for key in sorted(set(want) & set(tables.frontends)):
        f = want[key]
        try:
            held = tables.frontend(key)
        except Wrong as e:
            out.append("%s (%s): %s" % (key, f.owner, e))
            continue
        for where, w, h in (("outside", f.outside, held.outside), ("host", f.host, held.host)):
            if isinstance(h, Pool) and h.affinity_s == HASHED and isinstance(w, Pool):
                weights, h = h.weights, h._replace(affinity_s=w.affinity_s)
                h.weights = weights
            if w != h:
                out.append("%s (%s) from %s: %s instead of %s" %
                           (key, f.owner, where, _text(h), _text(w)))
            if isinstance(h, Pool):
                backends |= h.endpoints
                here |= f.here & {a for a, _ in h.endpoints}
            wrong = w == h and isinstance(h, Pool) and tables.hashing_wrong(w, h)
            if wrong:
                out.append("%s (%s) from %s: %s" % (key, f.owner, where, wrong))
            if w == h and isinstance(h, Pool) and h.weights is not None and \
                    h.weights != tables.weights_of(w):
                out.append("%s (%s) from %s: weights %s instead of %s" %
                           (key, f.owner, where, dict(h.weights), tables.weights_of(w)))
        if f.ranges != held.ranges:
            out.append("%s (%s) ranges: %s instead of %s" % (key, f.owner, held.ranges, f.ranges))
        if isinstance(f.outside, Pool) or isinstance(f.host, Pool):
            for name, w, h in (("masq_frontends", f.masq == "always", held.masq_always),
                               ("masq_hosts", f.masq == "host", held.masq_host)):
                if w != h:
                    out.append("%s (%s) in %s: %s" % (key, f.owner, name, h))
    keys("endpoint_addrs", tables.endpoint_keys(backends) - tables.endpoint_addrs, set())
    keys("local_backends", here, tables.local_backends)
    for name in ("masq_frontends", "masq_hosts"):
        extra = getattr(tables, name) - set(want)
        if extra:
            out.append("%s: %s are no frontends" % (name, sorted(extra)))
    if result.service_cidrs[fam] or tables.service_cidrs:
        keys("service_cidrs", set(result.service_cidrs[fam]), set(tables.service_cidrs))
    if result.pod_cidrs[fam]:
        keys("pod_cidrs", set(ipaddress.collapse_addresses(result.pod_cidrs[fam])),
             set(tables.pod_cidrs))
    if strict:
        out += tables.leftovers()
    try:
        out += tables.unshared()
    except Wrong as e:  # read while a transaction was committed
        out.append(str(e))
    return out
