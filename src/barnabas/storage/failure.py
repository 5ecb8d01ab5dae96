"""What storage raises when a file system lets it down.

What lives here: the one exception that means "this log directory is no longer to be trusted".  What may
not: refusals of a single request; those are plain KafkaErrors and leave the directory in service.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError


class StorageFailure(KafkaError):
    """A log directory failed.  It crosses the wire as KAFKA_STORAGE_ERROR; `dirs` takes the directory offline."""

    def __init__(self, folder: str, action: str, cause: BaseException) -> None:
        self.folder = folder
        self.action = action
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{folder}: {action} failed ({cause}); the log directory is taken offline,"
            " check the device and restart the broker",
        )


class LogRefused(Exception):
    """A log folder that cannot be opened without losing something: says which file, and what to do."""
