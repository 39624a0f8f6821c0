# SPDX-License-Identifier: GPL-2.0-or-later
"""The log of a daemon: a blocked reader, and JSON."""
import json
import os
import select
import subprocess

import pytest

import daemon
import lab as L


@pytest.fixture
def alone():
    with L.Lab(servers=False) as lab:
        vipd = daemon.Vipd(lab)
        vipd.write([])
        yield vipd
        vipd.close()


def full_pipe():
    """A full pipe in blocking mode: a plain write would block."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    while select.select([], [writer], [], 0)[1]:
        os.write(writer, b"#" * 4096)
    os.set_blocking(writer, True)
    return reader, writer


def test_a_blocked_reader_blocks_nothing(alone):
    """The daemon starts, serves and follows changes; when the reader returns, it reads everything
    from the first line on."""
    reader, writer = full_pipe()
    alone.proc = alone.lab.node.popen(*alone.argv(), stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    alone.wait_ready()
    alone.apply([])
    with open(reader, "rb", buffering=0) as f:
        text = b""

        def read():
            nonlocal text
            while select.select([f], [], [], 0)[0]:
                text += f.read(65536)
            return b"vipd " in text and text.endswith(b"\n")
        L.eventually(read, 15)
    lines = text.lstrip(b"#").decode().splitlines()
    assert all(line[:2].isdigit() for line in lines), lines
    assert any(" on node %s, " % L.NODE_NAME in line for line in lines), lines
    assert not any("lines dropped" in line for line in lines)
    assert alone.status()["state"] == "running"


def test_json(alone):
    """--logging-format=json: every line is an object, also those about an invalid document."""
    alone.flags["--logging-format"] = "json"
    alone.manifests.put("bad.json", json.dumps(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a\x1b[31m\u202eb"}}))
    alone.start()
    alone.stop()
    with open(alone.log_path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert all({"ts", "logger", "caller", "msg", "level"} <= set(x) for x in lines)
    assert all(("v" in x) != ("err" in x) for x in lines)
    assert any(x["logger"] == "source" and x["v"] == 0 and x["level"] == "warn" for x in lines)


@pytest.mark.parametrize("args", (["--logging-format=json", "--no-such-flag"],
                                  ["--no-such-flag", "--logging_format", "json"],
                                  ["--config", "FILE"]))
def test_json_of_a_bad_command_line(args, tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
                      "oomScoreAdj: 5000\nlogging: {format: json}\n", encoding="utf-8")
    args = [str(config) if a == "FILE" else a for a in args]
    r = subprocess.run([L.program("vipd")] + args, capture_output=True, text=True, timeout=L.LIMIT,
                       check=False)
    assert r.returncode == 2
    report = json.loads(r.stderr)
    assert report["err"] == report["msg"] and report["level"] == "error"
    assert "no-such-flag" in report["msg"] or "c.yaml:3: oomScoreAdj: '5000'" in report["msg"]
