/*
 * python.bpf.h: reads the frames of the current thread's CPython interpreter, innermost first, with
 * the steps of stack/python/python_walk.c.
 *
 * User space tells where a thread stores its state; the state is used only if it says that it
 * belongs to this thread. A frame is the address of its code object with a check word, so that a
 * later code object at the same address is not mistaken for it.
 */
#ifndef PITOT_SAMPLER_EBPF_BPF_PYTHON_BPF_H
#define PITOT_SAMPLER_EBPF_BPF_PYTHON_BPF_H

#include "sampler/ebpf/bpf/walk.bpf.h"

enum { PYTHON_FRAME_OBJECTS, PYTHON_ENTRY_FLAG, PYTHON_ENTRY_FRAME };
enum { OWNER_GENERATOR = 1, OWNER_ENTRY = 3 };

#define STEPS_MAX (2 * BPF_PYTHON_FRAMES + 1) /* some frames are not stored */
#define TAG_BITS 7ull

/* A cache of sampled code objects, indexed by a hash of their key; collisions replace the older. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1u << BPF_PYTHON_SEEN_BITS);
	__type(key, __u32);
	__type(value, __u64);
} python_seen SEC(".maps");

struct python_context {
	struct scratch *scratch;
	const struct bpf_python *python;
	__u64 frame, base; /* base: the sentinel frame that ends the chain, or 0 */
	__u32 count; /* frames in scratch.words */
	__u32 total; /* including those in records of their own */
	int open; /* the current evaluation has a frame */
};

static __always_inline __u64 frame_word(const struct scratch *s, __u16 offset)
{
	__u64 value;

	__builtin_memcpy(&value, &s->python_frame[offset & (BPF_PYTHON_FRAME - 8)], sizeof(value));
	return value;
}

static __always_inline __u64 code_word(const struct scratch *s, __u16 offset)
{
	__u64 value;

	__builtin_memcpy(&value, &s->code.code[offset & (BPF_PYTHON_CODE - 8)], sizeof(value));
	return value;
}

static __always_inline __u32 code_number(const struct scratch *s, __u16 offset)
{
	__u32 value;

	__builtin_memcpy(&value, &s->code.code[offset & (BPF_PYTHON_CODE - 4)], sizeof(value));
	return value;
}

/*
 * Address of the bytecode that the frame executes: builds without the GIL have copies per thread.
 */
static __always_inline __u64 copied_bytecode(const struct scratch *s, const struct bpf_python *p,
					     __u64 code, __u64 copies)
{
	__u64 bytecode = 0;
	__s32 index;

	__builtin_memcpy(&index, &s->python_frame[p->frame_tlbc & (BPF_PYTHON_FRAME - 4)],
			 sizeof(index));
	if (index <= 0 || !copies || !read_user(copies + 8 + 8 * (__u64)index, &bytecode))
		return code + p->code_bytecode;
	return bytecode;
}

/* Whether user space may not know a code object of this process image, according to the cache. */
static __always_inline int is_new_code(__u64 image, __u64 code, __u32 check)
{
	__u64 key = ((code ^ (__u64)check << 32) + image) * 0x9e3779b97f4a7c15ull;
	__u32 place = key >> (64 - BPF_PYTHON_SEEN_BITS);
	__u64 *seen = bpf_map_lookup_elem(&python_seen, &place);

	if (!seen || *seen == key)
		return 0;
	*seen = key;
	return 1;
}

static __always_inline void store_python(struct python_context *c, __u64 code, __u32 last,
					 __u32 check)
{
	struct scratch *s = c->scratch;
	__u32 at;

	if (c->count >= BPF_PART_FRAMES) {
		s->record.python_count = (__u16)c->count;
		send_part(s, 2 * c->count);
		c->count = 0;
	}
	at = 2 * c->count;
	s->words[at & (BPF_FRAME_WORDS - 1)] = code;
	s->words[(at + 1) & (BPF_FRAME_WORDS - 1)] =
		(__u64)check << 32 | (last & ~BPF_PYTHON_ENTRY);
	c->count++;
	c->total++;
	c->open = 1;
}

