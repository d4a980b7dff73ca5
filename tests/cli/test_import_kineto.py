"""`pitot import`: Chrome trace JSON of torch.profiler (Kineto), of Pitot, JAX and unitrace.

PITOT_KINETO_TRACES may name a folder with further files, whose totals are compared as well."""
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from golden import check_golden
from kineto_events import BASE, Raw, kernel, launch, name, nanoseconds, span, text_of, totals, trace, training, work

FOLDER = os.environ.get("PITOT_KINETO_TRACES")
FILES = sorted(Path(FOLDER).glob("*.json*")) if FOLDER else []


@pytest.fixture
def bring(pitot, tmp_path):
    """Imports a text or a path; what --json says, and rows(table, options…) of the recording."""

    def run(content, *more, **options):
        if isinstance(content, str):
            (tmp_path / "t.json").write_text(content)
            content = tmp_path / "t.json"
        said = pitot("import", content, *more, "-o", "r.pitot", "--force", "--json", json_output=True, **options)
        assert said["format"] == "kineto"

        def rows(table, *columns):
            lines = pitot("view", "r.pitot", table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
            return [json.loads(line) for line in lines.splitlines()]

        return said, rows

    return run


def imported(tmp_path, rows):
    """As totals() of the file."""
    base = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]
    found = Counter()
    for table in "kernel", "memcpy", "memset":
        for row in rows(table):
            size = row.get("bytes")
            found[table, row.get("config", ""), base + row["start_ns"], row["duration_ns"], row["correlation"], -1 if size is None else size] += 1
    return found


def test_totals(bring, tmp_path):
    """Every row of the GPU, to the nanosecond; joined with its call, operator, annotation and Python stack."""
    said, rows = bring(trace(training()))
    assert imported(tmp_path, rows) == totals(tmp_path / "t.json")
    assert (said["sessions"], said["files"], said["unknown"], said["damaged"]) == (1, 1, 0, 0)
    assert said["notes"] == [
        "read: 21 events, 4 items of GPU work, 4 joined with their calls", "threads: 4 calls, 4 inside of operators, 4 with a stack",
        "left out: 2 flows, 5 names and markers"]
    [first, *_] = rows("kernel", "config.grid_x", "config.block_x", "config.registers", "config.dynamic_shared_bytes", "stream", "device", "context")
    assert list(first.values()) == [128, 256, 32, 4096, 7, 0, 1]
    [copy] = rows("memcpy", "kind", "source_kind", "destination_kind", "async")
    assert list(copy.values()) == ["HtoD", "pageable", "device", None]
    assert [(row["function"], row["correlation"]) for row in rows("api_call")] == [
        ("cudaLaunchKernel", 77), ("cudaMemcpyAsync", 78), ("cudaMemsetAsync", 79), ("cuLaunchKernelEx", 80)]
    assert [(row["id"], row["correlation"]) for row in rows("external_correlation")] == [(3, 77), (4, 78), (4, 79)]
    assert [(row["kind"], row["message"], row["level"]) for row in rows("nvtx")] == [
        ("push", "ProfilerStep#3", 0), ("push", "aten::linear", 1), ("push", "aten::addmm", 2), ("pop", None, 2), ("pop", None, 1),
        ("push", "aten::copy_", 1), ("pop", None, 1), ("pop", None, 0)]
    assert {row["command"] for row in rows("process")} == {"python3"} and [row["name"] for row in rows("thread")] == ["python3"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_totals_of_further_files(bring, tmp_path, file):
    _, rows = bring(file)
    wanted = totals(file)
    if all(key[5] < 0 for key in wanted if key[0] != "kernel"):  # AMD's sizes are in the calls
        assert {key[:5] for key in imported(tmp_path, rows)} == {key[:5] for key in wanted}
    else:
        assert imported(tmp_path, rows) == wanted


RANKS = [file for file in FILES if re.fullmatch(r"rank-\d+[.]json[.]gz", file.name)]


@pytest.mark.skipif(not RANKS, reason="PITOT_KINETO_TRACES names no folder with rank-0.json.gz and others of one run")
def test_holistic_trace_analysis_agrees(pitot, tmp_path, monkeypatch):
    """Sums of GPU work, idle time, and from the first to the last work, by rank, to the nanosecond."""
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    from hta.trace_analysis import TraceAnalysis
    (tmp_path / "ranks").mkdir()
    for file in RANKS:
        shutil.copy(file, tmp_path / "ranks")
    pitot("import", "ranks", "-o", "ranks.pitot")
    gpus = [gpu["busy"] for gpu in pitot("report", "ranks.pitot", "--json", json_output=True)["gpus"]]
    analysis = TraceAnalysis(trace_dir=str(tmp_path / "ranks"), include_last_profiler_step=True)
    times = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
    sums = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=100000)[1].groupby("rank")["sum (us)"].sum()
    assert len(gpus) == len(times) == len(RANKS)
    for rank, gpu in enumerate(gpus):
        lasted = gpu["last_ns"] - gpu["first_ns"]
        theirs = round(sums[rank] * 1000), round(times["idle_time(us)"][rank] * 1000), round(times["kernel_time(us)"][rank] * 1000)
        assert (gpu["sum_ns"], lasted - gpu["union_ns"], lasted) == theirs


