"""The first contact with the cluster: checks that a broker responds and that the topic exists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.connecting import FIRST_CONTACT_MS
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.kafka_errors import exit_code, sentence

if TYPE_CHECKING:
    from barnabas.client.sync import Producer


def find_topic(producer: Producer, topic: str, program: str, patience_ms: int = FIRST_CONTACT_MS) -> None:
    """Wait until the topic can be written to; brokers create it if auto-creation is enabled."""
    try:
        producer.partitions_for(topic, timeout_ms=patience_ms)
    except KafkaError as error:
        # The cause says more than the timeout itself.
        cause = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
        raise CommandError(f"{program}: {sentence(cause)}", exit_code(cause)) from error
