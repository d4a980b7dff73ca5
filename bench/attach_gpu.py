#!/usr/bin/env python3
"""Attaching to programs on a GPU, prepared and not: bench/attach_gpu.py [BUILD] [STAGE...]

windows  A training that is prepared (PITOT_IDLE=1), with streams and a CUDA graph from before, is recorded 100 times for 0.3 s. Each step in
         a window must have the kernels and copies that a recording from the start has. Step times before, inside and after.
look     `pitot top` beside nvidia-smi and what it costs, and `pitot dump --stacks`.
inject   Ten trainings and ten launch loops that nobody has prepared are recorded with --inject: through which thread, or why not.
turns    Launches and steps of prepared and of plain programs, in turns.

Without a stage all run, in less than five minutes. Needs a GPU and PyTorch, and nvcc for the launch loops. Prints as it goes.
"""
import bisect
import collections
import csv
import functools
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else "gpu/new").resolve()
PITOT, LIBRARY = BUILD / "pitot", BUILD / "libpitot.so"
WINDOWS, PROCESSES, TURNS = 100, 10, 4
WINDOWS_S, LIMIT_S = 140, 285
# To a client that came after a graph was instantiated, CUPTI shows this copy of it as a kernel.
LATE_COPY = {"kernel": "memcpy32_post", "copy": "memcpy DtoD"}
BEGUN = time.monotonic()

# Both write "begun end" of each step in ns since 1970, wait for a file `FILE.go` before they work, and end with FILE.stop.
TRAIN = """
import sys, time, torch
from pathlib import Path
file = sys.argv[1]
torch.manual_seed(1)
layers = [layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
data, target = torch.randn(256, 1024, device="cuda"), torch.randn(256, 1024, device="cuda")
side, graph, a, b = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.ones(4096, device="cuda"), torch.ones(4096, device="cuda")
host = torch.empty(4096, pin_memory=True)
with torch.cuda.graph(graph):
    for _ in range(10):
        a.mul_(1.0001)
    b.copy_(a)
def step():
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(data), target).backward()
    optimizer.step()
    graph.replay()
    with torch.cuda.stream(side):
        host.copy_(data[0].repeat(4), non_blocking=True)
    torch.cuda.synchronize()
for _ in range(30):
    step()
Path(file + ".ready").touch()
while not Path(file + ".go").exists():
    time.sleep(0.01)
with open(file, "w", buffering=1) as steps:
    count = 0
    while count % 50 or not Path(file + ".stop").exists():
        begun = time.time_ns()
        step()
        steps.write(f"{begun} {time.time_ns()}\\n")
        count += 1
"""
LOOP = r"""
#include <cstdio>
#include <ctime>
#include <string>
#include <unistd.h>
__global__ void tiny(float *a) { a[threadIdx.x] = a[threadIdx.x] * 1.0001f + 0.5f; }
static long now() { timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(int, char **argv)
{
	std::string file = argv[1];
	float *a;
	if (cudaMalloc(&a, 4096) != cudaSuccess)
		return 1;
	for (int i = 0; i < 2000; i++)
		tiny<<<1, 256>>>(a);
	cudaDeviceSynchronize();
	fclose(fopen((file + ".ready").c_str(), "w"));
	while (access((file + ".go").c_str(), F_OK))
		usleep(10000);
	FILE *steps = fopen(file.c_str(), "w");
	for (int n = 0; n % 20 || access((file + ".stop").c_str(), F_OK); n++) {
		long begun = now();
		for (int i = 0; i < 1000; i++)
			tiny<<<1, 256>>>(a);
		cudaDeviceSynchronize();
		fprintf(steps, "%ld %ld\n", begun, now());
		fflush(steps);
	}
	return cudaGetLastError() != cudaSuccess;
}
"""
WORK = """
select a.start_ns, 'kernel', w.config_name from kernel w join api_call a on a.rowid = w.call
union all select a.start_ns, 'copy', 'memcpy ' || w.kind from memcpy w join api_call a on a.rowid = w.call
union all select a.start_ns, 'copy', 'memset' from memset w join api_call a on a.rowid = w.call order by 1
"""


