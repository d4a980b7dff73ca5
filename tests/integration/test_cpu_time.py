"""CPU time from outside: what the samples of a thread stand for adds up to what the kernel has counted for it."""
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from perf_events import stolen
from waiting import PATIENCE

pytestmark = pytest.mark.statistical


@pytest.fixture
def record(program, environment, rows, tmp_path):
    """record("ebpf", command…): the rows of its samples, and what it said."""

    def run(method, *command):
        recording = tmp_path / "time.pitot"
        result = subprocess.run([program, "record", "--cpu-only", "--cpu-via", method, "-q", "-f", "-o", recording, "--",
                                 *map(str, command)], capture_output=True, text=True, env=environment, timeout=PATIENCE)
        if result.returncode and f"no {'eBPF' if method == 'ebpf' else 'perf_event'}" in result.stderr:
            pytest.skip(result.stderr.strip())
        assert result.returncode == 0, result.stderr
        return rows(recording, "cpu_sample"), result.stdout

    return run


def by_thread(samples):
    sums = Counter()
    for row in samples:
        sums[row["thread"]] += row["weight_ns"]
    return sums


@pytest.mark.parametrize("milliseconds,threads,processes", [(30, 60, 20), (2, 100, 100)])
def test_ebpf_has_the_kernel_s_own_figure(record, programs, milliseconds, threads, processes):
    """Of each thread and process, longer and much shorter than the time between samples."""
    before = stolen()
    samples, said = record("ebpf", programs / "short_threads", threads, milliseconds, processes)
    recorded = by_thread(samples)
    *each, (_, total) = [line.split() for line in said.splitlines()]
    assert len(each) == threads + processes
    # After a thread has read its clock it still has to write that down and to end, and may be interrupted.
    short = {tid: (recorded[int(tid)], counted) for tid, counted in each if recorded[int(tid)] < 0.99 * int(counted)}
    assert not short, f"of {len(each)}: {short}"
    # What threads and processes do after their last reading takes longer where the hypervisor takes the processor from them.
    assert 0.99 * int(total) < recorded.total() < 1.01 * int(total) + (stolen() - before) * 1e9


def test_perf_has_short_threads_too(record, programs):
    """Its clock is another one than that of getrusage(): it also counts what interrupts a thread, such as the hypervisor."""
    before = stolen()
    samples, said = record("perf", programs / "short_threads", 60, 2, 60)
    recorded = by_thread(samples)
    *each, (_, total) = [line.split() for line in said.splitlines()]
    assert sum(recorded[int(tid)] > 1e6 for tid, _ in each) == len(each)
    assert 0.92 * int(total) < recorded.total() < 1.25 * int(total) + (stolen() - before) * 1e9


@pytest.mark.parametrize("milliseconds", [2, 40])
def test_what_still_runs_at_the_end(record, milliseconds):
    """Its last samples are older than its last CPU time; one that had none at all is found with the process that started it."""
    script = f"""
import os, signal, time
def burn(ms):
    end = time.process_time() + ms / 1000
    while time.process_time() < end:
        pass
there, back = os.pipe()
pid = os.fork()
if not pid:
    burn({milliseconds})
    os.close(1)
    os.close(2)
    os.write(back, b"done")
    signal.pause()
print(pid, flush=True)
os.read(there, 4)
burn(50)
"""
    samples, said = record("ebpf", sys.executable, "-c", script)
    pid = int(said)
    try:
        used = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        assert by_thread(samples)[pid] == pytest.approx(used, rel=0.01)
    finally:
        os.kill(pid, signal.SIGKILL)
