# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults on request. A fault is a dict; `kind` is the effect, the other keys select responses:

    resource, verb, encoding, path   only these responses; verb is get, list, watch (which includes
                                     watchlist), watchlist, create; path is a regular expression
    skip, count                      number of matches without effect, then number with (default
                                     all)
    lasts                            seconds until the fault ends by itself

Kinds with another response:

    status      code, reason, message, retry_after; plain=true for text instead of a Status,
                or body and type for any other response
    delay       wait `delay` seconds before answering
    type        the right body with the wrong Content-Type `value`

Kinds that cut a response at a point `at`: "request" (before the first byte), "headers", "object"
(in the middle of the next event, or of a list), or a number of bytes of the body:

    stall       stop sending, keep the connection                (at request)
    reset       TCP RST; stream=true: only RST_STREAM on HTTP/2  (at request)
    close       FIN without the end of the body                  (at object)
    truncate    the proper end of the body, too early            (at object)
    chunk       a chunk or DATA frame that is shorter than its length field, then FIN
    garbage     `bytes` random bytes (default 256), below HTTP framing with raw=true, then on with
                the body; with end=true then FIN

Kinds that change timing or content:

    slow        `rate` bytes per second in pieces of `piece` (default 1)
    lag         each event is delayed by `delay` seconds, in order
    drop        events are lost
    duplicate   each event is sent `times` times (default 2)
    unknown     objects have unknown fields, at every level
    huge        objects have an annotation of `bytes` bytes (default 4 MiB)
