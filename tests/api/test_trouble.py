# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers that reject, hang, send wrong answers and stop: logged, retried, without loss of
state."""
import json
import time

import pytest

from feed import node, service, services, slice_
from test_watch import PB, shop

RESOURCES = ("services", "endpointslices", "nodes", "servicecidrs")


# ---- rejected requests (IN-18)

@pytest.mark.parametrize("code,reason,verb", [
    (401, "Unauthorized", "watch"), (403, "Forbidden", "watch"), (404, "NotFound", "watch"),
    (429, "TooManyRequests", "watch"), (500, "InternalError", "watch"),
    (503, "ServiceUnavailable", "watch"), (504, "Timeout", "watch"),
    (400, "BadRequest", "list"), (405, "MethodNotAllowed", "list"), (422, "Invalid", "list")])
def test_status_is_named_and_retried(api, start, code, reason, verb):
    """The log has verb, resource and the server's text; nothing is written before both lists."""
    shop(api)
    fault = api.fault("status", code=code, reason=reason, message="because",
                      resource="services")
    feed = start()
    feed.wait_log("%s services: %d %s: because" % (verb, code, reason))
    feed.wait_error("services", "services: %d %s: because" % (code, reason))
    feed.wait_for(lambda: feed.reflector("services")["failures"] >= 3, "failures")
    feed.wait_for(lambda: all(feed.reflector(r)["complete"] for r in RESOURCES[1:]), "the others")
    assert feed.synced_ms is None
    # not once per attempt
    assert len(feed.logged("%s services: %d" % (verb, code))) == 1
    api.clear(fault)
    feed.wait_synced().same_as(api)
    feed.wait_healthy()
    assert feed.wait_log("services: recovered")


@pytest.mark.parametrize("code", [403, 500, 504])
def test_watch_lists_fail(api, start, code):
    """A server whose lists work (IN-09). Overload (429) is no reason for them."""
    shop(api)
    api.fault("status", code=429, verb="watchlist", count=5)
    api.fault("status", code=code, verb="watchlist", resource="services")
    start().wait_synced().same_as(api)
    verbs = {r: [x["verb"] for x in api.requests(resource=r)] for r in RESOURCES}
    assert verbs["services"].count("list") == 1 and "list" not in verbs["endpointslices"]


@pytest.mark.parametrize("how", ["status", "event"])
def test_watch_fails_for_long(api, start, how):
    """A server that cannot continue a watch, but list. 503 by a load balancer is no reason."""
    shop(api)
    feed = start().wait_synced()
    feed.wait_healthy()
    api.fault("status", code=503, verb="watch", resource="services", count=6)
    api.end_watches(how="end", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["failures"] > 4, "failures")
    feed.wait_healthy()
    assert feed.reflector("services")["lists"] == 1
    api.set(bookmarks=False)    # each shows that the watch works
    cold = {"status": "Failure", "reason": "InternalError", "code": 500, "message": "cold"}
    if how == "status":
        api.fault("status", code=500, verb="watch", resource="services", count=4)
        api.end_watches(how="end", resource="services")
    for i in range(4 if how == "event" else 0):
        feed.wait_for(lambda n=i: feed.reflector("services")["watches"] >= 2 + n and
                      feed.reflector("services")["state"] == "watching", "watch")
        api.end_watches(how="error", status=cold, resource="services")
    feed.wait_for(lambda: feed.reflector("services")["lists"] == 2, "list")
    feed.same_as(api)


def test_plain_error(api, start):
    """An error without a Status, as a proxy sends it."""
    shop(api)
    fault = api.fault("status", code=502, plain=True, resource="services")
    feed = start()
    feed.wait_error("services", "status 502")
    api.clear(fault)
    feed.wait_synced().same_as(api)


def test_retry_after(api, start):
    shop(api)
    api.fault("status", code=429, retry_after=2, resource="services", count=1)
    feed = start().wait_synced()
    asked = [r["time"] for r in api.requests(resource="services")]
    assert 2.0 <= asked[1] - asked[0] < 4.5
    feed.same_as(api)


