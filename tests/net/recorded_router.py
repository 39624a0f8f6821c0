# SPDX-License-Identifier: GPL-2.0-or-later
"""The state that kube-router 1.2 left on a node of the lab, as recorded (tests/data/kube-router-1.2), and
its services."""
import os
import re

import lab as L
from objects import entry, port, service, slice_, slice_port

DATA = os.path.join(L.ROOT, "tests", "data", "kube-router-1.2")
POD1, POD2, REMOTE1, REMOTE2 = L.POD["pod1"][4], L.POD["pod2"][4], L.remote(1, 4), L.remote(2, 4)
NODE_PORT, LOCAL_NODE_PORT = 30101, 30102
EXTERNAL, LOAD_BALANCER, DSR = L.external_ip(9, 4), L.lb_ip(9, 4), L.external_ip(20, 4)
# From each place in the cluster; `outside` also from clients outside.
TARGETS = ["tcp:10.96.0.%d:80" % i for i in (10, 12, 13, 14, 16, 18, 19, 21, 22)] + [
    "udp:10.96.0.15:53", "tcp:%s:80" % EXTERNAL, "tcp:%s:80" % LOAD_BALANCER]
OUTSIDE = ["tcp:%s:%d" % (L.NODE[4], p) for p in (NODE_PORT, LOCAL_NODE_PORT)] + TARGETS


def objects():
    """Services and slices of one family, which is all that kube-router 1.2 serves."""
    out = []
    for i, name, at, more in (
            (10, "web", (POD1, POD2, REMOTE1, REMOTE2), {}),
            (12, "np", (POD1, REMOTE1), {"node_port": NODE_PORT}),
            (13, "local", (POD1, REMOTE1), {"node_port": LOCAL_NODE_PORT, "etp": "Local"}),
            (14, "sticky", (POD1, REMOTE1), {"affinity": 10800}),
            (15, "dns", (POD1, POD2), {}),
            (16, "ext", (POD2, REMOTE2), {"external_ips": (EXTERNAL,)}),
            (17, "empty", (), {}),
            (18, "lb", (POD1, REMOTE1), {"lb": (LOAD_BALANCER,), "node_port": 30103}),
            (19, "hairpin", (POD1, REMOTE1), {"annotations": {"kube-router.io/service.hairpin": ""}}),
            (20, "dsr", (POD1, REMOTE1), {"external_ips": (DSR,), "annotations": {
                "kube-router.io/service.dsr": "tunnel"}}),
            (21, "maglev", (POD1, REMOTE1), {"annotations": {
                "kube-router.io/service.scheduler": "mh",
                "kube-router.io/service.schedflags": "flag-1,flag-2"}}),
            (22, "least", (POD1, REMOTE1), {"annotations": {"kube-router.io/service.scheduler": "lc"}})):
        protos = {"dns": ("UDP",), "dsr": ("TCP", "UDP")}.get(name, ("TCP",))
        number, to = (53, 5353) if name == "dns" else (80, 8080)
        node_port = more.pop("node_port", 0)
        out.append(service(name, L.cluster_ip(i, 4), [port(number, p, p.lower(), node_port) for p in protos], **more))
        out.append(slice_(name, [entry(a, L.NODE_NAME if a in (POD1, POD2) else "n2") for a in at],
                          [slice_port(to, p, p.lower()) for p in protos], fam=4))
    return out


def text(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return f.read()


def addresses():
    """Of kube-dummy-if."""
    return re.findall(r"^ *inet (\S+)/32 ", text("addr.txt"), re.M)


def marks():
    """Of the services with direct server return."""
    return re.findall(r"^32764:.* fwmark (\S+) ", text("rule.txt"), re.M)


def put(lab, xtables="nft"):
    """Add the recorded state of the service proxy to the node."""
    run = lab.node.run
    if "kube-bridge" not in run("ip", "link"):  # of its router
        run("ip", "-batch", "-", input="link add kube-bridge type bridge\nlink set kube-bridge up\n")
    run("ip", "-batch", "-", input="\n".join(
        ["link add kube-dummy-if type dummy", "link set kube-dummy-if up"] +
        ["addr add %s/32 scope link dev kube-dummy-if" % a for a in addresses()] +
        ["rule add pref %s %s" % tuple(line.split(":")) for line in text("rule.txt").splitlines()] +
        ["route replace " + re.sub("^2 ", "local ", line) for line in text("route.txt").splitlines()]) + "\n")
    lab.node.sysctl(net__ipv4__vs__conntrack=1)
    run("ipset", "restore", input=text("ipset.save"))
    run("ipvsadm", "-R", input=text("ipvs.save"))
    run("iptables-%s-restore" % xtables, "--noflush", input=text("iptables.save"))


def put_policies(lab):
    """Add the chains and the set of a network policy, to iptables-nft."""
    lab.node.run("ipset", "restore", input="".join(re.findall("^.* KUBE-DST-.*\n", text("policies.ipset"), re.M)))
    lab.node.run("iptables-nft-restore", "--noflush", input="*filter\n%sCOMMIT\n" % "".join(re.findall(
        r"^.*KUBE-(?:NWPLCY|POD-FW|ROUTER-(?:INPUT|FORWARD|OUTPUT)).*\n", text("policies.save"), re.M)))
