# SPDX-License-Identifier: GPL-2.0-or-later
"""Credentials of vipd and of the server, and their rotation without a restart."""
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
import yaml

from apiserver.client import Server
from feed import KUBEFEED, service
from test_watch import shop


def auths(api):
    return {r["auth"] for r in api.requests()}


# ---- all credentials

@pytest.mark.parametrize("user", ["token", "tokenfile", "cert", "certdata", "exec", "exec-cert"])
@pytest.mark.parametrize("http2", [True, False])
def test_users(api, start, user, http2):
    shop(api).set(http2=http2)
    feed = start(user=user).wait_synced().same_as(api)
    feed.wait_healthy()
    assert auths(api) == {"certificate" if "cert" in user else "token"}
    if "exec" in user:
        assert api.exec_runs() == 1     # for four requests


def test_password(api, start):
    """Basic: no present server accepts it, but it has to be sent as RFC 7617 requires."""
    feed = start(user="basic")
    feed.wait_error("services", "401")
    assert auths(api) == {"other"}


@pytest.mark.parametrize("ca", ["file", "data", "skip"])
@pytest.mark.parametrize("style", ["yaml", "json"])
def test_authority(api, start, ca, style):
    shop(api)
    start(config=api.kubeconfig(ca=ca, style=style)).wait_synced().same_as(api)


def test_unknown_authority(api, start):
    """Rejected without an authority and with another one; the system's are not used then."""
    feed = start(config=api.kubeconfig(ca="none"))
    feed.wait_error("services", "certificate")
    old = api.kubeconfig(ca="data")
    api.certs(what="ca")
    feed = start(config=old)
    feed.wait_error("services", "certificate")
    assert not api.requests()   # no server received a token


