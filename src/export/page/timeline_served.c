#include "export/page/timeline_served.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/search.h"
#include "export/page/timeline.h"

#define RELATED_MAX 4096u /* slices of a call */
enum part_column { PART_MORE = ROW_COLUMNS, PART_BUSY, PART_COLUMNS };

struct timeline_served {
	struct export_options options;
	struct export_result result;
	struct timeline t;
	struct strbuf page;
};

/* A slice, or several that are merged. */
struct run {
	uint64_t start_ns, end_ns, busy_ns, longest_ns, correlation;
	uint64_t number; /* of the first one in its row */
	uint32_t class, count;
};

struct class_sum {
	uint64_t count, ns;
};

/* What a part is made of while it is. */
struct part {
	const struct timeline *t;
	uint64_t from_ns, until_ns, pixel_ns;
	struct strbuf bytes, columns[PART_COLUMNS]; /* of the row */
	uint64_t count, end_ns, correlation; /* of the row's last slice */
	struct run run; /* count 0: none */
	uint64_t *used; /* bits: classes */
	/* Of each slice of the part: its number in its row << 1, and whether it is merged. */
	VEC(uint64_t) numbers;
	VEC(size_t) firsts; /* by row of the part: its first item of numbers */
	size_t *track_rows; /* by track: the part's rows before it */
	struct class_sum *sums; /* by class */
	bool is_merged, failed;
};

/* --- slices of a row --- */

static void add_number(struct strbuf *column, uint64_t v)
{
	if (strbuf_reserve(column, VARINT_MAX))
		column->length += varint_put((uint8_t *)column->data + column->length, v);
}

static void flush(struct part *p)
{
	struct run *r = &p->run;
	uint64_t correlation = r->count == 1 ? r->correlation : 0;

	if (!r->count)
		return;
	add_number(&p->columns[COLUMN_GAP], r->start_ns - p->end_ns);
	add_number(&p->columns[COLUMN_DURATION], r->end_ns - r->start_ns);
	add_number(&p->columns[COLUMN_CLASS], r->class);
	add_number(&p->columns[COLUMN_CORRELATION],
		   correlation ? 1 + zigzag((int64_t)(correlation - p->correlation)) : 0);
	add_number(&p->columns[PART_MORE], r->count - 1);
	if (r->count > 1)
		add_number(&p->columns[PART_BUSY], r->busy_ns);
	p->correlation = correlation ? correlation : p->correlation;
	p->end_ns = r->end_ns;
	p->used[r->class / 64] |= UINT64_C(1) << r->class % 64;
	p->is_merged |= r->count > 1;
	p->failed |= vec_push(&p->numbers, r->number << 1 | (r->count > 1)) < 0;
	p->count++;
	r->count = 0;
}

/* What is at least a pixel wide stays as it is; the rest is merged if it begins in one pixel. */
static void add_run(struct part *p, const struct run *next)
{
	struct run *r = &p->run;
	bool is_wide = next->end_ns - next->start_ns >= p->pixel_ns;

	if (r->count && (is_wide || next->start_ns / p->pixel_ns != r->start_ns / p->pixel_ns))
		flush(p);
	if (r->count) {
		r->end_ns = next->end_ns;
		r->busy_ns += next->busy_ns;
		r->count += next->count;
		if (next->longest_ns > r->longest_ns) {
			r->longest_ns = next->longest_ns;
			r->class = next->class;
		}
	} else {
		*r = *next;
	}
	if (is_wide)
		flush(p);
}

/* Decodes a block. `visit` returns whether it wants more. */
static void decode_block(const struct timeline_row *row, const struct timeline_block *b,
			 bool (*visit)(struct part *p, const struct run *slice), struct part *p)
{
	struct cursor c[ROW_COLUMNS];
	uint64_t now_ns = b->before_ns, correlation = b->before_correlation;
	uint64_t first = (uint64_t)(b - row->blocks.data) * BLOCK_SLICES;

	for (size_t i = 0; i < ROW_COLUMNS; i++)
		c[i] = cursor_of(row->columns[i].data + b->at[i],
				 row->columns[i].length - b->at[i]);
	for (uint32_t i = 0; i < b->count; i++) {
		struct run slice = { .start_ns = now_ns + cursor_varint(&c[COLUMN_GAP]),
				     .busy_ns = cursor_varint(&c[COLUMN_DURATION]),
				     .class = (uint32_t)cursor_varint(&c[COLUMN_CLASS]),
				     .number = first + i,
				     .count = 1 };
		uint64_t packed = cursor_varint(&c[COLUMN_CORRELATION]);

		slice.longest_ns = slice.busy_ns;
		slice.end_ns = now_ns = slice.start_ns + slice.busy_ns;
		if (packed)
			slice.correlation = correlation += (uint64_t)unzigzag(packed - 1);
		if (!visit(p, &slice))
			return;
	}
}

