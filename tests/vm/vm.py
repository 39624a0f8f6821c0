# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command in an emulated virtual machine with one of Debian's kernels: needs no KVM, no root,
no module and no network of this host. See README.md.

    result = vm.run(["python3", "-m", "pytest", "tests/net/test_sctp.py"], kernel="6.1")
    result.status, result.output, result.console
"""
import contextlib
import ctypes
import fcntl
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import kernels  # noqa: E402
import tree  # noqa: E402
from kernels import Unavailable  # noqa: E402, F401

CACHE = os.environ.get("VIPD_VM_CACHE") or (
    "/var/cache/vipd-vm" if os.geteuid() == 0 else os.path.expanduser("~/.cache/vipd-vm"))
STARTED = "vm: started"
TRIES = 3
BOOT_SECONDS = 600  # a boot takes minutes beside 30 busy processes, above all with --icount, which reads all files
TROUBLE = re.compile(r"\bBUG\b|\bOops\b|WARNING:|Call Trace|Kernel panic|general protection|"
                     r"refcount_t|UBSAN|KASAN|detected stall|blocked for more than")
# Environment variables that are passed to the machine.
PASSED = re.compile(r"VIPD_(?!VM_)|PYTEST_|CMOCKA_|PYTHON(?!HOME|PATH)|ASAN_|UBSAN_|LSAN_")
# no_timer_check: a busy host delays the ticks that the kernel counts when it boots, and the kernel
# panics ("IO-APIC + timer doesn't work"); guests of KVM skip the check, too. No timeout of the disk:
# a busy host delays it by seconds, which are minutes for a clock that skips waiting times.
# norandmaps: qemu translates code once for each virtual address.
APPEND = ("loglevel=5 panic=-1 root=/dev/nvme0n1 rw rootfstype=ext4 init=/init "
          "mitigations=off norandmaps cryptomgr.notests nowatchdog no_timer_check "
          "rcupdate.rcu_cpu_stall_suppress=1 "
          "nvme_core.io_timeout=4000000 nvme_core.admin_timeout=4000000")
FREE_MB = 256
# qemu, its arguments, and the serial ports of the kernel's log and of the command. The CPU of amd64 has no cmpxchg16b:
# qemu 7.2 computes its flags wrongly, and 6.12 crashes.
MACHINES = {
    "amd64": (["qemu-system-x86_64", "-cpu", "qemu64,-cx16"], "ttyS0", "ttyS1"),
    "arm64": (["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a72"], "ttyAMA0", "ttyS0"),
}


class Result:
    """The result. `status`: of the command; None: the machine ended before it."""

    def __init__(self, status, output, console, seconds, cpu_seconds, tries, timed_out):
        self.status = status
        self.output = output
        self.console = console
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds  # CPU time on the host
        self.tries = tries
        self.timed_out = timed_out

    def trouble(self):
        """Lines of the kernel's log that report an error."""
        return [x for x in self.console.splitlines() if TROUBLE.search(x)]

    def failure(self):
        """Why the machine failed, independent of the command; None: it did not."""
        if self.timed_out:
            return "the command did not end in time"
        if self.status is None:
            return "the machine ended without an exit status of the command (attempt %d of %d)" % (self.tries, TRIES)
        if self.trouble():
            return "the kernel complains"
        return None


