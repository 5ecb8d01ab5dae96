"""The log levels of a running broker as DescribeConfigs and IncrementalAlterConfigs show them (KIP-412).

Log handlers and files belong to the command line.  Loggers belong to the process: brokers in one process
share them.
"""

from __future__ import annotations

import logging

from barnabas.base.errors import ErrorCode, KafkaError

ROOT = "root"
_TOP = "barnabas"
_LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG // 2,
    "WARN": logging.WARNING,
}
_NAMES = {level: name for name, level in _LEVELS.items()}


def levels() -> dict[str, str]:
    """Returns every logger with its effective level."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == _TOP]
    return {
        ROOT: _level_name(logging.root),
        **{name: _level_name(logging.getLogger(name)) for name in sorted(names)},
    }


def check(name: str, level: str | None) -> None:
    """Raises if the logger or the level does not exist; None resets the level."""
    if name not in levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if level is not None and level not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
    if level is None and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )


def set_level(name: str, level: str | None) -> None:
    """Sets the level; None inherits the level of the parent logger."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _level_name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    nearest = max((known for known in _NAMES if known <= level), default=min(_NAMES))
    return _NAMES[nearest]
