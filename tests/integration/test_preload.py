"""The recorder gets into the programs below a command that may have it, and into no other: src/preload."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

LOADER = "/lib64/ld-linux-x86-64.so.2"

# What a program sees of the recorder: whether it is told to load a library, and whether one is in
# it. It begins with the last word of its command.
SEEN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	char line[4096];
	int mapped = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps))
		mapped |= strstr(line, "libpitot") != NULL;
	printf("%s %s %s\n", argc > 1 ? argv[argc - 1] : "?", mapped ? "inside" : "alone", getenv("LD_PRELOAD") ? "told" : "untold");
	return 5;
}
"""

# Executes the program in argv[2] by the function in argv[1], with more words than registers hold.
EXECUTE = r"""
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#define WORDS "1", "2", "3", "4", "5", "6", "7", "it"
int main(int argc, char **argv)
{
	const char *by = argv[1], *program = argv[2];
	char *words[] = { "0", WORDS, 0 };

	if (!strcmp(by, "execl"))
		execl(program, "0", WORDS, (char *)0);
	else if (!strcmp(by, "execlp"))
		execlp(strrchr(program, '/') + 1, "0", WORDS, (char *)0);
	else if (!strcmp(by, "execle"))
		execle(program, "0", WORDS, (char *)0, environ);
	else if (!strcmp(by, "fexecve"))
		fexecve(open(program, O_RDONLY), words, environ);
	return 1;
}
"""

# Says 1 if LD_PRELOAD is in its environment; needs no library.
SEEN_32 = r"""
static int call(int number, int a)
{
	int result;

	__asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a));
	return result;
}

__attribute__((used)) void begin(char **stack)
{
	const char wanted[] = "LD_PRELOAD=";
	int told = 0;

	for (stack += (int)(long)stack[0] + 2; *stack; stack++) {
		int i = 0;

		while (wanted[i] && (*stack)[i] == wanted[i])
			i++;
		told |= !wanted[i];
	}
	call(1, told);
}

__asm__(".globl _start\n_start: push %esp\ncall begin\n");
"""

BURN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\n"


def compile_c(folder, name, text, *options):
    (folder / f"{name}.c").write_text(text)
    return subprocess.run(["cc", "-O1", "-o", folder / name, folder / f"{name}.c", *options], capture_output=True).returncode == 0


@pytest.fixture
def seen(tmp_path):
    """Programs: ours; one for another C library, played by a copy of our loader; a static one; one of 32 bits, or None."""
    shutil.copy(LOADER, tmp_path / "ld-musl-x86_64.so.1")
    assert compile_c(tmp_path, "ours", SEEN)
    assert compile_c(tmp_path, "other", SEEN, f"-Wl,--dynamic-linker={tmp_path}/ld-musl-x86_64.so.1")
    assert compile_c(tmp_path, "static", SEEN, "-static")
    return tmp_path


@pytest.fixture
def run(program, environment, library, tmp_path):
    """Records a command with a recorder without sanitizers."""

    def record(*command, way="timer", options=("--cpu-only",), status=0, from_library=library):
        words = ["setpriv", "--bounding-set", "-bpf,-sys_admin", "--"] if way == "perf" else []
        options = [*options, "-f", "-o", tmp_path / "rec", *(["--cpu-via=timer"] if way == "timer" else [])]
        result = subprocess.run([*words, program, "record", "-q", "--cpu=499", *options, "--", *map(str, command)],
                                cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE,
                                env={**environment, "PITOT_LIBRARY": str(from_library)})
        assert result.returncode == status, result.stderr
        return result

    return record


@pytest.fixture(params=["timer", "perf"])
def way(request):
    if request.param == "perf" and (os.geteuid() != 0 or not shutil.which("setpriv")):
        pytest.skip("needs root and setpriv, to be refused eBPF")
    return request.param


def skip_without_perf(pitot):
    if '"perf_event' not in pitot("view", "rec", "capability", "--json").stdout:
        pytest.skip("perf events are not allowed here")


def test_children_that_cannot_have_it_are_left_alone(run, seen):
    """None of them prints or ends otherwise than alone, although a timer is in all others."""
    script = f"cd {seen}; ./ours shell; ./other shell; ./static shell; env ./ours env; env ./other env; true"
    result = run("sh", "-c", script)
    assert result.stderr == ""
    assert result.stdout.splitlines() == ["shell inside untold", "shell alone untold", "shell alone untold",
                                          "env inside untold", "env alone untold"]


