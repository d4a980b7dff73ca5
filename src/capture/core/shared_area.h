/*
 * shared_area.h: the recorder's memory that outlives its process, so that nothing of the last
 * moments is lost when the process ends without order: by a signal, _exit, exec, or a kill.
 *
 * It is one memfd, which `pitot record` holds as well (format/segment_request.h passes its
 * descriptor on). In it lie the threads' rings, the buffers that CUPTI writes its records into,
 * the journal of rows that are not in the recording yet, and what is needed to read them:
 * addresses of kernel names, names of the kernels launched last, NVTX's strings, NCCL's texts and
 * communicators, the functions of the API, the clock. The recorder uses
 * this memory like any other. After the process's death, or its exec, recover/ reads the memory and
 * adds a segment to the recording.
 *
 * Its pages are allocated when they are touched, and given back as before. The mapping is neither
 * in core files nor shared with the child of a fork, in which private memory takes its place, at
 * the same addresses: CUPTI's copy in the child may still write into buffers. The process keeps no
 * descriptor of it. Without `pitot record`, or without memfd, there is no area, and the memory is
 * private. Where this header has sizes of structs of others, these check them.
 */
#ifndef PITOT_CAPTURE_SHARED_AREA_H
#define PITOT_CAPTURE_SHARED_AREA_H

#include <stdatomic.h>

#include "format/journal.h"

#define AREA_MAGIC "PITOTMEM"
#define AREA_LAYOUT 4u /* changes with any struct in the area */
#define AREA_PAGE 4096u
#define AREA_RINGS_MAX 1024u
#define AREA_RING_BYTES 0x10c000u /* a ring's events, then its additions, then its launches */
#define AREA_RECORD_KINDS 64u
#define AREA_CALLBACKS 2048u /* ids of functions of one API */
#define AREA_FUNCTIONS_MAX (3 * AREA_CALLBACKS)
#define AREA_KERNEL_NAMES_MAX 65536u
#define AREA_KERNEL_NAMES_BYTES (16u << 20)
#define AREA_NVTX_NAMES_MAX 65536u
#define AREA_NVTX_BYTES (16u << 20)
#define AREA_LAUNCH_NAMES_MAX 8192u
#define AREA_LAUNCH_NAMES_BYTES (4u << 20)
#define AREA_LAUNCH_NAME_MAX 4096u /* longer ones are truncated */
#define AREA_JOURNAL_BYTES (8u << 20) /* at most; a share of the container's memory */

struct area_head {
	char magic[8];
	uint32_t layout; /* AREA_LAYOUT */
	uint32_t pid; /* as the process sees it, in the names of its segments */
	atomic_uint cupti_version; /* 0: CUPTI is not used */
	atomic_uint correlation_half; /* correlation.h's; UINT32_MAX: there was no call */
	atomic_uint has_clock, kernel_names, nvtx_names;
	atomic_uint ring_bytes, slot_bytes; /* sizes of the structs of ring.h and buffers.h */
	atomic_uint is_over; /* set by the launcher: it wants nothing more */
	atomic_uint_fast64_t left_out; /* kinds of records that do not become rows, as bits */
	atomic_int_fast64_t clock_offset_ns; /* CLOCK_MONOTONIC - CUPTI's time, lately */
	atomic_ushort record_bytes[AREA_RECORD_KINDS]; /* of CUPTI's records by kind; 0: unknown */
};

struct area_function {
	uint8_t kind; /* enum api_kind */
	uint8_t waits_for; /* enum synchronization_kind; 0: nothing */
	char name[54];
};

/* An address has the name of its last entry. */
struct area_kernel_names {
	struct area_kernel_name {
		uint64_t address; /* in the process */
		uint32_t offset, length; /* of the text */
	} names[AREA_KERNEL_NAMES_MAX];
	char text[AREA_KERNEL_NAMES_BYTES];
};

