/*
 * Of a file of which only what is near the wanted addresses is read, these have the same names,
 * starts and lines as if all of it were read.
 */
#include "compiled_fixture.h"

#include <dlfcn.h>

#include "base/search.h"
#include "symbol/symbolizer.h"

#define ADDRESSES 300

ORDER(by_address, uint64_t, ORDER_OF(*a, *b))

static uint64_t random_next(void)
{
	static uint64_t state = 33;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Anywhere in the code, and at the edges of functions. */
static uint64_t choose(const struct image *all)
{
	const struct bounds *b;
	const struct symbol *s;

	switch (random_next() % 4) {
	case 0:
		b = &all->bounds.items.data[random_next() % all->bounds.items.count];
		return (random_next() % 2 ? b->start : b->end) - random_next() % 2;
	case 1:
		s = &all->symbols.symbols.data[random_next() % all->symbols.symbols.count];
		return (random_next() % 2 ? s->start : s->end) - random_next() % 2;
	case 2:
		s = &all->symbols.symbols.data[random_next() % all->symbols.symbols.count];
		return s->start + random_next() % 64;
	default:
		b = &all->bounds.items.data[random_next() % all->bounds.items.count];
		return b->start + random_next() % (b->end - b->start);
	}
}

static void assert_same_text(const char *a, const char *b, uint64_t address)
{
	if ((!a != !b) || (a && strcmp(a, b) != 0))
		fail_msg("%llx: %s, not %s", (unsigned long long)address, b ? b : "-", a ? a : "-");
}

static void assert_same(struct image *all, struct image *near, uint64_t address,
			enum address_kind kind)
{
	struct image_answer a, b;

	assert_int_equal(image_find(all, address, kind, &a), 0);
	assert_int_equal(image_find(near, address, kind, &b), 0);
	assert_int_equal(a.count, b.count);
	assert_int_equal(a.kind, b.kind);
	assert_int_equal(a.has_start, b.has_start);
	if (a.has_start)
		assert_int_equal(a.start, b.start);
	for (unsigned i = 0; i < a.count; i++) {
		assert_same_text(a.frames[i].function, b.frames[i].function, address);
		assert_same_text(a.frames[i].file, b.frames[i].file, address);
		assert_int_equal(a.frames[i].line, b.frames[i].line);
	}
}

static void compare(const char *path, unsigned rounds, size_t count)
{
	uint64_t addresses[2 * ADDRESSES];
	struct wanted_addresses wanted = { addresses, 2 * count };
	struct image all, near;

	open_image_near(path, NULL, &all);
	assert_true(all.bounds.items.count && all.symbols.symbols.count);
	for (unsigned round = 0; round < rounds; round++) {
		for (size_t i = 0; i < count; i++) {
			addresses[2 * i] = choose(&all);
			addresses[2 * i + 1] = addresses[2 * i] - 1;
		}
		qsort(addresses, 2 * count, sizeof(*addresses), by_address);
		open_image_near(path, &wanted, &near);
		for (size_t i = 0; i < 2 * count; i++) {
			assert_same(&all, &near, addresses[i], ADDRESS_INSTRUCTION);
			if (i && addresses[i - 1] == addresses[i] - 1)
				assert_same(&all, &near, addresses[i], ADDRESS_RETURN);
		}
		image_release(&near);
	}
	image_release(&all);
}

/* Not the function of a sanitizer that replaces it. */
static const char *find_qsort(Dl_info *libc)
{
	void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	const char *function = library ? dlsym(library, "qsort") : NULL;

	assert_true(function && dladdr(function, libc));
	dlclose(library);
	return function;
}

static void real_files(void **state)
{
	Dl_info libc;

	(void)state;
	find_qsort(&libc);
	compare(libc.dli_fname, 3, ADDRESSES);
	compare("/proc/self/exe", 3, ADDRESSES);
}

/* Of the thousands of functions of the C library a few are read for one address. */
static void few_are_read(void **state)
{
	Dl_info libc;
	const char *function = find_qsort(&libc);
	struct wanted_addresses wanted = { .count = 1 };
	struct image near;
	uint64_t address;

	(void)state;
	address = (uint64_t)(function - (const char *)libc.dli_fbase);
	wanted.data = &address;
	open_image_near(libc.dli_fname, &wanted, &near);
	assert_name(&near, address, "qsort");
	assert_in_range(near.symbols.symbols.count, 1, 9);
	assert_in_range(near.bounds.items.count, 1, 3);
	image_release(&near);
}

/* Functions without sizes, labels in functions, code without descriptions, aliases. */
static void assembler(void **state)
{
	static const char source[] =
		".text\n.globl a, b, c, d, e, f, g, h, alias\n.type d, @function\n"
		".type e, @function\n.type g, @function\n.type alias, @function\n"
		"a: nop\nb: nop\nnop\n"
		".p2align 5\nc: .cfi_startproc\nnop\nlabel: nop\nnop\n.cfi_endproc\nnop\n"
		".p2align 5\nd: alias: .cfi_startproc\nnop\ninside: nop\nnop\n.cfi_endproc\n"
		".size d, .-d\n.size alias, .-alias\nnop\n"
		".p2align 5\ne: .cfi_startproc\nnop\nf: nop\nret\n.cfi_endproc\n.size e, 64\n"
		"nop\ng: nop\nnop\n.size g, 1\n.p2align 6\nh: .cfi_startproc\ncall puts@plt\n"
		".cfi_endproc\n.Lown: nop\n.section .note.GNU-stack\n";

	(void)state;
	write_file("all.s", source, strlen(source));
	shell("cc -shared -nostartfiles -o all.so all.s && cc -shared -nostartfiles "
	      "-Wl,--no-eh-frame-hdr -o plain.so all.s");
	for (size_t count = 1; count < 16; count++) {
		compare(in_folder("all.so"), 100, count);
		compare(in_folder("plain.so"), 10, count);
	}
}

/* Of a file with announced addresses others have no names; the names of these are right. */
static void announced(void **state)
{
	struct symbolizer_options options = { .debug_folders = NULL };
	struct symbol_module m = { .path = "known.so", .build_id = "", .end = 0x100000 };
	struct symbol_process p = { .directory = folder, .modules = &m, .module_count = 1 };
	struct symbol_answer a;
	struct symbolizer *s;
	uint64_t outer, plain;
	int first, second;

	(void)state;
	write_known_source();
	shell("cc -O2 -g -fPIC -shared -Wl,--build-id=none -o known.so known.c");
	outer = nm_address("known.so", "outer");
	plain = nm_address("known.so", "plain");
	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	first = symbolizer_add_process(s, &p);
	second = symbolizer_add_process(s, &p);
	assert_true(first >= 0 && second >= 0);
	assert_int_equal(symbolizer_want(s, first, plain + 1, ADDRESS_RETURN), 0);
	assert_int_equal(symbolizer_want(s, second, outer, ADDRESS_INSTRUCTION), 0);
	assert_int_equal(symbolizer_want(s, first, UINT64_MAX, ADDRESS_INSTRUCTION), 0);
	assert_int_equal(symbolizer_find(s, first, plain + 1, ADDRESS_RETURN, 0, &a), 0);
	assert_string_equal(a.frames[0].function, "plain");
	assert_int_equal(symbolizer_find(s, second, outer, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_string_equal(a.frames[0].function, "outer");
	assert_int_equal(symbolizer_find(s, second, outer + 1, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_null(a.frames[0].function);
	assert_int_equal(a.source, SOURCE_NONE);
	symbolizer_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(real_files),
		compiled_test(few_are_read),
		compiled_test(assembler),
		compiled_test(announced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