def say(text):
    print(text, flush=True)


def left():
    return LIMIT_S - (time.monotonic() - BEGUN)


def run(*words, limit=60):
    """(status, output, errors, seconds)"""
    begun = time.monotonic()
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr, time.monotonic() - begun
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, "", str(error), time.monotonic() - begun


class Program:
    """A training or a launch loop in a process of its own."""

    def __init__(self, folder, kind, name, prepared=False, wrap=(), **variables):
        self.file = folder / f"{kind}-{name}"
        command = [sys.executable, folder / "train.py"] if kind == "train" else [folder / "loop"]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PITOT_")}
        idle = {"PITOT_IDLE": "1", "CUDA_INJECTION64_PATH": str(LIBRARY)} if prepared else {}
        self.process = subprocess.Popen(list(map(str, [*wrap, *command, self.file])), env={**clean, **idle, **variables}, stdin=subprocess.DEVNULL)

    def touch(self, what):
        Path(f"{self.file}.{what}").touch()

    def await_file(self, what=""):
        end = time.monotonic() + 90
        while not Path(f"{self.file}{what}").exists() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)

    def start(self):
        self.await_file(".ready")
        self.touch("go")
        self.await_file()
        time.sleep(0.5)

    def end(self):
        self.touch("stop")
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"hangs, {self.process.wait()}"

    def steps(self):
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]

    def used(self):
        pid = self.process.pid
        rss = int(re.search(r"RssAnon:\s+(\d+)|VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[0].split()[1])
        return {"threads": len(os.listdir(f"/proc/{pid}/task")), "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
                "mappings": len(Path(f"/proc/{pid}/maps").read_text().splitlines()), "anonymous MiB": round(rss / 1024, 1)}


def median_us(steps, begun=0, end=1 << 63):
    inside = [step[1] - step[0] for step in steps if begun <= step[0] and step[1] <= end]
    return statistics.median(inside) / 1e3 if inside else float("nan")


def measure(seconds):
    begun = time.time_ns()
    time.sleep(seconds)
    return begun, time.time_ns()


def record(program, folder, *options):
    return run(PITOT, "record", "-p", program.process.pid, "--gpu", "--gpu-only", "--no-symbols", "--stacks", "none", "--duration", "300ms", *options, "-o", folder)


def work_by_step(recording, steps):
    """For each whole step: ({kernel: count}, {copy: count}); and the times of the first and last call."""
    status, rows, errors, _ = run(PITOT, "sql", recording, "--csv", WORK)
    if status:
        say(f"{recording.name}: {errors.strip()}")
    rows = [row for row in csv.reader(rows.splitlines()[1:]) if len(row) == 3]
    if not rows:
        return [], 0, 0
    first, last, starts = int(rows[0][0]), int(rows[-1][0]), [step[0] for step in steps]
    found = {i: {"kernel": collections.Counter(), "copy": collections.Counter()} for i, step in enumerate(steps) if first < step[0] and step[1] < last}
    for start, kind, name in rows:
        if name == LATE_COPY["kernel"]:
            kind, name = "copy", LATE_COPY["copy"]
        i = bisect.bisect_right(starts, int(start)) - 1
        if i in found:
            found[i][kind][name] += 1
    return [found[i] for i in sorted(found)], first, last


@functools.cache
def usual(folder, kind):
    """What a recording from the start has of a step."""
    program = Program(folder, kind, "whole", wrap=(PITOT, "record", "-q", "--no-cpu", "--no-symbols", "--stacks", "none", "-o", folder / f"{kind}.pitot", "--"))
    program.start()
    time.sleep(1)
    status = program.end()
    seen = collections.Counter(tuple(tuple(sorted(step[part].items())) for part in ("kernel", "copy"))
                               for step in work_by_step(folder / f"{kind}.pitot", program.steps())[0])
    say(f"{kind}, recorded from the start: status {status}, {len(program.steps())} steps; steps of the same content: {[count for _, count in seen.most_common(5)]}; "
        f"a step has {[sum(dict(part).values()) for part in seen.most_common(1)[0][0]] if seen else 'nothing'} kernels and copies")
    return [collections.Counter(dict(part)) for part in seen.most_common(1)[0][0]] if seen else [None, None]


def judge(recording, program, whole):
    """(whole steps, steps with other kernels, with other copies, differences, step time inside)"""
    found, first, last = work_by_step(recording, program.steps())
    kernels = [i for i, step in enumerate(found) if step["kernel"] != whole[0]]
    copies = [i for i, step in enumerate(found) if step["copy"] != whole[1]]
    differences = collections.Counter()
    for i in {*kernels, *copies}:
        for part, expected in (("kernel", whole[0]), ("copy", whole[1])):
            for name in {*found[i][part], *(expected or ())}:
                change = found[i][part][name] - (expected or {}).get(name, 0)
                if change:
                    differences[f"{change:+} {name[:70]}"] += 1
    return len(found), kernels, copies, differences, median_us(program.steps(), first, last)


# --- stages ---


def windows(folder):
    whole, program = usual(folder, "train"), Program(folder, "train", "prepared", prepared=True)
    program.start()
    end, took, failed, made = time.monotonic() + min(WINDOWS_S, left()), [], [], []
    before, used = measure(2), program.used()
    say(f"windows: before {median_us(program.steps(), *before):.1f} us a step; {used}")
    for i in range(WINDOWS):
        if time.monotonic() > end:
            break
        status, _, errors, seconds = record(program, folder / f"window{i}.pitot")
        took.append(seconds)
        made.append(i) if status == 0 else failed.append(i)
        if status or "warning" in errors or i % 20 == 19:
            say(f"window {i}: status {status}, {seconds:.2f} s; {program.used()} {errors.strip().splitlines()[-1:] if status or 'warning' in errors else ''}")
    time.sleep(0.5)
    after = measure(2)
    say(f"windows: after  {median_us(program.steps(), *after):.1f} us a step; {program.used()}; {len(made)} made, {len(failed)} failed, each in "
        f"{statistics.median(took):.2f} s (most {max(took):.2f} s); the training goes on: {program.process.poll() is None}")
    with ThreadPoolExecutor(8) as pool:
        judged = list(pool.map(lambda i: judge(folder / f"window{i}.pitot", program, whole), made))
    differences = sum((each[3] for each in judged), collections.Counter())
    say(f"windows: {sum(each[0] for each in judged)} whole steps (fewest in a window: {min((each[0] for each in judged), default=0)}); other kernels in "
        f"{sum(len(each[1]) for each in judged)} steps of {sum(bool(each[1]) for each in judged)} windows, other copies in "
        f"{sum(len(each[2]) for each in judged)} steps of {sum(bool(each[2]) for each in judged)} windows; inside {statistics.median([each[4] for each in judged] or [0]):.1f} us a step")
    for i, each in zip(made, judged):
        if (each[1] or not each[0]) and i < 10:
            say(f"window {i}: of {each[0]} steps these have other kernels: {each[1][:8]}")
    for difference, count in differences.most_common(12):
        say(f"  in {count} steps: {difference}")
    return program


def cpu_seconds(pid):
    numbers = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def look(program):
    pid = program.process.pid
    for words in (["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"], ["nvidia-smi", "pmon", "-c", "1"],
                  [PITOT, "top", "--once"], [PITOT, "top", "--once", "-p", pid]):
        status, output, errors, seconds = run(*words, limit=20)
        say(f"$ {' '.join(Path(str(word)).name for word in words)}   ({status}, {seconds:.2f} s)\n{output[:2500]}{errors[:500]}")
    for words in ([], ["-p", pid]):
        watch = subprocess.Popen(list(map(str, [PITOT, "top", "--json", *words])), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        begun, cpu = time.monotonic(), cpu_seconds(watch.pid)
        time.sleep(6)
        cpu, seconds = cpu_seconds(watch.pid) - cpu, time.monotonic() - begun
        watch.send_signal(signal.SIGTERM)
        say(f"pitot top {' '.join(map(str, words))}: {100 * cpu / seconds:.2f} % of a CPU; status {watch.wait(30)}")
    times = []
    for _ in range(10):
        status, output, errors, seconds = run(PITOT, "dump", "--stacks", pid)
        times.append(seconds)
    say(f"pitot dump --stacks: status {status}, {statistics.median(times):.3f} s (most {max(times):.3f} s), {output.count(chr(10))} lines\n{output[:2500]}{errors[:500]}")
    say(f"steps meanwhile: {median_us(program.steps()[-2000:]):.1f} us; the training goes on: {program.process.poll() is None}; its status at the end: {program.end()}")


def inject(folder):
    kinds = [kind for kind in ("loop", "train") if kind == "train" or (folder / "loop").exists()]
    programs = {kind: [Program(folder, kind, f"unprepared{i}") for i in range(PROCESSES)] for kind in kinds}
    for kind in kinds:
        whole = usual(folder, kind)
        for i, program in enumerate(programs[kind]):
            if left() < 50:
                say(f"inject: no time for more than {i} of kind {kind}")
                break
            program.start()
            pid, begun = program.process.pid, measure(0.5)
            if i == 0:
                say(f"$ pitot doctor -p {pid}\n{run(PITOT, 'doctor', '-p', pid)[1]}")
            status, _, errors, seconds = record(program, folder / f"{kind}{i}.pitot", "--inject")
            time.sleep(0.3)
            ended = measure(0.5)
            steps = program.steps()
            longest = max((b[1] - a[0] for a, b in zip(steps, steps[1:]) if a[0] > begun[1] and b[1] < ended[0]), default=0)
            count, kernels, copies, differences, inside = judge(folder / f"{kind}{i}.pitot", program, whole) if status == 0 else (0, [], [], {}, float("nan"))
            say(f"inject {kind} {i}: status {status}, {seconds:.2f} s; us a step: {median_us(steps, *begun):.1f} before, {inside:.1f} inside, {median_us(steps, *ended):.1f} after; "
                f"longest two steps {longest / 1e6:.1f} ms; {count} whole steps, other kernels in {len(kernels)}, other copies in {len(copies)}; ends with {program.end()}")
            through = re.search(r"through thread.*? which slept in \w+", " ".join(errors.split()))
            say(f"  {through[0] if status == 0 and through else errors.strip()[:600]}")
            if differences:
                say(f"  {dict(differences.most_common(6))}")
    for each in sum(programs.values(), []):
        each.process.kill()
        each.process.wait()


def turns(folder):
    seen = collections.defaultdict(list)
    for turn in range(TURNS):
        for kind in ("loop", "train") if turn < 2 else ("loop",):
            for prepared in (True, False) if turn % 2 else (False, True):
                if left() < 15 or (kind == "loop" and not (folder / "loop").exists()):
                    continue
                program = Program(folder, kind, f"turn{turn}{prepared}", prepared=prepared)
                program.start()
                begun = measure(1.5)
                seen[kind, prepared].append(median_us(program.steps(), *begun))
                program.end()
    for (kind, prepared), values in sorted(seen.items()):
        say(f"turns: {kind} {'prepared' if prepared else 'plain   '}: {' '.join(f'{value:.1f}' for value in values)} us a step, median {statistics.median(values):.1f}")


def main():
    stages = sys.argv[2:] or ["windows", "look", "inject", "turns"]
    say(f"{platform.release()}, Python {platform.python_version()}, {os.cpu_count()} processors; "
        f"{run('nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader')[1].strip()}; {run(PITOT, 'version')[1].splitlines()[:1]}")
    with tempfile.TemporaryDirectory() as name:
        folder, program = Path(name), None
        (folder / "train.py").write_text(TRAIN)
        (folder / "loop.cu").write_text(LOOP)
        status, _, errors, _ = run("nvcc", "-arch=native", "-O2", "-o", folder / "loop", folder / "loop.cu", limit=90)
        if status:
            say(f"no launch loop: {errors.strip()[:300]}")
        if "windows" in stages:
            program = windows(folder)
        if "look" in stages:
            if not program:
                program = Program(folder, "train", "prepared", prepared=True)
                program.start()
            look(program)
        if program and program.process.poll() is None:
            program.end()
        if "inject" in stages:
            inject(folder)
        if "turns" in stages:
            turns(folder)
    say(f"{time.monotonic() - BEGUN:.0f} s")


main()
