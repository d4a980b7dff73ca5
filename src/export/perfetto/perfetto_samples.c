/*
 * perfetto_samples.c: CPU samples, and time off the CPU, as samples of call stacks. Each session
 * has one sequence for each of the two, because stack ids are unique per session only.
 */
#include <errno.h>

#include "analysis/cpu_moments.h"
#include "export/perfetto/perfetto_writer.h"

/* Keys of stacks in a sequence; for time off the CPU they include the state. */
#define STATE_BITS 3

/* Finds the frames of a sample and appends why the thread did not run. */
static int find_frames(struct export_stacks *x, const struct export_event *event,
		       const struct cpu_moment *sample)
{
	int r = export_stacks_find(x, event->process, sample->stack, false);

	if (r >= 0 && !x->frames.count)
		r = export_stacks_note(x, STACK_NOTE_NONE);
	if (r >= 0 && event->kind == EVENT_OFF_CPU)
		r = export_stacks_note(x, (enum stack_note)(STACK_NOTE_STATES + sample->state));
	return r;
}

int perfetto_sample(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	bool off_cpu = event->kind == EVENT_OFF_CPU;
	struct cpu_moment sample =
		cpu_moment_of(p->view.trace, event_table(event->kind), event->process, event->row);
	struct track *track = perfetto_samples_track(p, event->process, sample.thread, off_cpu);
	struct strbuf *s = &p->out;
	uint64_t iid, *known;
	size_t packet, data, defaults;

	if (!track)
		return -ENOMEM;
	iid = off_cpu ? (uint64_t)sample.stack << STATE_BITS | sample.state : sample.stack;
	known = map_at(&track->defined.stacks, ++iid, 0);
	if (!known || (!*known && find_frames(&p->stacks, event, &sample) < 0))
		return -ENOMEM;
	packet = perfetto_sequence_open(s, &track->slices.sequence, event->start_ns, &defaults);
	if (defaults)
		perfetto_sample_defaults(s, defaults, off_cpu);
	if (!*known) {
		*known = 1;
		data = proto_open(s, PACKET_INTERNED_DATA);
		if (perfetto_intern_frames(p, s, &track->defined, iid) < 0)
			return -ENOMEM;
		proto_close(s, data);
	}
	perfetto_sample_write(
		s, &(struct perfetto_sample){ .stack_iid = iid,
					      .weight_ns = sample.weight_ns,
					      .pid = p->view.processes[event->process].pid,
					      .thread = sample.thread,
					      .cpu = sample.cpu });
	proto_close(s, packet);
	return 0;
}
