/* ebpf_process.c: the followed processes, their mappings, and the upload of these. */
#include <string.h>

#include "sampler/ebpf/ebpf_state.h"
#include "sampler/perf/perf_record.h"

struct process *ebpf_process_find(const struct cpu_sampling_state *s, pid_t pid)
{
	uint64_t p;

	return map_get(&s->index, (uint64_t)pid, &p) ? (struct process *)(uintptr_t)p : NULL;
}

/* The process runs a new program, or its pid belongs to a new process. */
static void forget_image(struct cpu_sampling_state *s, struct process *p, bool has_ended)
{
	if (p->image)
		ebpf_tables_forget(&s->tables, p->image);
	ebpf_allocator_forget(&s->allocator, p->pid, has_ended);
	if (p->python)
		s->unnamed += sampled_python_unnamed(p->python);
	sampled_python_free(p->python);
	*p = (struct process){ .pid = p->pid, .changed = true };
}

struct process *ebpf_process_add(struct cpu_sampling_state *s, pid_t pid)
{
	struct process *p = ebpf_process_find(s, pid);

	if (p) {
		forget_image(s, p, false);
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p || vec_push(&s->processes, p) < 0) {
		free(p);
		return NULL;
	}
	p->pid = pid;
	p->changed = true;
	if (map_put(&s->index, (uint64_t)pid, (uintptr_t)p) < 0) {
		s->processes.count--;
		free(p);
		return NULL;
	}
	return p;
}

void ebpf_process_remove(struct cpu_sampling_state *s, struct process *p)
{
	forget_image(s, p, true);
	*map_at(&s->index, (uint64_t)p->pid, 0) = 0;
	for (size_t i = 0; i < s->processes.count; i++)
		if (s->processes.data[i] == p) {
			s->processes.data[i] = s->processes.data[--s->processes.count];
			break;
		}
	free(p);
}

void ebpf_processes_release(struct cpu_sampling_state *s)
{
	for (size_t i = 0; i < s->processes.count; i++) {
		sampled_python_free(s->processes.data[i]->python);
		free(s->processes.data[i]);
	}
	vec_release(&s->processes);
	map_release(&s->index);
}

/* --- events --- */

static void apply_comm(struct cpu_sampling_state *s, struct process *p,
		       const struct perf_sideband *n)
{
	if (n->is_exec) {
		forget_image(s, p, false);
		targets_exec(s->targets, p->pid, n->time_ns);
	}
	targets_thread_name(s->targets, p->pid, n->tid, n->text, n->time_ns);
}

static void apply_sideband(struct cpu_sampling_state *s, unsigned type,
			   const struct perf_sideband *n)
{
	struct process *p = ebpf_process_find(s, type == PERF_RECORD_FORK ? n->parent_pid : n->pid),
		       *child;

	if (!p)
		return;
	switch (type) {
	case PERF_RECORD_FORK:
		child = n->pid != n->parent_pid ? ebpf_process_add(s, n->pid) : NULL;
		if (!child)
			break;
		targets_fork(s->targets, n->parent_pid, n->pid, n->time_ns);
		ebpf_allocator_fork(&s->allocator, n->parent_pid, n->pid);
		if (p->python)
			child->python = sampled_python_fork(p->python, child->pid);
		break;
	case PERF_RECORD_COMM:
		apply_comm(s, p, n);
		break;
	case PERF_RECORD_MMAP2:
		if (!n->is_executable)
			break;
		targets_map(s->targets, p->pid, &n->mapping, n->time_ns);
		ebpf_allocator_map(&s->allocator, p->pid, &n->mapping);
		p->changed = true;
		p->python_searched = false;
		break;
	default:
		break;
	}
}

void ebpf_process_events(struct cpu_sampling_state *s, uint64_t until_ns)
{
	const struct perf_event_header *h;
	struct perf_sideband n;
	struct perf_ring *ring;

	while ((h = perf_rings_next(&s->sideband.rings, until_ns, &ring))) {
		if (h->type == PERF_RECORD_LOST)
			s->missed = true;
		else if (perf_record_sideband(h, &n))
			apply_sideband(s, h->type, &n);
		perf_rings_drop(&s->sideband.rings, ring);
	}
	s->missed |= s->sideband.rings.corrupt;
	s->sideband.rings.corrupt = false;
}

/* --- missed events --- */

static void reread(struct cpu_sampling_state *s, struct process *p, uint64_t time_ns)
{
	targets_maps_read(s->targets, p->pid, time_ns);
	ebpf_allocator_find(&s->allocator, p->pid);
	p->changed = true;
	p->python_searched = false;
}

void ebpf_process_set_image(struct cpu_sampling_state *s, struct process *p, uint64_t image,
			    uint64_t time_ns)
{
	if (p->image == image)
		return;
	if (p->image) {
		forget_image(s, p, false);
		targets_exec(s->targets, p->pid, time_ns);
		reread(s, p, time_ns);
	}
	p->image = image;
	p->changed = true;
}

void ebpf_processes_reread(struct cpu_sampling_state *s, uint64_t time_ns)
{
	for (size_t i = 0; i < s->processes.count; i++)
		reread(s, s->processes.data[i], time_ns);
}

/* --- upload --- */

void ebpf_process_find_python(struct cpu_sampling_state *s, struct process *p,
			      struct target *target)
{
	struct error why = { 0 };

	if (p->python || p->python_searched)
		return;
	p->python_searched = true;
	if (sampled_python_find(s->targets, target, &p->python, &why) == 0 || s->python_error.code)
		return;
	error_prefix(&why, "process %d", (int)p->pid);
	s->python_error = why;
}

void ebpf_processes_upload(struct cpu_sampling_state *s)
{
	for (size_t i = 0; i < s->processes.count; i++) {
		struct process *p = s->processes.data[i];
		struct target *target = p->image ? targets_find(s->targets, p->pid) : NULL;
		const struct target_range *ranges;
		size_t count;

		if (!target || (!p->changed && ebpf_tables_has(&s->tables, p->image)))
			continue;
		ranges = target_ranges(target, &count);
		if (ebpf_tables_upload_image(&s->tables, p->image, ranges, count,
					     p->python ? sampled_python_layout(p->python) : NULL) ==
		    0)
			p->changed = false;
	}
}
