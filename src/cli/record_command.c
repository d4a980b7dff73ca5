#include "cli/record_command.h"

#include <errno.h>

#include "cli/record_python.h"
#include "cli/ui.h"

static int check_foreign_injection(const struct recording *r)
{
	const struct context *c = r->context;
	const char *value, *variable = record_foreign_injection(&value);

	if (!variable)
		return EXIT_DONE;
	if (!r->asked->force_injection)
		return cli_failf(c,
				 "another tool owns %s='%s': unset it, or take it over with "
				 "--force-injection",
				 variable, value);
	cli_note(c, "taking %s from '%s'", variable, value);
	return EXIT_DONE;
}

/*
 * Into all programs only where nothing else samples them, and that is asked for: some do not bear it. Of a Python it is
 * known that it does, and it leaves what it starts alone.
 */
static enum record_preload choose_preload(const struct recording *r)
{
	if (r->cpu.timer && r->asked->cpu_only && !r->has_other_loader)
		return RECORD_PRELOAD_ALL;
	if (r->is_python && (r->cpu.timer || r->cpu.perf_namespace))
		return RECORD_PRELOAD_ONCE;
	return RECORD_PRELOAD_NONE;
}

/* The command waits for its exec: sampling starts, and then it is known what the recorder inside has to do. */
static int prepare_child(void *user, pid_t pid, struct strbuf *environment, struct error *e)
{
	struct recording *r = user;
	struct record_injection injection = {
		.library = r->library,
		.directory = r->directory,
		.cuda = !r->asked->cpu_only,
	};
	int err = record_cpu_start(&r->cpu, r->directory, pid, false, e);

	if (err < 0)
		return err;
	if (r->cpu.timer && !r->library)
		return record_find_library(e) ? 0 : e->code;
	r->preload = choose_preload(r);
	record_make_options(r);
	injection.options = strbuf_text(&r->options);
	injection.preload = r->preload;
	record_environment(&injection, environment);
	record_tell_cpu(r);
	if (r->cpu.timer && r->asked->cpu_only && r->has_other_loader)
		cli_warn(r->context, "the command is for another C library or processor than the "
				     "timer: it runs without it, and is not sampled");
	if (r->context->verbose && environment->length)
		cli_note(r->context, "injecting %s with %s", r->library, injection.options);
	return 0;
}

static int start(struct recording *r, char **argv, struct error *e)
{
	int err = spawn_start(&r->spawn, argv, prepare_child, r, e);

	if (err >= 0) {
		r->threads.pid = r->spawn.pid;
		watch_command(r->watch, r->spawn.pid, r->spawn.start_ns);
		return 0;
	}
	record_undo(r);
	return err;
}

/* What a shell would return. */
static int cannot_run(const struct context *c, int err, const struct error *e)
{
	cli_fail(c, e);
	return err == -ENOENT ? 127 : 126;
}

int record_command(struct recording *r, int argc, char **argv)
{
	struct error e = { 0 };
	int err = spawn_check(argv[0], &e), status;

	if (err < 0)
		return cannot_run(r->context, err, &e);
	status = r->asked->cpu_only ? EXIT_DONE : check_foreign_injection(r);
	if (status != EXIT_DONE)
		return status;
	r->is_python = record_is_python(argv);
	r->has_other_loader = record_has_other_loader(argv[0]);
	if (record_prepare(r, argc, argv, &e) < 0)
		return cli_fail(r->context, &e);
	err = start(r, argv, &e);
	if (err == E_UNSUPPORTED)
		return cli_fail(r->context, &e);
	return err < 0 ? cannot_run(r->context, err, &e) : EXIT_DONE;
}
