# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl with a server that answers as vipd: standard output that cannot be written, error answers,
and the services that an argument selects."""
import http.server
import json
import os
import socketserver
import subprocess
import threading

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VIPCTL = os.path.join(os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build")), "vipctl")
FINE, PROBLEM = 0, 1
LARGE = 2000  # services: more than the buffers of stdio and of a pipe

pytestmark = pytest.mark.skipif(not os.access(VIPCTL, os.X_OK), reason="vipctl is not built")


def row(name):
    return {"namespace": "shop", "name": name, "type": "ClusterIP", "state": "ok", "ports": []}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = self.server.answer(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_PUT = do_GET

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path):
        super().__init__(path, Handler)
        self.answers = {}  # path, with or without parameters -> (status, body)

    def answer(self, target):
        for key in (target, target.split("?")[0]):
            if key in self.answers:
                return self.answers[key]
        return 404, json.dumps({"error": {"status": 404, "text": "%s not found" % target}})

    def handle_error(self, request, client_address):
        pass  # vipctl has exited


@pytest.fixture
def server(tmp_path):
    path = str(tmp_path / "control.sock")
    with Server(path) as s:
        thread = threading.Thread(target=s.serve_forever)
        thread.start()
        yield s
        s.shutdown()
        thread.join()


@pytest.fixture
def vipctl(server):
    def run(*args, **kwargs):
        return subprocess.Popen([VIPCTL, "--socket", server.server_address] + list(args),
                                stderr=subprocess.PIPE, text=True, **kwargs)
    return run


@pytest.fixture
def large(server):
    items = [row("web-%d" % i) for i in range(LARGE)]
    server.answers = {
        "/v1/services": (200, json.dumps({"api": 1, "items": items})),
        "/v1/dump": (200, json.dumps({"api": 1, "items": items})),
        "/v1/monitor": (200, "".join(json.dumps(dict(i, event="service", change="put")) + "\n"
                                     for i in items)),
    }


COMMANDS = pytest.mark.parametrize("args", (
    ["svc"], ["svc", "-o", "json"], ["svc", "-o", "yaml"], ["svc", "-o", "name"], ["dump"], ["dump", "--bundle"],
    ["monitor"], ["monitor", "-o", "json"]), ids=" ".join)


@COMMANDS
def test_disk_full(large, vipctl, args):
    with open("/dev/full", "w", encoding="utf-8") as full, vipctl(*args, stdout=full) as p:
        assert p.communicate(timeout=60)[1] == "vipctl: standard output: No space left on device\n"
        assert p.returncode == PROBLEM


@pytest.mark.parametrize("args", (["--help"], ["--version"], ["completion", "bash"]), ids=" ".join)
def test_disk_full_without_vipd(vipctl, args):
    with open("/dev/full", "w", encoding="utf-8") as full, vipctl(*args, stdout=full) as p:
        assert p.communicate(timeout=60)[1] == "vipctl: standard output: No space left on device\n"
        assert p.returncode == PROBLEM


@COMMANDS
def test_reader_has_exited(large, vipctl, args):
    """Not an error: vipctl svc | head."""
    if "--bundle" in args:
        pytest.skip("exit code 1: parts are missing here")
    with vipctl(*args, stdout=subprocess.PIPE) as p:
        assert p.stdout.read(1)
        p.stdout.close()
        assert p.stderr.read() == ""
        assert p.wait(60) == FINE


@pytest.mark.parametrize("args", (["monitor"], ["drain", "shop/web", "web-1"]), ids=" ".join)
def test_limit_of_vipd(server, vipctl, args):
    """An answer with a reason comes from vipd, so vipd is not unreachable (exit code 3)."""
    error = (503, json.dumps({"error": {"status": 503, "text": "limit of 8 reached"}}))
    server.answers = {"/v1/monitor": error, "/v1/drains": error}
    with vipctl(*args) as p:
        assert p.stderr.read() == "vipctl: limit of 8 reached\n"
        assert p.wait(60) == PROBLEM


def found(*names):
    return 200, json.dumps({"api": 1, "items": [row(n) for n in names]})


@pytest.mark.parametrize("names,shown", [(["web"], "shop/web\n"), (["web", "web-2"], "shop/web\nshop/web-2\n")])
def test_part_of_namespace_and_name(server, vipctl, names, shown):
    """A part of NAMESPACE/NAME that is no service is searched."""
    server.answers = {"/v1/services/shop%2Fweb": (200, json.dumps(dict(row("web"), api=1))),
                      "/v1/services?limit=all&q=shop%2Fwe": found(*names)}
    with vipctl("svc", "shop/we", "-o", "name", stdout=subprocess.PIPE) as p:
        assert p.communicate(timeout=60) == (shown, "")
        assert p.returncode == FINE


@pytest.mark.parametrize("args,words", [
    (["svc", "shop/x"], "no service has 'shop/x' in its name"),
    (["svc", "shop/x", "-n", "shop", "--state", "pending,rejected"],
     "no service of namespace shop in state pending,rejected has 'shop/x' in its name"),
    (["dump", "x"], "no service has 'x' in its name")])
def test_unknown_service(server, vipctl, args, words):
    server.answers = {"/v1/services": found()}
    with vipctl(*args) as p:
        assert words in p.stderr.read()
        assert p.wait(60) == PROBLEM


@pytest.mark.parametrize("text,target", [
    ("shop/web", "/v1/dump?namespace=shop&name=web"), ("web", "/v1/dump?namespace=shop&name=web"),
    ("shop/we", "/v1/dump?q=shop%2Fwe"), ("eb", "/v1/dump?q=eb")])
def test_dump_selects_as_svc(server, vipctl, text, target):
    """The service of exactly this name, else all that contain the text."""
    server.answers = {"/v1/services": found("web", "web-2"), target: (200, "selected\n")}
    with vipctl("dump", text, stdout=subprocess.PIPE) as p:
        assert p.communicate(timeout=60) == ("selected\n", "")
        assert p.returncode == FINE
