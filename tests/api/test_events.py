# SPDX-License-Identifier: GPL-2.0-or-later
"""Kubernetes Events about rejected objects: one for each problem, few, and only with the permission."""
import calendar
import re
import time

import pytest

from feed import service, services
from test_watch import shop

PERIOD_MS = 50


def posted(api):
    return [p["object"] for p in api.posted()["posted"]]


def periods(api, feed, n=3):
    """Wait for periods in which a rejected object more is reported, so that earlier ones were seen, too."""
    for i in range(n):
        name = "probe-%d" % len(posted(api))
        api.put(service(name, "10.96.200.%d" % i, port=70000), raw=True)
        feed.wait_for(lambda: any(p["regarding"]["name"] == name for p in posted(api)), "Event about " + name)


def bad(name, port=70000):
    return service(name, "10.96.1.1", port=port)


@pytest.mark.parametrize("http2", [True, False])
def test_rejected_object(api, start, http2):
    """What `kubectl describe service` shows; equal rejections are one Event, another text is another one."""
    shop(api).set(http2=http2)
    api.put(bad("s1"), raw=True)
    feed = start(events_ms=PERIOD_MS)
    feed.wait_for(lambda: posted(api), "Event")
    (event,) = posted(api)
    name = event["metadata"].pop("name")
    assert re.fullmatch(r"s1\.[0-9a-f]{16}", name)
    assert abs(time.time() - calendar.timegm(time.strptime(event["eventTime"][:19], "%Y-%m-%dT%H:%M:%S"))) < 600
    del event["eventTime"]
    assert event == {
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"namespace": "shop"}, "type": "Warning",
        "reason": "InvalidObject", "action": "Serve", "reportingController": "vipd", "reportingInstance": "vipd-n1",
        "note": "spec.ports[0].port: 70000 is not a number from 1 to 65535",
        "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "s1",
                      "uid": api.get("services", "shop/s1")["metadata"]["uid"]}}
    periods(api, feed)
    assert len([p for p in posted(api) if p["regarding"]["name"] == "s1"]) == 1
    api.put(bad("s1", port=70001), raw=True)
    feed.wait_for(lambda: [p["note"] for p in posted(api)][-1:] ==
                  ["spec.ports[0].port: 70001 is not a number from 1 to 65535"], "the second Event")


def test_nodes_share_an_event(api, start):
    """All nodes choose one name: the server refuses the second Event, which counts as reported."""
    shop(api)
    api.put(bad("s1"), raw=True)
    feeds = [start(node="n%d" % i, events_ms=PERIOD_MS) for i in (1, 2, 3)]

    def creates():
        return api.requests(verb="create")
    feeds[0].wait_for(lambda: len(creates()) == 3, "three attempts")
    feeds[0].wait_for(lambda: all(r["status"] for r in creates()), "three answers")
    assert sorted(r["status"] for r in creates()) == [201, 409, 409]
    periods(api, feeds[0], 1)
    assert len([p for p in posted(api) if p["regarding"]["name"] == "s1"]) == 1


def test_no_permission(api, start):
    """One line in the log, an attempt every 20 periods; once the permission is there, Events are written."""
    shop(api)
    fault = api.fault("status", resource="events", code=403)
    api.put(bad("s1"), raw=True)
    begin = time.monotonic()
    feed = start(events_ms=PERIOD_MS)
    feed.wait_for(lambda: api.used(fault) == 3, "three attempts")
    assert time.monotonic() - begin > 40 * PERIOD_MS / 2000     # 2 x 20 periods of half the time at least
    assert len(feed.logged("no permission")) == 1
    feed.wait_healthy()
    api.clear()
    feed.wait_for(lambda: posted(api), "Event")


@pytest.mark.parametrize("code", [401, 429, 500])
def test_failed_lookup(api, start, code):
    """The object is looked up again in a later period; no Event without the uid."""
    shop(api)
    feed = start(events_ms=PERIOD_MS)
    feed.wait_synced()
    fault = api.fault("status", resource="services", verb="list", code=code, count=12)
    api.put(bad("s1"), raw=True)
    feed.wait_for(lambda: posted(api), "Event")
    assert api.used(fault) == 12 and all(p["regarding"].get("uid") for p in posted(api))


