# SPDX-License-Identifier: GPL-2.0-or-later
"""The objects, their versions, and their watches.

Objects are stored encoded (Item): as JSON, and as protobuf from the first request for it. A change
is an Event with the items before and after. Watches with equal selection and encoding share a
Group, which encodes an event once for all of them.
"""
import bisect
import collections
import datetime
import itertools
import json
import random
import uuid

from . import wire
from .schema import BY_KIND, KINDS, MESSAGES

PUT, DELETE = "PUT", "DELETE"


class StoreError(Exception):
    """An invalid change; str() is the reason."""


class Item:
    """A version of an object.

    js is the object's JSON without the first brace, kind and apiVersion: a part of both lists and
    events.
    """

    __slots__ = ("kind", "key", "ns", "name", "rv", "labels", "fields", "js", "_pb")

    def __init__(self, kind, ns, name, rv, labels, fields, js, pb=None):
        self.kind = kind
        self.ns = ns
        self.name = name
        self.key = ns + "/" + name if kind.namespaced else name
        self.rv = rv
        self.labels = labels
        self.fields = fields
        self.js = js
        self._pb = pb

    @classmethod
    def of(cls, kind, obj, rv):
        """Make the Item of a canonical object, with this resourceVersion."""
        obj["metadata"]["resourceVersion"] = str(rv)
        meta = obj["metadata"] = wire.canonical(MESSAGES["ObjectMeta"], obj["metadata"])
        return cls(kind, meta.get("namespace", ""), meta["name"], rv, meta.get("labels") or {},
                   selectable(kind, obj), wire.dumps(obj)[1:])

    @property
    def obj(self):
        """A decoded copy of the object, which the caller may change."""
        return json.loads(b"{" + self.js)

    @property
    def pb(self):
        if self._pb is None:
            try:
                self._pb = wire.encode(self.kind.message, self.obj)
            except (TypeError, ValueError, AttributeError, wire.WireError):
                self._pb = wire.encode_what_fits(self.kind.message, self.obj)
        return self._pb

    @property
    def encoded(self):
        """Size of both encodings."""
        return len(self.js) + len(self._pb or b"")

    def at(self, rv):
        """The object with another resourceVersion, for DELETED events."""
        obj = self.obj
        obj["metadata"]["resourceVersion"] = str(rv)
        return Item(self.kind, self.ns, self.name, rv, self.labels, self.fields,
                    wire.dumps(obj)[1:])


def selectable(kind, obj):
    """Values of the fields that field selectors can name."""
    values = []
    for path in kind.selectable:
        value = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        values.append(value if isinstance(value, str) else str(bool(value)).lower()
                      if isinstance(value, bool) or path == "spec.unschedulable" else "")
    return tuple(values)


Event = collections.namedtuple("Event", "rv item old")
Event.__doc__ = """A change: `item` is None for a removal, `old` for a creation."""


class Group:
    """Watches of a table with equal selection and encoding."""

    def __init__(self, predicate, encoding, framer):
        self.predicate = predicate
        self.encoding = encoding
        self.framer = framer
        self.watches = set()

    def translate(self, event):
        """(type, Item) of an event in this selection, or None. An object that leaves the selection
        is DELETED, one that enters it ADDED (IN-02, IN-04)."""
        p = self.predicate
        new = event.item if event.item and (p is None or p(event.item)) else None
        old = event.old if event.old and (p is None or p(event.old)) else None
        if new:
            return ("MODIFIED" if old else "ADDED"), new
        if old:
            return "DELETED", old.at(event.rv)
        return None

    def frame(self, type_, item):
        if self.encoding == "pb":
            return self.framer.pb_event(type_, item.pb)
        return self.framer.json_event(type_, item.js)


class Snapshot:
    """All items of a table at one version, in key order."""

    def __init__(self, rv, items):
        self.rv = rv
        self.items = items
        self.keys = [i.key for i in items]

    def after(self, key):
        """Index of the first item with at least this key."""
        return bisect.bisect_left(self.keys, key)


