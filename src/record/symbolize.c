/* symbolize.c: makes table symbol from the tables stack_node and module. */
#include "record/symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "analysis/filter.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/path.h"
#include "base/search.h"
#include "base/vec.h"
#include "format/rows.h"
#include "format/segment.h"
#include "format/writer.h"
#include "trace/trace.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define PREFIX "symbols"
#define FOLDER ".symbols-" /* temporary folder of an incomplete run */

/* An address of one process: of an interrupted frame, or a return address. */
struct code_address {
	uint64_t address;
	bool is_return, is_kernel;
};

/* The addresses of a process of the recording. */
struct resolved {
	int number; /* of the process, in the symbolizer */
	VEC(struct code_address) addresses; /* distinct, ascending */
};

/* A row of table symbol from an earlier run. */
struct earlier {
	uint64_t session, address, row;
	uint32_t inline_depth;
};

struct work {
	const char *path; /* the recording */
	struct folder_id id; /* which folder that is */
	char place[64]; /* a path of the folder that leads to it also when it is moved */
	char *temporary; /* folder of the symbols; NULL: they go into the recording */
	struct trace *trace;
	struct symbolize_result *result;
	struct writer *writer;
	struct resolved *processes; /* of the trace */
	VEC(struct symbol_module) modules;
	VEC(struct earlier) earlier; /* sorted by session, address, depth */
};

static uint64_t value(const struct work *w, enum table_id table, int column, uint64_t row)
{
	return trace_value(w->trace, table, column, row, NULL);
}

/* --- addresses --- */

ORDER(by_address, struct code_address, UP(address) ?: UP(is_kernel) ?: DOWN(is_return))

/*
 * Collects the distinct addresses of a process. The address of a native frame is a return address;
 * interrupted frames and frames of the OS kernel have the address of an instruction. An address
 * of both kinds is treated as a return address, because the function is the same.
 */
static int collect(struct work *w, size_t process)
{
	struct row_walk rows = process_rows(w->trace, TABLE_stack_node, process);
	struct resolved *to = &w->processes[process];
	size_t kept = 0;
	int r = 0;

	while (r == 0 && row_walk_next(&rows)) {
		uint64_t kind = value(w, TABLE_stack_node, COLUMN_stack_node_kind, rows.row);
		struct code_address item = {
			.address = value(w, TABLE_stack_node, COLUMN_stack_node_address, rows.row),
			.is_kernel = kind == frame_kind_kernel,
			.is_return = kind == frame_kind_native,
		};

		if (kind != frame_kind_python)
			r = vec_push(&to->addresses, item);
	}
	vec_sort(&to->addresses, by_address);
	for (size_t i = 0; i < to->addresses.count; i++) {
		const struct code_address *a = &to->addresses.data[i];
		const struct code_address *last = kept ? &to->addresses.data[kept - 1] : NULL;

		if (!last || last->address != a->address || last->is_kernel != a->is_kernel)
			to->addresses.data[kept++] = *a;
	}
	to->addresses.count = kept;
	return r;
}

static int collect_modules(struct work *w, size_t process)
{
	struct row_walk rows = process_rows(w->trace, TABLE_module, process);

	w->modules.count = 0;
	while (row_walk_next(&rows)) {
#define MODULE(column) value(w, TABLE_module, COLUMN_module_##column, rows.row)
		struct symbol_module m = {
			.path = row_text(w->trace, TABLE_module, COLUMN_module_path, rows.row),
			.build_id =
				row_text(w->trace, TABLE_module, COLUMN_module_build_id, rows.row),
			.start = MODULE(start_address),
			.end = MODULE(end_address),
			.load_bias = MODULE(load_bias),
			.loaded_ns = MODULE(loaded_ns),
		};
#undef MODULE
		m.loaded_unix_ns = trace_unix_ns(w->trace, m.loaded_ns);
		if (vec_push(&w->modules, m) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Whether the recording was made on this machine since its last boot. */
static bool is_this_boot(const char *boot_id)
{
	_cleanup_strbuf_ struct strbuf here = STRBUF_INIT;

	if (!*boot_id || io_read_file(BOOT_ID, 4096, &here) < 0)
		return false;
	return strncmp(strbuf_text(&here), boot_id, strlen(boot_id)) == 0;
}

static int add_process(struct work *w, size_t process)
{
	const struct trace_process *of = trace_process(w->trace, process);
	struct row_walk rows = process_rows(w->trace, TABLE_process, process);
	struct symbol_process p = { .pid = of->pid, .directory = "" };
	int r = collect_modules(w, process);

	if (r < 0)
		return r;
	while (row_walk_next(&rows)) {
		p.directory = row_text(w->trace, TABLE_process, COLUMN_process_directory, rows.row);
		p.is_here = is_this_boot(
			row_text(w->trace, TABLE_process, COLUMN_process_boot_id, rows.row));
	}
	p.start_unix_ns = trace_unix_ns(w->trace, of->start_ns);
	p.modules = w->modules.data;
	p.module_count = w->modules.count;
	return symbolizer_add_process(w->result->symbolizer, &p);
}

/* --- earlier symbols --- */

ORDER(by_session, struct earlier, UP(session) ?: UP(address) ?: UP(inline_depth))

static int collect_earlier(struct work *w)
{
	for (uint64_t row = 0; row < trace_rows(w->trace, TABLE_symbol); row++) {
		struct earlier item = {
			.session = value(w, TABLE_symbol, COLUMN_symbol_session, row),
			.address = value(w, TABLE_symbol, COLUMN_symbol_address, row),
			.row = row,
			.inline_depth =
				(uint32_t)value(w, TABLE_symbol, COLUMN_symbol_inline_depth, row),
		};

		if (vec_push(&w->earlier, item) < 0)
			return -ENOMEM;
	}
	vec_sort(&w->earlier, by_session);
	return 0;
}

/* Finds the first row that is not before `key`. */
static size_t find_earlier(const struct work *w, const struct earlier *key)
{
	return sorted_prefix(w->earlier.count, i, by_session(&w->earlier.data[i], key) < 0);
}

static const char *text_or_null(const struct work *w, int column, uint64_t row)
{
	const char *s = row_text(w->trace, TABLE_symbol, column, row);

	return *s ? s : NULL;
}

/* Adds the earlier symbol, perhaps from another machine, if no new one was found. */
static void use_earlier(const struct work *w, uint64_t session, uint64_t address,
			struct symbol_answer *answer)
{
	struct earlier key = { .session = session, .address = address };
	const char *function;
	unsigned count = 0;
	bool no_start;

	for (size_t i = find_earlier(w, &key); i < w->earlier.count; i++, count++) {
		const struct earlier *e = &w->earlier.data[i];

		if (e->session != session || e->address != address || e->inline_depth != count ||
		    count == SOURCE_FRAMES_MAX)
			break;
		function = text_or_null(w, COLUMN_symbol_function, e->row);
		if (!function && count == 0)
			return;
		answer->frames[count] = (struct symbol_frame){
			function,
			text_or_null(w, COLUMN_symbol_file, e->row),
			(uint32_t)value(w, TABLE_symbol, COLUMN_symbol_line, e->row),
		};
		if (count > 0)
			continue;
		answer->module = text_or_null(w, COLUMN_symbol_module, e->row);
		answer->function_start = trace_value(
			w->trace, TABLE_symbol, COLUMN_symbol_function_start, e->row, &no_start);
		answer->has_start = !no_start;
	}
	if (!count)
		return;
	answer->count = count;
	answer->source = SOURCE_EARLIER;
}

/* --- rows --- */

static void write_rows(struct work *w, uint64_t session, uint64_t address,
		       const struct symbol_answer *answer)
{
	for (unsigned i = 0; i < answer->count; i++) {
		const struct symbol_frame *f = &answer->frames[i];
		struct row_symbol row = {
			.address = address,
			.inline_depth = i,
			.function = rows_text(w->writer, f->function),
			.module = rows_text(w->writer, answer->module),
			.file = rows_text(w->writer, f->file),
			.line = f->line,
			.function_start = answer->function_start,
			.session = session,
		};

		if (!f->function)
			ROW_MISSING(&row, symbol, function);
		if (!answer->module)
			ROW_MISSING(&row, symbol, module);
		if (!f->file)
			ROW_MISSING(&row, symbol, file);
		if (!f->line)
			ROW_MISSING(&row, symbol, line);
		if (!answer->has_start)
			ROW_MISSING(&row, symbol, function_start);
		writer_append(w->writer, TABLE_symbol, &row);
		w->result->rows++;
	}
	w->result->addresses++;
	w->result->by[answer->source]++;
	w->result->with_line += answer->frames[answer->count - 1].line != 0;
}

static enum address_kind kind_of(const struct code_address *a)
{
	return a->is_return ? ADDRESS_RETURN : ADDRESS_INSTRUCTION;
}

/* Announces all addresses of a process to the symbolizer. */
static int prepare_process(struct work *w, size_t process)
{
	struct resolved *of = &w->processes[process];
	int r = collect(w, process);

	if (r < 0 || !of->addresses.count)
		return r;
	of->number = r = add_process(w, process);
	for (size_t i = 0; i < of->addresses.count && r >= 0; i++) {
		const struct code_address *a = &of->addresses.data[i];

		if (!a->is_kernel)
			r = symbolizer_want(w->result->symbolizer, of->number, a->address,
					    kind_of(a));
	}
	return r;
}

static int resolve_process(struct work *w, size_t process)
{
	const struct resolved *of = &w->processes[process];
	uint64_t session = trace_process(w->trace, process)->session;
	struct symbolizer *s = w->result->symbolizer;
	struct symbol_answer answer;
	int r;

	for (size_t i = 0; i < of->addresses.count; i++) {
		const struct code_address *a = &of->addresses.data[i];

		r = a->is_kernel
			    ? symbolizer_find_kernel(s, of->number, a->address, &answer)
			    : symbolizer_find(s, of->number, a->address, kind_of(a), 0, &answer);
		if (r < 0)
			return r;
		if (!answer.frames[0].function)
			use_earlier(w, session, a->address, &answer);
		write_rows(w, session, a->address, &answer);
	}
	return 0;
}

static int resolve_processes(struct work *w, struct error *e)
{
	size_t count = trace_process_count(w->trace);
	int r;

	w->processes = calloc(count + 1, sizeof(*w->processes));
	r = w->processes ? 0 : -ENOMEM;
	for (size_t p = 0; p < count && r >= 0; p++)
		r = prepare_process(w, p);
	for (size_t p = 0; p < count && r >= 0; p++)
		r = resolve_process(w, p);
	for (size_t p = 0; p < count && w->processes; p++)
		vec_release(&w->processes[p].addresses);
	free(w->processes);
	return r < 0 ? error_set(e, r, "out of memory") : 0;
}

/* Says which functions have no names because their files are gone. */
static void write_missing(struct work *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t count, missing = 0;
	const struct symbol_module_report *reports =
		symbolizer_reports(w->result->symbolizer, &count);

	for (size_t i = 0; i < count; i++) {
		const struct symbol_module_report *m = &reports[i];

		if (!m->has_no_file || !(m->addresses[SOURCE_NONE] + m->addresses[SOURCE_BOUNDS]))
			continue;
		if (!missing++)
			strbuf_addf(&text, "functions of %s have no names: %s", base_name(m->path),
				    m->reason);
	}
	if (missing > 1)
		strbuf_addf(&text, "; the same for %zu more file%s", missing - 1,
			    missing > 2 ? "s" : "");
	if (missing)
		rows_capability(w->writer, feature_symbols, capability_state_degraded, NULL, NULL,
				strbuf_text(&text));
}

/* Writes the symbols into `folder`. */
static int resolve(struct work *w, const char *folder, struct error *e)
{
	struct writer_options options = { .directory = folder, .prefix = PREFIX };
	_cleanup_close_ int opened = folder_open(folder, FOLDER_ANY);
	struct writer_stats stats;
	int r = folder_identify(opened, &options.folder);

	if (r == 0)
		r = writer_open(&options, &w->writer, NULL);

	if (r < 0)
		return error_errno(e, -r, "cannot write symbols into '%s'", w->path);
	r = resolve_processes(w, e);
	write_missing(w);
	writer_flush(w->writer);
	writer_stats(w->writer, &stats);
	if (r == 0 && stats.error)
		r = error_errno(e, stats.error, "cannot write symbols into '%s'", w->path);
	if (r < 0) {
		writer_abandon(&w->writer);
		return r;
	}
	r = writer_close(&w->writer);
	return r < 0 ? error_errno(e, -r, "cannot write symbols into '%s'", w->path) : 0;
}

/* --- files --- */

static bool is_symbol_file(const char *name)
{
	return strncmp(name, PREFIX ".", strlen(PREFIX) + 1) == 0 &&
	       has_suffix(name, SEGMENT_SUFFIX);
}

/* Calls `act` for each symbol file in a folder; stops at the first that fails. */
static int each_file(const char *folder, int (*act)(const char *from, const char *name, void *user),
		     void *user)
{
	_cleanup_list_ DIR *d = opendir(folder);
	struct dirent *entry;
	int r = d ? 0 : -errno;

	while (d && r == 0 && (entry = readdir(d))) {
		_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;

		if (!is_symbol_file(entry->d_name))
			continue;
		strbuf_addf(&path, "%s/%s", folder, entry->d_name);
		r = path.failed ? -ENOMEM : act(strbuf_text(&path), entry->d_name, user);
	}
	return r;
}

static int remove_file(const char *path, const char *name, void *user)
{
	(void)name, (void)user;
	return unlink(path) < 0 ? -errno : 0;
}

static int move_file(const char *from, const char *name, void *recording)
{
	_cleanup_strbuf_ struct strbuf to = STRBUF_INIT;

	strbuf_addf(&to, "%s/%s", (const char *)recording, name);
	if (to.failed)
		return -ENOMEM;
	return rename(from, strbuf_text(&to)) < 0 ? -errno : 0;
}

/* Removes files of an earlier run that had more files. */
static int remove_stale(const char *path, const char *name, void *fresh)
{
	_cleanup_strbuf_ struct strbuf new_path = STRBUF_INIT;

	strbuf_addf(&new_path, "%s/%s", (const char *)fresh, name);
	return access(strbuf_text(&new_path), F_OK) < 0 ? remove_file(path, name, NULL) : 0;
}

static int remove_folder(const char *folder)
{
	int r = each_file(folder, remove_file, NULL);

	return rmdir(folder) < 0 && r == 0 ? -errno : r;
}

/* Removes folders of runs that were killed; the caller holds the lock. */
static void remove_abandoned(const char *path)
{
	_cleanup_list_ DIR *d = opendir(path);
	struct dirent *entry;

	while (d && (entry = readdir(d))) {
		_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;

		if (strncmp(entry->d_name, FOLDER, strlen(FOLDER)) != 0)
			continue;
		strbuf_addf(&folder, "%s/%s", path, entry->d_name);
		if (!folder.failed)
			remove_folder(strbuf_text(&folder));
	}
}

/* Moves the files of `fresh` into the recording, and removes surplus earlier ones. */
static int move_into_recording(struct work *w, const char *fresh, struct error *e)
{
	int r = each_file(w->place, remove_stale, (void *)(uintptr_t)fresh);

	if (r == 0 && w->result->rows)
		r = each_file(fresh, move_file, w->place);
	return r < 0 ? error_errno(e, -r, "cannot put symbols into '%s'", w->path) : 0;
}

/*
 * A lock allows one run at a time to write. On file systems without locks, abandoned folders are
 * not removed.
 */
static int write_symbols(struct work *w, struct error *e)
{
	_cleanup_close_ int id = folder_open_known(w->path, &w->id), lock = -1;
	_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT;
	int r;

	if (id < 0)
		return error_set(e, id, "cannot write into '%s': %s", w->path, error_code_text(id));
	lock = openat(id, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(w->place, sizeof(w->place), "/proc/self/fd/%d", id);
	if (lock >= 0 && flock(lock, LOCK_EX) == 0)
		remove_abandoned(w->place);
	strbuf_addf(&folder, "%s/" FOLDER "XXXXXX", w->place);
	if (folder.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (!mkdtemp(folder.data))
		return error_errno(e, errno, "cannot write into '%s'", w->path);
	r = resolve(w, folder.data, e);
	if (r == 0)
		r = move_into_recording(w, folder.data, e);
	remove_folder(folder.data);
	return r;
}

/* Reads the recording, and writes the symbols. */
static int symbolize(struct work *w, const struct symbolizer_options *options,
		     int (*write)(struct work *w, struct error *e), struct error *e)
{
	static const enum table_id tables[] = { TABLE_stack_node, TABLE_module, TABLE_process,
						TABLE_symbol };
	struct trace_options trace_options = { .threads = 0 };
	int r = trace_open(w->path, &trace_options, &w->trace, e);

	for (size_t i = 0; i < ARRAY_SIZE(tables) && r >= 0; i++)
		r = trace_load(w->trace, tables[i], 0, e);
	if (r >= 0 && collect_earlier(w) < 0)
		r = error_set(e, -ENOMEM, "out of memory");
	if (r >= 0)
		r = symbolizer_new(options, &w->result->symbolizer, e);
	if (r >= 0)
		r = write(w, e);
	vec_release(&w->modules);
	vec_release(&w->earlier);
	trace_free(w->trace);
	if (r < 0)
		symbolize_release(w->result);
	return r < 0 ? r : 0;
}

int symbolize_recording(const char *path, const struct folder_id *id,
			const struct symbolizer_options *options, struct symbolize_result *out,
			struct error *e)
{
	struct work w = { .path = path, .id = *id, .result = out };
	struct stat st;

	*out = (struct symbolize_result){ 0 };
	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return error_set(e, E_USAGE, "'%s' is one segment: name the recording's folder",
				 path);
	return symbolize(&w, options, write_symbols, e);
}

/* The folder is in memory where /dev/shm exists. */
char *symbolize_make_temporary(struct error *e)
{
	char shared[] = "/dev/shm/pitot-XXXXXX", temporary[] = "/tmp/pitot-XXXXXX";
	const char *folder = mkdtemp(shared);
	char *copy;

	if (!folder)
		folder = mkdtemp(temporary);
	if (!folder) {
		error_errno(e, errno, "cannot write into '/tmp'");
		return NULL;
	}
	copy = strdup(folder);
	if (!copy) {
		rmdir(folder);
		error_set(e, -ENOMEM, "out of memory");
	}
	return copy;
}

static int write_temporary(struct work *w, struct error *e)
{
	int r;

	w->temporary = symbolize_make_temporary(e);
	if (!w->temporary)
		return e->code;
	r = resolve(w, w->temporary, e);
	if (r < 0) {
		symbolize_remove_temporary(w->temporary);
		w->temporary = NULL;
	}
	return r;
}

int symbolize_temporary(const char *path, char **folder, struct error *e)
{
	const struct symbolizer_options options = { 0 };
	struct symbolize_result result = { 0 };
	struct work w = { .path = path, .result = &result };
	int r = symbolize(&w, &options, write_temporary, e);

	symbolize_release(&result);
	*folder = w.temporary;
	return r;
}

void symbolize_remove_temporary(char *folder)
{
	if (folder)
		remove_folder(folder);
	free(folder);
}

void symbolize_release(struct symbolize_result *r)
{
	symbolizer_free(r->symbolizer);
	r->symbolizer = NULL;
}