def test_series_of_counters(bring):
    """Also such as have the name of an argument of something else; "value" is no name."""
    said, rows = bring(trace([{"ph": "C", "ts": 5, "pid": 1, "name": "memory", "args": {"bytes": 7, "used": 1.5, "value": 2, "device": 3, "cid": "text"}}], base=BASE))
    names = {row["id"]: row["name"] for row in rows("counter")}
    assert sorted(names.values()) == ["memory", "memory bytes", "memory device", "memory used"] and said["rows"]["counter_sample"] == 4


def test_ranges_of_two_events(bring):
    """B and E nest on their thread; b and e have an id in their category, and may end on another thread."""
    def half(phase, stamp, text, **more):
        return {"ph": phase, "ts": Raw(stamp + "000"), "pid": 5, "tid": 7, "name": text, **more}

    said, rows = bring(trace([half("B", "1", "outer"), half("B", "2", "inner"), half("E", "3", ""), half("E", "4", ""), half("E", "5", ""),
                              half("b", "6", "early", cat="r", id=1), half("b", "7", "late", cat="r", id="0x2"), half("e", "8", "", cat="r", id=1, tid=8),
                              half("e", "9", "", cat="r", id="0x2"), half("B", "10", "open"), half("i", "12", "last")], base=BASE))
    assert said["notes"][-1] == "changed: 1 range that does not nest, 1 range that did not end" and any("1 end of a range that never began" in note for note in said["notes"])
    found = [(row["time_ns"], row["kind"], row["message"], row["thread"]) for row in rows("nvtx")]
    first = min(time for time, *_ in found)
    assert sorted((time - first, kind, text) for time, kind, text, _ in found) == [
        (0, "push", "outer"), (1000000, "push", "inner"), (2000000, "pop", None), (3000000, "pop", None), (5000000, "push", "early"), (6000000, "start", "late"),
        (7000000, "pop", None), (8000000, "end", None), (9000000, "push", "open"), (11000000, "mark", "last"), (11000000, "pop", None)]
    assert {thread for *_, thread in found} == {7}


TIMES = [("1694039968955744", None), ("1712195495519689.2", None), ("1712195495519689.0", None), ("1.7121954955196892e+15", None), ("4458676522690.655", 1),
         ("10.125", BASE), ("0.001", BASE), ("7.0005", BASE), ("7.0004999", BASE), ("7e3", BASE), ("12E-3", BASE), ("9007199254.740993", BASE), ("5", BASE)]


@pytest.mark.parametrize("stamp, base", TIMES)
def test_times_are_decimal_texts(bring, tmp_path, stamp, base):
    """A double cannot hold them; what is below a nanosecond is rounded."""
    _, rows = bring(trace([kernel(1, stamp, "0.333")], base=base))
    start = json.loads((tmp_path / "r.pitot/recording.json").read_text())["start_realtime_ns"]
    [row] = rows("kernel")
    assert (start + row["start_ns"], row["duration_ns"]) == ((base or 0) + nanoseconds(stamp), 333)


@pytest.mark.parametrize("stamp, duration", [("-5", "1"), ("1e400", "1"), ("1e19", "1"), ("99999999999999999999999", "1"), ("5", "-1"), ("5", "1e30")])
def test_times_that_cannot_be(bring, stamp, duration):
    """Left out and counted, not moved."""
    said, rows = bring(trace([kernel(1, stamp, duration), kernel(2, "5.000", "1.000")], base=1000))
    assert [row["correlation"] for row in rows("kernel")] == [2]
    assert [(row["reason"], row["count"]) for row in rows("loss")] == [("no_time", 1)]
    assert said["notes"][-1] == "left out: 1 event without a usable time"


