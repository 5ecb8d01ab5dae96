"""Envelope (key 58, version 0): a client's request that a broker forwards to the active controller (KIP-590).

The forwarding broker is authorized to speak for its clients; the request in the envelope is authorized with
the client's principal.
"""

from __future__ import annotations

from types import GeneratorType
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.dispatch import refusal
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.peers.envelope import read_host, read_principal
from barnabas.broker.security.authorizer import Operation, check_cluster
from barnabas.protocol.frame import SIZE_BYTES, read_request_header, write_response_pieces
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 58


def handle(broker: Broker, request: EnvelopeRequest, context: RequestContext) -> Steps[EnvelopeResponse]:
    check_cluster(broker.authorizer, context, Operation.CLUSTER_ACTION)
    if not broker.metadata.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    host = read_host(request.client_host_address)
    principal = read_principal(request.request_principal)
    try:
        header = read_request_header(request.request_data)
        route = broker.routes_of(context.listener).get(header.api.key)
        if route is None or not header.api.forwarded:
            # Nodes send these themselves; an envelope in an envelope would name any principal.
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{header.api.name} cannot be forwarded")
        if not route.lowest <= header.version <= route.highest:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{header.api.name} {header.version}")
        message, _ = header.api.request.decode_from(request.request_data, header.body, header.version)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, str(error)) from error
    inner = RequestContext(
        header.api.key,
        header.version,
        header.correlation_id,
        header.client_id,
        principal=principal,
        listener=context.listener,
        peer=Address(host, context.peer.port),
        received_ns=context.received_ns,
    )
    response: Message
    try:
        answer = route.handle(broker, message, inner)
        if isinstance(answer, GeneratorType):
            answer = yield from answer
        elif isinstance(answer, Promise):
            answer = yield from awaited(answer)
        response = answer
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        refused = refusal(route, message, error.code, error.message)
        if refused is None:
            raise
        response = refused
    pieces = write_response_pieces(response, header.version, header.correlation_id)
    data = b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
    return EnvelopeResponse(response_data=data[SIZE_BYTES:], error_code=0)
