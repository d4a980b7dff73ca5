#include "capture/cuda/call_handles.h"

#include <string.h>

#include "base/bytes.h"
#include "base/starts_with.h"

struct call_handles call_handles_of(const char *name)
{
	static const struct {
		const char *prefix;
		struct call_handles handles;
	} rules[] = {
#define RULE(name, ...)                                                                            \
	{                                                                                          \
		name,                                                                              \
		{                                                                                  \
			.has_any = true, __VA_ARGS__                                               \
		}                                                                                  \
	}
#define WAITS(what) .waits_for = synchronization_kind_##what
		RULE("EventRecord", .has_event = true, .has_stream = true, .event_first = true),
		RULE("EventSynchronize", .has_event = true, .event_first = true, WAITS(event)),
		RULE("EventQuery", .has_event = true, .event_first = true, WAITS(event)),
		RULE("StreamQuery", .has_stream = true, WAITS(stream)),
		RULE("StreamWaitEvent", .has_stream = true, .has_event = true,
		     WAITS(stream_wait_event)),
		RULE("StreamSynchronize", .has_stream = true, WAITS(stream)),
		RULE("StreamBeginCapture", .has_stream = true),
		RULE("StreamEndCapture", .has_stream = true),
		RULE("StreamAddCallback", .has_stream = true),
		RULE("LaunchHostFunc", .has_stream = true),
		RULE("StreamWaitValue", .has_stream = true),
		RULE("StreamWriteValue", .has_stream = true),
		RULE("StreamBatchMemOp", .has_stream = true),
		RULE("CtxSynchronize", WAITS(context)),
		RULE("DeviceSynchronize", WAITS(context)),
		RULE("ThreadSynchronize", WAITS(context)),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		struct call_handles h = rules[i].handles;

		h.is_per_thread = strstr(name, "_ptsz") || strstr(name, "_ptds");
		if (starts_with(name, rules[i].prefix))
			return h;
	}
	return (struct call_handles){ .has_any = false };
}

static void find_stream(const struct call_handles *h, const struct cupti *cupti,
			const CUpti_CallbackData *data, uint64_t handle, struct ring_event *slot)
{
	CUstream stream = (CUstream)(uintptr_t)handle;
	bool is_default = handle <= (uintptr_t)CU_STREAM_PER_THREAD;

	if (!cupti->GetStreamIdEx)
		return;
	if (cupti->GetStreamIdEx(data->context, stream, h->is_per_thread, &slot->c) ==
	    CUPTI_SUCCESS)
		slot->flags |= HANDLE_STREAM | HANDLE_CONTEXT;
	else if (!is_default && /* of another context than the current one */
		 cupti->GetStreamIdEx(NULL, stream, h->is_per_thread, &slot->c) == CUPTI_SUCCESS)
		slot->flags |= HANDLE_STREAM;
}

void call_handles_read(const struct call_handles *h, const struct cupti *cupti,
		       const CUpti_CallbackData *data, struct ring_event *slot)
{
	const uint8_t *parameters = data->functionParams;
	unsigned stream_at = h->event_first ? 8 : 0, event_at = h->event_first ? 0 : 8;

	*slot = (struct ring_event){ .d = data->contextUid };
	if (!h->has_stream)
		slot->flags |= HANDLE_CONTEXT;
	if (!parameters)
		return;
	if (h->has_event) {
		slot->a = load_u64(parameters + event_at);
		slot->flags |= HANDLE_EVENT;
	}
	if (h->has_stream)
		find_stream(h, cupti, data, load_u64(parameters + stream_at), slot);
}
