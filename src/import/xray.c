/*
 * xray.c: converts logs of LLVM's XRay, which the instrumentation of compilers writes: calls of
 * functions on their threads. Basic logs are records of 32 bytes. Logs of the flight data recorder
 * are buffers of threads with records of 8 and 16 bytes, whose times are steps from the one before.
 *
 * Functions are numbers: those of the program's table of instrumented places, which is read from
 * the program if it lies beside the log, whose name has its name (xray-log.NAME.XXXXXX).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/folder.h"
#include "base/search.h"
#include "elf/elf_file.h"
#include "import/kineto/kineto.h"
#include "names/demangle.h"

#define HEADER_BYTES 32u
#define BASIC_BYTES 32u
#define METADATA_BYTES 16u
#define FUNCTION_BYTES 8u
#define SLED_BYTES 32u
#define VERSION_MAX 5u
#define FUNCTIONS_MAX (1u << 24)

enum { BASIC = 0, FLIGHT = 1 };
enum { ENTER, EXIT, TAIL_EXIT, ENTER_WITH_ARGUMENT };
enum {
	NEW_BUFFER,
	END_OF_BUFFER,
	NEW_CPU,
	TSC_WRAP,
	WALL_TIME,
	CUSTOM_EVENT,
	CALL_ARGUMENT,
	BUFFER_EXTENTS,
	TYPED_EVENT,
	PROCESS
};

struct function {
	uint64_t address;
	uint32_t name; /* of k->texts */
};
ORDER(compare_functions, struct function, UP(address))

struct xray {
	struct kineto *k;
	unsigned version;
	uint64_t frequency, buffer_bytes;
	VEC(struct function) functions; /* by id - 1; address 0: not in the table */
	uint64_t tsc; /* of the flight data recorder, like the thread */
	uint32_t thread;
};

/* ---- names of functions ---- */

/* The functions of the table, in its order: one has the next number if its address is another. */
static int read_sleds(struct xray *x, const struct elf_file *program)
{
	const struct elf_section *s = elf_section(program, "xray_instr_map");
	struct elf_bytes sleds = elf_named_contents(program, "xray_instr_map");
	uint64_t last = 0;

	for (size_t at = 0; s && at + SLED_BYTES <= sleds.size; at += SLED_BYTES) {
		const uint8_t *sled = sleds.data + at;
		struct function f = { .address = load_u64(sled + 8) };

		if (sled[18] >= 2)
			f.address += s->address + at + 8; /* relative to itself */
		if (f.address == last && x->functions.count)
			continue;
		last = f.address;
		if (x->functions.count >= FUNCTIONS_MAX)
			break;
		if (vec_push(&x->functions, f) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Gives names to the functions that begin where a symbol does. */
static int read_symbols(struct xray *x, const struct elf_file *program)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	VEC(struct function) named = VEC_INIT;
	struct elf_symbols symbols;
	const char *name;
	Elf64_Sym symbol;
	int rc = elf_symbols(program, SHT_SYMTAB, &symbols);

	if (rc < 0)
		rc = elf_symbols(program, SHT_DYNSYM, &symbols);
	for (size_t i = 0; rc >= 0 && elf_symbol(&symbols, i, &symbol, &name); i++) {
		struct function f = { .address = symbol.st_value };

		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || !*name || !f.address)
			continue;
		strbuf_clear(&text);
		demangle(name, &text);
		f.name = kineto_intern(x->k, strbuf_text(&text), text.length);
		rc = vec_push(&named, f);
	}
	vec_sort(&named, compare_functions);
	for (size_t i = 0; i < x->functions.count; i++) {
		struct function *f = &x->functions.data[i];
		size_t at = sorted_prefix(named.count, k, named.data[k].address < f->address);

		if (at < named.count && named.data[at].address == f->address)
			f->name = named.data[at].name;
	}
	vec_release(&named);
	return rc == -ENOMEM || text.failed ? -ENOMEM : 0;
}

/* Opens a file that lies beside the log, or else returns a negative code. */
static int open_beside(const struct kineto *k, const char *name)
{
	const struct import_source *source = k->files->source;
	_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;
	const char *slash = strrchr(source->path, '/');
	int beside, fd;

	if (source->folder >= 0)
		return folder_open_file(source->folder, name, O_RDONLY, FOLDER_ANY);
	strbuf_add(&folder, slash ? source->path : ".",
		   slash ? (size_t)(slash + 1 - source->path) : 1);
	beside = folder_open(strbuf_text(&folder), FOLDER_ANY);
	fd = folder_open_file(beside, name, O_RDONLY, FOLDER_ANY);
	fd_close(&beside);
	return fd;
}

/* Finds the program by the name of the log. Without it functions are numbers. */
static int read_program(struct xray *x)
{
	const char *slash = strrchr(x->k->path, '/'), *log = slash ? slash + 1 : x->k->path, *end;
	struct elf_file program;
	char name[128];
	int fd, rc;

	if (strncmp(log, "xray-log.", 9) != 0 || !(end = strrchr(log + 9, '.')))
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(end - log - 9), log + 9);
	snprintf(x->k->name, sizeof(x->k->name), "%s", name);
	fd = open_beside(x->k, name);
	rc = fd < 0 ? fd : elf_file_open_fd(fd, &program, NULL);
	if (rc < 0) {
		import_note(x->k->result,
			    "functions are numbers: there is no program '%s' beside the log", name);
		return 0;
	}
	rc = read_sleds(x, &program);
	if (rc >= 0)
		rc = read_symbols(x, &program);
	elf_file_release(&program);
	if (rc >= 0 && !x->functions.count)
		import_note(x->k->result,
			    "functions are numbers: '%s' has no table of instrumented places",
			    name);
	return rc;
}

