# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests that `make test` runs in virtual machines, by kernel and plane. The reasons are in
README.md."""
import concurrent.futures
import os
import shutil
import tempfile

import tree
import vm

IS_REQUIRED = os.environ.get("VIPD_VM") == "required"
# One more than processors: a machine waits a third of the time.
AT_ONCE = min(4, os.cpu_count() + 1)
NET = "tests/net/"
NEWER = "6.12"
ALL = ("6.1", NEWER, "7.2")


def of(name, *tests):
    """Names of these tests in a file of tests/net."""
    return ["%stest_%s.py::test_%s" % (NET, name, t) for t in tests] or [
        "%stest_%s.py" % (NET, name)]


# Of the tests with raw SCTP packets those of rejected packets: tests with sockets cover backends.
PATHS = of("paths") + of(
    "sctp", "refused", "dropped", "unknown_port", "local_policy_keeps_the_source",
    "three_protocols_one_number")
RESTART = of("restart", "nothing_changed_nothing_written", "endpoint_deleted_while_down")
# Complete: without IPVS and SCTP in the host's kernel no other part runs these.
IPVS = of("ipvs") + of("ipvs_drain") + of("ipvs_probe") + of("sctp_sockets") + of("forwarding")
IPVS_BESIDE = of("ipvs_foreign") + of("ipvs_repair") + ["tests/deploy/pod_in_machine.py"] + \
    of("cleanup_kube_proxy", "ipvs_affinity")
# Files of the nftables plane: the tests in which the ipvs plane differs.
TWINS = of("foreign", "foreign_element_in_the_way", "deleted_elements_are_restored",
           "edited_rule_is_restored", "noticed_at_once") + \
    of("invalid", "out_of_window[masqueraded-local-v4]", "out_of_window[kept-remote-v6]",
       "host_network[backend-v4]", "host_network[other-port-v6]") + \
    of("unknown_port", "loop[lb-v4]", "loop[external-v6]", "loop_invalid[v4]", "loop_pod[v6]",
       "loop_local_address[v6]", "cluster_ip_of_node[v4]", "pools_of_e1",
       "endpoints_at_each_other[v6]") + \
    of("kernel_readers", "readers[default]", "readers[count-endpoints]") + \
    of("stream", "stream[restarts]") + of("changes", "a_port_is_removed") + \
    of("eject", "silent[v4]", "affinity", "refused", "restart", "hashed_clients") + of("vipctl_drain") + of("dead_flows", "reset[another-left]") + \
    of("families", "node_without_ipv6") + of("pmtu")
BALANCING = of("weights") + of(
    "local_source", "cluster_policy[cluster-cidr-nodeport-X-tcp-v4]",
    "cluster_policy[cluster-cidr-lb-P-udp-v6]", "cluster_policy[cluster-cidr-externalip-H-tcp-v6]",
    "external_policy_local[cluster-cidr-lb-X-v6]", "hairpin[cluster-cidr-nodeport-udp-v4]",
    "clients_that_stay[cluster-cidr-sticky-v4]", "clients_that_stay[cluster-cidr-hashed-v6]",
    "host_network[cluster-cidr-v4]", "option_changes", "change_of_planes")
COUNTERS = of("counters", "every_way[4-affinity]", "every_way[6-plain]", "refused",
              "nft_listing_loads_again", "estimation", "switched_off")
VIEW = of("ipvs_view") + of("kernel_readers", "readers[mark]", "readers[prefix]")
LOCALHOST = of("localhost", "localhost[tcp-v4]", "localhost[udp-v6]", "affinity[v6]",
               "neighbour[tcp]", "switched_off")
# Tests that depend on the kernel version.
NEWER_PATHS = of("paths", "cluster_policy", "external_policy_local", "no_endpoints", "hairpin",
                 "hairpin_local_policy", "marks_are_not_touched", "unallocated_cluster_ip",
                 "unserved_node_port_is_untouched") + \
    of("restart", "nothing_changed_nothing_written[kill]", "endpoint_deleted_while_down")
NEWER_IPVS = of("ipvs_drain", "rolling_update[after-death]", "weight_0_and_back", "affinity_leaves",
                "deleted_when_drained", "udp_moves_when_endpoint_is_removed",
                "terminating_serves_only_when_nothing_is_ready") + \
    of("ipvs_foreign", "restart_sends_nothing[kill]", "every_scheduler_by_annotation") + \
    of("ipvs_probe", "probes", "daemons_of_the_node") + \
    of("ipvs_repair", "differences_are_seen", "older_layout") + \
    of("ipvs", "change_of_planes")
# Tests that another run covers completely: cases with each pair of parameter values, one takeover instead of
# two, and fewer requests in a rolling update ("6.1 ipvs, by itself" has all).
PAIRS = {"VIPD_PAIRS": "1", "VIPD_TAKEOVERS": "1", "VIPD_IPVS_REQUESTS": "500"}
# With --vm all: 20,000 requests in rolling updates under each kernel.
THOROUGH = {"VIPD_IPVS_REQUESTS": "10000"}


class Run:
    """One machine and its tests: "kernel" (programs of that Meson suite), files for pytest."""

    def __init__(self, name, kernel, tests, plane=None, seconds=3600, env=None, **machine):
        self.name = name
        self.kernel = kernel
        self.tests = tests
        self.env = dict(env or {}, **({"VIPD_PLANE": plane} if plane else {}))
        self.seconds = seconds
        # Other arguments of vm.run(). Newer kernels have one CPU (README.md).
        self.machine = dict({"cpus": 2 if kernel == "6.1" else 1}, **machine)
        self.out = None
        self.result = None
        self.problem = None
        self.took = 0.0

    def go(self, build, expression=""):
        """Run it, in any thread; report() prints the result."""
        self.out = tempfile.mkdtemp(prefix="vipd-vm-out-")
        command = ["/usr/bin/python3", os.path.join(tree.ROOT, "tools/run-tests"), "--build",
                   build] + (["-k", expression] if expression else []) + ["--inside"] + self.tests
        try:
            self.result = vm.run(command, kernel=self.kernel, cwd=tree.ROOT, env=self.env,
                                 build=os.path.join(tree.ROOT, build), timeout=self.seconds,
                                 out=self.out, **self.machine)
            self.took = self.result.seconds
        except vm.Unavailable as e:
            self.problem = str(e).splitlines()[0]
        return self

    def report(self, count):
        """Add the results to `count` (of tools/run-tests)."""
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


def many(kernel):
    """With a clock that counts instructions, time limits are independent of the host's load."""
    return Run(kernel + " ipvs, 10,000 services", kernel, of("ipvs_drain", "reaction"), "ipvs",
               env={"VIPD_IPVS_SERVICES": "10000"}, icount=True)


