/* test_calibration.c: what is known of calibrations of this version and of earlier ones. */
#include "system/calibration.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_tests.h"

#define OLD                                                                                        \
	"\"version\": \"0.1.0\", \"host\": \"h\", \"gpu\": \"g\", \"driver_version\": 13000, "     \
	"\"rounds\": 15, \"launch_ns\": 978, \"launch_spread_ns\": 399, \"synchronize_ns\": 505, " \
	"\"synchronize_spread_ns\": 132"

static int parse(struct calibration *c, const char *text, struct error *e)
{
	*e = (struct error){ 0 };
	return calibration_parse(c, text, strlen(text), e);
}

/* Of a file that was written before graphs and eager loops were measured. */
static void an_old_file(void **state)
{
	struct calibration c;
	struct error e;

	(void)state;
	assert_int_equal(parse(&c, "{" OLD "}", &e), 0);
	assert_string_equal(c.version, "0.1.0");
	assert_int_equal(c.launch_ns, 978);
	assert_int_equal(c.synchronize_spread_ns, 132);
#define IS_UNKNOWN(name) assert_true(c.name == CALIBRATION_UNKNOWN);
	CALIBRATION_OPTIONAL(IS_UNKNOWN)
#undef IS_UNKNOWN
}

static const struct {
	const char *text, *key; /* NULL: it is right */
} members[] = {
	{ "\"node_latency_ns\": null", NULL },
	{ "\"node_latency_ns\": 0", NULL },
	{ "\"node_latency_ns\": 1000000000", NULL },
	{ "\"node_latency_ns\": 1000000001", "node_latency_ns" },
	{ "\"node_latency_ns\": -1", "node_latency_ns" },
	{ "\"node_latency_ns\": \"5\"", "node_latency_ns" },
	{ "\"timer_step_ns\": []", "timer_step_ns" },
	{ "\"launch_ns\": null", "launch_ns" },
	{ "\"host\": null", "host" },
	{ "\"host\": 5", "host" },
};

static void values(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		char text[1024];
		struct calibration c;
		struct error e;
		int rc;

		/* The last of two members of a name counts. */
		snprintf(text, sizeof(text), "{" OLD ", %s}", members[i].text);
		rc = parse(&c, text, &e);
		assert_int_equal(rc, members[i].key ? E_FORMAT : 0);
		if (members[i].key)
			assert_non_null(strstr(e.text, members[i].key));
	}
}

/* What is unknown is null, and read as unknown again. */
static void written_and_read(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, again = STRBUF_INIT;
	struct calibration c, read;
	struct error e;

	(void)state;
	assert_int_equal(parse(&c, "{" OLD "}", &e), 0);
	c.node_gap_bare_ns = 0;
	c.eager_ns = 1234;
	calibration_json(&c, &text);
	assert_non_null(strstr(strbuf_text(&text), "\"node_gap_bare_ns\": 0"));
	assert_non_null(strstr(strbuf_text(&text), "\"eager_bare_ns\": null"));
	assert_int_equal(parse(&read, strbuf_text(&text), &e), 0);
	assert_memory_equal(&read, &c, sizeof(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_old_file),
		cmocka_unit_test(values),
		cmocka_unit_test(written_and_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
