"""CreateAcls and DeleteAcls: access rules are stored and found again (KIP-140, KIP-290, KIP-801).

What lives here: which rules exist.  What may not: judging a request by them (security/).
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, NO_FAULT, Context, Decision, Fault, too_large
from barnabas.controller.security.acl_index import Rule, rule_of
from barnabas.controller.state import ControllerState
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.random import random_uuid
from barnabas.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType, matches

UNKNOWN = 0


def create_acls(state: ControllerState, request: CreateAclsRequest, context: Context) -> Decision:
    """A rule that is there already is not stored again."""
    wanted: set[Rule] = set()
    records: list[Message] = []
    results = []
    for asked in request.creations:
        fault = NO_FAULT
        try:
            _check(asked)
            record = AccessControlEntryRecord(
                id=random_uuid(state.random),
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
                pattern_type=asked.resource_pattern_type,
                principal=asked.principal,
                host=asked.host,
                operation=asked.operation,
                permission_type=asked.permission_type,
            )
            rule = rule_of(record)
            if rule not in wanted and rule not in state.rules:
                wanted.add(rule)
                records.append(record)
        except KafkaError as error:
            fault = Fault.of(error)
        # An empty text where nothing is wrong: Apache Kafka leaves its answer as it was made.
        text = fault.message if fault else ""
        results.append(CreateAclsResponse.AclCreationResult(error_code=fault.code, error_message=text))
    return Decision(records, CreateAclsResponse(throttle_time_ms=0, results=results))


def _check(asked: CreateAclsRequest.AclCreation) -> None:
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.resource_name:
        raise _invalid("Invalid empty resource name")
    _check_known(ResourceType, asked.resource_type, "resourceType")
    if asked.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {_name(PatternType, asked.resource_pattern_type)}")
    _check_known(Operation, asked.operation, "operation")
    if asked.permission_type not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {_name(Permission, asked.permission_type)}")
    if ":" not in asked.principal:
        raise _invalid(
            f"Could not parse principal from `{asked.principal}` (no colon is present separating the"
            " principal type from the principal name)"
        )


def _check_known(kind: type[IntEnum], value: int, field: str) -> None:
    if _name(kind, value) in ("UNKNOWN", "ANY"):
        raise _invalid(f"Invalid {field} {_name(kind, value)}")


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in frozenset(kind) else "UNKNOWN"


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, why)


def delete_acls(state: ControllerState, request: DeleteAclsRequest, context: Context) -> Decision:
    """Each filter tells what it removed; a rule that two filters match goes once."""
    going: dict[bytes, Message] = {}
    results = []
    for asked in request.filters:
        result = DeleteAclsResponse.FilterResult(error_code=0, error_message=None, matching_acls=[])
        results.append(result)
        fault = _unknown_filter(asked)
        if fault:
            result.error_code, result.error_message = fault.code, fault.message
            continue
        for acl_id, record in sorted(state.image.acls.items()):
            if matches(asked, record):
                going[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                result.matching_acls.append(_matching(record))
        if len(going) > MAX_RECORDS_PER_BATCH:
            raise too_large()
    reply = DeleteAclsResponse(throttle_time_ms=0, filter_results=results)
    return Decision(list(going.values()), reply)


def _unknown_filter(asked: DeleteAclsRequest.Filter) -> Fault:
    if UNKNOWN in (asked.resource_type_filter, asked.pattern_type_filter):
        return Fault(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if UNKNOWN in (asked.operation, asked.permission_type):
        return Fault(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return NO_FAULT


def _matching(record: AccessControlEntryRecord) -> DeleteAclsResponse.MatchingAcl:
    return DeleteAclsResponse.MatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )
