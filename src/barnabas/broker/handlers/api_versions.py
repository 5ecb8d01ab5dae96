"""ApiVersions (key 18, versions 0-4): the APIs that this listener serves, and the features of the cluster.

* The response lists exactly the routes of the listener.
* An unknown version gets a version 0 response with UNSUPPORTED_VERSION and this API's own versions, so that
  the client can retry (KIP-511).  The response header is always version 0: see `protocol.apis`.
* From version 3 on a client without a valid software name and version gets INVALID_REQUEST (KIP-511).
* Versions below 4 leave out features that start at level 0: some clients cannot read them (KIP-1022).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Route
from barnabas.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 18
FIRST_VERSION_WITH_NAMES = 3
FIRST_VERSION_WITH_ALL_FEATURES = 4
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

# The order of Apache Kafka's hash table.  It has no meaning, but keeps responses comparable.
_FINALIZED_ORDER = (
    GROUP_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
)


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    routes = broker.routes_of(context.listener)
    if not routes[KEY].lowest <= context.api_version <= routes[KEY].highest:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_announced([routes[KEY]])
        )
    if context.api_version >= FIRST_VERSION_WITH_NAMES and not _is_valid_software(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    finalized, epoch = broker.metadata.finalized_features()
    return answer(
        routes.values(),
        broker.supported_features,
        finalized,
        epoch=epoch,
        all_features=context.api_version >= FIRST_VERSION_WITH_ALL_FEATURES,
    )


def answer(
    routes: Iterable[Route],
    supported: Mapping[str, tuple[int, int]],
    finalized: Mapping[str, int],
    *,
    epoch: int,
    all_features: bool,
) -> ApiVersionsResponse:
    """Returns the response of a listener that serves these routes."""
    response = ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=_announced(routes))
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in supported.items()
        if lowest or all_features
    ]
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(
            name=name, max_version_level=finalized[name], min_version_level=finalized[name]
        )
        for name in _FINALIZED_ORDER
        if finalized.get(name)
    ]
    response.finalized_features_epoch = epoch
    return response


def _announced(routes: Iterable[Route]) -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(
            api_key=route.api.key,
            min_version=route.announced.lowest,
            max_version=route.announced.highest,
        )
        for route in routes
    ]


def _is_valid_software(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_NAME.fullmatch(name) for name in names)
