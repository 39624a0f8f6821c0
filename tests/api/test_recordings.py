# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of a real server (tests/data/apiserver-1.36), sent again: heads, chunk framing and
bodies cut at every byte, over both versions of HTTP."""
import json

import pytest

from apiserver import recordings
from feed import _service, _slice

PB = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
RECORDED = recordings.load()
# Writes of this many bytes, shifted this many times: one ends at every byte.
PIECE = 8
# After two failed watch-lists vipd requests lists (reflector.c).
LISTS = {"services/watchlist": "services-watch-timeout.http",
         "endpointslices/watchlist": "endpointslices-watch-gone.http",
         "nodes/watchlist": "endpointslices-watch-gone.http",
         "servicecidrs/watchlist": "endpointslices-watch-gone.http"}


def key(obj):
    return "%s/%s" % (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def events(name):
    """Events of a recorded watch, as far as they are complete."""
    for line in RECORDED[name].body.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield json.loads(line)


def watched(held, name):
    """Objects after a recorded watch."""
    for e in events(name):
        if e["type"] in ("ADDED", "MODIFIED"):
            held[key(e["object"])] = e["object"]
        elif e["type"] == "DELETED":
            del held[key(e["object"])]
    return held


def listed(name):
    return {key(o): o for o in json.loads(RECORDED[name].body)["items"] or []}


def model(services, slices):
    """The recordings were made without vipd's selectors: they contain the headless service."""
    return {"services": {k: dict(_service(o), ips=[i for i in _service(o)["ips"] if i != "None"])
                         for k, o in services.items()},
            "slices": {k: _slice(o) for k, o in slices.items()}}


def want(way):
    """Always by JSON: the protobuf recording has equal objects (tests/unit/test_proto.c)."""
    if way == "watch-lists":
        return model(watched({}, "services-watchlist.http"),
                     watched({}, "endpointslices-watchlist.http"))
    cidrs = listed("servicecidrs-list.http").values()
    return dict(model(watched(listed("services-list.http"), "services-watch.http"),
                      watched(listed("endpointslices-list.http"), "endpointslices-watch.http")),
                cidrs=[c for o in cidrs for c in o["spec"]["cidrs"]])


@pytest.mark.parametrize("http2", [True, False], ids=["http2", "http1"])
@pytest.mark.parametrize("way,encoding", [("watch-lists", JSON), ("lists", JSON), ("lists", PB)],
                         ids=["watch-lists", "lists-json", "lists-protobuf"])
def test_cut_at_every_byte(api, start, way, encoding, http2):
    api.set(http2=http2)
    expected = want(way)
    assert len(expected["services"]) > 3 and expected["slices"]
    longest = max(len(r.raw) for r in RECORDED.values())
    for shift in range(PIECE):
        api.replay(directory=recordings.DEFAULT_DIR, map={} if way == "watch-lists" else LISTS,
                   split=list(range(shift, longest, PIECE)), pause=0, end="hold")
        feed = start(content_type=encoding, args=["--qps", "-1"], backoff_min_ms=5,
                     backoff_max_ms=20)
        feed.wait_synced()
        have = {}

        def same():
            dump = feed.dump()
            have.update({k: dump[k] for k in expected})
            return have == expected
        try:
            feed.wait_for(same, "the recorded objects")
        except AssertionError:
            assert have == expected, "shift %d" % shift
            raise
        report = {n: r["encoding"] for n, r in feed.status()["reflectors"].items()}
        if encoding == PB:
            assert report["endpointslices"] == "protobuf"
        if way == "lists":
            assert feed.dump()["node"]["name"] == "n1"
        feed.close()


REFUSALS = (("services-list-unauthorized.http", "401 Unauthorized"),
            ("secrets-list-forbidden.http", "403 Forbidden"),
            ("services-list-continue-expired.http", "410 Expired"))


@pytest.mark.parametrize("name,words", REFUSALS, ids=[n for _, n in REFUSALS])
def test_refused_at_every_byte(api, start, name, words):
    """An error answer is logged with verb, resource and the server's text, however it is cut."""
    api.set(http2=False)
    maps = {"services/" + verb: name for verb in ("list", "watchlist")}
    message = json.loads(RECORDED[name].body)["message"][:100]
    feed = start(content_type=JSON, args=["--qps", "-1"], backoff_min_ms=1, backoff_max_ms=5)
    feed.wait_healthy()
    for shift in range(PIECE):
        before = feed.reflector("services")["failures"]
        api.replay(directory=recordings.DEFAULT_DIR, map=maps, pause=0,
                   split=list(range(shift, len(RECORDED[name].raw), PIECE)))
        if shift == 0:
            api.compact()
            api.end_watches(how="error")
        feed.wait_error("services", " services: " + words, message)
        feed.wait_for(lambda: feed.reflector("services")["failures"] > before, "again")
    api.replay(off=True)
    feed.wait_healthy()
