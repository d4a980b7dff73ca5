"""Flame graphs as their readers see them: speedscope's released page, Go's pprof, and what a browser paints.

A reader that this machine lacks, and cannot get, is skipped with the reason.
"""
import base64
import html
import json
import re
import shutil
import struct
import subprocess
import zlib
from collections import Counter

import pytest

from flame_page import page_data, show
from waiting import PATIENCE

SPEEDSCOPE = "speedscope@1"
UNITS = {"ns": 1, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}


# --- speedscope: its released page, which imports the file as it does for everybody


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory):
    """Folder of the page, from the registry of npm."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("no npm: speedscope is not here")
    folder = tmp_path_factory.mktemp("speedscope")
    try:
        result = subprocess.run([npm, "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", SPEEDSCOPE],
                                capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip("npm cannot reach its registry")
    page = folder / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
    if result.returncode or not page.exists():
        pytest.skip(f"npm cannot install speedscope: {result.stderr.strip().splitlines()[-1:]}")
    return page


def table_texts(document):
    """The texts of a page, in order."""
    return [html.unescape(text).strip() for text in re.findall(r">([^<>]+)<", document) if text.strip()]


def nanoseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)([a-zµμ]+)", text).groups()
    return float(number) * UNITS[unit]


@pytest.fixture
def in_speedscope(browser, speedscope, tmp_path):
    """What the page shows of a file: its profiles with their totals, and of the active one self time by name."""

    def read_within(path, milliseconds):
        script = tmp_path / "profile.js"
        data = base64.b64encode(path.read_bytes()).decode()
        script.write_text(f'speedscope.loadFileFromBase64("{path.name}", "{data}")')
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   f"--user-data-dir={tmp_path / 'browser'}", f"--virtual-time-budget={milliseconds}", "--dump-dom",
                   f"{speedscope.as_uri()}#view=sandwich&localProfilePath={script}"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert "Something went wrong" not in result.stdout and "Unrecognized format" not in result.stdout
        texts = table_texts(result.stdout)
        assert "Total Weight" in texts and "Symbol Name" in texts, texts
        at = texts.index("Total Weight") + 1
        profiles = {}
        while texts[at].isdigit():
            profiles[texts[at + 1]] = nanoseconds(texts[at + 2])
            at += 3
        rows = texts[texts.index("Symbol Name") + 1:]
        self_ns = Counter()
        while len(rows) >= 3 and "%)" in rows[0]:
            self_ns[rows[2]] += nanoseconds(rows[1].split(" ")[0])
            rows = rows[3:]
        return profiles, self_ns

    def read(path):
        """The page draws the rows of its table some time after the rest."""
        for milliseconds in 8000, 30000, 120000:
            profiles, self_ns = read_within(path, milliseconds)
            if self_ns:
                break
        return profiles, self_ns

    return read


@pytest.mark.parametrize("name", ["cpu-all", "small"])
def test_speedscope_imports_all_profiles(flame, in_speedscope, name):
    path = flame(name, to="x.speedscope.json")
    data = json.loads(path.read_text())
    profiles, self_ns = in_speedscope(path)
    expected = {profile["name"]: profile["endValue"] for profile in data["profiles"]}
    assert profiles == {key: pytest.approx(ns, rel=1e-3) for key, ns in expected.items()}
    active = data["profiles"][data["activeProfileIndex"]]
    by_name = Counter()
    for stack, weight in zip(active["samples"], active["weights"]):
        by_name[data["shared"]["frames"][stack[-1]]["name"]] += weight
    assert self_ns and sum(self_ns.values()) == pytest.approx(active["endValue"], rel=0.01)
    for key, ns in by_name.items():
        assert self_ns[key] == pytest.approx(ns, rel=1e-2), key


# --- Go's pprof


def pprof(*arguments):
    go = shutil.which("go")
    if not go:
        pytest.skip("no Go: its pprof is not here (apt-get install golang-go)")
    result = subprocess.run([go, "tool", "pprof", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    if "no such tool" in result.stderr:
        pytest.skip("this Go has no pprof")
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", ["cpu-all", "small", "many"])
def test_pprof_of_go_has_the_same_time(flame, gpu_ns, cpu_ns, name):
    path = flame(name, to="x.pb.gz")
    raw = pprof("-raw", path)
    types = re.search(r"^Samples:\n(.*)$", raw, re.M)[1].split()
    samples = re.findall(r"^ +([-\d ]+): [\d ]+$", raw, re.M)
    totals = [sum(column) for column in zip(*[[int(value) for value in line.split()] for line in samples])]
    by_type = {name.split("/")[0]: total for name, total in zip(types, totals)}
    assert len(by_type) == len(types) == len(totals)
    assert by_type["gpu"] == gpu_ns(name)
    assert "[dflt]" in "".join(types)
    if name == "cpu-all":
        assert by_type["cpu"] == cpu_ns(name)


def test_pprof_of_go_keeps_names(flame):
    """It shortens what it takes for C++: a module's name would be nothing."""
    top = pprof("-top", "-sample_index=cpu", "-nodecount=2000", flame("cpu-all", to="x.pb.gz"))
    assert re.search(r" <module>$", top, re.M) and "<unknown>" not in top


def test_pprof_of_go_shows_lines_and_files(flame):
    path = flame("many", to="x.pb.gz")
    top = pprof("-top", "-lines", "-sample_index=launches", "-nodecount=2000", path)
    assert re.search(r"^Type: launches", top, re.M) and "train.py:" in top
    total = re.search(r"of (\d+) total", top)
    assert total and int(total[1]) == 5000
    assert re.search(r"\| +train .*train.py", pprof("-peek", "train", "-lines", path)) and "digraph" in pprof("-dot", path)


