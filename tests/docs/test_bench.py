# SPDX-License-Identifier: GPL-2.0-or-later
"""`make bench` can succeed: tools/bench has a run for each program of bench/, and each program prints figures
in its quick run and exits with 0."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "net"))

import lab as L  # noqa: E402

TOOL = os.path.join(ROOT, "tools", "bench")
LOADER = importlib.machinery.SourceFileLoader("bench_tool", TOOL)
BENCH = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_tool", LOADER))
LOADER.exec_module(BENCH)


def bench(name, **env):
    """Lines that contain a figure, without the headings of tools/bench."""
    env = dict({k: v for k, v in os.environ.items() if not k.startswith("BENCH_")}, **env)
    r = subprocess.run([TOOL, L.build_dir(), name], capture_output=True, text=True, env=env, check=False)
    assert r.returncode == 0, r.stdout + r.stderr
    return [x for x in r.stdout.splitlines() if re.search(r"\d", x) and not x.startswith("==")], r.stdout


def test_every_program_has_runs():
    assert set(BENCH.programs(L.build_dir())) == set(BENCH.RUNS)


@pytest.mark.skipif(L.missing() is not None, reason=str(L.missing()))
@pytest.mark.parametrize("name", [name for name, (_, quick) in BENCH.RUNS.items() if quick is not None])
def test_quick_run(name):
    figures, out = bench(name, BENCH_QUICK="1")
    assert len(figures) > 1, out


@pytest.mark.skipif(L.missing() is not None, reason=str(L.missing()))
def test_change_of_a_large_service_keeps_memory():
    """A change of one of 50,000 endpoints does not return its memory to the kernel: with that, 200 to 960 page faults."""
    out = subprocess.run([L.program("bench/steps"), "50000"], capture_output=True, text=True, check=True).stdout
    assert int(re.search(r"; (\d+) page faults a change", out).group(1)) < 100, out


@pytest.mark.parametrize("name, other", [("takeover", "BENCH_KUBE_PROXY"), ("router", "BENCH_KUBE_ROUTER")])
def test_without_the_other_proxy(name, other):
    """It needs no argument but BUILD, and names what is missing."""
    figures, out = bench(name)
    assert figures == [] and any(why in out for why in (L.missing() or other, other + " is not set"))
