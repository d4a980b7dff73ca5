"""Formats of tables: every value is what `pitot view --json` says, for each reader."""
import json
import math
import os
import sqlite3

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

RECORDINGS = {
    "varied": ["varied"], "scopes": ["scopes"], "counters": ["counters"], "stalls": ["stalls"],
}
LEADING = ["job", "host", "rank", "pid", "session"]


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    made = {name: make_recording(folder / f"{name}.pitot", *what) for name, what in RECORDINGS.items()}
    made["large"] = make_recording(folder / "large.pitot", kernels=140_000, processes=2, pattern="copies")
    return made


def tables_of(pitot, recording):
    return [name for name, table in pitot("info", recording, "--json", json_output=True)["tables"].items() if table["rows"] and name != "string"]


def view(pitot, recording, table):
    return [json.loads(line) for line in pitot("view", recording, table, "--json", "-q", "--full-names").stdout.splitlines()]


def same(value, other):
    if isinstance(value, float) and isinstance(other, (int, float)):
        return math.isclose(value, other, rel_tol=1e-12) or (math.isnan(value) and math.isnan(other))
    return value == other


def check_rows(rows, expected, offset):
    """Each column that has the name of one of `view` has its values; times after the origin's subtraction."""
    assert len(rows) == len(expected)
    for row, known in zip(rows, expected):
        for key, value in known.items():
            if key not in row or key in LEADING or key == "config" or "counter_name" in row and key == "value":
                continue  # names of kernels are demangled, values of counters are in their units
            name = f"{key}_name"
            found = row[name] if name in row else row[key]
            if name in row and found is None:
                continue
            if key in TIMES and value is not None:
                found -= offset
            assert same(found, value), (key, row, known)


TIMES = {"start_ns", "end_ns", "time_ns", "queued_ns", "submitted_ns", "loaded_ns", "destroyed_ns", "monotonic_ns"}


def plain(table):
    """Rows of an Arrow table, with times as numbers."""
    for i, field in enumerate(table.schema):
        if pyarrow.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pyarrow.int64()))
    return table.to_pylist()


def offset_of(rows, expected):
    """What the origin of `view` is in the other clock: that of the first time."""
    for row, known in zip(rows, expected):
        for key in TIMES & known.keys() & row.keys():
            if known[key] is not None:
                return row[key] - known[key]
    return 0


@pytest.mark.parametrize("name", [*RECORDINGS, "large"])
def test_parquet(pitot, recordings, tmp_path, name):
    recording = recordings[name]
    said = pitot("export", recording, "-o", tmp_path / "x.parquet", "--json", json_output=True)
    assert said["format"] == "parquet" and said["files"] == len(list((tmp_path / "x.parquet").iterdir()))
    assert sorted(path.stem for path in (tmp_path / "x.parquet").iterdir()) == sorted(tables_of(pitot, recording))
    for path in (tmp_path / "x.parquet").iterdir():
        table = pyarrow.parquet.read_table(path)
        names = table.schema.names
        assert names[:5] == LEADING and len(names) == len(set(names)) and not {"end_ns", "duration_ns"} <= set(names)
        assert table.num_rows == said["written"][path.stem]
        if name != "large":
            rows, expected = plain(table), view(pitot, recording, path.stem)
            check_rows(rows, expected, offset_of(rows, expected))


def test_units_and_names(pitot, recordings, tmp_path):
    pitot("export", recordings["varied"], "-o", tmp_path / "x.parquet")
    samples = pyarrow.parquet.read_table(tmp_path / "x.parquet/counter_sample.parquet").to_pylist()
    raw = view(pitot, recordings["varied"], "counter_sample")
    decimals = {row["name"]: row["decimals"] for row in view(pitot, recordings["varied"], "counter")}
    assert [(row["counter_name"], row["value"]) for row in samples] == \
        [(row["counter"], pytest.approx(row["value"] / 10**decimals[row["counter"]])) for row in raw]
    pitot("export", recordings["counters"], "-o", tmp_path / "y.parquet")
    kernels = pyarrow.parquet.read_table(tmp_path / "y.parquet/kernel.parquet").to_pylist()
    assert "gemm(float*)" in {row["config_name"] for row in kernels}


