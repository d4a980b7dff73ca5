"""gpufl's Python calls on the recorder: pitot.gpufl."""
import json
import re

from gpufl_backend import Backend
from package_pythons import SOME, state


def settings_of(rows, path):
    return next(iter(row["actual"] for row in rows(path, "capability") if row["name"] == "settings"), "")


@SOME
def test_a_program_of_gpufl(run, rows, spans, tmp_path, python):
    """A session as gpufl's page shows it, and a second one in the same process."""
    said = run("""
        import pitot.gpufl as gfl
        results = [gfl.init(app_name="first", log_path="logs/run.log", continuous_system_sampling=True, system_sample_rate_ms=50,
                            backend=gfl.BackendKind.Auto, profiling_engine=gfl.ProfilingEngine.Trace, enable_stack_trace=True,
                            enable_memory_tracking=False)]
        results.append(gfl.init())
        with gfl.Scope("phase", "a tag"):
            gfl.system_start("sampling")
            gfl.system_stop()
        results.append([i for i in gfl.Scope("bench", repeat=2, warmup=3)])
        with gfl.Scope("once", repeat=7, warmup=1):
            pass
        gfl.shutdown()
        gfl.shutdown()
        with gfl.session("second") as runs:
            results.append(runs)
            for _ in gfl.Scope("x", repeat=9):
                break
        results.append(gfl.init(app_name="third"))
        with gfl.Scope("still open"):
            sys.exit(print(json.dumps(results)))
        """, python, PITOT_GRAPHS="launch")
    assert said == [True, True, [0, 1, 2, 0, 1], True, True]
    (first,), (second,), (third,) = (list(tmp_path.glob(f"{name}-*.pitot")) for name in ("first", "second", "third"))
    assert spans(first) == "phase( system start: sampling system stop: system ) bench_warmup( ) bench( ) once( )"
    assert [row["payload"] for row in rows(first, "nvtx") if row["payload_kind"] == "runs"] == [3, 2 | 3 << 32, 7 | 1 << 32]
    assert settings_of(rows, first) == ("engine=trace (code), graphs=launch (environment), stacks=all (code), "
                                        "memory=off (code), counters=50.0 ms (code), system=all (program)")
    assert (tmp_path / "logs/run").is_dir() and list((tmp_path / "logs/run").iterdir())
    assert spans(second) == "x( )" and spans(third) == "still open( )"
    assert settings_of(rows, second) == ("engine=monitor (program), graphs=launch (environment), stacks=none (program), "
                                         "memory=on (program), counters=off (program)")
    assert [state(path) for path in (first, second, third)] == ["ended"] * 3


@SOME
def test_gpufl_uploads_its_logs(run, plain, environment, tmp_path, python):
    """session() with a backend's address, and upload_logs() by itself, which never raises."""
    with Backend() as backend:
        said = run("""
            import pitot.gpufl as gfl
            with gfl.session(app_name="a", log_path="logs", backend_url=sys.argv[1], api_key="secret", profiling_engine=gfl.ProfilingEngine.Trace):
                with gfl.Scope("s"):
                    pass
            again = gfl.upload_logs()
            print(json.dumps([again, gfl.upload_logs(log_path="none"), gfl.upload_logs(force=True, api_key="wrong", cursor_filename="other"),
                              gfl.upload_logs(backend_url="http://127.0.0.1:1", force=True, max_retries=0)]))
            """, python, arguments=[backend.url], PATH=f"{plain}:{environment['PATH']}")
    assert [request["headers"]["Authorization"] for request in backend.requests][0] == "Bearer secret"
    assert backend.completed and [json.loads(line)["type"] for line in backend.lines].count("scope_event_batch") >= 1
    again, none, forced, dead = said
    assert again == [True, 0, ""]
    assert none[:2] == [False, 0] and "none" in none[2]
    assert forced[0] and "Bearer wrong" in {request["headers"]["Authorization"] for request in backend.requests}
    assert (tmp_path / "logs/other").exists()
    assert dead[:2] == [False, 0] and "127.0.0.1:1" in dead[2]


