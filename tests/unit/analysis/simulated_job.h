/*
 * simulated_job.h: recordings of jobs with known faults: hosts launch asynchronously, GPUs work in
 * order of their streams, and a collective ends on all ranks after the last one has come.
 */
#ifndef PITOT_TESTS_SIMULATED_JOB_H
#define PITOT_TESTS_SIMULATED_JOB_H

#include <string.h>

#include "analysis/rank_verdict.h"
#include "report_fixture.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define RANKS_MAX 64
#define HOSTS_MAX 8
#define START_NS (UINT64_C(100) * 1000 * MS)
#define MICROBATCHES 8

enum line { SEVERAL, LOAD, FORWARD, BACKWARD, REDUCE, WAIT, EXTRA, LINES };

static const char *const line_texts[LINES] = {
	[LOAD] = "train.py:9 load",          [FORWARD] = "train.py:20 forward",
	[BACKWARD] = "train.py:21 backward", [REDUCE] = "train.py:22 reduce",
	[WAIT] = "train.py:23 wait",         [EXTRA] = "train.py:30 augment",
};

enum fault_kind { NO_FAULT, SLEEP, BURN, SLOW_GPU };

#define IN_TURN UINT32_MAX
#define ANY UINT32_MAX

struct fault {
	enum fault_kind kind;
	uint32_t rank; /* or IN_TURN: another one in each step */
	uint64_t ns;
	enum line line;
	uint32_t every, phase; /* steps with step % every == phase; every 0: all */
	uint32_t ranks; /* so many from `rank` on; 0: one */
};

enum shape { PLAIN, OVERLAP, PIPELINE };

struct job {
	const char *name;
	enum shape shape;
	uint32_t ranks;
	struct fault faults[3];
	enum job_kind kind; /* expected */
	uint32_t late; /* expected rank, or ANY */
	enum line line; /* expected */
	uint32_t steps; /* 0: 60 */
	uint32_t sync_every; /* 0: each step; else the host hides part of a fault */
	uint64_t kernel_ns; /* 0: 250 us; eight a step */
	uint64_t transfer_ns; /* 0: 80 us */
	uint64_t jitter_ns; /* of each host's step */
	uint32_t hosts; /* 0: one */
	int64_t ahead_ns[HOSTS_MAX]; /* of the clock of a host */
	double drift[HOSTS_MAX];
	int64_t jump_ns; /* of the second host's clock in the middle */
	bool sampled; /* threads are sampled each 10.1 ms of their CPU time */
	bool guessed; /* without NCCL's rows */
	bool helpers; /* each rank has another process with its variables, and work without NCCL */
	bool hierarchy; /* all-reduces are of the whole job, and of its halves in turn */
	uint32_t restarts; /* the job is run again so many times */
	bool same_id; /* … without a number of the restart in its id: another run */
	bool other_job; /* … with another job at the same time, whose id is equal */
	const char *job_id;
	uint64_t
		killed_ns; /* all are killed so long after all but the last rank came to one more */
	bool partly_hidden; /* the fault costs less than it lasts, because others wait anyway */
};

struct member {
	struct maker *m; /* NULL: nothing is written */
	const struct job *job;
	uint32_t rank, host;
	uint64_t host_ns, gpu_ns, comm_ns, cpu_ns;
	uint64_t correlation, sequence[4], peers[4];
	uint32_t lines[LINES], gemm, all_reduce, send_recv;
	uint64_t random;
};

struct simulation {
	const struct job *job;
	struct member members[RANKS_MAX];
	bool faulty;
};

static uint64_t at(const struct member *r, uint64_t time_ns)
{
	const struct job *job = r->job;
	int64_t since = (int64_t)(time_ns - START_NS);

	since += job->ahead_ns[r->host] + (int64_t)((double)since * job->drift[r->host]);
	if (r->host == 1 && time_ns > START_NS + 100 * MS)
		since += job->jump_ns;
	return START_NS + (uint64_t)since;
}

static uint64_t noise(struct member *r, uint64_t most_ns)
{
	return most_ns ? random_u64(&r->random) % most_ns : 0;
}

/* The host computes. */
static void burn(struct member *r, uint64_t ns, enum line line)
{
	uint64_t period = 10100 * US, next = (r->cpu_ns / period + 1) * period;

	for (; r->job->sampled && next <= r->cpu_ns + ns; next += period)
		if (r->m)
			maker_cpu_sample(r->m, 1, at(r, r->host_ns + next - r->cpu_ns), period,
					 r->lines[line]);
	r->cpu_ns += ns;
	r->host_ns += ns;
}

