#include "record/inject_remote/remote_python.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/starts_with.h"
#include "record/inject_remote/remote_image.h"
#include "record/inject_remote/remote_script.h"
#include "record/inject_remote/remote_thread.h"

#define MAIN_NS (PITOT_SLOWNESS * NS_PER_S) /* for the main thread to execute Python code, */
#define OTHER_NS (PITOT_SLOWNESS * 300 * NS_PER_MS) /* and for each other one, */
#define SEARCH_NS (PITOT_SLOWNESS * 5 * NS_PER_S) /* and for all of them */
#define SCRIPT_NS (PITOT_SLOWNESS * 5 * NS_PER_S) /* for the script, once it runs */
#define GRACE_NS (PITOT_SLOWNESS * 200 * NS_PER_MS) /* for one that began as it was cancelled */
#define PAUSE_NS (5 * NS_PER_MS)
#define THREADS_MAX 64u
#define INTERPRETERS_MAX 256u
#define PLEASE_STOP UINT64_C(0x20) /* a bit of the evaluation breaker */
#define STATE_BYTES_MAX (UINT64_C(1) << 24)

/*
 * _Py_DebugOffsets, at the beginning of _PyRuntime: 8-byte words. The first ones are the same in
 * all versions.
 */
enum {
	WORD_VERSION = 1,
	WORD_INTERPRETERS = 5,
	WORD_INTERPRETER_SIZE = 6,
	WORD_INTERPRETER_NEXT = 8,
	WORD_FIRST_THREAD = 9,
	WORD_MAIN_THREAD = 10,
	WORD_THREAD_SIZE = 22,
	WORD_THREAD_NEXT = 24,
	WORDS = 111,
};

/* Others depend on the version: `debugger` is the first of the six for remote debugging. */
static const struct {
	unsigned thread_id, debugger;
} words[] = { [14] = { 28, 89 }, [15] = { 31, 105 } };

/* --- the interpreter --- */

struct python_search {
	pid_t pid;
	char program[PATH_MAX];
	uint64_t runtime; /* 0: none yet */
};

/* As for samples: the program, or a libpython. */
static int try_mapping(void *search, const struct target_mapping *m)
{
	struct python_search *s = search;
	const char *base = strrchr(m->path, '/');

	if (!base || (strcmp(m->path, s->program) != 0 && !starts_with(base, "/libpython3") &&
		      !starts_with(base, "/python")))
		return 0;
	return remote_symbol(s->pid, m->path, "_PyRuntime", m, &s->runtime, NULL) == 0;
}

/* Sets the members that come from the offsets; false: they are not plausible. */
static bool read_offsets(const uint64_t *w, struct remote_python *p)
{
	const uint64_t *debugger = &w[words[p->minor].debugger];
	const uint64_t thread_size = w[WORD_THREAD_SIZE];

	p->main_thread = w[WORD_MAIN_THREAD];
	p->first_thread = w[WORD_FIRST_THREAD];
	p->next_thread = w[WORD_THREAD_NEXT];
	p->thread_id = w[words[p->minor].thread_id];
	p->breaker = debugger[0];
	p->pending = debugger[1] + debugger[3];
	p->script = debugger[1] + debugger[4];
	p->script_size = debugger[5];
	return thread_size <= STATE_BYTES_MAX && w[WORD_INTERPRETER_SIZE] <= STATE_BYTES_MAX &&
	       p->main_thread < w[WORD_INTERPRETER_SIZE] &&
	       p->first_thread < w[WORD_INTERPRETER_SIZE] &&
	       w[WORD_INTERPRETER_NEXT] < w[WORD_INTERPRETER_SIZE] &&
	       debugger[2] < w[WORD_INTERPRETER_SIZE] && p->next_thread < thread_size &&
	       p->thread_id < thread_size && p->breaker < thread_size &&
	       debugger[1] < thread_size && debugger[3] < thread_size &&
	       debugger[4] < thread_size && p->script_size < thread_size &&
	       p->script + p->script_size <= thread_size &&
	       (p->pending + sizeof(int32_t) <= p->script ||
		p->pending >= p->script + p->script_size);
}

static bool read_word(const struct remote_python *p, uint64_t address, uint64_t *out)
{
	return remote_read(p->pid, address, out, sizeof(*out));
}

/* The main interpreter is the oldest one, and the last of the list. */
static bool find_interpreter(struct remote_python *p, const uint64_t *w)
{
	uint64_t next;

	if (!read_word(p, p->runtime + w[WORD_INTERPRETERS], &next))
		return false;
	for (unsigned i = 0; next && i < INTERPRETERS_MAX; i++) {
		p->interpreter = next;
		if (!read_word(p, p->interpreter + w[WORD_INTERPRETER_NEXT], &next))
			return false;
	}
	return p->interpreter && !next;
}

static int refuse(const struct remote_python *p, const char *why, struct error *e)
{
	return error_set(e, E_UNSUPPORTED, "its CPython 3.%u %s", p->minor, why);
}

