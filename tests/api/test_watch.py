# SPDX-License-Identifier: GPL-2.0-or-later
"""List and watch as in sections 1.1 and 1.2, with a server that works."""
import base64
import json
import re
import time

import pytest

from feed import node, service, service_cidr, services, slice_

SELECTORS = {
    "services": {"labelSelector": "!service.kubernetes.io/service-proxy-name",
                 "fieldSelector": "spec.clusterIP!=None"},
    "endpointslices": {"labelSelector": "!service.kubernetes.io/headless"},
    "nodes": {"fieldSelector": "metadata.name=n1"},
    "servicecidrs": {}}
PB = "application/vnd.kubernetes.protobuf"


def shop(api, n=5):
    """A small cluster: the server's own objects, a shop, this node and another."""
    api.put(*services(n))
    api.put(*[slice_("s%d-x" % i, "s%d" % i, ["10.244.1.%d" % (i + 1), "10.244.2.%d" % (i + 1)])
              for i in range(n)])
    api.put(node(), node("n2", "b"), service_cidr("kubernetes", "10.96.0.0/12"))
    return api


def selectors(query):
    return {k: v for k, v in query.items() if k.endswith("Selector")}


# ---- the first state (IN-01 to IN-09)

@pytest.mark.parametrize("http2", [True, False])
@pytest.mark.parametrize("encoding", ["pb", "json"])
@pytest.mark.parametrize("watchlist", ["serve", "invalid", "bad"])
def test_first_state(api, start, http2, encoding, watchlist):
    shop(api).set(http2=http2, watchlist=watchlist)
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced().same_as(api)
    feed.wait_healthy()
    assert api.wait(watches={r: 1 for r in SELECTORS})
    dump = feed.dump()
    assert dump["node"]["zone"] == "a" and dump["node"]["addrs"] == ["192.168.0.2"]
    assert dump["cidrs"] == ["10.96.0.0/12"]
    status = feed.status()
    assert status["http2"] == http2
    for resource, r in status["reflectors"].items():
        assert r["encoding"] == ("protobuf" if encoding == "pb" else "json"), resource
        assert r["complete"] and r["lists"] == 1
    if http2:
        assert status["connections"] == 1

    for r in api.requests():
        assert selectors(r["query"]) == SELECTORS[r["resource"]]
        assert re.fullmatch(r"vipd/\S+ \(linux/\w+\)", r["user_agent"])
        assert r["accept_encoding"] == ""
        assert r["accept"] == (PB + ",application/json" if encoding == "pb" else
                               "application/json")
        q = r["query"]
        if r["verb"] in ("watch", "watchlist"):
            assert q["allowWatchBookmarks"] == "true" and 300 <= int(q["timeoutSeconds"]) <= 600
        if r["verb"] == "watchlist":
            assert q["sendInitialEvents"] == "true"
            assert q["resourceVersionMatch"] == "NotOlderThan" and "resourceVersion" not in q
        if r["verb"] == "list":
            assert q["resourceVersion"] == "0" and int(q["limit"]) > 0
    assert {r["resource"] for r in api.requests()} == set(SELECTORS)


@pytest.mark.parametrize("bookmarks", [True, False])
def test_ignored_watch_list(api, start, bookmarks):
    """A server without sendInitialEvents never ends them: detected by an ordinary bookmark, or
    by silence."""
    shop(api).set(watchlist="ignore", bookmarks=bookmarks)
    feed = start(idle_ms=500).wait_synced()
    feed.same_as(api)
    assert feed.wait_log("endpointslices: watch-list rejected" if bookmarks else
                         "watch endpointslices: no data")
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)


def selected(api):
    """Of each request for Services: does it have the field selector?"""
    return ["fieldSelector" in r["query"] for r in api.requests(resource="services")]


