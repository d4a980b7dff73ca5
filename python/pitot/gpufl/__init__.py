"""gpufl's Python API on Pitot's recorder: ``import pitot.gpufl as gpufl``.

A session is a recording of Pitot: NAME-DATE-TIME.pitot in the current folder, or that of ``pitot record``; gpufl's logs are
written in addition. An option counts if it is given; otherwise the environment, then the configuration file, then gpufl's
default (docs/embed.md). Options without effect and unsupported features (AMD) warn once.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import warnings
from enum import Enum
from typing import NamedTuple

from pitot import Error, _record
from pitot._recorder import Scope as _Scope
from pitot._recorder import scope as _scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional, Sequence


__all__ = [
    "BackendKind",
    "Counter",
    "ProfilingEngine",
    "Scope",
    "UploadResult",
    "clean_logs",
    "counter",
    "deep_window",
    "init",
    "session",
    "shutdown",
    "system_start",
    "system_stop",
    "tick",
    "upload_logs",
]


class BackendKind(Enum):
    Auto = 0
    Nvidia = 1
    Amd = 2
    None_ = 3  # `None` is a keyword


class ProfilingEngine(Enum):
    Monitor = 0
    Trace = 1
    PcSampling = 2
    SassMetrics = 3
    RangeProfiler = 4
    Deep = 5
    PmSampling = 6
    RangeProfilerKernelReplay = 7


_ENGINES = {
    ProfilingEngine.Monitor: "monitor",
    ProfilingEngine.Trace: "trace",
    ProfilingEngine.PcSampling: "pc-sampling",
    ProfilingEngine.SassMetrics: "sass-metrics",
    ProfilingEngine.RangeProfiler: "range-profiler",
    ProfilingEngine.Deep: "deep",
    ProfilingEngine.PmSampling: "pm-sampling",
    ProfilingEngine.RangeProfilerKernelReplay: "range-profiler",
}

#: What gpufl measures of each scope.
_RANGE_METRICS = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed,l1tex__t_sector_hit_rate.pct,lts__t_sector_hit_rate.pct,"
    "dram__bytes_read.sum,dram__bytes_write.sum,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
)

#: Keywords that gpufl has removed, and their replacements.
_REMOVED = {
    "enable_profiling": "profiling_engine=ProfilingEngine.PcSampling, or Monitor for False",
    "enable_perf_scope": "profiling_engine=ProfilingEngine.RangeProfiler",
    "remote_config": "backend_url=",
}

_warned: set[str] = set()
_disabled = False
_owner = 0  # process that has a session; a forked child has none
_window_engine = ""  # engine of deep windows
_windowed = False  # whether scopes are windows of system samples
_backend = {"log_path": "", "backend_url": "", "api_key": "", "api_path": ""}  # of init(): defaults of upload_logs()

atexit.register(_record.shutdown)


def _missing(what: str, level: int = 3) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(what, RuntimeWarning, stacklevel=level)


def _deprecated(what: str, level: int = 3) -> None:
    warnings.warn(what, DeprecationWarning, stacklevel=level)


def init(
    app_name: Optional[str] = None,
    log_path: Optional[str] = None,
    continuous_system_sampling: Optional[bool] = None,
    system_sample_rate_ms: Optional[int] = None,
    kernel_sample_rate_ms: Optional[int] = None,
    backend: Optional[BackendKind] = None,
    enable_debug_output: Optional[bool] = None,
    enable_stack_trace: Optional[bool] = None,
    enable_source_collection: Optional[bool] = None,
    profiling_engine: Optional[ProfilingEngine] = None,
    config_file: Optional[str] = None,
    enable_external_correlation: Optional[bool] = None,
    enable_synchronization: Optional[bool] = None,
    enable_memory_tracking: Optional[bool] = None,
    enable_cuda_graphs_tracking: Optional[bool] = None,
    pm_sampling_interval_us: Optional[int] = None,
    pm_sampling_max_samples: Optional[int] = None,
    pm_sampling_preset: Optional[str] = None,
    pm_sampling_metrics: Optional[Sequence[str]] = None,
    pm_sampling_scope_only: Optional[bool] = None,
    deep_window_only: Optional[bool] = None,
    flush_logs_always: Optional[bool] = None,
    enabled: bool = True,
    backend_url: Optional[str] = None,
    api_key: Optional[str] = None,
    api_path: Optional[str] = None,
    remote_upload: Optional[bool] = None,
    analysis_id: Optional[str] = None,
    pass_index: Optional[int] = None,
    pass_count: Optional[int] = None,
    **old: Any,
) -> bool:
    """Starts the session. Returns False if it is disabled, the backend is missing, or it cannot start, which warns.

    None: the environment decides, else the configuration file, else gpufl's default (docs/embed.md).
    """
    global _disabled, _owner, _window_engine, _windowed
    given = {name: value for name, value in locals().items() if value is not None and name in _OPTIONS}
    if "sampling_auto_start" in old:
        _deprecated("sampling_auto_start was renamed to continuous_system_sampling")
        given["continuous_system_sampling"] = bool(old.pop("sampling_auto_start"))
    for name in old:
        raise TypeError(_unknown(name))
    options = _complete(given, config_file)
    options["remote_upload"] |= _value(False, os.environ.get("GPUFL_REMOTE_UPLOAD", ""))
    is_running = _owner == os.getpid()  # a running session continues
    if not is_running:
        _disabled = not enabled
    _warn(given, options)
    if analysis_id is not None:
        _missing("analysis_id has no effect: each session is analyzed by itself")
    if not enabled or options["backend"] is BackendKind.Amd:
        return False
    logs = None if is_running else _log_path(options["log_path"]) or _default_log_path(options["app_name"])
    code, defaults = _settings(given, options)
    code.update(app_name=options["app_name"], config_file=config_file or None, log_path=logs)
    try:
        runs = _record.init(code, defaults, options["enable_debug_output"])
    except Error as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return False
    if is_running:
        return runs
    _disabled = not runs
    if not runs:
        return False
    _owner = os.getpid()
    if options["remote_upload"]:
        atexit.unregister(_upload_at_exit)
        atexit.register(_upload_at_exit, _owner)
    _backend.update({name: options[name] for name in ("backend_url", "api_key", "api_path")}, log_path=logs or "")
    _window_engine = _ENGINES[options["profiling_engine"]] if _in_windows(options) else ""
    has_samples = options["system_sample_rate_ms"] > 0 or bool(os.environ.get("PITOT_COUNTERS"))
    _windowed = has_samples and not options["continuous_system_sampling"]
    return True


#: Options of init(), with gpufl's defaults and the variables that override the file.
_OPTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "app_name": ("gpufl", ("PITOT_APP_NAME", "GPUFL_APP_NAME")),
    "log_path": ("", ("PITOT_GPUFL",)),
    "backend_url": ("", ("PITOT_BACKEND_URL", "GPUFL_BACKEND_URL")),
    "api_key": ("", ("PITOT_API_KEY", "GPUFL_API_KEY")),
    "api_path": ("", ("PITOT_API_PATH", "GPUFL_API_PATH")),
    "remote_upload": (False, ("GPUFL_REMOTE_UPLOAD",)),
    "enable_debug_output": (False, ("GPUFL_DEBUG",)),
    "enable_stack_trace": (False, ()),
    "enable_source_collection": (True, ()),
    "enable_external_correlation": (True, ()),
    "enable_synchronization": (True, ()),
    "enable_memory_tracking": (True, ()),
    "enable_cuda_graphs_tracking": (False, ()),
    "system_sample_rate_ms": (0, ()),
    "kernel_sample_rate_ms": (0, ()),
    "continuous_system_sampling": (False, ()),
    "backend": (BackendKind.Auto, ()),
    "profiling_engine": (ProfilingEngine.Monitor, ("PITOT_ENGINE", "GPUFL_PROFILING_ENGINE")),
    "flush_logs_always": (False, ()),
    "pm_sampling_interval_us": (100, ()),
    "pm_sampling_max_samples": (4096, ()),
    "pm_sampling_preset": ("overview", ()),
    "pm_sampling_metrics": ((), ()),
    "pm_sampling_scope_only": (True, ()),
    "deep_window_only": (False, ()),
}

#: Read where they are used: by the recorder and by `pitot upload`.
_READ_LATER = ("log_path", "backend_url", "api_key", "api_path")


def _value(default: Any, text: Any) -> Any:
    """A value of the environment or the file. The recorder reports those that it does not understand."""
    if isinstance(default, Enum):
        word = str(text).replace("-", "").replace("_", "").lower()
        return next((choice for choice in type(default) if choice.name.rstrip("_").lower() == word), default)
    if isinstance(default, bool):
        return str(text).lower() in ("1", "true", "yes", "on")
    if isinstance(default, int):
        return int(text) if str(text).isdecimal() else default
    return text


def _complete(given: dict[str, Any], config_file: Optional[str]) -> dict[str, Any]:
    """All options: as given, else from the environment, else from the configuration file, else gpufl's defaults."""
    import json

    path, file = config_file or os.environ.get("PITOT_CONFIG_FILE") or os.environ.get("GPUFL_CONFIG_FILE"), {}
    try:
        if path and os.path.isfile(path):
            with open(path, encoding="utf-8") as text:
                file = json.load(text)
    except (OSError, ValueError):
        pass  # which the recorder reports
    options = {}
    for name, (default, variables) in _OPTIONS.items():
        said = next((value for value in map(os.environ.get, variables) if value), None)
        if name in given:
            options[name] = given[name]
        elif said is not None:
            options[name] = default if name in _READ_LATER else _value(default, said)
        else:
            options[name] = _value(default, file[name]) if isinstance(file, dict) and name in file else default
    return options