def test_base_after_the_events(bring, tmp_path):
    """As tools leave it that sort or filter a trace."""
    text = text_of({"traceEvents": training(), "baseTimeNanoseconds": BASE})
    _, rows = bring(text)
    assert imported(tmp_path, rows) == totals(tmp_path / "t.json")
    with gzip.open(tmp_path / "t.json.gz", "wt") as file:
        file.write(text)
    _, rows = bring(tmp_path / "t.json.gz")
    assert imported(tmp_path, rows) == totals(tmp_path / "t.json.gz")


def test_bare_array_and_header_in_any_order(bring, tmp_path):
    _, rows = bring(text_of([kernel(5, "1694039968955744", "7"), {}]))
    assert imported(tmp_path, rows) == totals(tmp_path / "t.json") and not rows("loss")
    _, rows = bring(text_of({"traceEvents": training(), "INFO": ["x"], "distributedInfo": {"rank": 3, "world_size": 8}, "host_name": "node7",
                             "deviceProperties": [{"id": 0, "name": "A"}], "baseTimeNanoseconds": BASE}))
    assert [(row["command"], row["rank"], row["world_size"], row["host"]) for row in rows("process")] == [("python3", 3, 8, "node7")]
    assert [(row["name"], row["multiprocessors"]) for row in rows("device")] == [("A", None)]


def test_stacks(bring, pitot):
    """Python functions around a call; without any, the operator's "Call stack"."""
    bring(trace(training()))
    folded = pitot("flame", "r.pitot", "--format", "folded", "-o", "-").stdout
    assert "main (train.py);step (train.py);" in folded.replace(":10", "").replace(":20", ""), folded
    events = [span("cpu_op", "aten::add", "1.000", "50.000", **{"External id": 9, "Call stack": "a.py(3): inner;b.py(7): outer"}),
              span("cpu_op", "aten::add_", "2.000", "40.000", **{"External id": 10, "Call stack": ""}), launch(1, "3.000"), kernel(1, "9.000", "1.000")]
    said, _ = bring(trace(events))
    folded = pitot("flame", "r.pitot", "--format", "folded", "-o", "-").stdout
    assert folded.index("outer (b.py") < folded.index("inner (a.py") and "1 call, 1 inside of an operator, 1 with a stack" in said["notes"][1]


def test_work_without_calls(bring):
    """External id places it into its operator; nothing else is invented."""
    events = [span("cpu_op", "aten::mm", "10.000", "90.000", tid=17, **{"External id": 5}), kernel(1, "30.000", "5.000", **{"External id": 5}),
              kernel(2, "40.000", "5.000", **{"External id": 6}), kernel(3, "50.000", "5.000")]
    said, rows = bring(trace(events))
    assert said["notes"][0] == "read: 4 events, 3 items of GPU work, 1 placed into its operator, 2 without any origin"
    assert [(row["function"], row["thread"], row["correlation"]) for row in rows("api_call")] == [("launch (time unknown)", 17, 1)]
    lacking = {row["name"]: row["reason"] for row in rows("capability") if row["state"] == "unavailable"}
    assert lacking["api_call"] == "the trace contains no runtime calls" and "synchronization" in lacking and "allocation" in lacking


def test_ranges_that_do_not_nest(bring):
    """Ends up to a microsecond late are rounding; other ranges keep their times."""
    events = [span("cpu_op", "outer", "10", "20"), span("cpu_op", "inner", "15", "16"), span("cpu_op", "crossing", "20", "40")]
    said, rows = bring(trace(events))
    assert said["notes"][-1] == "changed: 1 range ended with the one around it, 1 range that does not nest"
    assert [(row["kind"], row["message"]) for row in rows("nvtx")] == [("push", "outer"), ("push", "inner"), ("start", "crossing"), ("pop", None), ("pop", None), ("end", None)]


