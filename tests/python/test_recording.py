"""Recordings that a Python program makes of itself. Each program runs with the oldest and the newest CPython, some with all of them."""
import json
import os
import re
import shutil
import subprocess
import textwrap
from collections import Counter

import pytest

from package_pythons import EVERY, FREE_THREADED, SOME, state


@EVERY
def test_a_block_is_recorded(run, rows, spans, tmp_path, python):
    """Again and again, several at once, with all that a program says."""
    said = run("""
        tokens, loss = pitot.counter("tokens", "tokens", "seen"), pitot.gauge("loss")
        paths = []
        for i in range(2):
            with pitot.record("step-%d.pitot" % i, app_name="train", graphs="launch", counters_ns=0) as rec:
                with pitot.scope("outer"), pitot.scope("inner"):
                    tokens.add(40)
                    tokens.add()
                with pitot.record() as second, pitot.scope("both"):
                    loss.set(0.25)
                pitot.mark("a mark")
            paths += [rec.path, second.path]
        with pitot.scope("outside"):
            pass
        print(json.dumps(paths))
        """, python)
    assert [os.path.dirname(path) for path in said] == [str(tmp_path)] * 4
    assert said[0::2] == [str(tmp_path / f"step-{i}.pitot") for i in range(2)]
    for path in map(tmp_path.joinpath, said[0::2]):
        assert spans(path) == "outer( inner( ) ) both( ) a mark"
        assert state(path) == "ended" and json.loads((path / "recording.json").read_text())["name"] == "train"
        values = {row["counter"]: row["value"] for row in rows(path, "counter_sample")}
        assert values["loss"] == 0.25 and values["tokens"] in (41, 82)
        settings, = [row["actual"] for row in rows(path, "capability") if row["name"] == "settings"]
        assert settings == "graphs=launch (code), counters=off (code)"
    for path in map(tmp_path.joinpath, said[1::2]):
        assert spans(path) == "both( )" and state(path) == "ended"


@SOME
def test_python_frames_end_with_the_session_that_wants_them(run, rows, tmp_path, python):
    """A session beside it that wants native stacks alone has those from then on, until another one wants Python frames."""
    run("""
        import time

        def spin():
            end = time.process_time() + 0.5
            while time.process_time() < end:
                pass

        def with_both(): spin()
        def native_alone(): spin()
        def with_both_again(): spin()

        with pitot.record("native", cpu=500, stacks="native"):
            with pitot.record("first", cpu=500, stacks="all"):
                with_both()
            native_alone()
            with pitot.record("second", cpu=500, stacks="all"):
                with_both_again()
        print(0)
        """, python)
    names = {recording: {row["function"] for row in rows(tmp_path / recording, "stack_node")}
             for recording in ("native", "first", "second")}
    assert "with_both" in names["first"] and "with_both_again" in names["second"]
    assert {"with_both", "with_both_again"} <= names["native"] and "native_alone" not in names["native"]
    seconds = {recording: sum(row["weight_ns"] for row in rows(tmp_path / recording, "cpu_sample")) / 1e9 for recording in names}
    assert seconds["native"] > seconds["first"] + seconds["second"] + 0.3, seconds  # it has samples of the time in between


def test_only_the_end_is_kept(run, rows, pitot, tmp_path):
    """Whatever was removed, the rest is a recording, and says so."""
    run("""
        loss = pitot.gauge("loss")
        with pitot.record("end.pitot", ring_bytes=1 << 16, counters_ns=0, app_name="train") as rec:
            for step in range(60):
                with pitot.scope("step %d" % step):
                    for i in range(2000):
                        loss.set((step * 2000 + i) * 0.37 % 1)
                rec.flush()
        print(0)
        """)
    folder = tmp_path / "end.pitot"
    numbers = sorted(int(path.name.split(".")[1]) for path in folder.glob("[0-9]*.pit"))
    assert numbers[0] > 0 and numbers == list(range(numbers[0], numbers[-1] + 1))
    assert sum(path.stat().st_size for path in folder.glob("[0-9]*.pit")) < 3 << 16
    said = {row["name"]: row["actual"] for row in rows(folder, "capability")}
    assert said["ring"] == "64.0 KiB" and said["app_name"] == "train"
    scopes = [row["message"] for row in rows(folder, "nvtx") if row["message"]]
    assert scopes[-1] == "step 59" and "step 0" not in scopes
    shown = pitot("info", "--verify", folder).stdout
    assert re.search(rf"overwritten +{numbers[0]}\b", shown) and "missing_segment" not in shown


