"""What a process does beside a recording: it loads and unloads libraries, forks, and is the first of a container."""
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from perf_events import NOBODY
from waiting import PATIENCE

# The long ones are for a change of the recorder's locks: PITOT_LONG_TESTS=1.
LONG = bool(os.environ.get("PITOT_LONG_TESTS"))
CUDA_STARTS = 1000 if LONG else 40
FORKS = 10000 if LONG else 500
CALLBACKS = 14000  # of launch.tape, at least
MODULES = 250


@pytest.fixture
def modules(build, tmp_path):
    """A folder of libraries to load and unload."""
    folder = tmp_path / "modules"
    folder.mkdir()
    for i in range(MODULES):
        shutil.copy(build / "standin" / "libmodule.so", folder / f"module{i}.so")
    return folder


@pytest.fixture
def toolkit(build, tmp_path):
    """A CUDA whose libcupti is found only beside its libcudart: (folder of the driver, libcudart)."""
    driver, cudart = tmp_path / "driver", tmp_path / "toolkit"
    for folder, names in ((driver, ["libcuda.so.1", "libnvidia-ml.so.1", "libstandin.so"]),
                          (cudart, ["libcupti.so.13", "libstandin.so"])):
        folder.mkdir()
        for name in names:
            shutil.copy(build / "standin" / name, folder)
    shutil.copy(build / "standin" / "libmodule.so", cudart / "libcudart.so.13")
    return driver, cudart / "libcudart.so.13"


def test_cuda_starts_while_others_load_libraries(player, build, source, toolkit, environment, tmp_path):
    driver, cudart = toolkit
    library = str(build / "libpitot.so")
    recording = tmp_path / "churned.pitot"
    recording.mkdir()
    done = subprocess.run(
        [build / "standin" / "churn", str(CUDA_STARTS), cudart, build / "standin" / "libmodule.so"],
        capture_output=True, text=True, timeout=PATIENCE + 2 * CUDA_STARTS,
        env={**environment, "LD_LIBRARY_PATH": str(driver), "CUDA_INJECTION64_PATH": library, "PITOT_RECORDING": str(recording),
             "PITOT_STANDIN_TAPE": str(source / "tests/data/tapes/kinds.tape")})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(recording.glob("*.pit"))


