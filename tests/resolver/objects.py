# SPDX-License-Identifier: GPL-2.0-or-later
"""Short constructors of Kubernetes objects (Python dicts), for all tests."""

FAMILIES = {4: "IPv4", 6: "IPv6"}


def fam_of(addr):
    return 6 if ":" in addr else 4


def port(number, proto="TCP", name="", node_port=0):
    p = {"port": number, "protocol": proto}
    if name:
        p["name"] = name
    if node_port:
        p["nodePort"] = node_port
    return p


def service(name, cluster_ips, ports, ns="default", kind=None, external_ips=(), lb=(), ranges=(),
            itp=None, etp=None, affinity=None, created=None, labels=None, annotations=None,
            health_port=0):
    """`cluster_ips`: of one or two families. `lb`: addresses or (address, ipMode)."""
    if isinstance(cluster_ips, str):
        cluster_ips = [cluster_ips]
    if isinstance(ports, (int, dict)):
        ports = [ports]
    ports = [port(p) if isinstance(p, int) else p for p in ports]
    if kind is None:
        kind = "LoadBalancer" if lb else \
            "NodePort" if any("nodePort" in p for p in ports) else "ClusterIP"
    spec = {"type": kind, "clusterIP": cluster_ips[0], "clusterIPs": list(cluster_ips),
            "ipFamilies": [FAMILIES[fam_of(a)] for a in cluster_ips], "ports": ports}
    if external_ips:
        spec["externalIPs"] = list(external_ips)
    if ranges:
        spec["loadBalancerSourceRanges"] = list(ranges)
    if itp:
        spec["internalTrafficPolicy"] = itp
    if etp:
        spec["externalTrafficPolicy"] = etp
    if affinity:
        spec["sessionAffinity"] = "ClientIP"
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": affinity}}
    if health_port:
        spec["healthCheckNodePort"] = health_port
    obj = {"apiVersion": "v1", "kind": "Service",
           "metadata": {"namespace": ns, "name": name}, "spec": spec}
    if created:
        obj["metadata"]["creationTimestamp"] = created
    if labels:
        obj["metadata"]["labels"] = dict(labels)
    if annotations:
        obj["metadata"]["annotations"] = dict(annotations)
    if lb:
        obj["status"] = {"loadBalancer": {"ingress": [
            {"ip": i} if isinstance(i, str) else {"ip": i[0], "ipMode": i[1]} for i in lb]}}
    return obj


def entry(addr, node=None, ready=True, serving=None, terminating=None, zones=(), nodes=(),
          zone=None):
    """An endpoint of a slice. `zones`, `nodes`: hints; `zone`: where it is."""
    e = {"addresses": [addr], "conditions": {}}
    for name, value in (("ready", ready), ("serving", serving), ("terminating", terminating)):
        if value is not None:
            e["conditions"][name] = value
    if node:
        e["nodeName"] = node
    if zone:
        e["zone"] = zone
    hints = {}
    if zones:
        hints["forZones"] = [{"name": z} for z in zones]
    if nodes:
        hints["forNodes"] = [{"name": n} for n in nodes]
    if hints:
        e["hints"] = hints
    return e


def slice_port(number, proto="TCP", name=""):
    return {"name": name, "protocol": proto, "port": number}


def slice_(service_name, endpoints, ports, ns="default", name=None, fam=None, version=None,
           labels=None):
    """An EndpointSlice. `endpoints`: entries or addresses."""
    endpoints = [entry(e) if isinstance(e, str) else e for e in endpoints]
    if isinstance(ports, (int, dict)):
        ports = [ports]
    ports = [slice_port(p) if isinstance(p, int) else p for p in ports]
    if fam is None:
        fam = fam_of(endpoints[0]["addresses"][0]) if endpoints else 4
    obj = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
           "metadata": {"namespace": ns, "name": name or "%s-%d" % (service_name, fam),
                        "labels": {"kubernetes.io/service-name": service_name}},
           "addressType": FAMILIES[fam], "ports": ports, "endpoints": endpoints}
    if version:
        obj["metadata"]["resourceVersion"] = str(version)
    if labels:
        obj["metadata"]["labels"].update(labels)
    return obj


def node(name, addresses=(), zone=None, pod_cidrs=()):
    obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}},
           "spec": {}, "status": {"addresses": [{"type": "InternalIP", "address": a}
                                                for a in addresses]}}
    if zone is not None:
        obj["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone
    if pod_cidrs:
        obj["spec"] = {"podCIDR": pod_cidrs[0], "podCIDRs": list(pod_cidrs)}
    return obj


def service_cidr(name, cidrs):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
            "metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}
