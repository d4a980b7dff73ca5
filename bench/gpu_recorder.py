#!/usr/bin/env python3
"""The flight recorder on a GPU: what is said after hangs, faults and kills, and what the ring, its dumps and --every cost.

usage: bench/gpu_recorder.py BUILD [FOLDER] [--seconds N] [--only PART,...], on a machine with a GPU, nvcc and PyTorch. Takes at most N
seconds (225) and prints a line for each result as it comes. A line of a check begins with "right" or "WRONG"; what was wrong is in FOLDER.

parts: faults   a kernel that hangs, an illegal address, an assert in a kernel, memory that there is not
       kills    20 programs killed at random moments: the last words against what the programs had counted
       dump     five dumps of 30 s out of 20,000 kernels a second, and how late the program's launches were
       every    one training with --every in turns with nothing; then `pitot capture --steps 3` of it
       turns    the same training bare, recorded, and recorded into a ring, in turns for the rest of the time (the 10th percentile of steps)
"""
import argparse
import json
import mmap
import os
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORKLOADS = Path(__file__).resolve().parent / "workloads"
LIMIT = 60  # seconds for one command
WAIT = 30  # seconds for an event
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("PITOT_")}


class Bench:
    def __init__(self, build, folder, seconds):
        self.build, self.folder = build, folder
        self.pitot = str(build / "pitot")
        self.end = time.monotonic() + seconds
        self.program, self.wrong = folder / "recorder", 0

    def left(self):
        return self.end - time.monotonic()

    def check(self, what, is_right, detail=""):
        self.wrong += not is_right
        print(f"{'right' if is_right else 'WRONG'}  {what}{': ' if detail else ''}{detail}", flush=True)

    def record(self, name, *options):
        return [self.pitot, "record", "-q", "--no-cpu", "-f", "-o", str(self.folder / f"{name}.pitot"), *options, "--"]

    def report(self, name):
        done = run([self.pitot, "report", self.folder / f"{name}.pitot", "--json"])
        return json.loads(done.stdout or "{}")


def run(command, **options):
    try:
        return subprocess.run([str(part) for part in command], text=True, capture_output=True, timeout=LIMIT, check=False, **options)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(command, 124, "", f"no end after {e.timeout} s")


