"""The exception for a failed log directory, with advice on the failed system call.

A rejected request is a plain KafkaError and leaves the directory online.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping

from barnabas.base.errors import ErrorCode, KafkaError

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


class StorageFailure(KafkaError):
    """A log directory failed.  On the wire it is KAFKA_STORAGE_ERROR; `dirs` takes the directory offline.

    This includes lack of space, as in Apache Kafka (KIP-112): background tasks, rolls and the cleaner fail of
    it too, and have no client to respond to.
    """

    def __init__(self, folder: str, action: str, cause: OSError) -> None:
        self.folder = folder
        self.action = action
        advice = "" if cause.errno in _REMEDIES else "; check the device and restart"
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{folder}: {action} failed and its log directory goes offline: {explain(cause)}{advice}",
        )


@contextlib.contextmanager
def failing(folder: str, action: str) -> Iterator[None]:
    """Turns an OSError into a StorageFailure, which takes the directory offline."""
    try:
        yield
    except OSError as error:
        raise StorageFailure(folder, action, error) from error
