"""Elections, reassignments, quotas, credentials, ACLs, tokens: refused by the broker, or forwarded."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.dispatch import refusal
from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.broker.network.routes import Role, routes_for
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.broker.security.standard_authorizer import StandardAuthorizer
from barnabas.config.option import Mode
from barnabas.protocol.apis import api_named
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.records.metadata import ClientQuotaRecord, UserScramCredentialRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.front_world import Denying, FakeBroker, call_of, settled
from tests.security.test_acl_evaluation import rule

ELECTION = ElectLeadersRequest(
    election_type=0,
    topic_partitions=[ElectLeadersRequest.TopicPartitions(topic="t", partitions=[0, 1])],
)
MOVE = AlterPartitionReassignmentsRequest(
    topics=[
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name="t",
            partitions=[
                AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[1])
            ],
        )
    ]
)
MOVES = ListPartitionReassignmentsRequest(
    topics=[ListPartitionReassignmentsRequest.Topics(name="t", partition_indexes=[0])]
)
CREDENTIALS = AlterUserScramCredentialsRequest(
    deletions=[AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="b", mechanism=1)],
    upsertions=[
        AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p"
        )
        for name in ("b", "a")
    ],
)
QUOTA = AlterClientQuotasRequest(
    entries=[
        AlterClientQuotasRequest.EntryData(
            entity=[AlterClientQuotasRequest.EntityData(entity_type="user", entity_name="u")],
            ops=[AlterClientQuotasRequest.OpData(key="consumer_byte_rate", value=1.0, remove=False)],
        )
    ],
    validate_only=False,
)
RULE = CreateAclsRequest.AclCreation(
    resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
)
FILTER = DeleteAclsRequest.Filter(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def rules_like(**more: Any) -> DescribeAclsRequest:
    asked = DescribeAclsRequest.schema.new()
    for field in FILTER.schema.fields:
        setattr(asked, field.attribute, more.get(field.attribute, getattr(FILTER, field.attribute)))
    assert isinstance(asked, DescribeAclsRequest)
    return asked


def ask(broker: FakeBroker, request: Message, version: int | None = None) -> Any:
    """The handler's response; an error becomes the response that the client would get."""
    key = request.schema.key
    assert key is not None
    route = routes_for(Mode.KRAFT, Role.CLIENT, broker.settings, Metrics())[key]
    version = route.highest if version is None else version
    try:
        answer = settled(route.handle(broker, request, call_of(key, version)))
    except KafkaError as error:
        answer = refusal(route, request, error.code, error.message)
    assert answer is not None
    answer.encode(version)
    return answer


PASSED_ON = [
    (ELECTION, Operation.ALTER),
    (MOVE, Operation.ALTER),
    (MOVES, Operation.DESCRIBE),
    (CREDENTIALS, Operation.ALTER),
    (QUOTA, Operation.ALTER_CONFIGS),
    (CreateAclsRequest(creations=[RULE, RULE]), Operation.ALTER),
    (DeleteAclsRequest(filters=[FILTER]), Operation.ALTER),
]


def of(request: object) -> str:
    return type(request).__name__ if isinstance(request, Message) else str(request)


@pytest.mark.parametrize(("request_", "operation"), PASSED_ON, ids=of)
def test_the_controller_decides(request_: Message, operation: Operation) -> None:
    broker = FakeBroker()
    broker.authorizer = StandardAuthorizer(allow_if_no_acl=True)
    key = request_.schema.key
    assert key is not None
    name = type(request_).__name__.removesuffix("Request")
    decided = api_named(name).response.schema.new()
    broker.metadata.answers[type(request_)] = Promise.of(decided)
    assert ask(broker, request_) is decided
    assert [asked for asked, _, _ in broker.metadata.asked] == [request_]


@pytest.mark.parametrize(("request_", "operation"), PASSED_ON, ids=of)
def test_a_denied_request_names_the_missing_permission(request_: Message, operation: Operation) -> None:
    broker = FakeBroker()
    broker.authorizer = Denying((operation, Resource.CLUSTER, None))
    for version in range(request_.schema.versions.lowest, request_.schema.versions.highest + 1):
        shown = str(ask(broker, request_, version))
        assert "31" in shown
    assert broker.metadata.asked == []


def test_an_election_in_all_partitions_returns_the_controllers_results() -> None:
    """The response was empty: a second request, for no partitions at all, replaced the controller's results."""
    broker = FakeBroker()
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
    decided = ElectLeadersResponse(throttle_time_ms=0, replica_election_results=[])
    broker.metadata.answers[ElectLeadersRequest] = Promise.of(decided)
    assert ask(broker, everything) is decided
    assert [asked for asked, _, _ in broker.metadata.asked] == [everything]


def test_an_election_that_is_refused_has_the_error_twice() -> None:
    broker = FakeBroker()
    broker.metadata.answers[ElectLeadersRequest] = KafkaError(ErrorCode.NOT_CONTROLLER, "none is active")
    for version, code in ((0, 0), (1, 41), (2, 41)):
        answer: ElectLeadersResponse = ask(broker, ELECTION, version)
        assert answer.error_code == code
        (topic,) = answer.replica_election_results
        assert [(one.partition_id, one.error_code, one.error_message) for one in topic.partition_result] == [
            (0, 41, "none is active"),
            (1, 41, "none is active"),
        ]
    broker.metadata.answers[ElectLeadersRequest] = RuntimeError("a fault")
    with pytest.raises(RuntimeError):
        ask(broker, ELECTION)


