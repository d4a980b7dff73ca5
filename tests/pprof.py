"""Reads a profile of pprof with the official library: the fields that Pitot writes, declared here."""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def profile_class():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="pitot_profile.proto", package="pitot.test", syntax="proto3")
    for message, fields in {
        "Profile": "1 ValueType* sample_type, 2 Sample* sample, 3 Mapping* mapping, 4 Location* location, "
                   "5 Function* function, 6 string* string_table, 9 int64 time_nanos, 10 int64 duration_nanos, "
                   "13 int64* comment, 14 int64 default_sample_type",
        "ValueType": "1 int64 type, 2 int64 unit",
        "Sample": "1 uint64* location_id, 2 int64* value, 3 Label* label",
        "Label": "1 int64 key, 2 int64 str",
        "Mapping": "1 uint64 id, 2 uint64 memory_start, 3 uint64 memory_limit, 4 uint64 file_offset, 5 int64 filename, "
                   "6 int64 build_id, 7 bool has_functions, 8 bool has_filenames, 9 bool has_line_numbers, "
                   "10 bool has_inline_frames",
        "Location": "1 uint64 id, 2 uint64 mapping_id, 3 uint64 address, 4 Line* line",
        "Line": "1 uint64 function_id, 2 int64 line",
        "Function": "1 uint64 id, 2 int64 name, 3 int64 system_name, 4 int64 filename",
    }.items():
        declared = file.message_type.add(name=message)
        for text in fields.split(", "):
            number, kind, name = text.split()
            label = kinds.LABEL_REPEATED if kind.endswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.rstrip("*")
            if kind[0].isupper():
                declared.field.add(name=name, number=int(number), label=label, type=kinds.TYPE_MESSAGE,
                                   type_name=f".pitot.test.{kind}")
            else:
                declared.field.add(name=name, number=int(number), label=label,
                                   type=getattr(kinds, f"TYPE_{kind.upper()}"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pitot.test.Profile"))


Profile = profile_class()


class Pprof:
    """A profile whose rules hold: see __init__."""

    def __init__(self, data):
        self.profile = p = Profile.FromString(data)
        assert p.string_table[0] == "" and len(set(p.string_table)) == len(p.string_table)
        self.types = [(self.text(t.type), self.text(t.unit)) for t in p.sample_type]
        self.locations = self.by_id(p.location)
        self.functions = self.by_id(p.function)
        self.mappings = self.by_id(p.mapping)
        assert self.text(p.default_sample_type) in [name for name, _ in self.types]
        for location in p.location:
            assert location.line, "a location without a function"
            assert (location.mapping_id == 0) or location.mapping_id in self.mappings
            assert all(line.function_id in self.functions for line in location.line)
        for function in p.function:
            assert self.text(function.name)
        for mapping in p.mapping:
            assert mapping.memory_start < mapping.memory_limit and self.text(mapping.filename)
        for sample in p.sample:
            assert len(sample.value) == len(self.types) and all(i in self.locations for i in sample.location_id)
            assert any(sample.value) and sample.location_id

    @staticmethod
    def by_id(items):
        result = {item.id: item for item in items}
        assert len(result) == len(items) and 0 not in result
        return result

    def text(self, index):
        return self.profile.string_table[index]

    def labels(self, sample):
        return [(self.text(label.key), self.text(label.str)) for label in sample.label]

    def stack(self, sample):
        """Functions from the outermost, inlined ones too."""
        names = [self.text(self.functions[line.function_id].name)
                 for i in sample.location_id for line in self.locations[i].line]
        return names[::-1]

    def sum(self, name):
        index = [n for n, _ in self.types].index(name)
        return sum(sample.value[index] for sample in self.profile.sample)