def test_backoff(api, start):
    """Doubling from 0.8 s, up to as much again at random (IN-11)."""
    shop(api)
    api.fault("status", code=500, resource="services")
    feed = start(backoff_min_ms=100, backoff_max_ms=800)
    # Doubling on and on, the eleventh attempt would come after 102 s.
    feed.wait_for(lambda: feed.reflector("services")["failures"] >= 11, "failures")
    asked = [r["time"] for r in api.requests(resource="services")]
    gaps = [b - a for a, b in zip(asked, asked[1:])]
    for i, gap in enumerate(gaps):
        assert gap >= min(0.1 * 2 ** i, 0.8), (i, gaps)
    # Spread in time; equal pauses would be simultaneous.
    assert len({round(g / min(0.1 * 2 ** i, 0.8), 2) for i, g in enumerate(gaps)}) > 1


def test_backoff_is_reset(api, start):
    shop(api)
    feed = start(backoff_min_ms=400, backoff_max_ms=60000, calm_ms=300).wait_synced()
    for _ in range(7):
        api.fault("status", code=500, resource="services", verb="watch", count=1)
        api.end_watches(how="close", resource="services")
        feed.wait_healthy()
        time.sleep(0.5)
    # The eighth pause would be at least 51.2 s without calm in between.
    api.forget()
    api.end_watches(how="close", resource="services")
    assert api.wait(requests=1, match={"resource": "services"}, timeout=40)


def test_loss_of_an_established_watch(api, start):
    """A middlebox cuts every connection after a while: always the first pause (IN-11)."""
    shop(api)
    feed = start(backoff_min_ms=100, backoff_max_ms=600000, calm_ms=600000,
                 steady_ms=300).wait_synced()
    for i in range(5):
        feed.wait_healthy()
        time.sleep(0.5)
        api.end_watches(how="reset_stream", resource="services")
        feed.wait_for(lambda n=i: feed.reflector("services")["watches"] >= 2 + n, "watch again")
    pauses = [float(li.split("next attempt in ")[1].split(" ")[0])
              for li in feed.logged("watch services: connection lost")]
    assert pauses and max(pauses) <= 0.2, pauses


def test_pause_ends_when_the_server_is_back(api, start):
    """One watch that is answered ends the pause of another whose connection was lost, not of one
    that the server rejected (IN-11)."""
    shop(api)
    feed = start(backoff_min_ms=600000, backoff_max_ms=600000).wait_synced()
    feed.wait_healthy()
    time.sleep(1.1)     # a watch that ends sooner, without an event, has failed
    api.end_watches(how="reset_stream", resource="services")
    feed.wait_error("services", "connection lost")
    api.fault("status", code=403, resource="endpointslices", verb="watch", count=1)
    api.end_watches(how="end", resource="endpointslices")
    feed.wait_error("endpointslices", "403")
    assert feed.reflector("services")["state"] != "watching"
    api.end_watches(how="end", resource="nodes")
    feed.wait_for(lambda: feed.reflector("services")["state"] == "watching", "services")
    assert feed.reflector("endpointslices")["failures"] == 1
    # Not again at once: a server that loses each answer after its head is not back.
    time.sleep(1.1)
    api.end_watches(how="reset_stream", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["state"] != "watching", "a lost connection")
    api.forget()
    api.end_watches(how="end", resource="nodes")
    assert api.wait(requests=1, match={"resource": "nodes"})
    feed.wait_for(lambda: feed.reflector("nodes")["state"] == "watching", "nodes")
    assert feed.reflector("services")["state"] != "watching"


@pytest.mark.parametrize("code,retry_after,is_ended", [
    (502, None, True), (503, None, True), (504, None, True), (500, None, False), (503, 600, False)])
