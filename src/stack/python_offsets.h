/*
 * python_offsets.h: which CPython is in the process, and where its structures keep what a stack needs.
 *
 * Known are release builds of CPython 3.9 to 3.14 on 64-bit machines. From 3.13 on the interpreter publishes its offsets at
 * the start of _PyRuntime, free-threaded builds included; before that they are in a table here. Anything else - a debug
 * build, a pre-release, a version that is not in the table, another implementation - is refused, never guessed.
 */
#ifndef PITOT_STACK_PYTHON_OFFSETS_H
#define PITOT_STACK_PYTHON_OFFSETS_H

#include <stdbool.h>

#include "base/error.h"

/* How frames are linked, and how an evaluation (one native frame of _PyEval_EvalFrameDefault) shows among them. */
enum python_layout {
	PYTHON_FRAME_OBJECTS, /* 3.9, 3.10: one PyFrameObject per evaluation */
	PYTHON_ENTRY_FLAG, /* 3.11: an evaluation runs several frames; the outermost has is_entry */
	PYTHON_ENTRY_FRAME, /* 3.12 on: a frame of the interpreter's own stands below each run */
};

enum python_lines {
	PYTHON_LNOTAB, /* 3.9: pairs of increments */
	PYTHON_LINETABLE, /* 3.10: PEP 626 */
	PYTHON_LOCATIONS, /* 3.11 on: PEP 657 */
};

/* Offsets in bytes. Those that a version lacks are 0: none of them can be 0 where it is used. */
struct python_offsets {
	enum python_layout layout;
	enum python_lines lines;
	uint16_t state_frame; /* thread state -> top frame, or -> the PyCFrame of 3.11 and 3.12 */
	uint16_t cframe_frame; /* PyCFrame -> top frame */
	bool has_cframe;
	uint16_t frame_code;
	uint16_t frame_previous;
	uint16_t
		frame_last; /* last instruction: an index (frame objects) or a pointer into the bytecode */
	uint16_t frame_owner;
	uint16_t frame_is_entry;
	uint16_t frame_tlbc; /* 3.14 free-threaded: which of the code's copies of the bytecode */
	uint16_t code_file;
	uint16_t code_name;
	uint16_t code_qualname;
	uint16_t code_first_line;
	uint16_t code_lines;
	uint16_t code_version; /* a number of its own for each code object, 3.12 on */
	uint16_t
		code_traceable; /* index of the first traceable instruction: before it a frame is being made */
	uint16_t code_bytecode;
	uint16_t code_tlbc;
	uint16_t object_type;
	uint16_t object_size; /* the head of every object */
	uint16_t
		string_head; /* of compact ASCII strings; others have 2 words more, 3 before 3.12 */
	uint16_t string_head_wide;
	uint8_t string_kind_bit; /* of the state word: kind has 3 bits, then compact, then ascii */
	uint8_t index_unit; /* bytes of one step of frame_last where it is an index */
};

/* A CPython that can be walked. Immutable once found. */
struct python_runtime {
	uint32_t version; /* PY_VERSION_HEX */
	bool free_threaded;
	struct python_offsets offsets;
	void *(*thread_state)(void); /* PyGILState_GetThisThreadState */
	int (*finalizing)(void); /* Py_IsFinalizing */
	uintptr_t code_type, string_type, bytes_type;
	uintptr_t eval; /* _PyEval_EvalFrameDefault */
};

/* Address of a symbol, or NULL. */
typedef void *python_symbol(void *context, const char *name);

/*
 * Finds CPython among the modules of the process. Takes the loader's lock and may call dlopen on what is loaded already: for
 * the collector's thread; to be called again after a dlopen. 0, -ENOENT when there is no CPython, or E_UNSUPPORTED with the
 * reason in e when there is one that cannot be walked.
 */
int python_runtime_find(struct python_runtime *runtime, struct error *e);

/* The same from symbols that the caller looks up. */
int python_runtime_of(python_symbol *symbol, void *context, struct python_runtime *runtime,
		      struct error *e);

/*
 * Offsets of a version (PY_VERSION_HEX) without debug offsets (3.9 to 3.12), and with them (3.13 on: `debug` is _PyRuntime, of
 * which the first PYTHON_DEBUG_OFFSETS bytes are read). 0 or E_UNSUPPORTED.
 */
#define PYTHON_DEBUG_OFFSETS 416
int python_offsets_of(uint32_t version, struct python_offsets *offsets, struct error *e);
int python_offsets_debug(const void *debug, uint32_t version, struct python_offsets *offsets,
			 bool *free_threaded, struct error *e);

#endif
