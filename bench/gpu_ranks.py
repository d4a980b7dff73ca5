#!/usr/bin/env python3
"""Trainings on all GPUs of a machine, each with one known fault: what the report says; and what recording costs a collective.

usage: bench/gpu_ranks.py BUILD [--against BUILD] [--folder FOLDER] [--rounds N] [--repeat N] [--limit SECONDS] [--only SCENARIO,...], on
a machine with two GPUs and PyTorch. `--rounds 0 --limit 480` runs each scenario once, and no other one when that time is over.
With --repeat each scenario runs so many times, and a last line says how often which verdict came, with the shares of the time by which
ranks were late: of a balanced program none should be a rank's.
Prints for each scenario of bench/workloads/ranks.py the verdict and the cause that the report names first, with whether they are the
planted ones, which FOLDER/table.txt has as well. `steps` is sleep-3, recorded with --steps 10..14 only. Then the time of small all-reduces
bare, recorded without NCCL's plug-in, with it, and by the other build, in turns within each round.
"""
import argparse
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parent / "workloads"
SCENARIOS = ("balanced sleep-1 sleep-3 sleep-10 alternating slow-gpu slow-data small small-sleep large overlap overlap-sleep pipeline "
             "mixed graph graph-sleep missing steps").split()
# Of the last rank: what its GPU did, the place as a range or a function, and milliseconds each time (None: eight more forward passes).
SLEEP = "host", ("range sleep",)
LATE = {**{name: (*SLEEP, 3) for name in ("sleep-3", "small-sleep", "overlap-sleep", "graph-sleep", "steps")}, "sleep-1": (*SLEEP, 1),
        "sleep-10": (*SLEEP, 10), "slow-data": ("host", ("range data", "spin"), 3),
        "slow-gpu": ("compute", ("range forward", "plain_step"), None), "pipeline": ("compute", ("range forward", "pipeline_step"), None)}
KINDS = {"alternating": {"turns"}, "missing": {"hung"}}  # else alike, which communication is, too
LIMIT = 100  # seconds for one run
end_time = None  # of all runs; None: none


def torchrun(workload, *arguments):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", WORKLOADS / workload, *arguments]


def run(command, **variables):
    try:
        left = LIMIT if end_time is None else max(1, min(LIMIT, end_time - time.monotonic()))
        return subprocess.run([str(part) for part in command], env={**os.environ, **variables}, text=True, capture_output=True, timeout=left,
                              check=False)
    except subprocess.TimeoutExpired:
        return None


def judge(name, job):
    """What the report says first, and whether that is what was planted."""
    cause = (job.get("causes") or [{}])[0]
    milliseconds = cause["excess_ns"] / cause["count"] / 1e6 if cause.get("count") else None
    said = job.get("kind", "no verdict")
    if said == "rank" or name in LATE:
        said += f" {job.get('rank')}, {cause.get('state')} in {cause.get('place')}" + (f", {milliseconds:.2f} ms each time" if milliseconds else "")
    if name not in LATE:
        return said, job.get("kind") in KINDS.get(name, {"alike", "communication"})
    state, places, planted = LATE[name]
    is_there = (job.get("kind"), job.get("rank"), cause.get("state")) == ("rank", 1, state) and any(
        place in (cause.get("place") or "") for place in places)
    return said, is_there and (planted is None or milliseconds is not None and abs(milliseconds - planted) <= planted / 10)


def scenario(pitot, folder, name):
    recording = Path(tempfile.gettempdir()) / f"gpu_ranks-{os.getpid()}.pitot"
    steps = ["--steps", "10..14"] if name == "steps" else []
    begun = time.monotonic()
    done = run([pitot, "record", *([] if steps else ["-q"]), "--force", "-o", recording, *steps, "--",
                *torchrun("ranks.py", "sleep-3" if steps else name, "30")])
    print(f"== {name}: {'stopped' if done is None else f'status {done.returncode}'}", flush=True)
    texts = [run([pitot, "report", recording, *more]) for more in ([], ["--json"])]
    text, report = (found.stdout if found else "" for found in texts)
    job = json.loads(report or "{}").get("job") or {}
    verdict = text[text.find("verdict"):].split("\n\n")
    print("\n\n".join(verdict[:2]), flush=True)
    if steps:
        print(done.stderr if done else "", flush=True)
    said, is_right = judge(name, job)
    row = f"{name:14} {'right' if is_right else 'WRONG'}  {time.monotonic() - begun:4.0f} s  {said}"
    print(row, flush=True)
    with open(folder / "table.txt", "a", encoding="utf-8") as out:
        out.write(row + "\n")
    with open(folder / f"{name}.txt", "w", encoding="utf-8") as out:
        out.write(text + json.dumps(job, indent=1))
    shutil.rmtree(recording, ignore_errors=True)
    evidence = job.get("evidence") or {}
    return job.get("kind"), job.get("rank"), [round(evidence[key], 1) if evidence.get(key) is not None else None for key in (
        "late_percent_low", "late_percent", "late_percent_high")]


def costs(builds, folder, rounds):
    options = ["record", "-q", "--force", "--no-cpu", "-o", folder / "cost.pitot", "--"]
    record, *other = [[build / "pitot", *options] for build in builds]
    ways = {"bare": ([], {}), "recorded, no plug-in": (record, {"NCCL_PROFILER_PLUGIN": "none"}), "recorded": (record, {})}
    if other:
        ways["the other build"] = (other[0], {})
    found = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (prefix, variables) in ways.items():
            done = run([*prefix, *torchrun("collectives.py")], **variables)
            lines = [line for line in (done.stdout if done else "").splitlines() if line.startswith("{")]
            if lines:
                found[way].append(json.loads(lines[-1]))
                print(f"{way:22} {lines[-1]}", flush=True)
            else:
                print(f"{way:22} failed: {done.stderr[-300:] if done else 'stopped'}", flush=True)
    for way, rows in found.items():
        for size in rows[0] if rows else ():
            values = [row[size] for row in rows]
            print(f"{way:22} {int(size):7} bytes  {statistics.median(values):8.3f} us a call (best {min(values):.3f})")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build", type=Path)
    arguments.add_argument("--against", type=Path)
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--repeat", type=int, default=1)
    arguments.add_argument("--limit", type=float)
    arguments.add_argument("--only", default=",".join(SCENARIOS))
    options = arguments.parse_args()
    global end_time
    end_time = time.monotonic() + options.limit if options.limit else None
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    for name in filter(None, options.only.split(",")):
        if end_time is not None and time.monotonic() > end_time - 5:
            print(f"== {name}: not run: the time is over", flush=True)
            continue
        found = [scenario(options.build / "pitot", folder, name) for _ in range(options.repeat)]
        if options.repeat > 1:
            print(f"== {name}: {dict(collections.Counter(kind if rank is None else f'{kind} {rank}' for kind, rank, _ in found))}, "
                  f"late by {[share for _, _, share in found]} %", flush=True)
    if options.rounds:
        costs(list(filter(None, (options.build, options.against))), folder, options.rounds)


if __name__ == "__main__":
    main()
