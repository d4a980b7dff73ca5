"""Scopes and stacks as columns, and recordings that grow."""
import gzip
import json
import os
import shutil
import threading
from pathlib import Path

import pytest

pyarrow = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("error")


def rows_of(table):
    arrow = pyarrow.table(table)
    arrow.validate(full=True)
    return arrow.to_pylist()


@pytest.fixture(scope="session")
def scoped(package, shared_folder, make_recording):
    return package.open(shared_folder("python-scopes", lambda f: make_recording(f / "s.pitot", "scopes")) / "s.pitot")


@pytest.mark.parametrize("table, least", [("kernel", 10), ("api_call", 10), ("cpu_sample", 3)])
def test_scopes_are_those_of_view(scoped, rows, pitot, table, least):
    said = pitot("view", scoped.path, table, "--columns", "scope", "--json").stdout.splitlines()
    expected = [json.loads(line) for line in said]
    assert rows_of(scoped.table(table).select("scope")) == expected
    inner = [row for row in expected if "/" in (row["scope"] or "")]
    assert len(inner) >= least
    chosen = rows_of(scoped.table(table).select("scope", "pid").where(f"scope={inner[-1]['scope']}"))
    assert 0 < len(chosen) < len(expected) and all(row["scope"].startswith(inner[-1]["scope"]) for row in chosen)


def test_scopes_agree_with_the_report(scoped):
    kernels = rows_of(scoped.kernels.select("scope", "duration_ns").where("scope=epoch*"))
    item = next(item for item in scoped.report(scopes=True)["scopes"]["items"] if item["path"] == "epoch")
    assert item["kernels"] == len(kernels)
    assert scoped.report()["scopes"]["gpu_ns"] is None


def lines_of(folder, channel):
    for file in sorted(folder.glob(f"*/{channel}.*.log.gz")):
        yield from map(json.loads, gzip.open(file, "rt", errors="replace"))


def test_stacks_of_kernels_are_those_of_the_logs(package, train, tmp_path):
    """gpufl's logs have them as one text, and kernels in the order of their times."""
    recording = package.open(train)
    recording.export(tmp_path / "logs", format="gpufl")
    expected = {}
    for line in lines_of(tmp_path / "logs", "device"):
        if line["type"] == "kernel_detail":
            expected.setdefault(line["pid"], []).append(line["stack_trace"])
    rows = rows_of(recording.kernels.select("pid", "stack.frames"))
    assert {pid: len(texts) for pid, texts in expected.items()} == {1000: 10000, 1100: 10000}
    for pid, texts in expected.items():
        assert ["|".join(row["stack.frames"]) for row in rows if row["pid"] == pid] == texts
    assert len({tuple(row["stack.frames"]) for row in rows}) > 40


def test_stacks_of_calls_and_samples(package, train, make_recording, tmp_path):
    recording = package.open(train)
    table = recording.launches.select("correlation", "stack.frames", "stack", "stack.frames").where("duration>2us")
    rows = rows_of(table)
    assert 0 < len(rows) < recording.tables["api_call"]
    by_launch = {row["stack"]: row["stack.frames"] for row in rows}
    assert all(by_launch[row["stack"]] == row["stack.frames"] for row in rows) and len(by_launch) > 40
    assert table.columns["stack.frames"]["meaning"].startswith("names of the call stack's frames")
    sampled = package.open(make_recording(tmp_path / "cpu.pitot", "cpu_all"))
    rows = rows_of(sampled.cpu_samples.select("stack", "stack.frames", "weight_ns"))
    assert [row["stack.frames"] is None for row in rows] == [not row["stack"] for row in rows]
    frames = [row["stack.frames"] for row in rows if row["stack.frames"]]
    assert any(row["stack.frames"] is None for row in rows) and len(frames) > 2
    with pytest.raises(package.UsageError, match="has no column 'stack.frames'"):
        recording.devices.select("stack.frames").columns


