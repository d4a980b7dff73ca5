"""`pitot diff -o x.html`: the page, and in a browser what sorts and what names could do."""
import html
import re

import pytest
from flame_page import show

END = "</script>\n</body>"
NAMES = ["</script><script>document.title = 'owned'</script>", "<img src=x onerror=\"document.title='owned'\">", "a & b | 'c' \"d\"", "##[error]x",
         "kernel_" + "x" * 100]


@pytest.fixture
def page(pitot, imported_steps, tmp_path):
    a = imported_steps("<b>a", [(name, 40 + 10 * number) for number, name in enumerate(NAMES)])
    b = imported_steps("b", [(name, 90 - 10 * number) for number, name in enumerate(NAMES)] + [("new", 5)])
    pitot("diff", a, b, "-o", "x.html", "--fail-if", "kernel:*<img* > 1%", status=1)
    return tmp_path / "x.html"


def cells(row):
    return [html.unescape(re.sub("<[^>]*>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]


def tables(text):
    """{id of the section: rows of cells}"""
    return {name: [cells(row) for row in re.findall(r"<tr>(<td.*?)</tr>", body, re.S)]
            for name, body in re.findall(r'<section id="(\w+)">(.*?)</section>', text, re.S)}


def test_the_same_as_the_text(pitot, page, tmp_path):
    """Every cell of the terminal's tables is in the page's."""
    text = pitot("diff", "<b>a.pitot", "b.pitot", "--top", "0", "--inconclusive", "pass", env={"COLUMNS": "180"}).stdout
    found = tables(page.read_text())
    assert set(found) == {"header", "verdict", "steps", "path", "kernels"}
    assert len(found["kernels"]) == len(NAMES) + 1 and len(found["path"]) > len(NAMES) and [row[0] for row in found["steps"]] == ["step", "gpu", "launches"]
    for row in (row for rows in found.values() for row in rows):
        assert re.search(" +".join(re.escape(cell.replace("##[", r"\x23#[")) for cell in row if cell), text), row
    heads = re.findall(r"<h2 class=\"(\w*)\">(.*?)(?: <small></small>)?</h2>", page.read_text())
    sentence = html.unescape(heads[0][1]).removeprefix("verdict: ")
    assert heads[0][0] == "yellow" and sentence in " ".join(text.split("\n\n")[1].split())
    assert [head for _, head in heads[1:]] == [line for line in text.splitlines() if line in ("a step", "on the critical path of a step, means",
                                                                                              "kernels, time in a step")]


def test_rows_of_a_page(pitot, page, tmp_path):
    """All, unless --top says otherwise."""
    pitot("diff", "<b>a.pitot", "b.pitot", "-o", "top.html", "--top", "2", "--inconclusive", "pass")
    text = (tmp_path / "top.html").read_text()
    assert len(tables(text)["kernels"]) == 2 and f"… {len(NAMES) - 1} more: --top 0 shows all" in text


@pytest.mark.parametrize("width, dark", [(420, True), (1280, False)])
def test_in_a_browser(page, browser, tmp_path, width, dark):
    result = show(browser, page, tmp_path, """
        const table = document.querySelector("#kernels table"), heads = [...table.querySelectorAll("th")].map((th) => th.innerText.trim());
        const column = (name) => [...table.querySelectorAll("tr:has(td)")].map((row) => row.cells[heads.indexOf(name)].innerText);
        const click = (name) => table.querySelectorAll("th")[heads.indexOf(name)].querySelector("button").click();
        const out = { title: document.title, images: document.images.length, first: column(""), scripts: document.scripts.length };
        click("change");
        out.changes = column("change");
        click("ratio");
        out.ratios = column("ratio");
        out.warm = getComputedStyle(document.querySelector("td.high")).backgroundColor;
        out.page = getComputedStyle(document.body).backgroundColor;
        out.wide = document.documentElement.scrollWidth > innerWidth;
        return out;
    """, END, width, dark)
    assert result["title"] == "b.pitot, compared with <b>a.pitot - diff" and result["images"] == 0 and result["scripts"] == 1
    assert any(name.startswith("<img src=x") for name in result["first"]) and len(result["first"]) == len(NAMES) + 1
    changes = [float(text.split()[0]) for text in result["changes"]]
    assert changes == sorted(changes, reverse=True) and changes[0] > 0 > changes[-1]
    ratios = [float(text[:-1]) for text in result["ratios"] if text.endswith("%")]
    assert ratios == sorted(ratios, reverse=True) and len(ratios) == len(NAMES)
    assert not result["wide"] and (result["page"] != "rgb(255, 255, 255)") == dark and result["warm"] != result["page"]


def test_the_flame_graph(pitot, make_recording, tmp_path):
    """Of recordings with stacks, from the first of each side; a baseline has none."""
    recording = make_recording(tmp_path / "m.pitot", "memory")
    plain = make_recording(tmp_path / "t.pitot", "training")
    pitot("diff", recording, recording, "-o", "x.html")
    text = (tmp_path / "x.html").read_text()
    assert '<iframe title="flame graph of B, compared with A" srcdoc="' in text and "m.pitot compared with " in html.unescape(text)
    pitot("diff", recording, recording, "--", recording, "-o", "y.html")
    assert "flame graph of the first recording of B, compared with that of A" in (tmp_path / "y.html").read_text()
    for words in ((recording, plain), (plain, recording)):
        pitot("diff", *words, "-o", "z.html", "--force", status=None)
        assert "<iframe" not in (tmp_path / "z.html").read_text()
    env = {"XDG_DATA_HOME": str(tmp_path)}
    pitot("baseline", "save", "main", recording, env=env)
    pitot("diff", "--against", "main", recording, "-o", "b.html", env=env)
    text = (tmp_path / "b.html").read_text()
    assert "<iframe" not in text and "m.pitot, compared with main</h1>" in text


def test_bad_pages(pitot, page, tmp_path):
    assert "exists" in pitot("diff", "b.pitot", "b.pitot", "-o", "x.html", status=1).stderr
    for name in ("x.txt", "-", "x"):
        assert f"'{name}' is no page: name it x.html" in pitot("diff", "b.pitot", "b.pitot", "-o", name, status=2).stderr
    assert "writes no files" in pitot("diff", "--determinism", "b.pitot", "b.pitot", "-o", "y.html", status=2).stderr
