// SPDX-License-Identifier: GPL-2.0-or-later
//
// page - the status page: polls the API of vipd and displays the answers.
//
//     every PERIOD_MS ── /v1/status ── 304: advance the ages, no further request
//                                  └── 200: /v1/history, /v1/doctor, and the displayed list or service
//
// The fragment of the URL selects the view: "#q=web&state=ok" or "#service=shop/web".
// All text from vipd is inserted as text nodes, never with innerHTML.
"use strict";

const PERIOD_MS = 2000; // pause between polls, at least PATIENCE times the duration of a poll
const PATIENCE = 5;
const TYPING_MS = 150;
const LIMIT = 100;           // services a page
const ENDPOINTS_SHOWN = 250; // of a port, before "show all"
const ATTENTION = "dropping,no-endpoints,conflict,pending,rejected";
const ALL = "all";
// States with a heading in troubleshooting.html.
const HELP = ["no-endpoints", "dropping", "conflict", "pending", "rejected", "no-service"];
const SIGNS = {
	"ok": "●", "dropping": "◐", "no-endpoints": "✕", "conflict": "⇄", "pending": "◌",
	"rejected": "▲", "not-proxied": "–", "no-service": "?",
};

const byId = (id) => document.getElementById(id);

// ---- texts ----

function fill(e, attrs, children) {
	for (const [key, value] of Object.entries(attrs || {}))
		if (value !== null && value !== undefined)
			e.setAttribute(key, value);
	for (const c of children.flat())
		if (c !== null && c !== undefined)
			e.append(c); // strings become text nodes
	return e;
}

function el(tag, attrs, ...children) {
	return fill(document.createElement(tag), attrs, children);
}

function svg(tag, attrs, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);
}

