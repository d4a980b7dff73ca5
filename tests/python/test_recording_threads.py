"""Recordings of a Python program by threads and workers, many at once, and that they leave nothing."""
import json
import subprocess
from collections import Counter

from package_pythons import FREE_THREADED, SOME, state


@SOME
def test_threads_enter_the_same_recording(run, tmp_path, python):
    """One has it, the others an error; what fails to start, and what has ended, can be entered again."""
    said = run("""
        import threading
        rec, barrier, results = pitot.record(), threading.Barrier(8), []
        def enter():
            barrier.wait()
            try:
                with rec:
                    results.append("entered")
                    barrier.wait()
            except pitot.UsageError:
                results.append("refused")
                barrier.wait()
        for _ in range(3):
            threads = [threading.Thread(target=enter) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        full = pitot.record(".")
        for _ in range(2):
            try:
                full.__enter__()
            except pitot.FileError:
                results.append("full")
        print(json.dumps(sorted(results)))
        """, python)
    assert said == ["entered"] * 3 + ["full"] * 2 + ["refused"] * 21
    assert [state(path) for path in tmp_path.glob("*.pitot")] == ["ended"] * 3


WORKERS = """
import json, multiprocessing, os, sys, pitot

def work(item):
    name, tokens, parent = item
    with pitot.scope("outside"):
        tokens.add(1)
    with pitot.record(name) as rec, pitot.scope("in " + name):
        tokens.add(2)
    return rec.open().tables["nvtx"], pitot.open(parent).is_growing, rec

if __name__ == "__main__":
    tokens, done = (pitot.counter("first"), pitot.gauge("second"), pitot.counter("tokens"))[2], []
    for way in "fork", "spawn", "forkserver":
        with pitot.record(way) as rec, pitot.scope("parent"):
            with multiprocessing.get_context(way).Pool(2) as pool:
                items = [("%s-%d" % (way, i), tokens, rec.path) for i in range(3)]
                done += [(rows, growing, repr(child)) for rows, growing, child in pool.map(work, items)]
            try:
                pool = multiprocessing.reduction.ForkingPickler.dumps(rec)
            except TypeError as e:
                done.append(str(e))
    print(json.dumps(done))
"""


@SOME
def test_workers(folder_of, environment, rows, spans, tmp_path, python):
    """Each records itself, and what it was given: counters by name, and no recording that runs."""
    (tmp_path / "program.py").write_text(WORKERS)
    said = subprocess.run([python["path"], "program.py"], cwd=tmp_path, capture_output=True, text=True,
                          env={**environment, "PYTHONPATH": str(folder_of(python)), "PITOT_OPTIONS": "cuda=0"})
    assert said.returncode == 0, said.stderr
    done = json.loads(said.stdout)
    for way, done in zip(("fork", "spawn", "forkserver"), (done[:4], done[4:8], done[8:])):
        assert done[:3] == [[2, True, f"<pitot.Running '{tmp_path}/{way}-{i}', ended>"] for i in range(3)]
        assert done[3] == "a running recording cannot be copied or pickled: pass its path to pitot.open()"
        assert spans(tmp_path / way) == "parent( )" and spans(tmp_path / f"{way}-1") == f"in {way}-1( )"
        values = {row["counter"]: row["value"] for row in rows(tmp_path / f"{way}-2", "counter_sample")}
        assert list(values) == ["tokens"] and values["tokens"] in (2, 4, 6), values


def test_many_that_nobody_stops(run, spans, tmp_path):
    """A stop beside others takes a fifth of a second at least. The exit has time for ten; the others are complete all the same."""
    run("""
        import pitot._recorder as recorder
        class Counting:
            def __getattr__(self, name):
                if name in ("stop", "leave"):
                    with open(name, "a") as file:
                        file.write("x")
                return getattr(_record, name)
        _record, recorder._record = recorder._record, Counting()
        for i in range(100):
            pitot.start("%02d.pitot" % i, counters_ns=0)
        with pitot.scope("all"):
            pass
        """)
    stopped, left = (len((tmp_path / name).read_text()) for name in ("stop", "leave"))
    assert 1 <= stopped <= 11 and stopped + left == 100
    assert [state(path) for path in tmp_path.glob("*.pitot")] == ["ended"] * 100
    assert [spans(tmp_path / f"{i:02}.pitot") for i in (0, 50, 99)] == ["all( )"] * 3


