"""The controller over a store that refuses, commits late, and loses leadership in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.kraft import controller_driver
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.controller.topics.colliding_names import CollidingNames
from barnabas.metadata.bootstrap import choose_levels, first_records
from barnabas.metadata.features import metadata_version_named
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoadError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.random import SeededRandom
from barnabas.testing.simulation.metadata_node import (
    CLUSTER_ID,
    NODE_ID,
    configuration,
    creation,
    heartbeat,
    registration,
)
from tests.broker.worlds.data_world import HandClock

REQUEST_TIMEOUT_MS = 30_000


class FakeStore:
    """Keeps batches in a list; tests control commits, refusals and loss of leadership."""

    def __init__(self, clock: HandClock) -> None:
        self.epoch: int | None = None
        self.batches: list[MetadataBatch] = []
        self.end_offset = 0
        self.committed = 0
        self.refusal: KafkaError | None = None
        # An append of more records than this is split into several batches.
        self.most_records = 10_000
        self._clock = clock
        self.driver: ControllerDriver | None = None
        self.upgrades: list[tuple[int, int]] = []
        # Called when the driver is active, like the node that is the store's other listener.
        self.on_won: Callable[[], None] = lambda: None

    def append(self, epoch: int, records: Sequence[Message], *, level: int, atomic: bool) -> int:
        if self.refusal is not None:
            raise self.refusal
        if epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        for start in range(0, len(records), self.most_records):
            self._add(epoch, records[start : start + self.most_records])
        return self.end_offset - 1

    def upgrade_kraft_version(self, epoch: int, kraft_version: int) -> None:
        self.upgrades.append((epoch, kraft_version))
        self._add(epoch, (), count=2)

    def _add(self, epoch: int, records: Sequence[Message], count: int | None = None) -> None:
        self.end_offset += len(records) if count is None else count
        batch = MetadataBatch(self.end_offset - 1, epoch, self._clock.wall_ms(), records, 1)
        self.batches.append(batch)

    def commit(self, count: int | None = None) -> None:
        """Commits this many more batches, or all."""
        assert self.driver is not None
        batches = self.batches[self.committed :][:count]
        self.committed += len(batches)
        self.driver.committed(batches, is_end=True)

    def win(self, epoch: int) -> None:
        """Wins, with everything before the epoch's first record committed, as the interface requires."""
        assert self.driver is not None
        self.epoch = epoch
        self._add(epoch, (), count=1)
        self.commit()
        self.driver.won(epoch)
        self.on_won()

    def lose(self, *, forget: bool = False) -> None:
        """`forget`: another leader has overwritten the uncommitted records."""
        assert self.driver is not None
        lost, self.epoch = self.epoch, None
        assert lost is not None
        if forget:
            del self.batches[self.committed :]
            self.end_offset = self.batches[-1].last_offset + 1
        self.driver.lost(lost)


