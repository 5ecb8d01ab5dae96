"""ListGroups (api key 16), versions 0 to 5.

The groups of all kinds that this broker coordinates, if they may be described.  From version 4 on filtered by
state (KIP-518), from 5 on by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.coordinators.group_requests import answered
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.table import Group
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 16

Listed = list[ListGroupsResponse.ListedGroup]


def handle(
    broker: Broker, request: ListGroupsRequest, request_context: RequestContext
) -> Steps[ListGroupsResponse]:
    groups = broker.groups
    if groups.is_loading:
        return _answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    sees_all = broker.authorizer.allows(
        request_context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, quiet=True
    )
    is_wanted = _filter(request)

    def may_see(group_id: str) -> bool:
        return sees_all or broker.authorizer.allows(
            request_context, Operation.DESCRIBE, Resource.GROUP, group_id, quiet=True
        )

    def decide(machine: GroupMachine, context: Context) -> Decision[Listed]:
        chosen = [group.listed() for group in machine.table if is_wanted(group) and may_see(group.group_id)]
        return Decision((), chosen)

    listed: Listed = []
    for index in groups.active():
        # A shard that goes meanwhile has no groups here any more.
        listed += yield from awaited(answered(groups.ask_partition(index, decide), lambda _: []))
        yield None
    return _answer(ErrorCode.NONE, listed)


def _filter(request: ListGroupsRequest) -> Callable[[Group], bool]:
    """Without regard to case; a type that nobody knows is the type of no group."""
    states = {state.lower().strip() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}

    def is_wanted(group: Group) -> bool:
        return (not states or group.state_name.lower() in states) and (not types or group.kind in types)

    return is_wanted


def _answer(code: ErrorCode, groups: Listed) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code, groups=groups)
