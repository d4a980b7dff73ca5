#include "sampler/perf/perf_reader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/io.h"
#include "sampler/ebpf/bpf/sampler.h"
#include "sampler/python/remote_memory.h"

#define THREAD_STACK_BYTES ((size_t)256 << 10)
#define SLICE_NS (100 * NS_PER_US) /* short, so that the scheduler lets us preempt at once */
#define READINGS_MAX 4096u /* limits of readings that wait to be taken */
#define READINGS_BYTES_MAX ((size_t)64 << 20)
#define SEEN_CODES 4096u
#define SAME_BYTES 512u /* bytes of the stack that are compared */
/* Finding a thread's data takes 1 ms: the first TRIES_MAX samples try, then one in TRIES_PERIOD. */
#define TRIES_MAX 8u
#define TRIES_PERIOD 64u
#define TRIES_END 4096u /* smaller than any address */

struct known_python {
	struct python_location location;
	bool is_known;
};

struct reader {
	struct perf_readers *all;
	const struct perf_ring *ring;
	unsigned number; /* index of the ring */
	pthread_t thread;
	uint64_t at; /* position in the ring */
	uint64_t cpu_ns; /* set when the thread ends */
	struct remote_memory memory;
	struct perf_sample sample;
	struct python_frame frames[STACK_PYTHON_MAX];
	uint64_t words[2 * STACK_PYTHON_MAX];
	uint64_t seen_codes[SEEN_CODES]; /* keys of code objects, by hash; collisions replace */
	VEC(struct bpf_code_record) codes; /* that this reading has for the first time */
	uint8_t *record, *last_sample; /* PERF_RECORD_BYTES_MAX each */
	uint8_t records[2][PERF_RECORD_BYTES_MAX];
};

struct perf_readers {
	const struct perf_events *events;
	struct perf_sample_layout layout;
	int stop_fd; /* eventfd */
	struct reader **readers;
	unsigned count;
	pthread_mutex_t lock; /* protects the following members */
	struct map index; /* pid -> item of pythons */
	VEC(struct known_python) pythons;
	struct map bases; /* tid -> fs; below TRIES_END: the number of tries */
	struct perf_readings readings;
	size_t readings_bytes;
};

/* --- reading a thread --- */

/* Returns false if the process is no known Python, or its thread's data are not to be sought. */
static bool find_location(struct perf_readers *all, const struct perf_sample *s,
			  struct python_location *location, uint64_t *base)
{
	uint64_t at, *known;
	bool found;

	pthread_mutex_lock(&all->lock);
	found = map_get(&all->index, (uint64_t)s->pid, &at) && at < all->pythons.count &&
		all->pythons.data[at].is_known;
	if (found)
		*location = all->pythons.data[at].location;
	known = found ? map_at(&all->bases, (uint64_t)s->tid, 0) : NULL;
	*base = known ? *known : 0;
	if (known && *known < TRIES_END)
		*known = (*known + 1) % TRIES_END;
	pthread_mutex_unlock(&all->lock);
	return found && (*base < TRIES_MAX || *base % TRIES_PERIOD == 0 || *base >= TRIES_END);
}

/* Whether the top of the thread's stack is the same as in the sample. */
static bool is_same_stack(const struct perf_sample *s)
{
	uint8_t bytes[SAME_BYTES];
	size_t size = MIN(s->stack.size, sizeof(bytes));
	struct iovec local = { bytes, size },
		     remote = { (void *)(uintptr_t)s->stack.registers.at[REG_SP_], size };

	return size && process_vm_readv(s->pid, &local, 1, &remote, 1, 0) == (ssize_t)size &&
	       memcmp(bytes, s->stack.bytes, size) == 0;
}

static void publish(struct perf_readers *all, const struct reader *r,
		    const struct perf_reading *head)
{
	size_t words = 2 * head->count * sizeof(*r->words);
	size_t codes = r->codes.count * sizeof(*r->codes.data);
	size_t bytes = sizeof(struct perf_reading) + words + codes;
	struct perf_reading *reading = malloc(bytes);
	uint64_t *base;

	pthread_mutex_lock(&all->lock);
	base = map_at(&all->bases, (uint64_t)head->tid, 0);
	if (base && (head->thread_base || *base >= TRIES_END))
		*base = head->thread_base;
	if (reading) {
		*reading = *head;
		memcpy(reading->words, r->words, words);
		reading->code_count = (unsigned)r->codes.count;
		reading->codes = (struct bpf_code_record *)(reading->words + words / 8);
		if (codes)
			memcpy(reading->codes, r->codes.data, codes);
		all->readings_bytes += bytes;
		if (all->readings.all.count >= READINGS_MAX ||
		    all->readings_bytes > READINGS_BYTES_MAX ||
		    vec_push(&all->readings.all, reading) < 0) {
			all->readings_bytes -= bytes;
			free(reading);
		}
	}
	pthread_mutex_unlock(&all->lock);
}

