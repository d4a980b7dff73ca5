"""pitot flame: goldens of every format, that all of them have the same time, and pictures in a browser."""
import gzip
import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from flame_page import page_data, show
from golden import check_golden
from pprof import Pprof

SVG = "{http://www.w3.org/2000/svg}"


def folded(text):
    """{stack: number}"""
    lines = [line.rsplit(" ", 1) for line in text.splitlines()]
    assert len({stack for stack, _ in lines}) == len(lines), "a stack is there twice"
    return {stack: int(number) for stack, number in lines}


# --- goldens


@pytest.mark.parametrize("name, options", [
    ("text", ("--format", "text")),
    ("launches", ("--format", "text", "--mode", "launches", "--by", "thread", "--min-percent", "0")),
    ("inverted", ("--format", "text", "--mode", "gpu", "--inverted", "--depth", "3")),
    ("diff-text", ("--format", "text", "--diff", "other.pitot", "--min-percent", "2")),
    ("folded", ("--format", "folded")),
    ("diff-folded", ("--format", "folded", "--diff", "other.pitot")),
    ("xpu-perf", ("--xpu-perf-compat",)),
])
def test_goldens_of_texts(flame, name, options):
    check_golden(f"flame-{name}.txt", flame("small", *options).stdout)


@pytest.mark.parametrize("name, options", [
    ("cpu-text", ("--format", "text", "--min-percent", "0")),
    ("cpu-inverted", ("--format", "text", "--mode", "cpu", "--inverted", "--depth", "2", "--by", "process")),
    ("cpu-folded", ("--format", "folded", "--by", "scope")),
    ("cpu-xpu-perf", ("--xpu-perf-compat",)),
])
def test_goldens_of_cpu_time(flame, name, options):
    check_golden(f"flame-{name}.txt", flame("cpu-all", *options).stdout)


def test_a_filter_that_leaves_nothing_is_told(flame):
    for options in (("--focus", "no such frame"), ("--ignore", "."), ("--focus", "no such frame", "--inverted")):
        result = flame("small", *options, "--format", "folded", status=1)
        assert result.stdout == "" and result.stderr.rstrip().endswith("--focus and --ignore leave no stack")
    assert "leave no stack" not in flame("small", "--focus", "train", "--format", "folded").stderr
    assert "shown under" in flame("cpu-all", "--mode", "cpu", "--format", "folded").stderr
    assert "shown under" not in flame("cpu-all", "--mode", "cpu", "--focus", "no such frame", "--format", "folded", status=1).stderr


def test_a_recursion_is_one_line(flame):
    """But for where something else is worth a line."""
    lines = flame("cpu-deep", "--format", "text").stdout.splitlines()
    assert [re.sub(r"^ *[\d.]+ [mu]?s +[\d.]+% ", "", line) for line in lines[1:]] == [
        "<module> (search.py:20)", "search (search.py:7) (50 times)", "  search (search.py:7) (50 times)",
        "    check (search.py:3)", "  look_up (search.py:12)"]
    assert len(flame("cpu-deep", "--format", "text", "--depth", "20").stdout.splitlines()) == 4


def test_golden_of_svg(flame):
    text = flame("small", to="x.svg").read_text()
    text = re.sub(r"<style>.*?</style>", "<style/>", text, flags=re.S)
    check_golden("flame.svg", re.sub(r"<script>.*?</script>", "<script/>", text, flags=re.S))


def test_golden_of_html(flame):
    check_golden("flame-html.json", page_data(flame("small", to="x.html")))


@pytest.mark.parametrize("suffix", ["speedscope.json", "json"])
def test_goldens_of_json(flame, suffix):
    text = flame("small", to=f"x.{suffix}").read_text()
    check_golden(f"flame.{suffix}", re.sub(r"pitot \d+\.\d+\.\d+", "pitot VERSION", text))


def test_golden_of_pprof(flame):
    profile = Pprof(gzip.decompress(flame("small", to="x.pb.gz").read_bytes()))
    lines = [";".join(profile.stack(s)) + f" {list(s.value)} {dict(profile.labels(s))}" for s in profile.profile.sample]
    check_golden("flame-pprof.txt", "".join(line + "\n" for line in lines))


# --- the same time everywhere


@pytest.mark.parametrize("name", ["small", "many", "plain", "graph"])
def test_all_formats_have_the_same_gpu_time(flame, gpu_ns, name):
    total = gpu_ns(name)
    assert total > 0
    for options in ((), ("--inverted",), ("--by", "thread"), ("--by", "stream"), ("--by", "scope"), ("--by", "device"),
                    ("--by", "process")):
        sections = flame(name, "--json", *options, json_output=True)["sections"]
        assert [s["name"] for s in sections] == ["[GPU]", "[wait]"]
        assert sections[0]["total_ns"] == total == sections[0]["nodes"][0]["total_ns"]
        assert sum(node["self_ns"] for node in sections[0]["nodes"]) == total
        lines = folded(flame(name, *options).stdout)
        assert sum(n for stack, n in lines.items() if stack.startswith("[GPU];")) == (total + 500) // 1000
        lines = folded(flame(name, "--mode", "gpu", *options).stdout)
        assert sum(lines.values()) == (total + 500) // 1000
    speedscope = json.loads(flame(name, to="x.speedscope.json").read_text())
    assert sum(speedscope["profiles"][0]["weights"]) == total
    firefox = json.loads(flame(name, to="x.json").read_text(), parse_float=lambda text: int(text.replace(".", "")))
    assert sum(firefox["threads"][0]["samples"]["weight"]) == total
    assert Pprof(gzip.decompress(flame(name, to="x.pb.gz").read_bytes())).sum("gpu") == total
    page = json.loads(page_data(flame(name, to="x.html")))
    assert page["sections"][0]["ns"][0] == total
    frames = ET.parse(flame(name, to="x.svg")).getroot().findall(f"{SVG}g[@class='section']")
    assert int(frames[0][0].get("data-ns")) == total


