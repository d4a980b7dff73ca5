#include "base/http_request.h"

#include <string.h>

#include "support/cmocka_tests.h"

#define GET "GET / HTTP/1.1\r\nHost: x\r\n"

static char head[1024];

static unsigned parse(const char *text, struct http_request *r)
{
	size_t length = strlen(text);

	memcpy(head, text, length + 1);
	return http_request_parse(head, length, r);
}

static void what_is_sent(void **state)
{
	struct http_request r;

	(void)state;
	assert_int_equal(parse("GET /a/b?c=1 HTTP/1.1\r\nhOST:  x:1 \t\r\nAccept: \r\n"
			       "Origin: null\r\nCookie: a=1; b=2\r\n\r\n",
			       &r),
			 0);
	assert_false(r.is_head);
	assert_string_equal(r.path, "/a/b");
	assert_string_equal(r.query, "c=1");
	assert_string_equal(r.host, "x:1");
	assert_string_equal(r.origin, "null");
	assert_string_equal(r.cookie, "a=1; b=2");
	assert_int_equal(parse("HEAD / HTTP/1.0\r\nHost:\r\n\r\n", &r), 0);
	assert_true(r.is_head);
	assert_string_equal(r.query, "");
	assert_null(r.origin);
	assert_null(r.cookie);
}

static void what_is_refused(void **state)
{
	static const struct {
		const char *text;
		unsigned status;
	} refused[] = {
		{ "", 400 },
		{ "GET / HTTP/1.1\r\n\r\n", 400 },
		{ GET, 400 },
		{ "POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405 },
		{ "get / HTTP/1.1\r\nHost: x\r\n\r\n", 405 },
		{ "GET / HTTP/2\r\nHost: x\r\n\r\n", 505 },
		{ "GET / HTTX/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET /\r\nHost: x\r\n\r\n", 400 },
		{ " / HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET http://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET /#a HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET /\x7f HTTP/1.1\r\nHost: x\r\n\r\n", 400 },
		{ "GET / HTTP/1.1\nHost: x\r\n\r\n", 400 },
		{ GET " folded: x\r\n\r\n", 400 },
		{ GET "a b: x\r\n\r\n", 400 },
		{ GET "a : x\r\n\r\n", 400 },
		{ GET "nothing\r\n\r\n", 400 },
		{ GET "a: x\ry\r\n\r\n", 400 },
		{ GET "host: y\r\n\r\n", 400 },
		{ GET "Origin: a\r\nOrigin: a\r\n\r\n", 400 },
		{ GET "Cookie: a\r\ncookie: a\r\n\r\n", 400 },
		{ GET "Transfer-Encoding: chunked\r\n\r\n", 400 },
		{ GET "Content-Length: 1\r\n\r\n", 400 },
	};
	struct http_request r;

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		assert_int_equal(parse(refused[i].text, &r), refused[i].status);
	assert_int_equal(parse(GET "Content-Length: 0\r\n\r\n", &r), 0);
	memcpy(head, GET "a: \0\r\n\r\n", sizeof(GET) + 8);
	assert_int_equal(http_request_parse(head, sizeof(GET) + 7, &r), 400);
}

static void where_a_head_ends(void **state)
{
	(void)state;
	assert_int_equal(http_head_length(NULL, 0), 0);
	assert_int_equal(http_head_length("a\r\n\r", 4), 0);
	assert_int_equal(http_head_length("a\r\n\r\nb", 6), 5);
}

static void values_by_name(void **state)
{
	struct http_request r = { .query = "ab=0&b=&a=1&a=2&long=12345678&z",
				  .cookie = "xa=0; a=1;b=2" };
	char value[8];

	(void)state;
	assert_true(http_parameter(&r, "a", value, sizeof(value)));
	assert_string_equal(value, "1");
	assert_true(http_parameter(&r, "b", value, sizeof(value)));
	assert_string_equal(value, "");
	assert_false(http_parameter(&r, "z", value, sizeof(value)));
	assert_false(http_parameter(&r, "long", value, sizeof(value)));
	assert_true(http_cookie(&r, "a", value, sizeof(value)));
	assert_string_equal(value, "1");
	assert_true(http_cookie(&r, "b", value, sizeof(value)));
	assert_string_equal(value, "2");
	r.cookie = NULL;
	assert_false(http_cookie(&r, "a", value, sizeof(value)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(where_a_head_ends),
		cmocka_unit_test(values_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