@SOME
def test_gpufl_remote_upload(run, plain, environment, tmp_path, python):
    """Deprecated: logs are uploaded when the interpreter ends, once, by the program's own name of their folder."""
    code = """
        import warnings
        import pitot.gpufl as gfl
        warnings.simplefilter("ignore")
        for _ in range(2):
            gfl.init(app_name="a", backend_url=sys.argv[1], api_key="secret", remote_upload=len(sys.argv) < 3)
        with gfl.Scope("s"):
            print(json.dumps(1))
        """
    with Backend() as backend:
        run(code, python, arguments=[backend.url], PATH=f"{plain}:{environment['PATH']}")
        assert len(backend.completed) == 1 and (tmp_path / "a" / backend.completed[0]).is_dir()
        run(code, python, arguments=[backend.url, "-"], PATH=f"{plain}:{environment['PATH']}", GPUFL_REMOTE_UPLOAD="1")
        assert len(set(backend.completed)) == 2
        run(code, python, arguments=[backend.url, "-"], PATH=f"{plain}:{environment['PATH']}", GPUFL_REMOTE_UPLOAD="Yes")
        assert len(set(backend.completed)) == 3
        for variables in {}, {"GPUFL_REMOTE_UPLOAD": "0"}, {"GPUFL_REMOTE_UPLOAD": "false"}:
            run(code, python, arguments=[backend.url, "-"], PATH=f"{plain}:{environment['PATH']}", **variables)
            assert len(backend.completed) == 3
    run(code, python, arguments=["http://127.0.0.1:1"], PATH=f"{plain}:{environment['PATH']}")  # the exit status stays 0


#: The processes that upload are the lines of the file "uploads".
COUNTED_UPLOADS = """
        import warnings
        import pitot.gpufl as gfl
        def upload():
            with open("uploads", "a") as file:
                print(os.getpid(), file=file)
            return gfl.UploadResult(True, 0, "")
        """


def test_a_forked_child_uploads_nothing(run, tmp_path):
    """It ends as a program does, with the exit functions of its parent."""
    parent = run(COUNTED_UPLOADS + """
        gfl.upload_logs = upload
        gfl.init(app_name="a", remote_upload=True)
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print(os.getpid())
        """)
    assert (tmp_path / "uploads").read_text().split() == [str(parent)]


def test_a_running_session_is_not_changed(run, tmp_path):
    """By another init(): it is not disabled, it uploads what it did before, and the path of its logs is no concern."""
    (tmp_path / "taken").write_text("a program")
    said = run(COUNTED_UPLOADS + """
        real, gfl.upload_logs = gfl.upload_logs, upload
        gfl.init(app_name="a", log_path="logs")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            results = [gfl.init(enabled=False), gfl.init(app_name="taken"), gfl.init(remote_upload=True)]
        gfl.shutdown()
        print(json.dumps([results, [str(w.message) for w in seen], real(backend_url="http://127.0.0.1:1", max_retries=0)]))
        """)
    assert said[0] == [False, True, True] and len(said[1]) == 1 and said[1][0].startswith("remote_upload is deprecated")
    assert said[2][:2] == [False, 0] and "127.0.0.1:1" in said[2][2]
    assert not (tmp_path / "uploads").exists()


def test_gpufl_logs_without_a_path(run, tmp_path):
    """They are in a folder of the program's name; a second init() changes nothing, and neither does a file of that name."""
    said = run("""
        import warnings
        import pitot.gpufl as gfl
        def told(**keywords):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                gfl.init(**keywords)
                gfl.init(app_name="again", log_path="again", system_sample_rate_ms=50)
                assert not gfl._windowed and gfl._backend["log_path"] != "again"
                gfl.shutdown()
            return [str(w.message) for w in seen]
        os.makedirs("there")
        open("taken", "w").close()
        print(json.dumps([told(app_name="a/b"), told(app_name="there"), told(app_name="taken"), told(app_name="taken", log_path="x.log"), told()]))
        """, GPUFL_APP_NAME="fromoutside")
    assert said == [[], [], ["no logs: 'taken' is a file; set log_path"], [], []]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir() and list(path.glob("*/scope.1.log.gz"))) == \
        ["a_b", "fromoutside", "there", "x"]


def test_gpufl_counters(run, rows, tmp_path):
    run("""
        import pitot.gpufl as gfl
        gfl.init("x", log_path="logs")
        steps = gfl.counter("app.steps")
        for n in 1, 41, -1, (1 << 40) + 1:
            steps.add(n)
        gfl.tick("app.ticks")
        gfl.tick("app.ticks", 6)
        gfl.tick("no name!")
        gfl.counter("").add()
        gfl.shutdown()
        print(json.dumps(1))
        """)
    [path] = tmp_path.glob("x-*.pitot")
    assert {row["counter"]: row["value"] for row in rows(path, "counter_sample")} == {"app.steps": 42, "app.ticks": 7}


def test_gpufl_debug_output(run, tmp_path):
    result = run("""
        import pitot.gpufl as gfl
        for aloud in True, False:
            gfl.init(enable_debug_output=aloud)
            gfl.shutdown()
        sys.exit(7)
        """, status=7)
    assert re.fullmatch(rf"\[gpufl\] recording into {tmp_path}/gpufl-\S+\n", result.stderr)


