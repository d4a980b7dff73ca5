/* symbolizer.c: processes, their modules, and the images that modules share. */
#include "symbol/symbolizer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/reserve.h"
#include "base/search.h"
#include "names/demangle.h"
#include "symbol/kernel_symbols.h"
#include "symbol/module_file.h"

#define KALLSYMS "/proc/kallsyms"
#define NO_ITEM UINT32_MAX
#define SYMBOLS_SHARE 4 /* all files together: a quarter of the machine's memory */

/* A file, opened when the first address in it is looked up. */
struct opened {
	struct image image;
	bool is_tried, is_open; /* if it cannot be opened, the report has the reason */
	VEC(uint64_t) wanted; /* ELF addresses, ascending once the file is open; none: any */
	struct symbol_module_report report;
};

struct module {
	struct symbol_module given;
	uint64_t reach; /* the greatest end of this module and those before it */
	uint32_t opened; /* index of `opened`; NO_ITEM: not opened yet */
};

struct process {
	struct symbol_process given;
	struct module *modules; /* sorted by start, then time */
	size_t count;
	bool map_tried;
	struct perf_map map; /* of its JIT-compiled code */
	uint32_t map_report;
};

struct symbolizer {
	const char **folders;
	size_t folder_count;
	struct debuginfod *servers;
	const struct file_copies *file_copies;
	bool no_lines;
	VEC(struct process *) processes;
	VEC(struct opened *) opened;
	uint64_t read_bytes; /* of all files, in memory */
	struct map opened_at; /* text id of a key -> index of `opened` */
	struct interner texts;
	struct map names; /* address of a symbol's name, and its kind -> id of the displayed text */
	bool kernel_tried;
	struct kernel_symbols kernel;
	struct symbol_module_report kernel_report, unmapped_report;
	struct symbol_module_report *reports;
};

static const char *copy_text(struct symbolizer *s, const char *text, size_t length)
{
	int64_t id = interner_add(&s->texts, text, length, NULL);

	return id < 0 ? NULL : s->texts.items[id].text;
}

int symbolizer_new(const struct symbolizer_options *options, struct symbolizer **out,
		   struct error *e)
{
	struct symbolizer *s = calloc(1, sizeof(*s));

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	interner_init(&s->texts);
	s->no_lines = options->no_lines;
	s->servers = options->servers;
	s->file_copies = options->file_copies;
	s->kernel_report.path = "[kernel]";
	s->kernel_report.reason = "";
	s->unmapped_report.reason = "no file was mapped there";
	s->unmapped_report.path = "[unknown]";
	s->folders = calloc(options->debug_folder_count + 1, sizeof(*s->folders));
	for (size_t i = 0; s->folders && i < options->debug_folder_count; i++) {
		const char *folder = options->debug_folders[i];

		s->folders[s->folder_count] = copy_text(s, folder, strlen(folder));
		s->folder_count += s->folders[s->folder_count] != NULL;
	}
	if (!s->folders || s->folder_count < options->debug_folder_count) {
		symbolizer_free(s);
		return error_set(e, -ENOMEM, "out of memory");
	}
	s->folders[s->folder_count++] = "/usr/lib/debug";
	*out = s;
	return 0;
}

static void free_process(struct process *p)
{
	if (p->map_tried)
		perf_map_release(&p->map);
	free(p->modules);
	free(p);
}

void symbolizer_free(struct symbolizer *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->processes.count; i++)
		free_process(s->processes.data[i]);
	for (size_t i = 0; i < s->opened.count; i++) {
		if (s->opened.data[i]->is_open)
			image_release(&s->opened.data[i]->image);
		vec_release(&s->opened.data[i]->wanted);
		free(s->opened.data[i]);
	}
	vec_release(&s->processes);
	vec_release(&s->opened);
	map_release(&s->opened_at);
	map_release(&s->names);
	interner_release(&s->texts);
	kernel_symbols_release(&s->kernel);
	free(s->reports);
	free(s->folders);
	free(s);
}

