"""pitot symbolize."""
import ctypes
import functools
import http.server
import json
import os
import pathlib
import resource
import shutil
import subprocess
import threading

import pytest

SOURCE = pathlib.Path(__file__).parent.parent / "support/recordings/stack_recording.c"
PROGRAM = "tests/support/make-recording"


def line_of(mark):
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if f"LINE: {mark} */" in line)


@pytest.fixture
def recording(make_recording, tmp_path):
    return make_recording(tmp_path / "stacks.pitot", "stack_native")


def symbols(pitot, recording):
    lines = pitot("view", recording, "symbol", "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def test_functions_and_lines(pitot, recording):
    summary = pitot("symbolize", recording, "--json", json_output=True)
    assert summary["addresses"] == 4
    assert summary["by"]["symbols"] == 2
    assert '"symbols"' not in pitot("view", recording, "capability", "--json").stdout, "no file is missing"
    rows = [row for row in symbols(pitot, recording) if row["module"] and "make-recording" in row["module"]]
    assert [(row["function"], row["line"], row["inline_depth"]) for row in rows if row["function"] == "known_caller"] == [
        ("known_caller", line_of("call"), 0)
    ]
    inlined = [row for row in rows if row["function"] != "known_caller"]
    assert [(row["function"], row["line"], row["inline_depth"]) for row in inlined] == [
        ("known_outer", line_of("inlined call"), 0),
        ("known_inner", line_of("innermost"), 1),
    ]
    assert len({row["function_start"] for row in inlined}) == 1
    assert all(pathlib.Path(row["file"]).name == SOURCE.name for row in rows)


def test_what_is_unknown_is_told(pitot, recording):
    modules = pitot("symbolize", recording, "--json", json_output=True)["modules"]
    kernel = next(m for m in modules if m["path"] == "[kernel]")
    assert kernel["unknown"] == 1 and "another machine" in kernel["reason"]
    assert next(m for m in modules if m["path"] == "[unknown]")["unknown"] == 1
    text = pitot("symbolize", recording).stdout
    assert "4 addresses: 2 with a function, 2 with a line, 2 unknown" in text
    assert "[kernel]" in text and "another machine" in text
    unknown = [row for row in symbols(pitot, recording) if row["function"] is None]
    assert len(unknown) == 2 and all(row["function_start"] is None for row in unknown)


def test_a_second_run_replaces_the_names(pitot, recording):
    pitot("symbolize", recording)
    first = symbols(pitot, recording)
    files = sorted(file.name for file in recording.iterdir())
    pitot("symbolize", recording)
    assert symbols(pitot, recording) == first
    assert sorted(file.name for file in recording.iterdir()) == files
    assert [name for name in files if name.startswith("symbols.")] == ["symbols.0.pit"]
    pitot("symbolize", "--no-lines", recording)
    rows = symbols(pitot, recording)
    assert {row["function"] for row in rows} == {"known_caller", "known_outer", None}
    assert all(row["line"] is None for row in rows)


def test_no_process_is_added(pitot, recording):
    before = pitot("info", recording, "--json", json_output=True)
    pitot("symbolize", recording)
    after = pitot("info", recording, "--json", json_output=True)
    for key in ("processes", "loss", "start_monotonic_ns", "duration_ns"):
        assert after[key] == before[key], key
    assert after["tables"]["symbol"]["rows"] == 5


def test_another_build_is_refused(pitot, recording, build, tmp_path):
    """The program is no longer the one that was recorded."""
    copy = tmp_path / "copy"
    shutil.copy(build / PROGRAM, copy)
    other = tmp_path / "other.pitot"
    subprocess.run([copy, other, "--kind", "stack_native"], check=True)
    shutil.copy("/bin/true", copy)
    modules = pitot("symbolize", other, "--json", json_output=True)["modules"]
    gone = next(m for m in modules if m["path"] == str(copy))
    assert gone["unknown"] == 2
    assert "another build" in gone["reason"]


@pytest.fixture
def separate(build, tmp_path):
    """A recording of a program that is gone, the file that it was, and its build id."""
    program = tmp_path / "program"
    shutil.copy(build / PROGRAM, program)
    recording = tmp_path / "separate.pitot"
    subprocess.run([program, recording, "--kind", "stack_native"], check=True)
    notes = subprocess.run(["readelf", "-n", program], check=True, capture_output=True, text=True).stdout
    build_id = notes.split("Build ID: ")[1].split()[0]
    kept = tmp_path / "kept"
    shutil.move(program, kept)
    return recording, kept, build_id


def test_separate_debug_files(pitot, separate, tmp_path):
    """The program is gone, and its symbols lie elsewhere, by build id."""
    recording, program, build_id = separate
    folder = tmp_path / "debug" / ".build-id" / build_id[:2]
    folder.mkdir(parents=True)
    shutil.move(program, folder / f"{build_id[2:]}.debug")
    text = pitot("symbolize", recording).stdout
    assert "without name" in text and text.endswith("  try: pitot symbolize -d DIR, a folder with debug files or copies of them\n")
    assert pitot("symbolize", recording, "--json", json_output=True)["named"] == 0
    summary = pitot("symbolize", recording, "--debug-path", tmp_path / "debug", "--json", json_output=True)
    assert summary["by"]["debug_file"] == 2 and summary["with_line"] == 2
    result = pitot("symbolize", recording, "--debug-path", tmp_path / "debug")
    assert "-d DIR" not in result.stdout and not result.stderr
    assert "warning: --debug-path: 'dbeug': No such file or directory\n" in pitot("symbolize", recording, "-d", "dbeug").stderr


FAKE_DEBUGINFOD = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *debuginfod_begin(void) { return malloc(1); }
void debuginfod_end(void *client) { free(client); }

/* Of build ids it has files called so; $FAKE_ERROR is what it says of all. */
int debuginfod_find_debuginfo(void *client, const unsigned char *build_id, int length, char **path)
{
    const char *error = getenv("FAKE_ERROR"), *folder = getenv("FAKE_FOLDER");
    int fd;

    fprintf(stderr, "asked for %s\n", (const char *)build_id);
    if (length != 0 || !client)
        return -EINVAL;
    if (error)
        return -atoi(error);
    if (asprintf(path, "%s/%s", folder, (const char *)build_id) < 0)
        return -ENOMEM;
    fd = open(*path, O_RDONLY);
    if (fd >= 0)
        return fd;
    free(*path);
    *path = NULL;
    return -ENOENT;
}
"""


@pytest.fixture
def fake_debuginfod(tmp_path):
    """The environment in which libdebuginfod is one that has the files of a folder."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "fake.c").write_text(FAKE_DEBUGINFOD)
    subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", folder / "libdebuginfod.so.1", folder / "fake.c"],
                   check=True)
    return {
        "LD_LIBRARY_PATH": str(folder),
        "DEBUGINFOD_URLS": "http://127.0.0.1:1",
        "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
        "FAKE_FOLDER": str(folder),
    }


