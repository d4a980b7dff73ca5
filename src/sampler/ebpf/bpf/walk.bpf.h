/*
 * walk.bpf.h: unwinds the user stack of the current thread with the tables that user space has
 * uploaded.
 *
 * The steps are those of stack/unwind/unwind_snapshot.c, one call of walk_frame() each. If a table
 * or a rule is missing, unwinding stops with the registers of the last frame: user space continues
 * from there with a copy of the stack.
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_WALK_BPF_H
#define PITOT_SAMPLER_EBPF_BPF_WALK_BPF_H

#include "sampler/ebpf/bpf/kernel_types.bpf.h"
#include "sampler/ebpf/bpf/sampler.h"

/* Values of elf/unwind_rule.h and stack/frame.h; sampler_load.c asserts that they are equal. */
enum { CFA_NONE, CFA_UNKNOWN, CFA_END, CFA_REGISTER, CFA_DEREF, CFA_PLT, CFA_SIGNAL };
enum { SAVE_SAME, SAVE_CFA, SAVE_MEMORY, SAVE_VALUE, SAVE_COPY };
enum { RULE_NONE };
#define FRAME_INTERRUPTED (1ull << 62)

#define ADDRESS_END (1ull << 57) /* end of user space */
#define SWITCHES_MAX 16 /* limit of stack switches in one walk */
#define BLOCK 8 /* words below the CFA that are read at once: nearly all saves are there */
#define RANGE_STEPS 15 /* steps of a binary search in BPF_RANGES_OF_PROCESS */
#define ROW_STEPS 15 /* steps of a binary search in the rows of one part */

struct walk {
	__u64 registers[REG_ROOM_]; /* by DWARF number */
	__u64 block[REG_COUNT_]; /* copy of memory at block_start */
	__u64 block_start, cfa;
	__u64 restored[BPF_SAVES];
	struct bpf_rule rule; /* of the current frame */
	__u64 entry[KERNEL_WORDS]; /* as saved on entry to the operating system's kernel */
	struct bpf_range range; /* of the current frame */
	__u64 frame;
	__u64 start_stack; /* stack pointer at the first instruction of the program */
	__u32 first_range, range_count, generation;
	__u64 known;
	__u32 switches, found, has_block;
	__u32 at; /* number of words before the user frames */
	__u32 count, stop; /* count: user frames in `words` */
	__u32 total; /* user frames, including those in records of their own */
};

/* What the current sample knows of a code object. */
struct known_code {
	__u64 code, time_ns; /* another time: of another sample */
	__u64 copies; /* of the bytecode, where there are any */
	__u32 check;
	__s32 traceable;
};

#define KNOWN_CODES 16u /* a power of two */

/* Working memory of the programs, one per processor: nothing interrupts programs that use it. */
struct scratch {
	struct bpf_record record;
	__u64 words[BPF_WORDS]; /* follow the record, as in the ring buffer */
	struct walk walk;
	__u8 python_frame[BPF_PYTHON_FRAME]; /* a copy of the interpreter's structure */
	struct bpf_code_record code;
	struct known_code known_codes[KNOWN_CODES];
	__u32 busy; /* of a probe's: a program is using it */
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

const volatile struct bpf_config config SEC(".rodata.config");
struct bpf_counters counters SEC(".data.counters");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPF_RANGES);
	__type(key, __u32);
	__type(value, struct bpf_range);
} ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPF_TABLES);
	__type(key, __u32);
	__type(value, struct bpf_table);
} tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, BPF_RULES);
	__type(key, __u32);
	__type(value, struct bpf_rule);
} rules SEC(".maps");

struct cells {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_cell));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, BPF_BLOCKS);
	__type(key, __u32);
	__array(values, struct cells);
} blocks SEC(".maps");

/*
 * A cache of rules, indexed by a hash of the address; a colliding entry replaces the older. All
 * processors write to it without a lock: if two of them write one entry at the same time, its words
 * do not match and it is ignored.
 */
struct known_rule {
	__u64 check; /* the address, hashed with the value */
	__u64 value; /* lower half: number of the rule; upper half: generation */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1u << BPF_KNOWN_RULES_BITS);
	__type(key, __u32);
	__type(value, struct known_rule);
} known_rules SEC(".maps");

