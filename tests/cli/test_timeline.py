"""`pitot export -o x.html`: the timeline's columns against the recording's rows, and the page in a browser."""
import json
import re
from collections import Counter, defaultdict

import pytest

from exported import PATTERNS, make_exported, timed, view
from flame_page import show
from timeline_page import of_kind, read_page, stack_of

END = "</script>\n</body>"
GPU_WORK = {"kernel": "kernels", "memcpy": "copies", "memset": "sets"}
READY = "while (!window.timeline) await new Promise((done) => setTimeout(done, 5)); const t = window.timeline;"


@pytest.fixture(scope="module", params=PATTERNS + ("varied", "processes"))
def recording(request, make_recording, tmp_path_factory):
    return make_exported(make_recording, request.param, tmp_path_factory.mktemp(request.param) / "r.pitot")


@pytest.fixture(scope="module")
def named(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("names") / "r.pitot", "names")


@pytest.fixture(scope="module")
def paged(make_recording, tmp_path_factory):
    """See page_recording.c."""
    return make_recording(tmp_path_factory.mktemp("page") / "r.pitot", "page")


@pytest.fixture(scope="module")
def train(make_recording, tmp_path_factory):
    return make_exported(make_recording, "train", tmp_path_factory.mktemp("train") / "r.pitot")


def export(pitot, recording, tmp_path, *options):
    pitot("export", recording, "-o", tmp_path / "x.html", "--force", *options)
    return read_page(tmp_path / "x.html")


# --- columns ---


def test_the_page_conserves_the_recording(pitot, recording, tmp_path):
    _, slices, readings = export(pitot, recording, tmp_path)
    for table in ("kernel", "memcpy", "memset", "graph_launch"):
        assert Counter((s["start_ns"], s["duration"], s["id"]) for s in of_kind(slices, table)) == \
            Counter((r["start_ns"], r["duration"], r["stream"]) for r in timed(view(pitot, recording, table)))
    for table in ("api_call", "synchronization", "overhead"):
        assert Counter((s["start_ns"], s["duration"]) for s in of_kind(slices, table)) == \
            Counter((r["start_ns"], r["duration"]) for r in timed(view(pitot, recording, table)))
    assert Counter((s["start_ns"], s["id"]) for s in of_kind(slices, "api_call")) == \
        Counter((r["start_ns"], r["thread"]) for r in view(pitot, recording, "api_call"))
    levels = {of: times for of, times in readings.items() if of[1].startswith("memory: ")}
    assert Counter(time for of, times in readings.items() for time, _ in times if of not in levels) == \
        Counter(r["time_ns"] for r in view(pitot, recording, "counter_sample"))
    assert Counter(time for times in levels.values() for time, _ in times) <= Counter(r["time_ns"] for r in view(pitot, recording, "allocation"))


def test_sums_are_those_of_the_report(pitot, recording, tmp_path):
    _, slices, _ = export(pitot, recording, tmp_path)
    gpus = pitot("report", recording, "--json", json_output=True)["gpus"]
    for table, key in GPU_WORK.items():
        sums = defaultdict(lambda: [0, 0])
        for each in of_kind(slices, table):
            sums[each["group"]][0] += 1
            sums[each["group"]][1] += each["duration"]
        expected = {f"GPU {gpu['gpu']}": [gpu["busy"][key]["count"], gpu["busy"][key]["sum_ns"]] for gpu in gpus}
        assert {**{name: [0, 0] for name in expected}, **sums} == expected


def test_work_leads_to_its_call(pitot, recording, tmp_path):
    """The ids at both ends of an arrow, against a join of the tables."""
    _, slices, _ = export(pitot, recording, tmp_path)
    calls = {s["correlation"]: s["start_ns"] for s in of_kind(slices, "api_call")}
    assert len(calls) == len(of_kind(slices, "api_call")), "correlation ids of calls are not unique"
    recorded = {(r["pid"], r["correlation"]): r["start_ns"] for r in view(pitot, recording, "api_call")}
    said = pitot("export", recording, "-o", tmp_path / "y.html", "--json", json_output=True)
    linked = 0
    for table in (*GPU_WORK, "graph_launch"):
        work = of_kind(slices, table)
        linked += sum(s["correlation"] in calls for s in work)
        assert Counter((s["start_ns"], calls.get(s["correlation"])) for s in work) == \
            Counter((r["start_ns"], recorded.get((r["pid"], r["correlation"]))) for r in timed(view(pitot, recording, table)))
    assert linked == said["arrows"] > 0


def test_slices_of_a_row_follow_one_another_and_nest(pitot, recording, tmp_path):
    rows = defaultdict(list)
    for each in export(pitot, recording, tmp_path)[1]:
        rows[each["group"], each["track"], each["track_name"], each["row"]].append(each)
    for (*track, (lane, depth)), slices in rows.items():
        outer = rows.get((*track, (lane, depth - 1)), [])
        for before, after in zip(slices, slices[1:]):
            assert before["start_ns"] + before["duration"] <= after["start_ns"]
        for each in slices if depth else []:
            assert any(o["start_ns"] <= each["start_ns"] and each["start_ns"] + each["duration"] <= o["start_ns"] + o["duration"]
                       for o in outer), each
        assert depth == 0 or track[1] != "stream", "work of a stream does not nest"


