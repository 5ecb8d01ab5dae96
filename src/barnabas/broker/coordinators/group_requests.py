"""Helpers shared by the handlers of the group APIs: the caller, early checks, and errors as responses."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.group.caller import Caller
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

R = TypeVar("R")


def caller_of(context: RequestContext) -> Caller:
    """Returns the client id and address of the client; the address is formatted as in Java."""
    host = context.peer.host
    if ":" in host:
        exploded = IPv6Address(host.partition("%")[0]).exploded
        host = ":".join(f"{int(part, 16):x}" for part in exploded.split(":"))
    return Caller(context.client_id, f"/{host}", context.api_version)


def check_member_request(broker: Broker, context: RequestContext, group_id: str) -> None:
    """Raises unless the client may be a member of the group."""
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def recover(promise: Promise[R], refused: Callable[[KafkaError], R]) -> Promise[R]:
    """Turns a KafkaError of the promise into a response; other exceptions are passed on."""
    recovered: Promise[R] = Promise()

    def fail(error: BaseException) -> None:
        if isinstance(error, KafkaError):
            recovered.set(refused(error))
        else:
            recovered.fail(error)

    promise.then(recovered.set, fail)
    return recovered
