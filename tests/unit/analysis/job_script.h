/*
 * job_script.h: jobs of several ranks, written operation by operation: what each rank's host and
 * GPU do, and in which communicators they meet. Hosts launch ahead of their GPUs; a collective ends
 * when the ranks that it needs have come.
 */
#ifndef PITOT_TESTS_JOB_SCRIPT_H
#define PITOT_TESTS_JOB_SCRIPT_H

#include <stdio.h>
#include <string.h>

#include "report_fixture.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define RANKS_MAX 16
#define COMMUNICATORS_MAX 8 /* of a rank */
#define SCRIPT_START (UINT64_C(100) * 1000 * MS)
#define NO_PEER UINT32_MAX

struct script_rank {
	struct maker *m; /* NULL: the rank is not recorded */
	uint32_t number, gemm, nccl;
	uint64_t host_ns, gpu_ns, comm_ns[COMMUNICATORS_MAX];
	uint64_t correlation, random;
	uint64_t sequence[COMMUNICATORS_MAX], peers[RANKS_MAX][2]; /* by direction */
	bool guessed; /* without NCCL's rows */
};

struct script {
	struct script_rank ranks[RANKS_MAX];
	uint32_t count;
	const char *folder, *job;
};

static inline void script_begin_rank(struct script *s, uint32_t number, uint64_t start_ns)
{
	struct script_rank *r = &s->ranks[number];

	*r = (struct script_rank){ .number = number, .host_ns = start_ns, .random = number + 1 };
	r->m = maker_begin(s->folder, 100 + number, start_ns - MS, "./train");
	maker_device(r->m, number, start_ns - MS);
	r->m->device = number;
	r->m->process.rank = number;
	r->m->process.world_size = s->count;
	ROW_PRESENT(&r->m->process, process, rank);
	ROW_PRESENT(&r->m->process, process, world_size);
	if (s->job) {
		r->m->process.job = maker_string(r->m, s->job);
		ROW_PRESENT(&r->m->process, process, job);
	}
	r->gemm = maker_config(r->m, "gemm", 132, 128);
	r->nccl = maker_config(r->m, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 544);
}

static inline void script_begin(struct script *s, const char *folder, uint32_t ranks)
{
	*s = (struct script){ .count = ranks, .folder = folder };
	for (uint32_t i = 0; i < ranks; i++)
		script_begin_rank(s, i, SCRIPT_START + i * 20 * US);
}

/* The rank is member `own` of `size` in communicator `id`, which all its members call `hash`. */
static inline void script_join(struct script_rank *r, uint32_t id, uint64_t hash, uint32_t size,
			       uint32_t own)
{
	struct row_communicator row = { .id = id,
					.hash = hash,
					.ranks = size,
					.rank = own,
					.missing = schema_missing(TABLE_communicator) };

	if (r->guessed)
		return;
	ROW_PRESENT(&row, communicator, ranks);
	ROW_PRESENT(&row, communicator, rank);
	writer_append(r->m->writer, TABLE_communicator, &row);
}

static inline void script_join_all(struct script *s, uint32_t id, uint64_t hash)
{
	for (uint32_t i = 0; i < s->count; i++)
		script_join(&s->ranks[i], id, hash, s->count, i);
}

static inline void script_host(struct script_rank *r, uint64_t ns)
{
	r->host_ns += ns + random_u64(&r->random) % (2 * US);
}

static inline void script_call(struct script_rank *r, enum maker_function function)
{
	maker_call(r->m, function, r->number + 1, r->host_ns, r->host_ns + 4 * US,
		   ++r->correlation);
	r->host_ns += 5 * US;
}

static inline void script_kernel(struct script_rank *r, uint64_t ns)
{
	uint64_t start_ns;

	script_call(r, MAKER_LAUNCH);
	start_ns = MAX(r->gpu_ns, r->host_ns + 3 * US);
	r->gpu_ns = start_ns + ns + random_u64(&r->random) % (ns / 200 + 1);
	maker_kernel(r->m, r->gemm, 7, start_ns, r->gpu_ns, r->correlation);
}

/* The host waits for its GPU. */
static inline void script_wait(struct script_rank *r)
{
	uint64_t end_ns = MAX(r->host_ns, r->gpu_ns), start_ns = r->host_ns;

	for (size_t i = 0; i < COMMUNICATORS_MAX; i++)
		end_ns = MAX(end_ns, r->comm_ns[i]);
	maker_call(r->m, MAKER_DEVICE_SYNCHRONIZE, r->number + 1, start_ns, end_ns + 5 * US,
		   ++r->correlation);
	r->host_ns = end_ns + 6 * US;
}

