#include "capture/nvtx/nvtx_text.h"

#include <string.h>
#include <wchar.h>

_Static_assert(sizeof(wchar_t) == 4, "wide texts are UTF-32 on Linux");

#define REPLACEMENT 0xfffdu
#define CHARACTER_BYTES_MAX 4

size_t nvtx_text_copy(char *out, size_t room, const char *text, bool *cut)
{
	size_t length = strnlen(text, room);
	size_t whole = length;

	*cut = length == room && text[room] != '\0';
	if (*cut) {
		for (int i = 1;
		     i < CHARACTER_BYTES_MAX && whole > 0 && ((uint8_t)text[whole] & 0xc0) == 0x80;
		     i++)
			whole--;
		if (((uint8_t)text[whole] & 0xc0) != 0x80)
			length = whole;
	}
	memcpy(out, text, length);
	return length;
}

static size_t put_character(uint8_t *p, uint32_t c)
{
	if (c < 0x80) {
		p[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		p[0] = (uint8_t)(0xc0 | c >> 6);
		p[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		p[0] = (uint8_t)(0xe0 | c >> 12);
		p[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		p[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	p[0] = (uint8_t)(0xf0 | c >> 18);
	p[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	p[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	p[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

size_t nvtx_text_narrow(char *out, size_t room, const void *text, bool *cut)
{
	const char *from = text;
	size_t length = 0;

	for (;; from += sizeof(uint32_t)) {
		uint8_t bytes[CHARACTER_BYTES_MAX];
		uint32_t c;
		size_t n;

		memcpy(&c, from, sizeof(c));
		if (c == 0)
			break;
		n = put_character(bytes,
				  c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? REPLACEMENT : c);
		if (length + n > room) {
			*cut = true;
			return length;
		}
		memcpy(out + length, bytes, n);
		length += n;
	}
	*cut = false;
	return length;
}
