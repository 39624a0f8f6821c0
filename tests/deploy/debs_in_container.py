# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages of `make deb` in a clean system with systemd as its first process: install, upgrade and downgrade
under load, removal, purge. Run by `make test-deb`; not collected elsewhere, because it downloads a Debian.

debs_in_machine.py runs the same tests in a virtual machine whose first process is systemd.

VIPD_SUITE=trixie: the packages are built and installed in that Debian; otherwise those in build-deb/ are installed in
the host's. VIPD_SUITE=noble: in that Ubuntu, whose archive is verified by the package ubuntu-keyring of Debian 13.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "net")]

import daemon  # noqa: E402
import lab as L  # noqa: E402

DEFAULTS, SERVICES = "/etc/default/vipd", "/etc/vipd/services"
ROUNDS = int(os.environ.get("VIPD_ROUNDS", "3"))
# The earlier packages: those of this commit, 0.2.0-rc1, with a lower version. Without the
# history of the repository: today's.
COMMIT = "5a38acb432e69710a63c938f7f028fe68b1af8ad"
OLDER = "0~before"
CONFFILE_LINE = "# A line of the earlier package.\n"

# A private root with systemd as the first process, in the network namespace of the caller. Without CAP_SYS_MODULE, as
# in any container: otherwise systemd-modules-load.service starts, and fails on Debian 13, which has no libkmod there.
BOOT = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs dev
for n in null zero full random urandom tty; do touch dev/$n; mount --bind /dev/$n dev/$n; done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --bounding-set -sys_module \
	/lib/systemd/systemd --log-target=journal
"""


def host_suite():
    with open("/etc/os-release", encoding="utf-8") as f:
        return dict(line.rstrip().split("=", 1) for line in f if "=" in line).get("VERSION_CODENAME")


SUITE = os.environ.get("VIPD_SUITE") or host_suite()
UBUNTU = ("noble",)


def mmdebstrap(target, include, *more):
    if SUITE in UBUNTU:
        more += ("--components=main,universe",)
        include += ",apt"
    r = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include", include, *more, SUITE, target],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, (r.stdout + r.stderr)[-4000:]


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """{"vipd": path, "vipctl": path}, built for SUITE."""
    folder = str(tmp_path_factory.mktemp("packages"))
    if SUITE == host_suite():
        folder = os.path.join(ROOT, "build-deb")
    else:
        mmdebstrap("/dev/null", "ca-certificates",
                   "--customize-hook=mkdir -p $1/b/vipd; cd %s; git ls-files -z --cached --others --exclude-standard |"
                   " tar -c --null -T - | tar -x -C $1/b/vipd" % ROOT,
                   "--customize-hook=chroot $1 apt-get build-dep -y -q --no-install-recommends /b/vipd",
                   "--customize-hook=chroot $1 sh -c 'cd /b/vipd && DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -b -us -uc'",
                   "--customize-hook=cp $1/b/*.*deb %s" % folder)  # Ubuntu: debug symbols in .ddeb
    found = named(folder)
    assert {"vipd", "vipctl", "vipd-dbgsym", "vipctl-dbgsym"} <= set(found), "run `make deb`"
    return found


def named(folder):
    return {os.path.basename(p).split("_")[0]: p for p in glob.glob(folder + "/*.*deb")}


@pytest.fixture(scope="session")
def earlier(packages):
    """As `packages`, of COMMIT; kept beside those, where debs_in_machine.py gets them."""
    folder = os.path.join(os.path.dirname(packages["vipd"]), "earlier")
    if not os.path.isdir(folder) and not in_machine() and not subprocess.run(
            ["git", "-C", ROOT, "cat-file", "-e", COMMIT + "^{commit}"], capture_output=True, check=False).returncode:
        source = "git -C %s archive --prefix=vipd/ %s | tar -x -C " % (ROOT, COMMIT)
        build = "DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -b -us -uc"
        os.makedirs(folder + "/b")
        if SUITE == host_suite():
            r = subprocess.run("%s %s/b && cd %s/b/vipd && %s" % (source, folder, folder, build), shell=True,
                               capture_output=True, text=True, check=False)
            assert r.returncode == 0, (r.stdout + r.stderr)[-4000:]
        else:
            mmdebstrap("/dev/null", "ca-certificates", "--customize-hook=mkdir $1/b; %s $1/b" % source,
                       "--customize-hook=chroot $1 apt-get build-dep -y -q --no-install-recommends /b/vipd",
                       "--customize-hook=chroot $1 sh -c 'cd /b/vipd && %s'" % build,
                       "--customize-hook=cp $1/b/*.*deb %s/b" % folder)
        for p in named(folder + "/b").values():
            shutil.move(p, folder)
        shutil.rmtree(folder + "/b")
    return named(folder) or packages


def older(path, folder):
    """The package with a lower version and another text of the conffile, which dpkg then merges with the administrator's."""
    tree = os.path.join(folder, "tree")
    subprocess.run(["dpkg-deb", "-R", path, tree], check=True)
    control = os.path.join(tree, "DEBIAN", "control")
    with open(control, encoding="utf-8") as f:
        lines = ["Version: %s\n" % OLDER if line.startswith("Version:") else line for line in f]
    with open(control, "w", encoding="utf-8") as f:
        f.writelines(lines)
    if os.path.exists(tree + DEFAULTS):
        with open(tree + DEFAULTS, "a", encoding="utf-8") as f:
            f.write(CONFFILE_LINE)
    out = os.path.join(folder, "older-" + os.path.basename(path))
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", tree, out], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return out


