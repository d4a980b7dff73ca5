/* Navigation, selection, search, pointer and keys. */
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

	if (closed.delete(row.track.group))
		lay_out();
	if (row.end[i] < view.from || row.start[i] > view.to)
		show(middle - length / 2, middle + length / 2);
	ensure_visible(row);
}

function ensure_visible(row) {
	if (y_of(row) < RULER || y_of(row) + ROW > view_box.clientHeight)
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

/* --- selection --- */

/* Returns the group heading or track at a height of the plot. */
function item_at(y) {
	const at = y + view_box.scrollTop;

	return y < RULER ? undefined : items.find((item) => at >= item.y && at < item.y + item.height);
}

/* Returns the slice within three pixels of a position of the plot; null: none. */
function slice_at(x, y) {
	const item = item_at(y);

	if (x < LABELS || !item?.track || item.track.counter)
		return null;
	const row = item.track.rows[Math.floor((y + view_box.scrollTop - item.y) / ROW)], ns = ns_at(x), near = 3 / scale();
	let i = below(row.start, ns, 0, true) - 1;

	if (i >= 0 && row.end[i] >= ns)
		return { row, i };
	if (i + 1 < row.n && row.start[i + 1] - ns < near && (i < 0 || row.start[i + 1] - ns < ns - row.end[i]))
		i++;
	return i >= 0 && ns - row.end[i] < near ? { row, i } : null;
}

const is_call = (row, i) => kind_of(row.class[i]) === "api_call";

/* Finds the slices with a correlation id: the call, and the work that it caused. */
function related(id) {
	const found = { call: null, work: [] };

	for (const row of id ? rows : []) {
		const ids = correlations_of(row);

		for (let i = ids.indexOf(id); i >= 0; i = ids.indexOf(id, i + 1))
			if (is_call(row, i))
				found.call = found.call || { row, i };
			else
				found.work.push({ row, i });
	}
	return found;
}

function add(parent, tag, text, name) {
	const element = document.createElement(tag);

	if (text !== undefined)
		element.textContent = text;
	if (name)
		element.className = name;
	parent.append(element);
	return element;
}

function add_line(table, key, value) {
	const line = add(table, "tr");

	add(line, "th", key);
	return add(line, "td", value);
}

function add_link(parent, text, slice) {
	const link = add(parent, "button", text, "link");

	link.addEventListener("click", () => {
		select(slice);
		reveal(slice);
	});
}

function detail_text(key, value) {
	if (Array.isArray(value))
		return value.map(count).join(" \u00d7 ") + (value.length === 3 ? " = " + count(value[0] * value[1] * value[2]) +
							      (key === "grid" ? " blocks" : " threads") : "");
	if (key === "address")
		return "0x" + value.toString(16);
	if (/bytes$/.test(key))
		return value < 1024 ? value + " B" : bytes_text(value) + " (" + count(value) + " bytes)";
	return String(value);
}

/* Adds the count, total and average duration of the slices with the same name. */
function add_name_sums(table, c) {
	let n = 0, ns = 0;

	for (const row of rows)
		for (let i = 0; i < row.n; i++)
			if (alike[row.class[i]] === alike[c]) {
				n++;
				ns += row.end[i] - row.start[i];
			}
	add_line(table, "same name", count(n) + ", total " + duration(ns) + ", average " + duration(Math.round(ns / n)));
}

function around(row, i) {
	return row.track.rows.filter((each) => each.lane === row.lane && each.depth < row.depth).map((each) => {
		const k = below(each.start, row.start[i], 0, true) - 1;

		return k >= 0 && each.end[k] >= row.end[i] ? name_of(each.class[k]) : null;
	}).filter((name) => name !== null);
}

function open_details(title) {
	const box = find("details");

	box.textContent = "";
	box.hidden = false;
	add(box, "h2", title);
	const close = add(box, "button", "\u00d7");
	close.id = "close";
	close.title = "Esc";
	close.addEventListener("click", clear);
	return add(box, "div", undefined, "columns");
}

function add_relations(table, slice, relation) {
	const { row, i } = slice, id = correlations_of(row)[i];

	if (!id)
		return;
	add_line(table, "correlation", count(id).replaceAll(",", ""));
	if (is_call(row, i) && relation.work.length) {
		const place = add_line(table, "caused", relation.work.length > 1 ? count(relation.work.length) + " slices: " : "");

		for (const work of relation.work.slice(0, LIST_MAX)) {
			add_link(place, name_of(work.row.class[work.i]) + ", " + duration(Math.abs(work.row.start[work.i] - row.start[i])) +
				 (work.row.start[work.i] < row.start[i] ? " before" : " later"), work);
			add(place, "br");
		}
	} else if (!is_call(row, i)) {
		const place = add_line(table, "caused by", relation.call ? undefined : "a call that is not in the recording");

		if (relation.call)
			add_link(place, name_of(relation.call.row.class[relation.call.i]) + " on " + relation.call.row.track.name + ", " +
				 duration(Math.abs(row.start[i] - relation.call.row.start[relation.call.i])) + " before", relation.call);
	}
}

function add_stack(columns, node) {
	const box = add(columns, "div"), list = [];

	for (; node; node = data.nodes[node - 1][0])
		list.push(data.nodes[node - 1][1]);
	add(box, "h2", "call stack, innermost first");
	const lines = add(box, "ol");
	for (const frame of list)
		add(lines, "li", frame);
}

function select(slice) {
	const { row, i } = slice, c = row.class[i], details = details_of(c), relation = related(correlations_of(row)[i]);
	const title = details.name || name_of(c), columns = open_details(title), table = add(add(columns, "div"), "table");
	const stack = details.stack || (relation.call && details_of(relation.call.row.class[relation.call.i]).stack), inside = around(row, i);

	selected = slice;
	span = null;
	arrows = relation.call ? relation.work.filter((work) => is_call(row, i) || (work.row === row && work.i === i)).slice(0, ARROWS_MAX)
			     .map((work) => ({ call: relation.call, work })) : [];
	add_line(table, "kind", kind_of(c).replaceAll("_", " ") + (details.scope ? " (scope)" : ""));
	add_line(table, "duration", exact(row.end[i] - row.start[i]));
	add_line(table, "start", moment(row.start[i]) + (data.start_unix_ns ? ", " + new Date((data.start_unix_ns + row.start[i]) / 1e6).toISOString() : ""));
	add_line(table, "where", group_name(row.track.group) + ", " + row.track.name);
	if (inside.length)
		add_line(table, "inside", inside.join(" / "));
	const more = add(add(columns, "div"), "table");
	for (const [key, value] of Object.entries(details))
		if (!["name", "stack", "scope"].includes(key))
			add_line(more, key, detail_text(key, value));
	if (details.bytes && row.end[i] > row.start[i] && !is_call(row, i))
		add_line(more, "bandwidth", (details.bytes / (row.end[i] - row.start[i])).toFixed(2) + " GB/s");
	add_relations(table, slice, relation);
	add_name_sums(more, c);
	if (stack)
		add_stack(columns, stack);
	ensure_visible(row);
}

/* Sums the time inside the selected span by name. */
function sum_span() {
	const sums = new Map();

	for (const row of rows)
		for (let i = below(row.end, span.from, 0, true); i < row.n && row.start[i] < span.to; i++) {
			const c = alike[row.class[i]], sum = sums.get(c) || { c, n: 0, ns: 0 };

			sum.n++;
			sum.ns += Math.min(row.end[i], span.to) - Math.max(row.start[i], span.from);
			sums.set(c, sum);
		}
	return [...sums.values()].sort((a, b) => b.ns - a.ns);
}

function show_span() {
	const sums = sum_span(), columns = open_details(duration(Math.round(span.to - span.from)) + " from " + moment(Math.max(0, span.from)));
	const table = add(add(columns, "div"), "table"), head = add(table, "tr");

	for (const [text, name] of [["name", ""], ["kind", ""], ["count", "number"], ["time", "number"], ["share of span", "number"]])
		add(head, "th", text, name);
	for (const { c, n, ns } of sums.slice(0, 60)) {
		const line = add(table, "tr"), cell = add(line, "td");

		add(cell, "i").style.background = palette[class_color[c]];
		cell.append(name_of(c));
		add(line, "td", kind_of(c).replaceAll("_", " "));
		add(line, "td", count(n), "number");
		add(line, "td", duration(Math.round(ns)), "number");
		add(line, "td", percent(ns, span.to - span.from), "number");
	}
	if (sums.length > 60)
		add(columns, "div", count(sums.length - 60) + " more names");
}

function clear() {
	selected = span = null;
	arrows = [];
	find("details").hidden = true;
	redraw();
}

/* --- search --- */

function search(text) {
	let test = null;
	const sums = new Map();

	if (text) {
		try {
			const regex = new RegExp(text, "i");
			test = (name) => regex.test(name);
		} catch (wrong) {
			test = (name) => name.toLowerCase().includes(text.toLowerCase());
		}
	}
	matches = test && Uint8Array.from(data.classes, (_, c) => test(name_of(c)) || test(details_of(c).name || "") ? 1 : 0);
	for (const row of rows) {
		row.hits = matches && new Uint32Array(row.n + 1);
		for (let i = 0; matches && i < row.n; i++) {
			const hit = matches[row.class[i]];

			row.hits[i + 1] = row.hits[i] + hit;
			if (hit) {
				const kind = kind_of(row.class[i]), sum = sums.get(kind) || { n: 0, ns: 0 };

				sum.n++;
				sum.ns += row.end[i] - row.start[i];
				sums.set(kind, sum);
			}
		}
	}
	find("found").textContent = !matches ? "" : sums.size ? [...sums].sort((a, b) => b[1].ns - a[1].ns).slice(0, 3)
		.map(([kind, sum]) => counted(sum.n, kind) + ": " + duration(sum.ns)).join(", ") : "nothing found";
	find("next").disabled = find("last").disabled = !sums.size;
	redraw();
	return sums;
}

/* Returns the index of the n-th match in a row. */
const hit_at = (row, n) => below(row.hits, n + 1) - 1;

/* Selects the match after or before the selection (or the edge of the view) by time; wraps around at the end. */
function step(forward, again = false) {
	const at = selected ? selected.row.start[selected.i] : forward ? view.from : view.to, own = selected ? rows.indexOf(selected.row) : -1;
	let best = null;

	rows.forEach((row, place) => {
		const from = below(row.start, at, 0, forward ? place <= own : place < own);
		const n = forward ? row.hits[from] : row.hits[from] - 1, i = n >= 0 && n < row.hits[row.n] ? hit_at(row, n) : -1;

		if (i >= 0 && (!best || (forward ? row.start[i] < best.row.start[best.i] : row.start[i] >= best.row.start[best.i])))
			best = { row, i };
	});
	if (best) {
		select(best);
		reveal(best);
	} else if (!again) {
		selected = null;
		show(forward ? whole.from : whole.to - (view.to - view.from), forward ? whole.from + (view.to - view.from) : whole.to);
		step(forward, true);
	}
}

/* --- pointer and keys --- */

function show_tip(event) {
	const slice = slice_at(event.offsetX, event.offsetY), box = tip.getBoundingClientRect();
	const track = item_at(event.offsetY)?.track, counter = track?.counter && event.offsetX > LABELS ? track.rows[0] : null;

	tip.hidden = !slice && !counter;
	tip.textContent = "";
	if (slice) {
		const c = slice.row.class[slice.i];

		add(tip, "b", name_of(c));
		add(tip, "span", kind_of(c).replaceAll("_", " ") + ", " + duration(slice.row.end[slice.i] - slice.row.start[slice.i]));
	} else if (counter) {
		const i = below(counter.start, ns_at(event.offsetX), 0, true) - 1;

		add(tip, "b", counter.track.name + (i < 0 ? "" : ": " + counter_text(counter.track, counter.value[i])));
		add(tip, "span", counter.track.counter.meaning);
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
	pointer = { x: event.offsetX };
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

const commands = {
	r: () => show(whole.from, whole.to),
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
		step(!event.shiftKey);
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
let typed = 0;
find("search").addEventListener("input", () => {
	clearTimeout(typed);
	typed = setTimeout(() => search(find("search").value), rows.length > 100000 ? 150 : 30);
});
find("next").addEventListener("click", () => step(true));
find("last").addEventListener("click", () => step(false));
find("all").addEventListener("click", commands.r);

/* --- initialization --- */

function set_theme(theme) {
	root.setAttribute("data-theme", theme);
	read_colors();
	redraw();
}

function about() {
	const kinds = new Map(), when = new Date(data.start_unix_ns / 1e6);

	for (const row of rows)
		for (const c of row.class)
			kinds.set(data.classes[c][0], (kinds.get(data.classes[c][0]) || 0) + 1);
	return [data.host, isNaN(when) ? "" : when.toISOString().slice(0, 19).replace("T", " ") + " UTC", duration(data.duration_ns),
		...["kernel", "memcpy", "memset", "graph_launch", "api_call", "nvtx"].filter((kind) => kinds.has(data.kinds.indexOf(kind)))
			.map((kind) => counted(kinds.get(data.kinds.indexOf(kind)), kind)), ...data.notes].filter(Boolean).join(" \u00b7 ");
}

function add_losses() {
	const box = add(document.querySelector("header"), "details", undefined, "loss");

	add(box, "summary", count(data.loss.length) + (data.loss.length === 1 ? " loss" : " losses") + ": the recording is incomplete");
	for (const [process, reason, n, detail] of data.loss)
		add(box, "div", reason.replaceAll("_", " ") + (n ? ", " + count(n) : "") + (detail ? " (" + detail + ")" : "") + (process ? ": " + process : ""));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => set_theme(dark.matches ? "dark" : "light"));
find("theme").addEventListener("click", () => set_theme(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));
find("about").textContent = about();
if (data.loss.length)
	add_losses();
lay_out();
set_theme(dark.matches ? "dark" : "light");
show(whole.from, whole.to);
draw();
window.timeline = { data, tracks, rows, view, whole, show, zoom, move, search, step, select, reveal, related, slice_at, correlations_of, name_of,
		    kind_of, details_of, draw, x_of, y_of, selection: () => selected, arrows: () => arrows };
