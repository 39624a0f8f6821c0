# SPDX-License-Identifier: GPL-2.0-or-later
"""The proxies that bench/e2e compares."""
import functools
import os
import re
import subprocess
import urllib.error
import urllib.request

import api

MODES = ("iptables", "nftables", "ipvs")
HEALTH_PORT, METRICS_PORT = 10256, 10249
SYNCS = re.compile(r"^kubeproxy_sync_proxy_rules_duration_seconds_count(?:{.*})? (\d+)$", re.M)


class Vipd(api.Vipd):
    def __init__(self, program, lab, config, folder):
        self.lab = lab
        super().__init__(program, config, lab.node.name, folder)

    def is_settled(self):
        s = self.status() if self.is_in_service() else None
        return s is not None and s["state"] == "running" and s["pending"]["services"] == 0

    def wait_adopting(self):
        """Wait until adoption begins; False if it has ended."""
        while True:
            s = self.status()
            if s and s["state"] in ("adopting", "running"):
                return s["state"] == "adopting"

    def writes(self):
        return self.status()["sync"]["writes"]

    def event_to_ack(self):
        return self.status()["sync"]["event_to_ack"]

    def cleanup(self):
        self.lab.node.run("nft", "flush", "ruleset")


class KubeProxy(api.Vipd):
    """kube-proxy in one mode. It does not set sysctls of conntrack."""

    def __init__(self, mode, program, lab, config, folder):
        self.lab, self.program = lab, program
        super().__init__(program, config, lab.node.name, folder, flags=(
            "--proxy-mode", mode, "--conntrack-max-per-core", "0",
            "--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0",
            "--healthz-bind-address", "127.0.0.1:%d" % HEALTH_PORT,
            "--metrics-bind-address", "127.0.0.1:%d" % METRICS_PORT))

    def own_flags(self):
        return []

    def is_settled(self):
        """Whether it has written rules twice, for each family once or for one twice. /healthz is 200 before that."""
        with self.lab.node.entered():
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % METRICS_PORT, timeout=5) as answer:
                    return sum(int(n) for n in SYNCS.findall(answer.read().decode())) >= 2
            except (urllib.error.URLError, OSError):
                return False

    def wait_adopting(self):
        return False

    def writes(self):
        return None     # no counter of operations

    def event_to_ack(self):
        return None

    def cleanup(self):
        self.lab.node.run(self.program, "--cleanup", timeout=600)


def modes():
    """Modes of kube-proxy that this kernel has."""
    has_ipvs = os.path.exists("/proc/net/ip_vs") or subprocess.run(
        ["modprobe", "-q", "ip_vs"], check=False).returncode == 0
    return MODES[:3 if has_ipvs else 2]


def all_proxies(build):
    """[(name, program, function of program, lab, kubeconfig and folder)]"""
    found = [("vipd", os.path.join(build, "vipd"), Vipd)]
    path = os.environ.get("BENCH_KUBE_PROXY")
    if path:
        for mode in modes():
            found.append(("kube-proxy " + mode, path, functools.partial(KubeProxy, mode)))
    return found
