/* Parses the fault script, which has one fault per line, into tables. */
#include "standin.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FUNCTIONS 148
_Static_assert((int)TAPE_FUNCTION_LIMIT <= FUNCTIONS, "each has its row");
#define MISSING_MAX 32
#define EVERY_CALL UINT64_MAX

static struct faults faults = { .fatal_at = UINT64_MAX,
				.step_at = UINT64_MAX,
				.gpu_fault_at = UINT64_MAX };

static struct {
	const char *name;
	VEC(struct {
		uint64_t call; /* 1, 2 …, or EVERY_CALL */
		int result;
	})
	results;
	uint64_t delay_ns;
	bool hangs; /* from hang_at on, or once hang_file exists */
	uint64_t hang_at;
	const char *hang_file;
	atomic_uint_fast64_t calls;
} functions[FUNCTIONS] = {
#define F(number, function) [number] = { .name = "cupti" #function },
	TAPE_CUPTI_FUNCTIONS(F)
#undef F
#define F(number, function) [number] = { .name = "cu" #function },
		TAPE_DRIVER_FUNCTIONS(F)
#undef F
#define F(number, function) [number] = { .name = "nvml" #function },
			TAPE_NVML_FUNCTIONS(F)
#undef F
#define F(number, function) [number] = { .name = "cupti" #function },
				TAPE_ENGINE_FUNCTIONS(F) STANDIN_FUNCTIONS(F)
#undef F
};

static const char *missing[MISSING_MAX + 1];
static size_t missing_count;
static atomic_bool hanging;

const struct faults *standin_faults(void)
{
	return &faults;
}

const char *standin_missing(size_t i)
{
	return i < missing_count ? missing[i] : NULL;
}

void standin_hang(void)
{
	atomic_store(&hanging, true);
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

bool standin_reached(uint64_t at)
{
	struct place p = standin_place();

	return at != UINT64_MAX && (!p.first || p.index >= at);
}

static bool is_hanging(unsigned function)
{
	/* Reading a record from a buffer never blocks. */
	if (atomic_load(&hanging) && function != STANDIN_ActivityGetNextRecord)
		return true;
	if (!functions[function].hangs)
		return false;
	return functions[function].hang_file ? access(functions[function].hang_file, F_OK) == 0
					     : standin_reached(functions[function].hang_at);
}

bool standin_fault(unsigned function, int *result)
{
	uint64_t call = atomic_fetch_add(&functions[function].calls, 1) + 1;

	if (is_hanging(function))
		for (;;)
			sleep_ns(1000000000);
	if (functions[function].delay_ns)
		sleep_ns(functions[function].delay_ns);
	for (size_t i = 0; i < functions[function].results.count; i++) {
		if (functions[function].results.data[i].call != call &&
		    functions[function].results.data[i].call != EVERY_CALL)
			continue;
		*result = functions[function].results.data[i].result;
		return true;
	}
	return false;
}

uint64_t standin_calls(unsigned function)
{
	return atomic_load(&functions[function].calls);
}

int64_t standin_step_ns(void)
{
	return standin_place().index >= faults.step_at ? faults.step_ns : 0;
}

static int function_of(const char *name, size_t length)
{
	for (int i = 0; i < (int)FUNCTIONS; i++)
		if (functions[i].name && strlen(functions[i].name) == length &&
		    memcmp(functions[i].name, name, length) == 0)
			return i;
	return -1;
}

/* call cuptiSubscribe#1 returns 39 · call cuptiGetTimestamp returns 1 */
static bool parse_call(const char *line)
{
	char name[64];
	unsigned long long call = EVERY_CALL;
	int result, function;

	if (sscanf(line, "call %63[A-Za-z0-9_]#%llu returns %d", name, &call, &result) != 3) {
		call = EVERY_CALL;
		if (sscanf(line, "call %63[A-Za-z0-9_] returns %d", name, &result) != 2)
			return false;
	}
	function = function_of(name, strlen(name));
	if (function < 0 || vec_reserve(&functions[function].results, 1) < 0)
		return false;
	functions[function].results.data[functions[function].results.count].call = call;
	functions[function].results.data[functions[function].results.count++].result = result;
	return true;
}

static bool parse_missing(const char *line)
{
	char name[64];

	if (missing_count == MISSING_MAX || sscanf(line, "missing %63[A-Za-z0-9_]", name) != 1)
		return false;
	missing[missing_count] = strdup(name);
	return missing[missing_count] && ++missing_count;
}

static bool parse_delay(const char *line)
{
	char name[64];
	unsigned long long ms;
	int function;

	if (sscanf(line, "delay %63[A-Za-z0-9_] %llums", name, &ms) != 2)
		return false;
	function = function_of(name, strlen(name));
	if (function >= 0)
		functions[function].delay_ns = ms * 1000000;
	return function >= 0;
}

/* hang cuptiActivityFlushAll at 500 · hang nvmlDeviceGetPowerUsage when /tmp/file */
static bool parse_hang(const char *line)
{
	char name[64], file[200];
	unsigned long long at = 0;
	bool has_file = sscanf(line, "hang %63[A-Za-z0-9_] when %199s", name, file) == 2;
	int function;

	if (!has_file && sscanf(line, "hang %63[A-Za-z0-9_] at %llu", name, &at) != 2)
		return false;
	function = function_of(name, strlen(name));
	if (function < 0)
		return false;
	functions[function].hangs = true;
	functions[function].hang_at = at;
	functions[function].hang_file = has_file ? strdup(file) : NULL;
	return true;
}

static bool parse_numbers(const char *line)
{
	static const struct {
		const char *word;
		uint64_t *value;
	} numbers[] = {
		{ "zero-times every", &faults.zero_every },
		{ "reverse-times every", &faults.reverse_every },
		{ "incomplete every", &faults.incomplete_every },
		{ "null-name every", &faults.null_name_every },
		{ "hostile-names every", &faults.hostile_every },
		{ "bad-kind every", &faults.bad_kind_every },
		{ "huge-names", &faults.huge_names },
		{ "state fatal at", &faults.fatal_at },
		{ "storm", &faults.storm },
		{ "gpu-fault at", &faults.gpu_fault_at },
		{ "fail-launches every", &faults.failed_launch_every },
		{ "slow-launches", &faults.launch_us },
		{ "hold-buffers", &faults.held_buffers },
		{ "pc-dropped", &faults.pc_dropped },
		{ "pc-most", &faults.pc_most },
		{ "pm-most", &faults.pm_most },
		{ "pc-unload every", &faults.pc_unload_every },
		{ "range-extra every", &faults.range_extra_every },
		{ "passes", &faults.passes },
		{ "gpu-memory", &faults.gpu_memory },
		{ "gpu-memory-free", &faults.gpu_memory_free },
		{ "range-destroy at", &faults.range_destroy_at },
		{ "sass-dropped", &faults.sass_dropped },
		{ "sass-destroy at", &faults.sass_destroy_at },
		{ "sass-unload every", &faults.sass_unload_every },
		{ "capturing every", &faults.capturing_every },
	};

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		size_t length = strlen(numbers[i].word);
		char *end;

		if (strncmp(line, numbers[i].word, length) != 0 || line[length] != ' ')
			continue;
		*numbers[i].value = strtoull(line + length, &end, 10);
		return end != line + length && (*end == 0 || strcmp(end, "-names") == 0);
	}
	return false;
}

