"""What engines measured on an H200 (tests/standin/record-engine-tapes), played into the recorder: the kernels' work is known.

bench/workloads/stalls.cu, warps.cu, counters.cu and phases.cu say how much of what their kernels do.
"""
import collections
import itertools
import json
import re

import pytest

FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
READ = "dram__bytes_read.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"


@pytest.fixture
def play(record, rows):
    """play("pc-sampling", "options"): the recording, without losses, of an engine that was on."""
    def run(engine, options=""):
        folder = record(f"engines/{engine}", f"engine={engine};{options}")
        assert [row["state"] for row in rows(folder, "capability") if row["name"] == "engine"] == ["on"]
        assert {row["reason"] for row in rows(folder, "loss")} <= {"no_time"}
        return folder

    return run


def test_samples_of_known_stalls(play, rows, pitot):
    """chase takes 50 % of the time, arithmetic 30, barrier 20, and each of them stalls in its own way."""
    folder = play("pc-sampling")
    samples = rows(folder, "pc_sample")
    by_function, worst = collections.Counter(), collections.defaultdict(collections.Counter)
    for row in samples:
        by_function[row["function"]] += row["samples"]
        worst[row["function"]][row["reason"].removeprefix("smsp__pcsamp_warps_issue_").removeprefix("stalled_")] += row["samples"]
    total = sum(by_function.values())
    assert total > 100_000 and sum(row["total"] for row in rows(folder, "pc_reading")) >= total
    for function, share in ("_Z5chasePKjPji", 0.5), ("_Z10arithmeticPfi", 0.3), ("_Z7barrierPfi", 0.2):
        assert by_function[function] / total == pytest.approx(share, abs=0.03)
    assert worst["_Z5chasePKjPji"].most_common(1)[0][0] == "long_scoreboard_not_issued"
    assert worst["_Z10arithmeticPfi"].most_common(1)[0][0] == "not_selected"
    assert worst["_Z7barrierPfi"].most_common(1)[0][0] == "barrier_not_issued"
    kernels = collections.Counter()
    for row in rows(folder, "kernel"):
        kernels[row["config"]] += row["duration_ns"]
    for function, share in kernels.items():
        assert by_function[function] / total == pytest.approx(share / sum(kernels.values()), abs=0.02)

    [cubin] = rows(folder, "cubin")
    assert {row["crc"] for row in samples} == {cubin["crc"]}
    report = json.loads(pitot("report", "--json", "--stalls", "-q", folder).stdout)
    lines = report["stalls"]["lines"]
    with_line = sum(line["samples"] for line in lines if line["file"].endswith("stalls.cu") and line["line"])
    assert with_line >= 0.95 * total


def test_counts_of_known_instructions(play, rows, pitot):
    """Launch i of divergent runs 64 * 2**i multiplications in each of 512 warps, 8 of 32 threads each."""
    folder = play("sass-metrics", "kernel_count=12")
    counts = collections.defaultdict(collections.Counter)
    most = collections.defaultdict(collections.Counter)
    names = {}
    for row in rows(folder, "sass_value"):
        names[row["correlation"]] = row["function"]
        metric = row["metric"].removeprefix("smsp__sass_")
        counts[row["correlation"]][metric] += row["value"]
        most[row["correlation"], row["offset"]][metric] += row["value"]
    order = [names[correlation] for correlation in sorted(names)]
    assert order == ["_Z9divergentPfi", "_Z7stridedPKfPf", "_Z9coalescedPKfPf"] * 4
    launches = itertools.count()
    for correlation in sorted(names):
        found = counts[correlation]
        if names[correlation] == "_Z9divergentPfi":
            multiplications = (64 << next(launches)) * 512
            masked = [offset for (launch, _), offset in most.items() if launch == correlation and offset["inst_executed"] and
                      offset["thread_inst_executed"] == 8 * offset["inst_executed"]]
            # The loop's own instructions run for 8 threads as well, but few of them.
            assert multiplications <= sum(offset["inst_executed"] for offset in masked) <= 1.3 * multiplications
        elif names[correlation] == "_Z7stridedPKfPf":
            assert (found["sectors_mem_global"], found["sectors_mem_global_ideal"]) == (16384 + 2048, 2048 + 2048)
        else:
            assert (found["sectors_mem_global"], found["sectors_mem_global_ideal"]) == (2048 + 2048, 2048 + 2048)
    assert set(names) <= {row["correlation"] for row in rows(folder, "kernel")}
    text = pitot("report", "-q", folder).stdout
    assert "divergent: 8.0 of 32 threads, warps.cu:25" in text and "uncoalesced: 4.5 sectors instead of 1.0, warps.cu:34" in text


