#include "stack/python/python_offsets.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/path.h"
#include "elf/import_slots.h"
#include "elf/loaded_libraries.h"

/* Release builds for 64-bit machines. docs/python.md lists which were tested. */
static const struct python_offsets table[] = {
	[9] = { .layout = PYTHON_FRAME_OBJECTS,
		.lines = PYTHON_LNOTAB,
		.state_frame = 24,
		.state_thread = 176,
		.frame_code = 32,
		.frame_previous = 24,
		.frame_last = 104,
		.index_unit = 1,
		.code_file = 104,
		.code_name = 112,
		.code_qualname = 112,
		.code_first_line = 40,
		.code_lines = 120 },
	[10] = { .layout = PYTHON_FRAME_OBJECTS,
		 .lines = PYTHON_LINETABLE,
		 .state_frame = 24,
		 .state_thread = 176,
		 .frame_code = 32,
		 .frame_previous = 24,
		 .frame_last = 96,
		 .index_unit = 2,
		 .code_file = 104,
		 .code_name = 112,
		 .code_qualname = 112,
		 .code_first_line = 40,
		 .code_lines = 120 },
	[11] = { .layout = PYTHON_ENTRY_FLAG,
		 .lines = PYTHON_LOCATIONS,
		 .state_frame = 56,
		 .state_thread = 152,
		 .has_cframe = true,
		 .cframe_frame = 8,
		 .frame_code = 32,
		 .frame_previous = 48,
		 .frame_last = 56,
		 .frame_is_entry = 68,
		 .frame_owner = 69,
		 .code_file = 112,
		 .code_name = 120,
		 .code_qualname = 128,
		 .code_first_line = 72,
		 .code_lines = 136,
		 .code_traceable = 168,
		 .code_bytecode = 184 },
	[12] = { .layout = PYTHON_ENTRY_FRAME,
		 .lines = PYTHON_LOCATIONS,
		 .state_frame = 56,
		 .state_thread = 136,
		 .has_cframe = true,
		 .cframe_frame = 0,
		 .frame_code = 0,
		 .frame_previous = 8,
		 .frame_last = 56,
		 .frame_owner = 70,
		 .code_file = 112,
		 .code_name = 120,
		 .code_qualname = 128,
		 .code_first_line = 68,
		 .code_lines = 136,
		 .code_version = 92,
		 .code_traceable = 176,
		 .code_bytecode = 192 },
};

static unsigned minor_of(uint32_t version)
{
	return version >> 24 == 3 ? version >> 16 & 0xff : 0;
}

int python_refuse_other(const char *path, struct error *e)
{
	static const struct {
		const char *file, *name;
	} others[] = {
		{ "pypy", "PyPy" },
		{ "libpypy", "PyPy" },
		{ "graalpy", "GraalPy" },
		{ "libpythonvm", "GraalPy" },
		{ "micropython", "MicroPython" },
	};
	const char *base = base_name(path);

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strncmp(base, others[i].file, strlen(others[i].file)) == 0)
			return error_set(e, E_UNSUPPORTED,
					 "%s is not supported, only CPython 3.9 to 3.15 is",
					 others[i].name);
	return 0;
}

static int refuse_version(uint32_t version, struct error *e)
{
	return error_set(e, E_UNSUPPORTED, "CPython %u.%u is not supported, only 3.9 to 3.15 are",
			 version >> 24, version >> 16 & 0xff);
}

int python_offsets_of(uint32_t version, struct python_offsets *offsets, struct error *e)
{
	unsigned minor = minor_of(version);

	if (minor >= ARRAY_SIZE(table) || !table[minor].code_name)
		return refuse_version(version, e);
	*offsets = table[minor];
	offsets->object_type = 8;
	offsets->object_size = 16;
	offsets->string_kind_bit = 2;
	offsets->string_head = minor < 12 ? 48 : 40;
	offsets->string_head_wide = minor < 12 ? 72 : 56;
	return 0;
}

/* The needed words of _Py_DebugOffsets: 8-byte numbers whose positions depend on the version. */
struct debug_words {
	const uint8_t *p;
	bool bad;
};

static uint16_t word(struct debug_words *d, unsigned index)
{
	uint64_t v = load_u64(d->p + 8 * (size_t)index);

	if (v > 0x7fff)
		d->bad = true;
	return (uint16_t)v;
}

/*
 * Checks the order of members, which is the same in all known versions, to detect a changed struct.
 */