def test_the_varied_recording(pitot, make_recording, tmp_path):
    path = make_exported(make_recording, "varied", tmp_path / "r.pitot")
    data, slices, readings = export(pitot, path, tmp_path)
    assert (data["title"], data["host"]) == ("./worker --rank 1", "testhost")
    assert data["groups"][0] == ["GPU 0", "NVIDIA H200"] and ["app 100", "./train --epochs 1"] in data["groups"]
    [loss] = data["loss"]
    assert loss[:3] == ["app 100", "ring_full", 17] and of_kind(slices, "loss")[0]["details"]["count"] == 17
    power = readings["GPU 0", "gpu_power"]
    assert [value for _, value in power[:2]] == [345.678, 346.678]
    assert [t[5]["unit"] for t in data["tracks"] if t[2] == "gpu_power"] == ["W"]
    configs = {r["name"]: r for r in view(pitot, path, "kernel_config")}
    saxpy = next(s for s in of_kind(slices, "kernel") if s["name"] == "saxpy")
    config = configs["_Z5saxpyifPfS_"]
    assert saxpy["details"]["name"] == "saxpy(int, float, float*, float*)"
    assert saxpy["details"]["grid"] == [config[f"grid_{axis}"] for axis in "xyz"]
    assert saxpy["details"]["block"] == [config[f"block_{axis}"] for axis in "xyz"]
    assert Counter(s["details"]["bytes"] for s in of_kind(slices, "memcpy")) == \
        Counter(r["bytes"] for r in timed(view(pitot, path, "memcpy")))
    assert saxpy["details"]["registers per thread"] == config["registers"]
    for key in ("static", "dynamic"):
        assert Counter((s["start_ns"], s["details"][f"{key} shared bytes"]) for s in of_kind(slices, "kernel") if s["name"] != "(unknown kernel)") == \
            Counter((r["start_ns"], configs[r["config"]][f"{key}_shared_bytes"]) for r in timed(view(pitot, path, "kernel")) if r["config"])
    assert [s["details"] for s in of_kind(slices, "memcpy") if "from device" in s["details"]] == [{"bytes": 4096, "from device": 0, "to device": 1}]
    [allocated] = of_kind(slices, "allocation")
    assert allocated["details"] == {"bytes": 2 << 20, "address": 139637976727552, "device": 0}
    syncs = view(pitot, path, "synchronization")
    assert Counter((s["details"]["context"], s["details"].get("stream"), s["details"].get("event")) for s in of_kind(slices, "synchronization")) == \
        Counter((r["context"], r["stream"], r["event"]) for r in timed(syncs))
    assert Counter((s["details"]["event"], s["id"]) for s in of_kind(slices, "cuda_event")) == \
        Counter((r["event"], r["stream"]) for r in view(pitot, path, "cuda_event") if r["time_ns"] is not None)
    assert Counter((s["details"].get("graph"), s["details"].get("graph node")) for s in of_kind(slices, "kernel")) == \
        Counter((r["graph"], r["graph_node"]) for r in timed(view(pitot, path, "kernel")))
    failed = [s for s in of_kind(slices, "api_call") if "result" in s["details"]]
    assert Counter(s["details"]["result"] for s in failed) == \
        Counter(r["result"] for r in view(pitot, path, "api_call") if r["result"] is not None)
    [open_range] = [s for s in of_kind(slices, "nvtx") if s["name"] == "never ends"]
    assert open_range["details"]["finished"] is False
    assert {s["row"][0] for s in of_kind(slices, "nvtx") if s["track"] == "ranges"} == {0, 1}, "ranges that cross"


