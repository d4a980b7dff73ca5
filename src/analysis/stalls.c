/*
 * stalls.c: first adds samples up by instruction and reason. Kernels, lines and the whole are then
 * sums over instructions, of which there are far fewer than rows.
 */
#include "analysis/stalls.h"

#include <errno.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "base/human.h"

#define OFFSET_BITS 40
#define OFFSET_MAX ((UINT64_C(1) << OFFSET_BITS) - 1)

struct tally {
	GROUPS(struct stall_place) places;
	GROUPS(struct stall_count) counts; /* key: place << 32 | reason */
};

struct adding {
	const struct selection *selection;
	const struct trace *trace;
	struct stalls *out;
	bool by_device;
	struct map readings; /* process << OFFSET_BITS | id -> row */
	struct map cubin_of; /* crc -> item of cubins plus 1; 0: none */
	struct interner function_numbers, numbers, launches; /* see number_of */
	VEC(struct sampled_function *) functions;
	struct map reason_of; /* string id -> number << 1 | not issued */
	struct tally instructions;
};

/*
 * Consecutive number of a triple, from 0 on, or -ENOMEM. Pointers in it keep kinds of keys apart.
 */
static int64_t number_of(struct interner *in, uint64_t x, uint64_t y, uint64_t z)
{
	const uint64_t key[] = { x, y, z };

	return interner_add(in, key, sizeof(key), NULL);
}

/* The unique copy of a text; NULL: out of memory. */
static const char *text_of(struct adding *a, const char *text)
{
	int64_t id = interner_add(&a->out->texts, text, strlen(text), NULL);

	return id < 0 ? NULL : a->out->texts.items[id].text;
}

/* Finds or adds a place; NULL: out of memory. */
static struct stall_place *tally_at(struct tally *t, uint64_t key,
				    const struct stall_place *initial)
{
	size_t known = t->places.items.count;
	struct stall_place *p = groups_at(&t->places, key, .number = (uint32_t)known);

	if (p && t->places.items.count > known) {
		*p = *initial;
		p->number = (uint32_t)known;
	}
	return p;
}

static int tally_add(struct tally *t, uint64_t key, const struct stall_place *initial,
		     const struct stall_count *c)
{
	struct stall_place *p = tally_at(t, key, initial);
	struct stall_count *sum;

	if (!p)
		return -ENOMEM;
	p->samples += c->samples;
	p->not_issued += c->not_issued;
	sum = groups_at(&t->counts, (uint64_t)p->number << 32 | c->reason, .place = p->number,
			.reason = c->reason);
	if (!sum)
		return -ENOMEM;
	sum->samples += c->samples;
	sum->not_issued += c->not_issued;
	return 0;
}

ORDER(by_place, struct stall_count,
      UP(place) ?: DOWN(samples) ?: DOWN(not_issued) ?: strcmp(a->what.name, b->what.name))
ORDER(by_samples, struct stall_place,
      DOWN(samples) ?: DOWN(sass.of[SASS_EXECUTED]) ?: DOWN(sass.of[SASS_SECTORS]) ?: UP(number))

