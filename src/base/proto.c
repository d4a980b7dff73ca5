#include "base/proto.h"

#include "base/utf8.h"

void proto_close_long(struct strbuf *s, size_t token)
{
	uint8_t prefix[VARINT_MAX];
	size_t length, n;

	if (s->failed)
		return;
	length = s->length - token;
	n = varint_put(prefix, length);
	memmove(s->data + token - 1 + n, s->data + token, length);
	memcpy(s->data + token - 1, prefix, n);
	s->length += n - 1;
}

void proto_bytes(struct strbuf *s, uint32_t field, const void *bytes, size_t length)
{
	if (!raw_reserve(s, length))
		return;
	proto_tag(s, field, PROTO_LENGTH);
	proto_raw(s, length);
	if (length)
		raw_add(s, bytes, length);
}

void proto_string(struct strbuf *s, uint32_t field, const char *text)
{
	proto_bytes(s, field, text, strlen(text));
}

void proto_text(struct strbuf *s, uint32_t field, const char *text, size_t length)
{
	size_t token, i = 0, bad;

	/* The worst case: every byte is replaced. */
	if (length > SIZE_MAX / 8 || !raw_reserve(s, 3 * length))
		return;
	token = proto_open(s, field);
	while (i < length) {
		size_t n = utf8_length(text + i, length - i, &bad);

		raw_add(s, n ? text + i : UTF8_REPLACEMENT, n ? n : sizeof(UTF8_REPLACEMENT) - 1);
		i += n ? n : bad;
	}
	proto_close(s, token);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t hex_decode(const char *text, uint8_t *bytes, size_t max)
{
	size_t n = 0;

	for (; n < max && text[2 * n]; n++) {
		int high = hex_digit(text[2 * n]), low = hex_digit(text[2 * n + 1]);

		if (high < 0 || low < 0)
			return 0;
		bytes[n] = (uint8_t)(high << 4 | low);
	}
	return n;
}
