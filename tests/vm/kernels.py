# SPDX-License-Identifier: GPL-2.0-or-later
"""Debian's cloud kernels, downloaded from the archive and unpacked, never installed.

A kernel is selected by the beginning of its version ("6.1", "6.12", "7.2"). The newest of the suite
is downloaded once and kept until refreshed. Verification is that of apt: the suite's InRelease is
signed by Debian (gpgv, debian-archive-keyring) and contains the hash of the package index, which
contains the hash of the package. A package with another hash is not unpacked.
"""
import functools
import glob
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
APT_HELPER = "/usr/lib/apt/apt-helper"
INDEX = "main/binary-%s/Packages.xz"
# Suite of a version. All other versions are in backports.
SUITES = {"6.1": ("bookworm-security", "bookworm"), "6.12": ("trixie-security", "trixie")}
OTHER = ("trixie-backports",)
# Folders of network modules. Disk and file system are built in.
MODULES = ("kernel/net", "kernel/drivers/net", "kernel/lib", "kernel/crypto",
           "kernel/arch/x86/crypto")
NOT_MODULES = ("kernel/drivers/net/ethernet", "kernel/drivers/net/wireless",
               "kernel/drivers/net/usb")


class Unavailable(Exception):
    """The kernel is unavailable: no network, no such package, or a missing tool."""


def run(args, **kw):
    try:
        return subprocess.run(args, capture_output=True, check=True, timeout=600,
                              stdin=subprocess.DEVNULL, **kw)
    except subprocess.CalledProcessError as e:
        said = (e.stderr or e.stdout or b"").decode(errors="replace").strip()
        raise Unavailable("%s: %s" % (" ".join(args), said)) from e
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Unavailable("%s: %s" % (args[0], e)) from e


def mirror(security):
    """The archive that apt uses on this machine (possibly a local mirror), Debian 12 or 13."""
    wanted = {s for pair in SUITES.values() for s in pair if s.endswith("-security") == security}
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)",
                          "Created-By: Packages"], capture_output=True, text=True, check=False)
    for line in out.stdout.splitlines():
        name, _, uri = line.partition(" ")
        if name in wanted:
            return uri.rstrip("/")
    return "http://deb.debian.org/debian" + ("-security" if security else "")


def download(uri, path, sha256=None):
    """Download with apt-helper: its proxies and mirrors, three attempts."""
    args = [APT_HELPER, "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root",
            "download-file", uri, path]
    run(args + (["SHA256:" + sha256] if sha256 else []))


def verified(inrelease, keyring=KEYRING):
    """The signed text of a file."""
    r = subprocess.run(["gpgv", "--keyring", keyring, "--status-fd", "2", "--output", "-",
                        inrelease], capture_output=True, check=False, stdin=subprocess.DEVNULL)
    status = r.stderr.decode(errors="replace")
    if "[GNUPG:] VALIDSIG" not in status or "[GNUPG:] BADSIG" in status:
        raise Unavailable("%s is not signed by a key of %s:\n%s" % (inrelease, keyring, status))
    return r.stdout.decode()


def index_hash(release, name):
    """Entry of a Release file for a package index."""
    part = release.partition("\nSHA256:\n")[2]
    for line in part.splitlines():
        if not line.startswith(" "):
            break
        words = line.split()
        if len(words) == 3 and words[2] == name:
            return words[0]
    raise Unavailable("the suite has no %s" % name)


def stanzas(text, arch):
    """The packages of an index that can be part of a kernel, as dicts."""
    for block in text.split("\n\n"):
        if re.match(r"Package: linux-(image|binary|modules)-\S+-cloud-%s\n" % arch, block):
            yield dict(line.split(": ", 1) for line in block.splitlines()
                       if ": " in line and not line.startswith(" "))


def index(suite, folder, arch):
    """(uri of the archive, packages) of a suite."""
    name = INDEX % arch
    uri = mirror(suite.endswith("-security"))
    signed = os.path.join(folder, suite + ".InRelease")
    download("%s/dists/%s/InRelease" % (uri, suite), signed)
    sha256 = index_hash(verified(signed), name)
    packed = os.path.join(folder, suite + ".Packages.xz")
    download("%s/dists/%s/%s/by-hash/SHA256/%s" % (uri, suite, os.path.dirname(name), sha256),
             packed, sha256)
    with lzma.open(packed, "rt", encoding="utf-8") as f:
        return uri, list(stanzas(f.read(), arch))


