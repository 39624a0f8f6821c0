# SPDX-License-Identifier: GPL-2.0-or-later
"""--cleanup=kube-router: what kube-router's service proxy left is removed while vipd serves; its network
policies, its routes and the state of other programs stay."""
import re
import subprocess

import pytest

import kubeproxy
import kuberouter
import lab as L
import recorded_router
from test_cleanup_kube_proxy import (ENDPOINTS, NODE_PORT, NUMBER, OTHER, STEADY, node, usable,
                                     wanted)

# Of the firewall and of other programs; the first chain has the name of a chain of the service
# proxy in another table.
FOREIGN = """*nat
:KUBE-ROUTER-SERVICES - [0:0]
:MINE - [0:0]
-A POSTROUTING -j MINE
-A MINE -s {clients} -j MASQUERADE
COMMIT
*filter
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
-A INPUT -j KUBE-ROUTER-INPUT
-A KUBE-ROUTER-INPUT -m mark --mark 0x20000/0x20000 -j ACCEPT
COMMIT
*mangle
:PREROUTING ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A FORWARD -d {dsr} -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400
-A POSTROUTING -d {dsr} -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
-A PREROUTING -d {dsr} -p tcp -m tcp --dport 81 -j MARK --set-xmark 0x77/0xffffffff
-A PREROUTING -d {net} -p tcp -m tcp --dport 80 -j MARK --set-xmark {mark}/0xffffffff
-A PREROUTING -p tcp -m tcp --dport 81 -j MARK --set-xmark {mark}/0xffffffff
-A PREROUTING -d {other} -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --set-mss 1400
COMMIT
"""


def put_routing(lab):
    """Direct server return, and rules and routes of others in the same tables."""
    for flag in ("-4", "-6"):
        for line in ("rule add pref 32764 fwmark %s table 78" % kuberouter.DSR_MARK, "rule add pref 32765 table 79",
                     "rule add pref 300 fwmark 0x77 table 78", "rule add pref 301 table 79",
                     "route add local default dev lo table 78",
                     "route add unreachable %s table 79" % ("198.18.7.0/24" if flag == "-4"
                                                            else "2001:db8:7::/64")):
            lab.node.run("ip", flag, *line.split())


def routing(lab):
    out = ""
    for flag in ("-4", "-6"):
        out += lab.node.run("ip", flag, "rule")
        for table in ("78", "79"):
            try:
                out += lab.node.run("ip", flag, "route", "show", "table", table)
            except RuntimeError:  # an empty table does not exist
                pass
    return out


@pytest.mark.parametrize("xtables", ["nft", "legacy"])
def test_rules_and_routing(xtables):
    usable(xtables)
    with node(xtables) as n:
        for fam in (4, 6):
            n.restore(fam, FOREIGN.format(
                clients=L.OUTER_CIDR[fam], dsr=L.external_ip(20, fam), net=L.EXTERNAL_CIDR[fam],
                other=L.external_ip(21, fam), mark=kuberouter.DSR_MARK))
        n.put_kube_proxy()
        n.start()  # the ipvs plane has routing rules of its own
        before, routes = n.save(), routing(n.lab)
        for fam in (4, 6):
            n.restore(fam, kuberouter.rules(fam, L.cluster_ip(NUMBER, fam), ENDPOINTS[fam][0]))
            n.restore(fam, kuberouter.dsr_rules(fam))
        put_routing(n.lab)
        n.steady()
        if xtables == "nft":
            with n.lab.node.entered():
                seen = subprocess.run([L.program("vipctl"), "--socket", n.vipd.socket, "doctor"],
                                      capture_output=True, text=True, timeout=L.LIMIT, check=False)
            assert "chain KUBE-ROUTER-SERVICES in table ip6 filter" in seen.stdout
        r = n.cleanup(how="kube-router")
        assert r.returncode == 0, r.stdout + r.stderr
        backend = {"nft": "nf_tables", "legacy": "legacy"}[xtables]
        assert r.stdout == ("iptables (%s): removed 4 chains, 6 rules in them, 4 jumps to them, 8 other rules\n"
                            "routing: removed 4 rules and 2 routes\n" % backend), r.stdout
        assert n.save() == before, "kube-proxy's chains and those of others stay"
        added = set(routing(n.lab).splitlines()) - set(routes.splitlines())
        assert sorted(re.sub(r"\s+", " ", line).split(" metric")[0].strip() for line in added) == [
            "300: from all fwmark 0x77 lookup 78", "301: from all lookup 79",
            "unreachable 198.18.7.0/24", "unreachable 2001:db8:7::/64 dev lo"], added
        n.check_steady()
        n.serves(OTHER)
        again = n.cleanup(how="kube-router")
        assert (again.returncode, again.stdout) == (0, "no state of kube-router found\n")


