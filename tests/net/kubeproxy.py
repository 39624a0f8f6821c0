# SPDX-License-Identifier: GPL-2.0-or-later
"""State that kube-proxy leaves on a node: rules of its three modes for one service, with its names
(doc/behaviour.md, IPT-02 to IPT-04, NFT-01, IPVS-08 to IPVS-32); and chains of the kubelet, an
operator and a CNI plugin."""
import lab as L

HASH = "ABCDEFGHIJKLMNOP"  # 16 characters of base 32, as in KUBE-SVC-...
MARK = "0x4000/0x4000"

# The kubelet's, and an operator's.
OTHERS = """*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
:KUBE-SVC-of-mine - [0:0]
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A PREROUTING -m comment --comment "not ours -j KUBE-SERVICES" -j KUBE-SVC-of-mine
COMMIT
*filter
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-FIREWALL - [0:0]
:MINE - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A FORWARD -j MINE
-A MINE -p tcp -m tcp --dport 9 -j DROP
-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
COMMIT
"""


def endpoint_rules(i, to, fam, port):
    sep = "KUBE-SEP-" + HASH[:-1] + "AB"[i]
    return ["-A KUBE-SVC-%s %s -j %s" % (
                HASH, "" if i else "-m statistic --mode random --probability 0.5", sep),
            "-A %s -s %s -j KUBE-MARK-MASQ" % (sep, to),
            "-A %s -p tcp -m tcp -j DNAT --to-destination %s" % (sep, L.endpoint(to, port)),
            "-A %s -p udp -m udp -j DNAT --to-destination %s" % (sep, L.endpoint(to, port))]


