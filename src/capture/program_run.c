/*
 * program_run.c: runs `pitot report` and `pitot upload` on the program's own recording, in another
 * process, so that the libraries they need are not loaded into the program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/json_read.h"
#include "base/program_file.h"
#include "capture/program.h"

static char library[PATH_MAX]; /* absolute; "": unknown */

static void resolve_library(void)
{
	Dl_info info;

	if (!dladdr((void *)&program_report, &info) || !info.dli_fname)
		return;
	if (info.dli_fname[0] == '/')
		snprintf(library, sizeof(library), "%s", info.dli_fname);
	else if (!realpath(info.dli_fname, library))
		library[0] = '\0';
}

const char *program_library(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, resolve_library);
	return library;
}

/* Finds it beside the library or where both are installed, or in PATH; never by a relative path. */
static int find_program(char path[PATH_MAX])
{
	static const char *const places[] = { "pitot", "../bin/pitot", "../../bin/pitot" };
	const char *own = program_library(), *slash = strrchr(own, '/');

	for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
		int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - own), own, places[i]);

		if (n < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	return program_file_find_own("pitot", path);
}

struct command {
	const char *name; /* "report" */
	char *const *argv;
	char *const *environment;
	int output, errors; /* descriptors for its standard output (-1: inherited) and error */
};

static int spawn(const char *program, const struct command *c, pid_t *pid)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, c->errors, 2);
	if (c->output >= 0)
		posix_spawn_file_actions_adddup2(&files, c->output, 1);
	err = posix_spawn(pid, program, &files, &attributes, c->argv, c->environment);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return err;
}

/*
 * Returns the wait status; 0 if it is unknown, because the program ignores SIGCHLD or waits for all
 * children itself.
 */
static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

/* Makes an error of the command's last line; warnings may precede it. */
static int failure(const struct command *c, const char *directory, struct error *e)
{
	char text[2048] = "", *line;
	off_t end = lseek(c->errors, 0, SEEK_END);
	ssize_t n = pread(c->errors, text, sizeof(text) - 1, MAX(end - (off_t)sizeof(text) + 1, 0));

	text[MAX(n, 0)] = '\0';
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	line = strrchr(text, '\n');
	return error_set(e, -EIO, "`pitot %s %s` failed: %s", c->name, directory,
			 line ? line + 1 : text);
}

static int run(const struct command *c, const char *directory, struct error *e)
{
	char program[PATH_MAX];
	sigset_t child, before;
	int err, status = 0;
	pid_t pid;

	if (find_program(program) < 0)
		return error_set(
			e, -ENOENT,
			"cannot find the program pitot: install it beside libpitot.so or in a "
			"folder of PATH, or type: pitot %s %s",
			c->name, directory);
	/*
	 * Blocks SIGCHLD as system(3) does: the end of a child that the program does not know must
	 * not interrupt this thread.
	 */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &before);
	err = spawn(program, c, &pid);
	if (!err)
		status = wait_for(pid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return error_errno(
			e, err,
			"cannot run '%s'; install the program pitot beside libpitot.so or in a "
			"folder of PATH, or type: pitot %s %s",
			program, c->name, directory);
	return status ? failure(c, directory, e) : 0;
}

int program_report(const char *directory, const char *path, struct error *e)
{
	_cleanup_close_ int errors = memfd_create("pitot report", MFD_CLOEXEC), output = -1;
	const char *const argv[] = { "pitot", "report", "--no-pager", "-q", directory, NULL };
	struct command c = { .name = "report",
			     .argv = (char *const *)argv,
			     .environment = environ,
			     .errors = errors };

	if (errors < 0)
		return error_errno(e, errno, "cannot start `pitot report`");
	if (path && *path) {
		output = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (output < 0)
			return error_errno(e, errno, "cannot write '%s'", path);
	}
	c.output = output;
	return run(&c, directory, e);
}

/* ---- upload ---- */

#define UPLOAD_ARGUMENTS 16

/* A command line in one piece of memory; NULs separate its words. */
struct words {
	struct strbuf text;
	size_t starts[UPLOAD_ARGUMENTS];
	size_t count;
};

static void PRINTF_LIKE(2, 3) add_word(struct words *w, const char *format, ...)
{
	va_list args;

	w->starts[w->count++] = w->text.length;
	va_start(args, format);
	strbuf_vaddf(&w->text, format, args);
	va_end(args);
	strbuf_addc(&w->text, '\0');
}

static void add_options(struct words *w, const struct pitot_upload_options *o)
{
	const struct {
		const char *name, *value;
	} texts[] = { { "url", o->url },
		      { "api-path", o->api_path },
		      { "session", o->session },
		      { "cursor", o->cursor },
		      { "ca-file", o->ca_file } };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].value)
			add_word(w, "--%s=%s", texts[i].name, texts[i].value);
	if (o->timeout_ns)
		add_word(w, "--timeout=%lluns", (unsigned long long)o->timeout_ns);
	if (o->retries)
		add_word(w, "--retries=%llu",
			 o->retries == PITOT_NONE ? 0 : (unsigned long long)o->retries);
	if (o->force == PITOT_ON)
		add_word(w, "--force");
}

/* Returns the environment with the key, which the command line must not show. */
static char **with_key(char *variable)
{
	size_t count = 0, kept = 0;
	char **all;

	while (environ[count])
		count++;
	all = calloc(count + 2, sizeof(*all));
	for (size_t i = 0; all && i < count; i++)
		if (!variable || strncmp(environ[i], variable, strcspn(variable, "=") + 1) != 0)
			all[kept++] = environ[i];
	if (all)
		all[kept] = variable;
	return all;
}

/* Returns how many records the server has accepted; -1: not all of them. */
static int64_t read_records(int fd)
{
	struct json_found complete, records;
	char text[4096];
	size_t length = (size_t)MAX(pread(fd, text, sizeof(text), 0), 0);

	if (json_find(text, length, "complete", &complete, NULL) < 0 ||
	    json_find(text, length, "records", &records, NULL) < 0 || complete.kind != JSON_TRUE)
		return -1;
	return strtoll(records.text, NULL, 10);
}

int64_t program_upload(const char *directory, const struct pitot_upload_options *o, struct error *e)
{
	_cleanup_close_ int errors = memfd_create("pitot upload", MFD_CLOEXEC);
	_cleanup_close_ int output = memfd_create("pitot upload", MFD_CLOEXEC);
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	struct command c = { .name = "upload", .output = output, .errors = errors };
	char *argv[UPLOAD_ARGUMENTS + 1] = { 0 };
	_cleanup_free_ char **environment = NULL;
	struct words words = { 0 };
	int64_t records = -1;
	int r = 0;

	if (errors < 0 || output < 0)
		return error_errno(e, errno, "cannot start `pitot upload`");
	add_word(&words, "pitot");
	add_word(&words, "upload");
	add_word(&words, "--json");
	add_word(&words, "-q");
	add_options(&words, o);
	add_word(&words, "--");
	add_word(&words, "%s", directory);
	if (o->api_key)
		strbuf_addf(&key, "PITOT_API_KEY=%s", o->api_key);
	environment = with_key(key.data);
	if (words.text.failed || key.failed || !environment)
		r = error_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; i < words.count && r == 0; i++)
		argv[i] = words.text.data + words.starts[i];
	c.argv = argv;
	c.environment = environment;
	if (r == 0)
		r = run(&c, directory, e);
	strbuf_release(&words.text);
	if (r == 0)
		records = read_records(output);
	return r < 0 ? r : records < 0 ? failure(&c, directory, e) : records;
}