def test_pause_after_a_load_balancer(api, start, code, retry_after, is_ended):
    """As above: 502 to 504 may come from a load balancer whose server was away. A pause that the
    server asked for lasts."""
    shop(api)
    feed = start(backoff_min_ms=600000, backoff_max_ms=600000).wait_synced()
    feed.wait_healthy()
    time.sleep(1.1)
    asked = {"retry_after": retry_after} if retry_after else {}
    api.fault("status", code=code, plain=True, resource="services", count=1, **asked)
    api.end_watches(how="end", resource="services")
    feed.wait_error("services", "status %d" % code)
    watches = feed.reflector("nodes")["watches"]
    api.end_watches(how="end", resource="nodes")
    feed.wait_for(lambda: feed.reflector("nodes")["watches"] > watches, "nodes")
    if is_ended:
        feed.wait_for(lambda: feed.reflector("services")["state"] == "watching", "services")
    else:
        assert feed.reflector("services")["state"] == "waiting"


def test_own_answer_ends_no_pause(api, start):
    """A watch that recovers by itself does not use up the hint."""
    shop(api)
    feed = start(backoff_min_ms=600000, backoff_max_ms=600000).wait_synced()
    feed.wait_healthy()
    api.end_watches(how="reset_stream", resource="services")
    feed.wait_error("services", "connection lost")
    feed.read_again()
    feed.wait_healthy()
    api.end_watches(how="reset_stream", resource="services")
    feed.wait_error("services", "connection lost")
    time.sleep(1.1)
    api.end_watches(how="end", resource="nodes")
    feed.wait_for(lambda: feed.reflector("services")["state"] == "watching", "services")


def test_missing_node(api, start):
    """IN-20: vipd waits a limited time for Node and ServiceCIDRs."""
    shop(api)
    fault = api.fault("status", code=403, resource="nodes")
    feed = start(others_ms=600).wait_synced()
    assert feed.synced_ms >= 600
    feed.wait_log("api: nodes: not synced; continuing without it")
    assert feed.status()["unknown"] == "Node: not received"
    api.clear(fault)
    feed.wait_for(lambda: feed.dump()["node"], "node")
    feed.wait_for(lambda: feed.status()["unknown"] == "", "the list of nodes")


def test_absent_node_is_late(api, start):
    """LIFE-04: a complete list without this Node is reported as a change, also after the gate."""
    shop(api)
    fault = api.fault("status", code=429, resource="nodes")
    feed = start(node="n77", others_ms=600).wait_synced()
    assert feed.status()["unknown"] == "Node: not received"
    n = len(feed.events)
    api.clear(fault)
    feed.wait_for(lambda: feed.status()["unknown"] == "", "the list of nodes")
    feed.wait_for(lambda: len(feed.events) > n, "a change")


def test_node_without_addresses(api, start):
    """LIFE-04, IN-24: a Node without addresses yet; one that is created again keeps the last."""
    shop(api)
    bare = dict(node(), spec={}, status={})
    api.put(bare)
    feed = start().wait_synced()
    feed.wait_for(lambda: feed.dump()["node"], "node")
    assert feed.status()["unknown"] == "Node: no addresses yet"
    api.put(node())
    feed.wait_for(lambda: feed.status()["unknown"] == "", "addresses")
    last = feed.dump()["node"]
    assert last["addrs"] and last["pod_cidrs"]
    api.delete("nodes", "n1")
    feed.wait_for(lambda: feed.dump()["node"]["deleting"], "node gone")
    api.put(bare)
    feed.wait_for(lambda: not feed.dump()["node"]["deleting"], "node back")
    assert feed.dump()["node"] == last
    assert feed.status()["unknown"] == ""


def test_late_service_cidrs(api, start):
    """IN-20: their ranges in the kernel stay until they are listed, also if there are none."""
    fault = api.fault("status", code=503, resource="servicecidrs")
    feed = start(others_ms=600).wait_synced()
    assert feed.dump()["keeps_cidrs"]
    n = len(feed.events)
    api.delete_many(resource="servicecidrs")
    api.clear(fault)
    feed.wait_for(lambda: not feed.dump()["keeps_cidrs"], "servicecidrs")
    feed.wait_for(lambda: len(feed.events) > n, "a change")


def test_may_list_and_not_watch(api, start):
    """403 for each watch: changes arrive with lists, as in client-go."""
    shop(api)
    api.fault("status", code=403, reason="Forbidden", resource="endpointslices", verb="watch")
    feed = start().wait_synced()
    api.put(slice_("new", "x"))
    feed.same_as(api)


