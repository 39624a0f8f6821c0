# SPDX-License-Identifier: GPL-2.0-or-later
"""State that kube-router's service proxy leaves on a node, with the names of kube-router 2."""
import kubeproxy
import lab as L

RULES = """*nat
:KUBE-ROUTER-HAIRPIN - [0:0]
-A POSTROUTING %s-j KUBE-ROUTER-HAIRPIN
-A KUBE-ROUTER-HAIRPIN -s {pod}/{bits} -d {pod}/{bits} -j SNAT --to-source {vip}
%sCOMMIT
*filter
:KUBE-ROUTER-SERVICES - [0:0]
-A INPUT %s-j KUBE-ROUTER-SERVICES
%s-A KUBE-ROUTER-SERVICES -p {icmp} -j ACCEPT
-A KUBE-ROUTER-SERVICES %s-j REJECT
COMMIT
"""
IPVS = ("-m ipvs --ipvs --vdir ORIGINAL ",
        "-A POSTROUTING -m ipvs --ipvs --vdir ORIGINAL --vmethod MASQ -j SNAT --to-source {node}\n",
        "-m set --match-set {six}kube-router-svip dst ",
        "-A KUBE-ROUTER-SERVICES -m set --match-set {six}kube-router-svip-prt dst,dst -j ACCEPT\n",
        "-m set ! --match-set {six}kube-router-local-ips dst ")


def rules(fam, vip, pod, has_ipvs=False):
    """`has_ipvs`: with what needs sets and the match of IPVS in the kernel."""
    return (RULES % (IPVS if has_ipvs else ("", "", "", "", "-d {net} "))).format(
        pod=pod, bits=32 if fam == 4 else 128, vip=vip, icmp="icmp" if fam == 4 else "ipv6-icmp",
        net="10.99.0.0/16" if fam == 4 else "fd00:99::/64", node=L.NODE[fam],
        six="inet6:" if fam == 6 else "")


def service_proxy(lab, numbers, node_port, endpoints, protos=("tcp",)):
    """For services of these numbers; the last one has the node port."""
    run = lab.node.run
    run("ip", "link", "add", "kube-dummy-if", "type", "dummy")
    lab.node.sysctl(net__ipv4__vs__conntrack=1)
    addrs, sets, services = [], [], []
    for fam in (4, 6):
        six, family = ("inet6:", "inet6") if fam == 6 else ("", "inet")
        sets += ["create %skube-router-%s family %s timeout 0" % (six, name, family)
                 for name in ("local-ips hash:ip", "svip hash:ip", "svip-prt hash:ip,port")]
        sets.append("add %skube-router-local-ips %s" % (six, L.NODE[fam]))
        for n in numbers:
            ip = L.cluster_ip(n, fam)
            addrs.append("addr add %s/%d dev kube-dummy-if" % (ip, 32 if fam == 4 else 128))
            sets.append("add %skube-router-svip %s" % (six, ip))
        for proto in protos:
            at = [(L.cluster_ip(n, fam), 80) for n in numbers] + [(L.NODE[fam], node_port)]
            # kube-router lists every virtual service in the set, also of excluded prefixes.
            sets += ["add %skube-router-svip-prt %s,%s:%d" % (six, ip, proto, port)
                     for ip, port in at]
            services += [(L.endpoint(ip, port), endpoints[fam], proto) for ip, port in at]
    sets.append("add kube-router-svip-prt 192.0.2.77,tcp:443")
    run("ipset", "restore", input="\n".join(sets) + "\n")
    run("ip", "-batch", "-", input="\n".join(addrs) + "\n")
    kubeproxy.virtual_services(lab, services)
    for fam, tool in ((4, "iptables-nft-restore"), (6, "ip6tables-nft-restore")):
        run(tool, "--noflush", input=rules(fam, L.cluster_ip(numbers[-1], fam), endpoints[fam][0],
                                           has_ipvs=True))