def test_only_this_authority(api, start, tmp_path):
    """certificate-authority excludes the authorities of the system."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mount namespaces need root")
    shop(api)
    old = api.kubeconfig(ca="data")
    api.certs(what="ca")
    with open(api.path("ca.crt"), "rb") as f:
        (tmp_path / "ca-certificates.crt").write_bytes(f.read())
    subprocess.run(["openssl", "rehash", str(tmp_path)], check=True)
    trusting = ["unshare", "-m", "sh", "-c",
                'mount --bind %s /etc/ssl/certs && exec "$@"' % tmp_path, "-"]
    start(config=api.kubeconfig(ca="none"), prefix=trusting).wait_synced().same_as(api)
    start(config=old, prefix=trusting).wait_error("services", "certificate")


def test_server_name(api, start):
    shop(api).certs(what="server", names=["api.example.org"])
    feed = start()
    feed.wait_error("services", "127.0.0.1")
    feed = start(config=api.kubeconfig(server_name="api.example.org"))
    feed.wait_synced().same_as(api)
    feed = start(config=api.kubeconfig(server_name="other.example.org"))
    feed.wait_error("services", "other.example.org")


def test_service_account(api, start, tmp_path):
    """In a pod (section 14: neither --kubeconfig nor --master)."""
    shop(api)
    with open(api.path("ca.crt"), "rb") as f:
        (tmp_path / "ca.crt").write_bytes(f.read())
    (tmp_path / "token").write_text(api.token + "\n")
    host, port = api.https.split("/")[2].rsplit(":", 1)
    feed = start(account_dir=str(tmp_path),
                 env={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})
    feed.wait_synced().same_as(api)
    # The kubelet writes a new token in time.
    api.tokens(tokens=["next-word"])
    (tmp_path / "token").write_text("next-word\n")
    api.end_watches(how="close")
    feed.wait_healthy()


def test_master_overrides(api, start):
    shop(api)
    wrong = api.kubeconfig(url="https://127.0.0.1:1")
    start(config=wrong, master=api.https).wait_synced().same_as(api)


def test_nothing_is_configured():
    env = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    for args, words in (
            ([], "none of --kubeconfig, --master and --manifests"),
            (["--kubeconfig", "/nowhere"], "/nowhere: No such file"),
            (["--master", "gopher://x"], "--master: 'gopher' is neither https nor http")):
        r = subprocess.run([KUBEFEED] + args, env=env, stdin=subprocess.DEVNULL, timeout=60,
                           stderr=subprocess.PIPE, text=True, check=False)
        assert r.returncode == 1 and words in r.stderr, r.stderr


# ---- tokens

@pytest.mark.parametrize("user", ["tokenfile"])
def test_token_rotates(api, start, user):
    """The old one is rejected, the new one is in the file: no restart, no relist."""
    shop(api)
    feed = start(user=user).wait_synced()
    for i in range(3):
        api.tokens(tokens=["word-%d" % i])
        api.end_watches(how="close")
        feed.wait_error("services", "watch services: 401")
        api.write("token", "word-%d\n" % i, 0o600)
        feed.wait_healthy()
        api.put(service("s1", "10.96.1.1", port=900 + i))
        feed.same_as(api)
    assert feed.reflector("services")["lists"] == 1


def test_token_file_vanishes(api, start):
    """The last content stays valid."""
    shop(api)
    feed = start(user="tokenfile").wait_synced()
    os.unlink(api.path("token"))
    api.end_watches(how="close")
    feed.wait_healthy()
    feed.wait_log("api: credentials: ", "token: No such file", "previous credentials stay in use")
    assert len(feed.logged("previous credentials stay in use")) == 1


def test_certificate_and_key_vanish(api, start):
    """Each fault is in the log once, however many requests find both."""
    shop(api)
    api.client_cert(name="mine")
    feed = start(config=api.kubeconfig("cert", cert="mine")).wait_synced()
    for name in ("mine.crt", "mine.key"):
        os.unlink(api.path(name))
    for _ in range(3):
        api.end_watches(how="close")
        feed.wait_healthy()
    for name in ("mine.crt", "mine.key"):
        assert sum(name in line for line in feed.logged("previous credentials stay in use")) == 1


def test_no_token_file(api, start):
    config = api.kubeconfig("tokenfile")
    os.unlink(api.path("token"))
    feed = start(config=config)
    feed.wait_error("services", "credentials: ", "token: No such file")
    shop(api).write("token", api.token, 0o600)
    feed.wait_synced().same_as(api)


def test_odd_token(api, start):
    config = api.kubeconfig("tokenfile")
    api.write("token", "two words\r\nX-Evil: 1\n", 0o600)
    feed = start(config=config)
    feed.wait_error("services", "credentials: token is empty or contains white space")
    assert not api.requests()


# ---- certificates

def test_client_certificate_rotates(api, start):
    shop(api)
    first = api.client_cert(name="mine")
    feed = start(config=api.kubeconfig("cert", cert="mine")).wait_synced()
    api.client_cert(name="mine")
    api.revoke(serial=first["serial"] if isinstance(first, dict) and "serial" in first else "*")
    api.end_watches(how="close")
    if not (isinstance(first, dict) and "serial" in first):
        api.revoke(serial=None)
    feed.wait_healthy()
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)


def test_half_written_certificate(api, start):
    """Certificate and key do not match during a rotation: an error, then recovery."""
    shop(api)
    api.client_cert(name="mine")
    config = api.kubeconfig("cert", cert="mine")
    feed = start(config=config).wait_synced()
    api.client_cert(name="other")
    with open(api.path("other.crt"), encoding="ascii") as f:
        api.write("mine.crt", f.read())
    api.connections(do="close")
    feed.wait_error("services", "watch services: ")
    with open(api.path("other.key"), encoding="ascii") as f:
        api.write("mine.key", f.read(), 0o600)
    feed.wait_healthy()
    feed.same_as(api)


def test_server_certificate_rotates(api, start):
    shop(api)
    feed = start().wait_synced()
    api.certs(what="server")
    api.connections(do="close")
    feed.wait_healthy()
    # A new authority, first at the server, then in the kubeconfig's file.
    api.certs(what="ca", publish=False)
    api.connections(do="close")
    feed.wait_error("services", "certificate")
    api.certs(what="ca")
    feed.wait_healthy()
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)
    assert feed.reflector("services")["lists"] == 1


def test_expired_server_certificate(api, start):
    shop(api)
    feed = start().wait_synced()
    api.certs(what="server", begin=-100, end=-10)
    api.connections(do="close")
    feed.wait_error("services", "expired")
    api.certs(what="server")
    feed.wait_healthy()


def test_kubeconfig_is_replaced(api, start):
    shop(api)
    config = api.kubeconfig("token")
    feed = start(config=config).wait_synced()
    api.tokens(tokens=["next-word"])
    api.end_watches(how="close")
    feed.wait_error("services", "401")
    with open(config, encoding="utf-8") as f:
        new = yaml.safe_load(f)
    api.write(os.path.basename(config), "nonsense: [", 0o600)
    feed.wait_log("previous credentials stay in use", "line")
    new["users"][0]["user"]["token"] = "next-word"
    api.write(os.path.basename(config), yaml.safe_dump(new), 0o600)
    feed.wait_log(": changed; loaded")
    feed.wait_healthy()


def test_server_is_a_cluster_ip(api, start):
    """After a reboot no program would serve that address."""
    shop(api)
    api.put(service("kubernetes", "127.0.0.1", ns="default"))
    start().wait_synced().wait_log(api.https, "is a cluster IP, which vipd itself serves")


def test_kubeconfig_names_another_server(api, start):
    """Versions of the previous server mean nothing to the new one, whose version is lower. The
    watches of the previous server end."""
    shop(api)
    for i in range(20):
        api.put(service("s1", "10.96.1.1", port=100 + i))
    config = api.kubeconfig("token")
    feed = start(config=config).wait_synced().same_as(api)
    with Server(bookmark_seconds=0.2) as other:
        other.put(service("new", "10.96.2.2"))
        with open(other.kubeconfig("token"), encoding="utf-8") as f:
            api.write(os.path.basename(config), f.read(), 0o600)
        feed.read_again()
        feed.same_as(other)
        feed.wait_for(lambda: api.watches() == [], "the end of the previous watches")
        other.put(service("newer", "10.96.2.3"))
        feed.same_as(other)
        assert feed.reflector("services")["lists"] == 2
        assert "resourceVersion" not in other.requests(resource="services")[0]["query"]


# ---- exec plugins

def plugin_config(api, script, **more):
    """A kubeconfig with this shell script as plugin."""
    path = api.write("plugin", "#!/bin/sh\n" + script, 0o755)
    config = api.kubeconfig("none")
    with open(config, encoding="utf-8") as f:
        obj = yaml.safe_load(f)
    obj["users"][0]["user"] = {"exec": dict({
        "apiVersion": "client.authentication.k8s.io/v1", "command": path,
        "interactiveMode": "Never"}, **more)}
    api.write(os.path.basename(config), yaml.safe_dump(obj), 0o600)
    return config


def credential(token="kube-proxy-token", version="v1", **status):
    return "echo '%s'\n" % json.dumps({
        "apiVersion": "client.authentication.k8s.io/" + version, "kind": "ExecCredential",
        "status": dict({"token": token}, **status)})


def test_plugin_sees(api, start):
    shop(api)
    api.write("x", "")
    config = plugin_config(
        api, "printf '%%s' \"$KUBERNETES_EXEC_INFO\" >'%s'; printf '%%s' \"$A $1 $2\" >'%s'\n"
        "ls -l /proc/self/fd >'%s'\n" % (api.path("info"), api.path("words"), api.path("fds")) +
        credential(version="v1beta1"),
        args=["one", "two words"], env=[{"name": "A", "value": "b c"}], provideClusterInfo=True,
        apiVersion="client.authentication.k8s.io/v1beta1")
    start(config=config).wait_synced().same_as(api)
    with open(api.path("info"), encoding="utf-8") as f:
        info = json.load(f)
    assert info["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"]["server"] == api.https
    assert info["spec"]["cluster"]["certificate-authority-data"]
    with open(api.path("words"), encoding="utf-8") as f:
        assert f.read() == "b c one two words"
    with open(api.path("fds"), encoding="utf-8") as f:
        links = [line.split(" -> ")[1] for line in f if " -> " in line]
    assert not [li for li in links if "socket" in li or "eventpoll" in li], links


def test_plugin_credential_expires(api, start):
    """Run again when the credential has expired."""
    shop(api)
    config = api.kubeconfig("exec")
    api.set_credential(token=api.token, seconds=3600)
    feed = start(config=config).wait_synced()
    api.end_watches(how="close")
    feed.wait_healthy()
    assert api.exec_runs() == 1
    # Rejected by the server: not kept until it expires.
    api.tokens(tokens=["next-word"])
    api.set_credential(token="next-word", seconds=3600)
    api.end_watches(how="close")
    feed.wait_for(lambda: api.exec_runs() >= 2, "the plugin runs again")
    feed.wait_healthy()
    assert api.exec_runs() <= 5


@pytest.mark.parametrize("script,words", [
    ("exit 3\n", "exit status 3"),
    ("kill -9 $$\n", "killed by signal 9"),
    ("echo SECRET\n", "did not print an ExecCredential"),
    ("echo '{}'\n", "did not print an ExecCredential"),
    (credential(version="v1beta1"), "printed apiVersion 'client.authentication.k8s.io/v1beta1'"),
    (credential(token=""), "neither a token nor a certificate"),
    (credential(clientCertificateData="SECRET"), "only one of certificate and key"),
    ("exec sleep 60\n", "no answer in 0.3 s"),
    ("yes SECRET\n", "printed more than 1048576 bytes"),
])
def test_plugin_fails(api, start, script, words):
    """Logged, retried, and used when it works."""
    shop(api)
    config = plugin_config(api, script)
    feed = start(config=config, **({"plugin_ms": 300} if "sleep" in script else {}))
    feed.wait_error("services", "credentials: plugin %s: " % api.path("plugin"), words)
    api.write("plugin", "#!/bin/sh\n" + credential(), 0o755)
    feed.wait_synced().same_as(api)


def test_plugin_is_missing(api, start):
    config = plugin_config(api, "", command="no-such-plugin", installHint="install it first")
    feed = start(config=config)
    feed.wait_error("services", "plugin no-such-plugin: not found: install it first")


def test_plugin_leaves_a_child(api, start):
    """vipd does not wait for a plugin that continues in the background with vipd's pipe."""
    shop(api)
    pid = api.path("pid")
    config = plugin_config(api, "sleep 600 &\necho $! >%s\n%s" % (pid, credential()))
    try:
        start(config=config).wait_synced()
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError), \
                open(pid, encoding="ascii") as f:
            os.kill(int(f.read()), signal.SIGKILL)


