/*
 * What the verdict says of kernels, and from where on: an H200 has 132 multiprocessors with 8
 * blocks of 256 threads each.
 */
#include "analysis/busy.h"
#include "analysis/report.h"
#include "report/section.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#include <stdio.h>
#include <string.h>

#define SLOTS 1056u

static void print_verdict(const char *folder, struct strbuf *out)
{
	extern const struct section section_verdict;
	struct report_options options = { .filter = FILTER_ALL };
	struct trace_options trace_options = { .threads = 1 };
	struct error e = { 0 };
	struct report_view v;
	struct report r;
	struct trace *t;

	if (trace_open(folder, &trace_options, &t, &e) < 0 || report_init(&r, t, &options, &e) < 0)
		fail_msg("%s", e.text);
	v = (struct report_view){ .report = &r, .width = 180, .top = 10, .out = out };
	section_print_text(&section_verdict, &v);
	assert_non_null(strstr(strbuf_text(out), "GPU-bound"));
	report_release(&r);
	trace_free(t);
}

/* A recording with a kernel of so many blocks, and one that runs for `other_ns`. */
static void check(const char *folder, uint32_t blocks, uint64_t other_ns, const char *expected)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	char path[512];
	struct maker *m;

	snprintf(path, sizeof(path), "%s/%u-%u", folder, blocks, (unsigned)other_ns);
	m = maker_begin(path, 100, 0, "./app");
	maker_device(m, 0, 0);
	maker_kernel(m, maker_config(m, "big", blocks, 256), 7, 1000, 11000, 1);
	for (uint64_t i = 0; i < other_ns; i += 1000)
		maker_kernel(m, maker_config(m, "other", SLOTS, 256), 7, 11000 + i, 12000 + i, 2);
	maker_close(m, 11000 + other_ns);
	print_verdict(path, &out);
	if (expected)
		assert_non_null(strstr(strbuf_text(&out), expected));
	else
		assert_null(strstr(strbuf_text(&out), "tail of"));
}

static void tails(void **state)
{
	check(*state, SLOTS + 44, 0,
	      "tail of big: 1,100 blocks on 132 SMs x 8 slots, the last 44 fill 4.2% of the slots; "
	      "shown below 50%, after at most 4 full waves, from 10% of the kernel time");
	check(*state, 100, 0, NULL); /* they all run at once */
	check(*state, SLOTS - 1, 0, NULL);
	check(*state, SLOTS, 0, NULL);
	check(*state, SLOTS + 1, 0, "tail of big: 1,057 blocks");
	check(*state, SLOTS + SLOTS / 2 - 1, 0, "tail of big");
	check(*state, SLOTS + SLOTS / 2, 0, NULL);
	check(*state, 4 * SLOTS + 9, 0, "tail of big");
	check(*state, 5 * SLOTS + 9, 0, NULL);
	check(*state, SLOTS + 44, 9000, "tail of big");
	check(*state, SLOTS + 44, 12000, NULL); /* the other one has more time */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(tails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
