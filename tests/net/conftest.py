# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures: a lab and a daemon a module, steady flows through every test of it."""
import itertools
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ctnetlink  # noqa: E402
import daemon  # noqa: E402
import lab as lab_  # noqa: E402
import planes  # noqa: E402


def pairs_of(item):
    params = sorted((k, repr(v)) for k, v in item.callspec.params.items())
    return set(itertools.combinations(params, 2)) or set(params)


def pairwise(items):
    """Reduce the cases of tests with parameters: every pair of values remains."""
    kept = []
    for _, group in itertools.groupby(items, lambda i: (i.fspath, i.originalname)):
        group = list(group)
        left = [i for i in group if hasattr(i, "callspec")]
        kept += [i for i in group if i not in left]
        missing = set().union(*map(pairs_of, left))
        while missing:
            best = max(left, key=lambda i: len(pairs_of(i) & missing))  # pylint: disable=W0640
            kept.append(best)
            missing -= pairs_of(best)
    return [i for i in items if i in kept]


def pytest_collection_modifyitems(config, items):
    if os.environ.get("VIPD_PAIRS"):
        kept = pairwise(items)
        config.hook.pytest_deselected(items=[i for i in items if i not in kept])
        items[:] = kept
    here = os.path.dirname(os.path.abspath(__file__))
    mine = [i for i in items if str(i.fspath).startswith(here)]
    if not mine:
        return
    reason = lab_.missing() or planes.missing(lab_.run)
    if reason is None:
        lab_.sweep()
    for item in mine:
        why = reason or planes.why_not(item.nodeid)
        if why is not None:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="module")
def lab():
    with lab_.Lab() as made:
        yield made


@pytest.fixture(scope="module")
def ct(lab):
    """Connection tracking of the node."""
    made = ctnetlink.Conntrack(lab.node)
    yield made
    made.close()


@pytest.fixture(scope="module")
def flags(request):
    """Flags of the module's daemon; FLAGS of the module, or none."""
    return getattr(request.module, "FLAGS", {})


@pytest.fixture(scope="module")
def vipd(lab, flags):
    made = daemon.Vipd(lab, flags)
    try:
        made.write([])
        made.start()
        made.apply([])
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def steady(vipd, lab):
    """Requests `vipd` first: the flows need the service."""
    flows = daemon.Steady(lab).start()
    yield flows
    flows.stop()


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Report a failure with the end of the daemon's log."""
    outcome = yield
    report = outcome.get_result()
    made = item.funcargs.get("vipd") if hasattr(item, "funcargs") else None
    if report.when == "call" and report.failed and made is not None:
        report.sections.append(("vipd log", made.log()))


@pytest.fixture(autouse=True)
def steady_all_along(request):
    """Steady flows during every test with a daemon: a reset, gap or moved flow fails the test.
    Tests that remove the tables run without (no_steady; planes.UNSTEADY)."""
    if "vipd" not in request.fixturenames:
        yield
        return
    flows = request.getfixturevalue("steady")
    if request.node.get_closest_marker("no_steady") or planes.is_unsteady(request.node.nodeid):
        flows.stop()
        yield
        flows.start()
    else:
        yield
        flows.check()
