# SPDX-License-Identifier: GPL-2.0-or-later
"""Synthetic clusters of any size and their changes: rolling updates, churn.

Objects of a large cluster differ in a few strings. A Mould encodes one object with markers instead
of these strings and then replaces the markers, thirty times faster than encoding each object.
Lengths in protobuf depend on lengths of strings, so each set of lengths has a separate cast.
"""
import asyncio
import operator
import random
import re
import time

from . import wire
from .schema import KINDS
from .store import Item, StoreError, now, selectable

SLICE_MAX = 100                 # endpoints in a slice, as in a real cluster
FIRST_IP = 16                   # offset of the first service in its range
_MARKER = re.compile(rb"~(\d\d\d)~*")


class Mould:
    """Makes Items of one kind. `build` returns the object for a tuple of strings of at least four
    bytes, each of which occurs in the object at least once."""

    def __init__(self, kind, build):
        self.kind = kind
        self.build = build
        self.casts = {}

    def fill(self, holes):
        """(JSON without its first brace, protobuf) with these strings."""
        holes = [h.encode() for h in holes]
        key = tuple(map(len, holes))
        cast = self.casts.get(key)
        if cast is None:
            cast = self.casts[key] = self._cast(key)
        (js, js_order), (pb, pb_order) = cast
        return js % js_order(holes), pb % pb_order(holes)

    def _cast(self, lengths):
        markers = [("~%03d" % i).ljust(n, "~") for i, n in enumerate(lengths)]
        obj = wire.canonical(self.kind.message, self.build(markers))
        return (self._template(wire.dumps(obj)[1:]),
                self._template(wire.encode(self.kind.message, obj)))

    @staticmethod
    def _template(data):
        order = [int(m) for m in _MARKER.findall(data)]
        return _MARKER.sub(b"%s", data.replace(b"%", b"%%")), operator.itemgetter(*order)


def _managed(manager, api_version, paths):
    return [{"manager": manager, "operation": "Update", "apiVersion": api_version, "time": now(),
             "fieldsType": "FieldsV1", "fieldsV1": paths}]


