"""The producer of Perfetto's service: against a stand-in that does what the real one would not, and against the real one."""
import collections
import contextlib
import os
import shutil
import struct
import subprocess
import threading
import time

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from perfetto_service import FRAME_MAX, Service, field, framed, varint
from waiting import PATIENCE, wait_until


class Program:
    """The producer program; what it prints is collected."""

    def __init__(self, path, environment, *arguments):
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(self.process.stdout.readline, "")), daemon=True)
        self.reader.start()

    def said(self, beginning):
        return [line.split() for line in list(self.lines) if line.startswith(beginning)]

    def wait_for(self, beginning, count=1):
        return wait_until(lambda: len(self.said(beginning)) >= count and self.said(beginning), beginning, self.process)

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def thread_status(self, entry):
        """What /proc says of the producer's thread, which is the newest."""
        tasks = f"/proc/{self.process.pid}/task"
        with open(f"{tasks}/{max(map(int, os.listdir(tasks)))}/status") as about:
            return next(line.split()[1] for line in about if line.startswith(entry))

    def descriptors(self):
        return os.listdir(f"/proc/{self.process.pid}/fd")

    def end(self):
        """All is well inside: no output but ours, no leak, no race."""
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        error = self.process.stderr.read()
        assert (self.process.wait(PATIENCE), error) == (0, ""), error
        self.reader.join()


@pytest.fixture
def program(build, environment, tmp_path):
    started = []

    def start(*arguments, socket="socket", **variables):
        path = build / "tests" / "integration" / "perfetto" / "producer_program"
        path = path if path.exists() else build / "integration" / "perfetto" / "producer_program"
        started.append(Program(path, {**environment, "PERFETTO_PRODUCER_SOCK_NAME": str(tmp_path / socket), **variables}, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture
def service(tmp_path):
    started = Service(tmp_path / "socket")
    yield started
    started.close()


def check_numbers(connection, writer, count):
    assert connection.numbers(writer) == list(range(count))


def test_conversation(program, service):
    running = program("a.source", "b.source", "packets=3000")
    connection = service.connect(2)
    assert connection.sources == {"a.source": {2: 1, 3: 1, 4: 1}, "b.source": {2: 1, 3: 1, 4: 1}}
    connection.start(70, "a.source", 3, config=field(108, field(6, "sm__cycles")))
    connection.until(lambda: connection.started == [70])
    connection.start(71, "b.source", 4)
    connection.until(lambda: connection.count() == 6000)
    assert connection.started == [70, 71] and sorted(connection.writers.values()) == [3, 4]
    assert [line[2:] for line in running.said("start")] == [["a.source", "3", "sm__cycles"], ["b.source", "4", "-"]]
    for writer in connection.writers:
        check_numbers(connection, writer, 3000)
        assert [p.sequence_flags for p in connection.packets[writer]] == [1] + 2999 * [0]
        assert not any(p.previous_packet_dropped for p in connection.packets[writer])
    connection.stop(70)
    connection.until(lambda: connection.stopped == [70])
    assert connection.released == {writer for writer, buffer in connection.writers.items() if buffer == 3}
    connection.stop(71)
    connection.until(lambda: connection.stopped == [70, 71])
    assert connection.released == set(connection.writers)


def test_flush_is_acknowledged_behind_its_packets(program, service):
    running = program("a", "b", "packets=5000", "late=1")
    connection = service.connect(2)
    connection.start(1, "a")
    connection.start(2, "b")
    connection.until(lambda: len(connection.started) == 2)
    for flush in 10, 11, 12:
        connection.flush(flush, 1, 2)
    connection.flush(13, 1)
    connection.flush(14)
    connection.until(lambda: 14 in connection.acknowledged)
    assert connection.acknowledged == sorted(connection.acknowledged)
    assert connection.flushed[14] == 10000
    assert min(connection.flushed.values()) >= 5000, "not before one of them has answered"
    # Flushes that came in the meantime are asked for together, but not left out.
    assert 4 <= len(running.said("flush")) <= 8
    connection.flush(20, 2, 99)
    connection.stop(1)
    connection.stop(2)
    connection.until(lambda: sorted(connection.stopped) == [1, 2])
    assert connection.acknowledged[-1] == 20


@pytest.mark.parametrize("asked", ["flush", "stop"])
def test_open_chunk_is_sent_before_the_answer(program, service, asked):
    """What is in an open chunk is sent before the answer."""
    program("a", "packets=500", "sequences=2", "late=1")
    connection = service.connect()
    for i in range(1, 6):
        connection.start(i, "a")
        connection.flush(i, i) if asked == "flush" else connection.stop(i)
        connection.until(lambda i=i: i in (connection.acknowledged if asked == "flush" else connection.stopped))
        assert connection.count() == i * 1000


def test_flush_with_nothing_and_what_is_unknown(program, service):
    running = program("a", "packets=0")
    connection = service.connect()
    connection.flush(1)
    connection.flush(2, 55)
    connection.stop(55)
    connection.clear(55)
    connection.until(lambda: connection.stopped == [55])
    connection.until(lambda: 2 in connection.acknowledged)
    connection.start(1, "a")
    connection.flush(3, 1)
    connection.until(lambda: 3 in connection.acknowledged)
    connection.stop(1)
    connection.until(lambda: connection.stopped == [55, 1])
    assert connection.chunks == 0 and not connection.writers
    assert not running.said("clear")


@pytest.mark.parametrize("descriptors", [0, 1, 3, 253])
def test_descriptors_that_come_along(program, service, descriptors):
    running = program("a", "packets=10")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 10)
    before = running.descriptors()
    with open("/dev/null") as null:
        connection.command(3, field(1, 4), [null.fileno()] * descriptors)
    connection.flush(7)
    connection.until(lambda: 7 in connection.acknowledged)
    assert running.descriptors() == before
    for descriptor in before:
        with open(f"/proc/{running.process.pid}/fdinfo/{descriptor}") as about:
            flags = int(next(line for line in about if line.startswith("flags")).split()[1], 8)
        assert int(descriptor) <= 2 or flags & os.O_CLOEXEC


def test_many_instances(program, service):
    """Of two sources, and writers more than there are chunks at once."""
    program("a", "b", "packets=300", "sequences=7")
    connection = service.connect(2)
    for i in range(20):
        connection.start(100 + i, "ab"[i % 2], 1 + i)
    connection.until(lambda: connection.count() == 20 * 7 * 300)
    assert len(connection.writers) == 140
    assert collections.Counter(connection.writers.values()) == {1 + i: 7 for i in range(20)}
    for writer in connection.writers:
        check_numbers(connection, writer, 300)
    for i in range(20):
        connection.stop(100 + i)
    connection.until(lambda: len(connection.stopped) == 20)
    assert connection.released == set(connection.writers)


def test_all_sequences(program, service):
    program("a", "packets=2", "sequences=4096")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 2 * 4096)
    connection.stop(1)
    connection.until(lambda: connection.stopped)
    assert len(connection.released) == 4096


