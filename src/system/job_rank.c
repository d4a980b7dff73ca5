#include "system/job_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/options.h"
#include "format/rows.h"

#define ENVIRONMENT_MAX ((size_t)1 << 20) /* bytes of another process's that are read */

/*
 * The best launcher first, in the order of its enum: with `srun torchrun`, Slurm's variables number
 * the launchers, and torchrun's the ranks. Without its `marker` the variables mean something else:
 * outside of a step, SLURM_PROCID is that of the batch script.
 */
static const struct {
	const char *marker, *rank, *local_rank, *world_size, *node_rank;
} launchers[] = {
	[job_launcher_torchrun] = { "TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE",
				    "GROUP_RANK" },
	[job_launcher_variables] = { "WORLD_SIZE", "RANK", "LOCAL_RANK", "WORLD_SIZE",
				     "NODE_RANK" },
	[job_launcher_openmpi] = { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK",
				   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE", NULL },
	[job_launcher_pmi] = { "PMI_RANK", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", NULL },
	[job_launcher_slurm] = { "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
				 "SLURM_NODEID" },
	[job_launcher_kubernetes] = { "KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX", NULL, NULL,
				      "JOB_COMPLETION_INDEX" },
};

/* The value of a variable; NULL: it is not set. `environment` is what one of the two reads. */
typedef const char *variable(const struct strbuf *environment, const char *name);

static const char *own_variable(const struct strbuf *environment, const char *name)
{
	(void)environment;
	return getenv(name);
}

static const char *variable_in(const struct strbuf *environment, const char *name)
{
	const char *at = strbuf_text(environment), *end = at + environment->length;
	size_t length = strlen(name);

	for (; at < end; at += strlen(at) + 1) /* a strbuf ends with a 0 byte */
		if (!strncmp(at, name, length) && at[length] == '=')
			return at + length + 1;
	return NULL;
}

static uint32_t number(variable *get, const struct strbuf *environment, const char *name)
{
	const char *text = name ? get(environment, name) : NULL;
	uint64_t value;

	return text && parse_u64(text, &value) == 0 && value < JOB_RANK_UNKNOWN ? (uint32_t)value
										: JOB_RANK_UNKNOWN;
}

/*
 * torchrun's id is "none" unless the user gave one. Its restarts are other jobs: their ranks do not
 * belong together. So are the steps of a job of Slurm.
 */
static void read_job(struct job_rank *out, variable *get, const struct strbuf *environment)
{
	static const struct {
		const char *id, *suffix, *between;
	} ids[] = {
		{ "PITOT_JOB", NULL, NULL },
		{ "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "#" },
		{ "SLURM_JOB_ID", "SLURM_STEP_ID", "." },
		{ "PBS_JOBID", NULL, NULL },
		{ "LSB_JOBID", NULL, NULL },
		{ "PMIX_NAMESPACE", NULL, NULL },
		{ "OMPI_MCA_ess_base_jobid", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids) && !out->job[0]; i++) {
		const char *id = get(environment, ids[i].id), *suffix = NULL;

		if (!id || !strcmp(id, "none"))
			continue;
		if (ids[i].suffix)
			suffix = get(environment, ids[i].suffix);
		if (suffix && !strcmp(suffix, "0") && ids[i].between[0] == '#')
			suffix = NULL;
		snprintf(out->job, sizeof(out->job), "%s%s%s", id, suffix ? ids[i].between : "",
			 suffix ? suffix : "");
	}
}

static void read_all(struct job_rank *out, variable *get, const struct strbuf *environment)
{
	*out = (struct job_rank){ 0 };
	read_job(out, get, environment);
	for (size_t i = 0; i < ARRAY_SIZE(launchers) && !out->launched; i++) {
		if (!get(environment, launchers[i].marker))
			continue;
		out->rank = number(get, environment, launchers[i].rank);
		out->launched = out->rank != JOB_RANK_UNKNOWN;
		out->launcher = (enum job_launcher)i;
		out->local_rank = number(get, environment, launchers[i].local_rank);
		out->world_size = number(get, environment, launchers[i].world_size);
		out->node_rank = number(get, environment, launchers[i].node_rank);
	}
}

void job_rank_read(struct job_rank *out)
{
	read_all(out, own_variable, NULL);
}

void job_rank_read_process(struct job_rank *out, pid_t pid)
{
	_cleanup_strbuf_ struct strbuf environment = STRBUF_INIT;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	io_read_file(path, ENVIRONMENT_MAX, &environment);
	read_all(out, variable_in, &environment);
}

void job_rank_columns(struct writer *w, const struct job_rank *r, struct row_process *row)
{
	row->rank = r->rank;
	row->local_rank = r->local_rank;
	row->world_size = r->world_size;
	row->node_rank = r->node_rank;
	row->launcher = (uint8_t)r->launcher;
	row->job = rows_text(w, r->job);
	ROW_MISSING_IF(row, process, rank, !r->launched);
	ROW_MISSING_IF(row, process, launcher, !r->launched);
	ROW_MISSING_IF(row, process, local_rank, !r->launched || r->local_rank == JOB_RANK_UNKNOWN);
	ROW_MISSING_IF(row, process, world_size, !r->launched || r->world_size == JOB_RANK_UNKNOWN);
	ROW_MISSING_IF(row, process, node_rank, !r->launched || r->node_rank == JOB_RANK_UNKNOWN);
	ROW_MISSING_IF(row, process, job, !r->job[0]);
}
