# SPDX-License-Identifier: GPL-2.0-or-later
"""The file system of the machine: files of this host's Debian packages, a kernel's modules, and the
programs under test with their libraries. Paths are those of the host, so commands of the host
work in the machine."""
import hashlib
import os
import re
import shutil
import stat
import subprocess

import kernels

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

# Installed with dependencies. Also listed in tools/install-deps.
PACKAGES = """bash busybox-static conntrack coreutils dash findutils grep iproute2 iputils-arping
iputils-ping ipvsadm kmod mawk netbase nftables openssl procps python3 python3-cryptography
python3-h2 python3-pyte python3-pytest python3-yaml sed socat systemd tcpdump util-linux""".split()
# Of the programs under test; on another architecture their paths are not those of the host.
LIBRARIES = "libcmocka0 libcurl4 libevent-2.1-7 libjansson4 libmnl0 libnftnl11 libyaml-0-2".split()
# Optional; copied if this host has them.
OPTIONAL = "gdb strace ethtool iperf3 ncat iptables ipset".split()
# Dependencies that a machine does not need.
NOT_PACKAGES = """adduser base-passwd ca-certificates debconf dpkg init-system-helpers install-info
libc-dev libgcc-dev login passwd perl perl-base tzdata""".split()
NOT_FILES = re.compile(
    r"/usr/share/(doc|man|locale|info|lintian|bug|zsh|i18n|menu|pixmaps|reportbug|bash-completion)(/|$)"
    r"|/usr/lib/python3\.\d+/(test|idlelib|ensurepip|lib2to3|turtledemo)(/|$)|/var(/|$)"
    r"|/etc/(init\.d|pam\.d|security)(/|$)|/usr/share/gdb(/|$)")

MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
FOLDERS = ("dev", "proc", "sys", "run", "tmp", "root", "out", "job", "etc", "var/tmp", "mnt",
           "usr/local/bin")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost vm\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nprotocols: files\n"
                         "services: files\n",
    "etc/mtab": "",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    # systemd units: the job and its requirements.
    "etc/systemd/system/default.target": "[Unit]\nRequires=job.service\n",
    "etc/systemd/system/job.service": "[Unit]\nRequires=basic.target\nAfter=basic.target\n"
                                      "[Service]\nType=oneshot\nExecStart=/init\n",
    "etc/tmpfiles.d/tmp.conf": "# In place of systemd's: nothing in /tmp is removed at boot.\n",
}


def installed():
    """{package: (version, [names of dependencies])} of this host, with virtual names."""
    out = kernels.run(["dpkg-query", "-W", "-f", "${db:Status-Status}\t${Package}\t${Version}\t"
                       "${Provides}\t${Pre-Depends}, ${Depends}\n"]).stdout.decode()
    found, virtual = {}, {}
    for line in out.splitlines():
        status, name, version, provides, depends = line.split("\t")
        if status != "installed":
            continue
        wants = [[re.split(r"[ :(]", d.strip())[0] for d in alt.split("|")]
                 for alt in depends.split(",") if alt.strip()]
        found[name] = (version, wants)
        for p in provides.split(","):
            if p.strip():
                virtual.setdefault(re.split(r"[ (]", p.strip())[0], name)
    return found, virtual


def closure():
    """{package: version} of all packages in the machine."""
    held, virtual = installed()
    lacking = [p for p in PACKAGES if p not in held]
    if lacking:
        raise kernels.Unavailable("packages are missing: apt-get install %s" % " ".join(lacking))
    out, todo = {}, PACKAGES + [p for p in OPTIONAL if p in held]
    while todo:
        name = todo.pop()
        if name in out or name in NOT_PACKAGES:
            continue
        out[name] = held[name][0]
        for alternatives in held[name][1]:
            there = [p if p in held else virtual.get(p) for p in alternatives]
            todo += [p for p in there if p][:1]
    return out


def put(src, tree):
    """Copy a file, folder or link of the host to its path in the tree."""
    dst = tree + src
    try:
        mode = os.lstat(src).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        os.makedirs(dst, exist_ok=True)
    elif os.path.lexists(dst):
        return
    elif stat.S_ISLNK(mode):
        os.makedirs(os.path.dirname(dst), exist_ok=True)
        os.symlink(os.readlink(src), dst)
    elif stat.S_ISREG(mode):
        os.makedirs(os.path.dirname(dst), exist_ok=True)
        shutil.copy2(src, dst)


def real(path):
    """The path without links of merged /usr; dpkg may use either name."""
    first = path.lstrip("/").split("/")[0]
    return "/usr" + path if first in MERGED else path


def packages_into(tree, packages):
    names = []
    out = kernels.run(["dpkg-query", "-L"] + sorted(packages)).stdout.decode()
    for line in out.splitlines():
        if line.startswith("/") and line != "/." and not NOT_FILES.match(line):
            names.append(line)
    for name in names:
        if name.lstrip("/") not in MERGED:
            put(real(name), tree)


