"""Pitot, the flight recorder for GPU programs: reads recordings as Arrow tables and reports, and records this process.

>>> import pitot
>>> r = pitot.open(recording)
>>> r
<pitot.Recording '...pitot'>
>>> sorted(r.kernels.columns)[:3]
['block_x', 'block_y', 'block_z']
>>> r.kernels.columns["duration_ns"]
{'unit': 'ns', 'meaning': 'end_ns - start_ns'}

A table only describes columns and rows; an Arrow consumer decodes them: ``pyarrow.table(r.kernels)``,
``polars.DataFrame(r.kernels)``, ``pandas.DataFrame.from_arrow(r.kernels)``, or ``kernels = r.kernels`` and
``duckdb.sql("from kernels")``. Only the selected columns and rows are decoded:

>>> gemms = r.kernels.where("name=*gemm*", "stream=7").between(0.5, 1.5).select("name", "start_ns", "duration_ns")

Analyses are the same as in ``pitot report --json``:

>>> r.verdict["kind"]
'...'

A program records itself with ``with pitot.record() as rec:``, and names parts with ``pitot.scope("name")``
(docs/python-package.md).
"""

from __future__ import annotations

from types import MappingProxyType

from pitot._read import Error, FileError, FormatError, UsageError, check_interpreter
from pitot._read import Recording as _Recording
from pitot._read import version as __version__

check_interpreter()

TYPE_CHECKING = False  # importing typing takes longer than the rest of this module
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any, Iterator, Mapping, Optional, Sequence, Union

    import pandas
    import polars
    import pyarrow

    from pitot import callbacks as callbacks
    from pitot import gpufl as gpufl
    from pitot import torch as torch
    from pitot import tracesmith as tracesmith
    from pitot._notebook import Page
    from pitot._plot import Plot
    from pitot._record import external_pop, external_push, mark
    from pitot._recorder import Running, Schedule, Scope, counter, dump, gauge, record, scope, start, steps, stop

__all__ = [
    "__version__",
    "Answer",
    "Error",
    "FileError",
    "FormatError",
    "Recording",
    "Running",
    "Schedule",
    "Scope",
    "Table",
    "UsageError",
    "counter",
    "diff",
    "dump",
    "external_pop",
    "external_push",
    "gauge",
    "mark",
    "open",
    "record",
    "scope",
    "start",
    "steps",
    "stop",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        """Imports the recording half of the package, and loads the recorder, on first use."""
        import importlib

        if name in ("callbacks", "gpufl", "torch", "tracesmith"):
            return importlib.import_module(f"pitot.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'pitot' has no attribute {name!r}")
        value = getattr(importlib.import_module("pitot._recorder"), name)
        globals()[name] = value
        return value


_KERNELS = (
    "pid device context stream start_ns end_ns duration_ns name full_name grid_x grid_y grid_z block_x block_y block_z "
    "registers static_shared_bytes dynamic_shared_bytes correlation graph graph_node"
)
_LAUNCHES = "pid thread start_ns end_ns duration_ns function function.kind correlation result stack"
_COUNTERS = "pid device time_ns counter counter.unit counter.decimals counter.reading value"

#: By attribute of a recording: table, columns ("": all), conditions.
_TABLES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "kernels": ("kernel", _KERNELS, ()),
    "copies": ("memcpy", "", ()),
    "memsets": ("memset", "", ()),
    "graphs": ("graph_launch", "", ()),
    "launches": ("api_call", _LAUNCHES, ("function.kind>=launch", "function.kind<=graph_launch")),
    "calls": ("api_call", _LAUNCHES, ()),
    "synchronizations": ("synchronization", "", ()),
    "allocations": ("allocation", "", ()),
    "nvtx": ("nvtx", "", ()),
    "cpu_samples": ("cpu_sample", "", ()),
    "off_cpu": ("off_cpu", "", ()),
    "stalls": ("pc_sample", "", ()),
    "counters": ("counter_sample", _COUNTERS, ()),
    "processes": ("process", "", ()),
    "threads": ("thread", "", ()),
    "devices": ("device", "", ()),
}


