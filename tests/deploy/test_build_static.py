# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/build-static, with stand-ins for apt and the builds: libraries of the last build are used until the archive has
others."""
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The archive has the version in $ARCHIVE/curl; without that file it cannot be reached.
PROGRAMS = {
    "apt-get": """#!/bin/sh
set -eu
echo "$*" >>"$ARCHIVE/log"
version=$(cat "$ARCHIVE/curl") || exit 100
case "$*" in
*--print-uris*curl) printf "Need to get 1 kB\\n'http://x/curl_$version.dsc' curl_$version.dsc 1 SHA256:$version\\n" ;;
*--print-uris*libmnl-dev) echo "'http://x/libmnl-dev_1.deb' libmnl-dev_1.deb 1 SHA256:1" ;;
*"source curl")
	mkdir "curl-$version"
	printf '#!/bin/sh\\n' >"curl-$version/configure"
	chmod +x "curl-$version/configure"
	;;
*"download libmnl-dev") touch libmnl-dev_1.deb ;;
esac
""",
    "dpkg-deb": """#!/bin/sh
mkdir -p "$3/usr/lib/$(gcc -dumpmachine)" && touch "$3/usr/lib/$(gcc -dumpmachine)/libmnl.a"
""",
    "make": "#!/bin/sh\n",
    "meson": "#!/bin/sh\nexit 7\n",
}


@pytest.fixture
def archive(tmp_path):
    for name, text in PROGRAMS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def build(archive, version):
    """(exit code, requests to apt). 7: the libraries are there, and vipd is built next."""
    (archive / "log").write_text("")
    (archive / "curl").unlink(missing_ok=True)
    if version:
        (archive / "curl").write_text(version)
    r = subprocess.run([ROOT + "/tools/build-static", archive / "out"], capture_output=True, text=True, check=False,
                       env=dict(os.environ, ARCHIVE=str(archive), PATH="%s/bin:%s" % (archive, os.environ["PATH"])))
    return r.returncode, [" ".join(line.split()[-2:]) for line in (archive / "log").read_text().splitlines()
                          if "print-uris" not in line and line.split()[-1] != "update"]


def test_libraries_follow_the_archive(archive):
    fetched = ["source curl", "download libmnl-dev"]
    assert build(archive, "7.1") == (7, fetched)
    assert build(archive, "7.1") == (7, [])
    assert build(archive, "7.2") == (7, fetched)
    assert os.listdir(archive / "out" / "src") and not (archive / "out" / "src" / "curl-7.1").exists()
    assert build(archive, "7.2") == (7, [])


def test_without_an_archive_nothing_is_built(archive):
    assert build(archive, "7.1")[0] == 7
    assert build(archive, None) == (100, [])
    assert build(archive, "7.1") == (7, [])
