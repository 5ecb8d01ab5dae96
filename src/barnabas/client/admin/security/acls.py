"""ACLs (KIP-11, KIP-290): list, add, remove."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.base.errors import KafkaError
from barnabas.client.admin.calls import AdminCalls, outcome
from barnabas.client.errors.base import check, error_for
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL: a principal is allowed or denied an operation on resources."""

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Matches ACLs; None and ANY match all.  PatternType.MATCH matches those that apply to a name."""

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
        """Return the ACLs that match a filter; all without one."""
        binding_filter = wanted if wanted is not None else AclBindingFilter()
        request = DescribeAclsRequest(
            resource_type_filter=binding_filter.resource_type,
            resource_name_filter=binding_filter.resource_name,
            pattern_type_filter=binding_filter.pattern_type,
            principal_filter=binding_filter.principal,
            host_filter=binding_filter.host,
            operation=binding_filter.operation,
            permission_type=binding_filter.permission,
        )
        response = await self._send_to_any(request, DescribeAclsResponse, timeout_ms)
        check(response.error_code, response.error_message)
        return [
            AclBinding(
                ResourceType(resource.resource_type),
                resource.resource_name,
                acl.principal,
                Operation(acl.operation),
                Permission(acl.permission_type),
                acl.host,
                PatternType(resource.pattern_type),
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBinding, None]:
        """Add ACLs."""

        def request(requested: list[AclBinding]) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(binding) for binding in requested])

        def read(
            response: CreateAclsResponse, requested: list[AclBinding]
        ) -> dict[AclBinding, KafkaError | None]:
            pairs = zip(requested, response.results, strict=True)
            return {key: outcome(result.error_code, result.error_message, None) for key, result in pairs}

        return await self._through_controller(bindings, request, CreateAclsResponse, read, timeout_ms)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter], *, timeout_ms: int | None = None
    ) -> Outcomes[AclBindingFilter, Outcomes[AclBinding, None]]:
        """Remove the ACLs that match the filters; returns what each filter removed."""

        def request(requested: list[AclBindingFilter]) -> DeleteAclsRequest:
            return DeleteAclsRequest(filters=[_filter(binding_filter) for binding_filter in requested])

        def read(
            response: DeleteAclsResponse, requested: list[AclBindingFilter]
        ) -> dict[AclBindingFilter, Outcomes[AclBinding, None] | KafkaError]:
            pairs = zip(requested, response.filter_results, strict=True)
            return {
                key: error_for(result.error_code, result.error_message)
                if result.error_code
                else _removed(result)
                for key, result in pairs
            }

        return await self._through_controller(filters, request, DeleteAclsResponse, read, timeout_ms)


def _creation(binding: AclBinding) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        resource_pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _filter(binding_filter: AclBindingFilter) -> DeleteAclsRequest.Filter:
    return DeleteAclsRequest.Filter(
        resource_type_filter=binding_filter.resource_type,
        resource_name_filter=binding_filter.resource_name,
        pattern_type_filter=binding_filter.pattern_type,
        principal_filter=binding_filter.principal,
        host_filter=binding_filter.host,
        operation=binding_filter.operation,
        permission_type=binding_filter.permission,
    )


def _removed(result: DeleteAclsResponse.FilterResult) -> Outcomes[AclBinding, None]:
    return Outcomes(
        {
            AclBinding(
                ResourceType(acl.resource_type),
                acl.resource_name,
                acl.principal,
                Operation(acl.operation),
                Permission(acl.permission_type),
                acl.host,
                PatternType(acl.pattern_type),
            ): outcome(acl.error_code, acl.error_message, None)
            for acl in result.matching_acls
        }
    )
