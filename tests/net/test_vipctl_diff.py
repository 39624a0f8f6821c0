# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl diff and svc --kernel: kernel state, read without vipd."""
import json
import subprocess

import pytest

import lab as L
from objects import entry, port, service, slice_, slice_port
from shop import Svc

KINDS = [
    Svc("plain", 51),
    Svc("local", 52, etp="Local"),
    Svc("elsewhere", 53, "remote", etp="Local", itp="Local"),
    Svc("none", 54, "none"),
    Svc("ranges", 55, ranges=["203.0.113.0/25", "198.51.100.0/30", "2001:db8:1::/120"]),
    Svc("closed", 56, ranges=["everybody"]),
    Svc("sticky", 57, affinity=600),
]


def big():
    """More endpoints than there are exact pick chains, and an address of two services."""
    out = [service("big", L.cluster_ip(58, 4), [port(80, "TCP", "tcp")],
                   external_ips=[L.external_ip(58, 4)]),
           slice_("big", [entry(L.remote(i, 4), "n2") for i in range(1, 101)],
                  [slice_port(8080, "TCP", "tcp")]),
           service("bigger", L.cluster_ip(59, 4), [port(80, "TCP", "tcp")],
                   external_ips=[L.external_ip(58, 4)])]
    return out


def vipctl(vipd, *args):
    """Run in the node's network namespace."""
    with vipd.lab.node.entered():
        return subprocess.run([L.program("vipctl"), "--socket", vipd.socket] + list(args),
                              capture_output=True, text=True, timeout=L.LIMIT, check=False)


@pytest.fixture(scope="module")
def shelf(vipd):
    vipd.apply([o for s in KINDS for o in s.objects()] + big())


def test_empty_when_well(vipd, shelf):
    r = vipctl(vipd, "diff")
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    r = vipctl(vipd, "diff", "-o", "json")
    assert json.loads(r.stdout)["differences"] == [] and r.returncode == 0


def test_every_frontend(vipd, shelf):
    """One line for each, with its endpoints, and as many as the kernel has."""
    lines = vipctl(vipd, "svc", "--kernel").stdout.splitlines()
    assert len(lines) == sum(len(vipd.elements(fam, "frontends")) for fam in (4, 6))
    mine = [l for l in lines if l.startswith(L.endpoint(L.lb_ip(52, 4), 80) + "/TCP ")]
    assert mine == ["%s/TCP masq=host -> %s:8080; inside -> %s:8080 %s:8080" % (
        L.endpoint(L.lb_ip(52, 4), 80), L.POD["pod1"][4], L.POD["pod1"][4], L.remote(1, 4))]
    big_one = vipctl(vipd, "svc", "--kernel", L.cluster_ip(58, 4)).stdout
    assert len(big_one.splitlines()) == 1 and big_one.count(":8080") == 100


def test_bundle(vipd, shelf):
    """One JSON object; a missing part does not affect the others."""
    r = vipctl(vipd, "dump", "--bundle")
    assert r.returncode == 0, r.stderr
    b = json.loads(r.stdout)
    assert b["ejections"]["items"] == []
    assert b["status"]["state"] == "running" and len(b["dump"]["items"]) >= 9
    assert len(b["kernel_frontends"]) == sum(len(vipd.elements(f, "frontends")) for f in (4, 6))
    with vipd.lab.node.entered():
        r = subprocess.run([L.program("vipctl"), "--socket", vipd.socket + ".none", "dump",
                            "--bundle"], capture_output=True, text=True, timeout=L.LIMIT, check=False)
    assert r.returncode == 1
    b2 = json.loads(r.stdout)
    assert "no socket" in b2["status"]["error"]
    assert b2["kernel_frontends"] == b["kernel_frontends"]


def test_manifests(vipd, shelf, tmp_path):
    """Compared with the folder, without vipd: no difference, node names in lower case as in vipd;
    another node's result differs."""
    args = ["diff", "--manifests", vipd.manifests.path, "--node", L.NODE_NAME.upper()]
    r = vipctl(vipd, *args)
    assert (r.returncode, r.stdout) == (0, ""), r.stdout + r.stderr
    r = vipctl(vipd, "diff", "--manifests", vipd.manifests.path, "--node", "elsewhere")
    assert r.returncode == 1 and L.endpoint(L.lb_ip(52, 4), 80) + "/TCP  default/local" in r.stdout
    r = vipctl(vipd, "diff", "--manifests", vipd.manifests.path + ".none")
    assert r.returncode == 1 and ".none" in r.stderr
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: x, namespace: a}\n"
        "spec: {clusterIP: 10.96.0.9, ports: [{port: 70000}]}\n")
    assert vipctl(vipd, "diff", "--manifests", str(folder)).stderr.count("70000") == 1
    r = vipctl(vipd, *args, "--nodeport-addresses", "10.0.0.0/99")
    assert r.returncode == 2 and "--nodeport-addresses" in r.stderr


@pytest.mark.parametrize("given", [
    {"--feature-gates": "AllowServiceExternalIPs=false"}, {"--bind-address": L.NODE_TO_CLIENT[4]},
    {"--iptables-localhost-nodeports": True, "--nodeport-addresses": "0.0.0.0/0"}],
    ids=lambda given: next(iter(given)))
def test_manifests_with_flags(vipd, shelf, given):
    """Flags of vipd that decide about frontends: vipctl takes them, too."""
    args = ["diff", "--manifests", vipd.manifests.path, "--node", L.NODE_NAME]
    before = vipd.flags
    vipd.stop()
    vipd.flags = {**before, **given}
    vipd.start()
    try:
        r = vipctl(vipd, *args, *[w for flag in given.items() for w in flag if w is not True])
        assert (r.returncode, r.stdout) == (0, ""), r.stderr
        assert vipctl(vipd, *args).returncode == 1
    finally:
        vipd.stop()
        vipd.flags = before
        vipd.start()


@pytest.mark.no_steady
def test_names_the_problem(vipd, shelf):
    """Without vipd the kernel is still read; elements that another process removed are missing
    there."""
    before = vipctl(vipd, "svc", "--kernel").stdout.splitlines()
    vipd.stop()
    assert vipctl(vipd, "svc", "--kernel").stdout.splitlines() == before
    assert vipctl(vipd, "diff").returncode == 3
    vipd.lab.node.run("nft", "delete", "element", "ip", vipd.table(4), "frontends",
                      "{ %s . tcp . 80 }" % L.cluster_ip(51, 4))
    gone = set(before) - set(vipctl(vipd, "svc", "--kernel").stdout.splitlines())
    assert [g.split()[0] for g in gone] == [L.endpoint(L.cluster_ip(51, 4), 80) + "/TCP"]
    vipd.start()
    assert vipctl(vipd, "svc", "--kernel").stdout.splitlines() == before
    assert vipctl(vipd, "diff").returncode == 0
