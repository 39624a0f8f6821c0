# SPDX-License-Identifier: GPL-2.0-or-later
"""deploy/chart: helm makes the objects that Kustomize makes of base, overlays and monitoring; wrong values are rejected.
tools/install-helm gets helm; without npm or a registry these tests are skipped."""
import glob
import os
import re
import subprocess

import pytest
import yaml

import kustomize

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
CHART = DEPLOY + "/chart"
OVERLAYS = sorted(os.path.basename(p) for p in glob.glob(DEPLOY + "/overlays/*"))
HELM = next((p for p in ("/var/cache/vipd-helm/helm", os.path.expanduser("~/.cache/vipd-helm/helm"))
             if os.access(p, os.X_OK)), None)
pytestmark = pytest.mark.skipif(not HELM, reason="helm is missing: tools/install-helm needs npm and its registry")
API, PODS, BOTH = "https://control-plane:6443", "10.244.0.0/16", "10.244.0.0/16,fd00:10:244::/56"


def helm(tmp_path, command, values, chart=CHART):
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    home = {name: str(tmp_path) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    return subprocess.run([HELM, *command, chart, "--namespace", "kube-system", "--values", tmp_path / "values.yaml"],
                          capture_output=True, text=True, check=False, env=dict(os.environ, **home))


def made(tmp_path, chart=CHART, **values):
    """{key: object}, as kustomize.build()."""
    r = helm(tmp_path, ["template", "vipd"], dict({"apiServer": API, "clusterCIDR": PODS}, **values), chart)
    assert r.returncode == 0, r.stderr
    return read({kustomize.key(o): o for o in yaml.safe_load_all(r.stdout)})


def read(objects):
    """With the files of ConfigMaps as values: their comments are not compared, nor is the hash in the name."""
    for obj in objects.values():
        if obj["kind"] == "ConfigMap":
            obj["data"] = {name: yaml.safe_load(text) for name, text in obj["data"].items()}
    return kustomize.without_hash(objects)


@pytest.mark.parametrize("overlay", [None] + OVERLAYS)
def test_equals_kustomize(tmp_path, overlay):
    expected = read(kustomize.build(DEPLOY + "/overlays/" + overlay if overlay else DEPLOY))
    assert made(tmp_path, overlays=[overlay] if overlay else [],
                clusterCIDR=BOTH if overlay == "dual-stack" else PODS) == expected


def test_monitoring_equals_kustomize(tmp_path):
    assert made(tmp_path, monitoring=True) == {**read(kustomize.build(DEPLOY)), **kustomize.build(DEPLOY + "/monitoring")}


def test_labels_of_monitoring(tmp_path):
    """Without `release` kube-prometheus-stack does not select them. Other objects do not get the labels."""
    found = made(tmp_path, monitoring=True, monitoringLabels={"release": "prom"})
    assert {key[1] for key, o in found.items() if o["metadata"].get("labels", {}).pop("release", None) == "prom"} == {
        "PodMonitor", "PrometheusRule"}
    assert found == made(tmp_path, monitoring=True)


def test_overlays_combine(tmp_path):
    """All overlays, in any order: what each one changes."""
    found = made(tmp_path, overlays=OVERLAYS, clusterCIDR=BOTH)
    assert found == made(tmp_path, overlays=OVERLAYS[::-1], clusterCIDR=BOTH)
    for overlay in OVERLAYS:
        assert found.keys() >= kustomize.without_hash(kustomize.build(DEPLOY + "/overlays/" + overlay)).keys()
    config = found["v1", "ConfigMap", "vipd-config-HASH"]["data"]["config.yaml"]
    assert (config["mode"], config["ipvs"], config["clusterCIDR"]) == ("ipvs", {"scheduler": "rr"}, BOTH)
    security = found["apps/v1", "DaemonSet", "vipd"]["spec"]["template"]["spec"]["containers"][0]["securityContext"]
    assert security["seLinuxOptions"]["type"] == "spc_t" and security["seccompProfile"]["type"] == "Localhost"


def test_values(tmp_path):
    found = made(tmp_path, image={"repository": "r.example/vipd", "tag": "9"}, args=["--status-page=on"],
                 config={"iptables": {"masqueradeAll": True}}, pod={"nodeSelector": {"vipd.io/proxy": "true"}},
                 apiServer="https://[fd00::1]:6443")
    pod = found["apps/v1", "DaemonSet", "vipd"]["spec"]["template"]["spec"]
    base = kustomize.build(DEPLOY)["apps/v1", "DaemonSet", "vipd"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == dict(base["nodeSelector"], **{"vipd.io/proxy": "true"})
    for kind in "initContainers", "containers":
        for got, of in zip(pod[kind], base[kind], strict=True):
            assert got == dict(of, image="r.example/vipd:9", args=of["args"] + ["--status-page=on"])
    data = found["v1", "ConfigMap", "vipd-config-HASH"]["data"]
    assert data["config.yaml"]["iptables"] == {"masqueradeAll": True}
    assert data["kubeconfig.yaml"]["clusters"][0]["cluster"]["server"] == "https://[fd00::1]:6443"


PREFIX = {"detectLocalMode": "InterfaceNamePrefix", "detectLocal": {"interfaceNamePrefix": "eni"}}


@pytest.mark.parametrize("values", [{"clusterCIDR": ""}, {"config": PREFIX}, {"clusterCIDR": "", "config": PREFIX}])
def test_no_prefixes_of_pods(tmp_path, values):
    """Neither the prefix of base/config.yaml: with EKS's, or a prefix of the VPC, clients in the VPC count as pods."""
    r = helm(tmp_path, ["template", "vipd"], dict({"apiServer": API}, **values))
    assert r.returncode == 0, r.stderr
    found = read({kustomize.key(o): o for o in yaml.safe_load_all(r.stdout)})
    config = found["v1", "ConfigMap", "vipd-config-HASH"]["data"]["config.yaml"]
    assert config["clusterCIDR"] == "" and values.get("config", {}).items() <= config.items()


@pytest.mark.parametrize("config", [{}, {"detectLocalMode": "ClusterCIDR"}, {"detectLocalMode": ""}])
def test_prefixes_of_pods_are_required(tmp_path, config):
    r = helm(tmp_path, ["template", "vipd"], {"apiServer": API, "config": config})
    assert r.returncode != 0 and "missing property 'clusterCIDR'" in r.stderr, r.stderr


@pytest.mark.parametrize("field, address", [
    *[("healthzBindAddress", a) for a in ("", "127.0.0.1:10256", "0.0.0.0:10256", "[::]:10256")],
    *[("metricsBindAddress", a) for a in ("", "127.0.0.1:10249", "[::1]:10249", "0.0.0.0:10249", "[::]:10249")]])
def test_addresses_of_servers(tmp_path, field, address):
    """Ports of base/daemonset.yaml: its probes reach the first ones."""
    data = made(tmp_path, config={field: address})["v1", "ConfigMap", "vipd-config-HASH"]["data"]
    assert data["config.yaml"][field] == address


def test_selinux_domain(tmp_path):
    """The command of deploy/README.md: for the pod; no container has another one."""
    with open(DEPLOY + "/README.md", encoding="utf-8") as f:
        (path, value) = re.search(r"`--set pod\.(securityContext\.\S+)=(\w+)`", f.read()).groups()
    fields = {path.split(".")[-1]: value}
    for name in path.split(".")[-2::-1]:
        fields = {name: fields}
    pod = made(tmp_path, pod=fields)["apps/v1", "DaemonSet", "vipd"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"seLinuxOptions": {"type": "spc_t"}}
    assert all("seLinuxOptions" not in c["securityContext"] for c in pod["initContainers"] + pod["containers"])


def test_printed_commands_name_the_namespace():
    """Without it helm does not find the release."""
    for path in glob.glob(ROOT + "/*.md") + glob.glob(ROOT + "/doc/*.md") + [DEPLOY + "/README.md"]:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for command in re.findall(r"\bhelm (?:install|upgrade|rollback|uninstall)\b(?!` of helm 3)[^`\n]*", text):
            assert " vipd" in command and "--namespace kube-system" in command, (path, command)


def test_configuration_rolls_out_like_an_image(tmp_path):
    """Each change of the configuration changes the name of the ConfigMap and the pod template, which names it."""
    def names(**values):
        r = helm(tmp_path, ["template", "vipd"], dict({"apiServer": API, "clusterCIDR": PODS}, **values))
        objects = {o["kind"]: o for o in yaml.safe_load_all(r.stdout)}
        (volume,) = [v for v in objects["DaemonSet"]["spec"]["template"]["spec"]["volumes"] if "configMap" in v]
        assert volume["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]
        return volume["configMap"]["name"]

    changes = [{}, {"overlays": ["ipvs"]}, {"apiServer": "https://other:6443"}, {"clusterCIDR": "10.1.0.0/16"},
               {"config": {"iptables": {"masqueradeAll": True}}}]
    assert len({names(**c) for c in changes}) == len(changes)
    assert names(args=["--v=2"]) == names()


def test_lint(tmp_path):
    r = helm(tmp_path, ["lint", "--strict"], {"apiServer": API, "clusterCIDR": PODS, "overlays": OVERLAYS})
    assert r.returncode == 0 and "[WARNING]" not in r.stdout, r.stdout + r.stderr


@pytest.mark.parametrize("field, value, says", [
    ("apiServer", None, "'/apiServer': got null, want string"),
    ("apiServer", "control-plane:6443", "'/apiServer': 'control-plane:6443' does not match pattern"),
    ("clusterCIDR", ["10.244.0.0/16"], "'/clusterCIDR': got array, want string"),
    ("clusterCIDR", "10.244.0.0", "'/clusterCIDR'"),
    ("overlays", ["monitoring"], "'/overlays/0'"),
    ("overlays", ["ipvs", "ipvs"], "'/overlays'"),
    ("overlays", "ipvs", "'/overlays': got string, want array"),
    ("monitoring", "yes", "'/monitoring': got string, want boolean"),
    ("monitoringLabels", {"release": 1}, "'/monitoringLabels/release': got number, want string"),
    ("image", {"name": "vipd"}, "'/image': additional properties 'name' not allowed"),
    ("image", {"tag": 2}, "'/image/tag': got number, want string"),
    ("args", ["v=2"], "'/args/0'"),
    ("config", {"clusterCIDR": PODS}, "'/config'"),
    ("config", {"healthzBindAddress": "0.0.0.0:9999"}, "'/config/healthzBindAddress'"),     # no probe arrives there
    ("config", {"healthzBindAddress": "[::1]:10256"}, "'/config/healthzBindAddress'"),
    ("config", {"metricsBindAddress": "0.0.0.0:9999"}, "'/config/metricsBindAddress'"),     # the PodMonitor scrapes 10249
    ("pod", {"containers": []}, "'/pod'"),
    ("mode", "ipvs", "additional properties 'mode' not allowed"),
])
def test_schema_rejects(tmp_path, field, value, says):
    r = helm(tmp_path, ["template", "vipd"], dict({"apiServer": API, "clusterCIDR": PODS}, **{field: value}))
    assert r.returncode != 0 and says in r.stderr, r.stderr