def test_refusals():
    """kube-router must not run, unless without its service proxy; and vipd must serve."""
    script = ("import time; open('/proc/self/comm', 'w').write('kube-router'); "
              "print('ready', flush=True); time.sleep(600)")

    with node() as n:
        for fam in (4, 6):
            n.restore(fam, kuberouter.rules(fam, L.cluster_ip(NUMBER, fam), ENDPOINTS[fam][0]))
        before = n.save()

        def run(*args):
            p = n.lab.node.popen("/usr/bin/python3", "-c", script, *args, stdout=subprocess.PIPE)
            p.stdout.readline()
            return p

        def refused(why):
            r = n.cleanup(how="kube-router")
            assert r.returncode == 1 and r.stdout == "", r.stdout
            assert "no state of kube-router is removed (--cleanup=kube-router,force" in r.stderr
            assert why in r.stderr, r.stderr
            assert n.save() == before

        refused("no vipd runs in this network namespace")
        n.start()
        procs = [run()]
        try:
            refused("kube-router runs (process %d, kube-router) and would restore its state"
                    % procs[0].pid)
            procs.append(run("--run-router=true", "--run-service-proxy=false"))
            procs[0].kill()
            procs[0].wait()
            r = n.cleanup(how="kube-router")
            assert r.returncode == 0 and "removed 4 chains" in r.stdout, r.stdout + r.stderr
        finally:
            for p in procs:
                p.kill()
                p.wait()
                p.stdout.close()


def test_sets():
    """Sets of the service proxy go, those of the firewall and the router stay."""
    wanted("ipset")
    with node() as n:
        try:
            for name in ("kube-router-local-ips", "inet6:kube-router-local-ips",
                         "kube-router-svip", "kube-router-svip-prt", "kube-router-pod-subnets",
                         "kube-router-svip-mine", "KUBE-DST-3YNVZWWGX3UQQ4VQ"):
                n.lab.node.run("ipset", "create", name, "hash:ip", "family",
                               "inet6" if name.startswith("inet6:") else "inet", "timeout", "0")
        except RuntimeError as e:
            pytest.skip("the kernel lacks ipset: %s" % e)
        n.start()
        r = n.cleanup(how="kube-router")
        assert (r.returncode, r.stdout) == (0, "ipset: removed 4 sets\n"), r.stdout + r.stderr
        assert set(n.lab.node.run("ipset", "list", "-n").split()) == {
            "kube-router-pod-subnets", "kube-router-svip-mine", "KUBE-DST-3YNVZWWGX3UQQ4VQ"}


def chains_and_rules(n):
    """Without base chains, which iptables-nft creates with their first rule and keeps."""
    return [x for x in n.save().splitlines() if re.match(r"-A |:\S+ - ", x)]


def test_everything():
    """With IPVS: connections of the old proxy are waited for, then nothing is left of it."""
    wanted("ipvsadm", "ipset", "iptables-nft-restore")
    with node() as n:
        run = n.lab.node.run
        try:
            run("ipvsadm", "-Sn")
            run("ip", "link", "add", "other0", "type", "dummy")
        except RuntimeError as e:
            pytest.skip("the kernel lacks IPVS or dummy devices: %s" % e)
        kubeproxy.virtual_services(n.lab, [("192.0.2.77:443", ENDPOINTS[4], "tcp")])
        foreign = run("ipvsadm", "-Sn")
        before = chains_and_rules(n)
        run("ipset", "create", "kube-router-pod-subnets", "hash:net")  # of its router
        kuberouter.service_proxy(n.lab, (OTHER, NUMBER), NODE_PORT, ENDPOINTS)
        to = [x for fam in (4, 6) for x in ("--to", "tcp:" + L.endpoint(
            L.cluster_ip(NUMBER, fam), 80))]
        n.flows.append(n.lab.flow("client", *STEADY, *to))
        L.eventually(lambda: all(f["answers"] for f in n.flows[0].stat()["flows"]), 5)
        n.start()
        r = n.cleanup(how="kube-router")
        assert r.returncode == 1, r.stdout + r.stderr
        assert re.search(r"^ipvs: removed 4 virtual services$", r.stdout, re.M), r.stdout
        assert re.search(r"^ipvs: left: 2 virtual services that carry \d+ connections: .*"
                         r"\(--cleanup=kube-router,force ends them\)$", r.stdout, re.M), r.stdout
        n.check_steady()
        n.flows.pop().stop()
        r = n.cleanup(how="kube-router,force")
        assert r.returncode == 0, r.stdout + r.stderr
        for line in ("ipvs: removed 2 virtual services",
                     "link: removed kube-dummy-if and its 4 addresses",
                     "iptables (nf_tables): removed 4 chains, 8 rules in them, 4 jumps to them, "
                     "2 other rules", "ipset: removed 6 sets"):
            assert line + "\n" in r.stdout, r.stdout
        ours = re.compile(r"^-. -f 15099\d{5} .*\n", re.M)  # marks 0x5a......, of the ipvs plane
        assert ours.sub("", run("ipvsadm", "-Sn")) == foreign
        assert chains_and_rules(n) == before
        assert run("ipset", "list", "-n").split() == ["kube-router-pod-subnets"]
        assert "kube-dummy-if" not in run("ip", "link") and "other0" in run("ip", "link")
        n.serves()
        n.serves(OTHER)
        assert n.cleanup(how="kube-router").stdout == "no state of kube-router found\n"


