/* cmd_upload.c: `pitot upload`: sends gpufl's logs or a recording to gpufl's backend. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "base/human.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/ui.h"
#include "export/exporter.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "gpufl/gpufl_folder.h"
#include "upload/upload.h"
#include "upload/upload_cursor.h"
#include "upload/upload_key.h"

static const char *option_url, *option_key_file, *option_api_path, *option_ca_file;
static const char *option_session, *option_cursor;
static uint64_t option_timeout = UPLOAD_TIMEOUT_NS, option_retries = 4;
static bool option_dry_run, option_force;

static const struct option options[] = {
	OPTION(STRING, "url", 0, option_url, "URL",
	       "host of the backend (default: PITOT_BACKEND_URL, GPUFL_BACKEND_URL)"),
	OPTION(STRING, "api-key-file", 0, option_key_file, "FILE",
	       "file with the key, - for standard input (default: PITOT_API_KEY, "
	       "GPUFL_API_KEY)",
	       .is_path = true),
	FLAG("dry-run", 'n', option_dry_run,
	     "print what would be sent, but send and change nothing"),
	OPTION(STRING, "session", 0, option_session, "ID",
	       "send only this session; newest: the latest one (default: all)"),
	FLAG("force", 'f', option_force, "send again what was sent before"),
	OPTION(STRING, "ca-file", 0, option_ca_file, "FILE",
	       "trusted certificates, PEM (default: those of the machine)", .is_path = true,
	       .group = "connection"),
	OPTION(DURATION, "timeout", 0, option_timeout, "TIME",
	       "time limit of the whole upload (default: 5m)", .negatable = true,
	       .group = "connection"),
	OPTION(U64, "retries", 0, option_retries, "N",
	       "attempts to repeat a failed request (default: 4)", .most = 1000,
	       .group = "connection"),
	OPTION(STRING, "api-path", 0, option_api_path, "PATH",
	       "path of the backend's API (default: PITOT_API_PATH, GPUFL_API_PATH, or /api/v1)",
	       .group = "connection"),
	OPTION(STRING, "cursor", 0, option_cursor, "FILE",
	       "remembers what was sent (default: " UPLOAD_CURSOR " beside the sessions)",
	       .is_path = true, .group = "connection"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "PITOT_API_KEY=gpfl_... pitot upload train.gpufl --url https://api.example.com",
	  "every session of a folder of logs" },
	{ "pitot upload --api-key-file ~/.gpufl-key", "the newest recording in this folder" },
	{ "pitot upload /var/log/gpufl --dry-run", "what is not there yet" },
	{ NULL, NULL },
};

struct upload_command {
	struct context *context;
	struct progress progress;
	struct upload_options options;
	struct upload_result result;
	struct strbuf key;
	char cursor[PATH_MAX]; /* of --cursor, if it exists */
	char exported[PATH_MAX]; /* folder of a recording's logs, or "" */
};

/* ---- what to send ---- */

static bool is_recording(const char *path)
{
	_cleanup_close_ int folder = folder_open(path, FOLDER_ANY);
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;
	bool found = false;

	while (!found && (name = folder_next(list)))
		found = !strcmp(name, RECORDING_JSON) || has_suffix(name, ".pit");
	return found;
}

/* Removes the folder of exported sessions, which contain only logs. */
static void remove_exported(const char *path)
{
	_cleanup_close_ int folder = *path ? folder_open(path, FOLDER_ANY) : -ENOENT;
	_cleanup_list_ DIR *list = folder_list(folder);
	const char *name;

	while ((name = folder_next(list)))
		if (name[0] != '.')
			gpufl_folder_remove_session(path, name);
	if (*path)
		rmdir(path);
}

static int make_folder(char path[PATH_MAX], struct error *e)
{
	const char *base = getenv("TMPDIR");

	snprintf(path, PATH_MAX, "%s/pitot-upload-XXXXXX", base && *base ? base : "/tmp");
	if (mkdtemp(path))
		return 0;
	error_errno(e, errno, "cannot create '%s'; TMPDIR names another place", path);
	path[0] = '\0';
	return e->code;
}

