"""gpufl's logs, live and by export, against the recording, and as the published reader of that format reads them."""
import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

CHANNELS = "device", "scope", "system", "sass"
READER = Path(__file__).parent / "gpufl_reader.py"


class Session:
    """A session's directory: its lines by channel, its batches' rows as dictionaries with their times."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = {channel: self.read(channel) for channel in CHANNELS}

    def read(self, channel):
        lines = []
        for n in range(1, 1000):
            path = self.folder / f"{channel}.{n}.log.gz"
            if not path.exists():
                break
            self.check_window(channel, n, path.read_bytes())
            lines += gzip.decompress(path.read_bytes()).decode().splitlines()
        return [json.loads(line, parse_constant=pytest.fail) for line in lines]

    def check_window(self, channel, n, payload):
        sidecar = json.loads((self.folder / f".gpufl-window.{channel}.{n}.json").read_text())
        assert (sidecar["payload_bytes"], sidecar["payload_crc32"]) == (len(payload), zlib.crc32(payload))
        assert sidecar["session_id"] == self.folder.name and sidecar["window_sequence"] == n
        assert int.from_bytes(payload[-4:], "little") == len(gzip.decompress(payload))

    def of(self, channel, kind):
        return [line for line in self.lines[channel] if line["type"] == kind]

    def rows(self, channel, kind):
        found = []
        for batch in self.of(channel, kind):
            assert batch["base_time_ns"] % 256 == 0 and batch["rows"] and len(batch["rows"]) <= 2048
            for row in batch["rows"]:
                assert len(row) == len(batch["columns"])
                row = dict(zip(batch["columns"], row))
                found.append({**row, "start_ns": batch["base_time_ns"] + row["dt_ns"]})
        return found

    def names(self, which):
        return {int(key): name for line in self.of("device", "dictionary_update") for key, name in line.get(which, {}).items()}

    def check_frame(self):
        """What holds for every session that has ended in order."""
        for channel, lines in self.lines.items():
            assert [lines[0]["type"], lines[-2]["type"], lines[-1]["type"]] == ["job_start", "capture_capabilities", "shutdown"], channel
            assert all(line["session_id"] == self.folder.name for line in lines)
            assert lines[0]["ts_ns"] <= lines[-1]["ts_ns"]
        assert not (self.folder / ".tmp").exists()
        ids = [row["corr_id"] for row in self.rows("device", "kernel_event_batch")]
        assert len(set(ids)) == len(ids) and sorted(ids) == sorted(line["corr_id"] for line in self.of("device", "kernel_detail"))

    def kernels(self):
        details = {line["corr_id"]: line for line in self.of("device", "kernel_detail")}
        return Counter((row["duration_ns"], row["stream_id"], row["true_corr_id"], details[row["corr_id"]]["grid"],
                        details[row["corr_id"]]["block"], row["device_id"], row["context_id"], row["graph_node_id"])
                       for row in self.rows("device", "kernel_event_batch"))


def only_session(folder):
    [path] = folder.iterdir()
    session = Session(path)
    session.check_frame()
    return session


@pytest.fixture(scope="session")
def reader():
    """reader(folder): totals of the published reader; None where it is not there."""
    package = os.environ.get("PITOT_GPUFL_PACKAGE")
    spec = importlib.util.find_spec("gpufl")
    if not package and spec and spec.origin:
        package = Path(spec.origin).parent.parent
    if not package or not all(importlib.util.find_spec(name) for name in ("pandas", "rich")):
        return None

    def read(folder):
        result = subprocess.run([sys.executable, READER, package, folder], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return read


class Totals:
    """Of `pitot report`."""

    def __init__(self, report):
        copies = [row for row in report["copies"] if not row["set"]]
        self.kernels = sum(gpu["busy"]["kernels"]["count"] for gpu in report["gpus"])
        self.kernel_ns = sum(gpu["busy"]["kernels"]["sum_ns"] for gpu in report["gpus"])
        self.copies, self.copy_bytes = (sum(row[key] for row in copies) for key in ("count", "bytes"))
        self.copy_ns = sum(row["total_ns"] for row in copies)
        self.sets = sum(row["count"] for row in report["copies"] if row["set"])
        self.names = {item["symbol"]: item["name"] for item in report["hotspots"]["items"]}


def check_reader(reader, session, totals):
    got = reader(session.folder)
    assert got["kernels"] == got["ids"] == totals.kernels and got["kernel_ns"] == totals.kernel_ns
    assert (got["copies"], got["copy_bytes"], got["copy_ns"]) == (totals.copies, totals.copy_bytes, totals.copy_ns)
    assert len(got["names"]) == len(totals.names) and got["devices"] and got["capabilities"]
    for words in "Total Kernels", "Compute:", "L2 Cache:":
        assert words in got["report"]


@pytest.mark.parametrize("tape", ["kinds", "graphs-launch"])
def test_live_and_export_have_what_the_recording_has(record, pitot, rows, reader, tmp_path, tape):
    logs = tmp_path / "live.gpufl"
    recording = record(tape, "memory=1;counters_ns=20000000", PITOT_GPUFL=str(logs))
    pitot("export", recording, "-o", tmp_path / "export.gpufl")
    live, export = only_session(logs), only_session(tmp_path / "export.gpufl")
    totals = Totals(pitot("report", recording, "--json", "--top", 100, json_output=True))
    kernels = Counter((row["duration"], row["stream"], row["correlation"])
                      for row in rows(recording, "kernel", "-c", "duration,stream,correlation"))
    assert set(export.names("kernel_dict").values()) == set(totals.names.values())
    assert set(live.names("kernel_dict").values()) in (set(totals.names.values()), set(totals.names))
    assert live.kernels() == export.kernels()
    for session in live, export:
        assert Counter(kernel[:3] for kernel in session.kernels().elements()) == kernels
        copies = session.rows("device", "memcpy_event_batch")
        assert [len(copies), *(sum(row[key] for row in copies) for key in ("bytes", "duration_ns"))] == \
            [totals.copies, totals.copy_bytes, totals.copy_ns]
        assert len(session.of("device", "memset_event")) == totals.sets
        assert len(session.rows("scope", "memory_alloc_event_batch")) == len(rows(recording, "allocation"))
        scopes = {line["user_scope"] for line in session.of("device", "kernel_detail")}
        assert "global" in scopes and scopes <= ({"global", "unknown"} if session is live else {"global"})
        if reader:
            check_reader(reader, session, totals)


@pytest.fixture
def counted(record, pitot, made_tape, tmp_path):
    """counted("options", "log", "type", "key"): the recording of a tape by range-profiler, the exported session, and the records, live and exported."""
    def run(options, log, kind, order):
        recording = record(made_tape, f"engine=range-profiler;{options}", PITOT_GPUFL=str(tmp_path / "live.gpufl"))
        pitot("export", recording, "-o", tmp_path / "export.gpufl")
        sessions = [only_session(tmp_path / f"{name}.gpufl") for name in ("live", "export")]
        return recording, sessions[1], [sorted(({key: line[key] for key in line if key != "session_id"} for line in session.of(log, kind)),
                                               key=lambda line: line[order]) for session in sessions]

    return run


def test_hardware_counters_of_kernels(counted, rows):
    """Of each measured launch those for which the format has a member, live as by export."""
    metric = "dram__bytes_read.sum"
    recording, exported, (live, export) = counted(f"kernel_count=50;metrics=sm__cycles_active.avg,{metric}", "device", "kernel_perf_metric_event", "launch_ordinal")
    values = {row["correlation"]: row["value"] for row in rows(recording, "metric_value") if row["metric"] == metric}
    kernels = {row["true_corr_id"]: exported.names("kernel_dict")[row["kernel_id"]] for row in exported.rows("device", "kernel_event_batch")}
    assert len(values) == 50 and {line["true_corr_id"]: line["dram_read_bytes"] for line in live} == {key: int(value + 0.5) for key, value in values.items()}
    assert [(line["launch_ordinal"], line["range_index"], line["range_name"]) for line in live] == [(i + 1, i, str(i)) for i in range(50)]
    assert live == export
    assert all(line["kernel_name"] == kernels[line["true_corr_id"]] and line["sm_throughput_pct"] == -1 for line in export)


def test_hardware_counters_of_ranges(counted, pitot, rows, tmp_path, reader):
    """A record for each measurement, live as by export."""
    metric = "dram__bytes_read.sum"
    recording, exported, (live, export) = counted(f"measure=range;kernel_count=0;metrics=sm__cycles_active.avg,{metric}", "scope", "perf_metric_event", "start_ns")
    values = [row for row in rows(recording, "range_value") if row["metric"] == metric]
    assert len(values) > 5 and [(line["name"], line["dram_read_bytes"], line["end_ns"] - line["start_ns"], line["scope_depth"]) for line in live] == [
        (row["name"], int(row["value"] + 0.5), row["end_ns"] - row["start_ns"], row["level"]) for row in values]
    assert all(line["sm_throughput_pct"] == -1 and line["user_scope"] == "step" for line in live)
    assert [{**line, "start_ns": 0, "end_ns": 0} for line in live] == [{**line, "start_ns": 0, "end_ns": 0} for line in export]
    pitot("export", recording, "-o", tmp_path / "some.gpufl", "--kernel", "*")
    assert not only_session(tmp_path / "some.gpufl").of("scope", "perf_metric_event"), "it is not known which kernels ran"
    pitot("import", tmp_path / "export.gpufl", "-o", tmp_path / "back.pitot")
    back = rows(tmp_path / "back.pitot", "range_value")
    assert [[row[key] for key in ("name", "kind", "thread", "passes", "value", "device", "level")] for row in back if row["metric"] == metric] == [
        [*(row[key] for key in ("name", "kind", "thread", "passes")), int(row["value"] + 0.5), row["device"], row["level"]] for row in values]
    if reader:
        assert "step" in reader(exported.folder)["said"]


def test_the_reader_is_judged(reader):
    if not reader:
        pytest.skip("no gpufl here to judge by (PITOT_GPUFL_PACKAGE=FOLDER of its unpacked wheel, pandas, rich)")


def test_the_compact_form(record, pitot, reader, rows, tmp_path):
    recording = record("kinds", "")
    pitot("export", recording, "-o", tmp_path / "logs.gpufl", "--compact")
    session = Session(next((tmp_path / "logs.gpufl").iterdir()))
    details = [line["corr_id"] for line in session.of("device", "kernel_detail")]
    kernels = session.rows("device", "kernel_event_batch")
    assert len(set(details)) == len(details) < len(kernels) == len(rows(recording, "kernel"))
    assert {row["corr_id"] for row in kernels} == set(details)
    if reader:
        got = reader(session.folder)
        assert (got["kernels"], got["kernel_ns"]) == (len(kernels), sum(row["duration_ns"] for row in kernels))


@pytest.mark.parametrize("kind, words, is_wanted", [
    ("stalls", [], lambda row: True), ("sass", [], lambda row: True),
    ("stalls", ["--kernel", "*smooth*"], lambda row: "smooth" in row["function"]),
    ("stalls", ["--until", "160ms"], lambda row: (row["pid"], row["reading"]) != (100, 2)),
])
def test_what_engines_measured(make_recording, pitot, reader, rows, tmp_path, kind, words, is_wanted):
    """Samples and what instructions did, of all processes, by name; the filters choose among them."""
    recording = make_recording(tmp_path / "r.pitot", kind)
    pitot("export", recording, "-o", "logs.gpufl", *words)
    sessions = [Session(path) for path in (tmp_path / "logs.gpufl").iterdir()]
    found = Counter()
    for session in sessions:
        functions, metrics = session.names("function_dict"), session.names("metric_dict")
        for row in session.rows("scope", "profile_sample_batch"):
            assert (row["sample_kind"], row["corr_id"], row["stall_reason"] >= 100) == (kind == "sass", 0, kind == "stalls")
            found[session.lines["scope"][0]["pid"], functions[row["function_id"]], row["pc_offset"], metrics[row["metric_id"]],
                  row["device_id"], row["true_corr_id"]] += row["metric_value"]
    if kind == "sass":
        wanted = rows(recording, "sass_value")
    else:
        devices = {(row["pid"], row["id"]): row["device"] for row in rows(recording, "pc_reading")}
        wanted = [{**row, "metric": row["reason"], "value": row["samples"], "correlation": 0, "device": devices[row["pid"], row["reading"]]}
                  for row in rows(recording, "pc_sample")]
    wanted = [row for row in wanted if is_wanted(row)]
    names = sorted({row["function"] for row in wanted})
    names = dict(zip(names, subprocess.run(["c++filt", *names], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
                     .stdout.splitlines()))
    totals = Counter()
    for row in wanted:
        totals[row["pid"], names[row["function"]], row["offset"], row["metric"], row["device"], row["correlation"]] += row["value"]
    assert found == totals and found
    if words:
        return
    pitot("import", "logs.gpufl", "-o", "back.pitot")
    back = Counter()
    for row in rows("back.pitot", "sass_value" if kind == "sass" else "pc_sample"):
        back[row["pid"], row["function"], row["offset"], row.get("metric", row.get("reason")), row.get("correlation", 0)] += \
            row.get("value", row.get("samples"))
    assert back == Counter({(*key[:4], key[5]): value for key, value in totals.items()})
    if reader:
        got = [reader(session.folder) for session in sessions]
        assert sum(said["samples"] for said in got) == (0 if kind == "sass" else sum(totals.values()))
        assert sum(said["sass"] for said in got) == (sum(totals.values()) if kind == "sass" else 0)


def test_what_export_refuses(make_recording, pitot, tmp_path):
    recording = make_recording(tmp_path / "r.pitot", kernels=50, stacks=5)
    pitot("export", recording, "--format", "gpufl")
    session = only_session(tmp_path / "r.gpufl")
    assert any("|" in line["stack_trace"] for line in session.of("device", "kernel_detail"))
    assert "--force" in pitot("export", recording, "-o", "r.gpufl", status=1).stderr
    only_session(tmp_path / "r.gpufl")
    pitot("export", recording, "-o", "r.gpufl", "--force", "--no-stacks")
    session = only_session(tmp_path / "r.gpufl")
    assert not any(line["stack_trace"] for line in session.of("device", "kernel_detail"))
    for words in (["-o", "-", "--format", "gpufl"], ["-o", "x.json", "--compact"]):
        pitot("export", recording, *words, status=2)


def test_record_passes_the_folder_on(pitot, tmp_path):
    shown = pitot("record", "--gpu-only", "--log", "gpufl", "-o", "r.pitot", "--", "sh", "-c", "echo $PITOT_GPUFL").stdout
    assert shown.strip() == str(tmp_path / "r.gpufl")
    shown = pitot("record", "--gpu-only", "--log", "gpufl=logs", "-o", "s.pitot", "--", "sh", "-c", "echo $PITOT_GPUFL").stdout
    assert shown.strip() == str(tmp_path / "logs")
    shown = pitot("record", "--gpu-only", "-o", "t.pitot", "--", "sh", "-c", "echo $PITOT_GPUFL").stdout
    assert shown.strip() == ""
    for words in (["--log", "x"], ["--log", "gpufl="], ["--log", "gpufl", "--cpu-only"]):
        pitot("record", *words, "--", "true", status=2)


def test_logs_without_a_recording(build, source, pitot, record, rows, tmp_path):
    """--no-recording: nothing but the logs is written, and all is in them."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    tape = source / "tests" / "data" / "tapes" / "kinds.tape"
    shown = pitot("record", "--no-recording", "--log", "gpufl=logs", "--", player, tape).stderr
    assert f"no recording was made; gpufl's logs are in {tmp_path}/logs" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    session = only_session(tmp_path / "logs")
    played = Counter(row["correlation"] for row in rows(record("kinds", ""), "kernel"))  # times differ with the clocks of the two runs
    kernels = session.rows("device", "kernel_event_batch")
    assert Counter(row["true_corr_id"] for row in kernels) == played and len(played) > 9
    pitot("import", "logs", "-o", "back.pitot")
    assert Counter((row["duration"], row["correlation"]) for row in rows("back.pitot", "kernel", "-c", "duration,correlation")) == \
        Counter((row["duration_ns"], row["true_corr_id"]) for row in kernels)

    assert pitot("record", "--no-recording", "--log", "gpufl=logs", "--", "sh", "-c", "exit 7", status=7)
    assert pitot("record", "--no-recording", "--log", "gpufl=logs", "-q", "--", "sh", "-c", "echo $PITOT_RECORDING-$PITOT_GPUFL").stdout == \
        f"-{tmp_path}/logs\n"
    assert pitot("record", "--no-recording", "--log", "gpufl=logs", "--", "no-such-command", status=127)
    for words in ([], ["--log", "gpufl"], ["--log", "gpufl=logs", "-o", "x"], ["--log", "gpufl=logs", "--json"], ["--log", "gpufl=logs", "--cpu=9"]):
        pitot("record", "--no-recording", *words, "--", "true", status=2)


