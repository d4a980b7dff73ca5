"""pitot lake compact: rows stay the same, whoever is killed, ships or reads meanwhile."""
import os
import random
import shutil
import signal
import subprocess
import time

import duckdb
import pytest

from shipped_rows import ask
from waiting import wait_until

DAY = "date=2026-11-01"
TABLES = "step", "kernel_sketch"


@pytest.fixture(name="rows_of")
def fixture_rows_of():
    """All rows of a table, in no order."""
    return lambda lake, table: sorted(ask(lake, f"SELECT * EXCLUDE date FROM {{{table}}}"), key=str)


@pytest.fixture
def lake(shipped_once, tmp_path):
    shutil.copytree(shipped_once / "spools", tmp_path / "spools")
    return shutil.copytree(shipped_once / "lake", tmp_path / "lake")


def objects(lake, table):
    return sorted(path.name for path in lake.glob(f"{table}/{DAY}/*.parquet"))


def count_of(path):
    return duckdb.execute(f"SELECT count(*) FROM read_parquet('{path}')").fetchone()[0]


def compact(pitot, lake, **more):
    return pitot("lake", "compact", lake, "--json", json_output=True, **more)["days"]


def test_a_day_has_few_objects_and_the_same_rows(pitot, lake, rows_of):
    before = {table: rows_of(lake, table) for table in TABLES}
    names = {table: objects(lake, table) for table in TABLES}
    modes = {path.stat().st_mode for path in lake.glob(f"*/{DAY}/*.parquet")}
    today = sorted(path for path in lake.glob("*/*/*.parquet") if path.parent.name != DAY)
    days = {day["table"]: day for day in compact(pitot, lake) if day["date"] == DAY[5:]}
    for table in TABLES:
        assert rows_of(lake, table) == before[table]
        jobs = {name.split(".")[0] for name in names[table]}
        assert [name.split(".")[:2] for name in objects(lake, table)] == [[job, "%"] for job in sorted(jobs)]
        assert days[table]["objects_before"] == len(names[table]) > days[table]["objects_after"] == len(jobs) and days[table]["unreadable"] == 0
        assert days[table]["bytes_after"] == sum(path.stat().st_size for path in lake.glob(f"{table}/{DAY}/*.parquet")) < days[table]["bytes_before"]
    assert {path.stat().st_mode for path in lake.glob(f"*/{DAY}/*.parquet")} == modes
    assert today and sorted(path for path in lake.glob("*/*/*.parquet") if path.parent.name != DAY) == today
    assert [path.name for path in (lake / ".compact").iterdir()] == ["lock"]
    again = {path: path.stat().st_ino for path in lake.rglob("*.parquet")}
    assert compact(pitot, lake) == [] and {path: path.stat().st_ino for path in lake.rglob("*.parquet")} == again
    listed = {table["name"]: table["objects"] for table in pitot("lake", "ls", lake, "--json", json_output=True)["tables"]}
    assert listed == {table: len(list(lake.glob(f"{table}/*/*.parquet"))) for table in listed}