static bool add_if_shown(struct part *p, const struct run *slice)
{
	if (slice->end_ns >= p->from_ns && slice->start_ns < p->until_ns)
		add_run(p, slice);
	return slice->start_ns < p->until_ns;
}

static size_t first_block(const struct timeline_row *row, uint64_t from_ns)
{
	return sorted_prefix(row->blocks.count, i, row->blocks.data[i].end_ns < from_ns);
}

static void add_slices(struct part *p, const struct timeline_row *row)
{
	for (size_t i = first_block(row, p->from_ns); i < row->blocks.count; i++) {
		const struct timeline_block *b = &row->blocks.data[i];

		if (b->start_ns >= p->until_ns)
			break;
		if (b->count > 1 && b->end_ns - b->start_ns < p->pixel_ns)
			add_run(p, &(struct run){ .start_ns = b->start_ns,
						  .end_ns = b->end_ns,
						  .busy_ns = b->busy_ns,
						  .longest_ns = b->longest_ns,
						  .number = i * BLOCK_SLICES,
						  .class = b->class,
						  .count = b->count });
		else
			decode_block(row, b, add_if_shown, p);
	}
	flush(p);
}

/* --- samples of a counter --- */

struct sample {
	uint64_t time_ns;
	double value;
};

static void add_sample(struct part *p, const struct sample *s)
{
	add_number(&p->columns[COLUMN_GAP], s->time_ns - p->end_ns);
	strbuf_add(&p->columns[COLUMN_DURATION], &s->value, sizeof(s->value));
	p->end_ns = s->time_ns;
	p->count++;
}

/* The least and the most of a pixel, in their order. */
static void add_both(struct part *p, const struct sample *least, const struct sample *most)
{
	bool is_rising = least->time_ns < most->time_ns;

	add_sample(p, is_rising ? least : most);
	if (least->time_ns != most->time_ns)
		add_sample(p, is_rising ? most : least);
}

/* From the sample before the window to the one behind it, so that its ends have a value. */
static void add_samples(struct part *p, const struct timeline_row *row)
{
	size_t block = first_block(row, p->from_ns);
	const struct timeline_block *b = row->blocks.data + (block ? block - 1 : 0);
	const struct strbuf *columns = row->columns;
	struct cursor gaps = cursor_of(columns[COLUMN_GAP].data + b->at[COLUMN_GAP],
				       columns[COLUMN_GAP].length - b->at[COLUMN_GAP]);
	const char *values = columns[COLUMN_DURATION].data + b->at[COLUMN_DURATION];
	struct sample s = { .time_ns = b->before_ns }, least = { 0 }, most = { 0 };
	bool has_any = false;

	for (; gaps.p < gaps.end && s.time_ns < p->until_ns; values += sizeof(s.value)) {
		bool is_before = has_any && most.time_ns < p->from_ns, is_next;

		s.time_ns += cursor_varint(&gaps);
		memcpy(&s.value, values, sizeof(s.value));
		is_next = has_any && s.time_ns / p->pixel_ns != least.time_ns / p->pixel_ns;
		if (has_any && (is_before ? s.time_ns >= p->from_ns : is_next))
			add_both(p, &least, &most);
		if (!has_any || is_before || is_next)
			least = most = s;
		else if (s.value < least.value)
			least = s;
		else if (s.value > most.value)
			most = s;
		has_any = true;
	}
	if (has_any)
		add_both(p, &least, &most);
}

/* --- parts --- */

static void end_row(struct part *p, size_t columns, struct json *j)
{
	json_array(j);
	json_u64(j, p->count);
	for (size_t c = 0; c < columns; c++) {
		json_u64(j, p->columns[c].length);
		strbuf_add(&p->bytes, strbuf_text(&p->columns[c]), p->columns[c].length);
		p->failed |= p->columns[c].failed;
		strbuf_clear(&p->columns[c]);
	}
	json_end(j);
	p->count = p->correlation = 0;
	p->end_ns = p->t->base_ns;
}

typedef void add_row(struct part *p, const struct timeline_row *row);

static void add_rows(struct part *p, add_row *add_slices_of, add_row *add_samples_of,
		     struct json *j)
{
	const struct timeline *t = p->t;

