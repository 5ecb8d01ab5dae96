"""Reads, writes and sends on file descriptors, by the fastest means of this system.

Contains the list of features that only some systems have, and loops that complete partial operations.  Paths,
caches and the lifetime of descriptors belong elsewhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.runtime.disk.disk import Buffer, Sink, refuse

IO_VECTOR_MAX = 1024
"""Buffers in one gathered write; Linux and macOS both allow 1,024."""

RESIDENT_PROBE_BYTES = 256 * 1024
"""Touch one byte per this many bytes: the kernel's own read-ahead."""

PLAIN_SEND_BYTES = 256 * 1024
"""The maximum copied for one send where sendfile is missing."""

# Target of reads whose only purpose is to load the page cache.
_DISCARDED = bytearray(64 * 1024)

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_FULL_SYNC: int = getattr(fcntl, "F_FULLFSYNC", 0)
_DESCRIPTION_LOCK: int = getattr(fcntl, "F_OFD_SETLK", 0)
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""Linux's `struct flock` on 64 bits: an exclusive lock from 0 to the end."""

_NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOTSOCK})


@dataclass(frozen=True, slots=True)
class DiskFeatures:
    """What this system offers beyond plain reads and writes; tests switch features off."""

    sendfile: bool = hasattr(os, "sendfile")
    gathered_io: bool = hasattr(os, "pwritev") and hasattr(os, "preadv")
    residency: bool = _NOWAIT != 0 and hasattr(os, "preadv")
    memory_files: bool = hasattr(os, "memfd_create")
    data_sync: bool = hasattr(os, "fdatasync")
    full_sync: bool = _FULL_SYNC != 0
    file_system_sync: bool = sys.platform == "linux"
    description_locks: bool = _DESCRIPTION_LOCK != 0 and sys.maxsize > 2**32


ALL_FEATURES = DiskFeatures()
NO_FEATURES = DiskFeatures(
    sendfile=False,
    gathered_io=False,
    residency=False,
    memory_files=False,
    data_sync=False,
    full_sync=False,
    file_system_sync=False,
    description_locks=False,
)


def total_bytes(parts: Sequence[Buffer]) -> int:
    return sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)


def write_all(descriptor: int, parts: Sequence[Buffer], offset: int, features: DiskFeatures) -> int:
    """Write all parts from `offset` on; returns the count.  When it raises, some bytes may be written."""
    total = total_bytes(parts)
    written = 0
    if features.gathered_io and 0 < len(parts) <= IO_VECTOR_MAX:
        written = os.pwritev(descriptor, parts, offset)
    if written < total:
        _write_remaining(descriptor, parts, written, offset, features)
    return total


def _write_remaining(
    descriptor: int, parts: Sequence[Buffer], written: int, offset: int, features: DiskFeatures
) -> None:
    """Continue after a partial write, or with more parts than one call accepts."""
    views = [memoryview(part).cast("B") for part in parts]
    index = 0
    skip = written
    while index < len(views):
        if skip >= len(views[index]):
            skip -= len(views[index])
            index += 1
            continue
        first = views[index][skip:]
        if features.gathered_io:
            step = os.pwritev(
                descriptor, [first, *views[index + 1 : index + IO_VECTOR_MAX]], offset + written
            )
        else:
            step = os.pwrite(descriptor, first, offset + written)
        if step == 0:
            raise OSError(
                errno.EIO, "the file accepts no more bytes without giving a reason: check the device"
            )
        skip += step
        written += step


def read_full(descriptor: int, offset: int, length: int) -> bytes:
    """`length` bytes, fewer only at the end of the file."""
    data = os.pread(descriptor, length, offset)
    if len(data) == length or not data:
        return data
    pieces = [data]
    done = len(data)
    while done < length:
        data = os.pread(descriptor, length - done, offset + done)
        if not data:
            break
        pieces.append(data)
        done += len(data)
    return b"".join(pieces)


