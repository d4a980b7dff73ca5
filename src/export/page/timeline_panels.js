/* What the panel at the bottom shows: a slice, the sums of a span, the longest slices. */
const is_call = (row, i) => kind_of(row.class[i]) === "api_call";
const is_path = (row, i) => kind_of(row.class[i]) === "critical_path";

/* Finds the slices with a correlation id: the call, and the work that it caused. */
function related(id) {
	const found = { call: null, work: [] };

	for (const row of id ? rows_related(id) : []) {
		const ids = correlations_of(row);

		for (let i = ids.indexOf(id); i >= 0; i = ids.indexOf(id, i + 1))
			if (is_call(row, i))
				found.call = found.call || { row, i };
			else if (!is_path(row, i))
				found.work.push({ row, i });
	}
	return found;
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
		return "0x" + BigInt(value).toString(16);
	if (/bytes$/.test(key))
		return value < 1024 ? value + " B" : bytes_text(value) + " (" + count(value) + " bytes)";
	return String(value);
}

/* Adds the count, total and average duration of the slices with the same name. */
function add_name_sums(table, c) {
	let n = 0, ns = 0;

	if (served) {
		const sum = sums_in(null, () => selected && select(selected))?.get(alike[c]);

		({ n, ns } = sum || { n, ns });
	}
	for (const row of served ? [] : rows)
		for (let i = 0; i < row.n; i++)
			if (alike[row.class[i]] === alike[c]) {
				n++;
				ns += row.end[i] - row.start[i];
			}
	add_line(table, "same name", n ? count(n) + ", total " + duration(ns) + ", average " + duration(Math.round(ns / n)) : "\u2026");
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
	if (is_path(row, i)) {
		const place = add_line(table, "of", "");

		for (const each of [relation.call, ...relation.work].filter(Boolean).slice(0, LIST_MAX)) {
			add_link(place, name_of(each.row.class[each.i]) + " on " + each.row.track.name, each);
			add(place, "br");
		}
	} else if (is_call(row, i) && relation.work.length) {
		const place = add_line(table, "caused", relation.work.length > 1 ? count(relation.work.length) + " slices: " : "");

		for (const work of relation.work.slice(0, LIST_MAX)) {
			add_link(place, name_of(work.row.class[work.i]) + ", " + duration(Math.abs(work.row.start[work.i] - row.start[i])) +
				 (work.row.start[work.i] < row.start[i] ? " before" : " later"), work);
			add(place, "br");
		}
	} else if (!is_call(row, i)) {
		const place = add_line(table, "caused by", relation.call ? undefined : is_asked(id) ? "\u2026" : "a call that is not in the recording");

		if (relation.call)
			add_link(place, name_of(relation.call.row.class[relation.call.i]) + " on " + relation.call.row.track.name + ", " +
				 duration(Math.abs(row.start[i] - relation.call.row.start[relation.call.i])) + " before", relation.call);
	}
}

/* The slices of a collective, the one that came last first. */
const members_of = ({ row, i }) => row.members?.get(i) || [];

function add_collective(table, slice) {
	const members = members_of(slice), own = members.find((member) => member.row === slice.row && member.i === slice.i);
	const text = (member) => member.row.track.name + " on " + group_name(member.row.track.group);

	if (members.length < 2)
		return;
	if (own.wait) {
		add_link(add_line(table, "waited", duration(own.wait) + " for "), text(members[0]), members[0]);
		return;
	}
	const place = add_line(table, "joins", members.some((member) => member.wait) ? "" : "at once with ");
	for (const member of members.filter((each) => each !== own).slice(0, LIST_MAX)) {
		add_link(place, text(member) + (member.wait ? ", which waited " + duration(member.wait) : ""), member);
		add(place, "br");
	}
}

function add_stack(columns, node) {
	const box = add(columns, "div"), list = [];

	for (; node; node = data.nodes[node - 1][0])
		list.push(data.nodes[node - 1][1]);
	add(box, "h2", "call stack, innermost first");
	const lines = add(box, "ol");
	for (const frame of list.slice(0, STACK_MAX))
		add(lines, "li", frame);
	if (list.length > STACK_MAX)
		add(lines, "li", count(list.length - STACK_MAX) + " more");
}

function select(slice) {
	if (slice.row.more?.[slice.i]) {
		select_merged(slice);
		return;
	}
	const { row, i } = slice, c = row.class[i], details = details_of(c), id = correlations_of(row)[i], relation = related(id);
	const title = details.name || name_of(c), columns = open_details(title), table = add(add(columns, "div"), "table");
	const stack = details.stack || (relation.call && details_of(relation.call.row.class[relation.call.i]).stack), inside = around(row, i);

	selected = slice;
	span = null;
	arrows = relation.call ? relation.work.filter((work) => is_call(row, i) || (work.row.track === row.track && work.row.start[work.i] === row.start[i])).slice(0, ARROWS_MAX)
			     .map((work) => ({ from: relation.call, to: work })) : [];
	arrows.push(...members_of(slice).slice(1, ARROWS_MAX).map((member) => ({ from: members_of(slice)[0], to: member })));
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
	add_collective(table, slice);
	add_name_sums(more, c);
	if (stack)
		add_stack(columns, stack);
	ensure_visible(row);
	if (id && is_asked(id))
		load_related(id).catch(show_failure);
}

