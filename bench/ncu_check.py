#!/usr/bin/env python3
"""Compares the results of --engine range-profiler and pc-sampling with those of Nsight Compute's ncu on the same programs.

usage: bench/ncu_check.py BUILD, on a machine with a GPU, nvcc and ncu (and PyTorch, for a kernel bound by the tensor cores)

Prints a line for each kernel and metric: the mean over its launches by Pitot and by ncu, and their ratio (expected: within 3 %); then the
shares of stall reasons in the samples of each kernel (expected: within 5 points).
"""
import collections
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent
METRICS = """gpu__time_duration.sum sm__cycles_active.avg sm__inst_executed.sum smsp__sass_thread_inst_executed_op_ffma_pred_on.sum
dram__bytes_read.sum dram__bytes_write.sum lts__t_bytes.sum l1tex__t_bytes.sum l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
sm__throughput.avg.pct_of_peak_sustained_elapsed gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed
sm__warps_active.avg.pct_of_peak_sustained_active sm__inst_executed_pipe_tensor.sum
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active""".split()
NCU = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
TENSOR = "import torch\na = torch.randn(8192, 8192, device='cuda', dtype=torch.bfloat16)\nfor _ in range(6): b = a @ a\ntorch.cuda.synchronize()\n"
STALLED = "smsp__pcsamp_warps_issue_stalled_"
NOT_ISSUED = "_not_issued"


def run(command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False, **options)
    if done.returncode:
        print(f"{' '.join(str(part) for part in command)[:120]}: status {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}", flush=True)
    return done.stdout


def view(build, recording, table):
    return [json.loads(line) for line in run([build / "pitot", "view", "--json", "-q", recording, table]).splitlines()]


def plain(name):
    """Returns one name for a mangled and a demangled one: _Z10fma_kernelPfi and fma_kernel(float *, int)."""
    return next((short for short in ("fma_kernel", "stream_kernel", "conflicts_kernel", "chase", "arithmetic", "barrier") if short in name),
                name.split("(")[0][:40])


def by_ncu(options, command):
    """Returns [(kernel, {metric: value})] in the order of launches."""
    lines = run([*NCU, *options, *command]).splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    names, _, *launches = csv.reader(lines[start:])
    found = []
    for launch in launches:
        row = dict(zip(names, launch))
        values = {}
        for name, text in row.items():
            try:
                values[name] = float(text.replace(",", ""))
            except ValueError:
                continue
        found.append((plain(row["Kernel Name"]), values))
    return found


def by_us(build, folder, options, command):
    recording = folder / "ours.pitot"
    run([build / "pitot", "record", "-q", "-f", "--engine", "range-profiler", "--metrics", ",".join(METRICS), *options, "-o", recording, "--", *command])
    kernels = {(row["pid"], row["correlation"]): row for row in view(build, recording, "kernel")}
    found = collections.defaultdict(dict)
    for row in view(build, recording, "metric_value"):
        found[row["pid"], row["correlation"]][row["metric"]] = row["value"]
    return [(plain(kernels[key]["config"]), values) for key, values in sorted(found.items()) if key in kernels]


def means(launches):
    sums = collections.defaultdict(list)
    for kernel, values in launches:
        for metric in METRICS:
            if values.get(metric) is not None:
                sums[kernel, metric].append(values[metric])
    return {key: (sum(values) / len(values), len(values)) for key, values in sums.items()}


def compare_counters(build, folder, title, ours, theirs, command):
    mine, other = means(by_us(build, folder, ours, command)), means(by_ncu(["--metrics", ",".join(METRICS), *theirs], command))
    print(f"{title}: {len(mine)} values by us, {len(other)} by ncu\n{'kernel':40} {'metric':66} {'ours':>14} {'ncu':>14} ratio launches")
    for key in sorted(set(mine) | set(other)):
        (a, n), (b, m) = mine.get(key, (float("nan"), 0)), other.get(key, (float("nan"), 0))
        ratio = 1.0 if a == b else a / b if b else float("inf")
        print(f"{key[0]:40} {key[1]:66} {a:14.6g} {b:14.6g} {ratio:6.3f} {n} {m}", flush=True)


def shares(counts):
    """Returns {kernel: {reason: share}} of {(kernel, reason): samples}; a reason includes its samples without an issued warp."""
    sums = collections.Counter()
    for (kernel, reason), count in counts.items():
        sums[kernel] += 0 if reason.endswith(NOT_ISSUED) else count
    found = collections.defaultdict(dict)
    for (kernel, reason), count in counts.items():
        if sums[kernel]:
            found[kernel][reason] = count / sums[kernel]
    return found


def compare_stalls(build, folder, program):
    recording = folder / "stalls.pitot"
    run([build / "pitot", "record", "-q", "-f", "--engine", "pc-sampling", "-o", recording, "--", program, "2"])
    ours, theirs = collections.Counter(), collections.Counter()
    for row in view(build, recording, "pc_sample"):
        ours[plain(row["function"]), row["reason"].removeprefix(STALLED)] += row["samples"]
    for (kernel, reason), count in list(ours.items()):
        if reason.endswith(NOT_ISSUED):
            ours[kernel, reason.removesuffix(NOT_ISSUED)] += count
    metrics = "group:smsp__pcsamp_warp_stall_reasons,group:smsp__pcsamp_warp_stall_reasons_not_issued"
    for kernel in ("chase", "arithmetic", "barrier"):
        for _, values in by_ncu(["--metrics", metrics, "-k", f"regex:{kernel}", "--launch-skip", "225", "--launch-count", "5"], [program, "0.2"]):
            for metric, value in values.items():
                if metric.startswith(STALLED):
                    theirs[kernel, metric.removeprefix(STALLED)] += value
    mine, other = shares(ours), shares(theirs)
    for kernel in sorted(other):
        reasons = sorted(set(mine[kernel]) | set(other[kernel]), key=lambda reason: -other[kernel].get(reason, 0))
        print(f"{kernel}: {'ours':>40} {'ncu':>7}")
        for reason in reasons[:8]:
            print(f"    {reason:40} {mine[kernel].get(reason, 0):7.1%} {other[kernel].get(reason, 0):7.1%}")
        print(f"    largest difference of a share: {max(abs(mine[kernel].get(r, 0) - other[kernel].get(r, 0)) for r in reasons):.1%}", flush=True)


def main():
    build = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in ("counters", "stalls"):
            run(["nvcc", "-O2", "-lineinfo", "-arch=native", "-o", folder / program, TOP / f"workloads/{program}.cu"])
        for kernel in ("fma_kernel", "stream_kernel", "conflicts_kernel"):
            compare_counters(build, folder, kernel, ["--kernels", kernel], ["-k", f"regex:{kernel}", "--launch-count", "4"], [folder / "counters"])
        compare_counters(build, folder, "tensor", [], [], ["python3", "-c", TENSOR])
        compare_stalls(build, folder, folder / "stalls")


main()
