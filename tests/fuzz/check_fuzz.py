#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the fuzz targets able to find something?

    check_fuzz.py overread PROGRAM CORPUS...   the replay of a target that reads one byte too many
                                               is ended by AddressSanitizer
    check_fuzz.py grows PROGRAM CORPUS...      libFuzzer sees the coverage of the code under test,
                                               and inputs of its own reach more of it
"""
import os
import re
import subprocess
import sys
import tempfile

RUNS = 20000  # work, not time; with -seed the same each time
COVERAGE = re.compile(r"^#\d+\s+(\w+)\s+cov: (\d+) ", re.M)


def run(*args, **env):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, check=False,
                          env=dict(os.environ, **env))


def overread(program, corpus):
    r = run(program, *corpus, ASAN_OPTIONS="abort_on_error=0:detect_leaks=0")
    assert r.returncode != 0 and "heap-buffer-overflow" in r.stdout, r.stdout[-2000:]


def grows(program, corpus):
    with tempfile.TemporaryDirectory() as empty:
        r = run(program, "-runs=%d" % RUNS, "-seed=1", "-max_len=4096", "-artifact_prefix=%s/" % empty,
                empty)
        seeded = run(program, "-runs=0", empty, *corpus)
    assert r.returncode == 0 and seeded.returncode == 0, (r.stdout + seeded.stdout)[-4000:]
    found = [int(n) for _, n in COVERAGE.findall(r.stdout)]
    assert found, "no coverage: the code is not instrumented\n" + r.stdout[-2000:]
    with_corpus = int(COVERAGE.findall(seeded.stdout)[-1][1])
    print("%s: coverage %d at first, %d after %d runs, %d with the corpus" % (
        os.path.basename(program), found[0], found[-1], RUNS, with_corpus))
    # New input is found by coverage. The target alone has fewer edges than 50: the corpus reaches the code under test.
    assert found[-1] > found[0] and with_corpus > 50, (r.stdout + seeded.stdout)[-2000:]


if __name__ == "__main__":
    {"overread": overread, "grows": grows}[sys.argv[1]](sys.argv[2], sys.argv[3:])