/* Sums the time inside a part by name. */
function sum_slices(part) {
	const sums = new Map();

	for (const row of rows)
		for (let i = below(row.end, part.from, 0, true); i < row.n && row.start[i] < part.to; i++) {
			const c = alike[row.class[i]], sum = sums.get(c) || { c, n: 0, ns: 0 };

			sum.n++;
			sum.ns += Math.min(row.end[i], part.to) - Math.max(row.start[i], part.from);
			sums.set(c, sum);
		}
	return sums;
}

/* Adds a choice among kinds of slices to a panel. `show` is called after another choice. */
let chosen_kind = "";
function add_choice(columns, kinds, show) {
	const choice = add(add(columns, "div"), "select");

	choice.setAttribute("aria-label", "kind of slices");
	for (const kind of ["", ...kinds])
		add(choice, "option", kind ? kind.replaceAll("_", " ") : "all kinds").value = kind;
	choice.value = chosen_kind = kinds.includes(chosen_kind) ? chosen_kind : "";
	choice.addEventListener("change", () => {
		chosen_kind = choice.value;
		show();
		find("details").querySelector("select").focus();
	});
}

/* Adds a table with heads: [[text, class],…]. */
function add_table(columns, heads) {
	const table = add(add(columns, "div", undefined, "wide"), "table"), head = add(table, "tr");

	for (const [text, name] of heads)
		add(head, "th", text, name);
	return table;
}

function show_span() {
	const known = sums_in(span, () => span && show_span()), sums = [...(known || new Map()).values()].sort((a, b) => b.ns - a.ns);
	const columns = open_details(duration(Math.round(span.to - span.from)) + " from " + moment(Math.max(0, span.from)) + (known ? "" : " \u2026"));

	add_choice(columns, [...new Set(sums.map(({ c }) => kind_of(c)))].sort(), show_span);
	const shown = sums.filter(({ c }) => !chosen_kind || kind_of(c) === chosen_kind);
	const table = add_table(columns, [["name", ""], ["kind", ""], ["count", "number"], ["time", "number"], ["share of span", "number"]]);
	for (const { c, n, ns } of shown.slice(0, 60)) {
		const line = add(table, "tr"), cell = add(line, "td");

		add(cell, "i").style.background = palette[class_color[c]];
		cell.append(name_of(c));
		add(line, "td", kind_of(c).replaceAll("_", " "), "kind");
		add(line, "td", count(n), "number");
		add(line, "td", duration(Math.round(ns)), "number");
		add(line, "td", percent(ns, span.to - span.from), "number");
	}
	if (shown.length > 60)
		add(columns, "div", count(shown.length - 60) + (shown.length === 61 ? " more name" : " more names"));
}

/* What the critical path was made of: the table of the span, or of all of it. */
function show_path() {
	const row = rows.find((each) => each.track.kind === "path");

	span = span || { from: row.start[0], to: row.end[row.n - 1] };
	chosen_kind = "critical_path";
	show_span();
	ensure_visible(row);
	redraw();
}

/* Returns the longest slices of a kind (of all: "") that overlap the span, or the recording. */
function longest(kind, most) {
	const part = span || whole, long = data.classes.map((of, c) => of && (!kind || kind_of(c) === kind));
	let list = [], least = -1;
	const cut = () => {
		list.sort((a, b) => b.ns - a.ns);
		list = list.slice(0, most);
		least = list.length === most ? list[most - 1].ns : -1;
	};

	for (const row of rows)
		for (let i = below(row.end, part.from); i < row.n && row.start[i] < part.to; i++) {
			const ns = row.end[i] - row.start[i];

			if (ns > least && long[row.class[i]] && !row.more?.[i] && list.push({ row, i, ns }) === 8 * most)
				cut();
		}
	cut();
	return list;
}

/* Selects a slice, and zooms in if it is too small to be seen. */
function jump({ row, i }) {
	const ns = row.end[i] - row.start[i], middle = (row.start[i] + row.end[i]) / 2;

	select({ row, i });
	if (ns * scale() < 4)
		show(middle - 40 * ns, middle + 40 * ns);
	reveal({ row, i });
}

function show_longest() {
	const columns = open_details("longest slices" + (span ? " of the span" : served ? " here" : "")), kinds = new Set(data.classes.map((_, c) => kind_of(c)));

	add_choice(columns, [...kinds].sort(), show_longest);
	const table = add_table(columns, [["name", ""], ["kind", ""], ["duration", "number"], ["start", "number"], ["where", ""]]);
	for (const slice of longest(chosen_kind, 40)) {
		const line = add(table, "tr"), c = slice.row.class[slice.i], cell = add(line, "td");

		add(cell, "i").style.background = palette[class_color[c]];
		add(cell, "button", name_of(c) || "(no name)", "link").addEventListener("click", () => jump(slice));
		add(line, "td", kind_of(c).replaceAll("_", " "), "kind");
		add(line, "td", duration(slice.ns), "number");
		add(line, "td", duration(slice.row.start[slice.i]), "number");
		add(line, "td", slice.row.track.name + (data.groups.length > 2 ? ", " + group_name(slice.row.track.group) : ""));
	}
	find("details").querySelector("select").focus();
}

function clear() {
	selected = span = null;
	arrows = [];
	tip.hidden = find("details").hidden = true;
	redraw();
}

