# SPDX-License-Identifier: GPL-2.0-or-later
"""HTTP/1.1 and HTTP/2 below the API: connections, and an Exchange for each request.

A Connection is an asyncio protocol. Http1 or Http2 (python3-h2) parses its input and starts a task
for each request; the task responds through its Exchange:

    begin(status, headers, length)   the head; without a length the end of the body is open
    write(data)                      part of the body, sent at once as far as the peer accepts it
    drain()                          wait until the peer has accepted most of it
    end()                            the end of the response

and, for faults: partial(data, size), and the Connection's raw(), reset(), close(), freeze().
"""
import asyncio
import collections
import itertools
import socket
import struct
import sys
import traceback
import urllib.parse

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

REASONS = {100: "Continue", 200: "OK", 201: "Created", 400: "Bad Request", 401: "Unauthorized",
           403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
           410: "Gone", 415: "Unsupported Media Type", 422: "Unprocessable Entity",
           429: "Too Many Requests", 431: "Request Header Fields Too Large",
           500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
           504: "Gateway Timeout"}
HEAD_MAX = 65536
BODY_MAX = 64 << 20
STREAMS_ANY = 1 << 30
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Request:
    """A request. Header names are in lower case. The first value of a query name counts."""

    def __init__(self, method, target, headers, version):
        self.method = method
        self.target = target
        self.headers = headers
        self.version = version
        self.body = b""
        parts = urllib.parse.urlsplit(target)
        self.path = parts.path
        self.query = {}
        for k, v in urllib.parse.parse_qsl(parts.query, keep_blank_values=True):
            self.query.setdefault(k, v)


class Connection(asyncio.Protocol):
    """A client connection. `peer_user`: (user, groups, serial) of its client certificate."""

    ids = itertools.count(1)

    def __init__(self, server, secure):
        self.server = server
        self.secure = secure
        self.id = next(self.ids)
        self.transport = None
        self.sock = None  # a closed TLS transport has it no longer
        self.http = None
        self.sniffed = b""
        self.frozen = False
        self.dead = False
        self.lost = asyncio.Event()
        self.can_write = True
        self.tls = None
        self.peer_user = None
        self.bytes_in = 0
        self.bytes_out = 0

    def connection_made(self, transport):
        self.transport = transport
        transport.set_write_buffer_limits(high=1 << 20)
        self.sock = transport.get_extra_info("socket")
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.connections.add(self)
        tls = transport.get_extra_info("ssl_object")
        if tls:
            self.tls = {"version": tls.version(), "alpn": tls.selected_alpn_protocol()}
            self.peer_user = user_of(tls.getpeercert())
            self.http = (Http2 if self.tls["alpn"] == "h2" else Http1)(self)

    def data_received(self, data):
        self.bytes_in += len(data)
        if self.frozen:
            return
        if self.http is None:
            self.sniffed += data
            if PREFACE.startswith(self.sniffed[:len(PREFACE)]) and \
                    len(self.sniffed) < len(PREFACE):
                return
            self.http = (Http2 if self.sniffed.startswith(PREFACE) else Http1)(self)
            data, self.sniffed = self.sniffed, b""
        self.http.feed(data)

    def connection_lost(self, exc):
        self.dead = True
        self.lost.set()
        self.server.connections.discard(self)
        self.server.closed_bytes(self)
        if self.http:
            self.http.lost()

    def pause_writing(self):
        self.can_write = False

    def resume_writing(self):
        self.can_write = True
        if self.http:
            self.http.resumed()

    def raw(self, data):
        """Send bytes below HTTP. A frozen or closed connection drops them."""
        if self.frozen or self.dead or self.transport.is_closing():
            return
        self.bytes_out += len(data)
        self.transport.write(data)

    def reset(self):
        """Close with a TCP RST; unsent data is lost."""
        if self.dead:
            return
        if self.sock.fileno() >= 0:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

    def close(self):
        """Close with a FIN after all data."""
        if not self.dead:
            self.transport.close()

    def cut(self):
        """Close with a FIN below TLS, without close_notify, after the data that the socket
        accepts."""
        if not self.dead and self.sock.fileno() >= 0:
            self.sock.shutdown(socket.SHUT_RDWR)

    def freeze(self):
        """Stop reading and writing, keep the socket: like a peer behind a broken path."""
        if not self.dead and not self.frozen:
            self.frozen = True
            self.transport.pause_reading()


