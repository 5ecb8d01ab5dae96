"""Shards follow the leadership of their topic's partitions, load from its log and append to it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.hashing import partition_for_group
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.batch.view import CRC_POSITION, batch_crc, batches, patch_offsets
from barnabas.broker.coordinators.shard_store import PartitionStore
from barnabas.broker.replicas.transaction_checks import PartitionErrors, TransactionalWrite
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.entry import Entry, encode
from barnabas.protocol.records import metadata as records
from barnabas.protocol.records.group import OffsetCommitKey
from barnabas.protocol.records.metadata import RemoveTopicRecord
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from tests.broker.worlds.data_world import BROKER
from tests.broker.worlds.shards_world import COMMIT_TIMEOUT_MS, Book, ShardsWorld
from tests.coordinator.shard_world import PENDING, value_of

RECORD_COUNT_POSITION = 57


def code_of(promise: Promise[Any]) -> ErrorCode:
    error = value_of(promise)
    assert hasattr(error, "code"), error
    found: ErrorCode = error.code
    return found


def batch_of(*numbers: int, **more: Any) -> bytearray:
    entries = [Entry(OffsetCommitKey(group="g", topic="t", partition=one), None) for one in numbers]
    rows = [encode(entry) for entry in entries]
    return build([Record(index, 0, key, value) for index, (key, value) in enumerate(rows)], **more)


def written(world: ShardsWorld, *batch_list: bytes | bytearray) -> None:
    """Appends records before the shard is loaded."""
    log = world.log(CONSUMER_OFFSETS)
    for batch in batch_list:
        copy = bytearray(batch)
        patch_offsets(copy, 0, log.end_offset, 0)
        log.append_as_follower(copy, 0)
    world.replicas.partitions[CONSUMER_OFFSETS, 0].advance(0)


def resign(world: ShardsWorld) -> None:
    world.partition_change(CONSUMER_OFFSETS, leader=2, isr=[2])


def lead_again(world: ShardsWorld) -> None:
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER, isr=[BROKER])


def loaded_with(world: ShardsWorld, *batch_list: bytes | bytearray) -> list[Any]:
    """The state of a shard that has loaded these batches."""
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *batch_list)
    resign(world)
    lead_again(world)
    world.ticks_until_loaded()
    return world.book().kept


def test_a_partition_that_is_led_here_serves() -> None:
    world = ShardsWorld()
    assert code_of(world.keep(1)) is ErrorCode.NOT_COORDINATOR
    world.offsets_topic()
    assert value_of(world.keep(1, 2)) == "kept"
    assert world.book().kept == ["loaded", 1, 2]
    log = world.log(CONSUMER_OFFSETS)
    assert (log.end_offset, log.high_watermark) == (2, 2)
    assert list(world.shards.active()) == [0]


def test_a_partition_that_another_leads_does_not() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(2, BROKER), leader=2)
    assert code_of(world.keep(1)) is ErrorCode.NOT_COORDINATOR
    assert list(world.shards.active()) == []


def test_keys_go_to_the_partition_of_their_hash() -> None:
    world = ShardsWorld()
    assert world.shards.partition_for("g") == partition_for_group("g", 50)
    world.offsets_topic(3)
    assert world.shards.partition_for("g") == partition_for_group("g", 3)
    promise = world.shards.submit("g", lambda book, context: Decision((), book.partition))
    assert value_of(promise) == partition_for_group("g", 3)


def test_a_resigned_shard_fails_waiting_requests_and_is_reloaded_later() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    world.keep(1, 2)
    held: Promise[str] = Promise()
    world.book().held.append(held)
    waiting: Promise[str] = world.shards.submit_to_partition(0, lambda book, context: Decision((), held))
    resign(world)
    assert code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert code_of(world.keep(3)) is ErrorCode.NOT_COORDINATOR
    lead_again(world)
    assert world.book().kept == [1, 2, "loaded"]
    assert value_of(world.keep(3)) == "kept"


def test_a_change_that_leaves_the_leadership_leaves_the_shard() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    book = world.book()
    world.partition_change(CONSUMER_OFFSETS, isr=[BROKER, 2])
    assert world.book() is book
    assert book.deltas == 2


def test_a_new_leader_epoch_is_a_new_shard_even_of_the_same_leader() -> None:
    """A shard was identified by its log: it outlived its leader epoch."""
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    world.keep(1, 2)
    before = world.book()
    held: Promise[str] = Promise()
    before.held.append(held)
    waiting: Promise[str] = world.shards.submit_to_partition(0, lambda book, context: Decision((), held))
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER)
    assert code_of(waiting) is ErrorCode.NOT_COORDINATOR
    assert world.book() is not before
    assert world.book().kept == [1, 2, "loaded"]
    assert value_of(world.keep(3)) == "kept"


def test_a_shard_continues_while_its_log_moves_to_another_directory() -> None:
    """A shard was identified by its log: after a move it waited for the high watermark of the old log."""
    world = ShardsWorld(dirs=("/data", "/other"))
    world.offsets_topic()
    assert value_of(world.keep(1)) == "kept"
    before, log = world.book(), world.log(CONSUMER_OFFSETS)
    world.replicas.moves.move(TopicPartition(CONSUMER_OFFSETS, 0), "/other")
    for _ in range(20):
        world.tick(100)
        world.work()
    assert world.log(CONSUMER_OFFSETS) is not log
    assert value_of(world.keep(2)) == "kept"
    assert world.book() is before
    assert before.kept == ["loaded", 1, 2]
    world.partition_change(CONSUMER_OFFSETS, isr=[BROKER])
    assert world.book() is before, "the same leader in the same epoch"


def test_a_recreated_topic_starts_empty() -> None:
    world = ShardsWorld()
    world.offsets_topic()
    world.keep(1)
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids[CONSUMER_OFFSETS]))
    assert code_of(world.keep(2)) is ErrorCode.NOT_COORDINATOR
    world.offsets_topic()
    assert code_of(world.keep(2)) is ErrorCode.NOT_COORDINATOR
    world.settle()
    assert world.book().kept == ["loaded"]


def test_replies_wait_for_the_followers() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    first = world.keep(1)
    read = world.shards.submit_to_partition(0, lambda book, context: Decision((), list(book.kept)))
    world.tick(10)
    assert (value_of(first), value_of(read)) == (PENDING, PENDING)
    world.partition_change(CONSUMER_OFFSETS, isr=[BROKER])
    world.tick()
    assert (value_of(first), value_of(read)) == ("kept", ["loaded", 1])


def follower_catches_up(world: ShardsWorld) -> None:
    hosted = world.replicas.partitions[CONSUMER_OFFSETS, 0]
    now_ns = world.clock.monotonic_ns()
    follower = hosted.follower(2, knows_epoch=True)
    end_offset = world.log(CONSUMER_OFFSETS).end_offset
    hosted.follower_fetched(follower, end_offset, log_start_offset=0, broker_epoch=100, now_ns=now_ns)
    world.replicas.purgatory.changed(hosted)
    world.tick()


@pytest.mark.parametrize("is_in_time", [True, False])
def test_a_timer_set_by_a_request_that_follows_a_reply_is_run(is_in_time: bool) -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    ran: list[str] = []

    def due(context: Context) -> Decision[None]:
        ran.append("timer")
        return Decision((), None)

    def set_timer(book: Book, context: Context) -> Decision[None]:
        book.timers.schedule("timer", 100, due)
        return Decision((), None)

    def ask(answer: object) -> None:
        world.shards.submit_to_partition(0, set_timer)

    world.keep(1).then(ask, ask)
    if is_in_time:
        follower_catches_up(world)
    else:
        world.tick(COMMIT_TIMEOUT_MS)
    world.tick(99)
    assert not ran
    world.tick(1)
    assert ran == ["timer"]


def test_replies_expire_in_order_if_followers_are_too_slow() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    first = world.keep(1)
    world.tick(1_000)
    second = world.keep(2)
    world.tick(COMMIT_TIMEOUT_MS - 1_000)
    assert code_of(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert value_of(second) is PENDING
    world.tick(1_000)
    assert code_of(second) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    third = world.keep(3)
    world.partition_change(CONSUMER_OFFSETS, isr=[BROKER])
    world.tick()
    assert value_of(third) == "kept"


def test_too_few_replicas_are_a_coordinator_that_is_not_available() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,), min_insync_replicas="2")
    assert code_of(world.keep(1)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.book().kept == ["loaded"]
    assert world.log(CONSUMER_OFFSETS).end_offset == 0


def test_batches_use_the_configured_codec() -> None:
    world = ShardsWorld(codec=Codec.GZIP)
    world.offsets_topic()
    world.keep(*range(100))
    log = world.log(CONSUMER_OFFSETS)
    data = log.read(0, 1 << 20, upper_bound=100).slice.read()
    assert [batch.codec for batch in batches(data)] == [Codec.GZIP]
    assert loaded_with(ShardsWorld(), bytearray(data)) == [*range(100), "loaded"]


def test_entries_that_may_be_apart_are_spread_over_batches_that_fit() -> None:
    world = ShardsWorld()
    world.offsets_topic(max_message_bytes="500")
    assert code_of(world.keep(*range(100))) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert value_of(world.keep(*range(100), atomic=False)) == "kept"
    log = world.log(CONSUMER_OFFSETS)
    sizes = [batch.size for batch in batches(log.read(0, 1 << 20, upper_bound=100).slice.read())]
    assert len(sizes) > 5
    assert max(sizes) <= 500
    assert world.book().kept == ["loaded", *range(100)]


def test_timers_of_machines_are_run_by_the_loop() -> None:
    world = ShardsWorld()
    world.offsets_topic()

    def set_timer(book: Book, context: Context) -> Decision[None]:
        entry = Entry(OffsetCommitKey(group="g", topic="t", partition=77), None)
        book.timers.schedule("ring", 500, lambda context: Decision([entry], None))
        return Decision((), None)

    world.shards.submit_to_partition(0, set_timer)
    world.tick(499)
    assert world.book().kept == ["loaded"]
    world.tick(1)
    assert world.book().kept == ["loaded", 77]
    world.shards.submit_to_partition(0, set_timer)
    world.shards.stop()
    world.tick(500)
    assert world.log(CONSUMER_OFFSETS).end_offset == 1


def test_a_broker_that_stops_coordinates_nothing_more() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    waiting = world.keep(1)
    world.shards.stop()
    assert code_of(waiting) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert code_of(world.keep(2)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.replicas.purgatory.watched_keys


def test_a_directory_that_fails_takes_its_shards_with_it() -> None:
    disk = MemoryDisk()
    world = ShardsWorld(disk=disk)
    world.offsets_topic()
    world.keep(1)
    world.replicas.storage.manager.fail("/data", OSError("broken"))
    assert code_of(world.keep(2)) is ErrorCode.NOT_COORDINATOR


# Loading


def test_a_shard_that_takes_long_to_load_says_so() -> None:
    world = ShardsWorld()
    world.load_costs_ms = 6
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *(batch_of(*range(2_500)) for _ in range(6)))
    resign(world)
    lead_again(world)
    assert world.shards.is_loading
    assert code_of(world.keep(1)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.ticks_until_loaded() >= 1
    assert world.book().kept.count(7) == 6


def test_a_shard_applies_deletions_of_topics_that_happened_while_it_was_loading() -> None:
    world = ShardsWorld()
    world.load_costs_ms = 6
    world.topic("going", 1)
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *(batch_of(*range(2_500)) for _ in range(6)))
    resign(world)
    lead_again(world)
    assert world.shards.is_loading
    topic = world.image.topic_named("going")
    assert topic is not None
    world.change(RemoveTopicRecord(topic_id=topic.id))
    world.ticks_until_loaded()
    assert world.book().deltas == 1


def test_a_shard_that_is_lost_while_it_loads_is_forgotten() -> None:
    world = ShardsWorld()
    world.load_costs_ms = 6
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *(batch_of(*range(2_500)) for _ in range(6)))
    resign(world)
    lead_again(world)
    resign(world)
    world.tick(10)
    assert code_of(world.keep(1)) is ErrorCode.NOT_COORDINATOR
    lead_again(world)
    world.ticks_until_loaded()
    assert world.book().kept.count(7) == 6


def test_a_shard_that_is_lost_before_its_turn_is_not_loaded() -> None:
    """An empty log is loaded in no step: the shard of a former leader was made and ran its timers."""
    world = ShardsWorld()
    world.load_costs_ms = 6
    world.offsets_topic(2, replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *(batch_of(*range(2_500)) for _ in range(6)))
    books: list[Book] = []
    made = world.shards._make_machine
    world.shards._make_machine = lambda index: books.append(made(index)) or books[-1]
    for index in range(2):
        world.partition_change(CONSUMER_OFFSETS, index=index, leader=2, isr=[2])
    for index in range(2):
        world.partition_change(CONSUMER_OFFSETS, index=index, leader=BROKER, isr=[BROKER])
    assert world.shards.loading_count == 2
    world.partition_change(CONSUMER_OFFSETS, index=1, leader=2, isr=[2])
    world.ticks_until_loaded()
    world.tick(1)
    assert [(book.partition, "loaded" in book.kept) for book in books] == [(0, True), (1, False)]
    assert list(world.shards.active()) == [0]


def test_a_shard_of_an_earlier_epoch_that_is_loaded_late_is_dropped() -> None:
    # cluster.md 3; the leader is the same, the epoch is not.
    world = ShardsWorld()
    world.load_costs_ms = 6
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    written(world, *(batch_of(*range(2_500)) for _ in range(6)))
    resign(world)
    lead_again(world)
    assert world.shards.is_loading
    assert world.shards.leader_epoch(0) is None
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER)
    world.ticks_until_loaded()
    assert world.shards.leader_epoch(0) == 3
    assert world.book().kept.count(7) == 6


def test_a_shard_appends_nothing_in_a_later_epoch() -> None:
    """Each log entry belongs to the epoch whose records the shard knows."""
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    hosted = world.replicas.partitions[CONSUMER_OFFSETS, 0]
    store = PartitionStore(world.replicas, hosted, hosted.leader_epoch, lambda: Codec.NONE)
    entry = Entry(OffsetCommitKey(group="g", topic="t", partition=1), None)
    store.append([entry], None, 0, None, atomic=True)
    assert store.high_watermark == 1
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER)
    for append in (
        lambda: store.append([entry], None, 0, None, atomic=True),
        lambda: store.append_marker(Marker(1, 0, 0, committed=True), 0),
    ):
        with pytest.raises(KafkaError) as refused:
            append()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.log(CONSUMER_OFFSETS).end_offset == 1
    assert store.high_watermark == -1, "what it appended may be truncated"


def test_timers_of_a_former_coordinator_do_not_run() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    ran: list[str] = []

    def due(context: Context) -> Decision[None]:
        ran.append("timer")
        return Decision((), None)

    def set_timer(book: Book, context: Context) -> Decision[None]:
        book.timers.schedule("timer", 100, due)
        return Decision((), None)

    world.shards.submit_to_partition(0, set_timer)
    resign(world)
    world.tick(1_000)
    assert ran == []


def test_replies_that_wait_for_replicas_fail_when_the_leadership_is_lost() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    waiting = world.keep(1)
    world.partition_change(CONSUMER_OFFSETS, leader=2)
    assert code_of(waiting) is ErrorCode.NOT_COORDINATOR
    # The next leader had the record: its high watermark does not revive the reply.
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER, isr=[BROKER])
    world.tick()
    assert world.book().kept == [1, "loaded"]


def test_a_new_leader_answers_when_its_log_is_committed() -> None:
    # cluster.md 4: what it has may be more than what is committed.
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))
    world.keep(1)
    world.partition_change(CONSUMER_OFFSETS, leader=2)
    world.partition_change(CONSUMER_OFFSETS, leader=BROKER)
    read = world.shards.submit_to_partition(0, lambda book, context: Decision((), list(book.kept)))
    world.tick(10)
    assert value_of(read) is PENDING
    follower_catches_up(world)
    assert value_of(read) == [1, "loaded"]


def test_transactions_and_their_ends_are_loaded_with_their_producers() -> None:
    stamp = {"producer_id": 9, "producer_epoch": 1, "transactional": True, "base_sequence": 0}
    marker = build_marker(EndTransactionMarker(False, 3), timestamp=0, producer_id=9, producer_epoch=1)
    kept = loaded_with(ShardsWorld(), batch_of(1), batch_of(2, 3, **stamp), batch_of(4), marker, batch_of(5))
    assert kept == [1, (2, 9, 1), (3, 9, 1), 4, (9, 1, False), 5, "loaded"]


def damaged(batch: bytearray) -> bytearray:
    """A batch with a valid CRC that claims more records than it has."""
    struct.pack_into(">i", batch, RECORD_COUNT_POSITION, 3)
    struct.pack_into(">I", batch, CRC_POSITION, batch_crc(batch, 0, len(batch)))
    return batch


def test_an_unreadable_batch_is_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    world.keep(1)
    log = world.log(CONSUMER_OFFSETS)
    resign(world)
    for batch in (damaged(batch_of(2, 3)), batch_of(4)):
        patch_offsets(batch, 0, log.end_offset, 0)
        log.append_as_follower(batch, 0)
    lead_again(world)
    world.ticks_until_loaded()
    assert world.book().kept == [1, 4, "loaded"]
    lines = [one.getMessage() for one in caplog.records if "skipped" in one.getMessage()]
    assert len(lines) == 1
    assert "the batch at offset 1 is skipped" in lines[0]
    assert value_of(world.keep(5)) == "kept"


def test_only_the_corrupt_part_of_a_file_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    world = ShardsWorld(disk=disk)
    world.offsets_topic(internal_segment_bytes="200")
    for number in range(7):
        world.keep(number)
    log = world.log(CONSUMER_OFFSETS)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    path = f"{log.folder}/{2:020d}.log"
    image = world.image
    world.shards.stop()
    world.stop()
    with_damage = disk.open(path, create=False)
    place = 70  # in the first record of its first batch
    with_damage.write_at(place, bytes([with_damage.read_at(place, 1)[0] ^ 0xFF]))
    with_damage.close()
    again = ShardsWorld(disk=disk, image=image)
    again.ticks_until_loaded()
    assert again.book().kept == [0, 1, 3, 4, 5, 6, "loaded"]
    assert "the data at offset 2 is skipped" in caplog.text


def test_a_fault_while_loading_leaves_the_partition_unserved(caplog: pytest.LogCaptureFixture) -> None:
    world = ShardsWorld()
    world.load_error = RuntimeError("a fault")
    world.offsets_topic(2, replicas=(BROKER, 2), isr=(BROKER,))
    written(world, batch_of(1))
    resign(world)
    lead_again(world)
    assert not world.shards.is_loading
    assert code_of(world.keep(2)) is ErrorCode.NOT_COORDINATOR
    assert value_of(world.keep(2, index=1)) == "kept"
    assert "cannot be loaded" in caplog.text


def test_a_fault_at_the_end_of_loading_leaves_the_partition_unserved_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It counted as active with a machine whose timers had not started; the error reached the loop."""

    def fault(book: Book, context: Context) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(Book, "loaded", fault)
    world = ShardsWorld()
    world.offsets_topic()
    assert code_of(world.keep(1)) is ErrorCode.NOT_COORDINATOR
    assert "planted" in caplog.text
    assert list(world.shards.active()) == []


