"""Consumers in groups, by both protocols.  M-A6, M-G1, M-G2, M-G3"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, Producer, TopicPartition
from barnabas.client import errors as client_errors
from tests.client.live.work import Run, make_topic, offsets, until

PROTOCOLS = ("classic", "consumer")
CLASSIC_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")


class Diary:
    """A listener that writes everything down."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.lines.append(("assigned", [partition.partition for partition in partitions]))

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        self.lines.append(("revoked", [partition.partition for partition in partitions]))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.lines.append(("lost", [partition.partition for partition in partitions]))


class Member:
    """A consumer that is polled all the time."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.values: Counter[bytes] = Counter()
        self.error: Exception | None = None
        self._task = asyncio.ensure_future(self._poll())

    async def _poll(self) -> None:
        try:
            while True:
                for record in await self.consumer.poll(100):
                    assert isinstance(record.value, bytes)
                    self.values[record.value] += 1
        except client_errors.KafkaError as error:
            self.error = error

    @property
    def numbers(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    async def stop(self) -> None:
        """Stop polling, without leaving the group."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def close(self) -> None:
        await self.stop()
        await self.consumer.close()


@contextlib.asynccontextmanager
async def members(count: int, make: Callable[[int], Consumer]) -> AsyncIterator[list[Member]]:
    made = [Member(make(number)) for number in range(count)]
    try:
        yield made
    finally:
        for member in made:
            await member.close()


def settings(bootstrap: str, group: str, protocol: str, **more: Any) -> dict[str, Any]:
    classic = {"heartbeat_interval_ms": 100, "session_timeout_ms": 30_000} if protocol == "classic" else {}
    return {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        **classic,
        **more,
    }


async def send_numbers(bootstrap: str, topic: str, partitions: int, count: int, first: int = 0) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_and_take_over(bootstrap: str, topic: str, group: str, run: Run, protocol: str) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 4)
        diary = Diary()

        def make(number: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, protocol))
            consumer.subscribe([topic], listener=diary if number == 0 else None)
            return consumer

        async with members(2, make) as (one, other):
            await until(lambda: len(one.numbers) == len(other.numbers) == 2)
            assert one.numbers | other.numbers == {0, 1, 2, 3}
            await send_numbers(bootstrap, topic, 4, 100)
            await until(lambda: sum((one.values + other.values).values()) >= 100)
            assert set((one.values + other.values).values()) == {1}
            async with Admin(bootstrap_servers=bootstrap) as admin:
                described = (await admin.describe_consumer_groups([group]))[group]
                assert described.state == "Stable"
                assert sorted(len(member.assignment) for member in described.members) == [2, 2]
            await other.close()
            await until(lambda: one.numbers == {0, 1, 2, 3})
            await send_numbers(bootstrap, topic, 4, 100, 100)
            total = one.values + other.values
            await until(lambda: sum((one.values + other.values).values()) >= 200)
            total = one.values + other.values
            assert set(total.values()) == {1}, "what the member that left had read was committed"
        assert diary.lines[0][0] == "assigned"
        assert diary.lines[-1] == ("revoked", [0, 1, 2, 3])

    run(work())


