# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd with an API server that is late, unreachable, silent, wrong or without history: no
connection fails, nothing is written before all lists are complete, and changes made meanwhile are
programmed soon after. Steady flows (conftest.py) and new connections run during every test."""
import os
import signal
import struct
import sys
import time

import pytest

import daemon
import lab as L
from objects import entry, node, port, service, service_cidr, slice_, slice_port

sys.path.insert(0, os.path.join(L.ROOT, "tests"))

from apiserver.client import Server  # noqa: E402

SOON = 2.0                  # from the moment the server is well
RATE = 300
RESOURCES = {"Service": "services", "EndpointSlice": "endpointslices", "Node": "nodes",
             "ServiceCIDR": "servicecidrs"}
JSON = "application/json"
ENCODING = pytest.mark.parametrize("encoding", (None, JSON), ids=("protobuf", "json"))


class ApiVipd(daemon.Vipd):
    """vipd with an API server; write() sets the server's objects."""

    def __init__(self, lab, api, flags=None):
        super().__init__(lab, flags)
        self.api = api
        self.config_path = api.kubeconfig("token")
        self.held = {}
        self.node = {}  # what the Node object says otherwise than usual
        self.clock = None  # file with the seconds the wall clock is ahead

    def all_objects(self):
        first, *rest = super().all_objects()
        if not self.node:
            return [first] + rest
        usual = {"addresses": [L.NODE[4], L.NODE[6]], "pod_cidrs": [L.POD_CIDR[4], L.POD_CIDR[6]]}
        return [node(L.NODE_NAME, zone=self.zone, **dict(usual, **self.node))] + rest

    def argv(self):
        out = super().argv()
        at = out.index("--manifests")
        out = out[:at] + ["--kubeconfig", self.config_path] + out[at + 2:]
        if self.clock is None:
            return out
        jump = os.path.join(L.build_dir(), "tests", "tools", "clockjump.so")
        assert os.path.exists(jump)
        return ["env", "LD_PRELOAD=" + jump, "CLOCKJUMP=" + self.clock] + out

    @staticmethod
    def key(obj):
        meta = obj["metadata"]
        ns = meta.get("namespace")
        return RESOURCES[obj["kind"]], "%s/%s" % (ns, meta["name"]) if ns else meta["name"]

    def write(self, objs=None):
        if objs is not None:
            self.objects = list(objs)
        want = {self.key(o): o for o in self.all_objects()}
        for resource, name in set(self.held) - set(want):
            self.api.delete(resource, name)
        changed = [o for k, o in want.items() if self.held.get(k) != o]
        if changed:
            self.api.put(*changed)
        self.held = want

    def change(self, objs=None):
        """Write a change without waiting; marker_seen() returns whether it is in the kernel."""
        self.serial = self.serial % 60000 + 1
        self.write(objs)

    def wait_change(self, timeout=SOON):
        """Wait until everything is programmed; returns the time it took."""
        begin = time.monotonic()
        L.eventually(lambda: self.marker_seen() and self.is_settled() and not self.differences(),
                     timeout, lambda: "the change is not all in effect after %g s: %s\n%s" % (
                         timeout, self.differences()[:5], self.log()))
        return time.monotonic() - begin

    def restart(self, **flags):
        """Restart with changed flags and unchanged objects: nothing is written."""
        self.stop()
        self.flags.update({"--" + k.replace("_", "-"): v for k, v in flags.items()})
        return self.start()


@pytest.fixture(scope="module")
def api(lab):
    with Server(netns=lab.node.name) as server:
        yield server
        assert server.errors() == ""


@pytest.fixture(scope="module")
def vipd(lab, api):
    made = ApiVipd(lab, api)
    try:
        made.write([])
        made.start()
        made.apply([])
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def fresh(lab, vipd, steady):
    """New connections to a service that no test touches, from outside and from the node."""
    to = ["tcp:" + L.endpoint(daemon.STEADY_IP[f], 80) for f in (4, 6)] + \
        ["tcp:" + L.endpoint(daemon.STEADY_LB[4], 80), "udp:" + L.endpoint(daemon.STEADY_IP[4], 80)]
    flow = lab.flow("client", "new", "--rate", RATE, "--concurrency", "64",
                    *[x for t in to for x in ("--to", t)])
    yield flow
    flow.stop()


