# SPDX-License-Identifier: GPL-2.0-or-later
"""The image of `make image`: static programs that serve in a folder that contains nothing else, in a network namespace
with traffic. Run by `make test-image`; not collected elsewhere, because its build downloads sources."""
import base64
import glob
import os
import shutil
import subprocess
import sys

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "tests"),
                os.path.join(ROOT, "tests", "net")]

import daemon  # noqa: E402
import image  # noqa: E402
import lab as L  # noqa: E402
from apiserver.client import Server  # noqa: E402

STATIC = os.environ.get("VIPD_STATIC", os.path.join(ROOT, "build-static"))
LIMIT = 15e6


def archive(folder):
    (found,) = glob.glob(os.path.join(folder, "vipd-*.oci.tar"))
    return found


@pytest.fixture(scope="module")
def made():
    return image.Image(archive(STATIC))


@pytest.fixture(scope="module")
def lab():
    reason = L.missing()
    if reason:
        pytest.skip(reason)
    L.sweep()
    with L.Lab() as made_:
        yield made_


def test_size_and_content(made):
    assert sum(m.size for m in made.files.values()) < LIMIT
    for name in "usr/sbin/vipd", "usr/bin/vipctl":
        path = os.path.join(STATIC, os.path.basename(name))
        with open(path, "rb") as f:
            assert f.read() == made.read(name)
        headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
        assert "INTERP" not in headers and "DYN (Position-Independent" in headers
    assert not [p for p in made.files if p.rsplit("/", 1)[-1] in ("sh", "bash", "busybox", "dash")]


def test_two_builds_are_equal(tmp_path):
    """Everything again, in another folder."""
    again = tmp_path / "again"
    for command in (["tools/build-static", str(again)], ["tools/make-image", str(again)]):
        r = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        assert r.returncode == 0, r.stdout[-4000:]
    assert image.Image(archive(str(again))).digest == image.Image(archive(STATIC)).digest


class Pod:
    """The image as a container engine starts it: its files, /proc, /run/vipd and a folder of configuration."""

    def __init__(self, lab, made, folder):
        self.lab, self.root = lab, str(folder / "root")
        made.extract(self.root)
        for name in "proc", "run/vipd", "etc/vipd":
            os.makedirs(os.path.join(self.root, name))
        self.log_path = str(folder / "log")

    def start(self, *args):
        """No other root: what is outside of the image cannot be read."""
        assert L.probe(self.lab.client, daemon.STEADY_IP[4], 80).what == "untouched"
        with open(self.log_path, "wb") as log:
            self.proc = self.lab.node.popen(
                "unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"', self.root,
                "/usr/sbin/vipd", "--hostname-override", L.NODE_NAME, *args, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env={})

    def vipctl(self, *args):
        return self.lab.node.run("chroot", self.root, "/usr/bin/vipctl", *args)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def wait(self, address):
        def serves():
            assert self.proc.poll() is None, self.log()
            return L.probe(self.lab.client, address, 80).what == "ok"
        L.eventually(serves, L.PATIENCE, self.log)

    def stop(self):
        """And leave neither files nor rules."""
        self.proc.terminate()
        assert self.proc.wait(L.PATIENCE) == 0, self.log()
        self.lab.node.run("unshare", "--mount", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"',
                          self.root, "/usr/sbin/vipd", "--cleanup")
        assert "vipd" not in self.lab.node.run("nft", "list", "tables")
        shutil.rmtree(self.root)


def test_serves_manifests(lab, made, tmp_path):
    pod = Pod(lab, made, tmp_path)
    daemon.Manifests(pod.root + "/etc/vipd/services").write(daemon.steady_objects() + [daemon.node_object()])
    pod.start("--manifests", "/etc/vipd/services", "--cluster-cidr", ",".join(L.CLUSTER_CIDR.values()))
    pod.wait(daemon.STEADY_IP[4])
    pod.wait(daemon.STEADY_IP[6])
    assert "running" in pod.vipctl("status") and "steady" in pod.vipctl("svc")
    pod.stop()


def test_serves_a_cluster(lab, made, tmp_path):
    """libcurl without anything around it: TLS with the CA of the kubeconfig, HTTP/2 and watches; the name of the server
    is resolved by the image's C library, which loads no module of a node's nsswitch.conf."""
    pod = Pod(lab, made, tmp_path)
    os.makedirs(pod.root + "/lib")
    with open(pod.root + "/etc/nsswitch.conf", "w", encoding="ascii") as f:
        f.write("hosts: trap files dns\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-fPIC", "-x", "c", "-", "-o", pod.root + "/lib/libnss_trap.so.2"],
                   input="__attribute__((constructor)) static void trap(void) { __builtin_trap(); }", text=True, check=True)
    with Server(netns=lab.node.name) as api:
        for obj in daemon.steady_objects() + [daemon.node_object()]:
            api.put(obj)
        with open(api.kubeconfig("token"), encoding="utf-8") as f:
            config = yaml.safe_load(f)
        cluster = config["clusters"][0]["cluster"]
        if "certificate-authority" in cluster:
            with open(cluster.pop("certificate-authority"), "rb") as f:
                cluster["certificate-authority-data"] = base64.b64encode(f.read()).decode()
        assert cluster["server"].startswith("https://127.0.0.1:")
        cluster["server"] = cluster["server"].replace("127.0.0.1", "kubernetes")     # libcurl itself resolves localhost
        with open(pod.root + "/etc/hosts", "w", encoding="ascii") as f:
            f.write("127.0.0.1 kubernetes\n")
        with open(pod.root + "/etc/vipd/kubeconfig", "w", encoding="utf-8") as f:
            yaml.safe_dump(config, f)
        pod.start("--kubeconfig", "/etc/vipd/kubeconfig")
        pod.wait(daemon.STEADY_IP[4])
        pod.stop()