_SERVICE_PATHS = {"f:spec": {"f:internalTrafficPolicy": {}, "f:ports": {
    ".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {
        ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
    "f:selector": {}, "f:sessionAffinity": {}, "f:type": {}}}
_SLICE_PATHS = {"f:addressType": {}, "f:endpoints": {}, "f:metadata": {
    "f:annotations": {".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {}},
    "f:generateName": {}, "f:labels": {
        ".": {}, "f:endpointslice.kubernetes.io/managed-by": {},
        "f:kubernetes.io/service-name": {}}, "f:ownerReferences": {".": {}}}, "f:ports": {}}


class Plan:
    """Measures of a synthetic cluster, as in load()."""

    DEFAULTS = {"services": 100, "endpoints": 5, "nodes": 10, "zones": 3, "namespaces": 10,
                "ports": 1, "families": "4", "node_ports": 0, "load_balancers": 0,
                "managed_fields": True, "hints": False, "base": True, "node_objects": True}

    def __init__(self, params):
        unknown = set(params) - set(self.DEFAULTS)
        if unknown:
            raise StoreError("%s: no such measure" % ", ".join(sorted(unknown)))
        for name, default in self.DEFAULTS.items():
            setattr(self, name, params.get(name, default))
        if self.families not in ("4", "6", "46"):
            raise StoreError("families: %r is none of 4, 6, 46" % (self.families,))
        if self.services > 900000 or self.services * self.endpoints > 8000000:
            raise StoreError("services: more than the address ranges hold")
        if self.services < 0 or self.endpoints < 0 or min(
                self.nodes, self.zones, self.namespaces, self.ports) < 1:
            raise StoreError("services and endpoints must be at least 0, the others at least 1")
        if self.node_ports + self.load_balancers > 2768:
            raise StoreError("node_ports: the range holds 2768")

    def node(self, i):
        return "node-%04d" % (i % self.nodes)

    def zone(self, i):
        return "zone-%c" % (97 + i % self.nodes % self.zones)


def cluster_ip(i, family):
    n = i + FIRST_IP
    if family == "6":
        return "fd00:10:96::%x:%x" % (n >> 16, n & 65535)
    return "10.%d.%d.%d" % (96 + (n >> 16), n >> 8 & 255, n & 255)


def pod_ip(n, family):
    n += 256
    if family == "6":
        return "fd00:10:244::%x:%x" % (n >> 16, n & 65535)
    return "10.%d.%d.%d" % (128 + (n >> 16), n >> 8 & 255, n & 255)


def uid(space, n):
    return "%08x-%04x-4000-8000-%012x" % (n, space, n)


class Loader:
    """Puts one synthetic cluster into a store."""

    def __init__(self, store, plan):
        self.store = store
        self.plan = plan
        self.created = now()
        self.services = Mould(KINDS["services"], self._service)
        self.slices = {}

    def run(self):
        """Create all objects; return counts."""
        plan = self.plan
        if plan.base:
            for obj in base_objects(plan):
                self.store.put(obj)
        if plan.node_objects:
            for i in range(plan.nodes):
                self.store.put(node_object(plan, i))
        self.store.rv = max(self.store.rv, 1000000)     # all versions have one length
        slices = 0
        for i in range(plan.services):
            self._add_service(i)
            for family in plan.families:
                for start in range(0, max(plan.endpoints, 1), SLICE_MAX):
                    count = min(SLICE_MAX, plan.endpoints - start)
                    self._add_slice(i, family, start, count)
                    slices += 1
        return {"services": plan.services, "slices": slices,
                "endpoints": plan.services * plan.endpoints * len(plan.families)}

    def _names(self, i):
        return "ns-%03d" % (i % self.plan.namespaces), "service-%05d" % i

    def _add_service(self, i):
        ns, name = self._names(i)
        ips = [cluster_ip(i, f) for f in self.plan.families]
        holes = [ns, name, uid(1, i), str(self.store.rv + 1)] + ips
        if i < self.plan.node_ports + self.plan.load_balancers:
            self._add_special(i, holes)
            return
        js, pb = self.services.fill(holes)
        self._commit(KINDS["services"], ns, name, {"app": name}, (ips[0], "ClusterIP"), js, pb)

    def _add_special(self, i, holes):
        """Create a service with a node port, without a Mould."""
        obj = self._service(holes)
        spec = obj["spec"]
        spec["ports"][0]["nodePort"] = 30000 + i
        spec["type"] = "NodePort"
        spec["externalTrafficPolicy"] = "Local" if i % 2 else "Cluster"
        if i >= self.plan.node_ports:
            spec["type"] = "LoadBalancer"
            spec["allocateLoadBalancerNodePorts"] = True
            obj["status"]["loadBalancer"]["ingress"] = [
                {"ip": "198.18.%d.%d" % (i >> 8, i & 255), "ipMode": "VIP"}]
            if i % 2:
                spec["healthCheckNodePort"] = 32767 - i
        self.store.put(dict(obj, kind="Service", apiVersion="v1"))

    def _commit(self, kind, ns, name, labels, fields, js, pb):
        table = self.store.tables[kind.resource]
        key = ns + "/" + name
        item = Item(kind, ns, name, self.store.next_rv(), labels, fields, js, pb)
        self.store.commit(table, item, table.items.get(key))

    def _add_slice(self, i, family, start, count):
        plan = self.plan
        ns, service = self._names(i)
        name = "%s-%s%04x" % (service, "v" + family, start)
        first = i * plan.endpoints + start
        holes = [ns, name, uid(2 + int(family), i * 1000 + start // SLICE_MAX),
                 str(self.store.rv + 1), service, uid(1, i)]
        for n in range(first, first + count):
            holes += (pod_ip(n, family), "%s-%07d" % (service, n), uid(3, n), plan.node(n),
                      plan.zone(n))
        mould = self.slices.get((family, count))
        if mould is None:
            mould = self.slices[family, count] = Mould(
                KINDS["endpointslices"], lambda h: self._slice(h, family, count))
        js, pb = mould.fill(holes)
        self._commit(KINDS["endpointslices"], ns, name, {
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            "kubernetes.io/service-name": service}, (), js, pb)

    def _service(self, h):
        ns, name, uid_, rv = h[:4]
        ips = list(h[4:])
        ports = [{"name": "http" if n == 0 else "port-%d" % n, "protocol": "TCP", "port": 80 + n,
                  "targetPort": 8080 + n} for n in range(self.plan.ports)]
        meta = {"name": name, "namespace": ns, "uid": uid_, "resourceVersion": rv,
                "creationTimestamp": self.created, "labels": {"app": name}}
        if self.plan.managed_fields:
            meta["managedFields"] = _managed("kubectl-client-side-apply", "v1", _SERVICE_PATHS)
        return {"metadata": meta, "spec": {
            "ports": ports, "selector": {"app": name}, "clusterIP": ips[0], "clusterIPs": ips,
            "type": "ClusterIP", "sessionAffinity": "None",
            "ipFamilies": ["IPv" + f for f in self.plan.families],
            "ipFamilyPolicy": "SingleStack" if len(ips) == 1 else "RequireDualStack",
            "internalTrafficPolicy": "Cluster"}, "status": {"loadBalancer": {}}}

    def _slice(self, h, family, count):
        ns, name, uid_, rv, service, service_uid = h[:6]
        endpoints = []
        for n in range(count):
            ip, pod, pod_uid, node, zone = h[6 + 5 * n:11 + 5 * n]
            endpoints.append(endpoint(ip, ns, pod, pod_uid, node, zone, hints=self.plan.hints))
        meta = {"name": name, "generateName": service + "-", "namespace": ns, "uid": uid_,
                "resourceVersion": rv, "generation": 1, "creationTimestamp": self.created,
                "labels": {"endpointslice.kubernetes.io/managed-by":
                           "endpointslice-controller.k8s.io",
                           "kubernetes.io/service-name": service},
                "annotations": {TRIGGER: self.created},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": service,
                                     "uid": service_uid, "controller": True,
                                     "blockOwnerDeletion": True}]}
        if self.plan.managed_fields:
            meta["managedFields"] = _managed("kube-controller-manager", "discovery.k8s.io/v1",
                                             _SLICE_PATHS)
        ports = [{"name": "http" if n == 0 else "port-%d" % n, "protocol": "TCP",
                  "port": 8080 + n} for n in range(self.plan.ports)]
        return {"metadata": meta, "addressType": "IPv" + family, "endpoints": endpoints,
                "ports": ports}


TRIGGER = "endpoints.kubernetes.io/last-change-trigger-time"


def endpoint(ip, ns, pod, pod_uid, node, zone, ready=True, hints=False):
    out = {"addresses": [ip], "conditions": {"ready": ready, "serving": ready,
                                             "terminating": False},
           "targetRef": {"kind": "Pod", "namespace": ns, "name": pod, "uid": pod_uid},
           "nodeName": node, "zone": zone}
    if hints:
        out["hints"] = {"forZones": [{"name": zone}]}
    return out


def node_object(plan, i):
    return {"kind": "Node", "apiVersion": "v1", "metadata": {
        "name": plan.node(i), "labels": {"kubernetes.io/hostname": plan.node(i),
                                         "topology.kubernetes.io/zone": plan.zone(i)}},
            "spec": {"podCIDR": "10.%d.%d.0/24" % (128 + (i >> 8 & 127), i & 255),
                     "podCIDRs": ["10.%d.%d.0/24" % (128 + (i >> 8 & 127), i & 255),
                                  "fd00:10:244:%x::/64" % i]},
            "status": {"addresses": [
                {"type": "InternalIP", "address": "192.168.%d.%d" % (i >> 8 & 255, i & 255)},
                {"type": "InternalIP", "address": "fd00:192::%x" % (i + 1)},
                {"type": "Hostname", "address": plan.node(i)}]}}


def base_objects(plan):
    """Objects of every cluster: the API service, DNS, the range of service addresses."""
    def slice_(name, ns, service, ips, ports):
        return {"kind": "EndpointSlice", "metadata": {
            "name": name, "namespace": ns, "labels": {"kubernetes.io/service-name": service}},
                "addressType": "IPv4", "ports": ports, "endpoints": [
                    {"addresses": [ip], "conditions": {"ready": True}} for ip in ips]}

    dns_ports = [{"name": "dns", "protocol": "UDP", "port": 53},
                 {"name": "dns-tcp", "protocol": "TCP", "port": 53}]
    return [
        {"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
         "spec": {"cidrs": ["10.96.0.0/12", "fd00:10:96::/96"]}},
        {"kind": "Service", "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
         "spec": {"clusterIP": "10.96.0.1", "ports": [
             {"name": "https", "port": 443, "targetPort": 6443}]}},
        slice_("kubernetes", "default", "kubernetes", ["192.168.255.1"],
               [{"name": "https", "port": 6443}]),
        {"kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
         "spec": {"clusterIP": "10.96.0.10", "selector": {"k8s-app": "kube-dns"},
                  "ports": [dict(p, targetPort=p["port"]) for p in dns_ports]}},
        slice_("kube-dns-x", "kube-system", "kube-dns", [
            "10.255.255.1", "10.255.255.2"], dns_ports)]


def load(store, params):
    """Load a synthetic cluster. Measures:

    services, endpoints (each service's), nodes, zones, namespaces, ports (each service's),
    families "4", "6" or "46", node_ports and load_balancers (number of services of this kind),
    managed_fields, hints, base (the API service, DNS, the address range), node_objects
    """
    begin = time.monotonic()
    result = Loader(store, Plan(params)).run()
    result["seconds"] = time.monotonic() - begin
    result["bytes"] = sum(i.encoded for t in store.tables.values() for i in t.items.values())
    result["rv"] = store.rv
    return result


# --------------------------------------------------------------------------------------------
# Changes

class Life:
    """Changes over time, one task each."""

    def __init__(self, store):
        self.store = store
        self.next_pod = 7000000     # pods made here, in addition to those of load()
        self.random = random.Random(2)

    def replace(self, item, obj):
        """Store a changed EndpointSlice with a new generation and trigger time, as its controller
        does."""
        meta = obj["metadata"]
        meta["generation"] = meta.get("generation", 0) + 1
        meta.setdefault("annotations", {})[TRIGGER] = now(fraction=True)
        table = self.store.tables[item.kind.resource]
        new = Item.of(item.kind, obj, self.store.next_rv())
        return self.store.commit(table, new, item)

    def fresh(self, old, ready):
        """A new endpoint that replaces an old one."""
        self.next_pod += 1
        new = {k: v for k, v in old.items()}
        family = "6" if ":" in old["addresses"][0] else "4"
        new["addresses"] = [pod_ip(self.next_pod, family)]
        new["conditions"] = {"ready": ready, "serving": ready, "terminating": False}
        if "targetRef" in old:
            new["targetRef"] = dict(old["targetRef"], name="pod-%d" % self.next_pod,
                                    uid=uid(4, self.next_pod))
        return new

    def slices_of(self, service):
        ns, _, name = service.partition("/")
        table = self.store.tables["endpointslices"]
        return [key for key, i in table.items.items()
                if i.ns == ns and i.labels.get("kubernetes.io/service-name") == name]

    async def roll(self, services, step, endpoints=None):
        """Rolling update of services, one after the other. For each endpoint: a new one is added,
        not ready, then ready; the old one terminates, stops serving, and is removed. `endpoints`:
        the new ones (default: synthetic). Returns the number of changes."""
        given = list(endpoints or ())
        changes = 0
        for service in services:
            keys = self.slices_of(service)
            if not keys:
                raise StoreError("service %s has no slices" % service)
            for key in keys:
                old = [e["addresses"][0] for e in self.slice(key)["endpoints"] or ()]
                for ip in old:
                    changes += await self._roll_one(key, ip, given, step)
        return changes

    def slice(self, key):
        return self.store.get("endpointslices", key).obj

    async def _roll_one(self, key, ip, given, step):
        def add(endpoints):
            old = next(e for e in endpoints if e["addresses"][0] == ip)
            new = dict(given.pop(0)) if given else self.fresh(old, False)
            new["conditions"] = {"ready": False, "serving": False, "terminating": False}
            new_ip.append(new["addresses"][0])
            return endpoints + [new]

        def condition(address, **values):
            def change(endpoints):
                for e in endpoints:
                    if e["addresses"][0] == address():
                        e["conditions"] = values
                return endpoints
            return change

        new_ip = []
        steps = (
            add,
            condition(lambda: new_ip[0], ready=True, serving=True, terminating=False),
            condition(lambda: ip, ready=False, serving=True, terminating=True),
            condition(lambda: ip, ready=False, serving=False, terminating=True),
            lambda endpoints: [e for e in endpoints if e["addresses"][0] != ip])
        for change in steps:
            item = self.store.get("endpointslices", key)
            obj = item.obj
            obj["endpoints"] = change(obj["endpoints"] or [])
            obj = wire.canonical(item.kind.message, obj)
            self.replace(item, obj)
            await asyncio.sleep(step)
        return len(steps)

    async def churn(self, rate, seconds, what="replace", without=None):
        """Change random endpoints, `rate` per second: "replace" gives one a new address, "ready"
        inverts its readiness. Slices of the namespace `without` stay. Returns the achieved numbers."""
        if what not in ("replace", "ready"):
            raise StoreError("what: %r is neither replace nor ready" % (what,))
        table = self.store.tables["endpointslices"]
        keys = [k for k, i in table.items.items() if b'"addresses":[' in i.js and
                not k.startswith("%s/" % without)]
        if not keys or rate <= 0:
            raise StoreError("churn needs slices with endpoints and a rate above 0")
        begin = time.monotonic()
        done = 0
        while True:
            elapsed = time.monotonic() - begin
            if elapsed >= seconds:
                return {"changes": done, "seconds": elapsed}
            for _ in range(min(64, int(elapsed * rate) + 1 - done)):
                self._churn_one(table, self.random.choice(keys), what)
                done += 1
            await asyncio.sleep(max(0, done / rate - (time.monotonic() - begin)))

    def _churn_one(self, table, key, what):
        item = table.items.get(key)
        if item is None:
            return
        obj = item.obj
        if not obj["endpoints"]:
            return
        i = self.random.randrange(len(obj["endpoints"]))
        e = obj["endpoints"][i]
        if what == "replace":
            obj["endpoints"][i] = self.fresh(e, True)
        else:
            ready = not e["conditions"].get("ready")
            e["conditions"] = {"ready": ready, "serving": ready, "terminating": False}
        self.replace(item, obj)


def check_moulds(store):
    """Whether every object is what encoding it the slow way gives; for the tests."""
    for table in store.tables.values():
        for item in table.items.values():
            obj = item.obj
            canonical = wire.canonical(item.kind.message, obj)
            if b"{" + item.js != wire.dumps(canonical) or \
                    item.pb != wire.encode(item.kind.message, canonical) or \
                    obj["metadata"]["resourceVersion"] != str(item.rv) or \
                    item.fields != selectable(item.kind, obj) or \
                    item.labels != (obj["metadata"].get("labels") or {}):
                return item.key
    return None
