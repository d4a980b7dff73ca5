#include "analysis/calibration.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/options.h"
#include "base/user_folder.h"
#include "trace/columns.h"

#define FILE_NAME "calibration.json"
#define FILE_BYTES_MAX 65536u

/* The keys; most: of a number, 0: a text. */
#define MEMBERS(X)                                                                                 \
	X(version, 0)                                                                              \
	X(host, 0)                                                                                 \
	X(gpu, 0)                                                                                  \
	X(driver_version, UINT32_MAX)                                                              \
	X(rounds, UINT32_MAX)                                                                      \
	X(launch_ns, NS_PER_S)                                                                     \
	X(launch_spread_ns, NS_PER_S)                                                              \
	X(synchronize_ns, NS_PER_S)                                                                \
	X(synchronize_spread_ns, NS_PER_S)

static const struct {
	const char *key;
	size_t offset;
	uint64_t most;
} members[] = {
#define MEMBER(name, most) { #name, offsetof(struct calibration, name), most },
	MEMBERS(MEMBER)
#undef MEMBER
};

void calibration_json(const struct calibration *c, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const char *value = (const char *)c + members[i].offset;

		if (members[i].most)
			json_key_u64(&j, members[i].key, *(const uint64_t *)(const void *)value);
		else
			json_key_string(&j, members[i].key, value);
	}
	json_finish(&j);
}

int calibration_parse(struct calibration *c, const char *bytes, size_t length, struct error *e)
{
	*c = (struct calibration){ .rounds = 0 };
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		char *value = (char *)c + members[i].offset;
		uint64_t number = 0;
		struct json_found found;
		int rc = json_find(bytes, length, members[i].key, &found, e);

		if (rc < 0 && rc != -ENOENT)
			return error_set(e, E_FORMAT, "it is damaged");
		if (rc < 0 || found.kind != (members[i].most ? JSON_NUMBER : JSON_STRING) ||
		    (members[i].most &&
		     (parse_u64(found.text, &number) < 0 || number > members[i].most)))
			return error_set(e, E_FORMAT, "it is damaged: '%s' has no possible value",
					 members[i].key);
		if (members[i].most)
			memcpy(value, &number, sizeof(number));
		else
			snprintf(value, CALIBRATION_TEXT_MAX, "%s", found.text);
	}
	return 0;
}

/* --- the file --- */

/* Opens the folder, and appends the path of the file. */
static int find_folder(struct strbuf *path, bool make, struct error *e)
{
	int folder = user_folder_open(USER_CACHE, make, path, e);

	strbuf_adds(path, "/" FILE_NAME);
	return folder;
}

int calibration_read(struct calibration *c, struct strbuf *path, struct error *e)
{
	_cleanup_close_ int folder = find_folder(path, false, e);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = folder < 0 ? folder : folder_read_file(folder, FILE_NAME, FILE_BYTES_MAX, &text);

	if (rc < 0)
		return error_set(e, rc, "%s", error_code_text(rc));
	return calibration_parse(c, strbuf_text(&text), text.length, e);
}

int calibration_write(const struct calibration *c, struct strbuf *path, struct error *e)
{
	_cleanup_close_ int folder = find_folder(path, true, e);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = folder;

	if (folder < 0)
		return folder;
	calibration_json(c, &text);
	rc = folder_write_file(folder, FILE_NAME, &text, true);
	return rc < 0 ? error_set(e, rc, "%s", error_code_text(rc)) : 0;
}

/* --- what it is good for --- */

int calibration_fits(const struct calibration *c, const struct trace *t, size_t process,
		     struct error *e)
{
	const struct device_columns *d = device_columns(t);
	const char *host = trace_process(t, process)->host;
	bool has_gpu = false;

	if (strcmp(c->version, PITOT_VERSION) != 0)
		return error_set(e, E_UNSUPPORTED, "it is of Pitot %s; `pitot calibrate` renews it",
				 c->version);
	if (!*c->host || strcmp(c->host, host) != 0)
		return error_set(e, E_UNSUPPORTED, "it is of host '%s', the recording of '%s'",
				 c->host, host);
	for (struct row_walk w = process_rows(t, TABLE_device, process); row_walk_next(&w);) {
		const char *name = trace_string(t, d->name[w.row]);

		has_gpu = true;
		if (strcmp(c->gpu, name) != 0)
			return error_set(e, E_UNSUPPORTED,
					 "it is of GPU '%s', the recording of '%s'", c->gpu, name);
		if (c->driver_version != d->driver_version[w.row])
			return error_set(e, E_UNSUPPORTED,
					 "it is of another driver; `pitot calibrate` renews it");
	}
	return has_gpu ? 0 : error_set(e, E_UNSUPPORTED, "the recording does not name its GPU");
}
