#include "base/html.h"

#include <string.h>

#include "base/utf8.h"

static const char *served_nonce, *served_bar;

void html_serve(const char *nonce, const char *bar)
{
	served_nonce = nonce;
	served_bar = bar;
}

const char *html_serve_bar(const char *bar)
{
	const char *before = served_bar;

	served_bar = bar;
	return before;
}

void html_add_policy(struct strbuf *out)
{
	if (!served_nonce)
		strbuf_adds(out, "<meta http-equiv=\"Content-Security-Policy\" content=\""
				 "default-src 'none'; style-src 'unsafe-inline'; "
				 "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
				 "form-action 'none'\">\n");
}

void html_add_body(struct strbuf *out)
{
	strbuf_addf(out, "<body>\n%s", served_bar ? served_bar : "");
}

void html_add_script(struct strbuf *out, const char *attributes)
{
	strbuf_adds(out, "<script");
	if (served_nonce)
		strbuf_addf(out, " nonce=\"%s\"", served_nonce);
	strbuf_addf(out, "%s>\n", attributes);
}

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
