/*
 * Operands of static probes, as compilers write them, become what the BPF programs read; others
 * are refused.
 */
#include "sampler/ebpf/ebpf_arguments.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#define NO BPF_NO_REGISTER

static const struct accepted {
	const char *text;
	struct bpf_argument expected;
} accepted[] = {
	{ "-8@%rbp", { .base = 6, .index = NO, .size = 8, .is_signed = 1 } },
	{ "8@%rdx", { .base = 1, .index = NO, .size = 8 } },
	{ "-1@%al", { .base = 0, .index = NO, .size = 1, .is_signed = 1 } },
	{ "1@%ah", { .base = 0, .index = NO, .size = 1, .shift = 8 } },
	{ "1@%bh", { .base = 3, .index = NO, .size = 1, .shift = 8 } },
	{ "1@%sil", { .base = 4, .index = NO, .size = 1 } },
	{ "-4@%r12d", { .base = 12, .index = NO, .size = 4, .is_signed = 1 } },
	{ "2@%r15w", { .base = 15, .index = NO, .size = 2 } },
	{ "-8@56(%rsp)",
	  { .base = 7, .index = NO, .size = 8, .is_signed = 1, .is_memory = 1, .offset = 56 } },
	{ "-8@-56(%rbp)",
	  { .base = 6, .index = NO, .size = 8, .is_signed = 1, .is_memory = 1, .offset = -56 } },
	{ "4@(%rdi)", { .base = 5, .index = NO, .size = 4, .is_memory = 1 } },
	{ "8@-8(%rax,%rcx,4)",
	  { .base = 0, .index = 2, .scale = 2, .size = 8, .is_memory = 1, .offset = -8 } },
	{ "8@(%rax,%rcx)", { .base = 0, .index = 2, .size = 8, .is_memory = 1 } },
	{ "8@16(,%r8,8)",
	  { .base = NO, .index = 8, .scale = 3, .size = 8, .is_memory = 1, .offset = 16 } },
	{ "-4@$-1", { .base = NO, .index = NO, .size = 4, .is_signed = 1, .offset = -1 } },
	{ "8@$0", { .base = NO, .index = NO, .size = 8 } },
};

static const char *const refused[] = {
	"8",
	"8@",
	"@%rax",
	"3@%rax",
	"16@%rax",
	"0@%rax",
	"-9@%rax",
	"8@%",
	"8@%xmm0",
	"8f@%xmm0",
	"8@rax",
	"8@%rax,",
	"8@%raxx",
	"8@5",
	"8@5(",
	"8@5()",
	"8@5(%eax)",
	"8@5(%rax",
	"8@5(%rax,)",
	"8@(%rax,%rcx",
	"8@(,,4)",
	"8@(%rax,,2)",
	"8@(%rax,%rcx,3)",
	"8@symbol",
	"8@x(%rip)",
	"8@4+x(%rip)",
	"8@$",
	"8@$x",
	"8@%rax8@%rbx",
	"8@99999999999999999999(%rax)",
	"99999999999999999999@%rax",
	"8@(%rax,%rcx,0)",
	"-9223372036854775808@%rax",
};

static void operands_are_read(void **state)
{
	struct bpf_argument a;

	(void)state;
	for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++) {
		struct error e = { 0 };

		if (ebpf_arguments_read(accepted[i].text, &a, 1, &e) != 1)
			fail_msg("%s: %s", accepted[i].text, e.text);
		if (memcmp(&a, &accepted[i].expected, sizeof(a)))
			fail_msg("%s: base %u, index %u, scale %u, offset %lld", accepted[i].text,
				 a.base, a.index, a.scale, (long long)a.offset);
	}
}

static void others_are_refused(void **state)
{
	struct bpf_argument a[2];

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct error e = { 0 };

		if (ebpf_arguments_read(refused[i], a, 2, &e) != E_UNSUPPORTED)
			fail_msg("'%s' was accepted", refused[i]);
		assert_non_null(strstr(e.text, refused[i]));
	}
}

/* The notes of PyTorch 2.14. What comes after the arguments that are read may have any form. */
static void only_the_first_are_read(void **state)
{
	struct bpf_argument a[3];

	(void)state;
	assert_int_equal(ebpf_arguments_read("-8@%rbp -1@%al -8@%r12 -8@56(%rsp)", a, 3, NULL), 3);
	assert_int_equal(a[2].base, 12);
	assert_int_equal(ebpf_arguments_read("  8@%rax   8@%rbx  ", a, 3, NULL), 2);
	assert_int_equal(ebpf_arguments_read("-8@%rdi ?", a, 1, NULL), 1);
	assert_int_equal(ebpf_arguments_read("-8@%rdi ?", a, 2, NULL), E_UNSUPPORTED);
	assert_int_equal(ebpf_arguments_read("", a, 3, NULL), 0);
}

/* Any text, of the characters that operands have. */
static void any_text_is_safe(void **state)
{
	static const char letters[] = "8-1@%$(),raxbp 0";
	struct bpf_argument a[3];

	(void)state;
	srand(5);
	for (int i = 0; i < 200000; i++) {
		char *text = malloc(13);
		int length = rand() % 13, count;

		assert_non_null(text);
		for (int k = 0; k < length; k++)
			text[k] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		text[length] = '\0';
		count = ebpf_arguments_read(text, a, 3, NULL);
		assert_true(count == E_UNSUPPORTED || (count >= 0 && count <= 3));
		for (int k = 0; k < count; k++)
			assert_true((a[k].base < 16 || a[k].base == NO) &&
				    (a[k].index < 16 || a[k].index == NO) && a[k].scale < 4);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operands_are_read),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(only_the_first_are_read),
		cmocka_unit_test(any_text_is_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
