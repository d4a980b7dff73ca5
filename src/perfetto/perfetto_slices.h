/*
 * perfetto_slices.h: slices and instants of threads, and of groups of what is no thread's, with
 * their annotations.
 *
 * A track has a sequence of its own, in which names are interned. Slices that do not nest go to
 * further lanes, which are tracks below it with the uuids after its own.
 */
#ifndef PITOT_PERFETTO_PERFETTO_SLICES_H
#define PITOT_PERFETTO_PERFETTO_SLICES_H

#include "base/map.h"
#include "perfetto/perfetto_packets.h"

/* Categories of slices and names of annotations, interned in each sequence of a track. */
#define SLICE_CATEGORIES(C)                                                                        \
	C(RUNTIME, "cuda_runtime")                                                                 \
	C(DRIVER, "cuda_driver")                                                                   \
	C(NVTX, "nvtx")                                                                            \
	C(SCOPE, "scope")                                                                          \
	C(SYNC, "cuda_sync")                                                                       \
	C(OVERHEAD, "overhead")                                                                    \
	C(MEMORY, "memory")                                                                        \
	C(LOSS, "loss")

#define SLICE_NOTES(N)                                                                             \
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
#define NOTE_ID(id, name) NOTE_##id,
enum { NOTE_NONE, SLICE_NOTES(NOTE_ID) NOTE_END };

/* The sequence of a track. */
struct perfetto_slices {
	uint64_t uuid; /* of lane 0; lane n: uuid + n */
	struct perfetto_sequence sequence;
	struct map names; /* keys of the names that are interned -> iid */
};

/* A text to intern: `key` stands for it, in one track. */
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
	uint64_t stack_iid; /* 0: none */
	/*
	 * Defines the stack inside an open InternedData: 0 or -ENOMEM. NULL: the sequence has it.
	 */
	int (*define_stack)(void *user, struct strbuf *s, uint64_t iid);
	void *user;
};

/* An open slice or instant: annotations may follow, then perfetto_slice_close. */
struct open_slice {
	struct strbuf *out;
	size_t packet, event;
	bool has_stack;
};

void perfetto_slices_restart(struct perfetto_slices *t); /* what was interned is forgotten */
void perfetto_slices_release(struct perfetto_slices *t);

/* Begins a slice, or an instant. 0 or -ENOMEM, and then nothing is open. */
int perfetto_slice_begin(struct perfetto_slices *t, struct strbuf *s,
			 const struct perfetto_slice *slice, struct open_slice *open) MUST_USE;
void perfetto_slice_close(struct open_slice *open);
/*
 * Ends the innermost slice of a lane. Needs no state of a sequence that begins anew, which may have
 * been lost.
 */
void perfetto_slice_end(const struct perfetto_slices *t, struct strbuf *s, size_t lane,
			uint64_t time_ns);

static inline void perfetto_note(struct strbuf *s, uint32_t name_iid, int64_t value)
{
	size_t token = proto_open(s, 4);

	proto_uint(s, 1, name_iid);
	proto_int(s, 4, value);
	proto_close(s, token);
}

void perfetto_note_double(struct strbuf *s, uint32_t name_iid, double value);
void perfetto_note_text(struct strbuf *s, uint32_t name_iid, const char *text, size_t length);

#endif
