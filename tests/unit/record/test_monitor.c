/* link: test_support */
/* What a sum grew in a second, and that a recording says that it is incomplete. */
#include "record/monitor.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "format/writer.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

static void rates(void **state)
{
	struct monitor_reading r = { .time_ns = 3 * NS_PER_S, .value = 700 };
	int64_t per_s = -1;

	(void)state;
	assert_false(monitor_rate(&r, &per_s)); /* the first */
	r.before_ns = NS_PER_S;
	r.before = 100;
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, 300);
	r.before = 701; /* it began again */
	assert_false(monitor_rate(&r, &per_s));
	r.before = 700;
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, 0);
	r.before_ns = r.time_ns;
	assert_false(monitor_rate(&r, &per_s));
	r = (struct monitor_reading){ 2 * NS_PER_S, NS_PER_S, INT64_MAX, 0 };
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, INT64_MAX);
}

/* Reads and flushes until the writer's last write failed, or until it did not. */
static void flush_until(struct monitor *m, bool has_failed)
{
	struct writer_stats stats;

	for (unsigned i = 0; i < 10000; i++) {
		m->flushed_ns = 0;
		monitor_read(m);
		writer_stats(m->writer, &stats);
		if (!stats.error == !has_failed)
			return;
		usleep(1000);
	}
	fail();
}

/* The disk had no room for a while: what is written at the end is, and it is incomplete. */
static void a_disk_that_was_full(void **state)
{
	char *command[] = { (char[]){ "monitor" }, NULL };
	struct monitor m = MONITOR_INIT;
	struct error e = { 0 };
	struct rlimit before, limit;

	assert_int_equal(monitor_open(&m, &e), 0);
	assert_int_equal(monitor_record(&m, temp_file(*state, "m.pitot"), false, command, &e), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ 1, before.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	flush_until(&m, true);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	flush_until(&m, false);
	assert_true(monitor_finish(&m, &e) < 0);
	assert_non_null(strstr(e.text, "cannot write all of"));
	monitor_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates),
		folder_test(a_disk_that_was_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