@pytest.mark.parametrize("strategy", CLASSIC_STRATEGIES)
def test_every_assignor(bootstrap: str, topic: str, group: str, run: Run, strategy: str) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 6)
        diaries = [Diary() for _ in range(3)]

        def make(number: int) -> Consumer:
            options = settings(bootstrap, group, "classic", partition_assignment_strategy=[strategy])
            consumer = Consumer(**options)
            consumer.subscribe([topic], listener=diaries[number])
            return consumer

        async with members(3, make) as all_of_them:
            await until(lambda: [len(one.numbers) for one in all_of_them] == [2, 2, 2])
            assert set().union(*(one.numbers for one in all_of_them)) == set(range(6))
            kept = [one.numbers for one in all_of_them[:2]]
            await all_of_them[2].close()
            await until(lambda: [len(one.numbers) for one in all_of_them[:2]] == [3, 3])
            if "sticky" in strategy:
                for before, member in zip(kept, all_of_them, strict=False):
                    assert before < member.numbers
            if strategy == "cooperative-sticky":
                taken = [line for line in diaries[0].lines if line[0] == "revoked"]
                assert all(len(numbers) < 6 for _, numbers in taken[1:])

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_group_gets_every_record(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run, protocol: str
) -> None:
    # M-A6
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)

        def make(number: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, fresh_name(), protocol))
            consumer.subscribe([topic])
            return consumer

        await send_numbers(bootstrap, topic, 2, 50)
        async with members(2, make) as (one, other):
            await until(lambda: len(one.values) == len(other.values) == 50)

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_surplus_members_idle(bootstrap: str, topic: str, group: str, run: Run, protocol: str) -> None:
    # M-G2
    async def work() -> None:
        await make_topic(bootstrap, topic, 1)

        def make(_: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, protocol))
            consumer.subscribe([topic])
            return consumer

        async with members(2, make) as both, Admin(bootstrap_servers=bootstrap) as admin:

            async def are_settled() -> bool:
                found = (await admin.describe_consumer_groups([group])).values_by_key.get(group)
                return found is not None and found.state == "Stable" and len(found.members) == 2

            await until(are_settled)
            await until(lambda: sorted(len(one.numbers) for one in both) == [0, 1])

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_new_partitions_are_read_from_their_start(
    bootstrap: str, topic: str, group: str, run: Run, protocol: str
) -> None:
    # M-G2
    async def work() -> None:
        await make_topic(bootstrap, topic, 1)

        def make(_: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, protocol, metadata_max_age_ms=200))
            consumer.subscribe([topic])
            return consumer

        async with members(1, make) as (member,), Admin(bootstrap_servers=bootstrap) as admin:
            await until(lambda: member.numbers == {0})
            (await admin.create_partitions({topic: 3})).raise_first()
            await send_numbers(bootstrap, topic, 3, 30)
            await until(lambda: member.numbers == {0, 1, 2})
            await until(lambda: len(member.values) == 30)

    run(work())


def test_a_topic_that_is_missing_does_not_keep_a_group_from_the_others(
    bootstrap: str, topic: str, group: str, run: Run
) -> None:
    """Its leader plans with the topics that there are."""

    async def work() -> None:
        await make_topic(bootstrap, topic)
        await send_numbers(bootstrap, topic, 1, 1)
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "allow_auto_create_topics": False}
        async with Consumer(
            topic, f"{topic}-missing", bootstrap_servers=bootstrap, group_id=group, **options
        ) as consumer:
            assert (await consumer.getone()).topic == topic
            assert consumer.assignment() == {TopicPartition(topic, 0)}

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pattern_finds_topics_that_come_later(
    bootstrap: str, topic: str, group: str, run: Run, protocol: str
) -> None:
    # M-G2
    async def work() -> None:
        await make_topic(bootstrap, f"{topic}-one")

        def make(_: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, protocol, metadata_max_age_ms=200))
            consumer.subscribe(pattern=f"{topic}-.*")
            return consumer

        async with members(1, make) as (member,):
            await until(lambda: member.consumer.subscription() == {f"{topic}-one"})
            await make_topic(bootstrap, f"{topic}-two")
            await until(lambda: member.consumer.subscription() == {f"{topic}-one", f"{topic}-two"})
            await until(lambda: len(member.consumer.assignment()) == 2)

    run(work())


def test_a_pattern_that_the_broker_matches(bootstrap: str, topic: str, group: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, f"{topic}-one", 2)

        def make(_: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, "consumer"))
            consumer.subscribe(server_pattern=f"{topic}-o.*")
            return consumer

        async with members(1, make) as (member,):
            await until(lambda: len(member.consumer.assignment()) == 2)
        with pytest.raises(ValueError, match=r"group\.protocol"):
            async with Consumer(**settings(bootstrap, group, "classic")) as consumer:
                consumer.subscribe(server_pattern="x")

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_comes_back_to_what_it_had(
    bootstrap: str, topic: str, group: str, run: Run, protocol: str
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 4)

        def make(number: int) -> Consumer:
            consumer = Consumer(
                **settings(bootstrap, group, protocol, group_instance_id=f"instance-{number}")
            )
            consumer.subscribe([topic])
            return consumer

        async with members(2, make) as (one, other):
            await until(lambda: len(one.numbers) == len(other.numbers) == 2)
            had, others = set(other.numbers), set(one.numbers)
            await other.close()
            again = Member(make(1))
            await until(lambda: again.numbers == had)
            assert one.numbers == others, "the others were left alone"
            await again.close()

    run(work())


