/*
 * From addresses of a process to functions: modules, files that changed, moved or went, the vdso,
 * JIT code.
 */
#include "compiled_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "failing_alloc.h"
#include "symbol/symbolizer.h"

#define BIAS UINT64_C(0x7f0000000000)

static char build_id[160];

static const char *read_build_id(const char *file)
{
	struct elf_file f;

	assert_int_equal(elf_file_open(in_folder(file), &f, NULL), 0);
	elf_build_id_text(&f, build_id, sizeof(build_id));
	elf_file_release(&f);
	return build_id;
}

static struct symbolizer *new_symbolizer(void)
{
	struct symbolizer_options options = { .debug_folders = NULL };
	struct symbolizer *s;

	assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
	return s;
}

static int add_modules(struct symbolizer *s, const struct symbol_module *modules, size_t count,
		       uint32_t pid)
{
	struct symbol_process p = { .pid = pid,
				    .directory = folder,
				    .is_here = pid != 0,
				    .modules = modules,
				    .module_count = count };
	int number = symbolizer_add_process(s, &p);

	assert_true(number >= 0);
	return number;
}

static const char *reason_of(struct symbolizer *s, const char *path)
{
	size_t count;
	const struct symbol_module_report *reports = symbolizer_reports(s, &count);

	assert_non_null(reports);
	for (size_t i = 0; i < count; i++)
		if (strcmp(reports[i].path, path) == 0)
			return reports[i].reason;
	return "no such report";
}

static struct symbol_module module_of(const char *path, const char *id)
{
	return (struct symbol_module){ .path = path,
				       .build_id = id,
				       .start = BIAS,
				       .end = BIAS + 0x100000,
				       .load_bias = BIAS };
}