@pytest.mark.parametrize("code", [404, 403])
def test_no_service_cidrs(api, start, code):
    """A server of an older release lacks the resource, or kube-proxy's role the permission: the
    state is complete without it."""
    shop(api)
    faults = [api.fault("status", code=code, resource="servicecidrs"),
              api.fault("status", code=code, path="v1beta1/servicecidrs")]
    feed = start(others_ms=600000).wait_synced()
    assert not feed.dump()["keeps_cidrs"]
    feed.read_again()
    assert api.wait(requests=4, match={"resource": "servicecidrs"})
    logged = feed.logged("servicecidrs")
    without = [line for line in logged if line.endswith("; continuing without it")]
    assert len(without) == 1 and "api: servicecidrs: %d " % code in without[0]
    assert len(logged) == 1 or code == 403  # which counts after the third answer
    status = feed.reflector("servicecidrs")
    assert not status["error"] and status["failures"] == 0
    for fault in faults:
        api.clear(fault)
    feed.wait_for(lambda: feed.reflector("servicecidrs")["state"] == "waiting", "the last answer")
    feed.read_again()
    feed.wait_for(lambda: feed.reflector("servicecidrs")["objects"] == 1, "servicecidrs")
    # Lost after it was listed: an error, its objects stay.
    api.fault("status", code=code, path="servicecidrs")
    api.end_watches(how="end", resource="servicecidrs")
    feed.wait_error("servicecidrs", str(code))
    assert feed.reflector("servicecidrs")["objects"] == 1


def test_json_when_protobuf_is_refused(api, start):
    shop(api).set(encodings=["json"])
    feed = start().wait_synced().same_as(api)
    assert {r["encoding"] for r in feed.status()["reflectors"].values()} == {"json"}


# ---- answers that stop or are wrong

@pytest.mark.parametrize("http2", [True, False])
@pytest.mark.parametrize("at", ["request", "headers", "object"])
def test_stall_of_a_list(api, start, http2, at):
    """No data on an open connection: the request is cancelled and retried."""
    shop(api).set(http2=http2, watchlist="invalid")
    api.fault("stall", resource="services", verb="list", at=at, count=1)
    feed = start(**{"head_ms" if at == "request" else "idle_ms": 2000}).wait_synced()
    feed.same_as(api)
    assert feed.wait_log("list services: no" if at == "request" else "list services: no data")


def test_stall_of_a_watch_list(api, start):
    shop(api)
    api.fault("stall", resource="services", verb="watchlist", at="object", count=1)
    feed = start(idle_ms=400).wait_synced()
    feed.same_as(api)
    feed.wait_log("watch services: no data")


@pytest.mark.parametrize("encoding", ["pb", "json"])
@pytest.mark.parametrize("verb", ["list", "watchlist", "watch"])
@pytest.mark.parametrize("kind", ["reset", "close", "truncate", "chunk", "garbage"])
def test_broken_answer(api, start, encoding, verb, kind):
    shop(api)
    if verb == "list":
        api.set(watchlist="invalid")
    at = {"list": 700, "watchlist": 700, "watch": 100}[verb]
    api.fault(kind, resource="services", verb=verb, at=at, count=2)
    feed = start(content_type=PB if encoding == "pb" else "application/json", idle_ms=300)
    feed.wait_synced()
    for i in range(3):
        api.put(service("s1", "10.96.1.1", port=100 + i))
        feed.same_as(api)
    feed.wait_healthy()
    feed.same_as(api)
    assert feed.take_changed()
    assert feed.reflector("services")["rejected"] == 0


@pytest.mark.parametrize("http2", [True, False])
def test_garbage_below_http(api, start, http2):
    shop(api).set(http2=http2)
    api.fault("garbage", resource="endpointslices", at=50, raw=True, count=2)
    feed = start(idle_ms=300).wait_synced(20)
    feed.same_as(api)


