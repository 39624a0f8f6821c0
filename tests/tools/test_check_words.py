# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/check-words: the texts it reads, and the words it finds."""
import os
import types

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def words():
    module = types.ModuleType("check_words")
    module.__file__ = os.path.join(ROOT, "tools", "check-words")
    with open(module.__file__, encoding="utf-8") as f:
        exec(compile(f.read(), module.__file__, "exec"), module.__dict__)
    return module


def write(words, monkeypatch, tmp_path, name, text):
    monkeypatch.setattr(words, "ROOT", str(tmp_path))
    (tmp_path / name).write_text(text, encoding="utf-8")
    return name


def test_glossary(words):
    """doc/glossary.md: words in backticks in the columns "not", phrases of the last table."""
    bad, fine = words.glossary()
    assert {"owed", "nobody", "put right"} <= set(bad)
    assert "pending" not in bad and "vipctl monitor" not in bad
    assert "in doubt" in fine


def test_forbidden(words, monkeypatch):
    monkeypatch.setattr(words, "glossary", lambda: (["doubt", "put right"], ["in doubt"]))
    pieces = [words.Piece("f", n, text) for n, text in enumerate((
        "in doubt", "a doubt", "Put\n  right now", "doubtful", "no-doubt"))]
    assert [(p.line, w.lower()) for p, w in words.forbidden(pieces)] == [
        (1, "doubt"), (2, "put\n  right")]


def test_c_strings_and_comments(words, monkeypatch, tmp_path):
    name = write(words, monkeypatch, tmp_path, "a.c", '''
#include "owed.h"
/* A comment with "quotes". */
static const char *s = "one " "two %" PRIu64
	"three\\n"; // last
char c = '"';
f("four");
''')
    strings, comments = words.c_file(name)
    assert [" ".join(p.text.split()) for p in strings] == ["one two %", "three", "four"]
    assert [" ".join(p.text.split()) for p in comments] == ['A comment with "quotes".', "last"]


def test_markdown_without_code(words, monkeypatch, tmp_path):
    name = write(words, monkeypatch, tmp_path, "a.md", """# head
`owed` text [link](owed.md) <!-- owed -->
```
owed
```
    owed
""")
    assert [p.line for p in words.markdown(name)] == [1, 2]
    assert not any("owed" in p.text for p in words.markdown(name))


def test_python_comments(words, monkeypatch, tmp_path):
    name = write(words, monkeypatch, tmp_path, "a.py", '''"""Module."""
x = """no comment"""  # end
def f():
    """Function."""
''')
    assert [" ".join(p.text.split()) for p in words.python_comments(name)] == [
        "Module.", "end", "Function."]


def test_count(words):
    """Whole words in any case; conversions of printf do not count."""
    total, found = words.count([words.Piece("f", 1, "Who told %zu of it? It stands; understands.")])
    assert (total, found["who"], found["tell"], found["stands"], found["nobody"]) == (7, 1, 1, 1, 0)
