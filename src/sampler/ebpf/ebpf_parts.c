#include "sampler/ebpf/ebpf_parts.h"

#include <stdbool.h>
#include <string.h>

#define PROCESSORS_MAX 65536u

/* The frames of a record: Python frames, kernel frames, user frames. */
struct frames {
	const uint64_t *python, *kernel, *user, *rest;
	size_t rest_words;
};

static bool read_frames(const struct bpf_record *r, size_t size, struct frames *out)
{
	size_t words = (size - sizeof(*r)) / 8;
	size_t frames = 2 * (size_t)r->python_count + r->kernel_count + r->user_count;

	if (frames > words)
		return false;
	out->python = (const uint64_t *)(r + 1);
	out->kernel = out->python + 2 * (size_t)r->python_count;
	out->user = out->kernel + r->kernel_count;
	out->rest = out->user + r->user_count;
	out->rest_words = words - frames;
	return true;
}

void ebpf_parts_release(struct ebpf_parts *p)
{
	for (size_t i = 0; i < p->processors.count; i++) {
		vec_release(&p->processors.data[i].python);
		vec_release(&p->processors.data[i].kernel);
		vec_release(&p->processors.data[i].user);
	}
	vec_release(&p->processors);
	vec_release(&p->joined);
}

/* Finds or adds the parts of a processor. NULL: no memory. */
static struct ebpf_stack_parts *parts_of(struct ebpf_parts *p, uint32_t cpu)
{
	size_t known = p->processors.count;

	if (cpu >= known) {
		if (cpu >= PROCESSORS_MAX || vec_reserve(&p->processors, cpu + 1 - known) < 0)
			return NULL;
		memset(&p->processors.data[known], 0,
		       (cpu + 1 - known) * sizeof(*p->processors.data));
		p->processors.count = cpu + 1;
	}
	return &p->processors.data[cpu];
}

static bool append_words(struct ebpf_words *v, const void *from, size_t count)
{
	if (!count)
		return true;
	if (vec_reserve(v, count) < 0)
		return false;
	memcpy(v->data + v->count, from, count * sizeof(*v->data));
	v->count += count;
	return true;
}

/* Whether the processor's parts, with another of `f`, are within the limits of a stack. */
static bool has_room(const struct ebpf_stack_parts *parts, const struct bpf_record *r)
{
	return parts->python.count / 2 + r->python_count <= BPF_PYTHON_FRAMES &&
	       parts->kernel.count + r->kernel_count <= BPF_KERNEL_FRAMES &&
	       parts->user.count + r->user_count <= BPF_USER_FRAMES;
}

static bool append(struct ebpf_stack_parts *parts, const struct bpf_record *r,
		   const struct frames *f)
{
	return has_room(parts, r) &&
	       append_words(&parts->python, f->python, 2 * (size_t)r->python_count) &&
	       append_words(&parts->kernel, f->kernel, r->kernel_count) &&
	       append_words(&parts->user, f->user, r->user_count);
}

static void begin(struct ebpf_stack_parts *parts, uint64_t time_ns)
{
	parts->time_ns = time_ns;
	parts->count = 0;
	parts->python.count = parts->kernel.count = parts->user.count = 0;
}

void ebpf_parts_add(struct ebpf_parts *p, const struct bpf_record *record, size_t size)
{
	struct ebpf_stack_parts *parts = parts_of(p, record->cpu);
	struct frames f;

	if (parts && record->part == 0)
		begin(parts, record->time_ns);
	if (parts && parts->time_ns == record->time_ns && parts->count == record->part &&
	    read_frames(record, size, &f) && append(parts, record, &f))
		parts->count++;
}

/* How many words at the end of a record are the arguments of a probe. */
static size_t argument_words(const struct bpf_record *record, size_t size)
{
	bool has = record->kind == BPF_RECORD_ALLOCATION || record->kind == BPF_RECORD_RELEASE;

	return has ? MIN((size - sizeof(*record)) / 8, BPF_SITE_ARGUMENTS) : 0;
}

/* Returns the record without frames. */
static const struct bpf_record *join_nothing(struct ebpf_parts *p, const struct bpf_record *record,
					     size_t *size)
{
	size_t arguments = argument_words(record, *size);
	const uint64_t *end = (const uint64_t *)(record + 1) + (*size - sizeof(*record)) / 8;
	struct bpf_record *head;

	p->joined.count = 0;
	if (!append_words(&p->joined, record, sizeof(*record) / 8) ||
	    !append_words(&p->joined, end - arguments, arguments))
		return NULL;
	head = (struct bpf_record *)p->joined.data;
	head->python_count = head->kernel_count = head->user_count = 0;
	head->copied = 0;
	head->stop = BPF_STOP_TRUNCATED;
	*size = p->joined.count * sizeof(uint64_t);
	return head;
}

const struct bpf_record *ebpf_parts_join(struct ebpf_parts *p, const struct bpf_record *record,
					 size_t *size)
{
	struct ebpf_stack_parts *parts = parts_of(p, record->cpu);
	struct bpf_record head = *record;
	struct frames f;

	if (!parts || parts->time_ns != record->time_ns || parts->count != record->part ||
	    !read_frames(record, *size, &f) || !append(parts, record, &f))
		return join_nothing(p, record, size);
	head.python_count = (uint16_t)(parts->python.count / 2);
	head.kernel_count = (uint16_t)parts->kernel.count;
	head.user_count = (uint16_t)parts->user.count;
	p->joined.count = 0;
	if (!append_words(&p->joined, &head, sizeof(head) / 8) ||
	    !append_words(&p->joined, parts->python.data, parts->python.count) ||
	    !append_words(&p->joined, parts->kernel.data, parts->kernel.count) ||
	    !append_words(&p->joined, parts->user.data, parts->user.count) ||
	    !append_words(&p->joined, f.rest, f.rest_words))
		return join_nothing(p, record, size);
	begin(parts, 0);
	*size = p->joined.count * sizeof(uint64_t);
	return (const struct bpf_record *)p->joined.data;
}