static bool plausible(const struct python_offsets *o, bool free_threaded)
{
	return o->object_size == (free_threaded ? 32 : 16) &&
	       o->object_type == o->object_size - 8 && o->frame_code == 0 &&
	       o->frame_previous == 8 && o->frame_last > 8 && o->frame_last % 8 == 0 &&
	       o->frame_owner > o->frame_last && o->frame_owner < o->frame_last + 32 &&
	       o->state_frame % 8 == 0 && o->state_frame >= 16 && o->state_base % 8 == 0 &&
	       o->state_thread % 8 == 0 && o->state_thread > o->state_frame &&
	       o->code_name == o->code_file + 8 && o->code_qualname == o->code_name + 8 &&
	       o->code_lines == o->code_qualname + 8 && o->code_first_line == o->code_file - 44 &&
	       o->code_bytecode > o->code_lines + 24 && o->code_bytecode % 8 == 0 &&
	       (!o->code_tlbc ||
		(o->code_tlbc == o->code_bytecode - 8 && o->frame_tlbc > o->frame_last));
}

/*
 * Start of each structure, in words after cookie, version, free-threaded, runtime and interpreter.
 * The object has two words.
 */
struct debug_places {
	unsigned thread, frame, code, object;
};

static const struct debug_places places[] = {
	[13] = { 19, 28, 34, 44 },
	[14] = { 22, 31, 39, 50 },
	[15] = { 22, 39, 47, 58 },
};

int python_offsets_debug(const void *debug, uint32_t version, struct python_offsets *offsets,
			 bool *free_threaded, struct error *e)
{
	struct debug_words d = { debug, false };
	struct python_offsets o = { .layout = PYTHON_ENTRY_FRAME, .lines = PYTHON_LOCATIONS };
	unsigned minor = minor_of(version), thread, frame, code, object;
	bool threaded;

	if (minor >= ARRAY_SIZE(places) || !places[minor].thread)
		return refuse_version(version, e);
	if (memcmp(debug, "xdebugpy", 8) != 0 || load_u64(d.p + 8) != version)
		return error_set(e, E_UNSUPPORTED,
				 "CPython 3.%u lacks the debug offsets of its version", minor);
	threaded = load_u64(d.p + 16) != 0;
	thread = places[minor].thread;
	frame = places[minor].frame;
	code = places[minor].code;
	object = places[minor].object;
	o.state_frame = word(&d, thread + 4);
	if (minor >= 15)
		o.state_base = word(&d, thread + 5);
	o.state_thread = word(&d, thread + (minor >= 15 ? 8 : 5));
	o.frame_previous = word(&d, frame + 1);
	o.frame_code = word(&d, frame + 2);
	o.frame_last = word(&d, frame + 3);
	o.frame_owner = word(&d, frame + 5);
	o.code_file = word(&d, code + 1);
	o.code_name = word(&d, code + 2);
	o.code_qualname = word(&d, code + 3);
	o.code_lines = word(&d, code + 4);
	o.code_first_line = word(&d, code + 5);
	o.code_bytecode = word(&d, code + 9);
	if (minor >= 14 && threaded) {
		o.frame_tlbc = word(&d, frame + 7);
		o.code_tlbc = word(&d, code + 10);
	}
	o.object_size = word(&d, object);
	o.object_type = word(&d, object + 1);
	if (d.bad || !plausible(&o, threaded))
		return error_set(e, E_UNSUPPORTED, "CPython 3.%u has implausible debug offsets",
				 minor);
	/* Members that are not published, from their neighbours. */
	o.code_version = o.code_first_line + 24;
	o.code_traceable = (o.code_tlbc ? o.code_tlbc : o.code_bytecode) - 16;
	o.string_head = o.object_size + 24;
	o.string_head_wide = o.object_size + 40;
	o.string_kind_bit = minor >= 14 && threaded ? 8 : 2;
	*offsets = o;
	*free_threaded = threaded;
	return 0;
}

/*
 * Returns PY_VERSION_HEX of "3.10.13 (main, …". The text after the numbers tells a release (f) from
 * a candidate (c) and others (a).
 */
static uint32_t version_of_text(const char *text)
{
	uint32_t version = 0;

	for (unsigned i = 0; i < 3; i++) {
		uint32_t number = 0;

		if (*text < '0' || *text > '9')
			return 0;
		for (; *text >= '0' && *text <= '9' && number < 256; text++)
			number = 10 * number + (uint32_t)(*text - '0');
		if (number > 255 || (i < 2 && *text++ != '.'))
			return 0;
		version = version << 8 | number;
	}
	return version << 8 | (*text == 0 || *text == ' ' || *text == '+' ? 0xf0
			       : *text == 'r'                             ? 0xc0
									  : 0xa0);
}

static uint32_t version_of(python_symbol *symbol, void *context)
{
	const unsigned long *number = symbol(context, "Py_Version");
	const char *(*text)(void) = symbol(context, "Py_GetVersion");
	const char *said = !number && text ? text() : NULL;

	return number ? (uint32_t)*number : said ? version_of_text(said) : 0;
}

