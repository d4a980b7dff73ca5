/*
 * Draws on canvases. Slices of a row do not overlap, so binary search finds the visible ones. Slices narrower than a pixel are merged into
 * one, whose opacity is the share of the pixel's time that they fill (from prefix sums of durations).
 */
/* --- the page --- */

const BUTTONS = 66; /* pixels of "pin" and "hide" at the right end of a label */
document.body.insertAdjacentHTML("beforeend", `<header><div class="bar"><h1 id="title"></h1>
<input id="search" type="search" placeholder="Search (press /)" aria-label="search" title="part of a name; a|b: either, .*: anything, ^ and $: begin and end">
<button id="last" disabled title="Shift+Enter">&#x2039;</button><button id="next" disabled title="Enter">&#x203a;</button><span id="found"></span>
<button id="work" title="Home">Work</button><button id="all" title="r">Show all</button><button id="longest" title="l">Longest</button><button id="path" title="c" hidden>Critical path</button>
<button id="hidden" title="u" hidden></button><button id="theme">Light / dark</button></div>
<p id="about"></p><p>wheel or <kbd>W</kbd> <kbd>S</kbd>: zoom &middot; drag or <kbd>A</kbd> <kbd>D</kbd> <kbd>&larr;</kbd> <kbd>&rarr;</kbd>: move &middot;
click: details &middot; <kbd>Shift</kbd>+drag: sum a span &middot; <kbd>F</kbd>: to the selection &middot; <kbd>,</kbd> <kbd>.</kbd>: neighbours &middot; <kbd>L</kbd>: longest &middot;
<kbd>P</kbd> <kbd>H</kbd>: pin, hide a track &middot; <kbd>R</kbd>: all &middot; <kbd>Esc</kbd>: none</p></header><canvas id="overview"></canvas><div id="view" tabindex="0"><div id="room"></div><canvas id="plot" role="img" aria-label="timeline"></canvas></div>
<section id="details" hidden></section><div id="tip" hidden></div>`);
const view_box = find("view"), plot = find("plot"), tip = find("tip"), overview = find("overview");
find("title").textContent = find("title").title = data.title;
if (!window.DecompressionStream)
	find("about").textContent = "This browser is too old for this page: it has no DecompressionStream.";
const tracks = await first_tracks();
const rows = tracks.filter((track) => !track.counter).flatMap((track) => track.rows);
/* Per class: its color, and the first class of the same kind and name. A page that is served does not have all classes. */
let class_color, alike;
index_classes();
function index_classes() {
	const known = new Map();

	class_color = Uint8Array.from(data.classes, (of, c) => of ? color_of(c) : 0);
	alike = Uint32Array.from(data.classes, (of, c) => {
		const key = of ? kind_of(c) + "\n" + name_of(c) : "";

		return known.get(key) ?? (known.set(key, c), c);
	});
}
const closed = new Set();
let colors, palette, items = [], height = 0, pinned_height = 0, dirty = false, matches = null, selected = null, span = null, arrows = [], pointer = null;
const whole = extent(), view = { from: 0, to: 1 };
const work_rows = rows_of_work().map(({ n, start, end, busy }) => ({ n, start, end, busy })), work_part = part_with_work();

/* The exported part of the recording, and what reaches beyond it. */
function extent() {
	let [from, to] = data.window;

	for (const row of tracks.flatMap((track) => track.rows)) {
		from = Math.min(from, row.start[0]);
		to = Math.max(to, row.end ? row.end[row.n - 1] : row.start[row.n - 1]);
	}
	return { from, to: Math.max(to, from + 100) };
}

/* Rows that show best when the program worked: of the GPU, or of CPU samples, or all of the outermost slices. */
function rows_of_work() {
	const streams = rows.filter((row) => row.track.kind === "stream"), samples = rows.filter((row) => row.track.kind === "cpu" && row.lane && !row.depth);

	return streams.length ? streams : samples.length ? samples : rows.filter((row) => !row.depth && row.track.kind !== "loss");
}

/* The longest of 2,000 parts of a time in a row in which nothing ran: from, to. */
function longest_pause(shown, from, to) {
	const steps = 2000, busy = new Uint8Array(steps + 1), k = steps / (to - from);
	let best = [0, 0], begin = 0;

	busy[steps] = 1;
	for (const row of shown)
		for (let i = below(row.end, from); i < row.n && row.start[i] < to; i++)
			busy.fill(1, Math.max(0, Math.floor((row.start[i] - from) * k)), Math.floor((row.end[i] - from) * k) + 1);
	for (let i = 0; i <= steps; i++)
		if (busy[i]) {
			best = i - begin > best[1] - best[0] ? [begin, i] : best;
			begin = i + 1;
		}
	return best.map((step) => from + step / k);
}