/* Marks the last frame as the outermost of its evaluation; stores an empty one if there is none. */
static __always_inline void close_evaluation(struct python_context *c)
{
	__u32 at;

	if (!c->open)
		store_python(c, 0, 0, 0);
	at = 2 * c->count - 1;
	c->scratch->words[at & (BPF_FRAME_WORDS - 1)] |= BPF_PYTHON_ENTRY;
	c->open = 0;
}

/* Reads parts of the objects that the code object refers to. */
static __always_inline void read_referred(const struct bpf_python *p, struct bpf_code *c)
{
	__u64 text = c->file + p->string_head, last;

	read_user(c->name + p->object_size + 8, &c->name_hash);
	read_user(c->file + p->object_size, &c->file_length);
	read_user(text, &c->file_start);
	last = c->file_length > 8 ? c->file_length - 8 : 0;
	read_user(text + last, &c->file_end);
	c->file_start = bpf_text_word(c->file_start, c->file_length);
	c->file_end = bpf_text_word(c->file_end, c->file_length);
	read_user(c->lines + p->object_size, &c->lines_length);
	read_user(c->lines + p->object_size + 16, &c->lines_start);
	c->lines_start = bpf_text_word(c->lines_start, c->lines_length);
}

/* The check word of the code object in scratch.code. */
static __always_inline __u32 code_check(const struct scratch *s, const struct bpf_python *p)
{
	struct bpf_code c = { .file = code_word(s, p->code_file),
			      .name = code_word(s, p->code_qualname),
			      .lines = code_word(s, p->code_lines),
			      .first_line = code_number(s, p->code_first_line) };

	if (p->code_version)
		c.version = code_number(s, p->code_version);
	else
		read_referred(p, &c);
	return bpf_python_check(&c);
}

/* Copies at most `size` bytes of an object, to the end of its page if more is not mapped. */
static __always_inline __u32 copy_object(void *to, __u64 address, __u64 size, __u32 max)
{
	__u64 in_page = 4096 - (address & 4095);

	if (size > max)
		size = max;
	if (bpf_probe_read_user(to, (__u32)size, (const void *)address) == 0)
		return (__u32)size;
	if (size > in_page)
		size = in_page;
	/* The verifier of Linux 6.1 learns nothing from comparing two numbers. */
	asm volatile("" : "+r"(size));
	if (size > max)
		size = max;
	return bpf_probe_read_user(to, (__u32)size, (const void *)address) == 0 ? (__u32)size : 0;
}

/* Sends the code object in scratch.code with its names and lines. */
static __always_inline void send_code(struct scratch *s, const struct bpf_python *p, __u64 address,
				      __u32 check)
{
	struct bpf_code_record *r = &s->code;
	__u64 length = 0;

	r->head = s->record;
	r->head.kind = BPF_RECORD_CODE;
	r->address = address;
	r->check = check;
	r->name_address = code_word(s, p->code_qualname);
	r->file_address = code_word(s, p->code_file);
	r->lines_address = code_word(s, p->code_lines);
	r->name_bytes = copy_object(r->name, r->name_address, BPF_NAME_BYTES, BPF_NAME_BYTES);
	r->file_bytes = copy_object(r->file, r->file_address, BPF_FILE_BYTES, BPF_FILE_BYTES);
	read_user(r->lines_address + p->object_size, &length);
	if (length > BPF_LINES_BYTES)
		length = BPF_LINES_BYTES;
	length = copy_object(r->lines, r->lines_address, p->object_size + 16 + length,
			     BPF_LINES_BYTES);
	r->lines_bytes = (__u32)length;
	if (length <= BPF_LINES_BYTES)
		send(r, sizeof(*r) - BPF_LINES_BYTES + length, 0);
}

