#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define CAPACITY_MIN 64

void strbuf_release(struct strbuf *s)
{
	free(s->data);
	*s = (struct strbuf)STRBUF_INIT;
}

void strbuf_clear(struct strbuf *s)
{
	s->length = 0;
	if (s->data)
		s->data[0] = '\0';
}

static bool grow(struct strbuf *s, size_t needed)
{
	size_t capacity = MAX(needed, (size_t)CAPACITY_MIN);
	char *data;

	if (s->capacity <= SIZE_MAX / 4)
		capacity = MAX(capacity, 2 * s->capacity);
	data = realloc(s->data, capacity);
	if (!data) {
		s->failed = true;
		return false;
	}
	if (!s->data)
		data[0] = '\0';
	s->data = data;
	s->capacity = capacity;
	return true;
}

bool strbuf_reserve(struct strbuf *s, size_t extra)
{
	size_t needed;

	if (s->failed)
		return false;
	if (__builtin_add_overflow(s->length, extra, &needed) || needed >= PTRDIFF_MAX) {
		s->failed = true;
		return false;
	}
	return needed < s->capacity || grow(s, needed + 1);
}

void strbuf_add(struct strbuf *s, const void *bytes, size_t length)
{
	if (!strbuf_reserve(s, length))
		return;
	if (length)
		memcpy(s->data + s->length, bytes, length);
	s->length += length;
	s->data[s->length] = '\0';
}

void strbuf_adds(struct strbuf *s, const char *text)
{
	strbuf_add(s, text, strlen(text));
}

void strbuf_addc(struct strbuf *s, char c)
{
	if (!strbuf_reserve(s, 1))
		return;
	s->data[s->length++] = c;
	s->data[s->length] = '\0';
}

void strbuf_addu(struct strbuf *s, uint64_t v)
{
	char digits[20];
	size_t i = sizeof(digits);

	do {
		digits[--i] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	strbuf_add(s, digits + i, sizeof(digits) - i);
}

void strbuf_add_utf8(struct strbuf *s, const char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t bad, n = utf8_length(text + i, length - i, &bad);

		if (n)
			strbuf_add(s, text + i, n);
		else
			strbuf_adds(s, UTF8_REPLACEMENT);
		i += n ? n : bad;
	}
}

void strbuf_add_base64(struct strbuf *s, const void *bytes, size_t length)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const uint8_t *from = bytes;

	if (!strbuf_reserve(s, length / 3 * 4 + 4))
		return;
	for (size_t i = 0; i < length; i += 3) {
		uint32_t v = (uint32_t)from[i] << 16;
		char *to = s->data + s->length;

		v |= i + 1 < length ? (uint32_t)from[i + 1] << 8 : 0;
		v |= i + 2 < length ? from[i + 2] : 0;
		to[0] = digits[v >> 18];
		to[1] = digits[v >> 12 & 63];
		to[2] = i + 1 < length ? digits[v >> 6 & 63] : '=';
		to[3] = i + 2 < length ? digits[v & 63] : '=';
		s->length += 4;
	}
	s->data[s->length] = '\0';
}

void strbuf_vaddf(struct strbuf *s, const char *format, va_list args)
{
	va_list again;
	size_t room;
	int n;

	if (!strbuf_reserve(s, 0))
		return;
	room = s->capacity - s->length;
	va_copy(again, args);
	n = vsnprintf(s->data + s->length, room, format, args);
	if (n >= 0 && (size_t)n >= room && strbuf_reserve(s, (size_t)n))
		n = vsnprintf(s->data + s->length, s->capacity - s->length, format, again);
	va_end(again);
	if (n < 0)
		s->failed = true;
	if (s->failed)
		s->data[s->length] = '\0';
	else
		s->length += (size_t)n;
}

void strbuf_addf(struct strbuf *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	strbuf_vaddf(s, format, args);
	va_end(args);
}

const char *strbuf_text(const struct strbuf *s)
{
	return s->data ? s->data : "";
}
