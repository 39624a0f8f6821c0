# SPDX-License-Identifier: GPL-2.0-or-later
"""The server process: listeners, settings, start and end."""
import argparse
import asyncio
import contextlib
import ctypes
import gc
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import sys
import tempfile

from .api import Api, Route, negotiate
from .certs import Certs
from .control import Control
from .faults import Faults
from .transport import Connection
from .recordings import DEFAULT_DIR
from .replay import Replay
from .stats import Stats
from .store import Store

TOKEN = "kube-proxy-token"
PR_SET_PDEATHSIG = 1


class Settings:
    """Settings that op "set" changes while the server runs."""

    def __init__(self):
        self.encodings = ["json", "pb"]     # supported encodings
        self.http2 = True                   # offered to new TLS connections
        self.watchlist = "serve"            # or rejected as "invalid" (422), "bad" (400), "ignore"
        self.spec_fields = True             # field selectors other than metadata.*: 1.31 and later
        self.bookmarks = True
        self.bookmark_seconds = 1.0
        self.watch_seconds = 1800.0         # end of watches without timeoutSeconds
        self.version_wait = 3.0             # for versions above the current one
        self.backlog = 1000000              # queued events of a slow watch
        self.chunk = 2048                   # of chunked bodies; 0: one per write
        self.gzip = True                    # large lists, for clients that accept it
        self.plain_auth = False             # plain HTTP requires a token
        self.max_streams = 100
        self.ready = True                   # result of /readyz
        self.handshake_seconds = 30.0

    def change(self, values):
        for name, value in values.items():
            old = getattr(self, name, None)
            if old is None or name not in vars(Settings()):
                raise ValueError("%s: no such setting" % name)
            if isinstance(old, float) and isinstance(value, int):
                value = float(value)
            if type(value) is not type(old):
                raise ValueError("%s: must be a %s" % (name, type(old).__name__))
            setattr(self, name, value)


class Listener:
    """One listening socket, TLS or plain."""

    def __init__(self, server, host, port, secure):
        self.server = server
        self.host = host
        self.port = port
        self.secure = secure
        self.socket = None
        self.task = None
        self.silent = []

    def open(self):
        if self.socket:
            return
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.setblocking(False)
        self.socket.bind((self.host, self.port))
        self.socket.listen(1024)
        self.port = self.socket.getsockname()[1]

    def close(self):
        self.pause()
        if self.socket:
            self.socket.close()
            self.socket = None

    def accept(self, silent=False):
        """Begin to accept connections; `silent`: without a response."""
        self.pause()
        if not silent:
            self._drop_silent()
        self.task = asyncio.get_running_loop().create_task(self._accept(silent))

    def pause(self):
        if self.task:
            self.task.cancel()
            self.task = None

    def _drop_silent(self):
        for sock in self.silent:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        self.silent.clear()

    async def _accept(self, silent):
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(self.socket)
            self.server.stats.connections += 1
            if silent:
                self.silent.append(sock)
            else:
                loop.create_task(self._take(sock))

    async def _take(self, sock):
        server = self.server
        more = {}
        if self.secure:
            more = {"ssl": server.tls, "ssl_handshake_timeout": server.handshake_seconds,
                    "ssl_shutdown_timeout": 0.01}  # no wait after a close message, as in Go
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(server, self.secure), sock, **more)
        except (OSError, ssl.SSLError):
            server.stats.tls_failures += 1
            sock.close()

    def url(self):
        host = "[%s]" % self.host if ":" in self.host else self.host
        return "%s://%s:%d" % ("https" if self.secure else "http", host, self.port)