def iptables_rules(service, endpoints, fam, cluster_cidr, extra=0):
    """Of mode iptables. `extra`: number of additional services without clients."""
    ip, port, node_port = service
    svc, ext = "KUBE-SVC-" + HASH, "KUBE-EXT-" + HASH
    chains = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ",
              "KUBE-PROXY-CANARY", svc, ext, "KUBE-FW-" + HASH, "KUBE-SVL-" + HASH,
              "KUBE-XLB-" + HASH] + \
        ["KUBE-SEP-" + HASH[:-1] + c for c in "AB"]
    more = ["KUBE-SVC-%s" % number(i) for i in range(extra)]
    nat = [":%s - [0:0]" % c for c in chains + more] + [
        '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
        "-A KUBE-MARK-MASQ -j MARK --set-xmark " + MARK,
        "-A KUBE-POSTROUTING -m mark ! --mark %s -j RETURN" % MARK,
        "-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0",
        "-A KUBE-POSTROUTING -j MASQUERADE --random-fully",
        "-A KUBE-SERVICES -d %s -p tcp -m tcp --dport %d -j %s" % (ip, port, svc),
        "-A KUBE-SERVICES -d %s -p udp -m udp --dport %d -j %s" % (ip, port, svc),
        "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS",
        "-A KUBE-NODEPORTS -p tcp -m tcp --dport %d -j %s" % (node_port, ext),
        "-A KUBE-NODEPORTS -p udp -m udp --dport %d -j %s" % (node_port, ext),
        "-A %s -j KUBE-MARK-MASQ" % ext, "-A %s -j %s" % (ext, svc),
        "-A %s ! -s %s -j KUBE-MARK-MASQ" % (svc, cluster_cidr)]
    for i, to in enumerate(endpoints):
        nat += endpoint_rules(i, to, fam, 8080)
    for i, c in enumerate(more):
        nat.append("-A KUBE-SERVICES -d %s -p tcp -m tcp --dport 80 -j %s" % (
            L.cluster_ip(2000 + i, fam), c))
        nat.append("-A %s -j KUBE-SEP-%sA" % (c, HASH[:-1]))
    new = "-m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\""
    filter_ = [":%s - [0:0]" % c for c in (
        "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-FORWARD",
        "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY")] + [
        "-I FORWARD %s -j KUBE-SERVICES" % new, "-I OUTPUT %s -j KUBE-SERVICES" % new,
        "-I INPUT %s -j KUBE-EXTERNAL-SERVICES" % new, "-I INPUT %s -j KUBE-PROXY-FIREWALL" % new,
        "-I INPUT -j KUBE-NODEPORTS", "-I FORWARD -j KUBE-FORWARD",
        "-A KUBE-NODEPORTS -p tcp -m tcp --dport 31999 -j ACCEPT",
        "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP",
        "-A KUBE-FORWARD -m mark --mark %s -j ACCEPT" % MARK,
        "-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        "-A KUBE-SERVICES -d %s -p tcp -m tcp --dport 99 -j REJECT" % ip]
    return "\n".join(["*mangle", ":KUBE-PROXY-CANARY - [0:0]", "COMMIT", "*nat"] + nat +
                     ["COMMIT", "*filter"] + filter_ + ["COMMIT", ""])


def number(i):
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return "".join(digits[(i >> 5 * k) & 31] for k in range(16))


def nftables_rules(services, endpoints, fam, service_cidr=None):
    """Of mode nftables, for services of (cluster IP, port, node port or 0). `service_cidr`: drop
    what is sent to its other addresses, as kube-proxy does when the API server names it. All services
    have one map of endpoints: nf_tables compares the name of each new map with all others, so 10,000
    maps take a minute, in which other transactions and, on a small machine, packets wait."""
    v = "ip" if fam == 4 else "ip6"
    to = ", ".join("%d : %s . 8080" % (i, e) for i, e in enumerate(endpoints))
    dnat = " ".join("meta l4proto %s dnat %s to numgen random mod %d map @endpoints;" % (
        proto, v, len(endpoints)) for proto in ("tcp", "udp"))
    ips, ports, chains = [], [], []
    for ip, port, node_port in services:
        name = "%s-%d" % (ip.replace(":", "_"), port)
        ips += ["%s . %s . %d : goto service-%s" % (ip, proto, port, name)
                for proto in ("tcp", "udp")]
        chains.append("chain service-%s { %s }" % (name, dnat))
        if node_port:
            ports += ["%s . %d : goto external-%s" % (proto, node_port, name)
                      for proto in ("tcp", "udp")]
            chains.append("chain external-%s { meta mark set mark or 0x4000; goto service-%s; }" % (
                name, name))
    hairpins = ", ".join("%s . %s . %s . 8080" % (e, e, proto) for e in endpoints
                         for proto in ("tcp", "udp"))
    return """table %(v)s kube-proxy {
        comment "rules for kube-proxy"
        set hairpin-connections { type %(addr)s . %(addr)s . inet_proto . inet_service;
            elements = { %(hairpins)s }; }
        map endpoints { typeof numgen random mod 2 : %(v)s daddr . th dport; elements = { %(to)s }; }
        set cluster-ips { type %(addr)s; elements = { %(cluster_ips)s }; }
        set nodeport-ips { type %(addr)s; elements = { %(node)s }; }
        map service-ips { type %(addr)s . inet_proto . inet_service : verdict;
            elements = { %(ips)s }; }
        map service-nodeports { type inet_proto . inet_service : verdict; %(ports)s }
        %(chains)s
        chain services {
            %(v)s daddr @cluster-ips %(v)s saddr != %(pods)s meta mark set mark or 0x4000;
            %(v)s daddr . meta l4proto . th dport vmap @service-ips;
            %(v)s daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports; }
        chain cluster-ips-check { %(v)s daddr @cluster-ips reject; %(unknown)s }
        chain filter-forward { type filter hook forward priority filter;
            ct state new jump cluster-ips-check; }
        chain filter-output { type filter hook output priority filter;
            ct state new jump cluster-ips-check; }
        chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
        chain nat-output { type nat hook output priority -100; jump services; }
        chain masquerading {
            mark and 0x4000 != 0 meta mark set mark xor 0x4000 masquerade fully-random;
            ct status dnat %(v)s saddr . %(v)s daddr . meta l4proto . th dport @hairpin-connections \
                masquerade fully-random; }
        chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
    }
    """ % {"v": v, "addr": "ipv%d_addr" % fam, "to": to, "hairpins": hairpins, "node": L.NODE[fam],
           "cluster_ips": ", ".join(sorted({ip for ip, _, _ in services})), "ips": ", ".join(ips),
           "ports": "elements = { %s };" % ", ".join(ports) if ports else "",
           "chains": "\n".join(chains), "pods": L.CLUSTER_CIDR[fam],
           "unknown": "%s daddr %s drop;" % (v, service_cidr) if service_cidr else ""}


def ipvs(lab, numbers, node_port, endpoints, protos=("tcp",)):
    """Of mode ipvs, for services of these numbers; the last one has the node port."""
    run = lab.node.run
    run("ip", "link", "add", "kube-ipvs0", "type", "dummy")
    lab.node.sysctl(net__ipv4__vs__conntrack=1)
    addrs, sets, services = [], [], []
    for fam in (4, 6):
        six = "6-" if fam == 6 else ""
        sets.append("create KUBE-%sCLUSTER-IP hash:ip,port family %s" % (
            six, "inet6" if fam == 6 else "inet"))
        for proto in protos:
            ports = "KUBE-%sNODE-PORT-%s" % (six, proto.upper())
            sets += ["create %s bitmap:port range 0-65535" % ports,
                     "add %s %d" % (ports, node_port)]
        for n in numbers:
            ip = L.cluster_ip(n, fam)
            addrs.append("addr add %s/%d dev kube-ipvs0" % (ip, 32 if fam == 4 else 128))
            for proto in protos:
                sets.append("add KUBE-%sCLUSTER-IP %s,%s:80" % (six, ip, proto))
                services.append((L.endpoint(ip, 80), endpoints[fam], proto))
        services += [(L.endpoint(L.NODE[fam], node_port), endpoints[fam], proto)
                     for proto in protos]
    run("ipset", "restore", input="\n".join(sets) + "\n")
    run("ip", "-batch", "-", input="\n".join(addrs) + "\n")
    virtual_services(lab, services)
    for tool, six in (("iptables-nft-restore", ""), ("ip6tables-nft-restore", "6-")):
        run(tool, "--noflush", input="\n".join([
            "*nat"] + [":%s - [0:0]" % c for c in (
                "KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-NODE-PORT",
                "KUBE-LOAD-BALANCER")] + [
            "-A PREROUTING -j KUBE-SERVICES", "-A OUTPUT -j KUBE-SERVICES",
            "-A POSTROUTING -j KUBE-POSTROUTING",
            "-A KUBE-SERVICES -m set --match-set KUBE-%sCLUSTER-IP dst,dst -j KUBE-MARK-MASQ" % six,
            "-A KUBE-MARK-MASQ -j MARK --set-xmark " + MARK,
            "-A KUBE-POSTROUTING -m mark ! --mark %s -j RETURN" % MARK,
            "-A KUBE-POSTROUTING -j MASQUERADE", "COMMIT", "*filter",
            ":KUBE-IPVS-FILTER - [0:0]", "-A INPUT -j KUBE-IPVS-FILTER", "COMMIT", ""]))


def virtual_services(lab, services):
    """Add these of (address and port, endpoints, protocol)."""
    lines = []
    for at, endpoints, proto in services:
        kind = "-u" if proto == "udp" else "-t"
        lines += ["-A %s %s -s rr" % (kind, at)] + [
            "-a %s %s -r %s -m" % (kind, at, L.endpoint(e, 8080)) for e in endpoints]
    lab.node.run("ipvsadm", "-R", input="\n".join(lines) + "\n")
