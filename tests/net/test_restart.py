# SPDX-License-Identifier: GPL-2.0-or-later
"""Restarts: nothing changed writes nothing; what changed meanwhile is applied; kill -9 at any
moment under load loses no connection."""
import json
import os
import random
import re
import time

import pytest

import daemon
import lab as L
import planes
from objects import entry, port, service, slice_, slice_port
from stream import Stream


def everything(seed=5, steps=120):
    """A good mix of all features, without the stream's own Node object."""
    s = Stream(seed, [L.NODE[4], L.NODE[6]])
    for _ in range(25):
        s.change_add_service()
    for _ in range(steps):
        s.step()
    return [o for o in s.list() if o["kind"] != "Node"]


def to(fam, number, proto="tcp"):
    return "%s:%s" % (proto, L.endpoint(L.cluster_ip(number, fam), 80))


def unused_chains_go(vipd):
    """An adoption removes the affinity chains of sizes that services no longer have: one transaction
    a family, and two more create the guard then. No service is touched."""
    if planes.PLANE == "ipvs":
        return
    before = vipd.writes()
    vipd.kill()
    vipd.start()
    assert vipd.status()["sync"]["writes"] == 0
    assert vipd.writes() <= before + 4


@pytest.mark.parametrize("how", ("kill", "stop"))
def test_nothing_changed_nothing_written(lab, vipd, how):
    """The generation id counts every commit in the namespace: it must not change."""
    vipd.apply(everything(), timeout=10)
    unused_chains_go(vipd)
    vipd.check_tables()
    genid = vipd.writes()
    getattr(vipd, how)()
    assert vipd.writes() == genid, "ending wrote something"
    vipd.check_tables()  # LIFE-21: everything stays
    vipd.start()
    time.sleep(0.5)
    assert vipd.writes() == genid, "a restart with nothing changed wrote something"
    # It is not asleep: the next change is taken.
    vipd.apply(everything()[:-1], timeout=10)
    vipd.check_tables()


def test_twenty_restarts_write_nothing(lab, vipd):
    """Repeated restarts never write."""
    vipd.apply(everything(6), timeout=10)
    unused_chains_go(vipd)
    genid = vipd.writes()
    for _ in range(20):
        vipd.kill()
        vipd.start()
        assert vipd.writes() == genid


@pytest.mark.parametrize("affinity", (None, 600))
def test_at_the_cluster_ip_of_another(lab, vipd, affinity):
    """A Service with policy Local at an address that is another Service's cluster IP: its pools are
    adopted, and its established connections stay."""
    vip = L.lb_ip(71, 4)
    pods = [entry(L.POD["pod1"][4], L.NODE_NAME), entry(L.POD["pod2"][4], L.NODE_NAME)]
    vipd.apply([service("first", vip, port(443)), slice_("first", [L.remote(1, 4)], 8080),
                service("second", L.cluster_ip(714, 4), port(80), lb=[vip], etp="Local",
                        affinity=affinity),
                slice_("second", pods + [entry(L.remote(1, 4), "n2")], slice_port(8080))])
    unused_chains_go(vipd)
    conn, r = L.connect(lab.client, vip, 80)
    assert r.ok, r
    for _ in range(3):
        writes = vipd.writes()
        vipd.kill()
        vipd.start()
        assert vipd.writes() == writes
        assert vipd.status()["sync"]["writes"] == 0
        assert conn.ask().ok
    conn.close()


def test_changes_while_down(lab, vipd):
    """All changes made meanwhile are programmed, and nothing else is written."""
    s = Stream(7, [L.NODE[4], L.NODE[6]])
    for _ in range(25):
        s.change_add_service()

    def objs():
        return [o for o in s.list() if o["kind"] != "Node"]
    vipd.apply(objs(), timeout=10)
    for _ in range(8 if L.SLOW == 1 else 3):
        vipd.kill()
        for _ in range(12):
            s.step()
        vipd.serial += 1
        vipd.write(objs())
        vipd.start()
        vipd.check_tables()


