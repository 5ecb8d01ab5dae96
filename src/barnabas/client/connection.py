"""One connection to a broker, without IO: requests become bytes, bytes become the answers to them.

What lives here: framing, correlation, the first exchange (ApiVersions) and the choice of versions.  What may
not: sockets, loops and time.  `link` puts it on a client's loop; connections between brokers use it on the
reactor.

A broker answers in the order of the requests, so an answer out of order ends the conversation.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Mapping
from typing import cast

from barnabas import __version__
from barnabas.base.errors import ErrorCode
from barnabas.client.errors.cluster import NetworkError, UnsupportedVersionError
from barnabas.client.errors.kinds import error_for
from barnabas.protocol.apis import API_VERSIONS_KEY, Api, api
from barnabas.protocol.frame import SIZE_BYTES, frame_size, read_response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.primitives import Buffer, ProtocolError
from barnabas.protocol.schema import Message, Versions

# A fetch of fetch.max.bytes may be exceeded by one batch; what a broker announces beyond this is no answer.
MAX_ANSWER_BYTES = 1 << 30
SOFTWARE_NAME = "barnabas"
# Called with the answer, or with the reason why there is none.
Done = Callable[[Message | None, Exception | None], None]
# Requests hold their records in memory, unlike a broker's answers.
Pieces = list[Buffer]

_HEAD = struct.Struct(">ihhi")
_STRING_SIZE = struct.Struct(">h")


class _Asked:
    """A request that waits for its answer."""

    __slots__ = ("api", "correlation_id", "done", "in_place", "version")

    def __init__(self, asked: Api, version: int, correlation_id: int, done: Done, in_place: bool) -> None:
        self.api = asked
        self.version = version
        self.correlation_id = correlation_id
        self.done = done
        self.in_place = in_place


class Conversation:
    """The requests and answers of one connection."""

    def __init__(self, client_id: str) -> None:
        text = client_id.encode()
        self._client_id = _STRING_SIZE.pack(len(text)) + text
        self._asked: deque[_Asked] = deque()
        self._correlation_id = 0
        self._expected = 0
        self.spoken: Mapping[int, Versions] = {}
        # The features that are in effect, by name.
        self.feature_levels: Mapping[str, int] = {}

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._asked)

    # ------------------------------------------------------------------------------------------ to the peer

    def request(self, message: Message, version: int, done: Done | None, *, in_place: bool = False) -> Pieces:
        """The bytes of a request.  Without `done` no answer is awaited, as for a produce with acks=0.

        With `in_place` the answer's bytes lie where they were received, in memory that is used again: `done`
        copies what it wants to keep.
        """
        key = message.schema.key
        assert key is not None, f"{message.schema.name} is no request"
        asked = api(key)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pieces = cast("Pieces", message.encode_pieces(version))
        rest = self._client_id if asked.request_header_version(version) < 2 else self._client_id + b"\x00"
        size = _HEAD.size - SIZE_BYTES + len(rest) + sum(map(len, pieces))
        pieces.insert(0, _HEAD.pack(size, key, version, self._correlation_id) + rest)
        if done is not None:
            self._asked.append(_Asked(asked, version, self._correlation_id, done, in_place))
        return pieces

    def hello(self, ready: Callable[[Exception | None], None]) -> Hello:
        """Ask which versions the peer speaks; `ready` is called when that is settled, or cannot be."""
        return Hello(self, ready)

    def version_for(self, asked: Api, highest: int | None = None) -> int:
        """The highest version that both sides speak."""
        spoken = self.spoken.get(asked.key)
        most = asked.stable if highest is None else min(asked.stable, highest)
        if spoken is not None:
            most = min(most, spoken.highest)
            if most >= max(asked.versions.lowest, spoken.lowest):
                return most
        has = "does not have it" if spoken is None else f"has versions {spoken}"
        raise UnsupportedVersionError(f"{asked.name} is not possible here: the broker {has}")

    # ---------------------------------------------------------------------------------------- from the peer

    def receive(self, view: memoryview) -> int:
        """Take the whole answers that have come; how many bytes that were."""
        position = 0
        size = len(view)
        self._expected = 0
        while size - position >= SIZE_BYTES:
            start = position + SIZE_BYTES
            end = start + frame_size(view, position, limit=MAX_ANSWER_BYTES)
            if end > size:
                self._expected = end - position
                break
            in_place = self._asked and self._asked[0].in_place
            self._answer(view[start:end] if in_place else bytes(view[start:end]))
            position = end
        return position

    @property
    def expected(self) -> int:
        """After `receive`: the size of the answer whose start was left, as far as it is known."""
        return self._expected

    def _answer(self, frame: Buffer) -> None:
        if not self._asked:
            raise ProtocolError("an answer came to no request")
        asked = self._asked.popleft()
        version = asked.version
        # A broker that does not know our version of ApiVersions answers in version 0 (KIP-511).
        if asked.api.key == API_VERSIONS_KEY and _code_of(frame) == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        correlation_id, message = read_response(frame, asked.api, version)
        if correlation_id != asked.correlation_id:
            raise ProtocolError(f"an answer came to request {correlation_id}, not to {asked.correlation_id}")
        asked.done(message, None)

    def end(self, error: Exception) -> None:
        """The connection is gone: so are the answers."""
        asked, self._asked = self._asked, deque()
        for each in asked:
            each.done(None, error)


class Hello:
    """The first exchange: which versions does the peer speak?  Authentication will follow here."""

    def __init__(self, conversation: Conversation, ready: Callable[[Exception | None], None]) -> None:
        self._conversation = conversation
        self._ready = ready
        self._send: Callable[..., None] | None = None
        self._asked_version = 0

    def start(self, send: Callable[..., None]) -> None:
        """`send` puts pieces on the wire."""
        self._send = send
        self._ask(api(API_VERSIONS_KEY).stable)

    def _ask(self, version: int) -> None:
        assert self._send is not None
        self._asked_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._send(*self._conversation.request(request, version, self._answered))

    def _answered(self, message: Message | None, error: Exception | None) -> None:
        if not isinstance(message, ApiVersionsResponse):
            self._ready(error or NetworkError("no answer to ApiVersions"))
            return
        spoken = {each.api_key: Versions(each.min_version, each.max_version) for each in message.api_keys}
        known = spoken.get(API_VERSIONS_KEY)
        refused = message.error_code == ErrorCode.UNSUPPORTED_VERSION
        if refused and known is not None and known.highest < self._asked_version:
            self._ask(known.highest)
        elif message.error_code:
            self._ready(error_for(message.error_code))
        else:
            self._conversation.spoken = spoken
            self._conversation.feature_levels = {
                each.name: each.max_version_level for each in message.finalized_features
            }
            self._ready(None)


def _code_of(frame: Buffer) -> int:
    """The error code at the start of an ApiVersions answer: its header never has tagged fields."""
    return int.from_bytes(frame[4:6], "big", signed=True)
