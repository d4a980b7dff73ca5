"""Writes a synthetic XSpace file with so many events, for `pitot import`.

    python3 bench/xspace_trace.py 15000000 /tmp/trace.xplane.pb
    /usr/bin/time -v pitot import /tmp/trace.xplane.pb -o /tmp/trace.pitot -f
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/cli"))
from xspace_messages import T0, field, varint

count, path = int(sys.argv[1]), sys.argv[2]
packed = bytearray()
for i in range(count):
    event = field(1, i % 200 + 1) + field(2, i * 1_500_000) + field(3, 1_200_000 + i % 1000)
    packed += b"\x22" + varint(len(event)) + event
names = b"".join(field(4, field(1, i) + field(2, field(1, i) + field(2, f"fusion.{i}"))) for i in range(1, 201))
line = field(1, 2) + field(2, "XLA Ops") + field(3, T0) + bytes(packed)
plane = field(1, 1) + field(2, "/device:TPU:0") + field(3, line) + names
Path(path).write_bytes(field(1, plane))
