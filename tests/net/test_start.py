# SPDX-License-Identifier: GPL-2.0-or-later
"""A start that fails changes no sysctl and no rule and leaves no socket."""
import os
import socket
import subprocess

import pytest

import lab as L

NETFILTER = "/proc/sys/net/netfilter"
BEFORE = 7777  # seconds: no value that vipd or the kernel would have


@pytest.fixture(scope="module")
def alone():
    with L.Lab(servers=False) as lab:
        yield lab


def limits():
    out = {}
    for name in sorted(os.listdir(NETFILTER)):
        if name.startswith(("nf_conntrack_tcp", "nf_conntrack_udp")):
            with open(os.path.join(NETFILTER, name), encoding="ascii") as f:
                out[name] = f.read()
    return out


def config(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text("apiVersion: kubeproxy.config.k8s.io/v1alpha1\n"
                    "kind: KubeProxyConfiguration\n" + text, encoding="utf-8")
    return str(path)


def kubeconfig(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    return str(path)


CASES = {
    "no source": lambda t: [],
    "two sources": lambda t: ["--manifests", str(t), "--master", "https://127.0.0.1:1"],
    "no kubeconfig": lambda t: ["--kubeconfig", str(t / "missing")],
    "bad kubeconfig": lambda t: ["--kubeconfig", kubeconfig(t, "clusters: 7\n")],
    "no folder": lambda t: ["--manifests", str(t / "missing")],
    "no configuration": lambda t: ["--manifests", str(t), "--config", str(t / "missing")],
    "bad configuration": lambda t: ["--manifests", str(t), "--config",
                                    config(t, "conntrack: {min: -1}\n")],
    "no address to bind": lambda t: ["--manifests", str(t), "--bind-address-hard-fail",
                                     "--healthz-bind-address", "192.0.2.77:10256"],
    "port taken": lambda t: ["--manifests", str(t), "--bind-address-hard-fail",
                             "--metrics-bind-address", "127.0.0.1:10999"],
    "no place for the socket": lambda t: ["--manifests", str(t), "--control-socket",
                                          str(t / ("x" * 120))],
    "bad server": lambda t: ["--master", "ftp://192.0.2.1"],
    "password": lambda t: ["--master", "https://192.0.2.1,https://user:secret@192.0.2.2"],
    "bad scheduler": lambda t: ["--manifests", str(t), "--proxy-mode=ipvs",
                                "--ipvs-scheduler=rr,mh-port"],
}


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_changed(alone, tmp_path, case):
    control = tmp_path / "run.sock"
    args = CASES[case](tmp_path)
    if "--control-socket" not in args:
        args += ["--control-socket", str(control)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    with alone.node.entered(), socket.socket() as taken:
        taken.bind(("127.0.0.1", 10999))
        taken.listen()
        with open(NETFILTER + "/nf_conntrack_tcp_timeout_established", "w", encoding="ascii") as f:
            f.write(str(BEFORE))
        before = limits(), alone.node.run("nft", "list", "ruleset")
        r = subprocess.run([L.program("vipd"), "--hostname-override", "n1"] + args,
                           capture_output=True, text=True, timeout=L.LIMIT, env=env, check=False)
        after = limits(), alone.node.run("nft", "list", "ruleset")
    assert r.returncode in (1, 2), r.stderr
    assert before == after and str(BEFORE) in "".join(before[0].values()), r.stderr
    assert ", was " not in r.stderr
    assert not control.exists()
