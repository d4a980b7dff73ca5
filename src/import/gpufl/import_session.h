/*
 * import_session.h: a session of gpufl's logs on its way into a process of a recording. Times of the recording are those of the logs,
 * nanoseconds since the epoch.
 *
 * Files come channel by channel, scopes first; lines of a channel in their order. What is kept of them is bounded: kernels wait for
 * their details among the last PENDING_MAX, and names, scopes and call stacks have ceilings (what is beyond is a loss).
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_SESSION_H
#define PITOT_IMPORT_GPUFL_IMPORT_SESSION_H

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"
#include "import/gpufl/import_record.h"
#include "import/importer.h"
#include "stack/stack_tree.h"

#define IMPORT_ID_BYTES 64
#define IMPORT_TEXT_MAX ((size_t)64 << 20) /* of all texts of a kind; more are "?" */
#define IMPORT_DEVICES 64
#define IMPORT_LOSSES 32 /* kinds of losses that are told apart */

/* Maps of dictionary_update. */
enum import_dictionary { NAMES_KERNEL, NAMES_SCOPE, NAMES_FUNCTION, NAMES_METRIC, NAMES };

/* Calls that the recording has in place of those that the logs lack: ids of table api_function. */
enum import_call { CALL_ORIGIN = 1, CALL_LAUNCH, CALLS_END };

/* A kernel whose detail has not come yet. */
struct import_kernel {
	uint64_t detail; /* id */
	uint64_t name; /* text */
	uint32_t registers, dynamic_shared_bytes;
	uint32_t external_kind;
	uint64_t external_id;
	struct row_kernel row;
};

/* What kernel_detail says; equal ones are one. */
struct import_detail {
	struct row_kernel_config config;
	uint64_t path, stack; /* texts */
};

/* A scope that begins. */
struct import_scope {
	uint64_t path, begin_ns;
	uint32_t thread;
};

struct import_loss {
	enum loss_reason reason;
	uint64_t count;
	char detail[160];
};

struct import_session {
	char id[IMPORT_ID_BYTES];
	struct import_result *result;
	struct writer *writer;
	uint64_t number; /* of the session in the segments */

	struct row_process process; /* without its texts, which are these: */
	uint64_t app, host, log_path;
	bool has_start, has_end;
	bool lacks_device; /* there was GPU work that does not say where it ran */
	uint64_t first_ns, last_ns; /* of the rows */
	uint64_t devices; /* bits: are known */

	struct interner texts; /* of dictionaries, paths, stacks, frames */
	struct map names[NAMES]; /* id of the log → text */
	struct map counters; /* text of the name → id of table counter */
	struct map domains; /* text → id of table nvtx_domain */
	uint64_t next_range;

	/* import_scopes.c: */
	struct map parents; /* path → path around it */
	struct map open; /* instance → path << 32 | thread */
	struct map inner; /* thread → innermost path, or 0 */
	uint32_t last_thread; /* of logs without threads */
	VEC(struct import_scope) scopes;
	bool is_sorted;

	/* import_work.c: */
	struct interner details; /* struct import_detail */
	struct map detail_of; /* corr_id → item of details */
	VEC(struct import_kernel) pending;
	uint64_t last_origin; /* correlation */
	struct stack_tree stacks;
	struct map stack_of; /* text → id of a stack */
	struct map symbols; /* texts that are in table symbol */

	struct import_loss losses[IMPORT_LOSSES];
	size_t loss_count;
	size_t unflushed_bytes; /* of lines */
};

/* Opens its writer. 0 or a negative code. */
int import_session_init(struct import_session *s, const char *id, const char *directory,
			uint32_t pid, struct import_result *result, struct error *e) MUST_USE;
/* Writes what waits, and closes. 0 or a negative code. */
int import_session_end(struct import_session *s, struct error *e) MUST_USE;
void import_session_release(struct import_session *s);
/* A record of it, which had so many bytes. 0 or a negative code: the recording cannot be written. */
int import_record(struct import_session *s, const struct record *r, size_t bytes,
		  struct error *e) MUST_USE;
/* A channel is over. */
void import_channel_end(struct import_session *s);

/* ---- for its parts ---- */

void import_append(struct import_session *s, enum table_id table, const void *row);
void import_lose(struct import_session *s, enum loss_reason reason, uint64_t count,
		 const char *detail);
/* Number of a text, from 1 on; 0 for "", NULL, and where there is no room. */
uint64_t import_text(struct import_session *s, const char *text);
struct interned import_text_of(const struct import_session *s, uint64_t text);
/* Id of it for a STRING column. */
uint32_t import_string(struct import_session *s, uint64_t text);
/* A name of a dictionary, as a text; 0: it is not known. */
uint64_t import_name(const struct import_session *s, enum import_dictionary kind, uint64_t id);
/* Whether these are times; they are then within the session. */
bool import_span(struct import_session *s, uint64_t start_ns, uint64_t end_ns);

/* Handlers: of a record, import_work.c, import_scopes.c, import_system.c. */
typedef void import_handler(struct import_session *s, const struct record *r);
import_handler import_kernels, import_kernel_detail, import_kernel_event, import_copies,
	import_copy_event, import_memset, import_graph_launch, import_waits, import_wait_event,
	import_allocations, import_allocation_event;
import_handler import_scope_events, import_scope_event, import_nvtx_range, import_system_mark;
import_handler import_device_metrics, import_host_metrics, import_pm_samples, import_pc_samples;

/* Kernels that wait; `all`: also those whose details have not come. */
void import_kernels_resolve(struct import_session *s, bool all);
/* The scope of a path that began last before a time; NULL: none did. */
const struct import_scope *import_scope_find(struct import_session *s, uint64_t path,
					     uint64_t time_ns);
/* The device, where the log has only one. */
uint32_t import_device(const struct import_session *s);

/*
 * The rows of a batch. names[0] is "dt_ns"; time_ns is that with the batch's base, 0 where it is unknown.
 *
 *	#define COPY_COLUMNS(C, p) C(p, dt_ns) C(p, bytes)
 *	IMPORT_COLUMNS(COPY, COPY_COLUMNS)	COPY_bytes, COPY_names, COPY_COUNT
 */
typedef void import_row(struct import_session *s, const struct cell *cells, uint64_t time_ns);
void import_batch(struct import_session *s, const struct record *r, const char *const *names,
		  size_t count, import_row *add);
#define IMPORT_COLUMN_ID(p, name) p##_##name,
#define IMPORT_COLUMN_NAME(p, name) #name,
#define IMPORT_COLUMNS(p, list)                                                                    \
	enum { list(IMPORT_COLUMN_ID, p) p##_COUNT };                                              \
	static const char *const p##_names[] = { list(IMPORT_COLUMN_NAME, p) };

/* 0 where it is missing, negative or too large. */
static inline uint32_t cell_u32(struct cell c)
{
	return c.known && c.value > 0 && c.value <= UINT32_MAX ? (uint32_t)c.value : 0;
}

#endif
