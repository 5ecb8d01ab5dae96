"""Names of levels, as the many loggers write them, brought to six: TRACE, DEBUG, INFO, WARN, ERROR, FATAL."""

from __future__ import annotations

import re

_NAMES = {
    "TRACE": "trace trc trce trac finest finer verbose v vrb t",
    "DEBUG": "debug dbg dbug debg debu fine d . debug1 debug2 debug3 debug4 debug5",
    "INFO": "info information informational inf notice note n i ii log config statement "
    "default success system *",
    "WARN": "warn warning wrn w ww #",
    "ERROR": "error err e severe failure eror erro ee exception fail",
    "FATAL": "fatal critical crit alert emerg emergency panic f a ftl fata pani pnc fault dpanic c",
}
LEVELS = {name: level for level, names in _NAMES.items() for name in names.split()}
_USUAL = {case: level for name, level in LEVELS.items() for case in (name, name.upper(), name.capitalize())}
_COUNTED = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
# RFC 5424, section 6.2.1: the severity is the priority modulo 8.
SEVERITIES = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_NOT_ALONE = {"default", "fine", "success", "exception", "fail", "system", "fault"}
# Words that name a level wherever they stand; single letters do so only in formats that say it.
WORDS = sorted((name for name in LEVELS if len(name) > 2 and name not in _NOT_ALONE), key=len)[::-1]
# The usual ones first: most lines have one of them, and an alternation is tried in its order.
_ORDER = ["INFO", "DEBUG", "ERROR", "WARN"] + [
    case for name in WORDS for case in (name.upper(), name.capitalize(), name)
]
LEVEL_WORD = "(?:" + "|".join(dict.fromkeys(_ORDER)) + ")"


def level_of(text: str | None) -> str | None:
    """The level that a name means, if any."""
    if text is None:
        return None
    # slog counts between levels: ERROR+4.
    return _USUAL.get(text) or LEVELS.get(re.sub(r"[+-]\d+$", "", text.strip().lower()))


def level_of_priority(text: str) -> str:
    """The level of a syslog priority."""
    return SEVERITIES[int(text) & 7]


def level_of_status(text: str) -> str:
    """The level of an HTTP status."""
    return "ERROR" if text >= "5" else "WARN" if text >= "4" else "INFO"


def level_of_risk(text: str) -> str:
    """The level of CEF's severity: 0 to 10, or a word."""
    if not text.isdecimal():
        return {"Medium": "WARN", "High": "ERROR", "Very-High": "FATAL"}.get(text, "INFO")
    return "INFO" if int(text) < 4 else "WARN" if int(text) < 7 else "ERROR" if int(text) < 9 else "FATAL"


def level_of_number(value: float) -> str | None:
    """pino and bunyan count 10, 20 … 60, Monolog 100 … 600, GELF as syslog does."""
    if 10 <= value < 70:
        return _COUNTED[int(value) // 10 - 1]
    if 100 <= value <= 600:
        return ("DEBUG", "INFO", "WARN", "ERROR", "FATAL", "FATAL")[int(value) // 100 - 1]
    return SEVERITIES[int(value)] if 0 <= value < 8 else None


def level_of_otel(value: float) -> str | None:
    """OpenTelemetry's severity numbers: four to a level."""
    if 1 <= value <= 24:
        return _COUNTED[(int(value) - 1) // 4]
    return None
