"""All requests that two brokers are held against each other with, in the order in which they are sent."""

from __future__ import annotations

from tests.verify.answers.asks import admin as broker_asks_admin
from tests.verify.answers.asks import cluster as broker_asks_cluster
from tests.verify.answers.asks import configs as broker_asks_configs
from tests.verify.answers.asks import records as broker_asks_records
from tests.verify.answers.asks import topics as broker_asks_topics
from tests.verify.answers.broker_ask import Ask, Raw

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
