# SPDX-License-Identifier: GPL-2.0-or-later
"""State of table inet vipd-ipvs and of the virtual services of IPVS: tables.compare() for the
ipvs plane.

Follows a connection as the kernel does: from a frontend's element to a mark, from the mark to a
virtual service (without a pool in the mark: by address and port), and to destinations with a
weight. A destination with weight 0 is draining and gets no connection, so one whose annotation has
weight 0 counts as missing.
"""
import ipaddress

import tables
from resolver import DROP, REJECT, Pool, Weights
from tables import HASHED, Elements, Programmed, Wrong

TAG = 0x5a000000
MASK = 0xff000f00
UNTAGGED = 0x01ffffff  # of a mark among the ranges, whose other bits are the length
REFUSE, DISCARD = TAG | 0x7ff0fe, TAG | 0x7ff0ff
# Flags of a virtual service: persistent, vipd's by address and port, fallback and port of mh and sh.
PERSISTENT, OURS, FALLBACK, PORT = 0x1, 0x20, 0x8, 0x10
# IP_VS_CONN_F_* of linux/ip_vs.h, above 16 bits the port of GUE; masquerading is 0.
FORWARDING = {"tunnel": 2, "route": 3, "tunnel,gue": 2 | 6080 << 16}
SCHEDULERS = "rr wrr lc wlc fo ovf lblc lblcr dh sh mh sed nq twos".split()
WEIGHTED = {"rr": "wrr", "lc": "wlc"}
MH_MOST = 4093  # destinations


def scheduler_of(text):
    """(name, flags) of an annotation, or None: invalid (BAL-01, BAL-12)."""
    name, *flags = text.split(",")
    hashes = name in ("mh", "sh")
    if name not in SCHEDULERS or \
            set(flags) - ({name + "-port", name + "-fallback"} if hashes else set()):
        return None
    return name, (FALLBACK if hashes else 0) | (PORT if name + "-port" in flags else 0)


class Servers(Elements):
    """One family, with the methods of Tables that tables.compare() uses."""

    def __init__(self, fam, elements, services):
        """`elements(name)`: as for Tables. `services`: {virtual service: {(address, port):
        destination}} of vipd, as from ipvs.Ipvs.state()."""
        super().__init__(fam)

        def of(name):
            return elements("%s%d" % (name, fam))
        self.fe, self.fe_in, self.fe_out, self.guarded, self.idle = (
            self._tuple_map(of(name)) for name in ("fe", "fe_in", "fe_out", "guarded", "idle"))
        self.frontends = {**self.fe_in, **self.fe_out, **self.fe}
        self.masq_frontends = set(self._tuple_map(of("masq")))
        self.masq_hosts = set(self._tuple_map(of("masq_hosts")))
        self.vips = {self._addr(e[0]) for e in of("vips")}
        self.cluster_ips = {self._addr(e[0]) for e in of("cluster_ips")}
        self.local_backends = {self._addr(e[0]) for e in of("local_backends")}
        self.endpoint_addrs = {(self._addr(e[0]), self._addr(e[0][self.alen:]))
                               for e in of("hairpins")}
        self.ranges = self._ranges(of("ranges"), lambda word: (word & UNTAGGED, word >> 23 & 0xfc))
        self.pod_cidrs = self._interval_set(of("pod_cidrs"))
        self.service_cidrs = self._interval_set(of("service_cidrs"))
        self.services = {(s.mark or (s.proto.upper(), s.addr, s.port)): (s, dests)
                         for s, dests in services.items() if s.fam == fam}

    def endpoint_keys(self, backends):
        return {(a, a) for a, _ in backends}

    def virtual(self, key, mark):
        """(virtual service, destinations) for a packet to this frontend with this mark."""
        by = mark if mark != TAG else key[2:3] + key[1:2] + key[3:]
        if by not in self.services:
            raise Wrong("mark %#x leads to no virtual service" % mark)
        return self.services[by]

    def verdict(self, key, mark):
        if mark & MASK != TAG:
            raise Wrong("mark %#x is not vipd's" % mark)
        if mark in (REFUSE, DISCARD):
            return REJECT if mark == REFUSE else DROP
        s, dests = self.virtual(key, mark)
        is_by_address = mark == TAG
        if bool(s.flags & OURS) != is_by_address or \
                bool(s.flags & PERSISTENT) != (is_by_address and not (
                    self.forwarding(dests) and s.timeout == 0)):
            raise Wrong("%s has the flags %#x" % (s, s.flags))
        affinity = s.timeout if is_by_address else \
            HASHED if s.sched == "mh" and s.flags & FALLBACK else 0
        out = Pool(frozenset(at for at, d in dests.items() if d.weight > 0), affinity)
        out.weights = {at: d.weight for at, d in dests.items() if d.weight > 0}
        return out

    @staticmethod
    def forwarding(dests):
        """How the destinations get packets; 0: masqueraded."""
        how = {d.fwd for d in dests.values() if d.weight > 0}
        if len(how) > 1:
            raise Wrong("destinations have the forwarding methods %s" % sorted(how))
        return max(how, default=0)

    @staticmethod
    def hashing_wrong(_want, _held):
        """None: slots of IPVS cannot be read."""

    @staticmethod
    def weights_of(pool):
        return pool.weights

    def marks(self, key):
        """(mark from outside, mark from pods and the host)"""
        if key in self.fe:
            if key in self.fe_in or key in self.fe_out:
                raise Wrong("is in fe, fe_in or fe_out at once")
            return self.fe[key], self.fe[key]
        if key not in self.fe_in or key not in self.fe_out:
            raise Wrong("is in one of fe_in and fe_out only")
        return self.fe_out[key], self.fe_in[key]

    def frontend(self, key):
        """The programmed state of a frontend."""
        outside, host = self.marks(key)
        ranges = None
        if key in self.guarded:
            ranges = frozenset(ipaddress.collapse_addresses(
                self.ranges.get(self.guarded[key] & UNTAGGED, [])))
        return Programmed(None, self.verdict(key, outside), self.verdict(key, host), ranges,
                    key in self.masq_frontends, key in self.masq_hosts)

    def unshared(self):
        """None: persistence belongs to one virtual service (SVC-32)."""
        return []

    def leftovers(self):
        """Unneeded state. A virtual service with connections may stay, at weight 0."""
        out = []
        used = {m for part in (self.fe, self.fe_in, self.fe_out, self.idle) for m in part.values()}
        for by, (s, dests) in self.services.items():
            is_used = by in used if s.mark else \
                (self.fam, s.addr, s.proto.upper(), s.port) in self.frontends
            serving = [at for at, d in dests.items() if d.weight > 0]
            if serving and not is_used:
                out.append("%s: no frontend leads to it, and it has %s" % (s, serving))
        for name in ("guarded", "idle"):
            extra = set(getattr(self, name)) - set(self.frontends)
            if extra:
                out.append("%s: %s are no frontends" % (name, sorted(extra)))
        extra = set(self.ranges) - {m & UNTAGGED for m in used | set(self.guarded.values())}
        if extra:
            out.append("ranges: marks %s are of no frontend" % sorted(map(hex, extra)))
        return out


