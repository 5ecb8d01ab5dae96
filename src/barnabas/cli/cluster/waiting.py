"""Waiting for the cluster: each reason is printed once, and the last one is in the error if time runs out."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.client.sync import Admin
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.loop_thread import pause

POLL_S = 0.25


def wait_until(admin: Admin, reason: Callable[[], str], timeout_s: int, *, subject: str, how_on: str) -> None:
    """Returns when `reason` is empty; raises CommandError if that takes too long."""
    clock = SystemClock()
    deadline_ns = clock.monotonic_ns() + timeout_s * 1_000 * NS_PER_MS
    printed = ""
    while waiting_for := _reason(reason):
        if waiting_for != printed:
            printed = waiting_for
            print(f"{subject}: waiting {waiting_for}", flush=True)
        if clock.monotonic_ns() > deadline_ns:
            raise CommandError(
                f"{subject}: gave up after {timeout_s} s of waiting {waiting_for}; {how_on}", Exit.TIMED_OUT
            )
        admin.call(lambda _: pause(POLL_S))


def _reason(reason: Callable[[], str]) -> str:
    """A cluster in motion may not respond for a moment: that is one more reason to wait."""
    try:
        return reason()
    except KafkaError as error:
        if not error.retriable:
            raise
        return f"for the cluster to respond ({error.message})"
