#include "perfetto/perfetto_counter_packets.h"

#include <errno.h>

/* Returns the MeasureUnit of a unit's name; 0 if Perfetto has none. */
static int measure_unit(const char *unit)
{
	static const struct {
		const char *name;
		int unit;
	} units[] = {
		{ "bytes", 7 },        { "KiB", 8 },         { "Hz", 13 },     { "kHz", 14 },
		{ "MHz", 15 },         { "ns", 19 },         { "us", 20 },     { "ms", 21 },
		{ "s", 22 },           { "mW", 28 },         { "W", 29 },      { "J", 31 },
		{ "V", 32 },           { "A", 33 },          { "C", 34 },      { "%", 37 },
		{ "byte", 7 },         { "nanosecond", 19 }, { "second", 22 }, { "percent", 37 },
		{ "instruction", 40 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(unit, units[i].name))
			return units[i].unit;
	return 0;
}

/* Writes the numerator and the denominator of a unit, if Perfetto has both. */
static void write_units(struct strbuf *s, const char *unit)
{
	const char *slash = strchr(unit, '/');
	char above[64] = "";
	int numerator, denominator;

	memcpy(above, unit, MIN(slash ? (size_t)(slash - unit) : strlen(unit), sizeof(above) - 1));
	numerator = measure_unit(above);
	denominator = slash ? measure_unit(slash + 1) : 0;
	if (!numerator || (slash && !denominator))
		return;
	proto_uint(s, 7, (uint64_t)numerator);
	if (denominator)
		proto_uint(s, 8, (uint64_t)denominator);
}

/*
 * Writes the largest value that a GPU can reach, in the counter's unit: a column of its device
 * times a factor. Memory transfers twice per clock.
 */
static void write_peak(struct strbuf *s, const struct perfetto_counter *counter)
{
	static const struct {
		const char *counter;
		int8_t column, with; /* with: a second factor, or -1 */
		double factor;
	} peaks[] = {
		{ "gpu_sm_clock", COLUMN_device_clock_khz, -1, 1e-3 },
		{ "gpu_memory_clock", COLUMN_device_memory_clock_khz, -1, 1e-3 },
		{ "gpu_memory_used", COLUMN_device_memory_bytes, -1, 1 },
		{ "sm__cycles_elapsed.avg.per_second", COLUMN_device_clock_khz, -1, 1e3 },
		{ "gpc__cycles_elapsed.avg.per_second", COLUMN_device_clock_khz, -1, 1e3 },
		{ "dram__cycles_elapsed.avg.per_second", COLUMN_device_memory_clock_khz, -1, 1e3 },
		{ "dram__bytes.sum.per_second", COLUMN_device_memory_clock_khz,
		  COLUMN_device_memory_bus_bits, 2e3 / 8 },
	};
	const struct table_schema *table = schema_table(TABLE_device);
	const struct row_device *d = counter->device;
	double peak;

	for (size_t i = 0; d && i < ARRAY_SIZE(peaks); i++) {
		if (strcmp(counter->name, peaks[i].counter) != 0)
			continue;
		peak = peaks[i].factor * (double)row_value(table, d, peaks[i].column);
		if (peaks[i].with >= 0)
			peak *= (double)row_value(table, d, peaks[i].with);
		if (peak > 0 && strstr(counter->name, "__"))
			proto_double(s, 6, peak);
		else if (peak > 0)
			proto_int(s, 5, (int64_t)peak);
	}
}

void perfetto_counter_specify(struct strbuf *s, const struct perfetto_counter *counter,
			      enum perfetto_counter_group group)
{
	size_t token = proto_open(s, 1);

	proto_uint(s, 1, counter->number);
	proto_text(s, 2, counter->name, strlen(counter->name));
	proto_text(s, 3, counter->description, strlen(counter->description));
	write_peak(s, counter);
	write_units(s, counter->unit);
	if (counter->is_default)
		proto_uint(s, 9, true);
	proto_uint(s, 10, (uint64_t)group);
	proto_close(s, token);
}

void perfetto_readings_restart(struct perfetto_readings *r, uint32_t sequence)
{
	r->sequence = (struct perfetto_sequence){ .id = sequence };
	map_clear(&r->gpus);
}

void perfetto_readings_release(struct perfetto_readings *r)
{
	map_release(&r->index);
	map_release(&r->gpus);
	vec_release(&r->items);
}

static uint64_t descriptor_iid(const struct perfetto_readings *r, uint32_t gpu)
{
	return ((uint64_t)r->generation << 16) + gpu + 1;
}

typedef void specifier(void *user, uint32_t gpu, struct strbuf *s);

/* Defines a GPU's counter descriptor. */
static void define(struct strbuf *s, uint64_t iid, uint32_t gpu, specifier *specify, void *user)
{
	size_t interned = proto_open(s, PACKET_INTERNED_DATA), entry = proto_open(s, 47),
	       descriptor;

	proto_uint(s, 1, iid);
	descriptor = proto_open(s, 2);
	specify(user, gpu, s);
	proto_close(s, descriptor);
	proto_uint(s, 3, gpu);
	proto_close(s, entry);
	proto_close(s, interned);
}

static void write_value(struct strbuf *s, uint32_t integer_field, uint32_t double_field,
			const struct perfetto_value *value)
{
	if (value->is_real)
		proto_double(s, double_field, value->real);
	else
		proto_int(s, integer_field, value->integer);
}

static int write_reading(struct perfetto_readings *r, struct strbuf *s,
			 const struct perfetto_reading *reading, uint64_t time_ns)
{
	size_t packet, event, counter, defaults;
	int is_new = map_add(&r->gpus, descriptor_iid(r, reading->gpu));

	if (is_new < 0)
		return is_new;
	packet = perfetto_sequence_open(s, &r->sequence, time_ns, &defaults);
	if (defaults)
		proto_close(s, defaults);
	if (is_new)
		define(s, descriptor_iid(r, reading->gpu), reading->gpu, r->specify, r->user);
	event = proto_open(s, PACKET_GPU_COUNTER_EVENT);
	proto_uint(s, 4, descriptor_iid(r, reading->gpu));
	counter = proto_open(s, 2);
	proto_uint(s, 1, reading->counter);
	write_value(s, 2, 3, &reading->value);
	proto_close(s, counter);
	proto_close(s, event);
	proto_close(s, packet);
	return 0;
}

int perfetto_readings_add(struct perfetto_readings *r, struct strbuf *s,
			  const struct perfetto_reading *now, uint64_t time_ns)
{
	uint64_t *position = map_at(&r->index, (uint64_t)now->gpu << 32 | now->counter, UINT64_MAX);
	struct perfetto_reading anchor = *now;
	int result;

	if (!position)
		return -ENOMEM;
	if (*position == UINT64_MAX) {
		anchor.value = (struct perfetto_value){ .is_real = now->value.is_real };
		if (vec_push(&r->items, *now) < 0)
			return -ENOMEM;
		*position = r->items.count - 1;
		return write_reading(r, s, &anchor, time_ns);
	}
	result = write_reading(r, s, &r->items.data[*position], time_ns);
	r->items.data[*position] = *now;
	return result;
}

void perfetto_gpu_reading(struct perfetto_readings *r, struct strbuf *s, const char *counter,
			  const struct perfetto_reading *now, uint64_t time_ns)
{
	struct perfetto_packet head = { time_ns, PERFETTO_MONOTONIC, r->sequence.id, 0 };
	bool is_memory = !strcmp(counter, "gpu_memory_used");
	size_t packet, event;

	if (now->value.is_real || now->value.integer < 0 ||
	    (!is_memory && strcmp(counter, "gpu_sm_clock") != 0))
		return;
	packet = perfetto_packet_open(s, &head);
	event = proto_open(s, is_memory ? PACKET_GPU_MEMORY : PACKET_GPU_FREQUENCY);
	proto_uint(s, 1, now->gpu);
	if (is_memory) {
		proto_uint(s, 2, 0); /* of all processes */
		proto_uint(s, 3, (uint64_t)now->value.integer);
	} else {
		proto_uint(s, 2, (uint64_t)now->value.integer * 1000); /* MHz to kHz */
	}
	proto_close(s, event);
	proto_close(s, packet);
}

int perfetto_readings_finish(struct perfetto_readings *r, struct strbuf *s, uint64_t time_ns)
{
	int result = 0;

	for (size_t i = 0; i < r->items.count && result >= 0; i++)
		result = write_reading(r, s, &r->items.data[i], time_ns);
	r->items.count = 0;
	map_clear(&r->index);
	return result;
}

/* --- hardware metrics --- */

/* Returns an iid that no descriptor of readings has. */
static uint64_t metrics_iid(const struct perfetto_metrics *m, uint32_t gpu)
{
	return (UINT64_C(1) << 48) + ((uint64_t)m->generation << 16) + gpu + 1;
}

int perfetto_metrics_add(struct perfetto_metrics *m, struct perfetto_sequence *sequence,
			 struct strbuf *s, uint32_t gpu, const uint64_t times_ns[2],
			 const struct perfetto_metric *metrics, size_t count)
{
	int is_new = map_add(&m->gpus, metrics_iid(m, gpu));
	uint64_t *last_ns = is_new < 0 ? NULL : map_at(&m->gpus, metrics_iid(m, gpu), 0);

	if (!last_ns)
		return -ENOMEM;
	/* A kernel that starts when the previous one ends has no sample of its start. */
	for (int end = !is_new && *last_ns == times_ns[0]; end < 2; end++) {
		size_t packet, event, defaults;

		packet = perfetto_sequence_open(s, sequence, times_ns[end], &defaults);
		if (defaults)
			proto_close(s, defaults);
		if (is_new)
			define(s, metrics_iid(m, gpu), gpu, m->specify, m->user);
		is_new = 0;
		event = proto_open(s, PACKET_GPU_COUNTER_EVENT);
		proto_uint(s, 4, metrics_iid(m, gpu));
		for (size_t i = 0; i < count; i++) {
			size_t counter;

			raw_reserve(s, 0);
			counter = proto_open(s, 2);
			proto_uint(s, 1, metrics[i].number);
			proto_double(s, 3, end ? metrics[i].value : 0);
			proto_close(s, counter);
		}
		proto_close(s, event);
		proto_close(s, packet);
	}
	*last_ns = times_ns[1];
	return 0;
}

void perfetto_counter_event(struct strbuf *s, const struct perfetto_packet *head, uint64_t uuid,
			    const struct perfetto_value *value)
{
	size_t packet = perfetto_packet_open(s, head);
	size_t event = proto_open(s, PACKET_TRACK_EVENT);

	proto_uint(s, 9, 4);
	proto_uint(s, 11, uuid);
	write_value(s, 30, 44, value);
	proto_close(s, event);
	proto_close(s, packet);
}
