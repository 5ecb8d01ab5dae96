"""UpdateFeatures (key 57, versions 0-2): new levels of features, all of them or none (KIP-584).

* From version 1 on a downgrade says whether it may lose metadata, and a request may be validated only
  (KIP-778); version 2 has one outcome for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 57


def handle(broker: Broker, request: UpdateFeaturesRequest, context: RequestContext) -> Promise[Message]:
    check_cluster(broker.authorizer, context, Operation.ALTER)
    return broker.metadata.ask(request, context.api_version, context.principal)
