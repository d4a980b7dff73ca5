/* dump_job.h: `pitot dump --job`. */
#ifndef PITOT_CLI_DUMP_JOB_H
#define PITOT_CLI_DUMP_JOB_H

#include "cli/command.h"

struct dump_job_request {
	const char *job, *peers, *secret, *ca_file;
	uint64_t last_ns; /* 0: the default */
	const char *output; /* a new folder; NULL: the default */
	char **argv; /* for recording.json */
};

int dump_job(const struct context *c, const struct dump_job_request *r);

#endif
