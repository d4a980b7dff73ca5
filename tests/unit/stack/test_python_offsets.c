/*
 * Which CPython it is, from the symbols that a process would have: what is known, and what is
 * refused and why.
 */
#include "support/cmocka_tests.h"

#include <errno.h>
#include <string.h>

#include "stack/python/python_offsets.h"

struct process {
	unsigned long version;
	const char *text;
	const char *lacks, *has;
	uint64_t runtime[PYTHON_DEBUG_OFFSETS / 8];
};

static const char *version_text;
static uint8_t something[64];

static const char *get_version(void)
{
	return version_text;
}

static void *symbol(void *context, const char *name)
{
	static const char *const usual[] = { "PyGILState_GetThisThreadState", "PyCode_Type",
					     "PyUnicode_Type", "PyBytes_Type",
					     "_PyEval_EvalFrameDefault" };
	struct process *p = context;

	if (p->lacks && !strcmp(name, p->lacks))
		return NULL;
	if (p->has && !strcmp(name, p->has))
		return something;
	if (!strcmp(name, "Py_Version"))
		return p->version ? &p->version : NULL;
	if (!strcmp(name, "Py_GetVersion"))
		return p->text ? (void *)get_version : NULL;
	if (!strcmp(name, "_PyRuntime"))
		return p->runtime;
	if (!strcmp(name, p->version >= 0x030d0000 ? "Py_IsFinalizing" : "_Py_IsFinalizing"))
		return something;
	for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
		if (!strcmp(name, usual[i]))
			return something;
	return NULL;
}

static int find(struct process *p, struct python_runtime *runtime, struct error *e)
{
	*e = (struct error){ 0 };
	version_text = p->text;
	memset(runtime, 0, sizeof(*runtime));
	return python_runtime_of(symbol, p, runtime, e);
}

static void accept(struct process *p, uint32_t version)
{
	struct python_runtime runtime;
	struct error e;

	assert_int_equal(find(p, &runtime, &e), 0);
	assert_int_equal(runtime.version, version);
}

static void refuse(struct process *p, const char *reason)
{
	struct python_runtime runtime;
	struct error e;

	assert_int_equal(find(p, &runtime, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, reason));
	assert_int_equal(runtime.version, 0);
}

static void test_versions(void **state)
{
	(void)state;
	accept(&(struct process){ .text = "3.9.18 (main, Jan  1 2024, 00:00:00) [GCC 12.2.0]" },
	       0x030912f0);
	accept(&(struct process){ .text = "3.10.0rc2 (tags/x) [GCC]" }, 0x030a00c0);
	accept(&(struct process){ .text = "3.10.2+ (heads/x) [GCC]" }, 0x030a02f0);
	accept(&(struct process){ .version = 0x030b02f0 }, 0x030b02f0);
	accept(&(struct process){ .version = 0x030c01f0, .text = "nonsense" }, 0x030c01f0);
	refuse(&(struct process){ .text = "3.8.18 (default)" }, "3.8");
	refuse(&(struct process){ .text = "2.7.18 (default)" }, "2.7");
	refuse(&(struct process){ .text = "3.10.0b4 (default)" }, "pre-release");
	refuse(&(struct process){ .version = 0x030c00a7 }, "pre-release");
	refuse(&(struct process){ .version = 0x031000f0 }, "3.16");
	refuse(&(struct process){ .version = 0x040000f0 }, "4.0");
	refuse(&(struct process){ .text = "three" }, "version");
	refuse(&(struct process){ .text = "3.9" }, "version");
	refuse(&(struct process){ .text = "3.99999999999.1" }, "version");
	refuse(&(struct process){ .text = NULL }, "version");
}

static void test_builds(void **state)
{
	struct process nothing = { .lacks = "PyGILState_GetThisThreadState" };
	struct python_runtime runtime;
	struct error e;

	(void)state;
	assert_int_equal(find(&nothing, &runtime, &e), -ENOENT);
	refuse(&(struct process){ .version = 0x030b02f0, .has = "_Py_NegativeRefcount" }, "debug");
	refuse(&(struct process){ .version = 0x030b02f0, .has = "PyModule_Create2TraceRefs" },
	       "TRACE_REFS");
	refuse(&(struct process){ .version = 0x030b02f0, .lacks = "_PyEval_EvalFrameDefault" },
	       "lacks");
	refuse(&(struct process){ .version = 0x030b02f0, .lacks = "_Py_IsFinalizing" }, "lacks");
	refuse(&(struct process){ .version = 0x030b02f0, .lacks = "_PyRuntime" }, "lacks");
	refuse(&(struct process){ .version = 0x030d00f0 }, "lacks the debug offsets");
}

/* What _PyRuntime of a release build begins with; gil: 0 for a free-threaded build. */
static struct process published(unsigned minor, bool threaded)
{
	struct process p = { .version = 0x030000f0 | minor << 16 };
	unsigned thread = minor == 13 ? 19 : 22, frame = thread + (minor == 15 ? 17 : 9),
		 code = frame + (minor == 13 ? 6 : 8);
	unsigned object = code + (minor == 13 ? 10 : 11), head = threaded ? 16 : 0;
	uint64_t *w = p.runtime;