def test_a_child_of_32_bits_is_left_alone(run, tmp_path):
    if not compile_c(tmp_path, "seen32", SEEN_32, "-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector"):
        pytest.skip("no compiler for 32 bits")
    try:
        assert subprocess.run([tmp_path / "seen32"], env={"LD_PRELOAD": ""}).returncode == 1
    except OSError:
        pytest.skip("this kernel runs no programs of 32 bits")
    result = run("sh", "-c", f"{tmp_path}/seen32; echo $?; env {tmp_path}/seen32; echo $?")
    assert (result.stdout, result.stderr) == ("0\n0\n", "")


def test_a_command_that_cannot_have_it_runs_alone(run, seen):
    for name in ("other", "static"):
        result = run(seen / name, "it", status=5)
        assert result.stdout == "it alone untold\n"
        assert "the command is not sampled" in result.stderr
    assert run(seen / "ours", "it", status=5).stdout == "it inside untold\n"


def test_a_child_that_is_not_to_be_recorded(run, seen):
    """It has another environment; or it is where the library is not."""
    assert run("env", "-i", seen / "ours", "it", status=5).stdout == "it alone untold\n"
    if os.geteuid() == 0:
        root = seen / "root"
        for path in {LOADER, "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"}:
            if Path(path).exists():
                (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, root / path[1:])
        shutil.copy(seen / "ours", root / "ours")
        (root / "proc").mkdir()
        (root / "proc" / "self").mkdir()
        (root / "proc" / "self" / "maps").write_text("")
        result = run("chroot", root, "/ours", "it", status=5)
        assert (result.stdout, result.stderr) == ("it alone untold\n", "")


@pytest.mark.parametrize("function", ["execl", "execlp", "execle", "fexecve"])
def test_functions_of_c_that_python_does_not_call(run, seen, environment, function):
    assert compile_c(seen, "execute", EXECUTE, "-D_GNU_SOURCE")
    environment["PATH"] += f":{seen}"
    result = run(seen / "execute", function, seen / "ours", status=5)
    assert (result.stdout, result.stderr) == ("it inside untold\n", "")


