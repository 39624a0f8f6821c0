# SPDX-License-Identifier: GPL-2.0-or-later
"""SIGHUP: configuration and sources are read again, and nothing ends."""
import os
import signal
import subprocess

import pytest

import daemon
import lab as L
from objects import service

HEAD = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
KUBECONFIG = ("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: "
              "'https://127.0.0.1:%d', insecure-skip-tls-verify: true}}]\n"
              "users: [{name: u, user: {token: x}}]\n"
              "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n")


@pytest.fixture(scope="module")
def alone():
    with L.Lab(servers=False) as lab:
        yield lab


@pytest.fixture
def vipd(alone, tmp_path):
    """Configured by a file that config() changes in place."""
    made = daemon.Vipd(alone, base=False)
    made.config_files = []
    made.config_path = str(tmp_path / "config.yaml")
    config(made, "mode: nftables\n")
    made.flags = {"--config": made.config_path}
    made.write([service("a", [L.cluster_ip(1, 4)], 80)])
    yield made
    for f in made.config_files:
        f.close()
    made.close()


@pytest.fixture(autouse=True)
def steady_all_along():
    """No steady flows: no backend is served here."""


def config(vipd, text):
    """Written in place, and not closed before the next of these: no watch event occurs."""
    f = open(vipd.config_path, "r+" if os.path.exists(vipd.config_path) else "w+",
             encoding="utf-8")  # pylint: disable=consider-using-with
    f.truncate(0)
    f.write(HEAD + text)
    f.flush()
    vipd.config_files.append(f)


def metric(vipd, name):
    with vipd.lab.node.entered():
        text = subprocess.run(["curl", "-s", "http://127.0.0.1:10249/metrics"],
                              capture_output=True, text=True, timeout=L.LIMIT, check=True).stdout
    return int(text.split("\n%s " % name)[1].split()[0])


def hup(vipd, text, times=1):
    pid = vipd.proc.pid
    vipd.proc.send_signal(signal.SIGHUP)
    L.eventually(lambda: vipd.log(1000).count(text) >= times, 5, lambda: vipd.log(1000))
    assert vipd.is_running() and vipd.status()["pid"] == pid
    return vipd.log(1000)


def test_nothing_new(vipd):
    vipd.start()
    log = hup(vipd, "SIGHUP: reading configuration and sources again")
    assert "changed" not in log and "restart needed" not in log
    vipd.stop()
    assert vipd.proc.returncode == 0


def test_configuration(vipd):
    """Log options take effect; other changed options are named. An invalid file changes
    nothing."""
    config(vipd, "mode: nftables\nfeatureGates: {A: true, B: true}\n")
    vipd.start()
    config(vipd, "mode: nftables\nnodePortAddresses: [127.0.0.0/8]\nconntrack: {min: 5}\n"
                 "featureGates: {A: true, B: false}\n"
                 "logging: {verbosity: 4}\n")
    log = hup(vipd, "restart needed")
    assert "%s: changed: nodePortAddresses, featureGates.B, conntrack.min; restart needed" \
        % vipd.config_path in log, log
    assert "configuration: logging: changed, in force now" in log
    assert vipd.get("/v1/log")["areas"][0]["level"] == "debug"
    config(vipd, "oomScoreAdj: 5000\n")
    log = hup(vipd, "configuration: rejected: ")
    assert "config.yaml:3: oomScoreAdj: '5000'" in log
    assert vipd.get("/v1/log")["areas"][0]["level"] == "debug"
    problem, = vipd.status()["problems"]
    assert problem["kind"] == "configuration" and "config.yaml:3: oomScoreAdj:" in problem["text"]
    assert metric(vipd, "vipd_configuration_rejected") == 1
    config(vipd, "mode: nftables\nfeatureGates: {A: true, B: true}\nlogging: {verbosity: 4}\n")
    hup(vipd, "SIGHUP", 3)
    L.eventually(lambda: vipd.status()["problems"] == [], 5)
    assert metric(vipd, "vipd_configuration_rejected") == 0


def test_a_typo_ends_nothing(vipd):
    """CFG-04: vipd does not exit for a file with which it would not start again."""
    vipd.start()
    config(vipd, "mode: ipvs\nipvs: {scheduler: wrrr}\n")
    vipd.config_files[-1].close()
    L.eventually(lambda: "config.yaml:4: ipvs.scheduler: unknown" in str(vipd.status()["problems"]), 5)
    assert vipd.is_running()
    config(vipd, "mode: nftables\n")
    vipd.config_files[-1].close()
    L.eventually(lambda: vipd.status()["problems"] == [], 5)
    assert vipd.is_running()


