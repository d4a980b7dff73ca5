/*
 * ncu.c: converts what `ncu --csv` prints, as metrics of kernels: a line for each metric of a
 * kernel (--page details), or a line for each kernel with a column for each metric and a line of
 * units (--page raw). Kernels have no times in it, so they have none in the recording. Whatever the
 * profiled program has printed may stand before the line of names.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/starts_with.h"
#include "format/rows.h"
#include "import/kineto/kineto.h"

#define RECORD_BYTES_MAX ((size_t)64 << 20)
#define FIELDS_MAX 16384u
#define PIECE_BYTES ((size_t)64 << 10)
#define FLUSH_RECORDS 20000u

/* Columns that are no metrics: C(id, name). */
#define COLUMNS(C)                                                                                 \
	C(ID, "ID")                                                                                \
	C(PID, "Process ID")                                                                       \
	C(PROGRAM, "Process Name")                                                                 \
	C(HOST, "Host Name")                                                                       \
	C(KERNEL, "Kernel Name")                                                                   \
	C(TIME, "Kernel Time")                                                                     \
	C(CONTEXT, "Context")                                                                      \
	C(STREAM, "Stream")                                                                        \
	C(BLOCK, "Block Size")                                                                     \
	C(GRID, "Grid Size")                                                                       \
	C(DEVICE, "Device")                                                                        \
	C(CC, "CC")                                                                                \
	C(SECTION, "Section Name")                                                                 \
	C(METRIC, "Metric Name")                                                                   \
	C(UNIT, "Metric Unit")                                                                     \
	C(VALUE, "Metric Value")                                                                   \
	C(RULE, "Rule Name")                                                                       \
	C(RULE_TYPE, "Rule Type")                                                                  \
	C(RULE_TEXT, "Rule Description")                                                           \
	C(SPEEDUP_TYPE, "Estimated Speedup Type")                                                  \
	C(SPEEDUP, "Estimated Speedup")
#define COLUMN_NAME(id, name) name,
#define COLUMN_ID(id, name) AT_##id,
enum column { COLUMNS(COLUMN_ID) COLUMNS_END };

struct ncu {
	struct kineto *k;
	char *piece;
	size_t at, length;
	struct strbuf text; /* of the record: fields, each with a NUL */
	VEC(size_t) fields; /* places in `text` */
	VEC(uint8_t) columns; /* of the names: which column each is; COLUMNS_END: a metric */
	VEC(uint32_t) metrics; /* by field: names of metrics */
	VEC(uint32_t) units;
	size_t needed; /* fields of a record; of rules, which come last, some have none */
	bool decimal_comma; /* the user's locale has points between thousands */
	struct map kernels; /* process id and ID -> correlation */
	uint64_t records;
};

/* ---- records ---- */

static int next_byte(struct ncu *n)
{
	if (n->at == n->length) {
		ssize_t got = input_read(n->k->input, n->piece, PIECE_BYTES);

		if (got <= 0) {
			n->k->at_end = got == 0;
			return got < 0 ? (int)got : -1;
		}
		n->at = 0;
		n->length = (size_t)got;
		import_files_progress(n->k->files, n->k->input);
	}
	return (unsigned char)n->piece[n->at++];
}

/*
 * Reads a record, which ends with its line, unless that is within quotes and records have lines.
 * Returns 1, 0 at the end, or a negative code.
 */
static int read_record(struct ncu *n, bool has_lines)
{
	bool quoted = false, any = false;
	int c, before = 0;

	strbuf_clear(&n->text);
	n->fields.count = 0;
	if (vec_push(&n->fields, 0) < 0)
		return -ENOMEM;
	while ((c = next_byte(n)) >= 0 && (c != '\n' || (quoted && has_lines))) {
		any = true;
		if (c == '"') {
			/* Two quotes within quotes are one: the second one opens again. */
			if (!quoted && before == '"')
				strbuf_addc(&n->text, '"');
			quoted = !quoted;
		} else if (c == ',' && !quoted) {
			strbuf_addc(&n->text, '\0');
			if (n->fields.count >= FIELDS_MAX)
				return E_LIMIT;
			if (vec_push(&n->fields, n->text.length) < 0)
				return -ENOMEM;
		} else if (c != '\r' || quoted) {
			strbuf_addc(&n->text, (char)c);
		}
		before = c;
		if (n->text.length > RECORD_BYTES_MAX)
			return E_LIMIT;
	}
	strbuf_addc(&n->text, '\0');
	return n->text.failed ? -ENOMEM : c < -1 ? c : any || c == '\n';
}

