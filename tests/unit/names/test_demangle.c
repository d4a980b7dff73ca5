/* link: -Wl,--wrap=sem_wait */
#include "names/demangle.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "failing_alloc.h"

static char name[80000];

static void assert_demangled(const char *mangled, const char *expected)
{
	struct strbuf s = STRBUF_INIT;

	assert_true(demangle(mangled, &s));
	assert_string_equal(s.data, expected);
	strbuf_release(&s);
}

static void assert_kept(const char *mangled)
{
	struct strbuf s = STRBUF_INIT;

	strbuf_adds(&s, "before ");
	assert_false(demangle(mangled, &s));
	assert_memory_equal(s.data, "before ", 7);
	assert_string_equal(s.data + 7, mangled);
	strbuf_release(&s);
}

static void cpp_and_rust(void **state)
{
	(void)state;
	assert_demangled("_Z9vectorAddPKfS0_Pfi",
			 "vectorAdd(float const*, float const*, float*, int)");
	assert_demangled("_Z4fillIfEvPT_S0_", "void fill<float>(float*, float)");
	assert_demangled("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()");
	assert_demangled("_ZN8my_crate7kernels3add17h0123456789abcdefE", "my_crate::kernels::add");
	assert_demangled("_RNvC6_123foo3bar", "123foo::bar");
	assert_demangled("_RNvNtNtCs1234_7mycrate3foo3bar3baz", "mycrate::foo::bar::baz");
}

static void what_is_not_mangled_is_kept(void **state)
{
	static const char *const names[] = {
		"",         "main",          "_Z",         "_R",
		"_Zero",    "_ZN3fooEE",     "_ZN3foo",    "_ZZ",
		"_Z1fI",    "_Random",       "ncclKernel", "_ZN9999999999999999999fEv",
		"_Z1f\xff", "_Z4294967297fv"
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_kept(names[i]);
}

/* "_Z1fI" + the piece many times: arguments of a template. */
static const char *with_pieces(const char *before, const char *piece, size_t length,
			       const char *after)
{
	char *end = stpcpy(name, before);

	while ((size_t)(end - name) + strlen(piece) + strlen(after) <= length)
		end = stpcpy(end, piece);
	strcpy(end, after);
	return name;
}

static void long_names_are_demangled(void **state)
{
	static const size_t lengths[] = { 900, 1000, 1001, 1100, 4000, 16000, DEMANGLE_INPUT_MAX };
	struct strbuf s = STRBUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		size_t count;

		strbuf_clear(&s);
		with_pieces("_Z1fI", "20abcdefghijklmnopqrst", lengths[i], "Evv");
		count = (strlen(name) - 8) / 22;
		assert_true(demangle(name, &s));
		assert_memory_equal(s.data, "void f<abcdefghijklmnopqrst, abcd", 33);
		assert_int_equal(s.length, 7 + 22 * count - 2 + 3);
	}
	strbuf_release(&s);
	assert_kept(with_pieces("_Z1fI", "i", DEMANGLE_INPUT_MAX + 1, "Evv"));
	assert_kept(with_pieces("_Z1fI", "i", 65536, "Evv"));
}

/* Each piece doubles the text. */
static void short_names_of_endless_texts(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char *end = stpcpy(name, "_Z1fI1AIiiE");
	uint64_t start = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	(void)state;
	for (unsigned i = 0; i < 34; i++) {
		end = stpcpy(end, "S_IS");
		*end++ = digits[i];
		end = stpcpy(end, "_S");
		*end++ = digits[i];
		end = stpcpy(end, "_E");
	}
	strcpy(end, "Evv");
	assert_kept(name);
	assert_true(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - start < NS_PER_S);
}

static void conversions_in_conversions(void **state)
{
	uint64_t start = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);

	(void)state;
	assert_kept(with_pieces("_ZN1A", "cvT_I", 8 + 16 * 5, "iEv"));
	assert_kept(with_pieces("_ZN1A", "cvT_I", 8 + 17 * 5, "iEv"));
	assert_kept(with_pieces("_ZN1A", "cvPT_I", 1000, "iEv"));
	assert_kept(with_pieces("_ZN1A", "cvT_I", 16000, "iEv"));
	assert_true(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - start < NS_PER_S);
}

