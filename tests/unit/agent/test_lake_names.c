/* Names in a lake: what programs say of themselves cannot leave the folder. */
#include "support/cmocka_tests.h"

#include <stdio.h>
#include <string.h>

#include "agent/lake.h"

static const char *name_of(const char *text)
{
	static struct strbuf out = STRBUF_INIT;

	strbuf_clear(&out);
	lake_add_name(&out, text);
	return strbuf_text(&out);
}

static void names(void **state)
{
	char longer[200], other[200], name[LAKE_NAME_MAX + 1];

	(void)state;
	assert_string_equal(name_of("node-1_A"), "node-1_A");
	assert_string_equal(name_of(""), "%");
	assert_string_equal(name_of("_x_"), "%5Fx_");
	assert_string_equal(name_of("../a!b.c"), "%2E%2E%2Fa%21b%2Ec");
	assert_string_equal(name_of("\xff\n"), "%FF%0A");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	memcpy(other, longer, sizeof(other));
	other[150] = 'y';
	assert_in_range(strlen(name_of(longer)), 20, LAKE_NAME_MAX);
	snprintf(name, sizeof(name), "%s", name_of(longer));
	assert_string_not_equal(name, name_of(other));
}

static void times(void **state)
{
	struct strbuf out = STRBUF_INIT;

	(void)state;
	lake_add_date(&out, UINT64_C(1795956110080525419));
	strbuf_addc(&out, ' ');
	lake_add_time(&out, UINT64_C(1795956110080525419));
	assert_string_equal(strbuf_text(&out), "date=2026-11-29 20261129T124150Z");
	strbuf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names), cmocka_unit_test(times) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
