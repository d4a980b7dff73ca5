"""pitot diff: on trainings of two ranks of tests/data/tapes/ranks; unit/compare has the statistics."""
import json
import re
import xml.etree.ElementTree as ET

import pytest


@pytest.fixture
def diff(pitot, rank_recording):
    """The result of comparing recordings by the names of their tapes; "--" is between the sides."""

    def run(*names, options=(), **keywords):
        return pitot("diff", *(name if name == "--" else rank_recording(name) for name in names), *options,
                     *(["--json"] if keywords.get("json_output") else []), **keywords)

    return run


def rows_of(result, quantity):
    return {row["name"]: row for row in result["rows"] if row["quantity"] == quantity}


def test_a_slower_run(diff):
    result = diff("balanced", "sleep-1", json_output=True)
    step = rows_of(result, "step")[None]
    assert (result["verdict"], result["sample"], result["reasons"]) == ("slower", "steps", [])
    assert step["significant"] and 0.4 < step["low"] <= step["ratio"] <= step["high"] < 0.9
    assert 0.8e6 < step["b"] - step["a"] < 1.6e6, "a rank sleeps 1 ms in each step"
    # What changed is the waiting in the all-reduce, and no computation.
    kernels = rows_of(result, "kernel")
    assert [name for name, row in kernels.items() if row["significant"]] == ["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    assert len(kernels) > 10 and all(row["count_a"] == row["count_b"] for row in kernels.values())
    for side, run in (("a", result["a"][0]), ("b", result["b"][0])):
        assert run["gpu"] == "NVIDIA H200 x 2" and run["steps"] == 10 and run["no_steps"] is None and run["rank"] == "rank 0"
        # The path of a step is the step.
        assert sum(row[f"mean_{side}"] for row in rows_of(result, "path").values()) == pytest.approx(step[side], rel=0.1)
        assert rows_of(result, "gpu")[None][f"mean_{side}"] == pytest.approx(
            sum(row[f"mean_{side}"] for quantity in ("kernel", "copy") for row in rows_of(result, quantity).values()))


def test_text(diff):
    """Numbers of the sentence are those of the first table."""
    text = diff("balanced", "sleep-1").stdout
    sentence = re.search(r"^B is slower: a step takes (.+) in B and (.+) in A, (\S+%) \(95% (.+ to .+), p \S+\)$", text, re.M)
    row = re.search(r"^  step +(\S+ \S+) +(\S+ \S+) +\S+ \S+ +(\S+%) +(\S+% to \S+%) +significant$", text, re.M)
    assert sentence.groups() == (row[2], row[1], row[3], row[4])
    assert "\nwithin runs: " in text and text.count("slow steps are left out") == 2
    assert "… " in text and "… " not in diff("balanced", "sleep-1", options=("--top", "0")).stdout


def test_text_is_folded(program, terminal, rank_recording):
    text = terminal([program, "diff", rank_recording("balanced"), rank_recording("sleep-1")], 60)
    assert max(len(line) for line in text[text.index("within runs: "):].split("\n\n")[0].splitlines()) <= 60


def test_the_same(diff):
    result = diff("balanced", "balanced", json_output=True)
    assert result["verdict"] == "same" and not any(row["significant"] for row in result["rows"])
    # Five of each side: the runs are the sample.
    result = diff(*["balanced"] * 5, "--", *["balanced"] * 6, json_output=True)
    assert (result["verdict"], result["sample"], len(result["a"]), len(result["b"])) == ("same", "runs", 5, 6)
    result = diff(*["sleep-1"] * 5, "--", *["balanced"] * 5, json_output=True)
    assert (result["verdict"], result["sample"]) == ("faster", "runs")


@pytest.mark.parametrize("conditions, status, states", [
    (["step > 2%"], 1, ["failed"]),
    (["step > 2%", "launches > 0", "kernel:*gemm* > 1%"], 1, ["failed", "passed", "passed"]),
    (["launches > 0"], 0, ["passed"]),
    (["kernel:none* > 1%"], 1, ["unknown"]),
])
def test_conditions(diff, conditions, status, states, tmp_path):
    options = [word for condition in conditions for word in ("--fail-if", condition)]
    result = diff("balanced", "sleep-1", options=[*options, "--junit", "x.xml", "--markdown", "x.md"], json_output=True, status=status,
                           cwd=tmp_path)
    assert [(c["condition"], c["state"]) for c in result["conditions"]] == list(zip(conditions, states))
    suite = ET.parse(tmp_path / "x.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        str(len(states) + 1), str(states.count("failed")), str(states.count("unknown")))
    assert [(case.get("name"), case.find("failure") is not None, case.find("error") is not None) for case in suite] == [
        ("comparable", False, False), *((c, s == "failed", s == "unknown") for c, s in zip(conditions, states))]
    markdown = (tmp_path / "x.md").read_text()
    assert markdown.startswith("### Pitot: B is slower: ") and "<" not in markdown
    assert {line.count("|") for line in markdown.splitlines() if line.startswith("|")} == {7}
    passed = diff("balanced", "sleep-1", options=[*options, "--inconclusive=pass"], status="failed" in states)
    assert passed.stdout.rstrip().splitlines()[-1].startswith(conditions[-1] + ": ")


def test_what_cannot_be_compared(diff, pitot, make_recording, tmp_path, rank_recording):
    make_recording(tmp_path / "small.pitot")
    for status, options in ((1, ()), (0, ("--inconclusive", "pass"))):
        result = pitot("diff", tmp_path / "small.pitot", rank_recording("balanced"), *options, status=status)
        assert re.search(r"^inconclusive: the GPU differs: NVIDIA H200 in\s\S*small\.pitot,\sNVIDIA\sH200\sx\s2\sin\s", result.stdout, re.M)
        assert re.search(r"^note: the work itself changed: ", result.stdout, re.M)
    make_recording(tmp_path / "none.pitot", "cpu_only")
    result = pitot("diff", rank_recording("balanced"), tmp_path / "none.pitot", "--json", json_output=True, status=1)
    assert result["verdict"] == "inconclusive" and result["b"][0]["no_steps"] in result["reasons"][0]


@pytest.mark.parametrize("arguments, said", [
    ([], "name two recordings"),
    (["a.pitot"], "name two recordings"),
    (["a.pitot", "b.pitot", "c.pitot"], "name two recordings"),
    (["a.pitot", "--"], "a side of -- has no recording"),
    (["--", "a.pitot"], "a side of -- has no recording"),
    (["a", "--", "b", "--", "c"], "more than one --"),
    (["a", "b", "--fail-if", "step"], "--fail-if 'step' compares nothing; write it like 'step > 2%'"),
    (["a", "b", "--fail-on", "luck"], "luck"),
])
def test_usage(pitot, arguments, said):
    assert said in pitot("diff", *arguments, status=2).stderr


def test_files(diff, pitot, tmp_path):
    assert "no such" in pitot("diff", "a.pitot", "b.pitot", status=1, cwd=tmp_path).stderr.lower()
    (tmp_path / "x.md").write_text("mine")
    assert "x.md" in diff("balanced", "balanced", options=("--markdown", "x.md"), status=1, cwd=tmp_path).stderr
    assert (tmp_path / "x.md").read_text() == "mine"
    diff("balanced", "balanced", options=("--markdown", "x.md", "--force"), cwd=tmp_path)
    assert (tmp_path / "x.md").read_text().startswith("### Pitot: no difference is shown")


def test_determinism(pitot, make_recording, tmp_path):
    """Equal to itself; other programs differ, with stacks and steps in both forms; what has no work cannot be compared."""
    training, varied = (make_recording(tmp_path / f"{kind}.pitot", kind) for kind in ("training", "varied"))
    assert "level 4 of 4 is reached" in pitot("diff", "--determinism", training, training).stdout
    found = json.loads(pitot("diff", "--determinism", "--json", training, varied, status=1).stdout)
    assert found["level"] is None and found["kernels_only_a"] > 0 and set(found["levels"].values()) == {"different"}
    first = found["differences"][0]
    assert first["level"] == "threads" and first["at"] == 1 and first["in_a"]["step"] == 1
    text = pitot("diff", "--determinism", training, varied, status=1).stdout
    assert "no level is reached" in text and first["in_a"]["what"] in text and ", in step 1" in text
    stacks = make_recording(tmp_path / "stacks.pitot", stacks=50, kernels=500)
    frames = [side["stack"] for d in json.loads(pitot("diff", "--determinism", "--json", stacks, training, status=1).stdout)["differences"]
              for side in (d["in_a"], d["in_b"]) if side]
    assert any(len(stack) > 1 for stack in frames)
    assert "compares two recordings" in pitot("diff", "--determinism", training, training, "--", varied, status=2).stderr
    for words in (["--fail-if", "step > 2%"], ["--markdown", "x"], ["--junit", "x"]):
        assert "takes no conditions" in pitot("diff", "--determinism", *words, training, training, status=2).stderr
    cpu = make_recording(tmp_path / "cpu.pitot", "cpu_only")
    assert "it has no GPU work" in pitot("diff", "--determinism", training, cpu, status=1).stderr
