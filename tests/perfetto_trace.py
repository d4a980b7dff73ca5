"""Reads a Perfetto trace with the official protobuf classes, and holds it to the rules of the format.

Trace(bytes) raises AssertionError where a packet breaks a rule that readers punish by dropping data: interned ids that
are not defined before use, packets that need a state that their sequence does not have, clocks without a snapshot, ends
without a beginning, event ids used twice, fields that the schema does not know.
"""
from collections import defaultdict
from dataclasses import dataclass, field, replace

from google.protobuf import descriptor_pb2, descriptor_pool, unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BUILTIN_BOOTTIME = 6
CLEARED, NEEDS_STATE = 1, 2
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
COMPUTE = 2


def _declare_extensions():
    """The four fields of GPU compute that are extensions, and so not in the package."""
    file = descriptor_pb2.FileDescriptorProto(
        name="pitot_test.proto", package="pitot.test", syntax="proto2", dependency=[schema.DESCRIPTOR.name])
    message = file.message_type.add(name="GpuCorrelation")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, name in ((1, "submitted"), (2, "waited")):
        message.field.add(name=name, number=number, label=kinds.LABEL_REPEATED, type=kinds.TYPE_UINT64)
    for extendee, number, name, label, kind, type_name in (
        ("TrackEvent", 3000, "gpu_correlation", kinds.LABEL_OPTIONAL, kinds.TYPE_MESSAGE, ".pitot.test.GpuCorrelation"),
        ("TrackEvent", 3001, "gpu_api", kinds.LABEL_OPTIONAL, kinds.TYPE_INT32, None),
        ("InternedData", 1000, "compute_kernels", kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE,
         ".perfetto.protos.InternedComputeKernel"),
        ("InternedData", 1001, "compute_arg_names", kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE,
         ".perfetto.protos.InternedComputeArgName"),
    ):
        file.extension.add(name=name, number=number, label=label, type=kind, type_name=type_name,
                           extendee=f".perfetto.protos.{extendee}")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: pool.FindExtensionByName(f"pitot.test.{name}")
            for name in ("gpu_correlation", "gpu_api", "compute_kernels", "compute_arg_names")}


EXTENSIONS = _declare_extensions()