@pytest.mark.parametrize("watchlist", ["serve", "invalid", "ignore"])
def test_no_field_selector(api, start, watchlist):
    """IN-03: API servers before 1.31 reject the field selector of Services."""
    shop(api).set(watchlist=watchlist, spec_fields=False)
    api.put(service("headless", "None"))
    # Both rejections must be in force at once: on a busy machine a request takes 0.3 s.
    feed = start(unsupported_ms=3000).wait_synced().same_as(api, headless=True)
    feed.wait_healthy()
    assert not feed.logged("warn")
    assert [r["verb"] for r in api.requests(resource="services")] == ["watchlist", "list", "list", "watch"]
    assert selected(api) == [True, True, False, False]
    # Headless Services cause no work.
    feed.take_changed()
    api.put(service("headless", "None", port=81), service("another", "None"), service("s1", "10.96.1.1", port=99))
    feed.same_as(api, headless=True)
    assert feed.take_changed() == ["shop/s1"]
    # An upgrade of the server: the next list has the selector again.
    api.set(watchlist="serve", spec_fields=True)
    api.delete("services", "shop/headless")

    def is_selected():
        api.end_watches(how="error", resource="services")
        return selected(api)[-1]
    feed.wait_for(is_selected, "a list with the selector")
    feed.same_as(api).wait_healthy()
    api.put(service("s2", "10.96.1.2", port=99))
    feed.same_as(api)
    assert selected(api)[-1]
    assert set(feed.take_changed()) == {"shop/s2"}


def test_no_node_name(api, start):
    shop(api)
    feed = start(node=None).wait_synced()
    assert "nodes" not in feed.status()["reflectors"]
    assert feed.dump()["node"] is None


def test_synced_without_node(api, start):
    """A complete list without this node ends the wait for it (IN-20)."""
    start(node="n77", others_ms=600000).wait_synced()


# ---- changes

def test_changes(api, start):
    shop(api)
    feed = start().wait_synced().same_as(api)
    feed.take_changed()
    steps = [
        (lambda: api.put(service("new", "10.96.7.7")), "shop/new"),
        (lambda: api.put(slice_("new-1", "new", ["10.244.3.1"])), "shop/new"),
        (lambda: api.put(slice_("new-1", "new", ["10.244.3.1", "10.244.3.2"])), "shop/new"),
        (lambda: api.patch("services", "shop/s1", {"spec": {"internalTrafficPolicy": "Local"}}),
         "shop/s1"),
        (lambda: api.delete("endpointslices", "shop/s2-x"), "shop/s2"),
        (lambda: api.delete("services", "shop/s3"), "shop/s3"),
        # T-007: the label hides a service, any value does.
        (lambda: api.patch("services", "shop/s0", {"metadata": {"labels": {
            "service.kubernetes.io/service-proxy-name": ""}}}), "shop/s0"),
        (lambda: api.patch("services", "shop/s0", {"metadata": {"labels": {
            "service.kubernetes.io/service-proxy-name": None}}}), "shop/s0"),
        # T-008
        (lambda: api.patch("endpointslices", "shop/s4-x", {"metadata": {"labels": {
            "service.kubernetes.io/headless": ""}}}), "shop/s4"),
    ]
    for act, name in steps:
        act()
        feed.same_as(api)
        feed.wait_for(lambda: feed.changed, "change of %s" % name)
        assert set(feed.take_changed()) == {name}
    assert feed.status()["reflectors"]["services"]["lists"] == 1


def test_change_without_effect(api, start):
    """IN-13, IN-31, IN-32: changes without effect are not reported."""
    shop(api)
    feed = start().wait_synced().same_as(api)
    feed.take_changed()
    events = feed.reflector("services")["events"]
    api.patch("services", "shop/s1", {"metadata": {"annotations": {"a": "b"}}})
    api.patch("endpointslices", "shop/s1-x", {"metadata": {"annotations": {"a": "b"}}})
    api.patch("services", "shop/s1", {"metadata": {}}, force=True)
    feed.wait_for(lambda: feed.reflector("services")["events"] >= events + 2, "events")
    assert feed.take_changed() == []


