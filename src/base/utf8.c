#include "base/utf8.h"

size_t utf8_length(const void *bytes, size_t left, size_t *bad)
{
	const uint8_t *p = bytes;
	uint8_t lead = p[0], low = 0x80, high = 0xbf;
	size_t length;

	*bad = 1;
	if (lead < 0x80)
		return 1;
	if (lead >= 0xc2 && lead <= 0xdf)
		length = 2;
	else if (lead >= 0xe0 && lead <= 0xef)
		length = 3;
	else if (lead >= 0xf0 && lead <= 0xf4)
		length = 4;
	else
		return 0;
	/* The second byte shows overlong forms, surrogates and characters beyond U+10FFFF. */
	if (lead == 0xe0)
		low = 0xa0;
	else if (lead == 0xed)
		high = 0x9f;
	else if (lead == 0xf0)
		low = 0x90;
	else if (lead == 0xf4)
		high = 0x8f;
	for (size_t i = 1; i < length; i++) {
		if (i >= left || p[i] < low || p[i] > high)
			return 0;
		*bad = i + 1;
		low = 0x80;
		high = 0xbf;
	}
	return length;
}

size_t utf8_decode(const void *bytes, size_t left, uint32_t *code, size_t *bad)
{
	const uint8_t *p = bytes;
	size_t length = utf8_length(bytes, left, bad);

	*code = length > 1 ? p[0] & (0xffu >> (length + 1)) : p[0];
	for (size_t i = 1; i < length; i++)
		*code = *code << 6 | (p[i] & 0x3f);
	return length;
}

bool utf8_is_harmful(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
	       (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

size_t utf8_put(uint8_t out[UTF8_MAX], uint32_t c)
{
	size_t length;

	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	if ((c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		c = 0xfffd;
	length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	out[0] = (uint8_t)(0xf00u >> length | c >> 6 * (length - 1)); /* as many ones as bytes */
	for (size_t i = 1; i < length; i++)
		out[i] = (uint8_t)(0x80 | (c >> 6 * (length - 1 - i) & 0x3f));
	return length;
}
