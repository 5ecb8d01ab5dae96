"""`--topic orders` and `--topic orders:0,1`: which partitions they mean."""

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
    """The partitions, in order, and the topics of which they are not known."""
    whole: list[str] = []
    found: set[TopicPartition] = set()
    for argument in arguments:
        if ":" in argument:
            found.update(_parse(argument, rules))
        else:
            whole.append(argument)
    described = admin.describe_topics(whole, timeout_ms=timeout_ms) if whole else None
    for topic, description in described.values_by_key.items() if described is not None else ():
        found.update(TopicPartition(str(topic), one.partition) for one in description.partitions)
    unknown = {} if described is None else {str(topic): error for topic, error in described.errors.items()}
    return sorted(found), unknown


def _parse(argument: str, rules: FlagRules) -> Iterable[TopicPartition]:
    topic, *rest = argument.split(":")
    if len(rest) != 1 or not rest[0]:
        rules.refuse(f"Invalid topic arg '{argument}', expected topic name and partitions")
    for number in rest[0].split(","):
        if not (number.isascii() and number.isdecimal() and int(number) <= MAX_INT):
            rules.refuse(f"Invalid partition '{number}' specified in topic arg '{argument}''")
        yield TopicPartition(topic, int(number))
