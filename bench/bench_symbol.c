/* layer: symbol */
/*
 * bench_symbol: the cost of symbolizing addresses. For each file: the time to open it, and to look
 * up random addresses within its functions for the first and the second time; and how many of them
 * got a name, a line, or at least the start of their function.
 *
 *	bench_symbol [-n ADDRESSES] [-d DEBUG_FOLDER] [FILE…]
 *
 * Without files, it uses the libpython and libLLVM that it finds, and itself.
 */
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "symbol/symbolizer.h"

static uint64_t random_next(void)
{
	static uint64_t state = 2026;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Chooses addresses within the functions of a file; NULL: it cannot be read. */
static uint64_t *choose_addresses(const char *path, size_t count,
				  char build_id[2 * BUILD_ID_MAX + 1])
{
	uint64_t *addresses = malloc(count * sizeof(*addresses));
	struct function_bounds bounds;
	struct code_zones zones;
	struct elf_file f;

	if (!addresses || elf_file_open(path, &f, NULL) < 0)
		goto fail;
	elf_build_id_text(&f, build_id, 2 * BUILD_ID_MAX + 1);
	if (function_bounds_init(&bounds, &f, NULL, &zones) < 0 || bounds.items.count == 0) {
		elf_file_release(&f);
		goto fail;
	}
	for (size_t i = 0; i < count; i++) {
		const struct bounds *b = &bounds.items.data[random_next() % bounds.items.count];

		addresses[i] = b->start + random_next() % (b->end - b->start);
	}
	function_bounds_release(&bounds);
	elf_file_release(&f);
	return addresses;
fail:
	free(addresses);
	return NULL;
}

struct counts {
	size_t named, with_line, with_start, frames;
};

static uint64_t look_up_all(struct symbolizer *s, int process, const uint64_t *addresses,
			    size_t count, struct counts *counts)
{
	uint64_t start_ns = clock_monotonic_ns();
	static struct symbol_answer answer;

	*counts = (struct counts){ 0 };
	for (size_t i = 0; i < count; i++) {
		if (symbolizer_find(s, process, addresses[i], ADDRESS_INSTRUCTION, 0, &answer) < 0)
			return 0;
		counts->named += answer.frames[0].function != NULL;
		counts->with_line += answer.frames[answer.count - 1].line != 0;
		counts->with_start += answer.has_start;
		counts->frames += answer.count;
	}
	return clock_monotonic_ns() - start_ns;
}

static const char *debug_folder;

static void bench(const char *path, size_t count)
{
	char build_id[2 * BUILD_ID_MAX + 1];
	uint64_t *addresses = choose_addresses(path, count, build_id);
	struct symbol_module module = { .path = path, .build_id = build_id, .end = UINT64_MAX };
	struct symbol_process p = { .directory = "", .modules = &module, .module_count = 1 };
	struct symbolizer_options options = { .debug_folders = &debug_folder,
					      .debug_folder_count = debug_folder != NULL };
	struct symbolizer *s = NULL;
	struct counts counts;
	uint64_t open_ns, first_ns, second_ns;
	int process;

	if (!addresses || symbolizer_new(&options, &s, NULL) < 0) {
		printf("%-40s cannot be read\n", path);
		free(addresses);
		return;
	}
	process = symbolizer_add_process(s, &p);
	for (size_t i = 0; i < count; i++)
		if (symbolizer_want(s, process, addresses[i], ADDRESS_INSTRUCTION) < 0)
			exit(1);
	open_ns = look_up_all(s, process, addresses, 1, &counts);
	first_ns = look_up_all(s, process, addresses, count, &counts);
	second_ns = look_up_all(s, process, addresses, count, &counts);
	path = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	printf("%-28.28s %9.1f %9.1f %9.0f %7.1f%% %7.1f%% %7.1f%% %7.2f\n", path,
	       (double)open_ns / 1e6, (double)first_ns / 1e6, (double)second_ns / (double)count,
	       100.0 * (double)counts.named / (double)count,
	       100.0 * (double)counts.with_line / (double)count,
	       100.0 * (double)counts.with_start / (double)count,
	       (double)counts.frames / (double)count);
	symbolizer_free(s);
	free(addresses);
}

static void bench_pattern(const char *pattern, size_t count)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) == 0)
		bench(found.gl_pathv[found.gl_pathc - 1], count);
	globfree(&found);
}

int main(int argc, char **argv)
{
	size_t count = 10000;
	int first = 1;

	for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
		if (strcmp(argv[first], "-n") == 0)
			count = strtoull(argv[first + 1], NULL, 10);
		else if (strcmp(argv[first], "-d") == 0)
			debug_folder = argv[first + 1];
	}
	if (count == 0)
		return 2;
	printf("%zu addresses\n%-28s %9s %9s %9s %8s %8s %8s %7s\n", count, "file", "open ms",
	       "first ms", "again ns", "named", "line", "start", "frames");
	for (int i = first; i < argc; i++)
		bench(argv[i], count);
	if (first >= argc) {
		bench("/proc/self/exe", count);
		bench_pattern("/usr/lib/*/libpython3*.so.1.0", count);
		bench_pattern("/usr/lib/*/libLLVM*.so.1", count);
	}
	return 0;
}
