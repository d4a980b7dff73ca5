/* Deep stacks that arrive in several records, of several processors, whole and with gaps. */
#include "support/cmocka_tests.h"

#include <string.h>

#include "base/compiler.h"
#include "sampler/ebpf/ebpf_parts.h"

#define WORDS_MAX 64u

struct record {
	struct bpf_record head;
	uint64_t words[WORDS_MAX];
};

/* Makes a record with words that count up from `first`. Returns its size. */
static size_t make(struct record *r, uint32_t cpu, uint64_t time_ns, unsigned part,
		   const unsigned counts[3], unsigned rest, uint64_t first)
{
	size_t words = 2 * counts[0] + counts[1] + counts[2] + rest;

	*r = (struct record){ .head = { .cpu = cpu,
					.time_ns = time_ns,
					.part = (uint16_t)part,
					.python_count = (uint16_t)counts[0],
					.kernel_count = (uint16_t)counts[1],
					.user_count = (uint16_t)counts[2],
					.copied = rest != 0,
					.stop = BPF_STOP_NO_RULE } };
	for (size_t i = 0; i < words; i++)
		r->words[i] = first + i;
	return sizeof(r->head) + 8 * words;
}

static void add(struct ebpf_parts *p, uint32_t cpu, uint64_t time_ns, unsigned part,
		const unsigned counts[3], uint64_t first)
{
	struct record r;
	size_t size = make(&r, cpu, time_ns, part, counts, 0, first);

	ebpf_parts_add(p, &r.head, size);
}

static void check_words(const struct bpf_record *head, size_t size, const uint64_t *words,
			size_t count)
{
	assert_int_equal(size, sizeof(*head) + 8 * count);
	assert_memory_equal(head + 1, words, 8 * count);
}

static const unsigned python[] = { 2, 0, 0 }, both[] = { 1, 1, 2 }, user[] = { 0, 0, 2 };

static void parts_are_joined_by_kind(void **state)
{
	const uint64_t expected[] = { 1, 2, 3, 4, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25 };
	struct ebpf_parts p = { 0 };
	const struct bpf_record *head;
	struct record last;
	size_t size;

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		add(&p, 3, 100, 0, python, 1);
		add(&p, 1, 100, 0, python, 99); /* another processor's, at the same time */
		add(&p, 3, 100, 1, both, 11);
		size = make(&last, 3, 100, 2, user, 3, 21);
		head = ebpf_parts_join(&p, &last.head, &size);
		check_words(head, size, expected, ARRAY_SIZE(expected));
		assert_int_equal(head->python_count, 3);
		assert_int_equal(head->kernel_count, 1);
		assert_int_equal(head->user_count, 4);
		assert_true(head->copied);
		assert_int_equal(head->stop, BPF_STOP_NO_RULE);
	}
	ebpf_parts_release(&p);
}

static void check_no_frames(struct ebpf_parts *p, unsigned part, uint64_t time_ns)
{
	const struct bpf_record *head;
	struct record last;
	size_t size = make(&last, 0, time_ns, part, user, 3, 21);

	head = ebpf_parts_join(p, &last.head, &size);
	check_words(head, size, NULL, 0);
	assert_int_equal(head->python_count + head->kernel_count + head->user_count, 0);
	assert_false(head->copied);
	assert_int_equal(head->time_ns, time_ns);
}

/* A stack whose innermost frames are missing is none. */
static void a_missing_part(void **state)
{
	struct ebpf_parts p = { 0 };

	(void)state;
	check_no_frames(&p, 1, 100);
	add(&p, 0, 100, 0, python, 1);
	check_no_frames(&p, 2, 100); /* the last one */
	add(&p, 0, 100, 1, python, 1);
	check_no_frames(&p, 1, 100); /* the first one, after another record's */
	add(&p, 0, 100, 0, python, 1);
	add(&p, 0, 100, 2, python, 1);
	check_no_frames(&p, 3, 100);
	add(&p, 0, 100, 0, python, 1);
	check_no_frames(&p, 1, 101); /* another record's */
	ebpf_parts_release(&p);
}

/* An allocation counts without its stack: its arguments are the last words. */
static void arguments_remain(void **state)
{
	static const uint8_t kinds[] = { BPF_RECORD_ALLOCATION, BPF_RECORD_RELEASE };
	const uint64_t arguments[] = { 25, 26, 27 }, few[] = { 21, 22 };
	const unsigned none[3] = { 0 };
	struct ebpf_parts p = { 0 };
	const struct bpf_record *head;
	struct record last;
	size_t size;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size = make(&last, 0, 100, 1, user, 5, 21);
		last.head.kind = kinds[i];
		head = ebpf_parts_join(&p, &last.head, &size);
		check_words(head, size, arguments, 3);
		assert_int_equal(head->user_count, 0);
		assert_int_equal(head->kind, kinds[i]);
		size = make(&last, 0, 100, 1, none, 2, 21); /* fewer than there are */
		last.head.kind = kinds[i];
		head = ebpf_parts_join(&p, &last.head, &size);
		check_words(head, size, few, 2);
	}
	ebpf_parts_release(&p);
}

static void malformed_parts(void **state)
{
	struct ebpf_parts p = { 0 };
	struct record r;
	size_t size;

	(void)state;
	size = make(&r, 0, 100, 0, python, 0, 1);
	ebpf_parts_add(&p, &r.head, size - 8); /* has fewer words than frames */
	check_no_frames(&p, 1, 100);
	make(&r, UINT32_MAX, 100, 0, python, 0, 1);
	ebpf_parts_add(&p, &r.head, size);
	assert_int_equal(p.processors.count, 1);
	ebpf_parts_release(&p);
}

/* Parts that would exceed the limit of a stack are refused. */
static void too_many_parts(void **state)
{
	struct ebpf_parts p = { 0 };
	struct record last;
	size_t size;
	unsigned part = 0;

	(void)state;
	for (; part < BPF_USER_FRAMES / 2; part++)
		add(&p, 0, 100, part, user, part);
	size = make(&last, 0, 100, part, (const unsigned[]){ 0, 0, 0 }, 0, 0);
	assert_int_equal(ebpf_parts_join(&p, &last.head, &size)->user_count, BPF_USER_FRAMES);
	for (part = 0; part < BPF_USER_FRAMES / 2 + 1; part++)
		add(&p, 0, 100, part, user, part);
	check_no_frames(&p, part, 100);
	ebpf_parts_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_joined_by_kind), cmocka_unit_test(a_missing_part),
		cmocka_unit_test(arguments_remain),         cmocka_unit_test(malformed_parts),
		cmocka_unit_test(too_many_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
