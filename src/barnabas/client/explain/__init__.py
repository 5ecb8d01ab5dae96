"""Why is this consumer stuck?  Facts about a group, and what follows from them.

    facts = await gather(admin, "billing")
    for diagnosis in diagnose(facts):
        print(diagnosis.summary)

`facts` and `rules` are pure: whoever knows the facts in another way (a console within the broker, a test
kit that holds the consumer itself) puts them together without `gather`.
"""

from __future__ import annotations

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import (
    Denial,
    Facts,
    Group,
    Happening,
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
    "Happening",
    "Member",
    "OpenTransaction",
    "PartitionFacts",
    "diagnose",
]
