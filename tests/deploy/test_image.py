# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/make-image with the first page of the programs of the build: form, labels, SBOM, equal bytes. image_in_namespace.py tests the
image of `make image`."""
import json
import os
import re
import subprocess

import image
import kustomize

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))
COMPONENTS = "curl 7.88.1-10\nglibc 2.36-9+deb12u1\nlibzstd 1.5.7+dfsg-1\nzlib 1:1.3.1-1\n"     # Debian 13 has all four


def program(name):
    with open(os.path.join(BUILD, name), "rb") as f:
        return f.read(4096)


def make(folder, **env):
    folder.mkdir()
    for name in "vipd", "vipctl":
        (folder / name).write_bytes(program(name))
        os.utime(folder / name, (len(str(folder)), 1))
    (folder / "components").write_text(COMPONENTS)
    (folder / "copyright").mkdir()
    for line in COMPONENTS.splitlines():
        (folder / "copyright" / line.split()[0]).write_text("notices of %s\n" % line)
    subprocess.run([os.path.join(ROOT, "tools/make-image"), folder], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, **env))
    (found,) = folder.glob("*.oci.tar")
    return found


def test_archive(tmp_path):
    path = make(tmp_path / "a")
    made = image.Image(path)
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as f:
        version = re.search(r"version: '([\d.]+)'", f.read())[1]
    labels = made.config["config"]["Labels"]
    assert labels == made.manifest["annotations"]
    assert labels["org.opencontainers.image.version"] == version
    # The kubelet completes the name in the DaemonSet; containerd's import does not complete the one in the archive.
    named = kustomize.build(os.path.join(ROOT, "deploy"))["apps/v1", "DaemonSet", "vipd"]["spec"]["template"]["spec"]
    assert made.names == {"org.opencontainers.image.ref.name": "vipd:" + version,
                          "io.containerd.image.name": "docker.io/library/" + named["containers"][0]["image"]}
    assert labels["org.opencontainers.image.licenses"] == "GPL-2.0-or-later"
    assert made.config["os"] == "linux" and made.config["architecture"] in path.name
    assert made.config["config"]["Entrypoint"] == ["/usr/sbin/vipd"]
    programs = [p for p, m in made.files.items() if m.isfile() and m.mode & 0o111]
    assert programs == ["usr/bin/vipctl", "usr/sbin/vipd"]      # no shell
    assert all((m.uid, m.gid, m.mtime) == (0, 0, 0) for m in made.files.values())
    assert made.read("usr/sbin/vipd") == program("vipd")
    assert made.read("usr/share/doc/vipd/copyright.curl") == b"notices of curl 7.88.1-10\n"
    assert {p for p in made.files if "/copyright." in p} == {
        "usr/share/doc/vipd/copyright." + name for name in ("curl", "glibc", "libzstd", "zlib")}


def test_containerfile_has_the_labels(tmp_path):
    config = image.Image(make(tmp_path / "a")).config["config"]
    with open(os.path.join(ROOT, "deploy/Containerfile"), encoding="utf-8") as f:
        text = f.read()
    here = dict(re.findall(r'(org\.opencontainers\.image\.\w+)="(.*?)"', text))
    assert here == {k: v for k, v in config["Labels"].items() if k.split(".")[-1] not in ("created", "revision")}
    assert json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.M)[1]) == config["Entrypoint"]
    assert re.search(r"^ENV (.*)$", text, re.M)[1] == config["Env"][0]
    assert text.split("FROM ")[-1].startswith("scratch")


def test_sbom(tmp_path):
    path = make(tmp_path / "a")
    inside = json.loads(image.Image(path).read("usr/share/doc/vipd/vipd.spdx.json"))
    assert inside == json.loads((tmp_path / "a" / "vipd.spdx.json").read_text())
    assert inside["spdxVersion"] == "SPDX-2.3" and inside["dataLicense"] == "CC0-1.0"
    held = {p["name"]: p for p in inside["packages"]}
    assert set(held) == {"vipd", "curl", "glibc", "libzstd", "zlib"}
    assert held["curl"]["externalRefs"][0]["referenceLocator"] == "pkg:deb/debian/curl@7.88.1-10?arch=source"
    assert all(p["licenseDeclared"] for p in held.values())
    ids = {p["SPDXID"] for p in inside["packages"]} | {"SPDXRef-DOCUMENT"}
    assert all({r["spdxElementId"], r["relatedSpdxElement"]} <= ids for r in inside["relationships"])


def test_equal_bytes(tmp_path):
    """Neither folder nor file times nor umask nor time zone is in the archive; SOURCE_DATE_EPOCH is."""
    first = make(tmp_path / "a").read_bytes()
    old = os.umask(0o077)
    try:
        assert make(tmp_path / "longer", TZ="Asia/Tokyo").read_bytes() == first
    finally:
        os.umask(old)
    assert make(tmp_path / "c", SOURCE_DATE_EPOCH="1700000000").read_bytes() != first
