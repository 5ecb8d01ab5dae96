"""The transaction coordinator of one partition, on a list as its log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from immutables import Map

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.entry import encode
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.txn.ending import EndRequest, NeedsProducerId
from barnabas.coordinator.txn.listing import NO_DURATION, Filter, describe, id_pattern, known_states
from barnabas.coordinator.txn.machine import Ended, Initialised, InitRequest, Prepared, TransactionMachine
from barnabas.coordinator.txn.records import entry_of, tombstone_of
from barnabas.coordinator.txn.transaction import LAST_CLIENT_EPOCH, TRANSACTION_VERSION, State, Transaction
from barnabas.storage.log.names import TopicPartition
from tests.coordinator.shard_world import NOW_MS, PENDING, ShardWorld, value_of

SHOP = "shop"
PID = 7
ORDERS = TopicPartition("orders", 0)
PAYMENTS = TopicPartition("payments", 3)
TIMEOUT_MS = 60_000
COMMIT, ABORT = True, False


class World(ShardWorld[TransactionMachine]):
    """With the newest transaction.version by default."""

    def __init__(self, level: int = 2) -> None:
        self.loaded: list[list[Prepared]] = []
        self.dropped = 0
        super().__init__(lambda: TransactionMachine(self._loaded, self._dropped))
        self.with_image(features=Map({TRANSACTION_VERSION: level}))
        self.client_version = 2 if level >= 2 else 0

    def _loaded(self, machine: TransactionMachine) -> None:
        self.loaded.append(machine.prepared())

    def _dropped(self) -> None:
        self.dropped += 1

    def init(
        self,
        transactional_id: str = SHOP,
        *,
        expected: tuple[int, int] | None = None,
        new: int | None = PID,
        timeout_ms: int = TIMEOUT_MS,
    ) -> Any:
        request = InitRequest(transactional_id, timeout_ms, expected)
        return value_of(self.ask(lambda machine, context: machine.initialise(context, request, new)))

    def add(self, *partitions: TopicPartition, pid: int = PID, epoch: int = 0, name: str = SHOP) -> Any:
        return value_of(
            self.ask(
                lambda machine, context: machine.add_partitions(
                    context, name, pid, epoch, frozenset(partitions), self.client_version
                )
            )
        )

    def end(self, commit: bool, *, pid: int = PID, epoch: int = 0, new: int | None = None) -> Any:
        request = EndRequest(pid, epoch, commit, self.client_version)
        return value_of(self.ask(lambda machine, context: machine.end(context, SHOP, request, new)))

    def complete(self, prepared: Prepared) -> Any:
        return value_of(self.ask(lambda machine, context: machine.complete(context, prepared.transaction)))

    def abort_timed_out(self) -> Any:
        return value_of(self.ask(lambda machine, context: machine.abort_timed_out(context, SHOP)))

    @property
    def shop(self) -> Transaction:
        return self.machine.transactions[SHOP]

    def durable(self) -> dict[str, Any]:
        """The state that its records contain."""
        return {
            name: encode(entry_of(transaction, 2)) for name, transaction in self.machine.transactions.items()
        }


def code_of(error: Any) -> ErrorCode:
    assert isinstance(error, KafkaError), error
    return error.code


def test_a_new_id_needs_a_producer_id() -> None:
    world = World()
    assert isinstance(world.init(new=None), NeedsProducerId)
    assert world.store.end == 0
    assert world.init() == Initialised(PID, 0)
    assert world.init(new=None) == Initialised(PID, 1)
    assert world.store.end == 2


def test_a_producer_that_sends_its_id_and_epoch() -> None:
    world = World()
    assert world.init(expected=(99, 3)) == Initialised(PID, 0)  # nothing is known about it
    assert world.init(expected=(PID, 0), new=None) == Initialised(PID, 1)
    assert world.init(expected=(PID, 0), new=None) == Initialised(PID, 1)  # the response was lost
    assert code_of(world.init(expected=(PID, 5))) is ErrorCode.PRODUCER_FENCED
    assert code_of(world.init(expected=(99, 1))) is ErrorCode.PRODUCER_FENCED
    assert world.init() == Initialised(PID, 2)
    assert code_of(world.init(expected=(PID, 1))) is ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs() -> None:
    world = World()
    world.init()
    world.machine.transactions[SHOP] = worn = Transaction(
        SHOP, PID, LAST_CLIENT_EPOCH, TIMEOUT_MS, State.EMPTY, frozenset(), -1, NOW_MS
    )
    assert isinstance(world.init(new=None), NeedsProducerId)
    assert world.init(expected=(PID, LAST_CLIENT_EPOCH), new=8) == Initialised(8, 0)
    # An early producer of the old id must not be mistaken for the first one of the new id.
    assert code_of(world.init(expected=(PID, 0))) is ErrorCode.PRODUCER_FENCED
    assert world.init(expected=(PID, LAST_CLIENT_EPOCH), new=9) == Initialised(8, 0)  # a retry
    assert code_of(world.init(expected=(PID, 4))) is ErrorCode.PRODUCER_FENCED
    world.machine.transactions[SHOP] = worn
    assert code_of(world.init(expected=(PID, 3), new=8)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_transaction_from_start_to_end(level: int) -> None:
    world = World(level)
    world.init()
    assert world.add(ORDERS) is None
    assert world.add(ORDERS, PAYMENTS) is None
    written = world.store.end
    assert world.add(PAYMENTS) is None  # already added
    assert world.store.end == written
    prepared = world.end(COMMIT)
    assert isinstance(prepared, Prepared)
    assert prepared.transaction.partitions == {ORDERS, PAYMENTS}
    epoch = 1 if level == 2 else 0
    assert prepared.producer == (PID, epoch)
    assert code_of(world.add(ORDERS, epoch=epoch)) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert code_of(world.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.complete(prepared) is None
    assert world.shop.state is State.COMPLETE_COMMIT
    assert world.end(COMMIT) == Ended(PID, epoch)  # the first response was lost
    versions = [entry.value_version for entry in world.store.entries]
    assert set(versions) == {0 if level == 0 else 1}
    assert world.add(PAYMENTS, epoch=epoch) is None
    assert world.shop.start_ms == NOW_MS


def test_a_fenced_producer_is_rejected() -> None:
    world = World()
    world.init()
    world.init()
    written = world.store.end
    assert code_of(world.add(ORDERS)) is ErrorCode.PRODUCER_FENCED
    assert code_of(world.end(COMMIT)) is ErrorCode.PRODUCER_FENCED
    assert code_of(world.add(ORDERS, pid=8, epoch=1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code_of(world.add(ORDERS, name="nobody")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.store.end == written


@pytest.mark.parametrize("level", [1, 2])
def test_a_second_producer_aborts_the_open_transaction_of_the_first(level: int) -> None:
    world = World(level)
    world.init()
    world.add(ORDERS)
    prepared = world.init()
    assert isinstance(prepared, Prepared)
    assert (prepared.transaction.state, prepared.transaction.producer_epoch) == (State.PREPARE_ABORT, 1)
    assert code_of(world.end(COMMIT)) is (
        ErrorCode.PRODUCER_FENCED if level == 1 else ErrorCode.INVALID_TXN_STATE
    )
    world.complete(prepared)
    assert world.init() == Initialised(PID, 2)


def test_verification_returns_the_added_partitions() -> None:
    world = World()
    world.init()
    world.add(ORDERS)
    verify = world.machine.verify
    assert verify(SHOP, PID, 0, [ORDERS, PAYMENTS]) == {
        ORDERS: ErrorCode.NONE,
        PAYMENTS: ErrorCode.TRANSACTION_ABORTABLE,
    }
    for name, pid, epoch, code in (
        ("nobody", PID, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (SHOP, 8, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (SHOP, PID, 1, ErrorCode.PRODUCER_FENCED),
    ):
        with pytest.raises(KafkaError) as refused:
            verify(name, pid, epoch, [ORDERS])
        assert refused.value.code is code
    world.end(COMMIT)
    with pytest.raises(KafkaError) as refused:
        verify(SHOP, PID, 1, [ORDERS])
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_late_completion_does_not_end_the_next_transaction() -> None:
    world = World(1)
    world.init()
    world.add(ORDERS)
    first = world.end(ABORT)
    world.complete(first)
    world.add(ORDERS)
    world.now_ms += 1
    second = world.end(ABORT)
    assert world.complete(first) is None
    assert world.shop.state is State.PREPARE_ABORT
    world.complete(second)
    assert world.shop.state is State.COMPLETE_ABORT


def test_open_transactions_time_out() -> None:
    world = World()
    world.init()
    world.add(ORDERS)
    world.now_ms += TIMEOUT_MS
    assert world.machine.timed_out(world.context.now_ms) == []
    assert world.abort_timed_out() is None
    world.now_ms += 1
    assert world.machine.timed_out(world.context.now_ms) == [SHOP]
    prepared = world.abort_timed_out()
    assert prepared.transaction.state is State.PREPARE_ABORT
    assert world.abort_timed_out() is None
    assert world.machine.timed_out(world.context.now_ms) == []
    assert [event.kind for event in world.machine.events.of(SHOP)][-1] is EventKind.TRANSACTION_TIMED_OUT
    # The producer is late: every request of it is fenced.
    assert code_of(world.add(ORDERS)) is ErrorCode.PRODUCER_FENCED


def expire(world: World, *names: str) -> None:
    value_of(world.ask(lambda machine, context: machine.expire(context, names)))


def test_unused_ids_expire_permanently() -> None:
    world = World()
    world.init()
    world.init("other")
    world.add(ORDERS, name="other")
    expiration_ms: int = world.settings["transactional.id.expiration.ms"]
    world.now_ms += expiration_ms - 1
    expire(world, SHOP, "other", "nobody")
    assert set(world.machine.transactions) == {SHOP, "other"}
    world.now_ms += 1
    expire(world, SHOP, "other")
    assert set(world.machine.transactions) == {"other"}  # an open one does not expire
    world.reload()
    assert set(world.machine.transactions) == {"other"}


def test_state_after_a_restart_matches_the_log() -> None:
    world = World()
    world.init()
    world.add(ORDERS, PAYMENTS)
    world.init("other")
    before = world.durable()
    world.reload()
    assert world.durable() == before
    assert world.loaded[-1] == []
    prepared = world.end(COMMIT)
    world.reload()
    assert [prepared.transaction.partitions for prepared in world.loaded[-1]] == [{ORDERS, PAYMENTS}]
    assert world.complete(prepared) is None
    assert world.shop.state is State.COMPLETE_COMMIT
    world.reload()
    assert world.loaded[-1] == []


def test_a_refused_append_changes_nothing() -> None:
    world = World()
    world.init()
    before = world.durable()
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert code_of(world.add(ORDERS)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(world.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.durable() == before
    assert [event.kind for event in world.machine.events.of(SHOP)] == [EventKind.PRODUCER_STARTED]
    world.store.refusal = None
    assert world.add(ORDERS) is None


def test_nothing_is_returned_before_it_is_committed() -> None:
    world = World()
    world.init()
    world.add(ORDERS)
    world.store.held_at = world.store.end
    assert world.end(COMMIT) is PENDING
    world.store.held_at = None
    world.shard.look_at_commits()
    assert world.shop.state is State.PREPARE_COMMIT


def test_invalid_records_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.init()
    (key, value), *_ = [encode(entry) for entry in world.store.entries]
    assert value is not None
    strange = value[:16] + b"\x09" + value[17:]
    rows = [(key, b"\x00\x63nothing"), (b"\x00\x07", None), (None, value), (key, strange), (key, value)]
    records = [Record(index, 0, key, value) for index, (key, value) in enumerate(rows)]
    machine = TransactionMachine(lambda _: None, lambda: None)
    machine.load(columns(bytes(build(records))), None)
    assert set(machine.transactions) == {SHOP}
    assert caplog.text.count("skipped") == 4


def test_a_dropped_shard_notifies_its_driver() -> None:
    world = World()
    world.shard.drop(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert world.dropped == 1
    assert code_of(world.init()) is ErrorCode.NOT_COORDINATOR


def test_events_are_recorded() -> None:
    world = World()
    world.init()
    world.add(ORDERS)
    world.add(PAYMENTS)
    world.complete(world.end(ABORT))
    events = world.machine.events.of(SHOP)
    assert [(event.kind, event.who, event.generation, event.count) for event in events] == [
        (EventKind.PRODUCER_STARTED, "7/0", 0, 1),
        (EventKind.TRANSACTION_STARTED, "7/0", 0, 1),
        (EventKind.PARTITIONS_ADDED, "7/0", 0, 2),
        (EventKind.TRANSACTION_ABORTING, "7/1", 1, 1),
        (EventKind.TRANSACTION_ABORTED, "7/1", 1, 1),
    ]
    assert {event.at_ms for event in events} == {world.context.now_ms}


# Listing


def listed(
    world: World, *, states: tuple[str, ...] = (), ids: tuple[int, ...] = (), **more: Any
) -> list[str]:
    known, _ = known_states(states)
    transaction_filter = Filter(
        known,
        bool(states),
        frozenset(ids),
        more.get("duration_ms", NO_DURATION),
        id_pattern(more.get("pattern")),
    )
    chosen = transaction_filter.chosen(world.machine.transactions.values(), world.context.now_ms)
    return [transaction.transactional_id for transaction in chosen]


def test_list_filters() -> None:
    world = World()
    world.init()
    world.init("other", new=8)
    world.add(ORDERS)
    world.now_ms += 500
    assert listed(world) == [SHOP, "other"]
    assert listed(world, states=("Ongoing",)) == [SHOP]
    assert listed(world, states=("Empty", "Sleeping")) == ["other"]
    assert listed(world, states=("Sleeping",)) == []
    assert listed(world, ids=(8, 99)) == ["other"]
    assert listed(world, states=("Ongoing",), duration_ms=499) == [SHOP]
    assert listed(world, states=("Ongoing",), duration_ms=500) == []
    assert listed(world, pattern="sh.p|x") == [SHOP]
    assert listed(world, pattern="o") == []
    assert listed(world, pattern="") == [SHOP, "other"]
    assert known_states(["Ongoing", "x", "x"]) == ({State.ONGOING}, ["x"])


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", "(?<!a)b", r"(a)\1", "a++"])
def test_patterns_that_re2_rejects(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        id_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_describe_a_transaction() -> None:
    world = World()
    world.init()
    known = world.machine.transactions
    assert describe(known, SHOP) is world.shop
    for name, code in (("", ErrorCode.INVALID_REQUEST), ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)):
        with pytest.raises(KafkaError) as refused:
            describe(known, name)
        assert refused.value.code is code


def test_a_tombstone_of_an_unknown_id_is_ignored() -> None:
    world = World()

    def decide(machine: TransactionMachine, context: Context) -> Decision[None]:
        return Decision([tombstone_of("nobody")], None)

    value_of(world.ask(decide))
    assert world.machine.transactions == {}


def test_open_transactions_are_counted_until_their_markers_are_written() -> None:
    world = World()
    world.init()
    assert world.machine.open_count == 0
    world.add(TopicPartition("t", 0))
    assert world.machine.open_count == 1
    prepared = world.end(True)
    assert world.machine.open_count == 1
    world.complete(prepared)
    assert world.machine.open_count == 0


def test_the_end_of_a_transaction_may_need_a_new_producer_id() -> None:
    """KIP-890: the epoch is raised with every transaction; after the last one another id is used."""
    world = World()
    world.init()
    last = LAST_CLIENT_EPOCH
    world.machine.transactions[SHOP] = replace(world.shop, producer_epoch=last)
    world.add(TopicPartition("t", 0), epoch=last)
    written = world.store.end
    assert isinstance(world.end(True, epoch=last), NeedsProducerId)
    assert world.store.end == written
    assert isinstance(world.end(True, epoch=last, new=PID + 1), Prepared)
