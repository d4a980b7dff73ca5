/* measure_run.c: fills a run from the analyses of a recording's report. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/cost.h"
#include "analysis/memory/memory_use.h"
#include "analysis/steps.h"
#include "analysis/system_use.h"
#include "base/search.h"
#include "compare/measured_run.h"
#include "report/report_view.h"
#include "report/words.h"
#include "system/metrics.h"

#define NO_STEP SIZE_MAX
#define LOOP_PERCENT 80u
#define SCOPES_MAX 2048u /* in a run; further ones are one part */
#define SM_CLOCK (METRIC_GPU_FIRST + 2u) /* gpu_sm_clock */

/* A kernel of the typical step. */
struct placed_kernel {
	uint64_t launch_ns;
	size_t task; /* in the order of their start on a stream */
	struct kernel_launch launch;
};

struct measurement {
	struct measured_run *run;
	struct report *report;
	const struct step_loop *loop;
	struct report_view view;
	size_t *number; /* by step of the loop: which of those that count it is, or NO_STEP */
	size_t typical; /* step, whose kernels are the run's order */
	VEC(struct placed_kernel) placed;
	struct map names[QUANTITY_KINDS]; /* key of a part -> quantity + 1 */
	size_t scopes; /* parts of QUANTITY_scope */
	struct strbuf text;
};

static const struct step *steps_of(const struct measurement *m)
{
	return m->report->steps->items + m->loop->first;
}

/* Finds the quantity of a part by its key; `name` appends its name. */
static struct quantity *part_at(struct measurement *m, enum quantity_kind kind, uint64_t key,
				int (*name)(struct measurement *m, uint64_t key))
{
	uint64_t *at = map_at(&m->names[kind], key, 0);
	struct quantity *q;

	if (!at)
		return NULL;
	if (*at)
		return &m->run->quantities.data[*at - 1];
	strbuf_clear(&m->text);
	if (name(m, key) < 0 || m->text.failed)
		return NULL;
	q = measured_run_at(m->run, kind, strbuf_text(&m->text));
	if (q)
		*at = (uint64_t)(q - m->run->quantities.data) + 1;
	return q;
}

/* --- names --- */

/* The function of a line: lines move when a program is edited. */
static int add_function(struct measurement *m, uint32_t caller)
{
	uint32_t function = CALLER_NONE;
	int rc = caller == CALLER_NONE ? 0
				       : callers_function(&m->report->callers, caller, &function);

	report_line_text(m->report, function, CALLER_NONE, &m->text);
	return rc;
}

static int name_place(struct measurement *m, struct path_place place)
{
	if (place.class != PATH_HOST) {
		report_place_text(&m->view, place, &m->text);
		return 0;
	}
	strbuf_adds(&m->text, "host before ");
	return add_function(m, place.key);
}

static int name_function(struct measurement *m, uint64_t caller)
{
	return add_function(m, (uint32_t)caller);
}

/* Whether the number that begins there counts, as in "batch 12"; "layers.3" is one of many. */
static bool is_count(const char *name, size_t at)
{
	return at > 0 && strchr(" #=", name[at - 1]);
}

/* Appends the name of a scope, with N in place of a count, which is another one in each step. */
static void add_scope(const char *name, struct strbuf *out)
{
	for (size_t i = 0; name[i];) {
		size_t digits = strspn(name + i, "0123456789");

		if (digits && is_count(name, i))
			strbuf_addc(out, 'N');
		else
			strbuf_add(out, name + i, MAX(digits, 1));
		i += MAX(digits, 1);
	}
}

/* The path of a scope within that of the step, which each step has. */
static void add_scope_path(struct measurement *m, uint32_t path)
{
	const struct nvtx_ranges *n = &m->report->ranges;
	const char *names[SCOPE_DEPTH_MAX + 1];
	char step[STEP_NAME_MAX];
	size_t count = 0, within;

	for (; path != SCOPE_NONE && count < ARRAY_SIZE(names); path = n->paths[path].parent)
		names[count++] = scope_path_name(n, m->report->trace, path);
	within = count;
	while (within && !step_name_read(names[within - 1], step))
		within--;
	within = within ? within - 1 : count;
	for (size_t i = within; i-- > 0;) {
		add_scope(names[i], &m->text);
		strbuf_adds(&m->text, i ? "/" : "");
	}
	if (!within)
		strbuf_adds(&m->text, count ? "(in no scope of the step)" : "(outside of scopes)");
}

