/*
 * sampler.h: what the BPF programs (sampler.bpf.c) and their loader (sampler_load.c) share: records
 * in the ring buffer, values of maps, configuration. Included by both, so it has no other includes;
 * all layouts are those of x86-64.
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_SAMPLER_H
#define PITOT_SAMPLER_EBPF_BPF_SAMPLER_H

#include <linux/types.h>

#define BPF_USER_FRAMES 512u
#define BPF_KERNEL_FRAMES 127u
#define BPF_PYTHON_FRAMES 256u /* two words each */
/*
 * Their second word: offset of the last instruction in bits 30..0, whether it is the outermost
 * frame of its evaluation, and bpf_python_check() in bits 63..32. Code 0 keeps the place of an
 * evaluation without a frame to show.
 */
#define BPF_PYTHON_ENTRY (1u << 31)
/*
 * What is read of the interpreter's structures, in bytes: all offsets in struct bpf_python are
 * within.
 */
#define BPF_PYTHON_FRAME 128u
#define BPF_PYTHON_FRAME_MIN 80u
#define BPF_PYTHON_CODE 256u
#define BPF_PYTHON_SEEN_BITS 14 /* code objects that are remembered as known, about */
#define BPF_REGISTERS 17u /* by DWARF number, as in unwind_rule.h */
#define BPF_STACK_PAGE 4096u
#define BPF_STACK_PAGES 16u /* of a copy */

/*
 * Words behind the head of a record: kernel frames, user frames, Python frames, registers, copied
 * stack.
 */
#define BPF_FRAME_WORDS 2048u /* of frames at most: a power of two */
#define BPF_COPY_WORDS (BPF_REGISTERS + BPF_STACK_PAGES * BPF_STACK_PAGE / 8)
#define BPF_WORDS (BPF_FRAME_WORDS + BPF_COPY_WORDS + BPF_STACK_PAGE / 8)

#define BPF_TABLES 4096u /* unwind tables; number 0 is none */
#define BPF_KNOWN_RULES_BITS 13 /* addresses whose rule is remembered, about: 128 KiB */
#define BPF_BLOCKS 256u /* of the cells that tables consist of */
#define BPF_BLOCK_SHIFT 17 /* cells of a block: a power of two */
#define BPF_PART_SHIFT 14 /* bytes of code in a part, as UNWIND_PART_SHIFT */
#define BPF_RULES 65536u /* of all tables */
#define BPF_RANGES 131072u /* executable ranges of processes, in two halves */
#define BPF_RANGES_OF_PROCESS 16384u
#define BPF_PROCESSES 16384u
#define BPF_THREADS 32768u

/* A table of a range: none was uploaded yet, or the file has none. */
#define BPF_TABLE_WANTED 0u
#define BPF_TABLE_NONE 0xffffffffu

enum bpf_record_kind {
	BPF_RECORD_CPU, /* a sample */
	BPF_RECORD_OUT, /* a thread left its processor, with its stack */
	BPF_RECORD_IN, /* it runs again */
	BPF_RECORD_REST, /* a thread has ended: the CPU time that no sample stands for */
	BPF_RECORD_EXIT, /* of a process: its last thread has left its processor for ever */
};

/* As enum off_cpu_state of the schema. */
enum bpf_state {
	BPF_STATE_UNKNOWN,
	BPF_STATE_SLEEPING,
	BPF_STATE_UNINTERRUPTIBLE,
	BPF_STATE_RUNNABLE,
	BPF_STATE_STOPPED,
};

enum bpf_stop {
	BPF_STOP_COMPLETE,
	BPF_STOP_TRUNCATED, /* nobody can go on from here */
	BPF_STOP_DEPTH,
	BPF_STOP_NO_RULE, /* of the innermost code that has none: registers and stack are copied */
	BPF_STOP_NO_TABLE, /* same: nothing was uploaded yet for this code */
	BPF_STOP_NO_RANGE, /* same: nothing was uploaded for this process, or not this address */
};

/* 72 bytes, then the words. */
struct bpf_record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 cpu_ns; /* CPU, REST: CPU time of the thread since its last sample */
	__u64 image; /* number of the process image */
	__u32 pid, tid; /* as in the sampler's pid namespace */
	__u32 cpu;
	__u8 kind; /* enum bpf_record_kind */
	__u8 stop; /* enum bpf_stop */
	__u8 state; /* OUT: enum bpf_state */
	__u8 no_stack; /* OUT: it was not walked, to bound the cost */
	__u16 kernel_count, user_count;
	__u16 python_count; /* frames */
	__u8 python_cut; /* there are more */
	__u8 copied; /* registers and stack follow, as they are at the last user frame */
	/* there is no user stack: the image is about to end, by an exec or with the process */
	__u8 no_user;
	/* code objects are among its frames that no sample had yet: they may be gone soon */
	__u8 python_new;
	__u8 unused[6];
	__u32 known; /* bit i: register i is known */
	__u32 copy_bytes; /* of the stack, from the copied rsp on */
	__u64 thread_base; /* fs */
};

