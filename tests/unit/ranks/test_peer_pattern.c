#include "ranks/peer_pattern.h"

#include "support/cmocka_tests.h"

#define PAIRS 20

/* "01 12": rank 0 sends to rank 1, and rank 1 to rank 2. */
static const struct sample {
	const char *pairs;
	enum peer_pattern pattern;
	size_t groups;
} samples[] = {
	{ "", PEERS_NONE, 0 },
	{ "01 10", PEERS_PAIRS, 1 },
	{ "01", PEERS_PIPELINE, 1 },
	{ "03 30 12 21", PEERS_PAIRS, 2 },
	{ "01 23 32", PEERS_OTHER, 2 }, /* a pipeline and a pair */
	{ "01 12 20", PEERS_RING, 1 },
	{ "20 12 01", PEERS_RING, 1 },
	{ "01 12 23 30", PEERS_RING, 1 },
	{ "01 12 23 30 10 21 32 03", PEERS_RING, 1 },
	{ "01 12 23 30 10", PEERS_OTHER, 1 }, /* one goes back */
	{ "01 12 32 03", PEERS_OTHER, 1 }, /* not all in one direction */
	{ "01 12 20 34 45 53", PEERS_RING, 2 },
	{ "01 12 23", PEERS_PIPELINE, 1 },
	{ "31 12 20", PEERS_PIPELINE, 1 },
	{ "01 10 12 21 23 32", PEERS_PIPELINE, 1 },
	{ "02 24 13 35", PEERS_PIPELINE, 2 },
	{ "01 21", PEERS_OTHER, 1 }, /* both send to rank 1 */
	{ "01 02 03", PEERS_OTHER, 1 }, /* a star */
	{ "01 10 02 20 03 30", PEERS_OTHER, 1 },
	{ "01 10 12 21 20 02", PEERS_ALL_TO_ALL, 1 },
	{ "01 02 03 10 12 13 20 21 23 30 31 32", PEERS_ALL_TO_ALL, 1 },
	{ "01 02 03 10 12 13 20 21 23 30 31", PEERS_OTHER, 1 },
};

static void patterns_have_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		struct peer_pair pairs[PAIRS];
		enum peer_pattern pattern;
		size_t groups, count = 0;

		for (const char *p = samples[i].pairs; *p; p += p[2] ? 3 : 2)
			pairs[count++] = (struct peer_pair){ .from = (uint32_t)(p[0] - '0'),
							     .to = (uint32_t)(p[1] - '0') };
		assert_int_equal(peer_pattern_find(pairs, count, 8, &pattern, &groups), 0);
		if (pattern != samples[i].pattern || groups != samples[i].groups)
			fail_msg("%s: pattern %d, %zu groups", samples[i].pairs, pattern, groups);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
