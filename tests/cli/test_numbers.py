"""Numbers agree with their nouns in everything that is printed: "1 kernel", "2 kernels", never "1 kernels"."""
import re

import pytest

# A word after a number, with the words between: "2 other CPU samples".
COUNTED = re.compile(r"(?<![\w.,:(+-])(\d[\d,]*) ((?:(?:more|other|distinct|CPU|GPU|counter|memory|graph|of|measured) )*)"
                     r"([A-Za-z]{3,})\b(?![.(\[_:/-])")
# Singular nouns that are counted somewhere; what ends with "s" and is none of OTHER counts as a plural.
NOUNS = set("""kernel launch copy process thread sample event record row table segment file call stack function line
    instruction range scope node loss module device stream context metric byte core session error warning window step
    allocation mark reading command GPU processor operation symbol name part recording column gap page""".split())
OTHER = {"was", "has", "is", "does", "registers", "this", "percent", "less", "bits", "across", "pass", "status", "cycles"}
KINDS = ["varied", "cpu_all", "cpu_commands", "training", "scopes", "stalls", "sass", "counters", "roofline", "ranges", "page"]


# "1 thread have", "2 threads has"; a sentence may be folded, a cell of a table is not.
VERB = re.compile(r"(?<![\w.,:(+-])(\d[\d,]*) [a-z]+ (is|are|has|have|was|were|does|do)\b")


def disagreements(text):
    for number, verb in VERB.findall(re.sub(r"\n +", " ", text)):
        if (number == "1") != (verb in ("is", "has", "was", "does")):
            yield f"{number} … {verb}"
    for number, _, word in COUNTED.findall(text):
        one = number == "1"
        if (one and word.endswith("s") and word not in OTHER and word not in NOUNS) or (not one and word in NOUNS):
            yield f"{number} {word}"


def test_disagreements_are_found():
    assert list(disagreements("1 kernels, 2 kernel, 0 launch; 1,002 copy; 1 thread have")) == ["1 … have", "1 kernels", "2 kernel", "0 launch", "1,002 copy"]
    assert not list(disagreements("1 kernel, 2 launches of 1 process, 0 kernels, 1.5 ms, 1 ms, 3 us"))


def everything(pitot, recording, folder):
    """What the commands print about a recording."""
    printed = []
    for options in (["report"], ["report", "--by", "config", "--scopes"], ["report", "--by", "caller", "--system"],
                    ["report", "--stalls", "--counters"], ["info"], ["info", "--verify"], ["flame", "--format", "text"], ["symbolize"],
                    ["view"], ["source"], *(["export", "-f", "-o", folder / f"x.{suffix}"] for suffix in ("html", "json", "pftrace", "gpufl"))):
        result = pitot(options[0], recording, *options[1:], status=None)
        printed.append((options, result.stdout + "\n" + result.stderr))
    printed.append(("import", pitot("import", "-f", "-o", folder / "i.pitot", folder / "x.gpufl", status=None).stderr))
    printed.append(("upload", pitot("upload", "--dry-run", "--url", "http://localhost:9", folder / "x.gpufl", status=None).stdout))
    return printed


@pytest.mark.parametrize("kernels, processes", [(0, 1), (1, 1), (2, 1), (2, 2)])
def test_few(pitot, make_recording, tmp_path, kernels, processes):
    recording = make_recording(tmp_path / "r.pitot", kernels=kernels, processes=processes, stacks=kernels, **{"cpu-samples": kernels})
    for options, text in everything(pitot, recording, tmp_path):
        assert not list(disagreements(text)), (options, text)


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds(pitot, make_recording, tmp_path, kind):
    recording = make_recording(tmp_path / "r.pitot", kind)
    for options, text in everything(pitot, recording, tmp_path):
        assert not list(disagreements(text)), (options, text)


@pytest.mark.parametrize("script", ["true", "true & true & wait", "(exit 1)"])
def test_summary_of_record(pitot, tmp_path, script):
    for options in ["--no-cpu"], ["--cpu-only"]:
        result = pitot("record", "-f", "-o", tmp_path / "r.pitot", *options, "--", "sh", "-c", script, status=None)
        assert not list(disagreements(result.stderr)), result.stderr