static bool parse_line(const char *line)
{
	unsigned long long at, lock_ms;
	long long ms;
	unsigned number;

	if (strcmp(line, "shuffle-records") == 0)
		return faults.shuffle = true;
	if (strcmp(line, "pc-own-names") == 0)
		return faults.pc_own_names = true;
	if (strcmp(line, "sass-zero") == 0)
		return faults.sass_zero = true;
	if (strcmp(line, "thread-buffers") == 0)
		return faults.thread_buffers = true;
	if (sscanf(line, "lock-nvml %llums", &lock_ms) == 1)
		return faults.nvml_lock_ns = lock_ms * 1000000, true;
	if (sscanf(line, "version %u", &number) == 1)
		return faults.version = number, true;
	if (sscanf(line, "shift-correlation %u", &number) == 1)
		return faults.correlation_shift = number, true;
	if (sscanf(line, "drop-buffer %u", &number) == 1)
		return vec_push(&faults.dropped_buffers, number) == 0;
	if (sscanf(line, "step-realtime %lldms at %llu", &ms, &at) == 2) {
		faults.step_ns = ms * 1000000;
		faults.step_at = at;
		return true;
	}
	return parse_call(line) || parse_missing(line) || parse_delay(line) || parse_hang(line) ||
	       parse_numbers(line);
}

int faults_parse(const char *script, struct error *e)
{
	for (unsigned number = 1; *script; number++) {
		size_t length = strcspn(script, "\n");
		char line[256];

		if (length >= sizeof(line))
			return error_set(e, E_USAGE, "line %u is too long", number);
		memcpy(line, script, length);
		line[length] = 0;
		line[strcspn(line, "#") == 0 ? 0 : length] = 0; /* a comment is a whole line */
		while (length && (line[length - 1] == ' ' || line[length - 1] == '\r'))
			line[--length] = 0;
		if (line[0] && !parse_line(line))
			return error_set(e, E_USAGE, "line %u: unknown fault '%s'", number, line);
		script += strcspn(script, "\n");
		script += *script == '\n';
	}
	return 0;
}