def test_refused_users_come_once_each_and_in_order() -> None:
    broker = FakeBroker()
    broker.authorizer = Denying((Operation.ALTER, Resource.CLUSTER, None))
    assert [one.user for one in ask(broker, CREDENTIALS).results] == ["a", "b"]


# Credentials -----------------------------------------------------------------------------------------------


def credential(name: str, mechanism: int, iterations: int) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=iterations
    )


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    rows = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    return DescribeUserScramCredentialsRequest(users=rows)


def test_credentials_are_described_without_secrets() -> None:
    broker = FakeBroker()
    broker.metadata.commit(credential("ann", 2, 8192), credential("ann", 1, 4096), credential("ben", 2, 5000))
    everybody = ask(broker, DescribeUserScramCredentialsRequest(users=None))
    shown = {
        one.user: [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in everybody.results
    }
    assert shown == {"ann": [(1, 4096), (2, 8192)], "ben": [(2, 5000)]}
    assert len(ask(broker, users()).results) == 2
    some = ask(broker, users("ben", "ben", "eve", "ann"))
    assert [(one.user, one.error_code) for one in some.results] == [("ben", 92), ("eve", 91), ("ann", 0)]
    broker.authorizer = Denying((Operation.DESCRIBE, Resource.CLUSTER, None))
    hidden = ask(broker, users("ann"))
    assert (hidden.error_code, hidden.error_message) == (31, None)
    assert [(one.user, one.error_code) for one in hidden.results] == [("", 31)]


# Quotas ----------------------------------------------------------------------------------------------------


def test_quotas_are_described_from_the_image() -> None:
    broker = FakeBroker()
    entity = [ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)]
    broker.metadata.commit(
        ClientQuotaRecord(entity=entity, key="consumer_byte_rate", value=5.0, remove=False)
    )
    everything = DescribeClientQuotasRequest(components=[], strict=False)
    (entry,) = ask(broker, everything).entries
    assert [(one.entity_type, one.entity_name) for one in entry.entity] == [("user", None)]
    assert [(one.key, one.value) for one in entry.values] == [("consumer_byte_rate", 5.0)]
    odd = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasRequest.ComponentData(entity_type="", match_type=0, match="x")],
        strict=False,
    )
    assert (ask(broker, odd).error_code, ask(broker, odd).entries) == (42, None)
    broker.authorizer = Denying((Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, None))
    refused = ask(broker, everything)
    assert (refused.error_code, refused.error_message, refused.entries) == (31, None, None)


# ACLs ------------------------------------------------------------------------------------------------------


def broker_with_acls() -> FakeBroker:
    broker = FakeBroker()
    broker.authorizer = StandardAuthorizer(allow_if_no_acl=True)
    return broker


def test_rules_are_grouped_by_resource() -> None:
    broker = broker_with_acls()
    broker.metadata.commit(rule("t"), rule("t", Operation.WRITE), rule("t", prefixed=True), rule("u"))
    broker.authorizer.load(broker.image)
    answer = ask(broker, rules_like())
    shown = {(one.resource_name, one.pattern_type): len(one.acls) for one in answer.resources}
    assert shown == {("t", 3): 2, ("t", 4): 1, ("u", 3): 1}
    (only,) = ask(broker, rules_like(operation=Operation.WRITE)).resources
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in only.acls] == [
        ("User:bob", "*", Operation.WRITE, 3)
    ]


@pytest.mark.parametrize(
    "request_",
    [CreateAclsRequest(creations=[RULE]), DeleteAclsRequest(filters=[FILTER]), rules_like()],
    ids=of,
)
def test_without_an_authorizer_there_are_no_rules(request_: Message) -> None:
    assert "54" in str(ask(FakeBroker(), request_))


@pytest.mark.parametrize(
    "request_",
    [
        CreateAclsRequest(creations=[RULE, CreateAclsRequest.AclCreation.schema.new()]),
        DeleteAclsRequest(filters=[FILTER, DeleteAclsRequest.Filter.schema.new()]),
        rules_like(permission_type=0),
        rules_like(pattern_type_filter=0),
    ],
    ids=of,
)
def test_an_unknown_part_of_a_rule_ends_the_connection(request_: Message) -> None:
    with pytest.raises(CloseConnectionError):
        ask(broker_with_acls(), request_)


# Tokens ----------------------------------------------------------------------------------------------------


def test_tokens_are_refused_as_where_they_are_switched_off() -> None:
    broker = FakeBroker()
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    wanted = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=1)
    for version in (1, 2, 3):
        made = ask(broker, wanted, version)
        assert (made.error_code, made.principal_name, made.expiry_timestamp_ms) == (code, "ANONYMOUS", -1)
    wanted.owner_principal_type, wanted.owner_principal_name = "User", "o"
    assert (ask(broker, wanted).principal_name, ask(broker, wanted).token_requester_principal_name) == (
        "o",
        "ANONYMOUS",
    )
    assert ask(broker, RenewDelegationTokenRequest(hmac=b"", renew_period_ms=1)).error_code == code
    assert ask(broker, ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=1)).error_code == code
    assert ask(broker, DescribeDelegationTokenRequest(owners=None)).error_code == code
