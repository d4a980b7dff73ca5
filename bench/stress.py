#!/usr/bin/env python3
"""Stress tests of the recorder with the stand-ins, in full length: forks and starts of CUDA while libraries are loaded and unloaded, hundreds
of threads, a day of launches whose ids wrap, 10,000 sessions, 1,000 recordings of a prepared process, a hundred times a library loaded into
each program that makes it difficult, a hanging GPU, a SIGKILL while only the GPU works and at 1,000 other moments, a ring that is dumped
10,000 times.

usage: bench/stress.py BUILD [--only NAME,…] [--jobs N] [--kills N]

--jobs: `sweep` makes and kills so many of its 1,000 (--kills) recordings at a time, and `victims` runs in so many processes. `sweep` needs
nothing of BUILD but pitot, libpitot.so and standin/, ends after 8 minutes at most and leaves the recordings of wrong ones in the current
folder; `victims` needs nothing but tests/test_inject_remote and tests/support/inject.

Exits with 1 if something hung, crashed, was wrong or was lost without being counted.
"""
import argparse
import collections
import concurrent.futures
import gzip
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
MODULES = 250
FORKS = 10000
FORK_EVERY = 20  # callbacks
LAUNCH_TAPE_CALLS = 7008  # on its only thread; each has two callbacks
CUDA_STARTS = 1000
THREADS = 300
THREAD_ROUNDS = 100  # of ten launches per thread
HOURS = 24
IDS_AN_HOUR = 400_000_000
ROUNDS_AN_HOUR = 240
SEGMENT_BYTES = 1 << 20
SEGMENT_SLACK_BYTES = 256 << 10  # the preamble of a segment, and its last blocks
WINDOW_BYTES = 64 << 20  # of gpufl's logs, uncompressed
GROWTH_KIB = 2048  # of memory, in the last third of the run
SESSIONS = 10000
ATTACHES = 1000
INJECTIONS = 100  # of each kind
STANDIN_KIB = 100  # of a recording: the stand-in remembers the records of buffers for good, by address
LAUNCHES_A_ROUND = 8 * 12  # in the program `steps`
KERNEL_MS = 20  # in the program `quiet`
MISSING_MS = 250
KILLS = 10
HANG_SECONDS = 4
GENERATIONS = 1_000_000  # texts, kernels and stacks
SNAPSHOTS = 10_000
SWEEP = 1000
SWEEP_S = 450
SWEEP_LIMIT_S = 30  # for one command
LIMIT_S = 3600


