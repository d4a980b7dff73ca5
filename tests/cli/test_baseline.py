"""pitot baseline and pitot diff --against; unit/compare/test_baseline has damaged files."""
import json
import os
import stat

import pytest


@pytest.fixture
def store(tmp_path):
    """The folder of the user's data; baselines are in pitot/baselines below it."""
    return tmp_path / "data"


@pytest.fixture
def baseline(pitot, store):
    def run(*words, **keywords):
        return pitot("baseline", *words, env={"XDG_DATA_HOME": str(store)}, **keywords)

    return run


@pytest.fixture
def against(pitot, store):
    def run(*words, **keywords):
        return pitot("diff", "--against", *words, env={"XDG_DATA_HOME": str(store), **keywords.pop("env", {})}, **keywords)

    return run


def files_of(store):
    return sorted(path.name for path in (store / "pitot/baselines").iterdir())


@pytest.mark.parametrize("a, b", [
    (["balanced"], ["sleep-1"]),
    (["balanced", "sleep-1"], ["balanced"] * 5),
    (["sleep-1"] * 5, ["balanced"] * 6),
])
def test_the_same_as_the_recordings(baseline, against, pitot, rank_recording, store, a, b):
    """In all digits: with steps as the sample, and with runs."""
    a, b = ([rank_recording(name) for name in side] for side in (a, b))
    said = baseline("save", "main", *a).stderr
    assert f"saved {len(a)} run" in said and "`pitot diff --against main`" in said
    for options in (["--json"], ["--top", "0"], ["--json", "--fail-if", "step > 2%", "--fail-if", "kernel:*gemm* < -1%"]):
        whole = pitot("diff", *a, "--", *b, *options, status=None)
        assert against("main", *b, *options, status=whole.returncode).stdout == whole.stdout
    assert files_of(store) == ["main.baseline"]
    assert stat.S_IMODE((store / "pitot").stat().st_mode) == stat.S_IMODE((store / "pitot/baselines").stat().st_mode) == 0o700
    assert stat.S_IMODE((store / "pitot/baselines/main.baseline").stat().st_mode) == 0o600


def test_the_recording_is_not_needed(baseline, against, pitot, make_recording, tmp_path):
    recording = make_recording(tmp_path / "a.pitot", "training")
    whole = pitot("diff", "a.pitot", "a.pitot", "--json").stdout
    baseline("save", "x", "a.pitot")
    recording.rename(tmp_path / "b.pitot")
    found = json.loads(against("x", "b.pitot", "--json").stdout)
    assert found["a"] == json.loads(whole)["a"] and found["verdict"] == "same" and found["b"][0]["recording"] == "b.pitot"


def test_replacing_listing_and_removing(baseline, store, make_recording, tmp_path):
    assert "there are no baselines" in baseline("list").stderr and not store.exists()
    recording = make_recording(tmp_path / "a.pitot", "training")
    baseline("save", "main", recording)
    before = (store / "pitot/baselines/main.baseline").read_bytes()
    assert "baseline 'main' exists: choose another name, or replace it with --force" in baseline("save", "main", recording, recording, status=1).stderr
    assert (store / "pitot/baselines/main.baseline").read_bytes() == before
    baseline("save", "--force", "main", recording, recording)
    baseline("save", "v1.0", recording)
    (store / "pitot/baselines/notes").write_text("mine")
    found = baseline("list", "--json", json_output=True)
    assert [(b["name"], len(b["runs"]), b["error"]) for b in found] == [("main", 2, None), ("v1.0", 1, None)]
    assert found[0]["bytes"] > len(before) and found[0]["saved"].endswith(" UTC") and found[0]["runs"][0]["steps"] > 5
    text = baseline().stdout
    assert text == baseline("list").stdout and text.splitlines()[0].split() == ["baseline", "runs", "steps", "a", "step", "GPU", "saved", "command"]
    assert "H200" in text.splitlines()[1] and found[0]["command"] in text
    baseline("rm", "main")
    assert files_of(store) == ["notes", "v1.0.baseline"]
    assert "there is no baseline 'v1.1', did you mean 'v1.0'?" in baseline("rm", "v1.1", status=1).stderr
    baseline("rm", "v1.0")
    assert files_of(store) == ["notes"]


