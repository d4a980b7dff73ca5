#!/usr/bin/env python3
"""Tapes: the writer, the stand-ins that play them, the fault script. Usage: tapes.py BUILD_FOLDER [unittest options]

A small injection library (tests/standin/probe.c) stands in for the recorder and counts what reaches it. Where
libpitot.so has been built it has to live through the same plays."""

import functools
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
STANDIN = os.path.join(BUILD, "standin")
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TAPES = sorted(glob.glob(os.path.join(SOURCE, "data", "tapes", "*.tape")))
PITOT = os.path.join(BUILD, "libpitot.so")
PROBE = os.path.join(STANDIN, "libprobe.so")
TAPER = os.path.join(STANDIN, "libpitot-tape.so")  # the library that writes tapes
SECONDS = 300
CALLS = 390  # of the driver, in the tape that tape-make makes


def tool(name, *arguments, **options):
    return subprocess.run([os.path.join(STANDIN, name), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=SECONDS, **options)


def environment(injected, **more):
    """Ours, without what would make the target record or tape, but with this library injected; PITOT_TAPE: a tape of it."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PITOT_", "CUDA_INJ", "NVTX_INJ", "PROBE_"))}
    own["LSAN_OPTIONS"] = f"suppressions={SOURCE}/integration/leaks.txt:print_suppressions=0"
    if "PITOT_TAPE" in more:
        own.update(PITOT_CUPTI=TAPER, PITOT_TAPE_RECORDER=injected)
        injected = TAPER
    return {**own, "CUDA_INJECTION64_PATH": injected, "NVTX_INJECTION64_PATH": injected, **more}


def numbers(text):
    """Lines "name number ..." as a dictionary; durations of kinds as "KIND ns"."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdigit():
            found[words[0]] = int(words[1])
        if len(words) == 4 and words[3] == "ns":
            found[words[0] + " ns"] = int(words[2])
    return found


def kinds(found):
    return {k: v for k, v in found.items() if k.split()[0].isupper()}


def events(tape):
    result = tool("tape-dump", "--events", tape)
    assert result.returncode == 0, result.stderr
    return result.stdout


def calls_and_records(tape):
    """The calls on a tape but NVTX's, in order, and the activity records, of which the order is that of the buffers."""
    lines = [line for line in events(tape).splitlines() if " NVTX " not in line and " BUFFER_COMPLETE " not in line]
    return [line for line in lines if line[0] != "\t"], sorted(line for line in lines if line[0] == "\t" and not line.startswith("\tsum="))


def nvtx_call(line):
    """A call as it must come back: other times, and other threads where one is named by its id."""
    words = line.split()[2:]
    if words[1:3] in (["module=1", "id=14"], ["module=1", "id=15"], ["module=5", "id=6"]):
        words = [word for word in words if not word.startswith("range=")]
    return words


@functools.lru_cache(maxsize=None)
def summary_of(tape):
    result = tool("tape-dump", "--summary", tape)
    assert result.returncode == 0, result.stderr
    return numbers(result.stdout)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.tape = os.path.join(cls.made.name, "made.tape")
        made = tool("tape-make", cls.tape)
        assert made.returncode == 0, made.stderr

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def play(self, *options, tape=None, status=0, faults=None, **variables):
        """Plays into the probe; what the probe got."""
        report = self.path("report")
        if os.path.exists(report):
            os.unlink(report)
        if faults:
            with open(self.path("faults"), "w", encoding="utf-8") as file:
                file.write("\n".join(faults) + "\n")
            options += ("--faults", self.path("faults"))
        result = tool("tape-play", *options, tape or self.tape,
                      env=environment(PROBE, PROBE_OUTPUT=report, **variables))
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr, "")
        if not os.path.exists(report):
            return {}
        with open(report, encoding="utf-8") as file:
            return numbers(file.read())

    def summary(self, tape=None):
        return summary_of(tape or self.tape)


