/*
 * import_record.h: a line of gpufl's logs as its members, and a batch as rows of numbers. Any bytes will do; a member of another type
 * than the one asked for is not there.
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_RECORD_H
#define PITOT_IMPORT_GPUFL_IMPORT_RECORD_H

#include "base/json_read.h"

#define RECORD_FIELDS 64 /* more are not looked at */
#define RECORD_KEY_BYTES 32
#define BATCH_COLUMNS 64

struct record_field {
	char key[RECORD_KEY_BYTES];
	enum json_kind kind;
	size_t text; /* of strings and numbers, in record.texts */
	const char *value; /* of arrays and objects */
	size_t value_length;
};

struct record {
	struct record_field fields[RECORD_FIELDS];
	size_t count;
	struct strbuf texts; /* each with its NUL */
	struct json_members members;
};

/* The members of an object. 0 or a negative code: it is none, or *e says why. */
int record_read(struct record *r, const char *text, size_t length, struct error *e) MUST_USE;
void record_release(struct record *r);

const struct record_field *record_find(const struct record *r, const char *key);
/* NULL: it is missing. */
const char *record_text(const struct record *r, const char *key);
/* Also of a text that is a number. False: it is missing. */
bool record_u64(const struct record *r, const char *key, uint64_t *value);
/* 0 where it is missing. */
uint64_t record_number(const struct record *r, const char *key);
/* At most 32 bits of it. */
uint32_t record_u32(const struct record *r, const char *key);

/* A number of a row. */
struct cell {
	int64_t value; /* of more than 63 bits the lowest 64 */
	double real;
	bool known;
};

struct batch {
	struct json_members rows, row;
	int8_t places[BATCH_COLUMNS]; /* of the log's columns: index of a name, or -1 */
	size_t column_count, name_count;
	struct cell *cells; /* of the row, by name */
};

/* `names` are the columns that are wanted, `cells` as many. 0 or a negative code. */
int batch_begin(struct batch *b, const struct record *r, const char *const *names, size_t count,
		struct cell *cells, struct error *e) MUST_USE;
/* 1, 0 after the last row, or a negative code. */
int batch_next(struct batch *b, struct error *e) MUST_USE;
void batch_end(struct batch *b);

#endif
