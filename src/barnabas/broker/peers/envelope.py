"""The envelope in which a broker forwards a client's request to the controller (KIP-590)."""

from __future__ import annotations

import struct
from ipaddress import ip_address

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.principals import LOCALHOST
from barnabas.protocol.apis import api
from barnabas.protocol.frame import SIZE_BYTES, read_response, write_request
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.principal import DefaultPrincipalData
from barnabas.protocol.schema import Message

PRINCIPAL_VERSION = 0
# Of IPv4 and IPv6.
ADDRESS_SIZES = (4, 16)
_LOCALHOST = ip_address(LOCALHOST).packed
_VERSION = struct.Struct(">h")
# A response in an envelope answers the one request in it.
_CORRELATION_ID = 0


def wrap_request(
    message: Message, version: int, principal: str, host: str, client_id: str = ""
) -> EnvelopeRequest:
    """The envelope of a request; the controller authorizes it by the client's principal and host, and finds
    its quota by principal and client id."""
    kind, _, name = principal.partition(":")
    data = DefaultPrincipalData(type=kind, name=name, token_authenticated=False)
    return EnvelopeRequest(
        request_data=write_request(message, version, _CORRELATION_ID, client_id)[SIZE_BYTES:],
        request_principal=_VERSION.pack(PRINCIPAL_VERSION) + data.encode(PRINCIPAL_VERSION),
        client_host_address=_packed(host),
    )


def is_local(host: str) -> bool:
    """Whether an envelope would carry this machine's own address: it has no other that tells more."""
    return _packed(host) == _LOCALHOST


def _packed(host: str) -> bytes:
    """The bytes of an address.  Hosts of simulated networks have names only."""
    try:
        return ip_address(host).packed
    except ValueError:
        return _LOCALHOST


def read_host(address: bytes) -> str:
    """The client's host in an envelope; an IPv4 address in the form of IPv6 is the same host."""
    if len(address) not in ADDRESS_SIZES:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the client's address is no IP address")
    host = ip_address(address)
    return str(getattr(host, "ipv4_mapped", None) or host)


def read_principal(content: bytes | None) -> str:
    """The principal in an envelope; raises PRINCIPAL_DESERIALIZATION_FAILURE."""
    try:
        (version,) = _VERSION.unpack_from(content or b"")
        if version != PRINCIPAL_VERSION:
            raise ProtocolError(f"principals of version {version} are not known")
        data = DefaultPrincipalData.decode((content or b"")[_VERSION.size :], version)
    except (struct.error, ProtocolError) as error:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE, str(error)) from error
    return f"{data.type}:{data.name}"


def open_response(envelope: EnvelopeResponse, request: Message, version: int) -> Message:
    """The response in an envelope; raises KafkaError if the controller refused the envelope."""
    if envelope.error_code or envelope.response_data is None:
        raise KafkaError(ErrorCode(envelope.error_code))
    key = request.schema.key
    assert key is not None, "a request has a key"
    _, response = read_response(envelope.response_data, api(key), version)
    return response
