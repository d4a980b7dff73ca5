/* attach.c: starts to record running processes, and leaves them again. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/program_file.h"
#include "base/strbuf.h"
#include "record/recording.h"
#include "sampler/proc_tree.h"

#define DETACH_NS (PITOT_SLOWNESS * 3 * NS_PER_S)

static bool is_python(pid_t pid)
{
	struct program_file file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return program_file_read(path, &file) >= 0 && program_file_is_python(&file);
}

/* Warns that Python frames are missing, and how to get them. */
static void warn_missing(const struct recording *r, const struct cpu_roots *roots)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct proc_tree tree = { 0 };
	bool python = false;
	enum cpu_python has;

	if (!r->cpu.sampler || !r->cpu.hz)
		return;
	has = cpu_sampler_python(r->cpu.sampler);
	if (has == CPU_PYTHON_READ)
		return;
	if (proc_tree_read(&tree, r->request->pids, r->request->pid_count) >= 0)
		for (size_t i = 0; i < tree.pids.count && !python; i++)
			python = is_python(tree.pids.data[i]);
	proc_tree_release(&tree);
	if (!python)
		return;
	cpu_explain_no_python(roots, r->cpu.method == CPU_METHOD_PERF, has, &text);
	record_emit(r, RECORD_WARNING, "%s", strbuf_text(&text));
}

/* --- GPU work, which the processes record themselves --- */

int record_can_attach(const pid_t *pids, size_t count, struct error *e)
{
	struct proc_tree tree = { 0 };
	struct error problem = { 0 };
	int fd = -ESRCH;

	(void)!proc_tree_read(&tree, pids, count);
	for (size_t i = 0; i < tree.pids.count && fd < 0; i++)
		fd = attach_connect(tree.pids.data[i], i ? &problem : e);
	if (!tree.pids.count)
		fd = attach_connect(pids[0], e);
	proc_tree_release(&tree);
	if (fd < 0)
		return e->code;
	close(fd);
	return 0;
}

static void serve(void *recording)
{
	segment_server_answer(&((struct recording *)recording)->segments);
}

static int attach_to(struct recording *r, pid_t pid, const struct attach_request *request,
		     struct error *e)
{
	struct attached a;
	struct attach_answer answer;
	int rc = attach_start(pid, request, r->segments.fd, serve, r, &a, &answer, e);

	if (rc < 0)
		return rc;
	if (vec_push(&r->attached, a) < 0) {
		close(a.fd);
		return error_set(e, -ENOMEM, "out of memory");
	}
	record_emit(r, RECORD_NOTE, "recording the GPU work of process %d, which was prepared",
		    (int)pid);
	if (*answer.text)
		record_emit(r, RECORD_WARNING, "process %d: no %s: %s", (int)pid,
			    answer.error == ATTACH_NO_ENGINE ? "measurements by the engine"
							     : "GPU work",
			    answer.text);
	return 0;
}

static int make_request(struct recording *r, struct attach_request *request, struct error *e)
{
	_cleanup_strbuf_ struct strbuf launcher = STRBUF_INIT;

	segment_server_text(&r->segments, false, &launcher);
	return attach_request_fill(request, strbuf_text(&launcher), r->directory,
				   strbuf_text(&r->options), e);
}

/* The processes may be in a container: the server's socket belongs to the first one's network. */
static int open_server(struct recording *r)
{
	int network = network_enter(r->request->pids[0]);
	int err = segment_server_open(&r->segments, r->directory, &r->identity.folder);

	network_leave(network);
	if (err >= 0)
		r->spawn.watched = r->segments.fd;
	return err;
}