def user_of(cert):
    """(user, groups, serial) of a verified client certificate."""
    if not cert:
        return None
    names = [part for rdn in cert.get("subject", ()) for part in rdn]
    user = next((v for k, v in names if k == "commonName"), "")
    return user, [v for k, v in names if k == "organizationName"], cert.get("serialNumber")


class Exchange:
    """A request and its answer."""

    ids = itertools.count(1)

    def __init__(self, connection, request):
        self.id = next(self.ids)
        self.connection = connection
        self.server = connection.server
        self.request = request
        self.status = None
        self.sent = 0           # bytes of the body
        self.ended = False
        self.task = None

    def start_task(self, done):
        async def run():
            try:
                await self.server.handle(self)
            except (ConnectionError, asyncio.CancelledError):
                pass
            except Exception:  # a bug of this server is printed and does not block the client
                traceback.print_exc(file=sys.stderr)
                self.connection.reset()
            done()
        self.task = asyncio.get_running_loop().create_task(run())

    async def drain(self):
        """Wait until the peer has accepted most data; ConnectionError if it disconnected."""
        while True:
            if self.connection.dead:
                raise ConnectionResetError("the client disconnected")
            if self.connection.frozen:
                await self.connection.lost.wait()
            elif self.drained():
                return
            else:
                await self.wait_drained()


# --------------------------------------------------------------------------------------------
# HTTP/1.1

class Http1:
    """The requests of a connection, one after the other."""

    name = "HTTP/1.1"

    def __init__(self, connection):
        self.connection = connection
        self.buffer = bytearray()
        self.current = None
        self.waiting = None     # request whose body is incomplete
        self.writable = asyncio.Event()

    def feed(self, data):
        self.buffer += data
        if self.current is None:
            self.parse()
        elif len(self.buffer) > BODY_MAX:
            self.connection.reset()

    def parse(self):
        """Start the next request if it is complete."""
        try:
            if self.waiting is None and not self._head():
                return
            if not self._body():
                return
        except ValueError as e:
            self.connection.raw(b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
                                b"Connection: close\r\n\r\n400 Bad Request: %s" %
                                str(e).encode())
            self.connection.close()
            return
        request, self.waiting = self.waiting, None
        self.current = Http1Exchange(self, request)
        self.current.start_task(self.done)

    def _head(self):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > HEAD_MAX:
                raise ValueError("the head is too large")
            return False
        lines = self.buffer[:end].decode("latin-1").split("\r\n")
        del self.buffer[:end + 4]
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise ValueError("malformed request line")
        headers = {}
        for line in lines[1:]:
            name, sep, value = line.partition(":")
            if not sep or name != name.strip():
                raise ValueError("malformed header")
            headers.setdefault(name.lower(), value.strip())
        if words[2] == "HTTP/1.1" and "host" not in headers:
            raise ValueError("missing required Host header")
        self.waiting = Request(words[0], words[1], headers, words[2])
        if headers.get("expect", "").lower() == "100-continue":
            self.connection.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _body(self):
        headers = self.waiting.headers
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked_body()
        size = int(headers.get("content-length", "0"))
        if size > BODY_MAX or size < 0:
            raise ValueError("the body is too large")
        if len(self.buffer) < size:
            return False
        self.waiting.body = bytes(self.buffer[:size])
        del self.buffer[:size]
        return True

    def _chunked_body(self):
        while True:
            end = self.buffer.find(b"\r\n")
            if end < 0:
                return False
            size = int(self.buffer[:end].split(b";")[0], 16)
            if len(self.buffer) < end + 2 + size + 2:
                return False
            self.waiting.body += self.buffer[end + 2:end + 2 + size]
            del self.buffer[:end + 2 + size + 2]
            if size == 0:
                return True

    def done(self):
        ex, self.current = self.current, None
        if self.connection.dead or self.connection.frozen:
            return
        if not ex.ended or ex.closes:
            self.connection.close()
        elif self.buffer:
            self.parse()

    def lost(self):
        self.writable.set()
        if self.current and self.current.task:
            self.current.task.cancel()

    def resumed(self):
        self.writable.set()


