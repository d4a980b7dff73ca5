/*
 * stalls.c: samples are added up by instruction and reason first; kernels and lines are sums of
 * instructions, of which there are far fewer than rows.
 */
#include "analysis/stalls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/report.h"

#define OFFSET_BITS 40
#define OFFSET_MAX ((UINT64_C(1) << OFFSET_BITS) - 1)
#define REASON_BITS 10 /* 40 are known; the last number is of all that are too many */
#define REASON_MAX ((1u << REASON_BITS) - 1)
#define FUNCTION_CODE (UINT64_C(1) << 63)
#define NO_CUBIN UINT32_MAX
#define NO_LOCATION UINT32_MAX

/* A function in its device code. */
struct sampled_function {
	const char *name;
	uint32_t kernel; /* number */
	uint32_t cubin; /* item of cubins, or NO_CUBIN */
	bool is_found, is_wanted;
	uint64_t crc;
	struct cubin_function section; /* that it is in, from its start on */
	uint64_t start; /* in the section */
	uint64_t
		code; /* number of what its offsets are in: the section, else the function itself */
};

struct tally {
	GROUPS(struct stall_place) places;
	GROUPS(struct stall_count) counts; /* place << REASON_BITS | reason */
};

struct adding {
	struct report *report;
	struct stalls *out;
	struct map readings; /* process << OFFSET_BITS | id -> row */
	struct map cubin_of; /* crc -> item of cubins, or NO_CUBIN */
	VEC(struct cubin *) cubins;
	GROUPS(struct sampled_function) functions; /* number of cubin << 32 | string */
	struct map crc_numbers; /* crc -> number, from 1 on */
	struct map codes; /* cubin << 32 | section, or FUNCTION_CODE | function -> number */
	struct map reason_of; /* string -> number << 1 | not issued */
	struct tally instructions, kernels, lines;
	VEC(uint32_t) function_of; /* instruction -> function */
	VEC(struct source_frame) frames;
	struct map locations; /* file << 32 | line -> number */
};

static int tally_add(struct tally *t, uint64_t key, const struct stall_place *initial,
		     const struct stall_count *c)
{
	struct stall_place *p =
		groups_at(&t->places, key, .number = (uint32_t)t->places.items.count,
			  .kernel = initial->kernel, .kernel_name = initial->kernel_name,
			  .function = initial->function, .file = initial->file,
			  .line = initial->line, .crc = initial->crc, .offset = initial->offset);
	struct stall_count *sum;

	if (!p)
		return -ENOMEM;
	p->samples += c->samples;
	p->not_issued += c->not_issued;
	sum = groups_at(&t->counts, (uint64_t)p->number << REASON_BITS | c->reason,
			.place = p->number, .reason = c->reason);
	if (!sum)
		return -ENOMEM;
	sum->samples += c->samples;
	sum->not_issued += c->not_issued;
	return 0;
}

static void tally_release(struct tally *t)
{
	groups_release(&t->places);
	groups_release(&t->counts);
}

ORDER(by_place, struct stall_count,
      UP(place) ?: DOWN(samples) ?: DOWN(not_issued) ?: strcmp(a->what->name, b->what->name))
ORDER(by_samples, struct stall_place, DOWN(samples) ?: UP(number))

/* The places in their order, each with its reasons. */
static void tally_take(struct tally *t, const struct stall_reason *known, struct stall_places *out)
{
	for (size_t i = 0; i < t->counts.items.count; i++)
		t->counts.items.data[i].what = &known[t->counts.items.data[i].reason];
	vec_sort(&t->counts.items, by_place);
	for (size_t i = 0; i < t->counts.items.count; i++) {
		const struct stall_count *c = &t->counts.items.data[i];
		struct stall_place *p = &t->places.items.data[c->place];

		if (!p->reason_count++)
			p->reasons = c;
	}
	out->counts = t->counts.items.data;
	map_release(&t->counts.index);
	groups_take(&t->places, by_samples, &out->items, &out->count);
	*t = (struct tally){ 0 };
}

