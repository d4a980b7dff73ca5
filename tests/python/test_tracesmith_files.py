"""pitot.tracesmith's SBT files, read and written by others too; and what a session becomes."""
import importlib
import json
import struct

import pytest

from sbt_bytes import COMPLETE, DTOH, KERNEL, MARK, Reader, Sbt, T0

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(scope="session")
def ts(package):
    return importlib.import_module("pitot.tracesmith")


@pytest.fixture
def imports(plain, monkeypatch):
    """The program is found."""
    monkeypatch.setenv("PATH", str(plain), prepend=":")


def events_of_all_kinds(ts):
    """With everything that a file has room for, and times that go back."""
    kernel = {f"{part}Dim{axis}": str(number) for number, (part, axis) in enumerate([(p, a) for p in ("grid", "block") for a in "XYZ"], 1)}
    kernel |= {"dynamicSharedMemory": "1024", "registersPerThread": "16"}
    events = [ts.TraceEvent(kind, f"e{kind}", T0 + 10 * int(kind), 5, 1, 7, 100 + int(kind)) for kind in ts.EventType]
    events += [ts.TraceEvent(ts.EventType.KernelLaunch, "saxpy<\udcff>", T0 + 9000, 900, 0, 2**32 - 1, 2**64 - 1, 4243, kernel, ["main", "launch"])]
    events += [ts.TraceEvent(ts.EventType.MemcpyD2H, "copy", T0 + 9001, 5, metadata={"bytes": "4096", "ptr": str(0x7f0000000000)})]
    return events


def test_what_is_written_is_read(ts, tmp_path):
    events = events_of_all_kinds(ts)
    writer = ts.SBTWriter(tmp_path / "a.sbt")
    assert writer.is_open() and writer.write_metadata(ts.TraceMetadata("app", "app -n 2", T0, T0 + 10000, "host", 4242))
    assert writer.write_events(reversed(events[1:])) and writer.write_event(events[0]) and writer.event_count() == len(events)
    assert not (tmp_path / "a.sbt").exists()
    assert writer.finalize() and not writer.finalize() and not writer.write_events(events) and not writer.is_open()
    found = Reader((tmp_path / "a.sbt").read_bytes())
    assert found.metadata == ["app", "app -n 2", T0, T0 + 10000, "host", 4242]
    assert [(v["type"], v["time"], v["duration"], v["correlation"]) for v in found.events] == [
        (e.type, e.timestamp, e.duration, e.correlation_id) for e in events]
    last = found.events[-2]
    assert last["kernel"] == [1, 2, 3, 4, 5, 6, 1024, 16] and last["thread"] == 4243 and [f[1] for f in last["frames"]] == ["launch", "main"]
    assert found.events[-1]["memory"] == [0, 0x7f0000000000, 4096]
    reader = ts.SBTReader(tmp_path / "a.sbt")
    assert reader.is_open() and reader.is_valid() and reader.event_count() == len(events)
    events[-2].name = "saxpy<\ufffd>"
    assert reader.read_all() == events and reader.read_events(2, 3) == events[2:5] and reader.read_events(20) == events[20:]
    assert reader.read_metadata() == (True, ts.TraceMetadata("app", "app -n 2", T0, T0 + 10000, "host", 4242))


def test_files_that_are_not_whole(ts, package, tmp_path):
    s = Sbt().event(KERNEL, "k", 0, 10, correlation=1, thread=3, frames=[(1, "f", "f.c", 2)]).event(MARK, "m", 5).event(99, "new", 7)
    whole = bytes(s)
    path = tmp_path / "cut.sbt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        if length < 72:
            with pytest.raises(package.FormatError, match="cut off|no SBT file"):
                ts.SBTReader(path)
        else:
            events = ts.SBTReader(path).read_all()
            assert [event.timestamp for event in events] == [s.base, s.base + 5, s.base + 7][:len(events)]
    path.write_bytes(s.unfinished())
    reader = ts.SBTReader(path)
    assert not reader.is_valid() and "never completed: 3 events recovered, names are lost" in reader.broken and reader.read_all()[2].name == ""
    path.write_bytes(whole)
    assert [event.type for event in ts.SBTReader(path).read_all()] == [ts.EventType.KernelLaunch, ts.EventType.Marker, ts.EventType.Custom]
    for wrong, error in ((tmp_path / "none.sbt", package.FileError), (__file__, package.FormatError)):
        with pytest.raises(error):
            ts.SBTReader(wrong)
    with pytest.raises(package.FileError):
        ts.SBTWriter(tmp_path / "none" / "a.sbt").finalize()


@pytest.mark.parametrize("wrong", [{"timestamp": "soon"}, {"type": None}, {"type": 256}, {"stream_id": -1}, {"metadata": {"gridDimX": "-5"}}, {"call_stack": ["f"] * 3000}])
def test_values_that_do_not_fit(ts, tmp_path, wrong):
    """An exception, or a file that has less; never one that is wrong."""
    event = ts.TraceEvent(ts.EventType.Marker, "m", 5)
    vars(event).update(wrong)
    writer = ts.SBTWriter(tmp_path / "a.sbt")
    try:
        writer.write_event(event)
        writer.finalize()
    except (TypeError, ValueError, OverflowError):  # also UsageError
        assert not (tmp_path / "a.sbt").exists()
    else:
        assert len(Reader((tmp_path / "a.sbt").read_bytes()).events) == 1


