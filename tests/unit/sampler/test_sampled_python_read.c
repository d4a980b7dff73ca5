/*
 * The Python frames of another process's thread, from a memory that is made up here: as CPython
 * 3.12 has them, and as a hostile program may.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "sampler/ebpf/bpf/sampler.h"
#include "sampler/python/sampled_python_read.h"

#define START UINT64_C(0x7f0000000000)
#define SIZE 65536u
#define THREAD (START + 0x800)
#define STATE (START + 0x1000)
#define CFRAME (START + 0x1800)
#define FRAMES (START + 0x2000)
#define CODES (START + 0x8000)
#define CODE_TYPE (START + 0xf000)
#define STATE_AT 0x310
#define TID 4711
#define FRAME_BYTES 128u
#define CODE_BYTES 512u
#define FRAMES_MAX 256u

struct fake {
	uint8_t bytes[SIZE];
	unsigned reads;
	struct python_location place;
	struct python_memory memory;
	struct python_frame frames[FRAMES_MAX];
	uint64_t words[2 * FRAMES_MAX];
	bool complete;
};

static bool read_fake(void *context, uintptr_t address, void *out, size_t size)
{
	struct fake *f = context;

	f->reads++;
	if (address < START || address - START >= SIZE || size > SIZE - (address - START))
		return false;
	memcpy(out, f->bytes + (address - START), size);
	return true;
}

static void put(struct fake *f, uint64_t address, const void *value, size_t size)
{
	assert_true(address >= START && address - START + size <= SIZE);
	memcpy(f->bytes + (address - START), value, size);
}

static void put_word(struct fake *f, uint64_t address, uint64_t value)
{
	put(f, address, &value, sizeof(value));
}

static uint64_t frame_at(unsigned i)
{
	return FRAMES + i * FRAME_BYTES;
}

static uint64_t code_at(unsigned i)
{
	return CODES + i * CODE_BYTES;
}

/*
 * Frame i, which is called by `previous` (0: nobody), runs code i; ends: one of the interpreter's
 * own.
 */
static void put_frame(struct fake *f, unsigned i, uint64_t previous, bool ends)
{
	const struct python_offsets *o = &f->place.runtime.offsets;
	uint8_t owner = ends ? PYTHON_OWNER_ENTRY : 0;

	put_word(f, frame_at(i) + o->frame_code, ends ? 0 : code_at(i));
	put_word(f, frame_at(i) + o->frame_previous, previous);
	put_word(f, frame_at(i) + o->frame_last, code_at(i) + o->code_bytecode + 2 * (10 + i));
	put(f, frame_at(i) + o->frame_owner, &owner, 1);
	put_word(f, code_at(i), 1);
	put_word(f, code_at(i) + o->object_type, CODE_TYPE);
	put_word(f, code_at(i) + o->code_first_line, 100 + i);
}