def test_what_is_missing(baseline, against, store, make_recording, tmp_path):
    recording = make_recording(tmp_path / "a.pitot", "training")
    assert "there is no baseline 'main'; `pitot baseline list` shows" in against("main", recording, status=1).stderr
    assert "there is no baseline 'main'" in baseline("rm", "main", status=1).stderr and not store.exists()
    cpu = make_recording(tmp_path / "cpu.pitot", "cpu_only")
    assert "has no steps: there is no GPU work; comparing with this baseline is inconclusive" in baseline("save", "cpu", cpu).stderr
    assert "inconclusive: " in against("cpu", recording, status=1).stdout
    assert "no such" in baseline("save", "x", "none.pitot", status=1).stderr.lower()
    assert files_of(store) == ["cpu.baseline"]


def test_damaged_and_old_files(baseline, against, store, make_recording, tmp_path):
    recording = make_recording(tmp_path / "a.pitot", "training")
    baseline("save", "main", recording)
    file = store / "pitot/baselines/main.baseline"
    whole = file.read_bytes()
    again = "; save it again with `pitot baseline save --force main RECORDING...`"
    for content, said in ((whole[:-1], "it is damaged"), (b"", "it is damaged"),
                          (whole.replace(b"pitot baseline ", b"pitot baseline 9"), "another version of Pitot saved it, which may measure differently")):
        file.write_bytes(content)
        assert f"baseline 'main': {said}{again}" in against("main", recording, status=1).stderr
        listed = baseline("list")
        assert f"baseline 'main': {said}" in listed.stderr and "cannot be read" in listed.stdout
        assert said in baseline("list", "--json", json_output=True)[0]["error"]
    file.unlink()
    os.mkfifo(file)
    assert "cannot read baseline 'main': " in against("main", recording, status=1).stderr
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert "cannot read baseline 'main': " in against("main", recording, status=1).stderr
    baseline("save", "--force", "main", recording)
    assert not file.is_symlink() and file.read_bytes() == whole


def test_where_it_is(baseline, pitot, store, make_recording, tmp_path):
    recording = make_recording(tmp_path / "a.pitot", "training")
    for variables, where in (({"XDG_DATA_HOME": "relative"}, "home/.local/share"), ({"XDG_DATA_HOME": ""}, "home/.local/share"),
                             ({"XDG_DATA_HOME": str(tmp_path / "deep/er")}, "deep/er")):
        pitot("baseline", "save", "x", recording, "--force", env={"HOME": str(tmp_path / "home"), **variables})
        assert (tmp_path / where / "pitot/baselines/x.baseline").is_file()
    assert not (tmp_path / "relative").exists()
    nowhere = pitot("baseline", "save", "x", recording, env={"HOME": "", "XDG_DATA_HOME": ""}, status=1).stderr
    assert "neither XDG_DATA_HOME nor HOME names a folder for baselines" in nowhere
    (store / "pitot").mkdir(parents=True)
    (store / "pitot/baselines").symlink_to(tmp_path)
    assert "cannot open" in baseline("save", "x", recording, status=1).stderr
    assert not (tmp_path / "x.baseline").exists()


@pytest.mark.parametrize("words, said", [
    (["save"], "name the baseline, and the recordings of it"),
    (["save", "main"], "name the baseline, and the recordings of it"),
    (["save", "a/b", "x.pitot"], "'a/b' cannot be the name of a baseline: use letters, digits"),
    (["save", "..", "x.pitot"], "cannot be the name of a baseline"),
    (["save", "x", *["a.pitot"] * 64], "a baseline has at most 63 recordings"),
    (["rm"], "name the baselines to remove"),
    (["rm", "../x"], "cannot be the name of a baseline"),
    (["list", "main"], "list takes no names"),
    (["sav", "x"], "unknown action 'sav', did you mean 'save'?"),
])
def test_usage(baseline, store, words, said):
    assert said in baseline(*words, status=2).stderr and not store.exists()


@pytest.mark.parametrize("words, said", [
    (["main"], "name the recordings to compare with 'main'"),
    (["main", "a", "--", "b"], "with --against all recordings are side B"),
    (["a/b", "x"], "cannot be the name of a baseline"),
    (["main", "--determinism", "a", "b"], "--determinism takes no conditions and no baseline"),
])
def test_usage_of_against(against, words, said):
    assert said in against(*words, status=2).stderr
