"""A stand-in of Perfetto's service, as a producer sees it: written from the protocol, driven by a test step by step.

It checks what the real service would drop without a word: chunks of writers that are not registered, or into other buffers, with a
gap in their numbers, or packets with fields that only the service may set.
"""
import array
import collections
import os
import queue
import random
import socket
import struct
import threading
import time

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as Packets
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

from perfetto_trace import Trace
from waiting import PATIENCE

METHODS = ["InitializeConnection", "RegisterDataSource", "UnregisterDataSource", "CommitData", "GetAsyncCommand", "RegisterTraceWriter",
           "UnregisterTraceWriter", "NotifyDataSourceStarted", "NotifyDataSourceStopped", "ActivateTriggers", "Sync", "UpdateDataSource"]
FRAME_MAX = 128 << 10
RESERVED = {3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133}
CONTINUED, CONTINUES = 1, 2
SOURCES = "gpu.counters", "gpu.counters.nv", "gpu.renderstages", "gpu.renderstages.nv", "gpu.track_event", "pitot.cpu_samples"  # of a recorder


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field; numbers and bytes only."""
    at, found = 0, []
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            assert tag & 7 == 2, "the producer sends no other type"
            length, at = read_varint(data, at)
            value = data[at:at + length]
            assert len(value) == length
            at += length
        found.append((tag >> 3, value))
    return found


def one_each(data):
    found = fields(data)
    assert len(dict(found)) == len(found)
    return dict(found)


def framed(message):
    return struct.pack("<I", len(message)) + message


class Service:
    """Listens. Methods have other ids in each service."""

    def __init__(self, path):
        self.path = path
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(PATIENCE)
        self.listener.bind(str(path))
        self.listener.listen(5)
        self.connections = []
        self.ids = dict(zip(METHODS, random.sample(range(1, 100), len(METHODS)), strict=True))

    def accept(self):
        self.connections.append(Connection(self, self.listener.accept()[0]))
        return self.connections[-1]

    def connect(self, sources=1):
        """A producer that is connected, has registered its sources, and may commit."""
        connection = self.accept()
        connection.bind()
        connection.initialize()
        connection.until(lambda: len(connection.sources) == sources)
        connection.command(3, field(1, 4))
        return connection

    def close(self):
        for connection in self.connections:
            connection.socket.close()
        self.listener.close()
        os.unlink(self.path)


class Connection:
    def __init__(self, service, connected):
        self.service, self.socket = service, connected
        self.socket.settimeout(PATIENCE)
        self.buffered, self.ahead = b"", None
        self.commands = None  # request id of GetAsyncCommand
        self.sources, self.started, self.stopped, self.acknowledged = {}, [], [], []
        self.writers, self.released = {}, set()  # writer id: target buffer
        self.next_chunk = collections.Counter()
        self.chunks = self.received = 0
        self.parts = {}  # writer id: beginning of a packet
        self.packets = collections.defaultdict(list)  # writer id: TracePackets
        self.flushed = {}  # flush id: number of packets that had come before

    # --- sending ---

    def send(self, message, piece=None):
        data = framed(message)
        for at in range(0, len(data), piece or len(data)):
            self.socket.sendall(data[at:at + (piece or len(data))])

    def reply(self, request, body=b"", more=False, piece=None):
        self.send(field(2, request) + field(6, field(1, 1) + (field(2, 1) if more else b"") + field(3, body)), piece)

    def command(self, number, message, descriptors=(), piece=None):
        """A command, once the producer has asked for them."""
        self.until(lambda: self.commands)
        if descriptors:
            self.socket.sendmsg([b""[:0] + framed(self.command_message(number, message))],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))])
        else:
            self.send(self.command_message(number, message), piece)

    def command_message(self, number, message):
        return field(2, self.commands) + field(6, field(1, 1) + field(2, 1) + field(3, field(number, message)))

    def start(self, instance, source, buffer=1, config=b"", piece=None):
        body = field(1, instance) + field(2, field(1, source) + field(2, buffer) + config)
        self.command(6, body, piece=piece)
        self.command(1, body, piece=piece)

    def stop(self, instance):
        self.command(2, field(1, instance))

    def flush(self, flush, *instances):
        self.command(5, b"".join(field(1, i) for i in instances) + field(2, flush))

    def clear(self, *instances):
        self.command(7, b"".join(field(1, i) for i in instances))

    # --- receiving ---

    def read_ahead(self):
        """From now on reads without delay, however long the test takes about each frame."""
        self.ahead = queue.Queue()
        threading.Thread(target=self.read_all, daemon=True).start()

    def read_all(self):
        try:
            while data := self.socket.recv(1 << 20):
                self.ahead.put(data)
        except OSError:
            pass
        self.ahead.put(b"")

    def receive(self):
        return self.ahead.get(timeout=PATIENCE) if self.ahead else self.socket.recv(1 << 20)

    def frame(self):
        while len(self.buffered) < 4 or len(self.buffered) < 4 + struct.unpack_from("<I", self.buffered)[0]:
            data = self.receive()
            if not data:
                raise EOFError
            self.buffered += data
        length = struct.unpack_from("<I", self.buffered)[0]
        assert length <= FRAME_MAX
        message, self.buffered = self.buffered[4:4 + length], self.buffered[4 + length:]
        return one_each(message)

    def bind(self, **renamed):
        frame = self.frame()
        assert one_each(frame[3]) == {1: b"ProducerPort"}
        methods = b"".join(field(3, field(1, i) + field(2, renamed.get(name, name))) for name, i in self.service.ids.items())
        self.send(field(2, frame[2]) + field(4, field(1, 1) + field(2, 5) + methods))

    def initialize(self, succeed=True):
        request, name, arguments = self.call()
        assert name == "InitializeConnection" and one_each(arguments)[3] == b"producer_program"
        if succeed:
            self.reply(request)
        else:
            self.send(field(2, request) + field(6, field(1, 0)))

    def call(self):
        frame = self.frame()
        invoked = one_each(frame[5])
        assert invoked[1] == 5
        [name] = [name for name, i in self.service.ids.items() if i == invoked[2]]
        return frame[2], name, invoked.get(3, b"")

    def until(self, condition):
        """Obeys the producer until that is so."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end
            self.obey(*self.call())

    def rest(self, complete=True):
        """
        Obeys until the producer hangs up, behind a complete frame unless its time was over. Reads ahead: a program at its end waits
        for a moment only, less than a busy machine may need to decode what comes.
        """
        if not self.ahead:
            self.read_ahead()
        try:
            while True:
                self.obey(*self.call())
        except (EOFError, ConnectionResetError):
            assert not (complete and self.buffered), "the last frame is not complete"

    def obey(self, request, name, arguments):
        found = fields(arguments)
        first = dict(reversed(found))
        if name == "RegisterDataSource":
            descriptor = one_each(first[1])
            self.sources[descriptor.pop(1).decode()] = descriptor
        elif name == "GetAsyncCommand":
            self.commands = request
        elif name == "RegisterTraceWriter":
            if first[1] in self.released:  # begins anew
                self.released.remove(first[1])
                del self.writers[first[1]], self.next_chunk[first[1]]
            assert first[1] not in self.writers and 1 <= first[1] <= 32767
            self.writers[first[1]] = first[2]
            self.packets[first[1]] = []
        elif name == "UnregisterTraceWriter":
            self.released.add(first[1])
        elif name == "NotifyDataSourceStarted":
            self.started.append(first[1])
        elif name == "NotifyDataSourceStopped":
            self.stopped.append(first[1])
        elif name == "CommitData":
            for number, value in found:
                if number == 3:
                    self.acknowledged.append(value)
                    self.flushed[value] = self.count()
                else:
                    assert number == 1
                    self.move(one_each(value))
        else:
            raise AssertionError(name)

    def move(self, chunk):
        data = chunk[4]
        number, writer, packets = struct.unpack_from("<IHH", data)
        flags, packets, at = packets >> 10, packets & 1023, 8
        assert chunk[1] == chunk[2] == 0 and len(data) <= 64000 and packets
        assert self.writers[writer] == chunk[3] and writer not in self.released
        assert self.next_chunk[writer] == number
        assert (writer in self.parts) == bool(flags & CONTINUED) and not flags & 4
        self.next_chunk[writer] += 1
        self.chunks += 1
        for i in range(packets):
            length, at = read_varint(data, at)
            packet = self.parts.pop(writer, b"") + data[at:at + length]
            at += length
            if i == packets - 1 and flags & CONTINUES:
                self.parts[writer] = packet
            else:
                self.packets[writer].append(self.decode(packet, not self.packets[writer]))
                self.received += 1
        assert at == len(data)

    @staticmethod
    def decode(data, first):
        packet = TracePacket.FromString(data)
        numbers = {descriptor.number for descriptor, _ in packet.ListFields()}
        assert not numbers & RESERVED
        assert packet.first_packet_on_sequence == first
        return packet

    # --- what has come ---

    def count(self):
        return self.received

    def numbers(self, writer):
        return [p.for_testing.counter for p in self.packets[writer]]


def connect(service, sources=SOURCES):
    connection = service.accept()
    connection.bind()
    request, name, _ = connection.call()
    assert name == "InitializeConnection"
    connection.reply(request)
    connection.until(lambda: len(connection.sources) == len(sources))
    assert sorted(connection.sources) == sorted(sources)
    connection.command(3, field(1, 4))
    return connection


def packets_of(connection, buffer=None):
    """The file that the real service would write of a buffer, or of all."""
    trace = Packets()
    clock = trace.packet.add(trusted_packet_sequence_id=1)
    for number in 3, 6:
        clock.clock_snapshot.clocks.add(clock_id=number, timestamp=time.monotonic_ns())
    clock.clock_snapshot.primary_trace_clock = 6
    for writer, packets in connection.packets.items():
        for packet in packets if buffer in (None, connection.writers[writer]) else ():
            packet.trusted_packet_sequence_id = writer + 1
            trace.packet.append(packet)
    return trace.SerializeToString()


def live_trace(connection, buffer=None):
    return Trace(packets_of(connection, buffer))
