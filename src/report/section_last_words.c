/* section_last_words.c: what had not ended when a process died or hung. */
#include "report/section.h"

#include <signal.h>
#include <string.h>

#include "analysis/last_readings.h"
#include "analysis/last_words.h"
#include "base/path.h"
#include "base/plural.h"
#include "names/demangle.h"
#include "report/words.h"
#include "system/throttle.h"

#define LINES_MAX 8u /* for each process, of works, of waits and of places in core files */

static void add_function(const struct report *r, uint32_t function, struct strbuf *out)
{
	size_t length;
	const char *name = calls_function_name(r->trace, function, &length);

	text_safe(out, length ? name : "?", length ? length : 1);
}

static void add_name(const char *mangled, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	kernel_name_text(mangled, false, &name);
	text_safe(out, strbuf_text(&name), name.length);
}

bool report_launch_name(const struct report *r, uint32_t name, struct strbuf *out)
{
	if (name == TRACE_NO_ROW)
		return false;
	add_name(trace_string(r->trace, name), out);
	return true;
}

void report_work_text(const struct report *r, const struct last_work *work, struct strbuf *out)
{
	const uint32_t *names = kernel_config_columns(r->trace)->name;

	if (work->config < trace_rows(r->trace, TABLE_kernel_config) &&
	    strcmp(trace_string(r->trace, names[work->config]), "?") != 0)
		report_kernel_text(r, work->config, false, out);
	else if (work->kind == unfinished_kind_kernel) {
		if (!report_launch_name(
			    r, last_words_name(r->trace, work->process, work->correlation), out))
			strbuf_adds(out, "a kernel of unknown name");
	} else
		strbuf_adds(
			out,
			schema_value_name(
				&schema_table(TABLE_unfinished)->columns[COLUMN_unfinished_kind],
				work->kind));
}

static void add_collective(const struct report *r, const struct last_work *work, struct strbuf *out)
{
	const struct collective_columns *c = collective_columns(r->trace);

	strbuf_adds(out,
		    schema_value_name(
			    &schema_table(TABLE_collective)->columns[COLUMN_collective_function],
			    c->function[work->collective]));
	strbuf_addf(out, " %llu", (unsigned long long)c->sequence[work->collective]);
}

/* "process 4711 (rank 3) was killed by SIGKILL" */
static void add_process(const struct report *r, uint32_t process, struct strbuf *out)
{
	const struct trace_process *p = trace_process(r->trace, process);
	const char *signal = p->exit_status > 128 ? sigabbrev_np(p->exit_status - 128) : NULL;

	strbuf_addf(out, "process %u", p->pid);
	if (p->rank != TRACE_NO_RANK)
		strbuf_addf(out, " (rank %u)", p->rank);
	if (signal)
		strbuf_addf(out, " was killed by SIG%s", signal);
	else if (p->exit_status >= 0)
		strbuf_addf(out, " ended with status %d", p->exit_status);
	else
		strbuf_adds(out, " had not ended");
	strbuf_addc(out, '\n');
}

static void add_late(const struct report *r, const struct last_work *work, struct strbuf *out)
{
	const struct last_words *l = r->last_words;
	size_t end = work->first_late + work->late_count, unknown = 0, shown = 0;

	for (size_t i = work->first_late; i < end; i++) {
		const struct late_rank *late = &l->late.data[i];

		unknown += late->process == TRACE_NO_ROW;
		if (late->process == TRACE_NO_ROW)
			continue;
		if (shown++ < 8)
			strbuf_addf(out, "%s%u", shown == 1 ? ", which rank " : ", ", late->rank);
	}
	if (shown > 8)
		sentence_add(out, WORDS(" and "), NUMBER(shown - 8), WORDS(" more"));
	if (shown)
		strbuf_adds(out, " of its communicator had not called");
	if (unknown)
		sentence_add(out, WORDS(", "), COUNTED_AS(unknown, "rank"),
			     WORDS(" of its communicator unknown"));
}

/* ", launched at 1.234 s (38.0 s earlier)" */
static void add_since(const struct report *r, const char *what, uint64_t start_ns, uint64_t seen_ns,
		      struct strbuf *out)
{
	sentence_add(out, WORDS(what), WORDS(" at "),
		     DURATION(start_ns - MIN(start_ns, r->span_start_ns)));
	if (seen_ns >= start_ns)
		sentence_add(out, WORDS(" ("), DURATION(seen_ns - start_ns), WORDS(" earlier)"));
}

static void add_work(const struct report *r, const struct last_work *work, struct strbuf *out)
{
	sentence_add(out, WORDS("on stream "), NUMBER(work->stream), WORDS(" of GPU "),
		     NUMBER(work->device), WORDS(", "));
	report_work_text(r, work, out);
	strbuf_adds(out, " had no end");
	if (work->launched_ns)
		add_since(r, ", launched", work->launched_ns, work->seen_ns, out);
	if (work->caller != CALLER_NONE) {
		strbuf_adds(out, " by ");
		report_line_text(r, work->caller, CALLER_NONE, out);
	}
	if (work->behind)
		sentence_add(out, WORDS("; "), COUNTED_AS(work->behind, "piece"),
			     WORDS(" of work behind it"));
	if (work->collective != TRACE_NO_ROW) {
		strbuf_adds(out, "; it carries ");
		add_collective(r, work, out);
		add_late(r, work, out);
	}
	strbuf_addc(out, '\n');
}

/* ", the first one of step_kernel, made at 1.05 s (4.13 s earlier) by train.py:57 step" */
static void add_first_launch(const struct report *r, const struct last_process *p, uint64_t count,
			     struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;

	strbuf_adds(&what, count > 1 ? ", the first one" : "");
	strbuf_adds(&what, p->open_name == TRACE_NO_ROW ? "" : count > 1 ? " of " : ", that of ");
	report_launch_name(r, p->open_name, &what);
	strbuf_adds(&what, count > 1 && p->open_name == TRACE_NO_ROW ? " made" : ", made");
	add_since(r, strbuf_text(&what), p->open_ns, p->seen_ns, out);
	if (p->open_caller != CALLER_NONE) {
		strbuf_adds(out, " by ");
		report_line_text(r, p->open_caller, CALLER_NONE, out);
	}
	strbuf_addc(out, '\n');
}

static void add_open(const struct report *r, const struct last_process *p, struct strbuf *out)
{
	if (!p->open)
		return;
	strbuf_addf(out, "%llu launch%s had no recorded end", (unsigned long long)p->open,
		    plural_es(p->open));
	add_first_launch(r, p, p->open, out);
}

/* Not all records could be read. */
static void add_unread(const struct report *r, const struct last_process *p, struct strbuf *out)
{
	if (!p->unread)
		return;
	strbuf_addf(out,
		    p->is_one_open ? "%s%llu launch%s had not ended, because a call waited for it"
				   : "%s%llu launch%s had an end or had none: not all of CUPTI's "
				     "records could be read",
		    p->is_one_open && p->unread > 1 ? "at least one of " : "",
		    (unsigned long long)p->unread, plural_es(p->unread));
	if (p->open)
		strbuf_addc(out, '\n');
	else
		add_first_launch(r, p, p->unread, out);
}

static void add_wait(const struct report *r, const struct last_wait *wait, struct strbuf *out)
{
	report_thread_text(r, wait->process, wait->thread, out);
	strbuf_adds(out, " waited in ");
	add_function(r, wait->function, out);
	if (wait->caller != CALLER_NONE) {
		strbuf_adds(out, " at ");
		report_line_text(r, wait->caller, CALLER_NONE, out);
	}
	add_since(r, ", called", wait->start_ns, wait->seen_ns, out);
	strbuf_addc(out, '\n');
}

/* --- what the GPU said --- */

static const struct last_reading *reading_of(const struct report *r, size_t gpu, enum metric_id id)
{
	const struct last_reading *at = &r->last_readings->gpus[gpu].at[id];

	return at->time_ns ? at : NULL;
}

/* ", 118 W" */
static void add_reading(const struct report *r, size_t gpu, enum metric_id id, const char *before,
			const char *unit, struct strbuf *out)
{
	const struct last_reading *at = reading_of(r, gpu, id);
	int64_t value = at ? at->value : 0;

	for (unsigned i = metric_find(id)->decimals; i > 0; i--)
		value /= 10;
	if (at)
		strbuf_addf(out, "%s%lld%s", before, (long long)value, unit);
}

static void add_limits(const struct report *r, size_t gpu, struct strbuf *out)
{
	const struct last_reading *reasons = reading_of(r, gpu, METRIC_gpu_throttle_reasons);
	_cleanup_strbuf_ struct strbuf limits = STRBUF_INIT;

	if (!reasons)
		return;
	throttle_text((uint64_t)reasons->value, &limits);
	strbuf_addf(out, limits.length ? ", clocks held down by %s" : ", clocks not held down",
		    strbuf_text(&limits));
}