def test_node_and_cidrs(api, start):
    shop(api)
    feed = start().wait_synced()
    api.patch("nodes", "n1", {"metadata": {"labels": {"topology.kubernetes.io/zone": "c"}}})
    feed.wait_for(lambda: feed.dump()["node"]["zone"] == "c", "zone")
    api.put(service_cidr("more", "10.200.0.0/16"))
    feed.wait_for(lambda: "10.200.0.0/16" in feed.dump()["cidrs"], "range")
    api.delete("servicecidrs", "more")
    feed.wait_for(lambda: "10.200.0.0/16" not in feed.dump()["cidrs"], "range gone")
    api.delete("nodes", "n1")
    feed.wait_for(lambda: feed.dump()["node"]["deleting"], "node gone")
    assert feed.dump()["node"]["zone"] == "c"
    api.put(node(zone="d"))
    feed.wait_for(lambda: feed.dump()["node"]["zone"] == "d", "node back")
    assert not feed.dump()["node"]["deleting"]


def test_churn(api, start):
    """A rolling update and random changes, in both encodings at once."""
    shop(api, 20)
    feeds = [start(), start(content_type="application/json")]
    for f in feeds:
        f.wait_synced()
    api.roll(services=["shop/s%d" % i for i in range(5)], step=0.005)
    api.churn(rate=300, seconds=2)
    for f in feeds:
        f.same_as(api)
        assert f.reflector("endpointslices")["lists"] == 1


# ---- the end of a watch (IN-10)

@pytest.mark.parametrize("how", ["end", "reset", "close", "reset_stream"])
def test_resumed(api, start, how):
    """From the last version, without a list, and without repeated events."""
    shop(api)
    feed = start().wait_synced().same_as(api)
    api.wait(synced={"services": 1, "endpointslices": 1})
    for i in range(3):
        api.put(service("s0", "10.96.1.0", port=8000 + i))
        feed.same_as(api)
        version = feed.reflector("services")["version"]
        feed.take_changed()
        api.forget()
        api.end_watches(how=how, resource="services")
        assert api.wait(requests=1, match={"resource": "services"})
        feed.wait_for(lambda: feed.reflector("services")["state"] == "watching", "watching")
        again = api.requests(resource="services")
        assert [r["verb"] for r in again] == ["watch"]
        assert int(again[0]["query"]["resourceVersion"]) >= int(version)
        assert "sendInitialEvents" not in again[0]["query"]
    assert feed.take_changed() == []
    assert feed.reflector("services")["lists"] == 1
    feed.same_as(api)


def test_normal_end_is_no_trouble(api, start):
    shop(api)
    feed = start(watch_min_s=1, watch_max_s=1).wait_synced()
    feed.wait_for(lambda: feed.reflector("services")["watches"] >= 3, "watches", 10)
    assert not feed.logged("warn")


def test_changes_while_away(api, start):
    """Between two watches: nothing is lost."""
    shop(api)
    feed = start().wait_synced()
    fault = api.fault("status", code=503, verb="watch")
    api.end_watches(how="close")
    feed.wait_error("services", "503")
    api.put(service("s1", "10.96.1.1", port=99), service("more", "10.96.5.5"))
    api.delete("services", "shop/s2")
    api.clear(fault)
    feed.same_as(api)
    feed.wait_healthy()
    assert feed.reflector("services")["lists"] == 1


# ---- lists over a full model (IN-11, IN-12)

@pytest.mark.parametrize("watchlist", ["serve", "invalid"])
@pytest.mark.parametrize("encoding", ["pb", "json"])
def test_relist(api, start, watchlist, encoding):
    """410: missing objects are deleted, equal ones cause nothing, changed ones are reported."""
    shop(api, 10).set(watchlist=watchlist)
    api.put(service_cidr("stale", "10.201.0.0/16"))
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced().same_as(api)
    feed.wait_healthy()
    version = feed.reflector("services")["version"]
    fault = api.fault("status", code=503, verb="watch")
    api.end_watches(how="close")
    feed.wait_error("services", "503")
    feed.take_changed()
    api.delete("services", "shop/s1", "shop/s2")
    api.delete("endpointslices", "shop/s3-x")
    api.delete("servicecidrs", "stale")
    api.put(service("s4", "10.96.1.4", port=99), service("new", "10.96.5.5"))
    api.compact()
    api.forget()
    api.clear(fault)
    feed.same_as(api)
    feed.wait_healthy()
    assert set(feed.take_changed()) == {"shop/s1", "shop/s2", "shop/s3", "shop/s4", "shop/new"}
    assert "10.201.0.0/16" not in feed.dump()["cidrs"]  # upstream has a bug here, IN-12
    assert feed.reflector("services")["lists"] == 2
    lists = [r for r in api.requests(resource="services") if r["status"] == 200 and
             r["verb"] in ("list", "watchlist")] or api.requests(resource="services")
    for r in lists:
        if r["verb"] in ("list", "watchlist"):
            assert r["query"]["resourceVersionMatch"] == "NotOlderThan"
            assert int(r["query"]["resourceVersion"]) >= int(version)


