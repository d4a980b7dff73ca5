/*
 * database_rows.h: converts tables of a database into tables of a recording, by declarations: which
 * column becomes which. Each process of the database gets a session with its own segments.
 *
 * Times of the recording are those of the database plus `offset_ns`. Values that do not fit their
 * column are missing, and counted as damage.
 */
#ifndef PITOT_IMPORT_DATABASE_ROWS_H
#define PITOT_IMPORT_DATABASE_ROWS_H

#include "base/map.h"
#include "base/vec.h"
#include "import/database.h"
#include "import/import_files.h"
#include "import/import_losses.h"
#include "stack/stack_tree.h"

#define DATABASE_PROCESSES_MAX 256 /* each has an open file */

#define DATABASE_CONTEXTS_MAX 4096

struct database_context {
	uint32_t id, device;
};

struct database_process {
	uint64_t key, session;
	uint32_t pid;
	struct writer *writer;
	uint64_t rows, text_bytes; /* since the last flush */
	uint64_t first_ns, last_ns; /* of its rows */
	VEC(struct database_context) contexts; /* of its GPU work */
	struct map functions; /* ids that are defined */
	struct database_id {
		uint64_t number;
		uint32_t epoch, id; /* of the writer, for that text */
	} ids[256]; /* of the texts used last */
	struct stack_tree stacks;
	struct map symbols; /* addresses in table symbol */
};

struct database_import {
	struct database db;
	const char *path, *directory;
	struct import_result *result;
	int64_t offset_ns;
	struct interner texts; /* of the database's table of strings */
	struct map text_of; /* id there -> item */
	VEC(struct database_process *) processes;
	struct map process_of; /* key -> item */
	struct database_process *last;
	uint64_t default_key; /* of rows that name no process */
	struct map functions; /* number of a function << 8 | its API -> id in api_function */
	struct import_losses losses;
	/* Chooses the process id for a key. */
	uint32_t (*pid_of)(struct database_import *m, uint64_t key);
	void *own; /* of the format */
};

enum field_kind {
	FIELD_NUMBER,
	FIELD_NUMBER_OR_0, /* 0 stands for a missing value */
	FIELD_ID, /* UINT32_MAX stands for a missing value */
	FIELD_TIME,
	FIELD_TIME_OR_0,
	FIELD_TEXT,
	FIELD_STRING, /* number of a text in the database's table of strings */
	FIELD_ENUM, /* value `map` has at that number */
};

struct field {
	const char *from; /* "a|b": the first that there is */
	uint8_t to; /* column */
	uint8_t kind; /* enum field_kind */
	const uint8_t *map; /* FIELD_ENUM: ENUM_ENTRIES values */
};
#define ENUM_ENTRIES 32

#define FIELD(table, column, kind, from)                                                           \
	{                                                                                          \
		from, COLUMN_##table##_##column, FIELD_##kind, NULL                                \
	}
#define FIELD_MAPPED(table, column, from, map)                                                     \
	{                                                                                          \
		from, COLUMN_##table##_##column, FIELD_ENUM, map                                   \
	}

struct conversion {
	struct query_source from;
	const char *process; /* its column that names the process */
	uint64_t process_mask; /* what of that is the key */
	enum table_id to;
	const struct field *fields;
	size_t field_count;
	const struct field *more; /* for finish(): columns from `at` on */
	size_t more_count;
	const char *rest; /* SQL; may be NULL */
	/* Completes the row; false: it is not appended. May be NULL. */
	bool (*finish)(struct database_import *m, struct database_process *p, void *row,
		       const struct query *q, int at);
};

/* Returns 0 or a negative code; release in any case. */
int database_import_open(struct database_import *m, const struct import_files *files,
			 struct input *in, const char *path, struct error *e) MUST_USE;
/* Reads the database's strings: their numbers and texts. */
int database_strings(struct database_import *m, const char *table, const char *id, const char *text,
		     struct error *e) MUST_USE;
/* Converts all rows of a table, if the database has it. Returns 0 or a negative code. */
int database_convert(struct database_import *m, const struct conversion *c,
		     struct error *e) MUST_USE;
/* Fills a row from the columns of a query from `at` on, as conversions do. */
void database_fill(struct database_import *m, struct database_process *p, const struct query *q,
		   int at, enum table_id table, const struct field *fields, size_t count,
		   void *row);
/* Appends a row. Returns 0 or the negative code of writing. */
int database_append(struct database_import *m, struct database_process *p, enum table_id table,
		    const void *row, struct error *e) MUST_USE;
/* Counts the end of a table that is damaged. Closes the query. */
void database_query_end(struct database_import *m, struct query *q, const char *table);
void database_loss(struct database_import *m, enum loss_reason reason, uint64_t count,
		   const char *detail);

/* The process of a key, which is added; NULL and an error, or without: too many (counted). */
struct database_process *database_process(struct database_import *m, uint64_t key,
					  struct error *e) MUST_USE;
/* The text of a number, or NULL. */
const struct interned *database_text(const struct database_import *m, uint64_t number);
/* Its id for a STRING column of the process's rows; counts a number that no string has. */
uint32_t database_string(struct database_import *m, struct database_process *p, uint64_t number);
/* A time of the recording. Returns false, and counts it, if it cannot be one. */
bool database_time(struct database_import *m, int64_t time, uint64_t *time_ns);
/* The id of a function of an API (1 driver, 2 runtime …), defined for the rows that follow. */
uint32_t database_function(struct database_import *m, struct database_process *p, uint32_t api,
			   uint64_t number);
/* Returns the frame of a function in a module, both of them numbers of texts. */
uint64_t database_frame(struct database_import *m, struct database_process *p, uint64_t function,
			uint64_t module);

/*
 * Appends contexts, clocks, processes and losses, and closes the segments. `describe` completes the
 * row of a process, and appends what else the format knows about it. Returns -ENODATA if there were
 * no rows, or another negative code.
 */
int database_import_close(struct database_import *m,
			  void (*describe)(struct database_import *m, struct database_process *p,
					   struct row_process *row),
			  struct error *e) MUST_USE;
void database_import_release(struct database_import *m);

#endif