def test_memory_synchronization_counters(bring):
    def memory(at, size, total):
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 4242, "tid": 4242, "ts": Raw(at),
                "args": {"Total Reserved": 4096, "Total Allocated": total, "Bytes": size, "Addr": 2**63 + 5, "Device Id": 1, "Device Type": 1, "Ev Idx": 1}}

    sync = {"cuda_sync_kind": "Event Sync", "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 32, "wait_on_cuda_event_id": 9, "stream": -1,
            "correlation": 54, "device": 0, "context": 1}
    events = [memory("1.000", 512, 512), memory("2.000", -512, 0), span("cuda_sync", "Event Sync", "3.000", "4.000", -1, 0, **sync),
              {"ph": "C", "cat": "hardware_counters", "name": "gpu_power", "pid": "GPU 1 Counters", "tid": 0, "ts": Raw("5.000"), "args": {"": 99.5}},
              {"ph": "C", "name": "queue", "pid": 4242, "ts": Raw("6.000"), "args": {"length": 3, "text": "x"}},
              span("overhead", "Buffer Flush", "7.000", "1.000", 4242, -1), span("kernel", "k", "1", "1", 7, 0, **{"sm__throughput.avg.pct": 12.5, "correlation": 4})]
    _, rows = bring(trace(events))
    assert [(row["operation"], row["kind"], row["bytes"], row["address"], row["device"], row["pool_used_bytes"], row["pool_bytes"])
            for row in rows("allocation")] == [("allocation", "allocator_block", 512, 2**63 + 5, 1, 512, 4096), ("release", "allocator_block", 512, 2**63 + 5, 1, 0, 4096)]
    assert [(row["kind"], row["stream"], row["event"], row["event_record"], row["context"]) for row in rows("synchronization")] == [("event", None, 9, 32, 1)]
    assert [(row["event"], row["stream"], row["correlation"]) for row in rows("cuda_event")] == [(9, 20, 32)]
    assert [(row["counter"], row["value"], row["device"]) for row in rows("counter_sample")] == [("gpu_power", 99.5, 1), ("queue length", 3, None)]
    assert [row["kind"] for row in rows("overhead")] == ["buffer_flush"]
    assert [(row["metric"], row["value"], row["correlation"]) for row in rows("metric_value")] == [("sm__throughput.avg.pct", 12.5, 4)]


def test_collectives(bring, pitot, tmp_path):
    """Those that process groups name are matched between ranks by their numbers."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        events = []
        for number in range(3):
            at = 100 * number + 10 * rank
            args = {"Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 2000, "Group size": 2, "dtype": "BFloat16", "Process Group Name": "0",
                    "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": 7 + number}
            events += [launch(number + 1, f"{at}.000"), kernel(number + 1, f"{at + 20}.000", f"{50 - 10 * rank}.000", name="ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", **args)]
        (folder / f"{rank}.json").write_text(trace(events, distributedInfo={"rank": rank, "world_size": 2}))
    _, rows = bring(folder)
    assert Counter((row["function"], row["sequence"], row["count"], row["datatype"], row["bytes"], row["source"]) for row in rows("collective")) == {
        ("all_gather", number, 1000, "bfloat16", 2000, "profiler"): 2 for number in (7, 8, 9)}
    assert {(row["name"], row["ranks"]) for row in rows("communicator")} == {("0", 2)} and len({row["hash"] for row in rows("communicator")}) == 1
    report = pitot("report", "r.pitot").stdout
    assert "collectives, ranks are late by" in report and "inferred" not in report, report
    shutil.copy(folder / "1.json", folder / "copy.json")
    bring(folder)
    for options in (), ("--ranks",):
        report = pitot("report", "r.pitot", *options).stdout
        assert "ranks cannot be compared: rank 1 is there more than once: the recording has several runs" in report, report


def test_ranks_of_which_most_are_missing(bring, pitot, tmp_path):
    """Whoever is last of the recorded ranks: another may have been later, where the trace does not say who takes part."""
    folder = tmp_path / "ranks"
    folder.mkdir()

    def report(world, *options):
        for rank in range(2):
            events = []
            for number in range(20):
                at = 10_000 * number + 2000 * rank
                events += [launch(number + 1, f"{at}.000", device=rank),
                           kernel(number + 1, f"{at + 20}.000", f"{5000 - 2000 * rank}.000", name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", device=rank)]
            (folder / f"{rank}.json").write_text(trace(events, distributedInfo={"rank": rank, "world_size": world}))
        bring(folder)
        return pitot("report", "r.pitot", *options).stdout

    for options in (), ("--ranks",):
        assert "2 ranks are bound alike" in report(2, *options)
        text = report(4, *options)
        assert "ranks cannot be compared: no collective has the parts of all of its ranks" in text and "alike" not in text
        table = text.split("  rank  GPU ")[1].splitlines()
        assert [line.split()[:2] for line in table[1:3]] == [["0", "0"], ["1", "1"]], "each has a GPU of its own, also where ranks are read one by one"


@pytest.mark.parametrize("ahead_us, drift", [(2000, 50e-6), (-700, 0), (2_000_000, -100e-6)])
def test_clocks_of_hosts(bring, pitot, tmp_path, ahead_us, drift):
    """The second host's clock is ahead and drifts: collectives find both, and an uncertainty that covers the error."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    args = {"Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 2000, "Group size": 2, "dtype": "BFloat16",
            "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    for rank in range(2):
        events = []
        for number in range(60):
            def own(us):
                return us + rank * (ahead_us + drift * us)

            launched, start, end = (f"{own(us):.3f}" for us in (20_000 * number, 20_000 * number + 20 + 5 * rank, 20_000 * number + 60))
            events += [launch(number + 1, launched), kernel(number + 1, start, f"{float(end) - float(start):.3f}",
                                                            name="ncclDevKernel_AllGather_RING_LL(x)", **args, Seq=number)]
        (folder / f"{rank}.json").write_text(trace(events, distributedInfo={"rank": rank, "world_size": 2}, host_name=f"node{rank}"))
    bring(folder)
    for options in (), ("--ranks",):
        first, second = json.loads(pitot("report", "r.pitot", "--json", *options).stdout)["job"]["hosts"]
        assert (first["host"], first["method"], first["ahead_ns"], first["collectives"]) == ("node0", "reference", None, 0)
        assert (second["host"], second["method"], second["steps"], second["collectives"]) == ("node1", "collectives", 0, 60)
        truth = 1000 * (ahead_us + drift * 30 * 20_000)  # in the middle of the recording
        assert abs(second["ahead_ns"] - truth) < min(1000, second["uncertainty_ns"]) and second["uncertainty_ns"] < 60_000
        assert second["drift_ppm"] == pytest.approx(1e6 * drift, abs=0.5)
    line, = [line for line in pitot("report", "r.pitot", "--ranks").stdout.splitlines() if line.startswith("  node1")]
    assert line.split()[1] == "collectives" and f"{1e6 * drift:.0f}." in line + ".", line


