/*
 * unwind_query FILE: the rules for addresses. Reads hexadecimal addresses of an ELF file from
 * standard input, one a line, and writes a line for each as readelf --debug-dump=frames-interp
 * words it: CFA, return address, rbp, rbx; with --all by all entries, without the search table.
 */
#include <stdio.h>
#include <string.h>

#include "elf/elf_file.h"
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

static int answer(const struct unwind_input *input, uint64_t end)
{
	struct unwind_store store;
	struct unwind_parts *parts;
	char line[64];
	int r = unwind_store_init(&store, SIZE_MAX);

	if (r == 0)
		r = unwind_parts_new(input, end, NULL, NULL, &store, &parts);
	if (r < 0)
		return r;
	while (fgets(line, sizeof(line), stdin))
		print_rule(unwind_parts_find(parts, strtoull(line, NULL, 16)));
	unwind_parts_free(parts);
	unwind_store_release(&store);
	return 0;
}

int main(int argc, char **argv)
{
	struct unwind_input input;
	struct elf_file file;
	int r;

	if (argc < 2)
		return 2;
	r = elf_file_open(argv[1], &file, NULL);
	if (r == 0)
		r = elf_unwind_input(&file, &input);
	if (r == 0 &&
	    (!elf_load(&file, (struct elf_bytes){ input.section.bytes, input.section.size }) ||
	     (input.search &&
	      !elf_load(&file, (struct elf_bytes){ input.search, input.search_count * 8 }))))
		r = -1;
	if (r == 0 && argc > 2 && strcmp(argv[2], "--all") == 0)
		input.search = NULL;
	if (r == 0)
		r = answer(&input, elf_code_end(&file));
	if (r < 0) {
		fprintf(stderr, "'%s': no table: %d\n", argv[1], r);
		return 1;
	}
	elf_file_release(&file);
	return 0;
}
