/*
 * section.h: a section of the report, declared once: what its fields are called in JSON and above
 * the columns of its tables, their units, and where in the result of an analysis they are. Text,
 * HTML and JSON are rendered from the declaration. A section is a file section_<name>.c and a line
 * in SECTIONS. What a section prints by itself it hands to the report_* functions below, which
 * know how text and HTML show it.
 *
 * The words that all sections share:
 *
 *	share		part of the total that the section's title names; so none is above 100 %
 *	busy		time in which at least one kernel, copy or memory set ran on the GPU
 *	utilization	busy time as a part of the time from the first to the last GPU work,
 *			excluding the pauses that the verdict names
 */
#ifndef PITOT_REPORT_SECTION_H
#define PITOT_REPORT_SECTION_H

#include <stddef.h>

#include "analysis/report.h"
#include "base/json.h"
#include "report/text_table.h"

/* In the order in which people read them, and scripts. */
#define SECTIONS(X)                                                                                \
	X(header)                                                                                  \
	X(verdict)                                                                                 \
	X(commands)                                                                                \
	X(failures)                                                                                \
	X(gpus)                                                                                    \
	X(idle)                                                                                    \
	X(idle_lines)                                                                              \
	X(hotspots)                                                                                \
	X(functions)                                                                               \
	X(stalls)                                                                                  \
	X(instructions)                                                                            \
	X(counters)                                                                                \
	X(ranges)                                                                                  \
	X(scopes)                                                                                  \
	X(copies)                                                                                  \
	X(calls)                                                                                   \
	X(waits)                                                                                   \
	X(cpu)                                                                                     \
	X(launches)                                                                                \
	X(graphs)                                                                                  \
	X(memory)                                                                                  \
	X(system)                                                                                  \
	X(loss)                                                                                    \
	X(cost)

#define REPORT_WIDTH_MIN 72u
#define REPORT_WIDTH_MAX 180u
#define REPORT_WIDE 132u /* columns from which on all figures of a kernel fit into one line */

/* What is to be rendered, and how. */
struct report_view {
	const struct report *report;
	const char *path; /* of the recording */
	unsigned width; /* columns to fill, within the limits above */
	bool color;
	bool html; /* text is rendered as HTML, see section_html.c */
	bool bars; /* draw bars: on a terminal only; HTML has them always */
	bool system; /* show readings of GPUs and the machine */
	bool full_names; /* kernel names with parameters and template arguments */
	uint64_t callers; /* lines that are named for each kernel */
	uint64_t top; /* rows of each table, items of each list */
	struct strbuf *out;
};

enum unit {
	/* In text and JSON. */
	UNIT_COUNT,
	UNIT_NS,
	UNIT_TIME, /* CLOCK_MONOTONIC; shown from the start of the recording on */
	UNIT_BYTES,
	UNIT_SHARE, /* n of whole */
	UNIT_RATIO, /* n of whole, which may be less than n: 1.39 */
	UNIT_RATE, /* n bytes in whole ns */
	UNIT_TEXT, /* const char * */
	UNIT_STRING, /* id of a string of the trace */
	UNIT_CHOICE, /* text of a number: field.names */
	UNIT_NAME, /* value of an enum of the schema: field.table, field.column */
	UNIT_CODE, /* text of callers.stacks */
	UNIT_CLASS, /* caller: the class of its frames */
	UNIT_FUNCTION, /* row of api_function */
	UNIT_THREAD, /* index of a process, and behind it the thread's number */
	UNIT_LINE, /* item of callers */
	UNIT_PATH, /* a line, and behind it what it called */
	UNIT_ID, /* a number that counts nothing */
	UNIT_REAL, /* a double; what is not finite is unknown, here and below */
	UNIT_PERCENT, /* a double */
	UNIT_FLOPS, /* a double, in a second */
	UNIT_BANDWIDTH, /* a double: bytes in a second */
	UNIT_PID, /* index of a process */
	UNIT_FLAG,
	UNIT_STATS, /* struct duration_stats; in text a row of its own with field.head */
	UNIT_LIST, /* field.list */
	/* In JSON only. */
	UNIT_MILLI, /* thousandths: 1.250 */
	UNIT_UNIX, /* ns since 1970; signed */
	UNIT_NUMBERS, /* array of numbers */
	/* the fields of field.list; without a key they are keys of the object around it */
	UNIT_OBJECT,
};

enum value_state {
	VALUE_KNOWN,
	VALUE_UNKNOWN, /* "-", null */
	VALUE_ABSENT, /* an empty cell, no key */
};

struct value {
	uint64_t n, whole;
	struct strbuf text;
	enum value_state state;
};