def _warn(given: dict[str, Any], options: dict[str, Any]) -> None:
    """Names the options that have no effect, where this makes a difference."""
    if options["kernel_sample_rate_ms"]:
        _deprecated("kernel_sample_rate_ms has no effect: all kernels are recorded", 4)
    if options["remote_upload"]:
        _deprecated("remote_upload is deprecated: call upload_logs(), or use session(backend_url=...)", 4)
    traces = options["profiling_engine"] is not ProfilingEngine.Monitor and options["backend"] is not BackendKind.None_
    for is_wanted, text in (
        (options["backend"] is BackendKind.Amd, "AMD's GPUs are recorded only where pitot record starts the program"),
        (
            given.get("enable_source_collection"),
            "enable_source_collection=True has no effect: source lines are found when the recording is read",
        ),
        (
            traces and not options["enable_external_correlation"],
            "enable_external_correlation=False has no effect: external ids are always recorded",
        ),
        (
            traces and not options["enable_synchronization"],
            "enable_synchronization=False has no effect: waiting calls are always recorded",
        ),
        (options["flush_logs_always"], "flush_logs_always has no effect: rows are in the files after a quarter of a second"),
        (options["pm_sampling_max_samples"] != 4096, "pm_sampling_max_samples has no effect: all samples are recorded"),
        (
            options["pm_sampling_preset"] != "overview",
            "pm_sampling_preset has no effect: name metrics in pm_sampling_metrics",
        ),
        (given.get("pm_sampling_scope_only"), "pm_sampling_scope_only has no effect: samples are taken all the time"),
    ):
        if is_wanted:
            _missing(text, 4)


