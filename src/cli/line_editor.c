#include "cli/line_editor.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/search.h"
#include "cli/keys.h"
#include "cli/ui.h"

#define LINE_BYTES_MAX ((size_t)1 << 20)
#define HISTORY_MAX 1000u
#define LISTED_MAX 200u /* candidates that are shown */

struct line_words {
	const char *word;
	VEC(char *) items;
};

void line_words_add(struct line_words *w, const char *word)
{
	char *copy = strncasecmp(word, w->word, strlen(w->word)) ? NULL : strdup(word);

	/* Without memory there are fewer candidates. */
	if (copy && vec_push(&w->items, copy) < 0)
		free(copy);
}

bool line_editor_is_possible(void)
{
	const char *terminal = getenv("TERM");

	return keys_are_ours() && isatty(STDERR_FILENO) && terminal &&
	       strcmp(terminal, "dumb") != 0;
}

/* ---- the line on the screen ---- */

static bool is_inside(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static size_t before(const struct line_editor *e, size_t at)
{
	while (at > 0 && is_inside(e->text.data[--at]))
		;
	return at;
}

static size_t after(const struct line_editor *e, size_t at)
{
	while (at < e->text.length && is_inside(e->text.data[++at]))
		;
	return at;
}

static size_t characters(const char *text, size_t length)
{
	size_t count = 0;

	for (size_t i = 0; i < length; i++)
		count += !is_inside(text[i]);
	return count;
}

/* Draws as much of the line as fits, so that the cursor is in it. */
static void draw(const struct line_editor *e, const char *prompt)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	size_t width = MAX(terminal_width(STDERR_FILENO), 20u), room, from = 0, to;

	room = width - MIN(strlen(prompt), width / 2) - 1;
	while (characters(strbuf_text(&e->text) + from, e->cursor - from) > room)
		from = after(e, from);
	for (to = from;
	     to < e->text.length && characters(strbuf_text(&e->text) + from, to - from) < room;)
		to = after(e, to);
	strbuf_addf(&out, "\r%s", prompt);
	strbuf_add(&out, strbuf_text(&e->text) + from, to - from);
	strbuf_addf(&out, "\x1b[K\r\x1b[%zuC",
		    strlen(prompt) + characters(strbuf_text(&e->text) + from, e->cursor - from));
	fputs(strbuf_text(&out), stderr);
	fflush(stderr);
}

/* ---- changes ---- */

static void replace(struct line_editor *e, size_t from, size_t to, const char *text, size_t length)
{
	struct strbuf changed = STRBUF_INIT;

	if (e->text.length - (to - from) + length > LINE_BYTES_MAX)
		return;
	strbuf_add(&changed, strbuf_text(&e->text), from);
	strbuf_add(&changed, text, length);
	strbuf_add(&changed, strbuf_text(&e->text) + to, e->text.length - to);
	if (changed.failed) {
		strbuf_release(&changed);
		return;
	}
	strbuf_release(&e->text);
	e->text = changed;
	e->cursor = from + length;
}

static void show_history(struct line_editor *e, size_t number)
{
	const char *text;

	if (number > e->history.count)
		return;
	e->shown = number;
	text = number < e->history.count ? e->history.data[number] : "";
	replace(e, 0, e->text.length, text, strlen(text));
}

static void add_history(struct line_editor *e)
{
	const char *text = strbuf_text(&e->text);
	char *copy;

	if (!*text || (e->history.count && !strcmp(e->history.data[e->history.count - 1], text)))
		return;
	if (e->history.count == HISTORY_MAX) {
		free(e->history.data[0]);
		memmove(e->history.data, e->history.data + 1,
			--e->history.count * sizeof(*e->history.data));
	}
	copy = strdup(text);
	if (copy && vec_push(&e->history, copy) < 0)
		free(copy);
}

/* Where the word before the cursor begins. */
static size_t word_start(const struct line_editor *e)
{
	size_t at = e->cursor;

	while (at > 0 &&
	       (isalnum((unsigned char)e->text.data[at - 1]) || strchr("_.", e->text.data[at - 1])))
		at--;
	return at;
}

static void erase_word(struct line_editor *e)
{
	size_t at = e->cursor;

	while (at > 0 && e->text.data[at - 1] == ' ')
		at--;
	while (at > 0 && e->text.data[at - 1] != ' ')
		at--;
	replace(e, at, e->cursor, "", 0);
}

/* ---- completion ---- */

ORDER(by_text, char *, strcasecmp(*a, *b) ?: strcmp(*a, *b))

static void sort_words(struct line_words *w)
{
	size_t kept = 0;

	vec_sort(&w->items, by_text);
	for (size_t i = 0; i < w->items.count; i++)
		if (kept && !strcmp(w->items.data[i], w->items.data[kept - 1]))
			free(w->items.data[i]);
		else
			w->items.data[kept++] = w->items.data[i];
	w->items.count = kept;
}

/* How many bytes all candidates have in common. */
static size_t common_length(const struct line_words *w)
{
	size_t length = strlen(w->items.data[0]);

	for (size_t i = 1; i < w->items.count; i++)
		while (strncasecmp(w->items.data[0], w->items.data[i], length) != 0)
			length--;
	return length;
}

