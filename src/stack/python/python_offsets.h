/*
 * python_offsets.h: identifies the CPython in a process, and the offsets in its structures that a
 * stack walk needs.
 *
 * Supported are release builds of CPython 3.9 to 3.15 on 64-bit machines. Since 3.13 the
 * interpreter publishes its offsets at the start of _PyRuntime, also in free-threaded builds; for
 * older versions there is a table here. Anything else (a debug build, a pre-release, another
 * version or implementation) is refused, never guessed.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_OFFSETS_H
#define PITOT_STACK_PYTHON_PYTHON_OFFSETS_H

#include <stdbool.h>

#include "base/error.h"

/* How frames are linked, and how native frames of _PyEval_EvalFrameDefault are recognised. */
enum python_layout {
	PYTHON_FRAME_OBJECTS,	/* 3.9, 3.10: a PyFrameObject for each evaluation */
	PYTHON_ENTRY_FLAG,	/* 3.11: an evaluation runs a chain of frames; is_entry: its end */
	PYTHON_ENTRY_FRAME,	/* 3.12 on: each run ends with a frame of the interpreter's own */
};

enum python_lines {
	PYTHON_LNOTAB,		/* 3.9: pairs of increments */
	PYTHON_LINETABLE,	/* 3.10: PEP 626 */
	PYTHON_LOCATIONS,	/* 3.11 on: PEP 657 */
};

/* In bytes. 0 for members that a version lacks. */
struct python_offsets {
	enum python_layout layout;
	enum python_lines lines;
	bool has_cframe;
	uint8_t string_kind_bit;	/* in the state word: kind (3 bits), compact, ascii */
	uint8_t index_unit;		/* bytes per unit of frame_last, if that is an index */
	uint16_t state_frame;		/* thread state -> top frame, or -> PyCFrame */
	/* thread state -> its own frame below all others, from 3.15 on */
	uint16_t state_base;
	uint16_t state_thread;		/* thread state: pthread_t of its thread */
	uint16_t cframe_frame;		/* PyCFrame -> top frame */
	uint16_t frame_code;
	uint16_t frame_previous;
	uint16_t frame_last;		/* last instruction: index or pointer */
	uint16_t frame_owner;
	uint16_t frame_is_entry;
	uint16_t frame_tlbc;		/* 3.14 free-threaded: index of its copy of the bytecode */
	uint16_t code_file;
	uint16_t code_name;
	uint16_t code_qualname;
	uint16_t code_first_line;
	uint16_t code_lines;
	uint16_t code_version;		/* a number unique to each code object */
	uint16_t code_traceable;	/* index of the first instruction after frame set-up */
	uint16_t code_bytecode;
	uint16_t code_tlbc;		/* copies of the bytecode: their number, then pointers */
	uint16_t object_type;
	uint16_t object_size;		/* size of the head of every object */
	uint16_t string_head;		/* of compact ASCII strings, */
	uint16_t string_head_wide;	/* and of other compact strings */
};

/* A CPython that can be walked. */
struct python_runtime {
	uint32_t version;		/* PY_VERSION_HEX */
	bool free_threaded;
	struct python_offsets offsets;
	void *(*thread_state)(void);	/* PyGILState_GetThisThreadState */
	int (*finalizing)(void);	/* Py_IsFinalizing */
	uintptr_t code_type, string_type, bytes_type;
	uintptr_t eval;			/* _PyEval_EvalFrameDefault */
};

/*
 * Finds CPython among the modules of the process, without waiting for a dlopen of another thread.
 * To be called again after a dlopen. Returns 0, -ENOENT when there is no CPython, or E_UNSUPPORTED
 * and the reason in e when it cannot be walked.
 */
int python_runtime_find(struct python_runtime *runtime, struct error *e);

/*
 * Returns E_UNSUPPORTED if the name of a program or library is that of another implementation of
 * Python; else 0.
 */
int python_refuse_other(const char *path, struct error *e);

/* As python_runtime_find(), from symbols that the caller looks up (NULL: no such symbol). */
typedef void *python_symbol(void *context, const char *name);
int python_runtime_of(python_symbol *symbol, void *context, struct python_runtime *runtime,
		      struct error *e);

/* Returns the offsets of a version from the table (3.9 to 3.12). 0 or E_UNSUPPORTED. */
int python_offsets_of(uint32_t version, struct python_offsets *offsets, struct error *e);

/* Reads the offsets that CPython publishes (from 3.13 on), in so many bytes. 0 or E_UNSUPPORTED. */
#define PYTHON_DEBUG_OFFSETS 480
int python_offsets_debug(const void *debug, uint32_t version, struct python_offsets *offsets,
			 bool *free_threaded, struct error *e);

#endif
