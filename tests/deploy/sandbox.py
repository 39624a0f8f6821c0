# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a program under the restrictions of a systemd unit, without systemd.

    sandbox.py JSON PROGRAM [ARGUMENT...]

JSON: request()'s. The system call filter is the unit's own: groups are expanded by
`systemd-analyze syscall-filter`, and denied calls end the program ("kill", stricter than the unit)
or fail as in the unit ("errno"). Capabilities, namespaces and mounts are made as
systemd.exec(5) describes them. /run is always a private one, with the unit's RuntimeDirectory."""
import ctypes
import errno
import functools
import json
import mmap
import os
import socket
import stat
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
libc = ctypes.CDLL(None, use_errno=True)

MS_RDONLY, MS_BIND, MS_REC, MS_PRIVATE = 1, 0x1000, 0x4000, 1 << 18
MS_NOSUID, MS_NODEV = 2, 4
CLONE_NEWNS, CLONE_NEWUTS = 0x20000, 0x4000000
CLONE_NEW_ANY = 0x7E020080 | 0x10000000  # cgroup, uts, ipc, user, pid, net, ns, time
SYS_MOUNT_SETATTR = 442
MOUNT_ATTR_RDONLY = 1
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPS = """chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot
sys_ptrace sys_pacct sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease
audit_write audit_control setfcap mac_override mac_admin syslog wake_alarm block_suspend audit_read
perfmon bpf checkpoint_restore""".split()
SHM_EXEC = 0o100000
SUID_SGID = stat.S_ISUID | stat.S_ISGID


def read_unit(path):
    """[[name, value], ...] of [Service], in order; a name may occur twice."""
    with open(path, encoding="utf-8") as f:
        lines = [x.strip() for x in f]
    return [x.split("=", 1) for x in lines[lines.index("[Service]"):]
            if "=" in x and not x.startswith("#")]


def check(result, what):
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))


def mount(source, target, kind=None, flags=0, data=None):
    check(libc.mount(*[x.encode() if x else None for x in (source, target, kind)], flags,
                     data.encode() if data else None), "mount " + target)


def set_readonly(path, is_readonly=True):
    """Including all mounts below."""
    attr = struct.pack("=QQQQ", MOUNT_ATTR_RDONLY if is_readonly else 0,
                       0 if is_readonly else MOUNT_ATTR_RDONLY, 0, 0)
    check(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attr, len(attr)),
          "mount_setattr " + path)


def bind_itself(path):
    mount(path, path, None, MS_BIND | MS_REC)


class Unit:
    def __init__(self, directives):
        self.directives = directives

    def all(self, name):
        return [v for k, v in self.directives if k == name]

    def get(self, name, preset=""):
        return (self.all(name) or [preset])[-1]

    def is_on(self, name):
        return self.get(name) in ("yes", "true", "1", "on", "strict")


# ---- mounts ----

