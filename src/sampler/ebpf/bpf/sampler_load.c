#include "sampler/ebpf/bpf/sampler_load.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "elf/unwind_rule.h"
#include "schema/schema.h"

#define HELPER_LOOP 181 /* bpf_loop, since Linux 5.17 */
#define RECORD_BYTES 4096u /* generous estimate of a usual record */
#define RING_BYTES_MIN (4u << 20)
#define RING_BYTES_SWITCHES (16u << 20) /* with a record for each switch of threads */
#define RING_BYTES_PROBES (32u << 20) /* with a record for each allocation */
#define RING_BYTES_MAX (32u << 20)

/* The BPF programs read the uploaded rules through their own declarations. */
_Static_assert(offsetof(struct bpf_rule, saves) == offsetof(struct unwind_rule, ra) &&
		       offsetof(struct bpf_rule, saves[1]) == offsetof(struct unwind_rule, saved) &&
		       offsetof(struct bpf_rule, extra) == offsetof(struct unwind_rule, extra) &&
		       sizeof(struct bpf_save) == sizeof(struct save_rule),
	       "struct bpf_rule begins like struct unwind_rule");
_Static_assert(sizeof(struct bpf_rule) % 8 == 0 &&
		       sizeof(struct bpf_rule) >= sizeof(struct unwind_rule),
	       "values of arrays are whole words");
_Static_assert(CFA_NONE == 0 && CFA_UNKNOWN == 1 && CFA_END == 2 && CFA_REGISTER == 3 &&
		       CFA_DEREF == 4 && CFA_PLT == 5 && CFA_SIGNAL == 6,
	       "walk.bpf.h has the same values");
_Static_assert(SAVE_SAME == 0 && SAVE_CFA == 1 && SAVE_MEMORY == 2 && SAVE_VALUE == 3 &&
		       SAVE_COPY == 4,
	       "walk.bpf.h has the same values");
_Static_assert(BPF_USER_FRAMES == STACK_NATIVE_MAX && BPF_PYTHON_FRAMES == STACK_PYTHON_MAX,
	       "the limits of a stack");
_Static_assert(sizeof(struct bpf_record) == 72 && sizeof(struct bpf_range) == 32 &&
		       sizeof(struct bpf_table) == 16 && sizeof(struct bpf_cell) == 8 &&
		       sizeof(struct bpf_site) == 56,
	       "no padding");

extern const unsigned char sampler_bpf[];
extern const unsigned long sampler_bpf_size;

static int discard_message(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

/* --- requirements --- */

/* Checks whether we may create maps. */
static int check_permission(struct error *e)
{
	_cleanup_close_ int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "pitot_probe", 0, 0,
						(uint32_t)sysconf(_SC_PAGESIZE), NULL);
	int err = fd < 0 ? -fd : 0;

	if (!err)
		return 0;
	if (err == EPERM || err == EACCES)
		return error_set(
			e, E_UNSUPPORTED,
			"bpf(2) is not permitted: run pitot as root, or grant it CAP_BPF and "
			"CAP_PERFMON (in a container, --privileged)");
	if (err == ENOSYS)
		return error_set(e, E_UNSUPPORTED, "this kernel has no bpf(2)");
	if (err == EINVAL)
		return error_set(
			e, E_UNSUPPORTED,
			"this kernel has no BPF ring buffers: Linux 5.17 or newer is needed");
	return error_errno(e, err, "cannot make a BPF map");
}

static int check_kernel(struct error *e)
{
	int r = check_permission(e);

	if (r < 0)
		return r;
	if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
		return error_set(e, E_UNSUPPORTED,
				 "this kernel has no /sys/kernel/btf/vmlinux: one built with "
				 "CONFIG_DEBUG_INFO_BTF=y is needed");
	if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, (enum bpf_func_id)HELPER_LOOP,
				    NULL) != 1)
		return error_set(e, E_UNSUPPORTED,
				 "this kernel has no bpf_loop(): Linux 5.17 or newer is needed");
	return 0;
}

/* --- loading --- */

static uint64_t ring_bytes(const struct sampler_load_options *options, unsigned cpu_count)
{
	uint64_t wanted = (uint64_t)options->hz * cpu_count * RECORD_BYTES / 2;
	uint64_t bytes = options->probes    ? RING_BYTES_PROBES
			 : options->off_cpu ? RING_BYTES_SWITCHES
					    : RING_BYTES_MIN;

	while (bytes < wanted && bytes < RING_BYTES_MAX)
		bytes *= 2;
	return bytes;
}

static int resize(const struct sampler_programs *s, const char *name, uint64_t entries)
{
	struct bpf_map *map = bpf_object__find_map_by_name(s->object, name);

	return map ? bpf_map__set_max_entries(map, (uint32_t)entries) : -ENOENT;
}