def test_endpoint_deleted_while_down(lab, vipd):
    """A service with an endpoint that was replaced while vipd was down leads to the new one."""
    ip = L.cluster_ip(700, 4)
    svc = service("down", ip, 80)
    vipd.apply([svc, slice_("down", [L.remote(1, 4)], 8080)])
    assert L.probe(lab.client, ip, 80).backend == L.remote(1, 4)
    vipd.kill()
    assert L.probe(lab.client, ip, 80).backend == L.remote(1, 4)
    vipd.write([svc, slice_("down", [L.remote(2, 4)], 8080)])
    vipd.start()
    assert L.probe(lab.client, ip, 80).backend == L.remote(2, 4)
    vipd.kill()
    vipd.write([])
    vipd.start()
    vipd.check_tables()


def test_kill_in_the_middle_of_syncs(lab, vipd):
    """Thirty times: permanent changes, kill -9 at a random moment, start. A stable service under
    load never fails; finally the kernel state is correct."""
    stable = [service("stable", [L.cluster_ip(701, 4), L.cluster_ip(701, 6)],
                      [port(80, "TCP", "t"), port(80, "UDP", "u")])] + \
        [slice_("stable", [entry(L.POD["pod1"][f], L.NODE_NAME), entry(L.remote(1, f), "n2"),
                           entry(L.remote(2, f), "n2")],
                [slice_port(8080, "TCP", "t"), slice_port(8080, "UDP", "u")]) for f in (4, 6)]
    swapped = service("swapped", [L.cluster_ip(702, 4), L.cluster_ip(702, 6)], 80)
    rng = random.Random(3)

    def churn(i):
        """A hundred services whose endpoints and kinds change, and the swapped one."""
        out = []
        for n in range(100):
            if rng.random() < 0.2:
                continue
            fam = 4 if n % 2 else 6
            out.append(service("c%d" % n, L.cluster_ip(800 + n, fam), 80,
                               affinity=rng.choice([None, None, 60]),
                               lb=rng.choice([(), (L.lb_ip(20 + n, fam),)]),
                               etp=rng.choice([None, "Local"])))
            out.append(slice_("c%d" % n, [L.remote(k, fam) for k in
                                          rng.sample(range(1, 30), rng.randint(1, 9))], 8080))
        out.append(swapped)
        for fam in (4, 6):
            out.append(slice_("swapped", [L.remote(k, fam) for k in
                                          rng.sample(range(3, 30), rng.randint(1, 9))], 8080))
        return out
    vipd.apply(stable + churn(0), timeout=10)
    load = lab.flow("client", "new", "--to", to(4, 701), "--to", to(6, 701),
                    "--to", to(4, 701, "udp"), "--to", to(4, 702), "--to", to(6, 702),
                    "--rate", "1000", "--concurrency", "64")
    for i in range(30):
        vipd.write(stable + churn(i))
        time.sleep(rng.random() * 0.03)
        vipd.kill()
        vipd.write(stable + churn(i))
        vipd.start(wait=False)
        # Sometimes killed again before it is even ready.
        time.sleep(rng.random() * 0.06)
        if i % 3:
            vipd.wait_ready()
    if not vipd.is_running():
        vipd.start(wait=False)
    vipd.wait_ready()
    vipd.apply(stable + churn(99), timeout=10)
    vipd.check_tables()
    result = load.stop()
    assert result["failed"] == 0, (result["first_failure"], result["per_second"])


