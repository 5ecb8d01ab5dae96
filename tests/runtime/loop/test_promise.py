"""Promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.runtime.loop.promise import Promise


def test_callbacks_are_called_in_order_and_late_ones_at_once() -> None:
    results: list[object] = []
    promise: Promise[int] = Promise()
    promise.then(results.append, results.append)
    promise.then(lambda value: results.append(-value), results.append)
    before = (promise.done, list(results))
    promise.set(3)
    promise.then(results.append, results.append)
    assert (before, promise.done) == ((False, []), True)
    assert results == [3, -3, 3]


def test_a_failed_promise_calls_the_error_callback() -> None:
    errors: list[BaseException] = []
    promise: Promise[None] = Promise()
    promise.then(_refuse, errors.append)
    failure = ValueError("no")
    promise.fail(failure)
    promise.then(_refuse, errors.append)
    assert errors == [failure, failure]


def test_the_outcome_can_be_read() -> None:
    completed, failed = Promise.of(3), Promise[int]()
    failure = ValueError("no")
    failed.fail(failure)
    assert (completed.value, completed.error, failed.error) == (3, None, failure)


def test_it_is_completed_or_failed_once() -> None:
    promise = Promise.of(1)
    with pytest.raises(RuntimeError):
        promise.set(2)
    with pytest.raises(RuntimeError):
        promise.fail(ValueError())


def test_none_is_a_value() -> None:
    results: list[object] = []
    Promise.of(None).then(results.append, results.append)
    assert results == [None]


def test_a_callback_may_add_a_callback() -> None:
    results: list[int] = []
    promise: Promise[int] = Promise()
    promise.then(lambda value: promise.then(results.append, _refuse), _refuse)
    promise.set(5)
    assert results == [5]


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("is_kept", [True, False])
def test_one_who_fails_does_not_keep_the_others_waiting(broken: int, is_kept: bool) -> None:
    """F5, elsewhere: the others of the same promise were never called."""
    called: list[int] = []

    def callback(number: int) -> Callable[[object], None]:
        def call(_: object) -> None:
            if number == broken:
                raise ValueError("broken callback")
            called.append(number)

        return call

    promise: Promise[int] = Promise()
    for number in range(3):
        promise.then(callback(number), callback(number))
    with pytest.raises(ValueError, match="broken callback"):
        if is_kept:
            promise.set(1)
        else:
            promise.fail(OSError())
    assert called == [number for number in range(3) if number != broken]


def _refuse(result: object) -> None:
    raise AssertionError(f"the wrong callback was called with {result!r}")
