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
        if target == "/v1/status":
            return 200, json.dumps({"api": 1, "state": "running"})
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


@pytest.mark.parametrize("args", (
    ["svc"], ["svc", "shop/web"], ["svc", "-o", "json"], ["dump"], ["dump", "web"], ["trace", "host", "10.96.0.1:80"],
    ["diff"]), ids=" ".join)
def test_waiting(server, vipctl, args):
    """While vipd waits for its first lists, it has no services, but the kernel may serve some."""
    status = {"api": 1, "state": "waiting", "source": {"waiting_for": "services, endpointslices"}}
    server.answers = {"/v1/status": (200, json.dumps(status)), "/v1/services": found(), "/v1/dump": found(),
                      "/v1/rows": found(), "/v1/trace": (200, json.dumps({"api": 1, "problem": None}))}
    with vipctl(*args, stdout=subprocess.PIPE) as p:
        out, err = p.communicate(timeout=60)
        assert (out, p.returncode) == ("", PROBLEM)
        assert "waiting for services, endpointslices; vipctl status shows the errors, vipctl svc --kernel" in err


@pytest.mark.parametrize("args,out", [
    (["svc", "shop/web"], "shop/web-2  ClusterIP  ok\n"), (["svc", "shop/web", "-o", "json"], ""),
    (["svc", "shop/web", "-o", "yaml"], ""), (["dump", "shop/web"], "")], ids=str)
def test_another_service(server, vipctl, args, out):
    """NAMESPACE/NAME that does not exist, perhaps any more, and one service that contains it."""
    server.answers = {"/v1/services": found("web-2"),
                      "/v1/services/shop%2Fweb-2": (200, json.dumps(dict(row("web-2"), api=1, has_object=True))),
                      "/v1/dump": found("web-2")}
    with vipctl(*args, stdout=subprocess.PIPE) as p:
        shown, err = p.communicate(timeout=60)
        assert shown.startswith(out) and bool(shown) == bool(out)
        assert "shop/web not found; the only match is shop/web-2" in err
        assert p.returncode == PROBLEM


@pytest.mark.parametrize("text,query", [("10.96.0.1:80/TCP", "10.96.0.1%3A80%2FTCP"),
                                        ("10.96.0.1/udp", "10.96.0.1%2Fudp"),
                                        ("[fd00::1]:80/TCP", "%5Bfd00%3A%3A1%5D%3A80%2FTCP")])
def test_address_with_protocol(server, vipctl, text, query):
    """As vipctl prints it: no NAMESPACE/NAME, also with -n."""
    server.answers = {"/v1/services?limit=all&namespace=shop&q=" + query: found("web"),
                      "/v1/services/shop%2Fweb": (200, json.dumps(dict(row("web"), api=1)))}
    with vipctl("svc", text, "-n", "shop", stdout=subprocess.PIPE) as p:
        out, err = p.communicate(timeout=60)
        assert out.startswith("shop/web") and (err, p.returncode) == ("", FINE)
