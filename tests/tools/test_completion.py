# SPDX-License-Identifier: GPL-2.0-or-later
"""What `vipctl completion` makes, used by its shells as a person does: read once, then Tab."""
import os
import pty
import select
import shutil
import subprocess
import time

import pyte
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VIPCTL = os.path.join(os.path.abspath(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))),
                      "vipctl")
SECONDS = 30
BEGIN = {
    "bash": ["bash", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config"],
}
READ = {
    "bash": "PS1='> '; source <(%s completion bash); echo rea''dy\n",
    "zsh": "PS1='> '; autoload -U compinit; compinit -u -D; source <(%s completion zsh); "
           "print rea''dy\n",
    "fish": "function fish_prompt; echo '> '; end; %s completion fish | source; echo rea''dy\n",
}
# What is typed in front of Tab, and the line it becomes.
LINES = [
    ("vipctl mon", "vipctl monitor"),
    ("vipctl svc shop/d", "vipctl svc shop/db"),
    ("vipctl drain web", "vipctl drain web/cart"),
    ("vipctl -o json undrain web", "vipctl -o json undrain web/cart"),
    ("vipctl -o j", "vipctl -o json"),
    ("vipctl svc --state rej", "vipctl svc --state rejected"),
    ("vipctl svc --ker", "vipctl svc --kernel"),
    ("vipctl completion z", "vipctl completion zsh"),
]


class Terminal:
    """A shell, and what it shows."""

    def __init__(self, shell, home):
        env = {"TERM": "xterm", "HOME": home, "PATH": home + ":" + os.environ["PATH"],
               "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "LANG": "C.UTF-8"}
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(shell, BEGIN[shell], env)
        self.screen = pyte.Screen(100, 40)
        self.stream = pyte.Stream(self.screen)

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, text):
        """Until a line ends with this; the screen if it never does."""
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
    """With a vipctl that knows three services."""
    fake = tmp_path / "vipctl"
    fake.write_text("#!/bin/sh\necho shop/cart; echo shop/db; echo web/cart\n")
    fake.chmod(0o755)
    return str(tmp_path)


@pytest.mark.parametrize("shell", BEGIN)
def test_tab(home, shell):
    if shutil.which(shell) is None:
        pytest.skip("no %s (Debian package %s)" % (shell, shell))
    t = Terminal(shell, home)
    try:
        t.type(READ[shell] % VIPCTL)
        t.wait("ready")
        for typed, becomes in LINES:
            t.type(typed + "\t")
            t.wait(becomes)
            t.type("\x15")  # away with it
    finally:
        t.close()


@pytest.mark.parametrize("shell", BEGIN)
def test_nothing_is_run_when_read(home, shell):
    """Reading it says nothing and asks nobody."""
    if shutil.which(shell) is None:
        pytest.skip("no %s (Debian package %s)" % (shell, shell))
    script = subprocess.run([VIPCTL, "completion", shell], capture_output=True, text=True, check=True)
    load = {"bash": "", "zsh": "autoload -U compinit; compinit -u -D\n", "fish": ""}[shell]
    done = subprocess.run([shell], input=load + script.stdout, capture_output=True, text=True,
                          check=False, timeout=SECONDS,
                          env={"PATH": os.environ["PATH"], "HOME": home, "TERM": "dumb"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
