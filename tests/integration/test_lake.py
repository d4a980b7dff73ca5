"""pitot lake: its statements run, what is listed is there, and windows come back as recordings."""
import os
import re

import duckdb
import pytest

TABLES = {"step", "kernel_sketch", "loss"}


@pytest.fixture
def lake(pitot, tmp_path):
    pitot("lake", "init", tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def database(lake):
    """A connection with the views of sql/duckdb.sql."""
    connection = duckdb.connect()
    connection.execute((lake / "sql/duckdb.sql").read_text())
    return connection


@pytest.fixture
def ship(pitot, lake, tmp_path):
    """ship(folder): ships finished recordings."""
    return lambda folder: pitot("agent", "--once", "--no-live", "--recordings", folder, "--lake", lake, "--spool", tmp_path / "spool")


def test_statements_before_the_first_object(database, pitot, lake):
    """Engines know the tables and columns of a lake that is empty."""
    for table in TABLES:
        assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    columns = dict(database.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'step'").fetchall())
    assert columns["start_ns"].startswith("TIMESTAMP") and columns["duration_ns"] == "UBIGINT" and columns["rank"] == "INTEGER" and columns["job"] == "VARCHAR"
    assert pitot("lake", "ls", lake, "--json", json_output=True) == {"tables": [], "windows": []}
    assert "nothing has been shipped" in pitot("lake", "ls", lake).stderr
    pitot("lake", "init", lake)


def test_columns_are_the_same_everywhere(lake):
    """The other engines' statements name the columns that objects have."""
    clickhouse, spark = (lake / "sql/clickhouse.sql").read_text(), (lake / "sql/spark.sql").read_text()
    for table in TABLES:
        [schema] = lake.glob(f"{table}/*/schema.parquet")
        names = [name for name, *_ in duckdb.connect().execute(f"DESCRIBE SELECT * FROM read_parquet('{schema}', hive_partitioning = false)").fetchall()]
        [line] = [line for line in clickhouse.splitlines() if line.startswith(f"CREATE OR REPLACE VIEW {table} ")]
        structure = line.split("'Parquet', '")[1]
        assert [part.split()[0] for part in structure.replace("DateTime64(9, ", "DateTime64(9,").split(", ")] == names
        assert f"VIEW {table} USING parquet OPTIONS (mergeSchema 'true', path '{lake.resolve()}/{table}')" in spark


def test_objects_are_listed(ship, pitot, rank_recording, lake, database):
    ship(rank_recording("sleep-3"))
    listed = pitot("lake", "ls", lake, "--json", json_output=True)
    tables = {table["name"]: table for table in listed["tables"]}
    for name, table in tables.items():
        found = [path for path in lake.glob(f"{name}/*/*.parquet") if path.name != "schema.parquet"]
        assert (table["objects"], table["bytes"]) == (len(found), sum(path.stat().st_size for path in found))
        assert {table["first_date"], table["last_date"]} <= {path.parent.name[5:] for path in found}
    assert "kernel_sketch" in tables and "kernel_sketch" in pitot("lake", "ls", lake).stdout
    assert database.execute("SELECT count(DISTINCT rank) FROM kernel_sketch").fetchone() == (2,)


def test_questions_of_an_operator(ship, pitot, rows, rank_recording, source, database):
    """Each has an answer, and those that sum up have the sums of the recording."""
    folder = rank_recording("sleep-3")
    ship(folder)
    text = (source / "examples/fleet/questions.sql").read_text()
    answers = {}
    for name, question in re.findall(r"^-- (\w+): [^\n]*\n((?:[^\n-][^\n]*\n)+)", text, re.M):
        found = database.execute(question)
        answers[name] = [dict(zip([column[0] for column in found.description], row)) for row in found.fetchall()]
    assert len(answers) == 10
    work = {table: rows(folder, table, "-c", "duration") for table in ("kernel", "memcpy", "memset")}
    by_kind = {}
    for row in answers["gpu_time_by_kernel"]:
        count, total = by_kind.get(row["kind"], (0, 0))
        by_kind[row["kind"]] = count + row["count_of_work"], total + row["sum_ns"]
    assert by_kind == {table: (len(found), sum(row["duration"] or 0 for row in found)) for table, found in work.items() if found}
    assert answers["seen"][0]["processes"] == 2 and answers["gpu_hours"][0]["gpus"] >= 1
    assert {row["ratio"] for row in answers["kernels_by_host"]} == {1.0}, "there is one host"
    if answers["slowest_ranks"]:
        assert {row["rank"] for row in answers["slowest_ranks"]} == {0, 1}


def test_a_window_comes_back(pitot, make_recording, rows, lake, tmp_path):
    name = "77.node.20261129T140530Z.hang-1.pitot"
    window = lake / "window/date=2026-11-29" / name
    window.parent.mkdir(parents=True)
    make_recording(window, "varied")
    (window / "other").symlink_to("/etc/passwd")
    [listed] = pitot("lake", "ls", lake, "--json", json_output=True)["windows"]
    assert (listed["name"], listed["date"]) == (name, "2026-11-29")
    assert name in pitot("lake", "ls", lake).stdout
    pitot("lake", "get", lake, name, "-o", tmp_path / "w.pitot")
    assert rows(tmp_path / "w.pitot", "kernel") == rows(window, "kernel") != []
    assert not (tmp_path / "w.pitot/other").exists()
    assert "choose another" in pitot("lake", "get", lake, name, "-o", tmp_path / "w.pitot", status=1).stderr
    pitot("lake", "get", "-f", lake, name, "-o", tmp_path / "w.pitot")
    pitot("lake", "get", lake, name)
    pitot("info", "--verify", tmp_path / name)


def test_what_it_refuses(pitot, lake, tmp_path):
    """Links are not followed, and a window that cannot be copied leaves nothing."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    name = "%.node.20261129T140530Z.hang-1.pitot"
    window = lake / "window/date=2026-11-29" / name
    window.mkdir(parents=True)
    (window / "1.0.pit").symlink_to("/etc/passwd")
    assert pitot("lake", "get", lake, name, status=1).stderr and not (tmp_path / name).exists()
    os.rename(window, elsewhere / name)
    window.symlink_to(elsewhere / name)
    assert "lists them" in pitot("lake", "get", lake, "other", status=1).stderr
    assert pitot("lake", "ls", lake, "--json", json_output=True)["windows"] == []
    for words, said in (("ls",), "use: pitot lake"), (("list", lake), "unknown action 'list'"), (("ls", lake, "x"), "use: pitot lake"), \
            (("ls", "-f", lake), "belong to get"), (("get", lake), "use: pitot lake"):
        assert said in pitot("lake", *words, status=2).stderr
    assert "pitot lake init" in pitot("lake", "ls", tmp_path / "none", status=1).stderr
    (tmp_path / "file").write_text("")
    assert pitot("lake", "init", tmp_path / "file", status=1).stderr
