/*
 * import_session.h: converts a session of gpufl's logs into a process of a recording. The
 * recording's times are the logs', in nanoseconds since the epoch.
 *
 * Files arrive channel by channel, scopes first, and the lines of a channel in order. State is
 * bounded: the last 65,536 kernels wait for their details, and names, scopes and call stacks have
 * limits (the excess is counted as loss).
 */
#ifndef PITOT_IMPORT_GPUFL_IMPORT_SESSION_H
#define PITOT_IMPORT_GPUFL_IMPORT_SESSION_H

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"
#include "import/gpufl/import_record.h"
#include "import/import_losses.h"
#include "import/importer.h"
#include "stack/stack_tree.h"

#define IMPORT_ID_BYTES 64
#define IMPORT_DEVICES 64

/* Maps of dictionary_update. */
enum import_dictionary { NAMES_KERNEL, NAMES_SCOPE, NAMES_FUNCTION, NAMES_METRIC, NAMES };

/* The origin of a launch; scope path and call stack are text numbers. */
struct import_origin {
	uint64_t path, stack;
	uint64_t start_ns, end_ns; /* of the call; 0: unknown */
	uint64_t thread; /* of the call; 0: unknown */
};

/* Contents of kernel_detail; equal ones are stored once. */
struct import_detail {
	struct row_kernel_config config;
	struct import_origin origin;
};

/* A kernel that waits for its detail. */
struct import_kernel {
	uint64_t detail, name; /* detail: id; name: text number */
	struct import_origin call; /* what its batch has of it */
	struct row_kernel_config config; /* what its batch has */
	struct row_kernel row;
};

struct import_scope {
	uint64_t path, begin_ns;
	uint32_t thread;
};

/* An NVTX range of a thread. */
struct import_range {
	uint64_t start_ns, end_ns, message;
	uint32_t thread, domain, level;
};

struct import_session {
	char id[IMPORT_ID_BYTES];
	struct import_result *result;
	struct writer *writer;
	size_t unflushed_bytes; /* of lines */
	uint64_t number; /* of the session in the segments */
	struct row_process process; /* without its texts, which are the next three */
	uint64_t app, host, log_path;
	bool has_start, has_end;
	uint64_t capabilities_ns; /* time of the record that was read; 0: none */
	bool lacks_device; /* some GPU work does not name its device */
	uint64_t first_ns, last_ns; /* of the rows */
	uint64_t latest_ns; /* time after which nothing can have been */
	uint64_t devices; /* bits of known devices */
	struct interner texts; /* of dictionaries, paths, stacks, frames */
	struct map names[NAMES]; /* id in the logs -> text */
	struct map counters; /* text of the name -> id in table counter */
	struct map metrics; /* text of the name -> id in table metric */
	struct map domains; /* text -> id in table nvtx_domain */
	uint64_t next_id; /* of ranges and readings */

	/* import_scopes.c: */
	struct map parents; /* path -> enclosing path */
	struct map open; /* instance -> path << 32 | thread */
	struct map inner; /* thread -> innermost path, or 0 */
	uint32_t last_thread; /* of logs without threads */
	VEC(struct import_scope) scopes; /* scopes that have begun */
	VEC(struct import_range) ranges; /* not yet written */
	bool is_sorted;

	/* import_work.c: */
	struct interner details; /* of struct import_detail */
	struct map detail_of; /* corr_id -> item of details */
	VEC(struct import_kernel) pending;
	struct map called; /* correlation ids of the calls that were written last */
	bool has_calls; /* that have their times and threads */
	struct stack_tree stacks;
	struct map stack_of; /* text -> id of a stack */
	struct map symbols; /* texts in table symbol */

	struct import_losses losses;
};

/* Opens the session's writer. Returns 0 or a negative code. */
int import_session_init(struct import_session *s, const char *id, const char *directory,
			uint32_t pid, struct import_result *result, struct error *e) MUST_USE;
/* Writes pending rows and closes the writer. Returns 0 or a negative code. */
int import_session_end(struct import_session *s, struct error *e) MUST_USE;
void import_session_release(struct import_session *s);
/*
 * Converts a record of the session, of `bytes` bytes. Returns 0, or a negative code if the
 * recording cannot be written.
 */
int import_record(struct import_session *s, struct record *r, size_t bytes,
		  struct error *e) MUST_USE;

/* Reads the names of a dictionary_update ahead of the records that refer to them. */
void import_names(struct import_session *s, struct record *r);
/* Reads a shutdown ahead, because no work is later. */
void import_end(struct import_session *s, const struct record *r);

/* ---- for the parts of the session ---- */

void import_append(struct import_session *s, enum table_id table, const void *row);
void import_add_loss(struct import_session *s, enum loss_reason reason, uint64_t count,
		     const char *detail);
void import_put(struct import_session *s, struct map *m, uint64_t key, uint64_t value);
/* Returns the number of a text, from 1; 0 for "", for NULL, and if there is no room. */
uint64_t import_text(struct import_session *s, const char *text);
struct interned import_text_of(const struct import_session *s, uint64_t text);
/* Returns the id of a text for a STRING column. */
uint32_t import_string(struct import_session *s, uint64_t text);
/*
 * Returns the text of a member that is a dictionary id; 0 if there is no id. The text of an id that
 * no dictionary has contains the id, and is counted once.
 */
uint64_t import_name(struct import_session *s, enum import_dictionary kind, struct record *r,
		     const char *key);
/* As record_integer, but also counts a missing member as damage. */
bool import_required(struct import_session *s, struct record *r, const char *key, uint64_t most,
		     uint64_t *value);
/* Whether these are times of the session; if so, extends its span. */
bool import_span(struct import_session *s, uint64_t start_ns, uint64_t end_ns);
/* Same for one time, which it returns. Returns 0 and counts loss no_time if it is missing. */
uint64_t import_time(struct import_session *s, const struct record *r, const char *key,
		     const char *detail);
/* Fills a row by record_fill and validates its times and its device. */
void import_fill(struct import_session *s, struct record *r, enum table_id table, void *row);

/* Converts a record, or a row of a batch. */
typedef void import_handler(struct import_session *s, struct record *r);
import_handler import_kernel, import_kernel_detail, import_copy, import_memset, import_graph_launch,
	import_wait, import_allocation;
import_handler import_scope, import_nvtx_range, import_system_mark;
import_handler import_device_metrics, import_host_metrics, import_pm_sample, import_profile_sample,
	import_kernel_counters, import_range_counters;

/* Writes the waiting kernels; `all`: also those whose details have not arrived. */
void import_kernels_resolve(struct import_session *s, bool all);
/* Writes the NVTX ranges that wait for it: records come at the ends of ranges. */
void import_ranges_write(struct import_session *s);
/* Returns the scope of a path that began last before a time, or NULL. */
const struct import_scope *import_scope_find(struct import_session *s, uint64_t path,
					     uint64_t time_ns);
/* The stack_describe function of the session's tree. */
void import_python_frame(void *session, struct writer *w, uint64_t frame,
			 struct row_stack_node *row);
/* Writes the API functions that stand for calls of each kind. */
void import_functions(struct import_session *s);

#endif