def newer(a, b):
    """Order of package versions, as in dpkg."""
    for op, value in (("lt", -1), ("gt", 1)):
        if subprocess.run(["dpkg", "--compare-versions", a, op, b], check=False).returncode == 0:
            return value
    return 0


def choose(packages, version):
    """The newest image of this version and the packages split off from it."""
    name = re.compile(r"linux-image-%s([.+-]\S*)?-cloud-\w+$" % re.escape(version))
    images = [p for p in packages if name.match(p["Package"])]
    if not images:
        return []
    image = max(images, key=lambda p: functools.cmp_to_key(newer)(p["Version"]))
    depends = {re.split(r"[ (]", d.strip())[0] for d in image.get("Depends", "").split(",")}
    return [image] + [p for p in packages
                      if p["Package"] in depends and p["Version"] == image["Version"]]


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def fetch(version, folder, arch):
    """Download and verify the packages of a kernel into `folder`; return their paths."""
    found, seen = [], []
    for suite in SUITES.get(version, OTHER):
        uri, packages = index(suite, folder, arch)
        chosen = choose(packages, version)
        seen += [p["Package"] for p in packages if p["Package"].startswith("linux-image-")]
        if chosen:
            found.append((chosen, uri))
    if not found:
        raise Unavailable("no kernel %s in %s; available: %s" % (
            version, ", ".join(SUITES.get(version, OTHER)), " ".join(sorted(seen))))
    chosen, uri = max(found, key=lambda c: functools.cmp_to_key(newer)(c[0][0]["Version"]))
    paths = []
    for p in chosen:
        path = os.path.join(folder, os.path.basename(p["Filename"]))
        download("%s/%s" % (uri, p["Filename"]), path, p["SHA256"])
        if sha256_of(path) != p["SHA256"]:
            raise Unavailable("%s: hash differs from the index" % path)
        paths.append(path)
    return paths


def unpack(packages, folder):
    """vmlinuz, modules/ and about.json in `folder`."""
    whole = os.path.join(folder, "whole")
    for path in packages:
        run(["dpkg-deb", "-x", path, whole])
    image = glob.glob(whole + "/boot/vmlinuz-*") + \
        glob.glob(whole + "/usr/lib/modules/*/vmlinuz")
    modules = glob.glob(whole + "/lib/modules/*") + glob.glob(whole + "/usr/lib/modules/*")
    if len(image) != 1 or len(modules) != 1:
        raise Unavailable("%s hold no kernel: %s %s" % (packages, image, modules))
    os.rename(image[0], os.path.join(folder, "vmlinuz"))
    kept = os.path.join(folder, "modules")
    os.makedirs(kept)
    for sub in NOT_MODULES:
        shutil.rmtree(os.path.join(modules[0], sub), ignore_errors=True)
    for sub in MODULES:
        if os.path.isdir(os.path.join(modules[0], sub)):
            shutil.copytree(os.path.join(modules[0], sub), os.path.join(kept, sub))
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        if os.path.exists(os.path.join(modules[0], name)):
            shutil.copy(os.path.join(modules[0], name), kept)
    about = {"release": os.path.basename(modules[0]),
             "packages": {os.path.basename(p): sha256_of(p) for p in packages}}
    with open(os.path.join(folder, "about.json"), "w", encoding="ascii") as f:
        json.dump(about, f)
    shutil.rmtree(whole)


def get(version, cache, refresh=False, arch="amd64"):
    """The folder of a kernel, downloaded if missing. The caller holds the lock of the cache."""
    place = os.path.join(cache, "kernels", version if arch == "amd64" else "%s-%s" % (arch, version))
    if os.path.exists(os.path.join(place, "about.json")) and not refresh:
        return place
    os.makedirs(os.path.dirname(place), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="fetch-") as work:
        made = os.path.join(work, "kernel")
        os.makedirs(made)
        unpack(fetch(version, work, arch), made)
        shutil.rmtree(place, ignore_errors=True)
        os.rename(made, place)
    return place


def about(place):
    with open(os.path.join(place, "about.json"), encoding="ascii") as f:
        return json.load(f)
