/* nvml_standin.h: how a test tells the stand-in for NVML what to say. All zero: everything works. */
#ifndef PITOT_TESTS_NVML_STANDIN_H
#define PITOT_TESTS_NVML_STANDIN_H

struct nvml_standin {
	int init_status, utilization_status, temperature_status;
	unsigned inits, lookups;
};

#endif