def test_the_last_recording_is_stopped(run, spans, tmp_path):
    said = run("""
        said = [pitot.stop()]
        first, second = pitot.start("first.pitot"), pitot.start("second.pitot")
        with pitot.scope("both"):
            pass
        said += [pitot.stop() is second, repr(first).endswith("first.pitot'>")]
        with pitot.scope("one"):
            pass
        said += [pitot.stop() is first, pitot.stop()]
        print(json.dumps(said))
        """)
    assert said == [None, True, True, True, None]
    assert spans(tmp_path / "first.pitot") == "both( ) one( )" and spans(tmp_path / "second.pitot") == "both( )"


@SOME
def test_exceptions_leave_a_complete_recording(run, spans, tmp_path, python):
    """An exception, KeyboardInterrupt, a function: the recording is complete."""
    said = run("""
        import signal
        seen = []
        for name, end in ("error", lambda: 1 / 0), ("interrupt", lambda: signal.raise_signal(signal.SIGINT)):
            try:
                with pitot.record(name), pitot.scope(name):
                    end()
            except (ZeroDivisionError, KeyboardInterrupt) as e:
                seen.append(type(e).__name__)

        @pitot.record(app_name="f")
        @pitot.scope("in f")
        def f(a, *, b):
            "What f does."
            return a + b

        rec = pitot.record(app_name="again")
        for _ in range(2):
            with rec:
                pass
        seen += [f(1, b=2), f(3, b=4), f.__name__, f.__doc__]
        print(json.dumps(seen))
        """, python)
    assert said == ["ZeroDivisionError", "KeyboardInterrupt", 3, 7, "f", "What f does."]
    assert [spans(tmp_path / name) for name in ("error", "interrupt")] == ["error( )", "interrupt( )"]
    assert len(list(tmp_path.glob("again-*.pitot"))) == 2
    of_f = list(tmp_path.glob("f-*.pitot"))
    assert [spans(path) for path in of_f] == ["in f( )"] * 2
    assert {state(path) for path in [*of_f, tmp_path / "error", tmp_path / "interrupt"]} == {"ended"}


@SOME
def test_the_process_ends_first(run, spans, tmp_path, python):
    """What is still recorded when the process ends is complete, also after os._exit."""
    run("""
        pitot.start("kept.pitot")
        rec = pitot.start("dropped.pitot")
        del rec
        pitot.scope("open").__enter__()
        sys.exit(3)
        """, python, status=3)
    assert [(spans(tmp_path / name), state(tmp_path / name)) for name in ("kept.pitot", "dropped.pitot")] == [("open(", "ended")] * 2
    run("""
        rec = pitot.start("left.pitot")
        with pitot.scope("before"):
            pass
        rec.flush()
        os._exit(4)
        """, python, status=4)
    assert spans(tmp_path / "left.pitot") == "before( )" and state(tmp_path / "left.pitot") == "ended"


@SOME
def test_a_fork_within(run, rows, spans, tmp_path, python):
    """The child records nothing, whichever way it ends, until it starts a recording of its own; the parent's goes on."""
    run("""
        with pitot.record("parent.pitot") as rec:
            for way in "leave", "exit", "own":
                pid = os.fork()
                if not pid:
                    with pitot.scope("in child"):
                        pass
                    if way == "leave":
                        break
                    if way == "exit":
                        rec.stop()
                        sys.exit(0)
                    with pitot.record("child.pitot") as own, pitot.scope("of child"):
                        own.flush()
                        os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            else:
                with pitot.scope("after"):
                    pass
        """, python)
    assert spans(tmp_path / "parent.pitot") == "after( )" and state(tmp_path / "parent.pitot") == "ended"
    assert len({row["pid"] for row in rows(tmp_path / "parent.pitot", "process")}) == 1
    assert spans(tmp_path / "child.pitot") == "of child("