/* "GPU 0 was at 100 %, 118 W of 700 W, 1980 MHz, 41 C, clocks not held down" */
static void add_gpu(const struct report *r, size_t gpu, struct strbuf *out)
{
	const struct last_reading *xid = reading_of(r, gpu, METRIC_gpu_xid),
				  *ecc = reading_of(r, gpu, METRIC_gpu_ecc_uncorrected);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	add_reading(r, gpu, METRIC_gpu_utilization, ", utilization ", " %", &text);
	add_reading(r, gpu, METRIC_gpu_power, ", ", " W", &text);
	if (reading_of(r, gpu, METRIC_gpu_power))
		add_reading(r, gpu, METRIC_gpu_power_limit, " of ", " W", &text);
	add_reading(r, gpu, METRIC_gpu_sm_clock, ", ", " MHz", &text);
	add_reading(r, gpu, METRIC_gpu_temperature, ", ", " C", &text);
	add_limits(r, gpu, &text);
	if (xid)
		sentence_add(&text, WORDS(", Xid "), NUMBER((uint64_t)xid->value), WORDS(" "),
			     DURATION(r->last_readings->seen_ns - xid->time_ns), WORDS(" before"));
	if (ecc && ecc->value > 0)
		sentence_add(&text, WORDS(", "), COUNTED_AS((uint64_t)ecc->value, "memory error"),
			     WORDS(" that ECC could not correct since the driver was loaded"));
	if (text.length)
		strbuf_addf(out, "GPU %zu:%s\n", gpu, strbuf_text(&text) + 1);
}

#define DEVICES_MAX 64u

/* The GPUs on which work of the process had no end; of launches without a record, all of its. */
static void add_gpus(const struct report *r, uint32_t process, bool all, struct strbuf *out)
{
	const struct last_words *l = r->last_words;

	for (size_t gpu = 0; gpu < r->gpus.count && r->last_readings->gpus; gpu++) {
		bool is_used = false;

		for (size_t i = 0; i < l->works.count; i++)
			is_used |= l->works.data[i].process == process &&
				   gpus_find(&r->gpus, process, l->works.data[i].device) == gpu;
		for (uint32_t device = 0; device < DEVICES_MAX && all; device++)
			is_used |= gpus_find(&r->gpus, process, device) == gpu;
		if (is_used)
			add_gpu(r, gpu, out);
	}
}

/* --- core files of GPUs --- */

static void add_index(const char *what, uint32_t x, uint32_t y, uint32_t z, struct strbuf *out)
{
	strbuf_addf(out, ", %s (%u, %u, %u)", what, x, y, z);
}

static void add_text_of(const struct report *r, uint32_t id, struct strbuf *out)
{
	const char *text = trace_string(r->trace, id);

	text_safe(out, text, strlen(text));
}

/* ", at smooth.cu:12 in smooth + 0x150" */
static void add_instruction(const struct report *r, uint32_t row, struct strbuf *out)
{
	const struct gpu_core_columns *c = gpu_core_columns(r->trace);
	bool has_line = column_has(c->valid.line, row);

	if (has_line) {
		strbuf_adds(out, ", at ");
		text_safe(out, base_name(trace_string(r->trace, c->source_file[row])),
			  strlen(base_name(trace_string(r->trace, c->source_file[row]))));
		strbuf_addf(out, ":%u", c->line[row]);
	}
	if (!column_has(c->valid.function, row))
		return;
	strbuf_adds(out, has_line ? " in " : ", at ");
	add_name(trace_string(r->trace, c->function[row]), out);
	strbuf_addf(out, " + 0x%llx", (unsigned long long)c->offset[row]);
}

static void add_core_threads(const struct report *r, uint32_t row, struct strbuf *out)
{
	const struct gpu_core_columns *c = gpu_core_columns(r->trace);

	if (!column_has(c->valid.block_index_x, row)) {
		if (column_has(c->valid.multiprocessor, row))
			strbuf_addf(out, ", on multiprocessor %u, where its threads had ended",
				    c->multiprocessor[row]);
		return;
	}
	add_index("block", c->block_index_x[row], c->block_index_y[row], c->block_index_z[row],
		  out);
	add_index("thread", c->thread_index_x[row], c->thread_index_y[row], c->thread_index_z[row],
		  out);
	if (c->threads[row] > 1)
		sentence_add(out, WORDS(" and "), COUNTED_AS(c->threads[row] - 1, "other thread"));
}

