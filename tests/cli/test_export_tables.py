"""Formats of tables: every value is what `pitot view --json` says, for each reader."""
import csv
import json
import math
import os
import re
import sqlite3

import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.feather
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


def check_folder(pitot, recording, folder, suffix, read):
    """Each table that has rows is a file; `read` returns its rows as an Arrow table."""
    said = pitot("export", recording, "-o", folder, "--json", json_output=True)
    assert said["format"] == suffix and said["files"] == len(list(folder.iterdir()))
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.{suffix}" for name in tables_of(pitot, recording))
    for path in folder.iterdir():
        rows, expected = plain(read(path)), view(pitot, recording, path.stem)
        assert list(rows[0])[:5] == LEADING and len(rows) == said["written"][path.stem]
        check_rows(rows, expected, offset_of(rows, expected))


@pytest.mark.parametrize("name", RECORDINGS)
def test_arrow(pitot, recordings, tmp_path, name):
    def read(path):
        table = pyarrow.feather.read_table(path)
        table.validate(full=True)
        assert table.schema.metadata[b"pitot.table"] == path.stem.encode() and all(field.metadata for field in table.schema)
        return table

    check_folder(pitot, recordings[name], tmp_path / "x.arrow", "arrow", read)


def test_arrow_batches(pitot, recordings, tmp_path):
    """Larger tables have several batches, with one dictionary for each column, as Parquet's tables do."""
    pitot("export", recordings["large"], "-o", tmp_path / "x.arrow")
    pitot("export", recordings["large"], "-o", tmp_path / "x.parquet")
    file = pyarrow.ipc.open_file(tmp_path / "x.arrow/kernel.arrow")
    assert file.num_record_batches == 2
    table, other = file.read_all(), pyarrow.parquet.read_table(tmp_path / "x.parquet/kernel.parquet")
    for name in other.schema.names:
        column = table[name].combine_chunks()
        assert column.cast(other.schema.field(name).type).equals(other[name].combine_chunks()), name


def read_csv(path):
    """Cells by column: numbers where they look like it, None where they are empty."""
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    assert path.read_bytes().endswith(b"\n") and all(len(row) == len(head) for row in rows)

    def value(cell):
        for kind in (int, float):
            try:
                return kind(cell)
            except ValueError:
                pass
        return cell or None

    return {name: [value(row[i]) for row in rows] for i, name in enumerate(head)}


@pytest.mark.parametrize("name", RECORDINGS)
def test_csv(pitot, recordings, tmp_path, name):
    recording, folder = recordings[name], tmp_path / "x.csv"
    said = pitot("export", recording, "-o", folder, "--json", json_output=True)
    assert sorted(path.stem for path in folder.iterdir()) == sorted(tables_of(pitot, recording)) and said["format"] == "csv"
    for path in folder.iterdir():
        columns, expected = read_csv(path), view(pitot, recording, path.stem)
        assert list(columns)[:5] == LEADING
        rows = [dict(zip(columns, cells)) for cells in zip(*columns.values())]
        for row, known in zip(rows, expected):  # no apostrophe, and texts that look like numbers
            for key, cell in row.items():
                wanted = known.get(key.removesuffix("_name") if key.endswith("_name") else key)
                if isinstance(wanted, str) and cell is not None:
                    row[key] = wanted if str(cell).removeprefix("'") == re.sub("[\x00-\x08\x0b-\x1f\x7f]", "\ufffd", wanted) else cell
                elif wanted == "" and cell is None:
                    row[key] = ""
        check_rows(rows, expected, offset_of(rows, expected))


HOSTILE = ["=cmd|' /C calc'!A0", "+1", "-1+2", "@SUM(A1)", "\tx", "a,b", 'say "hi"', "two\nlines", "\x1b[31mred\x1b[0m", "é", " ", "", " =1",
           "\n \u00a0@x", "\ufeff-1", "\uff1d1", "\u3000\uff0b1", " x"]


def test_csv_of_hostile_names(pitot, tmp_path):
    """No cell is a formula, and none drives a terminal."""
    spans = [{"ph": "i", "s": "t", "name": name, "ts": 1000 + i, "pid": 5, "tid": 6} for i, name in enumerate(HOSTILE)]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": spans}))
    pitot("import", "t.json", "-o", "t.pitot")
    pitot("export", "t.pitot", "-o", "x.csv")
    data = (tmp_path / "x.csv/nvtx.csv").read_bytes().decode()
    assert "\x1b" not in data
    with open(tmp_path / "x.csv/nvtx.csv", newline="") as file:
        found = [row["message"] for row in csv.DictReader(file)]
    starts = tuple("=+-@\t\uff1d\uff0b\uff0d\uff20")
    assert found == [("'" if name.lstrip(" \n\u00a0\ufeff\u3000").startswith(starts) else "") + name.replace("\x1b", "\ufffd") for name in HOSTILE]