class Rig:
    """A controller, its driver, a fake store and a clock that tests advance."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.timers = Timers()
        self.store = FakeStore(self.clock)
        self.faults: list[BaseException] = []
        options = ControllerOptions(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            static=configuration().settings,
            controller_ids=frozenset({NODE_ID}),
        )
        version, levels = choose_levels(
            {}, metadata_version_named("4.1"), dynamic_quorum=False, unstable=False
        )
        self._first = first_records(version, levels)
        self.driver = ControllerDriver(
            Controller(options, SeededRandom(7)),
            self.store,
            clock=self.clock,
            timers=self.timers,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            on_fault=self.faults.append,
        )
        self.store.driver = self.driver
        self.store.on_won = self._activate

    def _activate(self) -> None:
        self.driver.append(
            lambda: self.driver.controller.activate(
                self._first, self.clock.monotonic_ns(), in_transaction=self.driver.in_transaction
            ),
            atomic=True,
        )

    @property
    def image(self) -> Image:
        return self.driver.controller.image

    def send(self, request: Message) -> list[object]:
        responses: list[object] = []
        answer = self.driver.ask(request, request.schema.versions.highest, "User:test")
        answer.then(responses.append, responses.append)
        return responses

    def lead_with_a_broker(self) -> int:
        """Leads in epoch 1 with an unfenced broker, all committed; returns the broker's epoch."""
        self.store.win(1)
        self.store.commit()
        (registered,) = self._committed(registration())
        assert isinstance(registered, BrokerRegistrationResponse)
        (unfenced,) = self._committed(heartbeat(registered.broker_epoch, self.store.end_offset))
        assert isinstance(unfenced, BrokerHeartbeatResponse)
        return registered.broker_epoch

    def _committed(self, request: Message) -> list[object]:
        responses = self.send(request)
        self.store.commit()
        return responses

    def pass_ms(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.timers.fire_due(self.clock.monotonic_ns())


def code_of(responses: Sequence[object]) -> ErrorCode:
    (error,) = responses
    assert isinstance(error, KafkaError), error
    return error.code


def test_a_refused_append_changes_nothing() -> None:
    rig = Rig()
    rig.lead_with_a_broker()
    before = rig.image
    rig.store.refusal = KafkaError(ErrorCode.NOT_CONTROLLER, "not any more")
    assert code_of(rig.send(creation("t"))) is ErrorCode.NOT_CONTROLLER
    assert rig.image is before
    rig.store.refusal = None
    responses = rig.send(creation("t"))
    rig.store.commit()
    assert isinstance(responses[0], CreateTopicsResponse)


def test_records_that_contradict_the_image_never_reach_the_store(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A wrong decision must not be appended: no node could apply it."""
    rig = Rig()
    rig.lead_with_a_broker()
    before, end = rig.image, rig.store.end_offset
    topic_id = next(iter(rig.image.brokers.values())).incarnation_id
    wrong = [RemoveTopicRecord(topic_id=topic_id)]
    decide = rig.driver.controller.decide

    def decide_wrongly(request: Message, context: object) -> object:
        decision = decide(request, context)  # type: ignore[arg-type]
        object.__setattr__(decision, "records", wrong)
        return decision

    monkeypatch.setattr(rig.driver.controller, "decide", decide_wrongly)
    assert code_of(rig.send(creation("t"))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "failed to decide on CreateTopicsRequest" in caplog.text
    assert (rig.image, rig.store.end_offset) == (before, end)


def test_lost_leadership_reverts_uncommitted_records() -> None:
    rig = Rig()
    rig.lead_with_a_broker()
    committed = rig.image
    responses = rig.send(creation("t"))
    waiting = rig.send(ListPartitionReassignmentsRequest(topics=None))
    assert "t" in rig.image.topic_ids
    rig.store.lose(forget=True)
    assert code_of(responses) is ErrorCode.NOT_CONTROLLER
    assert code_of(waiting) is ErrorCode.NOT_CONTROLLER
    assert rig.image is committed
    assert rig.driver.active_epoch is None
    assert code_of(rig.send(creation("u"))) is ErrorCode.NOT_CONTROLLER

    rig.store.win(3)
    rig.store.commit()
    again = rig.send(creation("t"))
    rig.store.commit()
    (created,) = again
    assert isinstance(created, CreateTopicsResponse)
    assert created.topics[0].error_code == 0, "the name is free: its first creation was never committed"
    assert rig.image.epoch == 3


def test_records_committed_after_lost_leadership_are_applied() -> None:
    """They stayed in the log, and the next leader's first record commits them."""
    rig = Rig()
    rig.lead_with_a_broker()
    responses = rig.send(creation("t"))
    rig.store.lose()
    assert code_of(responses) is ErrorCode.NOT_CONTROLLER
    assert "t" not in rig.image.topic_ids
    rig.store.win(2)
    assert "t" in rig.image.topic_ids
    again = rig.send(creation("t"))
    rig.store.commit()
    (answer,) = again
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_half_of_an_append_is_committed_when_leadership_is_lost() -> None:
    """A non-atomic append is applied batch by batch, and the controller knows how far it got."""
    rig = Rig()
    epoch = rig.lead_with_a_broker()
    responses = rig.send(creation("t", partitions=6))
    rig.store.commit()
    assert len(responses) == 1
    rig.store.most_records = 3
    rig.send(heartbeat(epoch, rig.store.end_offset, want_fence=True))
    assert sum(len(batch.records) for batch in rig.store.batches[rig.store.committed :]) == 7
    rig.store.commit(1)
    rig.store.lose(forget=True)
    (topic,) = rig.image.topics.values()
    assert [topic.partitions[index].leader for index in range(6)] == [-1, -1, -1, 1, 1, 1]
    assert rig.image.offset == rig.store.batches[-1].last_offset
    assert not rig.image.brokers[NODE_ID].fenced


def test_replies_come_in_order_when_their_records_are_committed() -> None:
    rig = Rig()
    rig.lead_with_a_broker()
    order: list[str] = []
    for name in ("a", "b"):
        answer = rig.driver.ask(creation(name), 7, "User:test")
        answer.then(lambda _, name=name: order.append(name), lambda _: None)  # type: ignore[misc]
    read = rig.driver.ask(ListPartitionReassignmentsRequest(topics=None), 0, "User:test")
    read.then(lambda _: order.append("read"), lambda _: None)
    rig.store.commit(1)
    assert order == ["a"]
    rig.store.commit()
    assert order == ["a", "b", "read"]
    (at_once,) = rig.send(ListPartitionReassignmentsRequest(topics=None))
    assert isinstance(at_once, ListPartitionReassignmentsResponse)


def test_a_request_that_is_not_committed_in_time_times_out() -> None:
    """`ask` had no deadline: clients waited forever for a disk that hangs."""
    rig = Rig()
    rig.lead_with_a_broker()
    early = rig.send(creation("a"))
    rig.pass_ms(REQUEST_TIMEOUT_MS - 1)
    late = rig.send(creation("b"))
    assert early == []
    rig.pass_ms(1)
    assert code_of(early) is ErrorCode.REQUEST_TIMED_OUT
    assert late == []
    rig.store.commit()
    assert isinstance(late[0], CreateTopicsResponse)
    rig.pass_ms(REQUEST_TIMEOUT_MS)
    assert (len(early), len(late)) == (1, 1)
    assert len(rig.timers) == 0


def test_a_deadline_counts_after_a_response_without_one() -> None:
    rig = Rig()
    rig.lead_with_a_broker()
    rig.send(creation("a"))
    rig.store.commit()
    first = rig.driver.ask(creation("b"), 7, "User:test")
    stopped: list[str] = []
    rig.pass_ms(REQUEST_TIMEOUT_MS)
    assert first.done
    rig.driver.when_committed(lambda: stopped.append("committed"), lambda _: None)
    responses = rig.send(creation("c"))
    rig.pass_ms(REQUEST_TIMEOUT_MS)
    assert code_of(responses) is ErrorCode.REQUEST_TIMED_OUT
    assert stopped == []
    rig.store.commit()
    assert stopped == ["committed"]


def test_a_controller_that_cannot_apply_appended_records_stops_the_node(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    rig.lead_with_a_broker()

    def fault(*given: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(CollidingNames, "add", fault)
    assert code_of(rig.send(creation("t"))) is ErrorCode.NOT_CONTROLLER
    assert [type(error) for error in rig.faults] == [ZeroDivisionError]
    assert "could not apply records that its log has" in caplog.text


def test_replies_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_driver, "MAX_WAITING_REPLIES", 2)
    rig = Rig()
    rig.lead_with_a_broker()
    waiting = [rig.send(creation(name)) for name in ("a", "b")]
    assert code_of(rig.send(creation("c"))) is ErrorCode.REQUEST_TIMED_OUT
    rig.store.commit()
    assert [len(responses) for responses in waiting] == [1, 1]


def test_an_inactive_controller_replays_committed_records() -> None:
    leader, follower = Rig(), Rig()
    leader.lead_with_a_broker()
    leader.send(creation("t", partitions=2))
    leader.store.commit()
    follower.driver.committed(leader.store.batches, is_end=True)
    assert follower.image.topics == leader.image.topics
    assert follower.image.brokers == leader.image.brokers
    assert follower.image.offset == leader.store.end_offset - 1
    assert follower.driver.active_epoch is None


def test_a_transaction_that_a_leader_left_open_is_aborted_by_the_next() -> None:
    # KIP-868
    rig = Rig()
    rig.lead_with_a_broker()
    rig.store.lose()
    topic_id = rig.image.brokers[NODE_ID].incarnation_id
    held = [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=topic_id)]
    rig.store._add(2, held)
    rig.store.commit()
    assert rig.driver.in_transaction
    assert "half" not in rig.image.topic_ids
    rig.store.win(3)
    assert isinstance(rig.store.batches[-1].records[0], AbortTransactionRecord)
    rig.store.commit()
    assert not rig.driver.in_transaction


def test_a_committed_record_that_cannot_be_applied_is_no_small_matter() -> None:
    rig = Rig()
    rig.lead_with_a_broker()
    rig.store.lose()
    topic_id = rig.image.brokers[NODE_ID].incarnation_id
    rig.store._add(2, [RemoveTopicRecord(topic_id=topic_id)])
    with pytest.raises(MetadataLoadError, match="the controller cannot follow the committed records"):
        rig.store.commit()


def test_an_exception_of_a_responses_receiver_does_not_affect_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A handler's exception reached the code that applies committed records."""
    rig = Rig()
    rig.lead_with_a_broker()

    def fault(answer: object) -> None:
        raise ZeroDivisionError("planted")

    rig.driver.ask(creation("a"), 7, "User:test").then(fault, fault)
    responses = rig.send(creation("b"))
    rig.store.commit()
    assert isinstance(responses[0], CreateTopicsResponse)
    assert "a response of the controller could not be sent" in caplog.text
    waiting = rig.driver.ask(creation("c"), 7, "User:test")
    waiting.then(fault, fault)
    responses = rig.send(creation("d"))
    rig.store.lose()
    assert code_of(responses) is ErrorCode.NOT_CONTROLLER


def test_an_upgrade_of_the_quorum_comes_before_the_record_that_its_response_waits_for() -> None:
    # KIP-853
    rig = Rig()
    rig.lead_with_a_broker()
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="kraft.version", max_version_level=1, upgrade_type=1
    )
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
    rig.send(request)
    assert rig.store.upgrades == [], "only validated"
    request.validate_only = False
    before = rig.store.end_offset
    responses = rig.send(request)
    assert rig.store.upgrades == [(1, 1)]
    assert rig.store.end_offset == before + 3, "two control records and one of the controller"
    rig.store.commit(1)
    assert responses == [], "the control records alone do not complete it"
    rig.store.commit()
    assert isinstance(responses[0], UpdateFeaturesResponse)
