# SPDX-License-Identifier: GPL-2.0-or-later
"""Output in documents equals the output of the programs.

In doc/*.md, the commands of a block after `<!-- lab: SCENE -->` are run in the lab (scenes.py),
and their output is compared by its shape: times, counters and the widths of columns may differ.
VIPD_DOCS_ACCEPT=1 writes the new output into the documents; review it like code.
"""
import glob
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"<!-- lab: ([a-z-]+) -->\n```console\n(.*?)```\n", re.S)
TIME = r"\d+(?:\.\d+)? (?:ms|us|d|h|m|s)\b"


def documents():
    return [p for p in sorted(glob.glob(os.path.join(ROOT, "doc", "*.md")))
            if "<!-- lab:" in open(p, encoding="utf-8").read()]


def blocks():
    """[(document, number of the block, scene, text)]"""
    out = []
    for path in documents():
        with open(path, encoding="utf-8") as f:
            out += [(path, i, m[1], m[2]) for i, m in enumerate(BLOCK.finditer(f.read()))]
    return out


def commands(text):
    """[[command, output]] of a block; a backslash continues a line."""
    out = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            out.append([line[2:].rstrip("\n"), ""])
        elif out and out[-1][0].endswith("\\"):
            out[-1][0] += "\n" + line.rstrip("\n")
        else:
            out[-1][1] += line
    return out


def shape(text):
    """`text` without times and counters, which differ in each run; addresses and names stay."""
    text = re.sub(r"%s(?: %s)*" % (TIME, TIME), "TIME", text)
    text = re.sub(r"\d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT[0-9:.]+Z", "CLOCK", text)
    text = re.sub(r"(?<![\w.:/-])\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w.:/-]*[\w/])", "N", text)
    text = re.sub(r"\b(sport|dport|id|use|pid)=\d+", r"\1=N", text)
    text = re.sub(r"(?:TIME|N)(?=[ ,;)]|$)", "#", text, flags=re.M)
    return [re.sub(r" {2,}", "  ", line).strip() for line in text.splitlines()]


def test_shape():
    """Numbers are removed, names and addresses stay."""
    assert shape("half within 64 us, pool 14 (2)") == shape("half within 1.2 ms, pool 9 (3)")
    assert shape("up 3 h 12 m") == shape("up 4 s")
    assert shape("10.96.0.8:80/TCP  slot 0") != shape("10.96.0.9:80/TCP  slot 0")
    assert shape("web-a  ok") != shape("web-b  ok")


def scenes_of(name=None):
    return sorted({b[2] for b in blocks()})


@pytest.mark.parametrize("scene", scenes_of())
def test_scene(stage, scene):
    """All blocks of a scene, in all documents."""
    stage.play(scene)
    wrong = []
    for path, i, name, text in blocks():
        if name != scene:
            continue
        shown = [(command, stage.run(command)) for command, _ in commands(text)]
        if os.environ.get("VIPD_DOCS_ACCEPT"):
            accept(path, i, shown)
            continue
        for (command, is_now), (_, was) in zip(shown, commands(text)):
            if shape(is_now) != shape(was):
                wrong.append("%s: $ %s\nthe document:\n%s\nnow:\n%s" % (
                    os.path.relpath(path, ROOT), command, "\n".join(shape(was)),
                    "\n".join(shape(is_now))))
    assert not wrong, "\n".join(wrong)


def accept(path, number, shown):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    m = list(BLOCK.finditer(text))[number]
    new = "".join("$ %s\n%s" % (command, out if not out or out.endswith("\n") else out + "\n")
                  for command, out in shown)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text[:m.start(2)] + new + text[m.end(2):])


def test_documents_have_blocks():
    assert {os.path.basename(p) for p in documents()} >= {"reading-your-node.md",
                                                          "troubleshooting.md"}
