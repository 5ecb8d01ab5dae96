"""What the parts of the broker tell each other about one request.

What lives here: who asks and how, the shapes that an answer may have, and what to do when there is none.
What may not: reading frames (listener), choosing a handler (dispatch) and any API.

A handler file `handlers/<api>.py` has

    KEY: int
    def handle(broker, request, call) -> Answer

and, where the API is on the hot path,

    def quick(broker, frame, position, call) -> list of pieces | Deferred | None

which reads the request itself, from where its message starts in the frame, if it has the one simple shape
that most requests have, and gives the response's bytes (behind the response header) as pieces to send; or the
promise of a response, if what was asked for is under way but has to wait.
None: it is none of these; `handle` takes the request as usual.  Nothing has happened then.
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

ResponseT = TypeVar("ResponseT", bound=Message)

# A response, the promise of one, or None where the client expects none (acks=0).
Answer: TypeAlias = ResponseT | Promise[ResponseT] | None
# A response's bytes; slices go from the file to the socket.
Pieces: TypeAlias = list[Buffer | Slice]


class Deferred(NamedTuple):
    """A quick request whose answer comes later; the request is for the words of a refusal."""

    request: Message
    answer: Promise[Any]


def own_words(code: ErrorCode, message: str) -> str | None:
    """A text that only repeats the code's own is left out, as Apache Kafka does in most answers."""
    return None if message == ERRORS[code].text else message


class CloseConnectionError(Exception):
    """Close the connection instead of answering: how a client that expects no answer hears of an error."""


class RequestContext:
    """One request's header and where it came from.

    A connection has one request in progress at a time, so it may use one Call for all of them; whoever holds
    on to one reads it before the answer is given.
    """

    __slots__ = (
        "api_key",
        "api_version",
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
        # As Apache Kafka writes it: User:name.
        self.principal = principal
        # The listener's name, as in `listeners`.
        self.listener = listener
        self.peer = peer
        self.received_ns = received_ns
        # Whether the request has so many bytes that its arrays may have very many elements.
        self.is_large = False
        # Set by a handler that answers later: to be called if the client is gone before that.
        self.on_disconnect: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return (
            f"Call(api {self.api_key} v{self.api_version}, {self.correlation_id} of {shown(self.client_id)!r}"
            f" from {self.peer} as {self.principal} on {self.listener})"
        )
