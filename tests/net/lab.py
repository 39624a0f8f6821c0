# SPDX-License-Identifier: GPL-2.0-or-later
r"""A small network in private namespaces: one node that runs vipd, and all it talks to.

    client ---- node ---- node2 (pods of another node: all of 10.244.2.0/24)
     (X)       /  |  \           `client` also holds a third node's pods: 10.244.3.0/24
            pod1 pod2 pod3        world (the rest: answers for addresses that no proxy captures)

* The node routes between all of them, IPv4 and IPv6. Pods hang on the bridge br0 and have
  host routes only, so that pods of one node talk through the node, not around it.
* `world` is the node's default route and owns the service, external and load balancer ranges: a
  packet that the proxy leaves alone is answered there, so "untouched" differs from "dropped".
* Everything is named vipdt-<pid>-<random>-<role>. Lab.close() removes it all; sweep() removes
  what a killed test run left behind (its pid is gone).
"""
import contextlib
import ctypes
import errno
import ipaddress
import itertools
import json
import os
import random
import select
import signal
import socket
import string
import struct
import subprocess
import threading
import time

PREFIX = "vipdt-"
# How often slower than a plain machine this one is: limits of time are multiplied by it.
SLOW = float(os.environ.get("VIPD_SLOW", "1"))
# Limits of waits only end a test that would hang: no test passes because of them, and on a busy
# machine none fails. What must not wait for an audit runs with --audit-period 0.
PATIENCE = 60.0
LIMIT = PATIENCE * SLOW
# An answer is lost if it comes later than this, in seconds, after packets were sent again. An emulated
# machine pauses as a whole, for longer the busier its host is, which may become busier than SLOW says.
LATE = 1.0 if SLOW == 1 else 20.0
# What runs along with a whole module ends after so many seconds.
LONG = int(os.environ.get("VIPD_LONG") or min(900 * SLOW, 3600))
NETNS_DIR = "/run/netns"
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def build_dir():
    """Where the programs under test are: VIPD_BUILD, or build/."""
    return os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))


def program(name):
    """Path of a built program: vipd, vipctl or flow."""
    top = os.path.join(build_dir(), name)
    places = [top] if name != "flow" else [os.path.join(build_dir(), "tests/tools/flow")]
    for path in places:
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError("%s is not built: run make" % places[0])


# Addresses by role. Index 4 or 6.
NODE_NAME = "n1"
CLIENT = {4: "203.0.113.2", 6: "2001:db8:1::2"}
CLIENT2 = {4: "203.0.113.130", 6: "2001:db8:1::130"}
NODE_TO_CLIENT = {4: "203.0.113.1", 6: "2001:db8:1::1"}
NODE = {4: "192.168.0.2", 6: "fd00:192::2"}
NODE2 = {4: "192.168.0.3", 6: "fd00:192::3"}
NODE_TO_WORLD = {4: "100.64.0.1", 6: "fd00:64::1"}
WORLD = {4: "100.64.0.2", 6: "fd00:64::2"}
BRIDGE = {4: "10.244.1.1", 6: "fd00:10:244:1::1"}
POD = {
    "pod1": {4: "10.244.1.11", 6: "fd00:10:244:1::11"},
    "pod2": {4: "10.244.1.12", 6: "fd00:10:244:1::12"},
    "pod3": {4: "10.244.1.13", 6: "fd00:10:244:1::13"},
}
CLUSTER_CIDR = {4: "10.244.0.0/16", 6: "fd00:10:244::/48"}
POD_CIDR = {4: "10.244.1.0/24", 6: "fd00:10:244:1::/64"}
REMOTE_CIDR = {4: "10.244.2.0/24", 6: "fd00:10:244:2::/64"}
FAR_CIDR = {4: "10.244.3.0/24", 6: "fd00:10:244:3::/64"}
OUTER_CIDR = {4: "198.18.0.0/24", 6: "2001:db8:18::/64"}
SERVICE_CIDR = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
EXTERNAL_CIDR = {4: "198.51.100.0/24", 6: "2001:db8:100::/64"}
LB_CIDR = {4: "192.0.2.0/24", 6: "2001:db8:200::/64"}


