# SPDX-License-Identifier: GPL-2.0-or-later
"""Random but reproducible: a stream of changes to the objects of a cluster.

Stream(seed) owns the objects; step() changes a few of them. Changes cover each feature of the data
plane, also in unlikely combinations, except for states that the API server forbids and
doc/behaviour.md leaves undefined.
"""
import random

import resolver
from objects import entry, node, port, service, service_cidr, slice_, slice_port

NODE = "n1"
NAMESPACES = ["default", "kube-system", "shop"]
ZONES = ["a", "b", ""]
PROTOS = ["TCP", "TCP", "UDP", "SCTP"]


class Stream:
    """The objects of a small cluster, and a way to change them at random."""

    def __init__(self, seed, node_addresses, max_services=40):
        self.rng = random.Random(seed)
        self.node_addresses = node_addresses
        self.max_services = max_services
        self.version = 1000
        self.minute = 0
        self.objects = {}
        self.put(node(NODE, node_addresses, zone="a", pod_cidrs=["10.244.1.0/24"]))
        self.next_ip = 10

    # ---- bookkeeping ----

    @staticmethod
    def key(obj):
        meta = obj["metadata"]
        return obj["kind"], meta.get("namespace", ""), meta["name"]

    def put(self, obj):
        self.version += 1
        if obj["kind"] == "EndpointSlice":
            obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[self.key(obj)] = obj

    def delete(self, key):
        self.objects.pop(key, None)

    def list(self):
        return list(self.objects.values())

    def services(self):
        return [o for k, o in self.objects.items() if k[0] == "Service"]

    # ---- random parts ----

    def chance(self, percent):
        return self.rng.random() * 100 < percent

    def address(self, fam, local):
        i = self.rng.randint(1, 30)
        if fam == 4:
            return "10.244.%d.%d" % (1 if local else 2, i)
        return "fd00:10:244:%d::%x" % (1 if local else 2, i)

    def random_entry(self, fam):
        rng = self.rng
        local = self.chance(40)
        node_name = NODE if local else "n2"
        if self.chance(5):
            node_name = None
        state = rng.choice([(True, None, None)] * 6 + [
            (None, None, None), (False, True, True), (False, False, True), (False, True, False),
            (False, False, False), (True, True, True), (True, False, False)])
        zones = rng.sample(["a", "b", "c"], rng.randint(1, 2)) if self.hinted else ()
        nodes = rng.sample([NODE, "n2", "n3"], rng.randint(1, 2)) if self.node_hinted else ()
        if self.chance(5):
            zones = nodes = ()
        e = entry(self.address(fam, local), node_name, *state, zones=zones, nodes=nodes)
        if self.chance(60):
            e["targetRef"] = {"kind": "Pod", "name": "pod-%d" % rng.randint(1, 40)}
        return e

    def entries(self, fam, n):
        """Addresses differ in a slice, except for a running duplicate of a terminating entry."""
        self.hinted = self.chance(25)
        self.node_hinted = self.chance(10)
        out = {}
        for _ in range(n):
            e = self.random_entry(fam)
            out.setdefault(e["addresses"][0], e)
        out = list(out.values())
        if out and self.chance(5):
            twin = self.rng.choice(out)
            if twin["conditions"].get("terminating"):
                out.append(entry(twin["addresses"][0], NODE))
        return out

    def random_ports(self):
        rng = self.rng
        out = []
        used = set()
        # Only a single port may have no name.
        names = [rng.choice(["", "http"])] if self.chance(60) else ["http", "dns"]
        for name in names:
            p = port(rng.choice([53, 80, 80, 443, 8080, 30002]), rng.choice(PROTOS), name)
            if (p["port"], p["protocol"]) in used:
                continue
            used.add((p["port"], p["protocol"]))
            out.append(p)
        return out

    def new_service(self):
        rng = self.rng
        self.next_ip += 1
        self.minute += 1
        i = self.next_ip
        ips = ["10.96.%d.%d" % (i >> 8, i & 255), "fd00:10:96::%x" % i]
        if self.chance(20):
            ips.reverse()
        if self.chance(30):
            ips = ips[:1]
        kind = rng.choice(["ClusterIP", "ClusterIP", "NodePort", "LoadBalancer"])
        ports = self.random_ports()
        if kind != "ClusterIP":
            for n, p in enumerate(ports):
                if self.chance(80):
                    p["nodePort"] = 30000 + 2 * i + n
        svc = service("s%d" % i, ips, ports, ns=rng.choice(NAMESPACES), kind=kind,
                      created="2026-01-%02dT%02d:%02d:00Z" % (
                          rng.randint(1, 28), self.minute // 60 % 24, self.minute % 60))
        self.alter_service(svc)
        self.put(svc)
        return svc

    def alter_service(self, svc):
        """Change all optional settings of the service."""
        rng = self.rng
        spec = svc["spec"]
        for field in ("externalIPs", "internalTrafficPolicy", "externalTrafficPolicy",
                      "sessionAffinity", "sessionAffinityConfig", "loadBalancerSourceRanges"):
            spec.pop(field, None)
        svc.pop("status", None)
        svc["metadata"].pop("annotations", None)
        if self.chance(20):
            name = svc["metadata"]["name"]
            svc["metadata"]["annotations"] = {"vipd.io/weights": rng.choice([
                "%s-1=5,%s-0=10, *=95" % (name, name), "pod-1*=3,pod-2*=0", "%s-*=7" % name,
                "10.244.1.3=0,10.244.2.4=2,fd00:10:244:1::5=9", "*=0", "*=50", "*=100,pod-1*=1",
                "pod-1*=4,*=2", "*=101", "10.244.1.*=0"])}
        if self.chance(20):
            svc["metadata"].setdefault("annotations", {})["vipd.io/forwarding"] = rng.choice(
                ["route", "tunnel", "tunnel", "masquerade", "direct"])
        if self.chance(10):
            svc["metadata"].setdefault("annotations", {})["vipd.io/scheduler"] = rng.choice(
                ["rr", "wrr", "lc", "sed", "fastest", "mh,rr-port"])
        if self.chance(25):
            spec["internalTrafficPolicy"] = rng.choice(["Local", "Cluster"])
        if self.chance(40):
            spec["externalTrafficPolicy"] = rng.choice(["Local", "Cluster"])
        if self.chance(20):
            spec["sessionAffinity"] = "ClientIP"
            if self.chance(70):
                spec["sessionAffinityConfig"] = {
                    "clientIP": {"timeoutSeconds": rng.choice([5, 60, 10800])}}
        if self.chance(30):
            # Few addresses for many services, and addresses of other kinds, to cause conflicts.
            spec["externalIPs"] = rng.sample(
                ["198.51.100.%d" % i for i in range(1, 6)] +
                ["2001:db8:100::%x" % i for i in range(1, 6)] + ["010.010.000.007"] +
                ["10.96.0.%d" % i for i in range(1, 4)] + ["192.0.2.1", "2001:db8:200::1"] +
                ["192.168.0.2", "fd00:192::2"], rng.randint(1, 3))
        if spec["type"] == "LoadBalancer" and self.chance(85):
            ingress = []
            # As of "minikube tunnel" (the cluster IP) and of k3s (the node's address).
            for ip in rng.sample(["192.0.2.%d" % i for i in range(1, 8)] +
                                 ["2001:db8:200::%x" % i for i in range(1, 8)] +
                                 spec["clusterIPs"] + self.node_addresses, rng.randint(1, 3)):
                mode = rng.choice([None, None, "VIP", "Proxy"])
                ingress.append({"ip": ip, "ipMode": mode} if mode else {"ip": ip})
            if self.chance(10):
                ingress.append({"hostname": "lb.example.org"})
            svc["status"] = {"loadBalancer": {"ingress": ingress}}
            if self.chance(40):
                spec["loadBalancerSourceRanges"] = rng.sample(
                    ["203.0.113.0/24", "203.0.113.128/25", "10.0.0.0/8", "10.1.0.0/16",
                     "192.168.0.0/24", "2001:db8:1::/64", "2001:db8::/32", "0.0.0.0/0",
                     "fd00:192::/64", "not-a-net", " 172.16.0.0/12 "], rng.randint(1, 4))
                if self.chance(10):
                    spec["loadBalancerSourceRanges"] = ["not-a-net"]

    def new_slice(self, svc, number):
        rng = self.rng
        ns, name = svc["metadata"]["namespace"], svc["metadata"]["name"]
        fam = 6 if number % 2 else 4
        n = rng.choice([0, 1, 2, 3, 3, 5, 8, 20])
        ports = [slice_port(rng.choice([8080, 8081, 5353]), p["protocol"], p.get("name", ""))
                 for p in svc["spec"]["ports"]]
        if self.chance(5):
            ports = ports[:1]
        return slice_(name, self.entries(fam, n), ports, ns=ns, name="%s-%d" % (name, number),
                      fam=fam)

    # ---- steps ----

    def step(self):
        """Make a change; returns its description."""
        names, weights = zip(*self.CHANGES)
        while True:
            change = self.rng.choices(names, weights)[0]
            what = getattr(self, "change_" + change)()
            if what:
                return "%s %s" % (change, what)

    def hashed(self):
        return [s for s in self.services() if resolver.hashing_of(s)]

    def change_hash(self):
        """One Service at a time, for some steps: a set of endpoints has 16,384 slots, and for the
        reference each unit of weight ranks all of them."""
        svc = self.some_service()
        if svc is None or self.hashed():
            return None
        notes = svc["metadata"].setdefault("annotations", {})
        notes["vipd.io/scheduler"] = self.rng.choice(["mh", "mh,mh-port", "mh,mh-fallback", "sh"])
        if "vipd.io/weights" in notes:
            notes["vipd.io/weights"] = self.rng.choice(["pod-1*=3,pod-2*=0", "*=2,pod-1*=4", "*=0"])
        self.put(svc)
        return "%s %s" % (svc["metadata"]["name"], notes)

    def change_unhash(self):
        for svc in self.hashed():
            del svc["metadata"]["annotations"]["vipd.io/scheduler"]
            self.put(svc)
            return svc["metadata"]["name"]
        return None

    def change_direct(self):
        """Forwarding that is in force: a load balancer's address, and endpoints with the Service's
        ports."""
        svc = self.some_service()
        if svc is None or svc["spec"]["type"] != "LoadBalancer":
            return None
        meta, ip = svc["metadata"], 100 + self.next_ip % 100
        meta["annotations"] = {"vipd.io/forwarding": self.rng.choice(["route", "tunnel", "tunnel,gue"])}
        svc["status"] = {"loadBalancer": {"ingress": [{"ip": "192.0.2.%d" % ip},
                                                      {"ip": "2001:db8:200::%x" % ip}]}}
        self.put(svc)
        for fam in (4, 6):
            self.put(slice_(meta["name"], [entry(self.address(fam, local), NODE if local else "n2")
                                           for local in (True, False)], [], ns=meta["namespace"],
                            name="%s-direct-%d" % (meta["name"], fam), fam=fam))
        for obj in self.slices():
            labels = obj["metadata"]["labels"]
            if obj["metadata"]["namespace"] == meta["namespace"] and \
                    labels["kubernetes.io/service-name"] == meta["name"]:
                obj["ports"] = [slice_port(p["port"], p["protocol"], p.get("name", ""))
                                for p in svc["spec"]["ports"]]
                self.put(obj)
        return meta["name"]

    CHANGES = [("add_service", 12), ("hash", 5), ("direct", 5), ("unhash", 40), ("del_service", 6),
               ("alter_service", 12), ("toggle_label", 2),
               ("set_slice", 40), ("swap_endpoint", 20), ("del_slice", 8), ("zone", 3),
               ("flip_type", 3), ("many", 3), ("big", 2), ("service_cidr", 1),
               ("move_slice", 2), ("ports", 5)]

    def some_service(self):
        services = self.services()
        return self.rng.choice(services) if services else None

    def change_add_service(self):
        if len(self.services()) >= self.max_services:
            return None
        svc = self.new_service()
        for number in range(self.rng.randint(0, 4)):
            self.put(self.new_slice(svc, number))
        return svc["metadata"]["name"]

    def change_del_service(self):
        svc = self.some_service()
        if svc is None:
            return None
        self.delete(self.key(svc))
        if self.chance(70):
            for k, o in list(self.objects.items()):
                if k[0] == "EndpointSlice" and k[1] == svc["metadata"]["namespace"] and \
                        k[2].startswith(svc["metadata"]["name"] + "-"):
                    self.delete(k)
        return svc["metadata"]["name"]

    def change_alter_service(self):
        svc = self.some_service()
        if svc is None:
            return None
        self.alter_service(svc)
        self.put(svc)
        return svc["metadata"]["name"]

    def change_toggle_label(self):
        svc = self.some_service()
        if svc is None:
            return None
        label = "service.kubernetes.io/service-proxy-name"
        held = svc["metadata"].setdefault("labels", {})
        if label in held:
            del held[label]
        else:
            held[label] = "other"
        self.put(svc)
        return svc["metadata"]["name"]

    def change_flip_type(self):
        svc = self.some_service()
        if svc is None:
            return None
        spec = svc["spec"]
        if spec["type"] == "ExternalName":
            spec["type"] = "ClusterIP"
        else:
            spec["type"] = "ExternalName"
            for p in spec["ports"]:
                p.pop("nodePort", None)
        self.put(svc)
        return "%s %s" % (svc["metadata"]["name"], spec["type"])

    def change_ports(self):
        svc = self.some_service()
        if svc is None:
            return None
        svc["spec"]["ports"] = self.random_ports()
        self.put(svc)
        return svc["metadata"]["name"]

    def change_set_slice(self):
        svc = self.some_service()
        if svc is None:
            return None
        obj = self.new_slice(svc, self.rng.randint(0, 3))
        self.put(obj)
        return obj["metadata"]["name"]

    def slices(self):
        return [o for k, o in self.objects.items() if k[0] == "EndpointSlice"]

    def change_swap_endpoint(self):
        slices = [s for s in self.slices() if s["endpoints"]]
        if not slices:
            return None
        obj = self.rng.choice(slices)
        fam = 4 if obj["addressType"] == "IPv4" else 6
        at = self.rng.randrange(len(obj["endpoints"]))
        held = {e["addresses"][0] for e in obj["endpoints"]}
        self.hinted = self.node_hinted = False
        new = self.random_entry(fam)
        if new["addresses"][0] in held:
            return None
        obj["endpoints"][at] = new
        self.put(obj)
        return obj["metadata"]["name"]

    def change_del_slice(self):
        slices = self.slices()
        if not slices:
            return None
        obj = self.rng.choice(slices)
        self.delete(self.key(obj))
        return obj["metadata"]["name"]

    def change_move_slice(self):
        """IN-36: the slice goes to another service of its namespace."""
        slices = self.slices()
        svc = self.some_service()
        if not slices or svc is None:
            return None
        obj = self.rng.choice(slices)
        if obj["metadata"]["namespace"] != svc["metadata"]["namespace"]:
            return None
        obj["metadata"]["labels"]["kubernetes.io/service-name"] = svc["metadata"]["name"]
        self.put(obj)
        return "%s to %s" % (obj["metadata"]["name"], svc["metadata"]["name"])

    def change_zone(self):
        zone = self.rng.choice(ZONES)
        self.put(node(NODE, self.node_addresses, zone=zone, pod_cidrs=["10.244.1.0/24"]))
        return repr(zone)

    def change_big(self):
        """More endpoints than the largest exact chain."""
        svc = self.some_service()
        if svc is None:
            return None
        ns, name = svc["metadata"]["namespace"], svc["metadata"]["name"]
        n = self.rng.choice([64, 65, 72, 73, 100, 130])
        ports = [slice_port(8080, p["protocol"], p.get("name", "")) for p in svc["spec"]["ports"]]
        self.put(slice_(name, [entry("10.244.3.%d" % (i + 1), "n3") for i in range(n)], ports,
                        ns=ns, name="%s-big" % name))
        return "%s %d" % (name, n)

    def change_service_cidr(self):
        name = self.rng.choice(["one", "two"])
        if ("ServiceCIDR", "", name) in self.objects and self.chance(40):
            self.delete(("ServiceCIDR", "", name))
            return "-" + name
        self.put(service_cidr(name, self.rng.sample(
            ["10.96.0.0/16", "10.97.0.0/16", "10.96.0.0/20", "fd00:10:96::/112"],
            self.rng.randint(1, 2))))
        return name

    def change_many(self):
        """Several changes at once."""
        return "; ".join(self.step() for _ in range(self.rng.randint(2, 8)))
