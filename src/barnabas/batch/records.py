"""One record as the rest of the code sees it, and the words that describe records: timestamp types, limits.

What lives here: plain data.  What may not: bytes on the wire (view, build) and loops over them (engine/).
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
    """Who set the time of a record: the client that created it, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def config_name(self) -> str:
        """The word that `message.timestamp.type` and dump-log use."""
        return "CreateTime" if self is TimestampType.CREATE_TIME else "LogAppendTime"


class Record(NamedTuple):
    """A record with its absolute offset and time.  No key is None, and so is the value of a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
