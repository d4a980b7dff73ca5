#include "capture/program.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/io.h"
#include "capture/core/capability_notes.h"
#include "capture/core/collector.h"
#include "capture/core/log.h"
#include "capture/core/session.h"
#include "capture/core/sinks.h"
#include "capture/stack/stack_capture.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "format/segment_request.h"
#include "gpufl/gpufl_folder.h"

#define COMMAND_MAX (4u << 20)
#define OPTIONS_MAX 4096 /* bytes of a future version's struct; more cannot be a valid size */
#define FLUSH_LIMIT_NS (PITOT_SLOWNESS * 2 * NS_PER_S)
#define PYTHON_LIMIT_NS (PITOT_SLOWNESS * NS_PER_S / 2)

struct pitot_session {
	struct pitot_session *next; /* in `started` */
	struct session *session; /* NULL: only the environment's */
	bool by_record; /* `pitot record` started it and ends it */
	pid_t owner; /* a forked child must not end it */
	char *directory; /* absolute; NULL: the environment's */
	char app_name[sizeof(((struct settings *)0)->name)];
	struct strbuf command, name, options;
	struct recording_identity identity;
};

/*
 * `standard_lock` is held while the standard recording starts, ends, or arms an engine: calls about
 * it wait for each other, and all others for nobody.
 */
static pthread_mutex_t standard_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pitot_session *standard; /* pitot_init's */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the next two; held briefly */
static struct pitot_session *started; /* sessions other than the environment's */
static char last_directory[4096];
static __thread bool inside; /* starting loads libraries, which may call back into this file */

/* --- settings --- */

/* Copies the program's version of a struct, which begins with its size. */
static int read_struct(const void *from, void *to, size_t known, const char *name, struct error *e)
{
	const char *bytes = from;
	size_t size;

	memset(to, 0, known);
	if (!from)
		return 0;
	memcpy(&size, from, sizeof(size));
	if (size < sizeof(size) || size > OPTIONS_MAX)
		return error_set(e, -EINVAL, "%s.size is %zu; set it to sizeof(struct %s)", name,
				 size, name);
	memcpy(to, from, MIN(size, known));
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return error_set(e, -E2BIG,
					 "%s has fields that libpitot.so " PITOT_VERSION
					 " does not know; install a newer one, or do not set them",
					 name);
	return 0;
}

static int read_options(const struct pitot_options *from, struct pitot_options *to, struct error *e)
{
	return read_struct(from, to, sizeof(*to), "pitot_options", e);
}

/* Sets the fields that `sinks` stands for; *texts owns their texts. A field given counts first. */
static int place_sinks(struct pitot_options *o, struct settings *texts, struct error *e)
{
	if (!o->sinks)
		return 0;
	if (settings_set(texts, SETTING_ID_sinks, o->sinks, SETTING_BY_CODE, "pitot_options.sinks",
			 e) < 0 ||
	    settings_place_sinks(texts, e) < 0)
		return e->code;
	o->directory = o->directory ? o->directory : texts->directory;
	o->log_path = o->log_path || !*texts->log_path ? o->log_path : texts->log_path;
	o->sinks = texts->sinks;
	return 0;
}

static int set_field(struct settings *s, enum setting_id id, uint64_t value,
		     enum setting_source source, struct error *e)
{
	const struct option *o = settings_option(id);
	bool is_flag = o->type == OPTION_FLAG;

	if (!value)
		return 0;
	if (o->type == OPTION_TEXT)
		return settings_set(s, id, (const char *)(uintptr_t)value, source, o->key, e);
	if (!is_flag && o->type != OPTION_ENUM) {
		if (o->most && value != PITOT_NONE && value > o->most)
			return error_set(e, -EINVAL,
					 "pitot_options.%s is %llu; the maximum is %llu", o->key,
					 (unsigned long long)value, (unsigned long long)o->most);
		settings_put(s, id, value == PITOT_NONE ? 0 : value, source);
		return 0;
	}
	if (is_flag ? value > PITOT_ON : !settings_choice(id, value - 1))
		return error_set(e, -EINVAL,
				 "pitot_options.%s has no value %llu; see enum pitot_%s", o->key,
				 (unsigned long long)value, is_flag ? "switch" : o->key);
	settings_put(s, id, value - 1, source);
	return 0;
}

