/* Frames laid out as each version lays them out, in memory of the test. */
#include "support/cmocka_tests.h"

#include <string.h>

#include "stack/python/python_walk.h"

#define CODE_BYTES 512
#define FRAME_BYTES 128

static uint8_t thread_state[128], cframe[16];
static uint8_t codes[8][CODE_BYTES] __attribute__((aligned(16)));
static uint8_t frames[16][FRAME_BYTES] __attribute__((aligned(16)));
static bool is_finalizing, has_state;
static struct python_runtime runtime;

static void *get_state(void)
{
	return has_state ? thread_state : NULL;
}

static int get_finalizing(void)
{
	return is_finalizing;
}

static void put_word(uint8_t *at, unsigned offset, uint64_t value)
{
	memcpy(at + offset, &value, sizeof(value));
}

static void put_int(uint8_t *at, unsigned offset, int32_t value)
{
	memcpy(at + offset, &value, sizeof(value));
}

static void begin(uint32_t version)
{
	memset(codes, 0, sizeof(codes));
	memset(frames, 0, sizeof(frames));
	memset(thread_state, 0, sizeof(thread_state));
	is_finalizing = false;
	has_state = true;
	runtime =
		(struct python_runtime){ .thread_state = get_state, .finalizing = get_finalizing };
	assert_int_equal(python_offsets_of(version, &runtime.offsets, NULL), 0);
}

/* Makes frame i the top frame; called outermost first. */
static void push(unsigned i, int code, int last, unsigned owner)
{
	const struct python_offsets *o = &runtime.offsets;
	uint64_t bytecode = (uint64_t)codes[code] + o->code_bytecode;
	uint64_t top;

	memcpy(&top, o->has_cframe ? cframe + o->cframe_frame : thread_state + o->state_frame,
	       sizeof(top));
	if (o->has_cframe) {
		put_word(thread_state, o->state_frame, (uint64_t)cframe);
		put_word(cframe, o->cframe_frame, (uint64_t)frames[i]);
	} else {
		put_word(thread_state, o->state_frame, (uint64_t)frames[i]);
	}
	put_word(frames[i], o->frame_previous, top);
	put_word(frames[i], o->frame_code, (uint64_t)codes[code]);
	if (o->layout == PYTHON_FRAME_OBJECTS) {
		put_int(frames[i], o->frame_last, last / o->index_unit);
		return;
	}
	put_word(frames[i], o->frame_last, bytecode + (uint64_t)(int64_t)last);
	frames[i][o->frame_owner] = (uint8_t)owner;
	put_int(codes[code], o->code_traceable, 4);
}

static void expect(const struct python_frame *frame, int code, unsigned last, bool entry)
{
	assert_int_equal(frame->code, code < 0 ? 0 : (uintptr_t)codes[code]);
	assert_int_equal(frame->last, last);
	assert_int_equal(frame->entry, entry);
}

static void test_frame_objects(void **state)
{
	struct python_frame out[4];
	bool complete;

	(void)state;
	for (uint32_t version = 0x030900f0; version <= 0x030a00f0; version += 0x10000) {
		begin(version);
		memset(cframe, 0, sizeof(cframe));
		push(0, 0, 8, 0);
		push(1, 1, -2, 0);
		push(2, 0, 12, 0);
		assert_int_equal(python_walk(&runtime, out, 4, &complete), 3);
		assert_true(complete);
		expect(&out[0], 0, 12, true);
		expect(&out[1], 1, 0, true);
		expect(&out[2], 0, 8, true);
		assert_int_equal(python_walk(&runtime, out, 2, &complete), 2);
		assert_false(complete);
	}
}

static void test_entry_flag(void **state)
{
	struct python_frame out[8];
	bool complete;

	(void)state;
	begin(0x030b00f0);
	memset(cframe, 0, sizeof(cframe));
	push(0, 0, 20, 0);
	frames[0][runtime.offsets.frame_is_entry] = 1;
	push(1, 1, 30, 0);
	push(2, 2, 6, 0); /* still being made, and alone in its evaluation */
	frames[2][runtime.offsets.frame_is_entry] = 1;
	push(3, 3, 40, 1); /* a generator, however early */
	frames[3][runtime.offsets.frame_is_entry] = 1;
	push(4, 4, 2, 0); /* being made, inside the generator's evaluation */
	push(5, 5, 2, 1);
	assert_int_equal(python_walk(&runtime, out, 8, &complete), 5);
	assert_true(complete);
	expect(&out[0], 5, 2, false);
	expect(&out[1], 3, 40, true);
	expect(&out[2], -1, 0, true);
	expect(&out[3], 1, 30, false);
	expect(&out[4], 0, 20, true);
	for (unsigned max = 0; max < 5; max++) {
		assert_int_equal(python_walk(&runtime, out, max, &complete), max);
		assert_false(complete);
	}
}