@pytest.fixture(autouse=True)
def nobody_notices(vipd, api, fresh):
    """New connections during the test all succeed; the server works before and after."""
    before = fresh.stat()
    yield
    api.clear()
    api.listen(state="open")
    after = fresh.stat()
    assert after["failed"] == before["failed"], (after["first_failure"], after["per_second"][-5:])
    assert after["started"] > before["started"], "the load stood still"


def pair(name, number, endpoints):
    """A service and its slice."""
    return [service(name, L.cluster_ip(number, 4), 80),
            slice_(name, [L.remote(i, 4) for i in endpoints], 8080)]


def serves(lab, number, endpoints):
    r = L.probe(lab.client, L.cluster_ip(number, 4), 80)
    assert r.backend in [L.remote(i, 4) for i in endpoints], r


def nobody_serves(lab, number):
    """Packets to an unallocated address of the service range do not leave the node."""
    r = L.probe(lab.client, L.cluster_ip(number, 4), 80, timeout=0.2)
    assert r.what == "timeout", r


# ---- the gate (T-001, IN-15, IN-19)

LATE = {
    "services": [("services", "delay")],
    "slices": [("endpointslices", "delay")],
    "slices last": [("endpointslices", "delay", 1.6), ("services", "delay", 0.8)],
    "services last": [("services", "delay", 1.6), ("endpointslices", "delay", 0.8)],
    "services half": [("services", "stall")],
    "slices half": [("endpointslices", "stall")],
}


def make_late(api, what):
    """Lists that begin late or stall in the middle of an object."""
    seconds = 0
    for resource, kind, *rest in LATE[what]:
        wait = rest[0] if rest else 1.5 if kind == "stall" else 3.0
        seconds = max(seconds, wait)
        if kind == "delay":
            api.fault("delay", resource=resource, delay=wait, count=2)
        else:
            api.fault("stall", resource=resource, at="object", lasts=wait, count=1)
    return seconds


def gate_cases():
    for late in LATE:
        for watchlist, name in (("serve", "watchlist"), ("invalid", "list")):
            if name == "watchlist" or late not in ("services", "slices"):  # three seconds once
                yield pytest.param(late, watchlist, id="%s, %s" % (late, name))


@pytest.mark.parametrize("late,watchlist", gate_cases())
def test_gate(lab, vipd, api, late, watchlist):
    """Kernel state stays until both lists are complete; then changes made meanwhile are
    written."""
    vipd.apply(pair("kept", 1, [1, 2]) + pair("gone", 2, [3]))
    api.set(watchlist=watchlist)
    vipd.kill()
    vipd.change(pair("kept", 1, [2, 4]) + pair("new", 3, [5]))
    genid = vipd.nft.genid()
    seconds = make_late(api, late)
    begin = time.monotonic()
    vipd.start(wait=False)
    try:
        while True:
            state, now = vipd.status().get("state"), vipd.nft.genid()
            after = time.monotonic() - begin
            if after >= seconds:
                break
            assert now == genid, "written %.2f s after the start" % after
            assert state in (None, "waiting")
            time.sleep(0.05)
        vipd.wait_change()
    finally:
        api.set(watchlist="serve")
    assert vipd.nft.genid() > genid
    serves(lab, 1, [2, 4])
    serves(lab, 3, [5])
    nobody_serves(lab, 2)


@ENCODING
def test_restart_writes_nothing(vipd, api, encoding):
    """Without a change no write, in any order of the lists."""
    vipd.apply(pair("one", 1, [1, 2]) + pair("two", 2, [3]))
    genid = vipd.nft.genid()
    try:
        for resource in ("services", "endpointslices", "nodes"):
            vipd.kill()
            api.fault("delay", resource=resource, delay=0.3, count=2)
            vipd.flags["--kube-api-content-type"] = encoding
            vipd.start()
            time.sleep(0.2)
            assert vipd.nft.genid() == genid
            api.clear()
    finally:
        vipd.flags["--kube-api-content-type"] = None
    vipd.change(pair("one", 1, [1, 2, 5]))  # it is not asleep
    vipd.wait_change()


# ---- a server that is not well

