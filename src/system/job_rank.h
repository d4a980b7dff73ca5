/* job_rank.h: which rank of a job a process is, by the variables that launchers set. */
#ifndef PITOT_SYSTEM_JOB_RANK_H
#define PITOT_SYSTEM_JOB_RANK_H

#include "format/writer.h"

#define JOB_ID_MAX 256u /* bytes; longer ids of jobs are truncated */
#define JOB_RANK_UNKNOWN UINT32_MAX

struct job_rank {
	bool launched; /* a launcher's variables were found; else the next five are unknown */
	enum job_launcher launcher;
	uint32_t rank, local_rank, world_size, node_rank; /* or JOB_RANK_UNKNOWN */
	char job[JOB_ID_MAX]; /* "": unknown */
};

/* Reads the environment of this process. Must not run while another thread changes it. */
void job_rank_read(struct job_rank *out);
/* Reads another process's environment from /proc: as it was when its program was executed. */
void job_rank_read_process(struct job_rank *out, pid_t pid);

/* Sets the columns rank to launcher of a process row. */
void job_rank_columns(struct writer *w, const struct job_rank *r, struct row_process *row);

#endif
