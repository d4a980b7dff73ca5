#include "cli/top_view.h"

#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/search.h"
#include "cli/monitor_view.h"
#include "report/text_table.h"

#define GPU_LINES_MAX 8u
#define KEYS "q quit  arrows select  s sort  r reverse  / filter  space pause"

const char *const top_sort_names[] = {
	[TOP_BY_GPU] = "gpu",           [TOP_BY_MEMORY] = "memory", [TOP_BY_CPU] = "cpu",
	[TOP_BY_LAUNCHES] = "launches", [TOP_BY_PID] = "pid",       NULL
};
static const char *const recorder_names[] = {
	[PROGRAM_PLAIN] = "none", [PROGRAM_PREPARED] = "prepared", [PROGRAM_RECORDED] = "recorded"
};

/* --- figures --- */

static bool is_working(const struct program *g)
{
	return g->recorder == PROGRAM_RECORDED && g->work.window_ns;
}

static uint64_t per_s(const struct program *g, uint64_t count)
{
	return g->work.window_ns ? count * NS_PER_S / g->work.window_ns : 0;
}

/* --- order --- */

static int64_t sort_value(const struct program *g, int sort)
{
	switch ((enum top_sort)sort) {
	case TOP_BY_GPU:
		/* Where NVML says nothing, what the recording shows does. */
		if (g->gpu_percent < 0 && is_working(g))
			return (int64_t)(g->work.busy_ns * 100 / g->work.window_ns);
		return g->gpu_percent;
	case TOP_BY_MEMORY:
		return g->memory_bytes == UINT64_MAX ? -1 : (int64_t)g->memory_bytes;
	case TOP_BY_CPU:
		return g->cpu_percent;
	case TOP_BY_LAUNCHES:
		return g->recorder == PROGRAM_RECORDED ? (int64_t)per_s(g, g->work.launches) : -1;
	default:
		return -(int64_t)g->pid;
	}
}

static bool matches(const struct program *g, const char *filter)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)g->pid);
	return !*filter || strcasestr(g->command ? g->command : "", filter) ||
	       strstr(g->user, filter) || strcmp(pid, filter) == 0;
}

static int compare(const void *x, const void *y, void *user)
{
	const struct top_view *v = user;
	const struct program *a = x, *b = y;
	bool in_a = matches(a, v->filter), in_b = matches(b, v->filter);
	int64_t left = sort_value(a, v->sort), right = sort_value(b, v->sort);
	int order = ORDER_OF(right, left);

	if (in_a != in_b)
		return in_b - in_a;
	if (v->reverse)
		order = -order;
	return order ? order : UP(pid);
}

size_t top_sort_programs(const struct top_view *v, struct programs *p)
{
	size_t count = 0;

	if (p->all.count)
		qsort_r(p->all.data, p->all.count, sizeof(*p->all.data), compare, (void *)v);
	while (count < p->all.count && matches(&p->all.data[count], v->filter))
		count++;
	return count;
}

/* --- the table --- */

static void add_percent(struct text_table *t, int64_t percent)
{
	if (percent < 0)
		text_table_add(t, "-");
	else
		text_table_addf(t, "%lld%%", (long long)percent);
}

static void add_gpus(struct text_table *t, uint64_t gpus)
{
	struct strbuf *out = text_table_begin(t);
	const char *separator = "";

	for (unsigned i = 0; i < 64; i++) {
		if (!(gpus >> i & 1))
			continue;
		strbuf_addf(out, "%s%u", separator, i);
		separator = ",";
	}
	if (!gpus)
		strbuf_addc(out, '-');
}

static void add_wait(struct text_table *t, const struct program *g)
{
	struct strbuf *out = text_table_begin(t);

	if (g->recorder != PROGRAM_RECORDED || !g->work.knows_waits) {
		strbuf_addc(out, '-');
	} else if (g->work.waits.count) {
		strbuf_adds(out, g->work.waits.data[0].function);
		strbuf_addc(out, ' ');
		human_duration(out, g->work.waits.data[0].for_ns);
	}
}

/* A long cell would drive all optional columns out. */
static void add_short(struct text_table *t, const char *cell, unsigned width)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	text_safe(&text, cell, strlen(cell));
	text_shorten(&text, MAX(width, 10u));
	text_table_add(t, strbuf_text(&text));
}