static inline void script_row(struct script_rank *r, uint32_t communicator,
			      enum collective_function function, uint64_t sequence, uint32_t peer,
			      uint32_t root)
{
	struct row_collective row = { .time_ns = r->host_ns,
				      .communicator = communicator,
				      .function = (uint8_t)function,
				      .sequence = sequence,
				      .correlation = r->correlation,
				      .peer = peer,
				      .root = root,
				      .count = 1000,
				      .thread = r->number + 1,
				      .missing = schema_missing(TABLE_collective) };

	if (r->guessed)
		return;
	ROW_PRESENT(&row, collective, communicator);
	ROW_PRESENT(&row, collective, sequence);
	ROW_PRESENT(&row, collective, correlation);
	ROW_PRESENT(&row, collective, count);
	if (peer != NO_PEER)
		ROW_PRESENT(&row, collective, peer);
	if (root != NO_PEER)
		ROW_PRESENT(&row, collective, root);
	writer_append(r->m->writer, TABLE_collective, &row);
}

struct script_collective {
	uint32_t communicator; /* each has a stream of its own */
	enum collective_function function;
	uint32_t root; /* item of the group; NO_PEER: it has none */
	uint64_t transfer_ns;
	bool beside; /* the GPU goes on meanwhile */
};

/* Ranks of a group meet. A broadcast waits for its root, and only the root of a reduce waits. */
static inline void script_meet(struct script *s, const uint32_t *group, uint32_t count,
			       struct script_collective c)
{
	uint64_t starts[RANKS_MAX], last_ns = 0, end_ns;

	for (uint32_t i = 0; i < count; i++) {
		struct script_rank *r = &s->ranks[group[i]];

		script_call(r, MAKER_LAUNCH);
		starts[i] = MAX(r->host_ns + 3 * US, MAX(r->comm_ns[c.communicator], r->gpu_ns));
		last_ns = MAX(last_ns, starts[i]);
		script_row(r, c.communicator, c.function, r->sequence[c.communicator]++, NO_PEER,
			   c.root);
	}
	for (uint32_t i = 0; i < count; i++) {
		struct script_rank *r = &s->ranks[group[i]];

		end_ns = c.root == NO_PEER ? last_ns : starts[i];
		if (c.function == collective_function_broadcast)
			end_ns = MAX(starts[i], starts[c.root]);
		else if (c.root == i)
			end_ns = last_ns;
		end_ns += c.transfer_ns + random_u64(&r->random) % US;
		r->comm_ns[c.communicator] = end_ns;
		r->gpu_ns = c.beside ? r->gpu_ns : MAX(r->gpu_ns, end_ns);
		maker_kernel(r->m, r->nccl, 20 + c.communicator, starts[i], end_ns, r->correlation);
	}
}

static inline void script_meet_all(struct script *s, struct script_collective c)
{
	uint32_t all[RANKS_MAX];

	for (uint32_t i = 0; i < s->count; i++)
		all[i] = i;
	script_meet(s, all, s->count, c);
}

/* buffered: the sender does not wait for the receiver. */
static inline void script_send(struct script *s, uint32_t communicator, uint32_t from, uint32_t to,
			       bool buffered)
{
	uint32_t pair[2] = { from, to };
	uint64_t starts[2], end_ns;

	for (uint32_t i = 0; i < 2; i++) {
		struct script_rank *r = &s->ranks[pair[i]];

		script_call(r, MAKER_LAUNCH);
		starts[i] = MAX(r->host_ns + 3 * US,
				MAX(r->comm_ns[communicator], i ? 0 : r->gpu_ns));
		script_row(r, communicator, i ? collective_function_recv : collective_function_send,
			   r->peers[pair[!i]][i]++, pair[!i], NO_PEER);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct script_rank *r = &s->ranks[pair[i]];

		end_ns = (buffered && !i ? starts[0] : MAX(starts[0], starts[1])) + 30 * US;
		r->comm_ns[communicator] = end_ns;
		r->gpu_ns = i ? MAX(r->gpu_ns, end_ns) : r->gpu_ns;
		maker_kernel(r->m, r->nccl, 20 + communicator, starts[i], end_ns, r->correlation);
	}
}

static inline uint64_t script_end(const struct script *s)
{
	uint64_t end_ns = 0;

	for (uint32_t i = 0; i < s->count; i++)
		end_ns = MAX(end_ns, MAX(s->ranks[i].host_ns, s->ranks[i].gpu_ns));
	return end_ns + MS;
}

static inline void script_close(struct script *s)
{
	uint64_t end_ns = script_end(s);

	for (uint32_t i = 0; i < s->count; i++)
		if (s->ranks[i].m)
			maker_close(s->ranks[i].m, end_ns);
}

#endif
