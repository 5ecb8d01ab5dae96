"""What the handlers of groups' APIs have in common.

What lives here: who asks, the refusals that come before a coordinator is asked, and answers put together from
several shards.  What may not: any one API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.requests import Call
from barnabas.coordinator.group.caller import Caller
from barnabas.runtime.later import Later

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

R = TypeVar("R")


def caller_of(call: Call) -> Caller:
    """A member is known by its client id and its address, which is written as Java writes one."""
    host = call.peer.host
    if ":" in host:
        whole = IPv6Address(host.partition("%")[0]).exploded
        host = ":".join(f"{int(part, 16):x}" for part in whole.split(":"))
    return Caller(call.client_id, f"/{host}", call.api_version)


def check_member_request(broker: Broker, call: Call, group_id: str) -> None:
    """Whether this client may take part in this group."""
    if not broker.authorizer.allows(call, Operation.READ, Resource.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


def answered(later: Later[R], refused: Callable[[KafkaError], R]) -> Later[R]:
    """Its value, or the answer that tells its error; faults of ours go on as they are."""
    answer: Later[R] = Later()

    def fail(error: BaseException) -> None:
        if isinstance(error, KafkaError):
            answer.set(refused(error))
        else:
            answer.fail(error)

    later.then(answer.set, fail)
    return answer


def gathered(laters: Sequence[Later[R]]) -> Later[list[R]]:
    """All values in their order, or the first error."""
    answer: Later[list[R]] = Later()
    values: dict[int, R] = {}

    def keep(index: int, value: R) -> None:
        values[index] = value
        if len(values) == len(laters) and not answer.done:
            answer.set([values[index] for index in range(len(laters))])

    def fail(error: BaseException) -> None:
        if not answer.done:
            answer.fail(error)

    for index, later in enumerate(laters):
        later.then(lambda value, index=index: keep(index, value), fail)  # type: ignore[misc]  # R is invariant
    if not laters:
        answer.set([])
    return answer
