# SPDX-License-Identifier: GPL-2.0-or-later
"""What `make test` runs in virtual machines: under which kernel, for which plane, which tests."""
import os
import shutil
import tempfile

import tree
import vm

IS_REQUIRED = os.environ.get("VIPD_VM") == "required"
SECONDS = {"short": 900, "all": 5400}


class Run:
    """One machine and its tests: "kernel" (programs of that Meson suite), files for pytest."""

    def __init__(self, name, kernel, tests, env=None, seconds=900):
        self.name = name
        self.kernel = kernel
        self.tests = tests
        self.env = env or {}
        self.seconds = seconds

    def go(self, count, build, expression=""):
        """Run it; results are added to count (of tools/run-tests)."""
        label = "vm %s: " % self.name
        out = tempfile.mkdtemp(prefix="vipd-vm-out-")
        command = ["/usr/bin/python3", os.path.join(tree.ROOT, "tools/run-tests"), "--build",
                   build] + (["-k", expression] if expression else []) + ["--inside"] + self.tests
        try:
            r = vm.run(command, kernel=self.kernel, build=os.path.join(tree.ROOT, build),
                       cwd=tree.ROOT, env=self.env, timeout=self.seconds, out=out)
            report = os.path.join(out, "report.json")
            if os.path.exists(report):
                count.merge(label, report)
            why = r.failure()
            if why is None and (r.status != 0 or not os.path.exists(report)):
                why = "the tests ended with %d" % r.status
            count.add(label + "the machine", why is None, "" if why is None else "%s\n%s\n%s" % (
                why, r.output[-4000:], r.console[-4000:]))
        except vm.Unavailable as e:
            count.add(label + "a virtual machine", False if IS_REQUIRED else None,
                      "no virtual machine: %s" % str(e).splitlines()[0])
        finally:
            shutil.rmtree(out, ignore_errors=True)


def runs(how):
    """How: short, or all."""
    everything = ["kernel", "tests/net"]
    if how == "all":
        return [Run("%s nft" % k, k, everything, seconds=SECONDS[how])
                for k in ("6.1", "6.12", "7.2")]
    return [Run("6.1 nft", "6.1", ["tests/net/test_sctp.py",
                                   "tests/net/test_cleanup_kube_proxy.py::test_ipvs"]),
            Run("6.12 nft", "6.12", ["tests/net/test_sctp.py"])]
