"""One exception per error code, and its message."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.client import errors
from barnabas.client.errors.base import check, error_for, is_retriable


@pytest.mark.parametrize("code", [code for code in ErrorCode if code])
def test_every_code_has_a_class_with_advice(code: ErrorCode) -> None:
    error = error_for(code)
    row = ERRORS[code]
    assert (error.code, error.message) == (code, row.text)
    assert error.retriable == row.retriable == isinstance(error, errors.RetriableError) == is_retriable(code)
    assert isinstance(error, errors.InvalidMetadataError) == row.invalid_metadata
    assert error.advice.endswith(".")
    assert error.__notes__ == [error.advice]
    assert getattr(errors, type(error).__name__) is type(error)
    assert isinstance(error, KafkaError)


def test_each_class_stands_for_one_code() -> None:
    classes = [type(error_for(code)) for code in ErrorCode if code]
    assert len(set(classes)) == len(classes)


def test_a_code_from_the_future() -> None:
    error = error_for(999)
    assert "999" in error.message
    assert "newer" in error.advice
    assert not is_retriable(999)


def test_checking() -> None:
    check(0)
    with pytest.raises(errors.TopicAlreadyExistsError, match="words of the broker"):
        check(36, "words of the broker")


def test_a_time_out_is_one_for_python_too() -> None:
    with pytest.raises(TimeoutError):
        raise errors.KafkaTimeoutError("too late")
    assert issubclass(errors.NoBrokersError, errors.RetriableError)