def await_that(condition, seconds=WAIT):
    """Returns whether the condition became true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def rows(bench, name, table):
    return [json.loads(line) for line in run([bench.pitot, "view", bench.folder / f"{name}.pitot", table, "--json"]).stdout.splitlines()]


def count_of(bench, name, table):
    done = run([bench.pitot, "info", bench.folder / f"{name}.pitot", "--json"])
    return json.loads(done.stdout or '{"tables": {}}')["tables"].get(table, {"rows": 0})["rows"]


def children(pid):
    return [int(child) for child in run(["pgrep", "-P", pid]).stdout.split()]


def words_of(report):
    return (report.get("last_words") or {}).get("text", "")


# --- faults ---


def hang(bench):
    options = ["--ring", "64M", "--when", "hang > 2s", "--post", "1s"]
    with subprocess.Popen([*bench.record("hang", *options), bench.program, "hang"], env=CLEAN, stderr=subprocess.DEVNULL) as record:
        dump = bench.folder / "hang-dump-1.pitot"
        is_made = await_that(lambda: any(dump.glob("record.*.pit")) and any(dump.glob("[0-9]*.pit")))
        began = time.monotonic()
        asked = run([bench.pitot, "dump", str(record.pid), "-f", "-o", bench.folder / "asked.pitot"])
        dumped = time.monotonic() - began
        text = words_of(bench.report("asked"))
        said = time.monotonic() - began
        for child in children(record.pid):
            os.kill(child, signal.SIGKILL)
        record.wait(LIMIT)
    bench.check("hang: the rule made a dump", is_made and "6 launches had no recorded end" in words_of(bench.report("hang-dump-1")))
    is_right = asked.returncode == 0 and "6 launches had no recorded end" in text and "Synchronize" in text and "had ended" not in text.split("\n", 1)[-1]
    bench.check("hang: what has no end, by which line, and who waits", is_right, " | ".join(text.splitlines()))
    bench.check("hang: dumped and reported within 1 s", said < 1, f"dump {dumped * 1e3:.0f} ms, with its report {said * 1e3:.0f} ms")
    text = words_of(bench.report("hang"))
    is_said = "6 launches had no recorded end" in text or "6 launches had not ended, because a call waited for it" in text
    bench.check("hang: the same after SIGKILL", is_said and "SIGKILL" in text, " | ".join(text.splitlines()))
    bench.check("hang: the kernel's name", "the first one of waits_for_flag" in text)
    for row in rows(bench, "hang", "loss"):
        if row["reason"] == "unread_records":
            print(f"       hang: {row['detail']}", flush=True)


def fault(bench, name, status, expected):
    began = time.monotonic()
    done = run([*bench.record(name, "--ring", "64M"), bench.program, name], env=CLEAN)
    seconds = time.monotonic() - began
    report = bench.report(name)
    text = json.dumps([report.get("verdict"), report.get("failures"), report.get("last_words"), report.get("rules")])
    missing = [word for word in expected if word not in text]
    detail = f"status {done.returncode}, {seconds:.1f} s; {(report.get('failures') or {}).get('context') or ''}"
    bench.check(f"{name}: {', '.join(expected)}", done.returncode == status and not missing, detail + (f"; missing {missing}" if missing else ""))
    if missing:
        print(run([bench.pitot, "report", bench.folder / f"{name}.pitot"]).stdout[:1500], flush=True)


def faults(bench):
    with ThreadPoolExecutor(4) as pool:
        for done in (pool.submit(hang, bench), pool.submit(fault, bench, "illegal", 134, ["number 201", "ILLEGAL_ADDRESS", "writes_nowhere"]),
                     pool.submit(fault, bench, "assert", 3, ["asserts", "ASSERT"]),
                     pool.submit(fault, bench, "memory", 3, ["OUT_OF_MEMORY", "MemAlloc"])):
            done.result()


# --- kills ---


def kill(bench, number):
    """Returns what was wrong, or "", and how long `pitot record` needed after the kill."""
    name, path = f"kill-{number}", bench.folder / f"counts-{number}"
    path.write_bytes(bytes(24))
    with subprocess.Popen([*bench.record(name), bench.program, "kill", path], env=CLEAN, stderr=subprocess.DEVNULL) as record, \
            open(path, "r+b") as file, mmap.mmap(file.fileno(), 24) as view:
        if not await_that(lambda: view[8:16] != bytes(8)):
            record.kill()
            return "it launched nothing", 0.0
        time.sleep(0.2 + random.random())
        for child in children(record.pid):
            os.kill(child, signal.SIGKILL)
        began = time.monotonic()
        record.wait(LIMIT)
        seconds = time.monotonic() - began
        launched, ended, ended_ns = struct.unpack("<QQQ", view[0:24])
    report, words = bench.report(name), []
    calls = sum("LaunchKernel" in str(row) for row in rows(bench, name, "api_call")) - 200
    kernels = count_of(bench, name, "kernel")
    losses = {row.get("reason"): row.get("count") for row in rows(bench, name, "loss")}
    processes = (report.get("last_words") or {}).get("processes", [])
    undelivered, opened = (sum(p.get(key) or 0 for p in processes) for key in ("undelivered", "launches_without_end"))
    if "was killed by SIGKILL" not in words_of(report):
        words.append("it does not say that it was killed")
    if not launched <= calls <= launched + 1:
        words.append(f"{calls} launches instead of {launched}")
    for work in (report.get("last_words") or {}).get("work", []):
        if work["launched_ns"] is not None and work["launched_ns"] + report["start_unix_ns"] + 100000 < ended_ns:
            words.append(f"names work that had ended: {work}")
        if "tiny" not in work["what"]:
            words.append(f"names {work['what']}")
    if opened > calls - ended:
        words.append(f"{opened} launches without an end, but {ended} of {calls} had ended")
    for process in processes:
        if process.get("first_launch_ns") and process["first_launch_ns"] + report["start_unix_ns"] + 100000 < ended_ns:
            words.append(f"the first launch without an end had ended: {process}")
    if ended == launched and kernels + undelivered < 200 + ended - sum(v or 0 for v in losses.values()):
        words.append(f"{kernels} kernels and {undelivered} undelivered of {200 + ended}")
    shutil.rmtree(bench.folder / f"{name}.pitot", ignore_errors=not words)
    return "; ".join(words), seconds


def kills(bench):
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: kill(bench, number), range(20)))
    for number, (wrong, _) in enumerate(results):
        if wrong:
            bench.check(f"kill {number}", False, wrong)
    seconds = sorted(seconds for _, seconds in results)
    right = sum(not wrong for wrong, _ in results)
    bench.check("20 kills", right == 20, f"{right} right; recording finished {seconds[10]:.2f} s after the kill in the median, {seconds[-1]:.2f} s at most")


# --- dumps while the program goes on ---


def dump(bench):
    seconds, times = 38, []
    with subprocess.Popen([*bench.record("steady", "--ring", "64M"), bench.program, "steady", bench.folder / "counts", str(seconds)],
                          env=CLEAN, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as record:
        time.sleep(33)
        for number in range(5):
            began = time.monotonic()
            done = run([bench.pitot, "dump", str(record.pid), "--last", "30s", "-f", "-o", bench.folder / f"of-30s-{number}.pitot"])
            times.append((time.monotonic() - began) * 1e3)
            if done.returncode != 0:
                bench.check("dump", False, done.stderr.strip())
                break
            time.sleep(0.2)
        out = record.communicate(timeout=LIMIT)[0]
    program = json.loads(out or "{}")
    kernels, losses = count_of(bench, "steady", "kernel") - 200, rows(bench, "steady", "loss")
    in_dump = count_of(bench, "of-30s-0", "kernel")
    print(f"dump of 30 s at 20,000 kernels/s: {' '.join(f'{t:.0f}' for t in times)} ms; {in_dump} kernels in the first one", flush=True)
    bench.check("dump in less than 100 ms", statistics.median(times) < 100, f"median {statistics.median(times):.0f} ms")
    bench.check("dump: it has 30 s", in_dump >= 590000, f"{in_dump} kernels")
    bench.check("dump: the recording is unaffected", kernels == program.get("launched") and not losses,
                f"{kernels} kernels of {program.get('launched')}, losses {losses}")
    print(f"launches late, in us, with five dumps: {program.get('late_us')}", flush=True)
    if bench.left() > 150:
        out = run([*bench.record("steady", "--ring", "64M"), bench.program, "steady", bench.folder / "counts", "6"], env=CLEAN).stdout
        print(f"launches late, in us, without a dump:  {json.loads(out or '{}').get('late_us')}", flush=True)


# --- trainings ---


def steps_of(path):
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]


def lengths_ms(steps):
    return [(end - begun) / 1e6 for begun, end in steps]


def percentile(values, part):
    return sorted(values)[int(len(values) * part)] if values else float("nan")


def train(bench, name, seconds, prefix=(), **variables):
    path = bench.folder / f"{name}.steps"
    path.unlink(missing_ok=True)
    process = subprocess.Popen([*map(str, prefix), sys.executable, WORKLOADS / "recorder_train.py", path, str(seconds)], env={**CLEAN, **variables},
                               stderr=subprocess.DEVNULL)
    await_that(lambda: steps_of(path) or process.poll() is not None, LIMIT)
    return process, path


def every(bench):
    """In turns within one process, which is prepared: 8 s bare, 24 s with a window of 1 s in each 8 s, 6 s bare."""
    library = str(bench.build / "libpitot.so")
    process, path = train(bench, "every", 46, PITOT_IDLE="1", CUDA_INJECTION64_PATH=library, NVTX_INJECTION64_PATH=library)
    time.sleep(8)
    began = time.time_ns()
    with subprocess.Popen([bench.pitot, "record", "--no-cpu", "-p", str(process.pid), "--every", "8s", "--for", "1s", "--name", "every"],
                          cwd=bench.folder, stderr=subprocess.PIPE, text=True, env=CLEAN) as record:
        time.sleep(25)
        record.send_signal(signal.SIGINT)
        windows = len([line for line in record.communicate(timeout=LIMIT)[1].splitlines() if ".pitot" in line])
    ended = time.time_ns()
    time.sleep(3)
    captured = run([bench.pitot, "capture", str(process.pid), "--steps", "3", "--json", "-f", "-o", bench.folder / "captured.pitot"])
    process.wait(LIMIT)
    steps = steps_of(path)
    during = [s for s in steps if began <= s[0] and s[1] <= ended]
    first = min((s[0] - s[0] % 8000000000 for s in during if s[0] % 8e9 < 1e9), default=began)
    phases = {"before": [s for s in steps if s[1] < began], "before the first window": [s for s in during if s[1] < first],
              "between windows": [s for s in during if s[0] > first and 3e9 < s[0] % 8e9 < 7.5e9],
              "in windows": [s for s in during if s[0] % 8e9 < 1e9], "after": [s for s in steps if ended + 5e8 < s[0] < ended + 2.5e9]}
    print(f"--every: {windows} windows; steps in ms, 10th percentile, median, mean: " + ", ".join(
        f"{name} {percentile(found, 0.1):.3f} {statistics.median(found):.3f} {statistics.fmean(found):.3f}"
        for name, found in ((name, lengths_ms(found)) for name, found in phases.items()) if found), flush=True)
    apart = lengths_ms(phases["between windows"])
    excess = (sum(lengths_ms(during)) - len(during) * statistics.median(apart)) / max(windows, 1)
    print(f"--every: one window of 1 s costs the program {excess:.0f} ms; longest step {max(lengths_ms(during), default=0):.0f} ms", flush=True)
    bench.check("--every 60s --for 1s costs at most 0.5 %", windows > 0 and excess / 60000 <= 0.005, f"{excess / 600:.3f} %")
    check_capture(bench, captured)


def check_capture(bench, done):
    if done.returncode != 0:
        bench.check("capture", False, done.stderr.strip())
        return
    found = json.loads(done.stdout)
    loops = json.loads(run([bench.pitot, "report", bench.folder / "captured.pitot", "--steps", "--json"]).stdout or "{}")
    steps = [loop["count"] for loop in (loops.get("steps") or {}).get("loops", [])]
    kernels = len(rows(bench, "captured", "kernel"))
    detail = f"{[round(s['duration_ns'] / 1e6, 2) for s in found['steps']]} ms, {found['gpu_work']} pieces of work, {kernels} kernels, report has {steps}"
    is_right = len(found["steps"]) == 3 and kernels > 0 and kernels % 3 == 0 and not found["launches_without_end"]
    bench.check("capture --steps 3: three steps, the same number of kernels in each", is_right, detail)


WAYS = {"bare": None, "recorded": [], "ring": ["--ring", "64M"]}


def turns(bench):
    found, medians = {way: [] for way in WAYS}, {way: [] for way in WAYS}
    while bench.left() > 36 or not found["ring"]:
        for way, options in WAYS.items():
            process, path = train(bench, way, 5, () if options is None else bench.record(way, *options))
            process.wait(LIMIT)
            steps = lengths_ms(steps_of(path))
            found[way].append(percentile(steps, 0.1))
            medians[way].append(statistics.median(steps) if steps else float("nan"))
        print("turn: 10th percentile of steps in ms: " + ", ".join(f"{way} {values[-1]:.3f}" for way, values in found.items()), flush=True)
    middle = {way: statistics.median(values) for way, values in found.items()}
    print(f"{len(found['ring'])} turns, medians: " + ", ".join(f"{way} {value:.3f} ms ({100 * (value / middle['bare'] - 1):+.1f} %)"
                                                              for way, value in middle.items()), flush=True)
    print("medians of steps: " + ", ".join(f"{way} {statistics.median(values):.3f} ms" for way, values in medians.items()), flush=True)
    bench.check("the ring costs no more than recording (1 % of noise)", middle["ring"] <= middle["recorded"] * 1.01)


PARTS = {"faults": faults, "kills": kills, "dump": dump, "every": every, "turns": turns}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=225)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    arguments = parser.parse_args()
    folder = (arguments.folder or Path(tempfile.mkdtemp(prefix="pitot-recorder-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.build.resolve(), folder, arguments.seconds)
    subprocess.run(["nvcc", "-O2", "-lineinfo", "-o", bench.program, WORKLOADS / "recorder.cu"], check=True)
    for name in arguments.only:
        began = time.monotonic()
        try:
            PARTS[name](bench)
        except Exception as e:  # one part must not cost the others
            bench.check(name, False, f"{type(e).__name__}: {e}")
        print(f"       {name}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"{bench.wrong} wrong; recordings are in {folder}", flush=True)
    return bench.wrong > 0


if __name__ == "__main__":
    sys.exit(main())