def test_writer_ids_come_again(program, service):
    """There are 32,767 in a connection, of which no two are in use at once."""
    program("a", "packets=1", "sequences=4096")
    connection = service.connect()
    for i in range(1, 10):
        connection.start(i, "a")
        connection.until(lambda i=i: connection.count() == i * 4096)
        connection.stop(i)
        connection.until(lambda i=i: len(connection.stopped) == i)
    assert len(connection.writers) == 32767


@pytest.mark.parametrize("size", [63980, 64000, 200_000, 3_000_000])
def test_large_packets(program, service, size):
    program("a", "packets=6", "sequences=2", f"size={size}")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 12)
    for writer in connection.writers:
        check_numbers(connection, writer, 6)
        assert all(size - 20 <= p.ByteSize() <= size + 20 for p in connection.packets[writer])
    assert connection.chunks >= 12 * size / 64000


def test_one_byte_at_a_time(program, service):
    program("a", "packets=10")
    connection = service.connect()
    connection.start(1, "a", piece=1)
    connection.until(lambda: connection.count() == 10)


def test_clear(program, service):
    running = program("a", "packets=1000000", "delay_us=1000")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count())
    connection.clear(1)
    running.wait_for("clear")
    [writer] = connection.writers
    connection.until(lambda: sum(p.sequence_flags for p in connection.packets[writer]) == 2)


def test_service_comes_goes_and_comes_again(program, tmp_path):
    running = program("a", "packets=1000")
    for number in range(1, 4):
        service = Service(tmp_path / "socket")
        connection = service.connect()
        connection.start(1, "a")
        connection.until(lambda c=connection: c.count() == 1000)
        connection.socket.sendall(struct.pack("<I", 50) + b"half of it")
        service.close()
        running.wait_for("lost", number)
    assert len({line[1] for line in running.said("start")}) == 3, "numbers of instances are not used again"


