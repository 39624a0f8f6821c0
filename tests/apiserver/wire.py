# SPDX-License-Identifier: GPL-2.0-or-later
"""Both encodings of an object, byte for byte those of a real server.

An object is a dict from json.loads(). canonical() converts it to the form that a server stores:
ordered fields, without empty and unknown ones. dumps() writes JSON; encode() and decode() are
protobuf. The last part is the framing of objects: the envelope, lines and frames of a watch.
"""
import calendar
import json
import re
import struct
import time

from .schema import MESSAGES

MAGIC = b"k8s\0"


class WireError(Exception):
    """Bytes that are not a message, or an object without an encoding."""


# --------------------------------------------------------------------------------------------
# JSON

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028",
            "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dumps(obj):
    """Compact JSON bytes with the escapes of a real server."""
    text = _encoder(obj)
    if _ESCAPED.search(text):
        text = _ESCAPED.sub(lambda m: _ESCAPES[m.group()], text)
    return text.encode()


def canonical(message, obj):
    """The form of an object that a server stores and returns, without unknown fields."""
    out = {}
    for f in message.fields:
        value = obj.get(f.name)
        if f.repeated:
            if value:
                out[f.name] = [canonical(f.message, v) for v in value] if f.message else value
            elif f.keep:
                out[f.name] = None
        elif f.message:
            if value is not None or not f.optional:
                out[f.name] = canonical(f.message, value or {})
        elif f.type in ("map", "quantities"):
            if value:
                out[f.name] = {k: value[k] for k in sorted(value)}
        elif f.optional:
            if value is not None:
                out[f.name] = value
        elif f.type == "Time":
            if value or f.keep:
                out[f.name] = value or None
        elif f.type == "IntOrString":
            out[f.name] = value if value is not None else 0
        elif value or f.keep:
            out[f.name] = value if value is not None else _EMPTY[f.type]
    return out


_EMPTY = {"str": "", "int": 0, "bool": False}


# --------------------------------------------------------------------------------------------
# Protobuf, writing

def varint(n):
    if n < 0x80:
        if n >= 0:
            return _SMALL[n]
        n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7f:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


_SMALL = [bytes((i,)) for i in range(128)]


def delimited(number, data):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def _str(value):
    data = value.encode()
    return varint(len(data)) + data


def _time(value):
    """Body of a Time message. The zero time is an empty message."""
    if not value:
        return b"\0"
    m = _RFC3339.match(value)
    if not m:
        raise WireError("%r is not an RFC 3339 time" % value)
    seconds = calendar.timegm(time.strptime(m.group(1), "%Y-%m-%dT%H:%M:%S"))
    if m.group(3) not in ("Z", "z"):
        sign = -1 if m.group(3)[0] == "-" else 1
        seconds -= sign * (int(m.group(3)[1:3]) * 3600 + int(m.group(3)[4:6]) * 60)
    nanos = int((m.group(2) or "0").ljust(9, "0")[:9])
    body = b"\x08" + varint(seconds) + b"\x10" + varint(nanos)
    return varint(len(body)) + body


_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$")


def _int_or_string(value):
    if isinstance(value, str):
        body = b"\x08\x01\x10\x00\x1a" + _str(value)
    else:
        body = b"\x08\x00\x10" + varint(value or 0) + b"\x1a\x00"
    return varint(len(body)) + body


def _fields(value):
    data = dumps(value)
    body = b"\x0a" + varint(len(data)) + data
    return varint(len(body)) + body


def _map(tag, value):
    out = []
    for k in sorted(value):
        body = b"\x0a" + _str(k) + b"\x12" + _str(value[k])
        out.append(tag + varint(len(body)) + body)
    return b"".join(out)


def _quantities(tag, value):
    out = []
    for k in sorted(value):
        quantity = b"\x0a" + _str(str(value[k]))
        body = b"\x0a" + _str(k) + b"\x12" + varint(len(quantity)) + quantity
        out.append(tag + varint(len(body)) + body)
    return b"".join(out)


_SCALAR = {
    "str": lambda v: _str(v or ""),
    "int": lambda v: varint(int(v or 0)),
    "bool": lambda v: b"\x01" if v else b"\x00",
    "Time": _time,
    "IntOrString": _int_or_string,
    "Fields": _fields,
}


