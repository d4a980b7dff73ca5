"""Recordings that this process makes of itself, and what it says in them: what ``pitot`` has of it, imported when asked for."""

from __future__ import annotations

import atexit
import os
import sys
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
        """The fields of ``struct pitot_options`` (docs/embed.md). None is "not given"; 0 of a time or a size is none."""

        app_name: Optional[str]
        log_path: Optional[Path]
        config_file: Optional[Path]
        enabled: Optional[bool]
        engine: Optional[Engine]
        delay_ns: Optional[int]
        duration_ns: Optional[int]
        graphs: Optional[Literal["launch", "auto", "node"]]
        api: Optional[Literal["launches", "all"]]
        stacks: Optional[Literal["none", "native", "python", "all"]]
        sync: Optional[bool]
        memory: Optional[bool]
        counters_ns: Optional[int]
        own_profiler: Optional[Literal["keep", "share", "yield"]]
        system: Optional[Literal["basic", "all"]]
        max_bytes: Optional[int]
        pc_period: Optional[int]
        pm_interval_ns: Optional[int]
        metrics: Optional[str]
        kernels: Optional[str]
        kernel_skip: Optional[int]
        kernel_count: Optional[int]
        cpu: Optional[int]
        counters_always: Optional[bool]

    class ScheduleSettings(Settings, total=False):
        """Those, and the arguments of Schedule."""

        wait: int
        warmup: int
        active: int
        repeat: int
        path: Optional[Path]


Item = TypeVar("Item")


def decorated(function: Function, around: Callable[[], Any]) -> Function:
    """The function within what ``around()`` makes for each call."""
    import functools
    import inspect

    for is_such in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction):
        if is_such(function):
            raise UsageError(
                f"{function.__qualname__} is async or a generator, whose call ends before its body runs: use `with` in its body"
            )

    @functools.wraps(function)
    def within(*args: Any, **keywords: Any) -> Any:
        with around():
            return function(*args, **keywords)

    return within  # type: ignore[return-value]


# --- recordings ---


_NOTHING = "nothing was recorded: recording is switched off, by PITOT_DISABLED or a setting"


class Report(str):
    """A report as text, which a notebook shows as a page, or as it is where there is none."""

    path: Optional[str] = None

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        from pitot._notebook import report_page

        try:
            if self.path:
                return report_page(self.path)._repr_html_()
        except (Error, OSError):  # the recording is gone since
            pass
        return f'<pre style="line-height: 1.2">{html.escape(self)}</pre>'


class Running:
    """A recording that this process makes of itself, until stop()."""

    #: Absolute path of the recording; None: recording is switched off (PITOT_DISABLED), and nothing is recorded.
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
            raise TypeError("a recording that runs is not copied or pickled: pass its path, for pitot.open()")
        return self.__dict__

    def stop(self) -> None:
        """Ends it: everything up to here is on disk. Does nothing the second time, and in the child of a fork."""
        if session := _sessions.pop(self, None):
            with _in_use:
                _record.stop(session)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def flush(self) -> None:
        """What was recorded so far is on disk when it returns; of GPU work, what has ended."""
        _record.flush()

    def engine(self, engine: Engine, *, delay_ns: int = 0, duration_ns: int = 0) -> Armed:
        """An engine beside the trace, for a block: ``with rec.engine("pc-sampling"):``, or for a time (docs/embed.md)."""
        return Armed(self, {"engine": engine, "delay_ns": delay_ns or None, "duration_ns": duration_ns or None})

    def open(self) -> Recording:
        """Opens it for reading; while it runs: what was recorded so far."""
        from pitot import open

        if self.path is None:
            raise Error(_NOTHING)
        if self in _sessions:
            self.flush()
        return open(self.path)

    def report(self) -> Report:
        """What ``pitot report`` says. Printed in a script; an interpreter and a notebook show what is returned."""
        report = Report(f"{_NOTHING}\n" if self.path is None else self._say("report", "--no-pager", self.path))
        report.path = self.path
        if not hasattr(sys, "ps1"):
            print(report, end="")
        return report

    def flame(self, mode: Optional[str] = None) -> Page:
        """The page of ``pitot flame``, in a notebook: merged, gpu, cpu, wait or launches."""
        return self.open().flame(mode)

    def timeline(self) -> Page:
        """The page of ``pitot export -o x.html``, in a notebook."""
        return self.open().timeline()

    def _say(self, *words: str) -> str:
        from pitot._notebook import say

        if self in _sessions:
            self.flush()
        return say(*words)


