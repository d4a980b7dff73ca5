/*
 * perfetto_stack_packets.h: interned call stacks and their parts, and samples of stacks. A sequence
 * defines each stack and its parts when it first needs them.
 */
#ifndef PITOT_PERFETTO_PERFETTO_STACK_PACKETS_H
#define PITOT_PERFETTO_PERFETTO_STACK_PACKETS_H

#include "base/map.h"
#include "base/vec.h"
#include "perfetto/perfetto_packets.h"

/* Values of Frame.kind; 0: unspecified. */
enum { KIND_NATIVE = 1, KIND_SYSTEM = 2, KIND_INTERPRETED = 3 };

/* What a sequence has defined so far. */
struct perfetto_defined {
	struct map stacks; /* key of a stack -> 1, or 2 if it has no frames */
	struct map parts; /* key of a frame, text, mapping, … */
};

void perfetto_defined_clear(struct perfetto_defined *d);
void perfetto_defined_release(struct perfetto_defined *d);

/* Frames of a stack, outermost first, as numbers that only their source understands. */
struct perfetto_frames {
	VEC(uint64_t) items;
};

/* A mapped part of a file; start 0 and end 0: unknown. */
struct perfetto_mapping {
	const char *path, *build_id; /* build id in hexadecimal, or "" */
	uint64_t start, end, offset, bias;
};

/* Readers drop a whole stack if one of its frames has no mapping. */
void perfetto_intern_mapping(struct strbuf *s, uint64_t iid, const struct perfetto_mapping *m);

/* A frame before it is interned; texts are valid until the next one is described. */
struct perfetto_frame_text {
	const char *function, *source; /* "": unknown */
	struct perfetto_mapping mapping;
	uint64_t address;
	uint32_t line;
	int kind;
};

struct perfetto_frame {
	uint64_t name, mapping, source; /* iids; name, source 0: none */
	uint64_t address; /* relative to the file's own headers; 0: none */
	uint32_t line; /* 0: none */
	int kind;
};

void perfetto_intern_frame(struct strbuf *s, uint64_t iid, const struct perfetto_frame *f);

/*
 * Appends "step (train.py)", because readers do not show the files of Python functions separately.
 */
void perfetto_python_name(struct strbuf *out, const char *function, const char *file);

/* Writes the process and the unit of a sequence's samples, and closes its defaults. */
void perfetto_sample_defaults(struct strbuf *s, size_t defaults, bool off_cpu);

struct perfetto_sample {
	uint64_t stack_iid, weight_ns;
	uint32_t pid, thread;
	int64_t cpu; /* -1: unknown */
};

/* Writes a sample into an open packet. */
void perfetto_sample_write(struct strbuf *s, const struct perfetto_sample *sample);

#endif