static void answers(void **state)
{
	struct symbol_module m;
	struct symbolizer *s = new_symbolizer();
	struct symbol_answer a;
	uint64_t outer;
	int process;

	(void)state;
	write_known_source();
	shell("cc -O2 -g -fPIC -shared -Wl,--build-id -o known.so known.c");
	outer = nm_address("known.so", "outer");
	m = module_of("known.so", read_build_id("known.so"));
	process = add_modules(s, &m, 1, 0);
	assert_int_equal(symbolizer_find(s, process, BIAS + nm_address("known.so", "mark_inner"),
					 ADDRESS_INSTRUCTION, 0, &a),
			 0);
	assert_int_equal(a.count, 3);
	assert_int_equal(a.source, SOURCE_SYMBOLS);
	assert_string_equal(a.frames[0].function, "outer");
	assert_string_equal(a.frames[2].function, "inner");
	assert_int_equal(a.frames[2].line, 4);
	assert_int_equal(a.function_start, outer);
	assert_string_equal(a.module, "known.so");
	/* The address behind a call that does not return may be of the next function. */
	assert_int_equal(symbolizer_find(s, process, BIAS + outer, ADDRESS_RETURN, 0, &a), 0);
	assert_true(!a.frames[0].function || strcmp(a.frames[0].function, "outer") != 0);
	assert_int_equal(symbolizer_find(s, process, BIAS - 1, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_int_equal(a.source, SOURCE_NONE);
	assert_null(a.module);
	assert_string_equal(reason_of(s, "known.so"), "");
	symbolizer_free(s);
}

static void names(void **state)
{
	static const char source[] =
		".text\n.globl _ZN4core3ptr13drop_in_place17h0123456789abcdefE, _RNvC6_123foo3bar, "
		"_ZN1a1fEi, part.part.0\n"
		"_ZN4core3ptr13drop_in_place17h0123456789abcdefE: nop\n"
		"_RNvC6_123foo3bar: nop\n"
		"_ZN1a1fEi: nop\n"
		"part.part.0: nop\n"
		".section .note.GNU-stack\n";
	static const struct {
		const char *symbol, *shown;
	} expected[] = {
		{ "_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place" },
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_ZN1a1fEi", "a::f(int)" },
		{ "part.part.0", "part [clone .part.0]" },
	};
	struct symbolizer *s = new_symbolizer();
	struct symbol_module m;
	struct symbol_answer a;
	int process;

	(void)state;
	write_file("names.s", source, strlen(source));
	shell("cc -shared -nostdlib -Wl,--build-id -o names.so names.s");
	m = module_of("names.so", read_build_id("names.so"));
	process = add_modules(s, &m, 1, 0);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		uint64_t address = BIAS + nm_address("names.so", expected[i].symbol);

		assert_int_equal(symbolizer_find(s, process, address, ADDRESS_INSTRUCTION, 0, &a),
				 0);
		assert_string_equal(a.frames[0].function, expected[i].shown);
	}
	symbolizer_free(s);
}

static void other_builds_are_refused(void **state)
{
	const char *path;
	struct symbol_module m[4];
	struct symbolizer *s = new_symbolizer();
	struct symbol_answer a;
	int process;

	(void)state;
	write_known_source();
	shell("cc -O2 -fPIC -shared -Wl,--build-id -o known.so known.c && "
	      "cc -O2 -fPIC -shared -Wl,--build-id=none -o none.so known.c");
	path = in_folder("none.so");
	m[0] = module_of("known.so", "0123456789abcdef");
	m[1] = module_of("known.so", "");
	m[2] = module_of(path, "");
	m[2].loaded_unix_ns = 1; /* long before the file was made */
	m[3] = module_of("gone.so", "1123456789abcdef");
	for (unsigned i = 0; i < 4; i++) {
		m[i].start = BIAS + 0x1000000 * i;
		m[i].end = m[i].start + 0x100000;
		m[i].load_bias = m[i].start;
	}
	process = add_modules(s, m, 4, 0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(symbolizer_find(s, process,
						 m[i].start + nm_address("known.so", "outer"),
						 ADDRESS_INSTRUCTION, 0, &a),
				 0);
		assert_int_equal(a.source, SOURCE_NONE);
		assert_string_equal(a.module, m[i].path);
	}
	assert_non_null(
		strstr(reason_of(s, "known.so"), "another build: recorded 0123456789abcdef"));
	assert_non_null(strstr(reason_of(s, path), "has changed"));
	assert_non_null(strstr(reason_of(s, "gone.so"), "gone.so"));
	symbolizer_free(s);
	/* Without build ids a file that is as old as it was is taken. */
	s = new_symbolizer();
	m[2].loaded_unix_ns = (int64_t)clock_read_ns(CLOCK_REALTIME);
	process = add_modules(s, &m[2], 1, 0);
	assert_int_equal(symbolizer_find(s, process, m[2].start + nm_address("none.so", "outer"),
					 ADDRESS_INSTRUCTION, 0, &a),
			 0);
	assert_string_equal(a.frames[0].function, "outer");
	symbolizer_free(s);
}

/* The file is gone from its place, and a copy is among the debug files. */
static void copies(void **state)
{
	static const char *const places[] = { "copies/known.so", "copies$PWD/known.so",
					      "copies/.build-id/$id" };
	const char *folders[] = { in_folder("copies") };
	struct symbolizer_options options = { .debug_folders = folders, .debug_folder_count = 1 };
	struct symbol_answer a;
	struct symbol_module m;
	uint64_t outer;

	(void)state;
	write_known_source();
	shell("cc -O2 -g -fPIC -shared -Wl,--build-id -o known.so known.c");
	outer = nm_address("known.so", "outer");
	m = module_of("known.so", read_build_id("known.so"));
	shell("mv known.so kept");
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct symbolizer *s;
		int process;

		shell("rm -rf copies; id=%.2s/%s; mkdir -p \"$(dirname \"%s\")\" && cp kept \"%s\"",
		      build_id, build_id + 2, places[i], places[i]);
		assert_int_equal(symbolizer_new(&options, &s, NULL), 0);
		process = add_modules(s, &m, 1, 0);
		assert_int_equal(
			symbolizer_find(s, process, BIAS + outer, ADDRESS_INSTRUCTION, 0, &a), 0);
		assert_non_null(a.frames[0].function);
		assert_string_equal(a.frames[0].function, "outer");
		assert_string_equal(a.module, "known.so");
		symbolizer_free(s);
	}
}