def test_no_write_before_the_first_list(lab, vipd, tmp_path):
    """IN-19: a folder that cannot be read yet must not empty the kernel."""
    ip = L.cluster_ip(703, 4)
    vipd.apply([service("keep", ip, 80), slice_("keep", [L.remote(1, 4)], 8080)])
    unused_chains_go(vipd)
    genid = vipd.writes()
    vipd.kill()
    real = vipd.manifests.path
    moved = real + ".away"
    os.rename(real, moved)
    try:
        vipd.start(wait=False)
        time.sleep(0.4)
        assert vipd.writes() == genid
        assert L.probe(lab.client, ip, 80).ok
    finally:
        vipd.kill()
        os.rename(moved, real)
    vipd.start()
    assert vipd.writes() == genid


def test_folder_emptied_is_obeyed(lab, vipd):
    """Deleted manifests: the services are removed."""
    ip = L.cluster_ip(704, 4)
    vipd.apply([service("gone", ip, 80), slice_("gone", [L.remote(1, 4)], 8080)])
    vipd.apply([])
    assert not [k for k in vipd.tables(4).frontends if k[1] == ip]
    vipd.check_tables()


def test_empty_folder_at_start(lab, vipd):
    """IN-19: a restart with an empty folder, as while a mount is missing, removes nothing. With the
    first manifests the sweep follows."""
    ip = L.cluster_ip(708, 4)
    vipd.apply([service("gone", ip, 80), slice_("gone", [L.remote(1, 4)], 8080)])
    vipd.kill()
    real = vipd.manifests.path
    moved = real + ".away"
    os.rename(real, moved)
    os.mkdir(real)
    try:
        vipd.start()
        for _ in range(2):
            assert L.probe(lab.client, ip, 80).ok
            assert reason(vipd).startswith(
                "sweep pending: the folder has no manifests; orphaned frontends: ")
            assert vipd.status()["source"]["text"] == "manifests in %s (none)" % real
            vipd.kill()
            vipd.start()
        assert "sweep pending: the folder has no manifests; orphaned frontends: " in vipd.log(1000)
        vipd.manifests.path = moved
        vipd.write([])
    finally:
        vipd.manifests.path = real
        os.rmdir(real)
        os.rename(moved, real)
    L.eventually(lambda: reason(vipd) is None and vipd.is_settled(), 5, vipd.log)
    assert L.probe(lab.client, ip, 80).backend is None
    vipd.check_tables()


@pytest.mark.parametrize("mode", (None, "NodeCIDR"))
def test_ranges_at_start_without_node(vipd, mode):
    """IN-19: with an empty folder the ranges of pods and of services stay in the kernel, and the
    rules that use them."""
    before = dict(vipd.flags)
    vipd.apply([])
    real = vipd.manifests.path
    if mode is not None:
        vipd.stop()
        vipd.flags.update({"--cluster-cidr": None, "--detect-local-mode": mode})
        vipd.start()
    vipd.stop()
    os.rename(real, real + ".away")
    os.mkdir(real)
    try:
        writes = vipd.writes()
        vipd.flags.update({"--cluster-cidr": None, "--service-cluster-ip-range": None})
        vipd.start()
        assert vipd.status()["sync"]["writes"] == 0, vipd.log()
        assert planes.PLANE == "ipvs" or writes == vipd.writes()
        vipd.stop()
    finally:
        os.rmdir(real)
        os.rename(real + ".away", real)
        vipd.flags.clear()
        vipd.flags.update(before)
        vipd.start()


@pytest.mark.no_steady
def test_cleanup_leaves_nothing(lab, vipd):
    """--cleanup removes vipd's state only. On the ipvs plane: virtual services, rules and routes;
    sysctls are restored."""
    with L.Lab(servers=False) as other:
        other.node.run("nft", "table ip foreign { set s { type ipv4_addr; "
                       "elements = { 10.0.0.1 }; }; }")
        mine = daemon.Vipd(other)
        try:
            before = surroundings(other.node)
            mine.write(everything(8))
            mine.start()
            for fam in (4, 6):
                family, table = mine.nft_table(fam)
                assert "table %s %s" % (family, table) in other.node.run("nft", "list", "tables")
            changes = surroundings(other.node) ^ before
            assert bool(changes) == (planes.PLANE == "ipvs"), changes
            mine.stop()
            other.node.run(*mine.argv(), "--cleanup")
            assert other.node.run("nft", "list", "tables").split() == ["table", "ip", "foreign"]
            assert not surroundings(other.node) ^ before
            other.node.run(*mine.argv(), "--cleanup")  # nothing to do is no error
        finally:
            mine.close()


