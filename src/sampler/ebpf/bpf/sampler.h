/*
 * sampler.h: shared by the BPF programs (sampler.bpf.c) and their loader (sampler_load.c): records
 * in the ring buffer, values of maps, configuration. Both include it, so it includes nothing else
 * but the numbers of registers, by which layouts differ.
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_SAMPLER_H
#define PITOT_SAMPLER_EBPF_BPF_SAMPLER_H

#include <linux/types.h>

#include "arch/registers.h"

#define BPF_USER_FRAMES 16384u
#define BPF_KERNEL_FRAMES 127u
#define BPF_PYTHON_FRAMES 16384u /* two words each */
/*
 * Most frames of each kind in one record. Deeper stacks come in several: the innermost frames first
 * in records BPF_RECORD_PART, the outermost in the record of the sample.
 */
#define BPF_PART_FRAMES 512u
/*
 * The second word of a Python frame: byte offset of the last instruction in bits 30..0, whether it
 * is the outermost frame of its evaluation in bit 31, and bpf_python_check() in bits 63..32. A
 * frame with code 0 stands for an evaluation without a visible frame.
 */
#define BPF_PYTHON_ENTRY (1u << 31)
/* Bytes read of the interpreter's structures: all offsets in struct bpf_python are within them. */
#define BPF_PYTHON_FRAME 128u
#define BPF_PYTHON_FRAME_MIN 80u
#define BPF_PYTHON_CODE 256u
#define BPF_PYTHON_SEEN_BITS 14 /* log2 of the number of code objects remembered */
/* Bytes copied of the objects that a code object refers to: nearly all are smaller. */
#define BPF_NAME_BYTES 256u
#define BPF_FILE_BYTES 512u
#define BPF_LINES_BYTES 2048u
#define BPF_STACK_PAGE 4096u
#define BPF_STACK_PAGES 16u /* of a copied stack */

/* Words of a record: Python frames, kernel frames, user frames, registers, copied stack. */
#define BPF_FRAME_WORDS 2048u /* maximum for all frames: a power of two */
#define BPF_COPY_WORDS (REG_COUNT_ + BPF_STACK_PAGES * BPF_STACK_PAGE / 8)
#define BPF_WORDS (BPF_FRAME_WORDS + BPF_COPY_WORDS + BPF_STACK_PAGE / 8)

#define BPF_TABLES 4096u /* unwind tables; number 0 is unused */
#define BPF_KNOWN_RULES_BITS 13 /* log2 of the number of cached rules: 128 KiB */
#define BPF_BLOCKS 256u /* blocks of cells */
#define BPF_BLOCK_SHIFT 17 /* log2 of the cells in a block */
#define BPF_PART_SHIFT 14 /* log2 of the bytes of code in a part, as UNWIND_PART_SHIFT */
#define BPF_RULES 65536u /* of all tables */
#define BPF_RANGES 131072u /* executable ranges of processes, in two halves */
#define BPF_RANGES_OF_PROCESS 16384u
#define BPF_PROCESSES 16384u
#define BPF_THREADS 32768u

/* Values of bpf_range.table: no table has been uploaded yet; the file has none. */
#define BPF_TABLE_MISSING 0u
#define BPF_TABLE_NONE 0xffffffffu

enum bpf_record_kind {
	BPF_RECORD_CPU, /* a sample */
	BPF_RECORD_SWITCH_OUT, /* a thread left its processor; has its stack */
	BPF_RECORD_SWITCH_IN, /* the thread runs again */
	BPF_RECORD_REMAINDER, /* a thread has ended: its CPU time after the last sample */
	BPF_RECORD_EXIT, /* a process has ended: its last thread has left its processor */
	BPF_RECORD_PART, /* frames of the processor's next record, which has the same time */
	BPF_RECORD_CODE, /* a code object that no sample had before: struct bpf_code_record */
	/* a framework's allocator handed out memory, or got it back: ends with its arguments */
	BPF_RECORD_ALLOCATION,
	BPF_RECORD_RELEASE,
};

/* Values of enum off_cpu_state of the schema. */
enum bpf_state {
	BPF_STATE_UNKNOWN,
	BPF_STATE_SLEEPING,
	BPF_STATE_UNINTERRUPTIBLE,
	BPF_STATE_RUNNABLE,
	BPF_STATE_STOPPED,
};

