# SPDX-License-Identifier: GPL-2.0-or-later
"""deploy/overlays and deploy/cleanup: what they change, and vipd under what they state."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
import yaml

import ctnetlink
import kustomize
import lab as L
import sandbox
from apiserver.client import Server
from test_sandbox import objects as service_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
OVERLAYS = sorted(glob.glob(DEPLOY + "/overlays/*"))
FOLDERS = [DEPLOY, DEPLOY + "/cleanup", DEPLOY + "/monitoring"] + OVERLAYS
PYTHON = "/usr/bin/python3"
EXAMPLES = ["--manifests", os.path.join(ROOT, "examples"), "--hostname-override", "node-1"]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="private namespaces need root")


def of_kind(folder, kind):
    (found,) = [o for o in kustomize.build(folder).values() if o["kind"] == kind]
    return found


def pod(folder):
    return of_kind(folder, "DaemonSet")["spec"]["template"]["spec"]


@pytest.mark.parametrize("folder", FOLDERS, ids=os.path.basename)
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectl_builds_these_objects(folder):
    """kustomize.py, which the other tests use, and kubectl make equal objects."""
    r = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    made = {kustomize.key(o): o for o in yaml.safe_load_all(r.stdout)}
    assert kustomize.without_hash(made) == kustomize.without_hash(kustomize.build(folder))


with open(os.path.join(ROOT, "tests", "data", "kubernetes-types.yaml"), encoding="utf-8") as _f:
    TYPES = yaml.safe_load(_f)
SCALARS = {"str": str, "int": int, "bool": bool, "object": (int, str)}


def problems(value, kind, path):
    """What the API server rejects, and what it drops: unknown and missing fields, values of another type."""
    kind = kind.rstrip("!")
    inner = kind[kind.find("[") + 1:-1] if kind.startswith("list[") else "str"
    if kind in SCALARS:
        is_of = isinstance(value, SCALARS[kind]) and isinstance(value, bool) == (kind == "bool")
        return [] if is_of else ["%s: %r is not %s" % (path, value, kind)]
    if not isinstance(value, list if kind.startswith("list[") else dict):
        return ["%s: %r is not %s" % (path, value, kind)]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in problems(v, inner, "%s[%d]" % (path, i))]
    if kind.startswith("dict("):
        return [p for k, v in value.items() for p in problems(v, inner, path + "." + k)]
    assert kind in TYPES, "%s: add %s to kubernetes-types.yaml" % (path, kind)
    fields = TYPES[kind]
    return ["%s: no field %s" % (path, k) for k in value.keys() - fields.keys()] + [
        "%s: %s is missing" % (path, k) for k, t in fields.items() if t.endswith("!") and k not in value] + [
        p for k in value.keys() & fields.keys() for p in problems(value[k], fields[k], "%s.%s" % (path, k))]


@pytest.mark.parametrize("folder", FOLDERS, ids=os.path.basename)
def test_objects_have_fields_of_the_api(folder):
    """Except kinds of operators and OpenShift."""
    for obj in kustomize.build(folder).values():
        if obj["apiVersion"] in ("v1", "apps/v1", "rbac.authorization.k8s.io/v1"):
            assert problems(obj, obj["kind"], obj["kind"]) == []


def test_wrong_fields_are_found():
    """The test above can fail."""
    obj = of_kind(DEPLOY, "DaemonSet")
    spec = obj["spec"]["template"]["spec"]
    spec["hostnetwork"] = True
    spec["containers"][0]["securityContext"]["runAsUser"] = "0"
    spec["terminationGracePeriodSeconds"] = True
    spec["tolerations"] = {"operator": "Exists"}
    del spec["volumes"][0]["name"]
    assert sorted(p.split("spec.template.")[1].partition(": ")[0] for p in problems(obj, "DaemonSet", "")) == [
        "spec", "spec.containers[0].securityContext.runAsUser", "spec.terminationGracePeriodSeconds", "spec.tolerations",
        "spec.volumes[0]"]


def effective(folder, tmp_path):
    """The configuration that vipd makes of the ConfigMap; no warning."""
    for name, text in of_kind(folder, "ConfigMap")["data"].items():
        (tmp_path / name).write_text(text)
    r = subprocess.run([L.program("vipd"), "--config", tmp_path / "config.yaml", "--hostname-override", "node-1",
                        "--write-config-to", tmp_path / "out"], capture_output=True, text=True, check=False)
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    return yaml.safe_load((tmp_path / "out").read_text())


@pytest.mark.parametrize("folder", [DEPLOY] + OVERLAYS, ids=os.path.basename)
def test_configuration_rolls_out_like_an_image(folder):
    """The pod template names the content of the ConfigMap, so that the DaemonSet replaces the pods when it changes. The
    object that pods of the earlier template mount cannot be edited."""
    config, base = of_kind(folder, "ConfigMap"), of_kind(DEPLOY, "ConfigMap")
    (volume,) = [v for v in pod(folder)["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    assert (config["metadata"]["name"] == base["metadata"]["name"]) == (config["data"] == base["data"])
    assert config["immutable"]


# Fields of the configuration that an overlay changes.
CHANGED = {
    "ipvs": {"mode": "ipvs", "ipvs.scheduler": "rr"},
    "dual-stack": {"clusterCIDR": "10.244.0.0/16,fd00:10:244::/56"},
    "openshift": {}, "seccomp": {},
}


def flat(tree, prefix=""):
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, prefix + name + ".")
        else:
            yield prefix + name, value


@pytest.mark.parametrize("folder", OVERLAYS, ids=os.path.basename)
def test_configuration(folder, tmp_path):
    base, made = (dict(flat(effective(f, tmp_path))) for f in (DEPLOY, folder))
    expected = CHANGED[os.path.basename(folder)]
    assert {k: v for k, v in made.items() if base.get(k) != v} == {
        k: v for k, v in expected.items() if base.get(k) != v}
    assert expected.items() <= made.items()


@pytest.mark.parametrize("folder", OVERLAYS, ids=os.path.basename)
def test_pod_stays_confined(folder):
    """An overlay adds no permission: NET_ADMIN, read-only root, the mounts of the base."""
    made, base = (pod(f)["containers"][0] for f in (folder, DEPLOY))
    security = dict(made["securityContext"])
    security.pop("seLinuxOptions", None)
    security["seccompProfile"] = base["securityContext"]["seccompProfile"]
    assert security == base["securityContext"]
    assert {k: v for k, v in made.items() if k != "securityContext"} == {
        k: v for k, v in base.items() if k != "securityContext"}
    assert pod(folder)["initContainers"] == pod(DEPLOY)["initContainers"]


def test_scc_admits_the_pod():
    """Each field of the pod that OpenShift's admission compares with the SCC is allowed; nothing more is."""
    folder = DEPLOY + "/overlays/openshift"
    scc, spec = of_kind(folder, "SecurityContextConstraints"), pod(folder)
    everyone = spec["initContainers"] + spec["containers"]
    security = [c["securityContext"] for c in everyone]
    assert scc["allowHostNetwork"] == spec["hostNetwork"]
    assert scc["allowHostPorts"] == any(c.get("ports") for c in everyone)
    assert scc["allowHostPID"] == spec.get("hostPID", False) and scc["allowHostIPC"] == spec.get("hostIPC", False)
    assert scc["allowPrivilegedContainer"] == any(s.get("privileged") for s in security)
    assert scc["readOnlyRootFilesystem"] and all(s["readOnlyRootFilesystem"] for s in security)
    added = {c for s in security for c in s.get("capabilities", {}).get("add", [])}
    assert set(scc["allowedCapabilities"]) == added
    # The account's token is a projected volume of the API server.
    kinds = {k for v in spec["volumes"] for k in v if k != "name"} | {"projected"}
    assert set(scc["volumes"]) == kinds and scc["allowHostDirVolumePlugin"] == ("hostPath" in kinds)
    for field in "runAsUser", "seLinuxContext":     # uid 0, spc_t
        assert scc[field] == {"type": "RunAsAny"}
    # The profile of overlays/seccomp and the base's.
    assert set(scc["seccompProfiles"]) == {"runtime/default", "localhost/" + pod(
        DEPLOY + "/overlays/seccomp")["containers"][0]["securityContext"]["seccompProfile"]["localhostProfile"]}
    made = kustomize.build(folder)
    role = made["rbac.authorization.k8s.io/v1", "Role", "vipd-scc"]
    assert role["rules"] == [{"apiGroups": [scc["apiVersion"].split("/")[0]], "verbs": ["use"],
                              "resources": ["securitycontextconstraints"],
                              "resourceNames": [scc["metadata"]["name"]]}]
    binding = made["rbac.authorization.k8s.io/v1", "RoleBinding", "vipd-scc"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": spec["serviceAccountName"],
                                    "namespace": "kube-system"}]
    annotations = of_kind(folder, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"openshift.io/required-scc": scc["metadata"]["name"]}


