#include "record/perfetto_session.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/program_file.h"
#include "record/inject.h"
#include "record/spawn.h"

#define CONFIG_BYTES_MAX (16u << 20)
#define MESSAGES_SHOWN 600

#define START_LIMIT_MS 5000 /* for data sources that start slowly, or never */
#define LOOK_MS 100
#define PACKET_TAG 0x0a /* precedes the length of each packet in a file */
#define END_PATIENCE_NS (3 * NS_PER_S) /* until the user is told about the wait */
#define END_LIMIT_NS                                                                               \
	(30 *                                                                                      \
	 NS_PER_S) /* while the file does not grow: sources have 5 s to stop, and 5 s to flush */

static const char default_config[] =
	"buffers { size_kb: 131072 fill_policy: DISCARD }\n"
	"flush_period_ms: 1000\n"
	"data_sources { config { name: \"gpu.renderstages\" } }\n"
	"data_sources { config { name: \"gpu.track_event\" } }\n"
	"data_sources { config { name: \"linux.process_stats\"\n"
	"  process_stats_config { scan_all_processes_on_start: true } } }\n";

/* Used only with tracefs, without which the service would wait for this source in vain. */
static const char default_scheduling[] =
	"data_sources { config { name: \"linux.ftrace\"\n"
	"  ftrace_config { ftrace_events: \"sched/sched_switch\"\n"
	"    ftrace_events: \"sched/sched_waking\" ftrace_events: \"task/task_newtask\"\n"
	"    ftrace_events: \"task/task_rename\" } } }\n";

struct session {
	const struct perfetto_session_request *request;
	char program[PATH_MAX];
	struct record_injection injection;
	struct strbuf sources; /* the recorder's data sources in the configuration */
	pid_t pid;
	bool ended;
	int status;
	int messages; /* memfd with perfetto's output */
	int notify; /* perfetto writes a byte when the session runs; open until its end */
};

/* --- configuration --- */

/* A binary configuration contains bytes that text does not: field numbers, lengths. */
static bool is_text(const struct strbuf *s)
{
	for (size_t i = 0; i < s->length; i++)
		if ((unsigned char)s->data[i] < ' ' && !strchr("\t\n\r", s->data[i]))
			return false;
	return true;
}