enum layout { LAYOUT_RIGHT, LAYOUT_LEFT, LAYOUT_FLEXIBLE, LAYOUT_OPTIONAL, LAYOUT_OPTIONAL_LEFT };

struct list;

struct field {
	const char *key; /* in JSON; NULL: only in text */
	const char *head; /* above its column; NULL: only in JSON */
	enum unit unit;
	enum layout layout;
	uint16_t offset, size; /* MEMBER: in the row, or in the section's result */
	uint16_t whole; /* UNIT_SHARE without `per`: offset in the result, plus 1 */
	/*
	 * Offset in the row of a count, plus 1: what a share or a rate is of, and what other
	 * numbers are divided by.
	 */
	uint16_t per;
	uint16_t count; /* offset in the row, plus 1: text is "-" where that count is 0 */
	bool wide; /* a column of wide tables only */
	enum table_id table;
	int column;
	/* Instead of a member. */
	void (*value)(const struct report_view *v, const void *row, struct value *out);
	const char *(*head_of)(const struct report_view *v); /* instead of head; "" for no column */
	const char *(*names)(unsigned value);
	/* Whether a row has the field; else it has no key, or null. NULL: all have it. */
	bool (*when)(const struct report_view *v, const void *row);
	bool null;
	uint8_t width; /* UNIT_NUMBERS: bytes of each */
	bool trim; /* UNIT_NUMBERS: zeros at the end are left out, but for the first number */
	/*
	 * UNIT_OBJECT: the row of its fields, when it is not this one; it may be made in `room`,
	 * which has SECTION_ROOM bytes. NULL: as when `when` is false.
	 */
	const void *(*of)(const struct report_view *v, const void *row, void *room);
	const struct list *list;
};

#define SECTION_ROOM 128

/*
 * A condition on a row, for .when, .hidden, .ends: ROW_IF(is_open, struct door, !row->closed); v is
 * the report_view.
 */
#define ROW_IF(name, type, condition)                                                              \
	static bool name(const struct report_view *v, const void *row_)                            \
	{                                                                                          \
		const type *row = row_;                                                            \
                                                                                                   \
		(void)v, (void)row;                                                                \
		return condition;                                                                  \
	}

/*
 * What a row's field is, for .value: ROW_READ(read_count, struct hotspot,
 * out->n = row->time.count + row->untimed).
 */
#define ROW_READ(name, type, statement)                                                            \
	static void name(const struct report_view *v, const void *row_, struct value *out)         \
	{                                                                                          \
		const type *row = row_;                                                            \
                                                                                                   \
		(void)v, (void)row;                                                                \
		statement;                                                                         \
	}

/*
 * What an object's fields are of, for .of:
 * ROW_OF(busy_of, &v->report->busy->gpus[index_of(v, row)])
 */
#define ROW_OF(name, pointer)                                                                      \
	static const void *name(const struct report_view *v, const void *row, void *room)          \
	{                                                                                          \
		(void)v, (void)row, (void)room;                                                    \
		return pointer;                                                                    \
	}

#define MEMBER(type, member)                                                                       \
	.offset = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define WHOLE(type, member) .whole = offsetof(type, member) + 1
#define PER(type, member) .per = offsetof(type, member) + 1
#define COUNTED(type, member) .count = offsetof(type, member) + 1
#define NUMBERS(type, member) MEMBER(type, member), .width = sizeof(((type *)NULL)->member[0])
#define ENUM(name, column_name) .table = TABLE_##name, .column = COLUMN_##name##_##column_name
/* FIELD("total_ns", "time", NS, MEMBER(struct row, total_ns)); NULL for no key, no head. */
#define FIELD(field_key, field_head, field_unit, ...)                                              \
	{                                                                                          \
		.key = (field_key), .head = (field_head), .unit = UNIT_##field_unit, __VA_ARGS__   \
	}
#define LEFT_COLUMN .layout = LAYOUT_LEFT
#define FLEXIBLE_COLUMN .layout = LAYOUT_FLEXIBLE
#define OPTIONAL_COLUMN .layout = LAYOUT_OPTIONAL
#define FIELDS(array) .fields = (array), .field_count = ARRAY_SIZE(array)

/*
 * Rows: an array that the result points to (in a list of lists: the row), or is in it, and its
 * length. The fields that have heads are a table.
 */
struct list {
	size_t items, count, stride;
	/* of an array that is in the row itself; 0: there is a pointer, and `count` */
	size_t length;
	const struct field *fields;
	size_t field_count;
	bool half; /* text shows half as many rows */
	bool all; /* shows all rows that are not hidden, however few are asked for */
	bool (*hidden)(const struct report_view *v, const void *row);
	bool (*ends)(const struct report_view *v, const void *row); /* text ends before this row */
	/* Lines below the row. */
	void (*notes)(const struct report_view *v, const void *row, struct text_table *t);
	/* Rows that are no array: the i-th, NULL after the last. */
	const void *(*item)(const struct report_view *v, const void *row, size_t i);
	/*
	 * JSON has an object, whose keys are names of indexes; a single field without a key is the
	 * value.
	 */
	const char *(*names)(unsigned index);
};

