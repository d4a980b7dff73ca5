"""A browser that a test leads: commands of Chromium's DevTools protocol through a pipe."""
import contextlib
import json
import os
import subprocess

from waiting import PATIENCE, wait_until

WAIT = "new Promise((done) => { const look = () => %s ? done(true) : setTimeout(look, 20); look(); })"


class Tab:
    """A page. What its scripts complain about is in `complaints`."""

    def __init__(self, read, write):
        self.read, self.write, self.number, self.rest, self.session = read, write, 0, b"", None
        self.complaints = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.read, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        text, _, self.rest = self.rest.partition(b"\0")
        found = json.loads(text)
        if found.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(found["params"]["exceptionDetails"])
        if found.get("method") == "Log.entryAdded":
            self.complaints.append(found["params"]["entry"])
        return found

    def ask(self, method, **parameters):
        """The browser's answer, which may be an error."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while (found := self.message()).get("id") != self.number:
            pass
        return found

    def call(self, method, **parameters):
        found = self.ask(method, **parameters)
        assert "error" not in found, found["error"]
        return found["result"]

    def run(self, script):
        """What an expression gives, also if it is a promise."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition):
        """Waits in the page until an expression is true."""
        assert self.run(WAIT % f"({condition})")

    def open(self, address, ready="document.readyState === 'complete'"):
        """Goes to an address, and waits until an expression is true there."""
        self.call("Page.navigate", url=address)
        self.arrive(ready)

    def arrive(self, ready):
        """Waits for an expression, while the page may become another one, in which case the browser answers with an error."""

        def is_there():
            found = self.ask("Runtime.evaluate", expression=f"Boolean({ready})", returnByValue=True)
            return "result" in found and found["result"]["result"].get("value") is True

        wait_until(is_there, ready)

    def resize(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])


@contextlib.contextmanager
def opened(browser, folder, width=1400, height=900, dark=False):
    """A tab of a browser of its own."""
    commands, answers = os.pipe(), os.pipe()

    def place():
        low, high = os.dup(commands[0]), os.dup(answers[1])
        os.dup2(low, 3), os.dup2(high, 4)

    process = subprocess.Popen([browser, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--disable-extensions",
                                "--disable-background-networking", "--no-first-run", f"--user-data-dir={folder / 'profile'}", "about:blank"],
                               preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(commands[0]), os.close(answers[1])
    try:
        tab = Tab(answers[0], commands[1])
        tab.resize(width, height, dark)
        yield tab
    finally:
        process.terminate()
        process.wait(PATIENCE)
        os.close(commands[1]), os.close(answers[0])
