/*
 * vendors.h: the makers of GPUs, one line each. All layers ask this list, and none above knows a
 * vendor by name.
 *
 * A vendor has code in two halves: src/vendor/<name>/ describes it (struct vendor) and looks at the
 * machine (struct vendor_machine, machine.h); src/capture/<name>/ has its sources, which run in the
 * recorded program.
 */
#ifndef PITOT_VENDOR_VENDORS_H
#define PITOT_VENDOR_VENDORS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

/* V(name, sources of the recorder in the order in which they are called, by S(source)) */
#define VENDORS(V, S)                                                                              \
	V(nvidia, CUDA_SOURCES(S))                                                                 \
	V(amd, S(amd))

#define VENDOR_ID(name, sources) VENDOR_##name,
enum vendor_id { VENDORS(VENDOR_ID, ) VENDOR_COUNT };
#undef VENDOR_ID

/* Sets of vendors are bits. */
#define VENDOR_BIT(name) (1u << VENDOR_##name)
#define VENDOR_ALL_BITS ((1u << VENDOR_COUNT) - 1)

enum vendor_names {
	/*
	 * File names of the libraries between a call and our callback: the driver and the
	 * profiler. Their frames are left out of stacks while these are recorded.
	 */
	VENDOR_BELOW_CALLS,
	VENDOR_RUNTIME, /* libraries that programs call, whose frames are not shown */
	VENDOR_LIBRARIES, /* all others */
	/* Native functions of the runtime, which its compiler may link into any program. */
	VENDOR_LAUNCHES, /* between a launch in the source and the driver */
	VENDOR_FUNCTIONS, /* all others */
	VENDOR_NAMES_COUNT
};

/* A list of names, with NULL at its end. */
#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct vendor {
	const char *name; /* "NVIDIA" */
	unsigned pci_vendor; /* 0x10de */

	/*
	 * Environment variables that name a library, which the vendor's libraries load into each
	 * process that uses them: they name the recorder.
	 */
	const char *const *injection;
	/*
	 * Variables that name a profiler plug-in of the vendor's communication library, which the
	 * recorder is, too. NULL: there is none. One that the user has set stays.
	 */
	const char *const *plugins;

	/*
	 * Appends to the environment of a command, as NUL-terminated NAME=VALUE, what makes the
	 * vendor's profiler call the recorder, `library`, if that needs more than the variables
	 * above. NULL: it does not.
	 */
	void (*environment)(struct strbuf *out, const char *library);

	/*
	 * Variables of the vendor's driver about core files of GPUs; a command that has one of them
	 * keeps its own settings. core_files() appends those with which the driver writes small
	 * ones into a folder, and does not end the process for it. NULL: there are none.
	 */
	const char *const *core_variables;
	void (*core_files)(struct strbuf *out, const char *folder);

	/* How names begin by which stacks know this vendor's code. */
	const char *const *names[VENDOR_NAMES_COUNT];
	const char *const *folders; /* parts of paths: only the vendor's files lie there */
};

extern const struct vendor *const vendors[VENDOR_COUNT];

#define FOR_EACH_VENDOR(each)                                                                      \
	for (const struct vendor *const *each = vendors; each < vendors + VENDOR_COUNT; each++)

/* Whether a file is a library between a call and our callback. */
bool vendor_is_below_calls(const char *path);
/* Whether a file is such a library, or a runtime. */
bool vendor_is_runtime(const char *path);
/* Whether a file is any library of a vendor. */
bool vendor_is_library(const char *path);
/* Whether a path leads into a folder of a vendor. */
bool vendor_is_folder(const char *path);
bool vendor_is_launch(const char *function);
/* Whether it is a function of a runtime, launches included. */
bool vendor_is_function(const char *function);

#endif
