"""ListConfigResources (key 74, versions 0-1): which resources have options that DescribeConfigs shows.

* Version 0 lists client metrics subscriptions (KIP-1000), version 1 any kind (KIP-1142): topics, brokers,
  their loggers, groups; no kinds means all of them, one that there is not is UNSUPPORTED_VERSION.
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
# In the order of Apache Kafka's answer when all are asked for.
_KINDS = (
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
    kinds: tuple[int, ...] = (ConfigResource.CLIENT_METRICS,)
    if context.api_version:
        kinds = tuple(dict.fromkeys(request.resource_types)) or _KINDS
    if not set(kinds) <= set(_KINDS):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
            for kind in kinds
            for name in _names(broker.image, kind)
        ],
    )


def _names(image: Image, kind: int) -> list[str]:
    if kind == ConfigResource.TOPIC:
        return sorted(image.topic_ids)
    if kind in (ConfigResource.BROKER, ConfigResource.BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for known, name in image.configs if known == kind and name)
