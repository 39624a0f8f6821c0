# SPDX-License-Identifier: GPL-2.0-or-later
"""deploy/grafana and deploy/monitoring: promtool accepts the rules, they fire when they should,
and no panel or rule uses a metric that vipd does not export. The metrics are read from a running
vipd, with a folder and with an API server as source.
"""
import glob
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("VIPD_BUILD", os.path.join(ROOT, "build"))
MONITORING = os.path.join(ROOT, "deploy", "monitoring")
# Of prometheusrule.yaml, by the build.
RULES = os.path.join(BUILD, "deploy", "vipd-rules.yaml")
CASES = os.path.join(MONITORING, "rules-test.yaml")
DOCUMENTS = "file:///usr/share/doc/vipd/"
BOARD = os.path.join(ROOT, "deploy", "grafana", "vipd.json")
VIPD = os.path.join(BUILD, "vipd")

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "tests")]

import kustomize  # noqa: E402
from apiserver.client import Server  # noqa: E402

# Labels that Prometheus adds to each sample, those that its operator adds for a PodMonitor, and Prometheus' own metrics.
ADDED = {"job", "instance"}
OF_POD = {"namespace": "kube-system", "pod": "vipd-abcde", "container": "vipd", "endpoint": "metrics"}
ITS_OWN = {"up": {}}

WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*\"((?:[^\"\\]|\\.)*)\"")
CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
KEYWORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left",
            "group_right", "inf", "nan"}


def parse(expr):
    """[(metric, [(label, operator, value)])] and the labels of its by() and on()."""
    clauses = {name.strip() for inner in CLAUSE.findall(expr) for name in inner.split(",")
               if name.strip()}
    text = CLAUSE.sub(" ", expr)
    found = []
    at = 0
    while at < len(text):
        if text[at] == "[":     # a range
            at = text.index("]", at) + 1
            continue
        m = WORD.match(text, at)
        if m is None or (at > 0 and text[at - 1].isdigit()):
            at += 1
            continue
        at = m.end()
        rest = text[at:].lstrip()
        if rest.startswith("(") or m[0].lower() in KEYWORDS:
            continue
        matchers = []
        if rest.startswith("{"):
            at = text.index("{", at)
            end = text.index("}", at)
            matchers = MATCHER.findall(text[at:end])
            at = end + 1
        found.append((m[0], matchers))
    return found, clauses


def test_parse():
    """The reader of expressions reads."""
    assert parse('histogram_quantile(0.9, sum by (le, x) (rate(a_bucket{b="c", d=~"e|f"}[5m]))) > '
                 '1e3 and on (i) z') == ([("a_bucket", [("b", "=", "c"), ("d", "=~", "e|f")]),
                                          ("z", [])], {"le", "x", "i"})


def rules():
    with open(RULES, encoding="utf-8") as f:
        return [r for g in yaml.safe_load(f)["groups"] for r in g["rules"]]


def panels():
    with open(BOARD, encoding="utf-8") as f:
        return json.load(f)


def expressions():
    """[(where, expression, legend)] of all rules and panels, variables and annotations."""
    board = panels()
    out = [(r["alert"], r["expr"], " ".join(r["annotations"].values())) for r in rules()]
    for p in board["panels"]:
        out += [(p["title"], t["expr"], t["legendFormat"]) for t in p.get("targets", ())]
    for v in board["templating"]["list"]:
        if v["type"] == "query":
            m = re.fullmatch(r"label_values\((.*), (\w+)\)", v["query"]["query"])
            out.append((v["name"], m[1], "{{%s}}" % m[2]))
    out += [(a["name"], a["expr"], a["textFormat"]) for a in board["annotations"]["list"]]
    return out


# ---- a running vipd ----

@pytest.fixture(scope="module")
def netns():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name = "vipd-observe-%d" % os.getpid()
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def scrape(netns):
    code = "import http.client as h; c = h.HTTPConnection('127.0.0.1', 10249, timeout=60); " \
        "c.request('GET', '/metrics'); print(c.getresponse().read().decode())"
    r = subprocess.run(["ip", "netns", "exec", netns, sys.executable, "-c", code],
                       capture_output=True, text=True, check=False)
    return r.stdout


def told_by(netns, tmp_path, *flags):
    """/metrics of a vipd with these flags, once it is in service."""
    with open(tmp_path / "log", "ab") as log:
        p = subprocess.Popen(["ip", "netns", "exec", netns, VIPD, "--hostname-override", "n1",
                              "--control-socket", str(tmp_path / "control.sock"), *flags],
                             stdout=log, stderr=log)
    try:
        end = time.monotonic() + 60
        while True:
            text = scrape(netns)
            if "vipd_in_service 1\n" in text:
                return text
            assert p.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()
            time.sleep(0.05)
    finally:
        p.terminate()
        p.wait(60)


