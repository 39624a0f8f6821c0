# SPDX-License-Identifier: GPL-2.0-or-later
"""API servers of bench/e2e: the test server, and a real one (BENCH_API)."""
import contextlib
import http.client
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

from apiserver.client import Server
from apiserver.cluster import cluster_ip, pod_ip
from lab import NODE as NODE_IP

NAMESPACE = "vipd-bench-%d-" % os.getpid()   # of a real server; each proxy has one of its own: deletion takes time
NODE = "node-0000"          # of api.Vipd
_numbers = itertools.count()
LAST = 255 << 12            # number of the changed service, the highest
FIRST = "10.190.0.1"        # its endpoint at the start
START_S = 120


def service(ns, name, ip):
    spec = {"ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]}
    if ip:
        spec["clusterIP"] = ip
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": ns, "name": name},
            "spec": spec}


def slice_(ns, name, ips):
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": ns, "name": name + "-1",
                         "labels": {"kubernetes.io/service-name": name}},
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
            "endpoints": [{"addresses": [ip], "conditions": {"ready": True}} for ip in ips]}


class TestApi:
    """The test server in the node's namespace."""

    def __init__(self, lab, services, endpoints):
        self.server = Server(netns=lab.node.name)
        self.server.load(services=services, endpoints=endpoints)
        self.n = services
        self.ns = "zzz"
        self.ips = [cluster_ip(LAST, "4"), cluster_ip(0, "4")]
        self.server.put(service(self.ns, "last", self.ips[0]), slice_(self.ns, "last", [FIRST]))
        self.config = self.server.kubeconfig("token")

    def served(self):
        """Time at which the last object of the lists was written."""
        reply = self.server.call("wait", timeout=START_S,
                                 synced={"services": 1, "endpointslices": 1})
        return self.server.call("flush")["monotonic"] if reply["met"] else None

    def wait_closed(self):
        self.server.call("wait", timeout=START_S, connections=0)

    def slices(self, count):
        for i in range(min(count, self.n)):
            yield self.server.get("endpointslices", "ns-%03d/service-%05d-v40000" % (i % 10, i))

    def change(self, objects):
        """Store objects; return the time of the last byte of their events."""
        self.server.put_many(objects=objects, at_once=True)
        return self.server.call("flush")["monotonic"]

    def change_one(self, obj):
        """change() without a separate request for the time: the watch is idle."""
        return self.server.call("put", object=obj)["monotonic"]

    def close(self):
        self.server.close()


class RealApi:
    """The server of KUBECONFIG. Requests pass `kubectl proxy`, which authenticates; the proxies under
    test reach it from the node's namespace through a relay in this process. The time of an event
    is that of the server's response, which may follow the event."""

    def __init__(self, lab, services, endpoints, kubeconfig):
        kubectl = ["kubectl", "--kubeconfig", kubeconfig]
        self.proxy = subprocess.Popen(kubectl + ["proxy", "--port=0"], stdout=subprocess.PIPE,
                                      text=True)
        port = re.search(r":(\d+)\s*$", self.proxy.stdout.readline())
        if not port:
            sys.exit("bench/e2e: kubectl proxy did not start")
        self.http = http.client.HTTPConnection("127.0.0.1", int(port.group(1)))
        self.ns, self.n = NAMESPACE + str(next(_numbers)), services
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.ns}})
        # kube-proxy waits for the addresses of its Node at the start.
        self.has_made_node = 201 == self.request("POST", "/api/v1/nodes", {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
            "status": {"addresses": [{"type": "InternalIP", "address": NODE_IP[4]}]}})[0]
        names = ["s%05d" % i for i in range(services)] + ["zzz-last"]
        for i, name in enumerate(names):
            made = self.put(service(self.ns, name, None))
            first = i * endpoints
            self.put(slice_(self.ns, name, [FIRST] if i == services else [
                pod_ip(n, "4") for n in range(first, first + endpoints)]))
            if i in (0, services):
                self.ips = [made["spec"]["clusterIP"], *(self.ips if i else ())]
        view = json.loads(subprocess.run(kubectl + ["config", "view", "--raw", "--minify",
                                                    "--flatten", "-o", "json"], check=True,
                                         stdout=subprocess.PIPE).stdout)
        cluster = view["clusters"][0]["cluster"]
        host, port = re.fullmatch(r"https://\[?(.*?)\]?(?::(\d+))?/?", cluster["server"]).groups()
        self.listener = lab.node.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        threading.Thread(target=self._relay, args=((host, int(port or 443)),), daemon=True).start()
        cluster["server"] = "https://127.0.0.1:%d" % self.listener.getsockname()[1]
        cluster.setdefault("tls-server-name", host)
        self.config = "/run/vipd-bench-%d.kubeconfig" % os.getpid()
        with open(os.open(self.config, os.O_WRONLY | os.O_CREAT, 0o600), "w",
                  encoding="utf-8") as f:
            json.dump(view, f)

    def _relay(self, server):
        def copy(a, b):
            with contextlib.suppress(OSError):
                while data := a.recv(1 << 16):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return      # closed
            try:
                upstream = socket.create_connection(server)
            except OSError:
                client.close()
                continue
            for s in (client, upstream):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    def request(self, method, path, obj=None):
        self.http.request(method, path, json.dumps(obj) if obj else None,
                          {"Content-Type": "application/json"})
        answer = self.http.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def put(self, obj):
        """Create or replace an object; return the server's version."""
        meta = obj["metadata"]
        path = ("/api/v1" if obj["apiVersion"] == "v1" else "/apis/" + obj["apiVersion"]) + \
            ("/namespaces/" + meta["namespace"] if "namespace" in meta else "") + "/" + \
            obj["kind"].lower() + "s"
        status, made = self.request("POST", path, obj)
        if status == 409 and obj["kind"] == "EndpointSlice":
            status, made = self.request("PUT", path + "/" + meta["name"], obj)
        elif status == 409:
            status, made = self.request("GET", path + "/" + meta["name"])
        if status not in (200, 201):
            sys.exit("bench/e2e: %s %s: %s" % (obj["kind"], meta["name"], made.get("message")))
        return made

    def served(self):
        return None

    def wait_closed(self):
        pass

    def slices(self, count):
        for i in range(min(count, self.n)):
            path = "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices/s%05d-1" % (self.ns, i)
            obj = self.request("GET", path)[1]
            obj["metadata"].pop("resourceVersion")
            yield obj

    def change(self, objects):
        for obj in objects:
            self.put(obj)
        return time.monotonic()

    def change_one(self, obj):
        return self.change([obj])

    def close(self):
        for path in ("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices",
                     "/api/v1/namespaces/%s/services", "/api/v1/namespaces/%s"):
            self.request("DELETE", path % self.ns)
        if self.has_made_node:
            self.request("DELETE", "/api/v1/nodes/" + NODE)
        self.proxy.terminate()
        self.proxy.wait()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.config)
