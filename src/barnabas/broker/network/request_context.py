"""The context of a request: its header and connection, and the forms of a response.

A handler file `handlers/<api>.py` has

    KEY: int
    def handle(broker, request, context) -> Answer

and, where the API is on the hot path,

    def quick(broker, frame, position, context) -> list of pieces | Deferred | None

which decodes the request itself, from `position` on, if it has the common simple form, and returns the bytes
of the response (after the response header) as pieces to send, or the promise of a delayed response.  None: it
has another form, and nothing was done; `handle` serves the request as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from barnabas.base.errors import ERRORS, ErrorCode
from barnabas.base.log_text import shown
from barnabas.protocol.primitives import Buffer
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.disk import Slice
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Address

ResponseT = TypeVar("ResponseT", bound=Message | None)

# A response or the promise of one; None where the client expects none (acks=0).
Answer: TypeAlias = ResponseT | Promise[ResponseT]
# The bytes of a response; slices are sent from the file to the socket.
Pieces: TypeAlias = list[Buffer | Slice]


class Deferred(NamedTuple):
    """A quick request with a delayed response; `request` is used for an error response."""

    request: Message
    answer: Promise[Any]


def specific_message(code: ErrorCode, message: str) -> str | None:
    """Returns None for a message that only repeats the code's own text, as in most Apache Kafka responses."""
    return None if message == ERRORS[code].text else message


class CloseConnectionError(Exception):
    """Closes the connection instead of responding, such as for an error with acks=0."""


class RequestContext:
    """One request's header and where it came from.

    A connection has one request in progress at a time, so it reuses one context for all of them; read it
    before the response is sent.
    """

    __slots__ = (
        "api_key",
        "api_version",
        "by_token",
        "client_id",
        "correlation_id",
        "is_large",
        "listener",
        "on_disconnect",
        "peer",
        "principal",
        "received_ns",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str,
        *,
        principal: str,
        listener: str,
        peer: Address,
        received_ns: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        # In Apache Kafka's format, User:name.
        self.principal = principal
        # The name of the listener, as in `listeners`.
        self.listener = listener
        self.peer = peer
        self.received_ns = received_ns
        # Whether the client has logged in by a delegation token.
        self.by_token = False
        # Whether the request is so large that its arrays may have very many elements.
        self.is_large = False
        # Set by a handler with a delayed response; called if the client disconnects before it.
        self.on_disconnect: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return (
            f"RequestContext(api {self.api_key} v{self.api_version},"
            f" {self.correlation_id} of {shown(self.client_id)!r}"
            f" from {self.peer} as {self.principal} on {self.listener})"
        )
