/* dump_stacks.c: what every thread of running processes does, as text and as JSON. */
#include "cli/dump_stacks.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "analysis/filter.h"
#include "analysis/stacks.h"
#include "analysis/thread_states.h"
#include "base/human.h"
#include "base/io.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/ui.h"
#include "record/program_work.h"
#include "record/stack_dump.h"
#include "report/text.h"
#include "sampler/proc_tree.h"
#include "trace/columns.h"

#define COMMAND_MAX 4096u /* bytes of a command line that are shown */

struct printer {
	const struct context *context;
	const struct stacks_request *request;
	const struct core_file *core; /* NULL: processes run */
	struct stack_dump dump;
	struct stacks stacks; /* of dump.trace */
	struct map rows; /* pid << 32 | tid -> row of unfinished, plus 1 */
	struct program_work work; /* of the current process, if it is being recorded */
	/* of the current thread: */
	VEC(uint32_t) frames; /* items of stacks.frames, innermost first */
	enum stack_end end;
	const char *gpu_call; /* the program's call of CUDA or NCCL that it is in, or NULL */
};

static const char *const does[] = {
	[thread_state_running] = "runs",
	[thread_state_sleeping] = "sleeps",
	[thread_state_uninterruptible] = "waits in the OS kernel",
	[thread_state_stopped] = "is stopped",
	[thread_state_traced] = "is stopped by a tracer",
	[thread_state_ended] = "has ended",
	[thread_state_idle] = "is idle",
};

/* --- the stack of a thread --- */

static int index_samples(struct printer *p)
{
	const struct trace *t = p->dump.trace;

	const struct unfinished_columns *u = unfinished_columns(t);

	for (struct row_walk w = all_rows(t, TABLE_unfinished); row_walk_next(&w);) {
		uint64_t key = (uint64_t)trace_process(t, w.process)->pid << 32 | u->thread[w.row];
		uint64_t *at = map_at(&p->rows, key, 0);

		if (!at)
			return -ENOMEM;
		*at = w.row + 1;
	}
	return 0;
}

/* An expansion has the function and those that are inlined there, outermost first. */
static int add_frames(struct printer *p, const struct stack_expansion *x)
{
	for (uint32_t i = x->count; i > 0; i--) {
		uint32_t id = p->stacks.expanded.data[x->first + i - 1];
		const char *name = stacks_text(&p->stacks, p->stacks.frames.data[id].name);

		if (vec_push(&p->frames, id) < 0)
			return -ENOMEM;
		if (!x->python && thread_is_gpu_call(name))
			p->gpu_call = name;
	}
	return 0;
}

static int find_frames(struct printer *p, const struct thread_stack *s)
{
	const struct trace *t = p->dump.trace;
	uint64_t row;
	uint32_t process, node;
	int err;

	p->frames.count = 0;
	p->gpu_call = NULL;
	p->end = stack_end_truncated;
	if (!t || !map_get(&p->rows, (uint64_t)s->pid << 32 | (uint32_t)s->tid, &row))
		return 0;
	process = (uint32_t)trace_row_process(t, TABLE_unfinished, row - 1);
	if (!column_has(unfinished_columns(t)->valid.stack, row - 1))
		return 0;
	err = stacks_find(&p->stacks, process, unfinished_columns(t)->stack[row - 1], &node,
			  &p->end);
	while (err >= 0 && node != TRACE_NO_ROW) {
		int64_t at = stacks_expand(&p->stacks, process, node);

		if (at < 0)
			return (int)at;
		err = add_frames(p, &p->stacks.expansions.data[at]);
		if (err >= 0)
			err = stacks_parent(&p->stacks, process, node, &node);
	}
	return err;
}

/* --- what it waits for on the GPU --- */

/*
 * What the recording shows, if there is one. Thread ids of another pid namespace are not compared
 * with ours.
 */