static int refuse_builds(python_symbol *symbol, void *context, uint32_t version, struct error *e)
{
	const char *what = symbol(context, "PyModule_Create2TraceRefs")
				   ? "a build with Py_TRACE_REFS"
			   : symbol(context, "_Py_NegativeRefcount") ? "a debug build"
			   : (version >> 4 & 0xf) < 0xc              ? "a pre-release"
								     : NULL;

	if (!what)
		return 0;
	return error_set(e, E_UNSUPPORTED, "CPython %u.%u.%u is %s, which is not supported",
			 version >> 24, version >> 16 & 0xff, version >> 8 & 0xff, what);
}

int python_runtime_of(python_symbol *symbol, void *context, struct python_runtime *runtime,
		      struct error *e)
{
	struct python_runtime r = { .version = version_of(symbol, context) };
	void *debug = symbol(context, "_PyRuntime");
	int error;

	r.thread_state = symbol(context, "PyGILState_GetThisThreadState");
	if (!r.thread_state)
		return -ENOENT;
	if (!r.version)
		return error_set(e, E_UNSUPPORTED, "a Python does not report its version");
	error = refuse_builds(symbol, context, r.version, e);
	if (error == 0 && minor_of(r.version) < 13)
		error = python_offsets_of(r.version, &r.offsets, e);
	if (error < 0)
		return error;
	r.finalizing = symbol(context, "Py_IsFinalizing");
	if (!r.finalizing)
		r.finalizing = symbol(context, "_Py_IsFinalizing");
	r.code_type = (uintptr_t)symbol(context, "PyCode_Type");
	r.string_type = (uintptr_t)symbol(context, "PyUnicode_Type");
	r.bytes_type = (uintptr_t)symbol(context, "PyBytes_Type");
	r.eval = (uintptr_t)symbol(context, "_PyEval_EvalFrameDefault");
	if (!debug || !r.finalizing || !r.code_type || !r.string_type || !r.bytes_type || !r.eval)
		return error_set(e, E_UNSUPPORTED, "Python %u.%u lacks symbols of CPython",
				 r.version >> 24, r.version >> 16 & 0xff);
	if (minor_of(r.version) >= 13)
		error = python_offsets_debug(debug, r.version, &r.offsets, &r.free_threaded, e);
	if (error < 0)
		return error;
	*runtime = r;
	return 0;
}

/* Symbols of the library that has CPython: of the program, or of one loaded with RTLD_LOCAL. */
struct symbol {
	const char *name;
	void *address;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *user)
{
	struct symbol *symbols = user;
	struct loaded_library library;

	(void)size;
	if (!loaded_library_read(info, &library) ||
	    !loaded_library_symbol(&library, "PyGILState_GetThisThreadState"))
		return 0;
	for (struct symbol *s = symbols; s->name; s++) {
		const ElfW(Sym) *symbol = loaded_library_symbol(&library, s->name);

		s->address = symbol ? (void *)(library.base + symbol->st_value) : NULL;
	}
	return 1;
}

/* Whether a library, or the program, is another implementation of Python. */
static int find_other(struct dl_phdr_info *info, size_t size, void *e)
{
	char program[4096];
	ssize_t length = 0;

	(void)size;
	if (info->dlpi_name && *info->dlpi_name)
		return python_refuse_other(info->dlpi_name, e) < 0;
	length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[MAX(length, 0)] = '\0';
	return python_refuse_other(program, e) < 0;
}

static void *symbol_in(void *context, const char *name)
{
	for (const struct symbol *s = context; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s->address;
	return NULL;
}

int python_runtime_find(struct python_runtime *runtime, struct error *e)
{
	struct symbol symbols[] = {
		{ .name = "Py_Version" },
		{ .name = "Py_GetVersion" },
		{ .name = "_PyRuntime" },
		{ .name = "PyGILState_GetThisThreadState" },
		{ .name = "PyModule_Create2TraceRefs" },
		{ .name = "_Py_NegativeRefcount" },
		{ .name = "Py_IsFinalizing" },
		{ .name = "_Py_IsFinalizing" },
		{ .name = "PyCode_Type" },
		{ .name = "PyUnicode_Type" },
		{ .name = "PyBytes_Type" },
		{ .name = "_PyEval_EvalFrameDefault" },
		{ .name = NULL },
	};

	if (!loaded_libraries_visit(find_library, symbols))
		return loaded_libraries_visit(find_other, e) ? E_UNSUPPORTED : -ENOENT;
	return python_runtime_of(symbol_in, symbols, runtime, e);
}
