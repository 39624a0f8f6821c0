# SPDX-License-Identifier: GPL-2.0-or-later
"""debs_in_container.py in a virtual machine (tests/vm) whose first process is systemd. Run by `make test-deb`."""
import glob
import os
import subprocess
import sys

import pytest

import debs_in_container as debs

sys.path.insert(0, os.path.join(debs.ROOT, "tests", "vm"))

import tree  # noqa: E402
import vm  # noqa: E402

# What dpkg and the packages' scripts run; the machine has no package management.
PACKAGES = ("dpkg", "perl-base", "init-system-helpers", "libc-bin", "tar", "diffutils", "xz-utils")


def test_in_a_machine():
    if debs.SUITE != debs.host_suite():
        pytest.skip("the machine has the libraries of this host")
    build = os.environ["VIPD_BUILD"]
    listed = subprocess.run(["dpkg-query", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout
    files = [tree.real(p) for p in listed.splitlines() if not tree.NOT_FILES.match(p) and os.path.isfile(p)]
    programs = [os.path.join(build, p) for p in ("vipd", "tests/tools/flow")]
    files += [tree.real(p) for p in tree.libraries([p for p in files if os.access(p, os.X_OK)] + programs)]
    files += [os.path.realpath(p) for p in files] + programs[1:] + glob.glob(debs.ROOT + "/build-deb/**/*.deb", recursive=True)
    r = vm.run(["/usr/bin/python3", "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider",
                "tests/deploy/debs_in_container.py"], cwd=debs.ROOT, env={"VIPD_BUILD": build}, files=sorted(set(files)),
               systemd=True, timeout=1800)
    print(r.output)
    assert r.failure() is None and r.status == 0, r.console[-2000:]
