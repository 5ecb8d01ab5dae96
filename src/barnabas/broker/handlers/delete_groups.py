"""DeleteGroups (api key 42), versions 0 to 2.

Deletes empty groups of any type, with their offsets (KIP-229).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.chunked_lookup import look_up
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, each
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 42

Results = dict[str, ErrorCode]


def handle(
    broker: Broker, request: DeleteGroupsRequest, request_context: RequestContext
) -> Steps[DeleteGroupsResponse]:
    allowed: list[str] = []
    denied: list[str] = []
    for group_id in dict.fromkeys(request.groups_names):
        (allowed if _may_delete(broker, request_context, group_id) else denied).append(group_id)
        yield None
    deleted = yield from look_up(broker.groups, allowed, _delete, _error_code)
    results = {group_id: deleted[group_id] for group_id in allowed}
    results |= dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return DeleteGroupsResponse(throttle_time_ms=0, results=(yield from each(results.items(), _result)))


def refuse(request: DeleteGroupsRequest, code: ErrorCode, text: str) -> DeleteGroupsResponse:
    return _response(dict.fromkeys(request.groups_names, code))


def _may_delete(broker: Broker, request_context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(request_context, Operation.DELETE, Resource.GROUP, name)


def _delete(machine: GroupMachine, context: Context, group_ids: Sequence[str]) -> Decision[Results]:
    return machine.delete(group_ids, context)


def _error_code(_: str, error: KafkaError) -> ErrorCode:
    return error.code


def _response(results: Results) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(throttle_time_ms=0, results=[_result(result) for result in results.items()])


def _result(result: tuple[str, ErrorCode]) -> DeleteGroupsResponse.DeletableGroupResult:
    name, code = result
    return DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=code)
