"""The recorder's clock where a preloaded library fakes the time, and where the program itself plays one."""
import subprocess

import pytest

FAKE = r"""
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *t)
{
	t->tv_sec = 5;
	t->tv_nsec = 0;
	return 0;
}
"""
PROGRAM = r"""
#include <stdio.h>
#include "base/clock.h"
int main(void)
{
	uint64_t before = clock_monotonic_ns();
	int (*volatile taken)(clockid_t, struct timespec *) = clock_gettime; /* without -fPIE: a jump in the program */

	(void)taken;
	clock_use_libc();
	printf("%d %d %d\n", before == 5 * NS_PER_S, clock_monotonic_ns() == 5 * NS_PER_S, clock_is_replaced());
	return 0;
}
"""


@pytest.fixture(scope="module")
def programs(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clock")
    (folder / "fake.c").write_text(FAKE)
    (folder / "program.c").write_text(PROGRAM)
    flags = ["-D_GNU_SOURCE", f"-I{source}/src", "-o"]
    subprocess.run(["cc", "-shared", "-fPIC", *flags, folder / "fake.so", folder / "fake.c"], check=True)
    for name, more in ("plain", []), ("fixed", ["-no-pie", "-fno-pie"]), ("player", [folder / "fake.c", "-rdynamic"]):
        subprocess.run(["cc", *flags, folder / name, folder / "program.c", source / "src/base/clock.c", *more, "-ldl"], check=True)
    return folder


@pytest.mark.parametrize("name, preloaded, said", [("plain", False, "0 0 0"), ("plain", True, "1 0 0"), ("fixed", True, "1 0 0"), ("player", False, "1 1 1"), ("player", True, "1 1 1")])
def test_faked_clocks_are_noticed(programs, environment, name, preloaded, said):
    """Whether the time is faked before and after the choice, and whether the recorder knows."""
    variables = {**environment, **({"LD_PRELOAD": str(programs / "fake.so")} if preloaded else {})}
    assert subprocess.run([programs / name], env=variables, capture_output=True, text=True, check=True).stdout.split() == said.split()
