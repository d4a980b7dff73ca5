/*
 * unwind_query FILE: the rules for addresses. Reads hexadecimal addresses of an ELF file from standard
 * input, one a line, and writes a line for each as readelf --debug-dump=frames-interp words it:
 * CFA, return address, rbp, rbx; with --all by all entries, without the search table. With --count it writes
 * rows, rules, bytes and milliseconds instead.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "elf/elf_sections.h"
#include "stack/unwind/unwind_parts.h"

static const char *const names[REG_COUNT_] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi",
					       "rbp", "rsp", "r8",  "r9",  "r10", "r11",
					       "r12", "r13", "r14", "r15", "ra" };

static void print_save(const struct save_rule *save)
{
	switch (save->kind) {
	case SAVE_SAME:
	case SAVE_UNDEFINED:
		printf(" u");
		break;
	case SAVE_CFA:
		printf(" c%+d", save->offset);
		break;
	case SAVE_VALUE:
		printf(" v%+d", save->offset);
		break;
	case SAVE_COPY:
		printf(save->offset ? " vexp" : " %s", names[save->base]);
		break;
	case SAVE_MEMORY:
		printf(" exp");
		break;
	default:
		printf(" ?");
	}
}

static void print_rule(const struct unwind_rule *rule)
{
	switch (rule->cfa) {
	case CFA_NONE:
		puts("none");
		return;
	case CFA_UNKNOWN:
		puts("unknown");
		return;
	case CFA_END:
		puts("end");
		return;
	case CFA_SIGNAL:
		puts("exp exp exp exp");
		return;
	case CFA_REGISTER:
		printf("%s%+d", names[rule->base], rule->offset);
		break;
	default:
		printf("exp");
	}
	print_save(&rule->ra);
	print_save(&rule->saved[0]);
	print_save(&rule->saved[1]);
	putchar('\n');
}

static int load(const char *path, struct unwind_input *input, uint64_t *end)
{
	struct stat st;
	void *bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -1;
	r = elf_unwind_input(bytes, (size_t)st.st_size, input);
	*end = elf_code_end(bytes, (size_t)st.st_size);
	if (r == 0 && *end)
		elf_unwind_search(bytes, (size_t)st.st_size, input);
	return r;
}

static int answer(const struct unwind_input *input, uint64_t end, bool count)
{
	struct unwind_store store;
	struct unwind_parts *parts;
	uint64_t before = clock_monotonic_ns();
	char line[64];
	int r = unwind_store_init(&store, SIZE_MAX);

	if (r == 0)
		r = unwind_parts_new(input, end, NULL, NULL, &store, &parts);
	if (r < 0)
		return r;
	for (uint32_t i = 0; count && i < parts->part_count; i++)
		unwind_parts_find(parts, parts->base + ((uint64_t)i << UNWIND_PART_SHIFT));
	if (count)
		printf("%zu rows, %zu rules, %zu bytes, %u damaged, %.1f ms\n", parts->rows.count,
		       store.rules.count, store.bytes, parts->damaged,
		       (double)(clock_monotonic_ns() - before) / 1e6);
	while (!count && fgets(line, sizeof(line), stdin))
		print_rule(unwind_parts_find(parts, strtoull(line, NULL, 16)));
	unwind_parts_free(parts);
	unwind_store_release(&store);
	return 0;
}

int main(int argc, char **argv)
{
	struct unwind_input input;
	bool all = false, count = false;
	uint64_t end;
	int r;

	if (argc < 2)
		return 2;
	for (int i = 2; i < argc; i++) {
		all |= strcmp(argv[i], "--all") == 0;
		count |= strcmp(argv[i], "--count") == 0;
	}
	r = load(argv[1], &input, &end);
	if (all)
		input.search = NULL;
	if (r == 0)
		r = answer(&input, end, count);
	if (r < 0) {
		fprintf(stderr, "'%s': no table: %d\n", argv[1], r);
		return 1;
	}
	return 0;
}
