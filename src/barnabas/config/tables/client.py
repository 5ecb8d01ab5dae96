"""What producer, consumer and admin client have in common."""

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

# A row stands on two lines, the facts and the words, which the formatter would tear apart.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("client.dns.lookup", STRING, "use_all_dns_ips", "[use_all_dns_ips, resolve_canonical_bootstrap_servers_only]", MEDIUM, Feature.CLIENT,
        doc="Whether all addresses of a host name are tried, or its canonical names."),
    Option("metadata.max.age.ms", LONG, "300000", "[0,...]", LOW, Feature.CLIENT,
        doc="Age at which metadata is asked for again."),
    Option("metadata.recovery.strategy", STRING, "rebootstrap", "(case insensitive) [REBOOTSTRAP, NONE]", LOW, Feature.CLIENT, zookeeper={"default": "none"},
        doc="Whether a client that knows no live broker starts over from its bootstrap servers."),
    Option("metadata.recovery.rebootstrap.trigger.ms", LONG, "300000", "[0,...]", LOW, Feature.CLIENT, only=KRAFT,
        doc="Time without metadata after which it does so."),
    Option("auto.include.jmx.reporter", BOOLEAN, "true", None, LOW, Feature.NONE, only=ZOOKEEPER,
        doc="Whether metrics appear in JMX although the reporters do not name it."),
    Option("metrics.num.samples", INT, "2", "[1,...]", LOW, Feature.METRICS,
        doc="Windows of samples that a rate is averaged over."),
    Option("metrics.recording.level", STRING, "INFO", "[INFO, DEBUG, TRACE]", LOW, Feature.METRICS,
        doc="How detailed the recorded metrics are."),
    Option("metrics.sample.window.ms", LONG, "30000", "[0,...]", LOW, Feature.METRICS,
        doc="Length of one window of samples."),
    Option("send.buffer.bytes", INT, "131072", "[-1,...]", MEDIUM, Feature.CLIENT,
        doc="Send buffer asked for on sockets; -1 leaves it to the system."),
    Option("reconnect.backoff.ms", LONG, "50", "[0,...]", LOW, Feature.CLIENT,
        doc="First pause before a broker is connected to again."),
    Option("reconnect.backoff.max.ms", LONG, "1000", "[0,...]", LOW, Feature.CLIENT,
        doc="Longest such pause."),
    Option("request.timeout.ms", INT, "30000", "[0,...]", MEDIUM, Feature.CLIENT,
        doc="How long the client waits for an answer."),
    Option("retry.backoff.ms", LONG, "100", "[0,...]", LOW, Feature.CLIENT,
        doc="First pause before a request is sent again."),
    Option("retry.backoff.max.ms", LONG, "1000", "[0,...]", LOW, Feature.CLIENT,
        doc="Longest such pause."),
    Option("socket.connection.setup.timeout.ms", LONG, "10000", None, MEDIUM, Feature.CLIENT,
        doc="First limit for setting up a connection; it grows with each failure."),
    Option("socket.connection.setup.timeout.max.ms", LONG, "30000", None, MEDIUM, Feature.CLIENT,
        doc="Where the growth of that limit ends."),
)