static void read_work(struct printer *p, pid_t pid)
{
	struct error e = { 0 };
	struct live_tail tail;

	program_work_release(&p->work);
	if (live_tail_open(&tail, pid) < 0)
		return;
	if (tail.live.segment.header.pid != (uint32_t)pid ||
	    program_work_read(&tail, 0, &p->work, &e) < 0)
		program_work_release(&p->work);
	live_tail_release(&tail);
}

static const struct work_wait *find_wait(const struct printer *p, pid_t tid)
{
	for (size_t i = 0; i < p->work.waits.count; i++)
		if (p->work.waits.data[i].thread == (uint32_t)tid)
			return &p->work.waits.data[i];
	return NULL;
}

/* --- text --- */

/* Names are the process's, which may be somebody else's. */
static void add_name(struct strbuf *out, const char *name)
{
	text_safe(out, name, strlen(name));
}

static void print_frame(const struct printer *p, const struct stack_frame *f, struct strbuf *out)
{
	const char *file = stacks_text(&p->stacks, f->file);

	strbuf_adds(out, "    ");
	add_name(out, stacks_text(&p->stacks, f->name));
	if (f->class != FRAME_PYTHON && *file) {
		strbuf_adds(out, " (");
		add_name(out, base_name(file));
		if (f->line)
			strbuf_addf(out, ":%u", f->line);
		strbuf_addc(out, ')');
	}
	strbuf_addc(out, '\n');
}

/* "    waits in cudaStreamSynchronize, since 38.0 s, for spin, launched at train.py:31" */
static void print_wait(const struct work_wait *w, struct strbuf *out)
{
	strbuf_addf(out, "    waits for the GPU in %s, since ", w->function);
	human_duration(out, w->for_ns);
	if (*w->line)
		strbuf_addf(out, ", called at %s", w->line);
	if (*w->work)
		strbuf_addf(out, "; the oldest work without an end: %s", w->work);
	strbuf_addc(out, '\n');
}

static void print_thread(const struct printer *p, const struct thread_stack *s, struct strbuf *out)
{
	const struct work_wait *wait = find_wait(p, s->tid);
	bool asleep = s->state == thread_state_sleeping || s->state == thread_state_uninterruptible;

	strbuf_addf(out, "  thread %d ", (int)s->tid);
	add_name(out, s->name);
	if (does[s->state])
		strbuf_addf(out, " %s", does[s->state]);
	if (p->gpu_call) {
		strbuf_adds(out, ", in ");
		add_name(out, p->gpu_call);
	}
	if (asleep && s->call)
		strbuf_addf(out, " (%s)", s->call);
	strbuf_addc(out, '\n');
	if (wait)
		print_wait(wait, out);
	for (size_t i = 0; i < p->frames.count; i++)
		print_frame(p, &p->stacks.frames.data[p->frames.data[i]], out);
	if (s->error)
		strbuf_addf(out, "    no stack: %s\n", error_code_text(s->error));
	else if (p->end != stack_end_complete && p->end != stack_end_guessed)
		strbuf_adds(out, "    … outer frames are unknown\n");
}

/* --- JSON --- */

static void thread_json(const struct printer *p, const struct thread_stack *s, struct json *json)
{
	const struct work_wait *wait = find_wait(p, s->tid);

	json_object(json);
	json_key_u64(json, "thread", (uint64_t)s->tid);
	json_key_string(json, "name", s->name);
	json_key_string(
		json, "state",
		schema_value_name(&schema_table(TABLE_unfinished)->columns[COLUMN_unfinished_state],
				  s->state));
	json_key_string(json, "system_call", s->call);
	json_key_string(json, "gpu_call", p->gpu_call);
	json_key(json, "gpu_wait");
	if (wait)
		work_wait_json(wait, json);
	else
		json_null(json);
	json_key_u64(json, "stopped_ns", s->stopped_ns);
	json_key_string(json, "no_stack", s->error ? error_code_text(s->error) : NULL);
	json_key_bool(json, "complete",
		      !s->error && (p->end == stack_end_complete || p->end == stack_end_guessed));
	json_key_array(json, "frames");
	for (size_t i = 0; i < p->frames.count; i++) {
		const struct stack_frame *f = &p->stacks.frames.data[p->frames.data[i]];

		json_object(json);
		json_key_string(json, "name", stacks_text(&p->stacks, f->name));
		json_key_bool(json, "python", f->class == FRAME_PYTHON);
		json_key_string(json, "file", f->file ? stacks_text(&p->stacks, f->file) : NULL);
		json_key_known(json, "line", f->line, f->line);
		json_end(json);
	}
	json_end(json);
	json_end(json);
}

