"""What the handlers of groups' APIs have in common.

What lives here: who asks, the refusals that come before a coordinator is asked, and answers put together from
several shards.  What may not: any one API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """A member is known by its client id and its address, which is written as Java writes one."""
    host = context.peer.host
    if ":" in host:
        whole = IPv6Address(host.partition("%")[0]).exploded
        host = ":".join(f"{int(part, 16):x}" for part in whole.split(":"))
    return Caller(context.client_id, f"/{host}", context.api_version)


def check_member_request(broker: Broker, context: RequestContext, group_id: str) -> None:
    """Whether this client may take part in this group."""
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def recover(promise: Promise[R], refused: Callable[[KafkaError], R]) -> Promise[R]:
    """Its value, or the answer that tells its error; faults of ours go on as they are."""
    answer: Promise[R] = Promise()

    def fail(error: BaseException) -> None:
        if isinstance(error, KafkaError):
            answer.set(refused(error))
        else:
            answer.fail(error)

    promise.then(answer.set, fail)
    return answer


def gather(promises: Sequence[Promise[R]]) -> Promise[list[R]]:
    """All values in their order, or the first error."""
    answer: Promise[list[R]] = Promise()
    values: dict[int, R] = {}

    def keep(index: int, value: R) -> None:
        values[index] = value
        if len(values) == len(promises) and not answer.done:
            answer.set([values[index] for index in range(len(promises))])

    def fail(error: BaseException) -> None:
        if not answer.done:
            answer.fail(error)

    for index, promise in enumerate(promises):
        promise.then(lambda value, index=index: keep(index, value), fail)  # type: ignore[misc]  # R is invariant
    if not promises:
        answer.set([])
    return answer