/* Of a file that was written without an exception, the kernel ran. */
static void add_core(const struct report *r, const struct last_core *core, struct strbuf *out)
{
	const struct gpu_core_columns *c = gpu_core_columns(r->trace);
	uint32_t row = core->row;
	bool has_exception = column_has(c->valid.exception, row);

	if (column_has(c->valid.device, row)) {
		strbuf_addf(out, "core file of GPU %u: ", c->device[row]);
		if (has_exception)
			add_text_of(r, c->exception[row], out);
		strbuf_adds(out, has_exception ? " in " : "");
		if (column_has(c->valid.kernel, row))
			add_name(trace_string(r->trace, c->kernel[row]), out);
		else
			strbuf_adds(out, "a kernel of unknown name");
		strbuf_adds(out, has_exception ? "" : " ran");
		add_core_threads(r, row, out);
		add_instruction(r, row, out);
	} else {
		strbuf_adds(out, "core file of a GPU");
	}
	if (column_has(c->valid.reason, row)) {
		strbuf_adds(out, "; ");
		add_text_of(r, c->reason[row], out);
	}
	strbuf_adds(out, "; gpu-cores/");
	add_text_of(r, c->file[row], out);
	strbuf_addc(out, '\n');
}

static void add_cores(const struct report *r, uint32_t process, struct strbuf *out)
{
	const struct last_words *l = r->last_words;
	size_t count = 0;

	for (size_t i = 0; i < l->cores.count; i++)
		if (l->cores.data[i].process == process && count++ < LINES_MAX)
			add_core(r, &l->cores.data[i], out);
	if (count > LINES_MAX)
		sentence_add(out, WORDS("and "), COUNTED_AS(count - LINES_MAX, "more place"),
			     WORDS(" in core files of GPUs: pitot view RECORDING gpu_core\n"));
}

static bool has_core(const struct last_words *l, uint32_t process)
{
	for (size_t i = 0; i < l->cores.count; i++)
		if (l->cores.data[i].process == process)
			return true;
	return false;
}

static void add_of_process(const struct report *r, const struct last_process *p, struct strbuf *out)
{
	const struct last_words *l = r->last_words;

	add_process(r, p->process, out);
	add_cores(r, p->process, out);
	for (size_t i = 0, shown = 0; i < l->works.count && shown < LINES_MAX; i++)
		if (l->works.data[i].process == p->process && ++shown)
			add_work(r, &l->works.data[i], out);
	if (p->works > LINES_MAX)
		sentence_add(out, WORDS("and "), NUMBER(p->works - LINES_MAX),
			     WORDS(" more streams\n"));
	add_open(r, p, out);
	add_unread(r, p, out);
	add_gpus(r, p->process, p->open || p->unread, out);
	if (!p->works && !p->open && !p->uncertain && p->is_complete && p->has_records &&
	    !has_core(l, p->process))
		strbuf_adds(out, "all GPU work that it had launched had ended\n");
	for (size_t i = 0, shown = 0; i < l->waits.count && shown < LINES_MAX; i++)
		if (l->waits.data[i].process == p->process && ++shown)
			add_wait(r, &l->waits.data[i], out);
	if (p->waits > LINES_MAX)
		sentence_add(out, WORDS("and "), NUMBER(p->waits - LINES_MAX),
			     WORDS(" more threads\n"));
	if (p->undelivered)
		sentence_add(out, COUNTED_AS(p->undelivered, "more piece"),
			     WORDS(" of work had ended, as later work or calls that waited show, "
				   "but CUPTI had not delivered the times\n"));
}

static void add_text(const struct report *r, struct strbuf *out)
{
	const struct last_words *l = r->last_words;

	for (size_t i = 0; i < l->processes.count; i++)
		add_of_process(r, &l->processes.data[i], out);
	add_cores(r, TRACE_NO_ROW, out);
	if (l->processes.count && r->last_readings->refusal && *r->last_readings->refusal) {
		text_safe(out, r->last_readings->refusal, strlen(r->last_readings->refusal));
		strbuf_addc(out, '\n');
	}
}

static bool is_shown(const struct report_view *v)
{
	const struct last_words *l = v->report->last_words;

	return l->processes.count || has_core(l, TRACE_NO_ROW);
}

static void print(const struct report_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!is_shown(v))
		return;
	report_title(v, "last words", "");
	add_text(v->report, &text);
	report_paragraph(v, 2, strbuf_text(&text));
}

