/* ebpf_process.c: the followed processes: what they map, and what the BPF programs are told of it. */
#include <string.h>

#include "cpu/ebpf_maps.h"
#include "cpu/ebpf_state.h"

struct process *ebpf_process_find(const struct cpu_source *s, pid_t pid)
{
	uint64_t p;

	return map_get(&s->index, (uint64_t)pid, &p) ? (struct process *)(uintptr_t)p : NULL;
}

/* It is about to be another program, or another process. */
static void forget_image(struct cpu_source *s, struct process *p)
{
	if (p->image)
		ebpf_tables_forget(&s->tables, p->image);
	if (p->python)
		s->nameless += ebpf_python_left_out(p->python);
	ebpf_python_free(p->python);
	*p = (struct process){ .pid = p->pid, .changed = true };
}

struct process *ebpf_process_add(struct cpu_source *s, pid_t pid)
{
	struct process *p = ebpf_process_find(s, pid);

	if (p) {
		forget_image(s, p);
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

void ebpf_process_remove(struct cpu_source *s, struct process *p)
{
	forget_image(s, p);
	*map_at(&s->index, (uint64_t)p->pid, 0) = 0;
	for (size_t i = 0; i < s->processes.count; i++)
		if (s->processes.data[i] == p) {
			s->processes.data[i] = s->processes.data[--s->processes.count];
			break;
		}
	free(p);
}

void ebpf_processes_release(struct cpu_source *s)
{
	for (size_t i = 0; i < s->processes.count; i++) {
		ebpf_python_free(s->processes.data[i]->python);
		free(s->processes.data[i]);
	}
	vec_release(&s->processes);
	map_release(&s->index);
}

/* --- events --- */

static void take_map(struct cpu_source *s, struct process *p, const struct sideband_record *r,
		     uint64_t time_ns)
{
	const struct target_mapping mapping = {
		.start = r->start,
		.end = r->start + r->length,
		.file_offset = r->file_offset,
		.device = r->device,
		.inode = r->inode,
		.path = r->text,
	};

	targets_map(s->targets, p->pid, &mapping, time_ns);
	p->changed = true;
	p->python_known = false;
}

void ebpf_process_event(struct cpu_source *s, uint64_t time_ns, const void *bytes, size_t size)
{
	struct sideband_record r;
	struct process *p;

	sideband_decode(bytes, size, &r);
	if (r.kind == SIDEBAND_LOST)
		s->missed = true;
	p = ebpf_process_find(s, (pid_t)(r.kind == SIDEBAND_FORK ? r.parent : r.pid));
	if (!p)
		return;
	switch (r.kind) {
	case SIDEBAND_FORK:
		if (r.pid != r.parent && ebpf_process_add(s, (pid_t)r.pid))
			targets_fork(s->targets, p->pid, (pid_t)r.pid, time_ns);
		break;
	case SIDEBAND_EXEC:
		forget_image(s, p);
		targets_exec(s->targets, p->pid, time_ns);
		targets_thread_name(s->targets, p->pid, (pid_t)r.tid, r.text, time_ns);
		break;
	case SIDEBAND_NAME:
		targets_thread_name(s->targets, p->pid, (pid_t)r.tid, r.text, time_ns);
		break;
	case SIDEBAND_MAP:
		take_map(s, p, &r, time_ns);
		break;
	default:
		break;
	}
}

/* --- what was missed --- */

struct reading {
	struct targets *targets;
	pid_t pid;
	uint64_t time_ns;
};

static int take_mapping(void *context, const struct target_mapping *mapping)
{
	const struct reading *r = context;

	targets_map(r->targets, r->pid, mapping, r->time_ns);
	return 0;
}

static void reread(struct cpu_source *s, struct process *p, uint64_t time_ns)
{
	struct reading reading = { s->targets, p->pid, time_ns };

	ebpf_maps_read(p->pid, take_mapping, &reading);
	p->changed = true;
	p->python_known = false;
}

void ebpf_process_image(struct cpu_source *s, struct process *p, uint64_t image, uint64_t time_ns)
{
	if (p->image == image)
		return;
	if (p->image) {
		forget_image(s, p);
		targets_exec(s->targets, p->pid, time_ns);
		reread(s, p, time_ns);
	}
	p->image = image;
	p->changed = true;
}

void ebpf_processes_reread(struct cpu_source *s, uint64_t time_ns)
{
	for (size_t i = 0; i < s->processes.count; i++)
		reread(s, s->processes.data[i], time_ns);
}

/* --- what the programs are told --- */

void ebpf_process_python(struct cpu_source *s, struct process *p, struct target *target)
{
	struct error why = { 0 };

	if (p->python || p->python_known)
		return;
	p->python_known = true;
	if (ebpf_python_find(s->targets, target, &p->python, &why) == 0 || s->python_why_not.code)
		return;
	error_prefix(&why, "process %d", (int)p->pid);
	s->python_why_not = why;
}

static bool has_none(void *context, const struct target_range *range)
{
	(void)context;
	return range->file != 0;
}

void ebpf_processes_upload(struct cpu_source *s)
{
	for (size_t i = 0; i < s->processes.count; i++) {
		struct process *p = s->processes.data[i];
		struct target *target = p->image ? targets_find(s->targets, p->pid) : NULL;
		const struct target_range *ranges;
		size_t count;

		if (!target || (!p->changed && ebpf_tables_has(&s->tables, p->image)))
			continue;
		ranges = target_ranges(target, &count);
		if (ebpf_tables_image(&s->tables, p->image, ranges, count,
				      p->python ? ebpf_python_layout(p->python) : NULL, has_none,
				      NULL) == 0)
			p->changed = false;
	}
}