"""
import asyncio
import os
import re
import time

from . import wire
from .store import Item

ANSWERS = ("status", "delay", "type")
CUTS = {"stall": "request", "reset": "request", "close": "object", "truncate": "object",
        "chunk": "object", "garbage": "object"}
EVENTS = ("lag", "drop", "duplicate")
OBJECTS = ("unknown", "huge")
KINDS = ANSWERS + tuple(CUTS) + EVENTS + OBJECTS + ("slow",)
KNOWN = {"kind", "resource", "verb", "encoding", "path", "skip", "count", "lasts", "code", "reason",
         "message", "retry_after", "plain", "body", "type", "delay", "value", "at", "stream",
         "bytes", "raw", "end", "rate", "piece", "times"}


class FaultError(ValueError):
    """An invalid fault; str() is the reason."""


class Cut(ConnectionError):
    """Raised after the response was cut; the caller only returns."""


class Fault:
    """One fault. Parameters are in `p`."""

    def __init__(self, number, p):
        if p.get("kind") not in KINDS:
            raise FaultError("kind: %r is none of %s" % (p.get("kind"), ", ".join(KINDS)))
        unknown = set(p) - KNOWN
        if unknown:
            raise FaultError("%s: no such parameter" % ", ".join(sorted(unknown)))
        self.id = number
        self.kind = p["kind"]
        self.p = p
        self.skip = p.get("skip", 0)
        self.count = p.get("count")
        self.used = 0
        self.at = p.get("at", CUTS.get(self.kind))
        if self.kind in CUTS and self.at not in ("request", "headers", "object") and \
                not isinstance(self.at, int):
            raise FaultError("at: %r is neither request, headers, object nor a number" % self.at)
        if self.kind == "slow" and not p.get("rate", 0) > 0:
            raise FaultError("rate: must be above 0")
        if self.kind in ("delay", "lag") and not p.get("delay", 0) > 0:
            raise FaultError("delay: must be above 0")
        self.until = time.monotonic() + p["lasts"] if "lasts" in p else None
        self.path = re.compile(p["path"]) if "path" in p else None

    def expired(self):
        return self.until is not None and time.monotonic() >= self.until

    def over(self):
        return self.count == 0 or self.expired()

    def concerns(self, route):
        p = self.p
        if "resource" in p and p["resource"] != route.resource:
            return False
        if "verb" in p and p["verb"] != route.verb and \
                not (p["verb"] == "watch" and route.verb == "watchlist"):
            return False
        if "encoding" in p and p["encoding"] != route.encoding:
            return False
        return not self.path or bool(self.path.search(route.path))

    def take(self):
        """Count a match; return whether the fault has its effect this time."""
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.count is not None:
            self.count -= 1
        self.used += 1
        return True

    def describe(self):
        return dict(self.p, id=self.id, used=self.used, over=self.over())


class Faults:
    """All faults of a server. False if there are none, for a cheap test in fast paths."""

    def __init__(self):
        self.all = []
        self.next = 1

    def __bool__(self):
        return bool(self.all)

    def add(self, p):
        fault = Fault(self.next, p)
        self.next += 1
        self.all.append(fault)
        return fault

    def clear(self, number=None):
        self.all = [f for f in self.all if number is not None and f.id != number]

    def find(self, route, *kinds):
        """The first active fault of these kinds that selects this response."""
        if not self.all:
            return None
        for f in self.all:
            if f.kind in kinds and not f.over() and f.concerns(route):
                return f
        return None


class Shaper:
    """Sends the body of a response with the effects of faults. A unit is an event, or a part of
    a list."""

    def __init__(self, ex, faults, route):
        self.ex = ex
        self.faults = faults
        self.route = route
        self.cutting = False

    async def before(self, point):
        """Apply the cuts at "request" or "headers"."""
        fault = self._cut(lambda f: f.at == point)
        if fault and fault.take():
            await self._act(fault, b"", 0)

    def _cut(self, test):
        if not self.faults:
            return None
        for f in self.faults.all:
            if f.kind in CUTS and not f.over() and test(f) and f.concerns(self.route):
                return f
        return None

    async def send(self, data, total=None):
        """Send a unit. `total` is the length of the whole body when the unit is part of a list:
        "object" then means its middle."""
        if not self.faults or self.cutting:
            self.ex.write(data)
            await self.ex.drain()
            return
        middle = len(data) // 2 if total is None else total // 2 - self.ex.sent
        fault = self._cut(lambda f: f.at != "request" and self._position(f, middle) <= len(data))
        if not fault or not fault.take():
            await self._write(data)
            return
        position = max(0, self._position(fault, middle))
        if fault.kind != "chunk":
            await self._write(data[:position])
        await self._act(fault, data, position)
        await self._write(data[position:])

    def _position(self, fault, middle):
        """Offset of the fault in the next unit."""
        if fault.at == "object":
            return max(middle, 0)
        if fault.at == "headers":
            return 0
        return fault.at - self.ex.sent

    async def _write(self, data):
        fault = self.faults.find(self.route, "slow")
        if not fault or not data:
            self.ex.write(data)
            await self.ex.drain()
            return
        fault.used += 1
        piece = fault.p.get("piece", 1)
        for i in range(0, len(data), piece):
            if fault.over() or fault not in self.faults.all:
                self.ex.write(data[i:])
                break
            self.ex.write(data[i:i + piece])
            await self.ex.drain()
            await asyncio.sleep(piece / fault.p["rate"])
        await self.ex.drain()

    async def _act(self, fault, data, position):
        """Apply a cut. Returns only if the response continues."""
        ex, conn = self.ex, self.ex.connection
        if fault.kind == "garbage":
            junk = os.urandom(fault.p.get("bytes", 256))
            if fault.p.get("raw") or ex.status is None:
                conn.raw(junk)
            else:
                ex.write(junk)
            if not fault.p.get("end"):
                return
            await ex.drain()
            conn.close()
        elif fault.kind == "stall":
            await self._stall(fault)
            return
        elif fault.kind == "reset" and fault.p.get("stream"):
            ex.reset_stream()
        elif fault.kind == "reset":
            conn.reset()
        elif fault.kind == "close":
            conn.close()
        elif fault.kind == "truncate":
            ex.end()
        elif fault.kind == "chunk":
            ex.partial(data[:position], len(data))
            conn.close()
        raise Cut(fault.kind)

    async def _stall(self, fault):
        """Send nothing until the fault ends or is removed, or the client disconnects."""
        self.cutting = True
        lost = self.ex.connection.lost
        while fault in self.faults.all and not fault.expired():
            try:
                await asyncio.wait_for(lost.wait(), 0.02)
                raise ConnectionResetError("the client disconnected")
            except asyncio.TimeoutError:
                pass
        self.cutting = False


# --------------------------------------------------------------------------------------------
# Invalid objects

_UNKNOWN_JSON = {"none": None, "list": [1, -2.5e3, "\u00e4\"\\\n", [[]], {}],
                 "map": {"a": {"b": [{}]}}, "yes": True}
_UNKNOWN_PB = (wire.varint(1999 << 3) + wire.varint((1 << 64) - 1) +
               wire.delimited(2000, b"\0\xff") + wire.varint(2001 << 3 | 1) + b"12345678" +
               wire.varint(2002 << 3 | 5) + b"1234")


def with_unknown_fields(item):
    """The item with unknown fields in each of its messages."""
    pb = wire.encode(item.kind.message, item.obj, _UNKNOWN_PB)
    return Item(item.kind, item.ns, item.name, item.rv, item.labels, item.fields,
                wire.dumps(_sprinkle(item.obj))[1:], pb)


def _sprinkle(value):
    if isinstance(value, list):
        return [_sprinkle(v) for v in value]
    if not isinstance(value, dict) or all(isinstance(v, str) for v in value.values()):
        return value
    out = {"vipdBefore": _UNKNOWN_JSON}
    for k, v in value.items():
        out[k] = v if k in ("labels", "annotations", "selector") else _sprinkle(v)
    out["vipdAfter"] = _UNKNOWN_JSON
    return out


def with_annotation_of(item, size):
    """The item with an annotation of `size` bytes."""
    obj = item.obj
    obj["metadata"].setdefault("annotations", {})["example.org/huge"] = "x" * size
    obj = wire.canonical(item.kind.message, obj)
    return Item(item.kind, item.ns, item.name, item.rv, item.labels, item.fields,
                wire.dumps(obj)[1:])


def changed(faults, route, item):
    """The item with the effects of faults."""
    fault = faults.find(route, "unknown")
    if fault and fault.take():
        item = with_unknown_fields(item)
    fault = faults.find(route, "huge")
    if fault and fault.take():
        item = with_annotation_of(item, fault.p.get("bytes", 4 << 20))
    return item