/* Two libraries at one address, one after the other. */
static void addresses_used_again(void **state)
{
	char first_id[160];
	struct symbol_module m[2];
	struct symbolizer *s = new_symbolizer();
	struct symbol_answer a;
	uint64_t address;
	int process;

	(void)state;
	write_file("a.c", "int in_a(void) { return 1; }\n", 29);
	write_file("b.c", "int in_b(void) { return 2; }\n", 29);
	shell("for i in a b; do cc -O2 -fPIC -shared -Wl,--build-id -o $i.so $i.c; done");
	snprintf(first_id, sizeof(first_id), "%s", read_build_id("a.so"));
	m[0] = module_of("a.so", first_id);
	m[1] = module_of("b.so", read_build_id("b.so"));
	m[0].loaded_ns = 1000;
	m[1].loaded_ns = 2000;
	address = BIAS + nm_address("a.so", "in_a");
	assert_int_equal(nm_address("a.so", "in_a"), nm_address("b.so", "in_b"));
	process = add_modules(s, m, 2, 0);
	assert_int_equal(symbolizer_find(s, process, address, ADDRESS_INSTRUCTION, 1500, &a), 0);
	assert_string_equal(a.frames[0].function, "in_a");
	assert_int_equal(symbolizer_find(s, process, address, ADDRESS_INSTRUCTION, 2500, &a), 0);
	assert_string_equal(a.frames[0].function, "in_b");
	assert_int_equal(symbolizer_find(s, process, address, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_null(a.frames[0].function);
	assert_non_null(strstr(reason_of(s, "[unknown]"), "several files"));
	symbolizer_free(s);
}

/* Three libraries at one address, one after the other, that begin in any order. */
static void addresses_used_thrice(void **state)
{
	static const unsigned orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
					      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
	static const char *const files[] = { "a.so", "b.so", "c.so" };
	char ids[3][160];
	uint64_t address;

	(void)state;
	shell("for i in a b c; do echo \"int in_$i(void) { return 1; }\" >$i.c && "
	      "cc -O2 -fPIC -shared -Wl,--build-id -o $i.so $i.c; done");
	for (unsigned i = 0; i < 3; i++)
		snprintf(ids[i], sizeof(ids[i]), "%s", read_build_id(files[i]));
	address = BIAS + nm_address("a.so", "in_a");
	for (unsigned order = 0; order < ARRAY_SIZE(orders); order++) {
		struct symbolizer *s = new_symbolizer();
		struct symbol_module m[3];
		struct symbol_answer a;
		int process;

		for (unsigned i = 0; i < 3; i++) {
			unsigned which = orders[order][i];

			m[i] = module_of(files[which], ids[which]);
			m[i].start -= 4096 * i;
			m[i].loaded_ns = 1000 * (which + 1);
		}
		process = add_modules(s, m, 3, 0);
		for (unsigned i = 0; i < 3; i++) {
			char function[] = { 'i', 'n', '_', (char)('a' + i), 0 };

			assert_int_equal(symbolizer_find(s, process, address, ADDRESS_INSTRUCTION,
							 1000 * i + 1500, &a),
					 0);
			assert_string_equal(a.frames[0].function, function);
		}
		symbolizer_free(s);
	}
}

/* A program that was removed while it runs. */
static void deleted_files(void **state)
{
	static const char source[] = "#include <unistd.h>\nint outer(void) { return pause(); }\n"
				     "int main(void) { return outer(); }\n";
	struct symbolizer *s = new_symbolizer();
	struct symbol_module m;
	struct symbol_answer a;
	char path[512];
	uint64_t outer;
	int process;
	pid_t child;

	(void)state;
	write_file("sleeper.c", source, strlen(source));
	shell("cc -O1 -Wl,--build-id -o sleeper sleeper.c");
	outer = nm_address("sleeper", "outer");
	snprintf(path, sizeof(path), "%s (deleted)", in_folder("sleeper"));
	m = module_of(path, read_build_id("sleeper"));
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* should this test fail */
		execl(in_folder("sleeper"), "sleeper", NULL);
		_exit(127);
	}
	assert_true(child > 0);
	for (;;) {
		char link[64], target[512];
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/%d/exe", (int)child);
		length = readlink(link, target, sizeof(target) - 1);
		target[MAX(length, 0)] = 0;
		if (strcmp(target, in_folder("sleeper")) == 0)
			break;
		assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
		usleep(10000);
	}
	shell("rm sleeper");
	process = add_modules(s, &m, 1, (uint32_t)child);
	assert_int_equal(symbolizer_find(s, process, BIAS + outer, ADDRESS_INSTRUCTION, 0, &a), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_non_null(a.frames[0].function);
	assert_string_equal(a.frames[0].function, "outer");
	symbolizer_free(s);
}

static void vdso(void **state)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR);
	void *library = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = library ? dlsym(library, "__vdso_clock_gettime") : NULL;
	struct symbolizer *s = new_symbolizer();
	struct symbol_module m = { .path = "[vdso]", .build_id = build_id };
	struct symbol_answer a;
	struct elf_file f;
	int process;

	(void)state;
	if (!base || !function)
		skip();
	/* The section headers are behind all else. */
	assert_int_equal(elf_file_open_bytes((const void *)base, 4096, &f, NULL), 0);
	elf_build_id_text(&f, build_id, sizeof(build_id));
	elf_file_release(&f);
	m.start = m.load_bias = base;
	m.end = base + 8192;
	process = add_modules(s, &m, 1, 0);
	assert_int_equal(
		symbolizer_find(s, process, (uintptr_t)function, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_non_null(a.frames[0].function);
	assert_non_null(strstr(a.frames[0].function, "clock_gettime"));
	symbolizer_free(s);
	if (library)
		dlclose(library);
}

static void jit_code(void **state)
{
	struct symbolizer *s = new_symbolizer();
	struct symbol_answer a;
	char path[64];
	FILE *map;
	int here, elsewhere;

	(void)state;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	assert_non_null(map);
	fprintf(map, "5000 100 compiled by me\n");
	assert_int_equal(fclose(map), 0);
	here = add_modules(s, NULL, 0, (uint32_t)getpid());
	elsewhere = add_modules(s, NULL, 0, 0);
	assert_int_equal(symbolizer_find(s, here, 0x5010, ADDRESS_INSTRUCTION, 0, &a), 0);
	unlink(path);
	assert_int_equal(a.source, SOURCE_PERF_MAP);
	assert_string_equal(a.frames[0].function, "compiled by me");
	assert_int_equal(a.function_start, 0x5000);
	assert_int_equal(symbolizer_find(s, here, 0x5000, ADDRESS_RETURN, 0, &a), 0);
	assert_int_equal(a.source, SOURCE_NONE);
	assert_int_equal(symbolizer_find(s, elsewhere, 0x5010, ADDRESS_INSTRUCTION, 0, &a), 0);
	assert_int_equal(a.source, SOURCE_NONE);
	symbolizer_free(s);
}

/*
 * Whether the map of this process, written at one time, is believed when it was recorded at
 * another.
 */
static bool is_map_believed(int64_t written_unix_s, int64_t recorded_unix_s)
{
	struct timespec times[2] = { { written_unix_s, 0 }, { written_unix_s, 0 } };
	struct symbol_process p = { .pid = (uint32_t)getpid(),
				    .directory = "",
				    .is_here = true,
				    .start_unix_ns = recorded_unix_s * 1000000000 };
	struct symbolizer *s = new_symbolizer();
	struct symbol_answer a;
	char path[64];
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	assert_non_null(map);
	fputs("5000 100 f\n", map);
	assert_int_equal(fclose(map), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(symbolizer_find(s, symbolizer_add_process(s, &p), 0x5010,
					 ADDRESS_INSTRUCTION, 0, &a),
			 0);
	unlink(path);
	symbolizer_free(s);
	return a.source == SOURCE_PERF_MAP;
}

static void maps_of_others(void **state)
{
	int64_t now = (int64_t)time(NULL);

	(void)state;
	assert_true(is_map_believed(now, now));
	/* It had run for a while when its recording began. */
	assert_true(is_map_believed(now, now + 1000));
	/* Of one that had the id before. */
	assert_false(is_map_believed(now - 2000, now));
	assert_false(is_map_believed(now - 2000, now + 1000));
	/* The recorded one is gone, and this is another. */
	assert_false(is_map_believed(now, now - 2000));
	assert_true(is_map_believed(now - 1000, now - 2000));
}

/* Without memory there is an error or less is known, and nothing is left behind. */
static int ask_once(const struct symbol_module *m, uint64_t address)
{
	struct symbolizer_options options = { .debug_folders = NULL };
	struct symbol_process p = { .directory = folder, .modules = m, .module_count = 1 };
	struct symbolizer *s;
	struct symbol_answer a;
	int r = symbolizer_new(&options, &s, NULL);

	if (r < 0)
		return r;
	r = symbolizer_add_process(s, &p);
	if (r >= 0)
		r = symbolizer_find(s, r, address, ADDRESS_INSTRUCTION, 0, &a);
	if (r == 0 && !failing_alloc_failed)
		assert_string_equal(a.frames[0].function, "outer");
	symbolizer_free(s);
	return r;
}

static void no_memory(void **state)
{
	struct symbol_module m;
	unsigned failures = 0;
	uint64_t outer;

	(void)state;
	write_known_source();
	shell("cc -O2 -g -fPIC -shared -Wl,--build-id -o known.so known.c");
	outer = nm_address("known.so", "outer");
	m = module_of("known.so", read_build_id("known.so"));
	FOR_EACH_FAILURE(n)
	failures += ask_once(&m, BIAS + outer) < 0;
	assert_true(failures * FAILURE_STEP > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(answers),
		compiled_test(names),
		compiled_test(other_builds_are_refused),
		compiled_test(copies),
		compiled_test(addresses_used_again),
		compiled_test(addresses_used_thrice),
		compiled_test(deleted_files),
		compiled_test(vdso),
		compiled_test(jit_code),
		compiled_test(maps_of_others),
		compiled_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