def encode(message, obj, extra=b""):
    """Protobuf bytes of an object. `extra` is appended to each message in it."""
    out = []
    for name, tag, scalar, sub, repeated, optional, whole in _plan(message):
        value = obj.get(name)
        if whole:
            if value:
                out.append(whole(tag, value))
        elif repeated:
            for v in value or ():
                out.append(tag)
                if sub:
                    data = encode(sub, v, extra)
                    out.append(varint(len(data)))
                    out.append(data)
                else:
                    out.append(scalar(v))
        elif value is None and optional:
            continue
        elif sub:
            out.append(tag)
            data = encode(sub, value or {}, extra)
            out.append(varint(len(data)))
            out.append(data)
        else:
            out.append(tag)
            out.append(scalar(value))
    out.append(extra)
    return b"".join(out)


def encode_what_fits(message, obj):
    """encode() of an object without its values of wrong types."""
    good = {}
    for f in message.fields:
        value = obj.get(f.name) if isinstance(obj, dict) else None
        try:
            encode(message, {f.name: value})
            good[f.name] = value
        except (TypeError, ValueError, AttributeError, WireError):
            if f.message and isinstance(value, list):
                good[f.name] = [v for v in value if _fits(f.message, v)]
    return encode(message, good)


def _fits(message, obj):
    try:
        encode(message, obj)
    except (TypeError, ValueError, AttributeError, WireError):
        return False
    return True


def _plan(message):
    """Encoders of the fields of a message, cached."""
    plan = _PLANS.get(message.name)
    if plan is None:
        plan = []
        for f in message.numbered:
            wire = 0 if f.type in ("int", "bool") else 2
            whole = {"map": _map, "quantities": _quantities}.get(f.type)
            plan.append((f.name, varint(f.number << 3 | wire), _SCALAR.get(f.type), f.message,
                         f.repeated, f.optional, whole))
        _PLANS[message.name] = plan
    return plan


_PLANS = {}


# --------------------------------------------------------------------------------------------
# Protobuf, reading

def fields(data):
    """The fields of a message in order: (number, wire type, value)."""
    pos = 0
    while pos < len(data):
        key, pos = read_varint(data, pos)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, pos = read_varint(data, pos)
        elif wire == 2:
            size, pos = read_varint(data, pos)
            value = data[pos:pos + size]
            if len(value) != size:
                raise WireError("field %d ends after the message" % number)
            pos += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value = data[pos:pos + size]
            pos += size
        else:
            raise WireError("field %d has wire type %d" % (number, wire))
        yield number, wire, value


def read_varint(data, pos):
    value = shift = 0
    while True:
        if pos >= len(data):
            raise WireError("a number ends after the message")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7f) << shift
        if byte < 0x80:
            return value, pos
        shift += 7
        if shift > 63:
            raise WireError("a number of more than 64 bits")


def decode(message, data):
    """The object that `data` encodes, in canonical form. Unknown fields are an error."""
    raw = {}
    for number, _, value in fields(data):
        f = message.by_number.get(number)
        if f is None:
            raise WireError("%s has no field %d" % (message.name, number))
        if f.type in ("map", "quantities"):
            entry = dict((n, v) for n, _, v in fields(value))
            text = entry.get(2, b"")
            if f.type == "quantities":
                text = dict((n, v) for n, _, v in fields(text)).get(1, b"")
            raw.setdefault(f.name, {})[entry[1].decode()] = text.decode()
        elif f.repeated:
            raw.setdefault(f.name, []).append(_value(f, value))
        else:
            raw[f.name] = _value(f, value)
    return canonical(message, raw)


def _value(f, value):
    if f.message:
        return decode(f.message, value)
    if f.type == "str":
        return value.decode()
    if f.type == "int":
        return value - (1 << 64) if value >> 63 else value
    if f.type == "bool":
        return bool(value)
    parts = dict((n, v) for n, _, v in fields(value))
    if f.type == "Time":
        if not parts:
            return None
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(parts.get(1, 0)))
        nanos = parts.get(2, 0)
        return text + (".%09d" % nanos).rstrip("0").rstrip(".") + "Z" if nanos else text + "Z"
    if f.type == "IntOrString":
        return parts.get(3, b"").decode() if parts.get(1, 0) else parts.get(2, 0)
    if f.type == "Fields":
        return json.loads(parts.get(1, b"{}"))
    raise WireError("no reader for " + f.type)


