# SPDX-License-Identifier: GPL-2.0-or-later
"""deploy/: flags, permissions and paths in the manifests and the unit are those that vipd has
and needs."""
import base64
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))
VIPD = os.path.join(BUILD, "vipd")
VIPCTL = os.path.join(BUILD, "vipctl")
PYTHON = "/usr/bin/python3"
CAP_NET_ADMIN = 1 << 12
NODE = "n1"

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "tests")]

import kustomize  # noqa: E402
import sandbox  # noqa: E402
from apiserver.client import Server  # noqa: E402


def objects():
    """All objects that `kubectl apply -k deploy/` makes, by kind."""
    made = kustomize.build(DEPLOY).values()
    found = {o["kind"]: o for o in made}
    assert len(found) == len(made), "two objects of one kind"
    return found


def pod_spec():
    return objects()["DaemonSet"]["spec"]["template"]["spec"]


def container():
    return pod_spec()["containers"][0]


def init_container():
    (found,) = pod_spec()["initContainers"]
    return found


def known_flags():
    out = subprocess.run([VIPD, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (--?[a-z][a-z0-9-]*)", out, re.M))


# ---- manifests ----

def test_kinds_names_and_namespaces():
    found = objects()
    assert set(found) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ConfigMap",
                          "DaemonSet"}
    for kind, obj in found.items():
        assert re.fullmatch("vipd-config-[a-z0-9]{10}" if kind == "ConfigMap" else "vipd", obj["metadata"]["name"])
        assert obj["metadata"].get("namespace") == (
            None if kind.startswith("Cluster") else "kube-system")
    binding = found["ClusterRoleBinding"]
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                                  "name": "vipd"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "vipd",
                                    "namespace": "kube-system"}]


