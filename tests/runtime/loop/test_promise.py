"""A value that is not there yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.runtime.loop.promise import Promise


def test_who_waits_is_called_in_order_and_who_comes_late_at_once() -> None:
    heard: list[object] = []
    promise: Promise[int] = Promise()
    promise.then(heard.append, heard.append)
    promise.then(lambda value: heard.append(-value), heard.append)
    before = (promise.done, list(heard))
    promise.set(3)
    promise.then(heard.append, heard.append)
    assert (before, promise.done) == ((False, []), True)
    assert heard == [3, -3, 3]


def test_a_broken_promise_is_told_to_the_other_ear() -> None:
    errors: list[BaseException] = []
    promise: Promise[None] = Promise()
    promise.then(_refuse, errors.append)
    failure = ValueError("no")
    promise.fail(failure)
    promise.then(_refuse, errors.append)
    assert errors == [failure, failure]


def test_it_is_kept_or_broken_once() -> None:
    promise = Promise.of(1)
    with pytest.raises(RuntimeError):
        promise.set(2)
    with pytest.raises(RuntimeError):
        promise.fail(ValueError())


def test_none_is_a_value() -> None:
    heard: list[object] = []
    Promise.of(None).then(heard.append, heard.append)
    assert heard == [None]


def test_one_who_waits_may_ask_again() -> None:
    heard: list[int] = []
    promise: Promise[int] = Promise()
    promise.then(lambda value: promise.then(heard.append, _refuse), _refuse)
    promise.set(5)
    assert heard == [5]


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("is_kept", [True, False])
def test_one_who_fails_does_not_keep_the_others_waiting(broken: int, is_kept: bool) -> None:
    """F5, elsewhere: the others of the same promise were never called."""
    heard: list[int] = []

    def ear(number: int) -> Callable[[object], None]:
        def hear(_: object) -> None:
            if number == broken:
                raise ValueError("a deaf ear")
            heard.append(number)

        return hear

    promise: Promise[int] = Promise()
    for number in range(3):
        promise.then(ear(number), ear(number))
    with pytest.raises(ValueError, match="a deaf ear"):
        if is_kept:
            promise.set(1)
        else:
            promise.fail(OSError())
    assert heard == [number for number in range(3) if number != broken]


def _refuse(told: object) -> None:
    raise AssertionError(f"the wrong ear heard {told!r}")
