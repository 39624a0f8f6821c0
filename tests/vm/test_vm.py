# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of virtual machines; no failure is reported as success. Run by the part vm of
tools/run-tests."""
import os
import shutil
import signal
import subprocess
import sys
import time
import types

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import kernels  # noqa: E402
import tree  # noqa: E402
import vm  # noqa: E402

VM_RUN = os.path.join(tree.ROOT, "tools", "vm-run")


@pytest.fixture(scope="module", autouse=True)
def machine():
    """Requirements of all tests; without them they are skipped (tests/vm/suite.py fails if
    machines are required)."""
    try:
        return vm.prepared("6.1")
    except vm.Unavailable as e:
        pytest.skip("no virtual machine: %s" % e)


def bash(script, **kw):
    return vm.run(["bash", "-c", script], cpus=1, **kw)


def left():
    """Remaining folders of runs of this process."""
    runs = os.path.join(vm.CACHE, "runs")
    return [n for n in os.listdir(runs) if n.startswith("%d-" % os.getpid())]


def test_result(tmp_path, monkeypatch):
    """Exit status, exact output, files; environment and folder of the caller. A run that did not start is
    retried."""
    fake_qemu(tmp_path, monkeypatch, 1)
    r = bash('printf "one\\ntwo \\xc3\\xa4"; mkdir /out/d; echo deep >/out/d/f; pwd >/out/pwd; '
             'echo "$VIPD_X" >/out/env; uname -r >/out/release; exit 42',
             env={"VIPD_X": "a 'b' $c"}, out=str(tmp_path), cwd=tree.HERE)
    assert (r.status, r.output, r.failure(), r.tries) == (42, "one\ntwo ä", None, 2), r.console
    assert (tmp_path / "d" / "f").read_text() == "deep\n"
    assert (tmp_path / "pwd").read_text() == tree.HERE + "\n"
    assert (tmp_path / "env").read_text() == "a 'b' $c\n"
    assert (tmp_path / "release").read_text().startswith("6.1.")
    assert not left()


@pytest.mark.parametrize("script,said", (
    ("echo c >/proc/sysrq-trigger; sleep 60", "without an exit status"),
    ("echo '<4>WARNING: CPU: 0 PID: 1 at net/core/dev.c:1' >/dev/kmsg", "the kernel complains")),
    ids=("panic", "warning"))
def test_failure(script, said):
    """The machine ends before the command, or the kernel logs an error. The run is not repeated,
    because the command had started."""
    r = bash(script)
    assert said in r.failure() and r.tries == 1, (r.status, r.console)
    assert not left()


def test_time_limit(monkeypatch):
    """The clock reaches the limit when the line has arrived."""
    printed = bytearray()
    monkeypatch.setattr(vm, "time", types.SimpleNamespace(
        sleep=time.sleep, monotonic=lambda: time.monotonic() + 3600 * printed.count(b"\n")))
    r = bash("echo here; sleep 3600", timeout=1800, echo=lambda data: printed.extend(data) or len(data))
    assert r.failure() == "the command did not end in time" and r.status is None
    assert r.output == "here\n"
    assert not left()


def fake_qemu(path, monkeypatch, failures):
    """A qemu that exits at once this often, as with a kernel that does not boot."""
    real = shutil.which("qemu-system-x86_64")
    fake = path / "qemu-system-x86_64"
    fake.write_text('#!/bin/sh\necho x >>%s/tries\n[ "$(wc -l <%s/tries)" -gt %d ] || exit 1\n'
                    'exec %s "$@"\n' % (path, path, failures, real))
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", "%s:%s" % (path, os.environ["PATH"]))


def test_retry_ends(tmp_path, monkeypatch):
    """A run that does not start is retried a limited number of times."""
    fake_qemu(tmp_path, monkeypatch, 9)
    r = bash("exit 7")
    assert (r.status, r.tries) == (None, vm.TRIES)
    assert r.failure() is not None


def test_killed():
    """Killing vm-run kills the machine; the next run removes its files."""
    proc = subprocess.Popen([VM_RUN, "--", "bash", "-c", "echo up; sleep 600"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert proc.stdout.readline() == b"up\n"
        qemu = [int(p) for p in os.listdir("/proc") if p.isdigit() and parent(p) == proc.pid]
        assert len(qemu) == 1
    finally:
        proc.send_signal(signal.SIGKILL)
        proc.wait()
        proc.stdout.close()
    end = time.monotonic() + 60
    while os.path.exists("/proc/%d" % qemu[0]) and state(qemu[0]) != "Z":
        assert time.monotonic() < end, "qemu is still running"
        time.sleep(0.05)
    prefix = "%d-" % proc.pid
    runs = os.path.join(vm.CACHE, "runs")
    assert [n for n in os.listdir(runs) if n.startswith(prefix)]
    vm.sweep()
    assert not [n for n in os.listdir(runs) if n.startswith(prefix)]


def stat_of(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return ["X", "0"]


def parent(pid):
    return int(stat_of(pid)[1])


def state(pid):
    return stat_of(pid)[0]


def test_together():
    """Two machines at once with different kernels; the command line."""
    procs = [subprocess.Popen([VM_RUN, "--kernel", k, "--", "sh", "-c", "uname -r; exit 3"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for k in ("6.1", "6.12")]
    for proc, kernel in zip(procs, ("6.1.", "6.12.")):
        out, err = proc.communicate(timeout=1800)
        assert proc.returncode == 3 and out.startswith(kernel), (out, err)


# ---- the source of kernels ----

def package(name, version, depends=""):
    return {"Package": name, "Version": version, "Depends": depends, "Filename": name + ".deb"}


def test_choice():
    """The newest of the version, with the packages split off from it; no other flavour or
    version."""
    there = [package("linux-image-6.1.0-9-cloud-amd64", "6.1.9-1"),
             package("linux-image-6.1.0-56-cloud-amd64", "6.1.192-2"),
             package("linux-image-6.12.1+deb12-cloud-amd64", "6.12.1-1"),
             package("linux-image-7.2.9+deb13-cloud-amd64", "7.2.9-1",
                     "linux-base, linux-binary-7.2.9 (= 7.2.9-1), linux-modules-7.2.9 (= 7.2.9-1)"),
             package("linux-binary-7.2.9", "7.2.9-1"), package("linux-modules-7.2.9", "7.2.9-1"),
             package("linux-modules-7.2.8", "7.2.8-1")]

    def names(version):
        return [p["Package"] for p in kernels.choose(there, version)]
    assert names("6.1") == ["linux-image-6.1.0-56-cloud-amd64"]
    assert names("7.2") == ["linux-image-7.2.9+deb13-cloud-amd64", "linux-binary-7.2.9",
                            "linux-modules-7.2.9"]
    assert names("5.10") == []


def test_signed_only(tmp_path):
    """An index without Debian's signature, or with the signature of another text, is rejected."""
    good = tmp_path / "InRelease"
    kernels.download("%s/dists/bookworm/InRelease" % kernels.mirror(False), str(good))
    text = kernels.verified(str(good))
    assert "Codename: bookworm" in text and len(kernels.index_hash(text, kernels.INDEX % "amd64")) == 64
    bad = tmp_path / "bad"
    bad.write_bytes(good.read_bytes().replace(b"Origin: Debian", b"Origin: Nobody"))
    with pytest.raises(vm.Unavailable, match="not signed"):
        kernels.verified(str(bad))
    bad.write_text("Origin: Debian\n")
    with pytest.raises(vm.Unavailable, match="not signed"):
        kernels.verified(str(bad))
    with pytest.raises(vm.Unavailable):
        kernels.download("%s/dists/bookworm/InRelease" % kernels.mirror(False),
                         str(tmp_path / "other"), "0" * 64)
