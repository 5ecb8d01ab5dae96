"""The garbage collector of a server: seldom while it starts, since nearly all that is created then stays.

A start imports hundreds of modules and reads the metadata of all partitions; looking for garbage among them
again and again takes a third of the time.
"""

from __future__ import annotations

import gc

# New objects before garbage is looked for; it bounds what a start without end keeps, for want of a quorum.
OBJECTS_AT_START = 100_000
USUAL = gc.get_threshold()


def collect_seldom() -> None:
    """The start begins."""
    gc.set_threshold(OBJECTS_AT_START, *USUAL[1:])


def collect_as_usual() -> None:
    """The start has ended.

    Objects created so far live as long as the process: freezing them saves the collector from scanning them,
    which would stall the loop for some milliseconds each time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*USUAL)