/* From the first to the last work; while one pause is longer than all the rest, only the side of it with more slices. */
function part_with_work() {
	const shown = work_rows.filter((row) => row.n);
	let from = Math.min(...shown.map((row) => row.start[0])), to = Math.max(...shown.map((row) => row.end[row.n - 1]));

	if (!shown.length)
		return whole;
	for (let turn = 0; turn < 20 && to - from > 1000; turn++) {
		const pause = longest_pause(shown, from, to), middle = (pause[0] + pause[1]) / 2;
		let [earlier, later, last_end, first_start] = [0, 0, from, to];

		if (pause[1] - pause[0] <= (to - from) / 2)
			break;
		for (const row of shown) {
			const first = below(row.end, from), cut = below(row.start, middle), end = below(row.start, to, 0, true);

			earlier += cut - first;
			later += end - cut;
			if (cut > first)
				last_end = Math.max(last_end, row.end[cut - 1]);
			if (cut < end)
				first_start = Math.min(first_start, row.start[cut]);
		}
		[from, to] = earlier > later ? [from, last_end] : [first_start, to];
	}
	const room = (to - from) / 30 + 50;
	return { from: Math.max(from - room, whole.from), to: Math.min(to + room, whole.to) };
}

/* Computes the vertical layout: pinned tracks, then groups with a heading and tracks. */
function lay_out() {
	const add_track = (track) => {
		const high = track.counter ? COUNTER : track.rows.length * ROW;

		track.y = height + GAP / 2;
		items.push({ track, pinned: track.pinned, y: track.y, height: high });
		height += high + GAP;
	};
	let group = -1;

	items = [];
	height = RULER;
	for (const track of tracks)
		track.y = -1;
	tracks.filter((track) => track.pinned && !track.hidden).forEach(add_track);
	pinned_height = height - RULER;
	for (const track of tracks) {
		if (track.hidden || track.pinned)
			continue;
		if (track.group !== group) {
			group = track.group;
			items.push({ group, y: height += GAP, height: HEAD });
			height += HEAD;
		}
		if (!closed.has(group))
			add_track(track);
	}
	find("room").style.height = height + GAP + "px";
	const hidden = tracks.filter((track) => track.hidden).length;
	find("hidden").hidden = !hidden;
	find("hidden").textContent = "Show " + count(hidden) + " hidden";
}
/* Pinned tracks do not scroll, unless they take too much of the page. */
const sticky = () => pinned_height <= 0.6 * view_box.clientHeight ? pinned_height : 0;
const top_of = (pinned, y) => pinned && sticky() ? y : y - view_box.scrollTop;

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

/* Hatches the part of a slice of a collective that only waited for other ranks. */
function draw_wait(context, x, y, wide) {
	if (wide < 1)
		return;
	context.save();
	context.beginPath();
	context.rect(x, y, wide, ROW - 2);
	context.clip();
	context.strokeStyle = colors.page;
	context.globalAlpha = 0.7;
	context.lineWidth = 2.5;
	context.beginPath();
	for (let at = x - x % 7 - ROW; at < x + wide; at += 7) {
		context.moveTo(at, y + ROW);
		context.lineTo(at + ROW, y);
	}
	context.stroke();
	context.restore();
}

/* Draws one slice on device pixels `from` to `to`. */
function draw_slice(context, row, i, y, from, to) {
	const ratio = window.devicePixelRatio || 1, x = from / ratio, wide = (to - from) / ratio;

	context.fillStyle = fill_of(row, i, i + 1);
	context.fillRect(x, y, wide - (wide > 4 ? 1 / ratio : 0), ROW - 2);
	if (row.waits?.[i])
		draw_wait(context, x, y, Math.min(wide, x_of(row.start[i] + row.waits[i]) - x));
	if (wide > 24) {
		context.fillStyle = colors["on-slice"];
		context.fillText(fit_text(name_of(row.class[i]), wide), x + 3, y + 12.5);
	}
}

/*
 * Works in device pixels. A slice at least a pixel wide covers the pixels whose middle it covers, which is at least one, and which no other
 * wide slice covers. Narrower slices that start in the same pixel are merged into it, up to the next wide slice. They give way to wide ones,
 * except at the ends of slices that stay visible beside them.
 */