class Server(Settings):
    """The whole server. `handle` is called for each request."""

    def __init__(self, options, directory):
        super().__init__()
        self.store = Store(options.history, not options.no_defaults)
        self.faults = Faults()
        self.stats = Stats()
        self.api = Api(self)
        self.connections = set()
        self.watches = set()
        self.revoked = set()
        self.tokens = {t: "system:kube-proxy" for t in options.token or [TOKEN]}
        self.certs = None
        self.tls = None
        self.listeners = []
        self.replay = Replay(options.replay) if options.replay else None
        self.stopping = asyncio.Event()
        if not options.no_tls:
            self.certs = Certs(directory, [options.bind] + (options.name or []))
            self.listeners.append(Listener(self, options.bind, options.port, True))
            self.reload_certs()
        if options.no_tls or options.plain_port is not None:
            port = options.plain_port if options.plain_port is not None else options.port
            self.listeners.append(Listener(self, options.plain_bind, port, False))

    async def handle(self, ex):
        if self.replay:
            route = Route(ex.request)
            accept = ex.request.headers.get("accept")
            first = negotiate(accept, self.encodings)
            name = self.replay.find(route, [first, "json"])
            if name:
                record = self.stats.begin(ex, route)
                try:
                    await self.replay.serve(ex, name)
                finally:
                    self.stats.end(record, ex)
                return
        await self.api.handle(ex)

    def replay_from(self, directory, off, settings):
        if off:
            self.replay = None
            return
        if directory or not self.replay:
            self.replay = Replay(directory or DEFAULT_DIR)
        self.replay.configure(settings)

    def change(self, values):
        super().change(values)
        if "http2" in values:
            self.reload_certs()

    def reload_certs(self):
        """Use the current certificate files for new connections."""
        if not self.certs:
            return
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_cert_chain(self.certs.path("server.crt"), self.certs.path("server.key"))
        tls.load_verify_locations(self.certs.path("client-ca.crt"))
        tls.verify_mode = ssl.CERT_OPTIONAL
        tls.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        self.tls = tls

    def listen(self, state):
        for listener in self.listeners:
            if state == "closed":
                listener.close()
                continue
            if state not in ("open", "silent", "full"):
                raise ValueError("state: %r is none of open, closed, silent, full" % (state,))
            listener.open()
            if state == "full":
                listener.pause()
            else:
                listener.accept(state == "silent")

    def settle(self):
        """After a load: exclude the present objects from garbage collection."""
        gc.collect()
        gc.freeze()

    def closed_bytes(self, connection):
        self.stats.bytes_in += connection.bytes_in
        self.stats.bytes_out += connection.bytes_out

    def quit(self):
        self.stopping.set()

    def urls(self):
        out = {"https": None, "http": None}
        for listener in self.listeners:
            out["https" if listener.secure else "http"] = listener.url()
        return out


def parse(argv):
    p = argparse.ArgumentParser(
        prog="apiserver", description="A Kubernetes API server for tests. When ready, it "
        "prints one line of JSON: https, http (URLs), control (socket), dir, token, pid.")
    p.add_argument("--bind", default="127.0.0.1", help="address of the TLS listener")
    p.add_argument("--port", type=int, default=0, help="TLS port (0: any)")
    p.add_argument("--no-tls", action="store_true", help="plain HTTP only")
    p.add_argument("--plain-bind", default="127.0.0.1", help="address of the plain listener")
    p.add_argument("--plain-port", type=int, help="plain HTTP port (0: any); default: no plain listener")
    p.add_argument("--dir", help="folder for certificates and the control socket (default: one "
                   "that is removed at exit)")
    p.add_argument("--control", help="path of the control socket (default: DIR/control)")
    p.add_argument("--token", action="append", help="a valid bearer token (default: %s)" % TOKEN)
    p.add_argument("--name", action="append", help="additional name for the server's certificate")
    p.add_argument("--history", type=int, default=50000, help="stored events per resource")
    p.add_argument("--no-defaults", action="store_true", help="store objects without defaults")
    p.add_argument("--replay", metavar="DIR", help="serve the recordings of DIR")
    p.add_argument("--set", action="append", default=[], metavar="NAME=JSON", help="a setting")
    p.add_argument("--die-with-parent", action="store_true", help="exit when the parent exits")
    return p.parse_args(argv)


async def run(options):
    directory = options.dir or tempfile.mkdtemp(prefix="vipd-apiserver-")
    os.makedirs(directory, exist_ok=True)
    try:
        server = Server(options, directory)
        for text in options.set:
            name, _, value = text.partition("=")
            server.change({name: json.loads(value)})
        control = Control(server, options.control or os.path.join(directory, "control"))
        server.listen("open")
        await control.start()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.quit)
        print(json.dumps(dict(server.urls(), control=control.path, dir=directory, pid=os.getpid(),
                              token=next(iter(server.tokens), None))), flush=True)
        await server.stopping.wait()
        control.stop()
        server.listen("closed")
        for connection in tuple(server.connections):
            connection.close()
        await asyncio.sleep(0.02)
    finally:
        if not options.dir:
            shutil.rmtree(directory, ignore_errors=True)


def main(argv=None):
    options = parse(argv)
    if options.die_with_parent:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.set_threshold(50000, 20, 20)
    try:
        asyncio.run(run(options))
    except (OSError, ValueError) as e:
        print("apiserver: %s" % e, file=sys.stderr)
        return 1
    return 0