def test_programs_that_start_no_python_are_left_alone(seen, environment, library):
    """Where only Python is sampled from inside, a shell gets the library for what it starts."""
    loaded = ("while read line; do case $line in *libpitot-preload*) echo inside; break;; esac; "
              "done < /proc/self/maps")
    environment.update(LD_PRELOAD=str(library.parent / "libpitot-preload.so"),
                       PITOT_OPTIONS="preload=python", PITOT_RECORDING=str(seen / "rec"))
    result = subprocess.run(["sh", "-c", f"./ours it; sh -c '{loaded}'; env ./static it; true"],
                            cwd=seen, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (result.stdout, result.stderr) == ("it alone untold\ninside\nit alone untold\n", "")


def test_what_is_preloaded_besides_stays(run, seen):
    library = next(p for p in ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6") if Path(p).exists())
    for options in (("--cpu-only",), ()):
        script = f"echo $LD_PRELOAD; sh -c 'echo $LD_PRELOAD'; {sys.executable} -c 'import os; print(os.environ[\"LD_PRELOAD\"])'"
        result = run("env", f"LD_PRELOAD={library}", "bash", "-c", script, options=options)
        assert (result.stdout, result.stderr) == (3 * f"{library}\n", "")


STARTS = {
    "shell": "import subprocess, sys; subprocess.run(['sh', '-c', f'{sys.executable} burn.py; true'], check=True)",
    "exec": "import os, sys; os.execv(sys.executable, [sys.executable, 'burn.py'])",
    "execvp": "import os, sys; os.execvp(sys.executable, [sys.executable, 'burn.py'])",
    "execle": "import os, sys; os.execle(sys.executable, sys.executable, 'burn.py', dict(os.environ))",
    "vfork": "import subprocess, sys; subprocess.run([sys.executable, 'burn.py'], check=True)",
    "environment": "import os, subprocess, sys; subprocess.run([sys.executable, 'burn.py'], env={**os.environ, 'A': 'b'}, check=True)",
    "posix_spawn": "import os, sys; os.waitpid(os.posix_spawn(sys.executable, [sys.executable, 'burn.py'], os.environ), 0)",
    "posix_spawnp": "import os, sys; os.waitpid(os.posix_spawnp(sys.executable, [sys.executable, 'burn.py'], os.environ), 0)",
    "spawn": "import multiprocessing, runpy\nif __name__ == '__main__':\n"
             " p = multiprocessing.get_context('spawn').Process(target=runpy.run_path, args=('burn.py',))\n p.start(); p.join()",
}


@pytest.mark.parametrize("start", STARTS)
def test_each_python_below_has_python_frames(run, pitot, tmp_path, way, start):
    (tmp_path / "burn.py").write_text(BURN)
    (tmp_path / "start.py").write_text(STARTS[start])
    run("bash", "-c", f"{sys.executable} start.py; true", way=way)
    if way == "perf":
        skip_without_perf(pitot)
    lines = pitot("flame", "rec", "--mode", "cpu").stdout.splitlines()
    burnt = sum(int(line.rsplit(" ", 1)[1]) for line in lines if "burn.py:3" in line)
    assert burnt > 0.3e6, "\n".join(lines)


def test_programs_that_start_no_python_are_left_alone_where_perf_samples(run, pitot, seen):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to be refused eBPF")
    assert run("sh", "-c", f"{seen}/ours it; true", way="perf").stdout == "it alone untold\n"
    skip_without_perf(pitot)
    assert json.loads(pitot("info", "rec", "--json").stdout)


@pytest.fixture
def links(tmp_path):
    """A function that lists the links to libraries below the folder of the test; they are removed at its end."""

    def find():
        places = "/run", f"/run/user/{os.geteuid()}", "/tmp", "/dev/shm", "/var/tmp"
        found = [link for place in places for link in Path(place).glob("pitot-preload-*/libpitot-preload.so")]
        return [link for link in found if str(tmp_path) in os.readlink(link)]

    yield find
    for link in find():
        shutil.rmtree(link.parent)


# What a part of a path after a blank or a colon would name: a library in the command's folder.
DECOY = '#include <unistd.h>\n__attribute__((constructor)) static void begin(void) { write(2, "decoy\\n", 6); }\n'


@pytest.mark.parametrize("name", ["with blank", "a:v1", "v1/$LIB", "v1/$ORIGIN:b c"])
def test_paths_that_the_variable_cannot_have(run, seen, library, links, tmp_path, name):
    """The libraries work below any path, and none of another folder is loaded."""
    folder = tmp_path / name
    folder.mkdir(parents=True)
    for file in "libpitot.so", "libpitot-preload.so":
        shutil.copy((library.parent / file).resolve(), folder / file)
    for place in "v1", "blank", ".":
        (tmp_path / place).mkdir(exist_ok=True)
        compile_c(tmp_path, "libpitot-preload.so", DECOY, "-shared", "-fPIC")
        if place != ".":
            (tmp_path / "libpitot-preload.so").rename(tmp_path / place / "libpitot-preload.so")
    result = run("sh", "-c", "./ours shell; env ./ours env", status=5, from_library=folder / "libpitot.so")
    assert (result.stdout, result.stderr) == ("shell inside untold\nenv inside untold\n", "")
    assert len(links()) == 1


def test_nobody_can_take_the_place_of_the_link(run, seen, library, links, tmp_path):
    """A process that outlives the recording may still start programs with the library, so the link to it stays."""
    folder = tmp_path / "with blank"
    folder.mkdir()
    for file in "libpitot.so", "libpitot-preload.so":
        shutil.copy((library.parent / file).resolve(), folder / file)

    run("true", from_library=folder / "libpitot.so")
    first = links()
    run("sh", "-c", "./ours again", status=5, from_library=folder / "libpitot.so")
    assert len(first) == 1 and links() == first
    status = first[0].parent.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (os.geteuid(), 0o755)
    # A link of somebody else, and one to something else, is not used.
    first[0].unlink()
    first[0].symlink_to(tmp_path / "other.so")
    assert run("sh", "-c", "./ours elsewhere", status=5, from_library=folder / "libpitot.so").stdout == "elsewhere inside untold\n"
    first[0].unlink()
    first[0].parent.rmdir()
