# SPDX-License-Identifier: GPL-2.0-or-later
"""HC-08: log, status, /healthz and doctor name a node name without a Node object."""
import json
import re
import os
import sys
import urllib.error
import urllib.request

import pytest

import lab as L
from daemon import Vipd
from objects import node, service
from test_api import ApiVipd

sys.path.insert(0, os.path.join(L.ROOT, "tests"))

from apiserver.client import Server  # noqa: E402

MISSING = 'no Node object named "typo"'


@pytest.fixture
def alone():
    with L.Lab(servers=False) as lab:
        yield lab


@pytest.fixture(autouse=True)
def steady_all_along():
    """No steady flows: no backend is served here."""


def healthz(lab):
    with lab.node.entered():
        try:
            with urllib.request.urlopen("http://127.0.0.1:10256/healthz", timeout=L.LIMIT) as r:
                return r.status, json.loads(r.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())


def doctor(vipd):
    report = json.loads(vipd.ctl("doctor", "-o", "json", check=False))
    return {x["check"]: (x["level"], x["found"]) for x in report["results"]}, report["worst"]


def test_wrong_name_in_manifests(alone):
    """The node stays eligible. Without any Node object nothing is missing."""
    vipd = Vipd(alone, base=False)
    try:
        vipd.flags["--hostname-override"] = "typo"
        vipd.write([service("a", [L.cluster_ip(1, 4)], 80)])
        vipd.start()
        assert vipd.status()["problems"] == [] and "node" not in doctor(vipd)[0]
        vipd.write([node("n1", [L.NODE[4]]), service("a", [L.cluster_ip(1, 4)], 81)])
        L.eventually(lambda: MISSING in vipd.log())
        problem, = vipd.status()["problems"]
        assert problem["kind"] == "node"
        assert problem["text"].startswith(MISSING + ": endpoints of other node names do not count as local; --hostname")
        assert healthz(alone)[0] == 200 and vipd.log().count(MISSING) == 1
        assert doctor(vipd)[0]["node"] == ("error", MISSING + ": endpoints of other node names do not count as local")
        vipd.write([service("a", [L.cluster_ip(1, 4)], 80)])
        L.eventually(lambda: vipd.status()["problems"] == [])
        vipd.write([node("n1", [L.NODE[4]]), node("typo", [L.NODE[4]])])
        L.eventually(lambda: doctor(vipd)[0].get("node", [""])[0] == "ok")
        assert vipd.status()["problems"] == []
    finally:
        vipd.close()


def test_wrong_name():
    with L.Lab(servers=False) as lab, Server(netns=lab.node.name) as api:
        vipd = ApiVipd(lab, api)
        try:
            vipd.write([])
            vipd.flags["--hostname-override"] = "typo"
            vipd.start()
            code, body = healthz(lab)
            assert code == 503 and body["reason"] == MISSING and body["nodeEligible"] is False
            status = vipd.status()
            assert status["health"]["ready"] is False and status["health"]["reason"] == MISSING
            assert [p["text"] for p in status["problems"] if p["kind"] == "node"][0] \
                .startswith(MISSING + ": /healthz answers 503")
            text = vipd.ctl("status", check=False)
            assert re.search("^health +not ready: " + re.escape(MISSING), text, re.M)
            assert "  " + MISSING in text.split("PROBLEMS")[1]
            assert vipd.log().count(MISSING) == 1
            found, worst = doctor(vipd)
            assert worst == "error" and found["node"][0] == "error"
            assert found["node"][1].startswith(MISSING)

            api.put(node("typo", [L.NODE[4]]))
            L.eventually(lambda: healthz(lab)[0] == 200)
            assert "reason" not in healthz(lab)[1]
            assert re.search("^health +ready$", vipd.ctl("status"), re.M)
            assert vipd.status()["problems"] == []
            assert 'Node object "typo": recovered' in vipd.log()
            assert doctor(vipd)[0]["node"][0] == "ok"
        finally:
            vipd.close()
