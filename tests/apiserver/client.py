# SPDX-License-Identifier: GPL-2.0-or-later
"""The server for tests: start it, control it, write kubeconfigs for it, clean up.

    with Server() as api:
        api.put(service)
        config = api.kubeconfig("token")
        ... run vipd with --kubeconfig=config ...
        api.fault("reset", resource="services", verb="watch", at="object", count=1)
        assert api.wait(synced={"services": 1})

Each operation of control.py is a method: api.load(services=1000),
api.compact(), api.end_watches(how="reset"), api.stats(). A failure is an ApiServerError.

From a shell:  python3 -m apiserver.client SOCKET '{"op": "stats"}'   (in tests/)
"""
import base64
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"     # Debian's, for python3-h2 and python3-cryptography
HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS = 20


class ApiServerError(Exception):
    """The server rejected an operation, or ended."""


class Control:
    """A connection to the control socket of a running server."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")

    def call(self, op, **args):
        """Run an operation; return the reply as a dict."""
        try:
            self.socket.sendall(json.dumps(dict(args, op=op)).encode() + b"\n")
            line = self.stream.readline()
        except OSError as e:
            raise ApiServerError("%s: the server ended (%s)" % (op, e)) from e
        if not line:
            raise ApiServerError("%s: the server ended" % op)
        reply = json.loads(line)
        if not reply.pop("ok"):
            raise ApiServerError("%s: %s" % (op, reply["error"]))
        return reply

    def close(self):
        self.stream.close()
        self.socket.close()


class Server:
    """A server process. `https` and `http` are its URLs (http only with `plain`).

    netns    name of the network namespace to run in (as of `ip netns`)
    options  further command line options of the server
    """

    def __init__(self, bind="127.0.0.1", port=0, plain=False, tls=True, netns=None, options=(),
                 **settings):
        self.dir = tempfile.mkdtemp(prefix="vipd-apiserver-")
        self.bind, self.port, self.plain, self.tls = bind, port, plain, tls
        self.prefix = ["ip", "netns", "exec", netns] if netns else []
        self.options = list(options)
        for name, value in settings.items():
            self.options += ["--set", "%s=%s" % (name, json.dumps(value))]
        self.process = None
        self.control = None
        self.configs = 0
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        """Start the process (again)."""
        args = self.prefix + [PYTHON, HERE, "--dir", self.dir, "--die-with-parent"]
        if self.tls:
            args += ["--bind", self.bind, "--port", str(self.port)]
        else:
            args += ["--no-tls"]
        if self.plain or not self.tls:
            args += ["--plain-bind", self.bind, "--plain-port",
                     str(self.port if not self.tls else 0)]
        self.log = open(os.path.join(self.dir, "log"), "ab")
        self.process = subprocess.Popen(args + self.options, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log)
        line = self._first_line()
        info = json.loads(line)
        self.https, self.http, self.token = info["https"], info["http"], info["token"]
        self.control = Control(info["control"])

    def _first_line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise ApiServerError("the server did not start: " + self.errors())
        return line

    def errors(self):
        """Standard error of the process; empty unless it failed."""
        with open(os.path.join(self.dir, "log"), encoding="utf-8", errors="replace") as f:
            return f.read().strip()

    def stop(self, kill=False):
        """End the process and keep its files; start() starts another one, without objects."""
        if self.control:
            self.control.close()
            self.control = None
        if self.process:
            if kill:
                self.process.kill()
            else:
                self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
            self.log.close()
            self.process = None

    def close(self):
        """End the process and remove its files."""
        self.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # ---- operations

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda **args: self.call(name, **args)

    def call(self, op, **args):
        if not self.control:
            raise ApiServerError("%s: the server is not running" % op)
        return self.control.call(op, **args)

    def put(self, *objects, raw=False):
        """Create or replace objects, in order; return the version of the last."""
        if len(objects) == 1:
            return self.call("put", object=objects[0], raw=raw)["rv"]
        return self.call("put_many", objects=list(objects), raw=raw)["rv"]

    def put_file(self, path):
        """Create or replace the objects of a YAML or JSON manifest."""
        import yaml
        with open(path, encoding="utf-8") as f:
            return self.put(*[d for d in yaml.safe_load_all(f) if d])

    def patch(self, resource, key, change, force=False):
        return self.call("patch", resource=resource, key=key, change=change, force=force)["rv"]

    def delete(self, resource, *keys):
        """Remove objects; without keys, all objects of the resource."""
        return self.call("delete_many", resource=resource, keys=list(keys) or None)["rv"]

    def get(self, resource, key):
        return self.call("get", resource=resource, key=key)["object"]

    def fault(self, kind, **p):
        """Add a fault; return its id, for clear()."""
        return self.call("fault", kind=kind, **p)["id"]

    def clear(self, fault=None):
        """Remove one fault, or all."""
        self.call("clear", id=fault)

    def used(self, fault):
        """Number of times a fault had an effect."""
        for f in self.call("faults")["faults"]:
            if f["id"] == fault:
                return f["used"]
        raise ApiServerError("there is no fault %r" % (fault,))

    def wait(self, timeout=60, **what):
        """Wait for the conditions of op_wait(); return whether they were met."""
        return self.call("wait", timeout=timeout, **what)["met"]

    def requests(self, last=1000, **match):
        """Records of requests with these values, oldest first."""
        return self.call("requests", match=match, last=last)["requests"]

    def watches(self, resource=None):
        return [w for w in self.call("stats")["watches"] if resource in (None, w["resource"])]

    # ---- kubeconfig

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data, mode=0o644):
        """Replace a file of the server's folder atomically; return its path."""
        path = self.path(name)
        if isinstance(data, str):
            data = data.encode()
        with open(os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as f:
            f.write(data)
        os.rename(path + ".part", path)
        return path

    def kubeconfig(self, user="token", ca="file", url=None, style="yaml", server_name=None,
                   token=None, cert="client", namespace=None):
        """Write a kubeconfig; return its path.

        user   token, tokenfile (its path is path("token")), cert, certdata, exec, exec-cert,
               basic, none
        ca     file, data, skip (insecure-skip-tls-verify), none
        token  instead of the server's first token; cert: name of another client certificate
        """
        cluster = {"server": url or self.https or self.http}
        if ca == "file":
            cluster["certificate-authority"] = self.path("ca.crt")
        elif ca == "data":
            cluster["certificate-authority-data"] = self._b64("ca.crt")
        elif ca == "skip":
            cluster["insecure-skip-tls-verify"] = True
        if server_name:
            cluster["tls-server-name"] = server_name
        context = {"cluster": "test", "user": "proxy"}
        if namespace:
            context["namespace"] = namespace
        config = {
            "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "contexts": [{"name": "test", "context": context}],
            "users": [{"name": "proxy", "user": self._user(user, token or self.token, cert)}]}
        self.configs += 1
        return self.write("kubeconfig-%d" % self.configs, self._dump(config, style), 0o600)

    @staticmethod
    def _dump(config, style):
        if style == "json":
            return json.dumps(config, indent=2) + "\n"
        import yaml
        return yaml.safe_dump(config, sort_keys=False)

    def _b64(self, name):
        with open(self.path(name), "rb") as f:
            return base64.b64encode(f.read()).decode()

    def _user(self, user, token, cert):
        if user == "none":
            return {}
        if user == "token":
            return {"token": token}
        if user == "tokenfile":
            return {"tokenFile": self.write("token", token + "\n", 0o600)}
        if user == "cert":
            return {"client-certificate": self.path(cert + ".crt"),
                    "client-key": self.path(cert + ".key")}
        if user == "certdata":
            return {"client-certificate-data": self._b64(cert + ".crt"),
                    "client-key-data": self._b64(cert + ".key")}
        if user == "basic":
            return {"username": "proxy", "password": token}
        if user in ("exec", "exec-cert"):
            return {"exec": self._exec(token if user == "exec" else None, cert)}
        raise ValueError("user: %r is not supported" % (user,))

    def _exec(self, token, cert):
        """An exec plugin. It prints path("credential"), which set_credential() writes, and appends
        its environment to path("exec-runs")."""
        self.set_credential(token=token, cert=cert)
        script = self.write("credential-plugin", "\n".join((
            "#!/bin/sh",
            "# Prints a prepared credential.",
            'if [ -e "$1/credential-fails" ]; then echo "no credential today" >&2; exit 1; fi',
            'printf \'%s\\n\' "$KUBERNETES_EXEC_INFO $PLUGIN_WORD" >>"$1/exec-runs"',
            'cat "$1/credential"', "")), 0o755)
        return {"apiVersion": "client.authentication.k8s.io/v1", "command": script,
                "args": [self.dir], "env": [{"name": "PLUGIN_WORD", "value": "hello"}],
                "interactiveMode": "Never", "provideClusterInfo": False}

    def set_credential(self, token=None, cert="client", seconds=None):
        """Set the next credential of the exec plugin: a token or, without one, a client
        certificate; valid for `seconds`."""
        status = {}
        if token:
            status["token"] = token
        else:
            for field, suffix in (("clientCertificateData", ".crt"), ("clientKeyData", ".key")):
                with open(self.path(cert + suffix), encoding="ascii") as f:
                    status[field] = f.read()
        if seconds is not None:
            status["expirationTimestamp"] = time.strftime(
                "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        self.write("credential", json.dumps({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": status}), 0o600)

    def exec_runs(self):
        """Number of runs of the exec plugin."""
        try:
            with open(self.path("exec-runs"), encoding="utf-8") as f:
                return len(f.readlines())
        except FileNotFoundError:
            return 0


def main(argv):
    if len(argv) != 3:
        print("usage: client.py SOCKET '{\"op\": NAME, ...}'", file=sys.stderr)
        return 2
    request = json.loads(argv[2])
    try:
        print(json.dumps(Control(argv[1]).call(request.pop("op"), **request), indent=2))
    except (ApiServerError, OSError) as e:
        print("apiserver: %s" % e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
