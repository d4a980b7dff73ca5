/* names_recording.c: names that look like markup or code, are not UTF-8, or are empty. */
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START UINT64_C(1000000000)

static const char *const names[] = {
	"</script><script>window.hacked = 1</script>",
	"<!--<script>",
	"\"quotes\" and 'quotes' \\ `${window.hacked = 1}`",
	"line\xe2\x80\xa8separator\xe2\x80\xa9s, \r\n\t",
	"invalid \xff\xc3( UTF-8 \xed\xa0\x80",
	"<img src=x onerror=\"window.hacked = 1\">",
	"__proto__",
	"",
};

/* Adds a counter of each name, with values 0, 3, 12 and 27, a microsecond apart. */
static void add_counters(struct maker *m)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct row_counter counter = {
			.id = i + 1,
			.name = maker_string(m, names[i]),
			.unit = maker_string(m, names[i]),
			.description = maker_string(m, names[i]),
			.kind = counter_kind_sum,
		};

		writer_append(m->writer, TABLE_counter, &counter);
	}
	for (uint64_t k = 0; k < 4; k++)
		for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
			struct row_counter_sample sample = {
				.time_ns = START + 1000 * k,
				.counter = i + 1,
				.value = (int64_t)(3 * k * k),
			};

			ROW_MISSING(&sample, counter_sample, device);
			ROW_MISSING(&sample, counter_sample, thread);
			writer_append(m->writer, TABLE_counter_sample, &sample);
		}
}

/* Each name is used for a kernel, a range, a scope, a thread, a frame of a stack and a loss. */
void recording_names(const char *folder)
{
	struct maker *m = maker_begin(folder, 10, START,
				      "</title></script><script>window.hacked = 1</script> & \xff");
	uint64_t at = START;

	maker_device(m, 3, START); /* the only GPU of the recording, so its number there is 0 */
	add_counters(m);
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++, at += 10000) {
		uint32_t config = maker_config(m, names[i], i + 1, 128);

		maker_thread(m, 10 + i, names[i], START);
		m->stack = maker_stack(m, maker_python(m, 0, names[i], names[i], 1), 1,
				       stack_end_complete);
		maker_scope(m, nvtx_kind_push, 10 + i, names[i], 0, at);
		maker_nvtx(m, nvtx_kind_push, 10 + i, names[i], at + 10);
		maker_call(m, MAKER_LAUNCH, 10 + i, at + 100, at + 600, i + 1);
		maker_kernel(m, config, 7, at + 700, at + 900 + 10 * i, i + 1);
		maker_nvtx(m, nvtx_kind_pop, 10 + i, NULL, at + 2000);
		maker_scope(m, nvtx_kind_pop, 10 + i, NULL, 0, at + 2010);
		maker_loss(m, loss_reason_ring_full, i + 1, at, at + 100, names[i]);
	}
	writer_append(m->writer, TABLE_allocation,
		      &(struct row_allocation){ .time_ns = at, .device = 3, .bytes = 4096 });
	maker_close(m, at);
}
