#include "sampler/python/sampled_python_read.h"

#include "base/bytes.h"

/* Offsets in glibc's struct pthread: its own address (also at 0), and the thread id. */
#define THREAD_SELF 16u
#define THREAD_ID 0x2d0u
#define USER_END (UINT64_C(1) << 47)

static bool read_word(const struct python_memory *memory, uint64_t address, void *out)
{
	return memory->read(memory->context, address, out, sizeof(uint64_t));
}

/* --- threads --- */

static bool is_pointer(uint64_t word)
{
	return word >= 4096 && word < USER_END && !(word & 7);
}

bool sampled_thread_is_at(const struct python_memory *memory, uint64_t base, pid_t tid)
{
	uint64_t word, self;
	int32_t id;

	return is_pointer(base) && read_word(memory, base, &word) && word == base &&
	       read_word(memory, base + THREAD_SELF, &self) && self == base &&
	       memory->read(memory->context, base + THREAD_ID, &id, sizeof(id)) && id == tid;
}

uint64_t sampled_thread_find(const struct python_memory *memory,
			     const struct python_offsets *offsets, pid_t tid, const uint64_t *words,
			     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t owner;

		if (!is_pointer(words[i]))
			continue;
		if (sampled_thread_is_at(memory, words[i], tid))
			return words[i];
		if (read_word(memory, words[i] + offsets->state_thread, &owner) &&
		    sampled_thread_is_at(memory, owner, tid))
			return owner;
	}
	return 0;
}

/* --- frames --- */

/* Reads parts of the objects that the code object refers to. */
static bool read_referred(const struct python_memory *memory, const struct python_offsets *o,
			  struct bpf_code *c)
{
	uint64_t text = c->file + o->string_head, last;

	if (!read_word(memory, c->name + o->object_size + 8, &c->name_hash) ||
	    !read_word(memory, c->file + o->object_size, &c->file_length) ||
	    !read_word(memory, text, &c->file_start) ||
	    !read_word(memory, c->lines + o->object_size, &c->lines_length) ||
	    !read_word(memory, c->lines + o->object_size + 16, &c->lines_start))
		return false;
	last = c->file_length > 8 ? c->file_length - 8 : 0;
	if (!read_word(memory, text + last, &c->file_end))
		return false;
	c->file_start = bpf_text_word(c->file_start, c->file_length);
	c->file_end = bpf_text_word(c->file_end, c->file_length);
	c->lines_start = bpf_text_word(c->lines_start, c->lines_length);
	return true;
}

/* Computes bpf_python_check() of a code object. */
static bool read_check(const struct python_memory *memory, const struct python_offsets *o,
		       uint64_t address, uint32_t *check)
{
	uint8_t bytes[BPF_PYTHON_CODE];
	struct bpf_code c = { 0 };

	if (!memory->read(memory->context, address, bytes, sizeof(bytes)))
		return false;
	c.file = load_u64(bytes + o->code_file);
	c.name = load_u64(bytes + o->code_qualname);
	c.lines = load_u64(bytes + o->code_lines);
	c.first_line = load_u32(bytes + o->code_first_line);
	if (o->code_version)
		c.version = load_u32(bytes + o->code_version);
	else if (!read_referred(memory, o, &c))
		return false;
	*check = bpf_python_check(&c);
	return true;
}

/* Returns the address of the thread state; 0: the thread has none. */
static uint64_t state_of(const struct python_location *location, const struct python_memory *memory,
			 uint64_t thread_base)
{
	uint64_t state, owner;

	return read_word(memory, thread_base + (uint64_t)(int64_t)location->state_at, &state) &&
			       is_pointer(state) &&
			       read_word(memory, state + location->runtime.offsets.state_thread,
					 &owner) &&
			       owner == thread_base
		       ? state
		       : 0;
}

unsigned sampled_python_read(const struct python_location *location,
			     const struct python_memory *memory, uint64_t thread_base,
			     struct python_frame *frames, uint64_t *words, unsigned max,
			     bool *complete)
{
	uint64_t code = 0;
	uint32_t check = 0;
	unsigned count;

	count = python_walk_foreign(&location->runtime, memory,
				    state_of(location, memory, thread_base), frames, max, complete);
	for (unsigned i = 0; i < count; i++) {
		if (frames[i].code != code) {
			code = frames[i].code;
			check = 0;
			if (code && !read_check(memory, &location->runtime.offsets, code, &check)) {
				*complete = false;
				return i;
			}
		}
		words[2 * i] = code;
		words[2 * i + 1] = (uint64_t)check << 32 | (frames[i].last & ~BPF_PYTHON_ENTRY) |
				   (frames[i].entry ? BPF_PYTHON_ENTRY : 0);
	}
	return count;
}

/* --- code objects --- */

/* Copies at most `size` bytes of an object, to the end of its page if more is not mapped. */
static uint32_t copy_object(const struct python_memory *memory, uint64_t address, uint8_t *to,
			    uint64_t size, uint32_t max)
{
	size = MIN(size, max);
	if (memory->read(memory->context, address, to, size))
		return (uint32_t)size;
	size = MIN(size, 4096 - (address & 4095));
	return memory->read(memory->context, address, to, size) ? (uint32_t)size : 0;
}

bool sampled_code_copy(const struct python_offsets *o, const struct python_memory *memory,
		       struct bpf_code_record *out)
{
	uint64_t length = 0;

	if (!memory->read(memory->context, out->address, out->code, sizeof(out->code)))
		return false;
	out->name_address = load_u64(out->code + o->code_qualname);
	out->file_address = load_u64(out->code + o->code_file);
	out->lines_address = load_u64(out->code + o->code_lines);
	out->name_bytes =
		copy_object(memory, out->name_address, out->name, BPF_NAME_BYTES, BPF_NAME_BYTES);
	out->file_bytes =
		copy_object(memory, out->file_address, out->file, BPF_FILE_BYTES, BPF_FILE_BYTES);
	if (!read_word(memory, out->lines_address + o->object_size, &length))
		length = 0;
	out->lines_bytes =
		copy_object(memory, out->lines_address, out->lines,
			    o->object_size + 16 + MIN(length, BPF_LINES_BYTES), BPF_LINES_BYTES);
	return true;
}
