# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab of the documents' scenes."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
for _folder in ("net", "resolver"):
    sys.path.append(os.path.join(os.path.dirname(HERE), _folder))

import lab as lab_  # noqa: E402


def pytest_collection_modifyitems(config, items):
    mine = [i for i in items if str(i.fspath).startswith(HERE) and "stage" in i.fixturenames]
    reason = lab_.missing() if mine else None
    for item in mine if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def stage():
    import scenes
    made = scenes.Stage()
    yield made
    made.close()
