"""The ten questions of an operator have the same answers in DuckDB, ClickHouse and Spark, whose statements `pitot lake init` writes."""
import datetime
import importlib.util
import json
import random
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import s3_server

DAY = 86_400_000_000_000
BEGIN = 20_785 * DAY  # 2026-11-28, UTC


def sketches(chance, host, job, day):
    for rank in range(2):
        for kernel in range(6):
            count, mean = chance.randrange(5, 500), 10_000 * (kernel + 1) + 1000 * int(host[-1]) + day * 700
            yield {"job": job, "host": host, "rank": rank if job else None, "pid": 100 + rank, "session": (1 << 63) + int(host[-1]) * 10 + rank,
                   "time_ns": BEGIN + day * DAY + 10_000_000_000 * kernel, "device": rank, "kind": "memcpy" if kernel == 5 else "kernel",
                   "name": "(others)" if kernel == 4 else f"kernel'{kernel}<int>", "count": count, "untimed": 1 if kernel == 3 else 0, "total_ns": count * mean,
                   "min_ns": mean - 5 if kernel else None, "max_ns": mean + 7 if kernel else None, "first_ns": BEGIN + day * DAY if kernel else None}


def steps(chance, host, job, day):
    for number in range(21):
        rank = number % 3
        yield {"job": job, "host": host, "rank": rank if job else None, "pid": 100 + rank, "session": (1 << 63) + int(host[-1]) * 10 + rank,
               "start_ns": BEGIN + day * DAY + number * 1_000_000_000 + 123_456_789, "duration_ns": chance.randrange(400, 600) * 1_000_000 * (3 if number == 17 else 1),
               "name": "step", "thread": 100, "work": number, "work_ns": number * 1_000_000}


def losses(chance, host, job, day):
    yield {"job": job, "host": host, "rank": None, "pid": None, "session": None, "time_ns": BEGIN + day * DAY + 1_000, "lost_by": "agent",
           "reason": "spool_full", "count": chance.randrange(1, 1000), "detail": None}


@pytest.fixture
def lake(pitot, tmp_path):
    """Three hosts, two days, two jobs and what has none; values are those of a fixed seed."""
    folder, chance = tmp_path / "lake", random.Random(34)
    pitot("lake", "init", folder)
    for table, make in ("kernel_sketch", sketches), ("step", steps), ("loss", losses):
        schema = pq.read_schema(folder / table / "date=1970-01-01/schema.parquet")
        for host, job, day in ((f"node{n}", job, day) for n in range(3) for job in ("77.0", "a'b", None) for day in range(2)):
            path = folder / table / f"date=2026-11-{28 + day}" / f"{job or '%'}.{host}.parquet".replace("'", "%27")
            path.parent.mkdir(exist_ok=True)
            pq.write_table(pa.Table.from_pylist(list(make(chance, host, job, day)), schema), path)
    return folder


def comparable(name, value):
    """Times as microseconds, which are what all engines have; days as texts; numbers as they are."""
    if name in ("start_ns", "newest") and value is not None:
        if isinstance(value, int):
            return value // 1000
        moment = datetime.datetime.fromisoformat(value[:26].split("+")[0]).replace(tzinfo=datetime.timezone.utc)
        return round(moment.timestamp() * 1e6)
    return pytest.approx(value, rel=1e-12) if isinstance(value, (int, float)) else value


