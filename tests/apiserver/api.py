# SPDX-License-Identifier: GPL-2.0-or-later
"""API requests: routing, authentication, lists, and errors with the text of a real server."""
import asyncio
import base64
import json
import re
import time
import uuid
import zlib
from email.utils import formatdate

from . import selection, wire
from .faults import Shaper, changed
from .schema import KINDS
from .watch import Watch

MEDIA = {"json": "application/json", "pb": "application/vnd.kubernetes.protobuf"}
FLOW_SCHEMA = "86cc2d1d-a7a0-4a1a-a519-0b22af61452c"
PRIORITY_LEVEL = "97f65a3c-da8f-417c-87e1-94d77aa747ae"
OPEN_PATHS = ("/livez", "/readyz", "/healthz", "/version")
GZIP_MIN = 128 * 1024
BLOCK = 1 << 18
WHOLE_MAX = 2048        # larger bodies are chunked, as by net/http
VERSION = {"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
           "minCompatibilityMajor": "1", "minCompatibilityMinor": "35", "gitVersion": "v1.36.2",
           "gitCommit": "$Format:%H$", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
           "goVersion": "go1.26.11", "compiler": "gc", "platform": "linux/amd64"}

# Rights of the role of a service proxy (IN-07).
_READ = ("list", "watch", "watchlist")
ROLE = {"services": _READ, "endpointslices": _READ, "servicecidrs": _READ,
        "nodes": _READ + ("get",), "events": ("create", "patch", "update")}
_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
                   r"(?:/namespaces/(?P<ns>[^/]+))?/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?/?$")


class ApiError(Exception):
    """An answer that is a Status."""

    def __init__(self, code, reason, message, details=None, metadata=None, nosniff=False):
        super().__init__(message)
        self.nosniff = nosniff
        self.status = {"metadata": metadata or {}, "status": "Failure", "message": message,
                       "reason": reason, "details": details, "code": code}

    @property
    def code(self):
        return self.status["code"]


def bad_request(message):
    return ApiError(400, "BadRequest", message)


def invalid_options(*causes):
    """422 for query parameters that exclude each other: (field, text) each."""
    texts = ["%s: Forbidden: %s" % c for c in causes]
    message = 'ListOptions.meta.k8s.io "" is invalid: ' + (
        texts[0] if len(texts) == 1 else "[%s]" % ", ".join(texts))
    return ApiError(422, "Invalid", message, {
        "group": "meta.k8s.io", "kind": "ListOptions",
        "causes": [{"reason": "FieldValueForbidden", "message": "Forbidden: " + t, "field": f}
                   for f, t in causes]})


def expired(message, metadata=None):
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(wanted, current):
    return ApiError(504, "Timeout", "Timeout: Too large resource version: %d, current: %d" % (
        wanted, current), {
            "causes": [{"reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version"}], "retryAfterSeconds": 1})


_REASONS = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
            409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests",
            500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout"}
_TEXTS = {
    401: "Unauthorized",
    429: "The server has received too many requests and has asked us to try again later",
    500: "Internal error occurred: etcdserver: request timed out",
    503: "The server is currently unable to handle the request",
    504: "Timeout: request did not complete within the allotted timeout"}


class Route:
    """Resource, namespace and name in a URL. `kind` is None if this server has no such objects."""

    def __init__(self, request):
        self.path = request.path
        self.kind = None
        self.resource = self.group = self.version = self.ns = self.name = ""
        self.encoding = "json"
        m = _PATH.match(request.path)
        if m:
            self.group = m.group("group") or ""
            self.version = m.group("core") or m.group("version")
            self.ns = m.group("ns") or ""
            self.resource = m.group("resource")
            self.name = m.group("name") or ""
            kind = KINDS.get(self.resource)
            if kind and kind.group == self.group and kind.version == self.version and \
                    (kind.namespaced or not self.ns):
                self.kind = kind
        self.verb = self._verb(request)

    def _verb(self, request):
        if request.method != "GET":
            return {"POST": "create", "PUT": "update", "PATCH": "patch",
                    "DELETE": "delete"}.get(request.method, request.method.lower())
        if is_true(request.query.get("watch")):
            initial = is_true(request.query.get("sendInitialEvents"))
            return "watchlist" if initial else "watch"
        return "get" if self.name or not self.resource else "list"