def test_pauses_grow(program, service):
    program("a")
    service.accept().socket.close()
    began = time.monotonic()
    for _ in range(4):
        service.accept().socket.close()
    assert time.monotonic() - began > 0.1 + 0.2 + 0.4 + 0.8 - 0.05


def test_gone_while_packets_come(program, tmp_path):
    """The writing threads go on until they notice; nothing of that reaches the next connection."""
    running = program("a", "packets=100000000", "keep=0", "queue=131072")
    for number in range(1, 6):
        service = Service(tmp_path / "socket")
        connection = service.connect()
        connection.start(number, "a")
        connection.until(lambda c=connection: c.count() > 2000)
        [writer] = connection.writers
        assert connection.numbers(writer) == sorted(connection.numbers(writer))
        service.close()
        running.wait_for("lost", number)


HOSTILE = {
    "a length beyond all": lambda c: c.socket.sendall(struct.pack("<I", FRAME_MAX + 1)),
    "a length of 4 GiB": lambda c: c.socket.sendall(b"\xff\xff\xff\xff" + 1000 * b"x"),
    "no message": lambda c: c.send(b"\xff\xff\xff"),
    "a cut message": lambda c: c.send(field(2, c.commands) + b"\x32\x7f\x08"),
    "a cut reply": lambda c: c.send(field(2, c.commands) + field(6, b"\x1a\x20")),
    "a cut command": lambda c: c.send(field(2, c.commands) + field(6, field(1, 1) + field(2, 1) + field(3, b"\x0a\x05\x08"))),
    "a cut configuration": lambda c: c.command(1, field(1, 2) + field(2, field(108, b"\x0a"))),
    "no more commands": lambda c: c.send(field(2, c.commands) + field(6, field(1, 1))),
    "commands refused": lambda c: c.send(field(2, c.commands) + field(6, field(2, 1))),
    "an error": lambda c: c.send(field(2, c.commands) + field(7, field(1, "no"))),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile(program, service, what):
    """The producer hangs up, and tries again."""
    program("a", "packets=500")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 500)
    HOSTILE[what](connection)
    connection.rest()
    again = service.connect()
    again.start(1, "a")
    again.until(lambda: again.count() == 500)


@pytest.mark.parametrize("what", ["refused", "incomplete", "not initialized"])
def test_hostile_beginning(program, service, what):
    program("a", "packets=5")
    connection = service.accept()
    if what == "refused":
        connection.send(field(2, connection.frame()[2]) + field(4, field(1, 0)))
    elif what == "incomplete":
        connection.bind(CommitData="CommitDate")
    else:
        connection.bind()
        connection.initialize(succeed=False)
    connection.rest()
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 5)


def test_frames_of_no_interest(program, service):
    program("a", "packets=5")
    connection = service.connect()
    connection.send(b"")
    connection.send(field(2, 12345) + field(6, field(1, 1) + field(2, 1) + field(3, field(1, field(1, 9)))))
    connection.send(field(2, 1) + field(4, b"\x08\x01"))
    connection.send(field(2, connection.commands) + field(6, field(1, 1) + field(2, 1)))
    connection.command(99, b"later")
    connection.send(field(1000, "x" * (FRAME_MAX - 100)))
    connection.start(1, "a")
    connection.start(1, "a")
    connection.until(lambda: connection.count() == 5)
    connection.stop(1)
    connection.until(lambda: connection.stopped)
    assert connection.count() == 5 and connection.started == [1]


def test_flood_of_instances(program, service):
    """What is too much starts and stops, too, without packets, so that nobody waits for it."""
    running = program("a", "packets=3")
    connection = service.connect()
    for i in range(300):
        connection.start(1000 + i, "a", 1 + i)
    connection.until(lambda: connection.count() == 3 * 64 and len(connection.started) == 300)
    for i in range(300):
        connection.stop(1000 + i)
    connection.until(lambda: len(connection.stopped) == 300)
    assert connection.count() == 3 * 64 == 3 * len(running.said("start"))
    connection.start(5000, "a")
    connection.until(lambda: connection.count() == 3 * 65)


def test_flood_without_reading(program, service):
    """Answers that nobody reads do not grow without end: the producer hangs up."""
    program("a", "packets=0")
    connection = service.connect()
    stop = framed(connection.command_message(2, field(1, 77)))
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(100_000):
            connection.socket.sendall(1000 * stop)
    service.connect()