@SOME
def test_path_open_and_report_of_a_recording(run, tmp_path, pitot, python):
    """path, open() and report(), of a recording that runs, too; a report is printed by whom it is given to, once."""
    said = run("""
        import contextlib, io, shutil
        rec = pitot.start("a.pitot")
        with pitot.scope("first"):
            pass
        running = rec.open().tables["nvtx"], repr(rec).endswith("a.pitot'>")
        with pitot.scope("<second>"):
            pass
        rec.stop()
        rec.stop()
        with pitot.start() as second:
            pass
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            print(rec.report(), end="")
            report = rec.report()
            sys.ps1 = ">>> "
            again = rec.report()
        shutil.rmtree(second.path)
        try:
            second.report()
        except pitot.Error as e:
            gone = str(e)
        print(json.dumps([gone, running, rec.open().tables["nvtx"], repr(rec), out.getvalue(), report, repr(again), again._repr_html_()]))
        """, python)
    command = pitot("report", tmp_path / "a.pitot").stdout
    gone = said.pop(0)
    assert gone.startswith("cannot open") and "No such file or directory" in gone
    assert said[:2] == [[2, True], 4] and said[2].endswith("a.pitot', ended>")
    assert "<second>" in command and said[3:6] == [command] * 3
    assert said[6].startswith("<iframe") and "&amp;lt;second&amp;gt;" in said[6] and "<second>" not in said[6]


@SOME
def test_mistakes(run, tmp_path, python):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    said = run("""
        def say(f):
            try:
                f()
            except Exception as e:
                return "%s: %s" % (type(e).__name__, e)
            return "nothing"

        def twice():
            rec = pitot.record("twice.pitot")
            with rec, rec:
                pass

        async def coroutine():
            pass

        def generator():
            yield

        print(json.dumps([say(f) for f in (
            lambda: pitot.record(stcks="all"),
            lambda: pitot.record(zzz=None),
            lambda: pitot.start(stacks="pyton"),
            lambda: pitot.start(stacks=1),
            lambda: pitot.start(sync=1),
            lambda: pitot.start(max_bytes=1.5),
            lambda: pitot.start(counters_ns=-1),
            lambda: pitot.start(counters_ns=2 ** 64),
            lambda: pitot.start(3),
            lambda: pitot.start("full"),
            lambda: pitot.start("/sys/none.pitot"),
            lambda: pitot.start("no/parent"),
            lambda: pitot.start("x", config_file="none.json"),
            twice,
            lambda: pitot.scope("x")(coroutine),
            lambda: pitot.record()(generator),
            lambda: pitot.scope(3),
            lambda: pitot.scope([]),
            lambda: pitot.mark(3),
            lambda: pitot.scope("x").iterate(-1),
            lambda: pitot.external_push(8, 1),
            lambda: pitot.recrd,
            lambda: pitot.start().stop(),
        )] + [pitot.external_push(0, 1), pitot.external_pop(0)]))
        """, python)
    expected = """
        TypeError: a recording has no setting 'stcks', did you mean 'stacks'?
        TypeError: a recording has no setting 'zzz'; docs/embed.md has all of them
        UsageError: stacks takes none, native, python or all, not 'pyton'
        TypeError: stacks must be a str, not 1
        TypeError: sync must be True or False, not 1
        TypeError: max_bytes must be an int, not 1.5
        UsageError: counters_ns must be from 0 to 2^64 - 1, not -1
        UsageError: counters_ns must be from 0 to 2^64 - 1, not 18446744073709551616
        TypeError: expected str, bytes or os.PathLike object, not int
        FileError: 'full' is not empty; name a new folder
        FileError: cannot create '/sys/none.pitot'
        FileError: cannot create 'no/parent': its parent folder does not exist
        """
    said[10] = said[10].rpartition(": ")[0]  # not permitted, permission denied or read-only
    assert said[:12] == textwrap.dedent(expected).strip().splitlines()
    assert said[12].startswith("FileError: ") and "none.json" in said[12]
    said[17] = said[17].replace("cannot use 'list' as a dict key (unhashable type: 'list')", "unhashable type: 'list'")  # CPython 3.15
    assert said[13:20] == [
        "UsageError: this recording is running already: call pitot.record() again for another one",
        "UsageError: coroutine is async or a generator, whose call ends before its body runs: use `with` in its body, around what it does between two waits",
        "UsageError: generator is async or a generator, whose call ends before its body runs: use `with` in its body, around what it does between two waits",
        "TypeError: the name of a scope must be a str, not 3", "TypeError: unhashable type: 'list'",
        "TypeError: the text of a mark must be a str, not 3",
        "UsageError: repeat=-1, warmup=0: a body runs from 0 to 2^32 - 1 times"]
    assert said[20:] == ["UsageError: 8 is not a kind of external correlation: kinds are 0 to 7",
                         "AttributeError: module 'pitot' has no attribute 'recrd'", "nothing", False, None]