_SQL_MEMORY = 4 << 30  # bytes, as for pitot sql


def _ns(seconds: Optional[float]) -> int:
    if seconds is not None and not 0 <= seconds < 2**33:
        raise UsageError(f"{seconds} is not a time: give seconds from the start of the recording")
    return round((seconds or 0) * 1e9)


def _window_words(since: Optional[float], until: Optional[float]) -> tuple[str, ...]:
    times = {"since": since, "until": until}
    return tuple(f"--{name}={_ns(time)}ns" for name, time in times.items() if time is not None)


def _texts(texts: Optional[tuple[str, ...]]) -> Optional[tuple[bytes, ...]]:
    return None if texts is None else tuple(text.encode() for text in texts)


class Table:
    """Selected columns and rows of a table. Each Arrow consumer decodes them anew."""

    def __init__(
        self,
        recording: _Recording,
        name: str,
        columns: Optional[tuple[str, ...]] = None,
        conditions: tuple[str, ...] = (),
        window: tuple[int, int] = (0, 0),
    ) -> None:
        self._recording = recording
        self._name, self._columns, self._conditions, self._window = name, columns, conditions, window

    def _query(self) -> tuple[bytes, Optional[tuple[bytes, ...]], Optional[tuple[bytes, ...]], int, int]:
        return (self._name.encode(), _texts(self._columns), _texts(self._conditions), *self._window)

    def select(self, *columns: str) -> Table:
        """Selects these columns, in this order, named as for ``pitot view --columns``: ``select("name", "config.grid_x")``."""
        return Table(self._recording, self._name, columns, self._conditions, self._window)

    def where(self, *conditions: str) -> Table:
        """Adds conditions on rows, as for ``pitot view --where``: ``where("stream=7", "duration>1ms")``."""
        return Table(self._recording, self._name, self._columns, self._conditions + conditions, self._window)

    def between(self, since: Optional[float] = None, until: Optional[float] = None) -> Table:
        """Selects the rows that begin at since <= time < until, in seconds from the start of the recording."""
        window = (_ns(since), max(_ns(until), 1) if until is not None else 0)
        return Table(self._recording, self._name, self._columns, self._conditions, window)

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Units and meanings of the columns. Decodes nothing."""
        return MappingProxyType(self._recording.columns(*self._query()))

    def __repr__(self) -> str:
        return f"<pitot.Table {self._name}: {', '.join(self.columns)}>"

    def __arrow_c_schema__(self) -> object:
        return self._recording.schema(*self._query())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._recording.stream(*self._query())

    def __len__(self) -> int:
        """Number of rows. Decodes one column if there are conditions, else nothing."""
        if not self._conditions and self._window == (0, 0):
            return {name: rows for name, _, rows in self._recording.tables()}[self._name]
        return len(self.select(next(iter(self.columns))).to_arrow())

    def __bool__(self) -> bool:
        return True

    def head(self, rows: int = 5) -> pandas.DataFrame:
        """The first rows."""
        return self.to_arrow().slice(0, rows).to_pandas()

    def _repr_html_(self) -> str:
        """The first ten rows; without pyarrow, what repr() says."""
        import html

        try:
            rows = self.to_arrow()
        except ImportError:
            return f"<pre>{html.escape(repr(self))}</pre>"
        lines = [rows.column_names, *zip(*(column.slice(0, 10).to_pylist() for column in rows.columns))]
        cells = ("".join(f"<td>{'' if value is None else html.escape(str(value))}</td>" for value in line) for line in lines)
        count = len(rows)
        note = f"{html.escape(self._name)}: {count:,} row{'' if count == 1 else 's'}" + (", the first 10" if count > 10 else "")
        return f"<p>{note}</p><table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows as dicts; so ``pandas.DataFrame(table)`` works. to_pandas() is faster and has all types."""
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        import polars

        return polars.DataFrame(self)


