"""What all pages have in common in a browser: small windows, dark ones, and the keyboard."""
import pytest

from flame_page import show

END = "</script>\n</body>"
PAGES = {
    "timeline": ("export", "-o", "x.html"),
    "flame": ("flame", "-o", "x.html"),
    "report": ("report", "-o", "x.html"),
}
# What a window shows: errors of scripts, what is wider than it, how far texts stand out from what is behind them, what canvases show.
LOOK = """
    const out = { wrong: [] }, root = document.documentElement;
    window.addEventListener("error", (event) => out.wrong.push(event.message));
    const light = (color) => {
        const part = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4, [r, g, b] = color.match(/[\\d.]+/g).map(Number);
        return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
    };
    const behind = (node) => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (color !== "rgba(0, 0, 0, 0)")
                return color;
        }
        return getComputedStyle(document.body).colorScheme.includes("dark") && matchMedia("(prefers-color-scheme: dark)").matches
            ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)";
    };
    const contrast = (node) => {
        const both = [light(getComputedStyle(node).color), light(behind(node))].sort((a, b) => a - b);
        return (both[1] + 0.05) / (both[0] + 0.05);
    };
    window.dispatchEvent(new Event("resize"));
    await new Promise((done) => setTimeout(done, 50));
    out.background = light(behind(document.body));
    out.texts = [...document.querySelectorAll("h1, h2, p, th, td, label, small, b")].filter((node) => node.innerText && node.offsetParent &&
        !node.closest("button:disabled, svg")).map((node) => [contrast(node), node.tagName, node.innerText.slice(0, 40)]);
    out.width = innerWidth;
    out.over = root.scrollWidth - root.clientWidth;
    out.canvases = [...document.querySelectorAll("canvas")].map((canvas) =>
        new Set(new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size);
    return out;
"""


@pytest.fixture
def page(pitot, make_recording, tmp_path):
    def make(name, kind="page"):
        pitot(PAGES[name][0], make_recording(tmp_path / "r.pitot", kind), *PAGES[name][1:])
        return tmp_path / "x.html"

    return make


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_small_window(page, browser, tmp_path, name, dark):
    """The page is not wider than it, its texts can be read, and its pictures are there, in light and in dark."""
    result = show(browser, page(name), tmp_path, LOOK, END, 500, dark)
    assert result["wrong"] == [] and result["width"] == 500 and result["over"] <= 0 and result["texts"]
    assert (result["background"] < 0.1) == dark
    assert [text for text in result["texts"] if text[0] < 4] == []
    assert all(colors > 3 for colors in result["canvases"]) and (name == "report" or result["canvases"])


def test_flame_by_keyboard_alone(page, browser, tmp_path):
    """A search that finds nothing, one that does, callers and callees, and the way back."""
    result = show(browser, page("flame"), tmp_path, """
        const out = { wrong: [] }, field = document.getElementById("search"), s = flame.sections[0];
        window.addEventListener("error", (event) => out.wrong.push(event.message));
        const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        const type = (text) => {
            field.value = text;
            field.dispatchEvent(new Event("input", { bubbles: true }));
            press(field, "Enter");
        };
        press(document.body, "c"); /* nothing is selected */
        press(document.body, "/");
        out.focused = document.activeElement === field;
        type("no such name");
        out.none = [s.found_ns, s.note.textContent];
        type("(");
        out.half = s.note.textContent;
        const leaf = [...s.source.depth].findIndex((depth) => depth === 2);
        type(flame.name_of(s, leaf).split("(")[0].split("<")[0]);
        out.found = s.found_ns > 0;
        press(field, "Escape");
        out.cleared = [field.value, document.activeElement === field, s.found_ns || 0];
        flame.zoom(s, leaf);
        press(s.canvas, "ArrowUp");
        out.up = s.zoomed === s.parent[leaf];
        press(document.body, "c");
        out.around = flame.views() !== flame.sections;
        press(document.body, "r");
        out.back = [flame.views() === flame.sections, s.zoomed];
        return out;
    """, END)
    assert result["wrong"] == [] and result["focused"] and result["found"] and result["up"] and result["around"]
    assert not result["none"][0] and "found 0" in result["none"][1]
    assert result["cleared"] == ["", False, 0] and result["back"] == [True, 0]
