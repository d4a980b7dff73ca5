/* Records of perf events as bytes: what they say, and that no byte of them is trusted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/perf/perf_record.h"

#define STACK_BYTES 64u

struct record {
	union {
		struct perf_event_header header;
		uint64_t words[256];
	};
	unsigned count; /* words */
};

static void begin(struct record *r, uint32_t type, uint16_t misc)
{
	memset(r, 0, sizeof(*r));
	r->header.type = type;
	r->header.misc = misc;
	r->count = 1;
}

static void add(struct record *r, uint64_t word)
{
	r->words[r->count++] = word;
	r->header.size = (uint16_t)(8 * r->count);
}

static void add_pair(struct record *r, uint32_t low, uint32_t high)
{
	add(r, (uint64_t)high << 32 | low);
}

static void add_text(struct record *r, const char *text)
{
	char padded[64] = "";

	memcpy(padded, text, strlen(text));
	for (size_t i = 0; i <= strlen(text); i += 8) {
		uint64_t word;

		memcpy(&word, padded + i, 8);
		add(r, word);
	}
}

static void add_trailer(struct record *r, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	add_pair(r, pid, tid);
	add(r, time_ns);
	add(r, 3); /* processor */
	add(r, 99); /* event */
}

static const struct perf_sample_layout layout = { 2, true, STACK_BYTES };
static const struct perf_sample_layout user_layout = { 0, false, STACK_BYTES };

static void make_sample(struct record *r, uint64_t used)
{
	begin(r, PERF_RECORD_SAMPLE, 0);
	add(r, 99);
	add_pair(r, 10, 11);
	add(r, 12345);
	add(r, 3);
	add(r, 12345678); /* counts */
	add(r, 0);
	add(r, 4);
	add(r, PERF_CONTEXT_KERNEL);
	add(r, UINT64_C(0xffffffff81000010));
	add(r, UINT64_C(0xffffffff81000020));
	add(r, PERF_CONTEXT_USER);
	add(r, PERF_SAMPLE_REGS_ABI_64);
	for (uint64_t i = 0; i < REG_COUNT_; i++)
		add(r, 1000 + i);
	add(r, STACK_BYTES);
	for (uint64_t i = 0; i < STACK_BYTES / 8; i++)
		add(r, i);
	add(r, used);
}

static void a_sample(void **state)
{
	struct perf_sample s;
	struct record r;

	(void)state;
	make_sample(&r, 40);
	assert_true(perf_record_sample(&r.header, &layout, &s));
	assert_int_equal(s.id, 99);
	assert_int_equal(s.pid, 10);
	assert_int_equal(s.tid, 11);
	assert_int_equal(s.time_ns, 12345);
	assert_int_equal(s.cpu, 3);
	assert_int_equal(s.kernel_count, 2);
	assert_int_equal(s.kernel[1], UINT64_C(0xffffffff81000020));
	assert_true(s.has_user);
	for (unsigned i = 0; i < REG_COUNT_; i++)
		assert_int_equal(s.stack.registers.at[perf_registers[i]], 1000 + i);
	assert_int_equal(s.stack.size, 40);
	assert_false(s.stack.cut);
	make_sample(&r, STACK_BYTES);
	assert_true(perf_record_sample(&r.header, &layout, &s));
	assert_true(s.stack.cut);
	/* More than there are is not believed. */
	make_sample(&r, STACK_BYTES + 8);
	assert_true(perf_record_sample(&r.header, &layout, &s));
	assert_int_equal(s.stack.size, STACK_BYTES);
}

static void samples_of_other_code(void **state)
{
	struct perf_sample s;
	struct record r;

	(void)state;
	begin(&r, PERF_RECORD_SAMPLE, 0);
	for (unsigned i = 0; i < 4; i++)
		add(&r, 1);
	add(&r, PERF_SAMPLE_REGS_ABI_NONE);
	add(&r, 0);
	assert_true(perf_record_sample(&r.header, &user_layout, &s));
	assert_false(s.has_user);
	make_sample(&r, 8);
	r.words[12] = PERF_SAMPLE_REGS_ABI_32;
	assert_true(perf_record_sample(&r.header, &layout, &s));
	assert_false(s.has_user);
}

