/*
 * import_session.h: a session of gpufl's logs on its way into a process of a recording. Times of
 * the recording are those of the logs, nanoseconds since the epoch.
 *
 * Files come channel by channel, scopes first; lines of a channel in their order. What is kept of
 * them is bounded: kernels wait for their details among the last 65,536, and names, scopes and call
 * stacks have ceilings (what is beyond is a loss).
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
#define IMPORT_DEVICES 64
#define IMPORT_LOSSES 32 /* kinds of losses that are told apart */

/* Maps of dictionary_update. */
enum import_dictionary { NAMES_KERNEL, NAMES_SCOPE, NAMES_FUNCTION, NAMES_METRIC, NAMES };

/* Where a launch came from; texts. */
struct import_origin {
	uint64_t path, stack;
	uint64_t start_ns, end_ns; /* of the call; 0: unknown */
};

/* What kernel_detail says; equal ones are one. */
struct import_detail {
	struct row_kernel_config config;
	struct import_origin origin;
};

/* A kernel that waits for its detail. */
struct import_kernel {
	uint64_t detail, name; /* id, text */
	uint32_t registers, dynamic_shared_bytes;
	struct row_kernel row;
};

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
	size_t unflushed_bytes; /* of lines */
	uint64_t number; /* of the session in the segments */
	struct row_process process; /* without its texts, which are these: */
	uint64_t app, host, log_path;
	bool has_start, has_end;
	uint64_t capabilities_ns; /* of the record that was read; 0: none */
	bool lacks_device; /* there was GPU work that does not say where it ran */
	uint64_t first_ns, last_ns; /* of the rows */
	uint64_t devices; /* bits: are known */
	struct interner texts; /* of dictionaries, paths, stacks, frames */
	struct map names[NAMES]; /* id of the log → text */
	struct map counters; /* text of the name → id of table counter */
	struct map metrics; /* the same of table metric */
	struct map domains; /* text → id of table nvtx_domain */
	uint64_t next_id; /* of ranges and readings */

	/* import_scopes.c: */
	struct map parents; /* path → path around it */
	struct map open; /* instance → path << 32 | thread */
	struct map inner; /* thread → innermost path, or 0 */
	uint32_t last_thread; /* of logs without threads */
	VEC(struct import_scope) scopes; /* that began */
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
};

/* Opens its writer. 0 or a negative code. */
int import_session_init(struct import_session *s, const char *id, const char *directory,
			uint32_t pid, struct import_result *result, struct error *e) MUST_USE;
/* Writes what waits, and closes. 0 or a negative code. */
int import_session_end(struct import_session *s, struct error *e) MUST_USE;
void import_session_release(struct import_session *s);
/*
 * A record of it, which had so many bytes. 0 or a negative code: the recording cannot be written.
 */
int import_record(struct import_session *s, struct record *r, size_t bytes,
		  struct error *e) MUST_USE;

/* ---- for its parts ---- */

void import_append(struct import_session *s, enum table_id table, const void *row);
void import_lose(struct import_session *s, enum loss_reason reason, uint64_t count,
		 const char *detail);
void import_put(struct import_session *s, struct map *m, uint64_t key, uint64_t value);
/* Number of a text, from 1 on; 0 for "", NULL, and where there is no room. */
uint64_t import_text(struct import_session *s, const char *text);
struct interned import_text_of(const struct import_session *s, uint64_t text);
/* Id of it for a STRING column. */
uint32_t import_string(struct import_session *s, uint64_t text);
/* A member that is an id of a dictionary, as a text; 0: it is not known. */
uint64_t import_name(const struct import_session *s, enum import_dictionary kind,
		     const struct record *r, const char *key);
/* Whether these are times; they are then within the session. */
bool import_span(struct import_session *s, uint64_t start_ns, uint64_t end_ns);
/* A row of such a table as record_fill has it, with its times and its device made sure. */
void import_fill(struct import_session *s, struct record *r, enum table_id table, void *row);

/* Of a record, or of each row of a batch. */
typedef void import_handler(struct import_session *s, struct record *r);
import_handler import_kernel, import_kernel_detail, import_copy, import_memset, import_graph_launch,
	import_wait, import_allocation;
import_handler import_scope, import_nvtx_range, import_system_mark;
import_handler import_device_metrics, import_host_metrics, import_pm_sample, import_profile_sample;

/* Kernels that wait; `all`: also those whose details have not come. */
void import_kernels_resolve(struct import_session *s, bool all);
/* The scope of a path that began last before a time; NULL: none did. */
const struct import_scope *import_scope_find(struct import_session *s, uint64_t path,
					     uint64_t time_ns);
/* stack_describe of the session's tree. */
void import_python_frame(void *session, struct writer *w, uint64_t frame,
			 struct row_stack_node *row);
/* Functions of calls: where a launch is from whose times are unknown, and a launch. */
void import_functions(struct import_session *s);

#endif