def private_devices():
    nodes = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
             "tty": (5, 0)}
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k")
    for name, (major, minor) in nodes.items():
        os.mknod("/dev/" + name, 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        os.chmod("/dev/" + name, 0o666)


def runtime_directory(unit):
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for name in unit.get("RuntimeDirectory").split():
        os.mkdir("/run/" + name)
        os.chmod("/run/" + name, int(unit.get("RuntimeDirectoryMode", "0755"), 8))
        bind_itself("/run/" + name)


def private_tmp():
    """This project stays visible if it is in there: real units have their program elsewhere."""
    own = {os.path.dirname(os.path.dirname(HERE)), os.path.realpath(
        os.environ.get("VIPD_BUILD", HERE))}
    kept = {path: os.open(path, os.O_PATH) for path in sorted(own)}
    for tmp in ("/tmp", "/var/tmp"):
        mount("tmpfs", tmp, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
        for path, fd in kept.items():
            if path.startswith(tmp + "/"):
                os.makedirs(path, exist_ok=True)
                mount("/proc/self/fd/%d" % fd, path, None, MS_BIND | MS_REC)
    for fd in kept.values():
        os.close(fd)


def enter_mounts(unit):
    check(libc.unshare(CLONE_NEWNS | CLONE_NEWUTS), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    runtime_directory(unit)
    if unit.is_on("PrivateTmp"):
        private_tmp()
    if unit.is_on("PrivateDevices"):
        private_devices()
    if unit.get("ProtectSystem") == "strict":
        bind_itself("/proc/sys")
        set_readonly("/")
        for path in ("/proc", "/sys", "/dev"):
            set_readonly(path, False)
        for path in ["/run/" + x for x in unit.get("RuntimeDirectory").split()] + \
                (["/tmp", "/var/tmp"] if unit.is_on("PrivateTmp") else []):
            set_readonly(path, False)
    if unit.is_on("ProtectKernelTunables"):
        bind_itself("/proc/sys")
        set_readonly("/proc/sys")
        set_readonly("/sys")
    if unit.is_on("ProtectControlGroups") and os.path.ismount("/sys/fs/cgroup"):
        set_readonly("/sys/fs/cgroup")
    if unit.is_on("ProtectKernelLogs"):
        mount("/dev/null", "/proc/kmsg", None, MS_BIND)
    if unit.is_on("ProtectKernelModules") and os.path.isdir("/usr/lib/modules"):
        mount("tmpfs", "/usr/lib/modules", "tmpfs", MS_RDONLY, "mode=000")


# ---- capabilities ----

def drop_capabilities(unit):
    kept = [x[4:].lower() for x in unit.get("CapabilityBoundingSet").split()]
    assert set(kept) <= set(CAPS), kept
    for i, name in enumerate(CAPS):
        if name not in kept:
            check(libc.prctl(PR_CAPBSET_DROP, i, 0, 0, 0), name)


# ---- system calls ----

@functools.lru_cache(maxsize=None)
def group(name):
    out = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True,
                         check=True).stdout
    names = set()
    for line in out.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            names |= group(word) if word.startswith("@") else {word}
    return names


def expand(value):
    return set().union(*[group(x) if x.startswith("@") else {x} for x in value.split()])


def allowed_calls(unit):
    """As systemd reads the lines: the first one makes it a list of allowed calls."""
    lines = unit.all("SystemCallFilter")
    assert lines and not lines[0].startswith("~")
    allowed = group("@default") | set()
    for line in lines:
        allowed = allowed - expand(line[1:]) if line.startswith("~") else allowed | expand(line)
    return allowed


def conditions(unit):
    """{call: [condition, ...]}: it is allowed when one of them holds."""
    import seccomp  # pylint: disable=import-outside-toplevel

    def arg(i, op, *values):
        return seccomp.Arg(i, op, *values)
    mask, eq = seccomp.MASKED_EQ, seccomp.EQ
    out = {}
    families = unit.get("RestrictAddressFamilies").split()
    if families:
        out["socket"] = [arg(0, eq, int(getattr(socket, f))) for f in families]
    if unit.is_on("RestrictNamespaces"):
        out["clone"] = out["unshare"] = [arg(0, mask, CLONE_NEW_ANY, 0)]
        out["setns"] = []
    if unit.is_on("MemoryDenyWriteExecute"):
        out["mmap"] = [arg(2, mask, mmap.PROT_EXEC, 0), arg(2, mask, mmap.PROT_WRITE, 0)]
        out["mprotect"] = out["pkey_mprotect"] = [arg(2, mask, mmap.PROT_EXEC, 0)]
        out["shmat"] = [arg(2, mask, SHM_EXEC, 0)]
    if unit.is_on("LockPersonality"):
        out["personality"] = [arg(0, eq, 0), arg(0, eq, 0xFFFFFFFF)]
    if unit.is_on("RestrictSUIDSGID"):
        out["chmod"] = out["fchmod"] = [arg(1, mask, SUID_SGID, 0)]
        out["fchmodat"] = [arg(2, mask, SUID_SGID, 0)]
    if unit.is_on("RestrictRealtime"):
        out["sched_setscheduler"] = [arg(1, eq, p) for p in (os.SCHED_OTHER, os.SCHED_BATCH,
                                                             os.SCHED_IDLE)]
    return out


def filter_calls(unit, calls, deny):
    import seccomp  # pylint: disable=import-outside-toplevel

    code = getattr(errno, unit.get("SystemCallErrorNumber", "EPERM"))
    f = seccomp.SyscallFilter(seccomp.KILL_PROCESS if deny == "kill" else seccomp.ERRNO(code))
    limited = conditions(unit)
    for name in calls:
        if name == "clone3" and unit.is_on("RestrictNamespaces"):
            f.add_rule(seccomp.ERRNO(errno.ENOSYS), name)  # its flags are in memory
            continue
        try:
            for condition in limited.get(name, [None]):
                f.add_rule(seccomp.ALLOW, name, *([condition] if condition else []))
        except RuntimeError:
            pass  # not a call of this architecture
    f.load()


def request(directives, deny, calls=()):
    """The JSON argument of main(). calls: names of allowed calls, instead of SystemCallFilter=."""
    unit = Unit(directives)
    calls = sorted(calls or (allowed_calls(unit) if unit.all("SystemCallFilter") else []))
    return json.dumps({"directives": directives, "calls": calls, "deny": deny})


def enter(directives, calls, deny):
    unit = Unit(directives)
    enter_mounts(unit)
    os.umask(int(unit.get("UMask", "0022"), 8))
    drop_capabilities(unit)
    if unit.is_on("NoNewPrivileges"):
        check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if calls:
        filter_calls(unit, calls, deny)


def main(argv):
    asked = json.loads(argv[1])
    enter(asked["directives"], asked["calls"], asked["deny"])
    os.execv(argv[2], argv[2:])


if __name__ == "__main__":
    main(sys.argv)
