"""pitot lake compact of a bucket: views count each row once at every moment, whoever is killed, ships or compacts meanwhile."""
import importlib.util
import os
import random
import re
import signal
import subprocess
import threading
import time

import duckdb
import pytest

import s3_server
from waiting import wait_until

LAKE, PREFIX = f"s3://{s3_server.BUCKET}/pitot/v1", "pitot/v1/"
DAY = "date=2026-11-01"
TABLES = "step", "kernel_sketch"


@pytest.fixture
def fill(shipped_once, pitot):
    """fill(store): a bucket with the objects of agents, and statements."""

    def run(store):
        for path in shipped_once.glob("lake/*/*/*.parquet"):
            key = PREFIX + str(path.relative_to(shipped_once / "lake"))
            store.put(key, path.read_bytes())
        pitot("lake", "init", LAKE)

    return run


@pytest.fixture
def bucket(server, fill):
    """The stand-in with that, which keeps what it had after each change: bucket.states."""
    fill(server)
    server.states = []

    def on_changed(_):
        with server.lock:
            server.states.append(dict(server.objects))

    server.on_changed = on_changed
    return server


@pytest.fixture
def read(tmp_path):
    """read(objects): the rows of tables by the views of the bucket; read(objects, manifests): if manifests were listed at another moment."""
    known = {}

    def run(objects, manifests=None):
        is_manifest = lambda key: key.startswith(PREFIX + "compacted/")
        found = {key: body for key, body in objects.items() if not is_manifest(key)}
        found.update({key: body for key, body in (objects if manifests is None else manifests).items() if is_manifest(key)})
        names = frozenset(found)
        if names not in known:
            folder = tmp_path / "states" / str(len(known))
            s3_server.copied(found, folder, PREFIX)
            connection = duckdb.connect()
            connection.execute((folder / "sql/duckdb.sql").read_text().replace(LAKE, str(folder)))
            known[names] = {table: sorted(connection.execute(f"SELECT * EXCLUDE date FROM {table}").fetchall(), key=str) for table in TABLES}
        return known[names]

    return run


@pytest.fixture
def compact(pitot):
    """compact("--wait", "1s"): the days that it has compacted."""
    return lambda *options, **more: pitot("lake", "compact", LAKE, "--json", "--wait", "0", *options, json_output=True, **more)["days"]


def of_day(objects, table):
    return sorted(key.rpartition("/")[2] for key in objects if key.startswith(f"{PREFIX}{table}/{DAY}/"))


def made(objects):
    return {key for key in objects if ".compact-" in key}


def test_a_day_has_few_objects_and_the_same_rows(store, fill, read, pitot):
    fill(store)
    before = store.objects.copy()
    done = pitot("lake", "compact", LAKE, "--json", "--wait", "10ms")
    after = store.objects.copy()
    assert read(after) == read(before) and read(after)["step"]
    assert done.stderr.count("waiting 10.0 ms") == 2
    for table in TABLES:
        jobs = {name.split(".")[0] for name in of_day(before, table)}
        assert [name.split(".")[:2] for name in of_day(after, table)] == [[job, "%"] for job in sorted(jobs)]
        assert f"{PREFIX}compacted/{table}/{DAY[5:]}.00000001.parquet" in after
    is_today = lambda key: f"/{DAY}/" not in key and "/compacted/" not in key
    assert {key: body for key, body in after.items() if is_today(key)} == {key: body for key, body in before.items() if is_today(key)}
    again = pitot("lake", "compact", LAKE)
    assert store.objects == after and not again.stderr, "nothing to do, nothing to wait for"
    listed = {table["name"]: table["objects"] for table in pitot("lake", "ls", LAKE, "--json", json_output=True)["tables"]}
    assert listed == {table: sum(key.startswith(f"{PREFIX}{table}/") and not key.endswith("schema.parquet") for key in after) for table in TABLES}


def test_what_it_says(bucket, compact):
    before = dict(bucket.objects)
    days = {day["table"]: day for day in compact()}
    for table in TABLES:
        day, size = days[table], lambda objects: sum(len(objects[f"{PREFIX}{table}/{DAY}/{name}"]) for name in of_day(objects, table))
        assert (day["objects_before"], day["bytes_before"]) == (len(of_day(before, table)), size(before))
        assert (day["objects_after"], day["bytes_after"]) == (len(of_day(bucket.objects, table)), size(bucket.objects))
        assert day["date"] == DAY[5:] and day["unreadable"] == 0 and day["rows"] > 0 and day["bytes_after"] < day["bytes_before"]