/* Moves the sorted places, with their reasons, to *out. */
static void tally_finish(struct tally *t, const struct interner *names, struct stall_places *out)
{
	for (size_t i = 0; i < t->counts.items.count; i++) {
		struct stall_count *c = &t->counts.items.data[i];

		c->what = stall_reason_of(names->items[c->reason].text);
	}
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

/* The place to which an instruction is added by a key; false: there is none. */
static bool place_by_key(const struct stall_place *p, enum stall_key key, struct stall_place *out)
{
	*out = (struct stall_place){ .kernel_name = p->kernel_name };
	if (key < STALL_LINE)
		return true;
	out->file = p->file;
	out->line = p->line;
	return p->file;
}

/* Adds the instructions up by one of their keys. */
static int tally_sum(const struct adding *a, enum stall_key key, struct stall_places *out)
{
	const struct tally *from = &a->instructions;
	struct tally t = { 0 };
	int rc = 0;

	for (size_t i = 0; i < from->counts.items.count && rc == 0; i++) {
		const struct stall_count *c = &from->counts.items.data[i];
		const struct stall_place *p = &from->places.items.data[c->place];
		struct stall_place place;

		if (place_by_key(p, key, &place))
			rc = tally_add(&t, p->keys[key], &place, c);
	}
	for (size_t i = 0; i < from->places.items.count && rc == 0; i++) {
		const struct stall_place *p = &from->places.items.data[i];
		struct stall_place place, *sum;

		if (!p->sass.known || !place_by_key(p, key, &place))
			continue;
		sum = tally_at(&t, p->keys[key], &place);
		rc = sum ? 0 : -ENOMEM;
		if (sum)
			sass_counts_add(&sum->sass, &p->sass);
	}
	tally_finish(&t, &a->out->reason_names, out);
	return rc;
}

/* Whether a reading is selected. */
static bool is_selected_reading(const struct adding *a, uint64_t row)
{
	const struct selection *s = a->selection;
	const struct pc_reading_columns *c = pc_reading_columns(a->trace);

	return selection_has_time(s, true, c->start_ns[row]) &&
	       (s->filter.device < 0 || s->filter.device == c->device[row]);
}

static int add_readings(struct adding *a)
{
	const struct pc_reading_columns *c = pc_reading_columns(a->trace);
	struct stalls *out = a->out;

	for (struct row_walk w = selection_rows(a->selection, TABLE_pc_reading);
	     row_walk_next(&w);) {
		uint64_t period = c->period_cycles[w.row];

		if (c->id[w.row] <= OFFSET_MAX &&
		    map_put(&a->readings, (uint64_t)w.process << OFFSET_BITS | c->id[w.row],
			    w.row) < 0)
			return -ENOMEM;
		if (!is_selected_reading(a, w.row))
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

/* Whether a sample is selected. If its reading was lost, it has no time and no device. */
static bool is_selected_sample(const struct adding *a, uint32_t process, uint64_t row,
			       uint32_t *device)
{
	uint64_t id = pc_sample_columns(a->trace)->reading[row], reading;

	*device = UINT32_MAX;
	if (id > OFFSET_MAX ||
	    !map_get(&a->readings, (uint64_t)process << OFFSET_BITS | id, &reading))
		return !a->selection->windowed && a->selection->filter.device < 0;
	*device = pc_reading_columns(a->trace)->device[reading];
	return is_selected_reading(a, reading);
}

/* Device code that cannot be read is treated as not kept. */
static int open_cubin(struct adding *a, uint64_t row, uint64_t *item)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	struct kept_cubin kept = { .row = row };
	struct elf_file file;
	int rc;

	if (!stalls_cubin_path(a->trace, row, &path))
		return path.failed ? -ENOMEM : 0;
	rc = elf_file_open(strbuf_text(&path), &file, NULL);
	if (rc == 0)
		rc = cubin_open(&file, &kept.cubin, NULL);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	*item = a->out->cubins.count + 1;
	if (vec_push(&a->out->cubins, kept) == 0)
		return 0;
	cubin_free(kept.cubin);
	return -ENOMEM;
}

/* Several processes may have the same device code, and some may have failed to keep it. */
static int open_cubins(struct adding *a)
{
	const struct cubin_columns *c = cubin_columns(a->trace);

	for (struct row_walk w = all_rows(a->trace, TABLE_cubin); row_walk_next(&w);) {
		uint64_t *known = map_at(&a->cubin_of, c->crc[w.row], 0);

		if (!known || (!*known && open_cubin(a, w.row, known) < 0))
			return -ENOMEM;
	}
	return 0;
}

/*
 * A device function in a kernel's section is code of that kernel, whatever name the samples have.
 */
static void find_section(struct sampled_function *f)
{
	const char *kernel;

	if (!f->cubin || !cubin_find_function(f->cubin, f->name, &f->section))
		return;
	f->is_found = true;
	f->start = f->section.start;
	f->section.start = 0;
	kernel = cubin_kernel(f->cubin, &f->section);
	f->name = *kernel ? kernel : f->name;
}

/* Finds the code and the kernel of a function. */
static int find_code(struct adding *a, struct sampled_function *f)
{
	const char *filter = a->selection->filter.kernel;
	uint64_t cubin = 0, owner = (uint64_t)f->process << 32 | f->device;
	int64_t code;

	if (map_get(&a->cubin_of, f->crc, &cubin) && cubin)
		f->cubin = a->out->cubins.data[cubin - 1].cubin;
	find_section(f);
	code = f->is_found ? number_of(&a->numbers, (uintptr_t)f->cubin, f->section.section, owner)
			   : number_of(&a->numbers, (uintptr_t)f, 0, 0);
	f->code = (uint64_t)code;
	f->name = text_of(a, f->name);
	if (code < 0 || !f->name)
		return -ENOMEM;
	f->is_selected = !filter || kernel_name_matches(filter, f->name);
	return 0;
}

/* Finds or adds the function with this name and code; NULL: out of memory. */
static const struct sampled_function *find_function(struct adding *a, uint32_t process,
						    uint32_t device, uint64_t crc, uint32_t name)
{
	struct sampled_function new = { .name = trace_string(a->trace, name),
					.crc = crc,
					.process = a->by_device ? process : 0,
					.device = a->by_device ? device : 0 };
	int64_t id = number_of(&a->function_numbers, crc, name,
			       (uint64_t) new.process << 32 | new.device);
	struct sampled_function *f;

	if (id < 0 || (size_t)id < a->functions.count)
		return id < 0 ? NULL : a->functions.data[id];
	f = arena_alloc(&a->out->memory, sizeof(*f));
	if (!f || vec_push(&a->functions, f) < 0)
		return NULL;
	*f = new;
	return find_code(a, f) < 0 ? NULL : f;
}

static int find_reason(struct adding *a, uint32_t string, uint64_t samples, struct stall_count *out)
{
	uint64_t *known = map_at(&a->reason_of, string, UINT64_MAX);
	struct stall_name name;
	int64_t number;

	if (!known)
		return -ENOMEM;
	if (*known == UINT64_MAX) {
		name = stall_name_of(trace_string(a->trace, string));
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

static struct stall_place place_of(const struct sampled_function *f, uint64_t offset)
{
	return (struct stall_place){
		.kernel_name = f->name,
		.keys[STALL_KERNEL] = (uintptr_t)f->name,
		.function = f,
		.offset = f->start + MIN(offset, OFFSET_MAX - f->start),
	};
}

static int add_sample(struct adding *a, uint32_t process, uint32_t device, uint64_t row)
{
	const struct pc_sample_columns *c = pc_sample_columns(a->trace);
	const struct sampled_function *f =
		find_function(a, process, device, c->crc[row], c->function[row]);
	struct stall_place place;
	struct stall_count count;

	if (!f || find_reason(a, c->reason[row], c->samples[row], &count) < 0)
		return -ENOMEM;
	if (!f->is_selected) {
		a->out->excluded += count.samples;
		return 0;
	}
	place = place_of(f, c->offset[row]);
	a->out->samples += count.samples;
	a->out->not_issued += count.not_issued;
	return tally_add(&a->instructions, f->code << OFFSET_BITS | place.offset, &place, &count);
}

static int add_samples(struct adding *a)
{
	uint32_t device;

	a->out->rows = trace_rows(a->trace, TABLE_pc_sample);
	for (struct row_walk w = selection_rows(a->selection, TABLE_pc_sample); row_walk_next(&w);)
		if (is_selected_sample(a, w.process, w.row, &device) &&
		    add_sample(a, w.process, device, w.row) < 0)
			return -ENOMEM;
	return 0;
}

/*
 * Counts with a metric for all accesses, as bits; those for loads and stores alone are then
 * ignored.
 */
static unsigned find_wholes(const struct trace *t)
{
	const struct metric_columns *c = metric_columns(t);
	unsigned wholes = 0;
	bool is_part;
	int count;

	for (uint64_t row = 0; row < trace_rows(t, TABLE_metric); row++) {
		count = sass_count_of(trace_string(t, c->name[row]), &is_part);
		if (count >= 0 && !is_part)
			wholes |= 1u << count;
	}
	return wholes;
}

static int add_value(struct adding *a, uint32_t process, uint64_t row, enum sass_count count)
{
	const struct sass_value_columns *c = sass_value_columns(a->trace);
	const struct sampled_function *f =
		find_function(a, process, c->device[row], c->crc[row], c->function[row]);
	struct stall_place place, *p;

	if (!f)
		return -ENOMEM;
	if (!f->is_selected)
		return 0;
	place = place_of(f, c->offset[row]);
	p = tally_at(&a->instructions, f->code << OFFSET_BITS | place.offset, &place);
	if (!p || (column_has(c->valid.correlation, row) &&
		   number_of(&a->launches, process, c->correlation[row], 0) < 0))
		return -ENOMEM;
	p->sass.of[count] += c->value[row];
	p->sass.known |= 1u << count;
	return 0;
}

static int add_values(struct adding *a)
{
	const struct sass_value_columns *c = sass_value_columns(a->trace);
	const struct selection *s = a->selection;
	unsigned wholes = find_wholes(a->trace);

	for (struct row_walk w = selection_rows(s, TABLE_sass_value); row_walk_next(&w);) {
		uint32_t name = metric_columns(a->trace)->name[c->metric[w.row]];
		bool is_part;
		int count = sass_count_of(trace_string(a->trace, name), &is_part);

		if (count < 0 || (is_part && (wholes & 1u << count)) ||
		    !selection_has_time(s, true, c->time_ns[w.row]) ||
		    (s->filter.device >= 0 && s->filter.device != c->device[w.row]))
			continue;
		if (add_value(a, w.process, w.row, (enum sass_count)count) < 0)
			return -ENOMEM;
	}
	a->out->launches = a->launches.count;
	for (size_t i = 0; i < a->instructions.places.items.count; i++) {
		struct sass_counts *sass = &a->instructions.places.items.data[i].sass;

		if (sass->of[SASS_IDEAL])
			sass->of[SASS_RATED] = sass->of[SASS_SECTORS];
		sass_counts_add(&a->out->sass, sass);
	}
	return 0;
}

/* Finds the frames and the line of an instruction. */
static int find_line(struct adding *a, struct stall_place *p)
{
	struct source_frame frames[SOURCE_FRAMES_MAX], *kept;
	const struct source_frame *inner;
	int64_t line, source;
	int count = p->function->is_found
			    ? cubin_find_frames(p->function->cubin, &p->function->section,
						p->offset, frames)
			    : 0;

	if (count <= 0)
		return count;
	inner = &frames[count - 1];
	p->frame_count = MIN((size_t)count, STALL_FRAMES_MAX);
	kept = arena_alloc(&a->out->memory, p->frame_count * sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	memcpy(kept, inner + 1 - p->frame_count, p->frame_count * sizeof(*kept));
	p->frames = kept;
	if (!inner->file || !inner->line)
		return 0;
	p->file = text_of(a, inner->file);
	p->line = inner->line;
	line = number_of(&a->numbers, (uintptr_t)p->kernel_name, (uintptr_t)p->file, p->line);
	source = number_of(&a->numbers, 0, (uintptr_t)p->file, p->line);
	p->keys[STALL_LINE] = (uint64_t)line;
	p->keys[STALL_SOURCE] = (uint64_t)source;
	return p->file && line >= 0 && source >= 0 ? 0 : -ENOMEM;
}

/* Finds the lines of all instructions; counts samples without a line by the reason. */
static int find_lines(struct adding *a)
{
	for (size_t i = 0; i < a->instructions.places.items.count; i++) {
		struct stall_place *p = &a->instructions.places.items.data[i];

		if (find_line(a, p) < 0)
			return -ENOMEM;
		if (!p->function->cubin)
			a->out->without_code += p->samples;
		else if (!p->file)
			a->out->without_line += p->samples;
	}
	return 0;
}

static int find_hottest(struct stalls *s)
{
	_cleanup_(map_release) struct map first = MAP_INIT;
	uint64_t line;

	for (size_t i = 0; i < s->lines.count; i++)
		if (!map_at(&first, (uintptr_t)s->lines.items[i].kernel_name, i))
			return -ENOMEM;
	for (size_t i = 0; i < s->kernels.count; i++)
		if (map_get(&first, (uintptr_t)s->kernels.items[i].kernel_name, &line))
			s->kernels.items[i].hottest = &s->lines.items[line];
	return 0;
}

static int add_up(struct adding *a)
{
	struct stalls *out = a->out;
	struct stall_places *const sums[] = {
		[STALL_WHOLE] = &out->whole,
		[STALL_KERNEL] = &out->kernels,
		[STALL_LINE] = &out->lines,
		[STALL_SOURCE] = &out->source,
	};
	uint64_t known;
	int rc = find_lines(a);

	for (enum stall_key key = 0; key < STALL_KEYS && rc == 0; key++)
		rc = tally_sum(a, key, sums[key]);
	if (rc == 0)
		rc = find_hottest(out);
	tally_finish(&a->instructions, &out->reason_names, &out->instructions);
	if (out->whole.count) {
		out->reasons = out->whole.items->reasons;
		out->reason_count = out->whole.items->reason_count;
	}
	known = out->samples + out->excluded + out->dropped + out->other;
	out->unaccounted = out->total > known ? out->total - known : 0;
	return rc;
}

int stalls_init(struct stalls *s, const struct selection *selection, unsigned what)
{
	struct adding a = { .selection = selection,
			    .trace = selection->trace,
			    .out = s,
			    .by_device = what & STALLS_BY_DEVICE };
	int rc;

	*s = (struct stalls){ 0 };
	interner_init(&s->texts);
	interner_init(&s->reason_names);
	interner_init(&a.function_numbers);
	interner_init(&a.numbers);
	interner_init(&a.launches);
	rc = add_readings(&a);
	if (rc == 0)
		rc = open_cubins(&a);
	if (rc == 0)
		rc = add_samples(&a);
	if (rc == 0 && (what & STALLS_SASS))
		rc = add_values(&a);
	if (rc == 0)
		rc = add_up(&a);
	map_release(&a.readings);
	map_release(&a.cubin_of);
	map_release(&a.reason_of);
	interner_release(&a.function_numbers);
	interner_release(&a.numbers);
	interner_release(&a.launches);
	vec_release(&a.functions);
	groups_release(&a.instructions.places);
	groups_release(&a.instructions.counts);
	return rc;
}

void stalls_release(void *stalls)
{
	struct stalls *s = stalls;
	struct stall_places *const all[] = { &s->whole, &s->kernels, &s->lines, &s->instructions,
					     &s->source };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		free(all[i]->items);
		free(all[i]->counts);
	}
	for (size_t i = 0; i < s->cubins.count; i++)
		cubin_free(s->cubins.data[i].cubin);
	vec_release(&s->cubins);
	arena_release(&s->memory);
	interner_release(&s->texts);
	interner_release(&s->reason_names);
}

bool stalls_cubin_path(const struct trace *t, uint64_t row, struct strbuf *out)
{
	const struct cubin_columns *c = cubin_columns(t);

	return column_has(c->valid.file, row) &&
	       trace_file_path(t, trace_string(t, c->file[row]), out) && !out->failed;
}

static int run(struct report *r, void *result)
{
	return stalls_init(result, &r->selection, 0);
}

const struct analysis analysis_stalls = {
	.size = sizeof(struct stalls),
	.needs = { { TABLE_cubin, 0 }, { TABLE_pc_reading, 0 }, { TABLE_pc_sample, 0 } },
	.run = run,
	.release = stalls_release,
};

static void add_reason(const struct stall_place *p, const struct stall_count *c, struct strbuf *out)
{
	strbuf_adds(out, out->length ? ", " : "");
	human_percent(out, c->samples, p->samples);
	strbuf_addf(out, " %s", c->what.words);
}

void stalls_describe(const struct stall_place *p, size_t max, struct strbuf *out)
{
	const struct stall_count *wait = stalls_first_wait(p);

	if (wait)
		add_reason(p, wait, out);
	max -= wait != NULL;
	for (size_t i = 0; i < p->reason_count && max; i++) {
		const struct stall_count *c = &p->reasons[i];

		if (c == wait || !c->samples || c->samples < p->samples / 100)
			continue;
		add_reason(p, c, out);
		max--;
	}
}

const struct stall_count *stalls_first_wait(const struct stall_place *p)
{
	for (size_t i = 0; i < p->reason_count; i++)
		if (p->reasons[i].what.is_wait && p->reasons[i].samples)
			return &p->reasons[i];
	return NULL;
}