def kind_sums(flame, name, *options):
    """{kind: ns} by the nodes themselves."""
    sections = flame(name, "--json", *options, json_output=True)["sections"]
    for section in sections:
        assert section["total_ns"] == sum(node["self_ns"] for node in section["nodes"])
    return {section["name"]: section["total_ns"] for section in sections}


@pytest.mark.parametrize("name", ["cpu-all", "cpu-cpu", "cpu-inside", "cpu-only"])
def test_all_formats_have_the_same_cpu_time(flame, cpu_ns, gpu_ns, name):
    expected = {"[CPU]": cpu_ns(name)}
    if name != "cpu-only":
        expected["[GPU]"] = gpu_ns(name)
        expected["[wait]"] = 15500000
    if name in ("cpu-all", "cpu-only"):
        expected["[off-CPU]"] = (cpu_ns(name, "off_cpu", "end_ns") - cpu_ns(name, "off_cpu", "start_ns"))
    assert expected["[CPU]"] == (110 if name == "cpu-inside" else 150) * 1000000
    for options in ((), ("--inverted",), *(("--by", by) for by in ("thread", "stream", "scope", "device", "process"))):
        assert kind_sums(flame, name, *options) == expected
        lines = folded(flame(name, *options).stdout)
        for kind, ns in expected.items():
            head = f"{kind};" if len(expected) > 1 else ""
            assert sum(n for stack, n in lines.items() if stack.startswith(head)) == ns // 1000
    kinds = list(expected)
    speedscope = json.loads(flame(name, to="x.speedscope.json").read_text())
    assert [sum(profile["weights"]) for profile in speedscope["profiles"]] == list(expected.values())
    firefox = json.loads(flame(name, to="x.json").read_text(), parse_float=lambda text: int(text.replace(".", "")))
    assert [sum(thread["samples"]["weight"]) for thread in firefox["threads"]] == list(expected.values())
    profile = Pprof(gzip.decompress(flame(name, to="x.pb.gz").read_bytes()))
    assert profile.text(profile.profile.default_sample_type) == ("gpu" if "[GPU]" in expected else "cpu")
    for kind, type_name in (("[CPU]", "cpu"), ("[GPU]", "gpu"), ("[wait]", "wait"), ("[off-CPU]", "off_cpu")):
        assert (type_name in [n for n, _ in profile.types]) == (kind in kinds)
        assert kind not in kinds or profile.sum(type_name) == expected[kind]
    page = json.loads(page_data(flame(name, to="x.html")))
    assert [section["ns"][0] for section in page["sections"]] == list(expected.values())
    groups = ET.parse(flame(name, to="x.svg")).getroot().findall(f"{SVG}g[@class='section']")
    assert [int(group[0].get("data-ns")) for group in groups] == list(expected.values())


def test_cpu_modes_and_windows(flame, cpu_ns):
    assert list(kind_sums(flame, "cpu-all", "--mode", "cpu")) == ["[CPU]", "[off-CPU]"]
    assert list(kind_sums(flame, "cpu-cpu", "--mode", "cpu")) == ["[CPU]"]
    assert list(kind_sums(flame, "cpu-all", "--mode", "gpu")) == ["[GPU]"]
    assert list(kind_sums(flame, "cpu-only")) == ["[CPU]", "[off-CPU]"]
    halves = [kind_sums(flame, "cpu-all", "--mode", "cpu", *o)["[CPU]"] for o in (("--until", "40ms"), ("--since", "40ms"))]
    assert all(halves) and sum(halves) == cpu_ns("cpu-all")
    parts = [flame("cpu-all", "--json", "--mode", "cpu", *o, json_output=True)["sections"][0]["nodes"][0]["total_ns"]
             for o in (("--focus", "dataloader.py"), ("--ignore", "dataloader.py"))]
    assert parts == [30000000, 120000000]


def test_interpreters_stand_back(flame):
    hidden, all_frames = (folded(flame("cpu-all", "--mode", "gpu", *o).stdout) for o in ((), ("--interpreter",)))
    assert all(stack.startswith("<module> (train.py:80);") for stack in hidden)
    assert {stack.replace("main;<module>", "<module>"): ns for stack, ns in all_frames.items()} == hidden != all_frames


def test_processes_that_are_sampled_from_outside_are_themselves(flame):
    """A sampler's session and the recorder's own are one process, and so are their threads."""
    sections = flame("cpu-all", "--json", "--by", "process", json_output=True)["sections"]
    groups = [[n["name"] for n in s["nodes"] if n["parent"] == 0] for s in sections]
    assert groups[0] == ["process 100 (python train.py)", "process 101 (python train.py)"]
    assert groups[1] == groups[2] == groups[0][:1]
    lines = folded(flame("cpu-all", "--by", "thread", "--mode", "cpu").stdout)
    assert {stack.split(";")[1] for stack in lines} == {"python 100", "python 101", "pt_autograd_0 102"}


