#include "system/calibration.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/options.h"
#include "base/user_folder.h"
#include "format/rows.h"

#define FILE_NAME "calibration.json"
#define FILE_BYTES_MAX 65536u

/* The keys; most: of a number, 0: a text. */
#define MEMBERS(X) X(version, 0) X(host, 0) X(gpu, 0) CALIBRATION_NUMBERS(X)

struct member {
	const char *key;
	size_t offset;
	uint64_t most;
	bool optional;
};

static const struct member members[] = {
#define MEMBER(name, most) { #name, offsetof(struct calibration, name), most, false },
	MEMBERS(MEMBER)
#undef MEMBER
#define MEMBER(name) { #name, offsetof(struct calibration, name), NS_PER_S, true },
		CALIBRATION_OPTIONAL(MEMBER)
#undef MEMBER
};

void calibration_json(const struct calibration *c, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		const struct member *m = &members[i];
		const char *value = (const char *)c + m->offset;
		uint64_t number = 0;

		if (m->most)
			memcpy(&number, value, sizeof(number));
		if (m->most)
			json_key_known(&j, m->key, !m->optional || number != CALIBRATION_UNKNOWN,
				       number);
		else
			json_key_string(&j, m->key, value);
	}
	json_finish(&j);
}

/* Sets a member of what was found under its key, or leaves it if it is unknown. */
static bool parse_member(const struct member *m, const struct json_found *found, char *value)
{
	uint64_t number;

	if (!found || found->kind == JSON_NULL)
		return m->optional;
	if (!m->most) {
		snprintf(value, CALIBRATION_TEXT_MAX, "%s", found->text);
		return found->kind == JSON_STRING;
	}
	if (found->kind != JSON_NUMBER || parse_u64(found->text, &number) < 0 || number > m->most)
		return false;
	memcpy(value, &number, sizeof(number));
	return true;
}

int calibration_parse(struct calibration *c, const char *bytes, size_t length, struct error *e)
{
	calibration_init(c);
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		struct json_found found;
		int rc = json_find(bytes, length, members[i].key, &found, e);

		if (rc < 0 && rc != -ENOENT)
			return error_set(e, E_FORMAT, "it is damaged");
		if (!parse_member(&members[i], rc < 0 ? NULL : &found,
				  (char *)c + members[i].offset))
			return error_set(e, E_FORMAT, "it is damaged: '%s' has no possible value",
					 members[i].key);
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

/* --- its row --- */

void calibration_write_row(const struct calibration *c, struct writer *w)
{
	struct row_calibration row = { .version = rows_text(w, c->version),
				       .host = rows_text(w, c->host),
				       .gpu = rows_text(w, c->gpu),
#define NUMBER(name, most) .name = (__typeof__(row.name))c->name,
				       CALIBRATION_NUMBERS(NUMBER)
#undef NUMBER
	};

#define NUMBER(name)                                                                               \
	row.name = c->name;                                                                        \
	ROW_MISSING_IF(&row, calibration, name, c->name == CALIBRATION_UNKNOWN);
	CALIBRATION_OPTIONAL(NUMBER)
#undef NUMBER
	writer_append(w, TABLE_calibration, &row);
}
