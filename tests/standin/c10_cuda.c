/*
 * c10_cuda.c: a stand-in for libc10_cuda.so: an allocator with the static probes of PyTorch's, as
 * notes of the shipped library (2.14) describe them: two places of pytorch:malloc and two of
 * pytorch:free, each with a semaphore in .probes, and operands in registers and on the stack.
 *
 * It has no GPU: addresses are those of small blocks of the C library. `standin_levels` is what it
 * has handed out, by its own count. -DWITHOUT_PROBES makes a library that has none.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

struct levels {
	uint64_t allocations, releases;
	int64_t bytes, peak_bytes;
};

static _Atomic uint64_t allocations, releases;
static _Atomic int64_t bytes, peak_bytes;

#ifdef WITHOUT_PROBES
#define SEMAPHORE(name) static unsigned short semaphore_##name
#define NOTE(name, operands) ""
#else
#define SEMAPHORE(name)                                                                            \
	__attribute__((section(".probes"), used)) static volatile unsigned short semaphore_##name
/*
 * An ELF note: owner "stapsdt", type 3; addresses of the nop, of .stapsdt.base (0: none) and of the
 * semaphore; then provider, name and operands as text.
 */
#define NOTE(name, operands)                                                                       \
	"990: nop\n"                                                                               \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                                               \
	".balign 4\n"                                                                              \
	".4byte 992f-991f, 994f-993f, 3\n"                                                         \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b\n"                                                                       \
	".8byte 0\n"                                                                               \
	".8byte semaphore_" name "\n"                                                              \
	".asciz \"pytorch\"\n"                                                                     \
	".asciz \"" name "\"\n"                                                                    \
	".asciz \"" operands "\"\n"                                                                \
	"994: .balign 4\n"                                                                         \
	".popsection\n"
#endif

SEMAPHORE(malloc);
SEMAPHORE(free);

/* Counted before the block is visible to others, and after it no longer is: as PyTorch does. */
static void *count_allocation(size_t size)
{
	int64_t now = atomic_fetch_add(&bytes, (int64_t)size) + (int64_t)size;
	int64_t peak = atomic_load(&peak_bytes);
	size_t *block = malloc(2 * sizeof(*block));

	if (!block)
		abort();
	block[0] = size;
	atomic_fetch_add(&allocations, 1);
	while (now > peak && !atomic_compare_exchange_weak(&peak_bytes, &peak, now))
		;
	return block;
}

/* Operands in registers, two of which have one byte and eight, and the last on the stack. */
static __attribute__((noinline)) void probe_allocation(void *address, int8_t device, size_t size,
						       int64_t stream)
{
	if (!semaphore_malloc)
		return;
	__asm__ volatile(NOTE("malloc", "-8@%[address] -1@%b[device] -8@%[size] -8@%[stream]")
			 :
			 : [address] "r"(address), [device] "q"(device), [size] "r"(size),
			   [stream] "m"(stream));
}

/* The second place has its operands in memory, below %rbp and above %rsp. */
static __attribute__((noinline)) void probe_other(void *address, int8_t device, size_t size)
{
	volatile size_t in_memory = size;
	void *volatile where = address;

	if (!semaphore_malloc)
		return;
	__asm__ volatile(NOTE("malloc", "8@%[address] 1@%b[device] 8@%[size] -8@$0")
			 :
			 : [address] "m"(where), [device] "q"(device), [size] "m"(in_memory));
}

EXPORT void *standin_allocate(size_t size, int device)
{
	void *block = count_allocation(size);

	probe_allocation(block, (int8_t)device, size, -1);
	return block;
}

EXPORT void *standin_allocate_otherwise(size_t size, int device)
{
	void *block = count_allocation(size);

	probe_other(block, (int8_t)device, size);
	return block;
}

EXPORT void standin_free(void *address)
{
	size_t *block = address;

	if (semaphore_free)
		__asm__ volatile(NOTE("free", "-8@%[address]") : : [address] "D"(address));
	atomic_fetch_sub(&bytes, (int64_t)block[0]);
	atomic_fetch_add(&releases, 1);
	free(block);
}

/* A release that was never allocated: only the probe. */
EXPORT void standin_free_unknown(uint64_t address)
{
	if (semaphore_free)
		__asm__ volatile(NOTE("free", "-8@%[address]") : : [address] "r"(address));
}

/* In any order and with any sizes: what an allocator does under load. */
EXPORT void standin_churn(uint64_t count, size_t size)
{
	for (uint64_t i = 0; i < count; i++)
		standin_free(standin_allocate(size, 0));
}

EXPORT int standin_semaphores(void)
{
	return semaphore_malloc << 16 | semaphore_free;
}

EXPORT struct levels standin_levels(void)
{
	return (struct levels){ allocations, releases, bytes, peak_bytes };
}
