"""What the documents must not forget: every key of every JSON, every capability, every check, every command."""
import json
import re

import pytest

from golden import check_part


@pytest.fixture(scope="module")
def varied(make_recording, tmp_path_factory):
    path = tmp_path_factory.mktemp("documents") / "varied.pitot"
    return make_recording(path, "varied")


def keys(value):
    """All keys of objects; the names of tables and enum values below `tables`, `written` and the like are data."""
    if isinstance(value, list):
        return set().union(*map(keys, value))
    if not isinstance(value, dict):
        return set()
    found = set(value)
    for key, inner in value.items():
        names = isinstance(inner, dict) and key in ("tables", "written", "untimed", "by", "values")
        found |= set().union(*map(keys, inner.values())) if names else keys(inner)
    return found


def words(text):
    """The words in code of a document."""
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", text))))


@pytest.mark.parametrize("page, command", [
    ("info", ["info", "--verify"]), ("report", ["report"]), ("export", ["export", "-o", "x.json"]),
    ("upload", ["upload", "--dry-run"]), ("symbolize", ["symbolize"]), ("timeline", ["timeline"]), ("replay", ["replay", "--dry-run"]), ("view", ["schema"]), ("view", ["view"]), ("doctor", ["doctor"])])
def test_keys_of_json(source, pitot, varied, tmp_path, page, command):
    arguments = [] if command[0] in ("schema", "doctor") else [varied]
    printed = json.loads(pitot(*command, "--json", *arguments, status=None).stdout)
    text = (source / "docs" / f"{page}.md").read_text()
    if page == "info":  # columns of the schema
        printed["devices"] = []
    assert keys(printed) <= words(text), keys(printed) - words(text)


@pytest.mark.parametrize("transforms", [[], ["gpu x0.5"]])
def test_keys_of_what_if(source, pitot, varied, transforms):
    printed = json.loads(pitot("what-if", "--json", varied, *transforms).stdout)
    assert keys(printed) <= words((source / "docs" / "what-if.md").read_text())


def test_keys_of_stalls(source, pitot, make_recording, tmp_path):
    printed = pitot("report", make_recording(tmp_path / "r.pitot", "stalls"), "--stalls", "--json", json_output=True)
    assert printed["stalls"]["instructions"][0]["frames"]
    assert keys(printed["stalls"]) <= words((source / "docs" / "report.md").read_text())


def test_keys_of_the_end_of_record(source, pitot, tmp_path):
    printed = json.loads(pitot("record", "--json", "--no-cpu", "-o", tmp_path / "x.pitot", "true").stderr.splitlines()[-1])
    assert keys(printed) <= words((source / "docs" / "record.md").read_text())


def test_checks_of_the_doctor(source, pitot):
    table = (source / "docs" / "doctor.md").read_text().split("|---|---|")[1].split("\n\n")[0]
    documented = {name.strip() for line in table.splitlines() if line for name in line.split("|")[1].split(",")}
    checks = {check["name"] for check in json.loads(pitot("doctor", "--json", status=None).stdout)["checks"]}
    assert checks == documented


def test_every_command_has_a_page_and_a_line_in_the_readme(source, pitot):
    readme = (source / "README.md").read_text()
    pages = "\n".join(page.read_text().splitlines()[0] for page in (source / "docs").glob("*.md"))
    for command in pitot("help", "--json", json_output=True)["commands"]:
        if command["name"] in ("help", "version", "completion"):
            continue
        assert f"pitot {command['name']}" in readme
        assert f"pitot {command['name']}" in pages


def test_options_that_texts_name(source, pitot):
    """What documents, help and messages tell people to type: each option is one of its command."""
    options = {}
    for name in [command["name"] for command in pitot("help", "--json", json_output=True)["commands"]]:
        [command] = pitot("help", name, "--json", json_output=True)["commands"]
        options[name] = {"help", "json", "quiet", "verbose", "color", "pager", "no-pager"}
        for option in command["options"]:
            options[name] |= {option["name"], *["no-" + option["name"]] * option["negatable"]}
    files = [source / "README.md", source / "CONTRIBUTING.md", *(source / "docs").glob("*.md"), *(source / "src").rglob("*.[ch]")]
    named = [(str(path), *found) for path in files
             for found in re.findall(r"\bpitot ([a-z-]+)((?: [^\n`|&;:\"]*)?)", re.sub(r'"[ \\]*\n\s*"', "", path.read_text()))]
    assert len(named) > 500
    assert [(path, command, option) for path, command, rest in named if command in options
            for option in re.findall(r"(?<![\w-])--([a-z][a-z-]*)", rest.split(" -- ")[0]) if option not in options[command]] == []


def test_the_next_id_of_a_table(source, pitot):
    """CONTRIBUTING.md shows how to add a table, with an id that is free."""
    ids = [table["id"] for table in pitot("schema", "--json", json_output=True)["tables"]]
    assert f"`T(video_decode, {max(ids) + 1}, " in (source / "CONTRIBUTING.md").read_text()


