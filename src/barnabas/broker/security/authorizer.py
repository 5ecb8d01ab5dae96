"""Who may do what: the questions that dispatch and handlers ask, and the answer of a broker without rules.

What lives here: the questions, and the authorizer that allows everything.  What may not: rules; the one that
has some (`authorizer_standard`) takes this one's place, and no caller changes.
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
    """What the broker asks."""

    def may_call(self, context: RequestContext, api: Api) -> bool:
        """Whether this principal may use an API at all: the first question, before anything is read."""
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
        """Whether this principal may do this to this resource.

        `quiet`: nobody has asked for it by name, a list is filtered; a refusal is nothing to tell of.
        """
        ...

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Whether this principal may do this to at least one resource of a kind (KIP-679)."""
        ...

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        """All operations that `allows` would allow, as a bit field (KIP-430)."""
        ...

    def rules(self) -> Iterable[AccessControlEntryRecord] | None:
        """All rules; None where nobody judges by any."""
        ...

    def load(self, image: Image) -> None:
        """Begin with the rules of this image."""
        ...

    def apply(self, delta: Delta) -> None:
        """Rules have changed."""
        ...


class AllowEverything:
    """A broker without `authorizer.class.name`: everybody may do everything."""

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

    def rules(self) -> Iterable[AccessControlEntryRecord] | None:
        return None

    def load(self, image: Image) -> None:
        """What is stored is kept, and nobody asks for it."""

    def apply(self, delta: Delta) -> None:
        """As above."""


def check_cluster(authorizer: Authorizer, context: RequestContext, operation: Operation) -> None:
    """Refuse who may not do this to the cluster, in words that say what is missing."""
    if not authorizer.allows(context, operation, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"Request {api(context.api_key).name} of {context.principal} needs {operation.name} permission.",
        )
