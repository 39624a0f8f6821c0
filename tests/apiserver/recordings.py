# SPDX-License-Identifier: GPL-2.0-or-later
"""Parser for the recorded responses of a real server, tests/data/apiserver-1.36."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT_DIR = os.path.join(os.path.dirname(HERE), "data", "apiserver-1.36")


class Recording:
    """One recorded response.

    raw      all of it        head    the status line and headers, with the empty line
    status   e.g. 200         headers list of (name, value)
    body     without the chunk framing
    chunks   the chunks of the body; one element if it was not chunked
    ended    whether the response is complete
    """

    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        self.path = path
        head, rest = self.raw.split(b"\r\n\r\n", 1)
        self.head = head + b"\r\n\r\n"
        lines = head.decode().split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        self.chunked = self.header("Transfer-Encoding") == "chunked"
        if self.chunked:
            self.chunks, self.ended = dechunk(rest)
        else:
            self.chunks = [rest]
            self.ended = len(rest) == int(self.header("Content-Length"))
        self.body = b"".join(self.chunks)

    def header(self, name):
        for k, v in self.headers:
            if k.lower() == name.lower():
                return v
        return None


def dechunk(data):
    """Chunks of a chunked body, and whether the last one ends it."""
    chunks = []
    pos = 0
    while True:
        end = data.find(b"\r\n", pos)
        if end < 0:
            return chunks, False
        size = int(data[pos:end], 16)
        if size == 0:
            return chunks, True
        pos = end + 2
        if pos + size + 2 > len(data):
            return chunks, False
        chunks.append(data[pos:pos + size])
        pos += size + 2


def load(directory=DEFAULT_DIR):
    """All recordings of a folder by file name."""
    return {name: Recording(os.path.join(directory, name))
            for name in sorted(os.listdir(directory)) if name.endswith((".http", ".pb"))}
