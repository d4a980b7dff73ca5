"""The pages of `pitot serve` in a browser."""
import pytest

from browser_pipe import opened
from serving import serving

READY = "window.timeline && timeline.is_loaded()"
LISTED = "location.pathname === '/' && !location.search && document.querySelectorAll('tbody tr').length === %d && !document.body.innerText.includes('being read')"
STREAM = "timeline.rows.find((row) => row.track.kind === 'stream')"


@pytest.fixture(scope="module")
def server(build, make_recording, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    make_recording(folder / "train.pitot", kernels=60000, pattern="train", stacks=20)
    make_recording(folder / "other.pitot", kernels=3000, pattern="train", stacks=20, seed=3)
    make_recording(folder / "names.pitot", "names")
    make_recording(folder / "<img src=x onerror='window.hacked = 1'>&\"\r\nSet-Cookie: a=b.pitot", kernels=50)
    with serving(build, folder) as one:
        yield one


@pytest.fixture
def tab(server, browser, tmp_path):
    """At the list. No page may complain, be wider than the window, or run what is in a recording."""
    with opened(browser, tmp_path) as one:
        one.open(server.url, LISTED % 4)
        yield one
        assert one.complaints == [] and not one.run("window.hacked")


def press(tab, key):
    tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
    tab.call("Input.dispatchKeyEvent", type="keyUp", key=key)


def test_from_the_list_to_a_report(tab):
    """A search leaves some, a click leads to the report, and its bar to the other pages and back."""
    assert tab.run("document.cookie") == ""
    press(tab, "/")
    tab.call("Input.insertText", text="train.pi|hacked")
    tab.wait("document.querySelectorAll('tbody tr').length === 3")
    assert "3 of 4 recordings" in tab.run("document.body.innerText")
    tab.run("[...document.querySelectorAll('.name a')].find((a) => a.textContent === 'train.pitot').click()")
    tab.arrive("document.querySelector('#verdict')")
    tab.wait("document.querySelector('iframe').contentDocument.querySelector('canvas')") # the flame graph has drawn itself
    for view, ready in ("Timeline", READY), ("Flame graph", "window.flame && document.querySelector('canvas')"), ("Report", "document.querySelector('#verdict')"):
        tab.run(f"[...document.querySelectorAll('a')].find((a) => a.textContent === '{view}').click()")
        tab.arrive(ready)
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")
    tab.run("[...document.querySelectorAll('a')].find((a) => a.textContent === 'Recordings').click()")
    tab.arrive(LISTED % 4)


def test_two_ticks_compare(tab):
    """The first one is before, the second one after."""

    def tick(name):
        tab.run(f"[...document.querySelectorAll('tr')].find((tr) => tr.innerText.includes('{name}')).querySelector('input').click()")

    tick("train.pitot")
    assert tab.run("document.getElementById('diff').disabled")
    tick("names.pitot")
    assert not tab.run("document.getElementById('diff').disabled")
    tick("other.pitot")
    assert tab.run("document.getElementById('diff').disabled")
    tick("names.pitot")
    tab.run("document.getElementById('diff').click()")
    tab.arrive("location.pathname === '/diff' && document.querySelector('h1')")
    assert tab.run("document.querySelector('h1').textContent") == "other.pitot, compared with train.pitot"


def test_a_timeline_loads_what_it_shows(tab, server):
    """From afar slices are merged; closer, each one is there, with its call and the call's stack, wherever that is."""
    tab.open(f"http://127.0.0.1:{server.port}{server.page('train.pitot', 'timeline')}", READY)
    tab.run("timeline.show(timeline.whole.from, timeline.whole.to)")
    tab.wait("timeline.is_loaded()")
    far = tab.run(f"(() => {{ const row = {STREAM}; return [row.n, row.n + row.more.reduce((a, b) => a + b), row.busy[row.n], Math.max(...row.more)]; }})()")
    assert far[1] >= 60000 > 10 * far[0] and far[3] > 10
    assert "60,000 kernels" in tab.run("document.getElementById('about').textContent")
    tab.run(f"(() => {{ const row = {STREAM}, i = row.more.findIndex((n) => n > 10); timeline.select({{ row, i }}); }})()")
    assert "narrower than a pixel" in tab.run("document.getElementById('details').innerText")
    tab.run("document.querySelector('#details .link').click()")
    tab.wait("timeline.is_loaded()")
    tab.run("timeline.show(timeline.whole.to / 2, timeline.whole.to / 2 + 60000)")
    tab.wait("timeline.is_loaded()")
    assert tab.run(f"Math.max(...{STREAM}.more)") == 0
    tab.run(f"(() => {{ const row = {STREAM}; timeline.select({{ row, i: row.start.findIndex((ns) => ns >= timeline.view.from) }}); }})()")
    tab.wait("document.getElementById('details').innerText.includes('caused by') && timeline.arrows().length === 1")
    text = tab.run("document.getElementById('details').innerText")
    assert "cuLaunchKernel on thread" in text and "Trainer.step" in text
    before = tab.run("[timeline.selection().row.start[timeline.selection().i], timeline.arrows()[0].to.row.start[timeline.arrows()[0].to.i]]")
    assert before[0] == before[1]
    tab.run("timeline.show(timeline.whole.from, timeline.whole.to)")
    tab.wait("timeline.is_loaded()")
    assert tab.run(f"(() => {{ const row = {STREAM}; return [row.n, row.n + row.more.reduce((a, b) => a + b), row.busy[row.n]]; }})()")[1:] == far[1:3]
    assert tab.run("timeline.selection().row.start[timeline.selection().i]") == before[0], "what is selected stays"
    tab.run("timeline.search('cuLaunchKernel')")
    tab.wait("document.getElementById('found').textContent.startsWith('60,000 calls: ')")  # of all, not only of those that are there
    tab.run("timeline.search('no such name')")
    tab.wait("document.getElementById('found').textContent === 'nothing found'")


def test_sums_are_of_all_slices(tab, server):
    """Of a span that is drawn with Shift, and of a name: also of those that are merged."""
    tab.open(f"http://127.0.0.1:{server.port}{server.page('train.pitot', 'timeline')}", READY)
    tab.run("timeline.show(timeline.whole.from, timeline.whole.to)")
    tab.wait("timeline.is_loaded()")
    left, right, top = tab.run("(() => { const box = document.getElementById('plot').getBoundingClientRect();"
                               "return [box.left + timeline.x_of(-1e6), box.right - 1, box.top + 60]; })()")
    for kind, x in ("mousePressed", left), ("mouseMoved", (left + right) / 2), ("mouseMoved", right), ("mouseReleased", right):
        tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=top, button="left", buttons=1, modifiers=8, clickCount=1)
    tab.wait("document.querySelectorAll('#details td.number').length > 5")
    tab.run("(() => { const choice = document.querySelector('#details select'); choice.value = 'kernel'; choice.dispatchEvent(new Event('change')); })()")
    rows = tab.run("[...document.querySelectorAll('#details tr')].slice(1).map((tr) => [...tr.cells].map((cell) => cell.textContent))")
    assert sum(int(row[2].replace(",", "")) for row in rows) == 60000 and len(rows) > 10 and {row[1] for row in rows} == {"kernel"}
    tab.run("timeline.show(timeline.whole.to / 2, timeline.whole.to / 2 + 60000)")
    tab.wait("timeline.is_loaded()")
    tab.run(f"(() => {{ const row = {STREAM}; timeline.select({{ row, i: row.start.findIndex((ns) => ns >= timeline.view.from) }}); }})()")
    tab.wait("/same name[^\\d]*[\\d,]+, total/.test(document.getElementById('details').innerText)")


