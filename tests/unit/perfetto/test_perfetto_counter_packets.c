/* test_perfetto_counter_packets.c: samples of the hardware metrics of kernels. */
#include "perfetto/perfetto_counter_packets.h"

#include "support/cmocka_tests.h"

static void specify(void *user, uint32_t gpu, struct strbuf *s)
{
	(void)user, (void)gpu, (void)s;
}

/* Number of packets that a kernel's metrics take. */
static unsigned packets_of(struct perfetto_metrics *m, uint32_t gpu, uint64_t start_ns,
			   uint64_t end_ns)
{
	static struct perfetto_sequence sequence = { .id = 1 };
	const struct perfetto_metric metric = { .number = 1, .value = 2.5 };
	struct strbuf s = STRBUF_INIT;
	unsigned packets = 0;

	assert_true(raw_init(&s));
	assert_int_equal(perfetto_metrics_add(m, &sequence, &s, gpu,
					      (uint64_t[]){ start_ns, end_ns }, &metric, 1),
			 0);
	for (size_t at = 0; at < s.length; packets++) {
		uint64_t length = 0;
		unsigned shift = 0;

		assert_int_equal((uint8_t)s.data[at++], 0x0a);
		do
			length |= (uint64_t)(s.data[at] & 0x7f) << shift, shift += 7;
		while (s.data[at++] & 0x80);
		at += length;
		assert_true(at <= s.length);
	}
	strbuf_release(&s);
	return packets;
}

/* Readers keep one sample of a counter at one time: the end of a kernel is the next one's start. */
static void test_kernels_back_to_back(void **state)
{
	struct perfetto_metrics m = { .specify = specify };

	(void)state;
	assert_int_equal(packets_of(&m, 0, 1000, 2000), 2);
	assert_int_equal(packets_of(&m, 0, 2000, 3000), 1);
	assert_int_equal(packets_of(&m, 0, 3000, 4000), 1);
	assert_int_equal(packets_of(&m, 0, 4001, 5000), 2);
	assert_int_equal(packets_of(&m, 1, 5000, 6000), 2); /* another GPU */
	assert_int_equal(packets_of(&m, 1, 6000, 7000), 1);
	assert_int_equal(packets_of(&m, 0, 6000, 7000), 2);
	map_release(&m.gpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_kernels_back_to_back) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
