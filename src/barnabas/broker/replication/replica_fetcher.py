"""Runs one fetcher: sends its requests to the leader, and applies the responses.

Contains the connection, deadlines and slices of work; what to request and what a response means belong in
replica/fetching, the effects on logs and waiting clients in follower_effects.py.

One request is in flight at a time.  A response is processed where it was received, without a copy; what does
not fit one slice of time is copied once and continued after a pause.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.peer_connection import Done, MakeRequest
from barnabas.broker.replication.follower_effects import FollowerEffects
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.primitives import record_view
from barnabas.protocol.schema import Message
from barnabas.replica.fetching.fetch_session import PartitionKey
from barnabas.replica.fetching.fetch_state import FetchState, Truncation
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import Fetched, Outcome
from barnabas.replica.fetching.requests import identified
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address
from barnabas.storage.failure import StorageFailure

logger = logging.getLogger(__name__)

FETCH_KEY = 1
LIST_OFFSETS_KEY = 2
# How long the processing of a response may hold the loop, and the pause before it continues.
SLICE_NS = 5 * NS_PER_MS
PAUSE_NS = NS_PER_MS


class LeaderConnection(Protocol):
    """The part of `peers.Peers` that a fetcher needs."""

    def send(
        self,
        address: Address,
        key: int,
        make: MakeRequest,
        done: Done,
        timeout_ms: int,
        *,
        in_place: bool = False,
    ) -> None: ...

    def close(self) -> None: ...


class ReplicaFetcher:
    """The fetcher of one leader and number.  Runs on the event loop's thread."""

    def __init__(
        self,
        leader_id: int,
        number: int,
        fetcher: Fetcher,
        connection: LeaderConnection,
        effects: FollowerEffects,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        address_of: Callable[[int], Address | None],
        timeout_ms: int,
        timers: TimerService,
        now_ns: Callable[[], int],
        at_tick_end: Callable[[Callable[[], None]], None],
    ) -> None:
        self.leader_id = leader_id
        self.number = number
        self.fetcher = fetcher
        self._connection = connection
        self._effects = effects
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._address_of = address_of
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._now_ns = now_ns
        self._at_tick_end = at_tick_end
        # Whether a request is in flight, or its response is being processed.
        self._is_busy = False
        self._is_due = False
        self._is_closed = False
        self._is_reachable = True
        self._fetched: deque[Fetched] = deque()
        # Counters for metrics: only grow.
        self.requests = 0
        self.bytes_in = 0

    def __repr__(self) -> str:
        return f"fetcher {self.number} of broker {self.leader_id}"

    def wake(self) -> None:
        """Partitions have changed: send the next request at the end of this tick, unless one is in flight."""
        if not self._is_due and not self._is_busy and not self._is_closed:
            self._is_due = True
            self._at_tick_end(self._wake_up)

    def _wake_up(self) -> None:
        self._is_due = False
        self._send()

    def close(self) -> None:
        self._is_closed = True
        self._timers.cancel((self, "retry"))
        self._timers.cancel((self, "slice"))
        self._fetched.clear()
        self._connection.close()

    # Requests

    def _send(self) -> None:
        if self._is_busy or self._is_closed:
            return
        now_ns = self._now_ns()
        request = self.fetcher.next_request(now_ns)
        if request is None:
            wake_ns = self.fetcher.wake_ns(now_ns)
            if wake_ns is not None:
                self._timers.set((self, "retry"), wake_ns, self._send)
            return
        self._timers.cancel((self, "retry"))
        self._is_busy = True
        self.requests += 1
        address = self._address_of(self.leader_id)
        if address is None:
            self._failed(f"broker {self.leader_id} is not registered, or not on the listener of brokers")
        elif isinstance(request, ListOffsetsRequest):
            offsets = request
            self._connection.send(
                address, LIST_OFFSETS_KEY, lambda _: offsets, self._offsets_received, self._timeout_ms
            )
        else:
            make = partial(self._identified, request)
            self._connection.send(address, FETCH_KEY, make, self._received, self._timeout_ms, in_place=True)

    def _identified(self, request: FetchRequest, version: int) -> FetchRequest:
        return identified(request, version, self._broker_id, self._broker_epoch())

    def _failed(self, reason: object) -> None:
        self._is_busy = False
        if self._is_closed:
            return
        delay_ms = self.fetcher.failed(self._now_ns())
        # Once, until it responds again.
        if self._is_reachable:
            self._is_reachable = False
            logger.warning("%r: no response (%s); trying again in %d ms", self, reason, delay_ms)
        self._send()

    # Responses

    def _received(self, message: Message | None, error: Exception | None) -> None:
        if self._is_closed:
            return
        if not isinstance(message, FetchResponse):
            self._failed(error)
            return
        try:
            self._fetched.extend(self.fetcher.received(message, self._now_ns()))
        except Exception as fault:
            self._not_understood(fault)
            return
        self._responded()
        self._process()

    def _not_understood(self, fault: Exception) -> None:
        """The next request must be sent, whatever a response contains."""
        logger.error("%r: a response could not be processed", self, exc_info=fault)
        self._failed(fault)

    def _responded(self) -> None:
        if not self._is_reachable:
            self._is_reachable = True
            logger.info("%r responds again", self)

    def _process(self) -> None:
        """Process what was fetched, for the time of a slice; then the next request."""
        until_ns = self._now_ns() + SLICE_NS
        fetched = self._fetched
        while fetched:
            self._process_one(fetched.popleft())
            if self._is_closed:
                return
            if fetched and self._now_ns() >= until_ns:
                for each in fetched:
                    # The receive buffer is used for something else meanwhile.
                    each.data.records = bytes(record_view(each.data.records))
                self._timers.set((self, "slice"), self._now_ns() + PAUSE_NS, self._process)
                return
        self._is_busy = False
        self._send()

    def _process_one(self, fetched: Fetched) -> None:
        self._carry_out(fetched.state, partial(self.fetcher.process, fetched))

    def _carry_out(self, state: FetchState, action: Callable[[int], Outcome]) -> None:
        """One partition's trouble does not affect the others."""
        try:
            outcome = action(self._now_ns())
        except StorageFailure as failure:
            self._effects.directory_failed(state.partition, failure)
            return
        except Exception:
            logger.exception("%r: what the leader has sent could not be processed", state)
            self.fetcher.postpone(state, self._now_ns())
            return
        if outcome.bytes_appended:
            self.bytes_in += outcome.bytes_appended
            self._effects.appended(state.partition, outcome.bytes_appended)
            throttle_ms = self._effects.throttle_ms(state.partition, outcome.bytes_appended)
            if throttle_ms and state.lag:
                # Only a replica that is behind: one in sync must not leave the ISR by its throttle.
                self.fetcher.throttle(state, self._now_ns(), throttle_ms)
        if outcome.high_watermark_advanced:
            self._effects.high_watermark_advanced(state.partition)
        if outcome.truncation is not None:
            self.truncate(outcome.truncation)
        if outcome.must_note_gaps:
            self._effects.note_gaps(
                state.partition, partial(self._gaps_noted, state), partial(self.fetcher.no_room, state)
            )

    def _gaps_noted(self, state: FetchState) -> None:
        if not self._is_closed:
            self.fetcher.gaps_noted(state)
            self.wake()

    def has_room(self, key: PartitionKey) -> None:
        """The partition's directory has space again."""
        if self.fetcher.has_room(key):
            self.wake()

    def _offsets_received(self, message: Message | None, error: Exception | None) -> None:
        if self._is_closed:
            return
        if not isinstance(message, ListOffsetsResponse):
            self._failed(error)
            return
        try:
            truncations = self.fetcher.offsets_received(message, self._now_ns())
        except Exception as fault:
            self._not_understood(fault)
            return
        self._responded()
        for truncation in truncations:
            self.truncate(truncation)
        self._is_busy = False
        self._send()

    # Truncation

    def truncate(self, truncation: Truncation) -> None:
        """Have the log truncated; the partition is fetched again when that is done."""
        state = truncation.state
        self._effects.truncate(
            state.partition,
            truncation.offset,
            truncation.log_start_offset,
            partial(self._truncated, state),
        )

    def _truncated(self, state: FetchState) -> None:
        if not self._is_closed:
            self._carry_out(state, partial(self.fetcher.truncated, state))
            self.wake()
