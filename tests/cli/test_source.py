"""pitot source, and report --source: samples beside source and instructions, with and without either."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from flame_page import page_data, show
from waiting import wait_until

SECTION = '''//--------------------- .text.{name} --------------------------
\t.section\t.text.{name},"ax",@progbits
        .size           {name},(.L_x_11 - {name})
.text.{name}:
{lines}
'''
SMOOTH, SCALE = "_Z6smoothPfPKfi", "_Z5scaleIfEvPT_i"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&amp;<!--"
END = "</script>\n</body>"


def section(name, lines):
    """Instructions as nvdisasm prints them: {offset: text}; a text that ends in a colon is a label."""
    return SECTION.format(name=name, lines="\n".join(
        text if text.endswith(":") else f"        /*{offset:04x}*/                   {text} ;" for offset, text in lines))


@pytest.fixture(scope="module")
def made(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("source") / "stalls.pitot", "stalls")


@pytest.fixture
def recording(made, tmp_path):
    return shutil.copytree(made, tmp_path / "r.pitot")


def cubin_of(recording):
    [cubin] = (recording / "cubins").iterdir()
    return cubin


@pytest.fixture
def nvdisasm(tmp_path):
    """nvdisasm(commands): a program in its place, as the option that names it."""

    def make(commands):
        program = tmp_path / "nvdisasm"
        program.write_text(f"#!/bin/bash\n{commands}\n")
        program.chmod(0o755)
        return ["--nvdisasm", program]

    return make


@pytest.fixture
def honest(nvdisasm, tmp_path):
    """One that prints some instructions, and keeps what it was called with."""
    (tmp_path / "printed").write_text(
        section(SMOOTH, [(0xb0, "LDG.E R2, desc[UR4][R2.64]"), (0, ".L_x_4:"), (0xd0, "MOV R8, <b>0x130</b>"), (0xe0, "FADD R7, R2, R2"),
                         (0x1d0, "ULDC.64 UR6, c[0x0][0x218]")])
        + section("other", [(0xd0, "NOT OURS")]) + section(SCALE, [(0x100, "IADD3 R0, P1, R2, 0x80, RZ")]))
    return nvdisasm(f'echo "$@" > {tmp_path}/called; cat "${{@: -1}}" > {tmp_path}/read; cat {tmp_path}/printed')


def source(pitot, recording, *options, **keywords):
    printed = pitot("source", recording, "--json", *options, json_output=True, **keywords)
    check_sums(printed)
    return printed


def is_gone(pid):
    try:
        return open(f"/proc/{pid}/stat").read().split()[2] == "Z"
    except OSError:
        return True


def total(places):
    return sum(place["samples"] for place in places)


def check_sums(printed):
    """Every view has all samples, and no sample twice."""
    assert printed["samples"] == total(printed["kernels"]) == total(printed["reasons"])
    assert printed["samples"] == total(printed["files"]) + printed["without_line"] + printed["without_code"]
    for place in [*printed["kernels"], *printed["files"]]:
        parts = place.get("instructions", place.get("heat"))
        assert total(parts) == place["samples"]
        assert all(sum(part["reasons"].values()) == part["samples"] for part in parts)
    for kernel in printed["kernels"]:
        offsets = [item["offset"] for item in kernel["instructions"]]
        assert offsets == sorted(set(offsets))
    by_line = {}
    for item in (item for kernel in printed["kernels"] for item in kernel["instructions"] if item["file"] is not None):
        by_line[item["file"], item["line"]] = by_line.get((item["file"], item["line"]), 0) + item["samples"]
    heat = {(i, h["line"]): h["samples"] for i, file in enumerate(printed["files"]) for h in file["heat"] if h["samples"] or h["executed"] is None}
    assert {place: n for place, n in by_line.items() if n} == heat


def kernel(printed, label):
    [found] = [k for k in printed["kernels"] if k["label"] == label]
    return found


def file(printed, name):
    [found] = [f for f in printed["files"] if f["path"].endswith(name)]
    return found


def test_instructions(pitot, recording, honest, tmp_path):
    printed = source(pitot, recording, *honest)
    assert re.fullmatch(r"-c -fun \d+,\d+ /proc/self/fd/3\n", (tmp_path / "called").read_text())
    assert (tmp_path / "read").read_bytes() == cubin_of(recording).read_bytes()
    smooth = kernel(printed, "smooth")
    assert smooth["missing"] is None and smooth["samples"] == 720
    items = {item["offset"]: item for item in smooth["instructions"]}
    assert list(items) == [0xb0, 0xd0, 0xe0, 0x110, 0x1d0]
    assert (items[0xb0]["text"], items[0xb0]["samples"], items[0xb0]["line"]) == ("LDG.E R2, desc[UR4][R2.64]", 0, 16)
    assert (items[0xd0]["text"], items[0xd0]["label"], items[0xd0]["samples"]) == ("MOV R8, <b>0x130</b>", ".L_x_4", 440)
    assert (items[0xe0]["label"], items[0xe0]["line"]) == (None, 3)
    assert printed["files"][items[0xe0]["file"]]["path"] == "/src/math.h"
    assert items[0x110]["text"] is None and items[0x110]["samples"] == 10  # it was not printed
    assert kernel(printed, "scale<float>")["instructions"][0]["text"] == "IADD3 R0, P1, R2, 0x80, RZ"
    assert "not in the recording" in kernel(printed, "reduce")["missing"]
    text = pitot("report", recording, "--source=smooth", env={"PATH": f"{tmp_path}:/usr/bin:/bin", "COLUMNS": "140"}).stdout
    assert re.search(r"45.4%|61.1% +440 +0xd0  kernel.cu:16 +MOV R8", text) and "reduce" not in text
    text = pitot("source", recording, "--at", "math.h:3", *honest).stdout
    assert "FADD R7" in text and "LDG" not in text and "kernel.cu" not in text.replace("kernel.cu:16", "")


@pytest.mark.parametrize("commands, why", [
    ("exit 3", "nvdisasm failed: "), ("echo 'nvdisasm fatal : no' >&2; exit 1", "nvdisasm failed: nvdisasm fatal : no"),
    ("kill -SEGV $$", "killed by signal 11"), ("echo nothing", "printed no instructions of it"), ("true", "printed no instructions of it"),
    ("printf 'a\\0b'", "cannot parse"), ("yes 'a line that has no end'", "more than 64 MiB"),
    ("exec 1>&- 2>&-; sleep 1000", "took longer than 1 s")])
def test_nvdisasm_fails(pitot, recording, nvdisasm, commands, why):
    printed = source(pitot, recording, *nvdisasm(commands), "--time-limit", "1" if "sleep" in commands else "60")
    assert why in kernel(printed, "smooth")["missing"]
    assert all(item["text"] is None for item in kernel(printed, "smooth")["instructions"])
    assert printed["samples"] == 970


def test_nvdisasm_that_hangs_is_killed_with_its_children(pitot, recording, nvdisasm, tmp_path):
    program = nvdisasm(f"sleep 1000 & echo $! $$ > {tmp_path}/pids; echo started; sleep 1000")
    printed = source(pitot, recording, *program, "--time-limit", "2")
    assert kernel(printed, "smooth")["missing"] == "nvdisasm took longer than 2 s"
    for pid in (tmp_path / "pids").read_text().split():
        wait_until(lambda pid=pid: is_gone(pid), f"process {pid} is gone")


def test_nvdisasm_lies(pitot, recording, nvdisasm, tmp_path):
    """Offsets behind the end, twice, and of nothing; other sections; half lines. All samples are there all the same."""
    (tmp_path / "printed").write_text(
        "/*0000*/ BEFORE ANY ;\n" + section(SMOOTH, [(0xd0, "FIRST"), (0xd0, "SECOND"), (0x10, "LATER"), (0x380, "BEHIND"), (1 << 60, "FAR"), (0xd4, "ODD")])
        + "        /*zz*/ NONE ;\n        /*0020*/\n        /*0030*/ ;\n/*0040\n{ /*0050*/ PAIR ; }\n" + section("x" * 5000, [(0, "LONG" * 5000)])
        + '\t.section\t.nv.info,""\n        /*0060*/ OF DATA ;\n')
    printed = source(pitot, recording, *nvdisasm(f"cat {tmp_path}/printed"))
    items = {item["offset"]: item["text"] for item in kernel(printed, "smooth")["instructions"]}
    assert items == {0x10: "LATER", 0x50: "PAIR", 0xd0: "FIRST", 0xd4: "ODD", 0xe0: None, 0x110: None, 0x1d0: None}
    assert kernel(printed, "scale<float>")["missing"] == "nvdisasm printed no instructions of it"


def test_no_nvdisasm(pitot, recording, nvdisasm, tmp_path):
    program = nvdisasm(f"touch {tmp_path}/ran")
    printed = source(pitot, recording, *program, "--no-sass")
    assert "was not found or was disabled" in kernel(printed, "smooth")["missing"] and not (tmp_path / "ran").exists()
    page = tmp_path / "k.html"
    pitot("source", recording, "--no-sass", "-o", page)
    assert "was not found or was disabled" in page.read_text()
    printed = source(pitot, recording, "--nvdisasm", tmp_path / "nothing")
    assert "cannot run" in kernel(printed, "smooth")["missing"]


def sources(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name.replace("_", ".")).write_text(text)


@pytest.mark.parametrize("below", ["", "src", "a/src"])
def test_source_root(pitot, recording, tmp_path, below):
    sources(tmp_path / "root" / below, kernel_cu="".join(f"line {n}\r\n" for n in range(1, 30)), math_h="one\ntwo\n\tthree")
    printed = source(pitot, recording, "--no-sass", "--source-root", tmp_path / "root")
    if below == "a/src":
        assert "not in the folder of --source-root" in file(printed, "kernel.cu")["missing"]
        return
    assert file(printed, "kernel.cu")["lines"][15] == "line 16" and len(file(printed, "kernel.cu")["lines"]) == 29
    assert file(printed, "math.h")["lines"] == ["one", "two", "\tthree"]
    text = pitot("source", recording, "--no-sass", "--source-root", tmp_path / "root", "--at", "kernel.cu:16").stdout
    assert "line 12" in text and "line 20" in text and "line 11" not in text and "line 21" not in text
    assert "three" in pitot("source", recording, "--no-sass", "--source-root", tmp_path / "root").stdout


def test_source_stays_below_its_root(pitot, recording, tmp_path):
    """Whoever sends a recording does not choose which of our files are read."""
    cubin = cubin_of(recording)
    changed = cubin.read_bytes().replace(b"kernel.cu\0", b"../sec.cu\0")
    assert changed != cubin.read_bytes()
    cubin.write_bytes(changed)
    sources(tmp_path / "root", sec_cu="secret")
    sources(tmp_path / "root" / "src")
    secret = file(source(pitot, recording, "--no-sass", "--source-root", tmp_path / "root" / "src"), "../sec.cu")
    assert secret["lines"] is None and "not in the folder of --source-root" in secret["missing"]


def test_source_that_is_not_the_one(pitot, recording, tmp_path):
    root = tmp_path / "root"
    printed = source(pitot, recording, "--no-sass")
    assert file(printed, "kernel.cu")["lines"] is None and "does not exist here" in file(printed, "kernel.cu")["missing"]
    cubin = cubin_of(recording)  # where the compiler notes the size of a file, 0 stands: it is 100 now
    changed = cubin.read_bytes().replace(b"kernel.cu\0\x01\0\0", b"kernel.cu\0\x01\0\x64")
    assert changed != cubin.read_bytes()
    cubin.write_bytes(changed)
    for size, is_shown in ((100, True), (99, False), (101, False)):
        sources(root, kernel_cu="x" * size)
        shown = file(source(pitot, recording, "--no-sass", "--source-root", root), "kernel.cu")
        assert (shown["lines"] == ["x" * size]) == is_shown
        assert is_shown or "has changed since it was compiled" in shown["missing"]
    (root / "math.h").write_bytes(b"a\0b")
    assert "cannot be read as text" in file(source(pitot, recording, "--no-sass", "--source-root", root), "math.h")["missing"]
    (root / "math.h").unlink()
    os.mkfifo(root / "math.h")
    assert "not a text file" in file(source(pitot, recording, "--no-sass", "--source-root", root), "math.h")["missing"]


@pytest.mark.skipif(not shutil.which("nvcc"), reason="no nvcc on this machine")
def test_source_where_the_compiler_found_it(pitot, recording, tmp_path):
    """By the time that the compiler noted: nvcc's own device code."""
    kernel_cu = tmp_path / "kernel.cu"
    kernel_cu.write_text("__global__ void smooth(float *out, const float *in, int n)\n{\n\tout[threadIdx.x] = in[n];\n}\n")
    subprocess.run(["nvcc", "-cubin", "-arch=sm_90", "-lineinfo", kernel_cu, "-o", cubin_of(recording)], check=True)
    printed = source(pitot, recording, "--no-sass")
    assert file(printed, "kernel.cu")["lines"][2] == "\tout[threadIdx.x] = in[n];" and file(printed, "kernel.cu")["samples"] > 0
    kernel_cu.write_text(kernel_cu.read_text().replace("in[n]", "in[0]"))
    os.utime(kernel_cu, (time.time() + 100, time.time() + 100))
    assert "has changed" in file(source(pitot, recording, "--no-sass"), "kernel.cu")["missing"]
    moved = source(pitot, recording, "--no-sass", "--source-root", tmp_path)
    assert file(moved, "kernel.cu")["lines"][2] == "\tout[threadIdx.x] = in[0];"  # as long as before