def read_into(descriptor: int, offset: int, buffer: bytearray | memoryview, features: DiskFeatures) -> int:
    """Fill the buffer; returns the count, which is less than its size only at the end of the file."""
    with memoryview(buffer).cast("B") as view:
        done = 0
        while done < len(view):
            if features.gathered_io:
                step = os.preadv(descriptor, [view[done:]], offset + done)
            else:
                data = os.pread(descriptor, len(view) - done, offset + done)
                step = len(data)
                view[done : done + step] = data
            if step == 0:
                break
            done += step
        return done


def send_range(
    descriptor: int, offset: int, length: int, sink: Sink, features: DiskFeatures, path: str
) -> int:
    """Send up to `length` bytes; returns the count, at least 1.  ESTALE if the file is shorter by now."""
    sent = -1
    target = sink.fileno() if features.sendfile else -1
    if target >= 0:
        try:
            sent = os.sendfile(target, descriptor, offset, length)
        except OSError as error:
            # Some file systems and sockets do not support sendfile; the plain way works on all of them.
            if error.errno not in _NOT_SUPPORTED:
                raise
    if sent < 0:
        data = os.pread(descriptor, min(length, PLAIN_SEND_BYTES), offset)
        sent = sink.send(data) if data else 0
    if sent == 0:
        refuse(
            errno.ESTALE, path, "the file was truncated below this slice: close the connection, fetch again"
        )
    return sent


def is_resident(descriptor: int, offset: int, length: int, features: DiskFeatures) -> bool:
    """False when part of the range is certainly not in the page cache; True when unknown."""
    if not features.residency or length <= 0:
        return True
    probe = [bytearray(1)]
    last = offset + length - 1
    try:
        for position in range(offset, last, RESIDENT_PROBE_BYTES):
            os.preadv(descriptor, probe, position, _NOWAIT)
        os.preadv(descriptor, probe, last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    return True


def bring_in(descriptor: int, offset: int, length: int, features: DiskFeatures) -> None:
    """Wait until the range is in the page cache, up to the end of the file.

    One call, which releases the interpreter lock while it waits, and always into the same few pages, which
    stay in the processor's cache: fresh memory for data that is not used would cost more than the reading.
    """
    end = offset + length
    while offset < end:
        count = min(IO_VECTOR_MAX, -(-(end - offset) // len(_DISCARDED)))
        if features.gathered_io:
            step = os.preadv(descriptor, [_DISCARDED] * count, offset)
        else:
            step = len(os.pread(descriptor, len(_DISCARDED), offset))
        if not step:
            return
        offset += step


def sync(descriptor: int, features: DiskFeatures) -> None:
    """Write the content to stable storage.

    fdatasync also writes the file's size when that is needed to read the data back, and avoids the journal
    entry for its times.  On macOS only F_FULLFSYNC flushes the drive's own cache.
    """
    if features.full_sync:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    elif features.data_sync:
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def sync_file_system(descriptor: int) -> None:
    """Write everything on the file system of an open file or folder to stable storage (Linux).

    One wait for the device instead of one per file: two thousand small files took 0.06 s, one by one 0.8 s.
    """
    import ctypes  # imported here because it would cost every start some milliseconds

    library = ctypes.CDLL(None, use_errno=True)
    if library.syncfs(descriptor) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def lock_exclusively(descriptor: int, features: DiskFeatures) -> None:
    """Raises BlockingIOError when the lock is held, by this process or another.

    An open file description lock excludes Java's FileChannel locks (so that Apache Kafka on the same folder
    is detected) and, unlike those, is not lost when the process closes another descriptor of the file. On
    Linux flock does not conflict with them; elsewhere it does.
    """
    if features.description_locks:
        try:
            fcntl.fcntl(descriptor, _DESCRIPTION_LOCK, _WHOLE_FILE)
            return
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
            if error.errno not in _NOT_SUPPORTED:
                raise
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def nameless_file(features: DiskFeatures) -> int:
    """A descriptor of a file without a name, in memory if the system can, else in the temporary folder."""
    if features.memory_files:
        return os.memfd_create("barnabas")
    import tempfile  # only needed where the system cannot, and slow to import

    descriptor, path = tempfile.mkstemp(prefix="barnabas-")
    os.unlink(path)
    return descriptor