def test_a_configuration_has_its_row_and_limits(package, path):
    recording = package.open(path)
    configs = rows_of(recording.table("kernel_config").select("full_name", "registers", "grid_x"))
    items = recording.hotspots(by="config")
    assert len(items) > 5
    for item in items:
        row = configs[item["config"]["row"]]
        config = item["config"]
        assert (row["full_name"], row["registers"], row["grid_x"]) == (item["name"], config["registers"], config["grid"][0])
        occupancy = config["occupancy"]
        if occupancy["blocks"]:
            assert min(occupancy["limits"]) == occupancy["blocks"]


def test_stalls_only_on_request(package, make_recording, tmp_path, pitot):
    recording = package.open(make_recording(tmp_path / "stalls.pitot", "stalls"))
    expected = pitot("report", recording.path, "--stalls", "--scopes", "--json", json_output=True)
    assert recording.report(stalls=True, scopes=True) == expected
    assert expected["stalls"]["lines"] and not recording.report()["stalls"]["lines"]


@pytest.fixture(scope="session")
def large(shared_folder, make_recording):
    """Several blocks of each table of events."""
    return shared_folder("python-large", lambda f: make_recording(f / "l.pitot", kernels=120000, processes=2)) / "l.pitot"


def grow(whole, copy, part):
    """The first part of each segment, as on the disk while it was written."""
    copy.mkdir(exist_ok=True)
    for segment in whole.glob("*.pit"):
        content = segment.read_bytes()
        (copy / segment.name).write_bytes(content[:int(len(content) * part)])


def say_state(folder, state):
    (folder / "recording.json").write_text(json.dumps({"state": state}))


@pytest.mark.parametrize("table, least", [("kernel", 3), ("api_call", 3), ("nvtx", 1)])
def test_each_row_is_followed_once(package, large, tmp_path, monkeypatch, table, least):
    """It grows whenever the reader waits, also by nothing and by part of a block."""
    copy, parts = tmp_path / "growing.pitot", iter([0.3, 0.3, 0.55, 0.9, 0.97, 1])

    def wait(_):
        part = next(parts, None)
        grow(large, copy, part or 1)
        if part is None:
            say_state(copy, "ended")

    monkeypatch.setattr("time.sleep", wait)
    grow(large, copy, 0.1)
    say_state(copy, "recording")
    recording, got, batches, scopes = package.open(copy), [], 0, []
    assert recording.is_growing
    for batch in recording.follow(table):
        rows = rows_of(batch)
        assert rows
        batches += 1
        got += rows
        scopes += [] if table == "nvtx" else [row["scope"] for row in rows_of(batch.select("scope"))]
    whole = package.open(large).table(table)
    expected, time = rows_of(whole), "time_ns" if table == "nvtx" else "start_ns"
    assert len(got) == len(expected) and batches >= least
    assert sorted(row[time] for row in got) == sorted(row[time] for row in expected)
    if table == "nvtx":  # ranges that began before are not in the batch
        with pytest.raises(package.UsageError, match="no column 'scope'"):
            batch.select("scope").columns
    else:  # this recording has its ranges at its end
        assert set(scopes) <= {None, *(row["scope"] for row in rows_of(whole.select("scope")))}
    assert not recording.is_growing


@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir, lambda path: path.write_text("[]")],
                         ids=["fifo", "zero", "folder", "list"])
def test_no_file_that_says_whether_it_grows(package, path, tmp_path, put):
    copy = tmp_path / "r.pitot"
    shutil.copytree(path, copy)
    (copy / "recording.json").unlink(missing_ok=True)
    put(copy / "recording.json")
    assert not package.open(copy).is_growing


def test_what_cannot_be_followed(package, train, path):
    for wrong, said in [("kernels", "unknown table 'kernels', did you mean 'kernel'"), ("device", "not events"), ("clock", "not events")]:
        with pytest.raises(package.UsageError, match=said):
            next(package.open(path).follow(wrong))
    assert [pyarrow.table(batch).num_rows for batch in package.open(train).follow("kernel")] == [20000]
    assert list(package.open(path).follow("pc_reading")) == []
    assert [pyarrow.table(t).num_rows for t in package.open(next(train.glob("1000.*.pit"))).follow("memset")] == [7]


