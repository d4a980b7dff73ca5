#include "sampler/perf/perf_record.h"

#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"

/* Samples begin with header, id, tid, time; other records end with tid, time, processor, id. */
const struct perf_times perf_record_times = { .in_sample = 24, .from_end = 24 };
#define TRAILER_BYTES 32u

static void read_callchain(struct cursor *c, struct perf_sample *out)
{
	uint64_t count = cursor_u64(c);

	if (count > cursor_left(c) / 8) {
		c->failed = true;
		return;
	}
	while (count--) {
		uint64_t address = cursor_u64(c);

		/* Numbers from PERF_CONTEXT_MAX on mark the kind of the frames that follow. */
		if (address < PERF_CONTEXT_MAX && address >> 63 &&
		    out->kernel_count < PERF_KERNEL_FRAMES_MAX)
			out->kernel[out->kernel_count++] = address;
	}
}

static void read_registers(struct cursor *c, struct perf_sample *out)
{
	uint64_t abi = cursor_u64(c);

	for (size_t i = 0; abi != PERF_SAMPLE_REGS_ABI_NONE && i < REG_COUNT_; i++)
		out->stack.registers.at[perf_registers[i]] = cursor_u64(c);
	out->stack.registers.known = REGISTERS_ALL;
	out->stack.registers.interrupted = true;
	out->has_user = abi == PERF_SAMPLE_REGS_ABI_64;
}

static void read_stack(struct cursor *c, size_t requested, struct perf_sample *out)
{
	uint64_t size = cursor_u64(c), used;

	if (size == 0)
		return;
	out->stack.bytes = cursor_bytes(c, size);
	used = cursor_u64(c);
	out->stack.size = MIN(size, used);
	/* The kernel copies up to an unmapped page, which is the end of the stack. */
	out->stack.cut = used >= MIN(size, requested);
}

bool perf_record_sample(const struct perf_event_header *h, const struct perf_sample_layout *layout,
			struct perf_sample *out)
{
	struct cursor c = cursor_of(h + 1, h->size - sizeof(*h));

	out->id = cursor_u64(&c);
	out->pid = (pid_t)cursor_u32(&c);
	out->tid = (pid_t)cursor_u32(&c);
	out->time_ns = cursor_u64(&c);
	out->cpu = (uint32_t)cursor_u64(&c);
	out->kernel_count = 0;
	out->stack.bytes = NULL;
	out->stack.size = 0;
	out->stack.cut = false;
	cursor_bytes(&c, 8 * (size_t)layout->read_words);
	if (layout->callchain)
		read_callchain(&c, out);
	read_registers(&c, out);
	read_stack(&c, layout->stack_bytes, out);
	return !c.failed;
}

/* Reads a text; fails unless it ends within the record. */
static const char *read_text(struct cursor *c)
{
	const char *text = (const char *)c->p;

	if (c->failed || !memchr(text, '\0', cursor_left(c)))
		c->failed = true;
	return c->failed ? "" : text;
}

static void read_mapping(struct cursor *c, struct perf_sideband *out)
{
	struct target_mapping *m = &out->mapping;

	m->start = cursor_u64(c);
	m->end = m->start + cursor_u64(c);
	m->file_offset = cursor_u64(c);
	cursor_u64(c); /* device */
	m->inode = cursor_u64(c);
	cursor_u64(c); /* generation of the inode */
	out->is_executable = cursor_u32(c) & PROT_EXEC;
	cursor_u32(c); /* flags */
	m->path = out->text = read_text(c);
}

bool perf_record_sideband(const struct perf_event_header *h, struct perf_sideband *out)
{
	struct cursor c, trailer;

	if (h->size < sizeof(*h) + TRAILER_BYTES)
		return false;
	c = cursor_of(h + 1, h->size - sizeof(*h) - TRAILER_BYTES);
	trailer = cursor_of(c.end, TRAILER_BYTES);
	*out = (struct perf_sideband){ .text = "" };
	out->pid = (pid_t)cursor_u32(&trailer);
	out->tid = (pid_t)cursor_u32(&trailer);
	out->time_ns = cursor_u64(&trailer);
	switch (h->type) {
	case PERF_RECORD_COMM:
		out->pid = (pid_t)cursor_u32(&c);
		out->tid = (pid_t)cursor_u32(&c);
		out->is_exec = h->misc & PERF_RECORD_MISC_COMM_EXEC;
		out->text = read_text(&c);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		out->pid = (pid_t)cursor_u32(&c);
		out->parent_pid = (pid_t)cursor_u32(&c);
		out->tid = (pid_t)cursor_u32(&c);
		break;
	case PERF_RECORD_MMAP2:
		out->pid = (pid_t)cursor_u32(&c);
		out->tid = (pid_t)cursor_u32(&c);
		read_mapping(&c, out);
		break;
	case PERF_RECORD_READ:
		out->pid = (pid_t)cursor_u32(&c);
		out->tid = (pid_t)cursor_u32(&c);
		out->cpu_ns = cursor_u64(&c);
		break;
	case PERF_RECORD_SWITCH:
		out->is_out = h->misc & PERF_RECORD_MISC_SWITCH_OUT;
		out->is_preempted = h->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
		break;
	case PERF_RECORD_LOST:
		cursor_u64(&c); /* id of the event */
		out->lost = cursor_u64(&c);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		out->lost = cursor_u64(&c);
		break;
	}
	return !c.failed;
}
