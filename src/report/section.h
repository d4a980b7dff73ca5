/*
 * section.h: declares a section of the report: the fields' keys in JSON, their column heads, units,
 * and locations in the result of an analysis. Text, HTML and JSON are rendered from the
 * declaration. A section is a file section_<name>.c and a line in SECTIONS. Output that is not
 * declared goes through the report_* functions below, which render it as text or HTML.
 *
 * Terms that all sections use:
 *
 *	share		part of the total in the section's title; never above 100 %
 *	busy		time in which at least one kernel, copy or memory set ran on the GPU
 *	utilization	busy time as a part of the time from the first to the last GPU work,
 *			excluding the pauses that the verdict names
 */
#ifndef PITOT_REPORT_SECTION_H
#define PITOT_REPORT_SECTION_H

#include <stddef.h>

#include "analysis/hotspots.h"
#include "analysis/report.h"
#include "base/json.h"
#include "report/report_view.h"
#include "report/text_table.h"

/* In the order of the output. */
#define SECTIONS(X)                                                                                \
	X(header)                                                                                  \
	X(rules)                                                                                   \
	X(last_words)                                                                              \
	X(threads)                                                                                 \
	X(verdict)                                                                                 \
	X(bounds)                                                                                  \
	X(steps)                                                                                   \
	X(energy)                                                                                  \
	X(rank_path)                                                                               \
	X(critical_path)                                                                           \
	X(states)                                                                                  \
	X(activity)                                                                                \
	X(commands)                                                                                \
	X(failures)                                                                                \
	X(ranks)                                                                                   \
	X(collectives)                                                                             \
	X(rank_waits)                                                                              \
	X(peers)                                                                                   \
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
	X(scope_counters)                                                                          \
	X(copies)                                                                                  \
	X(calls)                                                                                   \
	X(waits)                                                                                   \
	X(cpu)                                                                                     \
	X(launches)                                                                                \
	X(graphs)                                                                                  \
	X(memory)                                                                                  \
	X(memory_peak)                                                                             \
	X(memory_steps)                                                                            \
	X(system)                                                                                  \
	X(loss)                                                                                    \
	X(cost)

enum unit {
	/* In text and JSON. */
	UNIT_COUNT,
	UNIT_NS,
	UNIT_TIME, /* CLOCK_MONOTONIC; shown relative to the start of the recording */
	UNIT_BYTES,
	UNIT_SHARE, /* n of whole */
	UNIT_RATIO, /* n / whole, may exceed 1: 1.39 */
	UNIT_RATE, /* n bytes in whole ns */
	UNIT_TEXT, /* const char * */
	UNIT_STRING, /* string id of the trace */
	UNIT_CHOICE, /* number whose text is field.names(number) */
	UNIT_NAME, /* value of an enum of the schema: field.table, field.column */
	UNIT_CODE, /* text of callers.stacks */
	UNIT_CLASS, /* item of callers: the class of its frame */
	UNIT_FUNCTION, /* row of api_function */
	UNIT_THREAD, /* index of a process, followed by a thread id */
	UNIT_LINE, /* item of callers */
	UNIT_PATH, /* a line, followed by its callee */
	UNIT_ID, /* a number that is not a quantity */
	UNIT_REAL, /* a double; a value that is not finite is unknown, here and below */
	UNIT_PERCENT, /* a double */
	UNIT_FLOPS, /* a double: operations per second */
	UNIT_BANDWIDTH, /* a double: bytes per second */
	UNIT_PID, /* index of a process */
	UNIT_FLAG,
	UNIT_STATS, /* struct duration_stats; in text a separate row, named by field.head */
	UNIT_LIST, /* field.list */
	/* In JSON only. */
	UNIT_MILLI, /* thousandths: 1.250 */
	UNIT_UNIX, /* ns since 1970; signed */
	UNIT_NUMBERS, /* array of numbers */
	/* the fields of field.list; without a key they belong to the enclosing object */
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
	const char *head; /* of its column; NULL: only in JSON */
	enum unit unit;
	enum layout layout;
	uint16_t offset, size; /* MEMBER: of the row, or of the section's result */
	uint16_t whole; /* UNIT_SHARE without `per`: offset of the total in the result, plus 1 */
	/*
	 * Offset of a count in the row, plus 1: the whole of a share, ratio or rate, the divisor of
	 * other numbers.
	 */
	uint16_t per;
	uint16_t count; /* offset of a count in the row, plus 1; text is "-" if the count is 0 */
	/* HTML: offset in the row, plus 1, of a double from -1 to 1 that colours the cell */
	uint16_t heat;
	bool wide; /* column of wide tables only */
	enum table_id table;
	int column;
	/* Computes the value, instead of reading a member. */
	void (*value)(const struct report_view *v, const void *row, struct value *out);
	const char *(*head_of)(const struct report_view *v); /* instead of head; NULL: no column */
	const char *(*names)(unsigned value);
	/* Whether a row has the field; if not, the key is absent, or null with `null`. */
	bool (*when)(const struct report_view *v, const void *row);
	bool null;
	uint8_t width; /* UNIT_NUMBERS: bytes of each number */
	bool trim; /* UNIT_NUMBERS: omit trailing zeros after the first number */
	/*
	 * UNIT_OBJECT: finds the row of the object's fields if it is not this row; it may be built
	 * in `room`, which has SECTION_ROOM bytes. NULL: like `when` returning false.
	 */
	const void *(*of)(const struct report_view *v, const void *row, void *room);
	const struct list *list;
};