/* Whether the program has scopes besides those of steps. */
static bool has_scopes(const struct measurement *m)
{
	const struct nvtx_ranges *n = &m->report->ranges;
	char step[STEP_NAME_MAX];

	for (uint32_t i = 0; i < n->path_count; i++)
		if (!step_name_read(scope_path_name(n, m->report->trace, i), step))
			return true;
	return false;
}

static int name_scope(struct measurement *m, uint64_t path)
{
	add_scope_path(m, (uint32_t)path);
	if (measured_run_find(m->run, QUANTITY_scope, strbuf_text(&m->text)))
		return 0;
	if (m->scopes++ < SCOPES_MAX)
		return 0;
	strbuf_clear(&m->text);
	strbuf_adds(&m->text, "(more scopes)");
	return 0;
}

/* --- the loop --- */

static uint64_t work_of(const struct step_loop *loop)
{
	return loop->usual_work_ns * loop->count;
}

/*
 * The loop with the most GPU work. Ranks of a job have nearly the same: the first one is taken of
 * those that have at least LOOP_PERCENT of it, so that it is the same rank in each run.
 */
static const struct step_loop *main_loop(const struct steps *s)
{
	uint64_t most = 0;

	for (size_t i = 0; i < s->loop_count; i++)
		most = MAX(most, work_of(&s->loops[i]));
	for (size_t i = 0; i < s->loop_count; i++)
		if (work_of(&s->loops[i]) >= most / 100 * LOOP_PERCENT)
			return &s->loops[i];
	return NULL;
}

static int number_steps(struct measurement *m)
{
	m->number = calloc(m->loop->count + 1, sizeof(*m->number));
	if (!m->number)
		return -ENOMEM;
	for (size_t i = 0; i < m->loop->count; i++) {
		bool is_slow = steps_of(m)[i].is_slow;

		m->number[i] = is_slow ? NO_STEP : m->run->step_count++;
		m->run->slow_steps += is_slow;
	}
	return 0;
}

/* The number of the step during whose host part something happened, or NO_STEP. */
static size_t number_at(const struct measurement *m, uint64_t host_ns)
{
	const struct step *step = steps_at(m->report->steps, m->loop, host_ns);

	return step ? m->number[step - steps_of(m)] : NO_STEP;
}

static int measure_steps(struct measurement *m)
{
	static const enum quantity_kind kinds[] = { QUANTITY_step, QUANTITY_gpu,
						    QUANTITY_launches };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct quantity *q = measured_run_at(m->run, kinds[k], "");

		if (!q)
			return -ENOMEM;
		for (size_t i = 0; i < m->loop->count; i++) {
			const struct step *step = &steps_of(m)[i];

			if (m->number[i] == NO_STEP)
				continue;
			q->steps[m->number[i]] =
				(double)(kinds[k] == QUANTITY_step  ? step->end_ns - step->start_ns
					 : kinds[k] == QUANTITY_gpu ? step->work_ns
								    : step->launches);
		}
	}
	return 0;
}

/* The first step whose number of launches is nearest to the median. */
static int find_typical_step(struct measurement *m)
{
	const struct quantity *launches = measured_run_find(m->run, QUANTITY_launches, "");
	double median;

	if (sample_median((struct sample){ launches->steps, m->run->step_count }, &median) < 0)
		return -ENOMEM;
	for (size_t i = 1; i < m->run->step_count; i++)
		if (fabs(launches->steps[i] - median) < fabs(launches->steps[m->typical] - median))
			m->typical = i;
	return 0;
}

/* --- work --- */

struct part {
	enum quantity_kind kind;
	uint64_t key;
	int (*name)(struct measurement *m, uint64_t key);
};

static int add_part(struct measurement *m, struct part part, size_t step, uint64_t ns)
{
	struct quantity *q = part_at(m, part.kind, part.key, part.name);

	if (!q)
		return -ENOMEM;
	q->steps[step] += (double)ns;
	q->count++;
	return 0;
}