def test_debuginfod_library(pitot, separate, fake_debuginfod):
    recording, program, build_id = separate
    shutil.copy(program, pathlib.Path(fake_debuginfod["FAKE_FOLDER"]) / build_id)
    said = pitot("symbolize", recording, env=fake_debuginfod).stderr
    assert "asked" not in said, "only when it is wanted"
    result = pitot("symbolize", recording, "--debuginfod", "--json", env=fake_debuginfod)
    assert f"asked for {build_id}" in result.stderr
    summary = json.loads(result.stdout)
    assert summary["by"]["debug_file"] == 2 and summary["with_line"] == 2


def test_debuginfod_sends_another_file(pitot, separate, fake_debuginfod):
    recording, _, build_id = separate
    shutil.copy("/bin/true", pathlib.Path(fake_debuginfod["FAKE_FOLDER"]) / build_id)
    assert pitot("symbolize", recording, "--debuginfod", "--json", env=fake_debuginfod, json_output=True)["named"] == 0


def test_debuginfod_does_not_answer(pitot, separate, fake_debuginfod):
    recording, _, _ = separate
    env = {**fake_debuginfod, "FAKE_ERROR": "111"}
    said = pitot("symbolize", recording, "--debuginfod", env=env).stderr
    assert said.endswith("warning: a debuginfod server failed: Connection refused\n")
    said = pitot("symbolize", recording, "--debuginfod", env={**fake_debuginfod, "FAKE_ERROR": "2"}).stderr
    assert "could not" not in said, "that there is no such file is no failure"


def test_without_debuginfod(pitot, separate, fake_debuginfod):
    """Neither the library nor a server is needed."""
    recording, _, _ = separate
    result = pitot("symbolize", recording, "--debuginfod", env={**fake_debuginfod, "DEBUGINFOD_URLS": " "})
    assert "without debuginfod: DEBUGINFOD_URLS is not set" in result.stderr
    assert "4 addresses" in result.stdout
    (pathlib.Path(fake_debuginfod["LD_LIBRARY_PATH"]) / "libdebuginfod.so.1").write_text("no library")
    result = pitot("symbolize", recording, "--debuginfod", env=fake_debuginfod)
    assert "without debuginfod: libdebuginfod.so.1 cannot be loaded" in result.stderr
    assert "4 addresses" in result.stdout


