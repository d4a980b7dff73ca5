"""CPU samples of `pitot record`: which way, which processes, which stacks; and what contradicts itself."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from waiting import PATIENCE, wait_until

HZ = 239  # not in step with the kernel's ticks: these are when threads take turns
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void burn_in_here(double seconds)
{
	double end = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;

	while (seconds_of(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 100000; i++)
			sink += (unsigned long)i * i;
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5, begun = seconds_of(CLOCK_MONOTONIC);

	if (argc > 2 && !strcmp(argv[2], "fork") && !fork()) {
		burn_in_here(seconds);
		_exit(0);
	}
	do /* once, or until there is a file of that name */
		burn_in_here(seconds);
	while (argc > 3 && access(argv[3], F_OK));
	while (wait(NULL) > 0)
		;
	printf("elapsed %.9f\n", seconds_of(CLOCK_MONOTONIC) - begun);
	return 7;
}
"""

WAYS = ("ebpf", "perf", "timer")


@pytest.fixture(scope="session")
def burner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("burner")
    (folder / "burner.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-o", folder / "burner", folder / "burner.c"], check=True)
    return folder / "burner"


@pytest.fixture
def allowed(pitot, build):
    """Skips the test where a way of sampling is not allowed or not built in."""
    names = {"ebpf": "eBPF", "perf": "perf events"}

    def check(*ways):
        if "timer" in ways and b"libasan" in (build / "libpitot.so").read_bytes():
            pytest.skip("a recorder with AddressSanitizer cannot be preloaded (tests/integration/test_cpu_timer.py builds another)")
        states = {c["name"]: c for c in json.loads(pitot("doctor", "--json", status=None).stdout)["checks"]}
        for way in ways:
            if way in names and states[names[way]]["state"] != "ok":
                pytest.skip(states[names[way]]["detail"])

    return check


def rows(pitot, table, path="rec"):
    return [json.loads(line) for line in pitot("view", path, table, "--json").stdout.splitlines()]


def cpu_capabilities(pitot):
    return [row for row in rows(pitot, "capability") if row["name"] == "cpu"]


def sampled_ns(pitot, path="rec"):
    return sum(row["weight_ns"] for row in rows(pitot, "cpu_sample", path))


def folded(pitot, *options):
    lines = pitot("flame", "rec", "--mode", "cpu", *options).stdout.splitlines()
    return {stack: int(count) for stack, count in (line.rsplit(" ", 1) for line in lines)}


def share(stacks, text):
    return sum(us for stack, us in stacks.items() if text in stack) / max(sum(stacks.values()), 1)


@pytest.mark.parametrize("way", WAYS)
def test_each_sampling_method(pitot, allowed, burner, way):
    allowed(way)
    result = pitot("record", "-o", "rec", f"--cpu={HZ}", "--cpu-via", way, "--cpu-only", "--", burner, "1", status=7)
    elapsed = float(re.search(r"^elapsed (\S+)$", result.stdout, re.M)[1])
    # a hypervisor's steal is in the kernel's sampling clocks and not in the CPU time that the program burns
    most = max(1.3, 1.05 * elapsed)
    # eBPF's clocks belong to processors: what shares one with others has its share by chance, of n samples within 6 times √n
    assert (0.6e9 if way == "ebpf" else 0.9e9) < sampled_ns(pitot) < (max(1.5, most) if way == "ebpf" else most) * 1e9
    stacks = folded(pitot)
    inside = sum(us for stack, us in stacks.items() if "main;burn_in_here" in stack)
    assert inside > 0.9 * sum(stacks.values())
    start = {"ebpf": "eBPF", "perf": "perf_event", "timer": "timer"}[way]
    assert any(row["actual"].startswith(start) for row in cpu_capabilities(pitot))


def test_pprof_is_named_after_the_program(pitot, allowed, burner, tmp_path):
    """Its first mapping is the program that the command was for longest, by far, and not what was there before."""
    if not shutil.which("go"):
        pytest.skip("no Go: its pprof is not here (apt-get install golang-go)")
    allowed("perf")
    script = f"i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exec {burner} 1"
    pitot("record", "-o", "rec", "--cpu=999", "--cpu-via=perf", "--cpu-only", "--", "sh", "-c", script, status=7)
    pitot("flame", "rec", "-o", "x.pb.gz")
    result = subprocess.run(["go", "tool", "pprof", "-top", tmp_path / "x.pb.gz"], capture_output=True, text=True, timeout=PATIENCE)
    assert re.search(r"^File: burner$", result.stdout, re.M), result.stdout


