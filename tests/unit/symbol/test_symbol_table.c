/* Functions by address, compared with what nm and objdump say of compiled programs. */
#include "compiled_fixture.h"

static void functions_and_gaps(void **state)
{
	static const char source[] =
		"__attribute__((noinline)) int first(int x) { return x * 3; }\n"
		"__attribute__((noinline, aligned(256))) int second(int x) { return x * 5; }\n"
		"__asm__(\".globl unsized\\n.p2align "
		"8\\nunsized:\\n\\tnop\\n\\tnop\\n\\tret\\n\");\n"
		"__attribute__((aligned(256))) int main(void) { return first(1) + second(2); }\n";
	uint64_t start, size;
	struct image image;

	(void)state;
	write_file("gaps.c", source, strlen(source));
	shell("cc -O2 -fno-toplevel-reorder -o gaps gaps.c");
	open_image("gaps", &image);
	start = nm_symbol("gaps", "first", &size);
	assert_name(&image, start, "first");
	assert_name(&image, start + size - 1, "first");
	assert_name(&image, start + size, "-");
	start = nm_symbol("gaps", "second", &size);
	assert_name(&image, start - 1, "-");
	assert_name(&image, start, "second");
	assert_name(&image, start + size, "-");
	start = nm_symbol("gaps", "unsized", &size);
	assert_int_equal(size, 0);
	assert_name(&image, start + 2, "unsized");
	assert_name(&image, 0, "-");
	assert_name(&image, UINT64_MAX, "-");
	image_release(&image);
}

/* A label in a function is no function. */
static void labels_take_nothing(void **state)
{
	struct image image;

	(void)state;
	write_known_source();
	shell("cc -O2 -o known known.c");
	open_image("known", &image);
	assert_name(&image, nm_address("known", "mark_inner"), "outer");
	assert_name(&image, nm_address("known", "mark_inner") + 1, "outer");
	image_release(&image);
}

/* Functions without sizes and frame descriptions, as those of MKL. */
static void labels_of_assemblers(void **state)
{
	static const char source[] = ".text\n.globl kernel, last, main\nmain: ret\n"
				     "kernel: nop\n.Lown: nop\nL12_K_LOOPgas_1: nop\nLgas_: nop\n"
				     "last: nop\nLEND_gas_12: nop\nLgas_x1: nop\n";
	struct image image;

	(void)state;
	write_file("labels.s", source, strlen(source));
	shell("cc -o labels labels.s");
	open_image("labels", &image);
	assert_name(&image, nm_address("labels", "kernel") + 2, "kernel");
	assert_name(&image, nm_address("labels", "kernel") + 3, "Lgas_");
	assert_name(&image, nm_address("labels", "last") + 1, "last");
	assert_name(&image, nm_address("labels", "last") + 2, "Lgas_x1");
	image_release(&image);
}

/* A program of Go's, by hand: two functions, one whose table disagrees, one after the last. */
static void functions_of_go(void **state)
{
	static const char source[] =
		".text\n.globl _start\n_start: nop; nop; nop; nop\n"
		"work: nop; nop; nop; nop\nodd: nop; nop\nlast: nop; nop\nc_code: nop\n"
		".section .gopclntab, \"a\"\n"
		".long MAGIC, 0x08010000\n.quad 4, 0, _start, names - table, 0, 0, 0, list - "
		"table\n"
		"names: .asciz \"main.main\"\nn1: .asciz \"main.(*Engine[...]).Run\"\n"
		"n2: .asciz \"odd\"\nn3: .asciz \"main.last\"\n"
		"list: .long 0, f0 - list, work - _start, f1 - list, odd - _start, f2 - list\n"
		".long last - _start, f3 - list, c_code - _start\n"
		"f0: .long 0, 0\nf1: .long work - _start, n1 - names\n"
		"f2: .long 0, n2 - names\nf3: .long last - _start, n3 - names\n";
	static const char *const magics[] = { "0xfffffff0", "0xfffffff1" };
	struct image image;
	uint64_t work;

	(void)state;
	write_file("go.s", source, strlen(source));
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
		shell("sed -e 's/MAGIC/%s/; s/^.long 0xf/table: &/' go.s >go-made.s && "
		      "cc -nostdlib -static -no-pie -o named go-made.s && strip -o go named",
		      magics[i]);
		work = nm_address("named", "work");
		open_image("go", &image);
		assert_name(&image, work - 1, "main.main");
		assert_name(&image, work, "main.(*Engine[...]).Run");
		assert_name(&image, work + 3, "main.(*Engine[...]).Run");
		assert_name(&image, work + 4, "-");
		assert_name(&image, work + 6, "main.last");
		assert_name(&image, work + 8, "-");
		image_release(&image);
	}
	open_image("named", &image);
	assert_name(&image, work, "work");
	image_release(&image);
	shell("sed -i s/_start,.names/0,names/ go-made.s && "
	      "cc -nostdlib -static -no-pie -o named go-made.s && strip -o go named");
	open_image("go", &image);
	assert_name(&image, work, "-");
	image_release(&image);
}

/*
 * A table that claims more functions than its section has room for, while the next section would go
 * on with them.
 */
