#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_tests.h"

static const char *hex_of(const uint8_t *bytes)
{
	static char text[2 * SHA256_BYTES + 1];

	for (size_t i = 0; i < SHA256_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	return text;
}

static void sums_to(const char *text, size_t times, const char *want)
{
	struct sha256 s;
	uint8_t out[SHA256_BYTES];

	sha256_begin(&s);
	for (size_t i = 0; i < times; i++)
		sha256_add(&s, text, strlen(text));
	sha256_end(&s, out);
	assert_string_equal(hex_of(out), want);
}

/* Examples of NIST. */
static void sums(void **state)
{
	(void)state;
	sums_to("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sums_to("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sums_to("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	sums_to("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void signs(const char *key, size_t length, const char *text, const char *want)
{
	struct hmac h;
	uint8_t out[SHA256_BYTES];

	hmac_begin(&h, key, length);
	hmac_add(&h, text, strlen(text));
	hmac_end(&h, out);
	assert_string_equal(hex_of(out), want);
}

/* Test cases 2 and 6 of RFC 4231: a short key, and one that is longer than a block. */
static void signatures(void **state)
{
	char key[131];

	(void)state;
	memset(key, 0xaa, sizeof(key));
	signs("Jefe", 4, "what do ya want for nothing?",
	      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	signs(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First",
	      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void comparison(void **state)
{
	(void)state;
	assert_true(equal_secret("abc", "abc", 3));
	assert_true(equal_secret("abc", "abd", 2));
	assert_false(equal_secret("abc", "abd", 3));
	assert_false(equal_secret("abc", "bbc", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(signatures),
		cmocka_unit_test(comparison),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
