"""`--topic orders` and `--topic orders:0,1`: the partitions that they select."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import MAX_INT
from barnabas.client.model import TopicPartition

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client.sync import Admin


def named_partitions(
    admin: Admin, arguments: Iterable[str], timeout_ms: int, rules: FlagRules
) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
    """The partitions, sorted, and the errors of topics that could not be described."""
    topics: list[str] = []
    partitions: set[TopicPartition] = set()
    for argument in arguments:
        if ":" in argument:
            partitions.update(_parse(argument, rules))
        else:
            topics.append(argument)
    described = admin.describe_topics(topics, timeout_ms=timeout_ms) if topics else None
    for topic, description in described.values_by_key.items() if described is not None else ():
        partitions.update(TopicPartition(str(topic), info.partition) for info in description.partitions)
    unknown = {} if described is None else {str(topic): error for topic, error in described.errors.items()}
    return sorted(partitions), unknown


def _parse(argument: str, rules: FlagRules) -> Iterable[TopicPartition]:
    topic, *numbers = argument.split(":")
    if len(numbers) != 1 or not numbers[0]:
        rules.refuse(f"Invalid topic arg '{argument}', expected topic name and partitions")
    for number in numbers[0].split(","):
        if not (number.isascii() and number.isdecimal() and int(number) <= MAX_INT):
            rules.refuse(f"Invalid partition '{number}' specified in topic arg '{argument}''")
        yield TopicPartition(topic, int(number))