static uint32_t name_of(struct xray *x, uint32_t function)
{
	struct strbuf *text = &x->k->scratch;

	if (function - 1u < x->functions.count && x->functions.data[function - 1].name)
		return x->functions.data[function - 1].name;
	strbuf_clear(text);
	strbuf_addf(text, "function %u", function);
	return kineto_intern(x->k, strbuf_text(text), text->length);
}

/* ---- calls ---- */

/*
 * Times are those of the clock if the machine could not tell its counter's frequency; else they are
 * not tied to it, and begin in 1970. What logs call wall time is that since the machine's start.
 */
static uint64_t time_of(const struct xray *x, uint64_t tsc)
{
	unsigned __int128 ns = (unsigned __int128)tsc * NS_PER_S / x->frequency;

	if (ns < KINETO_ABSOLUTE_NS)
		ns += NS_PER_S;
	return ns > INT64_MAX ? 0 : (uint64_t)ns;
}

static int add_call(struct xray *x, unsigned action, uint32_t function, uint32_t thread,
		    uint64_t time_ns)
{
	uint64_t key[] = { thread, function };
	struct kineto_span span = { .start_ns = time_ns, .kind = KINETO_RANGE };

	kineto_count(x->k, KINETO_EVENTS_COUNT);
	if (!time_ns || time_ns > INT64_MAX) {
		kineto_count(x->k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	kineto_extend(x->k, time_ns, time_ns);
	if (action == EXIT || action == TAIL_EXIT) {
		kineto_end_range(x->k, hash_bytes(key, sizeof(key)), time_ns);
		return 0;
	}
	span.name = name_of(x, function) & (KINETO_NAMES_MAX - 1);
	return kineto_begin_range(x->k, hash_bytes(key, sizeof(key)), thread, &span);
}

/* Reads `size` bytes. Returns 1, 0 at the end, or a negative code; less than that is cut off. */
static int read_bytes(struct xray *x, void *bytes, size_t size, uint64_t *left)
{
	size_t wanted = left ? (size_t)MIN(*left, (uint64_t)size) : size;
	ssize_t n = wanted < size ? 0 : input_read(x->k->input, bytes, size);

	if (left)
		*left -= n > 0 ? (uint64_t)n : wanted;
	x->k->at_end |= n >= 0 && (size_t)n < size && !(left && wanted < size);
	if ((n > 0 && (size_t)n < size) || (wanted < size && wanted))
		snprintf(x->k->broken, sizeof(x->k->broken), "the last record is cut off");
	return n < 0 ? (int)n : (size_t)n == size;
}

static bool is_cancelled(const struct xray *x)
{
	return x->k->options->cancel && *x->k->options->cancel;
}

/* ---- basic logs ---- */

static int read_basic(struct xray *x)
{
	uint8_t b[BASIC_BYTES];
	int rc;

	while ((rc = read_bytes(x, b, sizeof(b), NULL)) > 0) {
		if (is_cancelled(x))
			return -ECANCELED;
		if (x->version >= 3 && !x->k->pid)
			x->k->pid = load_u32(b + 20);
		if (load_u16(b) == 1) /* the argument of the call before it */
			continue;
		if (load_u16(b) > 1 || b[3] > ENTER_WITH_ARGUMENT)
			kineto_count(x->k, KINETO_UNKNOWN_COUNT);
		else if (add_call(x, b[3], load_u32(b + 4), load_u32(b + 16),
				  time_of(x, load_u64(b + 8))) < 0)
			return -ENOMEM;
		import_files_progress(x->k->files, x->k->input);
	}
	return rc;
}

/* ---- logs of the flight data recorder ---- */

/* Skips bytes of the log, such as those of an event of the program itself. */
static int skip(struct xray *x, uint64_t bytes, uint64_t *left)
{
	uint8_t rest[256];
	int rc = 1;

	for (; bytes && rc > 0; bytes -= MIN(bytes, sizeof(rest)))
		rc = read_bytes(x, rest, (size_t)MIN(bytes, sizeof(rest)), left);
	return rc;
}

/* A record of 16 bytes; `left`: bytes of the buffer. Returns as read_bytes(). */
static int read_metadata(struct xray *x, const uint8_t *b, uint64_t *left)
{
	switch (b[0] >> 1) {
	case NEW_BUFFER:
		x->thread = load_u32(b + 1);
		return 1;
	case END_OF_BUFFER:
		return skip(x, x->version < 2 ? *left : 0, left);
	case NEW_CPU:
		x->tsc = load_u64(b + 3);
		return 1;
	case TSC_WRAP:
		x->tsc = load_u64(b + 1);
		return 1;
	case BUFFER_EXTENTS:
		*left = load_u64(b + 1);
		return 1;
	case PROCESS:
		x->k->pid = load_u32(b + 1);
		return 1;
	case CUSTOM_EVENT:
	case TYPED_EVENT:
		kineto_count(x->k, KINETO_MARKERS_COUNT);
		return load_u32(b + 1) <= *left ? skip(x, load_u32(b + 1), left) : 0;
	case WALL_TIME:
	case CALL_ARGUMENT:
		return 1;
	default:
		kineto_count(x->k, KINETO_UNKNOWN_COUNT);
		return 1;
	}
}

/* Version 1 has buffers of one size, later ones begin with theirs. */
static int read_flight(struct xray *x)
{
	uint64_t left = x->version < 2 ? x->buffer_bytes : UINT64_MAX;
	uint8_t b[METADATA_BYTES];
	int rc;

	while ((rc = read_bytes(x, b, FUNCTION_BYTES, &left)) > 0) {
		if (is_cancelled(x))
			return -ECANCELED;
		if (b[0] & 1) {
			rc = read_bytes(x, b + FUNCTION_BYTES, METADATA_BYTES - FUNCTION_BYTES,
					&left);
			if (rc > 0)
				rc = read_metadata(x, b, &left);
		} else {
			x->tsc += load_u32(b + 4);
			if ((b[0] >> 1 & 7) > ENTER_WITH_ARGUMENT)
				kineto_count(x->k, KINETO_UNKNOWN_COUNT);
			else if (add_call(x, b[0] >> 1 & 7, load_u32(b) >> 4, x->thread,
					  time_of(x, x->tsc)) < 0)
				return -ENOMEM;
		}
		if (rc <= 0)
			return rc;
		if (!left)
			left = x->version < 2 ? x->buffer_bytes : UINT64_MAX;
		import_files_progress(x->k->files, x->k->input);
	}
	return rc;
}

/* ---- the file ---- */

static int read_log(struct xray *x)
{
	uint8_t b[HEADER_BYTES];
	int rc = read_bytes(x, b, sizeof(b), NULL);

	if (rc <= 0)
		return rc < 0 ? rc
			      : error_set(x->k->error, E_FORMAT,
					  "'%s' is cut off within its header of 32 bytes",
					  x->k->path);
	x->version = load_u16(b);
	x->frequency = load_u64(b + 8);
	x->buffer_bytes = load_u64(b + 16);
	if (!x->version || x->version > VERSION_MAX || load_u16(b + 2) > FLIGHT)
		return error_set(
			x->k->error, E_UNSUPPORTED,
			"'%s' is of XRay version %u, kind %u; pitot import reads basic logs "
			"and those of the flight data recorder, up to version %u",
			x->k->path, x->version, load_u16(b + 2), VERSION_MAX);
	if (!x->frequency)
		return error_set(x->k->error, E_FORMAT, "'%s': its cycle_frequency cannot be 0",
				 x->k->path);
	rc = read_program(x);
	if (rc < 0)
		return rc;
	return load_u16(b + 2) == BASIC ? read_basic(x) : read_flight(x);
}

static int read_file(struct kineto *k)
{
	struct xray x = { .k = k };
	int rc = read_log(&x);

	if (rc == -ENOMEM)
		error_set(k->error, rc, "out of memory");
	else if (rc < 0 && !k->error->code)
		error_set(k->error, rc, "%s", error_code_text(rc));
	vec_release(&x.functions);
	return rc;
}

/* There are no first bytes of its own; the first record tells most. */
static int sniff_head(const struct input *in)
{
	const char *b = in->head;

	if (in->head_length < HEADER_BYTES + METADATA_BYTES || !load_u16(b) ||
	    load_u16(b) > VERSION_MAX || !load_u64(b + 8))
		return 0;
	b += HEADER_BYTES;
	if (load_u16(in->head + 2) == BASIC)
		return in->head_length >= HEADER_BYTES + BASIC_BYTES && load_u16(b) == 0 &&
				       (uint8_t)b[3] <= ENTER_WITH_ARGUMENT
			       ? 40
			       : 0;
	return load_u16(in->head + 2) == FLIGHT &&
			       (*b == (BUFFER_EXTENTS << 1 | 1) || *b == (NEW_BUFFER << 1 | 1))
		       ? 40
		       : 0;
}

KINETO_IMPORTER(xray, "logs of XRay", "xray-log.", sniff_head, read_file)
