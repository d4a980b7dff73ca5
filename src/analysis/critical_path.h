/*
 * critical_path.h: what bounded the length of the window: the critical path of
 * causes/cause_path.h, by owner. Computed if report_options.critical_path.
 */
#ifndef PITOT_ANALYSIS_CRITICAL_PATH_H
#define PITOT_ANALYSIS_CRITICAL_PATH_H

#include "base/strbuf.h"
#include "causes/cause_path.h"

struct report;

enum path_class {
	PATH_KERNEL, /* key: string id of its name */
	PATH_COPY, /* key: enum copy_kind */
	PATH_MEMSET,
	PATH_GRAPH, /* a whole graph (--graphs launch) */
	PATH_LAUNCH, /* latency from a launching call to its work */
	PATH_GAP, /* latency between work and what waited for it on the GPU; key: enum edge_kind */
	PATH_RETURN, /* latency from work to the return of a call; key: enum edge_kind */
	PATH_LATE, /* what exceeds the usual latency; key: enum edge_kind */
	PATH_CALL, /* in a CUDA call that did not wait; key: row of api_function */
	PATH_HOST, /* between the calls of a thread; key: line of the call that ended it, or none */
	PATH_UNKNOWN,
	PATH_CLASSES,
};

extern const char *const path_class_names[PATH_CLASSES]; /* in JSON */

struct path_place {
	enum path_class class;
	uint32_t key;
	uint32_t config; /* PATH_KERNEL: a row of kernel_config */
};

/* Part of a piece of a path. */
#define PATH_SHARES 3 /* at most */
struct path_share {
	struct path_place place;
	uint64_t ns;
};

struct path_owner {
	uint64_t ns, count; /* of pieces */
	struct path_place place;
	/*
	 * How much shorter the window would be if all that this owner costs in it, on the path or
	 * not, took no time; CRITICAL_UNKNOWN: not computed, as for small owners.
	 */
	uint64_t potential_ns;
};

#define CRITICAL_UNKNOWN UINT64_MAX

struct path_edges {
	uint64_t count, contradictions, typical_ns;
	const char *kind;
};

struct critical_path {
	uint64_t start_ns, window_ns; /* window_ns 0: there is nothing */
	uint32_t process; /* that it follows: in which the window's last work or wait ended */
	struct path_owner *owners; /* the longest first; they add up to window_ns */
	size_t owner_count;
	uint64_t class_ns[PATH_CLASSES];
	uint64_t work_ns; /* of all work that began in the window, one after the other */
	uint64_t path_work_ns; /* of this, on the path */
	uint64_t tight_ns; /* of the rest, with less than CRITICAL_TIGHT_NS of slack */
	uint64_t threads; /* that make calls in the window */
	/* some of them side by side: what they wait for each other for is unknown: no potentials */
	bool beside;
	uint64_t contradictions, contradiction_ns;
	uint64_t
		identity_ns; /* by how much a simulation without a change misses the window's end */
	struct path_edges *edges; /* by kind; those that exist */
	size_t edge_count;
	struct causes_unknown unknown;
};

#define CRITICAL_TIGHT_NS UINT64_C(100000)

/* Divides a piece of a path among its owners. Returns the number of shares, none of which is 0. */
unsigned path_shares(const struct report *r, const struct path_piece *piece,
		     struct path_share shares[PATH_SHARES]);

/* The owners of costs of a task: of work, of a call, and of the host time before a call. */
struct path_place path_place_of_work(const struct report *r, const struct task *task);
struct path_place path_place_of_call(const struct report *r, const struct task *call);
struct path_place path_place_of_host(const struct report *r, const struct task *call);

/* Appends "copy HtoD"; names are as recorded. full: the whole name of a kernel. */
void path_place_text(const struct report *r, struct path_place p, bool full, struct strbuf *out);

static inline uint64_t path_place_id(struct path_place p)
{
	return (uint64_t)p.class << 32 | p.key;
}

#endif