static void cut_table_of_go(void **state)
{
	static const char source[] = ".text\n.globl _start\n_start: nop; nop\nlast: nop; nop\n"
				     ".section .gopclntab, \"a\"\n"
				     "table: .long 0xfffffff1, 0x08010000\n"
				     ".quad 1, 0, _start, names - table, 0, 0, 0, list - table\n"
				     "names: .asciz \"main.main\"\n.balign 4\nlist: .long 0\n"
				     ".section .rest, \"a\"\n.long 12, last - _start, 0, 0\n";
	struct image image;

	(void)state;
	write_file("cut.s", source, strlen(source));
	for (int whole = 0; whole < 2; whole++) {
		shell("sed '%s' cut.s >made.s && cc -nostdlib -static -no-pie -o named made.s && "
		      "strip -o go named",
		      whole ? "/rest/d" : "");
		open_image("go", &image);
		assert_name(&image, nm_address("named", "_start"), whole ? "main.main" : "-");
		image_release(&image);
	}
}

static void one_of_several_names(void **state)
{
	static const char source[] =
		"static __attribute__((noinline, used)) int own(int x) { return x * 3; }\n"
		"extern int weak_name(int) __attribute__((weak, alias(\"own\")));\n"
		"extern int __global(int) __attribute__((alias(\"own\")));\n"
		"extern int global_name(int) __attribute__((alias(\"own\")));\n"
		"extern int global_b(int) __attribute__((alias(\"own\")));\n"
		"static __attribute__((noinline, used)) int mine(int x) { return x * 5; }\n"
		"extern int weakened(int) __attribute__((weak, alias(\"mine\")));\n"
		"int main(void) { return own(1) + mine(2); }\n";
	struct image image;

	(void)state;
	write_file("names.c", source, strlen(source));
	shell("cc -O1 -fno-inline -o names names.c");
	open_image("names", &image);
	assert_name(&image, nm_address("names", "own"), "global_b");
	assert_name(&image, nm_address("names", "mine"), "mine");
	image_release(&image);
}

/* Without any symbol there is the start of the function, and no name. */
static void stripped(void **state)
{
	struct image_answer answer;
	struct image image;
	uint64_t start, size;

	(void)state;
	write_known_source();
	shell("cc -O2 -o known known.c && strip -o bare known");
	start = nm_symbol("known", "outer", &size);
	open_image("bare", &image);
	assert_int_equal(image_find(&image, start + size - 1, ADDRESS_INSTRUCTION, &answer), 0);
	assert_null(answer.frames[0].function);
	assert_true(answer.has_start);
	assert_int_equal(answer.start, start);
	assert_int_equal(image_find(&image, start + size, ADDRESS_RETURN, &answer), 0);
	assert_int_equal(answer.start, start);
	assert_int_equal(image_find(&image, 8, ADDRESS_INSTRUCTION, &answer), 0);
	assert_false(answer.has_start);
	image_release(&image);
	/* Not even sections. */
	if (try_shell("objcopy --strip-section-headers bare sectionless 2>/dev/null") == 0) {
		open_image("sectionless", &image);
		assert_int_equal(image_find(&image, start + 1, ADDRESS_INSTRUCTION, &answer), 0);
		assert_int_equal(answer.start, start);
		image_release(&image);
	}
}

/* .eh_frame by the segment that points at it. */
static void without_sections(void **state)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct image_answer answer;
	struct image image;
	uint64_t start;

	(void)state;
	write_known_source();
	shell("cc -O2 -o known known.c");
	start = nm_address("known", "outer");
	read_file("known", &bytes);
	memset(bytes.data + 0x28, 0, 8); /* e_shoff */
	memset(bytes.data + 0x3c, 0, 4); /* e_shnum, e_shstrndx */
	write_file("sectionless", bytes.data, bytes.length);
	open_image("sectionless", &image);
	assert_int_equal(image_find(&image, start + 1, ADDRESS_INSTRUCTION, &answer), 0);
	assert_true(answer.has_start);
	assert_int_equal(answer.start, start);
	assert_int_not_equal(image.code.build_id_size, 0);
	image_release(&image);
}

/* Every stub that objdump shows. */
static void check_stubs(const char *flags, const char *expected)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct image image;
	unsigned found = 0;

	shell("cc -O2 %s -o known known.c && objdump -d known | grep '^[0-9a-f]* <.*@plt>:' > "
	      "stubs || true",
	      flags);
	read_file("stubs", &text);
	open_image("known", &image);
	for (char *p = text.data, *next; p && *p; p = next) {
		uint64_t address = strtoull(p, &p, 16);
		char name[64];

		next = strchr(p, '\n') + 1;
		assert_int_equal(sscanf(p, " <%63[^@>]", name), 1);
		if (strncmp(name, "*ABS*", 5) == 0)
			continue;
		assert_name(&image, address, name);
		assert_name(&image, address + 7, name);
		found += strcmp(name, expected) == 0;
	}
	image_release(&image);
	if (!found)
		fail_msg("objdump shows no stub of %s with %s", expected, flags);
}

