"""Requests to the active controller on another node: found, sent, and sent again when it moves (KIP-590).

A request of this node goes as it is; one of a client goes in an envelope with the client's principal.  As
long as the deadline allows, a request waits for a controller: clients do not notice an election.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.principals import LOCALHOST, OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.envelope import is_local, open_response, wrap_request
from barnabas.broker.peers.peers import Peers
from barnabas.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address

ENVELOPE_KEY = 58
RETRY_NS = 50 * NS_PER_MS
# How long a former controller, which may be paused or cut off, has to answer the requests that it was sent.
FORMER_CONTROLLER_NS = 500 * NS_PER_MS
# Requests that wait for a controller; beyond that they are refused.
MAX_WAITING = 10_000


class _Request(NamedTuple):
    message: Message
    version: int
    principal: str
    host: str
    client_id: str
    deadline_ns: int
    response: Promise[Message]
    # The controller that decides authorizes it, too: it may not be decided here without that.
    is_forwarded: bool


class ControllerChannel:
    """The channel of one node.  `find` returns where the active controller is, None if nobody is known.

    `ask_local` takes a request if this node's own controller is active (`is_local`), which it may become at
    any time.
    """

    def __init__(
        self,
        peers: Peers,
        find: Callable[[], Address | None],
        ask_local: Callable[[Message, int, str, str], Promise[Message] | None],
        is_local: Callable[[], bool],
        *,
        clock: Clock,
        timers: TimerService,
        request_timeout_ms: int,
    ) -> None:
        self._peers = peers
        self._find = find
        self._ask_local = ask_local
        self._is_local = is_local
        self._clock = clock
        self._timers = timers
        self._request_timeout_ms = request_timeout_ms
        self._waiting: deque[_Request] = deque()
        self._is_closed = False

    def send_request(
        self,
        message: Message,
        version: int,
        principal: str,
        *,
        host: str = LOCALHOST,
        client_id: str = "",
        is_forwarded: bool = False,
    ) -> Promise[Message]:
        """Completed with the controller's response; fails with REQUEST_TIMED_OUT if there is none in time.

        A request that is only forwarded has not been authorized: it fails with NOT_CONTROLLER if this node's
        own controller becomes active.
        """
        response: Promise[Message] = Promise()
        deadline_ns = self._clock.monotonic_ns() + self._request_timeout_ms * NS_PER_MS
        request = _Request(message, version, principal, host, client_id, deadline_ns, response, is_forwarded)
        if self._is_closed:
            response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is stopping"))
        elif len(self._waiting) >= MAX_WAITING:
            response.fail(
                KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{MAX_WAITING} requests wait for a controller")
            )
        else:
            self._send(request)
        return response

    def _send(self, request: _Request) -> None:
        local = self._local_response(request)
        if local is not None:
            local.then(request.response.set, request.response.fail)
            return
        address = self._find()
        now_ns = self._clock.monotonic_ns()
        if now_ns >= request.deadline_ns:
            request.response.fail(
                KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no controller has responded in time")
            )
        elif address is None:
            self._wait(request)
        else:
            done = partial(self._received, request)
            timeout_ms = max(1, (request.deadline_ns - now_ns) // NS_PER_MS)
            if _is_own(request):
                key = request.message.schema.key
                assert key is not None, "a request has a key"
                self._peers.send(address, key, lambda _: request.message, done, timeout_ms, request.version)
            else:
                make = partial(_envelope, request)
                self._peers.send(address, ENVELOPE_KEY, make, done, timeout_ms)

    def _local_response(self, request: _Request) -> Promise[Message] | None:
        if not request.is_forwarded:
            return self._ask_local(request.message, request.version, request.principal, request.client_id)
        if not self._is_local():
            return None
        refused: Promise[Message] = Promise()
        refused.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node's controller has become active"))
        return refused

    def _received(self, request: _Request, message: Message | None, error: Exception | None) -> None:
        if message is None or _is_wrong_controller(message):
            self._wait(request)
            return
        if isinstance(message, EnvelopeResponse):
            try:
                message = open_response(message, request.message, request.version)
            except KafkaError as refusal:
                request.response.fail(refusal)
                return
        request.response.set(message)

    # Waiting for a controller

    def _wait(self, request: _Request) -> None:
        if self._is_closed:
            request.response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is stopping"))
            return
        self._waiting.append(request)
        if len(self._waiting) == 1:
            self._timers.set((self, "retry"), self._clock.monotonic_ns() + RETRY_NS, self._retry)

    def _retry(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            self._send(request)

    def controller_changed(self) -> None:
        """The active controller is known, or another one: do not wait any longer."""
        self._timers.cancel((self, "retry"))
        self._retry()
        abandon_ns = self._clock.monotonic_ns() + FORMER_CONTROLLER_NS
        self._timers.set((self, "abandon"), abandon_ns, self._abandon_former)

    def _abandon_former(self) -> None:
        """Requests that a former controller has not answered go to the present one."""
        self._peers.keep_only((self._find(),))

    def close(self) -> None:
        self._is_closed = True
        self._timers.cancel((self, "retry"))
        self._timers.cancel((self, "abandon"))
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is stopping"))
        self._peers.close()


def _is_own(request: _Request) -> bool:
    """Whether the controller can authorize the request by the connection that it comes on."""
    return request.principal == OWN_PRINCIPAL and not request.is_forwarded and is_local(request.host)


def _envelope(request: _Request, _: int) -> EnvelopeRequest:
    return wrap_request(request.message, request.version, request.principal, request.host, request.client_id)


def _is_wrong_controller(message: Message) -> bool:
    return getattr(message, "error_code", 0) == ErrorCode.NOT_CONTROLLER
