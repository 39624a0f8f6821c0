# SPDX-License-Identifier: GPL-2.0-or-later
"""vipctl drain: no new connections, established ones continue, also over a restart, until
undone. vipctl eject: the same for half of the endpoints, until vipd ends."""
import json

import pytest

import lab as L
import shop
from shop import E1, E2, Svc

SVC = Svc("drained", 63)


def test_drain(lab, vipd):
    vipd.apply(SVC.objects())
    to, number = SVC.target("clusterip", 4)
    shop.reach(lab, "P", to, number, "tcp", 4, {E1[4], E2[4]}, False)
    conns = [L.connect(lab.ns["pod3"], to, number)[0] for _ in range(12)]
    met = {c.ask().backend for c in conns}
    assert met == {E1[4], E2[4]}
    assert E1[4] in vipd.ctl("drain", "default/drained", E1[4])
    L.eventually(lambda: vipd.is_settled())
    shop.reach(lab, "P", to, number, "tcp", 4, {E2[4]}, False)
    # The IPv6 address of the same pod is another endpoint; an address names one.
    shop.reach(lab, "P", SVC.addr("clusterip", 6), number, "tcp", 6, {E1[6], E2[6]}, False)
    assert all(c.ask().ok for c in conns)  # they go on
    assert "1 endpoint, by an operator" in vipd.ctl("status")
    assert "drained by an operator" in vipd.ctl("trace", L.POD["pod3"][4], "default/drained:tcp")
    vipd.stop()
    vipd.start()
    shop.reach(lab, "P", to, number, "tcp", 4, {E2[4]}, False)
    assert all(c.ask().ok for c in conns)
    answer = json.loads(vipd.ctl("undrain", "default/drained", E1[4], "-o", "json"))
    assert answer["items"] == []
    L.eventually(lambda: vipd.is_settled())
    shop.reach(lab, "P", to, number, "tcp", 4, {E1[4], E2[4]}, False)
    for c in conns:
        assert c.ask().ok
        c.close()


def test_socket_without_folder(lab, vipd, monkeypatch):
    """The list of drained endpoints is beside the socket, also in the working directory."""
    vipd.apply(SVC.objects())
    vipd.stop()
    monkeypatch.chdir(vipd.dir)
    monkeypatch.setattr(vipd, "socket", "control.sock")
    vipd.start()
    vipd.ctl("drain", "default/drained", E1[4])
    vipd.stop()
    vipd.start()
    assert "1 endpoint, by an operator" in vipd.ctl("status")
    vipd.ctl("undrain", "default/drained", E1[4])


def test_eject(lab, vipd):
    """CT-32: until it is admitted, or vipd ends; the last endpoint is not ejected."""
    vipd.apply(SVC.objects())
    to, number = SVC.target("clusterip", 4)
    conns = [L.connect(lab.ns["pod3"], to, number)[0] for _ in range(12)]
    assert {c.ask().backend for c in conns} == {E1[4], E2[4]}
    assert "ejected by an operator" in vipd.ctl("eject", "default/drained", E1[4])
    L.eventually(lambda: vipd.is_settled())
    shop.reach(lab, "P", to, number, "tcp", 4, {E2[4]}, False)
    with pytest.raises(AssertionError, match="at most half of the endpoints can be ejected"):
        vipd.ctl("eject", "default/drained", E2[4])
    assert "1 endpoint, no new connections" in vipd.ctl("status")
    assert "ejected by an operator" in vipd.ctl("trace", L.POD["pod3"][4], "default/drained:tcp")
    assert json.loads(vipd.ctl("admit", "default/drained", E1[4], "-o", "json"))["items"] == []
    L.eventually(lambda: vipd.is_settled())
    shop.reach(lab, "P", to, number, "tcp", 4, {E1[4], E2[4]}, False)
    vipd.ctl("eject", "default/drained", E1[4])
    vipd.stop()
    vipd.start()
    shop.reach(lab, "P", to, number, "tcp", 4, {E1[4], E2[4]}, False)
    for c in conns:
        assert c.ask().ok
        c.close()
