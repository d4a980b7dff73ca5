#include "sampler/python/sampled_python.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/io.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "sampler/process_memory.h"
#include "sampler/sampled_processes.h"
#include "sampler/python/sampled_python_file.h"
#include "stack/python/python_splice.h"

#define CODES_MAX 65536u /* limits per process, which may be hostile */
#define LINES_BYTES_MAX ((size_t)64 << 20) /* of all line tables; later ones are not stored */
#define STRING_BYTES 16384u /* maximum size of a str object */
#define RETRY_NS NS_PER_S /* code objects that could not be described are read again after it, */
#define RENEW_NS (30 * NS_PER_S) /* and the others after this */
#define TRIES_MAX 1000u /* limit of attempts to find the thread state */
#define KEPT_FRAMES 4u

/*
 * Thread-specific data in glibc's struct pthread: 32 pairs of 8-byte words, of which the second is
 * the value.
 */
#define SPECIFIC_DATA 0x310
#define SPECIFIC_KEYS 32
#define STATIC_TLS_BYTES 8192 /* bytes below fs that are searched for a thread-local variable */

/* The description of a code object. */
struct code {
	uint64_t key; /* in the index */
	uint64_t seen_ns;
	uint32_t first_line;
	uint32_t lines_length;
	uint8_t *lines;
	char *function, *file; /* NULL: it could not be described */
	/* A cache of frames, indexed by a hash of the instruction offset; frame 0: none. */
	uint32_t instructions[KEPT_FRAMES];
	uint64_t frames[KEPT_FRAMES];
};

struct sampled_python {
	pid_t pid;
	struct python_runtime runtime; /* with addresses in the other process */
	struct python_eval eval;
	struct bpf_python layout;
	unsigned tries;
	struct map index; /* code object and check -> item of codes */
	VEC(struct code) codes;
	size_t lines_bytes; /* of codes */
	uint64_t unnamed;
	/* of the stack being merged: its Python frames; these in the recording, 0: unnamed */
	struct python_frame frames[STACK_PYTHON_MAX];
	uint64_t described[STACK_PYTHON_MAX];
};

static bool peek(pid_t pid, uint64_t address, void *out, size_t size)
{
	struct iovec local = { out, size }, remote = { (void *)(uintptr_t)address, size };

	errno = 0;
	return process_memory_read(pid, &local, 1, &remote, 1) == (ssize_t)size;
}

/* Implements python_memory.read; context is the process's id. */
static bool peek_process(void *pid, uintptr_t address, void *out, size_t size)
{
	return peek(*(const pid_t *)pid, address, out, size);
}

/* The copy of a code object; bytes that it lacks are read from the process. */
struct code_copy {
	pid_t pid;
	const struct bpf_code_record *record;
};

static bool copy_has(uint64_t start, size_t have, const uint8_t *bytes, uint64_t address, void *out,
		     size_t size)
{
	uint64_t offset = address - start;

	if (offset >= have || size > have - offset)
		return false;
	memcpy(out, bytes + offset, size);
	return true;
}

/* Like peek(), but uses the copy. */
static bool read_copy(const struct code_copy *c, uint64_t address, void *out, size_t size)
{
	const struct bpf_code_record *r = c->record;

	return copy_has(r->name_address, r->name_bytes, r->name, address, out, size) ||
	       copy_has(r->file_address, r->file_bytes, r->file, address, out, size) ||
	       copy_has(r->lines_address, r->lines_bytes, r->lines, address, out, size) ||
	       peek(c->pid, address, out, size);
}

/* --- identifying the interpreter --- */

/* To be called after peek() has failed. A process that has ended is not worth a reason. */
static int explain_unread(struct error *e)
{
	return errno == ESRCH ? -ESRCH : error_set(e, E_UNSUPPORTED, "its memory cannot be read");
}

/* Refuses a version that does not say which it is, by the symbols that it has. */
static int refuse_old(const struct sampled_python_file *file, struct error *e)
{
	struct python_offsets unused;

	if (!file->eval.count)
		return error_set(e, E_UNSUPPORTED, "CPython before 3.6 is not supported");
	return python_offsets_of(file->symbols[PYTHON_CONFIG]    ? 0x030800f0
				 : file->symbols[PYTHON_RUNTIME] ? 0x030700f0
								 : 0x030600f0,
				 &unused, e);
}