# Transactions


class Coordinator:
    """A coordinator whose responses the test controls."""

    def __init__(self) -> None:
        self.asked: list[TransactionalWrite] = []
        self.answer: Promise[PartitionErrors] = Promise()

    def verify(self, write: TransactionalWrite) -> Promise[PartitionErrors]:
        self.asked.append(write)
        return self.answer


STAMP = ProducerStamp(9, 1)


def commit_in_transaction(world: ShardsWorld) -> Promise[str]:
    entry = Entry(OffsetCommitKey(group="g", topic="t", partition=5), None)
    return world.shards.submit_in_transaction(
        "g", "tx", STAMP, lambda book, context: Decision([entry], "kept", producer=STAMP), may_add=True
    )


def test_a_transactional_write_is_verified_first_and_its_end_reaches_the_machine() -> None:
    world = ShardsWorld()
    world.offsets_topic()
    world.replicas.verifier = coordinator = Coordinator()
    promise = commit_in_transaction(world)
    assert value_of(promise) is PENDING
    name = world.replicas.partitions[CONSUMER_OFFSETS, 0].name
    asked = coordinator.asked[0]
    assert (asked.transactional_id, asked.producer_id, list(asked.partitions), asked.may_add) == (
        "tx",
        9,
        [name],
        True,
    )
    coordinator.answer.set({name: ErrorCode.NONE})
    assert value_of(promise) == "kept"
    assert value_of(commit_in_transaction(world)) == "kept", "an open transaction is known"
    assert len(coordinator.asked) == 1
    assert value_of(world.shards.end_transaction(0, Marker(9, 1, 0, committed=True))) is None
    assert world.book().kept == ["loaded", (5, 9, 1), (5, 9, 1), (9, 1, True)]
    log = world.log(CONSUMER_OFFSETS)
    assert log.last_stable_offset == log.end_offset == 3