/* Whether a reading is looked at. */
static bool is_wanted_reading(const struct adding *a, uint64_t row)
{
	const struct selection *s = &a->report->selection;
	const struct pc_reading_columns *c = pc_reading_columns(s->trace);

	return selection_has_time(s, true, c->start_ns[row]) &&
	       (s->filter.device < 0 || s->filter.device == c->device[row]);
}

static int add_readings(struct adding *a)
{
	const struct pc_reading_columns *c = pc_reading_columns(a->report->trace);
	struct stalls *out = a->out;

	for (struct row_walk w = selection_rows(&a->report->selection, TABLE_pc_reading);
	     row_walk_next(&w);) {
		uint64_t period = c->period_cycles[w.row];

		if (c->id[w.row] <= OFFSET_MAX &&
		    map_put(&a->readings, (uint64_t)w.process << OFFSET_BITS | c->id[w.row],
			    w.row) < 0)
			return -ENOMEM;
		if (!is_wanted_reading(a, w.row))
			continue;
		if (!out->readings++)
			out->period_cycles = period;
		else if (out->period_cycles != period)
			out->period_cycles = 0;
		out->total += c->total[w.row];
		out->dropped += c->dropped[w.row];
		out->other += c->other[w.row];
	}
	return 0;
}

/* A sample whose reading is lost has no time and no device. */
static bool is_wanted_sample(const struct adding *a, uint32_t process, uint64_t row)
{
	const struct selection *s = &a->report->selection;
	uint64_t id = pc_sample_columns(s->trace)->reading[row], reading;

	if (id <= OFFSET_MAX &&
	    map_get(&a->readings, (uint64_t)process << OFFSET_BITS | id, &reading))
		return is_wanted_reading(a, reading);
	return !s->windowed && s->filter.device < 0;
}

