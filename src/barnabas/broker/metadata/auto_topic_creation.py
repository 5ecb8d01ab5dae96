"""Topics that come into being because somebody asked for them (`auto.create.topics.enable`).

What lives here: what such a topic is made with, and which creations are on their way.  What may not: making
it; that is a CreateTopics request to the controller like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.log_text import shown, shown_all
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, is_valid
from barnabas.broker.network.request_context import RequestContext
from barnabas.config.settings import Settings
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

# Creations on their way at one time.  What is above is asked for again by the client that wants it.
MAX_ON_THEIR_WAY = 10_000
_CREATE_TOPICS_VERSION = 7


class _Internal(NamedTuple):
    """What a coordinator's topic is made with, as Apache Kafka's coordinators do: by which broker options."""

    partitions: str
    replicas: str
    segment_bytes: str
    min_isr: str | None
    configs: dict[str, str]


_INTERNAL = {
    CONSUMER_OFFSETS: _Internal(
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        None,
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    TRANSACTION_STATE: _Internal(
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        "transaction.state.log.min.isr",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    SHARE_GROUP_STATE: _Internal(
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        "share.coordinator.state.topic.min.isr",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}


class AutoTopics:
    """Of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._on_their_way: set[str] = set()
        # Why a coordinator's topic was last refused: clients ask on, the log needs to say it once.
        self._refused: dict[str, str | None] = {}

    def create(self, names: Iterable[str], context: RequestContext) -> dict[str, ErrorCode]:
        """Ask the controller for these topics; what to tell the client at once: not there yet, or never."""
        wanted: list[CreateTopicsRequest.CreatableTopic] = []
        told: dict[str, ErrorCode] = {}
        for name in names:
            told[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not is_valid(name):
                told[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif name not in self._on_their_way and len(self._on_their_way) < MAX_ON_THEIR_WAY:
                self._on_their_way.add(name)
                wanted.append(creatable_topic(name, self._broker.settings))
        if wanted:
            self._ask(wanted, context.principal)
        return told

    def create_internal(self, name: str) -> None:
        """Ask the controller for a coordinator's topic: in the broker's own name, whoever needs it."""
        if name not in self._on_their_way:
            self._on_their_way.add(name)
            self._ask([creatable_topic(name, self._broker.settings)], OWN_PRINCIPAL)

    def _ask(self, wanted: list[CreateTopicsRequest.CreatableTopic], principal: str) -> None:
        request = CreateTopicsRequest(
            topics=wanted, timeout_ms=self._broker.settings["request.timeout.ms"], validate_only=False
        )
        names = [topic.name for topic in wanted]
        self._broker.metadata.ask(request, _CREATE_TOPICS_VERSION, principal).then(
            partial(self._created, names), partial(self._failed, names)
        )

    def _created(self, names: list[str], response: Message) -> None:
        self._on_their_way.difference_update(names)
        for result in getattr(response, "topics", ()):
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._tell(result.name, ErrorCode(result.error_code), result.error_message)

    def _tell(self, name: str, code: ErrorCode, reason: str | None) -> None:
        internal = _INTERNAL.get(name)
        if internal is None:
            logger.info("the topic %s was not created automatically: %s", shown(name), shown(reason))
        elif self._refused.get(name) != reason:
            self._refused[name] = reason
            advice = ""
            if code is ErrorCode.INVALID_REPLICATION_FACTOR:
                advice = f" Set {internal.replicas} to what this cluster has."
            logger.warning(
                "the topic %s, which coordinators need, was not created: %s (%s)%s",
                name,
                shown(reason),
                code.name,
                advice,
            )

    def _failed(self, names: list[str], error: BaseException) -> None:
        self._on_their_way.difference_update(names)
        logger.warning(
            "the topics %s were not created automatically: %s", shown_all(names), shown(str(error))
        )


def creatable_topic(name: str, settings: Settings) -> CreateTopicsRequest.CreatableTopic:
    """What a topic is made with when nobody says more than its name."""
    internal = _INTERNAL.get(name)
    if internal is not None:
        partitions, replicas = settings[internal.partitions], settings[internal.replicas]
        configs = {**internal.configs, "segment.bytes": str(settings[internal.segment_bytes])}
        if internal.min_isr is not None:
            configs["min.insync.replicas"] = str(settings[internal.min_isr])
    else:
        partitions = settings["num.partitions"]
        replicas, configs = settings["default.replication.factor"], {}
    return CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=option, value=value)
            for option, value in configs.items()
        ],
    )