static int find_version(struct sampled_python *python, const struct sampled_python_file *file,
			uint64_t bias, struct error *e)
{
	const uint64_t *symbols = file->symbols;
	uint64_t number = 0;

	if (symbols[PYTHON_TRACE_REFS] || symbols[PYTHON_DEBUG])
		return error_set(e, E_UNSUPPORTED, "debug builds of CPython are not supported");
	if (!symbols[PYTHON_GET_BACK])
		return refuse_old(file, e);
	if (!symbols[PYTHON_RUNTIME] || !symbols[PYTHON_BYTES_TYPE] || !file->eval.count)
		return error_set(e, E_UNSUPPORTED, "it lacks symbols of CPython");
	if (symbols[PYTHON_VERSION] &&
	    !peek(python->pid, bias + symbols[PYTHON_VERSION], &number, sizeof(number)))
		return explain_unread(e);
	/* Before 3.11 only a function returns the version: use a symbol that is new in 3.10. */
	if (!number)
		number = symbols[PYTHON_NEW_REF] ? 0x030a00f0 : 0x030900f0;
	if ((number >> 4 & 0xf) < 0xc)
		return error_set(e, E_UNSUPPORTED, "pre-releases of CPython are not supported");
	python->runtime.version = (uint32_t)number;
	return 0;
}

static int find_offsets(struct sampled_python *python, uint64_t runtime, struct error *e)
{
	uint8_t debug[PYTHON_DEBUG_OFFSETS] = { 0 };
	struct python_runtime *r = &python->runtime;
	int err;

	if ((r->version >> 16) < 0x030d) {
		err = python_offsets_of(r->version, &r->offsets, e);
	} else if (peek(python->pid, runtime, debug, sizeof(debug))) {
		err = python_offsets_debug(debug, r->version, &r->offsets, &r->free_threaded, e);
	} else {
		err = explain_unread(e);
	}
	return err;
}

/* Whether all offsets are within the bytes that the BPF programs read. */
static bool fits(const struct python_offsets *o)
{
	const uint16_t words_of_frame[] = { o->frame_code, o->frame_previous, o->frame_last };
	const uint16_t words_of_code[] = { o->code_file, o->code_qualname, o->code_lines,
					   o->code_tlbc };
	const uint16_t numbers_of_code[] = { o->code_first_line, o->code_version,
					     o->code_traceable };
	bool fine = o->frame_owner < BPF_PYTHON_FRAME_MIN &&
		    o->frame_is_entry < BPF_PYTHON_FRAME_MIN &&
		    o->frame_tlbc + 4u <= BPF_PYTHON_FRAME_MIN && !(o->frame_tlbc & 3);

	for (size_t i = 0; i < ARRAY_SIZE(words_of_frame); i++)
		fine &= words_of_frame[i] + 8u <= BPF_PYTHON_FRAME && !(words_of_frame[i] & 7);
	for (size_t i = 0; i < ARRAY_SIZE(words_of_code); i++)
		fine &= words_of_code[i] + 8u <= BPF_PYTHON_CODE && !(words_of_code[i] & 7);
	for (size_t i = 0; i < ARRAY_SIZE(numbers_of_code); i++)
		fine &= numbers_of_code[i] + 4u <= BPF_PYTHON_CODE && !(numbers_of_code[i] & 3);
	return fine;
}

static void lay_out(struct sampled_python *python)
{
	const struct python_offsets *o = &python->runtime.offsets;
	struct bpf_python *p = &python->layout;

	p->layout = (uint8_t)o->layout;
	p->has_cframe = o->has_cframe;
	p->index_unit = o->index_unit;
	p->state_frame = o->state_frame;
	p->state_base = o->state_base;
	p->state_thread = o->state_thread;
	p->cframe_frame = o->cframe_frame;
	p->frame_code = o->frame_code;
	p->frame_previous = o->frame_previous;
	p->frame_last = o->frame_last;
	p->frame_owner = o->frame_owner;
	p->frame_is_entry = o->frame_is_entry;
	p->frame_tlbc = o->frame_tlbc;
	p->code_file = o->code_file;
	p->code_qualname = o->code_qualname;
	p->code_first_line = o->code_first_line;
	p->code_lines = o->code_lines;
	p->code_version = o->code_version;
	p->code_traceable = o->code_traceable;
	p->code_bytecode = o->code_bytecode;
	p->code_tlbc = o->code_tlbc;
	p->object_size = o->object_size;
	p->string_head = o->string_head;
}

