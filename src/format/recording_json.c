#include "format/recording_json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "base/json.h"
#include "format/loss_tally.h"
#include "format/recording_dir.h"
#include "format/segment.h"

#define JSON_MAX (4u << 20) /* a command line has at most 2 MiB */
#define STATE_RECORDING "recording"
#define STATE_ENDED "ended" /* without function names */
#define STATE_COMPLETE "complete"

/* Writes a date as RFC 3339 in UTC, to the second. */
static void key_date(struct json *json, const char *key, uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	char text[64] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_key_string(json, key, text);
}

static void key_boot_id(struct json *json)
{
	_cleanup_strbuf_ struct strbuf id = STRBUF_INIT;

	io_read_file("/proc/sys/kernel/random/boot_id", 64, &id);
	json_key(json, "boot_id");
	json_bytes(json, strbuf_text(&id), strcspn(strbuf_text(&id), "\n"));
}

static void add_machine(struct json *json)
{
	struct utsname name;
	char directory[PATH_MAX];

	if (!uname(&name)) {
		json_key_string(json, "host", name.nodename);
		json_key(json, "kernel");
		json_bytes(json, name.release, strlen(name.release));
		json_key_string(json, "machine", name.machine);
	}
	key_boot_id(json);
	json_key_i64(json, "processors", sysconf(_SC_NPROCESSORS_ONLN));
	json_key_u64(json, "uid", getuid());
	if (getcwd(directory, sizeof(directory)))
		json_key_string(json, "directory", directory);
}

static void add_times(struct json *json, const struct recording_identity *id)
{
	uint64_t elapsed = id->end_monotonic_ns - id->start_monotonic_ns;

	key_date(json, "start", id->start_realtime_ns);
	json_key_u64(json, "start_realtime_ns", id->start_realtime_ns);
	json_key_u64(json, "start_monotonic_ns", id->start_monotonic_ns);
	json_key_string(json, "state",
			!id->end_monotonic_ns ? STATE_RECORDING
			: id->by_program      ? STATE_ENDED
					      : STATE_COMPLETE);
	if (!id->end_monotonic_ns)
		return;
	key_date(json, "end", id->start_realtime_ns + elapsed);
	json_key_u64(json, "end_monotonic_ns", id->end_monotonic_ns);
	json_key_u64(json, "elapsed_ns", elapsed);
	if (!id->by_program)
		json_key_i64(json, "exit_status", id->exit_status);
}

/*
 * For a full disk: overwrites the old file with a single write into its existing blocks. The rest
 * of the old text becomes white space.
 */
static int overwrite(int folder, struct strbuf *text)
{
	_cleanup_close_ int fd = folder_open_file(folder, RECORDING_JSON, O_WRONLY, FOLDER_OWN);
	struct stat old;

	if (fd < 0 || fstat(fd, &old) < 0)
		return -errno;
	while (text->length < (size_t)old.st_size && !text->failed)
		strbuf_addc(text, '\n');
	if (text->failed || text->length > (size_t)old.st_blocks * 512)
		return -ENOSPC;
	return pwrite(fd, text->data, text->length, 0) == (ssize_t)text->length ? 0 : -EIO;
}

/* Uses neither threads nor static buffers, because it also runs inside the target. */
int recording_json_write(const char *directory, const struct recording_identity *identity,
			 struct error *e)
{
	_cleanup_close_ int folder = folder_open_known(directory, &identity->folder);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct json json = JSON_PRETTY(&text);
	int rc;

	json_object(&json);
	json_key_u64(&json, "format_version", SEGMENT_VERSION);
	json_key_string(&json, "pitot_version", PITOT_VERSION);
	json_key_string(&json, "name", identity->name);
	json_key_array(&json, "command");
	for (char **argument = identity->command; *argument; argument++)
		json_string(&json, *argument);
	json_end(&json);
	json_key_string(&json, "recorded_by",
			identity->by_program    ? "program"
			: identity->recorded_by ? identity->recorded_by
						: "pitot record");
	if (identity->by_program)
		json_key_i64(&json, "pid", getpid());
	json_key_string(&json, "engine", identity->engine);
	json_key_string(&json, "options", identity->options);
	json_key_string(&json, "library", identity->library);
	add_machine(&json);
	json_key_string(&json, "clock", "CLOCK_MONOTONIC");
	add_times(&json, identity);
	json_finish(&json);
	rc = folder < 0 ? folder : folder_write_file(folder, RECORDING_JSON, &text, false);
	if (rc < 0 && loss_of_error(rc) == loss_reason_disk_full && overwrite(folder, &text) == 0)
		return 0;
	return rc < 0 ? error_set(e, rc, "cannot write '%s/%s': %s", directory, RECORDING_JSON,
				  error_code_text(rc))
		      : 0;
}

/* JSON escapes quotes in strings, so only the member itself can match. */
static bool has_state(const char *directory, const char *state)
{
	_cleanup_close_ int folder = folder_open(directory, FOLDER_ANY);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	return folder >= 0 && folder_read_file(folder, RECORDING_JSON, JSON_MAX, &text) == 0 &&
	       strstr(strbuf_text(&text), state);
}

bool recording_json_is_recording(const char *directory)
{
	return has_state(directory, "\"state\": \"" STATE_RECORDING "\"");
}

bool recording_json_is_unfinished(const char *directory)
{
	return recording_json_is_recording(directory) ||
	       has_state(directory, "\"state\": \"" STATE_ENDED "\"");
}
