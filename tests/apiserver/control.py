# SPDX-License-Identifier: GPL-2.0-or-later
"""The control interface: a unix socket, one JSON request a line, one JSON reply a line.

A request is {"op": NAME, ...}; the reply has "ok", and "error" if that is false. Each method
op_NAME is an operation, documented by its docstring. client.py wraps the operations for tests.
"""
import asyncio
import base64
import contextlib
import json
import os
import time

from . import cluster, wire
from .faults import KINDS as FAULT_KINDS
from .faults import FaultError
from .schema import KINDS
from .stats import matches
from .store import StoreError

LINE_MAX = 1 << 30


class ControlError(Exception):
    """An invalid request; str() is the reason."""


class Control:
    """Serves the control socket of one server."""

    def __init__(self, server, path):
        self.server = server
        self.path = path
        self.life = cluster.Life(server.store)
        self.tasks = {}
        self.listener = None

    async def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener = await asyncio.start_unix_server(self._client, self.path, limit=LINE_MAX)

    def stop(self):
        self.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    async def _client(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                line = await reader.readline()
                if not line:
                    break
                writer.write(wire.dumps(await self._reply(line)) + b"\n")
                await writer.drain()
        writer.close()

    async def _reply(self, line):
        try:
            request = json.loads(line)
            op = getattr(self, "op_" + request.pop("op"), None)
            if op is None:
                raise ControlError("op: no such operation")
            result = op(**request)
            if asyncio.iscoroutine(result):
                result = await result
            return dict({"ok": True, "monotonic": time.monotonic()}, **(result or {}))
        except (ControlError, StoreError, FaultError, OSError, ValueError, KeyError, TypeError,
                AttributeError) as e:
            return {"ok": False, "error": "%s%s" % (
                "" if isinstance(e, (ControlError, StoreError, FaultError)) else
                type(e).__name__ + ": ", e)}

    # ---- objects

    def op_put(self, object, raw=False, force=False):
        """Create or replace an object. raw: without checks and defaults. force: send an event even
        if the object is unchanged."""
        item = self.server.store.put(object, raw, force)
        return {"rv": item.rv, "key": item.key}

    def op_put_many(self, objects, raw=False, at_once=False):
        """op_put() for a list. at_once: no event is written before the last one is encoded."""
        for watch in self.server.watches if at_once else ():
            watch.idle = False      # events are queued
            watch.wake.set()
        for obj in objects:
            self.server.store.put(obj, raw)
        return {"rv": self.server.store.rv, "count": len(objects)}

    def op_patch(self, resource, key, change, force=False):
        """Apply a JSON merge patch to the object `key`: "namespace/name" or "name"."""
        return {"rv": self.server.store.patch(resource, key, change, force).rv}

    def op_delete(self, resource, key):
        """Remove an object."""
        return {"rv": self.server.store.delete(resource, key).rv}

    def op_delete_many(self, resource, keys=None):
        """Remove objects; without keys, all objects of the resource."""
        table = self._table(resource)
        keys = list(table.items) if keys is None else keys
        for key in keys:
            self.server.store.delete(resource, key)
        return {"rv": self.server.store.rv, "count": len(keys)}

    def op_get(self, resource, key):
        """A stored object."""
        item = self.server.store.get(resource, key)
        return {"object": dict({"kind": item.kind.kind, "apiVersion": item.kind.api_version},
                               **item.obj)}

    def op_list(self, resource):
        """Keys of all objects of a resource."""
        return {"keys": sorted(self._table(resource).items)}

    def _table(self, resource):
        if resource not in KINDS:
            raise ControlError("resource: %r is none of %s" % (resource, ", ".join(KINDS)))
        return self.server.store.tables[resource]

    def op_load(self, **measures):
        """Load a synthetic cluster; see cluster.load()."""
        result = cluster.load(self.server.store, measures)
        self.server.settle()
        return result

    # ---- changes over time

    async def op_roll(self, services, step=0.05, endpoints=None, wait=True):
        """Rolling update of services ("namespace/name"), `step` seconds between changes."""
        return await self._task(self.life.roll(services, step, endpoints), wait)

    async def op_churn(self, rate, seconds, what="replace", without=None, wait=True):
        """Random endpoint changes; see cluster.Life.churn()."""
        return await self._task(self.life.churn(rate, seconds, what, without), wait)

    async def _task(self, coro, wait):
        task = asyncio.get_running_loop().create_task(coro)
        if wait:
            return {"result": await task}
        number = len(self.tasks) + 1
        self.tasks[number] = task
        return {"task": number}

    async def op_join(self, task):
        """Wait for a task that was started with wait=false."""
        if task not in self.tasks:
            raise ControlError("task: %r does not exist" % (task,))
        return {"result": await self.tasks[task]}

    def op_cancel(self, task):
        """End a task."""
        if task in self.tasks:
            self.tasks[task].cancel()

    # ---- versions

    def op_compact(self, resource=None):
        """Drop the history: all versions so far are expired."""
        self.server.store.compact(resource)
        return {"rv": self.server.store.rv}

    def op_rewind(self, rv):
        """Continue at a lower version, as after the restore of a backup. Watches are reset."""
        self.server.store.rewind(rv)
        self.op_end_watches(how="reset")

    # ---- faults

    def op_fault(self, **p):
        """Add a fault; see faults.py."""
        if p.get("resource") is not None and p["resource"] not in KINDS and \
                p["resource"] not in ("events", ""):
            raise ControlError("resource: %r is none of %s" % (p["resource"], ", ".join(KINDS)))
        return {"id": self.server.faults.add(p).id}

    def op_faults(self):
        """All faults, and the number of times each had an effect."""
        return {"faults": [f.describe() for f in self.server.faults.all],
                "kinds": list(FAULT_KINDS)}

    def op_clear(self, id=None):
        """Remove one fault, or all."""
        self.server.faults.clear(id)

    def op_listen(self, state):
        """open; closed: connections are refused; silent: accepted, without any response; full:
        not accepted, they stay in the kernel's queue."""
        self.server.listen(state)

    def op_connections(self, do, id=None, resource=None, **p):
        """Act on open connections: all, one, or those that watch a resource. reset (RST), close
        (FIN), cut (FIN without TLS close_notify), freeze (stop reading and writing), goaway
        (HTTP/2; code, last, close)."""
        chosen = self._connections(id, resource)
        if do not in ("reset", "close", "cut", "freeze", "goaway"):
            raise ControlError("do: %r is none of reset, close, cut, freeze, goaway" % (do,))
        count = 0
        for conn in chosen:
            if do != "goaway":
                getattr(conn, do)()
            elif hasattr(conn.http, "goaway"):
                conn.http.goaway(**p)
            else:
                continue
            count += 1
        return {"count": count}

    def _connections(self, number, resource):
        if resource:
            return {w.ex.connection for w in self.server.watches if w.route.resource == resource}
        return [c for c in self.server.connections if number in (None, c.id)]

    def op_end_watches(self, how="end", resource=None, status=None):
        """End open watches: end (properly), error (an ERROR event with `status`, then the end),
        reset_stream (HTTP/2), reset, close, freeze."""
        chosen = [w for w in self.server.watches if resource in (None, w.route.resource)]
        for watch in chosen:
            if how == "end":
                watch.finish()
            elif how == "error":
                status = status or {"status": "Failure", "reason": "Expired", "code": 410,
                                    "message": "too old resource version"}
                watch.inject(wire.error_event(status, watch.route.encoding))
                watch.finish()
            elif how == "reset_stream":
                watch.ex.reset_stream()
                watch.finish()
            elif how in ("reset", "close", "freeze"):
                getattr(watch.ex.connection, how)()
            else:
                raise ControlError("how: %r is not supported" % (how,))
        return {"count": len(chosen)}

    def op_inject(self, resource, event=None, raw=None, encoding=None):
        """Send to the watches of a resource: `raw`, base64, or a JSON `event` {type, object}. For
        protobuf watches, values of wrong types are left out of the object."""
        table = self._table(resource)
        count = 0
        for watch in tuple(self.server.watches):
            if watch.route.resource != resource or encoding not in (None, watch.route.encoding):
                continue
            if raw is not None:
                data = base64.b64decode(raw)
            elif watch.route.encoding == "json":
                data = wire.dumps(event) + b"\n"
            else:
                data = self._pb_event(table.kind, event)
            watch.inject(data)
            count += 1
        return {"count": count}

    def _pb_event(self, kind, event):
        obj = event.get("object") or {}
        if obj.get("kind") == "Status":
            raw = wire.status_body(obj, "pb")
        else:
            raw = wire.envelope(obj.get("apiVersion", kind.api_version),
                                obj.get("kind", kind.kind),
                                wire.encode_what_fits(kind.message, obj))
        body = wire.delimited(1, event.get("type", "").encode()) + \
            wire.delimited(2, wire.delimited(1, raw))
        return len(body).to_bytes(4, "big") + body

    async def op_bookmark(self, resource=None):
        """Send a bookmark to each watch with allowWatchBookmarks."""
        chosen = [w for w in self.server.watches
                  if w.needs_bookmarks and resource in (None, w.route.resource)]
        for watch in chosen:
            watch.bookmarks += 1
            watch.inject(watch.bookmark(self.server.store.rv))
        return {"count": len(chosen)}

    # ---- authentication

    def op_tokens(self, tokens):
        """Set the valid bearer tokens: {token: user}, or a list."""
        if isinstance(tokens, list):
            tokens = {t: "system:kube-proxy" for t in tokens}
        self.server.tokens = tokens

    def op_certs(self, what, publish=True, names=None, begin=-86400, end=365 * 86400):
        """New certificates for new connections. server: from the current authority, with these
        names and times. ca: from a new authority (publish=false: ca.crt keeps the old one)."""
        certs = self.server.certs
        if what == "server":
            certs.serve(names, begin, end)
        elif what == "ca":
            certs.replace_authority(publish)
        else:
            raise ControlError("what: %r is neither server nor ca" % (what,))
        self.server.reload_certs()

    def op_client_cert(self, name, **p):
        """A new client certificate NAME.crt, NAME.key; see certs.Certs.client()."""
        return self.server.certs.client(name, **p)

    def op_revoke(self, serial):
        """Reject a client certificate from now on ("*": any); null reverts all revocations."""
        if serial is None:
            self.server.revoked.clear()
        else:
            self.server.revoked.add(serial)

    # ---- settings, state

    def op_set(self, **values):
        """Change settings; see server.Settings."""
        self.server.change(values)

    def op_replay(self, directory=None, off=False, **settings):
        """Serve recordings until `off`; see replay.py."""
        self.server.replay_from(None if off else directory, off, settings)

    def op_ping(self):
        """Succeeds while the server runs."""
        return {"rv": self.server.store.rv}

    def op_stats(self):
        """Counters, open connections and watches."""
        server = self.server
        stats = server.stats
        return {"requests": stats.total, "counts": dict(stats.counts),
                "connections": len(server.connections), "accepted": stats.connections,
                "tls_failures": stats.tls_failures, "rv": server.store.rv,
                "objects": {n: len(t.items) for n, t in server.store.tables.items()},
                "bytes_in": stats.bytes_in + sum(c.bytes_in for c in server.connections),
                "bytes_out": stats.bytes_out + sum(c.bytes_out for c in server.connections),
                "watches": [w.describe() for w in server.watches]}

    def op_requests(self, match=None, last=1000):
        """Records of requests, oldest first; `match`: required values."""
        records = [r for r in self.server.stats.requests if matches(r, match or {})]
        return {"requests": records[-last:]}

    def op_posted(self):
        """Events that clients created."""
        return {"posted": self.server.api.posted}

    def op_forget(self):
        """Reset the statistics."""
        self.server.stats.clear()
        self.server.api.posted.clear()

    async def op_wait(self, requests=None, watches=None, synced=None, connections=None, match=None,
                      timeout=10):
        """Wait until there are at least so many requests (that match), watches {resource: n},
        synced watches {resource: n}, or at most so many connections. "met" is the result."""
        deadline = time.monotonic() + timeout
        while True:
            if self._met(requests, watches, synced, connections, match):
                return {"met": True}
            if time.monotonic() >= deadline:
                return {"met": False}
            await asyncio.sleep(0.005)

    def _met(self, requests, watches, synced, connections, match):
        server = self.server
        if requests is not None:
            found = server.stats.total if match is None else \
                sum(matches(r, match) for r in server.stats.requests)
            if found < requests:
                return False
        for wanted, test in ((watches, lambda w: True), (synced, lambda w: w.synced)):
            for resource, n in (wanted or {}).items():
                if sum(w.route.resource == resource and test(w) for w in server.watches) < n:
                    return False
        return connections is None or len(server.connections) <= connections

    async def op_flush(self):
        """Wait until every event is written; "monotonic" of the reply is the time."""
        while any(w.backlog or not w.idle or not w.ex.drained() for w in self.server.watches):
            await asyncio.sleep(0.0005)

    def op_quit(self):
        """End the server."""
        self.server.quit()
