"""What a running broker takes in one step: pools that grow or shrink too far at once, and retentions that
contradict each other, are refused (KIP-226, KIP-405).

What lives here: rules between the settings in force and the ones that are wanted.  What may not: which
options are dynamic at all (layers.py), and rules that a file is held to as well (rules.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.config.errors import ConfigError
from barnabas.config.node.synonyms import base_name
from barnabas.config.settings import Settings
from barnabas.config.topics import topic_defaults

NETWORK_THREADS = "num.network.threads"
CLEANER_THREADS = "log.cleaner.threads"
THREAD_COUNTS = (
    "num.io.threads",
    NETWORK_THREADS,
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
UNLIMITED = -1
AS_THE_WHOLE = -2


def check_step(current: Settings, wanted: Settings) -> None:
    """Refuse what Apache Kafka's broker would not change to while it runs, in its words."""
    for broken in _broken(current, wanted):
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {broken}"
            " for configuration Invalid dynamic configuration"
        )


def _broken(current: Settings, wanted: Settings) -> Iterator[str]:
    for name in THREAD_COUNTS:
        yield from _pool(name, current[name], wanted[name])
    for name, text in wanted.given.items():
        if name != NETWORK_THREADS == base_name(name):
            known = current.given.get(name, current[NETWORK_THREADS])
            yield from _pool(NETWORK_THREADS, int(known), int(text))
    yield from _cleaners(current[CLEANER_THREADS], wanted[CLEANER_THREADS])
    defaults = topic_defaults(wanted)
    yield from _local("log.local.retention.ms", "log.retention.ms", wanted, defaults["retention.ms"])
    yield from _local("log.local.retention.bytes", "log.retention.bytes", wanted, defaults["retention.bytes"])


def _pool(name: str, known: int, count: int) -> Iterator[str]:
    said = f"Dynamic thread count update validation failed for {name}={count}, value should"
    if count < known // 2:
        yield f"{said} be at least half the current value {known}"
    elif count > known * 2:
        yield f"{said} not be greater than double the current value {known}"


def _cleaners(known: int, count: int) -> Iterator[str]:
    if count < known // 2:
        yield f"Log cleaner threads cannot be reduced to less than half the current value {known}"
    elif count > known * 2:
        yield f"Log cleaner threads cannot be increased to more than double the current value {known}"


def _local(name: str, whole_name: str, wanted: Settings, whole: int) -> Iterator[str]:
    local = wanted[name]
    if whole == UNLIMITED or local == AS_THE_WHOLE:
        return
    said = f"Invalid value {local} for configuration {name}: Value must not be"
    if local == UNLIMITED:
        yield f"{said} -1 as {whole_name} value is set as {whole}."
    elif local > whole:
        yield f"{said} more than {whole_name} property value: {whole}"