def remote(i, fam):
    """Address of the i-th pod of the other node, 1..250."""
    return "10.244.2.%d" % i if fam == 4 else "fd00:10:244:2::%x" % i


def far(i, fam):
    """Address of the i-th pod of a third node, 1..250: these live in `client`, and connect."""
    return "10.244.3.%d" % i if fam == 4 else "fd00:10:244:3::%x" % i


def outer(i, fam):
    """Address of the i-th client outside the cluster, 1..250: these live in `client`."""
    return "198.18.0.%d" % i if fam == 4 else "2001:db8:18::%x" % i


def cluster_ip(i, fam):
    return "10.96.%d.%d" % (i >> 8, i & 255) if fam == 4 else "fd00:10:96::%x" % i


def external_ip(i, fam):
    return "198.51.100.%d" % i if fam == 4 else "2001:db8:100::%x" % i


def lb_ip(i, fam):
    return "192.0.2.%d" % i if fam == 4 else "2001:db8:200::%x" % i


def is_worlds(addr):
    """Does another host of the lab answer for this address if no proxy captures it?"""
    return any(ipaddress.ip_address(addr) in ipaddress.ip_network(cidr[family(addr)])
               for cidr in (SERVICE_CIDR, EXTERNAL_CIDR, LB_CIDR))


def family(addr):
    return 6 if ":" in addr else 4


def af(addr):
    return socket.AF_INET6 if ":" in addr else socket.AF_INET


def endpoint(addr, port):
    return "[%s]:%d" % (addr, port) if ":" in addr else "%s:%d" % (addr, port)


def run(*args, **kw):
    """Run a command that must succeed."""
    r = subprocess.run(args, capture_output=True, text=True, timeout=kw.pop("timeout", PATIENCE) * SLOW,
                       **kw)
    if r.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(args), (r.stderr or r.stdout).strip()))
    return r.stdout


def missing():
    """What this machine lacks for a lab, or None."""
    if os.geteuid() != 0:
        return "private network namespaces need root: run as root (sudo make ...)"
    try:
        run("ip", "-V")
    except (OSError, RuntimeError):
        return "the program `ip` (Debian package iproute2) is missing"
    try:
        run("nft", "--version")
    except (OSError, RuntimeError):
        return "the program `nft` (Debian package nftables) is missing"
    name = "%s%d-probe" % (PREFIX, os.getpid())
    try:
        run("ip", "netns", "add", name)
    except RuntimeError as e:
        return "network namespaces cannot be made here (CONFIG_NET_NS, CAP_SYS_ADMIN): %s" % e
    # Not `ip -n` or `ip netns exec`: these change mounts, which fails in a chroot whose / is no
    # mount point.
    inside = ("nsenter", "--net=%s/%s" % (NETNS_DIR, name))
    try:
        run(*inside, "true")
    except (OSError, RuntimeError) as e:
        return "network namespaces cannot be entered here: %s" % e
    try:
        for what, args in (
                ("veth pairs (CONFIG_VETH)",
                 ("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")),
                ("bridges (CONFIG_BRIDGE)", ("ip", "link", "add", "br0", "type", "bridge")),
                ("nf_tables (CONFIG_NF_TABLES)", ("nft", "add table ip t")),
                ("nf_tables NAT (CONFIG_NFT_NAT)",
                 ("nft", "table ip t { chain c { type nat hook prerouting priority -100; "
                  "ip daddr 192.0.2.1 tcp dport 1 dnat to 192.0.2.2:2; }; }"))):
            try:
                run(*inside, *args)
            except RuntimeError as e:
                return "no %s here: %s" % (what, e)
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


def netns_kill(name):
    """End every process of a namespace of ours, then remove it."""
    assert name.startswith(PREFIX)
    for _ in range(20):
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True,
                              check=False).stdout.split()
        pids = [int(p) for p in pids if int(p) != os.getpid()]
        if not pids:
            break
        for p in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)
        time.sleep(0.01)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def sweep():
    """Remove namespaces of ended test runs."""
    try:
        names = os.listdir(NETNS_DIR)
    except FileNotFoundError:
        return
    for name in names:
        if not name.startswith(PREFIX):
            continue
        pid = name[len(PREFIX):].split("-")[0]
        if pid.isdigit() and not os.path.exists("/proc/%s" % pid):
            netns_kill(name)


