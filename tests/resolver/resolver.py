# SPDX-License-Identifier: GPL-2.0-or-later
"""The specified behaviour of the kernel for a list of Kubernetes objects: slow, short, obviously
right.

Written from doc/behaviour.md sections 2 to 7 alone, independent of vipd's code, for comparison with
vipd. Not incremental: resolve() evaluates all objects. IDs in brackets are rows of that document;
a choice that the document leaves open ("IMPROVE") is in capitals.

    result = resolve(objects, Config(node_name="n1", ...))
    result.frontends[(4, "10.96.0.1", "TCP", 80)].outside  ->  Pool, REJECT or DROP
"""
import collections
import datetime
import functools
import ipaddress
import math
import re

REJECT = "reject"
DROP = "drop"


class Pool(collections.namedtuple("Pool", "endpoints affinity_s")):
    """endpoints: frozenset of (address, port); affinity_s: 0 or the ClientIP timeout.
    weights: {(address, port): weight above 0}, None = unknown; unit: that of a slot.
    hashing: "", "mh" or "mh,mh-port"; slots: {slot: endpoint} of a pool with hashing."""
    weights = None
    unit = 1
    hashing = ""
    slots = None


# kind: clusterip nodeport externalip lb
# outside, pod, host: result of a connection from there: Pool, REJECT or DROP
# ranges: frozenset of networks that may connect (empty: none); None = unrestricted
# masq: "clusterip" (by detect-local), "always", "host" (connections of the host)
# here: addresses of its endpoints on this node, with --preserve-local-source
Frontend = collections.namedtuple("Frontend", "kind owner outside pod host ranges masq here")

Result = collections.namedtuple("Result",
                                "frontends cluster_ips conflicts pod_cidrs service_cidrs")


class Config:
    """Flags and state of the host. The other settings are in the Node object."""

    def __init__(self, node_name, detect="ClusterCIDR", cluster_cidrs=(), nodeport_addresses=None,
                 host_addresses=(), service_cidrs=(), external_ips=True, bind_addresses=(),
                 mode=None, localhost_nodeports=None, preserve_local_source=False):
        self.node_name = node_name
        self.detect = detect  # ClusterCIDR NodeCIDR BridgeInterface InterfaceNamePrefix
        self.cluster_cidrs = list(cluster_cidrs)
        # SVC-10, IPT-12: iptables mode serves all addresses and localhost by default.
        is_iptables = mode == "iptables"
        if is_iptables and nodeport_addresses is None:
            nodeport_addresses = ["0.0.0.0/0", "::/0"]
        self.nodeport_addresses = nodeport_addresses  # None = "primary"
        self.localhost = is_iptables if localhost_nodeports is None \
            else localhost_nodeports == "true"
        self.host_addresses = list(host_addresses)
        self.service_cidrs = list(service_cidrs)
        self.external_ips = external_ips
        self.bind_addresses = list(bind_addresses)
        self.preserve_local_source = preserve_local_source


# ---- text to values ----

@functools.lru_cache(maxsize=None)
def parse_ip(text):
    """The address, or None. Leading zeros of IPv4 octets are padding (SVC-02)."""
    if not isinstance(text, str):
        return None
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+){3}", text):
        text = ".".join(str(int(octet)) for octet in text.split("."))
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=None)
def parse_net(text):
    """The prefix without host bits, or None."""
    if not isinstance(text, str):
        return None
    addr, slash, length = text.strip().partition("/")
    ip = parse_ip(addr)
    if ip is None or not slash or not re.fullmatch(r"\d+", length):
        return None
    if int(length) > ip.max_prefixlen:
        return None
    return ipaddress.ip_network((ip, int(length)), strict=False)


def of_family(values, fam):
    return [v for v in values if v is not None and v.version == fam]


# ---- services ----

def labels(obj):
    return obj.get("metadata", {}).get("labels") or {}


def key_of(obj):
    meta = obj.get("metadata", {})
    return meta.get("namespace") or "default", meta.get("name")


def is_proxied(svc):
    """SEL-01, SEL-02, SEL-03."""
    spec = svc.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return False
    if spec.get("clusterIP") in (None, "", "None"):
        return False
    return "service.kubernetes.io/service-proxy-name" not in labels(svc)


def cluster_ip_of(svc, fam):
    """SEL-05."""
    spec = svc["spec"]
    families = spec.get("ipFamilies") or []
    if not families:
        ip = parse_ip(spec.get("clusterIP"))
        return ip if ip is not None and ip.version == fam else None
    name = "IPv%d" % fam
    if name not in families:
        return None
    index = families.index(name)
    ips = spec.get("clusterIPs") or []
    return parse_ip(ips[index]) if index < len(ips) else None


def affinity_of(svc):
    """SVC-31."""
    spec = svc["spec"]
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    return config.get("timeoutSeconds") or 10800