static const char *field(const struct ncu *n, size_t i)
{
	return i < n->fields.count ? n->text.data + n->fields.data[i] : "";
}

/* The text of a column of the record, "" if there is none. */
static const char *value_of(const struct ncu *n, enum column column)
{
	for (size_t i = 0; i < n->columns.count; i++)
		if (n->columns.data[i] == column)
			return field(n, i);
	return "";
}

/* Whether three digits follow each mark, and nothing else. */
static bool is_grouped(const char *text, char mark)
{
	for (text += strcspn(text, (char[]){ mark, '\0' }); *text == mark; text += 4)
		if (strspn(text + 1, "0123456789") != 3)
			return false;
	return !*text;
}

/*
 * Whether only a locale with decimal commas writes a number so: with a comma behind its points, or
 * not before three digits, or with several points before three digits each. 1.234 and 1,234 are
 * numbers of both kinds of locales.
 */
static bool has_decimal_comma(const char *text)
{
	const char *point = strrchr(text, '.'), *comma = strrchr(text, ',');

	if (*text < '0' || *text > '9')
		return false; /* such as the comma between two fields */
	if (comma)
		return comma == strchr(text, ',') &&
		       (point ? point < comma : !is_grouped(text, ','));
	return point && point != strchr(text, '.') && is_grouped(text, '.');
}

/* Looks for such a number, which is in quotes, where the file begins. */
static bool is_of_decimal_commas(const struct input *in)
{
	char number[32];

	for (const char *p = in->head, *end = p + in->head_length;
	     p < end && (p = memchr(p, '"', (size_t)(end - p))); p++) {
		size_t length = MIN((size_t)(end - p - 1), sizeof(number) - 1);

		memcpy(number, p + 1, length);
		number[length] = '\0';
		length = strspn(number, "0123456789.,");
		if (number[length] == '"' && length) {
			number[length] = '\0';
			if (has_decimal_comma(number))
				return true;
		}
	}
	return false;
}

/*
 * Numbers are those of the user's locale: of two kinds of marks the last one is the decimal point,
 * and a comma, or several points, before three digits each separate thousands. With decimal commas
 * one point does so, too.
 */
static bool read_number(const struct ncu *n, const char *text, double *value)
{
	const char *point = strrchr(text, '.'), *comma = strrchr(text, ',');
	char plain[64], *end;
	size_t length = 0;
	bool commas = comma && !point && !n->decimal_comma && is_grouped(text, ',') &&
		      strspn(text, "+-") < (size_t)(comma - text);
	bool points = point && !comma && (n->decimal_comma || point != strchr(text, '.')) &&
		      is_grouped(text, '.');
	char decimal = commas || points ? '\0' : comma && (!point || point < comma) ? ',' : '.';

	for (; *text && length < sizeof(plain) - 1; text++) {
		if (*text == decimal)
			plain[length++] = '.';
		else if (*text != '.' && *text != ',' && *text != '\'')
			plain[length++] = *text;
	}
	plain[length] = '\0';
	*value = strtod(plain, &end);
	return length && !*end && !*text && isfinite(*value);
}

/* ---- the names of columns ---- */

static uint32_t intern(struct ncu *n, const char *text)
{
	return kineto_intern(n->k, text, strlen(text));
}

/* Whether the record is the line of names. */
static bool is_head(const struct ncu *n)
{
	return !strcmp(field(n, 0), "ID") && !strcmp(field(n, 1), "Process ID");
}

static int read_head(struct ncu *n)
{
	static const char *const names[] = { COLUMNS(COLUMN_NAME) };
	int rc;

	do {
		rc = read_record(n, false);
	} while (rc > 0 && !is_head(n));
	for (size_t i = 0; i < n->fields.count && rc > 0; i++) {
		uint8_t column = 0;

		while (column < COLUMNS_END && strcmp(field(n, i), names[column]) != 0)
			column++;
		n->needed = column < AT_RULE || column == COLUMNS_END ? i + 1 : n->needed;
		if (vec_push(&n->columns, column) < 0 ||
		    vec_push(&n->metrics, intern(n, field(n, i))) < 0 || vec_push(&n->units, 0) < 0)
			rc = -ENOMEM;
	}
	return rc;
}