def test_stacks_are_those_of_chrome_json(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", kernels=900, stacks=40)
    data, slices, _ = export(pitot, path, tmp_path)
    pitot("export", path, "-o", tmp_path / "x.json")
    trace = json.loads((tmp_path / "x.json").read_text())
    frames = trace["stackFrames"]

    def path_of(node):
        while node:
            yield frames[node]["name"]
            node = str(frames[node].get("parent", ""))

    def without_interpreter(path):
        """Frames that only lead to a Python frame are left out."""
        python = next((i for i, name in enumerate(path) if ".py:" in name), len(path))
        return (*path[:python], *(name for name in path[python:] if name not in ("main", "_start")))

    expected = Counter((e["name"], without_interpreter(list(path_of(str(e["sf"]))))) for e in trace["traceEvents"] if "sf" in e)
    calls = of_kind(slices, "api_call")
    assert Counter((s["name"], tuple(stack_of(data, s["details"]["stack"]))) for s in calls) == expected and len(expected) > 40
    bare, slices, _ = export(pitot, path, tmp_path, "--no-stacks")
    assert not bare["nodes"] and not [s for s in slices if "stack" in s["details"]] and len(of_kind(slices, "api_call")) == len(calls)


@pytest.mark.parametrize("options", [["--since", "3ms"], ["--until", "2ms"], ["--since", "1ms", "--until", "2ms"], ["--kernel", "*gemm*"],
                                     ["--scope", "forward"]], ids=lambda options: options[0] + str(len(options)))
def test_filters(pitot, train, tmp_path, options):
    """What other formats leave out is left out here."""
    data, slices, _ = export(pitot, train, tmp_path, *options)
    pitot("export", train, "-o", tmp_path / "x.json", "--force", *options)
    events = json.loads((tmp_path / "x.json").read_text())["traceEvents"]
    expected = Counter(e["cat"] for e in events if e["ph"] == "X")
    assert 0 < len(of_kind(slices, "kernel")) == expected["kernel"] < 3000
    assert len(of_kind(slices, "api_call")) == expected["cuda_driver"] + expected["cuda_runtime"]
    assert [options[1] in note for note in data["notes"]] == ([] if options[0] in ("--since", "--until") else [True])


def test_too_many_rows_are_counted(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "hostile_pushes")
    _, slices, _ = export(pitot, path, tmp_path)
    said = pitot("export", path, "-o", tmp_path / "y.html", "--json", json_output=True)
    assert len([s for s in slices if s["track"] == "thread"]) == said["written"]["nvtx"] + said["written"].get("api_call", 0)
    assert {s["row"] for s in of_kind(slices, "nvtx")} <= {(0, depth) for depth in range(512)} and said["crowded"] > 1000


def test_scopes(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "scopes")
    _, slices, _ = export(pitot, path, tmp_path)
    rows = view(pitot, path, "nvtx")
    begun = [r for r in rows if r["kind"] in ("push", "start", "mark")]
    assert Counter(s["start_ns"] for s in of_kind(slices, "nvtx")) == Counter(r["time_ns"] for r in begun)
    assert {s["details"]["domain"] for s in of_kind(slices, "nvtx") if s["details"].get("scope")} == {"pitot"}
    assert [s["details"]["continues"] for s in slices if "continues" in s["details"]]
    ranges = [s for s in of_kind(slices, "gpu_range")]
    for each in ranges:
        inside = [s for s in of_kind(slices, "kernel") if s["id"] == each["id"] and s["start_ns"] >= each["start_ns"]
                  and s["start_ns"] + s["duration"] <= each["start_ns"] + each["duration"]]
        assert inside, each


def test_names_cannot_leave_their_element(pitot, named, tmp_path):
    data, slices, readings = export(pitot, named, tmp_path)
    text = (tmp_path / "x.html").read_text()
    assert re.findall(r"<(/?script)\b[^>]*>", text, re.I) == ["script", "/script"] * 3 and "<!--" not in text and "onerror=\"" not in text
    messages = {s["name"] for s in of_kind(slices, "nvtx")}
    assert {"</script><script>window.hacked = 1</script>", "<!--<script>", "(no message)", "__proto__"} <= messages
    assert "line\u2028separator\u2029s, \r\n\t" in messages and "invalid \ufffd\ufffd( UTF-8 \ufffd\ufffd\ufffd" in messages
    assert len(readings) == 8 and all(values == [(0, 0), (1000, 3), (2000, 12), (3000, 27)] for values in readings.values())
    assert {s["group"] for s in of_kind(slices, "kernel")} == {"GPU 0"} and of_kind(slices, "allocation")[0]["details"]["device"] == 0
    assert data["title"].endswith("</script> & \ufffd") and len(data["loss"]) == 8


def test_nothing_is_asked_of_the_network(pitot, train, tmp_path):
    """No address but that of nothing: neither in markup nor in code."""
    export(pitot, train, tmp_path)
    text = (tmp_path / "x.html").read_text()
    assert not re.findall(r"https?:|//[a-z]+\.|\bfetch\b|XMLHttp|@import|url\(|\bsrc=|\bhref=", text)


def test_the_length_is_that_of_the_report(pitot, paged, tmp_path):
    data, _, _ = export(pitot, paged, tmp_path)
    assert data["duration_ns"] == pitot("report", paged, "--json", json_output=True)["duration_ns"] == 10 ** 9
    assert data["window"] == [0, 10 ** 9]
    data, _, _ = export(pitot, paged, tmp_path, "--since", "0.96s", "--until", "970ms")
    assert (data["duration_ns"], data["window"]) == (10 ** 9, [960 * 10 ** 6, 970 * 10 ** 6])


def test_cpu_samples_are_a_flame_chart(pitot, make_recording, tmp_path):
    """Frames end where the thread pauses or the stack differs; a loss is not all that a page shows."""
    path = make_recording(tmp_path / "r.pitot", "page_cpu")
    data, slices, _ = export(pitot, path, tmp_path)
    assert data["loss_effect"] == "unsafe" and data["loss"] == [["app 100", "ring_full", 6, "six frames", "events lost: the ring of a thread was full"]]
    assert data["cpu_samples"] == 7 and {s["track_name"] for s in of_kind(slices, "cpu_sample")} == {"CPU of thread 100 (job)"}
    ms = 10 ** 6
    assert sorted((s["row"], s["start_ns"] // ms, s["duration"] // ms, s["name"]) for s in of_kind(slices, "cpu_sample", "off_cpu")) == [
        ((0, 0), 20, 20, "[sleeping]"), ((0, 0), 80, 1, "[waiting for a processor]"),
        ((1, 0), 0, 20, "run (job.py:3)"), ((1, 0), 40, 40, "run (job.py:3)"), ((1, 0), 80, 10, "[no stack]"),
        ((1, 1), 0, 20, "parse (job.py:10)"), ((1, 1), 40, 10, "parse (job.py:10)"), ((1, 1), 50, 30, "solve (job.py:20)")]
    assert list(stack_of(data, of_kind(slices, "off_cpu")[0]["details"]["stack"])) == ["parse (job.py:10)", "run (job.py:3)"]


def test_a_deep_chart_ends_with_the_innermost_frame(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "hostile_chain")
    data, slices, _ = export(pitot, path, tmp_path)
    frames = of_kind(slices, "cpu_sample")
    assert {s["row"][1] for s in frames} == set(range(24)) and data["cpu_samples"] > 1000


def test_a_loss_alone_is_no_timeline(pitot, make_recording, tmp_path):
    path = make_recording(tmp_path / "r.pitot", "page_cpu")
    for options, words in {("-o", "x.json"): "json cannot show CPU samples", ("-o", "x.html", "--no-stacks"): "--no-stacks leaves out",
                           ("-o", "x.pftrace", "--no-stacks"): "--no-stacks leaves out"}.items():
        assert words in pitot("export", path, *options, status=1, cwd=tmp_path).stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.pitot"]


def test_samples_that_a_format_cannot_show_are_counted(pitot, paged, tmp_path):
    said = pitot("export", paged, "-o", tmp_path / "x.json").stderr
    assert "json cannot show the recording's 7 CPU samples, 2 times off the CPU" in said
    assert pitot("export", paged, "-o", tmp_path / "y.json", "--json", json_output=True)["unshown"] == {"cpu_sample": 7, "off_cpu": 2}
    assert pitot("export", paged, "-o", tmp_path / "x.html", "--json", json_output=True)["unshown"] == {}


# --- in a browser ---


def test_every_wide_slice_is_seen(pitot, paged, browser, tmp_path):
    """A slice wider than a pixel of the screen has its color at its place, whatever the width of the window, the zoom and the screen."""
    export(pitot, paged, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const plot = document.getElementById("plot"), brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const out = { hidden: [], seen: 0, widths: [] }, known = {};
        document.getElementById("view").style.scrollbarWidth = "none";
        const rgb = (color) => {
            brush.fillStyle = color;
            brush.fillRect(0, 0, 1, 1);
            return known[color] = known[color] || brush.getImageData(0, 0, 1, 1).data.slice(0, 3).join();
        };
        for (const [width, ratio] of [[1000, 1], [1280, 1], [1440, 1], [1920, 1], [1440, 2], [1280, 1.25]])
            for (const [from, to] of [[t.part_with_work().from, t.part_with_work().to], [t.whole.from, t.whole.to], [955e6, 958e6]]) {
                Object.defineProperty(window, "devicePixelRatio", { value: ratio, configurable: true });
                document.body.style.width = width + "px";
                t.show(from, to);
                t.draw();
                out.widths.push(plot.width);
                for (const row of t.rows) {
                    if (t.y_of(row) < 0 || t.y_of(row) > plot.clientHeight - 20)
                        continue;
                    const line = plot.getContext("2d").getImageData(0, Math.round((t.y_of(row) + 1) * ratio), plot.width, 1).data;
                    for (let i = 0; i < row.n; i++) {
                        const x = t.x_of(row.start[i]) * ratio, end = t.x_of(row.end[i]) * ratio, color = rgb(t.palette_of(row, i));
                        if (end - x < 1 || x < t.x_of(from) * ratio || end > plot.width)
                            continue;
                        let painted = 0;
                        for (let at = Math.floor(x); at < Math.ceil(end); at++)
                            painted += line.slice(4 * at, 4 * at + 3).join() === color;
                        if (painted && painted >= Math.floor(end - x) - 3)
                            out.seen++;
                        else
                            out.hidden.push([width, ratio, t.name_of(row.class[i]), x, end, painted]);
                    }
                }
            }
        return out;
    """, END)
    assert result["hidden"] == [] and result["seen"] > 400
    assert {1000, 1280, 1440, 1920, 2880, 1600} <= set(result["widths"])


def test_search_by_keyboard_alone(pitot, paged, browser, tmp_path):
    _, slices, _ = export(pitot, paged, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const out = { wrong: [] }, field = document.getElementById("search"), found = document.getElementById("found");
        window.addEventListener("error", (event) => out.wrong.push(event.message));
        const press = (target, key, more) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
        const type = (text) => {
            field.value = text;
            field.dispatchEvent(new Event("input", { bubbles: true }));
        };
        const at = () => t.selection() && t.selection().row.start[t.selection().i];
        press(document.body, "/");
        out.focused = document.activeElement === field;
        type("cudaDevice");
        press(field, "Enter");
        out.first = [at(), found.textContent, t.selection().row.start[0] !== undefined && t.view.from <= at() && at() <= t.view.to];
        press(field, "Enter");
        out.second = at();
        press(field, "Enter", { shiftKey: true });
        press(field, "Enter", { shiftKey: true });
        out.last = [at(), found.textContent];
        type("no such name");
        press(field, "Enter");
        out.none = [at(), found.textContent, document.getElementById("next").disabled];
        type("memset");
        press(field, "Enter");
        out.other = [at(), found.textContent, t.view.from <= at() && at() <= t.view.to];
        press(field, "Escape");
        out.cleared = [field.value, found.textContent, document.activeElement.id];
        press(document.body, "Escape");
        press(field, "Enter");
        out.selection = at();
        return out;
    """, END)
    starts = sorted(s["start_ns"] for s in slices if s["name"] == "cudaDeviceSynchronize")
    total = "8 calls: 21.0 ms"
    assert result["wrong"] == [] and result["focused"]
    assert result["first"] == [starts[0], "1 of 8 \u00b7 " + total, True] and result["second"] == starts[1]
    assert result["last"] == [starts[-1], "8 of 8 \u00b7 " + total]
    assert result["none"] == [starts[-1], "nothing found", True]
    assert result["other"] == [10 ** 7, "1 of 1 \u00b7 1 memset: 3.00 us", True]
    assert result["cleared"] == ["", "", "view"] and result["selection"] is None


def test_counters_are_in_order_and_in_their_units(pitot, paged, browser, tmp_path):
    export(pitot, paged, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const counters = t.tracks.filter((track) => track.counter), named = (name) => counters.find((track) => track.name === name);
        const plot = document.getElementById("plot"), box = plot.getBoundingClientRect(), tip = document.getElementById("tip");
        plot.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 20, clientY: box.top + named("dram__bytes_read.sum.per_second").y + 5 }));
        return { summaries: counters.map((track) => [track.name, t.counter_summary(track)]), tip: tip.innerText,
                 values: ["gpu_pcie_sent", "gpu_throttle_reasons"].map((name) => [...named(name).rows[0].value].map((v) => t.counter_text(named(name), v))),
                 shown: document.getElementById("about").textContent };
    """, END)
    assert result["summaries"] == [
        ["gpu_utilization", "up to 47%"], ["dram__bytes_read.sum.per_second", "up to 1.91 TB/s"], ["toString", "up to 7 constructor"], ["gpu_power", "up to 120.8 W"],
        ["gpu_temperature", "up to 37 \u00b0C"], ["gpu_throttle_reasons", "idle; power limit"], ["gpu_pcie_sent", "up to 2 GB/s"],
        ["gpu_energy", "up to 120 W"], ["gpu_xid", "6 events"], ["host_cpu_busy", "up to 150%"], ["host_disk_read", "does not grow"]]
    assert result["values"] == [["2 GB/s", "2 GB/s", "unknown", "2 GB/s", "1 GB/s", "unknown"],
                                ["idle", "power limit", "power limit", "none", "none", "idle"]]
    assert "dram__bytes_read.sum.per_second" in result["tip"] and "1.00 s" in result["shown"] and "7 CPU samples" in result["shown"]


def test_the_page_is_used(pitot, paged, browser, tmp_path):
    """Its first view, tracks that are pinned and hidden, the longest slices, sums by kind, the tooltip, and the address."""
    export(pitot, paged, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const out = { wrong: [], first: [t.view.from, t.view.to] }, plot = document.getElementById("plot"), details = document.getElementById("details");
        window.addEventListener("error", (event) => out.wrong.push(event.message));
        plot.setPointerCapture = () => {};
        const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        const point = (type, x, y, more) => plot.dispatchEvent(new PointerEvent(type, { clientX: plot.getBoundingClientRect().left + x,
            clientY: plot.getBoundingClientRect().top + y, bubbles: true, pointerId: 1, ...more }));
        const choose = (kind) => {
            details.querySelector("select").value = kind;
            details.querySelector("select").dispatchEvent(new Event("change"));
        };
        const stream = t.tracks.find((track) => track.kind === "stream"), row = stream.rows[0];
        press("r");
        out.whole = [t.view.from, t.view.to];
        press("Home");
        out.home = [t.view.from, t.view.to];

        point("pointermove", t.x_of((row.start[2] + row.end[2]) / 2), t.y_of(row) + 5);
        out.tip = document.getElementById("tip").innerText;
        press("Escape");
        out.tip_hidden = document.getElementById("tip").hidden;

        press("l");
        choose("kernel");
        const lines = [...details.querySelectorAll("tr")].slice(1).map((line) => [...line.children].map((cell) => cell.innerText));
        out.longest = lines.slice(0, 3).map((line) => line.slice(0, 3));
        out.sorted = lines.length;
        details.querySelectorAll(".link")[0].click();
        out.jumped = [row.end[t.selection().i] - row.start[t.selection().i], t.view.from <= row.start[t.selection().i]];

        point("pointerdown", 400, 100, { shiftKey: true });
        point("pointermove", 900, 100, { shiftKey: true });
        point("pointerup", 900, 100, { shiftKey: true });
        choose("nvtx");
        out.kinds = [...new Set([...details.querySelectorAll("td.kind")].map((cell) => cell.innerText))];

        const thread = t.tracks.find((track) => track.kind === "thread"), before = thread.y;
        point("pointermove", 210, t.y_of(thread.rows[0]) + 5);
        press("p");
        out.pinned = [thread.pinned, thread.y < before, t.item_at(thread.y + 5).track === thread];
        document.getElementById("view").scrollTop = 400;
        t.draw();
        out.sticks = t.y_of(thread.rows[0]) === thread.y;
        document.getElementById("view").scrollTop = 0;
        point("pointermove", 230, t.y_of(row) + 5);
        point("pointerdown", 220, t.y_of(row) + 5);
        point("pointerup", 220, t.y_of(row) + 5);
        out.hidden = [stream.hidden, t.y_of(row), document.getElementById("hidden").innerText];

        t.search("step");
        t.step(true);
        t.show(960e6, 970e6);
        t.save();
        out.hash = location.hash;
        document.getElementById("hidden").click();
        out.again = t.y_of(row) > 0;
        press("r");
        location.hash = out.hash + "&closed=7,x&slice=99999,1";
        await new Promise((done) => window.addEventListener("hashchange", () => setTimeout(done, 0), { once: true }));
        out.restored = [t.view.from, t.view.to, thread.pinned, stream.hidden, document.getElementById("search").value];
        return out;
    """, END)
    ms = 10 ** 6
    assert result["wrong"] == [] and result["first"] == result["home"]
    assert 945 * ms < result["first"][0] < 950 * ms and 995 * ms < result["first"][1] < 1000 * ms
    assert result["whole"] == [0, 1000 * ms]
    assert "tile" in result["tip"] and result["tip_hidden"]
    assert result["longest"] == [["tile", "kernel", "5.00 ms"], ["tile", "kernel", "4.00 ms"], ["tile", "kernel", "3.00 ms"]] and result["sorted"] == 40
    assert result["jumped"] == [5 * ms - 5000, True] and result["kinds"] == ["nvtx"]
    assert result["pinned"] == [True, True, True] and result["sticks"] and result["hidden"] == [True, -1, "Show 1 hidden"] and result["again"]
    assert "view=960000000,970000000" in result["hash"] and "search=step" in result["hash"] and "slice=" in result["hash"]
    assert result["restored"] == [960 * ms, 970 * ms, True, True, "step"]


