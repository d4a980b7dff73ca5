/* proc_maps.h: what is mapped executable in a process now, as /proc says. */
#ifndef PITOT_SAMPLER_PROC_MAPS_H
#define PITOT_SAMPLER_PROC_MAPS_H

#include "sampler/sampled_processes.h"

/* Called for each mapping, ascending, until it returns something else than 0. */
typedef int proc_map_take(void *context, const struct target_mapping *mapping);

/* What `take` returned last; 0 also when the process is gone. */
int proc_maps_read(pid_t pid, proc_map_take *take, void *context);

#endif
