"""Options of the admin client, besides those that all clients share."""

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

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("bootstrap.servers", LIST, "", None, HIGH, Feature.CLIENT,
        doc="Bootstrap brokers: host:port, separated by commas; the client discovers the rest of the cluster from them."),
    Option("bootstrap.controllers", LIST, "", None, HIGH, Feature.CLIENT,
        doc="Bootstrap controllers, used instead of brokers: host:port, separated by commas."),
    Option("client.id", STRING, "", None, MEDIUM, Feature.CLIENT,
        doc="Name of the client in logs, metrics and quotas."),
    Option("connections.max.idle.ms", LONG, "300000", None, MEDIUM, Feature.CLIENT,
        doc="Time without traffic after which a connection is closed."),
    Option("default.api.timeout.ms", INT, "60000", "[0,...]", MEDIUM, Feature.CLIENT,
        doc="Default timeout of calls that do not set their own."),
    Option("enable.metrics.push", BOOLEAN, "false", None, LOW, Feature.TELEMETRY, zookeeper={"default": "true"},
        doc="Whether the client sends its metrics to the cluster when requested (KIP-714)."),
    Option("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", None, LOW, Feature.NONE, zookeeper={"default": ""},
        doc="Java classes of metrics reporters."),
    Option("receive.buffer.bytes", INT, "65536", "[-1,...]", MEDIUM, Feature.CLIENT,
        doc="Receive buffer requested for sockets; -1 leaves it to the operating system."),
    Option("retries", INT, "2147483647", "[0,...,2147483647]", LOW, Feature.CLIENT,
        doc="How often a request that failed with a retriable error is retried."),
)
