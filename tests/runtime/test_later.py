"""A value that is not there yet."""

from __future__ import annotations

import pytest

from barnabas.runtime.later import Later


def test_who_waits_is_called_in_order_and_who_comes_late_at_once() -> None:
    heard: list[object] = []
    later: Later[int] = Later()
    later.then(heard.append, heard.append)
    later.then(lambda value: heard.append(-value), heard.append)
    before = (later.done, list(heard))
    later.set(3)
    later.then(heard.append, heard.append)
    assert (before, later.done) == ((False, []), True)
    assert heard == [3, -3, 3]


def test_a_broken_promise_is_told_to_the_other_ear() -> None:
    errors: list[BaseException] = []
    later: Later[None] = Later()
    later.then(_refuse, errors.append)
    failure = ValueError("no")
    later.fail(failure)
    later.then(_refuse, errors.append)
    assert errors == [failure, failure]


def test_it_is_kept_or_broken_once() -> None:
    later = Later.of(1)
    with pytest.raises(RuntimeError):
        later.set(2)
    with pytest.raises(RuntimeError):
        later.fail(ValueError())


def test_none_is_a_value() -> None:
    heard: list[object] = []
    Later.of(None).then(heard.append, heard.append)
    assert heard == [None]


def test_one_who_waits_may_ask_again() -> None:
    heard: list[int] = []
    later: Later[int] = Later()
    later.then(lambda value: later.then(heard.append, _refuse), _refuse)
    later.set(5)
    assert heard == [5]


def _refuse(told: object) -> None:
    raise AssertionError(f"the wrong ear heard {told!r}")
