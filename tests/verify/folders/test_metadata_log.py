"""Our metadata folder in the hands of Apache Kafka, and its folder in ours."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.batch.view import batches
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.config.node.node import Node, read_node
from barnabas.config.values.properties import loads
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.json_form import to_json
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.random import SystemRandom, random_uuid
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.testing.simulation.metadata_node import (
    configuration,
    creation,
    format_folder,
    heartbeat,
    registration,
)
from tests.controller.request_table import CASES, Case, response_form, without_ids
from tests.frames import FrameReader
from tests.verify.nodes.apache_broker import ApacheBroker
from tools.ports import free_oracle_base

# Apache Kafka's node may register with its own controller before that has taken office; it tries again.
OWN_RACE = "apiKey=CONTROLLER_REGISTRATION"
KAFKA = "4.1.0"
METADATA = "__cluster_metadata-0"
WAIT_S = 20
SHELL_TRIES = 12
M = TypeVar("M", bound=Message)
T = TypeVar("T")


class OurMetadata:
    """KraftMetadata on real files, driven by a real loop, with a broker that registers."""

    def __init__(self, node: Node) -> None:
        self._reactor = Reactor()
        self._threads = ThreadWorkers()
        disk = FolderDisk()
        properties = read_meta_properties(disk, node.metadata_log_dir)
        assert properties is not None
        assert properties.directory_id is not None
        self._directory_id = properties.directory_id
        self.metadata = KraftMetadata(
            node,
            disk=disk,
            clock=self._reactor.clock,
            random=SystemRandom(),
            timers=self._reactor.timers,
            workers=LoopWorkers(self._threads, self._reactor.post),
            network=TcpNetwork(self._reactor),
            on_failure=self._fail,
        )
        self.broker_epoch = -1

    def _fail(self, error: BaseException) -> None:
        raise error

    def wait(self, promise: Promise[T]) -> T:
        heard: list[T] = []
        failed: list[BaseException] = []
        promise.then(heard.append, failed.append)
        deadline = time.monotonic() + WAIT_S
        while not promise.done:
            assert time.monotonic() < deadline, "no answer"
            self._reactor.serve(10_000_000)
        if failed:
            raise failed[0]
        return heard[0]

    def ask(self, request: Message, reply: type[M]) -> M:
        version = request.schema.versions.highest
        answer = self.wait(self.metadata.send_request(request, version, "User:ANONYMOUS"))
        assert isinstance(answer, reply)
        return answer

    def start(self) -> Image:
        """Lead, register, be unfenced; what was there before."""
        self.wait(self.metadata.start())
        found = self.metadata.image
        request = registration()
        request.cluster_id = self.metadata.cluster_id
        request.incarnation_id = random_uuid(SystemRandom())
        request.log_dirs = [self._directory_id]
        self.broker_epoch = self.ask(request, BrokerRegistrationResponse).broker_epoch
        self.beat()
        return found

    def beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        offset = self.metadata.image.offset
        request = heartbeat(self.broker_epoch, offset, want_shut_down=want_shut_down)
        return self.ask(request, BrokerHeartbeatResponse)

    def alter(self, topic: str, option: str, value: str) -> None:
        change = IncrementalAlterConfigsRequest.AlterableConfig(name=option, config_operation=0, value=value)
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=ConfigResource.TOPIC, resource_name=topic, configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = self.ask(request, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer

    def stop(self) -> None:
        """In order: the broker gives up what it leads, and the log is closed."""
        while not self.beat(want_shut_down=True).should_shut_down:
            pass
        self.wait(self.metadata.stop())
        self.close()

    def close(self) -> None:
        self._threads.close()
        self._reactor.close()


@contextmanager
def our_metadata(node: Node) -> Iterator[tuple[OurMetadata, Image]]:
    ours = OurMetadata(node)
    found = ours.start()
    yield ours, found
    ours.stop()


def _written_by_us(folder: Path) -> Node:
    """A life of our own: topics, options, snapshots; stopped cleanly."""
    options = {
        "metadata.log.max.record.bytes.between.snapshots": 3_000,
        "metadata.max.idle.interval.ms": 20,
    }
    node = configuration(options, log_dir=str(folder))
    format_folder(FolderDisk(), str(folder))
    with our_metadata(node) as (ours, _):
        for number in range(20):
            configs = {"retention.ms": str(number), "min.insync.replicas": "1"}
            ours.ask(creation(f"t{number}", partitions=3, configs=configs), CreateTopicsResponse)
        ours.alter("t1", "cleanup.policy", "compact")
    return node


def _payloads(dump: str) -> list[Any]:
    return [json.loads(line.split("payload: ", 1)[1]) for line in dump.splitlines() if "payload: " in line]


def _our_payloads(path: Path) -> list[Any]:
    found = []
    for batch in batches(path.read_bytes()):
        for record in batch.records() if not batch.is_control else ():
            message, version = read_metadata_record(record.value or b"")
            name = re.sub(r"(?<!^)([A-Z])", r"_\1", message.schema.name).upper()
            found.append({"type": name, "version": version, "data": to_json(message, version)})
    return found


def test_apache_kafkas_dump_reads_our_log_and_snapshots(
    kafka_tool: Callable[..., Any], tmp_path: Path
) -> None:
    # M-E1
    _written_by_us(tmp_path / "data")
    folder = tmp_path / "data" / METADATA
    files = [*folder.glob("*.log"), *folder.glob("*.checkpoint")]
    assert len(files) > 2
    for path in files:
        dumped = kafka_tool(KAFKA, "dump-log", "--cluster-metadata-decoder", "--files", str(path))
        assert dumped.returncode == 0, dumped.stderr
        assert "isvalid: false" not in dumped.stdout
        assert _payloads(dumped.stdout) == _our_payloads(path)
        if path.suffix == ".checkpoint":
            assert dumped.stdout.count("SnapshotHeader") == dumped.stdout.count("SnapshotFooter") == 1


def test_apache_kafkas_shell_reads_our_log_and_snapshots(
    kafka_tool: Callable[..., Any], tmp_path: Path
) -> None:
    # M-E1
    _written_by_us(tmp_path / "data")
    folder = tmp_path / "data" / METADATA
    snapshot = max(folder.glob("*.checkpoint"))
    for path in (folder / "00000000000000000000.log", snapshot):
        for command, expected in [
            (("ls", "/image/topics/byName"), "t1\n"),
            (("cat", "/image/features/metadataVersion"), "4.1-IV1"),
            (("cat", "/image/topics/byName/t1/0"), "replicas=[1]"),
            (("cat", "/image/cluster/brokers/1"), "BrokerRegistration(id=1"),
        ]:
            # The shell answers with what it has read by then, of a log often not all.
            for _ in range(SHELL_TRIES):
                shown = kafka_tool(KAFKA, "metadata-shell", "--snapshot", str(path), *command).stdout
                if expected in shown:
                    break
            assert expected in shown, (path.name, command)


@contextmanager
def _apache_node(oracle: Callable[..., Any], home: Path, release: str) -> Iterator[ApacheBroker]:
    """A new cluster of one node, formatted with this release and running."""
    broker = ApacheBroker(oracle, KAFKA, home, free_oracle_base())
    try:
        done = oracle(
            KAFKA,
            "up",
            "--dir",
            str(home),
            "--mode",
            "kraft",
            "--port",
            str(broker.port),
            "--release",
            release,
        )
        assert done.returncode == 0, done.stderr
        yield broker
    finally:
        oracle(KAFKA, "down", "--dir", str(home), "--kill")


def _ask(connection: socket.socket, case: Case) -> Message:
    connection.sendall(write_request(case.request, case.version, 1, "verify"))
    reader = FrameReader()
    while not (frames := reader.feed(connection.recv(65_536))):
        pass
    key = case.request.schema.key
    assert key is not None
    return read_response(frames[0], api(key), case.version)[1]


def _configuration_of(broker: ApacheBroker) -> Node:
    properties = broker.data.parent / "server.properties"
    return read_node(loads(properties.read_bytes()))


def _topics(kafka_tool: Callable[..., Any], broker: ApacheBroker) -> dict[str, tuple[str, int, set[str]]]:
    """Name -> id, partitions and options, as Apache Kafka reports them."""
    shown = kafka_tool(KAFKA, "topics", "--bootstrap-server", broker.bootstrap, "--describe").stdout
    lines = re.findall(r"^Topic: (\S+)\tTopicId: (\S+)\tPartitionCount: (\d+)\t.*Configs: (\S*)", shown, re.M)
    assert lines, shown
    return {name: (topic_id, int(count), set(configs.split(","))) for name, topic_id, count, configs in lines}


def _topics_of(image: Image) -> dict[str, tuple[str, int, set[str]]]:
    wide = image.configs_of(ConfigResource.BROKER, "")
    found = {}
    for name, topic_id in image.topic_ids.items():
        own = {**wide, **image.configs_of(ConfigResource.TOPIC, name)}
        options = {f"{option}={value}" for option, value in own.items()}
        found[name] = (str(topic_id), len(image.topics[topic_id].partitions), options)
    return found


@pytest.mark.parametrize("release", ["4.1-IV1", "3.9-IV0"])
def test_a_folder_goes_back_and_forth(
    oracle: Callable[..., Any], kafka_tool: Callable[..., Any], tmp_path: Path, release: str
) -> None:
    """Three times: the same topics, ids, options, features and a new epoch each time."""
    # M-E2
    with _apache_node(oracle, tmp_path / "cluster", release) as broker:
        node = _configuration_of(broker)
        epochs = []
        for turn in range(3):
            broker.create({f"theirs-{turn}": {"retention.ms": str(1000 + turn), "segment.ms": "60000"}})
            theirs = _topics(kafka_tool, broker)
            broker.stop()
            with our_metadata(node) as (ours, found):
                assert _topics_of(found) == theirs
                ours.ask(
                    creation(f"ours-{turn}", partitions=2, configs={"cleanup.policy": "compact"}),
                    CreateTopicsResponse,
                )
                ours.alter(f"theirs-{turn}", "retention.ms", "77")
                expected = _topics_of(ours.metadata.image)
                epochs.append(ours.metadata.image.epoch)
            broker.start()
            assert _topics(kafka_tool, broker) == expected
        assert epochs == [2, 4, 6]
        broken = [
            line
            for line in broker.server_log.read_text("utf-8").splitlines()
            if re.search(r" (ERROR|FATAL) |[Cc]orrupt", line) and OWN_RACE not in line
        ]
        assert not broken, broken[:5]


def test_the_recorded_answers_are_still_apache_kafkas(
    oracle: Callable[..., Any], kafka_tool: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    """tests/data/controller holds what Apache Kafka answers and writes for the table of requests."""
    with _apache_node(oracle, tmp_path / "cluster", "4.1-IV1") as broker:
        with socket.create_connection(("localhost", broker.port + 1), timeout=WAIT_S) as connection:
            answers = [response_form(case, _ask(connection, case)) for case in CASES]
        assert answers == json.loads((data / "controller" / "answers.json").read_text("utf-8"))
        log = broker.data / METADATA / "00000000000000000000.log"
        dumped = kafka_tool(KAFKA, "dump-log", "--cluster-metadata-decoder", "--files", str(log)).stdout
        own = {"NO_OP_RECORD", "REGISTER_CONTROLLER_RECORD", "REGISTER_BROKER_RECORD"}
        written = [without_ids(record) for record in _payloads(dumped) if record["type"] not in own]
        assert written == json.loads((data / "controller" / "records.json").read_text("utf-8"))
