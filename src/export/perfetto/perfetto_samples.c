/*
 * perfetto_samples.c: what threads did on the CPU, and where they were when they left it, as samples of
 * call stacks. Each session has a sequence for either, as ids of stacks are a session's own.
 */
#include <errno.h>

#include "export/perfetto/perfetto_writer.h"
#include "trace/columns.h"

enum { UNIT_NANOSECONDS = 1 };

/* Keys of stacks in a sequence: of times off the CPU with their state. */
#define STATE_BITS 3

/* A row of cpu_sample or off_cpu. */
struct sample {
	uint64_t weight_ns;
	uint32_t thread, stack; /* stack 0: none */
	int64_t cpu; /* -1: unknown */
	uint8_t state; /* off_cpu */
};

static struct sample read_row(const struct trace *t, const struct export_event *event)
{
	const struct cpu_sample_columns *on = cpu_sample_columns(t);
	const struct off_cpu_columns *off = off_cpu_columns(t);
	uint64_t row = event->row;

	if (event->kind == EVENT_CPU_SAMPLE)
		return (struct sample){
			.weight_ns = on->weight_ns[row],
			.thread = on->thread[row],
			.stack = column_has(on->valid.stack, row) ? on->stack[row] : 0,
			.cpu = column_has(on->valid.cpu, row) ? (int32_t)on->cpu[row] : -1,
		};
	return (struct sample){
		.weight_ns = event->end_ns - event->start_ns,
		.thread = off->thread[row],
		.stack = column_has(off->valid.stack, row) ? off->stack[row] : 0,
		.cpu = -1,
		.state = off->state[row],
	};
}

/* Whose samples these are, and what their weights mean. */
static void put_defaults(struct strbuf *s, size_t defaults, bool off_cpu)
{
	size_t samples = proto_open(s, 100), counter;

	proto_string(s, 1, off_cpu ? "pitot off CPU" : "pitot CPU");
	counter = proto_open(s, 2);
	proto_string(s, 2, off_cpu ? "time off the CPU" : "CPU time");
	proto_uint(s, 3, UNIT_NANOSECONDS);
	proto_close(s, counter);
	proto_close(s, samples);
	proto_close(s, defaults);
}

/* The frames of a sample, with why the thread did not run. */
static int find_frames(struct export_stacks *x, const struct export_event *event,
		       const struct sample *sample)
{
	int r = export_stacks_find(x, event->process, sample->stack, false);

	if (r >= 0 && !x->frames.count)
		r = export_stacks_note(x, STACK_NOTE_NONE);
	if (r >= 0 && event->kind == EVENT_OFF_CPU)
		r = export_stacks_note(x, (enum stack_note)(STACK_NOTE_STATES + sample->state));
	return r;
}

static void write_sample(struct perfetto *p, struct strbuf *s, const struct export_event *event,
			 const struct sample *sample, uint64_t iid)
{
	size_t message = proto_open(s, PACKET_STACK_SAMPLE), part = proto_open(s, 1);

	proto_uint(s, 2, p->view.processes[event->process].pid);
	proto_uint(s, 3, sample->thread);
	proto_close(s, part);
	if (sample->cpu >= 0) {
		part = proto_open(s, 3);
		proto_uint(s, 2, (uint64_t)sample->cpu);
		proto_close(s, part);
	}
	proto_uint(s, 6, iid);
	proto_uint(s, 11, sample->weight_ns);
	proto_close(s, message);
}

int perfetto_sample(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	bool off_cpu = event->kind == EVENT_OFF_CPU;
	struct sample sample = read_row(p->view.trace, event);
	struct track *track = perfetto_samples_track(p, event->process, sample.thread, off_cpu);
	struct strbuf *s = &p->out;
	uint64_t iid, *known;
	size_t packet, data, defaults;

	if (!track)
		return -ENOMEM;
	if (sample.state > off_cpu_state_stopped)
		sample.state = off_cpu_state_unknown;
	iid = off_cpu ? (uint64_t)sample.stack << STATE_BITS | sample.state : sample.stack;
	known = map_at(&track->defined.stacks, ++iid, 0);
	if (!known || (!*known && find_frames(&p->stacks, event, &sample) < 0))
		return -ENOMEM;
	packet = perfetto_sequence_open(s, &track->slices.sequence, event->start_ns, &defaults);
	if (defaults)
		put_defaults(s, defaults, off_cpu);
	if (!*known) {
		*known = 1;
		data = proto_open(s, PACKET_INTERNED_DATA);
		if (perfetto_intern_frames(p, s, &track->defined, iid) < 0)
			return -ENOMEM;
		proto_close(s, data);
	}
	write_sample(p, s, event, &sample, iid);
	proto_close(s, packet);
	return 0;
}