static int identify(struct sampled_python *python, const struct sampled_python_file *file,
		    uint64_t bias, struct error *e)
{
	struct python_runtime *r = &python->runtime;
	int err = find_version(python, file, bias, e);

	if (err == 0)
		err = find_offsets(python, bias + file->symbols[PYTHON_RUNTIME], e);
	if (err < 0)
		return err;
	if (!fits(&r->offsets))
		return error_set(e, E_UNSUPPORTED, "its structures are larger than expected");
	r->code_type = bias + file->symbols[PYTHON_CODE_TYPE];
	r->string_type = bias + file->symbols[PYTHON_STRING_TYPE];
	r->bytes_type = bias + file->symbols[PYTHON_BYTES_TYPE];
	python->eval = file->eval;
	for (unsigned i = 0; i < python->eval.count; i++) {
		python->eval.ranges[i].start += bias;
		python->eval.ranges[i].end += bias;
	}
	lay_out(python);
	return 0;
}

/* --- finding the interpreter --- */

static int open_mapping(pid_t pid, uint64_t start, uint64_t end, const char *path)
{
	char name[4608];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, start,
		 end);
	fd = io_open_file(name, NULL);
	if (fd < 0) {
		snprintf(name, sizeof(name), "/proc/%d/root%s", (int)pid, path);
		fd = io_open_file(name, NULL);
	}
	return fd < 0 && pid == CORE_PROCESS ? io_open_file(path, NULL) : fd;
}

static int identify_file(struct targets *t, struct target *p, uint64_t start, int fd,
			 struct sampled_python **out, struct error *e)
{
	_cleanup_free_ struct sampled_python_file *file = malloc(sizeof(*file));
	struct sampled_python *python = calloc(1, sizeof(*python));
	const struct target_range *range = target_range_at(t, p, start);
	int r = file && python ? sampled_python_file_read(fd, file) : -ENOMEM;

	if (r == 0 && range) {
		python->pid = target_pid(p);
		r = identify(python, file, range->bias, e);
		if (r == 0)
			*out = python;
	}
	if (*out != python)
		free(python);
	return r == E_UNSUPPORTED ? r : 0;
}

/*
 * Whether an executable mapping may be an interpreter: the program itself, a libpython, or a
 * program that was started by naming it to the loader, which then is the executable.
 */
static bool is_candidate(const char *path, const char *program)
{
	const char *base = strrchr(path, '/');

	return base && (strncmp(base, "/libpython3", 11) == 0 || strncmp(base, "/python", 7) == 0 ||
			strcmp(path, program) == 0);
}

/* A search through the mappings of a process. */
struct search {
	pid_t pid;
	struct targets *targets;
	struct target *target;
	char program[4096]; /* path of its executable */
	struct sampled_python *found;
	struct error *e;
};

static void begin_search(struct search *s, pid_t pid)
{
	char path[64];

	*s = (struct search){ .pid = pid };
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (readlink(path, s->program, sizeof(s->program) - 1) < 0)
		s->program[0] = '\0';
}

static int try_mapping(void *context, const struct target_mapping *m)
{
	struct search *s = context;
	_cleanup_close_ int fd = -1;
	int r = python_refuse_other(m->path, s->e);

	if (r < 0)
		return r;
	if (!is_candidate(m->path, s->program))
		return 0;
	fd = open_mapping(s->pid, m->start, m->end, m->path);
	r = fd < 0 ? 0 : identify_file(s->targets, s->target, m->start, fd, &s->found, s->e);
	return r == 0 && s->found ? 1 : r;
}

int sampled_python_find(struct targets *t, struct target *p, struct sampled_python **out,
			struct error *e)
{
	struct search s;
	int r;