@pytest.mark.parametrize("code", ["plain", "cut", "broken", "none"])
def test_without_lines(pitot, recording, request, code):
    """Device code without lines, and such that cannot be read."""
    cubin = cubin_of(recording)
    if code == "plain":
        shutil.copy(request.config.rootpath / "tests/fuzz/corpus/cubin/plain", cubin)
    elif code == "cut":  # a header without sections
        cubin.write_bytes(cubin.read_bytes()[:1000])
    elif code == "broken":
        cubin.write_bytes(b"\x7fELF" + bytes(1000))
    else:
        cubin.unlink()
    printed = source(pitot, recording, "--no-sass")
    assert printed["files"] == [] and printed["samples"] == 970
    assert printed["without_code"] == (130 if code in ("plain", "cut") else 970)
    assert all(k["missing"] for k in printed["kernels"])


def sections(elf):
    """Offset and size of the sections of an ELF file, by name."""
    at, size, count, names = struct.unpack_from("<Q10xHHH", elf, 0x28)
    found = [struct.unpack_from("<I20xQQ", elf, at + i * size) for i in range(count)]
    texts = elf[found[names][1]:][:found[names][2]]
    return {texts[name:texts.index(b"\0", name)].decode(): (offset, length) for name, offset, length in found}


def test_damaged_lines(pitot, recording):
    """Whatever its line table says: no sample is lost, and each is somewhere once."""
    cubin = cubin_of(recording)
    whole = cubin.read_bytes()
    start, size = sections(whole)[".debug_line"]
    outcomes = set()
    for at in range(0, size, max(size // 40, 1)):
        damaged = bytearray(whole)
        damaged[start + at:start + at + 4] = bytes(byte ^ 0xff for byte in damaged[start + at:start + min(at + 4, size)])
        cubin.write_bytes(damaged)
        printed = source(pitot, recording, "--no-sass")
        lines = sum(line["samples"] for of in printed["files"] for line in of["heat"])
        assert printed["samples"] == sum(k["samples"] for k in printed["kernels"]) == 970
        assert lines + printed["without_line"] + printed["without_code"] == 970
        outcomes.add(lines)
    assert 0 in outcomes and len(outcomes) > 1, "all lines are lost, or some"


def test_kernel_and_window_filters(pitot, recording, tmp_path):
    printed = source(pitot, recording, "--no-sass", "--kernel", "smooth")
    assert printed["samples"] == 720 and [k["label"] for k in printed["kernels"]] == ["smooth"]
    assert source(pitot, recording, "--no-sass", "--since", "100ms")["samples"] == 150
    sources(tmp_path / "root", kernel_cu="k\n" * 30, math_h="m\n" * 9)
    chosen = source(pitot, recording, "--no-sass", "--source-root", tmp_path / "root", "--file", "math")
    assert file(chosen, "kernel.cu")["missing"] == "excluded by --file" and file(chosen, "math.h")["lines"] == ["m"] * 9
    text = pitot("source", recording, "--no-sass", "--file", "math", "--top", "1").stdout
    assert "kernel.cu" not in text
    assert len(re.findall(r"^ +\d+\.\d%", pitot("source", recording, "--no-sass", "--top", "2").stdout, re.M)) == 2


@pytest.fixture(scope="module")
def counted(make_recording, tmp_path_factory):
    return make_recording(tmp_path_factory.mktemp("counted") / "sass.pitot", "sass")


COUNTS = "executed", "threads", "predicated", "sectors", "ideal", "rated"


def counts(place):
    return tuple(place[key] for key in COUNTS)


def added(places):
    """What places have together; null: none has it."""
    columns = [[value for value in column if value is not None] for column in zip(*map(counts, places))]
    return tuple(sum(column) if column else None for column in columns)


def test_what_instructions_did(pitot, counted):
    """Three launches of smooth, of two processes, and one of scale. Loads are a part of the sectors; the ideal of stores is not known."""
    printed = source(pitot, counted, "--no-sass")
    assert printed["launches"] == 4 and printed["samples"] == 0
    smooth, scale = kernel(printed, "smooth"), kernel(printed, "scale<float>")
    items = {item["offset"]: counts(item) for item in smooth["instructions"]}
    assert items == {0xd0: (300, 9600, 9600, 1230, 300, 1230), 0xe0: (900, 9900, 6000, None, None, None), 0x110: (300, 9600, 9600, None, None, None),
                     0x1d0: (30, 192, 192, 150, None, None)}
    assert counts(scale) == counts(scale["instructions"][0]) == (90, 2880, 2880, 90, 90, 90)
    assert counts(printed) == added(printed["kernels"]) == added(printed["files"])
    for place in printed["kernels"]:
        assert counts(place) == added(place["instructions"])
    lines = {(base["path"], heat["line"]): counts(heat) for base in printed["files"] for heat in base["heat"]}
    assert lines["/src/math.h", 3] == (1200, 19500, 15600, None, None, None) and lines["/src/kernel.cu", 16][4:] == (300, 1230)
    assert [(hint["hint"], hint["text"]) for hint in printed["hints"]] == [
        ("divergent", "divergent: 16.2 of 32 threads, math.h:3"), ("uncoalesced", "uncoalesced: 4.1 sectors instead of 1.0, kernel.cu:16")]


@pytest.mark.parametrize("options, launches, executed", [
    (["--kernel", "scale"], 1, 90), (["--since", "20ms", "--until", "30ms"], 1, 510), (["--kernel", "smooth"], 3, 1530), (["--kernel", "no"], 0, None)])
def test_chosen_counts(pitot, counted, options, launches, executed):
    printed = source(pitot, counted, "--no-sass", *options)
    assert (printed["launches"], printed["executed"]) == (launches, executed)
    assert printed["hints"] if launches == 3 else all("kernel.cu:22" not in hint["text"] for hint in printed["hints"])


def test_counts_of_a_device_and_process(pitot, counted):
    for options, executed in ((["--device", "0"], "1,110"), (["--device", "1"], "510"), (["--process", "101"], "510")):
        assert pitot("report", counted, "--source", *options).stdout.startswith(f"{executed} executed instructions of kernels, counted in ")


def test_text_of_counts(pitot, counted):
    text = pitot("source", counted, "--no-sass", "--at", "smooth").stdout
    assert text.startswith("1,530 executed instructions of kernels, counted in 3 launches\n"
                           "divergent: 16.2 of 32 threads, math.h:3\nuncoalesced: 4.1 sectors instead of 1.0, kernel.cu:16\n")
    assert re.search(r"share +executed +threads +sectors/ideal +line +source\n", text) and "warps were" not in text and "samples" not in text
    assert re.search(r"19.6% +300 +32.0 +4.1 +0xd0  kernel.cu:16", text) and re.search(r"58.8% +900 +11.0 +0xe0  math.h:3", text)
    assert "math.h" in pitot("source", counted, "--no-sass", "--top", "1").stdout.split("\n\n")[1]
    assert not re.search(r"^stalls", pitot("report", counted).stdout, re.M)


def test_hints_in_the_report(pitot, counted):
    text = pitot("report", counted).stdout
    assert re.search(r"^instructions  1,620 executed in 4 measured launches\n  hint +evidence\n"
                     r"  divergent: 16.2 of 32 threads, math.h:3 +1,200 warp instructions, 74.1% of all\n"
                     r"  uncoalesced: 4.1 sectors instead of 1.0, kernel.cu:16 +1,230 sectors instead of 300, 93.2% of all\n", text, re.M)
    printed = pitot("report", counted, "--json", "--device", "1", json_output=True)["instructions"]
    assert (printed["launches"], printed["executed"]) == (1, 510)
    assert [(hint["hint"], hint["file"], hint["line"]) for hint in printed["hints"]] == [
        ("divergent", "/src/math.h", 3), ("uncoalesced", "/src/kernel.cu", 16)]


def test_samples_have_no_counts(pitot, recording):
    printed = source(pitot, recording, "--no-sass")
    assert printed["launches"] == 0 and not printed["hints"] and set(counts(printed)) == {None}
    assert "executed" not in pitot("source", recording, "--no-sass").stdout
    assert "instructions  " not in pitot("report", recording).stdout
    assert pitot("report", recording, "--json", json_output=True)["instructions"] == {"launches": 0, "executed": 0, "hints": []}


def test_page_of_counts(pitot, counted, browser, tmp_path):
    page = tmp_path / "k.html"
    pitot("source", counted, "--no-sass", "-o", page)
    found = show(browser, page, tmp_path, SHOWN + """
return { rows: rows(1).map((tr) => [...tr.children].map((td) => td.textContent)), summary: document.getElementById("summary").textContent,
	 chosen: chosen(0), heads: [...document.querySelectorAll("section:nth-of-type(2) th")].map((th) => th.textContent) };""", END)
    assert found["heads"][:5] == ["share", "executed", "threads", "sectors/ideal", ""]
    assert found["rows"][0][:4] == ["18.5%", "300", "32.0", "4.1"] and found["rows"][1][:4] == ["55.6%", "900", "11.0", ""]
    assert "1,620 instructions executed in 4 launches; divergent: 16.2 of 32 threads, math.h:3; uncoalesced" in found["summary"]
    assert len(found["chosen"]) == 1


def test_errors(pitot, recording, counted, make_recording, tmp_path):
    varied = make_recording(tmp_path / "varied.pitot", "varied")
    assert "`pitot record --engine pc-sampling`" in pitot("source", varied, status=1).stderr
    assert "`pitot record --engine pc-sampling`" in pitot("report", varied, "--source", status=1).stderr
    assert "none of the recorded samples match" in pitot("source", recording, "--kernel", "nothing", status=1).stderr
    assert "none of the recorded samples match" in pitot("source", counted, "--kernel", "nothing", status=1).stderr
    for command in (["source", recording, "--at", "nothing"], ["report", recording, "--source=nothing"], ["source", counted, "--at", "nothing"]):
        assert "no sampled or counted kernel matches 'nothing'" in pitot(*command, status=1).stderr
    assert "no file 'nothing.cu' has sampled or counted lines" in pitot("source", recording, "--at", "nothing.cu:3", status=1).stderr
    assert "--time-limit" in pitot("source", recording, "--time-limit", "0", status=2).stderr
    assert "leave out -o" in pitot("source", recording, "--json", "-o", "x.html", status=2).stderr
    assert "--at is for text" in pitot("source", recording, "--at", "k", "-o", "x.html", status=2).stderr
    pitot("source", recording, "--no-sass", "-o", tmp_path / "x.html")
    assert "exists" in pitot("source", recording, "--no-sass", "-o", tmp_path / "x.html", status=1).stderr
    pitot("source", recording, "--no-sass", "-f", "-o", tmp_path / "x.html")


SHOWN = """
const page = window.source_page, rows = (at) => [...document.querySelectorAll("section")[at].querySelectorAll("tbody tr")];
const chosen = (at) => rows(at).filter((tr) => tr.classList.contains("chosen")).map((tr) => tr.textContent);
"""


def test_page_jumps_both_ways(pitot, recording, honest, browser, tmp_path):
    sources(tmp_path / "root", kernel_cu="".join(f"line {n} of the kernel\n" for n in range(1, 30)), math_h="one\ntwo\nthree\n")
    page = tmp_path / "k.html"
    pitot("source", recording, *honest, "--source-root", tmp_path / "root", "-o", page)
    check_sums(json.loads(page_data(page)))
    found = show(browser, page, tmp_path, SHOWN + """
const result = { at_first: [chosen(0), chosen(1)], share: rows(0)[15].querySelector(".share").textContent };
rows(1).find((tr) => tr.textContent.includes("FADD")).click();
result.from_code = [chosen(0), chosen(1)];
page.show_file(page.files.findIndex((f) => f.path.endsWith("kernel.cu")));
rows(0)[21].click();
result.from_line = [chosen(0), chosen(1), document.querySelectorAll("select")[1].selectedOptions[0].textContent];
result.dead = rows(0)[0].tabIndex;
return result;""", END)
    assert found["at_first"][0] == ["45.4%90.9% waiting for global or local memory16line 16 of the kernel"]
    assert len(found["at_first"][1]) == 2 and "MOV R8, <b>0x130</b>" in found["at_first"][1][1] and found["share"] == "45.4%"
    assert found["from_code"][0] == ["5.2%100.0% waiting out a fixed latency3three"]
    assert len(found["from_code"][1]) == 2 and all("math.h:3" in text for text in found["from_code"][1])
    assert "line 22" in found["from_line"][0][0] and "IADD3 R0" in found["from_line"][1][0] and "scale" in found["from_line"][2]
    assert found["dead"] == -1


def test_page_of_hostile_names_and_text(pitot, recording, nvdisasm, browser, tmp_path):
    cubin = cubin_of(recording)
    changed = cubin.read_bytes().replace(b"kernel.cu\0\x01\0\0", b"<img>\"'&u\0\x01\0\0")
    assert changed != cubin.read_bytes()
    cubin.write_bytes(changed)
    sources(tmp_path / "root", **{"<img>\"'&u": HOSTILE * 20 + ("\n" + HOSTILE) * 20, "math_h": HOSTILE})
    (tmp_path / "printed").write_text(section(SMOOTH, [(0xd0, HOSTILE.replace(";", ""))]))
    hostile = recording.rename(tmp_path / "<script>alert(1)<").resolve()
    page = tmp_path / "k.html"
    pitot("source", hostile, *nvdisasm(f"cat {tmp_path}/printed"), "--source-root", tmp_path / "root", "-o", page)
    assert page.read_text().count("</script") == 2 and "<script>alert" not in page.read_text()
    found = show(browser, page, tmp_path, SHOWN + """
return { title: document.title, images: document.querySelectorAll("img").length, scripts: document.querySelectorAll("script").length,
	 line: rows(0)[1].querySelector(".text").textContent, text: rows(1)[0].querySelector(".text").textContent,
	 options: document.querySelector("select").textContent, head: document.querySelector("h1").textContent };""", END)
    assert (found["images"], found["scripts"]) == (0, 2) and "owned" not in found["title"]
    assert found["line"] == HOSTILE and found["text"] == HOSTILE.replace(";", "")
    assert "<img>\"'&u" in found["options"] and found["head"].endswith("<script>alert(1)<")


def test_page_without_anything(pitot, recording, browser, tmp_path):
    cubin_of(recording).unlink()
    page = tmp_path / "k.html"
    pitot("source", recording, "-o", page)
    found = show(browser, page, tmp_path, "return document.body.innerText", END)
    assert "No source: no sample is of code with lines" in found and "not in the recording" in found


def test_a_signal_ends_it_and_nvdisasm(program, recording, nvdisasm, tmp_path, environment):
    options = nvdisasm(f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 1000")
    process = subprocess.Popen([program, "source", recording, *options], env=environment, stdin=subprocess.DEVNULL)
    wait_until((tmp_path / "pid").exists, "nvdisasm was started", process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -signal.SIGTERM
    pid = (tmp_path / "pid").read_text().strip()
    wait_until(lambda: is_gone(pid), f"process {pid} is gone")