/* Copies the code objects that no earlier reading of the process had: they may be gone soon. */
static void copy_codes(struct reader *r, const struct python_memory *memory,
		       const struct python_location *location, const struct perf_reading *head)
{
	/* Forked processes have code objects of their own at equal addresses. */
	uint64_t process = location->runtime.code_type << 16 ^ (uint64_t)head->pid << 40;

	r->codes.count = 0;
	for (unsigned i = 0; i < head->count; i++) {
		uint64_t code = r->words[2 * i], check = r->words[2 * i + 1] >> 32;
		uint64_t key = hash_u64(code ^ process) ^ check << 16;
		uint64_t *seen = &r->seen_codes[key % SEEN_CODES];
		struct bpf_code_record *copy;

		if (!code || *seen == key || vec_reserve(&r->codes, 1) < 0)
			continue;
		copy = &r->codes.data[r->codes.count];
		copy->address = code;
		copy->check = (uint32_t)check;
		if (!sampled_code_copy(&location->runtime.offsets, memory, copy))
			continue;
		*seen = key;
		r->codes.count++;
	}
}

/* Reads the thread of the sample in `h`, which has left its processor. */
static void read_thread(struct reader *r, const struct perf_event_header *h)
{
	const struct python_memory memory = { remote_memory_read, &r->memory };
	struct perf_reading head = { .begin_ns = clock_monotonic_ns() };
	struct python_location location;
	uint64_t base;

	if (!perf_record_sample(h, &r->all->layout, &r->sample) || !r->sample.has_user ||
	    !find_location(r->all, &r->sample, &location, &base))
		return;
	head.pid = r->sample.pid;
	head.tid = r->sample.tid;
	head.sample_ns = r->sample.time_ns;
	remote_memory_begin(&r->memory, head.pid);
	head.thread_base =
		sampled_thread_is_at(&memory, base, head.tid)
			? base
			: stack_snapshot_thread_base(&r->sample.stack, &memory,
						     &location.runtime.offsets, head.tid);
	head.has_frames = head.thread_base && location.state_at;
	if (head.has_frames)
		head.count = sampled_python_read(&location, &memory, head.thread_base, r->frames,
						 r->words, STACK_PYTHON_MAX, &head.is_complete);
	copy_codes(r, &memory, &location, &head);
	head.is_same_stack = is_same_stack(&r->sample);
	head.end_ns = clock_monotonic_ns();
	publish(r->all, r, &head);
}

/* --- the ring --- */

/* Reads the thread of the last sample, if it has been preempted since. */
static void read_ring(struct reader *r)
{
	const struct perf_event_header *h;
	bool is_out = false;
	pid_t tid = 0;

	while ((h = perf_ring_copy(r->ring, &r->at, r->record))) {
		struct perf_sideband n;

		if (h->type == PERF_RECORD_SAMPLE && h->size >= 24) {
			memcpy(&tid, r->record + 20, sizeof(tid));
			r->record = r->last_sample;
			r->last_sample = (uint8_t *)(uintptr_t)h;
			is_out = false;
		} else if (h->type == PERF_RECORD_SWITCH && perf_record_sideband(h, &n) &&
			   n.tid == tid) {
			is_out = n.is_out && n.is_preempted;
		}
	}
	if (is_out)
		read_thread(r, (const struct perf_event_header *)r->last_sample);
}

/* --- threads --- */

/* struct sched_attr of the operating system's kernel, for which the C library has no function. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};

/*
 * Since Linux 6.12, a thread with a shorter time slice than others preempts them at once; older
 * kernels ignore the slice.
 */
static void shorten_slice(void)
{
	struct scheduling s = { .size = sizeof(s) };

	if (syscall(SYS_sched_getattr, 0, &s, sizeof(s), 0) < 0)
		return;
	s.runtime_ns = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &s, 0);
}

/*
 * Returns the file to wait for: first the ring's own event, and when its thread and all that
 * inherited the event have ended, the event of the next thread; -1: there are no more.
 */
static int next_file(const struct reader *r, size_t *at)
{
	const struct perf_events *events = r->all->events;
	size_t item = *at * events->rings.count + r->number;

	++*at;
	return item < events->files.count ? events->files.data[item] : -1;
}

