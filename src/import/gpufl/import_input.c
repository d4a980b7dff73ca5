#include "import/gpufl/import_input.h"

#include <errno.h>
#include <string.h>

#define PIECE_BYTES ((size_t)256 << 10)
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/*
 * Reads more text after the unread rest. A line can have gigabytes in a small file. Returns 0,
 * -ECANCELED or -ENOMEM.
 */
static int read_piece(struct log_lines *l)
{
	ssize_t n;

	if (l->at)
		memmove(l->text.data, l->text.data + l->at, l->text.length - l->at);
	l->text.length -= l->at;
	l->at = 0;
	if (!strbuf_reserve(&l->text, PIECE_BYTES))
		return -ENOMEM;
	n = input_read(l->in, l->text.data + l->text.length, PIECE_BYTES);
	if (n < 0)
		return (int)n;
	l->text.length += (size_t)n;
	l->at_end = n < (ssize_t)PIECE_BYTES;
	return 0;
}

/* Skips the rest of the overlong line that begins at l->at. */
static int skip_line(struct log_lines *l)
{
	char *end = NULL;
	int r;

	l->too_long++;
	do {
		l->at = l->text.length;
		r = read_piece(l);
		if (r < 0)
			return r;
		end = memchr(l->text.data, '\n', l->text.length);
	} while (!end && !l->at_end);
	l->at = end ? (size_t)(end + 1 - l->text.data) : l->text.length;
	return 0;
}

int log_lines_next(struct log_lines *l)
{
	size_t searched = 0;
	int r;

	if (!l->text.data) {
		r = read_piece(l);
		if (r < 0)
			return r;
		if (l->text.length >= strlen(BYTE_ORDER_MARK) &&
		    !memcmp(l->text.data, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)))
			l->at = strlen(BYTE_ORDER_MARK);
	}
	for (;;) {
		char *line = l->text.data + l->at;
		size_t left = l->text.length - l->at;
		char *end = memchr(line + searched, '\n', left - searched);

		l->ended = end != NULL;
		if (end || (l->at_end && left)) {
			l->line = line;
			l->length = end ? (size_t)(end - line) : left;
			l->at += l->length + l->ended;
			return 1;
		}
		if (l->at_end)
			return 0;
		searched = left > INPUT_LINE_MAX ? 0 : left;
		r = left > INPUT_LINE_MAX ? skip_line(l) : read_piece(l);
		if (r < 0)
			return r;
	}
}

void log_lines_release(struct log_lines *l)
{
	strbuf_release(&l->text);
}
