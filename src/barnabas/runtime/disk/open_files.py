"""How many descriptors this process may have, and how files and connections share them.

What lives here: the system's limit and the shares.  What may not: opening anything.

Connections must never take the last descriptors: a log that cannot open its file has failed, a client who is
not let in comes again.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.runtime.disk.descriptor_cache import OPEN_FILES_MAX

FILES_PART = 4
"""Files get a quarter of the limit, up to OPEN_FILES_MAX."""

OTHERS = 32
"""For what is opened besides: folders, locks, the poller, the log, the standard streams."""

UNLIMITED = 1 << 20
"""What we take for a limit where the system has none."""


class Shares(NamedTuple):
    """`connections_below`: a connection whose descriptor's number is not below this one is not let in."""

    files: int
    connections_below: int


def raise_limit() -> int:
    """Take all that the system allows without asking anybody, as Java does; the limit from now on."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return UNLIMITED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    wanted = max(soft, UNLIMITED) if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def share(limit: int) -> Shares:
    files = max(1, min(OPEN_FILES_MAX, limit // FILES_PART))
    return Shares(files, limit - files - OTHERS)
