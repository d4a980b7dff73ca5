/* Navigation, search, pointer, keys, and the view in the page's address. */
/* --- navigation --- */

function show(from, to) {
	const least = 50, most = (whole.to - whole.from) * 1.2;
	const length = Math.min(Math.max(to - from, least), most), middle = (from + to) / 2;

	view.from = Math.min(Math.max(middle - length / 2, whole.from - 0.1 * most), whole.to + 0.1 * most - length);
	view.to = view.from + length;
	redraw();
}

function zoom(factor, x) {
	const at = ns_at(x);

	show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function move(part) {
	const by = part * (view.to - view.from);

	show(view.from + by, view.to + by);
}

/* Scrolls a slice into view without zooming in. */
function reveal({ row, i }) {
	const length = view.to - view.from, middle = (row.start[i] + row.end[i]) / 2;

	row.track.hidden = false;
	closed.delete(row.track.group);
	lay_out();
	if (row.end[i] < view.from || row.start[i] > view.to)
		show(middle - length / 2, middle + length / 2);
	ensure_visible(row);
}

function ensure_visible(row) {
	if (!(row.track.pinned && sticky()) && (y_of(row) < RULER + sticky() || y_of(row) + ROW > view_box.clientHeight))
		view_box.scrollTop = row.track.y + row.place * ROW - view_box.clientHeight / 2;
	redraw();
}

const keys = { w: [0, -1], s: [0, 1], a: [-1, 0], d: [1, 0], arrowleft: [-1, 0], arrowright: [1, 0] }, held = new Set();
let moving = 0;
function move_on(now) {
	const part = Math.min(now - moving, 50) / 1000, middle = pointer && pointer.x > LABELS ? pointer.x : LABELS + plot_width() / 2;

	moving = held.size ? now : 0;
	for (const key of held) {
		if (keys[key][1])
			zoom(Math.exp(2.6 * part * keys[key][1]), middle);
		else
			move(1.1 * part * keys[key][0]);
	}
	if (held.size)
		requestAnimationFrame(move_on);
}

/* --- position --- */

/* Returns the group heading or track at a height of the plot. */
function item_at(y) {
	const pinned = y < RULER + sticky();

	return y < RULER ? undefined : items.find((item) => (!sticky() || Boolean(item.pinned) === pinned) &&
						  y >= top_of(item.pinned, item.y) && y < top_of(item.pinned, item.y + item.height));
}

/* Returns the slice within three pixels of a position of the plot; null: none. */
function slice_at(x, y) {
	const item = item_at(y);

	if (x < LABELS || !item?.track || item.track.counter)
		return null;
	const row = item.track.rows[Math.floor((y - top_of(item.pinned, item.y)) / ROW)], ns = ns_at(x), near = 3 / scale();
	let i = below(row.start, ns, 0, true) - 1;

	if (i >= 0 && row.end[i] >= ns)
		return { row, i };
	if (i + 1 < row.n && row.start[i + 1] - ns < near && (i < 0 || row.start[i + 1] - ns < ns - row.end[i]))
		i++;
	return i >= 0 && ns - row.end[i] < near ? { row, i } : null;
}

/* --- search --- */

let searched = "", typed = 0;
function search(text) {
	const test = text ? name_test(text) : null, sums = new Map();

	searched = text;
	matches = test && Uint8Array.from(data.classes, (of, c) => of && (test(name_of(c)) || test(details_of(c).name || "")) ? 1 : 0);
	const add_sum = (c, n, ns) => {
		const kind = kind_of(c), sum = sums.get(kind) || { n: 0, ns: 0 };

		sum.n += n;
		sum.ns += ns;
		sums.set(kind, sum);
	};
	for (const row of rows) {
		row.hits = matches && new Uint32Array(row.n + 1);
		for (let i = 0; matches && i < row.n; i++) {
			const hit = matches[row.class[i]];

			row.hits[i + 1] = row.hits[i] + hit;
			if (hit && !served)
				add_sum(row.class[i], 1, row.end[i] - row.start[i]);
		}
	}
	const all = served && matches ? class_sums(null, () => search(searched)) : null;
	for (const [c, n, ns] of all || [])
		if (matches[c])
			add_sum(c, n, ns);
	find("found").textContent = !matches ? "" : sums.size ? [...sums].sort((a, b) => b[1].ns - a[1].ns).slice(0, 3)
		.map(([kind, sum]) => counted(sum.n, kind) + ": " + duration(sum.ns)).join(", ") : served && !all ? "\u2026" : "nothing found";
	find("next").disabled = find("last").disabled = !sums.size;
	redraw();
	return sums;
}

/* Returns the index of the n-th match in a row. */
const hit_at = (row, n) => below(row.hits, n + 1) - 1;

/* Searches for what the field has now; returns whether it changed since the last search. */
function search_now() {
	const text = find("search").value, changed = text !== searched;

	clearTimeout(typed);
	if (changed)
		search(text);
	return changed;
}

/* Shows which match, by time, is selected. */
function show_place({ row, i }) {
	const own = rows.indexOf(row), all = rows.reduce((n, each) => n + each.hits[each.n], 0);
	const earlier = rows.reduce((n, each, place) => n + each.hits[below(each.start, row.start[i], 0, place < own)], 0);

	find("found").textContent = count(earlier + 1) + " of " + count(all) + " \u00b7 " + find("found").textContent.replace(/^.* \u00b7 /, "");
}

/* Selects the match after or before the selection by time; without a selection, or `anew`, the first or last. Wraps around at the end. */
function step(forward, anew = false) {
	const from_here = selected && !anew, own = from_here ? rows.indexOf(selected.row) : -1;
	const at = from_here ? selected.row.start[selected.i] : forward ? -Infinity : Infinity;
	let best = null;

	for (let place = 0; matches && place < rows.length; place++) {
		const row = rows[place], from = below(row.start, at, 0, forward ? place <= own : place < own);
		const n = forward ? row.hits[from] : row.hits[from] - 1, i = n >= 0 && n < row.hits[row.n] ? hit_at(row, n) : -1;

		if (i >= 0 && (!best || (forward ? row.start[i] < best.row.start[best.i] : row.start[i] >= best.row.start[best.i])))
			best = { row, i };
	}
	if (best) {
		select(best);
		reveal(best);
		show_place(best);
	} else if (from_here) {
		step(forward, true);
	}
}

/* --- pointer and keys --- */

function show_tip(event) {
	const slice = slice_at(event.offsetX, event.offsetY), box = tip.getBoundingClientRect();
	const item = item_at(event.offsetY), track = item?.track, counter = track?.counter && event.offsetX > LABELS ? track.rows[0] : null;
	const label = item && event.offsetX < LABELS;

	tip.hidden = !slice && !counter && !label;
	tip.textContent = "";
	if (slice) {
		const c = slice.row.class[slice.i];

		add(tip, "b", name_of(c));
		add(tip, "span", kind_of(c).replaceAll("_", " ") + ", " + duration(slice.row.end[slice.i] - slice.row.start[slice.i]));
	} else if (counter) {
		const i = below(counter.start, ns_at(event.offsetX), 0, true) - 1;

		add(tip, "b", counter.track.name + (i < 0 ? "" : ": " + counter_text(counter.track, counter.value[i])));
		add(tip, "span", counter.track.counter.meaning);
	} else if (label) {
		add(tip, "b", track ? track.name : group_name(item.group));
		add(tip, "span", track?.counter ? track.counter.meaning : track ? group_name(track.group) : data.groups[item.group % data.groups.length][1]);
		if (track?.counter)
			add(tip, "span", counter_summary(track));
	}
	tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
	tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 18) + "px";
}