ROW_READ(read_text, void, add_text(v->report, &out->text))
ROW_READ(read_kernel, struct last_work, report_work_text(v->report, row, &out->text))
ROW_READ(read_collective, struct last_work, add_collective(v->report, row, &out->text))
ROW_READ(read_open_name, struct last_process,
	 report_launch_name(v->report, row->open_name, &out->text))
ROW_IF(has_open, struct last_process, row->open || row->unread)
ROW_IF(has_open_name, struct last_process, row->open_name != TRACE_NO_ROW)
ROW_IF(has_collective, struct last_work, row->collective != TRACE_NO_ROW)
ROW_IF(is_launch_known, struct last_work, row->launched_ns)
ROW_IF(is_recorded, struct late_rank, row->process != TRACE_NO_ROW)

static const void *late_item(const struct report_view *v, const void *row, size_t i)
{
	const struct last_work *work = row;

	return i < work->late_count ? &v->report->last_words->late.data[work->first_late + i]
				    : NULL;
}

static const struct field late_fields[] = {
	FIELD("rank", NULL, ID, MEMBER(struct late_rank, rank)),
	FIELD("pid", NULL, PID, MEMBER(struct late_rank, process), .when = is_recorded,
	      .null = true),
};

#define WORK(member) MEMBER(struct last_work, member)

static const struct field work_fields[] = {
	FIELD("pid", NULL, PID, WORK(process)),
	FIELD("device", NULL, ID, WORK(device)),
	FIELD("stream", NULL, ID, WORK(stream)),
	FIELD("kind", NULL, NAME, WORK(kind), ENUM(unfinished, kind)),
	FIELD("what", NULL, TEXT, .value = read_kernel),
	FIELD("caller", NULL, LINE, WORK(caller)),
	FIELD("launched_ns", NULL, TIME, WORK(launched_ns), .when = is_launch_known, .null = true),
	FIELD("seen_ns", NULL, TIME, WORK(seen_ns)),
	FIELD("behind", NULL, COUNT, WORK(behind)),
	FIELD("collective", NULL, TEXT, .value = read_collective, .when = has_collective,
	      .null = true),
	{ .key = "late_ranks",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ FIELDS(late_fields), .item = late_item } },
};

#define WAIT(member) MEMBER(struct last_wait, member)

static const struct field wait_fields[] = {
	FIELD("pid", NULL, PID, WAIT(process)),
	FIELD("thread", NULL, ID, WAIT(thread)),
	FIELD("function", NULL, FUNCTION, WAIT(function)),
	FIELD("caller", NULL, LINE, WAIT(caller)),
	FIELD("start_ns", NULL, TIME, WAIT(start_ns)),
	FIELD("seen_ns", NULL, TIME, WAIT(seen_ns)),
};

#define CORE(member) MEMBER(struct last_core, member)

ROW_READ(read_core, struct last_core, add_core(v->report, row, &out->text))
ROW_IF(is_core_recorded, struct last_core, row->process != TRACE_NO_ROW)

static const struct field core_fields[] = {
	FIELD("pid", NULL, PID, CORE(process), .when = is_core_recorded, .null = true),
	FIELD("text", NULL, TEXT, .value = read_core),
};

static const struct field process_fields[] = {
	FIELD("pid", NULL, PID, MEMBER(struct last_process, process)),
	FIELD("undelivered", NULL, COUNT, MEMBER(struct last_process, undelivered)),
	FIELD("launches_without_end", NULL, COUNT, MEMBER(struct last_process, open)),
	FIELD("launches_unread", NULL, COUNT, MEMBER(struct last_process, unread)),
	FIELD("first_launch_kernel", NULL, TEXT, .value = read_open_name, .when = has_open_name,
	      .null = true),
	FIELD("first_launch_ns", NULL, TIME, MEMBER(struct last_process, open_ns), .when = has_open,
	      .null = true),
	FIELD("first_launch_caller", NULL, LINE, MEMBER(struct last_process, open_caller)),
};

static const struct field fields[] = {
	FIELD("text", NULL, TEXT, .value = read_text),
	LIST("processes", ITEMS(struct last_words, processes.data, processes.count), process_fields,
	     .all = true),
	LIST("work", ITEMS(struct last_words, works.data, works.count), work_fields, .all = true),
	LIST("cores", ITEMS(struct last_words, cores.data, cores.count), core_fields, .all = true),
	LIST("waits", ITEMS(struct last_words, waits.data, waits.count), wait_fields, .all = true),
};

const struct section section_last_words = {
	.key = "last_words",
	RESULT(last_words),
	FIELDS(fields),
	.computed = is_shown,
	.text = print,
};