def test_error_event(api, start):
    shop(api)
    feed = start().wait_synced()
    api.end_watches(how="error")
    feed.wait_log("watch services: 410 Expired: too old resource version")
    feed.wait_healthy()
    feed.same_as(api)
    assert feed.reflector("services")["lists"] == 2
    # Another code is no reason for a list.
    api.end_watches(how="error", status={"status": "Failure", "reason": "InternalError",
                                         "code": 500, "message": "etcd has a cold"})
    feed.wait_log("watch services: 500 InternalError: etcd has a cold")
    feed.wait_healthy()
    assert feed.reflector("services")["lists"] == 2


def test_relist_is_cut(api, start):
    """An incomplete list deletes nothing."""
    shop(api, 30)
    feed = start().wait_synced().same_as(api)
    feed.take_changed()
    api.fault("close", resource="services", verb="watchlist", at=3000, count=3)
    api.compact()
    api.end_watches(how="error", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["lists"] >= 3, "lists")
    feed.wait_healthy()
    feed.same_as(api)
    assert feed.take_changed() == []


def test_pages(api, start):
    """Lists of a server without watch-lists, from its cache: servers before 1.34 send those with a
    limit from etcd, but for rv=0."""
    api.load(services=2500, endpoints=1, base=False)
    api.set(watchlist="invalid")
    feed = start(quiet=True).wait_synced(30)
    lists = [r["query"] for r in api.requests(resource="services", verb="list")]
    # rv=0: this server, like older ones, sends all objects at once.
    assert lists[0]["resourceVersion"] == "0" and int(lists[0]["limit"]) > 0
    assert feed.reflector("services")["objects"] == 2500
    api.forget()
    api.delete("services", "ns-000/service-00000")
    api.compact()
    api.end_watches(how="error", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["lists"] == 2 and
                  feed.reflector("services")["state"] == "watching", "relist", 20)
    assert feed.reflector("services")["objects"] == 2499
    assert len(feed.dump()["services"]) == 2499
    again = [r["query"] for r in api.requests(resource="services", verb="list")]
    assert len(again) == 1 and "limit" not in again[0]
    assert again[0]["resourceVersionMatch"] == "NotOlderThan"


def test_continue_token_expires(api, start):
    """410 in the middle of a paged list: a list in one piece, and nothing is lost."""
    api.load(services=2500, endpoints=1, base=False)
    api.set(watchlist="invalid")
    feed = start(quiet=True).wait_synced(30)
    # After this answer any version is accepted: in pages, from etcd.
    api.fault("status", code=422, resource="services", verb="list", count=1)
    fault = api.fault("delay", delay=0.5, resource="services", verb="list", skip=1)
    api.wait(watches={"services": 1})
    api.end_watches(how="error", resource="services")
    feed.wait_for(lambda: any("continue" in r["query"]
                              for r in api.requests(resource="services", verb="list")),
                  "second page")
    api.put(service("new", "10.111.1.1", ns="ns-000"))
    api.delete("services", "ns-001/service-00001")
    api.compact()
    api.clear(fault)
    feed.wait_for(lambda: len(feed.dump()["services"]) == 2500 and
                  "ns-000/new" in feed.dump()["services"], "all of it", 20)
    feed.wait_healthy()
    assert "ns-001/service-00001" not in feed.dump()["services"]