static int memory_file(const struct strbuf *contents)
{
	int fd = memfd_create("pitot", MFD_CLOEXEC);

	if (fd >= 0 && (io_write_all(fd, contents->data, contents->length) < 0 ||
			lseek(fd, 0, SEEK_SET) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool has_tracefs(void)
{
	_cleanup_strbuf_ struct strbuf mounts = STRBUF_INIT;

	return io_read_file("/proc/self/mounts", CONFIG_BYTES_MAX, &mounts) == 0 &&
	       strstr(strbuf_text(&mounts), " tracefs ");
}

static int read_config(const char *path, struct strbuf *out, struct error *e)
{
	int err = path ? io_read_stream(path, CONFIG_BYTES_MAX, out) : 0;

	if (err < 0)
		return error_set(e, err, "cannot read the configuration '%s': %s", path,
				 error_code_text(err));
	if (!path)
		strbuf_adds(out, default_config);
	if (!path && has_tracefs())
		strbuf_adds(out, default_scheduling);
	return 0;
}

/*
 * Lists the recorder's data sources in a configuration (text or binary). The program waits until
 * they are started.
 */
static void find_sources(const struct strbuf *config, struct strbuf *out)
{
	static const char *const sources[] = { "gpu.counters",     "gpu.counters.nv",
					       "gpu.renderstages", "gpu.renderstages.nv",
					       "gpu.track_event",  "pitot.cpu_samples" };
	const char *begin = strbuf_text(config), *end = begin + config->length;

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++) {
		size_t length = strlen(sources[i]);
		const char *at = begin;

		while ((at = memmem(at, (size_t)(end - at), sources[i], length)) &&
		       at + length < end &&
		       (at[length] == '.' || isalnum((unsigned char)at[length])))
			at += length;
		if (at)
			strbuf_addf(out, "%s%s", out->length ? "," : "", sources[i]);
	}
}

/* Opens the configuration as a file. */
static int open_config(struct session *s, bool *text, struct error *e)
{
	_cleanup_strbuf_ struct strbuf config = STRBUF_INIT;
	int err = read_config(s->request->config, &config, e), fd;

	if (err < 0)
		return err;
	*text = is_text(&config);
	find_sources(&config, &s->sources);
	s->injection.startup = s->sources.length ? strbuf_text(&s->sources) : NULL;
	fd = memory_file(&config);
	return fd < 0 ? error_errno(e, errno, "cannot hand over the configuration") : fd;
}

/* --- perfetto --- */

/* Appends perfetto's output without times and source locations, lines joined. */
static void add_messages(const struct session *s, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	char path[64], *rest, *line;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->messages);
	if (io_read_file(path, CONFIG_BYTES_MAX, &text) < 0 || !text.length)
		return;
	rest = text.data;
	while ((line = strsep(&rest, "\n"))) {
		char *place = *line == '[' ? strstr(line, ".cc:") : NULL;

		if (place)
			line = place + strcspn(place, " ");
		line += strspn(line, " ");
		if (*line && out->length < MESSAGES_SHOWN)
			strbuf_addf(out, "%s%.300s", out->length ? "; " : "", line);
	}
}

static int perfetto_failed(const struct session *s, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	add_messages(s, &text);
	if (strstr(strbuf_text(&text), "connect to the traced socket"))
		return error_set(
			e, -ECONNREFUSED,
			"no tracing service answers: start `traced`, and `traced_probes` for "
			"data of the operating system (%s)",
			strbuf_text(&text));
	return error_set(e, -EIO, "'%s' failed: %s", s->program,
			 text.length ? text.data : "it printed nothing");
}

static void __attribute__((noreturn))
run_perfetto(const struct session *s, int config, bool text, int notify)
{
	char number[16], *argv[] = { (char *)"perfetto",
				     (char *)"-c",
				     (char *)"-",
				     (char *)"-o",
				     (char *)s->request->output,
				     (char *)"--notify-fd",
				     number,
				     text ? (char *)"--txt" : NULL,
				     NULL };

	/* Ctrl-C on the terminal is for the command; the session ends after it, or with pitot. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	snprintf(number, sizeof(number), "%d", notify);
	fcntl(notify, F_SETFD, 0);
	if (dup2(config, 0) >= 0 && dup2(s->messages, 1) >= 0 && dup2(s->messages, 2) >= 0)
		execv(s->program, argv);
	_exit(127);
}

static int start_perfetto(struct session *s, struct error *e)
{
	_cleanup_close_ int config = -1;
	bool text = true;
	int ends[2];

	config = open_config(s, &text, e);
	if (config < 0)
		return config;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(e, errno, "cannot start '%s'", s->program);
	s->pid = fork();
	if (s->pid == 0)
		run_perfetto(s, config, text, ends[1]);
	close(ends[1]);
	s->notify = ends[0];
	return s->pid < 0 ? error_errno(e, errno, "cannot start '%s'", s->program) : 0;
}

static void end_perfetto(struct session *s)
{
	if (s->pid <= 0 || s->ended)
		return;
	kill(s->pid, SIGTERM);
	waitpid(s->pid, NULL, 0);
}

/* Removes a file that perfetto has created but not written. */
static void remove_empty(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
		unlink(path);
}

/* Waits until the session runs. */
static int begin_session(struct session *s, struct error *e)
{
	struct pollfd notify = { .events = POLLIN };
	char failed = 1;
	int err = start_perfetto(s, e);

	if (err < 0)
		return err;
	notify.fd = s->notify;
	if (poll(&notify, 1, START_LIMIT_MS) == 0 || (read(s->notify, &failed, 1) == 1 && !failed))
		return 0;
	end_perfetto(s);
	remove_empty(s->request->output);
	return perfetto_failed(s, e);
}

/* --- the command --- */

static int add_environment(void *user, pid_t pid, struct strbuf *environment, struct error *e)
{
	struct session *s = user;

	(void)pid;
	(void)e;
	record_environment(&s->injection, environment);
	return 0;
}

static void on_end(void *user, pid_t pid, int status)
{
	struct session *s = user;

	if (pid != s->pid)
		return;
	s->ended = true;
	s->status = status;
}

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Whether the file ends with a complete packet: on a full disk perfetto may exit with 0. */
static bool is_whole(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t bytes = file_bytes(path);
	uint8_t *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
	struct cursor c;

	if (data == MAP_FAILED)
		return true; /* unknown */
	c = cursor_of(data, bytes);
	while (!c.failed && cursor_left(&c)) {
		c.failed |= cursor_varint(&c) != PACKET_TAG;
		cursor_bytes(&c, cursor_varint(&c));
	}
	munmap(data, bytes);
	return !c.failed;
}

static void give_up(struct session *s, struct error *e, const char *why)
{
	error_set(e, -ETIMEDOUT, "'%s' was ended %s", s->program, why);
	kill(s->pid, SIGKILL);
}

/* Waits until perfetto has written the rest of the file, as long as the file grows. */
static void finish_file(struct session *s, struct spawn *spawn, struct error *e)
{
	const struct perfetto_session_request *r = s->request;
	uint64_t begun = clock_machine_ns(), grown = begun, bytes = file_bytes(r->output);
	bool told = !r->still_writes;

	while (!s->ended) {
		uint64_t now = clock_machine_ns(), size = file_bytes(r->output);

		if (size != bytes)
			grown = now;
		bytes = size;
		if (!told && now - begun >= END_PATIENCE_NS) {
			told = true;
			r->still_writes(r->user, bytes);
		}
		if (spawn->late_signal)
			give_up(s, e, "by a signal before it had written all");
		else if (now - grown >= END_LIMIT_NS)
			give_up(s, e, "after 30 s in which it wrote nothing");
		spawn_wait(spawn, LOOK_MS, on_end, s);
	}
}

static int run_command(struct session *s, char **argv, struct perfetto_session_result *result,
		       struct error *e)
{
	struct spawn spawn;
	int err = spawn_start(&spawn, argv, add_environment, s, e);

	if (err < 0) {
		result->status = err == -ENOENT ? 127 : 126;
		return err;
	}
	while (spawn_wait(&spawn, 1000, on_end, s))
		;
	if (!s->ended)
		kill(s->pid, SIGTERM);
	finish_file(s, &spawn, &result->problem);
	spawn_release(&spawn);
	result->status = spawn.status;
	return 0;
}

/* --- all steps --- */

static int check(struct session *s, char **argv, struct perfetto_session_result *result,
		 struct error *e)
{
	const struct perfetto_session_request *r = s->request;
	int err = spawn_check(argv[0], e);

	if (err < 0) {
		result->status = err == -ENOENT ? 127 : 126;
		return err;
	}
	if (program_file_find("perfetto", s->program) < 0)
		return error_set(
			e, -ENOENT,
			"no program 'perfetto' in PATH: install Perfetto (package perfetto; "
			"https://perfetto.dev/docs), and start its service traced");
	if (!r->force && access(r->output, F_OK) == 0)
		return error_set(e, -EEXIST,
				 "'%s' exists: choose another file with -o, or replace it with "
				 "--force",
				 r->output);
	return record_check_injection(r->force_injection, e);
}

static int run(struct session *s, char **argv, struct perfetto_session_result *result,
	       struct error *e)
{
	int err = begin_session(s, e);

	if (err < 0)
		return err;
	err = run_command(s, argv, result, e);
	if (err < 0) {
		end_perfetto(s);
		unlink(s->request->output);
		return err;
	}
	result->bytes = file_bytes(s->request->output);
	result->has_sources = s->sources.length || getenv("INJECTION_DATA_SOURCE_NAME") ||
			      getenv("INJECTION_DATA_SOURCE_NAME_SUFFIX");
	if (!result->problem.code && (s->status || !result->bytes || !is_whole(s->request->output)))
		perfetto_failed(s, &result->problem);
	return 0;
}

int perfetto_session_run(const struct perfetto_session_request *request, char **argv,
			 struct perfetto_session_result *result, struct error *e)
{
	_cleanup_free_ char *library = record_find_library(e);
	struct session s = { .request = request,
			     .notify = -1,
			     .injection = { .library = library, .cuda = true, .perfetto = "1" } };
	int err;

	*result = (struct perfetto_session_result){ 0 };
	if (!library)
		return e->code;
	err = check(&s, argv, result, e);
	if (err < 0)
		return err;
	s.messages = memfd_create("pitot", MFD_CLOEXEC);
	if (s.messages < 0)
		return error_errno(e, errno, "cannot start '%s'", s.program);
	err = run(&s, argv, result, e);
	close(s.messages);
	if (s.notify >= 0)
		close(s.notify);
	strbuf_release(&s.sources);
	return err;
}
