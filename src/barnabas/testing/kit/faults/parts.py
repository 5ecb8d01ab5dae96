"""Requests and responses in parts: which topics and partitions a message names, by the form that all of
them share, so that a fault strikes some partitions of a request and the others are served as usual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.protocol.schema import Message

# (topic, partition); the partition is None where a message names topics only.
Wanted = Callable[[str, int | None], bool]
NameOf = Callable[[Any], str | None]

_TOPIC_NAMES = ("name", "topic", "topic_name")
_PARTITION_NUMBERS = ("partition_index", "index", "partition", "partition_id")


def topic_name(topic: Any, by_id: Callable[[Any], str | None]) -> str | None:
    """The name of a topic's entry in any message; None if it is none."""
    for attribute in _TOPIC_NAMES:
        name = getattr(topic, attribute, None)
        if name:
            return str(name)
    topic_id = getattr(topic, "topic_id", None)
    return None if topic_id is None else by_id(topic_id)


def topic_lists(message: Any) -> list[tuple[Any, str]]:
    """Where a message has lists of topics: (owner, attribute); lists within groups and transactions too."""
    found: list[tuple[Any, str]] = []
    for known in message.schema.fields:
        value = getattr(message, known.attribute, None)
        if not known.is_array or not value or not isinstance(value[0], Message):
            continue
        if any(hasattr(value[0], name) for name in (*_TOPIC_NAMES, "topic_id")):
            found.append((message, known.attribute))
        else:
            found += [place for entry in value for place in topic_lists(entry)]
    return found


def partition_list(topic: Any) -> str | None:
    """The attribute of a topic's entry that lists its partitions."""
    for known in topic.schema.fields:
        value = getattr(topic, known.attribute, None)
        if known.is_array and value and (isinstance(value[0], int) or _number(value[0]) is not None):
            return str(known.attribute)
    return None


def _number(partition: Any) -> int | None:
    if isinstance(partition, int):
        return partition
    for attribute in _PARTITION_NUMBERS:
        number = getattr(partition, attribute, None)
        if isinstance(number, int):
            return number
    return None


def named(message: Any, by_id: NameOf) -> list[tuple[str, int | None]]:
    """The partitions that a message names."""
    found: list[tuple[str, int | None]] = []
    for owner, attribute in topic_lists(message):
        for topic in getattr(owner, attribute):
            name = topic_name(topic, by_id)
            if name is None:
                continue
            below = partition_list(topic)
            if below is None:
                found.append((name, None))
            else:
                found += [(name, _number(entry)) for entry in getattr(topic, below)]
    return found


def keep(message: Any, wanted: Wanted, by_id: NameOf) -> Any:
    """A copy of a message with those of its partitions only; the entries themselves are shared."""
    copied = _copy(message)
    for known in copied.schema.fields:
        value = getattr(copied, known.attribute, None)
        if not known.is_array or not value or not isinstance(value[0], Message):
            continue
        if any(hasattr(value[0], name) for name in (*_TOPIC_NAMES, "topic_id")):
            kept = [_keep_of(topic, wanted, by_id) for topic in value]
            setattr(copied, known.attribute, [topic for topic in kept if topic is not None])
        else:
            setattr(copied, known.attribute, [keep(entry, wanted, by_id) for entry in value])
    return copied


def _keep_of(topic: Any, wanted: Wanted, by_id: NameOf) -> Any:
    name = topic_name(topic, by_id)
    if name is None:
        return topic if wanted("", None) else None
    below = partition_list(topic)
    if below is None:
        return topic if wanted(name, None) else None
    copied = _copy(topic)
    kept = [entry for entry in getattr(topic, below) if wanted(name, _number(entry))]
    setattr(copied, below, kept)
    return copied if kept else None


def merge(into: Any, other: Any, by_id: NameOf) -> None:
    """Adds the topics and partitions of one response to another of the same API."""
    for known in other.schema.fields:
        value = getattr(other, known.attribute, None)
        if not known.is_array or not value or not isinstance(value[0], Message):
            continue
        if not any(hasattr(value[0], name) for name in (*_TOPIC_NAMES, "topic_id")):
            continue
        target = list(getattr(into, known.attribute, None) or [])
        present = {topic_name(topic, by_id): topic for topic in target}
        for topic in value:
            same, below = present.get(topic_name(topic, by_id)), partition_list(topic)
            if same is None or below is None:
                target.append(topic)
            else:
                setattr(same, below, [*getattr(same, below), *getattr(topic, below)])
        setattr(into, known.attribute, target)


def own(message: Any) -> None:
    """Its bytes are copied out of the connection's buffer, which others use while the message waits."""
    for known in message.schema.fields:
        value = getattr(message, known.attribute, None)
        if isinstance(value, memoryview):
            setattr(message, known.attribute, bytes(value))
        elif isinstance(value, Message):
            own(value)
        elif known.is_array and value and isinstance(value[0], Message):
            for entry in value:
                own(entry)


def _copy(message: Any) -> Any:
    copied = message.schema.new()
    for known in message.schema.fields:
        if hasattr(message, known.attribute):
            setattr(copied, known.attribute, getattr(message, known.attribute))
    return copied
