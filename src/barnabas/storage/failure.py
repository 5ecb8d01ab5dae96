"""What storage raises when a file system lets it down.

What lives here: the one exception that means "this log directory is no longer to be trusted".  What may
not: refusals of a single request; those are plain KafkaErrors and leave the directory in service.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from barnabas.base.errors import ErrorCode, KafkaError


class StorageFailure(KafkaError):
    """A log directory failed.  On the wire it is KAFKA_STORAGE_ERROR; `dirs` takes the directory offline."""

    def __init__(self, folder: str, action: str, cause: BaseException) -> None:
        self.folder = folder
        self.action = action
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{folder}: {action} failed ({cause}); the log directory is taken offline,"
            " check the device and restart the broker",
        )


@contextlib.contextmanager
def failing(folder: str, action: str) -> Iterator[None]:
    """An error of the file system takes the directory out of service."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(folder, action, error) from error
