/*
 * stack_dump.c: the stacks become a recording in memory, for which symbols are resolved as for any
 * other; the trace of it is what remains.
 */
#include "record/stack_dump.h"

#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/folder.h"
#include "format/recording_dir.h"
#include "record/symbolize.h"
#include "sampler/sampled_processes.h"

/* Writes the segments of the processes into an empty folder. */
static int write_samples(const char *folder, struct folder_id *id, const pid_t *pids, size_t count,
			 struct stack_dump *out, struct error *e)
{
	struct targets_options options = { .directory = folder, .period_ns = 1 };
	_cleanup_close_ int fd = folder_open(folder, FOLDER_OWN);
	struct targets *targets;
	int err = folder_identify(fd, id), closed;

	options.folder = *id;
	if (err >= 0)
		err = targets_new(&options, &targets, e);
	if (err < 0)
		return err;
	err = thread_stacks_read(targets, pids, count, out->time_ns, &out->threads);
	closed = targets_free(targets, e);
	if (err < 0)
		error_set(e, err, "cannot read the stacks: %s", error_code_text(err));
	return err < 0 ? err : closed;
}

static bool has_stacks(const struct thread_stacks *threads)
{
	for (size_t i = 0; i < threads->all.count; i++)
		if (!threads->all.data[i].error)
			return true;
	return false;
}

static int open_named(const char *folder, struct stack_dump *out, struct error *e)
{
	static const enum table_id tables[] = { TABLE_cpu_sample, TABLE_stack, TABLE_stack_node };
	char *symbols = NULL;
	int err = symbolize_temporary(folder, &symbols, e);
	const struct trace_options options = { .symbols = symbols };

	if (err >= 0)
		err = trace_open(folder, &options, &out->trace, e);
	for (size_t i = 0; i < ARRAY_SIZE(tables) && err >= 0; i++)
		err = trace_load(out->trace, tables[i], 0, e);
	symbolize_remove_temporary(symbols);
	return err;
}

int stack_dump_read(const pid_t *pids, size_t count, struct stack_dump *out, struct error *e)
{
	char *folder = symbolize_make_temporary(e);
	struct folder_id id = { 0 };
	int err;

	*out = (struct stack_dump){ .time_ns = clock_monotonic_ns() };
	if (!folder)
		return e->code;
	err = write_samples(folder, &id, pids, count, out, e);
	if (err >= 0 && has_stacks(&out->threads))
		err = open_named(folder, out, e);
	(void)!recording_dir_remove(folder, &id, NULL);
	free(folder);
	return err;
}

void stack_dump_release(struct stack_dump *dump)
{
	thread_stacks_release(&dump->threads);
	trace_free(dump->trace);
}
