/* capture_write.c: cuts captured steps out of the segments of a process. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/search.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "format/rows.h"
#include "record/capture.h"
#include "record/live_tail.h"
#include "record/recording.h"
#include "recover/recover.h"

struct parts {
	struct live_segments others, samples;
	VEC(const struct segment *) all; /* of the process, in their order */
};

ORDER(compare_numbers, const struct segment *, ORDER_OF((*a)->header.number, (*b)->header.number))

static const struct segment *find_number(const struct capture *c, uint32_t number)
{
	for (size_t i = 0; i < c->segments.count; i++)
		if (c->segments.data[i].live.segment.header.number == number)
			return rule_segment_blocks(c->segments.data[i].rows);
	return NULL;
}

/* Those that were followed, and those from before and between. */
static int gather(const struct capture *c, struct parts *p)
{
	const struct live_segment *last = &c->segments.data[c->segments.count - 1].live;
	bool in_ours = c->ring && !c->is_attached; /* all were read from the first one on */
	char prefix[32];
	int rc = in_ours ? 0 : live_segments_find(last, &p->others);

	snprintf(prefix, sizeof(prefix), "cpu-%d.", (int)c->pid);
	if (rc >= 0 && !in_ours)
		rc = live_segments_beside(last, prefix, &p->samples);
	for (size_t i = 0; i < c->segments.count && rc >= 0; i++)
		rc = vec_push(&p->all, rule_segment_blocks(c->segments.data[i].rows));
	for (size_t i = 0; i < p->others.all.count && rc >= 0; i++) {
		const struct segment *s = &p->others.all.data[i].segment;

		if (!find_number(c, s->header.number))
			rc = vec_push(&p->all, s);
	}
	vec_sort(&p->all, compare_numbers);
	return rc;
}

static void release(struct parts *p)
{
	vec_release(&p->all);
	live_segments_release(&p->others);
	live_segments_release(&p->samples);
}

static struct cut_window window_of(const struct capture *c)
{
	size_t count = capture_steps(c);
	uint64_t from_ns = c->thread->steps.data[0].start_ns;
	uint64_t host_until_ns = c->thread->steps.data[count - 1].end_ns;

	return (struct cut_window){ .from_ns = from_ns,
				    .host_until_ns = host_until_ns,
				    .until_ns = MAX(host_until_ns, c->thread->work_until_ns),
				    .work_from_ns = from_ns - MIN(from_ns, c->lead_ns) };
}

/* Whether all segments up to the window are there. */
static bool knows_begin(const struct parts *p, const struct cut_window *w)
{
	for (size_t i = 0; i < p->all.count; i++) {
		if (p->all.data[i]->header.number != i)
			return false;
		if (p->all.data[i]->header.start_monotonic_ns > w->from_ns)
			break;
	}
	return true;
}

static int cut(const struct capture *c, const struct parts *p, int folder, uint32_t first,
	       struct capture_result *out)
{
	struct segment_cut *cutter = segment_cut_new(&out->window);
	uint32_t number = 0, gap;
	char name[64];
	int rc = cutter ? 0 : -ENOMEM;

	for (size_t i = 0; i < p->all.count && rc >= 0; i++)
		rc = segment_cut_find(cutter, p->all.data[i]);
	for (size_t i = 0; i < p->all.count && rc >= 0; i++) {
		const struct segment *s = p->all.data[i];

		gap = segment_cut_gap(i ? p->all.data[i - 1] : NULL, s, &out->window);
		out->missing += gap;
		number += gap;
		snprintf(name, sizeof(name), "%u.%u" SEGMENT_SUFFIX, s->header.pid, first + number);
		rc = segment_cut_write(cutter, s, folder, name, number, gap > 0);
		number += rc > 0;
		out->segments += rc > 0;
	}
	number = 0;
	for (size_t i = 0; i < p->samples.all.count && rc >= 0; i++) {
		const struct segment *s = &p->samples.all.data[i].segment;

		snprintf(name, sizeof(name), "cpu-%d.%u" SEGMENT_SUFFIX, (int)c->pid, number);
		rc = segment_cut_write(cutter, s, folder, name, number, false);
		number += rc > 0;
	}
	if (rc >= 0)
		out->counts = segment_cut_counts(cutter);
	segment_cut_free(cutter);
	return rc;
}