def test_parquet_row_groups(pitot, recordings, tmp_path):
    """Statistics lead to the rows of a time; both processes are there."""
    pitot("export", recordings["large"], "-o", tmp_path / "x.parquet")
    file = pyarrow.parquet.ParquetFile(tmp_path / "x.parquet/kernel.parquet")
    meta = file.metadata
    assert meta.num_row_groups > 1 and meta.num_rows == sum(meta.row_group(i).num_rows for i in range(meta.num_row_groups))
    start = meta.schema.names.index("start_ns")
    for i in range(meta.num_row_groups):
        times = file.read_row_group(i, ["start_ns"]).column(0).cast(pyarrow.int64())
        statistics = meta.row_group(i).column(start).statistics
        low, high = pyarrow.compute.min_max(times).as_py().values()
        assert statistics.has_min_max and (statistics.min_raw, statistics.max_raw) == (low, high)
    assert len(set(file.read(["session"]).column(0).to_pylist())) == 2


def test_parquet_in_duckdb(pitot, recordings, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pitot("export", recordings["large"], "-o", tmp_path / "x.parquet")
    found = duckdb.sql(f"SELECT config_name, count(*), sum(duration_ns)::BIGINT FROM '{tmp_path}/x.parquet/kernel.parquet' GROUP BY 1 ORDER BY 1").fetchall()
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet/kernel.parquet")
    sums = table.group_by("config_name").aggregate([("duration_ns", "count"), ("duration_ns", "sum")]).sort_by("config_name").to_pylist()
    assert found == [(row["config_name"], row["duration_ns_count"], row["duration_ns_sum"]) for row in sums]
    one = duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/x.parquet/kernel.parquet' WHERE start_ns < '1970-01-02'").fetchall()
    assert one == [(0,)]


def test_a_window(pitot, recordings, tmp_path):
    starts = sorted(row["start_ns"] for row in view(pitot, recordings["large"], "kernel"))
    since, until = starts[len(starts) // 4], starts[len(starts) // 2]
    pitot("export", recordings["large"], "-o", tmp_path / "x.parquet", "--since", f"{since}ns", "--until", f"{until}ns")
    found = pyarrow.parquet.read_table(tmp_path / "x.parquet/kernel.parquet").num_rows
    assert 0 < found == sum(since <= start < until for start in starts)


def test_what_is_refused(pitot, recordings, tmp_path):
    folder = tmp_path / "x.parquet"
    assert "whole tables" in pitot("export", recordings["varied"], "-o", folder, "--kernel", "gemm", status=2).stderr and not folder.exists()
    pitot("export", recordings["varied"], "-o", folder)
    assert "--force" in pitot("export", recordings["varied"], "-o", folder, status=1).stderr
    pitot("export", recordings["varied"], "-o", folder, "--force")
    assert "is a folder" in pitot("export", recordings["varied"], "-o", "-", "--format", "parquet", status=2).stderr


@pytest.mark.parametrize("name", RECORDINGS)
def test_sqlite(pitot, recordings, tmp_path, name):
    """The views have what `view` shows; the tables have the numbers."""
    recording = recordings[name]
    said = pitot("export", recording, "-o", tmp_path / "x.sqlite", "--json", json_output=True)
    db = sqlite3.connect(tmp_path / "x.sqlite")
    db.row_factory = sqlite3.Row
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    views = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert views == set(tables_of(pitot, recording)) == said["written"].keys()
    for table in views:
        rows = [dict(row) for row in db.execute(f'SELECT * FROM "{table}"')]
        expected = view(pitot, recording, table)
        for row in expected:  # SQLite has no unsigned numbers
            row.update({key: value - 2**64 for key, value in row.items() if isinstance(value, int) and value >= 2**63})
        check_rows(rows, expected, offset_of(rows, expected))
        assert db.execute(f'SELECT count(*) FROM "{table}_data"').fetchone()[0] == len(rows)


def test_sqlite_elsewhere(pitot, recordings, tmp_path):
    """Standard output, and a folder for temporary files that is none; nothing is left in it."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    data = pitot("export", recordings["varied"], "-o", "-", "--format", "sqlite", text=False, env={**os.environ, "TMPDIR": str(temporary)}).stdout
    assert data.startswith(b"SQLite format 3\0") and not list(temporary.iterdir())
    error = pitot("export", recordings["varied"], "-o", "y.sqlite", status=1, env={**os.environ, "TMPDIR": "/none"}).stderr
    assert "cannot create a folder '/none/" in error and not (tmp_path / "y.sqlite").exists()
