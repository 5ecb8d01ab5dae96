"""The options of the sink: those of Spark's own Kafka connector, and ours for exactly-once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from barnabas.spark.client_names import CLIENT_PREFIX, wrong_name

AT_LEAST_ONCE = "at-least-once"
EXACTLY_ONCE = "exactly-once"
GUARANTEES = (AT_LEAST_ONCE, EXACTLY_ONCE)
KAFKA = CLIENT_PREFIX
SERVERS = "bootstrap.servers"
DEFAULT_CONTROL_TOPIC = "barnabas-sink-decisions"
SINK_ID = re.compile(r"[A-Za-z0-9._-]{1,120}")

# Defaults for whole tables, rather than for single records.  A task ends with a flush, so `linger.ms` adds no
# delay.
TABLE_DEFAULTS = {"batch.size": "262144", "linger.ms": "100", "client.id": "barnabas-spark-sink"}
# Transactions stay open until the driver ends them, which may be after the slowest task; this is a broker's
# default maximum (transaction.max.timeout.ms).
TRANSACTION_DEFAULTS = {"transaction.timeout.ms": "900000"}
# The driver often retries a moment later, while a coordinator still ends a transaction.
# A decision names every task and partition of a batch, which can be long and compresses well.
DRIVER_DEFAULTS = {
    "retry.backoff.ms": "10",
    "client.id": "barnabas-spark-driver",
    "compression.type": "zstd",
    "max.request.size": str(16 << 20),
}

OPTIONS = ("topic", "deliveryGuarantee", "sinkId", "batchId", "controlTopic")
_LOWERED = {name.lower(): name for name in OPTIONS}
# Options that Spark handles itself and also passes to the writer.
_OF_SPARK = {"path", "checkpointlocation", "queryname", "outputmode"}
_OF_SPARK_PREFIXES = ("asyncprogresstracking", "_")

_REFUSED = {
    "key.serializer": "is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "is not supported as value are serialized with ByteArraySerializer.",
    "transactional.id": "is not supported: the sink chooses it; set deliveryGuarantee and sinkId.",
    "partitioner.class": "is not supported: give the rows a column 'partition' instead.",
    "interceptor.classes": "is not supported.",
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The validated options of a sink.  `kafka` are the client's options, without their prefix."""

    kafka: Mapping[str, str]
    topic: str | None
    sink_id: str | None = None
    # For batch writes: the number of the batch, so that a repetition is skipped.
    batch_id: int | None = None
    control_topic: str = DEFAULT_CONTROL_TOPIC

    @property
    def is_exactly_once(self) -> bool:
        return self.sink_id is not None

    def table_settings(self, transactional_id: str | None = None) -> dict[str, str]:
        """For a producer of many rows."""
        if transactional_id is None:
            return {**TABLE_DEFAULTS, **self.kafka}
        return {
            **TABLE_DEFAULTS,
            **TRANSACTION_DEFAULTS,
            **self.kafka,
            "transactional.id": transactional_id,
        }

    def driver_settings(self, transactional_id: str) -> dict[str, str]:
        """For the driver's own transactions."""
        return {**DRIVER_DEFAULTS, **self.kafka, "transactional.id": transactional_id}


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Validate the user's options; names are case-insensitive, as in Spark."""
    options = {name.lower(): value for name, value in given.items()}
    kafka = {name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)}
    for name, why in _REFUSED.items():
        if name in kafka:
            raise ValueError(f"Kafka option '{name}' {why}")
    if wrong := wrong_name(kafka):
        raise ValueError(wrong)
    _check_names(options)
    if SERVERS not in kafka:
        raise ValueError(f"Option '{KAFKA}{SERVERS}' must be specified for configuring Kafka producer")
    guarantee = options.get("deliveryguarantee", AT_LEAST_ONCE).lower()
    if guarantee not in GUARANTEES:
        raise ValueError(f"Option 'deliveryGuarantee' is {guarantee!r}: use one of {', '.join(GUARANTEES)}")
    sink_id = options.get("sinkid")
    if guarantee == AT_LEAST_ONCE:
        for name in ("sinkId", "batchId", "controlTopic"):
            if name.lower() in options:
                raise ValueError(
                    f"Option '{name}' is for deliveryGuarantee=exactly-once: set both, or neither"
                )
        return SinkOptions(kafka, options.get("topic"))
    return SinkOptions(
        kafka,
        options.get("topic"),
        _checked_sink_id(sink_id),
        _batch_id(options.get("batchid")),
        options.get("controltopic", DEFAULT_CONTROL_TOPIC),
    )


def _check_names(options: Mapping[str, str]) -> None:
    """An unknown option is an error: rows would be written, but not as intended."""
    for name in options:
        if name.startswith((KAFKA, *_OF_SPARK_PREFIXES)) or name in _LOWERED or name in _OF_SPARK:
            continue
        close = get_close_matches(name.replace("_", ""), _LOWERED, 1)
        hint = f"did you mean {_LOWERED[close[0]]}?" if close else f"known are {', '.join(OPTIONS)}"
        raise ValueError(f"{name} is not an option of this sink; {hint}")


def _checked_sink_id(sink_id: str | None) -> str:
    if sink_id is None:
        raise ValueError(
            "Option 'sinkId' must be specified for deliveryGuarantee=exactly-once: "
            "a unique name for this output that stays the same across restarts"
        )
    if SINK_ID.fullmatch(sink_id) is None:
        raise ValueError(
            f"Option 'sinkId' is {sink_id!r}: use 1 to 120 letters, digits, dots, dashes and underscores"
        )
    return sink_id


def _batch_id(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal():
        raise ValueError(f"Option 'batchId' is {given!r}: use the number that foreachBatch gives")
    return int(given)
