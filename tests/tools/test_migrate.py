# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl migrate: each setting of kube-proxy is classified; vipd accepts the written file."""
import json
import os
import subprocess
import time

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build")))
HEAD = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"}
SAME, DIFFERS, UNUSED, OTHER = USES = "same", "differs", "no-effect", "other-mode"
PROXY_MODES = ["nftables", "iptables", "ipvs"]

# All fields of kube-proxy 1.36, with values other than the default. The section of a mode has an
# effect in this mode only.
FIELDS = {
    "bindAddress": (SAME, "192.0.2.1"),
    "bindAddressHardFail": (SAME, True),
    "clientConnection.acceptContentTypes": (UNUSED, "application/json"),
    "clientConnection.burst": (SAME, 20),
    "clientConnection.contentType": (SAME, "application/json"),
    "clientConnection.kubeconfig": (DIFFERS, "/var/lib/kube-proxy/kubeconfig.conf"),
    "clientConnection.qps": (SAME, 10),
    "clusterCIDR": (SAME, "10.244.0.0/16"),
    "configSyncPeriod": (UNUSED, "10m0s"),
    "conntrack.maxPerCore": (DIFFERS, 1000),
    "conntrack.min": (SAME, 1000),
    "conntrack.tcpBeLiberal": (SAME, True),
    "conntrack.tcpCloseWaitTimeout": (SAME, "2h"),
    "conntrack.tcpEstablishedTimeout": (SAME, "2h"),
    "conntrack.udpStreamTimeout": (SAME, "2m"),
    "conntrack.udpTimeout": (SAME, "2m"),
    "detectLocal.bridgeInterface": (SAME, "cni0"),
    "detectLocal.interfaceNamePrefix": (SAME, "veth"),
    "detectLocalMode": (SAME, "BridgeInterface"),
    "enableProfiling": (UNUSED, True),
    "featureGates": (DIFFERS, {"WinDSR": True}),
    "healthzBindAddress": (SAME, "0.0.0.0:10000"),
    "hostnameOverride": (SAME, "n1"),
    "iptables.localhostNodePorts": (DIFFERS, True),
    "iptables.masqueradeAll": (SAME, True),
    "iptables.masqueradeBit": (UNUSED, 15),
    "iptables.minSyncPeriod": (DIFFERS, "2s"),
    "iptables.syncPeriod": (DIFFERS, "1m"),
    "ipvs.excludeCIDRs": (SAME, ["10.0.0.0/8"]),
    "ipvs.minSyncPeriod": (UNUSED, "2s"),
    "ipvs.scheduler": (SAME, "wrr"),
    "ipvs.strictARP": (UNUSED, True),
    "ipvs.syncPeriod": (UNUSED, "1m"),
    "ipvs.tcpFinTimeout": (SAME, "2m"),
    "ipvs.tcpTimeout": (SAME, "2h"),
    "ipvs.udpTimeout": (SAME, "2m"),
    "logging.flushFrequency": (UNUSED, "1s"),
    "logging.format": (SAME, "json"),
    "logging.options.json.infoBufferSize": None,  # below logging.options, which has no effect
    "logging.options.text.infoBufferSize": None,
    "logging.verbosity": (DIFFERS, 2),
    "logging.vmodule": (DIFFERS, [{"filePattern": "sync", "verbosity": 3}]),
    "metricsBindAddress": (SAME, "0.0.0.0:10001"),
    "mode": (DIFFERS, None),
    "nftables.masqueradeAll": (SAME, True),
    "nftables.masqueradeBit": (UNUSED, 15),
    "nftables.minSyncPeriod": (DIFFERS, "2s"),
    "nftables.syncPeriod": (DIFFERS, "1m"),
    "nodePortAddresses": (SAME, ["192.0.2.0/24"]),
    "oomScoreAdj": (SAME, -10),
    "portRange": (UNUSED, "1-2"),
    "showHiddenMetricsForVersion": (UNUSED, "1.35"),
    "winkernel.enableDSR": (UNUSED, True),
    "winkernel.forwardHealthCheckVip": (UNUSED, True),
    "winkernel.networkName": (UNUSED, "x"),
    "winkernel.rootHnsEndpointName": (UNUSED, "x"),
    "winkernel.sourceVip": (UNUSED, "x"),
}


