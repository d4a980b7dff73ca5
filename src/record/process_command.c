/* process_command.c: reads /proc/PID/cmdline. */
#include "record/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"

#define COMMAND_MAX (1u << 20)

static int read_file(pid_t pid, const char *file, struct strbuf *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return io_read_file(path, COMMAND_MAX, out);
}

static int split(struct process_command *c)
{
	size_t count = 0;

	for (size_t i = 0; i < c->text.length; i++)
		count += c->text.data[i] == '\0';
	c->argv = calloc(count + 1, sizeof(*c->argv));
	if (!c->argv)
		return -ENOMEM;
	for (size_t at = 0; at < c->text.length; at += strlen(c->text.data + at) + 1)
		c->argv[c->argc++] = c->text.data + at;
	return 0;
}

int process_command_read(struct process_command *c, pid_t pid, struct error *e)
{
	int err;

	*c = (struct process_command){ .text = STRBUF_INIT };
	err = read_file(pid, "cmdline", &c->text);
	if (err == 0 && c->text.length == 0)
		err = read_file(pid, "comm", &c->text);
	if (err == 0) {
		if (!c->text.length || c->text.data[c->text.length - 1] != '\0')
			strbuf_addc(&c->text, '\0');
		err = c->text.failed ? -ENOMEM : split(c);
	}
	if (err == 0)
		return 0;
	process_command_release(c);
	if (err == -ENOENT)
		return error_set(e, -ESRCH, "there is no process %d", (int)pid);
	return error_errno(e, err < 0 ? -err : EIO, "cannot read the command of process %d",
			   (int)pid);
}

void process_command_release(struct process_command *c)
{
	free(c->argv);
	strbuf_release(&c->text);
	*c = (struct process_command){ .text = STRBUF_INIT };
}
