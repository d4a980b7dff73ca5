/* What nvdisasm prints, by programs that print what a test wants, fail, hang or print too much. */
#include "compiled_fixture.h"

#include "failing_alloc.h"
#include "symbol/sass.h"

#define LIMIT_S 60

/* A program that is run instead of nvdisasm. */
static const char *stand_in(const char *script)
{
	write_file("nvdisasm", script, strlen(script));
	shell("chmod +x nvdisasm && echo code >cubin");
	return in_folder("nvdisasm");
}

static int read_with(const char *script, unsigned limit_s, struct sass *s, struct error *e)
{
	return sass_read(s, stand_in(script), in_folder("cubin"), "3,7", limit_s, e);
}

static void assert_line(const struct sass_line *l, uint64_t offset, const char *text,
			const char *label)
{
	assert_int_equal(l->offset, offset);
	assert_string_equal(l->text, text);
	if (label)
		assert_string_equal(l->label, label);
	else
		assert_null(l->label);
}

/*
 * Two functions whose instructions come in turns and once again; a section of data; lines of
 * nothing.
 */
static const char printed[] = "#!/bin/sh\ncat <<'END'\n"
			      "\t.headerflags\t@\"EF_CUDA_SM90\"\n"
			      "        /*0000*/                   NOWHERE ;\n"
			      "\t.section\t.text.second,\"ax\",@progbits\n"
			      "        /*0000*/                   MOV R1, c[0x0][0x28] ;\n"
			      ".L_x_1:\n"
			      "        /*0010*/              @!P0 BRA `(.L_x_1)  ;\n"
			      "\t.section\t.text.first,\"ax\",@progbits\n"
			      "$first$inner:\n"
			      "\t{ /*0020*/   FADD R1, R2, R3 ;  /* 0x0000000003027221 */\n"
			      "        /*0010*/   EXIT ;\n"
			      "        /*zz*/   NONE ;\n"
			      "        /*0030 */   NONE ;\n"
			      "        /*0040*/   ;\n"
			      "\t.section\t.nv.info,\"\"\n"
			      "        /*0050*/   NONE ;\n"
			      "  .section .text.second\n"
			      "        /*0010*/   AGAIN ;\n"
			      "        /*0020*/   NOP\n"
			      "END\n";

static void sections_and_lines(void **state)
{
	const struct sass_line *lines;
	struct error e = { 0 };
	struct sass s = { 0 };
	size_t count;

	(void)state;
	assert_int_equal(read_with(printed, LIMIT_S, &s, &e), 0);
	lines = sass_find(&s, "first", &count);
	assert_int_equal(count, 2);
	assert_line(&lines[0], 0x10, "EXIT", NULL);
	assert_line(&lines[1], 0x20, "FADD R1, R2, R3", "$first$inner");
	lines = sass_find(&s, "second", &count);
	assert_int_equal(count, 3);
	assert_line(&lines[0], 0, "MOV R1, c[0x0][0x28]", NULL);
	assert_line(&lines[1], 0x10, "@!P0 BRA `(.L_x_1)", ".L_x_1");
	assert_line(&lines[2], 0x20, "NOP", NULL);
	sass_find(&s, "fir", &count);
	assert_int_equal(count, 0);
	sass_find(&s, "", &count);
	assert_int_equal(count, 0);
	sass_release(&s);
}

/*
 * The device code is a file that the child reads, whatever its name is; the functions are those
 * that were asked for.
 */
static void arguments(void **state)
{
	static const char script[] =
		"#!/bin/sh\necho '.section .text.f'\necho \"/*0*/ $1 $2 $3 $(cat $4) $# ;\"\n";
	const struct sass_line *lines;
	struct error e = { 0 };
	struct sass s = { 0 };
	size_t count;

	(void)state;
	assert_int_equal(read_with(script, LIMIT_S, &s, &e), 0);
	lines = sass_find(&s, "f", &count);
	assert_int_equal(count, 1);
	assert_line(&lines[0], 0, "-c -fun 3,7 code 4", NULL);
	sass_release(&s);
}

static void assert_fails(const char *script, unsigned limit_s, const char *text)
{
	struct error e = { 0 };
	struct sass s = { 0 };

	assert_true(read_with(script, limit_s, &s, &e) < 0);
	if (!strstr(e.text, text))
		fail_msg("\"%s\" is not in \"%s\"", text, e.text);
	sass_release(&s);
}

static void failures(void **state)
{
	struct error e = { 0 };
	struct sass s = { 0 };

	(void)state;
	assert_fails("#!/bin/sh\necho ' no such thing'\nexit 3\n", LIMIT_S,
		     "nvdisasm failed: no such thing");
	assert_fails("#!/bin/sh\nkill -9 $$\n", LIMIT_S, "killed by signal 9");
	assert_fails("#!/bin/sh\nsleep 60 & wait\n", 1, "took longer than 1 s");
	assert_fails("#!/bin/sh\nprintf '/*0*/ A\\000B ;\\n'\n", LIMIT_S, "cannot parse");
	assert_fails("#!/bin/sh\nwhile :; do head -c 1000000 /dev/zero; done\n", LIMIT_S,
		     "printed more than 64 MiB");
	assert_fails("#!/nowhere\n", LIMIT_S, "cannot run nvdisasm");
	assert_true(sass_read(&s, "/bin/true", in_folder("none"), "1", LIMIT_S, &e) < 0);
	sass_release(&s);
}

/* It fails, or there is all of it. */
static void no_memory(void **state)
{
	const char *program = stand_in(printed), *cubin = in_folder("cubin");
	unsigned failed = 0;

	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct error e = { 0 };
		struct sass s = { 0 };
		size_t count;

		if (sass_read(&s, program, cubin, "3,7", LIMIT_S, &e) == 0) {
			sass_find(&s, "second", &count);
			assert_int_equal(count, 3);
		} else {
			assert_true(*e.text);
			failed++;
		}
		sass_release(&s);
	}
	assert_in_range(failed, 3, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		compiled_test(sections_and_lines),
		compiled_test(arguments),
		compiled_test(failures),
		compiled_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