static void sleeps(struct member *r, uint64_t ns, enum line line)
{
	if (r->m && ns)
		maker_off_cpu(r->m, 1, at(r, r->host_ns), at(r, r->host_ns + ns),
			      off_cpu_state_sleeping, r->lines[line]);
	r->host_ns += ns;
}

static void call(struct member *r, enum maker_function function, enum line line)
{
	uint64_t start_ns = r->host_ns;

	burn(r, 4 * US + noise(r, 2 * US), line);
	if (!r->m)
		return;
	r->m->stack = r->lines[line];
	maker_call(r->m, function, 1, at(r, start_ns), at(r, r->host_ns), ++r->correlation);
	burn(r, US, line);
}

static void kernel(struct member *r, uint64_t ns, enum line line)
{
	uint64_t start_ns;

	call(r, MAKER_LAUNCH, line);
	start_ns = MAX(r->gpu_ns, r->host_ns + 3 * US);
	r->gpu_ns = start_ns + ns + noise(r, ns / 100 + 1);
	if (r->m)
		maker_kernel(r->m, r->gemm, 7, at(r, start_ns), at(r, r->gpu_ns), r->correlation);
}

static void waits(struct member *r)
{
	uint64_t start_ns = r->host_ns;
	uint64_t end_ns = MAX(start_ns, MAX(r->gpu_ns, r->comm_ns)) + 5 * US;

	burn(r, end_ns - start_ns, WAIT); /* spins */
	if (!r->m)
		return;
	r->m->stack = r->lines[WAIT];
	maker_call(r->m, MAKER_DEVICE_SYNCHRONIZE, 1, at(r, start_ns), at(r, r->host_ns),
		   ++r->correlation);
}

static void write_collective(struct member *r, uint32_t communicator, uint8_t function,
			     uint64_t sequence, uint32_t peer)
{
	struct row_collective row = { .time_ns = at(r, r->host_ns),
				      .communicator = communicator,
				      .function = function,
				      .sequence = sequence,
				      .correlation = r->correlation,
				      .peer = peer,
				      .count = 1000,
				      .thread = 1,
				      .missing = schema_missing(TABLE_collective) };

	if (r->job->guessed)
		return;
	ROW_PRESENT(&row, collective, communicator);
	ROW_PRESENT(&row, collective, sequence);
	ROW_PRESENT(&row, collective, correlation);
	ROW_PRESENT(&row, collective, count);
	if (peer != ANY)
		ROW_PRESENT(&row, collective, peer);
	writer_append(r->m->writer, TABLE_collective, &row);
}

/* Ranks meet in a collective; on_compute: the GPU does nothing else meanwhile. */
static void meet(struct simulation *s, uint32_t first, uint32_t count, uint32_t communicator,
		 bool on_compute)
{
	uint64_t transfer_ns = s->job->transfer_ns ? s->job->transfer_ns : 80 * US, last_ns = 0;
	uint64_t arrivals[RANKS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		struct member *r = &s->members[first + i];

		call(r, MAKER_LAUNCH, REDUCE);
		arrivals[i] = MAX(r->host_ns + 3 * US, MAX(r->comm_ns, r->gpu_ns));
		last_ns = MAX(last_ns, arrivals[i]);
		if (r->m)
			write_collective(r, communicator, collective_function_all_reduce,
					 r->sequence[communicator], ANY);
		r->sequence[communicator]++;
	}
	for (uint32_t i = 0; i < count; i++) {
		struct member *r = &s->members[first + i];

		r->comm_ns = last_ns + transfer_ns + noise(r, 2 * US);
		if (on_compute)
			r->gpu_ns = r->comm_ns;
		if (r->m)
			maker_kernel(r->m, r->all_reduce, 8, at(r, arrivals[i]), at(r, r->comm_ns),
				     r->correlation);
	}
}