def extracted(tree, arch):
    """The packages of another architecture, from the archive of this host's Debian. None is configured: that would run
    their programs."""
    with open("/etc/os-release", encoding="utf-8") as f:
        suite = re.search(r"^VERSION_CODENAME=(\w+)", f.read(), re.M)[1]
    kernels.run(["mmdebstrap", "--quiet", "--variant=extract", "--architectures=" + arch,
                 "--setup-hook=for d in bin sbin lib; do mkdir -p $1/usr/$d; ln -s usr/$d $1/$d; done",
                 "--include=" + ",".join(PACKAGES + LIBRARIES), suite, tree])
    for name in "doc", "locale", "man":
        shutil.rmtree("%s/usr/share/%s" % (tree, name))


def applets_into(tree):
    """busybox replaces missing programs."""
    out = kernels.run(["busybox", "--list"]).stdout.decode()
    for name in out.split():
        if not any(os.path.lexists("%s/usr/%s/%s" % (tree, d, name)) for d in ("bin", "sbin")):
            os.symlink("/usr/bin/busybox", "%s/usr/bin/%s" % (tree, name))


def base(tree, kernel, packages, arch):
    """Make the tree without the files under test."""
    if arch != "amd64":
        extracted(tree, arch)
    for name in MERGED:
        os.makedirs("%s/usr/%s" % (tree, name), exist_ok=True)
        if not os.path.lexists("%s/%s" % (tree, name)):
            os.symlink("usr/" + name, "%s/%s" % (tree, name))
    for name in FOLDERS:
        os.makedirs("%s/%s" % (tree, name), exist_ok=True)
    if arch == "amd64":
        packages_into(tree, packages)
    busybox = shutil.which("busybox")
    if not os.path.lexists(tree + "/usr/bin/busybox"):
        put(real(busybox), tree)
    applets_into(tree)
    if not os.path.lexists(tree + "/usr/bin/sh"):
        os.symlink("dash", tree + "/usr/bin/sh")
    for name, text in FILES.items():
        path = os.path.join(tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
    about = kernels.about(kernel)
    modules = "%s/usr/lib/modules/%s" % (tree, about["release"])
    shutil.copytree(kernel + "/modules", modules)
    kernels.run(["depmod", "-b", tree, about["release"]])
    shutil.copy(os.path.join(HERE, "init"), tree + "/init")
    # Precompiled: the emulated processor is slow.
    subprocess.run(["/usr/bin/python3", "-m", "compileall", "-q", "-j", "0", "-s", tree, "-p", "/",
                    "--invalidation-mode", "unchecked-hash", tree + "/usr/lib/python3",
                    tree + "/usr/lib/python3.%d" % python_minor()],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def python_minor():
    return int(kernels.run(["/usr/bin/python3", "-c", "import sys; print(sys.version_info[1])"])
               .stdout)


def base_key(kernel, packages):
    """Name of a base tree: the hash of its content."""
    h = hashlib.sha256(repr((sorted(packages.items()), kernels.about(kernel))).encode())
    for name in ("init", "tree.py"):
        with open(os.path.join(HERE, name), "rb") as f:
            h.update(f.read())
    return h.hexdigest()[:16]


def libraries(programs):
    """Paths of the shared libraries of programs."""
    r = subprocess.run(["ldd"] + programs, capture_output=True, text=True, check=False)
    return set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", r.stdout, re.M))


def is_program(path):
    """An executable or a library, not an object file."""
    if not os.access(path, os.X_OK) or path.endswith((".o", ".a")):
        return False
    with open(path, "rb") as f:
        head = f.read(18)
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\2\0", b"\3\0")  # ET_EXEC, ET_DYN


def build_into(tree, build):
    """Copy programs and lists of tests of a build folder."""
    programs = []
    for folder, dirs, files in os.walk(build):
        dirs[:] = [d for d in dirs if not d.endswith(".p")]
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and (
                    is_program(path) or folder.endswith("/meson-info") or name == "build.ninja"):
                put(path, tree)
                if not name.endswith((".json", ".ninja")):
                    programs.append(path)
    for lib in libraries(programs) if programs else ():
        dst = tree + real(lib)
        if not os.path.lexists(dst):
            os.makedirs(os.path.dirname(dst), exist_ok=True)
            shutil.copy2(os.path.realpath(lib), dst)


def caches_into(tree, build):
    """Copy the bytecode of the tests that tools/run-tests has put into a build folder."""
    prefix = os.path.join(build, "pycache")
    for folder, _, files in os.walk(prefix + ROOT):
        dst = tree + folder[len(prefix):] + "/__pycache__"
        os.makedirs(dst, exist_ok=True)
        for name in files:
            if name.endswith(".pyc"):  # other names are temporary
                shutil.copy2(os.path.join(folder, name), dst)


def install_into(tree, build):
    """Run `make install`."""
    kernels.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", tree])


def sources_into(tree):
    """Copy the project's files in their present state."""
    for folder, dirs, files in os.walk(ROOT):
        if folder == ROOT:
            dirs[:] = [d for d in dirs if d != ".git" and not d.startswith("build")]
        dirs[:] = [d for d in dirs if d != "__pycache__"]
        for name in files:
            put(os.path.join(folder, name), tree)
