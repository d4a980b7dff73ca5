"""Recordings of this process, and its scopes, counters and steps. ``pitot`` imports this module on first use."""

from __future__ import annotations

import atexit
import os
from _thread import RLock, allocate_lock
from typing import Generic, TypeVar

from pitot import _record
from pitot._read import Error, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, Callable, Iterable, Iterator, Optional, TypedDict, Union

    from typing_extensions import Literal, Unpack

    from pitot import Recording
    from pitot._notebook import Page

    Function = TypeVar("Function", bound=Callable[..., Any])
    Path = Union[str, PathLike[str]]
    Engine = Literal["monitor", "trace", "pc-sampling", "range-profiler", "pm-sampling", "sass-metrics", "deep"]

    class Settings(TypedDict, total=False):
        """Fields of ``struct pitot_options`` (docs/embed.md). None: not given. A time or size of 0: none."""

        log_path: Optional[Path]
        app_name: Optional[str]
        config_file: Optional[Path]
        enabled: Optional[bool]
        engine: Optional[Engine]
        delay_ns: Optional[int]
        duration_ns: Optional[int]
        graphs: Optional[Literal["launch", "node"]]
        api: Optional[Literal["launches", "all"]]
        stacks: Optional[Literal["none", "native", "python", "all"]]
        sync: Optional[bool]
        memory: Optional[bool]
        counters_ns: Optional[int]
        own_profiler: Optional[Literal["keep", "share"]]
        system: Optional[Literal["basic", "all"]]
        max_bytes: Optional[int]
        pc_period: Optional[int]
        cpu: Optional[int]
        counters_always: Optional[bool]
        metrics: Optional[str]
        kernels: Optional[str]
        kernel_skip: Optional[int]
        kernel_count: Optional[int]
        pm_interval_ns: Optional[int]
        measure: Optional[Literal["kernel", "graph", "range"]]
        nvtx_include: Optional[str]
        sinks: Optional[str]
        ring_bytes: Optional[int]

    class ScheduleSettings(Settings, total=False):
        """Settings, and the arguments of Schedule."""

        wait: int
        warmup: int
        active: int
        repeat: int
        path: Optional[Path]


Item = TypeVar("Item")


def decorated(function: Function, around: Callable[[], Any]) -> Function:
    """Wraps the function in a context manager that ``around()`` makes for each call."""
    import functools
    import inspect

    for is_kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
        if is_kind(function):
            raise UsageError(
                f"{function.__qualname__} is async or a generator, whose call ends before its body runs: "
                "use `with` in its body, around what it does between two waits"
            )

    @functools.wraps(function)
    def within(*args: Any, **keywords: Any) -> Any:
        with around():
            return function(*args, **keywords)

    return within  # type: ignore[return-value]


# --- recordings ---


_NOTHING = "nothing was recorded: recording is switched off, by PITOT_DISABLED or a setting"


class Report(str):
    """The text of a report. A notebook displays the page of its recording if there is one."""

    path: Optional[str] = None

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        from pitot._notebook import report_page

        try:
            if self.path:
                return report_page(self.path)._repr_html_()
        except (Error, OSError):  # the recording was removed
            pass
        return f'<pre style="line-height: 1.2">{html.escape(self)}</pre>'


