"""ListConfigResources (key 74, versions 0-1): which resources have options that DescribeConfigs shows.

* Version 0 lists client metrics subscriptions (KIP-1000), version 1 any resource type (KIP-1142): topics,
  brokers, broker loggers, groups.  No types means all of them; an unknown type gets UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 74
# In the order of Apache Kafka's response when all are requested.
_TYPES = (
    ConfigResource.CLIENT_METRICS,
    ConfigResource.GROUP,
    ConfigResource.BROKER_LOGGER,
    ConfigResource.BROKER,
    ConfigResource.TOPIC,
)


def handle(
    broker: Broker, request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    types: tuple[int, ...] = (ConfigResource.CLIENT_METRICS,)
    if context.api_version:
        types = tuple(dict.fromkeys(request.resource_types)) or _TYPES
    if not set(types) <= set(_TYPES):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=type_)
            for type_ in types
            for name in _names(broker.image, type_)
        ],
    )


def _names(image: Image, type_: int) -> list[str]:
    if type_ == ConfigResource.TOPIC:
        return sorted(image.topic_ids)
    if type_ in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for resource_type, name in image.configs if resource_type == type_ and name)