def addresses_of(svc, fam):
    """(load balancer addresses, external IPs): SVC-14, SVC-16. WITH THE CLUSTER IPS SO MANY THAT
    THERE ARE AT MOST 32,768 FRONTENDS, OR FOUR ADDRESSES (SVC-15, SVC-19)."""
    ingress = ((svc.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    # A dictionary is in the order of the object, and has no address twice.
    vips = list(dict.fromkeys((parse_ip(i.get("ip")), i.get("ipMode") in (None, "VIP"))
                              for i in ingress if parse_ip(i.get("ip"))))
    texts = svc["spec"].get("externalIPs") or []
    externals = list(dict.fromkeys(filter(None, map(parse_ip, texts))))
    room = max(32768 // max(len(svc["spec"].get("ports") or []), 1), 4)
    room -= sum(cluster_ip_of(svc, f) is not None for f in (4, 6))
    vips = vips[:room]
    externals = externals[:room - len(vips)]
    captured = [ip for ip, is_captured in vips if is_captured]
    return of_family(captured, fam), of_family(externals, fam)


def is_etp_local(svc):
    """SVC-28."""
    spec = svc["spec"]
    if spec.get("externalTrafficPolicy") != "Local":
        return False
    kind = spec.get("type") or "ClusterIP"
    if kind in ("LoadBalancer", "NodePort"):
        return True
    return kind == "ClusterIP" and bool(spec.get("externalIPs"))


def ranges_of(svc, fam, vips, node_ip):
    """SVC-20 to SVC-25. None = unrestricted. An unparsable entry counts for both families: if
    one has no other range, no client of that family may connect (SVC-23). So do entries after the
    first 1,024."""
    texts = svc["spec"].get("loadBalancerSourceRanges") or []
    all_nets = [parse_net(t) for t in texts[:1024]] + [None] * (len(texts) > 1024)
    nets = of_family(all_nets, fam)
    if not nets:
        return frozenset() if None in all_nets else None
    if any(n.prefixlen == 0 for n in nets):
        return None
    if node_ip is not None and any(node_ip in n for n in nets):
        nets = nets + [ipaddress.ip_network(v) for v in vips]
    return frozenset(ipaddress.collapse_addresses(nets))


# ---- weights ----

class Weights:
    """vipd.io/weights of a service (BAL-01 to BAL-04): the first entry that matches counts."""

    def __init__(self, svc):
        text = ((svc.get("metadata") or {}).get("annotations") or {}).get("vipd.io/weights")
        entries = [e.strip() for e in text.split(",")] if text is not None else []
        found = [re.fullmatch(r"([0-9a-f.:]+|[a-z0-9.-]*\*?)=(\d{1,3})", e) for e in entries]
        bad = [m for m in found if not m or not m[1] or int(m[2]) > 100 or
               (re.fullmatch(r"[0-9.]+\*?|.*:.*", m[1]) and not parse_ip(m[1]))]
        self.entries = [] if bad else [(m[1], int(m[2])) for m in found]
        used = [w for _, w in self.entries if w]
        self.unit = math.gcd(*used) if used and "*" in dict(self.entries) else 1

    def of(self, ip, names):
        for what, weight in self.entries:
            if parse_ip(what) == ip or what in names or \
                    (what.endswith("*") and any(n.startswith(what[:-1]) for n in names)):
                return weight
        return 1


def hashing_of(svc):
    """The scheduler by annotation, if it is one that picks by the client's address (BAL-10)."""
    notes = (svc.get("metadata") or {}).get("annotations") or {}
    text = notes.get("vipd.io/scheduler", notes.get("kube-router.io/service.scheduler", ""))
    name, *flags = text.split(",")
    if name not in ("mh", "sh") or set(flags) - {name + "-port", name + "-fallback"}:
        return ""
    return "mh,mh-port" if name + "-port" in flags else "mh"


# ---- endpoints ----

class Endpoint:
    """An (address, port) of a service port, with the conditions for its use."""

    def __init__(self, ip, port, entry, node_name, weight=1):
        conditions = entry.get("conditions") or {}

        def condition(name, default):
            value = conditions.get(name)
            return default if value is None else value

        hints = entry.get("hints") or {}
        self.ip = ip
        self.port = port
        self.ready = condition("ready", True)
        self.serving = condition("serving", True)
        self.terminating = condition("terminating", False)
        self.weight = weight
        if weight == 0:  # BAL-03
            self.ready = self.serving = False
        self.local = bool(node_name) and entry.get("nodeName") == node_name
        self.zones = {z["name"] for z in hints.get("forZones") or []}
        self.nodes = {n["name"] for n in hints.get("forNodes") or []}


def slices_by_service(objects):
    """{(key of a Service, address type): [EndpointSlice]}"""
    out = collections.defaultdict(list)
    for obj in objects:
        if obj.get("kind") != "EndpointSlice":
            continue
        if "service.kubernetes.io/headless" in labels(obj):  # IN-04
            continue
        owner = labels(obj).get("kubernetes.io/service-name")
        if owner:  # EPS-02
            out[(key_of(obj)[0], owner), obj.get("addressType")].append(obj)
    # NEWER RESOURCE VERSION WINS among duplicates (EPS-15), so it comes last.
    for slices in out.values():
        slices.sort(key=lambda s: (int(s["metadata"].get("resourceVersion") or 0), s["metadata"]["name"]))
    return out


def endpoints_of(slices, port_name, proto, fam, node_name, weights):
    """EPS-03 to EPS-20: the merged endpoints of one service port."""
    found = {}  # (ip, port) -> (endpoint, its slice)
    for obj in slices:
        for port in obj.get("ports") or []:
            if not port.get("port"):  # EPS-06
                continue
            if (port.get("name") or "") != port_name or (port.get("protocol") or "TCP") != proto:
                continue
            for entry in obj.get("endpoints") or []:
                addresses = entry.get("addresses") or []
                ip = parse_ip(addresses[0]) if addresses else None  # EPS-09
                if ip is None or ip.version != fam:  # EPS-19
                    continue
                names = [obj["metadata"]["name"], (entry.get("targetRef") or {}).get("name") or ""]
                e = Endpoint(ip, port["port"], entry, node_name, weights.of(ip, names))
                # A running endpoint wins over a terminating one (EPS-14); of several terminating
                # ones THE NEWER SLICE WINS, in one slice the first.
                old, its_slice = found.get((ip, e.port), (None, None))
                if old is None or not e.terminating or (old.terminating and its_slice is not obj):
                    found[ip, e.port] = e, obj
    return [e for e, _ in found.values()]


def cluster_set(endpoints, node_name, zone):
    """POL-03 to POL-05, POL-13 to POL-18."""
    ready = [e for e in endpoints if e.ready]
    if not ready:
        return [e for e in endpoints if e.serving and e.terminating]
    if all(e.nodes for e in ready) and any(node_name in e.nodes for e in ready):
        return [e for e in ready if node_name in e.nodes]
    if zone and all(e.zones for e in ready) and any(zone in e.zones for e in ready):
        return [e for e in ready if zone in e.zones]
    return ready


def local_set(endpoints):
    """POL-06 to POL-08."""
    ready = [e for e in endpoints if e.local and e.ready]
    return ready or [e for e in endpoints if e.local and e.serving and e.terminating]


# ---- the node ----

class Node:
    """Combination of the Node object, the flags and the host."""

    def __init__(self, objects, config):
        own = [o for o in objects if o.get("kind") == "Node" and
               o["metadata"]["name"] == config.node_name]
        obj = own[0] if own else {}
        self.name = config.node_name
        self.zone = labels(obj).get("topology.kubernetes.io/zone") or None  # IN-22
        self.pod_cidrs = [parse_net(c) for c in (obj.get("spec") or {}).get("podCIDRs") or []]
        addresses = (obj.get("status") or {}).get("addresses") or []
        ordered = [parse_ip(a["address"]) for kind in ("InternalIP", "ExternalIP")
                   for a in addresses if a["type"] == kind]  # LIFE-12
        self.ip = {}
        for fam in (4, 6):
            bind = of_family([parse_ip(b) for b in config.bind_addresses], fam)
            known = bind or of_family(ordered, fam)
            self.ip[fam] = known[0] if known else None

    def nodeport_addresses(self, config, fam):
        """SVC-07 to SVC-11; A FAMILY WITHOUT CIDRS OF ITS OWN HAS NO NODE PORTS."""
        if config.nodeport_addresses is None:
            ip = self.ip[fam]
            return [] if ip is None or ip.is_loopback else [ip]
        nets = of_family([parse_net(c) for c in config.nodeport_addresses], fam)
        host = of_family([parse_ip(a) for a in config.host_addresses], fam)
        # Of the loopback addresses: 127.0.0.1 and ::1; the source becomes the node's address.
        return [a for a in host if any(a in n for n in nets) and
                (not a.is_loopback or (config.localhost and self.ip[fam] is not None))]


def detector_of(config, node, fam):
    """The prefixes of detect-local, or None without detection (MASQ-01)."""
    if config.detect == "ClusterCIDR":
        return of_family([parse_net(c) for c in config.cluster_cidrs], fam) or None
    if config.detect == "NodeCIDR":
        return of_family(node.pod_cidrs, fam) or None
    return []  # by interface: detection without prefixes


# ---- all objects ----

def created_of(svc):
    """Creation time in seconds; a service without one counts as the newest."""
    text = svc["metadata"].get("creationTimestamp")
    if not text:
        return float("inf")
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def service_frontends(svc, slices, config, node, fam):
    """[(key, Frontend)] of one service in one family; `slices` as of slices_by_service()."""
    spec = svc["spec"]
    cip = cluster_ip_of(svc, fam)
    if not is_proxied(svc) or cip is None:  # SEL-04
        return []
    vips, externals = addresses_of(svc, fam)
    affinity = affinity_of(svc)
    ranges = ranges_of(svc, fam, vips, node.ip[fam])
    itp_local = spec.get("internalTrafficPolicy") == "Local"
    etp_local = is_etp_local(svc)
    has_detector = detector_of(config, node, fam) is not None
    slices = slices.get((key_of(svc), "IPv%d" % fam), [])
    weights = Weights(svc)
    out = []

    for port in spec.get("ports") or []:
        proto = port.get("protocol") or "TCP"
        name = port.get("name") or ""
        owner = "%s/%s" % key_of(svc) + (":" + name if name else "")
        eps = endpoints_of(slices, name, proto, fam, node.name, weights)
        is_external = bool(port.get("nodePort") or vips or externals)  # SVC-01
        use_cluster = not itp_local or is_external  # SVC-03
        use_local = itp_local or (etp_local and is_external)
        cluster = cluster_set(eps, node.name, node.zone) if use_cluster else []
        local = local_set(eps) if use_local else []
        has_any = bool(cluster) or (use_local and any(  # POL-10
            e.ready or (e.serving and e.terminating) for e in eps))

        def pool(endpoints, has_any=has_any):
            if endpoints:
                weight_of = {(str(e.ip), e.port): e.weight for e in endpoints}
                out = Pool(frozenset(weight_of), affinity)
                out.weights = weight_of
                out.unit = weights.unit if sum(out.weights.values()) > 4096 else 1
                out.hashing = "" if affinity else hashing_of(svc)
                return out
            return DROP if has_any else REJECT  # REJ-01, REJ-02, REJ-03

        # MASQ-07: addresses of its endpoints on this node
        here = frozenset(str(e.ip) for e in cluster + local
                         if e.local and config.preserve_local_source)
        inner = pool(local if itp_local else cluster)
        out.append(((fam, str(cip), proto, port["port"]),
                    Frontend("clusterip", owner, inner, inner, inner, None, "clusterip", here)))

        short = pool(cluster)  # POL-25
        outside = pool(local) if etp_local else short
        pod = short if has_detector else outside  # POL-23
        masq = "host" if etp_local else "always"

        def external(kind, addr, number, allowed=None, owner=owner, proto=proto, outside=outside,
                     pod=pod, short=short, masq=masq, here=here):
            out.append(((fam, str(addr), proto, number),
                        Frontend(kind, owner, outside, pod, short, allowed, masq, here)))

        for vip in vips:
            external("lb", vip, port["port"], ranges)
        if config.external_ips:  # SVC-13
            for ip in externals:
                external("externalip", ip, port["port"])
        if port.get("nodePort"):
            for ip in node.nodeport_addresses(config, fam):
                external("nodeport", ip, port["nodePort"])
    return out


def resolve(objects, config):
    node = Node(objects, config)
    services = [o for o in objects if o.get("kind") == "Service"]
    # BY KIND OF ADDRESS; within one kind THE OLDER SERVICE WINS, then namespace and name (SEL-14).
    services.sort(key=lambda s: (created_of(s),) + key_of(s))
    slices = slices_by_service(objects)
    frontends = {}
    cluster_ips = set()
    conflicts = []
    for fam in (4, 6):
        claims = [c for svc in services
                  for c in service_frontends(svc, slices, config, node, fam)]
        for kind in ("clusterip", "nodeport", "lb", "externalip"):
            for key, frontend in (c for c in claims if c[1].kind == kind):
                if frontend.kind == "clusterip":
                    cluster_ips.add((fam, key[1]))
                if key not in frontends:
                    frontends[key] = frontend
                elif frontends[key].owner.partition(":")[0] != frontend.owner.partition(":")[0]:
                    conflicts.append((key, frontend.owner, frontends[key].owner))
                elif frontend.ranges is not None:  # REJ-10: by the address and port of the VIP
                    frontends[key] = frontends[key]._replace(ranges=frontend.ranges)
    cidrs = [parse_net(c) for c in config.service_cidrs]
    for obj in objects:
        if obj.get("kind") == "ServiceCIDR":
            cidrs += [parse_net(c) for c in obj["spec"].get("cidrs") or []]
    return Result(
        frontends, cluster_ips, conflicts,
        {fam: detector_of(config, node, fam) for fam in (4, 6)},
        {fam: list(ipaddress.collapse_addresses(of_family(cidrs, fam))) for fam in (4, 6)})
