"""Writes XSpace messages (xplane.proto), as JAX does."""

T0 = 1_700_000_000_000_000_000


def varint(n):
    n &= 2**64 - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number, value):
    """A number is a varint, a text or bytes are length-delimited."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Plane:
    """plane.line(id, name, [(name, offset_ps, duration_ps, {stat: value}), …]), then bytes(plane)."""

    def __init__(self, name, **stats):
        self.events, self.stats, self.lines = {}, {}, []
        self.head = field(1, 7) + field(2, name)
        self.own = b"".join(field(6, self.stat(key, value)) for key, value in stats.items())

    def number(self, table, name):
        return table.setdefault(name, len(table) + 1)

    def stat(self, name, value):
        if isinstance(value, tuple):  # a reference to a name of the table
            return field(1, self.number(self.stats, name)) + field(7, self.number(self.stats, value[0]))
        return field(1, self.number(self.stats, name)) + field(5 if isinstance(value, str) else 3, value)

    def line(self, number, name, events, time=T0):
        packed = b"".join(
            field(4, field(1, self.number(self.events, event)) + field(2, offset) + field(3, duration)
                  + b"".join(field(4, self.stat(key, value)) for key, value in stats.items()))
            for event, offset, duration, stats in events)
        self.lines.append(field(1, number) + field(2, name) + field(3, time) + packed)
        return self

    def __bytes__(self):
        """The tables come after the lines, as in real files."""
        entries = [field(at, field(1, number) + field(2, field(1, number) + field(2, name)))
                   for at, table in ((4, self.events), (5, self.stats)) for name, number in table.items()]
        return self.head + b"".join(field(3, line) for line in self.lines) + b"".join(entries) + self.own


def space(*planes, host=None):
    return b"".join(field(1, bytes(plane)) for plane in planes) + (field(4, host) if host else b"")


def gpu():
    """A GPU's kernels and copies, their calls, and the rows that repeat them."""
    kernel = {"correlation_id": 9, "kernel_details": ("regs:32 static_shared:16 dynamic_shared:64 grid:4,2,1 block:128,1,1 occ_pct:100",)}
    copy = {"correlation_id": 10, "memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:0 async:1", "context_id": 1}
    device = Plane("/device:GPU:1", device_vendor="Nvidia", compute_cap_major=9, compute_cap_minor=0, core_count=132, memory_size=2**36)
    device.line(13, "Stream #13(Compute)", [("fusion", 10_000_499, 2_250_500, kernel), ("MemcpyH2D", 20_000_000, 1_000_000, copy)])
    device.line(99, "XLA Modules", [("jit_step", 10_000_000, 12_000_000, {})])
    host = Plane("/host:CPU").line(2**40, "python", [
        ("$train.py:12 step", 0, 30_000_000, {}), ("PjitFunction(step)", 1_000_000, 28_000_000, {}),
        ("cuLaunchKernel", 2_000_000, 3_000_000, {"correlation_id": 9}), ("cuMemcpyHtoDAsync_v2", 6_000_000, 1_000_000, {"correlation_id": 10})])
    return space(device, host, Plane("/host:metadata"), host="node3")


def tpu():
    """Operations that enclose others, and a sparse core."""
    ops = [("while.3", 0, 100_000_000, {}), ("fusion.1", 0, 40_000_000, {}), ("fusion.2", 50_000_000, 50_000_000, {}), ("copy.5", 110_000_000, 400, {})]
    main = Plane("/device:TPU:0", device_type_string="TPU v5e").line(2, "XLA Ops", ops).line(1, "Steps", [("7", 0, 110_000_000, {})])
    return space(main, Plane("/device:TPU:0 SparseCore 1").line(2, "XLA Ops", [("gather", 5_000_000, 7_000_000, {})]))
