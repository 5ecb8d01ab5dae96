"""The admin client: groups with members, hanging transactions, and unsupported group types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.client import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.client.admin.cluster_calls import Endpoint
from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
from barnabas.client.admin.groups.groups import MemberToRemove
from barnabas.client.admin.transactions import AbortTransactionSpec
from tests.client.live.work import Run, fill, make_topic, read, until


def test_members_are_described_and_removed(bootstrap: str, topic: str, group: str, run: Run) -> None:
    # M-A7
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)
        options: dict[str, Any] = {
            "group_id": group,
            "group_instance_id": "one",
            "session_timeout_ms": 30_000,
        }
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Consumer(bootstrap_servers=bootstrap, **options) as consumer,
        ):
            consumer.subscribe([topic])

            async def has_both() -> bool:
                await consumer.poll(50)
                return len(consumer.assignment()) == 2

            await until(has_both)
            found = (await admin.describe_classic_groups([group]))[group]
            assert (found.state, found.protocol_type, found.type) == ("Stable", "consumer", "Classic")
            assert [member.group_instance_id for member in found.members] == ["one"]
            listed = {one.group_id: one for one in (await admin.list_consumer_groups()).groups}
            assert (listed[group].state, listed[group].type) == ("Stable", "Classic")
            refused = await admin.delete_consumer_groups([group])
            assert isinstance(refused.errors[group], client_errors.NonEmptyGroupError)
            unknown = MemberToRemove("nobody")
            removed = await admin.remove_members_from_consumer_group(group, [unknown])
            assert isinstance(removed.errors[unknown], client_errors.UnknownMemberIdError)
            (await admin.remove_members_from_consumer_group(group, reason="to test it")).raise_first()

            async def is_empty() -> bool:
                return (await admin.describe_classic_groups([group]))[group].state == "Empty"

            # It is not polled again, so it cannot return.
            await until(is_empty)
            (await admin.delete_consumer_groups([group])).raise_first()
            assert group not in {one.group_id for one in (await admin.list_consumer_groups()).groups}

    run(work())


def test_a_hanging_transaction_is_ended_in_a_partition(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        async with (
            Admin(bootstrap_servers=bootstrap) as admin,
            Producer(bootstrap_servers=bootstrap, transactional_id=fresh_name()) as producer,
        ):
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"hangs")
            await fill(bootstrap, topic, [b"behind it"])
            states = (await admin.describe_producers([partition]))[partition]
            [state] = [one for one in states if one.current_txn_start_offset == 0]
            spec = AbortTransactionSpec(
                partition, state.producer_id, state.producer_epoch, state.coordinator_epoch
            )
            await admin.abort_transaction(spec)
            [record] = await read(bootstrap, topic, 1, isolation_level="read_committed")
            assert record.value == b"behind it"

    run(work())


def test_an_open_transaction_is_ended_by_its_name(
    bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        name = fresh_name()
        async with Admin(bootstrap_servers=bootstrap) as admin:
            producer = Producer(bootstrap_servers=bootstrap, transactional_id=name)
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send_and_wait(topic, b"x")
            await admin.force_terminate_transaction(name)
            assert (await admin.describe_transactions([name]))[name].state == "Empty"
            with pytest.raises(client_errors.KafkaError):
                await producer.commit_transaction()
            await producer.close()

    run(work())


def test_whole_configurations_are_replaced(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, retention_ms="60000")
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        async with Admin(bootstrap_servers=bootstrap) as admin:

            async def values() -> tuple[str | None, str | None]:
                found = (await admin.describe_configs([resource]))[resource]
                return found["retention.ms"].value, found["segment.ms"].value

            before = await values()
            assert before[0] == "60000"
            tried = await admin.alter_configs({resource: {"segment.ms": "7000"}}, validate_only=True)
            tried.raise_first()
            assert await values() == before
            (await admin.alter_configs({resource: {"segment.ms": "7000"}})).raise_first()

            async def is_replaced() -> bool:
                return await values() == ("604800000", "7000")

            await until(is_replaced)

    run(work())


def test_delegation_tokens_are_not_enabled(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            refusals = (
                client_errors.DelegationTokenAuthDisabledError,
                client_errors.DelegationTokenRequestNotAllowedError,
            )
            with pytest.raises(refusals):
                await admin.create_delegation_token()
            with pytest.raises(refusals):
                await admin.renew_delegation_token(b"x")
            with pytest.raises(refusals):
                await admin.expire_delegation_token(b"x")
            with pytest.raises(refusals):
                await admin.describe_delegation_token()

    run(work())


def test_configured_voters_neither_come_nor_go(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        directory_id = Uuid(bytes(15) + b"\1")
        async with Admin(bootstrap_servers=bootstrap) as admin:
            with pytest.raises(client_errors.UnsupportedVersionError):
                await admin.add_raft_voter(99, directory_id, [Endpoint("CONTROLLER", "localhost", 1)])
            with pytest.raises(client_errors.UnsupportedVersionError):
                await admin.remove_raft_voter(99, directory_id)

    run(work())


def test_groups_of_kinds_that_there_are_none_of(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            for asked in (
                admin.describe_share_groups(["s"]),
                admin.list_share_group_offsets({"s": [partition]}),
                admin.alter_share_group_offsets("s", {partition: 0}),
                admin.delete_share_group_offsets("s", [topic]),
                admin.delete_share_groups(["s"]),
                admin.describe_streams_groups(["s"]),
                admin.delete_streams_groups(["s"]),
                admin.delete_streams_group_offsets("s", [partition]),
            ):
                with pytest.raises(
                    (client_errors.GroupIdNotFoundError, client_errors.UnsupportedVersionError)
                ):
                    (await asked).raise_first()
            offset = OffsetAndMetadata(1)
            (await admin.alter_streams_group_offsets(topic, {partition: offset})).raise_first()
            found = (await admin.list_streams_group_offsets({topic: [partition]}))[topic][partition]
            assert found is not None
            assert found.offset == 1

    run(work())
