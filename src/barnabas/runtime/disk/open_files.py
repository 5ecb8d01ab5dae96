"""How many descriptors this process may have, and how files and connections share them.

Connections must never take the last descriptors: a log that cannot open its file has failed, while a rejected
client reconnects.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.runtime.disk.descriptor_cache import OPEN_FILES_MAX

FILES_PART = 4
"""Files get a quarter of the limit, up to OPEN_FILES_MAX."""

OTHERS = 32
"""For other descriptors: folders, locks, the poller, log files, the standard streams."""

UNLIMITED = 1 << 20
"""The limit we assume where the system has none."""


class Shares(NamedTuple):
    """`connections_below`: a connection whose descriptor is not below this number is rejected."""

    files: int
    connections_below: int


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as Java does; returns the new limit."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    new_limit = max(soft, UNLIMITED) if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    except (OSError, ValueError):
        return soft
    return new_limit


def share(limit: int) -> Shares:
    files = max(1, min(OPEN_FILES_MAX, limit // FILES_PART))
    return Shares(files, limit - files - OTHERS)
