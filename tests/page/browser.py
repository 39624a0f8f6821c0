# SPDX-License-Identifier: GPL-2.0-or-later
"""A headless Chromium, controlled through two pipes (--remote-debugging-pipe).

Needs no port and no client library: the DevTools protocol is JSON messages, each with a zero byte
at its end, on descriptors 3 and 4 of the browser.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAM = "chromium"
FLAGS = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
         "--disable-dev-shm-usage", "--no-first-run", "--no-default-browser-check",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-extensions", "--disable-default-apps", "--disable-breakpad", "--mute-audio",
         "--hide-scrollbars", "--force-device-scale-factor=1", "--font-render-hinting=none",
         "--no-proxy-server")


def missing():
    """The reason why no browser can run: a sentence, or None."""
    return None if shutil.which(PROGRAM) else "the program chromium (Debian's package) is missing"


class Navigated(AssertionError):
    """The page of a command was replaced before its answer."""


class Browser:
    """A browser with one page, in the network namespace `ns` (lab.Ns)."""

    def __init__(self, ns, width=1280, height=800):
        self.dir = tempfile.mkdtemp(prefix="vipdt-chromium-")
        self.events = []
        self.id = 0
        self.size = (width, height)
        ours_out, its_in = os.pipe()[::-1]
        its_out, ours_in = os.pipe()[::-1]
        self.out, self.inp, self.buf = ours_out, ours_in, b""
        command = "exec %s %s --user-data-dir=%s about:blank 3<&%d 4>&%d" % (
            PROGRAM, " ".join(FLAGS), self.dir, its_in, its_out)
        with ns.entered():
            self.proc = subprocess.Popen(
                ["bash", "-c", command], pass_fds=(its_in, its_out), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                env=dict(os.environ, HOME=self.dir, DBUS_SESSION_BUS_ADDRESS="/dev/null"))
        os.close(its_in)
        os.close(its_out)
        self.session = None
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self):
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=pages[0]["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(*self.size)

    def close(self):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        for fd in (self.out, self.inp):
            os.close(fd)
        # Its children write into the folder until their pipes close.
        for _ in range(50):
            shutil.rmtree(self.dir, ignore_errors=True)
            if not os.path.exists(self.dir):
                break
            time.sleep(0.02)

    # ---- the protocol ----

    def _read(self, end):
        while b"\0" not in self.buf:
            ready, _, _ = select.select([self.inp], [], [], max(0, end - time.monotonic()))
            data = os.read(self.inp, 1 << 20) if ready else None
            if not data:
                raise AssertionError("the browser %s" % ("does not answer" if data is None
                                                         else "ended"))
            self.buf += data
        text, self.buf = self.buf.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, timeout=60, **params):
        """Result of a DevTools command."""
        self.id += 1
        message = {"id": self.id, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + timeout
        while True:
            report = self._read(end)
            if report.get("id") == self.id:
                if "navigated" in report.get("error", {}).get("message", ""):
                    raise Navigated(message["params"])
                if "error" in report:
                    raise AssertionError("%s: %s" % (method, report["error"]["message"]))
                return report["result"]
            if "method" in report:
                self.events.append(report)

    # ---- the page ----

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        """Emulate the system setting `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": name},
                            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def js(self, expression):
        """Value of an expression, or of its promise."""
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                      awaitPromise=True)
        if "exceptionDetails" in r:
            raise AssertionError("%s: %s" % (expression, r["exceptionDetails"]))
        return r["result"].get("value")

    def wait(self, expression, timeout=10):
        """Wait until the expression is true. The limit only ends a test that hangs."""
        end = time.monotonic() + max(timeout, 60)
        while True:
            try:
                if self.js("!!(%s)" % expression):
                    return
            except Navigated:  # the page was loaded again meanwhile
                pass
            if time.monotonic() > end:
                raise AssertionError("never true: %s\n%s" % (
                    expression, self.js("document.body && document.body.innerText")))
            time.sleep(0.02)

    def type(self, selector, text):
        self.js("document.querySelector(%s).focus()" % json.dumps(selector))
        self.js("document.querySelector(%s).select()" % json.dumps(selector))
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """Click the centre of the element with the mouse; again, when the page moved it meanwhile."""
        for _ in range(20):
            if self._click(json.dumps(selector)):
                return
        raise AssertionError("%s cannot be clicked" % selector)

    def _click(self, selector):
        """Did the click hit an element of this selector (quoted)?"""
        x, y = self.js("(() => { const e = document.querySelector(%s); e.scrollIntoView("
                       "{block: 'center'}); const b = e.getBoundingClientRect(); window.hit = false; "
                       "document.addEventListener('click', (c) => { window.hit = c.target.closest(%s) "
                       "!== null; }, { once: true, capture: true }); "
                       "return [b.x + b.width / 2, b.y + b.height / 2]; })()" % (selector, selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left",
                      clickCount=1)
        try:
            return self.js("window.hit !== false")
        except Navigated:
            return True

    def key(self, text):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=text, text=text)

    def screenshot(self):
        """The visible part of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def complaints(self):
        """Console and network errors, exceptions, CSP violations."""
        self.js("0")
        out = []
        for e in self.events:
            p = e["params"]
            if e["method"] == "Runtime.exceptionThrown":
                out.append(p["exceptionDetails"].get("exception", {}).get("description")
                           or p["exceptionDetails"]["text"])
            elif e["method"] == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                out.append("%s %s" % (p["entry"]["text"], p["entry"].get("url", "")))
            elif e["method"] == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning",
                                                                             "assert"):
                out.append(str([a.get("value") for a in p["args"]]))
        return out

    def requests(self):
        """[(URL, status)] of all requests, in the order of the responses."""
        return [(e["params"]["response"]["url"], e["params"]["response"]["status"])
                for e in self.events if e["method"] == "Network.responseReceived"]
