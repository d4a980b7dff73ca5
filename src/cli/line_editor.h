/*
 * line_editor.h: edits a line at a terminal, with a history and completion by Tab. Keys are those
 * of Emacs and arrows. The terminal is as keys.h has it from the first line to the release;
 * interrupts arrive as signals, which terminal_catch_signals() must catch.
 */
#ifndef PITOT_CLI_LINE_EDITOR_H
#define PITOT_CLI_LINE_EDITOR_H

#include "base/strbuf.h"
#include "base/vec.h"

struct line_words; /* candidates */

/*
 * Calls line_words_add() for words that may stand where `word` begins, in any order, also twice;
 * those that do not begin with it are left out. `line` is what is before the word.
 */
typedef void line_complete(void *user, const char *line, const char *word, struct line_words *out);
void line_words_add(struct line_words *w, const char *word);

struct line_editor {
	line_complete *complete;
	void *user;
	/* zeros: */
	VEC(char *) history;
	struct strbuf text;
	size_t cursor; /* offset in the text */
	size_t shown; /* of the history; history.count: the new line */
	bool is_open;
};

/* Whether standard input and standard error are a terminal that can be edited on. */
bool line_editor_is_possible(void);
/*
 * Reads a line, which ends with a newline. Returns 1, 0 at the end of the input, -EINTR after a
 * signal, or another negative code.
 */
int line_editor_read(struct line_editor *e, const char *prompt, struct strbuf *line) MUST_USE;
void line_editor_release(struct line_editor *e); /* restores the terminal */

#endif
