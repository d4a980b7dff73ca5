"""`pitot report -o x.html` in a browser: what sorts, what is cut, and the strip of activity."""
import re

import pytest

from flame_page import show

END = "</script>\n</body>"


@pytest.fixture
def page(pitot, make_recording, tmp_path):
    pitot("report", make_recording(tmp_path / "r.pitot", kernels=3000, pattern="train"), "-o", tmp_path / "x.html")
    return tmp_path / "x.html"


def test_tables_sort_by_mouse_and_keyboard(page, browser, tmp_path):
    result = show(browser, page, tmp_path, """
        const table = document.querySelector("#hotspots table"), column = (name) => [...table.querySelectorAll("th")].findIndex((th) => th.innerText.trim() === name);
        const names = () => [...table.querySelectorAll("tr:has(td)")].filter((row) => row.className !== "note").map((row) => row.lastChild.innerText);
        const cells = (name) => [...table.querySelectorAll("tr:has(td)")].filter((row) => row.className !== "note").map((row) => row.cells[column(name)].innerText);
        const head = (name) => table.querySelectorAll("th button")[column(name)];
        const out = { first: names() };
        head("count").click();
        out.counts = cells("count");
        out.sort = head("count").parentNode.getAttribute("aria-sort");
        head("count").click();
        out.up = cells("count");
        head("count").click();
        out.again = names();
        head("mean").focus();
        out.focused = document.activeElement === head("mean");
        document.activeElement.click();
        out.means = cells("mean");
        head("name").click();
        head("name").click();
        out.names = names();
        out.notes = [...table.querySelectorAll("tr.note")].every((row) => row.previousSibling && row.previousElementSibling.tagName === "TR");
        out.fixed = document.querySelectorAll("#idle th button").length;
        return out;
    """, END)
    counts = [int(text.replace(",", "")) for text in result["counts"]]
    assert counts == sorted(counts, reverse=True) and result["sort"] == "descending" and len(counts) > 4
    assert [int(text.replace(",", "")) for text in result["up"]] == sorted(counts)
    assert result["again"] == result["first"] and result["focused"]
    units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    means = [float(number) * units[unit] for number, unit in (text.split() for text in result["means"])]
    assert means == sorted(means, reverse=True)
    assert set(result["names"]) == set(result["first"]) and result["names"] != result["first"] and result["notes"]
    assert result["fixed"] == 0, "the halves of its rows do not belong together"


@pytest.mark.parametrize("width", [1000, 1280, 1440, 1920])
def test_nothing_is_cut(page, browser, tmp_path, width):
    """At usual widths the kernels' names are whole, or wrapped; a shortened name has the whole one as its tooltip."""
    result = show(browser, page, tmp_path, """
        const cut = [...document.querySelectorAll("#hotspots td.text:last-child")].filter((cell) => {
            const box = cell.closest(".table").getBoundingClientRect(), own = cell.getBoundingClientRect();
            return own.right > box.right + 1 || cell.scrollWidth > cell.clientWidth;
        });
        const wide = [...document.querySelectorAll(".table")].filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => box.innerText.slice(0, 80));
        return { width: innerWidth, cut: cut.length, wide, titles: [...document.querySelectorAll("td[title]")].map((cell) => [cell.innerText, cell.title]) };
    """, END, width)
    assert result["cut"] == 0 and result["wide"] == [] and result["width"] == width
    assert result["titles"] and all(short != full and short.split("<")[0].split("(")[0] in full for short, full in result["titles"])


def test_bars_are_the_shares_beside_them(page):
    shares = re.findall(r'<td class="share" style="--part:([\d.]+)%">([\d.]+)%</td>', page.read_text())
    assert len(shares) > 5 and all(bar == text for bar, text in shares)


def strip(page):
    """Steps of the first strip with their heights, and its label."""
    text = page.read_text()
    steps = [(int(x), float(high)) for x, high in re.findall(r"M(\d+) 40v-([\d.]+)h1V40z", text)]
    return steps, re.search(r"</svg><small>(.*?)</small>", text)[1]


def test_the_strip_is_the_activity(pitot, make_recording, tmp_path):
    """Of 800 steps of 1.25 ms: a tiny memset at 10 ms, and the work from 950 ms on, whose longest kernel fills its steps."""
    path = make_recording(tmp_path / "r.pitot", "page")
    pitot("report", path, "-o", tmp_path / "x.html")
    steps, label = strip(tmp_path / "x.html")
    assert steps[0] == (8, 1.5) and all(x >= 760 for x, _ in steps[1:]) and max(high for _, high in steps) == 40
    assert label == "up to 100.0% busy"
    assert ">GPU 0</b>" in (tmp_path / "x.html").read_text()
    assert '<section id="activity">' not in pitot("report", path).stdout


