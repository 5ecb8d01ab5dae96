"""Access rules (KIP-11, KIP-290): list, add, remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.kinds import check, error_for
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One rule: who may, or may not, do what to which resources."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Which rules are meant; None and ANY mean all.  PatternType.MATCH means those that apply to a name."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


class AclCalls(AdminCalls):
    async def describe_acls(
        self, wanted: AclBindingFilter | None = None, *, timeout_ms: int | None = None
    ) -> list[AclBinding]:
        """The rules that a filter means; all of them without one."""
        asked = wanted if wanted is not None else AclBindingFilter()
        request = DescribeAclsRequest(
            resource_type_filter=asked.resource_type,
            resource_name_filter=asked.resource_name,
            pattern_type_filter=asked.pattern_type,
            principal_filter=asked.principal,
            host_filter=asked.host,
            operation=asked.operation,
            permission_type=asked.permission,
        )
        answer = await self._ask_any(request, DescribeAclsResponse, timeout_ms)
        check(answer.error_code, answer.error_message)
        return [
            AclBinding(
                ResourceType(resource.resource_type),
                resource.resource_name,
                one.principal,
                Operation(one.operation),
                Permission(one.permission_type),
                one.host,
                PatternType(resource.pattern_type),
            )
            for resource in answer.resources
            for one in resource.acls
        ]

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBinding, None]:
        """Add rules."""

        def request(some: list[AclBinding]) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(one) for one in some])

        def read(answer: CreateAclsResponse, some: list[AclBinding]) -> dict[AclBinding, KafkaError | None]:
            pairs = zip(some, answer.results, strict=True)
            return {one: outcome(result.error_code, result.error_message, None) for one, result in pairs}

        return await self._through_controller(bindings, request, CreateAclsResponse, read, timeout_ms)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBindingFilter, Outcomes[AclBinding, None]]:
        """Remove the rules that filters mean; what each of them removed."""

        def request(some: list[AclBindingFilter]) -> DeleteAclsRequest:
            return DeleteAclsRequest(filters=[_filter(one) for one in some])

        def read(
            answer: DeleteAclsResponse, some: list[AclBindingFilter]
        ) -> dict[AclBindingFilter, Outcomes[AclBinding, None] | KafkaError]:
            pairs = zip(some, answer.filter_results, strict=True)
            return {
                one: error_for(result.error_code, result.error_message)
                if result.error_code
                else _removed(result)
                for one, result in pairs
            }

        return await self._through_controller(filters, request, DeleteAclsResponse, read, timeout_ms)


def _creation(one: AclBinding) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=one.resource_type,
        resource_name=one.resource_name,
        resource_pattern_type=one.pattern_type,
        principal=one.principal,
        host=one.host,
        operation=one.operation,
        permission_type=one.permission,
    )


def _filter(one: AclBindingFilter) -> DeleteAclsRequest.Filter:
    return DeleteAclsRequest.Filter(
        resource_type_filter=one.resource_type,
        resource_name_filter=one.resource_name,
        pattern_type_filter=one.pattern_type,
        principal_filter=one.principal,
        host_filter=one.host,
        operation=one.operation,
        permission_type=one.permission,
    )


def _removed(result: DeleteAclsResponse.FilterResult) -> Outcomes[AclBinding, None]:
    return Outcomes(
        {
            AclBinding(
                ResourceType(one.resource_type),
                one.resource_name,
                one.principal,
                Operation(one.operation),
                Permission(one.permission_type),
                one.host,
                PatternType(one.pattern_type),
            ): outcome(one.error_code, one.error_message, None)
            for one in result.matching_acls
        }
    )