/* Device code that cannot be read is as if it had not been kept. */
static int open_cubin(struct adding *a, uint64_t row, uint32_t *item)
{
	const struct trace *t = a->report->trace;
	const struct cubin_columns *c = cubin_columns(t);
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct elf_file file;
	struct cubin *cubin;
	int r;

	*item = NO_CUBIN;
	if (!column_has(c->valid.file, row) ||
	    !trace_file_path(t, trace_string(t, c->file[row]), &path))
		return 0;
	r = path.failed ? -ENOMEM : elf_file_open(strbuf_text(&path), &file, NULL);
	if (r == 0)
		r = cubin_open(&file, &cubin, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	*item = (uint32_t)a->cubins.count;
	if (vec_push(&a->cubins, cubin) == 0)
		return 0;
	cubin_free(cubin);
	return -ENOMEM;
}

/* Processes can have the same device code, which some of them could not keep. */
static int open_cubins(struct adding *a)
{
	const struct cubin_columns *c = cubin_columns(a->report->trace);

	for (struct row_walk w = all_rows(a->report->trace, TABLE_cubin); row_walk_next(&w);) {
		uint64_t *known = map_at(&a->cubin_of, c->crc[w.row], NO_CUBIN);
		uint32_t item;

		if (!known || (*known == NO_CUBIN && open_cubin(a, w.row, &item) < 0))
			return -ENOMEM;
		if (*known == NO_CUBIN)
			*known = item;
	}
	return 0;
}

/* A device function in a kernel's section is the kernel's code, whatever the samples call it. */
static void find_section(const struct adding *a, struct sampled_function *f)
{
	const struct cubin *cubin = f->cubin == NO_CUBIN ? NULL : a->cubins.data[f->cubin];
	const char *kernel;

	if (!cubin || !cubin_find_function(cubin, f->name, &f->section))
		return;
	f->is_found = true;
	f->start = f->section.start;
	f->section.start = 0;
	kernel = cubin_kernel(cubin, &f->section);
	f->name = *kernel ? kernel : f->name;
}

/* Where a function is, and whose it is. */
static int place_function(struct adding *a, struct sampled_function *f)
{
	const char *filter = a->report->options.filter.kernel;
	uint64_t cubin = NO_CUBIN, number = (uint64_t)(f - a->functions.items.data);
	int64_t kernel;

	map_get(&a->cubin_of, f->crc, &cubin);
	f->cubin = (uint32_t)cubin;
	find_section(a, f);
	f->code = map_number(&a->codes, f->is_found ? cubin << 32 | f->section.section
						    : FUNCTION_CODE | number);
	kernel = interner_add(&a->out->kernel_names, f->name, strlen(f->name), NULL);
	if (kernel < 0 || !f->code)
		return -ENOMEM;
	f->kernel = (uint32_t)kernel;
	f->is_wanted = !filter || kernel_name_matches(filter, f->name);
	return 0;
}

/* Number of the function of a row. */
static int find_function(struct adding *a, uint64_t row, uint32_t *number)
{
	const struct pc_sample_columns *c = pc_sample_columns(a->report->trace);
	uint64_t crc = map_number(&a->crc_numbers, c->crc[row]);
	size_t known = a->functions.items.count;
	struct sampled_function *f =
		crc ? groups_at(&a->functions, crc << 32 | c->function[row],
				.name = trace_string(a->report->trace, c->function[row]),
				.cubin = NO_CUBIN, .crc = c->crc[row])
		    : NULL;

	if (!f)
		return -ENOMEM;
	*number = (uint32_t)(f - a->functions.items.data);
	return a->functions.items.count > known ? place_function(a, f) : 0;
}

static int find_reason(struct adding *a, uint32_t string, uint64_t samples, struct stall_count *out)
{
	uint64_t *known = map_at(&a->reason_of, string, UINT64_MAX);
	struct stall_name name;
	int64_t number;

	if (!known)
		return -ENOMEM;
	if (*known == UINT64_MAX) {
		name = stall_name_of(trace_string(a->report->trace, string));
		number = interner_find(&a->out->reason_names, name.state, name.length);
		if (number < 0 && a->out->reason_names.count >= REASON_MAX)
			name = (struct stall_name){ "...", 3, name.not_issued };
		if (number < 0)
			number = interner_add(&a->out->reason_names, name.state, name.length, NULL);
		if (number < 0)
			return -ENOMEM;
		*known = (uint64_t)number << 1 | name.not_issued;
	}
	*out = (struct stall_count){ .reason = (uint32_t)(*known >> 1),
				     .samples = samples,
				     .not_issued = *known & 1 ? samples : 0 };
	return 0;
}

static int add_sample(struct adding *a, uint64_t row)
{
	const struct pc_sample_columns *c = pc_sample_columns(a->report->trace);
	const struct sampled_function *f;
	struct stall_place place;
	struct stall_count count;
	uint32_t number;

	if (find_function(a, row, &number) < 0 ||
	    find_reason(a, c->reason[row], c->samples[row], &count) < 0)
		return -ENOMEM;
	f = &a->functions.items.data[number];
	if (!f->is_wanted) {
		a->out->unwanted += count.samples;
		return 0;
	}
	place = (struct stall_place){
		.kernel = f->kernel,
		.function = f->name,
		.crc = f->crc,
		.offset = f->start + MIN(c->offset[row], OFFSET_MAX - f->start),
	};
	if (tally_add(&a->instructions, f->code << OFFSET_BITS | place.offset, &place, &count) < 0)
		return -ENOMEM;
	if (a->function_of.count < a->instructions.places.items.count &&
	    vec_push(&a->function_of, number) < 0)
		return -ENOMEM;
	a->out->samples += count.samples;
	a->out->not_issued += count.not_issued;
	return 0;
}

static int add_samples(struct adding *a)
{
	a->out->rows = trace_rows(a->report->trace, TABLE_pc_sample);
	for (struct row_walk w = selection_rows(&a->report->selection, TABLE_pc_sample);
	     row_walk_next(&w);)
		if (is_wanted_sample(a, w.process, w.row) && add_sample(a, w.row) < 0)
			return -ENOMEM;
	return 0;
}

/* The line of an instruction goes to it and to *location, a number; its frames to the end of all of them. */
static int find_line(struct adding *a, struct stall_place *p, uint32_t *location)
{
	const struct sampled_function *f = &a->functions.items.data[a->function_of.data[p->number]];
	struct source_frame frames[SOURCE_FRAMES_MAX];
	const struct source_frame *inner;
	int64_t file;
	uint64_t number;
	int count;

	*location = NO_LOCATION;
	if (!f->is_found)
		return 0;
	count = cubin_find_place(a->cubins.data[f->cubin], &f->section, p->offset, frames);
	if (count <= 0)
		return count;
	p->frame_count = MIN((size_t)count, STALL_FRAMES_MAX);
	for (size_t i = (size_t)count - p->frame_count; i < (size_t)count; i++)
		if (vec_push(&a->frames, frames[i]) < 0)
			return -ENOMEM;
	inner = &frames[count - 1];
	if (!inner->file || !inner->line)
		return 0;
	file = interner_add(&a->out->files, inner->file, strlen(inner->file), NULL);
	if (file < 0)
		return -ENOMEM;
	p->file = a->out->files.items[file].text;
	p->line = inner->line;
	number = map_number(&a->locations, (uint64_t)file << 32 | p->line);
	*location = (uint32_t)number;
	return number ? 0 : -ENOMEM;
}

/* Instructions are made into lines. Samples of those without one are counted by why there is none. */
static int add_lines(struct adding *a)
{
	size_t instructions = a->instructions.places.items.count;
	_cleanup_free_ uint32_t *locations = malloc((instructions + 1) * sizeof(*locations));

	if (!locations)
		return -ENOMEM;
	for (size_t i = 0; i < instructions; i++) {
		struct stall_place *p = &a->instructions.places.items.data[i];

		if (find_line(a, p, &locations[i]) < 0)
			return -ENOMEM;
		if (a->functions.items.data[a->function_of.data[i]].cubin == NO_CUBIN)
			a->out->codeless += p->samples;
		else if (locations[i] == NO_LOCATION)
			a->out->unlined += p->samples;
	}
	for (size_t i = 0; i < a->instructions.counts.items.count; i++) {
		const struct stall_count *c = &a->instructions.counts.items.data[i];
		const struct stall_place *p = &a->instructions.places.items.data[c->place];

		if (locations[c->place] != NO_LOCATION &&
		    tally_add(&a->lines, (uint64_t)p->kernel << 32 | locations[c->place], p, c) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_kernels(struct adding *a)
{
	for (size_t i = 0; i < a->instructions.counts.items.count; i++) {
		const struct stall_count *c = &a->instructions.counts.items.data[i];
		const struct stall_place *p = &a->instructions.places.items.data[c->place];

		if (tally_add(&a->kernels, p->kernel, &(struct stall_place){ .kernel = p->kernel },
			      c) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void name_kernels(const struct stalls *out, struct stall_places *places)
{
	for (size_t i = 0; i < places->count; i++)
		places->items[i].kernel_name =
			out->kernel_names.items[places->items[i].kernel].text;
}

/* Frames stand in the order of the instructions' numbers. */
static void point_to_frames(struct adding *a)
{
	size_t at = 0;

	for (size_t i = 0; i < a->instructions.places.items.count; i++) {
		struct stall_place *p = &a->instructions.places.items.data[i];

		p->frames = a->frames.data + at;
		at += p->frame_count;
	}
}

static int sum_reasons(struct adding *a)
{
	struct stalls *out = a->out;

	out->reasons = calloc(out->reason_names.count + 1, sizeof(*out->reasons));
	out->known = calloc(out->reason_names.count + 1, sizeof(*out->known));
	if (!out->reasons || !out->known)
		return -ENOMEM;
	out->reason_count = out->reason_names.count;
	for (size_t i = 0; i < out->reason_count; i++) {
		out->known[i] = stall_reason_of(out->reason_names.items[i].text);
		out->reasons[i].reason = (uint32_t)i;
		out->reasons[i].what = &out->known[i];
	}
	for (size_t i = 0; i < a->instructions.counts.items.count; i++) {
		const struct stall_count *c = &a->instructions.counts.items.data[i];

		out->reasons[c->reason].samples += c->samples;
		out->reasons[c->reason].not_issued += c->not_issued;
	}
	qsort(out->reasons, out->reason_count, sizeof(*out->reasons), by_place);
	while (out->reason_count && !out->reasons[out->reason_count - 1].samples &&
	       !out->reasons[out->reason_count - 1].not_issued)
		out->reason_count--; /* of kernels that the filter left out */
	return 0;
}

static int add_up(struct adding *a)
{
	struct stalls *out = a->out;
	uint64_t known;
	int r = sum_reasons(a);

	if (r == 0)
		r = add_kernels(a);
	if (r == 0 && a->report->options.stalls)
		r = add_lines(a);
	if (r < 0)
		return r;
	point_to_frames(a);
	tally_take(&a->kernels, out->known, &out->kernels);
	name_kernels(out, &out->kernels);
	if (a->report->options.stalls) {
		tally_take(&a->lines, out->known, &out->lines);
		tally_take(&a->instructions, out->known, &out->instructions);
		name_kernels(out, &out->lines);
		name_kernels(out, &out->instructions);
	}
	known = out->samples + out->unwanted + out->dropped + out->other;
	out->unaccounted = out->total > known ? out->total - known : 0;
	return 0;
}

static int run(struct report *r, void *result)
{
	struct stalls *out = result;
	struct adding a = { .report = r, .out = out };
	int code;

	interner_init(&out->kernel_names);
	interner_init(&out->reason_names);
	interner_init(&out->files);
	code = add_readings(&a);
	if (code == 0)
		code = open_cubins(&a);
	if (code == 0)
		code = add_samples(&a);
	if (code == 0)
		code = add_up(&a);
	out->cubins = a.cubins.data;
	out->cubin_count = a.cubins.count;
	out->frames = a.frames.data;
	map_release(&a.readings);
	map_release(&a.cubin_of);
	map_release(&a.crc_numbers);
	map_release(&a.codes);
	map_release(&a.reason_of);
	map_release(&a.locations);
	groups_release(&a.functions);
	vec_release(&a.function_of);
	tally_release(&a.instructions);
	tally_release(&a.kernels);
	tally_release(&a.lines);
	return code;
}

static void places_release(struct stall_places *p)
{
	free(p->items);
	free(p->counts);
}

static void release(void *result)
{
	struct stalls *s = result;

	places_release(&s->kernels);
	places_release(&s->lines);
	places_release(&s->instructions);
	free(s->reasons);
	free(s->known);
	free(s->frames);
	for (size_t i = 0; i < s->cubin_count; i++)
		cubin_free(s->cubins[i]);
	free(s->cubins);
	interner_release(&s->kernel_names);
	interner_release(&s->reason_names);
	interner_release(&s->files);
}

const struct analysis analysis_stalls = {
	.size = sizeof(struct stalls),
	.needs = { { TABLE_cubin, 0 }, { TABLE_pc_reading, 0 }, { TABLE_pc_sample, 0 } },
	.run = run,
	.release = release,
};

const struct stall_count *stalls_first_wait(const struct stall_place *p)
{
	for (size_t i = 0; i < p->reason_count; i++)
		if (!p->reasons[i].what->is_no_wait && p->reasons[i].samples)
			return &p->reasons[i];
	return NULL;
}
