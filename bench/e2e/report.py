# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of bench/e2e as a table and a plot, and the machine."""
import math
import os
import platform
import statistics
import time

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def machine():
    """Processor, kernel and load, on which the figures depend."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        models = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {"cpu": models[0] if models else platform.machine(), "cpus": os.cpu_count(),
            "kernel": platform.release(), "load": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def spread(values, unit=1.0, digits=0):
    """Median (smallest-largest)."""
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    return "%.*f (%.*f-%.*f)" % (digits, statistics.median(values) / unit, digits,
                                 min(values) / unit, digits, max(values) / unit)


def number(value):
    return "-" if value is None else "%d" % value


ROWS = (
    ("start: exec to in force, s", lambda r: spread([s["ready"] for s in r["start"]], 1, 2)),
    ("  after the server's last byte, s", lambda r: spread([s["after"] for s in r["start"]], 1, 2)),
    ("  CPU time, s", lambda r: spread([s["cpu"] for s in r["start"]], 1, 2)),
    ("  waiting for a processor, s", lambda r: spread([s["queued"] for s in r["start"]], 1, 2)),
    ("resident / peak, MB", lambda r: "%.1f / %.1f" % (r["resident"], r["peak"])),
    ("change: p50 / p99 / max, ms", lambda r: "%.2f / %.2f / %.2f" % tuple(
        quantile(r["change"], q) * 1e3 for q in (0.5, 0.99, 1))),
    ("  quarter / three quarters, ms", lambda r: "%.2f / %.2f" % tuple(
        quantile(r["change"], q) * 1e3 for q in (0.25, 0.75))),
    ("  path alone: p50 / p99, ms", lambda r: "%.2f / %.2f" % tuple(
        quantile(r["path"], q) * 1e3 for q in (0.5, 0.99))),
    ("  event to ack: mean / max, us", lambda r: "-" if r["ack"] is None else "%d / %d" % (
        r["ack"]["mean_us"], r["ack"]["max_us"])),
    ("  failed connections", lambda r: "%d of %d" % tuple(r["change_failed"])),
    ("burst after its last event, ms", lambda r: spread(r["burst"], 1e-3, 1)),
    ("  CPU time of a burst, ms", lambda r: "%.0f" % (r["burst_cpu"] * 1e3)),
    ("  failed connections", lambda r: "%d of %d" % tuple(r["burst_failed"])),
    ("restart: exec to in force, s", lambda r: "%.2f" % r["restart"]),
    ("  kernel operations / commits", lambda r: "%s / %s" % (number(r["writes"]),
                                                             number(r["commits"]))),
    ("  failed connections", lambda r: "%d of %d" % tuple(r["restart_failed"])),
    ("restart, changed: exec to new endpoint, s", lambda r: "%.2f" % r["changed"]),
    ("  after the server's last byte, s", lambda r: spread([r["changed_after"]], 1, 2)),
    ("change during adoption, ms", lambda r: spread([r["adoption"]], 1e-3, 1)),
    ("  failed connections", lambda r: "%d of %d" % tuple(r["changed_failed"])),
)


def table(results):
    """One column a result."""
    lines = ["%-42s" % "services x endpoints" + "".join("%-24s" % r["size"] for r in results),
             "%-42s" % "" + "".join("%-24s" % r["proxy"] for r in results)]
    return lines + ["%-42s" % name + "".join("%-24s" % text(r) for r in results)
                    for name, text in ROWS]


def plot(results, about):
    """SVG: p50 and p99 of a change by number of services, both logarithmic."""
    points = {}
    for r in results:
        for label, q, dash in (("p50", 0.5, ""), ("p99", 0.99, "5 4")):
            points.setdefault((r["proxy"], label, dash), []).append(
                (int(r["size"].split("x")[0]), quantile(r["change"], q) * 1e3))
    xs = [x for line in points.values() for x, _ in line]
    ys = [y for line in points.values() for _, y in line]
    x0, x1 = math.log10(min(xs)), math.log10(max(xs)) + 1e-9
    y0, y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)) + 1e-9)

    def at(x, y):
        return (70 + 500 * (math.log10(x) - x0) / (x1 - x0),
                330 - 280 * (math.log10(y) - y0) / (y1 - y0))

    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="760" height="400" '
           'font-family="sans-serif" font-size="12">',
           '<text x="70" y="24">Change: last byte of the event to first connection, ms</text>']
    for power in range(y0, y1 + 1):
        y = at(min(xs), 10.0 ** power)[1]
        out.append('<path d="M70 %.0fH570" stroke="#ccc"/><text x="8" y="%.0f">%g</text>' % (
            y, y + 4, 10.0 ** power))
    for x in sorted(set(xs)):
        out.append('<text x="%.0f" y="350">%d</text>' % (at(x, 10.0 ** y0)[0] - 15, x))
    names = sorted({key[0] for key in points})
    for i, ((proxy, label, dash), line) in enumerate(points.items()):
        colour = COLOURS[names.index(proxy) % len(COLOURS)]
        path = "L".join("%.1f %.1f" % at(x, y) for x, y in sorted(line))
        out.append('<path d="M%s" fill="none" stroke="%s" stroke-dasharray="%s"/>' % (
            path, colour, dash))
        out += ['<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>' % (at(x, y) + (colour,))
                for x, y in line]
        out.append('<text x="590" y="%d" fill="%s">%s %s</text>' % (50 + 18 * i, colour, proxy,
                                                                    label))
    out.append('<text x="70" y="385">services; %s</text></svg>' % ", ".join(
        "%s %s" % (k, round(v, 1) if k == "load" else v) for k, v in about.items()))
    return "\n".join(out) + "\n"
