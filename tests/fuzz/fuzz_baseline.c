/* layer: compare */
/*
 * Runs of a baseline, without its head. What is accepted is written and accepted again, the same.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "compare/baseline.h"

#define RUNS 4u

static void release(struct measured_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		measured_run_release(&runs[i]);
}

static void check_again(const struct measured_run *runs, size_t count)
{
	struct strbuf bytes = STRBUF_INIT, again = STRBUF_INIT;
	struct measured_run read[RUNS];
	size_t found;

	if (baseline_encode(runs, count, &bytes, NULL) < 0 ||
	    baseline_decode(bytes.data, bytes.length, read, RUNS, &found, NULL) < 0 ||
	    found != count || baseline_encode(read, found, &again, NULL) < 0 ||
	    again.length != bytes.length || memcmp(again.data, bytes.data, bytes.length) != 0)
		abort();
	release(read, found);
	strbuf_release(&bytes);
	strbuf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct strbuf bytes = STRBUF_INIT;
	struct measured_run runs[RUNS];
	struct error e = { 0 };
	size_t count;

	strbuf_adds(&bytes, BASELINE_HEADER);
	strbuf_add(&bytes, &(uint32_t){ crc32c(0, input, size) }, 4);
	strbuf_add(&bytes, input, size);
	if (baseline_decode(bytes.data, bytes.length, runs, RUNS, &count, &e) == 0)
		check_again(runs, count);
	else if (!*e.text)
		abort();
	release(runs, count);
	strbuf_release(&bytes);
	return 0;
}
