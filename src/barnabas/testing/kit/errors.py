"""The errors of the kit."""

from __future__ import annotations


class KitError(Exception):
    """The kit was asked for something that it cannot do; the message says what to do instead."""


class WaitTimeoutError(AssertionError):
    """What was waited for did not happen; the first line says who is stuck and why."""