# ---- cleanup ----

def confinement(container):
    """The container's securityContext as directives of a unit."""
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] and security["runAsUser"] == 0
    assert [m["mountPath"] for m in container["volumeMounts"]] == ["/run/vipd"]
    out = [["ProtectSystem", "strict"], ["RuntimeDirectory", "vipd"]]
    if not security.get("privileged"):
        out += [["CapabilityBoundingSet", " ".join("CAP_" + c for c in security["capabilities"]["add"])],
                ["NoNewPrivileges", "yes"], ["ProtectKernelTunables", "yes"]]
    else:
        out += [["CapabilityBoundingSet", " ".join("CAP_" + c.upper() for c in sandbox.CAPS)]]
    return out


@needs_root
def test_cleanup_removes_the_kernel_state(netns):
    """The init container, as the DaemonSet confines it, after the end of vipd. Tolerations and selector: vipd's."""
    made, base = pod(DEPLOY + "/cleanup"), pod(DEPLOY)
    for field in "hostNetwork", "nodeSelector", "tolerations":
        assert made[field] == base[field]
    assert [v for v in base["volumes"] if v["name"] == "run"] == made["volumes"]
    # The label with which doc/migration.md keeps vipd on a node; hostPID: a vipd without lock is visible.
    (term,) = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "vipd.io/proxy", "operator": "DoesNotExist"}]} and made["hostPID"]
    (c,) = made["initContainers"]
    vipd = netns.popen(PYTHON, sandbox.__file__, sandbox.request(confinement(c), "errno"), L.program("vipd"), *EXAMPLES,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        L.eventually(lambda: "10.96.0.10" in netns.run("nft", "list", "ruleset"), L.PATIENCE, "vipd does not serve")
        # The private /run of vipd, as the hostPath volume shares it.
        shared = ["nsenter", "--mount=/proc/%d/ns/mnt" % vipd.pid, L.program("vipd")] + c["args"]
        said = netns.popen(*shared, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text = said.communicate()[0]
        assert said.returncode == 1 and "another vipd" in text, text
        assert "10.96.0.10" in netns.run("nft", "list", "ruleset")
    finally:
        vipd.kill()
        vipd.wait()
    assert "table ip vipd" in netns.run("nft", "list", "ruleset")
    after = netns.popen(PYTHON, sandbox.__file__, sandbox.request(confinement(c), "errno"), L.program("vipd"), *c["args"],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = after.communicate()[0]
    assert after.returncode == 0, text
    assert netns.run("nft", "list", "ruleset") == ""


# ---- the proxy's label ----

TERMS = [{"matchExpressions": [{"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["fargate"]}]}]
OURS = {"key": "vipd.io/proxy", "operator": "DoesNotExist"}


@pytest.mark.parametrize("kind, terms", [("merge", None), ("json", TERMS)])
@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_patches_of_kube_proxy(tmp_path, kind, terms):
    """Those of doc/migration.md, for a DaemonSet without affinity and for EKS's: its own constraint stays."""
    with open(os.path.join(ROOT, "doc", "migration.md"), encoding="utf-8") as f:
        (patch,) = re.findall(r"patch daemonset kube-proxy --type=%s -p '([^']*)'" % kind, f.read())
    obj = of_kind(DEPLOY, "DaemonSet")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if terms:
        obj["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    (tmp_path / "kube-proxy.yaml").write_text(yaml.safe_dump(obj))
    r = subprocess.run(["kubectl", "patch", "--local", "-f", tmp_path / "kube-proxy.yaml", "--type=" + kind, "-p", patch,
                        "-o", "yaml"], capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr
    (term,) = yaml.safe_load(r.stdout)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert term == {"matchExpressions": (terms or [{"matchExpressions": []}])[0]["matchExpressions"] + [OURS]}


def test_label_is_removed_before_the_cleanup():
    """No pod of the cleanup starts on a node with the label, and `rollout status` does not wait for that node."""
    with open(os.path.join(DEPLOY, "README.md"), encoding="utf-8") as f:
        leaving = f.read().split("### Leaving vipd\n")[1].split("\n## ")[0]
    steps = re.split(r"^\d\. ", leaving, flags=re.M)
    assert "kubectl label nodes --all vipd.io/proxy-" in steps[2]
    commands = ["apply -k deploy/cleanup/", "get daemonset vipd-cleanup", "rollout status", "delete -k deploy/cleanup/"]
    assert [c for line in steps[3].splitlines() for c in commands if re.match(" +kubectl .*" + c, line)] == commands
    with open(os.path.join(ROOT, "doc", "migration.md"), encoding="utf-8") as f:
        named = re.findall(r"steps? ([\d and]+) of\s\[Leaving vipd\]", f.read())
    assert len(named) >= 3 and set(named) == {"2 and 3"}


# ---- system calls ----

CLONE_NEW_ANY = 0x7E020000  # without CLONE_NEWTIME, which clone() does not have


def profile():
    """Names of allowed calls, of the file that the overlay names. `clone` without new namespaces, as
    RestrictNamespaces= has it; clone3, whose flags a filter cannot read, does not exist."""
    folder = DEPLOY + "/overlays/seccomp"
    named = pod(folder)["containers"][0]["securityContext"]["seccompProfile"]
    assert named == {"type": "Localhost", "localhostProfile": "vipd.json"}
    with open(os.path.join(folder, named["localhostProfile"]), encoding="utf-8") as f:
        p = json.load(f)
    assert p["defaultAction"] == "SCMP_ACT_ERRNO" and p["defaultErrnoRet"] == 1     # EPERM
    plain, clone, clone3 = p["syscalls"]
    assert set(plain) == {"names", "action"} and plain["action"] == "SCMP_ACT_ALLOW"
    assert plain["names"] == sorted(set(plain["names"]))
    assert clone == {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
        {"index": 0, "value": CLONE_NEW_ANY, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}
    assert clone3 == {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}     # ENOSYS
    return set(plain["names"]) | {"clone", "clone3"}


def filtered(calls):
    """As the container: /run is private, other folders are not."""
    return sandbox.request([["CapabilityBoundingSet", "CAP_NET_ADMIN"], ["NoNewPrivileges", "yes"],
                            ["ProtectKernelTunables", "yes"], ["RuntimeDirectory", "vipd"],
                            ["RestrictNamespaces", "yes"]], "kill", calls)


needs_seccomp = pytest.mark.skipif(
    subprocess.run([PYTHON, "-c", "import seccomp"], capture_output=True, check=False).returncode,
    reason="the Python module `seccomp` (Debian package python3-seccomp) is missing")


class Filtered:
    """vipd and vipctl, killed at their first call that is not in `calls`."""

    def __init__(self, netns, folder, calls, *flags):
        self.netns, self.calls, self.socket = netns, calls, os.path.join(folder, "control.sock")
        self.log_path = os.path.join(folder, "log")
        with open(self.log_path, "wb") as log:
            self.proc = netns.popen(PYTHON, sandbox.__file__, filtered(calls), L.program("vipd"), "--hostname-override",
                                    "node-1", "--control-socket", self.socket, *flags, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def ctl(self, *argv):
        p = self.netns.popen(PYTHON, sandbox.__file__, filtered(self.calls), L.program("vipctl"), "--socket",
                             self.socket, *argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, said = p.communicate()
        return p.returncode, out, said

    def is_running(self):
        assert self.proc.poll() is None, "ended with %d: %s" % (self.proc.returncode, self.log())
        code, out, _ = self.ctl("-o", "json", "status")
        return code == 0 and json.loads(out)["state"] == "running"

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()


@needs_root
@needs_seccomp
def test_profile_is_enough(netns, tmp_path):
    """Serve from an API server, delete a flow to a removed endpoint (helper process), answer vipctl and a probe, reload
    and exit, with each other call fatal."""
    calls = profile()
    with Server(netns=netns.name) as api:
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"},
                 "status": {"addresses": [{"type": "InternalIP", "address": "10.244.0.1"}]}})
        api.put(*service_of("10.244.2.1", "10.244.2.2"))
        v = Filtered(netns, str(tmp_path), calls, "--kubeconfig", api.kubeconfig("token"))
        ct = ctnetlink.Conntrack(netns)
        try:
            L.eventually(v.is_running, L.PATIENCE, v.log)
            ct.insert("udp", "198.51.100.9", 1024, "10.96.0.40", 53, "10.244.2.2", 5353)
            api.put(*service_of("10.244.2.1"))
            L.eventually(lambda: not ct.to("10.96.0.40", 53), L.PATIENCE, "the flow stays")
            for argv in ["svc"], ["svc", "dns"], ["diff"], ["doctor"], ["log"], ["dump", "--bundle"], \
                    ["trace", "198.51.100.9", "10.96.0.40:53/udp"]:
                code, _, said = v.ctl(*argv)
                assert code >= 0 and not said, (argv, code, said)
            assert v.is_running()
            v.proc.terminate()
            assert v.proc.wait() == 0, v.log()
        finally:
            ct.close()
            v.close()


# Removed one at a time: a call of each kind that the other test must have made.
@pytest.mark.parametrize("call", ("accept4", "inotify_add_watch", "setsockopt", "timerfd_settime"))
@needs_root
@needs_seccomp
def test_profile_test_can_fail(netns, tmp_path, call):
    v = Filtered(netns, str(tmp_path), profile() - {call}, *EXAMPLES[:2])
    try:
        def is_killed():
            subprocess.run([L.program("vipctl"), "--socket", v.socket, "status"], capture_output=True, check=False)
            return v.proc.poll() == -signal.SIGSYS
        L.eventually(is_killed, L.PATIENCE, v.log)
    finally:
        v.close()


def test_profile_denies():
    """No call that changes mounts, namespaces, modules, keys, other processes or the clock."""
    denied = set("mount umount2 pivot_root move_mount open_tree fsopen setns unshare init_module finit_module delete_module "
                 "kexec_load bpf perf_event_open ptrace process_vm_readv process_vm_writev keyctl add_key request_key "
                 "clock_settime clock_adjtime settimeofday reboot swapon io_uring_setup userfaultfd personality mknod "
                 "mknodat acct quotactl syslog sethostname chroot".split())
    assert not denied & profile()