class Answer(Table):
    """The rows of a statement (``Recording.sql``). Each Arrow consumer runs it anew."""

    _engine: Any = None  # that of _duckdb; None: SQLite
    _limits: tuple[int, int] = (0, 0)  # ns and bytes

    @property
    def columns(self) -> Mapping[str, Mapping[str, str]]:
        """Names of the columns. Runs the statement."""
        return MappingProxyType({name: {} for name in self.to_arrow().column_names})

    def __repr__(self) -> str:
        return f"<pitot.Answer {self._name!r}>"

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self._engine is not None:
            return self._engine.ask(self._name, self._limits[0]).__arrow_c_stream__(requested_schema)
        return self._recording.sql(self._name.encode(), False, *self._limits)

    def __len__(self) -> int:
        """Number of rows. Runs the statement."""
        return len(self.to_arrow())

    def _refuse(self, *_: object) -> Table:
        raise UsageError("select, where and between are words of the statement")

    select = where = _refuse
    between = _refuse  # type: ignore[assignment]


class Recording:
    """An open recording: tables (``r.kernels``, ``r.table("kernel")``), analyses and exports."""

    kernels: Table
    copies: Table
    memsets: Table
    graphs: Table
    launches: Table
    calls: Table
    synchronizations: Table
    allocations: Table
    nvtx: Table
    cpu_samples: Table
    off_cpu: Table
    stalls: Table
    counters: Table
    processes: Table
    threads: Table
    devices: Table

    _engine: Any = None  # of sql(engine="duckdb"), when it was first used

    def __init__(self, path: Union[str, PathLike[str]]) -> None:
        import os

        self._recording = _Recording(path)
        #: Absolute, so that it is this recording also after os.chdir().
        self.path = os.path.realpath(path)
        #: In ns of the recorded machine's CLOCK_MONOTONIC, like all times; time + unix_offset_ns is Unix time.
        self.start_ns, self.end_ns, self.unix_offset_ns = self._recording.span()

    def __repr__(self) -> str:
        return f"<pitot.Recording {str(self.path)!r}>"

    def _repr_html_(self) -> str:
        """Its tables; ``r.report()`` is a page of its own."""
        import html

        lines = "".join(f"<tr><td>{name}</td><td>{rows:,}</td></tr>" for name, rows in self.tables.items())
        return f"<p>{html.escape(repr(self))}</p><table><tr><td>table</td><td>rows</td></tr>{lines}</table>"

    def __getattr__(self, name: str) -> Table:
        if name not in _TABLES:
            import difflib

            nearest = difflib.get_close_matches(name, dir(self), 1)
            raise AttributeError(f"a recording has no {name!r}" + (f", did you mean {nearest[0]!r}?" if nearest else ""))
        table, columns, conditions = _TABLES[name]
        return Table(self._recording, table, tuple(columns.split()) or None, conditions)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_TABLES]

    @property
    def tables(self) -> dict[str, int]:
        """Number of rows of each table that is not empty."""
        return {name: rows for name, _, rows in self._recording.tables() if rows}

    def table(self, name: str) -> Table:
        """A table of the schema (``pitot schema``), with all its columns."""
        table = Table(self._recording, name)
        table.__arrow_c_schema__()  # raises if there is no table of that name
        return table

    def sql(
        self, statement: str, *, engine: str = "sqlite", timeout: Optional[float] = None, memory_limit: int = _SQL_MEMORY
    ) -> Answer:
        """Asks in SQL, as ``pitot sql`` does (docs/sql.md): ``r.sql("SELECT * FROM kernel_summary").to_pandas()``.

        With ``engine="duckdb"`` in DuckDB, on all processors, over the same tables, which are read when first used.
        It may take ``timeout`` seconds and ``memory_limit`` bytes (4 GiB; 0: no limit), otherwise pitot.Error is raised.
        """
        if timeout is not None and not 0 < timeout < 2**33:
            raise UsageError(f"{timeout} is not a timeout: give seconds")
        if not 0 <= memory_limit < 2**63:
            raise UsageError(f"{memory_limit} is not a memory_limit: give bytes, or 0 for no limit")
        answer = Answer(self._recording, statement)
        answer._limits = (max(round((timeout or 0) * 1e9), timeout is not None), memory_limit)
        if engine == "sqlite":
            self._recording.sql(statement.encode(), True, *answer._limits)  # raises if it is wrong
        elif engine == "duckdb":
            from pitot._duckdb import Engine

            if self._engine is None or self.is_growing or self._engine.memory_limit != memory_limit:
                self._engine = Engine(self, memory_limit)
            answer._engine = self._engine
            answer._engine.check(statement, answer._limits[0])  # raises if it is wrong
        else:
            raise UsageError(f"unknown engine '{engine}': choose sqlite or duckdb")
        return answer

    @property
    def is_growing(self) -> bool:
        """Whether it is still being recorded, according to recording.json; the recorder may have been killed."""
        import io
        import json
        import os

        try:
            # Whatever somebody has put in its place: a FIFO is not waited for, and no link is followed.
            with io.open(
                os.path.join(self.path, "recording.json"),
                encoding="utf-8",
                opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW),
            ) as file:
                return bool(json.loads(file.read(4 << 20))["state"] == "recording")
        except (OSError, ValueError, LookupError, TypeError):  # a single segment, or a copy without it
            return False

    def follow(self, table: str, *, interval: float = 0.25, timeout: Optional[float] = None) -> Iterator[Table]:
        """Yields the rows of a table of events, each once: first existing ones, then new ones as they reach the disk.

        Ends with the recording, or after ``timeout`` seconds without a new row.
        """
        import time

        state, is_growing, latest = self._recording, True, time.monotonic()
        state.follow(table.encode())  # raises if it is not a table of events
        while True:
            if {name: rows for name, _, rows in state.tables()}[table]:
                latest = time.monotonic()
                yield Table(state, table)
            if not is_growing or (timeout is not None and time.monotonic() - latest >= timeout):
                return
            is_growing = self.is_growing  # read before the last rows, so that none is missed
            if is_growing:
                time.sleep(interval)
            state = state.follow(table.encode())

    @property
    def plot(self) -> Plot:
        """Plots: ``r.plot.timeline()`` and so on. They need matplotlib."""
        from pitot._plot import Plot

        return Plot(self)

    def report(
        self,
        *,
        by: Optional[str] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
        pid: int = -1,
        device: int = -1,
        stream: int = -1,
        kernel: Optional[str] = None,
        scope: Optional[str] = None,
        scopes: bool = False,
        stalls: bool = False,
    ) -> dict[str, Any]:
        """Returns what ``pitot report --json`` prints with options of these names (docs/report.md). Displays as the report."""
        import json

        from pitot._notebook import Analysis

        until_ns = max(_ns(until), 1) if until is not None else 0
        report = self._recording.report(_ns(since), until_ns, pid, device, stream, kernel, scope, by, scopes, stalls)
        numbers = {"process": pid, "device": device, "stream": stream}
        texts = {"kernel": kernel, "scope": scope, "by": by}
        chosen = {name: number for name, number in numbers.items() if number >= 0}
        words = _window_words(since, until) + tuple(
            f"--{name}={value}" for name, value in {**chosen, **texts}.items() if value is not None
        )
        words += ("--scopes",) * scopes + ("--stalls",) * stalls
        return Analysis(json.loads(report), self.path, words)

    def what_if(self, *transforms: str) -> dict[str, Any]:
        """Returns what ``pitot what-if --json`` prints: what these changes bring or, without any, what to work on."""
        import json

        from pitot._notebook import run

        return dict(json.loads(run("what-if", "--json", self.path, *transforms)))

    @property
    def memory(self) -> dict[str, Any]:
        """Who owns GPU memory at its peak, what grows, and calls in steps (docs/report.md). Displays as the report."""
        from pitot._notebook import Memory

        return Memory(self.path)

    def replay(self, *options: str) -> dict[str, Any]:
        """Executes the GPU work again, and returns what ``pitot replay --json`` prints: ``r.replay("--dry-run")``."""
        import json

        from pitot._notebook import run

        return dict(json.loads(run("replay", "--json", self.path, *options)))

    def flame(self, mode: Optional[str] = None) -> Page:
        """Returns the page of ``pitot flame`` for a notebook: merged (all; the default), gpu, cpu, wait or launches."""
        from pitot._notebook import flame_page

        return flame_page(self.path, mode)

    def timeline(self, *, since: Optional[float] = None, until: Optional[float] = None, kernel: Optional[str] = None) -> Page:
        """Returns the page of ``pitot export -o x.html`` for a notebook."""
        from pitot._notebook import timeline_page

        return timeline_page(self.path, _window_words(since, until) + ((f"--kernel={kernel}",) if kernel is not None else ()))

    def hotspots(self, by: str = "kernel", **options: Any) -> list[dict[str, Any]]:
        """GPU time by kernel, config, stream, device, thread, scope or caller. Other options: see report()."""
        return list(self.report(by=by, **options)["hotspots"]["items"])

    @property
    def verdict(self) -> dict[str, Any]:
        """What bounds the program."""
        return dict(self.report()["verdict"])

    @property
    def idle(self) -> list[dict[str, Any]]:
        """How long each GPU with work was idle, and why."""
        return [{"gpu": gpu["gpu"], **gpu["idle"]} for gpu in self.report()["gpus"] if "idle" in gpu]

    @property
    def overlap(self) -> list[dict[str, Any]]:
        """For each GPU: time with copies, with kernels and with both, and time by number of active streams."""
        keys = ("compute_ns", "copy_ns", "overlap_ns", "streams_ns")
        gpus = [gpu for gpu in self.report()["gpus"] if "busy" in gpu]
        return [{"gpu": gpu["gpu"], **{key: gpu["busy"][key] for key in keys}} for gpu in gpus]

    @property
    def copies_by_kind(self) -> list[dict[str, Any]]:
        """Copies and memory sets by kind and kinds of memory, with bytes and times."""
        return list(self.report()["copies"])

    @property
    def scopes(self) -> list[dict[str, Any]]:
        """The tree of scopes with their GPU work, parents first."""
        return list(self.report(scopes=True)["scopes"]["items"])

    @property
    def loss(self) -> list[dict[str, Any]]:
        """Data known to be missing from the recording, and why."""
        return list(self.report()["loss"])

    def export(
        self,
        path: Union[str, PathLike[str]],
        *,
        format: Optional[str] = None,
        since: Optional[float] = None,
        until: Optional[float] = None,
        kernel: Optional[str] = None,
        overwrite: bool = False,
    ) -> int:
        """Writes the same file as ``pitot export -o path``; the name selects the format. Returns the number of events."""
        until_ns = max(_ns(until), 1) if until is not None else 0
        return self._recording.export(path, format, _ns(since), until_ns, kernel, overwrite)


def open(path: Union[str, PathLike[str]]) -> Recording:
    """Opens a recording: its directory, or a single segment; or what ``pitot import`` reads, such as a trace of
    torch.profiler or an export of Nsight Systems, as a temporary recording."""
    try:
        return Recording(path)
    except FormatError as error:
        from pitot._imported import import_recording, remove_with

        try:
            imported = import_recording(path)
        except (Error, OSError) as reason:
            raise error from reason
    recording = Recording(imported)
    remove_with(recording, imported)
    return recording


def diff(
    a: Union[str, PathLike[str], Sequence[Union[str, PathLike[str]]]],
    b: Union[str, PathLike[str], Sequence[Union[str, PathLike[str]]], None] = None,
    *,
    fail_if: Sequence[str] = (),
    against: Optional[str] = None,
) -> dict[str, Any]:
    """Compares two sides of recordings: returns what ``pitot diff --json`` prints (docs/diff.md). Displays as its tables.

    ``diff(a, against="main")`` compares them with a baseline."""
    from pitot._notebook import Comparison

    if (b is None) == (against is None):
        raise TypeError("diff() compares a with b, or with against=, the name of a baseline")

    def paths(side: Any) -> list[Any]:
        return [side] if isinstance(side, (str, bytes)) or hasattr(side, "__fspath__") else list(side)

    words = [f"--fail-if={condition}" for condition in fail_if]
    if b is None:
        return Comparison([f"--against={against}", *words, *paths(a)])
    return Comparison([*words, *paths(a), "--", *paths(b)])


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext pitot`` adds ``%%pitot`` (docs/python-package.md)."""
    from pitot._notebook import load

    load(shell)
