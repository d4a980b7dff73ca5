#include "report/text.h"

#include <string.h>

#include "base/utf8.h"

const char *style_begin(bool color, enum style style)
{
	static const char *const sequences[] = {
		[STYLE_NONE] = "\033[0m",  [STYLE_BOLD] = "\033[1m",   [STYLE_DIM] = "\033[2m",
		[STYLE_RED] = "\033[31m",  [STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
		[STYLE_BLUE] = "\033[34m", [STYLE_CYAN] = "\033[36m",
	};

	return color ? sequences[style] : "";
}

void style_add(struct strbuf *out, bool color, enum style style, const char *text)
{
	if (style == STYLE_NONE)
		color = false;
	strbuf_adds(out, style_begin(color, style));
	strbuf_adds(out, text);
	strbuf_adds(out, style_begin(color, STYLE_NONE));
}

size_t text_columns(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

size_t text_prefix(const char *text, size_t columns)
{
	size_t i = 0;

	for (; text[i]; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80 && columns-- == 0)
			break;
	return i;
}

void text_shorten(struct strbuf *text, size_t columns)
{
	if (text_columns(strbuf_text(text), text->length) <= columns)
		return;
	text->length = text_prefix(text->data, columns - strlen(TEXT_CUT));
	strbuf_adds(text, TEXT_CUT);
}

static void indent_line(struct strbuf *out, unsigned indent)
{
	for (unsigned i = 0; i < indent; i++)
		strbuf_addc(out, ' ');
}

void text_fold(struct strbuf *out, const char *text, unsigned indent, unsigned width)
{
	unsigned column = 0; /* 0: nothing on this line yet */

	while (*text) {
		size_t word = strcspn(text, " \n");
		unsigned columns = (unsigned)text_columns(text, word);

		if (word && column && column + 1 + columns > width) {
			strbuf_addc(out, '\n');
			column = 0;
		}
		if (word && !column) {
			indent_line(out, indent);
			column = indent;
		} else if (word) {
			strbuf_addc(out, ' ');
			column++;
		}
		strbuf_add(out, text, word);
		column += columns;
		text += word;
		if (*text == '\n') {
			strbuf_addc(out, '\n');
			column = 0;
		}
		text += *text != '\0';
	}
	if (column)
		strbuf_addc(out, '\n');
}

/* What .NET, in which GitHub's runner is written, removes from the beginning of a line. */
static bool is_blank(uint32_t code)
{
	return code == ' ' || code == 0xa0 || code == 0x1680 || code == 0x3000 ||
	       (code >= 0x2000 && code < 0x2070);
}

static bool begins_with(const unsigned char *p, const unsigned char *end, const char *text)
{
	return (size_t)(end - p) >= strlen(text) && !memcmp(p, text, strlen(text));
}

void text_safe(struct strbuf *out, const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + length;
	bool after_blank = true; /* the text may be first on its line, or be folded here */

	while (p < end) {
		uint32_t code = 0;
		size_t bad, n = utf8_decode(p, (size_t)(end - p), &code, &bad);
		bool is_command =
			(after_blank && begins_with(p, end, "::")) || begins_with(p, end, "##[");

		after_blank = n && is_blank(code);
		if (!n || is_command || (utf8_is_harmful(code) && code < 0xa0)) {
			strbuf_addf(out, "\\x%02x", *p);
			/*
			 * the second byte of a C1 control is invalid on its own, and escaped next
			 */
			p++;
			continue;
		}
		if (utf8_is_harmful(code))
			strbuf_addf(out, "\\u{%x}", code);
		else
			strbuf_add(out, p, n);
		p += n;
	}
}

const char *text_shade(bool utf8, uint64_t part, uint64_t whole)
{
	static const char *const shades[] = { " ", "░", "▒", "▓", "█" };
	static const char *const ascii[] = { " ", ".", ":", "+", "#" };
	uint64_t level = (uint64_t)((unsigned __int128)part * 4 / MAX(whole, 1));

	level = part ? 1 + MIN(level, 3) : 0;
	return utf8 ? shades[level] : ascii[level];
}
