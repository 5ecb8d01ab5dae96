"""The exceptions for a log directory that has failed or is full, with advice on the failed system call.

A rejected request is a plain KafkaError and leaves the directory as it is.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping

from barnabas.base.errors import ErrorCode, KafkaError

_NO_SPACE_REASONS: Mapping[int, str] = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
}
NO_SPACE = frozenset(_NO_SPACE_REASONS)
_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: "no space is left on the device; free space there and restart",
    errno.EDQUOT: "the disk quota is used up; raise it or free space there and restart",
    errno.EROFS: "the file system is read-only; mount it writable and restart",
    errno.EACCES: "permission denied; let this user read and write it and restart",
    errno.EPERM: "permission denied; let this user read and write it and restart",
    errno.EIO: "the device reports an input/output error; check it and restart",
    errno.ENOTDIR: "a part of its path is not a folder; correct log.dirs",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n) and restart",
}


def explain(error: OSError) -> str:
    """What a failed system call means for a log directory, and what to do about it."""
    remedy = None if error.errno is None else _REMEDIES.get(error.errno)
    return remedy or error.strerror or str(error)


def has_no_space(error: BaseException) -> bool:
    """Whether a system call failed for lack of space, and nothing else."""
    return isinstance(error, OSError) and error.errno in NO_SPACE


class StorageFailure(KafkaError):
    """A log directory failed.  On the wire it is KAFKA_STORAGE_ERROR; `dirs` takes the directory offline.

    This includes lack of space where what was written so far cannot be undone; elsewhere it is DirectoryFull.
    """

    def __init__(self, folder: str, action: str, cause: OSError) -> None:
        self.folder = folder
        self.action = action
        advice = "" if cause.errno in _REMEDIES else "; check the device and restart"
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{folder}: {action} failed and its log directory goes offline: {explain(cause)}{advice}",
        )


class DirectoryFull(StorageFailure):
    """A log directory has no space, and what was refused has changed nothing.

    The directory stays online: it takes no writes until it has room (`FullDirectories`).  Apache Kafka takes
    it offline (KIP-112), reads and deletions included, until somebody restarts the broker.
    """

    def __init__(self, folder: str, action: str, reason: str) -> None:
        KafkaError.__init__(
            self,
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{folder}: {action} is refused: {reason}; writes are accepted again when there is room",
        )
        self.folder = folder
        self.action = action


def refusal(folder: str, action: str, error: OSError) -> StorageFailure:
    """The exception for a failed write that was undone."""
    if has_no_space(error):
        return DirectoryFull(folder, action, _NO_SPACE_REASONS[error.errno or errno.ENOSPC])
    return StorageFailure(folder, action, error)


@contextlib.contextmanager
def refusing(folder: str, action: str) -> Iterator[None]:
    """For work that changes nothing if it fails: lack of space, and no other error, is a DirectoryFull."""
    try:
        yield
    except OSError as error:
        if has_no_space(error):
            raise refusal(folder, action, error) from error
        raise


@contextlib.contextmanager
def failing(folder: str, action: str) -> Iterator[None]:
    """Turns an OSError into a StorageFailure, which takes the directory offline."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(folder, action, error) from error