def rbac_rules():
    """{(group, resource): verbs} of the ClusterRole."""
    rules = {}
    for rule in objects()["ClusterRole"]["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                assert (group, resource) not in rules
                rules[group, resource] = set(rule["verbs"])
    return rules


def test_rbac_covers_what_is_read():
    """IN-01, IN-07: vipd only reads, and creates Events."""
    assert rbac_rules() == {
        ("", "services"): {"list", "watch"},
        ("discovery.k8s.io", "endpointslices"): {"list", "watch"},
        ("networking.k8s.io", "servicecidrs"): {"list", "watch"},
        ("", "nodes"): {"list", "watch"},
        ("events.k8s.io", "events"): {"create"},
    }


def test_daemonset():
    spec = objects()["DaemonSet"]["spec"]
    template = spec["template"]
    pod = template["spec"]
    labels = template["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert pod["hostNetwork"] and pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["serviceAccountName"] == objects()["ServiceAccount"]["metadata"]["name"]
    security = container()["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    assert "privileged" not in security
    volumes = {v["name"] for v in pod["volumes"]}
    assert {m["name"] for m in container()["volumeMounts"]} == volumes


def test_init_container_prepares_for_the_other():
    """The unit and the DaemonSet run one program with equal flags, and each sets its
    permissions."""
    init, main = init_container(), container()
    assert init["args"] == main["args"] + ["--init-only"]
    for field in "image", "env", "volumeMounts":
        assert init[field] == main[field]
    assert init["securityContext"]["privileged"]


def test_secret_of_the_unit_is_of_the_account():
    """doc/install.md, Credentials in a cluster: the token of the account that rbac.yaml makes, which has the role."""
    (text,) = re.findall(r"^kubectl apply -f - <<'END'\n(.*?)^END$", read("doc/install.md"), re.M | re.S)
    secret, account = json.loads(text), objects()["ServiceAccount"]["metadata"]
    assert (secret["kind"], secret["type"]) == ("Secret", "kubernetes.io/service-account-token")
    assert secret["metadata"]["namespace"] == account["namespace"]
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account["name"]}


def test_fields_of_kube_proxy_for_helm():
    """doc/migration.md: the list for Kustomize has the fields that do not come from kube-proxy."""
    text = read("doc/migration.md")
    ours = re.findall(r"^- (?:keep|remove) `(\w+)", text, re.M)
    (helm,) = re.findall(r"With helm, put its fields under `config`.*?: those of the chart", text, re.S)
    assert len(ours) == 3 and all("`%s`" % name in helm for name in ours), (ours, helm)


def test_token_of_the_unit_is_waited_for(tmp_path):
    """The Secret is empty at first."""
    (commands,) = re.findall(r"^END\n(.*? >ca.crt)$", read("doc/install.md"), re.M | re.S)
    (tmp_path / "kubectl").write_text("#!/bin/sh\n[ -e asked ] && echo dG9rZW4= || >asked\n")
    (tmp_path / "kubectl").chmod(0o755)
    subprocess.run(["sh", "-ec", commands], cwd=tmp_path, check=True, timeout=60,
                   env={"PATH": "%s:%s" % (tmp_path, os.environ["PATH"])})
    assert (tmp_path / "token").read_text() == (tmp_path / "ca.crt").read_text() == "token"


def test_flags_exist():
    flags = known_flags()
    assert "--manifests" in flags and "-v" in flags
    for arg in init_container()["args"] + container()["args"]:
        assert arg.split("=")[0] in flags
    names = {e["name"]: e for e in container()["env"]}
    used = set(re.findall(r"\$\((\w+)\)", " ".join(container()["args"])))
    assert used == set(names)
    assert names["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def probe(kind):
    """(host, path, port) of a probe, as the kubelet sends it: to the loopback address of the node."""
    get = container()[kind]["httpGet"]
    assert set(get) == {"host", "path", "port"} and get["host"] == "127.0.0.1"     # no TLS
    return get["host"], get["path"], get["port"]


def probed(netns, kind, other_host=None):
    """The status of a probe's answer."""
    host, path, port = probe(kind)
    return fetched(netns, other_host or host, port, path)


def fetched(netns, host, port, path):
    code = "import sys, http.client as h; c = h.HTTPConnection(sys.argv[1], timeout=60); " \
        "c.request('GET', sys.argv[2]); print(c.getresponse().status)"
    return int(subprocess.run(["ip", "netns", "exec", netns, sys.executable, "-c", code,
                               "%s:%d" % (host, port), path],
                              capture_output=True, text=True, check=True).stdout)


def write_config(folder):
    data = objects()["ConfigMap"]["data"]
    for name, text in data.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    return data


def test_configmap_is_accepted_without_a_word(tmp_path):
    write_config(tmp_path)
    mounts = {m["name"]: m["mountPath"] for m in container()["volumeMounts"]}
    path = next(a.split("=")[1] for a in container()["args"] if a.startswith("--config="))
    assert os.path.dirname(path) == mounts["config"]
    out = tmp_path / "out.yaml"
    r = subprocess.run([VIPD, "--config", tmp_path / os.path.basename(path), "--hostname-override",
                        NODE, "--write-config-to", out], capture_output=True, text=True,
                       check=False)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    effective = yaml.safe_load(out.read_text())
    assert effective["mode"] == "nftables"
    # kube-proxy's defaults, set by the init container.
    assert effective["conntrack"]["maxPerCore"] == 32768
    kubeconfig = effective["clientConnection"]["kubeconfig"]
    assert os.path.dirname(kubeconfig) == mounts["config"]
    assert os.path.basename(kubeconfig) in objects()["ConfigMap"]["data"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def test_one_version():
    """meson.build has the versions of vipd and of the libraries; files that repeat them agree."""
    version = re.search(r"version: '([\d.]+)'", read("meson.build"))[1]
    assert re.match(r"vipd \(([\d.]+)-\d+\)", read("debian/changelog"))[1] == version
    for folder in "deploy/base", "deploy/cleanup":
        images = {i["name"]: i["newTag"] for i in yaml.safe_load(read(folder + "/kustomization.yaml"))["images"]}
        assert images["vipd"] == version
    chart = yaml.safe_load(read("deploy/chart/Chart.yaml"))
    assert chart["version"] == chart["appVersion"] == version
    assert 'image.version="%s"' % version in read("deploy/Containerfile")
    assert "\nVersion:        %s\n" % version in read("deploy/vipd.spec")
    wanted = re.findall(r"dependency\('([\w.-]+)', version: '(>=)([\d.]+)'", read("meson.build"))
    assert len(wanted) >= 6
    for name, op, least in wanted:
        assert "\nBuildRequires:  pkgconfig(%s) %s %s\n" % (name, op, least) in read("deploy/vipd.spec")


@pytest.mark.skipif(not os.path.isdir(os.path.join(ROOT, ".git")), reason="no clone")
def test_archive_has_its_commit():
    """`vipd --version` of a build from `git archive`: the build reads src/cli/commit."""
    def git(*argv):
        return subprocess.run(["git", "-C", ROOT, *argv], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD", "src/cli/commit"))) as tar:
        assert tar.extractfile("src/cli/commit").read() == git("rev-parse", "HEAD")


# ---- systemd ----

def unit():
    with open(os.path.join(BUILD, "deploy", "vipd.service"), encoding="utf-8") as f:
        lines = [line.strip() for line in f]
    assert not any("@sbindir@" in line for line in lines)
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


def test_unit():
    u = unit()
    assert u["CapabilityBoundingSet"] == "CAP_NET_ADMIN CAP_LEASE"
    assert u["NoNewPrivileges"] == "yes" and u["ProtectSystem"] == "strict"
    assert "AF_NETLINK" in u["RestrictAddressFamilies"].split()
    assert u["Restart"] == "always" and u["Type"] == "notify"
    name, flags = u["Environment"].split("=", 1)
    assert "$" + name in u["ExecStart"] and u["ExecStart"].split()[0].endswith("/vipd")
    for flag in flags.split():
        assert flag.split("=")[0] in known_flags()


def test_unit_reload(tmp_path):
    """Without the program kill, which a minimal Debian lacks."""
    os.symlink(shutil.which("sh"), tmp_path / "sh")

    def default_signal():  # a parent may ignore it (nohup)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    with subprocess.Popen(["sleep", "60"], preexec_fn=default_signal) as child:
        env = {"PATH": str(tmp_path), "MAINPID": str(child.pid)}
        argv = [word.replace("$$", "$") if "$$" in word else re.sub(r"\$(\w+)", lambda m: env[m[1]], word)
                for word in shlex.split(unit()["ExecReload"])]
        try:
            program = shutil.which(argv[0], path=env["PATH"])
            assert program, "not found: " + argv[0]
            subprocess.run([program, *argv[1:]], env=env, check=True)
            assert child.wait(60) == -signal.SIGHUP
        finally:
            child.kill()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_unit_verifies(tmp_path):
    """No directive is misspelled. The program is installed at the path of ExecStart."""
    with open(os.path.join(BUILD, "deploy", "vipd.service"), encoding="utf-8") as f:
        text = f.read().replace(unit()["ExecStart"].split()[0], VIPD)
    path = tmp_path / "vipd.service"
    path.write_text(text)
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True,
                       text=True, check=False)
    assert not [line for line in r.stderr.splitlines() if "vipd.service" in line], r.stderr


# ---- CAP_NET_ADMIN is enough, and needed ----

def eventually(what, timeout=60):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "did not happen in %s s" % timeout
        time.sleep(0.02)


@pytest.fixture
def netns():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name = "vipd-deploy-%d" % os.getpid()
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "-n", name, "addr", "add", "198.51.100.1/32", "dev", "lo"],
                       check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def confinement(caps):
    """The DaemonSet's securityContext as directives of a unit: read-only root, /proc/sys and
    /sys, writable /run/vipd."""
    return [["CapabilityBoundingSet", " ".join("CAP_" + c.upper() for c in caps)],
            ["NoNewPrivileges", "yes"], ["ProtectSystem", "strict"],
            ["ProtectKernelTunables", "yes"], ["RuntimeDirectory", "vipd"]]


class Confined:
    """vipd as the DaemonSet runs it: uid 0 with these capabilities, in the pod's mounts."""

    EXAMPLES = ("--manifests", os.path.join(ROOT, "examples"))

    def __init__(self, netns, folder, caps, *flags, source=EXAMPLES):
        self.log_path = os.path.join(folder, "log")
        with open(self.log_path, "wb") as log:
            self.proc = subprocess.Popen(
                ["ip", "netns", "exec", netns, PYTHON, sandbox.__file__,
                 sandbox.request(confinement(caps), "errno"), VIPD, "--hostname-override", NODE] +
                list(source) + list(flags), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.socket = "/proc/%d/root/run/vipd/control.sock" % self.proc.pid

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def status(self):
        r = subprocess.run([VIPCTL, "--socket", self.socket, "-o", "json", "status"],
                           capture_output=True, text=True, check=False)
        return json.loads(r.stdout) if r.stdout else {}

    def is_settled(self):
        assert self.proc.poll() is None, self.log()
        s = self.status()
        return s.get("state") == "running" and s["pending"]["services"] == 0

    def capabilities(self):
        with open("/proc/%d/status" % self.proc.pid, encoding="ascii") as f:
            return int(re.search(r"^CapEff:\s*(\w+)", f.read(), re.M)[1], 16)

    def close(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGKILL)
        self.proc.wait(60)


def init_only(netns, *flags, check=True):
    """The init container: privileged."""
    return subprocess.run(["ip", "netns", "exec", netns, VIPD, "--hostname-override", NODE,
                           "--init-only"] + list(flags), capture_output=True, text=True, check=check)


def established_timeout(netns):
    return subprocess.run(
        ["ip", "netns", "exec", netns, "cat",
         "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"],
        capture_output=True, text=True, check=True).stdout.strip()


def refused(log):
    """Lines about denied writes. Only the first namespace can set the number of buckets."""
    return [x for x in log.splitlines() if re.search("not permitted|denied|[Rr]ead-only", x) and
            "hashsize" not in x]


def ruleset(netns):
    return subprocess.run(["ip", "netns", "exec", netns, "nft", "list", "ruleset"],
                          capture_output=True, text=True, check=True).stdout


def without_guard(rules):
    """Its tables end with the process."""
    return re.sub(r"^table ip6? vipd-guard \{.*?^\}\n", "", rules, flags=re.M | re.S)


def test_init_only_loads_ipvs(netns):
    """In mode ipvs it loads the module, whose sysctls it sets, or fails: they cannot be set later."""
    r = init_only(netns, "--proxy-mode", "ipvs", check=False)
    path = "/proc/sys/net/ipv4/vs/conntrack"
    value = subprocess.run(["ip", "netns", "exec", netns, "cat", path], capture_output=True,
                           text=True, check=False).stdout.strip()
    assert (r.returncode, value) == (0, "1") or (r.returncode != 0 and "ip_vs" in r.stderr), r


def test_net_admin_is_enough(netns, tmp_path):
    write_config(tmp_path)
    config = tmp_path / "config.yaml"
    text = config.read_text().replace("    kubeconfig: /etc/vipd/kubeconfig.yaml", "").replace(
        "clientConnection:\n", "").replace("  kubeconfig: /etc/vipd/kubeconfig.yaml\n", "")
    config.write_text(text)
    init_only(netns, "--config", str(config), *Confined.EXAMPLES)
    assert established_timeout(netns) == "86400" and "vipd" not in ruleset(netns)
    v = Confined(netns, str(tmp_path), ["net_admin"], "--config", str(config))
    try:
        eventually(v.is_settled)
        for other_host in (None, "198.51.100.1"):
            assert probed(netns, "livenessProbe", other_host) == 200
            assert probed(netns, "readinessProbe", other_host) == 200
        # Metrics in the cluster, the status page not.
        port = next(p["containerPort"] for p in container()["ports"] if p["name"] == "metrics")
        assert [fetched(netns, "198.51.100.1", port, path) for path in ("/metrics", "/")] == [200, 404]
        assert v.capabilities() == CAP_NET_ADMIN
        held = ruleset(netns)
        assert "table ip vipd" in held and "10.96.0.10" in held
        assert not refused(v.log()), v.log()
    finally:
        v.close()


@pytest.mark.parametrize("address", ["127.0.0.1:10256", "[::]:10256"])
def test_probes_reach_other_addresses(netns, tmp_path, address):
    """The first one is that of kube-proxy on RKE2 and k3s, the other one that of nodes with IPv6."""
    v = Confined(netns, str(tmp_path), ["net_admin"], "--healthz-bind-address", address)
    try:
        eventually(v.is_settled)
        assert [probed(netns, kind) for kind in ("livenessProbe", "readinessProbe")] == [200, 200]
    finally:
        v.close()


def test_without_the_init_container(netns, tmp_path):
    """The other test can fail: the limits stay those of the kernel, and the log says so.
    Services are served."""
    v = Confined(netns, str(tmp_path), ["net_admin"])
    try:
        eventually(v.is_settled)
        assert established_timeout(netns) != "86400"
        assert any("tcp_timeout_established: cannot be set to 86400" in x for x in refused(v.log()))
        assert probed(netns, "readinessProbe") == 200
    finally:
        v.close()


def test_without_net_admin_nothing_is_served(netns, tmp_path):
    """The other test can fail."""
    v = Confined(netns, str(tmp_path), [])
    try:
        eventually(lambda: "Operation not permitted: vipd needs CAP_NET_ADMIN" in v.log())
        assert probed(netns, "readinessProbe") == 503
        eventually(lambda: v.status()["sync"]["last_error"])
        time.sleep(1)
        assert probed(netns, "readinessProbe") == 503
        assert v.status()["state"] == "loading"
        assert "CAP_NET_ADMIN" in v.status()["sync"]["last_error"]["text"]
        assert v.log().count("Operation not permitted: vipd needs") == 1, v.log()
        assert "table ip vipd" not in ruleset(netns)
    finally:
        v.close()


def test_rbac_covers_requests(netns, tmp_path):
    """The ConfigMap with another server address and another path of the account's files."""
    write_config(tmp_path)
    with Server(netns=netns) as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
                 "status": {"addresses": [{"type": "InternalIP", "address": "10.244.0.1"}]}})
        api.load(services=3, endpoints=2)
        with open(api.kubeconfig("token"), encoding="utf-8") as f:
            theirs = yaml.safe_load(f)
        token = tmp_path / "token"
        token.write_text(theirs["users"][0]["user"]["token"])
        ca = tmp_path / "ca.crt"
        cluster = theirs["clusters"][0]["cluster"]
        if "certificate-authority-data" in cluster:
            ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        else:
            shutil.copy(cluster["certificate-authority"], ca)
        text = (tmp_path / "kubeconfig.yaml").read_text()
        for old, new in (("https://control-plane:6443", cluster["server"]),
                         ("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt", str(ca)),
                         ("/var/run/secrets/kubernetes.io/serviceaccount/token", str(token))):
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "kubeconfig.yaml").write_text(text)
        config = tmp_path / "config.yaml"
        config.write_text(config.read_text().replace("/etc/vipd/", str(tmp_path) + "/"))
        wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wrong", "namespace": "shop"},
                 "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 70000}]}}
        api.put(wrong, raw=True)
        v = Confined(netns, str(tmp_path), ["net_admin"], "--config", str(config), "--events-period=100ms", source=())
        try:
            eventually(v.is_settled, 20)
            api.wait(watches={r: 1 for _, r in rbac_rules() if r != "events"})
            eventually(lambda: api.posted()["posted"], 20)
            assert probed(netns, "readinessProbe") == 200
            asked = {}
            for r in api.requests():
                asked.setdefault(r["resource"], set()).add(r["verb"].replace("watchlist", "watch"))
        finally:
            v.close()
    assert set(asked) == {resource for _, resource in rbac_rules()}
    for (_, resource), verbs in rbac_rules().items():
        assert asked[resource] <= verbs
        assert asked[resource] >= verbs - {"list"}  # a watch may begin with the list


# ---- a ConfigMap that changes, as kubelet brings it ----

def kubelet_put(folder, text, generation):
    """A separate folder for each version, and one link that is changed to it."""
    data = os.path.join(folder, "..%d" % generation)
    os.mkdir(data)
    with open(os.path.join(data, "config.yaml"), "w", encoding="utf-8") as f:
        f.write(text)
    os.symlink(os.path.basename(data), os.path.join(folder, "..data_tmp"))
    os.rename(os.path.join(folder, "..data_tmp"), os.path.join(folder, "..data"))
    if not os.path.lexists(os.path.join(folder, "config.yaml")):
        os.symlink("..data/config.yaml", os.path.join(folder, "config.yaml"))


def test_configuration_changes(netns, tmp_path):
    """CFG-04: an invalid file is logged, an equal one has no effect, another one ends the
    process."""
    folder = tmp_path / "etc"
    folder.mkdir()
    head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" \
        "mode: nftables\n"
    kubelet_put(folder, head, 1)
    v = Confined(netns, str(tmp_path), ["net_admin"], "--config", str(folder / "config.yaml"))
    try:
        eventually(v.is_settled)
        before = ruleset(netns)
        kubelet_put(folder, head + "mode: [\n", 2)
        eventually(lambda: "configuration: rejected: " in v.log())
        assert "config.yaml:5" in v.log()
        kubelet_put(folder, head + "# the same\n", 3)
        time.sleep(0.3)
        assert v.proc.poll() is None
        kubelet_put(folder, head + "clusterCIDR: 10.0.0.0/8\n", 4)
        assert v.proc.wait(60) == 1
        assert "config.yaml: changed" in v.log()
        assert ruleset(netns) == without_guard(before)
    finally:
        v.close()
