# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections: silence, GOAWAY, several servers, and the default pauses of vipd."""
import os
import subprocess
import time

import pytest

from apiserver.client import Server
from feed import Feed, service
from test_watch import shop

# Silence is detected after quiet + probe, with half a step of the check in between.
ALERT = {"quiet_ms": 600, "probe_ms": 60000, "keepalive_ms": 60000, "bookmark_ms": 60000}
LIMIT_MS = 4000  # a time limit that ends in a test; more than a busy server takes to answer


def test_one_connection(api, start):
    """HTTP/2: all watches share it, also later ones."""
    shop(api)
    feed = start().wait_synced()
    for _ in range(3):
        api.end_watches(how="end")
        feed.wait_healthy()
    assert feed.status()["connections"] == 1
    assert api.stats()["accepted"] == 1


def test_http1(api, start):
    """Without HTTP/2: one connection per watch, reused by later watches."""
    shop(api).set(http2=False)
    feed = start().wait_synced()
    for _ in range(3):
        api.end_watches(how="end")
        feed.wait_healthy()
    assert feed.status()["connections"] == 4
    assert not feed.status()["http2"]


@pytest.mark.parametrize("http2", [True, False])
def test_slow_answer(api, start, http2):
    """A request with a late answer is sent once."""
    shop(api).set(http2=http2)
    api.fault("delay", delay=6)
    start().wait_synced(timeout=60)
    paths = [r["path"] for r in api.requests()]
    assert len(paths) == len(set(paths)), paths


# ---- silence

def test_frozen_server(api, start):
    """HTTP/2: the server's kernel answers, its process does not: detected by a probe."""
    shop(api).set(bookmarks=False)
    feed = start(**dict(ALERT, probe_ms=LIMIT_MS)).wait_synced().same_as(api)
    api.connections(do="freeze")
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)
    feed.wait_log("connection closed: no data for")
    assert feed.status()["dead"] == 1
    assert feed.reflector("services")["lists"] == 1


def test_quiet_server(api, start):
    """A quiet watch is healthy: after a probe it stays."""
    shop(api).set(bookmarks=False)
    feed = start(**ALERT).wait_synced()
    feed.wait_for(lambda: feed.status()["probes"] >= 2, "probes")
    status = feed.status()
    assert status["dead"] == 0 and status["connections"] == 1
    assert all(r["watches"] == 1 for r in status["reflectors"].values())
    probes = api.requests(path="/version")
    assert len(probes) >= 2 and {r["connection"] for r in probes} == {1}


def test_quiet_connections(api, start):
    """The answer to a probe over one of two connections counts for both."""
    shop(api).set(bookmarks=False, max_streams=2)
    feed = start(**ALERT).wait_synced()
    feed.wait_healthy()
    feed.wait_for(lambda: feed.status()["probes"] >= 2, "probes")
    feed.same_as(api)
    status = feed.status()
    assert status["connections"] >= 2
    assert status["dead"] == 0
    assert {r["watches"] for r in status["reflectors"].values()} == {1}


def test_busy_server_is_not_probed(api, start):
    shop(api).set(bookmark_seconds=0.2)
    feed = start(**dict(ALERT, quiet_ms=6000)).wait_synced()
    time.sleep(7)
    assert feed.status()["probes"] == 0


def test_refused_probe_is_alive(api, start):
    """Any answer proves that the server lives, even an error."""
    shop(api).set(bookmarks=False)
    api.fault("status", code=403, path="^/version")
    feed = start(**ALERT).wait_synced()
    feed.wait_for(lambda: feed.status()["probes"] >= 2, "probes")
    assert feed.status()["dead"] == 0


def test_silent_bookmarks(api, start):
    """HTTP/1.1 allows no probe: missing bookmarks show it."""
    shop(api).set(http2=False, bookmark_seconds=0.2)
    feed = start(**dict(ALERT, bookmark_ms=1000)).wait_synced().same_as(api)
    feed.wait_for(lambda: feed.reflector("services")["events"] > 7, "bookmarks")
    api.connections(do="freeze")
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)
    feed.wait_log("watch services: no data for")


@pytest.mark.parametrize("is_resumed", [False, True])
def test_watch_outlives_its_timeout(api, start, is_resumed):
    """A server or middlebox that does not end a watch."""
    shop(api).set(http2=False, bookmarks=False)
    feed = start(**dict(ALERT, watch_min_s=1, watch_max_s=1, idle_ms=1000, steady_ms=100))
    feed.wait_synced().same_as(api)
    if is_resumed:
        api.end_watches(how="reset", resource="services")
        feed.wait_log("api: services: recovered")
    api.connections(do="freeze")
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)
    feed.wait_log("watch services: not ended by the server after its timeout")


def test_quiet_watch_recovers(api, start):
    """A resumed watch without any event has recovered after a while, not at its end only."""
    shop(api).set(http2=False, bookmarks=False)
    feed = start(**dict(ALERT, steady_ms=300)).wait_synced()
    feed.wait_healthy()
    events = feed.reflector("services")["events"]
    api.end_watches(how="reset", resource="services")
    feed.wait_log("watch services: connection lost")
    feed.wait_log("api: services: recovered")
    r = feed.reflector("services")
    assert r["events"] == events and r["failures"] == 0 and not r["error"]


def test_frozen_server_with_real_pauses(api, start):
    """The default pauses, which other tests shorten."""
    shop(api).set(bookmarks=False)
    feed = start(fast=False).wait_synced().same_as(api)
    api.connections(do="freeze")
    api.put(service("s1", "10.96.1.1", port=99))
    feed.wait_log("connection closed", timeout=120)
    feed.same_as(api)


@pytest.fixture
def two_namespaces():
    """A link that can be cut: (namespace of the server, of the client, address of the server)."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("network namespaces need root")
    names = ["vipd-api-%d-%s" % (os.getpid(), x) for x in "sc"]
    commands = [["ip", "netns", "add", n] for n in names] + [
        ["ip", "-n", names[0], "link", "add", "to", "type", "veth", "peer", "name", "to",
         "netns", names[1]]]
    for i, n in enumerate(names):
        commands += [["ip", "-n", n, "link", "set", "lo", "up"],
                     ["ip", "-n", n, "addr", "add", "192.0.2.%d/24" % (i + 1), "dev", "to"],
                     ["ip", "-n", n, "link", "set", "to", "up"]]
    try:
        for c in commands:
            subprocess.run(c, check=True)
        yield names[0], names[1], "192.0.2.1"
    finally:
        for n in names:
            subprocess.run(["ip", "netns", "del", n], check=False, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("http2", [True, False])
def test_lost_network(two_namespaces, http2):
    """The server's machine disappears: detected by TCP."""
    there, here, address = two_namespaces
    with Server(bind=address, netns=there, options=["--name", address], http2=http2) as api:
        shop(api)
        feed = Feed(config=api.kubeconfig(), prefix=["ip", "netns", "exec", here],
                    **dict(ALERT, keepalive_ms=3000, quiet_ms=60000))
        try:
            feed.wait_synced().same_as(api)
            time.sleep(1)
            subprocess.run(["ip", "-n", there, "link", "set", "to", "down"], check=True)
            api.put(service("s1", "10.96.1.1", port=99))
            feed.wait_error("services", "", timeout=8)
            subprocess.run(["ip", "-n", there, "link", "set", "to", "up"], check=True)
            feed.same_as(api, timeout=15)
            assert feed.reflector("services")["lists"] == 1
        finally:
            feed.close()


def need_root():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "-m", "true"],
                                           check=False).returncode:
        pytest.skip("namespaces need root")


def test_name_moves(tmp_path):
    """The name of the server gets another address: the next connection goes there."""
    need_root()
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 api.example.net\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files\n")
    setup = """for f in hosts nsswitch.conf; do
            mount --bind "$0/$f" "$(readlink -f "/etc/$f")" || exit; done && exec "$@" """
    with Server(tls=False) as a:
        number = a.http.rpartition(":")[2]
        with Server(bind="127.0.0.2", port=int(number), tls=False) as b:
            for api in (a, b):
                shop(api)
            feed = Feed(master="http://api.example.net:" + number,
                        prefix=["unshare", "-m", "sh", "-c", setup, str(tmp_path)])
            try:
                feed.wait_synced().same_as(a)
                hosts.write_text("127.0.0.2 api.example.net\n")
                for api in (a, b):
                    api.put(service("s1", "10.96.1.1", port=99))
                a.listen(state="closed")
                a.connections(do="close")
                feed.wait_for(lambda: b.stats()["accepted"] > 0, "a connection")
                feed.same_as(b).wait_healthy()
                assert not feed.logged("Failed to connect")
            finally:
                feed.close()


def test_name_server_does_not_answer(tmp_path):
    """The event loop does not wait for a resolver thread, nor does the end of the process."""
    need_root()
    (tmp_path / "resolv.conf").write_text("nameserver 192.0.2.1\n")  # 5 s, 2 attempts
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    setup = """ip link add to type veth peer name end && ip addr add 192.0.2.2/24 dev to &&
        ip link set to up && ip link set end up &&
        ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev to &&
        for f in resolv.conf nsswitch.conf; do
            mount --bind "$0/$f" "$(readlink -f "/etc/$f")" || exit; done && exec "$@" """
    feed = Feed(master="https://api.example.net:6443", connect_ms=1000, backoff_max_ms=1000,
                prefix=["unshare", "-n", "-m", "sh", "-c", setup, str(tmp_path)])
    try:
        feed.wait_error("services", "Resolving timed out")
        feed.wait_for(lambda: feed.reflector("services")["failures"] >= 3, "failures")
        assert feed.usage()["lag_ms"] < 6000
        # After 1000 ms, 1001 ms.
        assert len(feed.logged("watch services: Resolving timed out")) == 1
        with open("/proc/%d/status" % feed.process.pid, encoding="ascii") as f:
            threads = next(int(li.split()[1]) for li in f if li.startswith("Threads:"))
        # At most one request of each reflector a second, 10 s each.
        assert threads <= 1 + 4 * 11
    finally:
        began = time.monotonic()
        feed.close()
    assert time.monotonic() - began < 6