function count(n) {
	return String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function noun(n, one) {
	return n === 1 ? one : one + "s";
}

function plural(n, one) {
	return count(n) + " " + noun(n, one);
}

function short(us) {
	if (us < 1000)
		return us + " µs";
	if (us < 1e6)
		return (us / 1e3).toFixed(us < 1e4 ? 1 : 0) + " ms";
	return (us / 1e6).toFixed(1) + " s";
}

function age(ms) {
	const s = Math.floor(ms / 1000);

	if (s < 60)
		return s + " s";
	if (s < 3600)
		return Math.floor(s / 60) + " m " + (s % 60) + " s";
	if (s < 86400)
		return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " m";
	return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

function endpoint(address, port) {
	return (address.includes(":") ? "[" + address + "]" : address) + ":" + port;
}

// `text` with the colour of the state `name`, and its sign or another one.
function sign(name, text, other) {
	return el("span", { "class": "state s-" + name, "data-sign": other || SIGNS[name] || "?" }, text);
}

function state(name) {
	return sign(name, HELP.includes(name) ? el("a", {
		href: "/troubleshooting.html#" + name, title: "troubleshooting: " + name,
	}, name) : name);
}

function named(ns, name) {
	return [el("span", { "class": "ns" }, ns + "/"), name];
}

// ---- requests ----

const cache = new Map(); // path -> { tag, at, json }

// Return the answer to `path`; `fresh`: it differs from the cached one.
async function get(path) {
	const last = cache.get(path);
	const r = await fetch(path, {
		cache: "no-store", credentials: "omit",
		headers: last && last.tag ? { "If-None-Match": last.tag } : {},
	});

	if (r.status === 304 && last)
		return { json: last.json, at: last.at, fresh: false };
	const json = await r.json();
	if (!r.ok)
		return { error: json.error || { status: r.status, text: r.statusText } };
	for (const key of [...cache.keys()].slice(0, Math.max(0, cache.size - 8)))
		cache.delete(key); // the oldest
	const entry = { tag: r.headers.get("ETag"), at: performance.now(), json };
	cache.set(path, entry);
	return { json, at: entry.at, fresh: true };
}

// ---- view ----

const view = {
	q: "", state: "", sort: "", after: "", service: "",
	preset: null,  // default state filter, from the first status
	before: [],    // `after` of the previous pages; kept in the history of the browser
	all: new Set(), // ports with all endpoints shown
};
let shown = null; // path of the displayed list or service

function viewRead() {
	const p = new URLSearchParams(location.hash.slice(1));
	const after = view.after;

	for (const key of ["q", "state", "sort", "after", "service"])
		view[key] = p.get(key) || "";
	if (history.state || view.after !== after)
		view.before = (history.state && history.state.before) || [];
	if (document.activeElement !== byId("q"))
		byId("q").value = view.q;
	byId("overview").hidden = view.service !== "";
	byId("service").hidden = view.service === "";
}

function hashOf(change) {
	const p = new URLSearchParams();
	const next = {
		q: view.q, state: view.state, sort: view.sort, after: "", service: "", ...change,
	};

	for (const [key, value] of Object.entries(next))
		if (value !== "")
			p.set(key, value);
	return "#" + p.toString();
}

// A search without a state covers all states.
function stateFilter() {
	return view.state || (view.q === "" && view.preset) || ALL;
}

function pathOf() {
	const p = new URLSearchParams({ limit: LIMIT, sort: view.sort || "state" });

	if (view.service !== "")
		return "/v1/services/" + view.service.split("/").map(encodeURIComponent).join("/");
	if (stateFilter() !== ALL)
		p.set("state", stateFilter());
	for (const key of ["q", "after"])
		if (view[key] !== "")
			p.set(key, view[key]);
	return "/v1/services?" + p;
}

// ---- status ----

let status = null; // { json, at }
let failedSince = null; // time of the first failed poll, null after a success

function since(ms) {
	return age(ms + performance.now() - status.at);
}

function fact(label, value, small) {
	return value === null || value === "" ? null : el("div", {}, el("dt", {}, label),
		el("dd", {}, value, small ? el("small", {}, " " + small) : null));
}

function healthText(h) {
	if (h === null)
		return state("pending");
	const word = !h.live ? "not live" : h.ready ? "healthy" : "live, not ready";

	return sign(!h.live ? "rejected" : h.ready ? "ok" : "dropping", word);
}

function showNumbers(s) {
	const sync = s.sync;
	const last = sync && sync.last;
	const lat = sync && sync.event_to_ack;

	byId("numbers").replaceChildren(...[
		fact("health", healthText(s.health),
			s.health && s.health.reason ? s.health.reason : ""),
		fact("services", count(s.counts.services)),
		fact("endpoints", count(s.counts.endpoints)),
		fact("kernel", count(s.counts.frontends),
			noun(s.counts.frontends, "frontend") + ", " + plural(s.counts.backends, "backend")),
		s.draining ? fact("draining", count(s.draining.backends), noun(s.draining.backends, "backend")) : null,
		fact("pending", s.pending.services === 0 ? "none" : count(s.pending.services),
			s.pending.oldest_ms === null ? "" : "for " + since(s.pending.oldest_ms)),
		lat && lat.count > 0 ? fact("event to kernel", "≤ " + short(lat.p50_us),
			"50 %, ≤ " + short(lat.p99_us) + " 99 %") : null,
		last ? fact("last sync", short(last.took_us), plural(last.services, "service") + ", " +
			plural(last.writes, "write") + ", " + since(last.age_ms) + " ago") : null,
		sync ? fact("foreign changes", count(sync.foreign_changes),
			plural(sync.repairs, "repair")) : null,
	].filter((x) => x !== null));
}

// Kinds of problems, and the state of the services they concern.
const PROBLEM_STATES = { "conflicts": "conflict", "rejected": "rejected" };

function showProblems(s) {
	const items = s.problems.map((p) => el("li", {}, el("b", {}, PROBLEM_STATES[p.kind] ?
		el("a", { href: hashOf({ state: PROBLEM_STATES[p.kind] }) }, p.text) : p.text)));

	for (const e of s.source.errors.items)
		items.push(el("li", {}, el("span", { "class": "where" }, e.where), " " + e.text));
	for (const r of s.rejected.items)
		items.push(el("li", {}, el("a", {
			"class": "where", href: hashOf({ service: r.namespace + "/" + r.name }),
		}, r.namespace + "/" + r.name), " " + r.text));
	byId("problems").hidden = items.length === 0;
	byId("problems").replaceChildren(el("ul", {}, items));
}

const DOCTOR = { "error": ["rejected", "✕"], "warning": ["dropping", "!"] };
let doctor = null; // the last /v1/doctor

async function getDoctor() {
	const r = await get("/v1/doctor");

	doctor = r.json || null;
}

function showDoctor() {
	const found = doctor === null ? [] : doctor.results.filter((c) => DOCTOR[c.level]);

	byId("checks").className = found.some((c) => c.level === "error") ? "box" : "box soft";
	byId("checks").hidden = found.length === 0;
	byId("checks").replaceChildren(el("ul", {}, found.map((c) => el("li", {},
		sign(DOCTOR[c.level][0], c.check, DOCTOR[c.level][1]),
		" " + c.found, c.advice ? el("div", { "class": "advice" }, c.advice) : null))));
}

function chip(label, n, value) {
	const b = el("button", { type: "button", "aria-pressed": stateFilter() === value }, label,
		el("span", { "class": "n" }, count(n)));

	b.addEventListener("click", () => {
		location.hash = hashOf({ state: value });
	});
	return b;
}

function showChips(s) {
	const states = Object.entries(s.states);
	const total = states.reduce((sum, x) => sum + x[1], 0);
	const needs = ATTENTION.split(",").reduce((sum, x) => sum + s.states[x], 0);

	byId("chips").replaceChildren(
		chip("need attention", needs, ATTENTION), chip("all", total, ALL),
		...states.filter(([name, n]) => n > 0 || view.state === name)
			.map(([name, n]) => chip(sign(name, name), n, name)));
}

function showStatus() {
	const s = status.json;
	const bad = s.problems.length +
		(doctor === null ? 0 : doctor.results.filter((c) => c.level === "error").length);
	const word = sign(s.state === "running" ? "ok" : "pending", s.state);

	word.title = s.state_text;
	byId("node").textContent = (s.node.name || "(no name)") + (s.node.zone ? " · " + s.node.zone : "");
	byId("state").replaceChildren(word, bad === 0 ? "" : sign("dropping", plural(bad, "problem"), "!"));
	byId("facts").textContent = [s.source.text, s.plane, "vipd " + s.version,
		"up " + since(s.uptime_ms)].filter((x) => x).join("  ·  ");
	document.title = (bad > 0 ? "(!) " : "") + "vipd " + (s.node.name || "");
	showNumbers(s);
	showProblems(s);
	showDoctor();
	if (document.activeElement === null || !byId("chips").contains(document.activeElement))
		showChips(s);
}

function showLink() {
	const link = byId("link");

	link.className = failedSince === null ? "quiet" : "quiet lost";
	link.textContent = failedSince === null ? "live" :
		"no answer for " + age(performance.now() - failedSince);
}

// ---- plots ----

const PLOT = { left: 46, right: 4, top: 8, bottom: 16, height: 112, seconds: 300, roomy: 320 };
let seconds = []; // { t, ... }: t in seconds of performance.now()

function plotOpen(id) {
	const root = byId(id).querySelector("svg");
	const width = Math.max(200, root.clientWidth || root.getBoundingClientRect().width);

	root.setAttribute("viewBox", "0 0 " + width + " " + PLOT.height);
	root.replaceChildren();
	return {
		root, width, now: performance.now() / 1000,
		inner: width - PLOT.left - PLOT.right,
		bottom: PLOT.height - PLOT.bottom,
		high: PLOT.height - PLOT.bottom - PLOT.top,
	};
}

function plotX(p, t) {
	return PLOT.left + p.inner * (1 - (p.now - t) / PLOT.seconds);
}

function plotGrid(p, marks) {
	for (const [y, text] of marks) {
		p.root.append(svg("line", { "class": "grid", x1: PLOT.left, x2: p.width - PLOT.right, y1: y, y2: y }),
			svg("text", { x: PLOT.left - 6, y: y + 3.5, "text-anchor": "end" }, text));
	}
	for (let m = 0; m <= 5; m += p.inner < PLOT.roomy ? 5 : 1)
		p.root.append(svg("text", {
			x: plotX(p, p.now - 60 * m), y: PLOT.height - 3,
			"text-anchor": m === 0 ? "end" : m === 5 ? "start" : "middle",
		}, m === 0 ? "now" : "−" + m + " min"));
}

function plotBar(p, name, t, y0, y1) {
	const w = Math.max(1.2, p.inner / PLOT.seconds - 0.4);
	const x = plotX(p, t) - w;

	if (x >= PLOT.left)
		p.root.append(svg("rect", {
			"class": name, x: x.toFixed(1), width: w.toFixed(1), rx: 0.6,
			y: Math.min(y0, y1).toFixed(1), height: Math.max(1.5, Math.abs(y1 - y0)).toFixed(1),
		}));
}

// Logarithmic, whole decades from 10 µs on.
function plotLatency() {
	const p = plotOpen("plot-latency");
	const max = Math.max(10000, ...seconds.map((s) => s.ack_max_us || 0));
	const decades = Math.ceil(Math.log10(max)) - 1;
	const y = (us) => p.bottom - p.high * (Math.log10(Math.max(us, 10)) - 1) / decades;
	const marks = [];

	for (let d = 0; d <= decades; d++)
		if (decades < 5 || d % 2 === decades % 2)
			marks.push([y(10 ** (d + 1)), short(10 ** (d + 1)).replace(".0", "")]);
	plotGrid(p, marks);
	for (const s of seconds) {
		if (s.ack_mean_us === null)
			continue;
		plotBar(p, "light", s.t, y(s.ack_max_us), y(s.ack_mean_us));
		plotBar(p, "dark", s.t, y(s.ack_mean_us) - 1, y(s.ack_mean_us) + 1);
	}
}

function niceMax(n) {
	const d = 10 ** Math.floor(Math.log10(Math.max(n, 4)));

	return [1, 2, 4, 8, 10].map((x) => x * d).find((x) => x >= n) || 4;
}

// Square root scale, so that ten changes are visible beside the thousand of an adoption.
function plotChanges() {
	const p = plotOpen("plot-changes");
	const max = niceMax(Math.max(4, ...seconds.map((s) => Math.max(s.events, s.writes))));
	const y = (n) => p.bottom - p.high * Math.sqrt(n / max);
	const w = p.inner / PLOT.seconds / 2;

	plotGrid(p, [0, 0.25, 1].map((f) => [y(max * f), count(max * f)]));
	for (const s of seconds) {
		if (s.events > 0)
			plotBar(p, "light", s.t, y(0), y(s.events));
		if (s.writes > 0)
			plotBar(p, "dark", s.t + w * 0.6, y(0), y(s.writes));
	}
}

function showPlots() {
	if (!byId("overview").hidden) {
		plotLatency();
		plotChanges();
	}
}

function secondText(s) {
	return Math.max(0, Math.round(performance.now() / 1000 - s.t)) + " s ago: " +
		plural(s.events, "event") + ", " + plural(s.services, "service") + ", " +
		plural(s.writes, "write") + (s.ack_mean_us === null ? "" :
			", mean " + short(s.ack_mean_us) + ", slowest < " + short(s.ack_max_us));
}

function plotHover(figure) {
	const root = figure.querySelector("svg");
	const out = figure.querySelector("output");

	root.addEventListener("mousemove", (e) => {
		const box = root.getBoundingClientRect();
		const part = (e.clientX - box.left - PLOT.left) / (box.width - PLOT.left - PLOT.right);
		const t = performance.now() / 1000 - (1 - part) * PLOT.seconds;
		const near = seconds.filter((s) => Math.abs(s.t - t) < 4)
			.sort((a, b) => Math.abs(a.t - t) - Math.abs(b.t - t))[0];

		out.textContent = near ? secondText(near) : "";
	});
	root.addEventListener("mouseleave", () => {
		out.textContent = "";
	});
}

async function getHistory() {
	const r = await get("/v1/history");

	if (r.json)
		seconds = r.json.items.map((s) => ({ ...s, t: r.at / 1000 - s.age_s }));
}

// ---- the list ----

const seen = new Map(); // service -> JSON of its row

function addresses(s) {
	return [...(s.load_balancer_ips || []), ...(s.external_ips || []), ...(s.cluster_ips || [])];
}

function few(list, max, cell) {
	const out = list.slice(0, max).map((x) => el("div", {}, cell(x)));

	if (list.length > max)
		out.push(el("div", { "class": "quiet" }, "+ " + (list.length - max) + " more"));
	return out;
}

function portText(p) {
	return p.port + (p.node_port ? ":" + p.node_port : "") + "/" + p.protocol;
}

// Backends of the largest pool / endpoints in slices, both families together.
function useText(p) {
	let used = 0;
	let listed = 0;

	for (const f of p.families) {
		used += Math.max(0, ...f.pools.map((x) => x.backends));
		listed += f.endpoints;
	}
	return used + "/" + listed;
}

function noteOf(s) {
	return [s.note, ...s.ports.map((p) => p.note)].filter((x, i, all) => x && all.indexOf(x) === i);
}

function row(s) {
	const key = s.namespace + "/" + s.name;
	const text = JSON.stringify(s);
	const fresh = seen.has(key) && seen.get(key) !== text;
	const r = el("tr", { "data-state": s.state, "data-service": key, "class": fresh ? "fresh" : null },
		el("td", { "class": "s-" + s.state }, state(s.state)),
		el("td", { "class": "name" }, el("a", { href: hashOf({ service: key, after: view.after }) },
			named(s.namespace, s.name))),
		el("td", {}, s.type || "–"),
		el("td", { "class": "addr" }, few(addresses(s), 3, (a) => a)),
		el("td", { "class": "port" }, few(s.ports, 3, (p) => [portText(p),
			p.name ? el("span", { "class": "quiet" }, " " + p.name) : null])),
		el("td", { "class": "n mono" }, few(s.ports, 3, useText)),
		el("td", { "class": "note" }, few(noteOf(s), 3, (n) => n)));

	seen.set(key, text);
	return r;
}

function showList(list) {
	const n = list.items.length;
	const first = view.before.length * LIMIT + 1;
	const rows = list.items.map(row);

	if (n === 0)
		rows.push(el("tr", {}, el("td", { colspan: 7, "class": "none" },
			view.q || stateFilter() !== ALL ? "No service matches." : "There are no services.")));
	for (const th of document.querySelectorAll("#services th[data-sort]"))
		th.setAttribute("aria-sort", (view.sort || "state") === th.dataset.sort ? "ascending" : "none");
	byId("services").tBodies[0].replaceChildren(...rows);
	byId("range").textContent = n === 0 ? "" :
		(view.after && view.before.length === 0 ? plural(n, "service") + " after " + view.after :
			count(first) + "–" + count(first + n - 1)) + " of " + count(list.matching);
	byId("prev").disabled = view.after === "";
	byId("next").disabled = list.next === null;
	byId("next").dataset.after = list.next || "";
	if (seen.size > 20 * LIMIT)
		seen.clear();
}

// ---- a service ----

function table(heads, rows, attrs) {
	return el("table", attrs || {}, el("thead", {}, el("tr", {}, heads.map((h) => el("th", {}, h)))),
		el("tbody", {}, rows));
}

function target(t, pools) {
	if (t.verdict !== "balance")
		return sign(t.verdict === "drop" ? "dropping" : "no-endpoints", t.verdict);
	const pool = pools.find((p) => p.id === t.pool);

	return "pool " + t.pool + (pool ? ", " + plural(pool.backends.length, "backend") : "") +
		(t.scope === "local" ? ", this node only" : "");
}

const MASQUERADE = {
	"all": "all clients", "not-pods": "all except pods", "this-host": "this host", "none": "none",
};

function frontends(s) {
	return [el("h2", {}, "Frontends"),
		table(["Address", "Kind", "Outside clients", "Pods and this host", "Masqueraded", ""],
			s.frontends.map((f) => el("tr", {},
				el("td", { "class": "addr" }, endpoint(f.address, f.port) + "/" + f.protocol),
				el("td", {}, f.kind), el("td", {}, target(f.outside, s.pools)),
				el("td", {}, target(f.inside, s.pools)),
				el("td", {}, MASQUERADE[f.masquerade] || f.masquerade),
				el("td", { "class": "quiet" }, f.has_source_ranges ? "source ranges" : ""))),
			{ id: "frontends" })];
}

function conflicts(s) {
	return s.conflicts.length === 0 ? [] : [el("h2", {}, "Conflicts"),
		table(["Address", "Kind", "Served by", "Reason"], s.conflicts.map((c) => el("tr", {},
			el("td", { "class": "addr" }, endpoint(c.address, c.port) + "/" + c.protocol),
			el("td", {}, c.kind), el("td", {}, el("a", {
				href: hashOf({ service: c.owner_namespace + "/" + c.owner_name }),
			}, c.owner_namespace + "/" + c.owner_name)),
			el("td", {}, c.reason))), { id: "conflicts" })];
}

// null: not counted yet, in the first second of draining.
function connections(n) {
	return n === null ? "…" : count(n);
}

function drains(s, at) {
	return !s.draining || s.draining.length === 0 ? [] : [el("h2", {}, "Draining backends",
		el("span", { "class": "quiet" }, "no new connections; old ones finish")),
		table(["Backend", "Active", "Inactive", "Drain timeout in"],
			s.draining.map((d) => el("tr", {
				"data-left": d.timeout_ms, "data-of": (d.since_ms || 0) + (d.timeout_ms || 0), "data-at": at,
			},
			el("td", { "class": "addr" }, endpoint(d.address, d.port) +
				(d.protocol ? "/" + d.protocol : "")),
			el("td", {}, connections(d.active)), el("td", {}, connections(d.inactive)),
			d.timeout_ms === undefined ? el("td", { "class": "quiet" }, "no limit") :
				el("td", {}, el("span", { "class": "bar" }, el("i", {})), " ",
					el("span", { "class": "left" })))), { id: "drains" })];
}

function drainsTick() {
	for (const r of document.querySelectorAll("#drains tbody tr[data-left]")) {
		const left = Math.max(0, r.dataset.left - (performance.now() - r.dataset.at));

		r.querySelector(".left").textContent = left > 0 ? age(left) : "now";
		r.querySelector(".bar i").style.width = 100 * left / Math.max(1, r.dataset.of) + "%";
	}
}

function conditions(e) {
	return [e.ready ? "ready" : "not ready", e.terminating ? "terminating" : null,
		e.terminating && e.serving ? "serving" : null].filter((x) => x).join(", ");
}

function setText(set) {
	if (set.used)
		return set.slot === null ? "pending" : "slot " + set.slot;
	return (set.reason || "unused") + (set.slot === null ? "" : ", removal pending");
}

function isUsed(e, f) {
	return (f.uses_cluster_set && e.cluster_set.used) || (f.uses_local_set && e.local_set.used);
}

// Connection counts of the displayed service, null without --metrics-per-service: { service, json,
// before }; `before` is the previous answer.
let counts = null;

async function getCounts() {
	const name = view.service;

	if (name === "" || (counts && counts.service === name && !counts.json.counted))
		return;
	const r = await get("/v1/counts?service=" + encodeURIComponent(name));
	if (!r.json || view.service !== name)
		return;
	const before = counts && counts.service === name ? counts.json : null;
	counts = { service: name, json: r.json, before };
	if (before === null && r.json.counted)
		showShown(); // adds a column
	else
		countsTick();
}

function isCounted() {
	return counts !== null && counts.service === view.service && counts.json.counted;
}

// "611, 300/s". `pick` returns the number in an answer; null: unknown.
function countText(pick) {
	const now = pick(counts.json);
	const was = counts.before && pick(counts.before);
	const ms = counts.before ? counts.json.clock_ms - counts.before.clock_ms : 0;

	if (now === null)
		return "–";
	return count(now) + (ms > 0 && was !== null && now >= was ?
		", " + count(Math.round((now - was) * 1000 / ms)) + "/s" : "");
}

function countsTick() {
	if (!isCounted())
		return;
	for (const cell of document.querySelectorAll("#service [data-count]")) {
		const [address, port, protocol] = cell.dataset.count.split(" ");

		cell.textContent = countText((json) => {
			const item = json.items[0];
			const e = item && (address === "connections" || address === "rejected" ? item[address] :
				(item.endpoints || []).find((x) => x.address === address && x.port === Number(port) &&
					x.protocol === protocol));

			// Absent: no connection yet.
			return e === undefined ? 0 : e === null || typeof e === "number" ? e : e.connections;
		});
	}
}

function endpointRow(e, p, f) {
	const used = isUsed(e, f);

	return el("tr", { "class": used ? null : "out" },
		el("td", {}, sign(used ? "ok" : "not-proxied", used ? "used" : "unused")),
		el("td", { "class": "addr" }, endpoint(e.address, e.port)),
		el("td", {}, e.pod || "–"),
		el("td", {}, (e.node || "–") + (e.on_this_node ? " (here)" : "")),
		el("td", {}, conditions(e)),
		isCounted() ? el("td", { "data-count": e.address + " " + e.port + " " + p.protocol }) : null,
		f.uses_cluster_set ? el("td", { "class": "why" }, setText(e.cluster_set)) : null,
		f.uses_local_set ? el("td", { "class": "why" }, setText(e.local_set)) : null,
		el("td", { "class": "quiet" }, [...e.zone_hints.map((z) => "zone " + z),
			...e.node_hints.map((n) => "node " + n)].join(", ")));
}

function familyNote(f) {
	const used = f.endpoints.filter((e) => isUsed(e, f)).length;

	return [plural(f.endpoints.length, "endpoint"), used + " used",
		f.endpoints.length - used > 0 ? f.endpoints.length - used + " unused" : null,
		f.cluster_fallback || f.local_fallback ? "terminating endpoints serve: none is ready" : null,
		f.usable_anywhere ? null : "no usable endpoint in the cluster"].filter((x) => x).join(", ");
}

function family(p, f) {
	const key = p.protocol + p.port + p.name + f.family;
	const sorted = [...f.endpoints.filter((e) => isUsed(e, f)), ...f.endpoints.filter((e) => !isUsed(e, f))];
	const part = view.all.has(key) ? sorted : sorted.slice(0, ENDPOINTS_SHOWN);
	const rows = part.map((e) => endpointRow(e, p, f));
	const more = el("button", { type: "button" }, "show all " + count(sorted.length));

	more.addEventListener("click", () => {
		view.all.add(key);
		showShown();
	});
	if (part.length < sorted.length)
		rows.push(el("tr", { "class": "rest" }, el("td", { colspan: 9 }, more)));
	if (rows.length === 0)
		rows.push(el("tr", {}, el("td", { colspan: 9, "class": "none" }, "No EndpointSlice lists an endpoint.")));
	return [el("h2", {}, "Port " + (p.name ? p.name + " " : "") + portText(p) + ", " + f.family,
		el("span", { "class": "quiet" }, familyNote(f))),
		table(["", "Endpoint", "Pod", "Node", "Condition", isCounted() ? "Connections" : null,
			f.uses_cluster_set ? "Cluster pool" : null,
			f.uses_local_set ? "Local pool" : null, "Hints"].filter((x) => x !== null), rows,
			{ "class": "endpoints" })];
}

// "wrr, weights 1 to 3"
function scheduler(p) {
	const weights = p.backends.map((b) => b.weight ?? 1);
	const least = Math.min(...weights), most = Math.max(...weights);

	if (most <= least)
		return p.scheduler || "–";
	return (p.scheduler || "at random") + ", weights " + least + " to " + most;
}

function pools(s) {
	const hasScheduler = s.pools.some((p) => scheduler(p) !== "–");

	return s.pools.length === 0 ? [] : [el("h2", {}, "Pools"),
		table(["Pool", "Family", "Port", "Endpoints of", "Backends", "Affinity",
			...hasScheduler ? ["Scheduler"] : []], s.pools.map((p) => el("tr", {},
			el("td", { "class": "mono" }, String(p.id)), el("td", {}, p.family),
			el("td", {}, p.protocol + (p.port_name ? " " + p.port_name : "")),
			el("td", {}, p.scope === "local" ? "this node" : "the cluster"),
			el("td", { "class": "mono" }, count(p.backends.length)),
			el("td", {}, p.affinity_s ? p.affinity_s + " s" : "–"),
			hasScheduler ? el("td", {}, scheduler(p)) : null)), { id: "pools" })];
}

function showService(s, at) {
	const notes = [...noteOf({ note: s.note, ports: s.ports || [] }), ...(s.remark ? [s.remark] : [])];
	const ingress = (s.ingress || []).map((i) => i.address + (i.captured ? "" : " (not captured)"));

	byId("service").replaceChildren(...[
		el("p", { "class": "crumbs" }, el("a", { href: hashOf({ after: view.after }) }, "‹ all services")),
		el("h1", {}, named(s.namespace, s.name), state(s.state)),
		...notes.map((n) => el("p", { "class": "quiet" }, n)),
		el("dl", {}, [
			fact("type", s.type || "no Service object"),
			fact("cluster IPs", (s.cluster_ips || []).join(", ")),
			fact("load balancer", ingress.join(", ")),
			fact("external IPs", (s.external_ips || []).join(", ")),
			fact("internal policy", s.internal_policy || ""),
			fact("external policy", s.external_policy || ""),
			fact("affinity", s.affinity_s ? s.affinity_s + " s" : ""),
			fact("source ranges", (s.source_ranges || []).join(", ")),
			fact("health check port", s.health_check_node_port ? String(s.health_check_node_port) : ""),
			fact("programmed", s.programmed ? (s.pending ? "previous version" : "yes") : "no"),
			fact("slices", count(s.slices)),
			isCounted() ? fact("connections", el("span", { "data-count": "connections" })) : null,
			isCounted() ? fact("rejected connections", el("span", { "data-count": "rejected" })) : null,
		].filter((x) => x)),
		...(s.frontends.length > 0 ? frontends(s) : []),
		...conflicts(s), ...drains(s, at),
		...(s.ports || []).flatMap((p) => p.families.flatMap((f) => family(p, f))),
		...pools(s),
	]);
	drainsTick();
	countsTick();
}

function showError(e) {
	if (view.service !== "")
		byId("service").replaceChildren(
			el("p", { "class": "crumbs" }, el("a", { href: hashOf({}) }, "‹ all services")),
			el("h1", {}, view.service), el("p", {}, e.text));
	else
		byId("services").tBodies[0].replaceChildren(el("tr", {},
			el("td", { colspan: 7, "class": "none" }, e.text)));
}

// Display the cached answer for `shown`.
function showShown() {
	const entry = cache.get(shown);

	if (entry && view.service !== "")
		showService(entry.json, entry.at);
	else if (entry)
		showList(entry.json);
}

async function getShown() {
	const path = pathOf();
	const turned = path !== shown;
	const r = await get(path);

	if (path !== pathOf())
		return; // the view changed meanwhile
	shown = path;
	if (r.error)
		showError(r.error);
	else if (r.fresh || turned)
		showShown();
	if (turned && view.service !== "")
		window.scrollTo(0, 0);
}

// An answer without an ETag changes while the status does not: connections of draining backends,
// times of probes.
function isVolatile() {
	const entry = view.service === "" ? null : cache.get(shown);

	return entry && entry.tag === null;
}

// ---- polling ----

let timer = null;
let busy = false;
let stale = false; // a load failed: parts of the page are older than `status`
let took = 0; // ms of the last poll

// Poll. `all`: load the view even if the status is unchanged.
async function turn(all) {
	clearTimeout(timer);
	timer = null;
	if (!busy) {
		const begin = performance.now();

		busy = true;
		try {
			const r = await get("/v1/status");

			if (r.error)
				throw new Error(r.error.text);
			status = r;
			if (view.preset === null)
				view.preset = ATTENTION.split(",").some((x) => r.json.states[x] > 0) ? ATTENTION : ALL;
			if (r.fresh || all || stale || shown !== pathOf()) {
				stale = true;
				await Promise.all([getHistory(), getDoctor(), getShown()]);
				stale = false;
			} else if (isVolatile()) {
				await getShown();
			}
			await getCounts();
			failedSince = null;
		} catch (e) {
			failedSince = failedSince === null ? performance.now() : failedSince;
		}
		busy = false;
		took = performance.now() - begin;
		show();
		if (failedSince === null && shown !== pathOf() && !document.hidden) {
			turn(true);
			return;
		}
	}
	if (!document.hidden && timer === null)
		timer = setTimeout(turn, Math.max(PERIOD_MS, Math.min(PATIENCE * took, 10 * PERIOD_MS)));
}

function show() {
	showLink();
	if (status === null)
		return;
	showStatus();
	showPlots();
	drainsTick();
	document.documentElement.dataset.ready = String(shown !== null);
}

let typing = null;

function pageOpen(after, before) {
	history.pushState({ before }, "", hashOf({ after }));
	viewRead();
	turn(true);
}

function start() {
	byId("q").addEventListener("input", () => {
		clearTimeout(typing);
		typing = setTimeout(() => {
			history.replaceState(null, "", hashOf({ q: byId("q").value.trim() }));
			viewRead();
			turn(true);
		}, TYPING_MS);
	});
	byId("find").addEventListener("submit", (e) => e.preventDefault());
	byId("next").addEventListener("click", (e) => {
		pageOpen(e.currentTarget.dataset.after, [...view.before, view.after]);
	});
	byId("prev").addEventListener("click", () => {
		pageOpen(view.before.at(-1) || "", view.before.slice(0, -1));
	});
	document.addEventListener("keydown", (e) => {
		if (e.key === "/" && !e.ctrlKey && !e.metaKey && document.activeElement !== byId("q") &&
		    view.service === "") {
			e.preventDefault();
			byId("q").focus();
		}
	});
	for (const figure of document.querySelectorAll("figure"))
		plotHover(figure);
	for (const th of document.querySelectorAll("#services th[data-sort]"))
		th.querySelector("button").addEventListener("click", () => {
			location.hash = hashOf({ sort: th.dataset.sort });
		});
	window.addEventListener("hashchange", () => {
		viewRead();
		turn(true);
	});
	window.addEventListener("resize", showPlots);
	document.addEventListener("visibilitychange", () => {
		if (!document.hidden)
			turn();
	});
	viewRead();
	turn();
}

start();
