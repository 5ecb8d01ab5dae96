"""DescribeClientQuotas (key 48, versions 0-1): the quotas that a filter matches (KIP-546)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext, specific_message
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.controller.configs.quotas import describe_quotas
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 48


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return describe_quotas(broker.image, request)


def refuse(
    request: DescribeClientQuotasRequest, code: ErrorCode, message: str
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=code, error_message=specific_message(code, message), entries=None
    )
