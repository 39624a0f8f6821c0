# SPDX-License-Identifier: GPL-2.0-or-later
"""All kinds of invalid files at once in the folder of a serving daemon: one problem each with file
and object, bounded memory; everything else is served."""
import json
import os
import re

import lab as L
import objects as k8s

NAME_MAX = "n" * 63
BOMB = "apiVersion: v1\nkind: Service\nx0: &a0 [a, a, a, a, a, a, a, a, a]\n" + "".join(
    "x%d: &a%d [%s]\n" % (i, i, ", ".join(["*a%d" % (i - 1)] * 9)) for i in range(1, 12))
HUGE = 100 << 20  # bytes
RESIDENT_MAX = 160 << 10  # KiB; far less than that one file


def text(*objs):
    return "\n---\n".join(json.dumps(o) for o in objs)


def service(name, ip, number, **kw):
    return k8s.service(name, [ip], [k8s.port(number)], **kw)


def slice_(of, addrs, number, **kw):
    return k8s.slice_(of, addrs, [k8s.slice_port(number)], **kw)


def changed(obj, **fields):
    return dict(obj, spec=dict(obj["spec"], **fields))


def horrors():
    """{file: (text, part of its problem's text; None: no problem)}"""
    ip = L.cluster_ip
    other_family = slice_("family", [L.remote(1, 4)], 8080)
    other_family["endpoints"].append({"addresses": [L.remote(1, 6)]})
    empty = slice_("empty", [L.remote(1, 4)], 8080)
    empty["endpoints"].append({"addresses": []})
    ports = [k8s.port(1000 + i, "TCP", "p%d" % i) for i in range(1000)]
    many = slice_("ports", [L.remote(1, 4)], 8080)
    many["ports"] = [k8s.slice_port(8080, "TCP", "p%d" % i) for i in range(1000)]
    pods = [slice_("pods", ["10.%d.%d.%d" % (200 + part, i // 250, i % 250 + 1)
                            for i in range(1000)], 8080, name="pods-%d" % part)
            for part in range(5)]
    longest = service(NAME_MAX, ip(47, 4), 80)
    return {
        "family.yaml": (text(service("family", ip(41, 4), 80), other_family),
                        "endpoints[1].addresses[0]"),
        "empty.yaml": (text(service("empty", ip(42, 4), 80), empty), "endpoints[1].addresses"),
        "zero.yaml": (text(changed(service("zero", ip(43, 4), 80), ports=[{"port": 0}])),
                      "Service default/zero: spec.ports[0].port: 0 "),
        "70000.yaml": (text(changed(service("high", ip(44, 4), 80), ports=[{"port": 70000}])),
                       "Service default/high: spec.ports[0].port: 70000 "),
        "ports.yaml": (text(changed(service("ports", ip(45, 4), 80), ports=ports), many), None),
        "pods.yaml": (text(service("pods", ip(46, 4), 80), *pods), None),
        "long.yaml": (text(longest, slice_(NAME_MAX, [L.remote(1, 4)], 8080)), None),
        "longer.yaml": (text(service("n" * 64, ip(48, 4), 80)), "64 characters, at most 63"),
        "bomb.yaml": (BOMB, "values, the limit of an object"),
        "utf8.yaml": (b"kind: Service\n# \xff\xfe\n", "UTF-8"),
        "huge.yaml": ("kind: Service\nx: '" + "y" * HUGE + "'\n",
                      "MiB, the limit of an object"),
    }


def resident_max(vipd):
    with open("/proc/%d/status" % vipd.proc.pid, encoding="ascii") as f:
        return int(re.search(r"VmHWM:\s+(\d+) kB", f.read())[1])


def problems(vipd):
    """{file: [text]}"""
    out = {}
    source = vipd.status()["source"]
    for e in source["errors"]["items"] + source["notes"]["items"]:
        out.setdefault(e["where"].split(":")[0], []).append(e["text"])
    return out


def test_everything_bad_at_once(lab, vipd):
    older = service("older", L.cluster_ip(40, 4), 80, created="2020-01-01T00:00:00Z")
    newer = service("newer", L.cluster_ip(40, 4), 80, created="2021-01-01T00:00:00Z")
    vipd.apply([older, newer, slice_("older", [L.remote(1, 4)], 8080),
                slice_("newer", [L.remote(2, 4)], 8080)])
    files = horrors()
    for name, (what, _) in files.items():
        with open(os.path.join(vipd.manifests.path, "." + name), "wb") as f:
            f.write(what if isinstance(what, bytes) else what.encode())
        os.rename(f.name, os.path.join(vipd.manifests.path, name))
    os.symlink("loop.yaml", os.path.join(vipd.manifests.path, "loop.yaml"))
    expect = {name: word for name, (_, word) in files.items() if word is not None}
    expect["loop.yaml"] = "symbolic links"
    L.eventually(lambda: set(problems(vipd)) == set(expect) and vipd.is_settled(), 20,
                 lambda: "problems: %s" % problems(vipd))
    for name, report in problems(vipd).items():
        assert len(report) == 1 and expect[name] in report[0], (name, report)

    for i, port in ((40, 80), (41, 80), (42, 80), (45, 1999), (47, 80)):
        assert L.probe(lab.client, L.cluster_ip(i, 4), port).ok, i
    assert "10.96.0.40:80 is served by default/older (older service)" in vipd.ctl("svc", "default/newer")
    assert "service default/newer: " in vipd.log(1000)
    assert " 5000 backends" in vipd.ctl("svc", "default/pods")
    assert resident_max(vipd) < RESIDENT_MAX

    for name in list(files) + ["loop.yaml"]:
        vipd.manifests.empty(name)
    vipd.apply([], timeout=15)
    assert not vipd.status()["source"]["errors"]["count"]
    assert not vipd.status()["source"]["notes"]["count"]
    vipd.check_tables()
