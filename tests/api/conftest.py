# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures: one API server per test, and feeds (feed.py) that end with it."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from apiserver.client import Server  # noqa: E402
from feed import Feed  # noqa: E402


@pytest.fixture
def api():
    # A bookmark ends a reported failure: sooner than the default of a second.
    with Server(bookmark_seconds=0.2) as server:
        yield server
        assert server.errors() == ""


@pytest.fixture
def start(api):
    """start(...): a Feed on this server, with the arguments of Feed."""
    feeds = []

    def make(*args, config=None, user="token", **kw):
        if config is None and "master" not in kw and "account_dir" not in kw:
            config = api.kubeconfig(user)
        feed = Feed(*args, config=config, **kw)
        feeds.append(feed)
        return feed

    yield make
    for feed in feeds:
        feed.close()
