"""Pictures: what is drawn has the numbers of the report. Where matplotlib is missing, that is said."""
import importlib
import random
import re

import pytest

pytest.importorskip("pyarrow")
numpy = pytest.importorskip("numpy")
matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = importlib.import_module("matplotlib.pyplot")
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def no_figures_stay():
    yield
    pyplot.close("all")


@pytest.fixture(scope="session")
def plot(package):
    return importlib.import_module("pitot._plot")


@pytest.fixture
def stalls(package, make_recording, tmp_path):
    return package.open(make_recording(tmp_path / "stalls.pitot", "stalls"))


def texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_a_gpu_without_work(package, path):
    """In the window: the report says nothing of when it was busy."""
    recording = package.open(path)
    assert ["busy" in gpu for gpu in recording.report(until=0.0001)["gpus"]] == [True, False]
    labels = texts(recording.plot.utilization(until=0.0001))
    assert len(labels) == 2 and labels[0] != labels[1] == "GPU 1: busy for 0 ns"


def test_long_names_leave_room(package, train, training):
    """Their legend stands below, whole; a short one beside the axes. Numbers beside bars are whole, too."""
    for path, below in ((train, True), (training, False)):
        ax = package.open(path).plot.timeline()
        ax.figure.canvas.draw()
        legend, page = ax.get_legend().get_window_extent(), ax.figure.bbox
        assert (legend.y1 < ax.get_window_extent().y0) == below != (legend.x0 > ax.get_window_extent().x1)
        assert 0 <= legend.x0 and legend.x1 <= page.x1 and 0 <= legend.y0
        assert ax.get_window_extent().width > 0.7 * page.width
    ax = package.open(train).plot.hotspots()
    ax.figure.canvas.draw()
    assert all(text.get_window_extent().x1 <= ax.figure.bbox.x1 for text in ax.texts) and len(ax.texts) == 10


@pytest.mark.parametrize("name", ["timeline", "utilization", "hotspots", "memory", "stalls", "roofline"])
@pytest.mark.parametrize("kind", ["varied", "cpu_only"])
def test_every_picture_of_every_recording(package, make_recording, tmp_path, kind, name):
    recording = package.open(make_recording(tmp_path / "r.pitot", kind))
    figure, (left, right) = pyplot.subplots(1, 2)
    ax = getattr(recording.plot, name)(ax=right)
    assert ax is right and pyplot.get_fignums() == [figure.number]
    assert getattr(recording.plot, name)().figure is not figure
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 3000
    if kind == "cpu_only":
        assert any("recorded" in text.get_text() for text in ax.texts)


def test_intervals_are_merged(plot):
    generator = random.Random(5)
    for _ in range(200):
        spans = [(start, start + generator.randrange(6)) for start in (generator.randrange(60) for _ in range(generator.randrange(1, 12)))]
        covered = {point for start, end in spans for point in range(start, end)}
        starts, ends = plot.merged(*numpy.array(spans).T)
        assert {point for start, end in zip(starts, ends) for point in range(start, end)} == covered
        assert (ends >= starts).all() and (starts[1:] > ends[:-1]).all()
        starts, ends = plot.merged(*numpy.array(spans).T, 3)
        assert (starts[1:] > ends[:-1] + 3).all() and starts[0] == min(spans)[0] and ends.max() == max(end for _, end in spans)
    assert [len(array) for array in plot.merged(numpy.array([], int), numpy.array([], int))] == [0, 0]


@pytest.mark.parametrize("name", ["training", "train", "path"])
def test_utilization_is_the_reports_busy_time(package, request, name):
    recording = package.open(request.getfixturevalue(name))
    gpus = recording.report()["gpus"]
    ax = recording.plot.utilization(bins=37)
    drawn = [patch for patch in ax.patches if patch.get_label().startswith("GPU")]
    assert len(drawn) == len(gpus)
    size, _ = importlib.import_module("pitot._plot").unit_of(recording.report()["window"]["end_ns"])
    for patch, gpu in zip(drawn, gpus):
        values, edges, _ = patch.get_data()
        assert len(values) == 37 and values.max() <= 100 + 1e-6
        assert abs((values / 100 * numpy.diff(edges)).sum() * size - gpu["busy"]["union_ns"]) < 1
    assert sum("its own counter" in text for text in texts(ax)) == (name == "training")