let drag = null;
plot.addEventListener("pointerdown", (event) => {
	drag = { x: event.offsetX, y: event.clientY, top: view_box.scrollTop, from: view.from, to: view.to, far: false,
		 sums: event.shiftKey ? ns_at(event.offsetX) : null };
	plot.setPointerCapture(event.pointerId);
});
plot.addEventListener("pointermove", (event) => {
	pointer = { x: event.offsetX, y: event.offsetY };
	redraw();
	if (!drag) {
		show_tip(event);
		return;
	}
	drag.far = drag.far || Math.abs(event.offsetX - drag.x) + Math.abs(event.clientY - drag.y) > 3;
	tip.hidden = true;
	if (drag.sums !== null && drag.far) {
		const now = ns_at(event.offsetX);

		span = { from: Math.min(now, drag.sums), to: Math.max(now, drag.sums) };
	} else if (drag.far) {
		const by = (drag.x - event.offsetX) / plot_width() * (drag.to - drag.from);

		show(drag.from + by, drag.to + by);
		view_box.scrollTop = drag.top + drag.y - event.clientY;
	}
});
plot.addEventListener("pointerup", (event) => {
	const was = drag, slice = slice_at(event.offsetX, event.offsetY);
	const item = item_at(event.offsetY);

	drag = null;
	if (was?.far && was.sums !== null) {
		selected = null;
		arrows = [];
		show_span();
	} else if (was?.far === false && item?.track && event.offsetX < LABELS && event.offsetX > LABELS - BUTTONS - 8) {
		change_track(item.track, event.offsetX < LABELS - BUTTONS / 2 ? "pinned" : "hidden");
	} else if (was?.far === false && item && !item.track) {
		if (!closed.delete(item.group))
			closed.add(item.group);
		lay_out();
		redraw();
	} else if (was?.far === false && slice) {
		select(slice);
	} else if (was?.far === false) {
		clear();
	}
});
plot.addEventListener("pointerleave", () => {
	tip.hidden = true;
	pointer = null;
	redraw();
});
plot.addEventListener("wheel", (event) => {
	const lines = event.deltaMode === 1 ? 16 : 1, x = event.deltaX * lines, y = event.deltaY * lines;

	if (event.offsetX < LABELS && !event.ctrlKey)
		return;
	event.preventDefault();
	if (event.shiftKey || Math.abs(x) > Math.abs(y))
		move((Math.abs(x) > Math.abs(y) ? x : y) / plot_width());
	else
		zoom(Math.exp(Math.max(-1, Math.min(1, y * (event.ctrlKey ? 0.01 : 0.0022)))), event.offsetX);
}, { passive: false });
function show_at(event) {
	const half = (view.to - view.from) / 2, at = whole.from + event.offsetX / overview.clientWidth * (whole.to - whole.from);

	if (event.buttons)
		show(at - half, at + half);
}
overview.addEventListener("pointerdown", show_at);
overview.addEventListener("pointermove", show_at);