/* The folder of a program often takes the place of its name. */
static const char *without_folder(const char *command)
{
	const char *slash = memrchr(command, '/', strcspn(command, " "));

	return slash && slash[1] ? slash + 1 : command;
}

static void add_program(struct text_table *t, const struct program *g, unsigned width)
{
	text_table_addf(t, "%d", (int)g->pid);
	text_table_safe(t, g->user);
	add_gpus(t, g->gpus);
	add_percent(t, g->gpu_percent);
	if (g->memory_bytes == UINT64_MAX)
		text_table_add(t, "-");
	else
		text_table_bytes(t, g->memory_bytes);
	add_percent(t, g->cpu_percent);
	if (g->recorder == PROGRAM_RECORDED)
		text_table_count(t, per_s(g, g->work.launches));
	else
		text_table_add(t, "-");
	if (is_working(g))
		text_table_addf(t, "%llu%%",
				(unsigned long long)(g->work.busy_ns * 100 / g->work.window_ns));
	else
		text_table_add(t, g->recorder == PROGRAM_RECORDED ? "0%" : "-");
	add_wait(t, g);
	add_short(t, g->command ? without_folder(g->command) : "?", width / 3);
}

/* On a narrow terminal columns are left out from the left. */
static const struct text_column columns_of_programs[] = {
	RIGHT("PID"),        OPTIONAL("user"),         OPTIONAL("on GPU"),
	RIGHT("GPU"),        OPTIONAL_RIGHT("memory"), OPTIONAL_RIGHT("CPU"),
	RIGHT("launches/s"), OPTIONAL_RIGHT("busy"),   OPTIONAL("waits in"),
	FLEXIBLE("command"),
};

/* --- the work of one program --- */

static void add_shares(const struct program *g, bool kernels, unsigned width, bool color,
		       struct strbuf *out)
{
	static const struct text_column of_kernels[] = { RIGHT("time"), RIGHT("/s"),
							 FLEXIBLE("busiest kernels"),
							 OPTIONAL("launched at") };
	static const struct text_column of_lines[] = { RIGHT("time"), RIGHT("/s"),
						       FLEXIBLE("busiest lines") };
	struct text_table k = TEXT_TABLE_INIT(of_kernels), l = TEXT_TABLE_INIT(of_lines),
			  *t = kernels ? &k : &l;
	const struct work_share *shares = kernels ? g->work.busiest.data : g->work.lines.data;
	size_t count = kernels ? g->work.busiest.count : g->work.lines.count;

	for (size_t i = 0; i < count; i++) {
		text_table_percent(t, shares[i].total_ns, g->work.window_ns);
		text_table_count(t, per_s(g, shares[i].count));
		add_short(t, shares[i].name, kernels ? width / 2 : width);
		if (kernels)
			add_short(t, shares[i].line, width / 3);
	}
	if (count)
		text_table_print(t, 2, width, color, out);
	text_table_release(t);
}

static void add_waits(const struct program *g, unsigned width, struct strbuf *out)
{
	for (size_t i = 0; i < MIN(g->work.waits.count, 4u); i++) {
		const struct work_wait *w = &g->work.waits.data[i];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

		strbuf_addf(&line, "  waiting: thread %u, in %s%s%s, since ", w->thread,
			    w->function, *w->line ? " at " : "", w->line);
		human_duration(&line, w->for_ns);
		if (*w->work)
			strbuf_addf(&line, ", for %s", w->work);
		text_shorten(&line, width);
		strbuf_add(out, strbuf_text(&line), line.length);
		strbuf_addc(out, '\n');
	}
}

