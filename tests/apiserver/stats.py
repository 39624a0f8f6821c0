# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of requests, and counters."""
import collections
import time

KEPT = 20000


class Stats:
    """Records are dicts, returned unchanged by the control interface."""

    def __init__(self):
        self.requests = collections.deque(maxlen=KEPT)
        self.counts = collections.Counter()
        self.total = 0
        self.connections = 0
        self.tls_failures = 0
        self.bytes_in = 0       # of closed connections
        self.bytes_out = 0

    def begin(self, ex, route):
        request, conn = ex.request, ex.connection
        header = request.headers.get
        auth = header("authorization", "")
        record = {
            "id": ex.id, "time": time.monotonic(), "connection": conn.id, "method": request.method,
            "path": request.path, "query": request.query, "resource": route.resource,
            "verb": route.verb, "user_agent": header("user-agent", ""),
            "accept": header("accept", ""), "accept_encoding": header("accept-encoding", ""),
            "auth": "token" if auth.lower().startswith("bearer ") else
                    "certificate" if conn.peer_user else "other" if auth else "none",
            "token": auth[7:].strip() if auth.lower().startswith("bearer ") else None,
            "user": None, "encoding": None, "http": request.version, "tls": conn.tls,
            "status": None, "bytes": 0, "seconds": None, "ended": None}
        self.total += 1
        self.requests.append(record)
        return record

    def end(self, record, ex):
        record["status"] = ex.status
        record["bytes"] = ex.sent
        record["ended"] = ex.ended
        record["seconds"] = time.monotonic() - record["time"]
        self.counts["%s %s %s" % (record["verb"], record["resource"] or record["path"],
                                  ex.status)] += 1

    def clear(self):
        self.requests.clear()
        self.counts.clear()
        self.total = 0


def matches(record, wanted):
    """Whether a record has all required values; `query` is compared key by key."""
    for key, value in wanted.items():
        if key == "query":
            if any(record["query"].get(k) != v for k, v in value.items()):
                return False
        elif record.get(key) != value:
            return False
    return True