#define ITEMS(type, member, counter)                                                               \
	.items = offsetof(type, member), .count = offsetof(type, counter),                         \
	.stride = sizeof(*((type *)NULL)->member)
#define ARRAY(type, member)                                                                        \
	.items = offsetof(type, member), .length = ARRAY_SIZE(((type *)NULL)->member),             \
	.stride = sizeof(((type *)NULL)->member[0])

/* A field that is a list: its key, ITEMS or ARRAY, its fields, and what else struct list has. */
#define LIST(list_key, list_items, list_fields, ...)                                               \
	{                                                                                          \
		.key = (list_key), .unit = UNIT_LIST, .list = &(const struct list)                 \
		{                                                                                  \
			list_items, FIELDS(list_fields), __VA_ARGS__                               \
		}                                                                                  \
	}

/* A field that is an object: its key, its fields, and .of, .when, .null. */
#define OBJECT(object_key, object_fields, ...)                                                     \
	{                                                                                          \
		.key = (object_key), .unit = UNIT_OBJECT,                                          \
		.list = &(const struct list){ FIELDS(object_fields) }, __VA_ARGS__                 \
	}

struct section {
	const char *key; /* of an object in JSON; NULL: its fields are keys of the report */
	const char *title;
	const char *(*title_of)(const struct report_view *v); /* instead of title */
	size_t result; /* offset of the pointer in struct report */
	bool whole_report; /* the result is the report itself */
	const struct field *fields;
	size_t field_count;
	bool (*shown)(const struct report_view *v); /* NULL: where a table has rows */
	void (*empty)(const struct report_view *v); /* the text when it is not shown; NULL: none */
	void (*remark)(const struct report_view *v, struct strbuf *out); /* beside the title */
	/* Lines between the title and the tables, and after them. */
	void (*before)(const struct report_view *v, struct strbuf *out);
	void (*after)(const struct report_view *v, struct strbuf *out);
	/* Instead of the tables that the fields declare. */
	void (*text)(const struct report_view *v);
};

#define RESULT(name) .result = offsetof(struct report, name)

/* The whole report: about one screen, the most important things first. */
void report_print_text(const struct report_view *v);
/* A page that stands alone, with the same contents; view.html is true. */
void report_print_html(const struct report_view *v);
/* One JSON object and a newline. docs/report.md describes the keys; they only ever grow. */
void report_print_json(const struct report_view *v);

/* One section, for the renderers and tests. JSON: keys of the open object of *j. */
void section_print_text(const struct section *s, const struct report_view *v);
void section_print_json(const struct section *s, const struct report_view *v, struct json *j);

/* What was recorded. */
void report_heading(const struct report_view *v, const char *text);
/* "\nverdict  GPU-bound; after its start-up …" */
void report_verdict(const struct report_view *v, enum style style, const char *verdict,
		    const char *rest);
/* Sentences, folded after `indent` blanks; nothing where there are none. */
void report_paragraph(const struct report_view *v, unsigned indent, const char *text);
void report_table(const struct report_view *v, struct text_table *t);
/* An empty line before what has no title. */
void report_gap(const struct report_view *v);
/* "\ntitle  rest" */
void report_title(const struct report_view *v, const char *title, const char *rest);
/* "label  text", folded. */
void report_labelled(const struct report_view *v, enum style style, const char *label,
		     const char *text);

/* A cell with a bar of at most `columns` for part of whole; empty where bars are off. */
void report_bar(struct text_table *t, const struct report_view *v, uint64_t part, uint64_t whole,
		unsigned columns);

/* What the declarations of section.h refer to in a report; for its two renderers. */
const void *section_result(const struct section *s, const struct report *r);

/* The i-th row of a list of a result or a row; NULL: there are no more. */
const void *list_row(const struct list *list, const struct report_view *v, const void *of,
		     size_t i);

/* *out is zero before; the caller releases out->text. */
void value_read(const struct report_view *v, const struct field *f, const void *result,
		const void *row, struct value *out);
/* Appends a known value as people read it; safe for a terminal. */
void value_text(const struct report_view *v, const struct field *f, const struct value *value,
		struct strbuf *out);
/* Whether values with this unit are in value.text. */
bool value_is_text(enum unit unit);
/* Text of a value of a field with UNIT_NAME; "?" where the schema has none. */
const char *value_name(const struct field *f, uint64_t value);

#endif
