#include "analysis/commands.h"

#include <errno.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/stacks_names.h"
#include "base/path.h"
#include "base/search.h"

/* CPU use of a process; sorted by pid and start. */
struct process_use {
	const struct trace_process *process;
	uint64_t total_ns, busiest_ns, kernel_ns;
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
		return CPU_WAITING;
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

	out->items = calloc(use->processes + 1, sizeof(*out->items));
	if (!all || !out->items || add_processes(r, all, out) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < out->count; i++)
		out->items[i].load.verdict = decide(&out->items[i].load);
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_time);
	out->whole = (struct cpu_load){
		.elapsed_ns = r->end_ns - r->start_ns,
		.total_ns = use->total_ns,
		.kernel_ns = use->kernel_ns,
		.busiest_ns = use->thread_count ? use->threads[0].total_ns : 0,
	};
	out->whole.verdict = decide(&out->whole);
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
		[CPU_WAITING] = "waiting",
		[CPU_IN_KERNEL] = "os_kernel",
		[CPU_SINGLE_THREADED] = "single_threaded",
		[CPU_WORKING] = "cpu",
	};

	return names[verdict];
}

const struct analysis analysis_commands = {
	.size = sizeof(struct commands),
	.run = run,
	.release = release,
	.reads_others = true,
};
