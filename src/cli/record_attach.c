#include "cli/record_attach.h"

#include "base/clock.h"
#include "cli/ui.h"

static int begin(struct recording *r, struct error *e)
{
	int err = spawn_attach(&r->spawn, (pid_t)r->asked->pid, e);

	if (err >= 0)
		err = record_cpu_start(&r->cpu, r->directory, r->spawn.pid, true, e);
	if (err < 0) {
		record_undo(r);
		return err;
	}
	record_tell_cpu(r);
	watch_command(r->watch, r->spawn.pid, r->spawn.start_ns);
	return 0;
}

int record_attach(struct recording *r)
{
	struct process_command *command = &r->running;
	struct error e = { 0 };

	if (process_command_read(command, (pid_t)r->asked->pid, &e) < 0 ||
	    record_prepare(r, (int)command->argc, command->argv, &e) < 0 || begin(r, &e) < 0)
		return cli_fail(r->context, &e);
	return EXIT_DONE;
}

bool record_attach_is_over(struct recording *r)
{
	uint64_t now = clock_monotonic_ns();

	if (!r->asked->pid_given || !r->cpu.end_ns || now < r->cpu.end_ns)
		return false;
	r->spawn.end_ns = now;
	return true;
}
