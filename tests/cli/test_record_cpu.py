"""CPU samples of `pitot record`: which way, which processes, which stacks; and what contradicts itself."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void burn_in_here(double seconds)
{
	double end = cpu_seconds() + seconds;

	while (cpu_seconds() < end)
		for (int i = 0; i < 100000; i++)
			sink += (unsigned long)i * i;
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;

	if (argc > 2 && !strcmp(argv[2], "fork") && !fork()) {
		burn_in_here(seconds);
		_exit(0);
	}
	burn_in_here(seconds);
	while (wait(NULL) > 0)
		;
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


@pytest.mark.parametrize("way", WAYS)
def test_each_way(pitot, allowed, burner, way):
    allowed(way)
    pitot("record", "-o", "rec", "--cpu=250", "--cpu-via", way, "--cpu-only", "--", burner, "1", status=7)
    assert 0.8e9 < sampled_ns(pitot) < 1.3e9
    stacks = folded(pitot)
    inside = sum(us for stack, us in stacks.items() if "main;burn_in_here" in stack)
    assert inside > 0.9 * sum(stacks.values())
    start = {"ebpf": "eBPF", "perf": "perf_event", "timer": "timer"}[way]
    assert any(row["got"].startswith(start) for row in cpu_capabilities(pitot))


@pytest.mark.parametrize("way", WAYS)
def test_children_are_sampled(pitot, allowed, burner, way):
    allowed(way)
    pitot("record", "-o", "rec", "--cpu=250", "--cpu-via", way, "--cpu-only", "--", "sh", "-c", f"{burner} 0.5 fork; true")
    stacks = folded(pitot, "--by", "process")
    burning = {stack.split(";")[0] for stack in stacks if "burn_in_here" in stack}
    assert len(burning) == 2, stacks


def test_on_by_default_and_off_when_asked(pitot, burner):
    pitot("record", "-o", "rec", "--", burner, status=7)
    assert len(cpu_capabilities(pitot)) == 1
    for option in ("--no-cpu", "--cpu=0", "--gpu-only"):
        pitot("record", "-o", "rec", "-f", option, "--", burner, "0.01", status=7)
        [row] = cpu_capabilities(pitot)
        assert row["state"] == "off" and not rows(pitot, "cpu_sample")


def test_nothing_is_put_into_the_command(pitot, allowed, tmp_path):
    allowed("perf")
    pitot("record", "-o", "rec", "--cpu-only", "--cpu-via", "perf", "--", "sh", "-c", "env > environment.txt")
    names = {line.split("=")[0] for line in (tmp_path / "environment.txt").read_text().splitlines()}
    assert not names & {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "LD_PRELOAD", "PITOT_RECORDING"}


def test_window(pitot, allowed, burner):
    allowed("perf")
    pitot("record", "-o", "rec", "--cpu=250", "--cpu-via", "perf", "--delay", "300ms", "--duration", "400ms", "--", burner,
          "1.5", status=7)
    times = [row["time_ns"] for row in rows(pitot, "cpu_sample")]
    assert times and max(times) - min(times) <= 420e6


@pytest.mark.parametrize("way", ["ebpf", "perf"])
def test_running_process(pitot, allowed, burner, way):
    allowed(way)
    target = subprocess.Popen([burner, "30"])
    try:
        pitot("record", "-p", target.pid, "--cpu=250", "--cpu-via", way, "--duration", "700ms", "-o", "rec")
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()
    assert 0.1e9 < sampled_ns(pitot) < 0.9e9
    assert any("burn_in_here" in stack for stack in folded(pitot))
    assert {row["pid"] for row in rows(pitot, "process")} == {target.pid}


def test_running_process_ends(pitot, allowed, burner):
    allowed("perf")
    target = subprocess.Popen([burner, "0.8"])
    time.sleep(0.1)
    pitot("record", "-p", target.pid, "--cpu-via", "perf", "-o", "rec", timeout=30)
    assert target.wait() == 7


def test_interrupted_while_it_looks_at_a_running_process(program, environment, allowed, burner, pitot, tmp_path):
    allowed("perf")
    target = subprocess.Popen([burner, "30"])
    record = subprocess.Popen([program, "record", "-p", str(target.pid), "--cpu-via", "perf", "-o", "rec"], cwd=tmp_path,
                              env=environment, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(1)
        record.send_signal(signal.SIGINT)
        assert "was sampled" in record.communicate(timeout=30)[1] and record.returncode == 0
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()
    assert pitot("info", "rec", "--verify").returncode == 0


@pytest.mark.parametrize("options, said", [
    (("--cpu-only", "--gpu-only", "--", "true"), "leave nothing"),
    (("--cpu-only", "--no-cpu", "--", "true"), "nothing to record"),
    (("--gpu-only", "--cpu=50", "--", "true"), "leave out --cpu"),
    (("--off-cpu", "--no-cpu", "--", "true"), "--off-cpu needs"),
    (("--cpu=10001", "--", "true"), "too often"),
    (("--cpu=often", "--", "true"), "--cpu"),
    (("--pid", "1", "--", "true"), "leave the command out"),
    (("--pid", "0"), "no process has"),
    (("--pid", "1", "--cpu-via", "timer"), "runs already"),
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
                                    user=65534, group=65534, extra_groups=[], timeout=120)
            assert result.returncode == status, result.stderr
            return result

        pitot("record", "-o", "rec", "--cpu=250", "--", "./burner", status=7)
        lines = pitot("view", "rec", "capability", "--json").stdout.splitlines()
        [row] = [row for row in map(json.loads, lines) if row["name"] == "cpu"]
        assert row["state"] == "degraded" and "eBPF" in row["reason"]
        result = pitot("record", "-o", "rec2", "--cpu-via", "ebpf", "--", "./burner", "0.01", status=1)
        assert "eBPF" in result.stderr and not os.path.exists(f"{folder}/rec2")