def test_garbage_as_protobuf_only(api, start):
    """A server with unreadable protobuf: JSON, after some attempts."""
    shop(api)
    api.fault("garbage", resource="services", encoding="pb", at=20)
    feed = start().wait_synced(20).same_as(api)
    feed.wait_log("api: services: malformed protobuf; requesting JSON")
    assert feed.reflector("services")["encoding"] == "json"
    assert feed.reflector("endpointslices")["encoding"] == "protobuf"


@pytest.mark.parametrize("watchlist", ["serve", "invalid"])
def test_foreign_answer(api, start, watchlist):
    """Status 200 from a login page is not an empty cluster."""
    shop(api).set(watchlist=watchlist)
    feed = start().wait_synced().same_as(api)
    feed.take_changed()
    html = api.fault("status", code=200, body="<html>log in</html>", type="text/html")
    api.compact()
    api.end_watches(how="error")
    feed.wait_error("services", "content type 'text/html' is neither protobuf nor JSON")
    api.clear(html)
    other = api.fault("status", code=200, body='{"kind":"PodList","metadata":{"resourceVersion":'
                      '"9"},"items":[]}', type="application/json")
    feed.wait_for(lambda: any(w in feed.reflector("services")["error"] for w in (
        "kind is 'PodList' instead of ServiceList", "not a watch event")), "the other list is rejected")
    api.clear(other)
    feed.wait_healthy()
    feed.same_as(api)
    assert feed.take_changed() == []


def test_wrong_content_type(api, start):
    shop(api)
    fault = api.fault("type", value="application/octet-stream", resource="endpointslices")
    feed = start()
    feed.wait_error("endpointslices", "application/octet-stream")
    api.clear(fault)
    feed.wait_synced().same_as(api)


@pytest.mark.parametrize("encoding", ["pb", "json"])
def test_byte_by_byte(api, start, encoding):
    shop(api, 3)
    api.fault("slow", rate=60000, piece=1, lasts=20)
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced(20).same_as(api)
    api.put(service("s1", "10.96.1.1", port=99))
    feed.same_as(api)


def test_injected_garbage_events(api, start):
    """Invalid events, in the middle of a working watch."""
    shop(api)
    feed = start().wait_synced().same_as(api)
    for i, event in enumerate((
            {"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1"}},
            {"type": "FUTURE", "object": {"kind": "Service", "apiVersion": "v1"}},
            {"type": "ERROR", "object": {"kind": "Service", "apiVersion": "v1"}})):
        api.wait(watches={"services": 1})
        assert api.inject(resource="services", event=event)["count"] == 1
        feed.wait_for(lambda n=i: feed.reflector("services")["watches"] >= 2 + n, "watch again")
        feed.wait_healthy()
        api.put(service("s%d" % i, "10.96.1.%d" % i, port=4000 + i))
        feed.same_as(api)


# ---- objects

def test_rejected_object(api, start):
    """The last good version stays; the object is logged once, and listed while it is invalid."""
    shop(api)
    feed = start().wait_synced().same_as(api)
    before = feed.dump()["services"]["shop/s1"]
    bad = service("s1", "10.96.1.1", port=70000)
    for i in range(3):
        bad["metadata"]["annotations"] = {"n": str(i)}
        api.put(bad, raw=True)
    api.put(service("s2", "10.96.1.2", port=81))
    feed.wait_for(lambda: feed.dump()["services"]["shop/s2"]["ports"][0][2] == 81, "the next")
    assert feed.dump()["services"]["shop/s1"] == before
    r = feed.reflector("services")
    assert r["rejected"] == 1 and r["remarks"] == [{
        "ns": "shop", "name": "s1", "rejected": True,
        "text": "spec.ports[0].port: 70000 is not a number from 1 to 65535"}]
    assert len(feed.logged("shop/s1")) == 1
    # A list must not remove it.
    api.compact()
    api.end_watches(how="error", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["lists"] == 2, "list")
    feed.wait_healthy()
    assert feed.dump()["services"]["shop/s1"] == before
    api.put(service("s1", "10.96.1.1", port=82))
    feed.same_as(api)
    assert feed.reflector("services")["rejected"] == 0


