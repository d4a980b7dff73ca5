/* sql_words.h: the words that a statement can go on with, for completion at the prompt. */
#ifndef PITOT_CLI_SQL_WORDS_H
#define PITOT_CLI_SQL_WORDS_H

#include "cli/line_editor.h"
#include "sql/sql.h"

#define SQL_COMMANDS(C)                                                                            \
	C(".tables", "all tables")                                                                 \
	C(".schema TABLE", "the columns of a table")                                               \
	C(".help", "commands and functions")                                                       \
	C(".quit", "as end of file")

/*
 * Adds commands, tables, columns of the tables that the statement names, functions and keywords,
 * as far as they can stand there. `statement` is what is before the word, of all lines.
 */
void sql_words_add(struct sql *s, const char *statement, const char *word, struct line_words *out);

#endif
