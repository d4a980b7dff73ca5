/*
 * perfetto_frames.h: call stacks, and samples of them: what a sequence interns, part by part. A
 * sequence defines each stack, and what it is made of, when it first needs it.
 */
#ifndef PITOT_PERFETTO_PERFETTO_FRAMES_H
#define PITOT_PERFETTO_PERFETTO_FRAMES_H

#include "base/map.h"
#include "perfetto/perfetto_packets.h"

/* Fields of InternedData. */
enum {
	DATA_FUNCTION_NAMES = 5,
	DATA_FRAMES = 6,
	DATA_CALLSTACKS = 7,
	DATA_BUILD_IDS = 16,
	DATA_MAPPING_PATHS = 17,
	DATA_SOURCE_PATHS = 18,
	DATA_MAPPINGS = 19,
};

/* Values of Frame.kind; 0: none of them. */
enum { KIND_NATIVE = 1, KIND_SYSTEM = 2, KIND_INTERPRETED = 3 };

/* What a sequence has defined. */
struct perfetto_defined {
	struct map stacks; /* key of a stack -> 1, or 2: it has no frames */
	struct map parts; /* key of a frame, a text, a mapping … */
};

void perfetto_defined_clear(struct perfetto_defined *d);
void perfetto_defined_release(struct perfetto_defined *d);

/* A part of a file in memory; start 0 and end 0: not known. */
struct perfetto_mapping {
	const char *path, *build_id; /* build id in hexadecimal, or "" */
	uint64_t start, end, offset, bias;
};

/* Every frame has a mapping, or readers do without the whole stack. */
void perfetto_intern_mapping(struct strbuf *s, uint64_t iid, const struct perfetto_mapping *m);

struct perfetto_frame {
	uint64_t name, mapping, source; /* iids; name, source 0: none */
	uint64_t address; /* as in the file's own headers; 0: none */
	uint32_t line; /* 0: none */
	int kind;
};

void perfetto_intern_frame(struct strbuf *s, uint64_t iid, const struct perfetto_frame *f);

/*
 * Python's functions are told apart by their files, "step (train.py)", which readers do not show
 * else. Appends that.
 */
void perfetto_python_name(struct strbuf *out, const char *function, const char *file);

/* Whose samples a sequence has, and what their weights mean; closes its defaults. */
void perfetto_sample_defaults(struct strbuf *s, size_t defaults, bool off_cpu);

struct perfetto_sample {
	uint64_t stack_iid, weight_ns;
	uint32_t pid, thread;
	int64_t cpu; /* -1: unknown */
};

/* Inside a packet. */
void perfetto_sample_write(struct strbuf *s, const struct perfetto_sample *sample);

#endif
