"""FetchSnapshot (key 59, versions 0-1): bytes of a snapshot of the metadata log (KIP-630)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.modes.kraft.quorum.responses import encode_fetch_snapshot
from barnabas.broker.modes.kraft.quorum.serving import serve
from barnabas.broker.network.request_context import RequestContext
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 59


def handle(broker: Broker, request: FetchSnapshotRequest, context: RequestContext) -> Promise[Message]:
    return serve(broker, request, context, encode_fetch_snapshot)