def test_a_wrong_environment(run):
    said = run("""
        try:
            pitot.start()
        except pitot.UsageError as e:
            print(json.dumps(str(e)))
        """, PITOT_GRAPHS="nodes")
    assert said == "PITOT_GRAPHS takes launch or node, not 'nodes'"


def test_a_late_engine_warns(run, launcher, tmp_path):
    """Of an engine that comes too late; the trace is there."""
    said = run("""
        import ctypes, warnings
        ctypes.CDLL(os.environ["LAUNCHER"]).launch()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            pitot.start("a.pitot", engine="pc-sampling").stop()
            warnings.simplefilter("error")
            try:
                pitot.start("b.pitot", engine="pc-sampling")
            except RuntimeWarning as e:
                error = str(e)
        print(json.dumps([[str(w.message) for w in seen], os.path.basename(seen[0].filename), error]))
        """, **launcher)
    text = said[2]
    assert text.startswith("engine pc-sampling: contexts that existed before are not sampled")
    assert said == [[text], "program.py", text] and state(tmp_path / "b.pitot") == "ended"


@SOME
def test_switched_off(run, tmp_path, python):
    """The program runs as if nothing was asked for."""
    code = """
        with pitot.record("a.pitot", enabled=%s) as rec, pitot.scope("x"):
            path = rec.path
        sys.ps1 = ">>> "
        try:
            rec.open()
        except pitot.Error as e:
            print(json.dumps([path, str(e), rec.report()]))
        """
    nothing = "nothing was recorded: recording is switched off, by PITOT_DISABLED or a setting"
    expected = [None, nothing, f"{nothing}\n"]
    assert run(code % True, python, PITOT_DISABLED="1") == run(code % False, python) == expected
    assert not (tmp_path / "a.pitot").exists()


def test_reading_loads_no_recorder(run):
    code = """
        before = [name for name in sys.modules if name.startswith("pitot")]
        pitot.scope
        print(json.dumps([before, "libpitot.so" in open("/proc/self/maps").read(), pitot._record.library()]))
        """
    before, loaded, (library, why) = run(code)
    assert sorted(before) == ["pitot", "pitot._read"] and loaded and library.endswith("python/pitot/libpitot.so") and why == ""


LIBRARY = """
from pitot import _record
pitot.scope("x")
loaded = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "libpitot.so" in line}
print(json.dumps([_record.library()[0], sorted(loaded)]))
"""


