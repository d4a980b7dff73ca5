#!/usr/bin/env python3
"""How far predictions of pitot what-if are from the truth: pairs of programs that are one change apart.

usage: bench/gpu_what_if.py BUILD [FOLDER] [--repeat 1] [--only spin,host], on a machine with a GPU and PyTorch; FOLDER gets the recordings
First `pitot calibrate` runs. Of each pair there are five times two processes, one bare and one that is recorded, which take turns: A and B bare,
A recorded, and back. Of each time the 10th percentile over the turns of two processes counts, as in the calibration, since what else runs on a
virtual machine makes all of them slower, by up to half, for tenths of seconds. What is predicted of B is that from A's recorded steps of a turn,
with the calibration and without. Transforms are written down here. Prints what recording added to a launching call, A corrected against A bare,
and B predicted against B bare: medians over the pairs of processes; and of how many B lies within the bar.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent / "workloads" / "what_if_pairs.py"
# The transform; RATIO: of the kernels of B to those of A, BUSY: what busy() takes, both measured alone; LAUNCH: of a graph, where no calibration
# says what that takes.
PAIRS = {
    "spin": "kernel:*spin_kernel* remove",
    "hidden": "kernel:*spin_kernel* remove",
    "host": "host:*one_launch_each* -BUSYus",
    "sync": "sync:cudaStreamSynchronize remove",
    "tf32": "kernel:*gemm* xRATIO",
    "tf32-tiny": "kernel:*gemm* xRATIO",
    "graph": "graph step LAUNCH",
    "nodes": "kernel:*MulFunctor* remove",
    "fuse": "fuse 8 x0.125",
    "pinned": "copies pinned",
    "overlap": "overlap copies",
}
WAYS = ("calibrated", "assumed")  # of knowing what recording adds to calls
PROCESSES, ROUNDS, LIMIT = 5, 6, 60  # pairs of processes, their turns there and back, and seconds that a command may take
MARGIN_S = 0.04  # around a turn, between its begin as the program's input says and as the recording does
ALONE = """
import statistics, sys, time
import torch
sys.path.insert(0, sys.argv[1])
import what_if_pairs
def graph(a, weights, multiply, tf32):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    made, product = torch.cuda.CUDAGraph(), torch.mm(a, weights[0])
    torch.relu(product)
    torch.cuda.synchronize()
    with torch.cuda.graph(made):
        for i in range(48):
            if multiply:
                product = torch.mm(a, weights[i % 8])
            torch.relu(product)
    return made
def ms(made):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    made.replay()
    begin.record()
    made.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
for width, batch in ((4096, 4096), (1024, 64)): # matrix products between kernels that use the cache, as in the program, in turns
    a, weights = torch.randn(batch, width, device="cuda"), [torch.randn(width, width, device="cuda") / width ** 0.5 for _ in range(8)]
    made = [graph(a, weights, *kind) for kind in ((False, False), (True, False), (True, True))]
    ratios = []
    for _ in range(7):
        none, fp32, tf32 = [ms(m) for m in made]
        ratios.append((tf32 - none) / (fp32 - none))
    print(statistics.median(ratios))
begin = time.perf_counter()
for _ in range(2000):
    what_if_pairs.busy()
print((time.perf_counter() - begin) / 2000 * 1e6)
"""


def run(*command, cache=None):
    """Returns what the command printed. cache: the folder in which Pitot finds a calibration."""
    try:
        done = subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=LIMIT, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": str(cache)} if cache else None)
    except subprocess.TimeoutExpired:
        print(f"{command}: longer than {LIMIT} s", flush=True)
        return ""
    if done.returncode:
        print(f"{command}: status {done.returncode}: {done.stderr[-400:]}", flush=True)
    return done.stdout


class Process:
    """A program of the pair that waits for its turns; recorded with a command before it."""

    def __init__(self, name, *before):
        self.started = time.monotonic()
        self.child = subprocess.Popen([*before, sys.executable, str(PROGRAM), name], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ready(self):
        if self.child.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{self.child.args}: did not begin")

    def turn(self, variant):
        """Returns the time of a step in microseconds, and the seconds from this process's start at which the turn began and ended."""
        begin = time.monotonic() - self.started
        self.child.stdin.write(variant + "\n")
        self.child.stdin.flush()
        return float(self.child.stdout.readline()), begin, time.monotonic() - self.started

    def end(self):
        self.child.stdin.close()
        self.child.wait(LIMIT)


def take_turns(recorded, bare, recording):
    """Returns for each turn the step times of A and B bare and of A recorded, and where in which recording that is."""
    turns = []
    for index in range(2 * ROUNDS):
        order = ("A", "B", "R") if index % 2 == 0 else ("R", "B", "A")
        times = {"recording": recording}
        for variant in order:
            step, begin, end = recorded.turn("A") if variant == "R" else bare.turn(variant)
            times[variant] = step
            if variant == "R":
                times["window"] = ["--since", f"{begin - MARGIN_S:.3f}s", "--until", f"{end + MARGIN_S:.3f}s"]
        turns.append(times)
    return turns


def measure_pair(pitot, folder, name):
    """Returns the turns of all processes of a pair, which start together, since that takes long, and then wait."""
    stacks = [] if name == "host" else ["--stacks", "none"]
    record = [pitot, "record", "-q", "--force", "--no-cpu", *stacks, "-o"]
    recordings = [folder / f"{name}-{index}.pitot" for index in range(PROCESSES)]
    pairs = [(Process(name, *record, recording, "--"), Process(name), recording) for recording in recordings]
    for pair in pairs:
        for process in pair[:2]:
            process.ready()
    turns = [times for pair in pairs for times in take_turns(*pair)]
    for pair in pairs:
        for process in pair[:2]:
            process.end()
    return turns


