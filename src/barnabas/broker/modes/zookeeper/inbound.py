"""LeaderAndIsr, UpdateMetadata and StopReplica: the controller's requests, one after the other.

Contains their checks, their order and their answers.  What they change is turned into records
(cluster_records.py), which the metadata loader publishes as in KRaft mode; the answers need the result of
each transition.

* A request of an older controller epoch is answered with STALE_CONTROLLER_EPOCH, one for an earlier
  registration of this broker with STALE_BROKER_EPOCH (KIP-380).
* The options of a topic are read before its first partition comes: nobody announces them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import LOST_DIR, ZERO_UUID, Uuid
from barnabas.broker.modes.zookeeper.cluster_records import (
    Named,
    broker_records,
    states_of_leader_and_isr,
    states_of_update_metadata,
    topic_records,
)
from barnabas.broker.modes.zookeeper.requested_transitions import RequestedTransitions
from barnabas.broker.replicas.hosted_partition import Become, Hosted, Transition
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transitions import TransitionResult
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.metadata.topics import Partition
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition

logger = logging.getLogger(__name__)

ControllerRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
# The controller has one request of a broker under way; there may be some of a deposed one.
MAX_WAITING = 1_000
# The leader epoch of a replica whose topic is being deleted, and of requests without leader epochs.
EPOCH_DURING_DELETE, NO_EPOCH = -2, -1
NO_BROKER_EPOCH = -1

_Key = tuple[str, int]


class _Waiting(NamedTuple):
    request: ControllerRequest
    answer: Promise[Message]


class _Stop(NamedTuple):
    """A replica that is to stop."""

    topic: str
    number: int
    leader_epoch: int
    delete: bool


class Inbound:
    """Takes the requests of the controller, one at a time.  Runs on the event loop's thread."""

    def __init__(
        self,
        loader: MetadataLoader,
        policy: RequestedTransitions,
        replicas: Callable[[], ReplicaManager | None],
        read_configs: Callable[[Sequence[str]], Promise[list[Message]]],
        broker_epoch: Callable[[], int],
        clock: Clock,
    ) -> None:
        # The controller that sent the last UpdateMetadata; clients are told of it.
        self.controller_id = -1
        self.controller_epoch = -1
        # Called after each UpdateMetadata.
        self.on_update: Callable[[], None] = _nothing
        self._loader = loader
        self._policy = policy
        self._replicas = replicas
        self._read_configs = read_configs
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._is_busy = False

    def handle(self, request: ControllerRequest) -> Promise[Message]:
        """Completed with the response; the requests are carried out in the order of these calls."""
        answer: Promise[Message] = Promise()
        if len(self._waiting) >= MAX_WAITING:
            answer.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{MAX_WAITING} controller requests wait"))
            return answer
        self._waiting.append(_Waiting(request, answer))
        self._next()
        return answer

    def publish(self, records: Sequence[Message]) -> None:
        """Publishes records of another source, such as the options of an entity."""
        image = self._loader.image
        last_offset = image.offset + max(1, len(records))
        batch = MetadataBatch(last_offset, self.controller_epoch, self._clock.wall_ms(), records, 0)
        self._loader.load([batch])
        self._loader.publish()

    # One at a time

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        waiting = self._waiting.popleft()
        unknown = self._unknown_topics(waiting.request)
        if not unknown or self._refusal(waiting.request) is not None:
            self._carry_out(waiting, [])
            return
        self._read_configs(unknown).then(
            partial(self._carry_out, waiting), partial(self._configs_failed, waiting, unknown)
        )

    def _configs_failed(self, waiting: _Waiting, topics: list[str], error: BaseException) -> None:
        """Leadership must not wait for options: they come with the reload after the reconnection."""
        logger.warning(
            "the options of %s could not be read (%s): the defaults hold until then", ", ".join(topics), error
        )
        self._carry_out(waiting, [])

    def _unknown_topics(self, request: ControllerRequest) -> list[str]:
        if isinstance(request, StopReplicaRequest):
            return []
        known = self._loader.image.topics
        return [each.topic_name for each in request.topic_states if each.topic_id not in known]

    def _carry_out(self, waiting: _Waiting, configs: list[Message]) -> None:
        try:
            answer = self._decide(waiting.request, configs)
        except Exception as error:
            logger.exception("a %s of the controller failed", waiting.request.schema.name)
            answer = Promise()
            answer.fail(error)
        answer.then(partial(self._done, waiting.answer), partial(self._failed, waiting.answer))

    def _done(self, answer: Promise[Message], response: Message) -> None:
        self._is_busy = False
        answer.set(response)
        self._next()

    def _failed(self, answer: Promise[Message], error: BaseException) -> None:
        self._is_busy = False
        answer.fail(error)
        self._next()

    # Decisions

    def _refusal(self, request: ControllerRequest) -> ErrorCode | None:
        own_epoch = self._broker_epoch()
        if request.broker_epoch != NO_BROKER_EPOCH and request.broker_epoch < own_epoch:
            logger.info(
                "refused %s of controller %d: it is for the broker epoch %d, and this is %d",
                request.schema.name,
                request.controller_id,
                request.broker_epoch,
                own_epoch,
            )
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            logger.warning(
                "refused %s of controller %d with the old epoch %d; the latest is %d",
                request.schema.name,
                request.controller_id,
                request.controller_epoch,
                self.controller_epoch,
            )
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    def _decide(self, request: ControllerRequest, configs: list[Message]) -> Promise[Message]:
        refusal = self._refusal(request)
        if refusal is None:
            self.controller_epoch = request.controller_epoch
        match request:
            case UpdateMetadataRequest():
                if refusal is None:
                    self._update_metadata(request, configs)
                return Promise.of(UpdateMetadataResponse(error_code=refusal or ErrorCode.NONE))
            case LeaderAndIsrRequest():
                if refusal is not None:
                    return Promise.of(LeaderAndIsrResponse(error_code=refusal))
                return self._leader_and_isr(request, configs)
            case StopReplicaRequest():
                if refusal is not None:
                    return Promise.of(StopReplicaResponse(error_code=refusal, partition_errors=[]))
                return self._stop_replica(request)

    def _publish_with(
        self, records: list[Message], transitions: Sequence[Transition]
    ) -> Promise[list[TransitionResult]]:
        self._policy.request(transitions)
        self.publish(records)
        results = self._policy.take_results()
        if results is None:
            # Before the logs are open: nothing can be hosted yet.
            failed = [TransitionResult(each, ErrorCode.KAFKA_STORAGE_ERROR) for each in transitions]
            return Promise.of(failed)
        return results

    # UpdateMetadata

    def _update_metadata(self, request: UpdateMetadataRequest, configs: list[Message]) -> None:
        self.controller_id = request.controller_id
        image = self._loader.image
        named = [each for each in states_of_update_metadata(request, image) if _has_id(each)]
        records = [*broker_records(image, request.live_brokers), *topic_records(image, named)]
        records += _of_known_topics(configs, image, records)
        # A leader that missed the answer to AlterPartition learns the ISR here.
        self._publish_with(records, list(self._missed_by_leaders(named)))
        self.on_update()

    def _missed_by_leaders(self, named: Iterable[Named]) -> Iterable[Transition]:
        replicas = self._replicas()
        for each in () if replicas is None else named:
            hosted = None if replicas is None else replicas.partitions.get(each.key)
            if (
                hosted is not None
                and each.state is not None
                and hosted.topic_id == each.topic_id
                and hosted.is_leader
                and each.state.leader_epoch == hosted.leader_epoch
                and each.state.partition_epoch > hosted.partition_epoch
            ):
                yield Transition(Become.LEADER, each.topic, each.topic_id, each.number, each.state)

    # LeaderAndIsr

    def _leader_and_isr(self, request: LeaderAndIsrRequest, configs: list[Message]) -> Promise[Message]:
        replicas = self._replicas()
        if replicas is None:
            return Promise.of(LeaderAndIsrResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        errors: dict[_Key, ErrorCode] = {}
        accepted: list[Named] = []
        transitions: list[Transition] = []
        for named, is_new in states_of_leader_and_isr(request):
            error = self._refusal_of(replicas, named)
            errors[named.key] = error
            if error is ErrorCode.NONE:
                accepted.append(named)
                transitions.append(_transition(replicas, named, is_new=is_new))
        image = self._loader.image
        records = topic_records(image, accepted)
        records += _of_known_topics(configs, image, records)
        answer: Promise[Message] = Promise()

        def answered(results: list[TransitionResult]) -> None:
            for result in results:
                errors[result.transition.topic, result.transition.index] = result.error
            answer.set(_leader_and_isr_response(request, errors))

        self._publish_with(records, transitions).then(answered, answer.fail)
        return answer

    def _refusal_of(self, replicas: ReplicaManager, named: Named) -> ErrorCode:
        """The error of a partition as Apache Kafka's brokers give it."""
        hosted = replicas.partitions.get(named.key)
        if named.topic_id == ZERO_UUID:
            logger.error(
                "%s-%d: the controller names no topic id; inter.broker.protocol.version must be at least 2.8",
                *named.key,
            )
            return ErrorCode.UNKNOWN_TOPIC_ID
        assert named.state is not None, "LeaderAndIsr has a state for each partition"
        if replicas.broker_id not in named.state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known_id = _known_id(replicas, named, hosted)
        if known_id not in (None, named.topic_id):
            logger.error(
                "%s-%d: the controller names the topic id %s, but the log here has %s",
                *named.key,
                named.topic_id,
                known_id,
            )
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if hosted is None:
            return ErrorCode.NONE
        if hosted.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if named.state.leader_epoch <= hosted.leader_epoch:
            # An older state, or one that this broker has already.
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return ErrorCode.NONE

    # StopReplica

    def _stop_replica(self, request: StopReplicaRequest) -> Promise[Message]:
        replicas = self._replicas()
        errors: dict[_Key, ErrorCode] = {}
        transitions: list[Transition] = []
        for stop in _stops(request):
            key = (stop.topic, stop.number)
            hosted = None if replicas is None else replicas.partitions.get(key)
            errors[key] = _refusal_of_stop(stop, hosted)
            if replicas is None or errors[key] is not ErrorCode.NONE:
                continue
            if hosted is not None and not stop.delete:
                replicas.fetchers.unfollow(hosted)
            elif stop.delete:
                known = replicas.storage.manager.topic_ids.get(TopicPartition(*key))
                topic_id = known if hosted is None else hosted.topic_id
                if topic_id is not None:
                    transitions.append(Transition(Become.REMOVED, stop.topic, topic_id, stop.number, None))
        answer: Promise[Message] = Promise()

        def answered(results: list[TransitionResult]) -> None:
            for result in results:
                errors[result.transition.topic, result.transition.index] = result.error
            partition_errors = [
                StopReplicaResponse.PartitionError(topic_name=topic, partition_index=number, error_code=code)
                for (topic, number), code in errors.items()
            ]
            answer.set(StopReplicaResponse(error_code=ErrorCode.NONE, partition_errors=partition_errors))

        self._publish_with([], transitions).then(answered, answer.fail)
        return answer


def _nothing() -> None:
    """Nobody waits for an update."""


def _has_id(named: Named) -> bool:
    """Without its id a topic cannot be told from an earlier one of its name."""
    if named.topic_id == ZERO_UUID:
        logger.error("the controller names no topic id of %s: it is left out", named.topic)
        return False
    return True


def _of_known_topics(configs: list[Message], image: Image, records: Iterable[Message]) -> list[Message]:
    """The options of topics that the records bring, or that the image has."""
    names = {getattr(record, "name", None) for record in records}
    return [
        each
        for each in configs
        if getattr(each, "resource_name", None) in names
        or getattr(each, "resource_name", None) in image.topic_ids
    ]


def _known_id(replicas: ReplicaManager, named: Named, hosted: Hosted | None) -> Uuid | None:
    if hosted is not None:
        return hosted.topic_id
    return replicas.storage.manager.topic_ids.get(TopicPartition(*named.key))


def _transition(replicas: ReplicaManager, named: Named, *, is_new: bool) -> Transition:
    state = named.state
    assert state is not None, "LeaderAndIsr has a state for each partition"
    become = Become.LEADER if state.leader == replicas.broker_id else Become.FOLLOWER
    manager = replicas.storage.manager
    if not is_new and manager.dirs.offline and TopicPartition(*named.key) not in manager.logs:
        # Its log may be in the directory that is offline: another one must not be created.
        state = _in_lost_directory(state, replicas.broker_id)
    return Transition(become, named.topic, named.topic_id, named.number, state)


def _in_lost_directory(state: Partition, broker_id: int) -> Partition:
    directories = tuple(
        LOST_DIR if replica == broker_id else directory
        for replica, directory in zip(state.replicas, state.directories, strict=True)
    )
    return replace(state, directories=directories)


def _leader_and_isr_response(
    request: LeaderAndIsrRequest, errors: dict[_Key, ErrorCode]
) -> LeaderAndIsrResponse:
    """By topic id from version 5 on, before that by name: the encoder takes what the version has."""
    make = LeaderAndIsrResponse.PartitionError
    by_topic = [
        LeaderAndIsrResponse.TopicError(
            topic_id=topic.topic_id,
            partition_errors=[
                make(
                    partition_index=state.partition_index,
                    error_code=errors[topic.topic_name, state.partition_index],
                )
                for state in topic.partition_states
            ],
        )
        for topic in request.topic_states
    ]
    return LeaderAndIsrResponse(error_code=ErrorCode.NONE, topics=by_topic)


def _stops(request: StopReplicaRequest) -> Iterable[_Stop]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _Stop(topic.topic_name, state.partition_index, state.leader_epoch, state.delete_partition)
    for old in request.topics:
        for number in old.partition_indexes:
            yield _Stop(old.name, number, NO_EPOCH, request.delete_partitions)
    for oldest in request.ungrouped_partitions:
        yield _Stop(oldest.topic_name, oldest.partition_index, NO_EPOCH, request.delete_partitions)


def _refusal_of_stop(stop: _Stop, hosted: Hosted | None) -> ErrorCode:
    """A broker that does not host the replica has stopped it; its log may still be there."""
    if hosted is None:
        return ErrorCode.NONE
    if hosted.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if stop.leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH) or stop.leader_epoch >= hosted.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH
