"""DeleteGroups (api key 42), versions 0 to 2.

Groups without members are forgotten with their offsets (KIP-229), whatever kind they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.group_requests import answered
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.request_steps import Steps, awaited, chunks, each
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.runtime.loop.promise import Promise

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 42

Results = dict[str, ErrorCode]


def handle(
    broker: Broker, request: DeleteGroupsRequest, request_context: RequestContext
) -> Steps[DeleteGroupsResponse]:
    results: Results = {}
    denied: list[str] = []
    by_partition: dict[int, list[str]] = {}
    for name in dict.fromkeys(request.groups_names):
        if _may_delete(broker, request_context, name):
            results[name] = ErrorCode.NONE
            by_partition.setdefault(broker.groups.partition_for(name), []).append(name)
        else:
            denied.append(name)
        yield None
    parts = []
    for index, group_ids in by_partition.items():
        for some in chunks(group_ids):
            parts.append(_delete(broker, index, some))
            yield None
    for part in parts:
        results.update((yield from awaited(part)))
    results |= dict.fromkeys(denied, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return DeleteGroupsResponse(throttle_time_ms=0, results=(yield from each(results.items(), _result)))


def refuse(request: DeleteGroupsRequest, code: ErrorCode, text: str) -> DeleteGroupsResponse:
    return _answer(dict.fromkeys(request.groups_names, code))


def _may_delete(broker: Broker, request_context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(request_context, Operation.DELETE, Resource.GROUP, name)


def _delete(broker: Broker, index: int, group_ids: Sequence[str]) -> Promise[Results]:
    def decide(machine: GroupMachine, context: Context) -> Decision[Results]:
        return machine.delete(group_ids, context)

    return answered(broker.groups.ask_partition(index, decide), partial(_all_refused, group_ids))


def _all_refused(group_ids: Sequence[str], error: KafkaError) -> Results:
    return dict.fromkeys(group_ids, error.code)


def _answer(results: Results) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(throttle_time_ms=0, results=[_result(one) for one in results.items()])


def _result(one: tuple[str, ErrorCode]) -> DeleteGroupsResponse.DeletableGroupResult:
    name, code = one
    return DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=code)