def surroundings(node):
    """Lines that the ipvs plane writes besides its table. The kernel adds its own IPv6 routes late, and
    so the carrier of a link."""
    commands = [("ip", family, *what) for family in ("-4", "-6")
                for what in (("rule",), ("route", "show", "table", "all"))]
    if planes.PLANE == "ipvs":
        commands += [("ipvsadm", "-Sn"), ("ipvsadm", "-Ln", "--timeout"),
                     ("sh", "-c", "cd /proc/sys/net/ipv4/vs && grep -H . *")]
    return {" ".join((*command[:2], line.replace(" linkdown", "")))
            for command in commands for line in node.run(*command).splitlines()
            if "proto kernel" not in line}


def test_two_at_once(lab, vipd):
    """A second daemon on a node ends or waits with an error; the first one's state is not
    touched."""
    ip = L.cluster_ip(705, 4)
    vipd.apply([service("one", ip, 80), slice_("one", [L.remote(1, 4)], 8080)])
    with open(vipd.log_path, "ab") as log:
        second = lab.node.popen(*vipd.argv(), stdout=log, stderr=log)
    try:
        assert second.wait(L.LIMIT) != 0
    finally:
        if second.poll() is None:
            second.kill()
        second.wait()
    assert L.probe(lab.client, ip, 80).ok
    assert vipd.status().get("state") == "running", "the first one lost its control socket"


def test_json_and_yaml(lab, vipd):
    """The same objects as one YAML file of many documents and as a List."""
    yaml = pytest.importorskip("yaml")
    ip = {4: L.cluster_ip(706, 4), 6: L.cluster_ip(707, 4)}
    vipd.apply([])
    one = [service("multi", ip[4], 80), slice_("multi", [L.remote(1, 4)], 8080)]
    two = [service("list", ip[6], 80), slice_("list", [L.remote(2, 4)], 8080)]
    vipd.manifests.put("many.yaml", "---\n".join(yaml.safe_dump(o) for o in one))
    vipd.manifests.put("list.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": two}))
    try:
        L.eventually(lambda: all(L.probe(lab.client, a, 80).ok for a in ip.values()), 3,
                     "manifests of other forms are not served")
    finally:
        vipd.manifests.empty("many.yaml")
        vipd.manifests.empty("list.json")
    vipd.apply([])
    vipd.check_tables()


BROKEN = {
    "unreadable": lambda path, text: os.unlink(path) or os.symlink("nowhere", path),
    "broken text": lambda path, text: write_text(path, text[:-2]),
    "bad object": lambda path, text: write_text(path, text.replace('"port": 80', '"port": 0.5')),
}


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def reason(vipd):
    """What status says of the sweep, or None."""
    found = [p["text"] for p in vipd.status()["problems"] if p["text"].startswith("sweep")]
    return found[0] if found else None


def is_orphaned(vipd, number, fam):
    """Does vipctl trace say that an orphaned frontend is in force?"""
    to = L.endpoint(L.cluster_ip(number, fam), 80)
    return "orphaned frontend of an earlier process" in vipd.ctl("trace", "host", to, check=False)


