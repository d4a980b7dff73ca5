#!/usr/bin/env python3
"""What CPU sampling costs: bench/cpu_sampling.py BUILD [--rounds N] [--ways perf,ebpf] [--rates 99,999] [--program COMMAND]

Two threads do a fixed amount of work, alone and sampled, in turn. Two figures, both as shares of the CPU time that was
sampled: what the sampler's own thread took, and how much more CPU time the same work took (interrupts and copies of stacks
are charged to the program): of the shortest runs, and the median over the rounds of the ratio to the run before it. Other
work on the machine is in the second, less in the first.

With --program another command is sampled instead, and only the first figure is given: what the sampler's thread and its
programs in the kernel took in relation to the CPU time in the samples; and how many Python frames have no name. With
--against OTHER_BUILD of several builds, in turn.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def cpu_seconds(command):
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(said.split()[0])


def rows(pitot, recording, table):
    said = subprocess.run([pitot, "view", recording, table, "--json", "--quiet", "--limit", "0"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def sampled(pitot, way, rate, command, folder):
    """CPU seconds of the work, of the sampler's thread, number of samples and of lost ones, size in bytes."""
    recording = Path(folder) / "sampled.pitot"
    spent = cpu_seconds([pitot, "record", "-q", "--force", "--cpu-only", "--no-symbols", f"--cpu-via={way}", f"--cpu={rate}",
                         "-o", recording, "--", *command])
    own = sum(row["total_ns"] for row in rows(pitot, recording, "cost") if row["kind"] == "sampler") / 1e9
    lost = sum(row["count"] for row in rows(pitot, recording, "loss"))
    size = sum(path.stat().st_size for path in recording.glob("cpu-*.pit"))
    return spent, own, len(rows(pitot, recording, "cpu_sample")), lost, size


def sample_program(pitot, way, rate, command, folder):
    """CPU seconds in samples, of the sampler; number of samples, of Python frames without a name; shares of ends of stacks."""
    recording = Path(folder) / "sampled.pitot"
    subprocess.run([pitot, "record", "-q", "--force", "--cpu-only", "--no-symbols", f"--cpu-via={way}", f"--cpu={rate}",
                    "-o", recording, "--", *command], check=True, stdout=subprocess.DEVNULL)
    own = sum(row["total_ns"] for row in rows(pitot, recording, "cost") if row["kind"] == "sampler") / 1e9
    nameless = sum(row["count"] for row in rows(pitot, recording, "loss") if row["reason"] == "unnamed_frames")
    samples = rows(pitot, recording, "cpu_sample")
    ends = {(row.get("pid"), row["id"]): row["end"] for row in rows(pitot, recording, "stack")}
    complete = sum(ends.get((row.get("pid"), row["stack"])) == "complete" for row in samples)
    return sum(row["weight_ns"] for row in samples) / 1e9, own, len(samples), nameless, complete / max(1, len(samples))


def programs(options, configurations):
    """Figures of options.program, of each build folder in turn."""
    folders = [options.build, *options.against]
    results = {(build, *configuration): [] for build in folders for configuration in configurations}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for build, way, rate in results:
                results[build, way, rate].append(sample_program(build.resolve() / "pitot", way, rate,
                                                                shlex.split(options.program), folder))
    print(f"{processor()}, {os.cpu_count()} processors, Linux {os.uname().release}; {options.rounds} rounds of {options.program}")
    print("medians (range)")
    for (build, way, rate), runs in results.items():
        spent, own, samples, nameless, complete = zip(*runs)
        share = [100 * o / s for s, o in zip(spent, own)]
        print(f"{str(build):24} {way:5}{rate:5} Hz: {statistics.median(spent):6.2f} s sampled, sampler "
              f"{1e3 * statistics.median(own):6.1f} ms ({1e3 * min(own):.1f} to {1e3 * max(own):.1f}), "
              f"{statistics.median(share):5.2f} % ({min(share):.2f} to {max(share):.2f}), {statistics.median(samples):.0f} samples, "
              f"{statistics.median(nameless):.0f} ({min(nameless)} to {max(nameless)}) unnamed frames, "
              f"{100 * statistics.median(complete):.1f} % complete")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--millions", type=int, default=1500, help="of steps of work of each thread")
    parser.add_argument("--depth", type=int, default=50, help="frames of each stack")
    parser.add_argument("--ways", default="perf")
    parser.add_argument("--rates", default="99,999")
    parser.add_argument("--program", help="command to sample instead")
    parser.add_argument("--against", type=Path, action="append", default=[], help="another build folder, for --program")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    options = parser.parse_args()
    pitot = options.build.resolve() / "pitot"
    configurations = [(way, int(rate)) for way in options.ways.split(",") for rate in options.rates.split(",")]
    if options.program:
        programs(options, configurations)
        return
    results = {configuration: [] for configuration in configurations}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "cpu_busy"
        subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-o", program, HERE / "workloads" / "cpu_busy.c", "-pthread"],
                       check=True)
        command = [program, str(options.millions), str(options.depth)]
        for _ in range(options.rounds):
            for configuration in configurations:
                bare = cpu_seconds(command)
                results[configuration].append((bare, *sampled(pitot, *configuration, command, folder)))
    print(f"{processor()}, {os.cpu_count()} processors, Linux {os.uname().release}; "
          f"{options.rounds} rounds, two threads, {options.depth} frames")
    print(f"{'way':6}{'Hz':>6}{'sampler':>10}{'slow-down':>11}{'by rounds':>23}{'samples':>9}{'lost':>6}{'bytes each':>12}")
    figures = []
    for (way, rate), runs in results.items():
        least = 100 * (min(run[1] for run in runs) / min(run[0] for run in runs) - 1)
        slower = sorted(100 * (spent / bare - 1) for bare, spent, *_ in runs)
        own = statistics.median(100 * run[2] / run[1] for run in runs)
        samples, lost, size = (sum(run[i] for run in runs) for i in (3, 4, 5))
        print(f"{way:6}{rate:6}{own:9.2f}%{least:10.2f}%"
              f"{f'{statistics.median(slower):.2f}% ({slower[0]:.1f} to {slower[-1]:.1f})':>23}{samples:9}{lost:6}{size / max(samples, 1):12.1f}")
        figures.append({"way": way, "hz": rate, "sampler_percent": own, "slower_percent": slower, "samples": samples,
                        "lost": lost, "bytes": size})
    if options.json:
        options.json.write_text(json.dumps({"machine": processor(), "processors": os.cpu_count(),
                                            "linux": os.uname().release, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
