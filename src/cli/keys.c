#include "cli/keys.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "cli/ui.h"

static struct {
	struct termios before;
	uint8_t keys[64]; /* typed, and not yet returned */
	size_t key_count;
} self;

bool keys_are_ours(void)
{
	pid_t foreground = tcgetpgrp(STDIN_FILENO);

	/* A terminal that is not that of our session has no foreground, and anybody may read. */
	return isatty(STDIN_FILENO) && (foreground == getpgrp() || foreground < 0);
}

int keys_open(void)
{
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &self.before) < 0)
		return -errno;
	raw = self.before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* who stops restores the terminal first */
	return tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0 ? -errno : 0;
}

void keys_close(void)
{
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &self.before);
}

void keys_stop(void)
{
	sigset_t stop, before;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, &before);
	raise(SIGTSTP);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static int drop_keys(size_t count, int key)
{
	self.key_count -= count;
	memmove(self.keys, self.keys + count, self.key_count);
	return key;
}

/* ESC [ A and ESC O A are arrows; ESC [ 5 ~ is a page. Other sequences are no key. */
static int escape_key(void)
{
	static const struct {
		const char *text;
		int key;
	} sequences[] = {
		{ "A", KEY_UP },       { "B", KEY_DOWN },       { "C", KEY_RIGHT },
		{ "D", KEY_LEFT },     { "H", KEY_HOME },       { "F", KEY_LINE_END },
		{ "1~", KEY_HOME },    { "3~", KEY_DELETE },    { "4~", KEY_LINE_END },
		{ "5~", KEY_PAGE_UP }, { "6~", KEY_PAGE_DOWN },
	};
	size_t end = 2;

	if (self.key_count < 3 || (self.keys[1] != '[' && self.keys[1] != 'O'))
		return drop_keys(1, KEY_ESCAPE);
	while (end + 1 < self.key_count && self.keys[end] < '@')
		end++;
	for (size_t i = 0; i < ARRAY_SIZE(sequences); i++)
		if (strlen(sequences[i].text) == end - 1 &&
		    memcmp(self.keys + 2, sequences[i].text, end - 1) == 0)
			return drop_keys(end + 1, sequences[i].key);
	return drop_keys(end + 1, KEY_NONE);
}

static int next_key(void)
{
	if (!self.key_count)
		return KEY_NONE;
	if (self.keys[0] == KEY_ESCAPE)
		return escape_key();
	if (self.keys[0] == '\n')
		return drop_keys(1, KEY_ENTER);
	return drop_keys(1, self.keys[0] == 127 ? KEY_BACKSPACE : self.keys[0]);
}

bool keys_are_pending(void)
{
	return self.key_count > 0;
}

int keys_wait(uint64_t until_ns, int fd)
{
	struct pollfd polled[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				   { .fd = fd, .events = POLLIN } };
	ssize_t n;

	if (self.key_count)
		return next_key();
	terminal_wait(until_ns, polled, ARRAY_SIZE(polled));
	if (!polled[0].revents)
		return KEY_NONE;
	n = read(STDIN_FILENO, self.keys, sizeof(self.keys));
	if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
		return KEY_END;
	self.key_count = (size_t)MAX(n, 0);
	return next_key();
}