	begin_search(&s, target_pid(p));
	s.targets = t;
	s.target = p;
	s.e = e;
	r = proc_maps_read(s.pid, try_mapping, &s);
	if (s.found && !ARCH_THREAD_IS_BASE) {
		sampled_python_free(s.found);
		s.found = NULL;
		r = error_set(e, E_UNSUPPORTED,
			      "on " ARCH_NAME ", Python frames are read inside the process only");
	}
	*out = s.found;
	return MIN(r, 0);
}

static int check_mapping(void *context, const struct target_mapping *m)
{
	struct search *s = context;
	struct sampled_python_file *file;
	_cleanup_close_ int fd = -1;
	struct error other = { 0 };
	uint8_t byte;
	bool found;

	if (python_refuse_other(m->path, &other) < 0)
		return CPU_PYTHON_READ; /* so that perf_python.c says it */
	if (!is_candidate(m->path, s->program))
		return 0;
	fd = open_mapping(s->pid, m->start, m->end, m->path);
	file = fd < 0 ? NULL : malloc(sizeof(*file));
	found = file && sampled_python_file_read(fd, file) == 0;
	free(file);
	if (!found)
		return 0;
	return peek(s->pid, m->start, &byte, 1) ? CPU_PYTHON_READ : CPU_PYTHON_FORBIDDEN;
}

enum cpu_python sampled_python_check(pid_t pid)
{
	struct search s;

	begin_search(&s, pid);
	return (enum cpu_python)proc_maps_read(pid, check_mapping, &s);
}

void sampled_python_free(struct sampled_python *python)
{
	if (!python)
		return;
	for (size_t i = 0; i < python->codes.count; i++) {
		free(python->codes.data[i].lines);
		free(python->codes.data[i].function);
		free(python->codes.data[i].file);
	}
	vec_release(&python->codes);
	map_release(&python->index);
	free(python);
}

/* Appends a copy, without the frames, which are of the parent. Returns false: no memory. */
static bool copy_known(struct sampled_python *python, const struct code *code)
{
	struct code copy = { .key = code->key,
			     .first_line = code->first_line,
			     .lines_length = code->lines_length,
			     .lines = malloc(MAX(code->lines_length, 1u)),
			     .function = strdup(code->function),
			     .file = strdup(code->file) };

	if (copy.lines && code->lines)
		memcpy(copy.lines, code->lines, code->lines_length);
	if (!copy.lines || !copy.function || !copy.file ||
	    map_put(&python->index, copy.key, python->codes.count) < 0 ||
	    vec_push(&python->codes, copy) < 0) {
		free(copy.lines);
		free(copy.function);
		free(copy.file);
		return false;
	}
	return true;
}

struct sampled_python *sampled_python_fork(const struct sampled_python *parent, pid_t child)
{
	struct sampled_python *python = calloc(1, sizeof(*python));

	for (size_t i = 0; python && i < parent->codes.count; i++) {
		if (!parent->codes.data[i].function || copy_known(python, &parent->codes.data[i]))
			continue;
		sampled_python_free(python);
		python = NULL;
	}
	if (!python)
		return NULL;
	python->pid = child;
	python->runtime = parent->runtime;
	python->eval = parent->eval;
	python->layout = parent->layout;
	python->lines_bytes = parent->lines_bytes;
	return python;
}

/* --- the thread state --- */

/* Whether this is the state of the thread with this fs: it contains the thread id, glibc's fs. */
static bool is_state(const struct sampled_python *python, uint64_t state, uint64_t thread_base)
{
	uint64_t owner;

	return state && !(state & 7) &&
	       peek(python->pid, state + python->layout.state_thread, &owner, sizeof(owner)) &&
	       owner == thread_base;
}

static bool try_words(struct sampled_python *python, uint64_t thread_base, int64_t from,
		      size_t bytes, size_t step)
{
	uint64_t words[1024];

	if (bytes > sizeof(words) || !peek(python->pid, thread_base + (uint64_t)from, words, bytes))
		return false;
	for (size_t i = 0; i < bytes / 8; i += step) {
		if (!is_state(python, words[i], thread_base))
			continue;
		python->layout.state_at = (int32_t)from + (int32_t)(8 * i);
		python->layout.enabled = 1;
		return true;
	}
	return false;
}
_Static_assert(STATIC_TLS_BYTES <= 1024 * 8, "try_words() has room for them");

