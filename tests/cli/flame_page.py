"""Pages and pictures in a browser."""
import html
import json
import re
import subprocess

from waiting import PATIENCE


def page_data(path):
    return re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)[1]


def show(browser, page, tmp_path, script, end, width=1240, dark=False):
    """What a page's script leaves in the attribute `data-result`, as JSON: `script` runs when the page is there. It may await. `dark` is
    what the reader prefers."""
    text = page.read_text()
    assert end in text
    head, tail = text.rsplit(end, 1)
    copy = page.with_name(f"shown{page.suffix}")
    copy.write_text(f"{head}\n(async () => {{ {script} }})().catch((wrong) => wrong.stack).then((result) => "
                    f"document.documentElement.setAttribute('data-result', JSON.stringify(result)));\n{end}{tail}")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--user-data-dir={tmp_path / 'browser'}", f"--window-size={width},900", "--virtual-time-budget=3000",
               "--dump-dom", copy.as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    found = re.search(r'data-result="([^"]*)"', result.stdout)
    assert found, result.stdout[:2000] + result.stderr[-2000:]
    return json.loads(html.unescape(found[1]))