def test_slices_of_several_processes_are_grouped(pitot, make_recording, browser, tmp_path):
    export(pitot, make_exported(make_recording, "processes", tmp_path / "r.pitot"), tmp_path)
    names = show(browser, tmp_path / "x.html", tmp_path, READY + 'return t.tracks.filter((track) => track.kind === "stream").map((track) => track.name);', END)
    owners = [name.split("(")[1] for name in names]
    assert len(set(owners)) == 3 and [owner for i, owner in enumerate(owners) if owner not in owners[:i]] == sorted(set(owners), key=owners.index)
    assert sum(a != b for a, b in zip(owners, owners[1:])) == 2




def test_page_finds_and_sums(pitot, train, browser, tmp_path):
    _, slices, _ = export(pitot, train, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const out = { title: document.getElementById("title").textContent, about: document.getElementById("about").textContent };
        out.count = t.rows.reduce((n, row) => n + row.n, 0);
        out.busy = t.rows.filter((row) => row.track.kind === "stream").reduce((ns, row) => ns + row.busy[row.n], 0);
        out.sums = [...t.search("gemm")];
        out.found = document.getElementById("found").textContent;
        out.steps = [];
        for (const forward of [true, true, true, false, false, false, true]) {
            t.step(forward);
            const { row, i: k } = t.selection();
            out.steps.push([row.start[k], t.name_of(row.class[k])]);
        }
        t.search("gemm|^forward$");
        document.querySelector("#close").click();
        t.show(t.whole.from, t.whole.to);
        out.mixed = [];
        for (let i = 0; i < 60; i++) {
            t.step(true);
            out.mixed.push(t.selection().row.start[t.selection().i]);
        }
        out.none = [...t.search("no such name")].length;
        out.wrong = [...t.search("elementwise_kernel<(")].length;
        return out;
    """, END)
    kernels, hits = of_kind(slices, "kernel"), [s for s in slices if "gemm" in (s["name"] + s["details"].get("name", "")).lower()]
    assert result["count"] == len(slices) and result["title"] == "make-recording (synthetic)"
    assert f"{len(kernels):,} kernels" in result["about"]
    assert result["busy"] == sum(s["duration"] for s in slices if s["track"] == "stream")
    assert {kind: [sums["n"], sums["ns"]] for kind, sums in result["sums"]} == \
        {"kernel": [len(hits), sum(s["duration"] for s in hits)]}
    assert result["found"].startswith(f"{len(hits):,} kernels: ")
    starts = sorted((s["start_ns"], s["name"]) for s in hits)
    assert [tuple(step) for step in result["steps"]] == [starts[i] for i in (0, 1, 2, 1, 0, -1, 0)]
    assert result["mixed"] == sorted(s["start_ns"] for s in slices if s in hits or s["name"] == "forward")[:60]
    assert result["none"] == result["wrong"] == 0


def test_page_reads_correlations(pitot, make_recording, browser, tmp_path):
    """Of several processes, and not in order."""
    _, slices, _ = export(pitot, make_exported(make_recording, "varied", tmp_path / "r.pitot"), tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        return t.rows.flatMap((row) => [...t.correlations_of(row)].map((id, i) => [row.start[i], row.end[i], id]));
    """, END)
    assert sorted(map(tuple, result)) == sorted((s["start_ns"], s["start_ns"] + s["duration"], s["correlation"] or 0) for s in slices)


