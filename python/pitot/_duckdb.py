"""Statements in DuckDB, over the tables of ``Recording.sql`` as Arrow: they are read once, with the columns that are named."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager

from pitot._read import Error, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, Optional

    from pitot import Recording

# The functions of docs/sql.md. Whatever a statement could reach outside of the tables is off.
SETUP = (
    "SET scalar_subquery_error_on_multiple_rows = false",  # the first row, as in SQLite
    "CREATE MACRO median(x) AS quantile_disc(x, 0.5)",
    "CREATE MACRO percentile(x, percent) AS quantile_disc(x, percent / 100)",
    "CREATE MACRO kernel_short(name) AS coalesce(getvariable('short_names')[name], name)",
    "CREATE MACRO kernel_full(name) AS coalesce(getvariable('full_names')[name], name)",
    "CREATE MACRO overlap(a, b, c, d) AS CASE WHEN a + b + c + d NOTNULL THEN greatest(0, least(b, d) - greatest(a, c)) END",
    "SET python_enable_replacements = false",
    "SET temp_directory = ''",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
TOO_LARGE = "the statement needs more memory than it may: memory_limit gives it more"
# What uses columns without naming them. A statement that begins with FROM selects all.
UNNAMED = re.compile(r"(?:\bselect|\bdistinct|\ball|,|\.)\s*\*|\bnatural\b|\bcolumns\s*\(|^\s*from\b", re.I)


class Engine:
    """A database of one recording. What it reads from it is beside the limit of memory."""

    def __init__(self, recording: Recording, memory_limit: int) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise Error(f"{error}: pip install duckdb pyarrow") from None
        self._duckdb, self._recording, self.memory_limit = duckdb, recording, memory_limit
        self._deadline: Optional[float] = None  # of time.monotonic(), for the statement
        self._connection = duckdb.connect(":memory:", config={"memory_limit": f"{memory_limit}B"} if memory_limit else {})
        self._parser = duckdb.connect(":memory:")  # without tables: it names those that a statement needs
        self._loaded: dict[str, dict[str, Any]] = {}  # columns by table
        self._has_names = False
        for statement in SETUP:
            self._connection.execute(statement)
            self._parser.execute(statement.replace("quantile_disc(x, percent / 100)", "max(x)"))  # it has no constants

    def _read(self, statement: str) -> Any:
        """Rows of SQLite, within the rest of the time."""
        rest = None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-9)
        return self._recording.sql(statement, timeout=rest, memory_limit=0).to_arrow()

    @contextmanager
    def _limited(self, timeout_ns: int) -> Iterator[None]:
        """Interrupts DuckDB at the end of the time; it forgets interrupts when a part of a statement begins."""
        self._deadline = time.monotonic() + timeout_ns / 1e9 if timeout_ns else None
        ended, late = threading.Event(), threading.Event()

        def watch() -> None:
            pause = timeout_ns / 1e9
            while not ended.wait(pause):
                late.set()
                self._connection.interrupt()
                pause = 0.02

        watcher = threading.Thread(target=watch, daemon=True)
        if timeout_ns:
            watcher.start()
        try:
            yield
        except Error:
            raise
        except (self._duckdb.Error, OSError) as error:  # OSError: of a stream of Arrow
            if late.is_set():
                raise Error("the statement took longer than its time: timeout gives it more") from None
            if isinstance(error, self._duckdb.OutOfMemoryException):
                raise Error(TOO_LARGE) from None
            raise UsageError(str(error)) from None
        finally:
            ended.set()
            if timeout_ns:
                watcher.join()

    def _load_names(self) -> None:
        """What kernel_short() and kernel_full() say of all names."""
        functions = "kernel_short(config_name) AS short, kernel_full(config_name) AS long"
        rows = self._read(f"SELECT config_name AS name, {functions} FROM kernel WHERE config_name NOTNULL GROUP BY 1")
        self._connection.register("names", rows)
        for variable, column in ("short_names", "short"), ("full_names", "long"):
            self._connection.execute(f"SET VARIABLE {variable} = (SELECT map(list(name), list({column})) FROM names)")
        self._connection.unregister("names")
        self._has_names = True

    def _columns(self, table: str, statement: str) -> list[str]:
        """Those that the statement may use: its words, or all of them. ``*`` does not contain rowid."""
        try:
            columns = self._read(f'SELECT * FROM "{table}" WHERE 0').column_names
            first = self._read(f'SELECT rowid FROM "{table}" LIMIT 1')["rowid"].to_pylist()
        except UsageError:  # DuckDB says that it is unknown
            return []
        words = {word.lower() for word in re.findall(r"\w+", statement)}
        rowid = ["rowid"] if "rowid" in words and first != [None] else []  # None: a view
        return rowid + [name for name in columns if name.lower() in words or UNNAMED.search(statement)] or columns[:1]

    def _load(self, table: str, statement: str) -> None:
        import pyarrow

        columns, loaded = self._columns(table, statement), self._loaded.setdefault(table, {})
        if missing := [name for name in columns if name not in loaded]:
            quoted = ", ".join(f'"{name}"' for name in missing)
            rows = self._read(f'SELECT {quoted} FROM "{table}"')
            loaded.update(zip(missing, rows.columns))
        if columns:
            self._connection.register(table, pyarrow.table({name: loaded[name] for name in columns}))

    def _prepare(self, statement: str) -> Any:
        """A relation of DuckDB, which is not run yet."""
        statements = self._duckdb.extract_statements(statement)
        if len(statements) != 1:
            raise UsageError("more than one statement" if statements else "no statement")
        if statements[0].type != self._duckdb.StatementType.SELECT:
            raise UsageError("only SELECT is allowed")
        if not self._has_names and re.search(r"\bkernel_(short|full)\b", statement, re.I):
            self._load_names()
        for table in self._parser.get_table_names(statement):
            self._load(table, statement)
        return self._connection.sql(statement)

    def check(self, statement: str, timeout_ns: int) -> None:
        with self._limited(timeout_ns):
            self._prepare(statement)

    def ask(self, statement: str, timeout_ns: int) -> Any:
        """The rows, as a pyarrow.Table."""
        import pyarrow

        batches: list[Any] = []
        size = 0
        with self._limited(timeout_ns), pyarrow.RecordBatchReader.from_stream(self._prepare(statement)) as reader:
            for batch in reader:
                batches.append(batch)
                size += batch.nbytes
                if 0 < self.memory_limit < size:
                    raise Error(TOO_LARGE)
        return self._whole_numbers(pyarrow.Table.from_batches(batches, reader.schema))

    @staticmethod
    def _whole_numbers(rows: Any) -> Any:
        """Sums of integers are 128 bits wide in DuckDB: they are int64 where they fit."""
        import pyarrow

        for at, field in enumerate(rows.schema):
            if pyarrow.types.is_decimal(field.type) and field.type.scale == 0:
                try:
                    rows = rows.set_column(at, field.name, rows.column(at).cast(pyarrow.int64()))
                except pyarrow.ArrowInvalid:
                    pass
        return rows