bool sampled_python_locate(struct sampled_python *python, uint64_t thread_base)
{
	if (python->layout.enabled || !thread_base || python->tries >= TRIES_MAX)
		return false;
	python->tries++;
	if (try_words(python, thread_base, SPECIFIC_DATA + 8, 16 * SPECIFIC_KEYS - 8, 2))
		return true;
	/* Programs with less thread-local memory have other data below it, or unmapped memory. */
	for (int64_t bytes = STATIC_TLS_BYTES; bytes >= 512; bytes /= 2)
		if (try_words(python, thread_base, -bytes, (size_t)bytes, 1))
			return true;
	return false;
}

const struct bpf_python *sampled_python_layout(const struct sampled_python *python)
{
	return &python->layout;
}

void sampled_python_location(const struct sampled_python *python, struct python_location *out)
{
	out->runtime = python->runtime;
	out->state_at = python->layout.enabled ? python->layout.state_at : 0;
}

/* --- code objects --- */

/* A copy of an object of the process. */
struct object {
	_Alignas(8) uint8_t bytes[STRING_BYTES];
	uint64_t length; /* as stored in the object */
};

/* Copies a str object with its text. Returns false if it is none, or too long. */
static bool copy_string(const struct sampled_python *python, const struct code_copy *copy,
			uint64_t address, struct object *out)
{
	const struct python_offsets *o = &python->runtime.offsets;
	uint64_t size;
	uint32_t state;

	if (!read_copy(copy, address, out->bytes, o->string_head))
		return false;
	out->length = load_u64(out->bytes + o->object_size);
	state = load_u32(out->bytes + o->object_size + 16) >> o->string_kind_bit;
	if (out->length > STRING_BYTES || !(state & 7)) /* no character has 0 bytes */
		return false;
	size = (state & 16 ? o->string_head : o->string_head_wide) + out->length * (state & 7);
	if (size > sizeof(out->bytes) || !read_copy(copy, address, out->bytes, size))
		return false;
	/* The object may have changed between the two reads, so that its text is incomplete. */
	return load_u64(out->bytes + o->object_size) == out->length &&
	       load_u32(out->bytes + o->object_size + 16) >> o->string_kind_bit == state;
}

/* Returns the text of a copied str; NULL: it is empty, or there is no memory. */
static char *text_of(const struct sampled_python *python, const struct object *string, size_t max,
		     bool tail)
{
	_cleanup_free_ char *text = malloc(max);
	bool cut = false;
	size_t n = text ? python_text(&python->runtime, (uintptr_t)string->bytes, text, max, tail,
				      &cut)
			: 0;

	return n ? strndup(text, n) : NULL;
}

/* Copies the line table; stores its length and start in c. NULL: there is none, or no memory. */
static uint8_t *copy_lines(const struct sampled_python *python, const struct code_copy *copy,
			   uint64_t address, struct bpf_code *c)
{
	const struct python_offsets *o = &python->runtime.offsets;
	uint64_t start = 0, text = address + o->object_size + 16;
	uint8_t head[64], *lines;

	if (!read_copy(copy, address, head, o->object_size + 8u) ||
	    load_u64(head + o->object_type) != python->runtime.bytes_type)
		return NULL;
	c->lines_length = load_u64(head + o->object_size);
	if (c->lines_length == 0 || !read_copy(copy, text, &start, MIN(c->lines_length, 8)))
		return NULL;
	c->lines_start = start;
	lines = c->lines_length <= PYTHON_LINES_MAX ? malloc(c->lines_length) : NULL;
	if (!lines || read_copy(copy, text, lines, c->lines_length))
		return lines;
	free(lines);
	return NULL;
}

/* Extracts from the copied strings what the BPF programs have read of them. */
static void read_referred(const struct sampled_python *python, const struct object *name,
			  const struct object *file, struct bpf_code *c)
{
	const struct python_offsets *o = &python->runtime.offsets;
	const uint8_t *text = file->bytes + o->string_head;
	size_t last = file->length > 8 ? file->length - 8 : 0;

	c->name_hash = load_u64(name->bytes + o->object_size + 8);
	c->file_length = file->length;
	c->file_start = bpf_text_word(load_u64(text), file->length);
	c->file_end = bpf_text_word(load_u64(text + last), file->length);
}

