"""A broker as a whole: put together, started, stopped, and what it does when things fail."""

from __future__ import annotations

import errno
import gc
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.metadata.broker_lifecycle import Lifecycle, State
from barnabas.broker.network.ports import CannotListenError
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.server import Broker
from barnabas.broker.sliced_work import SlicedWork
from barnabas.cli.server.dev import format_data, settings
from barnabas.config.node.node import read_node
from barnabas.metadata.timeline import Kind as TimelineKind
from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.primitives import record_view
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.watched_disk import WatchedDisk
from barnabas.runtime.loop.loop_guard import LoopGuard
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.random import SystemRandom
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.failure import explain
from barnabas.storage.refused import StorageRefused
from tests.broker.worlds.front_world import Front, Wire, serve_until

CYCLES = 100


class Loop:
    """One reactor that carries whatever brokers a test starts on it."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        # No sync on the loop and no long tick, from the end of a start to the end of the stop (F9).
        self.guard = LoopGuard()
        self.reactor.on_tick = self.guard.ticked
        self.threads = ThreadWorkers()
        self.workers = LoopWorkers(self.threads, self.reactor.post)
        self.network = TcpNetwork(self.reactor, workers=self.workers)
        self.sockets: list[Any] = []

    def broker(self, folder: Path, disk: Disk | None = None, **overrides: str) -> Broker:
        self.guard.is_armed = False
        given = {
            **settings(0, str(folder)),
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        node = read_node(given)
        format_data(node, str(folder))
        return Broker(
            node,
            disk=WatchedDisk(FolderDisk() if disk is None else disk, self.guard.watch),
            clock=SystemClock(),
            random=SystemRandom(),
            loop=self.reactor,
            network=self.network,
            workers=self.workers,
            host_name=lambda: "here",
        )

    def finish(self, *promises: Promise[Any]) -> None:
        errors: list[BaseException] = []
        done: list[object] = []
        for promise in promises:
            promise.then(done.append, errors.append)
        self.until(lambda: len(done) + len(errors) == len(promises))
        if errors:
            raise errors[0]
        self.guard.is_armed = True

    def until(self, condition: Callable[[], bool]) -> None:
        serve_until(self.reactor, condition)

    def serve_for_a_while(self, ticks: int = 5) -> None:
        for _ in range(ticks):
            self.reactor.serve(1_000_000)

    def connect(self, broker: Broker) -> Wire:
        import socket

        host, port = broker.listeners["PLAINTEXT"].address
        sock = socket.create_connection((host, port))
        sock.setblocking(False)
        self.sockets.append(sock)
        return Wire(self, sock)  # type: ignore[arg-type]  # it only asks to be served

    def close(self) -> None:
        for one in self.sockets:
            one.close()
        self.network.close()
        self.threads.close()
        self.reactor.close()
        self.guard.check()


@pytest.fixture
def loop() -> Any:
    loop = Loop()
    yield loop
    loop.close()


def creation(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic])


def create(wire: Wire, name: str) -> Any:
    return wire.ask(creation(name), 7).topics[0]


def produce(wire: Wire, topic: str, value: bytes) -> Any:
    batch = build([Record(0, 1_700_000_000_000, b"k", value, ())])
    data = ProduceRequest.TopicProduceData(
        name=topic, partition_data=[ProduceRequest.PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
    return wire.ask(request, 11).responses[0].partition_responses[0]


def fetch(wire: Wire, topic: str) -> bytes:
    place = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=100, min_bytes=1, topics=[FetchRequest.Topic(topic=topic, partitions=[place])]
    )
    return bytes(record_view(wire.ask(request, 11).responses[0].partitions[0].records))


def test_two_brokers_live_on_one_reactor(loop: Loop, tmp_path: Path) -> None:
    one, other = loop.broker(tmp_path / "one"), loop.broker(tmp_path / "other", node_id="1")
    loop.finish(one.start(), other.start())
    assert one.cluster_id != other.cluster_id
    wires = [loop.connect(one), loop.connect(other)]
    for number, wire in enumerate(wires):
        assert create(wire, "same-name").error_code == 0
        assert produce(wire, "same-name", b"of broker %d" % number).error_code == 0
    for number, wire in enumerate(wires):
        assert b"of broker %d" % number in fetch(wire, "same-name")
        assert b"of broker %d" % (1 - number) not in fetch(wire, "same-name")
    loop.finish(one.stop())
    # The other one goes on.
    assert produce(wires[1], "same-name", b"more").error_code == 0
    loop.finish(other.stop())


def test_a_restart_finds_everything_again(loop: Loop, tmp_path: Path) -> None:
    broker = loop.broker(tmp_path)
    loop.finish(broker.start())
    wire = loop.connect(broker)
    topic_id = create(wire, "kept").topic_id
    produce(wire, "kept", b"before")
    first_epoch = broker.broker_epoch
    loop.finish(broker.stop())
    broker = loop.broker(tmp_path)
    loop.finish(broker.start())
    assert broker.broker_epoch > first_epoch
    wire = loop.connect(broker)
    assert produce(wire, "kept", b"after").base_offset == 1
    data = fetch(wire, "kept")
    assert b"before" in data
    assert b"after" in data
    topics = [MetadataRequest.Topic(name="kept")]
    seen = wire.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12).topics[0]
    assert seen.topic_id == topic_id
    loop.finish(broker.stop())


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """On a file system in memory where there is one: its syncs cost nothing."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def test_a_hundred_starts_and_stops_leave_nothing_behind(quick_folder: Path) -> None:
    """No descriptor, no thread, no memory to speak of."""

    def cycle() -> None:
        loop = Loop()
        broker = loop.broker(quick_folder)
        loop.finish(broker.start())
        assert loop.connect(broker).ask(ApiVersionsRequest(), 0).error_code == 0
        loop.finish(broker.stop())
        loop.close()

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    for _ in range(5):
        cycle()
    gc.collect()
    before = descriptors(), threading.active_count(), len(gc.get_objects())
    for _ in range(CYCLES):
        cycle()
    gc.collect()
    after = descriptors(), threading.active_count(), len(gc.get_objects())
    assert after[:2] == before[:2]
    # A broker has some thousands of objects; even one of a hundred left behind would show.
    assert after[2] - before[2] < 1_000


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as first:
        port = first.broker.listeners["PLAINTEXT"].address.port
        second = Front(monkeypatch, listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0")
        with pytest.raises(CannotListenError, match=rf"PLAINTEXT://127\.0\.0\.1:{port}.*stop it or change"):
            second.broker.start()
        second.close()


def test_a_folder_that_is_not_formatted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    front = Front(monkeypatch)
    front.disk.remove("/data/meta.properties")
    with pytest.raises(StorageRefused, match="not formatted"):
        front.broker.start()
    front.close()


def test_what_is_advertised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port that the system chose, and this machine's name where none is given."""
    with Front(
        monkeypatch,
        listeners="PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        advertised_listeners="PLAINTEXT://:0,OUTSIDE://outside.example:443",
    ) as front:
        (broker,) = front.broker.image.brokers.values()
        port = front.broker.listeners["PLAINTEXT"].address.port
        assert [(end.name, end.host, end.port) for end in broker.endpoints] == [
            ("PLAINTEXT", "broker.example", port),
            ("OUTSIDE", "outside.example", 443),
        ]
        # Each listener advertises itself.
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        answer = front.ask(request, 9, listener="OUTSIDE")
        assert [(one.host, one.port) for one in answer.brokers] == [("outside.example", 443)]


def test_gauges_count_what_the_broker_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        wire = front.connect()
        for name in ("one", "two", "three"):
            create(wire, name)
        front.until(lambda: len(front.broker.replicas.partitions) == 3)
        lines = front.broker.metrics.text().splitlines()
        for line in (
            "barnabas_connections 1",
            "barnabas_topics 3",
            "barnabas_partitions 3",
            "barnabas_failed_partitions 0",
            "barnabas_offline_log_dirs 0",
            "barnabas_metadata_apply_errors 0",
            f"barnabas_metadata_offset {front.broker.image.offset}",
        ):
            assert line in lines


def test_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with Front(monkeypatch, listeners="PLAINTEXT://[::1]:0,CONTROLLER://127.0.0.1:0") as front:
        assert front.ask(ApiVersionsRequest(), 0).error_code == 0
        assert front.broker.image.brokers[1].endpoints[0].host == "::1"


def test_settings_of_the_cluster_take_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        wire = front.connect()
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        change = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=4,
            resource_name="",
            configs=[
                IncrementalAlterConfigsRequest.AlterableConfig(
                    name="max.connections.per.ip", config_operation=0, value="1"
                )
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[change], validate_only=False)
        assert wire.ask(request, 1).responses[0].error_code == 0
        assert front.broker.settings["max.connections.per.ip"] == 1
        assert front.connect().frame() == b""
        resource = DescribeConfigsRequest.Resource(
            resource_type=4, resource_name="1", configuration_keys=["max.connections.per.ip"]
        )
        (row,) = wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
        assert (row.value, row.config_source) == ("1", 3)


def test_a_failed_folder_is_told_to_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """M-E5"""
    with Front(monkeypatch, log_dirs="/data,/more") as front:
        fatal: list[BaseException] = []
        front.broker.on_fatal = fatal.append
        manager = front.broker.replicas.storage.manager
        manager.fail("/more", OSError(errno.ENOSPC, "full"))
        front.until(lambda: any(getattr(one, "offline_log_dirs", None) for one, _, _ in front.metadata.asked))
        assert not fatal
        assert "barnabas_offline_log_dirs 1" in front.broker.metrics.text()
        manager.fail("/data", OSError(errno.EIO, "broken"))
        assert fatal


def test_a_broker_whose_metadata_fails_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Front(monkeypatch) as front, caplog.at_level(logging.CRITICAL):
        front.broker._metadata_failed(OSError("the disk of the metadata log is gone"))
        assert "the disk of the metadata log is gone" in caplog.text
    with Front(monkeypatch) as front:
        fatal: list[BaseException] = []
        front.broker.on_fatal = fatal.append
        front.broker._metadata_failed(OSError(errno.ENOSPC, "No space left on device"))
        front.broker._metadata_failed(OSError(errno.EIO, "one more"))
        (reason,) = fatal
        assert isinstance(reason, OSError) and reason.filename == "/data"


class FullDisk:
    """Reports no space for whatever is written below a path, once told so."""

    def __init__(self) -> None:
        self.disk = WatchedDisk(FolderDisk(), self._watch)
        self.full_below: str | None = None
        self.code = errno.ENOSPC
        self.kinds = {Kind.WRITE}

    def _watch(self, kind: Kind, path: str) -> None:
        if self.full_below is not None and self.full_below in path and kind in self.kinds:
            raise OSError(self.code, os.strerror(self.code), path)


@pytest.mark.parametrize("is_stopping", [False, True])
@pytest.mark.parametrize(("kind", "code"), [(Kind.WRITE, errno.ENOSPC), (Kind.SYNC, errno.EIO)])
def test_a_broker_whose_metadata_log_fails_waits_for_no_controller(
    loop: Loop,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_stopping: bool,
    kind: Kind,
    code: int,
) -> None:
    """F4: it stayed for 300 s and asked the controller, which had just died, to let it go."""
    monkeypatch.setattr("barnabas.broker.server.CONTROLLED_SHUTDOWN_MS", 10**9)
    full = FullDisk()
    full.kinds, full.code = {kind}, code
    broker = loop.broker(tmp_path, full.disk)
    fatal: list[BaseException] = []
    broker.on_fatal = fatal.append
    loop.finish(broker.start())
    full.full_below = "__cluster_metadata"
    if is_stopping:
        # Its last heartbeats are what the disk does not take.
        loop.finish(broker.stop())
        assert broker.lifecycle.state is State.SHUTTING_DOWN
        return
    wire = loop.connect(broker)
    wire.send(write_request(creation("t"), 7, 1, "test"))
    loop.until(lambda: bool(fatal))
    loop.finish(broker.stop())
    (reason,) = fatal
    assert isinstance(reason, OSError) and reason.errno == code
    assert "this node cannot continue" in caplog.text
    assert explain(reason) in caplog.text


def test_a_node_whose_data_directory_is_full_stays_and_says_so(loop: Loop, tmp_path: Path) -> None:
    """Until there is room: metrics, the timeline and DescribeLogDirs show it."""
    full = FullDisk()
    broker = loop.broker(tmp_path, full.disk)
    loop.finish(broker.start())
    wire = loop.connect(broker)
    assert create(wire, "t").error_code == 0
    assert produce(wire, "t", b"u").error_code == 0
    full.full_below = "/t-0/"
    assert produce(wire, "t", b"v").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "barnabas_full_log_dirs 1" in broker.metrics.text()
    (result,) = wire.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert (result.error_code, result.usable_bytes) == (0, 0)
    assert result.total_bytes > 0
    full.full_below = None
    loop.until(lambda: not broker.replicas.storage.manager.full)
    assert produce(wire, "t", b"v").error_code == 0
    (result,) = wire.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert result.usable_bytes > 0
    events = [event for event in broker.metadata.timeline.events if event.kind.startswith("log-dir")]
    assert [event.kind for event in events] == [TimelineKind.LOG_DIR_FULL, TimelineKind.LOG_DIR_HAS_ROOM]
    assert "no space is left on the device" in events[0].cause
    assert events[0].detail == result.log_dir
    loop.finish(broker.stop())


def test_a_metadata_log_that_is_lost_with_its_directory_says_why_the_node_stops(
    loop: Loop, tmp_path: Path
) -> None:
    """F4: the last line said that the folder of the metadata log had failed, and no more."""
    full = FullDisk()
    full.code = errno.EIO
    broker = loop.broker(tmp_path, full.disk)
    fatal: list[BaseException] = []
    broker.on_fatal = fatal.append
    loop.finish(broker.start())
    wire = loop.connect(broker)
    assert create(wire, "t").error_code == 0
    full.full_below = "/t-0/"
    assert produce(wire, "t", b"v").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    loop.until(lambda: bool(fatal))
    assert "the device reports an input/output error; check it and restart" in str(fatal[0])
    loop.finish(broker.stop())


def test_a_fault_while_acting_on_metadata_does_not_stop_the_metadata(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(delta: object) -> None:
        raise ZeroDivisionError("oops")

    with Front(monkeypatch) as front:
        with monkeypatch.context() as patch:
            patch.setattr(front.broker.replicas, "apply", fail)
            assert create(front.connect(), "a").error_code == 0
        assert "the publisher 'replicas' failed" in caplog.text
        assert front.broker.metadata.publish_errors == 1
        assert create(front.connect(), "b").error_code == 0
        assert ("b", 0) in front.broker.replicas.partitions


def test_a_stop_before_the_start_has_ended(loop: Loop, tmp_path: Path) -> None:
    for patience in range(0, 12, 3):
        broker = loop.broker(tmp_path)
        broker.start()
        loop.serve_for_a_while(patience)
        loop.finish(broker.stop())
    broker = loop.broker(tmp_path)
    loop.finish(broker.start())
    assert broker.lifecycle.state is State.RUNNING
    loop.finish(broker.stop())


STARTUP_STEPS = {
    "the metadata is started": (Broker, "take_settings"),
    "the broker registers": (Lifecycle, "start"),
    "the logs are opened": (ReplicaManager, "start"),
    "the logs are open": (Lifecycle, "ready_to_unfence"),
    "clients are accepted": (Broker, "_accept_clients"),
}


@pytest.mark.parametrize("step", STARTUP_STEPS)
def test_a_fault_on_the_way_up_fails_the_start(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    broker = loop.broker(tmp_path)
    monkeypatch.setattr(*STARTUP_STEPS[step], fail)
    with pytest.raises(ZeroDivisionError, match="oops"):
        loop.finish(broker.start())
    monkeypatch.undo()
    loop.finish(broker.stop())


def test_clients_come_when_every_partition_has_its_leader(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leaders that were elected for a node that comes back are taken up in slices."""
    broker = loop.broker(tmp_path)
    loop.finish(broker.start())
    wire = loop.connect(broker)
    for number in range(5):
        assert create(wire, f"t{number}").error_code == 0
    loop.finish(broker.stop())
    monkeypatch.setattr(
        "barnabas.broker.replicas.transitions.SlicedWork",
        partial(SlicedWork, slice_ns=20_000, pause_ns=5_000_000),
    )
    broker = loop.broker(tmp_path)
    start = broker.start()
    loop.until(lambda: start.done)
    assert all(one.is_leader for one in broker.replicas.partitions.values())
    assert len(broker.replicas.partitions) == 5
    loop.finish(start)
    loop.finish(broker.stop())


def test_a_controller_alone(loop: Loop, tmp_path: Path) -> None:
    broker = loop.broker(
        tmp_path,
        process_roles="controller",
        listeners="CONTROLLER://127.0.0.1:0",
        advertised_listeners="CONTROLLER://127.0.0.1:0",
    )
    loop.finish(broker.start())
    assert list(broker.listeners) == ["CONTROLLER"]
    assert broker.controller_id == 1
    loop.finish(broker.stop())