static int configure(struct sampler_programs *s, const struct sampler_load_options *options)
{
	struct bpf_map *map = bpf_object__find_map_by_name(s->object, ".rodata.config");
	uint64_t ring = ring_bytes(options, s->cpu_count);
	const struct bpf_config config = { .start_ns = options->start_ns,
					   .end_ns = options->end_ns,
					   .wake_bytes = ring / 4,
					   .period_ns = NS_PER_S / options->hz,
					   .code_bits = arch_code_bits(),
					   .tick_ns = clock_tick_ns(),
					   .kernel = options->kernel,
					   .off_cpu = options->off_cpu };
	int r = map ? bpf_map__set_initial_value(map, &config, sizeof(config)) : -ENOENT;

	if (r == 0)
		r = resize(s, "records", ring);
	if (r == 0)
		r = resize(s, "scratches", s->cpu_count);
	if (r == 0)
		r = resize(s, "budgets", s->cpu_count);
	if (r == 0 && options->probes)
		r = resize(s, "probe_scratches", (uint64_t)BPF_PROBE_SCRATCHES * s->cpu_count);
	if (r == 0 && !options->probes)
		r = bpf_program__set_autoload(
			bpf_object__find_program_by_name(s->object, "on_site"), false);
	return r;
}

static int map_array(struct sampler_programs *s, const char *name, struct sampler_array *out)
{
	struct bpf_map *map = bpf_object__find_map_by_name(s->object, name);
	size_t bytes;
	void *data;

	if (!map)
		return -ENOENT;
	bytes = (size_t)bpf_map__value_size(map) * bpf_map__max_entries(map);
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
	if (data == MAP_FAILED)
		return -errno;
	*out = (struct sampler_array){ data, bytes };
	return 0;
}

static int find_maps(struct sampler_programs *s, sampler_record *on_record, void *context)
{
	int r;

	s->followed = bpf_object__find_map_fd_by_name(s->object, "followed");
	s->images = bpf_object__find_map_fd_by_name(s->object, "images");
	s->threads = bpf_object__find_map_fd_by_name(s->object, "threads");
	s->blocks = bpf_object__find_map_fd_by_name(s->object, "blocks");
	r = map_array(s, "ranges", &s->range_array);
	if (r == 0)
		r = map_array(s, "tables", &s->table_array);
	if (r == 0)
		r = map_array(s, "rules", &s->rule_array);
	if (r == 0)
		r = map_array(s, "sites", &s->site_array);
	if (r == 0)
		r = map_array(s, ".data.counters", &s->counter_array);
	if (r < 0)
		return r;
	s->counters = s->counter_array.data;
	s->records = ring_buffer__new(bpf_object__find_map_fd_by_name(s->object, "records"),
				      on_record, context, NULL);
	return s->records ? 0 : -errno;
}

/* Runs the program that stores facts about our own process. */
static int run_setup(struct sampler_programs *s)
{
	struct bpf_program *program = bpf_object__find_program_by_name(s->object, "set_up");

	LIBBPF_OPTS(bpf_test_run_opts, options);
	return program ? bpf_prog_test_run_opts(bpf_program__fd(program), &options) : -ENOENT;
}

static int load(struct sampler_programs *s, const struct sampler_load_options *options,
		sampler_record *on_record, void *context, struct error *e)
{
	int r;

	LIBBPF_OPTS(bpf_object_open_opts, open_options, .object_name = "pitot_sampler");
	s->object = bpf_object__open_mem(sampler_bpf, sampler_bpf_size, &open_options);
	if (!s->object)
		return error_errno(e, errno, "cannot read the BPF programs");
	r = configure(s, options);
	if (r < 0)
		return error_errno(e, -r, "cannot configure the BPF programs");
	r = bpf_object__load(s->object);
	if (r == -EPERM)
		return error_errno(e, EPERM,
				   "the kernel refuses the BPF programs: grant pitot CAP_PERFMON "
				   "besides CAP_BPF, or run it as root");
	if (r < 0)
		return error_errno(e, -r, "the kernel refuses the BPF programs");
	r = find_maps(s, on_record, context);
	if (r == 0)
		r = run_setup(s);
	if (r < 0)
		return error_errno(e, -r, "cannot set up the BPF programs");
	return 0;
}

/* --- events --- */

static int open_events(struct sampler_programs *s, unsigned hz, struct error *e)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = NS_PER_S / hz,
		.disabled = 1,
		.exclude_idle = 1,
	};
	unsigned opened = 0;

	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++) {
		s->events[cpu] = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1,
					      PERF_FLAG_FD_CLOEXEC);
		if (s->events[cpu] >= 0)
			opened++;
		else if (errno != ENODEV)
			return error_errno(e, errno, "cannot open a clock event of processor %u",
					   cpu);
	}
	return opened ? 0 : error_errno(e, ENODEV, "cannot open a clock event");
}

