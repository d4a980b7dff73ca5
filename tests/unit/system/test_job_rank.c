/* Which rank a process is, by the variables of launchers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "system/job_rank.h"

#define VARIABLES_MAX 12
#define NONE JOB_RANK_UNKNOWN

static const struct {
	const char *variables[VARIABLES_MAX];
	bool launched;
	enum job_launcher launcher;
	uint32_t rank, local_rank, world_size, node_rank;
	const char *job;
} cases[] = {
	{ { "HOME=/", "RANK_OF_SOMETHING=4" }, .job = "" },
	{ { "RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "GROUP_RANK=1", "TORCHELASTIC_RUN_ID=none",
	    "TORCHELASTIC_RESTART_COUNT=0" },
	  true,
	  job_launcher_torchrun,
	  3,
	  1,
	  4,
	  1,
	  "" },
	{ { "RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "GROUP_RANK=0", "TORCHELASTIC_RUN_ID=train",
	    "TORCHELASTIC_RESTART_COUNT=2" },
	  true,
	  job_launcher_torchrun,
	  0,
	  0,
	  2,
	  0,
	  "train#2" },
	/* the launcher's rank is not the worker's */
	{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2", "RANK=9",
	    "WORLD_SIZE=16", "LOCAL_RANK=1", "GROUP_RANK=1", "TORCHELASTIC_RUN_ID=none" },
	  true,
	  job_launcher_torchrun,
	  9,
	  1,
	  16,
	  1,
	  "77.0" },
	{ { "SLURM_JOB_ID=77", "SLURM_STEP_ID=3", "SLURM_PROCID=5", "SLURM_NTASKS=8",
	    "SLURM_LOCALID=1", "SLURM_NODEID=2" },
	  true,
	  job_launcher_slurm,
	  5,
	  1,
	  8,
	  2,
	  "77.3" },
	{ { "SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=8" },
	  .job = "77" }, /* a batch script */
	{ { "RANK=1", "WORLD_SIZE=2" }, true, job_launcher_variables, 1, NONE, 2, NONE, "" },
	{ { "WORLD_SIZE=2" }, .job = "" },
	{ { "OMPI_COMM_WORLD_RANK=6", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=2",
	    "PMIX_NAMESPACE=prterun-1", "PMI_RANK=0" },
	  true,
	  job_launcher_openmpi,
	  6,
	  2,
	  8,
	  NONE,
	  "prterun-1" },
	{ { "PMI_RANK=2", "PMI_SIZE=4", "MPI_LOCALRANKID=0", "PBS_JOBID=12.cray" },
	  true,
	  job_launcher_pmi,
	  2,
	  0,
	  4,
	  NONE,
	  "12.cray" },
	{ { "JOB_COMPLETION_INDEX=4", "KUBERNETES_SERVICE_HOST=10.0.0.1", "PITOT_JOB=mine" },
	  true,
	  job_launcher_kubernetes,
	  4,
	  NONE,
	  NONE,
	  4,
	  "mine" },
	{ { "RANK=", "WORLD_SIZE=2", "PMI_RANK=1", "PMI_SIZE=x" },
	  true,
	  job_launcher_pmi,
	  1,
	  NONE,
	  NONE,
	  NONE,
	  "" },
	{ { "RANK=-1", "WORLD_SIZE=2" }, .job = "" },
	{ { "RANK=4294967295", "WORLD_SIZE=2" }, .job = "" },
};

static void check(const struct job_rank *r, size_t i)
{
	assert_int_equal(r->launched, cases[i].launched);
	assert_string_equal(r->job, cases[i].job);
	if (!r->launched)
		return;
	assert_int_equal(r->launcher, cases[i].launcher);
	assert_int_equal(r->rank, cases[i].rank);
	assert_int_equal(r->local_rank, cases[i].local_rank);
	assert_int_equal(r->world_size, cases[i].world_size);
	assert_int_equal(r->node_rank, cases[i].node_rank);
}

static void test_own_variables(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job_rank r;

		clearenv();
		for (const char *const *v = cases[i].variables; *v; v++)
			putenv((char *)*v);
		job_rank_read(&r);
		check(&r, i);
	}
	clearenv();
}

/* The environment of a `cat` that waits for its input to end. */
static void read_of_child(const char *const *variables, struct job_rank *r)
{
	int in[2], out[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(in) | pipe(out), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(in[1]);
		execve("/bin/cat", (char *[]){ (char *)"cat", NULL }, (char *const *)variables);
		_exit(1);
	}
	assert_int_equal(write(in[1], "x", 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	job_rank_read_process(r, pid);
	close(in[1]);
	close(in[0]);
	close(out[0]);
	close(out[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_variables_of_another_process(void **state)
{
	struct job_rank r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		read_of_child(cases[i].variables, &r);
		check(&r, i);
	}
	job_rank_read_process(&r, 0x7fffffff); /* which is not there */
	assert_false(r.launched);
}

static void test_long_ids_are_truncated(void **state)
{
	char variable[2 * JOB_ID_MAX] = "PITOT_JOB=";
	struct job_rank r;

	(void)state;
	memset(variable + strlen(variable), 'j', sizeof(variable) - strlen(variable) - 1);
	putenv(variable);
	job_rank_read(&r);
	clearenv();
	assert_int_equal(strlen(r.job), JOB_ID_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_variables),
		cmocka_unit_test(test_variables_of_another_process),
		cmocka_unit_test(test_long_ids_are_truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
