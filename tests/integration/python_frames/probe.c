/*
 * probe.c: what the tests call from Python: takes the stack of the calling thread as the recorder
 * would, and writes it as text. The compiler gets it together with the sources of src/stack that
 * it needs.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "stack/python_code.h"
#include "stack/python_eval.h"
#include "stack/python_splice.h"
#include "stack/python_walk.h"

#define FRAMES_MAX 60000

static struct python_runtime runtime;
static struct python_eval eval;
static struct python_codes *codes;
static pthread_key_t buffers_key;

struct buffers {
	void *native[FRAMES_MAX];
	uint64_t addresses[FRAMES_MAX], stack[2 * FRAMES_MAX];
	struct python_frame python[FRAMES_MAX];
};

static struct buffers *buffers(void)
{
	struct buffers *b = pthread_getspecific(buffers_key);

	if (!b) {
		b = malloc(sizeof(*b));
		pthread_setspecific(buffers_key, b);
	}
	return b;
}

static int make_codes(size_t slots, size_t bytes)
{
	codes = python_codes_new(slots, bytes);
	if (!codes)
		return -1;
	python_codes_attach(codes, &runtime);
	return 0;
}

/* 0, or a negative code with the reason in `text`. */
EXPORT int probe_open(char *text, size_t size)
{
	struct error e = { 0 };
	int error = python_runtime_find(&runtime, &e);
	void *warm[2];

	if (error >= 0)
		error = python_eval_find(&runtime, &eval, &e);
	snprintf(text, size, "%s", e.text);
	if (error < 0)
		return error;
	backtrace(warm, 2);
	pthread_key_create(&buffers_key, free);
	return make_codes(PYTHON_CODES_SLOTS, PYTHON_CODES_BYTES);
}

/* Another, smaller table from here on. */
EXPORT int probe_codes(size_t slots, size_t bytes)
{
	return make_codes(slots, bytes);
}

EXPORT unsigned probe_eval_ranges(uint64_t *out, unsigned max)
{
	for (unsigned i = 0; i < eval.count && i < max; i++) {
		out[2 * i] = eval.ranges[i].start;
		out[2 * i + 1] = eval.ranges[i].end;
	}
	return eval.count;
}

EXPORT void probe_losses(uint64_t *out)
{
	struct python_code_losses losses = python_code_losses(codes);

	memcpy(out, &losses, sizeof(losses));
}

static size_t put_python(uint64_t frame, char *out, size_t size)
{
	struct python_code code = { 0 };

	python_code_get(codes, python_frame_code(frame), &code);
	return (size_t)snprintf(
		out, size, "P\x1f%.*s\x1f%.*s\x1f%u\x1e", (int)code.name_length, code.name,
		(int)code.file_length, code.file,
		python_line(codes, python_frame_code(frame), python_frame_last(frame)));
}

static size_t put_native(uint64_t frame, char *out, size_t size)
{
	Dl_info info;
	const char *name =
		dladdr((void *)(frame - 1), &info) && info.dli_sname ? info.dli_sname : "";

	return (size_t)snprintf(out, size, "N\x1f%s\x1f%llx\x1e", name, (unsigned long long)frame);
}

/*
 * The stack of the calling thread, innermost first: "match", then frames, each ended by 0x1e,
 * fields by 0x1f. `max` is the most Python frames and `native_max` the most native frames; 0: no
 * limit. Returns the length.
 */
EXPORT size_t probe_stack(char *out, size_t size, unsigned max, unsigned native_max)
{
	struct buffers *b = buffers();
	struct python_stacks stacks = { .native = b->addresses, .python = b->python };
	enum python_match match;
	unsigned depth;
	size_t n = 0;

	max = max && max < FRAMES_MAX ? max : FRAMES_MAX;
	native_max = native_max && native_max < FRAMES_MAX ? native_max : FRAMES_MAX;
	stacks.python_count = python_walk(&runtime, b->python, max, &stacks.python_complete);
	python_code_ids(codes, b->python, stacks.python_count);
	stacks.native_count = (unsigned)backtrace(b->native, (int)native_max);
	stacks.native_complete = stacks.native_count < native_max;
	for (unsigned i = 0; i < stacks.native_count; i++)
		b->addresses[i] = (uint64_t)b->native[i];
	depth = python_splice(&eval, &stacks, b->stack, 2 * FRAMES_MAX, &match);
	n += (size_t)snprintf(out, size, "%d\x1e", match);
	for (unsigned i = 0; i < depth && n + 8192 < size; i++)
		n += b->stack[i] & FRAME_PYTHON ? put_python(b->stack[i], out + n, size - n)
						: put_native(b->stack[i], out + n, size - n);
	return n;
}

/* Frames of Python that the calling thread has. */
EXPORT unsigned probe_depth(void)
{
	struct buffers *b = buffers();
	bool complete;

	return python_walk(&runtime, b->python, FRAMES_MAX, &complete);
}

static void *depth_of_thread(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)probe_depth();
}

/* The same on a thread that Python knows nothing of. */
EXPORT unsigned probe_depth_elsewhere(void)
{
	pthread_t thread;
	void *depth = NULL;

	pthread_create(&thread, NULL, depth_of_thread, NULL);
	pthread_join(thread, &depth);
	return (unsigned)(uintptr_t)depth;
}

/* Calls back from C; what the C stack looks like between two Python frames. */
EXPORT int probe_call(int (*function)(void))
{
	return function() + 1;
}

static void *call_of_thread(void *function)
{
	bool (*callback)(void);
	unsigned before = probe_depth();

	memcpy(&callback, &function, sizeof(callback));
	return (void *)(uintptr_t)(before == 0 && callback() && probe_depth() == 0);
}

/* Calls back on a thread that Python does not know: it gets its Python state for the call. */
EXPORT unsigned probe_call_elsewhere(void *function)
{
	pthread_t thread;
	void *result = NULL;

	pthread_create(&thread, NULL, call_of_thread, function);
	pthread_join(thread, &result);
	return result != NULL;
}

/* Walks and looks up for a while; returns the number of walks. */
EXPORT unsigned long probe_spin(unsigned milliseconds)
{
	uint64_t end = clock_monotonic_ns() + milliseconds * NS_PER_MS;
	struct buffers *b = buffers();
	unsigned long n = 0;
	bool complete;

	while (clock_monotonic_ns() < end) {
		unsigned count = python_walk(&runtime, b->python, FRAMES_MAX, &complete);

		python_code_ids(codes, b->python, count);
		n++;
	}
	return n;
}
