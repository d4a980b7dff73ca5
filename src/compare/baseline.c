#include "compare/baseline.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"

static const char header[] = BASELINE_HEADER;
#define HEADER_BYTES (sizeof(header) - 1)
#define CRC_BYTES 4u
/* Above the largest sum of BASELINE_VALUES_MAX 64-bit numbers, and sums of it are finite. */
#define VALUE_MAX 1e30

/* --- writing --- */

static void add_number(struct strbuf *out, uint64_t value)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(out, bytes, varint_put(bytes, value));
}

static void add_double(struct strbuf *out, double value)
{
	strbuf_add(out, &value, sizeof(value));
}

static void add_text(struct strbuf *out, const char *text)
{
	add_number(out, strlen(text));
	strbuf_adds(out, text);
}

static bool is_zero(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return !bits;
}

static void add_steps(struct strbuf *out, const double *steps, size_t count)
{
	size_t known = 0, next = 0;

	for (size_t i = 0; i < count; i++)
		known += !is_zero(steps[i]);
	add_number(out, known);
	for (size_t i = 0; i < count; i++) {
		if (is_zero(steps[i]))
			continue;
		add_number(out, i - next);
		add_double(out, steps[i]);
		next = i + 1;
	}
}

static void add_run(struct strbuf *out, const struct measured_run *run)
{
	add_text(out, run->path);
	add_text(out, run->command);
	add_text(out, run->no_steps);
	add_text(out, run->loss);
	for (unsigned i = 0; i < RUN_FACT_COUNT; i++)
		add_text(out, run->facts[i]);
	add_number(out, run->pid);
	add_number(out, run->step_count);
	add_number(out, run->slow_steps);
	add_double(out, run->clock_mhz);
	add_number(out, run->quantities.count);
	for (size_t i = 0; i < run->quantities.count; i++) {
		const struct quantity *q = &run->quantities.data[i];

		strbuf_addc(out, (char)q->kind);
		add_text(out, q->name);
		add_double(out, q->value);
		add_double(out, q->count);
		if (q->steps)
			add_steps(out, q->steps, run->step_count);
	}
	add_number(out, run->order.count);
	for (size_t i = 0; i < run->order.count; i++) {
		add_number(out, run->order.data[i].quantity);
		strbuf_add(out, &run->order.data[i].shape, sizeof(run->order.data[i].shape));
		strbuf_add(out, &run->order.data[i].scope, sizeof(run->order.data[i].scope));
	}
}

int baseline_encode(const struct measured_run *runs, size_t count, struct strbuf *out,
		    struct error *e)
{
	size_t start = out->length + HEADER_BYTES + CRC_BYTES, values = 0;
	uint32_t crc = 0;

	strbuf_add(out, header, HEADER_BYTES);
	strbuf_add(out, &crc, CRC_BYTES);
	add_number(out, count);
	for (size_t i = 0; i < count; i++) {
		add_run(out, &runs[i]);
		values += runs[i].quantities.count * (runs[i].step_count + 1);
		if (values > BASELINE_VALUES_MAX || out->length > BASELINE_BYTES_MAX ||
		    MAX(runs[i].step_count, runs[i].slow_steps) > BASELINE_STEPS_MAX)
			return error_set(e, E_LIMIT,
					 "%zu values of steps are more than a baseline can have: "
					 "save fewer or shorter recordings",
					 values);
	}
	if (out->failed)
		return error_set(e, -ENOMEM, "out of memory");
	crc = crc32c(0, out->data + start, out->length - start);
	memcpy(out->data + start - CRC_BYTES, &crc, CRC_BYTES);
	return 0;
}

/* --- reading --- */

struct decoding {
	struct cursor c;
	size_t values; /* so far, of all runs */
	bool out_of_memory;
};

static double read_double(struct cursor *c)
{
	uint64_t bits = cursor_u64(c);
	double value;

	memcpy(&value, &bits, sizeof(value));
	if (value >= 0 && value <= VALUE_MAX)
		return value;
	c->failed = true;
	return 0;
}

static uint64_t read_number(struct cursor *c, uint64_t most)
{
	uint64_t value = cursor_varint(c);

	if (value <= most)
		return value;
	c->failed = true;
	return 0;
}

static const char *read_text(struct decoding *d, struct arena *memory)
{
	size_t length = read_number(&d->c, cursor_left(&d->c));
	const void *bytes = cursor_bytes(&d->c, length);
	const char *text;

	if (!bytes || memchr(bytes, '\0', length)) {
		d->c.failed = true;
		return "";
	}
	text = arena_strndup(memory, bytes, length);
	d->out_of_memory |= !text;
	return text ? text : "";
}