/* Keys of places are class, key and configuration, which fits names of kernels only. */
static struct path_place place_of(uint64_t key)
{
	return (struct path_place){ .class = (enum path_class)(key >> 60),
				    .key = (uint32_t)key,
				    .config = (uint32_t)(key >> 32 & 0xfffffff) };
}

static uint64_t key_of(struct path_place place)
{
	uint64_t config = place.class == PATH_KERNEL ? place.config & 0xfffffff : 0;

	return (uint64_t)place.class << 60 | config << 32 | place.key;
}

static int name_key(struct measurement *m, uint64_t key)
{
	return name_place(m, place_of(key));
}

static uint64_t shape_of(const struct measurement *m, uint32_t config)
{
	const struct kernel_config_columns *c = kernel_config_columns(m->report->trace);
	uint32_t shape[6];

	if (config == TRACE_NO_ROW || !c->grid_x[config])
		return 0;
	shape[0] = c->grid_x[config];
	shape[1] = c->grid_y[config];
	shape[2] = c->grid_z[config];
	shape[3] = c->block_x[config];
	shape[4] = c->block_y[config];
	shape[5] = c->block_z[config];
	return hash_bytes(shape, sizeof(shape));
}

/* Scopes of steps have their number, which another run's step need not have. */
static uint64_t scope_of(const struct measurement *m, uint32_t call)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	size_t kept = 0;

	if (call == TRACE_NO_ROW)
		return 0;
	scope_path_text(&m->report->ranges, m->report->trace,
			nvtx_path_of_call(&m->report->ranges, call), &path);
	for (size_t i = 0; i < path.length; i++)
		if (path.data[i] < '0' || path.data[i] > '9')
			path.data[kept++] = path.data[i];
	return kept ? hash_bytes(path.data, kept) : 0;
}

static int add_placed(struct measurement *m, struct path_place place, const struct task *tasks,
		      size_t task)
{
	const struct task *launch =
		tasks[task].launch == TASK_NONE ? NULL : &tasks[tasks[task].launch];
	const struct quantity *q = part_at(m, QUANTITY_kernel, key_of(place), name_key);

	if (!q)
		return -ENOMEM;
	return vec_push(&m->placed,
			((struct placed_kernel){
				launch ? launch->start_ns : tasks[task].start_ns,
				task,
				{ .shape = shape_of(m, place.config),
				  .scope = launch ? scope_of(m, launch->row) : 0,
				  .quantity = (uint32_t)(q - m->run->quantities.data) } }));
}

ORDER(by_launch, struct placed_kernel, UP(launch_ns) ?: UP(task))

static int order_kernels(struct measurement *m)
{
	int rc = 0;

	vec_sort(&m->placed, by_launch);
	for (size_t i = 0; i < m->placed.count && rc == 0; i++)
		rc = vec_push(&m->run->order, m->placed.data[i].launch);
	return rc;
}

static int measure_work(struct measurement *m)
{
	const struct causes *c = &m->report->causes;
	const struct task *tasks = c->tasks.data;
	bool by_scope = has_scopes(m);
	int rc = 0;

	for (size_t i = 0; i < causes_task_count(c) && rc == 0; i++) {
		const struct task *launch =
			tasks[i].launch == TASK_NONE ? NULL : &tasks[tasks[i].launch];
		struct path_place place;
		uint32_t caller;
		size_t step;

		if (!task_is_work(&tasks[i]) ||
		    c->lanes.data[tasks[i].lane].process != m->loop->process)
			continue;
		step = number_at(m, launch ? launch->start_ns : tasks[i].start_ns);
		if (step == NO_STEP)
			continue;
		place = path_place_of_work(m->report, &tasks[i]);
		rc = add_part(
			m,
			(struct part){ place.class == PATH_KERNEL ? QUANTITY_kernel : QUANTITY_copy,
				       key_of(place), name_key },
			step, tasks[i].end_ns - tasks[i].start_ns);
		caller =
			launch ? callers_of_call(&m->report->callers, m->loop->process, launch->row)
			       : CALLER_NONE;
		if (rc == 0 && place.class == PATH_KERNEL && step == m->typical)
			rc = add_placed(m, place, tasks, i);
		if (rc == 0 && m->report->callers.any)
			rc = add_part(m, (struct part){ QUANTITY_function, caller, name_function },
				      step, tasks[i].end_ns - tasks[i].start_ns);
		if (rc == 0 && by_scope)
			rc = add_part(m,
				      (struct part){ QUANTITY_scope,
						     launch ? nvtx_path_of_call(&m->report->ranges,
										launch->row)
							    : SCOPE_NONE,
						     name_scope },
				      step, tasks[i].end_ns - tasks[i].start_ns);
	}
	return rc;
}

