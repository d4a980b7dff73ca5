/* The list of recordings. Verdicts come later, one recording after the other. Texts of recordings are only ever text. */
const find = (id) => document.getElementById(id), body = find("list").tBodies[0], chosen = [];
const WAIT_MS = 700, REST_MS = 5000, rows = new Map(); /* id -> { row, of: what it shows } */
let all = [], has_more = false;

function duration(ns) {
	const units = ["ns", "us", "ms", "s"];
	let unit = 0;

	for (; ns >= 999.5 && unit < 3; unit++)
		ns /= 1000;
	return (unit ? ns.toPrecision(3) : ns) + " " + units[unit];
}
/* 1234567 as "1.18 MiB" */
function bytes(n) {
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let unit = 0;

	for (; n >= 1023.5 && unit < 4; unit++)
		n /= 1024;
	return (unit ? n.toPrecision(3) : n) + " " + units[unit];
}
const moment = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + " UTC";

function choose(id, is_on) {
	const at = chosen.indexOf(id);

	if (at >= 0)
		chosen.splice(at, 1);
	if (is_on)
		chosen.push(id);
	find("diff").disabled = chosen.length !== 2;
	find("diff").title = chosen.length === 2 ? "the first one is before, the second one after" : "tick two recordings";
}

function make_row(of) {
	const row = document.createElement("tr"), s = of.summary || {}, box = add(add(row, "td"), "input"), base = "/r/" + of.id + "/";

	box.type = "checkbox";
	box.checked = chosen.includes(of.id);
	box.setAttribute("aria-label", "compare " + of.name);
	box.addEventListener("change", () => choose(of.id, box.checked));
	const name = add(row, "td", undefined, "name");
	add(name, "a", of.name).href = base + "report";
	add(name, "small", (of.window ? "window of a lake, " : "") + bytes(of.bytes));
	add(row, "td", s.command, "command");
	add(row, "td", s.host);
	add(row, "td", s.start_ms === undefined ? moment(of.changed_ms) + ", last change" : moment(s.start_ms), s.start_ms === undefined ? "soft" : "");
	add(row, "td", s.duration_ns === undefined ? "" : duration(s.duration_ns), "number");
	add(row, "td", s.gpus);
	const verdict = add(row, "td", undefined, "verdict");
	if (s.problem)
		add(verdict, "span", s.problem, "problem");
	else if (of.summary)
		add(verdict, "b", s.verdict), verdict.append(s.sentence);
	else
		add(verdict, "span", "\u2026", "soft");
	const links = add(row, "td", undefined, "links");
	for (const view of ["timeline", "flame", "source"])
		add(links, "a", view).href = base + view;
	return row;
}

/* A row stays while it has the focus, or has not changed. */
function row_of(of) {
	const known = rows.get(of.id), text = JSON.stringify(of);

	if (known && (known.of === text || known.row.contains(document.activeElement)))
		return known.row;
	rows.set(of.id, { row: make_row(of), of: text });
	return rows.get(of.id).row;
}

function show() {
	const text = find("search").value.trim(), test = text ? name_test(text) : () => true;
	const shown = all.filter(({ name, summary: s }) => test([name, s?.command, s?.host, s?.gpus, s?.verdict, s?.sentence, s?.problem].join("\n")));
	const pending = all.filter((of) => !of.summary).length, wanted = shown.map(row_of);

	if (wanted.length !== body.children.length || wanted.some((row, i) => row !== body.children[i]))
		body.replaceChildren(...wanted);
	find("list").hidden = !shown.length;
	find("found").textContent = !all.length ? "There is no recording (*.pitot) here yet. Make one with: pitot record -- COMMAND"
		: shown.length + (shown.length === all.length ? "" : " of " + all.length) + (all.length === 1 ? " recording" : " recordings") +
		  (has_more ? ", and more that are not listed" : "") + (pending ? ", " + pending + " being read" : "");
	return pending;
}

async function load() {
	let pending = 1;

	try {
		const answer = await fetch("/recordings");

		if (!answer.ok)
			throw new Error("it answers with status " + answer.status);
		const list = await answer.json();
		has_more = list.has_more;
		all = list.recordings.sort((a, b) => (b.summary?.start_ms ?? b.changed_ms) - (a.summary?.start_ms ?? a.changed_ms));
		chosen.filter((id) => !all.some((of) => of.id === id)).forEach((id) => choose(id, false));
		pending = show();
	} catch (error) {
		find("found").textContent = "pitot serve cannot be reached: " + error.message;
	}
	setTimeout(load, pending ? WAIT_MS : REST_MS);
}

find("search").addEventListener("input", show);
find("diff").addEventListener("click", () => { location.href = "/diff?a=" + chosen[0] + "&b=" + chosen[1]; });
window.addEventListener("keydown", (event) => {
	if (event.key === "/" && event.target !== find("search")) {
		find("search").focus();
		event.preventDefault();
	}
});
load();