struct walk_context {
	struct scratch *scratch;
};

/* --- sending --- */

#define WAKE_NS 500000u /* minimum time between early wake-ups of the reader */

/* Bytes in the ring buffer that have not been read. */
static __always_inline __u64 waiting_bytes(void)
{
	return bpf_ringbuf_query(&records, BPF_RB_AVAIL_DATA);
}

/*
 * The reader polls ten times a second. It is woken for much data, and (soon) for urgent records.
 * Returns 0 if there is no room.
 */
static __always_inline int try_send(void *record, __u64 size, int soon)
{
	__u64 flags = BPF_RB_NO_WAKEUP, now;

	if (waiting_bytes() >= config.wake_bytes)
		flags = BPF_RB_FORCE_WAKEUP;
	if (soon) {
		now = bpf_ktime_get_ns();
		if (now - counters.woken_ns > WAKE_NS) {
			counters.woken_ns = now;
			flags = BPF_RB_FORCE_WAKEUP;
		}
	}
	return bpf_ringbuf_output(&records, record, size, flags) == 0;
}

static __always_inline void send(void *record, __u64 size, int soon)
{
	if (!try_send(record, size, soon))
		__sync_fetch_and_add(&counters.dropped, 1);
}

/* Sends the frames that are in `words` as a part of the record, which goes on without them. */
static __always_inline void send_part(struct scratch *s, __u32 words)
{
	__u8 kind = s->record.kind;

	s->record.kind = BPF_RECORD_PART;
	send(&s->record, sizeof(s->record) + 8 * (__u64)(words & (BPF_FRAME_WORDS - 1)), 0);
	s->record.kind = kind;
	s->record.part++;
	s->record.python_count = s->record.kernel_count = s->record.user_count = 0;
}

static __always_inline int read_user(__u64 address, __u64 *value)
{
	return bpf_probe_read_user(value, sizeof(*value), (const void *)address) == 0;
}

static __always_inline int is_known(const struct walk *w, __u32 reg)
{
	return reg < REG_COUNT_ && (w->known >> reg & 1);
}

/* --- rules --- */

