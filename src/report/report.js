/*
 * Sorts a table by a click on a head, or Enter: by value, the other way round, and as it was. Notes stay below their rows. The page is
 * complete without this script.
 */
"use strict";
const FACTORS = new Map(Object.entries({ ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, k: 1e3, M: 1e6,
					 G: 1e9, T: 1e12 }));

/* The number of a cell, in the smallest unit, or its text; null: nothing. */
function value_of(cell) {
	const text = cell ? cell.textContent.trim() : "", bar = cell && cell.querySelector("i"), found = /^([-+]?[\d,]*\.?\d+) ?([A-Za-z]*)/.exec(text);

	if (bar && !text)
		return parseFloat(bar.style.width);
	if (!text || text === "-")
		return null;
	return found ? parseFloat(found[1].replaceAll(",", "")) * (FACTORS.get(found[2]) || FACTORS.get(found[2][0]) || 1) : text;
}

function compare(a, b) {
	if (a === null || b === null)
		return (a === null) - (b === null);
	return typeof a === "number" && typeof b === "number" ? b - a : String(a).localeCompare(String(b), "en", { numeric: true });
}

for (const table of document.querySelectorAll("table:not(.fixed)")) {
	const heads = [...table.querySelectorAll("th")], groups = [];

	for (const row of table.rows)
		if (row.className === "note" && groups.length)
			groups[groups.length - 1].push(row);
		else if (row.querySelector("td"))
			groups.push([row]);
	for (const [column, head] of groups.length > 1 ? heads.entries() : []) {
		const button = document.createElement("button");

		if (!head.textContent)
			continue;
		button.append(...head.childNodes);
		head.append(button);
		button.addEventListener("click", () => {
			const order = { descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort")] || "descending";
			const sign = order === "ascending" ? -1 : 1, sorted = groups.map((rows) => ({ rows, value: value_of(rows[0].cells[column]) }));

			for (const each of heads)
				each.removeAttribute("aria-sort");
			if (order !== "none") {
				head.setAttribute("aria-sort", order);
				sorted.sort((a, b) => a.value === null || b.value === null ? compare(a.value, b.value) : sign * compare(a.value, b.value));
			}
			for (const { rows } of sorted)
				rows.forEach((row) => row.parentNode.append(row));
		});
	}
}
