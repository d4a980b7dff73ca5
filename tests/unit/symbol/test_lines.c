/* Lines and inlined calls of compiled programs, by every compiler and version of DWARF at hand. */
#include "compiled_fixture.h"

static void assert_frame(const struct source_frame *f, const char *function, unsigned line)
{
	assert_non_null(f->function);
	assert_string_equal(f->function, function);
	assert_non_null(f->file);
	assert_true(strlen(f->file) > 7);
	assert_string_equal(f->file + strlen(f->file) - 7, "known.c");
	assert_int_equal(f->line, line);
}

/* What is known of known.c, whatever made `file` from it. */
static void check_known(const char *file, const char *symbols)
{
	struct image_answer answer;
	struct image image;

	open_image(file, &image);
	assert_int_equal(
		image_find(&image, nm_address(symbols, "mark_inner"), ADDRESS_INSTRUCTION, &answer),
		0);
	assert_int_equal(answer.count, 3);
	assert_frame(&answer.frames[0], "outer", 15);
	assert_frame(&answer.frames[1], "middle", 10);
	assert_frame(&answer.frames[2], "inner", 4);
	/* The nop is one byte long: behind it is where a call would return to. */
	assert_int_equal(
		image_find(&image, nm_address(symbols, "mark_inner") + 1, ADDRESS_RETURN, &answer),
		0);
	assert_int_equal(answer.count, 3);
	assert_frame(&answer.frames[2], "inner", 4);
	assert_int_equal(
		image_find(&image, nm_address(symbols, "plain"), ADDRESS_INSTRUCTION, &answer), 0);
	assert_int_equal(answer.count, 1);
	assert_string_equal(answer.frames[0].function, "plain");
	assert_in_range(answer.frames[0].line, 19, 20);
	assert_int_equal(image_find(&image, 16, ADDRESS_INSTRUCTION, &answer), 0);
	assert_int_equal(answer.count, 1);
	assert_null(answer.frames[0].file);
	image_release(&image);
}

static void compilers_and_versions(void **state)
{
	static const char *const flags[] = {
		"-gdwarf-4",
		"-gdwarf-5",
		"-gdwarf-5 -gz",
		"-gdwarf-4 -no-pie",
		"-gdwarf-5 -static",
		"-gdwarf-5 -ffunction-sections -Wl,--gc-sections",
		"-gdwarf-3",
		"-gdwarf-5 -gdwarf64",
		"-gdwarf-4 -fdebug-types-section",
		"-gdwarf-5 -freorder-blocks-and-partition",
		"-gdwarf-5 -flto",
	};
	static const char *const compilers[] = { "gcc", "clang" };
	unsigned done = 0;

	(void)state;
	write_known_source();
	for (size_t c = 0; c < ARRAY_SIZE(compilers); c++) {
		/* Options of the linker are the same for both. */
		size_t count = c ? 2 : ARRAY_SIZE(flags);

		for (size_t i = 0; have_tool(compilers[c]) && i < count; i++) {
			if (try_shell("%s -O2 %s -o known known.c 2>/dev/null", compilers[c],
				      flags[i]) != 0)
				continue;
			print_message("%s %s\n", compilers[c], flags[i]);
			check_known("known", "known");
			done++;
		}
	}
	assert_true(done >= 6);
}

/*
 * What is inlined everywhere and has a lambda in its type has no linkage name: namespaces and
 * classes come from around it.
 */
static void qualified_names(void **state)
{
	static const char source[] =
		"namespace space { namespace {\n"
		"struct other { struct box { int x; }; int y; };\n"
		"struct outer { struct inner {\n"
		"	struct empty { int z; };\n"
		"	template <class F> static void call(F f) { f(); __asm__ volatile(\"\"); }\n"
		"}; };\n"
		"template <class F> inline void plain(F f) { outer::inner::call(f); __asm__ "
		"volatile(\"\"); }\n"
		"} }\n"
		"space::other::box unused;\n"
		"int main(int c, char **) {\n"
		"	space::plain([&] { __asm__ volatile(\".globl mark\\nmark: nop\" : "
		"\"+r\"(c)); });\n"
		"	return c + unused.x;\n"
		"}\n";
	static const char *const compilers[] = { "g++", "clang++" };
	struct image_answer answer;
	struct image image;

	(void)state;
	write_file("names.cpp", source, strlen(source));
	for (size_t c = 0; c < ARRAY_SIZE(compilers); c++) {
		if (!have_tool(compilers[c]) ||
		    try_shell("%s -O2 -g -o names names.cpp 2>/dev/null", compilers[c]) != 0)
			continue;
		print_message("%s\n", compilers[c]);
		open_image("names", &image);
		assert_int_equal(image_find(&image, nm_address("names", "mark"),
					    ADDRESS_INSTRUCTION, &answer),
				 0);
		assert_int_equal(answer.count, 4);
		assert_string_equal(answer.frames[0].function, "main");
		assert_true(strncmp(answer.frames[1].function,
				    "space::(anonymous namespace)::plain<", 36) == 0 ||
			    strstr(answer.frames[1].function, "_ZN5space"));
		assert_true(strncmp(answer.frames[2].function,
				    "space::(anonymous namespace)::outer::inner::call<", 49) == 0 ||
			    strstr(answer.frames[2].function, "5outer5inner4call"));
		assert_true(strcmp(answer.frames[3].function, "{unnamed}::operator()") == 0 ||
			    strstr(answer.frames[3].function, "clEv"));
		image_release(&image);
	}
}