def test_two_with_the_same_instance_id(bootstrap: str, topic: str, group: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)

        def make(_: int) -> Consumer:
            consumer = Consumer(**settings(bootstrap, group, "classic", group_instance_id="the same"))
            consumer.subscribe([topic])
            return consumer

        async with members(1, make) as (older,):
            await until(lambda: older.numbers == {0})
            newer = Member(make(1))
            await until(lambda: older.error is not None)
            assert isinstance(older.error, client_errors.FencedInstanceIdError)
            await until(lambda: newer.numbers == {0})
            await newer.close()

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_does_not_poll_is_dropped_and_may_come_back(
    bootstrap: str, topic: str, group: str, run: Run, protocol: str
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        diary = Diary()

        def make(number: int) -> Consumer:
            # The first one is slow, the others are not.
            interval_ms = 600 if number == 0 else 60_000
            options = settings(bootstrap, group, protocol, max_poll_interval_ms=interval_ms)
            consumer = Consumer(**options)
            consumer.subscribe([topic], listener=diary if number == 0 else None)
            return consumer

        async with members(1, make) as (slow,):
            await until(lambda: slow.numbers == {0})
            await slow.stop()
            quick = Member(make(1))
            await until(lambda: quick.numbers == {0})
            partition = TopicPartition(topic, 0)
            with pytest.raises(client_errors.KafkaError):
                await slow.consumer.commit({partition: 1}, timeout_ms=1000)
            await quick.close()
            slow = Member(slow.consumer)
            await until(lambda: diary.lines[-1:] == [("assigned", [0])] and ("lost", [0]) in diary.lines)
            await slow.close()

    run(work())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subscriptions_change_and_end(
    bootstrap: str, topic: str, group: str, run: Run, protocol: str
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, f"{topic}-a")
        await make_topic(bootstrap, f"{topic}-b")
        async with Consumer(**settings(bootstrap, group, protocol)) as consumer:

            async def has(*names: str) -> bool:
                await consumer.poll(50)
                return {partition.topic for partition in consumer.assignment()} == {
                    f"{topic}-{name}" for name in names
                }

            consumer.subscribe([f"{topic}-a"])
            await until(lambda: has("a"))
            consumer.subscribe([f"{topic}-a", f"{topic}-b"])
            await until(lambda: has("a", "b"))
            consumer.subscribe([f"{topic}-b"])
            await until(lambda: has("b"))
            await consumer.unsubscribe()
            assert consumer.assignment() == frozenset()
            consumer.assign([TopicPartition(f"{topic}-a", 0)])
            assert await consumer.poll(50) == []

    run(work())


def test_a_transaction_reads_and_writes(
    bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str], run: Run
) -> None:
    """Consume, transform, produce: exactly once."""

    async def work() -> None:
        target = fresh_name()
        await make_topic(bootstrap, topic)
        await make_topic(bootstrap, target)
        await send_numbers(bootstrap, topic, 1, 20)
        options = settings(bootstrap, group, "classic", enable_auto_commit=False, max_poll_records=5)
        partition = TopicPartition(topic, 0)
        async with (
            Consumer(**options) as consumer,
            Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer,
        ):
            await producer.init_transactions()
            consumer.subscribe([topic])
            done = 0
            while done < 20:
                records = await consumer.poll(200)
                if not records:
                    continue
                producer.begin_transaction()
                for record in records:
                    await producer.send(target, b"<%s>" % record.value)
                done += len(records)
                await producer.send_offsets_to_transaction(
                    consumer._out.consumed(), consumer.group_metadata()
                )
                await producer.commit_transaction()
            assert offsets(await consumer.committed([partition])) == {0: 20}

    run(work())
