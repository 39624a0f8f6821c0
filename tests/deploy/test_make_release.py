# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/release, with a stand-in for the builds: what it collects, and what it rejects."""
import glob
import hashlib
import os
import shutil
import subprocess
import tarfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Writes what `make deb` and `make image` write; the files depend on SOURCE_DATE_EPOCH, as archives do.
MAKE = r"""#!/bin/sh
set -eu
for goal; do
	case $goal in
	deb)
		mkdir -p build-deb
		echo "deb $SOURCE_DATE_EPOCH" >build-deb/vipd_1.2.3-1_amd64.deb
		echo log >build-deb/vipd_1.2.3-1_amd64.build
		;;
	image)
		mkdir -p build-static
		for f in vipd vipctl vipd.spdx.json vipd-1.2.3-amd64.oci.tar; do echo "$f $SOURCE_DATE_EPOCH" >build-static/$f; done
		echo old >build-static/vipd-1.2.2-amd64.oci.tar
		;;
	esac
done
"""
FILES = {"vipd-1.2.3.tar.gz", "vipd_1.2.3-1_amd64.deb", "vipd-1.2.3-linux-amd64", "vipctl-1.2.3-linux-amd64",
         "vipd-1.2.3-amd64.oci.tar", "vipd-1.2.3.spdx.json", "kubectl-vipd", "vipd-chart-1.2.3.tgz"}


def git(tree, *argv):
    return subprocess.run(["git", "-C", tree, "-c", "user.name=t", "-c", "user.email=t@localhost", *argv], check=True,
                          capture_output=True, text=True).stdout


@pytest.fixture
def tree(tmp_path):
    """A small repository with the files that the program reads."""
    top = str(tmp_path / "tree")
    for path, text in (("meson.build", "project('vipd', 'c',\n  version: '1.2.3',\n"),
                       ("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## 1.2.3 - 2026-01-01\n"),
                       (".gitignore", "/build*/\n"), ("deploy/kubectl-vipd", "#!/bin/sh\n")):
        os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
        with open(os.path.join(top, path), "w", encoding="utf-8") as f:
            f.write(text)
    for folder in "base", "chart", "monitoring", "overlays":
        shutil.copytree(os.path.join(ROOT, "deploy", folder), os.path.join(top, "deploy", folder), symlinks=True)
    os.mkdir(top + "/tools")
    shutil.copy(os.path.join(ROOT, "tools", "release"), top + "/tools")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "make").write_text(MAKE)
    (tmp_path / "bin" / "make").chmod(0o755)
    subprocess.run(["git", "init", "-q", top], check=True)
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return top


def release(tree, out="build-release"):
    path = "%s/bin:%s" % (os.path.dirname(tree), os.environ["PATH"])
    return subprocess.run([tree + "/tools/release", out], capture_output=True, text=True, check=False,
                          env=dict(os.environ, PATH=path))


def sums(tree):
    with open(tree + "/build-release/SHA256SUMS", encoding="utf-8") as f:
        return {line.split()[1]: line.split()[0] for line in f}


def test_release(tree):
    r = release(tree)
    assert r.returncode == 0 and "no tag v1.2.3 yet" in r.stderr, r.stderr
    found = sums(tree)
    assert set(found) == FILES
    assert {os.path.basename(p) for p in glob.glob(tree + "/build-release/*")} == FILES | {"SHA256SUMS"}
    for name, digest in found.items():
        with open(os.path.join(tree, "build-release", name), "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == digest
    with tarfile.open(tree + "/build-release/vipd-1.2.3.tar.gz") as tar:
        names = tar.getnames()
    assert "vipd-1.2.3/meson.build" in names and not [n for n in names if "build-" in n]


def test_chart_is_complete(tree):
    """Files in place of the links."""
    assert release(tree).returncode == 0
    with tarfile.open(tree + "/build-release/vipd-chart-1.2.3.tgz") as tar:
        found = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
        assert {m.name for m in tar if not m.isdir()} == found.keys()
    for name, path in (("Chart.yaml", "chart/Chart.yaml"), ("base/daemonset.yaml", "base/daemonset.yaml"),
                       ("overlays/openshift/scc.yaml", "overlays/openshift/scc.yaml"),
                       ("monitoring/podmonitor.yaml", "monitoring/podmonitor.yaml")):
        with open(os.path.join(ROOT, "deploy", path), "rb") as f:
            assert found["vipd/" + name] == f.read()


def test_equal_in_each_folder(tree, tmp_path):
    """The commit's time is in all archives; another folder and another day change nothing. A second run replaces the first."""
    git(tree, "tag", "v1.2.3")
    assert release(tree).returncode == 0
    first = sums(tree)
    other = str(tmp_path / "other")
    subprocess.run(["git", "clone", "-q", tree, other], check=True)
    os.utime(other + "/meson.build", (1, 1))
    r = release(other)
    assert r.returncode == 0 and r.stderr == ""
    assert sums(other) == first
    assert release(tree).returncode == 0 and sums(tree) == first


def rejected(tree, text):
    r = release(tree)
    assert r.returncode == 1 and r.stderr.startswith("release: ") and text in r.stderr, r.stderr
    assert not os.path.exists(tree + "/build-release")


def test_rejects_changes(tree):
    with open(tree + "/new", "w", encoding="utf-8"):
        pass
    rejected(tree, "not committed")


def test_rejects_missing_section(tree):
    with open(tree + "/CHANGELOG.md", "w", encoding="utf-8") as f:
        f.write("## [Unreleased]\n")
    git(tree, "commit", "-qam", "no section")
    rejected(tree, "CHANGELOG.md: no section")


def test_unreleased_changes(tree):
    """A trial without the tag warns; with the tag it is a mistake."""
    with open(tree + "/CHANGELOG.md", "w", encoding="utf-8") as f:
        f.write("## [Unreleased]\n\n### Added\n\n- Something.\n\n## 1.2.3 - 2026-01-01\n\n- Old.\n")
    git(tree, "commit", "-qam", "changes")
    r = release(tree)
    assert r.returncode == 0 and "these files are not 1.2.3" in r.stderr, r.stderr
    shutil.rmtree(tree + "/build-release")
    git(tree, "tag", "v1.2.3")
    rejected(tree, "section [Unreleased] is not empty")


def test_rejects_another_commit_than_the_tag(tree):
    git(tree, "tag", "v1.2.3")
    git(tree, "commit", "-q", "--allow-empty", "-m", "later")
    rejected(tree, "tag v1.2.3 is commit")


def test_rejects_a_folder_of_others(tree):
    os.mkdir(tree + "/build-release")
    r = release(tree)
    assert r.returncode == 1 and "was not made by this program" in r.stderr