#define SECTION_ROOM 128

/*
 * Defines a condition on a row, for .when, .hidden, .ends: ROW_IF(is_open, struct door,
 * !row->closed). v is the report_view.
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
 * Defines a function for .value: ROW_READ(read_count, struct hotspot,
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

/* Defines a function for .of: ROW_OF(busy_of, &v->report->busy->gpus[index_of(v, row)]) */
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
#define HEAT(type, member) .heat = offsetof(type, member) + 1
#define NUMBERS(type, member) MEMBER(type, member), .width = sizeof(((type *)NULL)->member[0])
#define ENUM(name, column_name) .table = TABLE_##name, .column = COLUMN_##name##_##column_name
/* FIELD("total_ns", "time", NS, MEMBER(struct row, total_ns)); NULL: no key, or no head. */
#define FIELD(field_key, field_head, field_unit, ...)                                              \
	{                                                                                          \
		.key = (field_key), .head = (field_head), .unit = UNIT_##field_unit, __VA_ARGS__   \
	}
#define LEFT_COLUMN .layout = LAYOUT_LEFT
#define FLEXIBLE_COLUMN .layout = LAYOUT_FLEXIBLE
#define OPTIONAL_COLUMN .layout = LAYOUT_OPTIONAL
#define FIELDS(array) .fields = (array), .field_count = ARRAY_SIZE(array)

/*
 * A list of rows: an array in the result or, for nested lists, in the row: either a pointer (ITEMS)
 * or a member (ARRAY). The fields with heads form a table.
 */
struct list {
	size_t items, count, stride;
	size_t length; /* ARRAY: its length; 0: ITEMS, with a pointer and `count` */
	const struct field *fields;
	size_t field_count;
	bool half; /* text shows half as many rows */
	bool all; /* ignore report_view.top */
	bool (*hidden)(const struct report_view *v, const void *row);
	bool (*ends)(const struct report_view *v, const void *row); /* text ends before this row */
	/* Adds lines below the row. */
	void (*notes)(const struct report_view *v, const void *row, struct text_table *t);
	/* The i-th row, if rows are not an array; NULL after the last. */
	const void *(*item)(const struct report_view *v, const void *row, size_t i);
	/*
	 * JSON is an object with these keys instead of an array; a single field without a key is
	 * the value itself.
	 */
	const char *(*names)(unsigned index);
};

#define ITEMS(type, member, counter)                                                               \
	.items = offsetof(type, member), .count = offsetof(type, counter),                         \
	.stride = sizeof(*((type *)NULL)->member)
#define ARRAY(type, member)                                                                        \
	.items = offsetof(type, member), .length = ARRAY_SIZE(((type *)NULL)->member),             \
	.stride = sizeof(((type *)NULL)->member[0])

