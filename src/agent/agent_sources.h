/*
 * agent_sources.h: the recordings of this machine that the agent's user may read, as they grow.
 * Prints nothing. Single-threaded.
 *
 * Segments are found among the descriptors of processes (record/live_segment.h) and in folders of
 * recordings. A descriptor of each is held until it is read, so that neither the end of a process
 * nor the removal of a file takes anything away. What is next is known by session, number of the
 * segment and number of the block: also of a copy, such as a dump of a ring. Files of different
 * users are different sources, whatever their headers say.
 */
#ifndef PITOT_AGENT_AGENT_SOURCES_H
#define PITOT_AGENT_AGENT_SOURCES_H

#include "agent/step_ranges.h"
#include "base/folder.h"
#include "base/vec.h"
#include "format/reader.h"
#include "rules/rule_feed.h"
#include "system/pace.h"
#include "trace/trace.h"

#define SOURCES_MAX 4096u
#define SOURCE_SEGMENTS_MAX 8u /* of a source that are held to be read */
#define SOURCE_READ_MAX 8u /* of a source that are held although they are read */

struct source_segment {
	uint64_t device, inode;
	uint32_t number;
	int fd; /* -1: it is not held */
	struct segment segment; /* if fd >= 0 */
	off_t size; /* fd < 0: of the file; if it changes, the segment is held again */
	bool is_read; /* nothing of it is to be read */
	uint64_t read_ns; /* since then (CLOCK_MONOTONIC); it is held for sources.keep_ns */
	struct rule_segment *rules; /* as windows.h reads it; NULL: it does not */
	bool is_seen; /* in the last search */
};

/* GPU work that was read, for metrics. */
struct device_busy {
	uint32_t device;
	uint64_t until_ns; /* CLOCK_MONOTONIC */
	uint64_t busy_ns; /* until then; of work that is known late, the part after that time */
};
#define STEP_BUCKETS 13u
extern const uint64_t step_buckets_ns[STEP_BUCKETS]; /* upper limits, inclusive */

struct work_totals {
	uint64_t count[GPU_WORK_KINDS],
		total_ns[GPU_WORK_KINDS]; /* in the order of schema_gpu_work */
	VEC(struct device_busy) devices;
	uint64_t step_buckets[STEP_BUCKETS + 1]; /* steps by duration; the last: longer ones */
	uint64_t steps_ns; /* sum of their durations */
};

/* Whose rows they are, as the last ones say. */
struct source_identity {
	char *job, *host; /* NULL: no row was read; job "": it has none */
	uint32_t rank; /* TRACE_NO_RANK: none */
	int64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

/* One process image. */
struct source {
	uint64_t session;
	uid_t owner; /* of its files */
	uint32_t pid; /* as it sees itself */
	uint32_t number; /* of the segment that is next */
	uint64_t block; /* number of the block in it that is next */
	uint64_t lost_segments; /* that were gone before they could be read, and no row says so */
	VEC(struct source_segment) segments; /* by number */
	struct step_ranges steps;
	uint64_t used; /* number of the search in which it was last seen */
	uint64_t gap; /* number of the search in which the next segment was first missing; 0: not */
	bool is_live; /* a process has it open */
	uint64_t unreadable; /* blocks that are damaged, and no row says so */
	struct source_identity identity;
	struct work_totals work;
	uint64_t windows; /* that rules have made of it */
	char *last_window; /* name of the last one in the lake; NULL: there is none */
	uint64_t window_ns; /* its time (CLOCK_REALTIME) */
};

struct watched_folder {
	char *path; /* of a recording */
	struct folder_id id;
};

struct sources {
	/* Which processes are searched: these and their descendants; without any, all. */
	const pid_t *pids;
	size_t pid_count;
	bool no_processes; /* only folders are searched */
	VEC(struct source *) all;
	VEC(struct watched_folder) folders;
	uint64_t keep_ns; /* segments that are read are held so long, and at most as many */
	const char *const *roots; /* folders with recordings, NULL-terminated */
	struct pace pace; /* of searching /proc */
	uint64_t searches;
};

void source_free(struct source *source); /* may be NULL */
/* Watches the folder of a recording, if it can be opened. */
void sources_watch(struct sources *s, const char *path);
/* Searches for new segments, unless it was done a moment ago, or cost too much. */
void sources_search(struct sources *s, bool now);

/*
 * Returns the segment with the next blocks of a source, and what is new in it: blocks with numbers
 * from source->block to *end. NULL: nothing is new. A segment that is finished, and read, is
 * released; one that is missing is waited for, for two searches.
 */
const struct segment *source_next(const struct sources *s, struct source *source, uint64_t *end);
/*
 * Where a source ends at this moment, and whether it has been read to there: one that is written
 * faster than it is read must not keep others waiting.
 */
struct source_place {
	uint32_t number;
	uint64_t block;
};
struct source_place source_end(struct source *source);
bool source_is_at(const struct source *source, const struct source_place *place);
void sources_release(struct sources *s);

#endif
