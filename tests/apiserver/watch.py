# SPDX-License-Identifier: GPL-2.0-or-later
"""A watch: initial events, changes, bookmarks, end."""
import asyncio
import collections
import itertools
import time

from . import wire
from .faults import changed

BATCH = 256
BOOKMARK_BEFORE_END = 2.0


class Watch:
    """Serves a watch request until its end.

    While the watch is idle and has no fault, push() writes an event at once, so that it is sent
    when the store returns; otherwise events are queued.
    """

    ids = itertools.count(1)

    def __init__(self, server, ex, route, shaper, table, group):
        self.id = next(self.ids)
        self.server = server
        self.ex = ex
        self.route = route
        self.shaper = shaper
        self.table = table
        self.group = group
        self.backlog = collections.deque()
        self.wake = asyncio.Event()
        self.idle = False
        self.ending = False
        self.started = time.monotonic()
        self.events = 0
        self.bookmarks = 0
        self.synced = False     # initial events are sent
        self.after = 0          # version of the request, perhaps in the future
        query = ex.request.query
        self.needs_bookmarks = query.get("allowWatchBookmarks", "").lower() in ("true", "1")
        try:
            seconds = float(query.get("timeoutSeconds") or 0)
        except ValueError:
            seconds = 0
        self.deadline = self.started + (seconds or server.watch_seconds)
        self.next_bookmark = 0.0
        self._plan_bookmark(self.started)

    # ---- from the store

    def push(self, data, seen, rv):
        """Send or queue a framed event; `seen` is (type, item). None: the end."""
        if self.ending or rv <= self.after:
            return
        if self.idle and not self.server.faults and self.ex.drained():
            self.events += 1
            self.ex.write(data)
            return
        if len(self.backlog) >= self.server.backlog:
            self.finish()       # too slow: real servers end the watch, too
            return
        self.backlog.append((data, seen, time.monotonic()))
        self.wake.set()

    def inject(self, data):
        """Send the bytes of an event without a change."""
        self.backlog.append((data, None, time.monotonic()))
        self.wake.set()

    def finish(self):
        """End the watch after all queued events."""
        self.ending = True
        self.wake.set()

    # ---- the task

    async def run(self, version, initial):
        self.server.watches.add(self)
        try:
            error = await self._begin(version, initial)
            if error:
                await self.shaper.send(wire.error_event(error, self.route.encoding))
            else:
                await self._loop()
            self.ex.end()
            await self.ex.drain()
        finally:
            self.group.watches.discard(self)
            self.server.watches.discard(self)

    async def _begin(self, version, initial):
        """Send the events before live ones; a Status if the version is too old."""
        self.group.watches.add(self)
        if initial or version in (None, 0):
            snapshot = self.table.snapshot(self.server.store.rv)
            rv = self.server.store.rv
            await self._initial(snapshot.items)
            if initial and self.needs_bookmarks:
                await self.shaper.send(self.bookmark(rv, end=True))
        else:
            self.after = version
            missed = self.table.since(version)
            if missed is None:
                return {"status": "Failure", "reason": "Expired", "code": 410,
                        "message": "too old resource version: %d (%d)" % (
                            version, self.table.floor)}
            for event in reversed(missed):
                seen = self.group.translate(event)
                if seen:
                    self.backlog.appendleft((self.group.frame(*seen), seen, time.monotonic()))
        self.synced = True
        return None

    async def _initial(self, items):
        predicate = self.group.predicate
        framer, pb = self.table.framer, self.route.encoding == "pb"
        step = 1 if self.server.faults else BATCH
        for i in range(0, len(items), step):
            batch = items[i:i + step]
            if predicate:
                batch = [item for item in batch if predicate(item)]
            if not batch:
                continue
            if self.server.faults:
                batch = [changed(self.server.faults, self.route, item) for item in batch]
            if pb:
                data = b"".join([framer.pb_event("ADDED", item.pb) for item in batch])
            else:
                data = b"".join([framer.json_event("ADDED", item.js) for item in batch])
            await self.shaper.send(data)
            self.events += len(batch)

    async def _loop(self):
        while True:
            if self.backlog:
                await self._drain_backlog()
                continue
            now = time.monotonic()
            if self.ending or now >= self.deadline:
                return
            wait = self.deadline - now
            if self.needs_bookmarks and self.server.bookmarks:
                if now >= self.next_bookmark:
                    await self.send_bookmark()
                    continue
                wait = min(wait, self.next_bookmark - now)
            await self._sleep(wait)

    async def _sleep(self, seconds):
        self.wake.clear()
        self.idle = True
        try:
            await asyncio.wait_for(self.wake.wait(), seconds)
        except asyncio.TimeoutError:
            pass
        finally:
            self.idle = False

    async def _drain_backlog(self):
        if self.server.faults:
            await self._send_with_faults(*self.backlog.popleft())
            return
        batch = [self.backlog.popleft()[0] for _ in range(min(BATCH, len(self.backlog)))]
        self.events += len(batch)
        await self.shaper.send(b"".join(batch))

    async def _send_with_faults(self, data, seen, arrived):
        faults, route = self.server.faults, self.route
        fault = faults.find(route, "lag")
        if fault and fault.take():
            await asyncio.sleep(max(0, arrived + fault.p["delay"] - time.monotonic()))
        fault = faults.find(route, "drop")
        if seen and fault and fault.take():
            return
        if seen:
            item = changed(faults, route, seen[1])
            if item is not seen[1]:
                data = self.group.frame(seen[0], item)
        self.events += 1
        await self.shaper.send(data)
        fault = faults.find(route, "duplicate")
        if fault and fault.take():
            for _ in range(fault.p.get("times", 2) - 1):
                await self.shaper.send(data)

    # ---- bookmarks

    def bookmark(self, rv, end=False):
        meta = {"resourceVersion": str(rv)}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        message = self.route.kind.message
        obj = wire.canonical(message, {"metadata": meta})
        if self.route.encoding == "pb":
            return self.table.framer.pb_event("BOOKMARK", wire.encode(message, obj))
        return self.table.framer.json_event("BOOKMARK", wire.dumps(obj)[1:])

    async def send_bookmark(self):
        self.bookmarks += 1
        self._plan_bookmark(time.monotonic())
        if self.server.store.rv >= self.after:
            await self.shaper.send(self.bookmark(self.server.store.rv))

    def _plan_bookmark(self, now):
        """Schedule the next bookmark: after the interval, at the latest shortly before the end."""
        self.next_bookmark = now + self.server.bookmark_seconds
        before_end = self.deadline - BOOKMARK_BEFORE_END
        if now < before_end:
            self.next_bookmark = min(self.next_bookmark, before_end)

    def describe(self):
        return {"id": self.id, "resource": self.route.resource, "encoding": self.route.encoding,
                "verb": self.route.verb, "query": self.ex.request.query,
                "connection": self.ex.connection.id, "age": time.monotonic() - self.started,
                "events": self.events, "bookmarks": self.bookmarks, "bytes": self.ex.sent,
                "backlog": len(self.backlog), "synced": self.synced}
