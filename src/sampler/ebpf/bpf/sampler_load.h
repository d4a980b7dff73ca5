/*
 * sampler_load.h: loads the BPF programs, attaches them to their events, and provides access to
 * their maps. To be used by one thread.
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_SAMPLER_LOAD_H
#define PITOT_SAMPLER_EBPF_BPF_SAMPLER_LOAD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "sampler/ebpf/bpf/sampler.h"

struct ring_buffer;

struct sampler_load_options {
	unsigned hz;
	bool off_cpu, kernel;
	bool probes; /* sampler_programs_probe() will be called */
	uint64_t start_ns, end_ns; /* window; end 0: none */
};

/* An array map, mapped into our memory. */
struct sampler_array {
	void *data;
	size_t bytes;
};

struct sampler_programs {
	struct bpf_object *object;
	struct bpf_link *links[8];
	unsigned link_count;
	struct ring_buffer *records;
	int *events; /* one per processor; -1: it is offline */
	unsigned cpu_count;
	int followed, images, threads, blocks; /* descriptors of maps */
	struct sampler_array range_array, table_array, rule_array, counter_array, site_array;
	const struct bpf_counters *counters;
};

/* Called for each record, in the order in which they were written. */
typedef int sampler_record(void *context, void *bytes, size_t size);

/*
 * Loads the programs; sampling begins with sampler_programs_start(). Returns 0; E_UNSUPPORTED with
 * what is missing and the way out in e; or another negative code.
 */
int sampler_programs_open(const struct sampler_load_options *options, sampler_record *on_record,
			  void *context, struct sampler_programs **out, struct error *e) MUST_USE;
void sampler_programs_free(struct sampler_programs *s);

/* Follows a process from its next exec or (running) from now on. Returns 0 or a negative errno. */
int sampler_programs_follow(struct sampler_programs *s, pid_t pid, bool running) MUST_USE;
int sampler_programs_start(struct sampler_programs *s, struct error *e) MUST_USE;
/*
 * Sets a breakpoint at an offset of a file, which /proc/self/fd has by this descriptor, in one
 * process, and increments the 16-bit counter at `semaphore` there; 0: there is none. It is removed
 * with *out (bpf_link__destroy), and when we end in whatever way. Returns 0 or a negative code.
 */
int sampler_programs_probe(struct sampler_programs *s, pid_t pid, int fd, uint64_t offset,
			   uint64_t semaphore, uint32_t site, struct bpf_link **out,
			   struct error *e) MUST_USE;
/* Stops sampling; remaining records can still be read. */
void sampler_programs_stop(struct sampler_programs *s);

static inline struct bpf_range *sampler_ranges(const struct sampler_programs *s)
{
	return s->range_array.data;
}

static inline struct bpf_table *sampler_tables(const struct sampler_programs *s)
{
	return s->table_array.data;
}

static inline struct bpf_site *sampler_sites(const struct sampler_programs *s)
{
	return s->site_array.data;
}

static inline struct bpf_rule *sampler_rules(const struct sampler_programs *s)
{
	return s->rule_array.data;
}

#endif