def test_a_transaction_that_is_not_open_writes_nothing() -> None:
    world = ShardsWorld()
    world.offsets_topic()
    world.replicas.verifier = coordinator = Coordinator()
    promise = commit_in_transaction(world)
    coordinator.answer.set({world.replicas.partitions[CONSUMER_OFFSETS, 0].name: ErrorCode.INVALID_TXN_STATE})
    assert code_of(promise) is ErrorCode.INVALID_TXN_STATE
    assert world.log(CONSUMER_OFFSETS).end_offset == 0


def test_a_shard_that_is_lost_while_its_transaction_is_verified_writes_nothing() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2), isr=(BROKER,))
    world.replicas.verifier = coordinator = Coordinator()
    promise = commit_in_transaction(world)
    resign(world)
    coordinator.answer.set({})
    assert code_of(promise) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("when", ["applied", "committed", "due"])
def test_a_failed_shard_is_reloaded(
    when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Records that could not be applied are in the log: a reloaded machine has them."""
    world = ShardsWorld()
    world.offsets_topic()
    assert value_of(world.keep(1)) == "kept"
    broken = world.book()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    def set_timer(book: Book, context: Context) -> Decision[None]:
        entry = Entry(OffsetCommitKey(group="g", topic="t", partition=2), None)
        book.timers.schedule("ring", 500, lambda context: Decision([entry], None))
        return Decision((), None)

    if when == "committed":
        assert code_of(world.keep(2, committed=fail)) is ErrorCode.NOT_COORDINATOR
    else:
        monkeypatch.setattr(broken, "apply", fail)
        if when == "applied":
            assert code_of(world.keep(2)) is ErrorCode.NOT_COORDINATOR
        else:
            world.shards.submit_to_partition(0, set_timer)
            world.tick(500)
    assert "a coordinator's state is broken" in caplog.text
    world.ticks_until_loaded()
    assert world.book() is not broken
    assert world.book().kept == [1, 2, "loaded"]
    assert value_of(world.keep(3)) == "kept"


def test_a_shard_that_fails_at_a_delayed_commit_is_reloaded() -> None:
    world = ShardsWorld()
    world.offsets_topic(replicas=(BROKER, 2))

    def fail() -> None:
        raise RuntimeError("a fault")

    broken = world.book()
    asked = world.keep(1, committed=fail)
    after = world.keep(2)
    follower_catches_up(world)
    assert code_of(asked) is ErrorCode.NOT_COORDINATOR
    assert code_of(after) is ErrorCode.NOT_COORDINATOR
    world.ticks_until_loaded()
    assert world.book() is not broken