def test_slow_service(program, service):
    """Nobody waits for it: packets are lost, counted, and their sequence says so."""
    running = program("a", "packets=200000", "keep=0", "queue=131072")
    connection = service.connect()
    connection.start(1, "a")
    [[_, _, refused, lost]] = running.wait_for("written")
    assert 0 < int(lost) == int(refused)
    connection.until(lambda: connection.count() == 200000 - int(lost))
    [writer] = connection.writers
    packets = connection.packets[writer]
    gaps = [b for a, b in zip(packets, packets[1:]) if b.for_testing.counter != a.for_testing.counter + 1]
    assert gaps == [p for p in packets if p.previous_packet_dropped]
    assert all(p.sequence_flags == 1 for p in gaps)


def test_ends_of_slices_with_a_slow_service(program, service):
    """A full queue has room for them: each slice whose beginning was accepted ends."""
    running = program("a", "packets=200000", "ends=40", "keep=0", "queue=131072")
    connection = service.connect()
    connection.start(1, "a")
    [[_, _, refused, _]] = running.wait_for("written")
    assert int(refused) and [line[2] for line in running.said("ends")] == ["40"]
    connection.until(lambda: connection.count() == 200040 - int(refused))


def test_a_service_of_another_user(program, folder):
    """It gets nothing: anybody can make a socket in /tmp."""
    if os.geteuid() != 0:
        pytest.skip("needs a second user")
    os.seteuid(65534)
    try:
        service = Service(folder / "socket")
    finally:
        os.seteuid(0)
    program("a", "packets=10", "silent=1", socket=folder / "socket")
    for _ in range(2):  # it tries again
        assert service.listener.accept()[0].recv(1) == b""
    service.close()


@pytest.mark.parametrize("reading", ["reads", "hangs", "never began", "is not there"])
def test_stop_within_a_second(program, tmp_path, reading):
    """Within a second, and what has been written arrives where the service reads."""
    running = program("a", "packets=2000", "silent=1")
    service = connection = None
    if reading == "never began":
        service = Service(tmp_path / "socket")
        service.accept()
    elif reading != "is not there":
        service = Service(tmp_path / "socket")
        connection = service.connect()
        connection.start(1, "a")
        running.wait_for("written")
    running.tell("stop")
    if reading == "reads":
        connection.rest()
        check_numbers(connection, *connection.writers, 2000)
    [[_, ms]] = running.wait_for("stopped")
    assert int(ms) < 1000 or os.getloadavg()[0] > 2 * os.cpu_count()
    running.end()
    if service:
        service.close()


@pytest.mark.parametrize("pause_s, size", [(0.03, 60), (0.031, 200)])
def test_stop_with_a_slow_service(program, service, pause_s, size):
    """What was written arrives as long as the service goes on, but the program waits for 3 s at most."""
    running = program("a", "packets=35000", "keep=1", "silent=1", f"size={size}", "queue=8388608")
    connection = service.connect()
    connection.start(1, "a")
    running.wait_for("written")
    running.tell("stop")
    longest, before = 0, time.monotonic()

    def slowly():
        nonlocal longest, before
        time.sleep(pause_s)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
        return False

    with contextlib.suppress(EOFError, ConnectionResetError):
        connection.until(slowly)
    [[_, ms]] = running.wait_for("stopped")
    busy = os.getloadavg()[0] > 2 * os.cpu_count()
    if size == 60:
        assert int(ms) > (500 if busy else 600) and (connection.count() == 35000 or longest > 0.06)
    else:
        assert connection.count() < 35000 and (int(ms) > 2900 or longest > 0.25) and (int(ms) < 3900 or busy)


def test_stop_while_packets_come(program, service):
    running = program("a", "packets=100000000", "keep=0")
    connection = service.connect()
    for i in range(3):
        connection.start(i, "a")
    connection.until(lambda: connection.count() > 10000)
    running.tell("stop")
    connection.rest(complete=False)
    running.wait_for("written", 3)
    running.end()


def test_one_unanswered_request_per_instance(program, service):
    """One question at a time for each instance; the others go on."""
    running = program("a", "packets=100", "silent=1")
    connection = service.connect()
    connection.start(1, "a")
    connection.flush(5, 1)
    connection.stop(1)
    connection.start(2, "a")
    connection.until(lambda: connection.count() == 200)
    running.wait_for("flush")
    assert not connection.acknowledged and not connection.stopped and not running.said("stop")


def test_fork(program, service):
    """The child has no connection; the parent's goes on."""
    running = program("a", "packets=2000", "delay_us=100")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count())
    for i in range(1, 4):
        running.tell("fork")
        assert running.wait_for("forked", i)[-1] == ["forked", "0"]
    connection.until(lambda: connection.count() == 2000)
    connection.stop(1)
    connection.until(lambda: connection.stopped)