def migrate(*args, text=None):
    return subprocess.run([os.path.join(BUILD, "vipctl"), "migrate", *args], input=text, text=True,
                          capture_output=True, timeout=120, check=False)


def results(*args, text=None):
    r = migrate("-o", "json", *args, text=text)
    assert r.returncode in (0, 1, 2) and r.stderr == "", r.stderr
    return json.loads(r.stdout)["results"]


def process_state(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]


def found(rows, check):
    return [r["found"] for r in rows if r["check"] == check]


def tree(values):
    out = dict(HEAD)
    for name, value in values.items():
        *path, last = name.split(".")
        at = out
        for key in path:
            at = at.setdefault(key, {})
        at[last] = value
    return out


def is_foreign(name, mode):
    """A field in the section of another mode; mode ipvs has one of iptables (CFG-28)."""
    section = name.split(".")[0]
    return section in PROXY_MODES and section != mode and (mode, name) != ("ipvs", "iptables.masqueradeAll")


def get(node, name):
    for key in name.split("."):
        node = node[key]
    return node


def flat(node, prefix=""):
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from flat(value, prefix + key + ".")
        else:
            yield prefix + key


def test_list_is_complete():
    """The list has the fields of every-field.yaml, which test_config reads."""
    with open(os.path.join(ROOT, "tests/data/config/every-field.yaml"), encoding="utf-8") as f:
        fields = set(flat(yaml.safe_load(f))) - set(HEAD)
    assert fields == set(FIELDS) | {"windowsRunAsService"}


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_every_field_is_classified(mode):
    values = {name: f[1] for name, f in FIELDS.items() if f}
    values["mode"] = mode
    rows = results("-", text=json.dumps(tree(values)))
    for name, field in FIELDS.items():
        if field is None:
            continue
        got = [use for use in USES for line in found(rows, use) if line.startswith(name + " ")]
        wanted = field[0]
        if wanted != UNUSED and is_foreign(name, mode):
            wanted = OTHER
        assert got == [wanted], name
    assert sum(len(found(rows, use)) for use in USES) == len([f for f in FIELDS.values() if f])


def test_switched_off():
    """A setting that is switched off has the same meaning, also if its other values differ."""
    values = {"mode": "iptables", "conntrack.maxPerCore": 0, "iptables.localhostNodePorts": False}
    flags = ["--conntrack-max-per-core=0", "--iptables-localhost-nodeports=false"]
    assert found(results("-", text=json.dumps(tree(values))), SAME) == [
        "conntrack.maxPerCore 0", "iptables.localhostNodePorts false"]
    assert found(results("--", *flags), SAME) == [flag.replace("=", " ") for flag in flags]


@pytest.mark.parametrize("mode", ("nftables", "ipvs"))
def test_flags_of_all_modes(mode, tmp_path):
    """A flag of the iptables section is effective in all modes, its field is not."""
    flags = ["--proxy-mode", mode, "--nodeport-addresses=127.0.0.0/8", "--iptables-localhost-nodeports"]
    rows = found(results("--", *flags), DIFFERS)
    assert [r for r in rows if r.startswith("--iptables-localhost-nodeports true: on ::1")]
    assert any("no field" in r for r in rows)
    written = yaml.safe_load(migrate("--write-config-to=-", "--", *flags).stdout)
    assert "nftables" not in written
    path = str(tmp_path / "c.yaml")
    r = subprocess.run([os.path.join(BUILD, "vipd"), *flags, "--metrics-port=0", "--write-config-to", path],
                       capture_output=True, text=True, timeout=60, check=True)
    assert r.stderr.strip().endswith("%s: written without flags that have no field for their value in mode %s: "
                                     "--iptables-localhost-nodeports, --metrics-port" % (path, mode))


def test_rejected():
    r = migrate("-", text=json.dumps(tree({"windowsRunAsService": True})))
    assert r.returncode == 2 and r.stdout == ""
    assert "/dev/stdin:1: windowsRunAsService: for Windows" in r.stderr
    r = migrate("/does/not/exist")
    assert r.returncode == 2 and "/does/not/exist" in r.stderr
    r = migrate()
    assert r.returncode == 2 and "migrate takes" in r.stderr
    r = migrate("--", "--proxy-mode=userspace")
    assert r.returncode == 2 and "--proxy-mode: 'userspace'" in r.stderr