/* Copies what a code object refers to. Returns false if it is none, or not the one of the check. */
static bool copy_code(const struct sampled_python *python, const struct bpf_code_record *record,
		      struct object *name, struct object *file, struct code *out)
{
	const struct python_offsets *o = &python->runtime.offsets;
	const struct code_copy copy = { python->pid, record };
	const uint8_t *code = record->code;
	struct bpf_code c = { 0 }, plain;

	if (load_u64(code + o->object_type) != python->runtime.code_type)
		return false;
	c.file = load_u64(code + o->code_file);
	c.name = load_u64(code + o->code_qualname);
	c.lines = load_u64(code + o->code_lines);
	c.first_line = load_u32(code + o->code_first_line);
	if (!copy_string(python, &copy, c.name, name) || !copy_string(python, &copy, c.file, file))
		return false;
	plain = c;
	out->lines = copy_lines(python, &copy, c.lines, &c);
	out->lines_length = out->lines ? (uint32_t)c.lines_length : 0;
	out->first_line = c.first_line;
	if (o->code_version)
		plain.version = load_u32(code + o->code_version);
	else
		read_referred(python, name, file, &c);
	return bpf_python_check(o->code_version ? &plain : &c) == record->check;
}

/* Describes a code object, if it is the one of the check word. */
static bool describe(const struct sampled_python *python, const struct bpf_code_record *record,
		     struct code *out)
{
	struct object name, file;

	if (copy_code(python, record, &name, &file, out)) {
		out->function = text_of(python, &name, PYTHON_NAME_MAX, false);
		out->file = text_of(python, &file, PYTHON_FILE_MAX, true);
		if (out->function && out->file)
			return true;
	}
	free(out->function);
	free(out->file);
	free(out->lines);
	return false;
}

/* Finds or adds a code object. NULL: no room. */
static struct code *code_at(struct sampled_python *python, uint64_t address, uint32_t check)
{
	uint64_t key = hash_u64(address) ^ (uint64_t)check << 16;
	uint64_t *index = map_at(&python->index, key, UINT64_MAX);
	struct code fresh = { .key = key };

	if (!index)
		return NULL;
	if (*index == UINT64_MAX) {
		if (python->codes.count >= CODES_MAX || vec_push(&python->codes, fresh) < 0)
			return NULL;
		*index = python->codes.count - 1;
	}
	return &python->codes.data[*index];
}

/* Describes a code object anew, if that is possible. */
static void renew_code(struct sampled_python *python, const struct bpf_code_record *record,
		       struct code *code)
{
	struct code fresh = { .key = code->key, .seen_ns = clock_monotonic_ns() };

	code->seen_ns = fresh.seen_ns;
	if (!describe(python, record, &fresh))
		return;
	python->lines_bytes -= code->lines_length;
	if (fresh.lines_length > LINES_BYTES_MAX - python->lines_bytes) {
		free(fresh.lines);
		fresh.lines = NULL;
		fresh.lines_length = 0;
	}
	python->lines_bytes += fresh.lines_length;
	free(code->function);
	free(code->file);
	free(code->lines);
	*code = fresh;
}

/* Finds or adds a code object; reads it if it is new, and now and then. NULL: no room. */
static struct code *find_code(struct sampled_python *python, uint64_t address, uint32_t check)
{
	struct code *code = code_at(python, address, check);
	const struct python_memory memory = { peek_process, &python->pid };
	uint64_t now = clock_monotonic_ns();
	struct bpf_code_record record;

	if (!code ||
	    (code->seen_ns && now - code->seen_ns < (code->function ? RENEW_NS : RETRY_NS)))
		return code;
	code->seen_ns = now;
	record.address = address;
	record.check = check;
	if (sampled_code_copy(&python->runtime.offsets, &memory, &record))
		renew_code(python, &record, code);
	return code;
}