class Armed:
    """An engine of a recording that runs, from here to the end of the block or for its time."""

    def __init__(self, running: Running, settings: dict[str, Any]) -> None:
        self._running = running
        with _in_use:
            if session := _sessions.get(running):
                _record.engine_begin(session, settings)
            elif running.path is not None:
                raise Error("the recording has ended")

    def end(self) -> None:
        """Ends it before its time; with the recording it has ended."""
        with _in_use:
            if session := _sessions.get(self._running):
                _record.engine_end(session)

    def __enter__(self) -> Armed:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


#: Of each recording that runs; who takes one out ends it.
_sessions: dict[Running, object] = {}
_in_use = RLock()  # a session, which stop() frees
os.register_at_fork(after_in_child=_in_use._at_fork_reinit)  # type: ignore[attr-defined]


@atexit.register
def _stop_all() -> None:
    """Each takes a quarter of a second beside others. After two seconds the rest end with the process, all at once."""
    from time import monotonic

    until = monotonic() + 2
    for running in list(_sessions):
        if monotonic() < until:
            running.stop()
        elif session := _sessions.pop(running, None):
            _record.leave(session)


def start(path: Optional[Path] = None, **settings: Unpack[Settings]) -> Running:
    """Starts a recording, into a new folder. Without a path it is NAME-DATE-TIME.pitot in the current one."""
    return Running(path, settings)


def stop() -> Optional[Running]:
    """Ends the recording that began last, and returns it; None: none runs."""
    running = next(iter(reversed(list(_sessions))), None)
    if running:
        running.stop()
    return running


class record:
    """A recording of a block or of a function: ``with pitot.record() as rec:``, ``@pitot.record()``. Arguments: see start()."""

    def __init__(self, path: Optional[Path] = None, **settings: Unpack[Settings]) -> None:
        _record.check(dict(settings))
        self._path, self._settings = path, settings
        self._running: Optional[Running] = None
        self._is_entered = allocate_lock()

    def __enter__(self) -> Running:
        if not self._is_entered.acquire(False):
            raise UsageError("this is recording already: call pitot.record() again for another")
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
    """A named span of a thread, made by ``scope(name)``. It serves again and again, within itself, and all threads."""

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        return decorated(function, lambda: self)

    def iterate(self, repeat: int, warmup: int = 0) -> Iterator[int]:
        """A benchmark: one scope, in which the body runs ``warmup`` times, which do not count, and ``repeat`` times."""
        if not (0 <= repeat < 2**32 and 0 <= warmup < 2**32):
            raise UsageError(f"repeat={repeat}, warmup={warmup}: a body runs from 0 to 2^32 - 1 times")
        return self._iterate(repeat, warmup)

    def _iterate(self, repeat: int, warmup: int) -> Iterator[int]:
        self.begin_runs(repeat, warmup)
        try:
            yield from range(warmup + repeat)
        finally:
            _record.scope_end()


scope: Callable[[str], Scope] = _record.scope
mark = _record.mark
external_push = _record.external_push
external_pop = _record.external_pop


class _Numbered:
    __slots__ = ("_number", "_about")

    def __init__(self, name: str, unit: str = "", description: str = "") -> None:
        self._number, self._about = _record.counter(name, unit, description), (name, unit, description)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._about  # another process has another number for it


class counter(_Numbered):
    """A sum of the program's own, such as tokens. The same name is the same counter."""

    __slots__ = ()

    def add(self, by: int = 1) -> None:
        """Adds to the sum, from any thread. Nothing is added while nothing is recorded."""
        _record.counter_add(self._number, by)


class gauge(_Numbered):
    """A value of the program's own, such as a loss or the length of a queue."""

    __slots__ = ()

    def set(self, value: float) -> None:
        """Records the value as it is now."""
        _record.gauge(self._number, value)


# --- training loops ---


class Schedule:
    """Which steps of a training loop are recorded: ``wait`` and ``warmup`` are not, then ``active`` are, and so on.

    Each step is a scope "step". Each cycle has a recording of its own; ``repeat`` says how many there are (0: until the end).
    ``path`` is that of the only one; of several, "train.pitot" makes train-1.pitot, train-2.pitot. Other arguments are those
    of start(). ``recordings`` has the recordings.
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
            raise UsageError(f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}: active is 1 at least, others 0")
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
        """A step begins; on this thread it has to end."""
        self.end()
        if self._number % self._cycle == self._before and (not self._repeat or len(self.recordings) < self._repeat):
            self._running = self._start()
        scope("step").__enter__()
        self._in_step = True

    def end(self) -> None:
        """The step, if one has begun, ends."""
        if not self._in_step:
            return
        self._in_step = False
        _record.scope_end()
        self._number += 1
        if self._number % self._cycle == 0:
            self.close()

    def close(self) -> None:
        """Ends the step and the recording, if there is one."""
        self.end()
        running, self._running = self._running, None
        if running:
            running.stop()


class steps(Generic[Item]):
    """The items of a training loop, whose body is a step. The other arguments are those of Schedule."""

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
