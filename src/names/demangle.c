/*
 * demangle.c: bounds the stack, time and output of libiberty's demanglers.
 *
 * The C++ demangler keeps its parse tree on the stack and recurses with the name; its own limit
 * rejects names of more than 1 KiB, such as those of CUTLASS. We disable that limit and compute how
 * much stack a name may need: if that is more than this thread has left, a thread is started for
 * the name; if it is absurd, the name is not demangled.
 *
 * A short name can describe an endless text (a substitution may refer to one that refers twice to
 * others). The demangler delivers the text in pieces, and when the text is too long we leave it
 * with longjmp(). Nothing leaks, because it allocates nothing. The Rust demangler allocates while
 * it prints a single Unicode identifier, so there we only jump at punctuation.
 *
 * Conversion operators to template parameters ("cvT_I") are parsed twice at every level, so names
 * with many of them are rejected.
 */
#include "names/demangle.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <string.h>

#include "base/helper_thread.h"

#undef ARRAY_SIZE /* libiberty defines it as well */
#include <demangle.h>

#define STACK_MARGIN ((size_t)512 << 10) /* for everything that does not depend on the name */
#define STACK_MAX ((size_t)64 << 20)
#define CONVERSIONS_MAX 16 /* 2^16 parses of a short text: below 10 ms */

struct job {
	const char *name;
	struct strbuf *out;
	size_t start; /* offset of the text in `out` */
	int options; /* DMGL_… */
	bool is_rust;
	bool done;
	jmp_buf stop;
	sem_t ended; /* of the thread, if there is one */
};

static void append_piece(const char *text, size_t length, void *argument)
{
	struct job *job = argument;
	bool inside_word =
		job->is_rust && length && ((text[0] & 0x80) || isalnum(text[0]) || text[0] == '_');

	if (!job->out->failed && job->out->length - job->start + length <= DEMANGLE_OUTPUT_MAX)
		strbuf_add(job->out, text, length);
	else if (!inside_word)
		longjmp(job->stop, 1);
}

static void run(struct job *job)
{
	if (setjmp(job->stop) != 0)
		return;
	if (job->is_rust)
		job->done = rust_demangle_callback(job->name, job->options, append_piece, job);
	else
		job->done = cplus_demangle_v3_callback(job->name, job->options, append_piece, job);
}

static void *run_thread(void *argument)
{
	struct job *job = argument;

	run(job);
	sem_post(&job->ended);
	return NULL;
}

static size_t count(const char *name, char c)
{
	size_t n = 0;

	for (; *name; name++)
		n += *name == c;
	return n;
}

/*
 * The maximum stack size for a name: 256 bytes per byte of it for recursion and the parse tree
 * (measured: 217), and 16 bytes for each pair of a template and a reference to a parameter, each of
 * which is counted up to twice.
 */
static size_t stack_needed(const char *name)
{
	return 256 * strlen(name) + 64 * count(name, 'I') * count(name, 'T') + STACK_MARGIN;
}

static size_t stack_left(void)
{
	static _Thread_local char *lowest;
	char *here = __builtin_frame_address(0);
	pthread_attr_t attributes;
	size_t size;
	void *start;

	if (!lowest) {
		if (pthread_getattr_np(pthread_self(), &attributes) != 0)
			return 0;
		if (pthread_attr_getstack(&attributes, &start, &size) == 0)
			lowest = start;
		pthread_attr_destroy(&attributes);
	}
	return lowest && here > lowest ? (size_t)(here - lowest) : 0;
}

static void run_on_own_stack(struct job *job, size_t size)
{
	if (sem_init(&job->ended, 0, 0) != 0)
		return;
	if (helper_thread_start(run_thread, job, size) == 0) {
		while (sem_wait(&job->ended) != 0 && errno == EINTR)
			;
	}
	sem_destroy(&job->ended);
}

static bool is_refused(const char *name)
{
	unsigned conversions = 0;

	if (strnlen(name, DEMANGLE_INPUT_MAX + 1) > DEMANGLE_INPUT_MAX)
		return true;
	for (const char *p = strstr(name, "cv"); p; p = strstr(p + 2, "cv"))
		conversions++;
	return conversions > CONVERSIONS_MAX || stack_needed(name) > STACK_MAX;
}

static bool try_language(const char *name, bool is_rust, struct strbuf *out)
{
	struct job job = { .name = name, .out = out, .start = out->length, .is_rust = is_rust };
	size_t needed = stack_needed(name);

	job.options = DMGL_PARAMS | DMGL_ANSI | (is_rust ? 0 : DMGL_NO_RECURSE_LIMIT);
	if (needed <= stack_left())
		run(&job);
	else
		run_on_own_stack(&job, needed);
	if (job.done && out->length > job.start)
		return true;
	out->length = job.start;
	return false;
}

bool demangle(const char *name, struct strbuf *out)
{
	bool is_cpp = strncmp(name, "_Z", 2) == 0, is_rust = strncmp(name, "_R", 2) == 0;

	if ((is_cpp || is_rust) && !is_refused(name)) {
		/* Legacy Rust names are C++ names with a hash, which Rust's demangler drops. */
		if (try_language(name, true, out) || (is_cpp && try_language(name, false, out)))
			return true;
	}
	strbuf_adds(out, name);
	return false;
}

void kernel_name_short(const char *name, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *mangled = kernel_name_mangled(name);
	bool readable = demangle(mangled, &text);

	kernel_name_shorten(mangled, readable ? strbuf_text(&text) : mangled, out);
	out->failed |= text.failed;
}

void kernel_name_text(const char *name, bool full, struct strbuf *out)
{
	if (full)
		demangle(name, out);
	else
		kernel_name_short(name, out);
}
