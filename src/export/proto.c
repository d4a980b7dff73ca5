#include "export/proto.h"

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
	if (!proto_reserve(s, PROTO_FIELD_MAX + length))
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
	if (length > SIZE_MAX / 8 || !proto_reserve(s, PROTO_FIELD_MAX + 3 * length))
		return;
	token = proto_open(s, field);
	while (i < length) {
		size_t n = utf8_length(text + i, length - i, &bad);

		raw_add(s, n ? text + i : UTF8_REPLACEMENT, n ? n : sizeof(UTF8_REPLACEMENT) - 1);
		i += n ? n : bad;
	}
	proto_close(s, token);
}
