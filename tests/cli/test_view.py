"""pitot view: rows as tables and as JSON, conditions, columns, limits."""
import json
import re

import pytest

from golden import check_golden


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("view")
    make_recording(folder / "varied.pitot", "varied")
    make_recording(folder / "train.pitot", kernels=3000)
    return folder


@pytest.fixture
def rows(pitot, folder):
    """Rows of a table as dictionaries."""
    def read(recording, table, *options):
        text = pitot("view", f"{recording}.pitot", table, "--json", *options, cwd=folder).stdout
        return [json.loads(line) for line in text.splitlines()]
    return read


@pytest.mark.parametrize("table", ["kernel", "memcpy", "api_call", "nvtx", "synchronization", "process", "counter_sample"])
def test_golden(pitot, folder, table):
    check_golden(f"view-{table}.txt", pitot("view", "varied.pitot", table, cwd=folder).stdout)


def test_golden_json(pitot, folder):
    check_golden("view-kernel.json", pitot("view", "varied.pitot", "kernel", "--json", cwd=folder).stdout)


def test_table_and_recording_in_either_order(pitot, folder):
    assert pitot("view", "kernel", "varied.pitot", cwd=folder).stdout == pitot("view", "varied.pitot", "kernel", cwd=folder).stdout


def test_several_tables(pitot, folder, rows):
    """In the order in which they are asked for, each as if it were alone, wherever the recording is named."""
    tables = ["memset", "kernel", "memcpy"]
    for words in (["varied.pitot", *tables], ["memset", "varied.pitot", "kernel", "memcpy"], [*tables, "varied.pitot"]):
        read = [json.loads(line) for line in pitot("view", *words, "--json", cwd=folder).stdout.splitlines()]
        assert read == [{"table": table, **row} for table in tables for row in rows("varied", table)]
    result = pitot("view", "varied.pitot", *tables, "-n", "1", cwd=folder)
    alone = [pitot("view", "varied.pitot", table, "-n", "1", cwd=folder) for table in tables]
    assert result.stdout == "\n".join(f"{table}\n{said.stdout}" for table, said in zip(tables, alone))
    assert all(re.search(rf" more rows? of {table}: ", result.stderr) for table in ("kernel", "memcpy")), result.stderr
    assert pitot("view", "varied.pitot", *tables, "-w", "duration>=20us", "--since", "0", "--json", cwd=folder).stdout.count("\n") == sum(
        len(rows("varied", table, "-w", "duration>=20us")) for table in tables)


def test_a_word_that_is_no_table(pitot, folder, make_recording, tmp_path):
    """Is the recording; so is a table's name, when there is a recording of that name and no other one is named."""
    assert "cannot open recording 'nothing'" in pitot("view", "kernel", "nothing", cwd=folder, status=1).stderr
    for words in (["varied.pitot", "kernel", "memst"], ["kernel", "memst"], ["memst", "kernel"]):
        assert "unknown recording or table 'memst', did you mean 'memset'?" in pitot("view", *words, cwd=folder, status=2).stderr
    result = pitot("view", "varied.pitot", "kernel", "memset", "-c", "grid_x", cwd=folder, status=2)
    assert "table memset has no column 'grid_x'" in result.stderr and not result.stdout
    make_recording(tmp_path / "kernel", "varied")
    assert pitot("view", "kernel", "memset").stdout == pitot("view", "varied.pitot", "memset", cwd=folder).stdout
    assert pitot("view", "kernel").stdout == pitot("view", "varied.pitot", cwd=folder).stdout
    assert pitot("view", "kernel", folder / "varied.pitot", "memset").stdout == pitot("view", folder / "varied.pitot", "kernel", "memset").stdout


def test_a_folder_with_the_name_of_a_table(pitot, make_recording, tmp_path):
    """Sources of kernels are often in a folder kernel, which is no recording."""
    make_recording(tmp_path / "varied.pitot", "varied")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "memset").write_text("")
    for words in (["kernel"], ["kernel", "memcpy"], ["memset"]):
        assert pitot("view", *words).stdout == pitot("view", "varied.pitot", *words).stdout


def test_two_recordings(pitot, folder):
    for words in (["varied.pitot", "train.pitot"], ["kernel", "varied.pitot", "train.pitot"]):
        assert "'varied.pitot' and 'train.pitot' are two recordings: name one" in pitot("view", *words, cwd=folder, status=2).stderr


def test_tables_are_listed(pitot, folder):
    tables = pitot("view", "varied.pitot", "--json", cwd=folder, json_output=True)["tables"]
    text = pitot("view", "varied.pitot", cwd=folder).stdout
    for name, count in tables.items():
        assert any(line.startswith(f"{name} ") for line in text.splitlines()) == (count > 0)