def assert_no_unknown_fields(message):
    """Of the whole, at the speed of C; only where there is one, by walking, whose it is."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    if known.ByteSize() != message.ByteSize():
        find_unknown_fields(message)
        raise AssertionError("unknown fields")


def find_unknown_fields(message):
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, f"unknown field in {message}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type:
            repeated = isinstance(value, (list, tuple)) or hasattr(value, "add")
            for item in value if repeated else [value]:
                find_unknown_fields(item)


@dataclass
class Stage:
    """A GPU slice."""
    event_id: int
    start: int
    duration: int
    name: str
    category: int
    gpu: int
    pid: int
    queue: str
    queue_iid: int
    args: dict
    kernel: object
    waited: tuple  # ids of the events that it waited for


@dataclass
class Slice:
    name: str
    category: str
    start: int
    pid: int
    tid: int
    track: str
    notes: dict
    submitted: list
    waited: list
    stack: list = None  # frames, the outermost first
    weight: float = None  # of the stack
    end: int = None
    flows: tuple = ()


@dataclass
class Frame:
    name: str
    mapping: str
    place: tuple  # of the mapping: start, end, file offset, load bias
    build_id: str
    address: int
    file: str
    line: int
    kind: int


@dataclass
class Sample:
    source: str
    time: int
    pid: int
    tid: int
    cpu: int
    weight: int
    stack: list


@dataclass
class Sequence:
    valid: bool = False
    interned: dict = field(default_factory=dict)
    stacks: dict = field(default_factory=dict)  # those that were asked for, by iid
    clock: int = None
    track: int = None
    source: str = None


INTERNED = {
    "event_categories": "name", "event_names": "name", "debug_annotation_names": "name",
    "gpu_specifications": None, "graphics_contexts": None, "gpu_counter_descriptors": None,
    "function_names": "str", "frames": None, "callstacks": None, "build_ids": "str", "mapping_paths": "str",
    "source_paths": "str", "mappings": None, "debug_annotation_string_values": "str",
}


class Trace:
    """Readers bring events in order by their times, and so does this."""

    def __init__(self, data):
        self._later = []
        self.stages, self.slices, self.instants, self.samples = [], [], [], []
        self.warnings = []  # (time, tag, message)
        self.memory, self.frequencies = defaultdict(list), defaultdict(list)  # by GPU: (time, bytes or kHz)
        self.counters = defaultdict(list)  # (gpu, name) or (pid, name) -> [(time, value)]
        self.peaks = {}  # (gpu, name) -> value; only those that are known
        self.tracks, self.gpus, self.clocks, self.commands = {}, [], set(), {}
        self.boottime_offset, self.contexts = None, {}  # contexts: iid -> pid
        self._sequences = defaultdict(Sequence)
        self._threads, self._owners = set(), {}  # of the tracks so far
        self._open = defaultdict(list)  # track -> open slices
        self._last = defaultdict(int)  # track -> time of the last event
        trace = schema.Trace()
        trace.ParseFromString(data)
        assert trace.SerializePartialToString(), "empty"
        assert_no_unknown_fields(trace)
        self.packets = len(trace.packet)
        for packet in trace.packet:
            self._packet(packet)
        for packet, sequence in sorted(self._later, key=lambda later: later[0].timestamp):
            self._track_event(packet, sequence)
        assert not any(self._open.values()), "slices without an end"
        ids = [stage.event_id for stage in self.stages]
        assert 0 not in ids and len(set(ids)) == len(ids), "event ids are not unique"

    def _packet(self, packet):
        assert packet.trusted_packet_sequence_id
        sequence = self._sequences[packet.trusted_packet_sequence_id]
        if packet.sequence_flags & CLEARED:
            sequence.__init__(valid=True)
        if packet.sequence_flags & NEEDS_STATE:
            assert sequence.valid, "a state is needed and not there"
        if packet.HasField("trace_packet_defaults"):
            assert sequence.valid
            sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
            sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
            samples = packet.trace_packet_defaults.stack_sample_defaults
            sequence.source = samples.source
            assert not sequence.source or samples.primary_descriptor.unit == 1, "nanoseconds"
        if packet.HasField("interned_data"):
            assert sequence.valid
            self._intern(sequence, packet.interned_data)
        if packet.HasField("clock_snapshot"):
            readings = {reading.clock_id: reading.timestamp for reading in packet.clock_snapshot.clocks}
            self.clocks |= set(readings)
            if BUILTIN_BOOTTIME in readings and self.boottime_offset is None:
                self.boottime_offset = readings[BUILTIN_BOOTTIME] - readings[3]
            assert packet.clock_snapshot.primary_trace_clock in readings
        if packet.HasField("timestamp"):
            clock = packet.timestamp_clock_id or sequence.clock or BUILTIN_BOOTTIME
            assert clock in self.clocks, f"no snapshot of clock {clock}"
            if not packet.HasField("timestamp_clock_id") and sequence.clock:
                assert packet.sequence_flags & NEEDS_STATE, "a default is used"
        kind = packet.WhichOneof("data")
        handler = getattr(self, f"_{kind}", None) if kind else None
        if kind == "track_event":
            self._later.append((packet, replace(sequence)))
        elif handler:
            handler(packet, sequence)

    def _intern(self, sequence, data):
        entries = [(name, getattr(data, name)) for name in INTERNED]
        entries += [(name, data.Extensions[EXTENSIONS[name]]) for name in ("compute_kernels", "compute_arg_names")]
        known = {descriptor.name for descriptor, _ in data.ListFields()}
        assert known <= {name for name, _ in entries}, known
        for name, items in entries:
            table = sequence.interned.setdefault(name, {})
            for item in items:
                assert item.iid and item.iid not in table, f"{name} {item.iid} is 0 or defined twice"
                table[item.iid] = item
                if name == "graphics_contexts":  # readers take the first of the whole trace
                    assert self.contexts.setdefault(item.iid, item.pid) == item.pid and item.iid < 1 << 32

    @staticmethod
    def _look_up(packet, sequence, table, iid):
        assert packet.sequence_flags & NEEDS_STATE
        assert iid in sequence.interned.get(table, {}), f"{table} {iid} is not defined"
        return sequence.interned[table][iid]

    def _frame(self, packet, sequence, iid):
        def text(table, number):
            return self._look_up(packet, sequence, table, number).str.decode() if number else ""

        frame = self._look_up(packet, sequence, "frames", iid)
        mapping = self._look_up(packet, sequence, "mappings", frame.mapping_id)
        assert mapping.start <= mapping.end
        path = "/" + "/".join(text("mapping_paths", part) for part in mapping.path_string_ids)
        build_id = self._look_up(packet, sequence, "build_ids", mapping.build_id).str.hex() if mapping.build_id else ""
        place = mapping.start, mapping.end, mapping.start_offset, mapping.load_bias
        return Frame(text("function_names", frame.function_name_id), path, place, build_id, frame.rel_pc,
                     text("source_paths", frame.source_path_iid), frame.line_number, frame.kind)

    def _stack(self, packet, sequence, iid):
        frames = self._look_up(packet, sequence, "callstacks", iid).frame_ids
        assert frames, "readers count an empty stack as an error"
        if iid not in sequence.stacks:
            sequence.stacks[iid] = [self._frame(packet, sequence, frame) for frame in frames]
        return sequence.stacks[iid]

    def _stack_sample(self, packet, sequence):
        sample = packet.stack_sample
        task, place = sample.task_context, sample.execution_context
        assert sequence.source and packet.sequence_flags & NEEDS_STATE
        assert (task.pid, task.tid) in self._threads, "a sample of a thread that is not described"
        self.samples.append(Sample(sequence.source, packet.timestamp, task.pid, task.tid,
                                   place.cpu if place.HasField("cpu") else None, sample.primary_weight,
                                   self._stack(packet, sequence, sample.callstack_iid)))

    def _process_tree(self, packet, _):
        for process in packet.process_tree.processes:
            self.commands[process.pid] = process.ppid, list(process.cmdline)

    def _gpu_log(self, packet, _):
        assert packet.gpu_log.severity == 4 and packet.HasField("timestamp")
        self.warnings.append((packet.timestamp, packet.gpu_log.tag, packet.gpu_log.log_message))

    def _gpu_mem_total_event(self, packet, _):
        event = packet.gpu_mem_total_event
        assert packet.HasField("timestamp") and event.HasField("size") and event.HasField("pid") and event.pid == 0
        self.memory[event.gpu_id].append((packet.timestamp, event.size))

    def _generic_gpu_frequency_event(self, packet, _):
        event = packet.generic_gpu_frequency_event
        assert packet.HasField("timestamp") and event.HasField("frequency_khz")
        self.frequencies[event.gpu_id].append((packet.timestamp, event.frequency_khz))

    def _gpu_info(self, packet, _):
        self.gpus = list(packet.gpu_info.gpus)

    def _track_descriptor(self, packet, _):
        descriptor = packet.track_descriptor
        assert descriptor.uuid
        if descriptor.parent_uuid:
            assert descriptor.parent_uuid in self.tracks, "parent comes later"
        self.tracks[descriptor.uuid] = descriptor
        self._owners.clear()
        if descriptor.HasField("thread"):
            self._threads.add((descriptor.thread.pid, descriptor.thread.tid))

    def owner(self, uuid):
        """pid, tid, name of a track."""
        if uuid not in self._owners:
            self._owners[uuid] = self._find_owner(uuid)
        return self._owners[uuid]

    def _find_owner(self, uuid):
        pid = tid = None
        name = self.tracks[uuid].name
        while uuid:
            track = self.tracks[uuid]
            if track.HasField("thread") and tid is None:
                tid, pid = track.thread.tid, track.thread.pid
            if track.HasField("process"):
                pid = track.process.pid
            uuid = track.parent_uuid
        assert pid is not None or name == "critical path"
        return pid, tid, name

    def _track_event(self, packet, sequence):
        event = packet.track_event
        uuid = event.track_uuid or sequence.track
        assert uuid in self.tracks, "event of a track that is not described"
        if event.type == COUNTER:
            value = event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            pid, _, name = self.owner(uuid)
            self.counters[pid, name].append((packet.timestamp, value))
            return
        assert packet.timestamp >= self._last[uuid], "events of a track out of order"
        self._last[uuid] = packet.timestamp
        if event.type == END:
            assert self._open[uuid], "end without a beginning"
            made = self._open[uuid].pop()
            made.end = packet.timestamp
            self._annotations(packet, sequence, event.debug_annotations, made.notes)
            return
        correlation = event.Extensions[EXTENSIONS["gpu_correlation"]]
        name = self._look_up(packet, sequence, "event_names", event.name_iid).name
        category = self._look_up(packet, sequence, "event_categories", event.category_iids[0]).name
        notes = {}
        self._annotations(packet, sequence, event.debug_annotations, notes)
        pid, tid, track = self.owner(uuid)
        made = Slice(name, category, packet.timestamp, pid, tid, track, notes, list(correlation.submitted),
                     list(correlation.waited))
        made.flows = tuple(event.flow_ids)
        if event.HasField("callstack_iid"):
            made.stack = self._stack(packet, sequence, event.callstack_iid)
            made.weight = event.callstack_weight if event.HasField("callstack_weight") else None
        if event.type == BEGIN:
            self._open[uuid].append(made)
            self.slices.append(made)
        else:
            assert event.type == INSTANT
            self.instants.append(made)

    def _annotations(self, packet, sequence, annotations, into):
        for note in annotations:
            key = note.name or self._look_up(packet, sequence, "debug_annotation_names", note.name_iid).name
            assert key not in into
            if note.WhichOneof("value") == "string_value_iid":
                into[key] = self._look_up(packet, sequence, "debug_annotation_string_values", note.string_value_iid).str.decode()
            else:
                into[key] = getattr(note, note.WhichOneof("value"))

    def _arguments(self, packet, sequence, arguments, into):
        for argument in arguments:
            name = argument.name or self._look_up(packet, sequence, "compute_arg_names", argument.name_iid).name
            assert name not in into, f"argument {name} twice"
            into[name] = getattr(argument, argument.WhichOneof("value"))

    def _gpu_render_stage_event(self, packet, sequence):
        event = packet.gpu_render_stage_event
        stage = self._look_up(packet, sequence, "gpu_specifications", event.stage_iid)
        queue = self._look_up(packet, sequence, "gpu_specifications", event.hw_queue_iid)
        context = self._look_up(packet, sequence, "graphics_contexts", event.context)
        assert event.hw_queue_iid != event.stage_iid and event.HasField("event_id")
        args, kernel = {}, None
        self._arguments(packet, sequence, event.launch.args, args)
        if event.HasField("kernel_iid"):
            kernel = self._look_up(packet, sequence, "compute_kernels", event.kernel_iid)
            self._arguments(packet, sequence, kernel.args, args)
            for dimension in ("grid_size", "workgroup_size"):
                size = getattr(event.launch, dimension)
                args[f"launch.{dimension}"] = (size.x, size.y, size.z)
        self.stages.append(Stage(event.event_id, packet.timestamp, event.duration, stage.name, stage.category,
                                 event.gpu_id, context.pid, queue.name, event.hw_queue_iid, args, kernel, tuple(event.event_wait_ids)))

    def _gpu_counter_event(self, packet, sequence):
        event = packet.gpu_counter_event
        interned = self._look_up(packet, sequence, "gpu_counter_descriptors", event.counter_descriptor_iid)
        names = {spec.counter_id: spec.name for spec in interned.counter_descriptor.specs}
        assert packet.HasField("timestamp")
        self.peaks |= {(interned.gpu_id, spec.name): getattr(spec, spec.WhichOneof("peak_value"))
                       for spec in interned.counter_descriptor.specs if spec.WhichOneof("peak_value")}
        for counter in event.counters:
            value = counter.double_value if counter.HasField("double_value") else counter.int_value
            self.counters[interned.gpu_id, names[counter.counter_id]].append((packet.timestamp, value))

    def kernels(self):
        return [stage for stage in self.stages if stage.category == COMPUTE]

    def launches(self):
        """event id -> the slice that submitted it."""
        return {event: call for call in self.slices for event in call.submitted}

    def threads(self):
        return {(t.thread.pid, t.thread.tid): t.thread.thread_name
                for t in self.tracks.values() if t.HasField("thread")}

    def processes(self):
        return {t.process.pid: t.process.process_name for t in self.tracks.values() if t.HasField("process")}