def has_debuginfod():
    try:
        ctypes.CDLL("libdebuginfod.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_debuginfod(), reason="no libdebuginfod")
def test_debuginfod_server(pitot, separate, tmp_path):
    """The real library and a server."""
    recording, program, build_id = separate
    folder = tmp_path / "server" / "buildid" / build_id
    folder.mkdir(parents=True)
    shutil.copy(program, folder / "debuginfo")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "server")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {
        "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}",
        "DEBUGINFOD_CACHE_PATH": str(tmp_path / "cache"),
        "no_proxy": "127.0.0.1",
    }
    summary = pitot("symbolize", recording, "--debuginfod", "--json", env=env, json_output=True)
    server.shutdown()
    assert summary["by"]["debug_file"] == 2 and summary["with_line"] == 2
    again = pitot("symbolize", recording, "--json", env=env, json_output=True)
    assert again["by"]["debug_file"] == 2, "from the cache"


def test_nothing_to_do(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "python.pitot", "stack_python")
    before = sorted(path.iterdir())
    assert pitot("symbolize", path, "--json", json_output=True)["addresses"] == 0
    assert "no native call stacks" in pitot("symbolize", path).stderr
    assert sorted(path.iterdir()) == before


class Running:
    """A copy of the program that records itself and goes on running. `wrapper` is a command that it is run by."""

    def __init__(self, build, folder, wrapper=(), program=None):
        self.program = program or folder / "program"
        self.recording = folder / "running.pitot"
        if not program:
            shutil.copy(build / PROGRAM, self.program)
        command = [*wrapper, self.program, self.recording, "--kind", "stack_running"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "made\n"

    def end(self):
        self.process.communicate()
        assert self.process.returncode == 0

    def functions(self, pitot):
        rows = [row for row in symbols(pitot, self.recording) if row["module"] == str(self.program)]
        return [(row["function"], row["line"]) for row in rows if row["function"]]


NAMES = {("known_caller", line_of("call")), ("known_outer", line_of("inlined call")), ("known_inner", line_of("innermost"))}


@pytest.mark.parametrize("replaced", [False, True])
def test_deleted_while_it_runs(pitot, build, tmp_path, replaced):
    """The right names while it lives; afterwards none, not those of what lies there now."""
    running = Running(build, tmp_path)
    running.program.unlink()
    if replaced:
        shutil.copy("/bin/true", running.program)
    summary = pitot("symbolize", running.recording, "--json", json_output=True)
    assert summary["by"]["symbols"] == 2
    assert set(running.functions(pitot)) == NAMES
    running.end()
    for file in running.recording.glob("symbols.*"):
        file.unlink()
    summary = pitot("symbolize", running.recording, "--json", json_output=True)
    assert summary["by"]["unknown"] == summary["addresses"] - summary["by"]["kernel"]
    assert running.functions(pitot) == []
    rows = [row for row in symbols(pitot, running.recording) if row["module"] == str(running.program)]
    assert len(rows) == 2 and all(row["function_start"] is None for row in rows)
    reason = next(m for m in summary["modules"] if m["path"] == str(running.program))["reason"]
    assert ("another build" if replaced else "No such file") in reason


def test_record_of_a_deleted_program(pitot, build, source, tmp_path):
    """Its frames stay apart, and nobody's name is put on them; those of libraries have names. The CPU sampler keeps a copy."""
    if not (build / "standin/tape-play").exists():
        pytest.skip("built without the stand-in")
    shutil.copytree(build / "standin", tmp_path / "standin", symlinks=True)
    player = tmp_path / "standin/tape-play"
    script = (
        f'{player} --repeat 20 {source}/tests/data/tapes/launch.tape & until [ "$(readlink /proc/$!/exe)" = {player} ];'
        f"do :; done; cp /bin/true {player}.new; mv {player}.new {player}; kill -0 $! || exit 9; wait"
    )
    recording = tmp_path / "deleted.pitot"
    pitot("record", "-q", "-o", recording, "--no-cpu", "--", "sh", "-c", script)
    rows = symbols(pitot, recording)
    of_player = [row for row in rows if row["module"] and row["module"].startswith(str(player))]
    assert of_player and all(row["function"] is None for row in of_player)
    assert any(row["function"] for row in rows if row["module"] and "libc" in row["module"])
    frames = pitot("flame", recording, "--mode", "launches", "-o", "-").stdout.splitlines()[0].split(";")
    unknown = [frame for frame in frames if frame.startswith("tape-play") and "+0x" in frame]
    assert len(set(unknown)) == len(unknown) >= 3


def test_names_found_before_stay(pitot, build, tmp_path):
    running = Running(build, tmp_path)
    running.end()
    pitot("symbolize", running.recording)
    before = running.functions(pitot)
    assert set(before) == NAMES
    running.program.unlink()
    summary = pitot("symbolize", running.recording, "--json", json_output=True)
    assert summary["by"]["earlier"] == 2 and summary["with_line"] == 2
    assert running.functions(pitot) == before
    assert "2 keep their earlier function" in pitot("symbolize", running.recording).stdout
    assert running.functions(pitot) == before


def test_container(pitot, build, tmp_path):
    """The program is in a file system that only its process sees."""
    inner = tmp_path / "inner"
    inner.mkdir()
    in_namespace("true")
    script = 'mount -t tmpfs none "$0" && cp "$1" "$0/program" && exec "$0/program" "$2" --kind stack_running'
    program = build / PROGRAM
    wrapper = ["unshare", "--mount", "sh", "-c", script, inner, program, tmp_path / "running.pitot"]
    running = Running(build, tmp_path, wrapper, inner / "program")
    assert not running.program.exists()
    pitot("symbolize", running.recording)
    assert set(running.functions(pitot)) == NAMES
    running.end()


def everything(folder):
    """What is in a folder, hidden or not."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_namespace(script):
    """Runs a script with mounts of its own; skips the test where that is not allowed."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("needs root")
    return subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)