# ---- GOAWAY

@pytest.mark.parametrize("close", [False, True])
def test_goaway(api, start, close):
    """A server sends GOAWAY: no event is lost."""
    shop(api)
    feed = start().wait_synced()
    for i in range(4):
        api.connections(do="goaway", close=close)
        api.put(service("s1", "10.96.1.1", port=100 + i))
        feed.same_as(api)
        api.end_watches(how="end")
        feed.wait_healthy()
    assert feed.reflector("services")["lists"] == 1
    feed.same_as(api)


def test_few_streams(api, start):
    """A server that allows fewer streams than there are watches refuses the others: they move to
    another connection, without a failure."""
    shop(api).set(max_streams=2)
    feed = start().wait_synced().same_as(api)
    feed.wait_healthy()
    status = feed.status()
    assert status["connections"] >= 2
    for r in status["reflectors"].values():
        assert (r["lists"], r["watches"], r["failures"]) == (1, 1, 0)
    assert not feed.logged("next attempt")


# ---- several servers

@pytest.fixture
def pair():
    """Two servers with one authority's files each; (first, second, kubeconfig of both)."""
    with Server() as a, Server() as b:
        with open(a.path("ca.crt"), encoding="ascii") as f, \
                open(b.path("ca.crt"), encoding="ascii") as g:
            both = f.read() + g.read()
        config = a.kubeconfig()
        a.write("ca.crt", both)
        for api in (a, b):
            shop(api)
        yield a, b, config
        assert a.errors() == "" and b.errors() == ""


@pytest.mark.parametrize("how", ["closed", "silent", "frozen", "status"])
def test_failover(pair, how):
    a, b, config = pair
    limits = {"silent": {"connect_ms": LIMIT_MS},
              "frozen": {"connect_ms": LIMIT_MS, "probe_ms": LIMIT_MS}}.get(how, {})
    feed = Feed(config=config, master="%s,%s" % (a.https, b.https), **dict(ALERT, **limits))
    try:
        feed.wait_synced().same_as(a)
        assert feed.status()["server"] == a.https
        a.set(bookmarks=False)
        if how == "status":
            a.fault("status", code=503)
            a.end_watches(how="close")
        elif how == "frozen":
            a.end_watches(how="end")
            feed.wait_healthy()
            a.connections(do="freeze")
            a.listen(state="full")
        else:
            a.listen(state=how)
            a.connections(do="close")
        for api in (a, b):      # versions as with one etcd
            api.put(service("s1", "10.96.1.1", port=99))
        feed.wait_for(lambda: feed.status()["server"] == b.https, "the other server", 8)
        feed.same_as(b)
        feed.wait_healthy()
        assert feed.status()["failovers"] == 1
        # vipd stays with a server that works; when it fails, the first one is used again.
        a.clear()
        a.listen(state="open")
        b.listen(state="closed")
        b.connections(do="close")
        feed.wait_for(lambda: feed.status()["server"] == a.https, "the first again", 8)
        feed.same_as(a)
    finally:
        feed.close()


@pytest.mark.parametrize("how", ["stall", "garbage", "401"])
def test_first_server_answers_in_vain(pair, how):
    """Every answer of the first server is incomplete or unreadable, or rejects the credentials."""
    a, b, config = pair
    if how == "401":
        a.fault("status", code=401, reason="Unauthorized")
    else:
        a.fault(how, resource="services", at="object")
    feed = Feed(config=config, master="%s,%s" % (a.https, b.https), **dict(ALERT, idle_ms=LIMIT_MS))
    try:
        feed.wait_synced(60).same_as(b)
        assert feed.status()["server"] == b.https
    finally:
        feed.close()


def test_first_server_is_down(pair):
    a, b, config = pair
    a.listen(state="closed")
    feed = Feed(config=config, master="%s,%s" % (a.https, b.https), fast=False)
    try:
        feed.wait_synced(5).same_as(b)   # the default pauses, but no pause
    finally:
        feed.close()


def test_all_servers_are_down(pair):
    """When all servers fail, vipd pauses after each round, not after each server."""
    a, b, config = pair
    for api in pair[:2]:
        api.listen(state="closed")
    feed = Feed(config=config, master="%s,%s" % (a.https, b.https), backoff_min_ms=500,
                backoff_max_ms=500)
    try:
        began = time.monotonic()
        feed.wait_for(lambda: feed.reflector("services")["failures"] >= 5, "failures")
        assert time.monotonic() - began > 0.5, "no pause"
        b.listen(state="open")
        feed.wait_synced().same_as(b)
    finally:
        feed.close()


def test_rate_limit(api, start):
    """--kube-api-qps and --kube-api-burst delay new requests, not established watches."""
    shop(api)
    began = time.monotonic()
    feed = start(args=["--qps", "4", "--burst", "1"]).wait_synced()
    received = sorted(r["time"] for r in api.requests())
    # A busy server records requests late, never early: the fourth follows the first by 0.75 s.
    assert len(received) == 4 and received[-1] - began >= 0.75
    feed.same_as(api)
