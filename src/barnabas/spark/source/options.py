"""The options of the source, with the names and meanings of Spark's own Kafka connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from barnabas.client.model import TopicPartition
from barnabas.spark.client_names import CLIENT_PREFIX, wrong_name
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    Edge,
    Limit,
    OptionError,
    listed,
    read_offsets,
    read_partitions,
)

BOOTSTRAP = "kafka.bootstrap.servers"
SELECTIONS = ("subscribe", "subscribePattern", "assign")
# Equal to Spark's network time-out (spark.network.timeout).
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
_LOWERED = {name.lower(): name for name in OPTIONS}
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


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """Parse the options of `spark.read`."""
    read = _Given(given)
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
    read = _Given(given)
    return _options(read, Edge.LATEST)


def includes_headers(given: Mapping[str, str]) -> bool:
    return _Given(given).flag("includeHeaders", False)


class _Given:
    """Case-insensitive options by name."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def check_names(self) -> None:
        """An unknown option is an error."""
        for name in self._given:
            if name.startswith(CLIENT_PREFIX) or name in _LOWERED:
                continue
            if name == "path":
                raise OptionError("load() takes no path here: name topics by the option subscribe")
            if name in _OF_THE_SINK:
                raise OptionError(f"{name} is an option of the sink; name topics to read by subscribe")
            close = get_close_matches(name, _LOWERED, 1)
            hint = f"did you mean {_LOWERED[close[0]]}?" if close else f"known are {', '.join(OPTIONS)}"
            raise OptionError(f"{name} is not an option of this source; {hint}")

    def text(self, name: str) -> str | None:
        found = self._given.get(name.lower())
        return None if found is None else found.strip()

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise OptionError(f"option {name} is true or false, not {text!r}")
        return text.lower() == "true"

    def number(self, name: str, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least:
            raise OptionError(f"option {name} is a whole number of at least {least}, not {text!r}")
        return found

    def client(self) -> dict[str, str]:
        size = len(CLIENT_PREFIX)
        found = {name[size:]: value for name, value in self._given.items() if name.startswith(CLIENT_PREFIX)}
        for name, advice in _REFUSED.items():
            if name in found:
                raise OptionError(f"option kafka.{name} is not supported: {advice}")
        if not found.get("bootstrap.servers", "").strip():
            raise OptionError(f"option {BOOTSTRAP} is missing: where is the broker, e.g. localhost:9092?")
        if wrong := wrong_name(found):
            raise OptionError(wrong)
        return found


def _options(read: _Given, default_start: Edge) -> SourceOptions:
    read.check_names()
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
        client=read.client(),
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


def _selection(read: _Given) -> Selection:
    given = [name for name in SELECTIONS if read.text(name) is not None]
    if len(given) != 1:
        said = f"not {' and '.join(given)}" if given else "none is given"
        raise OptionError(f"topics are named by exactly one of the options {', '.join(SELECTIONS)}; {said}")
    text = read.text(given[0]) or ""
    if given == ["assign"]:
        return Assign(read_partitions("assign", text))
    if given == ["subscribe"]:
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise OptionError("option subscribe names no topic; expected e.g. topicA,topicB")
        return Subscribe(topics)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"option subscribePattern: {text!r} is not a regular expression: {error}") from None
    if not text:
        raise OptionError("option subscribePattern is empty; expected e.g. logs-.*")
    return SubscribePattern(text)


def _limit(read: _Given, side: str, default: Edge) -> Limit:
    """A timestamp for all precedes timestamps per partition, and those precede offsets."""
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


def _duration_ms(read: _Given, name: str, default_ms: int) -> int:
    text = read.text(name)
    if text is None:
        return default_ms
    found = _DURATION.fullmatch(text.lower())
    if found is None or found.group(2) not in _UNITS_MS:
        raise OptionError(f"option {name} is a time such as 30s, 15m or 1h, not {text!r}")
    return int(found.group(1)) * _UNITS_MS[found.group(2)]