def test_every_table_can_be_viewed(pitot, folder, rows):
    tables = pitot("view", "varied.pitot", "--json", cwd=folder, json_output=True)["tables"]
    for name, count in tables.items():
        assert len(rows("varied", name)) == count
        pitot("view", "varied.pitot", name, cwd=folder)


def test_rows_are_ordered_by_time(rows):
    starts = [row["start_ns"] for row in rows("train", "kernel")]
    assert starts == sorted(starts)


def test_limit(pitot, folder, rows):
    result = pitot("view", "train.pitot", "kernel", cwd=folder)
    assert len(result.stdout.splitlines()) == 51 and "2,950 more rows" in result.stderr
    result = pitot("view", "train.pitot", "kernel", "--limit", "7", cwd=folder)
    assert len(result.stdout.splitlines()) == 8
    assert len(pitot("view", "train.pitot", "kernel", "--limit", "0", cwd=folder).stdout.splitlines()) == 3001
    assert len(rows("train", "kernel")) == 3000
    assert len(rows("train", "kernel", "-n", "12")) == 12


@pytest.mark.parametrize("condition, holds", [
    ("stream=7", lambda row: row["stream"] == 7),
    ("stream!=8", lambda row: row["stream"] != 8),
    ("duration>10us", lambda row: row["duration"] > 10000),
    ("duration<=1.6us", lambda row: row["duration"] <= 1600),
    ("start>=12ms", lambda row: row["start_ns"] >= 12000000),
    ("start_ns<12ms", lambda row: row["start_ns"] < 12000000),
    ("name=*gemm*", lambda row: "gemm" in row["config"]),
    ("config=gemm", lambda row: "gemm" in row["config"]),
    ("config.name!=gemm", lambda row: "gemm" not in row["config"]),
    ("graph=-", lambda row: row["graph"] is None),
    ("channel_type=compute", lambda row: row["channel_type"] == "compute"),
    ("correlation<0x100", lambda row: row["correlation"] < 256),
])
def test_conditions(rows, condition, holds):
    everything = rows("train", "kernel", "-c", "start_ns,duration,config.name,stream,graph,channel_type,correlation")
    for row in everything:
        row["config"] = row["config.name"]
    chosen = rows("train", "kernel", "--where", condition,
                  "-c", "start_ns,duration,config.name,stream,graph,channel_type,correlation")
    expected = [row for row in everything if holds(row)]
    assert [row["start_ns"] for row in chosen] == [row["start_ns"] for row in expected]
    assert "gemm" in condition or expected


def test_conditions_are_joined(rows):
    chosen = rows("train", "kernel", "-w", "duration>5us", "-w", "duration<6us", "--since", "2ms", "--until", "9ms")
    assert chosen
    assert all(5000 < row["duration_ns"] < 6000 and 2000000 <= row["start_ns"] < 9000000 for row in chosen)


def test_negative_values(rows):
    assert [row["result"] for row in rows("varied", "api_call", "-w", "result<0")] == [-2]
    assert [row["value"] for row in rows("varied", "counter_sample", "-w", "value=-5")] == [-5]


def test_sizes_and_enums(rows):
    assert [row["kind"] for row in rows("varied", "memcpy", "-w", "bytes>=1M")] == ["HtoD"]
    assert [row["kind"] for row in rows("varied", "memcpy", "-w", "kind=PtoP")] == ["PtoP"]


def test_chosen_columns(rows):
    row = rows("varied", "kernel", "--columns", "start,duration,name,config.grid_x,pid", "-n", "1")[0]
    assert list(row) == ["start", "duration", "name", "config.grid_x", "pid"]
    assert row["name"] == "_Z5saxpyifPfS_" and row["config.grid_x"] == 128


def test_hostile_names_reach_no_terminal(pitot, folder):
    for table in ("kernel", "kernel_config", "string"):
        for options in ([], ["--full-names"]):
            result = pitot("view", "varied.pitot", table, *options, cwd=folder, text=False)
            assert not any(byte < 32 and byte != 10 or byte == 127 for byte in result.stdout)
            assert max(map(len, result.stdout.decode().splitlines())) < 2000


def test_newest_recording_and_table_alone(pitot, folder, tmp_path):
    copy = tmp_path / "only.pitot"
    copy.mkdir()
    for file in (folder / "varied.pitot").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    result = pitot("view", "memset")
    assert "only.pitot" in result.stderr
    assert result.stdout == pitot("view", copy, "memset").stdout


