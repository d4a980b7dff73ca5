/* The strips of a page that show when GPUs worked. */
#include "report/section.h"

#include <string.h>

#include "../analysis/report_fixture.h"

/* The number of strips in a page on ten GPUs, of which `device` is selected; -1: all. */
static unsigned strips(const char *folder, int64_t device, struct strbuf *out)
{
	struct report_options options = EVERYTHING;
	struct analyzed a;
	unsigned count = 0;

	options.filter.device = device;
	analyze(&a, folder, options);
	report_print_html(&(struct report_view){ .report = &a.report,
						 .path = "x",
						 .width = 100,
						 .top = 9,
						 .html = true,
						 .out = out });
	for (const char *at = strbuf_text(out); (at = strstr(at, "<div class=\"strip\">")); at++)
		count++;
	analyzed_release(&a);
	return count;
}

static void a_page_says_that_it_shows_eight_gpus(void **state)
{
	_cleanup_strbuf_ struct strbuf all = STRBUF_INIT, one = STRBUF_INIT;
	struct maker *m = begin(*state, 100);
	uint32_t config = maker_config(m, "k", 1, 32);

	for (uint32_t gpu = 0; gpu < 10; gpu++) {
		maker_device(m, gpu, 0);
		maker_context(m, gpu + 1, gpu, 0);
		m->context = gpu + 1;
		maker_kernel(m, config, 7, 1000, 2000, gpu + 1);
	}
	maker_close(m, 10000);
	assert_int_equal(strips(*state, -1, &all), 8);
	assert_non_null(strstr(strbuf_text(&all), "the first 8 of 10 GPUs: `--device N` shows"));
	assert_int_equal(strips(*state, 9, &one), 1);
	assert_non_null(strstr(strbuf_text(&one), "GPU 9"));
	assert_null(strstr(strbuf_text(&one), "the first 8"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_page_says_that_it_shows_eight_gpus),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
