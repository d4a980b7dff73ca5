/* recording.c: prepares a recording: the folder, the writer, the settings. */
#include "record/recording.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "format/recording_dir.h"
#include "gpufl/gpufl_folder.h"

void recording_release(struct recording *r)
{
	triggers_free(r->triggers);
	recorded_steps_free(r->steps);
	process_tree_free(r->tree);
	writer_abandon(&r->writer);
	process_command_release(&r->running);
	file_copies_release(&r->cpu.kept);
	segment_server_close(&r->segments);
	gpu_cores_free(r->gpu_cores);
	for (size_t i = 0; i < r->attached.count; i++)
		close(r->attached.data[i].fd);
	vec_release(&r->attached);
	free(r->directory);
	free(r->shown);
	free(r->library);
	free(r->log_path);
	free(r->preload_library);
	strbuf_release(&r->name);
	strbuf_release(&r->options);
}

/* Returns the path relative to the current folder if that is shorter. */
static char *shown_path(const char *absolute)
{
	_cleanup_free_ char *here = realpath(".", NULL);
	size_t length = here ? strlen(here) : 0;
	bool inside =
		here && length > 1 && !strncmp(absolute, here, length) && absolute[length] == '/';

	return strdup(inside ? absolute + length + 1 : absolute);
}

/*
 * Finds the folder of gpufl's logs. The option's is created now, so that no command runs in
 * vain; the one beside the recording is created by the first process that has logs.
 */
static int make_log_path(struct recording *r, struct error *e)
{
	const char *folder = strchr(r->request->log, '='), *suffix = ".pitot";
	struct strbuf path = STRBUF_INIT;
	size_t length;
	bool is_full;

	if (folder) {
		r->log_path = gpufl_folder_make(folder + 1, &is_full, e);
		if (r->log_path && is_full)
			record_emit(r, RECORD_WARNING,
				    "no logs for gpufl: less than 512 MiB are free in '%s'",
				    r->log_path);
		return r->log_path ? 0 : e->code;
	}
	length = strlen(r->directory);
	length -= has_suffix(r->directory, suffix) ? strlen(suffix) : 0;
	strbuf_add(&path, r->directory, length);
	strbuf_adds(&path, ".gpufl");
	if (path.failed)
		strbuf_release(&path);
	r->log_path = path.data;
	return r->log_path ? 0 : error_set(e, -ENOMEM, "out of memory");
}

/* From the start of the recording to that of its window. */
static uint64_t delay_of(const struct recording *r)
{
	uint64_t at_ns = r->request->start_at_ns, now_ns = r->identity.start_realtime_ns;

	if (!at_ns)
		return r->request->settings.delay_ns;
	return at_ns > now_ns ? at_ns - now_ns : 1;
}

void record_make_options(struct recording *r)
{
	struct settings s = r->request->settings;
	uint64_t bytes, age_ns;

	s.start_ns = r->identity.start_monotonic_ns;
	s.delay_ns = delay_of(r);
	if (!r->request->pid_count) { /* running processes are sampled from outside only */
		s.cpu = r->cpu.timer || r->cpu.perf_namespace ? r->cpu.hz : 0;
		s.perf = r->cpu.perf_namespace;
	} else if (!s.delay_ns) {
		/* It begins when they are attached; record_detach() ends it. */
		s.duration_ns = 0;
	}
	s.preload = r->preload;
	s.cuda = !r->request->cpu_only;
	if (r->request->ring && segment_ring_parse(r->request->ring, &bytes, &age_ns) == 0)
		s.segment_bytes = bytes / RING_PARTS;
	if (!s.cuda || (r->request->pid_count && setting_engine_needs_start(s.engine)))
		s.engine = SETTING_ENGINE_TRACE;
	r->identity.engine = setting_engine_names[s.engine];
	strbuf_clear(&r->options);
	settings_text(&s, &r->options);
	r->identity.options = strbuf_text(&r->options);
}