/* Reads a code object, unless this sample has done so. NULL: it cannot be read. */
static __always_inline const struct known_code *read_code(struct scratch *s,
							  const struct bpf_python *p, __u64 code)
{
	struct known_code *known = &s->known_codes[(code >> 5) & (KNOWN_CODES - 1)];

	if (known->code == code && known->time_ns == s->record.time_ns)
		return known;
	if (bpf_probe_read_user(s->code.code, BPF_PYTHON_CODE, (const void *)code) != 0)
		return NULL;
	known->code = code;
	known->time_ns = s->record.time_ns;
	known->copies = p->code_tlbc ? code_word(s, p->code_tlbc) : 0;
	known->check = code_check(s, p);
	known->traceable = (__s32)code_number(s, p->code_traceable);
	if (is_new_code(s->record.image, code, known->check))
		send_code(s, p, code, known->check);
	return known;
}

/* Stores the frame of a code object if Python would show it. Returns 0 if it cannot be read. */
static __always_inline int read_frame(struct python_context *c, __u64 code, __u32 owner)
{
	const struct bpf_python *p = c->python;
	struct scratch *s = c->scratch;
	const struct known_code *known;
	__s64 last;

	if (!code)
		return 1;
	known = read_code(s, p, code);
	if (!known)
		return 0;
	if (p->layout == PYTHON_FRAME_OBJECTS) {
		last = (__s32)(frame_word(s, p->frame_last));
		store_python(c, code, last > 0 ? (__u32)last * p->index_unit : 0, known->check);
		return 1;
	}
	last = (__s64)(frame_word(s, p->frame_last) -
		       (p->code_tlbc ? copied_bytecode(s, p, code, known->copies)
				     : code + p->code_bytecode));
	if (last < 2 * (__s64)known->traceable) {
		if (owner != OWNER_GENERATOR)
			return 1;
		if (last < 0)
			last = 0;
	}
	store_python(c, code, (__u32)last, known->check);
	return 1;
}

static long walk_python_frame(__u32 index, struct python_context *c)
{
	const struct bpf_python *p = c->python;
	struct scratch *s = c->scratch;
	__u32 owner = 0;
	__u64 code;
	int ends;

	(void)index;
	if (!c->frame || c->frame == c->base) {
		c->frame = 0;
		return 1;
	}
	if (c->total >= BPF_PYTHON_FRAMES)
		return 1;
	/* The frame may be shorter, at the end of its memory. */
	if (bpf_probe_read_user(s->python_frame, BPF_PYTHON_FRAME, (const void *)c->frame) != 0 &&
	    bpf_probe_read_user(s->python_frame, BPF_PYTHON_FRAME_MIN, (const void *)c->frame) != 0)
		return 1;
	code = frame_word(s, p->frame_code) & ~TAG_BITS;
	if (p->layout == PYTHON_FRAME_OBJECTS) {
		ends = 1;
	} else {
		owner = s->python_frame[p->frame_owner & (BPF_PYTHON_FRAME - 1)];
		ends = p->layout == PYTHON_ENTRY_FLAG
			       ? s->python_frame[p->frame_is_entry & (BPF_PYTHON_FRAME - 1)] != 0
			       : owner == OWNER_ENTRY;
	}
	if (owner < OWNER_ENTRY && !read_frame(c, code, owner))
		return 1;
	if (ends)
		close_evaluation(c);
	c->frame = frame_word(s, p->frame_previous);
	return 0;
}

/* Stores the frames of the current thread. Returns the number of words. */
static __always_inline __u32 walk_python(struct scratch *s, const struct bpf_python *p)
{
	struct python_context c = { .scratch = s, .python = p };
	__u64 base = s->record.thread_base, state = 0, owner = 0;

	if (!p->enabled || !base || !read_user(base + (__u64)(__s64)p->state_at, &state) ||
	    !state || !read_user(state + p->state_thread, &owner) || owner != base ||
	    !read_user(state + p->state_frame, &c.frame))
		return 0;
	if (p->state_base && !read_user(state + p->state_base, &c.base))
		return 0;
	if (p->has_cframe && c.frame && !read_user(c.frame + p->cframe_frame, &c.frame))
		return 0;
	bpf_loop(STEPS_MAX, walk_python_frame, &c, 0);
	if (!c.frame && c.open)
		close_evaluation(&c);
	s->record.python_cut = c.frame != 0;
	s->record.python_count = (__u16)c.count;
	return 2 * c.count;
}

#endif
