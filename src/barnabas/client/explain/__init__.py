"""Why is this consumer stuck?  Collects facts about a group and draws conclusions from them.

    facts = await gather(admin, "billing")
    for diagnosis in diagnose(facts):
        print(diagnosis.summary)

`facts` and `rules` are pure: callers with other sources of facts (a console within the broker, a test kit
that holds the consumer itself) use them without `gather`.
"""

from __future__ import annotations

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import (
    Denial,
    Facts,
    Group,
    GroupEvent,
    Member,
    OpenTransaction,
    PartitionFacts,
)
from barnabas.client.explain.rules import diagnose

__all__ = [
    "Cause",
    "Denial",
    "Diagnosis",
    "Facts",
    "Group",
    "GroupEvent",
    "Member",
    "OpenTransaction",
    "PartitionFacts",
    "diagnose",
]
