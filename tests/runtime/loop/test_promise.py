"""A value that is not there yet."""

from __future__ import annotations

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


def _refuse(told: object) -> None:
    raise AssertionError(f"the wrong ear heard {told!r}")
