#include "schema/event_words.h"

#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/starts_with.h"

static const char *name_of(const char *const *names, size_t count, uint8_t value)
{
	return value < count && names[value] ? names[value] : names[0];
}

const char *synchronization_name(uint8_t kind)
{
	static const char *const names[] = {
		[synchronization_kind_unknown] = "Unknown Sync",
		[synchronization_kind_event] = "Event Sync",
		[synchronization_kind_stream_wait_event] = "Stream Wait Event",
		[synchronization_kind_stream] = "Stream Sync",
		[synchronization_kind_context] = "Context Sync",
	};

	return name_of(names, ARRAY_SIZE(names), kind);
}

const char *overhead_name(uint8_t kind)
{
	static const char *const names[] = {
		[overhead_kind_unknown] = "Unknown",
		[overhead_kind_compiler] = "Driver Compiler",
		[overhead_kind_buffer_flush] = "Buffer Flush",
		[overhead_kind_instrumentation] = "Instrumentation",
		[overhead_kind_resource] = "Resource",
		[overhead_kind_module_loading] = "Runtime Triggered Module Loading",
		[overhead_kind_lazy_function_loading] = "Lazy Function Loading",
		[overhead_kind_command_buffer_full] = "Command Buffer Full",
		[overhead_kind_buffer_request] = "Activity Buffer Request",
		[overhead_kind_uvm_init] = "UVM Activity Initialization",
	};

	return name_of(names, ARRAY_SIZE(names), kind);
}

static const char *memory_kind_name(uint8_t kind)
{
	static const char *const names[] = {
		[memory_kind_unknown] = "Unknown",
		[memory_kind_pageable] = "Pageable",
		[memory_kind_pinned] = "Pinned",
		[memory_kind_device] = "Device",
		[memory_kind_array] = "Array",
		[memory_kind_managed] = "Managed",
		[memory_kind_device_static] = "Device Static",
		[memory_kind_managed_static] = "Managed Static",
	};

	return name_of(names, ARRAY_SIZE(names), kind);
}

const char *event_value_name(enum table_id table, int column, unsigned value)
{
	const char *name = schema_value_name(&schema_table(table)->columns[column], value);

	return name ? name : "unknown";
}

static const char *copy_kind_name(uint8_t kind)
{
	return event_value_name(TABLE_memcpy, COLUMN_memcpy_kind, kind);
}

const char *loss_name(unsigned reason)
{
	return event_value_name(TABLE_loss, COLUMN_loss_reason, reason);
}

void own_profiler_windows(struct strbuf *out, uint64_t ns, uint64_t windows)
{
	strbuf_adds(out, "the program's own profiler used CUPTI for ");
	human_duration(out, ns);
	strbuf_addf(out, " in %" PRIu64 " window%s: no GPU work was recorded in %s", windows,
		    plural(windows), plural_of(windows, "it", "them"));
}

const char *allocation_name(uint8_t operation)
{
	return event_value_name(TABLE_allocation, COLUMN_allocation_operation, operation);
}

const char *stack_end_note(uint8_t end)
{
	static const char *const notes[STACK_ENDS] = {
		[stack_end_complete] = "",
		[stack_end_partial] = "[partial stack]",
		[stack_end_truncated] = "[truncated stack]",
		[stack_end_depth] = "[deeper than recorded]",
		[stack_end_guessed] = "[guessed stack]",
	};

	return notes[MIN(end, stack_end_guessed)];
}

void memcpy_name(struct strbuf *out, uint8_t kind, uint8_t source, uint8_t destination)
{
	strbuf_addf(out, "Memcpy %s (%s -> %s)", copy_kind_name(kind), memory_kind_name(source),
		    memory_kind_name(destination));
}

void memset_name(struct strbuf *out, uint8_t memory_kind)
{
	strbuf_addf(out, "Memset (%s)", memory_kind_name(memory_kind));
}

uint8_t copy_kind_in(const char *text)
{
	static const struct {
		const char *text;
		enum copy_kind kind;
	} spellings[] = {
		{ "HostToDevice", copy_kind_HtoD },
		{ "DeviceToHost", copy_kind_DtoH },
		{ "DeviceToDevice", copy_kind_DtoD },
		{ "H2D", copy_kind_HtoD },
		{ "D2H", copy_kind_DtoH },
		{ "D2D", copy_kind_DtoD },
		{ "M2D", copy_kind_HtoD },
		{ "D2M", copy_kind_DtoH },
	};

	for (uint8_t kind = copy_kind_HtoD; kind <= copy_kind_PtoP; kind++)
		if (strstr(text, copy_kind_name(kind)))
			return kind;
	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++)
		if (strstr(text, spellings[i].text))
			return (uint8_t)spellings[i].kind;
	return copy_kind_unknown;
}

/* The kind of memory whose name begins the text; of two, the longer name. */
static uint8_t memory_kind_at(const char *text)
{
	uint8_t kind = memory_kind_managed_static;

	while (kind && !(text && starts_with(text, memory_kind_name(kind))))
		kind--;
	return kind;
}

static const char *after(const char *text, const char *mark)
{
	const char *found = strstr(text, mark);

	return found ? found + strlen(mark) : NULL;
}

