"""An administrator of a metadata log: all it may ask for, right or wrong, while its node fails and restarts.

The invariants of `metadata_life`, of all kinds of records; and: what got a response without an error is
committed, no request fails with an internal error, and a wrong one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from barnabas.base.errors import ErrorCode
from barnabas.broker.modes.kraft import snapshot_generator as snapshotting
from barnabas.controller.state import ControllerState
from barnabas.controller.topics import partitions
from barnabas.controller.topics.mutation_quotas import MutationQuota, NoMutationQuota
from barnabas.metadata import snapshot
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.planted import patched
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.administration import Administrator, Asked
from barnabas.testing.simulation.registry import planted, scenario
from barnabas.testing.simulation.scenarios.metadata_life import CLEAN_INTERVAL_MS, MetadataLife, live

# How often a topic is created, altered or deleted instead.
TOPICS_ONE_IN = 3


class AdministeredLife(MetadataLife):
    """A node whose administrator asks for anything."""

    def __init__(self, world: World, *, dynamic: bool) -> None:
        self._administrator = Administrator(world.random_for("administrator"))
        super().__init__(world, dynamic=dynamic)

    def ask_something(self) -> None:
        if self.random.integer(1, TOPICS_ONE_IN) == 1:
            super().ask_something()
            return
        asked = self._administrator.draw(self.committed)
        self.ask(asked.request, partial(self._administered, asked))

    def _administered(self, asked: Asked, reply: Message) -> None:
        self.answers += 1
        codes = set(_codes(reply))
        if ErrorCode.UNKNOWN_SERVER_ERROR in codes:
            raise InvariantError(f"an internal error: {reply} to {asked.request}")
        if not codes - {ErrorCode.NONE} and asked.holds is not None and not asked.holds(self.committed):
            raise InvariantError(f"{asked.request} got {reply}, and is not committed")


def _codes(part: object) -> Iterator[ErrorCode]:
    """All error codes in a response."""
    if isinstance(part, list):
        for each in part:
            yield from _codes(each)
    elif isinstance(part, Message):
        for field in part.schema.fields:
            value = getattr(part, field.attribute)
            if field.attribute == "error_code":
                yield ErrorCode(value)
            else:
                yield from _codes(value)


@scenario("metadata-administration")
def metadata_administration(world: World) -> None:
    """Whatever an administrator asks for is committed or refused, whatever happens to its node."""
    with patched(snapshotting, "CLEAN_INTERVAL_MS", CLEAN_INTERVAL_MS):
        live(world, AdministeredLife(world, dynamic=world.random.integer(0, 1) == 1))


# ----------------------------------------------------------------------------------------- the planted bugs


@planted("metadata: a snapshot without quotas", scenario="metadata-administration")
def snapshot_without_quotas() -> Iterator[None]:
    """A snapshot has no record of any quota."""
    with patched(snapshot, "_quotas", lambda image: iter(())):
        yield


@planted("metadata: partitions are promised", scenario="metadata-administration")
def partitions_are_promised() -> Iterator[None]:
    """The last partition of a CreatePartitions request is in the response only."""
    healthy = partitions._new_records

    def new_records(
        state: ControllerState,
        requested: CreatePartitionsRequest.Topic,
        quota: MutationQuota | NoMutationQuota,
    ) -> list[Message]:
        return healthy(state, requested, quota)[:-1]

    with patched(partitions, "_new_records", new_records):
        yield