class Http1Exchange(Exchange):
    """An exchange of HTTP/1.x; bodies without a length are chunked as server.chunk says."""

    def __init__(self, http, request):
        super().__init__(http.connection, request)
        self.http = http
        self.chunked = False
        self.closes = request.version == "HTTP/1.0" or \
            request.headers.get("connection", "").lower() == "close"

    def begin(self, status, headers, length=None):
        self.status = status
        lines = ["HTTP/1.1 %d %s" % (status, REASONS.get(status, "Status"))]
        lines += ["%s: %s" % h for h in headers]
        if length is not None:
            lines.append("Content-Length: %d" % length)
        elif self.request.version == "HTTP/1.0":
            self.closes = True
        else:
            self.chunked = True
            lines.append("Transfer-Encoding: chunked")
        if self.closes:
            lines.append("Connection: close")
        self.connection.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def write(self, data):
        self.sent += len(data)
        self.connection.raw(chunked(data, self.server.chunk) if self.chunked else data)

    def partial(self, data, size):
        """Send a chunk of length `size` with fewer bytes."""
        self.sent += len(data)
        self.connection.raw(b"%x\r\n" % size + data if self.chunked else data)

    def end(self):
        if not self.ended:
            self.ended = True
            if self.chunked:
                self.connection.raw(b"0\r\n\r\n")

    def drained(self):
        return self.connection.can_write

    async def wait_drained(self):
        self.http.writable.clear()
        await self.http.writable.wait()

    def reset_stream(self):
        """Reset the connection: it has only one stream."""
        self.connection.reset()


def chunked(data, size):
    """Chunks of at most `size` bytes; 0: one chunk."""
    n = len(data)
    if n == 0:
        return b""
    if not size or n <= size:
        return b"%x\r\n%s\r\n" % (n, data)
    head = b"%x\r\n" % size
    out = []
    full = n - n % size
    for i in range(0, full, size):
        out += (head, data[i:i + size], b"\r\n")
    if full < n:
        out += (b"%x\r\n" % (n - full), data[full:], b"\r\n")
    return b"".join(out)


# --------------------------------------------------------------------------------------------
# HTTP/2

