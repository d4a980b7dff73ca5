/* Walks of copies of this thread's own stack, held against glibc's backtrace(); and of nonsense. */
#include "sampler/perf/stack_snapshot.h"

#include <execinfo.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "support/cmocka_tests.h"

#define FRAMES 256
#define BYTES (64u << 10)

static struct targets *targets;
static struct target *self;

static int setup(void **state)
{
	const struct targets_options options = { .directory = "/nonexistent" };

	(void)state;
	assert_int_equal(targets_new(&options, &targets, NULL), 0);
	self = targets_running(targets, getpid(), clock_monotonic_ns());
	assert_non_null(self);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return targets_free(targets, NULL);
}

/* What a sample has: taken while the stack is as it is. */
struct picture {
	struct stack_snapshot stack;
	uint8_t bytes[BYTES];
	void *truth[FRAMES];
	int count;
};

static struct picture picture;

/* Bytes of our own stack, of which sanitizers have their own ideas. */
__attribute__((no_sanitize("address"), noinline)) static void take_bytes(uint64_t from,
									 uint64_t end)
{
	picture.stack.size = MIN(end - from, (uint64_t)BYTES);
	for (size_t i = 0; i < picture.stack.size; i++)
		picture.bytes[i] = ((const volatile uint8_t *)from)[i];
	picture.stack.bytes = picture.bytes;
}

__attribute__((noinline)) static int take_picture(uint64_t stack_end)
{
	STACK_CAPTURE(&picture.stack.registers);
	take_bytes(picture.stack.registers.at[REG_SP_], stack_end);
	picture.count = backtrace(picture.truth, FRAMES);
	/* Under a sanitizer its own function comes first. */
	while (picture.count &&
	       (uintptr_t)__builtin_return_address(0) != (uintptr_t)picture.truth[1])
		memmove(picture.truth, picture.truth + 1,
			(size_t)--picture.count * sizeof(*picture.truth));
	return picture.count;
}

__attribute__((noinline)) static int recurse(unsigned depth, uint64_t stack_end)
{
	volatile char room[200];
	int count;

	room[0] = 1;
	count = depth ? recurse(depth - 1, stack_end) : take_picture(stack_end);
	return count + room[0];
}

static uint64_t stack_end(void)
{
	pthread_attr_t attributes;
	void *start;
	size_t size;

	assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
	pthread_attr_getstack(&attributes, &start, &size);
	pthread_attr_destroy(&attributes);
	return (uintptr_t)start + size;
}

/*
 * Frames of the walk and of glibc are the same but for the first, whose place differs by some
 * instructions.
 */
static void check_prefix(const uint64_t *frames, unsigned count)
{
	assert_true(count >= 1 && count <= (unsigned)picture.count);
	for (unsigned i = 1; i < count; i++)
		assert_int_equal(frames[i], (uintptr_t)picture.truth[i]);
}

static void a_whole_stack(void **state)
{
	uint64_t frames[FRAMES];
	enum stack_end end;
	unsigned count;

	(void)state;
	recurse(20, stack_end());
	count = stack_snapshot_walk(targets, self, &picture.stack, frames, FRAMES, &end);
	assert_int_equal(end, stack_end_complete);
	assert_int_equal(count, picture.count);
	check_prefix(frames, count);
	/* With room for fewer. */
	count = stack_snapshot_walk(targets, self, &picture.stack, frames, 7, &end);
	assert_int_equal(count, 7);
	assert_int_equal(end, stack_end_depth);
	check_prefix(frames, count);
}

static void a_copy_that_is_too_short(void **state)
{
	size_t whole = picture.stack.size;
	uint64_t frames[FRAMES];
	unsigned longest = 0;

	(void)state;
	for (size_t size = 0; size < whole; size += 1 + size / 50) {
		enum stack_end end;
		unsigned count;

		picture.stack.size = size;
		picture.stack.cut = true;
		count = stack_snapshot_walk(targets, self, &picture.stack, frames, FRAMES, &end);
		check_prefix(frames, count);
		assert_true(count >= longest);
		longest = count;
		assert_int_equal(end, count == (unsigned)picture.count ? stack_end_complete
								       : stack_end_depth);
		picture.stack.cut = false;
		stack_snapshot_walk(targets, self, &picture.stack, frames, FRAMES, &end);
		assert_int_equal(end, count == (unsigned)picture.count ? stack_end_complete
								       : stack_end_truncated);
	}
	picture.stack.size = whole;
	assert_true(longest > 20);
}

/* Whatever registers and words are: an end, and no read outside of the copy. */
static void nonsense(void **state)
{
	struct stack_snapshot stack = picture.stack;
	uint8_t *bytes = malloc(4096);
	uint64_t frames[FRAMES];
	enum stack_end end;

	(void)state;
	assert_non_null(bytes);
	srand(1);
	for (unsigned round = 0; round < 20000; round++) {
		stack.bytes = bytes;
		stack.size = (size_t)rand() % 4096;
		memcpy(bytes, picture.bytes, 4096);
		for (unsigned i = 0; i < 8; i++)
			bytes[rand() % 4096] = (uint8_t)rand();
		stack.registers = picture.stack.registers;
		if (round & 1)
			stack.registers.at[(unsigned)rand() % REG_COUNT_] =
				round & 2 ? picture.stack.registers.at[REG_SP_] +
						    (uint64_t)(rand() % 4096)
					  : (uint64_t)rand() << 32 | (uint64_t)rand();
		stack.registers.interrupted = round & 4;
		assert_true(stack_snapshot_walk(targets, self, &stack, frames, FRAMES, &end) <=
			    FRAMES);
	}
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_stack),
		cmocka_unit_test(a_copy_that_is_too_short),
		cmocka_unit_test(nonsense),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