/* Whether the numbers of bytes in a record of `size` bytes are within its members. */
static bool is_valid(const struct bpf_code_record *r, size_t size)
{
	return size >= offsetof(struct bpf_code_record, lines) &&
	       r->name_bytes <= sizeof(r->name) && r->file_bytes <= sizeof(r->file) &&
	       r->lines_bytes <= MIN(size, sizeof(*r)) - offsetof(struct bpf_code_record, lines);
}

void sampled_python_add_code(struct sampled_python *python, const struct bpf_code_record *record,
			     size_t size)
{
	struct code *code =
		is_valid(record, size) ? code_at(python, record->address, record->check) : NULL;

	if (code)
		renew_code(python, record, code);
}

/* Returns the frame for a recording; 0: its code object cannot be described. */
static uint64_t frame_of(struct sampled_python *python, struct target *p, uint64_t address,
			 uint32_t check, uint32_t last)
{
	struct code *code = find_code(python, address, check);
	unsigned place = last / 2 % KEPT_FRAMES;
	uint32_t line;

	if (!code || !code->function)
		return 0;
	if (code->frames[place] && code->instructions[place] == last)
		return code->frames[place];
	line = python_table_line(python->runtime.offsets.lines, code->lines, code->lines_length,
				 code->first_line, last);
	code->instructions[place] = last;
	code->frames[place] = target_python_frame(p, code->function, code->file, line);
	return code->frames[place];
}

/* --- stacks --- */

/* Frames without a description are treated like those that the interpreter does not show. */
static void read_frames(struct sampled_python *python, struct target *p,
			const struct sampled_python_stack *stack, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t code = stack->words[2 * i], word = stack->words[2 * i + 1], frame = 0;
		uint32_t last = (uint32_t)word & ~BPF_PYTHON_ENTRY;

		if (code)
			frame = frame_of(python, p, code, (uint32_t)(word >> 32), last);
		python->described[i] = frame;
		python->unnamed += code && !frame;
		python->frames[i] = (struct python_frame){ .code = frame ? code : 0,
							   .id = i + 1,
							   .entry = word & BPF_PYTHON_ENTRY };
	}
}

/*
 * Number of native frames before the first one that Python frames can belong to. An evaluation that
 * is about to begin, or has just ended, has no Python frame; then the innermost evaluation is
 * treated like any native frame.
 */
static unsigned frames_before(const struct sampled_python *python, const struct python_stacks *in)
{
	unsigned evaluations = 0, runs = 0, first = 0;

	for (unsigned i = in->native_count; i-- > 0;) {
		if (!python_eval_has(&python->eval, in->native[i]))
			continue;
		evaluations++;
		first = i;
	}
	for (unsigned i = 0; i < in->python_count; i++)
		runs += in->python[i].entry;
	return in->native_complete && in->python_complete && evaluations == runs + 1 ? first + 1
										     : 0;
}

unsigned sampled_python_merge(struct sampled_python *python, struct target *p,
			      const struct sampled_python_stack *stack, uint64_t *out,
			      enum stack_end *end)
{
	const unsigned max = STACK_FRAMES_MAX;
	uint64_t *described = python->described;
	struct python_stacks in = { .native = stack->native,
				    .native_count = MIN(stack->native_count, STACK_NATIVE_MAX),
				    .native_complete = *end == stack_end_complete,
				    .python = python->frames,
				    .python_count = MIN(stack->python_count, STACK_PYTHON_MAX),
				    .python_complete = stack->python_complete };
	enum python_match match;
	unsigned before, count;

	read_frames(python, p, stack, in.python_count);
	before = frames_before(python, &in);
	memcpy(out, in.native, before * sizeof(*out));
	in.native += before;
	in.native_count -= before;
	count = before + python_splice(&python->eval, &in, out + before, max - before, &match);
	*end = python_splice_end(&in, *end, count, max);
	count = MIN(count, max);
	for (unsigned i = 0; i < count; i++)
		if (out[i] & FRAME_PYTHON)
			out[i] = described[python_frame_code(out[i]) - 1];
	return count;
}

uint64_t sampled_python_unnamed(struct sampled_python *python)
{
	uint64_t n = python->unnamed;

	python->unnamed = 0;
	return n;
}