static void *run(void *user)
{
	struct reader *r = user;
	size_t at = 0;
	struct pollfd files[] = { { .fd = next_file(r, &at), .events = POLLIN },
				  { .fd = r->all->stop_fd, .events = POLLIN } };

	pthread_setname_np(pthread_self(), "pitot-python");
	shorten_slice();
	for (;;) {
		if (poll(files, ARRAY_SIZE(files), -1) < 0 && errno != EINTR)
			break;
		if (files[1].revents)
			break;
		if (files[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			files[0].fd = next_file(r, &at);
		read_ring(r);
	}
	r->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* Starts a reader on the processor of its ring. -EINVAL: we may not use that processor. */
static int start(struct reader *r)
{
	pthread_attr_t attributes;
	size_t cpu = (size_t)r->ring->cpu, bytes = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	sigset_t all;
	int err;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(bytes, set);
	CPU_SET_S(cpu, bytes, set);
	sigfillset(&all);
	err = pthread_attr_init(&attributes);
	if (!err) {
		err = pthread_attr_setaffinity_np(&attributes, bytes, set);
		if (!err)
			err = pthread_attr_setsigmask_np(&attributes, &all);
		if (!err)
			err = pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
		if (!err)
			err = pthread_create(&r->thread, &attributes, run, r);
		pthread_attr_destroy(&attributes);
	}
	CPU_FREE(set);
	return -err;
}

int perf_readers_start(const struct perf_events *events, const struct perf_sample_layout *layout,
		       struct perf_readers **out)
{
	struct perf_readers *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return -ENOMEM;
	r->events = events;
	r->layout = *layout;
	pthread_mutex_init(&r->lock, NULL);
	r->stop_fd = io_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	r->readers = calloc(events->rings.count, sizeof(*r->readers));
	if (r->stop_fd < 0 || !r->readers)
		err = r->stop_fd < 0 ? -errno : -ENOMEM;
	for (unsigned i = 0; i < events->rings.count && err >= 0; i++) {
		struct reader *one = calloc(1, sizeof(*one));

		if (!one) {
			err = -ENOMEM;
			break;
		}
		*one = (struct reader){ .all = r,
					.ring = &events->rings.rings[i],
					.number = i,
					.record = one->records[0],
					.last_sample = one->records[1] };
		err = start(one);
		if (err >= 0)
			r->readers[r->count++] = one;
		else
			free(one);
		/* We may not use this processor. */
		if (err == -EINVAL)
			err = 0;
	}
	if (err < 0) {
		perf_readers_stop(r);
		perf_readers_free(r);
		return err;
	}
	*out = r;
	return 0;
}

uint64_t perf_readers_stop(struct perf_readers *r)
{
	uint64_t cpu_ns = 0;

	eventfd_write(r->stop_fd, 1);
	for (unsigned i = 0; i < r->count; i++) {
		pthread_join(r->readers[i]->thread, NULL);
		cpu_ns += r->readers[i]->cpu_ns;
		vec_release(&r->readers[i]->codes);
		free(r->readers[i]);
	}
	r->count = 0;
	return cpu_ns;
}

void perf_readers_free(struct perf_readers *r)
{
	if (!r)
		return;
	fd_close(&r->stop_fd);
	for (size_t i = 0; i < r->readings.all.count; i++)
		free(r->readings.all.data[i]);
	vec_release(&r->readings.all);
	vec_release(&r->pythons);
	map_release(&r->index);
	map_release(&r->bases);
	pthread_mutex_destroy(&r->lock);
	free(r->readers);
	free(r);
}

/* --- processes --- */

int perf_readers_add(struct perf_readers *r, pid_t pid, const struct python_location *location)
{
	struct known_python fresh = { .location = *location, .is_known = true };
	uint64_t *at;
	int err = 0;

	pthread_mutex_lock(&r->lock);
	at = map_at(&r->index, (uint64_t)pid, UINT64_MAX);
	if (!at)
		err = -ENOMEM;
	else if (*at != UINT64_MAX)
		r->pythons.data[*at] = fresh;
	else if (vec_push(&r->pythons, fresh) < 0)
		err = -ENOMEM;
	else
		*at = r->pythons.count - 1;
	pthread_mutex_unlock(&r->lock);
	return err;
}

void perf_readers_remove(struct perf_readers *r, pid_t pid)
{
	uint64_t at;

	pthread_mutex_lock(&r->lock);
	if (map_get(&r->index, (uint64_t)pid, &at) && at != UINT64_MAX)
		r->pythons.data[at].is_known = false;
	pthread_mutex_unlock(&r->lock);
}

void perf_readers_begin_thread(struct perf_readers *r, pid_t tid)
{
	uint64_t base;

	pthread_mutex_lock(&r->lock);
	if (map_get(&r->bases, (uint64_t)tid, &base) && base)
		*map_at(&r->bases, (uint64_t)tid, 0) = 0;
	pthread_mutex_unlock(&r->lock);
}

void perf_readers_take(struct perf_readers *r, struct perf_readings *out)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->readings.all.count; i++)
		if (vec_push(&out->all, r->readings.all.data[i]) < 0)
			free(r->readings.all.data[i]);
	r->readings.all.count = 0;
	r->readings_bytes = 0;
	pthread_mutex_unlock(&r->lock);
}
