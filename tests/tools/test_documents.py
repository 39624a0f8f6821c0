# SPDX-License-Identifier: GPL-2.0-or-later
"""Documents: targets of links, named files, functions and tests exist."""
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                       stdout=subprocess.PIPE, text=True).stdout.split()
DOCUMENTS = [f for f in FILES if f.endswith(".md") and not f.startswith("tests/data/")]
NAMED = re.compile(r"(?<![\w./-])((?:src|tests|tools|doc|deploy|bench)/[\w./-]+"
                   r"\.(?:c|h|py|md|yaml|json|nft|js))\b")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def anchors(path):
    """Anchors of the headings."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.S | re.M)
    return {re.sub(r"[^a-z0-9 _-]", "", h.lower()).replace(" ", "-")
            for h in re.findall(r"^#+ (.*)$", text, re.M)}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links(path):
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.S | re.M)
    for target, anchor in re.findall(r"\]\(([^)#: ]*)(?:#([^) ]*))?\)", text):
        there = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        assert os.path.exists(os.path.join(ROOT, there)), target
        assert not anchor or anchor in anchors(there), "%s#%s" % (target, anchor)


# c-style.md names files of other projects.
@pytest.mark.parametrize("path", [d for d in DOCUMENTS if d != "doc/c-style.md"])
def test_named_files(path):
    missing = [m[1] for m in NAMED.finditer(read(path))
               if not os.path.exists(os.path.join(ROOT, m[1]))]
    assert not missing


@pytest.fixture(scope="module")
def names():
    """Identifiers of all C files."""
    return {name for f in FILES if f.endswith((".c", ".h"))
            for name in re.findall(r"[A-Za-z_]\w*", read(f))}


@pytest.mark.parametrize("path", [d for d in DOCUMENTS if d != "doc/c-style.md"])
def test_named_functions(path, names):
    """Named functions exist in the tree or are in the list of external functions below."""
    elsewhere = {"curl_multi_perform"}
    assert not set(re.findall(r"`(\w+)\(\)`", read(path))) - names - elsewhere


@pytest.mark.parametrize("path", DOCUMENTS)
def test_named_tests(path):
    """tests/x/test_y.py::test_z in a document exists."""
    missing = [name for name in re.findall(r"tests/[\w/]+\.py::test_\w+", read(path))
               if not re.search(r"^def %s\(" % name.split("::")[1], read(name.split("::")[0]), re.M)]
    assert not missing


def test_design_records():
    """Each record is in the index and says when to revisit it."""
    index = read("doc/design/README.md")
    records = [f for f in FILES if re.match(r"doc/design/\d{4}-.*\.md$", f)]
    assert records
    for path in records:
        assert "(%s)" % os.path.basename(path) in index, path
        assert re.findall(r"^## (.*)$", read(path), re.M)[-1] == "When to revisit", path
