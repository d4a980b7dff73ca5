/*
 * json.h: writes JSON text into a strbuf, taking care of commas, nesting and escapes. Numbers are
 * integers or fixed point, except values that were doubles in the recorded program. Invalid UTF-8
 * is replaced by U+FFFD.
 *
 *	struct json j = JSON_INIT(&buffer);
 *	json_object(&j); json_key(&j, "rows"); json_u64(&j, 5); json_end(&j);
 */
#ifndef PITOT_BASE_JSON_H
#define PITOT_BASE_JSON_H

#include <stdbool.h>

#include "base/strbuf.h"

#define JSON_DEPTH_MAX 32
#define JSON_DOUBLE_BYTES 32

struct json {
	struct strbuf *out;
	unsigned depth;
	/* newlines, and two spaces per level; else one space after ':' and ',' */
	bool pretty;
	bool first[JSON_DEPTH_MAX];
	bool is_array[JSON_DEPTH_MAX];
	bool after_key;
};

#define JSON_INIT(buffer) { .out = (buffer) }
#define JSON_PRETTY(buffer) { .out = (buffer), .pretty = true }

void json_object(struct json *j);
void json_array(struct json *j);
void json_end(struct json *j);			/* closes the innermost object or array */
void json_finish(struct json *j);		/* closes all open levels and ends the line */
void json_key(struct json *j, const char *key);
void json_string(struct json *j, const char *text);	/* NULL writes null */
void json_bytes(struct json *j, const char *text, size_t length);
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_bool(struct json *j, bool v);
void json_null(struct json *j);
/* Writes value / 10^decimals with exactly that many decimals: json_fixed(j, 1234, 3) is 1.234. */
void json_fixed(struct json *j, int64_t value, unsigned decimals);
/*
 * Writes the fewest digits, of at least 15, that read back as the same number. The decimal
 * separator is a point in every locale. The value must be finite.
 */
void json_double_text(char text[JSON_DOUBLE_BYTES], double value);
/* Writes json_double_text; null for infinities and NaN. */
void json_double(struct json *j, double value);
/* Same, but "inf", "-inf" and "nan" as texts. */
void json_any_double(struct json *j, double value);

/* Write a key and its value. */
void json_key_object(struct json *j, const char *key);
void json_key_array(struct json *j, const char *key);
void json_key_string(struct json *j, const char *key, const char *text);
void json_key_u64(struct json *j, const char *key, uint64_t v);
void json_key_known(struct json *j, const char *key, bool known, uint64_t v); /* null if !known */
void json_key_i64(struct json *j, const char *key, int64_t v);
void json_key_bool(struct json *j, const char *key, bool v);

/*
 * Append text with JSON escapes, with and without quotes, for writers that must be faster than
 * struct json.
 */
void json_quote(struct strbuf *out, const char *text, size_t length);
void json_escape(struct strbuf *out, const char *text, size_t length);

#endif