static bool keep_link(struct sampler_programs *s, struct bpf_link *link)
{
	if (!link || s->link_count == ARRAY_SIZE(s->links))
		return false;
	s->links[s->link_count++] = link;
	return true;
}

/* The section name of each program names its raw tracepoint. */
static int attach_tracepoints(struct sampler_programs *s, struct error *e)
{
	struct bpf_program *program;

	bpf_object__for_each_program(program, s->object)
	{
		const char *section = bpf_program__section_name(program);

		if (strncmp(section, "raw_tp/sched", 12) != 0)
			continue;
		if (!keep_link(s, bpf_program__attach_raw_tracepoint(program, section + 7)))
			return error_errno(e, errno, "cannot attach to %s", section + 7);
	}
	return 0;
}

int sampler_programs_start(struct sampler_programs *s, struct error *e)
{
	struct bpf_program *tick = bpf_object__find_program_by_name(s->object, "on_tick");
	int fd = bpf_program__fd(tick);

	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++) {
		if (s->events[cpu] < 0)
			continue;
		if (ioctl(s->events[cpu], PERF_EVENT_IOC_SET_BPF, fd) < 0 ||
		    ioctl(s->events[cpu], PERF_EVENT_IOC_ENABLE, 0) < 0)
			return error_errno(e, errno, "cannot start sampling of processor %u", cpu);
	}
	return 0;
}

int sampler_programs_probe(struct sampler_programs *s, pid_t pid, int fd, uint64_t offset,
			   uint64_t semaphore, uint32_t site, struct bpf_link **out,
			   struct error *e)
{
	struct bpf_program *program = bpf_object__find_program_by_name(s->object, "on_site");
	char path[32];

	LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = semaphore, .bpf_cookie = site);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*out = bpf_program__attach_uprobe_opts(program, pid, path, offset, &options);
	return *out ? 0 : error_errno(e, errno, "cannot set a uprobe in process %d", (int)pid);
}

void sampler_programs_stop(struct sampler_programs *s)
{
	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++) {
		if (s->events[cpu] >= 0)
			close(s->events[cpu]);
		s->events[cpu] = -1;
	}
	while (s->link_count)
		bpf_link__destroy(s->links[--s->link_count]);
}

int sampler_programs_follow(struct sampler_programs *s, pid_t pid, bool running)
{
	uint32_t key = (uint32_t)pid;
	struct bpf_followed entry = { .image = running ? clock_monotonic_ns() : 0 };

	return bpf_map_update_elem(s->followed, &key, &entry, BPF_ANY);
}

/* --- opening and closing --- */

static int open_all(struct sampler_programs *s, const struct sampler_load_options *options,
		    sampler_record *on_record, void *context, struct error *e)
{
	int cpu_count = libbpf_num_possible_cpus(), r = check_kernel(e);

	if (r < 0)
		return r;
	if (cpu_count < 1)
		return error_set(e, E_UNSUPPORTED, "cannot count the processors");
	s->events = malloc((size_t)cpu_count * sizeof(*s->events));
	if (!s->events)
		return error_set(e, -ENOMEM, "out of memory");
	s->cpu_count = (unsigned)cpu_count;
	for (unsigned i = 0; i < s->cpu_count; i++)
		s->events[i] = -1;
	r = load(s, options, on_record, context, e);
	if (r == 0)
		r = open_events(s, options->hz, e);
	if (r == 0)
		r = attach_tracepoints(s, e);
	return r;
}

int sampler_programs_open(const struct sampler_load_options *options, sampler_record *on_record,
			  void *context, struct sampler_programs **out, struct error *e)
{
	struct sampler_programs *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	libbpf_set_print(discard_message);
	r = open_all(s, options, on_record, context, e);
	if (r < 0) {
		sampler_programs_free(s);
		return r == -ENOMEM ? r : E_UNSUPPORTED;
	}
	*out = s;
	return 0;
}

static void unmap_array(struct sampler_array *a)
{
	if (a->data)
		munmap(a->data, a->bytes);
}

void sampler_programs_free(struct sampler_programs *s)
{
	if (!s)
		return;
	sampler_programs_stop(s);
	ring_buffer__free(s->records);
	unmap_array(&s->range_array);
	unmap_array(&s->table_array);
	unmap_array(&s->rule_array);
	unmap_array(&s->site_array);
	unmap_array(&s->counter_array);
	bpf_object__close(s->object);
	free(s->events);
	free(s);
}