def test_children_of_a_process_that_loads_libraries_end(start_play, modules):
    """Each forked child ends by itself, whatever the recorder did at that moment."""
    rounds = -(-FORKS * 20 // CALLBACKS)
    play = start_play("launch", "--repeat", rounds, "--fork-every", "20", "--modules", modules,
                      options="counters_ns=20000000;cpu=1000")
    play.end()


def test_children_of_a_process_whose_nvml_is_slow_end(start_play, make_tape):
    """NVML holds its lock 50 ms at a time; a fork does not wait for it, and a child does not inherit the wait."""
    play = start_play(make_tape("steps"), "--repeat", "40", "--gap", "50", "--fork-every", "160",
                      faults="lock-nvml 50ms", options="counters_ns=20000000")
    play.end()


PT_NOTE = 4


def move_notes(library):
    """Its program headers say of the notes that they are where nothing is."""
    code = bytearray(library.read_bytes())
    table, = struct.unpack_from("<Q", code, 32)
    size, count = struct.unpack_from("<HH", code, 54)
    for header in range(table, table + size * count, size):
        if struct.unpack_from("<I", code, header) == (PT_NOTE,):
            struct.pack_into("<Q", code, header + 16, 1 << 40)
    library.write_bytes(code)


def test_notes_that_are_not_loaded_are_not_read(start_play, build, tmp_path):
    """A library may have them in its file only."""
    for name in "usual.so", "moved.so":
        shutil.copy(build / "standin" / "libmodule.so", tmp_path / name)
    move_notes(tmp_path / "moved.so")
    play = start_play("launch", "--fork-every", "7000", "--modules", tmp_path)
    play.end()
    build_ids = {Path(row["path"]).name: row["build_id"] for row in play.rows("module")}
    assert build_ids["usual.so"] and build_ids["moved.so"] is None


def can_unshare():
    try:
        return subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def first_of(process):
    """The process that unshare has made the first of its namespace."""
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.skipif(not can_unshare(), reason="no new pid namespace here")
def test_the_first_process_of_a_container_lives_on(start_play, make_tape):
    """SIGTERM does nothing to it without a handler of its own, nor with us; and it is recorded as before."""
    play = start_play(make_tape("steps"), "--repeat", "10000", "--gap", "20", wrap=["unshare", "--pid", "--fork", "--kill-child"])
    play.until_rows("kernel", 0)
    first, = first_of(play.process)
    os.kill(first, signal.SIGTERM)
    signalled = time.monotonic_ns()
    play.until(lambda: max(play.times("kernel", "end_ns")) > signalled + 2 * 10**9, "the recording goes on")
    assert first in first_of(play.process)
    os.kill(first, signal.SIGKILL)


def test_a_process_that_is_not_the_first_dies(start_play, make_tape):
    play = start_play(make_tape("steps"), "--repeat", "10000", "--gap", "20")
    play.until_rows("kernel", 0)
    os.kill(play.process.pid, signal.SIGTERM)
    assert play.process.wait(timeout=PATIENCE) == -signal.SIGTERM


# What the driver does with a library that CUDA_INJECTION64_PATH names. Prints the threads that there are then.
INJECTED = r"""
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	int (*begin)(void) = (int (*)(void))dlsym(library, "InitializeInjection"), threads = -2;
	DIR *tasks;

	begin();
	tasks = opendir("/proc/self/task");
	while (readdir(tasks))
		threads++;
	printf("%d\n", threads);
	return 0;
}
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("cc"), reason="needs root and a C compiler")
def test_a_setuid_program_is_left_alone(library, environment, folder):
    """It reads no variable, writes nothing, and sends nothing to whoever calls himself Perfetto's service."""
    (folder / "injected.c").write_text(INJECTED)
    subprocess.run(["cc", "-o", folder / "injected", folder / "injected.c", "-ldl"], check=True)
    shutil.copy(library, folder / "libpitot.so")
    os.chown(folder / "injected", NOBODY, NOBODY)

    def run(name, **options):
        (folder / name).mkdir()
        os.chown(folder / name, NOBODY, NOBODY)
        variables = {variable: str(folder / name / variable.lower()) for variable in
                     ("PITOT_RECORDING", "PITOT_LOG", "PITOT_PERFETTO", "PITOT_CONFIG_FILE", "PITOT_LOG_PATH", "GPUFL_LOG_PATH")}
        (folder / name / "pitot_recording").mkdir(mode=0o777)
        os.chown(folder / name / "pitot_recording", NOBODY, NOBODY)
        result = subprocess.run([folder / "injected", folder / "libpitot.so"], capture_output=True, text=True, timeout=PATIENCE,
                                check=True, env={**environment, **variables}, **options)
        assert result.stderr == ""
        return int(result.stdout), sorted(path.name for path in (folder / name).rglob("*") if path.is_file())

    threads, files = run("alone", user=NOBODY, group=NOBODY, extra_groups=[])
    assert threads > 1 and "pitot_log" in files and any(name.endswith(".pit") for name in files)
    (folder / "injected").chmod(0o4755)
    assert run("setuid") == (1, [])


ATTACK_LAUNCHES = 1000  # a round of the program `attack`


@pytest.mark.parametrize("way, more", [
    ("descriptors-taken", 1000), ("descriptors-used-up", 0), ("memory-used-up", 0), ("raw-children", 0), ("vfork-children", 60),
    ("small-stacks", 8000), ("rights-dropped", 0), ("no-modes", 0)])
def test_every_launch_of_a_program_that_attacks_its_process(player, build, source, environment, pitot, tmp_path, sanitized, way, more):
    """It ends as it would, and each of its launches is on disk, in a file that its owner can read."""
    if sanitized and way in ("memory-used-up", "small-stacks"):
        pytest.skip("sanitizers need both")
    if way == "rights-dropped" and os.geteuid():
        pytest.skip("only root can change its root")
    recording, library = tmp_path / "attacked.pitot", str(build / "libpitot.so")
    recording.mkdir()
    done = subprocess.run(
        [build / "standin/attack", build / "standin/libcaller.so", way, tmp_path / "file"], capture_output=True, text=True, timeout=PATIENCE,
        env={**environment, "LD_LIBRARY_PATH": str(build / "standin"), "CUDA_INJECTION64_PATH": library, "PITOT_RECORDING": str(recording),
             "PITOT_OPTIONS": "cpu=250", "ASAN_OPTIONS": "detect_leaks=0",
             "PITOT_STANDIN_TAPE": str(source / "tests/data/tapes/kinds.tape")})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.stat().st_mode & 0o777 for path in recording.glob("*.pit")} == {0o600}
    info = json.loads(pitot("info", "--verify", "--json", recording).stdout)
    assert info["tables"]["api_call"]["rows"] == 3 * ATTACK_LAUNCHES + more
    assert {row["reason"] for row in info["loss"]} <= {"missing_kernels", "thread_limit"}  # no kernels are played; no memory for a timer
