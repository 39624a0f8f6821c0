# SPDX-License-Identifier: GPL-2.0-or-later
"""Mode ipvs with the permissions of the DaemonSet's container: CAP_NET_ADMIN, /proc/sys
read-only. Run by tests/vm/suite.py, in a machine with IPVS in its kernel."""
import json
import os
import re
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

import lab as L
import sandbox

PYTHON = "/usr/bin/python3"
# /run is private, other folders are not: tests have their control sockets in /tmp.
POD = [["CapabilityBoundingSet", "CAP_NET_ADMIN"], ["NoNewPrivileges", "yes"],
       ["ProtectKernelTunables", "yes"], ["RuntimeDirectory", "vipd"]]
# From a process of the node and from a pod, to a cluster IP and a node port; a pod to itself.
PATHS = "(cluster_policy or hairpin) and tcp and v4"


def confined(*argv):
    return [PYTHON, os.path.join(HERE, "sandbox.py"), sandbox.request(POD, "errno"), *argv]


def flags(folder):
    return ["--proxy-mode", "ipvs", "--manifests", os.path.join(ROOT, "examples"),
            "--hostname-override", "node-1", "--control-socket", os.path.join(folder, "control.sock")]


def readiness(ns):
    """The status of /healthz."""
    code = "import http.client as h; c = h.HTTPConnection('127.0.0.1:10256', timeout=%d); " \
        "c.request('GET', '/healthz'); print(c.getresponse().status)" % L.LIMIT
    return int(ns.run(PYTHON, "-c", code))


@pytest.mark.parametrize("is_prepared", (False, True), ids=("alone", "after-init"))
def test_ready(netns, tmp_path, is_prepared):
    """Without the init container the plane lacks required sysctls: not ready, with the reason."""
    folder = str(tmp_path)
    if is_prepared:
        netns.run(L.program("vipd"), "--init-only", *flags(folder))
        assert netns.run("sysctl", "-n", "net.ipv4.vs.conntrack").strip() == "1"
    with open(os.path.join(folder, "log"), "wb") as log:
        proc = netns.popen(*confined(L.program("vipd"), *flags(folder)),
                           stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def log_text():
        with open(os.path.join(folder, "log"), encoding="utf-8") as f:
            return f.read()

    def status():
        r = subprocess.run([L.program("vipctl"), "--socket", os.path.join(folder, "control.sock"),
                            "-o", "json", "status"], capture_output=True, text=True, check=False)
        return json.loads(r.stdout) if r.stdout else {}
    try:
        L.eventually(lambda: status().get("state") == "running", 30, log_text)
        if is_prepared:
            L.eventually(lambda: readiness(netns) == 200, 10, log_text)
            assert "net.ipv4.vs" not in log_text()
            return
        assert readiness(netns) == 503, log_text()
        assert "net.ipv4.vs.conntrack is 0, must be 1" in json.dumps(status())
        assert len(re.findall(r"net\.ipv4\.vs\.conntrack.*not ready", log_text())) == 1
    finally:
        proc.kill()
        proc.wait(L.LIMIT)


def test_paths(tmp_path):
    """Traffic, with a vipd that starts as in the pod: the init container, then the main one."""
    top = str(tmp_path / "build")
    os.makedirs(top + "/tests")
    os.symlink(L.program("vipctl"), top + "/vipctl")
    os.symlink(os.path.join(L.build_dir(), "tests/tools"), top + "/tests/tools")
    with open(top + "/vipd", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n%s --init-only \"$@\" && exec %s '%s' %s \"$@\"\n" % (
            L.program("vipd"), " ".join(confined()[:2]), confined()[2], L.program("vipd")))
    os.chmod(top + "/vipd", 0o755)
    r = subprocess.run([PYTHON, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", PATHS,
                        "tests/net/test_paths.py"], cwd=ROOT, capture_output=True, text=True,
                       env=dict(os.environ, VIPD_BUILD=top, VIPD_PLANE="ipvs"), timeout=3600,
                       check=False)
    assert r.returncode == 0, r.stdout[-4000:]
    assert re.search(r"\b[1-9]\d* passed", r.stdout), r.stdout
