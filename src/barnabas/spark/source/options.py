"""The options of the source, with the names and meanings of Spark's own Kafka connector."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.client.model import TopicPartition
from barnabas.spark.given_options import SELECTIONS, GivenOptions, OptionError
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    Edge,
    Limit,
    listed,
    read_offsets,
    read_partitions,
)
from barnabas.spark.source.ranges import MOST_TASKS

BOOTSTRAP = "kafka.bootstrap.servers"
# As long as Spark waits for anything on the network (spark.network.timeout).
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
OPTIONS = (
    *SELECTIONS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "groupId",
)
_OF_THE_SINK = ("topic", "deliveryguarantee", "transactionalidprefix")
# Options that the source sets itself, with the option to use instead.
_REFUSED = {
    "auto.offset.reset": "set startingOffsets to earliest or latest: Spark keeps the position of a query",
    "key.deserializer": "keys come as binary: cast the column",
    "value.deserializer": "values come as binary: cast the column",
    "enable.auto.commit": "set groupId to have progress committed",
    "interceptor.classes": "transform the DataFrame",
}
_DURATION = re.compile(r"(\d+)\s*([a-z]*)")
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of every topic whose name contains a match of the pattern."""

    pattern: str


Selection = Assign | Subscribe | SubscribePattern


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The validated options of a reader."""

    selection: Selection
    starting: Limit
    ending: Limit
    # The options behind `kafka.`.
    client: Mapping[str, str]
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    poll_timeout_ms: int
    offset_attempts: int
    offset_retry_interval_ms: int
    group_id: str | None

    @property
    def most_tasks(self) -> int:
        """How many ranges are tasks of their own; any number if the options say how to divide them."""
        is_chosen = self.min_partitions is not None or self.max_records_per_partition is not None
        return sys.maxsize if is_chosen else MOST_TASKS


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """Those of `spark.read`."""
    read = GivenOptions(given)
    options = _options(read, Edge.EARLIEST)
    starting, ending = options.starting, options.ending
    if starting is Edge.LATEST:
        raise OptionError("startingOffsets cannot be latest in a batch query: there would be nothing to read")
    if isinstance(starting, AtOffsets) and LATEST in starting.offsets.values():
        raise OptionError("startingOffsets cannot be -1 (latest) for a partition in a batch query")
    if ending is Edge.EARLIEST:
        raise OptionError("endingOffsets cannot be earliest: there would be nothing to read")
    if isinstance(ending, AtOffsets) and EARLIEST in ending.offsets.values():
        raise OptionError("endingOffsets cannot be -2 (earliest) for a partition")
    _check_order(starting, ending)
    return options


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of `spark.readStream`."""
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name.lower() in given:
            raise OptionError(f"option {name}: a stream has no end; use it with spark.read")
    read = GivenOptions(given)
    return _options(read, Edge.LATEST)


def includes_headers(given: Mapping[str, str]) -> bool:
    return GivenOptions(given).flag("includeHeaders", False)


def _check_names(read: GivenOptions) -> None:
    if "path" in read:
        raise OptionError("load() takes no path here: name topics by the option subscribe")
    for name in _OF_THE_SINK:
        if name in read:
            raise OptionError(f"{name} is an option of the sink; name topics to read by subscribe")
    read.check_names(OPTIONS, "source", passed=("kafka.*",))


def _client(read: GivenOptions) -> dict[str, str]:
    refused = {name: f"option kafka.{name} is not supported: {advice}" for name, advice in _REFUSED.items()}
    client = read.client(refused)
    if not client.get("bootstrap.servers", "").strip():
        raise OptionError(f"option {BOOTSTRAP} is missing: where is the broker, e.g. localhost:9092?")
    return client


def _options(read: GivenOptions, default_start: Edge) -> SourceOptions:
    _check_names(read)
    most, least = read.number("maxOffsetsPerTrigger", 1), read.number("minOffsetsPerTrigger", 1)
    if most is not None and least is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
    group_id = read.text("groupId")
    starting = _limit(read, "starting", default_start)
    if starting is Edge.COMMITTED and not group_id:
        raise OptionError("startingOffsets committed needs groupId: whose commits?")
    poll_timeout_ms = read.number("kafkaConsumer.pollTimeoutMs", 1)
    attempts = read.number("fetchOffset.numRetries", 1)
    interval_ms = read.number("fetchOffset.retryIntervalMs", 0)
    return SourceOptions(
        selection=_selection(read),
        starting=starting,
        ending=_limit(read, "ending", Edge.LATEST),
        client=_client(read),
        fail_on_data_loss=read.flag("failOnDataLoss", True),
        min_partitions=read.number("minPartitions", 1),
        max_records_per_partition=read.number("maxRecordsPerPartition", 1),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=_duration_ms(read, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        poll_timeout_ms=DEFAULT_POLL_TIMEOUT_MS if poll_timeout_ms is None else poll_timeout_ms,
        offset_attempts=3 if attempts is None else attempts,
        offset_retry_interval_ms=1000 if interval_ms is None else interval_ms,
        group_id=group_id or None,
    )


def _selection(read: GivenOptions) -> Selection:
    name, text = read.selection()
    if name == "assign":
        return Assign(read_partitions("assign", text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic; expected e.g. topicA,topicB")
        return Subscribe(topics)
    if not text:
        raise OptionError("option subscribePattern is empty; expected e.g. logs-.*")
    return SubscribePattern(text)


def _limit(read: GivenOptions, side: str, default: Edge) -> Limit:
    """One time for all goes before a time for each partition, and that before offsets."""
    strategy = (read.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"option startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    # An ending timestamp without a record yet means the current end.
    else_latest = strategy == "latest" or side == "ending"
    if (time := read.number(f"{side}Timestamp", 0)) is not None:
        return AtTimes(time, else_latest)
    name = f"{side}OffsetsByTimestamp"
    if (text := read.text(name)) is not None:
        return AtTimes(read_offsets(name, text), else_latest)
    name = f"{side}Offsets"
    text = read.text(name)
    if text is None:
        return default
    edges = {edge.value: edge for edge in Edge}
    if side == "ending":
        del edges["committed"]
    if text.lower() in edges:
        return edges[text.lower()]
    if not text.startswith("{"):
        raise OptionError(f"option {name} is {', '.join(edges)} or JSON of offsets, not {text!r}")
    return AtOffsets(read_offsets(name, text))


def _check_order(starting: Limit, ending: Limit) -> None:
    """Check what can be checked without a broker."""
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        starts, ends, what = starting.offsets, ending.offsets, "offset"
    elif (
        isinstance(starting, AtTimes)
        and isinstance(ending, AtTimes)
        and not isinstance(starting.times, int)
        and not isinstance(ending.times, int)
    ):
        starts, ends, what = starting.times, ending.times, "timestamp"
    else:
        return
    if starts.keys() != ends.keys():
        raise OptionError(
            f"start and end name different partitions: {listed(starts)} against {listed(ends)}; "
            "name the same in both"
        )
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise OptionError(
                f"the start {what} {start} of {partition} is greater than its end {ends[partition]}"
            )


def _duration_ms(read: GivenOptions, name: str, default_ms: int) -> int:
    text = read.text(name)
    if text is None:
        return default_ms
    found = _DURATION.fullmatch(text.lower())
    if found is None or found.group(2) not in _UNITS_MS:
        raise OptionError(f"option {name} is a time such as 30s, 15m or 1h, not {text!r}")
    return int(found.group(1)) * _UNITS_MS[found.group(2)]
