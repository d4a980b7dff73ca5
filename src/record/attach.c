/* attach.c: begins to sample a process that already runs. */
#include "record/recording.h"

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