class Ns:
    """One network namespace. Sockets and processes can be made in it."""

    def __init__(self, name):
        self.name = name
        self.path = os.path.join(NETNS_DIR, name)
        run("ip", "netns", "add", name)
        self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self.procs = []

    @contextlib.contextmanager
    def entered(self):
        """The calling thread is in the namespace; sockets and children made inside stay there."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(self.fd, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns %s" % self.name)
            try:
                yield
            finally:
                if _libc.setns(home, CLONE_NEWNET) != 0:
                    os._exit(99)  # a thread lost in another namespace must not go on
        finally:
            os.close(home)

    def socket(self, *args):
        with self.entered():
            return socket.socket(*args)

    def run(self, *args, **kw):
        with self.entered():
            return run(*args, **kw)

    def popen(self, *args, **kw):
        with self.entered():
            p = subprocess.Popen(args, **kw)
        self.procs.append(p)
        return p

    def sysctl(self, **values):
        """Keys with __ for dots: sysctl(net__ipv4__ip_forward=1)."""
        with self.entered():
            for key, value in values.items():
                with open("/proc/sys/" + key.replace("__", "/"), "w", encoding="ascii") as f:
                    f.write(str(value))

    def close(self):
        for p in self.procs:
            if p.poll() is None:
                p.kill()
            p.wait()
            for f in (p.stdin, p.stdout, p.stderr):
                if f is not None:
                    f.close()
        os.close(self.fd)
        netns_kill(self.name)


class Flow:
    """A running `flow`: server, load or steady flows. Ends with this process."""

    def __init__(self, ns, mode, *args):
        self.mode = mode
        # Emulated, requests of steady flows every 100 ms take a quarter of a processor.
        times = {"new": {"--timeout-ms": 900 * LATE},
                 "steady": {"--gap-ms": 500 * SLOW, "--interval-ms": 50 if SLOW == 1 else 500}}
        for option, n in dict(times.get(mode, {}), **{"--seconds": LONG}).items():
            if option not in args:
                args += (option, int(n))
        self.proc = ns.popen(program("flow"), mode, *[str(a) for a in args],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._line("ready")

    def _line(self, what, timeout=PATIENCE):
        r, _, _ = select.select([self.proc.stdout], [], [], timeout * SLOW)
        text = self.proc.stdout.readline() if r else ""
        if what and text.strip() != what:
            raise RuntimeError("flow %s: said %r instead of %r, status %s" % (
                self.mode, text, what, self.proc.poll()))
        if not text:
            raise RuntimeError("flow %s: no answer" % self.mode)
        return text

    def stat(self):
        """Events so far."""
        self.proc.stdin.write("stat\n")
        self.proc.stdin.flush()
        return json.loads(self._line(None))

    def more_ok(self, n=1):
        """Wait until `n` more connections have succeeded."""
        before = self.stat()["ok"]
        eventually(lambda: self.stat()["ok"] >= before + n,
                   what="fewer than %d connections succeed" % n)

    def kill(self):
        """Kill it; its ports are then free."""
        self.proc.kill()
        self.proc.wait()

    def stop(self):
        """Stop it and return its events."""
        self.proc.stdin.close()
        result = json.loads(self._line(None))
        self.proc.wait(LIMIT)
        return result

    def wait(self, timeout=2 * PATIENCE):
        """Wait for a run that ends by itself (--count, --seconds)."""
        result = json.loads(self._line(None, timeout))
        self.proc.wait(LIMIT)
        return result


class Result:
    """Result of one connection attempt."""

    def __init__(self, what, ms, backend=None, backend_port=None, peer=None, peer_port=None):
        self.what = what  # ok, refused, timeout, reset, unreachable, untouched
        self.ms = ms
        self.backend = backend
        self.backend_port = backend_port
        self.peer = peer
        self.peer_port = peer_port

    @property
    def ok(self):
        return self.what == "ok"

    def __repr__(self):
        return "%s in %.0f ms%s" % (self.what, self.ms,
                                    " by %s as %s" % (self.backend, self.peer)
                                if self.backend else "")


def _outcome(e):
    if isinstance(e, ConnectionRefusedError):
        return "refused"
    if isinstance(e, (ConnectionResetError, BrokenPipeError)):
        return "reset"
    if isinstance(e, (TimeoutError, socket.timeout)):
        return "timeout"
    return "unreachable"  # EHOSTUNREACH, ENETUNREACH, EPERM of a local reject


def _resent(sock):
    """Segments that TCP has sent again: tcpi_total_retrans."""
    if sock.proto != socket.IPPROTO_TCP:
        return 0
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return struct.unpack_from("=I", info, 100)[0]


class Conn:
    """An open connection; its backend answers with its own address and the client's."""

    def __init__(self, sock, proto):
        self.sock = sock
        self.proto = proto

    def ask(self, timeout=None):
        """Without a timeout, an answer may be late on a busy machine, but not because of lost
        packets: TCP sends them again."""
        start = time.monotonic()
        try:
            before = _resent(self.sock)
            self.sock.settimeout(timeout or LIMIT)
            self.sock.sendall(b"?\n")
            text = self.sock.recv(200).decode()
            if not text:
                return Result("reset", (time.monotonic() - start) * 1e3)
            if timeout is None and time.monotonic() > start + LATE and _resent(self.sock) > before:
                return Result("timeout", (time.monotonic() - start) * 1e3)
        except OSError as e:
            return Result(_outcome(e), (time.monotonic() - start) * 1e3)
        backend, port, peer, peer_port = text.split()
        return Result("ok", (time.monotonic() - start) * 1e3, backend, int(port), peer,
                      int(peer_port))

    def close(self):
        self.sock.close()


