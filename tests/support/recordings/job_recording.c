/*
 * job_recording.c: four ranks on two hosts, an all-reduce in each step, for which all wait. Rank 2,
 * on the second host, is late by a tenth of a step. Rank 0 sometimes is, which bounds how far the
 * clocks of the hosts are apart from the other side.
 */
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define RANKS 4
#define LATE_RANK 2
#define STEPS 40
#define STEP_NS UINT64_C(1000000)
#define START_NS UINT64_C(5000000000)
#define END_NS (START_NS + (STEPS + 1) * STEP_NS)

static uint32_t world_size = RANKS;
static const char *collective = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";

/* By the clock of the host. */
static uint64_t host_ns(uint64_t time_ns)
{
	return time_ns + maker_host.days * MAKER_DAY_NS;
}

static void add_step(struct maker *m, uint32_t rank, uint64_t step, uint32_t gemm,
		     uint32_t all_reduce)
{
	uint64_t start = START_NS + step * STEP_NS, correlation = 4 * step + 1;
	uint32_t late_rank = step % 8 == 7 ? 0 : LATE_RANK;
	uint64_t late = rank == late_rank ? STEP_NS / 10 : 0;

	maker_call(m, MAKER_LAUNCH, 1, host_ns(start), host_ns(start + 5000), correlation);
	maker_kernel(m, gemm, 7, host_ns(start + 8000), host_ns(start + 500000 + late),
		     correlation);
	maker_call(m, MAKER_LAUNCH, 1, host_ns(start + 6000), host_ns(start + 9000),
		   correlation + 1);
	maker_kernel(m, all_reduce, 8, host_ns(start + 502000 + late), host_ns(start + 620000),
		     correlation + 1);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 1, host_ns(start + 10000), host_ns(start + 625000),
		   correlation + 2);
}

static void write_rank(const char *folder, uint32_t rank, uint32_t pid, uint64_t steps)
{
	struct maker *m = maker_begin(folder, pid, host_ns(START_NS - STEP_NS), "./train");
	uint32_t gemm, all_reduce;

	m->process.rank = rank;
	m->process.world_size = world_size;
	m->process.job = maker_string(m, "17");
	m->process.launcher = job_launcher_torchrun;
	ROW_PRESENT(&m->process, process, rank);
	ROW_PRESENT(&m->process, process, world_size);
	ROW_PRESENT(&m->process, process, job);
	ROW_PRESENT(&m->process, process, launcher);
	maker_device(m, rank, host_ns(START_NS - STEP_NS));
	m->device = rank;
	gemm = maker_config(m, "gemm", 132, 256);
	all_reduce = maker_config(m, collective, 24, 544);
	for (uint64_t step = 0; step < steps; step++)
		add_step(m, rank, step, gemm, all_reduce);
	maker_close(m, host_ns(END_NS));
	/* as the launcher of the host sees it: the exit status is the rank */
	maker_record(folder, pid, 1, host_ns(START_NS - STEP_NS), host_ns(END_NS), "./train",
		     (int)rank);
}

static void write_first(const char *folder)
{
	write_rank(folder, 0, 100, STEPS);
	write_rank(folder, 1, 101, STEPS);
}

static void write_second(const char *folder, uint32_t pid, bool unset, uint64_t steps)
{
	struct maker_host first = maker_host;

	maker_host = (struct maker_host){ "otherhost",
					  "00000000-0000-0000-0000-000000000002",
					  5,
					  unset,
					  first.unsynchronized,
					  first.max_error_ns };
	write_rank(folder, 2, pid, steps);
	write_rank(folder, 3, pid + 1, steps);
	maker_host = first;
}

void recording_job(const char *folder)
{
	write_first(folder);
	write_second(folder, 200, false, STEPS);
}

void recording_job_first(const char *folder)
{
	write_first(folder);
}

void recording_job_second(const char *folder)
{
	write_second(folder, 200, false, STEPS);
}

void recording_job_third(const char *folder)
{
	write_second(folder, 100, false, STEPS);
}

void recording_job_unset(const char *folder)
{
	write_first(folder);
	write_second(folder, 200, true, STEPS);
}

void recording_job_unbound(const char *folder)
{
	write_first(folder);
	write_second(folder, 200, true, 2);
}

static void write_stated(const char *folder, bool unsynchronized)
{
	collective = "ncclDevKernel_Broadcast_RING_LL";
	maker_host.max_error_ns = 10000;
	write_first(folder);
	maker_host.unsynchronized = unsynchronized;
	write_second(folder, 200, false, STEPS);
}

void recording_job_stated(const char *folder)
{
	write_stated(folder, false);
}

void recording_job_unstated(const char *folder)
{
	write_stated(folder, true);
}

void recording_job_vast(const char *folder)
{
	world_size = UINT32_MAX - 1;
	recording_job(folder);
}
