# SPDX-License-Identifier: GPL-2.0-or-later
"""--help and --version of both programs."""
import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build")))
COLUMNS = 80


def run(program, *args):
    return subprocess.run([os.path.join(BUILD, program)] + list(args), capture_output=True,
                          text=True, check=True, timeout=60).stdout


def options(text):
    """Long options of --help, and -v."""
    return re.findall(r"^  (?:-\w, )?(--?[a-z][a-z-]*)", text, re.M)


@pytest.mark.parametrize("program", ["vipd", "vipctl"])
def test_one_line_per_option(program):
    text = run(program, "--help")
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert len(options(text)) == len(set(options(text))) > 15


@pytest.mark.parametrize("command", ["status", "svc", "diff", "monitor", "top", "drain", "undrain", "eject", "admit",
                                     "trace", "dump", "doctor", "log", "migrate", "completion"])
def test_help_of_a_command(command):
    text = run("vipctl", command, "--help")
    assert run("vipctl", "help", command) == text
    assert command in run("vipctl", "help") == run("vipctl", "--help")
    assert text.startswith("Usage: vipctl %s" % command) and "--socket" in text
    assert ("--watch" in text) == (command in ("status", "svc", "diff", "top", "trace"))


@pytest.mark.parametrize("command,formats", [
    ("status", "table, wide, json or yaml"), ("svc", "table, wide, json, yaml or name"), ("monitor", "table or json"),
    ("top", "table"), ("dump", "json"), ("drain", "table, wide, json or yaml"), ("completion", None)])
def test_formats_of_a_command(command, formats):
    """--help, completion, man page and errors name the formats that the command accepts."""
    line = re.search(r"--output FORMAT +(.*?)( \[table\])?$", run("vipctl", command, "--help"), re.M)
    assert (line.group(1) if line else None) == formats
    with open(os.path.join(BUILD, "doc", "vipctl.8"), encoding="utf-8") as f:
        page = f.read()
    taken = re.search(r"^\.B \\-o, \\-\\-output.*?\nTaken by (.*?)\.\n(.*?)\.TP", page, re.M | re.S)
    assert (command in taken.group(1).split(", ")) == (formats is not None)
    assert ("\n%s: %s" % (command, formats) in "\n" + taken.group(2)) == (command in ("svc", "monitor", "top", "dump"))
    words = re.split(", | or ", formats or "")
    assert formats is None or run("vipctl", "__complete", command, "-o", "").split() == words
    for word in ["table", "wide", "json", "yaml", "name"]:
        r = subprocess.run([os.path.join(BUILD, "vipctl"), "--socket", "/nowhere", command, "-o", word],
                           capture_output=True, text=True, check=False, timeout=60)
        is_rejected = " takes -o %s, not %s" % (formats, word) in r.stderr or "not take --output" in r.stderr
        assert is_rejected == (word not in words), r.stderr


@pytest.mark.parametrize("program", ["vipd", "vipctl"])
def test_man_page_has_every_option(program):
    with open(os.path.join(BUILD, "doc", program + ".8"), encoding="utf-8") as f:
        page = f.read().replace("\\-", "-")
    missing = [o for o in options(run(program, "--help"))
               if not re.search(r"^\.B .*%s(?![\w-])" % o, page, re.M)]
    assert missing == []


def test_every_flag_is_documented():
    with open(os.path.join(ROOT, "doc", "flags.md"), encoding="utf-8") as f:
        document = f.read()
    assert [o for o in options(run("vipd", "--help")) if "| `%s` |" % o not in document] == []


@pytest.mark.parametrize("program", ["vipd", "vipctl"])
def test_version_has_the_commit(program):
    """The commit of the clone; without git only the version."""
    version = run(program, "--version").strip()
    m = re.match(r"%s \d+\.\d+\.\d+(?: \(commit ([0-9a-f]{12})(-dirty)?\))?(, |$)" % program, version)
    assert m, version
    has_commit = os.path.exists(os.path.join(ROOT, ".git")) and shutil.which("git") is not None
    assert (m.group(1) is not None) == has_commit