def watches(kind, **p):
    """A fault in the middle of the next event."""
    return lambda api: api.fault(kind, verb="watch", **dict({"at": "object", "count": 1}, **p))


def answers(kind, **p):
    """Every watch is lost, and the next answer of each kind is like this."""
    def hurt(api):
        for resource in ("services", "endpointslices"):
            api.fault(kind, resource=resource, count=1, **p)
        api.end_watches(how="close")
    return hurt


def closed(api):
    api.listen(state="closed")
    api.connections(do="reset")


def silent(api):
    api.listen(state="silent")
    api.connections(do="reset")


def frozen(api):
    os.kill(api.process.pid, signal.SIGSTOP)


def thawed(api):
    os.kill(api.process.pid, signal.SIGCONT)


def expired(api):
    """410 in the stream, and again for a request of the old version."""
    api.compact()
    api.end_watches(how="error")


def forgets(api):
    """The server is unreachable while versions expire and objects are deleted."""
    api.listen(state="closed")
    api.connections(do="reset")
    api.compact()


def late_kinds(api):
    """Events of one kind arrive long after those of the other: no order between kinds (IN-14)."""
    api.fault("lag", resource="services", delay=0.4)


def late_slices(api):
    api.fault("lag", resource="endpointslices", delay=0.4)


# How it is hurt, how it gets well (None: by itself), whether the encoding matters. A server that
# is hurt by a change is hurt before that is made; the change is waited for from when it is well.
ILL = {
    "refuses connections": (closed, None),
    "accepts and says nothing": (silent, None),
    "freezes": (frozen, thawed),
    "stalls in an object": (watches("stall", count=None), None),
    "resets in an object": (watches("reset"), None),
    "resets streams": (watches("reset", stream=True), None),
    "closes in an object": (watches("close"), None),
    "ends in an object": (watches("truncate"), None),
    "ends in a chunk": (watches("chunk"), None),
    "sends garbage": (watches("garbage"), None),
    "sends garbage and ends": (watches("garbage", end=True), None),
    "sends garbage below HTTP": (watches("garbage", raw=True), None),
    "is slow": (lambda api: api.fault("slow", rate=4000, piece=7), None),
    "says 429": (answers("status", code=429, reason="TooManyRequests", retry_after=1), None),
    "says 500": (answers("status", code=500, reason="InternalError"), None),
    "says 503 in plain text": (answers("status", code=503, plain=True), None),
    "is somebody else": (answers("status", code=200, body="<html>log in</html>",
                                 type="text/html"), None),
    "expires versions": (expired, None),
    "expires versions while away": (forgets, None),
    "is late with services": (late_kinds, None),
    "is late with slices": (late_slices, None),
    "sends twice": (lambda api: api.fault("duplicate"), None),
    "ends watches": (lambda api: api.end_watches(how="end"), None),
    "says goodbye": (lambda api: api.connections(do="goaway", close=True), None),
}
BOTH = ("stalls in an object", "ends in an object", "sends garbage", "closes in an object",
        "expires versions")


def ill_cases():
    for what in ILL:
        yield pytest.param(what, None, id=what)
        if what in BOTH:
            yield pytest.param(what, JSON, id=what + ", json")


@pytest.mark.parametrize("what,encoding", ill_cases())
def test_ill(lab, vipd, api, what, encoding):
    """Kernel state stays; services added, deleted and changed meanwhile are programmed when the
    server works again."""
    hurt, heal = ILL[what]
    vipd.apply(pair("changed", 1, [1, 2]) + pair("gone", 2, [3]))
    genid = vipd.nft.genid()
    vipd.restart(kube_api_content_type=encoding)  # for the shortest pause (IN-11)
    assert vipd.nft.genid() == genid
    hurt(api)
    if what == "freezes":
        time.sleep(0.7)
        heal(api)
    vipd.change(pair("changed", 1, [2, 4]) + pair("new", 3, [5]))
    r = L.probe(lab.client, L.cluster_ip(1, 4), 80)
    assert r.ok, r
    if what != "freezes":
        time.sleep(0.3)
    api.clear()
    api.listen(state="open")
    vipd.wait_change()
    serves(lab, 1, [2, 4])
    serves(lab, 3, [5])
    nobody_serves(lab, 2)


