/*
 * import_record.h: decodes a line of gpufl's logs into its members, and the rows of a batch into
 * records of the same form: each column is a member, and start_ns and end_ns are added. Accepts any
 * bytes. A member whose value cannot be what is requested of it (another type, a number that is out
 * of range or no integer) is read as missing, and is marked as unusable. JSON's null is missing.
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_RECORD_H
#define PITOT_IMPORT_GPUFL_IMPORT_RECORD_H

#include "base/json_read.h"
#include "schema/schema.h"

#define RECORD_FIELDS 64 /* further ones are ignored */
#define RECORD_KEY_BYTES 32

struct record_field {
	char key[RECORD_KEY_BYTES];
	enum json_kind kind;
	size_t text; /* of a string: offset in record.texts */
	const char *value; /* of an array or an object */
	size_t value_length;
	/* Of a number, or of a text that is one: */
	bool is_real, is_integer, is_negative;
	uint64_t magnitude; /* of an integer */
	double real;
};

struct record {
	struct record_field fields[RECORD_FIELDS];
	size_t count;
	uint64_t unusable; /* bit n: fields[n] has a value that could not be used */
	struct strbuf texts; /* each with its NUL */
	struct json_members members;
	enum table_id planned; /* table of `plan`, set by record_fill; 0: none */
	int8_t plan[RECORD_FIELDS]; /* column -> field, or -1 */
	uint64_t zeros; /* bit per column of the plan: 0 is a value */
};

/* Decodes the members of an object. Returns 0, or a negative code if it is none. */
int record_read(struct record *r, const char *text, size_t length, struct error *e) MUST_USE;
void record_release(struct record *r);

/* Returns NULL if the member is missing. */
const struct record_field *record_find(const struct record *r, const char *key);
/* Returns NULL if the member is missing. */
const char *record_text(struct record *r, const char *key);
/* Returns false if the member is missing, negative, or larger than `most`. */
bool record_integer(struct record *r, const char *key, uint64_t most, uint64_t *value);
/* Same, but returns 0 instead of false. */
uint64_t record_number(struct record *r, const char *key, uint64_t most);
bool record_real(struct record *r, const char *key, double *value);
/* Reads "(16,1,1)" into size[0], [1] and [2], all above 0. "(0,0,0)" and "" are missing. */
bool record_size(struct record *r, const char *key, uint32_t *size);
/* Returns 0 for what is no time. Marks nothing: the caller counts it as loss no_time. */
uint64_t record_time(const struct record *r, const char *key);

/*
 * Fills a row of a table from the record's members, except texts. Columns without a usable member
 * are 0 and, if optional, marked as missing. A missing stream is RECORD_NO_ID, and so is a context
 * that is unusable; gpufl's own logs have no contexts. Does not mark the row's start and end, whose
 * loss the caller counts as no_time. Returns a bit for each column found.
 */
#define RECORD_NO_ID UINT32_MAX
uint64_t record_fill(struct record *r, enum table_id table, void *row);

/* Iterates over the objects of a list as records. */
struct record_list {
	struct json_members items;
	struct record item;
};
void record_list_begin(struct record_list *l, const struct record *r, const char *key);
bool record_list_next(struct record_list *l);
void record_list_end(struct record_list *l);

struct batch {
	struct record row; /* result of batch_next */
	struct json_members rows;
	size_t columns;
	bool has_base;
	uint64_t base_ns;
	uint64_t damaged; /* rows that are no array, or whose end could not be read */
};

/* Returns 0 or a negative code. */
int batch_begin(struct batch *b, const struct record *r, struct error *e) MUST_USE;
/* Returns 1, 0 after the last row, or a negative code. */
int batch_next(struct batch *b, struct error *e) MUST_USE;
void batch_end(struct batch *b);

#endif