@pytest.fixture
def ask(source, environment):
    """ask(lake, "--engine", "spark"): {question: rows}."""

    def run(lake, *options):
        done = subprocess.run([sys.executable, source / "examples/fleet/ask.py", lake, *options], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return {answer["question"]: [{name: comparable(name, value) for name, value in row.items()} for row in answer["rows"]] for answer in answers}

    return run


def plain(answers):
    return {name: [{key: getattr(value, "expected", value) for key, value in row.items()} for row in rows] for name, rows in answers.items()}


def test_they_have_answers(ask, lake):
    """Those of DuckDB, against sums made here."""
    found = plain(ask(lake))
    rows = [row for path in lake.glob("kernel_sketch/date=2*/*") for row in pq.read_table(path, partitioning=None).to_pylist()]
    assert len(found) == 10 and all(found.values())
    assert sum(row["sum_ns"] for row in found["gpu_time_by_kernel"]) == sum(row["total_ns"] for row in rows)
    assert sum(row["gpu_hours"] for row in found["gpu_hours"]) == pytest.approx(sum(row["total_ns"] for row in rows) / 3.6e12)
    assert {row["gpus"] for row in found["gpu_hours"]} == {6} and len(found["gpu_hours"]) == 6
    assert {row["slowest"] for row in found["kernels_by_host"]} == {"node2"} and all(row["ratio"] > 1 for row in found["kernels_by_host"])
    assert all(row["of_day_before"] > 1 for row in found["kernels_since"]) and len(found["kernels_since"]) == 4
    assert [row["processes"] for row in found["seen"]] == [2, 2, 2]
    assert len(found["slow_steps"]) == 18 and all(row["duration_ns"] > 2 * row["median_ns"] for row in found["slow_steps"])
    assert sum(row["count_of_items"] for row in found["losses"]) == sum(
        row["count"] for path in lake.glob("loss/date=2*/*") for row in pq.read_table(path, partitioning=None).to_pylist())


ENGINES = [("clickhouse", "chdb", ()), ("spark", "pyspark", ("--master", "local-cluster[2,1,1024]"))]


def need(engine, package):
    if not importlib.util.find_spec(package):
        pytest.skip(f"needs the Python package {package}")
    if engine == "spark" and not shutil.which("java"):
        pytest.skip("needs java")


@pytest.mark.parametrize("engine, package, options", ENGINES)
def test_engines_agree(ask, lake, pitot, rank_recording, tmp_path, engine, package, options):
    """Also about what an agent has shipped, which is added."""
    need(engine, package)
    pitot("agent", "--once", "--no-live", "--recordings", rank_recording("sleep-3"), "--lake", lake, "--spool", tmp_path / "spool")
    want, found = ask(lake), ask(lake, "--engine", engine, *options)
    assert set(found) == set(want) and len(want) == 10
    for name, rows in want.items():
        assert plain(found)[name] == rows, name


@pytest.mark.parametrize("engine, package, options", [("duckdb", "duckdb", ()), *ENGINES])
def test_a_bucket_that_is_being_compacted(ask, lake, pitot, server, tmp_path, engine, package, options):
    """Its statements, here of a copy in a folder, leave out what is replaced, and what was made and is in no manifest."""
    need(engine, package)
    place, prefix = f"{s3_server.BUCKET}/pitot/v1", "pitot/v1/"
    pitot("lake", "init", f"s3://{place}")
    copy = shutil.copytree(lake, s3_server.copied(server.objects, tmp_path / "copy", prefix), dirs_exist_ok=True, ignore=shutil.ignore_patterns("sql"))
    for day in [*copy.glob("step/date=2*"), *copy.glob("kernel_sketch/date=2*")]:
        objects = sorted(day.glob("a*.parquet"))
        rows = pa.concat_tables(pq.read_table(path, partitioning=None) for path in objects)
        for generation in 1, 2:  # there is no manifest of the second one
            pq.write_table(rows, day / f"a.%.compact-{generation}-0123456789abcdef-0.parquet")
        manifest = pa.table({"object": ["a.%.compact-1-0123456789abcdef-0.parquet"] + [path.name for path in objects], "state": [1] + [2] * len(objects)})
        pq.write_table(manifest.cast(pq.read_schema(copy / "compacted/step/schema.parquet")), copy / f"compacted/{day.parent.name}/{day.name[5:]}.00000001.parquet")
    text = (copy / f"sql/{engine}.sql").read_text()
    for known, path in (f"s3('{server.endpoint}/{place}", f"file('{copy}"), (f"s3a://{place}", copy), (f"s3://{place}", copy):
        text = text.replace(known, str(path))
    (copy / f"sql/{engine}.sql").write_text(text)
    want, found = ask(lake), ask(copy, "--engine", engine, *options)
    assert set(found) == set(want) and len(want) == 10
    for name, rows in want.items():
        assert plain(found)[name] == rows, name


def test_clickhouse_reads_exports(pitot, rank_recording, tmp_path):
    chdb = pytest.importorskip("chdb")
    pitot("export", rank_recording("sleep-3"), "-o", tmp_path / "x.parquet")
    file = tmp_path / "x.parquet/kernel.parquet"
    sums = pq.read_table(file).group_by("config_name").aggregate([("duration_ns", "count"), ("duration_ns", "sum")]).to_pylist()
    found = chdb.query(f"SELECT config_name, count(), sum(duration_ns) FROM file('{file}') GROUP BY config_name FORMAT JSONCompactEachRow").data()
    rows = [json.loads(line) for line in found.splitlines()]
    assert {row[0]: (int(row[1]), int(row[2])) for row in rows} == {
        row["config_name"]: (row["duration_ns_count"], row["duration_ns_sum"]) for row in sums} and len(sums) > 1
