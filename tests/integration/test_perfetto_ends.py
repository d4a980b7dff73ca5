"""Programs that take part in live traces: what they announce, how their traces stop, and how they end."""
import contextlib
import itertools
import os
import subprocess
import threading
import time

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import GpuCounterDescriptor

from perfetto_service import SOURCES, connect, field, framed, live_trace
from waiting import PATIENCE, wait_until


@pytest.fixture
def leaver(library, source, environment, tmp_path):
    """leaver("quick", VARIABLE="…"): the program, which has begun."""
    program, started = tmp_path / "leaver", []
    subprocess.run(["cc", "-std=c11", "-D_DEFAULT_SOURCE", "-pthread", source / "tests/integration/perfetto/leaver.c", "-o", program,
                    "-I", source / "include", library, f"-Wl,-rpath,{library.parent}"], check=True)

    def start(how, **variables):
        started.append(subprocess.Popen([program, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env={
            **environment, "PITOT_OPTIONS": "cuda=0", "PITOT_PERFETTO": str(tmp_path / "socket"), **variables}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_announced_counters(service, leaver):
    """What a dialog can show, before anything is traced."""
    process = leaver("waits")
    connection = connect(service)
    for source in SOURCES:
        descriptor = connection.sources[source]
        if "counters" not in source:
            assert 5 not in descriptor
            continue
        announced = GpuCounterDescriptor.FromString(descriptor[5])
        names = [spec.name for spec in announced.specs]
        assert announced.supports_instrumented_sampling and announced.supports_counter_names and announced.supports_counter_name_globs
        assert len(set(names)) == len(names) == len({spec.counter_id for spec in announced.specs}) > 40 and min(s.counter_id for s in announced.specs) == 1
        default = [spec.name for spec in announced.specs if spec.select_by_default]
        assert len(default) == 24 and default[0] == "gpu__time_duration.sum" and all(list(spec.groups) == [6] for spec in announced.specs)
        assert {spec.name for spec in announced.specs if spec.numerator_units == [37]} == {name for name in names if ".pct" in name}
    process.stdin.close()
    connection.rest()
    assert process.wait(PATIENCE) == 0


def test_stops_at_once(service, leaver):
    """Each waits 0.2 s for what is under way, one beside the other."""
    leaver("waits")
    connection, quickest = connect(service), 1e9
    for round in range(5):
        instances = [10 * round + i for i in range(1, 9)]
        for instance in instances:
            connection.start(instance, SOURCES[instance % len(SOURCES)])
        connection.until(lambda: connection.started[-1:] == instances[-1:])  # noqa: B023
        began = time.monotonic()
        for instance in instances:
            connection.stop(instance)
        connection.until(lambda: set(instances) <= set(connection.stopped))  # noqa: B023
        quickest = min(quickest, time.monotonic() - began)
        if quickest < 7 * 0.2:
            return
    raise AssertionError(f"eight stops took {quickest} s")


def has_ended(log):
    """The recorder's threads: what sessions say of their losses may come later."""
    lines = [line for line in log.read_text().splitlines() if "were lost" not in line]
    return lines and lines[-1].endswith("ended in order")


def scopes_of(connection):
    return sum(made.category == "scope" for made in live_trace(connection).slices)


@pytest.mark.parametrize("how, status", [("left", 0), ("quick", 3), ("returned", 0)])
@pytest.mark.parametrize("tracing", [True, False])
def test_process_ends_though_the_producer_runs(service, leaver, how, status, tracing):
    """The producer's thread keeps no process alive whose main() ended by pthread_exit(), and sends what there is."""
    process = leaver(how, **({"__TRACE_STARTUP": "gpu.track_event"} if tracing else {}))
    connection = connect(service)
    if tracing:
        connection.start(1, "gpu.track_event")
    connection.rest(complete=False)
    assert process.wait(PATIENCE) == status and process.stdout.read() == ""
    # A service that does not run for half a second has not all.
    if not tracing or os.getloadavg()[0] < os.cpu_count():
        assert scopes_of(connection) == (30000 if tracing else 0)


def test_child_waits_for_its_start(service, leaver):
    """As its parent did: __TRACE_STARTUP is for each of them."""
    process = leaver("forked", __TRACE_STARTUP="gpu.track_event")
    parent = connect(service)
    parent.start(1, "gpu.track_event")
    parent.until(lambda: parent.started)
    child = connect(service)
    time.sleep(0.3)
    child.start(1, "gpu.track_event")
    child.rest(complete=False)
    assert process.wait(PATIENCE) == 0 and process.stdout.read() == ""
    assert scopes_of(parent) == 0
    if os.getloadavg()[0] < os.cpu_count():  # else as above
        assert scopes_of(child) == 30000


def test_stopped_while_it_starts(service, leaver, tmp_path):
    """Its program goes on, instead of waiting half a minute for it, and no session is left."""
    log = tmp_path / "log"
    process = leaver("waits", __TRACE_STARTUP=",".join(SOURCES), PITOT_LOG=str(log))
    connection = connect(service)
    began = time.monotonic()
    frames = b""
    for instance, source in enumerate(SOURCES, 1):
        frames += framed(connection.command_message(1, field(1, instance) + field(2, field(1, source) + field(2, 1))))
        frames += framed(connection.command_message(2, field(1, instance)))
    connection.socket.sendall(frames)
    connection.until(lambda: len(connection.stopped) == len(SOURCES))
    assert process.stdout.readline() == "ready\n" and time.monotonic() - began < 25
    connection.start(9, "gpu.track_event")
    connection.until(lambda: connection.started.count(9))
    connection.stop(9)
    connection.until(lambda: connection.stopped.count(9))
    wait_until(lambda: has_ended(log), "the recorder ends", process)
    process.stdin.close()
    connection.rest()
    assert process.wait(PATIENCE) == 0


def test_lost_sessions_end(service, leaver, tmp_path):
    """The recorder stops with the connection."""
    log = tmp_path / "log"
    process = leaver("waits", PITOT_LOG=str(log))
    connection = connect(service)
    for instance, source in enumerate(SOURCES, 1):
        connection.start(instance, source)
    connection.until(lambda: len(connection.started) == len(SOURCES))
    connection.socket.close()
    wait_until(lambda: has_ended(log), "the recorder ends", process)
    process.stdin.close()
    assert process.wait(PATIENCE) == 0


def test_a_service_that_floods(service, leaver):
    """It begins and ends data sources as fast as it can; the program's end waits for one of them at most."""
    process = leaver("waits")
    connection = connect(service)
    flooding = threading.Event()
    flooding.set()

    def flood():
        with contextlib.suppress(OSError):
            for instance in itertools.count(1):
                if not flooding.is_set():
                    return
                connection.start(instance, SOURCES[instance % len(SOURCES)])
                if instance > 32:
                    connection.stop(instance - 32)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    connection.until(lambda: len(connection.started) > 20)
    process.stdin.close()
    began = time.monotonic()
    assert process.wait(PATIENCE) == 0
    took = time.monotonic() - began
    flooding.clear()
    connection.socket.close()
    thread.join(PATIENCE)
    assert took < 4 or os.getloadavg()[0] > 2 * os.cpu_count()