static void test_entry_frames(void **state)
{
	struct python_frame out[8];
	bool complete;

	(void)state;
	begin(0x030c00f0);
	memset(cframe, 0, sizeof(cframe));
	push(7, 6, 0, 4); /* of the interpreter's, but of no evaluation */
	push(0, 6, 0, 3);
	push(1, 0, 20, 0);
	push(2, 1, 30, 0);
	push(3, 6, 0, 3); /* an evaluation of nothing that would be shown */
	push(4, 6, 0, 3);
	push(5, 2, 40, 2);
	push(6, 3, 4, 0); /* being made */
	assert_int_equal(python_walk(&runtime, out, 8, &complete), 4);
	assert_true(complete);
	expect(&out[0], 2, 40, true);
	expect(&out[1], -1, 0, true);
	expect(&out[2], 1, 30, false);
	expect(&out[3], 0, 20, true);
	assert_int_equal(python_walk(&runtime, out, 1, &complete), 1);
	assert_false(complete);
	expect(&out[0], 2, 40, true);
	assert_int_equal(python_walk(&runtime, out, 3, &complete), 3);
	assert_false(complete);
	expect(&out[2], 1, 30, false);
}

/* 3.14: references have tags; free-threaded builds have copies of the bytecode. */
static void test_copies_of_bytecode(void **state)
{
	static uint8_t copy[64];
	uintptr_t copies[] = { 2, (uintptr_t)codes[0] + 232, (uintptr_t)copy };
	struct python_frame out[2];
	bool complete;

	(void)state;
	begin(0x030c00f0);
	runtime.offsets.has_cframe = false;
	runtime.offsets.code_bytecode = 232;
	runtime.offsets.code_tlbc = 224;
	runtime.offsets.frame_tlbc = 72;
	runtime.offsets.frame_owner = 78;
	push(0, 6, 0, 3);
	push(1, 0, 20, 0);
	put_word(codes[0], 224, (uint64_t)copies);
	put_word(frames[1], runtime.offsets.frame_code, (uint64_t)codes[0] | 1);
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 1);
	expect(&out[0], 0, 20, true);
	put_int(frames[1], 72, 1);
	put_word(frames[1], runtime.offsets.frame_last, (uint64_t)copy + 34);
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 1);
	expect(&out[0], 0, 34, true);
}

/* 3.15: below all frames lies one of the thread's own, which is no evaluation. */
static void test_base_frame(void **state)
{
	struct python_frame out[4];
	bool complete;

	(void)state;
	begin(0x030c00f0);
	runtime.offsets.has_cframe = false;
	runtime.offsets.state_base = 80;
	push(0, 6, 0, 3);
	put_word(thread_state, 80, (uint64_t)frames[0]);
	assert_int_equal(python_walk(&runtime, out, 4, &complete), 0);
	assert_true(complete);
	push(1, 6, 0, 3);
	push(2, 1, 20, 0);
	push(3, 2, 30, 0);
	assert_int_equal(python_walk(&runtime, out, 4, &complete), 2);
	assert_true(complete);
	expect(&out[0], 2, 30, false);
	expect(&out[1], 1, 20, true);
	assert_int_equal(python_walk(&runtime, out, 1, &complete), 1);
	assert_false(complete);
}

static void test_no_frames(void **state)
{
	struct python_frame out[2];
	bool complete;

	(void)state;
	begin(0x030b00f0);
	memset(cframe, 0, sizeof(cframe));
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 0);
	assert_true(complete);
	push(0, 0, 20, 0);
	frames[0][runtime.offsets.frame_is_entry] = 1;
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 1);
	is_finalizing = true;
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 0);
	is_finalizing = false;
	has_state = false;
	assert_int_equal(python_walk(&runtime, out, 2, &complete), 0);
	assert_true(complete);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frame_objects), cmocka_unit_test(test_entry_flag),
		cmocka_unit_test(test_entry_frames),  cmocka_unit_test(test_copies_of_bytecode),
		cmocka_unit_test(test_base_frame),    cmocka_unit_test(test_no_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