/* --- critical path --- */

static int add_piece(struct measurement *m, struct path_piece piece, const struct step *step,
		     size_t number)
{
	struct path_share shares[PATH_SHARES];
	unsigned count;
	int rc = 0;

	piece.start_ns = MAX(piece.start_ns, step->start_ns);
	piece.end_ns = MIN(piece.end_ns, step->end_ns);
	count = path_shares(m->report, &piece, shares);
	for (unsigned i = 0; i < count && rc == 0; i++)
		rc = add_part(m, (struct part){ QUANTITY_path, key_of(shares[i].place), name_key },
			      number, shares[i].ns);
	return rc;
}

static int measure_path(struct measurement *m)
{
	_cleanup_free_ uint8_t *processes = calloc(trace_process_count(m->report->trace) + 1, 1);
	_cleanup_(path_release) struct path path = { 0 };
	int rc = processes ? 0 : -ENOMEM;

	if (rc == 0) {
		processes[m->loop->process] = 1;
		rc = path_find(&path, &m->report->causes, processes, steps_of(m)->start_ns,
			       steps_of(m)->start_ns + m->loop->span_ns);
	}
	/* Pieces are in order of time backwards. */
	for (size_t i = 0; i < m->loop->count && rc == 0; i++) {
		const struct step *step = &steps_of(m)[i];
		const struct path_piece *pieces = path.pieces.data;
		size_t k = sorted_prefix(path.pieces.count, n, pieces[n].start_ns >= step->end_ns);

		for (; m->number[i] != NO_STEP && k < path.pieces.count &&
		       pieces[k].end_ns > step->start_ns && rc == 0;
		     k++)
			rc = add_piece(m, pieces[k], step, m->number[i]);
	}
	return rc;
}

/* --- the run --- */

static double peak_of_kind(const struct measurement *m, uint8_t kind)
{
	const struct memory_use *use = m->report->memory_use;
	double bytes = 0;

	for (size_t i = 0; i < use->count; i++)
		if (trace_process(m->report->trace, use->items[i].process)->subject ==
			    m->loop->process &&
		    use->items[i].kind == kind)
			bytes += (double)use->items[i].peak_bytes;
	return bytes;
}

static int measure_memory(struct measurement *m)
{
	/* blocks of an allocator count where the driver's memory, in which they lie, is unknown */
	double bytes =
		peak_of_kind(m, memory_kind_device) ?: peak_of_kind(m, memory_kind_allocator_block);
	struct quantity *q;

	if (bytes <= 0)
		return 0;
	q = measured_run_at(m->run, QUANTITY_memory, "");
	if (q)
		q->value = bytes;
	return q ? 0 : -ENOMEM;
}

static double mean_clock(const struct system_use *use)
{
	double sum = 0;
	size_t count = 0;

	for (size_t i = 0; i < use->counter_count; i++) {
		const struct system_counter *c = &use->counters[i];

		if (c->id != SM_CLOCK || !c->busy_ns)
			continue;
		sum += (double)c->busy_mean / 1000;
		count++;
	}
	return count ? sum / (double)count : 0;
}

static const char *keep(struct measurement *m)
{
	const char *text = m->text.failed ? NULL
					  : arena_strndup(&m->run->memory, strbuf_text(&m->text),
							  m->text.length);

	strbuf_clear(&m->text);
	return text ? text : "";
}

