/* Names of code that is in no file: perf's maps of JIT compilers, and the kernel's symbols. */
#include "compiled_fixture.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbol/kernel_symbols.h"
#include "symbol/perf_map.h"

/* Reads a file with this text, and then as many zeros. */
static int map_with_zeros(struct perf_map *m, const char *text, size_t length, uint64_t zeros)
{
	int fd = memfd_create("map", MFD_CLOEXEC), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), length);
	assert_int_equal(ftruncate(fd, (off_t)(length + zeros)), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	rc = perf_map_read(m, fd);
	close(fd);
	return rc;
}

static int map_of(struct perf_map *m, const char *text, size_t length)
{
	return map_with_zeros(m, text, length, 0);
}

static const char *jit_name(const struct perf_map *m, uint64_t address)
{
	const struct jit_function *f = perf_map_find(m, address);

	return f ? f->name : "-";
}

static void maps(void **state)
{
	static const char text[] = "1000 10 first\n"
				   "0x2000 0x20 py::fib:/a file.py\n"
				   "3000 100 old\n"
				   "3040 10 new in the middle of old\n"
				   "nonsense\n"
				   "5000 0 empty\n"
				   "6000 10\n"
				   "ffffffffffffffff 10 beyond\n"
				   "11111111111111111 10 too long\n"
				   "4000 10 was here\n"
				   "4000 20 is here\n"
				   "7000 10 cut";
	struct perf_map m;

	(void)state;
	assert_int_equal(map_of(&m, text, strlen(text)), 0);
	assert_string_equal(jit_name(&m, 0xfff), "-");
	assert_string_equal(jit_name(&m, 0x1000), "first");
	assert_string_equal(jit_name(&m, 0x100f), "first");
	assert_string_equal(jit_name(&m, 0x1010), "-");
	assert_string_equal(jit_name(&m, 0x2010), "py::fib:/a file.py");
	assert_string_equal(jit_name(&m, 0x3045), "new in the middle of old");
	assert_string_equal(jit_name(&m, 0x3000), "-");
	assert_string_equal(jit_name(&m, 0x4000), "is here");
	assert_string_equal(jit_name(&m, 0x4018), "is here");
	assert_string_equal(jit_name(&m, 0x7000), "-");
	assert_string_equal(jit_name(&m, UINT64_MAX), "-");
	perf_map_release(&m);
	assert_int_equal(map_of(&m, "", 0), 0);
	assert_string_equal(jit_name(&m, 0), "-");
	perf_map_release(&m);
}

/*
 * Of overlapping functions the one that was written last is right, and none that it covers is left.
 */
static void memory_used_again(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		unsigned owner[64] = { 0 }, count = 1 + round % 6;
		struct perf_map m;

		for (unsigned i = 1; i <= count; i++) {
			uint64_t start, size;

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			start = 1 + (seed >> 33) % 48;
			size = 1 + (seed >> 45) % 15;
			strbuf_addf(&text, "%llx %llx %u\n", (unsigned long long)start,
				    (unsigned long long)size, i);
			for (uint64_t a = start; a < start + size; a++)
				owner[a] = i;
		}
		assert_int_equal(map_of(&m, text.data, text.length), 0);
		for (uint64_t a = 0; a < 64; a++) {
			const struct jit_function *f = perf_map_find(&m, a);

			/* A name is that of the last that was written there. */
			if (f)
				assert_int_equal(strtoul(f->name, NULL, 10), owner[a]);
		}
		/* The last one is there in full. */
		for (uint64_t a = 0; a < 64; a++)
			if (owner[a] == count)
				assert_non_null(perf_map_find(&m, a));
		perf_map_release(&m);
	}
}

/*
 * Lines that are too long are ignored, also across buffers; of a map that never ends, what comes
 * before the limit is read, and takes no more memory than its functions.
 */
static void map_without_end(void **state)
{
	static const char first[] = "1000 10 first\n", last[] = "\n2000 10 last\n";
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct perf_map m;

	(void)state;
	strbuf_adds(&text, first);
	for (unsigned i = 0; i < 200000; i++)
		strbuf_addc(&text, 'x');
	strbuf_adds(&text, last);
	assert_int_equal(map_of(&m, text.data, text.length), 0);
	assert_string_equal(jit_name(&m, 0x1000), "first");
	assert_string_equal(jit_name(&m, 0x2000), "last");
	assert_false(m.is_cut);
	perf_map_release(&m);
	assert_int_equal(map_with_zeros(&m, first, strlen(first), PERF_MAP_BYTES), 0);
	assert_string_equal(jit_name(&m, 0x1000), "first");
	assert_true(m.is_cut);
	assert_in_range(m.names.bytes, 1, 1 << 20);
	perf_map_release(&m);
}

static void kernel(void **state)
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "ffffffff81000000 T startup_64\n"
				   "ffffffff81001000 t do_work\n"
				   "ffffffff81002000 D data\n"
				   "ffffffff81900000 W weak\n"
				   "ffffffffc0000000 t ext4_read\t[ext4]\n"
				   "0000000000000000 T hidden\n"
				   "broken\n";
	static const char hidden[] = "0000000000000000 T _text\n0000000000000000 t do_work\n";
	struct kernel_symbols k;
	struct error e = { 0 };

	(void)state;
	write_file("kallsyms", text, strlen(text));
	assert_int_equal(kernel_symbols_open(&k, in_folder("kallsyms"), &e), 0);
	assert_string_equal(kernel_symbols_find(&k, 0xffffffff81000010)->name, "_text");
	assert_string_equal(kernel_symbols_find(&k, 0xffffffff81002010)->name, "do_work");
	assert_null(kernel_symbols_find(&k, 0xffffffff81001000)->module);
	assert_string_equal(kernel_symbols_find(&k, 0xffffffffc0000010)->name, "ext4_read");
	assert_string_equal(kernel_symbols_find(&k, 0xffffffffc0000010)->module, "ext4");
	assert_null(kernel_symbols_find(&k, 0xffffffff80ffffff));
	assert_null(kernel_symbols_find(&k, 0xffffffff81800000));
	assert_null(kernel_symbols_find(&k, 0));
	kernel_symbols_release(&k);
	write_file("kallsyms", hidden, strlen(hidden));
	assert_int_equal(kernel_symbols_open(&k, in_folder("kallsyms"), &e), -EACCES);
	assert_non_null(strstr(e.text, "kptr_restrict"));
	assert_int_equal(kernel_symbols_open(&k, in_folder("none"), &e), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(maps),
		compiled_test(memory_used_again),
		compiled_test(map_without_end),
		compiled_test(kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
