"""All requests that two brokers are held against each other with, in the order in which they are sent."""

from __future__ import annotations

from tests.verify import (
    broker_asks_admin,
    broker_asks_cluster,
    broker_asks_configs,
    broker_asks_records,
    broker_asks_topics,
)
from tests.verify.broker_ask import Ask, Raw

ASKS: tuple[Ask | Raw, ...] = (
    *broker_asks_cluster.FIRST,
    *broker_asks_topics.ASKS,
    *broker_asks_records.PRODUCED,
    *broker_asks_records.READ,
    *broker_asks_configs.ASKS,
    *broker_asks_admin.ASKS,
    *broker_asks_cluster.LAST,
)
# Title, with the version -> API.
APIS: dict[str, str] = {
    title: one.api or "Raw"
    for one in ASKS
    for title in (
        [one.title] if isinstance(one, Raw) else [f"{one.title} v{version}" for version in one.versions]
    )
}
