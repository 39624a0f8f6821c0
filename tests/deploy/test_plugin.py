# SPDX-License-Identifier: GPL-2.0-or-later
"""kubectl-vipd, with a stand-in for kubectl that has three pods and writes down how it is called."""
import json
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLUGIN = os.path.join(ROOT, "deploy", "kubectl-vipd")
PODS = "n2 vipd-b Running\nn1 vipd-old Running2026-11-22T10:00:00Z\nn1 vipd-a Running\nn3 vipd-c Pending\n"
KUBECTL = r"""#!/usr/bin/python3
import json, os, sys
argv = sys.argv[1:]
with open(os.environ["CALLS"], "a") as f:
    f.write(json.dumps(argv) + "\n")
if os.environ.get("BROKEN"):
    sys.exit("error: no connection")
words = [a for a in argv if not a.startswith("-")]
if words[:2] == ["get", "pods"]:
    of = [a.split("=")[-1] for a in argv if a.startswith("--field-selector")]
    sys.stdout.write("".join(x + "\n" for x in os.environ["PODS"].splitlines() if not of or x.split()[0] == of[0]))
else:
    assert words[0] == "exec"
    print("from", words[1])
    sys.exit(int(os.environ.get("CODE_" + words[1].replace("-", "_"), "0")))
"""
SHELLS = [s for s in ("dash", "bash", "busybox") if shutil.which(s)]


@pytest.fixture
def call(tmp_path):
    """Run the plugin: (exit code, output, errors, calls of kubectl)."""
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    calls = tmp_path / "calls"

    def run(*argv, shell="dash", **env):
        calls.write_text("")
        r = subprocess.run([shell] + ["sh"] * (shell == "busybox") + [PLUGIN, *argv], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False,
                           env=dict(os.environ, PATH="%s:%s" % (tmp_path, os.environ["PATH"]), CALLS=str(calls),
                                    PODS=PODS, **env))
        return r.returncode, r.stdout, r.stderr, [json.loads(x) for x in calls.read_text().splitlines()]
    return run


@pytest.mark.parametrize("shell", SHELLS)
def test_node(call, shell):
    """The pod that is not terminating. Arguments of vipctl arrive unchanged, also with spaces and options."""
    code, out, err, calls = call("n1", "svc", "-n", "a b", "shop/web", shell=shell)
    assert (code, out, err) == (0, "from vipd-a\n", "")
    assert "--selector=app.kubernetes.io/name=vipd" in calls[0] and "--field-selector=spec.nodeName=n1" in calls[0]
    assert calls[1] == ["--namespace=kube-system", "exec", "vipd-a", "--container=vipd", "--", "vipctl", "svc", "-n", "a b",
                        "shop/web"]


def test_options_of_kubectl(call):
    code, _, _, calls = call("--context", "c 1", "--kubeconfig=/a b", "-n", "net", "-l", "app=x", "n2", "status")
    assert code == 0
    assert all(c[:3] == ["--context=c 1", "--kubeconfig=/a b", "--namespace=net"] for c in calls)
    assert "--selector=app=x" in calls[0] and calls[1][-3:] == ["--", "vipctl", "status"]


def test_exit_code(call):
    assert call("n1", "diff", CODE_vipd_a="1")[0] == 1
    code, out, _, _ = call("--all", "diff", CODE_vipd_a="4", CODE_vipd_b="1")
    assert (code, out) == (4, "== n1\nfrom vipd-a\n== n2\nfrom vipd-b\n")
    assert call("--all", "diff")[0] == 0


def test_list(call):
    code, out, _, calls = call()
    assert code == 0 and len(calls) == 1
    assert [line.split() for line in out.splitlines()] == [["NODE", "POD"], ["n1", "vipd-a"], ["n2", "vipd-b"]]


@pytest.mark.parametrize("argv, code, text", (
    (["n3", "status"], 3, "kubectl-vipd: node n3: no running pod with app.kubernetes.io/name=vipd in namespace kube-system\n"),
    (["n9", "status"], 3, "kubectl-vipd: node n9: no running pod"),
    (["n1"], 2, "kubectl-vipd: COMMAND is missing"),
    (["--frobnicate"], 2, "kubectl-vipd: --frobnicate: no such option"),
    (["-n"], 2, "kubectl-vipd: -n: needs a value"),
), ids=("pending", "unknown", "command", "option", "value"))
def test_errors(call, argv, code, text):
    found = call(*argv)
    assert found[0] == code and found[2].startswith(text) and found[1] == ""
    assert not [c for c in found[3] if "exec" in c]


@pytest.mark.parametrize("argv", (["n1", "status"], ["--all", "status"], []), ids=("node", "all", "list"))
def test_kubectl_fails(call, argv):
    """kubectl's own message, and a failure; no command is run."""
    code, out, err, calls = call(*argv, BROKEN="1")
    assert code != 0 and err == "error: no connection\n" and len(calls) == 1 and out == ""


def test_help_and_size(call):
    """Below 150 lines; the help names each option that the script reads."""
    code, out, _, calls = call("--help")
    assert code == 0 and not calls
    with open(PLUGIN, encoding="utf-8") as f:
        text = f.read()
    assert len(text.splitlines()) < 150
    for option in "--namespace", "--selector", "--context", "--kubeconfig", "--all":
        assert option in out and option in text.split("END\n")[-1]
