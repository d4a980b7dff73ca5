"""Shell completion: each shell is started and completes, with the functions that `pitot completion` prints."""
import json
import os
import shlex
import shutil
import subprocess

import pytest

from waiting import wait_until

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture(scope="module")
def declared(program):
    """The commands as `pitot help --json` declares them."""
    return json.loads(subprocess.run([program, "help", "--json"], capture_output=True, check=True).stdout)


def in_bash(script, words, cwd, environment):
    # readline makes three words of --name=value
    parts = [part for word in words for part in (word.replace("=", " = ").split(" ") if word.startswith("--") else [word])]
    parts = [part for i, part in enumerate(parts) if part or i + 1 == len(parts) and parts[i - 1] != "="]
    text = f"""source {script}
COMP_WORDS=({" ".join(map(shlex.quote, parts))})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pitot pitot
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    result = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, cwd=cwd, env=environment)
    assert result.stderr == ""
    return list(filter(None, result.stdout.splitlines()))


def in_fish(script, words, cwd, environment):
    line = shlex.join(words[:-1]) + " " + words[-1]
    text = f"source {script}; complete -C {shlex.quote(line)}"
    result = subprocess.run(["fish", "--no-config", "-c", text], capture_output=True, text=True, check=True, cwd=cwd,
                            env={**environment, "HOME": str(cwd)})
    assert result.stderr == ""
    return [line.split("\t")[0].rstrip("/") for line in result.stdout.splitlines()]


# What compadd is called with is what zsh offers; -O stores what of it matches. The key ends with a mark in the file.
ZSH = """autoload -Uz compinit; compinit -D -u
source {script}
compadd() {{
	local -a offered
	[[ "$*" == *-[OAD]\\ * ]] || {{ builtin compadd -O offered "$@"; print -rl -- $offered >> {found} }}
	builtin compadd "$@"
}}
show() {{ zle complete-word; print -r -- '#end' >> {found} }}
zle -N show; bindkey '^I' show; unsetopt beep
print -r -- '#ready' >> {found}
"""


def in_zsh(script, words, cwd, environment):
    found = cwd / "found"
    setup = cwd / "setup.zsh"
    found.write_text("")
    setup.write_text(ZSH.format(script=shlex.quote(str(script)), found=shlex.quote(str(found))))
    master, terminal = os.openpty()
    zsh = subprocess.Popen(["zsh", "-f", "-i"], cwd=cwd, stdin=terminal, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env={**environment, "TERM": "dumb"}, start_new_session=True)
    os.close(terminal)
    try:
        os.write(master, f"source {setup}\n".encode())
        wait_until(lambda: "#ready" in found.read_text(), "zsh is ready", zsh)
        os.write(master, f"{shlex.join(words[:-1])} {words[-1]}\t".encode())
        wait_until(lambda: "#end" in found.read_text(), "zsh has completed", zsh)
    finally:
        zsh.kill()
        zsh.wait()
        os.close(master)
    return [line for line in found.read_text().splitlines() if line and line[0] != "#"]


@pytest.fixture(params=SHELLS)
def complete(request, pitot, program, environment, tmp_path_factory, tmp_path):
    """complete("info", "tr") gives what the shell offers for `pitot info tr` in tmp_path."""
    shell = request.param
    if not shutil.which(shell):
        pytest.skip(f"no {shell} here")
    folder = tmp_path_factory.mktemp("script")
    script = folder / f"pitot.{shell}"
    script.write_text(pitot("completion", shell).stdout)
    environment = {**environment, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def run(*words):
        return {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}[shell](script, ["pitot", *words], tmp_path, environment)

    run.shell = shell
    return run


def test_commands(complete, declared):
    names = {command["name"] for command in declared["commands"]}
    assert names <= set(complete(""))
    assert complete("rec") == ["record"]
    assert complete("-q", "help", "ver") == ["version"]
    assert complete("--color", "always", "repo") == ["report"]
    assert complete("recrod", "") == []
    assert not any(name.startswith("_") for name in complete(""))


def test_options(complete):
    assert complete("record", "--grap") == ["--graphs"]
    assert set(complete("record", "--no-")) >= {"--no-cpu", "--no-symbols", "--no-pager"}
    assert set(complete("--v")) == {"--version", "--verbose"}
    assert complete("version", "--v") == ["--verbose"]
    assert complete("schema", "--he") == ["--help"]


def test_values_of_options(complete):
    assert sorted(complete("record", "--graphs", "")) == ["launch", "node"]
    assert complete("record", "-q", "--graphs", "la") == ["launch"]
    assert set(complete("export", "--format", "")) >= {"json", "perfetto"}
    assert complete("report", "--top", "") == []
    joined = complete("record", "--graphs=no")
    assert joined == (["node"] if complete.shell == "bash" else ["--graphs=node"])


def test_operands(complete, tmp_path):
    (tmp_path / "trained.pitot").mkdir()
    assert complete("completion", "b") == ["bash"]
    assert sorted(complete("schema", "kern")) == ["kernel", "kernel_config"]
    assert sorted(complete("view", "x.pitot", "kern")) == ["kernel", "kernel_config"]
    assert complete("schema", "trai") == []
    assert complete("doctor", "trai") == []
    assert complete("info", "trained.pitot", "trai") == []


def test_recordings(complete, make_recording, tmp_path):
    """Where a command reads a recording, these are offered, and other files only where there is none."""
    make_recording(tmp_path / "new.pitot", kernels=1)
    make_recording(tmp_path / "old.pitot", kernels=1)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "other").mkdir()
    for command in "report", "info", "view", "flame", "export":
        assert {word.rstrip("/ ") for word in complete(command, "")} >= {"new.pitot", "old.pitot"}
        assert not {"notes.txt", "other"} & {word.rstrip("/ ") for word in complete(command, "")}, command
    assert [word.rstrip("/ ") for word in complete("report", "ne")] == ["new.pitot"]
    assert [word.rstrip("/ ") for word in complete("report", "note")] == ["notes.txt"]


def test_files(complete, tmp_path):
    (tmp_path / "train it.pitot").mkdir()
    for words in ("info", "trai"), ("view", "trai"), ("export", "-o", "trai"), ("export", "--output=trai"):
        offered = [word.replace("\\", "").removeprefix("--output=") for word in complete(*words)]
        assert offered == ["train it.pitot"], words


@pytest.mark.parametrize("options", [["--"], ["-o", "x"], ["-q", "--name", "n", "--"], ["--cpu"], ["--name=n"]])
def test_commands_to_record(complete, options):
    """Behind `record` and its options another command line begins."""
    assert "basename" in complete("record", *options, "basenam")
    assert complete("record", *options, "true", "--graph") == []


def test_every_option_is_offered(pitot, declared):
    for command in declared["commands"]:
        answer = pitot("__complete", "--", command["name"], "--").stdout.splitlines()
        assert answer[0] == "words"
        offered = dict(line.split("\t") for line in answer[1:])
        assert ("--json" in offered) == command["json"]
        for option in command["options"] + declared["options"]:
            if option["name"] == "json" and not command["json"]:
                continue
            assert offered[f"--{option['name']}"] == option["help"]
            assert (f"--no-{option['name']}" in offered) == option["negatable"]
            if option["choices"] and option.get("without_argument"):
                answer = pitot("__complete", "--", command["name"], f"--{option['name']}=").stdout
                assert answer.splitlines() == ["words", *(f"--{option['name']}={c}" for c in option["choices"])]
            elif option["choices"]:
                answer = pitot("__complete", "--", command["name"], f"--{option['name']}", "").stdout
                assert answer.splitlines() == ["words", *option["choices"]]


def test_baselines(pitot, make_recording, tmp_path):
    env = {"XDG_DATA_HOME": str(tmp_path)}
    assert pitot("__complete", "--", "diff", "--against", "", env=env).stdout == "words\n"
    for name in "main", "release":
        pitot("baseline", "save", name, make_recording(tmp_path / f"{name}.pitot", "training"), env=env)
    assert pitot("__complete", "--", "diff", "--against", "", env=env).stdout == "words\nmain\nrelease\n"
    assert pitot("__complete", "--", "diff", "--against=re", env=env).stdout == "words\n--against=release\n"


def test_words_that_cannot_be_completed(pitot):
    pitot("__complete", status=2)
    assert pitot("__complete", "--", "unknown", "--jso").stdout == "words\n"
    assert pitot("__complete", "--", "record", "--unknown", "=", "x", "tr").stdout == "command 5\n"
    assert pitot("__complete", "--", "info", "-o").stdout == "words\n"
    assert pitot("__complete", "--help").stdout.startswith("pitot __complete: list the completions of the last word of a command line\n")
    assert "__complete" not in pitot("help").stdout + pitot("help", "--json").stdout


def test_formats_that_completion_offers(pitot, declared, make_recording, tmp_path):
    recording = make_recording(tmp_path / "varied.pitot", "varied")
    for command in declared["commands"]:
        for option in command["options"]:
            for name in option["choices"] if option["name"] == "format" else []:
                operand = recording
                if command["name"] == "import":  # what export has made, if it can
                    operand = tmp_path / f"{'json' if name == 'kineto' else name} of export"
                if name != "text" and operand.exists():
                    pitot(command["name"], operand, "--format", name, "-o", tmp_path / f"{name} of {command['name']}")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_are_valid(pitot, shell):
    script = pitot("completion", shell).stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_unknown_shells(pitot):
    assert "tcsh" in pitot("completion", "tcsh", status=2).stderr
    pitot("completion", status=2)
