#include "analysis/commands.h"

#include <errno.h>
#include <string.h>

#include "analysis/report.h"
#include "analysis/stacks_names.h"
#include "base/path.h"
#include "base/search.h"

/* CPU use of a process; sorted by pid and start. */
struct process_use {
	const struct trace_process *process;
	uint64_t total_ns, busiest_ns, kernel_ns, ready_ns, throttled_ns;
};

static void add_word(const char **text, struct strbuf *out)
{
	size_t length = strcspn(*text, " ");
	_cleanup_strbuf_ struct strbuf word = STRBUF_INIT;

	strbuf_add(&word, *text, length);
	strbuf_adds(out, base_name(strbuf_text(&word)));
	out->failed |= word.failed;
	*text += length + strspn(*text + length, " ");
}

/* Skips an option of Python; -W and -X take an argument. */
static void skip_option(const char **text)
{
	bool argument = strncmp(*text, "-W ", 3) == 0 || strncmp(*text, "-X ", 3) == 0;
	_cleanup_strbuf_ struct strbuf skipped = STRBUF_INIT;

	add_word(text, &skipped);
	if (argument)
		add_word(text, &skipped);
}

void command_name(const char *command, struct strbuf *out)
{
	size_t start = out->length;

	add_word(&command, out);
	if (!is_interpreter(strbuf_text(out) + start))
		return;
	while (*command == '-' && strncmp(command, "-c", 2) != 0 && strncmp(command, "-m", 2) != 0)
		skip_option(&command);
	if (*command)
		strbuf_addc(out, ' ');
	if (strncmp(command, "-c", 2) == 0) {
		strbuf_adds(out, "-c");
		return;
	}
	if (*command == '-') {
		add_word(&command, out);
		strbuf_addc(out, ' ');
	}
	add_word(&command, out);
}

static enum cpu_verdict decide(const struct cpu_load *l)
{
	if (l->total_ns < l->elapsed_ns / 2)
		return l->ready_ns > (l->elapsed_ns - l->total_ns) / 2 ? CPU_STARVED : CPU_WAITING;
	if (l->kernel_ns > l->total_ns / 2)
		return CPU_IN_KERNEL;
	return l->busiest_ns > l->total_ns - l->total_ns / 5 ? CPU_SINGLE_THREADED : CPU_WORKING;
}

ORDER(by_pid, struct process_use, UP(process->pid) ?: UP(process->start_ns))

/* Sums the samples of each process. */
static struct process_use *collect(const struct report *r)
{
	const struct cpu_use *c = r->cpu_use;
	size_t count = trace_process_count(r->trace);
	struct process_use *all = calloc(count + 1, sizeof(*all));

	for (size_t p = 0; all && p < count; p++) {
		all[p].process = trace_process(r->trace, p);
		all[p].kernel_ns = c->kernel_by_process[p];
	}
	for (size_t i = 0; all && i < c->thread_count; i++) {
		struct process_use *p = &all[c->threads[i].process];

		p->total_ns += c->threads[i].total_ns;
		p->busiest_ns = MAX(p->busiest_ns, c->threads[i].total_ns);
	}
	if (all && count)
		qsort(all, count, sizeof(*all), by_pid);
	return all;
}

/* Time that a process ran in the window, until its end or the next exec. */
static uint64_t elapsed_ns(const struct report *r, const struct process_use *p,
			   const struct process_use *next)
{
	uint64_t start = MAX(p->process->start_ns, r->start_ns);
	uint64_t end = MIN(p->process->end_ns, r->end_ns);

	if (next && next->process->pid == p->process->pid)
		end = MIN(end, next->process->start_ns);
	return end > start ? end - start : 0;
}

static void add_load(struct cpu_load *l, const struct process_use *p, uint64_t elapsed)
{
	l->elapsed_ns += elapsed;
	l->total_ns += p->total_ns;
	l->kernel_ns += p->kernel_ns;
	l->busiest_ns += p->busiest_ns;
	l->ready_ns += p->ready_ns;
	l->throttled_ns += p->throttled_ns;
}

/* --- time without a processor --- */

/* The image of a process that had samples and ran at that time; NULL: none. */
static struct process_use *find_image(const struct report *r, struct process_use *all, uint32_t pid,
				      uint64_t time_ns)
{
	size_t count = trace_process_count(r->trace);
	size_t end =
		sorted_prefix(count, i,
			      all[i].process->pid < pid || (all[i].process->pid == pid &&
							    all[i].process->start_ns <= time_ns));

	while (end-- && all[end].process->pid == pid)
		if (all[end].total_ns)
			return &all[end];
	return NULL;
}