def test_null_list(api, start):
    """`"items":null` is an empty list: the object was deleted."""
    shop(api)
    feed = start(events_ms=PERIOD_MS)
    feed.wait_synced()
    fault = api.fault("status", resource="services", verb="list", code=200, count=1, type="application/json", body=(
        '{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":null}'))
    api.put(bad("s1"), raw=True)
    feed.wait_for(lambda: api.used(fault) == 1, "lookup")
    periods(api, feed, 1)
    assert {p["regarding"]["name"] for p in posted(api)} == {"probe-0"}


def test_other_403(api, start):
    """A quota, or a namespace that is being deleted: only this Event is lost."""
    shop(api)
    fault = api.fault("status", resource="events", code=403, count=1, message=(
        'events.events.k8s.io "s1.0" is forbidden: unable to create new content in namespace shop'))
    api.put(bad("s1"), raw=True)
    feed = start(events_ms=PERIOD_MS)
    feed.wait_for(lambda: api.used(fault) == 1, "the attempt")
    periods(api, feed, 2)
    assert {p["regarding"]["name"] for p in posted(api)} == {"probe-0", "probe-1"}
    assert not feed.logged("no permission")


def test_failures_are_repeated(api, start):
    """While the server fails, the problem stays unreported; later it is reported once."""
    shop(api)
    for fault in ({"kind": "status", "code": 500}, {"kind": "reset", "at": "request"}, {"kind": "status", "code": 429}):
        api.fault(resource="events", count=1, **fault)
    api.put(bad("s1"), raw=True)
    feed = start(events_ms=PERIOD_MS)
    feed.wait_for(lambda: posted(api), "Event")
    assert len(api.requests(verb="create")) >= 4
    periods(api, feed, 1)
    assert len(posted(api)) == 2


def test_limit(api, start):
    """Ten at once, then one a minute; lists and watches do not wait."""
    api.put(*services(40))
    for i in range(40):
        api.put(bad("s%d" % i), raw=True)
    begin = time.monotonic()
    feed = start(events_ms=PERIOD_MS)
    feed.wait_for(lambda: len(posted(api)) >= 10, "ten Events")
    time.sleep(6 * PERIOD_MS / 1000)
    assert len(posted(api)) <= 10 + (time.monotonic() - begin) / 60
    assert len({p["regarding"]["name"] for p in posted(api)}) == len(posted(api))
    api.put(service("new", "10.96.9.1"))
    feed.wait_for(lambda: "shop/new" in feed.dump()["services"], "the next object")


def test_repaired_objects(api, start):
    """The turn was that of an object that is repaired meanwhile: the others are reported in the next period."""
    api.put(*services(15))
    for i in range(15):
        api.put(bad("s%d" % i), raw=True)
    fault = api.fault("status", resource="events", code=500, count=1)
    feed = start(events_ms=3000)
    feed.wait_for(lambda: api.used(fault) == 1, "the attempt for the first ten")
    api.put(*services(15)[4:])
    feed.wait_for(lambda: feed.reflector("services")["rejected"] == 4, "the repair")
    assert feed.status()["collections"] == 1
    feed.wait_for(lambda: len(posted(api)) == 4, "Events about the others")
    assert feed.status()["collections"] == 2


def test_deleted_object(api, start):
    """The server no longer has the object when its Event is due: none is written."""
    shop(api)
    fault = api.fault("status", resource="events", code=500)
    api.put(bad("s1"), raw=True)
    feed = start(events_ms=200)
    feed.wait_for(lambda: feed.reflector("services")["rejected"] == 1, "rejection")
    drop = api.fault("drop", resource="services")
    api.delete("services", "shop/s1")
    feed.wait_for(lambda: api.used(drop) == 1, "the lost event of the watch")
    api.clear()
    api.put(bad("s2"), raw=True)
    feed.wait_for(lambda: posted(api), "Event")
    assert {p["regarding"]["name"] for p in posted(api)} == {"s2"}
    assert feed.reflector("services")["rejected"] == 2


def test_off(api, start):
    shop(api)
    api.put(bad("s1"), raw=True)
    feed = start()
    feed.wait_for(lambda: feed.reflector("services")["rejected"] == 1, "rejection")
    other = start(node="n2", events_ms=4 * PERIOD_MS)
    periods(api, other)
    assert {p["reportingInstance"] for p in posted(api)} == {"vipd-n2"}
