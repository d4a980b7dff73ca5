#include "agent/s3_credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "upload/http.h"

#define FILE_BYTES_MAX ((size_t)1 << 20)

static bool set(char *out, size_t size, const char *value, size_t length)
{
	if (length >= size)
		return false;
	memcpy(out, value, length);
	out[length] = '\0';
	return http_is_header_text(out);
}

struct value {
	const char *name, *variable;
	char *out;
	size_t size;
};

/* Returns 1, 0 if there are none, or -EINVAL: one of them is no such text. */
static int check(const struct s3_credentials *c, bool is_valid)
{
	if (!is_valid)
		return -EINVAL;
	return *c->key && *c->secret;
}

static int read_environment(const struct value *values, size_t count,
			    const struct s3_credentials *c)
{
	bool is_valid = true;

	for (size_t i = 0; i < count; i++) {
		const char *text = getenv(values[i].variable);

		if (text)
			is_valid &= set(values[i].out, values[i].size, text, strlen(text));
	}
	return check(c, is_valid);
}

/* Lines are "[section]" and "name = value"; others, and those of other sections, are skipped. */
static int parse(const char *text, const char *section, const struct value *values, size_t count,
		 const struct s3_credentials *c)
{
	bool is_ours = false, is_valid = true;

	for (const char *end; *text; text = *end ? end + 1 : end) {
		const char *name = text + strspn(text, " \t"), *value;
		size_t length, value_length;

		end = text + strcspn(text, "\n");
		if (*name == '[') {
			length = strcspn(++name, "]\n");
			is_ours = length == strlen(section) && !strncmp(name, section, length);
			continue;
		}
		value = name + strcspn(name, "=\n");
		if (*value != '=' || !is_ours)
			continue;
		length = (size_t)(value - name);
		while (length && (name[length - 1] == ' ' || name[length - 1] == '\t'))
			length--;
		value += 1 + strspn(value + 1, " \t");
		value_length = strcspn(value, "\r\n");
		while (value_length && strchr(" \t", value[value_length - 1]))
			value_length--;
		for (size_t i = 0; i < count; i++)
			if (length == strlen(values[i].name) &&
			    !strncmp(name, values[i].name, length))
				is_valid &= set(values[i].out, values[i].size, value, value_length);
	}
	return check(c, is_valid);
}

static int read_file(const char *path, const char *section, const struct value *values,
		     size_t count, const struct s3_credentials *c, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = io_read_file(path, FILE_BYTES_MAX, &text);

	if (rc < 0)
		return error_set(e, rc, "cannot read the credentials in '%s': %s", path,
				 error_code_text(rc));
	rc = parse(strbuf_text(&text), section, values, count, c);
	explicit_bzero(text.data, text.length);
	if (rc > 0)
		return 0;
	return error_set(e, E_USAGE,
			 rc < 0 ? "'%s' has invalid credentials in section [%s]"
				: "'%s' has no aws_access_key_id and aws_secret_access_key in "
				  "section [%s]",
			 path, section);
}

int s3_credentials_read(const char *path, struct s3_credentials *out, struct error *e)
{
	const struct value values[] = {
		{ "aws_access_key_id", "AWS_ACCESS_KEY_ID", out->key, sizeof(out->key) },
		{ "aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", out->secret,
		  sizeof(out->secret) },
		{ "aws_session_token", "AWS_SESSION_TOKEN", out->token, sizeof(out->token) },
	};
	const char *profile = getenv("AWS_PROFILE"), *home = getenv("HOME");
	char standard[4096];
	int rc;

	memset(out, 0, sizeof(*out));
	profile = profile && *profile ? profile : "default";
	if (path)
		return read_file(path, profile, values, ARRAY_SIZE(values), out, e);
	rc = read_environment(values, ARRAY_SIZE(values), out);
	if (rc > 0)
		return 0;
	if (rc < 0)
		return error_set(e, E_USAGE,
				 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are no credentials");
	memset(out, 0, sizeof(*out));
	path = getenv("AWS_SHARED_CREDENTIALS_FILE");
	snprintf(standard, sizeof(standard), "%s/.aws/credentials", home ? home : "");
	if ((path && *path) || (home && access(standard, R_OK) == 0))
		return read_file(path && *path ? path : standard, profile, values,
				 ARRAY_SIZE(values), out, e);
	return error_set(e, E_USAGE,
			 "there are no credentials for object storage: set AWS_ACCESS_KEY_ID and "
			 "AWS_SECRET_ACCESS_KEY, or name a file with --s3-credentials");
}