static void add_work(const struct program *g, unsigned width, bool color, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf title = STRBUF_INIT;

	if (g->recorder != PROGRAM_RECORDED) {
		strbuf_addf(&title, "%d %s", (int)g->pid,
			    g->recorder == PROGRAM_PREPARED
				    ? "is prepared: pitot top -p shows its kernels"
				    : "has no recorder: start it with PITOT_IDLE=1");
	} else if (!g->work.window_ns) {
		strbuf_addf(&title, "%d has had no GPU work in the last 5 s", (int)g->pid);
	} else {
		strbuf_addf(&title, "%d: ", (int)g->pid);
		human_count(&title, per_s(g, g->work.launches));
		strbuf_adds(&title, " launches/s, ");
		human_count(&title, per_s(g, g->work.kernels));
		strbuf_adds(&title, " kernels/s, GPU busy ");
		human_percent(&title, g->work.busy_ns, g->work.window_ns);
		strbuf_adds(&title, " of the time");
	}
	text_shorten(&title, width);
	style_add(out, color, STYLE_BOLD, strbuf_text(&title));
	strbuf_addc(out, '\n');
	if (g->recorder != PROGRAM_RECORDED)
		return;
	add_waits(g, width, out);
	add_shares(g, true, width, color, out);
	add_shares(g, false, width, color, out);
}

/* --- the screen --- */

static void add_head(const struct programs *p, size_t count, const struct monitor *m,
		     const struct top_view *v, unsigned width, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	unsigned gpus = m->gpu_count, shown = MIN(gpus, GPU_LINES_MAX);

	strbuf_addf(&line, "%zu program%s%s on %u GPU%s, by %s%s", count, plural(count),
		    count < p->all.count ? " of those that use a GPU" : "", gpus, plural(gpus),
		    top_sort_names[v->sort], v->reverse ? ", smallest first" : "");
	if (*v->filter) {
		strbuf_adds(&line, ", with '");
		text_safe(&line, v->filter, strlen(v->filter));
		strbuf_addc(&line, '\'');
	}
	for (unsigned i = 0; i < shown; i++) {
		text_shorten(&line, width);
		strbuf_add(out, strbuf_text(&line), line.length);
		strbuf_addc(out, '\n');
		strbuf_clear(&line);
		monitor_gpu_text(m, i, &line);
	}
	if (shown < gpus)
		strbuf_addf(&line, "; and %u more GPUs", gpus - shown);
	text_shorten(&line, width);
	strbuf_add(out, strbuf_text(&line), line.length);
	strbuf_addc(out, '\n');
}

static unsigned count_lines(const struct strbuf *text)
{
	unsigned lines = 0;

	for (const char *at = strbuf_text(text); (at = strchr(at, '\n')); at++)
		lines++;
	return lines;
}

/* Appends lines first … first + most - 1 of a text; the selected one is shown in reverse. */
static void add_lines(struct strbuf *out, const struct strbuf *text, unsigned first, unsigned most,
		      unsigned selected)
{
	const char *at = strbuf_text(text);

	for (unsigned i = 0; *at && i < first + most; i++) {
		size_t length = strcspn(at, "\n");

		if (i >= first) {
			strbuf_adds(out, i == selected ? "\033[7m" : "");
			strbuf_add(out, at, length);
			strbuf_adds(out, i == selected ? "\033[0m\n" : "\n");
		}
		at += length + (at[length] == '\n');
	}
}

static size_t selected_index(const struct top_view *v, const struct programs *p, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (p->all.data[i].pid == v->selected)
			return i;
	return 0;
}

static void print_listing(const struct programs *p, size_t count, unsigned columns, bool color,
			  struct strbuf *out)
{
	for (size_t i = 0; i < count; i++) {
		if (p->all.data[i].recorder != PROGRAM_RECORDED)
			continue;
		strbuf_addc(out, '\n');
		add_work(&p->all.data[i], columns, color, out);
	}
}