def test_plugin_does_not_block(api, start):
    """While a plugin runs, all other work continues."""
    shop(api)
    feed = start(config=plugin_config(api, "echo >%s\nexec sleep 600\n" % api.path("runs")),
                 plugin_ms=600000)
    feed.wait_for(lambda: os.path.exists(api.path("runs")), "the plugin")
    assert not feed.status()["synced"]


@pytest.mark.parametrize("other", ["plugin", "token"])
def test_kubeconfig_is_replaced_while_a_plugin_runs(api, start, other):
    """Requests that wait for the plugin get the new credentials."""
    shop(api)
    config = plugin_config(api, "echo >%s\nexec sleep 600\n" % api.path("runs"))
    feed = start(config=config, plugin_ms=600000)
    feed.wait_for(lambda: os.path.exists(api.path("runs")), "the plugin")
    with open(config, encoding="utf-8") as f:
        new = yaml.safe_load(f)
    user = new["users"][0]["user"]
    if other == "plugin":
        user["exec"]["command"] = api.write("other", "#!/bin/sh\n" + credential(), 0o755)
    else:
        new["users"][0]["user"] = {"token": api.token}
    api.write(os.path.basename(config), yaml.safe_dump(new), 0o600)
    feed.read_again()
    feed.wait_synced().same_as(api)


