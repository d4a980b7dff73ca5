#include "capture/nvtx/nvtx_calls.h"

#include <string.h>
#include <wchar.h>

#include "base/utf8.h"

_Static_assert(sizeof(wchar_t) == 4, "wide texts are UTF-32 on Linux");

size_t nvtx_text_copy(char *out, size_t room, const char *text, bool *cut)
{
	size_t length = strnlen(text, room);
	size_t whole = length;

	*cut = length == room && text[room] != '\0';
	if (*cut) {
		for (int i = 1; i < UTF8_MAX && whole > 0 && ((uint8_t)text[whole] & 0xc0) == 0x80;
		     i++)
			whole--;
		if (((uint8_t)text[whole] & 0xc0) != 0x80)
			length = whole;
	}
	memcpy(out, text, length);
	return length;
}

size_t nvtx_text_narrow(char *out, size_t room, const void *text, bool *cut)
{
	const char *from = text;
	size_t length = 0;

	for (;; from += sizeof(uint32_t)) {
		uint8_t bytes[UTF8_MAX];
		uint32_t c;
		size_t n;

		memcpy(&c, from, sizeof(c));
		if (c == 0)
			break;
		n = utf8_put(bytes, c);
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
