"""Routes that consult the rules: without a rule for its API a request takes its usual way.

Everything runs on the reactor's thread.
"""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.network.dispatch import refusal
from barnabas.broker.network.request_context import CloseConnectionError, RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.network.routes import Handle, Quick, Route
from barnabas.broker.server import Broker
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.testing.kit.faults import parts
from barnabas.testing.kit.faults.rules import ANY_API, Fault

_FETCH, _PRODUCE = "Fetch", "Produce"
# The errors that a fetch has as a whole; every other one is that of partitions.
_OF_FETCH_SESSIONS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class FaultPlan:
    """The rules of a cluster, shared by its nodes."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        # For each API the faults that may strike it; changed as a whole.
        self._by_api: dict[str, list[Fault]] = {}
        self._anywhere: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self.faults.append(fault)
        self._changed()

    def remove(self, fault: Fault) -> None:
        """Requests that it holds go on."""
        if fault in self.faults:
            self.faults.remove(fault)
            self._changed()
        fault.release()

    def clear(self) -> None:
        for fault in list(self.faults):
            self.remove(fault)

    def _changed(self) -> None:
        self._anywhere = [fault for fault in self.faults if fault.api == ANY_API]
        self._by_api = {}
        for fault in self.faults:
            if fault.api != ANY_API:
                self._by_api.setdefault(fault.api, []).append(fault)

    def may_strike(self, api: str) -> bool:
        return bool(self._anywhere) or api in self._by_api

    def candidates(self, api: str) -> list[Fault]:
        return [*self._by_api.get(api, ()), *self._anywhere]


class FaultyRoute(Route):
    """A route of one node, with faults."""

    __slots__ = ("_plan", "_quick", "_timers")

    def __init__(self, route: Route, plan: FaultPlan, timers: TimerService) -> None:
        self._plan = plan
        self._timers = timers
        for name in Route.__slots__:
            setattr(self, name, getattr(route, name))

    @property
    def quick(self) -> Quick | None:
        """No quick path while a fault may strike."""
        return None if self._plan.may_strike(self.api.name) else self._quick

    @quick.setter
    def quick(self, value: Quick | None) -> None:
        self._quick = value

    @property
    def handle(self) -> Handle:
        real = super().handle
        return self._handle_faulty if self._plan.may_strike(self.api.name) else real

    def _handle_faulty(self, broker: Broker, request: Any, context: RequestContext) -> Any:
        node, real = broker.node.node_id, super().handle
        for fault in self._plan.candidates(self.api.name):
            if not fault.strikes(self.api.name, node, context.client_id, request):
                continue
            if fault.is_partial and not self._names(broker, fault, request):
                continue
            fault.struck(self.api.name)
            return self._struck(fault, real, broker, request, context)
        return real(broker, request, context)

    def _names(self, broker: Broker, fault: Fault, request: Any) -> bool:
        wanted = parts.named(request, lambda topic_id: _name_by_id(broker, topic_id))
        if self.api.name == _FETCH:
            session = broker.replicas.sessions.get(request.session_id)
            if session is not None:
                wanted += [
                    (_name_of_key(broker, key), cached.wanted.partition)
                    for key, cached in session.partitions.items()
                ]
        return any(fault.wants(*name) for name in wanted)

    def _struck(
        self, fault: Fault, real: Handle, broker: Broker, request: Any, context: RequestContext
    ) -> Steps[Message | None]:
        if fault.delay_s or fault.hold:
            parts.own(request)
            # A client that has given up does not take back what it has sent.
            context.on_disconnect = _go_on
        if fault.delay_s:
            yield from awaited(self._after(broker, fault.delay_s))
        if fault.hold:
            held: Promise[None] = Promise()
            fault.held.append(held)
            yield from awaited(held)
        if fault.drop == "before":
            raise CloseConnectionError(f"{fault}")
        if fault.error is None:
            response = yield from _answered(real(broker, request, context))
        elif self.api.name == _FETCH and fault.error not in _OF_FETCH_SESSIONS:
            response = yield from self._fetched(fault, real, broker, request, context)
        elif fault.after:
            response = yield from self._served_all_the_same(fault, real, broker, request, context)
        elif fault.is_partial:
            response = yield from self._served_in_part(fault, real, broker, request, context)
        else:
            raise KafkaError(fault.error)
        if fault.drop == "after":
            raise CloseConnectionError(f"{fault}")
        if fault.throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(response.throttle_time_ms, fault.throttle_ms)
        return response  # type: ignore[no-any-return]

    def _served_in_part(
        self, fault: Fault, real: Handle, broker: Broker, request: Any, context: RequestContext
    ) -> Steps[Any]:
        """The partitions of the fault get its error, the others what they always get."""
        assert fault.error is not None

        def name_of(topic_id: Any) -> str | None:
            return _name_by_id(broker, topic_id)

        struck = parts.keep(request, fault.wants, name_of)
        refused = self._refused(struck, fault.error, context)
        rest = parts.keep(request, lambda topic, index: not fault.wants(topic, index), name_of)
        if not parts.named(rest, name_of):
            return refused
        response = yield from _answered(real(broker, rest, context))
        if response is not None and refused is not None:
            parts.merge(response, refused, name_of)
        return response

    def _served_all_the_same(
        self, fault: Fault, real: Handle, broker: Broker, request: Any, context: RequestContext
    ) -> Steps[Any]:
        """The work is done, and the partitions of the fault have its error in the answer."""
        assert fault.error is not None

        def name_of(topic_id: Any) -> str | None:
            return _name_by_id(broker, topic_id)

        response = yield from _answered(real(broker, request, context))
        if response is None:
            return None
        if self.api.name == _PRODUCE:
            # With the offsets of what was appended, as brokers say that nobody has confirmed it in time.
            for topic in response.responses:
                name = parts.topic_name(topic, name_of) or ""
                for part in topic.partition_responses:
                    if fault.wants(name, part.index):
                        part.error_code = fault.error
            return response
        if not fault.is_partial:
            return self._refused(request, fault.error, context)
        refused = self._refused(parts.keep(request, fault.wants, name_of), fault.error, context)
        kept = parts.keep(response, lambda topic, index: not fault.wants(topic, index), name_of)
        parts.merge(kept, refused, name_of)
        return kept

    def _fetched(
        self, fault: Fault, real: Handle, broker: Broker, request: Any, context: RequestContext
    ) -> Steps[Any]:
        """A fetch changes nothing, and its session must see all of it: the error replaces what was read."""
        from barnabas.broker.replicas.partition_reads import error_data

        assert fault.error is not None
        request.max_wait_ms = 0
        response = yield from _answered(real(broker, request, context))
        if response is None or response.error_code:
            return response
        struck: dict[tuple[str, int], Any] = {}
        for topic in list(response.responses):
            name = parts.topic_name(topic, lambda topic_id: _name_by_id(broker, topic_id)) or ""
            hit = [
                part.partition_index for part in topic.partitions if fault.wants(name, part.partition_index)
            ]
            struck.update({(name, index): None for index in hit})
            topic.partitions = [
                error_data(part.partition_index, fault.error) if part.partition_index in hit else part
                for part in topic.partitions
            ]
        for name, index in self._wanted(broker, request, response.session_id):
            if fault.wants(name, index) and (name, index) not in struck:
                _add_partition(broker, response, name, error_data(index, fault.error))
        return response

    def _wanted(self, broker: Broker, request: Any, session_id: int) -> list[tuple[str, int]]:
        session = broker.replicas.sessions.get(session_id)
        if session is not None:
            return [
                (_name_of_key(broker, key), cached.wanted.partition)
                for key, cached in session.partitions.items()
            ]
        found = parts.named(request, lambda topic_id: _name_by_id(broker, topic_id))
        return [(name, index) for name, index in found if index is not None]

    def _refused(self, request: Any, code: ErrorCode, context: RequestContext) -> Message | None:
        response = refusal(self, request, code, ERRORS[code].text)
        if response is None:
            raise CloseConnectionError(f"{self.api.name} has no response for {code.name}")
        return response

    def _after(self, broker: Broker, delay_s: float) -> Promise[None]:
        done: Promise[None] = Promise()
        deadline_ns = broker.clock.monotonic_ns() + int(delay_s * 1_000) * NS_PER_MS
        self._timers.set((done, "fault"), deadline_ns, lambda: done.set(None))
        return done


def _go_on() -> None:
    """The connection has ended; the request is served all the same."""


def _answered(answer: Any) -> Steps[Any]:
    """The response of a handler, in whatever form it comes."""
    if answer.__class__ is GeneratorType:
        answer = yield from answer
    elif answer.__class__ is Promise:
        answer = yield from awaited(answer)
    return answer


def _name_by_id(broker: Broker, topic_id: Any) -> str | None:
    topic = broker.image.topics.get(topic_id)
    return None if topic is None else topic.name


def _name_of_key(broker: Broker, key: Any) -> str:
    """A session knows topics by id or by name."""
    topic = key[0]
    return topic if isinstance(topic, str) else _name_by_id(broker, topic) or ""


def _add_partition(broker: Broker, response: Any, name: str, data: Any) -> None:
    from barnabas.protocol.messages.fetch import FetchResponse

    topic = broker.image.topic_named(name)
    if topic is None:
        return
    response.responses = [
        *response.responses,
        FetchResponse.FetchableTopicResponse(topic=name, topic_id=topic.id, partitions=[data]),
    ]


def install(broker: Broker, plan: FaultPlan, timers: TimerService) -> None:
    """Every route of a broker that has not started consults the plan."""
    for listener in broker.listeners.values():
        listener.dispatch.routes = {
            key: FaultyRoute(route, plan, timers) for key, route in listener.dispatch.routes.items()
        }