static void add_text(struct measurement *m, const char *text)
{
	strbuf_adds(&m->text, m->text.length ? ", " : "");
	strbuf_adds(&m->text, text);
}

static void find_facts(struct measurement *m)
{
	struct trace *t = m->report->trace;
	struct capability_note engine, settings;
	const struct gpus *gpus = &m->report->gpus;
	const struct device_columns *d = device_columns(t);
	uint32_t driver = 0;

	capability_read(t, feature_engine, &engine);
	if (!engine.known)
		capability_read(t, feature_cupti, &engine);
	capability_read(t, feature_settings, &settings);
	for (size_t i = 0; i < gpus->count; i++) {
		if (i == 0 || strcmp(gpus->items[i].name, gpus->items[0].name) != 0)
			add_text(m, gpus->items[i].name);
		else if (i + 1 == gpus->count)
			strbuf_addf(&m->text, " x %zu", gpus->count);
		if (gpus->items[i].row != TRACE_NO_ROW)
			driver = d->driver_version[gpus->items[i].row];
	}
	m->run->facts[RUN_FACT_gpu] = keep(m);
	if (driver)
		strbuf_addf(&m->text, "CUDA %u.%u", driver / 1000, driver % 1000 / 10);
	m->run->facts[RUN_FACT_driver] = keep(m);
	strbuf_adds(&m->text, engine.actual);
	m->run->facts[RUN_FACT_engine] = keep(m);
	strbuf_adds(&m->text, settings.actual);
	m->run->facts[RUN_FACT_settings] = keep(m);
}

static void find_loss(struct measurement *m)
{
	const struct cost *c = m->report->cost;

	if (c->effect == LOSS_UNSAFE)
		loss_sum_text(cost_worst_loss(c), &m->text);
	m->run->loss = keep(m);
}

static int measure(struct measurement *m)
{
	const struct trace_process *process = trace_process(m->report->trace, m->loop->process);
	int rc = number_steps(m);

	m->run->pid = process->pid;
	strbuf_adds(&m->text, process->command);
	m->run->command = keep(m);
	if (process->rank != TRACE_NO_RANK)
		strbuf_addf(&m->text, "rank %u", process->rank);
	m->run->facts[RUN_FACT_rank] = keep(m);
	if (rc == 0)
		rc = measure_steps(m);
	if (rc == 0)
		rc = find_typical_step(m);
	if (rc == 0)
		rc = measure_work(m);
	if (rc == 0)
		rc = order_kernels(m);
	if (rc == 0)
		rc = measure_path(m);
	if (rc == 0)
		rc = measure_memory(m);
	return rc == 0 ? measured_run_finish(m->run) : rc;
}

int measured_run_init(struct measured_run *run, const char *path, struct trace *t, struct error *e)
{
	const struct report_options options = { .filter = FILTER_ALL,
						.scopes = SCOPES_ALL,
						.steps = true };
	struct report report;
	struct measurement m = { .run = run, .report = &report, .text = STRBUF_INIT };
	int rc;

	*run = (struct measured_run){ .command = "", .no_steps = "", .loss = "" };
	for (unsigned i = 0; i < RUN_FACT_COUNT; i++)
		run->facts[i] = "";
	run->path = arena_strndup(&run->memory, path, strlen(path));
	rc = run->path ? report_init(&report, t, &options, e)
		       : error_set(e, -ENOMEM, "out of memory");
	if (rc < 0)
		return rc;
	m.view = (struct report_view){ .report = &report, .out = &m.text };
	m.loop = main_loop(report.steps);
	find_facts(&m);
	find_loss(&m);
	run->clock_mhz = mean_clock(report.system_use);
	if (!m.loop) {
		run->no_steps = "there is no GPU work";
	} else if (!m.loop->count) {
		run->no_steps = report_steps_reason(m.loop->reason);
	} else {
		report_steps_source(&report, m.loop, &m.text);
		run->facts[RUN_FACT_steps_by] = keep(&m);
		rc = measure(&m);
	}
	for (unsigned i = 0; i < QUANTITY_KINDS; i++)
		map_release(&m.names[i]);
	free(m.number);
	vec_release(&m.placed);
	strbuf_release(&m.text);
	report_release(&report);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}