def test_descriptors_that_the_program_closes(program, service, tmp_path):
    """Nothing is written into the files that have their numbers then. (To ThreadSanitizer dup2 is a race.)"""
    running = program("a", "packets=100000000", "keep=0", TSAN_OPTIONS="report_bugs=0")
    connection = service.connect()
    connection.start(1, "a")
    connection.until(lambda: connection.count() > 1000)
    victim = tmp_path / "victim"
    running.tell(f"replace {victim}")
    connection.rest(complete=False)
    running.wait_for("lost")
    running.wait_for("written")
    running.tell("stop")
    running.wait_for("stopped")
    assert victim.read_bytes() == b""
    running.end()


def test_idle_producer_sends_nothing(program, service):
    """One connection, and then nothing."""
    running = program("a")
    connection = service.connect()
    connection.flush(1)
    connection.until(lambda: connection.acknowledged)

    def sleeps():
        before = running.thread_status("voluntary_ctxt_switches")
        time.sleep(1)
        return running.thread_status("voluntary_ctxt_switches") == before

    wait_until(sleeps, "it does nothing for a second")
    running.end()


def test_addresses(program, service, build, environment, tmp_path):
    path = program("a", socket="x" * (107 - len(f"{tmp_path}/"))).process.args[0]
    for name, why in (("x" * 200, "longer than 107 bytes"), ("localhost:1234", "is not a path")):
        refused = subprocess.run([path, "a"], env={**environment, "PERFETTO_PRODUCER_SOCK_NAME": name}, capture_output=True, text=True)
        assert refused.returncode == 1 and why in refused.stderr and name in refused.stderr
    refused = subprocess.run([path, "n" * 64], env=environment, capture_output=True, text=True)
    assert refused.returncode == 1 and "is too long" in refused.stderr


# --- the real service ---

CONFIG = """
buffers {{ size_kb: 262144 fill_policy: DISCARD }}
duration_ms: {duration_ms}
data_sources {{ config {{ name: "pitot.a" }} }}
data_sources {{ config {{ name: "pitot.b" }} }}
"""


@pytest.fixture
def traced(environment, tmp_path):
    """Starts the real service: traced(), as often as it is to be there. Then perfetto(duration) makes a trace."""
    programs = [shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin") for name in ("traced", "perfetto")]
    if not all(programs):
        pytest.skip("Perfetto's traced and perfetto are not installed")
    sockets = {"PERFETTO_PRODUCER_SOCK_NAME": str(tmp_path / "socket"), "PERFETTO_CONSUMER_SOCK_NAME": str(tmp_path / "consumer")}
    running = []

    def stop():
        for process in running:
            process.kill()
            process.wait()

    def start():
        stop()
        running[:] = [subprocess.Popen([programs[0]], env={**environment, **sockets}, stderr=subprocess.DEVNULL)]
        wait_until((tmp_path / "consumer").exists, "traced listens", running[0])

    def trace(duration_ms):
        config, out = tmp_path / "config", tmp_path / "trace"
        config.write_text(CONFIG.format(duration_ms=duration_ms))
        subprocess.run([programs[1], "--txt", "-c", config, "-o", out], env={**environment, **sockets}, check=True,
                       stderr=subprocess.DEVNULL, timeout=PATIENCE)
        return Trace.FromString(out.read_bytes())

    start.trace = trace
    yield start
    stop()


@pytest.mark.parametrize("again", [False, True])
def test_real_service(program, traced, again):
    running = program("pitot.a", "pitot.b", "packets=20000")
    traced()
    if again:
        wait_until(lambda: len(running.descriptors()) == 6, "it is connected")
        traced()
    wait_until(lambda: len(running.descriptors()) == 6, "it is connected")
    trace = traced.trace(5000)
    numbers = collections.defaultdict(list)
    for packet in trace.packet:
        if packet.HasField("for_testing"):
            numbers[packet.trusted_packet_sequence_id].append(packet.for_testing.counter)
    assert list(numbers.values()) == 2 * [list(range(20000))]
    [stats] = [packet.trace_stats for packet in trace.packet if packet.HasField("trace_stats")]
    assert stats.invalid_packets == stats.chunks_discarded == stats.flushes_failed == 0 and stats.flushes_succeeded
    for buffer in stats.buffer_stats:
        assert not (buffer.trace_writer_packet_loss or buffer.chunks_discarded or buffer.abi_violations)
