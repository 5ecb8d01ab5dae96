"""A controller without a log: its decisions are applied immediately."""

from __future__ import annotations

from typing import TypeVar

from barnabas.controller.configs.policies import AlterConfigPolicy, CreateTopicPolicy
from barnabas.controller.decision import Context
from barnabas.controller.machine import Controller
from barnabas.controller.quorum_view import FixedQuorum, QuorumView
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.bootstrap import choose_levels, first_records
from barnabas.metadata.features import metadata_version_named
from barnabas.metadata.image import Image
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.random import SeededRandom
from barnabas.testing.simulation.metadata_node import (
    CLUSTER_ID,
    NODE_ID,
    configuration,
    heartbeat,
    registration,
)

EPOCH = 1
NOW_MS = 1_700_000_000_000
SECOND_NS = 1_000_000_000
T = TypeVar("T", bound=Message)


class Lab:
    """Sends requests, appends records, applies them."""

    def __init__(
        self,
        release: str = "4.1",
        *,
        create_topic_policy: CreateTopicPolicy | None = None,
        alter_config_policy: AlterConfigPolicy | None = None,
        quorum: QuorumView | None = None,
        controller_ids: frozenset[int] = frozenset({NODE_ID}),
        **options: object,
    ) -> None:
        self.now_ns = 0
        self.end_offset = 1
        self.written: list[Message] = []
        # Levels of kraft.version to which the quorum was to be upgraded.
        self.upgraded: list[int] = []
        self.controller = Controller(
            ControllerOptions(
                node_id=NODE_ID,
                cluster_id=CLUSTER_ID,
                static=configuration(options).settings,
                quorum=FixedQuorum() if quorum is None else quorum,
                controller_ids=controller_ids,
                create_topic_policy=create_topic_policy,
                alter_config_policy=alter_config_policy,
            ),
            SeededRandom(7),
        )
        version, levels = choose_levels(
            {}, metadata_version_named(release), dynamic_quorum=False, unstable=False
        )
        first = first_records(version, levels)
        self.append(self.controller.activate(first, self.now_ns, in_transaction=False))

    @property
    def image(self) -> Image:
        return self.controller.image

    def append(self, records: list[Message]) -> list[Message]:
        """Append and apply; returns the same records."""
        if records:
            last_offset = self.end_offset + len(records) - 1
            self.controller.apply(self.controller.prepare(records, last_offset, EPOCH, NOW_MS))
            self.end_offset += len(records)
            self.written += records
        return records

    def send(self, request: Message, reply: type[T], version: int | None = None) -> T:
        """Decide and append; returns the response."""
        version = request.schema.versions.highest if version is None else version
        context = Context(now_ns=self.now_ns, next_offset=self.end_offset, version=version)
        decision = self.controller.decide(request, context)
        if decision.kraft_version is not None:
            self.upgraded.append(decision.kraft_version)
        self.append(list(decision.records))
        if decision.accepted is not None:
            decision.accepted(self.end_offset - 1)
        assert isinstance(decision.reply, reply)
        return decision.reply

    def records_of(self, request: Message, version: int | None = None) -> list[Message]:
        """Decide and append; returns the records."""
        before = len(self.written)
        self.send(request, Message, version)
        return self.written[before:]

    def join(
        self, broker_id: int = NODE_ID, *, incarnation: int = 1, rack: str | None = None, unfence: bool = True
    ) -> int:
        """Register a broker that is caught up and thus unfenced; returns its epoch."""
        request = registration(incarnation, broker_id=broker_id, rack=rack)
        epoch = self.send(request, BrokerRegistrationResponse).broker_epoch
        if unfence:
            self.send(heartbeat(epoch, self.end_offset, broker_id=broker_id), Message)
        return epoch

    def wait(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND_NS)
