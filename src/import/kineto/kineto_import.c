/*
 * kineto_import.c: reads a file of Chrome trace JSON, or those in a folder: one for each rank. Each
 * file becomes a process.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "import/kineto/kineto.h"

#define FLUSH_BYTES ((uint64_t)8 << 20) /* of text */
#define BASE_KEY "\"baseTimeNanoseconds\""

/* ---- the base of times ---- */

/* Returns the number that follows a key in an input; false if the key is not there. */
static bool scan_for_number(struct input *in, const char *key, uint64_t *value)
{
	char text[65536 + 64];
	size_t length = 0;
	const char *found = NULL;
	char digits[24];
	ssize_t n;

	while ((n = input_read(in, text + length, sizeof(text) - 1 - length)) > 0) {
		length += (size_t)n;
		found = memmem(text, length, key, strlen(key));
		if (found && (length - (size_t)(found - text) > 63 || length < sizeof(text) - 1))
			break;
		if (length > 64) {
			memmove(text, text + length - 64, 64);
			length = 64;
		}
	}
	text[length] = '\0';
	return found && sscanf(found + strlen(key), " : %20[0-9]", digits) == 1 &&
	       parse_u64(digits, value) == 0;
}

/*
 * Finds a base that comes after the events, which other tools have moved there: reads the whole
 * file ahead. Without one, the time of the events is unknown, as is that of JAX's.
 */
static void find_base(struct kineto *k)
{
	struct input ahead = { .fd = -1 };
	off_t at = lseek(k->input->fd, 0, SEEK_CUR);

	k->has_base = true;
	k->base_ns = NS_PER_S; /* time stamps may be 0 */
	if (at < 0 || lseek(k->input->fd, 0, SEEK_SET) != 0)
		return;
	if (input_open(&ahead, fcntl(k->input->fd, F_DUPFD_CLOEXEC, 3), k->path, k->options->cancel,
		       NULL) == 0)
		scan_for_number(&ahead, BASE_KEY, &k->base_ns);
	input_close(&ahead);
	lseek(k->input->fd, at, SEEK_SET);
}

/* ---- the header ---- */

static bool is_key(const struct kineto *k, const char *key)
{
	return !strcmp(strbuf_text(&k->json.key), key);
}

static int read_distributed(struct kineto *k)
{
	size_t depth = k->json.depth + 1;
	uint64_t value;
	int rc;

	while ((rc = json_pull_next(&k->json, k->error)) > 0 && k->json.depth >= depth) {
		bool good = k->json.kind == JSON_NUMBER && k->json.depth == depth &&
			    parse_u64(strbuf_text(&k->json.text), &value) == 0 &&
			    value <= UINT32_MAX;

		if (good && is_key(k, "rank"))
			k->rank = (int64_t)value;
		if (good && is_key(k, "world_size"))
			k->ranks = (int64_t)value;
	}
	return MIN(rc, 0);
}

/* Sets a limit of a GPU by its key in deviceProperties. */
static void set_property(struct row_device *row, const char *key, uint64_t value)
{
#define PROPERTY(key, column)                                                                      \
	{                                                                                          \
		key, offsetof(struct row_device, column), COLUMN_device_##column                   \
	}
	static const struct {
		const char *key;
		size_t offset;
		int column;
	} all[] = {
		PROPERTY("id", id),
		PROPERTY("computeMajor", compute_major),
		PROPERTY("computeMinor", compute_minor),
		PROPERTY("numSms", multiprocessors),
		PROPERTY("warpSize", warp_size),
		PROPERTY("maxThreadsPerBlock", max_threads_per_block),
		PROPERTY("maxThreadsPerMultiprocessor", max_threads_per_multiprocessor),
		PROPERTY("regsPerBlock", registers_per_block),
		PROPERTY("regsPerMultiprocessor", registers_per_multiprocessor),
		PROPERTY("sharedMemPerBlock", shared_per_block_bytes),
		PROPERTY("sharedMemPerBlockOptin", shared_per_block_optin_bytes),
		PROPERTY("sharedMemPerMultiprocessor", shared_per_multiprocessor_bytes),
		PROPERTY("maxSharedMemoryPerMultiProcessor", shared_per_multiprocessor_bytes),
	};
#undef PROPERTY
	uint32_t narrow = (uint32_t)value;

	if (!strcmp(key, "totalGlobalMem"))
		row->memory_bytes = value;
	for (size_t i = 0; i < ARRAY_SIZE(all) && value <= UINT32_MAX; i++)
		if (!strcmp(key, all[i].key)) {
			memcpy((char *)row + all[i].offset, &narrow, sizeof(narrow));
			row->missing &= ~(UINT64_C(1) << all[i].column);
		}
}