def test_unknown_field():
    rows = results("-", text=json.dumps(tree({"ipTables": {}, "mode": "nftables"})))
    assert [r["level"] for r in rows if r["check"] == "ignored"] == ["warning"]
    assert "unknown field 'ipTables'" in found(rows, "ignored")[0]


@pytest.mark.parametrize("mode", PROXY_MODES)
def test_written_file(mode, tmp_path):
    """vipd reads the file without warnings about settings and uses all of them."""
    values = {name: f[1] for name, f in FIELDS.items() if f}
    values.update(mode=mode)
    old, new, full = (str(tmp_path / n) for n in ("old", "new", "full"))
    with open(old, "w", encoding="utf-8") as f:
        json.dump(tree(values), f)
    assert migrate(old, "--write-config-to", new).stdout.startswith("LEVEL")
    only = migrate("-", "--write-config-to=-", text=json.dumps(tree(values)))
    with open(new, encoding="utf-8") as f:
        text = f.read()
    assert (only.returncode, only.stdout, only.stderr) == (0, text, "")
    wanted = {name: value for name, value in values.items()
              if FIELDS[name][0] != UNUSED and not is_foreign(name, mode)}
    assert yaml.safe_load(text) == tree(wanted)
    seen = []
    for source in (old, new):
        r = subprocess.run([os.path.join(BUILD, "vipd"), "--config", source, "--write-config-to",
                            full], capture_output=True, text=True, timeout=60, check=False)
        assert r.returncode == 0, r.stderr
        with open(full, encoding="utf-8") as f:
            effective = yaml.safe_load(f)
        seen.append({name: get(effective, name) for name in wanted})
    assert seen[0] == seen[1]


def test_node_ports_of_mode_ipvs():
    """kube-proxy serves them on all addresses, vipd by default on the primary ones."""
    text = json.dumps(tree({"mode": "ipvs"}))
    assert any("nodePortAddresses is empty" in line for line in found(results("-", text=text),
                                                                      DIFFERS))
    written = yaml.safe_load(migrate("-", "--write-config-to=-", text=text).stdout)
    assert written == tree({"mode": "ipvs", "nodePortAddresses": ["0.0.0.0/0", "::/0"]})


@pytest.mark.parametrize("values", [{}, {"mode": ""}])
def test_default_mode(values):
    """kubeadm's file has an empty mode."""
    text = json.dumps(tree(values))
    assert found(results("-", text=text), DIFFERS) == [
        "mode is empty: kube-proxy's default, iptables, which vipd serves with nftables: doc/migration.md"]
    assert yaml.safe_load(migrate("-", "--write-config-to=-", text=text).stdout) == tree({"mode": "iptables"})


def test_kubeadm():
    """The file of kubeadm names fields of Windows with their defaults, and no mode."""
    windows = {name: False for name in ("winkernel.enableDSR", "winkernel.forwardHealthCheckVip")}
    rows = results("-", text=json.dumps(tree({"mode": "", "portRange": "1-2", **windows})))
    assert [line.partition(" ")[0] for line in found(rows, UNUSED)] == ["portRange", *windows]
    assert any("mode is empty" in line for line in found(rows, DIFFERS))