function draw_row(context, row, y) {
	const ratio = window.devicePixelRatio || 1, k = scale() * ratio, left = LABELS * ratio, right = plot.clientWidth * ratio;
	let run_from = 0, run_to = -1, run_fill = null, run_alpha = 1, taken = 0;
	const flush = () => {
		if (run_to <= run_from)
			return;
		context.globalAlpha = run_alpha;
		context.fillStyle = run_fill;
		context.fillRect(run_from / ratio, y, (run_to - run_from) / ratio, ROW - 2);
		context.globalAlpha = 1;
		run_from = run_to;
	};

	for (let i = below(row.end, view.from); i < row.n;) {
		const x = left + (row.start[i] - view.from) * k, wide = (row.end[i] - row.start[i]) * k;

		if (x >= right)
			break;
		if (wide >= 1 && row.more?.[i]) { /* until the part with the slices that it stands for is there */
			flush();
			context.globalAlpha = Math.min(1, 0.3 + 0.7 * (row.busy[i + 1] - row.busy[i]) * k / wide);
			context.fillStyle = fill_of(row, i, i + 1);
			context.fillRect(Math.max(x, left) / ratio, y, (Math.min(x + wide, right) - Math.max(x, left)) / ratio, ROW - 2);
			context.globalAlpha = 1;
			i++;
			continue;
		}
		if (wide >= 1) {
			const from = Math.max(Math.round(x), left, wide >= 3 ? run_to : 0), to = Math.min(Math.round(x + wide), right);

			flush();
			if (to > from)
				draw_slice(context, row, i, y, from, to);
			taken = wide >= 3 ? 0 : to;
			i++;
			continue;
		}
		const pixel = Math.max(Math.floor(x), left), limit = view.from + (pixel + 1 - left) / k;
		let last = Math.max(i + 1, below(row.start, limit, i));
		if (last > i + 1 && (row.end[last - 1] - row.start[last - 1]) * k >= 1 && !row.more?.[last - 1])
			last--; /* only the last slice can end after this pixel, and so be wide */
		const filled = (row.busy[last] - row.busy[i]) * k;
		const alpha = last === i + 1 ? Math.max(0.75, Math.min(1, wide)) : Math.min(1, 0.3 + 0.125 * Math.ceil(5.6 * filled));
		const fill = matches ? fill_of(row, i, last) : palette[class_color[row.class[dominant_slice(row, i, last)]]];

		if (pixel >= taken) {
			if (fill !== run_fill || alpha !== run_alpha || pixel !== run_to) {
				flush();
				run_from = pixel;
				run_fill = fill;
				run_alpha = alpha;
			}
			run_to = pixel + 1;
		}
		i = last;
	}
	flush();
}

const states_of = (counter, bits) => [...Array(53).keys()].filter((bit) => Math.floor(bits / 2 ** bit) % 2)
	.map((bit) => counter.states?.[bit] || "bit " + bit).join(", ") || "none";
function counter_text({ counter }, value) {
	if (!Number.isFinite(value))
		return "unknown";
	if (counter.kind === "bits")
		return states_of(counter, value);
	if (counter.kind === "event")
		return "code " + count(value);
	if (counter.unit === "bytes" && counter.kind === "level")
		return bytes_text(Math.max(value, 0));
	return amount(value, counter.kind === "sum" ? counter.unit + "/s" : counter.unit);
}

/* The line below the name of a counter. */
function counter_summary(track) {
	const row = track.rows[0];

	if (track.counter.kind === "event")
		return count(row.n) + (row.n === 1 ? " event" : " events");
	if (track.counter.kind === "bits")
		return [...new Set(row.value)].filter(Boolean).map((v) => states_of(track.counter, v)).join("; ") || "none";
	if (track.counter.kind === "sum" && !row.most)
		return row.known ? "does not grow" : "one reading";
	return "up to " + counter_text(track, row.most);
}

/* Draws a counter of states, or of events, as slices. */
function draw_states(context, row, y) {
	const { counter } = row.track, event = counter.kind === "event";

	for (let i = Math.max(0, below(row.start, view.from) - 1), next; i < row.n; i = next) {
		for (next = i + 1; !event && next < row.n && row.value[next] === row.value[i];)
			next++;
		const x = Math.max(LABELS, x_of(row.start[i])), to = Math.min(plot.clientWidth, x_of(next < row.n ? row.start[next] : whole.to));

		if (x >= plot.clientWidth)
			break;
		if (event ? row.start[i] < view.from : !row.value[i])
			continue;
		const wide = event ? 2 : Math.max(1, to - x);
		context.fillStyle = event ? colors.loss : colors.counter;
		context.fillRect(x, y + 8, wide, ROW);
		context.fillStyle = colors.text;
		if (wide > 24)
			context.fillText(fit_text(states_of(counter, row.value[i]), wide), x + 4, y + 21);
	}
}