class Playing(Case):
    def test_everything_on_the_tape_arrives(self):
        for tape in [self.tape, *TAPES]:
            with self.subTest(tape=os.path.basename(tape)):
                got = self.play(tape=tape)
                self.assertEqual(kinds(got), kinds(self.summary(tape)))
                self.assertEqual(sum(v for k, v in got.items() if k.startswith("domain_")),
                                 self.summary(tape)["callbacks"])
                self.assertEqual((got["wrong_ids"], got["dropped"], got["missing"]), (0, 0, 0))

    def test_tape_of_a_played_tape_is_the_same(self):
        for number, tape in enumerate([self.tape, *TAPES]):
            with self.subTest(tape=os.path.basename(tape)):
                copy = self.path(f"copy{number}")
                self.play(tape=tape, PITOT_TAPE=copy)
                wanted, records = calls_and_records(tape)
                got, got_records = calls_and_records(copy)
                first = int(wanted[0].split()[0]) if wanted else 0
                self.assertEqual(len(got_records), len(records))
                if not first:
                    self.assertEqual((got, got_records), (wanted, records))
                else:  # an NVTX call came first: only distances can be compared
                    self.assertEqual(len(got), len(wanted))

    def test_tape_is_never_overwritten(self):
        copy = self.path("copy")
        self.play(PITOT_TAPE=copy)
        with open(copy, "rb") as file:
            before = file.read()
        self.play(PITOT_TAPE=copy)
        with open(copy, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(len(glob.glob(copy + ".*")), 1)

    def test_small_buffers_split_what_was_one(self):
        for size in 217, 1000, 65536:
            with self.subTest(size=size):
                self.assertEqual(kinds(self.play(PROBE_BUFFER_BYTES=str(size))), kinds(self.summary()))

    def test_records_too_long_for_any_buffer_are_counted(self):
        got = self.play(PROBE_BUFFER_BYTES="100")
        self.assertEqual(got["dropped"], self.summary()["CONCURRENT_KERNEL"])
        self.assertEqual(got["MEMCPY"], self.summary()["MEMCPY"])

    def test_free_threads_deliver_the_same(self):
        for tape in [self.tape, *TAPES]:
            with self.subTest(tape=os.path.basename(tape)):
                got = self.play("--parallel", "--rate", "0", tape=tape)
                self.assertEqual(kinds(got), kinds(self.summary(tape)))

    def test_rounds_have_ids_and_times_of_their_own(self):
        copy = self.path("copy")
        got = self.play("--repeat", "3", PITOT_TAPE=copy)
        once = kinds(self.summary())
        self.assertEqual(kinds(got), {k: v if k.startswith(("CONTEXT", "STREAM")) else 3 * v for k, v in once.items()})
        launches, times = [], []
        for line in events(copy).splitlines():
            words = line.split()
            if words[0] == "CONCURRENT_KERNEL":
                times.append(int(words[3].split("=")[1]))
            elif words[2:4] == ["CALLBACK", "driver"] and words[5] == "enter":
                launches.append(words[8])
        self.assertEqual(len(launches), 3 * CALLS)
        self.assertEqual(len(set(launches)), 3 * CALLS)
        third = len(times) // 3
        self.assertLess(max(times[:third]), min(times[third:2 * third]))
        self.assertLess(max(times[third:2 * third]), min(times[2 * third:]))

    def test_clock_is_the_tapes(self):
        end = self.play()["time"]
        self.assertTrue(5_000_000_000_000 < end < 5_002_000_000_000, end)
        for option in "--realtime", "--now":
            before = time.monotonic_ns()
            shown = self.play(option)["time"]
            self.assertTrue(before < shown < time.monotonic_ns() + 1_000_000_000, (option, before, shown))

    def test_cut_tape_plays_up_to_the_cut(self):
        with open(self.tape, "rb") as file:
            whole = file.read()
        cut = self.path("cut")
        for length in 20, 100, len(whole) // 2, len(whole) - 1:
            with open(cut, "wb") as file:
                file.write(whole[:length])
            dumped = tool("tape-dump", cut)
            self.assertEqual(dumped.returncode, 0)
            self.assertIn("usable up to a point", dumped.stderr)
        with open(cut, "wb") as file:
            file.write(b"no tape")
        self.assertEqual(tool("tape-dump", cut).returncode, 1)
        self.assertIn("not a tape", tool("tape-play", cut).stderr)

    def test_usage(self):
        for arguments in [], ["--what", "x"], ["--exit", "never", "x"], ["--repeat", "0", "x"], ["a", "b"]:
            self.assertEqual(tool("tape-play", *arguments).returncode, 2)
        self.assertEqual(tool("tape-make", self.tape).returncode, 1)  # is there already


class Leaving(Case):
    ENDINGS = {"return": 0, "exit": 0, "quick-exit": 0, "_exit": 0, "exec": 0, "fork-then-exit": 0, "kill": -signal.SIGKILL,
               "term": -signal.SIGTERM, "int": -signal.SIGINT, "abort": -signal.SIGABRT, "segv": -signal.SIGSEGV}
    # The sanitizer has to leave signals alone; its leak check can hang in a child that was forked beside other threads.
    SANITIZER = "detect_leaks=0:handle_segv=0:handle_abort=0"

    def test_endings(self):
        for how, status in self.ENDINGS.items():
            with self.subTest(how=how):
                got = self.play("--exit", how, status=status, ASAN_OPTIONS=self.SANITIZER)
                self.assertEqual(bool(got), how in ("return", "exit", "fork-then-exit"))

    def test_leaving_in_the_middle(self):
        got = self.play("--parallel", "--exit-at", "400")
        self.assertLess(got.get("domain_1", 0), 2 * CALLS)

    def test_killed_writer_leaves_a_usable_tape(self):
        copy = self.path("copy")
        self.play("--realtime", "--repeat", "30", "--exit", "kill", status=-signal.SIGKILL, PITOT_TAPE=copy)
        dumped = tool("tape-dump", "--summary", copy)
        self.assertEqual(dumped.returncode, 0)
        self.assertGreater(numbers(dumped.stdout)["callbacks"], 2 * CALLS)


class Faults(Case):
    def test_calls_fail(self):
        self.assertEqual(self.play(faults=["call cuptiSubscribe#1 returns 39"]).get("domain_1", 0), 0)
        self.assertEqual(self.play(faults=["call cuptiActivityRegisterCallbacks returns 1"])["buffers"], 0)
        got = self.play(faults=["# kind 10 is the tenth that the probe asks for", "call cuptiActivityEnable#10 returns 25"])
        self.assertNotIn("CONCURRENT_KERNEL", got)
        self.assertEqual(got["MEMCPY"], self.summary()["MEMCPY"])
        self.assertEqual(self.play(faults=["call cuptiActivityGetNextRecord#300 returns 999"])["CONCURRENT_KERNEL"]
                         < self.summary()["CONCURRENT_KERNEL"], True)

    def test_functions_are_missing(self):
        self.assertEqual(self.play(faults=["missing cuptiSetThreadIdType", "missing cuptiGetGraphId"])["missing"], 2)

    def test_other_versions(self):
        self.assertEqual(self.play(faults=["version 22"])["version"], 22)
        for version in 19, 26, 130000, 130200:
            with self.subTest(version=version):
                got = self.play(faults=[f"version {version}"])
                self.assertEqual(kinds(got), kinds(self.summary()))
                self.assertEqual(got["name_bytes"], self.play()["name_bytes"])

    def test_layouts_of_other_versions(self):
        for version, size in (22, 208), (130000, 216), (130200, 232):
            copy = self.path(f"copy{version}")
            self.play(faults=[f"version {version}"], PITOT_TAPE=copy)
            self.assertIn(f"CONCURRENT_KERNEL size={size} ", events(copy))

    def test_times(self):
        spans = sum(v for k, v in kinds(self.summary()).items() if k in
                    ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION"))
        self.assertEqual(self.play(faults=["zero-times every 100"])["zero"], spans // 100)
        self.assertEqual(self.play(faults=["reverse-times every 50"])["reversed"], spans // 50)
        self.assertEqual(self.play(faults=["incomplete every 10"])["incomplete"], spans // 10)
        self.assertEqual(self.play(faults=["bad-kind every 7"])["unknown"], spans // 7)

    def test_names(self):
        kernels = self.summary()["CONCURRENT_KERNEL"]
        self.assertEqual(self.play(faults=["null-name every 7"])["unnamed"], kernels // 7)
        self.assertEqual(self.play(faults=["huge-names 65536"])["name_bytes"], kernels * 65536)
        copy = self.path("storm")
        self.play("--repeat", "3", faults=["storm 1000-names"], PITOT_TAPE=copy)
        self.assertEqual(events(copy).count("storm_kernel_000999"), 1)
        copy = self.path("hostile")
        self.play(faults=["hostile-names every 2"], PITOT_TAPE=copy)
        self.assertEqual(events(copy).count("\\xff\\xfe"), kernels // 2)

    def test_buffers(self):
        got = self.play(faults=["drop-buffer 2"])
        lost = sum(v for k, v in kinds(self.summary()).items() if not k.endswith(" ns")) - \
            sum(v for k, v in kinds(got).items() if not k.endswith(" ns"))
        self.assertEqual(got["dropped"], lost)
        self.assertGreater(lost, 0)
        copy = self.path("copy")
        self.assertEqual(kinds(self.play(faults=["shuffle-records"], PITOT_TAPE=copy)), kinds(self.summary()))
        self.assertNotEqual(events(copy), events(self.tape))

    def test_fatal_state(self):
        got = self.play(faults=["state fatal at 400"])
        self.assertEqual(got["fatal"], 1)
        self.assertLess(got.get("domain_1", 0), 2 * CALLS)

    def test_correlation_ids_wrap(self):
        shift = 2**32 - 200
        self.assertEqual(self.play(faults=[f"shift-correlation {shift}"])["last_correlation"],
                         (CALLS + shift) % 2**32)

    def test_realtime_steps(self):
        before, after = self.path("before"), self.path("after")
        self.play(PITOT_TAPE=before)
        self.play(faults=["step-realtime 5000ms at 600"], PITOT_TAPE=after)
        ends = [max(int(line.split()[4].split("=")[1]) for line in events(tape).splitlines() if " end=" in line
                    and line.split()[0] == "CONCURRENT_KERNEL") for tape in (before, after)]
        self.assertEqual(ends[1] - ends[0], 5_000_000_000)

    def test_delay(self):
        self.assertTrue(self.play(faults=["delay cuptiActivityFlushAll 20ms"]))

    def test_script_errors_are_named(self):
        for line in "call cuptiNothing returns 1", "zero-times", "version x", "nonsense", "x" * 300:
            with open(self.path("faults"), "w", encoding="utf-8") as file:
                file.write("version 22\n" + line + "\n")
            result = tool("tape-play", "--faults", self.path("faults"), self.tape)
            self.assertEqual(result.returncode, 1)
            self.assertIn("line 2", result.stderr)


@unittest.skipUnless(os.path.exists(PITOT), "libpitot.so has not been built")
class Recorder(Case):
    """The real recorder, unmodified."""

    def record(self, *options, tape=None, status=0, **variables):
        folder = tempfile.mkdtemp(dir=self.folder.name)
        result = tool("tape-play", *options, tape or self.tape,
                      env=environment(PITOT, PITOT_RECORDING=folder, **variables))
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertTrue(glob.glob(os.path.join(folder, "*.pit")))

    def test_plays(self):
        for tape in [self.tape, *TAPES]:
            for options in [], ["--parallel", "--rate", "0"], ["--repeat", "2", "--now"]:
                with self.subTest(tape=os.path.basename(tape), options=options):
                    self.record(*options, tape=tape)

    def test_nvtx_comes_back(self):
        for number, tape in enumerate([self.tape, *TAPES]):
            with self.subTest(tape=os.path.basename(tape)):
                copy = self.path(f"nvtx{number}")
                self.record(tape=tape, PITOT_TAPE=copy)
                calls = [[nvtx_call(line) for line in events(path).splitlines() if " NVTX " in line]
                         for path in (tape, copy)]
                self.assertEqual(calls[1], calls[0])

    def test_record_tape_makes_one_in_one_command(self):
        """Whatever the command does, the tape ends after it, and its recorder was told what is on it."""
        copy = self.path("copy")
        result = subprocess.run([os.path.join(SOURCE, "standin", "record-tape"), copy, "--graphs", "launch", "--",
                                 os.path.join(STANDIN, "tape-play"), self.tape],
                                env={**environment(""), "PITOT_BUILD": BUILD}, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        played, made = self.summary(), self.summary(copy)
        self.assertEqual(made["complete"], 1)
        self.assertEqual([made[name] for name in ("CONCURRENT_KERNEL", "MEMCPY", "nvtx", "cupti", "driver")],
                         [played[name] for name in ("CONCURRENT_KERNEL", "MEMCPY", "nvtx", "cupti", "driver")])
        self.assertIn("cuDeviceGetName(0) = 0", tool("tape-dump", copy).stdout)
        self.record(tape=copy)

    def test_the_library_knows_nothing_of_tapes(self):
        with open(PITOT, "rb") as file:
            code = file.read()
        self.assertNotIn(b"PITOT_TAPE", code)
        self.assertNotIn(b"tape_put", code)

    def test_endings(self):
        for how, status in Leaving.ENDINGS.items():
            with self.subTest(how=how):
                self.record("--exit", how, status=status, ASAN_OPTIONS=Leaving.SANITIZER)

    def test_faults(self):
        required = ["GetVersion", "GetTimestamp", "Subscribe", "EnableCallback", "ActivityRegisterCallbacks",
                    "ActivityEnable", "ActivityFlushAll", "ActivityGetNextRecord", "ActivityGetNumDroppedRecords"]
        optional = ["Subscribe_v2", "SetThreadIdType", "GetContextId", "GetStreamIdEx", "GetGraphId", "GetGraphNodeId"]
        scripts = [f"call cupti{name} returns {error}" for name in required + optional for error in (1, 15, 39, 999)]
        scripts += [f"call cupti{name}#2 returns 999" for name in required]
        scripts += [f"missing cupti{name}" for name in required + optional]
        scripts += [f"call cu{name} returns 100" for name in ("DriverGetVersion", "DeviceGetCount", "DeviceGet",
                                                              "DeviceGetName", "DeviceGetAttribute")]
        scripts += [f"version {v}" for v in (18, 19, 22, 24, 26, 28, 130000, 130100, 130300, 0x7fffffff)]
        scripts += ["zero-times every 2", "reverse-times every 2", "incomplete every 2", "bad-kind every 2",
                    "null-name every 2", "hostile-names every 2", "huge-names 65536", "storm 20000-names",
                    "drop-buffer 1", "shuffle-records", "shift-correlation 4294967000", "state fatal at 300",
                    "step-realtime 5000ms at 600", "step-realtime -5000ms at 600", "delay cuptiActivityFlushAll 50ms"]
        kinds_tape = [tape for tape in TAPES if tape.endswith("kinds.tape")] or [self.tape]
        for script in scripts:
            with self.subTest(fault=script):
                with open(self.path("faults"), "w", encoding="utf-8") as file:
                    file.write(script + "\n")
                self.record("--faults", self.path("faults"), tape=kinds_tape[0],
                            PITOT_OPTIONS="sync=1;memory=1;api=all")

    def test_hanging_gpu_does_not_keep_the_program(self):
        self.record("--hang-at-exit")


if __name__ == "__main__":
    unittest.main()
