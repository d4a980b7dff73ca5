/*
 * Frames of a 3.12 in memory of the test, with links as they are while an evaluation is entered,
 * and with bad ones.
 */
#include "support/cmocka_tests.h"

#include <string.h>
#include <sys/mman.h>

#include "stack/python/python_splice.h"

#define FRAME_BYTES 128
#define ENTRY 3 /* owner */
#define FRAMES 16u

static uint8_t state[128], c_frames[3][32];
static uint8_t code[512] __attribute__((aligned(16)));
static uint8_t frames[8][FRAME_BYTES] __attribute__((aligned(16)));
static uint8_t *wall; /* a page that cannot be read */
static struct python_runtime runtime;

static void *get_state(void)
{
	return state;
}

static int get_finalizing(void)
{
	return 0;
}

static void put(uint8_t *at, unsigned offset, const void *pointer)
{
	memcpy(at + offset, &pointer, sizeof(pointer));
}

/* Frame i, called by frame j (-1: nobody). */
static void frame(int i, int j, unsigned owner)
{
	const struct python_offsets *o = &runtime.offsets;

	put(frames[i], o->frame_code, code);
	put(frames[i], o->frame_last, code + o->code_bytecode + 10);
	put(frames[i], o->frame_previous, j < 0 ? NULL : frames[j]);
	frames[i][o->frame_owner] = (uint8_t)owner;
}

/* C frame i, which runs frame j. */
static void c_frame(int i, const void *runs)
{
	put(c_frames[i], runtime.offsets.cframe_frame, runs);
	put(c_frames[i], runtime.offsets.cframe_frame + 8u, i ? c_frames[i - 1] : NULL);
	put(state, runtime.offsets.state_frame, c_frames[i]);
}

/*
 * Evaluation 1 runs frame 1 (entry frame 0), called by nobody; evaluation 2 frames 3 and 4 (entry
 * 2), called by 1.
 */
static int setup(void **unused)
{
	uint64_t one = 1;

	(void)unused;
	memset(frames, 0, sizeof(frames));
	memset(code, 0, sizeof(code));
	runtime = (struct python_runtime){ .thread_state = get_state,
					   .finalizing = get_finalizing,
					   .code_type = (uintptr_t)state };
	assert_int_equal(python_offsets_of(0x030c01f0, &runtime.offsets, NULL), 0);
	memcpy(code, &one, sizeof(one));
	put(code, runtime.offsets.object_type, state);
	frame(0, -1, ENTRY);
	frame(1, 0, 0);
	frame(2, 1, ENTRY);
	frame(3, 2, 0);
	frame(4, 3, 0);
	c_frame(0, NULL);
	c_frame(1, frames[1]);
	c_frame(2, frames[4]);
	wall = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(wall != MAP_FAILED);
	return 0;
}

static int teardown(void **unused)
{
	(void)unused;
	return munmap(wall, 4096);
}

static unsigned walk(struct python_frame *out, bool *complete)
{
	return python_walk_interrupted(&runtime, out, FRAMES, complete);
}

static void test_at_rest(void **unused)
{
	struct python_frame out[FRAMES + 1];
	bool complete;

	(void)unused;
	assert_int_equal(walk(out, &complete), 3);
	assert_true(complete);
	assert_false(out[0].entry);
	assert_true(out[1].entry && out[2].entry);
	assert_int_equal(out[0].last, 10);
	assert_int_equal(out[0].code, (uintptr_t)code);
}

/* The C frame of evaluation 2 is there, what it runs is not set yet. */
static void test_evaluation_is_being_entered(void **unused)
{
	const void *const garbage[] = { NULL,      wall,      (void *)1, (void *)0x47,
					frames[1], frames[0], code,      (void *)(uintptr_t)-8 };
	struct python_frame out[FRAMES + 1];
	bool complete;

	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		c_frame(2, garbage[i]);
		assert_int_equal(walk(out, &complete), 1);
		assert_true(complete && out[0].entry);
	}
	/*
	 * What the last evaluation at this place left: its entry frame, so an evaluation without
	 * frames.
	 */
	c_frame(2, frames[2]);
	assert_int_equal(walk(out, &complete), 2);
	assert_true(complete && out[0].entry && !out[0].code && out[1].code);
}

static void test_bad_links(void **unused)
{
	struct python_frame out[FRAMES + 1];
	bool complete;

	(void)unused;
	put(frames[1], runtime.offsets.frame_previous, wall); /* evaluation 1 */
	assert_int_equal(walk(out, &complete), 3);
	assert_false(complete);
	put(frames[1], runtime.offsets.frame_previous, frames[1]); /* a circle */
	assert_true(walk(out, &complete) <= FRAMES);
	assert_false(complete);
	put(frames[1], runtime.offsets.frame_last, code); /* of frames that are not to be seen */
	assert_true(walk(out, &complete) <= FRAMES);
	assert_false(complete);
}

static void test_bad_code(void **unused)
{
	struct python_frame out[FRAMES + 1];
	uint64_t none = 0;
	bool complete;

	(void)unused;
	put(frames[4], runtime.offsets.frame_code, wall);
	assert_int_equal(walk(out, &complete), 0);
	assert_false(complete);
	put(frames[4], runtime.offsets.frame_code, frames[0]); /* no code object: left out */
	walk(out, &complete);
	assert_int_equal(out[0].code, (uintptr_t)code);
	put(frames[4], runtime.offsets.frame_code, code);
	memcpy(code, &none, sizeof(none)); /* freed */
	assert_int_equal(walk(out, &complete), 2); /* two evaluations without frames */
	assert_true(!out[0].code && !out[1].code);
}

static void test_alignment(void **unused)
{
	struct python_eval eval = { .count = 1, .ranges = { { 1000, 2000 } } };
	const uint64_t native[] = { FRAME_INTERRUPTED | 1004, 50, 1100, 60 };
	struct python_frame out[FRAMES + 1] = { { .code = 7, .entry = true } };

	(void)unused;
	assert_int_equal(python_align_interrupted(&eval, native, 4, out, 1), 2);
	assert_true(out[0].entry && !out[0].code && out[1].code == 7);
	assert_int_equal(python_align_interrupted(&eval, native, 4, out, 2), 2);
	assert_int_equal(python_align_interrupted(&eval, native + 3, 1, out, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_at_rest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_evaluation_is_being_entered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_code, setup, teardown),
		cmocka_unit_test_setup_teardown(test_alignment, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