def _in_windows(options: dict[str, Any]) -> bool:
    """Whether the engine is on in deep windows only."""
    return options["deep_window_only"] and options["profiling_engine"] not in (ProfilingEngine.Monitor, ProfilingEngine.Trace)


def _settings(given: dict[str, Any], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The recorder's settings for the options: those that are given, and the program's own defaults."""
    code: dict[str, Any] = {}
    defaults: dict[str, Any] = {}

    def put(name: str, setting: str, value: Any) -> None:
        (code if name in given else defaults)[setting] = value

    put("enable_stack_trace", "stacks", "all" if options["enable_stack_trace"] else "none")
    put("enable_memory_tracking", "memory", bool(options["enable_memory_tracking"]))
    if "enable_cuda_graphs_tracking" in given:
        code["graphs"] = "launch" if options["enable_cuda_graphs_tracking"] else "node"
    if options["backend"] is BackendKind.None_:
        code.update(engine="monitor", counters_ns=0)
        return code, defaults
    engine = options["profiling_engine"]
    put("profiling_engine", "engine", _ENGINES[engine])
    if _in_windows(options):
        code["engine"] = "trace"
    if engine is ProfilingEngine.RangeProfiler:
        put("profiling_engine", "measure", "range")
        defaults["metrics"] = _RANGE_METRICS
    if engine is ProfilingEngine.PmSampling:
        put("pm_sampling_interval_us", "pm_interval_ns", max(options["pm_sampling_interval_us"], 1) * 1000)
        code["metrics"] = ",".join(given.get("pm_sampling_metrics", ())) or None
    put("system_sample_rate_ms", "counters_ns", max(options["system_sample_rate_ms"], 0) * 1000000)
    put("continuous_system_sampling", "counters_always", bool(options["continuous_system_sampling"]))
    if options["system_sample_rate_ms"] > 0:
        defaults["system"] = "all"  # GPUs and host
    return code, defaults


def deep_window(seconds: float, max_launches: int = 0) -> bool:
    """Turns on the engine of init(deep_window_only=True) for a time. max_launches has no effect.

    Returns False without a session or such an engine, or if it cannot be turned on now, which warns.
    """
    if _owner != os.getpid() or not _window_engine:
        return False
    try:
        _record.engine_begin(None, {"engine": _window_engine, "duration_ns": max(int(seconds * 1e9), 1)})
    except Error as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return False
    return True


def _log_path(path: str) -> Optional[str]:
    return (path[:-4] if len(path) > 4 and path.endswith(".log") else path) or None


def _default_log_path(app_name: str) -> Optional[str]:
    """A folder with the program's name, as gpufl has it; None if the environment names one, or a file has that name."""
    path = app_name.replace("/", "_")
    if os.environ.get("PITOT_GPUFL"):
        return None
    if os.path.exists(path) and not os.path.isdir(path):
        warnings.warn(f"no logs: '{path}' is a file; set log_path", RuntimeWarning, stacklevel=3)
        return None
    return path


def _upload_at_exit(owner: int) -> None:
    if owner != os.getpid():  # a forked child
        return
    shutdown()
    result = upload_logs()
    if not result.success:
        print(f"[gpufl] upload: {result.error}", file=sys.stderr)


def _unknown(name: str) -> str:
    from difflib import get_close_matches
    from inspect import signature

    text = f"init() got an unexpected keyword argument '{name}'"
    if name in _REMOVED:
        return f"{text}: use {_REMOVED[name]}"
    near = get_close_matches(name, list(signature(init).parameters), 1)
    return f"{text}, did you mean '{near[0]}'?" if near else text


def shutdown() -> None:
    """Ends the session, if there is one."""
    global _owner, _windowed
    _record.shutdown()
    _owner, _windowed = 0, False


class Scope:
    """``with Scope("forward"):``, or ``for _ in Scope("gemm", repeat=10, warmup=2):`` with two runs in "gemm_warmup"."""

    def __init__(self, name: str, tag: str = "", *, repeat: Optional[int] = None, warmup: int = 0) -> None:
        self._name, self._scope = name, _scope(name)  # the tag is not recorded, as in gpufl
        self._window = False
        self._repeat, self._warmup = None if repeat is None else max(repeat, 0), max(warmup, 0)

    def __enter__(self) -> Scope:
        self._window = _windowed
        if self._window:
            _record.system_window(None, True)
        if self._repeat is None:
            self._scope.__enter__()
        else:
            self._scope.begin_runs(self._repeat, self._warmup)
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.__exit__(None, None, None)
        if self._window:
            _record.system_window(None, False)

    def __iter__(self) -> Iterator[int]:
        if self._repeat is None:
            raise TypeError(f"the number of runs is missing: Scope({self._name!r}, repeat=10)")
        if self._warmup:
            yield from _runs(_scope(f"{self._name}_warmup"), self._warmup, 0)
        yield from _runs(self._scope, self._repeat, self._warmup)


def _runs(scope: _Scope, repeat: int, warmup: int) -> Iterator[int]:
    window = _windowed
    if window:
        _record.system_window(None, True)
    scope.begin_runs(repeat, warmup)
    try:
        yield from range(repeat)
    finally:
        scope.__exit__(None, None, None)
        if window:
            _record.system_window(None, False)


def system_start(name: str = "system") -> None:
    """Opens a window of system samples, unless they are continuous, and makes a mark."""
    _record.system_window(name, True)


def system_stop(name: str = "system") -> None:
    _record.system_window(name, False)


class Counter:
    """A sum of the program. A counter whose name gpufl does not allow is not recorded."""

    def __init__(self, name: str) -> None:
        is_name = name and all(c in "._-" or (c.isascii() and c.isalnum()) for c in name)
        self._number = _record.counter(name, "", "") if is_name else 0

    def add(self, n: int = 1) -> None:
        """Adds 0 to 2^40; other values are ignored."""
        if 0 <= n <= 1 << 40:
            _record.counter_add(self._number, n)


def counter(name: str) -> Counter:
    return Counter(name)


def tick(name: str, n: int = 1) -> None:
    Counter(name).add(n)


class UploadResult(NamedTuple):
    success: bool
    events_uploaded: int
    error: str


def upload_logs(
    *,
    log_path: str = "",
    backend_url: str = "",
    api_key: str = "",
    api_path: str = "",
    total_timeout_ms: int = 300000,
    connect_timeout_ms: int = 10000,
    read_timeout_ms: int = 30000,
    max_retries: int = 1,
    retry_delay_ms: int = 1000,
    cursor_filename: str = "",
    report_progress: bool = False,
    session_id: str = "",
    all_sessions: bool = False,
    force: bool = False,
) -> UploadResult:
    """Runs ``pitot upload`` on a folder of logs, by default that of init(). Succeeds without an upload if gpufl is disabled.

    Only total_timeout_ms has an effect; the times for connections, reads and retries follow from it.
    """
    if _disabled:
        return UploadResult(True, 0, "")
    folder = _log_path(log_path) or _backend["log_path"]
    if not folder:
        return UploadResult(False, 0, "no logs: log_path is empty, here and in init()")
    url = backend_url or _backend["backend_url"]
    if not url and not os.environ.get("PITOT_BACKEND_URL") and not os.environ.get("GPUFL_BACKEND_URL"):
        return UploadResult(
            False, 0, "no backend: give its host in backend_url, of upload_logs() or init(), or in GPUFL_BACKEND_URL"
        )
    try:
        records = _record.upload(
            os.fsencode(folder),
            os.fsencode(os.path.join(folder, cursor_filename) if cursor_filename else ""),
            url,
            api_key or _backend["api_key"],
            api_path or _backend["api_path"],
            "" if all_sessions else session_id or "newest",
            max(total_timeout_ms, 0),
            max(max_retries, 0),
            force,
        )
    except (Error, ValueError) as error:
        return UploadResult(False, 0, str(error))
    if report_progress:
        print(f"[gpufl] {records} event{'s' * (records != 1)} uploaded", file=sys.stderr)
    return UploadResult(True, records, "")


#: Files of a session (docs/gpufl.md).
_LOGS = r"(device|scope|system|sass)(\.\d+)?\.log(\.gz)?|\.gpufl-((window|transport-loss)\..*\.json|session\.lock)"


@contextlib.contextmanager
def _opened(name: str, parent: Optional[int] = None) -> Iterator[int]:
    """A folder by descriptor, and no link: others may write into a folder of logs, and rename what is in it."""
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | (0 if parent is None else os.O_NOFOLLOW), dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)