def test_restored_backup(api, start):
    """IN-11: the server's version decreases. It accepts watches at the lost version and sends
    nothing; a list at that version fails, and after some attempts any version is accepted."""
    shop(api)
    api.rewind(rv=1000)
    feed = start(bookmark_ms=1000).wait_synced().same_as(api)
    api.set(version_wait=0.1)
    api.delete("services", "shop/s1")
    api.put(service("s2", "10.96.1.2", port=1234))
    feed.same_as(api)
    for r, before in feed.status()["reflectors"].items():
        feed.wait_for(lambda: feed.reflector(r)["events"] > before["events"], "bookmark")
    api.rewind(rv=500)
    api.put(service("after", "10.96.6.6"))
    feed.same_as(api).wait_healthy()


def test_bookmarks_end(api, start):
    """IN-11: a server that sent bookmarks sends none any more: one list, not one after another."""
    shop(api)
    feed = start(bookmark_ms=1000).wait_synced().same_as(api)
    for r, before in feed.status()["reflectors"].items():
        feed.wait_for(lambda: feed.reflector(r)["events"] > before["events"], "bookmark")
    api.set(bookmarks=False)
    for r, before in feed.status()["reflectors"].items():
        feed.wait_for(lambda: feed.reflector(r)["lists"] > before["lists"], "list")
    feed.wait_healthy()
    lists = {r: s["lists"] for r, s in feed.status()["reflectors"].items()}
    time.sleep(2.2)  # longer than the limit
    assert lists == {r: s["lists"] for r, s in feed.status()["reflectors"].items()}


@pytest.mark.parametrize("http2", [True, False])
def test_error_in_a_postponed_part(api, start, http2):
    """libcurl gives 16 KiB at a time. A turn of the event loop reads the first part, and the event
    that ends the watch is in the part that waits for the next turn."""
    shop(api).set(http2=http2)
    feed = start(turn_ns=1, content_type="application/json").wait_synced().same_as(api)
    for i in range(5):
        event = {"type": "MODIFIED", "object": dict(
            service("s1", "10.96.1.1"), kind="Service", apiVersion="v1")}
        event["object"]["metadata"]["resourceVersion"] = str(api.stats()["rv"])
        error = {"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "code": 410,
                                             "status": "Failure", "reason": "Expired"}}
        line = json.dumps(event).encode() + b"\n"
        raw = line * ((24 << 10) // len(line)) + json.dumps(error).encode() + b"\n"
        api.inject(resource="services", raw=base64.b64encode(raw).decode())
        api.end_watches(resource="services")
        api.put(service("s0", "10.96.1.0", port=1000 + i))
        feed.same_as(api).wait_healthy()


# ---- unknown objects and fields, which have no effect

@pytest.mark.parametrize("encoding", ["pb", "json"])
def test_unknown_fields(api, start, encoding):
    shop(api)
    api.fault("unknown")
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced().same_as(api)
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)
    assert feed.reflector("services")["rejected"] == 0


def test_events_twice_and_late(api, start):
    shop(api)
    feed = start().wait_synced()
    api.fault("duplicate", times=3)
    api.fault("lag", delay=0.05)
    api.churn(rate=100, seconds=0.5)
    api.delete("services", "shop/s1")
    feed.same_as(api)


def test_slice_before_service(api, start):
    """IN-14"""
    feed = start().wait_synced()
    api.put(slice_("late-1", "late", ["10.244.9.9"]))
    feed.same_as(api)
    api.put(service("late", "10.96.8.8"))
    feed.same_as(api)
    feed.wait_for(lambda: "shop/late" in feed.changed, "change")


def test_bookmarks_are_kept(api, start):
    """A quiet kind follows the versions of busy ones: its watch never gets too old."""
    shop(api)
    feed = start().wait_synced()
    feed.wait_healthy()
    api.churn(rate=100, seconds=0.5)
    api.compact()
    rv = api.stats()["rv"]
    feed.wait_for(lambda: int(feed.reflector("servicecidrs")["version"]) >= rv, "bookmark")
    api.forget()
    api.end_watches(how="end", resource="servicecidrs")
    assert api.wait(requests=1, match={"resource": "servicecidrs"})
    feed.wait_healthy()
    assert feed.reflector("servicecidrs")["lists"] == 1
