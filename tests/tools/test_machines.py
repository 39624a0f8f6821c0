# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests listed in tests/vm/suite.py and tests/net/planes.py exist: with a wrong name a machine runs
no test."""
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "tests", "vm"), os.path.join(ROOT, "tests", "net")]

import planes  # noqa: E402
import suite  # noqa: E402


@pytest.mark.parametrize("plane", ("nft", "ipvs"))
def test_machines(plane):
    listed = {t for run in suite.runs("short") for t in run.tests
              if t != "kernel" and run.env.get("VIPD_PLANE", "nft") == plane}
    r = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only",
                        "-p", "no:cacheprovider"] + sorted(listed), cwd=ROOT, text=True,
                       env=dict(os.environ, VIPD_PLANE=plane), capture_output=True, check=False)
    assert r.returncode == 0, [x for x in r.stdout.splitlines() if "ERROR" in x] or r.stderr


def test_planes():
    for name in sum([list(x) for x in (*planes.NOT.values(), *planes.UNSTEADY.values())], []):
        file, _, test = name.partition("::")
        with open(os.path.join(ROOT, "tests", "net", file), encoding="utf-8") as f:
            wanted = r"^def %s\(" % test.split("[")[0] if test else ""
            assert re.search(wanted, f.read(), re.M), name
