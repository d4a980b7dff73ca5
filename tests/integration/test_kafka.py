"""pitot agent --kafka: what brokers have is what was recorded, whatever they and the agent meet meanwhile."""
import random
import re
import signal
import time

import pytest

import kafka_broker
import tansu_broker
from shipped_rows import ask, recorded, shipped, steps_of
from waiting import wait_until

FAST = ("--interval", "1s", "--ship", "1s")
TOPICS = "pitot.step", "pitot.kernel_sketch", "pitot.loss"


@pytest.fixture
def broker():
    if not kafka_broker.load():
        pytest.skip("needs librdkafka1")
    broker = kafka_broker.Broker()
    for topic in TOPICS:
        broker.topic(topic)
    yield broker
    broker.end()


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / "lake"
    folder.mkdir()
    return folder


@pytest.fixture
def send(pitot, broker, lake, tmp_path):
    """send(folder): an agent ships finished recordings and ends."""
    return lambda folder, *options, **more: pitot("agent", "--once", "--no-live", "--recordings", folder, "--lake", lake, "--spool", tmp_path / "spool",
                                                  "--kafka", broker.address, *options, **more)


def spooled(tmp_path):
    return {path.name for path in (tmp_path / "spool").glob("*.*")} - {"state.json"}


def received(broker):
    """{kind: (number, sum)} and steps, of messages that are counted once, and how many came more than once."""
    found, seen, work, steps, again = broker.messages(*TOPICS), set(), {}, [], 0
    for topic, _, headers, rows in found:
        identity = topic, headers["pitot-object"], headers["pitot-part"]
        again += identity in seen
        if identity in seen:
            continue
        seen.add(identity)
        for row in rows:
            if topic == "pitot.kernel_sketch":
                count, total = work.get(row["kind"], (0, 0))
                work[row["kind"]] = count + row["count"], total + row["total_ns"]
            elif topic == "pitot.step":
                steps.append(row["duration_ns"])
    return work, sorted(steps), again


def check(broker, rows, folder, lake):
    work, steps, again = received(broker)
    assert work == recorded(rows, folder) == shipped(lake)
    assert steps == sorted(end - begin for begin, end in steps_of(rows, folder)) != []
    return again


def test_rows_of_messages(send, broker, rows, played, lake, tmp_path):
    """The same rows as in the lake; each message has whole lines, and says what it is."""
    process, folder = played("train", 2, SLURM_JOB_ID="77", SLURM_STEP_ID="0", SLURM_PROCID="3", SLURM_NTASKS="8")
    assert process.wait() == 0
    send(folder.parent)
    assert check(broker, rows, folder, lake) == 0 and not spooled(tmp_path)
    for topic, key, headers, lines in broker.messages("pitot.step", "pitot.kernel_sketch"):
        assert re.fullmatch(r"77%2E0\.[^.]+", key) and headers["pitot-object"].startswith(key + ".") and headers["pitot-part"] == "0"
        assert {(row["job"], row["rank"]) for row in lines} == {("77.0", 3)} and all(row["session"] > 0 for row in lines)
        assert all(("work_ns" in row) == (topic == "pitot.step") for row in lines)
    send(folder.parent)
    assert check(broker, rows, folder, lake) == 0, "nothing is sent twice"


def test_long_rows_are_several_messages(send, broker, rank_recording, rows, lake):
    """Of the tables that are in one file, whole lines of at most 256 KiB each."""
    send(rank_recording("sleep-3"), env={"SLURM_JOB_ID": "1"})
    work, _, again = received(broker)
    assert work == recorded(rows, rank_recording("sleep-3")) and again == 0


@pytest.mark.parametrize("errors", [(kafka_broker.TIMED_OUT,) * 3, (kafka_broker.NOT_LEADER,) * 2], ids=["timed out", "not the leader"])
def test_errors_that_pass(send, broker, rows, played, lake, tmp_path, errors):
    process, folder = played("train", 1)
    assert process.wait() == 0
    broker.fail(*errors)
    send(folder.parent)
    assert check(broker, rows, folder, lake) == 0 and not spooled(tmp_path)


def test_brokers_that_are_away(send, broker, rows, played, lake, tmp_path):
    """The lake gets its rows; what is for Kafka waits in the spool, and is sent by the next agent."""
    process, folder = played("train", 1)
    assert process.wait() == 0
    broker.set_down(True)
    said = send(folder.parent, status=1).stderr
    assert broker.address in said or "not delivered yet" in said
    assert shipped(lake) == recorded(rows, folder) and all(name.endswith(".jsonl") for name in spooled(tmp_path)) and spooled(tmp_path)
    broker.set_down(False)
    send(folder.parent)
    assert check(broker, rows, folder, lake) == 0 and not spooled(tmp_path)


def test_the_agent_is_killed(send, broker, rows, played, agent, lake, tmp_path):
    """And the broker is away now and then: nothing is lost; what comes twice is known by its headers."""
    process, folder = played("train", 6)
    chance = random.Random(34)
    while process.poll() is None:
        one = agent(*FAST, "-p", process.pid, "--kafka", broker.address)
        broker.set_down(chance.random() < 0.3)
        before = len(list(lake.rglob("*.parquet")))
        wait_until(lambda: len(list(lake.rglob("*.parquet"))) > before or process.poll() is not None or one.poll() is not None, "it ships")
        time.sleep(chance.random() / 4)
        one.kill()
        assert one.wait() == -signal.SIGKILL, one.stderr.read()
    assert process.returncode == 0
    broker.set_down(False)
    send(folder.parent)
    check(broker, rows, folder, lake)
    assert not spooled(tmp_path)