def option_row(option):
    name = f"--{'[no-]' if option['negatable'] else ''}{option['name']}"
    argument = (option["argument"] or "").replace("|", "\\|")
    name += f"[={argument}]" if option["without_argument"] else f" {argument}" if argument else ""
    letter = f"`-{option['letter']}`, " if option["letter"] else ""
    setting = f"`{option['setting']}`" if option["setting"] else ""
    return f"| {letter}`{name}` | {setting} | {option['help']} |"


def test_options_of_record(source, pitot):
    """The table of options is generated from their declarations."""
    [command] = pitot("help", "record", "--json", json_output=True)["commands"]
    check_part(source / "docs/record.md", "| option | in `PITOT_OPTIONS` | meaning |\n|---|---|---|\n", "\n".join(map(option_row, command["options"])))


def test_settings_of_the_library(source, pitot):
    """A row for each setting that the command line has: its field, its variable, its key of a file."""
    [command] = pitot("help", "record", "--json", json_output=True)["commands"]
    rows = [f"| `{option['setting']}` | `PITOT_{option['name'].upper().replace('-', '_')}` | `{option['name']}` |"
            for option in command["options"] if option["setting"]]
    page = (source / "docs" / "embed.md").read_text()
    check_part(source / "docs/embed.md", "| field, and key of `PITOT_OPTIONS` | environment | file |\n|---|---|---|\n", "\n".join(rows))
    assert set(re.findall(r"^\|.*`(GPUFL_\w+)`", page, re.M)) <= set(re.findall(r'"(GPUFL_\w+)"', (source / "src/schema/settings_read.c").read_text()))


def test_every_engine_has_a_section(source, pitot):
    [command] = pitot("help", "record", "--json", json_output=True)["commands"]
    [engines] = [option["choices"] for option in command["options"] if option["name"] == "engine"]
    page = (source / "docs" / "engines.md").read_text()
    assert [name for name in engines[2:] if f"--engine {name}" not in page] == []  # beyond monitor and trace


def test_every_metric_has_a_row(source):
    """Those of GPUs and the machine, and those of rules."""
    for declared, pattern, page in (("src/system/metrics.h", r"\tM\((\w+), ", "monitor.md"),
                                    ("src/rules/rule.h", r"\tR\(\w+, \"([\w-]+)\", ", "rules.md")):
        names = re.findall(pattern, re.sub(r"(?m)^ \*.*", "", (source / declared).read_text()))
        text = (source / "docs" / page).read_text()
        assert len(names) > 15 and [name for name in names if f"`{name}`" not in text and f"`{name} " not in text] == []


def python_type(kind, name, text):
    """Of a field of struct pitot_options; the words of an enum are those of the command line."""
    if kind == "enum pitot_switch":
        return "bool"
    if kind.startswith("enum"):
        values = re.search(rf"{kind} {{(.*?)}}", text, re.S)[1]
        prefix = kind.replace("enum ", "").upper() + "_"
        words = re.findall(rf"{prefix}(\w+)", values)
        return f"Literal{json.dumps([word.replace('_', '-').lower() for word in words])}"
    return {"uint64_t": "int"}.get(kind) or ("Path" if name in ("log_path", "config_file") else "str")


def test_settings_of_python(source):
    """The keywords of a recording are generated from struct pitot_options, but for those that only C needs."""
    text = re.sub(r"/\*.*?\*/", "", (source / "include/pitot/pitot.h").read_text(), flags=re.S)
    struct = re.search(r"struct pitot_options {(.*?)^}", text, re.S | re.M)[1]
    fields = {name: python_type(kind, name, text) for kind, names in re.findall(r"^\t(\w+(?: \w+)*) \*?([\w, ]+);", struct, re.M)
              for name in names.split(", ") if name not in ("size", "directory", "log_context", "defaults")}
    lines = [f"        {name}: Optional[{'Engine' if name == 'engine' else kind}]" for name, kind in fields.items()]
    module = source / "python/pitot/_recorder.py"
    check_part(module, "    Engine = ", fields["engine"], "\n")
    check_part(module, 'A time or size of 0: none."""\n\n', "\n".join(lines))


def test_keys_of_metrics(source, pitot, build):
    printed = pitot("metrics", "--chip", "GH100", "--json", env={"PITOT_CUPTI": str(build / "standin/libcupti.so.13")}, json_output=True)
    assert keys(printed) <= words((source / "docs" / "metrics.md").read_text())


def test_the_container_builds_as_the_readme_says(source):
    """Its packages are those of tools/install-deps, and what it runs is in the Makefile."""
    lines = [line.split() for line in (source / "Dockerfile").read_text().splitlines() if line and not line.startswith("#")]
    steps = [" ".join(words) for words in lines]
    assert [step for step in steps if step.startswith("RUN")] == ["RUN tools/install-deps", "RUN make"]
    assert steps[-1] == 'CMD ["make", "demo"]' and steps[0].startswith("FROM debian:")
    assert steps.index("COPY tools/install-deps tools/") < steps.index("RUN tools/install-deps") < steps.index("COPY . .") < steps.index("RUN make")
    assert (source / "tools/install-deps").stat().st_mode & 0o100 and re.search("^demo:", (source / "Makefile").read_text(), re.M)
    assert "make demo" in (source / "README.md").read_text()
