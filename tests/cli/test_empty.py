"""What has nothing to show says so and how to see something; sizes are those of files; columns keep their units."""

import pytest


@pytest.fixture(scope="module")
def folder(make_recording, tmp_path_factory):
    """gpu.pitot has GPU work and no CPU samples, cpu.pitot CPU samples alone, idle.pitot one call."""
    folder = tmp_path_factory.mktemp("empty")
    make_recording(folder / "gpu.pitot", "varied")
    make_recording(folder / "cpu.pitot", "cpu_only")
    make_recording(folder / "idle.pitot", kernels=0)
    return folder


@pytest.mark.parametrize("name, options, words", [
    ("cpu", ("--mode", "gpu"), "the recording has no GPU time; it has CPU samples: `pitot flame --mode cpu`"),
    ("cpu", ("--mode", "wait"), "no time waiting for the GPU; it has CPU samples"),
    ("cpu", ("--mode", "launches"), "it has CPU samples"),
    ("gpu", ("--mode", "cpu"), "no CPU time; it has GPU work: `pitot flame --mode gpu`"),
    ("gpu", ("--mode", "wait", "--since", "100s"), "no time waiting for the GPU within --since, --until and --where"),
    ("gpu", ("--mode", "gpu", "--where", "device=7"), "within --since, --until and --where"),
    ("gpu", ("--focus", "no such frame"), "--focus and --ignore leave no stack"),
    ("idle", ("--mode", "gpu"), "the recording has no GPU time; `pitot report` says why"),
])
@pytest.mark.parametrize("output", [(), ("--format", "text"), ("-o", "x.svg"), ("-o", "x.pb.gz")])
def test_flame(pitot, folder, tmp_path, name, options, words, output):
    result = pitot("flame", folder / f"{name}.pitot", *options, *output, status=1)
    assert "error: nothing to show: " in result.stderr and words in result.stderr
    assert result.stdout == "" and list(tmp_path.iterdir()) == []


def test_timeline(pitot, folder):
    result = pitot("timeline", folder / "cpu.pitot", status=1)
    assert "error: nothing to show: no GPU work and no CUDA calls here; `pitot report` says why" in result.stderr and result.stdout == ""
    assert pitot("timeline", folder / "cpu.pitot", "--json", json_output=True)["lanes"] == []


def test_flame_json_has_totals(pitot, folder):
    section, = pitot("flame", folder / "cpu.pitot", "--mode", "gpu", "--json", json_output=True)["sections"]
    assert (section["name"], section["total_ns"], section["nodes"]) == ("[GPU]", 0, [])


@pytest.mark.parametrize("name, options, words", [
    ("cpu", ("-o", "x.json"), "json cannot show CPU samples, and there is nothing else; `pitot export -o x.html`, `pitot export --format perfetto`"),
    ("cpu", ("-o", "x.json", "--json"), "json cannot show CPU samples"),
    ("cpu", ("-o", "x.pftrace", "--no-stacks"), "--no-stacks leaves out CPU samples"),
    ("gpu", ("-o", "x.json", "--since", "100s"), "no event starts between --since and --until"),
    ("gpu", ("-o", "x.pftrace.gz", "--since", "100s", "--split-size", "4K"), "no event starts between --since and --until"),
    ("gpu", ("-o", "-", "--format", "json", "--since", "100s"), "no event starts between --since and --until"),
])
def test_export(pitot, folder, tmp_path, name, options, words):
    result = pitot("export", folder / f"{name}.pitot", *options, status=1)
    assert "error: nothing to export: " in result.stderr and words in result.stderr
    assert result.stdout == "" and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["x.json", "x.pftrace", "x.svg"])
def test_a_recording_without_any_event(pitot, tmp_path, output):
    pitot("record", "--gpu-only", "-o", "true.pitot", "--", "true")
    result = pitot("flame" if output == "x.svg" else "export", "true.pitot", "-o", output, status=1)
    assert "error: nothing to " in result.stderr and "`pitot report` says why" in result.stderr
    assert not (tmp_path / output).exists()


def test_export_replaces_nothing_by_nothing(pitot, folder, tmp_path):
    (tmp_path / "x.json").write_text("precious")
    pitot("export", folder / "cpu.pitot", "-o", "x.json", "--force", status=1)
    assert (tmp_path / "x.json").read_text() == "precious"


def test_a_kernel_that_is_not_there(pitot, folder):
    result = pitot("export", folder / "gpu.pitot", "-o", "x.json", "--kernel", "nonesuch")
    assert "warning: no kernel matches 'nonesuch'" in result.stderr
    assert "no kernel matches" not in pitot("export", folder / "gpu.pitot", "-o", "y.json", "--kernel", "saxpy").stderr


@pytest.mark.parametrize("command, name", [
    ("flame", "x.svg"), ("flame", "x.pb.gz"), ("flame", "x.html"), ("export", "x.json"), ("export", "x.json.gz"),
    ("export", "x.pftrace"), ("export", "x.pftrace.gz")])
def test_sizes_are_those_of_the_file(pitot, folder, tmp_path, command, name):
    result = pitot(command, folder / "gpu.pitot", "-o", name, "--json", json_output=True)
    assert result["bytes"] == (tmp_path / name).stat().st_size
    kib = pitot(command, folder / "gpu.pitot", "-o", name, "--force").stderr.split(f"{name}: ")[1].split(" KiB")[0]
    assert float(kib) == pytest.approx(result["bytes"] / 1024, abs=0.051)


def test_sizes_of_parts_are_those_of_the_files(pitot, folder, tmp_path):
    result = pitot("export", folder / "gpu.pitot", "-o", "x.pftrace.gz", "--split-size", "4K", "--json", json_output=True)
    assert result["files"] == len(list(tmp_path.iterdir())) > 1
    assert result["bytes"] == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_view(pitot, folder):
    assert "the recording has no rows of table kernel" in pitot("view", folder / "cpu.pitot", "kernel").stderr
    result = pitot("view", folder / "gpu.pitot", "kernel", "--where", "stream=99")
    assert "no row meets the conditions in table kernel" in result.stderr
    assert "no row" not in pitot("view", folder / "gpu.pitot", "kernel").stderr
    assert pitot("view", folder / "cpu.pitot", "kernel", "--json").stdout == ""


@pytest.mark.parametrize("table, columns, heads", [
    ("kernel", "start,duration,queued,name", ["start_s", "duration_ns", "queued_s", "name"]),
    ("kernel", "start_ns,duration_ns,config.dynamic_shared", ["start_s", "duration_ns", "config.dynamic_shared_bytes"]),
    ("memcpy", "end,bytes", ["end_s", "bytes"]),
    ("clock", "monotonic,width", ["monotonic_s", "width_ns"]),
])
def test_columns_keep_their_units(pitot, folder, table, columns, heads):
    """A person may leave the unit out; JSON has the keys that were asked for."""
    assert pitot("view", folder / "gpu.pitot", table, "-c", columns).stdout.splitlines()[0].split() == heads
    row = pitot("view", folder / "gpu.pitot", table, "-c", columns, "-n", "1", "--json", json_output=True)
    assert list(row) == columns.split(",")