function draw_counter(context, row, y) {
	const k = scale(), width = plot.clientWidth, high = COUNTER - 4, unit = high / (row.most - row.least || 1);
	const place = (v) => y + high - (v - row.least) * unit, base = place(Math.max(row.least, 0));

	for (let i = Math.max(0, below(row.start, view.from) - 1); i < row.n;) {
		const x = Math.max(LABELS, Math.round(LABELS + (row.start[i] - view.from) * k));
		let least = Infinity, most = -Infinity, next = i, to;

		if (x >= width)
			break;
		do {
			if (Number.isFinite(row.value[next])) {
				least = Math.min(least, row.value[next]);
				most = Math.max(most, row.value[next]);
			}
			next++;
			to = Math.round(next < row.n ? LABELS + (row.start[next] - view.from) * k : Math.min(width, x_of(whole.to)));
		} while (next < row.n && to - x < 1);
		to = Math.min(to, width);
		i = next;
		if (most < least)
			continue;
		context.fillStyle = colors.counter;
		context.fillRect(x, Math.min(place(most), base), Math.max(to - x, 1), Math.abs(base - place(most)));
		context.fillStyle = colors["counter-line"];
		context.fillRect(x, place(most) - 0.5, Math.max(to - x, 1), Math.max(1.5, place(least) - place(most)));
	}
}

function draw_label(context, text, soft, y, width) {
	context.fillStyle = colors[soft ? "soft" : "text"];
	while (text.length > 4 && context.measureText(text).width > width)
		text = text.slice(0, Math.max(4, Math.floor(text.length * width / context.measureText(text).width) - 1)) + "\u2026";
	context.fillText(text, 14, y);
}

function draw_track(context, item, y) {
	const { track } = item, second = track.counter ? counter_summary(track) : item.height > ROW && track.pinned ? group_name(track.group) : "";
	const hovered = pointer && pointer.x < LABELS && item_at(pointer.y) === item;

	context.font = FONT;
	if (track.counter && ["bits", "event"].includes(track.counter.kind))
		draw_states(context, track.rows[0], y);
	else if (track.counter)
		draw_counter(context, track.rows[0], y);
	else
		for (const row of track.rows)
			draw_row(context, row, y + row.place * ROW);
	context.fillStyle = colors.page;
	context.fillRect(0, y - GAP / 2, LABELS - 1, item.height + GAP);
	context.font = LABEL_FONT;
	draw_label(context, (track.pinned ? "\u2022 " : "") + track.name, false, y + 13, LABELS - 28 - (hovered ? BUTTONS : 0));
	draw_label(context, second, true, y + 28, LABELS - 28);
	if (hovered) {
		context.fillStyle = colors.accent;
		context.fillText(track.pinned ? "unpin" : "pin", LABELS - BUTTONS - 6, y + 13);
		context.fillText("hide", LABELS - BUTTONS / 2 + 1, y + 13);
	}
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
	context.fillText(duration(Math.round(Math.min(view.to, whole.to) - Math.max(view.from, whole.from))) + " shown", 14, 16);
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

const y_of = (row) => row.track.y < 0 ? -1 : top_of(row.track.pinned, row.track.y + row.place * ROW);

function draw_selection(context) {
	const [row, i] = [selected.row, selected.i], x = x_of(row.start[i]), wide = Math.max(2, (row.end[i] - row.start[i]) * scale());

	context.save();
	context.beginPath();
	context.rect(LABELS, RULER, plot_width(), plot.clientHeight);
	context.clip();
	context.strokeStyle = colors.accent;
	context.lineWidth = 1.2;
	for (const arrow of arrows) {
		const [from, to] = [arrow.from, arrow.to], x1 = x_of(from.row.start[from.i]), x2 = x_of(to.row.start[to.i] + (to.wait || 0));
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

function draw_items(context, pinned, tall) {
	const shown = items.filter((item) => Boolean(item.pinned) === pinned && top_of(pinned, item.y) < tall && top_of(pinned, item.y + item.height) > 0);

	for (const item of shown)
		if (item.track)
			draw_track(context, item, top_of(pinned, item.y));
	context.fillStyle = colors.line;
	context.fillRect(LABELS - 1, pinned ? RULER : 0, 1, pinned ? sticky() : tall);
	for (const item of shown)
		if (!item.track)
			draw_group(context, item, top_of(pinned, item.y));
}

function draw() {
	const width = view_box.clientWidth, tall = view_box.clientHeight, context = prepare(plot, width, tall);

	dirty = false;
	draw_items(context, false, tall);
	if (sticky()) {
		context.fillStyle = colors.page;
		context.fillRect(0, RULER, width, pinned_height);
	}
	draw_items(context, true, tall);
	context.fillStyle = colors.line;
	if (sticky())
		context.fillRect(0, RULER + pinned_height - 1, width, 2);
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
	load_view();
}

/* Draws the work of the whole recording, and the visible part. */
let overview_picture = null;
function draw_overview() {
	const width = document.body.clientWidth, tall = 34, part = (ns) => (ns - whole.from) / (whole.to - whole.from) * width;
	const context = prepare(overview, width, tall);

	if (!overview_picture || overview_picture.length !== width) {
		overview_picture = new Float64Array(width);
		for (const row of work_rows)
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
	save_later();
}

