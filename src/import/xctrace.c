/*
 * xctrace.c: converts tables of Apple's Instruments, which `xctrace export --xpath` writes: a node
 * for each table, with the names of its columns and its rows. The children of a row are in the
 * order of the columns. An element that has been written before is a reference to its id, with all
 * that was in it. Of several nodes the first one may have the columns and ids of those that follow,
 * or each begins anew. Therefore elements are kept, and an id is the last element that had it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/plural.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"
#include "base/xml_pull.h"

#define ELEMENTS_MAX (1u << 24)
#define COLUMNS_MAX 256u
#define FRAMES_MAX 1024u
#define VISITS_MAX 64u /* in search of an element within one, which can refer to others */
#define FLUSH_ROWS 100000u
#define START_NS NS_PER_S /* times are those since the start of the trace, 0 at first */
#define DEFAULT_WEIGHT_NS 1000000u /* of a sample, as Instruments takes them */

/* Elements are numbered from 1; 0: none. Texts are numbers of k->texts. */
struct element {
	uint64_t number; /* of its text, which is not kept then; nor is how it is shown */
	uint32_t type, text, shown; /* shown: "fmt"; of a frame its name, and the address as text */
	uint32_t child, last, next;
	bool has_number;
};

enum use { GPU_WORK, RANGES, SAMPLES };
static const struct {
	const char *name;
	enum use use;
} schemas[] = {
	{ "metal-gpu-intervals", GPU_WORK },  { "metal-application-intervals", RANGES },
	{ "metal-driver-intervals", RANGES }, { "metal-command-buffer-intervals", RANGES },
	{ "os-signpost-interval", RANGES },   { "os-signpost-intervals", RANGES },
	{ "OSSignpostIntervals", RANGES },    { "metal-application-encoders-list", RANGES },
	{ "time-profile", SAMPLES },          { "time-sample", SAMPLES },
};

/* What is taken from a row: R(id, mnemonics of the column, the first one that is there). */
#define ROLES(R)                                                                                   \
	R(START, "start start-time time sample-time timestamp")                                    \
	R(DURATION, "duration")                                                                    \
	R(LABEL, "label event-label name formatted-label event-type channel-name")                 \
	R(CHANNEL, "channel-name channel channel-subtitle")                                        \
	R(UNIT, "gpu gpu-device device device-name")                                               \
	R(THREAD, "thread")                                                                        \
	R(PROCESS, "process")                                                                      \
	R(WEIGHT, "weight")                                                                        \
	R(STACK, "stack backtrace tagged-backtrace")
#define ROLE_ID(id, mnemonics) ON_##id,
#define ROLE_WORDS(id, mnemonics) mnemonics,
enum role { ROLES(ROLE_ID) ROLES_END };

struct xctrace {
	struct kineto *k;
	struct xml_pull xml;
	int schema; /* item of `schemas`; -1: unknown */
	uint32_t schema_name; /* text; 0: none yet */
	VEC(uint32_t) columns; /* texts */
	int roles[ROLES_END]; /* columns; -1: none */
	VEC(struct element) elements;
	struct map ids; /* of elements that are complete, the last ones */
	uint32_t values[COLUMNS_MAX]; /* elements of the row */
	size_t value_count;
	struct map channels, gpus, symbols; /* channels, gpus: text -> number */
	uint64_t rows, unknown_rows;
	struct strbuf shown; /* "fmt" of the open elements, each with a NUL */
};

static uint32_t intern(struct xctrace *x, const char *text)
{
	return text ? kineto_intern(x->k, text, strlen(text)) : 0;
}

static const char *text_of(const struct xctrace *x, uint32_t number)
{
	return number ? x->k->texts.items[number - 1].text : "";
}

static const struct element *element(const struct xctrace *x, uint32_t number)
{
	static const struct element none;

	return number ? &x->elements.data[number - 1] : &none;
}

/* ---- elements ---- */

/* Adds what has begun. Returns its number, 0 without room, or -ENOMEM. */
static int64_t add_element(struct xctrace *x)
{
	const char *ref = xml_attribute(&x->xml, "ref"), *address = xml_attribute(&x->xml, "addr");
	struct element new = { .type = intern(x, strbuf_text(&x->xml.name)) };
	uint64_t id, found;

	if (x->elements.count >= ELEMENTS_MAX) {
		kineto_count(x->k, KINETO_NO_ROOM_COUNT);
		return 0;
	}
	if (ref && parse_u64(ref, &id) == 0 && map_get(&x->ids, id, &found))
		new = *element(x, (uint32_t)found);
	else if (ref)
		kineto_count(x->k, KINETO_DAMAGED_COUNT);
	if (!ref && address) {
		new.text = intern(x, address);
		new.shown = intern(x, xml_attribute(&x->xml, "name"));
	}
	new.next = 0;
	return vec_push(&x->elements, new) < 0 ? -ENOMEM : (int64_t)x->elements.count;
}

struct open_element {
	uint64_t id;
	size_t shown; /* place in x->shown */
	uint32_t element;
	bool has_id;
};

static int begin_element(struct xctrace *x, struct open_element *open, uint32_t parent)
{
	const char *id = xml_attribute(&x->xml, "id"), *shown = xml_attribute(&x->xml, "fmt");
	int64_t added = add_element(x);

	if (added < 0)
		return -ENOMEM;
	*open = (struct open_element){ .shown = x->shown.length, .element = (uint32_t)added };
	open->has_id = id && parse_u64(id, &open->id) == 0;
	strbuf_adds(&x->shown, shown ? shown : "");
	strbuf_addc(&x->shown, '\0');
	if (parent && added) {
		struct element *p = &x->elements.data[parent - 1];

		if (p->last)
			x->elements.data[p->last - 1].next = open->element;
		else
			p->child = open->element;
		p->last = open->element;
	}
	return x->shown.failed ? -ENOMEM : 0;
}

/* Most texts are times, all different: their numbers are kept in place of them. */
static int end_element(struct xctrace *x, const struct open_element *open)
{
	struct element *e = open->element ? &x->elements.data[open->element - 1] : NULL;
	const char *text = strbuf_text(&x->xml.text), *shown = x->shown.data + open->shown;

	x->shown.length = open->shown;
	if (!e)
		return 0;
	if (!e->child && !e->text && !e->has_number) {
		e->has_number = parse_u64(text, &e->number) == 0;
		if (!e->has_number)
			e->text = *text ? intern(x, text) : 0;
	}
	if (!e->has_number && !e->shown && *shown)
		e->shown = intern(x, shown);
	return open->has_id && map_put(&x->ids, open->id, open->element) < 0 ? -ENOMEM : 0;
}

/*
 * Reads an element of a row with all that is in it. An id counts when its element is complete, so
 * that no element can be within itself.
 */
static int read_element(struct xctrace *x, uint32_t *number)
{
	struct open_element open[XML_DEPTH_MAX];
	unsigned outer = x->xml.depth - 1, depth = 0;
	int rc = XML_OPEN;

	while (rc > 0) {
		if (rc == XML_OPEN) {
			rc = begin_element(x, &open[depth], depth ? open[depth - 1].element : 0);
			depth++;
		} else {
			rc = end_element(x, &open[--depth]);
			*number = open[depth].element;
		}
		if (rc < 0 || x->xml.depth == outer)
			return rc;
		rc = xml_pull_next(&x->xml, x->k->error);
	}
	return rc;
}

/* The first element of a type in an element, which is one itself; 0: there is none. */
static uint32_t find(const struct xctrace *x, uint32_t in, uint32_t type, unsigned *visits)
{
	uint32_t found = in && element(x, in)->type == type ? in : 0;

	for (uint32_t c = element(x, in)->child; c && !found && (*visits)++ < VISITS_MAX;
	     c = element(x, c)->next)
		found = find(x, c, type, visits);
	return found;
}

/* The element of a role in the row; 0: there is none, or no value. */
static uint32_t value_of(struct xctrace *x, enum role role)
{
	uint32_t e = x->roles[role] >= 0 && (size_t)x->roles[role] < x->value_count
			     ? x->values[x->roles[role]]
			     : 0;

	return e && strcmp(text_of(x, element(x, e)->type), "sentinel") != 0 ? e : 0;
}

static const char *shown_of(struct xctrace *x, enum role role)
{
	const struct element *e = element(x, value_of(x, role));

	if (!e->has_number)
		return text_of(x, e->shown ? e->shown : e->text);
	strbuf_clear(&x->k->scratch);
	strbuf_addu(&x->k->scratch, e->number);
	return strbuf_text(&x->k->scratch);
}

static bool number_of(struct xctrace *x, enum role role, uint64_t *value)
{
	const struct element *e = element(x, value_of(x, role));

	*value = e->has_number ? e->number : *value;
	return e->has_number;
}

/* The number in an element of a type within the one of a role, such as the tid of a thread. */
static uint32_t number_in(struct xctrace *x, enum role role, const char *type)
{
	unsigned visits = 0;
	uint32_t e = find(x, value_of(x, role), intern(x, type), &visits);
	uint64_t value = e && element(x, e)->has_number ? element(x, e)->number : 0;

	return value <= UINT32_MAX ? (uint32_t)value : 0;
}

/* ---- rows ---- */

static void add_work(struct xctrace *x, uint64_t start_ns, uint64_t end_ns)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	struct row_kernel row = { .missing = schema_missing(TABLE_kernel),
				  .start_ns = start_ns,
				  .end_ns = end_ns };
	uint32_t unit = intern(x, shown_of(x, ON_UNIT));
	uint64_t number = *shown_of(x, ON_UNIT) ? map_number(&x->gpus, unit) - 1 : 0;
	struct row_device gpu = { .missing = schema_missing(TABLE_device), .name = unit };

	c.name = rows_text(x->k->writer, shown_of(x, ON_LABEL));
	row.config = writer_kernel_config(x->k->writer, &c);
	row.device = (uint32_t)MIN(number, UINT32_MAX);
	if (*shown_of(x, ON_UNIT) && number < KINETO_DEVICES && !(x->k->known_gpus >> number & 1)) {
		gpu.id = row.device;
		x->k->gpus[number] = gpu;
		x->k->known_gpus |= UINT64_C(1) << number;
	}
	x->k->lacks_device |= !*shown_of(x, ON_UNIT);
	x->k->lacks_context = true;
	x->k->used_gpus |= number < KINETO_DEVICES ? UINT64_C(1) << number : 0;
	if (*shown_of(x, ON_CHANNEL))
		row.stream = (uint32_t)map_number(&x->channels, intern(x, shown_of(x, ON_CHANNEL)));
	PRESENT(&row, kernel, start_ns, 1);
	PRESENT(&row, kernel, end_ns, 1);
	kineto_append(x->k, TABLE_kernel, &row);
	kineto_count(x->k, KINETO_WORK_COUNT);
	kineto_count(x->k, KINETO_UNLINKED_COUNT);
}

static void add_range(struct xctrace *x, uint64_t start_ns, uint64_t end_ns)
{
	struct kineto_span span = { .start_ns = start_ns, .end_ns = end_ns, .kind = KINETO_RANGE };

	span.name = intern(x, shown_of(x, ON_LABEL)) & (KINETO_NAMES_MAX - 1);
	kineto_add_span(x->k, number_in(x, ON_THREAD, "tid"), &span);
}

