"""The configuration of a producer or consumer as a whole: rules between options, and derived values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from barnabas.config.errors import ConfigError
from barnabas.config.node.security import refuse_unbuilt_security
from barnabas.config.scopes import CONSUMER, PRODUCER
from barnabas.config.settings import Settings

MOST_IN_FLIGHT_WHEN_IDEMPOTENT = 5
_CLASSIC_ONLY = ("heartbeat.interval.ms", "session.timeout.ms", "partition.assignment.strategy")


def producer_settings(given: Mapping[str, object]) -> Settings:
    """Parse and check a producer's options.  Idempotence is disabled by conflicting acks or retries unless it
    was set explicitly, and delivery.timeout.ms is raised to linger.ms + request.timeout.ms unless it was
    set."""
    settings = PRODUCER.parse(given)
    follows = {
        "acks": "all" if settings["acks"] == "-1" else settings["acks"],
        "enable.idempotence": _idempotent(settings),
        "delivery.timeout.ms": _delivery_timeout_ms(settings),
    }
    settings = replace(settings, values_by_name={**settings.values_by_name, **follows})
    _check_transactions(settings)
    refuse_unbuilt_security(settings)
    return settings


def _idempotent(settings: Settings) -> bool:
    if not settings["enable.idempotence"]:
        return False
    is_explicit = settings.is_given("enable.idempotence")
    in_flight = settings["max.in.flight.requests.per.connection"]
    if settings["retries"] == 0:
        if is_explicit:
            raise ConfigError("Must set retries to non-zero when using the idempotent producer.")
        return False
    if settings["acks"] not in ("all", "-1"):
        if is_explicit:
            raise ConfigError(
                "Must set acks to all in order to use the idempotent producer. "
                "Otherwise we cannot guarantee idempotence."
            )
        return False
    if in_flight > MOST_IN_FLIGHT_WHEN_IDEMPOTENT:
        raise ConfigError(
            "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most "
            f"{MOST_IN_FLIGHT_WHEN_IDEMPOTENT}. Current value is {in_flight}."
        )
    return True


def _delivery_timeout_ms(settings: Settings) -> int:
    least = settings["linger.ms"] + settings["request.timeout.ms"]
    timeout: int = settings["delivery.timeout.ms"]
    if timeout >= least:
        return timeout
    if settings.is_given("delivery.timeout.ms"):
        raise ConfigError(
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms",
            allowed=f"at least {least}",
        )
    return int(least)


def _check_transactions(settings: Settings) -> None:
    if settings["transactional.id"] is not None and not settings["enable.idempotence"]:
        raise ConfigError("Cannot set a transactional.id without also enabling idempotence.")
    two_phase, timeout = "transaction.two.phase.commit.enable", "transaction.timeout.ms"
    if settings[two_phase] and settings.is_given(timeout):
        raise ConfigError(
            f"Cannot set {timeout} when {two_phase} is set to true. "
            "Transactions will not expire with two-phase commit enabled."
        )


def consumer_settings(given: Mapping[str, object]) -> Settings:
    """Parse and check a consumer's options.  Without a group, auto-commit is disabled."""
    settings = CONSUMER.parse(given)
    protocol = settings["group.protocol"].upper()
    inapplicable = _CLASSIC_ONLY if protocol == "CONSUMER" else ("group.remote.assignor",)
    for name in inapplicable:
        if settings.is_given(name):
            raise ConfigError(f"{name} cannot be set when group.protocol={protocol}")
    if settings["group.id"] is None:
        if settings.is_given("enable.auto.commit") and settings["enable.auto.commit"]:
            raise ConfigError(
                "enable.auto.commit cannot be set to true when default group id (null) is used."
            )
        settings = replace(settings, values_by_name={**settings.values_by_name, "enable.auto.commit": False})
    refuse_unbuilt_security(settings)
    return settings
