#!/usr/bin/env python3
"""Load of a fleet: many agents ship into one lake, a folder or a bucket whose server loses connections, and some are killed.

usage: bench/fleet.py BUILD [--agents 300] [--at-once 8] [--sink folder|bucket] [--kafka] [--faults 0.1] [--kills 0.2] [--seed 34]

Each agent is a real one with a spool of its own, which ships two recordings of a training; those that are killed are started again.
At the end the rows of each agent, which is in the names of its objects, must be those of the recordings: nothing is lost and nothing
is there twice. With --kafka, librdkafka's mock of a broker gets the same rows, and errors; messages are counted once by their
headers, as a reader does. All is then compacted as a day that is over. Prints JSON: objects, rows and bytes by table, bytes a
row, requests and CPU time. Needs DuckDB's Python package. Exits with 1 if sums differ.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

import duckdb

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests"))
import kafka_broker  # noqa: E402
import s3_server  # noqa: E402

KERNELS, REPEAT = 20_000, 20  # of the recordings: one with many kernels, one with steps
STEPS = "SELECT count(*), sum(work), sum(work_ns) FROM read_parquet('{}/step/date=2*/*.parquet')"
WORK = "SELECT sum(count), sum(total_ns) FROM read_parquet('{}/kernel_sketch/date=2*/*.parquet')"
TOPICS = "pitot.step", "pitot.kernel_sketch"
OVER = "date=2025-01-01"  # a day that is over
BY_AGENT = "regexp_extract(filename, '\\.([0-9a-f]{16})-[0-9]+\\.parquet$', 1)"


class Fleet:
    def __init__(self, options, folder):
        self.options, self.folder, self.chance = options, folder, random.Random(options.seed)
        self.program = pathlib.Path(options.build).resolve() / "pitot"
        self.environment = {**os.environ, "AWS_ACCESS_KEY_ID": s3_server.KEY, "AWS_SECRET_ACCESS_KEY": s3_server.SECRET, "AWS_REGION": s3_server.REGION}
        self.killed = self.starts = 0
        self.more = []
        (folder / "runs").mkdir()
        (folder / "spools").mkdir()
        build = pathlib.Path(options.build)
        subprocess.run([build / "tests/support/make-recording", folder / "runs/kernels.pitot", "--kernels", str(KERNELS), "--pattern", "train"], check=True)
        subprocess.run([self.program, "record", "-q", "--no-cpu", "--stacks", "none", "-o", folder / "runs/steps.pitot", "--", build / "standin/tape-play",
                        "--repeat", str(REPEAT), SOURCE / "tests/data/tapes/train.tape"], check=True)

    def command(self, lake, number):
        return [self.program, "agent", "-q", "--once", "--no-live", "--recordings", self.folder / "runs", "--lake", lake, "--spool",
                self.folder / f"spools/{number}", *(self.more if number != "one" else [])]

    def ship(self, lake, number, kill_after):
        """One agent, until it has shipped all."""
        for attempt in range(20):
            self.starts += 1
            process = subprocess.Popen(self.command(lake, number), env=self.environment, stderr=subprocess.PIPE, text=True)
            try:
                _, said = process.communicate(timeout=kill_after if attempt == 0 else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                self.killed += 1
                continue
            if process.returncode == 0:
                return
        raise SystemExit(f"agent {number} has not shipped: {said}")

    def run(self, lake):
        plans = [(number, self.chance.random() * 0.3 if self.chance.random() < self.options.kills else None) for number in range(self.options.agents)]
        with concurrent.futures.ThreadPoolExecutor(self.options.at_once) as pool:
            list(pool.map(lambda plan: self.ship(lake, *plan), plans))

    def expected(self):
        """What one agent ships without trouble."""
        lake = self.folder / "one"
        lake.mkdir()
        subprocess.run([*self.command(lake, "one")], check=True)
        return duckdb.execute(WORK.format(lake)).fetchone(), duckdb.execute(STEPS.format(lake)).fetchone()


def check(lake, want, agents):
    """Sums by agent. Returns what is wrong."""
    wrong = []
    for question, sums in zip((WORK, STEPS), want):
        by_agent = question.format(lake).replace("SELECT ", f"SELECT {BY_AGENT}, ").replace(".parquet')", ".parquet', filename = true)")
        found = duckdb.execute(by_agent + " GROUP BY 1").fetchall()
        if len(found) != agents:
            wrong.append(f"{len(found)} agents of {agents}")
        wrong += [f"agent {agent}: {values}, not {sums}" for agent, *values in found if tuple(values) != tuple(sums)]
    return wrong


class Reader(threading.Thread):
    """Reads messages while they come, since the mock keeps no more than a few MB. Each counts once, by its headers."""

    def __init__(self, broker):
        super().__init__(daemon=True)
        self.broker, self.ends, self.once = broker, threading.Event(), {}
        self.start()

    def run(self):
        is_last = False
        while not is_last:
            is_last = self.ends.wait(2)
            for topic, _, headers, rows in self.broker.messages(*TOPICS):
                self.once[tuple(headers.values())] = topic, rows

    def end(self):
        self.ends.set()
        self.join()
        return self.once


def check_messages(once, want, agents):
    """The same of messages."""
    sums = {}
    for (name, _), (topic, rows) in once.items():
        agent = re.search(r"\.([0-9a-f]{16})-[0-9]+\.jsonl$", name)[1]
        columns = ("count", "total_ns") if topic == TOPICS[1] else ("work", "work_ns")
        values = ([] if topic == TOPICS[1] else [len(rows)]) + [sum(row[column] for row in rows) for column in columns]
        found = sums.setdefault(topic, {}).setdefault(agent, [0] * len(values))
        found[:] = map(sum, zip(found, values))
    wrong = [f"{topic} has {len(sums.get(topic, {}))} agents of {agents}" for topic in TOPICS if len(sums.get(topic, {})) != agents]
    return wrong + [f"message of {agent} in {topic}: {values}" for topic, expected in zip(TOPICS, (want[1], want[0]))
                    for agent, values in sums.get(topic, {}).items() if tuple(values) != tuple(expected)]


def compact(fleet, lake):
    """All objects as those of one day, which is then compacted. Returns what is wrong, and the seconds."""
    sums = [duckdb.execute(question.format(lake)).fetchone() for question in (WORK, STEPS)]
    for table in "step", "kernel_sketch":
        (lake / table / OVER).mkdir()
        for path in list(lake.glob(f"{table}/date=2*/*.parquet")):
            path.rename(lake / table / OVER / path.name)
    begun = time.monotonic()
    subprocess.run([fleet.program, "lake", "compact", "-q", lake], check=True)
    seconds = time.monotonic() - begun
    return [f"compacted: {now}, not {then}" for question, then in zip((WORK, STEPS), sums)
            if (now := duckdb.execute(question.format(lake)).fetchone()) != then], seconds


def compact_bucket(fleet, server, folder):
    """The same of a bucket, whose sums are those of its views. Returns what is wrong, the seconds, and how many requests it was."""
    place = f"s3://{s3_server.BUCKET}/v1"

    def sums(number):
        copy, views = s3_server.copied(server.objects, folder / f"views{number}", "v1/"), duckdb.connect()
        views.execute((copy / "sql/duckdb.sql").read_text().replace(place, str(copy)))
        return [views.execute(question).fetchone() for question in ("SELECT sum(count), sum(total_ns) FROM kernel_sketch", "SELECT count(*), sum(work_ns) FROM step")]

    server.faults = []
    subprocess.run([fleet.program, "lake", "init", "-q", place], env=fleet.environment, check=True)
    for key in list(server.objects):
        if not key.startswith("v1/sql/") and "/date=2" in key:
            server.objects[re.sub("date=2[0-9-]*", OVER, key)] = server.objects.pop(key)
    before, begun, requests = sums(0), time.monotonic(), len(server.requests)
    subprocess.run([fleet.program, "lake", "compact", "-q", place, "--wait", "0"], env=fleet.environment, check=True)
    seconds, after = time.monotonic() - begun, sums(1)
    return [] if after == before else [f"compacted: {after}, not {before}"], seconds, len(server.requests) - requests


def sizes(lake):
    result = {}
    for table in sorted(path.name for path in lake.iterdir() if path.name not in ("sql", ".compact")):
        files = list(lake.glob(f"{table}/date=2*/*.parquet"))
        [rows] = duckdb.execute(f"SELECT count(*) FROM read_parquet('{lake}/{table}/date=2*/*.parquet')").fetchone() if files else [0]
        size = sum(path.stat().st_size for path in files)
        result[table] = {"objects": len(files), "rows": rows, "bytes": size, "bytes_per_row": round(size / max(rows, 1), 1)}
    return result


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--agents", type=int, default=300)
    arguments.add_argument("--at-once", type=int, default=8)
    arguments.add_argument("--sink", choices=("folder", "bucket"), default="bucket")
    arguments.add_argument("--kafka", action="store_true", help="also to a mock of a broker")
    arguments.add_argument("--faults", type=float, default=0.1, help="part of the requests that fail (bucket)")
    arguments.add_argument("--kills", type=float, default=0.2, help="part of the agents that are killed once")
    arguments.add_argument("--seed", type=int, default=34)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        fleet, lake = Fleet(options, pathlib.Path(name)), pathlib.Path(name) / "lake"
        lake.mkdir()
        want = fleet.expected()
        broker = kafka_broker.Broker() if options.kafka else None
        if broker:
            for topic in *TOPICS, "pitot.loss":
                broker.topic(topic)
            broker.fail(*[kafka_broker.NOT_LEADER if fleet.chance.random() < options.faults else 0 for _ in range(options.agents)])
            fleet.more = ["--kafka", broker.address]
            reader = Reader(broker)
        begun, server = time.monotonic(), None
        if options.sink == "bucket":
            server = stack.enter_context(s3_server.running())
            fleet.environment["AWS_ENDPOINT_URL"] = server.endpoint
            server.faults = [fleet.chance.choice(("before", "cut", "after", 503)) if fleet.chance.random() < options.faults else None
                             for _ in range(options.agents * 20)]
            fleet.run(f"s3://{s3_server.BUCKET}/v1")
        else:
            fleet.run(lake)
        seconds, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        for key, body in server.objects.items() if server else ():
            path = lake / key.removeprefix("v1/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        wrong = check(lake, want, options.agents)
        result = {"agents": options.agents, "starts": fleet.starts, "killed": fleet.killed, "seconds": round(seconds, 1), "sink": options.sink,
                  "cpu_ms_per_start": round(1000 * (used.ru_utime + used.ru_stime) / fleet.starts, 1), "tables": sizes(lake)}
        if server:
            result["requests_per_second"] = round(len(server.requests) / seconds, 1)
        if broker:
            messages = reader.end()
            wrong += check_messages(messages, want, options.agents)
            result["messages"] = {"count": len(messages), "per_second": round(len(messages) / seconds, 1)}
            broker.end()
        if options.sink == "folder":
            more, took = compact(fleet, lake)
            wrong += more
            result["compacted"] = {"seconds": round(took, 1), "tables": sizes(lake)}
        else:
            more, took, requests = compact_bucket(fleet, server, pathlib.Path(name))
            wrong += more
            manifests = sum(len(body) for key, body in server.objects.items() if "/compacted/" in key and "schema" not in key)
            result["compacted"] = {"seconds": round(took, 1), "requests": requests, "manifest_bytes": manifests}
        print(json.dumps({**result, "wrong": wrong[:10]}, indent=2))
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
