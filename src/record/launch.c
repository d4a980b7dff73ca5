/* launch.c: starts the command, and injects the recorder if needed. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "arch/processor.h"
#include "base/program_file.h"
#include "record/recording.h"

static int check_foreign_injection(const struct recording *r, struct error *e)
{
	const char *value, *variable = record_foreign_injection(&value);

	if (variable && !r->request->force_injection)
		return error_set(e, -EBUSY,
				 "another tool has set %s='%s'; unset it, or replace it with "
				 "--force-injection",
				 variable, value);
	if (variable)
		record_emit(r, RECORD_NOTE, "replacing %s='%s'", variable, value);
	return 0;
}

/*
 * The recorder is preloaded into Pythons, because only it can read their frames, and into all
 * programs if only its timer can sample. src/preload handles the programs that the command starts.
 */
static int choose_preload(const struct recording *r)
{
	if (r->command_kind == COMMAND_OTHER || !r->preload_library)
		return SETTING_PRELOAD_NONE;
	if (r->cpu.timer && r->request->cpu_only)
		return SETTING_PRELOAD_ALL;
	if (r->command_kind == COMMAND_MAY_START_PYTHON && (r->cpu.timer || r->cpu.perf_namespace))
		return SETTING_PRELOAD_PYTHON;
	return SETTING_PRELOAD_NONE;
}

/* Whether LD_PRELOAD can have the library, by a link to it if need be; else warns. */
static bool can_preload(struct recording *r)
{
	struct error e = { 0 };

	if (record_link_preload(&r->preload_library, &e) == 0)
		return true;
	record_emit(r, RECORD_WARNING, "%s: %s",
		    r->preload == SETTING_PRELOAD_ALL ? "the command is not sampled"
						      : "no Python frames",
		    e.text);
	return false;
}

/* Warns if only the timer could sample the command, but the recorder cannot be preloaded. */
static void warn_not_sampled(const struct recording *r)
{
	if (!r->cpu.timer || !r->request->cpu_only)
		return;
	if (!r->preload_library)
		record_emit(r, RECORD_WARNING,
			    "the command is not sampled: libpitot-preload.so is not beside '%s'",
			    r->library);
	else
		record_emit(r, RECORD_WARNING,
			    "the command is not sampled: the timer needs a dynamically linked "
			    "64-bit program that uses glibc");
}

static enum command_kind find_kind(const char *command)
{
	struct program_file file;
	char path[PATH_MAX];

	if (program_file_find(command, path) < 0 || program_file_read(path, &file) < 0 ||
	    !strstr(file.loader, ARCH_LOADER))
		return COMMAND_OTHER;
	return program_file_is_python(&file) || program_file_starts_others(&file)
		       ? COMMAND_MAY_START_PYTHON
		       : COMMAND_PROGRAM;
}

static int begin_ring(struct recording *r, struct error *e)
{
	_cleanup_close_ int memory = memfd_create("pitot ring", MFD_CLOEXEC);

	if (memory < 0)
		return error_set(e, -errno,
				 "--ring needs memory that processes share, and memfd_create says "
				 "'%s'; record to the disk instead, without --ring",
				 strerror(errno));
	record_note_ring(r);
	return segment_ring_parse(r->request->ring, &r->segments.ring.bytes,
				  &r->segments.ring.age_ns);
}

/*
 * Starts sampling while the command waits for its exec. The recorder's options depend on the
 * method.
 */
static int prepare_child(void *user, pid_t pid, struct strbuf *environment, struct error *e)
{
	struct recording *r = user;
	_cleanup_strbuf_ struct strbuf launcher = STRBUF_INIT, cores = STRBUF_INIT;
	struct record_injection injection = {
		.library = r->library,
		.directory = r->directory,
		.log_path = r->log_path,
		.perfetto = r->request->perfetto,
		.startup = r->request->startup_wait,
		.gpu = !r->request->cpu_only,
		.prepared = rule_list_deepens(&r->request->rules),
	};
	const struct cpu_roots roots = { .pids = &pid, .count = 1 };
	int err = cpu_sampling_start(&r->cpu, r->directory, &r->identity.folder, &roots, e);

	if (err < 0)
		return err;
	if (r->cpu.timer && !r->library)
		return record_find_library(e) ? 0 : e->code;
	r->preload = choose_preload(r);
	if (!r->preload)
		warn_not_sampled(r);
	else if (!can_preload(r))
		r->preload = SETTING_PRELOAD_NONE;
	record_make_options(r);
	injection.options = strbuf_text(&r->options);
	injection.preload = r->preload ? r->preload_library : NULL;
	if (r->request->ring && begin_ring(r, e) < 0)
		return e->code;
	if (r->directory &&
	    segment_server_open(&r->segments, r->directory, &r->identity.folder) == 0) {
		segment_server_text(&r->segments, !r->request->ring, &launcher);
		injection.launcher = strbuf_text(&launcher);
		r->spawn.watched = r->segments.fd;
	}
	gpu_cores_open(r, &cores);
	injection.core_folder = cores.length ? strbuf_text(&cores) : NULL;
	record_environment(&injection, environment);
	record_emit_cpu_method(r);
	if (environment->length)
		record_emit(r, RECORD_DETAIL, "injecting %s with %s", r->library,
			    injection.options);
	return 0;
}

static int start(struct recording *r, char **argv, struct error *e)
{
	int err = spawn_start(&r->spawn, argv, prepare_child, r, e);

	if (err >= 0) {
		/*
		 * The recording starts with its command, so that windows, recording.json and the
		 * row of the process agree.
		 */
		r->spawn.start_ns = r->identity.start_monotonic_ns;
		if (r->tree)
			process_tree_add_command(r->tree, r->spawn.pid, argv, r->spawn.start_ns);
		return 0;
	}
	record_undo(r);
	return err;
}

/* Sets the status that a shell returns for a command that cannot be run. */
static int cannot_run(struct recording *r, int err)
{
	r->spawn.status = err == -ENOENT ? 127 : 126;
	return err;
}

static int prepare_idle(void *user, pid_t pid, struct strbuf *environment, struct error *e)
{
	const struct recording *r = user;
	const struct record_injection injection = { .library = r->library,
						    .gpu = true,
						    .prepared = true };

	(void)pid, (void)e;
	record_environment(&injection, environment);
	return 0;
}

int record_launch_idle(struct recording *r, char **argv, struct error *e)
{
	int err = spawn_check(argv[0], e);

	if (err >= 0)
		err = check_foreign_injection(r, e);
	if (err < 0)
		return cannot_run(r, err);
	r->library = record_find_library(e);
	if (!r->library)
		return e->code;
	err = spawn_start(&r->spawn, argv, prepare_idle, r, e);
	return err < 0 ? cannot_run(r, err) : 0;
}

int record_launch(struct recording *r, int argc, char **argv, struct error *e)
{
	int err = spawn_check(argv[0], e);

	if (err < 0)
		return cannot_run(r, err);
	err = r->request->cpu_only ? 0 : check_foreign_injection(r, e);
	if (err < 0)
		return err;
	r->command_kind = find_kind(argv[0]);
	err = record_prepare(r, argc, argv, e);
	if (err < 0)
		return err;
	err = start(r, argv, e);
	return err < 0 && err != E_UNSUPPORTED ? cannot_run(r, err) : err;
}
