"""Rules between the options of a broker that do not concern its roles or its listeners.

Each rule is one sentence, Apache Kafka's own where it has one; the first violation prevents startup.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import split_list, split_map
from barnabas.config.option import Mode
from barnabas.config.settings import Settings
from barnabas.config.topics import topic_defaults

MIB = 1024 * 1024
_LAST_CODEC = 4
_ASSIGNOR_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
# Assignors by their short names and by the Java class names that older configuration files contain.
ASSIGNORS = {
    "group.consumer.assignors": {
        "uniform": "uniform",
        "range": "range",
        f"{_ASSIGNOR_PACKAGE}UniformAssignor": "uniform",
        f"{_ASSIGNOR_PACKAGE}RangeAssignor": "range",
    },
    "group.share.assignors": {"simple": "simple", f"{_ASSIGNOR_PACKAGE}SimpleAssignor": "simple"},
}
_OVERRIDES = "max.connections.per.ip.overrides"
_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


def check_rules(settings: Settings) -> None:
    """Raises ConfigError for the first rule that these settings violate."""
    for broken in _broken_rules(settings):
        raise ConfigError(broken)


def _broken_rules(settings: Settings) -> Iterator[str]:
    yield from _log_rules(settings)
    yield from _release_rules(settings)
    yield from _replication_rules(settings)
    yield from _connection_rules(settings)
    yield from _group_rules(settings)


def _log_rules(settings: Settings) -> Iterator[str]:
    defaults = topic_defaults(settings)
    if defaults["segment.ms"] < 1:
        yield "log.roll.ms must be greater than or equal to 1"
    if defaults["segment.jitter.ms"] < 0:
        yield "log.roll.jitter.ms must be greater than or equal to 0"
    if defaults["retention.ms"] == 0:
        yield "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    if not log_dirs(settings):
        yield "At least one log directory must be defined via log.dirs or log.dir."
    threads = settings["log.cleaner.threads"]
    if threads == 0:
        yield "log.cleaner.threads must be at least 1; log.cleaner.enable=false stops compaction"
    elif settings["log.cleaner.dedupe.buffer.size"] // threads <= MIB:
        yield "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


def log_dirs(settings: Settings) -> tuple[str, ...]:
    """The log directories: log.dirs, or log.dir if that is not set."""
    listed = settings["log.dirs"]
    return tuple(split_list(settings["log.dir"] if listed is None else listed))


def _release_rules(settings: Settings) -> Iterator[str]:
    """Brokers that use an old protocol version cannot send records of a newer format (ZooKeeper mode)."""
    name, protocol = "log.message.format.version", "inter.broker.protocol.version"
    if name not in settings or not settings[protocol].startswith(("0.", "1.", "2.")):
        return
    needed, spoken = _record_format(settings[name]), _record_format(settings[protocol])
    if needed > spoken:
        yield (
            f"{name} {settings[name]} can only be used when {protocol} is set to version "
            f"{'0.11.0' if needed == 2 else '0.10.0'} or higher"
        )


def _record_format(release: str) -> int:
    """The record format (0, 1 or 2) of a release."""
    if release.startswith("0.10."):
        return 1
    return 0 if release.startswith(("0.8.", "0.9.")) else 2


def _replication_rules(settings: Settings) -> Iterator[str]:
    wait = settings["replica.fetch.wait.max.ms"]
    if wait > settings["replica.socket.timeout.ms"]:
        yield (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
            " to prevent unnecessary socket timeouts"
        )
    if wait > settings["replica.lag.time.max.ms"]:
        yield (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
            " to prevent frequent changes in ISR"
        )


def _connection_rules(settings: Settings) -> Iterator[str]:
    if 0 < settings["queued.max.request.bytes"] < settings["socket.request.max.bytes"]:
        yield "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    overrides = connections_by_address(settings)
    if settings["max.connections.per.ip"] == 0 and not overrides:
        yield f"max.connections.per.ip can be set to zero only if {_OVERRIDES} property is set."
    invalid = [address for address in overrides if not _HOST_CHARACTERS.issuperset(address)]
    if invalid:
        yield f"{_OVERRIDES} contains invalid addresses : {','.join(invalid)}"
    delay, idle = settings["connection.failed.authentication.delay.ms"], settings["connections.max.idle.ms"]
    if 0 <= idle <= delay:
        yield (
            f"connection.failed.authentication.delay.ms={delay} should always be less than"
            f" connections.max.idle.ms={idle} to prevent failed authentication responses from timing out"
        )


def connections_by_address(settings: Settings) -> dict[str, int]:
    """The limits per address, from max.connections.per.ip.overrides."""
    counts = {}
    for address, count in split_map(_OVERRIDES, settings[_OVERRIDES]).items():
        if not (count.isascii() and count.isdecimal() and len(count) < 10):
            raise ConfigError(f"{_OVERRIDES} contains {address}:{count}, whose limit is not a number")
        counts[address] = int(count)
    return counts


def _group_rules(settings: Settings) -> Iterator[str]:
    for codec in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        if codec in settings and not 0 <= settings[codec] <= _LAST_CODEC:
            yield f"Unknown compression type id: {settings[codec]}"
    yield from _protocol_rules(settings)
    for kind in ("consumer", "share", "streams"):
        if f"group.{kind}.session.timeout.ms" in settings:
            yield from _between_limits(settings, kind, "heartbeat.interval.ms")
            yield from _between_limits(settings, kind, "session.timeout.ms")
    for option, known in ASSIGNORS.items():
        for name in settings.get(option, ()):
            if name not in known:
                yield f"Class {name} cannot be found; {option} may name {', '.join(known)}"
    yield from _share_rules(settings)
    standby, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if standby in settings and settings[standby] > settings[most]:
        yield f"{standby} must be less than or equal to {most}"
    acks, replicas = "offsets.commit.required.acks", "offsets.topic.replication.factor"
    if acks in settings and not -1 <= settings[acks] <= settings[replicas]:
        yield f"{acks} must be greater or equal to -1 and less or equal to {replicas}"


def _protocol_rules(settings: Settings) -> Iterator[str]:
    protocols = settings["group.coordinator.rebalance.protocols"]
    if "classic" not in protocols:
        yield "Disabling the 'classic' protocol is not supported."
    if settings.mode is Mode.ZOOKEEPER:
        for protocol in protocols:
            if protocol != "classic":
                yield f"The new '{protocol}' rebalance protocol is only supported in KRaft cluster."


def _between_limits(settings: Settings, kind: str, what: str) -> Iterator[str]:
    name = f"group.{kind}.{what}"
    least, most = f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"
    if settings[most] < settings[least]:
        yield f"{most} must be greater than or equal to {least}"
    if settings[name] < settings[least]:
        yield f"{name} must be greater than or equal to {least}"
    if settings[name] > settings[most]:
        yield f"{name} must be less than or equal to {most}"


def _share_rules(settings: Settings) -> Iterator[str]:
    lock, least, most = (f"group.share.{bound}record.lock.duration.ms" for bound in ("", "min.", "max."))
    if settings[lock] < settings[least]:
        yield f"{lock} must be greater than or equal to {least}"
    if settings[most] < settings[lock]:
        yield f"{most} must be greater than or equal to {lock}"
    sessions, size = "group.share.max.share.sessions", "group.share.max.size"
    if sessions in settings and settings[sessions] < settings[size]:
        yield f"{sessions} must be greater than or equal to {size}"
    assignors = "group.share.assignors"
    if assignors in settings and len(settings[assignors]) != 1:
        yield f"{assignors} must contain exactly one assignor, but found {len(settings[assignors])}"