def test_gpufl_cleans_its_logs(run, tmp_path):
    """All of dead sessions, nothing else; not those that somebody writes, this program included."""
    said = run("""
        import shutil, subprocess, warnings
        import pitot.gpufl as gfl

        def say(f):
            try:
                return f()
            except Exception as e:
                return "%s: %s" % (type(e).__name__, e)

        def kept():
            return sorted(os.path.join(folder, name)[5:] for folder, _, files in os.walk("logs") for name in files)

        said = [say(gfl.clean_logs)]
        def one():
            before = set(os.listdir("logs")) if os.path.isdir("logs") else set()
            with gfl.session(app_name="a", log_path="logs"), gfl.Scope("s"):
                pass
            return set(os.listdir("logs")).difference(before).pop()

        dead, killed, mixed, other = one(), one(), one(), one()
        os.mkdir("logs/%s/.tmp" % killed)
        for name in killed + "/.tmp/scope.log", killed + "/sass.log", mixed + "/notes.log", "scope.1.log.gz":
            open("logs/" + name, "w").close()
        os.makedirs("logs/project/.tmp")
        os.symlink(os.path.abspath("logs/" + dead), "logs/link")
        locker = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
                                  "print(1, flush=True); sys.stdin.read()", "logs/%s/.gpufl-session.lock" % other],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        locker.stdout.readline()
        rec = pitot.start("beside.pitot", log_path="logs")
        ours = set(os.listdir("logs")).difference([dead, killed, mixed, other, "link", "project", "scope.1.log.gz"]).pop()
        before = kept()
        would = gfl.clean_logs(dry_run=True)
        assert kept() == before
        gone = gfl.clean_logs("logs")
        for _ in range(2):  # a lock of this very process holds on
            assert gfl.clean_logs("logs") == []
        locked = subprocess.run([sys.executable, "-c", "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
                                 "logs/%s/.gpufl-session.lock" % ours], stderr=subprocess.DEVNULL).returncode
        rec.stop()
        names = {dead: "dead", killed: "killed", mixed: "mixed", other: "other", ours: "ours"}
        said += [would == gone, sorted(names[os.path.basename(path)] for path in gone if os.path.basename(path) in names),
                 sorted(names.get(name, name) for name in os.listdir("logs")), os.listdir("logs/" + mixed), os.listdir("logs/project"), locked]
        gfl.init(log_path="logs")
        said.append(say(gfl.clean_logs))
        gfl.shutdown()
        locker.communicate()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            gfl.clean_logs(log_prefix="x")
        gfl.init(enabled=False)
        said += [[str(w.message) for w in seen], kept(), gfl.clean_logs(), say(lambda: gfl.clean_logs("none"))]
        print(json.dumps(said))
        """)
    mixed = said[9][0].split("/")[0]
    assert said == ["ValueError: no logs: log_path is empty, here and in init()", True, ["dead", "killed"],
                    ["link", "mixed", "other", "ours", "project", "scope.1.log.gz"], ["notes.log"], [".tmp"], 1,
                    "RuntimeError: a session is running: call shutdown() before clean_logs()",
                    ["log_prefix has no effect: logs have no prefix any more"], [f"{mixed}/notes.log", "link", "scope.1.log.gz"], [], []]


def test_what_gpufl_warns_of(run, tmp_path):
    said = run("""
        import inspect, warnings
        import pitot.gpufl as gfl
        warnings.simplefilter("always")
        def told(**keywords):
            with warnings.catch_warnings(record=True) as seen:
                try:
                    result = gfl.init(**keywords)
                except TypeError as e:
                    result = str(e)
                gfl.shutdown()
            assert all(os.path.basename(w.filename) == "program.py" for w in seen)
            return [result, *["%s: %s" % (w.category.__name__, w.message) for w in seen]]
        print(json.dumps([told(**keywords) for keywords in (
            dict(kernel_sample_rate_ms=5), dict(remote_upload=True), dict(sampling_auto_start=True, system_sample_rate_ms=60),
            dict(system_sample_rate_ms=60), dict(system_sample_rate_ms=60), dict(enable_profiling=True), dict(aap_name="x"), dict(zzz=1),
            dict(backend=gfl.BackendKind.None_), dict(backend=gfl.BackendKind.Amd), dict(deep_window_only=True),
            dict(profiling_engine=gfl.ProfilingEngine.Deep), dict(config_file="none.json"),
            dict(analysis_id="a", pass_index=0, pass_count=3),
        )]))
        """)
    assert said == [
        [True, "DeprecationWarning: kernel_sample_rate_ms has no effect: all kernels are recorded"],
        [True, "DeprecationWarning: remote_upload is deprecated: call upload_logs(), or use session(backend_url=...)"],
        [True, "DeprecationWarning: sampling_auto_start was renamed to continuous_system_sampling"],
        [True],
        [True],
        ["init() got an unexpected keyword argument 'enable_profiling': use profiling_engine=ProfilingEngine.PcSampling, or "
         "Monitor for False"],
        ["init() got an unexpected keyword argument 'aap_name', did you mean 'app_name'?"],
        ["init() got an unexpected keyword argument 'zzz'"],
        [True],
        [False, "RuntimeWarning: AMD's GPUs are recorded only where pitot record starts the program"],
        [True],
        [True],
        [False, said[12][1]],
        [True, "RuntimeWarning: analysis_id has no effect: each session is analyzed by itself"]]
    assert "none.json" in said[12][1] and len(list(tmp_path.glob("*.pitot"))) == 9