def test_utilization_of_a_window(package, training):
    """Its edges are within kernels."""
    recording = package.open(training)
    ax = recording.plot.utilization(since=0.133, until=0.236, bins=10)
    values, edges, _ = ax.patches[0].get_data()
    assert abs(edges[0] - 133) < 1e-9 and abs(edges[-1] - 236) < 1e-9 and values[0] > 90
    busy = recording.report(since=0.133, until=0.236)["gpus"][0]["busy"]["union_ns"]
    assert abs((values / 100 * numpy.diff(edges)).sum() * 1e6 - busy) < 1


def test_gpus_are_those_of_the_report(package, train):
    """Whatever a process calls them."""
    recording = package.open(train)
    report = recording.report()
    work = recording.plot._work(report, [])
    assert set(zip(work["pid"].tolist(), work["gpu"].tolist())) == {(1000, 0), (1100, 1)}
    report["gpus"].reverse()
    for number, gpu in enumerate(report["gpus"]):
        gpu["gpu"] = number
    work = recording.plot._work(report, [])
    assert set(zip(work["pid"].tolist(), work["gpu"].tolist())) == {(1000, 1), (1100, 0)}
    report["window"].update(start_ns=50_000_000, end_ns=50_000_001)
    inside = recording.plot._work(report, [])
    assert 0 < len(inside["gpu"]) < 10 and (inside["start"] <= 50_000_000).all() and (inside["end"] > 50_000_000).all()


def test_the_timeline_has_a_lane_for_each_stream(package, training, train):
    recording = package.open(training)
    ax = recording.plot.timeline()
    assert ticks(ax.yaxis) == ["GPU 0  stream 7", "GPU 0  stream 13"] and ax.yaxis_inverted()
    assert texts(ax) == ["sm90_gemm_bf16", "all_reduce_ring", "softmax_forward", "multi_tensor_adam", "layer_norm", "copies"]
    assert texts(recording.plot.timeline(top=1)) == ["sm90_gemm_bf16", "other kernels", "copies"]
    copies = recording.copies.select("start_ns", "end_ns").where("stream=13").to_arrow().to_pylist()
    expected = [((row["start_ns"] - recording.start_ns) / 1e6, (row["end_ns"] - recording.start_ns) / 1e6) for row in copies]
    spans = [sorted({round(x, 6) for x in path.vertices[:, 0]}) for c in ax.collections if c.get_hatch() for path in c.get_paths()
             if 0.7 < path.vertices[0, 1] < 1.3]
    assert sorted((min(span), max(span)) for span in spans) == [(round(a, 6), round(b, 6)) for a, b in expected]
    both = ticks(package.open(train).plot.timeline().yaxis)
    assert both == ["GPU 0  stream 7  pid 1000", "GPU 1  stream 7  pid 1100"]
    part = recording.plot.timeline(since=0.1, until=0.2)
    assert [round(edge) for edge in part.get_xlim()] == [100, 200] and part.get_xlabel().endswith("(ms)")


def test_hotspots_are_the_reports(package, train):
    recording = package.open(train)
    items = recording.hotspots()
    ax = recording.plot.hotspots(top=4)
    assert [round(bar.get_width() * 1e6) for bar in ax.patches] == [item["time"]["total_ns"] for item in items[:4]]
    assert ax.texts[0].get_text() == "7.65 ms · 6.2 % · 1,200×" and "(ms)" in ax.get_xlabel()
    assert len(set(ticks(ax.yaxis))) == 4
    assert ticks(recording.plot.hotspots(by="device", device=1).yaxis) == ["GPU 1 NVIDIA H200"]


def test_memory_has_the_reports_peak(package, training, plot):
    recording = package.open(training)
    use, = recording.report()["memory"]
    ax = recording.plot.memory()
    allocated, counter = ax.lines
    assert max(allocated.get_ydata()) * (1 << 30) == use["peak_bytes"] and allocated.get_ydata()[-1] * (1 << 30) == use["live_bytes"]
    at = allocated.get_xdata()[list(allocated.get_ydata()).index(max(allocated.get_ydata()))]
    assert round(at * 1e6) == use["peak_time_ns"] and ax.texts[0].get_text() == "peak 3.69 GiB"
    assert ax.get_ylabel() == "GiB" and max(counter.get_ydata()) == 5 and texts(ax)[0] == "GPU 0: device memory"