#define BPF_SAVES 7u

/* A rule as in unwind_rule.h. */
struct bpf_save {
	__u8 kind, base;
	__u16 unused;
	__s32 offset;
};

struct bpf_rule {
	__u8 cfa, base, index, interrupts;
	__s32 offset, extra;
	struct bpf_save saves[BPF_SAVES]; /* return address; rbp, rbx, r12 to r15 */
	__u32 unused;
};

/*
 * Tables consist of 8-byte cells, which lie in blocks: a place is the number of the block, and the
 * cell's number in the lower BPF_BLOCK_SHIFT bits. A table's directory has a cell for each part of
 * the code, {place of its first row, number of rows}, which is 0 until the part has been uploaded
 * and is written at once. Rows are {offset of code, number of the rule}; the first of a part is at
 * its first address. A directory that is larger than a block has one of its own.
 */
struct bpf_cell {
	__u32 low, high;
};

struct bpf_table {
	__u64 base;
	__u32 length; /* of code */
	__u32 directory; /* place */
};

struct bpf_range {
	__u64 start, end;
	__u64 bias;
	__u32 table;
	__u32 unused;
};

/*
 * Where a CPython process keeps its frames; layout as in python_offsets.h. All offsets fit into 16
 * bits.
 */
struct bpf_python {
	__u8 enabled;
	__u8 layout; /* enum python_layout */
	__u8 has_cframe;
	__u8 index_unit;
	__u16 state_frame, state_thread, cframe_frame; /* in the thread's state; in its PyCFrame */
	__u16 state_base; /* in the thread's state, the frame below all others; 0: there is none */
	__u16 frame_code, frame_previous, frame_last, frame_owner, frame_is_entry, frame_tlbc;
	__u16 code_file, code_qualname, code_first_line, code_lines, code_version;
	__u16 code_traceable, code_bytecode, code_tlbc;
	__u16 object_size; /* head of every object; then length, and of a str its hash */
	__u16 string_head;
	__s32 state_at; /* where the thread's state is, from fs */
};

/* A followed process, by its id in the sampler's pid namespace. */
struct bpf_followed {
	/* number of its process image; 0: it waits for its exec, and is not sampled yet */
	__u64 image;
	/* of that image; 0: not known. Another than the task's: it is in the middle of an exec */
	__u64 memory;
	__s32 threads; /* that have a struct bpf_thread */
	__u32 has_exited; /* its last thread is about to leave its processor */
};

/*
 * A thread of a followed process, by the address of its task. CPU time is what the kernel has
 * counted for it.
 */
struct bpf_thread {
	/* CPU time that samples stand for, or that is from before the thread was followed */
	__u64 sampled_ns;
	__u64 entered_cpu_ns, entered_ns; /* CPU time when it was given its processor; that time */
	__u32 pid, tid; /* as in the sampler's pid namespace */
};

/* A process image, from exec or fork to the next exec or the exit. */
struct bpf_image {
	__u32 first_range, range_count;
	/* another whenever any image's ranges or their tables become others; not 0 */
	__u32 generation;
	struct bpf_python python;
};

/*
 * What tells a code object from a later one at its address, as far as 32 bits do: what it refers
 * to, and where CPython does not number code objects (before 3.12) also some of what is there, for
 * even that may be at the same addresses.
 */
struct bpf_code {
	__u64 file, name, lines; /* addresses of objects */
	__u32 first_line, version;
	__u64 name_hash; /* of the str's contents; interned strings have it */
	__u64 file_length, file_start, file_end; /* characters; the first and the last 8 bytes */
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

/* Bytes of a text that are read as a word of eight, of which it may be shorter. */
static inline __attribute__((always_inline)) __u64 bpf_text_word(__u64 word, __u64 length)
{
	return length >= 8 ? word : word & ((1ull << 8 * length) - 1);
}

struct bpf_config {
	__u64 start_ns, end_ns; /* window; end 0: none */
	__u64 wake_bytes; /* waiting in the ring buffer before the reader is woken */
	__u64 period_ns; /* between samples */
	/* of the kernel, which brings a running thread's CPU time up to date at least so often */
	__u64 tick_ns;
	__u8 kernel; /* kernel frames */
	__u8 off_cpu; /* times off the CPU */
};

/* Written by the programs. */
struct bpf_counters {
	__u64 dropped; /* records for which there was no room */
	__u64 not_followed; /* processes that started when there were too many */
	__u64 run_ns; /* time that walking and sending took */
	__u64 woken_ns; /* the reader, out of turn */
	__u32 level; /* of the sampler's pid namespace */
};

#endif