/* ---- kernels and metrics ---- */

/* "(256, 1, 1)" */
static bool read_size(const char *text, uint32_t *x, uint32_t *y, uint32_t *z)
{
	return sscanf(text, " ( %u , %u , %u )", x, y, z) == 3;
}

static uint32_t number_of(const struct ncu *n, enum column column, bool *has)
{
	uint64_t value;

	*has = parse_u64(value_of(n, column), &value) == 0 && value <= UINT32_MAX;
	return *has ? (uint32_t)value : 0;
}

static void add_device(struct ncu *n, uint32_t id)
{
	struct row_device row = { .missing = schema_missing(TABLE_device), .id = id };

	if (id >= KINETO_DEVICES || n->k->known_gpus >> id & 1)
		return;
	if (sscanf(value_of(n, AT_CC), "%u.%u", &row.compute_major, &row.compute_minor) == 2) {
		PRESENT(&row, device, compute_major, 1);
		PRESENT(&row, device, compute_minor, 1);
	}
	n->k->gpus[id] = row;
	n->k->known_gpus |= UINT64_C(1) << id;
}

/* The process is that of the first kernel. */
static void add_process(struct ncu *n)
{
	struct kineto *k = n->k;
	bool has;

	if (n->kernels.count > 1)
		return;
	k->pid = number_of(n, AT_PID, &has);
	snprintf(k->name, sizeof(k->name), "%s", value_of(n, AT_PROGRAM));
	snprintf(k->host, sizeof(k->host), "%s", value_of(n, AT_HOST));
}

static void add_kernel(struct ncu *n, uint64_t correlation)
{
	struct row_kernel_config c = { .missing = schema_missing(TABLE_kernel_config) };
	struct row_kernel row = { .missing = schema_missing(TABLE_kernel),
				  .correlation = correlation };
	bool has_device, has;

	c.name = rows_text(n->k->writer, value_of(n, AT_KERNEL));
	if (read_size(value_of(n, AT_GRID), &c.grid_x, &c.grid_y, &c.grid_z) &&
	    read_size(value_of(n, AT_BLOCK), &c.block_x, &c.block_y, &c.block_z))
		c.missing &= ~(UINT64_C(63) << COLUMN_kernel_config_grid_x);
	row.config = writer_kernel_config(n->k->writer, &c);
	row.device = number_of(n, AT_DEVICE, &has_device);
	row.context = number_of(n, AT_CONTEXT, &has);
	n->k->lacks_context |= !has;
	row.stream = number_of(n, AT_STREAM, &has);
	if (has_device)
		add_device(n, row.device);
	else
		n->k->lacks_device = true;
	n->k->used_gpus |= row.device < KINETO_DEVICES ? UINT64_C(1) << row.device : 0;
	add_process(n);
	kineto_append(n->k, TABLE_kernel, &row);
	kineto_count(n->k, KINETO_WORK_COUNT);
}

/* The kernel of the record, which is new if no record had its id; 0: there is no memory. */
static uint64_t kernel_of(struct ncu *n)
{
	char key[128];
	size_t known = n->kernels.count;
	int length =
		snprintf(key, sizeof(key), "%.60s %.60s", value_of(n, AT_PID), value_of(n, AT_ID));
	uint64_t correlation = map_number(&n->kernels, hash_bytes(key, (size_t)length));

	if (n->kernels.count > known)
		add_kernel(n, correlation);
	return correlation;
}