ORDER(by_start, struct module, UP(given.start) ?: UP(given.loaded_ns))

static int copy_modules(struct symbolizer *s, struct process *p, const struct symbol_process *from)
{
	p->modules = calloc(from->module_count + 1, sizeof(*p->modules));
	if (!p->modules)
		return -ENOMEM;
	for (size_t i = 0; i < from->module_count; i++) {
		struct module *m = &p->modules[p->count++];

		m->given = from->modules[i];
		m->opened = NO_ITEM;
		m->given.path = copy_text(s, m->given.path, strlen(m->given.path));
		m->given.build_id = copy_text(s, m->given.build_id, strlen(m->given.build_id));
		if (!m->given.path || !m->given.build_id)
			return -ENOMEM;
	}
	qsort(p->modules, p->count, sizeof(*p->modules), by_start);
	for (size_t i = 0; i < p->count; i++)
		p->modules[i].reach = MAX(p->modules[i].given.end, i ? p->modules[i - 1].reach : 0);
	return 0;
}

int symbolizer_add_process(struct symbolizer *s, const struct symbol_process *from)
{
	struct process *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->given = *from;
	p->given.modules = NULL;
	p->given.directory = copy_text(s, from->directory, strlen(from->directory));
	p->map_report = NO_ITEM;
	if (!p->given.directory || copy_modules(s, p, from) < 0 ||
	    s->processes.count >= INT32_MAX || vec_push(&s->processes, p) < 0) {
		free_process(p);
		return -ENOMEM;
	}
	return (int)s->processes.count - 1;
}

/* --- modules --- */

/*
 * Finds the module at an address: with a time, the last one loaded before it; else the only one.
 * *is_ambiguous: there were several files.
 */
static struct module *find_module(struct process *p, uint64_t address, uint64_t time_ns,
				  bool *is_ambiguous)
{
	size_t first = sorted_prefix(p->count, i, p->modules[i].reach <= address);
	struct module *best = NULL;

	*is_ambiguous = false;
	for (size_t i = first; i < p->count && !*is_ambiguous; i++) {
		struct module *m = &p->modules[i];
		bool is_other;

		if (address < m->given.start)
			break;
		if (address >= m->given.end)
			continue;
		is_other = best && (best->given.path != m->given.path ||
				    best->given.build_id != m->given.build_id ||
				    best->given.load_bias != m->given.load_bias);
		if (time_ns == 0)
			*is_ambiguous |= is_other;
		else if (best && m->given.loaded_ns > time_ns)
			continue;
		if (!best || best->given.loaded_ns > time_ns ||
		    m->given.loaded_ns >= best->given.loaded_ns)
			best = m;
	}
	return best;
}

/* Adds an item with this path. Returns its index, or -ENOMEM. */
static int64_t add_opened(struct symbolizer *s, const char *path, const char *reason)
{
	struct opened *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->report.path = path;
	o->report.reason = reason;
	if (s->opened.count >= NO_ITEM || vec_push(&s->opened, o) < 0) {
		free(o);
		return -ENOMEM;
	}
	return (int64_t)s->opened.count - 1;
}

/* Opens the image of a module; on failure, the report has the reason. Returns 0 or -ENOMEM. */
static int open_image(struct symbolizer *s, const struct process *p, const struct symbol_module *m,
		      struct opened *o)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT, root = STRBUF_INIT, reason = STRBUF_INIT;
	struct debug_folders folders = { s->folders, s->folder_count, "", s->servers };
	const struct wanted_addresses wanted = { o->wanted.data, o->wanted.count };
	struct image_request request = { .build_id = m->build_id,
					 .folders = &folders,
					 .lines = !s->no_lines,
					 .wanted = wanted.count ? &wanted : NULL };
	struct error e = { 0 }, ignored = { 0 };
	struct elf_file file = { 0 };
	int found, rc;

	o->is_tried = true;
	if (s->read_bytes > memory_share(SYMBOLS_SHARE)) {
		o->report.reason = "not read: the symbols of other files fill the memory";
		return 0;
	}
	vec_sort(&o->wanted, order_u64);
	if (p->given.is_here)
		strbuf_addf(&root, "/proc/%u/root", p->given.pid);
	folders.root = strbuf_text(&root);
	found = module_file_open(&p->given, m, &folders, s->file_copies, &file, &path, &e);
	if (found == -ENOMEM)
		return found;
	request.path = found == 0 ? strbuf_text(&path) : m->path;
	rc = image_open(&o->image, found == 0 ? &file : NULL, &request, &ignored);
	if (rc == -ENOMEM)
		return rc;
	o->is_open = rc == 0;
	s->read_bytes += rc == 0 ? o->image.read_bytes : 0;
	o->report.has_no_file = found < 0;
	strbuf_adds(&reason, found < 0 ? e.text : "");
	if (rc == 0 && o->image.notes.length)
		strbuf_addf(&reason, "%s%s", reason.length ? "; " : "",
			    strbuf_text(&o->image.notes));
	if (rc == 0 && !o->image.symbols.has_any && !o->image.symbols.symbols.count)
		strbuf_addf(&reason, "%sno symbols", reason.length ? "; " : "");
	o->report.reason = copy_text(s, strbuf_text(&reason), reason.length);
	return o->report.reason && !reason.failed ? 0 : -ENOMEM;
}

/* Returns the file of a module; equal build ids mean equal files. NULL: no memory. */
static struct opened *file_of(struct symbolizer *s, const struct process *p, struct module *m)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	uint64_t *known;
	int64_t id, index;

	if (m->opened != NO_ITEM)
		return s->opened.data[m->opened];
	if (*m->given.build_id)
		strbuf_addf(&key, "id %s", m->given.build_id);
	else
		strbuf_addf(&key, "path %d %u %s", p->given.is_here, p->given.pid, m->given.path);
	id = key.failed ? -ENOMEM : interner_add(&s->texts, key.data, key.length, NULL);
	known = id < 0 ? NULL : map_at(&s->opened_at, (uint64_t)id, NO_ITEM);
	if (!known)
		return NULL;
	if (*known == NO_ITEM) {
		index = add_opened(s, m->given.path, "");
		if (index < 0)
			return NULL;
		*known = (uint64_t)index;
	}
	m->opened = (uint32_t)*known;
	return s->opened.data[*known];
}

/* --- names --- */

/*
 * Returns where the suffix begins that compilers append to the name of a function made from
 * another, such as ".part.0"; or the end of the name.
 */
static size_t clone_mark(const char *name, size_t length)
{
	static const char *const marks[] = { "cold",     "part", "constprop", "isra",
					     "lto_priv", "llvm", "localalias" };

	for (size_t i = 1; i < length; i++)
		for (size_t k = 0; name[i] == '.' && k < ARRAY_SIZE(marks); k++) {
			size_t n = strlen(marks[k]);

			if (length - i > n && strncmp(name + i + 1, marks[k], n) == 0 &&
			    (length - i - 1 == n || name[i + 1 + n] == '.'))
				return i;
		}
	return length;
}

/*
 * Appends the demangled name, without the symbol's version ("memcpy@@GLIBC_2.14"), and with clone
 * suffixes in the form of the demangler.
 */
static void add_name(const char *name, enum symbol_kind kind, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf bare = STRBUF_INIT;
	size_t length = *name ? 1 + strcspn(name + 1, "@") : 0, mark;

	strbuf_add(&bare, name, length);
	if (!demangle(strbuf_text(&bare), out)) {
		mark = clone_mark(name, length);
		if (!out->failed)
			out->length -= length - mark;
		if (mark < length)
			strbuf_addf(out, " [clone %.*s]", (int)(length - mark), name + mark);
	}
	if (kind == SYMBOL_PLT)
		strbuf_adds(out, "@plt");
	else if (kind == SYMBOL_IFUNC)
		strbuf_adds(out, "@ifunc");
}

/* Returns the displayed text of a name, identified by its address in an image. NULL: no memory. */
static const char *display_name(struct symbolizer *s, const char *name, enum symbol_kind kind)
{
	uint64_t key = (uint64_t)(uintptr_t)name << 2 | kind, *known;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int64_t id;

	known = map_at(&s->names, key, NO_ITEM);
	if (!known)
		return NULL;
	if (*known == NO_ITEM) {
		add_name(name, kind, &text);
		id = text.failed ? -ENOMEM : interner_add(&s->texts, text.data, text.length, NULL);
		if (id < 0)
			return NULL;
		*known = (uint64_t)id;
	}
	return s->texts.items[*known].text;
}

/* --- addresses --- */

static void clear_answer(struct symbol_answer *answer)
{
	answer->count = 1;
	answer->frames[0] = (struct symbol_frame){ NULL, NULL, 0 };
	answer->source = SOURCE_NONE;
	answer->module = NULL;
	answer->has_start = false;
	answer->function_start = 0;
}

static void count_answer(struct symbol_module_report *report, const struct symbol_answer *answer)
{
	report->addresses[answer->source]++;
	report->with_line += answer->frames[answer->count - 1].line != 0;
}

static enum symbol_source source_of(const struct image *image, const struct image_answer *found)
{
	if (!found->frames[0].function)
		return found->has_start ? SOURCE_BOUNDS : SOURCE_NONE;
	return image->debug.bytes || image->mini.bytes ? SOURCE_DEBUG_FILE : SOURCE_SYMBOLS;
}

static int find_in_image(struct symbolizer *s, struct opened *o, uint64_t address,
			 enum address_kind kind, struct symbol_answer *answer)
{
	struct image_answer found;

	if (image_find(&o->image, address, kind, &found) < 0)
		return -ENOMEM;
	answer->count = found.count;
	answer->has_start = found.has_start;
	answer->function_start = found.start;
	answer->source = source_of(&o->image, &found);
	for (unsigned i = 0; i < found.count; i++) {
		const struct source_frame *from = &found.frames[i];
		struct symbol_frame *to = &answer->frames[i];

		*to = (struct symbol_frame){ NULL, from->file, from->line };
		if (!from->function)
			continue;
		to->function =
			display_name(s, from->function, i == 0 ? found.kind : SYMBOL_FUNCTION);
		if (!to->function)
			return -ENOMEM;
	}
	return 0;
}

static int read_perf_map(struct symbolizer *s, struct process *p)
{
	char path[JIT_MAP_PATH_MAX];
	const char *copied;
	int64_t index;
	int rc = p->given.is_here ? jit_map_open(&p->given, &p->map, path) : -ENOENT;

	p->map_tried = true;
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	copied = copy_text(s, path, strlen(path));
	index = copied ? add_opened(s, copied, "") : -ENOMEM;
	if (index < 0)
		return -ENOMEM;
	p->map_report = (uint32_t)index;
	if (p->map.is_cut)
		s->unmapped_report.reason = "beyond the limit for a map of JIT-compiled code "
					    "(512 MiB, a million functions)";
	return 0;
}

/* Looks up code that is in no file. */
static int find_in_perf_map(struct symbolizer *s, struct process *p, uint64_t address,
			    enum address_kind kind, struct symbol_answer *answer)
{
	const struct jit_function *f;

	if (!p->map_tried && read_perf_map(s, p) < 0)
		return -ENOMEM;
	f = perf_map_find(&p->map, kind == ADDRESS_RETURN && address ? address - 1 : address);
	if (!f) {
		count_answer(&s->unmapped_report, answer);
		return 0;
	}
	answer->frames[0].function = f->name;
	answer->source = SOURCE_PERF_MAP;
	answer->module = s->opened.data[p->map_report]->report.path;
	answer->has_start = true;
	answer->function_start = f->start;
	count_answer(&s->opened.data[p->map_report]->report, answer);
	return 0;
}

/* The call before a return address may be the last instruction of a module. */
static struct module *find_module_of(struct process *p, uint64_t address, enum address_kind kind,
				     uint64_t time_ns, bool *is_ambiguous)
{
	return find_module(p, kind == ADDRESS_RETURN && address ? address - 1 : address, time_ns,
			   is_ambiguous);
}

int symbolizer_want(struct symbolizer *s, int process, uint64_t address, enum address_kind kind)
{
	struct process *p = s->processes.data[process];
	bool is_ambiguous;
	struct module *m = find_module_of(p, address, kind, 0, &is_ambiguous);
	struct opened *o = m && !is_ambiguous ? file_of(s, p, m) : NULL;

	if (!m || is_ambiguous)
		return 0;
	if (!o)
		return -ENOMEM;
	address -= m->given.load_bias;
	if (kind == ADDRESS_RETURN && vec_push(&o->wanted, address - 1) < 0)
		return -ENOMEM;
	return vec_push(&o->wanted, address);
}

static bool is_wanted(const struct opened *o, uint64_t address)
{
	return !o->wanted.count ||
	       bsearch(&address, o->wanted.data, o->wanted.count, sizeof(address), order_u64);
}

int symbolizer_find(struct symbolizer *s, int process, uint64_t address, enum address_kind kind,
		    uint64_t time_ns, struct symbol_answer *answer)
{
	struct process *p = s->processes.data[process];
	bool is_ambiguous;
	struct module *m = find_module_of(p, address, kind, time_ns, &is_ambiguous);
	struct opened *o;

	clear_answer(answer);
	if (!m)
		return find_in_perf_map(s, p, address, kind, answer);
	if (is_ambiguous) {
		s->unmapped_report.reason = "several files were loaded at the same address";
		count_answer(&s->unmapped_report, answer);
		return 0;
	}
	o = file_of(s, p, m);
	if (!o || (!o->is_tried && open_image(s, p, &m->given, o) < 0))
		return -ENOMEM;
	answer->module = m->given.path;
	address -= m->given.load_bias;
	if (o->is_open && is_wanted(o, address) && find_in_image(s, o, address, kind, answer) < 0)
		return -ENOMEM;
	count_answer(&o->report, answer);
	return 0;
}

static int read_kernel(struct symbolizer *s)
{
	struct error e = { 0 };

	s->kernel_tried = true;
	if (kernel_symbols_open(&s->kernel, KALLSYMS, &e) < 0)
		s->kernel_report.reason = copy_text(s, e.text, strlen(e.text));
	return s->kernel_report.reason ? 0 : -ENOMEM;
}

int symbolizer_find_kernel(struct symbolizer *s, int process, uint64_t address,
			   struct symbol_answer *answer)
{
	const struct kernel_function *f = NULL;

	clear_answer(answer);
	answer->module = s->kernel_report.path;
	if (!s->processes.data[process]->given.is_here)
		s->kernel_report.reason = "recorded on another machine, or before the last reboot";
	else if (!s->kernel_tried && read_kernel(s) < 0)
		return -ENOMEM;
	else
		f = kernel_symbols_find(&s->kernel, address);
	if (f) {
		answer->frames[0].function = f->name;
		answer->module = f->module ? f->module : s->kernel_report.path;
		answer->source = SOURCE_KERNEL;
		answer->has_start = true;
		answer->function_start = f->start;
	}
	count_answer(&s->kernel_report, answer);
	return 0;
}

const struct symbol_module_report *symbolizer_reports(struct symbolizer *s, size_t *count)
{
	struct symbol_module_report *reports =
		realloc(s->reports, (s->opened.count + 2) * sizeof(*reports));

	*count = 0;
	if (!reports)
		return NULL;
	s->reports = reports;
	for (size_t i = 0; i < s->opened.count; i++)
		reports[(*count)++] = s->opened.data[i]->report;
	reports[(*count)++] = s->kernel_report;
	reports[(*count)++] = s->unmapped_report;
	return reports;
}