def test_no_node_ports_while_sweep_pending(vipd):
    """IN-19: nothing says that node ports are not served while those of before are in the kernel."""
    def of(name, number, cluster_ip):
        return [service(name, cluster_ip, [port(80, node_port=30000 + number)], kind="NodePort"),
                slice_(name, [L.remote(1, 4)], 8080)]
    vipd.apply(of("known", 720, L.cluster_ip(720, 4)) + of("lost", 721, L.cluster_ip(721, 4)))
    vipd.stop()
    vipd.write(of("known", 720, L.cluster_ip(720, 4)) + of("lost", 721, "10.96.5.256"))
    before = vipd.flags
    vipd.flags = {**before, "--nodeport-addresses": "10.255.0.0/16"}
    vipd.start()
    try:
        status = vipd.ctl("status", check=False)
        assert re.search("IPv4 node ports are not served: .*; orphaned frontends may serve them until the sweep", status)
        at = L.endpoint(L.cluster_ip(721, 4), 80)
        assert "orphaned frontend" in vipd.ctl("trace", "host", at, check=False).splitlines()[0]
    finally:
        vipd.stop()
        vipd.flags = before
        vipd.start()
    vipd.apply(of("known", 720, L.cluster_ip(720, 4)))
    assert "orphaned frontends may" not in vipd.ctl("status", check=False)


@pytest.mark.parametrize("kind", ("service", "endpointslice"))
@pytest.mark.parametrize("how", BROKEN)
def test_bad_file_at_start(lab, vipd, how, kind):
    """IN-19: a restart with an unusable file removes nothing: services without a known Service or
    slice are served as before, known objects are programmed, and changes continue. When the file
    is deleted or valid again, the sweep follows."""
    def of(name, number, backend, fam=4):
        return [service(name, L.cluster_ip(number, fam), 80),
                slice_(name, [L.remote(backend, fam)], 8080)]

    def backend(number, fam=4):
        return L.probe(lab.client, L.cluster_ip(number, fam), 80).backend
    lost, left = of("lost", 710, 1), of("left", 711, 2)
    gone6 = of("gone", 713, 4, 6)
    vipd.apply(lost + left + gone6)
    obj = next(o for o in lost if o["kind"].lower() == kind)
    name = vipd.manifests.file(obj)
    path = os.path.join(vipd.manifests.path, name)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    vipd.kill()
    BROKEN[how](path, text)
    vipd.write(lost + left)  # it was deleted meanwhile: not certain before all objects are known
    vipd.start()
    assert (backend(710), backend(711)) == (L.remote(1, 4), L.remote(2, 4))
    assert backend(713, 6) == L.remote(4, 6)
    assert name in reason(vipd) and reason(vipd).endswith("orphaned frontends: 2")
    assert "sweep pending: " + name in vipd.log(1000)
    assert [is_orphaned(vipd, *at) for at in ((710, 4), (713, 6), (711, 4), (712, 4))] == [
        True, True, False, False]
    assert vipd.ctl("status", check=False).count("\n    %s" % name) == 1  # the error of the source
    # changes go on, of services known before and new ones
    vipd.apply(lost + of("left", 711, 3) + of("new", 712, 4))
    assert (backend(710), backend(711)) == (L.remote(1, 4), L.remote(3, 4))
    assert backend(712) == L.remote(4, 4)
    assert backend(713, 6) == L.remote(4, 6)
    vipd.kill()
    vipd.start()
    assert backend(710) == L.remote(1, 4)
    genid = vipd.writes()
    os.unlink(path)
    vipd.manifests.put(name, text)  # good again
    L.eventually(lambda: reason(vipd) is None and vipd.is_settled(), 5, vipd.log)
    assert backend(710) == L.remote(1, 4)
    assert genid != vipd.writes(), "the deleted service is still there"
    vipd.check_tables()
    vipd.kill()
    os.unlink(path)
    os.symlink("nowhere", path)
    vipd.start()
    assert backend(710) == L.remote(1, 4)
    os.unlink(path)
    vipd.manifests.held.pop(name)
    vipd.objects = [o for o in vipd.objects if o is not obj]
    L.eventually(lambda: reason(vipd) is None and vipd.is_settled(), 5, vipd.log)
    assert backend(710) is None
    vipd.check_tables()
