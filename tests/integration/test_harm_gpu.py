"""What a GPU does to a recording: work of seconds beside a quiet CPU, a hang in the middle, a fault."""
import time

import pytest

MS = 1_000_000
MISSING_NS = 250 * MS  # what a killed process may lose
KERNEL_NS = 20 * MS  # of the program `quiet`
SMALL_BUFFER = 8  # kernels that CUPTI hands over together at least
SCHEDULING_NS = 150 * MS  # on two cores with other work
SLOWNESS = 10  # of a build with sanitizers


def quiet_for(play, nanoseconds):
    """Plays a burst of launches, and so long of what follows."""
    play.until_rows("api_call", 299)
    last = max(play.times("api_call", "end_ns"))
    play.until(lambda: time.monotonic_ns() > last + nanoseconds, "it takes its time")


def test_kernels_of_a_quiet_cpu_are_on_disk(start_play, make_tape, sanitized):
    """300 kernels of 20 ms, launched in a burst: a SIGKILL costs 250 ms of them, and those of the buffer that is not complete."""
    play = start_play(make_tape("quiet", 300))
    quiet_for(play, 5000 * MS)
    killed = play.kill()
    ends = play.times("kernel", "end_ns")
    limit = (MISSING_NS + SCHEDULING_NS) * (SLOWNESS if sanitized else 1) + SMALL_BUFFER * KERNEL_NS
    assert killed - max(ends, default=0) <= limit, f"{len(ends)} kernels are on disk"


def test_short_kernels_cost_few_buffers(start_play, make_tape):
    """Once it is known that kernels are short, CUPTI asks for a buffer for every hundredth of them at most."""
    play = start_play(make_tape("fast", 20000), "--repeat", "10000", "--rate", "50000", clock=None, options="stacks=none")

    def counts():
        costs = [row for row in play.rows("cost") if row["kind"] == "buffer_request"]
        return play.count("kernel"), sum(row["count"] for row in costs)

    def grown():
        kernels, requests = counts()
        play.until_rows("kernel", kernels + 20000)
        more_kernels, more_requests = counts()
        return (more_requests - requests) * 100 <= more_kernels - kernels

    play.until_rows("kernel", 0)
    play.until(grown, "buffers have grown")


def test_counters_of_a_quiet_cpu_keep_their_rate(start_play, make_tape):
    """Four times a second, also while only the GPU works: at least half of them, on a slow machine."""
    play = start_play(make_tape("quiet", 300), options="counters_ns=100000000")
    quiet_for(play, 4000 * MS)
    play.kill()
    readings = [row for row in play.rows("counter_sample") if row["counter"] == "gpu_utilization"]
    assert len(readings) >= 8, readings


@pytest.mark.parametrize("function, said", [
    *[(name, name) for name in ("cuptiActivityFlushAll", "cuptiGetTimestamp", "cuptiActivityGetNumDroppedRecords")],
    ("nvmlDeviceGetTemperature", "NVML's temperature")])
def test_a_gpu_that_hangs_in_the_middle(start_play, make_tape, function, said):
    """Launches and NVTX that come after it reach the disk, and the recording says what hangs."""
    play = start_play(make_tape("steps"), "--repeat", "10000", "--gap", "100", options="counters_ns=100000000",
                      faults=f"hang {function} when {{folder}}/hang")
    play.until_rows("kernel", 0)
    play.until_rows("counter_sample", 0)
    play.touch("hang")
    hung = time.monotonic_ns()
    for table, column in (("api_call", "end_ns"), ("nvtx", "time_ns")):
        play.until(lambda: max(play.times(table, column)) > hung + 1000 * MS,
                        f"rows of {table} from after the hang are on disk")
    play.until(lambda: any(f"{said} has not returned" in (row["reason"] or "") for row in play.rows("capability")),
                    "the recording says so")
    play.kill()


def test_a_gpu_that_faults(start_play, pitot):
    """An illegal address: kernels without times from there on, and the report leads with it."""
    play = start_play("kinds", clock="--now", faults="gpu-fault at 4900")
    play.end()
    report = pitot("report", play.recording, "--json", json_output=True)
    assert report["untimed"] > 0
    text = pitot("report", play.recording).stdout
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in "\n".join(text.splitlines()[:10]), text


def test_launches_that_fail_are_told_apart(start_play, make_tape, pitot):
    """They are counted with their error, and are no launches of which the kernels are missing."""
    play = start_play(make_tape("steps"), clock=None, faults="fail-launches every 10")
    play.end()
    launches = [row for row in play.rows("api_call") if row["function"] in ("cuLaunchKernel", "cuGraphLaunch")]
    kernels = {row["correlation"] for row in play.rows("kernel")}
    failed = [row for row in launches if row["result"]]
    assert len(failed) == len(launches) // 10
    assert {row["correlation"] for row in launches if not row["result"]} == kernels
    assert play.losses() == {}
    report = pitot("report", play.recording, "--json", json_output=True)
    section = report["launches"]
    assert section["failed"] == len(failed)
    assert section["kernel_calls"]["count"] + section["graph_calls"]["count"] == len(kernels)
    assert {item["error"] for item in report["failures"]["items"]} == {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}
    assert sum(item["count"] for item in report["failures"]["items"]) == len(failed)
