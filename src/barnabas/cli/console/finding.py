"""The first word with the cluster: is somebody there, and is the topic?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.connecting import FIRST_CONTACT_MS
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.kafka_errors import exit_code, sentence

if TYPE_CHECKING:
    from barnabas.client.sync import Producer


def find_topic(producer: Producer, topic: str, program: str, patience_ms: int = FIRST_CONTACT_MS) -> None:
    """Wait until the topic can be written to; it is created where brokers do that."""
    try:
        producer.partitions_for(topic, timeout_ms=patience_ms)
    except KafkaError as error:
        # That the time is over tells less than what took it.
        cause = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
        raise CommandError(f"{program}: {sentence(cause)}", exit_code(cause)) from error