class Wrong(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Wrong(what)


class Stress:
    def __init__(self, build, folder, jobs=1, kills=SWEEP):
        self.build, self.folder, self.count, self.jobs, self.kills = build, folder, 0, jobs, kills

    def tape(self, program, *count):
        path = self.folder / f"{program}.tape"
        path.unlink(missing_ok=True)
        subprocess.run([self.build / "standin/tape-make", path, program, *map(str, count)], check=True)
        return path

    def play(self, tape, *arguments, options="", faults="", **more):
        """Starts playing a tape. Returns the process and the recording."""
        self.count += 1
        recording = self.folder / f"{self.count}.pitot"
        recording.mkdir()
        script = self.folder / f"{self.count}.faults"
        script.write_text(faults + "\n")
        library = str(self.build / "libpitot.so")
        variables = {"CUDA_INJECTION64_PATH": library, "NVTX_INJECTION64_PATH": library, "PITOT_RECORDING": str(recording),
                     "PITOT_OPTIONS": options or "stacks=none"}
        command = [self.build / "standin/tape-play", "--faults", script, *map(str, arguments), tape]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, **variables, **more}), recording

    @staticmethod
    def resident_kib(pid):
        try:
            with open(f"/proc/{pid}/statm") as file:
                return int(file.read().split()[1]) * 4
        except (OSError, IndexError):
            return 0

    def play_through(self, *arguments, **more):
        process, recording = self.play(*arguments, **more)
        text, _ = process.communicate(timeout=LIMIT_S)
        expect(process.returncode == 0 and not text, f"status {process.returncode}: {text}")
        return recording

    def rows(self, recording, table, *options):
        text = subprocess.run([self.build / "pitot", "view", recording, table, "--json", "--quiet", *options], capture_output=True,
                              text=True, check=True).stdout
        return [json.loads(line) for line in text.splitlines()]

    def losses(self, recording):
        found = collections.Counter()
        for row in self.rows(recording, "loss"):
            found[row["reason"]] += row["count"] or 0
        return dict(found)

    def forks(self):
        modules = self.folder / "modules"
        modules.mkdir()
        for i in range(MODULES):
            shutil.copy(self.build / "standin/libmodule.so", modules / f"module{i}.so")
        rounds = -(-FORKS * FORK_EVERY // (2 * LAUNCH_TAPE_CALLS))
        recording = self.play_through(SOURCE / "tests/data/tapes/launch.tape", "--repeat", rounds, "--fork-every", FORK_EVERY,
                                      "--modules", modules, options="counters_ns=20000000;cpu=1000")
        calls = len(self.rows(recording, "api_call", "-c", "correlation"))
        return f"{calls * 2 // FORK_EVERY} children, {calls} calls; all ended; lost: {self.losses(recording)}"

    def starts(self):
        """A CUDA whose libcupti is only beside its libcudart, so that the recorder must search the loaded libraries."""
        driver, toolkit = self.folder / "driver", self.folder / "toolkit"
        for place, names in ((driver, ["libcuda.so.1", "libnvidia-ml.so.1", "libstandin.so"]),
                             (toolkit, ["libcupti.so.13", "libstandin.so"])):
            place.mkdir()
            for name in names:
                shutil.copy(self.build / "standin" / name, place)
        shutil.copy(self.build / "standin/libmodule.so", toolkit / "libcudart.so.13")
        recording = self.folder / "starts.pitot"
        recording.mkdir()
        variables = {"LD_LIBRARY_PATH": str(driver), "CUDA_INJECTION64_PATH": str(self.build / "libpitot.so"),
                     "PITOT_RECORDING": str(recording), "PITOT_STANDIN_TAPE": str(SOURCE / "tests/data/tapes/kinds.tape")}
        done = subprocess.run([self.build / "standin/churn", str(CUDA_STARTS), toolkit / "libcudart.so.13",
                               self.build / "standin/libmodule.so"], capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, **variables})
        expect(done.returncode == 0, done.stderr)
        segments = len(list(recording.glob("*.pit")))
        expect(segments == CUDA_STARTS, f"{segments} processes were recorded")
        return f"{CUDA_STARTS} calls of cuInit, none hung; {segments} segments"

    def threads(self):
        recording = self.play_through(self.tape("threads", THREADS), "--parallel", "--rate", "0", "--repeat", THREAD_ROUNDS,
                                      faults="thread-buffers")
        kernels, calls = (self.rows(recording, table, "-c", "correlation") for table in ("kernel", "api_call"))
        launched, losses = THREADS * 10 * THREAD_ROUNDS, self.losses(recording)
        expect(len({row["correlation"] for row in kernels}) == len(kernels), "two kernels have one id")
        expect(2 * launched <= len(kernels) + len(calls) + sum(losses.values()), f"{losses} does not account for everything that is missing")
        return f"{launched} launches; {len(calls)} calls and {len(kernels)} kernels recorded; lost: {losses}"

    def day(self):
        """A round every 15 s, with scopes, counters and readings of the GPU and the machine every 10 ms of real time. The recording and
        gpufl's logs contain everything, in files within their limits, and memory does not grow."""
        logs, resident, count = self.folder / "logs", [], self.folder / "count"
        client = self.compile(SOURCE / "bench/workloads/day_scopes.c", "-shared", "-fPIC")
        process, recording = self.play(self.tape("steps", 8), "--repeat", HOURS * ROUNDS_AN_HOUR, "--gap", 3600 * 1000 // ROUNDS_AN_HOUR,
                                       "--ids", IDS_AN_HOUR // ROUNDS_AN_HOUR, "--client", client,
                                       options=f"stacks=none;segment_bytes={SEGMENT_BYTES};system=all;counters_ns=10000000",
                                       PITOT_GPUFL=str(logs), DAY_COUNT=str(count))
        while process.poll() is None:
            resident.append(self.resident_kib(process.pid))
            time.sleep(0.05)
        expect(process.returncode == 0, f"status {process.returncode}")
        calls = {}
        for row in self.rows(recording, "api_call", "-c", "correlation,function"):
            calls.setdefault(row["correlation"], []).append(row["function"])
        launches = [c for c, functions in calls.items() if "cuLaunchKernel" in functions]
        kernels = [row["correlation"] for row in self.rows(recording, "kernel", "-c", "correlation")]
        expect(len(launches) == HOURS * ROUNDS_AN_HOUR * LAUNCHES_A_ROUND, f"{len(launches)} launches")
        expect(max(launches) > 2**32, "no id is beyond 2^32")
        expect(all(len(calls[c]) == 1 for c in kernels), "a kernel has another call's id")
        losses = self.losses(recording)
        expect(not losses, f"lost: {losses}")
        scopes = self.scopes_of_a_day(recording, int(count.read_text()))
        third = len(resident) // 3
        grown = max(resident[-third:]) - max(resident[third:-third])
        expect(third > 3 and grown < GROWTH_KIB, f"memory grew by {grown} KiB: {resident[:: max(third // 10, 1)]}")
        return (f"{len(kernels)} kernels, each with its one call; ids up to {max(launches)}; {scopes}; nothing lost; "
                f"{self.files_of_a_day(recording, logs)}; MiB of memory at each tenth of the day: "
                f"{[round(resident[len(resident) * i // 10 - 1] / 1024, 1) for i in range(1, 11)]}, {max(grown, 0)} KiB more in the last third")

    def scopes_of_a_day(self, recording, count):
        [domain] = [row["id"] for row in self.rows(recording, "nvtx_domain") if row["name"] == "pitot"]
        kinds = collections.Counter(row["kind"] for row in self.rows(recording, "nvtx", "-c", "kind,domain") if row["domain"] == domain)
        expect(kinds["push"] == kinds["pop"] == count, f"{count} scopes: {kinds}")
        values = collections.defaultdict(list)
        for row in self.rows(recording, "counter_sample", "-c", "counter,value"):
            values[row["counter"]].append(row["value"])
        expect(values["calls in scopes"][-1] == count, f"the counter of {count} ends at {values['calls in scopes'][-1]}")
        expect(sorted(values["number of the call"]) == list(range(1, count + 1)), "values of the gauge are missing")
        readings = {name: len(values[name]) for name in ("gpu_utilization", "gpu_temperature", "host_cpu_busy", "process_memory")}
        expect(all(readings.values()), f"readings: {readings}")
        return f"{count} scopes, additions and values of a gauge; readings: {readings}"

    def files_of_a_day(self, recording, logs):
        segments = [path.stat().st_size for path in recording.glob("*.pit")]
        expect(len(segments) > 2 and max(segments) < SEGMENT_BYTES + SEGMENT_SLACK_BYTES, f"segments of {segments} bytes")
        windows = [sum(len(line) for line in gzip.open(path)) for path in logs.glob("*/device.*.log.gz")]
        expect(len(windows) > 1 and max(windows) <= WINDOW_BYTES, f"windows of {windows} bytes")
        expect(not list(logs.glob("*/.gpufl-transport-loss*")) and not list(logs.glob("*/.tmp")), "the logs have lost something, or have no end")
        text = subprocess.run([self.build / "pitot", "import", logs, "-o", self.folder / "back.pitot", "--json"], capture_output=True, text=True,
                              check=True).stdout
        for table in ("kernel", "nvtx"):
            there, wanted = json.loads(text)["rows"][table], len(self.rows(recording, table, "-c", "pid"))
            expect(there == wanted, f"gpufl's logs have {there} rows of {wanted} of {table}")
        return f"{len(segments)} segments of at most {max(segments)} bytes, {len(windows)} windows of gpufl's kernels of at most {max(windows)}"

    def compile(self, source, *options):
        program = self.folder / source.stem
        subprocess.run(["cc", "-I", SOURCE / "include", source, "-o", program, *options, "-L", self.build, "-lpitot", f"-Wl,-rpath,{self.build}",
                        "-pthread"], check=True)
        return program

    def sessions(self):
        """Consecutive and concurrent sessions of one process."""
        program = self.compile(SOURCE / "tests/integration/many_sessions.c")
        variables = {"LD_LIBRARY_PATH": str(self.build / "standin"), "PITOT_STANDIN_TAPE": str(SOURCE / "tests/data/tapes/launch.tape")}
        done = subprocess.run([program, str(SESSIONS)], cwd=self.folder, env={**os.environ, **variables}, capture_output=True, text=True,
                              timeout=LIMIT_S, check=True)
        before, after = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
        result = f"{SESSIONS} rounds; KiB of memory, descriptors, threads, mappings, KiB of the heap after a tenth of them: {before}, at the end: {after}; open then: {done.stderr.splitlines()}"
        expect(after[1:3] == before[1:3] and after[2] == 1 and after[3] < before[3] + 10 and after[0] - before[0] < GROWTH_KIB, result)
        return result

    def attaches(self):
        """Recordings of a prepared process, one after the other: it is as it was before, also when the recorder's last threads have ended."""
        library = str(self.build / "libpitot.so")
        process = subprocess.Popen([self.build / "standin/tape-play", "--realtime", "--repeat", "1000000", SOURCE / "tests/data/tapes/launch.tape"],
                                   env={**os.environ, "PITOT_IDLE": "1", "CUDA_INJECTION64_PATH": library})
        time.sleep(1)
        states = []
        for i in range(ATTACHES):
            subprocess.run([self.build / "pitot", "record", "-p", str(process.pid), "--gpu", "--gpu-only", "--stacks", "none", "--no-symbols",
                            "--duration", "20ms", "--force", "-o", self.folder / "attached.pitot"], check=True, capture_output=True)
            if i + 1 in (ATTACHES // 10, ATTACHES):
                time.sleep(1)
                states.append(self.state(process.pid))
        process.kill()
        process.wait()
        before, after = states
        result = f"{ATTACHES} recordings; KiB of memory, descriptors, threads, mappings after a tenth of them: {before}, at the end: {after}"
        expect(after[1:3] == before[1:3] and after[3] < before[3] + 10 and after[0] - before[0] < STANDIN_KIB * ATTACHES, result)
        return result

    def victims(self):
        """None hangs, crashes, or sees a result that its system call would not have had by itself (tests/support/inject/victim.c)."""
        rounds = -(-INJECTIONS // self.jobs)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            totals = list(pool.map(lambda job: self.inject(job, rounds), range(self.jobs)))
        loaded, late, programs = (sum(numbers) for numbers in zip(*totals))
        return (f"{self.jobs} times {rounds} of each kind: {loaded} libraries loaded, {late} more after the time limit, "
                f"{programs} programs went on")

    def inject(self, job, rounds):
        """Prints each test as it ends. The last line has the totals."""
        begun, lines = time.monotonic(), []
        process = subprocess.Popen([self.build / "tests/test_inject_remote"], env={**os.environ, "PITOT_INJECT_REPETITIONS": str(rounds)},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        stop = threading.Timer(LIMIT_S, process.kill)
        stop.start()
        for line in process.stdout:
            lines.append(line)
            if re.match(r"\[ +(OK|FAILED|SKIPPED)", line):
                print(f"         {time.monotonic() - begun:4.0f} s, process {job}: {line.strip()}", flush=True)
        status = process.wait()
        stop.cancel()
        total = re.match(r"(\d+) libraries loaded, (\d+) more after the time limit, (\d+) programs", lines[-1] if lines else "")
        expect(status == 0 and total, f"process {job}, status {status}: {''.join(lines)[-2000:]}")
        return [int(number) for number in total.groups()]

    def state(self, pid):
        with open(f"/proc/{pid}/maps") as file:
            mappings = len(file.readlines())
        return [self.resident_kib(pid), len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")), mappings]

    def hang(self):
        """Calls that begin a second or more after the hang are on disk, and the recording says what hangs."""
        text, tape = [], self.tape("steps")
        for function, name in (("cuptiActivityFlushAll",) * 2, ("cuptiGetTimestamp",) * 2,
                               ("nvmlDeviceGetTemperature", "NVML's temperature")):
            when = self.folder / f"hang-{function}"
            process, recording = self.play(tape, "--realtime", "--repeat", 10000, "--gap", 100, faults=f"hang {function} when {when}",
                                           options="stacks=none;counters_ns=100000000")
            time.sleep(2)
            when.touch()
            hung = time.monotonic_ns()
            time.sleep(HANG_SECONDS)
            killed = self.kill(process)
            last = max(self.times(recording, "api_call"))
            reasons = [row["reason"] for row in self.rows(recording, "capability") if row["name"] == "gpu" and row["reason"]]
            expect(last > hung + 10**9, f"{function}: the last call is {(killed - last) / 1e6:.0f} ms before the SIGKILL")
            expect(any(name in reason for reason in reasons), f"{function}: the recording says {reasons}")
            text.append(f"{function}: calls up to {(killed - last) / 1e6:.0f} ms before the SIGKILL")
        return "; ".join(text)

    def quiet(self):
        """Only the GPU works, in kernels of 20 ms."""
        tape, missing = self.tape("quiet", 300), []
        for i in range(KILLS):
            process, recording = self.play(tape, "--realtime")
            time.sleep(1.5 + 0.337 * i)
            killed = self.kill(process)
            missing.append((killed - max(self.times(recording, "kernel"))) / 1e6)
        result = f"the last kernel on disk ended {', '.join(f'{ms:.0f}' for ms in sorted(missing))} ms before the SIGKILL"
        expect(max(missing) <= MISSING_MS, result)
        return result

    def generations(self):
        """New texts, kernels and stacks for a day of the program's clock into a ring, which is dumped at random moments meanwhile."""
        done = subprocess.run([self.build / "tests/test_ring_generations"], capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "PITOT_GENERATIONS": str(GENERATIONS), "PITOT_SNAPSHOTS": str(SNAPSHOTS)})
        said = done.stdout + done.stderr
        expect(done.returncode == 0, said)
        return "every id of every dump resolves: " + next(line for line in said.splitlines() if "snapshots" in line)

    def sweep(self):
        """SIGKILL at each of so many places of a tape, random but the same in each run; nothing is lost or there twice."""
        found, begun = collections.Counter(), time.monotonic()
        places = random.Random(2)
        print("kills  launches     kernels  wrong  seconds", flush=True)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            kills = [pool.submit(self.killed_at, i, places.randrange(1, 9500), begun + SWEEP_S) for i in range(self.kills)]
            for done in concurrent.futures.as_completed(kills):
                found.update(done.result())
                if found["kills"] % max(self.kills // 20, 1) == 0 or found["kills"] == self.kills:
                    print(f"{found['kills']:5} {found['launches']:9} {found['kernels']:11} {found['wrong']:6} {time.monotonic() - begun:8.0f}", flush=True)
        result = f"{found['kills']} of {self.kills} kills, {found['launches']} launches and {found['kernels']} kernels in the recordings: each once"
        expect(not found["wrong"], f"{found['wrong']} of {found['kills']} kills")
        expect(found["kills"], f"none in {SWEEP_S} s")
        return result

    def killed_at(self, number, place, end):
        """Returns how much was in the recording, nothing if there is no time left. What is wrong is printed, and its recording kept."""
        if time.monotonic() > end:
            return {}
        folder = self.folder / f"{number}.pitot"
        try:
            found = {**self.kill_at(place, folder), "wrong": 0}
        except (Wrong, OSError, subprocess.SubprocessError, ValueError) as wrong:
            print(f"WRONG: kill {number}, at {place}: {wrong}", flush=True)
            shutil.copytree(folder, f"wrong-kill-{number}.pitot", dirs_exist_ok=True)
            found = {"wrong": 1}
        shutil.rmtree(folder, ignore_errors=True)
        return {**found, "kills": 1}

    def kill_at(self, place, folder):
        witness = folder.with_suffix(".witness")
        witness.write_bytes(bytes(16))
        with open(folder.with_suffix(".said"), "w+") as said:
            subprocess.run([self.build / "pitot", "record", "-q", "-f", "-o", folder, "--no-cpu", "--stacks", "none", "--no-symbols", "--",
                            self.build / "standin/tape-play", "--now", "--repeat", "2", "--exit", "kill", "--exit-at", str(place),
                            SOURCE / "tests/data/tapes/train.tape"], stdout=said, stderr=said, check=False, timeout=SWEEP_LIMIT_S,
                           env={**os.environ, "PITOT_STANDIN_WITNESS": str(witness)})
            said.seek(0)
            expect(folder.exists(), f"no recording: {said.read()[-500:]}")
        launched, ended = struct.unpack("QQ", witness.read_bytes())
        calls = [(row["thread"], row["correlation"]) for row in self.rows(folder, "api_call", "-c", "thread,correlation,function")
                 if row["function"] == "cuLaunchKernel"]
        work = [(row["correlation"], row["start_ns"]) for row in self.rows(folder, "kernel", "-c", "correlation,start_ns")]
        expect(len(set(calls)) == len(calls) and len(set(work)) == len(work), "rows are there twice")
        expect(launched <= len(calls) <= launched + 1, f"{len(calls)} launches of {launched}")
        expect(ended <= len(work) <= ended + 2, f"{len(work)} kernels of {ended}")
        return {"launches": len(calls), "kernels": len(work)}

    @staticmethod
    def kill(process):
        now = time.monotonic_ns()
        process.kill()
        process.communicate()
        return now

    def times(self, recording, table):
        info = subprocess.run([self.build / "pitot", "info", recording, "--json"], capture_output=True, text=True, check=True)
        start = json.loads(info.stdout)["start_monotonic_ns"]
        return [start + row["end_ns"] for row in self.rows(recording, table, "-c", "end_ns") if row["end_ns"] is not None]


def main():
    names = ["forks", "starts", "threads", "day", "sessions", "attaches", "victims", "hang", "quiet", "generations", "sweep"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=names)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kills", type=int, default=SWEEP)
    arguments = parser.parse_args()
    bad = 0
    for name in arguments.only:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                text = getattr(Stress(arguments.build.resolve(), pathlib.Path(folder), arguments.jobs, arguments.kills), name)()
            except Wrong as wrong:
                text, bad = f"WRONG: {wrong}", bad + 1
        print(f"{name:8} {text} ({time.monotonic() - begun:.0f} s)", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