def _is_session(folder: int) -> bool:
    """Whether the folder is a session of this user that no process writes: a writer holds a lock."""
    import fcntl
    import re

    if os.fstat(folder).st_uid != os.geteuid():
        return False
    try:
        lock = os.open(".gpufl-session.lock", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    else:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(lock)
    return any(re.fullmatch(_LOGS, name) for name in os.listdir(folder))


def _clean(folder: int, path: str, dry_run: bool) -> tuple[list[str], bool]:
    """Removes the logs in a folder and below .tmp in it. Returns their paths, and whether nothing else is there."""
    import re

    names = sorted(os.listdir(folder))
    gone: list[str] = []
    with contextlib.suppress(OSError), _opened(".tmp", folder) as active:
        gone, is_empty = _clean(active, os.path.join(path, ".tmp"), dry_run)
        if is_empty:
            names.remove(".tmp")
            gone.append(os.path.join(path, ".tmp"))
            if not dry_run:
                os.rmdir(".tmp", dir_fd=folder)
    logs = [name for name in names if re.fullmatch(_LOGS, name)]
    for name in () if dry_run else logs:
        os.unlink(name, dir_fd=folder)
    return gone + [os.path.join(path, name) for name in logs], len(logs) == len(names)


def clean_logs(log_path: str = "", log_prefix: Optional[str] = None, *, dry_run: bool = False) -> list[str]:
    """Removes the sessions in a folder of logs, by default that of init(). Returns the paths (to be) removed.

    Keeps other files, folders that contain any, sessions of other users, and those still being written. dry_run only lists.
    """
    if log_prefix is not None:
        _deprecated("log_prefix has no effect: logs have no prefix any more")
    if _disabled:
        return []
    if _owner == os.getpid():
        raise RuntimeError("a session is running: call shutdown() before clean_logs()")
    logs = _log_path(os.fspath(log_path)) or _backend["log_path"]
    if not logs:
        raise ValueError("no logs: log_path is empty, here and in init()")
    gone = []
    with _opened(logs) as parent:
        for name in sorted(os.listdir(parent)):
            with contextlib.suppress(NotADirectoryError, FileNotFoundError, PermissionError), _opened(name, parent) as folder:
                if not _is_session(folder):
                    continue
                found, is_empty = _clean(folder, os.path.join(logs, name), dry_run)
                gone += found + [os.path.join(logs, name)] * is_empty
                if is_empty and not dry_run:
                    os.rmdir(name, dir_fd=parent)
    return gone


class session:
    """``with session(app_name="train"):`` calls init(), shutdown() and, with a backend_url, upload_logs()."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._arguments, self._options = arguments, options

    def __enter__(self) -> bool:
        return init(*self._arguments, **self._options)

    def __exit__(self, *_: object) -> None:
        shutdown()
        if self._options.get("backend_url") and not _disabled:
            result = upload_logs()
            if not result.success:
                warnings.warn(f"upload: {result.error}", RuntimeWarning, stacklevel=2)
