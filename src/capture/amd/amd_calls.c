#include "capture/amd/amd_calls.h"

#include <string.h>

#include "base/clock.h"
#include "capture/amd/amd_sdk.h"
#include "capture/nvtx/nvtx_calls.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/stack/stack_capture.h"
#include "format/rows.h"
#include "schema/event_words.h"

#define OPERATIONS_MAX 1024u /* HIP had 517 in version 1.2.1, and new ones are appended */
#define API_HIP 4u

/* A union of 24 bytes at the end of a HIP call's payload; of 8 at that of a marker's. */
#define HIP_RESULT_FROM_END 24u
#define MARKER_RESULT_FROM_END 8u
#define MARKER_ID_FROM_END 24u /* roctxRangeStop's argument */

/* As struct amd_origin can hold. */
#define STREAMS_MAX (1u << 20)
#define GRAPHS_MAX (1u << 22)
#define NODES_MAX ((1u << 22) - 1)

/* Of what this thread enqueues. */
static __thread struct amd_origin origin __attribute__((tls_model("initial-exec")));

enum marker { MARKER_NONE, MARKER_MARK, MARKER_PUSH, MARKER_POP, MARKER_START, MARKER_STOP };

static struct {
	const char *names[OPERATIONS_MAX]; /* HIP's, by operation; written before callbacks begin */
	uint8_t kinds[OPERATIONS_MAX], markers[16];
	unsigned watched;
	/* the collector's */
	bool written[OPERATIONS_MAX];
	uint64_t launched;
} self;

static bool wants_hip(int32_t operation, const char *name)
{
	enum api_kind kind = api_kind_of_function(name);

	self.names[operation] = name;
	self.kinds[operation] = (uint8_t)kind;
	return kind == api_kind_launch || kind == api_kind_graph_launch ||
	       kind == api_kind_memcpy || kind == api_kind_memset || kind == api_kind_synchronize ||
	       kind == api_kind_event || kind == api_kind_allocate || kind == api_kind_release;
}

static bool wants_marker(int32_t operation, const char *name)
{
	static const struct {
		const char *name;
		enum marker marker;
	} markers[] = { { "roctxMarkA", MARKER_MARK },
			{ "roctxRangePushA", MARKER_PUSH },
			{ "roctxRangePop", MARKER_POP },
			{ "roctxRangeStartA", MARKER_START },
			{ "roctxRangeStop", MARKER_STOP } };

	for (size_t i = 0; i < ARRAY_SIZE(markers); i++) {
		if (strcmp(name, markers[i].name) == 0) {
			self.markers[operation] = (uint8_t)markers[i].marker;
			return true;
		}
	}
	return false;
}

bool amd_calls_wants(uint32_t kind, int32_t operation, const char *name)
{
	bool wants;

	if (operation < 0)
		return false;
	if (kind == AMD_CALLBACK_HIP_RUNTIME) {
		wants = (uint32_t)operation < OPERATIONS_MAX && wants_hip(operation, name);
		self.watched += wants;
		return wants;
	}
	return (size_t)operation < ARRAY_SIZE(self.markers) && wants_marker(operation, name);
}

/* --- on the program's threads --- */

/* Copies what lies `from_end` bytes before the payload's end, or 0 if that is too short. */
static uint64_t payload_word(const void *payload, size_t from_end, size_t bytes)
{
	uint64_t size, word = 0;

	memcpy(&size, payload, sizeof(size));
	if (size >= sizeof(size) + from_end)
		memcpy(&word, (const char *)payload + size - from_end, bytes);
	return word;
}

/* For RCCL's collectives, which are joined with it. Correlation ids beyond 32 bits are unknown. */
static NOINLINE void note_launch(struct ring *r, const struct amd_callback *record)
{
	uint64_t id = record->correlation.internal;

	if (self.kinds[MIN((uint32_t)record->operation, OPERATIONS_MAX - 1)] != api_kind_launch)
		return;
	r->launch.count++;
	r->launch.correlation = id <= UINT32_MAX ? (uint32_t)id : 0;
	r->launch.kernel = NULL;
}

static void on_call(const struct amd_callback *record, uint64_t *start)
{
	struct ring *r = ring_get();
	struct ring_event event[2] = { { .c = (uint32_t)record->operation,
					 .kind = RING_HIP_CALL } };

	/* After a fork the SDK still calls; ROCm does not work in the child. */
	if (record->phase == AMD_ENTER)
		*start = atomic_load(&amd_records) ? clock_monotonic_ns() : 0;
	if (record->phase != AMD_EXIT || !*start || !r)
		return;
	if (unlikely(atomic_load_explicit(&ring_notes_launches, memory_order_relaxed)))
		note_launch(r, record);
	event[0].a = *start;
	event[0].b = clock_monotonic_ns();
	event[0].d = (uint32_t)payload_word(record->payload, HIP_RESULT_FROM_END, 4);
	event[0].e = stack_capture_call(r);
	event[1].a = record->correlation.internal;
	ring_push(r, event, 2);
	ring_count_call(r, event[0].b);
}