def test_a_capture_as_a_file(ts, package, path, tmp_path):
    """TraceSmith's page: events of a capture, written, and read again."""
    events = ts.events_of(package.open(path), ts.ProfilerConfig(capture_alloc=True, capture_callstacks=True))
    writer = ts.SBTWriter(tmp_path / "trace.sbt")
    writer.write_events(events)
    assert writer.finalize()
    back = ts.SBTReader(tmp_path / "trace.sbt").read_all()
    kept = [(e.type, e.name, e.timestamp, e.duration, e.device_id, e.stream_id, e.correlation_id, e.thread_id, e.call_stack) for e in back]
    assert kept == [(e.type, e.name, e.timestamp, e.duration, e.device_id, e.stream_id, e.correlation_id, e.thread_id, e.call_stack) for e in events]
    kernels = [e.metadata for e in back if e.type is ts.EventType.KernelLaunch]
    assert [m.get("gridDimX") for m in kernels] == [e.metadata.get("gridDimX") for e in events if e.type is ts.EventType.KernelLaunch]


def test_a_file_is_a_recording_too(package, tmp_path, plain, monkeypatch):
    monkeypatch.setenv("PATH", str(plain), prepend=":")
    (tmp_path / "a.sbt").write_bytes(bytes(Sbt().event(KERNEL, "k", 0, correlation=1).event(COMPLETE, "k", 90, correlation=1).event(DTOH, "c", 99, 5)))
    recording = package.open(tmp_path / "a.sbt")
    assert recording.kernels.to_arrow().to_pylist()[0]["duration_ns"] == 90 and recording.tables["memcpy"] == 1


def test_a_session_is_a_recording(ts, package, tmp_path, plain, monkeypatch):
    monkeypatch.setenv("PATH", str(plain), prepend=":")
    session = ts.TracingSession()
    session.start()
    start = ts.get_current_timestamp()
    sizes = {f"{part}Dim{axis}": "4" for part in ("grid", "block") for axis in "XYZ"}
    for event in (ts.TraceEvent(ts.EventType.KernelLaunch, "gemm", start + 1001, 2003, 1, 7, 5, metadata=sizes),
                  ts.TraceEvent(ts.EventType.MemcpyH2D, "upload", start + 5000, 100, 1, 7, 6, metadata={"bytes": "64"}),
                  ts.TraceEvent(ts.EventType.StreamSync, "wait", start + 6000, 70, 1, 7),
                  ts.TraceEvent(ts.EventType.MemAlloc, "a", start + 6500, metadata={"bytes": "64", "ptr": "4096"}),
                  ts.TraceEvent(ts.EventType.RangeStart, "step", start + 7000, thread_id=12, correlation_id=1),
                  ts.TraceEvent(ts.EventType.RangeEnd, "step", start + 9000, thread_id=12, correlation_id=1),
                  ts.TraceEvent(ts.EventType.Marker, "mark", start + 9500, thread_id=12)):
        session.emit(event)
    session.emit_counter("GPU Memory (MB)", 1024.5)
    session.stop()
    recording = session.recording()
    [kernel] = recording.kernels.to_arrow().to_pylist()
    assert (kernel["name"], kernel["duration_ns"], kernel["device"], kernel["stream"], kernel["grid_y"], kernel["correlation"]) == ("gemm", 2003, 1, 7, 4, 5)
    [copy] = recording.copies.to_arrow().to_pylist()
    assert (copy["kind"], copy["bytes"], copy["start_ns"] - kernel["start_ns"]) == ("HtoD", 64, 3999)
    assert [row["kind"] for row in recording.synchronizations.to_arrow().to_pylist()] == ["stream"]
    assert [(row["operation"], row["bytes"], row["address"]) for row in recording.allocations.to_arrow().to_pylist()] == [("allocation", 64, 4096)]
    assert [(row["kind"], row["message"], row["thread"]) for row in recording.nvtx.to_arrow().to_pylist()] == [
        ("push", "step", 12), ("pop", None, 12), ("mark", "mark", 12)]
    [counter] = recording.counters.to_arrow().to_pylist()
    assert counter["counter"] == "GPU Memory (MB)"
    assert kernel["start_ns"] + recording.unix_offset_ns > T0 and "gemm" in str(recording.report())
    for name in "own.perfetto-trace", "own.sbt", "own.pitot.parquet":
        assert session.export_to_file(tmp_path / name) and (tmp_path / name).exists()
    assert [event.name for event in ts.SBTReader(tmp_path / "own.sbt").read_all()][0] == "gemm"
    session.export_to_file(tmp_path / "own.json")
    assert json.loads((tmp_path / "own.json").read_text())["traceEvents"]


def test_calls_of_xray(ts, tmp_path, plain, monkeypatch):
    monkeypatch.setenv("PATH", str(plain), prepend=":")
    records = [struct.pack("<HBBiQII8x", 0, 0, kind, 1, T0 + at, 7, 42) for kind, at in ((0, 0), (1, 50))]
    (tmp_path / "xray-log.app.x").write_bytes(struct.pack("<HHIQQQ", 3, 0, 3, 10**9, 0, 0) + b"".join(records))
    events = ts.XRayImporter().import_file(tmp_path / "xray-log.app.x")
    assert [(e.type.name, e.name, e.thread_id) for e in events] == [("RangeStart", "function 1", 7), ("RangeEnd", "", 7)]
    assert events[1].timestamp - events[0].timestamp == 50 and ts.XRayImporter.is_available()