def test_readers_at_each_moment(bucket, read, compact):
    """Also those that list manifests and objects at different moments, if all of --wait does not lie between."""
    states = bucket.states
    before = dict(bucket.objects)
    rows = read(before)
    compact()
    states.insert(0, before)
    assert len(states) > 8 and all(read(state) == rows for state in states)
    names = [set(state) for state in states]
    removed = next(i for i in range(1, len(states)) if names[i - 1] - names[i])
    written = max(i for i in range(1, len(states)) if made(names[i] - names[i - 1]))
    assert all(read(states[j], states[i]) == rows for i in range(removed) for j in range(i, removed)), "manifests first"
    assert all(read(states[j], states[i]) == rows for j in range(written, len(states)) for i in range(j, len(states))), "objects first"
    assert read(states[0], states[-1]) != rows, "that is what it waits for"


def test_killed_at_each_moment(bucket, read, compact, program, environment):
    """Before and after each change to the bucket. The next run finishes, and leaves nothing but what a whole one leaves."""
    first = dict(bucket.objects)
    rows = read(first)
    compact()
    whole, changes = {key.split(".compact-")[0] for key in bucket.objects}, len(bucket.states)
    for last in range(changes):
        hook = "on_change" if last % 2 else "on_changed"
        usual = getattr(bucket, hook)
        bucket.objects.clear()
        bucket.objects.update(first)
        one, left = None, [last]

        def kill(handler):
            usual(handler)
            left[0] -= 1
            if left[0] < 0 and one.poll() is None:
                one.kill()
                one.wait()
                handler.reset()
                raise ConnectionError

        started = threading.Event()
        setattr(bucket, hook, lambda handler: started.wait() and kill(handler))
        one = subprocess.Popen([program, "lake", "compact", LAKE, "--wait", "0"], env=environment, stderr=subprocess.DEVNULL)
        started.set()
        assert one.wait() == -signal.SIGKILL
        setattr(bucket, hook, usual)
        assert read(dict(bucket.objects)) == rows
        compact()
        assert read(dict(bucket.objects)) == rows and {key.split(".compact-")[0] for key in bucket.objects} == whole, (hook, last)
    assert all(read(state) == rows for state in bucket.states)


@pytest.mark.parametrize("moment", ["/compacted/step/", ".compact-"])
def test_two_at_once(bucket, read, compact, pitot, moment):
    """The one that is later with its manifest has to give up; what it has added is not read, and is removed by the next run."""
    first = dict(bucket.objects)
    rows, days = read(first), compact()
    other = dict(bucket.objects)
    bucket.objects.clear()
    bucket.objects.update(first)
    bucket.states.clear()

    def meanwhile(handler):
        """The other one does all that it does."""
        if moment in handler.path and handler.command == "PUT" and "schema" not in handler.path:
            bucket.on_change = lambda _: None
            for key in set(first) - set(other):
                del bucket.objects[key]
            bucket.objects.update(other)

    bucket.on_change = meanwhile
    done = pitot("lake", "compact", LAKE, "--wait", "0", status=1)
    assert "is being compacted by another" in done.stderr and {day["table"] for day in days} == set(TABLES)
    assert all(read(state) == rows for state in bucket.states)
    assert len(made(bucket.objects)) > sum(day["objects_after"] for day in days)
    compact()
    assert all(read(state) == rows for state in bucket.states)
    assert {name.split(".")[1] for table in TABLES for name in of_day(bucket.objects, table)} == {"%"}
    assert len(made(bucket.objects)) == sum(day["objects_after"] for day in days)


def test_many_at_once(bucket, read, program, environment, compact):
    rows, chance = read(dict(bucket.objects)), random.Random(34)
    for _ in range(3):
        running = [subprocess.Popen([program, "lake", "compact", LAKE, "--wait", "50ms"], env=environment, stderr=subprocess.PIPE, text=True)
                   for _ in range(3)]
        if chance.random() < 0.7:
            running[0].kill()
        for one in running:
            said = one.communicate()[1]
            assert one.returncode in (0, -signal.SIGKILL) or "is being compacted by another" in said, said
    compact()
    assert all(read(state) == rows for state in bucket.states)
    assert {name.split(".")[1] for table in TABLES for name in of_day(bucket.objects, table)} == {"%"}


