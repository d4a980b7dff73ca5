"""examples/fleet/register.py: Delta Lake and Iceberg have the rows of a lake, once, and compact them."""
import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

from shipped_rows import ask

SUMS = "count(*), sum(count)::BIGINT, sum(total_ns)::BIGINT, count(DISTINCT session), count(DISTINCT name), epoch_us(min(first_ns)::TIMESTAMPTZ)"


@pytest.fixture(params=["delta", "iceberg"])
def register(request, source, tmp_path):
    """register("--compact"): what the example prints, by table; register.read(): the rows of kernel_sketch, by its own reader."""
    package = {"delta": "deltalake", "iceberg": "pyiceberg"}[request.param]
    if not importlib.util.find_spec(package):
        pytest.skip(f"needs the Python package {package}")

    def run(*options, status=0):
        done = subprocess.run([sys.executable, source / "examples/fleet/register.py", tmp_path / "lake", tmp_path / "tables", "--format", request.param,
                               *options], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr[-3000:]
        return {row["table"]: row for row in map(json.loads, done.stdout.splitlines())} if status == 0 else done.stderr

    def read():
        if request.param == "delta":
            from deltalake import DeltaTable
            return DeltaTable(tmp_path / "tables/kernel_sketch").to_pyarrow_table()
        from pyiceberg.catalog.sql import SqlCatalog
        catalog = SqlCatalog("pitot", uri=f"sqlite:///{tmp_path}/tables/catalog.db", warehouse=f"file://{tmp_path}/tables")
        return catalog.load_table("pitot.kernel_sketch").scan().to_arrow()

    run.read = read
    return run


def half_compacted(lake):
    """As `pitot lake compact` of a bucket has left it that was killed: an object was made that no manifest names, and a replaced one is still there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (lake / "compacted/kernel_sketch").mkdir(parents=True)
    day = next(path for path in lake.glob("kernel_sketch/date=2*"))
    one = next(day.glob("*.parquet"))
    for name in "%.%.compact-2-0123456789abcdef-0.parquet", "replaced.parquet":
        shutil.copy(one, day / name)
    pq.write_table(pa.table({"object": ["replaced.parquet"], "state": [2]}), lake / f"compacted/kernel_sketch/{day.name[5:]}.00000001.parquet")


def test_rows_are_there_once(register, pitot, rank_recording, make_recording, tmp_path):
    import duckdb

    lake = tmp_path / "lake"
    pitot("lake", "init", lake)

    def ship(runs, number):
        pitot("agent", "--once", "--no-live", "--recordings", runs, "--lake", lake, "--spool", tmp_path / f"spool-{number}")

    def check():
        [[*found, first]] = duckdb.connect().from_arrow(register.read()).aggregate(SUMS).fetchall()
        [[*want, begun]] = ask(lake, f"SELECT {SUMS} FROM {{kernel_sketch}}")
        assert found == want and abs(first - begun) <= 1, "microseconds are cut or rounded"

    ship(rank_recording("sleep-3"), 0)
    assert register()["kernel_sketch"]["objects"] > 0
    check()
    assert {row["objects"] for row in register().values()} == {0}
    check()
    (tmp_path / "more").mkdir()
    for number in range(1, 4):
        ship(make_recording(tmp_path / f"more/{number}.pitot", kernels=300, seed=number), number)
        before = register()["kernel_sketch"]["files"]
    ship(make_recording(tmp_path / "more/4.pitot", kernels=300, seed=4), 4)
    after = register("--compact")["kernel_sketch"]["files"]
    assert after < before, "one file for each day"
    check()
    half_compacted(lake)
    assert {row["objects"] for row in register().values()} == {0}, "what the manifests of a bucket leave out"
    shutil.rmtree(lake / "compacted")
    for path in lake.glob("kernel_sketch/*/*.compact-*"):
        path.unlink()
    pitot("lake", "compact", lake)
    if list(lake.glob("kernel_sketch/*/*.compact-*")):
        assert "was compacted after" in register(status=1)