/* One rank sends to a neighbour. Both kernels last until the other side has come. */
static void sends(struct simulation *s, uint32_t from, uint32_t to)
{
	struct member *pair[2] = { &s->members[from], &s->members[to] };
	uint64_t arrivals[2], last_ns = 0;

	for (uint32_t i = 0; i < 2; i++) {
		struct member *r = pair[i];
		uint32_t peer = pair[!i]->rank;
		uint64_t *sequence = &r->peers[2 * i + (peer > r->rank)];

		call(r, MAKER_LAUNCH, REDUCE);
		arrivals[i] = MAX(r->host_ns + 3 * US, MAX(r->comm_ns, i ? 0 : r->gpu_ns));
		last_ns = MAX(last_ns, arrivals[i]);
		if (r->m)
			write_collective(r, 1,
					 i ? collective_function_recv : collective_function_send,
					 *sequence, peer);
		++*sequence;
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct member *r = pair[i];

		r->comm_ns = last_ns + 30 * US + noise(r, 2 * US);
		if (i)
			r->gpu_ns = MAX(r->gpu_ns, r->comm_ns);
		if (r->m)
			maker_kernel(r->m, r->send_recv, 8, at(r, arrivals[i]), at(r, r->comm_ns),
				     r->correlation);
	}
}

/* What the faults of a rank do at the begin of a step, by their kind. */
static void misbehave(struct simulation *s, struct member *r, uint64_t step, bool gpu)
{
	for (size_t i = 0; s->faulty && i < ARRAY_SIZE(s->job->faults); i++) {
		const struct fault *f = &s->job->faults[i];
		uint32_t rank = f->rank == IN_TURN ? (uint32_t)(step * 5 % s->job->ranks) : f->rank;

		if ((f->kind == SLOW_GPU) != gpu || r->rank < rank ||
		    r->rank >= rank + MAX(f->ranks, 1) || (f->every && step % f->every != f->phase))
			continue;
		if (f->kind == SLEEP)
			sleeps(r, f->ns, f->line);
		else if (f->kind == BURN)
			burn(r, f->ns, f->line);
		else if (f->kind == SLOW_GPU)
			kernel(r, f->ns, f->line);
	}
}

static void train(struct simulation *s, uint64_t step)
{
	const struct job *job = s->job;
	uint64_t ns = job->kernel_ns ? job->kernel_ns : 250 * US;
	bool overlap = job->shape == OVERLAP;

	for (uint32_t i = 0; i < job->ranks; i++) {
		struct member *r = &s->members[i];

		burn(r, 50 * US + noise(r, job->jitter_ns), LOAD);
		misbehave(s, r, step, false);
		for (int k = 0; k < 4; k++)
			kernel(r, ns, FORWARD);
		misbehave(s, r, step, true);
	}
	for (int bucket = 0; bucket < 2; bucket++) {
		for (uint32_t i = 0; i < job->ranks; i++)
			for (int k = 0; k < 2; k++)
				kernel(&s->members[i], ns, BACKWARD);
		if (job->hierarchy && bucket == 0) {
			meet(s, 0, job->ranks / 2, 2, true);
			meet(s, job->ranks / 2, job->ranks / 2, 2, true);
		} else {
			meet(s, 0, job->ranks, 1, !overlap || bucket == 1);
		}
	}
}

static void pipeline(struct simulation *s, uint64_t step)
{
	uint32_t ranks = s->job->ranks;

	for (uint32_t i = 0; i < ranks; i++) {
		burn(&s->members[i], 50 * US, LOAD);
		misbehave(s, &s->members[i], step, false);
	}
	for (int m = 0; m < MICROBATCHES; m++) {
		for (uint32_t i = 0; i < ranks; i++) {
			kernel(&s->members[i], 500 * US, FORWARD);
			misbehave(s, &s->members[i], step, true);
			if (i + 1 < ranks)
				sends(s, i, i + 1);
		}
	}
	for (int m = 0; m < MICROBATCHES; m++) {
		for (uint32_t i = ranks; i-- > 0;) {
			kernel(&s->members[i], 900 * US, BACKWARD);
			if (i > 0)
				sends(s, i, i - 1);
		}
	}
}

static void write_communicators(struct member *r, uint64_t attempt)
{
	uint32_t ranks = r->job->ranks, half = ranks / 2;

	for (uint32_t id = 1; id <= 2; id++) {
		struct row_communicator row = { .id = id,
						.hash = 77 + attempt * 100 + id,
						.ranks = ranks,
						.rank = r->rank,
						.missing = schema_missing(TABLE_communicator) };

		if (id == 2 && !r->job->hierarchy)
			break;
		if (id == 2) {
			row.hash += 10 + r->rank / half;
			row.ranks = half;
			row.rank = r->rank % half;
		}
		ROW_PRESENT(&row, communicator, ranks);
		ROW_PRESENT(&row, communicator, rank);
		writer_append(r->m->writer, TABLE_communicator, &row);
	}
}