class Http2:
    """The streams of one connection."""

    name = "HTTP/2"
    QUANTUM = 1 << 18           # bytes of a stream before the turn of the next one

    def __init__(self, connection):
        self.connection = connection
        self.streams = {}
        self.going = False
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding="utf-8", validate_outbound_headers=False))
        self.max_streams = connection.server.max_streams
        self._settings(self.max_streams)
        self.h2.initiate_connection()
        # h2 closes a connection with too many streams; _request() refuses the stream instead.
        self._settings(STREAMS_ANY)
        self.flush()

    def _settings(self, max_streams):
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
            h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20,
            h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_MAX})

    def feed(self, data):
        try:
            events = self.h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.flush()
            self.connection.close()
            return
        if self.has_ended():    # the requests before it in this read get no response
            self.connection.close()
            return
        for event in events:
            self._event(event)
        self.pump()

    def has_ended(self):
        """The peer has sent GOAWAY: h2 sends nothing from then on."""
        return self.h2.state_machine.state is h2.connection.ConnectionState.CLOSED

    def _event(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self._request(event)
        elif isinstance(event, h2.events.DataReceived):
            ex = self.streams.get(event.stream_id)
            if ex:
                ex.request.body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            ex = self.streams.get(event.stream_id)
            if ex and not ex.task:
                ex.start_task(ex.done)
        elif isinstance(event, h2.events.StreamReset):
            ex = self.streams.pop(event.stream_id, None)
            if ex and ex.task:
                ex.gone = True
                ex.task.cancel()

    def _request(self, event):
        headers = {}
        for name, value in event.headers:
            headers.setdefault(name, value)
        n_open = sum(ex.is_open() for ex in self.streams.values())
        if self.going or n_open >= self.max_streams:
            self.h2.reset_stream(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        headers.setdefault("host", headers.get(":authority", ""))
        request = Request(headers.get(":method", ""), headers.get(":path", ""), headers, "HTTP/2")
        self.streams[event.stream_id] = Http2Exchange(self, request, event.stream_id)

    def pump(self):
        """Send as much as windows and the socket allow, stream by stream in turn."""
        if self.has_ended():
            return
        busy = True
        while busy and self.connection.can_write and not self.connection.dead:
            busy = False
            for ex in list(self.streams.values()):
                busy = ex.pump(self.QUANTUM) or busy
                self.flush()
                if not self.connection.can_write:
                    break
        self.flush()
        for ex in list(self.streams.values()):
            if ex.size < self.QUANTUM:
                ex.writable.set()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.connection.raw(data)

    def goaway(self, code=0, last=None, close=False):
        """Announce the end: no new streams; open ones continue unless `close`."""
        self.going = True
        if last is None:
            last = max([0] + [s for s in self.streams if s % 2])
        self.flush()
        self.connection.raw(struct.pack(">I", 8)[1:] + b"\x07\x00" + struct.pack(
            ">III", 0, last, code))
        if close:
            self.connection.close()

    def lost(self):
        for ex in list(self.streams.values()):
            ex.writable.set()
            if ex.task:
                ex.task.cancel()

    def resumed(self):
        self.pump()


class Http2Exchange(Exchange):
    """An exchange of HTTP/2: one stream."""

    def __init__(self, http, request, stream):
        super().__init__(http.connection, request)
        self.http = http
        self.stream = stream
        self.pending = collections.deque()
        self.size = 0
        self.gone = False
        self.finish = False
        self.writable = asyncio.Event()

    def begin(self, status, headers, length=None):
        self.status = status
        lines = [(":status", str(status))] + [(k.lower(), v) for k, v in headers]
        if length is not None:
            lines.append(("content-length", str(length)))
        self.http.h2.send_headers(self.stream, lines)
        self.http.flush()

    def write(self, data):
        if self.gone or not data:
            return
        self.sent += len(data)
        self.pending.append(memoryview(data))
        self.size += len(data)
        self.http.pump()

    def pump(self, quantum):
        """Move pending data into frames; return whether there was any."""
        conn = self.http.h2
        moved = 0
        while self.pending and moved < quantum and not self.gone:
            room = min(conn.local_flow_control_window(self.stream), conn.max_outbound_frame_size)
            if room <= 0:
                break
            data = self._take(room)
            conn.send_data(self.stream, data)
            moved += len(data)
        if self.finish and not self.pending and not self.gone:
            self.finish = False
            conn.end_stream(self.stream)
        return moved > 0

    def is_open(self):
        """Neither reset nor ended."""
        return not self.gone and (self.finish or not self.ended)

    def _take(self, room):
        """The bytes of the next frame. Small writes are not joined: each event is a separate
        frame, as from a real server, which flushes after each."""
        data = self.pending[0]
        if len(data) <= room:
            self.pending.popleft()
        else:
            self.pending[0] = data[room:]
            data = data[:room]
        self.size -= len(data)
        return data

    def partial(self, data, size):
        """Send a DATA frame of length `size` with fewer bytes."""
        self.sent += len(data)
        self.http.flush()
        self.connection.raw(struct.pack(">I", min(size, 16384))[1:] + b"\0\0" +
                            struct.pack(">I", self.stream) + data[:16383])

    def end(self):
        if not self.ended:
            self.ended = self.finish = True
            self.http.pump()

    def done(self):
        """The task has ended. Reset the stream if its response is incomplete."""
        if not self.ended and not self.gone and not self.connection.dead and \
                not self.connection.frozen and not self.connection.transport.is_closing():
            self.reset_stream()
        if self.pending and not self.gone and not self.connection.dead:
            asyncio.get_running_loop().create_task(self._outlive())
        else:
            self.http.streams.pop(self.stream, None)

    async def _outlive(self):
        """Keep the stream until all data is sent."""
        while self.pending and not self.gone and not self.connection.dead:
            self.writable.clear()
            await self.writable.wait()
        self.http.streams.pop(self.stream, None)

    def drained(self):
        return self.gone or (self.size < self.http.QUANTUM and self.connection.can_write)

    async def wait_drained(self):
        self.writable.clear()
        await self.writable.wait()

    def reset_stream(self, code=h2.errors.ErrorCodes.INTERNAL_ERROR):
        """Reset only this stream (RST_STREAM)."""
        if not self.gone and not self.connection.dead:
            self.gone = True
            try:
                self.http.h2.reset_stream(self.stream, code)
            except h2.exceptions.ProtocolError:
                pass
            self.http.flush()