def test_stalls_are_the_reports(stalls):
    report = stalls.report()["stalls"]
    ax = stalls.plot.stalls(top=3)
    widths = {}
    for container in ax.containers:
        for row, bar in enumerate(container):
            widths[row] = widths.get(row, 0) + bar.get_width()
    assert [widths[row] for row in range(3)] == [kernel["samples"] for kernel in report["kernels"][:3]]
    assert texts(ax)[0] == "waiting for global or local memory" and texts(ax)[-1] == "other"


def test_the_pages_examples_work(package, train, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (source / "docs/python-package.md").read_text().partition("## Pictures")[2].partition("## Errors")[0]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for block in blocks:
        exec(block, {"r": package.open(train)})
    assert len(blocks) == 2 and (tmp_path / "train.png").stat().st_size > 20000


def test_units_and_names(plot):
    assert plot.unit_of(2.1e9) == (1e9, "s") and plot.unit_of(1.9e9) == (1e6, "ms") and plot.unit_of(0) == (1.0, "ns")
    assert plot.shown(1234) == "1,234 ns" and plot.shown(12_300_000) == "12.3 ms" and plot.shown(0) == "0 ns"
    long = ["kernel<" + "x" * 40 + f"{number}" + "y" * 40 + ">" for number in range(3)]
    assert len(set(plot.cut(long))) == 3 and plot.cut(["a", "a"]) == ["a", "a"]
    assert plot.cut(["x" * 100], 10) == ["xxxxx…xxxxx"]


def test_without_matplotlib_it_says_what_to_install(run, training):
    said = run("""
        sys.modules["matplotlib"] = None
        r = pitot.open(sys.argv[1])
        try:
            r.plot.timeline()
        except pitot.Error as error:
            print(json.dumps(str(error)))
        """, arguments=[training])
    assert said == "r.plot needs matplotlib: pip install matplotlib"


@pytest.fixture
def viz(package):
    pytest.importorskip("pandas")
    return importlib.import_module("pitot.gpufl.viz")


@pytest.fixture
def shows(monkeypatch):
    monkeypatch.setattr(pyplot, "show", lambda: None)


def test_viz_finds_the_logs_of_a_pattern(viz, shows, training, pitot, tmp_path, monkeypatch):
    """gpufl's README has a pattern of files; they are in folders of sessions."""
    pitot("export", training, "-o", "logs", "--format", "gpufl")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    viz.init("./logs/*.log")
    assert len(viz.get_data()["kernels"]) == 344
    with pytest.raises(Exception, match="nothing matches './other/.*.log'"):
        viz.init("./other/*.log")


def test_viz_shows_a_recording(viz, shows, training, tmp_path):
    viz.init(str(training))
    figure = viz.show()
    use, memory, power, work = figure.axes
    assert texts(use) == ["GPU 0", "CPUs of the machine"] and texts(work)[0] == "sm90_gemm_bf16"
    assert max(power.lines[0].get_ydata()) == 612 and max(memory.lines[0].get_ydata()) == 5
    assert len(work.collections[0].get_segments()) == 344 == len(viz.get_data()["kernels"])
    figure.savefig(tmp_path / "viz.png")
    assert len(viz.show(user_scope="step 3|forward").axes[3].collections[0].get_segments()) == 18
    assert viz.show(last="1s").axes[3].get_xlim() == (0, 0.81)
    last = viz.show(last="0.31s").axes
    assert last[3].get_xlim() == (0.5, 0.81) and len(last[3].collections[0].get_segments()) == 344 * 3 // 8
    assert min(last[2].lines[0].get_xdata()) == 0.5


def test_viz_shows_kernels_of_microseconds_among_seconds(viz, shows, package, make_recording, tmp_path):
    """A kernel has at least a pixel's width in its color, at its place."""
    viz.init(make_recording(tmp_path / "r.pitot", "page"))
    figure = viz.show()
    work = figure.axes[3]
    work.set_xlim(0, 100)
    figure.canvas.draw()
    pixels = numpy.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(int)
    x, y = work.transData.transform(work.collections[0].get_segments()[0][0])
    near = pixels[pixels.shape[0] - int(y) - 3 : pixels.shape[0] - int(y) + 3, int(x) - 2 : int(x) + 3].reshape(-1, 3)
    color = numpy.array([int(work.lines[0].get_color()[i : i + 2], 16) for i in (1, 3, 5)])
    assert abs(near - color).sum(axis=1).min() < 40


def test_viz_names_the_kernel_below_the_pointer(viz, shows, training):
    viz.init(training)
    figure = viz.show()
    figure.canvas.draw()
    work = figure.axes[3]
    note = next(text for text in work.texts if not text.get_visible())
    (start, level), (end, _) = work.collections[0].get_segments()[-1]
    for x, y, seen in (((start + end) / 2, level, True), (start, 20, False)):
        pixel = work.transData.transform((x, y))
        event = importlib.import_module("matplotlib.backend_bases").MouseEvent("motion_notify_event", figure.canvas, *pixel)
        figure.canvas.callbacks.process("motion_notify_event", event)
        assert note.get_visible() == seen
    assert "multi_tensor_adam\n4.2 ms, grid (2112,1,1), block (512,1,1)" == note.get_text()


def test_viz_opens_what_a_pattern_means(viz, shows, package, training, train, path, tmp_path):
    for number, recording in enumerate((training, train)):
        (tmp_path / f"r{number}.pitot").symlink_to(recording)
    for pattern in (f"{tmp_path}/*.pitot", str(tmp_path), [f"{tmp_path}/r0.pitot", tmp_path / "r1.pitot"]):
        viz.init(pattern)
        assert sorted(viz.get_data()["kernels"]["app"].unique()) == ["make-recording (synthetic)", "python train.py"]
    assert len(viz.compare(metric="gpu").axes[0].lines) == 1
    assert len(viz.compare(metric="ram", group_by="session_id").axes[0].lines) == 1
    viz.init([train, str(train)])
    assert len(viz.get_data()["kernels"]) == 20000
    assert viz.show().axes[0].texts[0].get_text() == "not recorded"
    with pytest.raises(package.UsageError, match="nothing matches '/none/x'"):
        viz.init("/none/x")
    for wrong, said in [
        (lambda: viz.show(last="3"), "'3' is not a time: write 30s"), (lambda: viz.show(colour=3), "no frame has a column 'colour'"),
        (lambda: viz.compare(metric="disk"), "metric is gpu, cpu or ram"), (lambda: viz.compare(group_by="x"), "'x' is not a column of"),
    ]:
        with pytest.raises(package.UsageError, match=said):
            wrong()


def test_viz_wants_to_be_told_what_to_open(viz, package, monkeypatch):
    monkeypatch.setattr(viz, "_sessions", [])
    with pytest.raises(package.Error, match="call viz.init"):
        viz.show()


def test_the_roofline_is_the_reports(package, make_recording, tmp_path, plot):
    recording = package.open(make_recording(tmp_path / "r.pitot", "roofline"))
    points = [p for p in recording.report()["counters"]["roofline"] if p["flops"] and p["intensity"]]
    ax = recording.plot.roofline()
    drawn = {pair for line in ax.lines if line.get_marker() == "o" for pair in zip(*line.get_data())}
    assert drawn == {(p["intensity"], p["flops"]) for p in points} and len(drawn) == 6
    assert texts(ax) == ["DRAM 20 GB/s", "L2: no peak measured", "L1 1000 GB/s"]
    labels = {text.get_text(): text.xy for text in ax.texts}
    assert labels["FP32 350 GFLOP/s"][1] == 3.5e11 and labels["gemm, FP32"] == (10, 1e11) and labels["half, FP16"] == (0.8, 8e9)
    for line in ax.lines:  # a roof of memory ends at the highest roof of a type, one of a type begins at the highest of memory
        if line.get_marker() != "o" and len(line.get_xdata()):
            (left, right), (low, high) = line.get_data()
            assert (high == 1.75e12 and high / right in (2e10, 1e12)) if low < high else left == pytest.approx(high / 1e12)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "gemm, FP32" not in {text.get_text() for text in recording.plot.roofline(top=1).texts}
    only = recording.plot.roofline(kernel="half")  # no peak is known
    assert [len(line.get_xdata()) for line in only.lines] == [0, 1] and texts(only) == ["DRAM: no peak measured"]
    assert "was recorded" in recording.plot.roofline(kernel="copy").texts[0].get_text()
