"""Dispatches a request: decoding, authorization, quotas, handler, metrics.

Contains the request header, the choice of the handler, and the response or error.  Sockets and frames belong
in listener.py, APIs in handlers/.

Optimised for small pipelined requests: objects are reused between requests, and an API on the hot path may
respond with bytes (`request_context`, `quick`).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Protocol, cast

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.broker.network.request_context import CloseConnectionError, Deferred, Pieces, RequestContext
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.broker.network.routes import Handle, Route
from barnabas.broker.quotas.client_quotas import Limits, Quotas
from barnabas.broker.security.authorizer import Authorizer
from barnabas.protocol.apis import API_VERSIONS_KEY, api
from barnabas.protocol.element_count import has_many_elements
from barnabas.protocol.frame import write_response_pieces, write_response_steps
from barnabas.protocol.primitives import ProtocolError, skip_tagged_fields
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer, Slice
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

_HEAD = struct.Struct(">hhih")
_HEAD_SIZE = _HEAD.size
_ANSWER_HEAD = struct.Struct(">ii")
_ANSWER_HEAD_WITH_TAGS = struct.Struct(">iix")
_SIZE_BYTES = 4
_BUFFERS = (bytes, bytearray, memoryview)
# A request up to this size is decoded at once; a larger one may be an array of names, and is decoded in
# steps.
READ_AT_ONCE_BYTES = 16 << 10
# A response with more elements than this is encoded in steps.
WRITTEN_AT_ONCE_ELEMENTS = 1_000
# Produce and Fetch, where counting costs more than it saves: their responses are as long as their requests.
_HOT = frozenset((0, 1))
# The maximum size of a response in memory; records do not count, as they are slices of files.
MAX_RESPONSE_BYTES = 64 << 20


def _no_quota() -> int:
    """No quota applies."""
    return 0


class ClientConnection(Protocol):
    """The connection of a request."""

    context: RequestContext
    client_id_bytes: bytes

    def answer(self, *parts: Buffer | Slice) -> None:
        """Queues a response."""
        ...

    def wait(self) -> None:
        """The response is delayed: serve no further request."""
        ...

    def go_on(self) -> None:
        """The delayed response is queued, or there is none: serve the next request."""
        ...

    def mute(self, throttle_ms: int) -> None:
        """Reads nothing for this long (KIP-219)."""
        ...

    def fail(self, reason: str) -> None:
        """Closes the connection, as no response is possible."""
        ...


class Dispatch:
    """Serves the requests of one listener."""

    def __init__(
        self,
        broker: Broker,
        routes: Mapping[int, Route],
        authorizer: Authorizer,
        quotas: Quotas,
        clock: Clock,
        work: RequestWork,
    ) -> None:
        self._broker = broker
        self._work = work
        self.routes = routes
        self._may_call = authorizer.may_call
        self._quotas = quotas
        self._now_ns = clock.monotonic_ns

    def serve(self, frame: memoryview, connection: ClientConnection) -> None:
        """Serves one request.  Raises ProtocolError if it is malformed: the caller closes the connection."""
        try:
            key, version, correlation_id, client_id_size = _HEAD.unpack_from(frame)
        except struct.error:
            raise ProtocolError(f"a request of {len(frame)} bytes is cut off within its header") from None
        route = self.routes.get(key)
        if route is None or not route.lowest <= version <= route.highest:
            route, version = self._other_route(key, version)
        context = connection.context
        body = _HEAD_SIZE + client_id_size if client_id_size > 0 else _HEAD_SIZE
        if frame[_HEAD_SIZE:body] != connection.client_id_bytes:
            _read_client_id(frame, body, connection)
        if version >= route.flexible_from:
            body = _skip_tags(frame, body)
        context.api_key = key
        context.api_version = version
        context.correlation_id = correlation_id
        if not self._may_call(context, route.api):
            self._refuse_unread(frame, body, connection, route)
            return
        if self._quotas.is_set:
            limits = self._quotas.limits_of(context)
            if limits is not None:
                self._serve_limited(frame, body, connection, route, limits)
                return
        quick = route.quick
        if quick is not None:
            try:
                pieces = quick(self._broker, frame, body, context)
            except Exception as error:
                self._refuse(connection, route, self._read(frame, body, version, route), error)
                return
            if isinstance(pieces, Deferred):
                self._respond_later(connection, route, 0, pieces.request, pieces.answer)
                return
            if pieces is not None:
                head = _ANSWER_HEAD_WITH_TAGS if version >= route.tagged_header_from else _ANSWER_HEAD
                connection.answer(_response_header(head, correlation_id, pieces), *pieces)
                route.metrics.record(self._now_ns() - context.received_ns)
                return
        self._serve_message(frame, body, connection, route)

    def _other_route(self, key: int, version: int) -> tuple[Route, int]:
        """Returns the route of an unsupported version: only ApiVersions responds, in version 0 (KIP-511)."""
        route = self.routes.get(key)
        if route is None:
            raise ProtocolError(f"the API with key {key} is not served on this listener")
        if key == API_VERSIONS_KEY:
            return route, version
        raise ProtocolError(
            f"version {version} of {route.api.name} is not served, only {route.lowest} to {route.highest}",
            code=ErrorCode.UNSUPPORTED_VERSION,
        )

    # Requests -------------------------------------------------------------------------------------------

    def _serve_limited(
        self, frame: memoryview, body: int, connection: ClientConnection, route: Route, limits: Limits
    ) -> None:
        """Serves a client with a quota: counts its bytes and the processing time."""
        began_ns = self._now_ns()
        throttle_ms = limits.received(route.api.key, len(frame))
        self._serve_message(
            frame,
            body,
            connection,
            route,
            lambda: max(throttle_ms, limits.worked(self._now_ns() - began_ns)),
        )

    def _serve_message(
        self,
        frame: memoryview,
        body: int,
        connection: ClientConnection,
        route: Route,
        charge: Callable[[], int] = _no_quota,
        handle: Handle | None = None,
    ) -> None:
        """Decodes and handles the message, and responds now or later."""
        version = connection.context.api_version
        is_large = connection.context.is_large = len(frame) > READ_AT_ONCE_BYTES
        if is_large and route.lowest <= version <= route.highest:
            read = self._work.run_now(route.api.request.decode_steps(frame, body, version))
            if read is None:
                self._queue_message(bytes(frame), body, connection, route, charge, handle)
                return
            request: Message = read[0]
        else:
            request = self._read(frame, body, version, route)
        try:
            answer = (handle or route.handle)(self._broker, request, connection.context)
        except Exception as error:
            self._refuse(connection, route, request, error, charge())
            return
        if answer.__class__ is GeneratorType:
            answer, cancel = self._work.start(answer)
            # The steps may wait for an operation that has its own callback.
            connection.context.on_disconnect = connection.context.on_disconnect or cancel
        throttle_ms = charge()
        if answer.__class__ is Promise:
            self._respond_later(connection, route, throttle_ms, request, answer)
        else:
            self._answer(connection, route, throttle_ms, answer)

    def _respond_later(
        self,
        connection: ClientConnection,
        route: Route,
        throttle_ms: int,
        request: Message,
        answer: Promise[Any],
    ) -> None:
        connection.wait()
        respond = partial(self._respond, connection, route, throttle_ms, request)
        answer.then(respond, respond)

    def _queue_message(
        self,
        frame: bytes,
        body: int,
        connection: ClientConnection,
        route: Route,
        charge: Callable[[], int],
        handle: Handle | None,
    ) -> None:
        """Queues a message that cannot be decoded within a slice."""
        connection.wait()
        steps = self._steps(frame, body, connection.context, route, handle or route.handle)
        answer, connection.context.on_disconnect = self._work.queue(steps)
        throttle_ms = charge()
        answer.then(
            lambda outcome: self._respond(connection, route, throttle_ms, *outcome),
            partial(self._fail, connection, route),
        )

    def _steps(
        self, frame: bytes, body: int, context: RequestContext, route: Route, handle: Handle
    ) -> Steps[tuple[Message, Message | BaseException | None]]:
        """Decodes and handles a message; returns it with the response or the error."""
        request, _ = yield from route.api.request.decode_steps(frame, body, context.api_version)
        try:
            answer = handle(self._broker, request, context)
            if answer.__class__ is GeneratorType:
                answer = yield from answer
            elif answer.__class__ is Promise:
                answer = yield from awaited(answer)
        except Exception as error:
            return request, error
        return request, answer

    def _fail(self, connection: ClientConnection, route: Route, error: BaseException) -> None:
        """Closes the connection of a malformed request."""
        route.metrics.errors += 1
        if not isinstance(error, KafkaError):
            logger.error("%s failed for %r", route.api.name, connection.context, exc_info=error)
        connection.fail(str(error))

    def _read(self, frame: memoryview, body: int, version: int, route: Route) -> Message:
        if not route.lowest <= version <= route.highest:
            # This ApiVersions request cannot be decoded; its handler checks the version.
            return route.api.request()
        message, _ = route.api.request.decode_from(frame, body, version)
        return message

    def _respond(
        self,
        connection: ClientConnection,
        route: Route,
        throttle_ms: int,
        request: Message,
        outcome: Message | BaseException | None,
    ) -> None:
        """Sends a delayed response; an exception must not affect the caller that completed the promise."""
        try:
            if isinstance(outcome, BaseException):
                is_sent = self._refuse(connection, route, request, outcome, throttle_ms)
            else:
                is_sent = self._answer(connection, route, throttle_ms, outcome)
            if is_sent:
                connection.go_on()
        except Exception as error:
            self._sending_failed(connection, route, error)

    def _answer(
        self, connection: ClientConnection, route: Route, throttle_ms: int, answer: Message | None
    ) -> bool:
        """Sends the response; returns False if it is encoded in steps and the connection waits."""
        context = connection.context
        if self._quotas.is_set:
            _throttle(connection, throttle_ms, answer)
        if answer is not None:
            version = context.api_version if route.lowest <= context.api_version <= route.highest else 0
            if (context.is_large or context.api_key not in _HOT) and has_many_elements(
                answer, WRITTEN_AT_ONCE_ELEMENTS
            ):
                self._respond_in_steps(connection, route, answer, version)
                return False
            try:
                pieces = write_response_pieces(answer, version, context.correlation_id)
            except Exception as error:
                self._encoding_failed(connection, route, error)
                return True
            # Handlers put slices of files into records fields.
            connection.answer(*cast("Pieces", pieces))
        route.metrics.record(self._now_ns() - context.received_ns)
        return True

    def _respond_in_steps(
        self, connection: ClientConnection, route: Route, answer: Message, version: int
    ) -> None:
        context = connection.context
        connection.wait()
        steps = write_response_steps(answer, version, context.correlation_id, MAX_RESPONSE_BYTES)
        written, context.on_disconnect = self._work.start(steps)
        written.then(
            partial(self._send_encoded, connection, route), partial(self._encoding_failed, connection, route)
        )

    def _send_encoded(self, connection: ClientConnection, route: Route, pieces: object) -> None:
        try:
            connection.answer(*cast("Pieces", pieces))
            route.metrics.record(self._now_ns() - connection.context.received_ns)
            connection.go_on()
        except Exception as error:
            self._sending_failed(connection, route, error)

    def _sending_failed(self, connection: ClientConnection, route: Route, error: Exception) -> None:
        logger.error(
            "the response of %s to %r cannot be sent", route.api.name, connection.context, exc_info=error
        )
        connection.fail("an error in its response")

    def _encoding_failed(self, connection: ClientConnection, route: Route, error: BaseException) -> None:
        """A response that cannot be encoded must not affect the caller that completed the promise."""
        logger.error(
            "the response of %s to %r cannot be encoded", route.api.name, connection.context, exc_info=error
        )
        connection.fail("its response cannot be encoded")

    # Errors ---------------------------------------------------------------------------------------------

    def _refuse_unread(
        self, frame: memoryview, body: int, connection: ClientConnection, route: Route
    ) -> None:
        self._serve_message(frame, body, connection, route, handle=_not_authorized)

    def _refuse(
        self,
        connection: ClientConnection,
        route: Route,
        request: Message,
        error: BaseException,
        throttle_ms: int = 0,
    ) -> bool:
        """The only place that turns an error into a response; returns False if it is encoded in steps."""
        route.metrics.errors += 1
        if isinstance(error, CloseConnectionError):
            connection.fail(str(error))
            return True
        if isinstance(error, KafkaError):
            code, text = error.code, error.message
        else:
            logger.error("%s failed for %r", route.api.name, connection.context, exc_info=error)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            text = ERRORS[code].text
        response = refusal(route, request, code, text)
        if response is None:
            connection.fail(f"{route.api.name} has no response for {code.name}: {text}")
            return True
        return self._answer(connection, route, throttle_ms, response)


def _not_authorized(broker: object, request: object, context: object) -> Message:
    """The handler of an API that this client may not use."""
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _throttle(connection: ClientConnection, throttle_ms: int, answer: Message | None) -> None:
    """Sets the throttle time of the response and mutes the connection."""
    response: Any = answer
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms = max(response.throttle_time_ms, throttle_ms)
    if throttle_ms:
        connection.mute(throttle_ms)


def refusal(route: Route, request: Message, code: ErrorCode, text: str) -> Message | None:
    """Returns the API's response to a request that failed as a whole; None if the API has none."""
    if not route.is_loaded:
        route.load()
    if route.refuse is not None:
        return route.refuse(request, code, text)
    response: Any = api(route.api.key).response.schema.new()
    if not hasattr(response, "error_code"):
        return None
    response.error_code = code
    if hasattr(response, "error_message"):
        response.error_message = text
    message: Message = response
    return message


def _read_client_id(frame: memoryview, end: int, connection: ClientConnection) -> None:
    """Reads the client id, for the first time or because it has changed."""
    if end > len(frame):
        size = end - _HEAD_SIZE
        raise ProtocolError(f"a client id of {size} bytes does not fit", position=_HEAD_SIZE)
    given = bytes(frame[_HEAD_SIZE:end])
    connection.client_id_bytes = given
    connection.context.client_id = str(given, "utf-8", "replace")


def _skip_tags(frame: memoryview, position: int) -> int:
    try:
        count = frame[position]
        return skip_tagged_fields(frame, position + 1, count) if count else position + 1
    except IndexError:
        raise ProtocolError("a request is cut off within its header", position=position) from None


def _response_header(head: struct.Struct, correlation_id: int, pieces: Pieces) -> bytes:
    """Encodes size, correlation id and, in flexible versions, empty tagged fields."""
    size = head.size - _SIZE_BYTES
    for piece in pieces:
        size += len(piece) if isinstance(piece, _BUFFERS) else piece.length
    return head.pack(size, correlation_id)