	memcpy(w, "xdebugpy", 8);
	w[1] = p.version;
	w[2] = threaded;
	w[thread + 4] = 72;
	w[thread + 5] = minor == 15 ? 80 : 152;
	if (minor == 15)
		w[thread + 8] = 176;
	w[frame + 1] = 8;
	w[frame + 3] = 56;
	w[frame + 5] = minor == 13 ? 70 : threaded ? 78 : 74;
	w[code + 1] = 112 + head;
	w[code + 2] = 120 + head;
	w[code + 3] = 128 + head;
	w[code + 4] = 136 + head;
	w[code + 5] = 68 + head;
	w[code + 9] = (minor == 13 ? 200 : 208) + head;
	if (minor >= 14 && threaded) {
		w[frame + 7] = 72;
		w[code + 9] += 8;
		w[code + 10] = w[code + 9] - 8;
	}
	w[object] = 16 + head;
	w[object + 1] = 8 + head;
	return p;
}

static struct python_offsets offsets_of(struct process p)
{
	struct python_runtime runtime;
	struct error e;

	assert_int_equal(find(&p, &runtime, &e), 0);
	assert_int_equal(runtime.free_threaded, p.runtime[2]);
	return runtime.offsets;
}

static void test_published_offsets(void **state)
{
	struct python_offsets o = offsets_of(published(13, false));

	(void)state;
	assert_int_equal(o.code_traceable, 184);
	assert_int_equal(o.code_version, 92);
	assert_int_equal(o.string_head, 40);
	assert_int_equal(o.string_head_wide, 56);
	assert_int_equal(o.frame_owner, 70);
	o = offsets_of(published(13, true));
	assert_int_equal(o.code_traceable, 200);
	assert_int_equal(o.string_head, 56);
	assert_int_equal(o.string_kind_bit, 2);
	assert_int_equal(o.code_tlbc, 0);
	o = offsets_of(published(14, false));
	assert_int_equal(o.code_traceable, 192);
	assert_int_equal(o.frame_owner, 74);
	assert_int_equal(o.string_kind_bit, 2);
	o = offsets_of(published(14, true));
	assert_int_equal(o.code_bytecode, 232);
	assert_int_equal(o.code_tlbc, 224);
	assert_int_equal(o.code_traceable, 208);
	assert_int_equal(o.frame_tlbc, 72);
	assert_int_equal(o.string_kind_bit, 8);
	assert_int_equal(o.layout, PYTHON_ENTRY_FRAME);
	assert_int_equal(o.state_base, 0);
	assert_int_equal(o.state_thread, 152);
	o = offsets_of(published(15, false));
	assert_int_equal(o.state_base, 80);
	assert_int_equal(o.state_thread, 176);
	assert_int_equal(o.code_traceable, 192);
	o = offsets_of(published(15, true));
	assert_int_equal(o.code_tlbc, 224);
	assert_int_equal(o.string_kind_bit, 8);
}

/* Published offsets of another version, or moved by a member, or of any value: refused. */
static void test_senseless_offsets(void **state)
{
	static const unsigned used_13[] = {
		23, 24, 29, 30, 31, 33, 35, 36, 37, 38, 39, 43, 44, 45
	};
	struct process p = published(14, false);

	(void)state;
	p.version = 0x030d00f0;
	p.runtime[1] = p.version;
	refuse(&p, "implausible debug offsets");
	p = published(14, false);
	p.version = 0x030f00f0;
	p.runtime[1] = p.version;
	refuse(&p, "implausible debug offsets");
	p = published(13, false);
	p.runtime[1]++;
	refuse(&p, "lacks the debug offsets");
	p = published(13, false);
	p.runtime[2] = 1;
	refuse(&p, "implausible debug offsets");
	p = published(13, true);
	p.runtime[2] = 0;
	refuse(&p, "implausible debug offsets");
	p = published(13, false);
	memmove(&p.runtime[20], &p.runtime[19], sizeof(p.runtime) - 20 * sizeof(p.runtime[0]));
	refuse(&p, "implausible debug offsets");
	for (size_t i = 0; i < ARRAY_SIZE(used_13); i++) {
		p = published(13, false);
		p.runtime[used_13[i]] = UINT64_C(0x100000000) + p.runtime[used_13[i]];
		refuse(&p, "implausible debug offsets");
	}
}

/* This process has no Python. */
static void test_no_python(void **state)
{
	struct python_runtime runtime;
	struct error e = { 0 };

	(void)state;
	assert_int_equal(python_runtime_find(&runtime, &e), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),          cmocka_unit_test(test_builds),
		cmocka_unit_test(test_published_offsets), cmocka_unit_test(test_senseless_offsets),
		cmocka_unit_test(test_no_python),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