void top_print(const struct top_view *v, const struct programs *p, size_t count,
	       const struct monitor *m, unsigned columns, unsigned lines, bool color,
	       struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf head = STRBUF_INIT, table = STRBUF_INIT, work = STRBUF_INIT;
	struct text_table t = TEXT_TABLE_INIT(columns_of_programs);
	size_t selected = selected_index(v, p, count);
	unsigned room, rows, first;

	add_head(p, count, m, v, columns, &head);
	for (size_t i = 0; i < count; i++)
		add_program(&t, &p->all.data[i], columns);
	text_table_print(&t, 0, columns, color, &table);
	text_table_release(&t);
	if (!lines) {
		strbuf_add(out, strbuf_text(&head), head.length);
		strbuf_add(out, strbuf_text(&table), table.length);
		print_listing(p, count, columns, color, out);
		out->failed |= head.failed || table.failed;
		return;
	}
	if (count)
		add_work(&p->all.data[selected], columns, color, &work);
	/* The table has what it needs, but leaves half of the screen to the work. */
	add_lines(out, &head, 0, lines - MIN(lines, 3u), UINT32_MAX);
	room = lines - MIN(lines, MIN(count_lines(&head), lines - MIN(lines, 3u)) + 1);
	rows = MIN((unsigned)count + 1, room - MIN(room / 2, count_lines(&work)));
	first = (unsigned)selected + 2 > rows ? (unsigned)selected + 2 - rows : 0;
	add_lines(out, &table, 0, MIN(rows, 1u), UINT32_MAX);
	add_lines(out, &table, first + 1, rows - MIN(rows, 1u),
		  count ? (unsigned)selected + 1 : UINT32_MAX);
	add_lines(out, &work, 0, room - rows, UINT32_MAX);
	for (unsigned used = rows + MIN(room - rows, count_lines(&work)); used < room; used++)
		strbuf_addc(out, '\n');
	strbuf_clear(&work);
	if (v->prompt)
		text_safe(&work, v->prompt, strlen(v->prompt));
	else
		strbuf_adds(&work, KEYS);
	text_shorten(&work, columns);
	style_add(out, color, STYLE_DIM, strbuf_text(&work));
	out->failed |= head.failed || table.failed || work.failed;
}

/* --- JSON --- */

static void shares_json(const struct work_share *shares, size_t count, bool kernels, struct json *j)
{
	json_key_array(j, kernels ? "kernels" : "lines");
	for (size_t i = 0; i < count; i++) {
		json_object(j);
		json_key_string(j, "name", shares[i].name);
		if (kernels)
			json_key_string(j, "line", *shares[i].line ? shares[i].line : NULL);
		json_key_u64(j, "count", shares[i].count);
		json_key_u64(j, "total_ns", shares[i].total_ns);
		json_end(j);
	}
	json_end(j);
}

static void work_json(const struct program *g, struct json *j)
{
	const struct program_work *w = &g->work;

	json_object(j);
	json_key_u64(j, "window_ns", w->window_ns);
	json_key_u64(j, "launches", w->launches);
	json_key_u64(j, "kernel_count", w->kernels);
	json_key_u64(j, "busy_ns", w->busy_ns);
	shares_json(w->busiest.data, w->busiest.count, true, j);
	shares_json(w->lines.data, w->lines.count, false, j);
	json_key(j, "waits");
	if (!w->knows_waits) {
		json_null(j);
		json_end(j);
		return;
	}
	json_array(j);
	for (size_t i = 0; i < w->waits.count; i++)
		work_wait_json(&w->waits.data[i], j);
	json_end(j);
	json_end(j);
}

static void program_json(const struct program *g, struct json *j)
{
	json_object(j);
	json_key_u64(j, "pid", (uint64_t)g->pid);
	json_key_string(j, "user", *g->user ? g->user : NULL);
	json_key_string(j, "command", g->command);
	json_key_array(j, "gpus");
	for (unsigned i = 0; i < 64; i++)
		if (g->gpus >> i & 1)
			json_u64(j, i);
	json_end(j);
	json_key_known(j, "gpu_percent", g->gpu_percent >= 0, (uint64_t)g->gpu_percent);
	json_key_known(j, "memory_bytes", g->memory_bytes != UINT64_MAX, g->memory_bytes);
	json_key_known(j, "cpu_percent", g->cpu_percent >= 0, (uint64_t)g->cpu_percent);
	json_key_string(j, "recorder", recorder_names[g->recorder]);
	json_key(j, "work");
	if (g->recorder == PROGRAM_RECORDED)
		work_json(g, j);
	else
		json_null(j);
	json_end(j);
}

void top_json(const struct programs *p, size_t count, const struct monitor *m, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	monitor_json_begin(m, &j);
	json_key_array(&j, "programs");
	for (size_t i = 0; i < count; i++)
		program_json(&p->all.data[i], &j);
	json_finish(&j);
}
