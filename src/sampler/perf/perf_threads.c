#include "sampler/perf/perf_threads.h"

#include <string.h>

#include "base/clock.h"

#define SETTLE_NS NS_PER_MS

void perf_threads_release(struct perf_threads *t)
{
	map_release(&t->pid_by_tid);
	map_release(&t->alive);
	map_release(&t->start_ns);
	map_release(&t->counted);
	map_release(&t->sampled);
	vec_release(&t->endings);
}

bool perf_thread_begins(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t time_ns)
{
	uint64_t *known = map_at(&t->pid_by_tid, (uint64_t)tid, 0), *count;

	if (!known || *known == (uint64_t)pid)
		return false;
	*known = (uint64_t)pid;
	t->living++;
	count = map_at(&t->alive, (uint64_t)pid, 0);
	if (count && ++*count == 1 && t->writes_spans &&
	    (map_put(&t->start_ns, (uint64_t)pid, time_ns) < 0 ||
	     map_put(&t->counted, (uint64_t)pid, 0) < 0))
		t->writes_spans = false;
	return true;
}

/* Returns whether the thread was the last of its process. */
static bool remove_thread(struct perf_threads *t, pid_t pid, pid_t tid)
{
	uint64_t *known = map_at(&t->pid_by_tid, (uint64_t)tid, 0), *count;

	if (!known || *known != (uint64_t)pid)
		return tid == pid;
	*known = 0;
	t->living--;
	count = map_at(&t->alive, (uint64_t)pid, 0);
	return count && *count && --*count == 0;
}

void perf_thread_ends(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t time_ns)
{
	struct perf_ending ending = { .pid = pid, .tid = tid, .time_ns = time_ns };

	ending.is_last = remove_thread(t, pid, tid);
	/* Without memory, the process has no end. */
	if (vec_push(&t->endings, ending) < 0)
		return;
}

void perf_thread_counted(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t cpu_ns)
{
	t->counted_ns += cpu_ns;
	for (size_t i = t->endings.count; i--;) {
		struct perf_ending *e = &t->endings.data[i];

		if (e->pid != pid || e->tid != tid)
			continue;
		e->counted = true;
		e->counted_ns += cpu_ns;
		return;
	}
}

void perf_thread_sampled(struct perf_threads *t, pid_t tid, uint64_t weight_ns)
{
	uint64_t *sampled = map_at(&t->sampled, (uint64_t)tid, 0);

	t->uncounted_sampled_ns += weight_ns;
	if (sampled)
		*sampled += weight_ns;
}

/* Returns the weight of a thread's samples, and forgets the thread: its tid may be reused. */
static uint64_t remove_sampled(struct perf_threads *t, pid_t tid)
{
	uint64_t *sampled = map_at(&t->sampled, (uint64_t)tid, 0), ns = sampled ? *sampled : 0;

	if (sampled)
		*sampled = 0;
	return ns;
}

/* Adds the kernel's count of a thread, of which samples stand for `sampled_ns`. */
static void add_count(struct perf_threads *t, struct targets *targets, const struct perf_ending *e,
		      uint64_t counted_ns, uint64_t sampled_ns)
{
	struct target *p = targets_find(targets, e->pid);
	uint64_t *counted = t->writes_spans ? map_at(&t->counted, (uint64_t)e->pid, 0) : NULL;

	if (counted)
		*counted += counted_ns;
	if (p && e->time_ns < t->end_ns && counted_ns > sampled_ns)
		targets_cpu_remainder(targets, p, e->tid, e->time_ns, counted_ns - sampled_ns);
}

static void end_process(struct perf_threads *t, struct targets *targets,
			const struct perf_ending *e)
{
	struct row_cpu_span span = { .end_ns = e->time_ns,
				     .pid = (uint32_t)e->pid,
				     .method = sampling_method_perf_events };

	if (t->writes_spans && e->time_ns < t->end_ns &&
	    map_get(&t->start_ns, (uint64_t)e->pid, &span.start_ns) &&
	    map_get(&t->counted, (uint64_t)e->pid, &span.cpu_ns))
		targets_cpu_span(targets, &span);
	targets_exit(targets, e->pid, e->time_ns);
}

static void end_thread(struct perf_threads *t, struct targets *targets, const struct perf_ending *e)
{
	uint64_t sampled = remove_sampled(t, e->tid);

	if (e->counted) {
		t->uncounted_sampled_ns -= sampled;
		add_count(t, targets, e, e->counted_ns, sampled);
	}
	/* The root and its process are handled when the recording ends. */
	if (e->is_last && (e->pid != t->root || e->tid == t->root))
		end_process(t, targets, e);
}

void perf_threads_settle(struct perf_threads *t, struct targets *targets, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->endings.count; i++) {
		struct perf_ending e = t->endings.data[i];

		if (e.tid == t->root || e.time_ns + SETTLE_NS > now_ns)
			t->endings.data[kept++] = e;
		else
			end_thread(t, targets, &e);
	}
	t->endings.count = kept;
}

void perf_threads_exec(struct perf_threads *t, struct targets *targets, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->endings.count; i++) {
		struct perf_ending e = t->endings.data[i];

		if (e.pid != pid || e.tid == t->root)
			t->endings.data[kept++] = e;
		else
			end_thread(t, targets, &e);
	}
	t->endings.count = kept;
}

/* If every other thread has a count, what remains of the total is the CPU time of the root. */
static void finish_root(struct perf_threads *t, struct targets *targets, struct perf_ending *root,
			uint64_t cpu_ns)
{
	uint64_t sampled_ns = 0, others, alive;

	map_get(&t->sampled, (uint64_t)root->tid, &sampled_ns);
	others = t->counted_ns + t->uncounted_sampled_ns - sampled_ns;
	root->is_last = !map_get(&t->alive, (uint64_t)root->pid, &alive) || alive == 0;
	if (t->living == 0 && cpu_ns > others)
		add_count(t, targets, root, cpu_ns - others, sampled_ns);
	else
		t->writes_spans = false; /* the CPU time of its process is unknown */
	end_thread(t, targets, root);
}

void perf_threads_finish(struct perf_threads *t, struct targets *targets, uint64_t cpu_ns)
{
	pid_t root = t->root;

	perf_threads_settle(t, targets, UINT64_MAX);
	for (size_t i = 0; i < t->endings.count; i++)
		if (t->endings.data[i].tid == root)
			finish_root(t, targets, &t->endings.data[i], cpu_ns);
	t->endings.count = 0;
}
