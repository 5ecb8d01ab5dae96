"""The protocol state of one connection to a broker, without IO: requests to bytes, bytes to responses.

Contains framing, correlation and the choice of versions; no sockets, loops or clocks.  What comes before the
first request of the user belongs in `handshake`.  `broker_connection` runs it on a client's loop.

A broker responds in the order of the requests, so a response out of order ends the connection.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.protocol.apis import API_VERSIONS_KEY, Api, api
from barnabas.protocol.frame import SIZE_BYTES, frame_size, read_response
from barnabas.protocol.primitives import Buffer, ProtocolError
from barnabas.protocol.schema import Message, Versions

# One batch may exceed fetch.max.bytes; a larger announced size is not a valid response.
MAX_RESPONSE_BYTES = 1 << 30
# Called with the response, or with the error if there is none.
Done = Callable[[Message | None, Exception | None], None]
# Requests hold their records in memory, unlike a broker's responses.
Pieces = list[Buffer]

_HEADER = struct.Struct(">ihhi")
_STRING_SIZE = struct.Struct(">h")


class _InFlightRequest:
    """A request that awaits its response."""

    __slots__ = ("api", "correlation_id", "done", "in_place", "version")

    def __init__(self, requested: Api, version: int, correlation_id: int, done: Done, in_place: bool) -> None:
        self.api = requested
        self.version = version
        self.correlation_id = correlation_id
        self.done = done
        self.in_place = in_place


class ConnectionProtocol:
    """The requests and responses of one connection."""

    def __init__(self, client_id: str) -> None:
        text = client_id.encode()
        self._client_id = _STRING_SIZE.pack(len(text)) + text
        self._in_flight_requests: deque[_InFlightRequest] = deque()
        self._correlation_id = 0
        self._expected = 0
        self.api_versions: Mapping[int, Versions] = {}
        # Finalized feature levels by name.
        self.feature_levels: Mapping[str, int] = {}

    @property
    def in_flight(self) -> int:
        """The number of requests that await a response."""
        return len(self._in_flight_requests)

    # ----------------------------------------------------------------------------------------------- requests

    def request(self, message: Message, version: int, done: Done | None, *, in_place: bool = False) -> Pieces:
        """Return the bytes of a request.  Without `done` no response is expected, as for acks=0.

        With `in_place` the response's bytes lie in a receive buffer that is reused: `done` copies what it
        keeps.
        """
        key = message.schema.key
        assert key is not None, f"{message.schema.name} is no request"
        requested = api(key)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pieces = cast("Pieces", message.encode_pieces(version))
        client_id = (
            self._client_id if requested.request_header_version(version) < 2 else self._client_id + b"\x00"
        )
        size = _HEADER.size - SIZE_BYTES + len(client_id) + sum(map(len, pieces))
        pieces.insert(0, _HEADER.pack(size, key, version, self._correlation_id) + client_id)
        if done is not None:
            self._in_flight_requests.append(
                _InFlightRequest(requested, version, self._correlation_id, done, in_place)
            )
        return pieces

    def version_for(self, requested: Api, highest: int | None = None) -> int:
        """Return the highest version that both sides support; only `highest` may name an unstable one."""
        supported = self.api_versions.get(requested.key)
        most = requested.stable if highest is None else min(requested.versions.highest, highest)
        if supported is not None:
            most = min(most, supported.highest)
            if most >= max(requested.versions.lowest, supported.lowest):
                return most
        has = "does not support it" if supported is None else f"supports versions {supported}"
        raise UnsupportedVersionError(f"{requested.name} is not possible: the broker {has}")

    # ---------------------------------------------------------------------------------------------- responses

    def receive(self, view: memoryview) -> int:
        """Consume the complete responses in `view`; returns the number of bytes consumed."""
        position = 0
        size = len(view)
        self._expected = 0
        while size - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            end = start + frame_size(view, position, limit=MAX_RESPONSE_BYTES)
            if end > size:
                self._expected = end - position
                break
            in_place = self._in_flight_requests and self._in_flight_requests[0].in_place
            self._complete(view[start:end] if in_place else bytes(view[start:end]))
            position = end
        return position

    @property
    def expected(self) -> int:
        """After `receive`: the size of the incomplete response, if it is known."""
        return self._expected

    def _complete(self, frame: Buffer) -> None:
        if not self._in_flight_requests:
            raise ProtocolError("received a response without a request")
        # It stays in flight until its response is read: one that cannot be read ends the connection, and that
        # fails the request.
        in_flight = self._in_flight_requests[0]
        version = in_flight.version
        # A broker that does not know our version of ApiVersions responds in version 0 (KIP-511).
        if in_flight.api.key == API_VERSIONS_KEY and _code_of(frame) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        correlation_id, message = read_response(frame, in_flight.api, version)
        if correlation_id != in_flight.correlation_id:
            raise ProtocolError(
                f"received a response to request {correlation_id}, not to {in_flight.correlation_id}"
            )
        self._in_flight_requests.popleft()
        in_flight.done(message, None)

    def end(self, error: Exception) -> None:
        """Called when the connection is closed: fails the requests in flight."""
        requests, self._in_flight_requests = self._in_flight_requests, deque()
        for request in requests:
            request.done(None, error)


def _code_of(frame: Buffer) -> int:
    """Return the error code of an ApiVersions response, whose header never has tagged fields."""
    return int.from_bytes(frame[4:6], "big", signed=True)