def test_amd(bring, pitot):
    """Sizes are in the call; there is no context, and a stream in a call is a pointer."""
    call = {"stream": "0x0", "cid": 153, "src": "0x55", "dst": "0x7f", "size": "2560", "kind": "1"}
    events = [launch(117, "10.000", name="hipMemcpyWithStream", **call), launch(118, "20.000", name="hipLaunchKernel", grid=[3, 1, 1], block=[128, 2, 1], kernel="k"),
              {**span("gpu_memcpy", "Memcpy HtoD (Host -> Device)", "15.000", "2.000", 0, 2, device=2, stream=0, correlation=117, kind="HtoD")},
              span("kernel", "k", "25.000", "3.000", 0, 2, device=2, stream=0, correlation=118, kind="Dispatch Kernel")]
    _, rows = bring(trace(events, deviceProperties=[{"id": 2, "name": "AMD Radeon Graphics", "computeMajor": 9, "computeMinor": 0, "numSms": 104, "warpSize": 64}]))
    assert [(row["bytes"], row["kind"], row["device"], row["stream"]) for row in rows("memcpy")] == [(2560, "HtoD", 2, 0)]
    assert [list(row.values()) for row in rows("kernel", "config.grid_x", "config.block_y", "context")] == [[3, 2, 0]]
    assert [(row["id"], row["compute_major"], row["multiprocessors"]) for row in rows("device")] == [(2, 0, 104)]
    assert "context" in [row["name"] for row in rows("capability") if row["state"] == "unavailable"]
    assert rows("device")[0]["vendor"] == "amd"
    report = pitot("report", "r.pitot").stdout
    assert "launch-bound" in report and "HIP graphs" in report and "CUDA" not in report, report


