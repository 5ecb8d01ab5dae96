"""Waiting for what a test wants."""

from __future__ import annotations

import pytest

from barnabas.testing import WaitTimeoutError, wait_for


def test_the_value_that_is_true_comes_back() -> None:
    values = iter([0, "", [7]])
    assert wait_for(lambda: next(values), timeout=60) == [7]


def test_an_assertion_that_fails_is_tried_again() -> None:
    numbers = iter([1, 2, 3])

    def condition() -> bool:
        assert next(numbers) == 3
        return True

    assert wait_for(condition, timeout=60)


def test_the_last_reason_is_told() -> None:
    def is_three() -> int:
        assert 2 == 3, "it is 2"
        return 3

    with pytest.raises(WaitTimeoutError, match=r"^is_three does not hold after 0.01 s: it is 2\n"):
        wait_for(is_three, timeout=0.01)
    with pytest.raises(WaitTimeoutError, match="the order is late after 0 s: it returns 0"):
        wait_for(lambda: 0, timeout=0, what="the order is late")


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0, timeout=60)
