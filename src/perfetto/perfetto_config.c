#include "perfetto/perfetto_config.h"

#include <string.h>

#include "base/proto_read.h"

/* Fails without copying anything if the text does not fit. A NUL inside the text ends it. */
static bool copy_text(char out[PERFETTO_TEXT_MAX], const struct proto_field *f)
{
	if (f->wire != PROTO_READ_BYTES || f->length >= PERFETTO_TEXT_MAX)
		return false;
	memcpy(out, f->bytes, f->length);
	out[f->length] = '\0';
	return true;
}

static void add_text(struct perfetto_config *c, struct perfetto_texts *texts,
		     const struct proto_field *f)
{
	if (texts->count < PERFETTO_LIST_MAX && copy_text(texts->items[texts->count], f))
		texts->count++;
	else
		c->ignored_items++;
}

static void add_counter_ids(struct perfetto_config *c, const struct proto_field *f)
{
	struct cursor values = proto_numbers(f);

	while (cursor_left(&values)) {
		uint64_t id = cursor_varint(&values);

		if (values.failed)
			break;
		if (c->counter_id_count < PERFETTO_LIST_MAX)
			c->counter_ids[c->counter_id_count++] = (uint32_t)id;
		else
			c->ignored_items++;
	}
}

static bool decode_name_filter(struct perfetto_config *c, struct cursor in)
{
	struct perfetto_name_filter filter = { .glob = "" };
	struct proto_field f;
	bool fits = true;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			fits = copy_text(filter.glob, &f);
		else if (f.number == 2)
			filter.base = (enum perfetto_name_base)MIN(f.value, PERFETTO_FUNCTION_NAME);
	}
	if (fits && c->name_filter_count < PERFETTO_LIST_MAX)
		c->name_filters[c->name_filter_count++] = filter;
	else
		c->ignored_items++;
	return !in.failed;
}

static bool decode_range(struct perfetto_config *c, struct cursor in)
{
	struct perfetto_range range = { .count = UINT32_MAX };
	struct proto_field f;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			range.skip = (uint32_t)f.value;
		else if (f.number == 2)
			range.count = (uint32_t)f.value;
	}
	if (c->range_count < PERFETTO_LIST_MAX)
		c->ranges[c->range_count++] = range;
	else
		c->ignored_items++;
	return !in.failed;
}

static bool decode_instrumented(struct perfetto_config *c, struct cursor in)
{
	struct proto_field f;
	bool valid = true;

	c->instrumented = true;
	while (valid && proto_next(&in, &f)) {
		if (f.number == 3)
			valid = decode_name_filter(c, proto_message(&f));
		else if (f.number == 5)
			valid = decode_range(c, proto_message(&f));
		else if (f.number == 6)
			add_text(c, &c->nvtx_include, &f);
		else if (f.number == 7)
			add_text(c, &c->nvtx_exclude, &f);
	}
	return valid && !in.failed;
}

static bool decode_counters(struct perfetto_config *c, struct cursor in)
{
	struct proto_field f;
	bool valid = true;

	while (valid && proto_next(&in, &f)) {
		if (f.number == 1)
			c->counter_period_ns = f.value;
		else if (f.number == 2)
			add_counter_ids(c, &f);
		else if (f.number == 3)
			c->instrumented = f.value;
		else if (f.number == 5)
			valid = decode_instrumented(c, proto_message(&f));
		else if (f.number == 6)
			add_text(c, &c->counter_names, &f);
	}
	return valid && !in.failed;
}

static bool decode_samples(struct perfetto_config *c, struct cursor in)
{
	struct cursor timebase;
	struct proto_field f;

	while (proto_next(&in, &f)) {
		if (f.number == 2)
			c->samples_per_s = (uint32_t)MIN(f.value, UINT32_MAX);
		if (f.number != 15)
			continue;
		timebase = proto_message(&f);
		while (proto_next(&timebase, &f))
			if (f.number == 2)
				c->samples_per_s = (uint32_t)MIN(f.value, UINT32_MAX);
		if (timebase.failed)
			return false;
	}
	return !in.failed;
}

static bool decode_track_events(struct perfetto_config *c, struct cursor in)
{
	struct proto_field f;

	while (proto_next(&in, &f)) {
		if (f.number == 1)
			add_text(c, &c->disabled_categories, &f);
		else if (f.number == 2)
			add_text(c, &c->enabled_categories, &f);
	}
	return !in.failed;
}

bool perfetto_config_decode(struct perfetto_config *config, const void *bytes, size_t length)
{
	struct cursor in = cursor_of(bytes, length);
	struct proto_field f;
	bool valid = true;

	memset(config, 0, sizeof(*config));
	while (valid && proto_next(&in, &f)) {
		if (f.number == 1)
			config->ignored_items += !copy_text(config->source, &f);
		else if (f.number == 2)
			config->target_buffer = (uint32_t)f.value;
		else if (f.number == 108)
			valid = decode_counters(config, proto_message(&f));
		else if (f.number == 111)
			valid = decode_samples(config, proto_message(&f));
		else if (f.number == 113)
			valid = decode_track_events(config, proto_message(&f));
	}
	return valid && !in.failed;
}