def bind_any(s, source, port=0):
    """Bind to a local address, also one by a local route only (IPv6 needs IPV6_FREEBIND)."""
    if s.family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
    s.bind((source, port))


_udp_ports = itertools.cycle(range(32768, 61000))


def _bind_udp(s, source):
    """Bind to a port that no socket of connect() had before. With a random one, a request can meet an
    entry that an earlier request left before there was a frontend (vipd deletes these 0.2 s later)."""
    for _ in range(100):
        with contextlib.suppress(OSError):  # EADDRINUSE
            return bind_any(s, source, next(_udp_ports))
    return bind_any(s, source)


def _connect_unlost(sock, to):
    """Wait for the other end until TCP sends its SYN again after its timeout of 1 s: a packet was
    lost. TCP sends it again at once if the port is known to the other end from an earlier
    connection (a challenge ACK): this is no loss."""
    sock.setblocking(False)
    start = time.monotonic()
    error = sock.connect_ex(to)
    if error == errno.EINPROGRESS:
        wait = select.poll()
        wait.register(sock, select.POLLOUT)
        early = 0  # segments sent again before that timeout
        while not wait.poll(50):
            passed = time.monotonic() - start
            if passed < 0.9:
                early = _resent(sock)
            elif _resent(sock) > early or passed > PATIENCE:
                raise TimeoutError
        if time.monotonic() - start >= 0.9 and _resent(sock) > early:
            raise TimeoutError
        error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def connect(ns, addr, port, proto="tcp", timeout=None, source=None):
    """Open a connection; returns (Conn or None, Result of opening). Without a timeout, it fails when
    the first packet is lost; emulated machines, which lose some, have LATE seconds for several."""
    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
    s = ns.socket(af(addr), kind, {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP,
                                   "sctp": socket.IPPROTO_SCTP}[proto])
    s.settimeout(timeout or LATE)
    start = time.monotonic()
    try:
        if proto == "udp":
            _bind_udp(s, source or "")
        elif source:
            bind_any(s, source)
        if proto == "tcp" and timeout is None and SLOW == 1:
            _connect_unlost(s, (addr, port))
        else:
            s.connect((addr, port))
    except OSError as e:
        s.close()
        return None, Result(_outcome(e), (time.monotonic() - start) * 1e3)
    return Conn(s, proto), Result("ok", (time.monotonic() - start) * 1e3)