def test_relist_deletes(lab, vipd, api):
    """IN-12: objects of every kind deleted meanwhile are removed after the list."""
    vipd.restart(kube_api_content_type=None)
    vipd.apply(sum((pair("s%d" % i, 10 + i, [1 + i]) for i in range(40)), []) +
               [service_cidr("extra", ["10.97.0.0/24"])])
    forgets(api)
    vipd.change(sum((pair("s%d" % i, 10 + i, [1 + i]) for i in range(0, 40, 8)), []))
    api.compact()
    serves(lab, 11, [2])
    api.listen(state="open")
    vipd.wait_change()
    serves(lab, 18, [9])
    nobody_serves(lab, 11)


def test_clock_jumps(lab, vipd, api, tmp_path):
    """The wall clock is set a day ahead, a day back, and right again: changes continue, no
    connection fails, watches are opened again."""
    clock = tmp_path / "clock"

    def jump(seconds):
        with open(clock, "r+b" if clock.exists() else "wb") as f:
            f.write(struct.pack("=q", seconds))
    jump(0)
    vipd.clock = str(clock)
    try:
        vipd.restart()
        with open("/proc/%d/maps" % vipd.proc.pid, encoding="utf-8") as f:
            assert "clockjump" in f.read()
        vipd.apply(pair("clock", 4, [1]))
        for i, seconds in enumerate((86400, -86400, 0)):
            jump(seconds)
            vipd.change(pair("clock", 4, [2 + i]))
            vipd.wait_change()
            serves(lab, 4, [2 + i])
            if seconds == 0:
                api.connections(do="reset")
                vipd.change(pair("clock", 4, [6]))
                vipd.wait_change(5)
                serves(lab, 4, [6])
    finally:
        vipd.clock = None
        vipd.restart()


# ---- credentials

@pytest.fixture
def credentials(vipd, api):
    """credentials(user): restart vipd with these; afterwards with the default ones."""
    usual = vipd.config_path

    def use(user):
        vipd.config_path = api.kubeconfig(user)
        vipd.restart()
    yield use
    api.tokens(tokens=[api.token])
    api.revoke(serial=None)
    vipd.config_path = usual
    vipd.restart()


def test_token(lab, vipd, api, credentials):
    """A token is rejected, then accepted; then replaced, as for service accounts every hour."""
    vipd.apply(pair("token", 1, [1]))
    credentials("tokenfile")
    api.tokens(tokens=["another"])
    api.end_watches(how="end")
    vipd.change(pair("token", 1, [2]))
    L.eventually(lambda: vipd.status()["source"]["errors"]["items"], what="no error in the status")
    for e in vipd.status()["source"]["errors"]["items"]:
        assert (e["where"], e["text"].count("watch "), "401" in e["text"]) == ("API server", 1, True), e
    serves(lab, 1, [1])
    api.tokens(tokens=[api.token])
    vipd.wait_change()
    serves(lab, 1, [2])
    vipd.restart()
    api.tokens(tokens=["second"])
    api.end_watches(how="end")
    vipd.change(pair("token", 1, [3]))
    time.sleep(0.3)
    api.write("token", "second\n", 0o600)
    vipd.wait_change()
    serves(lab, 1, [3])


@pytest.mark.parametrize("what", ("server", "ca", "client"))
def test_certificates(lab, vipd, api, credentials, what):
    """Replaced in their files while vipd runs."""
    vipd.apply(pair("cert", 1, [1]))
    credentials("cert")
    if what == "client":
        api.revoke(serial="*")
        api.connections(do="reset")
        vipd.change(pair("cert", 1, [2]))
        time.sleep(0.1)
        serves(lab, 1, [1])
        api.client_cert(name="client")
        api.revoke(serial=None)
    else:
        api.certs(what=what)
        api.connections(do="reset")
        vipd.change(pair("cert", 1, [2]))
    vipd.wait_change()
    serves(lab, 1, [2])


# ---- our Node, ServiceCIDRs