static void notices(void **state)
{
	struct perf_sideband n;
	struct record r;

	(void)state;
	begin(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	add_pair(&r, 5, 6);
	add_text(&r, "python3");
	add_trailer(&r, 5, 6, 777);
	assert_true(perf_record_sideband(&r.header, &n));
	assert_true(n.is_exec);
	assert_int_equal(n.tid, 6);
	assert_int_equal(n.time_ns, 777);
	assert_string_equal(n.text, "python3");

	begin(&r, PERF_RECORD_FORK, 0);
	add_pair(&r, 20, 10);
	add_pair(&r, 21, 11);
	add(&r, 700);
	add_trailer(&r, 10, 11, 778);
	assert_true(perf_record_sideband(&r.header, &n));
	assert_int_equal(n.pid, 20);
	assert_int_equal(n.parent_pid, 10);
	assert_int_equal(n.tid, 21);

	begin(&r, PERF_RECORD_MMAP2, 0);
	add_pair(&r, 5, 6);
	add(&r, 0x10000);
	add(&r, 0x3000);
	add(&r, 0x1000);
	add_pair(&r, 8, 1);
	add(&r, 4711);
	add(&r, 0);
	add_pair(&r, PROT_READ | PROT_EXEC, 0);
	add_text(&r, "/usr/lib/libx.so");
	add_trailer(&r, 5, 6, 779);
	assert_true(perf_record_sideband(&r.header, &n));
	assert_true(n.is_executable);
	assert_int_equal(n.mapping.start, 0x10000);
	assert_int_equal(n.mapping.end, 0x13000);
	assert_int_equal(n.mapping.file_offset, 0x1000);
	assert_int_equal(n.mapping.inode, 4711);
	assert_string_equal(n.mapping.path, "/usr/lib/libx.so");

	begin(&r, PERF_RECORD_READ, 0);
	add_pair(&r, 5, 6);
	add(&r, 30000000);
	add(&r, 0); /* lost */
	add_trailer(&r, 5, 6, 779);
	assert_true(perf_record_sideband(&r.header, &n));
	assert_int_equal(n.tid, 6);
	assert_int_equal(n.cpu_ns, 30000000);

	for (int i = 0; i < 3; i++) {
		const uint16_t flags[] = { 0, PERF_RECORD_MISC_SWITCH_OUT,
					   PERF_RECORD_MISC_SWITCH_OUT |
						   PERF_RECORD_MISC_SWITCH_OUT_PREEMPT };

		begin(&r, PERF_RECORD_SWITCH, flags[i]);
		add_trailer(&r, 5, 6, 781);
		assert_true(perf_record_sideband(&r.header, &n));
		assert_int_equal(n.tid, 6);
		assert_int_equal(n.time_ns, 781);
		assert_int_equal(n.is_out, i > 0);
		assert_int_equal(n.is_preempted, i > 1);
	}

	begin(&r, PERF_RECORD_LOST, 0);
	add(&r, 99);
	add(&r, 12);
	add_trailer(&r, 5, 6, 780);
	assert_true(perf_record_sideband(&r.header, &n));
	assert_int_equal(n.lost, 12);
}

/* Of any size, and of any bytes: sanitizers watch that none behind it is read. */
static void hostile_records(void **state)
{
	static const uint32_t types[] = { PERF_RECORD_COMM,         PERF_RECORD_FORK,
					  PERF_RECORD_MMAP2,        PERF_RECORD_LOST,
					  PERF_RECORD_LOST_SAMPLES, PERF_RECORD_EXIT,
					  PERF_RECORD_THROTTLE };
	struct record whole;
	unsigned good = 0;

	(void)state;
	srand(1);
	for (unsigned round = 0; round < 20000; round++) {
		uint16_t size;
		uint64_t *bytes;
		struct perf_sideband n;
		struct perf_sample s;

		make_sample(&whole, STACK_BYTES);
		size = (uint16_t)(8 + 8 * (rand() % whole.count));
		for (unsigned i = 0; i < 3; i++)
			whole.words[1 + (unsigned)rand() % (whole.count - 1)] =
				rand() % 2 ? (uint64_t)rand() : UINT64_MAX - (uint64_t)(rand() % 9);
		whole.header.type = types[round % ARRAY_SIZE(types)];
		whole.header.size = size;
		bytes = malloc(size);
		assert_non_null(bytes);
		memcpy(bytes, &whole, size);
		good += perf_record_sideband((const struct perf_event_header *)bytes, &n);
		good += perf_record_sample((const struct perf_event_header *)bytes,
					   round & 1 ? &layout : &user_layout, &s);
		if (s.stack.bytes)
			assert_true(s.stack.size <= size);
		free(bytes);
	}
	assert_true(good > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sample),
		cmocka_unit_test(samples_of_other_code),
		cmocka_unit_test(notices),
		cmocka_unit_test(hostile_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
