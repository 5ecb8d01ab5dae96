"""The authorizer interface, and the authorizer of a broker without ACLs, which allows everything.

ACLs belong in standard_authorizer.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.apis import Api, api
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acls import CLUSTER_NAME, KNOWN_OPERATIONS, Operation
from barnabas.security.acls import ResourceType as Resource

__all__ = [
    "CLUSTER_NAME",
    "KNOWN_OPERATIONS",
    "AllowEverything",
    "Authorizer",
    "Operation",
    "Resource",
    "check_cluster",
]


class Authorizer(Protocol):
    """The interface that dispatch and handlers use."""

    def may_call(self, context: RequestContext, api: Api) -> bool:
        """Whether this principal may use an API at all; called before the request is decoded."""
        ...

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        """Whether this principal may perform the operation on the resource.

        `quiet`: a list is filtered and the client did not name the resource; a denial is not logged.
        """
        ...

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Whether this principal may perform the operation on any resource of a type (KIP-679)."""
        ...

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        """Returns all operations that `allows` would allow, as a bit field (KIP-430)."""
        ...

    def acls(self) -> Iterable[AccessControlEntryRecord] | None:
        """Returns all ACLs; None if no authorizer is configured."""
        ...

    def load(self, image: Image) -> None:
        """Loads the ACLs of this image."""
        ...

    def apply(self, delta: Delta) -> None:
        """Applies changed ACLs."""
        ...


class AllowEverything:
    """The authorizer of a broker without `authorizer.class.name`."""

    def may_call(self, context: RequestContext, api: Api) -> bool:
        return True

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        return True

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return True

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        return sum(1 << operation for operation in KNOWN_OPERATIONS[resource])

    def acls(self) -> Iterable[AccessControlEntryRecord] | None:
        return None

    def load(self, image: Image) -> None:
        """Stored ACLs are ignored."""

    def apply(self, delta: Delta) -> None:
        """Like `load`."""


def check_cluster(authorizer: Authorizer, context: RequestContext, operation: Operation) -> None:
    """Raises if the principal may not perform the operation on the cluster."""
    if not authorizer.allows(context, operation, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Request {api(context.api_key).name} of {context.principal} needs {operation.name} permission.",
        )
