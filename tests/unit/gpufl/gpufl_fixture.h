/* gpufl_fixture.h: a sink of gpufl's logs, rows for it, and what it has written. */
#ifndef PITOT_TEST_GPUFL_FIXTURE_H
#define PITOT_TEST_GPUFL_FIXTURE_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/io.h"
#include "base/strbuf.h"
#include "format/writer.h"
#include "gpufl/gpufl_sink.h"
#include "support/cmocka_tests.h"

#define SESSION "01234567-89ab-4def-8123-456789abcdef"
#define EPOCH 1000000000 /* of the epoch when CLOCK_MONOTONIC is 0 */

static inline struct sink *sink_open(const char *folder, struct gpufl_options o)
{
	struct sink *sink = NULL;
	struct error e = { 0 };

	o.files.log_path = folder;
	o.files.session = SESSION;
	if (!o.files.min_free_bytes)
		o.files.min_free_bytes = 1;
	o.epoch_offset_ns = EPOCH;
	if (gpufl_sink_new(&o, &sink, &e) < 0)
		fail_msg("%s", e.text);
	return sink;
}

#define ROW(sink, table, ...)                                                                      \
	(sink)->ops->append((sink), TABLE_##table, &(struct row_##table){ __VA_ARGS__ })

static inline void text_row(struct sink *s, uint32_t id, const char *text)
{
	ROW(s, string, .id = id, .text = { text, (uint32_t)strlen(text) });
}

/* A file of the session, whole. */
static inline char *session_file(const char *folder, const char *name)
{
	static char path[4096 + 64];

	snprintf(path, sizeof(path), "%s/" SESSION "/%s", folder, name);
	return path;
}

/* The text of a window; the caller frees. */
static inline char *window_text(const char *folder, const char *name)
{
	gzFile file = gzopen(session_file(folder, name), "rb");
	struct strbuf text = STRBUF_INIT;
	char piece[4096];
	int n;

	assert_non_null(file);
	while ((n = gzread(file, piece, sizeof(piece))) > 0)
		strbuf_add(&text, piece, (size_t)n);
	assert_int_equal(n, 0);
	assert_int_equal(gzclose(file), Z_OK);
	return text.data;
}

/*
 * The line number n of a type, from 0, without its newline; NULL: there is none. For use within one
 * expression.
 */
static inline const char *find_line(const char *text, const char *type, unsigned n)
{
	static char line[65536];
	char key[64];

	snprintf(key, sizeof(key), "\"type\":\"%s\"", type);
	for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
		size_t length = strcspn(at, "\n");

		assert_true(length < sizeof(line));
		memcpy(line, at, length);
		line[length] = '\0';
		if (strstr(line, key) && n-- == 0)
			return line;
	}
	return NULL;
}

#endif