def test_slow_standard_input():
    with subprocess.Popen([os.path.join(BUILD, "vipctl"), "migrate", "-", "--write-config-to=-"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        for part in json.dumps(tree({"mode": "nftables"})).partition('"mode"'):
            p.stdin.write(part)
            p.stdin.flush()
            while process_state(p.pid) not in "SZ":  # waits for more input, or has exited
                time.sleep(0.01)
        out, _ = p.communicate(timeout=60)
    assert p.returncode == 0 and yaml.safe_load(out) == tree({"mode": "nftables"})


def test_flags():
    """kube-proxy's default mode is iptables; a flag sets a field of the section of the mode."""
    args = ["--", "--cluster-cidr=10.1.0.0/16", "--master=https://192.0.2.1", "--ipvs-scheduler=wrr",
            "--iptables-sync-period", "1m", "--masquerade-all"]
    rows = results(*args)
    assert found(rows, SAME) == [
        "--cluster-cidr 10.1.0.0/16",
        "--master https://192.0.2.1: no field in the configuration file", "--masquerade-all true"]
    assert found(rows, OTHER) == ["--ipvs-scheduler wrr: no effect, as in kube-proxy"]
    written = yaml.safe_load(migrate("--write-config-to=-", *args).stdout)
    assert written == tree({"mode": "iptables", "clusterCIDR": "10.1.0.0/16",
                            "iptables.syncPeriod": "1m", "iptables.masqueradeAll": True})
    written = yaml.safe_load(migrate("--write-config-to=-", "--", "--proxy-mode=nftables",
                                     "--iptables-sync-period=1m").stdout)
    assert written == tree({"mode": "nftables", "nftables.syncPeriod": "1m"})


def test_ports():
    """A port becomes part of the address that the file has; no server cannot be written."""
    args = ["--", "--metrics-port=9999", "--metrics-bind-address=0.0.0.0", "--healthz-port=0"]
    rows = results(*args)
    assert found(rows, SAME) == ["--metrics-port 9999", "--metrics-bind-address 0.0.0.0"]
    assert any(line.startswith("--healthz-port 0:") for line in found(rows, DIFFERS))
    written = yaml.safe_load(migrate("--write-config-to=-", *args).stdout)
    assert written == tree({"mode": "iptables", "metricsBindAddress": "0.0.0.0:9999"})


def test_probes():
    """An address of kube-proxy at which the probes of the DaemonSet do not reach vipd is a warning. RKE2 and k3s name a
    loopback address."""
    with open(os.path.join(ROOT, "deploy/base/daemonset.yaml"), encoding="utf-8") as f:
        (container,) = yaml.safe_load(f)["spec"]["template"]["spec"]["containers"]
    get = container["livenessProbe"]["httpGet"]
    for address, level in {"": None, "0.0.0.0": None, "[::]:10256": None, "127.0.0.1": "note", "::1": "warning",
                           "192.0.2.1": "warning", "0.0.0.0:9999": "warning"}.items():
        rows = [r for r in results("-", text=json.dumps(tree({"mode": "nftables", "healthzBindAddress": address})))
                if r["check"] == "probes"]
        assert [r["level"] for r in rows] == [level] * (level is not None), address
        if level == "warning":
            assert "use %s:%d" % (get["host"], get["port"]) in rows[0]["found"]


@pytest.mark.parametrize("args,mode", [(["--masquerade-all"], "iptables"), (["--proxy-mode=nftables"], "nftables"),
                                       (["--proxy-mode", "nftables"], "nftables")])
def test_flag_of_mode(args, mode):
    """The default mode is listed only without --proxy-mode."""
    assert [line.partition(":")[0] for line in found(results("--", *args), DIFFERS)] == ["--proxy-mode " + mode]


@pytest.mark.parametrize("key", ["config.conf", "config"])
@pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
def test_configmap(key, dump, tmp_path):
    """`kubectl get configmap -o yaml|json`: the keys of kubeadm and EKS, from a file and from standard input."""
    file = yaml.safe_dump(tree({"mode": "nftables", "clusterCIDR": "10.1.0.0/16"}))
    text = dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-proxy"},
                 "data": {key: file, "kubeconfig.conf": "kind: Config\n"}})
    (tmp_path / "map").write_text(text)
    wanted = found(results("-", text=file), SAME)
    assert wanted == ["clusterCIDR 10.1.0.0/16"]
    assert found(results("-", text=text), SAME) == found(results(str(tmp_path / "map")), SAME) == wanted
    r = migrate("-", text=text.replace("clusterCIDR", "windowsRunAsService"))
    assert r.returncode == 2 and "/dev/stdin:" in r.stderr and "windowsRunAsService" in r.stderr


def test_configmap_without_file():
    r = migrate("-", text=json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": ""}}))
    assert (r.returncode, r.stderr) == (
        2, "vipctl: -: ConfigMap without the key config.conf or config in data\n")
