/* Source and instructions side by side. <script id="data"> contains the data, see source_json. */
(function () {
	"use strict";
	const data = JSON.parse(document.getElementById("data").textContent);
	const main = document.querySelector("main"), root = document.documentElement;
	const words = new Map(data.reasons.map((r) => [r.reason, r]));
	const count = (n) => n.toLocaleString("en-US");
	const counted = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");
	const percent = (n, whole) => (whole ? 100 * n / whole : 0).toFixed(1) + "%";
	const base = (path) => path.slice(path.lastIndexOf("/") + 1);
	/* The number by which lines and instructions are ranked. */
	const weight = (place) => data.samples ? place.samples : place.executed || 0;
	const most = (list) => Math.max(1, ...list.map(weight));
	const quotient = (x, y) => x === null || !y ? "" : (x / y).toFixed(1);
	const has_counts = data.launches !== 0; /* null: of unknown launches */
	const count_heads = has_counts ? ["executed", "threads", "sectors/ideal"] : [];

	function make(tag, properties, ...children) {
		const element = Object.assign(document.createElement(tag), properties);

		element.append(...children);
		return element;
	}

	/* Reasons by samples, but the most frequent wait comes first, as in the report. */
	function reasons_of(place) {
		const list = Object.entries(place.reasons).sort((a, b) => b[1] - a[1]);
		const wait = list.findIndex(([name]) => words.get(name).wait);

		if (wait > 0)
			list.unshift(...list.splice(wait, 1));
		return list;
	}
	const reason_text = (place, [name, samples]) => percent(samples, place.samples) + " " + words.get(name).text;

	/* Returns the table cells of a line or instruction; `place` may be undefined. */
	function heat_cells(place, largest) {
		const share = make("td", { className: "share" }), why = make("td", { className: "why" });

		if (place && weight(place)) {
			share.textContent = percent(weight(place), weight(data));
			share.style.backgroundColor = "rgb(var(--heat) / " + (8 + 72 * weight(place) / largest).toFixed(0) + "%)";
		}
		if (place && place.samples) {
			const list = reasons_of(place);

			share.title = counted(place.samples, "sample") + ", " + percent(place.not_issued, place.samples) +
				      " while the scheduler issued nothing";
			why.textContent = reason_text(place, list[0]);
			why.title = list.map((r) => reason_text(place, r) +
						    (words.get(r[0]).advice ? "\nwhat helps: " + words.get(r[0]).advice : "")).join("\n");
		}
		return [share, ...count_cells(place), why];
	}

	/* Returns executed instructions, average active threads of 32, and sectors relative to the ideal number. */
	function count_cells(place) {
		const known = place && place.executed !== null ? place : null;
		const texts = [known ? count(known.executed) : "", known ? quotient(known.threads, known.executed) : "",
			       place ? quotient(place.rated, place.ideal) : ""];

		return count_heads.map((_, i) => make("td", { className: "n" }, texts[i]));
	}

	function pane(title, items, name) {
		const select = make("select", { ariaLabel: title }), note = make("div", { className: "note" });
		const rows = make("div", { className: "rows" });

		items.forEach((item, i) => select.append(make("option", { value: i }, percent(weight(item), weight(data)) + "  " + name(item))));
		main.append(make("section", {}, make("div", { className: "head" }, make("b", {}, title), select), note, rows));
		return { select, note, rows, shown: -1, marked: [] };
	}

	function fill(p, heads, rows) {
		p.rows.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((h) => make("th", {}, h)))),
					    make("tbody", {}, ...rows)));
		p.rows.scrollTop = 0;
		p.marked = [];
	}

	function row(cells, chosen) {
		const tr = make("tr", {}, ...cells);

		if (chosen) {
			tr.tabIndex = 0;
			tr.addEventListener("click", chosen);
			tr.addEventListener("keydown", (event) => {
				if (event.key === "Enter")
					chosen();
			});
		}
		return tr;
	}

	/* Marks rows and scrolls `best` into view, if given. */
	function mark(p, rows, best) {
		for (const tr of p.marked)
			tr.classList.remove("chosen");
		p.marked = rows.filter(Boolean);
		for (const tr of p.marked)
			tr.classList.add("chosen");
		if (best)
			best.scrollIntoView({ block: "center" });
	}

	const order = (list) => list.map((_, i) => i).sort((a, b) => weight(list[b]) - weight(list[a]));
	const files = order(data.files).map((i) => data.files[i]), file_index = new Map(order(data.files).map((of, i) => [of, i]));
	const source = pane("Source", files, (f) => f.path), code = pane("Instructions", data.kernels, (k) => k.label);
	let line_rows = new Map(), code_rows = [];

	function show_file(i) {
		const f = files[i], heat = new Map(f.heat.map((h) => [h.line, h])), largest = most(f.heat);
		/* Without its text, a file shows only the lines known from samples and instructions. */
		const numbers = f.lines ? f.lines.map((_, n) => n + 1) : [...new Set([...heat.keys(), ...known_lines(i)])].sort((a, b) => a - b);

		source.shown = source.select.value = i;
		source.note.textContent = f.missing ? "No text: " + f.missing + "." : "";
		line_rows = new Map();
		const with_code = known_lines(i);
		fill(source, ["share", ...count_heads, data.samples ? "its warps were" : "", "line", "source"], numbers.map((n) => {
			const tr = row([...heat_cells(heat.get(n), largest), make("td", { className: "n" }, n),
					make("td", { className: "text" }, f.lines ? f.lines[n - 1] : "")],
				       with_code.has(n) ? () => choose_line(i, n) : null);

			line_rows.set(n, tr);
			return tr;
		}));
	}

	function known_lines(i) {
		const lines = new Set();

		for (const kernel of data.kernels)
			for (const item of kernel.instructions)
				if (item.file !== null && file_index.get(item.file) === i)
					lines.add(item.line);
		return lines;
	}

	function show_code(k) {
		const kernel = data.kernels[k], largest = most(kernel.instructions), rows = [];

		code.shown = code.select.value = k;
		const whole = { samples: kernel.samples, reasons: {} };
		for (const item of kernel.instructions)
			for (const [name, samples] of Object.entries(item.reasons))
				whole.reasons[name] = (whole.reasons[name] || 0) + samples;
		const list = reasons_of(whole), advice = list.length ? words.get(list[0][0]).advice : "";
		code.note.textContent = (list.length ? "Its warps were: " + list.slice(0, 4).map((r) => reason_text(whole, r)).join(", ") + "." : "") +
			(advice ? " What helps against the first: " + advice + "." : "") +
			(kernel.missing ? " No text of instructions: " + kernel.missing + "." : "");
		code_rows = kernel.instructions.map((item) => {
			const where = item.file === null ? "" : base(data.files[item.file].path) + ":" + item.line;
			const tr = row([...heat_cells(item, largest), make("td", { className: "n" }, "0x" + item.offset.toString(16)),
					make("td", { className: "n" }, where), make("td", { className: "text" }, item.text || "")],
				       () => choose_instruction(k, item));

			if (item.label)
				rows.push(make("tr", { className: "label" }, make("td", { colSpan: 4 + count_heads.length }), make("td", {}, item.label + ":")));
			rows.push(tr);
			return tr;
		});
		fill(code, ["share", ...count_heads, data.samples ? "its warps were" : "", "offset", "line", "instruction"], rows);
	}

	const is_of = (item, i, n) => item.file !== null && file_index.get(item.file) === i && item.line === n;
	const samples_at = (kernel, i, n) => kernel.instructions.reduce((sum, item) => sum + (is_of(item, i, n) ? weight(item) + 1e-6 : 0), 0);

	function mark_line(i, n, scroll) {
		const items = data.kernels[code.shown].instructions;
		const of_line = items.map((item, at) => at).filter((at) => is_of(items[at], i, n));
		const best = of_line.reduce((a, b) => a === null || weight(items[b]) > weight(items[a]) ? b : a, null);

		mark(code, of_line.map((at) => code_rows[at]), scroll && best !== null ? code_rows[best] : null);
	}

	/* Keeps the kernel shown if it contains the line; otherwise shows the one with most samples of the line. */
	function choose_line(i, n) {
		const best = data.kernels.reduce((a, kernel, k) => samples_at(kernel, i, n) > samples_at(data.kernels[a], i, n) ? k : a, 0);

		if (!samples_at(data.kernels[code.shown], i, n))
			show_code(best);
		mark(source, [line_rows.get(n)], null);
		mark_line(i, n, true);
	}

	function choose_instruction(k, item) {
		if (item.file === null) {
			mark(code, [code_rows[data.kernels[k].instructions.indexOf(item)]], null);
			mark(source, [], null);
			return;
		}
		const i = file_index.get(item.file);

		if (source.shown !== i)
			show_file(i);
		mark(source, [line_rows.get(item.line)], line_rows.get(item.line));
		mark_line(i, item.line, false);
	}

	function hottest(list) {
		return list.reduce((a, b) => weight(b) > (a ? weight(a) : 0) ? b : a, null);
	}

	source.select.addEventListener("change", () => show_file(Number(source.select.value)));
	code.select.addEventListener("change", () => show_code(Number(code.select.value)));
	document.getElementById("theme").addEventListener("click", () => {
		root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
	});
	if (window.matchMedia("(prefers-color-scheme: dark)").matches)
		root.dataset.theme = "dark";
	document.getElementById("summary").textContent =
		[data.samples || !has_counts ? counted(data.samples, "sample") + " of kernels" : "",
		 has_counts ? counted(data.executed || 0, "instruction") + " executed" + (data.launches ? " in " + count(data.launches) + (data.launches === 1 ? " launch" : " launches") : "") : "",
		 ...data.hints.map((hint) => hint.text)].filter(Boolean).join("; ") +
		(data.without_line ? ", " + percent(data.without_line, data.samples) + " of code without lines (nvcc -lineinfo adds them)" : "") +
		(data.without_code ? ", " + percent(data.without_code, data.samples) + " of code that is not in the recording" : "");
	if (data.kernels.length)
		show_code(0);
	if (files.length) {
		show_file(0);
		const first = hottest(files[0].heat);
		if (first)
			choose_line(0, first.line);
		if (first)
			line_rows.get(first.line).scrollIntoView({ block: "center" });
	} else {
		source.note.textContent = "No source: no sample is of code with lines; nvcc -lineinfo adds them.";
	}
	window.source_page = { data, show_file, show_code, choose_line, choose_instruction, files };
})();
