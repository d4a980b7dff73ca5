/*
 * nvml_standin.h: how a test tells the stand-in for NVML what to say. All zero: everything works. A
 * program that is no test has its variable NVML_STANDIN: "throttle=36 xid=79", its members by name.
 */
#ifndef PITOT_TESTS_NVML_STANDIN_H
#define PITOT_TESTS_NVML_STANDIN_H

#include <stdbool.h>

struct nvml_standin {
	int init_status, utilization_status, temperature_status, power_status, field_status,
		gpm_status;
	unsigned gpm_unsupported, mig; /* not 0: so it is */
	unsigned hang; /* not 0: reading the power never ends */
	unsigned lost_after; /* not 0: readings of the power until the GPU is lost */
	unsigned processes; /* on the first GPU; 0: two */
	unsigned pid; /* of the process that has the first GPU; 0: the one that asks */
	int use_status; /* of asking how much each process has had it */
	unsigned xid; /* the next event's; 0: there is none */
	unsigned long long throttle;
	double gpm_value; /* 0: its number and a fraction */
	unsigned inits, lookups, field_calls, gpm_samples, event_waits;
};

#endif
