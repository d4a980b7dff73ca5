"""pitot report: goldens, options, and that every view sums to the same GPU time."""
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from golden import check_golden, check_sections


@pytest.fixture(scope="module")
def recordings(make_recording, tmp_path_factory):
    """varied.pitot, synthetic ones of every pattern with 2,000 kernels, of which stacks.pitot has call stacks, and
    recordings with CPU samples, as cpu_recording.c says."""
    folder = tmp_path_factory.mktemp("recordings")
    make_recording(folder / "varied.pitot", "varied")
    for pattern in ("train", "graph", "streams", "copies"):
        make_recording(folder / f"{pattern}.pitot", kernels=2000, pattern=pattern)
    make_recording(folder / "stacks.pitot", kernels=2000, stacks=40)
    for mode in ("all", "cpu", "inside", "none", "only", "commands", "unsampled"):
        make_recording(folder / f"cpu-{mode}.pitot", f"cpu_{mode}")
    return folder


def report(pitot, recordings, name, *options, **keywords):
    return pitot("report", f"{name}.pitot", *options, cwd=recordings, **keywords)


@pytest.mark.parametrize("name", ["varied", "train", "graph", "streams", "copies", "stacks", "cpu-all", "cpu-none",
                                  "cpu-only", "cpu-commands", "cpu-unsampled"])
def test_golden(pitot, recordings, name):
    text = report(pitot, recordings, name).stdout
    check = check_golden if name == "varied" else check_sections
    check(f"report-{name}.txt", text)
    assert all(float(share) <= 100 for share in re.findall(r"([\d.]+)%", text))


def test_by_nvtx_is_by_scope(pitot, recordings):
    """The name that docs/report.md and docs/flame.md have for it; in Python it is hotspots(by="nvtx")."""
    for words in ("report", "--json"), ("flame", "--mode", "gpu"):
        found = [pitot(*words, recordings / "varied.pitot", "--by", by).stdout for by in ("nvtx", "scope")]
        assert found[0] == found[1] and found[0]


def test_system_is_shown_on_request(pitot, recordings):
    path = recordings / "varied.pitot"
    assert "GPU 0 power" not in pitot("report", path).stdout
    assert re.search(r"^ *GPU 0 power +4 +347 W +346 W +347 W +346 W +349 W$", pitot("report", path, "--system").stdout, re.M)
    assert re.search("^system +no readings$", pitot("report", recordings / "train.pitot", "--system").stdout, re.M)


