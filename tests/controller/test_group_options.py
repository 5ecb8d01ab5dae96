"""The configs of a group against the bounds of the broker (KIP-848, KIP-932)."""

from __future__ import annotations

import pytest

from barnabas.config import BROKER, ConfigError, Settings
from barnabas.controller.configs.group_options import check_group_options

REQUIRED = {"node.id": "1", "process.roles": "broker", "controller.listener.names": "CONTROLLER"}
# Config, broker config of the minimum, broker config of the maximum.
BOUNDS = [
    (
        f"{kind}.{name}",
        f"group.{kind}.min.{name}",
        f"group.{kind}.max.{name}",
    )
    for kind, name in [
        ("consumer", "heartbeat.interval.ms"),
        ("consumer", "session.timeout.ms"),
        ("share", "heartbeat.interval.ms"),
        ("share", "session.timeout.ms"),
        ("share", "record.lock.duration.ms"),
        ("streams", "heartbeat.interval.ms"),
        ("streams", "session.timeout.ms"),
    ]
]


def broker_settings(**configs: str) -> Settings:
    return BROKER.parse({**REQUIRED, **{name.replace("_", "."): text for name, text in configs.items()}})


def error_of(options: dict[str, str], **broker: str) -> str:
    """The violated bound, or nothing."""
    try:
        check_group_options(options, broker_settings(**broker))
    except ConfigError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("name", "minimum", "maximum"), BOUNDS)
def test_a_config_may_be_on_its_bounds_but_not_outside(name: str, minimum: str, maximum: str) -> None:
    settings = broker_settings()
    low, high = settings[minimum], settings[maximum]
    # Sessions are longer than heartbeats at either bound.
    kind = name.partition(".")[0]
    others = {f"{kind}.session.timeout.ms": str(settings[f"group.{kind}.max.session.timeout.ms"])}
    if "heartbeat" not in name:
        lowest = settings[f"group.{kind}.min.heartbeat.interval.ms"]
        others = {f"{kind}.heartbeat.interval.ms": str(lowest)}
    assert error_of({**others, name: str(low)}) == ""
    assert error_of({**others, name: str(high)}) == ""
    assert error_of({**others, name: str(low - 1)}) == f"{name} must be greater than or equal to {minimum}"
    assert error_of({**others, name: str(high + 1)}) == f"{name} must be less than or equal to {maximum}"


def test_standby_replicas_are_bounded() -> None:
    maximum = "group.streams.max.standby.replicas"
    most = broker_settings()[maximum]
    name = "streams.num.standby.replicas"
    assert error_of({name: str(most)}) == ""
    assert error_of({name: str(most + 1)}) == f"{name} must be less than or equal to {maximum}"


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_outlasts_a_heartbeat(kind: str) -> None:
    """Both are within their bounds, and a session of the length of a heartbeat is refused."""
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    broker = {f"group_{kind}_min_session_timeout_ms": "5000", f"group_{kind}_session_timeout_ms": "45000"}
    assert error_of({heartbeat: "5000", session: "5001"}, **broker) == ""
    assert (
        error_of({heartbeat: "5000", session: "5000"}, **broker)
        == f"{session} must be greater than {heartbeat}"
    )


def test_an_unknown_config_of_a_group_is_refused() -> None:
    assert "consumer.nonsense" in error_of({"consumer.nonsense": "1"})
