/*
 * perfetto_slice_packets.h: slices and instants of threads and other groups, and annotations.
 *
 * Each track has its own sequence, which interns names. Slices that do not nest go to further
 * lanes, which are child tracks with consecutive uuids.
 */
#ifndef PITOT_PERFETTO_PERFETTO_SLICE_PACKETS_H
#define PITOT_PERFETTO_PERFETTO_SLICE_PACKETS_H

#include "base/map.h"
#include "perfetto/perfetto_packets.h"
#include "schema/schema.h"

/* Categories of slices and names of annotations, interned in each track's sequence. */
#define SLICE_CATEGORIES(C)                                                                        \
	C(RUNTIME, "cuda_runtime")                                                                 \
	C(DRIVER, "cuda_driver")                                                                   \
	C(NVTX, "nvtx")                                                                            \
	C(SCOPE, "scope")                                                                          \
	C(SYNC, "cuda_sync")                                                                       \
	C(OVERHEAD, "overhead")                                                                    \
	C(MEMORY, "memory")                                                                        \
	C(LOSS, "loss")                                                                            \
	C(COUNTERS, "hardware_counters")                                                           \
	C(PATH, "critical_path")

#define SLICE_ANNOTATIONS(N)                                                                       \
	N(CORRELATION, "correlation")                                                              \
	N(RESULT, "result")                                                                        \
	N(DOMAIN, "domain")                                                                        \
	N(CATEGORY, "category")                                                                    \
	N(PAYLOAD, "payload")                                                                      \
	N(UNFINISHED, "unfinished")                                                                \
	N(STREAM, "stream")                                                                        \
	N(CONTEXT, "context")                                                                      \
	N(EVENT, "event")                                                                          \
	N(BYTES, "bytes")                                                                          \
	N(ADDRESS, "address")                                                                      \
	N(DEVICE, "device")                                                                        \
	N(THREAD, "thread")                                                                        \
	N(COUNT, "count")                                                                          \
	N(DETAIL, "detail")                                                                        \
	N(SYNC, "synchronization")                                                                 \
	N(SCOPE, "scope")                                                                          \
	N(CONTINUES, "continues")                                                                  \
	N(REPEATS, "repeats")                                                                      \
	N(WARMUPS, "warmups")                                                                      \
	N(EXTERNAL, "external_id")

#define CATEGORY_ID(id, name) CATEGORY_##id,
enum { CATEGORY_NONE, SLICE_CATEGORIES(CATEGORY_ID) CATEGORY_END };
#define ANNOTATION_ID(id, name) ANNOTATION_##id,
enum { ANNOTATION_NONE, SLICE_ANNOTATIONS(ANNOTATION_ID) ANNOTATION_END };

/* The sequence of a track. */
struct perfetto_slices {
	uint64_t uuid; /* of lane 0; lane n has uuid + n */
	struct perfetto_sequence sequence;
	struct map names; /* key of an interned name or scope -> iid */
};

/* A text to intern; `key` identifies it within a track. */
struct track_name {
	uint64_t key;
	const char *text;
	size_t length;
};

struct perfetto_slice {
	uint64_t time_ns;
	size_t lane;
	bool instant;
	uint32_t category;
	struct track_name name;
	struct track_name scope; /* annotates the slice; text NULL: none */
	uint64_t stack_iid; /* 0: none */
	/*
	 * Defines the stack inside an open InternedData; returns 0 or -ENOMEM. NULL: already
	 * defined.
	 */
	int (*define_stack)(void *user, struct strbuf *s, uint64_t iid);
	void *user;
};

/* An open slice or instant. Annotations may follow, then perfetto_slice_close. */
struct open_slice {
	struct strbuf *out;
	size_t packet, event;
	bool has_stack;
};

void perfetto_slices_restart(struct perfetto_slices *t); /* forgets what was interned */
void perfetto_slices_release(struct perfetto_slices *t);

/* Begins a slice or an instant. Returns 0, or -ENOMEM with nothing open. */
int perfetto_slice_begin(struct perfetto_slices *t, struct strbuf *s,
			 const struct perfetto_slice *slice, struct open_slice *open) MUST_USE;
void perfetto_slice_close(struct open_slice *open);
/*
 * The end of a slice, to which annotations that need no incremental state can be added, too.
 */
void perfetto_slice_end_open(const struct perfetto_slices *t, struct strbuf *s, size_t lane,
			     uint64_t time_ns, struct open_slice *open);
/*
 * Ends the innermost slice of a lane. After a restart of the sequence the packet needs no
 * incremental state, because the packets that define it may be lost.
 */
void perfetto_slice_end(const struct perfetto_slices *t, struct strbuf *s, size_t lane,
			uint64_t time_ns);

static inline void perfetto_annotate(struct strbuf *s, uint32_t name_iid, int64_t value)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_int(s, 4, value);
	proto_close(s, token);
}

void perfetto_annotate_unsigned(struct strbuf *s, uint32_t name_iid, uint64_t value);
void perfetto_annotate_double(struct strbuf *s, uint32_t name_iid, double value);
void perfetto_annotate_text(struct strbuf *s, uint32_t name_iid, const char *text, size_t length);
/* Annotations of a synchronization: what was waited for. */
void perfetto_annotate_wait(struct strbuf *s, const struct row_synchronization *row);
/* Annotations of a measured range: number of its passes, and each metric. Need no state. */
void perfetto_annotate_passes(struct strbuf *s, uint32_t passes);
void perfetto_annotate_metric(struct strbuf *s, const char *name, double value);

#endif
