from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.columnar import Columns
from barnabas.coordinator import shard as shard_module
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.shard import TIMER_RETRY_MS
from barnabas.coordinator.timers import Timers
from barnabas.metadata.delta import Delta
from barnabas.protocol.records.group import OffsetCommitKey
from barnabas.runtime.loop.promise import Promise
from tests.coordinator.shard_world import COMMIT_TIMEOUT_MS, PENDING, ShardWorld, value_of


def entry(number: int) -> Entry:
    return Entry(OffsetCommitKey(group="g", topic="t", partition=number), None)


class Recorder:
    """A machine that records its calls."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.applied: list[object] = []
        self.error: KafkaError | None = None
        self.deltas = 0

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        self.applied.append(entry.key.partition if stamp is None else (entry.key.partition, stamp))  # type: ignore[attr-defined]

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.applied.append((producer_id, producer_epoch, committed))

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        raise NotImplementedError

    def loaded(self, context: Context) -> None:
        self.applied.append("loaded")

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        self.deltas += 1
        return Decision([entry(100)], None)

    def dropped(self, error: KafkaError) -> None:
        self.error = error


def world() -> ShardWorld[Recorder]:
    made = ShardWorld(Recorder)
    made.machine.applied.clear()
    return made


def decision(*numbers: int, reply: object = "done", **more: Any) -> Callable[..., Decision[object]]:
    made = Decision([entry(number) for number in numbers], reply, **more)
    return lambda machine, context: made


def test_a_decision_is_appended_then_applied_then_answered() -> None:
    shards = world()
    seen: list[object] = []
    accepted = lambda: seen.append(list(shards.machine.applied))  # noqa: E731
    promise = shards.ask(decision(1, 2, accepted=accepted))
    assert value_of(promise) == "done"
    assert shards.store.end == 2
    assert seen == [[1, 2]]


def test_a_reply_waits_for_its_commit_and_a_read_for_everything_before_it() -> None:
    shards = world()
    shards.store.held_at = 0
    committed: list[str] = []
    first = shards.ask(decision(1, committed=lambda: committed.append("first")))
    read = shards.ask(decision(reply="read"))
    second = shards.ask(decision(2))
    assert shards.machine.applied == [1, 2], "the next decision sees the appended entries"
    assert [value_of(promise) for promise in (first, read, second)] == [PENDING] * 3
    shards.store.held_at = 1
    shards.shard.look_at_commits()
    assert [value_of(promise) for promise in (first, read, second)] == ["done", "read", PENDING]
    assert committed == ["first"]
    shards.store.held_at = 2
    shards.shard.look_at_commits()
    assert value_of(second) == "done"


def test_a_promised_reply_waits_for_commit_and_value() -> None:
    shards = world()
    shards.store.held_at = 0
    held: Promise[object] = Promise()
    promise = shards.ask(decision(1, reply=held))
    held.set("joined")
    assert value_of(promise) is PENDING
    shards.store.held_at = 1
    shards.shard.look_at_commits()
    assert value_of(promise) == "joined"


def test_a_failed_append_changes_nothing_and_returns_a_coordinator_error() -> None:
    shards = world()
    shards.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    refused: list[ErrorCode] = []
    accepted: list[str] = []
    promise = shards.ask(
        decision(1, accepted=lambda: accepted.append("no"), refused=lambda error: refused.append(error.code))
    )
    assert value_of(promise).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (accepted, shards.machine.applied, shards.store.end) == ([], [], 0)
    shards.store.refusal = None
    assert value_of(shards.ask(decision(2))) == "done"


@pytest.mark.parametrize(
    ("code", "client_error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_log_errors_are_mapped_to_coordinator_errors(code: ErrorCode, client_error: ErrorCode) -> None:
    shards = world()
    shards.store.refusal = KafkaError(code)
    assert value_of(shards.ask(decision(1))).code is client_error


def test_replies_are_sent_in_request_order() -> None:
    """A reply whose entries are already committed does not overtake waiting replies."""
    shards = world()
    shards.store.held_at = 0
    order: list[str] = []
    shards.ask(decision(1)).then(lambda _: order.append("first"), lambda _: None)
    shards.store.held_at = None
    shards.ask(decision(reply="read")).then(lambda _: order.append("second"), lambda _: None)
    shards.shard.look_at_commits()
    assert order == ["first", "second"]


def test_requests_queued_during_a_decision_run_in_order() -> None:
    shards = world()

    def ask_more(machine: Recorder, context: Context) -> Decision[object]:
        for number in (2, 3):
            shards.ask(decision(number))
        return Decision([entry(1)], "done")

    assert value_of(shards.ask(ask_more)) == "done"
    assert shards.machine.applied == [1, 2, 3]


def test_a_decision_that_raises_writes_nothing() -> None:
    shards = world()

    def refuse(machine: Recorder, context: Context) -> Decision[str]:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    assert value_of(shards.ask(refuse)).code is ErrorCode.ILLEGAL_GENERATION
    assert shards.store.end == 0


def test_non_atomic_entries_span_batches_that_are_applied_one_by_one() -> None:
    shards = world()
    shards.store.room = 2
    assert value_of(shards.ask(decision(1, 2, 3, 4, 5, atomic=False))) == "done"
    assert len(shards.store.batches) == 3
    assert shards.machine.applied == [1, 2, 3, 4, 5]
    assert value_of(shards.ask(decision(6, 7, 8))) == "done"
    assert len(shards.store.batches) == 4


def test_transactional_entries_and_markers_reach_the_machine_with_their_producer() -> None:
    shards = world()
    stamp = ProducerStamp(9, 2)
    shards.ask(decision(1, producer=stamp))
    shards.ask(decision(marker=Marker(9, 2, 0, committed=True)))
    assert shards.machine.applied == [(1, stamp), (9, 2, True)]
    assert shards.store.end == 2


def test_a_replication_timeout_fails_the_reply_and_notifies_soft_state() -> None:
    shards = world()
    shards.store.held_at = 0
    refused: list[ErrorCode] = []
    first = shards.ask(decision(1, refused=lambda error: refused.append(error.code)))
    shards.now_ms = 10
    second = shards.ask(decision(2))
    assert shards.shard.next_expiry == COMMIT_TIMEOUT_MS
    shards.shard.expire(COMMIT_TIMEOUT_MS)
    assert value_of(first).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert value_of(second) is PENDING
    assert shards.shard.next_expiry == COMMIT_TIMEOUT_MS + 10


def test_a_dropped_shard_fails_all_requests() -> None:
    shards = world()
    shards.store.held_at = 0
    waiting = shards.ask(decision(1))
    shards.machine.timers.schedule("never", 1, lambda context: Decision((), None))
    shards.shard.drop(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert value_of(waiting).code is ErrorCode.NOT_COORDINATOR
    assert shards.machine.error is not None
    assert value_of(shards.ask(decision(2))).code is ErrorCode.NOT_COORDINATOR
    assert shards.machine.timers.next_deadline() is None
    assert shards.store.end == 1


def test_a_request_triggered_by_a_reply_is_decided_afterwards() -> None:
    """A pipelined request may be triggered by the very reply that a decision gives to another member."""
    shards = world()
    held: Promise[object] = Promise()
    order: list[str] = []
    shards.ask(decision(reply=held)).then(lambda _: order.append("reply"), lambda _: None)
    held_answers: list[Promise[object]] = []

    def release(machine: Recorder, context: Context) -> Decision[object]:
        held.then(lambda _: held_answers.append(shards.ask(decision(2))), lambda _: None)
        held.set("now")
        order.append("decided")
        assert machine.applied == []
        return Decision([entry(1)], "released")

    assert value_of(shards.ask(release)) == "released"
    assert shards.machine.applied == [1, 2]
    assert value_of(held_answers[0]) == "done"
    assert order == ["reply", "decided"]


def test_timers_are_decisions_and_an_error_in_one_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shards = world()

    def broken(context: Context) -> Decision[None]:
        raise RuntimeError("a fault")

    shards.machine.timers.schedule("one", 5, broken)
    shards.machine.timers.schedule("two", 5, lambda context: Decision([entry(7)], None))
    shards.pass_ms(5)
    assert shards.machine.applied == [7]
    assert "an internal decision of a coordinator failed" in caplog.text


def test_a_timer_whose_entries_are_rejected_is_retried() -> None:
    shards = world()
    shards.machine.timers.schedule("one", 5, lambda context: Decision([entry(7)], None))
    shards.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    shards.pass_ms(5)
    assert shards.machine.applied == []
    shards.store.refusal = None
    shards.pass_ms(TIMER_RETRY_MS - 1)
    assert shards.machine.applied == []
    shards.pass_ms(1)
    assert shards.machine.applied == [7]
    assert not shards.machine.timers.has("one")


def test_a_rescheduled_timer_is_not_delayed_by_a_retry() -> None:
    shards = world()

    def reschedule(context: Context) -> Decision[None]:
        shards.machine.timers.schedule("one", 10_000, reschedule)
        return Decision([entry(7)], None)

    shards.machine.timers.schedule("one", 5, reschedule)
    shards.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    shards.pass_ms(5)
    shards.store.refusal = None
    shards.pass_ms(9_999)
    assert shards.machine.applied == []


def test_a_delta_reaches_the_machine_and_its_entries_are_written() -> None:
    shards = world()
    shards.shard.metadata_changed(Delta(shards.image), shards.context, 0)
    assert shards.machine.deltas == 1
    assert shards.machine.applied == [100]


def test_waiting_replies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "MAX_WAITING_REPLIES", 2)
    shards = world()
    shards.store.held_at = 0
    for number in range(2):
        shards.ask(decision(number))
    assert value_of(shards.ask(decision(3))).code is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Appended entries must be applied


def fail(*_: object) -> None:
    raise RuntimeError("a fault")


def test_a_failing_decision_affects_only_its_caller() -> None:
    shards = world()
    assert isinstance(value_of(shards.ask(fail)), RuntimeError)  # type: ignore[arg-type]
    assert shards.shard.failure is None
    assert value_of(shards.ask(decision(1))) == "done"


@pytest.mark.parametrize("broken", ["apply", "marker", "accepted", "committed", "refused"])
def test_a_shard_whose_state_diverges_from_its_log_stops(
    broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in apply went to the caller, and the shard continued with a state unlike its log."""
    shards = world()
    shards.store.held_at = 0
    waiting = shards.ask(decision(1))
    shards.machine.timers.schedule("never", 1, lambda context: Decision((), None))
    if broken in ("apply", "marker"):
        monkeypatch.setattr(shards.machine, broken, fail)
        request = decision(2, marker=Marker(9, 2, 0, committed=True) if broken == "marker" else None)
    else:
        request = decision(2, **{broken: fail})
    promise = shards.ask(request)
    if broken == "committed":
        shards.store.held_at = None
        shards.shard.look_at_commits()
        assert value_of(waiting) == "done"
    elif broken == "refused":
        shards.shard.expire(COMMIT_TIMEOUT_MS)
        assert value_of(waiting).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        assert value_of(waiting).code is ErrorCode.NOT_COORDINATOR
    client_error = ErrorCode.COORDINATOR_NOT_AVAILABLE if broken == "refused" else ErrorCode.NOT_COORDINATOR
    assert value_of(promise).code is client_error
    assert isinstance(shards.shard.failure, RuntimeError)
    assert shards.machine.error is not None and shards.machine.timers.next_deadline() is None
    assert value_of(shards.ask(decision(3))).code is ErrorCode.NOT_COORDINATOR
    assert "a coordinator's state is broken" in caplog.text and "a fault" in caplog.text


def test_an_error_raised_by_apply_is_not_an_append_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = world()

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    monkeypatch.setattr(shards.machine, "apply", refuse)
    refused: list[KafkaError] = []
    assert value_of(shards.ask(decision(1, refused=refused.append))).code is ErrorCode.NOT_COORDINATOR
    assert refused == [] and isinstance(shards.shard.failure, KafkaError)


def test_requests_queued_while_a_shard_broke_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = world()
    monkeypatch.setattr(shards.machine, "apply", fail)
    meanwhile: list[Promise[object]] = []

    def ask_more(machine: Recorder, context: Context) -> Decision[object]:
        meanwhile.append(shards.ask(decision(2)))
        return Decision([entry(1)], "done")

    assert value_of(shards.ask(ask_more)).code is ErrorCode.NOT_COORDINATOR
    assert value_of(meanwhile[0]).code is ErrorCode.NOT_COORDINATOR