/* Everything that makes the parser recurse, as deep as the length allows. */
static void deep_names(void **state)
{
	static const char *const pieces[] = { "P",        "K",   "R",      "N",    "I",     "X",
					      "L",        "F",   "A",      "A_",   "1AI",   "N1AI",
					      "J",        "Dp",  "DT",     "Xcl",  "Xcv",   "Z",
					      "ZN1A1fEv", "cl",  "S_I",    "PF",   "FvP",   "M1A",
					      "XplL",     "XfL", "U3fooI", "Dv4_", "1AIRT_" };
	uint64_t start = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	struct strbuf s = STRBUF_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		static const char *const before[] = { "_Z1f", "_Z", "_ZN", "_Z1fI", "_R", "_RN" };

		for (size_t k = 0; k < ARRAY_SIZE(before); k++) {
			demangle(with_pieces(before[k], pieces[i], 999, ""), &s);
			demangle(with_pieces(before[k], pieces[i], 16384, ""), &s);
			demangle(with_pieces(before[k], pieces[i], 16384, "iEEv"), &s);
			strbuf_clear(&s);
		}
	}
	/* Templates times references to parameters, all of them counted twice. */
	for (size_t length = 1000; length <= DEMANGLE_INPUT_MAX; length += 300) {
		demangle(with_pieces("_Z1fI1BI", "1AIRT_E", length, "ES_S_Evv"), &s);
		demangle(with_pieces("_Z1fI1BI", "S_IRT_E", length, "ES0_S0_S_Evv"), &s);
		strbuf_clear(&s);
	}
	assert_false(s.failed);
	strbuf_release(&s);
	assert_true(clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - start < 5 * NS_PER_S);
}

#define PARTS 1000u

/* The name is complete when demangle() returns, whichever stack it was parsed on. */
static void *demangle_long(void *text)
{
	char *p = stpcpy(name, "_ZN");

	for (unsigned i = 0; i < PARTS; i++)
		p = stpcpy(p, "3abc");
	stpcpy(p, "1fEv");
	demangle(name, text);
	return NULL;
}

static unsigned interrupts; /* signals that arrive while a thread waits for another's result */

int __real_sem_wait(sem_t *semaphore);
int __wrap_sem_wait(sem_t *semaphore);
int __wrap_sem_wait(sem_t *semaphore)
{
	if (!interrupts)
		return __real_sem_wait(semaphore);
	interrupts--;
	errno = EINTR;
	return -1;
}

static void threads_with_little_stack(void **state)
{
	struct strbuf s = STRBUF_INIT;
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_attr_init(&attributes), 0);
	assert_int_equal(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
	interrupts = 100; /* more than there are waits */
	assert_int_equal(pthread_create(&thread, &attributes, demangle_long, &s), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	assert_int_equal(interrupts, 0);
	assert_int_equal(s.length, PARTS * strlen("abc::") + strlen("f()"));
	assert_string_equal(s.data + PARTS * strlen("abc::"), "f()");
	strbuf_release(&s);
}

static void failed_allocations(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct strbuf s = STRBUF_INIT;
		bool done = demangle(with_pieces("_Z1fI", "i", 900, "Evv"), &s);

		assert_int_equal(s.failed, failing_alloc_failed);
		assert_true(done || s.failed);
		strbuf_release(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpp_and_rust),
		cmocka_unit_test(what_is_not_mangled_is_kept),
		cmocka_unit_test(long_names_are_demangled),
		cmocka_unit_test(short_names_of_endless_texts),
		cmocka_unit_test(conversions_in_conversions),
		cmocka_unit_test(deep_names),
		cmocka_unit_test(threads_with_little_stack),
		cmocka_unit_test(failed_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