/* The recording's own segment says which window it covers, and why. */
static void write_rows(const struct capture *c, const struct capture_result *r, struct writer *w)
{
	size_t steps = capture_steps(c);
	char what[64], why[400];

	snprintf(what, sizeof(what), "%zu %s", steps, plural_of(steps, "step", "steps"));
	snprintf(why, sizeof(why),
		 "%s of thread %u, up to the end of their GPU work, with what was alive at the "
		 "begin%s%s",
		 what, c->thread->thread,
		 r->knows_begin ? ""
				: "; what the process did before its oldest segment is unknown",
		 r->missing ? "; segments in between had been dropped" : "");
	rows_capability_at(w, r->window.from_ns, feature_window, capability_state_on, "capture",
			   what, why);
	rows_capability_at(w, r->window.until_ns, feature_window, capability_state_off, "capture",
			   what, why);
	if (*c->fired.evidence) {
		struct row_trigger row = {
			.time_ns = c->fired.time_ns,
			.rule = rows_text(w, c->rules.rules[c->fired.rule].text),
			.outcome = trigger_outcome_dump,
			.dump = 1,
			.pid = c->fired.pid,
			.evidence = rows_text(w, c->fired.evidence),
		};

		writer_append(w, TABLE_trigger, &row);
	}
}

/* The recording's own segment, which says of the process what the OS kernel knows. */
static int write_segment(const struct capture *c, const struct capture_result *r, int folder,
			 struct error *e)
{
	struct writer_options options = { .directory = r->path,
					  .folder = r->folder,
					  .prefix = "record" };
	struct process_tree *tree;
	struct writer *w;
	int rc = writer_open(&options, &w, e);

	if (rc < 0)
		return rc;
	/* Another process may have the id of one that has ended. */
	tree = process_has_ended(c->process) ? NULL : process_tree_new(w);
	if (tree)
		process_tree_add_root(tree, c->pid, r->window.from_ns);
	write_rows(c, r, w);
	process_tree_free(tree);
	rc = writer_close(&w);
	if (rc >= 0)
		rc = segment_set_start(folder, "record.0" SEGMENT_SUFFIX, r->window.from_ns);
	return rc < 0 ? error_set(e, rc, "cannot write into '%s': %s", r->path, error_code_text(rc))
		      : 0;
}

static int write_own(const struct capture *c, const struct capture_result *r, int folder,
		     struct error *e)
{
	uint64_t age_ns = clock_monotonic_ns() - r->window.from_ns;
	struct recording_identity identity = {
		.folder = r->folder,
		.name = "capture",
		.recorded_by = "pitot capture",
		.engine = "trace",
		.options = "",
		.start_monotonic_ns = r->window.from_ns,
		.start_realtime_ns = clock_read_ns(CLOCK_REALTIME) - age_ns,
		.end_monotonic_ns = r->window.until_ns,
	};
	static char none[] = "?";
	char *unknown[] = { none, NULL };
	int rc = write_segment(c, r, folder, e);

	identity.command = c->command.argv ? c->command.argv : unknown;
	if (rc >= 0)
		rc = recording_json_write(r->path, &identity, e);
	return rc;
}

/* What is under way now, in a process whose work does not end. */
static void write_unfinished(const struct capture *c, const struct capture_result *r)
{
	struct error ignored = { 0 };
	bool is_under_way = r->without_end && !process_has_ended(c->process);
	int memory = is_under_way ? live_memory_find(c->pid) : -1;

	if (memory < 0)
		return;
	(void)!recover_unfinished(memory, r->path, &r->folder, &ignored);
	close(memory);
}

/* Finds what is to be written. */
static int prepare(const struct capture *c, struct parts *p, struct capture_result *out)
{
	int rc = gather(c, p);

	*out = (struct capture_result){ .window = window_of(c), .without_end = c->launches.count };
	out->knows_begin = !c->is_attached && knows_begin(p, &out->window);
	return rc;
}

int capture_write_segments(const struct capture *c, int folder, uint32_t first,
			   struct capture_result *out)
{
	struct parts parts = { 0 };
	int rc = prepare(c, &parts, out);

	rc = rc < 0 ? rc : cut(c, &parts, folder, first, out);
	release(&parts);
	return rc < 0 ? rc : 0;
}

int capture_write(struct capture *c, const char *output, bool force, struct capture_result *out,
		  struct error *e)
{
	struct parts parts = { 0 };
	_cleanup_close_ int folder = -1;
	int rc = prepare(c, &parts, out);

	if (rc < 0)
		error_set(e, rc, "out of memory");
	else
		out->path = recording_dir_create(output, "capture", force, &out->folder, e);
	if (!out->path) {
		release(&parts);
		return e->code;
	}
	folder = folder_open_known(out->path, &out->folder);
	rc = folder < 0 ? folder : cut(c, &parts, folder, 0, out);
	if (rc < 0)
		error_set(e, rc, "cannot write into '%s': %s", out->path, error_code_text(rc));
	if (rc >= 0) {
		write_unfinished(c, out);
		rc = write_own(c, out, folder, e);
	}
	release(&parts);
	if (rc >= 0)
		return 0;
	recording_dir_remove(out->path, &out->folder, NULL);
	free(out->path);
	out->path = NULL;
	return rc;
}