# --------------------------------------------------------------------------------------------
# Framing

def type_meta(api_version, kind):
    return delimited(1, delimited(1, api_version.encode()) + delimited(2, kind.encode()))


def envelope(api_version, kind, raw):
    """A protobuf body: magic, and the message Unknown with `raw` and its type."""
    return MAGIC + type_meta(api_version, kind) + delimited(2, raw) + b"\x1a\x00\x22\x00"


def open_envelope(data):
    """(apiVersion, kind, raw) of a protobuf body."""
    if data[:4] != MAGIC:
        raise WireError("no magic at the start: %r" % data[:4])
    parts = dict((n, v) for n, _, v in fields(data[4:]))
    meta = dict((n, v) for n, _, v in fields(parts.get(1, b"")))
    return meta.get(1, b"").decode(), meta.get(2, b"").decode(), parts.get(2, b"")


def open_frames(data):
    """The events of a protobuf watch stream: (type, apiVersion, kind, raw), and the remaining
    bytes."""
    events = []
    pos = 0
    while pos + 4 <= len(data):
        size, = struct.unpack_from(">I", data, pos)
        if pos + 4 + size > len(data):
            break
        event = dict((n, v) for n, _, v in fields(data[pos + 4:pos + 4 + size]))
        body = dict((n, v) for n, _, v in fields(event[2]))[1]
        events.append((event[1].decode(),) + open_envelope(body))
        pos += 4 + size
    return events, data[pos:]


class Framer:
    """Wraps Items of one kind into events and lists; an instance for each kind and encoding."""

    def __init__(self, kind):
        self.kind = kind
        head = dumps({"kind": kind.kind, "apiVersion": kind.api_version})[1:-1]
        self.json_heads = {
            t: b'{"type":"%s","object":{%s,' % (t.encode(), head)
            for t in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")}
        self.meta = MAGIC + type_meta(kind.api_version, kind.kind) + b"\x12"
        self.pb_heads = {t: delimited(1, t.encode()) + b"\x12" for t in self.json_heads}

    def json_event(self, type_, js):
        return b"%s%s}\n" % (self.json_heads[type_], js)

    def pb_event(self, type_, pb):
        head = self.pb_heads[type_]
        size = varint(len(pb))
        raw = len(self.meta) + len(size) + len(pb) + 4
        raw_size = varint(raw)
        ext = 1 + len(raw_size) + raw
        ext_size = varint(ext)
        return b"".join((struct.pack(">I", len(head) + len(ext_size) + ext), head, ext_size,
                         b"\x0a", raw_size, self.meta, size, pb, b"\x1a\x00\x22\x00"))

    def json_list(self, meta, items):
        """Parts of a list body, to be joined or streamed."""
        yield b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[' % (
            self.kind.kind.encode(), self.kind.api_version.encode(), dumps(meta))
        sep = b"{"
        for item in items:
            yield sep
            yield item.js
            sep = b",{"
        yield b"]}\n"

    def pb_list(self, meta, items):
        head = delimited(1, encode(MESSAGES["ListMeta"], meta))
        sizes = [varint(len(i.pb)) for i in items]
        raw = len(head) + sum(1 + len(s) + len(i.pb) for s, i in zip(sizes, items))
        yield (MAGIC + type_meta(self.kind.api_version, self.kind.kind + "List") + b"\x12" +
               varint(raw) + head)
        for size, item in zip(sizes, items):
            yield b"\x12" + size
            yield item.pb
        yield b"\x1a\x00\x22\x00"


def status_body(status, encoding):
    """A Status object as a response body."""
    status = canonical(MESSAGES["Status"], status)
    if encoding == "pb":
        return envelope("v1", "Status", encode(MESSAGES["Status"], status))
    return dumps(dict({"kind": "Status", "apiVersion": "v1"}, **status)) + b"\n"


def error_event(status, encoding):
    """The ERROR event that carries a Status."""
    if encoding == "pb":
        raw = status_body(status, "pb")
        event = delimited(1, b"ERROR") + delimited(2, delimited(1, raw))
        return struct.pack(">I", len(event)) + event
    return b'{"type":"ERROR","object":' + status_body(status, "json")[:-1] + b"}\n"