static void list_words(const struct line_words *w)
{
	size_t width = MAX(terminal_width(STDERR_FILENO), 20u), widest = 0, columns, rows;
	size_t count = MIN(w->items.count, (size_t)LISTED_MAX);

	for (size_t i = 0; i < count; i++)
		widest = MAX(widest, strlen(w->items.data[i]) + 2);
	columns = MAX(width / widest, (size_t)1);
	rows = (count + columns - 1) / columns;
	fputs("\n", stderr);
	for (size_t row = 0; row < rows; row++) {
		for (size_t i = row; i < count; i += rows)
			fprintf(stderr, "%-*s", i + rows < count ? (int)widest : 0,
				w->items.data[i]);
		fputs("\n", stderr);
	}
	if (w->items.count > count)
		fprintf(stderr, "and %zu more\n", w->items.count - count);
}

/* Adds what all candidates have in common; lists them if that is nothing. */
static void complete(struct line_editor *e)
{
	size_t start = word_start(e), length;
	_cleanup_free_ char *line = strndup(strbuf_text(&e->text), start);
	_cleanup_free_ char *word = strndup(strbuf_text(&e->text) + start, e->cursor - start);
	struct line_words words = { .word = word };

	if (line && word)
		e->complete(e->user, line, word, &words);
	sort_words(&words);
	length = words.items.count ? common_length(&words) : 0;
	if (words.items.count == 1) {
		replace(e, start, e->cursor, words.items.data[0], length);
		replace(e, e->cursor, e->cursor, " ", 1);
	} else if (words.items.count && length > strlen(word)) {
		replace(e, start, e->cursor, words.items.data[0], length);
	} else if (words.items.count) {
		list_words(&words);
	}
	for (size_t i = 0; i < words.items.count; i++)
		free(words.items.data[i]);
	vec_release(&words.items);
}

/* ---- keys ---- */

static void edit(struct line_editor *e, int key)
{
	char byte = (char)key;

	switch (key) {
	case KEY_LEFT:
	case KEY_CTRL('B'):
		e->cursor = before(e, e->cursor);
		break;
	case KEY_RIGHT:
	case KEY_CTRL('F'):
		e->cursor = after(e, e->cursor);
		break;
	case KEY_HOME:
	case KEY_CTRL('A'):
		e->cursor = 0;
		break;
	case KEY_LINE_END:
	case KEY_CTRL('E'):
		e->cursor = e->text.length;
		break;
	case KEY_UP:
	case KEY_CTRL('P'):
		show_history(e, e->shown - 1);
		break;
	case KEY_DOWN:
	case KEY_CTRL('N'):
		show_history(e, e->shown + 1);
		break;
	case KEY_BACKSPACE:
		replace(e, before(e, e->cursor), e->cursor, "", 0);
		break;
	case KEY_DELETE:
	case KEY_CTRL('D'):
		byte = 0;
		replace(e, e->cursor, after(e, e->cursor), &byte, 0);
		break;
	case KEY_CTRL('K'):
		replace(e, e->cursor, e->text.length, "", 0);
		break;
	case KEY_CTRL('U'):
		replace(e, 0, e->cursor, "", 0);
		break;
	case KEY_CTRL('W'):
		erase_word(e);
		break;
	case KEY_CTRL('L'):
		fputs("\x1b[H\x1b[2J", stderr);
		break;
	case KEY_CTRL('I'):
		/* In a paste it is a blank. */
		if (keys_are_pending())
			replace(e, e->cursor, e->cursor, " ", 1);
		else
			complete(e);
		break;
	default:
		if (key >= ' ' && key < KEY_UP)
			replace(e, e->cursor, e->cursor, &byte, 1);
	}
}

static int open_terminal(struct line_editor *e)
{
	int rc = e->is_open ? 0 : keys_open();

	e->is_open = rc == 0;
	return rc;
}

static int finish(struct line_editor *e, struct strbuf *line)
{
	add_history(e);
	strbuf_clear(line);
	strbuf_addf(line, "%s\n", strbuf_text(&e->text));
	fputs("\n", stderr);
	return line->failed ? -ENOMEM : 1;
}

int line_editor_read(struct line_editor *e, const char *prompt, struct strbuf *line)
{
	int rc = open_terminal(e), key = KEY_NONE;

	strbuf_clear(&e->text);
	e->cursor = 0;
	e->shown = e->history.count;
	while (rc == 0) {
		if (!keys_are_pending())
			draw(e, prompt);
		key = keys_wait(UINT64_MAX, -1);
		if (terminal_stop_signal)
			return -EINTR;
		if (key == KEY_ENTER)
			return finish(e, line);
		if (key == KEY_END || (key == KEY_CTRL('D') && !e->text.length))
			return 0;
		if (key == KEY_CTRL('Z')) {
			keys_close();
			keys_stop();
			rc = keys_open();
		} else {
			edit(e, key);
		}
	}
	return rc;
}

void line_editor_release(struct line_editor *e)
{
	if (e->is_open)
		keys_close();
	for (size_t i = 0; i < e->history.count; i++)
		free(e->history.data[i]);
	vec_release(&e->history);
	strbuf_release(&e->text);
	e->is_open = false;
}
