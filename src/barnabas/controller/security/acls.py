"""CreateAcls and DeleteAcls (KIP-140, KIP-290, KIP-801).

Evaluation of ACLs belongs in security/.
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import (
    MAX_RECORDS_PER_BATCH,
    NO_ERROR,
    ApiError,
    Context,
    Decision,
    too_large,
)
from barnabas.controller.security.existing_acls import Rule, rule_of
from barnabas.controller.state import ControllerState
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.random import random_uuid
from barnabas.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType, matches

UNKNOWN = 0


def create_acls(state: ControllerState, request: CreateAclsRequest, context: Context) -> Decision:
    """An ACL that already exists is not stored again."""
    added: set[Rule] = set()
    records: list[Message] = []
    results = []
    for creation in request.creations:
        api_error = NO_ERROR
        try:
            _check(creation)
            record = AccessControlEntryRecord(
                id=random_uuid(state.random),
                resource_type=creation.resource_type,
                resource_name=creation.resource_name,
                pattern_type=creation.resource_pattern_type,
                principal=creation.principal,
                host=creation.host,
                operation=creation.operation,
                permission_type=creation.permission_type,
            )
            rule = rule_of(record)
            if rule not in added and rule not in state.existing_acls:
                added.add(rule)
                records.append(record)
        except KafkaError as error:
            api_error = ApiError.of(error)
        # The message is empty, not null, on success: Apache Kafka leaves the field at its default.
        text = api_error.message if api_error else ""
        results.append(CreateAclsResponse.AclCreationResult(error_code=api_error.code, error_message=text))
    return Decision(records, CreateAclsResponse(throttle_time_ms=0, results=results))


def _check(creation: CreateAclsRequest.AclCreation) -> None:
    if creation.resource_type == ResourceType.CLUSTER and creation.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not creation.resource_name:
        raise _invalid("Invalid empty resource name")
    _check_known(ResourceType, creation.resource_type, "resourceType")
    if creation.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {_name(PatternType, creation.resource_pattern_type)}")
    _check_known(Operation, creation.operation, "operation")
    if creation.permission_type not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {_name(Permission, creation.permission_type)}")
    if ":" not in creation.principal:
        raise _invalid(
            f"Could not parse principal from `{creation.principal}` (no colon is present separating the"
            " principal type from the principal name)"
        )


def _check_known(kind: type[IntEnum], value: int, field: str) -> None:
    if _name(kind, value) in ("UNKNOWN", "ANY"):
        raise _invalid(f"Invalid {field} {_name(kind, value)}")


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in frozenset(kind) else "UNKNOWN"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def delete_acls(state: ControllerState, request: DeleteAclsRequest, context: Context) -> Decision:
    """Each filter returns what it removed; an ACL that two filters match is removed once."""
    removals: dict[bytes, Message] = {}
    results = []
    for acl_filter in request.filters:
        result = DeleteAclsResponse.FilterResult(error_code=0, error_message=None, matching_acls=[])
        results.append(result)
        api_error = _unknown_filter(acl_filter)
        if api_error:
            result.error_code, result.error_message = api_error.code, api_error.message
            continue
        for acl_id, record in sorted(state.image.acls.items()):
            if matches(acl_filter, record):
                removals[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                result.matching_acls.append(_matching(record))
        if len(removals) > MAX_RECORDS_PER_BATCH:
            raise too_large()
    reply = DeleteAclsResponse(throttle_time_ms=0, filter_results=results)
    return Decision(list(removals.values()), reply)


def _unknown_filter(acl_filter: DeleteAclsRequest.Filter) -> ApiError:
    if UNKNOWN in (acl_filter.resource_type_filter, acl_filter.pattern_type_filter):
        return ApiError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if UNKNOWN in (acl_filter.operation, acl_filter.permission_type):
        return ApiError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return NO_ERROR


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