/* A frame's address, whose function is known once it has been added. */
static uint64_t frame_of(struct xctrace *x, const struct element *frame)
{
	struct row_symbol row = { .missing = schema_missing(TABLE_symbol),
				  .session = x->k->session };
	const char *address = text_of(x, frame->text), *name = text_of(x, frame->shown);
	char *end;

	row.address = strtoull(address, &end, 16) & (FRAME_KERNEL - 1);
	if (*end || !row.address)
		row.address = (uint64_t)frame->shown << 4 | 1;
	if (map_add(&x->symbols, row.address) > 0) {
		row.function = rows_text(x->k->writer, name);
		PRESENT(&row, symbol, function, *name);
		kineto_append(x->k, TABLE_symbol, &row);
	}
	return row.address;
}

static void add_sample(struct xctrace *x, uint64_t time_ns)
{
	struct row_cpu_sample row = { .missing = schema_missing(TABLE_cpu_sample),
				      .time_ns = time_ns,
				      .weight_ns = DEFAULT_WEIGHT_NS };
	uint64_t frames[FRAMES_MAX];
	unsigned count = 0, visits = 0;
	uint32_t frame = intern(x, "frame");
	uint32_t column = value_of(x, ON_STACK), e;
	uint32_t stack = find(x, column, intern(x, "backtrace"), &visits);

	stack = stack ? stack : column; /* a tagged one may have the frames itself */
	row.thread = number_in(x, ON_THREAD, "tid");
	number_of(x, ON_WEIGHT, &row.weight_ns);
	for (e = element(x, stack)->child; e && count < FRAMES_MAX; e = element(x, e)->next)
		if (element(x, e)->type == frame)
			frames[count++] = frame_of(x, element(x, e));
	if (count)
		row.stack = stack_tree_id(&x->k->stacks, x->k->writer, frames, count,
					  e ? stack_end_depth : stack_end_complete, NULL);
	PRESENT(&row, cpu_sample, stack, row.stack);
	kineto_append(x->k, TABLE_cpu_sample, &row);
}

/* The process of the recording is that of the first row that has one. */
static void add_process(struct xctrace *x)
{
	enum role from = value_of(x, ON_PROCESS) ? ON_PROCESS : ON_THREAD;

	if (x->k->pid || !value_of(x, from))
		return;
	x->k->pid = number_in(x, from, "pid");
	snprintf(x->k->name, sizeof(x->k->name), "%s", shown_of(x, from));
}

static int add_row(struct xctrace *x)
{
	uint64_t start_ns = 0, duration_ns = 0;
	enum use use;

	kineto_count(x->k, KINETO_EVENTS_COUNT);
	if (x->schema < 0) {
		kineto_count(x->k, KINETO_UNKNOWN_COUNT);
		x->unknown_rows++;
		return 0;
	}
	use = schemas[x->schema].use;
	if (!number_of(x, ON_START, &start_ns) || start_ns > INT64_MAX / 2 ||
	    (use != SAMPLES && (!number_of(x, ON_DURATION, &duration_ns) ||
				duration_ns > INT64_MAX / 2 - start_ns))) {
		kineto_count(x->k, KINETO_UNTIMED_COUNT);
		return 0;
	}
	start_ns += START_NS;
	kineto_extend(x->k, start_ns, start_ns + duration_ns);
	add_process(x);
	if (use == GPU_WORK)
		add_work(x, start_ns, start_ns + duration_ns);
	else if (use == RANGES)
		add_range(x, start_ns, start_ns + duration_ns);
	else
		add_sample(x, start_ns);
	return ++x->rows % FLUSH_ROWS ? 0 : kineto_flush(x->k);
}

static int read_row(struct xctrace *x)
{
	unsigned outer = x->xml.depth;
	int rc;

	x->value_count = 0;
	while ((rc = xml_pull_next(&x->xml, x->k->error)) > 0) {
		uint32_t value = 0;

		if (rc == XML_CLOSE && x->xml.depth < outer)
			return add_row(x);
		if (rc == XML_OPEN && (rc = read_element(x, &value)) < 0)
			return rc;
		if (x->value_count < COLUMNS_MAX)
			x->values[x->value_count++] = value;
	}
	return rc;
}

/* ---- nodes ---- */