class Table:
    """All objects of one resource."""

    def __init__(self, kind, history):
        self.kind = kind
        self.framer = wire.Framer(kind)
        self.items = {}
        self.events = collections.deque(maxlen=history)
        self.floor = 0          # lower versions are expired
        self.groups = {}
        self.snapshots = collections.OrderedDict()
        self.changed = True     # since the last snapshot

    def record(self, event):
        if len(self.events) == self.events.maxlen:
            self.floor = self.events[0].rv
        self.events.append(event)
        self.changed = True

    def since(self, rv):
        """Events after version `rv`; None if expired."""
        if rv < self.floor:
            return None
        newer = itertools.takewhile(lambda e: e.rv > rv, reversed(self.events))
        return list(newer)[::-1]

    def snapshot(self, rv):
        """The items at the current version `rv`."""
        if self.changed or not self.snapshots:
            latest = Snapshot(rv, [self.items[k] for k in sorted(self.items)])
            self.changed = False
        else:
            latest = self.snapshots[next(reversed(self.snapshots))]
        self.snapshots[rv] = latest
        self.snapshots.move_to_end(rv)
        while len(self.snapshots) > 8:
            self.snapshots.popitem(last=False)
        return latest

    def snapshot_at(self, rv, current):
        """The items at an earlier version; None if expired."""
        if rv in self.snapshots:
            return self.snapshots[rv]
        newer = self.since(rv)
        if newer is None:
            return None
        items = dict(self.items)
        for event in reversed(newer):
            if event.old:
                items[event.old.key] = event.old
            else:
                items.pop(event.item.key, None)
        self.snapshot(current)
        self.snapshots[rv] = Snapshot(rv, [items[k] for k in sorted(items)])
        self.snapshots.move_to_end(current)
        return self.snapshots[rv]

    def group(self, selection, predicate, encoding):
        key = selection + (encoding,)
        if key not in self.groups:
            self.groups[key] = Group(predicate, encoding, self.framer)
        return self.groups[key]