def predict(pitot, transform, times, caches):
    """Adds to the times of a turn what is predicted from its window."""
    for way in WAYS:
        known = transform.replace(" LAUNCH", "" if way == "calibrated" else " launch=6us")
        times[way] = json.loads(run(pitot, "what-if", "--json", *times["window"], times["recording"], known, cache=caches[way]) or "{}")


def quiet(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 10]


def row_of(way, turns):
    """Returns the figures of two processes, in microseconds and as ratios."""
    predictions = [times[way] for times in turns]
    program, a, b = (quiet(times[key] for times in turns) for key in "RAB")
    recorded, corrected, said = (quiet(prediction[key]["step_ns"] / 1e3 for prediction in predictions)
                                 for key in ("recorded", "corrected", "predicted"))
    bar = statistics.median(prediction["uncertainty_ns"] for prediction in predictions) / 1e3
    launches = statistics.median(prediction["launching_calls"] / (prediction["steps"] or 1) for prediction in predictions)
    return {"added": (program - a) / launches, "program": program, "recorded": recorded, "corrected": corrected, "A": a,
            "A error": corrected / a - 1, "said": said, "B": b, "error": said / b - 1, "bar": bar, "true": b / a - 1,
            "change": said / corrected - 1, "misses": abs(said - b) / bar}


def rows_of(way, turns):
    """Returns the rows of all pairs of processes."""
    usable = [times for times in turns if times[way]]
    pairs = [[times for times in usable if times["recording"] == recording] for recording in dict.fromkeys(t["recording"] for t in usable)]
    return [row_of(way, pair) for pair in pairs]


def print_row(name, way, rows):
    if not rows:
        print(f"{name:10} {way:10} no result", flush=True)
        return None
    median = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    within = [sum(row["misses"] <= bars for row in rows) for bars in (1, 2)]
    print(f"{name:10} {way:10} {median['added']:+7.2f} {median['program']:9.1f} {median['recorded']:9.1f} {median['corrected']:9.1f} "
          f"{median['A']:9.1f} {median['A error']:+7.1%} {median['said']:9.1f} {median['B']:9.1f} {median['error']:+7.1%} {median['bar']:8.1f} "
          f"{median['true']:+7.1%} {median['change']:+7.1%} {within[0]:3}, {within[1]} of {len(rows)}", flush=True)
    return median


def print_table(title, found):
    """found: rows by pair and way. Ends with the errors of true changes, and the changes predicted where there is none."""
    print(f"\n{title}\n{'pair':10} {'call cost':10} {'added':>7} {'recorded':>9} {'by Pitot':>9} {'corrected':>9} {'A bare':>9} {'error':>7} "
          f"{'predicted':>9} {'B bare':>9} {'error':>7} {'+/-':>8} {'true':>7} {'said':>7} in the bar, in twice the bar", flush=True)
    for way in WAYS:
        medians = [print_row(name, way, rows[way]) for name, rows in found.items()]
        changes = [abs(m["error"]) for m in medians if m and abs(m["true"]) >= 0.03]
        nulls = [abs(m["change"]) for m in medians if m and abs(m["true"]) < 0.03]
        wrong = sum(m["true"] * m["change"] < 0 for m in medians if m and abs(m["true"]) >= 0.03)
        if changes:
            print(f"{way}: error of {len(changes)} changes of 3 % and more {statistics.median(changes):.1%} in the median, {max(changes):.1%} "
                  f"at worst, {wrong} directions wrong; {len(nulls)} others are predicted to change by at most {max(nulls, default=0):.1%}",
                  flush=True)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build", type=Path)
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("--repeat", type=int, default=1)
    options.add_argument("--only", default=",".join(PAIRS))
    options = options.parse_args()
    pitot, started = options.build / "pitot", time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 2)) as pool:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        caches = {way: Path(temporary) / way for way in WAYS}
        for cache in caches.values():
            cache.mkdir()
        found = {name: {way: [] for way in WAYS} for name in options.only.split(",")}
        for repetition in range(options.repeat):
            print(run(pitot, "calibrate", "--json", cache=caches["calibrated"]), f"{time.monotonic() - started:.0f} s", flush=True)
            large, small, busy = [float(line) for line in run(sys.executable, "-c", ALONE, PROGRAM.parent).split()] or [1.0, 1.0, 20.0]
            print(f"TF32 matrix products take x{large:.3f} of FP32, small ones x{small:.3f}; busy() takes {busy:.2f} us", flush=True)
            one = {}
            for name in found:
                transform = PAIRS[name].replace("RATIO", f"{large if name == 'tf32' else small:.4f}").replace("BUSY", f"{busy:.2f}")
                into = folder / str(repetition)
                into.mkdir(exist_ok=True)
                turns = measure_pair(pitot, into, name)
                list(pool.map(lambda times: predict(pitot, transform, times, caches), turns))  # noqa: B023 - ends at once
                one[name] = {way: rows_of(way, turns) for way in WAYS}
                for way in WAYS:
                    found[name][way] += one[name][way]
                print(f"{name}: '{transform}': {len(turns)} turns, {time.monotonic() - started:.0f} s", flush=True)
            print_table(f"Repetition {repetition + 1}", one)
    if options.repeat > 1:
        print_table("All repetitions", found)
    print(f"{time.monotonic() - started:.0f} s; steps in us; added: to a launching call, by the program's own clock")


if __name__ == "__main__":
    main()