/* Pins or hides a track, or takes that back. */
function change_track(track, property) {
	track[property] = !track[property];
	lay_out();
	redraw();
}
const pointed_track = () => (pointer && item_at(pointer.y)?.track) || selected?.row.track;
function show_work() {
	show(work_part.from, work_part.to);
}

const commands = {
	r: () => show(whole.from, whole.to),
	home: show_work,
	l: show_longest,
	c: () => find("path").hidden || show_path(),
	p: () => pointed_track() && change_track(pointed_track(), "pinned"),
	h: () => pointed_track() && change_track(pointed_track(), "hidden"),
	u: () => {
		tracks.forEach((track) => { track.hidden = false; });
		lay_out();
		redraw();
	},
	f: () => {
		const part = selected ? { from: selected.row.start[selected.i], to: selected.row.end[selected.i] } : span;

		if (part)
			show(part.from - (part.to - part.from) / 2 - 10, part.to + (part.to - part.from) / 2 + 10);
	},
	"/": () => find("search").focus(),
	escape: clear,
	arrowup: () => { view_box.scrollTop -= 3 * ROW; },
	arrowdown: () => { view_box.scrollTop += 3 * ROW; },
	",": () => neighbour(-1),
	".": () => neighbour(1),
};
function neighbour(by) {
	if (!selected || selected.i + by < 0 || selected.i + by >= selected.row.n)
		return;
	select({ row: selected.row, i: selected.i + by });
	reveal(selected);
}
window.addEventListener("keydown", (event) => {
	const key = event.key.toLowerCase(), typing = event.target === find("search");

	if (typing && key === "escape") {
		find("search").value = "";
		search("");
		view_box.focus();
	} else if (typing && key === "enter") {
		step(!event.shiftKey, search_now());
	} else if (event.target.tagName === "SELECT" && key !== "escape") {
		return;
	} else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey && keys[key]) {
		held.add(key);
		if (!moving)
			requestAnimationFrame(move_on);
		moving = moving || performance.now();
		event.preventDefault();
	} else if (!typing && !event.ctrlKey && !event.metaKey && commands[key]) {
		commands[key]();
		event.preventDefault();
	}
});
window.addEventListener("keyup", (event) => held.delete(event.key.toLowerCase()));
window.addEventListener("blur", () => held.clear());
view_box.addEventListener("scroll", redraw);
new ResizeObserver(redraw).observe(view_box);
find("search").addEventListener("input", () => {
	clearTimeout(typed);
	typed = setTimeout(search_now, 100);
});
find("next").addEventListener("click", () => step(true));
find("last").addEventListener("click", () => step(false));
find("all").addEventListener("click", commands.r);
find("work").addEventListener("click", show_work);
find("longest").addEventListener("click", show_longest);
find("path").addEventListener("click", show_path);
find("path").hidden = served || !tracks.some((track) => track.kind === "path");
find("hidden").addEventListener("click", commands.u);

/* --- the view in the page's address: #view=FROM,TO&search=TEXT&slice=ROW,I&pinned=TRACK,…&hidden=…&closed=GROUP,… --- */