def test_members_of_a_collective_are_joined(pitot, rank_recording, browser, tmp_path):
    """Rank 1 sleeps 3 ms in each step, and rank 0 waits for it: hatched, and joined with the slice that it waited for."""
    data, _, _ = export(pitot, rank_recording("sleep-3"), tmp_path)
    waits = {0: [], 1: []}
    for members in data["collectives"]:
        assert len(members) == 8 and not all(members[3::4])
        for track, wait in zip(members[::4], members[3::4]):
            waits[data["tracks"][track][0]].append(wait)
    assert len(waits[0]) == len(waits[1]) >= 77 and len([wait for wait in waits[0] if wait > 2.5e6]) in range(12, 15)
    assert not [wait for wait in waits[1] if wait > 1e6]
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const row = t.rows.find((each) => each.waits?.some((wait) => wait > 2.5e6)), i = row.waits.findIndex((wait) => wait > 2.5e6);
        const plot = document.getElementById("plot"), context = plot.getContext("2d", { willReadFrequently: true });
        const colors = (from, to) => {
            const ratio = devicePixelRatio, x = Math.round(t.x_of(from) * ratio), wide = Math.round(t.x_of(to) * ratio) - x;
            const bytes = context.getImageData(x, Math.round((t.y_of(row) + 14) * ratio), wide, 1).data;
            return new Set(Array.from({ length: wide }, (_, k) => bytes.slice(4 * k, 4 * k + 3).join())).size;
        };
        t.show(row.start[i] - 1e5, row.end[i] + 1e5);
        t.draw();
        const last = row.start[i] + row.waits[i], out = { waiting: colors(row.start[i] + 3e5, last - 1e5) };
        out.transferring = colors(last + 2e4, row.end[i] - 2e4);
        const text = () => document.getElementById("details").innerText;
        t.select({ row, i });
        out.text = text();
        out.arrow = t.arrows().filter(({ from }) => from.row !== row && t.kind_of(from.row.class[from.i]) === "kernel")
            .map(({ from, to }) => [from.row.start[from.i] - row.start[i], to.row === row && to.i === i && to.wait, from.row.track.group]);
        document.querySelectorAll("#details .link")[1].click();
        out.last = text();
        return out;
    """, END)
    (distance, wait, group), = result["arrow"]
    assert distance == wait > 2.5e6 and group == 1
    assert result["waiting"] > 2 and result["transferring"] == 1
    assert re.search(r"waited\s+\d+\.\d+ ms for stream 7 .* on GPU 1", result["text"])
    assert re.search(r"joins\s+stream 7 .* on GPU 0, which waited \d+\.\d+ ms", result["last"])


def test_page_shows_what_is_clicked(pitot, train, browser, tmp_path):
    """The second kernel: its details, its call, the arrow's other end; and from the call back to it."""
    _, slices, _ = export(pitot, train, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const out = {}, row = t.rows.find((each) => each.track.kind === "stream"), plot = document.getElementById("plot");
        const text = () => document.getElementById("details").innerText;
        const point = (type, x, y, more) => {
            const box = plot.getBoundingClientRect();
            plot.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId: 1, ...more }));
        };
        plot.setPointerCapture = () => {};
        t.show(row.start[1] - 1000, row.end[1] + 1000);
        t.draw();
        const x = t.x_of((row.start[1] + row.end[1]) / 2), y = t.y_of(row) + 5;
        point("pointermove", x, y);
        out.tip = document.getElementById("tip").innerText;
        point("pointerdown", x, y);
        point("pointerup", x, y);
        out.place = [t.selection().row === row, t.selection().i];
        out.details = text();
        out.arrows = t.arrows().map(({ from, to }) => [from.row.start[from.i], to.row.start[to.i]]);
        document.querySelector("#details .link").click();
        out.call = t.kind_of(t.selection().row.class[t.selection().i]);
        out.call_details = text();
        document.querySelector("#details .link").click();
        out.back = [t.selection().row === row, t.selection().i];
        window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
        out.hidden = document.getElementById("details").hidden;
        return out;
    """, END)
    kernel = sorted((s for s in slices if s["track"] == "stream"), key=lambda s: s["start_ns"])[1]
    [call] = [s for s in of_kind(slices, "api_call") if s["correlation"] == kernel["correlation"]]
    assert result["place"] == result["back"] == [True, 1] and result["hidden"]
    assert kernel["name"] in result["tip"]
    for words in (kernel["details"]["name"], kernel["track_name"], " × ".join(map(str, kernel["details"]["grid"])),
                  f"{kernel['duration']:,} ns", str(kernel["correlation"])):
        assert words in result["details"], words
    assert result["arrows"] == [[call["start_ns"], kernel["start_ns"]]]
    assert result["call"] == "api_call" and call["name"] in result["call_details"] and "call stack" in result["call_details"]


def test_the_critical_path_has_a_track(pitot, train, browser, tmp_path):
    """Its slices tile the time as the report's; the button sums them; a slice leads to its call and work, and is none of what a call caused."""
    pitot("export", train, "-o", tmp_path / "x.html", "--critical-path")
    path = json.loads(pitot("report", "--critical-path", "--json", train).stdout)["critical_path"]
    slices = sorted(of_kind(read_page(tmp_path / "x.html")[1], "critical_path"), key=lambda s: s["start_ns"])
    assert slices[0]["start_ns"] == path["start_ns"] and sum(s["duration"] for s in slices) == path["window_ns"]
    assert all(a["start_ns"] + a["duration"] == b["start_ns"] for a, b in zip(slices, slices[1:]))
    assert {owner["name"] for owner in path["owners"] if owner["class"] in ("kernel", "call")} <= {s["name"] for s in slices}
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const text = () => document.getElementById("details").innerText, row = t.rows.find((each) => each.track.kind === "path");
        const kernels = new Set(t.rows.filter((each) => each.track.kind === "stream").flatMap((each) => [...each.class].map(t.name_of)));
        document.getElementById("path").click();
        const out = { group: row.track.group, name: row.track.name, n: row.n, table: text() };
        const i = [...row.class].findIndex((c) => kernels.has(t.name_of(c)));
        t.select({ row, i });
        out.slice = text();
        out.links = [...document.querySelectorAll("#details .link")].map((each) => each.textContent);
        out.caused = t.related(t.correlations_of(row)[i]).work.map((each) => each.row.track.kind);
        return out;
    """, END)
    assert result["name"] == "critical path" and result["n"] == len(slices)
    counts = Counter(s["name"] for s in slices)
    for name, n in counts.most_common(3):
        assert re.search(rf"{re.escape(name)}\s+critical path\s+{n:,}\s", result["table"]), (name, n, result["table"])
    assert any(link.startswith("cu") for link in result["links"]) and any(" on stream " in link for link in result["links"])
    assert result["caused"] == ["stream"]


def test_the_critical_path_is_a_track_of_pages_and_perfetto(pitot, train, tmp_path):
    said = pitot("export", train, "-o", tmp_path / "x.json", "--critical-path", status=2).stderr
    assert "--critical-path: json has no track for it; perfetto and html have" in said
    assert "and dot shows it in red anyway" in pitot("export", train, "-o", tmp_path / "x.dot", "--critical-path", status=2).stderr
    pitot("export", train, "-o", tmp_path / "without.html")
    assert not of_kind(read_page(tmp_path / "without.html")[1], "critical_path")


def test_page_zooms_and_moves(pitot, train, browser, tmp_path):
    export(pitot, train, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const out = {}, plot = document.getElementById("plot"), box = plot.getBoundingClientRect(), frame = () => new Promise((done) => setTimeout(done, 50));
        window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);  /* without a window there are no frames */
        const at = (x) => t.view.from + (x - t.x_of(t.view.from)) / (t.x_of(t.view.to) - t.x_of(t.view.from)) * (t.view.to - t.view.from);
        const wheel = (x, by) => plot.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + x, clientY: box.top + 90, deltaY: by, cancelable: true }));
        const drag = (type, x, shift) => plot.dispatchEvent(new PointerEvent(type, { clientX: box.left + x, clientY: box.top + 90, pointerId: 1,
                                                                              shiftKey: shift, bubbles: true }));
        plot.setPointerCapture = () => {};
        t.show(t.whole.from, t.whole.to);
        const length = () => t.view.to - t.view.from, before = [at(700), length()];
        for (let i = 0; i < 5; i++)
            wheel(700, -120);
        out.zoomed = [before[0], at(700), before[1], length()];
        const held = at(700);
        drag("pointerdown", 700);
        drag("pointermove", 500);
        drag("pointerup", 500);
        out.dragged = [held, at(500), length()];
        const key = (type, name) => window.dispatchEvent(new KeyboardEvent(type, { key: name }));
        const middle = (t.view.from + t.view.to) / 2, wide = length();
        key("keydown", "d");
        for (let i = 0; i < 4; i++)
            await frame();
        key("keyup", "d");
        out.moved = (t.view.from + t.view.to) / 2 - middle;
        key("keydown", "r");
        out.all = length();
        drag("pointerdown", 400, true);
        drag("pointermove", 900, true);
        drag("pointerup", 900, true);
        out.span = document.getElementById("details").innerText;
        out.from = at(400), out.to = at(900);
        const colors = document.getElementById("plot").getContext("2d").getImageData(0, 0, plot.width, plot.height).data;
        out.painted = new Set(new Uint32Array(colors.buffer)).size;
        const row = t.rows.find((each) => each.track.kind === "stream"), page = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
        key("keydown", "Escape");
        t.show(t.whole.from, t.whole.to);
        t.draw();
        const line = plot.getContext("2d").getImageData(0, Math.round(t.y_of(row) + 9), plot.width, 1).data;
        out.wrong = out.right = 0;
        for (let x = Math.ceil(t.x_of(t.view.from)) + 2; x < plot.width - 2; x++) {
            const painted = [0, 1, 2].some((k) => line[4 * x + k] !== page[k]), from = at(x), to = at(x + 1);
            let busy = false;
            for (let i = 0; i < row.n && !busy; i++)
                busy = row.start[i] < to && row.end[i] > from;
            out[painted === busy ? "right" : "wrong"]++;
        }
        out.theme = document.documentElement.getAttribute("data-theme");
        document.getElementById("theme").click();
        out.other = document.documentElement.getAttribute("data-theme");
        return out;
    """, END)
    under, still, wide, narrow = result["zoomed"]
    assert abs(under - still) < wide / 1000 and narrow < wide / 2
    assert abs(result["dragged"][0] - result["dragged"][1]) < narrow / 1000 and abs(result["dragged"][2] - narrow) < 1
    assert result["wrong"] <= result["right"] // 50 and result["right"] > 500, "a pixel is painted where something ran in its time"
    assert result["moved"] > 0 and abs(result["all"] - wide) < 1
    assert result["painted"] > 16 and {result["theme"], result["other"]} == {"light", "dark"}
    _, slices, _ = read_page(tmp_path / "x.html")
    sums = defaultdict(int)
    for each in slices:
        sums[each["kind"].replace("_", " "), each["name"]] += max(0, min(each["start_ns"] + each["duration"], result["to"]) -
                                                                    max(each["start_ns"], result["from"]))
    lines = [line.split("\t") for line in result["span"].splitlines() if line.count("\t") == 4][1:]
    assert len(lines) > 10 and {("nvtx", "forward"), ("gpu range", "forward"), ("api call", "cuLaunchKernel")} <= {(line[1], line[0]) for line in lines}
    for name, kind, _, time, _ in lines:
        number, unit = time.split()
        assert abs(float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit] - sums[kind, name]) <= 0.006 * sums[kind, name] + 1


def test_names_do_nothing_in_a_browser(pitot, named, browser, tmp_path):
    _, slices, _ = export(pitot, named, tmp_path)
    result = show(browser, tmp_path / "x.html", tmp_path, READY + """
        const texts = [];
        for (const row of t.rows)
            for (let i = 0; i < row.n; i++) {
                t.select({ row, i });
                texts.push(document.getElementById("details").textContent);
            }
        t.search("window");
        t.draw();
        const counters = t.tracks.filter((track) => track.counter).map((track) => [...track.rows[0].value]);
        return { counters, hacked: window.hacked === undefined, title: document.title, texts, images: document.images.length, scripts: document.scripts.length };
    """, END)
    assert result["hacked"] and result["images"] == 0 and result["scripts"] == 2
    assert result["title"].startswith("</title></script><script>") and len(result["texts"]) == len(slices)
    assert result["counters"] == [[3e6, 9e6, 15e6, None]] * 8, "growth a second, unknown after the last reading"
    assert any("<img src=x" in text for text in result["texts"])