# --- what a browser paints


def read_png(path):
    """Width, height and pixels (bytes: red, green, blue) of a picture as browsers write them: 8 bits, not interlaced."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (bits, interlaced) == (8, 0) and colour in (2, 6)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    samples = 3 if colour == 2 else 4
    rows = unfilter(zlib.decompress(packed), width * samples, samples)
    return width, height, [tuple(row[x:x + 3]) for row in rows for x in range(0, len(row), samples)]


def unfilter(data, stride, samples):
    before, rows = bytes(stride), []
    for start in range(0, len(data), stride + 1):
        kind, row = data[start], bytearray(data[start + 1:start + 1 + stride])
        for i in range(stride if kind else 0):
            left = row[i - samples] if i >= samples else 0
            corner = before[i - samples] if i >= samples else 0
            row[i] = (row[i] + predicted(kind, left, before[i], corner)) & 255
        before = bytes(row)
        rows.append(before)
    return rows


def predicted(kind, left, up, corner):
    if kind == 4:
        guess = left + up - corner
        return min((left, up, corner), key=lambda value: abs(guess - value))
    return (0, left, up, (left + up) // 2)[kind]


@pytest.fixture
def photograph(browser, tmp_path):
    """Colours with the share of the picture that they have: of a page after `script` has run in it."""

    def take(page, script, end):
        head, tail = page.read_text().rsplit(end, 1)
        copy = page.with_name(f"shot{page.suffix}")
        copy.write_text(f"{head}\n{script}\n{end}{tail}")
        picture = tmp_path / "picture.png"
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                        "--hide-scrollbars", f"--user-data-dir={tmp_path / 'browser'}", "--window-size=700,500",
                        "--virtual-time-budget=3000", f"--screenshot={picture}", copy.as_uri()],
                       capture_output=True, timeout=PATIENCE, check=True)
        width, height, pixels = read_png(picture)
        assert width >= 600 and height >= 300
        return {colour: count / len(pixels) for colour, count in Counter(pixels).items()}

    return take


def painted(shares):
    """Colours of boxes: those that are large, and not grey."""
    return {colour for colour, share in shares.items() if share > 0.002 and max(colour) - min(colour) > 25}


@pytest.mark.parametrize("suffix, end, zoom, search", [
    ("svg", "]]></script>", 'flame.sections[0].frames[3].g.dispatchEvent(new MouseEvent("click", { bubbles: true }));',
     'flame.search("Images|kernel|gemm");'),
    ("html", "</script>\n</body>", "", 'flame.search("Images|kernel|gemm");'),
], ids=["svg", "html"])
def test_pictures_are_not_blank(flame, photograph, suffix, end, zoom, search):
    page = flame("cpu-all", to=f"x.{suffix}")
    plain = photograph(page, "", end)
    assert len(painted(plain)) >= 4, plain
    assert max(plain.values()) < 0.97
    found = photograph(page, search, end)
    assert found != plain and len(painted(found)) >= 1
    if zoom:
        assert photograph(page, zoom, end) != plain


def test_each_section_of_the_page_zooms_by_a_click(flame, browser, tmp_path):
    page = flame("cpu-all", to="x.html")
    data = json.loads(page_data(page))
    result = show(browser, page, tmp_path, """
        const out = [];
        for (const s of flame.sections) {
            const at = (i) => {
                const r = s.canvas.getBoundingClientRect(), from = s.start[s.zoomed], whole = s.source.ns[s.zoomed];
                const x = (s.start[i] + s.source.ns[i] / 2 - from) / whole * r.width;
                const y = (s.source.depth[i] + 0.5) * flame.row;
                return new MouseEvent("click", { clientX: r.left + x, clientY: r.top + y, bubbles: true });
            };
            s.canvas.dispatchEvent(at(2));
            out.push({ zoomed: s.zoomed, name: flame.name_of(s, s.zoomed), note: s.note.textContent, total: s.total });
        }
        flame.search("train.py");
        return { sections: out, found: flame.sections.map((s) => s.found_ns / s.total) };
    """, "</script>\n</body>")
    assert len(result["sections"]) == 4 == len(data["sections"])
    for section, shown in zip(data["sections"], result["sections"]):
        assert shown["zoomed"] == 2 and shown["total"] == section["ns"][0]
        assert shown["name"] == data["frames"][section["frame"][2]][0] and shown["name"] in shown["note"]
    assert all(0 < share <= 1 for share in result["found"][:2])


def test_each_section_of_the_picture_zooms_by_a_click(flame, browser, tmp_path):
    result = show(browser, flame("cpu-all", to="x.svg"), tmp_path, """
        return flame.sections.map((s) => {
            const frame = s.frames[2], before = Number(frame.rect.getAttribute("width"));
            frame.g.dispatchEvent(new MouseEvent("click", { bubbles: true }));
            return { before, after: Number(frame.rect.getAttribute("width")), whole: s.width, title: frame.title };
        });
    """, "]]></script>")
    assert len(result) == 4
    for section, kind in zip(result, ("CPU time", "GPU time", "time waiting for the GPU", "time off the CPU")):
        assert 0 < section["before"] <= section["after"] == pytest.approx(section["whole"]), section
        assert f"of {kind}" in section["title"]


def test_stacks_of_calls_in_the_page(flame, browser, tmp_path):
    """A recording in which GPU work has real symbols and lines, by what launched it."""
    page = flame("many", "--mode", "launches", to="x.html")
    result = show(browser, page, tmp_path, """
        flame.search("train.py");
        return { sections: flame.sections.length, found: flame.sections[0].found_ns / flame.sections[0].total };
    """, "</script>\n</body>")
    assert result == {"sections": 1, "found": 1}