@pytest.mark.parametrize("build_id", ["sha1", "none"])
@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_programs_that_are_gone_have_names(pitot, allowed, burner, tmp_path, way, build_id):
    """One is deleted while it runs; the other one is in a root of its own, and has ended when its functions are named."""
    allowed(way)
    (tmp_path / "root").mkdir()
    subprocess.run(["cc", "-O2", "-static", f"-Wl,--build-id={build_id}", "-o", tmp_path / "root/burner", f"{burner}.c"], check=True)
    shutil.copy(tmp_path / "root/burner", tmp_path / "deleted")
    pitot("record", "-o", "rec", f"--cpu={HZ}", "--cpu-via", way, "--cpu-only", "--", "sh", "-c",
          "./deleted 0.5 until gone & until readlink /proc/$!/exe | grep -q deleted; do sleep 0.1; done; rm deleted; sleep 0.2; "
          "touch gone; wait")
    stacks = folded(pitot)
    assert share(stacks, "main;burn_in_here") > 0.6, stacks
    if os.geteuid() == 0:
        pitot("record", "-o", "rec", "-f", f"--cpu={HZ}", "--cpu-via", way, "--cpu-only", "--", "chroot", "root", "/burner", "1.5",
              status=7)
        stacks = folded(pitot)
        assert share(stacks, "main;burn_in_here") > 0.6, (stacks, pitot("view", "rec", "module", "--json").stdout,
                                                          pitot("symbolize", "rec", "-v", status=None).stderr)


@pytest.mark.parametrize("way", WAYS)
def test_children_are_sampled(pitot, allowed, burner, way):
    allowed(way)
    pitot("record", "-o", "rec", f"--cpu={HZ}", "--cpu-via", way, "--cpu-only", "--", "sh", "-c", f"{burner} 0.5 fork; true")
    stacks = folded(pitot, "--by", "process")
    burning = {stack.split(";")[0] for stack in stacks if "burn_in_here" in stack}
    assert len(burning) == 2, stacks


def test_on_by_default_and_off_when_asked(pitot, burner):
    pitot("record", "-o", "rec", "--", burner, status=7)
    assert len(cpu_capabilities(pitot)) == 1
    for option in ("--no-cpu", "--cpu=0", "--gpu-only"):
        pitot("record", "-o", "rec", "-f", option, "--", burner, "0.01", status=7)
        [row] = cpu_capabilities(pitot)
        assert row["state"] == "off" and "not requested" in row["reason"] and not rows(pitot, "cpu_sample")
    assert "no CPU samples: not requested" in pitot("flame", "rec", status=1).stderr
    assert "CPU samples" not in pitot("flame", "rec", "--mode", "gpu", status=1).stderr


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_a_command_that_is_too_short(pitot, allowed, way):
    """What a way of sampling cannot do is no reason for there being nothing."""
    allowed(way)
    for _ in range(10):  # eBPF's clocks may go off just then, with a chance of some thousandths
        pitot("record", "-f", "-o", "rec", "--cpu-only", "--cpu-via", way, "--cpu=1", "--", "true")
        if not rows(pitot, "cpu_sample"):
            break
    assert not rows(pitot, "cpu_sample")
    result = pitot("flame", "rec", "--format", "text", status=1)
    assert result.stdout == ""
    assert re.search(r"no CPU samples: nothing ran long enough to be sampled \(\w+, 1 Hz\)$", result.stderr.strip())
    assert re.search(r"CPU +no samples: nothing ran long enough to be sampled", pitot("report", "rec").stdout)


def test_off_cpu_that_is_not_to_be_had(pitot, allowed, burner):
    allowed("perf")
    result = pitot("record", "-o", "rec", "--cpu-only", "--cpu-via", "perf", "--off-cpu", "--", burner, "0.2", status=7)
    assert re.search(r"^  off-CPU +not recorded: it needs eBPF", result.stderr, re.M)
    assert "0 kernels" not in result.stderr and "GPU" not in result.stderr and "per call" not in result.stderr
    result = pitot("record", "-o", "rec", "-f", "--cpu-only", "--cpu-via", "perf", "--", burner, "0.2", status=7)
    assert "off-CPU" not in result.stderr