class Store:
    """All tables. Versions are global, as in a real server."""

    def __init__(self, history=50000, defaults=True):
        self.rv = 1
        self.defaults = defaults
        self.random = random.Random(1)
        self.tables = {name: Table(kind, history) for name, kind in KINDS.items()}

    def table_of(self, obj):
        kind = BY_KIND.get(obj.get("kind"))
        if kind is None:
            raise StoreError("kind: %r is not served here" % (obj.get("kind"),))
        if obj.get("apiVersion", kind.api_version) != kind.api_version:
            raise StoreError("apiVersion: %r, %s has %s" % (
                obj["apiVersion"], kind.kind, kind.api_version))
        return self.tables[kind.resource]

    def uid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def next_rv(self):
        self.rv += 1
        return self.rv

    def put(self, obj, raw=False, force=False):
        """Create or replace an object. Returns the new item, or the old one if nothing changed.

        raw: store the object unchanged, with unknown fields and wrong types, without defaults.
        force: make an event even if nothing changed.
        """
        table = self.table_of(obj)
        kind = table.kind
        obj = {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}
        obj["metadata"] = meta = dict(obj.get("metadata") or {})
        if not isinstance(meta.get("name"), str) or not meta["name"]:
            raise StoreError("%s: metadata.name is missing" % kind.kind)
        if kind.namespaced:
            meta.setdefault("namespace", "default")
        else:
            meta.pop("namespace", None)
        key = meta["namespace"] + "/" + meta["name"] if kind.namespaced else meta["name"]
        old = table.items.get(key)
        before = old.obj if old else None
        self._stamp(kind, meta, before)
        if not raw:
            try:
                if self.defaults:
                    default(kind, obj)
                obj = wire.canonical(kind.message, obj)
                wire.encode(kind.message, obj)
            except (TypeError, ValueError, AttributeError, KeyError, wire.WireError) as e:
                raise StoreError("%s %s cannot be encoded: %s" % (kind.kind, key, e)) from e
        if before and not force and _same(before, obj):
            return old
        if kind.resource == "endpointslices" and before:
            obj["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        return self.commit(table, Item.of(kind, obj, self.next_rv()), old)

    def _stamp(self, kind, meta, before):
        """Set the metadata that servers set."""
        if before:
            for field in ("uid", "creationTimestamp", "generation"):
                if field in before["metadata"]:
                    meta[field] = before["metadata"][field]
            return
        meta.setdefault("uid", self.uid())
        meta.setdefault("creationTimestamp", now())
        if kind.resource == "endpointslices":
            meta.setdefault("generation", 1)

    def patch(self, resource, key, change, force=False):
        """Apply a JSON merge patch (RFC 7386)."""
        item = self.get(resource, key)
        obj = merge(item.obj, change)
        obj["kind"] = item.kind.kind
        return self.put(obj, force=force)

    def delete(self, resource, key):
        item = self.get(resource, key)
        table = self.tables[resource]
        del table.items[key]
        return self.publish(table, Event(self.next_rv(), None, item))

    def get(self, resource, key):
        table = self.tables.get(resource)
        if table is None:
            raise StoreError("resource: %r is not served here" % (resource,))
        item = table.items.get(key)
        if item is None:
            raise StoreError("%s %s does not exist" % (resource, key))
        return item

    def commit(self, table, item, old):
        table.items[item.key] = item
        self.publish(table, Event(item.rv, item, old))
        return item

    def publish(self, table, event):
        """Record an event and send it to all watches."""
        table.record(event)
        for group in table.groups.values():
            if not group.watches:
                continue
            seen = group.translate(event)
            if seen:
                data = group.frame(*seen)
                for watch in tuple(group.watches):
                    watch.push(data, seen, event.rv)
        return event

    def compact(self, resource=None):
        """Drop the history: older versions are Expired from now on."""
        self.rv += 1
        for name, table in self.tables.items():
            if resource in (None, name):
                table.events.clear()
                table.floor = self.rv
                table.snapshots.clear()
                table.changed = True

    def rewind(self, rv):
        """Return to a lower version, as after the restore of a backup, and drop the history."""
        self.rv = rv
        for table in self.tables.values():
            table.events.clear()
            table.floor = rv
            table.snapshots.clear()
            table.changed = True


def now(fraction=False):
    t = datetime.datetime.now(datetime.timezone.utc)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if fraction else "%Y-%m-%dT%H:%M:%SZ")


def merge(target, change):
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    out = dict(target) if isinstance(target, dict) else {}
    for k, v in change.items():
        if v is None:
            out.pop(k, None)
        else:
            out[k] = merge(out.get(k), v)
    return out


def _same(before, after):
    a = dict(before, metadata=dict(before["metadata"], resourceVersion=""))
    b = dict(after, metadata=dict(after["metadata"], resourceVersion=""))
    return a == b


def default(kind, obj):
    """Set the defaults of a real server."""
    if kind.resource == "services":
        obj["spec"] = _default_service(dict(obj.get("spec") or {}))
    elif kind.resource == "endpointslices":
        obj["ports"] = [dict({"name": "", "protocol": "TCP"}, **p) for p in obj.get("ports") or ()]


def _default_service(spec):
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
    if spec["type"] == "ExternalName":
        return spec
    ports = []
    for p in spec.get("ports") or ():
        p = dict({"protocol": "TCP"}, **p)
        p.setdefault("targetPort", p.get("port"))
        ports.append(p)
    spec["ports"] = ports
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("clusterIP"):
        ips = spec.setdefault("clusterIPs", [spec["clusterIP"]])
        if spec["clusterIP"] != "None":
            families = ["IPv6" if ":" in ip else "IPv4" for ip in ips]
            spec.setdefault("ipFamilies", families)
        spec.setdefault("ipFamilyPolicy", "SingleStack" if len(ips) < 2 else "RequireDualStack")
    return spec