def test_where_chooses_samples(flame):
    assert kind_sums(flame, "cpu-all", "-w", "thread=101") == {
        "[CPU]": 40000000, "[GPU]": 0, "[wait]": 0, "[off-CPU]": 5000000}
    assert kind_sums(flame, "cpu-all", "--mode", "cpu", "-w", "state=sleeping") == {"[CPU]": 0, "[off-CPU]": 8000000}
    assert kind_sums(flame, "cpu-all", "--mode", "cpu", "-w", "weight_ns>=1ms")["[CPU]"] == 150000000


def test_cpu_time_compared(flame):
    nodes = flame("cpu-all", "--json", "--mode", "cpu", "--diff", "cpu-inside.pitot", json_output=True)["sections"][0]["nodes"]
    assert (nodes[0]["total_ns"], nodes[0]["before_total_ns"]) == (150000000, 110000000)
    worker = next(node for node in nodes if node["name"].startswith("Images.__getitem__"))
    assert (worker["total_ns"], worker["before_total_ns"]) == (40000000, 0)
    sections = flame("cpu-inside", "--json", "--diff", "cpu-none.pitot", json_output=True)["sections"]
    assert [s["nodes"][0]["before_total_ns"] for s in sections][:2] == [0, sections[1]["total_ns"]]
    # what only the other one has is not shown
    assert [s["name"] for s in flame("cpu-none", "--json", "--diff", "cpu-all.pitot", json_output=True)["sections"]] == [
        "[GPU]", "[wait]"]
    assert all(stack.startswith(("[GPU]", "[wait]")) for stack in
               flame("cpu-none", "--format", "folded", "--diff", "cpu-all.pitot").stdout.splitlines())


def test_lines_of_python(flame):
    """A frame for each line of a function, or for each function; comparisons do not look at lines unless told to."""
    by_line, whole = folded(flame("small").stdout), folded(flame("small", "--no-lines").stdout)
    assert any("train (train.py:20);" in stack for stack in by_line) and any("train (train.py);" in stack for stack in whole)
    merged = Counter()
    for stack, us in by_line.items():
        merged[re.sub(r" \((\w+\.py):\d+\)", r" (\1)", stack)] += us
    assert merged.keys() == whole.keys() and all(abs(merged[stack] - us) <= 20 for stack, us in whole.items())
    for name, options, lines in (("many", ("--no-lines",), False), ("many", (), True)):
        data = json.loads(flame(name, *options, to="x.speedscope.json").read_text())
        frames = [frame for frame in data["shared"]["frames"] if frame.get("file", "").endswith("train.py")]
        assert frames and any("line" in frame for frame in frames) == lines
    assert "train (train.py)" in flame("small", "--diff", "other.pitot", "--format", "text").stdout
    assert "train (train.py:20)" in flame("small", "--diff", "other.pitot", "--lines", "--format", "text").stdout
    assert "train (train.py:" not in flame("small", "--diff", "other.pitot", "--format", "text").stdout
    profile = Pprof(gzip.decompress(flame("small", "--no-lines", to="x.pb.gz").read_bytes())).profile
    assert {line.line for location in profile.location for line in location.line} >= {10, 20}


def test_missing_samples_are_explained(flame):
    for options, status in ((), 0), (("--mode", "cpu"), 1):
        assert "no CPU samples: not asked for (--no-cpu)" in flame("cpu-none", *options, status=status).stderr
    without = flame("small", "--mode", "cpu", status=1).stderr
    assert "no CPU samples were recorded: `pitot record --cpu` takes them" in without
    assert "CPU samples" not in flame("small").stderr
    assert "10 CPU samples without a stack" in flame("cpu-cpu").stderr
    assert flame("cpu-all", "--mode", "cpu").stderr.strip().endswith(
        "10 CPU samples without a stack, shown under their threads; "
        "1 interval off the CPU without a stack, shown under its thread")


def test_cpu_samples_as_xpu_perf_has_them(flame, cpu_ns):
    """50 a second, rounded half up, at least one; without sections, beside GPU stacks that end in a marked kernel."""
    samples = folded(flame("cpu-cpu", "--xpu-perf-compat", "--mode", "cpu").stdout)
    exact = {stack: ns for stack, ns in samples.items()}
    assert exact["main+0xf;Images.__getitem__ (images.py:21);list_sort+0x10"] == 2, "40 ms are two samples"
    assert all(number == 1 for stack, number in exact.items() if "Images" not in stack)
    kernels = folded(flame("cpu-cpu", "--xpu-perf-compat", "--mode", "gpu").stdout)
    assert kernels and all(";[GPU_Kernel]_Z4" in stack for stack in kernels)
    both = flame("cpu-cpu", "--xpu-perf-compat").stdout
    assert folded(both) == {**samples, **kernels} and both.splitlines() == sorted(both.splitlines())


def test_modes_and_windows(flame, gpu_ns):
    launches = flame("many", "--json", "--mode", "launches", json_output=True)["sections"]
    assert [s["name"] for s in launches] == ["[launches]"] and launches[0]["count"] == 5000
    halves = [flame("many", "--json", *o, json_output=True)["sections"][0]["total_ns"]
              for o in (("--until", "20ms"), ("--since", "20ms"))]
    assert all(halves) and sum(halves) == gpu_ns("many")
    parts = [flame("many", "--json", *o, json_output=True)["sections"][0]["nodes"][0]["total_ns"]
             for o in (("--focus", "train.py:[12]0"), ("--ignore", "train.py:[12]0"))]
    assert all(parts) and sum(parts) == gpu_ns("many")


