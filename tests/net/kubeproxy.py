# SPDX-License-Identifier: GPL-2.0-or-later
"""What kube-proxy leaves on a node: rules of its three modes for one service, by the names it uses
(doc/behaviour.md, IPT-02 to IPT-04, NFT-01, IPVS-08 to IPVS-32). And what is not its own: chains of
the kubelet, of an operator, of a CNI plugin."""
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
    """Of mode iptables. `extra`: so many more services, of which nobody asks."""
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


def nftables_rules(service, endpoints, fam):
    """Of mode nftables."""
    ip, port, _ = service
    v = "ip" if fam == 4 else "ip6"
    to = ", ".join("%d : %s . 8080" % (i, e) for i, e in enumerate(endpoints))
    return """table %(v)s kube-proxy {
        comment "rules for kube-proxy"
        map service-ips { type ipv%(fam)d_addr . inet_proto . inet_service : verdict;
            elements = { %(ip)s . tcp . %(port)d : goto service-X,
                         %(ip)s . udp . %(port)d : goto service-X }; }
        chain mark-for-masquerade { meta mark set mark or 0x4000; }
        chain service-X { %(v)s saddr != %(pods)s jump mark-for-masquerade;
            meta l4proto { tcp, udp } dnat %(v)s to numgen random mod 2 map { %(to)s }; }
        chain services { %(v)s daddr . meta l4proto . th dport vmap @service-ips; }
        chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
        chain nat-output { type nat hook output priority -100; jump services; }
        chain masquerading { mark and 0x4000 == 0 return; mark set mark xor 0x4000;
            masquerade fully-random; }
        chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
    }
    """ % {"v": v, "fam": fam, "ip": ip, "port": port, "pods": L.CLUSTER_CIDR[fam], "to": to}


def ipvs(lab, numbers, node_port, endpoints):
    """Of mode ipvs, for services of these numbers; the last one has the node port."""
    run = lab.node.run
    run("ip", "link", "add", "kube-ipvs0", "type", "dummy")
    lab.node.sysctl(net__ipv4__vs__conntrack=1)
    for fam in (4, 6):
        six = "6-" if fam == 6 else ""
        tool = "ip6tables-nft" if fam == 6 else "iptables-nft"
        family = "inet6" if fam == 6 else "inet"
        run("ipset", "create", "KUBE-%sCLUSTER-IP" % six, "hash:ip,port", "family", family)
        run("ipset", "create", "KUBE-%sNODE-PORT-TCP" % six, "bitmap:port", "range", "0-65535")
        run("ipset", "add", "KUBE-%sNODE-PORT-TCP" % six, str(node_port))
        for n in numbers:
            ip = L.cluster_ip(n, fam)
            run("ip", "addr", "add", "%s/%d" % (ip, 32 if fam == 4 else 128), "dev", "kube-ipvs0")
            run("ipset", "add", "KUBE-%sCLUSTER-IP" % six, "%s,tcp:80" % ip)
            virtual_service(lab, L.endpoint(ip, 80), endpoints[fam])
        virtual_service(lab, L.endpoint(L.NODE[fam], node_port), endpoints[fam])
        run(tool + "-restore", "--noflush", input="\n".join([
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


def virtual_service(lab, at, endpoints):
    lab.node.run("ipvsadm", "-A", "-t", at, "-s", "rr")
    for e in endpoints:
        lab.node.run("ipvsadm", "-a", "-t", at, "-r", L.endpoint(e, 8080), "-m")
