# SPDX-License-Identifier: GPL-2.0-or-later
"""vipd takes over from kube-proxy or kube-router, and these from vipd, under short connections
without a pause: not one fails.

    kube-proxy's rules -> vipd starts -> --cleanup=kube-proxy -> kube-proxy's rules -> --cleanup

The rules are those of kubeproxy.py and kuberouter.py, for many services, and the recorded ones of kube-proxy
1.36.2 and kube-router 1.2.

Virtual services that carry connections are removed by force when none of these is established.
VIPD_TAKEOVERS is how often (default 2), VIPD_TAKEOVER_SERVICES how many services there are (40),
VIPD_LONG the seconds after which the clients end (900).

In a virtual machine a connection may take longer than TCP needs to repeat a lost packet: there the UDP
clients are those that miss one."""
import contextlib
import json
import os

import pytest

import kubeproxy
import kuberouter
import lab as L
import planes
import recorded
import recorded_router
from objects import entry, port, service, slice_, slice_port
from test_cleanup_kube_proxy import Node, wanted

TIMES = int(os.environ.get("VIPD_TAKEOVERS", "2"))
SERVICES = int(os.environ.get("VIPD_TAKEOVER_SERVICES", "40"))
NUMBER = 900       # the service with a node port and UDP
MORE = 2000        # the first of the others
NODE_PORT = 30900
ENDPOINTS = {fam: [L.POD["pod1"][fam], L.remote(1, fam)] for fam in (4, 6)}
SERVICE_CIDRS = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
CHUNK = 500        # objects in a file
RATE = 1500 if L.SLOW == 1 else 50  # connections of a client in a second
# Between two steps, each client has so many more connections.
BETWEEN = 100
CONCURRENCY = 2  # connections of a client under way


def objects():
    numbers = [NUMBER] + [MORE + i for i in range(SERVICES)]
    services, slices = [], []
    for n in numbers:
        name = "s%d" % n
        ports = [port(80, "TCP", "tcp", NODE_PORT if n == NUMBER else 0),
                 port(80, "UDP", "udp", NODE_PORT if n == NUMBER else 0)]
        services.append(service(name, [L.cluster_ip(n, 4), L.cluster_ip(n, 6)], ports))
        for fam in (4, 6):
            slices.append(slice_(name, [entry(ENDPOINTS[fam][0], L.NODE_NAME),
                                        entry(ENDPOINTS[fam][1], "n2")],
                                 [slice_port(8080, "TCP", "tcp"), slice_port(8080, "UDP", "udp")],
                                 fam=fam))
    return services + slices


