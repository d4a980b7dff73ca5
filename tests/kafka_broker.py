"""librdkafka's mock of a cluster, in this process, which misbehaves as it is told, and a consumer."""
import ctypes
import json

PRODUCER, CONSUMER = 0, 1
PRODUCE = 0  # number of a request
NOT_LEADER, TIMED_OUT, TOO_LARGE = 6, 7, 10  # errors of brokers
BEGINNING = -2


class Message(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("topic", ctypes.c_void_p), ("partition", ctypes.c_int32), ("payload", ctypes.c_void_p), ("length", ctypes.c_size_t),
                ("key", ctypes.c_void_p), ("key_length", ctypes.c_size_t), ("offset", ctypes.c_int64), ("user", ctypes.c_void_p)]


def load():
    """The library, or None where it is not installed."""
    try:
        library = ctypes.CDLL("librdkafka.so.1")
    except OSError:
        return None
    for name in "conf_new", "new", "mock_cluster_new", "consumer_poll", "topic_partition_list_new", "topic_partition_list_add":
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class Broker:
    def __init__(self, brokers=1):
        self.library = load()
        self.clients = []
        self.cluster = ctypes.c_void_p(self.call("mock_cluster_new", self.client(PRODUCER), brokers))
        self.address = self.call("mock_cluster_bootstraps", self.cluster).decode()

    def call(self, name, *arguments):
        return getattr(self.library, f"rd_kafka_{name}")(*arguments)

    def client(self, kind, **properties):
        conf, why = ctypes.c_void_p(self.call("conf_new")), ctypes.create_string_buffer(256)
        for name, value in {"log_level": "0", **properties}.items():
            assert self.call("conf_set", conf, name.replace("_", ".").replace("log.level", "log_level").encode(), value.encode(), why, 256) == 0, why.value
        client = ctypes.c_void_p(self.call("new", kind, conf, why, 256))
        assert client.value, why.value
        self.clients.append(client)
        return client

    def fail(self, *errors):
        """The next requests to produce get these errors."""
        self.call("mock_push_request_errors", self.cluster, ctypes.c_int16(PRODUCE), ctypes.c_size_t(len(errors)), *errors)

    def set_down(self, is_down, broker=1):
        self.call("mock_broker_set_down" if is_down else "mock_broker_set_up", self.cluster, ctypes.c_int32(broker))

    def topic(self, name):
        assert self.call("mock_topic_create", self.cluster, name.encode(), 1, 1) == 0

    def messages(self, *topics):
        """[(topic, key, headers, rows)] of all partitions, which have one each, from the beginning to what is there now."""
        consumer = self.client(CONSUMER, bootstrap_servers=self.address, group_id="test", enable_partition_eof="true")
        places = ctypes.c_void_p(self.call("topic_partition_list_new", len(topics)))
        for topic in topics:
            self.call("topic_partition_list_add", places, topic.encode(), 0)
            self.call("topic_partition_list_set_offset", places, topic.encode(), 0, ctypes.c_int64(BEGINNING))
        self.call("assign", consumer, places)
        found, ends = [], 0
        self.library.rd_kafka_topic_name.restype = ctypes.c_char_p
        while ends < len(topics):
            at = self.call("consumer_poll", consumer, 1000)
            if not at:
                continue
            message = Message.from_address(at)
            if message.err == 0:
                rows = [json.loads(line) for line in ctypes.string_at(message.payload, message.length).splitlines()]
                topic = self.call("topic_name", ctypes.c_void_p(message.topic)).decode()
                found.append((topic, ctypes.string_at(message.key, message.key_length).decode(), self.headers(at), rows))
            ends += message.err == -191  # the end of a partition
            self.call("message_destroy", ctypes.c_void_p(at))
        self.call("topic_partition_list_destroy", places)
        self.clients.remove(consumer)
        self.call("consumer_close", consumer)
        self.call("destroy", consumer)
        return found

    def headers(self, message):
        found, value, size, result = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), {}
        self.call("message_headers", ctypes.c_void_p(message), ctypes.byref(found))
        for name in "pitot-object", "pitot-part":
            if self.call("header_get_last", found, name.encode(), ctypes.byref(value), ctypes.byref(size)) == 0:
                result[name] = ctypes.string_at(value, size.value).decode()
        return result

    def end(self):
        self.call("mock_cluster_destroy", self.cluster)
        for client in self.clients:
            self.call("destroy", client)
