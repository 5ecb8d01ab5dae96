"""The options of a group within the bounds that the broker sets for its kind (KIP-848, KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from barnabas.config import GROUP, ConfigError, Settings

# Options, and the broker's options that are the least and the most of them.
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
    """Stop at the first rule that these options break."""
    GROUP.refuse_unknown(options)
    for broken in _broken_rules(GROUP.parse(options), broker):
        raise ConfigError(broken)


def _broken_rules(group: Settings, broker: Settings) -> Iterator[str]:
    for name, least, most in _BOUNDED:
        if group[name] < broker[least]:
            yield f"{name} must be greater than or equal to {least}"
        if group[name] > broker[most]:
            yield f"{name} must be less than or equal to {most}"
    if group[_STANDBYS] > broker[_MOST_STANDBYS]:
        yield f"{_STANDBYS} must be less than or equal to {_MOST_STANDBYS}"
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if group[session] <= group[heartbeat]:
            yield f"{session} must be greater than {heartbeat}"
