"""pitot info and pitot schema."""
import json
import shutil
import struct

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def varied(make_recording, tmp_path_factory):
    path = tmp_path_factory.mktemp("info") / "varied.pitot"
    return make_recording(path, "varied")


def without_sizes(info):
    """Bytes depend on the compressor's version."""
    info = json.loads(json.dumps(info))
    info.pop("bytes"), info.pop("recording")
    for table in info["tables"].values():
        table.pop("bytes")
    return info


def test_golden(pitot, varied):
    info = pitot("info", varied, "--json", json_output=True)
    check_golden("info-varied.json", json.dumps(without_sizes(info), indent=2) + "\n")
    assert info["bytes"] == sum(file.stat().st_size for file in varied.iterdir())


@pytest.mark.parametrize("mode", ["all", "only", "inside"])
def test_sampled_processes_are_listed_once(pitot, make_recording, tmp_path, mode):
    """A sampler outside writes sessions of its own about processes."""
    path = make_recording(tmp_path / "cpu.pitot", f"cpu_{mode}")
    info = pitot("info", path, "--json", json_output=True)
    processes = {process["pid"]: process for process in info["processes"]}
    assert len(processes) == len(info["processes"])
    assert sum(process["segments"] for process in processes.values()) == info["segments"]
    for pid, process in processes.items():
        assert process["recorded"] == (pid == 100 and mode != "only")
        assert len(process["samplers"]) == (mode != "inside")
        assert process["segments"] == process["recorded"] + len(process["samplers"])
        for sampler in process["samplers"]:
            assert process["start_ns"] <= sampler["start_ns"] <= sampler["end_ns"] <= process["end_ns"]
            assert sampler["closed"] and sampler["segments"] == 1
    text = pitot("info", path).stdout
    for section in ("processes", "clocks"):
        lines = text.split(f"\n{section}\n")[1].split("\n\n")[0].splitlines()[1:] if f"\n{section}\n" in text else []
        pids = [line.split()[0] for line in lines]
        assert len(pids) == len(set(pids))
    assert text.count("train.py") >= 1


def test_text_and_json_agree(pitot, varied):
    text = pitot("info", varied).stdout
    info = pitot("info", varied, "--json", json_output=True)
    for name, table in info["tables"].items():
        assert any(line.split()[:2] == [name, f"{table['rows']:,}"] for line in text.splitlines()), name
    for process in info["processes"]:
        assert process["command"] in text
    for section in ("processes", "devices", "tables", "clocks", "loss"):
        assert f"\n{section}\n" in text
    assert "ring_full" in text


def test_loss_is_named_or_denied(pitot, make_recording, varied, tmp_path):
    """Which of the two it is follows from the rows."""
    whole = make_recording(tmp_path / "whole.pitot", kernels=60)
    for path, lost in (varied, True), (whole, False):
        assert bool(pitot("info", path, "--json", json_output=True)["loss"]) == lost
        assert ("\nloss\n  nothing lost\n" in pitot("info", path).stdout) == (not lost)


@pytest.mark.parametrize("place", [
    "magic", "version", "reserved", "padding's head", "padding", "block's head", "block", "index's head", "index",
    "trailer's offset", "trailer's reserved", "trailer's magic"])
def test_verify(pitot, varied, tmp_path, place):
    """One flipped bit anywhere is found, told under loss, and all that can be read is read."""
    assert pitot("info", varied, "--verify", "--json", json_output=True)["damaged_blocks"] == 0
    copy = tmp_path / "damaged.pitot"
    shutil.copytree(varied, copy)
    file = min(copy.glob("*.pit"))
    data = bytearray(file.read_bytes())
    index, = struct.unpack_from("<Q", data, len(data) - 24)
    data[{"magic": 3, "version": 9, "reserved": 50, "padding's head": 70, "padding": 300, "block's head": 1136 + 30,
          "block": 1136 + 48 + 2, "index's head": index + 20, "index": index + 48 + 11, "trailer's offset": -23,
          "trailer's reserved": -15, "trailer's magic": -1}[place]] ^= 0x10
    file.write_bytes(data)
    result = pitot("info", copy, "--verify", status=1)
    assert "is damaged in 1 place: unreadable parts are left out; copy it again" in result.stderr
    assert "damaged_file" in result.stdout and "nothing lost" not in result.stdout
    assert pitot("info", copy, "--verify", "--json", json_output=True, status=1)["damaged_blocks"] == 1


def test_verify_a_file_that_was_cut(pitot, varied, tmp_path):
    """What is there is intact, but not all is there: by how much, where the last block's header is."""
    copy = tmp_path / "cut.pitot"
    shutil.copytree(varied, copy)
    file = min(copy.glob("*.pit"))
    data = file.read_bytes()
    index, = struct.unpack_from("<Q", data, len(data) - 24)
    for cut, says, missing in ((len(data) - index, "without an end, after complete blocks", 0),
                               (24 + 5, f"without an end, in a block: {len(data) - index - 29} bytes there, 5 missing", 5),
                               (len(data) - index - 1, "without an end, in a block: 1 byte there\n", 0)):
        file.write_bytes(data[:len(data) - cut])
        shown = pitot("info", copy, "--verify").stdout
        assert f"cut        1 segment {says}" in shown and "checksums  all right in what is there" in shown
        assert pitot("info", copy, "--json", json_output=True)["missing_bytes"] == missing
        assert (", cut 5 bytes before the end of a block" in shown) == (missing == 5)


def test_nothing_is_left_of_a_cut_recording(pitot, varied, tmp_path):
    """Then nothing is known of the command, least of all that it did not use CUDA."""
    copy = tmp_path / "cut.pitot"
    shutil.copytree(varied, copy)
    for file in copy.glob("*.pit"):
        file.write_bytes(file.read_bytes()[:100])
    assert "the recording is damaged or cut, and what can be read of it has none" in pitot("report", copy).stdout
    for file in copy.glob("*.pit"):
        file.write_bytes(b"")
    assert pitot("report", copy, status=1).stderr.endswith("not a segment of a recording; copy it again, or record again\n")


def test_wrong_operands(pitot, varied):
    assert "unexpected argument 'another'" in pitot("info", varied, "another", status=2).stderr


def test_schema_lists_every_table(pitot, varied):
    tables = pitot("schema", "--json", json_output=True)["tables"]
    text = pitot("schema").stdout
    for table in tables:
        assert f"\n{table['name']} " in text
        page = pitot("schema", table["name"]).stdout
        for column in table["columns"]:
            assert f"\n{column['name']} " in page and column["meaning"] in page
    rows = pitot("info", varied, "--json", json_output=True)["tables"]
    assert set(rows) <= {table["name"] for table in tables}


def test_schema_of_one_table(pitot):
    kernel, = pitot("schema", "kernel", "--json", json_output=True)["tables"]
    start, config = kernel["columns"][0], kernel["columns"][2]
    assert (start["name"], start["type"], start["unit"], start["may_be_missing"]) == ("start_ns", "time", "ns", True)
    assert config["refers_to"] == "kernel_config" and kernel["columns"][1]["base"] == "start_ns" and "base" not in start
    assert not kernel["repeated"] and pitot("schema", "stream", "--json", json_output=True)["tables"][0]["repeated"]
    assert "did you mean 'kernel'" in pitot("schema", "kernle", status=2).stderr
