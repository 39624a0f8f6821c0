# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve recorded responses byte for byte, cut at chosen offsets.

Settings (see Replay.configure):

    map      {"services/list": "services-list-page1.http", ...}: another recording for a request
    split    an offset, a list of them, or "each": the response is sent in separate writes that
             end there, `pause` seconds apart (HTTP/2: offsets of the body, each write a frame)
    chunk    an offset, or "each": new chunks of the body, the first of this length
    sweep    true: offsets of split and chunk grow by one with each request for a recording
    end      after a recording without an end: hold (default), close, reset, end
"""
import asyncio

from .recordings import load

NAMES = {"services": "services", "endpointslices": "endpointslices", "nodes": "node",
         "servicecidrs": "servicecidrs"}


class Replay:
    """Responds to requests that have a recording; see find()."""

    def __init__(self, directory):
        self.recordings = load(directory)
        self.served = {}
        self.configure({})

    def configure(self, settings):
        unknown = set(settings) - {"map", "split", "chunk", "sweep", "end", "pause"}
        if unknown:
            raise ValueError("%s: no such replay setting" % ", ".join(sorted(unknown)))
        self.map = settings.get("map", {})
        self.split = settings.get("split")
        self.chunk = settings.get("chunk")
        self.sweep = settings.get("sweep", False)
        self.end = settings.get("end", "hold")
        self.pause = settings.get("pause", 0.001)
        self.served.clear()
        for name in self.map.values():
            if name not in self.recordings:
                raise ValueError("map: recording %r does not exist" % (name,))

    def find(self, route, encodings):
        """Name of the recording for a request, or None."""
        key = "%s/%s" % (route.resource or route.path.strip("/"), route.verb)
        if key in self.map:
            return self.map[key]
        if not route.resource:
            name = route.path.strip("/")
        elif route.resource in NAMES:
            name = "%s-%s" % (NAMES[route.resource], route.verb)
        elif route.resource == "secrets":
            name = "secrets-list-forbidden"
        else:
            return None
        for encoding in encodings:
            full = name + (".pb" if encoding == "pb" else ".http")
            if full in self.recordings:
                return full
        return None

    async def serve(self, ex, name):
        recording = self.recordings[name]
        turn = self.served.get(name, 0)
        self.served[name] = turn + 1
        shift = turn if self.sweep else 0
        if ex.request.version == "HTTP/2":
            await self._serve_stream(ex, recording, shift)
            return
        data = recording.raw
        if self.chunk is not None and recording.chunked:
            data = recording.head + self._rechunk(recording, shift)
        ex.status = recording.status
        for part in cut(data, self.split, shift):
            ex.connection.raw(part)
            ex.sent += len(part)
            await ex.drain()
            if self.split is not None:
                await asyncio.sleep(self.pause)
        ex.ended = recording.ended
        await self._finish(ex, recording, lambda: ex.connection.raw(b"0\r\n\r\n"))

    async def _serve_stream(self, ex, recording, shift):
        skip = ("transfer-encoding", "connection")
        ex.begin(recording.status, [h for h in recording.headers if h[0].lower() not in skip])
        for part in cut(recording.body, self.split, shift):
            ex.write(part)
            await ex.drain()
            if self.split is not None:
                await asyncio.sleep(self.pause)
        if recording.ended:
            ex.end()
        else:
            await self._finish(ex, recording, ex.end)

    async def _finish(self, ex, recording, end):
        if recording.ended:
            return
        if self.end == "hold":
            await ex.connection.lost.wait()
        elif self.end == "reset":
            ex.connection.reset()
        elif self.end == "end":
            end()
            ex.ended = True
        else:
            ex.connection.close()

    def _rechunk(self, recording, shift):
        body = recording.body
        if self.chunk == "each":
            parts = [body[i:i + 1] for i in range(len(body))]
        else:
            first = (self.chunk + shift) % (len(body) + 1)
            parts = [body[:first], body[first:]]
        data = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts if p)
        return data + (b"0\r\n\r\n" if recording.ended else b"")


def cut(data, split, shift):
    """Pieces of data for one setting of `split`."""
    if split is None:
        return [data]
    if split == "each":
        return [data[i:i + 1] for i in range(len(data))]
    offsets = [split] if isinstance(split, int) else split
    points = sorted({(o + shift) % (len(data) + 1) for o in offsets} | {0, len(data)})
    return [data[a:b] for a, b in zip(points, points[1:])]