class Wishes:
    """Schedulers and forwarding methods of annotations."""

    def __init__(self, objects, scheduler="rr"):
        self.by_default = scheduler_of(scheduler)
        self.services = {"%s/%s" % (o["metadata"].get("namespace") or "default",
                                    o["metadata"]["name"]): o
                         for o in objects if o.get("kind") == "Service"}

    def notes(self, owner):
        """Annotations, for a Frontend's owner."""
        svc = self.services.get(owner.partition(":")[0], {"metadata": {}})
        return svc["metadata"].get("annotations") or {}

    def of(self, owner):
        """Scheduler and flags; the default serves weights (IPVS-17)."""
        notes = self.notes(owner)
        text = notes.get("vipd.io/scheduler", notes.get("kube-router.io/service.scheduler", ""))
        name, flags = self.by_default
        if Weights({"metadata": {"annotations": notes}}).entries:
            name = WEIGHTED.get(name, name)
        return scheduler_of(text) or (name, flags)

    def forwarding(self, key, frontend):
        """BAL-20: to external addresses, if all endpoints have the port of the Service."""
        notes = self.notes(frontend.owner)
        how = notes.get("vipd.io/forwarding", notes.get("kube-router.io/service.dsr"))
        pool = frontend.outside
        if frontend.kind not in ("lb", "externalip") or isinstance(pool, Pool) and \
                any(port != key[3] for _, port in pool.endpoints):
            return 0
        return FORWARDING.get(how, 0)

    def masquerade_less(self, frontends):
        """The frontends, forwarded ones without masquerading; of policy Local, the host's connections
        are masqueraded."""
        return {key: f._replace(masq="no") if f.masq == "always" and self.forwarding(key, f) else f
                for key, f in frontends.items()}


def _odd(key, frontend, servers, wishes):
    """Schedulers and forwarding methods that differ from the objects."""
    scheduler = wishes.of(frontend.owner)
    outside = servers.marks(key)[0]
    if outside not in (REFUSE, DISCARD):
        wanted = wishes.forwarding(key, frontend)
        have = servers.forwarding(servers.virtual(key, outside)[1])
        if have != wanted:
            yield "forwarding %d instead of %d" % (have, wanted)
    pools = [v for v in (frontend.outside, frontend.host) if isinstance(v, Pool)]
    for mark in sorted(set(servers.marks(key)) - {REFUSE, DISCARD}):
        s, dests = servers.virtual(key, mark)
        wanted = ("mh", FALLBACK) if s.mark and pools and pools[0].affinity_s else scheduler
        have = s.sched, s.flags & (FALLBACK | PORT)
        if have != wanted and (wanted[0] != "mh" or len(dests) <= MH_MOST):
            yield "%s: scheduler %s with flags %#x instead of %s with %#x" % ((s,) + have + wanted)


def compare(result, servers, wishes, strict=True):
    """Like tables.compare(), plus schedulers."""
    result = result._replace(frontends=wishes.masquerade_less(result.frontends))
    out = tables.compare(result, servers, strict)
    for key in sorted(set(result.frontends) & set(servers.frontends)):
        try:
            out += ["%s (%s): %s" % (key, result.frontends[key].owner, text)
                    for text in _odd(key, result.frontends[key], servers, wishes)]
        except Wrong:  # reported already
            pass
    return out