/* By the numbers of launch_names.h. */
struct area_launch_names {
	struct area_launch_name {
		uint32_t offset; /* of the text */
		atomic_uint length; /* written last; 0: the name is unknown */
	} names[AREA_LAUNCH_NAMES_MAX];
	char text[AREA_LAUNCH_NAMES_BYTES];
};

/* Number i is that of nvtx_names.h. */
struct area_nvtx_name {
	uint32_t offset, length; /* of the text */
	uint32_t what; /* enum nvtx_named */
};

struct area_nvtx {
	struct area_nvtx_name names[AREA_NVTX_NAMES_MAX];
	char text[AREA_NVTX_BYTES];
};

#define AREA_NCCL_TEXTS_MAX 256u
#define AREA_COMMUNICATORS_MAX 4096u

/* By the numbers of nccl_registry.h. */
struct area_nccl {
	struct area_nccl_text {
		uint32_t datatype_bytes;
		uint8_t is_complete, function, is_datatype, datatype;
		char text[24];
	} texts[AREA_NCCL_TEXTS_MAX];
	struct area_communicator {
		uint64_t hash;
		uint32_t ranks, nodes, rank;
		atomic_uint is_complete;
		char name[64];
	} communicators[AREA_COMMUNICATORS_MAX]; /* from number 1 on */
};

/* Name and size of each part, in their order. Each begins at a page. */
#define AREA_PARTS(P)                                                                              \
	P(HEAD, sizeof(struct area_head))                                                          \
	P(FUNCTIONS, AREA_FUNCTIONS_MAX * sizeof(struct area_function))                            \
	P(KERNEL_NAMES, sizeof(struct area_kernel_names))                                          \
	P(NVTX, sizeof(struct area_nvtx))                                                          \
	P(NCCL, sizeof(struct area_nccl))                                                          \
	P(JOURNAL, sizeof(struct journal) + AREA_JOURNAL_BYTES)                                    \
	P(RINGS, AREA_RINGS_MAX * 4096)                                                            \
	P(RING_MEMORY, AREA_RINGS_MAX *AREA_RING_BYTES)                                            \
	P(SLOTS, 1 << 20)                                                                          \
	P(BUFFERS, 768 << 20)                                                                      \
	P(LAUNCH_NAMES, sizeof(struct area_launch_names))

#define P(name, bytes) AREA_##name,
enum area_part { AREA_PARTS(P) AREA_PART_COUNT };
#undef P

static inline size_t area_part_bytes(enum area_part part)
{
	static const size_t sizes[] = {
#define P(name, bytes) (bytes),
		AREA_PARTS(P)
#undef P
	};

	return (sizes[part] + AREA_PAGE - 1) / AREA_PAGE * AREA_PAGE;
}

static inline size_t area_offset(unsigned part)
{
	size_t offset = 0;

	for (unsigned i = 0; i < part; i++)
		offset += area_part_bytes((enum area_part)i);
	return offset;
}

/* Sources of journal_mark(). */
#define AREA_SOURCE_RING 1u
#define AREA_SOURCE_BUFFER (1u << 16)

/*
 * Makes the area, for a recording whose launcher holds it. Does nothing if there is one, or if the
 * process has used private memory already. Must be called before sources start.
 */
void shared_area_open(void);
/* Passes the area on to the launcher. */
void shared_area_send(const char *launcher);

/* The part of the area; NULL: there is no area. */
void *shared_area_part(enum area_part part);
/* The journal of the area and its room for rows, once an area was opened; NULL: none. */
struct journal *shared_area_journal(uint64_t *bytes);

/* The area's head, or one that nobody reads. */
extern struct area_head *shared_area_head;
/* The journal that a recording writes; NULL: none. Collector's thread. */
struct journal *shared_area_marks(void);

/* Gives the pages of memory back, which is zero afterwards, whether it is in the area or not. */
int shared_area_release(void *memory, size_t bytes);

/* Called first in the child of a fork. */
void shared_area_after_fork(void);

#endif