@contextlib.contextmanager
def locked(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def prepared(kernel, refresh=False, arch="amd64"):
    """(folder of the kernel, folder of the base tree), made if missing."""
    with locked(os.path.join(CACHE, "lock")):
        for name in os.listdir(CACHE):
            if name.startswith(("fetch-", "tree-")):  # of a killed run
                shutil.rmtree(os.path.join(CACHE, name), ignore_errors=True)
        place = kernels.get(kernel, CACHE, refresh, arch)
        packages = tree.closure()
        trees = os.path.join(CACHE, "trees")
        prefix = "base-%s-" % os.path.basename(place)
        made = os.path.join(trees, prefix + tree.base_key(place, packages))
        if not os.path.exists(made):
            os.makedirs(trees, exist_ok=True)
            work = tempfile.mkdtemp(dir=CACHE, prefix="tree-")
            try:
                tree.base(work + "/root", place, packages, arch)
                for old in os.listdir(trees):
                    if old.startswith(prefix):
                        shutil.rmtree(os.path.join(trees, old))
                os.rename(work + "/root", made)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return place, made


def sweep():
    """Remove folders of killed runs: the process in the folder's name has ended."""
    runs = os.path.join(CACHE, "runs")
    for name in os.listdir(runs) if os.path.isdir(runs) else ():
        pid = name.split("-")[0]
        if pid.isdigit() and not os.path.exists("/proc/" + pid):
            shutil.rmtree(os.path.join(runs, name), ignore_errors=True)


def slowness():
    """Factor for timeouts in the machine (tests/net/lab.py)."""
    return max(5, min(20, 3 * os.getloadavg()[0] / os.cpu_count()))


def job(command, cwd, env):
    """The script for the machine."""
    lines = ["cd %s || exit 126" % shlex.quote(cwd)]
    lines += ["export %s=%s" % (k, shlex.quote(v)) for k, v in sorted(env.items())]
    return "\n".join(lines + ["exec " + " ".join(shlex.quote(c) for c in command), ""])


def image(folder, base, build, files, script, is_shell, is_systemd):
    """The disk of one run."""
    root = os.path.join(folder, "root")
    # Hard links: no later step writes into a file of the base tree.
    kernels.run(["cp", "-al", base, root])
    tree.sources_into(root)
    if build:
        tree.build_into(root, build)
        tree.caches_into(root, build)
    if build and is_systemd:
        tree.install_into(root, build)
    for path in files:
        if os.path.islink(root + path):  # an applet of busybox
            os.unlink(root + path)
        tree.put(path, root)
    with open(root + "/job/run", "w", encoding="utf-8") as f:
        f.write(script)
    if is_shell:
        with open(root + "/job/shell", "w", encoding="ascii"):
            pass
    disk = os.path.join(folder, "disk")
    size = int(kernels.run(["du", "-sm", root]).stdout.split()[0])
    kernels.run(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0",
                 "-N", "65536", "-E", "root_owner=0:0", "-d", root, disk,
                 "%dM" % (size * 5 // 4 + FREE_MB)])
    shutil.rmtree(root)
    return disk


def arguments(folder, kernel, disk, memory, cpus, icount, is_shell, is_systemd, arch):
    """Arguments of qemu."""
    qemu, log, output = MACHINES[arch]
    accel = ["-accel", "tcg,thread=multi"]
    if icount:
        accel = ["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off"]
        cpus = 1
    second = "mon:stdio" if is_shell else "file:%s/output" % folder
    return qemu + accel + [
        "-m", str(memory), "-smp", str(cpus), "-display", "none",
        "-nodefaults", "-no-user-config", "-no-reboot", "-net", "none",
        "-kernel", os.path.join(kernel, "vmlinuz"),
        "-append", "console=%s vipd.output=%s " % (log, output) + APPEND + (" vipd.icount" if icount else "") +
        (" vipd.systemd" if is_systemd else ""),
        "-serial", "file:%s/console" % folder] + (
        ["-serial", second] if arch == "amd64" else
        ["-chardev", second.replace("file:", "file,id=c1,path=").replace("mon:stdio", "stdio,id=c1,mux=on"),
         "-device", "pci-serial,chardev=c1"]) + [
        "-drive", "file=%s,if=none,id=d0,format=raw,cache=unsafe" % disk,
        "-device", "nvme,drive=d0,serial=a", "-device", "virtio-rng-pci"]


def children_cpu():
    t = os.times()
    return t.children_user + t.children_system


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def text_of(path, offset=0):
    try:
        with open(path, "rb") as f:
            f.seek(offset)
            return f.read()
    except FileNotFoundError:
        return b""


def boot(args, folder, timeout, echo, is_shell):
    """Run qemu to its end; return (whether the command started, whether it timed out)."""
    for name in ("console", "output"):
        with open(os.path.join(folder, name), "wb"):
            pass
    stdio = {} if is_shell else {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with open(os.path.join(folder, "qemu"), "wb") as err:
        qemu = subprocess.Popen(args, stderr=err, preexec_fn=die_with_parent, **stdio)
    begin, shown, started = time.monotonic(), 0, None
    try:
        while qemu.poll() is None:
            time.sleep(0.05)
            if started is None and STARTED.encode() in text_of(folder + "/console"):
                started = time.monotonic()
            shown += echo(text_of(folder + "/output", shown))
            if is_shell:
                continue
            if time.monotonic() > (started or begin) + (timeout if started else BOOT_SECONDS):
                return started is not None, True
        shown += echo(text_of(folder + "/output", shown))
        if qemu.returncode != 0:
            with open(os.path.join(folder, "qemu"), "a", encoding="ascii") as err:
                err.write("qemu: exit status %d\n" % qemu.returncode)
        return started is not None or STARTED.encode() in text_of(folder + "/console"), False
    finally:
        if qemu.poll() is None:
            qemu.kill()
        qemu.wait()


def copied_out(disk, path, dest):
    """A file or folder of the disk, without mounting it."""
    kernels.run(["debugfs", "-R", "rdump %s %s" % (path, dest), disk])


def status_of(disk, folder):
    copied_out(disk, "/job", folder)
    text = text_of(folder + "/job/status").decode(errors="replace").strip()
    return int(text) if text.isdigit() else None


def run(command, kernel="6.1", build=None, cwd=None, env=None, files=(), memory=1024, cpus=2,
        icount=False, timeout=600, out=None, echo=None, shell=False, systemd=False, arch="amd64"):
    """Run a command in a separate machine; return a Result. Raises Unavailable.

    build: folder of the programs to copy. files: other paths of the host to copy. out: receives
    the files in /out. echo(bytes): called with output as it arrives. systemd: the first process
    is systemd, and the build is installed like by `make install`.
    """
    echo = echo or (lambda data: len(data))
    cwd = cwd or os.getcwd()
    if os.path.commonpath([cwd, tree.ROOT]) != tree.ROOT:
        cwd = tree.ROOT
    full = {k: v for k, v in os.environ.items() if PASSED.match(k)}
    full.setdefault("VIPD_SLOW", "1" if icount else "%d" % slowness())
    full.update(env or {})
    if build:
        build = os.path.abspath(build)
        full["VIPD_BUILD"] = build
    sweep()
    place, base = prepared(kernel, arch=arch)
    runs = os.path.join(CACHE, "runs")
    os.makedirs(runs, exist_ok=True)
    folder = tempfile.mkdtemp(dir=runs, prefix="%d-" % os.getpid())
    try:
        begin = time.monotonic()
        disk = image(folder, base, build, files, job(command, cwd, full), shell, systemd)
        args = arguments(folder, place, disk, memory, cpus, icount, shell, systemd, arch)
        cpu = children_cpu()
        for tries in range(1, TRIES + 1):
            started, timed_out = boot(args, folder, timeout, echo, shell)
            if started:
                break
        status = status_of(disk, folder) if started and not timed_out else None
        if out and started:
            os.makedirs(out, exist_ok=True)
            copied_out(disk, "/out", folder)
            shutil.copytree(folder + "/out", out, dirs_exist_ok=True)
        return Result(status, text_of(folder + "/output").decode(errors="replace"),
                      (text_of(folder + "/console") + text_of(folder + "/qemu"))
                      .decode(errors="replace").replace("\r", ""),
                      time.monotonic() - begin, children_cpu() - cpu, tries,
                      started and timed_out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