int remote_python_find(pid_t pid, struct remote_python *out, struct error *e)
{
	struct remote_python p = { .pid = pid };
	struct python_search s = { .pid = pid };
	char path[64];
	uint64_t w[WORDS], head[2];
	int32_t enabled = 0;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	(void)!readlink(path, s.program, sizeof(s.program) - 1);
	(void)!proc_maps_read(pid, try_mapping, &s);
	if (!s.runtime)
		return 0;
	if (!remote_read(pid, s.runtime, head, sizeof(head)))
		return errno == EPERM ? error_set(e, -EPERM, "its memory may not be read") : 0;
	p.runtime = s.runtime;
	p.version = head[1];
	p.minor = (unsigned)(p.version >> 16 & 0xff);
	if (memcmp(head, "xdebugpy", 8) != 0 || p.version >> 24 != 3 || p.minor < 14)
		return 0;
	if (p.minor >= ARRAY_SIZE(words) || (p.version >> 4 & 0xf) < 0xc)
		return refuse(&p, "is not a version that is known", e);
	if (!remote_read(pid, s.runtime, w, sizeof(w)) || !read_offsets(w, &p) ||
	    !find_interpreter(&p, w) ||
	    !remote_read(pid, p.interpreter + w[words[p.minor].debugger + 2], &enabled,
			 sizeof(enabled)))
		return refuse(&p, "publishes no offsets that can be used", e);
	if (enabled != 1)
		return refuse(&p, "has remote debugging switched off (PYTHON_DISABLE_REMOTE_DEBUG)",
			      e);
	*out = p;
	return 1;
}

/* --- its threads --- */

struct python_thread {
	uint64_t state;
	pid_t tid;
};

static bool has_thread(const struct remote_python *p, const struct python_thread *t)
{
	uint64_t tid;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)p->pid, (int)t->tid);
	return read_word(p, t->state + p->thread_id, &tid) && tid == (uint64_t)t->tid &&
	       access(path, F_OK) == 0;
}

/* Whether it still executes that program. */
static bool is_same(const struct remote_python *p)
{
	uint64_t head[2];

	return remote_read(p->pid, p->runtime, head, sizeof(head)) &&
	       memcmp(head, "xdebugpy", 8) == 0 && head[1] == p->version;
}

static void add_thread(const struct remote_python *p, uint64_t state, struct python_thread *out,
		       unsigned *count)
{
	uint64_t tid;

	if (read_word(p, state + p->thread_id, &tid) && tid && tid <= INT_MAX)
		out[(*count)++] = (struct python_thread){ state, (pid_t)tid };
}

/* The main thread first. */
static unsigned list_threads(const struct remote_python *p, struct python_thread *out)
{
	uint64_t main = 0, at = 0;
	unsigned count = 0;

	if (read_word(p, p->interpreter + p->main_thread, &main) && main)
		add_thread(p, main, out, &count);
	if (!read_word(p, p->interpreter + p->first_thread, &at))
		return count;
	for (unsigned i = 0; at && i < THREADS_MAX - 1; i++) {
		if (at != main)
			add_thread(p, at, out, &count);
		if (!read_word(p, at + p->next_thread, &at))
			break;
	}
	return count;
}

static bool read_pending(const struct remote_python *p, const struct python_thread *t, int32_t *out)
{
	return remote_read(p->pid, t->state + p->pending, out, sizeof(*out));
}

/* The writes of sys.remote_exec(), in its order. */
static bool request(const struct remote_python *p, const struct python_thread *t,
		    const char *script)
{
	const int32_t one = 1;
	uint64_t breaker;
	int32_t pending;

	if (!is_same(p) || !has_thread(p, t) || !read_pending(p, t, &pending) || pending ||
	    !remote_write(p->pid, t->state + p->script, script, strlen(script) + 1) ||
	    !remote_write(p->pid, t->state + p->pending, &one, sizeof(one)) ||
	    !read_word(p, t->state + p->breaker, &breaker))
		return false;
	breaker |= PLEASE_STOP;
	return remote_write(p->pid, t->state + p->breaker, &breaker, sizeof(breaker));
}

static void pause_a_moment(void)
{
	const struct timespec t = { .tv_nsec = (long)PAUSE_NS };

	nanosleep(&t, NULL);
}

static bool await_end(const struct remote_script *s, uint64_t limit_ns, int *idle, struct error *e)
{
	const uint64_t end_ns = clock_machine_ns() + limit_ns;

	do {
		if (remote_script_ended(s, idle, e))
			return true;
		pause_a_moment();
	} while (clock_machine_ns() < end_ns);
	return false;
}

/* Returns 1 if the thread has run the script, which has ended; 0: it has not, and will not. */
static int try_thread(const struct remote_python *p, const struct python_thread *t,
		      const struct remote_script *s, uint64_t limit_ns, int *idle, struct error *e)
{
	const uint64_t end_ns = clock_machine_ns() + limit_ns;
	const int32_t none = 0;
	int32_t pending = 1;

	if (!request(p, t, s->path))
		return 0;
	while (read_pending(p, t, &pending) && pending && clock_machine_ns() < end_ns)
		pause_a_moment();
	if (!pending)
		return await_end(s, SCRIPT_NS, idle, e) ? 1 : -ETIMEDOUT;
	if (is_same(p) && has_thread(p, t))
		(void)!remote_write(p->pid, t->state + p->pending, &none, sizeof(none));
	return await_end(s, GRACE_NS, idle, e);
}

int remote_python_load(const struct remote_python *p, const char *library, int *idle, pid_t *tid,
		       struct error *e)
{
	const uint64_t end_ns = clock_machine_ns() + SEARCH_NS;
	struct python_thread threads[THREADS_MAX];
	struct remote_script script;
	unsigned count = list_threads(p, threads), i = 0;
	int rc = remote_script_write(p->pid, library, &script, e);

	if (rc == 0 && strlen(script.path) >= p->script_size)
		count = 0;
	for (; rc == 0 && i < count && clock_machine_ns() < end_ns; i++)
		rc = try_thread(p, &threads[i], &script, i ? OTHER_NS : MAIN_NS, idle, e);
	remote_script_remove(&script);
	if (rc == 1) {
		*tid = threads[i - 1].tid;
		return *idle == E_UNSUPPORTED && e->code ? e->code : 0;
	}
	if (rc == -ETIMEDOUT)
		return refuse(p, "does not end a script that loads the recorder", e);
	return rc < 0 ? rc : refuse(p, "has no thread that executes Python code at the moment", e);
}