/* Exports the same bytes each time, to any path, so that the server recognises what it has. */
static int export_trace(struct upload_command *u, struct trace *t, const char *recording,
			struct error *e)
{
	struct export_options x = { .until_ns = UINT64_MAX,
				    .progress = progress_update,
				    .progress_user = &u->progress,
				    .cancel = &terminal_stop_signal };
	struct export_result result;
	char path[PATH_MAX];
	int rc = make_folder(u->exported, e);

	x.shown_path = base_name(realpath(recording, path) ? path : recording);
	if (rc == 0)
		rc = gpufl_write(t, &x, u->exported, &result, e);
	if (rc == -ENODATA)
		return error_set(
			e, rc,
			"nothing to upload: gpufl's logs have no record for any data of this "
			"recording; see `pitot report`");
	return rc;
}

/* Exports a recording as logs. The cursor is in the recording. */
static int export_recording(struct upload_command *u, const char *recording, char **cursor)
{
	struct context *c = u->context;
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct error e = { 0 };
	int status = cli_open_trace(c, recording, &u->progress, &path, &trace), rc;

	if (status != EXIT_DONE)
		return status;
	if (recording_json_is_recording(path))
		cli_warn(c, "'%s' is not complete: if it still grows, later data is not sent",
			 path);
	rc = export_trace(u, trace, path, &e);
	progress_end(&u->progress);
	trace_free(trace);
	if (rc >= 0 && asprintf(cursor, "%s/" UPLOAD_CURSOR, path) < 0)
		rc = error_set(&e, -ENOMEM, "out of memory");
	if (rc == -ECANCELED && terminal_stop_signal)
		return 128 + terminal_stop_signal;
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

/* ---- options ---- */

static const char *first_of(const char *option, const char *own, const char *gpufl)
{
	const char *value = option ? option : getenv(own);

	return value && *value ? value : getenv(gpufl);
}

static int read_key(struct upload_command *u, struct error *e)
{
	int rc = upload_key_read(option_key_file, &u->key, e);

	u->options.api_key = u->key.length ? strbuf_text(&u->key) : NULL;
	return rc;
}

static void on_warning(void *user, const char *text)
{
	struct upload_command *u = user;

	if (u->progress.shown)
		fputs("\r\033[K", stderr);
	cli_warn(u->context, "%s", text);
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
	struct upload_command *u = user;

	progress_update(&u->progress, done, total);
}

static void set_options(struct upload_command *u)
{
	u->options = (struct upload_options){
		/* links on the way to it are the user's */
		.cursor = option_cursor && realpath(option_cursor, u->cursor) ? u->cursor
									      : option_cursor,
		.session = option_session,
		.url = first_of(option_url, "PITOT_BACKEND_URL", "GPUFL_BACKEND_URL"),
		.api_path = first_of(option_api_path, "PITOT_API_PATH", "GPUFL_API_PATH"),
		.ca_file = option_ca_file,
		.timeout_ns = option_timeout,
		.retries = option_retries,
		.force = option_force,
		.dry_run = option_dry_run,
		.cancel = &terminal_stop_signal,
		.warn = on_warning,
		.progress = on_progress,
		.user = u,
	};
}

/* ---- the result ---- */

static bool is_complete(const struct upload_command *u)
{
	return !u->result.unfinished && !u->result.refused_files;
}

static int print_json(const struct upload_command *u, const struct error *e)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const struct upload_result *r = &u->result;
	const char *url = u->options.url;
	struct json j = JSON_PRETTY(&out);

	json_object(&j);
	json_key_string(&j, "url", url && strpbrk(url, UPLOAD_URL_SECRETS) ? NULL : url);
	json_key_bool(&j, "dry_run", option_dry_run);
	json_key_bool(&j, "complete", !e && is_complete(u) && !option_dry_run);
	json_key_string(&j, "error", e ? e->text : NULL);
	json_key_u64(&j, "sessions", r->sessions);
	json_key_u64(&j, "completed", r->completed);
	json_key_u64(&j, "unfinished", r->unfinished);
	json_key_u64(&j, "files", r->files);
	json_key_u64(&j, "bytes", r->bytes);
	json_key_known(&j, "records", !option_dry_run, r->records);
	json_key_u64(&j, "known_files", r->known_files);
	json_key_u64(&j, "refused_files", r->refused_files);
	json_key_u64(&j, "rejected_records", r->rejected_records);
	json_key_u64(&j, "retries", r->retries);
	json_finish(&j);
	return cli_print(u->context, &out);
}