@pytest.mark.parametrize("encoding,size", [("pb", 5 << 20), ("json", 9 << 20)])
def test_huge_object(api, start, encoding, size):
    """An unreadable object does not affect others and is not removed."""
    shop(api)
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced().same_as(api)
    fault = api.fault("huge", resource="services", bytes=size, count=1)
    api.put(service("s1", "10.96.1.1", port=99))
    api.put(service("s2", "10.96.1.2", port=99))
    feed.wait_for(lambda: feed.dump()["services"]["shop/s2"]["ports"][0][2] == 99, "the next")
    assert feed.dump()["services"]["shop/s1"]["ports"][0][2] == 80
    assert feed.reflector("services")["remarks"][0]["name"] == "s1"
    assert feed.reflector("services")["lists"] == 1
    api.clear(fault)
    api.put(service("s1", "10.96.1.1", port=100))
    feed.same_as(api)
    assert feed.usage()["peak_kib"] < 96 * 1024


@pytest.mark.parametrize("encoding,size", [("pb", 5 << 20), ("json", 9 << 20)])
def test_huge_object_in_a_list(api, start, encoding, size):
    shop(api).set(watchlist="invalid")
    feed = start(content_type=PB if encoding == "pb" else "application/json")
    feed.wait_synced().same_as(api)
    api.fault("huge", resource="services", bytes=size, count=1)
    api.compact()
    api.end_watches(how="error", resource="services")
    feed.wait_for(lambda: feed.reflector("services")["rejected"] == 1, "rejected")
    feed.wait_healthy()
    feed.same_as(api)
    api.delete("services", "shop/s4")
    feed.same_as(api)


def test_odd_slices(api, start):
    """IN-34, EPS-01: ignored, and logged once."""
    feed = start().wait_synced()
    nameless = slice_("nameless", "x")
    nameless["metadata"]["labels"] = {}
    fqdn = slice_("fqdn", "x", [], addressType="FQDN")
    fqdn["endpoints"] = [{"addresses": ["example.org"]}]
    for i in range(3):
        for obj in (nameless, fqdn):
            obj["metadata"]["annotations"] = {"n": str(i)}
            api.put(obj)
    api.put(slice_("good", "x"))
    feed.wait_for(lambda: list(feed.dump()["slices"]) == ["shop/good"], "good one")
    assert len(feed.logged("nameless")) == 1
    assert len(feed.logged("fqdn")) == 1


# ---- the server itself

def page(i, token):
    return json.dumps({"apiVersion": "v1", "kind": "ServiceList", "items": [],
                       "metadata": {"resourceVersion": "7", "continue": token}})


@pytest.mark.parametrize("tokens", ["one", "ever new"])
def test_endless_pages(api, start, tokens):
    """An endless list: --kube-api-qps limits its pages; a repeated page is an error, and so is a
    list above the time limit."""
    shop(api).set(watchlist="invalid")
    faults = [api.fault("status", code=200, body=page(i, "t%d" % (0 if tokens == "one" else i)),
                        type="application/json", resource="services", verb="list", count=1)
              for i in range(60)]
    last = api.fault("status", code=200, body=page(61, "t0"), type="application/json",
                     resource="services", verb="list")
    feed = start(args=["--qps", "40", "--burst", "1"], list_ms=60000 if tokens == "one" else 500)
    if tokens == "one":
        feed.wait_error("services", "continue token repeats")
    else:
        feed.wait_error("services", "list incomplete at its time limit")
    asked = [r["time"] for r in api.requests(resource="services")]
    assert feed.synced_ms is None
    # all requests of all kinds share the rate: the pages among them keep to it
    assert asked[-1] - asked[0] >= (len(asked) - 2) / 40 * 0.9, asked
    for fault in faults + [last]:
        api.clear(fault)
    feed.wait_synced().same_as(api)


def test_page_that_waits(api, start):
    """The time limit of a list passes while its next page waits for --kube-api-qps."""
    shop(api).set(watchlist="invalid")
    api.fault("status", code=200, body=page(0, "t0"), type="application/json",
              resource="services", verb="list")
    start(args=["--qps", "1", "--burst", "1"], list_ms=500).wait_error(
        "services", "list incomplete at its time limit")