@pytest.mark.parametrize("cpu", ["--no-cpu", "--cpu"])
def test_the_injected_recorder_is_used(run, folder, plain, spans, tmp_path, cpu):
    """Under `pitot record` it is the one that it brings, loaded already (--cpu) or when CUDA starts, and not that of the package."""
    other = tmp_path / "other place"
    other.mkdir()
    for name in ("libpitot.so", "libpitot-preload.so"):
        shutil.copy(plain / name, other)
    wrap = [plain / "pitot", "record", "-q", cpu, "-o", tmp_path / "rec", "--", "env", "-u", "PITOT_LIBRARY"]
    code = LIBRARY + """
with pitot.record("own.pitot"), pitot.scope("mine"):
    pass
"""
    library, loaded = run(code, wrap=wrap, PITOT_LIBRARY=str(other / "libpitot.so"))
    assert library == str(other / "libpitot.so") and loaded == [library]
    assert spans(tmp_path / "own.pitot") == "mine( )"
    assert run(LIBRARY)[0] == str(folder / "pitot/libpitot.so")
    assert run(LIBRARY, PITOT_LIBRARY=library)[0] == library
    assert run(LIBRARY, CUDA_INJECTION64_PATH="/none/libpitot.so", PITOT_LIBRARY="/none/other.so")[0] == str(folder / "pitot/libpitot.so")


def test_a_recorder_that_is_deleted_is_still_used(run, plain, tmp_path):
    shutil.copy(plain / "libpitot.so", tmp_path / "libpitot.so.9")
    library, loaded = run("""
        import ctypes
        ctypes.CDLL(os.path.abspath("libpitot.so.9"))
        os.unlink("libpitot.so.9")
        """ + textwrap.indent(LIBRARY, " " * 8))
    assert library == str(tmp_path / "libpitot.so.9") and loaded == [f"{library} (deleted)"]


def test_without_a_recorder(run, folder, source, tmp_path):
    """As on another platform: what a program says of itself does nothing, and recording says why not."""
    shutil.copytree(source / "python/pitot", tmp_path / "pitot")
    for module in (folder / "pitot").glob("_re*.so"):
        shutil.copy(module, tmp_path / "pitot")
    for library in folder.parent.glob("libpitotread.so*"):
        shutil.copy(library, tmp_path / "pitot")
    code = """
        with pitot.scope("x"):
            pitot.mark("x")
            pitot.counter("x").add(3)
            pitot.gauge("y").set(3)
        said = [list(pitot.scope("x").iterate(2, 1)), pitot.external_push(1, 1), pitot.external_pop(1)]
        try:
            pitot.start()
        except pitot.Error as e:
            said.append(str(e))
        print(json.dumps(said))
        """
    said = run(code, PYTHONPATH=str(tmp_path))
    assert said[:3] == [[0, 1, 2], False, None]
    assert re.fullmatch(r"no recorder was found \(cannot load '.*/pitot/libpitot.so': .*No such file or directory\); it needs Linux "
                        r"on x86-64 or aarch64, and is part of the package: `pip install .`", said[3])
    # One that is older is the one that records here, all the same.
    if not shutil.which("cc"):
        return
    (tmp_path / "old.c").write_text("int pitot_start(void) { return 0; }")
    subprocess.run(["cc", "-shared", tmp_path / "old.c", "-o", tmp_path / "pitot/libpitot.so"], check=True)
    assert "libpitot.so' is an older recorder, without pitot_gauge); it needs" in run(code, PYTHONPATH=str(tmp_path))[3]