	json_key_array(j, "rows");
	for (size_t i = 0; i < t->tracks.items.count; i++) {
		const struct timeline_track *track =
			(const struct timeline_track *)t->tracks.items.data[i];
		bool is_counter = track->kind >= TIMELINE_LEVEL;

		p->track_rows[i] = p->firsts.count;
		for (size_t r = 0; r < track->rows.count; r++) {
			p->failed |= vec_push(&p->firsts, p->numbers.count) < 0;
			if (is_counter && add_samples_of)
				add_samples_of(p, &track->rows.data[r]);
			else if (!is_counter)
				add_slices_of(p, &track->rows.data[r]);
			end_row(p, is_counter ? COLUMN_CLASS : PART_COLUMNS, j);
		}
	}
	json_end(j);
}

/* A class that only adds details to another one has its number: "[1, 17, {". 0: it has none. */
static uint64_t class_below(const char *text)
{
	const char *comma = strchr(text, ',');
	uint64_t class = 0;

	for (comma += 1 + strspn(comma + 1, " "); *comma >= '0' && *comma <= '9'; comma++)
		class = 10 * class + (uint64_t)(*comma - '0');
	return class;
}

static void add_classes(struct part *p, struct strbuf *out)
{
	const struct interner *classes = &p->t->classes;
	const char *separator = "";

	strbuf_adds(out, ", \"classes\": {");
	for (size_t c = classes->count;
	     c-- > 0;) { /* a class is behind the one that it refers to */
		uint64_t below;

		if (!(p->used[c / 64] >> c % 64 & 1))
			continue;
		below = class_below(classes->items[c].text);
		p->used[below / 64] |= UINT64_C(1) << below % 64;
		strbuf_addf(out, "%s\"%zu\": ", separator, c);
		strbuf_add(out, classes->items[c].text, classes->items[c].length);
		separator = ", ";
	}
	strbuf_addc(out, '}');
}

static uint64_t place_of(void *user, const struct timeline_member *m)
{
	const struct part *p = user;
	size_t row = p->track_rows[m->track] + m->row - 1;
	size_t first = p->firsts.data[row];
	size_t end = row + 1 < p->firsts.count ? p->firsts.data[row + 1] : p->numbers.count;
	size_t at =
		first + sorted_prefix(end - first, i, p->numbers.data[first + i] < m->slice << 1);

	return at < end && p->numbers.data[at] == m->slice << 1 ? at - first : UINT64_MAX;
}

static int add_part(struct part *p, add_row *add_slices_of, add_row *add_samples_of,
		    struct strbuf *out)
{
	const struct timeline *t = p->t;
	struct json j = JSON_INIT(out);

	p->end_ns = t->base_ns;
	p->used = calloc(t->classes.count / 64 + 1, sizeof(*p->used));
	p->track_rows = calloc(t->tracks.items.count + 1, sizeof(*p->track_rows));
	if (p->used && p->track_rows) {
		json_object(&j);
		json_key_u64(&j, "from", p->from_ns - t->base_ns);
		json_key_u64(&j, "until", p->until_ns - t->base_ns);
		add_rows(p, add_slices_of, add_samples_of, &j);
		json_key_bool(&j, "merged", p->is_merged);
		p->failed |= p->firsts.count && !p->firsts.data;
		if (!p->failed)
			timeline_add_collectives(t, place_of, p, &j);
		add_classes(p, out);
		strbuf_adds(out, "}\n");
		strbuf_add(out, strbuf_text(&p->bytes), p->bytes.length);
	}
	p->failed |= !p->used || !p->track_rows || p->bytes.failed || out->failed;
	for (size_t c = 0; c < PART_COLUMNS; c++)
		strbuf_release(&p->columns[c]);
	strbuf_release(&p->bytes);
	vec_release(&p->numbers);
	vec_release(&p->firsts);
	free(p->track_rows);
	free(p->used);
	return p->failed ? -ENOMEM : 0;
}

/* Sets the window, from times since the begin of the page. */
static void set_window(struct part *p, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t base_ns = p->t->base_ns, most_ns = UINT64_MAX - base_ns;

	p->from_ns = base_ns + MIN(from_ns, most_ns - 1);
	p->until_ns = base_ns + MAX(MIN(until_ns, most_ns), MIN(from_ns, most_ns - 1) + 1);
}

int timeline_served_window(struct timeline_served *s, uint64_t from_ns, uint64_t until_ns,
			   uint32_t pixels, struct strbuf *out)
{
	struct part p = { .t = &s->t };

	set_window(&p, from_ns, until_ns);
	p.pixel_ns = MAX((p.until_ns - p.from_ns) / MAX(pixels, 1u), 1u);
	return add_part(&p, add_slices, add_samples, out);
}

static bool add_if_related(struct part *p, const struct run *slice)
{
	if (slice->correlation == p->run.correlation && p->numbers.count < RELATED_MAX) {
		p->run = *slice;
		flush(p);
	}
	return true;
}

