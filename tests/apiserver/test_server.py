# SPDX-License-Identifier: GPL-2.0-or-later
"""The API server compared with recordings of a real one, and each of its faults."""
import base64
import contextlib
import gzip
import http.client
import json
import os
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
import types
import urllib.parse

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

from . import cluster, recordings, selection, transport, wire
from .api import make_continue, negotiate, open_continue
from .client import ApiServerError, Control, Server
from .schema import KINDS, MESSAGES
from .store import Item, Store

RECORDED = recordings.load()
PB = "application/vnd.kubernetes.protobuf"
LISTS = {"services": "services-list", "endpointslices": "endpointslices-list",
         "nodes": "node-list", "servicecidrs": "servicecidrs-list"}
URLS = {name: "%s/%s" % (k.prefix, name) for name, k in KINDS.items()}
SELECT = {
    "services": {"labelSelector": "!service.kubernetes.io/service-proxy-name",
                 "fieldSelector": "spec.clusterIP!=None"},
    "endpointslices": {"labelSelector": "!service.kubernetes.io/headless"},
    "nodes": {"fieldSelector": "metadata.name=n1"},
    "servicecidrs": {}}
WATCHLIST = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan",
             "allowWatchBookmarks": "true"}


# --------------------------------------------------------------------------------------------
# Clients

@pytest.fixture(scope="module")
def shared():
    """A server shared by all tests that do not change it."""
    with Server(plain=True) as server:
        yield server
        assert server.errors() == ""


@pytest.fixture
def api(shared):
    yield shared
    shared.clear()
    shared.listen(state="open")
    shared.set(**DEFAULTS)
    shared.replay(off=True)
    shared.connections(do="reset")
    for resource in KINDS:
        shared.delete(resource)


DEFAULTS = {"encodings": ["json", "pb"], "http2": True, "watchlist": "serve", "spec_fields": True, "bookmarks": True,
            "bookmark_seconds": 1.0, "version_wait": 3.0, "chunk": 2048, "gzip": True,
            "plain_auth": False, "ready": True, "backlog": 1000000}


def connect(api, secure=False, **tls):
    """An http.client connection to the server."""
    url = urllib.parse.urlsplit(api.https if secure else api.http)
    if not secure:
        return http.client.HTTPConnection(url.hostname, url.port, timeout=10)
    context = tls.pop("context", None) or trusting(api)
    if "cert" in tls:
        context.load_cert_chain(api.path(tls["cert"] + ".crt"), api.path(tls["cert"] + ".key"))
    return http.client.HTTPSConnection(url.hostname, url.port, timeout=10, context=context)


def trusting(api, alpn=None):
    context = ssl.create_default_context(cafile=api.path("ca.crt"))
    if alpn:
        context.set_alpn_protocols([alpn])
    return context


def target(path, **query):
    return path + ("?" + urllib.parse.urlencode(query) if query else "")


def get(api, path, headers=None, secure=False, tls=None, method="GET", body=None, **query):
    """(response, body) of a request on a separate connection."""
    with contextlib.closing(connect(api, secure, **(tls or {}))) as conn:
        conn.request(method, target(path, **query), body=body, headers=headers or {})
        response = conn.getresponse()
        return response, response.read()


def get_json(api, path, **query):
    response, body = get(api, path, **query)
    return response.status, json.loads(body)