static void choose_cpu(struct recording *r)
{
	const struct settings *s = &r->request->settings;
	uint64_t delay_ns = delay_of(r), start_ns = r->identity.start_monotonic_ns + delay_ns;

	r->cpu.hz = r->request->gpu_only ? 0 : (unsigned)r->request->hz;
	r->cpu.method = (enum cpu_method)r->request->method;
	r->cpu.off_cpu = r->request->off_cpu;
	r->cpu.allocator = r->request->allocator;
	r->cpu.start_ns = delay_ns ? start_ns : 0;
	r->cpu.end_ns = s->duration_ns ? start_ns + s->duration_ns : 0;
	r->cpu.max_bytes = s->max_bytes;
	if (r->library && s->stacks != SETTING_STACKS_NATIVE &&
	    (!r->request->cpu_only || r->command_kind == COMMAND_MAY_START_PYTHON))
		r->cpu.recorder = strrchr(r->library, '/') + 1;
	r->cpu.keep_files = r->request->symbols;
}

/* Makes the folder and its contents. */
static int make_recording(struct recording *r, struct error *e)
{
	struct writer_options writer_options = { .prefix = "record" };
	int err;

	writer_options.directory = r->directory;
	writer_options.folder = r->identity.folder;
	err = recording_json_write(r->directory, &r->identity, e);
	if (err >= 0)
		err = writer_open(&writer_options, &r->writer, e);
	if (err >= 0)
		r->tree = process_tree_new(r->writer);
	if (err >= 0 && !r->tree)
		err = error_set(e, -ENOMEM, "out of memory");
	return err;
}

int record_prepare(struct recording *r, int argc, char **argv, struct error *e)
{
	bool made = r->request->recording;
	int err = 0;

	r->library = record_find_library(e);
	if (!r->library && !r->request->cpu_only)
		return e->code;
	r->preload_library = r->library ? record_find_preload(r->library) : NULL;
	if (r->request->name)
		recording_name(1, (char *[]){ (char *)r->request->name, NULL }, &r->name);
	else
		recording_name(argc, argv, &r->name);
	if (r->name.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (made)
		r->directory = recording_dir_create(r->request->output, r->name.data,
						    r->request->force, &r->identity.folder, e);
	if (made && !r->directory)
		return e->code;
	r->shown = made ? shown_path(r->directory) : NULL;
	r->identity.name = r->request->name ? r->request->name : r->name.data;
	r->identity.command = argv;
	r->identity.library = r->library;
	r->identity.start_monotonic_ns = clock_monotonic_ns();
	r->identity.start_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	choose_cpu(r);
	record_make_options(r);
	if (r->options.failed || (made && !r->shown))
		err = error_set(e, -ENOMEM, "out of memory");
	if (err >= 0 && r->request->log)
		err = make_log_path(r, e);
	if (err >= 0 && made)
		err = make_recording(r, e);
	if (err < 0 && made)
		recording_dir_remove(r->directory, &r->identity.folder, NULL);
	return err;
}

void record_emit(const struct recording *r, enum record_message kind, const char *format, ...)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	va_list args;

	if (!r->listener.message)
		return;
	va_start(args, format);
	strbuf_vaddf(&text, format, args);
	va_end(args);
	r->listener.message(r->listener.user, kind, strbuf_text(&text));
}

void record_emit_cpu_method(const struct recording *r)
{
	const struct cpu_sampler *sampler = r->cpu.sampler;
	const char *reason = sampler ? cpu_sampler_reason(sampler) : "";

	if (sampler && r->cpu.hz)
		record_emit(r, RECORD_DETAIL, "sampling the CPU by %s%s%s",
			    cpu_method_name(cpu_sampler_method(sampler)), *reason ? ": " : "",
			    reason);
}

void record_undo(struct recording *r)
{
	cpu_sampler_stop(&r->cpu.sampler, NULL, NULL);
	writer_abandon(&r->writer);
	if (r->directory)
		recording_dir_remove(r->directory, &r->identity.folder, NULL);
}