def test_where(flame, pitot, flame_recordings):
    lines = pitot("view", "many.pitot", "kernel", "-c", "duration", "-w", "stream=7", "--json", cwd=flame_recordings).stdout
    total = sum(json.loads(line)["duration"] for line in lines.splitlines())
    sections = flame("many", "--json", "-w", "stream=7", "-w", "name=*", json_output=True)["sections"]
    assert sections[0]["total_ns"] == total
    assert sections[1]["total_ns"] == 0, "calls have no stream"
    assert "no column" in flame("many", "-w", "colour=7", status=2).stderr


def test_graph_nodes_stand_below_their_launch(flame):
    lines = folded(flame("graph", "--mode", "gpu").stdout)
    assert lines and all(";cuGraphLaunch;" in stack for stack in lines)


def test_graph_nodes_whose_capture_is_unknown_stand_below_their_launch(flame):
    launched, captured = (flame("graph", "--mode", "gpu", "--graph-stacks", which) for which in ("launch", "capture"))
    assert launched.stdout == captured.stdout and "900 operations of graphs stand below their launches" in captured.stderr


def test_without_stacks_threads_stand_for_them(flame):
    result = flame("plain")
    assert "no call stacks were recorded" in result.stderr
    heads = {tuple(stack.split(";")[:3]) for stack in folded(result.stdout)}
    assert ("[GPU]", "[worker-1]", "cuLaunchKernel") in heads and ("[wait]", "[main]", "cudaDeviceSynchronize") in heads


def test_xpu_perf_samples(flame):
    lines = flame("many", "--xpu-perf-compat").stdout.splitlines()
    assert all(re.search(r";\[GPU_Kernel\][^;]* [1-9]\d*$", line) for line in lines)
    assert any(re.match(r"_start\+0x24;main\+0xf;train \(train.py:\d+\);.*\+0x2b;", line) for line in lines), lines[0]


# --- formats as their readers want them


