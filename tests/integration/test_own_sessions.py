"""Recordings that a program starts by itself: early, in children, where there is no room, and joined under `pitot record`."""
import errno
import json
import os
import shutil
import signal
import subprocess

import pytest

from waiting import PATIENCE


def compile_program(source, plain, name, folder):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-I", source / "include", source / f"tests/integration/{name}.c", "-o", folder / name, "-L", plain, "-lpitot",
                    f"-Wl,-rpath,{plain}", "-pthread"], check=True)
    return folder / name


@pytest.fixture
def own_sessions(source, plain, environment, tmp_path):
    """Runs the program in a folder of that name; its lines."""
    program = compile_program(source, plain, "own_sessions", tmp_path)

    def run(name, *arguments, wrap=(), **variables):
        (tmp_path / name).mkdir()
        result = subprocess.run([*wrap, program, *arguments], cwd=tmp_path / name, env={**environment, **variables}, timeout=600,
                                capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    return run


def test_sessions_started_by_the_program(own_sessions, rows, tmp_path):
    said = own_sessions("a", "early", "new", "no/parent")
    a = tmp_path / "a"
    assert said == ["early 1, alone 0", "in child 1", "child 0", "early: 'early' is not empty; name a new folder", "new: recorded",
                    "no/parent: cannot create 'no/parent': its parent folder does not exist", "again 1"]
    assert [row["message"] for row in rows(a / "early", "nvtx")] == [row["message"] for row in rows(a / "parent", "nvtx")] == ["recorded"]
    assert rows(a / "child", "nvtx") == [] and len({row["pid"] for row in rows(a / "child", "process")}) == 1
    [again] = a.glob("own_sessions-*.pitot")
    assert [row["message"] for row in rows(again, "nvtx")] == ["again"]
    assert any("libpitot.so" in row["path"] for row in rows(again, "module")), "as in the first one"
    assert {path.name: json.loads((path / "recording.json").read_text())["state"] for path in a.iterdir()} == dict.fromkeys(
        ["early", "parent", "child", "new", again.name], "ended")


LIBRARY = r"""
#include <stdlib.h>
#include <pitot/pitot.h>

__attribute__((constructor)) static void loaded(void)
{
	struct pitot_options options = { .size = sizeof(options), .directory = "rec", .stacks = PITOT_STACKS_ALL };

	if (pitot_init(&options) != 1)
		_Exit(1);
	pitot_mark("constructor");
	pitot_flush(NULL);
	if (!getenv("STOPPED"))
		return;
	pitot_shutdown();
	pitot_mark("between");
	options.directory = "next";
	pitot_stop(pitot_start(&options));
	options.directory = "last";
	if (pitot_init(&options) != 1)
		_Exit(1);
	pitot_mark("last");
	pitot_shutdown();
	pitot_mark("after");
}
"""


@pytest.mark.parametrize("loader", ["dlopen", "preload"])
@pytest.mark.parametrize("stopped", [False, True], ids=["open", "stopped"])
def test_a_constructor_of_a_library(source, plain, environment, rows, tmp_path, loader, stopped):
    """Although the loader holds its lock, which no thread of the recorder may wait for, nothing hangs or is lost."""
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-I", source / "include", "-o", tmp_path / "lib.so", "-L", plain, "-lpitot",
                    f"-Wl,-rpath,{plain}"], input=LIBRARY, text=True, check=True)
    subprocess.run(["cc", "-x", "c", "-", "-o", tmp_path / "main"], text=True, check=True, input="""
                    #include <dlfcn.h>
                    int main(int argc, char **argv) { return argc > 1 && !dlopen(argv[1], RTLD_NOW); }""")
    command = [tmp_path / "main", "./lib.so"] if loader == "dlopen" else ["env", "LD_PRELOAD=./lib.so", tmp_path / "main"]
    subprocess.run(command, cwd=tmp_path, env={**environment, **({"STOPPED": "1"} if stopped else {})}, timeout=60, check=True)
    assert [row["message"] for row in rows(tmp_path / "rec", "nvtx")] == ["constructor"]
    if stopped:
        assert [[row["message"] for row in rows(tmp_path / name, "nvtx")] for name in ("next", "last")] == [[], ["last"]]
    for name in ["rec", *(["next", "last"] if stopped else [])]:
        assert json.loads((tmp_path / name / "recording.json").read_text())["state"] == "ended"