void memcpy_read_name(const char *name, uint8_t *kind, uint8_t *source, uint8_t *destination)
{
	*kind = copy_kind_in(name);
	*source = memory_kind_at(after(name, "("));
	*destination = memory_kind_at(after(name, "-> "));
}

uint8_t memset_read_name(const char *name)
{
	return memory_kind_at(after(name, "("));
}

size_t api_name_length(const char *name, size_t length)
{
	size_t digits = length;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (length - digits >= 4 && digits >= 3 && name[digits - 1] == 'v' &&
	    name[digits - 2] == '_')
		return digits - 2;
	return length;
}

enum api_kind api_kind_of_function(const char *name)
{
	static const struct {
		const char *prefix;
		enum api_kind kind;
	} rules[] = {
		{ "LaunchHostFunc", api_kind_host_function },
		{ "StreamAddCallback", api_kind_host_function },
		{ "StreamWaitValue", api_kind_stream_memory },
		{ "StreamWriteValue", api_kind_stream_memory },
		{ "StreamBatchMemOp", api_kind_stream_memory },
		{ "StreamBeginCapture", api_kind_begin_capture },
		{ "StreamEndCapture", api_kind_end_capture },
		{ "Launch", api_kind_launch },
		{ "ExtLaunch", api_kind_launch },
		{ "ModuleLaunch", api_kind_launch },
		{ "ExtModuleLaunch", api_kind_launch },
		{ "HccModuleLaunch", api_kind_launch },
		{ "DrvLaunch", api_kind_launch },
		{ "GraphLaunch", api_kind_graph_launch },
		{ "Memcpy", api_kind_memcpy },
		{ "DrvMemcpy", api_kind_memcpy },
		{ "Memset", api_kind_memset },
		{ "CtxSynchronize", api_kind_synchronize },
		{ "DeviceSynchronize", api_kind_synchronize },
		{ "ThreadSynchronize", api_kind_synchronize },
		{ "StreamSynchronize", api_kind_synchronize },
		{ "EventSynchronize", api_kind_synchronize },
		{ "EventQuery", api_kind_query },
		{ "StreamQuery", api_kind_query },
		{ "StreamWaitEvent", api_kind_event },
		{ "EventRecord", api_kind_event },
		{ "MemAlloc", api_kind_allocate },
		{ "MemHostAlloc", api_kind_allocate },
		{ "Malloc", api_kind_allocate },
		{ "HostAlloc", api_kind_allocate },
		{ "HostMalloc", api_kind_allocate },
		{ "ExtMalloc", api_kind_allocate },
		{ "ExtHostAlloc", api_kind_allocate },
		{ "MemCreate", api_kind_allocate },
		{ "MemHostRegister", api_kind_allocate },
		{ "HostRegister", api_kind_allocate },
		{ "MemFree", api_kind_release },
		{ "Free", api_kind_release },
		{ "HostFree", api_kind_release },
		{ "MemRelease", api_kind_release },
		{ "MemHostUnregister", api_kind_release },
		{ "HostUnregister", api_kind_release },
	};
	const char *rest = starts_with(name, "cuda")  ? name + 4
			   : starts_with(name, "cu")  ? name + 2
			   : starts_with(name, "hip") ? name + 3
						      : "";
	/* of Intel's, in any place */
	static const struct {
		const char *part;
		enum api_kind kind;
	} parts[] = {
		{ "Launch", api_kind_launch },        { "EnqueueNDRange", api_kind_launch },
		{ "Memcpy", api_kind_memcpy },        { "MemoryCopy", api_kind_memcpy },
		{ "MemoryFill", api_kind_memset },    { "USMFill", api_kind_memset },
		{ "EventRecord", api_kind_event },    { "Synchronize", api_kind_synchronize },
		{ "clFinish", api_kind_synchronize }, { "MemAlloc", api_kind_allocate },
		{ "MemFree", api_kind_release },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (starts_with(rest, rules[i].prefix))
			return rules[i].kind;
	for (size_t i = 0; i < ARRAY_SIZE(parts) && !*rest; i++)
		if (strstr(name, parts[i].part))
			return parts[i].kind;
	return api_kind_other;
}

enum synchronization_kind synchronization_of_function(const char *name)
{
	static const struct {
		const char *part;
		enum synchronization_kind kind;
	} rules[] = {
		{ "StreamWaitEvent", synchronization_kind_stream_wait_event },
		{ "EventSynchronize", synchronization_kind_event },
		{ "EventQuery", synchronization_kind_event },
		{ "StreamQuery", synchronization_kind_stream },
		{ "StreamSynchronize", synchronization_kind_stream },
		{ "DeviceSynchronize", synchronization_kind_context },
		{ "CtxSynchronize", synchronization_kind_context },
		{ "ThreadSynchronize", synchronization_kind_context },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (strstr(name, rules[i].part))
			return rules[i].kind;
	return synchronization_kind_unknown;
}

bool counter_is_hardware(const char *name)
{
	return strstr(name, "__");
}

const char *off_cpu_note(unsigned state)
{
	static const char *const notes[OFF_CPU_STATES] = {
		[off_cpu_state_unknown] = "[not running]",
		[off_cpu_state_sleeping] = "[sleeping]",
		[off_cpu_state_uninterruptible] = "[uninterruptible]",
		[off_cpu_state_runnable] = "[waiting for a processor]",
		[off_cpu_state_stopped] = "[stopped]",
	};

	return notes[state];
}
