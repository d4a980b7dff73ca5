#include "agent/gpufl_windows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/map.h"
#include "export/exporter.h"
#include "gpufl/gpufl_folder.h"
#include "upload/http.h"
#include "upload/upload.h"
#include "upload/upload_key.h"

#define SCRATCH "gpufl" /* a folder of the spool */
#define TIMEOUT_NS (10 * NS_PER_S)

int gpufl_windows_check(const struct gpufl_options *options, struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	int rc = upload_check_url(options->url, e);

	rc = rc < 0 ? rc : upload_key_read(options->key_file, &key, e);
	if (rc == 0 && key.length && !strncasecmp(options->url, "http://", 7) &&
	    !http_is_loopback(options->url))
		rc = error_set(e, E_USAGE,
			       "'%s' is not encrypted, and the key could be read on the way: use "
			       "https://",
			       options->url);
	upload_key_forget(&key);
	return rc;
}

void gpufl_windows_clean(int spool)
{
	_cleanup_close_ int folder = folder_enter(spool, SCRATCH, FOLDER_OWN);
	_cleanup_list_ DIR *list = folder_list(folder);
	char path[64];
	const char *name;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/" SCRATCH, spool);
	while (list && (name = folder_next(list)))
		if (gpufl_folder_remove_session(path, name) < 0)
			unlinkat(folder, name, 0);
	unlinkat(spool, SCRATCH, AT_REMOVEDIR);
}

/* Returns 0, 1 if there is nothing to send, or a negative code. */
static int export_logs(int spool, const char *window, const char *to, struct error *e)
{
	const char *name = strrchr(window, '!'); /* as in a lake */
	/* A process may have several windows, and each of them is whole. */
	const struct export_options options = { .until_ns = UINT64_MAX,
						.session_salt = hash_bytes(window, strlen(window)),
						.shown_path = name ? name + 1 : window };
	static const struct trace_options trace_options = { .threads = 1 };
	struct export_result result = { 0 };
	struct trace *trace = NULL;
	char path[NAME_MAX + 64];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", spool, window);
	rc = trace_open(path, &trace_options, &trace, e);
	if (rc >= 0)
		rc = gpufl_write(trace, &options, to, &result, e);
	trace_free(trace);
	return rc == -ENODATA ? 1 : rc < 0 ? rc : 0;
}

static int upload_logs(const struct gpufl_options *options, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf key = STRBUF_INIT;
	struct upload_result result;
	struct upload_options upload = { .path = path,
					 .url = options->url,
					 .ca_file = options->ca_file,
					 .ca_setting = "--gpufl-ca-file",
					 .timeout_ns = TIMEOUT_NS,
					 .warn = options->warn,
					 .user = options->user };
	int rc = upload_key_read(options->key_file, &key, e);

	upload.api_key = key.length ? strbuf_text(&key) : NULL;
	rc = rc < 0 ? rc : upload_run(&upload, &result, e);
	upload_key_forget(&key);
	return rc < 0 ? rc : 0;
}

int gpufl_windows_put(const struct gpufl_options *options, int spool, const char *window,
		      struct error *e)
{
	char path[64];
	int rc = 0;

	gpufl_windows_clean(spool);
	snprintf(path, sizeof(path), "/proc/self/fd/%d/" SCRATCH, spool);
	if (mkdirat(spool, SCRATCH, 0700) < 0)
		rc = error_errno(e, errno, "cannot make a folder in the spool");
	rc = rc < 0 ? rc : export_logs(spool, window, path, e);
	if (rc == 0)
		rc = upload_logs(options, path, e);
	gpufl_windows_clean(spool);
	return rc < 0 ? error_prefix(e, "cannot send the window '%s'", window) : 0;
}