let saving = 0, saved = "";
const numbers_of = (text) => (text || "").split(",").filter(Boolean).map(Number);
const tracks_with = (property) => tracks.flatMap((track, i) => track[property] ? [i] : []);
function state_text() {
	const state = { view: [view.from, view.to].map(Math.round), search: searched, slice: selected && !served ? [rows.indexOf(selected.row), selected.i] : "",
			pinned: tracks_with("pinned"), hidden: tracks_with("hidden"), closed: [...closed] };

	return Object.entries(state).filter(([, value]) => value.length).map(([key, value]) =>
		key + "=" + (typeof value === "string" ? encodeURIComponent(value) : value.join(","))).join("&");
}

/* Pages inside of others have no address of their own, so it cannot be changed there. */
function save() {
	const text = state_text();

	saving = 0;
	if (text !== saved)
		try {
			history.replaceState(null, "", "#" + text);
		} catch (refused) {
			return;
		}
	saved = text;
}
function save_later() {
	clearTimeout(saving);
	saving = setTimeout(save, 300);
}

/* Shows what the address says, as far as it fits this recording. */
function restore() {
	const state = new URLSearchParams(location.hash.slice(1)), [from, to] = numbers_of(state.get("view")), [at, i] = numbers_of(state.get("slice"));

	for (const property of ["pinned", "hidden"])
		tracks.forEach((track, n) => { track[property] = numbers_of(state.get(property)).includes(n); });
	closed.clear();
	numbers_of(state.get("closed")).forEach((group) => closed.add(group));
	lay_out();
	find("search").value = state.get("search") || "";
	search_now();
	if (rows[at] && i >= 0 && i < rows[at].n && !served)
		select({ row: rows[at], i: Math.floor(i) });
	if (from < to && from < whole.to && to > whole.from)
		show(from, to);
	else
		show_work();
}
window.addEventListener("hashchange", restore);

/* --- initialization --- */

function set_theme(theme) {
	root.setAttribute("data-theme", theme);
	read_colors();
	redraw();
}

function about() {
	const kinds = new Map(), when = new Date(data.start_unix_ns / 1e6);

	for (const [kind, n] of Object.entries(data.counts || {}))
		kinds.set(data.kinds.indexOf(kind), n);
	for (const row of served ? [] : rows)
		for (const c of row.class)
			kinds.set(data.classes[c][0], (kinds.get(data.classes[c][0]) || 0) + 1);
	const [from, to] = data.window, part = from > 0 || to < data.duration_ns ? duration(from) + " to " + duration(to) + " shown" : "";
	return [data.host, isNaN(when) ? "" : when.toISOString().slice(0, 19).replace("T", " ") + " UTC", duration(data.duration_ns), part,
		...["kernel", "memcpy", "memset", "graph_launch", "api_call", "nvtx"].filter((kind) => kinds.has(data.kinds.indexOf(kind)))
			.map((kind) => counted(kinds.get(data.kinds.indexOf(kind)), kind)),
		data.cpu_samples ? count(data.cpu_samples) + (data.cpu_samples === 1 ? " CPU sample" : " CPU samples") : "", ...data.notes].filter(Boolean).join(" \u00b7 ");
}

function add_losses() {
	const box = add(document.querySelector("header"), "details", undefined, "loss " + (data.loss_effect || "unsafe"));
	const effect = { none: "no figure changes", some: "some figures are slightly too small, or details are missing" }[data.loss_effect];

	add(box, "summary", count(data.loss.length) + (data.loss.length === 1 ? " loss" : " losses") + ": " + (effect || "the recording is incomplete"));
	for (const [process, , n, detail, text] of data.loss)
		add(box, "div", (n ? count(n) : "some") + " " + text + (detail ? " (" + detail + ")" : "") + (process ? ": " + process : ""));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => set_theme(dark.matches ? "dark" : "light"));
find("theme").addEventListener("click", () => set_theme(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));
find("about").textContent = about();
if (data.loss.length)
	add_losses();
set_theme(dark.matches ? "dark" : "light");
restore();
saved = state_text();
draw();
window.timeline = { data, tracks, rows, view, whole, show, zoom, move, search, step, select, reveal, related, slice_at, correlations_of, name_of,
		    kind_of, details_of, draw, x_of, y_of, save, item_at, counter_summary, counter_text, part_with_work: () => work_part,
		    palette_of: (row, i) => palette[class_color[row.class[i]]], selection: () => selected, arrows: () => arrows, is_loaded: () => has_view() };
