# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents as they are installed: each link leads to an installed document and to one of its headings."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))


def tool():
    path = os.path.join(ROOT, "tools", "make-docs")
    loader = importlib.machinery.SourceFileLoader("make_docs", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_docs", loader))
    loader.exec_module(module)
    return module


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def anchors(text):
    return {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-")
            for h in re.findall(r"^#+ (.*)$", without_code(text), re.M)}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """{name: text} of what `meson install` puts into the folder of documents."""
    top = str(tmp_path_factory.mktemp("root"))
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "doc", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=top))
    (folder,) = [d for d, _, names in os.walk(top) if d.endswith("/doc/vipd")]
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            found[name] = f.read()
    return found


def test_links(installed):
    # What the unit, the alerts and other documents name.
    assert {"README.md", "flags.md", "troubleshooting.md", "deploy.md", "behaviour.md", "install.md"} <= set(installed)
    seen = 0
    for name, text in installed.items():
        for target, anchor in re.findall(r"\]\(([^)#: ]*)(?:#([^) ]*))?\)", without_code(text)):
            there = target or name
            assert there in installed, "%s: %s" % (name, target)
            assert not anchor or anchor in anchors(installed[there]), "%s: %s#%s" % (name, target, anchor)
            seen += 1
    assert seen > 50


def test_rewrite():
    rewrite = tool().rewrite
    there = {"README.md": "README.md", "doc/a.md": "a.md", "deploy/README.md": "deploy.md"}
    text = "[x](a.md#b) [`y`](../deploy/README.md) [z](design/1.md) ![i](images/i.png) [w](https://h/) [v](#v)\n" \
        "```\n[x](../none.md)\n```\n"
    assert rewrite(text, "doc/a.md", there) == \
        "[x](a.md#b) [`y`](deploy.md) z i [w](https://h/) [v](#v)\n```\n[x](../none.md)\n```\n"
