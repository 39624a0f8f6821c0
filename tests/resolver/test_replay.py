# SPDX-License-Identifier: GPL-2.0-or-later
"""A random stream of changes through model, plan, sync and plane onto a kernel in memory, compared
with the second resolver after each step: thousands of steps without root, with failures: rejected
elements, lost answers, interrupted dumps, restarts.

VIPD_REPLAY_STEPS: number of steps. VIPD_REPLAY_SEED: another stream.
"""
import json
import os
import random
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from resolver import Config, resolve  # noqa: E402
from stream import Stream  # noqa: E402
from tables import Tables, compare  # noqa: E402

STEPS = int(os.environ.get("VIPD_REPLAY_STEPS", "250"))
SEED = int(os.environ.get("VIPD_REPLAY_SEED", "1"))
HOST = ["192.168.0.2", "203.0.113.1", "fd00:192::2", "2001:db8:1::1"]
NODE = ["192.168.0.2", "fd00:192::2"]
LINGER_S = 27 * 3600  # an address stays after its last backend; unneeded ones are removed once a day


def program():
    root = os.path.dirname(os.path.dirname(HERE))
    return os.path.join(os.environ.get("VIPD_BUILD", os.path.join(root, "build")),
                        "tests", "tools", "replay")


class Replay:
    """The program, and the objects sent to it."""

    def __init__(self, flags):
        args = [program(), "--manifests=.", "--hostname-override=n1"] + flags + \
            ["--host-address=" + a for a in HOST]
        self.proc = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     text=True)
        self.held = {}
        self.script = []

    def tell(self, **command):
        self.send(json.dumps(command))

    def send(self, line):
        self.script.append(line)
        self.proc.stdin.write(line + "\n")

    def update(self, objects):
        """Send the difference to the previous objects."""
        want = {Stream.key(o): json.dumps(o) for o in objects}
        for key in sorted(set(self.held) - set(want)):
            self.tell(**{"del": {"kind": key[0], "namespace": key[1], "name": key[2]}})
        for key, text in want.items():
            if self.held.get(key) != text:
                self.send('{"put": %s}' % text)
        self.held = want

    def restart(self, objects):
        self.tell(restart=1)
        self.held = {}
        self.update(objects)

    def settle(self, seconds=1):
        self.tell(settle=seconds)
        self.proc.stdin.flush()
        line = self.proc.stdout.readline()
        assert line, "replay ended: %s" % self.proc.wait()
        return json.loads(line)

    def close(self):
        self.proc.stdin.close()
        self.proc.stdout.close()
        return self.proc.wait(30)


def element(e):
    key, data, flags = e
    if isinstance(data, dict):
        data = data["chain"]
    elif data is not None:
        data = bytes.fromhex(data)
    return bytes.fromhex(key), data, flags


def differences(answer, objects, config):
    result = resolve(objects, config)
    out = []
    for fam in (4, 6):
        sets = answer[str(fam)]
        held = Tables(fam, lambda name, sets=sets: [element(e) for e in sets.get(name, [])])
        out += ["IPv%d %s" % (fam, d) for d in compare(result, held)]
    return out


def cidrs(flags, name):
    return [v for f in flags if f.startswith(name + "=") for v in f.partition("=")[2].split(",")]


DEFAULT = ["--cluster-cidr=10.244.0.0/16,fd00:10:244::/48",
           "--service-cluster-ip-range=10.96.0.0/16"]
CASES = [
    ("calm", DEFAULT, False),
    ("trouble", DEFAULT, True),
    ("nodeports", ["--nodeport-addresses=0.0.0.0/0,fd00:192::/64"], True),
    ("node-cidr", ["--detect-local-mode=NodeCIDR", "--nodeport-addresses=203.0.113.0/24"], False),
    ("local-source", DEFAULT + ["--preserve-local-source"], True),
    ("bridge", ["--detect-local-mode=BridgeInterface", "--pod-bridge-interface=br0",
                "--masquerade-all"], True),
]


def make_trouble(replay, rng):
    """Inject a failure into the next syncs; returns its description."""
    what = rng.choice(["refuse", "refuse", "lose", "send", "interrupt", "foreign"])
    k = rng.randint(1, 40) if what == "refuse" else rng.randint(1, 2)
    replay.tell(**{what: k})
    return "%s %d" % (what, k)


@pytest.mark.parametrize("number,name,flags,trouble", [(i,) + c for i, c in enumerate(CASES)],
                         ids=[c[0] for c in CASES])
def test_replay(number, name, flags, trouble, tmp_path):
    seed = SEED * 100 + number
    rng = random.Random(seed)
    stream = Stream(seed, NODE)
    nodeports = cidrs(flags, "--nodeport-addresses")
    detect = cidrs(flags, "--detect-local-mode")
    config = Config("n1", detect=detect[0] if detect else "ClusterCIDR",
                    cluster_cidrs=cidrs(flags, "--cluster-cidr"),
                    nodeport_addresses=nodeports or None, host_addresses=HOST,
                    service_cidrs=cidrs(flags, "--service-cluster-ip-range"),
                    preserve_local_source="--preserve-local-source" in flags)
    replay = Replay(flags)
    report = []

    def check(answer, what):
        found = differences(answer, stream.list(), config)
        if found or answer["failures"]:
            script = tmp_path / "script"
            script.write_text("\n".join(replay.script) + "\n")
            raise AssertionError(
                "seed %d, step %d (%s): %d refused\n  %s\nbefore: %s\nscript: %s" % (
                    seed, len(report), what, answer["failures"], "\n  ".join(found[:10]),
                    "; ".join(report[-4:]), script))

    try:
        for _ in range(12):
            stream.change_add_service()
        for _ in range(STEPS):
            what = stream.step()
            replay.update(stream.list())
            if trouble and rng.random() < 0.3:
                what += " with " + make_trouble(replay, rng)
                answer = replay.settle(rng.randint(1, 40))
                replay.tell(calm=1)
                if rng.random() < 0.3:  # killed during a sync
                    what += ", restarted"
                    replay.restart(stream.list())
                answer = replay.settle(90)
            else:
                answer = replay.settle()
            check(answer, what)
            report.append(what)
            if rng.random() < 0.05:
                # A restart adds nothing. It may remove affinity chains that no service needs. One that
                # was needed before the restart stays once: all restarts are one process.
                for _ in range(3):
                    before = answer
                    replay.restart(stream.list())
                    answer = replay.settle()
                    check(answer, "restart")
                    assert answer["adds"] == before["adds"], \
                        "seed %d, step %d: a restart with nothing changed added" % (seed, len(report))
                assert answer["messages"] == before["messages"], \
                    "seed %d, step %d: a restart with nothing changed wrote" % (seed, len(report))
                report.append("restart")
        # At the end, after all drain timeouts, no state of deleted services is left.
        for key in [k for k in stream.objects if k[0] in ("Service", "EndpointSlice")]:
            stream.delete(key)
        replay.update(stream.list())
        replay.settle()
        answer = replay.settle(LINGER_S)
        check(answer, "all deleted")
        for fam in ("4", "6"):
            for set_name in ("frontends", "endpoints", "vips", "cluster_ips", "endpoint_addrs",
                             "masq_frontends", "masq_hosts", "xl_cluster", "xl_local",
                             "fw_frontends", "fw_ranges", "aff_slots", "aff_endpoints"):
                assert not answer[fam].get(set_name), "left in %s: %s" % (
                    set_name, answer[fam][set_name])
    finally:
        code = replay.close()
    assert code == 0
