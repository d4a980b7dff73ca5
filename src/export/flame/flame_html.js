/* Draws the flame graphs of a page on canvases. <script id="data"> contains the data, see flame_html.c. */
(function () {
	"use strict";
	/* pixels; some browsers leave larger canvases blank */
	const ROW = 19, NARROW = 0.5, CANVAS_MAX = 16384;
	const FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
	const data = JSON.parse(document.getElementById("data").textContent);
	const find = (id) => document.getElementById(id);
	const root = document.documentElement, tip = find("tip");
	let colors = {}, pattern = null;

	/* --- texts --- */

	const three_digits = (v) => v.toFixed(v < 9.995 ? 2 : v < 99.95 ? 1 : 0);
	function duration(ns) {
		const units = ["ns", "us", "ms", "s"];
		let unit = 0;

		if (ns < 1000)
			return ns + " ns";
		while (ns >= 999.5 && unit < 3) {
			ns /= 1000;
			unit++;
		}
		return three_digits(ns) + " " + units[unit];
	}
	function bytes(n) {
		const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
		let unit = 0;

		for (; n >= 1024 && unit < 6; unit++)
			n /= 1024;
		return (unit ? n.toFixed(1) : n) + " " + units[unit];
	}
	const count = (n) => n.toLocaleString("en-US");
	const in_samples = (source) => source.kind === "kind-stalls";
	const amount = (source, n) => in_samples(source) ? count(n) : source.kind === "kind-memory" ? bytes(n) : duration(n);
	const items = (source, n) => in_samples(source) ? "" : ", " + count(n) + " " + source.items[n === 1 ? 0 : 1];
	const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + "%";

	/* --- boxes: parents precede children; `end` is the first box after a box's descendants --- */

	function section_of(source) {
		const n = source.depth.length, next = [];
		const s = { source, n, start: new Float64Array(n), end: new Uint32Array(n), parent: new Int32Array(n),
			    self: Float64Array.from(source.ns), hits: new Uint8Array(n), zoomed: 0,
			    total: n ? source.ns[0] : 0, levels: 0 };
		const open = [];

		for (let i = 0; i < n; i++) {
			const depth = source.depth[i];

			s.start[i] = next[depth] || 0;
			next[depth] = s.start[i] + source.ns[i];
			next[depth + 1] = s.start[i];
			while (open.length > depth)
				s.end[open.pop()] = i;
			s.parent[i] = depth ? open[depth - 1] : -1;
			if (depth)
				s.self[s.parent[i]] -= source.ns[i];
			open.push(i);
			s.levels = Math.max(s.levels, depth + 1);
		}
		while (open.length)
			s.end[open.pop()] = n;
		return s;
	}

	const is_rest = (s, i) => s.source.rest[i] !== undefined;
	function name_of(s, i) {
		const rest = s.source.rest[i];

		return rest === undefined ? data.frames[s.source.frame[i]][0]
					  : count(rest) + (rest === 1 ? " smaller frame" : " smaller frames");
	}

	function color_of(s, i) {
		if (s.hits[i])
			return "hit";
		if (is_rest(s, i))
			return "rest";
		if (s.source.step) {
			const step = s.source.step[i];

			return step > 0 ? "g" + step : step < 0 ? "s" + -step : "d0";
		}
		return i || s.merged ? data.classes[data.frames[s.source.frame[i]][1]] : s.source.kind;
	}

	/* --- callers and callees of one function, merged over all its occurrences --- */

	/* The outermost boxes of a frame. */
	function places_of(s, frame) {
		const places = [];

		for (let i = 1; i < s.n; i++)
			if (!is_rest(s, i) && s.source.frame[i] === frame && (!places.length || i >= s.end[places[places.length - 1]]))
				places.push(i);
		return places;
	}

	function add_to(node, source, i, part) {
		node.ns += source.ns[part];
		node.count += source.count[part];
		node.rest += source.rest[i] || 0;
	}

	/* Finds or adds the child of a merged node that box i belongs to. */
	function child_of(node, source, i) {
		const key = source.rest[i] === undefined ? source.frame[i] : -1;
		let child = node.children.get(key);

		if (!child)
			node.children.set(key, child = { frame: source.frame[i], ns: 0, count: 0, rest: 0, children: new Map() });
		return child;
	}

	function merge_outwards(s, root, place) {
		let node = root;

		for (let i = s.parent[place]; i > 0; i = s.parent[i])
			add_to(node = child_of(node, s.source, i), s.source, i, place);
	}

	function merge_inwards(s, root, place) {
		const open = [root], base = s.source.depth[place];

		for (let i = place + 1; i < s.end[place]; i++) {
			const depth = s.source.depth[i] - base;

			add_to(open[depth] = child_of(open[depth - 1], s.source, i), s.source, i, i);
		}
	}

	/* Converts a merged tree to boxes, without a comparison: frames that exist only in the recording before have no boxes. */
	function boxes_of(s, root) {
		const old = s.source;
		const source = { title: old.title, kind: old.kind, items: old.items, head: old.head, depth: [], frame: [], ns: [], count: [],
				 rest: {} };

		(function add(node, depth) {
			if (node.rest)
				source.rest[source.ns.length] = node.rest;
			source.depth.push(depth);
			source.frame.push(node.frame);
			source.ns.push(node.ns);
			source.count.push(node.count);
			for (const child of [...node.children.values()].sort((a, b) => !!a.rest - !!b.rest || b.ns - a.ns))
				add(child, depth + 1);
		})(root, 0);
		return source;
	}

	/* Merges the callers or the callees of a frame in a section. */
	function merged_section(s, frame, places, merge) {
		const root = { frame, ns: 0, count: 0, rest: 0, children: new Map() };

		for (const place of places) {
			add_to(root, s.source, place, place);
			merge(s, root, place);
		}
		const view = section_of(boxes_of(s, root));

		view.total = s.total;
		view.merged = true;
		return view;
	}

	/* --- drawing --- */

	function read_colors() {
		const style = getComputedStyle(root);

		colors = {};
		for (const name of [...data.classes, ...data.sections.map((source) => source.kind), "rest", "hit", "on-frame", "on-strong", "page", "d0", "g1", "g2", "g3",
				    "g4", "g5", "s1", "s2", "s3", "s4", "s5"])
			colors[name] = style.getPropertyValue("--" + name).trim();
	}

	/* Visible part of a section: left edge in ns, and pixels per ns. */
	function view_of(s) {
		return { from: s.start[s.zoomed], scale: s.canvas.clientWidth / (s.source.ns[s.zoomed] || 1) };
	}

	/* Counts the levels with a visible box; zooming never reduces the height of the graph. */
	function levels_of(s, view, width) {
		let levels = 1;

		for (let i = 0; i < s.n;) {
			const x = (s.start[i] - view.from) * view.scale, to = x + s.source.ns[i] * view.scale;

			if (Math.min(to, width) - Math.max(x, 0) < NARROW) {
				i = s.end[i];
				continue;
			}
			levels = Math.max(levels, s.source.depth[i] + 1);
			i++;
		}
		if (!s.zoomed)
			s.least_levels = levels;
		return Math.max(levels, s.least_levels || 0);
	}

	function is_above(s, i) {
		return i < s.zoomed && s.end[i] > s.zoomed;
	}

	function draw_text(context, text, x, y, width, char_width) {
		const room = Math.floor((width - 6) / char_width);

		if (room >= 4)
			context.fillText(text.length <= room ? text : text.slice(0, room - 1) + "\u2026", x + 3, y + 13);
	}

	/* Callers are drawn above the function, the nearest at the bottom. */
	const row_of = (s, depth) => s.upwards ? s.rows - 1 - depth : depth;

	function draw_box(s, context, i, x, width, char_width) {
		const y = row_of(s, s.source.depth[i]) * ROW, color = color_of(s, i), gap = width > 4 ? 0.7 : 0;
		const shade = s.source.step || is_rest(s, i) || s.hits[i] ? 0 : s.source.frame[i] * 7 % 4;

		context.globalAlpha = (is_above(s, i) ? 0.5 : 1) * (1 - 0.08 * shade);
		context.fillStyle = colors[color];
		context.fillRect(x, y, width - gap, ROW - 1);
		context.globalAlpha = 1;
		context.fillStyle = colors[/^[gs][45]$|^hit$/.test(color) ? "on-strong" : "on-frame"];
		draw_text(context, name_of(s, i), x, y, width, char_width);
	}

	function draw(s) {
		const canvas = s.canvas, width = canvas.clientWidth;
		const context = canvas.getContext("2d"), view = view_of(s), runs = [];

		s.rows = levels_of(s, view, width);
		const height = s.rows * ROW;
		const ratio = Math.min(window.devicePixelRatio || 1, CANVAS_MAX / height);

		canvas.style.height = height + "px";
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		context.scale(ratio, ratio);
		context.font = FONT;
		const char_width = context.measureText("m").width;

		/* draws adjacent boxes that are too narrow as one strip */
		function flush(depth) {
			const run = runs[depth];

			if (run && run.to - run.from >= 0.3) {
				context.fillStyle = colors.rest;
				context.fillRect(run.from, row_of(s, depth) * ROW, run.to - run.from, ROW - 1);
			}
			runs[depth] = null;
		}
		for (let i = 0; i < s.n;) {
			const depth = s.source.depth[i];
			let x = (s.start[i] - view.from) * view.scale, to = x + s.source.ns[i] * view.scale;

			x = Math.max(x, 0);
			to = Math.min(to, width);
			if (to - x >= NARROW) {
				draw_box(s, context, i, x, to - x, char_width);
				i++;
				continue;
			}
			if (to > x) {
				if (runs[depth] && x - runs[depth].to > 0.01)
					flush(depth);
				if (runs[depth])
					runs[depth].to = to;
				else
					runs[depth] = { from: x, to };
			}
			i = s.end[i];
		}
		for (let depth = 0; depth < runs.length; depth++)
			flush(depth);
	}

	const draw_all = () => shown.forEach((s) => s.n && draw(s));

	/* --- zoom, search, tooltips --- */

	function zoom(s, i) {
		s.zoomed = i;
		chosen = i ? { s, i } : null;
		update_buttons();
		draw(s);
		describe(s);
	}

	function update_buttons() {
		find("reset").disabled = shown === sections && sections.every((each) => !each.zoomed);
		find("around").disabled = selected_frame() < 0;
	}

	function reset() {
		close_function();
		for (const s of sections)
			if (s.n)
				zoom(s, 0);
		tip.hidden = true;
	}

	/* Returns the box at a position of the canvas, or -1. */
	function box_at(s, x, y) {
		const view = view_of(s), ns = view.from + x / view.scale, depth = row_of(s, Math.floor(y / ROW));
		let i = 0;

		if (depth < 0 || depth >= s.levels || x < 0 || x >= s.canvas.clientWidth)
			return -1;
		while (s.source.depth[i] < depth) {
			const end = s.end[i];

			for (i++; i < end && s.start[i] + s.source.ns[i] <= ns;)
				i = s.end[i];
			if (i >= end)
				return -1;
		}
		return i;
	}

	function show_tip(s, i, event) {
		const source = s.source, frame = data.frames[source.frame[i]];
		const lines = [amount(source, source.ns[i]) + ", " + percent(source.ns[i], s.total) + " of " + source.title +
			       items(source, source.count[i])];

		if (!data.inverted && !s.upwards && s.self[i] > 0 && s.self[i] < source.ns[i])
			lines.push("self: " + amount(source, s.self[i]) + ", " + percent(s.self[i], s.total));
		if (s.zoomed && !is_above(s, i))
			lines.push(percent(source.ns[i], source.ns[s.zoomed]) + " of the zoomed frame");
		if (source.before)
			lines.push("before: " + amount(source, source.before[i]));
		if (!is_rest(s, i)) {
			if (frame[2])
				lines.push(frame[2]);
			if (frame[3])
				lines.push(frame[3] + (frame[4] ? ":" + frame[4] : ""));
			lines.push(data.class_names[frame[1]]);
		}
		tip.textContent = "";
		tip.append(Object.assign(document.createElement("b"), { textContent: name_of(s, i) }));
		for (const line of lines)
			tip.append(Object.assign(document.createElement("span"), { textContent: line }));
		tip.hidden = false;
		const box = tip.getBoundingClientRect();
		tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
		tip.style.top = (event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10
									       : event.clientY + 18) + "px";
	}

	/* Sums the time of matching frames; a match below a match counts once. Boxes for omitted frames have no names. */
	function search(text) {
		const test = text ? name_test(text) : null;
		const matches = data.frames.map((frame) => test !== null && (test(frame[0]) || test(frame[2] || "")));
		pattern = text || null;
		for (const s of shown) {
			let covered = 0;

			s.found_ns = s.found = 0;
			s.maybe_more = false;
			for (let i = 0; i < s.n; i++) {
				s.hits[i] = (i > 0 || s.merged) && !is_rest(s, i) && matches[s.source.frame[i]] ? 1 : 0;
				s.found += s.hits[i];
				if (is_rest(s, i) && i >= covered)
					s.maybe_more = true;
				if (s.hits[i] && i >= covered) {
					s.found_ns += s.source.ns[i];
					covered = s.end[i];
				}
			}
			describe(s);
		}
		update_buttons();
		draw_all();
	}

	/* Returns the zoomed function or, if none, the matching one with the most time; -1: none. */
	function selected_frame() {
		const times = new Map();
		let best = -1;

		if (chosen && !is_rest(chosen.s, chosen.i))
			return chosen.s.source.frame[chosen.i];
		for (const s of pattern ? shown : [])
			for (let i = 1; i < s.n; i++)
				if (s.hits[i])
					times.set(s.source.frame[i], (times.get(s.source.frame[i]) || 0) + s.source.ns[i]);
		for (const [frame, ns] of times)
			if (best < 0 || ns > times.get(best))
				best = frame;
		return best;
	}

	function describe(s) {
		const parts = [];

		if (s.zoomed)
			parts.push("zoomed to " + name_of(s, s.zoomed) + ": " + amount(s.source, s.source.ns[s.zoomed]) + ", " +
				   percent(s.source.ns[s.zoomed], s.total));
		if (pattern)
			parts.push("found " + (s.maybe_more ? "at least " : "") + percent(s.found_ns, s.total) + " (" + amount(s.source, s.found_ns) + ") in " +
				   count(s.found) + (s.found === 1 ? " frame" : " frames"));
		s.note.textContent = parts.join(" \u00b7 ");
	}

	function add_text(parent, tag, text) {
		parent.append(Object.assign(document.createElement(tag), { textContent: text }));
	}

	function show_function(frame) {
		const views = [], place = find("function");

		place.textContent = "";
		add_text(place, "h2", data.frames[frame][0]);
		if (sections[0].source.before)
			add_text(place, "p", "in this recording, not compared");
		for (const s of sections) {
			const places = s.n ? places_of(s, frame) : [];

			if (!places.length)
				continue;
			const up = merged_section(s, frame, places, data.inverted ? merge_inwards : merge_outwards);
			const down = merged_section(s, frame, places, data.inverted ? merge_outwards : merge_inwards);
			const unseen = Object.keys(s.source.rest).length ? "at least " : "", ns = up.source.ns[0];

			add_text(place, "p", unseen + amount(s.source, ns) + ", " + percent(ns, s.total) + " of " + s.source.title +
				 items(s.source, up.source.count[0]) +
				 (data.inverted || !down.self[0] ? "" : "; self " + amount(s.source, down.self[0]) + ", " +
								       percent(down.self[0], s.total)));
			for (const [view, text] of [[up, "callers"], [down, "callees"]]) {
				add_text(place, "h3", text);
				place.lastChild.append(view.note = document.createElement("small"));
				view.upwards = view === up;
				add_canvas(place, view, text + " of " + data.frames[frame][0]);
				views.push(view);
			}
		}
		shown = views;
		chosen = null;
		find("graphs").hidden = find("kinds").hidden = true;
		place.hidden = false;
		tip.hidden = true;
		search(pattern);
		scrollTo(0, views[0].canvas.offsetTop + views[0].canvas.offsetHeight - 0.6 * innerHeight);
	}

	function close_function() {
		if (shown === sections)
			return;
		shown = sections;
		chosen = null;
		find("graphs").hidden = find("kinds").hidden = false;
		find("function").hidden = true;
		search(pattern);
	}

	/* --- the page --- */

	function add_section(source, index) {
		const s = section_of(source), head = document.createElement("h2");

		s.note = document.createElement("small");
		head.append(source.head, s.note);
		head.id = "graph-" + index;
		find("graphs").append(head);
		if (data.sections.length > 1)
			find("kinds").append(Object.assign(document.createElement("a"), { href: "#" + head.id,
											  textContent: source.head }));
		if (!s.n) {
			find("graphs").append(Object.assign(document.createElement("p"), { className: "empty",
									      textContent: "nothing recorded" }));
			return s;
		}
		add_canvas(find("graphs"), s, "flame graph: " + source.head);
		return s;
	}

	function add_canvas(parent, s, label) {
		s.canvas = document.createElement("canvas");
		s.canvas.tabIndex = 0;
		s.canvas.setAttribute("role", "img");
		s.canvas.setAttribute("aria-label", label);
		parent.append(s.canvas);
		s.canvas.addEventListener("mousemove", (event) => {
			const i = box_at(s, event.offsetX, event.offsetY);

			if (i < 0)
				tip.hidden = true;
			else
				show_tip(s, i, event);
		});
		s.canvas.addEventListener("mouseleave", () => { tip.hidden = true; });
		s.canvas.addEventListener("click", (event) => {
			const i = box_at(s, event.offsetX, event.offsetY);

			if (i > 0 && event.shiftKey && !is_rest(s, i))
				show_function(s.source.frame[i]);
			else if (i >= 0)
				zoom(s, is_rest(s, i) ? s.parent[i] : i);
		});
		s.canvas.addEventListener("keydown", (event) => {
			if (event.key === "ArrowUp" && s.zoomed) {
				zoom(s, s.parent[s.zoomed]);
				event.preventDefault();
			}
		});
	}

	function set_theme(theme) {
		root.setAttribute("data-theme", theme);
		read_colors();
		draw_all();
	}

	const dark = window.matchMedia("(prefers-color-scheme: dark)");
	let chosen = null; /* the box last zoomed to */
	const sections = data.sections.map(add_section);
	let shown = sections; /* or the sections of one function */
	set_theme(dark.matches ? "dark" : "light");
	dark.addEventListener("change", () => set_theme(dark.matches ? "dark" : "light"));
	find("theme").addEventListener("click", () => set_theme(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));
	find("reset").addEventListener("click", reset);
	find("around").addEventListener("click", () => show_function(selected_frame()));
	find("search").addEventListener("input", () => search(find("search").value));
	window.addEventListener("resize", draw_all);
	let width = root.clientWidth;
	/* a cross-process iframe gets its size after its script has run, without a resize event */
	new ResizeObserver(() => {
		if (width !== root.clientWidth)
			draw_all();
		width = root.clientWidth;
	}).observe(root);
	window.addEventListener("keydown", (event) => {
		const typing = event.target === find("search");

		if (event.key === "Escape") {
			if (find("search").value) {
				find("search").value = "";
				search("");
			}
			find("search").blur();
			reset();
		} else if (event.key === "c" && !typing && !event.ctrlKey && !event.metaKey && selected_frame() >= 0) {
			show_function(selected_frame());
		} else if (event.key === "r" && !typing && !event.ctrlKey && !event.metaKey) {
			reset();
		} else if (event.key === "/" && !typing) {
			find("search").focus();
			event.preventDefault();
		}
	});
	window.flame = { sections, zoom, search, reset, box_at, name_of, row: ROW, show_function, views: () => shown };
})();
