"""DeleteGroups (api key 42), versions 0 to 2.

Groups without members are forgotten with their offsets (KIP-229), whatever kind they are of.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.group_requests import answered, gathered
from barnabas.broker.network.request_context import Answer, RequestContext
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
) -> Answer[DeleteGroupsResponse]:
    names = list(dict.fromkeys(request.groups_names))
    allowed = [name for name in names if _may_delete(broker, request_context, name)]
    denied = dict.fromkeys(
        (name for name in names if name not in allowed), ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    by_partition: dict[int, list[str]] = {}
    for name in allowed:
        by_partition.setdefault(broker.groups.partition_for(name), []).append(name)
    parts = [_delete(broker, index, group_ids) for index, group_ids in by_partition.items()]
    answer: Promise[DeleteGroupsResponse] = Promise()

    def deleted(results: list[Results]) -> None:
        found = {name: code for part in results for name, code in part.items()}
        answer.set(_answer({name: found[name] for name in allowed} | denied))

    gathered(parts).then(deleted, answer.fail)
    return answer


def refuse(request: DeleteGroupsRequest, code: ErrorCode, text: str) -> DeleteGroupsResponse:
    return _answer(dict.fromkeys(request.groups_names, code))


def _may_delete(broker: Broker, request_context: RequestContext, name: str) -> bool:
    return broker.authorizer.allows(request_context, Operation.DELETE, Resource.GROUP, name)


def _delete(broker: Broker, index: int, group_ids: list[str]) -> Promise[Results]:
    def decide(machine: GroupMachine, context: Context) -> Decision[Results]:
        return machine.delete(group_ids, context)

    return answered(broker.groups.ask_partition(index, decide), partial(_all_refused, group_ids))


def _all_refused(group_ids: list[str], error: KafkaError) -> Results:
    return dict.fromkeys(group_ids, error.code)


def _answer(results: Results) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        throttle_time_ms=0,
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=name, error_code=code)
            for name, code in results.items()
        ],
    )