class Takeover(Node):
    """A node that another proxy serves, and vipd not yet."""

    def __init__(self, lab, mode):
        super().__init__(lab)
        self.mode = mode
        self.other = "kube-router" if mode == "kube-router" else "kube-proxy"
        self.has_ipvs = mode in ("ipvs", "kube-router")
        self.clients = {}
        self.n_ended = {}  # failed connections of each client that the cleanup ended
        self.vipd.write([])
        every = self.objects()
        for i in range(0, len(every), CHUNK):
            self.vipd.manifests.put("takeover-%05d.json" % i, json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": every[i:i + CHUNK]}))
        self.rules = {fam: self.render(fam) for fam in (4, 6)}

    def objects(self):
        return objects()

    def render(self, fam):
        main = (L.cluster_ip(NUMBER, fam), 80, NODE_PORT)
        if self.has_ipvs:
            return None
        if self.mode == "iptables":
            return kubeproxy.iptables_rules(main, ENDPOINTS[fam], fam, L.CLUSTER_CIDR[fam],
                                            SERVICES)
        return kubeproxy.nftables_rules(
            [main] + [(L.cluster_ip(MORE + i, fam), 80, 0) for i in range(SERVICES)],
            ENDPOINTS[fam], fam, SERVICE_CIDRS[fam])

    def put_other(self):
        if self.has_ipvs:
            put = kubeproxy.ipvs if self.mode == "ipvs" else kuberouter.service_proxy
            put(self.lab, (MORE, MORE + SERVICES - 1, NUMBER), NODE_PORT, ENDPOINTS, ("tcp", "udp"))
            return
        for fam in (4, 6):
            if self.mode == "iptables":
                self.restore(fam, self.rules[fam])
            else:
                self.lab.node.run("nft", "-f", "-", input=self.rules[fam], timeout=300)

    def targets(self):
        """Of clients in pods and on the node, and of clients outside."""
        first, last = MORE, MORE + SERVICES - 1
        pods = ["tcp:" + L.endpoint(L.cluster_ip(n, fam), 80) for n in (NUMBER, first, last)
                for fam in (4, 6)]
        pods += ["udp:" + L.endpoint(L.cluster_ip(NUMBER, fam), 80) for fam in (4, 6)]
        outside = ["%s:%s" % (proto, L.endpoint(L.NODE[fam], NODE_PORT)) for fam in (4, 6)
                   for proto in ("tcp", "udp")]
        return pods, outside + pods

    def connect(self):
        """Clients in pods, outside and on the node itself."""
        pods, outside = self.targets()
        clients = {"pod2": pods, "pod3": pods, "node": pods, "client": outside}
        ports, rate = [], RATE
        if self.has_ipvs:
            # With the device of service addresses, this host's own connections come from it.
            del clients["node"]
            # IPVS continues a UDP flow whose port is used again, also to a deleted destination, and
            # cannot tell apart flows from one port to one pod through two addresses.
            ports, rate = ["--first-port", 10000], 50  # the ports last for minutes
        for role, targets in clients.items():
            to = [x for target in targets for x in ("--to", target)]
            self.clients[role] = self.lab.flow(role, "new", "--concurrency", CONCURRENCY,
                                               "--rate", rate, *ports, *to)

    def total(self):
        return sum(flow.stat()["ok"] for flow in self.clients.values())

    def good(self, when, in_flight=0):
        """Some hundred connections later, none failed, but `in_flight` of each client that were under
        way."""
        before = {role: flow.stat()["ok"] for role, flow in self.clients.items()}
        L.eventually(lambda: all(flow.stat()["ok"] >= before[role] + BETWEEN
                                 for role, flow in self.clients.items()), 20,
                     lambda: [flow.stat() for flow in self.clients.values()])
        stats = {role: flow.stat() for role, flow in self.clients.items()}
        failed = {role: (s["failed"], s["first_failure"]) for role, s in stats.items()
                  if s["failed"] > self.n_ended.get(role, 0) + in_flight}
        assert not failed, "%s: %s" % (when, failed)
        self.n_ended = {role: s["failed"] for role, s in stats.items()}

    def away(self, i):
        """The other proxy ends; vipd serves."""
        self.start()
        self.good("%d: vipd started" % i)
        r = self.cleanup(how=self.other)
        if r.returncode != 0 and self.has_ipvs:
            # Virtual services stay while IPVS keeps connections, minutes after their end.
            assert "virtual services that carry" in r.stdout, r.stdout + r.stderr
            L.eventually(lambda: self.established() == 0, 30, self.established)
            r = self.cleanup(how=self.other + ",force")
        assert r.returncode == 0, r.stdout + r.stderr
        self.good("%d: %s removed" % (i, self.other))

    def established(self):
        """TCP connections through the other proxy's virtual services that have not ended. Those of
        vipd are by mark, and have new connections all the time."""
        kind, n = "", 0
        for words in map(str.split, self.lab.node.run("ipvsadm", "-Ln").splitlines()):
            if words[0] != "->":
                kind = words[0]
            elif kind == "TCP" and words[-1].isdigit():
                n += int(words[-2])  # ActiveConn
        return n

    def back(self, i):
        """vipd ends; the other proxy serves."""
        self.put_other()
        self.good("%d: %s started" % (i, self.other))
        self.vipd.stop()
        with self.lab.node.entered():
            L.run(L.program("vipd"), "--cleanup")
        # In mode ipvs the cleanup ends established connections (doc/migration.md).
        self.good("%d: vipd removed" % i, CONCURRENCY if planes.PLANE == "ipvs" else 0)

    def close(self):
        for flow in self.clients.values():
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                flow.stop()
        super().close()


class Recorded(Takeover):
    """With the state of kube-proxy 1.36.2 itself, or of kube-router 1.2."""

    def objects(self):
        return self.recording().objects()

    def render(self, fam):
        return None

    def recording(self):
        return recorded_router if self.mode == "kube-router" else recorded

    def put_other(self):
        self.recording().put(self.lab, *([] if self.mode == "kube-router" else [self.mode]))

    def targets(self):
        return self.recording().TARGETS, self.recording().OUTSIDE


@pytest.mark.parametrize("mode, kind", [
    pytest.param(mode, Takeover, id=mode) for mode in ("nftables", "iptables", "ipvs", "kube-router")] + [
    pytest.param(mode, Recorded, id=mode + "-recorded") for mode in ("nftables", "iptables", "kube-router")])
def test_takeover(mode, kind):
    if mode != "nftables":
        wanted("iptables-nft-restore")
    with L.Lab() as lab:
        if mode in ("ipvs", "kube-router"):
            wanted("ipvsadm", "ipset")
            try:
                lab.node.run("ipvsadm", "-Sn")
                lab.node.run("ip", "link", "add", "other0", "type", "dummy")
            except RuntimeError as e:
                pytest.skip("the kernel lacks IPVS or dummy devices: %s" % e)
        n = kind(lab, mode)
        try:
            n.put_other()
            n.connect()
            n.good("%s alone" % n.other)
            for i in range(TIMES):
                n.away(i)
                n.back(i)
            print("%s, %s: %d takeovers there and back, %d connections, %d ended" % (
                mode, kind.__name__, TIMES, n.total(), sum(n.n_ended.values())))
        finally:
            n.close()
