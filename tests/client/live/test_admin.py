"""The admin client against a broker: every area, what it gives and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas.base.ids import ZERO_UUID
from barnabas.client import (
    Admin,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TopicPartitionReplica,
)
from barnabas.client import errors as client_errors
from barnabas.client.admin.cluster_calls import FeatureUpdate
from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.admin.security.acls import AclBinding, AclBindingFilter
from barnabas.client.admin.security.quotas import QuotaAlteration, QuotaFilter, QuotaMatch, quota_entity
from barnabas.client.admin.security.scram import ScramDeletion, ScramUpsertion
from barnabas.config.layers import ConfigSource
from barnabas.metadata.scram import ScramMechanism
from barnabas.security.acls import Operation, ResourceType
from tests.client.live.work import Run, fill, make_topic, until
from tests.recent import RECENT_MS

BROKER = 1


def test_topics_from_creation_to_deletion(bootstrap: str, topic: str, run: Run) -> None:
    # M-A2
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            wanted = [NewTopic(topic, 3, 1, configs={"segment.bytes": "1048576"}), NewTopic("no/name", 1, 1)]
            made = await admin.create_topics(wanted)
            assert made[topic].num_partitions == 3
            assert made[topic].id != ZERO_UUID
            assert made[topic].configs["segment.bytes"].value == "1048576"
            assert isinstance(made.error_of("no/name"), client_errors.InvalidTopicError)
            with pytest.raises(client_errors.InvalidTopicError):
                made.raise_first()
            again = await admin.create_topics([NewTopic(topic, 1, 1)])
            assert isinstance(again.errors[topic], client_errors.TopicAlreadyExistsError)

            await until(lambda: _exists(admin, topic))
            (grown, unknown) = (
                (await admin.create_partitions({topic: 5, "nobody": 2})).errors.get(topic),
                topic,
            )
            assert grown is None
            assert unknown == topic

            async def has_five() -> bool:
                return len((await admin.describe_topics([topic]))[topic].partitions) == 5

            await until(has_five)
            found = (await admin.describe_topics([topic]))[topic]
            assert [partition.partition for partition in found.partitions] == [0, 1, 2, 3, 4]
            assert found.partitions[0].replicas == found.partitions[0].isr == (BROKER,)
            by_id = await admin.describe_topics([found.id])
            assert by_id[found.id].name == topic

            outcome = await admin.delete_topics([topic, "nobody"])
            assert outcome[topic] is None
            assert isinstance(outcome.errors["nobody"], client_errors.UnknownTopicOrPartitionError)
            await until(lambda: _is_gone(admin, topic))

    run(work())


async def _exists(admin: Admin, topic: str) -> bool:
    return topic in await admin.list_topics()


async def _is_gone(admin: Admin, topic: str) -> bool:
    return topic not in await admin.list_topics()


def test_validate_only_creates_nothing(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            made = await admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True)
            assert made[topic].num_partitions == 2
            assert topic not in await admin.list_topics()

    run(work())


def test_a_topic_is_placed_by_hand(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            made = await admin.create_topics([NewTopic(topic, assignments={0: [BROKER], 1: [BROKER]})])
            assert made[topic].num_partitions == 2

    run(work())


def test_configs_are_set_appended_and_deleted(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)

        async def value(name: str) -> tuple[str | None, ConfigSource]:
            entry = (await admin.describe_configs([resource]))[resource][name]
            return entry.value, entry.source

        async with Admin(bootstrap_servers=bootstrap) as admin:
            changes = [
                AlterConfig("retention.ms", "60000"),
                AlterConfig("cleanup.policy", "compact", AlterOperation.APPEND),
            ]
            (await admin.incremental_alter_configs({resource: changes})).raise_first()

            async def is_set() -> bool:
                return await value("retention.ms") == ("60000", ConfigSource.DYNAMIC_TOPIC_CONFIG)

            await until(is_set)
            assert (await value("cleanup.policy"))[0] == "delete,compact"
            removal = AlterConfig("retention.ms", None, AlterOperation.DELETE)
            (await admin.incremental_alter_configs({resource: [removal]})).raise_first()

            async def is_default() -> bool:
                return (await value("retention.ms"))[1] is not ConfigSource.DYNAMIC_TOPIC_CONFIG

            await until(is_default)
            refused = await admin.incremental_alter_configs({resource: [AlterConfig("nonsense", "1")]})
            assert isinstance(refused.errors[resource], client_errors.InvalidConfigError)

    run(work())


def test_a_brokers_own_configs(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        resource = ConfigResource(ConfigResourceType.BROKER, str(BROKER))
        async with Admin(bootstrap_servers=bootstrap) as admin:
            found = await admin.describe_configs(
                [resource], names=["node.id"], include_synonyms=True, include_documentation=True
            )
            entry = found[resource]["node.id"]
            assert (entry.value, entry.is_read_only) == (str(BROKER), True)
            assert entry.documentation
            assert resource in await admin.list_config_resources([ConfigResourceType.BROKER])

    run(work())


def test_offsets_and_the_deletion_of_records(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                await producer.send(topic, b"x", partition=0, timestamp_ms=RECENT_MS + number)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            found = await admin.list_offsets({first: OffsetSpec.LATEST, second: OffsetSpec.EARLIEST})
            assert (found[first].offset, found[second].offset) == (10, 0)
            found = await admin.list_offsets({first: RECENT_MS + 4})
            assert (found[first].offset, found[first].timestamp) == (4, RECENT_MS + 4)
            assert (await admin.list_offsets({first: OffsetSpec.MAX_TIMESTAMP}))[first].offset == 9
            lows = await admin.delete_records({first: 4, second: 1})
            assert lows[first] == 4
            assert isinstance(lows.errors[second], client_errors.OffsetOutOfRangeError)
            assert (await admin.list_offsets({first: OffsetSpec.EARLIEST}))[first].offset == 4
            missing = await admin.list_offsets({TopicPartition(topic, 7): OffsetSpec.LATEST}, timeout_ms=2000)
            assert missing.errors
            (state,) = (await admin.describe_producers([first]))[first]
            assert state.last_sequence == 9

    run(work())


def test_log_dirs(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, [b"x" * 100])
        partition = TopicPartition(topic, 0)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            (path, directory) = next(iter((await admin.describe_log_dirs([BROKER]))[BROKER].items()))
            assert directory.error is None
            assert directory.replicas[partition].size_bytes > 100
            replica = TopicPartitionReplica(topic, 0, BROKER)
            placed = (await admin.describe_replica_log_dirs([replica]))[replica]
            assert (placed.current_path, placed.future_path) == (path, None)
            moved = await admin.alter_replica_log_dirs({replica: "/no/such/folder"})
            assert moved.errors

    run(work())


def test_elections_and_reassignments(bootstrap: str, topic: str, run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        partition = TopicPartition(topic, 0)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            elected = await admin.elect_leaders(ElectionType.PREFERRED, [partition])
            assert isinstance(elected.errors[partition], client_errors.ElectionNotNeededError)
            assert len(await admin.elect_leaders(ElectionType.PREFERRED)) == 0
            stopped = await admin.alter_partition_reassignments({partition: None})
            assert isinstance(stopped.errors[partition], client_errors.NoReassignmentInProgressError)
            assert (await admin.alter_partition_reassignments({partition: [BROKER]}))[partition] is None
            assert await admin.list_partition_reassignments([partition]) == {}

    run(work())


def test_offsets_of_a_group_without_members(bootstrap: str, topic: str, group: str, run: Run) -> None:
    # M-A7
    async def work() -> None:
        await make_topic(bootstrap, topic, 2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            offset = OffsetAndMetadata(0, metadata="by hand")
            (await admin.alter_consumer_group_offsets(group, {first: offset})).raise_first()
            found = (await admin.list_consumer_group_offsets({group: [first, second]}))[group]
            position = found[first]
            assert position is not None
            assert position.metadata == "by hand"
            assert found[second] is None
            assert group in {one.group_id for one in (await admin.list_groups()).groups}
            described = await admin.describe_consumer_groups([group, "nobody"])
            assert (described[group].state, described[group].is_simple) == ("Empty", True)
            assert isinstance(described.errors["nobody"], client_errors.GroupIdNotFoundError)
            (await admin.delete_consumer_group_offsets(group, [first])).raise_first()
            assert (await admin.list_consumer_group_offsets({group: [first]}))[group][first] is None
            (await admin.delete_groups([group])).raise_first()
            assert (await admin.delete_groups([group])).errors

    run(work())


def test_transactional_ids(bootstrap: str, topic: str, fresh_name: Callable[[], str], run: Run) -> None:
    async def work() -> None:
        await make_topic(bootstrap, topic)
        name = fresh_name()
        async with Admin(bootstrap_servers=bootstrap) as admin:
            async with Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
                await producer.init_transactions()
                producer.begin_transaction()
                await producer.send_and_wait(topic, b"x")
                described = (await admin.describe_transactions([name]))[name]
                assert described.state == "Ongoing"
                assert described.partitions == {TopicPartition(topic, 0)}
                listed = (await admin.list_transactions(states=["Ongoing"]))[BROKER]
                assert name in {one.transactional_id for one in listed}
                await producer.commit_transaction()
            fenced = (await admin.fence_producers([name]))[name]
            assert fenced.producer_id == described.producer_id
            assert fenced.producer_epoch > described.producer_epoch
            missing = await admin.describe_transactions(["nobody"])
            assert isinstance(missing.errors["nobody"], client_errors.TransactionalIdNotFoundError)

    run(work())


def test_quotas(bootstrap: str, fresh_name: Callable[[], str], run: Run) -> None:
    async def work() -> None:
        entity = quota_entity(user=fresh_name())
        wanted = [QuotaFilter("user", QuotaMatch.EXACT, entity[0][1])]
        async with Admin(bootstrap_servers=bootstrap) as admin:
            set_it = QuotaAlteration(entity, {"producer_byte_rate": 1e9})
            (await admin.alter_client_quotas([set_it])).raise_first()

            async def is_set() -> bool:
                found = await admin.describe_client_quotas(wanted, strict=True)
                return found == {entity: {"producer_byte_rate": 1e9}}

            await until(is_set)
            (
                await admin.alter_client_quotas([QuotaAlteration(entity, {"producer_byte_rate": None})])
            ).raise_first()

            async def is_gone() -> bool:
                return await admin.describe_client_quotas(wanted, strict=True) == {}

            await until(is_gone)

    run(work())


def test_scram_credentials(bootstrap: str, fresh_name: Callable[[], str], run: Run) -> None:
    async def work() -> None:
        user, mechanism = fresh_name(), ScramMechanism.SCRAM_SHA_256
        async with Admin(bootstrap_servers=bootstrap) as admin:
            (
                await admin.alter_user_scram_credentials([ScramUpsertion(user, mechanism, "secret")])
            ).raise_first()

            async def is_set() -> bool:
                found = (await admin.describe_user_scram_credentials([user])).values_by_key.get(user)
                return found is not None and found[0].iterations == 4096

            await until(is_set)
            (await admin.alter_user_scram_credentials([ScramDeletion(user, mechanism)])).raise_first()
            again = await admin.alter_user_scram_credentials([ScramDeletion(user, mechanism)])
            assert isinstance(again.errors[user], client_errors.ResourceNotFoundError)

    run(work())


def test_acls_without_an_authorizer(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        binding = AclBinding(ResourceType.TOPIC, "t", "User:alice", Operation.READ)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            with pytest.raises(client_errors.SecurityDisabledError) as refused:
                await admin.describe_acls()
            assert "authorizer" in refused.value.advice
            assert (await admin.create_acls([binding])).errors
            assert (await admin.delete_acls([AclBindingFilter()])).errors

    run(work())


def test_the_cluster_itself(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            cluster = await admin.describe_cluster()
            assert [node.id for node in cluster.nodes] == [BROKER]
            assert cluster.cluster_id
            features = await admin.describe_features()
            assert features.finalized["metadata.version"][1] > 0
            with pytest.raises(client_errors.InvalidUpdateVersionError):
                await admin.update_features({"metadata.version": FeatureUpdate(9999)})
            quorum = await admin.describe_metadata_quorum()
            assert quorum.leader_id == BROKER
            assert [voter.id for voter in quorum.voters] == [BROKER]
            with pytest.raises(client_errors.BrokerIdNotRegisteredError):
                await admin.unregister_broker(77)
            (versions,) = (await admin.describe_api_versions()).values()
            assert 3 in versions  # type: ignore[operator]  # a mapping, as the broker lives

    run(work())


def test_calls_side_by_side(bootstrap: str, run: Run) -> None:
    async def work() -> None:
        async with Admin(bootstrap_servers=bootstrap) as admin:
            responses = await asyncio.gather(*(admin.describe_cluster() for _ in range(50)))
            assert len({answer.cluster_id for answer in responses}) == 1

    run(work())