/* Says what was left out of the node that ends. */
static void end_node(struct xctrace *x)
{
	if (x->unknown_rows)
		import_note(x->k->result, "left out: %llu row%s of table %.200s, which is unknown",
			    (unsigned long long)x->unknown_rows, plural(x->unknown_rows),
			    text_of(x, x->schema_name));
	x->unknown_rows = 0;
}

/* Whether a text is one of the words. */
static bool is_word(const char *words, const char *text)
{
	size_t length = strlen(text);

	for (const char *at = words; *text && (at = strstr(at, text)); at++)
		if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}

/* Of the mnemonics of a role the first one is taken that a column has. */
static void find_roles(struct xctrace *x)
{
	static const char *const words[] = { ROLES(ROLE_WORDS) };

	for (size_t role = 0; role < ROLES_END; role++) {
		const char *best = NULL;

		x->roles[role] = -1;
		for (size_t i = 0; i < x->columns.count; i++) {
			const char *name = text_of(x, x->columns.data[i]);
			const char *at =
				is_word(words[role], name) ? strstr(words[role], name) : NULL;

			if (at && (!best || at < best)) {
				best = at;
				x->roles[role] = (int)i;
			}
		}
	}
}

static void begin_schema(struct xctrace *x)
{
	x->schema_name = intern(x, xml_attribute(&x->xml, "name"));
	x->schema = -1;
	x->columns.count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(schemas); i++)
		if (!strcmp(text_of(x, x->schema_name), schemas[i].name))
			x->schema = (int)i;
}

static int read_nodes(struct xctrace *x)
{
	int rc;

	while ((rc = xml_pull_next(&x->xml, x->k->error)) > 0) {
		const char *name = strbuf_text(&x->xml.name);

		if (x->k->options->cancel && *x->k->options->cancel)
			return -ECANCELED;
		if (rc == XML_OPEN && !strcmp(name, "trace-toc"))
			return error_set(x->k->error, E_UNSUPPORTED,
					 "'%s' is a table of contents; write a table with `xctrace "
					 "export --xpath '/trace-toc/run/data/table[@schema="
					 "\"metal-gpu-intervals\"]'`",
					 x->k->path);
		if (rc == XML_OPEN && !strcmp(name, "schema"))
			begin_schema(x);
		if (rc == XML_CLOSE && !strcmp(name, "mnemonic") &&
		    x->columns.count < COLUMNS_MAX &&
		    vec_push(&x->columns, intern(x, strbuf_text(&x->xml.text))) < 0)
			return -ENOMEM;
		if (rc == XML_CLOSE && !strcmp(name, "schema"))
			find_roles(x);
		if (rc == XML_CLOSE && !strcmp(name, "node"))
			end_node(x);
		if (rc == XML_OPEN && !strcmp(name, "row") && (rc = read_row(x)) < 0)
			return rc;
	}
	return rc;
}

/* ---- the file ---- */

static int read_file(struct kineto *k)
{
	struct error own = { 0 }, *error = k->error;
	struct xctrace x = { .k = k, .schema = -1, .xml = { .read = kineto_read_text, .user = k } };
	int rc;

	k->error = &own;
	rc = read_nodes(&x);
	k->error = error;
	end_node(&x);
	xml_pull_release(&x.xml);
	strbuf_release(&x.shown);
	vec_release(&x.columns);
	vec_release(&x.elements);
	map_release(&x.ids);
	map_release(&x.channels);
	map_release(&x.gpus);
	map_release(&x.symbols);
	return kineto_end_text(k, rc, &own);
}

static int sniff_head(const struct input *in)
{
	if (!in->head_length || *in->head != '<') /* else it may be in a text of another format */
		return 0;
	return memmem(in->head, in->head_length, "<trace-query-result", 19) ? 90
	       : memmem(in->head, in->head_length, "<trace-toc", 10)        ? 60
									    : 0;
}

KINETO_IMPORTER(xctrace, "XML of xctrace", ".xml", sniff_head, read_file)
