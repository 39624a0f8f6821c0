# SPDX-License-Identifier: GPL-2.0-or-later
"""-Dtests=false builds the programs only; the sources are valid C for musl; vipctl needs no libcurl."""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))
GENERATED = 2  # C files, at most
# Headers that musl does not have.
LIBRARIES = ("linux", "asm", "asm-generic", "libmnl", "libnftnl", "event2", "event.h", "evutil.h",
             "jansson.h", "jansson_config.h", "yaml.h", "curl")


def sources():
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, "src"))
                  for name in names if name.endswith(".c"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if shutil.which("meson") is None or shutil.which("ninja") is None:
        pytest.skip("meson or ninja is missing")
    folder = str(tmp_path_factory.mktemp("build"))
    subprocess.run(["meson", "setup", folder, ROOT, "-Dtests=false"], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


def ninja(folder, *args):
    return subprocess.run(["ninja", "-C", folder, *args], check=True, capture_output=True,
                          text=True).stdout


def test_programs_only(programs):
    steps = [line for line in ninja(programs, "-n").splitlines() if line.startswith("[")]
    assert not [s for s in steps if "tests/" in s or "bench/" in s]
    compiled = [s for s in steps if "Compiling C object" in s]
    assert len(sources()) <= len(compiled) <= len(sources()) + GENERATED


def test_musl(programs, tmp_path):
    if shutil.which("musl-gcc") is None:
        pytest.skip("musl-gcc (Debian package musl-tools) is missing")
    ninja(programs, "src/api/page_files.c")
    arch = subprocess.run(["gcc", "-print-multiarch"], check=True, capture_output=True,
                          text=True).stdout.strip()
    for name in LIBRARIES:
        for folder in ("/usr/include/" + arch, "/usr/include"):
            if os.path.exists(os.path.join(folder, name)):
                os.symlink(os.path.join(folder, name), tmp_path / name)
                break
    r = subprocess.run(["musl-gcc", "-fsyntax-only", "-std=gnu17", "-D_GNU_SOURCE",
                        "-DVIPD_VERSION=\"test\"", "-Werror=implicit-function-declaration",
                        "-I", os.path.join(ROOT, "src"), "-idirafter", str(tmp_path), *sources()],
                       capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stderr[:4000]


def test_vipctl_needs_no_libcurl():
    """Which makes the static vipctl three times as large."""
    needed = {name: subprocess.run(["readelf", "-d", os.path.join(BUILD, name)], check=True, capture_output=True,
                                   text=True).stdout for name in ("vipd", "vipctl")}
    assert "libcurl" in needed["vipd"] and "libcurl" not in needed["vipctl"]
