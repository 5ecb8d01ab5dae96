"""ListGroups (api key 16), versions 0 to 5.

Lists the groups of all types that this broker coordinates and the client may describe.  From version 4 on
filtered by state (KIP-518), from 5 on by type (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.broker.coordinators.group_requests import recover
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
        return _response(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    sees_all = broker.authorizer.allows(
        request_context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME, quiet=True
    )
    matches = _filter(request)

    def may_see(group_id: str) -> bool:
        return sees_all or broker.authorizer.allows(
            request_context, Operation.DESCRIBE, Resource.GROUP, group_id, quiet=True
        )

    def decide(machine: GroupMachine, context: Context) -> Decision[Listed]:
        chosen = [group.listed() for group in machine.table if matches(group) and may_see(group.group_id)]
        return Decision((), chosen)

    listed: Listed = []
    for index in groups.active():
        # A shard that is unloaded meanwhile has no groups on this broker.
        listed += yield from awaited(recover(groups.submit_to_partition(index, decide), lambda _: []))
        yield None
    return _response(ErrorCode.NONE, listed)


def _filter(request: ListGroupsRequest) -> Callable[[Group], bool]:
    """Case-insensitive; an unknown type matches no group."""
    states = {state.lower().strip() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}

    def matches(group: Group) -> bool:
        return (not states or group.state_name.lower() in states) and (not types or group.kind in types)

    return matches


def _response(code: ErrorCode, groups: Listed) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code, groups=groups)
