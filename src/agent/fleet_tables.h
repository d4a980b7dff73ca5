/*
 * fleet_tables.h: the tables of a lake: their columns, from which Parquet files, the DDL of engines
 * and the documentation come; and rows of them in memory.
 *
 * Columns are only ever added at the end. Times are those of CLOCK_REALTIME.
 */
#ifndef PITOT_AGENT_FLEET_TABLES_H
#define PITOT_AGENT_FLEET_TABLES_H

#include "base/map.h"
#include "base/vec.h"
#include "export/tables/flat_table.h"

/*	C(T, name, TYPE, MAYBE or ALWAYS, "meaning"); types are those of enum flat_type */
/* clang-format off */
#define FLEET_PROCESS(C, T) /* whose rows they are */                                                                \
	C(T, job, TEXT, MAYBE, "job of a scheduler, if known")                                                       \
	C(T, host, TEXT, ALWAYS, "host name")                                                                        \
	C(T, rank, I32, MAYBE, "rank in the job")                                                                    \
	C(T, pid, U32, ALWAYS, "process id")                                                                         \
	C(T, session, U64, ALWAYS, "id of the recorded process image")

#define FLEET_step(C, T)                                                                                             \
	FLEET_PROCESS(C, T)                                                                                          \
	C(T, start_ns, TIME, ALWAYS, "when the range began")                                                         \
	C(T, duration_ns, U64, ALWAYS, "of the range")                                                               \
	C(T, name, TEXT, ALWAYS, "name of the range, excluding numbers")                                             \
	C(T, thread, U32, ALWAYS, "thread id")                                                                       \
	C(T, work, U64, ALWAYS, "kernels, copies and other GPU work that began during the range")                    \
	C(T, work_ns, U64, ALWAYS, "sum of their durations")

#define FLEET_kernel_sketch(C, T)                                                                                    \
	FLEET_PROCESS(C, T)                                                                                          \
	C(T, time_ns, TIME, ALWAYS, "start of the 10 seconds in which the work began")                               \
	C(T, device, U32, MAYBE, "ordinal of the GPU")                                                               \
	C(T, kind, TEXT, ALWAYS, "kernel, memcpy, memset or graph_launch")                                           \
	C(T, name, TEXT, ALWAYS, "short name of the kernel; (others): all but the longest")                          \
	C(T, count, U64, ALWAYS, "number of such work")                                                              \
	C(T, untimed, U64, ALWAYS, "of it, without a start or an end")                                               \
	C(T, total_ns, U64, ALWAYS, "sum of durations")                                                              \
	C(T, min_ns, U64, MAYBE, "shortest")                                                                         \
	C(T, max_ns, U64, MAYBE, "longest")                                                                          \
	C(T, first_ns, TIME, MAYBE, "first start")

#define FLEET_loss(C, T)                                                                                             \
	C(T, job, TEXT, MAYBE, "job of a scheduler, if known")                                                       \
	C(T, host, TEXT, ALWAYS, "host name")                                                                        \
	C(T, rank, I32, MAYBE, "rank in the job")                                                                    \
	C(T, pid, U32, MAYBE, "process id; none: of the agent")                                                      \
	C(T, session, U64, MAYBE, "id of the recorded process image")                                                \
	C(T, time_ns, TIME, ALWAYS, "end of the interval in which it was lost")                                      \
	C(T, lost_by, TEXT, ALWAYS, "recorder or agent")                                                             \
	C(T, reason, TEXT, ALWAYS, "why")                                                                            \
	C(T, count, U64, ALWAYS, "items lost; 0: unknown")                                                           \
	C(T, detail, TEXT, MAYBE, "details")

#define FLEET_TABLES(T)                                                                                              \
	T(step, "steps of programs: ranges that are named like one")                                                 \
	T(kernel_sketch, "GPU work by kernel, in spans of 10 seconds")                                               \
	T(loss, "what recorders and agents have lost")

/* Of a bucket only, and not shipped (lake_manifest.h). */
#define FLEET_compacted(C, T)                                                                                        \
	C(T, object, TEXT, ALWAYS, "last part of the key of an object")                                            \
	C(T, state, U32, ALWAYS, "1: it has the rows of others, and is to be read; 2: others have its rows")
/* clang-format on */

enum fleet_table {
#define T(name, doc) FLEET_##name,
	FLEET_TABLES(T) FLEET_TABLE_COUNT, /* of those that are shipped */
	FLEET_compacted = FLEET_TABLE_COUNT,
	FLEET_ALL_COUNT
#undef T
};

/*
 * struct fleet_step …: a row, each value in 64 bits. A text is a number of fleet_text(). `missing`
 * has a bit for each value that is unknown (FLEET_BIT).
 */
#define FLEET_VALUE(table, name, type, presence, doc) uint64_t name;
#define FLEET_INDEX(table, name, type, presence, doc) FLEET_##table##_##name,
#define T(table, doc)                                                                              \
	struct fleet_##table {                                                                     \
		uint64_t missing;                                                                  \
		FLEET_##table(FLEET_VALUE, table)                                                  \
	};                                                                                         \
	enum { FLEET_##table(FLEET_INDEX, table) FLEET_##table##_COLUMNS };
FLEET_TABLES(T)
T(compacted, "")
#undef T
#define FLEET_BIT(table, column) (UINT64_C(1) << FLEET_##table##_##column)

struct fleet_column {
	const char *name;
	enum flat_type type;
	bool maybe;
	const char *meaning;
};

struct fleet_schema {
	const char *name, *meaning;
	const struct fleet_column *columns;
	size_t column_count;
	int time_column, job_column, host_column; /* by which objects are named; of those shipped */
};
extern const struct fleet_schema fleet_schemas[FLEET_ALL_COUNT];

/* Rows that no object has yet. */
struct fleet_rows {
	VEC(uint64_t) values[FLEET_ALL_COUNT]; /* whole rows: `missing`, and the values */
	struct interner texts;
	bool failed; /* there was no memory for a row */
};

void fleet_rows_init(struct fleet_rows *rows);
void fleet_rows_release(struct fleet_rows *rows);
void fleet_rows_clear(struct fleet_rows *rows);
/* Returns the number of a text. */
uint64_t fleet_text(struct fleet_rows *rows, const char *text);
/* Appends a struct fleet_<table>. */
void fleet_append(struct fleet_rows *rows, enum fleet_table table, const void *row);
size_t fleet_row_count(const struct fleet_rows *rows, enum fleet_table table);

/*
 * Appends rows of a table as lines of JSON: objects with all columns; times are nanoseconds since
 * 1970, and what is unknown is null.
 */
void fleet_add_json(enum fleet_table table, const uint64_t *values, size_t rows,
		    const struct interner *texts, struct strbuf *out);

/*
 * Writes rows of a table, with texts of `texts`, into a Parquet file. Returns 0 or a negative code.
 */
int fleet_write(enum fleet_table table, const uint64_t *values, size_t rows,
		const struct interner *texts, const char *path, uint64_t *bytes,
		struct error *e) MUST_USE;

#endif