def test_read_only(pitot, program, recording):
    before = everything(recording)
    if os.geteuid():
        recording.chmod(0o555)
        result = pitot("symbolize", recording, status=1)
        recording.chmod(0o755)
    else:
        result = in_namespace(
            f"mount --bind {recording} {recording} && mount -o remount,ro,bind {recording} &&"
            f"exec {program} symbolize {recording}"
        )
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.count("\n") == 1 and f"cannot write into '{recording}'" in result.stderr
    assert everything(recording) == before


def test_disk_full(program, recording, tmp_path):
    """The answers that were there stay."""
    disk = tmp_path / "disk"
    disk.mkdir()
    result = in_namespace(
        f"mount -t tmpfs -o size=64k none {disk} && cp -r {recording} {disk}/r && {program} -q symbolize {disk}/r &&"
        f"cat {disk}/r/symbols.0.pit >{tmp_path}/before && head -c 99999 /dev/zero >{disk}/filler;"
        f"{program} symbolize {disk}/r; echo status $?; ls -A {disk}/r; cmp {disk}/r/symbols.0.pit {tmp_path}/before"
    )
    assert result.returncode == 0
    assert result.stdout.splitlines()[-3:] == ["status 1", "100.0.pit", "symbols.0.pit"]
    assert "No space left on device" in result.stderr and f"'{disk}/r'" in result.stderr


@pytest.mark.parametrize("limit", [0, 1024])
def test_file_too_large(pitot, recording, limit):
    before = everything(recording)

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = pitot("symbolize", recording, status=1, preexec_fn=limit_files)
    assert f"'{recording}': File too large" in result.stderr and result.stderr.count("\n") == 1
    assert everything(recording) == before


def test_after_a_kill(pitot, recording):
    """What a run that was killed left is removed by the next one; strange files are not."""
    left = recording / ".symbols-AbCdEf"
    left.mkdir()
    (left / "symbols.0.pit").write_bytes(b"half")
    strange = recording / ".symbols-strange"
    strange.mkdir()
    (strange / "notes.txt").write_text("mine")
    pitot("symbolize", recording)
    assert not left.exists()
    assert (strange / "notes.txt").read_text() == "mine"
    assert len(symbols(pitot, recording)) == 5


def test_concurrent_runs(program, recording, environment):
    command = [program, "symbolize", recording, "--json"]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) for _ in range(6)]
    assert len({run.communicate()[0] for run in runs}) == 1, "all say the same"
    assert all(run.returncode == 0 for run in runs)
    assert sorted(everything(recording)) == ["100.0.pit", "symbols.0.pit"]


def test_errors(pitot, recording, tmp_path):
    assert "gone.pitot" in pitot("symbolize", tmp_path / "gone.pitot", status=1).stderr
    assert "unexpected argument 'another'" in pitot("symbolize", recording, "another", status=2).stderr
    segment = next(recording.glob("*.pit"))
    assert "folder" in pitot("symbolize", segment, status=2).stderr
