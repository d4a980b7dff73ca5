/* kernel_symbols.c: reads and sorts /proc/kallsyms. */
#include "symbol/kernel_symbols.h"

#include <stdbool.h>
#include <string.h>

#include "base/io.h"
#include "base/search.h"

#define KALLSYMS_MAX ((size_t)256 << 20)
#define FUNCTION_MAX ((uint64_t)1 << 20) /* bytes; farther addresses are not in the function */

/* Parses "ffffffff81000000 T name[\t[module]]". Returns false if it is no function. */
static bool parse_line(char *line, struct kernel_function *f)
{
	char *end, *tab;

	f->start = strtoull(line, &end, 16);
	if (end == line || end[0] != ' ' || !end[1] || !strchr("tTwW", end[1]) || end[2] != ' ' ||
	    !end[3] || end[3] == '\t')
		return false;
	f->name = end + 3;
	f->module = NULL;
	tab = strchr(end + 3, '\t');
	if (tab) {
		*tab = 0;
		f->module = tab[1] == '[' ? tab + 2 : tab + 1;
		tab[1 + strcspn(tab + 1, "]")] = 0;
	}
	return true;
}

ORDER(by_start, struct kernel_function, UP(start) ?: strcmp(a->name, b->name))

/* Of functions with the same start, only the first by name remains. */
static void sort(struct kernel_symbols *k)
{
	size_t kept = 0;

	vec_sort(&k->functions, by_start);
	for (size_t i = 0; i < k->functions.count; i++)
		if (!kept || k->functions.data[kept - 1].start != k->functions.data[i].start)
			k->functions.data[kept++] = k->functions.data[i];
	k->functions.count = kept;
}

int kernel_symbols_parse(struct kernel_symbols *k, const char *text, size_t length)
{
	int rc = 0;

	*k = (struct kernel_symbols){ .text = malloc(length + 1) };
	if (!k->text)
		return -ENOMEM;
	memcpy(k->text, text, length);
	k->text[length] = 0;
	for (char *p = k->text, *end = p + length, *eol; rc == 0 && p < end; p = eol + 1) {
		struct kernel_function f;

		eol = memchr(p, '\n', (size_t)(end - p));
		eol = eol ? eol : end;
		*eol = 0;
		if (parse_line(p, &f) && f.start != 0)
			rc = vec_push(&k->functions, f);
	}
	sort(k);
	rc = rc == 0 && !k->functions.count ? -EACCES : rc;
	if (rc < 0)
		kernel_symbols_release(k);
	return rc;
}

int kernel_symbols_open(struct kernel_symbols *k, const char *path, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	int rc = io_read_file(path, KALLSYMS_MAX, &text);

	*k = (struct kernel_symbols){ 0 };
	if (rc == 0)
		rc = kernel_symbols_parse(k, strbuf_text(&text), text.length);
	if (rc == -EACCES)
		return error_set(e, rc, "'%s' hides the kernel's addresses (kernel.kptr_restrict)",
				 path);
	return rc < 0 ? error_set(e, rc, "cannot read '%s': %s", path, error_code_text(rc)) : 0;
}

void kernel_symbols_release(struct kernel_symbols *k)
{
	vec_release(&k->functions);
	free(k->text);
	k->text = NULL;
}

const struct kernel_function *kernel_symbols_find(const struct kernel_symbols *k, uint64_t address)
{
	const struct kernel_function *all = k->functions.data;
	size_t after = sorted_prefix(k->functions.count, i, all[i].start <= address);

	return after && address - all[after - 1].start < FUNCTION_MAX ? &all[after - 1] : NULL;
}