def test_partitions(pitot, tmp_path):
    """Files by rank, which readers of Hive's folders put together: the rows of the unpartitioned export."""
    duckdb = pytest.importorskip("duckdb")
    for rank, count in ((0, 3), (1, 5)):
        events = [{"ph": "X", "cat": "kernel", "name": f"k{rank}", "ts": 10 * i, "dur": 5, "pid": 0, "tid": 7,
                   "args": {"device": 0, "stream": 7, "correlation": i}} for i in range(1, count + 1)]
        (tmp_path / f"rank-{rank}.json").write_text(json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "hostName": "a/b %", "host_name": "a/b %",
                                                                 "traceEvents": events}))
    pitot("import", "rank-0.json", "rank-1.json", "-o", "r.pitot")
    pitot("export", "r.pitot", "-o", "whole.parquet")
    said = pitot("export", "r.pitot", "-o", "x.parquet", "--partition", "--json", json_output=True)
    kernels = tmp_path / "x.parquet/kernel"
    files = sorted(str(path.relative_to(kernels)) for path in kernels.rglob("*.parquet"))
    assert files == [f"host=a%2Fb %25/rank={rank}/kernel.parquet".replace(" ", "%20") for rank in (0, 1)] and said["written"]["kernel"] == 8
    whole = pyarrow.parquet.read_table(tmp_path / "whole.parquet/kernel.parquet")
    for table in (pyarrow.parquet.read_table(kernels), pyarrow.dataset.dataset(kernels, partitioning="hive").to_table(),
                  duckdb.sql(f"from '{kernels}/**/*.parquet'").to_arrow_table()):
        assert set(table.schema.names) == set(whole.schema.names)
        order = [("rank", "ascending"), ("start_ns", "ascending")]
        again = table.set_column(table.schema.names.index("rank"), "rank", table["rank"].cast(pyarrow.int32())).sort_by(order)
        for name in ("host", "rank", "config_name", "start_ns", "duration_ns", "session"):
            assert again[name].to_pylist() == whole.sort_by(order)[name].to_pylist(), name
    pitot("export", "r.pitot", "-o", "x.csv", "--partition")
    assert len(list((tmp_path / "x.csv/kernel").rglob("*.csv"))) == 2
    assert "no folder of tables" in pitot("export", "r.pitot", "-o", "x.sqlite", "--partition", status=2).stderr


def test_a_folder_that_cannot_be_written(pitot, recordings, tmp_path):
    """Nothing is left of it but what was there."""
    (tmp_path / "x.parquet/kernel").mkdir(parents=True)
    (tmp_path / "x.parquet/kernel/host=testhost").write_text("a file")
    said = pitot("export", recordings["varied"], "-o", "x.parquet", "--partition", "--force", status=1).stderr
    assert "cannot create folder 'x.parquet/kernel/host=testhost': Not a directory" in said
    assert [str(path.relative_to(tmp_path)) for path in sorted((tmp_path / "x.parquet").rglob("*"))] == [
        "x.parquet/kernel", "x.parquet/kernel/host=testhost"]


def test_an_export_over_another(pitot, recordings, make_recording, tmp_path):
    """Readers of the folder would add up both; what could not be replaced stays."""
    old = recordings["varied"]
    pitot("export", old, "-o", "x.csv")
    before = {path: path.read_bytes() for path in (tmp_path / "x.csv").iterdir()}
    few = make_recording(tmp_path / "few.pitot", kernels=10)
    said = pitot("export", few, "-o", "x.csv", "--force").stderr
    left = [path for path, content in before.items() if path.read_bytes() == content]
    assert left and f"{len(left)} files of an earlier export are still in 'x.csv'" in said
    assert "earlier export" not in pitot("export", few, "-o", "y.csv").stderr + pitot("export", few, "-o", "y.csv", "--force").stderr
    (tmp_path / "z.parquet").mkdir()
    (tmp_path / "z.parquet/kernel.parquet").symlink_to("/dev/full")
    pitot("export", few, "-o", "z.parquet", "--force", status=1)
    assert (tmp_path / "z.parquet/kernel.parquet").is_symlink()


def test_links_in_the_folder_are_not_followed(pitot, recordings, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "x.parquet").mkdir()
    (tmp_path / "x.parquet/kernel").symlink_to(tmp_path / "elsewhere")
    said = pitot("export", recordings["varied"], "-o", "x.parquet", "--partition", "--force", status=1).stderr
    assert "cannot create folder 'x.parquet/kernel': " in said and "link" in said and not list((tmp_path / "elsewhere").iterdir())


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
