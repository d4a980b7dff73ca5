#include "serve/serve_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/html.h"
#include "base/json.h"

/* Embedded by cmake/PitotEmbed.cmake. */
extern const char serve_css[], serve_list_js[], serve_live_js[], page_search_js[],
	page_elements_js[];

static void begin(struct strbuf *out, const char *title, const char *head)
{
	strbuf_addf(out,
		    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width\">\n%s<title>%s</title>\n"
		    "<style>\n%s</style>\n</head>\n<body>\n",
		    head, title, serve_css);
}

static void end(const struct serve *s, const char *search, const char *script, struct strbuf *out)
{
	strbuf_addf(out,
		    "<script nonce=\"%s\" type=\"module\">\n%s%s%s</script>\n</body>\n</html>\n",
		    s->nonce, search, page_elements_js, script);
}

void serve_problem(struct serve *s, uint64_t connection, unsigned status, const char *text)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;

	begin(&page, "pitot", "");
	strbuf_adds(&page, "<nav><a href=\"/\">Recordings</a></nav>\n<main><p class=\"problem\">");
	html_escape(&page, text, strlen(text));
	strbuf_adds(&page, "</p></main>\n</body>\n</html>\n");
	http_answer(&s->http, connection,
		    &(struct http_answer){ .status = status,
					   .type = "text/html; charset=utf-8",
					   .body = strbuf_text(&page),
					   .length = page.length });
}

/* A redirection would be part of a request of another site, which has no cookie. */
void serve_enter_page(const struct serve *s, struct strbuf *out)
{
	(void)s;
	begin(out, "pitot", "<meta http-equiv=\"refresh\" content=\"0;url=/\">\n");
	strbuf_adds(out, "<main><p><a href=\"/\">Recordings</a></p></main>\n</body>\n</html>\n");
}

void serve_list_page(const struct serve *s, struct strbuf *out)
{
	_cleanup_free_ char *whole = realpath(s->options.path, NULL);
	const char *path = whole ? whole : s->options.path;

	begin(out, "recordings", "");
	strbuf_adds(out, "<nav><b>Recordings</b> <a href=\"/live\">Live</a></nav>\n<main>\n<h1>");
	html_escape(out, path, strlen(path));
	strbuf_adds(
		out,
		"</h1>\n<div class=\"tools\"><input id=\"search\" type=\"search\" "
		"placeholder=\"Search (press /)\" aria-label=\"search\" title=\"part of a "
		"name, a command, a host, a verdict; a|b: either\"><button id=\"diff\" "
		"disabled>Compare two</button><span id=\"found\" role=\"status\"></span></div>\n"
		"<div class=\"table\"><table id=\"list\" hidden><thead><tr><th></th>"
		"<th>recording</th><th>command</th><th>host</th><th>started</th>"
		"<th class=\"number\">duration</th><th>GPU</th><th>verdict</th><th></th></tr>"
		"</thead><tbody></tbody></table></div>\n</main>\n");
	end(s, page_search_js, serve_list_js, out);
}

void serve_live_page(const struct serve *s, struct strbuf *out)
{
	begin(out, "live", "");
	strbuf_adds(out, "<nav><a href=\"/\">Recordings</a> <b>Live</b></nav>\n<main>\n"
			 "<h1>Programs on the GPUs of this machine</h1>\n"
			 "<p id=\"found\" role=\"status\"></p>\n<div class=\"table\"><table "
			 "id=\"gpus\" hidden></table></div>\n<div class=\"table\"><table "
			 "id=\"programs\" hidden></table></div>\n</main>\n");
	end(s, "", serve_live_js, out);
}

static void add_item(struct serve *s, struct served_recording *item, struct json *j)
{
	int folder = recordings_enter(&s->recordings, item);
	char id[17];

	if (folder >= 0)
		close(folder);
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)item->id);
	json_object(j);
	json_key_string(j, "id", id);
	json_key_string(j, "name", item->name);
	json_key_bool(j, "window", strchr(item->path, '/') != NULL);
	json_key_u64(j, "bytes", item->stamp.bytes);
	json_key_u64(j, "changed_ms", item->stamp.newest_ns / 1000000);
	json_key(j, "summary");
	json_null(j);
	if (item->summary) { /* as its worker wrote it */
		j->out->length -= strlen("null");
		strbuf_adds(j->out, item->summary);
	}
	json_end(j);
}

void serve_list(struct serve *s, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	out->failed |= recordings_read(&s->recordings) < 0;
	json_object(&j);
	json_key_bool(&j, "has_more", s->recordings.has_more);
	json_key_array(&j, "recordings");
	for (size_t i = 0; i < s->recordings.items.count; i++)
		add_item(s, &s->recordings.items.data[i], &j);
	json_finish(&j);
}
