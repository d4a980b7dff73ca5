/* attach.c: begins to sample a process that already runs. */
#include <stdio.h>

#include "base/program_file.h"
#include "record/recording.h"

/* What is missing, and how to get it. */
static void warn_missing(const struct recording *r)
{
	size_t children = process_count_children(r->spawn.pid);
	struct program_file file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)r->spawn.pid);
	if (cpu_sampler_method(r->cpu.sampler) != CPU_METHOD_EBPF &&
	    program_file_read(path, &file) >= 0 && program_file_is_python(&file))
		record_say(r, RECORD_WARNING,
			   "no Python frames without eBPF: run pitot as root, or start the program "
			   "with `pitot record`");
	if (children)
		record_say(r, RECORD_WARNING,
			   "%zu %s that process %d has already started %s not sampled, only those "
			   "that "
			   "it starts from now on",
			   children, children == 1 ? "process" : "processes", (int)r->spawn.pid,
			   children == 1 ? "is" : "are");
}

static int begin(struct recording *r, struct error *e)
{
	int err = spawn_attach(&r->spawn, (pid_t)r->request->pid, e);

	if (err >= 0)
		err = cpu_sampling_start(&r->cpu, r->directory, r->spawn.pid, true, e);
	if (err < 0) {
		record_undo(r);
		return err;
	}
	record_say_cpu(r);
	warn_missing(r);
	r->spawn.start_ns =
		r->identity.start_monotonic_ns; /* of the recording; the process is older */
	process_tree_add_command(r->tree, r->spawn.pid, r->spawn.start_ns);
	return 0;
}

int record_attach(struct recording *r, struct error *e)
{
	struct process_command *command = &r->running;
	int err = process_command_read(command, (pid_t)r->request->pid, e);

	if (err >= 0)
		err = record_prepare(r, (int)command->argc, command->argv, e);
	return err < 0 ? err : begin(r, e);
}