/* From what the operating system's kernel counted for each process. */
static void add_run_queues(const struct report *r, struct process_use *all, struct cpu_load *whole)
{
	const struct run_queue_columns *c = run_queue_columns(r->trace);

	for (uint64_t row = 0; row < trace_rows(r->trace, TABLE_run_queue); row++) {
		uint64_t throttled_ns =
			column_has(c->valid.throttled_ns, row) ? c->throttled_ns[row] : 0;
		struct process_use *p;

		if (c->end_ns[row] <= r->start_ns || c->start_ns[row] >= r->end_ns)
			continue;
		if (!c->pid[row]) {
			whole->stolen_ns += c->wait_ns[row];
			continue;
		}
		whole->ready_ns += c->wait_ns[row];
		p = find_image(r, all, c->pid[row], c->end_ns[row]);
		if (p) {
			p->ready_ns += c->wait_ns[row];
			p->throttled_ns += throttled_ns;
			whole->throttled_ns = MAX(whole->throttled_ns, p->throttled_ns);
		}
	}
}

/* From the times off the CPU, which replace what is known of run queues. */
static void add_off_cpu(const struct report *r, struct process_use *all, struct cpu_load *whole)
{
	const struct cpu_thread *busiest = r->cpu_use->thread_count ? r->cpu_use->threads : NULL;
	const struct selection *s = &r->selection;

	if (!r->cpu_use->pauses)
		return;
	whole->ready_ns = 0;
	for (size_t i = 0; i < trace_process_count(r->trace); i++)
		all[i].ready_ns = 0;
	for (struct row_walk w = selection_rows(s, TABLE_off_cpu); row_walk_next(&w);) {
		struct cpu_moment m = cpu_moment_of(s->trace, TABLE_off_cpu, w.process, w.row);
		const struct trace_process *p = trace_process(s->trace, w.process);
		struct process_use *image;

		if (!selection_has_time(s, true, m.start_ns))
			continue;
		if (busiest && busiest->process == p->subject && busiest->thread == m.thread)
			whole->off_ns[m.state] += m.weight_ns;
		if (m.state != off_cpu_state_runnable)
			continue;
		whole->ready_ns += m.weight_ns;
		image = find_image(r, all, p->pid, m.start_ns);
		if (image)
			image->ready_ns += m.weight_ns;
	}
}

/* Finds or adds the item of a command; NULL: out of memory. */
static struct command_use *find_command(struct commands *out, const char *command,
					struct interner *names)
{
	struct strbuf name = STRBUF_INIT;
	bool is_new;
	int64_t id;

	command_name(command, &name);
	id = name.failed ? -ENOMEM : interner_add(names, strbuf_text(&name), name.length, &is_new);
	if (id >= 0 && is_new)
		out->items[out->count++].name = name;
	else
		strbuf_release(&name);
	return id < 0 ? NULL : &out->items[id];
}

ORDER(by_time, struct command_use,
      DOWN(load.total_ns) ?: strcmp(strbuf_text(&a->name), strbuf_text(&b->name)))

static int add_processes(const struct report *r, const struct process_use *all,
			 struct commands *out)
{
	size_t count = trace_process_count(r->trace);
	struct interner names;
	int code = 0;

	interner_init(&names);
	for (size_t i = 0; i < count && code >= 0; i++) {
		const struct process_use *next = i + 1 < count ? &all[i + 1] : NULL;
		struct command_use *c = NULL;

		if (!all[i].total_ns)
			continue;
		c = find_command(out, all[i].process->command, &names);
		code = c ? 0 : -ENOMEM;
		if (c) {
			c->processes++;
			add_load(&c->load, &all[i], elapsed_ns(r, &all[i], next));
		}
	}
	interner_release(&names);
	return code;
}

static int run(struct report *r, void *result)
{
	struct commands *out = result;
	const struct cpu_use *use = r->cpu_use;
	_cleanup_free_ struct process_use *all = collect(r);
	struct cpu_load whole = { 0 };

	out->items = calloc(use->processes + 1, sizeof(*out->items));
	if (!all || !out->items)
		return -ENOMEM;
	add_run_queues(r, all, &whole);
	add_off_cpu(r, all, &whole);
	if (add_processes(r, all, out) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < out->count; i++)
		out->items[i].load.verdict = decide(&out->items[i].load);
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_time);
	whole.elapsed_ns = r->end_ns - r->start_ns;
	whole.total_ns = use->total_ns;
	whole.kernel_ns = use->kernel_ns;
	whole.busiest_ns = use->thread_count ? use->threads[0].total_ns : 0;
	whole.verdict = decide(&whole);
	out->whole = whole;
	return 0;
}

static void release(void *result)
{
	struct commands *c = result;

	for (size_t i = 0; i < c->count; i++)
		strbuf_release(&c->items[i].name);
	free(c->items);
}

const char *cpu_verdict_name(unsigned verdict)
{
	static const char *const names[CPU_VERDICTS] = {
		[CPU_WAITING] = "waiting",     [CPU_STARVED] = "starved",
		[CPU_IN_KERNEL] = "os_kernel", [CPU_SINGLE_THREADED] = "single_threaded",
		[CPU_WORKING] = "cpu",
	};

	return names[verdict];
}

const struct analysis analysis_commands = {
	.size = sizeof(struct commands),
	.needs = { { TABLE_run_queue, 0 } },
	.run = run,
	.release = release,
	.reads_others = true,
};
