"""Common base classes of the client's exceptions, and the mapping from error codes to classes.

Single errors belong in `data`, `groups` and `cluster`; those that no broker sends in `local`.
"""

from __future__ import annotations

from typing import ClassVar

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError

_CLASSES: dict[int, type[ClientError]] = {}


class ClientError(KafkaError):
    """An error from the cluster or from the client itself."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        if code is not None:
            cls.error_code = code
            _CLASSES.setdefault(code, cls)

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.error_code, message)
        if self.advice:
            # Tracebacks show notes below the message.
            self.add_note(self.advice)

    @property
    def advice(self) -> str:
        """Advice for the user."""
        return " ".join((type(self).__doc__ or "").split())


class RetriableError(ClientError):
    """A retry may succeed."""


class InvalidMetadataError(RetriableError):
    """A retry with fresh metadata may succeed."""


class AuthenticationError(ClientError):
    """The broker could not authenticate the client."""


class AuthorizationError(ClientError):
    """The client is authenticated but not authorized."""


class UnknownCodeError(ClientError):
    """The broker is newer than this client: its documentation explains the code."""


def error_for(code: int, message: str | None = None) -> ClientError:
    """Return the exception for an error code of a broker."""
    known = _CLASSES.get(code)
    if known is not None:
        return known(message)
    return UnknownCodeError(message or f"the broker responded with the unknown error code {code}")


def is_retriable(code: int) -> bool:
    return code in _CLASSES and ERRORS[ErrorCode(code)].retriable


def check(code: int, message: str | None = None) -> None:
    """Raise the error of the code, unless it is 0."""
    if code:
        raise error_for(code, message)