def test_a_broker_is_killed(pitot, rows, played, agent, environment, lake, tmp_path):
    """A real one, with SIGKILL, again and again, and the agent now and then: what it has in the end is what was recorded.

    Tansu stores the sequence number of a batch (meta.json) before the batch. If it is killed in between, it confirms the batch that comes again,
    with an offset that another one has, and does not store it. Therefore the producer numbers nothing, and headers tell what came twice."""
    if not tansu_broker.is_there():
        pytest.skip("needs tests/requirements-fleet.txt")
    environment["LD_LIBRARY_PATH"] = str(tansu_broker.link_library(tmp_path / "libraries"))
    chance, kills = random.Random(34), 0
    broker = tansu_broker.Broker(tmp_path / "broker.log")
    try:
        for topic in TOPICS:
            broker.topic(topic)
        process, folder = played("train", 6)
        config = tmp_path / "producer"
        config.write_text("enable.idempotence=false\nacks=all\n")
        kafka = "--kafka", broker.address, "--kafka-config", config
        words = (*FAST, "-p", process.pid, *kafka)
        one = agent(*words)
        while process.poll() is None:
            time.sleep(1 + 2 * chance.random())
            broker.kill()
            kills += 1
            if chance.random() < 0.3:
                one.kill()
                one.wait()
                one = agent(*words)
            time.sleep(chance.random())
            broker.start()
        assert process.returncode == 0 and kills > 2
        one.kill()
        one.wait()

        def sent():
            pitot("agent", "--once", "--no-live", "--recordings", folder.parent, "--lake", lake, "--spool", tmp_path / "spool", *kafka, status=None)
            return not spooled(tmp_path)

        wait_until(sent, "all is sent")
        check(broker, rows, folder, lake)
    finally:
        broker.end()


def test_a_full_spool(send, broker, rows, played, lake, tmp_path):
    """What Kafka did not take in time is dropped and counted, and says so."""
    process, folder = played("train", 1)
    assert process.wait() == 0
    broker.set_down(True)
    (lake / "kernel_sketch").write_text("in the way")
    send(folder.parent, "--spool-size", "1", status=None)
    (lake / "kernel_sketch").unlink()
    broker.set_down(False)
    send(folder.parent)
    losses = [row for topic, _, _, lines in broker.messages(*TOPICS) if topic == "pitot.loss" for row in lines if row["reason"] == "spool_full"]
    assert {row["detail"] for row in losses} == {"rows that Kafka did not take in time", "rows of objects that the lake did not take in time"}
    assert all(row["count"] > 0 and row["lost_by"] == "agent" and row["pid"] is None for row in losses)


def test_what_is_dropped_does_not_arrive(broker, played, agent, pitot, lake, tmp_path):
    """While brokers are away, the spool drops files that librdkafka has already: each row arrives or is a loss, and not both."""
    broker.set_down(True)
    process, _ = played("train", 1000)
    one = agent(*FAST, "-p", process.pid, "--kafka", broker.address, "--spool-size", "40k")
    lost = lambda: sum(count for count, in ask(lake, "SELECT count FROM {loss} WHERE detail LIKE '%Kafka%'")) if (lake / "loss").exists() else 0
    wait_until(lost, "something is dropped", one)
    process.send_signal(signal.SIGINT)
    process.wait()
    broker.set_down(False)
    wait_until(lambda: not spooled(tmp_path), "all else is sent", one)
    one.send_signal(signal.SIGTERM)
    assert one.wait() == 0, one.stderr.read()
    shipped_rows = sum(ask(lake, f"SELECT count(*) FROM {{{table}}}")[0][0] for table in ("step", "kernel_sketch", "loss"))
    parts = {(topic, headers["pitot-object"], headers["pitot-part"]): len(lines) for topic, _, headers, lines in broker.messages(*TOPICS)}
    assert lost() == sum(ask(lake, "SELECT sum(count)::BIGINT FROM {loss} WHERE reason = 'spool_full'")[0]), "the lake was there"
    assert sum(parts.values()) + lost() == shipped_rows


def test_wrong_settings(send, rank_recording, tmp_path):
    config = tmp_path / "kafka.properties"
    for text, said in ("no.such.property=secret", "'no.such.property'"), ("security.protocol=secret", "'security.protocol'"), ("secret", "line 1: not NAME=VALUE"):
        config.write_text(f"# comment\n\n{text}\n" if "line" not in said else text)
        message = send(rank_recording("sleep-3"), "--kafka-config", config, status=2).stderr
        assert said in message and ("secret" not in message)
    assert "cannot read" in send(rank_recording("sleep-3"), "--kafka-config", tmp_path / "none", status=1).stderr
    config.write_text("linger.ms=5\r\n")
    send(rank_recording("sleep-3"), "--kafka-config", config)