def test_the_strip_without_a_gpu(pitot, make_recording, tmp_path):
    pitot("report", make_recording(tmp_path / "r.pitot", "page_cpu"), "-o", tmp_path / "x.html")
    steps, label = strip(tmp_path / "x.html")
    assert {x for x, _ in steps} == {*range(16), *range(32, 72)} and label == "up to 1.0 processors"


def test_a_flame_graph_is_inside(pitot, flame_recordings, make_recording, browser, tmp_path):
    """It draws itself although the page's policy forbids all requests, and is left out where it would be of something else."""
    path = flame_recordings / "cpu-all.pitot"
    pitot("report", path, "-o", tmp_path / "x.html")
    result = show(browser, tmp_path / "x.html", tmp_path, """
        const frame = document.querySelector("#flame iframe"), inside = () => frame.contentDocument;
        while (!inside() || !inside().querySelector("canvas"))
            await new Promise((done) => setTimeout(done, 5));
        const canvas = inside().querySelector("canvas"), pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return { title: inside().title, colors: new Set(new Uint32Array(pixels.buffer)).size };
    """, END)
    assert "flame graph" in result["title"] and result["colors"] > 5
    for options in (["--no-flame"], ["--stream", "7"], ["--kernel", "*gemm*"]):
        assert "<iframe" not in pitot("report", path, "-o", "-", *options).stdout
    plain = make_recording(tmp_path / "plain.pitot", kernels=100)
    assert "<iframe" not in pitot("report", plain, "-o", "-").stdout, "no stacks were recorded"


def test_names_cannot_leave_the_frame(pitot, make_recording, browser, tmp_path):
    pitot("report", make_recording(tmp_path / "r.pitot", "names"), "-o", tmp_path / "x.html")
    result = show(browser, tmp_path / "x.html", tmp_path, """
        const frame = document.querySelector("#flame iframe");
        while (!frame.contentDocument || !frame.contentDocument.querySelector("canvas"))
            await new Promise((done) => setTimeout(done, 5));
        return [window.hacked, frame.contentWindow.hacked, document.images.length, frame.contentDocument.images.length].map(String);
    """, END)
    assert result == ["undefined", "undefined", "0", "0"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1240])
def test_the_heat_map_of_ranks(pitot, rank_recording, browser, tmp_path, dark, width):
    """Rank 0 waits for rank 1: orange and blue, on which the text is readable; wide tables scroll in their own box."""
    pitot("report", rank_recording("sleep-3"), "--ranks", "-o", tmp_path / "x.html")
    result = show(browser, tmp_path / "x.html", tmp_path, """
        const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        const painted = (colors) => {
            canvas.clearRect(0, 0, 1, 1);
            for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
            return [...canvas.getImageData(0, 0, 1, 1).data];
        };
        const light = (rgb) => rgb.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
            .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
        const page = getComputedStyle(document.body).backgroundColor;
        const cells = [...document.querySelectorAll("td.low, td.high")].map((cell) => {
            const style = getComputedStyle(cell), back = light(painted([page, style.backgroundColor])), text = light(painted([style.color]));
            const column = cell.closest("table").querySelectorAll("th")[cell.cellIndex].innerText.trim();
            return { column, rank: cell.parentNode.cells[0].innerText, side: cell.className, heat: cell.style.getPropertyValue("--heat"),
                     contrast: (Math.max(back, text) + 0.05) / (Math.min(back, text) + 0.05) };
        });
        return { cells, scrolls: document.documentElement.scrollWidth > innerWidth + 1, verdict: document.querySelector("#verdict h2").innerText };
    """, END, width, dark)
    sides = {(cell["column"], cell["rank"]): (cell["side"], cell["heat"]) for cell in result["cells"]}
    assert sides["waiting", "0"] == sides["exposed", "0"] == ("high", "100%")
    assert sides["waiting", "1"] == sides["exposed", "1"] == ("low", "100%")
    assert all(int(heat[:-1]) < 50 for (column, _), (_, heat) in sides.items() if column in ("busy", "memory", "MHz"))
    assert min(cell["contrast"] for cell in result["cells"]) > 4.5 and not result["scrolls"]
    assert result["verdict"] == "verdict: bound by rank 1"