ENDINGS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pitot/pitot.h>

int main(int argc, char **argv)
{
	struct pitot_options standard = { .size = sizeof(standard), .directory = "standard" };
	struct pitot_options other = { .size = sizeof(other), .directory = "other" };

	if (argc < 2 || pitot_init(&standard) != 1 || !pitot_start(&other))
		return fputs(pitot_error(), stderr), 1;
	pitot_mark("recorded");
	switch (*argv[1]) {
	case 'e': exit(0);
	case 'q': quick_exit(0);
	case '_': _exit(0);
	case 'S': raise(SIGTERM); return 1;
	case 'd': return daemon(1, 0);
	case 't': /* twice */
		for (int i = 0; i < 2; i++)
			if (fork())
				_exit(0);
			else
				setsid();
	}
	return 0;
}
"""


@pytest.mark.parametrize("how", ["return", "exit", "quick_exit", "_exit", "SIGTERM", "daemon", "twice"])
def test_a_process_that_ends_completes_its_recordings(source, plain, environment, rows, tmp_path, how):
    subprocess.run(["cc", "-x", "c", "-", "-I", source / "include", "-o", tmp_path / "ends", "-L", plain, "-lpitot",
                    f"-Wl,-rpath,{plain}"], input=ENDINGS, text=True, check=True)
    ended = subprocess.run([tmp_path / "ends", how], cwd=tmp_path, env=environment, timeout=PATIENCE, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (-signal.SIGTERM if how == "SIGTERM" else 0, "")
    for name in "standard", "other":
        assert json.loads((tmp_path / name / "recording.json").read_text())["state"] == "ended"
        assert [row["message"] for row in rows(tmp_path / name, "nvtx")] == ["recorded"]


def test_switched_off(own_sessions, tmp_path):
    said = own_sessions("a", "x", PITOT_DISABLED="true")
    assert said[0] == "early 0, alone 1" and said[-1] == "again 0" and "switched off" in said[3]
    assert not list((tmp_path / "a").iterdir())


def test_beside_pitot_record(own_sessions, plain, rows, tmp_path):
    """Recordings of its own, and without a folder of its own that of `pitot record`."""
    said = own_sessions("a", wrap=[plain / "pitot", "record", "-q", "--no-cpu", "-o", "rec", "--graphs", "launch", "--"])
    assert said == ["early 1, alone 0", "in child 1", "child 0", "again 1"]
    assert sorted(os.listdir(tmp_path / "a")) == ["child", "early", "parent", "rec"]
    # Its recording begins with the first who joins it, and goes on.
    assert [row["message"] for row in rows(tmp_path / "a/rec", "nvtx")] == ["again", "after the end"]
    settings = [row["actual"] for row in rows(tmp_path / "a/rec", "capability") if row["name"] == "settings"]
    assert settings == ["graphs=launch (record)"]
    # What `pitot record` was told is for its recording.
    assert "settings" not in [row["name"] for row in rows(tmp_path / "a/early", "capability")]


def test_a_full_disk_leaves_no_recording(own_sessions, tmp_path):
    """On a disk without room there is no recording, and nothing is left of it; the program goes on."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k,nr_inodes=3", "tmpfs", disk]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        said = own_sessions("a", f"{disk}/full")
        assert "No space left on device" in said[3] and not list(disk.iterdir())
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        said = own_sessions("b", f"{disk}/read-only")
        assert said[3] == f"{disk}/read-only: cannot create '{disk}/read-only': Read-only file system"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_many_one_after_the_other(source, build, plain, environment, tmp_path):
    """Memory, descriptors, threads and mappings after many sessions are those after few (bench/stress.py: 10,000, with CUDA)."""
    program = compile_program(source, plain, "many_sessions", tmp_path)
    said = subprocess.run([program, "300"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=600).stdout
    before, after = ([int(word) for word in line.split()] for line in said.splitlines())
    assert after[1:3] == before[1:3] and after[2] == 1 and after[3] < before[3] + 10
    assert after[4] - before[4] < 512, "KiB of the heap"
    assert after[0] - before[0] < 16 << 10, "KiB: rings fill up to a MiB each, later on a busy machine"


@pytest.mark.parametrize("recovers", [False, True], ids=["for ever", "for a while"])
def test_a_disk_that_hangs(source, plain, environment, rows, tmp_path, recovers):
    """The calls take as long as pitot.h says, whatever the disk of their own recording or of others does."""
    program = compile_program(source, plain, "hanging_disk", tmp_path)
    disk, library = tmp_path / "disk", tmp_path / "slow_disk.so"
    disk.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source / "tests/integration/slow_disk.c", "-ldl"], check=True)
    done = subprocess.run([program, disk, tmp_path, *(["recovers"] if recovers else [])], timeout=600, capture_output=True, text=True, check=True,
                          env={**environment, "LD_PRELOAD": str(library), "HANGING_DISK": str(disk)})
    took, returned = {}, {}
    for call, ms, rc in (line.split() for line in done.stdout.splitlines()):
        took.setdefault(call, []).append(int(ms))
        returned.setdefault(call, set()).add(int(rc))
    assert len(took["stop-hanging"]) == 12 and took.pop("flush")[0] < 4000 and max(took.pop("stop-hanging")) < 4000, "two seconds"
    assert returned.pop("flush") == returned.pop("stop-hanging") == {-errno.ETIMEDOUT}
    assert max(took.pop("stop-beside")) < 2000 and took.pop("shutdown")[0] < 2000, "a quarter of a second"
    took.pop("start-hanging", None)
    returned.pop("start-hanging", None)
    assert max(ms for all_of_call in took.values() for ms in all_of_call) < 1500, f"milliseconds: {took}"
    assert returned.pop("init") == {1} and set.union(*returned.values()) == {0}
    for name, message in ("0", "beside"), ("3", "after"):
        recording = tmp_path / f"{name}.pitot"
        assert json.loads((recording / "recording.json").read_text())["state"] == "ended"
        assert [row["message"] for row in rows(recording, "nvtx")] == [message] and rows(recording, "loss") == []
    if recovers:
        for i in range(12):
            assert [row["message"] for row in rows(disk / f"{i}.pitot", "nvtx")][:1] == ["hanging"]
            assert not [row for row in rows(disk / f"{i}.pitot", "loss") if row["reason"] == "truncated_file"]