class Running:
    """A recording of this process that runs until stop()."""

    #: Absolute path of the recording. None: recording is switched off (PITOT_DISABLED).
    path: Optional[str]

    def __init__(self, path: Optional[Path], settings: Settings) -> None:
        started = _record.start(path, dict(settings))
        self.path = None
        if started:
            _sessions[self], self.path = started

    def __repr__(self) -> str:
        return f"<pitot.Running {self.path!r}{'' if self in _sessions else ', ended'}>"

    def __getstate__(self) -> dict[str, Any]:
        if self in _sessions:
            raise TypeError("a running recording cannot be copied or pickled: pass its path to pitot.open()")
        return self.__dict__

    def stop(self) -> None:
        """Ends the recording; everything up to now is on disk then. Idempotent; does nothing in the child of a fork."""
        if session := _sessions.pop(self, None):
            with _in_use:
                _record.stop(session)
            for ended in tuple(_ended):
                ended(self.path)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def flush(self) -> None:
        """Writes everything recorded so far to disk, including all GPU work that has ended."""
        _record.flush()

    def engine(self, engine: Engine, *, delay_ns: int = 0, duration_ns: int = 0) -> Armed:
        """Turns on an engine beside the trace for a block, ``with rec.engine("pc-sampling"):``, or a time (docs/embed.md)."""
        return Armed(self, {"engine": engine, "delay_ns": delay_ns or None, "duration_ns": duration_ns or None})

    def open(self) -> Recording:
        """Opens the recording for reading, also while it runs."""
        from pitot import open

        if self.path is None:
            raise Error(_NOTHING)
        if self in _sessions:
            self.flush()
        return open(self.path)

    def report(self) -> Report:
        """Returns the text of ``pitot report``: interpreters and notebooks display it, scripts ``print(rec.report())``."""
        report = Report(f"{_NOTHING}\n" if self.path is None else self._run("report", "--no-pager", self.path))
        report.path = self.path
        return report

    def flame(self, mode: Optional[str] = None) -> Page:
        """Returns the page of ``pitot flame`` for a notebook: merged, gpu, cpu, wait or launches."""
        return self.open().flame(mode)

    def timeline(self) -> Page:
        """Returns the page of ``pitot export -o x.html`` for a notebook."""
        return self.open().timeline()

    def _run(self, *words: str) -> str:
        from pitot._notebook import run

        if self in _sessions:
            self.flush()
        return run(*words)


class Armed:
    """An engine of a running recording, on until the end of the block or for a given time."""

    def __init__(self, running: Running, settings: dict[str, Any]) -> None:
        self._running = running
        with _in_use:
            if session := _sessions.get(running):
                _record.engine_begin(session, settings)
            elif running.path is not None:
                raise Error("the recording has ended")

    def end(self) -> None:
        """Turns the engine off early. The end of the recording does so, too."""
        with _in_use:
            if session := _sessions.get(self._running):
                _record.engine_end(session)

    def __enter__(self) -> Armed:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


#: Sessions of running recordings. Whoever removes one must end it.
_sessions: dict[Running, object] = {}
#: Called with the path of each recording that has ended.
_ended: list[Callable[[Optional[str]], None]] = []
_in_use = RLock()  # held while a session is used, because stop() frees it
os.register_at_fork(after_in_child=_in_use._at_fork_reinit)  # type: ignore[attr-defined]


@atexit.register
def _stop_all() -> None:
    """Stopping one takes up to a quarter of a second. After two seconds the rest end with the process, all together."""
    from time import monotonic

    until = monotonic() + 2
    for running in list(_sessions):
        if monotonic() < until:
            running.stop()
        elif session := _sessions.pop(running, None):
            _record.leave(session)


def start(path: Optional[Path] = None, **settings: Unpack[Settings]) -> Running:
    """Starts a recording in a new folder, by default NAME-DATE-TIME.pitot in the current folder."""
    return Running(path, settings)


def stop() -> Optional[Running]:
    """Ends the recording that was started last, and returns it; returns None if there is none."""
    running = next(reversed(list(_sessions)), None)
    if running:
        running.stop()
    return running


def dump(path: Optional[Path] = None, *, last: Optional[float] = None) -> int:
    """Below ``pitot record --ring`` writes what the ring has as a recording, by default dump-DATE-TIME.pitot.

    last: only segments with rows of so many seconds before now. Returns the number of segments.
    """
    return _record.dump(path, round((last or 0) * 1e9))


class record:
    """Records a block or a function: ``with pitot.record() as rec:``, ``@pitot.record()``. Arguments: see start()."""

    def __init__(self, path: Optional[Path] = None, **settings: Unpack[Settings]) -> None:
        _record.check(dict(settings))
        self._path, self._settings = path, settings
        self._running: Optional[Running] = None
        self._is_entered = allocate_lock()

    def __enter__(self) -> Running:
        if not self._is_entered.acquire(False):
            raise UsageError("this recording is running already: call pitot.record() again for another one")
        try:
            self._running = Running(self._path, self._settings)
        except BaseException:
            self._is_entered.release()
            raise
        return self._running

    def __exit__(self, *_: object) -> None:
        running, self._running = self._running, None
        if running:
            self._is_entered.release()
            running.stop()

    def __call__(self, function: Function) -> Function:
        return decorated(function, lambda: Running(self._path, self._settings))


# --- scopes ---


