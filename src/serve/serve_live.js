/* What `pitot top --json` knows, every two seconds. Texts of programs are only ever text. */
const find = (id) => document.getElementById(id), EVERY_MS = 2000;

/* Columns: [head, class, text of an item]. */
function fill(table, columns, items) {
	table.textContent = "";
	table.hidden = !items.length;
	const head = add(table, "tr");
	for (const [title, name] of columns)
		add(head, "th", title, name);
	for (const item of items) {
		const row = add(table, "tr");

		for (const [, name, text] of columns)
			add(row, "td", text(item) ?? "-", name);
	}
}

const percent = (n) => n === null || n === undefined ? null : n + "%";
const mebibytes = (n) => n === null || n === undefined ? null : Math.round(n / 1048576).toLocaleString("en-US") + " MiB";
const WORK = {
	launches: ({ work }) => work && Math.round(work.launches * 1e9 / work.window_ns).toLocaleString("en-US"),
	busy: ({ work }) => work && (100 * work.busy_ns / work.window_ns).toFixed(0) + "%",
	kernels: ({ work }) => work?.kernels.map(({ name, line }) => name + (line ? " (" + line + ")" : "")).join(", ") || null,
	waits: ({ work }) => work?.waits?.map(({ function: name, line }) => name + (line ? " (" + line + ")" : "")).join(", ") || null,
};
const GPUS = [["", "", (g) => "GPU " + g.gpu], ["name", "", (g) => g.name], ["busy", "number", (g) => percent(g.gpu_utilization)],
	["memory", "number", (g) => mebibytes(g.gpu_memory_used)], ["of", "number", (g) => mebibytes(g.memory_bytes)],
	["power", "number", (g) => g.gpu_power === undefined ? null : Math.round(g.gpu_power) + " W"]];
const PROGRAMS = [["pid", "number", (p) => p.pid], ["user", "", (p) => p.user], ["GPUs", "", (p) => p.gpus.join(", ") || null],
	["GPU", "number", (p) => percent(p.gpu_percent)], ["memory", "number", (p) => mebibytes(p.memory_bytes)], ["CPU", "number", (p) => percent(p.cpu_percent)],
	["recorder", "", (p) => p.recorder], ["launches/s", "number", WORK.launches], ["kernels run", "number", WORK.busy],
	["waits in", "name", WORK.waits], ["busiest kernels", "name", WORK.kernels], ["command", "command", (p) => p.command]];

async function load() {
	try {
		const answer = await fetch("/programs");

		if (!answer.ok)
			throw new Error("it answers with status " + answer.status);
		const { programs, gpus } = await answer.json();
		fill(find("gpus"), GPUS, gpus);
		fill(find("programs"), PROGRAMS, programs);
		find("found").textContent = programs.length ? "" : "No program uses a GPU, and none is prepared to be recorded.";
	} catch (error) {
		find("found").textContent = "pitot serve cannot be reached: " + error.message;
	}
	setTimeout(load, EVERY_MS);
}
load();