def test_nothing_is_put_into_the_command(pitot, allowed, tmp_path):
    allowed("perf")
    pitot("record", "-o", "rec", "--cpu-only", "--cpu-via", "perf", "--", "sh", "-c", "env > environment.txt")
    names = {line.split("=")[0] for line in (tmp_path / "environment.txt").read_text().splitlines()}
    assert not names & {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD", "PITOT_RECORDING"}


# A window begins and ends with what `pitot record` has to set up: on a slow machine a short one is over before there is a sample.
WINDOWS_MS = (400, 1600, 6400, 25600)


def test_window(pitot, allowed, burner):
    allowed("perf")
    for ms in WINDOWS_MS:
        pitot("record", "-f", "-o", "rec", f"--cpu={HZ}", "--cpu-via", "perf", "--delay", f"{ms}ms", "--duration", f"{ms}ms",
              "--", burner, str(2 * ms / 1e3), status=7)  # of CPU time: it lives longer than the window
        times = [row["time_ns"] for row in rows(pitot, "cpu_sample")]
        if times:
            break
    assert times and max(times) - min(times) <= ms * 10**6
    window = pitot("report", "rec", "--json", json_output=True)["window"]
    assert ms * 10**6 <= window["start_ns"] < window["end_ns"] <= window["start_ns"] + ms * 10**6
    assert "; recorded only from" in pitot("report", "rec").stdout


def test_a_window_that_begins_at_a_time_of_the_day(pitot, tmp_path):
    """The command lives until the next full second, so beyond the start; the recording says exactly when that was."""
    wait = "import time\nend = time.time() // 1 + 1.01\nwhile time.time() < end: pass"
    pitot("record", "-o", "rec", "--cpu-only", "--start-at", "/1s", "--", sys.executable, "-c", wait)
    identity = json.loads((tmp_path / "rec/recording.json").read_text())
    opened, = [row for row in rows(pitot, "capability") if row["name"] == "window"]
    assert opened["state"] == "on" and "--start-at" in opened["reason"]
    assert (identity["start_realtime_ns"] + opened["time_ns"]) % 10**9 == 0 < opened["time_ns"] <= 10**9
    said = pitot("record", "--cpu-only", "-f", "-o", "rec", "--start-at", "2100-01-01T00:00:00Z", "--", "true").stderr
    assert "the command ended before --start-at" in said
    for words, options in (("is over", ["2001-01-01T00:00:00Z"]), ("is no time", ["noon"]), ("contradict", ["/1s", "--delay", "1s"])):
        assert words in pitot("record", "--start-at", *options, "--", "true", status=2).stderr


def test_a_window_that_never_opens(pitot):
    """The reason for there being no samples is not that nothing ran."""
    why = "no samples: the command ended before --delay was over"
    said = pitot("record", "--cpu-only", "-o", "late", "--delay", "1h", "--", "true").stderr
    assert f"CPU       {why}\n" in said and f"CPU  {why}\n" in pitot("report", "late").stdout
    assert why.replace("no samples", "no CPU samples") in pitot("flame", "late", status=1).stderr
    said = pitot("record", "--cpu-only", "-f", "-o", "late", "--delay", "1h", "--json", "--", "true").stderr
    assert json.loads(said[said.index("{"):])["no_samples"] == "the command ended before --delay was over"


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_running_process(pitot, allowed, burner, way):
    allowed(way)
    with Burning(burner) as target:
        for ms in WINDOWS_MS:
            begun = time.monotonic_ns()
            pitot("record", "-f", "-p", target.pid, f"--cpu={HZ}", "--cpu-via", way, "--duration", f"{ms}ms", "-o", "rec")
            elapsed = time.monotonic_ns() - begun
            if sampled_ns(pitot):
                break
        assert target.poll() is None
    assert 0 < sampled_ns(pitot) <= elapsed + 10**9 // HZ  # it is one thread
    assert any("burn_in_here" in stack for stack in folded(pitot))
    assert {row["pid"] for row in rows(pitot, "process")} == {target.pid}


class Tree:
    """A shell that waits for a child that burns."""

    def __init__(self, burner):
        self.parent = subprocess.Popen(["sh", "-c", f"{burner} 0.01 until /nonexistent & wait"], stdin=subprocess.DEVNULL)

    def child(self):
        found = Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        return int(found[0]) if found else None

    def __enter__(self):
        wait_until(self.child, "it has a child", self.parent)
        return self

    def __exit__(self, *_):
        child = self.child()
        if child:
            os.kill(child, signal.SIGKILL)
        self.parent.wait()


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_trees_of_running_processes(pitot, allowed, burner, way):
    """Two roots, one of them given twice: what they have started before is sampled, and nothing besides."""
    allowed(way)
    with Tree(burner) as first, Tree(burner) as second, Tree(burner):
        for ms in WINDOWS_MS:
            result = pitot("record", "-f", "-p", first.parent.pid, "-p", second.parent.pid, "-p", first.parent.pid,
                           f"--cpu={HZ}", "--cpu-via", way, "--duration", f"{ms}ms", "-o", "rec")
            sampled = {row["pid"] for row in rows(pitot, "cpu_sample")}
            if sampled == {first.child(), second.child()}:
                break
        assert "2 processes were sampled" in result.stderr and "warning" not in result.stderr
        assert sampled == {first.child(), second.child()}
        commands = {row["pid"]: row["command"] for row in rows(pitot, "process")}
        assert commands[first.child()].endswith("until /nonexistent") and commands[first.parent.pid].startswith("sh -c")
        assert set(commands) == {tree for one in (first, second) for tree in (one.parent.pid, one.child())}


def test_roots_end_one_after_the_other(program, environment, allowed, burner, tmp_path):
    """The recording goes on until the last of them."""
    allowed("perf")
    with Burning(burner, tmp_path / "first") as first, Burning(burner, tmp_path / "second") as second:
        record = subprocess.Popen([program, "record", "-p", str(first.pid), "-p", str(second.pid), "--cpu-via", "perf", "-o", "rec"],
                                  cwd=tmp_path, env=environment)
        wait_until(is_sampled(tmp_path, second), "it is sampled", record)
        (tmp_path / "first").touch()
        assert first.wait(PATIENCE) == 7
        with pytest.raises(subprocess.TimeoutExpired):
            record.wait(0.5)
        (tmp_path / "second").touch()
        assert record.wait(PATIENCE) == 0


def test_a_running_python_without_ebpf(pitot, allowed):
    allowed("perf")
    target = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        # More often than perf events have the process read.
        result = pitot("record", "-p", target.pid, "--cpu-via", "perf", "--cpu=2000", "--duration", "50ms", "-o", "rec")
        sudo = "sudo " if os.geteuid() else ""
        assert f"no Python frames, which need eBPF here: {sudo}pitot record -p {target.pid}\n" in result.stderr
    finally:
        target.kill()
        target.wait()


class Burning(subprocess.Popen):
    """A process that runs until there is a file, or it is not wanted any more."""

    def __init__(self, burner, file="/nonexistent"):
        super().__init__([burner, "0.01", "until", file])

    def __exit__(self, *_):
        self.kill()
        self.wait()


def is_sampled(folder, target):
    """Whether samples of a process are on disk."""
    return lambda: (folder / "rec" / f"cpu-{target.pid}.0.pit").exists()


def test_running_process_ends(program, environment, allowed, burner, tmp_path):
    allowed("perf")
    with Burning(burner, tmp_path / "over") as target:
        record = subprocess.Popen([program, "record", "-p", str(target.pid), "--cpu-via", "perf", "-o", "rec"], cwd=tmp_path,
                                  env=environment)
        wait_until(is_sampled(tmp_path, target), "it is sampled", record)
        (tmp_path / "over").touch()
        assert record.wait(PATIENCE) == 0 and target.wait(PATIENCE) == 7


def test_a_recording_that_is_not_complete_has_names(program, environment, allowed, burner, pitot, tmp_path):
    """While it grows and after pitot was killed, functions are named for the reader; nothing is written into the recording."""
    allowed("perf")
    with Burning(burner) as target:
        record = subprocess.Popen([program, "record", "--cpu-only", "-p", str(target.pid), "--cpu-via", "perf", "-o", "rec"],
                                  cwd=tmp_path, env=environment)
        wait_until(lambda: is_sampled(tmp_path, target)() and "main;burn_in_here" in pitot("flame", "rec", status=None).stdout,
                   "it is sampled and named", record)
        record.kill()
        record.wait(PATIENCE)
    files = sorted(file.name for file in (tmp_path / "rec").iterdir())
    assert any("burn_in_here" in stack for stack in folded(pitot))
    assert "burn_in_here" in pitot("report", "rec").stdout
    assert "no data" not in pitot("report", "rec").stdout
    assert files == sorted(file.name for file in (tmp_path / "rec").iterdir()) and not any("symbols" in name for name in files)
    pitot("symbolize", "rec")
    assert (tmp_path / "rec" / "symbols.0.pit").exists()
    assert any("burn_in_here" in stack for stack in folded(pitot))


def test_interrupted_while_it_looks_at_a_running_process(program, environment, allowed, burner, pitot, tmp_path):
    allowed("perf")
    with Burning(burner) as target:
        record = subprocess.Popen([program, "record", "-p", str(target.pid), "--cpu-via", "perf", "-o", "rec"], cwd=tmp_path,
                                  env=environment, stderr=subprocess.PIPE, text=True)
        wait_until(is_sampled(tmp_path, target), "it is sampled", record)
        record.send_signal(signal.SIGINT)
        assert "was sampled" in record.communicate(timeout=PATIENCE)[1] and record.returncode == 0
        assert target.poll() is None
    assert pitot("info", "rec", "--verify").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take /proc and BTF away")
@pytest.mark.parametrize("missing, row, said", [
    ("/proc", "processes", "there is no /proc"),
    ("/sys/kernel/btf", "cpu", "no /sys/kernel/btf/vmlinux"),
])
def test_what_a_container_may_lack(pitot, program, environment, allowed, burner, tmp_path, missing, row, said):
    """The command is sampled all the same, with all names, and the recording says what was missing."""
    allowed("ebpf", "perf")
    script = f'mount -t tmpfs none {missing} || exit 9; exec "$0" record -q -o rec --cpu={HZ} --cpu-only -- {burner} 0.5'
    result = subprocess.run(["unshare", "-m", "sh", "-c", script, program], cwd=tmp_path, env=environment, capture_output=True,
                            text=True, timeout=PATIENCE)
    if result.returncode in (1, 9) and ("unshare" in result.stderr or "mount" in result.stderr):
        pytest.skip(result.stderr.strip())
    if "LeakSanitizer" in result.stderr:
        pytest.skip("a sanitizer needs /proc")
    assert result.returncode == 7 and not result.stderr, result.stderr
    [found] = [r for r in rows(pitot, "capability") if r["name"] == row]
    assert found["state"] == "degraded" and said in found["reason"]
    stacks = folded(pitot)
    assert share(stacks, "_start;") > 0.6 and share(stacks, "main;burn_in_here") > 0.6, stacks


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a pid namespace of its own")
def test_a_pid_namespace_with_the_wrong_proc(pitot, program, environment, allowed, burner, tmp_path):
    """Processes that only have the same ids are not taken for the command's."""
    allowed("perf")

    def run(*options):
        command = ["unshare", "-p", "-f", program, "record", "-o", "rec", f"--cpu={HZ}", "--cpu-via=perf", *options]
        result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        if "unshare failed" in result.stderr:
            pytest.skip(result.stderr.strip())
        return result

    result = run("--cpu-only", "--", burner, "0.5")
    assert result.returncode == 7 and "still running" not in result.stderr, result.stderr
    assert {row["pid"] for row in rows(pitot, "process")} <= {2, 3, 4}
    [found] = [row for row in rows(pitot, "capability") if row["name"] == "processes"]
    assert found["state"] == "degraded" and "another pid namespace" in found["reason"]
    stacks = folded(pitot)
    assert share(stacks, "main;burn_in_here") > 0.6, stacks
    result = run("-f", "-p", "1")
    assert result.returncode == 1 and "another pid namespace" in result.stderr


@pytest.mark.parametrize("options, said", [
    (("--cpu-only", "--gpu-only", "--", "true"), "leave nothing"),
    (("--duration=0", "--", "true"), "must be greater than 0"),
    (("--cpu-only", "--no-cpu", "--", "true"), "leaves nothing to record"),
    (("--gpu-only", "--cpu=50", "--", "true"), "leave out --cpu"),
    (("--off-cpu", "--no-cpu", "--", "true"), "--off-cpu needs"),
    (("--cpu=10001", "--", "true"), "takes at most 10000, not '10001'"),
    (("--cpu=often", "--", "true"), "--cpu"),
    (("--pid", "1", "--", "true"), "takes no command"),
    (("--pid", "0"), "takes the id of a process, not '0'"),
    (("--pid", "1", "--cpu-via", "timer"), "no timer inside"),
])
def test_wrong_usage(pitot, tmp_path, options, said):
    result = pitot("record", "-o", "rec", *options, status=2)
    assert said in result.stderr and not (tmp_path / "rec").exists()


def test_no_such_process(pitot, tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    result = pitot("record", "-o", "rec", "-p", gone.pid, status=1)
    assert f"there is no process {gone.pid}" in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "rec").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_without_privileges(build, environment, burner):
    """What is allowed is used, and the recording says what was not and why."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        for file in (build / "pitot", build / "libpitot.so", burner):
            shutil.copy(file, folder)

        def pitot(*arguments, status=0):
            result = subprocess.run([f"{folder}/pitot", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
                                    user=65534, group=65534, extra_groups=[], timeout=PATIENCE)
            assert result.returncode == status, result.stderr
            return result

        pitot("record", "-o", "rec", f"--cpu={HZ}", "--", "./burner", status=7)
        lines = pitot("view", "rec", "capability", "--json").stdout.splitlines()
        [row] = [row for row in map(json.loads, lines) if row["name"] == "cpu"]
        assert row["state"] == "degraded" and "eBPF" in row["reason"]
        result = pitot("record", "-o", "rec2", "--cpu-via", "ebpf", "--", "./burner", "0.01", status=1)
        assert "eBPF" in result.stderr and not os.path.exists(f"{folder}/rec2")


def test_turns_on_one_processor_are_no_waiting(pitot, allowed, burner, tmp_path):
    """Four loops on one processor: each is ready to run, and has the processor a quarter of the time."""
    allowed("perf")
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("the OS kernel counts no time in run queues")
    processor = min(os.sched_getaffinity(0))
    loops = " & ".join([f"{burner} 0.4"] * 4)
    pitot("record", "--cpu-only", "-q", "-o", "turns.pitot", "--", "taskset", "-c", str(processor), "sh", "-c", f"{loops} & wait",
          status=None, cwd=tmp_path)
    report = pitot("report", "turns.pitot", "--json", cwd=tmp_path, json_output=True)
    [burning] = [command for command in report["commands"] if command["command"] == "burner"]
    assert burning["kind"] == "starved" and burning["total_ns"] < burning["elapsed_ns"] / 2
    assert report["verdict"]["cpu"]["ready_ns"] > burning["total_ns"]


# Threads with the recorder's name share a processor until each of them has waited for it for 400 ms.
TURNS_OF_THE_RECORDER = r"""
import hashlib, os, threading

def waited_ns():
    with open("/proc/thread-self/schedstat") as stat:
        return int(stat.read().split()[1])

def spin():
    begin = waited_ns()
    while waited_ns() - begin < 400_000_000:
        hashlib.sha256(bytes(1 << 20)).digest()

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with open("/proc/thread-self/comm", "w") as comm:
    comm.write("pitot")
threads = [threading.Thread(target=spin) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(waited_ns())
"""


def test_threads_of_the_recorder_do_not_wait_for_the_program(pitot, allowed, tmp_path):
    allowed("perf")
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("the OS kernel counts no time in run queues")
    program = tmp_path / "turns.py"
    program.write_text(TURNS_OF_THE_RECORDER)
    main_ns = int(pitot("record", "-q", "-o", "rec", "--", sys.executable, program, cwd=tmp_path).stdout)
    waits = rows(pitot, "run_queue", tmp_path / "rec")
    assert waits and sum(row["wait_ns"] for row in waits if row["pid"]) < main_ns + 400_000_000
    spans = sorted({(row["start_ns"], row["end_ns"]) for row in waits})
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:])), "a reading begins where the last one ended"
