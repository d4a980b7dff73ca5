/* Zoom, search and labels of an SVG flame graph. Frames are <g class="f …"><title/><rect/><text/></g>. */
(function () {
	"use strict";
	const svg = document.documentElement, text_px = 7.0, pad = 4;
	const find = (id) => document.getElementById(id);
	const sections = Array.from(document.querySelectorAll("g.section"), (element) => {
		const frames = Array.from(element.querySelectorAll("g.f"), (g) => {
			const rect = g.querySelector("rect"), number = (name) => Number(rect.getAttribute(name));
			const title = g.querySelector("title").textContent;

			return { g, rect, text: g.querySelector("text"), title, name: title.split("\n")[0],
				 x: number("x"), width: number("width"), y: number("y"), rest: g.classList.contains("rest"),
				 ns: Number(g.getAttribute("data-ns")) };
		});

		return { element, frames, left: frames[0].x, width: frames[0].width };
	});

	function label(frame, width) {
		const room = Math.floor((width - pad) / text_px);

		if (!frame.text)
			return;
		frame.text.textContent = room < 4 ? "" : frame.name.length <= room ? frame.name
					 : frame.name.slice(0, room - 1) + "\u2026";
	}

	function place(frame, x, width) {
		frame.rect.setAttribute("x", x);
		frame.rect.setAttribute("width", width);
		frame.rect.classList.toggle("w", width >= 4);
		if (frame.text)
			frame.text.setAttribute("x", x + pad / 2 + 1);
		label(frame, width);
	}

	/* Shows one frame at full width with the frames below it; the frames above it are dimmed. */
	function zoom(section, target) {
		const scale = section.width / target.width, end = target.x + target.width, slack = 1e-4;

		for (const f of section.frames) {
			const above = f.y < target.y && f.x <= target.x + slack && f.x + f.width >= end - slack;
			const inside = f.y >= target.y && f.x >= target.x - slack && f.x + f.width <= end + slack;

			f.g.classList.toggle("off", !above && !inside);
			f.g.classList.toggle("above", above);
			if (above)
				place(f, section.left, section.width);
			else if (inside)
				place(f, section.left + (f.x - target.x) * scale, f.width * scale);
		}
		find("reset").classList.toggle("off", sections.every((s) => !s.zoomed));
	}

	function zoom_to(section, target) {
		section.zoomed = target === section.frames[0] ? null : target;
		zoom(section, target);
	}

	function reset() {
		for (const section of sections)
			zoom_to(section, section.frames[0]);
	}

	/* Sums the time of matching frames per section; a match inside a match counts once. Boxes for omitted frames have no names. */
	function search(pattern) {
		const test = name_test(pattern), found = [];

		for (const section of sections) {
			let covered = -1, ns = 0, maybe_more = false;

			for (const f of section.frames) {
				const hit = !f.rest && test(f.name), uncovered = f.x >= covered - 1e-6;

				f.g.classList.toggle("hit", hit);
				maybe_more = maybe_more || (f.rest && uncovered);
				if (hit && uncovered) {
					ns += f.ns;
					covered = f.x + f.width;
				}
			}
			found.push((maybe_more ? "at least " : "") + (100 * ns / (section.frames[0].ns || 1)).toFixed(1) + "% of " +
				   section.element.getAttribute("data-kind"));
		}
		find("found").textContent = pattern ? "found: " + found.join(", ") : "";
		find("search").textContent = pattern ? "Clear search" : "Search";
		svg.setAttribute("data-search", pattern || "");
	}

	function toggle_search() {
		if (svg.getAttribute("data-search"))
			search("");
		else
			search(window.prompt("Find frames (a|b: either; .*: anything; ^, $: begin, end)") || "");
	}

	for (const section of sections)
		for (const f of section.frames) {
			label(f, f.width);
			f.g.addEventListener("click", () => zoom_to(section, f));
		}
	find("reset").addEventListener("click", reset);
	find("search").addEventListener("click", toggle_search);
	find("search").classList.remove("off");
	window.addEventListener("keydown", (event) => {
		if (event.key === "Escape" || event.key === "r")
			reset();
		else if (event.key === "/" || (event.key === "f" && (event.ctrlKey || event.metaKey)))
			toggle_search();
		else
			return;
		event.preventDefault();
	});
	window.flame = { reset, search, sections, zoom_to };
})();
