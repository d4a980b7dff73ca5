"""Writes and reads SBT 0.1, TraceSmith's format, independently of Pitot."""
import struct

T0 = 1_700_000_000_000_000_000
KERNEL, COMPLETE, HTOD, DTOH, DTOD, SET, STREAM, DEVICE, RECORD, EVENT = range(1, 11)
ALLOC, FREE, MARK, BEGIN, END, NCCL, NCCL_END = range(15, 22)


def varint(n):
    n &= 2**64 - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return varint(len(s)) + s


class Sbt:
    """event() appends; bytes() of it is the file, unfinished() that of a program that was killed."""

    def __init__(self, app="demo", command="demo -n 2", start=T0, end=T0 + 5000, host="host1", pid=4242, base=T0 + 1000):
        self.metadata = b"\1" + text(app) + text(command) + varint(start) + varint(end) + text(host) + varint(pid)
        self.devices = b"\3" + varint(1) + varint(0) + text("GPU0") + text("NVIDIA") + b"".join(
            map(varint, (9, 0, 1 << 30, 2619000, 5120, 132, 2048, 1980000, 32)))
        self.base = self.last = base
        self.strings, self.events = [], []

    def index(self, name):
        if name not in self.strings:
            self.strings.append(name)
        return self.strings.index(name)

    def event(self, kind, name, at, duration=None, device=0, stream=7, correlation=0, kernel=None, memory=None, thread=None, frames=(), flags=0):
        """at: since `base`; frames: [(address, function, file, line)], innermost first."""
        stack = thread is not None
        flags |= (duration is not None) | (kernel is not None) << 1 | (memory is not None) << 2 | stack << 3
        out = bytes([kind, flags]) + varint(self.base + at - self.last)
        self.last = self.base + at
        out += varint(duration) if duration is not None else b""
        out += varint(device) + varint(stream) + varint(correlation) + varint(self.index(name))
        out += b"".join(map(varint, (*(kernel or ()), *(memory or ()))))
        if stack:
            out += varint(thread) + varint(len(frames))
            for address, function, file, line in frames:
                out += varint(address) + varint(self.index(function)) + varint(self.index(file)) + varint(line)
        self.events.append(out)
        return self

    def sections(self):
        """In order: metadata, devices, events, strings."""
        return [self.metadata, self.devices, b"\4" + varint(self.base) + b"".join(self.events),
                b"\2" + varint(len(self.strings)) + b"".join(map(text, self.strings))]

    def __bytes__(self):
        metadata, devices, events, strings = self.sections()
        at = 72, 72 + len(metadata), 72 + len(metadata) + len(devices), 72 + len(metadata) + len(devices) + len(events)
        header = struct.pack("<4sHHII", b"SBT\0", 0, 1, 3, 72)
        header += struct.pack("<6QQ", at[0], at[3], at[1], at[2], 0, len(self.events), 0)
        return header + metadata + devices + events + strings + b"\xff"

    def unfinished(self, strings=False):
        metadata, devices, events, table = self.sections()
        header = struct.pack("<4sHHII", b"SBT\0", 0, 1, 1, 72) + bytes(56)
        return header + metadata + devices + events + (table + b"\xff" if strings else b"")


class Reader:
    """The events of a file, as dictionaries; raises if anything is not as the format says."""

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, major, minor, flags, size = struct.unpack_from("<4sHHII", data)
        assert (magic, major, minor, flags, size) == (b"SBT\0", 0, 1, 3, 72)
        metadata, strings, devices, events, stacks, count, packing = struct.unpack_from("<7Q", data, 16)
        assert stacks == packing == 0 and data[-1] == 255
        self.section(metadata, 1)
        self.metadata = [self.text(), self.text(), self.var(), self.var(), self.text(), self.var()]
        self.section(devices, 3)
        self.devices = [[self.var(), self.text(), self.text(), *(self.var() for _ in range(9))] for _ in range(self.var())]
        self.section(strings, 2)
        self.strings = [(self.length, name) for name in (self.text() for _ in range(self.var()))]
        assert data[self.at:] == b"\xff"
        self.events = []
        if events:
            self.section(events, 4)
            self.time = self.var()
            self.events = [self.event() for _ in range(count)]
        assert len(self.events) == count and (not events or self.at == strings)

    def section(self, offset, tag):
        assert self.data[offset] == tag
        self.at = offset + 1

    def var(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        self.length = self.var()
        self.at += self.length
        return self.data[self.at - self.length:self.at].decode(errors="replace")

    def event(self):
        kind, flags = self.data[self.at], self.data[self.at + 1]
        self.at += 2
        assert flags < 16
        self.time = (self.time + self.var()) % 2**64
        v = {"type": kind, "time": self.time, "duration": self.var() if flags & 1 else None}
        v.update(device=self.var(), stream=self.var(), correlation=self.var())
        v["bytes"], v["name"] = self.strings[self.var()]
        v["kernel"] = [self.var() for _ in range(8)] if flags & 2 else None
        v["memory"] = [self.var() for _ in range(3)] if flags & 4 else None
        if flags & 8:
            v["thread"] = self.var()
            v["frames"] = [(self.var(), self.strings[self.var()][1], self.strings[self.var()][1], self.var()) for _ in range(self.var())]
        return v
