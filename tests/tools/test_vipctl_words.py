# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl without vipd: typing mistakes, forms of options, errors as JSON."""
import json
import os
import pty
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VIPCTL = os.path.join(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build")), "vipctl")
PROBLEM, USAGE, NO_VIPD = 1, 2, 3

pytestmark = pytest.mark.skipif(not os.access(VIPCTL, os.X_OK), reason="vipctl is not built")


def vipctl(*args, **env):
    r = subprocess.run([VIPCTL] + list(args), env=dict(os.environ, **env), capture_output=True,
                       text=True, timeout=60, check=False)
    assert r.stdout == ""
    return r.returncode, r.stderr


@pytest.mark.parametrize("args,words", [
    (["statsu"], "unknown command 'statsu' (did you mean 'status'?); see vipctl --help"),
    (["svcs"], "'svc'"), (["dotcor"], "'doctor'"), (["undrian"], "'undrain'"),
    (["svc", "--kernal"], "unknown option '--kernal' (did you mean '--kernel'?)"),
    (["--outptu=json", "svc"], "'--output'"), (["svc", "-x"], "unknown option '-x'"),
    (["svc", "--socket"], "--socket: value missing: PATH"),
    (["svc", "--kernel=yes"], "--kernel: 'yes' is not true or false"),
    (["--socket=/nowhere", "-zq", "svc"], "unknown option '-z'"),
])
def test_typing_mistakes(args, words):
    code, said = vipctl(*args)
    assert code == USAGE and words in said


@pytest.mark.parametrize("args,words", [
    (["svc", "--kernel", "-n", "shop"], "--namespace excludes --kernel"),
    (["svc", "--kernel", "--state", "ok"], "--state excludes --kernel"),
    (["svc", "--kernel", "-o", "name"], "svc --kernel does not take -o name"),
    (["svc", "--plane", "ipvs"], "--plane requires --kernel"),
    (["dump", "--plane", "ipvs"], "--plane requires --bundle"),
    (["dump", "--bundle", "-n", "shop"], "--namespace excludes --bundle"),
    (["trace", "--live", "-w", "host", "10.0.0.1:80"], "--watch excludes --live"),
    (["diff", "--node", "n1"], "--node requires --manifests"),
    (["diff", "--nodeport-addresses", "primary"], "--nodeport-addresses requires --manifests"),
    (["diff", "--bind-address", "10.0.0.1"], "--bind-address requires --manifests"),
    (["diff", "--feature-gates", "X=true"], "--feature-gates requires --manifests"),
    (["diff", "--ipvs-scheduler", "rr"], "--ipvs-scheduler requires --manifests"),
    (["dump", "-o", "yaml"], "dump takes -o json, not yaml"),
    (["trace", "--live", "-o", "yaml", "host", "10.0.0.1:80"], "--live writes text"),
])
def test_options_without_effect(args, words):
    code, said = vipctl(*args)
    assert code == USAGE and words in said


def test_no_suggestion():
    assert "did you mean" not in vipctl("frobnicate")[1]


@pytest.mark.parametrize("args", [["-w=1", "status"], ["status", "-w"], ["status", "--watch=1"]])
def test_watch(args):
    """A valid --watch runs until it is interrupted."""
    p = subprocess.Popen([VIPCTL, "--socket", "/nowhere"] + args, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
    try:
        assert "no socket /nowhere" in p.stderr.readline()
        assert p.poll() is None
    finally:
        p.kill()
        p.wait()


def test_watch_repaints():
    """Also with -o wide, where the width of the terminal does not matter."""
    ours, its = pty.openpty()
    p = subprocess.Popen([VIPCTL, "--socket", "/nowhere", "status", "-w", "-o", "wide"], stdout=its,
                         stderr=subprocess.DEVNULL)
    try:
        assert os.read(ours, 100).startswith(b"\033[H\033[2J")
    finally:
        p.kill()
        p.wait()
        os.close(its)
        os.close(ours)


def test_socket_of_the_environment():
    assert "/nowhere" in vipctl("status", VIPCTL_SOCKET="/nowhere")[1]
    said = vipctl("status", "--socket", "/elsewhere", VIPCTL_SOCKET="/nowhere")[1]
    assert "/elsewhere" in said and "/nowhere" not in said


@pytest.mark.parametrize("args,code", [
    (["status", "-o", "json"], NO_VIPD), (["doctor", "x", "-ojson"], USAGE), (["-ojson", "statsu"], USAGE),
    (["--nonsense", "--output=json"], USAGE), (["svc", "--kind", "x", "-o", "json"], USAGE),
    (["-ojson", b"stat\xff"], USAGE),
])
def test_errors_are_json(args, code):
    got, said = vipctl(*args, VIPCTL_SOCKET="/nowhere")
    error = json.loads(said)["error"]
    assert got == code == error["exit_code"] and error["text"]


def test_doctor_with_a_path_that_is_not_utf8():
    r = subprocess.run([VIPCTL, "--socket", b"/nowhere/\xff", "-ojson", "doctor"],
                       capture_output=True, timeout=60, check=False)
    answer = json.loads(r.stdout)
    assert answer["by"] == "vipctl" and "/nowhere/?" in answer["vipd"], answer["vipd"]


def test_errors_of_kernel_readers_are_json():
    """Without CAP_NET_ADMIN: in a user namespace that does not own the network namespace."""
    r = subprocess.run(["unshare", "-U", VIPCTL, "svc", "--kernel", "-o", "json"],
                       capture_output=True, text=True, timeout=60, check=False)
    if "unshare" in r.stderr:
        pytest.skip(r.stderr)
    assert r.returncode == PROBLEM == json.loads(r.stderr)["error"]["exit_code"]
