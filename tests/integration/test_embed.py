"""Programs that record themselves: scopes, marks and counters by pitot/pitot.h and pitot/pitot.hpp."""
import collections
import os
import shutil
import struct
import subprocess

import pytest

STRICT = ["-Wall", "-Wextra", "-Wshadow", "-Werror", "-pedantic", "-pthread"]
COMPILERS = {"c": ["cc", "-std=c99", "-D_DEFAULT_SOURCE"], "cpp": ["c++", "-std=c++11"]}


@pytest.fixture
def embedded(library, source, environment, tmp_path):
    """embedded("c"): the recording that the program makes of itself, and what it prints."""
    def run(language):
        program, recording = tmp_path / "embed", tmp_path / "embed.pitot"
        subprocess.run([*COMPILERS[language], *STRICT, source / f"tests/integration/embed/embed.{language}", "-o", program,
                        "-I", source / "include", library, f"-Wl,-rpath,{library.parent}"], check=True)
        recording.mkdir()
        said = subprocess.run([program], env={**environment, "PITOT_RECORDING": str(recording), "PITOT_OPTIONS": "cuda=0"},
                              stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
        return recording, int(said)

    return run


def paths(events):
    """Pushes by the scopes around them and their own, outermost first, as the format says; what is open in the end; tokens."""
    found, stacks, tokens = collections.Counter(), {}, {}
    for e in events:
        stack = stacks.setdefault(e["thread"], [])
        if e["kind"] in ("push", "pop"):
            del stack[e["level"]:]
        if e["kind"] == "push":
            stack += [("?",)] * (e["level"] - len(stack))
            path = (*(stack[-1] if stack else ()), e["message"]) if e["range"] is None else tokens[e["range"]]
            assert path[-1] == e["message"]
            stack.append(path)
            found[path] += 1
        elif e["kind"] == "token":
            tokens[e["range"]] = stack[-1]
    return found, [stack for stack in stacks.values() if stack], tokens


def samples(rows, recording):
    values = collections.defaultdict(list)
    for row in rows(recording, "counter_sample", "-c", "counter,counter.unit,counter.reading,value"):
        values[row["counter"], row["counter.unit"], row["counter.reading"]].append(row["value"])
    return values


def test_a_program_in_c(embedded, rows, pitot, tmp_path):
    recording, total = embedded("c")
    events = rows(recording, "nvtx")
    domains = {row["id"]: row["name"] for row in rows(recording, "nvtx_domain")}
    assert {domains[e["domain"]] for e in events} == {"pitot"}
    lost = sum(row["count"] for row in rows(recording, "loss"))
    found, left_open, tokens = paths(events)
    assert list(tokens.values()) == [("?", "outer")]
    assert found.pop(("?", "outer")) == 1 + 4, "four threads carry it on"
    assert found.pop(("?", "outer", "bench")) == 1
    assert found.pop(("?", "outer", "left by return")) == 1
    tasks = found.pop(("?", "outer", "task"))
    assert total == 40000 and total - lost <= tasks <= total
    assert not found and not left_open, "neither the child nor what came before and after is in it"
    bench = next(e for e in events if e["message"] == "bench")
    assert (bench["payload_kind"], bench["payload"]) == ("runs", 3 << 32 | 100)
    assert [e["message"] for e in events if e["kind"] == "mark"] == ["everything was read"]
    values = samples(rows, recording)
    assert values["rows", "rows", "integer"] == sorted(values["rows", "rows", "integer"])
    assert values.pop(("rows", "rows", "integer"))[-1] == total, "sums lose nothing"
    items = pitot("report", recording, "--scopes", "--json", json_output=True)["scope_counters"]["items"]
    added = {item["path"]: (item["self"], item["count"]) for item in items if item["counter"] == "rows"}
    assert sum(own for own, _ in added.values()) == total, "whatever is lost"
    assert lost or added["outer/task"] == (total, total)
    assert values == {("loss", "", "real"): [0.1]}
    for low, high in (0, 1), (0.05, 0.11), ("-1e3", 1):
        found = rows(recording, "counter_sample", "-w", f"value>{low}", "-w", f"value<{high}")
        assert [row["value"] for row in found] == [0.1]
    assert not rows(recording, "counter_sample", "-w", "value>0.1", "-w", "value<0.5")
    assert "'nan' is not a value of column value" in pitot("view", recording, "counter_sample", "-w", "value=nan", status=2).stderr
    assert " 0.1 " in pitot("view", recording, "counter_sample", "-w", "value<1").stdout
    pitot("export", recording, "-o", tmp_path / "c.json")
    assert '"args":{"":0.1}' in (tmp_path / "c.json").read_text()
    pitot("export", recording, "-o", tmp_path / "p.pftrace")
    assert b"\xe1\x02" + struct.pack("<d", 0.1) in (tmp_path / "p.pftrace").read_bytes()  # double_counter_value


def test_a_program_in_cpp(embedded, rows):
    recording, result = embedded("cpp")
    assert result == 4 + 3
    events = rows(recording, "nvtx")
    found, left_open, _ = paths(events)
    assert not left_open
    assert found.pop(("epoch",)) == 2, "a thread carries it on"
    assert found.pop(("epoch", "step")) == 3
    thrown = ("epoch", "left by an exception")
    assert found == dict.fromkeys([thrown, (*thrown, "block"), (*thrown, "block", "half"), ("epoch", "half"), ("epoch", "moved"),
                                   ("epoch", "nothing"), ("epoch", "runs")], 1)
    assert samples(rows, recording) == {("items", "items", "integer"): [3], ("loss", "", "real"): [1 / 3]}


LOGS_ONLY = r"""
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <pitot/pitot.h>
#include <pitot/scope.h>

static void warn(void *context, int level, const char *text)
{
	(void)context;
	if (level == PITOT_LOG_WARNING)
		printf("%d: %s\n", level, text);
}

int main(int argc, char **argv)
{
	struct pitot_options o = { .size = sizeof(o), .directory = "", .log_path = argc > 1 ? argv[1] : NULL, .engine = PITOT_ENGINE_MONITOR, .log = warn };
	struct pitot_session *s = pitot_start(&o);

	if (!s) {
		printf("%s\n", errno == EINVAL ? "refused" : pitot_error());
		return 0;
	}
	pitot_scope_begin("step");
	pitot_scope_end();
	printf("[%s]\n", pitot_path(s));
	pitot_stop(s);
	return 0;
}
"""


def test_logs_of_gpufl_alone(library, source, environment, pitot, tmp_path):
    """Without a folder for a recording there is none: only log_path is written; without that, either, nothing starts."""
    (tmp_path / "only.c").write_text(LOGS_ONLY)
    subprocess.run(["cc", "only.c", "-o", "only", "-I", source / "include", library, f"-Wl,-rpath,{library.parent}"], cwd=tmp_path, check=True)

    def run(*words):
        return subprocess.run(["./only", *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    assert run() == "refused\n"
    assert run("only.c") == "cannot write gpufl's logs into 'only.c': Not a directory\n"
    assert run("/proc/x") == "cannot create '/proc/x' for gpufl's logs: No such file or directory\n"
    (tmp_path / "small").mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", tmp_path / "small"], capture_output=True).returncode == 0:
        assert run("small/logs") == f"1: no logs for gpufl: less than 512 MiB are free in '{tmp_path}/small/logs'\n[]\n"
        subprocess.run(["umount", tmp_path / "small"], check=True)
    (tmp_path / "small").rmdir()
    environment["PITOT_GPUFL"] = "/proc/x"
    assert run() == "1: no logs for gpufl: cannot create '/proc/x' for gpufl's logs: No such file or directory\nrefused\n"
    environment["PITOT_GPUFL"] = f"{tmp_path}/new/logs"
    assert run() == "[]\n"
    shutil.rmtree(tmp_path / "new")
    del environment["PITOT_GPUFL"]
    assert run("logs") == "[]\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "only", "only.c"]
    pitot("import", "logs", "-o", "back.pitot")
    assert '"step"' in pitot("view", "back.pitot", "nvtx", "--json").stdout


WINDOWS = r"""
#include <time.h>
#include <pitot/pitot.h>
#include <pitot/scope.h>

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
}

int main(int argc, char **argv)
{
	struct pitot_options o = { .size = sizeof(o), .directory = argv[1], .engine = PITOT_ENGINE_MONITOR, .system = PITOT_SYSTEM_ALL,
				   .counters_ns = 20000000, .counters_always = argc > 2 ? PITOT_ON : PITOT_OFF };
	struct pitot_session *s = pitot_start(&o);

	pause_ms(200);
	for (int i = 0; i < 2; i++) {
		pitot_system_start("phase");
		pitot_system_start(NULL);
		pause_ms(300);
		pitot_system_stop(NULL);
		pause_ms(100);
		pitot_system_stop("phase");
		pause_ms(200);
	}
	pitot_system_stop("once too often");
	pitot_stop(s);
	return 0;
}
"""


@pytest.mark.parametrize("always", [False, True], ids=["windows", "always"])
def test_windows_of_readings(library, source, environment, pitot, rows, tmp_path, always):
    """Outside of windows nothing is read but once when the last has closed; windows within others change nothing."""
    (tmp_path / "windows.c").write_text(WINDOWS)
    subprocess.run(["cc", "windows.c", "-o", "windows", "-I", source / "include", library, f"-Wl,-rpath,{library.parent}"], cwd=tmp_path, check=True)
    subprocess.run(["./windows", "r.pitot", *["always"] * always], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert "engine monitor records no GPU work; engine trace does" in pitot("report", tmp_path / "r.pitot").stdout, "not that it does not use CUDA"
    marks = [(row["message"], row["time_ns"]) for row in rows(tmp_path / "r.pitot", "nvtx")]
    assert [text for text, _ in marks] == ["system start: phase", "system stop: phase"] * 2 + ["system stop: once too often"]
    times = sorted({row["time_ns"] for row in rows(tmp_path / "r.pitot", "counter_sample", "-w", "counter=process_memory")})
    edges = [0, *(time for _, time in marks[:4]), 2**62]
    counts = [sum(low <= time < high for time in times) for low, high in zip(edges, edges[1:])]
    before, first, between, second, after = counts
    assert first > 2 and second > 2, counts
    if always:
        assert before > 1 and between > 1, counts
    else:
        assert before == 0 and between <= 1 and after <= 1, counts