def test_objects_that_come_late(bucket, read, compact, pitot, shipped_once, tmp_path):
    """A new one is read at once, and merged by the next run; one that was shipped before is not there twice."""
    table = "kernel_sketch"
    late, again = of_day(bucket.objects, table)[:2]
    bodies = {name: bucket.objects[f"{PREFIX}{table}/{DAY}/{name}"] for name in (late, again)}
    rows = read(dict(bucket.objects))
    del bucket.objects[f"{PREFIX}{table}/{DAY}/{late}"]
    assert read(dict(bucket.objects)) != rows
    compact()
    spool = tmp_path / "spool"
    spool.mkdir(mode=0o700)
    (spool / "state.json").write_bytes((shipped_once / "spools/0/state.json").read_bytes())
    for name, body in bodies.items():  # An agent that was killed before it knew ships the second one once more.
        (spool / f"1!1!{table}!{DAY}!{name}").write_bytes(body)
    pitot("agent", "--once", "--no-live", "--lake", LAKE, "--spool", spool)
    assert {late, again} < set(of_day(bucket.objects, table)) and read(dict(bucket.objects)) == rows
    bucket.states.clear()
    compact()
    assert all(read(state) == rows for state in bucket.states)
    assert f"{PREFIX}compacted/{table}/{DAY[5:]}.00000002.parquet" in bucket.objects
    assert not {late, again} & set(of_day(bucket.objects, table)) and len(made(bucket.objects)) == len({key.split(".compact-")[0] for key in made(bucket.objects)})
    states = len(bucket.states)
    compact()
    assert len(bucket.states) == states


def test_agents_ship_meanwhile(bucket, read, program, environment, pitot, compact, shipped_once, tmp_path):
    """Into the day that is being compacted, again and again: nothing is lost, and nothing is there twice."""
    table, spool = "step", tmp_path / "spool"
    source = bucket.objects[f"{PREFIX}{table}/{DAY}/{of_day(bucket.objects, table)[0]}"]
    rows, begun = read(dict(bucket.objects)), len(bucket.states)
    each = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [str(next(shipped_once.glob(f"lake/{table}/{DAY}/{of_day(bucket.objects, table)[0]}")))]).fetchone()[0]
    spool.mkdir(mode=0o700)
    (spool / "state.json").write_bytes((shipped_once / "spools/1/state.json").read_bytes())
    (tmp_path / "go").touch()
    compacting = subprocess.Popen(["sh", "-c", 'while [ -e "$2" ]; do "$0" -q lake compact "$1" --wait 20ms; done', program, LAKE, tmp_path / "go"], env=environment)
    try:
        for number in range(12):
            (spool / f"1!1!{table}!{DAY}!77.node.20261101T000000Z-20261101T000001Z.{number:016x}-1.parquet").write_bytes(source)
            pitot("agent", "--once", "--no-live", "--lake", LAKE, "--spool", spool)
    finally:
        (tmp_path / "go").unlink()
        assert compacting.wait() == 0
    compact()
    counts = [len(read(state)[table]) - len(rows[table]) for state in bucket.states[begun:]]
    assert counts == sorted(counts) and {0, *counts} == {each * number for number in range(13)}
    assert [name.split(".")[1] for name in of_day(bucket.objects, table)] == ["%"]


@pytest.mark.parametrize("fault", ["after", "before", "cut", 503])
def test_answers_are_lost(bucket, read, compact, pitot, fault):
    """Of each request once: a manifest whose answer was lost is its own. A request that took long is left to the next run."""
    rows = read(dict(bucket.objects))
    compact()
    whole, first = len(bucket.objects), bucket.states[0]
    changes = len(bucket.states)
    bucket.objects.clear()
    bucket.objects.update({key: body for key, body in first.items() if ".compact-" not in key and not re.search(r"\.0+1\.parquet", key)})
    bucket.faults.extend([None, None, None] + [fault, None] * changes)
    bucket.states.clear()
    wait_until(lambda: pitot("lake", "compact", LAKE, "--wait", "0", status=None).returncode == 0, "all is compacted")
    bucket.faults.clear()
    assert all(read(state) == rows for state in bucket.states) and len(bucket.objects) == whole


def test_a_server_that_is_away(bucket, read, compact, pitot):
    """It says so; the next run does it."""
    rows = read(dict(bucket.objects))
    for faults in range(3, 3 + len(TABLES) * 3, 2):
        bucket.faults[:] = [None] * faults + [503] * 20
        assert "HTTP 503" in pitot("lake", "compact", LAKE, "--wait", "0", status=1).stderr
        assert read(dict(bucket.objects)) == rows
    bucket.faults.clear()
    compact()
    assert read(dict(bucket.objects)) == rows and {name.split(".")[1] for table in TABLES for name in of_day(bucket.objects, table)} == {"%"}


