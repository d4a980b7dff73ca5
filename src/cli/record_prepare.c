#include "cli/record_prepare.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "cli/record_dir.h"
#include "cli/ui.h"

void record_release(struct recording *r)
{
	watch_free(r->watch);
	record_threads_release(&r->threads);
	writer_abandon(&r->writer);
	process_command_release(&r->running);
	kept_files_release(&r->cpu.kept);
	free(r->directory);
	free(r->shown);
	free(r->library);
	strbuf_release(&r->name);
	strbuf_release(&r->options);
}

/* The folder relative to the current one where that is shorter to type. */
static char *shown_path(const char *absolute)
{
	char *here = realpath(".", NULL);
	size_t length = here ? strlen(here) : 0;
	bool inside =
		here && length > 1 && !strncmp(absolute, here, length) && absolute[length] == '/';

	free(here);
	return strdup(inside ? absolute + length + 1 : absolute);
}

void record_make_options(struct recording *r)
{
	struct record_settings settings = {
		.graph_nodes = r->asked->graphs == 0,
		.synchronization = r->asked->sync,
		.memory = r->asked->memory,
		.all_api_calls = r->asked->api == 1,
		.stacks = (enum record_stacks)r->asked->stacks,
		.window = { r->identity.start_monotonic_ns, r->asked->delay_ns,
			    r->asked->duration_ns },
		.max_bytes = r->asked->max_bytes,
		.counters_ns = r->asked->counters_ns,
		.cpu_hz = r->cpu.timer || r->cpu.perf_namespace ? r->cpu.hz : 0,
		.perf_namespace = r->cpu.perf_namespace,
		.preload = r->preload,
		.no_cuda = r->asked->cpu_only,
	};

	strbuf_clear(&r->options);
	record_options_text(&settings, &r->options);
	r->identity.options = strbuf_text(&r->options);
}

static void choose_cpu(struct recording *r)
{
	uint64_t start_ns = r->identity.start_monotonic_ns + r->asked->delay_ns;

	r->cpu.hz = r->asked->gpu_only ? 0 : (unsigned)r->asked->hz;
	r->cpu.via = (enum record_via)r->asked->via;
	r->cpu.off_cpu = r->asked->off_cpu;
	r->cpu.start_ns = r->asked->delay_ns ? start_ns : 0;
	r->cpu.end_ns = r->asked->duration_ns ? start_ns + r->asked->duration_ns : 0;
	r->cpu.max_bytes = r->asked->max_bytes;
	if (r->library && r->asked->stacks != RECORD_STACKS_NATIVE &&
	    (!r->asked->cpu_only || r->is_python))
		r->cpu.recorder = strrchr(r->library, '/') + 1;
	r->cpu.keep_files = r->asked->symbols;
}

int record_prepare(struct recording *r, int argc, char **argv, struct error *e)
{
	struct writer_options writer_options = { .prefix = "record" };
	int err;

	r->library = record_find_library(e);
	if (!r->library && !r->asked->cpu_only)
		return e->code;
	if (r->asked->name)
		record_name(1, (char *[]){ (char *)r->asked->name, NULL }, &r->name);
	else
		record_name(argc, argv, &r->name);
	r->identity.start_monotonic_ns = clock_monotonic_ns();
	r->identity.start_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	choose_cpu(r);
	record_make_options(r);
	if (r->name.failed || r->options.failed)
		return error_set(e, -ENOMEM, "out of memory");
	r->directory = record_dir_create(r->asked->output, r->name.data, r->asked->force, e);
	if (!r->directory)
		return e->code;
	r->shown = shown_path(r->directory);
	r->identity.name = r->asked->name ? r->asked->name : r->name.data;
	r->identity.command = argv;
	r->identity.library = r->library;
	writer_options.directory = r->directory;
	err = record_json_write(r->directory, &r->identity, e);
	if (err >= 0)
		err = writer_open(&writer_options, &r->writer, e);
	if (err >= 0)
		r->watch = watch_new(r->writer);
	if (err >= 0 && (!r->watch || !r->shown))
		err = error_set(e, -ENOMEM, "out of memory");
	if (err < 0)
		record_dir_remove(r->directory, NULL);
	return err;
}

void record_tell_cpu(const struct recording *r)
{
	const struct record_cpu *cpu = &r->cpu;

	if (!r->context->verbose || !cpu->hz)
		return;
	if (!cpu->sampler)
		cli_note(r->context, "sampling the CPU by a timer inside%s%s",
			 cpu->why_not.code ? ": " : "", cpu->why_not.code ? cpu->why_not.text : "");
	else
		cli_note(r->context, "sampling the CPU by %s%s%s",
			 cpu_way_name(cpu_sampler_way(cpu->sampler)),
			 *cpu_sampler_reason(cpu->sampler) ? ": " : "",
			 cpu_sampler_reason(cpu->sampler));
}

void record_undo(struct recording *r)
{
	cpu_sampler_stop(&r->cpu.sampler, NULL, NULL);
	writer_abandon(&r->writer);
	record_dir_remove(r->directory, NULL);
}