def runs(how):
    """`how`: short, or all."""
    if how == "all":
        return [Run("%s %s" % (k, plane), k, (["kernel"] if plane == "nft" else []) + [NET],
                    plane, 7200, THOROUGH)
                for k in ALL for plane in ("nft", "ipvs")] + [many(k) for k in ALL]
    # The longest first. cpus=1: the host tests several CPUs, and a second emulated one needs a
    # quarter more CPU time. cleanup: IPVS, dummy devices and ipsets, which the host's kernel may
    # lack.
    return [Run("6.1 ipvs", "6.1", PATHS + RESTART + TWINS + BALANCING +
                of("takeover", "takeover[ipvs]"), "ipvs", env=PAIRS, cpus=1),
            Run("6.1 nft", "6.1", ["kernel"] + PATHS + of("sctp_sockets") + RESTART +
                of("restart", "changes_while_down") + of("guard", "a_long_gap", "restarts") +
                of("unknown_port", "endpoint_at_vip[frontend-v4]", "endpoints_at_each_other[v6]") +
                of("cleanup_kube_proxy", "ipvs") +
                of("cleanup_kube_router") +
                of("takeover", "takeover[ipvs]", "takeover[kube-router]",
                   "takeover[kube-router-recorded]"),
                env=PAIRS, cpus=1),
            Run("6.1 ipvs, with others", "6.1", IPVS_BESIDE + COUNTERS + VIEW + LOCALHOST, "ipvs",
                cpus=1),
            Run("6.1 ipvs, by itself", "6.1", IPVS, "ipvs"),
            Run(NEWER + " ipvs", NEWER, NEWER_PATHS + NEWER_IPVS, "ipvs", env=PAIRS),
            Run("6.1 systemd", "6.1", ["tests/deploy/unit_in_machine.py"], systemd=True),
            many("6.1"),
            Run(NEWER + " nft", NEWER, NEWER_PATHS + of("sctp_sockets"), env=PAIRS)]


def run_all(count, how, build, expression="", done=lambda run: None, first=lambda: None):
    """Call `first`, and run the machines, AT_ONCE in parallel; add results as they complete."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        other = pool.submit(first)
        futures = [pool.submit(r.go, build, expression) for r in runs(how)]
        for f in concurrent.futures.as_completed(futures):
            f.result().report(count)
            done(f.result())
        other.result()