def test_a_timeline_that_is_gone(tab, server):
    """Its page is loaded again, when its reader has been closed."""
    tab.open(f"http://127.0.0.1:{server.port}{server.page('train.pitot', 'timeline')}", READY)
    before = tab.run("timeline.data.instance")
    tab.run("timeline.data.instance = 1, timeline.show(timeline.whole.to / 2, timeline.whole.to / 2 + 60000)")
    tab.arrive(f"window.timeline && timeline.data.instance === {before} && timeline.is_loaded()")
    assert tab.run("timeline.view.to - timeline.view.from") < 70000, "at the same place"
    tab.complaints[:] = [each for each in tab.complaints if "409" not in each.get("text", "")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_hostile_names(tab, server, dark):
    """They are texts on all pages, in small windows, too."""
    tab.resize(500, 700, dark)
    for name in server.list():
        for view in ("report", "timeline", "flame"):
            answer, _ = server.get(server.page(name, view))
            assert answer.status in (200, 404) and answer.getheader("Set-Cookie") is None
            if answer.status == 200:
                tab.open(f"http://127.0.0.1:{server.port}{server.page(name, view)}")
                assert not tab.run("window.hacked || document.querySelector('img')")
    tab.open(f"http://127.0.0.1:{server.port}/", LISTED % 4)
    assert tab.run("document.documentElement.scrollWidth") <= 500
    assert "Set-Cookie: a=b.pitot" in tab.run("document.body.innerText") and not tab.run("document.querySelector('img')")


def test_live(tab, server):
    tab.open(f"http://127.0.0.1:{server.port}/live", "document.getElementById('found').textContent || !document.getElementById('programs').hidden")
    assert "cannot be reached" not in tab.run("document.body.innerText")