enum bpf_stop {
	BPF_STOP_COMPLETE,
	BPF_STOP_TRUNCATED, /* unwinding is impossible from here */
	BPF_STOP_DEPTH,
	BPF_STOP_NO_RULE, /* the last frame's code has no rule: registers and stack are copied */
	BPF_STOP_NO_TABLE, /* likewise: no table has been uploaded for this code */
	BPF_STOP_NO_RANGE, /* likewise: this process has no ranges, or none with this address */
};

/* 72 bytes, followed by the words. */
struct bpf_record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 cpu_ns; /* CPU, REMAINDER: CPU time of the thread since its last sample */
	__u64 image; /* number of the process image */
	__u32 pid, tid; /* in the sampler's pid namespace */
	__u32 cpu;
	__u8 kind; /* enum bpf_record_kind */
	__u8 stop; /* enum bpf_stop */
	__u8 state; /* SWITCH_OUT: enum bpf_state */
	__u8 no_stack; /* SWITCH_OUT: not unwound, to bound the cost */
	__u16 kernel_count, user_count;
	__u16 python_count; /* frames */
	__u8 python_cut; /* there are more frames */
	__u8 copied; /* registers and stack follow, in their state at the last user frame */
	/* there is no user stack: the image is about to end, by an exec or the exit */
	__u8 no_user;
	__u8 unused;
	__u16 part; /* number of BPF_RECORD_PART before this one that belong to it */
	__u32 copy_bytes; /* of the copied stack, from the copied stack pointer on */
	__u64 known; /* bit i: register i is known */
	__u64 thread_base; /* the thread pointer: fs */
};

/*
 * A code object as it was when a sample first had it, because it may be gone soon: copies of the
 * beginnings of the objects, and how many bytes. Ends with the last byte of `lines`.
 */
struct bpf_code_record {
	struct bpf_record head;
	__u64 address;
	__u64 name_address, file_address, lines_address;
	__u32 check; /* bpf_python_check() */
	__u32 name_bytes, file_bytes, lines_bytes;
	__u8 code[BPF_PYTHON_CODE];
	__u8 name[BPF_NAME_BYTES], file[BPF_FILE_BYTES], lines[BPF_LINES_BYTES];
};

#define BPF_SITES 64u /* places of probes in the code of files */
#define BPF_SITE_ARGUMENTS 3u
#define BPF_PROBE_SCRATCHES 4u /* of each processor */
#define BPF_NO_REGISTER 0xffu

/* Where an argument of a probe is: base + (index << scale) + offset, or in memory there. */
struct bpf_argument {
	__u8 base, index; /* registers by DWARF number; BPF_NO_REGISTER: 0 */
	__u8 scale;
	__u8 is_memory;
	__u8 size; /* bytes: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u8 shift; /* number of its lowest bit in the register */
	__u8 unused;
	__s64 offset;
};

/* A place of a probe; its number is the cookie of its uprobe. */
struct bpf_site {
	__u32 kind; /* enum bpf_record_kind */
	__u32 count;
	/* of an allocation: address, device, bytes; of a release: address */
	struct bpf_argument arguments[BPF_SITE_ARGUMENTS];
};

#define BPF_SAVES (1 + SAVED_REGISTERS)

/* Unwind rules, laid out as in unwind_rule.h. */
struct bpf_save {
	__u8 kind, base;
	__u16 unused;
	__s32 offset;
};

struct bpf_rule {
	__u8 cfa, base, index, interrupts;
	__s32 offset, extra;
	struct bpf_save saves[BPF_SAVES]; /* return address; saved registers */
	__u32 unused;
};

/*
 * Tables consist of 8-byte cells, which are stored in blocks. The place of a cell is the number of
 * its block, with the cell's number in the lower BPF_BLOCK_SHIFT bits. A table's directory has a
 * cell for each part of the code, {place of its first row, number of rows}: it is 0 until the part
 * has been uploaded, and is written atomically. Rows are {offset of code, number of the rule}; the
 * first row of a part is at the part's first address. A directory that is larger than a block has
 * its own block.
 */
struct bpf_cell {
	__u32 low, high;
};

struct bpf_table {
	__u64 base;
	__u32 length; /* bytes of code */
	__u32 directory; /* place of its first cell */
};

struct bpf_range {
	__u64 start, end;
	__u64 bias;
	__u32 table;
	__u32 unused;
};