/* --- the command --- */

static int print_all(struct printer *p, struct strbuf *out)
{
	const struct thread_stacks *threads = &p->dump.threads;
	struct json json = JSON_PRETTY(out);
	pid_t pid = 0;
	int err = 0;

	if (p->context->json)
		json_array(&json);
	for (size_t i = 0; i < threads->all.count && err >= 0; i++) {
		const struct thread_stack *s = &threads->all.data[i];
		_cleanup_strbuf_ struct strbuf command = STRBUF_INIT;
		bool begins = s->pid != pid;

		err = find_frames(p, s);
		if (begins && p->core) {
			strbuf_adds(&command, p->core->command);
		} else if (begins) {
			(void)!io_process_text(s->pid, "cmdline", COMMAND_MAX, &command);
			read_work(p, s->pid);
		}
		if (p->context->json) {
			if (begins && pid) {
				json_end(&json);
				json_end(&json);
			}
			if (begins) {
				json_object(&json);
				json_key_u64(&json, "process", (uint64_t)s->pid);
				json_key_string(&json, "command", strbuf_text(&command));
				json_key_array(&json, "threads");
			}
			thread_json(p, s, &json);
		} else {
			if (begins) {
				strbuf_addf(out, "%sprocess %d: ", pid ? "\n" : "", (int)s->pid);
				add_name(out, strbuf_text(&command));
				strbuf_addc(out, '\n');
			}
			print_thread(p, s, out);
		}
		pid = s->pid;
	}
	if (p->context->json)
		json_finish(&json);
	return err;
}

/* Says why a thread has no stack, where a privilege is missing. */
static int check(const struct printer *p, const pid_t *pids, struct error *e)
{
	const struct thread_stacks *threads = &p->dump.threads;
	int error = 0;

	if (!threads->all.count)
		return error_set(e, -ESRCH, "there is no process %d", (int)pids[0]);
	for (size_t i = 0; i < threads->all.count; i++) {
		if (!threads->all.data[i].error)
			return 0;
		error = threads->all.data[i].error;
	}
	if (!p->core && (error == -EPERM || error == -EACCES))
		return error_set(e, error,
				 "the stacks of process %d may not be read: it belongs to another "
				 "user, or kernel.yama.ptrace_scope forbids it: sudo pitot dump "
				 "--stacks %d",
				 (int)pids[0], (int)pids[0]);
	return 0;
}

static int print_dump(struct printer *p, const pid_t *pids, size_t count, struct strbuf *out,
		      struct error *e)
{
	const struct stack_source source = { p->core, pids, count };
	int err = stack_dump_read(&source, p->request->output, p->request->force, &p->dump, e);
	bool has_trace = err >= 0 && p->dump.trace;

	if (err >= 0)
		err = check(p, pids, e);
	if (err >= 0 && has_trace)
		err = stacks_init(&p->stacks, p->dump.trace, STACK_FUNCTIONS, false, e);
	has_trace &= err >= 0;
	if (has_trace)
		err = index_samples(p);
	if (err >= 0)
		err = print_all(p, out);
	if (err < 0 && !e->code)
		error_set(e, err, "%s", error_code_text(err));
	if (p->dump.threads.python.code)
		cli_warn(p->context, "no Python frames: %s", p->dump.threads.python.text);
	if (has_trace)
		stacks_release(&p->stacks);
	return err;
}

