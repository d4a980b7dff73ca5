/* attach.c: starts to sample running processes. */
#include <stdio.h>

#include "base/program_file.h"
#include "base/strbuf.h"
#include "record/recording.h"
#include "sampler/proc_tree.h"

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
	enum cpu_python has = cpu_sampler_python(r->cpu.sampler);

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

static int begin(struct recording *r, struct error *e)
{
	const struct record_request *request = r->request;
	const struct cpu_roots roots = { .pids = request->pids,
					 .count = request->pid_count,
					 .running = true };
	int err = spawn_attach(&r->spawn, request->pids, request->pid_count, e);

	if (err >= 0)
		err = cpu_sampling_start(&r->cpu, r->directory, &r->identity.folder, &roots, e);
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