static void plt_stubs(void **state)
{
	(void)state;
#ifndef __x86_64__
	skip();
#endif
	write_known_source();
	check_stubs("-Wl,-z,lazy", "puts");
	check_stubs("-Wl,-z,now", "puts");
	check_stubs("-Wl,-z,lazy -no-pie", "puts");
	check_stubs("-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy", "puts");
	check_stubs("-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,now", "puts");
}

/*
 * A function that is chosen when it is loaded: the chooser, and the stub that calls what was
 * chosen.
 */
static void ifuncs(void **state)
{
	static const char source[] = "static int fast(int x) { return x * 3; }\n"
				     "static int (*choose(void))(int) { return fast; }\n"
				     "int chosen(int) __attribute__((ifunc(\"choose\")));\n"
				     "int main(void) { return chosen(1); }\n";
	struct image image;

	(void)state;
	write_file("ifunc.c", source, strlen(source));
	if (try_shell("cc -O1 -static -o ifunc ifunc.c 2>/dev/null") != 0)
		skip();
	open_image("ifunc", &image);
	assert_name(&image, nm_address("ifunc", "chosen"), "chosen");
	assert_name(&image, nm_address("ifunc", "fast"), "fast");
	assert_name(&image, nm_address("ifunc", "main"), "main");
	{
		const struct symbol *s =
			symbol_table_find(&image.symbols, nm_address("ifunc", "chosen"));
		unsigned stubs = 0;

		assert_int_equal(s->kind, SYMBOL_IFUNC);
		for (size_t i = 0; i < image.symbols.symbols.count; i++)
			stubs += image.symbols.symbols.data[i].kind == SYMBOL_PLT &&
				 strcmp(image.symbols.symbols.data[i].name, "chosen") == 0;
		assert_int_equal(stubs, 1);
	}
	image_release(&image);
}

/* The kernel returns to the start of this function from nowhere: there was no call before it. */
static void end_of_signal_handlers(void **state)
{
	static const char source[] = "#include <signal.h>\n"
				     "int main(void) { return signal(2, SIG_IGN) == SIG_ERR; }\n";
	struct image_answer answer;
	struct image image;

	(void)state;
	write_file("signal.c", source, strlen(source));
	if (try_shell("cc -static -o signal signal.c 2>/dev/null && nm signal | grep -q "
		      "__restore_rt"))
		skip();
	open_image("signal", &image);
	assert_int_equal(
		image_find(&image, nm_address("signal", "__restore_rt"), ADDRESS_RETURN, &answer),
		0);
	assert_non_null(answer.frames[0].function);
	assert_string_equal(answer.frames[0].function, "__restore_rt");
	image_release(&image);
}

/*
 * Each address of every function of a program of some size has the name that nm has, or another of
 * the same start.
 */
static void all_of_nm(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct image image;
	unsigned checked = 0;

	(void)state;
	shell("cp /proc/%d/exe self && nm -S self | awk 'NF == 4 && $3 ~ /[tTi]/ { print $1, $2, "
	      "$4 }' > nm.out",
	      (int)getpid());
	read_file("nm.out", &text);
	open_image("self", &image);
	for (char *p = text.data, *next; p && *p; p = next) {
		uint64_t start = strtoull(p, &p, 16), size = strtoull(p, &p, 16);
		uint64_t middle = start + size / 2;
		const struct symbol *s = symbol_table_find(&image.symbols, middle);

		next = strchr(p, '\n') + 1;
		assert_non_null(s);
		/* Either this one or one within it. */
		assert_true(s->start >= start && s->start <= middle && s->end > middle);
		checked++;
	}
	assert_true(checked > 500);
	image_release(&image);
}

/* A stripped file says less than the whole one, but nothing else. */
static void stripped_program(void **state)
{
	struct image whole, stripped;
	struct image_answer a, b;
	unsigned starts = 0;

	(void)state;
	shell("cp /proc/%d/exe self && strip -o stripped self", (int)getpid());
	open_image("self", &whole);
	open_image("stripped", &stripped);
	for (size_t i = 0; i < whole.symbols.symbols.count; i++) {
		const struct symbol *s = &whole.symbols.symbols.data[i];

		for (uint64_t at = s->start; at < s->end; at += MAX((s->end - s->start) / 3, 1)) {
			assert_int_equal(image_find(&whole, at, ADDRESS_INSTRUCTION, &a), 0);
			assert_int_equal(image_find(&stripped, at, ADDRESS_INSTRUCTION, &b), 0);
			assert_true(!b.has_start || b.start == a.start);
			assert_true(b.has_start || !b.frames[0].function);
			starts += b.has_start;
		}
	}
	assert_true(starts > 1000);
	image_release(&whole);
	image_release(&stripped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(functions_and_gaps),
		compiled_test(labels_take_nothing),
		compiled_test(labels_of_assemblers),
		compiled_test(functions_of_go),
		compiled_test(cut_table_of_go),
		compiled_test(one_of_several_names),
		compiled_test(stripped),
		compiled_test(without_sections),
		compiled_test(plt_stubs),
		compiled_test(ifuncs),
		compiled_test(end_of_signal_handlers),
		compiled_test(all_of_nm),
		compiled_test(stripped_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
