#include "capture/amd/amd_sdk.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

#include "capture/core/vendor_thread.h"

#define LIBRARY "librocprofiler-sdk.so.1"

static struct {
	_Atomic(enum amd_state) state;
	struct amd_sdk sdk;
	uint64_t trace, counters, buffer;
	const char *lacking; /* a function of counters, which it does not have */
	bool records;
	char version[32], refusal[256];
} self;

atomic_uint_fast64_t amd_context;

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
	snprintf(self.version, sizeof(self.version), "%u.%u.%u", version / 10000,
		 version / 100 % 100, version % 100);
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

void amd_ready(uint64_t context, uint64_t counters, uint64_t buffer)
{
	self.trace = context;
	self.counters = counters;
	self.buffer = buffer;
	atomic_store(&self.state, AMD_READY);
}

void amd_end(void)
{
	atomic_store(&amd_context, 0);
	if (amd_state() == AMD_READY)
		atomic_store(&self.state, AMD_ENDED);
}

static bool set_context(uint64_t context, bool on)
{
	return on ? amd_check("start_context", self.sdk.start_context(context))
		  : amd_check("stop_context", self.sdk.stop_context(context));
}

bool amd_record(bool on)
{
	bool done;

	if (amd_state() != AMD_READY || on == self.records)
		return amd_state() == AMD_READY;
	atomic_store(&amd_context, on ? self.trace : 0);
	vendor_enter(on ? "rocprofiler_start_context" : "rocprofiler_stop_context");
	done = set_context(self.trace, on) && (!self.counters || set_context(self.counters, on));
	vendor_leave();
	self.records = done ? on : self.records;
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