static void separate_files(void **state)
{
	(void)state;
	write_known_source();
	/* By its link, beside the program, and in .debug. */
	shell("cc -O2 -g -Wl,--build-id=none -o known known.c && objcopy --only-keep-debug known "
	      "known.debug && "
	      "strip -o bare known && objcopy --add-gnu-debuglink=known.debug bare");
	check_known("bare", "known");
	shell("mkdir .debug && mv known.debug .debug/");
	check_known("bare", "known");
	/* Below the folder for debug files, at the program's own path. */
	shell("mkdir -p \"debug$PWD\" && mv .debug/known.debug \"debug$PWD/\"");
	check_known("bare", "known");
	/* By build id. */
	shell("cc -O2 -g -Wl,--build-id=sha1 -o known known.c && strip -o bare known && rm -r "
	      "debug && "
	      "id=$(readelf -n known | sed -n 's/.*Build ID: //p') && "
	      "mkdir -p debug/.build-id/$(echo $id | cut -c1-2) && "
	      "objcopy --only-keep-debug known debug/.build-id/$(echo $id | cut -c1-2)/$(echo $id "
	      "| cut -c3-).debug");
	check_known("bare", "known");
}

/* A file with symbols of another build is worse than none. */
static void wrong_separate_file(void **state)
{
	struct image image;

	(void)state;
	write_known_source();
	shell("cc -O2 -g -Wl,--build-id=none -o known known.c && objcopy --only-keep-debug known "
	      "known.debug && "
	      "strip -o bare known && objcopy --add-gnu-debuglink=known.debug bare && "
	      "printf x >> known.debug");
	open_image("bare", &image);
	assert_name(&image, nm_address("known", "outer"), "-");
	assert_null(image.debug.bytes);
	image_release(&image);
	shell("cc -O2 -g -Wl,--build-id=sha1 -o known known.c && strip -o bare known && "
	      "cc -O0 -g -Wl,--build-id=sha1 -o other known.c && "
	      "id=$(readelf -n known | sed -n 's/.*Build ID: //p') && "
	      "mkdir -p debug/.build-id/$(echo $id | cut -c1-2) && "
	      "cp other debug/.build-id/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-).debug");
	open_image("bare", &image);
	assert_name(&image, nm_address("known", "outer"), "-");
	assert_non_null(strstr(strbuf_text(&image.notes), "another build"));
	image_release(&image);
	/* What cannot be used does not stand before what can. */
	shell("objcopy --only-keep-debug known known.debug && "
	      "objcopy --add-gnu-debuglink=known.debug bare && "
	      "for f in debug/.build-id/*/*; do printf garbage > $f; done");
	check_known("bare", "known");
}

static void assert_file(struct image *image, const char *function, const char *file)
{
	struct image_answer answer;

	assert_int_equal(
		image_find(image, nm_address("folders", function), ADDRESS_INSTRUCTION, &answer),
		0);
	assert_non_null(answer.frames[0].file);
	assert_string_equal(answer.frames[0].file, in_folder(file));
}

/* Functions from headers of several folders, two of which have one name. */
static void files_of_several_folders(void **state)
{
	static const char source[] = "#include \"a/code.h\"\n#include \"a/b/code.h\"\n"
				     "int main(void) { return in_a(1) + in_b(2); }\n";
	struct image image;

	(void)state;
	shell("mkdir -p a/b && echo 'int in_a(int x) { return x * 3; }' >a/code.h && "
	      "echo 'int in_b(int x) { return x * 5; }' >a/b/code.h");
	write_file("folders.c", source, strlen(source));
	for (unsigned version = 4; version <= 5; version++) {
		shell("cc -O1 -fno-inline -gdwarf-%u -o folders folders.c", version);
		open_image("folders", &image);
		assert_file(&image, "in_a", "a/code.h");
		assert_file(&image, "in_b", "a/b/code.h");
		assert_file(&image, "main", "folders.c");
		image_release(&image);
	}
}

/* What two programs have in common is in a file that both refer to. */
static void shared_file(void **state)
{
	(void)state;
	if (!have_tool("dwz"))
		skip();
	write_known_source();
	for (unsigned version = 4; version <= 5; version++) {
		shell("rm -f shared && cc -O2 -gdwarf-%u -o known known.c && cp known twin && "
		      "dwz -m shared -M \"$PWD/shared\" known twin 2>dwz.err && test -e shared",
		      version);
		check_known("known", "known");
	}
	/* Named from where the program is. */
	shell("rm shared && cc -O2 -g -o known known.c && cp known twin && "
	      "dwz --relative -m shared known twin 2>dwz.err && test -e shared");
	check_known("known", "known");
	shell("rm shared");
	{
		struct image image;

		open_image("known", &image);
		assert_name(&image, nm_address("known", "outer"), "outer");
		assert_non_null(strstr(strbuf_text(&image.notes), "supplementary debug file"));
		image_release(&image);
	}
}