def test_gpufl_deep_windows(run, rows, tmp_path, launcher):
    said = run("""
        import ctypes, warnings
        import pitot.gpufl as gfl
        launch = ctypes.CDLL(os.environ["LAUNCHER"]).launch
        said = [gfl.deep_window(1)]
        for engine in (gfl.ProfilingEngine.Trace, gfl.ProfilingEngine.RangeProfiler):
            gfl.init("x", profiling_engine=engine, deep_window_only=True)
            launch()
            said.append(gfl.deep_window(60))
            launch()
            with warnings.catch_warnings(record=True) as seen:
                said.append([gfl.deep_window(60), *[str(w.message) for w in seen]])
            gfl.shutdown()
            said.append(gfl.deep_window(1))
        print(json.dumps(said))
        """, **launcher)
    assert said[:5] == [False, False, [False], False, True] and said[6] is False
    assert said[5][0] is False and said[5][1].startswith("engine range-profiler is on or armed")
    [windows] = filter(None, ([(row["state"], row["requested"]) for row in rows(folder, "capability") if row["name"] == "engine_window"]
                              for folder in tmp_path.glob("x-*.pitot")))
    assert windows[0] == ("on", "range-profiler")  # it ends with the session
    [ranges] = [said for folder in tmp_path.glob("x-*.pitot") if "measure=range (code)" in (said := settings_of(rows, folder))]
    assert "sm__throughput.avg.pct_of_peak_sustained_elapsed,l1tex__t_sector_hit_rate.pct," in ranges  # gpufl's, of scopes


def test_gpufl_switched_off(run, tmp_path):
    code = """
        import pitot.gpufl as gfl
        with gfl.session(app_name="x", enabled=%s) as runs, gfl.Scope("x"):
            gfl.system_start()
            gfl.system_stop()
        print(json.dumps([runs, gfl.upload_logs(), gfl.clean_logs()]))
        """
    assert run(code % True, GPUFL_DISABLED="Yes") == run(code % False) == [False, [True, 0, ""], []]
    assert not list(tmp_path.glob("*.pitot"))


def test_gpufl_has_the_keywords_of_its_header(run, source):
    """Of the C++ API, which tests compile with gpufl's own programs."""
    header = (source / "include/gpufl/gpufl.hpp").read_text()
    struct = header[header.index("struct InitOptions"):header.index("namespace detail")]
    fields = re.findall(r"^\t\S+ (\w+) = ", struct, re.M)
    assert len(fields) > 20
    engines = re.search(r"enum class ProfilingEngine { (.*?) }", header).group(1).split(", ")
    said = run("""
        import inspect
        import pitot.gpufl as gfl
        print(json.dumps([list(inspect.signature(gfl.init).parameters), [e.name for e in gfl.ProfilingEngine]]))
        """)
    assert set(said[0]) == {*fields, "analysis_id", "pass_index", "pass_count", "old"} and set(said[1]) == set(engines)


def test_gpufl_names_in_the_environment(run, tmp_path):
    code = "import pitot.gpufl as gfl; print(json.dumps([gfl.init(), gfl.shutdown()]))"
    run(code, GPUFL_APP_NAME="theirs")
    run(code, PITOT_APP_NAME="ours")
    run(code)
    assert sorted(path.name.split("-")[0] for path in tmp_path.glob("*.pitot")) == ["gpufl", "ours", "theirs"]


def test_gpufl_under_pitot_record(run, plain, spans, tmp_path):
    """init() joins that recording, and shutdown() leaves it open."""
    run("""
        import pitot.gpufl as gfl
        for name in "first", "second":
            with gfl.session(app_name="x"), gfl.Scope(name):
                pass
        """, wrap=[plain / "pitot", "record", "-q", "--no-cpu", "-o", tmp_path / "rec", "--"])
    assert spans(tmp_path / "rec") == "first( ) second( )" and not list(tmp_path.glob("*.pitot"))
