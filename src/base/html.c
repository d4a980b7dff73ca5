#include "base/html.h"

#include <string.h>

#include "base/utf8.h"

void html_escape(struct strbuf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		unsigned char c = (unsigned char)text[i];
		size_t bad, n = utf8_length(text + i, length - i, &bad);

		if (c == '&')
			strbuf_adds(out, "&amp;");
		else if (c == '<')
			strbuf_adds(out, "&lt;");
		else if (c == '>')
			strbuf_adds(out, "&gt;");
		else if (c == '"')
			strbuf_adds(out, "&quot;");
		else if (c == '\'')
			strbuf_adds(out, "&#39;");
		else if (c == '\n' || c == '\t' || c == '\r') /* in inline scripts of commands */
			strbuf_addc(out, ' ');
		else if (!n || c < ' ' || c == 0x7f ||
			 (n == 3 && c == 0xef && !memcmp(text + i + 1, "\xbf", 1) &&
			  (unsigned char)text[i + 2] >= 0xbe))
			strbuf_adds(out, UTF8_REPLACEMENT);
		else
			strbuf_add(out, text + i, n);
		i += n ? n : bad;
	}
}

void html_add_json(struct strbuf *out, const char *json, size_t length)
{
	while (length) {
		const char *bracket = memchr(json, '<', length);
		size_t n = bracket ? (size_t)(bracket - json) : length;

		strbuf_add(out, json, n);
		if (bracket)
			strbuf_adds(out, "\\u003c");
		n += bracket != NULL;
		json += n;
		length -= n;
	}
}
