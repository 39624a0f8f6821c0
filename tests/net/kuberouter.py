# SPDX-License-Identifier: GPL-2.0-or-later
"""State that kube-router's service proxy leaves on a node, with the names and rules of the source of kube-router 2.9.
recorded_router.py has what version 1.2 left."""
import kubeproxy
import lab as L

RULES = """*nat
:KUBE-ROUTER-HAIRPIN - [0:0]
-A POSTROUTING %s-j KUBE-ROUTER-HAIRPIN
-A KUBE-ROUTER-HAIRPIN -s {pod}/{bits} -d {pod}/{bits} %s-j SNAT --to-source {vip}
%sCOMMIT
*filter
:KUBE-ROUTER-SERVICES - [0:0]
-A INPUT -m comment --comment "handle traffic to IPVS service IPs in custom chain" %s-j KUBE-ROUTER-SERVICES
-A KUBE-ROUTER-SERVICES -p {icmp} -j ACCEPT
%s-A KUBE-ROUTER-SERVICES %s-j REJECT
COMMIT
"""
# Direct server return: TCPMSS of version 2.2 and later, and of earlier ones from 1.3 on.
DSR_MARK = "0x2a3b"
DSR = """*mangle
-A PREROUTING -d {dsr} -p tcp -m tcp --dport 80 -j MARK --set-xmark {mark}/0xffffffff
-A OUTPUT -d {dsr} -p tcp -m tcp --dport 80 -j MARK --set-xmark {mark}/0xffffffff
-A PREROUTING -s {dsr} -i kube-bridge -p tcp -m tcp --sport 80 --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400
-A POSTROUTING -s {dsr} -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400
COMMIT
"""
IPVS = ("-m ipvs --vdir ORIGINAL ",
        "-m ipvs --vaddr {vip} --vport 80 ",
        "-A POSTROUTING ! -s {pods} ! -d {pods} -m ipvs --vdir ORIGINAL --vmethod MASQ -m comment --comment \"\" "
        "-j SNAT --to-source {node} --random-fully\n",
        "-m set --match-set {six}kube-router-svip dst ",
        "-A KUBE-ROUTER-SERVICES -m set --match-set {six}kube-router-svip-prt dst,dst -j ACCEPT\n",
        "-m set ! --match-set {six}kube-router-local-ips dst ")


def rules(fam, vip, pod, has_ipvs=False):
    """`has_ipvs`: with what needs sets and the match of IPVS in the kernel."""
    return (RULES % (IPVS if has_ipvs else ("", "", "", "", "", "-d {net} "))).format(
        pod=pod, bits=32 if fam == 4 else 128, vip=vip, icmp="icmp" if fam == 4 else "ipv6-icmp",
        net="10.99.0.0/16" if fam == 4 else "fd00:99::/64", node=L.NODE[fam],
        pods=L.POD_CIDR[fam], six="inet6:" if fam == 6 else "")


def dsr_rules(fam):
    return DSR.format(dsr=L.external_ip(20, fam), mark=DSR_MARK)


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
