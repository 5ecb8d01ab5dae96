"""A record as the rest of the code sees it, timestamp types and limits.

Contains plain data.  Encoding belongs in view.py and build.py, loops over bytes in engine/.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

Header = tuple[str, bytes | None]


class TimestampType(IntEnum):
    """Who set the timestamp of a record: the client that created it, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def config_name(self) -> str:
        """The name in `message.timestamp.type` and in dump-log."""
        return "CreateTime" if self is TimestampType.CREATE_TIME else "LogAppendTime"


class Record(NamedTuple):
    """A record with its absolute offset and timestamp.  A missing key is None, as is the value of a
    tombstone."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