static int read_pids(const struct context *c, int count, char **texts, pid_t *pids)
{
	if (!count || count > (int)DUMP_PIDS_MAX)
		return cli_usage(c, "--stacks needs the id of a process");
	for (int i = 0; i < count; i++) {
		uint64_t pid;

		if (parse_u64(texts[i], &pid) < 0 || !pid || pid > INT_MAX)
			return cli_usage(c, "'%s' is not the id of a process, nor a core file",
					 texts[i]);
		pids[i] = (pid_t)pid;
	}
	return EXIT_DONE;
}

static int print_and_release(struct printer *p, const pid_t *pids, size_t count)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct context *c = (struct context *)(uintptr_t)p->context;
	struct error e = { 0 };
	int err = print_dump(p, pids, count, &out, &e);

	stack_dump_release(&p->dump);
	map_release(&p->rows);
	vec_release(&p->frames);
	program_work_release(&p->work);
	return err < 0 ? cli_fail(c, &e) : cli_print(c, &out);
}

/* "it was killed by SIGSEGV", and what the file lacks. */
static void note_core(const struct context *c, const struct core_file *core, const char *path)
{
	_cleanup_strbuf_ struct strbuf has = STRBUF_INIT, whole = STRBUF_INIT;
	int signal = core->threads.data[0].signal;

	if (signal)
		cli_note(c, "thread %d got SIG%s", (int)core->threads.data[0].tid,
			 sigabbrev_np(signal) ? sigabbrev_np(signal) : "?");
	if (core->expected <= core->size)
		return;
	human_bytes(&has, core->size);
	human_bytes(&whole, core->expected);
	cli_warn(c, "'%s' is cut: it has %s of %s, and stacks in the rest are missing", path,
		 strbuf_text(&has), strbuf_text(&whole));
}

/* fd < 0: the file cannot be opened. */
static int dump_core(struct context *c, const char *path, int fd,
		     const struct stacks_request *request)
{
	struct core_file core;
	struct printer p = { .context = c, .request = request, .core = &core };
	struct error e = { 0 };
	int rc;

	if (fd < 0) {
		error_set(&e, fd, "cannot open '%s': %s", path, error_code_text(fd));
		return cli_fail(c, &e);
	}
	if (core_file_open(fd, &core, &e) < 0) {
		error_prefix(&e, "'%s'", path);
		rc = cli_fail(c, &e);
	} else {
		note_core(c, &core, path);
		rc = print_and_release(&p, NULL, 0);
	}
	core_file_release(&core);
	return rc;
}

int dump_stacks(struct context *c, int count, char **texts, const struct stacks_request *request)
{
	struct printer p = { .context = c, .request = request };
	struct proc_tree tree = { 0 };
	pid_t named[DUMP_PIDS_MAX];
	const pid_t *pids = named;
	size_t pid_count = (size_t)count;
	_cleanup_close_ int fd = -ENOENT;
	int rc;

	if (count == 1 && strspn(texts[0], "0123456789") < strlen(texts[0]))
		fd = io_open_file(texts[0], NULL);
	if (fd >= 0 || fd == -EACCES || fd == E_NOT_FILE)
		return request->descendants ? cli_usage(c, "--descendants is of running processes")
					    : dump_core(c, texts[0], fd, request);
	rc = read_pids(c, count, texts, named);
	if (rc != EXIT_DONE)
		return rc;
	if (request->descendants && proc_tree_read(&tree, named, pid_count) >= 0) {
		pids = tree.pids.data;
		pid_count = tree.pids.count;
	}
	rc = print_and_release(&p, pids, pid_count);
	proc_tree_release(&tree);
	return rc;
}