def test_what_it_leaves_alone(bucket, read, compact, pitot, tmp_path):
    """Damaged objects, objects of newer versions, and whatever agents have not made."""
    day = f"{PREFIX}step/{DAY}/"
    names = of_day(bucket.objects, "step")
    damaged = bytearray(bucket.objects[day + names[0]])
    damaged[len(damaged) // 2] ^= 255
    (tmp_path / "one.parquet").write_bytes(bucket.objects[day + names[1]])
    duckdb.execute(f"COPY (SELECT *, 1 AS more FROM read_parquet('{tmp_path}/one.parquet')) TO '{tmp_path}/newer.parquet' (COMPRESSION zstd)")
    newer = "77.node.20261101T000000Z-20261101T000001Z.0123456789abcdef-1.parquet"
    bucket.objects.update({day + names[0]: bytes(damaged), day + newer: (tmp_path / "newer.parquet").read_bytes(), day + "notes.txt": b"x",
                           day + "folder/x.parquet": b"x", f"{PREFIX}step/x.parquet": b"x", f"{PREFIX}step/date=x/y.parquet": b"x"})
    kept = {key: bucket.objects[key] for key in bucket.objects if key.removeprefix(day) in (names[0], newer, "notes.txt", "folder/x.parquet")
            or key.endswith(("step/x.parquet", "x/y.parquet"))}
    [done] = [found for found in compact() if found["table"] == "step"]
    assert done["unreadable"] == 2 and kept.items() <= bucket.objects.items() and len(kept) == 6
    assert done["objects_after"] == 3, "two, and one that was made"
    for key in set(kept) - {day + newer}:
        del bucket.objects[key]
    assert {len(row) for row in read(dict(bucket.objects))["step"]} == {12}, "more is there"
    states = len(bucket.states)
    assert "1 object that cannot be read" in pitot("lake", "compact", LAKE).stderr and len(bucket.states) == states, "and nothing is written for it"


def test_what_it_refuses(bucket, pitot, compact, read):
    """A lake whose statements know nothing of it, servers without conditions, manifests that are damaged or missing: nothing is changed."""
    rows = read(dict(bucket.objects))

    def refused(said):
        before = dict(bucket.objects)
        assert said in pitot("lake", "compact", LAKE, "--wait", "0", status=1).stderr and bucket.objects == before

    bucket.knows_conditions = False
    refused("ignores If-None-Match")
    bucket.knows_conditions = True
    schema = bucket.objects.pop(f"{PREFIX}compacted/kernel_sketch/schema.parquet")
    refused("pitot lake init")
    bucket.objects[f"{PREFIX}compacted/kernel_sketch/schema.parquet"] = schema
    compact()
    manifest = f"{PREFIX}compacted/step/{DAY[5:]}.00000001.parquet"
    body = bucket.objects[manifest]
    bucket.objects[manifest] = body[:-9]
    refused(f"cannot read '{LAKE}/compacted/step/{DAY[5:]}.00000001.parquet'")
    bucket.objects[manifest.replace("01.parquet", "02.parquet")] = bucket.objects.pop(manifest)
    refused("is being compacted by another")
    bucket.objects[manifest] = body
    del bucket.objects[manifest.replace("01.parquet", "02.parquet")]
    for name in f"{DAY[5:]}.1.parquet", f"{DAY[5:]}.00000000.parquet", "x.00000007.parquet", f"{DAY[5:]}.00000002", "":
        bucket.objects[f"{PREFIX}compacted/step/{name}"] = b"x"
    assert compact() == [] and all(read(state) == rows for state in bucket.states if not any(body == b"x" for body in state.values()))
    assert "--wait belongs to compact" in pitot("lake", "ls", LAKE, "--wait", "1s", status=2).stderr


@pytest.mark.parametrize("store", ["moto"], indirect=True)
def test_clickhouse_reads_meanwhile(store, fill, program, environment, tmp_path):
    """An engine that lists the bucket itself has all rows in each answer, from before the first run until after the last; or none, as objects go."""
    if not importlib.util.find_spec("chdb"):
        pytest.skip("needs the Python package chdb-core")
    from chdb.session import Session

    fill(store)
    os.environ.update(s3_server.settings(store.endpoint))
    session = Session(str(tmp_path / "clickhouse"))

    def ask():
        try:
            return [str(session.query(f"SELECT count(), sum(cityHash64(*)) FROM {table}")) for table in TABLES]
        except Exception as error:
            assert "The specified key does not exist" in str(error)
            return None

    try:
        text = store.objects[PREFIX + "sql/clickhouse.sql"].decode()
        for statement in re.sub(r"^--.*$", "", text, flags=re.M).split(";\n"):
            if statement.strip():
                session.query(statement)
        ask()
        began = time.monotonic()
        want, begun = ask(), len(store.objects)
        wait = f"{5 + 10 * (time.monotonic() - began):.0f}s"
        one, answers = subprocess.Popen([program, "-q", "lake", "compact", LAKE, "--wait", wait], env=environment), []
        while one.poll() is None:
            answers.append(ask())
        assert one.wait() == 0 and len(store.objects) < begun and want and ask() == want
        assert len(answers) > 5 and all(answer in (want, None) for answer in answers) and answers.count(None) < len(answers) / 2
    finally:
        session.close()