def test_jax_and_unitrace(bring):
    jax = [{"ph": "M", "pid": 3, "name": "process_name", "args": {"name": "/device:GPU:1"}}, {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}},
           {"ph": "M", "pid": 3, "tid": 5, "name": "thread_name", "args": {"name": "Stream #13(Compute)"}}, {"ph": "M", "pid": 3, "tid": 6, "name": "thread_name", "args": {"name": "XLA Modules"}},
           {"ph": "X", "pid": 3, "tid": 5, "ts": Raw("10.5"), "dur": Raw("2.25"), "name": "fusion", "args": {"correlation_id": "9", "kernel_details": "regs:32 static_shared:0 dynamic_shared:64 grid:4,1,1 block:128,1,1 occ_pct:100"}},
           {"ph": "X", "pid": 3, "tid": 5, "ts": Raw("20"), "dur": Raw("1"), "name": "MemcpyD2H", "args": {}},
           {"ph": "X", "pid": 3, "tid": 6, "ts": Raw("10"), "dur": Raw("12"), "name": "jit_step"},
           {"ph": "X", "pid": 701, "tid": 8, "ts": Raw("1"), "dur": Raw("30"), "name": "$train.py:12 step"}, {"ph": "X", "pid": 701, "tid": 8, "ts": Raw("2"), "dur": Raw("3"), "name": "Execute"}]
    said, rows = bring(text_of({"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}, "traceEvents": jax}))
    assert [list(row.values()) for row in rows("kernel", "device", "stream", "duration_ns", "config.grid_x", "config.registers", "correlation")] == [[1, 5, 2250, 4, 32, 9]]
    assert [row["kind"] for row in rows("memcpy")] == ["DtoH"] and "1 GPU row that repeats other rows" in said["notes"][-1]
    assert [row["message"] for row in rows("nvtx") if row["message"]] == ["Execute"]
    intel = [{"ph": "X", "tid": 50, "pid": 40, "name": "zeCommandListAppendLaunchKernel", "cat": "cpu_op", "ts": 1700000000000100, "dur": 8, "id": 0},
             {"ph": "s", "tid": 50, "pid": 40, "cat": "Flow_H2D_7_0", "ts": 1700000000000100, "id": 7},
             {"ph": "s", "tid": 50, "pid": 40, "cat": "Flow_H2D_8_0", "ts": 1700000000000100, "id": 8},
             {"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "gemm", "cat": "gpu_op", "ts": 1700000000000120, "dur": 30, "args": {"id": "7"}},
             {"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "zeCommandListAppendMemoryCopy(M2D)[4096 bytes]", "cat": "gpu_op", "ts": 1700000000000160, "dur": 3, "args": {"id": "8"}},
             {"ph": "M", "name": "process_name", "pid": 40, "ts": 1, "args": {"name": "RANK 2 HOST<node1>"}},
             {"ph": "M", "name": "process_name", "pid": 4294967295, "ts": 1, "args": {"name": "RANK 2 DEVICE<node1>0:4d:0:0 #0"}}]
    said, rows = bring(text_of({"traceEvents": intel}))
    assert "2 items of GPU work, 2 joined with their calls" in said["notes"][0]
    assert [(row["bytes"], row["kind"]) for row in rows("memcpy")] == [(4096, "HtoD")]
    assert [(row["host"], row["command"], row["rank"]) for row in rows("process")] == [("node1", "RANK 2 HOST<node1>", 2)]


POLLS = [launch(90 + i, f"{10 + 100 * i}.000", "2.000", "cudaEventQuery", tid=7) for i in range(12)]
TURNS = [launch(1, "0.000", "400.000"), launch(2, "450.000", tid=7), kernel(1, "395.000", "10.000"), kernel(2, "460.000", "10.000")]
BUSY = [launch(1, "0.000"), kernel(1, "10.000", "990.000"), launch(2, "980.000"), kernel(2, "990.000", "20.000", stream=13)]


@pytest.mark.parametrize("events, window, work, longest, contradicted", [
    pytest.param(POLLS + [launch(1, "0.000"), kernel(1, "10.000", "990.000")], 1000, 990, ("kernel", "gemm", 990), False, id="polls"),
    pytest.param(TURNS, 470, 10, ("call", "cudaLaunchKernel", 400), False, id="turns"),
    pytest.param(BUSY, 1010, 20, None, True, id="busy"),
])
def test_critical_path(bring, pitot, events, window, work, longest, contradicted):
    """Polling calls end no path, threads take turns, and a path that the GPU's busy time contradicts is not shown."""
    bring(trace(events))
    found = json.loads(pitot("report", "r.pitot", "--critical-path", "--json").stdout)["critical_path"]
    assert (found["window_ns"], found["path_work_ns"], found["contradicts_busy"]) == (window * 1000, work * 1000, contradicted)
    first = [(o["class"], o["name"], o["total_ns"]) for o in found["owners"][:1]]
    assert first == ([(longest[0], longest[1], longest[2] * 1000)] if longest else [])
    assert ("this contradicts" in pitot("report", "r.pitot", "--critical-path").stdout) == contradicted


def test_requested_sections_are_never_missing(bring, pitot):
    bring(trace([span("cpu_op", "aten::linear", "100.000", "300.000")]))
    said = pitot("report", "r.pitot", "--critical-path", "--states", "--collectives").stdout
    for section in "critical path in detail  no calls and no GPU work", "states  no GPU work", "collectives  none":
        assert f"\n{section} in the window" in said


def test_what_functions_wait_for(bring):
    names = "cudaStreamWaitEvent", "cudaEventSynchronize", "cuStreamSynchronize_ptsz", "hipDeviceSynchronize", "cuCtxSynchronize", "cudaEventQuery"
    _, rows = bring(trace([launch(i + 1, f"{i}.000", "0.500", name) for i, name in enumerate(names)]))
    kinds = {row["name"]: row["waits_for"] for row in rows("api_function")}
    assert [kinds[name] for name in names] == ["stream_wait_event", "event", "stream", "context", "context", "event"]


def test_exact_duplicates(bring):
    """Two profilers write the same kernel twice."""
    said, rows = bring(trace([launch(1, "1.000"), kernel(1, "9.000", "2.000"), kernel(1, "9.000", "2.000"), kernel(1, "9.000", "3.000")]))
    assert len(rows("kernel")) == 2 and said["notes"][-1] == "left out: 1 exact duplicate"


HOSTILE = {"correlation": 2**64, "stream": "x" * 70000, "device": 2**63, "context": "0xzz", "External id": -(2**63), "graph node id": 2**64 - 1, "grid": [1, 2], "block": [[1], 2, 3],
           "bytes": 1e300, "registers per thread": None, "channel_type": 99}


def test_hostile_values(bring, pitot):
    """What does not fit is unknown and counted."""
    said, rows = bring(trace([span("kernel", "\x1b]0;x\x07<script>" + "n" * 100000, "5", "2", 7, 0, **HOSTILE), span("cpu_op", "", "1", "2", tid="\x1b[31mred"),
                              {"ph": "X"}, {"ph": "?"}, {"ts": {"a": [1, {"b": 2}]}}, launch(2**64 - 1, "3.000", name="\x1b[2J")]))
    [row] = rows("kernel", "config.grid_x", "graph_node", "duration_ns", "stream")
    assert row == {"config.grid_x": None, "graph_node": 2**64 - 1, "duration_ns": 2000, "stream": 2**32 - 1}
    assert said["damaged"] and {row["reason"] for row in rows("loss")} >= {"damaged_file", "unknown_record", "no_time"}
    assert "\x1b" not in pitot("report", "r.pitot").stdout


def test_kinds_have_limits(bring):
    """Each thread, function or counter needs memory, also when a trace names one in every event."""
    events = [event for i in range(16100) for event in (span("cpu_op", "x", f"{i}", "1", tid=i), launch(i, f"{i}", name=f"cudaX{i}"))]
    said, rows = bring(trace(events))
    assert said["rows"]["api_call"] == 16100 and said["rows"]["nvtx"] == 2 * 16000
    assert said["notes"][-1] == "changed: 100 names and ranges without room"
    assert [(row["reason"], row["count"]) for row in rows("loss")] == [("string_limit", 100)]
    assert rows("api_call")[-1]["function"] == "[further functions]"


def test_truncated_files(bring, tmp_path):
    """Up to the last whole event; the rest is a loss."""
    text = trace(training())
    said, rows = bring(text[:text.index('"triton')])
    assert said["rows"]["kernel"] == 1 and [(row["reason"], row["count"]) for row in rows("loss")] == [("truncated_file", 1)]
    assert rows("process")[0]["end_ns"] is None
    data = gzip.compress(("[" + ",".join([text_of(kernel(i, f"1{i:09d}000000", "1")) for i in range(20000)])).encode())
    (tmp_path / "cut.json.gz").write_bytes(data[:len(data) // 2])
    said, rows = bring(tmp_path / "cut.json.gz")
    assert 5000 < said["rows"]["kernel"] < 20000 and rows("loss")[0]["reason"] == "truncated_file"
    said, rows = bring(text.replace('"ts": 510.000', '"ts": 510.0.0'))
    assert said["rows"]["kernel"] == 1 and said["damaged"] == 1 and rows("loss")[0]["reason"] == "damaged_file"
    said, rows = bring(text.replace('"registers per thread": 32', '"registers per thread": NaN'))
    assert said["rows"]["kernel"] == 2 and not rows("loss")


def test_folder_of_ranks(bring, pitot, tmp_path):
    """One process a rank; what is wrong with them is said."""
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        with gzip.open(folder / f"worker{rank}.pt.trace.json.gz", "wt") as file:
            file.write(trace(training(), distributedInfo={"backend": "nccl", "rank": rank, "world_size": 4}))
    (folder / "notes.txt").write_text("hello")
    (folder / "sub").mkdir()
    said, rows = bring(folder)
    assert (said["sessions"], said["files"], said["rows"]["kernel"]) == (2, 2, 4)
    assert "left out: 2 files or folders that are no trace, such as 'notes.txt'" in said["notes"] and "2 of 4 ranks; missing: 2, 3" in said["notes"]
    assert "2 processes, 4 kernels; ranks 2, 3 of 4 were not recorded" in pitot("report", "r.pitot").stdout
    assert "no rank 7 in this recording; its ranks: 0, 1" in pitot("report", "r.pitot", "--rank", 7, status=1).stderr
    assert sorted((row["command"], row["rank"], row["world_size"]) for row in rows("process")) == [("python3", 0, 4), ("python3", 1, 4)]
    (folder / "again.json").write_text(trace(training(), distributedInfo={"rank": 1, "world_size": 4}))
    (folder / "rank-2.json").write_text(trace(training(), base=BASE + 10**12))
    said, _ = bring(folder)
    assert [note for note in said["notes"] if note.startswith("rank")] == [
        "rank 1 is in two files, 'again.json' and 'worker1.pt.trace.json.gz', at the same time: it is counted twice; import one of them",
        "ranks 1 and 2 did not run at the same time: 'worker1.pt.trace.json.gz' and 'rank-2.json' may be of different runs"]
    said, _ = bring(folder / "again.json", folder / "rank-2.json")
    assert said["sessions"] == 2 and "ranks 1 and 2 did not run at the same time" in said["notes"][-1]
    assert "no Chrome trace JSON in 'sub'" in pitot("import", "sub", "--format", "kineto", "-o", "x.pitot", cwd=folder, status=1).stderr


@pytest.mark.parametrize("options", [{"kind": "varied"}, {"kernels": 3000, "stacks": 9}, {"kernels": 900, "pattern": "copies"}, {"kernels": 2500, "pattern": "graph"},
                                     {"kernels": 800, "processes": 3, "pattern": "threads"}], ids=lambda options: "-".join(map(str, options.values())))
def test_what_is_exported_comes_back(make_recording, pitot, bring, tmp_path, options):
    recording = make_recording(tmp_path / "o.pitot", **options)
    pitot("export", recording, "-o", "o.json", "-q")
    _, rows = bring(tmp_path / "o.json")
    assert imported(tmp_path, rows) == totals(tmp_path / "o.json")
    for table in "kernel", "memcpy", "memset":
        lines = pitot("view", recording, table, "--json", "--quiet", "-c", "duration_ns").stdout.splitlines()
        had = Counter(value for line in lines if (value := json.loads(line)["duration_ns"]) is not None)
        assert Counter(row["duration_ns"] for row in rows(table)) == had


def test_everything_reads_it(bring, pitot, tmp_path):
    """Report, flame graphs, timeline and every export."""
    bring(trace(training(), distributedInfo={"rank": 1, "world_size": 1}))
    check_golden("import-kineto.txt", pitot("report", "r.pitot").stdout)
    for out in "x.json", "x.html", "x.perfetto-trace", "x.gpufl":
        pitot("export", "r.pitot", "-o", out, "-q")
    for out in "f.svg", "f.html", "f.speedscope.json", "f.pb.gz":
        pitot("flame", "r.pitot", "-o", out, "-q")
    again = totals(tmp_path / "x.json")
    assert sum(again.values()) == 4 and sum(key[3] for key in again) == sum(key[3] for key in totals(tmp_path / "t.json"))


def test_interrupt_leaves_nothing(program, environment, tmp_path):
    """Ctrl-C while the rest of the trace is awaited from a pipe."""
    with subprocess.Popen([program, "import", "-", "-o", "x.pitot"], cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        process.stdin.write((trace(training())[:-2] + "," + ",".join(text_of(kernel(i, f"{i}.000", "1.000")) for i in range(1, 2000))).encode())
        process.stdin.flush()
        while not (tmp_path / "x.pitot").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert not (tmp_path / "x.pitot").exists()