def test_zone(lab, vipd):
    """IN-21 to IN-23: the label changes, and connections stay in the new zone."""
    objs = [service("zoned", L.cluster_ip(1, 4), 80),
            slice_("zoned", [entry(L.remote(i, 4), "n2", zones=[z]) for i, z in
                             ((1, "a"), (2, "a"), (3, "b"), (4, "b"))], 8080)]
    vipd.apply(objs)
    pid = vipd.status()["pid"]
    for zone, wanted in (("a", [1, 2]), ("b", [3, 4]), (None, [1, 2, 3, 4]), ("a", [1, 2])):
        vipd.zone = zone
        vipd.change()
        vipd.wait_change()
        for _ in range(8):
            serves(lab, 1, wanted)
    assert vipd.status()["pid"] == pid


def test_node_address(lab, vipd):
    """IN-25: node ports move to the Node's new address, without a restart."""
    vipd.apply([service("np", L.cluster_ip(1, 4), port(80, node_port=30080)),
                slice_("np", [L.remote(1, 4)], 8080)])
    pid = vipd.status()["pid"]
    assert L.probe(lab.client, L.NODE[4], 30080).ok
    other = L.NODE_TO_CLIENT[4]
    assert L.probe(lab.client, other, 30080).what == "refused"
    try:
        vipd.node = dict(addresses=[other, L.NODE_TO_CLIENT[6]])
        vipd.change()
        vipd.wait_change()
        assert L.probe(lab.client, other, 30080).backend == L.remote(1, 4)
        assert L.probe(lab.client, L.NODE[4], 30080).what == "refused"
    finally:
        vipd.node = {}
    vipd.change()
    vipd.wait_change()
    assert L.probe(lab.client, L.NODE[4], 30080).ok
    assert vipd.status()["pid"] == pid


@pytest.mark.parametrize("why", ["not received", "no addresses yet"])
def test_restart_without_node(lab, vipd, api, why):
    """LIFE-04, IN-19: until the Nodes are listed, this one with addresses, node ports stay as they
    are, no address of the host is taken for the Node's, and everything else is programmed."""
    other = L.NODE_TO_CLIENT[4]

    def pending():
        return [p["text"] for p in vipd.status()["problems"] if p["text"].startswith("sweep")]
    vipd.node = dict(addresses=[other, L.NODE_TO_CLIENT[6]])
    try:
        vipd.apply([service("np", L.cluster_ip(1, 4), port(80, node_port=30080)),
                    slice_("np", [L.remote(1, 4)], 8080)])
        assert L.probe(lab.client, other, 30080).backend == L.remote(1, 4)
        vipd.kill()
        vipd.change(vipd.objects + pair("new", 3, [5]))
        if why == "not received":
            api.fault("status", code=429, reason="TooManyRequests", resource="nodes")
        else:
            api.put(node(L.NODE_NAME))
        vipd.start(wait=False)
        L.eventually(lambda: vipd.status().get("state") == "running" and pending(), 20, vipd.log)
        assert "sweep pending: Node: " + why in pending()[0]
        assert L.probe(lab.client, other, 30080).backend == L.remote(1, 4)
        assert L.probe(lab.client, L.NODE[4], 30080).what == "refused"
        serves(lab, 3, [5])
        api.clear()
        api.put(vipd.all_objects()[0])
        vipd.wait_change(20)    # a pause after failures
        assert not pending()
        assert L.probe(lab.client, other, 30080).backend == L.remote(1, 4)
        assert L.probe(lab.client, L.NODE[4], 30080).what == "refused"
    finally:
        api.clear()
        vipd.node = {}
        vipd.change()
        vipd.wait_change(20)


def test_pod_cidrs(lab, vipd):
    """NodeCIDR mode: pod detection follows the Node (IN-25)."""
    vipd.apply(pair("pods", 1, [1]))
    vipd.restart(detect_local_mode="NodeCIDR", cluster_cidr=None)
    pid = vipd.status()["pid"]

    def peer():
        return L.probe(lab.pod1, L.cluster_ip(1, 4), 80).peer
    try:
        assert peer() == L.POD["pod1"][4]
        vipd.node = dict(pod_cidrs=["10.244.77.0/24", "fd00:10:244:77::/64"])
        vipd.change()
        vipd.wait_change()
        assert peer() == L.NODE[4]
        vipd.node = {}
        vipd.change()
        vipd.wait_change()
        assert peer() == L.POD["pod1"][4]
        assert vipd.status()["pid"] == pid
    finally:
        vipd.node = {}
        vipd.restart(detect_local_mode=None, cluster_cidr=daemon.FLAGS["--cluster-cidr"])


