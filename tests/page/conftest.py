# SPDX-License-Identifier: GPL-2.0-or-later
"""A namespace with vipd and a browser in it."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
for _folder in ("net", "resolver"):
    sys.path.append(os.path.join(os.path.dirname(HERE), _folder))

import browser as browser_  # noqa: E402
import lab as lab_  # noqa: E402


def pytest_collection_modifyitems(config, items):
    mine = [i for i in items if str(i.fspath).startswith(HERE)]
    reason = (lab_.missing() or browser_.missing()) if mine else None
    for item in mine if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


class Alone:
    """The part of a lab that daemon.Vipd needs: a node without neighbours."""

    def __init__(self):
        self.node = lab_.Ns("%s%d-page" % (lab_.PREFIX, os.getpid()))
        self.node.run("ip", "link", "set", "lo", "up")
        self.node.sysctl(net__ipv4__ip_forward=1, net__ipv6__conf__all__forwarding=1)
        self.node.run("ip", "addr", "add", lab_.NODE[4] + "/32", "dev", "lo")

    def close(self):
        self.node.close()


@pytest.fixture(scope="module")
def alone():
    made = Alone()
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser(alone):
    made = browser_.Browser(alone.node)
    yield made
    made.close()