static int read_devices(struct kineto *k)
{
	struct json_pull *p = &k->json;
	size_t depth = p->depth + 1;
	struct row_device row = { .missing = schema_missing(TABLE_device), .id = UINT32_MAX };
	uint64_t value;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth >= depth) {
		const char *text = strbuf_text(&p->text);

		if (rc == JSON_PULL_CLOSE && p->depth == depth) {
			if (row.id < KINETO_DEVICES) {
				k->gpus[row.id] = row;
				k->known_gpus |= UINT64_C(1) << row.id;
			}
			row = (struct row_device){ .missing = schema_missing(TABLE_device),
						   .id = UINT32_MAX };
		} else if (rc == JSON_PULL_VALUE && is_key(k, "name")) {
			row.name = kineto_intern(k, text, strlen(text));
		} else if (rc == JSON_PULL_VALUE && parse_u64(text, &value) == 0) {
			set_property(&row, strbuf_text(&p->key), value);
		}
	}
	return MIN(rc, 0);
}

static int read_events(struct kineto *k)
{
	struct json_pull *p = &k->json;
	size_t depth = p->depth + 1;
	int64_t stamp;
	int rc;

	while ((rc = json_pull_next(p, k->error)) > 0 && p->depth >= depth) {
		if (p->kind != JSON_OBJECT) {
			kineto_count(k, KINETO_DAMAGED_COUNT);
			rc = json_pull_skip(p, k->error);
		} else {
			rc = kineto_read_event(k);
			if (rc == 0 && !k->has_base &&
			    kineto_time(kineto_text(k, KINETO_TS), &stamp) && stamp > 0 &&
			    stamp < (int64_t)KINETO_ABSOLUTE_NS)
				find_base(k);
			if (rc == 0 && k->event.has)
				kineto_add_event(k);
		}
		if (rc == 0 && k->unflushed_bytes >= FLUSH_BYTES)
			rc = kineto_flush(k);
		if (rc < 0)
			break;
	}
	return MIN(rc, 0);
}

static int read_member(struct kineto *k)
{
	struct json_pull *p = &k->json;
	const char *text = strbuf_text(&p->text);
	uint64_t number;

	if (is_key(k, "traceEvents") && p->kind == JSON_ARRAY)
		return read_events(k);
	if (is_key(k, "distributedInfo") && p->kind == JSON_OBJECT)
		return read_distributed(k);
	if (is_key(k, "deviceProperties") && p->kind == JSON_ARRAY)
		return read_devices(k);
	if (is_key(k, "baseTimeNanoseconds") && !k->has_base && parse_u64(text, &k->base_ns) == 0)
		k->has_base = true;
	else if (is_key(k, "host_name") && p->kind == JSON_STRING)
		snprintf(k->host, sizeof(k->host), "%s", text);
	else if (is_key(k, "cuda_driver_version") && parse_u64(text, &number) == 0)
		k->driver_version = (uint32_t)MIN(number, UINT32_MAX);
	return json_pull_skip(p, k->error);
}

/* Reads the object, or the bare array of events. */
static int read_json(struct kineto *k)
{
	int rc = json_pull_next(&k->json, k->error);

	if (rc > 0 && k->json.kind == JSON_ARRAY)
		return read_events(k);
	while (rc > 0 && (rc = json_pull_next(&k->json, k->error)) == JSON_PULL_VALUE)
		rc = read_member(k) < 0 ? k->error->code : 1;
	return MIN(rc, 0);
}

/* Reads what can be read of a broken file; the rest is a loss. */
static int read_trace(struct kineto *k)
{
	struct error own = { 0 }, *error = k->error;
	int rc;

	k->is_torch = true;
	k->json = (struct json_pull){ .read = kineto_read_text, .user = k, .accepts_nan = true };
	k->error = &own;
	rc = read_json(k);
	k->error = error;
	return kineto_end_text(k, rc, &own);
}

/* ---- files ---- */

static bool contains(const struct input *in, const char *text)
{
	return memmem(in->head, in->head_length, text, strlen(text)) != NULL;
}

/* An object with traceEvents, Kineto's header, or a bare array of events. */
static int sniff_head(const struct input *in)
{
	size_t blank = 0;

	while (blank < in->head_length && strchr(" \t\r\n", in->head[blank]))
		blank++;
	if (blank == in->head_length)
		return 0;
	if (in->head[blank] == '{')
		return contains(in, "\"traceEvents\"") ? 85
		       : contains(in, "\"schemaVersion\"") &&
				       (contains(in, "\"deviceProperties\"") ||
					contains(in, "\"distributedInfo\""))
			       ? 70
			       : 0;
	return in->head[blank] == '[' && contains(in, "\"ph\"") && contains(in, "\"ts\"") ? 60 : 0;
}

KINETO_IMPORTER(kineto, "Chrome trace JSON", ".json", sniff_head, read_trace)