@SOME
def test_scopes(run, rows, spans, tmp_path, python):
    said = run("""
        import threading
        with pitot.record("a.pitot"):
            scope = pitot.scope("again")
            with scope, scope:
                pass
            for i in pitot.scope("runs").iterate(repeat=2, warmup=1):
                pitot.mark(str(i))
            for i in pitot.scope("broken off").iterate(5):
                break
            pitot.scope.__doc__.index("named span")
            with pitot.scope("no \\udc80 text \u00e9"):
                pass
            same = [pitot.scope("n%d" % i) for i in range(6000)]
            try:
                with scope:
                    raise KeyError
            except KeyError:
                pitot.mark("outside")
        with pitot.record("threads.pitot"):
            def work():
                for _ in range(100):
                    with pitot.scope("outer"), scope:
                        pass
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        print(json.dumps([repr(type(scope)), pitot.scope("again") is scope, same[0] is pitot.scope("n0"), same[-1] is pitot.scope("n5999")]))
        """, python)
    assert said == ["<class 'pitot._recorder.Scope'>", True, True, False]
    assert spans(tmp_path / "a.pitot") == ("again( again( ) ) runs( 0 1 2 ) broken off( ) no ? text \u00e9( ) again( ) outside")
    runs, broken = [row for row in rows(tmp_path / "a.pitot", "nvtx") if row["payload_kind"] == "runs"]
    assert runs["payload"] == 2 | 1 << 32 and broken["payload"] == 5
    of_threads = rows(tmp_path / "threads.pitot", "nvtx")
    assert len({row["thread"] for row in of_threads}) == 4
    assert len([row for row in of_threads if row["message"] == "again" and row["level"] == 1]) == 400


@EVERY
def test_cpu_samples_have_python_frames(run, tmp_path, pitot, python):
    run("""
        import time
        def burn():
            end = time.process_time() + 0.4
            while time.process_time() < end:
                sum(i for i in range(500))
        with pitot.record("a.pitot", cpu=499):
            burn()
        """, python)
    folded = pitot("flame", tmp_path / "a.pitot", "--format", "folded").stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines() if "burn" in line) > 0


@SOME
def test_launches_have_python_frames_from_the_first_on(run, launched_from, tmp_path, launcher, python):
    run("""
        import ctypes
        launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch
        def step(): launch()
        with pitot.record("none", stacks="none"):
            step()
        with pitot.record("first", stacks="all"):
            step()
            step()
        print(0)
        """, python, **launcher)
    assert launched_from(tmp_path / "first", "step") == (2, 2)


@pytest.mark.parametrize("delay_ms, pause_s, launches", [(400, 0, [1, 1]), (3000, 0, [1, 0]), (3000, 4, [1, 1])])
def test_a_recording_after_one_that_ends_late(run, rows, launched_from, tmp_path, launcher, delay_ms, pause_s, launches):
    """CUPTI is waited for a moment; a recording that cannot have it says so, and the one after that has it again."""
    (tmp_path / "faults").write_text(f"delay cuptiUnsubscribe {delay_ms}ms\n")
    run(f"""
        import ctypes, time
        launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch
        for i in range(2):
            with pitot.record("r%d" % i):
                launch()
            time.sleep({pause_s})
        """, PITOT_STANDIN_FAULTS=str(tmp_path / "faults"), **launcher)
    assert [launched_from(tmp_path / f"r{i}", "<module>")[1] for i in range(2)] == launches
    reasons = [row["reason"] for i in range(2) for row in rows(tmp_path / f"r{i}", "capability") if row["name"] == "cupti"]
    assert "has not left CUPTI yet" not in reasons[0] and ("has not left CUPTI yet" in reasons[1]) == (launches[1] == 0)


