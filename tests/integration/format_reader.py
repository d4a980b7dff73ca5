"""A reader of recordings written from docs/format.md and `pitot schema --json`, and from nothing else of Pitot.

It is slow and forgives nothing: whatever is not as the document says raises an exception.
"""
import ctypes
import struct
from itertools import accumulate

BLOCK = struct.Struct("<4sIIIHHIQQQ")  # section 3
ENTRY = struct.Struct("<QIIHHIQQQ")  # section 2.2
PADDING, INDEX = 0, 65535
RUNS, PLANES, DICTIONARY, BYTES = range(4)
DELTA, BASE, VALIDITY, ZSTD = 0x10, 0x20, 0x40, 0x80
BITS = {"u8": 8, "enum": 8, "u16": 16, "u32": 32, "string": 32, "ref": 32, "i32": 32, "u64": 64, "i64": 64, "time": 64}
MASK = (1 << 64) - 1

zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t
zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def crc_of_byte(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    return byte


CRCS = [crc_of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = CRCS[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data)
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte, = self.take(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                assert shift <= 70 and value <= MASK
                return value


def undo_zigzag(value):
    return (value >> 1 ^ -(value & 1)) & MASK


def stored_values(data, encoding, n):  # section 4.1
    b = Bytes(data)
    values = []
    if encoding == RUNS:
        while len(values) < n:
            length, value = b.varint(), b.varint()
            assert length >= 1
            values += [value] * length
    elif encoding == PLANES:
        width, = b.take(1)
        assert 1 <= width <= 8
        planes = [b.take(n) for _ in range(width)]
        values = [int.from_bytes(value, "little") for value in zip(*planes)]
    elif encoding == DICTIONARY:
        size = b.varint()
        assert 1 <= size <= 256
        known = [b.varint() for _ in range(size)]
        values = [known[index] for index in b.take(n)]
    else:
        lengths = [b.varint() for _ in range(n)]
        values = [b.take(length) for length in lengths]
    assert len(values) == n and b.at == len(data)
    return values


def chunk(b):  # section 4: column, flags, seed, data
    column, (flags,) = b.varint(), b.take(1)
    assert not flags & 0x0c
    seed = b.varint() if flags & DELTA else 0
    decoded, stored = b.varint(), b.varint()
    data = b.take(stored)
    if flags & ZSTD:
        room = ctypes.create_string_buffer(decoded)
        assert zstd.ZSTD_decompress(room, decoded, data, stored) == decoded
        data = room.raw
    assert len(data) == decoded
    return column, flags, seed, data


def block_rows(payload, chunks, rows, table):
    """The rows of a block as tuples in the order of the schema's columns."""
    b = Bytes(payload)
    types = [column["type"] for column in table["columns"]]
    columns, valid, based = {}, {}, []
    for _ in range(chunks):
        column, flags, seed, data = chunk(b)
        assert column not in columns
        if flags & VALIDITY:
            assert column not in valid
            valid[column] = stored_values(data, flags & 3, rows)
            continue
        present = valid.get(column, [1] * rows)
        values = stored_values(data, flags & 3, sum(present))
        assert (flags & 3 == BYTES) == (types[column] == "bytes")
        if flags & (DELTA | BASE) or types[column] in ("i32", "i64"):
            values = map(undo_zigzag, values)
        if flags & DELTA:
            values = [value & MASK for value in accumulate(values, initial=seed)][1:]
        values = iter(values)
        columns[column] = [next(values) if there else None for there in present]
        based += [column] if flags & BASE else []
    assert b.at == len(payload)
    names = [column["name"] for column in table["columns"]]
    for column in based:
        bases = columns.get(names.index(table["columns"][column]["base"]), [None] * rows)
        columns[column] = [None if value is None else (value + (base or 0)) & MASK
                           for value, base in zip(columns[column], bases)]
    for column, kind in enumerate(types):
        if kind in ("i32", "i64"):
            columns[column] = [None if v is None else v - (v >> 63 << 64) for v in columns.get(column, [None] * rows)]
        if kind in BITS and kind[0] != "i":
            assert all(v is None or v >> BITS[kind] == 0 for v in columns.get(column, []))
    return list(zip(*(columns.get(column, [None] * rows) for column in range(len(types)))))


def check_times(table, rows, start, end):
    time = next((i for i, column in enumerate(table["columns"]) if column["type"] == "time"), None)
    times = [] if time is None else [-1 if row[time] is None else row[time] for row in rows]
    assert times == sorted(times)
    times = [value for value in times if value >= 0]
    assert (start, end) == ((times[0], times[-1]) if times else (0, 0))


def read_segment(path, tables):
    """Session, {table: rows} of a segment that was closed in order; what is not known is skipped."""
    data = path.read_bytes()
    magic, version, at, session = struct.unpack_from("<8sIIQ", data)
    assert magic == b"PITOTSEG" and version == 1 and at >= 64
    assert struct.unpack_from("<I", data, 60)[0] == crc32c(data[:60])
    found, blocks = {}, []
    while data[at + 16:at + 24] != b"PITOTEND" or len(data) - at != 24:
        magic, crc, size, payload_crc, table, chunks, rows, start, end, number = BLOCK.unpack_from(data, at)
        assert magic == b"PBLK" and crc == crc32c(data[at:at + 4] + bytes(4) + data[at + 8:at + 48])
        payload = data[at + 48:at + 48 + size]
        assert payload_crc == crc32c(payload)
        if table == INDEX:
            assert [ENTRY.unpack_from(payload, 48 * i) for i in range(rows)] == blocks and size == 48 * rows
            index = at
        elif table != PADDING:
            blocks.append((at, size, payload_crc, table, chunks, rows, start, end, number))
        if table in tables:
            decoded = block_rows(payload, chunks, rows, tables[table])
            check_times(tables[table], decoded, start, end)
            found.setdefault(tables[table]["name"], []).extend(decoded)
        at += 48 + size
    assert struct.unpack_from("<Q", data, at)[0] == index
    assert struct.unpack_from("<I", data, at + 12)[0] == crc32c(b"PITOTEND" + data[at:at + 12])
    return session, found


def read_recording(folder, schema):
    """{session: {table: rows}}: repeated rows once."""
    tables = {table["id"]: table for table in schema["tables"]}
    sessions = {}
    for path in sorted(folder.glob("*.pit")):
        session, found = read_segment(path, tables)
        for name, rows in found.items():
            sessions.setdefault(session, {}).setdefault(name, []).extend(rows)
    for found in sessions.values():
        for table in tables.values():
            if table["repeated"] and table["name"] in found:
                found[table["name"]] = list(dict.fromkeys(found[table["name"]]))
    return sessions