def eventually(test, seconds=5):
    """Wait until the condition is true; fail after the limit."""
    deadline = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class WatchStream:
    """A watch over plain HTTP/1.1: events as dicts, in order."""

    def __init__(self, api, resource, headers=None, pb=False, **query):
        query.setdefault("watch", "1")
        url = urllib.parse.urlsplit(api.http)
        lines = ["GET %s HTTP/1.1" % target(URLS[resource], **query), "Host: x"]
        lines += ["%s: %s" % h for h in (headers or {}).items()]
        if pb:
            lines.append("Accept: " + PB)
        self.sock = socket.create_connection((url.hostname, url.port), 10)
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.pb = pb
        self.raw = b""          # not yet parsed
        self.buffer = b""       # of the body, not yet an event
        self.queue = []
        while b"\r\n\r\n" not in self.raw:
            self.raw += self._receive()
        head, self.raw = self.raw.split(b"\r\n\r\n", 1)
        status, *headers = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = [tuple(h.split(": ", 1)) for h in headers]

    def _receive(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError("the connection ends within the body")
        return data

    def chunk(self):
        """The next chunk; b"": the last one."""
        while b"\r\n" not in self.raw:
            self.raw += self._receive()
        size, rest = self.raw.split(b"\r\n", 1)
        size = int(size, 16)
        while len(rest) < size + 2:
            rest += self._receive()
        assert rest[size:size + 2] == b"\r\n"
        self.raw = rest[size + 2:]
        return rest[:size]

    def event(self):
        """The next event; None: end of the stream."""
        while not self.queue:
            data = self.chunk()
            if not data:
                assert self.buffer == b"", "the stream ends within an event"
                return None
            self.buffer += data
            self._split()
        return self.queue.pop(0)

    def silent(self, seconds):
        """Whether no data arrives in this time. Data that arrives is kept."""
        if self.queue or not select.select([self.sock], [], [], seconds)[0]:
            return not self.queue
        self.raw += self._receive()
        return False

    def _split(self):
        if self.pb:
            events, self.buffer = wire.open_frames(self.buffer)
            for type_, api_version, kind, raw in events:
                message = MESSAGES[kind]
                self.queue.append({"type": type_, "object": dict(
                    wire.decode(message, raw), kind=kind, apiVersion=api_version)})
            return
        *lines, self.buffer = self.buffer.split(b"\n")
        self.queue += [json.loads(line) for line in lines]

    def brief(self):
        """The next event as (type, name, version)."""
        event = self.event()
        if event is None:
            return None
        meta = event["object"]["metadata"]
        return event["type"], meta.get("name"), int(meta["resourceVersion"])

    def until_synced(self):
        """Names of the initial objects; reads up to the bookmark that ends them."""
        names = []
        while True:
            event = self.event()
            meta = event["object"]["metadata"]
            if event["type"] == "BOOKMARK":
                assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
                self.synced_at = int(meta["resourceVersion"])
                return names
            assert event["type"] == "ADDED"
            names.append(meta["name"])

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def watchlist(api, resource, **query):
    return WatchStream(api, resource, **dict(WATCHLIST, **query))


def raw_request(api, path, headers=(), secure=False, timeout=5):
    """The bytes of a connection until it ends, and how it ends: "eof", "reset", "silent", or "cut"
    (TLS without close_notify)."""
    url = urllib.parse.urlsplit(api.https if secure else api.http)
    sock = socket.create_connection((url.hostname, url.port), timeout)
    if secure:
        context = trusting(api)
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        sock = context.wrap_socket(sock, server_hostname=url.hostname, suppress_ragged_eofs=False)
    lines = ["GET %s HTTP/1.1" % path, "Host: x"] + list(headers)
    if secure:
        lines.append("Authorization: Bearer " + api.token)
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    data = b""
    with sock:
        while True:
            try:
                part = sock.recv(65536)
            except (ConnectionResetError, ssl.SSLEOFError):
                # ssl reports FIN and RST alike; the state of the socket differs (TCP_CLOSE is RST)
                state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
                return data, "reset" if state == 7 else "cut"
            except TimeoutError:
                return data, "silent"
            if not part:
                return data, "eof"
            data += part


class H2Client:
    """A minimal HTTP/2 client."""

    def __init__(self, api):
        url = urllib.parse.urlsplit(api.https)
        sock = socket.create_connection((url.hostname, url.port), 10)
        self.sock = trusting(api, "h2").wrap_socket(sock, server_hostname=url.hostname)
        assert self.sock.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.token = api.token
        self.host = url.netloc
        self.events = []
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def request(self, path, **headers):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (":method", "GET"), (":path", path), (":scheme", "https"), (":authority", self.host),
            ("authorization", "Bearer " + self.token)] + list(headers.items()), end_stream=True)
        self.flush()
        return stream

    def next(self):
        """The next event of h2; None: the server closed the connection."""
        while not self.events:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.events = self.h2.receive_data(data)
            for e in self.events:
                if isinstance(e, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            self.flush()
        return self.events.pop(0)

    def wait(self, kind, stream=None):
        """The next event of a kind on a stream."""
        while True:
            event = self.next()
            assert event is not None, "the connection ended before " + kind.__name__
            if isinstance(event, kind) and stream in (None, getattr(event, "stream_id", None)):
                return event

    def body(self, stream):
        """The whole body of a stream."""
        data = b""
        while True:
            event = self.next()
            if getattr(event, "stream_id", None) != stream:
                continue
            if isinstance(event, h2.events.DataReceived):
                data += event.data
            elif isinstance(event, h2.events.StreamEnded):
                return data

    def close(self):
        self.sock.close()


# --------------------------------------------------------------------------------------------
# Objects

def service(name, ns="shop", ip="10.96.0.9", labels=None, **spec):
    return {"kind": "Service", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": ns, "labels": labels or {}},
            "spec": dict({"clusterIP": ip, "ports": [{"name": "http", "port": 80}]}, **spec)}


def slice_(name, service_name, ips, ns="shop", labels=None):
    return {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": {
        "name": name, "namespace": ns,
        "labels": dict({"kubernetes.io/service-name": service_name}, **(labels or {}))},
            "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips]}


def recorded_objects(resource):
    """(kind, objects) of a recorded list, at their versions."""
    return KINDS[resource], json.loads(RECORDED[LISTS[resource] + ".http"].body)["items"]


def put_recorded(api, resource):
    """Put recorded objects with their recorded versions."""
    kind, objects = recorded_objects(resource)
    for obj in sorted(objects, key=lambda o: int(o["metadata"]["resourceVersion"])):
        api.rewind(rv=int(obj["metadata"]["resourceVersion"]) - 1)
        api.put(dict(obj, kind=kind.kind, apiVersion=kind.api_version))
    meta = json.loads(RECORDED[LISTS[resource] + ".http"].body)["metadata"]
    api.rewind(rv=int(meta["resourceVersion"]))


# --------------------------------------------------------------------------------------------
# Encodings, compared with the recordings

@pytest.mark.parametrize("resource", LISTS)
def test_lists_encode_as_recorded(resource):
    """Decoding and encoding results in the recorded bytes, in JSON and, if recorded, protobuf."""
    kind, objects = recorded_objects(resource)
    items = []
    for obj in objects:
        obj = wire.canonical(kind.message, obj)
        assert wire.decode(kind.message, wire.encode(kind.message, obj)) == obj
        items.append(Item.of(kind, obj, int(obj["metadata"]["resourceVersion"])))
    recorded = RECORDED[LISTS[resource] + ".http"]
    meta = json.loads(recorded.body)["metadata"]
    framer = wire.Framer(kind)
    assert b"".join(framer.json_list(meta, items)) == recorded.body
    if LISTS[resource] + ".pb" in RECORDED:
        assert b"".join(framer.pb_list(meta, items)) == RECORDED[LISTS[resource] + ".pb"].body


@pytest.mark.parametrize("name, resource", [
    ("services-watch", "services"), ("services-watchlist", "services"),
    ("services-watch-timeout", "services"), ("endpointslices-watch", "endpointslices"),
    ("endpointslices-watchlist", "endpointslices"), ("node-watch", "nodes")])
def test_watches_encode_as_recorded(name, resource):
    kind = KINDS[resource]
    framer = wire.Framer(kind)
    out = []
    for line in RECORDED[name + ".http"].body.splitlines():
        event = json.loads(line)
        obj = wire.canonical(kind.message, event["object"])
        out.append(framer.json_event(event["type"], wire.dumps(obj)[1:]))
    assert b"".join(out) == RECORDED[name + ".http"].body


def test_protobuf_watch_encodes_as_recorded():
    recorded = RECORDED["endpointslices-watch.pb"]
    events, rest = wire.open_frames(recorded.body)
    assert rest == b"" and len(events) == 22
    kind = KINDS["endpointslices"]
    framer = wire.Framer(kind)
    out = []
    for type_, api_version, name, raw in events:
        assert (api_version, name) == (kind.api_version, kind.kind)
        out.append(framer.pb_event(type_, wire.encode(kind.message, wire.decode(
            kind.message, raw))))
    assert b"".join(out) == recorded.body
    objects = [wire.decode(kind.message, raw) for t, _, _, raw in events if t != "BOOKMARK"]
    lines = RECORDED["endpointslices-watch.http"].body.splitlines()
    in_json = [json.loads(line)["object"] for line in lines]
    assert objects == [wire.canonical(kind.message, o) for o in in_json]


@pytest.mark.parametrize("name", ["services-list-continue-expired", "services-list-unauthorized",
                                  "secrets-list-forbidden"])
def test_statuses_encode_as_recorded(name):
    body = RECORDED[name + ".http"].body
    assert wire.status_body(json.loads(body), "json") == body


def test_status_in_protobuf():
    """Field numbers of Status, with details and causes."""
    status = {"metadata": {}, "status": "Failure", "message": "m", "reason": "Timeout", "code": 504,
              "details": {"name": "n", "retryAfterSeconds": 1, "causes": [
                  {"reason": "r", "message": "t", "field": "f"}]}}
    api_version, kind, raw = wire.open_envelope(wire.status_body(status, "pb"))
    assert (api_version, kind) == ("v1", "Status")
    assert raw == (b"\x0a\x06\x0a\x00\x12\x00\x1a\x00" b"\x12\x07Failure" b"\x1a\x01m"
                   b"\x22\x07Timeout" b"\x2a\x16\x0a\x01n\x12\x00\x1a\x00"
                   b"\x22\x09\x0a\x01r\x12\x01t\x1a\x01f" b"\x28\x01\x32\x00" b"\x30\xf8\x03")
    assert wire.decode(MESSAGES["Status"], raw) == status


@pytest.mark.parametrize("value, bytes_", [
    ("1970-01-01T00:00:00Z", b"\x04\x08\x00\x10\x00"),
    ("1970-01-01T01:00:01+01:00", b"\x04\x08\x01\x10\x00"),
    ("1970-01-01T00:00:00.25Z", b"\x07\x08\x00\x10\x80\xe5\x9a\x77"),
    (None, b"\x00")])
def test_times(value, bytes_):
    message = MESSAGES["ObjectMeta"]
    data = wire.encode(message, {"creationTimestamp": value})
    assert b"\x42" + bytes_ in data


def test_numbers():
    assert [wire.varint(n) for n in (0, 127, 128, 70000)] == [
        b"\0", b"\x7f", b"\x80\x01", b"\xf0\xa2\x04"]
    assert wire.varint(-1) == b"\xff" * 9 + b"\x01"
    assert wire.read_varint(b"\xf0\xa2\x04", 0) == (70000, 3)
    for bad in (b"\x80", b"\xff" * 11):
        with pytest.raises(wire.WireError):
            wire.read_varint(bad, 0)


def test_canonical_form():
    """Unknown and empty fields are dropped, fields that servers always write are added."""
    out = wire.canonical(MESSAGES["EndpointSlice"], {
        "addressType": "IPv4", "nonsense": 1, "endpoints": [{"addresses": [], "zone": ""}],
        "metadata": {"labels": {"b": "1", "a": "2"}, "name": "x"}})
    assert wire.dumps(out) == (
        b'{"metadata":{"name":"x","labels":{"a":"2","b":"1"}},"addressType":"IPv4",'
        b'"endpoints":[{"addresses":null,"conditions":{},"zone":""}],"ports":null}')
    assert wire.dumps({"a": "<&>\u2028\u00e4"}) == b'{"a":"\\u003c\\u0026\\u003e\\u2028\xc3\xa4"}'


def test_moulds():
    """Objects made by a Mould equal objects that are encoded one by one."""
    store = Store()
    result = cluster.load(store, {"services": 250, "endpoints": 7, "ports": 2, "families": "46",
                                  "node_ports": 10, "load_balancers": 10, "hints": True})
    assert result["services"] == 250 and result["slices"] == 500
    assert cluster.check_moulds(store) is None
    store = Store()
    cluster.load(store, {"services": 3, "endpoints": 205, "families": "6"})
    assert cluster.check_moulds(store) is None
    sizes = sorted(len(i.obj["endpoints"]) for i in store.tables["endpointslices"].items.values())
    assert sizes[-9:] == [5, 5, 5, 100, 100, 100, 100, 100, 100]


# --------------------------------------------------------------------------------------------
# Responses, compared with the recordings

def comparable(response):
    """Names of headers in order, with the values that are equal in all requests."""
    headers = response.headers
    if not isinstance(headers, list):
        headers = headers.items()
    return [(k, None if k in ("Audit-Id", "Date") or k.startswith("X-Kubernetes") else v)
            for k, v in headers]


@pytest.mark.parametrize("resource", LISTS)
def test_lists_answer_as_recorded(api, resource):
    """Equal bodies, byte by byte and chunk by chunk; equal names and order of headers."""
    put_recorded(api, resource)
    recorded = RECORDED[LISTS[resource] + ".http"]
    response, body = get(api, URLS[resource], resourceVersion=0, limit=500)
    assert body == recorded.body
    assert comparable(response) == comparable(recorded)
    raw, _ = raw_request(api, target(URLS[resource], resourceVersion=0, limit=500), timeout=0.3)
    assert raw.split(b"\r\n\r\n", 1)[1] == recorded.raw[len(recorded.head):]


def test_protobuf_list_answers_as_recorded(api):
    put_recorded(api, "services")
    recorded = RECORDED["services-list.pb"]
    response, body = get(api, URLS["services"], headers={"Accept": PB}, resourceVersion=0)
    assert body == recorded.body and comparable(response) == comparable(recorded)


def test_pages_as_recorded(api):
    put_recorded(api, "services")
    query = {"limit": 3}
    for name in ("services-list-page1", "services-list-page2"):
        response, body = get(api, URLS["services"], **query, **SELECT["services"])
        recorded = RECORDED[name + ".http"]
        assert body == recorded.body and comparable(response) == comparable(recorded)
        query["continue"] = json.loads(body)["metadata"]["continue"]
    query["continue"] = json.loads(RECORDED["services-list-page1.http"].body)[
        "metadata"]["continue"]
    api.compact()
    response, body = get(api, URLS["services"], **query, **SELECT["services"])
    recorded = RECORDED["services-list-continue-expired.http"]
    assert response.status == 410 and body == recorded.body
    assert comparable(response) == comparable(recorded)


def test_watchlist_answers_as_recorded(api):
    """Initial events and their bookmark, then an event."""
    put_recorded(api, "services")
    api.rewind(rv=243)
    lines = RECORDED["services-watchlist.http"].body.splitlines()
    with watchlist(api, "services") as w:
        assert comparable(w) == comparable(RECORDED["services-watchlist.http"])
        for line in lines[:12]:
            assert w.event() == json.loads(line)
        web = json.loads(lines[12])["object"]
        api.rewind(rv=244)
    api.put(web)
    with WatchStream(api, "services", resourceVersion=244, timeoutSeconds=1) as w:
        assert w.event() == json.loads(lines[12])


@pytest.mark.parametrize("name, path, headers, code", [
    ("services-list-unauthorized", URLS["services"], {"Authorization": "Bearer bad"}, 401),
    ("secrets-list-forbidden", "/api/v1/secrets", {}, 403),
    ("version", "/version", {}, 200), ("livez", "/livez", {}, 200)])
def test_plain_answers_as_recorded(api, name, path, headers, code):
    response, body = get(api, path, headers=headers)
    recorded = RECORDED[name + ".http"]
    assert response.status == code and body == recorded.body
    assert comparable(response) == comparable(recorded)


def test_410_as_recorded(api):
    """A watch from a compacted version: an ERROR event in a response 200, then the end."""
    api.rewind(rv=320)
    api.compact()
    recorded = RECORDED["endpointslices-watch-gone.http"]
    response, body = get(api, URLS["endpointslices"], watch=1, resourceVersion=5)
    assert body == recorded.body and comparable(response) == comparable(recorded)


def test_end_of_a_watch_as_recorded(api):
    """A bookmark, then the last chunk; the connection stays usable."""
    api.set(bookmark_seconds=60)
    conn = connect(api)
    begin = time.monotonic()
    conn.request("GET", target(URLS["services"], watch=1, allowWatchBookmarks="true",
                               timeoutSeconds=3, resourceVersion=api.ping()["rv"]))
    lines = conn.getresponse().read().splitlines()
    assert 2.8 < time.monotonic() - begin
    assert json.loads(lines[0]) == {"type": "BOOKMARK", "object": {
        "kind": "Service", "apiVersion": "v1", "spec": {}, "status": {"loadBalancer": {}},
        "metadata": {"resourceVersion": str(api.ping()["rv"])}}}
    assert len(lines) == 1
    conn.request("GET", "/livez")
    assert conn.getresponse().read() == b"ok"
    conn.close()


# --------------------------------------------------------------------------------------------
# Lists

def test_list_pages(api):
    """All pages have one version despite changes; the error of an expired token has a new one."""
    for i in range(10):
        api.put(service("s%d" % i))
    status, page = get_json(api, URLS["services"], limit=4)
    assert status == 200 and page["metadata"]["remainingItemCount"] == 6
    version = page["metadata"]["resourceVersion"]
    api.delete("services", "shop/s5")
    api.put(service("s45"))
    names = [i["metadata"]["name"] for i in page["items"]]
    token = page["metadata"]["continue"]
    assert open_continue(token) == (int(version), "shop/s3\0")
    while token:
        status, page = get_json(api, URLS["services"], limit=4, **{"continue": token})
        assert status == 200 and page["metadata"]["resourceVersion"] == version
        names += [i["metadata"]["name"] for i in page["items"]]
        token = page["metadata"].get("continue")
    assert names == ["s%d" % i for i in range(10)]

    _, page = get_json(api, URLS["services"], limit=4)
    token = page["metadata"]["continue"]
    api.compact()
    status, answer = get_json(api, URLS["services"], limit=4, **{"continue": token})
    assert status == 410 and answer["reason"] == "Expired"
    status, rest = get_json(api, URLS["services"], **{"continue": answer["metadata"]["continue"]})
    assert status == 200
    assert [i["metadata"]["name"] for i in rest["items"]] == ["s4", "s45", "s6", "s7", "s8", "s9"]


def test_list_versions(api):
    """Exact, future and expired versions."""
    api.set(version_wait=0.2)
    first = api.put(service("a"))
    second = api.put(service("b"))
    api.delete("services", "shop/a")
    api.put(service("b", ip="10.96.0.10"))

    def names(**query):
        status, answer = get_json(api, URLS["services"], **query)
        if status != 200:
            return status, answer["reason"]
        return {i["metadata"]["name"]: i["spec"]["clusterIP"] for i in answer["items"]}

    now = {"b": "10.96.0.10"}
    assert names() == names(resourceVersion=0) == names(resourceVersion=first) == now
    assert names(resourceVersion=first, resourceVersionMatch="NotOlderThan") == now
    assert names(resourceVersion=first, resourceVersionMatch="Exact") == {"a": "10.96.0.9"}
    assert names(resourceVersion=second, limit=5) == {"a": "10.96.0.9", "b": "10.96.0.9"}
    assert names(resourceVersion=10 ** 9) == (504, "Timeout")
    assert names(resourceVersionMatch="Exact") == (422, "Invalid")
    assert names(resourceVersion="x") == (400, "BadRequest")
    assert names(limit="x") == names(limit=-1) == (400, "BadRequest")
    assert names(**{"continue": "%%%"}) == (400, "BadRequest")
    api.compact(resource="services")
    assert names(resourceVersion=second, resourceVersionMatch="Exact") == (410, "Expired")
    # A waiting client receives the version when it exists.
    timer = threading.Timer(0.05, lambda: Control(api.path("control")).call(
        "put", object=service("late")))
    api.set(version_wait=5.0)
    timer.start()
    assert "late" in names(resourceVersion=api.ping()["rv"] + 1)
    timer.join()


def test_too_large_version_names_its_cause(api):
    api.set(version_wait=0.01)
    response, body = get(api, URLS["services"], resourceVersion=10 ** 9)
    status = json.loads(body)
    assert response.getheader("Retry-After") == "1"
    assert status["message"].startswith("Timeout: Too large resource version: 1000000000, current")
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_rv_0_ignores_the_limit(api):
    api.put(*[service("s%d" % i) for i in range(5)])
    _, answer = get_json(api, URLS["services"], resourceVersion=0, limit=2)
    assert len(answer["items"]) == 5 and "continue" not in answer["metadata"]


def test_get(api):
    api.put({"kind": "Node", "metadata": {"name": "n1"}})
    status, node = get_json(api, "/api/v1/nodes/n1")
    assert status == 200 and node["kind"] == "Node" and node["metadata"]["name"] == "n1"
    assert list(node)[:2] == ["kind", "apiVersion"]
    response, body = get(api, "/api/v1/nodes/n1", headers={"Accept": PB})
    api_version, kind, raw = wire.open_envelope(body)
    assert (api_version, kind) == ("v1", "Node")
    assert wire.decode(MESSAGES["Node"], raw)["metadata"] == node["metadata"]
    status, answer = get_json(api, "/api/v1/nodes/n2")
    assert status == 404 and answer["message"] == 'nodes "n2" not found'
    assert answer["details"] == {"name": "n2", "kind": "nodes"}


def test_gzip(api):
    """Only large lists, and only for clients that request it."""
    api.load(services=500)
    response, body = get(api, URLS["services"], headers={"Accept-Encoding": "gzip"})
    assert response.getheader("Content-Encoding") == "gzip"
    plain = get(api, URLS["services"])[1]
    assert gzip.decompress(body) == plain and len(json.loads(plain)["items"]) == 502
    response, _ = get(api, "/livez", headers={"Accept-Encoding": "gzip"})
    assert response.getheader("Content-Encoding") is None
    api.set(gzip=False)
    response, _ = get(api, URLS["services"], headers={"Accept-Encoding": "gzip"})
    assert response.getheader("Content-Encoding") is None


# --------------------------------------------------------------------------------------------
# Selection

ITEM_LABELS = {"app": "web", "n": "5", "example.org/x": "", "in": "y"}


@pytest.mark.parametrize("text, wanted", [
    ("", True), ("app", True), ("!app", False), ("nope", False), ("!nope", True),
    ("app=web", True), ("app==web", True), ("app!=web", False), ("app=db", False),
    ("nope!=x", True), ("app in (web, db)", True), ("app in (db)", False),
    ("app notin (db)", True), ("app notin (web)", False), ("nope notin (a)", True),
    ("n>4", True), ("n>5", False), ("n<6", True), ("app>1", False), ("nope<5", False),
    ("example.org/x", True), ("!example.org/x", False), ("example.org/x=", True),
    ("app=web,n=5", True), ("app=web,n=6", False), ("!nope,app", True), ("in", True),
    (" app = web , n in (5) ", True), ("!service.kubernetes.io/service-proxy-name", True)])
def test_label_selectors(text, wanted):
    item = Item(KINDS["services"], "shop", "a", 1, ITEM_LABELS, ("10.96.0.1", "ClusterIP"), b"")
    predicate = selection.labels(text)
    assert (predicate is None or predicate(item)) is wanted


@pytest.mark.parametrize("text", ["!", "=x", "a in b", "a in (b", "a b", "a=b c", "a>x", "-a",
                                  "a=-", "a=" + "x" * 64, "a//b"])
def test_bad_label_selectors(text):
    with pytest.raises(selection.SelectorError):
        selection.labels(text)


@pytest.mark.parametrize("text, wanted", [
    ("", True), ("metadata.name=a", True), ("metadata.name==b", False),
    ("metadata.name!=b", True), ("metadata.namespace=shop", True),
    ("spec.clusterIP!=None", True), ("spec.clusterIP=None", False), ("spec.type=ClusterIP", True),
    ("metadata.name=a,spec.clusterIP=None", False)])
def test_field_selectors(text, wanted):
    item = Item(KINDS["services"], "shop", "a", 1, {}, ("10.96.0.1", "ClusterIP"), b"")
    predicate = selection.fields(text, KINDS["services"])
    assert (predicate is None or predicate(item)) is wanted


def test_bad_field_selectors(api):
    status, answer = get_json(api, URLS["services"], fieldSelector="spec.foo=1")
    assert status == 400 and "field label not supported: spec.foo" in answer["message"]
    assert get_json(api, URLS["nodes"], fieldSelector="metadata.namespace=x")[0] == 400
    assert get_json(api, URLS["nodes"], fieldSelector="what")[0] == 400
    assert get_json(api, URLS["nodes"], labelSelector="a in b")[0] == 400
    api.set(spec_fields=False)  # a server before 1.31
    status, answer = get_json(api, URLS["services"], fieldSelector="spec.clusterIP!=None")
    assert status == 400 and answer["message"].startswith('"spec.clusterIP" is not a known field selector')
    assert get_json(api, URLS["nodes"], fieldSelector="metadata.name=x")[0] == 200


def test_selectors_of_a_proxy(api):
    """IN-02, IN-03, IN-04: objects that lists exclude."""
    api.put(service("plain"), service("headless", ip="None"),
            service("other", labels={"service.kubernetes.io/service-proxy-name": ""}),
            {"kind": "Service", "metadata": {"name": "ext", "namespace": "shop"},
             "spec": {"type": "ExternalName", "externalName": "x.org"}})
    api.put(slice_("s", "plain", []),
            slice_("h", "headless", [], labels={"service.kubernetes.io/headless": ""}))
    api.put({"kind": "Node", "metadata": {"name": "n1"}},
            {"kind": "Node", "metadata": {"name": "n2"}})
    names = {r: [i["metadata"]["name"] for i in get_json(api, URLS[r], **SELECT[r])[1]["items"]]
             for r in ("services", "endpointslices", "nodes")}
    assert names == {"services": ["ext", "plain"], "endpointslices": ["s"], "nodes": ["n1"]}
    assert [i["metadata"]["name"] for i in get_json(
        api, "/api/v1/namespaces/other/services")[1]["items"]] == []


@pytest.mark.parametrize("pb", [False, True])
def test_entering_and_leaving_a_selection(api, pb):
    """IN-02, IN-03: adding the label: DELETED, with the old object; removing it: ADDED."""
    label = "service.kubernetes.io/service-proxy-name"
    api.put(service("a"))
    with WatchStream(api, "services", pb=pb, **WATCHLIST, **SELECT["services"]) as w:
        assert w.until_synced() == ["a"]
        rv = api.patch("services", "shop/a", {"metadata": {"labels": {label: ""}}})
        event = w.event()
        assert event["type"] == "DELETED"
        assert event["object"]["metadata"]["resourceVersion"] == str(rv)
        assert "labels" not in event["object"]["metadata"]
        api.patch("services", "shop/a", {"metadata": {"annotations": {"unseen": "1"}}})
        rv = api.patch("services", "shop/a", {"metadata": {"labels": {label: None}}})
        assert w.brief() == ("ADDED", "a", rv)
        rv = api.patch("services", "shop/a", {"spec": {"clusterIP": "None", "clusterIPs": None}})
        assert w.brief() == ("DELETED", "a", rv)
        rv = api.put(service("b", ip="None"))
        rv = api.put(service("b", ip="10.96.0.10"))
        assert w.brief() == ("ADDED", "b", rv)
        rv = api.delete("services", "shop/b")
        assert w.brief() == ("DELETED", "b", rv)


# --------------------------------------------------------------------------------------------
# Watches

@pytest.mark.parametrize("pb", [False, True])
def test_watch_from_a_version(api, pb):
    """Changes since that version, then new changes."""
    start = api.put(service("a"))
    b = api.put(service("b"))
    a = api.patch("services", "shop/a", {"spec": {"externalIPs": ["192.0.2.1"]}})
    gone = api.delete("services", "shop/b")
    with WatchStream(api, "services", pb=pb, resourceVersion=start) as w:
        assert [w.brief() for _ in range(3)] == [
            ("ADDED", "b", b), ("MODIFIED", "a", a), ("DELETED", "b", gone)]
        c = api.put(service("c"))
        assert w.brief() == ("ADDED", "c", c)


def test_watch_from_anywhere(api):
    """Version 0 or none: the present state as ADDED, without a bookmark at its end."""
    api.put(service("b"), service("a"))
    for query in ({"resourceVersion": "0"}, {}):
        with WatchStream(api, "services", allowWatchBookmarks="true", **query) as w:
            assert [w.brief()[:2] for _ in range(2)] == [("ADDED", "a"), ("ADDED", "b")]
            assert w.event()["object"]["metadata"].get("annotations") is None


@pytest.mark.parametrize("pb", [False, True])
def test_watchlist(api, pb):
    """IN-09"""
    api.put(*[slice_("s%d" % i, "x", ["10.0.0.%d" % i]) for i in range(5)])
    with WatchStream(api, "endpointslices", pb=pb, **WATCHLIST, **SELECT["endpointslices"]) as w:
        assert dict(w.headers)["Content-Type"] == (
            PB + ";stream=watch" if pb else "application/json")
        assert w.until_synced() == ["s0", "s1", "s2", "s3", "s4"]
        assert w.synced_at == api.ping()["rv"]
        rv = api.put(slice_("s0", "x", ["10.0.0.9"]))
        event = w.event()
        assert event["type"] == "MODIFIED"
        assert event["object"]["metadata"]["resourceVersion"] == str(rv)
        assert event["object"]["metadata"]["generation"] == 2
        assert event["object"]["endpoints"] == [
            {"addresses": ["10.0.0.9"], "conditions": {"ready": True}}]


def test_changes_during_a_watchlist(api):
    """A change during initial events is sent once, after their bookmark."""
    api.load(services=300)
    fault = api.fault("stall", resource="services", at=5000)
    with watchlist(api, "services") as w:
        assert api.wait(watches={"services": 1})
        rv = api.put(service("late"))
        api.clear(fault)
        assert "late" not in w.until_synced() and w.synced_at < rv
        assert w.brief() == ("ADDED", "late", rv)


def test_nothing_changed_no_event(api):
    api.put(service("a"))
    with watchlist(api, "services") as w:
        w.until_synced()
        before = api.ping()["rv"]
        assert api.put(service("a")) == before
        assert api.patch("services", "shop/a", {}, force=True) == before + 1
        assert w.brief() == ("MODIFIED", "a", before + 1)


def test_events_at_once(api):
    """Queued events are sent together; then watches are idle, with and without events."""
    api.set(bookmark_seconds=60)
    with watchlist(api, "services") as w, watchlist(api, "nodes") as other:
        for stream in (w, other):
            stream.until_synced()
        last = api.put_many(objects=[service("s%d" % i) for i in range(3)], at_once=True)["rv"]
        api.flush()
        assert [w.brief()[1] for _ in range(3)] == ["s0", "s1", "s2"]
        assert api.put(service("s3")) == last + 1
        assert w.brief() == ("ADDED", "s3", last + 1)
        assert other.silent(0)



@pytest.mark.parametrize("mode, code, text", [
    ("invalid", 422, 'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
     "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"),
    ("bad", 400, "sendInitialEvents")])
def test_watchlist_forbidden(api, mode, code, text):
    api.set(watchlist=mode)
    status, answer = get_json(api, URLS["services"], **WATCHLIST)
    assert status == code and text in answer["message"]


def test_watchlist_ignored(api):
    """As in a server without watch-list: no bookmark ends the initial events."""
    api.put(service("a"))
    api.set(watchlist="ignore", bookmark_seconds=0.05)
    with watchlist(api, "services") as w:
        assert w.brief()[:2] == ("ADDED", "a")
        for _ in range(3):
            event = w.event()
            assert event["type"] == "BOOKMARK" and "annotations" not in event["object"]["metadata"]


@pytest.mark.parametrize("query", [
    {"sendInitialEvents": "true"}, {"resourceVersionMatch": "NotOlderThan"},
    {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"}])
def test_invalid_watch_queries(api, query):
    status, answer = get_json(api, URLS["services"], watch=1, **query)
    assert status == 422 and answer["reason"] == "Invalid"


def test_bookmarks(api):
    """At the set interval, on demand, never without allowWatchBookmarks."""
    api.set(bookmark_seconds=0.05)
    with watchlist(api, "services") as w, watchlist(
            api, "services", allowWatchBookmarks="false") as deaf:
        w.until_synced()
        assert [w.brief()[0] for _ in range(3)] == ["BOOKMARK"] * 3
        api.set(bookmarks=False)
        rv = api.put(service("a"))
        while (event := w.brief())[0] == "BOOKMARK":
            pass
        assert event == ("ADDED", "a", rv) == deaf.brief()
        assert w.silent(0.2)
        assert api.bookmark(resource="services")["count"] == 1
        assert w.brief() == ("BOOKMARK", None, api.ping()["rv"])
        assert deaf.silent(0.1)


def test_end_of_watches(api):
    with watchlist(api, "services") as w:
        w.until_synced()
        assert api.end_watches(how="end", resource="services")["count"] == 1
        assert w.event() is None
    with watchlist(api, "services") as w:
        w.until_synced()
        api.end_watches(how="error")
        event = w.event()
        assert event["type"] == "ERROR" and event["object"]["code"] == 410
        assert w.event() is None
    for how, error in (("reset", ConnectionResetError), ("close", EOFError)):
        with watchlist(api, "services") as w:
            w.until_synced()
            api.end_watches(how=how)
            with pytest.raises(error):
                w.event()
    eventually(lambda: not api.watches())


def test_expiry(api):
    """IN-11: 410 as an event for watches, as a Status for lists of that version."""
    old = api.put(service("a"))
    api.put(service("b"))
    api.compact(resource="services")
    with WatchStream(api, "services", resourceVersion=old, pb=True) as w:
        event = w.event()
        assert event["type"] == "ERROR" and event["object"]["reason"] == "Expired"
        assert event["object"]["kind"] == "Status" and w.event() is None
    status, answer = get_json(api, URLS["services"], resourceVersion=old,
                              resourceVersionMatch="Exact")
    assert status == 410
    with WatchStream(api, "services", resourceVersion=api.ping()["rv"]) as w:
        rv = api.put(service("c"))
        assert w.brief() == ("ADDED", "c", rv)


def test_history_is_bounded():
    with Server(tls=False, options=["--history", "10"]) as server:
        first = server.put(service("a"))
        for i in range(11):
            server.put(service("b%d" % i))
        with WatchStream(server, "services", resourceVersion=first) as w:
            assert w.event()["type"] == "ERROR"
        with WatchStream(server, "services", resourceVersion=first + 1) as w:
            assert w.brief()[:2] == ("ADDED", "b1")


def test_slow_watches_are_ended(api):
    """A watch with too many queued events is ended regularly."""
    api.load(services=200)
    api.set(backlog=10)
    fault = api.fault("stall", at=1000, resource="endpointslices")
    with watchlist(api, "endpointslices") as w:
        assert api.wait(watches={"endpointslices": 1})
        api.churn(rate=1000, seconds=0.05)
        api.clear(fault)
        w.until_synced()
        changes = 0
        while w.event():
            changes += 1
        assert changes == 10


def test_inject(api):
    with watchlist(api, "services") as w:
        w.until_synced()
        api.inject(resource="services", event={"type": "NONSENSE", "object": {"kind": "Foo"}})
        assert w.event() == {"type": "NONSENSE", "object": {"kind": "Foo"}}
        api.inject(resource="services", raw=base64.b64encode(b"{]\n").decode())
        with pytest.raises(json.JSONDecodeError):
            w.event()
    with WatchStream(api, "services", pb=True, **WATCHLIST) as w:
        w.until_synced()
        api.inject(resource="services", encoding="pb", event={
            "type": "ERROR", "object": {"kind": "Status", "code": 500, "reason": "InternalError"}})
        assert w.event()["object"]["code"] == 500


# --------------------------------------------------------------------------------------------
# Negotiation, authentication, HTTP

@pytest.mark.parametrize("accept, allowed, wanted", [
    (None, ["json", "pb"], "json"), ("*/*", ["json", "pb"], "json"),
    ("application/json", ["json", "pb"], "json"), (PB, ["json", "pb"], "pb"),
    (PB + ",application/json", ["json", "pb"], "pb"), (PB + ", application/json", ["json"], "json"),
    ("application/json, " + PB, ["json", "pb"], "json"),
    ("application/json;q=0.5," + PB + ";q=0.9", ["json", "pb"], "pb"),
    ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ["json"], "json"),
    ("application/json;as=Table;v=v1;g=meta.k8s.io", ["json"], None),
    (PB, ["json"], None), ("text/html", ["json", "pb"], None), ("application/*", ["pb"], "pb"),
    (PB + ";q=0,*/*", ["json", "pb"], "json"), (PB + ";stream=watch", ["json", "pb"], "pb")])
def test_negotiation(accept, allowed, wanted):
    assert negotiate(accept, allowed) == wanted


def test_not_acceptable(api):
    api.set(encodings=["json"])
    response, body = get(api, URLS["services"], headers={"Accept": PB})
    assert response.status == 406 and json.loads(body)["reason"] == "NotAcceptable"
    response, body = get(api, URLS["services"], headers={"Accept": PB + ", application/json"})
    assert response.status == 200 and json.loads(body)["kind"] == "ServiceList"


def test_errors_in_protobuf(api):
    response, body = get(api, URLS["nodes"] + "/x", headers={"Accept": PB})
    assert response.getheader("Content-Type") == PB
    _, kind, raw = wire.open_envelope(body)
    assert kind == "Status" and wire.decode(MESSAGES["Status"], raw)["code"] == 404


def test_tokens(api):
    def status(token, secure=True):
        headers = {"Authorization": "Bearer " + token} if token else {}
        return get(api, URLS["services"], headers=headers, secure=secure)[0].status

    assert status(api.token) == 200 and status(None) == 401 and status("x") == 401
    assert status(None, secure=False) == 200
    assert get(api, "/livez", secure=True)[0].status == 200
    api.set(plain_auth=True)
    assert status(None, secure=False) == 401
    api.tokens(tokens=["new"])
    assert status(api.token) == 401 and status("new") == 200
    api.tokens(tokens={api.token: "system:kube-proxy", "eve": "eve"})
    assert api.requests(token="new")[-1]["user"] == "system:kube-proxy"


def test_client_certificates(api):
    def status(cert):
        return get(api, URLS["services"], secure=True, tls={"cert": cert})[0].status

    assert status("client") == 200
    assert api.requests()[-1]["auth"] == "certificate"
    new = api.client_cert(name="second")
    assert status("second") == 200
    api.revoke(serial=new["serial"])
    assert status("second") == 401 and status("client") == 200
    api.revoke(serial=None)
    assert status("second") == 200
    for bad in ({"foreign": True}, {"begin": -1000, "end": -10}):
        api.client_cert(name="bad", **bad)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            status("bad")


def test_role(api):
    """IN-07"""
    def status(path, method="GET"):
        return get(api, path, method=method)[0].status

    assert status("/api/v1/nodes/n1") == 404
    assert status("/api/v1/namespaces/shop/services/a") == 403
    assert status("/api/v1/pods") == status("/apis/apps/v1/deployments") == 403
    assert status("/api/v1/services", "POST") == status("/api/v1/endpointslices") == 403
    assert status("/what") == 403
    _, answer = get_json(api, "/apis/discovery.k8s.io/v1/namespaces/x/endpointslices/y")
    assert answer["message"] == (
        'endpointslices.discovery.k8s.io "y" is forbidden: User "system:kube-proxy" cannot get '
        'resource "endpointslices" in API group "discovery.k8s.io" in the namespace "x"')


def test_posted_events(api):
    """Events that a client creates are stored."""
    api.forget()
    event = {"kind": "Event", "metadata": {"name": "e"}, "reason": "Starting", "action": "Start", "type": "Normal",
             "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "x", "reportingInstance": "x-1"}
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    response, body = get(api, path, method="POST", body=json.dumps(event),
                         headers={"Content-Type": "application/json"})
    assert response.status == 201 and json.loads(body) == event
    for change, status in ({}, 409), ({"metadata": {"name": "E"}}, 422), ({"note": "x" * 1025}, 422), \
            ({"metadata": {"name": "f"}, "type": "Error"}, 422):
        response, body = get(api, path, method="POST", body=json.dumps(dict(event, **change)),
                             headers={"Content-Type": "application/json"})
        assert response.status == status, body
    response, _ = get(api, path, method="POST", body=b"{", headers={
        "Content-Type": "application/json"})
    assert response.status == 400
    response, _ = get(api, path, method="POST", body=b"x", headers={"Content-Type": "text/plain"})
    assert response.status == 415
    assert [p["object"] for p in api.posted()["posted"]] == [event]


def test_ready(api):
    assert get(api, "/readyz")[0].status == 200
    api.set(ready=False)
    assert get(api, "/readyz")[0].status == 500 and get(api, "/livez")[0].status == 200


def test_http1(api):
    """Requests in sequence, pipelined, in pieces, with bodies; invalid requests."""
    host, port = urllib.parse.urlsplit(api.http).netloc.split(":")

    def talk(data, pieces=1):
        with socket.create_connection((host, int(port)), 5) as s:
            step = max(1, len(data) // pieces)
            for i in range(0, len(data), step):
                s.sendall(data[i:i + step])
                if pieces > 1:
                    time.sleep(0.001)
            out = b""
            while part := s.recv(65536):
                out += part
            return out

    ok = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert talk(ok + ok + last).count(b"HTTP/1.1 200 OK") == 3
    assert talk(last, pieces=len(last)).count(b"HTTP/1.1 200 OK") == 1
    assert talk(b"GET /livez HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nok")
    post = (b"POST /api/v1/namespaces/x/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n")
    assert b"201 Created" in talk(post, pieces=20)
    for bad in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET /  HTTP/1.1\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"x" * 70000):
        assert talk(bad).startswith(b"HTTP/1.1 400 ")


def curl(api, path, *options, **query):
    """(exit code, output) of curl over TLS."""
    r = subprocess.run(
        ["curl", "-s", "--max-time", "5", "--cacert", api.path("ca.crt"), "-H",
         "Authorization: Bearer " + api.token, *options, api.https + target(path, **query)],
        capture_output=True, timeout=20, check=False)
    return r.returncode, r.stdout


@pytest.mark.parametrize("version", ["1.1", "2"])
def test_curl(api, version):
    """Lists and watches with curl, over TLS, in both versions of HTTP."""
    api.load(services=300)
    option = "--http" + version
    code, out = curl(api, URLS["services"], option, "-w", "%{http_version}")
    assert code == 0 and out.endswith(version.encode())
    assert len(json.loads(out[:-len(version)])["items"]) == 302
    code, out = curl(api, URLS["endpointslices"], option, timeoutSeconds=1, **WATCHLIST)
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [e["type"] for e in events[:302]] == ["ADDED"] * 302
    assert events[302]["object"]["metadata"]["annotations"]
    code, out = curl(api, URLS["endpointslices"], option, "-H", "Accept: " + PB,
                     timeoutSeconds=1, **WATCHLIST)
    frames, rest = wire.open_frames(out)
    assert code == 0 and rest == b"" and len(frames) >= 303
    assert api.requests()[-1]["http"] == ("HTTP/1.1" if version == "1.1" else "HTTP/2")


def test_http2_streams(api):
    """Several watches on one connection: separate events, none blocks another."""
    api.load(services=500)
    client = H2Client(api)
    slow = client.request(target(URLS["endpointslices"], **WATCHLIST))
    other = client.request(target(URLS["nodes"], **WATCHLIST))
    got = {slow: b"", other: b""}
    while b"initial-events-end" not in got[slow] or b"initial-events-end" not in got[other]:
        event = client.wait(h2.events.DataReceived)
        got[event.stream_id] += event.data
    assert got[slow].count(b"\n") >= 503 and got[other].count(b"\n") >= 11
    assert len({r["connection"] for r in api.requests()[-2:]}) == 1
    rv = api.put({"kind": "Node", "metadata": {"name": "new"}})
    event = client.wait(h2.events.DataReceived, other)
    while b"BOOKMARK" in event.data:
        event = client.wait(h2.events.DataReceived, other)
    assert json.loads(event.data)["object"]["metadata"]["resourceVersion"] == str(rv)
    client.h2.reset_stream(other)
    client.flush()
    eventually(lambda: not api.watches("nodes"))
    assert len(api.watches("endpointslices")) == 1
    client.close()


def test_too_many_streams(api):
    """A stream above the maximum is refused; the connection and its other streams go on."""
    api.set(max_streams=2)
    client = H2Client(api)
    streams = [client.request(target(URLS[r], **WATCHLIST))     # before the server's SETTINGS
               for r in ("endpointslices", "nodes", "services")]
    event = client.wait(h2.events.StreamReset)
    assert event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM
    assert event.stream_id == streams[2]
    rv = api.put({"kind": "Node", "metadata": {"name": "new"}})
    event = client.wait(h2.events.DataReceived, streams[1])
    while b'"%d"' % rv not in event.data:
        event = client.wait(h2.events.DataReceived, streams[1])
    client.h2.reset_stream(streams[1])
    client.wait(h2.events.DataReceived, client.request(target(URLS["services"], **WATCHLIST)))
    assert len({r["connection"] for r in api.requests()[-3:]}) == 1
    client.close()


def test_http2_off(api):
    api.set(http2=False)
    _, out = curl(api, "/livez", "-w", "%{http_version}")
    assert out == b"ok1.1"


def test_h2c(api):
    out = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "-w", "%{http_version}",
                          api.http + "/livez"], capture_output=True, timeout=10, check=False)
    assert out.stdout == b"ok2"


# --------------------------------------------------------------------------------------------
# Faults

def test_fault_table(api):
    """Invalid faults are rejected by name; count, skip and lasts have their effect."""
    for bad, text in (({"kind": "x"}, "kind"), ({"kind": "stall", "what": 1}, "what"),
                      ({"kind": "stall", "at": "noon"}, "at"), ({"kind": "slow"}, "rate"),
                      ({"kind": "delay"}, "delay"), ({"kind": "drop", "resource": "x"},
                                                     "resource")):
        with pytest.raises(ApiServerError, match=text):
            api.call("fault", **bad)
    fault = api.fault("status", code=503, resource="nodes", skip=1, count=2)
    codes = [get(api, URLS["nodes"])[0].status for _ in range(4)]
    assert codes == [200, 503, 503, 200] and api.used(fault) == 2
    assert get(api, URLS["services"])[0].status == 200
    api.fault("status", code=500, lasts=0.15)
    assert get(api, URLS["nodes"])[0].status == 500
    time.sleep(0.2)
    assert get(api, URLS["nodes"])[0].status == 200
    api.fault("status", code=500, verb="watch")
    api.fault("status", code=502, path="/livez")
    api.fault("status", code=504, encoding="pb")
    assert get(api, URLS["nodes"])[0].status == 200
    assert get(api, URLS["nodes"], **WATCHLIST)[0].status == 500
    assert get(api, "/livez")[0].status == 502
    assert get(api, URLS["nodes"], headers={"Accept": PB})[0].status == 504


@pytest.mark.parametrize("code, reason, more", [
    (401, "Unauthorized", {}), (403, "Forbidden", {}), (429, "TooManyRequests", {}),
    (500, "InternalError", {}), (503, "ServiceUnavailable", {})])
def test_status_faults(api, code, reason, more):
    api.fault("status", code=code, retry_after=7, resource="services")
    response, body = get(api, URLS["services"])
    status = json.loads(body)
    assert response.status == status["code"] == code and status["reason"] == reason
    assert response.getheader("Retry-After") == (None if code == 403 else "7")
    if code == 403:
        assert status["message"] == (
            'services is forbidden: User "system:kube-proxy" cannot list resource "services" in '
            'API group "" at the cluster scope')
    else:
        assert status["details"] == {"retryAfterSeconds": 7}


def test_plain_status_faults(api):
    api.fault("status", code=429, plain=True, retry_after=1, count=1)
    response, body = get(api, URLS["services"])
    assert response.status == 429 and response.getheader("Content-Type").startswith("text/plain")
    api.fault("status", code=502, body="<html>Bad Gateway</html>", type="text/html")
    response, body = get(api, URLS["services"])
    assert response.status == 502 and body == b"<html>Bad Gateway</html>"
    assert response.getheader("Content-Type") == "text/html"


def test_delay_reorders_kinds(api):
    """IN-14: one kind is delayed, the others are not."""
    api.fault("delay", resource="services", delay=2, count=1)
    begin = time.monotonic()
    answered = {}

    def ask(resource):
        get(api, URLS[resource])
        answered[resource] = time.monotonic() - begin

    threads = [threading.Thread(target=ask, args=(r,)) for r in ("services", "endpointslices")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answered["endpointslices"] < answered["services"] and answered["services"] >= 2


def test_wrong_type(api):
    api.fault("type", value="application/xml", count=1)
    response, body = get(api, URLS["services"])
    assert response.getheader("Content-Type") == "application/xml"
    assert json.loads(body)["kind"] == "ServiceList"


def full_body(api):
    return get(api, URLS["services"])[1]


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("fault, headers, part, end", [
    ({"kind": "stall"}, False, 0, "silent"),
    ({"kind": "stall", "at": "headers"}, True, 0, "silent"),
    ({"kind": "stall", "at": 100}, True, 100, "silent"),
    ({"kind": "reset"}, False, 0, "reset"),
    ({"kind": "reset", "at": 100}, True, None, "reset"),
    ({"kind": "close", "at": "request"}, False, 0, "eof"),
    ({"kind": "close"}, True, 0.5, "eof"),
    ({"kind": "close", "at": 7}, True, 7, "eof")])
def test_cuts(api, secure, fault, headers, part, end):
    """The data before the cut, and the end of the connection."""
    api.put(*[service("s%d" % i) for i in range(20)])
    whole = full_body(api)
    api.call("fault", count=1, **fault)
    data, how = raw_request(api, URLS["services"], secure=secure,
                            timeout=0.5 if end == "silent" else 5)
    assert how == end
    if not headers:
        assert data == b""
        return
    if part is None:
        return
    body = b"".join(unchunk(data.split(b"\r\n\r\n", 1)[1]))
    assert len(body) == (part if isinstance(part, int) else len(whole) // 2)
    assert whole.startswith(body)


def unchunk(data):
    """Chunks; the last one may be incomplete."""
    out = []
    while b"\r\n" in data:
        size, data = data.split(b"\r\n", 1)
        n = int(size, 16)
        out.append(data[:n])
        data = data[n + 2:]
    return out


def test_stall_within_an_object_and_on(api):
    """After a stall is removed, the rest is sent."""
    with watchlist(api, "services") as w:
        w.until_synced()
        fault = api.fault("stall", at="object", resource="services")
        api.put(service("new"))
        while not w.silent(0.2):        # the first half
            pass
        assert b'"ADDED"' in w.raw and b"}\n" not in w.raw
    api.clear(fault)
    with watchlist(api, "services") as w:
        assert w.until_synced() == ["new"]


def test_stall_of_a_watch_continues(api):
    with watchlist(api, "services") as w:
        w.until_synced()
        api.fault("stall", at="object", resource="services", count=1, lasts=0.3)
        begin = time.monotonic()
        rv = api.put(service("new"))
        assert w.brief() == ("ADDED", "new", rv)
        assert 0.25 < time.monotonic() - begin


def test_truncate(api):
    """A regular end of an incomplete body."""
    api.put(*[service("s%d" % i) for i in range(20)])
    for accept in ("application/json", PB):
        whole = get(api, URLS["services"], headers={"Accept": accept})[1]
        api.fault("truncate", count=1)
        response, body = get(api, URLS["services"], headers={"Accept": accept})
        assert response.status == 200 and len(body) == len(whole) // 2 and whole.startswith(body)
    with watchlist(api, "services") as w:
        w.until_synced()
        api.fault("truncate", resource="services", count=1)
        api.put(service("new"))
        with pytest.raises(AssertionError, match="within an event"):
            w.event()


def test_truncated_chunk(api):
    api.put(service("a"))
    with watchlist(api, "services") as w:
        w.until_synced()
        api.fault("chunk", resource="services", count=1)
        api.put(service("new"))
        with pytest.raises(EOFError):
            w.event()
        assert b'"ADDED"' in w.raw


@pytest.mark.parametrize("p, wanted", [({"at": "request", "raw": True}, "head"),
                                       ({"at": "object"}, "body"),
                                       ({"at": 10, "end": True}, "end")])
def test_garbage(api, p, wanted):
    api.put(*[service("s%d" % i) for i in range(20)])
    whole = full_body(api)
    api.fault("garbage", bytes=100, count=1, **p)
    data, how = raw_request(api, URLS["services"], timeout=0.5)
    if wanted == "head":
        assert data[:5] != b"HTTP/" and data[100:105] == b"HTTP/"
        return
    body = b"".join(unchunk(data.split(b"\r\n\r\n", 1)[1]))
    at = 10 if wanted == "end" else len(whole) // 2
    assert body[:at] == whole[:at] and body[at:at + 100] != whole[at:at + 100]
    if wanted == "end":
        assert how == "eof" and len(body) == 110
    else:
        assert how == "silent" and body[at + 100:] == whole[at:]


def test_slow(api):
    api.put(service("a"))
    whole = full_body(api)
    api.fault("slow", rate=2000, piece=20, resource="services")
    begin = time.monotonic()
    assert full_body(api) == whole
    assert time.monotonic() - begin >= len(whole) / 2000 * 0.9


def test_drop_duplicate_lag(api):
    with watchlist(api, "services") as w:
        w.until_synced()
        api.fault("drop", resource="services", count=1)
        api.put(service("lost"))
        rv = api.put(service("a"))
        assert w.brief() == ("ADDED", "a", rv)
        api.clear()
        api.fault("duplicate", times=3, count=1)
        rv = api.put(service("b"))
        assert [w.brief() for _ in range(3)] == [("ADDED", "b", rv)] * 3
        api.clear()
        api.set(bookmarks=False)
        api.fault("lag", resource="services", delay=1)
        with watchlist(api, "nodes") as nodes:
            nodes.until_synced()
            begin = time.monotonic()
            rv = api.put(service("c"))
            late = api.put({"kind": "Node", "metadata": {"name": "n"}})
            assert nodes.brief() == ("ADDED", "n", late)
            first = time.monotonic()
            assert w.brief() == ("ADDED", "c", rv)
            assert time.monotonic() - begin >= 1 and time.monotonic() > first + 0.1


def test_unknown_fields(api):
    """At each level, in both encodings; known fields are unchanged."""
    api.put(slice_("s", "x", ["10.0.0.1"]))
    known = get_json(api, URLS["endpointslices"])[1]["items"][0]
    api.fault("unknown")
    item = get_json(api, URLS["endpointslices"])[1]["items"][0]
    for level in (item, item["metadata"], item["endpoints"][0], item["ports"][0],
                  item["endpoints"][0]["conditions"]):
        assert "vipdBefore" in level and "vipdAfter" in level
    assert wire.canonical(MESSAGES["EndpointSlice"], item) == known
    body = get(api, URLS["endpointslices"], headers={"Accept": PB})[1]
    raw = dict((n, v) for n, _, v in wire.fields(wire.open_envelope(body)[2]))[2]
    numbers = [n for n, _, _ in wire.fields(raw)]
    assert numbers == [1, 2, 3, 4, 1999, 2000, 2001, 2002]
    endpoint = dict((n, v) for n, _, v in wire.fields(raw))[2]
    assert [n for n, _, _ in wire.fields(endpoint)] == [1, 2, 1999, 2000, 2001, 2002]


@pytest.mark.parametrize("pb", [False, True])
def test_huge_objects(api, pb):
    api.set(chunk=0)
    with WatchStream(api, "services", pb=pb, **WATCHLIST) as w:
        w.until_synced()
        api.fault("huge", bytes=3 << 20, count=1)
        api.put(service("a"))
        event = w.event()
        assert len(event["object"]["metadata"]["annotations"]["example.org/huge"]) == 3 << 20
        api.put(service("b"))
        assert "annotations" not in w.event()["object"]["metadata"]


def test_invalid_objects(api):
    """Stored unchanged: out of range in both encodings, of wrong type in JSON."""
    bad = service("bad")
    bad["spec"]["ports"][0]["port"] = 70000
    api.put(bad)
    assert get_json(api, URLS["services"])[1]["items"][0]["spec"]["ports"][0]["port"] == 70000
    body = get(api, URLS["services"], headers={"Accept": PB})[1]
    raw = dict((n, v) for n, _, v in wire.fields(wire.open_envelope(body)[2]))[2]
    assert wire.decode(MESSAGES["Service"], raw)["spec"]["ports"][0]["port"] == 70000
    bad["spec"]["ports"] = "eighty"
    with pytest.raises(ApiServerError, match="Service shop/bad cannot be encoded"):
        api.put(bad)
    api.put(bad, raw=True)
    assert get_json(api, URLS["services"])[1]["items"][0]["spec"]["ports"] == "eighty"
    body = get(api, URLS["services"], headers={"Accept": PB})[1]
    raw = dict((n, v) for n, _, v in wire.fields(wire.open_envelope(body)[2]))[2]
    assert wire.decode(MESSAGES["Service"], raw)["metadata"]["name"] == "bad"
    for wrong, text in (({"kind": "Pod"}, "kind"), ({"kind": "Service"}, "metadata.name"),
                        ({"kind": "Service", "apiVersion": "v2"}, "apiVersion")):
        with pytest.raises(ApiServerError, match=text):
            api.put(wrong)
    with pytest.raises(ApiServerError, match="nodes x does not exist"):
        api.delete("nodes", "x")


def test_listener_states(api):
    host, port = urllib.parse.urlsplit(api.http).netloc.split(":")
    address = (host, int(port))
    api.listen(state="closed")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, 2)
    for state in ("silent", "full"):
        api.listen(state=state)
        with socket.create_connection(address, 2) as s:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            s.settimeout(0.2)
            with pytest.raises(TimeoutError):
                s.recv(1)
    api.listen(state="open")
    assert get(api, "/livez")[1] == b"ok" and get(api, "/livez", secure=True)[1] == b"ok"


def test_frozen_connections(api):
    """No events, no bookmarks, no end; the socket stays."""
    api.set(bookmark_seconds=0.05)
    with watchlist(api, "services") as w:
        w.until_synced()
        api.connections(do="freeze", resource="services")
        api.put(service("a"))
        while not w.silent(0.3):        # data in flight
            pass
        api.connections(do="reset")
        with pytest.raises(ConnectionResetError):
            w.event()


def test_cut_connections(api):
    """A FIN without TLS close_notify, which clients can detect."""
    url = urllib.parse.urlsplit(api.https)
    context = trusting(api)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    for do, wrong in (("close", False), ("cut", True)):
        sock = context.wrap_socket(socket.create_connection((url.hostname, url.port), 5),
                                   server_hostname=url.hostname, suppress_ragged_eofs=False)
        sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % (
            target(URLS["services"], **WATCHLIST).encode(), api.token.encode()))
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        api.connections(do=do)
        noticed = False
        try:
            while sock.recv(65536):
                pass
        except ssl.SSLError:
            noticed = True
        assert noticed is wrong
        sock.close()


def test_request_and_goaway_in_one_read():
    """After a GOAWAY of the server the connection ends, and the request has no response."""
    ended = []
    http2 = transport.Http2(types.SimpleNamespace(
        server=types.SimpleNamespace(max_streams=10), raw=lambda data: None, can_write=True, dead=False,
        close=lambda: ended.append(True)))
    peer = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    peer.initiate_connection()
    http2.feed(peer.data_to_send())
    http2.goaway()
    peer.send_headers(1, [(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "x")],
                      end_stream=True)
    peer.close_connection()
    http2.feed(peer.data_to_send())
    assert ended


def test_goaway(api):
    """Open streams continue, new ones are refused."""
    client = H2Client(api)
    stream = client.request(target(URLS["nodes"], **WATCHLIST))
    client.wait(h2.events.DataReceived, stream)
    assert api.connections(do="goaway")["count"] == 1
    event = client.wait(h2.events.ConnectionTerminated)
    assert (event.error_code, event.last_stream_id) == (0, stream)
    client.close()
    client = H2Client(api)
    stream = client.request(target(URLS["nodes"], **WATCHLIST))
    client.wait(h2.events.DataReceived, stream)
    api.connections(do="goaway", code=11, close=True)
    event = client.wait(h2.events.ConnectionTerminated)
    assert event.error_code == 11 and client.next() is None
    client.close()


@pytest.mark.parametrize("p, code", [
    ({"kind": "reset"}, (35, 52, 55, 56)), ({"kind": "reset", "stream": True}, (92,)),
    ({"kind": "reset", "at": 100, "stream": True}, (92,)), ({"kind": "close"}, (18, 55, 56, 92)),
    ({"kind": "chunk"}, (16, 18, 55, 56, 92)), ({"kind": "truncate"}, (0,)),
    ({"kind": "garbage", "raw": True, "end": True}, (0, 16, 18, 55, 56, 92))])
def test_cuts_over_http2(api, p, code):
    """curl reports success (0) for some cuts: the body is incomplete. 55: curl was sending."""
    api.load(services=100)
    api.call("fault", resource="services", count=1, **p)
    result, out = curl(api, URLS["services"], "--http2")
    assert result in code
    with pytest.raises(ValueError):
        json.loads(out)
    assert curl(api, URLS["services"], "--http2")[0] == 0


def test_stalled_stream_does_not_stall_others(api):
    """HTTP/2: a stall affects one stream."""
    api.fault("stall", resource="services")
    client = H2Client(api)
    client.request(URLS["services"])
    other = client.request(URLS["nodes"])
    assert json.loads(client.body(other))["kind"] == "NodeList"
    client.close()


def test_certificates_rotate(api):
    """A new certificate of the same authority is valid; one of another authority is valid once
    ca.crt contains it."""
    def ask(context):
        return get(api, "/livez", secure=True, tls={"context": context})[0].status

    old = trusting(api)
    api.certs(what="server")
    assert ask(old) == 200
    api.certs(what="ca", publish=False)
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(old)
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(trusting(api))
    assert ask(ssl.create_default_context(cafile=api.path("ca-new.crt"))) == 200
    api.certs(what="ca")
    assert ask(trusting(api)) == 200
    before = api.stats()["tls_failures"]
    for wrong in ({"names": ["example.org"]}, {"begin": -100, "end": -10}):
        api.certs(what="server", **wrong)
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(trusting(api))
    eventually(lambda: api.stats()["tls_failures"] >= before + 2)
    api.certs(what="server")


def test_rewind(api):
    """Versions decrease, as after the restore of a backup."""
    rv = api.put(service("a"))
    api.rewind(rv=rv - 1)
    api.set(version_wait=0.05)
    assert get_json(api, URLS["services"], resourceVersion=rv)[0] == 504
    assert get_json(api, URLS["services"])[1]["metadata"]["resourceVersion"] == str(rv - 1)


def test_watch_in_the_future(api):
    """Neither events nor bookmarks until the version of the request."""
    rv = api.put(service("a"))
    api.set(bookmark_seconds=0.01)
    with WatchStream(api, "services", resourceVersion=rv + 2, allowWatchBookmarks="true") as w:
        for name in "bcde":
            api.put(service(name))
        event = w.event()
        while event["type"] == "BOOKMARK":
            assert int(event["object"]["metadata"]["resourceVersion"]) >= rv + 2
            event = w.event()
        assert event["object"]["metadata"]["name"] == "d"


# --------------------------------------------------------------------------------------------
# Changes of a cluster

def conditions(event):
    return [(e["addresses"][0],) + tuple(e["conditions"][c] for c in (
        "ready", "serving", "terminating")) for e in event["object"]["endpoints"] or ()]


def test_roll(api):
    """Five steps per endpoint, as in the recorded rolling update."""
    api.load(services=2, endpoints=2, base=False)
    with watchlist(api, "endpointslices") as w:
        names = w.until_synced()
        result = api.roll(services=["ns-000/service-00000"], step=0.001, endpoints=[
            {"addresses": ["192.0.2.1"], "nodeName": "here"}])
        assert result["result"] == 10
        events = [w.event() for _ in range(10)]
        old = "10.128.1.0"
        assert [conditions(e) for e in events[:5]] == [
            [(old, True, True, False), ("10.128.1.1", True, True, False),
             ("192.0.2.1", False, False, False)],
            [(old, True, True, False), ("10.128.1.1", True, True, False),
             ("192.0.2.1", True, True, False)],
            [(old, False, True, True), ("10.128.1.1", True, True, False),
             ("192.0.2.1", True, True, False)],
            [(old, False, False, True), ("10.128.1.1", True, True, False),
             ("192.0.2.1", True, True, False)],
            [("10.128.1.1", True, True, False), ("192.0.2.1", True, True, False)]]
        assert conditions(events[-1])[0] == ("192.0.2.1", True, True, False)
        assert {e["object"]["metadata"]["name"] for e in events} == {names[0]}
        trigger = events[-1]["object"]["metadata"]["annotations"][cluster.TRIGGER]
        assert trigger[:11] == time.strftime("%Y-%m-%dT", time.gmtime()) and "." in trigger
        assert events[-1]["object"]["metadata"]["generation"] == 11
    with pytest.raises(ApiServerError, match="shop/none has no slices"):
        api.roll(services=["shop/none"])


def test_churn(api):
    api.load(services=50, base=False)
    with watchlist(api, "endpointslices") as w:
        w.until_synced()
        task = api.churn(rate=500, seconds=0.3, wait=False)["task"]
        result = api.join(task=task)["result"]
        # A busy machine makes fewer changes, never more.
        assert 1 < result["changes"] <= 500 * result["seconds"] + 1
        for _ in range(result["changes"]):
            assert w.event()["type"] == "MODIFIED"
        api.churn(rate=100, seconds=0.05, what="ready")
        assert not all(c[1] for c in conditions(w.event()))
    task = api.churn(rate=1, seconds=60, wait=False)["task"]
    api.cancel(task=task)


def test_invalid_load(api):
    for bad in ({"services": -1}, {"families": "5"}, {"sevices": 1}, {"nodes": 0},
                {"services": 10 ** 7}):
        with pytest.raises(ApiServerError):
            api.load(**bad)


def test_large_cluster(api):
    """10,000 services, a fifth of the size in bench/."""
    api.load(services=10000, endpoints=5, nodes=500)
    for pb in (False, True):
        for resource in ("services", "endpointslices"):
            with contextlib.closing(connect(api)) as conn:
                conn.request("GET", target(URLS[resource], **WATCHLIST), headers={
                    "Accept": PB if pb else "application/json"})
                response = conn.getresponse()
                size = 0
                tail = b""
                while b"initial-events-end" not in tail:
                    data = response.read1(1 << 20)
                    size += len(data)
                    tail = tail[-200:] + data
            assert size > 5_000_000


# --------------------------------------------------------------------------------------------
# Replay

@pytest.fixture
def replay(api):
    def configure(**settings):
        api.replay(directory=recordings.DEFAULT_DIR, end="close", **settings)
    configure()
    api.configure = configure
    yield api
    del api.configure


def test_replay_is_exact(replay):
    for path, name, headers in (
            (URLS["services"], "services-list.http", ()),
            (URLS["services"], "services-list.pb", ["Accept: " + PB]),
            (URLS["nodes"], "node-list.http", ["Accept: %s,application/json" % PB]),
            (target(URLS["endpointslices"], watch=1), "endpointslices-watch.pb",
             ["Accept: " + PB]),
            (target(URLS["endpointslices"], **WATCHLIST), "endpointslices-watchlist.http", ()),
            ("/version", "version.http", ()), ("/api/v1/secrets", "secrets-list-forbidden.http",
                                               ())):
        data, _ = raw_request(replay, path, headers, timeout=0.3)
        assert data == RECORDED[name].raw
    replay.configure(map={"services/list": "services-list-continue-expired.http"})
    assert get(replay, URLS["services"])[0].status == 410
    assert replay.requests()[-1]["status"] == 410


def test_replay_each_byte(replay):
    """Each byte in a separate write or chunk: equal bodies."""
    recorded = RECORDED["services-list-page1.http"]
    names = {"services/list": "services-list-page1.http"}
    replay.configure(map=names, split="each", pause=0)
    assert get(replay, URLS["services"])[1] == recorded.body
    replay.configure(map=names, chunk="each")
    assert get(replay, URLS["services"])[1] == recorded.body
    data, _ = raw_request(replay, URLS["services"], timeout=0.3)
    assert data.count(b"\r\n1\r\n") == len(recorded.body)


def test_replay_sweeps(replay):
    """Each request is cut one byte later."""
    recorded = RECORDED["services-watch-timeout.http"]
    replay.configure(map={"services/watch": "services-watch-timeout.http"}, split=0, chunk=0,
                     sweep=True, pause=0)
    for turn in range(len(recorded.body)):
        with WatchStream(replay, "services") as w:
            first = w.chunk()
            assert len(first) == (turn or len(recorded.body))
            assert turn == 0 or first + w.chunk() == recorded.body
            assert w.chunk() == b""


def test_replay_over_http2(replay):
    replay.configure(split=[1, 100, 5000])
    client = H2Client(replay)
    stream = client.request(URLS["services"])
    sizes, data = [], b""
    while True:
        event = client.next()
        if isinstance(event, h2.events.DataReceived):
            sizes.append(len(event.data))
            data += event.data
        elif isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
            break
    assert data == RECORDED["services-list.http"].body
    assert [s for s in sizes if s] == [1, 99, 4900, len(data) - 5000]
    client.close()


@pytest.mark.parametrize("end, how", [("hold", "silent"), ("close", "eof"), ("reset", "reset"),
                                      ("end", "silent")])
def test_replay_ends(api, end, how):
    api.replay(directory=recordings.DEFAULT_DIR, end=end)
    data, got = raw_request(api, target(URLS["nodes"], watch=1), timeout=0.3)
    assert got == how
    if end != "reset":
        assert data == RECORDED["node-watch.http"].raw + (b"0\r\n\r\n" if end == "end" else b"")


def test_replay_falls_back(replay):
    """The API serves requests without a recording."""
    assert get(replay, URLS["servicecidrs"], timeoutSeconds=1, **WATCHLIST)[0].status == 200
    with pytest.raises(ApiServerError, match="map"):
        replay.configure(map={"services/list": "nothing.http"})


# --------------------------------------------------------------------------------------------
# The library

def test_statistics(api):
    api.forget()
    with watchlist(api, "services", headers={"User-Agent": "vipd/1"}, **SELECT["services"]) as w:
        w.until_synced()
        assert api.wait(synced={"services": 1})
        watch, = api.watches("services")
        assert watch["verb"] == "watchlist" and watch["encoding"] == "json"
        assert watch["query"]["fieldSelector"] == "spec.clusterIP!=None"
        record, = api.requests(resource="services")
        assert record["user_agent"] == "vipd/1" and record["status"] is None
        assert record["query"]["labelSelector"] == SELECT["services"]["labelSelector"]
    get(api, URLS["nodes"], headers={"Accept": PB})
    record = api.requests(query={}, verb="list")[-1]
    assert record["encoding"] == "pb" and record["status"] == 200 and record["bytes"] > 0
    stats = api.stats()
    assert stats["requests"] == 2 and stats["counts"]["list nodes 200"] == 1
    assert stats["bytes_out"] > 0
    assert api.wait(requests=1, match={"resource": "nodes"})
    assert not api.wait(requests=2, match={"resource": "nodes"}, timeout=0.05)
    assert not api.wait(watches={"nodes": 1}, timeout=0.05)


def test_invalid_operations(api):
    for op, args in (("nothing", {}), ("put", {}), ("end_watches", {"how": 1}), ("set", {"x": 1}),
                     ("set", {"chunk": "big"}), ("listen", {"state": "ajar"}),
                     ("connections", {"do": "hug"}), ("certs", {"what": "x"}),
                     ("join", {"task": 99}), ("list", {"resource": "pods"})):
        if op == "end_watches":
            continue
        with pytest.raises(ApiServerError):
            api.call(op, **args)
    assert api.ping()["rv"] > 0


@pytest.mark.parametrize("user", ["token", "tokenfile", "cert", "certdata", "exec", "exec-cert"])
@pytest.mark.parametrize("ca, style", [("file", "yaml"), ("data", "json")])
def test_kubeconfigs(api, user, ca, style):
    """Each kind of kubeconfig authenticates."""
    import yaml
    path = api.kubeconfig(user, ca=ca, style=style)
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, encoding="utf-8") as f:
        config = yaml.safe_load(f)
    assert config["kind"] == "Config" and config["current-context"] == "test"
    where = config["clusters"][0]["cluster"]
    who = config["users"][0]["user"]
    if ca == "data":
        context = ssl.create_default_context(cadata=base64.b64decode(
            where["certificate-authority-data"]).decode())
    else:
        context = ssl.create_default_context(cafile=where["certificate-authority"])
    if "exec" in who:
        runs = api.exec_runs()
        out = subprocess.run([who["exec"]["command"]] + who["exec"]["args"], capture_output=True,
                             check=True, env={e["name"]: e["value"] for e in who["exec"]["env"]})
        who = json.loads(out.stdout)["status"]
        assert api.exec_runs() == runs + 1
    headers = {}
    token = who.get("token")
    if "tokenFile" in who:
        with open(who["tokenFile"], encoding="ascii") as f:
            token = f.read().strip()
    if token:
        headers["Authorization"] = "Bearer " + token
    elif "client-certificate" in who:
        context.load_cert_chain(who["client-certificate"], who["client-key"])
    else:
        load_pair(context, api, who)
    assert where["server"] == api.https
    response, _ = get(api, URLS["services"], headers=headers, secure=True,
                      tls={"context": context})
    assert response.status == 200


def load_pair(context, api, who):
    """Load a certificate and key from text."""
    if "clientCertificateData" in who:
        pair = [who["clientCertificateData"], who["clientKeyData"]]
    else:
        pair = [base64.b64decode(who[k + "-data"]).decode()
                for k in ("client-certificate", "client-key")]
    context.load_cert_chain(api.write("pair", "".join(pair), 0o600))


def test_restart_keeps_files():
    """A server that is restarted on its port has new certificates and no objects."""
    server = Server(tls=True)
    try:
        server.port = urllib.parse.urlsplit(server.https).port
        old = server.https
        server.put(service("a"))
        server.stop(kill=True)
        with pytest.raises(ApiServerError):
            server.ping()
        server.start()
        assert server.https == old and server.list(resource="services")["keys"] == []
        assert get(server, "/livez", secure=True)[1] == b"ok"
        directory = server.dir
    finally:
        server.close()
    assert not os.path.exists(directory)


def dead(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_exits_with_its_parent():
    code = ("import sys, os; sys.path.insert(0, %r); from apiserver.client import Server; "
            "s = Server(tls=False); print(s.process.pid, s.dir, flush=True); os._exit(0)" %
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    out = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True,
                         timeout=20, check=True)
    pid, directory = out.stdout.split()
    eventually(lambda: dead(pid))
    subprocess.run(["rm", "-r", directory], check=True)


def test_bad_options():
    r = subprocess.run(["/usr/bin/python3", recordings.HERE, "--bind", "192.0.2.1"],
                       capture_output=True, text=True, timeout=20, check=False)
    assert r.returncode == 1 and r.stderr.startswith("apiserver: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_in_a_namespace():
    """Only the control socket is reachable from outside of the namespace."""
    name = "vipdt-%d-api" % os.getpid()
    if subprocess.run(["ip", "netns", "add", name], check=False).returncode != 0:
        pytest.skip("network namespaces cannot be made here")
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        with Server(netns=name, bind="::1") as server:
            assert server.https.startswith("https://[::1]:")
            server.put(service("a"))
            with pytest.raises(OSError):
                get(server, "/livez", secure=True)
            out = subprocess.run(
                ["ip", "netns", "exec", name, "curl", "-s", "--cacert", server.path("ca.crt"),
                 server.https + "/livez"], capture_output=True, timeout=10, check=True)
            assert out.stdout == b"ok"
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def test_continue_tokens():
    """Tokens have the recorded form."""
    meta = json.loads(RECORDED["services-list-page1.http"].body)["metadata"]
    assert make_continue(241, "/shop/base1\0") == meta["continue"]
    assert open_continue(meta["continue"]) == (241, "shop/base1\0")


def test_frames_match_struct():
    framer = wire.Framer(KINDS["nodes"])
    data = framer.pb_event("ADDED", b"x" * 300)
    assert struct.unpack(">I", data[:4])[0] == len(data) - 4
    (type_, _, kind, raw), = wire.open_frames(data)[0]
    assert (type_, kind, raw) == ("ADDED", "Node", b"x" * 300)
