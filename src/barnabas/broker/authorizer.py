"""Who may do what: the questions that dispatch and handlers ask, and the answer of a broker without rules.

What lives here: Apache Kafka's operations and kinds of resources, which operations a resource knows, and the
authorizer that allows everything.  What may not: rules (ACLs); an authorizer that has some takes this one's
place, and no caller changes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from barnabas.broker.requests import Call
from barnabas.protocol.apis import Api

CLUSTER_NAME = "kafka-cluster"


class Operation(IntEnum):
    """By the numbers of the protocol; in a bit field of operations (KIP-430) the number is the bit."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Resource(IntEnum):
    """Kinds of resources, by the numbers of the protocol."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


_CONFIGS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
KNOWN_OPERATIONS: dict[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_CONFIGS),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
        *_CONFIGS,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


class Authorizer(Protocol):
    """What the broker asks."""

    def may_call(self, call: Call, api: Api) -> bool:
        """Whether this principal may use an API at all: the first question, before anything is read."""
        ...

    def allows(self, call: Call, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether this principal may do this to this resource."""
        ...

    def authorized_operations(self, call: Call, resource: Resource, name: str) -> int:
        """All operations that `allows` would allow, as a bit field (KIP-430)."""
        ...


class AllowEverything:
    """A broker without `authorizer.class.name`: everybody may do everything."""

    def may_call(self, call: Call, api: Api) -> bool:
        return True

    def allows(self, call: Call, operation: Operation, resource: Resource, name: str) -> bool:
        return True

    def authorized_operations(self, call: Call, resource: Resource, name: str) -> int:
        return sum(1 << operation for operation in KNOWN_OPERATIONS[resource])