class Container:
    """Debian with systemd in the network namespace of the lab's node."""

    def __init__(self, lab, root):
        self.lab, self.root = lab, root
        unified = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
        self.cgroup = os.path.join(unified, "vipdt-%d" % os.getpid())

    def boot(self):
        os.mkdir(self.cgroup)
        self.proc = self.lab.node.popen(
            "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec unshare --kill-child --fork --mount --pid --uts --ipc --cgroup'
            ' sh -c "$1" boot "$2"', self.cgroup, BOOT, self.root, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        L.eventually(lambda: self.pid() and self.run("systemctl", "is-system-running", check=False).stdout.strip() in
                     ("running", "degraded"), L.PATIENCE, "systemd does not run")

    def pid(self):
        with open("/proc/%d/task/%d/children" % (self.proc.pid, self.proc.pid), encoding="ascii") as f:
            return f.read().strip()

    def run(self, *argv, check=True):
        r = subprocess.run(["nsenter", "-t", self.pid(), "-m", "-p", "-u", "-i", "-n", "-C", "env", "-i",
                            "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *argv],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        assert r.returncode == 0 or not check, (argv, r.stdout, r.stderr)
        return r

    def show(self, name):
        return self.run("systemctl", "show", "--value", "-p", name, "vipd").stdout.strip()

    def status(self):
        r = self.run("vipctl", "-o", "json", "status", check=False)
        return json.loads(r.stdout) if r.returncode == 0 and r.stdout else {}

    def version(self, package):
        return self.run("dpkg-query", "-W", "-f", "${Version} ${db:Status-Status}", package, check=False).stdout

    def exists(self, path):
        return self.run("test", "-e", path, check=False).returncode == 0

    def dpkg(self, *argv):
        return self.run("dpkg", "--force-confdef", *argv)

    def settled(self):
        """No unit has failed, and none is starting."""
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running"

    def wait_serving(self):
        def ready():
            s = self.status()
            return s.get("state") == "running" and s["pending"]["services"] == 0
        L.eventually(ready, L.PATIENCE, lambda: self.run("journalctl", "-u", "vipd", "--no-pager").stdout[-4000:])

    def close(self):
        self.proc.kill()
        self.proc.wait()
        L.eventually(lambda: not subprocess.run(["grep", "-rqs", ".", "--include=cgroup.procs", self.cgroup],
                                                check=False).returncode == 0, L.PATIENCE, "processes are left")
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            os.rmdir(folder)


class Machine(Container):
    """This virtual machine. Only vipd and dpkg are in the network namespace of the lab's node. The machine has the
    packages that vipd needs as files, without entries in dpkg's database."""

    def __init__(self, lab, debs):
        super().__init__(lab, "")
        for folder in "info", "updates", "triggers", "parts":
            os.makedirs("/var/lib/dpkg/" + folder)
        for name in "status", "available":
            with open("/var/lib/dpkg/" + name, "w", encoding="ascii"):
                pass
        os.makedirs("/etc/systemd/system/vipd.service.d")
        with open("/etc/systemd/system/vipd.service.d/netns.conf", "w", encoding="ascii") as f:
            f.write("[Service]\nNetworkNamespacePath=%s\n" % lab.node.path)
        self.dpkg("-i", *debs)

    def boot(self):
        self.run("systemctl", "restart", "vipd")

    def run(self, *argv, check=True):
        with self.lab.node.entered():
            r = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
        assert r.returncode == 0 or not check, (argv, r.stdout, r.stderr)
        return r

    def settled(self):
        """The tests are a unit that starts."""
        return self.run("systemctl", "--failed", "--no-legend").stdout == ""

    def dpkg(self, *argv):
        return super().dpkg("--force-depends", *argv)

    def close(self):
        pass


def in_machine():
    with open("/proc/cmdline", encoding="ascii") as f:
        return "vipd.systemd" in f.read()


@pytest.fixture(scope="module")
def lab():
    reason = L.missing()
    if reason or not (in_machine() or shutil.which("mmdebstrap")):
        pytest.skip(reason or "mmdebstrap is not installed (tools/install-deps deb)")
    L.sweep()
    with L.Lab() as made:
        yield made


@pytest.fixture(scope="module")
def debian(lab, packages, earlier, tmp_path_factory):
    """The container with the older packages installed by apt, which gets the dependencies from the archive and nothing
    else; their services do not run while the system is a folder."""
    folder = str(tmp_path_factory.mktemp("debian"))
    root = os.path.join(folder, "root")
    debs = os.path.join(folder, "debs")
    os.mkdir(debs)
    before = [os.path.basename(older(earlier[p], debs)) for p in ("vipd", "vipctl")]
    for p in packages.values():
        shutil.copy(p, debs)
    if in_machine():
        made, root, at = Machine(lab, [os.path.join(debs, n) for n in before]), "", debs + "/"
    else:
        mmdebstrap(root, "systemd,systemd-sysv,ca-certificates",
                   "--customize-hook=cp -r %s $1/debs" % debs,
                   "--customize-hook=chroot $1 apt-get install -y -q --no-install-recommends %s" % " ".join(
                       "/debs/" + n for n in before))
        made, at = Container(lab, root), "/debs/"
    made.new = [at + os.path.basename(packages[p]) for p in ("vipd", "vipctl")]
    made.old = [at + n for n in before]
    with open(root + DEFAULTS, "a", encoding="ascii") as f:
        f.write('VIPD_FLAGS="--manifests=%s --hostname-override=%s --cluster-cidr=%s"\n' % (
            SERVICES, L.NODE_NAME, ",".join(L.CLUSTER_CIDR.values())))
    daemon.Manifests(root + SERVICES).write(daemon.steady_objects() + [daemon.node_object()])
    try:
        made.boot()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def reachable(lab):
    return L.probe(lab.client, daemon.STEADY_IP[4], 80).what


def test_installed(lab, debian):
    """The service is enabled and was started at boot."""
    debian.wait_serving()
    assert debian.run("systemctl", "is-enabled", "vipd").stdout.strip() == "enabled"
    assert debian.version("vipd") == OLDER + " installed"
    assert reachable(lab) == "ok"
    for page in "vipd", "vipctl":
        assert debian.exists("/usr/share/man/man8/%s.8.gz" % page)
        for shell in "bash-completion/completions/%s", "zsh/vendor-completions/_%s", "fish/vendor_completions.d/%s.fish":
            assert debian.exists("/usr/share/" + shell % page)
    assert debian.run("dpkg", "--verify", "vipctl").stdout == ""


def layouts(lab):
    """Of the tables, one for each family."""
    return re.findall(r'comment "(vipd layout \d+)"', lab.node.run("nft", "-t", "list", "ruleset"))


def test_upgrade_and_downgrade_under_load(lab, debian):
    """From and to the earlier packages, dpkg replaces the files and restarts the service: no connection fails, established
    ones go on, and vipd replaces the tables of the other version, whose layout differs. The administrator's configuration
    stays; dpkg puts the package's, which differs between the versions, beside it."""
    current = layouts(lab)
    assert len(current) == 2
    steady = daemon.Steady(lab).start()
    load = lab.flow("client", "new", "--to", "tcp:%s:80" % daemon.STEADY_IP[4], "--to", "tcp:%s" % L.endpoint(
        daemon.STEADY_IP[6], 80), "--rate", "200" if L.SLOW == 1 else "50", "--concurrency", "16")
    for _ in range(ROUNDS):
        for packages, version in (debian.new, None), (debian.old, OLDER):
            pid, before = debian.show("MainPID"), load.stat()["ok"]
            debian.dpkg("-i", *packages)
            debian.wait_serving()
            assert debian.show("MainPID") not in ("0", pid)
            offered = debian.run("cat", DEFAULTS + ".dpkg-dist").stdout
            assert (CONFFILE_LINE in offered) == (version is not None) and "--cluster-cidr" not in offered
            assert (debian.version("vipd") == OLDER + " installed") == (version is not None)
            L.eventually(lambda: len(layouts(lab)) == 2 and (version is None or layouts(lab) == current), L.PATIENCE,
                         lambda: str(layouts(lab)))
            L.eventually(lambda: load.stat()["ok"] > before + 50, L.PATIENCE, "the load stands still")
    debian.dpkg("-i", *debian.new)
    debian.wait_serving()
    result = load.stop()
    steady.check()
    steady.stop()
    assert result["failed"] == 0, result
    print("%d upgrades and downgrades, %d connections, 0 failed" % (2 * ROUNDS, result["ok"]))
    assert "--cluster-cidr" in debian.run("cat", DEFAULTS).stdout


def test_disabled_stays_disabled(debian):
    """An upgrade does not enable, and a stopped service that is disabled is not started."""
    debian.run("systemctl", "disable", "--now", "vipd")
    debian.dpkg("-i", *debian.new)
    assert debian.run("systemctl", "is-enabled", "vipd", check=False).stdout.strip() == "disabled"
    assert debian.show("ActiveState") == "inactive"
    debian.run("systemctl", "enable", "--now", "vipd")
    debian.wait_serving()


def test_removed_and_purged(lab, debian):
    """Removal stops vipd and removes its tables from the kernel; the configuration stays until the purge. Files of the
    administrator in /etc/vipd stay always."""
    assert layouts(lab) and reachable(lab) == "ok"
    debian.dpkg("-r", "vipd")
    assert not layouts(lab) and reachable(lab) == "untouched"
    assert not debian.exists("/usr/sbin/vipd") and debian.exists(DEFAULTS)
    assert not debian.exists("/run/vipd")
    assert debian.exists(SERVICES)
    debian.dpkg("-i", *debian.new)          # a removal is no end
    debian.wait_serving()
    assert reachable(lab) == "ok"
    debian.dpkg("-P", "vipd")
    assert not layouts(lab)
    for gone in DEFAULTS, "/run/vipd", "/etc/systemd/system/multi-user.target.wants/vipd.service", \
            "/usr/share/doc/vipd", "/usr/share/vipd", "/var/lib/systemd/deb-systemd-helper-enabled/vipd.service.dsh-also":
        assert not debian.exists(gone), gone
    assert debian.exists(SERVICES)
    debian.dpkg("-P", "vipctl")
    assert not debian.exists("/usr/bin/vipctl")
    assert debian.settled()
