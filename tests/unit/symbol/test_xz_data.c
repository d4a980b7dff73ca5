/* What xz compressed comes back, of whatever size; what is no such thing, or cut, does not. */
#include "compiled_fixture.h"

#include "symbol/xz_data.h"

static void made_of(size_t size)
{
	_cleanup_strbuf_ struct strbuf plain = STRBUF_INIT, packed = STRBUF_INIT;
	struct error e = { 0 };
	uint64_t word = 1;
	size_t found;
	uint8_t *out;

	while (plain.length < size) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		strbuf_addf(&plain, "%d ", (int)(word >> 40));
	}
	write_file("plain", plain.data, plain.length);
	shell("rm -f plain.xz && xz -1 plain");
	read_file("plain.xz", &packed);
	assert_int_equal(
		xz_decompress((const uint8_t *)packed.data, packed.length, &out, &found, &e), 0);
	assert_int_equal(found, plain.length);
	assert_memory_equal(out, plain.data, found);
	free(out);
	assert_true(xz_decompress((const uint8_t *)packed.data, packed.length / 2, &out, &found,
				  &e) < 0);
	packed.data[packed.length / 2] ^= 1;
	assert_true(xz_decompress((const uint8_t *)packed.data, packed.length, &out, &found, &e) <
		    0);
	assert_non_null(strstr(e.text, "MiniDebugInfo"));
}

static void sizes(void **state)
{
	(void)state;
#ifndef PITOT_HAVE_LZMA
	skip();
#endif
	if (!have_tool("xz"))
		skip();
	made_of(10);
	made_of(5000000); /* the buffer grows three times */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
