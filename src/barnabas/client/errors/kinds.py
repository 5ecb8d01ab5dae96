"""What the exceptions of the client have in common.

What lives here: the families (retriable, stale metadata, security) and the way from an error code to its
class.  What may not: single errors (data, groups, cluster), and those that no broker sends (local).
"""

from __future__ import annotations

from typing import ClassVar

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError

_CLASSES: dict[int, type[ClientError]] = {}


class ClientError(KafkaError):
    """A refusal of the cluster, or of the client itself."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, code: ErrorCode | None = None) -> None:
        if code is not None:
            cls.error_code = code
            _CLASSES.setdefault(code, cls)

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.error_code, message)
        if self.advice:
            # A traceback shows it below the message.
            self.add_note(self.advice)

    @property
    def advice(self) -> str:
        """What to do about it."""
        return " ".join((type(self).__doc__ or "").split())


class RetriableError(ClientError):
    """The same may succeed later."""


class InvalidMetadataError(RetriableError):
    """The same may succeed when the client has fresh metadata."""


class AuthenticationError(ClientError):
    """The broker does not believe who this is."""


class AuthorizationError(ClientError):
    """The broker knows who this is, and refuses."""


class UnknownCodeError(ClientError):
    """The broker is newer than this client: its documentation explains the code."""


def error_for(code: int, message: str | None = None) -> ClientError:
    """The exception of a code that a broker sent."""
    known = _CLASSES.get(code)
    if known is not None:
        return known(message)
    return UnknownCodeError(message or f"the broker answers with the unknown error code {code}")


def is_retriable(code: int) -> bool:
    return code in _CLASSES and ERRORS[ErrorCode(code)].retriable


def check(code: int, message: str | None = None) -> None:
    """Raise unless the code says that all is well."""
    if code:
        raise error_for(code, message)