def flags_for_more():
    """Flags of this vipd that add metrics."""
    known = subprocess.run([VIPD, "--help"], capture_output=True, text=True, check=True).stdout
    return [f for f in ("--dead-flows=reset", "--metrics-per-service=endpoint")
            if re.search(r"^  %s\b" % f.split("=")[0], known, re.M)]


@pytest.fixture(scope="module")
def report(netns, tmp_path_factory):
    """{metric: {label: values}} of all metrics of vipd, with any source."""
    tmp_path = tmp_path_factory.mktemp("observe")
    text = told_by(netns, tmp_path, "--manifests", os.path.join(ROOT, "examples"),
                   *flags_for_more())
    with Server(netns=netns) as server:
        server.load(services=2, endpoints=2)
        text += told_by(netns, tmp_path, "--kubeconfig", server.kubeconfig())
    out = {}
    for line in text.splitlines():
        m = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line)
        if m and not line.startswith("#"):
            labels = out.setdefault(m[1], {})
            for name, _, value in MATCHER.findall(m[2] or ""):
                labels.setdefault(name, set()).add(value)
    return out


# ---- the tests ----

@pytest.mark.parametrize("args", (["check", "rules", "vipd-rules.yaml"], ["test", "rules", "rules-test.yaml"]),
                         ids=("check", "test"))
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool(args, tmp_path):
    for path in RULES, CASES:
        shutil.copy(path, tmp_path)
    r = subprocess.run(["promtool", *args], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr


def objects(folder):
    """{kind: object} that `kubectl apply -k FOLDER` makes."""
    return {o["kind"]: o for o in kustomize.build(folder).values()}


def stored(labels):
    """`labels` of vipd's samples, as a Prometheus of the operator names them: without honorLabels those of OF_POD differ."""
    (monitor,) = kustomize.read(os.path.join(MONITORING, "podmonitor.yaml"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    renamed = () if endpoint.get("honorLabels") else OF_POD
    return {"exported_" + name if name in renamed else name: values for name, values in labels.items()}


def test_operator_objects():
    """The rules of the operator are those that promtool tests. The monitor selects the DaemonSet's pods and names one of
    their ports."""
    made, pods = objects(MONITORING), objects(os.path.join(ROOT, "deploy"))["DaemonSet"]["spec"]["template"]
    assert set(made) == {"PodMonitor", "PrometheusRule"}
    assert {o["apiVersion"] for o in made.values()} == {"monitoring.coreos.com/v1"}
    with open(RULES, encoding="utf-8") as f:
        assert yaml.safe_load(f) == made["PrometheusRule"]["spec"]
    monitor = made["PodMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    (endpoint,) = monitor["podMetricsEndpoints"]
    ports = {p["name"]: p["containerPort"] for p in pods["spec"]["containers"][0]["ports"]}
    assert ports == {"metrics": 10249, "healthz": 10256} and endpoint["port"] in ports


def test_panels_of_kubernetes_mixin(report):
    """deploy/README.md says which of them work: their metrics exist, those of the others do not."""
    with open(os.path.join(ROOT, "deploy", "README.md"), encoding="utf-8") as f:
        table = f.read().split("| panel of kubernetes-mixin |")[1].split("\n\n")[0]
    found = [(m[1] == "works", m[2]) for m in re.finditer(r"\| (works|empty)\b.*\| `(\w+)` \|$", table, re.M)]
    assert len(found) == len(table.splitlines()) - 2
    for works, metric in found:
        assert (metric in report or metric in ITS_OWN) == works, metric


def test_no_job_has_a_fixed_name():
    for where, expr, _ in expressions():
        for metric, matchers in parse(expr)[0]:
            assert not [m for m in matchers if m[0] == "job" and "$" not in m[2]], (where, metric)


def test_alerts_are_about_vipd():
    """kube-proxy, and any program, has the other metrics, too."""
    for r in rules():
        metrics = [metric for metric, _ in parse(r["expr"])[0]]
        assert any(metric.startswith("vipd_") for metric in metrics), (r["alert"], metrics)


def test_every_alert_has_its_cases():
    """Each rule has a case in which it fires, and one in which it does not."""
    with open(CASES, encoding="utf-8") as f:
        tests = [t for case in yaml.safe_load(f)["tests"] for t in case["alert_rule_test"]]
    for name in (r["alert"] for r in rules()):
        fires = [bool(t.get("exp_alerts")) for t in tests if t["alertname"] == name]
        assert set(fires) == {False, True}, name


def test_every_alert_has_advice():
    for r in rules():
        assert r["labels"]["severity"] in ("page", "ticket")
        assert set(r["annotations"]) == {"summary", "description", "runbook_url"}
        url, _, anchor = r["annotations"]["runbook_url"].partition("#")
        assert url.startswith(DOCUMENTS)
        with open(os.path.join(ROOT, "doc", url[len(DOCUMENTS):]), encoding="utf-8") as f:
            heads = re.findall(r"^##+ (.*)$", f.read(), re.M)
        anchors = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in heads}
        assert anchor in anchors, "%s: %s is not in %s" % (r["alert"], anchor, sorted(anchors))


def test_queried_metrics_exist(report):
    """Metric, labels and exact values of labels: a running vipd exports all of them."""
    bad = []
    for where, expr, legend in expressions():
        metrics, clauses = parse(expr)
        assert metrics, "%s: no metric in %s" % (where, expr)
        labels = set(ADDED)
        for metric, matchers in metrics:
            if metric not in report and metric not in ITS_OWN:
                bad.append("%s: there is no %s" % (where, metric))
                continue
            has = stored(report.get(metric, {}))
            labels |= set(has)
            for name, op, value in matchers:
                if name not in has and name not in ADDED:
                    bad.append("%s: %s has no label %s" % (where, metric, name))
                elif op == "=" and name in has and value not in has[name]:
                    bad.append("%s: %s is never %s" % (where, name, value))
                elif op == "=~" and name in has and not any(re.fullmatch(value, v)
                                                            for v in has[name]):
                    bad.append("%s: %s is never %s" % (where, name, value))
        shown = set(re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", legend))
        bad += ["%s: no metric has the label %s" % (where, n) for n in (clauses | shown) - labels
                if n != "le"]
    assert not bad, "\n".join(bad)


def test_wrong_names_are_found(report):
    """The test above can fail: for a metric, a label, a value."""
    for expr in ("vipd_no_such", 'vipd_log_lines_total{lvl="error"}'):
        (metric, matchers), = parse(expr)[0]
        assert metric not in report or matchers[0][0] not in report[metric]
    assert "fatal" not in report["vipd_log_lines_total"]["level"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_load_imbalance_is_over_all_nodes(tmp_path):
    """Clients of each node have another endpoint; each endpoint has equally many connections. TCP and UDP are separate.
    promtool compares exactly: half a rate is exact, other parts of it are not."""
    (expr,) = [t["expr"] for p in panels()["panels"] for t in p.get("targets", ()) if p["title"] == "Load imbalance"]
    for variable, value in {"$job": "vipd", "$instance": "n.", "$__rate_interval": "5m"}.items():
        expr = expr.replace(variable, value)
    labels = 'namespace="shop",service="web",port="x",protocol="%s",ip_family="IPv4"'

    def of_node(node, protocol, endpoint):
        """The target of the PodMonitor."""
        of_vipd = dict(re.findall(r'(\w+)="(.*?)"', labels % protocol), endpoint=endpoint)
        every = {"job": "vipd", "instance": node, **OF_POD, **stored(of_vipd)}
        return "vipd_endpoint_connections_total{%s}" % ",".join('%s="%s"' % label for label in every.items())
    series = [{"series": of_node(node, protocol, endpoint), "values": "0+%dx20" % per_minute}
              for node, endpoint, protocol, per_minute in [
                  ("n1", "a", "TCP", 60), ("n1", "b", "TCP", 0), ("n2", "a", "TCP", 0), ("n2", "b", "TCP", 60),
                  ("n1", "a", "UDP", 600), ("n1", "b", "UDP", 0)]]
    found = [{"labels": "{%s}" % (labels % "TCP"), "value": 1}, {"labels": "{%s}" % (labels % "UDP"), "value": 2}]
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [{
        "interval": "1m", "input_series": series,
        "promql_expr_test": [{"expr": expr, "eval_time": "15m", "exp_samples": found}]}]}))
    r = subprocess.run(["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert r.returncode == 0, r.stdout + r.stderr


def test_board_is_sound():
    """Requirements of Grafana: unique ids, a data source by variable, panels that do not
    overlap."""
    board = panels()
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids) and board["uid"] == "vipd"
    taken = set()
    for p in board["panels"]:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"])
                 for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & taken, p["title"]
        taken |= cells
        for t in p.get("targets", ()):
            assert t["datasource"]["uid"] == "${datasource}"
            assert t["expr"].count("$instance") >= 1 and t["expr"].count("(") == t["expr"].count(")")
    names = {v["name"] for v in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board))) - {"labels"}
    assert used <= names, used - names
    assert glob.glob(os.path.join(ROOT, "deploy", "grafana", "*.json")) == [BOARD]
