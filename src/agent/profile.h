/*
 * profile.h: the GPU time of a batch by call stack, as a request to a server of profiles. Each
 * piece of work with times is in exactly one profile, as each block is in one batch.
 *
 * Native frames have their address and the build id of their file, and names only where the segment
 * has some: `pitot symbolize` writes them into another file. Python's frames have theirs.
 */
#ifndef PITOT_AGENT_PROFILE_H
#define PITOT_AGENT_PROFILE_H

#include "agent/agent_sources.h"
#include "agent/spool.h"

/* P(id, name, path of requests, type, suffix of the profile's format) */
#define PROFILE_KINDS(P)                                                                           \
	P(pyroscope, "pyroscope", "/push.v1.PusherService/Push", "application/json", ".pb.gz")     \
	P(parca, "parca", "/api/profiles/writeraw", "application/json", ".pb.gz")                  \
	P(otlp, "otlp-alpha", "/v1development/profiles", "application/x-protobuf", ".otlp")

enum profile_kind {
#define P(id, name, path, type, suffix) PROFILE_##id,
	PROFILE_KINDS(P) PROFILE_KIND_COUNT
#undef P
};

extern const struct profile_server {
	const char *name, *path, *type, *suffix;
} profile_servers[PROFILE_KIND_COUNT];
extern const char *const profile_names[PROFILE_KIND_COUNT + 1]; /* NULL-terminated */

#define PROFILE_BODY_MAX ((size_t)32 << 20)
/* GPU work waits for its launch, so calls of this time before the first work are read as well. */
#define PROFILE_CALLS_NS (2 * NS_PER_S)
/* Whether the blocks of a table are needed for stacks. */
bool profile_needs(uint32_t table);

/*
 * Adds the profile of a batch, if it has work with times, to the spool's next batch. Returns 0 or a
 * negative code.
 */
int profile_add(struct spool *s, enum profile_kind kind, struct trace *t,
		const struct source *source, struct error *e) MUST_USE;

#endif