@pytest.mark.parametrize("width", [80, 140])
def test_golden_of_other_widths(pitot, recordings, width):
    text = report(pitot, recordings, "train", "--top", "3", env={"COLUMNS": str(width)}).stdout
    check_golden(f"report-train-{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("kind", ["varied", "cpu_all", "training", "stalls", "sass", "counters", "roofline", "ranges"])
@pytest.mark.parametrize("width", [40, 60])
def test_no_table_is_broken_by_a_narrow_terminal(pitot, make_recording, tmp_path, width, kind):
    """Columns are dropped from the right; the first one, which names the row, stays."""
    recording = make_recording(tmp_path / "r.pitot", kind)
    for options in [], ["--by", "config"], ["--scopes"], ["--system", "--stalls", "--counters"]:
        text = pitot("report", recording, *options, env={"COLUMNS": str(width)}).stdout
        rows = [line for line in text.splitlines() if re.match(" {2,}\\S.* {2}", line)]
        assert rows and max(map(len, rows)) <= width, max(rows, key=len)


@pytest.mark.parametrize("name, width, options", [
    ("callers", 80, ("--by", "caller", "--top", "4")),
    ("narrow", 80, ()),
    ("wide", 140, ("--callers", "1", "--top", "4")),
])
def test_goldens_of_lines(pitot, recordings, name, width, options):
    text = report(pitot, recordings, "cpu-all", *options, env={"COLUMNS": str(width)}).stdout
    check_golden(f"report-cpu-{name}.txt", text)
    assert max(map(len, text.splitlines())) <= width


def test_golden_json_of_lines(pitot, recordings):
    check_golden("report-cpu-all.json", report(pitot, recordings, "cpu-all", "--json").stdout)


def test_golden_json(pitot, recordings):
    check_golden("report-varied.json", report(pitot, recordings, "varied", "--json").stdout)


def test_groups_sum_to_all_kernels(pitot, recordings):
    for name in ("varied", "train", "graph", "streams", "copies", "stacks", "cpu-all"):
        totals = set()
        for by in ("kernel", "config", "stream", "device", "thread", "scope", "caller"):
            result = report(pitot, recordings, name, "--json", "--by", by, json_output=True)
            items = result["hotspots"]["items"]
            sums = (sum(item["time"].get("total_ns", 0) for item in items),
                    sum(item["time"]["count"] + item["untimed"] for item in items))
            assert sums == (result["hotspots"]["total_ns"], result["hotspots"]["kernels"])
            assert sums[0] == sum(gpu["busy"]["kernels"]["sum_ns"] for gpu in result["gpus"] if "busy" in gpu)
            totals.add(sums)
        assert len(totals) == 1


def test_callers_of_kernels_sum_to_the_kernel(pitot, recordings):
    for name in ("stacks", "cpu-all"):
        for options in ([], ["--by", "config"]):
            hotspots = report(pitot, recordings, name, "--json", "--callers", "8", *options, json_output=True)["hotspots"]
            for item in hotspots["items"]:
                shown = item["callers"]
                assert shown and [c["total_ns"] for c in shown] == sorted((c["total_ns"] for c in shown), reverse=True)
                assert len(shown) == min(8, item["caller_count"])
                sums = [sum(c[key] for c in shown) for key in ("total_ns", "count")]
                whole = [item["time"]["total_ns"], item["time"]["count"] + item["untimed"]]
                assert sums == whole if item["caller_count"] <= 8 else sums <= whole
        assert "callers" not in report(pitot, recordings, name, "--json", "--callers", "0", json_output=True)[
            "hotspots"]["items"][0]
    assert "--callers takes a number up to 8" in report(pitot, recordings, "stacks", "--callers", "9", status=2).stderr


def test_caller_is_the_innermost_line_of_the_program(pitot, recordings):
    """Innermost Python line outside of installed packages and Python's own library."""
    result = report(pitot, recordings, "cpu-all", "--json", "--by", "caller", json_output=True)
    assert [(i["label"], i["caller"]["file"], i["caller"]["line"], i["caller"]["library"])
            for i in result["hotspots"]["items"]] == [
        ("train.py:60 step", "/home/user/train.py", 60, False), ("train.py:64 step", "/home/user/train.py", 64, False)]
    assert [(w["caller"]["line"], w["function"], w["count"], w["total_ns"]) for w in result["waits"]] == [
        (65, "cudaStreamSynchronize", 10, 15100000), (63, "cudaMemcpy", 10, 400000)]
    cpu = result["cpu"]
    lines = {(line["caller"]["function"], line["callee"] and line["callee"]["function"]): line["samples"]
             for line in cpu["lines"]}
    assert lines == {("Images.__getitem__", None): 40, ("step", "DataLoader.__next__"): 30, ("step", "Linear.forward"): 30,
                     ("step", "cudaStreamSynchronize"): 20, ("step", None): 20}
    assert sum(lines.values()) + cpu["without_stack"] == cpu["samples"] == 150
    assert sum(f["self_ns"] for f in cpu["functions"]) + cpu["without_stack_ns"] == cpu["total_ns"] == 150000000
    assert sum(t["total_ns"] for t in cpu["threads"]) == cpu["total_ns"]
    assert {(t["pid"], t["thread"], t["thread_name"]) for t in cpu["threads"]} == {
        (100, 100, "python"), (101, 101, "python"), (100, 102, "pt_autograd_0")}


def test_waits_are_those_of_the_flame_graph(pitot, recordings):
    for name in ("stacks", "cpu-all", "copies", "varied"):
        waits = report(pitot, recordings, name, "--json", json_output=True)["waits"]
        flame = pitot("flame", f"{name}.pitot", "--mode", "wait", "--json", cwd=recordings, json_output=True)["sections"][0]
        assert (sum(w["total_ns"] for w in waits), sum(w["count"] for w in waits)) == (flame["total_ns"], flame["count"])


def test_idle_time_is_explained_by_lines(pitot, recordings):
    def idle(name):
        result = report(pitot, recordings, name, "--json", json_output=True)
        return result, result["idle_lines"]

    def lines(found):
        return [(i["caller"]["line"], i["callee"] and i["callee"]["function"], i["count"], i["total_ns"], i["off_cpu_ns"])
                for i in found["items"]]

    result, found = idle("cpu-cpu")
    gpu = result["gpus"][0]
    assert found["gaps_ns"] == sum(gap["total_ns"] for gap in gpu["idle"]["gaps"])
    assert found["source"] == "samples" and found["off_cpu_ns"] == 0
    # nine gaps between steps: the first step's loading comes before the first work
    assert lines(found) == [(57, "DataLoader.__next__", 27, 27000000, 0), (66, None, 18, 18000000, 0)]
    assert idle("cpu-inside")[1]["items"] == found["items"]
    # times off the CPU are exact: of the 800 us those before the copy begins, in nine gaps, and none in the others
    found = idle("cpu-all")[1]
    assert lines(found)[0] == (57, "DataLoader.__next__", 27, 27000000 + found["off_cpu_ns"], found["off_cpu_ns"])
    assert found["off_cpu_ns"] > 9 * 410000 and found["samples"] == 45
    result, found = idle("cpu-none")
    assert found["source"] == "launches"
    assert sum(i["total_ns"] for i in found["items"]) == found["gaps_ns"] and lines(found)[0][0] == 58
    assert idle("train")[1]["source"] == "none" and not idle("train")[1]["items"]


def test_the_verdict_names_lines(pitot, recordings):
    text = " ".join(report(pitot, recordings, "cpu-cpu").stdout.split())
    assert "in the gaps the launching thread was at train.py:57 step -> DataLoader.__next__ (27.0 ms), train.py:66 step" in text
    text = " ".join(report(pitot, recordings, "cpu-none").stdout.split())
    assert "the gaps ended with launches from train.py:58 step (46.8 ms)" in text
    assert "no samples: not asked for (--no-cpu)" in text
    assert "launching thread was at" not in report(pitot, recordings, "train").stdout


def test_processes_that_are_sampled(pitot, recordings):
    processes = report(pitot, recordings, "cpu-all", "--json", json_output=True)["processes"]
    assert [(p["pid"], p["recorded"], p["sampled"]) for p in processes] == [(100, True, True), (101, False, True)]
    cpu = [report(pitot, recordings, "cpu-all", "--json", "--process", pid, json_output=True)["cpu"]["samples"]
           for pid in ("100", "101")]
    assert cpu == [110, 40]
    windows = [report(pitot, recordings, "cpu-all", "--json", *w, json_output=True)["cpu"]["total_ns"]
               for w in (["--until", "50ms"], ["--since", "50ms"])]
    assert all(windows) and sum(windows) == 150000000


def test_a_recording_of_cpus_speaks_of_no_gpu(pitot, recordings):
    for name in "cpu-commands", "cpu-unsampled":
        text = report(pitot, recordings, name).stdout
        assert not re.search(r"GPU|kernels|CUDA|callback|launch", text)
        assert report(pitot, recordings, name, "--json", json_output=True)["verdict"]["no_gpu_data"] is None


def test_commands_add_up(pitot, recordings):
    for name in "cpu-commands", "cpu-all":
        result = report(pitot, recordings, name, "--json", json_output=True)
        assert sum(c["total_ns"] for c in result["commands"]) == result["cpu"]["total_ns"]
        assert sum(c["kernel_ns"] for c in result["commands"]) == result["cpu"]["kernel_ns"]
        assert sum(c["processes"] for c in result["commands"]) == result["cpu"]["processes"]
    assert {c["command"]: c["kind"] for c in report(pitot, recordings, "cpu-commands", "--json", json_output=True)["commands"]} == {
        "python3 train.py": "cpu", "cc1": "single_threaded", "cat": "os_kernel", "bash": "waiting"}


def test_totals_equal_the_rows(pitot, recordings):
    for name in ("varied", "train", "graph", "streams", "copies"):
        rows = [json.loads(line) for line in
                pitot("view", f"{name}.pitot", "kernel", "--json", cwd=recordings).stdout.splitlines()]
        timed = [row["duration_ns"] for row in rows if row["duration_ns"] is not None]
        hotspots = report(pitot, recordings, name, "--json", json_output=True)["hotspots"]
        assert hotspots["kernels"] == len(rows)
        assert hotspots["untimed"] == len(rows) - len(timed)
        assert hotspots["total_ns"] == sum(timed)


def test_busy_and_idle_are_all_of_the_window(pitot, recordings):
    for window in ([], ["--since", "3ms", "--until", "9ms"]):
        result = report(pitot, recordings, "train", "--json", *window, json_output=True)
        length = result["window"]["end_ns"] - result["window"]["start_ns"]
        for gpu in result["gpus"]:
            assert gpu["busy"]["union_ns"] + gpu["idle"]["total_ns"] == length
            assert sum(gpu["idle"]["cause_ns"].values()) == gpu["idle"]["total_ns"]
            assert sum(gpu["busy"]["streams_ns"]) == gpu["busy"]["union_ns"]


def test_idle_labels_are_whole_on_narrow_terminals(pitot, recordings):
    wide, narrow = (report(pitot, recordings, "train", env={"COLUMNS": columns}).stdout.partition("GPU idle")[2].partition("\n\n")[0]
                    for columns in ("100", "48"))
    assert ".." not in narrow and max(map(len, narrow.splitlines())) <= 48
    assert sorted(narrow.split()) == sorted(wide.split())


def test_windows_share_the_kernels(pitot, recordings):
    whole = report(pitot, recordings, "train", "--json", json_output=True)["hotspots"]
    parts = [report(pitot, recordings, "train", "--json", *window, json_output=True)["hotspots"]
             for window in (["--until", "5ms"], ["--since", "5ms", "--until", "10ms"], ["--since", "10ms"])]
    assert all(part["kernels"] for part in parts)
    for key in ("kernels", "total_ns"):
        assert sum(part[key] for part in parts) == whole[key]


def test_filters(pitot, recordings):
    def kernels(name, *options):
        return report(pitot, recordings, name, "--json", *options, json_output=True)["hotspots"]["kernels"]

    by_stream = report(pitot, recordings, "streams", "--json", "--by", "stream", json_output=True)["hotspots"]["items"]
    for item in by_stream:
        assert kernels("streams", "--stream", str(item["stream"])) == item["time"]["count"]
    assert kernels("varied", "--process", "3") + kernels("varied", "--process", "100") == kernels("varied")
    assert 0 < kernels("varied", "--kernel", "saxpy*") == kernels("varied", "-k", "axp") < kernels("varied")
    assert kernels("varied", "--kernel", "no such kernel") == 0
    by_range = report(pitot, recordings, "train", "--json", "--by", "scope", json_output=True)["hotspots"]["items"]
    forward = next(item for item in by_range if item.get("range") == "forward")
    assert kernels("train", "--scope", "forward") == forward["time"]["count"]


def test_filters_are_named(pitot, recordings):
    text = report(pitot, recordings, "train", "--stream", "7", "--kernel", "*gemm*", "--scope", "forward").stdout
    assert "; stream 7 only; kernels matching '*gemm*'; inside scopes matching 'forward'" in text.replace("\n", " ")
    text = report(pitot, recordings, "train", "--kernel", "no\033such").stdout
    assert re.search(r"^kernels  none of 2,000 match the filters \(kernels matching 'no\\x1bsuch'\)$", text, re.MULTILINE)
    assert "none of" not in report(pitot, recordings, "train", "--kernel", "gemm").stdout
    late = report(pitot, recordings, "train", "--since", "1h")
    assert "nothing begins after --since: the last event is at" in late.stderr
    assert "nothing begins" not in report(pitot, recordings, "train", "--since", "1us").stderr


def test_full_names_are_whole(pitot, recordings):
    text = report(pitot, recordings, "train", "--full-names", env={"COLUMNS": "80"}).stdout
    names = [item["symbol"] for item in
             report(pitot, recordings, "train", "--json", json_output=True)["hotspots"]["items"][:10]]
    plain = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    for name in plain.splitlines():
        assert name in text
    assert max(map(len, plain.splitlines())) > 80


def test_bars_give_way_to_texts(terminal, program, recordings):
    """On 80 columns a bar would cut the causes of idle time."""
    for columns, bars in ((80, False), (120, True)):
        text = re.sub(r"\033\[\d*m", "", terminal([program, "report", recordings / "train.pitot"], columns))
        idle = next(section for section in text.split("\n\n") if section.startswith("GPU idle"))
        assert "launched, not started yet" in idle and "before the first GPU work" in idle
        assert ("\u2588" in idle) == bars
        assert max(map(len, text.splitlines())) <= columns


def test_nothing_lost_is_said(pitot, recordings):
    lines = report(pitot, recordings, "train").stdout.splitlines()
    assert "loss      nothing lost" in lines
    assert any(line.startswith("cost      ") for line in lines)
    assert any(line.startswith("loss      17 events lost") for line in report(pitot, recordings, "varied").stdout.splitlines())


def test_hostile_names_reach_no_terminal(pitot, recordings):
    for options in ([], ["--full-names"], ["--by", "config"], ["--by", "scope"], ["--by", "thread"], ["--by", "caller"]):
        result = report(pitot, recordings, "varied", *options, text=False)
        assert not any(byte < 32 and byte != 10 or byte == 127 for byte in result.stdout)
        result.stdout.decode()


class Page(HTMLParser):
    """The texts of a page, which must be well-formed, and the classes of its numbers; without what only a page has."""

    EXTRA = [("section", {"id": "activity"}), ("section", {"id": "flame"})]

    def __init__(self, text):
        super().__init__()
        self.texts, self.open, self.tags, self.left, self.sections = [], [], set(), [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag != "meta":
            self.open.append((tag, dict(attributes)))
        if tag == "section":
            self.sections.append(dict(attributes)["id"])

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if not {"style", "title", "script"} & {tag for tag, _ in self.open} and not [tag for tag in self.open if tag in self.EXTRA]:
            self.texts.append(data)
            if self.open and self.open[-1] == ("td", {"class": "text"}):
                self.left.append(data)


@pytest.mark.parametrize("name", ["varied", "train", "stacks", "cpu-all", "cpu-only", "cpu-commands", "cpu-unsampled"])
def test_a_page_says_what_the_text_says(pitot, recordings, name):
    """Word for word, but for a colon after "verdict", and with units in the cells; numbers stand to the right."""
    text = report(pitot, recordings, name, "--full-names", "--stalls", "--system", env={"COLUMNS": "180"}).stdout
    page = report(pitot, recordings, name, "--full-names", "--stalls", "--system", "-o", "-").stdout
    parsed = Page(page)
    assert "".join("".join(parsed.texts).split()) == "".join(text.replace("\nverdict  ", "\nverdict: ", 1).split())
    assert parsed.sections[:2] == ["header", "verdict"] and "loss" in parsed.sections
    assert not [cell for cell in parsed.left if re.fullmatch(r"[\d.,]+( [mun]?s|%)?", cell)]
    assert not {"img", "link"} & parsed.tags and "url(" not in page and "@import" not in page
    assert page.count("<script") == 1 and "default-src 'none'" in page
    assert page.count("<div class=\"table\">") >= (2 if "share" in text else 0)


def test_bars_of_a_page_are_shares(pitot, recordings):
    page = report(pitot, recordings, "train", "-o", "-").stdout
    [busy] = json.loads(report(pitot, recordings, "train", "--json").stdout)["gpus"]
    gpu = page[page.index("GPU busy"):]
    span = json.loads(report(pitot, recordings, "train", "--json").stdout)["duration_ns"]
    width = int(re.search(r'<td class="bar"><i style="width:(\d+)%">', gpu)[1])
    assert abs(width - 100 * busy["busy"]["union_ns"] / span) <= 1


def test_hostile_names_reach_no_page(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "names.pitot", "names")
    page = pitot("report", path, "-o", "-", "--by", "config").stdout
    assert page.count("<script") == 1 and "img" not in Page(page).tags and "&lt;/script&gt;" in page and "&lt;img src=x" in page


def test_a_page_is_a_file(pitot, recordings, tmp_path):
    path = recordings / "train.pitot"
    pitot("report", path, "-o", tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text() == pitot("report", path, "-o", "-").stdout
    assert "exists" in pitot("report", path, "-o", tmp_path / "x.html", status=1).stderr
    pitot("report", path, "-o", tmp_path / "x.html", "--force", "--top", "1")
    assert len(Page((tmp_path / "x.html").read_text()).texts) < len(Page(pitot("report", path, "-o", "-").stdout).texts)
    assert "--mode needs -o FILE" in pitot("report", path, "--mode", "0644", status=2).stderr
    assert "is no page: name it x.html" in pitot("report", path, "-o", tmp_path / "x.txt", status=2).stderr
    assert "--json goes to standard output" in pitot("report", path, "--json", "-o", "x.html", status=2).stderr
    assert pitot("report", path, "-o", tmp_path / "none" / "x.html", status=1).stderr
    assert pitot("report", tmp_path / "none.pitot", "-o", tmp_path / "y.html", status=1).stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.html"]


def test_no_colours_and_bars_in_a_pipe(pitot, recordings):
    text = report(pitot, recordings, "copies").stdout
    assert "\033" not in text and "\u2588" not in text
    assert "\033[1m" in report(pitot, recordings, "copies", "--color", "always").stdout


def test_newest_recording_is_found(pitot, recordings, tmp_path):
    for age, name in enumerate(("train", "graph")):
        (tmp_path / f"{name}.pitot").mkdir()
        for file in (recordings / f"{name}.pitot").iterdir():
            (tmp_path / f"{name}.pitot" / file.name).write_bytes(file.read_bytes())
        os.utime(tmp_path / f"{name}.pitot", (1000 - age, 1000 - age))
    result = pitot("report")
    assert "train.pitot" in result.stderr
    assert result.stdout == report(pitot, recordings, "train").stdout


@pytest.mark.parametrize("options, words", [
    (["--since", "2s", "--until", "1s"], "--since must be before --until"),
    (["--by", "colour"], "colour"),
    (["--top", "-1"], "-1"),
    (["--tpo", "1"], "--top"),
    (["--process", "77"], "no process 77 in this recording; its processes: 1000\n"),
    (["--device", "3"], "no GPU with CUDA ordinal 3 in this recording; its GPUs: 0\n"),
])
def test_wrong_usage(pitot, recordings, options, words):
    result = report(pitot, recordings, "train", *options, status=2)
    assert words in result.stderr and not result.stdout


def test_a_process_of_several_and_an_unknown_gpu(pitot, make_recording, tmp_path):
    """The list of GPUs does not begin with the processes before the chosen one."""
    path = make_recording(tmp_path / "two.pitot", processes=2)
    last = pitot("report", path, "--json", json_output=True)["processes"][-1]["pid"]
    assert "; its GPUs: 0, 1\n" in pitot("report", path, "--process", str(last), "--device", "3", status=2).stderr


def test_no_recording(pitot, tmp_path):
    assert "pitot record" in pitot("report", status=1).stderr
    (tmp_path / "text.pitot").write_text("no recording")
    assert "text.pitot" in pitot("report", "text.pitot", status=1).stderr
    assert "missing" in pitot("report", "missing", status=1).stderr


def test_empty_recording(pitot, make_recording, tmp_path):
    make_recording(tmp_path / "empty.pitot", kernels=0)
    text = pitot("report", "empty.pitot").stdout
    assert "no GPU work" in text and "nothing lost" in text
    assert pitot("report", "empty.pitot", "--json", json_output=True)["verdict"]["kind"] == "no_work"


def test_truncated_recordings_still_report(pitot, recordings, tmp_path):
    data = next((recordings / "train.pitot").glob("*.pit")).read_bytes()
    (tmp_path / "cut.pitot").mkdir()
    for length in range(64, len(data), len(data) // 40):
        (tmp_path / "cut.pitot" / "1000.0.pit").write_bytes(data[:length])
        result = pitot("report", "cut.pitot", "--json", json_output=True)
        assert [loss["reason"] for loss in result["loss"]] == ["truncated_file"]


def test_processes_that_ended_at_once_are_one_line(pitot, make_recording, tmp_path):
    """Workers end by _exit, so that their segments are cut: no crash, and no line for each."""
    make_recording(tmp_path / "all.pitot", kernels=90, processes=3)
    segments = sorted((tmp_path / "all.pitot").glob("*.pit"))
    assert len(segments) == 3
    for cut, text in ((1, "1 segment without an end (_exit"), (3, "3 segments without an end (_exit")):
        for segment in segments[:cut]:
            segment.write_bytes(segment.read_bytes()[:-64])
        report = pitot("report", "all.pitot").stdout
        report = " ".join(report.split())
        assert text in report and report.count("without an end") == 1, report
        [loss] = pitot("report", "all.pitot", "--json", json_output=True)["loss"]
        assert loss["reason"] == "truncated_file" and loss["count"] == cut and loss["effect"] == "some"


def test_a_worker_that_recorded_nothing_lost_nothing(pitot, make_recording, tmp_path):
    """multiprocessing.Pool ends its workers by SIGTERM: a segment without an end, in which there was nothing to record."""
    make_recording(tmp_path / "r.pitot", "cpu_unsampled")
    for segment in (tmp_path / "r.pitot").glob("*.pit"):
        segment.write_bytes(segment.read_bytes()[:-64])
    report = pitot("report", "r.pitot", "--json", json_output=True)
    assert [loss["effect"] for loss in report["loss"]] == ["none"] and report["loss_effect"] == "none"
    text = " ".join(pitot("report", "r.pitot").stdout.split())
    assert "the last rows may be missing (" in text and "; no figure changes" in text
    assert "warning" not in pitot("export", "r.pitot", "-o", "x.json", status=None).stderr


def test_an_analysis_and_its_section_are_two_files_and_two_lines():
    """All that names the analysis `copies` outside of its own files is a line in a list of analyses and one of sections."""
    src = Path(__file__).parents[2] / "src"
    names = re.compile(r"\b(?:analysis_copies|section_copies|struct copies|copy_group|report->copies)\b|analysis/copies\.h|X\(copies\)")
    lines = {}
    for path in [*src.rglob("*.c"), *src.rglob("*.h")]:
        count = sum(1 for line in path.read_text().splitlines() if names.search(line))
        if count:
            lines[str(path.relative_to(src))] = count
    own = {"analysis/copies.h", "analysis/copies.c", "report/section_copies.c"}
    assert {path: n for path, n in lines.items() if path not in own} == {"analysis/analyses.h": 1, "report/section.h": 1}


def test_damage_is_told_wherever_it_is(pitot, recordings, tmp_path):
    """The tables of stacks are decoded late: what is lost of them is lost as well."""
    copy = tmp_path / "damaged.pitot"
    copy.mkdir()
    found = 0
    for file in (recordings / "stacks.pitot").glob("*.pit"):
        whole = file.read_bytes()
        for at in range(len(whole) // 20, len(whole), len(whole) // 20):
            (copy / file.name).write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
            verified = pitot("info", copy, "--verify", "--json", status=None, json_output=True)["loss"]
            if any(" damaged block" in row["detail"] for row in verified):  # not of headers, padding or index: no row is lost
                found += 1
                loss = pitot("report", copy, "--json", json_output=True)["loss"]
                assert "damaged_file" in [row["reason"] for row in loss], at
                assert "loss      parts of the recording are damaged" in pitot("report", copy).stdout.split("verdict")[0]
    assert found >= 10


def test_commands_without_losses_warn_of_damage(pitot, recordings, tmp_path):
    """They show what is left as if it were all."""
    commands = [("view", "damaged.pitot", "kernel"), ("flame", "damaged.pitot"), ("export", "-f", "-o", "x.json", "damaged.pitot")]
    copy = tmp_path / "damaged.pitot"
    shutil.copytree(recordings / "stacks.pitot", copy)
    assert not any("damaged" in line for command in commands for line in pitot(*command).stderr.splitlines() if "warning" in line)
    for file in copy.glob("*.pit"):
        whole = file.read_bytes()
        half = len(whole) // 2
        file.write_bytes(whole[:half] + bytes(200) + whole[half + 200:])
    for command in commands:
        assert "warning: parts of the recording are damaged or missing" in pitot(*command, status=None).stderr, command


def test_a_recording_starts_when_its_command_did(pitot, tmp_path):
    """Not at the first sample; its title is the command, not the child that was seen first."""
    script = tmp_path / "idle.py"
    script.write_text("import time\ntime.sleep(0.5)\nt = time.process_time()\n"
                      "while time.process_time() - t < 0.3: pass\ntime.sleep(0.3)\n")
    command = f"sleep 0.1; {sys.executable} idle.py; true"
    pitot("record", "--cpu-only", "-o", "idle.pitot", "--", "bash", "-c", command)
    recorded = json.loads((tmp_path / "idle.pitot" / "recording.json").read_text())
    result = pitot("report", "idle.pitot", "--json", json_output=True)
    assert 1.2e9 < result["duration_ns"] <= recorded["elapsed_ns"] + 0.3e9
    # `record` gets ready before it starts the command, which on a busy machine takes a while; start times of processes are in 10 ms.
    assert result["start_unix_ns"] > recorded["start_realtime_ns"] - 20e6
    info = pitot("info", "idle.pitot", "--json", json_output=True)
    assert info["start_unix_ns"] == result["start_unix_ns"] and info["duration_ns"] == result["duration_ns"]
    assert all(process["start_ns"] >= 0 for process in info["processes"])
    assert pitot("report", "idle.pitot").stdout.startswith(f"bash -c {command}\n")
    late = pitot("report", "idle.pitot", "--json", "--since", "600ms", json_output=True)
    assert late["window"]["start_ns"] == 600_000_000 and late["cpu"]["samples"] > 0
