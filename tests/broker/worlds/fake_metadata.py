"""A stand-in for the metadata side: a controller of few words, in memory, that answers at once.

What it decides is right for one broker and nothing more; the real one has its own tests.  It takes the place
of `KraftMetadata` in tests of the front, which must not wait for a log or a quorum.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import UNASSIGNED_DIR, ZERO_UUID, Uuid
from barnabas.base.principals import LOCALHOST
from barnabas.broker.log_directories import LogDirectories, open_folders
from barnabas.broker.metadata.cluster_view import shown_controller
from barnabas.broker.metadata.supported_features import supported_features
from barnabas.broker.replicas.transitions import DerivedTransitions
from barnabas.broker.timeline import Timeline
from barnabas.config.node.node import Node
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import SeededRandom

METADATA_LEVEL = 27


class _NoWorkers:
    def submit(self, work: object, done: object, /) -> None:
        raise AssertionError("there is nothing to write")


class FakeMetadata:
    """Looks like KraftMetadata from the broker's side."""

    def __init__(self, node: Node | None = None, *, disk: Disk | None = None, **others: object) -> None:
        self.node = node
        self._disk = disk
        self.kraft_version = 0
        self.leader_id = 1
        self.is_active = True
        self.controller_endpoints: object = ()
        self.asked: list[tuple[Message, int, str]] = []
        self.forwarded: list[bool] = []
        # What a test wants answered instead, by type of the request.
        self.answers: dict[type[Message], Promise[Message] | BaseException] = {}
        self._loader = MetadataLoader()
        self._next_id = 1
        self.is_started = self.is_stopped = False
        self._random = SeededRandom(1)
        # Never opened: it writes nothing.
        self.timeline = Timeline(1, MemoryDisk(), SystemClock(), _NoWorkers())

    log_dir = None
    auto_created = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    serves_before_registration = False

    def open_folders(self) -> Promise[LogDirectories]:
        assert self.node is not None and self._disk is not None
        return Promise.of(open_folders(self._disk, self.node, SeededRandom(1), SystemClock()))

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        assert self.node is not None
        return supported_features(self.node.settings)

    def finalized_features(self) -> tuple[Mapping[str, int], int]:
        image = self.image
        levels = {"metadata.version": image.metadata_version, "kraft.version": self.kraft_version}
        return {**image.features, **levels}, image.offset

    def controller_for_clients(self) -> int:
        return shown_controller(self.image, self._random)

    def transition_policy(self) -> DerivedTransitions:
        assert self.node is not None
        return DerivedTransitions(self.node.node_id)

    def send_for_client(
        self, request: Message, version: int, principal: str, host: str, client_id: str
    ) -> Promise[Message]:
        return self.send_request(request, version, principal, host=host, client_id=client_id)

    def start(self) -> Promise[None]:
        self.is_started = True
        self.commit(records.FeatureLevelRecord(name="metadata.version", feature_level=METADATA_LEVEL))
        return Promise.of(None)

    def stop(self) -> Promise[None]:
        self.is_stopped = True
        return Promise.of(None)

    @property
    def image(self) -> Image:
        return self._loader.image

    @property
    def publish_errors(self) -> int:
        return self._loader.publish_errors

    def install(self, publisher: MetadataPublisher) -> None:
        self._loader.install(publisher)

    def commit(self, *decided: Message) -> None:
        self._loader.load([MetadataBatch(self.image.offset + len(decided), 1, 0, decided, 0)])
        self._loader.publish()

    def ask_quorum(self, request: Message, version: int) -> Promise[Message]:
        return self.send_request(request, version, "")

    def send_request(
        self,
        request: Message,
        version: int,
        principal: str,
        *,
        host: str = LOCALHOST,
        client_id: str = "",
        is_forwarded: bool = False,
    ) -> Promise[Message]:
        self.asked.append((request, version, principal))
        self.forwarded.append(is_forwarded)
        wanted = self.answers.get(type(request))
        if isinstance(wanted, Promise):
            return wanted
        promise: Promise[Message] = Promise()
        try:
            if wanted is not None:
                raise wanted
            promise.set(self._decide(request))
        except Exception as error:
            promise.fail(error)
        return promise

    def _decide(self, request: Message) -> Message:
        match request:
            case BrokerRegistrationRequest():
                return self._register(request)
            case BrokerHeartbeatRequest():
                return self._heartbeat(request)
            case CreateTopicsRequest():
                return CreateTopicsResponse(
                    throttle_time_ms=0, topics=[self._create(topic) for topic in request.topics]
                )
            case DeleteTopicsRequest():
                return DeleteTopicsResponse(
                    throttle_time_ms=0, responses=[self._delete(one.topic_id) for one in request.topics]
                )
            case IncrementalAlterConfigsRequest():
                return self._alter(request)
            case DescribeQuorumRequest():
                return DescribeQuorumResponse(error_code=0, topics=[])
            case AllocateProducerIdsRequest():
                return AllocateProducerIdsResponse(
                    throttle_time_ms=0, error_code=0, producer_id_start=0, producer_id_len=1000
                )
            case AssignReplicasToDirsRequest():
                return AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=0, directories=[])
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the stand-in does not know {request.schema.name}")

    def _register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        epoch = self.image.offset + 1
        self.commit(
            records.RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                broker_epoch=epoch,
                end_points=[
                    records.RegisterBrokerRecord.BrokerEndpoint(
                        name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
                    )
                    for one in request.listeners
                ],
                features=[],
                rack=request.rack,
                fenced=True,
                log_dirs=request.log_dirs,
            )
        )
        return BrokerRegistrationResponse(throttle_time_ms=0, error_code=0, broker_epoch=epoch)

    def _heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        broker = self.image.brokers[request.broker_id]
        if broker.fenced != request.want_fence:
            self.commit(
                records.BrokerRegistrationChangeRecord(
                    broker_id=broker.id, broker_epoch=broker.epoch, fenced=1 if request.want_fence else -1
                )
            )
        return BrokerHeartbeatResponse(
            throttle_time_ms=0,
            error_code=0,
            is_caught_up=True,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down,
        )

    def _create(self, topic: CreateTopicsRequest.CreatableTopic) -> CreateTopicsResponse.CreatableTopicResult:
        result = CreateTopicsResponse.CreatableTopicResult(
            name=topic.name, error_code=0, error_message=None, num_partitions=max(1, topic.num_partitions)
        )
        if topic.name in self.image.topic_ids:
            result.error_code = ErrorCode.TOPIC_ALREADY_EXISTS
            return result
        topic_id = Uuid((1 << 64 | self._next_id).to_bytes(16, "big"))
        self._next_id += 1
        broker = min(self.image.brokers, default=1)
        self.commit(
            records.TopicRecord(name=topic.name, topic_id=topic_id),
            *(
                records.ConfigRecord(
                    resource_type=2, resource_name=topic.name, name=one.name, value=one.value
                )
                for one in topic.configs
            ),
            *(
                records.PartitionRecord(
                    partition_id=number,
                    topic_id=topic_id,
                    replicas=[broker],
                    isr=[broker],
                    removing_replicas=[],
                    adding_replicas=[],
                    leader=broker,
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=[UNASSIGNED_DIR],
                )
                for number in range(result.num_partitions)
            ),
        )
        result.topic_id = topic_id
        return result

    def _delete(self, topic_id: Uuid) -> DeleteTopicsResponse.DeletableTopicResult:
        self.commit(records.RemoveTopicRecord(topic_id=topic_id))
        return DeleteTopicsResponse.DeletableTopicResult(name=None, topic_id=topic_id, error_code=0)

    def _alter(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        answered = []
        for one in request.resources:
            for option in one.configs:
                self.commit(
                    records.ConfigRecord(
                        resource_type=one.resource_type,
                        resource_name=one.resource_name,
                        name=option.name,
                        value=option.value,
                    )
                )
            answered.append(
                IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=0,
                    error_message=None,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=answered)


__all__ = ["ZERO_UUID", "FakeMetadata"]