static void read_steps(struct decoding *d, double *steps, size_t count)
{
	size_t known = read_number(&d->c, count), at = 0;

	for (; known && !d->c.failed; known--) {
		at += read_number(&d->c, count - at);
		if (at == count) {
			d->c.failed = true;
			return;
		}
		steps[at++] = read_double(&d->c);
	}
}

static void read_quantity(struct decoding *d, struct measured_run *run)
{
	enum quantity_kind kind = (enum quantity_kind)cursor_u8(&d->c);
	const char *name = read_text(d, &run->memory);
	size_t before = run->quantities.count;
	struct quantity *q;

	d->values += run->step_count + 1;
	if (kind >= QUANTITY_KINDS || d->values > BASELINE_VALUES_MAX ||
	    (*name && !quantity_types[kind].has_parts))
		d->c.failed = true;
	if (d->c.failed)
		return;
	q = measured_run_at(run, kind, name);
	if (!q) {
		d->out_of_memory = true;
		return;
	}
	d->c.failed = run->quantities.count == before; /* it is there twice */
	q->value = read_double(&d->c);
	q->count = read_double(&d->c);
	if (q->steps)
		read_steps(d, q->steps, run->step_count);
}

static void read_order(struct decoding *d, struct measured_run *run)
{
	uint64_t count = read_number(&d->c, cursor_left(&d->c));

	for (; count && !d->c.failed && !d->out_of_memory; count--) {
		struct kernel_launch launch;

		launch.quantity = (uint32_t)read_number(&d->c, UINT32_MAX);
		launch.shape = cursor_u64(&d->c);
		launch.scope = cursor_u64(&d->c);
		if (launch.quantity >= run->quantities.count ||
		    run->quantities.data[launch.quantity].kind != QUANTITY_kernel)
			d->c.failed = true;
		else if (vec_push(&run->order, launch) < 0)
			d->out_of_memory = true;
	}
}

static void read_run(struct decoding *d, struct measured_run *run)
{
	uint64_t quantities;

	*run = (struct measured_run){ .path = "" };
	run->path = read_text(d, &run->memory);
	run->command = read_text(d, &run->memory);
	run->no_steps = read_text(d, &run->memory);
	run->loss = read_text(d, &run->memory);
	for (unsigned i = 0; i < RUN_FACT_COUNT; i++)
		run->facts[i] = read_text(d, &run->memory);
	run->pid = (uint32_t)read_number(&d->c, UINT32_MAX);
	run->step_count = read_number(&d->c, BASELINE_STEPS_MAX);
	run->slow_steps = read_number(&d->c, BASELINE_STEPS_MAX);
	run->clock_mhz = read_double(&d->c);
	quantities = read_number(&d->c, cursor_left(&d->c));
	for (; quantities && !d->c.failed && !d->out_of_memory; quantities--)
		read_quantity(d, run);
	read_order(d, run);
}

static int check_head(struct cursor *c, struct error *e)
{
	const char *bytes = (const char *)c->p;
	size_t length = cursor_left(c);

	if (length < HEADER_BYTES + CRC_BYTES || memcmp(bytes, header, HEADER_BYTES) != 0) {
		static const char name[] = "pitot baseline ";
		bool named = length >= sizeof(name) && !memcmp(bytes, name, sizeof(name) - 1);

		return named && memcmp(bytes, header, MIN(length, HEADER_BYTES)) != 0
			       ? error_set(e, E_VERSION, "another version of Pitot saved it")
			       : error_set(e, E_FORMAT, "it is damaged");
	}
	cursor_bytes(c, HEADER_BYTES);
	if (cursor_u32(c) != crc32c(0, c->p, cursor_left(c)))
		return error_set(e, E_FORMAT, "it is damaged: its checksum does not match");
	return 0;
}

int baseline_decode(const void *bytes, size_t length, struct measured_run *runs, size_t most,
		    size_t *count, struct error *e)
{
	struct decoding d = { .c = cursor_of(bytes, length) };
	size_t all;
	int rc = check_head(&d.c, e);

	*count = 0;
	if (rc < 0)
		return rc;
	all = read_number(&d.c, UINT32_MAX);
	if (!d.c.failed && all > most)
		return error_set(e, E_LIMIT, "it has %zu runs, and at most %zu can be compared",
				 all, most);
	while (*count < all && !d.c.failed && !d.out_of_memory)
		read_run(&d, &runs[(*count)++]);
	if (d.out_of_memory)
		return error_set(e, -ENOMEM, "out of memory");
	if (d.c.failed || cursor_left(&d.c) || !all)
		return error_set(e, E_FORMAT, "it is damaged");
	return 0;
}
