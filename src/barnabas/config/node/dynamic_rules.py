"""Rules for a dynamic configuration change: thread pools must not grow or shrink too far in one step, and
retention settings must not contradict each other (KIP-226, KIP-405).

Contains rules between the current settings and the new ones.  Which options are dynamic belongs in
config/layers.py; rules that also apply to a file belong in rules.py.
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


def check_step(current: Settings, new: Settings) -> None:
    """Raises ConfigError for a change that Apache Kafka's broker rejects at run time, in its wording."""
    for broken in _broken(current, new):
        raise ConfigError(
            f"Invalid value org.apache.kafka.common.config.ConfigException: {broken}"
            " for configuration Invalid dynamic configuration"
        )


def _broken(current: Settings, new: Settings) -> Iterator[str]:
    for name in THREAD_COUNTS:
        yield from _pool(name, current[name], new[name])
    for name, text in new.given.items():
        if name != NETWORK_THREADS == base_name(name):
            known = current.given.get(name, current[NETWORK_THREADS])
            yield from _pool(NETWORK_THREADS, int(known), int(text))
    yield from _cleaners(current[CLEANER_THREADS], new[CLEANER_THREADS])
    defaults = topic_defaults(new)
    yield from _local("log.local.retention.ms", "log.retention.ms", new, defaults["retention.ms"])
    yield from _local("log.local.retention.bytes", "log.retention.bytes", new, defaults["retention.bytes"])


def _pool(name: str, known: int, count: int) -> Iterator[str]:
    prefix = f"Dynamic thread count update validation failed for {name}={count}, value should"
    if count < known // 2:
        yield f"{prefix} be at least half the current value {known}"
    elif count > known * 2:
        yield f"{prefix} not be greater than double the current value {known}"


def _cleaners(known: int, count: int) -> Iterator[str]:
    if count < known // 2:
        yield f"Log cleaner threads cannot be reduced to less than half the current value {known}"
    elif count > known * 2:
        yield f"Log cleaner threads cannot be increased to more than double the current value {known}"


def _local(name: str, whole_name: str, new: Settings, whole: int) -> Iterator[str]:
    local = new[name]
    if whole == UNLIMITED or local == AS_THE_WHOLE:
        return
    prefix = f"Invalid value {local} for configuration {name}: Value must not be"
    if local == UNLIMITED:
        yield f"{prefix} -1 as {whole_name} value is set as {whole}."
    elif local > whole:
        yield f"{prefix} more than {whole_name} property value: {whole}"