def kernel_state(n):
    """What the recording adds to, without vipd's part."""
    run = n.lab.node.run
    ours = re.compile(r"^.*(?: -f 15099\d{5} |23130|0x5a).*\n", re.M)  # marks, table and rule of the ipvs plane
    # The kernel sets a link's operational state later (linkwatch).
    links = re.sub(r"NO-CARRIER,|,LOWER_UP| state \w+", "", run("ip", "-o", "link"))
    out = {"iptables": chains_and_rules(n), "ipsets": run("ipset", "save"), "links": links}
    out["ipvs"] = ours.sub("", run("ipvsadm", "-Sn"))
    for fam in ("-4", "-6"):
        out["rules" + fam] = ours.sub("", run("ip", fam, "rule"))
        out["routes" + fam] = ours.sub("", run("ip", fam, "route", "show", "table", "all"))
    return out


@pytest.mark.parametrize("xtables", ["nft", "legacy"])
def test_recorded(xtables):
    """What kube-router 1.2 left: its connections are waited for; then all of it is removed, and nothing else."""
    usable(xtables)
    wanted("ipvsadm", "ipset")
    with node(xtables) as n:
        run = n.lab.node.run
        n.vipd.write(recorded_router.objects())
        try:
            run("ipvsadm", "-Sn")
            run("ip", "-batch", "-", input="link add other0 type dummy\nlink add kube-bridge type bridge\n"
                "link set kube-bridge up\n")
        except RuntimeError as e:
            pytest.skip("the kernel lacks IPVS or dummy devices: %s" % e)
        # Of others: a virtual service by mark, its rules, a set; one with the number of a node port at another
        # address, and one of the node's address, which kube-router 1 had in its set.
        mark = recorded_router.marks()[0]
        kubeproxy.virtual_services(n.lab, [(at, ENDPOINTS[4], "tcp") for at in (
            "192.0.2.77:443", "192.0.2.77:%d" % recorded_router.NODE_PORT, L.NODE[4] + ":8443")])
        run("ipvsadm", "-A", "-f", "119", "-s", "rr")
        run("ipset", "create", "kube-router-pod-subnets", "hash:net")
        run("ip", "rule", "add", "pref", "300", "fwmark", "0x77", "table", "78")
        run("ip", "route", "add", "198.51.100.77", "dev", "br0", "table", "79")
        n.restore(4, FOREIGN.format(clients=L.OUTER_CIDR[4], dsr=recorded_router.DSR, net=L.EXTERNAL_CIDR[4],
                                    other=L.external_ip(21, 4), mark=mark))
        if xtables == "nft":
            recorded_router.put_policies(n.lab)
        before = kernel_state(n)
        recorded_router.put(n.lab, xtables)
        run("ipset", "add", "kube-router-ipvs-services", L.NODE[4] + ",tcp:8443", "timeout", "0")
        n.steady(["tcp:10.96.0.10:80", "udp:10.96.0.15:53"])
        n.start()
        r = n.cleanup(how="kube-router")
        assert r.returncode == 1 and "ipvs: left: 2 virtual services that carry" in r.stdout, r.stdout + r.stderr
        n.check_steady()
        for flow in n.flows:
            flow.stop()
        n.flows.clear()
        r = n.cleanup(how="kube-router,force")
        assert r.returncode == 0, r.stdout + r.stderr
        after = kernel_state(n)
        for name, was in before.items():
            assert after[name] == was, (name, r.stdout)
        for role in ("client", "pod3", "node"):
            for target in recorded_router.OUTSIDE + ["%s:%s:80" % (p, recorded_router.DSR) for p in ("tcp", "udp")]:
                proto, ip, number = target.split(":")
                assert L.probe(n.lab.ns[role], ip, int(number), proto).ok, (role, target)
        assert n.cleanup(how="kube-router").stdout == "no state of kube-router found\n"
