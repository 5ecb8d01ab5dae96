"""A Quix Streams application: for each event one line with how many its key has had, exactly once.

Run in an environment of its own: `python quix_counts.py BOOTSTRAP STATE_FOLDER HOW_MANY`.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application, State


def counted(event: dict[str, Any], state: State) -> dict[str, Any]:
    count = state.get("count", 0) + 1
    state.set("count", count)
    return {"count": count, "number": event["number"]}


def main(bootstrap: str, folder: str, how_many: str) -> None:
    app = Application(
        broker_address=bootstrap,
        consumer_group="quix-counts",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.5,
        state_dir=folder,
    )
    events = app.topic("events", value_deserializer="json")
    counts = app.topic("event-counts", value_serializer="json")
    app.dataframe(events).apply(counted, stateful=True).to_topic(counts)
    app.run(count=int(how_many), timeout=60)


main(*sys.argv[1:])
