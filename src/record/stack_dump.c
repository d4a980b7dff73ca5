/*
 * stack_dump.c: the stacks become a recording in memory, for which symbols are resolved as for any
 * other; the trace of it is what remains.
 */
#include "record/stack_dump.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/folder.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "record/symbolize.h"
#include "sampler/process_memory.h"
#include "sampler/sampled_processes.h"

#define LIMIT_NS (60 * NS_PER_S) /* of all threads, when somebody waits for them */

/* no_work: why the recording has no GPU work; NULL: it may have. */
static int write_rows(const struct stack_source *source, const char *folder,
		      const struct folder_id *id, uint64_t limit_ns, const char *no_work,
		      struct thread_stacks *threads, struct error *e)
{
	const struct targets_options options = { .directory = folder,
						 .folder = *id,
						 .period_ns = 1 };
	uint64_t now_ns = clock_monotonic_ns();
	struct targets *targets;
	int err = targets_new(&options, &targets, e), closed;

	if (err < 0)
		return err;
	process_memory_use_core(source->core);
	err = source->core ? thread_stacks_read_core(targets, source->core, now_ns, threads)
			   : thread_stacks_read(targets, source->pids, source->count, now_ns,
						now_ns + limit_ns, threads);
	if (no_work)
		targets_capability(targets, feature_gpu, capability_state_unavailable, NULL,
				   no_work);
	closed = targets_free(targets, e);
	process_memory_use_core(NULL);
	if (err < 0)
		error_set(e, err, "cannot read the stacks: %s", error_code_text(err));
	return err < 0 ? err : closed;
}

int stack_dump_write(const pid_t *pids, size_t count, const char *folder,
		     const struct folder_id *id, uint64_t limit_ns, struct thread_stacks *threads,
		     struct error *e)
{
	const struct stack_source source = { NULL, pids, count };

	return write_rows(&source, folder, id, limit_ns, NULL, threads, e);
}

static int open_named(const char *folder, struct stack_dump *out, struct error *e)
{
	static const enum table_id tables[] = { TABLE_unfinished, TABLE_stack, TABLE_stack_node };
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

/* Completes a recording that stays. */
static int finish(const char *folder, const struct folder_id *id, struct stack_dump *out,
		  struct error *e)
{
	static const char *const command[] = { "pitot", "dump", "--stacks", NULL };
	const struct symbolizer_options how = { .file_copies = NULL };
	struct symbolize_result symbols = { .addresses = 0 };
	const struct recording_identity identity = {
		.folder = *id,
		.name = "stacks",
		.recorded_by = "pitot dump",
		.command = (char **)(uintptr_t)command,
		.options = "",
		.engine = "",
		.start_monotonic_ns = out->time_ns,
		.start_realtime_ns = clock_read_ns(CLOCK_REALTIME),
		.end_monotonic_ns = clock_monotonic_ns(),
	};
	int err = recording_json_write(folder, &identity, e);

	if (err < 0)
		return err;
	err = symbolize_recording(folder, id, &how, &symbols, e);
	if (err >= 0)
		symbolize_release(&symbols);
	return err;
}

static int identify(const char *folder, struct folder_id *id)
{
	_cleanup_close_ int fd = folder_open(folder, FOLDER_OWN);

	return folder_identify(fd, id);
}

int stack_dump_read(const struct stack_source *source, const char *output, bool force,
		    struct stack_dump *out, struct error *e)
{
	struct folder_id id = { 0 };
	_cleanup_free_ char *folder = output ? recording_dir_create(output, "stacks", force, &id, e)
					     : symbolize_make_temporary(e);
	int err = folder ? 0 : e->code;

	*out = (struct stack_dump){ .time_ns = clock_monotonic_ns() };
	if (err == 0 && !output)
		err = identify(folder, &id);
	if (err >= 0)
		err = write_rows(source, folder, &id, LIMIT_NS,
				 "`pitot dump --stacks` records call stacks, and no work",
				 &out->threads, e);
	if (err >= 0 && out->threads.all.count && output)
		err = finish(folder, &id, out, e);
	if (err >= 0 && out->threads.all.count)
		err = open_named(folder, out, e);
	if (folder && (!output || err < 0 || !out->threads.all.count))
		(void)!recording_dir_remove(folder, &id, NULL);
	return err;
}

void stack_dump_release(struct stack_dump *dump)
{
	thread_stacks_release(&dump->threads);
	trace_free(dump->trace);
}
