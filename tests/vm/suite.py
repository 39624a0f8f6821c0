# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make test` runs in virtual machines: under which kernel, for which plane, which tests.

README.md says why these."""
import concurrent.futures
import os
import shutil
import tempfile

import tree
import vm

IS_REQUIRED = os.environ.get("VIPD_VM") == "required"
AT_ONCE = max(1, min(4, os.cpu_count()))
NET = "tests/net/"
PATHS = [NET + "test_paths.py", NET + "test_sctp.py", NET + "test_sctp_sockets.py"]
RESTART = [NET + "test_restart.py::" + t for t in (
    "test_nothing_changed_nothing_written", "test_changes_while_down",
    "test_endpoint_gone_while_down")]
VIEW = [NET + "test_ipvs_view.py::test_" + t for t in (
    "what_is_wrong_is_seen", "trace_and_packets", "doctor_finds")]
IPVS = [NET + "test_ipvs%s.py" % t for t in ("", "_drain", "_foreign", "_probe")]
COUNTERS = [NET + "test_counters.py::" + t for t in (
    "test_every_way[4-affinity]", "test_every_way[6-plain]", "test_refused",
    "test_nft_prints_what_loads_back", "test_switched_off")]
NEWER = "6.12"
# With --vm all: 20,000 requests in rolling updates under each kernel.
THOROUGH = {"VIPD_IPVS_REQUESTS": "10000"}


class Run:
    """One machine and its tests: "kernel" (programs of that Meson suite), files for pytest."""

    def __init__(self, name, kernel, tests, plane=None, seconds=1800, env=None, **machine):
        self.name = name
        self.kernel = kernel
        self.tests = tests
        self.env = dict(env or {}, **({"VIPD_PLANE": plane} if plane else {}))
        self.seconds = seconds
        self.machine = machine  # more of vm.run()
        self.out = None
        self.result = None
        self.problem = None

    def go(self, build, expression=""):
        """Run it. Any thread may; report() tells."""
        self.out = tempfile.mkdtemp(prefix="vipd-vm-out-")
        command = ["/usr/bin/python3", os.path.join(tree.ROOT, "tools/run-tests"), "--build",
                   build] + (["-k", expression] if expression else []) + ["--inside"] + self.tests
        try:
            self.result = vm.run(command, kernel=self.kernel, cwd=tree.ROOT, env=self.env,
                                 build=os.path.join(tree.ROOT, build), timeout=self.seconds,
                                 out=self.out, **self.machine)
        except vm.Unavailable as e:
            self.problem = str(e).splitlines()[0]
        return self

    def report(self, count):
        """Add what became of it to `count` (of tools/run-tests)."""
        label = "vm %s: " % self.name
        try:
            if self.result is None:
                count.add(label + "a virtual machine", False if IS_REQUIRED else None,
                          "no virtual machine: %s" % self.problem)
                return
            r = self.result
            path = os.path.join(self.out, "report.json")
            if os.path.exists(path):
                count.merge(label, path)
            why = r.failure()
            if why is None and (r.status != 0 or not os.path.exists(path)):
                why = "the tests ended with %d" % r.status
            count.add(label + "the machine", why is None, "" if why is None else "%s\n%s\n%s" % (
                why, r.output[-4000:], r.console[-4000:]))
        finally:
            shutil.rmtree(self.out, ignore_errors=True)


def runs(how):
    """How: short, or all."""
    if how == "all":
        return [Run("%s %s" % (k, plane), k, (["kernel"] if plane == "nft" else []) + [NET],
                    plane, 7200, THOROUGH)
                for k in ("6.1", "6.12", "7.2") for plane in ("nft", "ipvs")]
    # cleanup: of IPVS, dummy devices and ipsets, which the host's kernel may lack.
    return [Run("6.1 nft", "6.1", ["kernel"] + PATHS + RESTART +
                [NET + "test_cleanup_kube_proxy.py::test_ipvs"]),
            Run("6.1 ipvs", "6.1", PATHS + RESTART, "ipvs"),
            Run("6.1 ipvs, by itself", "6.1", IPVS + COUNTERS + VIEW, "ipvs"),
            Run(NEWER + " nft", NEWER, [NET + "test_sctp_sockets.py", NET + "test_paths.py"] +
                RESTART)]


def run_all(count, how, build, expression="", told=lambda run: None):
    """Run them, as many at once as there are processors; results are added as they come."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(r.go, build, expression) for r in runs(how)]
        for f in concurrent.futures.as_completed(futures):
            f.result().report(count)
            told(f.result())
