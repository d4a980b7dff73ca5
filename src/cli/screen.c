#include "cli/screen.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "cli/ui.h"

/* Alternate screen, no cursor, and no wrapping: a wide character cannot move the lines below. */
#define OPEN "\033[?1049h\033[?25l\033[?7l\033[2J"
#define CLOSE "\033[?7h\033[?25h\033[?1049l"

static struct {
	struct termios before;
	unsigned columns, lines; /* for which `shown` was drawn */
	struct strbuf shown;
	uint8_t keys[64]; /* typed, and not yet returned */
	size_t key_count;
} self;

bool screen_is_possible(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
}

static void on_resize(int number)
{
	(void)number;
}

int screen_open(void)
{
	struct sigaction resize = { .sa_handler = on_resize };
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &self.before) < 0)
		return -errno;
	raw = self.before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	raw.c_cc[VSUSP] = _POSIX_VDISABLE; /* screen_suspend() restores the terminal first */
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0)
		return -errno;
	sigaction(SIGWINCH, &resize, NULL);
	screen_clear();
	return io_write_all(STDOUT_FILENO, OPEN, strlen(OPEN));
}

void screen_close(void)
{
	(void)!io_write_all(STDOUT_FILENO, CLOSE, strlen(CLOSE));
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &self.before);
	strbuf_release(&self.shown);
}

int screen_suspend(void)
{
	screen_close();
	raise(SIGTSTP);
	return screen_open();
}

void screen_clear(void)
{
	self.columns = 0;
}

void screen_size(unsigned *columns, unsigned *lines)
{
	struct winsize size = { 0 };

	(void)!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*columns = size.ws_col ? MAX(size.ws_col, 20u) : 80;
	*lines = size.ws_row ? MAX(size.ws_row, 4u) : 24;
}

/* Returns the length of the line at *at, and moves *at behind it. */
static size_t next_line(const char **at)
{
	size_t length = strcspn(*at, "\n");

	*at += length + ((*at)[length] == '\n');
	return length;
}

int screen_draw(const struct strbuf *text)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const char *now = strbuf_text(text), *old = strbuf_text(&self.shown);
	unsigned columns, lines;

	screen_size(&columns, &lines);
	if (columns != self.columns || lines != self.lines) {
		strbuf_adds(&out, "\033[2J");
		old = "";
	}
	for (unsigned i = 1; i <= lines; i++) {
		const char *line = now, *before = old;
		size_t length = next_line(&now), old_length = next_line(&old);

		if (length == old_length && memcmp(line, before, length) == 0)
			continue;
		strbuf_addf(&out, "\033[%u;1H", i);
		strbuf_add(&out, line, length);
		strbuf_adds(&out, "\033[0m\033[K");
	}
	strbuf_clear(&self.shown);
	strbuf_add(&self.shown, strbuf_text(text), text->length);
	self.columns = self.shown.failed ? 0 : columns;
	self.lines = lines;
	return text->failed || out.failed
		       ? -ENOMEM
		       : io_write_all(STDOUT_FILENO, strbuf_text(&out), out.length);
}

/* --- keys --- */

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
		{ "A", KEY_UP }, { "B", KEY_DOWN }, { "5~", KEY_PAGE_UP }, { "6~", KEY_PAGE_DOWN }
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

int screen_wait_key(uint64_t until_ns, int fd)
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