/*
 * Each setting needs a field of its name, at the end of struct pitot_options; this does not compile
 * otherwise.
 */
static int set_all(struct settings *s, const struct pitot_options *o, enum setting_source source,
		   struct error *e)
{
	int err = 0;

#define S(key, ...)                                                                                \
	if (err >= 0)                                                                              \
		err = set_field(s, SETTING_ID_##key, (uint64_t)o->key, source, e);
	SETTINGS_REQUESTED(S)
	SETTINGS_OF_PROGRAMS(S)
#undef S
	return err;
}

static int set_defaults(struct settings *s, const struct pitot_options *defaults, struct error *e)
{
	struct pitot_options o;
	int err = read_options(defaults, &o, e);

	return err < 0 ? err : set_all(s, &o, SETTING_BY_PROGRAM, e);
}

int program_settings(const struct pitot_options *o, bool own, struct settings *s, struct error *e)
{
	int err;

	s->disabled = o->enabled == PITOT_OFF;
	if (s->disabled)
		return 0;
	if (o->app_name)
		snprintf(s->name, sizeof(s->name), "%s", o->app_name);
	err = set_all(s, o, SETTING_BY_CODE, e);
	if (err >= 0)
		err = set_defaults(s, o->defaults, e);
	if (err >= 0)
		err = settings_read(s, o->config_file, own, e);
	return s->disabled ? 0 : err;
}

int program_config(const char *file, const char *key, char *value, size_t size, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int err = settings_file_text(file, key, &text, e);

	if (err < 0)
		return e->code <= E_FORMAT ? (e->code = -EINVAL) : err;
	return snprintf(value, size, "%s", strbuf_text(&text));
}

/* --- one recording --- */

#define MESSAGES_MAX 8 /* of a start */

/*
 * For the program's function, which is called at the end, outside of locks: it may throw an
 * exception or never return.
 */
struct messages {
	unsigned count;
	struct {
		int level;
		char text[sizeof(((struct error *)0)->text) + 64];
	} items[MESSAGES_MAX];
};

static void log_message(struct messages *m, int level, const char *format, ...) PRINTF_LIKE(3, 4);

static void log_message(struct messages *m, int level, const char *format, ...)
{
	va_list args;

	if (m->count == MESSAGES_MAX)
		return;
	va_start(args, format);
	vsnprintf(m->items[m->count].text, sizeof(m->items->text), format, args);
	va_end(args);
	m->items[m->count++].level = level;
}

static void pass_on(const struct pitot_options *o, const struct messages *m)
{
	for (unsigned i = 0; o->log && i < m->count; i++)
		o->log(o->log_context, m->items[i].level, m->items[i].text);
}

static void log_begin(struct messages *messages, const struct pitot_session *p,
		      const struct settings *s)
{
	struct error missing = { 0 };

	if (session_missing(p->session, &missing))
		log_message(messages, PITOT_LOG_WARNING, "engine %s: %s",
			    setting_engine_names[s->engine], missing.text);
	log_message(messages, PITOT_LOG_INFO, "recording into %s",
		    *s->directory ? s->directory : s->log_path);
	log_line("recording into %s", *s->directory ? s->directory : s->log_path);
}

static void free_session(struct pitot_session *p)
{
	free(p->directory);
	free(p->identity.command);
	strbuf_release(&p->command);
	strbuf_release(&p->name);
	strbuf_release(&p->options);
	free(p);
}

/* Splits the process's command line into words. */
static int read_command(struct pitot_session *p)
{
	size_t words = 0;

	if (io_read_file("/proc/self/cmdline", COMMAND_MAX, &p->command) < 0 || !p->command.length)
		strbuf_add(&p->command, "?", 2);
	for (size_t i = 0; i < p->command.length; i++)
		words += p->command.data[i] == '\0';
	/* One more if the last word has no terminator, and the NULL. */
	p->identity.command = calloc(words + 2, sizeof(char *));
	if (!p->identity.command || p->command.failed)
		return -1;
	words = 0;
	for (size_t at = 0; at < p->command.length; at += strlen(p->command.data + at) + 1)
		p->identity.command[words++] = p->command.data + at;
	return (int)words;
}

static int identify(struct pitot_session *p, const struct settings *s, struct error *e)
{
	char *own[] = { p->app_name, NULL };
	int words = read_command(p);

	memcpy(p->app_name, s->name, sizeof(p->app_name));
	if (words > 0)
		recording_name(*s->name ? 1 : words, *s->name ? own : p->identity.command,
			       &p->name);
	settings_text(s, &p->options);
	if (words < 0 || p->name.failed || p->options.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (*program_library())
		p->identity.library = program_library();
	p->identity.by_program = true;
	p->identity.name = *p->app_name ? p->app_name : strbuf_text(&p->name);
	p->identity.engine = setting_engine_names[s->engine];
	p->identity.options = strbuf_text(&p->options);
	p->identity.start_monotonic_ns = clock_monotonic_ns();
	p->identity.start_realtime_ns = clock_read_ns(CLOCK_REALTIME);
	return 0;
}

/* Opens the session. The folder exists; "" means that only gpufl's logs are written. */
static int open_session(struct pitot_session *p, struct settings *s, struct error *e)
{
	struct sink *sink = NULL;
	int err = 0;

	if (strlen(p->directory) >= sizeof(s->directory))
		return error_set(e, -ENAMETOOLONG, "the path of '%.100s…' is too long",
				 p->directory);
	memcpy(s->directory, p->directory, strlen(p->directory) + 1);
	s->folder = p->identity.folder;
	s->launcher[0] = '\0';
	if (*p->directory)
		err = recording_json_write(p->directory, &p->identity, e);
	if (*p->directory && err >= 0 && !(sink = sink_open(s, "recording", p->directory, e)))
		err = e->code;
	if (err < 0)
		return err;
	p->session = session_open(s, sink, SESSION_BY_PROGRAM);
	if (!p->session)
		return error_set(
			e, -EAGAIN,
			"cannot start the recorder: no memory, no thread, this thread is "
			"starting it already, or a GPU that hangs keeps it from ending; try again");
	return 0;
}

/*
 * The path is made absolute, because the program may chdir. Without the folder that the environment
 * names the program is still recorded.
 */
static int make_log_path(const struct pitot_options *o, struct settings *s,
			 struct messages *messages, struct error *e)
{
	const char *requested = o->log_path ? o->log_path : s->log_path;
	_cleanup_free_ char *path = NULL;
	bool is_full;

	if (!*requested)
		return 0;
	path = gpufl_folder_make(requested, &is_full, e);
	if (!path && !o->log_path) {
		log_message(messages, PITOT_LOG_WARNING, "no logs for gpufl: %s", e->text);
		s->log_path[0] = '\0';
		*e = (struct error){ 0 };
		return 0;
	}
	if (!path)
		return e->code;
	if (strlen(path) >= sizeof(s->log_path))
		return error_errno(e, ENAMETOOLONG, "cannot use '%s'", requested);
	if (is_full)
		log_message(messages, PITOT_LOG_WARNING,
			    "no logs for gpufl: less than 512 MiB are free in '%s'", path);
	memcpy(s->log_path, path, strlen(path) + 1);
	return 0;
}

static int start_own(struct pitot_session *p, const struct pitot_options *o, struct settings *s,
		     struct messages *messages, struct error *e)
{
	int err = identify(p, s, e);

	if (err >= 0)
		err = make_log_path(o, s, messages, e);
	if (err < 0)
		return err;
	if (o->directory && !*o->directory && !*s->log_path && !*s->sinks)
		return error_set(e, -EINVAL,
				 "pitot_options.directory is '', so nothing would be recorded; "
				 "name a folder, or other sinks");
	p->directory = o->directory && !*o->directory
			       ? strdup("")
			       : recording_dir_create_own(o->directory, strbuf_text(&p->name),
							  &p->identity.folder, e);
	if (!p->directory)
		return e->code ? e->code : error_set(e, -ENOMEM, "out of memory");
	err = open_session(p, s, e);
	if (err < 0 && *p->directory)
		recording_dir_remove(p->directory, &p->identity.folder, NULL);
	return err;
}

/* Tells which settings of the program do not count in a recording that it joins. */
static void note_ignored(const struct settings *s, struct messages *messages)
{
	_cleanup_strbuf_ struct strbuf ignored = STRBUF_INIT;
	struct settings actual = SETTINGS_INIT;

	(void)!settings_read(&actual, NULL, false, NULL);
	settings_differences(s, &actual, &ignored);
	if (!ignored.length)
		return;
	log_message(messages, PITOT_LOG_WARNING,
		    "%s has no effect, because the recording was started from outside: give it to "
		    "`pitot record`, or set log_path",
		    strbuf_text(&ignored));
	capability_note(feature_program_settings, capability_state_degraded, NULL, NULL,
			"not in effect, because the recording was started from outside: %s",
			strbuf_text(&ignored));
}

/*
 * Writes the program's logs beside the environment's recording, in a session of its own: what it
 * requests is then recorded, also into the environment's recording.
 */
static int start_logs(struct pitot_session *p, const struct pitot_options *o,
		      struct messages *messages, struct error *e)
{
	struct settings s = SETTINGS_INIT;
	int err = program_settings(o, true, &s, e);

	if (err >= 0)
		err = make_log_path(o, &s, messages, e);
	if (err < 0)
		return err;
	p->session = session_open(&s, NULL, SESSION_BY_PROGRAM);
	if (!p->session)
		return error_set(e, -EAGAIN, "there is no memory");
	return 0;
}

static int join_environment(struct pitot_session *p, const struct pitot_options *o,
			    const struct settings *s, struct messages *messages, struct error *e)
{
	struct error problem = { 0 };

	session_start(SESSION_BY_PROGRAM);
	if (session_has_environment()) {
		session_rename(s->name);
		if (!o->log_path)
			note_ignored(s, messages);
		else if (start_logs(p, o, messages, &problem) < 0)
			log_message(messages, PITOT_LOG_WARNING, "no logs for gpufl: %s",
				    problem.text);
		return 0;
	}
	return error_set(e, -EIO,
			 "cannot record into '%.200s', which PITOT_RECORDING or PITOT_GPUFL names; "
			 "PITOT_LOG=stderr says why",
			 *s->directory ? s->directory : s->log_path);
}

/*
 * Lets the first recording of a process begin with Python frames, instead of some milliseconds
 * before the collector has found Python.
 */
static void wait_for_python(const struct settings *s)
{
	static const struct timespec pause = { .tv_nsec = 200 * (long)NS_PER_US };
	uint64_t until = clock_machine_ns() + PYTHON_LIMIT_NS;

	while (stack_capture_waits_for_python(s) && collector_running() &&
	       clock_machine_ns() < until)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void add_started(struct pitot_session *p, const char *directory)
{
	pthread_mutex_lock(&lock);
	snprintf(last_directory, sizeof(last_directory), "%s", directory);
	if (p->session) {
		p->next = started;
		started = p;
	}
	pthread_mutex_unlock(&lock);
}

static void remove_started(const struct pitot_session *p)
{
	struct pitot_session **at = &started;

	pthread_mutex_lock(&lock);
	while (*at && *at != p)
		at = &(*at)->next;
	if (*at)
		*at = p->next;
	pthread_mutex_unlock(&lock);
}

/* Returns NULL if it fails: *e says why; -ECANCELED means that recording is switched off. */
static struct pitot_session *start(const struct pitot_options *o, bool own,
				   struct messages *messages, struct error *e)
{
	struct settings s = SETTINGS_INIT;
	struct pitot_session *p = calloc(1, sizeof(*p));
	int err;

	log_open();
	err = p ? program_settings(o, own, &s, e) : error_set(e, -ENOMEM, "out of memory");
	if (err >= 0 && s.disabled)
		err = error_set(e, -ECANCELED,
				"recording is switched off, by PITOT_DISABLED, GPUFL_DISABLED, the "
				"configuration file or pitot_options.enabled");
	if (err >= 0) {
		p->owner = getpid();
		p->by_record = s.start_ns != 0;
		own |= !s.directory[0] && !p->by_record;
		err = own ? start_own(p, o, &s, messages, e)
			  : join_environment(p, o, &s, messages, e);
	}
	if (err < 0) {
		if (e->code <= E_FORMAT) /* Pitot's own codes are not for the program */
			e->code = -EINVAL;
		log_message(messages, err == -ECANCELED ? PITOT_LOG_INFO : PITOT_LOG_ERROR, "%s",
			    e->text);
		if (p)
			free_session(p);
		return NULL;
	}
	add_started(p, s.directory);
	wait_for_python(&s);
	log_begin(messages, p, &s);
	return p;
}

static void complete_json(struct pitot_session *p)
{
	p->identity.end_monotonic_ns = clock_monotonic_ns();
	/* On a full disk the text that was written at the start remains. */
	if (p->directory && *p->directory &&
	    recording_json_write(p->directory, &p->identity, NULL) < 0)
		log_line("cannot complete recording.json in %s", p->directory);
}

static int timed_out(struct error *e)
{
	return error_set(e, -ETIMEDOUT,
			 "not everything is on disk after two seconds: a GPU hangs, or the disk is "
			 "too slow");
}

/* Does not touch the disk of a recording that is still being written after two seconds. */
static int stop(struct pitot_session *p, struct error *e)
{
	bool is_own = p->owner == getpid(), is_joined = !p->directory;
	int rc = 0, joined = 0;

	if (is_own && p->session) {
		remove_started(p);
		rc = session_close(&p->session);
		if (rc != -ETIMEDOUT)
			complete_json(p);
	}
	if (is_own && is_joined)
		joined = p->by_record ? collector_flush(FLUSH_LIMIT_NS) : session_stop();
	rc = rc < 0 ? rc : joined;
	if (rc == -ETIMEDOUT)
		timed_out(e);
	else if (rc < 0)
		error_errno(e, -rc, "rows are lost, of %s%sgpufl's logs",
			    p->directory ? p->directory : "",
			    p->directory && *p->directory ? " or of " : "");
	free_session(p);
	return rc;
}

/* --- entry points, called on any thread --- */

static void after_fork(void)
{
	pthread_mutex_init(&standard_lock, NULL);
	pthread_mutex_init(&lock, NULL);
	inside = false;
	started = NULL;
}

/* Completes recordings that were not stopped, on the collector's thread. */
static void complete_all(void)
{
	pthread_mutex_lock(&lock);
	for (struct pitot_session *p = started; p; p = p->next)
		if (p->owner == getpid())
			complete_json(p);
	pthread_mutex_unlock(&lock);
}

static void watch_process(void)
{
	pthread_atfork(NULL, NULL, after_fork);
	collector_at_exit = complete_all;
}

/* Returns false if this thread is already inside. `about` is a lock to take, or NULL. */
static bool enter(pthread_mutex_t *about, struct error *e)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (inside) {
		error_set(e, -EBUSY, "a recording is being started or stopped by this very thread");
		return false;
	}
	inside = true;
	pthread_once(&once, watch_process);
	if (about)
		pthread_mutex_lock(about);
	return true;
}

static void leave(pthread_mutex_t *about)
{
	if (about)
		pthread_mutex_unlock(about);
	inside = false;
}

struct pitot_session *program_start(const struct pitot_options *options, struct error *e)
{
	struct messages messages = { .count = 0 };
	struct settings texts = { 0 };
	struct pitot_session *p;
	struct pitot_options o;

	if (read_options(options, &o, e) < 0 || place_sinks(&o, &texts, e) < 0 || !enter(NULL, e))
		return NULL;
	p = start(&o, true, &messages, e);
	leave(NULL);
	pass_on(&o, &messages);
	return p;
}

const char *program_path(const struct pitot_session *session)
{
	return session->directory;
}

int program_stop(struct pitot_session *session, struct error *e)
{
	int err;

	if (!session)
		return 0;
	if (!enter(NULL, e))
		return e->code;
	err = stop(session, e);
	leave(NULL);
	return err;
}

int program_flush(struct error *e)
{
	int err = collector_flush(FLUSH_LIMIT_NS);

	if (err == -ETIMEDOUT)
		return timed_out(e);
	return err < 0 ? error_errno(e, -err, "rows are being lost") : 0;
}

int program_dump(const char *path, uint64_t last_ns, struct error *e)
{
	struct segment_interval interval = segment_interval_of_last(last_ns);
	const char *launcher = secure_getenv(LAUNCHER_VARIABLE);
	_cleanup_close_ int folder = -1;
	struct folder_id id;
	char *directory;
	int rc;

	if (!launcher || !*launcher)
		return error_set(e, -ENOENT,
				 "`pitot record` does not record this process; start it with: "
				 "pitot record --ring SIZE -- COMMAND");
	rc = program_flush(e);
	if (rc < 0)
		return rc;
	directory = recording_dir_create_own(path, "dump", &id, e);
	if (!directory)
		return e->code;
	folder = folder_open_known(directory, &id);
	rc = folder < 0 ? folder : segment_request_dump(launcher, folder, &interval);
	if (rc == E_UNSUPPORTED)
		error_set(e, -ENOENT, "this process is recorded onto the disk, not into a ring");
	else if (rc < 0)
		error_set(e, rc, "`pitot record` made no dump: %s", error_code_text(rc));
	if (rc < 0)
		recording_dir_remove(directory, &id, NULL);
	free(directory);
	return rc < 0 ? e->code : rc;
}

static int arm(struct pitot_session *session, int engine, uint64_t delay_ns, uint64_t duration_ns,
	       struct error *e)
{
	if (!session)
		return error_set(e, -ENOENT,
				 "there is no recording; call pitot_init or pitot_start first");
	if (session->owner != getpid())
		return error_set(e, -ENOENT,
				 "the recording belongs to the parent process; start one here");
	return session_arm(session->session, engine, delay_ns, duration_ns, e);
}

#define E(value, name, help, start)                                                                \
	_Static_assert((int)PITOT_ENGINE_##value == SETTING_ENGINE_##value + 1,                    \
		       "pitot.h numbers engines alike");
SETTING_ENGINES_BEYOND_TRACE(E)
#undef E

int program_engine(struct pitot_session *session, enum pitot_engine engine, uint64_t delay_ns,
		   uint64_t duration_ns, struct error *e)
{
	pthread_mutex_t *about = session ? NULL : &standard_lock;
	struct settings requested = { 0 };
	int rc;

	if (!settings_choice(SETTING_ID_engine, (uint64_t)engine - 1))
		return error_set(e, -EINVAL, "there is no engine %u; see enum pitot_engine",
				 (unsigned)engine);
	settings_put(&requested, SETTING_ID_engine, (uint64_t)engine - 1, SETTING_BY_CODE);
	if (!enter(about, e))
		return e->code;
	rc = arm(session ? session : standard, requested.engine, delay_ns, duration_ns, e);
	leave(about);
	return rc;
}

int program_init(const struct pitot_options *options, struct error *e)
{
	struct messages messages = { .count = 0 };
	struct settings texts = { 0 };
	struct pitot_options o;
	int err = read_options(options, &o, e);

	if (err >= 0)
		err = place_sinks(&o, &texts, e);
	if (err < 0)
		return err;
	if (!enter(&standard_lock, e))
		return e->code;
	if (!standard || standard->owner != getpid()) {
		if (standard)
			free_session(standard); /* inherited from the parent process */
		standard = start(&o, o.directory != NULL, &messages, e);
	}
	err = standard ? 1 : e->code == -ECANCELED ? 0 : e->code;
	leave(&standard_lock);
	pass_on(&o, &messages);
	return err;
}

void program_shutdown(struct error *e)
{
	if (!enter(&standard_lock, e))
		return;
	if (standard)
		(void)!stop(standard, e);
	standard = NULL;
	leave(&standard_lock);
}

static int find_last(char directory[sizeof(last_directory)], struct error *e)
{
	pthread_mutex_lock(&lock);
	memcpy(directory, last_directory, sizeof(last_directory));
	pthread_mutex_unlock(&lock);
	return directory[0] ? 0
			    : error_set(e, -ENODATA,
					"nothing was recorded yet; start with pitot_init or "
					"pitot_start");
}

int program_report_last(const char *path, struct error *e)
{
	char directory[sizeof(last_directory)];
	int err = find_last(directory, e);

	if (err == 0)
		err = program_flush(e);
	return err < 0 ? err : program_report(directory, path, e);
}

/* Whether the kill switch is on: nothing was recorded, and nothing may be loaded or written. */
static bool is_disabled(void)
{
	struct settings s = { 0 };

	(void)!settings_read(&s, NULL, true, NULL);
	return s.disabled;
}

int64_t program_upload_last(const struct pitot_upload_options *options, struct error *e)
{
	char directory[sizeof(last_directory)];
	struct pitot_upload_options o;
	int err = read_struct(options, &o, sizeof(o), "pitot_upload_options", e);

	if (err < 0 || is_disabled())
		return err;
	if (o.path)
		return program_upload(o.path, &o, e);
	err = find_last(directory, e);
	if (err == 0 && recording_json_is_recording(directory))
		err = error_set(e, -EBUSY,
				"'%s' is still being recorded: end it with pitot_shutdown or "
				"pitot_stop first",
				directory);
	return err < 0 ? err : program_upload(directory, &o, e);
}