static void add_metric(struct ncu *n, uint64_t correlation, uint32_t name, uint32_t unit,
		       const char *text)
{
	uint64_t key = (uint64_t)name << 32 | unit;
	struct row_metric_value row = { .correlation = correlation };
	struct row_metric metric = { 0 };
	size_t known = n->k->metrics.count;
	double value;

	if (!*text || !name)
		return;
	if (!read_number(n, text, &value)) {
		if (strcasecmp(text, "n/a") != 0) {
			kineto_count(n->k, KINETO_MARKERS_COUNT); /* such as the GPU's name */
			return;
		}
		ROW_MISSING(&row, metric_value, value);
		value = 0;
	}
	if (known >= KINETO_KINDS_MAX) {
		kineto_count(n->k, KINETO_NO_ROOM_COUNT);
		return;
	}
	row.metric = metric.id = (uint32_t)map_number(&n->k->metrics, key);
	if (n->k->metrics.count > known) {
		metric.name = rows_text(n->k->writer, n->k->texts.items[name - 1].text);
		metric.unit = rows_text(n->k->writer, unit ? n->k->texts.items[unit - 1].text : "");
		kineto_append(n->k, TABLE_metric, &metric);
	}
	memcpy(&row.value, &value, sizeof(value));
	kineto_append(n->k, TABLE_metric_value, &row);
}

static int add_record(struct ncu *n)
{
	const char *id = value_of(n, AT_ID);
	uint64_t correlation;

	/* The line of units is the one without an id. */
	for (size_t i = 0; !*id && i < n->units.count; i++)
		n->units.data[i] = *field(n, i) ? intern(n, field(n, i)) : 0;
	if (!*id)
		return 0;
	if (starts_with(id, "==")) { /* what ncu says */
		kineto_count(n->k, KINETO_MARKERS_COUNT);
		return 0;
	}
	kineto_count(n->k, KINETO_EVENTS_COUNT);
	if (n->fields.count > n->columns.count || n->fields.count < n->needed) {
		kineto_count(n->k, KINETO_DAMAGED_COUNT);
		return 0;
	}
	correlation = kernel_of(n);
	if (!correlation)
		return -ENOMEM;
	if (*value_of(n, AT_METRIC))
		add_metric(n, correlation, intern(n, value_of(n, AT_METRIC)),
			   *value_of(n, AT_UNIT) ? intern(n, value_of(n, AT_UNIT)) : 0,
			   value_of(n, AT_VALUE));
	for (size_t i = 0; i < n->columns.count; i++)
		if (n->columns.data[i] == COLUMNS_END)
			add_metric(n, correlation, n->metrics.data[i], n->units.data[i],
				   field(n, i));
	return ++n->records % FLUSH_RECORDS ? 0 : kineto_flush(n->k);
}

/* ---- the file ---- */

/* The recording begins when the file was written, or now. */
static uint64_t time_of_file(const struct input *in)
{
	struct stat st;

	return fstat(in->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_mtim.tv_sec > 0
		       ? (uint64_t)st.st_mtim.tv_sec * NS_PER_S
		       : clock_read_ns(CLOCK_REALTIME);
}

static int read_file(struct kineto *k)
{
	struct ncu n = { .k = k,
			 .piece = malloc(PIECE_BYTES),
			 .decimal_comma = is_of_decimal_commas(k->input) };
	int rc = n.piece ? read_head(&n) : -ENOMEM;

	while (rc > 0) {
		rc = read_record(&n, true);
		if (rc > 0 && n.text.length > 1)
			rc = add_record(&n) < 0 ? -ENOMEM : 1;
	}
	if (rc == E_LIMIT)
		snprintf(k->broken, sizeof(k->broken), "a line of more than %zu MiB or %u fields",
			 RECORD_BYTES_MAX >> 20, FIELDS_MAX);
	if (rc == -ENOMEM)
		error_set(k->error, rc, "out of memory");
	else if (rc < 0 && rc != E_LIMIT)
		error_set(k->error, rc, "%s", error_code_text(rc));
	if (n.kernels.count)
		k->first_ns = k->last_ns = time_of_file(k->input);
	free(n.piece);
	strbuf_release(&n.text);
	vec_release(&n.fields);
	vec_release(&n.columns);
	vec_release(&n.metrics);
	vec_release(&n.units);
	map_release(&n.kernels);
	return rc == E_LIMIT ? 0 : rc;
}

static int sniff_head(const struct input *in)
{
	static const char head[] = "\"ID\",\"Process ID\",";

	if (!memmem(in->head, in->head_length, head, strlen(head)))
		return 0;
	return *in->head == '"' || *in->head == '=' ? 90 : 50; /* after what the program said */
}

KINETO_IMPORTER(ncu, "CSV of ncu", ".csv", sniff_head, read_file)
