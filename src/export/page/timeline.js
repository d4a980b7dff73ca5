/*
 * Draws the timeline of a page on canvases. What there is to draw stands in its elements "data" and "columns", see
 * timeline.h. Slices of a row follow one another, so binary search finds what is visible; slices that are narrower than a pixel are
 * merged into one, whose strength is the part of the pixel's time that they fill (prefix sums of durations).
 */
(async function () {
	"use strict";
	const ROW = 19, HEAD = 24, COUNTER = 36, GAP = 5, LABELS = 232, RULER = 26, CHAR = 6.63; /* pixels */
	const FONT = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', LABEL_FONT = '12px system-ui, "DejaVu Sans", sans-serif';
	const ORDER = { loss: 0, ranges: 1, stream: 1, events: 1, thread: 2, sync: 3, memory: 4, overhead: 5, counter: 6 };
	const NOUNS = { kernel: "kernel kernels", memcpy: "copy copies", memset: "memset memsets", graph_launch: "graph graphs", api_call: "call calls",
			nvtx: "range ranges", gpu_range: "GPU-range GPU-ranges", synchronization: "wait waits", cuda_event: "event events",
			allocation: "allocation allocations", overhead: "overhead overheads", loss: "loss losses" };
	const ARROWS_MAX = 300, LIST_MAX = 12;
	const find = (id) => document.getElementById(id), root = document.documentElement;
	const data = JSON.parse(find("data").textContent);

	/* --- texts --- */

	const three_digits = (v) => v.toFixed(v < 9.995 ? 2 : v < 99.95 ? 1 : 0);
	const count = (n) => n.toLocaleString("en-US");
	function scaled(value, units, step) {
		let unit = 0;

		while (value >= step - step / 2000 && unit < units.length - 1) {
			value /= step;
			unit++;
		}
		return (unit || value % 1 ? three_digits(value) : value) + " " + units[unit];
	}
	const duration = (ns) => scaled(ns, ["ns", "us", "ms", "s"], 1000);
	const bytes_text = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
	const exact = (ns) => ns < 1000 ? duration(ns) : duration(ns) + " (" + count(ns) + " ns)";
	const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + "%";
	const moment = (ns) => (ns / 1e9).toFixed(9).replace(/(\.\d{3})(\d{3})(\d{3})$/, "$1\u202f$2\u202f$3") + " s";
	const counted = (n, kind) => count(n) + " " + (NOUNS[kind] ? NOUNS[kind].split(" ")[n === 1 ? 0 : 1] : kind.replaceAll("_", " "));

	/* --- columns --- */

	async function read_columns() {
		const text = atob(find("columns").textContent), bytes = new Uint8Array(text.length);

		for (let i = 0; i < text.length; i++)
			bytes[i] = text.charCodeAt(i);
		find("columns").remove();
		return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
	}

	function numbers(bytes) {
		let at = 0;

		return () => {
			let v = bytes[at++], scale = 128;

			if (v < 128)
				return v;
			for (v -= 128; bytes[at] >= 128; scale *= 128)
				v += (bytes[at++] - 128) * scale;
			return v + bytes[at++] * scale;
		};
	}

	function read_row(track, n, [gaps, durations, classes, correlations]) {
		const row = { track, n, start: new Float64Array(n), end: new Float64Array(n), class: new Uint32Array(n),
			      busy: new Float64Array(n + 1), packed: correlations, hits: null };
		const gap = numbers(gaps), long = numbers(durations), kind = numbers(classes);

		for (let i = 0, now = 0; i < n; i++) {
			const ns = long();

			row.start[i] = now += gap();
			row.end[i] = now += ns;
			row.class[i] = kind();
			row.busy[i + 1] = row.busy[i] + ns;
		}
		return row;
	}

	/* A sum is shown as its growth a second; then a value holds up to its reading, else from its reading on. */
	function read_counter(track, n, [gaps, values]) {
		const gap = numbers(gaps), view = new DataView(values.buffer, values.byteOffset), sum = track.counter.reading === "sum";
		const row = { track, n, start: new Float64Array(n), value: new Float64Array(n), least: 0, most: 0 };

		for (let i = 0, now = 0, last = 0; i < n; i++) {
			const v = view.getFloat64(8 * i, true);

			row.start[i] = now += gap();
			row.value[i] = sum ? 0 : v;
			if (sum && i)
				row.value[i - 1] = 1e9 * (v - last) / (row.start[i] - row.start[i - 1] || 1);
			last = v;
		}
		for (const v of row.value) {
			row.least = Math.min(row.least, v);
			row.most = Math.max(row.most, v);
		}
		return row;
	}

	function read_tracks(bytes) {
		let at = 0;
		const take = (length) => bytes.subarray(at, at += length);

		return data.tracks.map(([group, kind, name, id, rows, counter]) => {
			const track = { group: counter ? group + data.groups.length : group, kind, name, id, counter };

			track.rows = rows.map(([lane, depth, n, ...lengths]) =>
				Object.assign((counter ? read_counter : read_row)(track, n, lengths.map(take)), { lane, depth }));
			track.rows.sort((a, b) => a.lane - b.lane || a.depth - b.depth);
			track.rows.forEach((row, i) => { row.place = i; });
			return track;
		}).sort((a, b) => a.group - b.group || ORDER[a.kind] - ORDER[b.kind] || (counter_name(a) < counter_name(b) ? -1 : a.id - b.id) ||
				  (a.kind < b.kind ? -1 : 1));
	}
	/* Counters are groups of their own, behind all others: streams and the threads that feed them stand close together. */
	const group_name = (group) => data.groups[group % data.groups.length][0] + (group < data.groups.length ? "" : " counters");
	const counter_name = (track) => track.kind === "counter" ? track.name : "";

	function correlations_of(row) {
		if (row.packed) {
			const next = numbers(row.packed);

			row.correlation = new Float64Array(row.n);
			for (let i = 0, last = 0; i < row.n; i++) {
				const v = next() - 1;

				if (v >= 0)
					row.correlation[i] = last += v % 2 ? -(v + 1) / 2 : v / 2;
			}
			row.packed = null;
		}
		return row.correlation;
	}

	/* How many of a row's first values are below a limit; or, with `also`, not above it. */
	function below(values, limit, from = 0, also = false) {
		let low = from, high = values.length;

		while (low < high) {
			const middle = (low + high) >>> 1;

			if (values[middle] < limit || (also && values[middle] === limit))
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	/* --- classes --- */

	const own_class = (c) => typeof data.classes[c][1] === "number" ? data.classes[c][1] : c;
	const name_of = (c) => data.classes[own_class(c)][1];
	const kind_of = (c) => data.kinds[data.classes[c][0]];
	const details_of = (c) => Object.assign({}, data.classes[own_class(c)][2], data.classes[c][2]);

	function color_of(c) {
		const kind = kind_of(c), fixed = { memcpy: 1, memset: 2, graph_launch: 3, synchronization: 4, cuda_event: 4, allocation: 5, overhead: 5,
						   loss: 6 }[kind];
		let hash = 7;

		if (fixed)
			return fixed - 1;
		for (const letter of name_of(c).slice(0, 80))
			hash = (Math.imul(hash, 31) + letter.codePointAt(0)) >>> 0;
		return (kind === "api_call" ? 22 : kind === "nvtx" || kind === "gpu_range" ? 38 : 6) + ((hash ^ hash >>> 11) >>> 0) % 16;
	}

	function read_colors() {
		const style = getComputedStyle(root), at = (name) => style.getPropertyValue("--" + name).trim();

		colors = {};
		for (const name of ["page", "text", "soft", "line", "faint", "accent", "panel", "on-slice", "hit", "dim", "counter", "counter-line", "loss"])
			colors[name] = at(name);
		palette = ["copy", "set", "graph", "sync", "note", "loss"].map(at);
		for (const [strength, light, turn] of [["strong", "strong-light", 95], ["weak", "weak-light", 200], ["strong", "weak-light", 255]])
			for (let i = 0; i < 16; i++)
				palette.push(`hsl(${Math.round(turn + i * 137.5) % 360} ${at(strength)} ${at(light)})`);
	}

	/* --- the page --- */

	document.body.insertAdjacentHTML("beforeend", `<header><div class="bar"><h1 id="title"></h1>
<input id="search" type="search" placeholder="Search (press /)" aria-label="search, regular expression" title="names; a regular expression">
<button id="last" disabled title="Shift+Enter">&#x2039;</button><button id="next" disabled title="Enter">&#x203a;</button><span id="found"></span>
<button id="all" title="r">Show all</button><button id="theme">Light / dark</button></div>
<p id="about"></p><p>wheel or <kbd>W</kbd> <kbd>S</kbd>: zoom &middot; drag or <kbd>A</kbd> <kbd>D</kbd> <kbd>&larr;</kbd> <kbd>&rarr;</kbd>: move &middot;
click: details &middot; <kbd>Shift</kbd>+drag: sum of a span &middot; <kbd>F</kbd>: zoom to what is selected &middot; <kbd>,</kbd> <kbd>.</kbd>: neighbours &middot; <kbd>R</kbd>: all &middot;
<kbd>Esc</kbd>: none</p></header><canvas id="overview"></canvas><div id="view" tabindex="0"><div id="room"></div><canvas id="plot"></canvas></div>
<section id="details" hidden></section><div id="tip" hidden></div>`);
	const view_box = find("view"), plot = find("plot"), tip = find("tip"), overview = find("overview");
	find("title").textContent = data.title;
	if (!window.DecompressionStream) {
		find("about").textContent = "This browser is too old for this page: it has no DecompressionStream.";
		return;
	}
	const tracks = read_tracks(await read_columns());
	const rows = tracks.filter((track) => !track.counter).flatMap((track) => track.rows);
	const class_color = Uint8Array.from(data.classes, (_, c) => color_of(c));
	const closed = new Set();
	let colors, palette, items = [], height = 0, dirty = false, matches = null, selected = null, span = null, arrows = [], pointer = null;
	const whole = extent(), view = { from: 0, to: 1 };

	function extent() {
		let from = Infinity, to = 0;

		for (const row of tracks.flatMap((track) => track.rows)) {
			from = Math.min(from, row.start[0]);
			to = Math.max(to, row.end ? row.end[row.n - 1] : row.start[row.n - 1]);
		}
		const room = Math.max(to - from, 100) / 100;
		return { from: from - room, to: to + room };
	}

	/* What stands below one another: heads of groups, and tracks. */
	function lay_out() {
		let group = -1;

		items = [];
		height = RULER;
		for (const track of tracks) {
			if (track.group !== group) {
				group = track.group;
				items.push({ group, y: height += GAP, height: HEAD });
				height += HEAD;
			}
			track.y = closed.has(group) ? -1 : height + GAP / 2;
			if (closed.has(group))
				continue;
			const high = track.counter ? COUNTER : track.rows.length * ROW;
			items.push({ track, y: track.y, height: high });
			height += high + GAP;
		}
		find("room").style.height = height + GAP + "px";
	}

	/* --- drawing --- */

	const plot_width = () => plot.clientWidth - LABELS;
	const scale = () => plot_width() / (view.to - view.from);
	const x_of = (ns) => LABELS + (ns - view.from) * scale();
	const ns_at = (x) => view.from + (x - LABELS) / scale();

	function prepare(canvas, width, tall) {
		const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d");

		if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(tall * ratio);
			canvas.style.width = width + "px";
			canvas.style.height = tall + "px";
		}
		context.setTransform(ratio, 0, 0, ratio, 0, 0);
		context.fillStyle = colors.page;
		context.fillRect(0, 0, width, tall);
		return context;
	}

	function fit_text(text, width) {
		const room = Math.floor((width - 5) / CHAR);

		return room < 3 ? "" : text.length <= room ? text : text.slice(0, room - 1) + "\u2026";
	}

	function fill_of(row, i, last) {
		if (matches && !(row.hits[last] - row.hits[i]))
			return colors.dim;
		return matches ? colors.hit : palette[class_color[row.class[i]]];
	}

	/* The longest of a few slices speaks for all that are merged. */
	function speaker(row, i, last) {
		const step = Math.max(1, (last - i) >> 3);
		let best = i;

		for (let k = i + step; k < last; k += step)
			if (row.end[k] - row.start[k] > row.end[best] - row.start[best])
				best = k;
		return best;
	}

	function draw_row(context, row, y) {
		const k = scale(), width = plot.clientWidth, left = LABELS;
		let run_from = 0, run_to = -1, run_fill = null, run_alpha = 1;
		const flush = () => {
			if (run_to <= run_from)
				return;
			context.globalAlpha = run_alpha;
			context.fillStyle = run_fill;
			context.fillRect(run_from, y, run_to - run_from, ROW - 2);
			context.globalAlpha = 1;
			run_to = -1;
		};

		for (let i = below(row.end, view.from); i < row.n;) {
			const x = left + (row.start[i] - view.from) * k, wide = (row.end[i] - row.start[i]) * k;

			if (x >= width)
				break;
			if (wide >= 1.5) {
				const from = Math.max(x, left), to = Math.min(x + wide, width);

				flush();
				context.fillStyle = fill_of(row, i, i + 1);
				context.fillRect(from, y, to - from - (wide > 4 ? 0.7 : 0), ROW - 2);
				if (to - from > 24) {
					context.fillStyle = colors["on-slice"];
					context.fillText(fit_text(name_of(row.class[i]), to - from), from + 3, y + 12.5);
				}
				i++;
				continue;
			}
			const pixel = Math.max(Math.floor(x), left), limit = view.from + (pixel + 1 - left) / k;
			const last = Math.max(i + 1, below(row.start, limit, i)), filled = (row.busy[last] - row.busy[i]) * k;
			const alpha = last === i + 1 ? Math.max(0.75, Math.min(1, wide)) : Math.min(1, 0.3 + 0.125 * Math.ceil(5.6 * filled));
			const fill = matches ? fill_of(row, i, last) : palette[class_color[row.class[speaker(row, i, last)]]];

			if (fill !== run_fill || alpha !== run_alpha || pixel !== run_to) {
				flush();
				run_from = pixel;
				run_fill = fill;
				run_alpha = alpha;
			}
			run_to = pixel + 1;
			i = last;
		}
		flush();
	}

	function counter_text(track, value) {
		const unit = track.counter.unit + (track.counter.reading === "sum" ? "/s" : "");

		if (unit.startsWith("bytes"))
			return bytes_text(Math.max(value, 0)) + unit.slice(5);
		return (Math.abs(value) >= 1e6 ? value.toExponential(2) : count(+value.toPrecision(4))) + " " + unit;
	}

	function draw_counter(context, row, y) {
		const k = scale(), width = plot.clientWidth, high = COUNTER - 4, unit = high / (row.most - row.least || 1);
		const place = (v) => y + high - (v - row.least) * unit, base = place(Math.max(row.least, 0));

		for (let i = Math.max(0, below(row.start, view.from) - 1); i < row.n;) {
			const x = Math.max(LABELS, Math.round(LABELS + (row.start[i] - view.from) * k));
			let least = row.value[i], most = least, next = i + 1, to;

			if (x >= width)
				break;
			for (;; next++) {
				to = Math.round(next < row.n ? LABELS + (row.start[next] - view.from) * k : Math.min(width, x_of(whole.to)));
				if (next >= row.n || to - x >= 1)
					break;
				least = Math.min(least, row.value[next]);
				most = Math.max(most, row.value[next]);
			}
			to = Math.min(to, width);
			context.fillStyle = colors.counter;
			context.fillRect(x, Math.min(place(most), base), Math.max(to - x, 1), Math.abs(base - place(most)));
			context.fillStyle = colors["counter-line"];
			context.fillRect(x, place(most) - 0.5, Math.max(to - x, 1), Math.max(1.5, place(least) - place(most)));
			i = next;
		}
	}

	function draw_label(context, text, soft, y, width) {
		context.fillStyle = colors[soft ? "soft" : "text"];
		while (text.length > 4 && context.measureText(text).width > width)
			text = text.slice(0, Math.max(4, Math.floor(text.length * width / context.measureText(text).width) - 1)) + "\u2026";
		context.fillText(text, 14, y);
	}

	function draw_track(context, item, y) {
		const { track } = item;

		context.font = FONT;
		if (track.counter)
			draw_counter(context, track.rows[0], y);
		else
			for (const row of track.rows)
				draw_row(context, row, y + row.place * ROW);
		context.fillStyle = colors.page;
		context.fillRect(0, y - GAP / 2, LABELS - 1, item.height + GAP);
		context.font = LABEL_FONT;
		draw_label(context, track.name, false, y + 13, LABELS - 28);
		if (track.counter)
			draw_label(context, "up to " + counter_text(track, track.rows[0].most), true, y + 28, LABELS - 28);
		context.fillStyle = colors.faint;
		context.fillRect(0, y + item.height + GAP / 2 - 1, plot.clientWidth, 1);
	}

	function draw_group(context, item, y) {
		const name = group_name(item.group), detail = data.groups[item.group % data.groups.length][1];

		context.fillStyle = colors.panel;
		context.fillRect(0, y, plot.clientWidth, HEAD);
		context.font = "600 " + LABEL_FONT;
		context.fillStyle = colors.text;
		context.fillText((closed.has(item.group) ? "\u25b8 " : "\u25be ") + name, 8, y + 16);
		const wide = context.measureText(name).width;
		context.font = LABEL_FONT;
		context.fillStyle = colors.soft;
		context.fillText(detail, 8 + wide + 26, y + 16);
	}

	/* 1, 2 or 5 times a power of ten, at least `least`. */
	function round_step(least) {
		const power = 10 ** Math.floor(Math.log10(least));

		return power * [1, 2, 5, 10].find((k) => k * power >= least * 0.999999);
	}

	function draw_ruler(context) {
		const step = Math.max(1, round_step(120 / scale())), unit = step >= 1e9 ? 3 : step >= 1e6 ? 2 : step >= 1e3 ? 1 : 0;
		const fraction = step / 5;

		context.fillStyle = colors.page;
		context.fillRect(0, 0, plot.clientWidth, RULER);
		context.font = LABEL_FONT;
		context.fillStyle = colors.soft;
		context.fillText(duration(Math.max(0, view.to - view.from)) + " shown", 14, 16);
		for (let tick = Math.ceil(Math.max(view.from, 0) / fraction); tick * fraction < view.to; tick++) {
			const x = x_of(tick * fraction), full = tick % 5 === 0;

			if (x < LABELS)
				continue;
			context.fillStyle = colors.line;
			context.fillRect(x, full ? 4 : RULER - 6, 1, full ? RULER : 6);
			if (!full)
				continue;
			context.fillStyle = colors.soft;
			context.fillText((tick * fraction / 1000 ** unit).toLocaleString("en-US", { maximumFractionDigits: 3 }) + " " +
					 ["ns", "us", "ms", "s"][unit], x + 4, 15);
		}
		context.fillStyle = colors.line;
		context.fillRect(0, RULER - 1, plot.clientWidth, 1);
	}

	const y_of = (row) => row.track.y < 0 ? -1 : row.track.y + row.place * ROW - view_box.scrollTop;

	function draw_selection(context) {
		const [row, i] = [selected.row, selected.i], x = x_of(row.start[i]), wide = Math.max(2, (row.end[i] - row.start[i]) * scale());

		context.save();
		context.beginPath();
		context.rect(LABELS, RULER, plot_width(), plot.clientHeight);
		context.clip();
		context.strokeStyle = colors.accent;
		context.lineWidth = 1.2;
		for (const arrow of arrows) {
			const [from, to] = [arrow.call, arrow.work], x1 = x_of(from.row.start[from.i]), x2 = x_of(to.row.start[to.i]);
			const y1 = y_of(from.row) + ROW / 2, y2 = y_of(to.row) + ROW / 2, bend = Math.max(20, Math.min(120, Math.abs(x2 - x1) / 2));

			if (from.row.track.y < 0 || to.row.track.y < 0)
				continue;
			context.beginPath();
			context.moveTo(x1, y1);
			context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
			context.moveTo(x2 - 6, y2 - 4);
			context.lineTo(x2, y2);
			context.lineTo(x2 - 6, y2 + 4);
			context.stroke();
		}
		context.lineWidth = 2;
		if (row.track.y >= 0)
			context.strokeRect(Math.max(x, LABELS - 5), y_of(row), Math.min(x + wide, plot.clientWidth + 5) - Math.max(x, LABELS - 5), ROW - 2);
		context.restore();
	}

	function draw() {
		const width = view_box.clientWidth, tall = view_box.clientHeight, context = prepare(plot, width, tall), top = view_box.scrollTop;

		dirty = false;
		for (const item of items)
			if (item.track && item.y + item.height > top && item.y < top + tall)
				draw_track(context, item, item.y - top);
		context.fillStyle = colors.line;
		context.fillRect(LABELS - 1, 0, 1, tall);
		for (const item of items)
			if (!item.track && item.y + item.height > top && item.y < top + tall)
				draw_group(context, item, item.y - top);
		if (span) {
			context.fillStyle = colors.accent;
			context.globalAlpha = 0.15;
			context.fillRect(Math.max(x_of(span.from), LABELS), RULER, Math.max(1, x_of(span.to) - Math.max(x_of(span.from), LABELS)), tall);
			context.globalAlpha = 1;
		}
		if (selected)
			draw_selection(context);
		draw_ruler(context);
		if (pointer && pointer.x > LABELS) {
			context.fillStyle = colors.soft;
			context.globalAlpha = 0.5;
			context.fillRect(pointer.x, RULER, 1, tall);
			context.globalAlpha = 1;
		}
		draw_overview();
	}

	/* All work of GPUs, or else all calls, in the whole recording, and what of it is shown. */
	let overview_picture = null;
	function draw_overview() {
		const width = document.body.clientWidth, tall = 34, part = (ns) => (ns - whole.from) / (whole.to - whole.from) * width;
		const context = prepare(overview, width, tall), shown = rows.filter((row) => row.track.kind === "stream");

		if (!overview_picture || overview_picture.length !== width) {
			overview_picture = new Float64Array(width);
			for (const row of shown.length ? shown : rows.filter((each) => !each.depth))
				for (let x = 0, i = 0; x < width && i < row.n; x++) {
					const last = below(row.start, whole.from + (x + 1) / width * (whole.to - whole.from), i);

					for (let at = x, left = (row.busy[last] - row.busy[i]) / (whole.to - whole.from) * width; left > 0 && at < width; at++, left--)
						overview_picture[at] += Math.min(left, 1);
					i = last;
				}
		}
		const most = overview_picture.reduce((a, b) => Math.max(a, b), 0);
		context.fillStyle = colors["counter-line"];
		for (let x = 0; x < width; x++) {
			const high = overview_picture[x] / most * (tall - 4);

			if (high)
				context.fillRect(x, tall - Math.max(high, 1), 1, Math.max(high, 1));
		}
		context.fillStyle = colors.soft;
		context.globalAlpha = 0.28;
		context.fillRect(0, 0, part(view.from), tall);
		context.fillRect(part(view.to), 0, width, tall);
		context.globalAlpha = 1;
		context.fillStyle = colors.accent;
		context.fillRect(part(view.from) - 1, 0, 2, tall);
		context.fillRect(Math.max(part(view.to), part(view.from) + 1), 0, 2, tall);
	}

	function redraw() {
		if (!dirty)
			requestAnimationFrame(draw);
		dirty = true;
	}

	/* --- moving --- */

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

	/* Brings a slice into view, without zooming in. */
	function reveal({ row, i }) {
		const length = view.to - view.from, middle = (row.start[i] + row.end[i]) / 2;

		if (closed.delete(row.track.group))
			lay_out();
		if (row.end[i] < view.from || row.start[i] > view.to)
			show(middle - length / 2, middle + length / 2);
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

	/* The slice at a place of the plot, within three pixels; null: none. */
	function slice_at(x, y) {
		const item = items.find((each) => each.track && y + view_box.scrollTop >= each.y && y + view_box.scrollTop < each.y + each.height);

		if (!item || x < LABELS || y < RULER || item.track.counter)
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

	/* Slices with a correlation id: the call, and what it caused. */
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
		if (/bytes$/.test(key))
			return value < 1024 ? value + " B" : bytes_text(value) + " (" + count(value) + " bytes)";
		return String(value);
	}

	/* How often the name occurs, and how long. */
	function add_name_sums(table, c) {
		const name = name_of(c), kind = kind_of(c), same = data.classes.map((_, k) => name_of(k) === name && kind_of(k) === kind);
		let n = 0, ns = 0;

		for (const row of rows)
			for (let i = 0; i < row.n; i++)
				if (same[row.class[i]]) {
					n++;
					ns += row.end[i] - row.start[i];
				}
		add_line(table, "of this name", count(n) + ", together " + duration(ns) + ", on average " + duration(Math.round(ns / n)));
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
			const place = add_line(table, "caused by", relation.call ? undefined : "a call that is not here");

			if (relation.call)
				add_link(place, name_of(relation.call.row.class[relation.call.i]) + " on " + relation.call.row.track.name + ", " +
					 duration(Math.abs(row.start[i] - relation.call.row.start[relation.call.i])) + " before", relation.call);
		}
	}

	function add_stack(columns, node) {
		const box = add(columns, "div"), list = [];

		for (; node; node = data.nodes[node - 1][0])
			list.push(data.nodes[node - 1][1]);
		add(box, "h2", "call stack, the innermost first");
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
		redraw();
	}

	/* What runs in a span of time, and how long of it: sums by name. */
	function sum_span() {
		const sums = new Map(), named = new Map();

		for (const row of rows)
			for (let i = below(row.end, span.from, 0, true); i < row.n && row.start[i] < span.to; i++) {
				const c = own_class(row.class[i]), sum = sums.get(c) || { c, n: 0, ns: 0 };

				sum.n++;
				sum.ns += Math.min(row.end[i], span.to) - Math.max(row.start[i], span.from);
				sums.set(c, sum);
			}
		for (const { c, n, ns } of sums.values()) {
			const key = kind_of(c) + "\n" + name_of(c), sum = named.get(key) || { c, n: 0, ns: 0 };

			named.set(key, { c, n: sum.n + n, ns: sum.ns + ns });
		}
		return [...named.values()].sort((a, b) => b.ns - a.ns);
	}

	function show_span() {
		const sums = sum_span(), columns = open_details(duration(Math.round(span.to - span.from)) + " from " + moment(Math.max(0, span.from)));
		const table = add(add(columns, "div"), "table"), head = add(table, "tr");

		for (const [text, name] of [["what runs there", ""], ["kind", ""], ["count", "number"], ["time", "number"], ["of the span", "number"]])
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

	/* Where the n-th hit of a row is. */
	const hit_at = (row, n) => below(row.hits, n + 1) - 1;

	/* The match after, or before, what is selected (or the left edge of what is shown), in order of time. */
	function step(forward) {
		const at = selected ? selected.row.start[selected.i] : view.from, own = selected ? rows.indexOf(selected.row) : -1;
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
		} else if (selected) {
			selected = null;
			show(forward ? whole.from : whole.to - (view.to - view.from), forward ? whole.from + (view.to - view.from) : whole.to);
			step(forward);
		}
	}

	/* --- pointer and keys --- */

	function show_tip(event) {
		const slice = slice_at(event.offsetX, event.offsetY - 0), box = tip.getBoundingClientRect();
		const item = items.find((each) => each.track && event.offsetY + view_box.scrollTop >= each.y && event.offsetY + view_box.scrollTop < each.y + each.height);
		const counter = item && item.track.counter && event.offsetX > LABELS ? item.track.rows[0] : null;

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
		const head = items.find((item) => !item.track && event.offsetY + view_box.scrollTop >= item.y && event.offsetY + view_box.scrollTop < item.y + HEAD);

		drag = null;
		if (was && was.far && was.sums !== null) {
			selected = null;
			arrows = [];
			show_span();
		} else if (was && !was.far && head && event.offsetY > RULER) {
			if (!closed.delete(head.group))
				closed.add(head.group);
			lay_out();
			redraw();
		} else if (was && !was.far && slice) {
			select(slice);
		} else if (was && !was.far) {
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

	/* --- the beginning --- */

	function set_theme(theme) {
		root.setAttribute("data-theme", theme);
		read_colors();
		redraw();
	}

	function about() {
		const counts = new Map(), when = new Date(data.start_unix_ns / 1e6);

		for (const row of rows)
			for (let i = 0; i < row.n; i++)
				counts.set(row.class[i], (counts.get(row.class[i]) || 0) + 1);
		const kinds = new Map();
		for (const [c, n] of counts)
			kinds.set(kind_of(c), (kinds.get(kind_of(c)) || 0) + n);
		kinds.delete("gpu_range");
		return [data.host, isNaN(when) ? "" : when.toISOString().slice(0, 19).replace("T", " ") + " UTC", duration(data.duration_ns),
			...["kernel", "memcpy", "memset", "graph_launch", "api_call", "nvtx"].filter((kind) => kinds.has(kind))
				.map((kind) => counted(kinds.get(kind), kind)), ...data.notes].filter(Boolean).join(" \u00b7 ");
	}

	function add_losses() {
		const box = add(document.querySelector("header"), "details", undefined, "loss");

		add(box, "summary", count(data.loss.length) + (data.loss.length === 1 ? " loss: something is" : " losses: some things are") +
		    " known to be missing from the recording");
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
	view_box.focus();
	window.timeline = { data, tracks, rows, view, whole, show, zoom, move, search, step, select, reveal, related, slice_at, correlations_of, name_of,
			    kind_of, details_of, draw, x_of, y_of, selection: () => selected, arrows: () => arrows };
})();