static __always_inline int find_range(struct walk *w, __u64 pc)
{
	__u32 low = w->first_range, high = low + w->range_count, end = high;
	const struct bpf_range *range;

	if (pc - w->range.start < w->range.end - w->range.start)
		return 1;
	for (int i = 0; i < RANGE_STEPS && low < high; i++) {
		__u32 middle = low + (high - low) / 2;

		range = bpf_map_lookup_elem(&ranges, &middle);
		if (!range)
			return 0;
		if (range->end <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low >= end)
		return 0;
	range = bpf_map_lookup_elem(&ranges, &low);
	if (!range || pc < range->start || pc >= range->end)
		return 0;
	w->range = *range;
	return 1;
}

/* Returns the cell `offset` cells after a place. */
static __always_inline const struct bpf_cell *cell_at(void *cells, __u32 place, __u32 offset)
{
	__u32 at = (place & ((1u << BPF_BLOCK_SHIFT) - 1)) + offset;

	return bpf_map_lookup_elem(cells, &at);
}

static __always_inline void *block_of(__u32 place)
{
	__u32 block = place >> BPF_BLOCK_SHIFT;

	return bpf_map_lookup_elem(&blocks, &block);
}

/* Finds the rule of a code offset in the rows of its part. Returns its number, or RULE_NONE. */
static __always_inline __u32 find_row(void *cells, __u32 place, __u32 count, __u32 offset)
{
	const struct bpf_cell *cell;
	__u32 low = 0, high = count;

	/* Invariant: the first row after the offset is in [low, high]. */
	for (int i = 0; i < ROW_STEPS && low < high; i++) {
		__u32 middle = low + (high - low) / 2;

		cell = cell_at(cells, place, middle);
		if (!cell)
			return RULE_NONE;
		if (cell->low <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	cell = low ? cell_at(cells, place, low - 1) : NULL;
	return cell ? cell->high : RULE_NONE;
}

/*
 * Returns the directory's cell for the part of an offset: place of its rows; in the upper half,
 * their number. 0: not uploaded.
 */
static __always_inline __u64 find_part(const struct bpf_table *table, __u32 offset)
{
	void *cells = block_of(table->directory);
	const struct bpf_cell *cell;

	cell = cells ? cell_at(cells, table->directory, offset >> BPF_PART_SHIFT) : NULL;
	/* User space may be writing it: read it once. */
	return cell ? *(const volatile __u64 *)cell : 0;
}

/* Returns the number of the rule; RULE_NONE: there is none, and w->stop says why. */
static __always_inline __u32 search_rule(struct walk *w, __u64 pc)
{
	const struct bpf_table *table;
	__u64 offset, part;
	__u32 number;
	void *cells;

	w->stop = BPF_STOP_NO_RANGE;
	if (!find_range(w, pc))
		return RULE_NONE;
	number = w->range.table;
	w->stop = number == BPF_TABLE_NONE ? BPF_STOP_NO_RULE : BPF_STOP_NO_TABLE;
	if (number == BPF_TABLE_MISSING || number == BPF_TABLE_NONE)
		return RULE_NONE;
	table = bpf_map_lookup_elem(&tables, &number);
	if (!table)
		return RULE_NONE;
	offset = pc - w->range.bias - table->base;
	if (offset >= table->length) {
		w->stop = BPF_STOP_NO_RULE;
		return RULE_NONE;
	}
	part = find_part(table, (__u32)offset);
	cells = part >> 32 ? block_of((__u32)part) : NULL;
	if (!cells)
		return RULE_NONE;
	w->stop = BPF_STOP_NO_RULE;
	return find_row(cells, (__u32)part, (__u32)(part >> 32), (__u32)offset);
}

static __always_inline __u64 check_of(__u64 pc, __u64 value)
{
	return pc ^ value * 0xd6e8feb86659fd93ull;
}

/*
 * Returns the rule of the current frame; NULL: none, w->stop says why. A search reads about twenty
 * cache lines that the program has evicted since the last sample; a hit in known_rules reads one.
 */
static __always_inline const struct bpf_rule *find_rule(struct walk *w)
{
	__u64 pc = (w->frame & (ADDRESS_END - 1)) - !(w->frame & FRAME_INTERRUPTED), value;
	__u32 place = pc * 0x9e3779b97f4a7c15ull >> (64 - BPF_KNOWN_RULES_BITS), number;
	volatile struct known_rule *known = bpf_map_lookup_elem(&known_rules, &place);

	if (!known)
		return NULL;
	value = known->value;
	number = (__u32)value;
	if (number == RULE_NONE || value >> 32 != w->generation ||
	    known->check != check_of(pc, value)) {
		number = search_rule(w, pc);
		if (number == RULE_NONE)
			return NULL;
		value = (__u64)w->generation << 32 | number;
		known->value = value;
		known->check = check_of(pc, value);
	}
	return bpf_map_lookup_elem(&rules, &number);
}

/* --- one step --- */

/*
 * These functions are global, so that the verifier checks each of them once instead of on every
 * path to each call. It knows nothing about the contents of *w either, where they store their
 * results.
 */

/* Computes the CFA by w->rule. Returns 0 if that is impossible. */
__noinline int compute_cfa(struct walk *w)
{
	const struct bpf_rule *rule;
	__u64 base;

	if (!w)
		return 0;
	rule = &w->rule;
	base = w->registers[rule->base & (REG_ROOM_ - 1)] + (__u64)(__s64)rule->offset;
	if (!is_known(w, rule->base))
		return 0;
	if (rule->cfa == CFA_PLT)
		base += (w->registers[REG_RA_] & 15) >= (__u64)(__s64)rule->extra ? 8 : 0;
	if (rule->cfa == CFA_DEREF) {
		if (rule->index != REG_NONE_) {
			if (!is_known(w, rule->index))
				return 0;
			base += 8 * w->registers[rule->index & (REG_ROOM_ - 1)];
		}
		if (!read_user(base, &base))
			return 0;
		base += (__u64)(__s64)rule->extra;
	}
	w->cfa = base;
	return (base & 7) == 0;
}

/* Restores a register of the caller by a rule other than SAVE_SAME. Returns 0 if impossible. */
__noinline int restore(struct walk *w, __u32 index)
{
	const struct bpf_save *save;
	__u64 offset, base;

	if (!w || index >= BPF_SAVES)
		return 0;
	save = &w->rule.saves[index];
	offset = (__u64)(__s64)save->offset;
	base = w->cfa;
	if (save->kind == SAVE_MEMORY || save->kind == SAVE_COPY) {
		if (!is_known(w, save->base))
			return 0;
		base = w->registers[save->base & (REG_ROOM_ - 1)];
	}
	base += offset;
	if (save->kind == SAVE_VALUE || save->kind == SAVE_COPY) {
		w->restored[index] = base;
		return 1;
	}
	if (save->kind != SAVE_CFA && save->kind != SAVE_MEMORY)
		return 0;
	offset = (base - w->block_start) >> 3;
	if (offset < BLOCK && !(base & 7) && w->has_block) {
		w->restored[index] = w->block[offset & (BLOCK - 1)];
		return 1;
	}
	return read_user(base, &w->restored[index]);
}

/* Continues at the code that a signal interrupted. */
__noinline int leave_signal(struct walk *w)
{
	static const __u8 order[REG_COUNT_] = { SIGNAL_REGISTERS_ORDER };
	__u64 at;

	if (!w)
		return 0;
	at = w->registers[REG_SP_] + SIGNAL_REGISTERS;
	if (!is_known(w, REG_SP_) || ++w->switches > SWITCHES_MAX ||
	    bpf_probe_read_user(w->block, 8 * REG_COUNT_, (const void *)at) != 0)
		return 0;
#pragma unroll
	for (int i = 0; i < REG_COUNT_; i++)
		w->registers[order[i]] = w->block[i];
	w->known = REGISTERS_ALL;
	w->frame = (w->registers[REG_RA_] & (ADDRESS_END - 1)) | FRAME_INTERRUPTED;
	return 1;
}

/* Unwinds to the caller by w->rule. Returns 0 if that is impossible, and w->stop says why. */
static __always_inline int leave_frame(struct walk *w)
{
	static const __u8 registers[BPF_SAVES] = { REG_RA_, SAVED_REGISTERS_ORDER };
	__u64 pc;

	w->stop = BPF_STOP_TRUNCATED;
	if (!compute_cfa(w))
		return 0;
	w->block_start = w->cfa - 8 * BLOCK;
	w->has_block = bpf_probe_read_user(w->block, 8 * BLOCK, (const void *)w->block_start) == 0;
	if (!restore(w, 0))
		return 0;
	/* Stacks grow down, so a caller at a lower address is on another stack. */
	if (w->cfa < w->registers[REG_SP_] + CALL_PUSHES && ++w->switches > SWITCHES_MAX)
		return 0;
	pc = w->restored[0] & config.code_bits;
	if (pc - 1 >= ADDRESS_END - 1) {
		w->stop = pc ? BPF_STOP_TRUNCATED : BPF_STOP_COMPLETE;
		return 0;
	}
	/* Restore all registers before changing any. */
	w->found = 0;
#pragma unroll
	for (__u32 i = 1; i < BPF_SAVES; i++)
		if (w->rule.saves[i].kind != SAVE_SAME && restore(w, i))
			w->found |= 1u << i;
	w->known &= KEPT_REGISTERS;
#pragma unroll
	for (__u32 i = 1; i < BPF_SAVES; i++) {
		if (w->rule.saves[i].kind == SAVE_SAME)
			continue;
		w->registers[registers[i]] = w->restored[i];
		if (w->found >> i & 1)
			w->known |= REGISTER_BIT(registers[i]);
		else
			w->known &= ~REGISTER_BIT(registers[i]);
	}
	w->known |= REGISTER_BIT(REG_SP_) | REGISTER_BIT(REG_RA_);
	w->registers[REG_SP_] = w->cfa;
	w->registers[REG_RA_] = pc;
	w->frame = pc | (w->rule.interrupts ? FRAME_INTERRUPTED : 0);
	return 1;
}

/* Whether signal handlers return to the current frame, whose code has no rule. */
static __always_inline int is_signal_return(const struct walk *w)
{
	__u64 code;

	return (w->stop == BPF_STOP_NO_RULE || !SIGNAL_RETURN_IN_MODULE) &&
	       read_user(w->registers[REG_RA_], &code) && code == SIGNAL_RETURN_CODE;
}

static long walk_frame(__u32 index, struct walk_context *context)
{
	struct scratch *s = context->scratch;
	struct walk *w = &s->walk;
	const struct bpf_rule *rule;
	int left;

	(void)index;
	if (w->total >= BPF_USER_FRAMES) {
		w->stop = BPF_STOP_DEPTH;
		return 1;
	}
	if (w->count >= BPF_PART_FRAMES) {
		s->record.user_count = (__u16)w->count;
		send_part(s, w->at + w->count);
		w->at = w->count = 0;
	}
	s->words[(w->at + w->count) & (BPF_FRAME_WORDS - 1)] = w->frame;
	w->count++;
	w->total++;
	rule = find_rule(w);
	if (!rule && is_signal_return(w))
		return !leave_signal(w);
	if (!rule) {
		/* The dynamic linker's first instructions have no rules, but no caller either. */
		if (w->registers[REG_SP_] == w->start_stack && is_known(w, REG_SP_))
			w->stop = BPF_STOP_COMPLETE;
		return 1;
	}
	w->rule = *rule;
	if (w->rule.cfa >= CFA_REGISTER && w->rule.cfa <= CFA_PLT)
		return !leave_frame(w);
	w->stop = w->rule.cfa == CFA_END ? BPF_STOP_COMPLETE : BPF_STOP_TRUNCATED;
	if (w->rule.cfa != CFA_SIGNAL)
		return 1;
	left = leave_signal(w);
	/* `left` is 0 or 1. The verifier would not understand the compiler's bit flip. */
	asm volatile("" : "+r"(left));
	return left == 0;
}

/* --- the walk --- */

/*
 * Reads the registers with which the current thread entered the operating system's kernel. Returns
 * 0 if it does not run 64-bit user code.
 */
static __always_inline int enter_walk(struct walk *w)
{
	static const __u8 words[REG_COUNT_] = { KERNEL_REGISTER_WORDS };
	long entry = bpf_task_pt_regs(bpf_get_current_task_btf());

	if (!entry || bpf_probe_read_kernel(w->entry, sizeof(w->entry), (const void *)entry) != 0 ||
	    !KERNEL_IS_64_BIT(w->entry))
		return 0;
#pragma unroll
	for (int i = 0; i < REG_COUNT_; i++)
		w->registers[i] = w->entry[words[i]];
	w->known = REGISTERS_ALL;
	w->frame = (w->registers[REG_RA_] & (ADDRESS_END - 1)) | FRAME_INTERRUPTED;
	return 1;
}

/* Copies registers and stack of the last frame, after `at` words. Returns the number of words. */
static __always_inline __u32 copy_stack(struct scratch *s, __u32 at)
{
	struct walk *w = &s->walk;
	__u64 from = w->registers[REG_SP_];
	__u32 words = 0;

	at &= BPF_FRAME_WORDS - 1;
	for (__u32 i = 0; i < REG_COUNT_; i++)
		s->words[at + i] = w->registers[i];
	at += REG_COUNT_;
	/* To the end of the page, then page by page, until one is not mapped. */
	for (__u32 i = 0; i < BPF_STACK_PAGES && !(from & 7); i++) {
		__u32 size = BPF_STACK_PAGE - ((__u32)from & (BPF_STACK_PAGE - 1));
		__u32 place = words & (BPF_STACK_PAGES * BPF_STACK_PAGE / 8 - 1);

		if (bpf_probe_read_user(&s->words[at + place], size, (const void *)from) != 0)
			break;
		from += size;
		words += size / 8;
	}
	s->record.known = w->known;
	s->record.copied = 1;
	s->record.copy_bytes = words * 8;
	return REG_COUNT_ + words;
}

#endif
