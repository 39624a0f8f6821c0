# SPDX-License-Identifier: GPL-2.0-or-later
"""Completion scripts of vipctl and vipd, sourced in interactive shells that receive Tab."""
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import termios
import time

import pyte
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build")))
PROGRAMS = {"vipctl": "completion", "vipd": "--completion"}
SECONDS = 60
ROWS, COLUMNS = 40, 400  # wide enough for paths of pytest
BEGIN = {
    "bash": ["bash", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config"],
}
READ = {
    "bash": "PS1='> '; source <(%s); echo rea''dy\n",
    "zsh": "PS1='> '; autoload -U compinit; compinit -u -D; source <(%s); "
           "print rea''dy\n",
    "fish": "function fish_prompt; echo '> '; end; %s | source; echo rea''dy\n",
}
# (input before Tab, resulting line)
LINES = {"vipctl": [
    ("vipctl mon", "vipctl monitor"),
    ("vipctl svc shop/d", "vipctl svc shop/db"),
    ("vipctl drain web", "vipctl drain web/cart"),
    ("vipctl -o json undrain web", "vipctl -o json undrain web/cart"),
    ("vipctl -o j", "vipctl -o json"),
    ("vipctl svc --state rej", "vipctl svc --state rejected"),
    ("vipctl svc --state=rej", "vipctl svc --state=rejected"),
    ("vipctl monitor --service web", "vipctl monitor --service web/cart"),
    ("vipctl svc --ker", "vipctl svc --kernel"),
    ("vipctl completion z", "vipctl completion zsh"),
], "vipd": [
    ("vipd --masq", "vipd --masquerade-all"),
    ("vipd --ipvs-tcpf", "vipd --ipvs-tcpfin-timeout"),
    ("vipd --proxy-mode ipv", "vipd --proxy-mode ipvs"),
    ("vipd --proxy-mode=ipv", "vipd --proxy-mode=ipvs"),
    ("vipd -v 4 --detect-local-mode Node", "vipd -v 4 --detect-local-mode NodeCIDR"),
    ("vipd --config %s/serv", "vipd --config %s/services.yaml"),
]}


def script(program, shell):
    """The command line that prints the completion script."""
    return [os.path.join(BUILD, program), PROGRAMS[program], shell]


class Terminal:
    """A shell and its screen."""

    def __init__(self, shell, home):
        env = {"TERM": "xterm", "HOME": home, "PATH": home + ":" + os.environ["PATH"],
               "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "LANG": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
            os.execvpe(shell, BEGIN[shell], env)
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.Stream(self.screen)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, text):
        """Wait until a line ends with this; return the screen at the time limit."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            lines = [line.rstrip() for line in self.screen.display]
            if any(line.endswith(text) for line in lines):
                return
            if select.select([self.fd], [], [], 0.1)[0]:
                self.stream.feed(os.read(self.fd, 65536).decode("utf-8", "replace"))
        raise AssertionError("no %r:\n%s" % (text, "\n".join(filter(None, lines))))

    def close(self):
        os.close(self.fd)  # hangs up
        end = time.monotonic() + SECONDS
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0 and time.monotonic() < end:
            time.sleep(0.02)


@pytest.fixture(name="home")
def home_(tmp_path):
    """A home directory with a long path, a file, vipd, and a vipctl that prints three services."""
    tmp_path /= "long" * 20
    tmp_path.mkdir()
    fake = tmp_path / "vipctl"
    fake.write_text("#!/bin/sh\n[ \"$1\" != __complete ] || exec %s/vipctl \"$@\"\n"
                    "echo shop/cart; echo shop/db; echo web/cart\n" % BUILD)
    fake.chmod(0o755)
    (tmp_path / "vipd").symlink_to(os.path.join(BUILD, "vipd"))
    (tmp_path / "services.yaml").write_text("")
    return str(tmp_path)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", BEGIN)
def test_tab(home, shell, program):
    if shutil.which(shell) is None:
        pytest.skip("no %s (Debian package %s)" % (shell, shell))
    t = Terminal(shell, home)
    try:
        t.type(READ[shell] % " ".join(script(program, shell)))
        t.wait("ready")
        for typed, becomes in LINES[program]:
            t.type(typed.replace("%s", home) + "\t")
            t.wait(becomes.replace("%s", home))
            t.type("\x15")  # clear the line
    finally:
        t.close()


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", BEGIN)
def test_nothing_runs_when_sourced(home, shell, program):
    """Sourcing prints nothing and runs no command."""
    if shutil.which(shell) is None:
        pytest.skip("no %s (Debian package %s)" % (shell, shell))
    text = subprocess.run(script(program, shell), capture_output=True, text=True, check=True).stdout
    load = {"bash": "", "zsh": "autoload -U compinit; compinit -u -D\n", "fish": ""}[shell]
    done = subprocess.run([shell], input=load + text, capture_output=True, text=True,
                          check=False, timeout=SECONDS,
                          env={"PATH": os.environ["PATH"], "HOME": home, "TERM": "dumb"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