def test_cluster_cidr_of_other_pods(lab, vipd):
    """Mode ClusterCIDR: prefixes of the Node that --cluster-cidr does not contain are in the log."""
    vipd.apply(pair("pods", 1, [1]))
    vipd.restart()
    said = "--cluster-cidr does not contain 10.42.0.0/24 of the Node's podCIDRs"
    try:
        assert "podCIDRs" not in vipd.log()
        vipd.node = dict(pod_cidrs=["10.42.0.0/24"])
        vipd.change()
        vipd.apply(pair("pods", 1, [2]))
        L.eventually(lambda: said in vipd.log())
    finally:
        vipd.node = {}
        vipd.change()


def test_service_cidr(lab, vipd):
    """IN-26, IN-28: packets to an address are forwarded unless a ServiceCIDR contains it; a range
    of two objects stays until both are deleted (IN-27)."""
    vipd.apply([])
    vipd.restart(service_cluster_ip_range=None)
    nobody = L.external_ip(77, 4)

    def fate():
        return L.probe(lab.client, nobody, 80).what
    try:
        first = service_cidr("first", ["198.51.100.0/24"])
        second = service_cidr("second", ["198.51.100.0/24", "2001:db8:100::/64"])
        assert fate() == "untouched"
        for objs, wanted in (([first], "timeout"), ([first, second], "timeout"),
                             ([second], "timeout"), ([], "untouched")):
            vipd.change(objs)
            vipd.wait_change()
            assert fate() == wanted
    finally:
        vipd.restart(
            service_cluster_ip_range=daemon.FLAGS["--service-cluster-ip-range"])


# ---- life of a cluster

def test_rolling_update(lab, vipd, api):
    """Endpoints replaced one by one, as by a deployment, under more load than in other tests."""
    vipd.apply(pair("roll", 1, range(1, 7)))
    load = lab.flow("client", "new", "--to", "tcp:%s:80" % L.cluster_ip(1, 4), "--rate", "1000",
                    "--concurrency", "64")
    for lap in range(2):
        new = range(7, 13) if lap == 0 else range(1, 7)
        reply = api.roll(services=["default/roll"], step=0.03,
                         endpoints=[entry(L.remote(i, 4)) for i in new])
        assert reply["result"] == 30
    load.more_ok()
    result = load.stop()
    assert result["failed"] == 0, (result["first_failure"], result["per_second"])
    del vipd.held[("endpointslices", "default/roll-4")]     # changed behind its back
    vipd.change()
    vipd.wait_change()
    serves(lab, 1, range(1, 7))


# ---- Events

def test_events(lab, vipd, api):
    """A conflict of addresses, and an object that is rejected, become one Event each, which names the object."""
    vipd.restart(events_period="100ms")
    api.forget()
    both = [service("old", L.cluster_ip(60, 4), 80, external_ips=["198.51.100.60"], created="2025-01-01T00:00:00Z"),
            service("new", L.cluster_ip(61, 4), 80, external_ips=["198.51.100.60"], created="2026-01-01T00:00:00Z")]
    vipd.apply(both)
    wrong = service("wrong", L.cluster_ip(62, 4), 80)
    wrong["spec"]["ports"][0]["port"] = 70000
    api.put(wrong, raw=True)

    def notes():
        return {(p["object"]["regarding"]["name"], p["object"]["reason"]): p["object"]["note"]
                for p in api.posted()["posted"]}
    L.eventually(lambda: len(notes()) == 2, L.PATIENCE, notes)
    assert notes() == {
        ("new", "AddressConflict"): "ExternalIP 198.51.100.60 port 80/TCP is served by %s/old (older service)" % both[0]["metadata"]["namespace"],
        ("wrong", "InvalidObject"): "spec.ports[0].port: 70000 is not a number from 1 to 65535"}
    vipd.restart()          # reported again by the new process, under the same names
    L.eventually(lambda: len([r for r in api.requests(verb="create") if r["status"] == 409]) == 2, L.PATIENCE,
                 lambda: api.requests(verb="create"))
    assert len(api.posted()["posted"]) == 2
    api.delete("services", "%s/wrong" % wrong["metadata"]["namespace"])
    vipd.restart(events_period="0")
    vipd.apply([])
