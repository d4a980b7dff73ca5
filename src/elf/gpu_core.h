/*
 * gpu_core.h: core files that NVIDIA's driver writes of a GPU (CUDA_ENABLE_COREDUMP_ON_EXCEPTION):
 * which kernels ran, and where their threads were.
 *
 * Such a file is an ELF file of type ET_CORE for the machine "CUDA". Its contents are sections: one
 * table of GPUs; for each GPU tables of grids (kernels that run) and of multiprocessors; for each
 * of these a table of blocks, for each block one of warps, for each warp one of threads. The link
 * of a section is the table that it is below, its info the row in that. Rows have grown with the
 * driver's version, and entry_size says how long they are. Images of the loaded device code have
 * the addresses at which the GPU executes it.
 *
 * Input is untrusted: what points outside of the file is missing, nothing is mapped, and reading
 * takes time in proportion to the file's size, whatever its sections say.
 */
#ifndef PITOT_ELF_GPU_CORE_H
#define PITOT_ELF_GPU_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

/* Beside the numbers of exceptions: it is not known which one, and a trap instruction. */
#define GPU_CORE_UNKNOWN UINT32_MAX
#define GPU_CORE_TRAP (UINT32_MAX - 1)
#define GPU_CORE_ASSERT 12 /* its instruction is the one that its call returns to */

/* Threads of one kernel at one instruction, with the same exception or none. */
struct gpu_core_place {
	uint32_t device; /* its CUDA ordinal */
	uint32_t exception; /* as the debugger's interface numbers them; 0: none; GPU_CORE_… */
	uint64_t pc; /* address of the instruction; 0: unknown */
	uint64_t offset; /* of the first thread's next instruction, from its function's start */
	bool is_called; /* the function is not the kernel itself, but one that it has called */
	bool has_threads; /* false: known of a multiprocessor, whose threads had ended */
	uint32_t sm;
	uint32_t warp, lane, block[3], thread[3]; /* of the first one, in the file's order */
	uint64_t threads; /* how many */
	size_t grid; /* item of grids, or GPU_CORE_NO_GRID */
};

#define GPU_CORE_NO_GRID SIZE_MAX

/* A kernel that ran. */
struct gpu_core_grid {
	uint32_t device;
	uint64_t id, entry; /* entry: address of its first instruction */
	uint32_t size[3], block[3]; /* in blocks and in threads */
	uint32_t thread; /* of the process, which launched it (gettid) */
};

/* An ELF file in the file: the device code of a module, as loaded. */
struct gpu_core_image {
	uint64_t offset, size;
};

struct gpu_core_code {
	uint64_t start,
		end; /* addresses of a function, or of a kernel with those that only it calls */
	uint32_t image;
};

struct gpu_core {
	int fd; /* the caller's */
	uint64_t size;
	uint64_t left; /* bytes of tables that may still be read */
	bool is_incomplete; /* sections end behind the file's end, or there are too many */
	bool has_exception;
	/* with the exceptions only, if there are any; those of most threads first */
	VEC(struct gpu_core_place) places;
	VEC(struct gpu_core_grid) grids;
	VEC(struct gpu_core_image) images;
	VEC(struct gpu_core_code) code;
	VEC(struct gpu_core_table) tables;
	struct map place_of; /* hash of a place -> its item + 1 */
	struct map known; /* hashes of multiprocessors and exceptions that threads have */
};

/*
 * Reads the tables of a regular file. Returns 0; E_FORMAT: it is no core file of a GPU; or another
 * negative code. Release *out in either case.
 */
int gpu_core_open(int fd, struct gpu_core *out, struct error *e) MUST_USE;
void gpu_core_release(struct gpu_core *core);

/*
 * Reads the image that has code at an address. Returns its bytes, to be freed, and sets *size;
 * NULL: there is none, or no memory for it.
 */
uint8_t *gpu_core_code(const struct gpu_core *core, uint64_t address, size_t *size) MUST_USE;

/* "illegal address"; NULL: a number that this version does not know. */
const char *gpu_core_exception(uint32_t exception);

#endif
