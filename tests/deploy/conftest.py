# SPDX-License-Identifier: GPL-2.0-or-later
"""A network namespace for vipd in a sandbox."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [HERE, TESTS, os.path.join(TESTS, "net"), os.path.join(TESTS, "resolver")]

import lab as L  # noqa: E402


@pytest.fixture
def netns():
    ns = L.Ns("%s%d-unit" % (L.PREFIX, os.getpid()))
    try:
        ns.run("ip", "link", "set", "lo", "up")
        ns.run("ip", "addr", "add", "198.51.100.1/32", "dev", "lo")
        yield ns
    finally:
        ns.close()