LEAVING = r"""
#include <pitot/pitot.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct pitot_options options = { .size = sizeof(options), .directory = argv[1] };
	struct pitot_upload_options upload = { .size = sizeof(upload), .path = argv[1], .api_key = "secret" };

	pitot_stop(pitot_start(&options));
	if (chdir("elsewhere") || pitot_report("") == 0 || pitot_upload(&upload) >= 0)
		return 1;
	printf("%s\n", pitot_error());
	return 0;
}
"""


def test_nothing_is_run_in_a_folder_that_the_program_goes_to(source, plain, environment, tmp_path):
    """The library was found by a relative path, and so are folders of PATH."""
    library = tmp_path / "lib/libpitot.so.0"
    for program in tmp_path / "elsewhere/lib/pitot", tmp_path / "elsewhere/pitot":
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
        program.chmod(0o755)
    library.parent.mkdir()
    shutil.copy(plain / "libpitot.so", library)
    subprocess.run(["cc", "-x", "c", "-", "-I", source / "include", "-o", tmp_path / "leaving",
                    "-x", "none", library], input=LEAVING, text=True, check=True)
    done = subprocess.run(["./leaving", tmp_path / "x.pitot"], cwd=tmp_path, capture_output=True, text=True, timeout=600,
                          env={**environment, "LD_LIBRARY_PATH": "lib", "PATH": ":.:lib"})
    assert (done.returncode, done.stderr) == (0, "") and "cannot find the program pitot" in done.stdout
    assert not (tmp_path / "was-run").exists()
    assert json.loads((tmp_path / "x.pitot/recording.json").read_text())["library"] == str(library)
