#include "cli/live_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/keys.h"
#include "cli/ui.h"
#include "format/rows.h"

#define SAID_MAX 8192u

static void say(struct live_keys *k, const char *text)
{
	k->clear(k->user);
	cli_note(k->context, "%s", text);
}

static void help(struct live_keys *k)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	for (const struct live_key *key = k->keys; key->key; key++)
		strbuf_addf(&text, "%s%c %s", text.length ? ", " : "keys: ", key->key, key->what);
	say(k, strbuf_text(&text));
}

static void mark(struct live_keys *k, struct writer *w)
{
	char text[32];

	snprintf(text, sizeof(text), "mark %u", k->marks + 1);
	if (!w) {
		say(k, "a mark needs a recording: -o DIR");
		return;
	}
	k->marks++;
	rows_mark(w, text);
	say(k, text);
}

/* --- other commands --- */

static int spawn_self(struct live_keys *k, const char *const *arguments, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int err = posix_spawn_file_actions_init(&actions);

	if (err)
		return err;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &k->signals);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, 1);
	posix_spawn_file_actions_adddup2(&actions, output, 2);
	err = posix_spawn(&k->child, "/proc/self/exe", &actions, &attributes,
			  (char **)(uintptr_t)arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return err;
}

static void start(struct live_keys *k, const char *const *arguments)
{
	int both[2], err;

	if (k->child) {
		say(k, "the last one goes on");
		return;
	}
	if (pipe2(both, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	fcntl(both[1], F_SETFL, 0);
	err = spawn_self(k, arguments, both[1]);
	close(both[1]);
	k->output = both[0];
	if (!err)
		return;
	close(both[0]);
	k->child = 0;
	say(k, strerror(err));
}

/* Prints whole lines, and at the end the rest. */
static void print_said(struct live_keys *k, bool is_end)
{
	char *line, *end;

	if (!k->said.length || (!is_end && !strchr(strbuf_text(&k->said), '\n')))
		return;
	k->clear(k->user);
	for (line = k->said.data; line && *line; line = end) {
		end = strchr(line, '\n');
		if (!end && !is_end)
			break;
		if (end)
			*end++ = '\0';
		/* It begins with its name, as ours does. */
		cli_note(k->context, "%s", strstr(line, ": ") ? strstr(line, ": ") + 2 : line);
	}
	strbuf_clear(&k->said);
}

static void read_child(struct live_keys *k)
{
	char text[512];
	ssize_t n = 1;

	while (k->child && n > 0 && (n = read(k->output, text, sizeof(text))) > 0)
		if (k->said.length < SAID_MAX)
			strbuf_add(&k->said, text, (size_t)n);
	if (!k->child || (n < 0 && errno == EAGAIN)) {
		print_said(k, false);
		return;
	}
	print_said(k, true);
	close(k->output);
	while (waitpid(k->child, NULL, 0) < 0 && errno == EINTR)
		;
	k->child = 0;
}

/* --- keys --- */

static void restore(struct live_keys *k)
{
	if (k->is_open && keys_are_ours())
		keys_close();
	k->is_open = false;
}

/* Returns false if the user leaves. */
static bool act(struct live_keys *k, enum live_action action, struct writer *w)
{
	const char *const dump[] = { "pitot", "dump", "--last", "30s", k->target, NULL };
	const char *const capture[] = { "pitot", "capture", k->target, NULL };
	const char *const measured[] = { "pitot",       "capture", "--engine",
					 "pm-sampling", k->target, NULL };

	switch (action) {
	case LIVE_MARK:
		mark(k, w);
		break;
	case LIVE_DUMP:
		start(k, dump);
		break;
	case LIVE_CAPTURE:
		start(k, capture);
		break;
	case LIVE_MEASURE:
		start(k, measured);
		break;
	case LIVE_DEEPEN:
		k->deepens = true;
		break;
	case LIVE_LEAVE:
		return false;
	}
	return true;
}

static bool press(struct live_keys *k, int pressed, struct writer *w)
{
	if (pressed == KEY_END) { /* whoever is deaf to its hangup goes on without keys */
		k->is_gone = true;
		k->is_open = false;
	} else if (pressed == KEY_CTRL('Z')) {
		restore(k);
		k->clear(k->user);
		keys_stop();
	} else if (pressed == '?') {
		help(k);
	}
	for (const struct live_key *key = k->keys; key->key; key++)
		if (key->key == pressed)
			return act(k, key->action, w);
	return true;
}

/* Whoever is in the foreground has set the terminal. */
static int wait_key(struct live_keys *k, uint64_t until_ns)
{
	if (k->is_gone || !keys_are_ours())
		k->is_open = false;
	else if (!k->is_open)
		k->is_open = keys_open() >= 0;
	if (k->is_open)
		return keys_wait(until_ns, k->child ? k->output : -1);
	(void)terminal_wait(until_ns, NULL, 0);
	return KEY_NONE;
}

bool live_keys_poll(struct live_keys *k, uint64_t until_ns, struct writer *w)
{
	int key;

	do {
		read_child(k);
		key = wait_key(k, until_ns);
		read_child(k);
		if (key && !press(k, key, w))
			return false;
	} while (!terminal_stop_signal && (key || clock_monotonic_ns() < until_ns));
	return !terminal_stop_signal;
}

void live_keys_close(struct live_keys *k)
{
	restore(k);
	if (k->child)
		close(k->output);
	k->child = 0;
	strbuf_release(&k->said);
}