@FREE_THREADED
def test_threads_without_the_gil(run, rows, launched_from, tmp_path, launcher, python):
    """All at once: what a program says of itself, launches, recordings that come and go, and the end of the one they are in."""
    said = run("""
        import ctypes, threading
        launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch
        def launch_from(i): launch()
        barrier, failures, done = threading.Barrier(17), [], threading.Event()

        def work(i):
            barrier.wait()
            try:
                for j in range(100):
                    with pitot.scope("shared %d" % (j % 7)), pitot.scope("own %d %d" % (i, j)):
                        pitot.counter("sum").add(i)
                        assert pitot.external_push(1, i * 1000 + j) and pitot.external_pop(1) == i * 1000 + j
                        launch_from(i)
                    pitot.gauge("own %d" % i).set(j)
                    if i < 3 and j % 20 == 0:
                        with pitot.record("beside-%d-%d" % (i, j), stacks="python"), pitot.scope("beside"):
                            launch_from(i)
                barrier.wait()
                while not done.is_set():  # it ends meanwhile
                    with pitot.scope("late"):
                        pitot.counter("sum").add(0)
                        launch_from(i)
            except BaseException as e:
                failures.append(repr(e))
                barrier.abort()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
        rec = pitot.start("a.pitot", stacks="all")
        for thread in threads: thread.start()
        barrier.wait()
        barrier.wait()
        rec.flush()
        stops = [threading.Thread(target=rec.stop) for _ in range(3)]
        for thread in stops: thread.start()
        for thread in stops: thread.join()
        done.set()
        for thread in threads: thread.join()
        print(json.dumps([sys._is_gil_enabled(), failures]))
        """, python, **launcher)
    assert said == [False, []] and state(tmp_path / "a.pitot") == "ended"
    names = Counter(row["message"] for row in rows(tmp_path / "a.pitot", "nvtx") if row["kind"] == "push" and row["message"] != "late")
    assert {name: n for name, n in names.items() if name.startswith("shared")} == {f"shared {k}": 16 * (15 if k < 2 else 14) for k in range(7)}
    assert sum(name.startswith("own") for name in names) == 1600
    values = {row["counter"]: row["value"] for row in rows(tmp_path / "a.pitot", "counter_sample")}
    assert values["sum"] == 100 * sum(range(16)) and all(values[f"own {i}"] == 99 for i in range(16))
    for path, least in [(tmp_path / "a.pitot", 1615), *((path, 1) for path in tmp_path.glob("beside-*"))]:
        by_python, launches = launched_from(path, "launch_from")
        assert by_python == launches >= least
    assert len(list(tmp_path.glob("beside-*"))) == 15


def test_nothing_leaks(run):
    """Memory, files and threads after many recordings are those after few."""
    before, after = run("""
        import shutil
        def rounds(n):
            for i in range(n):
                with pitot.record("a.pitot", app_name="x", config_file=None):
                    for j in range(50):
                        with pitot.scope("s"), pitot.scope("%d %d" % (i, j)):
                            pitot.mark("m")
                for wrong in dict(stcks=1), dict(stacks="x"), dict(app_name="x", sync=1):
                    try:
                        pitot.start("c.pitot", **wrong)
                    except (TypeError, pitot.Error):
                        pass
                shutil.rmtree("a.pitot")
            resident = int(open("/proc/self/statm").read().split()[1]) * 4096
            return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        rounds(100)
        print(json.dumps([rounds(1), rounds(150)]))
        """)
    assert after[1:] == before[1:] and after[2] == 1 and after[0] - before[0] < 2 << 20


def test_threads_stop_the_same_recording(run, tmp_path):
    run("""
        import threading
        for i in range(20):
            rec = pitot.start()
            threads = [threading.Thread(target=rec.stop) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """)
    assert [state(path) for path in tmp_path.glob("*.pitot")] == ["ended"] * 20