/* A field that is a list: its key, ITEMS or ARRAY, its fields, and other members of struct list. */
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
	size_t result; /* offset of the result's pointer in struct report */
	bool whole_report; /* the result is the report itself */
	const struct field *fields;
	size_t field_count;
	bool (*shown)(const struct report_view *v); /* NULL: shown if a table has rows */
	bool (*computed)(const struct report_view *v); /* else its key is null in JSON; NULL: is */
	void (*empty)(const struct report_view *v); /* prints text if it is not shown; NULL: none */
	void (*remark)(const struct report_view *v, struct strbuf *out); /* text beside the title */
	/* Add lines between the title and the tables, and after the tables. */
	void (*before)(const struct report_view *v, struct strbuf *out);
	void (*after)(const struct report_view *v, struct strbuf *out);
	/* Adds a picture to a page, before the tables. */
	void (*picture)(const struct report_view *v);
	/* Prints the text, instead of the declared tables. */
	void (*text)(const struct report_view *v);
};

/* Rows of tables of scopes: more than of other tables, to show a few levels of each scope. */
static inline uint64_t report_tree_rows(const struct report_view *v)
{
	return v->top > UINT64_MAX / 5 ? UINT64_MAX : v->top * 5;
}

#define RESULT(name) .result = offsetof(struct report, name)

/*
 * Appends the roofline of measured kernels as an svg element, which stands alone as a file or in a
 * page. False, and nothing is appended: no measured kernel computed and used memory.
 */
bool roofline_picture(const struct report_view *v, struct strbuf *out);
/* Appends the report as text, about one screen, the most important sections first. */
void report_print_text(const struct report_view *v);
/* Appends a self-contained page with the same contents; view.html must be true. */
void report_print_html(const struct report_view *v);
/*
 * Appends one JSON object and a newline. docs/report.md describes the keys; none is ever removed.
 */
void report_print_json(const struct report_view *v);

/* Appends only what is about the ranks of a job, of a report that has only that. */
void report_print_ranks(const struct report_view *v, bool json);

/* What lies between the GPUs of ranks: JSON of `--ranks`, and a line for each kind of link. */
extern const struct section section_topology;
/* Of a report with options.now, which has only these. */
extern const struct section section_hotspots, section_launches;
/* What bounded the job: text and JSON of `--ranks --critical-path`. */
extern const struct section section_rank_path;
/* Heat maps of what ranks waited for each other: text and JSON of `--ranks --collectives`. */
extern const struct section section_rank_waits;
void report_links_text(const struct report *r, struct strbuf *out);
/* Appends which ranks of the job have no recorder inside, after "; ". */
void report_absent_ranks(const struct trace *t, struct strbuf *out);
/* Appends which hosts are not on the clock of the others, after "; ". */
void report_unaligned_hosts(const struct trace *t, struct strbuf *out);

/* Append one section, for the renderers and tests. JSON: keys of the open object of *j. */
void section_print_text(const struct section *s, const struct report_view *v);
void section_print_json(const struct section *s, const struct report_view *v, struct json *j);

/* Title of the report. */
void report_heading(const struct report_view *v, const char *text);
/* "\nverdict  GPU-bound; after its start-up …" */
void report_verdict(const struct report_view *v, enum style style, const char *verdict,
		    const char *rest);
/* Folded text, indented by `indent` blanks; nothing for "". */
void report_paragraph(const struct report_view *v, unsigned indent, const char *text);
void report_table(const struct report_view *v, struct text_table *t);
/* An empty line, before output that has no title. */
void report_gap(const struct report_view *v);
/* "\ntitle  rest" */
void report_title(const struct report_view *v, const char *title, const char *rest);
/* "label  text", folded. */
void report_labelled(const struct report_view *v, enum style style, const char *label,
		     const char *text);

/* Adds a cell with a bar of at most `columns` for part / whole; it is empty without v->bars. */
void report_bar(struct text_table *t, const struct report_view *v, uint64_t part, uint64_t whole,
		unsigned columns);

/* Result of a section's analysis. This and the functions below are for the two renderers. */
const void *section_result(const struct section *s, const struct report *r);

/* The i-th row of a list of a result or row; NULL after the last. */
const void *list_row(const struct list *list, const struct report_view *v, const void *of,
		     size_t i);

/* Reads a field. *out must be zeroed; the caller releases out->text. */
void value_read(const struct report_view *v, const struct field *f, const void *result,
		const void *row, struct value *out);
/* Appends a known value for people; safe for a terminal. */
void value_text(const struct report_view *v, const struct field *f, const struct value *value,
		struct strbuf *out);
/* Whether value_read stores values of this unit in value.text. */
bool value_is_text(enum unit unit);
/* Text of a value of a field with UNIT_NAME; "?" if the schema has none. */
const char *value_name(const struct field *f, uint64_t value);

#endif
