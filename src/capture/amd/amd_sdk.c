#include "capture/amd/amd_sdk.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "capture/core/vendor_thread.h"

#define LIBRARY "librocprofiler-sdk.so.1"

static struct {
	_Atomic(enum amd_state) state;
	struct amd_sdk sdk;
	struct amd_contexts contexts;
	uint64_t buffer;
	const char *lacking; /* a function of counters, which it does not have */
	bool records_memory;
	uint32_t number;
	char version[32], refusal[256];
} self;

atomic_bool amd_records;

enum amd_state amd_state(void)
{
	return atomic_load(&self.state);
}

const char *amd_refusal(void)
{
	return self.refusal;
}

const char *amd_version(void)
{
	return self.version;
}

const struct amd_sdk *amd_sdk(void)
{
	return amd_state() == AMD_READY ? &self.sdk : NULL;
}

void amd_refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!self.refusal[0])
		vsnprintf(self.refusal, sizeof(self.refusal), format, args);
	va_end(args);
	if (amd_state() == AMD_ABSENT)
		atomic_store(&self.state, AMD_REFUSED);
}

void amd_set_version(uint32_t version)
{
	self.number = version;
	snprintf(self.version, sizeof(self.version), "%u.%u.%u", version / 10000,
		 version / 100 % 100, version % 100);
}

bool amd_has_graphs(void)
{
	return self.number >= 10300;
}

bool amd_check(const char *function, int status)
{
	const char *text;

	if (status == AMD_SUCCESS)
		return true;
	text = self.sdk.get_status_string(status);
	amd_refuse("rocprofiler_%s: %s", function, text ? text : "unknown status");
	return false;
}

/* Of several copies in the process the one that called: only that is connected with HIP. */
const struct amd_sdk *amd_load(void)
{
	void *handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);

	if (!handle) {
		amd_refuse("%s is not the library that called", LIBRARY);
		return NULL;
	}
#define F(name, type, ...)                                                                         \
	*(void **)&self.sdk.name = dlsym(handle, "rocprofiler_" #name);                            \
	if (!self.sdk.name) {                                                                      \
		amd_refuse(LIBRARY " lacks rocprofiler_" #name);                                   \
		return NULL;                                                                       \
	}
	AMD_FUNCTIONS(F)
#undef F
#define F(name, type, ...)                                                                         \
	*(void **)&self.sdk.name = dlsym(handle, "rocprofiler_" #name);                            \
	if (!self.sdk.name)                                                                        \
		self.lacking = "rocprofiler_" #name;
	AMD_COUNTER_FUNCTIONS(F)
#undef F
	return &self.sdk;
}

const char *amd_lacks_counters(void)
{
	return self.lacking;
}

void amd_ready(const struct amd_contexts *contexts, uint64_t buffer)
{
	self.contexts = *contexts;
	self.buffer = buffer;
	atomic_store(&self.state, AMD_READY);
}

bool amd_has_memory(void)
{
	return self.contexts.memory != 0;
}

void amd_end(void)
{
	atomic_store(&amd_records, false);
	if (amd_state() == AMD_READY)
		atomic_store(&self.state, AMD_ENDED);
}

/* Context 0 is none. */
static bool set_context(uint64_t context, bool on)
{
	if (!context)
		return true;
	return on ? amd_check("start_context", self.sdk.start_context(context))
		  : amd_check("stop_context", self.sdk.stop_context(context));
}

bool amd_record(bool on, bool memory)
{
	bool was_on = atomic_load(&amd_records), done = true;

	memory &= on;
	if (amd_state() != AMD_READY || (on == was_on && memory == self.records_memory))
		return amd_state() == AMD_READY;
	vendor_enter(on ? "rocprofiler_start_context" : "rocprofiler_stop_context");
	atomic_store(&amd_records, on);
	if (on != was_on)
		done = set_context(self.contexts.trace, on) &&
		       set_context(self.contexts.counters, on);
	if (memory != self.records_memory)
		done &= set_context(self.contexts.memory, memory);
	vendor_leave();
	if (!done)
		atomic_store(&amd_records, was_on);
	else
		self.records_memory = memory;
	return done;
}

/* A failure means that another flush is under way. */
void amd_flush(void)
{
	if (amd_state() != AMD_READY)
		return;
	vendor_enter("rocprofiler_flush_buffer");
	self.sdk.flush_buffer(self.buffer);
	vendor_leave();
}