def test_counters_of_known_work(play, rows):
    folder = play("range-profiler", f"kernels=fma_kernel,stream_kernel,conflicts_kernel;kernel_count=0;metrics={FMA},{READ},{CONFLICTS},no__such.sum")
    values = collections.defaultdict(dict)
    for row in rows(folder, "metric_value"):
        values[row["correlation"]][row["metric"]] = row["value"]
    kernels = {row["correlation"]: row for row in rows(folder, "kernel")}
    launches = itertools.count()
    order = []
    for correlation in sorted(values):
        found, name = values[correlation], kernels[correlation]["config"]
        order.append(name)
        assert found["gpu__time_duration.sum"] == kernels[correlation]["duration_ns"]
        if "fma_kernel" in name:
            assert found[FMA] == (64 << next(launches)) * 64 * 256
        elif "stream_kernel" in name:
            assert found[FMA] == 0 and found[READ] == pytest.approx(512 << 20, rel=0.01)
        else:
            assert found[CONFLICTS] == 64 * 8 * 100 * 31
    assert len(order) == 12 and len(set(order)) == 3 and order[:3] * 4 == order
    [wrong] = [row for row in rows(folder, "capability") if row["name"] == "metrics"]
    assert wrong["state"] == "degraded" and "no metric 'no__such.sum'" in wrong["reason"]


def test_samples_of_known_phases(play, rows, pitot):
    """150 times 256 MiB are read and written; then all, and then half of the multiprocessors multiply for about 60 ms."""
    folder = play("pm-sampling", "pm_interval=1ms")
    counters = {row["name"]: row for row in rows(folder, "counter") if "__" in row["name"]}
    assert len(counters) == 9
    by_id = {key: row for row in counters.values() for key in (row["id"], row["name"])}
    series = collections.defaultdict(list)
    for row in rows(folder, "counter_sample"):
        counter = by_id.get(row["counter"])
        if counter:
            series[counter["name"]].append((row["time_ns"], row["value"] / 10 ** counter["decimals"]))
    kernels = rows(folder, "kernel")
    phases = {name: [(row["start_ns"], row["end_ns"]) for row in kernels if name in row["config"]] for name in
              ("stream_kernel", "half_kernel")}

    def within(metric, phase):
        begin, end = phases[phase][0][0], phases[phase][-1][1]
        return [value for time, value in series[metric] if begin <= time and time + 1_000_000 <= end]

    for direction in "read", "write":
        metric = f"dram__bytes_{direction}.sum.per_second"
        begin, end = phases["stream_kernel"][0][0], phases["stream_kernel"][-1][1]
        moved = sum(value / 1e3 for time, value in series[metric] if begin - 2_000_000 <= time <= end + 2_000_000)
        assert moved == pytest.approx(150 * (256 << 20), rel=0.02)
    active = within("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", "half_kernel")
    assert len(active) > 20 and sum(active) / len(active) == pytest.approx(50, abs=1)
    lengths = [b - a for (a, _), (b, _) in itertools.pairwise(sorted(series["dram__bytes_read.sum.per_second"]))]
    assert sorted(lengths)[len(lengths) // 2] == pytest.approx(1e6, rel=0.01)
    text = pitot("report", folder, "--system").stdout
    assert re.search(r"^ +GPU 0 dram__bytes_read\.sum\.per_second +[\d.]+ GB/s +[\d.]+ GB/s +1\.91 TB/s$", text, re.M), text
