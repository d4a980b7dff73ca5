"""pitot diff: on trainings of two ranks of tests/data/tapes/ranks; unit/compare has the statistics."""
import json
import re
import xml.etree.ElementTree as ET

import pytest

from golden import check_golden


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
    assert (result["verdict"], result["few_runs"], result["runs_needed"], result["reasons"]) == ("slower", True, None, [])
    assert step["significant"] and 0.4 < step["low"] <= step["ratio"] <= step["high"] < 0.9
    assert 0.8e6 < step["b"] - step["a"] < 1.6e6, "a rank sleeps 1 ms in each step"
    # What changed is the waiting in the all-reduce, and no computation.
    kernels = rows_of(result, "kernel")
    assert [name for name, row in kernels.items() if row["significant"]] == ["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]
    assert len(kernels) > 10 and all(row["count_a"] == row["count_b"] for row in kernels.values())
    for side, run in (("a", result["a"][0]), ("b", result["b"][0])):
        assert run["gpu"] == "NVIDIA H200 x 2" and run["steps"] == 10 and run["no_steps"] is None and run["rank"] == "rank 0"
        assert run["engine"].startswith("trace"), run["engine"]
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
    assert "\nfew runs: " in text and text.count("slow steps are left out") == 2
    assert "… " in text and "… " not in diff("balanced", "sleep-1", options=("--top", "0")).stdout


def test_text_is_folded(program, terminal, rank_recording):
    text = terminal([program, "diff", rank_recording("balanced"), rank_recording("sleep-1")], 60)
    assert max(len(line) for line in text[text.index("few runs: "):].split("\n\n")[0].splitlines()) <= 60


def test_the_same(diff):
    result = diff("balanced", "balanced", json_output=True)
    assert result["verdict"] == "same" and not any(row["significant"] for row in result["rows"])
    # Five of each side: their own spread decides.
    result = diff(*["balanced"] * 5, "--", *["balanced"] * 6, json_output=True)
    assert (result["verdict"], result["few_runs"], len(result["a"]), len(result["b"])) == ("same", False, 5, 6)
    result = diff(*["sleep-1"] * 5, "--", *["balanced"] * 5, json_output=True)
    assert (result["verdict"], result["few_runs"]) == ("faster", False)


SECONDS, COUNT, TEXT = r"\d+\.\d{9}", r"\d+", r"(?s).+"
# What CI systems read: attributes with their values ("?": may be missing), and elements in this order with how many of them there may be.
RESULT = ({"type": TEXT, "message": TEXT}, {})
JUNIT = {
    "testsuites": ({}, {"testsuite": (1, 1)}),
    "testsuite": ({"name": TEXT, "tests": COUNT, "failures": COUNT, "errors": COUNT, "skipped": COUNT}, {"testcase": (1, 1000)}),
    "testcase": ({"classname": TEXT, "name": TEXT, "time?": SECONDS},
                 {"skipped": (0, 1), "error": (0, 1), "failure": (0, 1), "system-out": (1, 1)}),
    "skipped": RESULT, "error": RESULT, "failure": RESULT, "system-out": ({}, {}),
}
JUNIT_RESULTS = {"passed": None, "failed": "failure", "unknown": "error"}


def junit(path):
    """[(name, result)] of the test cases of a file that keeps to the schema, with counts that are theirs."""
    root = ET.fromstring(path.read_bytes())
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = JUNIT[element.tag]
        values = {name.rstrip("?"): value for name, value in attributes.items()}
        assert {name for name in attributes if not name.endswith("?")} <= set(element.keys()) <= set(values), ET.tostring(element)
        assert all(re.fullmatch(values[name], value) for name, value in element.items()), element.attrib
        tags = [child.tag for child in element]
        assert tags == sorted(tags, key=list(children).index), tags
        assert all(least <= tags.count(tag) <= most for tag, (least, most) in children.items()), tags
        assert element.tag == "system-out" or not (element.text or "").strip(), "text only where the schema has it"
    cases = list(root.iter("testcase"))
    for case in cases:
        assert all(child.get("message") == case.findtext("system-out") for child in case if child.tag != "system-out")
    for attribute, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert root[0].get(attribute) == str(len(list(root.iter(tag)))), attribute
    assert len({case.get("name") for case in cases}) == len(cases)
    return [(case.get("name"), case[0].tag if len(case) > 1 else None) for case in cases]


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
    assert junit(tmp_path / "x.xml") == [("comparable", None), *zip(conditions, map(JUNIT_RESULTS.get, states))]
    markdown = (tmp_path / "x.md").read_text()
    assert markdown.startswith("### Pitot: B is slower: ") and "<" not in markdown
    assert {line.count("|") for line in markdown.splitlines() if line.startswith("|")} == {7}
    passed = diff("balanced", "sleep-1", options=[*options, "--inconclusive=pass", "--junit", "passed.xml"], status="failed" in states, cwd=tmp_path)
    results = JUNIT_RESULTS | {"unknown": "skipped"}
    assert junit(tmp_path / "passed.xml") == [("comparable", None), *zip(conditions, map(results.get, states))]
    assert passed.stdout.rstrip().splitlines()[-1].startswith(conditions[-1] + ": ")


def test_what_cannot_be_compared(diff, pitot, make_recording, tmp_path, rank_recording):
    make_recording(tmp_path / "small.pitot", kernels=20000)
    for status, options, expected in ((1, (), "error"), (0, ("--inconclusive", "pass"), "skipped")):
        result = pitot("diff", tmp_path / "small.pitot", rank_recording("balanced"), "--junit", f"{expected}.xml", *options, status=status)
        assert junit(tmp_path / f"{expected}.xml") == [("comparable", expected)]
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
    for words in (["--fail-if", "step > 2%"], ["--markdown", "x"], ["--junit", "x"], ["--github"]):
        assert "takes no conditions" in pitot("diff", "--determinism", *words, training, training, status=2).stderr
    cpu = make_recording(tmp_path / "cpu.pitot", "cpu_only")
    assert "it has no GPU work" in pitot("diff", "--determinism", training, cpu, status=1).stderr


def annotations(output):
    """[(level, title, text)] of the workflow commands that the runner obeys, decoded as it does."""
    found = []
    for line in re.split("\r\n|\r|\n", output):
        command = line.lstrip()
        if command.startswith("::"):
            head, end, text = command[2:].partition("::")
            level, _, properties = head.partition(" ")
            assert end and level in ("notice", "warning", "error") and ":" not in properties, line
            (title,) = properties.split(",")
            assert title.startswith("title="), line
            found.append((level, decoded(title.removeprefix("title="), {"0D": "\r", "0A": "\n", "3A": ":", "2C": ",", "25": "%"}),
                          decoded(text, {"0D": "\r", "0A": "\n", "25": "%"})))
        assert "##[" not in line
    return found


def decoded(text, codes):
    """Every '%' begins one of the codes, which are all that the runner knows there."""
    return re.sub("%(..)", lambda match: codes[match[1]], text)


@pytest.mark.parametrize("sides, conditions, status, levels", [
    (["balanced", "sleep-1"], ["step > 2%", "launches > 0", "kernel:a,b::c%0A > 1%"], 1, ["warning", "error", "notice", "error"]),
    (["balanced", "sleep-1"], ["launches > 0"], 0, ["warning", "notice"]),
    (["balanced", "balanced"], ["kernel:none > 1%", "--inconclusive=pass"], 0, ["notice", "warning"]),
    (["sleep-1", "balanced"], [], 0, ["notice"]),
])
def test_github(diff, tmp_path, sides, conditions, status, levels):
    options = [word for condition in conditions for word in (["--fail-if"] if not condition.startswith("-") else []) + [condition]]
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    diff(*sides, options=[*options, "--markdown", "x.md"], status=status, cwd=tmp_path)
    result = diff(*sides, options=[*options, "--github"], status=status, cwd=tmp_path, env={"GITHUB_STEP_SUMMARY": str(summary)})
    found = annotations(result.stdout)
    assert [level for level, _, _ in found] == levels and not result.stderr
    assert [title for _, title, _ in found] == ["pitot diff", *(c for c in conditions if not c.startswith("-"))]
    assert all(text.startswith(f"{title}: ") for _, title, text in found[1:]) and "a step takes" in found[0][2]
    assert summary.read_text() == "before\n" + (tmp_path / "x.md").read_text()
    # With --json standard output is one value, and the runner reads standard error as well.
    result = diff(*sides, options=[*options, "--github", "--json"], status=status, cwd=tmp_path)
    assert annotations(result.stderr) == found and json.loads(result.stdout)["verdict"]


HOSTILE = "kernel:a,b::c%0A%3A%\r\n::error::d]\te\x85\u2028<&\"'>\x01 > 1%"


def test_hostile_conditions(diff, rank_recording, pitot, tmp_path):
    """Each is one annotation and one test case, whatever is in it, and says what was written."""
    result = diff("balanced", "balanced", options=["--fail-if", HOSTILE, "--junit", "x.xml", "--github"], status=1, cwd=tmp_path)
    (_, (level, title, text)) = annotations(result.stdout[result.stdout.index("::notice"):])
    assert level == "error" and text == f"{title}: unknown, no run has such a quantity"
    assert title == "kernel:a,b::c%0A%3A%\\x0d\\x0a::error::d]\\x09e\\xc2\\x85\\u{2028}<&\"'>\\x01 > 1%"
    name = "".join(" " if c in "\r\n\t" else "\ufffd" if c == "\x01" else c for c in HOSTILE)
    assert junit(tmp_path / "x.xml") == [("comparable", None), (name, "error")]
    # Files are named in reasons.
    other = tmp_path / "a%0A,b\n::error::c<&.pitot"
    other.symlink_to(rank_recording("balanced"))
    small = pitot("diff", rank_recording("balanced"), other, "--fail-if", "step > 1%", "--github", "--junit", tmp_path / "y.xml")
    assert len(annotations(small.stdout)) == 2 and len(junit(tmp_path / "y.xml")) == 2


def test_names_are_no_commands_of_github(pitot, imported_steps):
    """In no output: not at the beginning of a line, after blanks (also those of .NET), nor where a sentence is folded."""
    names = ["##[error]mine", "::error::mine", "\u3000::error::mine", "long " * 30 + "::error::mine"]
    recording = imported_steps("x", [(name, 100 + i) for i, name in enumerate(names)])
    query = "select config_name, count(*) from kernel group by 1"
    for words in (["diff", recording, recording], ["diff", recording, recording, "--github"], ["diff", recording, recording, "--json"],
                  ["report", recording], ["report", recording, "--json"], ["sql", recording, query], ["sql", recording, query, "--csv"],
                  ["sql", recording, query, "--json"], ["view", recording, "kernel"], ["view", recording, "kernel", "--json"]):
        result = pitot(*words, env={"GITHUB_ACTIONS": "true"})
        expected = [(level, "pitot diff") for level in ["notice"] if "--github" in words]
        assert [found[:2] for found in annotations(result.stdout)] == expected, words
        assert "error" in result.stdout, words
    assert "\n  \\x23#[error]mine " in pitot("diff", recording, recording).stdout


def test_a_summary_that_cannot_be_written(diff, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "full").write_text(" " * (1 << 20))
    for name, said in (("link", "symbolic link"), ("none", "No such file"), ("", "Invalid argument"), ("full", "too large")):
        result = diff("balanced", "balanced", options=["--github"], env={"GITHUB_STEP_SUMMARY": f"{tmp_path}/{name}"})
        assert "which GITHUB_STEP_SUMMARY names: " in result.stderr and said in result.stderr, result.stderr
    for name in ("", "file"):  # a relative path is none of the runner's
        assert not diff("balanced", "balanced", options=["--github"], cwd=tmp_path, env={"GITHUB_STEP_SUMMARY": name}).stderr
    assert (tmp_path / "file").read_text() == "mine" and (tmp_path / "full").stat().st_size == 1 << 20


def test_renamed_kernels(pitot, imported_steps, tmp_path):
    """At the same place of a step with the same grid and block: one row for both names, also against a baseline."""
    a = imported_steps("a", [("first", 40), ("cutlass_80", 100), ("last", 30)])
    b = imported_steps("b", [("first", 40), ("sm90|gemm", 60), ("last", 30)])
    result = pitot("diff", a, b, "--json", json_output=True, cwd=tmp_path)
    rows = rows_of(result, "kernel")
    assert {name: (row["was"], row["in_a"], row["in_b"]) for name, row in rows.items()} == {
        "first": (None, True, True), "last": (None, True, True), "sm90|gemm": ("cutlass_80", True, True)}
    row = rows["sm90|gemm"]
    assert -0.42 < row["ratio"] < -0.38 and row["significant"] and rows_of(result, "path")["sm90|gemm"]["was"] == "cutlass_80"
    assert "1 kernel has another name in B, at the same place of a step with the same grid and block" in result["notes"]
    text = pitot("diff", a, b, "--markdown", "x.md", "-o", "x.html").stdout
    assert len(re.findall(r"^  sm90\|gemm \(was cutlass_80\) +1\S+ us +6[01]\.\d us ", text, re.M)) == 2 and "gone" not in text and "new" not in text
    assert "| kernel:sm90&#124;gemm (was cutlass&#95;80) |" in (tmp_path / "x.md").read_text()
    assert "sm90|gemm (was cutlass_80)</td>" in (tmp_path / "x.html").read_text()
    # Conditions select it by either name.
    conditions = [word for name in ("*gemm*", "cutlass*", "*") for word in ("--fail-if", f"kernel:{name} < -30us")]
    failed = pitot("diff", a, b, "--json", *conditions, json_output=True, status=1)
    assert [(c["state"], c["parts"], round(c["b"] - c["a"], -3)) for c in failed["conditions"]] == [
        ("failed", 1, -40000), ("failed", 1, -40000), ("unknown", 3, -40000)]
    env = {"XDG_DATA_HOME": str(tmp_path)}
    pitot("baseline", "save", "a", a, env=env)
    assert pitot("diff", "--against", "a", b, "--json", env=env).stdout == pitot("diff", a, b, "--json").stdout
    # Elsewhere in a step it is another kernel.
    c = imported_steps("c", [("sm90|gemm", 60), ("first", 40), ("last", 30)])
    rows = rows_of(pitot("diff", a, c, "--json", json_output=True), "kernel")
    assert rows["cutlass_80"]["was"] is None and rows["sm90|gemm"]["was"] is None


def test_renamed_in_a_scope(pitot, imported_steps):
    """The only kernel of a module's scope that the other side lacks, wherever in the step."""
    a = imported_steps("a", [("first", 40), ("cutlass_80", 100), ("last", 30)], scopes=["norm 1", "linear 1", "norm 2"])
    b = imported_steps("b", [("sm90_gemm", 60), ("first", 40), ("added", 5), ("last", 30)], scopes=["linear 7", "norm 1", "extra", "norm 2"])
    result = pitot("diff", a, b, "--json", "--inconclusive=pass", json_output=True)
    rows = rows_of(result, "kernel")
    assert {name: row["was"] for name, row in rows.items()} == {"first": None, "sm90_gemm": "cutlass_80", "added": None, "last": None}
    assert "1 kernel has another name in B, as the only one of their scope that the other side lacks" in result["notes"]


def test_scopes(pitot, imported_steps, tmp_path):
    """GPU work by its scope within the step: parts add up, have the statistics of the others, and are conditions."""
    kernels = [("gemm", 100), ("gemm", 50), ("relu", 20), ("copy", 10)]
    a = imported_steps("a", kernels, scopes=["layers.0/linear", "layers.1/linear", "layers.1/linear", "batch 3"])
    b = imported_steps("b", [("gemm", 100), ("gemm", 150), *kernels[2:]], scopes=["layers.0/linear", "layers.1/linear", "layers.1/linear", "batch 8"])
    result = pitot("diff", a, b, "--json", json_output=True)
    rows = rows_of(result, "scope")
    assert {name: (round(row["a"] / 1e4), round(row["b"] / 1e4), row["count_a"], row["significant"]) for name, row in rows.items()} == {
        "layers.0/linear": (10, 10, 1, False), "layers.1/linear": (7, 17, 2, True), "batch N": (1, 1, 1, False)}
    assert sum(row["mean_b"] for row in rows.values()) == pytest.approx(rows_of(result, "gpu")[None]["mean_b"])
    failed = pitot("diff", a, b, "--json", "--fail-if", "scope:layers.1* > 20us", "--fail-if", "scope:layers* > 100%", json_output=True, status=1)
    assert [(c["state"], c["parts"], round(c["b"] - c["a"], -3)) for c in failed["conditions"]] == [("failed", 1, 100000), ("passed", 2, 100000)]
    text = pitot("diff", a, b, "-o", "x.html").stdout
    table = text[text.index("GPU work of a step, by the scope or range that launched it"):]
    assert re.search(r"^  layers\.1/linear +7\d\.?\d* us +17\d us .* significant$", table, re.M), table
    assert 'id="scopes"' in (tmp_path / "x.html").read_text()
    env = {"XDG_DATA_HOME": str(tmp_path)}
    pitot("baseline", "save", "a", a, env=env)
    assert pitot("diff", "--against", "a", b, "--json", env=env).stdout == pitot("diff", a, b, "--json").stdout


def test_without_scopes(pitot, imported_steps):
    """Where only steps have scopes, these are no quantity, and a condition about them is unknown."""
    a, b = (imported_steps(name, [("gemm", 100)]) for name in "ab")
    result = pitot("diff", a, b, "--json", "--fail-if", "scope:* > 1%", json_output=True, status=1)
    assert not rows_of(result, "scope") and [c["state"] for c in result["conditions"]] == ["unknown"]
    # Work outside of the scopes of a step has a row, so that parts add up.
    b = imported_steps("c", [("gemm", 100), ("relu", 20)], scopes=["layer"])
    rows = rows_of(pitot("diff", a, b, "--json", "--inconclusive=pass", json_output=True), "scope")
    assert {name: (row["in_a"], row["in_b"], row["count_b"]) for name, row in rows.items()} == {
        "layer": (False, True, 1), "(in no scope of the step)": (False, True, 1)}


def test_the_order_of_a_usual_step(pitot, imported_steps):
    """Kernels are matched by their places in a step with the usual launches, which need not be the first."""
    warm_up = [("warm_up", 40)]
    a = imported_steps("a", [("first", 40), ("cutlass_80", 100), ("last", 30)], first=warm_up)
    b = imported_steps("b", [("first", 40), ("sm90_gemm", 60), ("last", 30)], first=warm_up)
    rows = rows_of(pitot("diff", a, b, "--json", "--inconclusive=pass", json_output=True), "kernel")
    assert rows["sm90_gemm"]["was"] == "cutlass_80" and rows["warm_up"]["count_a"] == 0.1


@pytest.fixture
def changed(imported_steps):
    """Two recordings with all kinds of changes."""
    kernels = [("first", 40), ("cutlass_80", 100), ("gone", 20), ("last", 30)]
    return (imported_steps("a", kernels, scopes=["norm", "linear", "linear", "norm"], first=[*kernels, ("warm_up", 900)]),
            imported_steps("b", [("first", 40), ("sm90|gemm", 160), ("new", 20), ("new", 10), ("last", 30)], scopes=["norm", "linear", "other", "other", "norm"]))


def test_goldens(pitot, changed, tmp_path):
    """The whole text, with what is renamed, gone and new, notes, and conditions of all states; the same as Markdown, JUnit and a page."""
    conditions = [word for text in ("step > 2%", "kernel:*gemm* > 1ms", "scope:linear > 10us", "memory > 1%", "launches > 0")
                  for word in ("--fail-if", text)]
    result = pitot("diff", *changed, *conditions, "--markdown", "x.md", "--junit", "x.xml", "-o", "x.html", status=1)
    check_golden("diff.txt", result.stdout)
    check_golden("diff.md", (tmp_path / "x.md").read_text())
    check_golden("diff-junit.xml", (tmp_path / "x.xml").read_text())
    check_golden("diff-github.txt", pitot("diff", *changed, *conditions, "--github", status=1).stdout.partition("::")[2])
    page = (tmp_path / "x.html").read_text()
    body = re.sub(r"(?s)<(style|script)\b.*?</\1>", "", page)
    check_golden("diff-page.txt", "\n".join(re.findall(r"<section.*?>|<h2.*?</h2>|<t[hd].*?</t[hd]>", body)) + "\n")


def test_goldens_of_determinism(pitot, changed):
    check_golden("diff-determinism.txt", pitot("diff", "--determinism", *changed, status=1).stdout)
    check_golden("diff-determinism.json", pitot("diff", "--determinism", *changed, "--json", status=1).stdout)
    check_golden("diff-determinism-same.txt", pitot("diff", "--determinism", changed[0], changed[0]).stdout)
