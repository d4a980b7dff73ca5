#include "cli/screen.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io.h"

/* Alternate screen, no cursor, and no wrapping: a wide character cannot move the lines below. */
#define OPEN "\033[?1049h\033[?25l\033[?7l\033[2J"
#define CLOSE "\033[?7h\033[?25h\033[?1049l"

static struct {
	unsigned columns, lines; /* for which `shown` was drawn */
	struct strbuf shown;
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
	int err = keys_open();

	if (err < 0)
		return err;
	sigaction(SIGWINCH, &resize, NULL);
	screen_clear();
	return io_write_all(STDOUT_FILENO, OPEN, strlen(OPEN));
}

void screen_close(void)
{
	(void)!io_write_all(STDOUT_FILENO, CLOSE, strlen(CLOSE));
	keys_close();
	strbuf_release(&self.shown);
}

int screen_suspend(void)
{
	screen_close();
	keys_stop();
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
