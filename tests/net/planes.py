# SPDX-License-Identifier: GPL-2.0-or-later
"""The same tests for every plane, chosen by VIPD_PLANE=nft (default) or ipvs. Tests of behaviour
or state of one plane are listed here with the reason, and are skipped on the other. All others
must pass."""
import os
import subprocess

PLANE = os.environ.get("VIPD_PLANE") or "nft"
FLAGS = {"nft": {}, "ipvs": {"--proxy-mode": "ipvs"}}

OWN = "in the nft plane's words; test_ipvs_view.py has its own"
CONNTRACK = "about NAT entries of conntrack; IPVS keeps its own connections"
NO_MOVE = "handshakes do not move on this plane"
ONE_TABLE = "about a table for each address family: that of this plane has both, which fail with it"
IPVS = "about IPVS: VIPD_PLANE=ipvs, in a machine of tools/vm-run"
# {plane: {a file, or file::test, or file::test[parameters beginning so: why not}}
NOT = {
    "nft": {
        "test_ipvs_drain.py": IPVS,
        "test_ipvs_view.py": IPVS,
        "test_ipvs_probe.py": IPVS,
        "test_ipvs_foreign.py": IPVS,
        "test_ipvs_repair.py": IPVS,
        "test_families.py::test_foreign_route": IPVS,
    },
    "ipvs": {
        "test_families.py::test_table_of_another_process": ONE_TABLE,
        "test_families.py::test_deleted_again_and_again": ONE_TABLE,
        "test_owner.py": "about owners of the nft plane's tables; that of this plane has none",
        "test_eject.py::test_half": NO_MOVE,
        "test_eject.py::test_all_vanish_and_return": NO_MOVE,
        "test_eject.py::test_late_endpoint": NO_MOVE,
        "test_failover.py": NO_MOVE,
        "test_failover_off.py::test_a_tenth_vanishes": NO_MOVE,
        "test_failover_udp.py": NO_MOVE,
        "test_failover_with.py": NO_MOVE,
        "test_hashing.py": "about slots of the nft plane's tables; IPVS has a table of its own",
        "test_guard.py":
            "about the guard of the nft plane's tables; connections of this plane end with its rules",
        "test_upgrade.py":
            "about the nft plane's tables, of which the old and the new one stand side by side; "
            "test_ipvs_repair.py has the same of this plane's",
        "test_release.py": "about recorded tables of the nft plane",
        "test_repair.py":
            "times and lines of the log for each of the nft plane's sets; test_foreign.py and "
            "test_ipvs_repair.py have this plane's",
        "test_conntrack.py": CONNTRACK,
        "test_conntrack_scale.py": CONNTRACK,
        "test_dead_flows.py::test_service_deleted":
            "packets to a deleted Service are not led to IPVS any more",
        "test_vipctl_diff.py::test_every_frontend": OWN,
        "test_vipctl_diff.py::test_bundle": OWN,
        "test_vipctl_diff.py::test_names_the_problem": OWN,
        "test_doctor.py::test_input_policy": OWN,
        "test_doctor.py::test_addresses_of_the_other_plane": "makes the table that this plane has",
        "test_affinity.py::test_per_port":
            "ports are separate, but rr picks alike for both: the same clients, the same order",
        "test_paths.py::test_marks_are_not_touched":
            "the mark of a captured packet is the plane's; who overwrites it takes the packet away",
        "test_api.py": "about the source of objects; the plane makes no difference",
    },
}
# Tests that pass, but not for established connections: as with no_steady.
PER_PACKET = "each packet of a connection is led to IPVS by the element and the rules that mark it: " \
    "who takes them away stops connections until they are back"
UNSTEADY = {
    "nft": {},
    "ipvs": {"test_foreign.py::test_" + name: PER_PACKET for name in (
        "deleted_elements_are_restored", "edited_rule_is_restored", "other_tables_are_not_touched",
        "noticed_at_once")},
}


def is_unsteady(node_id):
    return node_id.rpartition("/")[2] in UNSTEADY[PLANE]


def why_not(node_id):
    """Why a test does not apply to the plane; None if it does."""
    name = node_id.rpartition("/")[2]
    for what, why in NOT[PLANE].items():
        if name == what or name.startswith((what + "::", what + "[")):
            return "%s plane: %s" % (PLANE, why)
        if "[" in what and name.startswith(what):
            return "%s plane: %s" % (PLANE, why)
    return None


def missing(run):
    """What the kernel lacks for the plane; None if nothing. run() as in lab.py."""
    if PLANE not in FLAGS:
        return "VIPD_PLANE=%s: there are %s" % (PLANE, ", ".join(FLAGS))
    if PLANE == "ipvs":
        # All at once: asked for one by one, by the kernel itself, they take an emulated
        # machine longer than the first test waits.
        subprocess.run(["modprobe", "-aq", "ip_vs", "ip_vs_rr", "ip_vs_mh", "ip_vs_wlc", "ip_vs_wrr",
                        "nft_ct", "nft_masq", "nft_fib_inet", "nft_reject_inet", "nft_socket",
                        "nft_redir", "nft_chain_nat"], capture_output=True, check=False)
        if not os.path.exists("/proc/net/ip_vs"):
            return "the kernel lacks IPVS (CONFIG_IP_VS)"
        try:
            run("ipvsadm", "--version")
        except (OSError, RuntimeError):
            return "the program `ipvsadm` (Debian package of that name) is missing"
    return None
