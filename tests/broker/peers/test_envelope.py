"""Envelopes that a controller opens (KIP-590): what it refuses, and with which error."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers import envelope, incremental_alter_configs
from barnabas.broker.peers.envelope import open_response, wrap_request
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.vote import VoteRequest
from tests.broker.worlds.front_world import FakeBroker, call_of, settled

VERSION = 7
CONTEXT = call_of(58, 0, listener="CONTROLLER")
REQUEST = CreateTopicsRequest(
    topics=[
        CreateTopicsRequest.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
    ],
    timeout_ms=1000,
    validate_only=False,
)


def _wrapped(**changed: Any) -> EnvelopeRequest:
    message = wrap_request(REQUEST, VERSION, "User:alice", "10.1.2.3")
    for name, value in changed.items():
        setattr(message, name, value)
    return message


def test_the_request_is_decided_with_the_clients_principal() -> None:
    broker: Any = FakeBroker()
    response = open_response(settled(envelope.handle(broker, _wrapped(), CONTEXT)), REQUEST, VERSION)
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == 0
    ((_, version, principal),) = broker.metadata.asked
    assert (version, principal) == (VERSION, "User:alice")


@pytest.mark.parametrize(
    ("host", "shown"),
    [("10.1.2.3", "10.1.2.3"), ("::1", "::1"), ("::ffff:10.1.2.3", "10.1.2.3"), ("n1", "127.0.0.1")],
)
def test_the_controller_authorizes_by_the_clients_host(
    host: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ACL with a host refused its own user where another broker than the controller was asked."""
    broker: Any = FakeBroker()
    hosts: list[str] = []
    send = broker.metadata.send_for_client

    def send_for_client(message: Any, version: int, principal: str, host: str, client_id: str) -> Any:
        hosts.append(host)
        return send(message, version, principal, host, client_id)

    monkeypatch.setattr(broker.metadata, "send_for_client", send_for_client)
    settled(envelope.handle(broker, wrap_request(REQUEST, VERSION, "User:alice", host), CONTEXT))
    assert hosts == [shown]


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"client_host_address": b"\1\2\3"}, ErrorCode.INVALID_REQUEST),
        ({"request_principal": b"\1\2\3"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_data": b""}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": _wrapped().request_data[:-4]}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": struct.pack(">hhih", 19, 99, 1, -1)}, ErrorCode.UNSUPPORTED_VERSION),
        (
            {
                "request_data": wrap_request(
                    ListGroupsRequest(states_filter=[], types_filter=[]), 5, "User:a", "::1"
                ).request_data
            },
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"request_data": wrap_request(_wrapped(), 0, "User:a", "::1").request_data},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"request_data": wrap_request(VoteRequest(topics=[]), 1, "User:a", "::1").request_data},
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_is_no_forwarded_request_is_refused(changed: dict[str, Any], code: ErrorCode) -> None:
    broker: Any = FakeBroker()
    with pytest.raises(KafkaError) as refused:
        settled(envelope.handle(broker, _wrapped(**changed), CONTEXT))
    assert refused.value.code is code
    assert broker.metadata.asked == []


def test_options_of_another_broker_are_checked_by_that_broker() -> None:
    """A controller refused every broker's own options, as it has another node id."""
    broker: Any = FakeBroker()
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name="background.threads", config_operation=0, value="9"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=ConfigResource.BROKER, resource_name="7", configs=[change]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    by_client = settled(incremental_alter_configs.handle(broker, request, call_of(44, 1)))
    assert by_client.responses[0].error_code == ErrorCode.INVALID_REQUEST
    forwarded = settled(
        incremental_alter_configs.handle(broker, request, call_of(44, 1, listener="CONTROLLER"))
    )
    assert forwarded.responses[0].error_code == 0
