/*
 * Draws on canvases. Slices of a row do not overlap, so binary search finds the visible ones. Slices narrower than a pixel are merged into
 * one, whose opacity is the share of the pixel's time that they fill (from prefix sums of durations).
 */
/* --- the page --- */

document.body.insertAdjacentHTML("beforeend", `<header><div class="bar"><h1 id="title"></h1>
<input id="search" type="search" placeholder="Search (press /)" aria-label="search, regular expression" title="names; a regular expression">
<button id="last" disabled title="Shift+Enter">&#x2039;</button><button id="next" disabled title="Enter">&#x203a;</button><span id="found"></span>
<button id="all" title="r">Show all</button><button id="theme">Light / dark</button></div>
<p id="about"></p><p>wheel or <kbd>W</kbd> <kbd>S</kbd>: zoom &middot; drag or <kbd>A</kbd> <kbd>D</kbd> <kbd>&larr;</kbd> <kbd>&rarr;</kbd>: move &middot;
click: details &middot; <kbd>Shift</kbd>+drag: sum of a span &middot; <kbd>F</kbd>: zoom to the selection &middot; <kbd>,</kbd> <kbd>.</kbd>: neighbours &middot; <kbd>R</kbd>: all &middot;
<kbd>Esc</kbd>: none</p></header><canvas id="overview"></canvas><div id="view" tabindex="0"><div id="room"></div><canvas id="plot" role="img" aria-label="timeline"></canvas></div>
<section id="details" hidden></section><div id="tip" hidden></div>`);
const view_box = find("view"), plot = find("plot"), tip = find("tip"), overview = find("overview");
find("title").textContent = find("title").title = data.title;
if (!window.DecompressionStream)
	find("about").textContent = "This browser is too old for this page: it has no DecompressionStream.";
const tracks = read_tracks(await read_columns());
const rows = tracks.filter((track) => !track.counter).flatMap((track) => track.rows);
/* Per class: its color, and the first class of the same kind and name. */
const class_color = Uint8Array.from(data.classes, (_, c) => color_of(c));
const known = new Map(), alike = Uint32Array.from(data.classes, (_, c) => {
	const key = kind_of(c) + "\n" + name_of(c);

	return known.get(key) ?? (known.set(key, c), c);
});
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

/* Computes the vertical layout: group headings and tracks. */
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

/* Returns the longest of a few of the merged slices, which determines their color. */
function dominant_slice(row, i, last) {
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
		const fill = matches ? fill_of(row, i, last) : palette[class_color[row.class[dominant_slice(row, i, last)]]];

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
	const unit = track.counter.unit + (track.counter.kind === "sum" ? "/s" : "");

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

/* Returns 1, 2 or 5 times a power of ten, at least `least`. */
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

/* Draws the GPU work (or, without any, the calls) of the whole recording, and the visible part. */
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

