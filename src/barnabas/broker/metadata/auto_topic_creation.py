"""Automatic creation of topics: on request (`auto.create.topics.enable`), and of the coordinators' topics.

Contains the settings of such topics and the creations in flight; the creation itself is a CreateTopics
request to the controller.
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

# Creations in flight.  Beyond that the client retries.
MAX_IN_FLIGHT = 10_000
_CREATE_TOPICS_VERSION = 7


class _Internal(NamedTuple):
    """The broker options and configs of a coordinator's topic, as in Apache Kafka."""

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
    """The automatic creations of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._in_flight: set[str] = set()
        # The last error of a coordinator's topic: clients keep retrying, and it is logged once.
        self._refused: dict[str, str | None] = {}

    def create(self, names: Iterable[str], context: RequestContext) -> dict[str, ErrorCode]:
        """Requests these topics from the controller; returns the error code of each for the client."""
        requested: list[CreateTopicsRequest.CreatableTopic] = []
        codes: dict[str, ErrorCode] = {}
        for name in names:
            codes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not is_valid(name):
                codes[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
            elif name not in self._in_flight and len(self._in_flight) < MAX_IN_FLIGHT:
                self._in_flight.add(name)
                requested.append(creatable_topic(name, self._broker.settings))
        if requested:
            self._send(requested, context.principal, context.client_id)
        return codes

    def create_internal(self, name: str) -> None:
        """Requests a coordinator's topic from the controller, as the broker's own principal."""
        if name not in self._in_flight:
            self._in_flight.add(name)
            self._send([creatable_topic(name, self._broker.settings)], OWN_PRINCIPAL)

    def _send(
        self, topics: list[CreateTopicsRequest.CreatableTopic], principal: str, client_id: str = ""
    ) -> None:
        request = CreateTopicsRequest(
            topics=topics, timeout_ms=self._broker.settings["request.timeout.ms"], validate_only=False
        )
        names = [topic.name for topic in topics]
        self._broker.metadata.send_request(
            request, _CREATE_TOPICS_VERSION, principal, client_id=client_id
        ).then(partial(self._created, names), partial(self._failed, names))

    def _created(self, names: list[str], response: Message) -> None:
        self._in_flight.difference_update(names)
        for result in getattr(response, "topics", ()):
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._log_refusal(result.name, ErrorCode(result.error_code), result.error_message)

    def _log_refusal(self, name: str, code: ErrorCode, reason: str | None) -> None:
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
        self._in_flight.difference_update(names)
        logger.warning(
            "the topics %s were not created automatically: %s", shown_all(names), shown(str(error))
        )


def creatable_topic(name: str, settings: Settings) -> CreateTopicsRequest.CreatableTopic:
    """Returns the CreateTopics entry of a topic of which only the name is given."""
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