static struct nvtx_attributes message_of(const void *payload)
{
	const struct {
		uint64_t size;
		const char *text;
	} *marker = payload;

	return nvtx_message_only(NVTX_MESSAGE_TEXT,
				 marker->size >= sizeof(*marker) ? marker->text : NULL);
}

/* ROCTx has one domain. A range that is started has ROCTx's own id, known when the call returns. */
static void on_marker(const struct amd_callback *record)
{
	enum marker marker = (size_t)record->operation < ARRAY_SIZE(self.markers)
				     ? self.markers[record->operation]
				     : MARKER_NONE;
	bool enters = record->phase == AMD_ENTER;

	if (marker == MARKER_MARK && enters)
		nvtx_mark(0, message_of(record->payload));
	else if (marker == MARKER_PUSH && enters)
		nvtx_push(0, message_of(record->payload));
	else if (marker == MARKER_POP && enters)
		nvtx_pop(0);
	else if (marker == MARKER_START && record->phase == AMD_EXIT)
		nvtx_start_as(0,
			      NVTX_FOREIGN_RANGE |
				      payload_word(record->payload, MARKER_RESULT_FROM_END, 8),
			      message_of(record->payload));
	else if (marker == MARKER_STOP && enters)
		nvtx_end(0,
			 NVTX_FOREIGN_RANGE | payload_word(record->payload, MARKER_ID_FROM_END, 8));
}

void amd_calls_on_callback(struct amd_callback record, uint64_t *user, void *data)
{
	(void)data;
	if (record.kind == AMD_CALLBACK_HIP_RUNTIME)
		on_call(&record, user);
	else
		on_marker(&record);
}

void amd_calls_on_origin(struct amd_callback record, uint64_t *user, void *data)
{
	const struct amd_handle *handle = record.payload;
	bool is_graph = record.kind == AMD_CALLBACK_HIP_GRAPH;
	struct amd_origin before;

	(void)data;
	if (record.operation != (is_graph ? AMD_GRAPH_LAUNCH : AMD_STREAM_SET) ||
	    handle->size < offsetof(struct amd_handle, value))
		return;
	if (record.phase == AMD_ENTER) {
		memcpy(user, &origin, sizeof(*user));
		if (is_graph) {
			origin.graph = handle->id < GRAPHS_MAX ? handle->id : 0;
			origin.node = 0;
		} else {
			origin.stream = handle->id < STREAMS_MAX - 1 ? handle->id + 1 : 0;
		}
	} else if (record.phase == AMD_EXIT) {
		memcpy(&before, user, sizeof(before));
		if (is_graph) {
			origin.graph = before.graph;
			origin.node = before.node;
		} else {
			origin.stream = before.stream;
		}
	}
}

int amd_calls_on_request(uint64_t thread, uint64_t context, uint32_t kind, int32_t operation,
			 uint64_t correlation, uint64_t *external, void *data)
{
	(void)thread;
	(void)context;
	(void)kind;
	(void)operation;
	(void)correlation;
	(void)data;
	if (origin.graph && origin.node < NODES_MAX)
		origin.node++;
	memcpy(external, &origin, sizeof(*external));
	return 0;
}

/* --- the collector's thread --- */

static void write_function(struct writer *w, uint32_t operation)
{
	struct row_api_function row = { .id = API_HIP << 16 | operation,
					.name = rows_text(w, self.names[operation]),
					.kind = self.kinds[operation] };

	ROW_MISSING(&row, api_function, waits_for);
	writer_api_function(w, row.id, &row);
	self.written[operation] = true;
}

uint64_t amd_calls_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	uint32_t operation = MIN(event->c, OPERATIONS_MAX - 1);
	enum api_kind kind = self.kinds[operation];
	struct row_api_call row = {
		.missing = schema_missing(TABLE_api_call),
		.start_ns = event->a,
		.end_ns = event->b,
		.function = API_HIP << 16 | operation,
		.thread = r->tid,
		.correlation = ring_slot(r, position + 1)->a,
	};

	if (!self.written[operation])
		write_function(w, operation);
	self.launched += !event->d && (kind == api_kind_launch || kind == api_kind_memcpy);
	ROW_SET_IF(&row, api_call, result, (int32_t)event->d);
	ROW_SET_IF(&row, api_call, stack, event->e);
	writer_append(w, TABLE_api_call, &row);
	return 2;
}

unsigned amd_calls_watched(void)
{
	return self.watched;
}

void amd_calls_begin(void)
{
	memset(self.written, 0, sizeof(self.written));
	self.launched = 0;
}

uint64_t amd_calls_launched(void)
{
	return self.launched;
}