def test_the_folder_of_a_day_keeps_its_owner_and_permissions(pitot, lake):
    """Agents of other users write into it."""
    folder = lake / "step" / DAY
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65533)
    folder.chmod(0o2775)
    before = folder.stat()
    compact(pitot, lake)
    after = folder.stat()
    assert after.st_ino != before.st_ino and (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_objects_that_come_late(pitot, lake, rows_of, tmp_path):
    """A new one is merged by the next run; one that was shipped before is not there twice."""
    table = "kernel_sketch"
    source = lake / table / DAY
    names = objects(lake, table)
    late, again = names[0], names[1]
    saved = tmp_path / "saved"
    saved.mkdir()
    for name in late, again:
        shutil.copy(source / name, saved / name)
    before = rows_of(lake, table)
    (source / late).unlink()
    compact(pitot, lake)
    shutil.copy(saved / late, source / late)
    assert rows_of(lake, table) == before
    compact(pitot, lake)
    assert rows_of(lake, table) == before and not any("compact" not in name for name in objects(lake, table))
    # An agent that was killed before it knew ships both once more: that is success, and changes nothing.
    spool = tmp_path / "spools/0"
    for name in late, again:
        shutil.copy(saved / name, spool / f"1!1!{table}!{DAY}!{name}")
    pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", spool)
    assert {path.name for path in spool.iterdir()} == {"lock", "state.json"} and rows_of(lake, table) == before


def test_killed_at_any_time(program, environment, pitot, lake, rows_of):
    """Whatever a run has left, the next one finishes, and readers have the rows at each moment."""
    before = {table: rows_of(lake, table) for table in TABLES}
    chance = random.Random(34)
    begun = time.monotonic()
    shutil.copytree(lake, lake.with_name("copy"))
    pitot("lake", "compact", lake.with_name("copy"))
    length = time.monotonic() - begun
    for _ in range(12):
        one = subprocess.Popen([program, "lake", "compact", lake], env=environment, stderr=subprocess.DEVNULL)
        try:
            one.wait(chance.random() * length)
        except subprocess.TimeoutExpired:
            one.kill()
        assert one.wait() in (0, -signal.SIGKILL)
        assert {table: rows_of(lake, table) for table in TABLES} == before
    pitot("lake", "compact", lake)
    assert {table: rows_of(lake, table) for table in TABLES} == before
    assert [path.name for path in (lake / ".compact").iterdir()] == ["lock"]


@pytest.mark.parametrize("exchanged", [False, True])
def test_what_a_killed_run_has_left(pitot, lake, rows_of, exchanged):
    """Before the exchange the new folder goes; after it the old one, but for what came late."""
    table = "step"
    before = rows_of(lake, table)
    old, late = lake / table / DAY, objects(lake, table)[0]
    shutil.copytree(old, lake.with_name("old"))
    compact(pitot, lake)
    left = lake / f".compact/{table}.{DAY}"
    if exchanged:
        compacted = [name for name in objects(lake, table)]
        shutil.move(lake.with_name("old"), left)
        shutil.copy(left / late, left / "77.other.20261101T000000Z-20261101T000001Z.0123456789abcdef-1.parquet")
        (left / ".x.parquet.partial").write_bytes(b"")
        for _ in range(2):
            pitot("lake", "compact", lake)
            assert left.exists(), "an agent may be writing there"
        os.utime(left / ".x.parquet.partial", (1, 1))
        pitot("lake", "compact", lake)
        assert compacted != objects(lake, table) and len(rows_of(lake, table)) > len(before)
    else:
        shutil.move(old, left)
        shutil.move(lake.with_name("old"), old)
        pitot("lake", "compact", lake)
        assert rows_of(lake, table) == before
    assert not left.exists()


def test_what_is_of_no_day(pitot, lake, rows_of):
    """A folder that a killed run had not filled, and one whose day was removed meanwhile, go."""
    before = rows_of(lake, "step")
    compact(pitot, lake)
    for name in f"step.{DAY}.new", "step.date=2026-10-01":
        (lake / ".compact" / name).mkdir()
        (lake / ".compact" / name / "x.parquet").write_bytes(b"PAR1")
    assert compact(pitot, lake) == [] and rows_of(lake, "step") == before
    assert [path.name for path in (lake / ".compact").iterdir()] == ["lock"]


def test_agents_ship_meanwhile(pitot, program, environment, lake, rows_of, tmp_path):
    """Into the day that is being compacted, again and again: nothing is lost, and nothing is there twice."""
    table = "step"
    source, spool, saved = lake / table / DAY, tmp_path / "spools/1", tmp_path / "saved.parquet"
    (source / objects(lake, table)[0]).rename(saved)
    for name in objects(lake, table):
        (source / name).unlink()
    today = len(rows_of(lake, table))
    compacting = subprocess.Popen(["sh", "-c", 'while [ -d "$1" ]; do "$0" -q lake compact "$1"; done', program, lake], env=environment, stderr=subprocess.DEVNULL)
    try:
        for number in range(20):
            shutil.copy(saved, spool / f"1!1!{table}!{DAY}!77.node.20261101T000000Z-20261101T000001Z.{number:016x}-1.parquet")
            pitot("agent", "--once", "--no-live", "--lake", lake, "--spool", spool)
    finally:
        compacting.kill()
        compacting.wait()
    wait_until(lambda: pitot("lake", "compact", lake, status=None).returncode == 0, "the last run has ended")
    assert len(rows_of(lake, table)) == 20 * count_of(saved) + today and len(objects(lake, table)) == 1


def test_what_it_leaves_alone(pitot, lake, rows_of):
    """Damaged objects, objects of newer versions, and whatever agents have not made."""
    source = lake / "step" / DAY
    names = objects(lake, "step")
    damaged = bytearray((source / names[0]).read_bytes())
    damaged[len(damaged) // 2] ^= 255
    newer = source / "77.node.20261101T000000Z-20261101T000001Z.0123456789abcdef-1.parquet"
    duckdb.execute(f"COPY (SELECT *, 1 AS more FROM read_parquet('{source / names[1]}', hive_partitioning = false)) TO '{newer}' (COMPRESSION zstd)")
    want = sum(count_of(path) for path in lake.glob("step/*/*.parquet") if path.name != names[0])
    (source / names[0]).write_bytes(damaged)
    content = newer.read_bytes()
    [day] = [day for day in compact(pitot, lake) if day["table"] == "step"]
    assert day["unreadable"] == 2 and newer.read_bytes() == content and (source / names[0]).read_bytes() == damaged
    (source / names[0]).unlink()
    assert sum(map(count_of, lake.glob("step/*/*.parquet"))) == want
    done = pitot("lake", "compact", lake)
    assert "1 object that cannot be read" in done.stderr and newer.exists()
    link = lake / "kernel_sketch" / DAY / "x.parquet"
    (lake / "kernel_sketch" / DAY / "77.a.b.c-1.parquet").write_bytes(b"")
    link.symlink_to("/etc/passwd")
    assert "'x.parquet' is no object" in pitot("lake", "compact", lake, status=1).stderr and link.is_symlink()


def test_what_it_refuses(pitot, lake, program, environment):
    for words, said, status in ((("compact",), "use: pitot lake", 2), (("compact", lake, "x"), "use: pitot lake", 2),
                                (("compact", lake, "--wait", "1s"), "--wait is for buckets", 2), (("compact", lake / "none"), "pitot lake init", 1)):
        assert said in pitot("lake", *words, status=status, env={"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}).stderr
    (lake / ".compact").symlink_to("/tmp")
    assert "cannot use" in pitot("lake", "compact", lake, status=1).stderr
    (lake / ".compact").unlink()
    (lake / "step" / DAY / ".compacted").write_bytes(b"PITOTCMP")
    assert "cannot read" in pitot("lake", "compact", lake, status=1).stderr
