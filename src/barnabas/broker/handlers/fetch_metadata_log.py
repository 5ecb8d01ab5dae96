"""Fetch on a controller listener (key 1, versions 4-18): followers and observers read the metadata log.

The Raft node decides what a follower gets: records, where its log diverges, or a snapshot (KIP-595, KIP-630).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.handlers import fetch
from barnabas.broker.modes.kraft.quorum.responses import encode_fetch
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 1


def handle(broker: Broker, request: FetchRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, partial(encode_fetch, broker.quorum.log_start_offset))


def refuse(request: FetchRequest, code: ErrorCode, message: str) -> FetchResponse:
    """What is no request of this quorum has one error; others have one for each partition."""
    if code in (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.INVALID_REQUEST):
        return FetchResponse(throttle_time_ms=0, error_code=code, responses=[])
    return fetch.refuse(request, code, message)
