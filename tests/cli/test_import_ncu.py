"""`pitot import`: what `ncu --csv` prints, by kernel and by metric."""
import json
import random

import pytest

IDS = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"]
KERNELS = [["0", "4242", "app", "node1", 'void k<int>(const char *, "x, y")', "1", "7", "(256, 1, 1)", "(1024, 2, 1)", "0", "9.0"],
           ["1", "4242", "app", "node1", "k2", "1", "13", "(32, 1, 1)", "(10, 1, 1)", "1", "8.6"]]
METRICS = [("dram__bytes_read.sum", "Mbyte", ["1,234.5", "7"]), ("gpu__time_duration.sum", "nsecond", ["5,313", "66,912"]),
           ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", ["12.25", "n/a"]), ("device__attribute_display_name", "", ["NVIDIA H100", "NVIDIA A10"])]
VALUES = {(1, "dram__bytes_read.sum"): 1234.5, (1, "gpu__time_duration.sum"): 5313, (1, "sm__throughput.avg.pct_of_peak_sustained_elapsed"): 12.25,
          (2, "dram__bytes_read.sum"): 7, (2, "gpu__time_duration.sum"): 66912, (2, "sm__throughput.avg.pct_of_peak_sustained_elapsed"): None}


def line(cells):
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


def raw():
    """A line for each kernel, after one of names and one of units."""
    lines = [line(IDS + [m[0] for m in METRICS]), line([""] * len(IDS) + [m[1] for m in METRICS])]
    return "".join(lines + [line(kernel + [m[2][i] for m in METRICS]) for i, kernel in enumerate(KERNELS)])


def details():
    """A line for each metric of a kernel, and lines of rules."""
    rows = [line(IDS + ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description"])]
    for i, kernel in enumerate(KERNELS):
        rows += [line(kernel + ["Speed Of Light", name, unit, values[i], "", "", ""]) for name, unit, values in METRICS]
        rows.append(line(kernel + ["Speed Of Light", "", "", "", "SOLBottleneck", "OPT", "This kernel\nis small."]))
    return "".join(rows)


@pytest.fixture
def bring(pitot, tmp_path):
    def run(content, **options):
        (tmp_path / "a.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        said = pitot("import", "a.csv", "-o", "r.pitot", "--force", "--json", json_output=options.get("status", 0) == 0, **options)

        def rows(table, *columns):
            lines = pitot("view", "r.pitot", table, "--json", "--quiet", *(["-c", ",".join(columns)] if columns else [])).stdout
            return [json.loads(line) for line in lines.splitlines()]

        return said, rows

    return run


@pytest.mark.parametrize("page", [raw, details])
@pytest.mark.parametrize("before", ["", '==PROF== Connected to process 4242\nhello, "world\n\r\n"ID" of what?\n'])
def test_metrics_of_kernels(bring, pitot, page, before):
    said, rows = bring(before + page() + "==PROF== Disconnected\n" * (page is raw and not before))
    assert said["format"] == "ncu" and said["unknown"] == said["damaged"] == 0
    assert [list(row.values()) for row in rows("kernel", "config", "config.grid_y", "config.block_x", "device", "context", "stream", "correlation", "start_ns")] == [
        [KERNELS[0][4], 2, 256, 0, 1, 7, 1, None], ["k2", 1, 32, 1, 1, 13, 2, None]]
    units = {name: unit for name, unit, _ in METRICS}
    found = rows("metric_value", "correlation", "metric", "metric.unit", "value")
    assert {(row["correlation"], row["metric"]): row["value"] for row in found} == VALUES and len(found) == len(VALUES)
    assert all(row["metric.unit"] == units[row["metric"]] for row in found)
    assert [(row["command"], row["host"], row["pid"]) for row in rows("process")] == [("app", "node1", 4242)]
    assert [(row["id"], row["compute_major"], row["compute_minor"]) for row in rows("device")] == [(0, 9, 0), (1, 8, 6)]
    assert any(f"{2 + (page is raw and not before)} names and markers" in note for note in said["notes"])
    assert "2 launches of 2 kernels measured" in pitot("report", "r.pitot").stdout


@pytest.mark.parametrize("text, value", [("1", 1), ("-1.5", -1.5), ("1,234", 1234), ("1,234,567", 1234567), ("1.234.567", 1234567), ("-12.345.678", -12345678),
                                         ("1.234.567,5", 1234567.5), ("12,5", 12.5),
                                         ("0,5", 0.5), ("1'234.5", 1234.5), ("1e-3", 1e-3), ("n/a", None), ("N/A", None)])
def test_numbers_of_locales(bring, text, value):
    _, rows = bring(line(IDS + ["x"]) + line(KERNELS[0] + [text]))
    assert [row["value"] for row in rows("metric_value")] == [value]


def test_two_processes(bring):
    """The recording's is that of the first kernel; ids are those of each process."""
    other = [*KERNELS[0][:1], "77", "other", *KERNELS[0][3:]]
    said, rows = bring(line(IDS + ["x"]) + line(KERNELS[0] + ["1"]) + line(other + ["2"]))
    assert said["rows"]["kernel"] == 2 and [str(row["pid"]) for row in rows("process")] == [KERNELS[0][1]]


@pytest.mark.parametrize("other", ["65,77", "27.595.520", "1.234,5"])
def test_thousands_of_a_locale(bring, other):
    """One point or comma before three digits is what the others are: of this locale, or not."""
    for first, second in (("117.344", 117344), ("1,234", 1.234)):
        _, rows = bring(line(IDS + ["x", "y"]) + line(KERNELS[0] + [first, other]))
        assert rows("metric_value")[0]["value"] == second
        _, rows = bring(line(IDS + ["x", "y"]) + line(KERNELS[0] + [first, "65.77"]))
        assert rows("metric_value")[0]["value"] == {"117.344": 117.344, "1,234": 1234}[first]


@pytest.mark.parametrize("text", ["inf", "nan", "1e999", "text", "1" * 100, "0x10x", "--5", "13.0.1", "1.23.456", "1,2,345"])
def test_what_is_no_number(bring, text):
    said, rows = bring(line(IDS + ["x"]) + line(KERNELS[0] + [text]))
    assert rows("metric_value") == [] and any("1 name or marker" in note for note in said["notes"])


def test_cut_anywhere(bring, pitot, tmp_path):
    """Whole lines count; what is left of the last one is damaged, or a smaller value at its end."""
    whole = raw().encode()
    for length in range(0, len(whole), 7):
        (tmp_path / "a.csv").write_bytes(whole[:length])
        result = pitot("import", "a.csv", "--format", "ncu", "-o", "r.pitot", "--force", "--json", status=None)
        kernels = whole[:length].count(b"\n") - 2
        assert result.returncode == (0 if kernels > 0 else 1) or kernels == 0 and result.returncode in (0, 1), (length, result.stderr)
        if kernels > 0:
            assert json.loads(result.stdout)["rows"]["kernel"] in (kernels, min(kernels + 1, 2))


def test_flipped_bits(pitot, tmp_path):
    whole, generator = details().encode(), random.Random(7)
    for _ in range(60):
        bytes_ = bytearray(whole)
        for _ in range(3):
            bytes_[generator.randrange(len(bytes_))] ^= 1 << generator.randrange(8)
        (tmp_path / "a.csv").write_bytes(bytes_)
        assert pitot("import", "a.csv", "--format", "ncu", "-o", "r.pitot", "--force", status=None).returncode in (0, 1)


@pytest.mark.parametrize("content, said", [
    (line(IDS + ["x"]) + '"' + "a" * (70 << 20), "a line of more than 64 MiB or 16384 fields"), (line(IDS + ["x"] * 20000), "no event with a time"),
    (line(IDS + ["x"]), "no event with a time"), ("", "no event with a time")], ids=["line", "columns", "nothing", "empty"])
def test_bombs(pitot, tmp_path, content, said):
    if content and "aaa" in content:
        content = content.replace('"aaa', line(KERNELS[0] + ["1"]) + '"aaa', 1)
    (tmp_path / "a.csv").write_text(content)
    result = pitot("import", "a.csv", "--format", "ncu", "-o", "r.pitot", status=None)
    assert said in result.stderr + pitot("view", "r.pitot", "loss", status=None).stdout, result.stderr


def test_rows_without_the_columns_of_rules(bring):
    """They are the last ones, and rows of metrics may leave them out; not more than these."""
    head = line(IDS + ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type"])
    said, rows = bring(head + line(KERNELS[0] + ["S", "m", "%", "5"]) + line(KERNELS[0] + ["S", "m", "%"]) + line(KERNELS[0] + ["S", "n", "%", "6", "", ""]))
    assert [row["value"] for row in rows("metric_value")] == [5, 6] and said["damaged"] == 1


def test_rows_with_other_numbers_of_fields(bring):
    said, rows = bring(line(IDS + ["x"]) + line(KERNELS[0]) + line(KERNELS[0] + ["1", "2"]) + line(KERNELS[1] + ["3"]))
    assert said["damaged"] == 2 and [row["value"] for row in rows("metric_value")] == [3]