def is_true(value):
    return value is not None and value.lower() in ("", "1", "t", "true")


def negotiate(accept, allowed):
    """The encoding for an Accept header, or None. Clauses for another presentation (as=Table) are
    ignored."""
    clauses = []
    for index, clause in enumerate((accept or "*/*").split(",")):
        media, *params = [p.strip() for p in clause.split(";")]
        values = dict(p.split("=", 1) for p in params if "=" in p)
        if "as" in values or values.get("stream", "watch") != "watch":
            continue
        try:
            q = float(values.get("q", "1"))
        except ValueError:
            q = 0.0
        clauses.append((-q, index, media))
    for q, _, media in sorted(clauses):
        if q == 0:
            continue
        for encoding in allowed:
            if media in (MEDIA[encoding], "*/*", "application/*"):
                return encoding
    return None


class Api:
    """Answers requests from the store. `server` holds the settings (see server.Settings)."""

    def __init__(self, server):
        self.server = server
        self.store = server.store
        self.faults = server.faults
        self.posted = []

    # ---- requests

    async def handle(self, ex):
        request = ex.request
        route = Route(request)
        record = self.server.stats.begin(ex, route)
        try:
            accepted = negotiate(request.headers.get("accept"), self.server.encodings)
            route.encoding = record["encoding"] = accepted or "json"
            shaper = Shaper(ex, self.faults, route)
            await self._answer_faults(ex, route, shaper)
            user = self.authenticate(ex)
            record["user"] = user[0]
            self.authorize(user, route)
            if not accepted and route.path not in OPEN_PATHS:
                raise ApiError(406, "NotAcceptable", "only the following media types are accepted: "
                               + ", ".join(MEDIA[e] for e in self.server.encodings))
            await self._dispatch(ex, route, shaper, record)
        except ApiError as e:
            await self.fail(ex, route, e)
        finally:
            self.server.stats.end(record, ex)

    async def _answer_faults(self, ex, route, shaper):
        """Faults that precede all other processing."""
        await shaper.before("request")
        fault = self.faults.find(route, "delay")
        if fault and fault.take():
            await _sleep(ex, fault.p["delay"])
        fault = self.faults.find(route, "status")
        if fault and fault.take():
            await self._status_fault(ex, route, fault.p)

    async def _status_fault(self, ex, route, p):
        code = p.get("code", 500)
        extra = [("Retry-After", str(p["retry_after"]))] if "retry_after" in p else []
        if "body" in p or p.get("plain"):
            body = p.get("body", _TEXTS.get(code, "error") + "\n").encode()
            headers = self.headers(p.get("type", "text/plain; charset=utf-8"), nosniff=True)
            await self.whole(ex, code, headers + extra, body)
            raise Done
        if code == 403 and "message" not in p:
            raise self.forbidden(("system:kube-proxy", []), route)
        details = {"retryAfterSeconds": p["retry_after"]} if "retry_after" in p else None
        error = ApiError(code, p.get("reason", _REASONS.get(code, "")),
                         p.get("message", _TEXTS.get(code, "status %d" % code)), details)
        await self.fail(ex, route, error, extra)
        raise Done

    def authenticate(self, ex):
        """(user, groups) of a request, or 401."""
        header = ex.request.headers.get("authorization", "")
        if header.lower().startswith("bearer "):
            user = self.server.tokens.get(header[7:].strip())
            if user is None:
                raise ApiError(401, "Unauthorized", "Unauthorized")
            return user, ["system:authenticated"]
        peer = ex.connection.peer_user
        if peer:
            if "*" in self.server.revoked or peer[2] in self.server.revoked:
                raise ApiError(401, "Unauthorized", "Unauthorized")
            return peer[0], peer[1] + ["system:authenticated"]
        if not ex.connection.secure and not self.server.plain_auth:
            return "system:kube-proxy", ["system:authenticated"]
        if ex.request.path in OPEN_PATHS:
            return "system:anonymous", ["system:unauthenticated"]
        raise ApiError(401, "Unauthorized", "Unauthorized")

    def authorize(self, user, route):
        if not route.resource:
            if route.path.rstrip("/") in OPEN_PATHS or "system:masters" in user[1]:
                return
            raise ApiError(403, "Forbidden", 'forbidden: User "%s" cannot %s path "%s"' % (
                user[0], route.verb, route.path), {}, nosniff=True)
        if "system:masters" in user[1]:
            return
        if route.verb not in ROLE.get(route.resource, ()) or \
                not (route.kind or route.resource == "events"):
            raise self.forbidden(user, route)

    def forbidden(self, user, route):
        kind = {"watchlist": "watch"}.get(route.verb, route.verb)
        where = "at the cluster scope" if not route.ns else 'in the namespace "%s"' % route.ns
        what = '%s "%s"' % (route.resource, route.name) if route.name else route.resource
        if route.group:
            what = what.replace(route.resource, "%s.%s" % (route.resource, route.group), 1)
        return ApiError(
            403, "Forbidden",
            '%s is forbidden: User "%s" cannot %s resource "%s" in API group "%s" %s' % (
                what, user[0], kind, route.resource, route.group, where),
            {"name": route.name, "group": route.group, "kind": route.resource}, nosniff=True)

    async def _dispatch(self, ex, route, shaper, record):
        if route.path in OPEN_PATHS:
            await self._plain(ex, route.path)
        elif route.resource == "events" and route.verb in ("create", "patch", "update"):
            await self._post(ex, route)
        elif route.kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        elif route.verb == "get":
            await self._get(ex, route, shaper)
        elif route.verb == "list":
            await self._list(ex, route, shaper)
        elif route.verb in ("watch", "watchlist"):
            await self._watch(ex, route, shaper, record)
        else:
            raise ApiError(405, "MethodNotAllowed",
                           "the server does not allow this method on the requested resource", {})

    # ---- responses

    def headers(self, content_type, nosniff=False, flow=True):
        out = [("Audit-Id", str(uuid.uuid4())), ("Cache-Control", "no-cache, private"),
               ("Content-Type", content_type)]
        if nosniff:
            out.append(("X-Content-Type-Options", "nosniff"))
        if flow:
            out += [("X-Kubernetes-Pf-Flowschema-Uid", FLOW_SCHEMA),
                    ("X-Kubernetes-Pf-Prioritylevel-Uid", PRIORITY_LEVEL)]
        out.append(("Date", formatdate(usegmt=True)))
        return out

    def content_type(self, route, watch=False):
        fault = self.faults.find(route, "type")
        if fault and fault.take():
            return fault.p.get("value", "text/html; charset=utf-8")
        if watch and route.encoding == "pb":
            return MEDIA["pb"] + ";stream=watch"
        return MEDIA[route.encoding]

    async def whole(self, ex, code, headers, body):
        """Send a complete body."""
        ex.begin(code, headers, len(body) if len(body) <= WHOLE_MAX else None)
        ex.write(body)
        ex.end()
        await ex.drain()

    async def fail(self, ex, route, error, extra=()):
        body = wire.status_body(error.status, route.encoding)
        headers = self.headers(MEDIA[route.encoding], error.nosniff, flow=error.code != 401)
        retry = (error.status["details"] or {}).get("retryAfterSeconds")
        if retry and not extra:
            headers.append(("Retry-After", str(retry)))
        await self.whole(ex, error.code, headers + list(extra), body)

    async def _plain(self, ex, path):
        if path == "/version":
            body = json.dumps(VERSION, indent=2).encode()
            await self.whole(ex, 200, self.headers("application/json"), body)
            return
        headers = self.headers("text/plain; charset=utf-8", nosniff=True)
        if path == "/readyz" and not self.server.ready:
            await self.whole(ex, 500, headers, b"[-]etcd failed: reason withheld\n"
                             b"readyz check failed\n")
        else:
            await self.whole(ex, 200, headers, b"ok")

    def _check_event(self, route, event):
        """As a real server validates an Event of events.k8s.io/v1, and refuses a second one of the same name."""
        meta, regarding = event.get("metadata") or {}, event.get("regarding") or {}
        name, limits = meta.get("name", ""), {"note": 1024, "reason": 128, "action": 128, "reportingInstance": 128}
        wrong = [k for k in ("reason", "action", "reportingController", "reportingInstance", "eventTime")
                 if not event.get(k)]
        wrong += [k for k, most in limits.items() if len(event.get(k, "").encode()) > most]
        wrong += ["type"] * (event.get("type") not in ("Normal", "Warning"))
        wrong += ["eventTime"] * (not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event.get("eventTime", "")))
        wrong += ["metadata.name"] * (len(name) > 253 or not re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name))
        wrong += ["metadata.namespace"] * (meta.get("namespace", route.ns) != route.ns)
        wrong += ["regarding.namespace"] * (not regarding.get("namespace") and route.ns not in ("default", "kube-system"))
        if wrong:
            raise ApiError(422, "Invalid", 'Event.events.k8s.io "%s" is invalid: %s' % (name, ", ".join(wrong)), {
                "name": name, "group": "events.k8s.io", "kind": "Event"})
        if any(p["verb"] == "create" and p["namespace"] == route.ns and
               (p["object"].get("metadata") or {}).get("name") == name for p in self.posted):
            raise ApiError(409, "AlreadyExists", 'events.events.k8s.io "%s" already exists' % name, {
                "name": name, "group": "events.k8s.io", "kind": "events"})

    async def _post(self, ex, route):
        """Store Events that the client creates, for op_posted()."""
        request = ex.request
        content_type = request.headers.get("content-type", "").split(";")[0]
        body = request.body
        if content_type == MEDIA["pb"]:
            try:
                kept = {"protobuf": base64.b64encode(wire.open_envelope(body)[2]).decode()}
            except wire.WireError as e:
                raise bad_request(str(e)) from e
        elif content_type in ("application/json", "application/merge-patch+json",
                              "application/strategic-merge-patch+json"):
            try:
                kept = json.loads(body)
            except ValueError as e:
                raise bad_request("the object provided is unrecognized: %s" % e) from e
            if not isinstance(kept, dict):
                raise bad_request("the object provided is unrecognized")
        else:
            raise ApiError(415, "UnsupportedMediaType", "the body of the request was in an unknown "
                           "format - accepted media types include: application/json, "
                           "application/vnd.kubernetes.protobuf")
        if route.verb == "create" and route.group == "events.k8s.io" and content_type != MEDIA["pb"]:
            self._check_event(route, kept)
        self.posted.append({"verb": route.verb, "namespace": route.ns, "name": route.name,
                            "group": route.group, "object": kept})
        if content_type != MEDIA["pb"]:
            content_type = "application/json"
            body = wire.dumps(kept) + b"\n"
        await self.whole(ex, 201 if route.verb == "create" else 200, self.headers(content_type),
                         body)

    async def _get(self, ex, route, shaper):
        table = self.store.tables[route.resource]
        key = route.ns + "/" + route.name if route.kind.namespaced else route.name
        item = table.items.get(key)
        if item is None:
            raise ApiError(404, "NotFound", '%s "%s" not found' % (
                route.resource + ("." + route.group if route.group else ""), route.name),
                {"name": route.name, "group": route.group, "kind": route.resource})
        item = changed(self.faults, route, item)
        kind = route.kind
        if route.encoding == "pb":
            body = wire.envelope(kind.api_version, kind.kind, item.pb)
        else:
            body = b'{"kind":"%s","apiVersion":"%s",%s\n' % (
                kind.kind.encode(), kind.api_version.encode(), item.js)
        await self._body(ex, route, shaper, [body], len(body))

    # ---- lists

    async def _list(self, ex, route, shaper):
        query = ex.request.query
        table = self.store.tables[route.resource]
        predicate = self.predicate(ex, route)
        limit = self._limit(query)
        version = parse_version(query.get("resourceVersion", ""))
        match = query.get("resourceVersionMatch", "")
        if query.get("continue"):
            snapshot, rv, first = self._resume(table, query, version)
        else:
            if match and version is None:
                raise invalid_options(("resourceVersionMatch", "resourceVersionMatch is forbidden "
                                       "unless resourceVersion is provided"))
            if match not in ("", "Exact", "NotOlderThan"):
                raise invalid_options(("resourceVersionMatch", "unknown value"))
            if version == 0 and match != "Exact":
                limit = 0               # from the cache, which has no pages
            await self.wait_for_version(ex, version)
            exact = match == "Exact" or (version and limit and not match)
            snapshot, rv = self._at(table, version if exact else None)
            first = 0
        items, meta = self._page(snapshot, rv, first, limit, predicate)
        if self.faults:
            items = [changed(self.faults, route, i) for i in items]
        framer = table.framer
        parts = (framer.pb_list if route.encoding == "pb" else framer.json_list)(meta, items)
        size = None
        if len(items) < 64 or self.faults:
            parts = list(parts)
            size = sum(len(p) for p in parts)
        await self._body(ex, route, shaper, parts, size)

    def predicate(self, ex, route):
        query = ex.request.query
        try:
            predicate = selection.both(query.get("labelSelector"), query.get("fieldSelector"),
                                       route.ns, route.kind, self.server.spec_fields)
        except selection.SelectorError as e:
            raise bad_request(str(e)) from e
        if not route.name:
            return predicate
        return lambda item: item.name == route.name and (predicate is None or predicate(item))

    def _limit(self, query):
        try:
            limit = int(query.get("limit") or 0)
        except ValueError as e:
            raise bad_request("limit: %r is no number" % query["limit"]) from e
        if limit < 0:
            raise bad_request("limit: must be at least 0")
        return limit

    async def wait_for_version(self, ex, version):
        """Wait a short time for a version that is newer than the store; then an error."""
        if version is None or version <= self.store.rv:
            return
        deadline = time.monotonic() + self.server.version_wait
        while version > self.store.rv and time.monotonic() < deadline:
            await _sleep(ex, 0.02)
        if version > self.store.rv:
            raise too_large_version(version, self.store.rv)

    def _at(self, table, version):
        if version is None:
            return table.snapshot(self.store.rv), self.store.rv
        snapshot = table.snapshot_at(version, self.store.rv)
        if snapshot is None:
            raise expired("The resourceVersion for the provided list is too old.")
        return snapshot, version

    def _resume(self, table, query, version):
        """Position of a continue token: (snapshot, version, index of the first item)."""
        if version:
            raise bad_request("specifying resource version is not allowed when using continue")
        rv, key = open_continue(query["continue"])
        if rv < 0:
            snapshot, rv = table.snapshot(self.store.rv), self.store.rv
            return snapshot, rv, snapshot.after(key)
        snapshot = table.snapshot_at(rv, self.store.rv) if rv >= table.floor else None
        if snapshot is None:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter, or use the continue "
                "token in this response to retrieve the remainder of the results. Continuing with "
                "the provided token results in an inconsistent list - objects that were created, "
                "modified, or deleted between the time the first chunk was returned and now may "
                "show up in the list.", {"continue": make_continue(-1, key)})
        return snapshot, rv, snapshot.after(key)

    def _page(self, snapshot, rv, first, limit, predicate):
        """(items, list metadata)."""
        meta = {"resourceVersion": str(rv)}
        items = snapshot.items
        if not limit:
            rest = items[first:] if first else items
            return (rest if predicate is None else [i for i in rest if predicate(i)]), meta
        page = []
        index = first
        while index < len(items) and len(page) < limit:
            if predicate is None or predicate(items[index]):
                page.append(items[index])
            index += 1
        if index < len(items):
            meta["continue"] = make_continue(rv, "/" + page[-1].key + "\0")
            if predicate is None:
                meta["remainingItemCount"] = len(items) - index
        return page, meta

    async def _body(self, ex, route, shaper, parts, size):
        """Send a body of many parts. `size`: its length, or None."""
        headers = self.headers(self.content_type(route))
        gzip = self.server.gzip and (size is None or size > GZIP_MIN) and \
            "gzip" in ex.request.headers.get("accept-encoding", "")
        if gzip:
            headers += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
            size = None
        ex.begin(200, headers, size if size is not None and size <= WHOLE_MAX else None)
        await shaper.before("headers")
        squeeze = zlib.compressobj(1, zlib.DEFLATED, 31) if gzip else None
        block, length = [], 0
        for part in parts:
            block.append(part)
            length += len(part)
            if length >= BLOCK:
                data = b"".join(block)
                await shaper.send(squeeze.compress(data) if gzip else data, size)
                block, length = [], 0
        data = b"".join(block)
        if gzip:
            data = squeeze.compress(data) + squeeze.flush()
        await shaper.send(data, size)
        ex.end()
        await ex.drain()

    # ---- watches

    async def _watch(self, ex, route, shaper, record):
        query = ex.request.query
        predicate = self.predicate(ex, route)
        version = parse_version(query.get("resourceVersion", ""))
        self._check_watch(query)
        initial = route.verb == "watchlist"
        if initial and self.server.watchlist == "ignore":
            initial = False
            version = None
        elif initial:
            await self.wait_for_version(ex, version)
        selection = (query.get("labelSelector", ""), query.get("fieldSelector", ""), route.ns,
                     route.name)
        table = self.store.tables[route.resource]
        group = table.group(selection, predicate, route.encoding)
        watch = Watch(self.server, ex, route, shaper, table, group)
        record["watch"] = watch.id
        ex.begin(200, self.headers(self.content_type(route, watch=True)))
        await shaper.before("headers")
        await watch.run(version, initial)

    def _check_watch(self, query):
        """Reject invalid queries, and watch-lists without their feature gate."""
        initial = query.get("sendInitialEvents")
        match = query.get("resourceVersionMatch", "")
        if self.server.watchlist == "ignore":
            return
        if initial is not None and not match:
            raise invalid_options(("sendInitialEvents", "sendInitialEvents is forbidden for watch "
                                   "unless resourceVersionMatch is provided"))
        if match and initial is None:
            raise invalid_options(("resourceVersionMatch", "resourceVersionMatch is forbidden for "
                                   "watch unless sendInitialEvents is provided"))
        if initial is not None and self.server.watchlist == "invalid":
            raise invalid_options(("sendInitialEvents", "sendInitialEvents is forbidden for watch "
                                   "unless the WatchList feature gate is enabled"))
        if initial is not None and self.server.watchlist == "bad":
            raise bad_request("sendInitialEvents: unknown parameter")
        if match not in ("", "NotOlderThan"):
            raise invalid_options(("resourceVersionMatch", "sendInitialEvents requires setting "
                                   "resourceVersionMatch to NotOlderThan"))


class Done(ConnectionError):
    """Raised to end a task whose response is complete."""


async def _sleep(ex, seconds):
    """Sleep; ConnectionError if the client disconnects."""

    try:
        await asyncio.wait_for(ex.connection.lost.wait(), seconds)
    except asyncio.TimeoutError:
        return
    raise ConnectionResetError("the client disconnected")


def parse_version(text):
    """The resourceVersion parameter, or None."""
    if text == "":
        return None
    if not text.isdigit():
        raise ApiError(400, "BadRequest", 'resourceVersion: Invalid value: "%s": strconv.ParseUint'
                       ': parsing "%s": invalid syntax' % (text, text))
    return int(text)


def make_continue(rv, key):
    token = wire.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": key})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def open_continue(text):
    """(version, key) of a continue token."""
    try:
        token = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if token["v"] != "meta.k8s.io/v1":
            raise ValueError("server cannot handle version")
        return int(token["rv"]), str(token["start"]).lstrip("/")
    except (ValueError, KeyError, TypeError) as e:
        raise bad_request("continue key is not valid: %s" % e) from e
