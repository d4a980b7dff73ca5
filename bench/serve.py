#!/usr/bin/env python3
"""How long views of `pitot serve` take: bench/serve.py BUILD [RECORDING]. Without a recording: of 10 million kernels.

Asks as a browser does: the first view of each page, then the same again, then slices of windows from the whole recording to a
millionth of it, three places each, 6,000 pixels wide (a screen of 2,000 and as much to either side); the slowest is printed.
"""
import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KERNELS = 10_000_000
PARTS = (1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5, 1e-6)


class Server:
    def __init__(self, build, recording):
        self.process = subprocess.Popen([build / "pitot", "serve", recording, "--json"], stdout=subprocess.PIPE, text=True)
        address = json.loads(self.process.stdout.readline())
        self.port, self.cookie = address["port"], None
        answer, _, _ = self.get("/?" + address["url"].partition("?")[2])
        self.cookie = answer.getheader("Set-Cookie").partition(";")[0]

    def get(self, path):
        """Answer, body, milliseconds."""
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", path, headers={"Cookie": self.cookie} if self.cookie else {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer, body, 1000 * (time.perf_counter() - began)

    def memory(self):
        """Resident bytes of the server and its readers."""
        pids = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in [self.process.pid, *pids]) * os.sysconf("SC_PAGE_SIZE")


def measure(server):
    _, body, ms = server.get("/recordings")
    print(f"list{ms:36.1f} ms")
    [recording] = json.loads(body)["recordings"]
    base = f"/r/{recording['id']}/"
    for view in ("report", "timeline", "flame"):
        first, again = server.get(base + view), server.get(base + view)
        print(f"{view:<12}first{first[2]:23.0f} ms   again{again[2]:10.1f} ms   {len(first[1]) >> 10:,} KiB, status {first[0].status}")
    _, body, _ = server.get(base + "timeline")
    data = json.loads(body.split(b'id="data">')[1].split(b"</script>")[0])
    for part in PARTS:
        wide, slowest = int(data["duration_ns"] * part), (0, b"")
        for place in (0.2, 0.5, 0.77):
            begin = int((data["duration_ns"] - wide) * place)
            _, body, ms = server.get(f"{base}slices?from={begin}&until={begin + wide}&pixels=6000&instance={data['instance']}")
            slowest = max(slowest, (ms, body))
        slices = sum(row[0] for row in json.loads(slowest[1].split(b"\n", 1)[0])["rows"])
        print(f"slices of {part:<9g}of the time{slowest[0]:9.1f} ms   {slices:,} slices, {len(slowest[1]) >> 10:,} KiB")
    _, _, ms = server.get(f"{base}slices?correlation=4711&instance={data['instance']}")
    print(f"a call with its work{ms:20.1f} ms")
    _, _, ms = server.get(f"{base}slices?sums=1&from=0&until={data['duration_ns'] + 1}&instance={data['instance']}")
    print(f"sums of all slices{ms:22.1f} ms")
    print(f"memory of all{server.memory() >> 20:27,} MiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("recording", type=Path, nargs="?")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    with tempfile.TemporaryDirectory(prefix="pitot-bench-") as folder:
        recording = arguments.recording
        if not recording:
            recording = Path(folder) / "big.pitot"
            subprocess.run([build / "tests/support/make-recording", recording, "--kernels", str(KERNELS), "--stacks", "200"], check=True)
        server = Server(build, recording)
        try:
            measure(server)
        finally:
            server.process.terminate()
            server.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
