#include "capture/engines/kernel_choice.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/globs.h"
#include "base/map.h"
#include "names/demangle.h"
#include "names/kernel_name.h"

#define VERDICTS 256u
#define RANGES 128u /* as many as fit into a setting's text */

static struct {
	char pattern[OPTION_TEXT_MAX];
	struct {
		atomic_uint_fast64_t begin, end; /* launches are counted from 0 */
	} ranges[RANGES];
	atomic_uint range_count;
	atomic_uint_fast64_t end; /* of all ranges */
	atomic_uint_fast64_t matched; /* matching launches so far */
} choice;

static atomic_uint forgotten; /* number of times that all verdicts were cleared */
static atomic_uintptr_t verdicts[VERDICTS]; /* a name's address << 1, plus 1 if it is selected */

/* Reduces "void n::f<int>(int*)" to "f". */
static void keep_function(struct strbuf *readable)
{
	const char *text = strbuf_text(readable), *hidden = "(anonymous namespace)::";
	const char *begin = strstr(text, hidden), *end;

	begin = begin ? begin + strlen(hidden) : text;
	end = begin + strcspn(begin, "<(");
	for (const char *at = begin; at < end; at++)
		if (*at == ' ' || *at == ':')
			begin = at + 1;
	readable->length = (size_t)(end - begin);
	memmove(readable->data, begin, readable->length);
	readable->data[readable->length] = '\0';
}

/* Allocates memory. `function`: the pattern is for the function's name alone. */
static bool matches_readable(const char *pattern, size_t length, const char *name, bool function)
{
	_cleanup_strbuf_ struct strbuf readable = STRBUF_INIT;

	demangle(kernel_name_mangled(name), &readable);
	if (readable.length && !readable.failed && function)
		keep_function(&readable);
	return glob_matches(pattern, length, strbuf_text(&readable));
}

/* Advances the item past `prefix`. Returns false if it does not begin with it. */
static bool skip_prefix(const char **item, size_t *length, const char *prefix)
{
	size_t n = strlen(prefix);

	if (*length < n || memcmp(*item, prefix, n) != 0)
		return false;
	*item += n;
	*length -= n;
	return true;
}

/* An item without a prefix, '*' and '?' may be anywhere in the name. */
static bool matches(const char *item, size_t length, const char *name)
{
	if (skip_prefix(&item, &length, "demangled="))
		return matches_readable(item, length, name, false);
	if (skip_prefix(&item, &length, "function="))
		return matches_readable(item, length, name, true);
	if (!skip_prefix(&item, &length, "mangled=") && !memchr(item, '*', length) &&
	    !memchr(item, '?', length))
		return memmem(name, strlen(name), item, length);
	return glob_matches(item, length, name);
}

static bool is_wanted_name(const char *name)
{
	const char *list = choice.pattern, *item;
	size_t length;

	if (!name || !*list)
		return !*list || strcmp(list, "*") == 0;
	while ((item = globs_next(&list, &length)))
		if (matches(item, length, name))
			return true;
	return false;
}

/* Verdicts are cached by address, because a name does not move while its module is loaded. */
bool kernel_choice_has_name(const char *name)
{
	uintptr_t key = (uintptr_t)name << 1;
	atomic_uintptr_t *verdict = &verdicts[hash_u64((uintptr_t)name) % VERDICTS];
	uintptr_t known = atomic_load_explicit(verdict, memory_order_relaxed);
	unsigned before;

	if (known && (known & ~(uintptr_t)1) == key)
		return known & 1;
	before = atomic_load(&forgotten);
	known = key | is_wanted_name(name);
	if (atomic_load(&forgotten) == before) /* else it may be of the previous session's choice */
		atomic_store_explicit(verdict, known, memory_order_relaxed);
	return known & 1;
}

void kernel_choice_forget_names(void)
{
	atomic_fetch_add(&forgotten, 1);
	for (size_t i = 0; i < VERDICTS; i++)
		atomic_store_explicit(&verdicts[i], 0, memory_order_relaxed);
}

bool kernel_choice_is_turn(void)
{
	uint64_t number = atomic_fetch_add(&choice.matched, 1);

	for (unsigned i = 0; i < atomic_load(&choice.range_count); i++)
		if (number >= atomic_load(&choice.ranges[i].begin) &&
		    number < atomic_load(&choice.ranges[i].end))
			return true;
	return false;
}

uint64_t kernel_choice_matched(void)
{
	return atomic_load(&choice.matched);
}

bool kernel_choice_is_done(void)
{
	return atomic_load(&choice.matched) >= atomic_load(&choice.end);
}

static void add_range(uint64_t begin, uint64_t count)
{
	unsigned i = atomic_load(&choice.range_count);
	uint64_t end = begin + MIN(count, UINT64_MAX - begin);

	if (!count)
		return;
	atomic_store(&choice.ranges[i].begin, begin);
	atomic_store(&choice.ranges[i].end, end);
	atomic_store(&choice.end, MAX(atomic_load(&choice.end), end));
	atomic_store(&choice.range_count, i + 1);
}

/* Reads a list such as "3+4,10+2" up to the first malformed item. */
static void read_ranges(const char *text)
{
	for (char *at; *text && atomic_load(&choice.range_count) < RANGES; text = at) {
		uint64_t begin = strtoull(text, &at, 10);

		if (at == text || *at != '+')
			break;
		add_range(begin, strtoull(at + 1, &at, 10));
		if (*at == ',')
			at++;
	}
}

void kernel_choice_set(const struct settings *wanted)
{
	memcpy(choice.pattern, wanted->kernels, sizeof(choice.pattern));
	atomic_store(&choice.range_count, 0);
	atomic_store(&choice.end, 0);
	if (*wanted->kernel_ranges)
		read_ranges(wanted->kernel_ranges);
	else
		add_range(wanted->kernel_skip,
			  wanted->kernel_count ? wanted->kernel_count : UINT64_MAX);
	atomic_store(&choice.matched, 0);
	kernel_choice_forget_names();
}
