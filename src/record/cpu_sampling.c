/* cpu_sampling.c: starts CPU sampling, and records its method as capabilities. */
#include "record/cpu_sampling.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "record/checks.h"
#include "format/rows.h"

/* Returns the inode of this process's pid namespace; 0: unknown. */
static uint64_t pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

int cpu_sampling_start(struct cpu_sampling *cpu, const char *directory,
		       const struct folder_id *folder, const struct cpu_roots *roots,
		       struct error *e)
{
	struct cpu_options options = {
		.directory = directory,
		.folder = *folder,
		.hz = cpu->hz,
		.off_cpu = cpu->off_cpu,
		.allocator = cpu->allocator,
		.kernel = true,
		.start_ns = cpu->start_ns,
		.end_ns = cpu->end_ns,
		.max_bytes = cpu->max_bytes,
		.method = cpu->method,
		.timers_inside = cpu->method == CPU_METHOD_AUTO && !roots->running && cpu->recorder,
		.file_copies = cpu->keep_files ? &cpu->kept : NULL,
	};
	int err;

	cpu->time_ns = clock_monotonic_ns();
	if (!cpu->hz && !cpu->allocator)
		return 0;
	if (!cpu->hz)
		options.method = CPU_METHOD_EBPF;
	if (roots->running && checks_foreign_proc())
		return error_set(e, E_UNSUPPORTED,
				 "cannot find process %d: /proc is of another pid namespace "
				 "(unshare --mount-proc mounts the right one)",
				 (int)roots->pids[0]);
	cpu->perf_namespace = options.timers_inside ? pid_namespace() : 0;
	options.timers_inside = cpu->perf_namespace != 0;
	err = cpu_sampler_start(&options, roots, &cpu->sampler, e);
	if (err == E_UNSUPPORTED && !cpu->hz) {
		cpu->no_allocator = *e;
		*e = (struct error){ 0 };
		return 0;
	}
	if (err < 0)
		return err;
	cpu->timer = cpu_sampler_method(cpu->sampler) == CPU_METHOD_TIMER;
	if (cpu_sampler_method(cpu->sampler) != CPU_METHOD_PERF)
		cpu->perf_namespace = 0;
	return 0;
}

static void write_sampling(const struct cpu_sampling *cpu, struct writer *w)
{
	struct row_capability row = { .time_ns = cpu->time_ns, .name = feature_cpu };
	const char *reason = "not requested";
	char requested[64], actual[64] = "";

	snprintf(requested, sizeof(requested), "%u Hz", cpu->hz);
	if (cpu->sampler && cpu->hz) {
		snprintf(actual, sizeof(actual), "%s, %u Hz%s",
			 cpu_method_name(cpu_sampler_method(cpu->sampler)), cpu->hz,
			 cpu->perf_namespace ? ", and timers in Python programs" : "");
		reason = cpu_sampler_reason(cpu->sampler);
		row.method = (uint8_t)(cpu_sampler_method(cpu->sampler) - 1);
		row.state = *reason ? capability_state_degraded : capability_state_on;
	}
	row.requested = writer_string(w, requested, strlen(requested));
	row.actual = writer_string(w, actual, strlen(actual));
	row.reason = writer_string(w, reason, strlen(reason));
	if (!cpu->hz) {
		row.state = capability_state_off;
		ROW_MISSING(&row, capability, requested, actual, method);
	}
	ROW_MISSING(&row, capability, other);
	if (!*reason)
		ROW_MISSING(&row, capability, reason);
	writer_append(w, TABLE_capability, &row);
}

static void write_off_cpu(const struct cpu_sampling *cpu, struct writer *w)
{
	if (cpu->sampler && cpu_sampler_method(cpu->sampler) == CPU_METHOD_EBPF)
		rows_capability(w, feature_off_cpu, capability_state_on, NULL, NULL, NULL);
	else
		rows_capability(w, feature_off_cpu, capability_state_unavailable, NULL, NULL,
				"it needs eBPF (see `pitot doctor`)");
}

void cpu_sampling_write(const struct cpu_sampling *cpu, struct writer *w)
{
	write_sampling(cpu, w);
	if (cpu->off_cpu)
		write_off_cpu(cpu, w);
}

static void write_allocator(const struct cpu_sampling *cpu, struct writer *w,
			    const struct cpu_sampler_result *result, struct strbuf *no_allocator)
{
	const char *reason = cpu->no_allocator.code ? cpu->no_allocator.text
						    : strbuf_text(&result->no_allocator);
	enum capability_state state = !result->allocator ? capability_state_unavailable
				      : *reason          ? capability_state_degraded
							 : capability_state_on;

	if (*reason)
		strbuf_addf(no_allocator, "%s; call pitot.torch.memory() in the program", reason);
	rows_capability_at(w, cpu->time_ns, feature_allocator, state, "torch",
			   result->allocator ? "static probes, by eBPF" : NULL,
			   *reason ? strbuf_text(no_allocator) : NULL);
}

int cpu_sampling_stop(struct cpu_sampling *cpu, struct writer *w, struct strbuf *no_allocator,
		      struct error *e)
{
	struct cpu_sampler_result result = { 0 };
	uint64_t now = clock_monotonic_ns();
	int err = 0;

	if (cpu->sampler) {
		err = cpu_sampler_stop(&cpu->sampler, &result, e);
		if (!cpu->timer)
			rows_cost(w, cost_kind_sampler, cpu->time_ns, now, 1, result.cpu_ns);
	}
	if (cpu->allocator)
		write_allocator(cpu, w, &result, no_allocator);
	strbuf_release(&result.no_allocator);
	return err;
}
