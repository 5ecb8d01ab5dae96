"""Configuration errors: the key, the value, and what is allowed."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


class ConfigError(KafkaError):
    """An invalid configuration.

    `message` is Apache Kafka's own sentence, which tools print and tests of tools compare; the text of the
    exception adds the allowed values where that sentence does not mention them.
    """

    def __init__(self, message: str, *, allowed: str | None = None) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)
        self.allowed = allowed

    def __str__(self) -> str:
        return self.message if self.allowed is None else f"{self.message} (allowed: {self.allowed})"


def invalid_value(name: str, value: object, why: str | None, *, allowed: str | None = None) -> ConfigError:
    """Builds the sentence `Invalid value X for configuration Y: why`."""
    reason = "" if why is None else f": {why}"
    return ConfigError(f"Invalid value {value} for configuration {name}{reason}", allowed=allowed)