def test_a_folder_that_cannot_be_made(build, source, pitot, rows, tmp_path):
    """The recording is there all the same, and its summary says what is missing."""
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    says = "cannot open gpufl:/dev/null/logs: cannot create '/dev/null/logs': Not a directory"
    command = ["record", "--no-cpu", "-o", "r.pitot", "--force", "--", player, "--now", source / "tests/data/tapes/kinds.tape"]
    shown = pitot(*command, env={"PITOT_GPUFL": "/dev/null/logs", "PITOT_LOG": str(tmp_path / "log")}).stderr
    assert rows("r.pitot", "kernel") and f"\n  sinks     {says}\n" in shown
    assert (tmp_path / "log").read_text().count(says) == 1
    assert json.loads(pitot("--json", *command, env={"PITOT_GPUFL": "/dev/null/logs"}).stderr)["sink_not_opened"] == says
    assert json.loads(pitot("--json", *command).stderr)["sink_not_opened"] is None


def test_a_folder_that_cannot_be_written(build, source, pitot, tmp_path):
    """`pitot record` says so before the command runs, or at its end; parents of a folder are created."""
    for folder in "/dev/null/logs", "/proc/logs":
        shown = pitot("record", "--no-cpu", "--log", f"gpufl={folder}", "-o", "r.pitot", "--", "touch", "ran", status=1).stderr
        assert f"cannot create '{folder}' for gpufl's logs: " in shown and not list(tmp_path.iterdir())
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    command = ["record", "--no-cpu", "--log", "gpufl=a/b", "-o", "r.pitot", "--force", "--", player, "--now", source / "tests/data/tapes/kinds.tape"]
    assert "gpufl" not in pitot(*command).stderr and only_session(tmp_path / "a/b").rows("device", "kernel_event_batch")
    shutil.rmtree(tmp_path / "a/b")
    (tmp_path / "a/b").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", tmp_path / "a/b"]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        shown = pitot(*command).stderr
        assert f"no logs for gpufl: less than 512 MiB are free in '{tmp_path}/a/b'" in shown
        [marker] = (tmp_path / "a/b").glob("*/.gpufl-transport-loss.spool.0.json")
        assert f"gpufl's logs are incomplete; '{marker}' says why" in shown and "filesystem_reserve_reached" in marker.read_text()
        assert "incomplete" not in pitot(*command[:6], "--force", "--", "true").stderr, "of another run"
    finally:
        subprocess.run(["umount", tmp_path / "a/b"], check=True)


def test_a_process_that_is_killed(build, source, pitot, tmp_path):
    player = build / "standin" / "tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    tape = source / "tests" / "data" / "tapes" / "kinds.tape"
    begun = " && ".join(f"[ -s logs/*/.tmp/{name}.log ]" for name in ("device", "scope", "system"))
    script = f'"{player}" --repeat 1000 "{tape}" & until {begun}; do sleep 0.02; done; kill -9 $!; wait'
    said = pitot("record", "--gpu-only", "--log", "gpufl=logs", "-o", "r.pitot", "--", "sh", "-c", script).stderr
    assert "gpufl's logs of 1 process that did not end in order" in said
    [folder] = (tmp_path / "logs").iterdir()
    session = Session(folder)
    assert not (folder / ".tmp").exists()
    for lines in session.lines.values():
        assert lines[0]["type"] == "job_start" and lines[-1]["type"] == "shutdown" and lines[-1]["synthetic"]
        assert lines[-1]["pid"] == lines[0]["pid"] and lines[-1]["session_id"] == folder.name