def test_speedscope_schema(flame):
    data = json.loads(flame("many", to="x.speedscope.json").read_text())
    assert data["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert data["activeProfileIndex"] < len(data["profiles"]) and isinstance(data["name"], str)
    for frame in data["shared"]["frames"]:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
    for profile in data["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled" and profile["unit"] == "nanoseconds"
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
        assert all(0 <= i < len(data["shared"]["frames"]) for sample in profile["samples"] for i in sample)


def test_firefox_tables(flame):
    data = json.loads(flame("many", to="x.json").read_text())
    colors = {"transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta", "red",
              "lightred", "darkgrey", "grey"}
    assert data["meta"]["preprocessedProfileVersion"] == 48
    assert all(c["color"] in colors and c["subcategories"] for c in data["meta"]["categories"])
    for thread in data["threads"]:
        for name in ("samples", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "markers"):
            for column, values in thread[name].items():
                if isinstance(values, list):
                    assert len(values) == thread[name]["length"], (name, column)
        stacks, frames, functions = thread["stackTable"], thread["frameTable"], thread["funcTable"]
        assert all(p is None or p < i for i, p in enumerate(stacks["prefix"]))
        assert all(0 <= f < frames["length"] for f in stacks["frame"])
        assert all(0 <= f < functions["length"] for f in frames["func"])
        assert all(0 <= s < len(thread["stringArray"]) for s in functions["name"])
        assert all(0 <= s < stacks["length"] for s in thread["samples"]["stack"])
        assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
        assert isinstance(thread["pid"], str) and thread["samples"]["weightType"] == "tracing-ms"


def test_pprof_has_mappings_inlines_and_labels(flame):
    profile = Pprof(gzip.decompress(flame("many", "--by", "scope", to="x.pb.gz").read_bytes()))
    assert profile.types == [("gpu", "nanoseconds"), ("wait", "nanoseconds"), ("launch_time", "nanoseconds"),
                             ("launches", "count")]
    assert profile.sum("launches") == 5000
    builds = {profile.text(m.filename): profile.text(m.build_id) for m in profile.profile.mapping}
    assert builds["/opt/torch/lib/libtorch_cpu.so"] == "aa112233445566778899aabbccddeeff00112233"
    assert builds["/opt/vendor/libstripped.so"] == ""
    inlined = [location for location in profile.profile.location if len(location.line) > 1]
    assert inlined and all(location.address and location.mapping_id for location in inlined)
    lines = inlined[0].line
    assert [profile.text(profile.functions[line.function_id].filename) for line in lines] == [
        "/build/aten/TensorIterator.h", "/build/aten/ops.cpp"] and lines[0].line == 77
    keys = Counter(key for sample in profile.profile.sample for key, _ in profile.labels(sample))
    assert set(keys) == {"process", "thread", "device", "stream", "scope"}
    assert set(keys.values()) == {len(profile.profile.sample)}


def test_pprof_without_gz_and_to_standard_output(flame):
    plain = flame("small", to="x.pb").read_bytes()
    assert gzip.decompress(flame("small", to="x.pb.gz").read_bytes()) == plain
    assert flame("small", "--format", "pprof", text=False).stdout == plain
    assert flame("small", "--format", "pprof", "-o", "-", text=False).stdout == plain


# --- comparisons


def test_comparison_has_both_totals(flame, gpu_ns):
    nodes = flame("small", "--json", "--diff", "other.pitot", json_output=True)["sections"][0]["nodes"]
    assert (nodes[0]["total_ns"], nodes[0]["before_total_ns"]) == (gpu_ns("small"), gpu_ns("other"))
    same = flame("small", "--json", "--diff", "small.pitot", json_output=True)["sections"][0]["nodes"]
    assert all(node["total_ns"] == node["before_total_ns"] for node in same)
    before = after = 0
    for line in flame("small", "--mode", "gpu", "--diff", "other.pitot").stdout.splitlines():
        _, then, now = line.rsplit(" ", 2)
        before, after = before + int(then), after + int(now)
    assert before == (gpu_ns("other") + 500) // 1000 and after == (gpu_ns("small") + 500) // 1000


def test_comparison_is_coloured(flame):
    classes = Counter(re.findall(r'<g class="f (\w)\d"', flame("small", "--diff", "other.pitot", to="x.svg").read_text()))
    assert classes["g"] and classes["s"]
    steps = json.loads(page_data(flame("small", "--diff", "other.pitot", to="x.html")))["sections"][0]["step"]
    assert min(steps) < 0 < max(steps) and max(map(abs, steps)) <= 5
    same = flame("small", "--diff", "small.pitot", to="x.svg").read_text()
    assert set(re.findall(r'<g class="f (\w+)"', same)) == {"d0"}


# --- options


@pytest.mark.parametrize("options, message", [
    (("--mode", "tpu"), "tpu"),
    (("-o", "x.png"), "no format has files like 'x.png'"),
    (("--format", "png"), "'--format' takes text, folded, svg, html, pprof, speedscope, firefox or otlp, not 'png'"),
    (("--format", "text", "-o", "x.svg"), "text goes to standard output"),
    (("--diff", "small.pitot", "--format", "pprof"), "pprof cannot show a comparison"),
    (("--xpu-perf-compat", "-o", "x.svg"), "--xpu-perf-compat is a kind of folded stacks: name the file x.folded"),
    (("--file-mode", "0644"), "--file-mode needs -o FILE"),
    (("--xpu-perf-compat", "--mode", "wait"), "--xpu-perf-compat knows only"),
    (("--min-percent", "many"), "'many' is not a number from 0 to 100"),
    (("--focus", "a(b"), "'a(b' is not a regular expression"),
    (("--since", "2s", "--until", "1s"), "--since must be before --until"),
    (("--json", "--format", "svg"), "--json goes to standard output"),
])
def test_wrong_usage(flame, options, message):
    result = flame("small", *options, status=2)
    assert message in result.stderr and not result.stdout


def test_files_are_not_replaced(flame, pitot, flame_recordings, tmp_path):
    path = flame("small", to="x.svg")
    before = path.read_bytes()
    assert "exists" in pitot("flame", "many.pitot", "-o", path, cwd=flame_recordings, status=1).stderr
    assert path.read_bytes() == before and sorted(tmp_path.iterdir()) == [path]


def test_on_a_terminal_it_is_a_tree(program, environment, flame_recordings):
    mine, theirs = pty.openpty()
    process = subprocess.Popen([program, "flame", "small.pitot"], stdout=theirs, stderr=subprocess.DEVNULL, cwd=flame_recordings,
                               env=environment)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(mine, 65536)
        except OSError:
            break
        text += piece
        if not piece:
            break
    os.close(mine)
    assert process.wait() == 0
    assert "of GPU time in" in text.decode() and "█" in text.decode() and "\x1b[" in text.decode()


# --- pictures, in a browser


def test_page_zooms_and_searches(flame, browser, tmp_path):
    page = flame("many", to="x.html")
    data = json.loads(page_data(page))
    result = show(browser, page, tmp_path, """
        const s = flame.sections[0], out = {}, key = (k) => window.dispatchEvent(new KeyboardEvent("keydown", { key: k }));
        const at = (i) => { /* a click in the middle of a box */
            const r = s.canvas.getBoundingClientRect(), from = s.start[s.zoomed], whole = s.source.ns[s.zoomed];
            const x = (s.start[i] + s.source.ns[i] / 2 - from) / whole * r.width, y = (s.source.depth[i] + 0.5) * flame.row;
            return new MouseEvent("click", { clientX: r.left + x, clientY: r.top + y, bubbles: true });
        };
        out.start = s.zoomed;
        s.canvas.dispatchEvent(at(4));
        out.clicked = s.zoomed;
        out.name = flame.name_of(s, s.zoomed);
        out.note = s.note.textContent;
        s.canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: 60, clientY: s.canvas.getBoundingClientRect().top + 5 }));
        out.tip = document.getElementById("tip").innerText;
        out.can_reset = !document.getElementById("reset").disabled;
        key("Escape");
        out.reset = s.zoomed;
        flame.search("kernel");
        out.found = s.found_ns / s.total;
        out.found_note = s.note.textContent;
        const pixel = s.canvas.getContext("2d").getImageData(20, 20, 1, 1).data;
        out.painted = pixel[3];
        out.height = s.canvas.clientHeight;
        out.theme = document.documentElement.getAttribute("data-theme");
        document.getElementById("theme").click();
        out.other_theme = document.documentElement.getAttribute("data-theme");
        return out;
    """, "</script>\n</body>")
    frame = data["frames"][data["sections"][0]["frame"][4]]
    assert (result["start"], result["clicked"], result["reset"]) == (0, 4, 0)
    assert result["name"] == frame[0] and frame[0] in result["note"] and result["can_reset"]
    assert "[GPU]" in result["tip"] and "100.0% of GPU time" in result["tip"] and "operations" in result["tip"]
    assert 0 < result["found"] < 1 and "found" in result["found_note"]
    assert result["painted"] > 128 and result["height"] % 19 == 0
    assert 19 * 4 < result["height"] <= 19 * (max(data["sections"][0]["depth"]) + 1), "levels that can be seen"
    assert {result["theme"], result["other_theme"]} == {"light", "dark"}


def test_picture_zooms_and_searches(flame, browser, tmp_path):
    result = show(browser, flame("small", "--interpreter", to="x.svg"), tmp_path, """
        const s = flame.sections[0], out = {}, frame = s.frames[5];
        const click = (g) => g.dispatchEvent(new MouseEvent("click", { bubbles: true }));
        out.before = frame.width;
        click(frame.g);
        out.after = Number(frame.rect.getAttribute("width"));
        out.whole = s.width;
        out.hidden = s.frames.filter((f) => f.g.classList.contains("off")).length;
        out.label = frame.text.textContent;
        out.name = frame.name;
        out.title = frame.title;
        click(document.getElementById("reset"));
        out.reset = Number(frame.rect.getAttribute("width"));
        out.left = s.frames.filter((f) => f.g.classList.contains("off")).length;
        flame.search("main");
        out.found = document.getElementById("found").textContent;
        out.hits = s.frames.filter((f) => f.g.classList.contains("hit")).length;
        return out;
    """, "]]></script>")
    assert result["before"] < result["whole"] == result["after"] and result["reset"] == result["before"]
    assert result["hidden"] > 0 == result["left"]
    assert result["label"] == result["name"] and "of GPU time" in result["title"]
    assert result["found"].startswith("found: 100.0% of GPU time") and result["hits"] == 1


SEARCHES = [
    # text, names with a match, names without
    ("Main", ["main", "domain (x.py:3)"], ["mai", ""]),
    ("^main", ["main", "main_loop"], ["domain"]),
    ("main$", ["main", "domain"], ["main_loop"]),
    ("^main$", ["main"], ["domain", "main_loop"]),
    ("gemm.*64", ["sgemm_64", "gemm64", "a_gemm_128x64_tn"], ["64_gemm", "gemm"]),
    ("^a.*b$", ["ab", "axxb"], ["a", "abc", "xab"]),
    ("^aba.*ba$", ["ababa", "ababba"], ["aba", "abaxb"]),
    ("a|^b$", ["cat", "b"], ["bb", "x"]),
    ("a|", ["cat"], ["x"]),
    ("f(int*)", ["f(int*)"], ["f(int)"]),
    ("[no launch]", ["[no launch]"], ["n"]),
    ("train.py", ["step (train.py:60)"], ["trainxpy"]),
    (r"a\|b", ["a|b"], ["a", "b"]),
    (r"\^x\.*", ["^x.*"], ["x"]),
    (r"$x", ["$x"], ["x"]),
    ("(a+)+$", ["(a+)+"], ["a" * 5000]),
    ("a.*" * 300 + "b", ["a" * 300 + "b"], ["a" * 20000]),
]


@pytest.mark.parametrize("suffix, end", [("html", "</script>\n</body>"), ("svg", "]]></script>")])
def test_search_texts(flame, browser, tmp_path, suffix, end):
    """The search of a page: parts, ends and alternatives of names, in a time that no text can make long."""
    result = show(browser, flame("many", to=f"x.{suffix}"), tmp_path, f"""
        const matching = (text, names) => names.filter(name_test(text));
        return {json.dumps(SEARCHES)}.map(([text, yes, no]) => [text, matching(text, yes), matching(text, no)]);
    """, end)
    assert result == [[text, names, []] for text, names, _ in SEARCHES]


def test_page_says_what_a_search_cannot_see(flame, browser, tmp_path):
    """What is left out of a picture has no names to look at, so what was found is the least that there is."""
    page = flame("many", to="x.html")
    page.write_text(page.read_text().replace('"rest":{}', '"rest":{"9":7}', 1))
    result = show(browser, page, tmp_path, """
        const s = flame.sections[0], out = {}, notes = [];
        for (const text of ["no such frame", "train"]) {
            flame.search(text);
            notes.push(s.note.textContent);
        }
        return notes;
    """, "</script>\n</body>")
    assert result[0].startswith("found at least 0.0%") and result[1].startswith("found 100.0%"), result


def test_picture_says_what_a_search_cannot_see(flame, browser, tmp_path):
    result = show(browser, flame("many", to="x.svg"), tmp_path, """
        const found = (text) => { flame.search(text); return document.getElementById("found").textContent; };
        return [flame.sections[0].frames.filter((f) => f.rest).length, found("smaller frames"), found("train")];
    """, "]]></script>")
    assert result[0] > 0
    assert result[1].startswith("found: at least 0.0% of GPU time") and result[2].startswith("found: 100.0% of GPU time")


def test_page_shows_self_time_and_fits_any_canvas(flame, browser, tmp_path):
    page = flame("many", to="x.html")
    result = show(browser, page, tmp_path, """
        const s = flame.sections[0], out = {}, sums = s.self.reduce((sum, ns) => sum + ns, 0);
        const of = (i) => { /* the tooltip of a box, zoomed to */
            flame.zoom(s, i);
            const r = s.canvas.getBoundingClientRect(), y = r.top + (s.source.depth[i] + 0.5) * flame.row;
            s.canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: r.left + 5, clientY: y }));
            return document.getElementById("tip").innerText;
        };
        out.whole = sums === s.total;
        const some = s.self.findIndex((ns, i) => i && ns > 0 && ns < s.source.ns[i]);
        out.some = some < 0 ? "self: " : of(some);
        const leaf = s.self.findIndex((ns, i) => i && ns === s.source.ns[i]);
        out.leaf = of(leaf);
        Object.defineProperty(window, "devicePixelRatio", { value: 4000 });
        window.dispatchEvent(new Event("resize"));
        out.height = s.canvas.height;
        return out;
    """, "</script>\n</body>")
    assert result["whole"] and "self: " in result["some"] and "self: " not in result["leaf"]
    assert 8000 < result["height"] <= 16384


@pytest.mark.parametrize("name, options", [("cpu-all", ()), ("cpu-all", ("--inverted",)), ("many", ()), ("many", ("--diff", "small.pitot")),
                                           ("cpu-deep", ())])
def test_page_has_callers_and_callees_of_a_function(flame, browser, tmp_path, name, options):
    """All of a function's time is in both, once; recursion does not count again."""
    page = flame(name, *options, to="x.html")
    wanted = {"cpu-all": "step (train.py:60)", "many": "at::native::add_out", "cpu-deep": "search (search.py:7)"}[name]
    result = show(browser, page, tmp_path, """
        const wanted = %s, out = { views: [] }, find = (id) => document.getElementById(id);
        out.before = find("around").disabled;
        flame.search("^" + wanted.replace(/[()]/g, "\\\\$&") + "$");
        out.found = flame.sections.filter((s) => s.found).map((s) => s.found_ns);
        find("around").click();
        for (const s of flame.views()) {
            const names = (keep) => [...s.start.keys()].filter(keep).map((i) => flame.name_of(s, i));
            out.views.push({ upwards: s.upwards, ns: s.source.ns[0], sum: s.self.reduce((sum, ns) => sum + ns, 0), name: flame.name_of(s, 0),
                             compared: !!s.source.step, next: names((i) => s.source.depth[i] === 1), least: Math.min(...s.self), height: s.canvas.clientHeight });
        }
        out.text = find("function").innerText;
        out.hidden = find("graphs").hidden;
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
        out.back = find("function").hidden && !find("graphs").hidden && flame.views() === flame.sections;
        return out;
    """ % json.dumps(wanted), "</script>\n</body>")
    views = result["views"]
    assert result["before"] and result["hidden"] and result["back"]
    assert [view["upwards"] for view in views] == [True, False] * len(result["found"])
    assert [view["ns"] for view in views] == [ns for ns in result["found"] for _ in range(2)]
    for view in views:
        assert view["name"] == wanted and view["sum"] == view["ns"] and view["least"] >= 0 and view["height"] >= 19
    assert f"{wanted}\n" in result["text"] and "callers" in result["text"] and "callees" in result["text"]
    # Of what is gone the page has no boxes, so that a function's change is not known.
    assert not any(view["compared"] for view in views) and ("not compared" in result["text"]) == ("--diff" in options)
    if name == "cpu-all":
        assert views[0]["next"] == ["<module> (train.py:80)"] and views[1]["next"] == ["Linear.forward (linear.py:125)"]
    if name == "cpu-deep":
        assert views[0]["next"] == ["<module> (search.py:20)"] and views[0]["ns"] == 30e6


def test_titles_are_one_line(flame):
    for suffix in ("svg", "html"):
        text = flame("small", "--title", "python -c \nimport\ttorch\x01", to=f"x.{suffix}").read_text()
        assert "python -c  import torch\ufffd" in text


def test_nothing_is_fetched(flame):
    for name in ("x.svg", "x.html"):
        text = flame("many", to=name).read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "@import" not in text and "url(" not in text


# --- samples of kernels


def test_stalls_have_the_same_samples_in_every_format(flame, browser, tmp_path):
    printed = flame("stalls", "--mode", "stalls", "--json", json_output=True)
    [section] = printed["sections"]
    assert (section["total_samples"], section["count"], section["unmatched"]) == (970, 970, 20)
    assert "by their GPU time" in section["attribution"]
    assert sum(node["self_samples"] for node in section["nodes"]) == 970 == section["nodes"][0]["total_samples"]
    stacks = folded(flame("stalls", "--mode", "stalls", to="x.folded").read_text())
    assert sum(stacks.values()) == 970
    assert stacks["[thread];cuLaunchKernel;smooth;kernel.cu:16;polynomial (math.h:8);twice (math.h:3);waiting out a fixed latency"] == 40
    [profile] = json.loads(flame("stalls", "--mode", "stalls", to="x.speedscope.json").read_text())["profiles"]
    assert profile["unit"] == "none" and sum(profile["weights"]) == profile["endValue"] == 970
    [thread] = json.loads(flame("stalls", "--mode", "stalls", to="x.json").read_text())["threads"]
    assert thread["samples"]["weightType"] == "samples" and sum(thread["samples"]["weight"]) == 970
    picture = flame("stalls", "--mode", "stalls", to="x.svg").read_text()
    assert "970 samples of kernels" in picture and "by their GPU time" in picture and 'class="f stall' in picture
    page = flame("stalls", "--mode", "stalls", to="x.html")
    assert json.loads(page_data(page))["sections"][0]["ns"][0] == 970 and "by their GPU time" in page.read_text()
    inverted = flame("stalls", "--mode", "stalls", "--inverted", "--by", "device", "--json", json_output=True)["sections"][0]
    assert inverted["nodes"][0]["total_samples"] == 970
    found = show(browser, page, tmp_path, "flame.search('twice'); return document.body.textContent", "</script>\n</body>")
    assert "found 5.2% (50) in 2 frames" in found


def test_stalls_in_pprof_beside_gpu_time(flame):
    for options in (["--mode", "stalls"], []):
        profile = Pprof(gzip.decompress(flame("stalls", *options, to="x.pb.gz").read_bytes()))
        assert ("stalls", "count") in profile.types and profile.sum("stalls") == 970
        index = [name for name, _ in profile.types].index("stalls")
        lines = {(profile.text(profile.functions[line.function_id].name), profile.text(profile.functions[line.function_id].filename),
                  line.line) for sample in profile.profile.sample if sample.value[index]
                 for i in sample.location_id for line in profile.locations[i].line}
        assert {("smooth", "/src/kernel.cu", 16), ("twice", "/src/math.h", 3), ("gather", "/src/kernel.cu", 7)} <= lines
        assert any(("device", "GPU 0 (NVIDIA H200)") in profile.labels(sample) for sample in profile.profile.sample)


def test_stalls_compared(flame):
    [section] = flame("stalls", "--mode", "stalls", "--diff", "small.pitot", "--json", json_output=True)["sections"]
    assert (section["nodes"][0]["total_samples"], section["nodes"][0]["before_total_samples"]) == (970, 0)


def test_no_stalls_were_recorded(flame):
    failed = flame("small", "--mode", "stalls", status=1)
    assert "the recording has no samples of kernels: `pitot record --engine pc-sampling` takes them" in failed.stderr


# --- in one step: pitot record --flame ---

#: The file, and how it begins.
IN_ONE_STEP = {"merged.folded": b"[", "x.svg": b"<svg", "x.html": b"<!DOCTYPE html>", "x.pb.gz": b"\x1f\x8b", "x.speedscope.json": b"{", "x.json": b"{"}


@pytest.fixture
def tape(build, source):
    """A command that plays a tape of a training run."""
    player = build / "standin/tape-play"
    if not player.exists():
        pytest.skip("built without CUDA's headers")
    return [player, "--now", source / "tests/data/tapes/train.tape"]


@pytest.mark.parametrize("name", IN_ONE_STEP)
def test_one_step_writes_the_flame_graph_only(pitot, tape, tmp_path, name):
    said = pitot("record", "--no-cpu", "--flame", name, "--", *tape)
    assert [path.name for path in tmp_path.iterdir()] == [name] and IN_ONE_STEP[name] in (tmp_path / name).read_bytes()[:200]
    assert "2,092 kernels" in said.stderr and f"{name}: " in said.stderr and "pitot report" not in said.stderr


def test_one_step_with_json(pitot, tape, tmp_path):
    said = pitot("record", "--no-cpu", "--json", "--flame", "x.svg", "--", *tape)
    assert json.loads(said.stderr)["recording"] and [path.name for path in tmp_path.iterdir()] == ["x.svg"]


def test_one_step_keeps_a_recording_that_has_a_name(pitot, tape, tmp_path):
    pitot("record", "--gpu-only", "--flame", "x.folded", "-o", "x.pitot", "--", *tape)
    first = (tmp_path / "x.folded").read_text()
    assert pitot("flame", "x.pitot", "--mode", "gpu", "-o", "-", "--format", "folded").stdout == first
    pitot("record", "--gpu-only", "--flame", "x.folded", "--xpu-perf-compat", "-f", "-o", "x.pitot", "--", *tape)
    assert "[GPU_Kernel]" in (tmp_path / "x.folded").read_text()


def test_one_step_passes_the_status_on(pitot, tape, tmp_path):
    pitot("record", "--no-cpu", "--flame", "x.svg", "-q", "--", "sh", "-c", '"$@"; exit 7', "sh", *tape, status=7)
    assert (tmp_path / "x.svg").exists()
    said = pitot("record", "--no-cpu", "--flame", "nothing.svg", "--", "true", status=1)
    assert "nothing to show" in said.stderr and "the recording is kept: true-" in said.stderr
    pitot("record", "--no-cpu", "--flame", "nothing.svg", "--", "false", status=1)
    assert len(list(tmp_path.glob("*.pitot"))) == 2 and not (tmp_path / "nothing.svg").exists()


@pytest.mark.parametrize("options, status, text", [
    (["--flame", "x.bad"], 2, "--flame: no format has files like 'x.bad'; there are folded (.folded), svg"),
    (["--flame", "-"], 2, "--flame takes a file: standard output is the command's"),
    (["--flame", "no/x.svg"], 1, "cannot write 'no/x.svg': No such file or directory"),
    (["--flame", "there.svg"], 1, "'there.svg' exists"),
    (["--flame", "x.svg", "--xpu-perf-compat"], 2, "--xpu-perf-compat is a kind of folded stacks"),
    (["--xpu-perf-compat"], 2, "--xpu-perf-compat needs --flame FILE.folded"),
    (["--flame", "x.svg", "--no-recording", "--log", "gpufl=logs"], 2, "--flame needs a recording"),
])
def test_one_step_fails_before_the_command_starts(pitot, tmp_path, options, status, text):
    (tmp_path / "there.svg").write_text("mine")
    assert text in pitot("record", *options, "--", "touch", "ran", status=status).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there.svg"] and (tmp_path / "there.svg").read_text() == "mine"