/* Where CPython stores its frames (16-bit offsets); layout as in python_offsets.h. */
struct bpf_python {
	__u8 enabled;
	__u8 layout; /* enum python_layout */
	__u8 has_cframe;
	__u8 index_unit;
	__u16 state_frame, state_thread, cframe_frame; /* in the thread state; in its PyCFrame */
	__u16 state_base; /* in the thread state: sentinel below the outermost frame; 0: none */
	__u16 frame_code, frame_previous, frame_last, frame_owner, frame_is_entry, frame_tlbc;
	__u16 code_file, code_qualname, code_first_line, code_lines, code_version;
	__u16 code_traceable, code_bytecode, code_tlbc;
	__u16 object_size; /* header of every object; the length follows, and in a str its hash */
	__u16 string_head;
	__s32 state_at; /* offset of the pointer to the thread state from fs */
};

/* A followed process; the key is its id in the sampler's pid namespace. */
struct bpf_followed {
	/* number of its process image; 0: it waits for its exec and is not sampled yet */
	__u64 image;
	/* address of its mm_struct; 0: unknown. Another than the task's: amid an exec */
	__u64 memory;
	__s32 threads; /* threads with a struct bpf_thread */
	__u32 has_exited; /* its last thread is about to leave its processor for the last time */
};

/*
 * A thread of a followed process; the key is the address of its task. CPU times are counts of the
 * operating system's kernel.
 */
struct bpf_thread {
	/* CPU time that samples stand for, or that was used before the thread was followed */
	__u64 sampled_ns;
	__u64 entered_cpu_ns, entered_ns; /* when it last got a processor: its CPU time, the time */
	__u32 pid, tid; /* in the sampler's pid namespace */
};

/* A process image, from exec or fork to the next exec or the exit. */
struct bpf_image {
	__u32 first_range, range_count;
	/* changes whenever the ranges or tables of any image change; not 0 */
	__u32 generation;
	struct bpf_python python;
};

/*
 * Distinguishes a code object from a later one at the same address, as far as 32 bits can: the
 * addresses that it refers to and, where CPython does not number code objects (before 3.12), parts
 * of the contents, because a later code object may refer to the same addresses.
 */
struct bpf_code {
	__u64 file, name, lines; /* addresses of objects */
	__u32 first_line, version;
	__u64 name_hash; /* hash of the str's contents, which interned strings have */
	__u64 file_length, file_start, file_end; /* in characters; the first and last 8 bytes */
	__u64 lines_length, lines_start;
};

static inline __attribute__((always_inline)) __u32 bpf_python_check(const struct bpf_code *c)
{
	__u64 h = c->file;

	h = (h ^ c->name) * 0x9e3779b97f4a7c15ull ^ h >> 29;
	h = (h ^ c->lines) * 0xc2b2ae3d27d4eb4full ^ h >> 31;
	h = (h ^ ((__u64)c->version << 32 | c->first_line)) * 0x9e3779b97f4a7c15ull ^ h >> 30;
	h = (h ^ c->name_hash) * 0xd6e8feb86659fd93ull ^ h >> 32;
	h = (h ^ c->file_length ^ c->file_start) * 0x9e3779b97f4a7c15ull ^ h >> 29;
	h = (h ^ c->file_end) * 0xc2b2ae3d27d4eb4full ^ h >> 31;
	h = (h ^ c->lines_length ^ c->lines_start) * 0xd6e8feb86659fd93ull;
	return (__u32)(h >> 32);
}

/* Masks the bytes behind the end of a text that is shorter than the word it was read as. */
static inline __attribute__((always_inline)) __u64 bpf_text_word(__u64 word, __u64 length)
{
	return length >= 8 ? word : word & ((1ull << 8 * length) - 1);
}

struct bpf_config {
	__u64 start_ns, end_ns; /* window; end 0: none */
	__u64 wake_bytes; /* bytes in the ring buffer at which the reader is woken */
	__u64 period_ns; /* between samples */
	__u64 code_bits; /* of a return address, without its signature */
	/*
	 * interval of the operating system kernel's tick: it updates the CPU time of a running
	 * thread at least that often
	 */
	__u64 tick_ns;
	__u8 kernel; /* sample frames of the operating system's kernel */
	__u8 off_cpu; /* record time off the CPU */
};

/* Written by the BPF programs. */
struct bpf_counters {
	__u64 dropped; /* records for which there was no room */
	__u64 not_followed; /* processes that could not be followed because there were too many */
	__u64 run_ns; /* time spent on unwinding and sending */
	__u64 woken_ns; /* when the reader was last woken early */
	__u64 sites_dropped; /* allocations and releases for which there was no room */
	__u64 sites_unwalked; /* allocations without a stack, for want of room or time */
	__u32 level; /* nesting level of the sampler's pid namespace */
};

#endif