static int print_text(const struct upload_command *u)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const struct upload_result *r = &u->result;

	strbuf_adds(&out, option_dry_run ? "would send " : "sent ");
	cli_add_count(&out, "", r->files, "file", "files");
	strbuf_adds(&out, " (");
	human_bytes(&out, r->bytes);
	if (!option_dry_run)
		cli_add_count(&out, ", ", r->records, "record", "records");
	strbuf_adds(&out, ") of ");
	cli_add_count(&out, "", r->sessions, "session", "sessions");
	if (u->options.url)
		strbuf_addf(&out, " to %s", u->options.url);
	if (r->completed)
		cli_add_count(&out, "; ", r->completed, "session is complete",
			      "sessions are complete");
	if (r->known_files)
		cli_add_count(&out, "; ", r->known_files, "file was there", "files were there");
	if (r->retries)
		cli_add_count(&out, "; ", r->retries, "retry", "retries");
	strbuf_addc(&out, '\n');
	return cli_print(u->context, &out);
}

static int send_logs(struct upload_command *u)
{
	struct context *c = u->context;
	struct error e = { 0 };
	int rc, status;

	progress_start(&u->progress, c, "uploading");
	rc = upload_run(&u->options, &u->result, &e);
	progress_end(&u->progress);
	status = c->json ? print_json(u, rc < 0 ? &e : NULL) : rc < 0 ? EXIT_DONE : print_text(u);
	if (rc == -ECANCELED && terminal_stop_signal)
		return 128 + terminal_stop_signal;
	if (rc < 0)
		return cli_fail(c, &e);
	return status != EXIT_DONE || (!is_complete(u) && !option_dry_run) ? EXIT_FAILED
									   : EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	struct upload_command u = { .context = c };
	_cleanup_free_ char *cursor = NULL;
	struct error e = { 0 };
	int status = EXIT_DONE;

	(void)argc;
	set_options(&u);
	if (read_key(&u, &e) < 0)
		status = cli_fail(c, &e);
	terminal_catch_signals(); /* the key may come from a pipe, which a signal ends */
	u.options.path = argv[1];
	if (status == EXIT_DONE && (!argv[1] || is_recording(argv[1]))) {
		status = export_recording(&u, argv[1], &cursor);
		u.options.path = u.exported;
		if (!u.options.cursor)
			u.options.cursor = cursor;
	}
	if (status == EXIT_DONE)
		status = send_logs(&u);
	remove_exported(u.exported);
	upload_key_forget(&u.key);
	return status;
}

const struct command cmd_upload = {
	.name = "upload",
	.group = COMMAND_CONVERT,
	.summary = "send gpufl's logs, or a recording, to gpufl's backend",
	.usage = "[options] [FOLDER|RECORDING]",
	.description =
		"Sends the closed windows of gpufl's logs in FOLDER (from `pitot record --log "
		"gpufl`, `pitot export --format gpufl`, or gpufl's own client) to a backend, and "
		"marks sessions that have ended as complete. A RECORDING, by default the newest in "
		"the current folder, is first exported into a temporary folder.\n\n"
		"A cursor file beside the logs stores what the server has accepted, so that an "
		"interrupted upload can be resumed. Temporary failures (HTTP 5xx, 429, the "
		"network) are retried. A window that the server rejects is skipped with a warning. "
		"A rejected key, a redirect or a wrong address ends the upload.",
	.options = options,
	.operands_max = 1,
	.or_files = true,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "0 if the server has everything. 1 if the upload was aborted, something could not "
		 "be sent, or a session is still being written.\n\n"
		 "ENVIRONMENT\n\n"
		 "PITOT_API_KEY, PITOT_BACKEND_URL and PITOT_API_PATH, or the same names with "
		 "GPUFL_ instead of PITOT_. libcurl's own variables, such as https_proxy, apply. "
		 "There is no option for the key, because every user of the machine can read "
		 "command lines.",
	.run = run,
};
