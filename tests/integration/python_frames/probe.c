/*
 * probe.c: what the tests call from Python: takes the stack of the calling thread as the recorder
 * would, and writes it as text. The compiler gets it together with the sources of src/stack that
 * it needs.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "stack/python/python_code.h"
#include "stack/python/python_eval.h"
#include "stack/python/python_splice.h"
#include "stack/python/python_walk.h"
#include "stack/python/python_words.h"

#define FRAMES_MAX 60000

static struct python_runtime runtime;
static struct python_eval eval;
static struct python_codes *codes;
static pthread_key_t buffers_key;

/*
 * A walk of some time ago: while the words that it depended on are the same, so must be its frames.
 */
#define WALKS 32
#define WORDS_MAX 512
struct earlier_walk {
	struct memory_word words[WORDS_MAX];
	struct memory_half halves[WORDS_MAX];
	struct frame_words begins[WORDS_MAX];
	struct python_words counts;
	uintptr_t state;
	uint32_t freed;
	const struct python_codes *codes; /* that the ids are of */
	unsigned count;
	struct python_frame frames[WORDS_MAX];
};

static atomic_ulong words_same, words_wrong;

/* Names of return addresses. The lookup is linear in the symbols of a library. */
#define NAMES 4096
struct native_name {
	uint64_t frame;
	const char *name;
};

struct buffers {
	struct earlier_walk walks[WALKS];
	unsigned walk;
	struct native_name names[NAMES];
	void *native[FRAMES_MAX];
	uint64_t addresses[FRAMES_MAX], stack[2 * FRAMES_MAX];
	struct python_frame python[FRAMES_MAX];
};

static struct buffers *buffers(void)
{
	struct buffers *b = pthread_getspecific(buffers_key);

	if (!b) {
		b = calloc(1, sizeof(*b));
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

static size_t put_native(struct buffers *b, uint64_t frame, char *out, size_t size)
{
	struct native_name *known = &b->names[frame % NAMES];
	Dl_info info;

	if (known->frame != frame) {
		bool found = dladdr((void *)(frame - 1), &info) && info.dli_sname;

		*known = (struct native_name){ frame, found ? info.dli_sname : "" };
	}
	return (size_t)snprintf(out, size, "N\x1f%s\x1f%llx\x1e", known->name,
				(unsigned long long)frame);
}

static bool words_are_same(const struct earlier_walk *w)
{
	for (unsigned i = 0; i < w->counts.word_count; i++)
		if (*(const uint64_t *)w->words[i].address != w->words[i].value)
			return false;
	for (unsigned i = 0; i < w->counts.half_count; i++)
		if ((*(const uint32_t *)w->halves[i].address & w->halves[i].mask) !=
		    w->halves[i].value)
			return false;
	return true;
}

static bool frames_are_same(const struct earlier_walk *w, const struct python_frame *frames,
			    unsigned count)
{
	bool same = w->count == count;

	for (unsigned i = 0; i < count && same; i++)
		same = w->frames[i].code == frames[i].code && w->frames[i].last == frames[i].last &&
		       w->frames[i].id == frames[i].id && w->frames[i].entry == frames[i].entry;
	return same;
}

static void check_words(struct buffers *b, unsigned count)
{
	uintptr_t state = python_thread_state(&runtime);
	uint32_t freed = python_codes_freed(codes);
	struct earlier_walk *w;

	for (unsigned i = 0; state && i < WALKS; i++) {
		w = &b->walks[i];
		if (w->state != state || w->codes != codes || w->freed != freed ||
		    !words_are_same(w))
			continue;
		words_same++;
		words_wrong += !frames_are_same(w, b->python, count);
	}
	w = &b->walks[b->walk++ % WALKS];
	w->state = 0;
	w->counts = (struct python_words){ .words = w->words,
					   .halves = w->halves,
					   .frames = w->begins,
					   .frames_max = WORDS_MAX,
					   .words_max = WORDS_MAX,
					   .halves_max = WORDS_MAX };
	if (!state || count > WORDS_MAX || !python_words_walk(&runtime, state, &w->counts))
		return;
	w->state = state;
	w->freed = freed;
	w->codes = codes;
	w->count = count;
	memcpy(w->frames, b->python, count * sizeof(b->python[0]));
}

/* Walks whose words were as at an earlier one, and how many of these had other frames. */
EXPORT void probe_words(uint64_t *out)
{
	out[0] = words_same;
	out[1] = words_wrong;
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
	Dl_info unused;
	unsigned depth;
	size_t n = 0;

	max = max && max < FRAMES_MAX ? max : FRAMES_MAX;
	native_max = native_max && native_max < FRAMES_MAX ? native_max : FRAMES_MAX;
	stacks.python_count = python_walk(&runtime, b->python, max, &stacks.python_complete);
	python_code_ids(codes, b->python, stacks.python_count);
	if (max == FRAMES_MAX)
		check_words(b, stacks.python_count);
	stacks.native_count = (unsigned)backtrace(b->native, (int)native_max);
	/* Code that was made at run time is in no file, and backtrace() gets no further there. */
	stacks.native_complete = stacks.native_count < native_max &&
				 dladdr(b->native[stacks.native_count - 1], &unused);
	for (unsigned i = 0; i < stacks.native_count; i++)
		b->addresses[i] = (uint64_t)b->native[i];
	depth = python_splice(&eval, &stacks, b->stack, 2 * FRAMES_MAX, &match);
	n += (size_t)snprintf(out, size, "%d\x1e", match);
	for (unsigned i = 0; i < depth && n + 8192 < size; i++)
		n += b->stack[i] & FRAME_PYTHON ? put_python(b->stack[i], out + n, size - n)
						: put_native(b, b->stack[i], out + n, size - n);
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

	do { /* once at least, however late it is */
		unsigned count = python_walk(&runtime, b->python, FRAMES_MAX, &complete);

		python_code_ids(codes, b->python, count);
		n++;
	} while (clock_monotonic_ns() < end);
	return n;
}