def test_a_changed_log_level_ends_nothing(vipd):
    """CFG-04: log options of a changed file take effect without SIGHUP, too."""
    vipd.start()
    config(vipd, "mode: nftables\nlogging: {verbosity: 2}\n")
    vipd.config_files[-1].close()
    L.eventually(lambda: vipd.get("/v1/log")["areas"][0]["level"] == "info", 5)
    config(vipd, "mode: nftables\nclusterCIDR: 10.0.0.0/8\n")
    vipd.config_files[-1].close()
    vipd.proc.wait(10 * L.SLOW)
    assert vipd.proc.returncode == 1
    assert "changed: clusterCIDR; exiting for the supervisor to restart vipd" in vipd.log()


def test_manifests(vipd):
    """Every file is read, also unchanged ones."""
    vipd.start()

    def count():
        return metric(vipd, 'vipd_source_lists_total{source="manifests"}')
    before = count()
    vipd.proc.send_signal(signal.SIGHUP)
    L.eventually(lambda: count() == before + 1, 5)
    assert len(vipd.get("/v1/services")["items"]) == 1


def test_kubeconfig(vipd, tmp_path):
    """A credential that cannot be read is named again, and the pause after a failure ends."""
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % 1, encoding="utf-8")
    with open(vipd.log_path, "ab") as log:
        vipd.proc = vipd.lab.node.popen(
            L.program("vipd"), "--kubeconfig", str(path), "--hostname-override", "n1",
            "--control-socket", vipd.socket, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    L.eventually(lambda: vipd.get("/v1/status").get("state") == "waiting", 5)
    path.write_text("clusters: 7\n", encoding="utf-8")
    hup(vipd, "previous credentials stay in use", 1)
    hup(vipd, "previous credentials stay in use", 2)
    problem, = [p for p in vipd.status()["problems"] if p["kind"] == "configuration"]
    assert problem["text"].startswith("credentials: %s: " % path)
    path.write_text(KUBECONFIG % 2, encoding="utf-8")
    hup(vipd, "kubeconfig: changed; loaded")
    L.eventually(lambda: "127.0.0.1:2" in json_text(vipd), 5)
    assert "configuration" not in [p["kind"] for p in vipd.status()["problems"]]


def test_configuration_with_a_wrong_kubeconfig(vipd, tmp_path):
    """CFG-04: vipd would not start again without the file."""
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG % 1, encoding="utf-8")
    config(vipd, "mode: nftables\nclientConnection: {kubeconfig: %s}\n" % path)
    with open(vipd.log_path, "ab") as log:
        vipd.proc = vipd.lab.node.popen(
            L.program("vipd"), "--config", vipd.config_path, "--hostname-override", "n1",
            "--control-socket", vipd.socket, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    L.eventually(lambda: vipd.get("/v1/status").get("state") == "waiting", 5)
    config(vipd, "mode: nftables\nclientConnection: {kubeconfig: %s.typo}\n" % path)
    vipd.config_files[-1].close()
    L.eventually(lambda: "%s.typo: No such file" % path in str(vipd.status()["problems"]), 5)
    assert vipd.is_running()
    (tmp_path / "kubeconfig.typo").write_text(KUBECONFIG % 1, encoding="utf-8")
    L.eventually(lambda: not vipd.is_running(), 15, "the kubeconfig is not read again")
    assert vipd.log().count("configuration: rejected") == 1


def json_text(vipd):
    return str(vipd.get("/v1/status"))


def test_options_in_force(vipd):
    """`vipctl status` names the options in force: of the command line, of the file, and the
    defaults. SIGHUP brings those of the log up to date."""
    config(vipd, "mode: nftables\nclusterCIDR: 10.9.0.0/16\nconntrack: {min: 5}\n")
    vipd.flags["--audit-period"] = "7m"
    vipd.start()
    shown = vipd.status()["options"]
    assert shown["cluster-cidr"] == "10.9.0.0/16" and shown["conntrack-min"] == "5"
    assert shown["audit-period"] == "7m" and shown["proxy-mode"] == "nftables"
    assert shown["control-socket"] == vipd.socket and shown["manifests"] == vipd.manifests.path
    assert shown["nft-guard"] == "auto" and shown["v"] == "0" and "" not in shown.values()
    wide = [line.split(None, 1) for line in vipd.ctl("status", "-o", "wide").splitlines()]
    for name, value in shown.items():
        assert ["option", "%s=%s" % (name, value)] in wide
    assert "option " not in vipd.ctl("status")
    config(vipd, "mode: nftables\nclusterCIDR: 10.9.0.0/16\nconntrack: {min: 5}\n"
                 "logging: {verbosity: 2}\n")
    hup(vipd, "in force now")
    assert vipd.status()["options"]["v"] == "2"