def probe(ns, addr, port, proto="tcp", timeout=None, source=None):
    """Result of one connection with one request. Needs a timeout if no answer is expected."""
    start = time.monotonic()
    c, r = connect(ns, addr, port, proto, timeout, source)
    if c is None:
        return r
    r = c.ask(timeout)
    r.ms = (time.monotonic() - start) * 1e3
    c.close()
    if r.ok and r.backend == addr and is_worlds(addr):
        r.what = "untouched"
    return r


def eventually(check, timeout=3.0, what="it did not come true"):
    """Call check() until it returns a true value, and return that."""
    end = time.monotonic() + max(timeout, PATIENCE) * SLOW
    pause = 0.002
    while True:
        begin = time.monotonic()
        value = check()
        now = time.monotonic()
        if value:
            return value
        if now > end:
            raise AssertionError(what() if callable(what) else what)
        time.sleep(max(pause, now - begin))  # at most half of a processor
        pause = min(pause * 2, 0.1)


def cpu_ms(pid):
    """Time that a process has been on a CPU so far; finer than the ticks of /proc/PID/stat."""
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


class Lab:
    """The whole network. Use as a context manager, or close() it."""

    ROLES = ("client", "node", "node2", "world", "pod1", "pod2", "pod3")

    def __init__(self, servers=True, bridge_nf=False):
        """bridge_nf: let netfilter see bridged packets, as many Kubernetes nodes do; ports of the
        bridge then send packets back where they came from (hairpin mode)."""
        self.bridge_nf = bridge_nf
        self.id = "%s%d-%s" % (PREFIX, os.getpid(),
                               "".join(random.choices(string.ascii_lowercase, k=5)))
        self.ns = {}
        self.lock = threading.Lock()
        try:
            for role in self.ROLES:
                self.ns[role] = Ns("%s-%s" % (self.id, role))
            self._links()
            self._addresses()
            if servers:
                self._servers()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __getattr__(self, role):
        try:
            return self.__dict__["ns"][role]
        except KeyError:
            raise AttributeError(role) from None

    def close(self):
        for ns in list(self.ns.values()):
            with contextlib.suppress(Exception):
                ns.close()
        self.ns.clear()

    def _batch(self, ns, lines):
        """Commands of `ip -batch`; those that begin with -6 go last, in a batch of their own."""
        lines = [line.strip() for line in lines]
        with ns.entered():
            run("ip", "-batch", "-", input="\n".join(x for x in lines if not x.startswith("-6")))
            six = [x[3:] for x in lines if x.startswith("-6")]
            if six:
                run("ip", "-6", "-batch", "-", input="\n".join(six))

    def _veth(self, a, dev_a, b, dev_b):
        self._batch(a, ["link add %s type veth peer name %s netns %s" % (dev_a, dev_b, b.name)])

    def _links(self):
        for ns in self.ns.values():
            ns.sysctl(net__ipv6__conf__all__accept_dad=0, net__ipv6__conf__default__accept_dad=0,
                      net__ipv4__conf__all__rp_filter=0, net__ipv4__conf__default__rp_filter=0,
                      net__ipv4__conf__all__accept_redirects=0,
                      net__ipv6__conf__all__accept_redirects=0,
                      net__ipv6__conf__default__accept_redirects=0,
                      net__ipv4__conf__all__send_redirects=0,
                      net__ipv4__conf__default__send_redirects=0,
                      net__ipv4__icmp_ratelimit=0, net__ipv4__icmp_msgs_per_sec=100000,
                      net__ipv6__icmp__ratelimit=0)
        self.node.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        self._batch(self.node, ["link add br0 type bridge forward_delay 0"])
        self._veth(self.node, "cl0", self.client, "eth0")
        self._veth(self.node, "nd0", self.node2, "eth0")
        self._veth(self.node, "wd0", self.world, "eth0")
        for pod in POD:
            self._veth(self.node, "veth" + pod, self.ns[pod], "eth0")
        with self.node.entered():
            for name in ("iptables", "ip6tables"):
                path = "/proc/sys/net/bridge/bridge-nf-call-" + name
                if os.path.exists(path):
                    with open(path, "w", encoding="ascii") as f:
                        f.write("1" if self.bridge_nf else "0")

    def _addresses(self):
        up = ["link set lo up", "link set eth0 up"]
        self._batch(self.node, ["link set lo up"] +
                    ["link set veth%s master br0 up" % pod for pod in POD] +
                    ["link set veth%s type bridge_slave hairpin on" % pod for pod in POD
                     if self.bridge_nf] +
                    ["link set %s up" % dev for dev in ("br0", "cl0", "nd0", "wd0")] +
                    ["addr add %s/24 dev cl0" % NODE_TO_CLIENT[4],
                     "addr add %s/24 dev nd0" % NODE[4],
                     "addr add %s/24 dev br0" % BRIDGE[4],
                     "addr add %s/30 dev wd0" % NODE_TO_WORLD[4],
                     "addr add %s/64 dev cl0 nodad" % NODE_TO_CLIENT[6],
                     "addr add %s/64 dev nd0 nodad" % NODE[6],
                     "addr add %s/64 dev br0 nodad" % BRIDGE[6],
                     "addr add %s/64 dev wd0 nodad" % NODE_TO_WORLD[6],
                     "route add %s via %s" % (REMOTE_CIDR[4], NODE2[4]),
                     "route add %s via %s" % (FAR_CIDR[4], CLIENT[4]),
                     "-6 route add %s via %s" % (FAR_CIDR[6], CLIENT[6]),
                     "route add %s via %s" % (OUTER_CIDR[4], CLIENT[4]),
                     "-6 route add %s via %s" % (OUTER_CIDR[6], CLIENT[6]),
                     "route add default via %s" % WORLD[4],
                     "-6 route add %s via %s" % (REMOTE_CIDR[6], NODE2[6]),
                     "-6 route add default via %s" % WORLD[6]])
        self._batch(self.client, up + [
            "addr add %s/24 dev eth0" % CLIENT[4], "addr add %s/24 dev eth0" % CLIENT2[4],
            "addr add %s/64 dev eth0 nodad" % CLIENT[6],
            "addr add %s/64 dev eth0 nodad" % CLIENT2[6],
            "route add local %s dev lo" % FAR_CIDR[4],
            "-6 route add local %s dev lo" % FAR_CIDR[6],
            "route add local %s dev lo" % OUTER_CIDR[4],
            "-6 route add local %s dev lo" % OUTER_CIDR[6],
            "route add default via %s src %s" % (NODE_TO_CLIENT[4], CLIENT[4]),
            "-6 route add default via %s src %s" % (NODE_TO_CLIENT[6], CLIENT[6])])
        self._batch(self.node2, up + [
            "addr add %s/24 dev eth0" % NODE2[4], "addr add %s/64 dev eth0 nodad" % NODE2[6],
            "route add local %s dev lo" % REMOTE_CIDR[4],
            "-6 route add local %s dev lo" % REMOTE_CIDR[6],
            "route add default via %s" % NODE[4], "-6 route add default via %s" % NODE[6]])
        self._batch(self.world, up + [
            "addr add %s/30 dev eth0" % WORLD[4], "addr add %s/64 dev eth0 nodad" % WORLD[6],
            "route add default via %s" % NODE_TO_WORLD[4],
            "-6 route add default via %s" % NODE_TO_WORLD[6]] + [
            "%s route add local %s dev lo" % ("-6" if fam == 6 else "", cidr[fam])
            for cidr in (SERVICE_CIDR, EXTERNAL_CIDR, LB_CIDR) for fam in (4, 6)])
        for pod, addr in POD.items():
            self._batch(self.ns[pod], up + [
                "addr add %s/32 dev eth0" % addr[4], "addr add %s/128 dev eth0 nodad" % addr[6],
                "route add %s dev eth0" % BRIDGE[4], "route add default via %s" % BRIDGE[4],
                "-6 route add %s dev eth0" % BRIDGE[6],
                "-6 route add default via %s" % BRIDGE[6]])

    def _servers(self):
        ports = "8080,8081,5353"
        for role in ("pod1", "pod2", "pod3", "node2"):
            self.serve(role, ports)
        self.serve("world", ports + ",80,81,53,7,90")

    def serve(self, role, ports):
        return Flow(self.ns[role], "serve", "--netns", self.ns[role].path, "--tcp", ports,
                    "--udp", ports)

    def flow(self, role, mode, *args):
        return Flow(self.ns[role], mode, *args)