/* Functions and inlined calls are elsewhere, which is said; lines are there. */
static void split_dwarf(void **state)
{
	struct image_answer answer;
	struct image image;

	(void)state;
	write_known_source();
	shell("cc -O2 -gdwarf-5 -gsplit-dwarf -o known known.c");
	open_image("known", &image);
	assert_int_equal(
		image_find(&image, nm_address("known", "mark_inner"), ADDRESS_INSTRUCTION, &answer),
		0);
	assert_int_equal(answer.count, 1);
	assert_frame(&answer.frames[0], "outer", 4);
	assert_non_null(strstr(strbuf_text(&image.notes), "split DWARF"));
	image_release(&image);
}

/* Symbols in a compressed section of the file itself, as Fedora has them. */
static void mini_debug_info(void **state)
{
	struct image image;

	(void)state;
	if (!have_tool("xz"))
		skip();
	write_known_source();
	shell("cc -O2 -o known known.c && objcopy --only-keep-debug --strip-symbol=main known mini "
	      "&& "
	      "xz mini && strip -o bare known && objcopy --add-section .gnu_debugdata=mini.xz "
	      "bare");
	open_image("bare", &image);
#ifdef PITOT_HAVE_LZMA
	assert_name(&image, nm_address("known", "plain"), "plain");
	assert_name(&image, nm_address("known", "outer"), "outer");
#else
	assert_name(&image, nm_address("known", "plain"), "-");
	assert_non_null(strstr(strbuf_text(&image.notes), "liblzma"));
#endif
	assert_name(&image, nm_address("known", "main"), "-");
	image_release(&image);
	shell("printf broken > mini.xz && strip -o bare known && objcopy --add-section "
	      ".gnu_debugdata=mini.xz bare");
	open_image("bare", &image);
	assert_name(&image, nm_address("known", "plain"), "-");
	assert_non_null(strstr(strbuf_text(&image.notes), "MiniDebugInfo"));
	image_release(&image);
}

/* "function\nfile:line\n" of addr2line. False: it says nothing of the line. */
static bool read_answer(char **p, char **function, char **file, unsigned *line)
{
	char *colon;

	*function = *p;
	*p = strchr(*p, '\n');
	*(*p)++ = 0;
	*file = *p;
	*p = strchr(*p, '\n');
	*(*p)++ = 0;
	colon = strrchr(*file, ':');
	*colon = 0;
	*line = (unsigned)strtoul(colon + 1, NULL, 10);
	return *line != 0 && **file != '?';
}

/* Random addresses of this program: innermost function and line are those of addr2line. */
static void random_addresses(void **state)
{
	_cleanup_strbuf_ struct strbuf asked = STRBUF_INIT, text = STRBUF_INIT;
	VEC(uint64_t) addresses = VEC_INIT;
	unsigned compared = 0, same_line = 0, same_function = 0;
	uint64_t seed = 7;
	struct image image;
	char *p;

	(void)state;
	shell("cp /proc/%d/exe self", (int)getpid());
	open_image("self", &image);
	for (unsigned i = 0; i < 2000; i++) {
		const struct bounds *b;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		b = &image.bounds.items.data[(seed >> 33) % image.bounds.items.count];
		assert_int_equal(
			vec_push(&addresses, b->start + (seed >> 20) % (b->end - b->start)), 0);
		strbuf_addf(&asked, "0x%llx\n",
			    (unsigned long long)addresses.data[addresses.count - 1]);
	}
	write_file("asked", asked.data, asked.length);
	shell("addr2line -f -e self < asked > answers");
	read_file("answers", &text);
	p = text.data;
	for (size_t i = 0; i < addresses.count; i++) {
		struct image_answer answer;
		const struct source_frame *f;
		char *function, *file;
		unsigned line;

		if (!read_answer(&p, &function, &file, &line))
			continue;
		assert_int_equal(
			image_find(&image, addresses.data[i], ADDRESS_INSTRUCTION, &answer), 0);
		f = &answer.frames[answer.count - 1];
		compared++;
		same_line += f->line == line && f->file;
		same_function += f->function && strcmp(f->function, function) == 0;
	}
	print_message("%u compared, %u lines and %u functions equal\n", compared, same_line,
		      same_function);
	assert_true(compared > 100);
	/*
	 * Padding is in functions for addr2line; and it takes the file of some lines from
	 * elsewhere.
	 */
	assert_true(same_line * 100 >= compared * 98);
	assert_true(same_function * 100 >= compared * 97);
	vec_release(&addresses);
	image_release(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(compilers_and_versions),
		compiled_test(qualified_names),
		compiled_test(separate_files),
		compiled_test(wrong_separate_file),
		compiled_test(split_dwarf),
		compiled_test(files_of_several_folders),
		compiled_test(shared_file),
		compiled_test(mini_debug_info),
		compiled_test(random_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