def test_plugin_does_not_delay_a_probe(api, start):
    """A healthy connection stays while a plugin runs: any answer to a probe proves that the server
    is alive."""
    shop(api).set(bookmarks=False)
    feed = start(config=plugin_config(api, credential()), plugin_ms=600000, quiet_ms=600,
                 probe_ms=60000, keepalive_ms=60000, bookmark_ms=600000).wait_synced()
    feed.wait_healthy()
    api.write("plugin", "#!/bin/sh\necho >%s\nexec sleep 600\n" % api.path("runs"), 0o755)
    api.fault("status", code=401, resource="nodes", verb="watch", count=1)
    api.end_watches(how="end", resource="nodes")
    feed.wait_for(lambda: os.path.exists(api.path("runs")), "the plugin")
    api.forget()
    assert api.wait(requests=2, match={"path": "/version"}, timeout=60)
    assert feed.status()["dead"] == 0
    assert feed.reflector("services")["watches"] == 1


def running(word):
    """Processes with the word in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % pid, "rb") as f:
            if word.encode() in f.read():
                found.append(int(pid))
    return found


@pytest.mark.parametrize("how", ["joins the group of its parent", "is a child in its own session"])
@pytest.mark.parametrize("end", ["timeout", "exit"])
def test_plugin_leaves_its_group(api, start, tmp_path, how, end):
    """The plugin is killed at its timeout and at exit; vipd does not wait for it."""
    word = "vipd-test-%d-%d" % (os.getpid(), time.monotonic_ns())
    if how.startswith("joins"):
        script = "os.setpgid(0, os.getpgid(os.getppid()))\ntime.sleep(300)"
    else:
        script = ("subprocess.run([sys.executable, '-c', 'import time; time.sleep(300)', %r],"
                  " start_new_session=True)" % word)
    path = tmp_path / "plugin.py"
    path.write_text("import os, subprocess, sys, time\n" + script)
    config = plugin_config(api, "exec %s %s %s" % (sys.executable, path, word))
    wanted = 1 if how.startswith("joins") else 2
    feed = start(config=config, plugin_ms=300000 if end == "exit" else 2000)
    try:
        feed.wait_for(lambda: len(running(word)) == wanted, "the plugin")
        first = set(running(word))
        if end == "exit":
            feed.process.stdin.close()
            assert feed.process.wait(60) == 0
        else:
            feed.wait_error("services", "no answer in 2 s")
        deadline = time.monotonic() + 60
        while first & set(running(word)):
            assert time.monotonic() < deadline, "the plugin is still there"
            time.sleep(0.01)
    finally:
        for p in running(word):
            with contextlib.suppress(ProcessLookupError):
                os.kill(p, signal.SIGKILL)


def test_no_credentials_over_plain_http(start):
    """As in client-go: no credentials over plain http. Each watch has a connection."""
    with Server(plain=True) as api:
        shop(api)
        for user in ("token", "tokenfile", "exec", "basic"):
            feed = start(config=api.kubeconfig(user=user, url=api.http))
            feed.wait_log(api.http, "credentials are not sent over plain http")
            feed.wait_synced().same_as(api)
            assert len(feed.logged("not sent over plain http")) == 1
        assert auths(api) == {"none"}


# ---- proxies

class Proxy:
    """A proxy with CONNECT and SOCKS5 only, which connects to this host whatever the name. `seen`: the requests with
    their headers, or host:port."""

    def __init__(self, scheme="http"):
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "%s://127.0.0.1:%d" % (scheme, self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _socks(self, sock):
        """RFC 1928, with the name of a host only; RFC 1929 if it is offered."""
        methods = sock.recv(256)[2:]
        sock.sendall(b"\5\2" if 2 in methods else b"\5\0")
        if 2 in methods:
            assert b"SECRET" in sock.recv(256)
            sock.sendall(b"\1\0")
        request = sock.recv(512)
        assert request[:4] == b"\5\1\0\3", "no name"
        port = int.from_bytes(request[-2:], "big")
        self.seen.append("%s:%d" % (request[5:-2].decode(), port))
        return port, b"\5\0\0\1" + bytes(6)

    def _connect(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(4096)
        self.seen.append(head.decode())
        return int(head.split()[1].decode().rsplit(":", 1)[1]), b"HTTP/1.1 200 OK\r\n\r\n"

    def _serve(self, sock):
        port, answer = (self._socks if self.url.startswith("socks5") else self._connect)(sock)
        with sock, socket.create_connection(("127.0.0.1", port)) as up:
            sock.sendall(answer)
            with contextlib.suppress(OSError):
                while True:
                    for a in select.select([sock, up], [], [])[0]:
                        data = a.recv(65536)
                        if not data:
                            return
                        (up if a is sock else sock).sendall(data)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)    # ends an accept() that waits
        self.listener.close()


BY_NAME = "kubernetes.default.svc"     # in the certificate; no name server has it


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize("how", ["proxy-url", "HTTPS_PROXY", "https_proxy"])
def test_proxy(api, start, how, scheme):
    """The proxy resolves the server's name, also with the scheme socks5, as in Go."""
    shop(api)
    proxy = Proxy(scheme)
    config = api.kubeconfig("token", url=api.https.replace("127.0.0.1", BY_NAME))
    env = {"no_proxy": "", "NO_PROXY": ""}
    if how == "proxy-url":
        with open(config, encoding="utf-8") as f:
            obj = yaml.safe_load(f)
        obj["clusters"][0]["cluster"]["proxy-url"] = proxy.url.replace("//", "//me:SECRET@")
        api.write(os.path.basename(config), yaml.safe_dump(obj), 0o600)
        env["no_proxy"] = BY_NAME   # does not affect a configured proxy
    else:
        env[how] = proxy.url
    feed = start(config=config, env=env).wait_synced().same_as(api)
    assert len(proxy.seen) == 1 and "authorization: bearer" not in proxy.seen[0].lower()
    assert BY_NAME in proxy.seen[0]
    proxy.close()
    api.connections(do="close")
    feed.wait_error("services", "connect")


@pytest.mark.parametrize("host,env", [("127.0.0.1", "HTTPS_PROXY"), ("localhost", "https_proxy"),
                                      ("127.0.0.1", "ALL_PROXY")])
def test_no_proxy_for_this_host(api, start, host, env):
    """As in Go: a proxy of the environment is not for a server of this host; there is no ALL_PROXY."""
    shop(api)
    start(config=api.kubeconfig("token", url=api.https.replace("127.0.0.1", host)),
          env={env: "http://127.0.0.1:1", "no_proxy": "", "NO_PROXY": ""}).wait_synced().same_as(api)


def test_bad_proxy_in_the_environment(api, start):
    """libcurl quotes the URL with the password; vipd does not (Feed searches for SECRET)."""
    feed = start(config=api.kubeconfig("token", url=api.https.replace("127.0.0.1", BY_NAME)),
                 env={"HTTPS_PROXY": "gopher://me:SECRET@127.0.0.1:1", "no_proxy": "", "NO_PROXY": ""})
    feed.wait_error("services", "watch services: ")