static void begin_member(struct simulation *s, struct member *r, const char *folder,
			 uint64_t attempt, uint64_t start_ns)
{
	const struct job *job = s->job;
	char text[64];

	r->m = maker_begin(folder, (uint32_t)(1000 * (attempt + 1)) + r->rank, at(r, start_ns - MS),
			   "./train");
	maker_device(r->m, r->rank, at(r, start_ns - MS));
	r->m->device = r->rank;
	r->m->process.rank = r->rank;
	r->m->process.world_size = job->ranks;
	ROW_PRESENT(&r->m->process, process, rank);
	ROW_PRESENT(&r->m->process, process, world_size);
	if (job->job_id) {
		snprintf(text, sizeof(text), job->restarts && !job->same_id ? "%s#%d" : "%s",
			 job->job_id, (int)attempt);
		r->m->process.job = maker_string(r->m, text);
		ROW_PRESENT(&r->m->process, process, job);
	}
	if (r->host) {
		snprintf(text, sizeof(text), "host %d", (int)r->host);
		r->m->process.boot_id = maker_string(r->m, text);
	}
	for (int i = 1; i < LINES; i++) {
		char function[32];
		unsigned line;

		sscanf(line_texts[i], "train.py:%u %31s", &line, function);
		r->lines[i] =
			maker_stack(r->m, maker_python(r->m, 0, function, "/home/u/train.py", line),
				    1, stack_end_complete);
	}
	r->gemm = maker_config(r->m, "gemm", 132, 128);
	r->all_reduce = maker_config(r->m, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 24, 544);
	r->send_recv = maker_config(r->m, "ncclDevKernel_SendRecv", 24, 544);
	if (!job->guessed)
		write_communicators(r, attempt);
}

/* A process that a rank has started, which inherited its variables. */
static void write_helper(const struct member *r, const char *folder, uint64_t start_ns)
{
	struct maker *m = maker_begin(folder, 5000 + r->rank, at(r, start_ns), "./helper");

	m->process.rank = r->rank;
	m->process.world_size = r->job->ranks;
	ROW_PRESENT(&m->process, process, rank);
	ROW_PRESENT(&m->process, process, world_size);
	maker_device(m, r->rank, at(r, start_ns));
	m->device = r->rank;
	maker_call(m, MAKER_LAUNCH, 1, at(r, start_ns + MS), at(r, start_ns + MS + US), 1);
	maker_kernel(m, maker_config(m, "augment", 1, 32), 7, at(r, start_ns + MS + 2 * US),
		     at(r, start_ns + MS + 20 * US), 1);
	maker_close(m, at(r, start_ns + 2 * MS));
}

/* Runs the job; folder NULL: writes nothing. Returns the end. */
static uint64_t run(const struct job *job, bool faulty, const char *folder, uint64_t attempt,
		    uint64_t start_ns)
{
	struct simulation s = { .job = job, .faulty = faulty };
	uint32_t hosts = MAX(job->hosts, 1);
	uint64_t end_ns = 0;

	for (uint32_t i = 0; i < job->ranks; i++) {
		struct member *r = &s.members[i];

		*r = (struct member){ .job = job,
				      .rank = i,
				      .host = i * hosts / job->ranks,
				      .host_ns = start_ns + i * 10 * US,
				      .random = i + 100 * attempt };
		if (folder)
			begin_member(&s, r, folder, attempt, start_ns);
		if (folder && job->helpers)
			write_helper(r, folder, start_ns);
	}
	for (uint64_t step = 0; step < (job->steps ? job->steps : 60); step++) {
		if (job->shape == PIPELINE)
			pipeline(&s, step);
		else
			train(&s, step);
		for (uint32_t i = 0; i < job->ranks; i++)
			if (step % MAX(job->sync_every, 1) == 0)
				waits(&s.members[i]);
	}
	for (uint32_t i = 0; i < job->ranks; i++) {
		struct member *r = &s.members[i];

		end_ns = MAX(end_ns, MAX(r->comm_ns, r->host_ns));
	}
	for (uint32_t i = 0; i < job->ranks && folder; i++) {
		struct member *r = &s.members[i];

		if (job->killed_ns && i + 1 < job->ranks) {
			call(r, MAKER_LAUNCH, REDUCE);
			write_collective(r, 1, collective_function_all_reduce, r->sequence[1], ANY);
			maker_kernel(r->m, r->all_reduce, 8, 0, 0, r->correlation);
		}
		maker_close(r->m, at(r, end_ns + MS + job->killed_ns));
	}
	return end_ns;
}

#endif
