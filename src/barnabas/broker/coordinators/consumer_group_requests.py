"""Helpers shared by the handlers of consumer groups (KIP-848): feature check and topic visibility."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.group.subscription.regexes import Sees
from barnabas.metadata.features import GROUP_VERSION

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

CONSUMER_PROTOCOL = "consumer"


def check_enabled(broker: Broker) -> None:
    """Raises UNSUPPORTED_VERSION unless the cluster and this broker support the consumer protocol."""
    protocols = broker.settings["group.coordinator.rebalance.protocols"]
    if CONSUMER_PROTOCOL not in protocols or broker.image.features.get(GROUP_VERSION, 0) < 1:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def topic_visibility(broker: Broker, context: RequestContext) -> Sees:
    """Returns which topics this client may describe; it outlives the request."""
    retained = RequestContext(
        context.api_key,
        context.api_version,
        context.correlation_id,
        context.client_id,
        principal=context.principal,
        listener=context.listener,
        peer=context.peer,
        received_ns=context.received_ns,
    )

    def sees(topic: str) -> bool:
        return broker.authorizer.allows(retained, Operation.DESCRIBE, Resource.TOPIC, topic, quiet=True)

    return sees
