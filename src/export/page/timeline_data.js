/*
 * First of the parts of one module: timeline_data.js, timeline_whole.js or timeline_served.js, timeline_draw.js, timeline_panels.js,
 * timeline_input.js. Decodes the page's elements "data" and "columns", which timeline.h describes, into tracks with rows of typed arrays.
 */
const ROW = 19, HEAD = 24, COUNTER = 36, GAP = 5, LABELS = 232, RULER = 26, CHAR = 6.63; /* pixels */
const FONT = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace', LABEL_FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const ORDER = { loss: [0], path: [0, 1], ranges: [1, 0], stream: [1, 1], events: [1, 2], thread: [2, 0], cpu: [2, 1], sync: [3, 0], memory: [4, 0],
		overhead: [5, 0], counter: [6, 0] };
const NOUNS = { kernel: "kernel kernels", memcpy: "copy copies", memset: "memset memsets", graph_launch: "graph graphs", api_call: "call calls",
		nvtx: "range ranges", gpu_range: "GPU-range GPU-ranges", synchronization: "wait waits", cuda_event: "event events",
		allocation: "allocation allocations", overhead: "overhead overheads", loss: "loss losses", cpu_sample: "frame frames", off_cpu: "pause pauses",
		critical_path: "piece pieces", slice: "slice slices" };
const ARROWS_MAX = 300, LIST_MAX = 12, STACK_MAX = 1000;
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
/* What the units of counters are shown in: the unit's name, the prefixes that it takes, and a factor. */
const SI = ["", "k", "M", "G", "T", "P"], UNITS = new Map([["byte/second", ["B/s", SI]], ["bytes/s", ["B/s", SI]], ["J/s", ["W"]], ["s/s", ["%", [""], 100]],
							   ["C", ["\u00b0C"]], ["percent", ["%"]], ["hertz", ["Hz", SI]], ["cycle/second", ["Hz", SI]], ["", ["", SI]]]);
const bytes_text = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const exact = (ns) => ns < 1000 ? duration(ns) : duration(ns) + " (" + count(ns) + " ns)";
function amount(value, unit) {
	const [name, prefixes, factor] = UNITS.get(unit) || UNITS.get(unit.replace(/^[a-z]+_(?=cycle)/, "")) || [unit, Math.abs(value) < 1e6 ? [""] : SI];
	const space = name === "%" ? "" : " ";
	let v = value * (factor || 1), power = 0;

	for (; prefixes && Math.abs(v) >= 999.5 && power < prefixes.length - 1; power++)
		v /= 1000;
	return (Math.abs(v) >= 1000 ? count(Math.round(v)) : +v.toPrecision(power ? 3 : 4)) + (name || power ? space : "") + (prefixes ? prefixes[power] : "") + name;
}
const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + "%";
const moment = (ns) => (ns / 1e9).toFixed(9).replace(/(\.\d{3})(\d{3})(\d{3})$/, "$1\u202f$2\u202f$3") + " s";
const counted = (n, kind) => count(n) + " " + (NOUNS[kind] ? NOUNS[kind].split(" ")[n === 1 ? 0 : 1] : kind.replaceAll("_", " "));

/* --- columns --- */

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

/* more: how many others each slice stands for; busy: the time that those fill which stand for some. */
function read_row(track, n, [gaps, durations, classes, correlations, more, busy]) {
	const row = { track, n, start: new Float64Array(n), end: new Float64Array(n), class: new Uint32Array(n),
		      busy: new Float64Array(n + 1), packed: correlations, hits: null, more: more && new Uint32Array(n) };
	const gap = numbers(gaps), long = numbers(durations), kind = numbers(classes), others = more && numbers(more), filled = busy && numbers(busy);

	for (let i = 0, now = 0; i < n; i++) {
		const ns = long();

		row.start[i] = now += gap();
		row.end[i] = now += ns;
		row.class[i] = kind();
		if (others)
			row.more[i] = others();
		row.busy[i + 1] = row.busy[i] + (others && row.more[i] ? filled() : ns);
	}
	return row;
}

/* A sum is shown as its growth per second up to the next sample; unknown after the last one, and where it begins again. */
function read_counter(track, n, [gaps, values]) {
	const gap = numbers(gaps), view = new DataView(values.buffer, values.byteOffset), sum = track.counter.kind === "sum";
	const row = { track, n, start: new Float64Array(n), value: new Float64Array(n), least: 0, most: 0, known: 0 };

	for (let i = 0, now = 0, last = 0; i < n; i++) {
		const v = view.getFloat64(8 * i, true);

		row.start[i] = now += gap();
		row.value[i] = sum ? NaN : v;
		if (sum && i && v >= last)
			row.value[i - 1] = 1e9 * (v - last) / (row.start[i] - row.start[i - 1] || 1);
		last = v;
	}
	for (const v of row.value) {
		if (!Number.isFinite(v))
			continue;
		row.known++;
		row.least = Math.min(row.least, v);
		row.most = Math.max(row.most, v);
	}
	return row;
}

/* Returns a function that reads the row of a track from the next columns. */
function row_reader(bytes) {
	let at = 0;
	const next_column = (length) => bytes.subarray(at, at += length);

	return (track, [n, ...lengths]) => (track.counter ? read_counter : read_row)(track, n, lengths.map(next_column));
}

function read_tracks(bytes) {
	const read = row_reader(bytes);
	const all = data.tracks.map(([group, kind, name, id, rows, counter], number) => {
		const track = { group: counter ? group + data.groups.length : group, kind, name, id, counter, number };

		track.rows = rows.map(([lane, depth, ...columns]) => Object.assign(read(track, columns), { lane, depth }));
		track.written = [...track.rows];
		track.rows.sort((a, b) => a.lane - b.lane || a.depth - b.depth);
		track.rows.forEach((row, i) => { row.place = i; });
		return track;
	});
	read_collectives(all, data.collectives);
	return all.sort((a, b) => a.group - b.group || ORDER[a.kind][0] - ORDER[b.kind][0] ||
			  (a.counter ? a.counter.order - b.counter.order || natural(a.name, b.name) : natural(owner(a), owner(b)) || a.id - b.id) ||
			  ORDER[a.kind][1] - ORDER[b.kind][1]);
}
const natural = new Intl.Collator("en", { numeric: true }).compare;

/* Each slice of a collective refers to its members, and each row has the times that its slices waited for other ranks. */
function read_collectives(all, collectives) {
	for (const flat of collectives) {
		const members = [];

		for (let k = 0; k < flat.length; k += 4) {
			const [track, place, i, wait] = flat.slice(k, k + 4), row = all[track].written[place];

			row.waits = row.waits || new Float64Array(row.n);
			row.waits[i] = wait;
			row.members = row.members || new Map();
			row.members.set(i, members);
			members.push({ row, i, wait });
		}
		members.sort((a, b) => a.wait - b.wait);
	}
}
/* Counters form groups of their own after all others, so that streams stay close to the threads that feed them. */
const group_name = (group) => data.groups[group % data.groups.length][0] + (group < data.groups.length ? "" : " counters");
/* The context and process of a stream; "": tracks of this kind are not of several. */
const owner = (track) => /stream \d+(.*)$/.exec(track.name)?.[1] || "";

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

/* Returns the number of leading values that are below a limit or, with `also`, equal to it. */
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
					   loss: 6, off_cpu: name_of(c).includes("processor") ? 4 : 5 }[kind];
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

