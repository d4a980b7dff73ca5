/*
 * The slices of a page that `pitot serve` makes (timeline_served.h). It asks for what the screen shows, with as much again to either side;
 * slices narrower than a pixel come merged. Rows stay, and get the slices of the newest part; what is selected keeps a copy of its row.
 */
const served = true, FIRST_PIXELS = 4096, found_rows = new Map(); /* correlation -> rows with its slices only */
let loaded = null, is_asking = false;

async function ask(query) {
	const answer = await fetch("slices?" + query + "&instance=" + data.instance);

	if (answer.status === 409) { /* the recording has grown, or was closed meanwhile */
		save();
		location.reload();
		await new Promise(() => {});
	}
	if (!answer.ok)
		throw new Error(await answer.text());
	const bytes = new Uint8Array(await answer.arrayBuffer()), end = bytes.indexOf(10);
	const part = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));

	Object.assign(data.classes, part.classes);
	return { ...part, bytes: bytes.subarray(end + 1) };
}

async function ask_window(from, until, pixels) {
	const part = await ask("from=" + from + "&until=" + until + "&pixels=" + pixels);

	return { ...part, pixel_ns: (part.until - part.from) / pixels };
}

async function first_tracks() {
	let at = 0;

	loaded = await ask_window(0, data.duration_ns + 1, FIRST_PIXELS);
	for (const [, , , , of] of data.tracks)
		of.forEach(([lane, depth], i) => { of[i] = [lane, depth, ...loaded.rows[at++]]; });
	data.collectives = loaded.collectives;
	return read_tracks(loaded.bytes);
}

/* Calls visit(row, fresh) with each row and what the part has of it. */
function visit_rows(part, visit) {
	const read = row_reader(part.bytes);
	let at = 0;

	for (const track of [...tracks].sort((a, b) => a.number - b.number))
		for (const row of track.written)
			visit(row, read(track, part.rows[at++]));
}

const copy_of = ({ row, i }) => ({ row: { ...row }, i });
function adopt(part) {
	selected = selected && copy_of(selected);
	arrows = arrows.map(({ from, to }) => ({ from: copy_of(from), to: copy_of(to) }));
	visit_rows(part, (row, fresh) => {
		const { least, most, known } = row; /* of a counter: of the whole recording */

		Object.assign(row, { waits: undefined, members: undefined, correlation: undefined }, fresh, row.track.counter && { least, most, known });
	});
	read_collectives([...tracks].sort((a, b) => a.number - b.number), part.collectives);
	index_classes();
	loaded = part;
	if (matches)
		search(searched);
	redraw();
}

function show_failure(error) {
	find("about").textContent = "The slices cannot be loaded: " + error.message;
	find("about").className = "failed";
}

/* Whether the loaded part has what the screen shows. */
function has_view() {
	const from = Math.max(view.from, whole.from), to = Math.min(view.to, whole.to), pixel = 1 / scale() / (window.devicePixelRatio || 1);

	return loaded.from <= from && to <= loaded.until && (!loaded.merged || loaded.pixel_ns <= 1.05 * pixel);
}

async function load_view() {
	if (is_asking || has_view())
		return;
	const long = view.to - view.from, from = Math.max(0, Math.floor(view.from - long)), until = Math.max(from + 1, Math.ceil(view.to + long));

	is_asking = true;
	try {
		adopt(await ask_window(from, until, Math.ceil((until - from) * scale() * (window.devicePixelRatio || 1))));
		is_asking = false;
	} catch (error) {
		show_failure(error); /* and asks no more */
	}
}

/* --- a call and its work, wherever they are --- */

const rows_related = (id) => found_rows.get(id) || rows;
const is_asked = (id) => !found_rows.has(id);
async function load_related(id) {
	const part = await ask("correlation=" + id), some = [];

	visit_rows(part, (row, fresh) => {
		if (fresh.n && !row.track.counter)
			some.push({ ...row, waits: undefined, members: undefined, correlation: undefined, ...fresh });
	});
	index_classes();
	found_rows.set(id, some);
	if (selected && correlations_of(selected.row)[selected.i] === id) {
		select(selected);
		redraw();
	}
}

/* --- sums, which need all slices --- */

/*
 * Returns [class, slices, ns] of a part, or of all: null. While it is not known yet, returns null, and calls `again` when it is.
 */
const known_sums = new Map(), asked_sums = new Set();
function class_sums(part, again) {
	const from = Math.max(0, Math.floor(part?.from ?? 0)), until = Math.max(from + 1, Math.ceil(part?.to ?? data.duration_ns + 1)), key = from + "," + until;

	if (!asked_sums.has(key))
		ask("sums=1&from=" + from + "&until=" + until).then(({ sums }) => {
			known_sums.set(key, Object.entries(sums).map(([c, [n, ns]]) => [Number(c), n, ns]));
			index_classes();
			again();
		}).catch(show_failure);
	asked_sums.add(key);
	return known_sums.get(key) || null;
}

/* The same by name: the first class of each name -> { c, n, ns }. */
function sums_in(part, again) {
	const sums = new Map(), known = class_sums(part, again);

	for (const [c, n, ns] of known || []) {
		const sum = sums.get(alike[c]) || { c: alike[c], n: 0, ns: 0 };

		sum.n += n;
		sum.ns += ns;
		sums.set(alike[c], sum);
	}
	return known && sums;
}

function select_merged({ row, i }) {
	const columns = open_details(counted(row.more[i] + 1, "slice") + ", narrower than a pixel"), table = add(add(columns, "div"), "table");
	const [from, to] = [row.start[i], row.end[i]];

	selected = { row, i };
	span = null;
	arrows = [];
	add_line(table, "longest", name_of(row.class[i]));
	add_line(table, "busy", exact(row.busy[i + 1] - row.busy[i]) + " of " + duration(to - from));
	add_line(table, "start", moment(from));
	add_line(table, "where", group_name(row.track.group) + ", " + row.track.name);
	add(add_line(table, "to see them"), "button", "Zoom in", "link").addEventListener("click", () => show(from - (to - from) / 2, to + (to - from) / 2));
	redraw();
}