static int setup(void **state)
{
	struct fake *f = calloc(1, sizeof(*f));
	uint32_t tid = TID;

	assert_non_null(f);
	f->memory = (struct python_memory){ read_fake, f };
	f->place.runtime.version = 0x030c01f0;
	f->place.runtime.code_type = CODE_TYPE;
	f->place.state_at = STATE_AT;
	assert_int_equal(python_offsets_of(0x030c01f0, &f->place.runtime.offsets, NULL), 0);
	put_word(f, THREAD, THREAD);
	put_word(f, THREAD + 16, THREAD);
	put(f, THREAD + 0x2d0, &tid, sizeof(tid));
	put_word(f, THREAD + STATE_AT, STATE);
	put_word(f, STATE + f->place.runtime.offsets.state_thread, THREAD);
	put_word(f, STATE + f->place.runtime.offsets.state_frame, CFRAME);
	put_word(f, CFRAME, frame_at(0));
	/* Two functions of one evaluation, called by one of another. */
	put_frame(f, 0, frame_at(1), false);
	put_frame(f, 1, frame_at(2), false);
	put_frame(f, 2, frame_at(3), true);
	put_frame(f, 3, frame_at(4), false);
	put_frame(f, 4, 0, true);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static unsigned read_all(struct fake *f)
{
	f->reads = 0;
	return sampled_python_read(&f->place, &f->memory, THREAD, f->frames, f->words, FRAMES_MAX,
				   &f->complete);
}

static void the_frames(void **state)
{
	struct fake *f = *state;
	const unsigned codes[] = { 0, 1, 3 };

	assert_int_equal(read_all(f), 3);
	assert_true(f->complete);
	for (unsigned i = 0; i < 3; i++) {
		struct bpf_code c = { .first_line = 100 + codes[i] };
		uint64_t word = f->words[2 * i + 1];

		assert_int_equal(f->words[2 * i], code_at(codes[i]));
		assert_int_equal((uint32_t)word & ~BPF_PYTHON_ENTRY, 2 * (10 + codes[i]));
		assert_int_equal(!!(word & BPF_PYTHON_ENTRY), i > 0);
		assert_int_equal(word >> 32, bpf_python_check(&c));
	}
}

static void the_thread(void **state)
{
	struct fake *f = *state;
	const struct python_offsets *o = &f->place.runtime.offsets;
	const uint64_t by_thread[] = { 0, 3, UINT64_MAX, CFRAME, THREAD };
	const uint64_t by_state[] = { FRAMES, STATE };
	const uint64_t neither[] = {
		FRAMES, CFRAME, STATE + 8, THREAD + 8, START - 8, START + SIZE
	};

	assert_true(sampled_thread_is_at(&f->memory, THREAD, TID));
	assert_false(sampled_thread_is_at(&f->memory, THREAD, TID + 1));
	assert_false(sampled_thread_is_at(&f->memory, THREAD + 8, TID));
	assert_false(sampled_thread_is_at(&f->memory, 0, TID));
	assert_int_equal(sampled_thread_find(&f->memory, o, TID, by_thread, 5), THREAD);
	assert_int_equal(sampled_thread_find(&f->memory, o, TID, by_state, 2), THREAD);
	assert_int_equal(sampled_thread_find(&f->memory, o, TID + 1, by_thread, 5), 0);
	assert_int_equal(sampled_thread_find(&f->memory, o, TID, neither, 6), 0);
}

/* A state that does not name the thread is another thread's. */
static void another_threads_state(void **state)
{
	struct fake *f = *state;

	put_word(f, STATE + f->place.runtime.offsets.state_thread, THREAD + 64);
	assert_int_equal(read_all(f), 0);
	put_word(f, THREAD + STATE_AT, 0);
	assert_int_equal(read_all(f), 0);
	assert_true(f->complete);
}

/* What is no frame, and what is no code, ends the stack: nothing beyond is believed. */
static void what_makes_no_sense(void **state)
{
	struct fake *f = *state;
	const struct python_offsets *o = &f->place.runtime.offsets;

	put_word(f, frame_at(1) + o->frame_previous, START + SIZE - 4);
	assert_int_equal(read_all(f), 2);
	assert_false(f->complete);
	put_word(f, frame_at(1) + o->frame_previous, frame_at(2));
	put_word(f, frame_at(1) + o->frame_code, code_at(1) + 8);
	assert_true(read_all(f) <= 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_not_equal(f->words[2 * i], code_at(1) + 8);
}

/* Frames that lead in a circle do not keep the reader. */
static void a_circle(void **state)
{
	struct fake *f = *state;
	const struct python_offsets *o = &f->place.runtime.offsets;

	put_word(f, frame_at(3) + o->frame_previous, frame_at(0));
	assert_int_equal(read_all(f), FRAMES_MAX);
	assert_false(f->complete);
	assert_true(f->reads < 1000000);
	/* Of frames that are not shown, too. */
	put_word(f, frame_at(0) + o->frame_previous, frame_at(0));
	put_word(f, frame_at(0) + o->frame_code, 0);
	read_all(f);
	assert_false(f->complete);
	assert_true(f->reads < 1000000);
}

/* Any memory at all, with and without what is needed to get to the frames. */
static void noise(void **state)
{
	struct fake *f = *state;
	uint64_t seed = 1;

	for (unsigned round = 0; round < 200; round++) {
		for (uint64_t at = CFRAME; at < START + SIZE; at += 8) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			/* Half of the words lead to somewhere. */
			if (seed >> 40 & 1)
				put_word(f, at, START + (seed >> 45) % SIZE);
			else
				put_word(f, at, seed);
		}
		put_word(f, CFRAME, frame_at(round % 100));
		assert_true(read_all(f) <= FRAMES_MAX);
		assert_true(f->reads < 1000000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(the_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(another_threads_state, setup, teardown),
		cmocka_unit_test_setup_teardown(what_makes_no_sense, setup, teardown),
		cmocka_unit_test_setup_teardown(a_circle, setup, teardown),
		cmocka_unit_test_setup_teardown(noise, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