/* Fails if not a single process can be attached to. */
static int attach_all(struct recording *r, struct error *e)
{
	_cleanup_free_ struct attach_request *request = calloc(1, sizeof(*request));
	struct proc_tree tree = { 0 };
	int err = request ? open_server(r) : -ENOMEM;

	if (err < 0)
		return error_set(e, err, "cannot attach: %s", error_code_text(err));
	err = make_request(r, request, e);
	if (err >= 0)
		err = proc_tree_read(&tree, r->request->pids, r->request->pid_count);
	for (size_t i = 0; err >= 0 && i < tree.pids.count; i++) {
		struct error problem = { 0 };

		if (attach_to(r, tree.pids.data[i], request, &problem) < 0 && !e->code)
			*e = problem;
	}
	proc_tree_release(&tree);
	if (r->attached.count) {
		*e = (struct error){ 0 };
		return 0;
	}
	return e->code ? e->code : error_set(e, err, "cannot attach: %s", error_code_text(err));
}

static void emit_left(const struct recording *r, pid_t pid, int rc,
		      const struct attach_answer *answer)
{
	if (rc == -ETIMEDOUT)
		record_emit(r, RECORD_WARNING,
			    "process %d does not answer: its recorder leaves when the call of the "
			    "driver that it waits for returns",
			    (int)pid);
	else if (rc < 0 && kill(pid, 0) == 0)
		record_emit(r, RECORD_NOTE,
			    "process %d has executed another program: its GPU work is recorded "
			    "until then",
			    (int)pid);
	else if (rc == 0 && *answer->text)
		record_emit(r, answer->error < 0 ? RECORD_WARNING : RECORD_NOTE, "process %d: %s",
			    (int)pid, answer->text);
}

void record_detach(struct recording *r)
{
	uint64_t end_ns = clock_monotonic_ns() + DETACH_NS;

	for (size_t i = 0; i < r->attached.count; i++)
		shutdown(r->attached.data[i].fd, SHUT_WR);
	while (r->attached.count) {
		struct attached a = r->attached.data[--r->attached.count];
		struct attach_answer answer;
		int rc = attach_await(&a, r->segments.fd, serve, r, end_ns, &answer);

		emit_left(r, a.pid, rc, &answer);
		close(a.fd);
	}
}

/* --- the beginning --- */

/* CPU samples that nobody insists on may be missing beside GPU work. */
static int start_sampling(struct recording *r, const struct cpu_roots *roots, struct error *e)
{
	int err = cpu_sampling_start(&r->cpu, r->directory, &r->identity.folder, roots, e);

	if (err >= 0 || r->request->cpu_only || r->request->hz_given || r->request->off_cpu)
		return err;
	record_emit(r, RECORD_WARNING, "no CPU samples: %s", e->text);
	*e = (struct error){ 0 };
	r->cpu.hz = 0;
	return 0;
}

static int begin(struct recording *r, struct error *e)
{
	const struct record_request *request = r->request;
	const struct cpu_roots roots = { .pids = request->pids,
					 .count = request->pid_count,
					 .running = true };
	int err = spawn_attach(&r->spawn, request->pids, request->pid_count, e);

	if (err >= 0 && !request->cpu_only)
		err = attach_all(r, e);
	if (r->attached.count && r->cpu.end_ns && !r->cpu.start_ns)
		r->cpu.end_ns = clock_monotonic_ns() + request->settings.duration_ns;
	if (err >= 0)
		err = start_sampling(r, &roots, e);
	if (err < 0) {
		record_undo(r);
		return err;
	}
	record_emit_cpu_method(r);
	warn_missing(r, &roots);
	r->spawn.start_ns =
		r->identity.start_monotonic_ns; /* not of the processes, which are older */
	for (size_t i = 0; i < request->pid_count; i++)
		process_tree_add_root(r->tree, request->pids[i], r->spawn.start_ns);
	return 0;
}

int record_attach(struct recording *r, struct error *e)
{
	struct process_command *command = &r->running;
	int err = process_command_read(command, r->request->pids[0], e);

	if (err >= 0)
		err = record_prepare(r, (int)command->argc, command->argv, e);
	return err < 0 ? err : begin(r, e);
}