def test_following_ends_when_nothing_comes(package, train, tmp_path):
    copy = tmp_path / "killed.pitot"
    grow(train, copy, 1)
    say_state(copy, "recording")
    batches = package.open(copy).follow("kernel", interval=0.01, timeout=0.05)
    assert [pyarrow.table(batch).num_rows for batch in batches] == [20000]


def test_the_timeout_counts_from_the_last_rows(package, large, tmp_path, monkeypatch):
    copy, parts, now = tmp_path / "slow.pitot", iter([0.35, 0.35, 0.6, 0.6, 1]), [0.0]

    def wait(_):
        now[0] += 1
        grow(large, copy, next(parts, 1))

    monkeypatch.setattr("time.sleep", wait)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    grow(large, copy, 0.1)
    say_state(copy, "recording")
    batches = package.open(copy).follow("kernel", timeout=3)
    assert sum(pyarrow.table(batch.select("pid")).num_rows for batch in batches) == 120000 and now[0] == 8


def test_a_running_program_is_followed(run):
    """Scopes come while they are made; the last ones when the recording has ended."""
    said = run("""
        import threading
        import pyarrow
        rec = pitot.start("growing.pitot")
        recording, messages, first = rec.open(), [], threading.Event()
        def work():
            for i in range(200):
                with pitot.scope("step %d" % i):
                    if i == 100:
                        rec.flush()
                        first.wait(60)
            rec.stop()
        thread = threading.Thread(target=work)
        thread.start()
        counts = []
        for batch in recording.follow("nvtx", interval=0.01):
            names = pyarrow.table(batch.select("message").where("kind=push"))["message"].to_pylist()
            messages += names
            counts.append(len(names))
            first.set()
        thread.join()
        print(json.dumps([messages, len(counts)]))
        """)
    assert said[0] == [f"step {i}" for i in range(200)] and said[1] >= 2


def test_an_open_recording_stays_that_recording(run, tmp_path):
    """After os.chdir() the same path is another recording; reports, exports and pages are of the one that was opened."""
    found = run("""
    import os
    for folder in "first", "second":
        os.mkdir(folder)
        with pitot.record(folder + "/run.pitot"):
            with pitot.scope(folder):
                pass
    top = os.getcwd()
    os.chdir("first")
    r = pitot.open("run.pitot")
    os.chdir("../second")
    [scope] = r.scopes
    r.export(top + "/o.json")
    rows = [row["message"] for table in r.follow("nvtx") for row in table]
    print(json.dumps([scope["name"], r.report()._repr_html_().count("second"), "first" in open(top + "/o.json").read(), rows, r.path, r.is_growing]))
    """)
    assert found == ["first", 0, True, ["first", None], str(tmp_path / "first/run.pitot"), False]


def test_tables_at_a_glance(package, path):
    """How many rows, the first ones, and what a notebook shows."""
    recording = package.open(path)
    kernels = recording.kernels
    rows = len(list(kernels))
    assert len(kernels) == rows > 5 and len(kernels.where("stream=7")) == sum(row["stream"] == 7 for row in kernels) and bool(kernels.where("stream=12345"))
    page = kernels._repr_html_()
    assert f"kernel: {rows:,} rows" in page and page.count("<tr>") == min(rows, 10) + 1
    assert "kernel</td>" in recording._repr_html_() and "&lt;pitot.Recording" in recording._repr_html_()
    pytest.importorskip("pandas")
    assert len(kernels.head()) == 5 and list(kernels.head(2)["name"]) == [row["name"] for row in kernels][:2]


def test_what_if_is_that_of_the_command(scoped, pitot, package):
    printed = json.loads(pitot("what-if", "--json", scoped.path, "gpu x0.5", "launch -1us").stdout)
    assert scoped.what_if("gpu x0.5", "launch -1us") == printed and printed["transforms"][0]["matched"] > 0
    with pytest.raises(package.Error, match="unknown transform 'gpus x2', did you mean 'gpu'"):
        scoped.what_if("gpus x2")