@SOME
def test_an_engine_for_a_while(run, rows, tmp_path, launcher, python):
    """Again and again, in a block, for a time and until the recording ends; one at a time, and what is missing is told."""
    said = run("""
        import ctypes, threading, time, warnings
        launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch

        def say(f):
            try:
                return f()
            except Exception as e:
                return "%s: %s" % (type(e).__name__, e)

        said = []
        with pitot.record("a.pitot", counters_ns=0, pm_interval_ns=1000000) as rec:
            launch()
            for _ in range(2):
                with rec.engine("range-profiler") as armed:
                    launch()
                    said.append(say(lambda: rec.engine("pm-sampling")))
                launch()
                armed.end()
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                rec.engine("pc-sampling").end()
                warnings.simplefilter("error")
                said.append(say(lambda: rec.engine("pc-sampling")))
            said += [[str(w.message) for w in seen], os.path.basename(seen[0].filename)]
            said += [say(lambda: rec.engine(engine)) for engine in ("trace", "pm-smpling", 3, None)]
            said += [say(lambda: rec.engine("pm-sampling", delay_ns=time)) for time in (-1, 2 ** 64, 1.5)]
            rec.engine("pm-sampling", delay_ns=10 ** 18)
            rec.engine("range-profiler", duration_ns=50000000) if say(lambda: rec.engine("range-profiler")) is None else None
            left = rec.engine("pm-sampling") if say(lambda: rec.engine("sass-metrics")) is None else None
            held, forked = threading.Event(), threading.Event()
            def hold():  # as another thread may in a call
                with pitot._recorder._in_use:
                    held.set()
                    forked.wait()
            holder = threading.Thread(target=hold)
            holder.start()
            held.wait()
            if not os.fork():
                with open("child", "w") as file:
                    print(say(lambda: rec.engine("pm-sampling")), file=file)
                os._exit(0)
            forked.set()
            holder.join()
            os.wait()
            threads = [threading.Thread(target=f) for f in [rec.stop] + [lambda: say(lambda: rec.engine("pm-sampling").end())] * 3]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        said += [say(lambda: rec.engine("pm-sampling")), say(armed.end), open("child").read()]
        with pitot.record(enabled=False) as off, off.engine("pm-sampling"):
            said.append(off.path)
        print(json.dumps(said))
        """, python, **launcher)
    missing = "contexts that existed before are not sampled: start the session before CUDA is initialized"
    busy = "Error: engine range-profiler is on or armed, and only one can be at a time: end it with pitot_engine_end, or end its recording"
    assert said[:2] == [busy] * 2
    assert said[2:5] == [f"RuntimeWarning: {missing}", [missing], "program.py"]
    assert said[5:9] == ["UsageError: the engine must be one beyond trace, such as pc-sampling, not 'trace'",
                         "UsageError: engine takes monitor, trace, pc-sampling, range-profiler, pm-sampling, sass-metrics or deep, not 'pm-smpling'",
                         "TypeError: engine must be a str, not 3", "UsageError: the engine must be one beyond trace, such as pc-sampling, not None"]
    assert said[9:12] == ["UsageError: delay_ns must be from 0 to 2^64 - 1, not -1", "UsageError: delay_ns must be from 0 to 2^64 - 1, not 18446744073709551616",
                           "TypeError: delay_ns must be an int, not 1.5"]
    assert said[12:] == ["Error: the recording has ended", None, "Error: the recording belongs to the parent process; start one here\n", None]
    windows = [(row["state"], row["requested"]) for row in rows(tmp_path / "a.pitot", "capability") if row["name"] == "engine_window"]
    assert windows[:8] == [(state, engine) for engine in ["range-profiler"] * 2 + ["pc-sampling"] * 2 for state in ("on", "off")]
    launches = [row["correlation"] for row in rows(tmp_path / "a.pitot", "api_call") if row["correlation"]]
    assert len(launches) == 5 and sorted({row["correlation"] for row in rows(tmp_path / "a.pitot", "metric_value")}) == [launches[1], launches[3]]


@SOME
def test_dumps(run, program, folder_of, environment, launcher, tmp_path, python):
    """Only below `pitot record --ring`; of a process that has recorded nothing there is what the launcher says."""
    said = run("""
        try:
            pitot.dump("none.pitot")
        except Exception as e:
            print(json.dumps(str(e)))
        """, python)
    assert "does not record this process" in said and not (tmp_path / "none.pitot").exists()
    script = "import pitot; print(pitot.dump('all.pitot'), pitot.dump(last=5.5))"
    made = subprocess.run([program, "record", "--ring", "1M", "-o", "r.pitot", "-q", "--", python["path"], "-c", script], cwd=tmp_path,
                          capture_output=True, text=True,
                          env={**environment, "PYTHONPATH": str(folder_of(python)), **launcher})
    assert made.stdout == "0 0\n", made.stderr
    assert (tmp_path / "all.pitot" / "record.0.pit").exists() and len(list(tmp_path.glob("dump-*.pitot"))) == 1
