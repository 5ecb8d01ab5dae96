"""The options of the sink: those of Spark's own Kafka connector, and ours for exactly-once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.spark.client_names import CLIENT_PREFIX
from barnabas.spark.given_options import GivenOptions, OptionError

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
# Options of a write that Spark reads itself, and passes on to the sink.
_OF_SPARK = ("path", "checkpointlocation", "queryname", "outputmode", "asyncprogresstracking*", "_*")

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
    """Check what a user gave; the names of options are read in any case, as Spark does."""
    read = GivenOptions(given)
    kafka = read.client({name: f"Kafka option '{name}' {why}" for name, why in _REFUSED.items()})
    read.check_names(OPTIONS, "sink", passed=(f"{KAFKA}*", *_OF_SPARK))
    if SERVERS not in kafka:
        raise OptionError(f"Option '{KAFKA}{SERVERS}' must be specified for configuring Kafka producer")
    guarantee = (read.text("deliveryGuarantee") or AT_LEAST_ONCE).lower()
    if guarantee not in GUARANTEES:
        raise OptionError(f"Option 'deliveryGuarantee' is {guarantee!r}: use one of {', '.join(GUARANTEES)}")
    topic = read.text("topic")
    if guarantee == AT_LEAST_ONCE:
        for name in ("sinkId", "batchId", "controlTopic"):
            if name in read:
                raise OptionError(
                    f"Option '{name}' is for deliveryGuarantee=exactly-once: set both, or neither"
                )
        return SinkOptions(kafka, topic)
    control_topic = read.text("controlTopic")
    return SinkOptions(
        kafka,
        topic,
        _checked_sink_id(read.text("sinkId")),
        _batch_id(read.text("batchId")),
        DEFAULT_CONTROL_TOPIC if control_topic is None else control_topic,
    )


def _checked_sink_id(sink_id: str | None) -> str:
    if sink_id is None:
        raise OptionError(
            "Option 'sinkId' must be specified for deliveryGuarantee=exactly-once: "
            "a unique name for this output that stays the same across restarts"
        )
    if SINK_ID.fullmatch(sink_id) is None:
        raise OptionError(
            f"Option 'sinkId' is {sink_id!r}: use 1 to 120 letters, digits, dots, dashes and underscores"
        )
    return sink_id


def _batch_id(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal():
        raise OptionError(f"Option 'batchId' is {given!r}: use the number that foreachBatch gives")
    return int(given)
