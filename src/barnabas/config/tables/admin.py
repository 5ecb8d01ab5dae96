"""The options of the admin client, besides those that all clients share."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import (
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    Option,
)

# A row stands on two lines, the facts and the words, which the formatter would tear apart.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("bootstrap.servers", LIST, "", None, HIGH, Feature.CLIENT,
        doc="Brokers to ask first: host:port, separated by commas; the rest of the cluster is learnt from them."),
    Option("bootstrap.controllers", LIST, "", None, HIGH, Feature.CLIENT,
        doc="Controllers to ask instead of brokers: host:port, separated by commas."),
    Option("client.id", STRING, "", None, MEDIUM, Feature.CLIENT,
        doc="Name of the client in logs, metrics and quotas."),
    Option("connections.max.idle.ms", LONG, "300000", None, MEDIUM, Feature.CLIENT,
        doc="Time without traffic after which a connection is closed."),
    Option("default.api.timeout.ms", INT, "60000", "[0,...]", MEDIUM, Feature.CLIENT,
        doc="How long a call may take that names no time-out of its own."),
    Option("enable.metrics.push", BOOLEAN, "false", None, LOW, Feature.TELEMETRY, zookeeper={"default": "true"},
        doc="Whether the client sends its metrics to the cluster when asked (KIP-714)."),
    Option("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", None, LOW, Feature.NONE, zookeeper={"default": ""},
        doc="Java classes that are handed every metric."),
    Option("receive.buffer.bytes", INT, "65536", "[-1,...]", MEDIUM, Feature.CLIENT,
        doc="Receive buffer asked for on sockets; -1 leaves it to the system."),
    Option("retries", INT, "2147483647", "[0,...,2147483647]", LOW, Feature.CLIENT,
        doc="Times a request that may succeed later is sent again."),
)
