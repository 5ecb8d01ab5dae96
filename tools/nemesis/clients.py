"""What the load needs of a client library, so that it is written once and run by several.

Errors are those of the transactional protocol: what may be tried again, what must be aborted, what ends the
client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from barnabas.testing.histories.events import Isolation, Partition

# With the offset (None if unknown), or with an error.
OnDelivery = Callable[[int | None, str | None], None]
# The partitions of a consumer have changed: these are all that it has now.
OnAssigned = Callable[[Sequence[Partition]], None]
Record = tuple[Partition, int, bytes]
CLASSIC, CONSUMER = "classic", "consumer"
DELIVERY_TIMEOUT_MS = 15_000
# An idempotent producer of librdkafka bumps its epoch when a record times out, and sends the others that were
# in flight again with new sequence numbers: duplicates that no broker can prevent (librdkafka issue 4953).
NO_DELIVERY_TIMEOUT_MS = 600_000
REQUEST_TIMEOUT_MS = 5_000
TRANSACTION_TIMEOUT_MS = 10_000
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 1_000
# A member whose application hangs gives its partitions up.
MAX_POLL_INTERVAL_MS = 20_000
CALL_S = 10.0


def membership(protocol: str) -> dict[str, int | str]:
    """Options of a member; with the consumer protocol (KIP-848) its session is the broker's business."""
    config: dict[str, int | str] = {"group.protocol": protocol, "max.poll.interval.ms": MAX_POLL_INTERVAL_MS}
    if protocol == CLASSIC:
        config |= {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    return config


class RetriableError(Exception):
    """The same call may be made again; whether it had an effect is unknown."""


class AbortableError(Exception):
    """The transaction must be aborted."""


class FatalError(Exception):
    """The client is of no more use; whether its last call had an effect is unknown."""


class RefusedError(Exception):
    """A record was not accepted: it will not be sent."""


class ProducerClient(Protocol):
    def send(self, partition: Partition, payload: bytes, on_delivery: OnDelivery) -> None: ...

    def flush(self, timeout_s: float) -> None: ...

    def init_transactions(self) -> None: ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def send_offsets(self, consumer: ConsumerClient, offsets: Mapping[Partition, int]) -> None: ...

    def close(self) -> None: ...


class ConsumerClient(Protocol):
    def assign(self, positions: Mapping[Partition, int]) -> None: ...

    def subscribe(self, topics: Sequence[str], on_assigned: OnAssigned) -> None: ...

    def poll(self, timeout_s: float) -> Sequence[Record]: ...

    def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    def rewind(self) -> None:
        """Continue at the committed offsets."""

    def close(self) -> None: ...


class Library(Protocol):
    """A client library."""

    name: str

    def producer(self, bootstrap: str, transactional_id: str | None = None) -> ProducerClient: ...

    def consumer(self, bootstrap: str, isolation: Isolation, group: str | None = None) -> ConsumerClient: ...
