"""What the recorder's library takes of the room for thread-local variables, which all libraries that a program loads share."""
import shutil
import struct
import subprocess

import pytest

PT_TLS = 7

# A library like libgomp or libEGL, whose thread-local variables need that room.
GREEDY = "__attribute__((tls_model(\"initial-exec\"))) __thread char variable[BYTES]; char *get(void) { return variable; }"

# Loads one library after the other; in each that is Pitot's, records a scope.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <pitot/pitot.h>

int main(int argc, char **argv)
{
	struct pitot_session *sessions[8] = { 0 };
	void *libraries[8];

	for (int i = 1; i < argc; i++) {
		struct pitot_options options = { .size = sizeof(options) };
		struct pitot_session *(*start)(const struct pitot_options *);
		char name[16];

		libraries[i] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (!libraries[i])
			return printf("%s\n", dlerror()), 1;
		*(void **)&start = dlsym(libraries[i], "pitot_start");
		snprintf(name, sizeof(name), "%d.pitot", i);
		options.directory = name;
		if (start && !(sessions[i] = start(&options)))
			return printf("%s: no recording\n", argv[i]), 1;
	}
	for (int i = 1; i < argc; i++) {
		void (*mark)(const char *);
		int (*stop)(struct pitot_session *);

		*(void **)&mark = dlsym(libraries[i], "pitot_mark");
		*(void **)&stop = dlsym(libraries[i], "pitot_stop");
		if (mark) {
			mark(argv[i]);
			stop(sessions[i]);
		}
	}
	return 0;
}
"""


def tls_bytes(library):
    code = library.read_bytes()
    start, size, count = struct.unpack_from("<Q", code, 32)[0], *struct.unpack_from("<HH", code, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", code, start + i * size) for i in range(count)]
    return sum(header[6] for header in headers if header[0] == PT_TLS)


@pytest.fixture
def load(source, environment, tmp_path):
    program = tmp_path / "program"
    subprocess.run(["cc", "-x", "c", "-", "-I", source / "include", "-o", program], input=PROGRAM, text=True, check=True)

    def run(*libraries):
        done = subprocess.run([program, *libraries], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    return run


@pytest.mark.parametrize("name", ["libpitot.so", "libpitot-preload.so", "libpitot-rocm.so"])
def test_little_static_tls(plain, name):
    assert tls_bytes(plain / name) <= 256


@pytest.mark.parametrize("size", [512, 1000])
def test_libraries_that_need_much_load_afterwards(plain, load, rows, tmp_path, size):
    greedy = tmp_path / "greedy.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", f"-DBYTES={size}", "-o", greedy], input=GREEDY, text=True, check=True)
    load(plain / "libpitot.so", greedy)
    assert [row["message"] for row in rows(tmp_path / "1.pitot", "nvtx")] == [str(plain / "libpitot.so")]


def test_two_copies(plain, load, rows, tmp_path):
    """A wheel's and the system's: each records what was said to it, and neither disturbs the other."""
    copy = shutil.copy(plain / "libpitot.so", tmp_path / "copy.so")
    load(plain / "libpitot.so", copy)
    assert [[row["message"] for row in rows(tmp_path / f"{i}.pitot", "nvtx")] for i in (1, 2)] == [[str(plain / "libpitot.so")], [str(copy)]]
