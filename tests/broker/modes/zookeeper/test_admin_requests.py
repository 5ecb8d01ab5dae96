"""Options, quotas, credentials and ACLs: what the broker that is asked writes, and the others then know.

The znodes are those of Apache Kafka 3.9.1 for the same commands.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from tests.broker.worlds.zookeeper_world import ZooKeeperBrokers

ACLS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}


@pytest.fixture
def two(zookeeper_connect: str) -> Iterator[ZooKeeperBrokers]:
    with ZooKeeperBrokers(zookeeper_connect, 2, ACLS) as cluster:
        cluster.until(lambda: any(broker.metadata.is_active for broker in cluster.brokers.values()))
        yield cluster


def not_controller(cluster: ZooKeeperBrokers) -> int:
    return next(number for number, broker in cluster.brokers.items() if not broker.metadata.is_active)


def data_of(cluster: ZooKeeperBrokers, session: ZooKeeperClient, path: str) -> str | None:
    znode = cluster.run(lambda: session.get(path))
    return None if znode is None else (znode.data or b"").decode()


def announced(cluster: ZooKeeperBrokers, session: ZooKeeperClient, path: str) -> list[str | None]:
    names = cluster.run(lambda: session.children(path)) or []
    return [data_of(cluster, session, f"{path}/{name}") for name in names]


def alter(kind: int, name: str, **options: str | None) -> IncrementalAlterConfigsRequest:
    make = IncrementalAlterConfigsRequest
    configs = [
        make.AlterableConfig(name=option.replace("_", "."), config_operation=0 if value else 1, value=value)
        for option, value in options.items()
    ]
    resource = make.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return make(resources=[resource], validate_only=False)


def test_options_are_written_and_announced(two: ZooKeeperBrokers) -> None:
    # M-B2
    two.topic("orders", configs={"min.insync.replicas": "2"})
    session, broker_id = two.client(), not_controller(two)
    two.until(lambda: two.brokers[broker_id].image.topic_named("orders") is not None)
    request = alter(2, "orders", retention_ms="86400000", cleanup_policy="compact,delete")
    assert two.ask(broker_id, request, 1).responses[0].error_code == ErrorCode.NONE
    assert data_of(two, session, "/config/topics/orders") == (
        '{"version":1,"config":'
        '{"cleanup.policy":"compact,delete","min.insync.replicas":"2","retention.ms":"86400000"}}'
    )
    assert two.ask(1, alter(4, "1", log_cleaner_threads="2"), 1).responses[0].error_code == ErrorCode.NONE
    assert data_of(two, session, "/config/brokers/1") == '{"version":1,"config":{"log.cleaner.threads":"2"}}'
    default = alter(4, "", message_max_bytes="2000000")
    assert two.ask(broker_id, default, 1).responses[0].error_code == ErrorCode.NONE
    expected = '{"version":1,"config":{"message.max.bytes":"2000000"}}'
    assert data_of(two, session, "/config/brokers/<default>") == expected
    assert announced(two, session, paths.CONFIG_CHANGES) == [
        '{"version":2,"entity_path":"topics/orders"}',
        '{"version":2,"entity_path":"brokers/1"}',
        '{"version":2,"entity_path":"brokers/<default>"}',
    ]
    brokers = two.brokers.values()
    two.until(lambda: all(broker.settings["message.max.bytes"] == 2_000_000 for broker in brokers))
    two.until(lambda: all(len(broker.image.configs_of(2, "orders")) == 3 for broker in brokers))
    # What another tool wrote since is kept.
    edited = b'{"version":1,"config":{"retention.ms":"1","max.message.bytes":"5000"}}'
    two.run(lambda: session.set_data("/config/topics/orders", edited))
    two.ask(broker_id, alter(2, "orders", segment_ms="9"), 1)
    found = json.loads(data_of(two, session, "/config/topics/orders") or "")
    assert found["config"] == {"retention.ms": "1", "max.message.bytes": "5000", "segment.ms": "9"}
    refused = two.ask(broker_id, alter(2, "orders", retention_ms="soon"), 1).responses[0]
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "soon" not in (data_of(two, session, "/config/topics/orders") or "")


def quota(*entity: tuple[str, str | None], **quotas: float) -> AlterClientQuotasRequest:
    make = AlterClientQuotasRequest
    entry = make.EntryData(
        entity=[make.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[make.OpData(key=key, value=value, remove=False) for key, value in quotas.items()],
    )
    return make(entries=[entry], validate_only=False)


def test_quotas_are_options_of_their_entities(two: ZooKeeperBrokers) -> None:
    # M-B2
    session = two.client()
    for request in (
        quota(("user", "alice"), producer_byte_rate=1048576, consumer_byte_rate=2097152),
        quota(("user", "alice"), ("client-id", "app"), request_percentage=200),
        quota(("client-id", None), producer_byte_rate=100000000),
        quota(("user", None), controller_mutation_rate=1000),
        quota(("ip", "127.0.0.9"), connection_creation_rate=50),
        quota(("user", "a user/100%"), producer_byte_rate=7),
    ):
        assert two.ask(2, request, 1).entries[0].error_code == ErrorCode.NONE
    for path, config in {
        "users/alice": '{"producer_byte_rate":"1048576","consumer_byte_rate":"2097152"}',
        "users/alice/clients/app": '{"request_percentage":"200.0"}',
        "clients/<default>": '{"producer_byte_rate":"100000000"}',
        "users/<default>": '{"controller_mutation_rate":"1000.0"}',
        "ips/127.0.0.9": '{"connection_creation_rate":"50"}',
        "users/a%20user%2F100%25": '{"producer_byte_rate":"7"}',
    }.items():
        found = json.loads(data_of(two, session, f"/config/{path}") or "{}")
        assert found == {"version": 1, "config": json.loads(config)}, path
    assert '{"version":2,"entity_path":"users/alice/clients/app"}' in announced(
        two, session, paths.CONFIG_CHANGES
    )
    two.until(lambda: len(two.brokers[1].image.quotas) == 6)
    assert dict(two.brokers[1].image.quotas[("user", "a user/100%"),]) == {"producer_byte_rate": 7.0}


def test_scram_users_share_their_znode_with_quotas(two: ZooKeeperBrokers) -> None:
    # M-B2
    session, other = two.client(), not_controller(two)
    controller = 3 - other
    two.ask(other, quota(("user", "alice"), producer_byte_rate=5), 1)
    make = AlterUserScramCredentialsRequest
    upsertion = make.ScramCredentialUpsertion(
        name="alice", mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32
    )
    request = make(deletions=[], upsertions=[upsertion])
    assert two.ask(other, request, 0).results[0].error_code == ErrorCode.NOT_CONTROLLER
    assert two.ask(controller, request, 0).results[0].error_code == ErrorCode.NONE
    found = json.loads(data_of(two, session, "/config/users/alice") or "")["config"]
    assert found["producer_byte_rate"] == "5"
    salt = base64.b64encode(b"salt").decode()
    assert found["SCRAM-SHA-256"].startswith(f"salt={salt},stored_key=")
    assert found["SCRAM-SHA-256"].endswith(",iterations=4096")
    two.until(lambda: all((1, "alice") in broker.image.scram for broker in two.brokers.values()))
    deletion = make.ScramCredentialDeletion(name="alice", mechanism=1)
    two.ask(controller, make(deletions=[deletion], upsertions=[]), 0)
    two.until(lambda: not any(broker.image.scram for broker in two.brokers.values()))
    found = json.loads(data_of(two, session, "/config/users/alice") or "")["config"]
    assert found == {"producer_byte_rate": "5"}


def test_credentials_of_a_user_are_altered_together(two: ZooKeeperBrokers) -> None:
    # M-B2: as `kafka-configs.sh --add-config SCRAM-SHA-256=[...],SCRAM-SHA-512=[...]` asks for it
    make = AlterUserScramCredentialsRequest
    upsertions = [
        make.ScramCredentialUpsertion(
            name="alice", mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"x" * size
        )
        for mechanism, size in ((1, 32), (2, 64))
    ]
    session, controller = two.client(), 3 - not_controller(two)
    [result] = two.ask(controller, make(deletions=[], upsertions=upsertions), 0).results
    assert (result.user, result.error_code) == ("alice", ErrorCode.NONE)
    found = json.loads(data_of(two, session, "/config/users/alice") or "")["config"]
    assert found.keys() == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    twice = two.ask(controller, make(deletions=[], upsertions=[*upsertions, upsertions[0]]), 0).results
    assert [result.error_code for result in twice] == [ErrorCode.DUPLICATE_RESOURCE]


def acl(
    kind: int, name: str, pattern: int, principal: str, operation: int, permission: int
) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=permission,
    )


def test_acls_are_written_and_announced(two: ZooKeeperBrokers) -> None:
    # M-B2
    session = two.client()
    creations = [acl(2, "orders", 3, "User:alice", operation, 3) for operation in (4, 3)]
    creations.append(acl(2, "ord", 4, "User:bob", 2, 2))
    created = two.ask(1, CreateAclsRequest(creations=creations), 3)
    assert [result.error_code for result in created.results] == [0, 0, 0]
    assert data_of(two, session, "/kafka-acl/Topic/orders") == (
        '{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Write"},'
        '{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}],"version":1}'
    )
    assert announced(two, session, paths.ACL_CHANGES) == ["TOPIC:orders"]
    assert announced(two, session, paths.EXTENDED_ACL_CHANGES) == [
        '{"version":1,"resourceType":"TOPIC","name":"ord","patternType":"PREFIXED"}'
    ]
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    two.until(lambda: len(two.brokers[2].image.acls) == 3)
    described = two.ask(2, everything, 3)
    assert {resource.resource_name for resource in described.resources} == {"orders", "ord"}
    remove = DeleteAclsRequest.Filter(
        resource_type_filter=2,
        resource_name_filter="orders",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    deleted = two.ask(2, DeleteAclsRequest(filters=[remove]), 3)
    assert len(deleted.filter_results[0].matching_acls) == 2
    assert data_of(two, session, "/kafka-acl/Topic/orders") is None
    two.until(lambda: len(two.brokers[1].image.acls) == 1)


def test_what_cannot_be_read_is_left_alone(two: ZooKeeperBrokers) -> None:
    """The options known before stay in effect, and the znode stays as it is."""
    two.topic("orders", configs={"retention.ms": "5"})
    two.until(lambda: all(broker.image.topic_named("orders") for broker in two.brokers.values()))
    session = two.client()
    two.run(lambda: session.set_data("/config/topics/orders", b"{broken"))
    change = f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE}"
    two.run(lambda: session.create(change, b"nonsense", sequential=True))
    again = b'{"version":2,"entity_path":"topics/orders"}'
    two.run(lambda: session.create(change, again, sequential=True))
    two.ask(1, alter(4, "", message_max_bytes="3000000"), 1)
    two.until(lambda: two.brokers[2].settings["message.max.bytes"] == 3_000_000)
    assert dict(two.brokers[2].image.configs_of(2, "orders")) == {"retention.ms": "5"}
    refused = two.ask(1, alter(2, "orders", retention_ms="6"), 1).responses[0]
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "/config/topics/orders" in refused.error_message
    assert data_of(two, session, "/config/topics/orders") == "{broken"
