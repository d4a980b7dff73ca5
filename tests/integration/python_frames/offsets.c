/*
 * offsets.c: compiled with the internal headers of a CPython from 3.14 on, as for a build with the
 * GIL or, with Py_GIL_DISABLED defined, for one without: what the recorder makes of the offsets
 * that such a build publishes, against the compiler's. Says "ok", or what differs.
 */
#define Py_BUILD_CORE 1
#include <Python.h>

#include <internal/pycore_debug_offsets.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_interpframe.h>
#include <internal/pycore_runtime_structs.h>
#include <internal/pycore_tstate.h>
#include <stddef.h>

#include "stack/python/python_offsets.h"

#ifdef Py_GIL_DISABLED
#define THREADED true
#else
#define THREADED false
#endif

static int differences;

static void compare(const char *what, unsigned ours, size_t theirs)
{
	if (ours == theirs)
		return;
	printf("%s: %u, not %zu\n", what, ours, theirs);
	differences++;
}

/* The position of bits that are set, in the state word of a str. */
static uint32_t state_bits(PyASCIIObject string)
{
	uint32_t word;

	memcpy(&word, &string.state, sizeof(word));
	return word;
}

static void compare_strings(const struct python_offsets *o)
{
	PyASCIIObject kind = { .state = { .kind = 7 } }, compact = { .state = { .compact = 1 } },
		      ascii = { .state = { .ascii = 1 } };

	compare("kind", 7u << o->string_kind_bit, state_bits(kind));
	compare("compact", 8u << o->string_kind_bit, state_bits(compact));
	compare("ascii", 16u << o->string_kind_bit, state_bits(ascii));
	compare("length of a string", o->object_size, offsetof(PyASCIIObject, length));
	compare("state of a string", o->object_size + 16u, offsetof(PyASCIIObject, state));
	compare("text", o->string_head, sizeof(PyASCIIObject));
	compare("wide text", o->string_head_wide, sizeof(PyCompactUnicodeObject));
	compare("length of bytes", o->object_size, offsetof(PyVarObject, ob_size));
	compare("bytes", o->object_size + 16u, offsetof(PyBytesObject, ob_sval));
}

static void compare_frames(const struct python_offsets *o)
{
	compare("frame", o->state_frame, offsetof(PyThreadState, current_frame));
	compare("thread", o->state_thread, offsetof(PyThreadState, thread_id));
#if PY_VERSION_HEX >= 0x030f0000
	compare("base", o->state_base, offsetof(PyThreadState, base_frame));
#else
	compare("base", o->state_base, 0);
#endif
	compare("code", o->frame_code, offsetof(_PyInterpreterFrame, f_executable));
	compare("previous", o->frame_previous, offsetof(_PyInterpreterFrame, previous));
	compare("instruction", o->frame_last, offsetof(_PyInterpreterFrame, instr_ptr));
	compare("owner", o->frame_owner, offsetof(_PyInterpreterFrame, owner));
#ifdef Py_GIL_DISABLED
	compare("copy", o->frame_tlbc, offsetof(_PyInterpreterFrame, tlbc_index));
	compare("copies", o->code_tlbc, offsetof(PyCodeObject, co_tlbc));
	compare("number of copies", 0, offsetof(_PyCodeArray, size));
	compare("first copy", 8, offsetof(_PyCodeArray, entries));
#else
	compare("copy", o->frame_tlbc, 0);
	compare("copies", o->code_tlbc, 0);
#endif
}

static void compare_code(const struct python_offsets *o)
{
	compare("type", o->object_type, offsetof(PyObject, ob_type));
	compare("object", o->object_size, sizeof(PyObject));
	compare("file", o->code_file, offsetof(PyCodeObject, co_filename));
	compare("name", o->code_name, offsetof(PyCodeObject, co_name));
	compare("qualified name", o->code_qualname, offsetof(PyCodeObject, co_qualname));
	compare("first line", o->code_first_line, offsetof(PyCodeObject, co_firstlineno));
	compare("lines", o->code_lines, offsetof(PyCodeObject, co_linetable));
	compare("version", o->code_version, offsetof(PyCodeObject, co_version));
	compare("first traceable", o->code_traceable, offsetof(PyCodeObject, _co_firsttraceable));
	compare("bytecode", o->code_bytecode, offsetof(PyCodeObject, co_code_adaptive));
}

int main(void)
{
	static const _Py_DebugOffsets published = _Py_DebugOffsets_INIT("xdebugpy");
	struct python_offsets o;
	struct error e = { 0 };
	bool threaded;

	if (python_offsets_debug(&published, PY_VERSION_HEX, &o, &threaded, &e) < 0) {
		printf("refused: %s\n", e.text);
		return 1;
	}
	compare("free-threaded", threaded, THREADED);
	compare_frames(&o);
	compare_code(&o);
	compare_strings(&o);
	if (differences)
		return 1;
	puts("ok");
	return 0;
}