static void add_related(struct part *p, const struct timeline_row *row)
{
	uint64_t correlation = p->run.correlation;

	for (size_t i = 0; i < row->blocks.count; i++)
		if (row->blocks.data[i].least_correlation <= correlation &&
		    row->blocks.data[i].most_correlation >= correlation)
			decode_block(row, &row->blocks.data[i], add_if_related, p);
}

int timeline_served_related(struct timeline_served *s, uint64_t correlation, struct strbuf *out)
{
	struct part p = { .t = &s->t,
			  .from_ns = s->t.base_ns,
			  .until_ns = s->t.base_ns,
			  .run.correlation = correlation };

	return add_part(&p, add_related, NULL, out);
}

/* --- sums --- */

static bool add_to_sum(struct part *p, const struct run *slice)
{
	struct class_sum *sum = &p->sums[slice->class];
	uint64_t from_ns = MAX(slice->start_ns, p->from_ns);
	uint64_t until_ns = MIN(slice->end_ns, p->until_ns);

	if (slice->end_ns >= p->from_ns && slice->start_ns < p->until_ns) {
		sum->count++;
		sum->ns += until_ns - from_ns;
	}
	return slice->start_ns < p->until_ns;
}

static void sum_row(struct part *p, const struct timeline_row *row)
{
	for (size_t i = first_block(row, p->from_ns); i < row->blocks.count; i++) {
		if (row->blocks.data[i].start_ns >= p->until_ns)
			break;
		decode_block(row, &row->blocks.data[i], add_to_sum, p);
	}
}

static void add_sums(struct part *p, struct strbuf *out)
{
	const char *separator = "";

	strbuf_adds(out, "{\"sums\": {");
	for (size_t c = 0; c < p->t->classes.count; c++) {
		if (!p->sums[c].count)
			continue;
		strbuf_addf(out, "%s\"%zu\": [%llu, %llu]", separator, c,
			    (unsigned long long)p->sums[c].count,
			    (unsigned long long)p->sums[c].ns);
		p->used[c / 64] |= UINT64_C(1) << c % 64;
		separator = ", ";
	}
	strbuf_addc(out, '}');
	add_classes(p, out);
	strbuf_adds(out, "}\n");
}

int timeline_served_sums(struct timeline_served *s, uint64_t from_ns, uint64_t until_ns,
			 struct strbuf *out)
{
	const struct timeline *t = &s->t;
	struct part p = { .t = t,
			  .used = calloc(t->classes.count / 64 + 1, sizeof(*p.used)),
			  .sums = calloc(t->classes.count + 1, sizeof(*p.sums)) };

	set_window(&p, from_ns, until_ns);
	for (size_t i = 0; i < t->tracks.items.count && p.used && p.sums; i++) {
		const struct timeline_track *track =
			(const struct timeline_track *)t->tracks.items.data[i];

		for (size_t r = 0; r < track->rows.count && track->kind < TIMELINE_LEVEL; r++)
			sum_row(&p, &track->rows.data[r]);
	}
	p.failed = !p.used || !p.sums;
	if (!p.failed)
		add_sums(&p, out);
	free(p.used);
	free(p.sums);
	return p.failed || out->failed ? -ENOMEM : 0;
}

/* --- the whole --- */

/* Frees what only made the rows and the page. */
static void release_rest(struct timeline *t)
{
	export_merge_release(&t->merge);
	export_stacks_release(&t->stacks);
	export_view_release(&t->view);
	t->view = (struct export_view){ 0 };
	t->stacks = (struct export_stacks){ 0 };
	map_release(&t->kernels);
	map_release(&t->calls);
	map_release(&t->row_nodes);
	vec_release(&t->node_list);
}

int timeline_served_new(struct trace *trace, struct timeline_served **out, struct error *e)
{
	struct timeline_served *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->options = (struct export_options)EXPORT_ALL;
	s->t.is_served = true;
	s->t.instance = clock_read_ns(CLOCK_REALTIME) / 1000; /* exact as a number of JavaScript */
	rc = timeline_init(&s->t, trace, &s->options, &s->result, e);
	if (rc >= 0 && timeline_render(&s->t) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	if (rc < 0) {
		timeline_served_free(s);
		return rc;
	}
	s->page = s->t.out;
	s->t.out = (struct strbuf)STRBUF_INIT;
	release_rest(&s->t);
	*out = s;
	return 0;
}

void timeline_served_free(struct timeline_served *s)
{
	if (!s)
		return;
	timeline_release(&s->t);
	strbuf_release(&s->page);
	free(s);
}

const struct strbuf *timeline_served_page(const struct timeline_served *s)
{
	return &s->page;
}

uint64_t timeline_served_instance(const struct timeline_served *s)
{
	return s->t.instance;
}
