# SPDX-License-Identifier: GPL-2.0-or-later
"""Every reader of kernel state, with every option that changes what the tables look like: vipctl
diff and svc --kernel, doctor, adoption, audit and --cleanup."""
import json
import re
import subprocess

import pytest

import daemon
import lab as L
import planes
from shop import Svc

SERVICES = [
    Svc("plain", 61),
    Svc("local", 62, etp="Local"),
    Svc("none", 63, "none"),
    Svc("ranges", 64, ranges=["203.0.113.0/25", "2001:db8:1::/120"]),
    Svc("sticky", 65, affinity=600),
]
OPTIONS = {
    "default": {},
    "count-services": {"--metrics-per-service": "service"},
    "count-endpoints": {"--metrics-per-service": "endpoint"},
    "owner": {"--nft-table-owner": True},
    "owner-and-counters": {"--nft-table-owner": True, "--metrics-per-service": "endpoint"},
    "no-guard": {"--nft-guard": "off"},
    "bridge": {"--detect-local-mode": "BridgeInterface", "--pod-bridge-interface": "br0",
               "--cluster-cidr": None},
    "prefix": {"--detect-local-mode": "InterfaceNamePrefix", "--pod-interface-name-prefix": "br",
               "--cluster-cidr": None},
    "node-cidr": {"--detect-local-mode": "NodeCIDR", "--cluster-cidr": None},
    "no-detector": {"--cluster-cidr": None},
    "masquerade-all": {"--masquerade-all": True},
    "no-service-cidrs": {"--service-cluster-ip-range": None},
    "local-source": {"--preserve-local-source": True},
    "failover": {"--failover": "handshake"},
    "eject": {"--failover": "eject", "--failover-udp-timeout": "2s"},
    "localhost": {"--iptables-localhost-nodeports": True,
                  "--nodeport-addresses": "0.0.0.0/0,::/0"},
}
if planes.PLANE == "ipvs":
    for name in ("owner", "owner-and-counters", "no-guard"):  # of the nft plane's tables
        del OPTIONS[name]
    OPTIONS["mark"] = {"--ipvs-mark": "0x60", "--ipvs-route-table": "7700",
                       "--ipvs-rule-priority": "200", "--ipvs-scheduler": "wrr"}


def program(vipd, name, *args):
    """Run in the node's network namespace."""
    with vipd.lab.node.entered():
        return subprocess.run([L.program(name)] + list(args), capture_output=True, text=True,
                              timeout=L.LIMIT, check=False)


def check_tables(vipd, option):
    if option != "mark":  # tests/resolver reads marks with the default tag only
        vipd.check_tables()


def programmed(vipd):
    """What vipctl reads in the kernel, without backends of earlier settings that drain: these and
    the marks that have no other leave at any time."""
    listed = re.sub(r" draining=\S+", "", vipctl(vipd, "svc", "--kernel").stdout)
    return re.sub(r"^mark/.* ->\s*\n", "", listed, flags=re.M)


def vipctl(vipd, *args):
    return program(vipd, "vipctl", "--socket", vipd.socket, *args)


@pytest.fixture(params=sorted(OPTIONS))
def option(request, vipd):
    vipd.stop()
    vipd.flags = dict(daemon.FLAGS)
    vipd.flags.update(OPTIONS[request.param])
    vipd.start()
    vipd.apply([o for s in SERVICES for o in s.objects()])
    check_tables(vipd, request.param)
    return request.param


@pytest.mark.no_steady
def test_readers(vipd, option):
    """With vipd, after a restart that adopts, and without vipd."""
    r = vipctl(vipd, "diff")
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    plain = SERVICES[0]
    for fam in (4, 6):
        assert L.probe(vipd.lab.ns["pod3"], plain.addr("clusterip", fam), 80).ok
    lines = programmed(vipd)
    for s in SERVICES:
        assert L.endpoint(s.addr("clusterip", 4), 80) + "/TCP" in lines
        assert L.endpoint(s.addr("clusterip", 6), 80) + "/TCP" in lines
    doctor = vipctl(vipd, "doctor", "-o", "json")
    assert not [d for d in json.loads(doctor.stdout)["results"] if d["level"] == "error"]
    vipd.kill()
    assert programmed(vipd) == lines
    vipd.start()
    # A table's new owner is one write for each family.
    assert vipd.status()["sync"]["writes"] <= (2 if option.startswith("owner") else 0)
    assert vipctl(vipd, "diff").returncode == 0
    check_tables(vipd, option)
    vipd.kill()
    r = program(vipd, "vipd", "--cleanup")
    assert r.returncode == 0, r.stderr
    assert vipctl(vipd, "svc", "--kernel").stdout == ""
    assert "vipd" not in vipd.lab.node.run("nft", "list", "tables")
    if planes.PLANE == "ipvs":  # also what an earlier vipd left, with another mark
        assert vipd.lab.node.run("ipvsadm", "-Sn") == ""
    vipd.start()
