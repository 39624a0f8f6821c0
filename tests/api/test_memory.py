# SPDX-License-Identifier: GPL-2.0-or-later
"""A list into a filled model needs no second copy of the model."""
import pytest

from test_watch import PB


@pytest.mark.parametrize("watchlist", ["serve", "invalid"])
@pytest.mark.parametrize("encoding", [PB, "application/json"], ids=["pb", "json"])
def test_relists_need_no_memory(api, start, watchlist, encoding):
    api.load(services=3000, endpoints=5, base=False)
    # With HTTP/2, libcurl 8 reads ahead: up to its window of 10 MiB of each stream.
    api.set(watchlist=watchlist, http2=False)
    feed = start(content_type=encoding, quiet=True, idle_ms=20000, head_ms=20000).wait_synced(30)
    feed.wait_healthy()
    first = feed.usage()

    def lists():
        return [feed.reflector(r)["lists"] for r in ("services", "endpointslices")]
    for _ in range(2):
        before = lists()
        api.compact()
        api.end_watches(how="error")
        feed.wait_for(lambda b=before: all(n > o for n, o in zip(lists(), b)), "lists", 30)
        feed.wait_healthy(30)
    last = feed.usage()
    # The first list decoded all objects, too: its peak is that of all later lists.
    assert last["peak_kib"] < 1.1 * first["peak_kib"] and last["heap_kib"] < 1.1 * first["heap_kib"]
    assert last["peak_kib"] < 1.3 * last["rss_kib"]
