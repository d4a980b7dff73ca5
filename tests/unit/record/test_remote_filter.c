/* What filters may do: with a number of a call, and arguments that nobody knows. */
#include "record/inject_remote/remote_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#include "arch/processor.h"
#include "support/cmocka_tests.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(test, value, yes, no) BPF_JUMP(BPF_JMP | (test) | BPF_K, value, yes, no)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)

static void assert_verdict(const struct sock_filter *filter, size_t count, unsigned call,
			   enum filter_action best, enum filter_action worst)
{
	struct filter_verdict v = filter_judge(filter, count, call);

	assert_int_equal(v.best, best);
	assert_int_equal(v.worst, worst);
}

static void actions(void **state)
{
	static const struct {
		uint32_t returned;
		enum filter_action action;
	} all[] = {
		{ SECCOMP_RET_ALLOW, FILTER_ALLOWS },
		{ SECCOMP_RET_LOG, FILTER_ALLOWS },
		{ SECCOMP_RET_ERRNO | EPERM, FILTER_REFUSES },
		{ SECCOMP_RET_TRACE | 7, FILTER_REFUSES },
		{ SECCOMP_RET_USER_NOTIF, FILTER_ASKS },
		{ SECCOMP_RET_TRAP, FILTER_ENDS },
		{ SECCOMP_RET_KILL_THREAD, FILTER_ENDS },
		{ SECCOMP_RET_KILL_PROCESS, FILTER_ENDS },
		{ 0x12340000, FILTER_ENDS }, /* unknown */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct sock_filter direct[] = { RETURN(all[i].returned) };
		const struct sock_filter loaded[] = {
			BPF_STMT(BPF_LD | BPF_IMM, all[i].returned),
			BPF_STMT(BPF_RET | BPF_A, 0),
		};

		assert_verdict(direct, 1, 3, all[i].action, all[i].action);
		assert_verdict(loaded, 2, 3, all[i].action, all[i].action);
	}
}

/* Ranges of numbers, as libseccomp makes them. */
static void numbers(void **state)
{
	static const struct sock_filter filter[] = {
		LOAD(arch),
		IF(BPF_JEQ, ARCH_AUDIT, 0, 9),
		LOAD(nr),
		IF(BPF_JGE, 0x40000000, 7, 0),
		IF(BPF_JGT, 100, 4, 0),
		IF(BPF_JEQ, 7, 4, 0),
		IF(BPF_JSET, 0x20, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_LOG),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_USER_NOTIF),
		RETURN(SECCOMP_RET_KILL_PROCESS),
	};

	(void)state;
	assert_verdict(filter, ARRAY_SIZE(filter), 0, FILTER_ALLOWS, FILTER_ALLOWS);
	assert_verdict(filter, ARRAY_SIZE(filter), 0x20, FILTER_ALLOWS, FILTER_ALLOWS);
	assert_verdict(filter, ARRAY_SIZE(filter), 100, FILTER_ALLOWS, FILTER_ALLOWS);
	assert_verdict(filter, ARRAY_SIZE(filter), 101, FILTER_REFUSES, FILTER_REFUSES);
	assert_verdict(filter, ARRAY_SIZE(filter), 7, FILTER_ASKS, FILTER_ASKS);
	assert_verdict(filter, ARRAY_SIZE(filter), 0x40000000, FILTER_ENDS, FILTER_ENDS);
}

/* socket(), but for one family; and what was computed. */
static void arguments(void **state)
{
	static const struct sock_filter family[] = {
		LOAD(nr),
		IF(BPF_JEQ, 41, 0, 2),
		LOAD(args[0]),
		IF(BPF_JEQ, 38, 1, 0),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
	};
	static const struct sock_filter computed[] = {
		LOAD(nr),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 1),
		IF(BPF_JEQ, 0, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_TRAP),
	};
	static const struct sock_filter joined[] = {
		LOAD(args[1]),
		IF(BPF_JEQ, 5, 0, 2),
		BPF_STMT(BPF_LD | BPF_IMM, 1),
		BPF_STMT(BPF_JMP | BPF_JA, 1),
		BPF_STMT(BPF_LD | BPF_IMM, 2),
		IF(BPF_JEQ, 1, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_KILL_THREAD),
	};
	static const struct sock_filter passed_over[] = {
		LOAD(nr),
		BPF_STMT(BPF_JMP | BPF_JA, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		RETURN(SECCOMP_RET_ALLOW),
	};
	static const struct sock_filter by_register[] = {
		LOAD(nr),
		BPF_STMT(BPF_MISC | BPF_TAX, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 1),
		RETURN(SECCOMP_RET_ALLOW),
		RETURN(SECCOMP_RET_TRAP),
	};

	(void)state;
	assert_verdict(family, ARRAY_SIZE(family), 41, FILTER_ALLOWS, FILTER_REFUSES);
	assert_verdict(family, ARRAY_SIZE(family), 42, FILTER_ALLOWS, FILTER_ALLOWS);
	assert_verdict(computed, ARRAY_SIZE(computed), 2, FILTER_ALLOWS, FILTER_ENDS);
	assert_verdict(joined, ARRAY_SIZE(joined), 2, FILTER_ALLOWS, FILTER_ENDS);
	assert_verdict(passed_over, ARRAY_SIZE(passed_over), 2, FILTER_ALLOWS, FILTER_ALLOWS);
	assert_verdict(by_register, ARRAY_SIZE(by_register), 2, FILTER_ALLOWS, FILTER_ENDS);
}

/* The OS kernel accepts none of these. */
static void any_bytes(void **state)
{
	struct sock_filter filter[64] = { { 0 } };
	uint64_t random = 33;

	(void)state;
	assert_verdict(filter, 0, 1, FILTER_ENDS, FILTER_ENDS);
	for (unsigned round = 0; round < 20000; round++) {
		struct filter_verdict v;

		for (size_t i = 0; i < sizeof(filter); i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			((uint8_t *)filter)[i] = (uint8_t)(random >> 32);
			if (i % sizeof(filter[0]) == 1)
				((uint8_t *)filter)[i] = 0;
		}
		v = filter_judge(filter, 1 + random % ARRAY_SIZE(filter), round % 600);
		assert_true(v.best <= v.worst && v.worst <= FILTER_ENDS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(actions),
		cmocka_unit_test(numbers),
		cmocka_unit_test(arguments),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