@pytest.mark.parametrize("arguments, words", [
    (["kernel", "-w", "stream"], "no condition"),
    (["kernel", "-w", "=7"], "no condition"),
    (["kernel", "-w", "strem=7"], "did you mean 'stream'"),
    (["kernel", "-w", "stream=seven"], "seven"),
    (["kernel", "-w", "start=soon"], "1.5s"),
    (["kernel", "-w", "name>a"], "="),
    (["kernel", "-c", "start,,name"], "no column ''"),
    (["kernel", "-c", "config.nothing"], "config.nothing"),
    (["memcpy", "-w", "kind=HtoX"], "HtoD"),
    (["device", "--since", "1s"], "no times"),
    (["kernels"], "did you mean 'kernel'"),
    (["kernel", "more"], "more"),
])
def test_wrong_usage(pitot, folder, arguments, words):
    result = pitot("view", "varied.pitot", *arguments, cwd=folder, status=None)
    assert result.returncode in (1, 2) and words in result.stderr and not result.stdout


def test_times_in_conditions_have_units(pitot, folder, rows):
    whole = rows("train", "kernel")
    middle = sorted(row["duration_ns"] for row in whole)[len(whole) // 2]
    wanted = [row for row in whole if row["duration_ns"] > middle]
    assert rows("train", "kernel", "-w", f"duration_ns>{middle}") == rows("train", "kernel", "-w", f"duration>{middle}ns") == wanted
    start = whole[7]["start_ns"]
    assert rows("train", "kernel", "-w", f"start_ns<={start}")[-1]["start_ns"] == start
    assert rows("train", "kernel", "-w", "duration>=0") == whole
    result = pitot("view", "train.pitot", "kernel", "-w", "duration>10", cwd=folder, status=2)
    assert "'10' has no unit: write 10s, 10ms, 10us or 10ns" in result.stderr


def test_conditions_as_people_write_them(pitot, folder, rows):
    plain = rows("train", "kernel", "-w", "stream=7")
    assert plain and rows("train", "kernel", "-w", "stream == 7") == rows("train", "kernel", "-w", "stream==7") == plain
    result = pitot("view", "train.pitot", "kernel", "-w", "channel_type=fast", cwd=folder, status=2)
    assert "choose from invalid, compute, async_memcpy, decompression" in result.stderr


def test_moments_are_seconds_for_people(pitot, folder):
    heads, first = pitot("view", "train.pitot", "kernel", "-n", "1", "-q", cwd=folder).stdout.splitlines()
    assert heads.split()[:3] == ["start_s", "end_s", "duration_ns"]
    assert "." in first.split()[0] and "." not in first.split()[2]


@pytest.mark.parametrize("recording, table, column", [
    ("train", "kernel", "duration"), ("varied", "kernel", "end"), ("varied", "memcpy", "bytes"), ("varied", "counter_sample", "value"),
    ("varied", "nvtx", "message"), ("varied", "process", "exit_status"), ("train", "kernel", "pid")])
def test_sorted_rows(rows, recording, table, column):
    """The same rows, ordered by the column; those without a value last, however it is sorted; equal ones as before."""
    options = ("-c", f"{column},pid")
    plain = rows(recording, table, *options)
    key = next(iter(plain[0]))
    for direction in "asc", "desc":
        found = rows(recording, table, *options, "--sort", f"{column}:{direction}")
        values = [row[key] for row in found]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=direction == "desc") and values == known + [None] * (len(values) - len(known))
        assert sorted(map(repr, found)) == sorted(map(repr, plain))


def test_sort_and_limit(pitot, folder, rows):
    longest = rows("train", "kernel", "-c", "duration", "--sort", "duration:desc", "-n", "10")
    assert [row["duration"] for row in longest] == sorted((row["duration"] for row in rows("train", "kernel")), reverse=True)[:10] \
        if "duration" in rows("train", "kernel", "-n", "1")[0] else len(longest) == 10
    windowed = rows("train", "kernel", "--sort", "start:desc", "-w", "stream=7")
    assert windowed and all(row["stream"] == 7 for row in windowed)
    for wrong, said in (("durtion", "did you mean 'duration'?"), ("duration:up", "COLUMN:desc"), ("gridx", "did you mean 'grid_x'?")):
        assert said in pitot("view", "train.pitot", "kernel", "--sort", wrong, cwd=folder, status=2).stderr


def test_recordings_keep_their_meaning_when_names_change(pitot, source):
    """A recording of when the schema named losses and a clock after CUPTI: numbers are in the file, names are not."""
    recording = source / "tests/data/recordings/cupti-names"

    def column(table, name):
        text = pitot("view", recording, table, "--json", "--quiet").stdout
        return [json.loads(line)[name] for line in text.splitlines()]

    assert column("loss", "reason") == ["gpu_records_dropped", "gpu_runtime_failed"]
    assert 1795194322497465084 in column("clock", "gpu_ns")