def test_pages_that_fail(api, start):
    """A list whose next page fails until its time limit begins again at its first page."""
    shop(api).set(watchlist="invalid")
    api.fault("status", code=200, body=page(0, "t0"), type="application/json",
              resource="services", verb="list", count=1)
    fault = api.fault("status", code=503, resource="services", verb="list")
    feed = start(list_ms=2000)

    def pages():
        return [r["query"].get("continue") for r in api.requests(resource="services")
                if r["verb"] == "list"]

    feed.wait_for(lambda: "t0" in pages() and pages()[-1] != "t0", "the first page again")
    api.clear(fault)
    feed.wait_synced().same_as(api)


@pytest.mark.parametrize("verb", ["list", "watchlist"])
def test_answer_without_end(api, start, verb):
    """Single bytes without an end: a list has a time limit."""
    shop(api).set(watchlist="invalid" if verb == "list" else "serve")
    fault = api.fault("slow", resource="services", verb=verb, rate=5)
    feed = start(list_ms=1000)
    feed.wait_error("services", "incomplete after")
    assert feed.synced_ms is None
    api.clear(fault)
    feed.wait_synced().same_as(api)


def test_refusal_without_end(api, start):
    """Only the first 64 KiB of an error answer are read."""
    shop(api)
    fault = api.fault("status", code=503, body="x" * (1 << 20), type="text/plain",
                      resource="services")
    feed = start()
    feed.wait_error("services", "status 503")
    assert api.clear(fault) is not False
    feed.wait_synced().same_as(api)


def test_restarted_server(api, start):
    """The server returns with another history: vipd lists, and the state is equal."""
    shop(api)
    feed = start().wait_synced().same_as(api)
    feed.take_changed()
    port = int(api.https.rsplit(":", 1)[1])
    api.stop()
    feed.wait_log("watch services: connection lost: ")
    feed.wait_error("services", "services: ")
    api.port = port
    api.start()
    shop(api)
    api.put(service("more", "10.96.5.5"))
    feed.wait_healthy(20)
    feed.same_as(api)


def test_not_there_yet(api, start):
    """The server does not run when vipd starts."""
    config = api.kubeconfig()
    api.listen(state="closed")
    feed = start(config=config)
    feed.wait_error("services", "connect")
    shop(api)
    api.listen(state="open")
    feed.wait_synced().same_as(api)


@pytest.mark.parametrize("state", ["silent", "full"])
def test_accepts_without_answer(api, start, state):
    shop(api)
    config = api.kubeconfig()
    api.listen(state=state)
    feed = start(config=config, connect_ms=2000)
    feed.wait_error("services", "watch services: ")
    api.listen(state="open")
    feed.wait_synced(20).same_as(api)


def test_wild_faults(api, start):
    """All failures at once, then complete recovery."""
    shop(api, 30)
    feeds = [start(idle_ms=2000, head_ms=2000), start(content_type="application/json", idle_ms=2000,
                                                      head_ms=2000)]
    for f in feeds:
        f.wait_synced()
    for kind in ("reset", "close", "truncate", "garbage", "chunk"):
        api.fault(kind, at="object", skip=3, count=5, lasts=4)
    api.fault("status", code=500, skip=2, count=5, lasts=4)
    api.fault("status", code=429, skip=5, count=3, lasts=4)
    task = api.churn(rate=200, seconds=4, wait=False)["task"]
    for _ in range(8):
        time.sleep(0.5)
        api.end_watches(how="error")
        api.compact()
    api.join(task=task)
    api.clear()
    for f in feeds:
        f.wait_healthy(20)
        f.same_as(api)


def test_many_services_in_trouble(api, start):
    """More rejected objects than are listed: counted, logged at a limited rate."""
    api.put(*services(200))
    feed = start().wait_synced()
    for i in range(200):
        api.put(service("s%d" % i, "10.96.1.1", port=70000), raw=True)
    feed.wait_for(lambda: feed.reflector("services")["rejected"] == 200, "rejected")
    assert len(feed.reflector("services")["remarks"]) == 64
    assert len(feed.dump()["services"]) == 200
    assert len(feed.logged("70000")) < 30
