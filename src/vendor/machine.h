/*
 * machine.h: what a vendor's GPUs on this machine can be used for, and why not; for the program
 * `pitot`, not for the recorder. A vendor's row, vendor_machine_<name>, lies in its folder.
 */
#ifndef PITOT_VENDOR_MACHINE_H
#define PITOT_VENDOR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/vec.h"
#include "vendor/vendors.h"

enum check_state {
	CHECK_OK,
	CHECK_LIMITED, /* works partly, or affects something else */
	CHECK_MISSING,
};

struct check {
	const struct vendor *vendor; /* NULL: concerns all of them */
	const char *name;
	const char *purpose; /* what needs it */
	bool needed; /* required for recording GPU work */
	enum check_state state;
	const char *library; /* path of libpitot.so; NULL: it was not found */
	char detail[512]; /* what was found */
	char advice[512]; /* what to do; "" when nothing needs to be done */
};

void check_found(struct check *c, enum check_state state, const char *format, ...)
	PRINTF_LIKE(3, 4);
void check_advise(struct check *c, const char *text);

/* A check that `doctor` makes. */
struct machine_check {
	const char *name, *purpose;
	bool needed;
	void (*run)(struct check *c);
};

/* L(name): a limit of a GPU, and its JSON key. */
#define GPU_LIMITS(L)                                                                              \
	L(compute_major)                                                                           \
	L(compute_minor)                                                                           \
	L(multiprocessors)                                                                         \
	L(clock_khz)                                                                               \
	L(memory_clock_khz)                                                                        \
	L(memory_bus_bits)                                                                         \
	L(l2_bytes)                                                                                \
	L(warp_size)                                                                               \
	L(max_threads_per_block)                                                                   \
	L(max_threads_per_multiprocessor)                                                          \
	L(max_blocks_per_multiprocessor)                                                           \
	L(registers_per_multiprocessor)                                                            \
	L(shared_per_block_optin_bytes)                                                            \
	L(shared_per_multiprocessor_bytes)                                                         \
	L(copy_engines)

struct gpu {
	const struct vendor *vendor;
	int ordinal; /* among those of its vendor */
	char name[256];
	char uuid[48];
	char pci[32];
	uint64_t memory_bytes;
	char architecture[64]; /* "compute capability 9.0" */
	struct {
#define GPU_LIMIT(name) int name; /* -1: unknown */
		GPU_LIMITS(GPU_LIMIT)
#undef GPU_LIMIT
	} limits;
};

struct gpus {
	VEC(struct gpu) list;
};

struct vendor_machine {
	/* In the order in which they build on each other. */
	const struct machine_check *checks;
	unsigned check_count;
	/* Whether the machine has something of the vendor; NULL: it is checked in any case. */
	bool (*is_there)(void);
	/*
	 * Appends the GPUs that this process may use. Returns 0; E_UNSUPPORTED if there is none,
	 * and why; or another error, if one cannot be described.
	 */
	int (*gpus)(struct gpus *out, struct error *e);
	/*
	 * Why no work of this vendor's GPUs can be recorded, as far as files show without
	 * initializing its driver. Returns false if it finds no reason.
	 */
	bool (*no_gpu_reason)(char *out, size_t size);
};

extern const struct vendor_machine *const vendor_machines[VENDOR_COUNT];

/* Whether a vendor is to be mentioned: see is_there. */
bool machine_has(unsigned vendor);

/*
 * Appends the GPUs of all vendors. Returns 0; E_UNSUPPORTED if there is none: why, by vendor; or
 * another error.
 */
int machine_gpus(struct gpus *out, struct error *e) MUST_USE;
/* Why no GPU work can be recorded, of whichever vendor; see no_gpu_reason. */
bool machine_no_gpu_reason(char *out, size_t size);
/* Returns how many GPUs of a vendor the PCI bus has; 0 if it cannot be read. */
unsigned machine_pci_gpus(const struct vendor *vendor);

#endif
