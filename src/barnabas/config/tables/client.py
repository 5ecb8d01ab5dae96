"""Options that producer, consumer and admin client share."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import (
    BOOLEAN,
    INT,
    KRAFT,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ZOOKEEPER,
    Option,
)

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("client.dns.lookup", STRING, "use_all_dns_ips", "[use_all_dns_ips, resolve_canonical_bootstrap_servers_only]", MEDIUM, Feature.CLIENT,
        doc="Whether the client tries all addresses of a host name or its canonical names."),
    Option("metadata.max.age.ms", LONG, "300000", "[0,...]", LOW, Feature.CLIENT,
        doc="Age at which metadata is refreshed."),
    Option("metadata.recovery.strategy", STRING, "rebootstrap", "(case insensitive) [REBOOTSTRAP, NONE]", LOW, Feature.CLIENT, zookeeper={"default": "none"},
        doc="Whether a client that can reach no known broker rebootstraps from its bootstrap servers."),
    Option("metadata.recovery.rebootstrap.trigger.ms", LONG, "300000", "[0,...]", LOW, Feature.CLIENT, only=KRAFT,
        doc="Time without metadata after which it rebootstraps."),
    Option("auto.include.jmx.reporter", BOOLEAN, "true", None, LOW, Feature.NONE, only=ZOOKEEPER,
        doc="Whether metrics appear in JMX even if the reporters do not include it."),
    Option("metrics.num.samples", INT, "2", "[1,...]", LOW, Feature.METRICS,
        doc="Number of samples that a rate is computed from."),
    Option("metrics.recording.level", STRING, "INFO", "[INFO, DEBUG, TRACE]", LOW, Feature.METRICS,
        doc="Recording level of metrics."),
    Option("metrics.sample.window.ms", LONG, "30000", "[0,...]", LOW, Feature.METRICS,
        doc="Duration of one sample."),
    Option("send.buffer.bytes", INT, "131072", "[-1,...]", MEDIUM, Feature.CLIENT,
        doc="Send buffer requested for sockets; -1 leaves it to the operating system."),
    Option("reconnect.backoff.ms", LONG, "50", "[0,...]", LOW, Feature.CLIENT,
        doc="Initial backoff before reconnecting to a broker."),
    Option("reconnect.backoff.max.ms", LONG, "1000", "[0,...]", LOW, Feature.CLIENT,
        doc="Maximum backoff."),
    Option("request.timeout.ms", INT, "30000", "[0,...]", MEDIUM, Feature.CLIENT,
        doc="How long the client waits for a response."),
    Option("retry.backoff.ms", LONG, "100", "[0,...]", LOW, Feature.CLIENT,
        doc="Initial backoff before a request is retried."),
    Option("retry.backoff.max.ms", LONG, "1000", "[0,...]", LOW, Feature.CLIENT,
        doc="Maximum backoff."),
    Option("socket.connection.setup.timeout.ms", LONG, "10000", None, MEDIUM, Feature.CLIENT,
        doc="Initial timeout for setting up a connection; it grows with each failure."),
    Option("socket.connection.setup.timeout.max.ms", LONG, "30000", None, MEDIUM, Feature.CLIENT,
        doc="Maximum timeout for setting up a connection."),
)