@_record.scope_class
class Scope(_record.Scope):
    """A named span of a thread, made by ``scope(name)``. Reusable, reentrant and thread-safe."""

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        return decorated(function, lambda: self)

    def iterate(self, repeat: int, warmup: int = 0) -> Iterator[int]:
        """A benchmark in one scope: the body runs ``warmup`` times, which are not counted, then ``repeat`` times."""
        if not (0 <= repeat < 2**32 and 0 <= warmup < 2**32):
            raise UsageError(f"repeat={repeat}, warmup={warmup}: a body runs from 0 to 2^32 - 1 times")
        return self._iterate(repeat, warmup)

    def _iterate(self, repeat: int, warmup: int) -> Iterator[int]:
        self.begin_runs(repeat, warmup)
        try:
            yield from range(warmup + repeat)
        finally:
            self.__exit__(None, None, None)


scope: Callable[[str], Scope] = _record.scope
mark = _record.mark
external_push = _record.external_push
external_pop = _record.external_pop


class _Numbered:
    __slots__ = ("_number", "_about")

    def __init__(self, name: str, unit: str = "", description: str = "") -> None:
        self._number, self._about = _record.counter(name, unit, description), (name, unit, description)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._about  # numbers differ between processes


class counter(_Numbered):
    """A sum counted by the program, such as tokens. The same name is the same counter."""

    __slots__ = ()

    def add(self, by: int = 1) -> None:
        """Adds to the sum. Thread-safe; does nothing while nothing is recorded."""
        _record.counter_add(self._number, by)


class gauge(_Numbered):
    """A value reported by the program, such as a loss or the length of a queue."""

    __slots__ = ()

    def set(self, value: float) -> None:
        """Records the current value."""
        _record.gauge(self._number, value)


# --- training loops ---

_STEP = scope("step")


class Schedule:
    """Selects steps of a training loop: in each cycle ``wait`` and ``warmup`` steps are skipped, then ``active`` recorded.

    Each step is a scope "step". Each of the ``repeat`` cycles (0: until the end) makes a recording in ``recordings``. With
    one cycle ``path`` is its path; with more, "train.pitot" becomes train-1.pitot, train-2.pitot. Other arguments: see
    start().
    """

    def __init__(
        self,
        *,
        wait: int = 0,
        warmup: int = 0,
        active: int = 1,
        repeat: int = 0,
        path: Optional[Path] = None,
        **settings: Unpack[Settings],
    ) -> None:
        if min(wait, warmup, repeat) < 0 or active < 1:
            raise UsageError(
                f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}: active must be >= 1, others >= 0"
            )
        _record.check(dict(settings))
        self._settings, self._path = settings, path
        self._before, self._cycle, self._repeat = wait + warmup, wait + warmup + active, repeat
        self.recordings: list[Running] = []
        self._number = 0
        self._running: Optional[Running] = None
        self._in_step = False

    def _start(self) -> Running:
        path = self._path
        if path is not None and self._repeat != 1:
            stem, suffix = os.path.splitext(os.fspath(path))
            path = f"{stem}-{len(self.recordings) + 1}{suffix}"
        running = Running(path, self._settings)
        self.recordings.append(running)
        return running

    def begin(self) -> None:
        """Begins a step, which must end on this thread."""
        self.end()
        if self._number % self._cycle == self._before and (not self._repeat or len(self.recordings) < self._repeat):
            self._running = self._start()
        _STEP.__enter__()
        self._in_step = True

    def end(self) -> None:
        """Ends the current step, if there is one."""
        if not self._in_step:
            return
        self._in_step = False
        _STEP.__exit__(None, None, None)
        self._number += 1
        if self._number % self._cycle == 0:
            self.close()

    def close(self) -> None:
        """Ends the current step and recording, if there are any."""
        self.end()
        running, self._running = self._running, None
        if running:
            running.stop()


class steps(Generic[Item]):
    """Iterates over the items of a training loop, whose body is a step. Other arguments: see Schedule."""

    def __init__(self, iterable: Iterable[Item], **schedule: Unpack[ScheduleSettings]) -> None:
        self._iterable, self._schedule = iterable, schedule
        self.recordings = Schedule(**schedule).recordings

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Item]:
        schedule = Schedule(**self._schedule)
        schedule.recordings = self.recordings
        try:
            for item in self._iterable:
                schedule.begin()
                yield item
                schedule.end()
        finally:
            schedule.close()
