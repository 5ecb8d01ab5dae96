"""Checks the configs of a group against the bounds in the broker's configs (KIP-848, KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.config import GROUP, ConfigError, Settings

# Group configs, and the broker configs with their minimum and maximum.
_BOUNDED = (
    (
        "consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    (
        "consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    (
        "share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    ("share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"),
    (
        "share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    (
        "streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    (
        "streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
)
_STANDBYS, _MOST_STANDBYS = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
_KINDS = ("consumer", "share", "streams")


def check_group_options(options: Mapping[str, str], broker: Settings) -> None:
    """Raises ConfigError for the first violated bound."""
    GROUP.refuse_unknown(options)
    for violation in _violations(GROUP.parse(options), broker):
        raise ConfigError(violation)


def _violations(group: Settings, broker: Settings) -> Iterator[str]:
    for name, minimum, maximum in _BOUNDED:
        if group[name] < broker[minimum]:
            yield f"{name} must be greater than or equal to {minimum}"
        if group[name] > broker[maximum]:
            yield f"{name} must be less than or equal to {maximum}"
    if group[_STANDBYS] > broker[_MOST_STANDBYS]:
        yield f"{_STANDBYS} must be less than or equal to {_MOST_STANDBYS}"
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if group[session] <= group[heartbeat]:
            yield f"{session} must be greater than {heartbeat}"
